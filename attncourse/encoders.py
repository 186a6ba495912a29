"""Encoders: three ways to read a sequence. Step by step, through windows, or by looking at all of it at once.

An encoder takes one vector for each token, ``(batch, source, d_input)``, and gives one state for each,
``(batch, source, d_output)``. Padding has the state 0, and what lies there changes no other state.
"""

from typing import Literal, NamedTuple, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from attncourse.masks import padding_mask
from attncourse.position import LearnedPositions, add_positions, sinusoidal
from attncourse.qkv import attend
from attncourse.validation import check_at_least, check_lengths, check_shape

Positions = Literal["none", "learned", "sinusoidal"]
LAYERS = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}


class Encoded(NamedTuple):
    """Holds what an encoder makes of its source.

    Attributes:
        states: one vector for each token, ``(batch, source, d_output)``; 0 at padding.
        summary: one vector for the whole source, ``(batch, d_output)``; 0 for a source without tokens.
        maps: the weights of each attention layer, ``(batch, source, source)``; empty for other encoders.
    """

    states: Tensor
    summary: Tensor
    maps: tuple[Tensor, ...] = ()


def rnn_step(
    inputs: Float[Tensor, "*batch d_input"],
    state: Float[Tensor, "*batch d_state"],
    *,
    input_weight: Float[Tensor, "d_state d_input"],
    state_weight: Float[Tensor, "d_state d_state"],
    bias: Float[Tensor, " d_state"],
) -> Float[Tensor, "*batch d_state"]:
    """Steps once: ``tanh(input_weight · inputs + state_weight · state + bias)``.

    Args:
        inputs: the vector of this token.
        state: what is remembered of the tokens before.
        input_weight: reads the token.
        state_weight: reads the memory.
        bias: moves the sum.

    Returns:
        The new state, from -1 to 1.

    Raises:
        ValueError: if a parameter does not fit the widths of inputs and state.

    Source: Elman (1990), here with tanh. Chapter: ``seq2seq``, RNN.
    """
    d_state = state.shape[-1]
    check_shape("input_weight", input_weight, (d_state, inputs.shape[-1]))
    check_shape("state_weight", state_weight, (d_state, d_state))
    check_shape("bias", bias, (d_state,))
    return torch.tanh(inputs @ input_weight.mT + state @ state_weight.mT + bias)


def rnn(
    inputs: Float[Tensor, "*batch length d_input"],
    state: Float[Tensor, "*batch d_state"],
    *,
    input_weight: Float[Tensor, "d_state d_input"],
    state_weight: Float[Tensor, "d_state d_state"],
    bias: Float[Tensor, " d_state"],
) -> Float[Tensor, "*batch length d_state"]:
    """Reads a sequence token by token. No step can begin before the one before it has ended.

    Args:
        inputs: one vector for each token.
        state: the state before the first token.
        input_weight: reads a token.
        state_weight: reads the memory.
        bias: moves the sum.

    Returns:
        The state after each token.

    Raises:
        ValueError: if a parameter does not fit the widths of inputs and state.

    Source: Elman (1990), here with tanh. Chapter: ``seq2seq``, RNN.
    """
    parameters = {"input_weight": input_weight, "state_weight": state_weight, "bias": bias}
    states = [state]
    for token in inputs.unbind(-2):
        states.append(rnn_step(token, states[-1], **parameters))
    return torch.stack(states, dim=-2)[..., 1:, :]


def reverse(
    inputs: Float[Tensor, "batch length width"], lengths: Int[Tensor, " batch"]
) -> Float[Tensor, "batch length width"]:
    """Turns each sequence round, and leaves its padding at the end.

    Args:
        inputs: one vector for each token.
        lengths: number of real tokens of each sequence, from 0 to ``length``.

    Returns:
        The sequences from their last real token to their first. A second call restores them.

    Raises:
        ValueError: if there is not one length for each sequence, or one is out of range.

    Chapter: ``seq2seq``, both directions.
    """
    check_shape("lengths", lengths, (inputs.shape[0],))
    check_lengths(lengths, "length", inputs.shape[1])
    place = torch.arange(inputs.shape[1], device=inputs.device)
    mirrored = lengths.long().unsqueeze(-1) - 1 - place
    return inputs.take_along_dim(torch.where(mirrored < 0, place, mirrored).unsqueeze(-1), dim=1)


def receptive_field(*, layers: int, kernel: int, dilation: int = 1) -> int:
    """Counts the tokens that one state of a convolutional encoder can see.

    Args:
        layers: number of layers, at least 0.
        kernel: number of tokens that one layer sees, at least 1.
        dilation: factor by which the steps between these tokens grow from layer to layer, at least 1.

    Returns:
        Tokens: ``1 + layers * (kernel - 1)`` without dilation, ``kernel ** layers`` if it is ``kernel``.

    Raises:
        ValueError: if an argument is too small.

    Source: Yu and Koltun (2016), arXiv:1511.07122, for dilation. Chapter: ``seq2seq``, CNN.
    """
    check_at_least(0, layers=layers)
    check_at_least(1, kernel=kernel, dilation=dilation)
    return 1 + (kernel - 1) * sum(dilation**layer for layer in range(layers))


class Encoder(nn.Module):
    """Holds what the encoders share: the positions, and that padding counts for nothing.

    Args:
        d_input: width of an input.
        d_output: width of a state.
        positions: the encoding that is added to the inputs.
        max_length: number of learned positions, in tokens; the other kinds have no limit.

    Raises:
        ValueError: if a width is below 1, or ``positions`` is none of the three.

    Chapter: ``seq2seq``.
    """

    def __init__(self, d_input: int, d_output: int, positions: Positions, max_length: int) -> None:
        super().__init__()
        check_at_least(1, d_input=d_input, d_output=d_output)
        if positions not in get_args(Positions):
            raise ValueError(f"positions must be one of {get_args(Positions)}, but is {positions!r}")
        self.d_input, self.d_output, self.kind = d_input, d_output, positions
        self.positions = LearnedPositions(max_length, d_input) if positions == "learned" else None

    def forward(
        self, inputs: Float[Tensor, "batch source d_input"], lengths: Int[Tensor, " batch"] | None = None
    ) -> Encoded:
        """Reads the source.

        Args:
            inputs: one vector for each token.
            lengths: number of real tokens of each sequence, from 0 to ``source``; all if left out.

        Returns:
            States, summary and maps.

        Raises:
            ValueError: if inputs or lengths do not fit, or if there are more tokens than learned positions.
        """
        batch, source, width = inputs.shape
        if width != self.d_input:
            raise ValueError(f"inputs must have width {self.d_input}, but have width {width}")
        if lengths is None:
            lengths = torch.full((batch,), source, device=inputs.device)
        check_shape("lengths", lengths, (batch,))
        mask = padding_mask(lengths, source)
        vectors = self._add_positions(inputs).masked_fill(~mask.mT, 0.0)
        states, maps = self.read(vectors, lengths, mask)
        states = states.masked_fill(~mask.mT, 0.0)
        return Encoded(states, self.summarise(states, lengths), maps)

    def read(
        self,
        vectors: Float[Tensor, "batch source d_input"],
        lengths: Int[Tensor, " batch"],
        mask: Bool[Tensor, "batch 1 source"],
    ) -> tuple[Float[Tensor, "batch source d_output"], tuple[Tensor, ...]]:
        """Gives states, of any content at padding, and maps. Each encoder does this in its own way."""
        raise NotImplementedError

    def summarise(
        self, states: Float[Tensor, "batch source d_output"], lengths: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch d_output"]:
        """Gives the mean of the states of real tokens; 0 if there are none."""
        return states.sum(dim=1) / lengths.clamp(min=1).unsqueeze(-1)

    def _add_positions(self, inputs: Tensor) -> Tensor:
        length, width = inputs.shape[1:]
        if self.kind == "learned":
            return add_positions(inputs, self.positions(length))
        if self.kind == "sinusoidal":
            table = sinusoidal(length, width, device=inputs.device, dtype=inputs.dtype)
            return add_positions(inputs, table)
        return inputs


class RecurrentEncoder(Encoder):
    """Holds a recurrent network that reads from left to right, and a second one from right to left.

    The summary is the state after the last token; of the second network, that after the first.

    Args:
        d_input: width of an input.
        d_state: width of a state of one direction.
        cell: ``"rnn"`` (tanh), ``"gru"`` or ``"lstm"``.
        bidirectional: whether there is a second direction. A state is then ``2 * d_state`` wide.
        positions: the encoding that is added to the inputs; a recurrent network needs none.
        max_length: number of learned positions, in tokens.

    Raises:
        ValueError: if a width is below 1, or the cell or the positions are unknown.

    Source: Bahdanau et al. (2015), section 3.2, for two directions. Chapter: ``seq2seq``, RNN.
    """

    def __init__(
        self,
        d_input: int,
        d_state: int,
        *,
        cell: Literal["rnn", "gru", "lstm"] = "gru",
        bidirectional: bool = False,
        positions: Positions = "none",
        max_length: int = 512,
    ) -> None:
        super().__init__(d_input, d_state * (2 if bidirectional else 1), positions, max_length)
        if cell not in LAYERS:
            raise ValueError(f"cell must be one of {tuple(LAYERS)}, but is {cell!r}")
        self.left_to_right = LAYERS[cell](d_input, d_state, batch_first=True)
        self.right_to_left = LAYERS[cell](d_input, d_state, batch_first=True) if bidirectional else None

    def read(
        self,
        vectors: Float[Tensor, "batch source d_input"],
        lengths: Int[Tensor, " batch"],
        mask: Bool[Tensor, "batch 1 source"],
    ) -> tuple[Float[Tensor, "batch source d_output"], tuple[Tensor, ...]]:
        """Reads in each direction. Padding comes last in both, so no real token is read after it."""
        if not vectors.numel():  # PyTorch's layers refuse a source without any token
            return vectors.new_zeros(*vectors.shape[:2], self.d_output), ()
        states, _ = self.left_to_right(vectors)
        if self.right_to_left is not None:
            mirrored, _ = self.right_to_left(reverse(vectors, lengths))
            states = torch.cat([states, reverse(mirrored, lengths)], dim=-1)
        return states, ()

    def summarise(
        self, states: Float[Tensor, "batch source d_output"], lengths: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch d_output"]:
        """Gives the state with which each direction ends; 0 if there are no tokens."""
        if not states.shape[1]:
            return states.new_zeros(states.shape[0], self.d_output)
        last = (lengths - 1).clamp(min=0).view(-1, 1, 1)
        last = states.take_along_dim(last, dim=1).squeeze(1)
        if self.right_to_left is None:
            return last
        half = self.d_output // 2
        return torch.cat([last[:, :half], states[:, 0, half:]], dim=-1)


class ConvolutionalEncoder(Encoder):
    """Holds layers of gated convolutions with residual connections. All states are computed in parallel.

    Args:
        d_input: width of an input.
        d_state: width of a state.
        layers: number of layers, at least 0.
        kernel: number of tokens that one layer sees, odd, so that its window has a middle.
        dilation: factor by which the steps between these tokens grow from layer to layer, at least 1.
        positions: the encoding that is added to the inputs.
        max_length: number of learned positions, in tokens.

    Raises:
        ValueError: if a size is too small, the kernel is even, or the positions are unknown.

    Source: Gehring et al. (2017), sections 3.1, 3.2 and 3.4. Chapter: ``seq2seq``, CNN.
    """

    def __init__(
        self,
        d_input: int,
        d_state: int,
        *,
        layers: int = 2,
        kernel: int = 3,
        dilation: int = 1,
        positions: Positions = "learned",
        max_length: int = 512,
    ) -> None:
        super().__init__(d_input, d_state, positions, max_length)
        check_at_least(0, layers=layers)
        check_at_least(1, kernel=kernel, dilation=dilation)
        if kernel % 2 == 0:
            raise ValueError(f"kernel must be odd, but is {kernel}")
        self.widen = nn.Linear(d_input, d_state)
        steps = [dilation**layer for layer in range(layers)]
        self.layers = nn.ModuleList(
            nn.Conv1d(d_state, 2 * d_state, kernel, dilation=step, padding=kernel // 2 * step)
            for step in steps
        )

    def read(
        self,
        vectors: Float[Tensor, "batch source d_input"],
        lengths: Int[Tensor, " batch"],
        mask: Bool[Tensor, "batch 1 source"],
    ) -> tuple[Float[Tensor, "batch source d_output"], tuple[Tensor, ...]]:
        """Convolves. Before each layer padding is 0, as the positions outside the source are."""
        states = self.widen(vectors).mT
        if not states.numel():  # a convolution refuses a source without any token
            return states.mT, ()
        for layer in self.layers:
            states = states.masked_fill(~mask, 0.0)
            # Half of the variance of the sum keeps that of its two terms (section 3.4).
            states = (states + F.glu(layer(states), dim=1)) * 0.5**0.5
        return states.mT, ()


class AttentionEncoder(Encoder):
    """Holds layers of self-attention with one head and residual connections. A layer sees all tokens.

    Args:
        d_input: width of an input.
        d_state: width of a state.
        layers: number of layers, at least 0.
        positions: the encoding that is added to the inputs; without one the order of the tokens is lost.
        max_length: number of learned positions, in tokens.

    Raises:
        ValueError: if a size is too small, or the positions are unknown.

    Source: Vaswani et al. (2017), sections 3.2.1 and 3.5; the whole block is in chapter ``selfattention``.
    Chapter: ``seq2seq``, attention.
    """

    def __init__(
        self,
        d_input: int,
        d_state: int,
        *,
        layers: int = 2,
        positions: Positions = "sinusoidal",
        max_length: int = 512,
    ) -> None:
        super().__init__(d_input, d_state, positions, max_length)
        check_at_least(0, layers=layers)
        self.widen = nn.Linear(d_input, d_state)
        self.layers = nn.ModuleList(nn.Linear(d_state, 3 * d_state) for _ in range(layers))

    def read(
        self,
        vectors: Float[Tensor, "batch source d_input"],
        lengths: Int[Tensor, " batch"],
        mask: Bool[Tensor, "batch 1 source"],
    ) -> tuple[Float[Tensor, "batch source d_output"], tuple[Tensor, ...]]:
        """Attends from each token to all real ones, and adds the context to the token."""
        states, maps = self.widen(vectors), []
        for layer in self.layers:
            context, weights = attend(*layer(states).chunk(3, dim=-1), mask)
            states = states + context
            maps.append(weights)
        return states, tuple(maps)
