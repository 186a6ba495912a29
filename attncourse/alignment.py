"""Alignment: one step of a decoder with attention, in the two orders of the literature.

At each target position i the decoder scores every source position j, turns the scores into weights, and reads
the context c_i, the average of the source under these weights. It does not read one vector for all positions.

Bahdanau et al. attend from the state before the step, s_{i-1}, and step with the context. Luong et al. step
first, and attend from the new state s_i. Both functions take and return the same things, so that a decoder
can exchange one for the other. A batch comes first, then the length, then the width.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attncourse.masks import padding_mask
from attncourse.qkv import additive_scores, attend
from attncourse.validation import check_shape

State = TypeVar("State", Tensor, tuple[Tensor, ...])


class Aligned(NamedTuple):
    """Holds what one step of a decoder with attention gives.

    Attributes:
        state: the new state s_i, of the same kind as the old one.
        context: c_i, ``(batch, d_value)``.
        weights: the weight of each source position, ``(batch, source)``.
    """

    state: Tensor | tuple[Tensor, ...]
    context: Tensor
    weights: Tensor


def bahdanau_step(
    step: Callable[[Tensor, State], State],
    state: State,
    inputs: Float[Tensor, "batch d_input"],
    key: Float[Tensor, "batch source d_key"],
    value: Float[Tensor, "batch source d_value"],
    mask: Bool[Tensor, "batch 1 source"] | None = None,
    *,
    score: Callable[[Tensor, Tensor], Tensor],
) -> Aligned:
    """Attends from the old state, then steps with the input and the context.

    The new state s_i is what should ask, but it does not exist yet: s_{i-1} is what there is.

    Args:
        step: the recurrent cell, ``([inputs; context], state) -> state``; its input has the width
            ``d_input + d_value``. A cell of ``torch.nn`` fits.
        state: the old state s_{i-1}, ``(batch, d_state)``, or a tuple that begins with it, as an LSTM has.
        inputs: the embedding of the previous target token, y_{i-1}.
        key: what the source positions are scored by: the encoder's states, or a projection of them.
        value: what the source positions have to say: the encoder's states.
        mask: True where the source has a real token, as ``padding_mask`` gives it.
        score: ``(query, key) -> scores``, for example ``AdditiveAttention.score``.

    Returns:
        The new state, the context that went into it, and the weights. Padding has weight 0; a source without
        any token gives the context 0.

    Raises:
        ValueError: if widths, lengths or the mask do not fit, or if the mask is not boolean.

    Source: Bahdanau et al. (2015), section 3.1 and appendix A.1.2. Chapter: ``alignment``.
    """
    context, weights = _attend_from(state, key, value, mask, score)
    return Aligned(step(torch.cat([inputs, context], dim=-1), state), context, weights)


def luong_step(
    step: Callable[[Tensor, State], State],
    state: State,
    inputs: Float[Tensor, "batch d_input"],
    key: Float[Tensor, "batch source d_key"],
    value: Float[Tensor, "batch source d_value"],
    mask: Bool[Tensor, "batch 1 source"] | None = None,
    *,
    score: Callable[[Tensor, Tensor], Tensor],
) -> Aligned:
    """Steps with the input alone, then attends from the new state.

    The context does not go into this state; ``attentional_state`` joins the two for the prediction.

    Args:
        step: the recurrent cell, ``(inputs, state) -> state``. A cell of ``torch.nn`` fits.
        state: the old state s_{i-1}, ``(batch, d_state)``, or a tuple that begins with it, as an LSTM has.
        inputs: the embedding of the previous target token, y_{i-1}; for input feeding (section 3.3), joined
            with the last attentional state.
        key: what the source positions are scored by: the encoder's states, or a projection of them.
        value: what the source positions have to say: the encoder's states.
        mask: True where the source has a real token, as ``padding_mask`` gives it.
        score: ``(query, key) -> scores``, for example ``dot_scores``.

    Returns:
        The new state, the context that it asked for, and the weights. Padding has weight 0; a source without
        any token gives the context 0.

    Raises:
        ValueError: if widths, lengths or the mask do not fit, or if the mask is not boolean.

    Source: Luong et al. (2015), section 3. Chapter: ``alignment``.
    """
    state = step(inputs, state)
    return Aligned(state, *_attend_from(state, key, value, mask, score))


def attentional_state(
    context: Float[Tensor, "*batch d_value"],
    hidden: Float[Tensor, "*batch d_state"],
    *,
    weight: Float[Tensor, "d_output d_both"],
) -> Float[Tensor, "*batch d_output"]:
    """Joins context and state to one vector for the prediction: ``tanh(weight · [context; hidden])``.

    Args:
        context: what the state asked for.
        hidden: the state s_i.
        weight: projects the joined vector, of width ``d_value + d_state``.

    Returns:
        The attentional state, from -1 to 1.

    Raises:
        ValueError: if the weight does not fit the width of the joined vector.

    Source: Luong et al. (2015), equation 5. Chapter: ``alignment``.
    """
    both = torch.cat([context, hidden], dim=-1)
    if weight.shape[-1] != both.shape[-1]:
        raise ValueError(
            f"weight must take d_value + d_state = {both.shape[-1]} numbers, but takes {weight.shape[-1]}"
        )
    return torch.tanh(both @ weight.mT)


def coverage(
    weights: Float[Tensor, "*batch target source"], target_lengths: Int[Tensor, "*batch"] | None = None
) -> Float[Tensor, "*batch source"]:
    """Sums up the weight that each source position received over all target positions.

    A source token near 0 was passed over; one far above 1 may have been translated twice.

    Args:
        weights: the weights of all steps; each row sums to 1, or is all 0.
        target_lengths: number of real target tokens of each sequence; steps after them do not count. All
            steps count if left out.

    Returns:
        The sum for each source position, from 0 to the target length. Over all source positions it adds up to
        the target length.

    Raises:
        ValueError: if there is not one length for each sequence, or one is negative or larger than the number
            of target positions.

    Source: the attention history that Tu et al. (2016), arXiv:1601.04811, feed back to the scores, here as a
    plain sum. Chapter: ``alignment``.
    """
    if target_lengths is None:
        return weights.sum(dim=-2)
    check_shape("target_lengths", target_lengths, weights.shape[:-2])
    return (padding_mask(target_lengths, weights.shape[-2]).to(weights.dtype) @ weights).squeeze(-2)


class AdditiveAttention(nn.Module):
    """Holds the parameters of additive attention, v_a, W_a and U_a of Bahdanau et al.

    Attributes:
        query_weight: W_a, ``(hidden, d_query)``.
        key_weight: U_a, ``(hidden, d_key)``.
        vector: v_a, ``(hidden,)``.

    Source: Bahdanau et al. (2015), appendix A.1.2. Chapter: ``alignment``.
    """

    def __init__(self, *, d_query: int, d_key: int, hidden: int) -> None:
        """Draws each parameter evenly within ±1/√(width of its input), as ``nn.Linear`` does.

        Args:
            d_query: width of a query, which is the decoder's state.
            d_key: width of a key, which is an encoder's state.
            hidden: width of the hidden layer of the score.
        """
        super().__init__()
        self.query_weight = nn.Parameter(nn.Linear(d_query, hidden, bias=False).weight.detach())
        self.key_weight = nn.Parameter(nn.Linear(d_key, hidden, bias=False).weight.detach())
        self.vector = nn.Parameter(nn.Linear(hidden, 1, bias=False).weight.detach().squeeze(0))

    def score(
        self, query: Float[Tensor, "*#batch queries d_query"], key: Float[Tensor, "*#batch keys d_key"]
    ) -> Float[Tensor, "*batch queries keys"]:
        """Scores each pair by ``vector · tanh(query_weight · query + key_weight · key)``.

        Args:
            query: what each position looks for.
            key: what each position offers to be found by.

        Returns:
            Scores, without unit.

        Raises:
            ValueError: if queries or keys do not have the width that the parameters take.
        """
        return additive_scores(
            query, key, query_weight=self.query_weight, key_weight=self.key_weight, vector=self.vector
        )

    def project(self, key: Float[Tensor, "*batch keys d_key"]) -> Float[Tensor, "*batch keys hidden"]:
        """Projects the keys into the hidden layer, once for all steps of a decoder.

        Args:
            key: what each position offers to be found by.

        Returns:
            ``key_weight · key``, the keys of ``score_projected``.
        """
        return key @ self.key_weight.mT

    def score_projected(
        self, query: Float[Tensor, "*#batch queries d_query"], key: Float[Tensor, "*#batch keys hidden"]
    ) -> Float[Tensor, "*batch queries keys"]:
        """Scores each pair as ``score`` does, from keys that ``project`` has projected.

        Args:
            query: what each position looks for.
            key: the projected keys.

        Returns:
            Scores, without unit.
        """
        return torch.tanh((query @ self.query_weight.mT).unsqueeze(-2) + key.unsqueeze(-3)) @ self.vector

    def forward(
        self,
        query: Float[Tensor, "*#batch queries d_query"],
        key: Float[Tensor, "*#batch keys d_key"],
        value: Float[Tensor, "*#batch keys d_value"],
        mask: Bool[Tensor, "..."] | None = None,
    ) -> tuple[Float[Tensor, "*batch queries d_value"], Float[Tensor, "*#batch queries keys"]]:
        """Attends with additive scores.

        Args:
            query: what each position looks for.
            key: what each position offers to be found by.
            value: what each position has to say.
            mask: True where the query may attend to the key; broadcasts to ``(..., queries, keys)``.

        Returns:
            ``(context, weights)``, as ``attend``.

        Raises:
            ValueError: if widths, numbers of keys or the mask do not fit, or if the mask is not boolean.
        """
        return attend(query, key, value, mask, score=self.score)


def _attend_from(
    state: State, key: Tensor, value: Tensor, mask: Tensor | None, score: Callable[[Tensor, Tensor], Tensor]
) -> tuple[Float[Tensor, "batch d_value"], Float[Tensor, "batch source"]]:
    """Attends with the hidden part of the state as the only query."""
    query = state if isinstance(state, Tensor) else state[0]
    context, weights = attend(query.unsqueeze(-2), key, value, mask, score=score)
    return context.squeeze(-2), weights.squeeze(-2)
