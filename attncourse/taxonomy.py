"""Kinds of attention: soft or hard, global or local.

Soft attention is ``attend``: the context averages all values. Hard attention draws one key; the draw has no
gradient, so the gradient is estimated. Global attention lets a query score all keys; local attention only
those in a window around a position, which is given (local-m) or predicted from the query (local-p).

Axes as in ``qkv``. Positions count from 0. ``samples`` is the first axis where several draws are made.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from attncourse.masks import padding_mask
from attncourse.qkv import attend, concat_scores, dot_scores, general_scores, masked_softmax, weighted_sum
from attncourse.validation import check_at_least, check_same_keys, check_shape

Score = Literal["dot", "general", "concat"]


def hard_weights(
    weights: Float[Tensor, "*batch queries keys"],
    *,
    samples: int = 1,
    generator: torch.Generator | None = None,
) -> Float[Tensor, "samples *batch queries keys"]:
    """Draws one key for each query, with its weight as the probability.

    ``weighted_sum`` of the result with the values gives the context of each draw: the value of the drawn key.

    Args:
        weights: soft weights; the keys of a query sum to 1, or are all 0.
        samples: number of independent draws for each query, at least 1.
        generator: source of the random numbers.

    Returns:
        Weights that are 1 at the drawn key and 0 elsewhere; all 0 for a query whose weights are all 0. No
        gradient passes through the draw.

    Raises:
        ValueError: if ``samples`` is below 1.

    Source: Xu et al. (2015), arXiv:1502.03044, stochastic "hard" attention. Chapter: ``taxonomy``, hard
    attention.
    """
    check_at_least(1, samples=samples)
    if not weights.numel():
        return weights.new_zeros(samples, *weights.shape)
    empty = (weights == 0).all(dim=-1, keepdim=True)
    # An empty row has nothing to draw from; it gets equal probabilities here, and weights 0 below.
    rows = weights.masked_fill(empty, 1.0).flatten(end_dim=-2)
    drawn = torch.multinomial(rows, samples, replacement=True, generator=generator)
    choices = torch.zeros_like(rows).expand(samples, -1, -1).scatter(-1, drawn.mT.unsqueeze(-1), 1.0)
    return choices.view(samples, *weights.shape).masked_fill(empty, 0.0)


def log_probability(
    weights: Float[Tensor, "*batch queries keys"], choices: Float[Tensor, "samples *batch queries keys"]
) -> Float[Tensor, "samples *batch queries"]:
    """Gives the logarithm of the probability with which each key was drawn.

    Args:
        weights: soft weights that the keys were drawn from.
        choices: the draws, as ``hard_weights`` gives them.

    Returns:
        Log-probability in nats, at most 0, with a gradient to the weights; 0, without gradient, for a query
        whose weights are all 0.

    Source: the term log p(s̃|a) of Xu et al. (2015), arXiv:1502.03044. Chapter: ``taxonomy``, hard attention.
    """
    chosen = (weights * choices).sum(dim=-1)
    return chosen.masked_fill(chosen == 0, 1.0).log()


def score_function_loss(
    losses: Float[Tensor, "*shape"],
    log_probability: Float[Tensor, "*shape"],
    baseline: Float[Tensor, "..."] | float = 0.0,
) -> Float[Tensor, "*shape"]:
    """Gives losses whose gradient is an unbiased estimate of the gradient of the expected loss (REINFORCE).

    The gradient is ``∇loss + (loss - baseline) ∇log_probability``: a draw that led to a loss below the
    baseline becomes more probable. Take the mean over the samples.

    Args:
        losses: the loss that each draw led to.
        log_probability: of the draws, in nats. Where one loss judges several draws, the sum of theirs.
        baseline: broadcasts to the losses. It must not depend on the draw that it is used for; then it leaves
            the expected gradient as it is, and can make its variance small.

    Returns:
        The losses: values unchanged, with the gradient above.

    Raises:
        ValueError: if losses and log-probabilities differ in shape.

    Source: Williams (1992), and Xu et al. (2015), arXiv:1502.03044. Chapter: ``taxonomy``, hard attention.
    """
    check_shape("log_probability", log_probability, losses.shape)
    return losses + (losses - baseline).detach() * (log_probability - log_probability.detach())


def leave_one_out(losses: Float[Tensor, "samples *shape"]) -> Float[Tensor, "samples *shape"]:
    """Gives each sample the mean loss of all other samples as its baseline.

    The mean of all samples, its own included, would shrink the expected gradient by the factor
    ``1 - 1 / samples``.

    Args:
        losses: one loss for each sample; at least 2 samples.

    Returns:
        A baseline for each loss, without gradient.

    Raises:
        ValueError: if there are fewer than 2 samples.

    Source: Kool et al. (2019), "Buy 4 REINFORCE Samples, Get a Baseline for Free!". Chapter: ``taxonomy``,
    hard attention.
    """
    samples = losses.shape[0]
    if samples < 2:
        raise ValueError(f"leaving one out needs at least 2 samples, but there is {samples}")
    losses = losses.detach()
    return (losses.sum(dim=0) - losses) / (samples - 1)


def moving_average(
    average: Float[Tensor, ""], losses: Float[Tensor, "*shape"], *, decay: float = 0.9
) -> Float[Tensor, ""]:
    """Brings a baseline up to date after a batch: ``decay · average + (1 - decay) · mean(losses)``.

    Use the old average as the baseline of the batch, and the new one for the next: a baseline must not know
    the draws that it judges.

    Args:
        average: the average so far.
        losses: the losses of this batch.
        decay: share of the old average that is kept, from 0 to 1.

    Returns:
        The new average, without gradient.

    Raises:
        ValueError: if the decay does not lie between 0 and 1.

    Source: Xu et al. (2015), arXiv:1502.03044, with a decay of 0.9. Chapter: ``taxonomy``, hard attention.
    """
    if not 0 <= decay <= 1:
        raise ValueError(f"decay must lie between 0 and 1, but is {decay}")
    return decay * average.detach() + (1 - decay) * losses.detach().mean()


def expected_loss(
    weights: Float[Tensor, "*batch keys"], losses: Float[Tensor, "*batch keys"]
) -> Float[Tensor, "*batch"]:
    """Averages the losses of all possible draws, each with its probability.

    Its gradient is exact. It needs the loss of every key, so it serves where keys are few, and to judge the
    estimates.

    Args:
        weights: probability of each key.
        losses: the loss that drawing this key leads to.

    Returns:
        The expected loss.

    Source: the expectation that Xu et al. (2015), arXiv:1502.03044, estimate by draws. Chapter:
    ``taxonomy``, hard attention.
    """
    return (weights * losses).sum(dim=-1)


def straight_through_gumbel(
    scores: Float[Tensor, "*batch queries keys"],
    mask: Bool[Tensor, "..."] | None = None,
    *,
    temperature: float = 1.0,
    generator: torch.Generator | None = None,
) -> Float[Tensor, "*batch queries keys"]:
    """Draws one key for each query, and passes the gradient as if the weights had been soft.

    Gumbel noise on the scores makes the largest one a draw from their softmax. The gradient is that of the
    softmax of the noisy scores, so it is biased, but it flows through the loss itself and varies little. The
    function is a ``normalise`` for ``attend``.

    Args:
        scores: one score for each query and key.
        mask: True where the query may attend to the key; broadcasts to ``scores``.
        temperature: of the softmax in the gradient, above 0; it does not change the draw.
        generator: source of the random numbers.

    Returns:
        Weights that are 1 at the drawn key and 0 elsewhere; all 0 for a query that may attend to no key.

    Raises:
        ValueError: if the mask is not boolean or does not broadcast to ``scores``, or if the temperature is
            not above 0.

    Source: Jang et al. (2017), arXiv:1611.01144, section 2.2. Chapter: ``taxonomy``, hard attention.
    """
    # The logarithm of an exponential number is a negative Gumbel number. Half precision is too coarse for it.
    wide = torch.promote_types(scores.dtype, torch.float32)
    noise = torch.empty_like(scores, dtype=wide).exponential_(generator=generator).log()
    noisy = scores - noise
    soft = masked_softmax(noisy, mask, temperature=temperature)
    if not soft.numel():
        return soft.to(scores.dtype)
    # The softmax rounds: at a large temperature scores that differ get equal weights.
    allowed = noisy if mask is None else noisy.masked_fill(~mask, float("-inf"))
    hard = torch.zeros_like(soft).scatter(-1, allowed.argmax(dim=-1, keepdim=True), 1.0)
    if mask is not None:
        hard = hard * mask.any(dim=-1, keepdim=True)
    # In this order the difference is exactly 0; in another, rounding would leave 0.99999994 for 1.
    return (hard + (soft - soft.detach())).to(scores.dtype)


def predicted_positions(
    query: Float[Tensor, "*#batch queries d_query"],
    lengths: Int[Tensor, "*#batch"],
    *,
    weight: Float[Tensor, "hidden d_query"],
    vector: Float[Tensor, " hidden"],
) -> Float[Tensor, "*batch queries"]:
    """Predicts for each query the position to look at: ``length · sigmoid(vector · tanh(weight · query))``.

    Args:
        query: what each position looks for.
        lengths: number of real keys of each sequence, S in the paper.
        weight: W_p, projects a query into the hidden layer.
        vector: v_p, reads one number off the hidden layer.

    Returns:
        Positions from 0 to the length, in tokens; any real number, in float32 or wider.

    Raises:
        ValueError: if the weight does not fit the width of the queries or of the hidden layer.

    Source: Luong et al. (2015), equation 9. Chapter: ``taxonomy``, local-p.
    """
    check_shape("vector", vector, (vector.numel(),))
    check_shape("weight", weight, (vector.numel(), query.shape[-1]))
    share = torch.sigmoid(_widen(torch.tanh(query @ weight.mT) @ vector))
    return lengths.unsqueeze(-1) * share


def local_attention(
    query: Float[Tensor, "*#batch queries d_query"],
    key: Float[Tensor, "*#batch keys d_key"],
    value: Float[Tensor, "*#batch keys d_value"],
    mask: Bool[Tensor, "*#batch 1 keys"] | None = None,
    *,
    positions: Float[Tensor, "*#batch queries"] | Int[Tensor, "*#batch queries"],
    radius: int,
    gaussian: bool,
    score: Callable[[Tensor, Tensor], Tensor] = dot_scores,
) -> tuple[Float[Tensor, "*batch queries d_value"], Float[Tensor, "*#batch queries keys"]]:
    """Attends to the keys in a window around a position of each query: the reference, which scores all keys.

    The softmax runs over the keys s of the window, ``|s - position| <= radius``, both ends included; what
    lies outside the sentence is left out. For local-m, ``positions`` are ``torch.arange(queries)`` and that
    is all. For local-p they are predicted, and each weight is multiplied with
    ``exp(-(s - position)² / (2σ²))``, σ = radius / 2. As in the paper, the weights are not normalised again:
    they sum to at most 1. The gradient reaches the positions through this factor alone.

    The paper does not say where counting starts: here source and target positions count from 0.

    Args:
        query: what each position looks for.
        key: what each position offers to be found by.
        value: what each position has to say.
        mask: True where the key is a real token: one row for all queries, as ``padding_mask`` gives.
        positions: centre of each query's window, in tokens from 0.
        radius: D in the paper: largest distance between centre and key, in tokens, at least 0, and at least 1
            with ``gaussian``.
        gaussian: whether nearer keys count more: True for local-p, False for local-m.
        score: ``(query, key) -> scores``.

    Returns:
        ``(context, weights)``. A query with an empty window gets weights 0 and context 0. (In local-m that is
        a target position more than ``radius`` behind the last token of the source.)

    Raises:
        ValueError: if the radius is too small, if there is not one position for each query, if keys and
            values differ in number, if the mask is not boolean or not one row as long as the keys, or if a
            width does not fit the score.

    Source: Luong et al. (2015), section 3.2, equations 9 and 10. Chapter: ``taxonomy``, local attention.
    """
    _check_local(query, key, value, mask, positions, radius, gaussian)
    distance = torch.arange(key.shape[-2], device=key.device) - _widen(positions).unsqueeze(-1)
    window = distance.abs() <= radius
    if mask is not None:
        window = window & mask
    scores = score(query, key)
    # The positions may have batch axes of their own.
    scores = scores.expand(torch.broadcast_shapes(scores.shape, window.shape))
    weights = masked_softmax(scores, window)
    if gaussian:
        weights = weights * _gaussian(distance, radius).to(weights.dtype)
    return weighted_sum(weights, value), weights


def gathered_local_attention(
    query: Float[Tensor, "*#batch queries d_query"],
    key: Float[Tensor, "*#batch keys d_key"],
    value: Float[Tensor, "*#batch keys d_value"],
    mask: Bool[Tensor, "*#batch 1 keys"] | None = None,
    *,
    positions: Float[Tensor, "*#batch queries"] | Int[Tensor, "*#batch queries"],
    radius: int,
    gaussian: bool,
    score: Callable[[Tensor, Tensor], Tensor] = dot_scores,
) -> tuple[Float[Tensor, "*batch queries d_value"], Float[Tensor, "*#batch queries window"]]:
    """Attends as ``local_attention``, but touches only the ``2 * radius + 1`` keys of each query's window.

    Args:
        query: what each position looks for.
        key: what each position offers to be found by.
        value: what each position has to say.
        mask: True where the key is a real token: one row for all queries, as ``padding_mask`` gives.
        positions: centre of each query's window, in tokens from 0.
        radius: largest distance between centre and key, in tokens, at least 0, and at least 1 with
            ``gaussian``.
        gaussian: whether nearer keys count more: True for local-p, False for local-m.
        score: ``(query, key) -> scores``.

    Returns:
        ``(context, weights)``. The weights are those of the window's keys, ``2 * radius + 1`` for each query;
        ``window_positions`` says which keys these are. Keys outside the sentence have weight 0.

    Raises:
        ValueError: if the radius is too small, if there is not one position for each query, if keys and
            values differ in number, if the mask is not boolean or not one row as long as the keys, or if a
            width does not fit the score.

    Source: Luong et al. (2015), section 3.2, equations 9 and 10. Chapter: ``taxonomy``, local attention.
    """
    _check_local(query, key, value, mask, positions, radius, gaussian)
    keys = key.shape[-2]
    window = window_positions(positions, radius=radius)
    distance = window - _widen(positions).unsqueeze(-1)
    inside = (distance.abs() <= radius) & (window >= 0) & (window < keys)
    window = window.clamp(0, keys - 1)
    if mask is not None:
        inside = inside & _rows(mask.mT, window).squeeze(-1)
    scores = score(query.unsqueeze(-2), _rows(key, window)).squeeze(-2)
    weights = masked_softmax(scores, inside)
    if gaussian:
        weights = weights * _gaussian(distance, radius).to(weights.dtype)
    return weighted_sum(weights.unsqueeze(-2), _rows(value, window)).squeeze(-2), weights


def window_positions(
    positions: Float[Tensor, "*batch queries"] | Int[Tensor, "*batch queries"], *, radius: int
) -> Int[Tensor, "*batch queries window"]:
    """Lists the ``2 * radius + 1`` whole positions around each centre, among them all that the window holds.

    Args:
        positions: centre of each query's window, in tokens from 0.
        radius: largest distance between centre and key, in tokens, at least 0.

    Returns:
        Whole numbers, rising by 1, around the rounded centre. Some may lie outside the sentence. Around a
        centre that is not whole, one of them is farther than the radius.

    Raises:
        ValueError: if the radius is negative.

    Source: Luong et al. (2015), section 3.2. Chapter: ``taxonomy``, local attention.
    """
    check_at_least(0, radius=radius)
    centre = _widen(positions).round().long().unsqueeze(-1)
    return centre + torch.arange(-radius, radius + 1, device=positions.device)


class GlobalAttention(nn.Module):
    """Holds the parameters of one of the scores of Luong et al., and attends to all keys with it.

    Attributes:
        weight: W_a: ``(d_query, d_key)`` for "general", ``(hidden, d_query + d_key)`` for "concat".
        vector: v_a, ``(hidden,)``, for "concat".

    Source: Luong et al. (2015), section 3.1. Chapter: ``taxonomy``, global attention.
    """

    def __init__(self, kind: Score, *, d_query: int, d_key: int, hidden: int | None = None) -> None:
        """Draws each parameter evenly within ±1/√(width of its input), as ``nn.Linear`` does.

        Args:
            kind: "dot", "general" or "concat".
            d_query: width of a query.
            d_key: width of a key; "dot" needs it to be ``d_query``.
            hidden: width of the hidden layer of "concat"; ``d_query`` if left out.

        Raises:
            ValueError: if the kind is none of the three, if "dot" gets two widths, or if a kind other than
                "concat" gets a hidden width.
        """
        super().__init__()
        if kind not in get_args(Score):
            raise ValueError(f"kind must be one of {', '.join(get_args(Score))}, but is {kind!r}")
        if kind == "dot" and d_query != d_key:
            raise ValueError(f'"dot" needs d_query and d_key to be equal, but they are {d_query} and {d_key}')
        if kind != "concat" and hidden is not None:
            raise ValueError(f'only "concat" has a hidden layer, but hidden is {hidden} with {kind!r}')
        hidden = d_query if hidden is None else hidden
        self.kind = kind
        if kind == "general":
            self.weight = nn.Parameter(nn.Linear(d_key, d_query, bias=False).weight.detach())
        if kind == "concat":
            self.weight = nn.Parameter(nn.Linear(d_query + d_key, hidden, bias=False).weight.detach())
            self.vector = nn.Parameter(nn.Linear(hidden, 1, bias=False).weight.detach().squeeze(0))

    def score(
        self, query: Float[Tensor, "*#batch queries d_query"], key: Float[Tensor, "*#batch keys d_key"]
    ) -> Float[Tensor, "*batch queries keys"]:
        """Scores each pair with the score of this kind.

        Args:
            query: what each position looks for.
            key: what each position offers to be found by.

        Returns:
            Scores, without unit.

        Raises:
            ValueError: if queries or keys do not have the width that the parameters take.
        """
        if self.kind == "general":
            return general_scores(query, key, weight=self.weight)
        if self.kind == "concat":
            return concat_scores(query, key, weight=self.weight, vector=self.vector)
        return dot_scores(query, key)

    def forward(
        self,
        query: Float[Tensor, "*#batch queries d_query"],
        key: Float[Tensor, "*#batch keys d_key"],
        value: Float[Tensor, "*#batch keys d_value"],
        mask: Bool[Tensor, "..."] | None = None,
    ) -> tuple[Float[Tensor, "*batch queries d_value"], Float[Tensor, "*#batch queries keys"]]:
        """Attends to all keys that the mask allows.

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


class PredictiveAttention(GlobalAttention):
    """Holds the parameters of local-p: those of the score, and those that predict the positions.

    Attributes:
        position_weight: W_p, ``(d_query, d_query)``.
        position_vector: v_p, ``(d_query,)``.

    Source: Luong et al. (2015), section 3.2. Chapter: ``taxonomy``, local-p.
    """

    def __init__(
        self, kind: Score, *, radius: int, d_query: int, d_key: int, hidden: int | None = None
    ) -> None:
        """Draws each parameter evenly within ±1/√(width of its input), as ``nn.Linear`` does.

        Args:
            kind: "dot", "general" or "concat".
            radius: largest distance between the predicted position and a key, in tokens, at least 1.
            d_query: width of a query.
            d_key: width of a key.
            hidden: width of the hidden layer of "concat"; ``d_query`` if left out.

        Raises:
            ValueError: if the kind is none of the three, if "dot" gets two widths, or if a kind other than
                "concat" gets a hidden width.
        """
        super().__init__(kind, d_query=d_query, d_key=d_key, hidden=hidden)
        self.radius = radius
        self.position_weight = nn.Parameter(nn.Linear(d_query, d_query, bias=False).weight.detach())
        self.position_vector = nn.Parameter(nn.Linear(d_query, 1, bias=False).weight.detach().squeeze(0))

    def forward(
        self,
        query: Float[Tensor, "*#batch queries d_query"],
        key: Float[Tensor, "*#batch keys d_key"],
        value: Float[Tensor, "*#batch keys d_value"],
        lengths: Int[Tensor, "*#batch"],
    ) -> tuple[Float[Tensor, "*batch queries d_value"], Float[Tensor, "*#batch queries keys"]]:
        """Predicts a position for each query, and attends to the keys around it.

        Args:
            query: what each position looks for.
            key: what each position offers to be found by.
            value: what each position has to say.
            lengths: number of real keys of each sequence.

        Returns:
            ``(context, weights)``, as ``local_attention``.

        Raises:
            ValueError: if the radius is below 1, if a length is negative or larger than the number of keys,
                if keys and values differ in number, or if a width does not fit the parameters.
        """
        positions = predicted_positions(
            query, lengths, weight=self.position_weight, vector=self.position_vector
        )
        mask = padding_mask(lengths, key.shape[-2])
        local = partial(local_attention, positions=positions, radius=self.radius, gaussian=True)
        return local(query, key, value, mask, score=self.score)


def _widen(positions: Tensor) -> Tensor:
    """Makes positions real numbers. Half precision is too coarse: float16 cannot tell 2048 from 2049."""
    return positions.to(torch.promote_types(positions.dtype, torch.float32))


def _gaussian(distance: Tensor, radius: int) -> Tensor:
    """Gives the factor of local-p, 1 at the centre; its standard deviation is half the radius."""
    return torch.exp(-((distance / (radius / 2)) ** 2) / 2)


def _rows(inputs: Tensor, index: Tensor) -> Tensor:
    """Picks, for each entry of the index ``(..., queries, window)``, a row of ``(..., keys, width)``."""
    *batch, keys, width = inputs.shape
    first = torch.arange(math.prod(batch), device=index.device).view(*batch, 1, 1) * keys
    place = index + first
    if not keys:
        return inputs.new_zeros(*place.shape, width)
    return F.embedding(place, inputs.flatten(end_dim=-2))


def _check_local(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    positions: Tensor,
    radius: int,
    gaussian: bool,
) -> None:
    least = 1 if gaussian else 0
    if radius < least:
        raise ValueError(f"radius must be at least {least} with gaussian={gaussian}, but is {radius}")
    queries, keys = query.shape[-2], key.shape[-2]
    if positions.shape[-1] != queries:
        raise ValueError(
            f"positions needs one position for each query, {queries}, but has {positions.shape[-1]}"
        )
    check_same_keys(key, value)
    if mask is None:
        return
    if mask.dtype != torch.bool:
        raise ValueError(
            f"mask must be boolean, with True where the key is a real token, but its dtype is {mask.dtype}"
        )
    if mask.shape[-2:] != (1, keys):
        raise ValueError(
            f"local attention takes a mask with one row for all queries, (..., 1, {keys}), "
            f"but its shape is {tuple(mask.shape)}"
        )
