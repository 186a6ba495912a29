"""Sequence to sequence: an encoder reads the source, and a recurrent decoder writes the target.

The decoder knows the source through one fixed vector, or through attention in one of two orders. How far the
memory of an encoder reaches is measured here as well, by its gradient.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attncourse.alignment import AdditiveAttention, attentional_state, bahdanau_step, luong_step
from attncourse.decoding import Decoded, greedy
from attncourse.encoders import Encoder
from attncourse.masks import padding_mask
from attncourse.qkv import dot_scores
from attncourse.validation import check_at_least, check_tokens

CELLS = {"rnn": nn.RNNCell, "gru": nn.GRUCell, "lstm": nn.LSTMCell}
Order = Literal["fixed", "bahdanau", "luong"]
Score = Literal["additive", "general", "dot"]


class State(NamedTuple):
    """Holds what the decoder knows before a step, one row a sequence.

    Attributes:
        hidden: the state of the cell, ``(batch, d_state)``; of an LSTM, a tuple of two.
        summary: the fixed vector, ``(batch, d_source)``.
        key: what the source positions are scored by, ``(batch, source, d_key)``.
        value: the states of the encoder, ``(batch, source, d_source)``.
        mask: True where the source has a real token, ``(batch, 1, source)``; None if all are real.
    """

    hidden: Tensor | tuple[Tensor, Tensor]
    summary: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None


class Seq2Seq(nn.Module):
    """Holds an encoder, a recurrent decoder, and what lies between them.

    The three decoders differ in the context alone. All of them predict from ``attentional_state`` of context
    and state, as Luong et al. do; Cho et al. and Bahdanau et al. have a maxout layer there.

    Args:
        source_vocabulary: number of different tokens of the source.
        target_vocabulary: number of different tokens of the target.
        encoder: what reads the source; an embedding is as wide as its inputs.
        d_state: width of the decoder's state.
        decoder: ``"fixed"`` reads the encoder's summary at every step; ``"bahdanau"`` attends, then steps;
            ``"luong"`` steps, then attends.
        cell: of the decoder: ``"rnn"`` (tanh), ``"gru"`` or ``"lstm"``.
        score: of the attention: ``"additive"``, ``"general"`` or ``"dot"``. For ``"dot"`` the encoder's
            states must be as wide as the decoder's.

    Raises:
        ValueError: if a size is below 1, a word is unknown, or the widths do not fit ``"dot"``.

    Source: Cho et al. (2014), arXiv:1406.1078, section 2.2, for the fixed vector; Bahdanau et al. (2015),
    section 3.1; Luong et al. (2015), section 3. Chapter: ``seq2seq``.
    """

    def __init__(
        self,
        source_vocabulary: int,
        target_vocabulary: int,
        *,
        encoder: Encoder,
        d_state: int,
        decoder: Order = "bahdanau",
        cell: Literal["rnn", "gru", "lstm"] = "gru",
        score: Score = "additive",
    ) -> None:
        super().__init__()
        check_at_least(
            1, source_vocabulary=source_vocabulary, target_vocabulary=target_vocabulary, d_state=d_state
        )
        for name, word, known in (
            ("decoder", decoder, get_args(Order)),
            ("cell", cell, tuple(CELLS)),
            ("score", score, get_args(Score)),
        ):
            if word not in known:
                raise ValueError(f"{name} must be one of {known}, but is {word!r}")
        if not isinstance(encoder, Encoder):
            raise ValueError(f"encoder must be one of attncourse.encoders, but is a {type(encoder).__name__}")
        if decoder != "fixed" and score == "dot" and encoder.d_output != d_state:
            raise ValueError(
                "with the score 'dot' the states of encoder and decoder need the same width, "
                f"but have {encoder.d_output} and {d_state}"
            )
        d_input, d_source = encoder.d_input, encoder.d_output
        self.decoder = decoder
        self.source_embedding = nn.Embedding(source_vocabulary, d_input)
        self.target_embedding = nn.Embedding(target_vocabulary, d_input)
        self.encoder = encoder
        self.bridge = nn.Linear(d_source, d_state)
        self.cell = CELLS[cell](d_input if decoder == "luong" else d_input + d_source, d_state)
        self.additive = self.general = None
        if decoder != "fixed" and score == "additive":
            self.additive = AdditiveAttention(d_query=d_state, d_key=d_source, hidden=d_state)
        if decoder != "fixed" and score == "general":
            self.general = nn.Linear(d_source, d_state, bias=False)
        self.join = nn.Linear(d_source + d_state, d_state, bias=False)
        self.readout = nn.Linear(d_state, target_vocabulary)

    def forward(
        self,
        source: Int[Tensor, "batch source"],
        target: Int[Tensor, "batch target"],
        source_lengths: Int[Tensor, " batch"] | None = None,
    ) -> tuple[Float[Tensor, "batch target vocabulary"], Float[Tensor, "batch target source"] | None]:
        """Reads source and target, and scores the next token of the target at each place.

        At each place the decoder reads the true token before it: teacher forcing. Padding at the end of the
        target needs no mask, because no token before it sees it.

        Args:
            source: tokens, padded at the end.
            target: what the decoder reads: the start token, then the target without its last token.
            source_lengths: number of tokens of each source that are no padding; all if left out.

        Returns:
            ``(logits, maps)``: the maps are the weights of attention, None with the fixed vector.

        Raises:
            ValueError: if source and target differ in number, a token is not in its vocabulary, or a length
                does not lie between 0 and the source's.
        """
        if source.shape[0] != target.shape[0]:
            raise ValueError(
                "source and target need the same number of sequences, "
                f"but have {source.shape[0]} and {target.shape[0]}"
            )
        check_tokens(target, self.target_embedding.num_embeddings)
        state = self.begin(source, source_lengths)
        contexts, hiddens, maps = [], [], []
        for inputs in self.target_embedding(target).unbind(dim=1):
            state, context, weights = self.step(state, inputs)
            contexts.append(context)
            hiddens.append(_hidden(state))
            maps.append(weights)
        logits = self.predict(_stack(contexts, state.summary), _stack(hiddens, _hidden(state)))
        return logits, None if self.decoder == "fixed" else _stack(maps, state.value[..., 0])

    def begin(
        self, source: Int[Tensor, "batch source"], source_lengths: Int[Tensor, " batch"] | None = None
    ) -> State:
        """Reads the source, and projects the keys once for all steps.

        Args:
            source: tokens, padded at the end.
            source_lengths: number of tokens of each source that are no padding; all if left out.

        Returns:
            The state before the first step.

        Raises:
            ValueError: if a token is not in the vocabulary, or a length does not lie between 0 and the
                source's.

        Source: Bahdanau et al. (2015), appendix A.2.2, for the first state of the cell, there from the
        backward state alone.
        """
        check_tokens(source, self.source_embedding.num_embeddings)
        encoded = self.encoder(self.source_embedding(source), source_lengths)
        hidden = torch.tanh(self.bridge(encoded.summary))
        key = encoded.states
        if self.additive is not None:
            key = self.additive.project(key)
        elif self.general is not None:
            key = self.general(key)
        return State(
            hidden=(hidden, torch.zeros_like(hidden)) if isinstance(self.cell, nn.LSTMCell) else hidden,
            summary=encoded.summary,
            key=key,
            value=encoded.states,
            mask=None if source_lengths is None else padding_mask(source_lengths, source.shape[1]),
        )

    def step(
        self, state: State, inputs: Float[Tensor, "batch d_input"]
    ) -> tuple[State, Float[Tensor, "batch d_source"], Float[Tensor, "batch source"] | None]:
        """Reads one token of the target.

        Args:
            state: what is known before the step.
            inputs: the embedding of the token.

        Returns:
            ``(state, context, weights)``; the weights are None with the fixed vector.
        """
        if self.decoder == "fixed":
            hidden = self.cell(torch.cat([inputs, state.summary], dim=-1), state.hidden)
            return state._replace(hidden=hidden), state.summary, None
        aligned_step = bahdanau_step if self.decoder == "bahdanau" else luong_step
        score = dot_scores if self.additive is None else self.additive.score_projected
        hidden, context, weights = aligned_step(
            self.cell, state.hidden, inputs, state.key, state.value, state.mask, score=score
        )
        return state._replace(hidden=hidden), context, weights

    def predict(
        self, context: Float[Tensor, "*batch d_source"], hidden: Float[Tensor, "*batch d_state"]
    ) -> Float[Tensor, "*batch vocabulary"]:
        """Scores the next token.

        Args:
            context: what the decoder knows of the source at this step.
            hidden: the state of the cell after the step.

        Returns:
            Logits.
        """
        return self.readout(attentional_state(context, hidden, weight=self.join.weight))

    @torch.no_grad()
    def generate(
        self,
        source: Int[Tensor, "batch source"],
        source_lengths: Int[Tensor, " batch"] | None = None,
        *,
        start: int,
        end: int,
        max_length: int,
        search: Callable[..., Decoded] = greedy,
    ) -> Decoded:
        """Writes a target for each source: the decoder reads what it has written itself.

        Args:
            source: tokens, padded at the end.
            source_lengths: number of tokens of each source that are no padding; all if left out.
            start: id of the token that is read first.
            end: id of the token that ends a target.
            max_length: largest number of tokens to write, the end token included.
            search: ``greedy``, ``sample`` or ``beam_search``; for their options, ``functools.partial``.

        Returns:
            The tokens written, without the start token, and their log-probability.

        Raises:
            ValueError: if a length does not lie between 0 and the source's, or as the search does.
        """
        return search(
            self._write,
            self.begin(source, source_lengths),
            select=_select,
            batch=source.shape[0],
            start=start,
            end=end,
            max_length=max_length,
            device=source.device,
        )

    def _write(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Reads one token of each row, and scores the next."""
        state, context, _ = self.step(state, self.target_embedding(tokens))
        return self.predict(context, _hidden(state)), state


def gradient_norms(
    read: Callable[[Tensor], Tensor], inputs: Float[Tensor, "batch length d_input"], *, position: int = -1
) -> Float[Tensor, "batch length"]:
    """Measures how much the state at one position depends on the input at each: ``‖∂h_position / ∂x_j‖``.

    Args:
        read: gives ``(batch, length, d_state)`` for inputs; each sequence is read for itself. For an encoder,
            ``lambda inputs: encoder(inputs).states``.
        inputs: one vector for each token.
        position: of the state, in tokens; negative counts from the end.

    Returns:
        The Frobenius norm of each Jacobian, at least 0.

    Raises:
        ValueError: if the position lies outside the sequence.

    Source: Pascanu et al. (2013), section 2.1. Chapter: ``seq2seq``, how far the gradient reaches.
    """
    jacobian = _jacobian(read, inputs, position)
    # The square of a small entry would round to 0; after this the largest entry is 1.
    largest = jacobian.abs().amax(dim=(0, -1), keepdim=True)
    scaled = jacobian / largest.masked_fill(largest == 0, 1.0)
    return scaled.square().sum(dim=(0, -1)).sqrt() * largest[0, ..., 0]


def gradient_reach(
    read: Callable[[Tensor], Tensor], inputs: Float[Tensor, "batch length d_input"]
) -> Float[Tensor, "batch length"]:
    """Measures how much the last state depends on the input k tokens before it: ``‖∂h_n / ∂x_{n-k}‖``.

    Args:
        read: gives ``(batch, length, d_state)`` for inputs; each sequence is read for itself. For an encoder,
            ``lambda inputs: encoder(inputs).states``.
        inputs: one vector for each token, at least one token.

    Returns:
        The Frobenius norm for each distance k, from 0 on.

    Raises:
        ValueError: if there is no token.

    Source: Pascanu et al. (2013), section 2.1. Chapter: ``seq2seq``, how far the gradient reaches.
    """
    return gradient_norms(read, inputs).flip(-1)


def gradient_support(
    read: Callable[[Tensor], Tensor], inputs: Float[Tensor, "batch length d_input"], *, position: int = -1
) -> Bool[Tensor, " length"]:
    """Finds the inputs on which the state at one position depends at all: its receptive field.

    Args:
        read: gives ``(batch, length, d_state)`` for inputs; each sequence is read for itself. For an encoder,
            ``lambda inputs: encoder(inputs).states``.
        inputs: one vector for each token; in float64 a small gradient is not rounded to 0.
        position: of the state, in tokens; negative counts from the end.

    Returns:
        True where the gradient is not 0, in at least one of the sequences.

    Raises:
        ValueError: if the position lies outside the sequence.

    Chapter: ``seq2seq``, CNN.
    """
    return (_jacobian(read, inputs, position) != 0).flatten(0, 1).any(dim=-1).any(dim=0)


def _jacobian(
    read: Callable[[Tensor], Tensor], inputs: Tensor, position: int
) -> Float[Tensor, "d_state batch length d_input"]:
    """Gives the derivatives of the state at one position with respect to all inputs of its sequence."""
    length = inputs.shape[1]
    if not -length <= position < length:
        raise ValueError(f"position must lie from {-length} to {length - 1}, but is {position}")
    with torch.enable_grad():
        inputs = inputs.detach().requires_grad_()
        # A state depends on its own sequence alone, so one sum over the batch serves all sequences at once.
        entries = read(inputs)[:, position].sum(dim=0)
        rows = [torch.autograd.grad(entry, inputs, retain_graph=True)[0] for entry in entries]
    return torch.stack(rows)


def _hidden(state: State) -> Tensor:
    """Gives the part of the cell's state that is shown to the outside."""
    return state.hidden if isinstance(state.hidden, Tensor) else state.hidden[0]


def _stack(steps: list[Tensor], like: Tensor) -> Tensor:
    """Stacks what the steps gave along the time, also if there was no step."""
    return torch.stack(steps, dim=1) if steps else like.new_zeros(like.shape[0], 0, *like.shape[1:])


def _select(state: State, rows: Tensor) -> State:
    """Gives the state of some rows, in this order."""

    def part(of: Tensor | tuple | None) -> Tensor | tuple | None:
        if isinstance(of, tuple):
            return tuple(map(part, of))
        return None if of is None else of.index_select(0, rows)

    return State(*map(part, state))
