"""Answers to the set `qkv`."""

import math

import torch
from torch.nn import functional as F

from tests.answers import Answers

answers = Answers()
right, wrong = answers.right, answers.wrong


@right
def scaled_dot_scores(query, key):
    return query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))


@right
def scaled_dot_scores(query, key):
    d_k = key.shape[-1]
    return torch.einsum("...qd,...kd->...qk", query, key) * d_k**-0.5


@right
def scaled_dot_scores(query, key):
    return (query.unsqueeze(-2) * key.unsqueeze(-3)).sum(dim=-1) / query.shape[-1] ** 0.5


@right
def scaled_dot_scores(query, key):
    scores = query.new_zeros(*query.shape[:-1], key.shape[-2])
    for i in range(query.shape[-2]):
        for j in range(key.shape[-2]):
            scores[..., i, j] = (query[..., i, :] * key[..., j, :]).sum(-1) / math.sqrt(query.shape[-1])
    return scores


@right
def scaled_dot_scores(query, key):
    shape = query.shape[:-2]
    q = query.reshape(-1, *query.shape[-2:])
    k = key.reshape(-1, *key.shape[-2:])
    scores = torch.bmm(q / q.shape[2] ** 0.5, k.permute(0, 2, 1))
    return scores.reshape(*shape, *scores.shape[1:])


@wrong("no-scale")
def scaled_dot_scores(query, key):
    return torch.einsum("...id,...jd->...ij", query, key)


@wrong("scale-by-d")
def scaled_dot_scores(query, key):
    return torch.matmul(query, key.transpose(-1, -2)) / query.size(-1)


@wrong("scale-multiplied")
def scaled_dot_scores(query, key):
    return torch.matmul(query, key.transpose(-1, -2)) * math.sqrt(key.size(-1))


@wrong("scale-by-length")
def scaled_dot_scores(query, key):
    return query @ key.mT / math.sqrt(key.shape[-2])


@wrong("cosine")
def scaled_dot_scores(query, key):
    lengths = query.norm(dim=-1).unsqueeze(-1) * key.norm(dim=-1).unsqueeze(-2)
    return query @ key.mT / lengths


@wrong("transposed")
def scaled_dot_scores(query, key):
    return torch.einsum("...qd,...kd->...kq", query, key) / math.sqrt(query.shape[-1])


@wrong("weights-for-scores")
def scaled_dot_scores(query, key):
    scores = torch.matmul(query, key.transpose(-1, -2)) / math.sqrt(key.size(-1))
    return F.softmax(scores, dim=-1)


@wrong("changes-inputs")
def scaled_dot_scores(query, key):
    query.div_(math.sqrt(query.size(-1)))
    return torch.matmul(query, key.transpose(-1, -2))


@right
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(-1)
    scores = scores.masked_fill(mask == False, float("-inf"))  # noqa: E712
    return torch.nan_to_num(scores.softmax(-1))


@right
def masked_softmax(scores, mask=None):
    if mask is None:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool)
    top = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).amax(dim=-1, keepdim=True)
    powers = torch.exp((scores - top).masked_fill(~mask, float("-inf")))
    return powers / powers.sum(-1, keepdim=True).clamp(min=torch.finfo(scores.dtype).tiny)


@right
def masked_softmax(scores, mask=None):
    if mask is not None:
        scores = torch.where(mask, scores, torch.finfo(scores.dtype).min)
    weights = F.softmax(scores, dim=-1)
    if mask is not None:
        weights = weights * mask
    return weights


@right
def masked_softmax(scores, mask=None):
    if mask is None:
        return torch.exp(torch.log_softmax(scores, dim=-1))
    weights = torch.zeros_like(scores)
    for i in range(scores.shape[-2]):
        allowed = mask[i].nonzero().flatten()
        if len(allowed):
            weights[..., i, allowed] = scores[..., i, allowed].softmax(dim=-1)
    return weights


@right
def masked_softmax(scores, mask=None):
    rows = scores.reshape(-1, scores.shape[-1])
    if mask is None:
        masks = torch.ones_like(rows, dtype=torch.bool)
    else:
        masks = mask.expand(scores.shape).reshape(rows.shape)
    result = []
    for row, allowed in zip(rows, masks, strict=True):
        if allowed.any():
            powers = torch.exp(row - row[allowed].max()).where(allowed, 0)
            result.append(powers / powers.sum())
        else:
            result.append(row * 0)
    return torch.stack(result).reshape(scores.shape)


@wrong("softmax-over-queries")
def masked_softmax(scores, mask=None):
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return F.softmax(scores, dim=-2)


@wrong("softmax-over-queries")
def masked_softmax(scores, mask=None):
    if mask is None:
        mask = torch.ones_like(scores, dtype=torch.bool)
    powers = torch.exp(scores) * mask
    return powers / powers.sum(dim=-2, keepdim=True)


@wrong("softmax-over-all")
def masked_softmax(scores, mask=None):
    powers = torch.exp(scores - scores.max())
    if mask is not None:
        powers = powers * mask
    return powers / powers.sum(dim=(-2, -1), keepdim=True)


@wrong("mask-ignored")
def masked_softmax(scores, mask=None):
    if mask is not None:
        scores.masked_fill(~mask, float("-inf"))
    return scores.softmax(dim=-1)


@wrong("mask-inverted")
def masked_softmax(scores, mask=None):
    if mask is not None:
        scores = scores.masked_fill(mask, float("-inf"))
    return scores.softmax(dim=-1).nan_to_num()


@wrong("mask-after-softmax")
def masked_softmax(scores, mask=None):
    weights = scores.softmax(dim=-1)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0)
    return weights


@wrong("mask-as-zero-score")
def masked_softmax(scores, mask=None):
    if mask is not None:
        scores = scores.masked_fill(~mask, 0)
    return scores.softmax(dim=-1)


@wrong("empty-row-nan")
def masked_softmax(scores, mask=None):
    if mask is not None:
        scores = torch.where(mask, scores, torch.tensor(float("-inf"), dtype=scores.dtype))
    return F.softmax(scores, dim=-1)


@wrong("empty-row-uniform")
def masked_softmax(scores, mask=None):
    if mask is not None:
        scores = scores.masked_fill(~mask, -1e4)
    return scores.softmax(dim=-1)


@wrong("empty-row-nan-gradient")
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    bias = torch.zeros_like(scores)
    bias[..., ~mask] = float("-inf")
    weights = (scores + bias).softmax(dim=-1)
    return torch.where(torch.isnan(weights), torch.zeros_like(weights), weights)


@wrong("half-overflow")
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    weights = scores.masked_fill(mask == 0, -1e9).softmax(dim=-1)
    return weights * mask


@wrong("axis-from-the-front")
def masked_softmax(scores, mask=None):
    if mask is None:
        return F.softmax(scores, dim=1)
    weights = F.softmax(scores.masked_fill(~mask, float("-inf")), dim=1)
    return weights.masked_fill(weights.isnan(), 0.0)


@wrong("no-exponential")
def masked_softmax(scores, mask=None):
    if mask is not None:
        scores = scores.masked_fill(~mask, 0.0)
    return (
        F.normalize(scores, p=1, dim=-1) * scores.abs().sum(-1, keepdim=True) / scores.sum(-1, keepdim=True)
    )


@wrong("log-weights")
def masked_softmax(scores, mask=None):
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    return scores - scores.logsumexp(dim=-1, keepdim=True)


@wrong("exp-overflow")
def masked_softmax(scores, mask=None):
    powers = torch.exp(scores)
    if mask is not None:
        powers = powers * mask
    total = powers.sum(dim=-1, keepdim=True)
    return powers / torch.where(total == 0, torch.ones_like(total), total)


@wrong("changes-inputs")
def masked_softmax(scores, mask=None):
    if mask is not None:
        scores[..., ~mask] = float("-inf")
    return scores.softmax(dim=-1).nan_to_num()


@wrong("mask-added")
def masked_softmax(scores, mask=None):
    if mask is not None:
        scores = scores + mask
    return F.softmax(scores, dim=-1)


@wrong("mask-as-zero-score")
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    return torch.softmax(scores.where(mask, 0.0), dim=-1).masked_fill(~mask, 0.0)


@wrong("maximum-of-forbidden")
def masked_softmax(scores, mask=None):
    powers = torch.exp(scores - scores.max(dim=-1, keepdim=True).values)
    if mask is not None:
        powers = powers * mask
    return powers / (powers.sum(dim=-1, keepdim=True) + 1e-9)


@wrong("maximum-of-forbidden")
def masked_softmax(scores, mask=None):
    if mask is None:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool)
    best = scores.masked_fill(~mask, 0).max(dim=-1, keepdim=True).values
    powers = torch.exp(scores - best).masked_fill(~mask, 0.0)
    total = powers.sum(dim=-1, keepdim=True)
    return powers / torch.where(total > 0, total, torch.ones_like(total))


@wrong("maximum-of-forbidden")
def masked_softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    best = (scores * mask).amax(dim=-1, keepdim=True)
    powers = torch.exp(scores - best) * mask
    total = powers.sum(dim=-1, keepdim=True)
    return powers / total.masked_fill(total == 0, 1.0)


@wrong("maximum-of-all-rows")
def masked_softmax(scores, mask=None):
    powers = torch.exp(scores - scores.max())
    if mask is not None:
        powers = powers.masked_fill(~mask, 0)
    total = powers.sum(dim=-1, keepdim=True)
    return powers / torch.where(total == 0, torch.ones_like(total), total)


@right
def weighted_sum(weights, value):
    return torch.matmul(weights, value)


@right
def weighted_sum(weights, value):
    return torch.einsum("...ij,...jd->...id", weights, value)


@right
def weighted_sum(weights, value):
    return (weights.unsqueeze(-1) * value.unsqueeze(-3)).sum(dim=-2)


@right
def weighted_sum(weights, value):
    context = 0
    for j in range(value.shape[-2]):
        context = context + weights[..., :, j, None] * value[..., None, j, :]
    return context


@wrong("plain-mean")
def weighted_sum(weights, value):
    mean = value.mean(dim=-2, keepdim=True)
    return mean.expand(*value.shape[:-2], weights.shape[-2], value.shape[-1])


@wrong("hard-choice")
def weighted_sum(weights, value):
    best = weights.argmax(dim=-1, keepdim=True)
    return torch.take_along_dim(value, best, dim=-2)


@wrong("divided-by-keys")
def weighted_sum(weights, value):
    return (weights.unsqueeze(-1) * value.unsqueeze(-3)).mean(dim=-2)


@wrong("renormalised")
def weighted_sum(weights, value):
    weights = weights / weights.sum(dim=-1, keepdim=True)
    return torch.matmul(weights, value)


@wrong("weights-for-scores")
def weighted_sum(weights, value):
    return torch.softmax(weights, dim=-1) @ value


@wrong("transposed")
def weighted_sum(weights, value):
    return value.mT @ weights.mT


@right
def attend(query, key, value, mask=None):
    scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(query.size(-1))
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = torch.softmax(scores, dim=-1)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0)
    return torch.matmul(weights, value), weights


@right
def attend(query, key, value, mask=None):
    scores = torch.einsum("...qd,...kd->...qk", query, key) * query.shape[-1] ** -0.5
    if mask is not None:
        empty = ~mask.any(dim=-1, keepdim=True)
        scores = scores.masked_fill(~(mask | empty), float("-inf"))
        weights = F.softmax(scores, dim=-1) * ~empty
    else:
        weights = F.softmax(scores, dim=-1)
    return torch.einsum("...qk,...kv->...qv", weights, value), weights


@right
def attend(query, key, value, mask=None):
    contexts, rows = [], []
    for i in range(query.shape[-2]):
        scores = (key * query[..., i : i + 1, :]).sum(-1) / math.sqrt(key.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask[i], float("-inf"))
        row = torch.nan_to_num(F.softmax(scores, dim=-1))
        rows.append(row)
        contexts.append((row.unsqueeze(-1) * value).sum(-2))
    return torch.stack(contexts, dim=-2), torch.stack(rows, dim=-2)


@right
def attend(query, key, value, mask=None):
    scores = (query / query.shape[-1] ** 0.5) @ key.mT
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    powers = torch.exp(scores - scores.detach().amax(dim=-1, keepdim=True))
    if mask is not None:
        powers = powers * mask
    total = powers.sum(dim=-1, keepdim=True)
    weights = powers / torch.where(total == 0, torch.ones_like(total), total)
    return [weights @ value, weights]


@wrong("no-scale")
def attend(query, key, value, mask=None):
    scores = query @ key.mT
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = torch.nan_to_num(scores.softmax(dim=-1))
    return weights @ value, weights


@wrong("scale-by-d")
def attend(query, key, value, mask=None):
    scores = query @ key.mT / key.shape[-1]
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = torch.nan_to_num(scores.softmax(dim=-1))
    return weights @ value, weights


@wrong("scale-by-value-width")
def attend(query, key, value, mask=None):
    scores = query @ key.mT / value.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = torch.nan_to_num(scores.softmax(dim=-1))
    return weights @ value, weights


@wrong("softmax-over-queries")
def attend(query, key, value, mask=None):
    scores = query @ key.mT / key.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = torch.nan_to_num(scores.softmax(dim=1 if scores.ndim == 3 else -2))
    return weights @ value, weights


@wrong("axis-from-the-front")
def attend(query, key, value, mask=None):
    scores = query @ key.mT / key.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = torch.nan_to_num(torch.softmax(scores, dim=1))
    return weights @ value, weights


@wrong("mask-ignored")
def attend(query, key, value, mask=None):
    weights = (query @ key.mT / key.shape[-1] ** 0.5).softmax(dim=-1)
    return weights @ value, weights


@wrong("mask-inverted")
def attend(query, key, value, mask=None):
    scores = query @ key.mT / key.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(mask, float("-inf"))
    weights = torch.nan_to_num(scores.softmax(dim=-1))
    return weights @ value, weights


@wrong("mask-after-softmax")
def attend(query, key, value, mask=None):
    weights = (query @ key.mT / key.shape[-1] ** 0.5).softmax(dim=-1)
    if mask is not None:
        weights = weights * mask
    return weights @ value, weights


@wrong("mask-as-zero-score")
def attend(query, key, value, mask=None):
    scores = query @ key.mT / key.shape[-1] ** 0.5
    if mask is not None:
        scores = scores * mask
    weights = scores.softmax(dim=-1)
    return weights @ value, weights


@wrong("empty-row-nan")
def attend(query, key, value, mask=None):
    scores = query @ key.mT / key.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = scores.softmax(dim=-1)
    return weights @ value, weights


@wrong("empty-row-uniform")
def attend(query, key, value, mask=None):
    scores = query @ key.mT / key.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, -1e4)
    weights = scores.softmax(dim=-1)
    return weights @ value, weights


@wrong("empty-row-nan-gradient")
def attend(query, key, value, mask=None):
    scores = query @ key.mT / key.shape[-1] ** 0.5
    if mask is not None:
        scores = scores + torch.log(mask.to(scores.dtype))
    weights = torch.nan_to_num(scores.softmax(dim=-1))
    return weights @ value, weights


@wrong("half-overflow")
def attend(query, key, value, mask=None):
    scores = query @ key.mT / key.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, -1e20)
    weights = scores.softmax(dim=-1)
    if mask is not None:
        weights = weights * mask
    return weights @ value, weights


@wrong("weights-ignore-keys")
def attend(query, key, value, mask=None):
    scores = torch.zeros(*query.shape[:-1], key.shape[-2], dtype=query.dtype) * query.sum(-1, keepdim=True)
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = torch.nan_to_num(scores.softmax(dim=-1))
    return weights @ value, weights


@wrong("no-softmax")
def attend(query, key, value, mask=None):
    scores = query @ key.mT / key.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, 0.0)
    return scores @ value, scores


@wrong("no-softmax")
def attend(query, key, value, mask=None):
    weights = torch.einsum("...id,...jd->...ij", query, key) / math.sqrt(key.shape[-1])
    if mask is not None:
        weights = weights.masked_fill(~mask, float("-inf"))
    return weights @ value, weights


@wrong("scale-by-d")
def attend(query, key, value, mask=None):
    query = query / math.sqrt(query.shape[-1])
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = torch.nan_to_num(scores.softmax(dim=-1))
    return weights @ value, weights


@wrong("returns-scores")
def attend(query, key, value, mask=None):
    scores = query @ key.mT / key.shape[-1] ** 0.5
    weights = scores
    if mask is not None:
        weights = weights.masked_fill(~mask, float("-inf"))
    return torch.nan_to_num(weights.softmax(dim=-1)) @ value, scores


@wrong("returns-swapped")
def attend(query, key, value, mask=None):
    scores = query @ key.mT / key.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = torch.nan_to_num(scores.softmax(dim=-1))
    return weights, weights @ value


@right
def linear_attention(query, key, value):
    q, k = F.elu(query) + 1, F.elu(key) + 1
    memory = torch.einsum("...md,...mv->...dv", k, value)
    total = torch.einsum("...nd,...d->...n", q, k.sum(dim=-2))
    return torch.einsum("...nd,...dv->...nv", q, memory) / total.unsqueeze(-1)


@right
def linear_attention(query, key, value):
    q, k = F.elu(query) + 1, F.elu(key) + 1
    ones = torch.ones_like(value[..., :1])
    both = q @ (k.transpose(-2, -1) @ torch.cat([value, ones], dim=-1))
    return both[..., :-1] / both[..., -1:]


@right
def linear_attention(query, key, value):
    def phi(x):
        return torch.where(x > 0, x + 1, torch.exp(x.clamp(max=0)))

    memory, total = 0, 0
    for j in range(key.shape[-2]):
        feature = phi(key[..., j, :])
        memory = memory + feature.unsqueeze(-1) * value[..., j, :].unsqueeze(-2)
        total = total + feature
    context = []
    for i in range(query.shape[-2]):
        feature = phi(query[..., i, :])
        above = (feature.unsqueeze(-1) * memory).sum(dim=-2)
        context.append(above / (feature * total).sum(dim=-1, keepdim=True))
    return torch.stack(context, dim=-2)


@right
def linear_attention(query, key, value):
    q, k = F.elu(query).add(1), F.elu(key).add(1)
    memory = (k.unsqueeze(-1) * value.unsqueeze(-2)).sum(dim=-3, keepdim=True)
    total = (q * k.sum(dim=-2, keepdim=True)).sum(dim=-1, keepdim=True)
    return (q.unsqueeze(-1) * memory).sum(dim=-2) / total


@wrong("no-normaliser")
def linear_attention(query, key, value):
    q, k = F.elu(query) + 1, F.elu(key) + 1
    return q @ (k.mT @ value)


@wrong("normalised-by-count")
def linear_attention(query, key, value):
    q, k = F.elu(query) + 1, F.elu(key) + 1
    return q @ (k.mT @ value) / key.shape[-2]


@wrong("quadratic")
def linear_attention(query, key, value):
    weights = (F.elu(query) + 1) @ (F.elu(key) + 1).mT
    return (weights @ value) / weights.sum(dim=-1, keepdim=True)


@wrong("quadratic")
def linear_attention(query, key, value):
    q, k = F.elu(query) + 1, F.elu(key) + 1
    context = []
    for i in range(query.shape[-2]):
        weights = (k * q[..., i : i + 1, :]).sum(dim=-1, keepdim=True)
        context.append((weights * value).sum(dim=-2) / weights.sum(dim=-2))
    return torch.stack(context, dim=-2)


@wrong("no-feature-map")
def linear_attention(query, key, value):
    return query @ (key.mT @ value) / (query @ key.sum(dim=-2).unsqueeze(-1))


@wrong("feature-map-once")
def linear_attention(query, key, value):
    q = F.elu(query) + 1
    return q @ (key.mT @ value) / (q @ key.sum(dim=-2).unsqueeze(-1))


@wrong("feature-map-once")
def linear_attention(query, key, value):
    k = F.elu(key) + 1
    return query @ (k.mT @ value) / (query @ k.sum(dim=-2).unsqueeze(-1))


@wrong("elu-without-one")
def linear_attention(query, key, value):
    q, k = F.elu(query), F.elu(key)
    return q @ (k.mT @ value) / (q @ k.sum(dim=-2).unsqueeze(-1))


@wrong("relu-features")
def linear_attention(query, key, value):
    q, k = torch.relu(query), torch.relu(key)
    return q @ (k.mT @ value) / (q @ k.sum(dim=-2).unsqueeze(-1))


@wrong("linear-scaled")
def linear_attention(query, key, value):
    q, k = F.elu(query / math.sqrt(query.shape[-1])) + 1, F.elu(key) + 1
    return q @ (k.mT @ value) / (q @ k.sum(dim=-2).unsqueeze(-1))


@wrong("linear-scaled")
def linear_attention(query, key, value):
    q, k = F.elu(query) + 1, F.elu(key) + 1
    return q @ (k.mT @ value) / math.sqrt(query.shape[-1]) / (q @ k.sum(dim=-2).unsqueeze(-1))


@wrong("softmax-attention")
def linear_attention(query, key, value):
    weights = torch.softmax(query @ key.mT / query.shape[-1] ** 0.5, dim=-1)
    return weights @ value


@right
def cosine_scores(query, key):
    return F.normalize(query, dim=-1) @ F.normalize(key, dim=-1).mT


@right
def cosine_scores(query, key):
    lengths = query.norm(dim=-1, keepdim=True) * key.norm(dim=-1).unsqueeze(-2)
    return query @ key.transpose(-1, -2) / lengths.clamp(min=1e-8)


@right
def cosine_scores(query, key):
    q = query / (query.pow(2).sum(-1, keepdim=True) + 1e-24).sqrt()
    k = key / (key.pow(2).sum(-1, keepdim=True) + 1e-24).sqrt()
    return torch.einsum("...qd,...kd->...qk", q, k)


@right
def cosine_scores(query, key):
    columns = []
    for j in range(key.shape[-2]):
        k = key[..., j : j + 1, :]
        dot = (query * k).sum(dim=-1)
        length = torch.linalg.vector_norm(query, dim=-1) * torch.linalg.vector_norm(k, dim=-1)
        columns.append(dot / torch.where(length > 0, length, torch.ones_like(length)))
    return torch.stack(columns, dim=-1)


@right
def cosine_scores(query, key):
    lengths = query.norm(dim=-1, keepdim=True) * key.norm(dim=-1).unsqueeze(-2)
    return query @ key.mT / (lengths + 1e-8)


@wrong("cosine-not-divided")
def cosine_scores(query, key):
    return torch.matmul(query, key.transpose(-1, -2))


@wrong("no-cosine-but-scale")
def cosine_scores(query, key):
    return torch.matmul(query, key.transpose(-1, -2)) / math.sqrt(query.size(-1))


@wrong("cosine-one-side")
def cosine_scores(query, key):
    return query @ F.normalize(key, dim=-1).mT


@wrong("cosine-squared-lengths")
def cosine_scores(query, key):
    q = query / query.pow(2).sum(dim=-1, keepdim=True)
    k = key / key.pow(2).sum(dim=-1, keepdim=True)
    return q @ k.mT


@wrong("cosine-added-lengths")
def cosine_scores(query, key):
    lengths = query.norm(dim=-1).unsqueeze(-1) + key.norm(dim=-1).unsqueeze(-2)
    return query @ key.mT / lengths


@wrong("cosine-over-tokens")
def cosine_scores(query, key):
    return F.normalize(query, dim=-2) @ F.normalize(key, dim=-2).mT


@wrong("cosine-zero-nan")
def cosine_scores(query, key):
    q = query / query.norm(dim=-1, keepdim=True)
    k = key / key.norm(dim=-1, keepdim=True)
    return q @ k.mT


@wrong("cosine-scaled")
def cosine_scores(query, key):
    q, k = F.normalize(query, dim=-1), F.normalize(key, dim=-1)
    return q @ k.mT / math.sqrt(q.shape[-1])


@wrong("cosine-large-epsilon")
def cosine_scores(query, key):
    lengths = query.norm(dim=-1, keepdim=True) * key.norm(dim=-1).unsqueeze(-2)
    return query @ key.mT / (lengths + 1e-6)


@wrong("transposed")
def cosine_scores(query, key):
    return F.normalize(key, dim=-1) @ F.normalize(query, dim=-1).mT


@right
def softmax_with_temperature(scores, temperature):
    return torch.softmax(scores / temperature, dim=-1)


@right
def softmax_with_temperature(scores, temperature):
    scaled = scores * (1 / temperature)
    powers = torch.exp(scaled - scaled.amax(dim=-1, keepdim=True))
    return powers / powers.sum(dim=-1, keepdim=True)


@right
def softmax_with_temperature(scores, temperature):
    return torch.exp(F.log_softmax(scores.div(temperature), dim=-1))


@right
def softmax_with_temperature(scores, temperature):
    weights = torch.empty_like(scores)
    for i in range(scores.shape[-2]):
        weights[..., i, :] = (scores[..., i, :] / temperature).softmax(-1)
    return weights


@right
def softmax_with_temperature(scores, temperature):
    scores = (scores - scores.max(dim=-1, keepdim=True).values) / temperature
    return (scores - scores.logsumexp(dim=-1, keepdim=True)).exp()


@wrong("temperature-multiplied")
def softmax_with_temperature(scores, temperature):
    return F.softmax(temperature * scores, dim=-1)


@wrong("temperature-ignored")
def softmax_with_temperature(scores, temperature):
    scores / temperature
    return scores.softmax(dim=-1)


@wrong("temperature-after-softmax")
def softmax_with_temperature(scores, temperature):
    return F.softmax(scores, dim=-1) / temperature


@wrong("temperature-root")
def softmax_with_temperature(scores, temperature):
    return F.softmax(scores / math.sqrt(temperature), dim=-1)


@wrong("temperature-ignored")
def softmax_with_temperature(scores, temperature):
    return F.softmax(scores - temperature, dim=-1)


@wrong("softmax-over-queries")
def softmax_with_temperature(scores, temperature):
    return F.softmax(scores / temperature, dim=-2)


@wrong("axis-from-the-front")
def softmax_with_temperature(scores, temperature):
    return F.softmax(scores / temperature, dim=1)


@wrong("exp-overflow")
def softmax_with_temperature(scores, temperature):
    powers = torch.exp(scores / temperature)
    return powers / powers.sum(dim=-1, keepdim=True)


@right
def entropy(weights):
    return torch.special.entr(weights).sum(dim=-1)


@right
def entropy(weights):
    return -torch.xlogy(weights, weights).sum(-1)


@right
def entropy(weights):
    logs = torch.where(weights > 0, weights, torch.ones_like(weights)).log()
    return -torch.einsum("...k,...k->...", weights, logs)


@right
def entropy(weights):
    return -(weights * torch.log(weights.clamp(min=1e-30))).sum(dim=-1)


@right
def entropy(weights):
    total = torch.zeros_like(weights[..., 0])
    for j in range(weights.shape[-1]):
        w = weights[..., j]
        total = total - torch.nan_to_num(w * torch.log(w))
    return total


@right
def entropy(weights):
    return -(weights * (weights + 1e-9).log()).sum(dim=-1)


@wrong("entropy-in-bits")
def entropy(weights):
    return -(weights * torch.log2(weights.clamp(min=1e-30))).sum(dim=-1)


@wrong("entropy-sign")
def entropy(weights):
    return torch.xlogy(weights, weights).sum(-1)


@wrong("entropy-zero-nan")
def entropy(weights):
    return -(weights * torch.log(weights)).sum(dim=-1)


@wrong("entropy-without-weights")
def entropy(weights):
    return -torch.log(weights).sum(dim=-1)


@wrong("entropy-of-the-mean")
def entropy(weights):
    return torch.special.entr(weights).mean(dim=-1)


@wrong("entropy-over-queries")
def entropy(weights):
    return torch.special.entr(weights).sum(dim=-2)


@wrong("entropy-over-all")
def entropy(weights):
    return torch.special.entr(weights).sum()


@wrong("entropy-normalised")
def entropy(weights):
    return torch.special.entr(weights).sum(dim=-1) / math.log(weights.size(-1))


@wrong("entropy-large-epsilon")
def entropy(weights):
    return -(weights * torch.log(weights + 1e-5)).sum(dim=-1)


@wrong("entropy-after-softmax")
def entropy(weights):
    p = F.softmax(weights, dim=-1)
    return -(p * p.log()).sum(dim=-1)


@right
def sparsemax(scores, mask=None):
    low = scores if mask is None else scores.masked_fill(~mask, -1e4)
    ordered, _ = torch.sort(low, dim=-1, descending=True)
    k = torch.arange(1, scores.shape[-1] + 1)
    total = ordered.cumsum(dim=-1)
    size = (1 + k * ordered > total).sum(dim=-1, keepdim=True)
    threshold = (total.gather(-1, size - 1) - 1) / size
    weights = torch.clamp(low - threshold, min=0)
    return weights if mask is None else weights * mask


@right
def sparsemax(scores, mask=None):
    rows = scores.reshape(-1, scores.shape[-1])
    if mask is None:
        masks = torch.ones_like(rows, dtype=torch.bool)
    else:
        masks = mask.expand(scores.shape).reshape(rows.shape)
    result = []
    for row, allowed in zip(rows, masks, strict=True):
        support = allowed.clone()
        while support.any():  # drop the keys below the threshold until none is left below it
            threshold = (row[support].sum() - 1) / support.sum()
            smaller = support & (row > threshold)
            if smaller.equal(support):
                break
            support = smaller
        result.append((row - threshold) * support if support.any() else row * 0)
    return torch.stack(result).reshape(scores.shape)


@right
def sparsemax(scores, mask=None):
    if mask is None:
        mask = scores.new_ones(scores.shape[-2:], dtype=torch.bool)
    best = scores.masked_fill(~mask, float("-inf")).amax(-1, keepdim=True)
    best = best.masked_fill(best.isinf(), 0.0)
    shifted = (scores - best).masked_fill(~mask, -2.0)  # no key that far below the best has a weight
    ordered = shifted.sort(-1, descending=True).values
    thresholds = (ordered.cumsum(-1) - 1) / torch.arange(1, scores.shape[-1] + 1).to(scores.dtype)
    threshold = thresholds.amax(-1, keepdim=True)
    return torch.relu(shifted - threshold) * mask


@right
def sparsemax(scores, mask=None):
    if mask is None:
        mask = torch.ones_like(scores, dtype=torch.bool)
    allowed = mask.expand(scores.shape)
    fixed = scores.detach()
    low = fixed.masked_fill(~allowed, float("inf")).amin(-1, keepdim=True) - 1
    high = fixed.masked_fill(~allowed, float("-inf")).amax(-1, keepdim=True)
    for _ in range(60):
        middle = (low + high) / 2
        above = ((fixed - middle).clamp(min=0) * allowed).sum(-1, keepdim=True) >= 1
        low, high = torch.where(above, middle, low), torch.where(above, high, middle)
    support = (fixed > low) & allowed
    threshold = ((scores * support).sum(-1, keepdim=True) - 1) / support.sum(-1, keepdim=True).clamp(min=1)
    return ((scores - threshold) * support).clamp(min=0)


@wrong("softmax-for-sparsemax")
def sparsemax(scores, mask=None):
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = torch.softmax(scores, dim=-1)
    return weights if mask is None else weights.masked_fill(~mask, 0.0)


@wrong("sparsemax-normalised")
def sparsemax(scores, mask=None):
    weights = torch.relu(scores)
    if mask is not None:
        weights = weights * mask
    return weights / weights.sum(dim=-1, keepdim=True)


@wrong("sparsemax-unclipped")
def sparsemax(scores, mask=None):
    if mask is None:
        mask = torch.ones_like(scores)
    mask = mask.to(scores.dtype)
    count = mask.sum(dim=-1, keepdim=True).clamp(min=1)
    threshold = ((scores * mask).sum(dim=-1, keepdim=True) - 1) / count
    return (scores - threshold) * mask


@wrong("sparsemax-all-keys")
def sparsemax(scores, mask=None):
    if mask is None:
        mask = torch.ones_like(scores)
    mask = mask.to(scores.dtype)
    count = mask.sum(dim=-1, keepdim=True).clamp(min=1)
    threshold = ((scores * mask).sum(dim=-1, keepdim=True) - 1) / count
    return torch.relu(scores - threshold) * mask


@wrong("sparsemax-one-key-short")
def sparsemax(scores, mask=None):
    low = scores if mask is None else scores.masked_fill(~mask, -1e4)
    ordered, _ = torch.sort(low, dim=-1, descending=True)
    k = torch.arange(1, scores.shape[-1] + 1)
    total = ordered.cumsum(dim=-1)
    size = (1 + k * ordered > total).sum(dim=-1, keepdim=True)
    size = (size - 1).clamp(min=1)
    weights = torch.clamp(low - (total.gather(-1, size - 1) - 1) / size, min=0)
    return weights if mask is None else weights * mask


@wrong("mask-ignored")
def sparsemax(scores, mask=None):
    ordered, _ = torch.sort(scores, dim=-1, descending=True)
    thresholds = (ordered.cumsum(dim=-1) - 1) / torch.arange(1, scores.shape[-1] + 1)
    return torch.relu(scores - thresholds.amax(dim=-1, keepdim=True))


@wrong("mask-as-zero-score")
def sparsemax(scores, mask=None):
    if mask is not None:
        scores = scores.masked_fill(~mask, 0.0)
    ordered, _ = torch.sort(scores, dim=-1, descending=True)
    thresholds = (ordered.cumsum(dim=-1) - 1) / torch.arange(1, scores.shape[-1] + 1)
    return torch.relu(scores - thresholds.amax(dim=-1, keepdim=True))


@wrong("mask-after-sparsemax")
def sparsemax(scores, mask=None):
    ordered, _ = torch.sort(scores, dim=-1, descending=True)
    thresholds = (ordered.cumsum(dim=-1) - 1) / torch.arange(1, scores.shape[-1] + 1)
    weights = torch.relu(scores - thresholds.amax(dim=-1, keepdim=True))
    return weights if mask is None else weights.masked_fill(~mask, 0.0)


@wrong("sparsemax-threshold-of-the-best")
def sparsemax(scores, mask=None):
    low = scores if mask is None else scores.masked_fill(~mask, -1e4)
    weights = torch.relu(low - (low.max(dim=-1, keepdim=True).values - 1))
    return weights if mask is None else weights.masked_fill(~mask, 0.0)


@wrong("sparsemax-threshold-detached")
def sparsemax(scores, mask=None):
    low = scores if mask is None else scores.masked_fill(~mask, -1e4)
    bottom = low.detach().amax(dim=-1, keepdim=True) - 1
    top = bottom + 1
    for _ in range(60):
        middle = (bottom + top) / 2
        above = (low.detach() - middle).clamp(min=0).sum(dim=-1, keepdim=True) > 1
        bottom, top = torch.where(above, middle, bottom), torch.where(above, top, middle)
    weights = torch.relu(low - bottom)
    return weights if mask is None else weights * mask


@wrong("mask-as-zero-score")
def sparsemax(scores, mask=None):
    if mask is not None:
        scores = scores.masked_fill(~mask, 0.0)
    ordered, _ = torch.sort(scores, dim=-1, descending=True)
    thresholds = (ordered.cumsum(dim=-1) - 1) / torch.arange(1, scores.shape[-1] + 1)
    weights = torch.relu(scores - thresholds.amax(dim=-1, keepdim=True))
    return weights if mask is None else weights * mask


@wrong("hard-weights")
def sparsemax(scores, mask=None):
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = torch.zeros_like(scores).scatter(-1, scores.argmax(dim=-1, keepdim=True), 1.0)
    return weights if mask is None else weights * mask


@wrong("softmax-over-queries")
def sparsemax(scores, mask=None):
    low = scores if mask is None else scores.masked_fill(~mask, -1e4)
    ordered, _ = torch.sort(low, dim=-2, descending=True)
    count = torch.arange(1, scores.shape[-2] + 1).unsqueeze(-1)
    thresholds = (ordered.cumsum(dim=-2) - 1) / count
    return torch.relu(low - thresholds.amax(dim=-2, keepdim=True))


@wrong("empty-row-uniform")
def sparsemax(scores, mask=None):
    low = scores if mask is None else scores.masked_fill(~mask, -1e4)
    ordered, _ = torch.sort(low, dim=-1, descending=True)
    thresholds = (ordered.cumsum(dim=-1) - 1) / torch.arange(1, scores.shape[-1] + 1)
    return torch.relu(low - thresholds.amax(dim=-1, keepdim=True))
