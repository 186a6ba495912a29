"""The whole model: an encoder and a decoder of attention alone, and how they read and write.

Tokens are whole numbers, ``(batch, length)``. All maps of weights are ``(batch, heads, queries, keys)``, one
for each layer.
"""

import math
from collections.abc import Callable
from typing import Literal, NamedTuple, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from attncourse.decoding import Decoded, greedy
from attncourse.masks import causal_mask, padding_mask
from attncourse.multihead import Cache
from attncourse.position import LearnedPositions, add_positions, alibi_bias, rotate, sinusoidal
from attncourse.qkv import scaled_dot_scores
from attncourse.selfattention import DecoderBlock, EncoderBlock
from attncourse.validation import check_at_least, check_shape, check_tokens

Positions = Literal["sinusoidal", "learned", "rotary", "alibi", "none"]


class Maps(NamedTuple):
    """Holds the attention weights of every layer, before dropout.

    Attributes:
        encoder: ``(batch, heads, source, source)``, one for each layer.
        decoder: ``(batch, heads, target, target)``, one for each layer.
        cross: ``(batch, heads, target, source)``, one for each layer.
    """

    encoder: tuple[Tensor, ...]
    decoder: tuple[Tensor, ...]
    cross: tuple[Tensor, ...]


class State(NamedTuple):
    """Holds what the model knows while it writes: the source, and what it has written so far.

    Attributes:
        memory: what the encoder made of the source.
        memory_mask: True where the source is no padding; None if there is none.
        written: the tokens read so far, if nothing is cached.
        caches: of each decoder layer, for its own keys and for those of the source.
    """

    memory: Float[Tensor, "batch source d_model"]
    memory_mask: Bool[Tensor, "batch 1 source"] | None
    written: Int[Tensor, "batch length"]
    caches: list[tuple[Cache, Cache]] | None


def rotary_scores(
    query: Float[Tensor, "*#batch queries d_key"], key: Float[Tensor, "*#batch keys d_key"]
) -> Float[Tensor, "*batch queries keys"]:
    """Scores by the scaled dot product of queries and keys that are turned by their positions.

    Args:
        query: what each position looks for; the queries are the last positions of the keys.
        key: what each position offers to be found by, from position 0 on.

    Returns:
        Scores, without unit; positions count through the distance alone.

    Raises:
        ValueError: if the width is odd.

    Source: Su et al. (2021), arXiv:2104.09864, section 3.2.2. Chapter: ``position``, rotary.
    """
    past = key.shape[-2] - query.shape[-2]
    return scaled_dot_scores(rotate(query, start=past), rotate(key))


def alibi_scores(
    query: Float[Tensor, "*#batch heads queries d_key"], key: Float[Tensor, "*#batch heads keys d_key"]
) -> Float[Tensor, "*batch heads queries keys"]:
    """Scores by the scaled dot product, less the distance times the slope of the head.

    Args:
        query: what each position looks for; the queries are the last positions of the keys.
        key: what each position offers to be found by, from position 0 on.

    Returns:
        Scores, without unit.

    Source: Press et al. (2022), arXiv:2108.12409, section 3. Chapter: ``position``, linear bias.
    """
    heads, queries, keys = *query.shape[-3:-1], key.shape[-2]
    bias = alibi_bias(heads, queries, keys, past=keys - queries, device=query.device, dtype=query.dtype)
    return scaled_dot_scores(query, key) + bias


class Embedding(nn.Module):
    """Holds the vectors of the tokens, and adds those of the positions if they are of the kind that is added.

    Args:
        vocabulary: number of different tokens.
        d_model: width of a vector.
        positions: ``"sinusoidal"`` and ``"learned"`` are added here; ``"rotary"`` and ``"alibi"`` change the
            scores of self-attention; ``"none"`` leaves order to the causal mask. ALiBi counts distance and
            not direction, so an encoder with it cannot tell a sequence from its mirror image.
        max_length: number of learned positions, in tokens; the other kinds have no limit.
        dropout: probability that a number of a vector is set to 0, in training only.

    Attributes:
        score: stage 1 of self-attention that goes with the positions.

    Raises:
        ValueError: if ``positions`` is none of these.

    Source: Vaswani et al. (2017), sections 3.4, 3.5 and 5.4. Chapter: ``transformer``.
    """

    def __init__(
        self,
        vocabulary: int,
        d_model: int,
        *,
        positions: Positions = "sinusoidal",
        max_length: int = 512,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if positions not in get_args(Positions):
            raise ValueError(f"positions must be one of {get_args(Positions)}, but is {positions!r}")
        self.positions = positions
        self.score = {"rotary": rotary_scores, "alibi": alibi_scores}.get(positions, scaled_dot_scores)
        self.tokens = nn.Embedding(vocabulary, d_model)
        # Times √d_model these are of variance 1, as sines and cosines nearly are.
        nn.init.normal_(self.tokens.weight, std=d_model**-0.5)
        self.learned = LearnedPositions(max_length, d_model) if positions == "learned" else None
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, tokens: Int[Tensor, "batch length"], *, start: int = 0
    ) -> Float[Tensor, "batch length d_model"]:
        """Gives the vector of each token at its place.

        Args:
            tokens: whole numbers below ``vocabulary``.
            start: position of the first of them, in tokens.

        Returns:
            Vectors of width ``d_model``.

        Raises:
            ValueError: if a token is not in the vocabulary, or if positions are learned and one lies beyond
                ``max_length``.
        """
        check_tokens(tokens, self.tokens.num_embeddings)
        length, d_model = tokens.shape[-1], self.tokens.embedding_dim
        vectors = self.tokens(tokens) * math.sqrt(d_model)
        if self.positions == "sinusoidal":
            table = sinusoidal(length, d_model, start=start, device=vectors.device, dtype=vectors.dtype)
            vectors = add_positions(vectors, table)
        elif self.learned is not None:
            vectors = add_positions(vectors, self.learned(length, start=start))
        return self.dropout(vectors)


class Encoder(nn.Module):
    """Holds the embedding and the blocks that read one sequence.

    Args:
        vocabulary: number of different tokens.
        d_model: width of a vector.
        heads: number of heads of each layer; it divides ``d_model``.
        layers: number of blocks.
        d_feedforward: width inside the feed-forward networks; ``4 * d_model`` if left out.
        positions: kind of position encoding, as in ``Embedding``.
        max_length: number of learned positions, in tokens.
        pre_norm: whether the norms stand before the parts (True, with one more norm at the end) or after the
            sums (False).
        activation: function inside the feed-forward networks.
        dropout: probability of dropout, in training only.
        bias: whether projections and norms add a bias.

    Raises:
        ValueError: if ``heads`` does not divide ``d_model``, ``positions`` is unknown, or there is no layer.

    Source: Vaswani et al. (2017), section 3.1. Chapter: ``transformer``.
    """

    block = EncoderBlock

    def __init__(
        self,
        vocabulary: int,
        *,
        d_model: int,
        heads: int,
        layers: int,
        d_feedforward: int | None = None,
        positions: Positions = "sinusoidal",
        max_length: int = 512,
        pre_norm: bool = True,
        activation: Callable[[Tensor], Tensor] = F.relu,
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__()
        check_at_least(1, layers=layers)
        self.embedding = Embedding(
            vocabulary, d_model, positions=positions, max_length=max_length, dropout=dropout
        )
        self.blocks = nn.ModuleList(
            self.block(
                d_model,
                heads,
                d_feedforward=d_feedforward,
                pre_norm=pre_norm,
                activation=activation,
                dropout=dropout,
                bias=bias,
            )
            for _ in range(layers)
        )
        # In pre-norm no norm stands after the last sum.
        self.norm = nn.LayerNorm(d_model, bias=bias) if pre_norm else nn.Identity()

    def forward(
        self, tokens: Int[Tensor, "batch length"], mask: Bool[Tensor, "..."] | None = None
    ) -> tuple[Float[Tensor, "batch length d_model"], tuple[Float[Tensor, "batch heads length length"], ...]]:
        """Reads a sequence.

        Args:
            tokens: whole numbers below ``vocabulary``.
            mask: True where the query may attend to the key; broadcasts to ``(batch, length, length)``.

        Returns:
            ``(output, maps)``: one vector for each token, and the weights of each layer.

        Raises:
            ValueError: if the mask does not fit.
        """
        vectors, maps = self.embedding(tokens), []
        for block in self.blocks:
            vectors, weights = block(vectors, mask, score=self.embedding.score)
            maps.append(weights)
        return self.norm(vectors), tuple(maps)


class Decoder(Encoder):
    """Holds the embedding and the blocks that read a target, from left to right, and look at a memory.

    Args, Raises and Source are those of ``Encoder``. Chapter: ``transformer``.
    """

    block = DecoderBlock

    def forward(
        self,
        tokens: Int[Tensor, "batch length"],
        memory: Float[Tensor, "batch keys d_model"],
        memory_mask: Bool[Tensor, "..."] | None = None,
        *,
        caches: list[tuple[Cache, Cache]] | None = None,
    ) -> tuple[
        Float[Tensor, "batch length d_model"],
        tuple[Float[Tensor, "batch heads length read"], ...],
        tuple[Float[Tensor, "batch heads length keys"], ...],
    ]:
        """Reads a target.

        Args:
            tokens: whole numbers below ``vocabulary``.
            memory: what the encoder made of the source.
            memory_mask: True where the query may attend to the memory; broadcasts to
                ``(batch, length, keys)``.
            caches: of each layer, as in ``DecoderBlock``; the tokens then follow those read before.

        Returns:
            ``(output, self maps, cross maps)``: one vector for each token, and the weights of each layer.

        Raises:
            ValueError: if the mask does not fit.
        """
        vectors = self.embedding(tokens, start=caches[0][0].length if caches else 0)
        maps = []
        for layer, block in enumerate(self.blocks):
            vectors, weights = block(
                vectors,
                memory,
                memory_mask=memory_mask,
                caches=caches[layer] if caches else None,
                score=self.embedding.score,
            )
            maps.append(weights)
        own, cross = zip(*maps, strict=True) if maps else ((), ())
        return self.norm(vectors), own, cross


class CausalModel(nn.Module):
    """Holds a model that reads one sequence and scores the next token at each place.

    Args:
        vocabulary: number of different tokens.
        d_model: width of a vector.
        heads: number of heads of each layer; it divides ``d_model``.
        layers: number of blocks.
        causal: whether a place sees only itself and what lies before it. If not, the model scores a token for
            each place from the whole sequence.
        options: the other arguments of ``Encoder``.

    Raises:
        ValueError: as ``Encoder``.

    Source: Radford et al. (2018), section 3.1: a decoder without a source. Chapters: ``selfattention``,
    ``position``.
    """

    def __init__(
        self, vocabulary: int, *, d_model: int, heads: int, layers: int, causal: bool = True, **options
    ) -> None:
        super().__init__()
        self.causal = causal
        self.encoder = Encoder(vocabulary, d_model=d_model, heads=heads, layers=layers, **options)
        self.readout = nn.Linear(d_model, vocabulary)

    def forward(
        self, tokens: Int[Tensor, "batch length"], mask: Bool[Tensor, "..."] | None = None
    ) -> tuple[
        Float[Tensor, "batch length vocabulary"], tuple[Float[Tensor, "batch heads length length"], ...]
    ]:
        """Reads a sequence.

        Args:
            tokens: whole numbers below ``vocabulary``.
            mask: joined with the causal mask, if there is one; broadcasts to ``(batch, length, length)``.

        Returns:
            ``(logits, maps)``: scores of the next token at each place, and the weights of each layer.

        Raises:
            ValueError: if the mask does not fit.
        """
        if self.causal:
            causal = causal_mask(tokens.shape[-1], device=tokens.device)
            mask = causal if mask is None else causal & mask
        vectors, maps = self.encoder(tokens, mask)
        return self.readout(vectors), maps


class Transformer(nn.Module):
    """Holds an encoder, a decoder, and the readout that scores the next token.

    Args:
        source_vocabulary: number of different tokens of the source.
        target_vocabulary: number of different tokens of the target.
        d_model: width of a vector.
        heads: number of heads of each layer; it divides ``d_model``.
        encoder_layers: number of encoder blocks.
        decoder_layers: number of decoder blocks; as many as the encoder's if left out.
        share_output: whether the readout's weight is the table of the target's embedding.
        options: the other arguments of ``Encoder``, for encoder and decoder alike.

    Raises:
        ValueError: as ``Encoder``.

    Source: Vaswani et al. (2017), section 3; they also share the source's embedding. Chapter:
    ``transformer``.
    """

    def __init__(
        self,
        source_vocabulary: int,
        target_vocabulary: int,
        *,
        d_model: int,
        heads: int,
        encoder_layers: int,
        decoder_layers: int | None = None,
        share_output: bool = False,
        **options,
    ) -> None:
        super().__init__()
        options |= {"d_model": d_model, "heads": heads}
        decoder_layers = encoder_layers if decoder_layers is None else decoder_layers
        self.encoder = Encoder(source_vocabulary, layers=encoder_layers, **options)
        self.decoder = Decoder(target_vocabulary, layers=decoder_layers, **options)
        self.readout = nn.Linear(d_model, target_vocabulary)
        if share_output:
            self.readout.weight = self.decoder.embedding.tokens.weight

    def encode(
        self, source: Int[Tensor, "batch source"], source_lengths: Int[Tensor, " batch"] | None = None
    ) -> tuple[
        Float[Tensor, "batch source d_model"],
        Bool[Tensor, "batch 1 source"] | None,
        tuple[Float[Tensor, "batch heads source source"], ...],
    ]:
        """Reads the source.

        Args:
            source: tokens, padded at the end.
            source_lengths: number of tokens of each source that are no padding; all if left out.

        Returns:
            ``(memory, memory_mask, maps)``: one vector for each token, True where the source is no padding
            (None without lengths), and the weights of each encoder layer.

        Raises:
            ValueError: if there is not one length for each source, or one does not lie between 0 and the
                source's.
        """
        mask = None
        if source_lengths is not None:
            check_shape("source_lengths", source_lengths, source.shape[:1])
            mask = padding_mask(source_lengths, source.shape[-1])
        memory, maps = self.encoder(source, mask)
        return memory, mask, maps

    def decode(
        self,
        target: Int[Tensor, "batch target"],
        memory: Float[Tensor, "batch source d_model"],
        memory_mask: Bool[Tensor, "..."] | None = None,
        *,
        caches: list[tuple[Cache, Cache]] | None = None,
    ) -> tuple[
        Float[Tensor, "batch target vocabulary"],
        tuple[Float[Tensor, "batch heads target read"], ...],
        tuple[Float[Tensor, "batch heads target source"], ...],
    ]:
        """Reads the target and scores what comes next at each place.

        Args:
            target: tokens; with caches those after the ones read before.
            memory: from ``encode``.
            memory_mask: from ``encode``.
            caches: from ``new_caches``; this call adds to them.

        Returns:
            ``(logits, self maps, cross maps)``.

        Raises:
            ValueError: if the mask does not fit, or target and memory differ in their number of sequences.
        """
        if target.shape[0] != memory.shape[0]:
            raise ValueError(
                "source and target need the same number of sequences, "
                f"but have {memory.shape[0]} and {target.shape[0]}"
            )
        vectors, own, cross = self.decoder(target, memory, memory_mask, caches=caches)
        return self.readout(vectors), own, cross

    def forward(
        self,
        source: Int[Tensor, "batch source"],
        target: Int[Tensor, "batch target"],
        source_lengths: Int[Tensor, " batch"] | None = None,
    ) -> tuple[Float[Tensor, "batch target vocabulary"], Maps]:
        """Reads source and target, and scores the next token of the target at each place.

        Padding at the end of the target needs no mask: no token before it sees it.

        Args:
            source: tokens, padded at the end.
            target: what the decoder reads: the start token, then the target without its last token.
            source_lengths: number of tokens of each source that are no padding; all if left out.

        Returns:
            ``(logits, maps)``.

        Raises:
            ValueError: if source, target and lengths differ in their number of sequences, or a length does
                not lie between 0 and the source's.
        """
        memory, memory_mask, maps = self.encode(source, source_lengths)
        logits, own, cross = self.decode(target, memory, memory_mask)
        return logits, Maps(maps, own, cross)

    def new_caches(self) -> list[tuple[Cache, Cache]]:
        """Gives empty caches for one batch of targets: for each decoder layer one that grows, one fixed."""
        return [(Cache(), Cache(fixed=True)) for _ in self.decoder.blocks]

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
        cache: bool = True,
    ) -> Decoded:
        """Writes a target for each source.

        The model is used in the mode in which it is: call ``eval()`` first, or dropout takes part.

        Args:
            source: tokens, padded at the end.
            source_lengths: number of tokens of each source that are no padding; all if left out.
            start: id of the token that is read first.
            end: id of the token that ends a target.
            max_length: largest number of tokens to write, the end token included.
            search: ``greedy``, ``sample`` or ``beam_search``; for their options, ``functools.partial``.
            cache: whether keys and values are kept from step to step. The result is the same up to rounding;
                without it each step reads all that was written once more.

        Returns:
            The tokens written, without the start token, and their log-probability.

        Raises:
            ValueError: if there is not one length for each source, if one does not lie between 0 and the
                source's, or as the search does.
        """
        memory, memory_mask, _ = self.encode(source, source_lengths)
        state = State(memory, memory_mask, source[:, :0], self.new_caches() if cache else None)
        return search(
            self._step,
            state,
            select=_select,
            batch=source.shape[0],
            start=start,
            end=end,
            max_length=max_length,
            device=source.device,
        )

    def _step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Reads one token of each row, and scores the next."""
        target = tokens.unsqueeze(-1)
        if state.caches is None:
            target = torch.cat([state.written, target], dim=-1)
            state = state._replace(written=target)
        logits, _, _ = self.decode(target, state.memory, state.memory_mask, caches=state.caches)
        return logits[:, -1], state


def _select(state: State, rows: Tensor) -> State:
    """Gives the state of some rows, in this order."""
    mask, caches = state.memory_mask, state.caches
    return State(
        memory=state.memory.index_select(0, rows),
        memory_mask=None if mask is None else mask.index_select(0, rows),
        written=state.written.index_select(0, rows),
        caches=None
        if caches is None
        else [(own.select(rows), source.select(rows)) for own, source in caches],
    )
