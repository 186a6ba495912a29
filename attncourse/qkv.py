"""Query, key, value in three stages: scores, weights, context.

Axes, in this order: any number of batch axes, then ``queries`` or ``keys``, then the width ``d_...``. Batch
axes broadcast. Device and dtype follow the inputs.

Stage 1 is a function ``(query, key) -> scores``, stage 2 a function ``(scores, mask) -> weights``, stage 3 is
``weighted_sum``; ``attend`` runs all three.
"""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from attncourse.validation import (
    check_at_least,
    check_batches,
    check_mask,
    check_same_keys,
    check_same_width,
    check_shape,
)

# Number of positions that linear attention reads at a time, in tokens.
CHUNK = 1024


def dot_scores(
    query: Float[Tensor, "*#batch queries d_key"], key: Float[Tensor, "*#batch keys d_key"]
) -> Float[Tensor, "*batch queries keys"]:
    """Scores each pair by the dot product of query and key.

    Args:
        query: what each position looks for.
        key: what each position offers to be found by, as wide as the queries.

    Returns:
        Scores, without unit, of any size.

    Raises:
        ValueError: if queries and keys differ in width.

    Source: Luong et al. (2015), section 3.1, "dot". Chapter: ``qkv``, stage 1.
    """
    check_same_width(query, key)
    return query @ key.mT


def scaled_dot_scores(
    query: Float[Tensor, "*#batch queries d_key"], key: Float[Tensor, "*#batch keys d_key"]
) -> Float[Tensor, "*batch queries keys"]:
    """Scores each pair by the dot product divided by the square root of the width ``d_key``.

    Args:
        query: what each position looks for.
        key: what each position offers to be found by, as wide as the queries.

    Returns:
        Scores, without unit. Their variance is 1 if the entries of query and key are independent, with mean 0
        and variance 1.

    Raises:
        ValueError: if queries and keys differ in width, or have width 0.

    Source: Vaswani et al. (2017), section 3.2.1. Chapter: ``qkv``, stage 1.
    """
    if query.shape[-1] == 0:
        raise ValueError("query and key need a width d_key of at least 1, but it is 0")
    # Scaling the query and not the scores is the same, cheaper, and overflows later in half precision.
    return dot_scores(query / query.shape[-1] ** 0.5, key)


def general_scores(
    query: Float[Tensor, "*#batch queries d_query"],
    key: Float[Tensor, "*#batch keys d_key"],
    *,
    weight: Float[Tensor, "d_query d_key"],
) -> Float[Tensor, "*batch queries keys"]:
    """Scores each pair by a bilinear form: ``query · weight · key``.

    Args:
        query: what each position looks for.
        key: what each position offers to be found by; its width may differ from the queries'.
        weight: the learned matrix between the two widths.

    Returns:
        Scores, without unit, of any size.

    Raises:
        ValueError: if the weight does not have the widths of queries and keys.

    Source: Luong et al. (2015), section 3.1, "general". Chapter: ``qkv``, other scores.
    """
    check_shape("weight", weight, (query.shape[-1], key.shape[-1]))
    return dot_scores(query @ weight, key)


def additive_scores(
    query: Float[Tensor, "*#batch queries d_query"],
    key: Float[Tensor, "*#batch keys d_key"],
    *,
    query_weight: Float[Tensor, "hidden d_query"],
    key_weight: Float[Tensor, "hidden d_key"],
    vector: Float[Tensor, " hidden"],
) -> Float[Tensor, "*batch queries keys"]:
    """Scores each pair by a small network: ``vector · tanh(query_weight · query + key_weight · key)``.

    Args:
        query: what each position looks for.
        key: what each position offers to be found by.
        query_weight: projects a query into the hidden layer.
        key_weight: projects a key into the hidden layer.
        vector: reads one score off the hidden layer.

    Returns:
        Scores, without unit, at most ``vector.abs().sum()`` in absolute value.

    Raises:
        ValueError: if a weight does not fit the width of its input or of the hidden layer.

    Source: Bahdanau et al. (2015), appendix A.1.2. Chapter: ``qkv``, other scores.
    """
    check_shape("vector", vector, (vector.numel(),))
    check_shape("query_weight", query_weight, (vector.numel(), query.shape[-1]))
    check_shape("key_weight", key_weight, (vector.numel(), key.shape[-1]))
    check_batches(query=query, key=key)
    hidden = (query @ query_weight.mT).unsqueeze(-2) + (key @ key_weight.mT).unsqueeze(-3)
    return torch.tanh(hidden) @ vector


def concat_scores(
    query: Float[Tensor, "*#batch queries d_query"],
    key: Float[Tensor, "*#batch keys d_key"],
    *,
    weight: Float[Tensor, "hidden d_both"],
    vector: Float[Tensor, " hidden"],
) -> Float[Tensor, "*batch queries keys"]:
    """Scores each pair by ``vector · tanh(weight · [query; key])``, with query and key joined to one vector.

    Args:
        query: what each position looks for.
        key: what each position offers to be found by.
        weight: projects the joined vector, of width ``d_query + d_key``, into the hidden layer.
        vector: reads one score off the hidden layer.

    Returns:
        Scores, without unit, at most ``vector.abs().sum()`` in absolute value.

    Raises:
        ValueError: if the weight does not fit the width of the joined vector or of the hidden layer.

    Source: Luong et al. (2015), section 3.1, "concat". Chapter: ``qkv``, other scores.
    """
    check_shape("vector", vector, (vector.numel(),))
    check_shape("weight", weight, (vector.numel(), query.shape[-1] + key.shape[-1]))
    check_batches(query=query, key=key)
    pairs = torch.broadcast_shapes(query.unsqueeze(-2).shape[:-1], key.unsqueeze(-3).shape[:-1])
    both = torch.cat(
        [
            query.unsqueeze(-2).expand(*pairs, query.shape[-1]),
            key.unsqueeze(-3).expand(*pairs, key.shape[-1]),
        ],
        dim=-1,
    )
    return torch.tanh(both @ weight.mT) @ vector


def cosine_scores(
    query: Float[Tensor, "*#batch queries d_key"], key: Float[Tensor, "*#batch keys d_key"]
) -> Float[Tensor, "*batch queries keys"]:
    """Scores each pair by the cosine of the angle between query and key.

    Args:
        query: what each position looks for.
        key: what each position offers to be found by, as wide as the queries.

    Returns:
        Scores from -1 to 1; 0 where the query or the key is the zero vector.

    Raises:
        ValueError: if queries and keys differ in width.

    Source: Graves et al. (2014), equation 6. Chapter: ``qkv``, other scores.
    """
    return dot_scores(_unit(query), _unit(key))


def masked_softmax(
    scores: Float[Tensor, "*batch queries keys"],
    mask: Bool[Tensor, "..."] | None = None,
    *,
    temperature: float = 1.0,
) -> Float[Tensor, "*batch queries keys"]:
    """Turns the scores of each query into a distribution over the keys that it may attend to.

    Args:
        scores: one score for each query and key.
        mask: True where the query may attend to the key; broadcasts to ``scores``.
        temperature: the scores are divided by it, above 0. Near 0 the largest score takes everything; large
            temperatures give equal weights.

    Returns:
        Weights from 0 to 1. The keys of a query sum to 1, or are all 0 if it may attend to no key.

    Raises:
        ValueError: if the mask is not boolean or does not broadcast to ``scores``, or if the temperature is
            not above 0.

    Source: Vaswani et al. (2017), equation 1 and section 3.2.3. Chapter: ``qkv``, stage 2.
    """
    if not temperature > 0:
        raise ValueError(f"temperature must be above 0, but is {temperature}")
    if mask is not None:
        check_mask(mask, scores.shape)
        # An empty row of -inf alone would give 0/0 = NaN, forward and backward. So its mask is lifted for the
        # softmax, and its weights are multiplied by 0. (`where` and a product are faster than `masked_fill`.)
        some = mask.any(dim=-1, keepdim=True)
        scores = torch.where(mask | ~some, scores, float("-inf"))
    if temperature != 1.0 and scores.shape[-1]:
        # Less the largest score, which cancels, no quotient is too large for the dtype.
        scores = (scores - scores.detach().amax(dim=-1, keepdim=True)) / temperature
    weights = torch.softmax(scores, dim=-1)
    if mask is None:
        return weights
    # In place saves a tensor as large as the scores. A gradient would need the softmax as it was.
    return weights * some if weights.requires_grad else weights.mul_(some)


def masked_sigmoid(
    scores: Float[Tensor, "*batch queries keys"], mask: Bool[Tensor, "..."] | None = None
) -> Float[Tensor, "*batch queries keys"]:
    """Turns each score into a weight of its own by the logistic function: keys do not compete.

    Args:
        scores: one score for each query and key.
        mask: True where the query may attend to the key; broadcasts to ``scores``.

    Returns:
        Weights from 0 to 1, and 0 where the mask is False. The keys of a query need not sum to 1.

    Raises:
        ValueError: if the mask is not boolean or does not broadcast to ``scores``.

    Source: Ramapuram et al. (2025), arXiv:2409.04431, here without their bias. Chapter: ``qkv``, other
    weights.
    """
    return unnormalised(torch.sigmoid(scores), mask)


def unnormalised(
    scores: Float[Tensor, "*batch queries keys"], mask: Bool[Tensor, "..."] | None = None
) -> Float[Tensor, "*batch queries keys"]:
    """Uses the scores themselves as weights, which makes attention a product of three matrices.

    Args:
        scores: one score for each query and key.
        mask: True where the query may attend to the key; broadcasts to ``scores``.

    Returns:
        The scores, and 0 where the mask is False. Weights may be negative and need not sum to 1.

    Raises:
        ValueError: if the mask is not boolean or does not broadcast to ``scores``.

    Source: claim S21 of the notes, that weights need not be normalised. Chapter: ``qkv``, other weights.
    """
    if mask is None:
        return scores
    check_mask(mask, scores.shape)
    return scores.masked_fill(~mask, 0.0)


def weighted_sum(
    weights: Float[Tensor, "*#batch queries keys"], value: Float[Tensor, "*#batch keys d_value"]
) -> Float[Tensor, "*batch queries d_value"]:
    """Averages the values of all keys, each with the weight that the query gives it.

    Args:
        weights: one weight for each query and key.
        value: what each key has to say.

    Returns:
        The context of each query, as wide as a value.

    Raises:
        ValueError: if weights and values differ in the number of keys.

    Source: Vaswani et al. (2017), equation 1. Chapter: ``qkv``, stage 3.
    """
    if weights.shape[-1] != value.shape[-2]:
        raise ValueError(
            "weights and value need the same number of keys, "
            f"but have {weights.shape[-1]} and {value.shape[-2]}"
        )
    check_batches(weights=weights, value=value)
    return weights @ value


def attend(
    query: Float[Tensor, "*#batch queries d_query"],
    key: Float[Tensor, "*#batch keys d_key"],
    value: Float[Tensor, "*#batch keys d_value"],
    mask: Bool[Tensor, "..."] | None = None,
    *,
    score: Callable[[Tensor, Tensor], Tensor] = scaled_dot_scores,
    normalise: Callable[[Tensor, Tensor | None], Tensor] = masked_softmax,
) -> tuple[Float[Tensor, "*batch queries d_value"], Float[Tensor, "*#batch queries keys"]]:
    """Attends: scores each key, turns scores into weights, and averages the values with these weights.

    Args:
        query: what each position looks for.
        key: what each position offers to be found by.
        value: what each position has to say.
        mask: True where the query may attend to the key; broadcasts to ``(..., queries, keys)``.
        score: stage 1, ``(query, key) -> scores``.
        normalise: stage 2, ``(scores, mask) -> weights``.

    Returns:
        ``(context, weights)``: the weighted average of the values, and the weights that made it. Values must
        be finite, masked ones too: 0 times NaN is NaN.

    Raises:
        ValueError: if widths, numbers of keys or the mask do not fit, or if the mask is not boolean.

    Source: Vaswani et al. (2017), equation 1. Chapter: ``qkv``.
    """
    check_same_keys(key, value)
    weights = normalise(score(query, key), mask)
    return weighted_sum(weights, value), weights


def fused_attention(
    query: Float[Tensor, "*#batch queries d_key"],
    key: Float[Tensor, "*#batch keys d_key"],
    value: Float[Tensor, "*#batch keys d_value"],
    mask: Bool[Tensor, "..."] | None = None,
) -> Float[Tensor, "*batch queries d_value"]:
    """Attends with the scaled dot product in one fast kernel, which never gives the weights away.

    The kernel has no second derivative; ``torch.nn.attention.sdpa_kernel(SDPBackend.MATH)`` around the call
    gives one.

    Args:
        query: what each position looks for.
        key: what each position offers to be found by, as wide as the queries.
        value: what each position has to say.
        mask: True where the query may attend to the key; broadcasts to ``(..., queries, keys)``.

    Returns:
        The context that ``attend`` gives; 0 where a query may attend to no key. Keys and values must be
        finite, masked ones too.

    Raises:
        ValueError: if widths, numbers of keys or the mask do not fit, if the mask is not boolean, or if
            queries and keys have width 0.

    Source: Dao et al. (2022), arXiv:2205.14135, through ``F.scaled_dot_product_attention``. Chapter: ``qkv``.
    """
    check_same_width(query, key)
    check_same_keys(key, value)
    check_at_least(1, **{"the width d_key of query and key": query.shape[-1]})
    if mask is not None:
        batch = check_batches(query=query, key=key)
        check_mask(mask, (*batch, query.shape[-2], key.shape[-2]))
        mask = mask if mask.ndim > 1 else mask.unsqueeze(0)  # PyTorch takes no mask of one axis
    return F.scaled_dot_product_attention(query, key, value, mask)


def elu_features(inputs: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Maps each number to a positive one, ``elu(x) + 1``: the feature map of linear attention.

    Args:
        inputs: any numbers.

    Returns:
        ``x + 1`` where x is positive, and ``exp(x)`` elsewhere.

    Source: Katharopoulos et al. (2020), equation 7. Chapter: ``qkv``, without the softmax.
    """
    # elu(x) + 1 itself would round to 0 from x = -17 on, in bfloat16 from x = -6 on.
    return F.relu(inputs) + inputs.clamp(max=0).exp()


def linear_attention(
    query: Float[Tensor, "*#batch queries d_key"],
    key: Float[Tensor, "*#batch keys d_key"],
    value: Float[Tensor, "*#batch keys d_value"],
    mask: Bool[Tensor, "*#batch 1 #keys"] | None = None,
    *,
    feature_map: Callable[[Tensor], Tensor] = elu_features,
) -> Float[Tensor, "*batch queries d_value"]:
    """Attends with the dot product of positive features as weights, at a cost linear in queries plus keys.

    The product is associative, so keys and values are summed up once, ``features(key)ᵀ · value``, and each
    query reads that sum. The weights are never computed, so this function returns the context alone.

    Args:
        query: what each position looks for.
        key: what each position offers to be found by, as wide as the queries.
        value: what each position has to say.
        mask: True where the key may be attended to, by all queries alike: one row, as ``padding_mask`` gives.
        feature_map: gives the features; they must be positive for the weights to be an average.

    Returns:
        The context of each query; 0 where no key may be attended to, or where all features round to 0.

    Raises:
        ValueError: if widths, numbers of keys or the mask do not fit, if the mask is not boolean, or if it
            has more than one row.

    Source: Katharopoulos et al. (2020), equations 4 to 6. Chapter: ``qkv``, without the softmax.
    """
    check_same_width(query, key)
    check_same_keys(key, value)
    if mask is not None:
        if mask.ndim < 2 or mask.shape[-2] != 1:
            raise ValueError(
                "linear attention takes a mask with one row for all queries, (..., 1, keys), "
                f"but its shape is {tuple(mask.shape)}"
            )
        batch = check_batches(query=query, key=key)
        check_mask(mask, (*batch, 1, key.shape[-2]))
        mask = mask.expand(*mask.shape[:-1], key.shape[-2])
    # Both factors cancel in the quotient. Without them the sums over many keys overflow float16.
    width, keys = max(query.shape[-1], 1), max(key.shape[-2], 1)
    # Chunk by chunk, so that what is computed on the way stays in the processor's cache.
    columns = [None] * -(-keys // CHUNK) if mask is None else mask.mT.split(CHUNK, dim=-2)
    table, total = 0.0, 0.0
    for part, value_part, column in zip(key.split(CHUNK, -2), value.split(CHUNK, -2), columns, strict=True):
        features = feature_map(part) / keys
        if column is not None:
            features = features.masked_fill(~column, 0.0)
        table = table + features.mT @ value_part
        total = total + features.sum(dim=-2).unsqueeze(-1)
    table, total, contexts = table / width, total / width, []
    for part in query.split(CHUNK, -2):
        features = feature_map(part)
        weight = features @ total
        # With no key at all the sum is 0 / 0; dividing by 1 there leaves the context 0, its gradient finite.
        contexts.append(features @ table / weight.masked_fill(weight == 0, 1.0))
    return torch.cat(contexts, dim=-2)


def entropy(weights: Float[Tensor, "*batch keys"]) -> Float[Tensor, "*batch"]:
    """Measures how widely each query spreads its weights.

    Args:
        weights: distributions over the keys; each row sums to 1 or is all 0.

    Returns:
        Entropy in nats: 0 if one key has all the weight, ``log(keys)`` if all have the same.

    Source: Shannon (1948), section 6. Chapter: ``qkv``, why divide.
    """
    # A weight of 0 adds nothing. The slope of x log x is infinite there, and would turn gradients into NaN.
    return torch.special.entr(weights.masked_fill(weights == 0, 1.0)).sum(dim=-1)


def softmax_jacobian(weights: Float[Tensor, "*batch keys"]) -> Float[Tensor, "*batch keys keys"]:
    """Gives the derivatives of softmax at its own output: entry (i, j) is ∂weight_i / ∂score_j.

    Args:
        weights: softmax outputs; each row sums to 1.

    Returns:
        ``diag(weights) - weights weightsᵀ``. It vanishes where one key has all the weight: no gradient
        passes.

    Source: the derivative of softmax, derived in chapter ``qkv``, why divide.
    """
    return torch.diag_embed(weights) - weights.unsqueeze(-1) * weights.unsqueeze(-2)


def _unit(vectors: Tensor) -> Tensor:
    """Scales vectors to length 1; zero vectors stay zero, with a finite gradient."""
    # The square of a very small or large entry leaves the range of the dtype; after this the largest is 1.
    largest = vectors.detach().abs().amax(dim=-1, keepdim=True) if vectors.shape[-1] else vectors.new_ones(1)
    vectors = vectors / largest.masked_fill(largest == 0, 1.0)
    length = vectors.norm(dim=-1, keepdim=True)
    return vectors / length.masked_fill(length == 0, 1.0)
