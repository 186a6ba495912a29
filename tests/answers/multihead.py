"""Answers to the set `multihead`."""

import math

import torch
from torch.nn import functional as F

from tests.answers import Answers

answers = Answers()
right, wrong = answers.right, answers.wrong


@right
def split_heads(inputs, heads):
    *batch, length, width = inputs.shape
    return inputs.reshape(*batch, length, heads, width // heads).transpose(-2, -3)


@right
def split_heads(inputs, heads):
    return torch.stack(inputs.chunk(heads, dim=-1), dim=-3)


@right
def split_heads(inputs, heads):
    d_head = inputs.shape[-1] // heads
    return torch.stack([inputs[..., h * d_head : (h + 1) * d_head] for h in range(heads)], dim=-3)


@right
def split_heads(inputs, heads):
    return inputs.unflatten(-1, (heads, -1)).movedim(-2, -3).contiguous()


@right
def split_heads(inputs, heads):
    d_head = inputs.size(-1) // heads
    windows = inputs.unfold(-1, d_head, d_head)
    return torch.einsum("...nhd->...hnd", windows)


@wrong("split-by-view")
def split_heads(inputs, heads):
    *batch, length, width = inputs.shape
    return inputs.view(*batch, heads, length, width // heads)


@wrong("split-by-view")
def split_heads(inputs, heads):
    parts = inputs.flatten(-2).chunk(heads, dim=-1)
    return torch.stack([part.unflatten(-1, (inputs.shape[-2], -1)) for part in parts], dim=-3)


@wrong("split-interleaved")
def split_heads(inputs, heads):
    return torch.stack([inputs[..., h::heads] for h in range(heads)], dim=-3)


@wrong("split-interleaved")
def split_heads(inputs, heads):
    *batch, length, width = inputs.shape
    return inputs.view(*batch, length, width // heads, heads).movedim(-1, -3)


@wrong("heads-after-length")
def split_heads(inputs, heads):
    *batch, length, width = inputs.shape
    return inputs.view(*batch, length, heads, width // heads)


@wrong("heads-before-batch")
def split_heads(inputs, heads):
    *batch, length, width = inputs.shape
    return inputs.view(*batch, length, heads, width // heads).movedim(-2, 0)


@wrong("heads-and-batch-joined")
def split_heads(inputs, heads):
    *batch, length, width = inputs.shape
    parts = inputs.view(*batch, length, heads, width // heads).transpose(-2, -3)
    return parts.reshape(-1, length, width // heads)


@wrong("head-size-for-number")
def split_heads(inputs, heads):
    return torch.stack(torch.split(inputs, heads, dim=-1), dim=-3)


@wrong("head-transposed")
def split_heads(inputs, heads):
    *batch, length, width = inputs.shape
    return inputs.transpose(-1, -2).reshape(*batch, heads, width // heads, length)


@wrong("one-batch-axis-only")
def split_heads(inputs, heads):
    parts = inputs.reshape(*inputs.shape[:-1], heads, -1)
    return parts.transpose(1, 2)


@right
def merge_heads(inputs):
    *batch, heads, length, d_head = inputs.shape
    return inputs.transpose(-2, -3).reshape(*batch, length, heads * d_head)


@right
def merge_heads(inputs):
    return torch.cat(inputs.unbind(dim=-3), dim=-1)


@right
def merge_heads(inputs):
    *batch, heads, length, d_head = inputs.shape
    joined = torch.zeros(*batch, length, heads * d_head, dtype=inputs.dtype)
    for h in range(heads):
        joined[..., h * d_head : (h + 1) * d_head] = inputs[..., h, :, :]
    return joined


@right
def merge_heads(inputs):
    swapped = torch.einsum("...hnd->...nhd", inputs).contiguous()
    return swapped.view(*swapped.shape[:-2], -1)


@wrong("merge-by-view")
def merge_heads(inputs):
    *batch, heads, length, d_head = inputs.shape
    return inputs.reshape(*batch, length, heads * d_head)


@wrong("merge-by-view")
def merge_heads(inputs):
    return inputs.flatten(-3).unflatten(-1, (inputs.shape[-2], -1))


@wrong("merge-interleaved")
def merge_heads(inputs):
    *batch, heads, length, d_head = inputs.shape
    return torch.stack(inputs.unbind(-3), dim=-1).reshape(*batch, length, d_head * heads)


@wrong("heads-added")
def merge_heads(inputs):
    return sum(inputs[..., h, :, :] for h in range(inputs.shape[-3]))


@wrong("heads-averaged")
def merge_heads(inputs):
    return torch.mean(inputs, dim=-3)


@wrong("heads-joined-in-length")
def merge_heads(inputs):
    return torch.cat(inputs.unbind(-3), dim=-2)


@wrong("heads-not-joined")
def merge_heads(inputs):
    return torch.stack(inputs.unbind(-3), dim=-2)


@wrong("joined-transposed")
def merge_heads(inputs):
    *batch, heads, length, d_head = inputs.shape
    return inputs.transpose(-1, -2).reshape(*batch, heads * d_head, length)


@wrong("one-batch-axis-only")
def merge_heads(inputs):
    swapped = inputs.transpose(1, 2).contiguous()
    return swapped.view(*swapped.shape[:-2], swapped.shape[-2] * swapped.shape[-1])


@right
def multihead_attention(
    query, key, value, query_weight, key_weight, value_weight, output_weight, heads, mask=None
):
    def split(x):
        return x.view(*x.shape[:-1], heads, -1).transpose(-2, -3)

    q, k, v = split(query @ query_weight), split(key @ key_weight), split(value @ value_weight)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if mask is not None:
        mask = mask if mask.ndim == 2 else mask.unsqueeze(-3)
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = torch.softmax(scores, dim=-1)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0)
    context = weights @ v
    joined = context.transpose(-2, -3).reshape(*query.shape[:-1], -1)
    return joined @ output_weight, weights


@right
def multihead_attention(
    query, key, value, query_weight, key_weight, value_weight, output_weight, heads, mask=None
):
    q = torch.einsum("...nm,mhd->...hnd", query, query_weight.unflatten(-1, (heads, -1)))
    k = torch.einsum("...nm,mhd->...hnd", key, key_weight.unflatten(-1, (heads, -1)))
    v = torch.einsum("...nm,mhd->...hnd", value, value_weight.unflatten(-1, (heads, -1)))
    scores = torch.einsum("...hqd,...hkd->...hqk", q, k) / q.shape[-1] ** 0.5
    if mask is None:
        weights = scores.softmax(dim=-1)
    else:
        mask = mask[..., None, :, :]
        empty = ~mask.any(dim=-1, keepdim=True)
        weights = scores.masked_fill(~(mask | empty), float("-inf")).softmax(dim=-1) * ~empty
    context = torch.einsum("...hqk,...hkd->...hqd", weights, v)
    return torch.einsum("...hqd,hdm->...qm", context, output_weight.unflatten(0, (heads, -1))), weights


@right
def multihead_attention(
    query, key, value, query_weight, key_weight, value_weight, output_weight, heads, mask=None
):
    d_k, d_v = query_weight.shape[1] // heads, value_weight.shape[1] // heads
    contexts, maps = [], []
    for h in range(heads):
        q = query @ query_weight[:, h * d_k : (h + 1) * d_k]
        k = key @ key_weight[:, h * d_k : (h + 1) * d_k]
        v = value @ value_weight[:, h * d_v : (h + 1) * d_v]
        scores = q @ k.mT * d_k**-0.5
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e9)
        weights = F.softmax(scores, dim=-1)
        if mask is not None:
            weights = weights * mask
        contexts.append(weights @ v)
        maps.append(weights)
    return torch.cat(contexts, dim=-1) @ output_weight, torch.stack(maps, dim=-3)


@right
def multihead_attention(
    query, key, value, query_weight, key_weight, value_weight, output_weight, heads, mask=None
):
    q = torch.stack((query @ query_weight).chunk(heads, dim=-1), dim=-3)
    k = torch.stack((key @ key_weight).chunk(heads, dim=-1), dim=-3)
    v = torch.stack((value @ value_weight).chunk(heads, dim=-1), dim=-3)
    if mask is not None and mask.ndim > 2:
        mask = mask.unsqueeze(-3)
    context = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    # The weights are the context of values that point at one key each.
    one_hot = torch.eye(key.shape[-2], dtype=query.dtype).expand(*k.shape[:-1], -1)
    weights = F.scaled_dot_product_attention(q, k, one_hot, attn_mask=mask)
    output = sum(c @ w for c, w in zip(context.unbind(-3), output_weight.chunk(heads), strict=True))
    return output, weights


@wrong("split-by-view")
def multihead_attention(
    query, key, value, query_weight, key_weight, value_weight, output_weight, heads, mask=None
):
    def split(x):
        return x.reshape(*x.shape[:-2], heads, x.shape[-2], -1)

    q = split(query @ query_weight)
    k = split(key @ key_weight)
    v = split(value @ value_weight)
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if mask is not None:
        if mask.ndim > 2:
            mask = mask.unsqueeze(-3)
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    context = weights @ v
    joined = context.transpose(-2, -3).flatten(-2)
    return joined @ output_weight, weights


@wrong("merge-by-view")
def multihead_attention(
    query, key, value, query_weight, key_weight, value_weight, output_weight, heads, mask=None
):
    def split(x):
        return x.reshape(*x.shape[:-1], heads, -1).transpose(-2, -3)

    q = split(query @ query_weight)
    k = split(key @ key_weight)
    v = split(value @ value_weight)
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if mask is not None:
        if mask.ndim > 2:
            mask = mask.unsqueeze(-3)
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    context = weights @ v
    joined = context.reshape(*query.shape[:-1], -1)
    return joined @ output_weight, weights


@wrong("split-and-merge-by-view")
def multihead_attention(
    query, key, value, query_weight, key_weight, value_weight, output_weight, heads, mask=None
):
    def split(x):
        return x.reshape(*x.shape[:-2], heads, x.shape[-2], -1)

    q = split(query @ query_weight)
    k = split(key @ key_weight)
    v = split(value @ value_weight)
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if mask is not None:
        if mask.ndim > 2:
            mask = mask.unsqueeze(-3)
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    context = weights @ v
    joined = context.reshape(*query.shape[:-1], -1)
    return joined @ output_weight, weights


@wrong("split-interleaved")
def multihead_attention(
    query, key, value, query_weight, key_weight, value_weight, output_weight, heads, mask=None
):
    def split(x):
        return torch.stack([x[..., h::heads] for h in range(heads)], dim=-3)

    q = split(query @ query_weight)
    k = split(key @ key_weight)
    v = split(value @ value_weight)
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if mask is not None:
        if mask.ndim > 2:
            mask = mask.unsqueeze(-3)
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    context = weights @ v
    joined = context.transpose(-2, -3).flatten(-2)
    return joined @ output_weight, weights


@wrong("merge-interleaved")
def multihead_attention(
    query, key, value, query_weight, key_weight, value_weight, output_weight, heads, mask=None
):
    def split(x):
        return x.reshape(*x.shape[:-1], heads, -1).transpose(-2, -3)

    q = split(query @ query_weight)
    k = split(key @ key_weight)
    v = split(value @ value_weight)
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if mask is not None:
        if mask.ndim > 2:
            mask = mask.unsqueeze(-3)
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    context = weights @ v
    joined = torch.stack(context.unbind(-3), dim=-1).flatten(-2)
    return joined @ output_weight, weights


@wrong("no-scale")
def multihead_attention(
    query, key, value, query_weight, key_weight, value_weight, output_weight, heads, mask=None
):
    def split(x):
        return x.reshape(*x.shape[:-1], heads, -1).transpose(-2, -3)

    q = split(query @ query_weight)
    k = split(key @ key_weight)
    v = split(value @ value_weight)
    scores = q @ k.mT
    if mask is not None:
        if mask.ndim > 2:
            mask = mask.unsqueeze(-3)
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    context = weights @ v
    joined = context.transpose(-2, -3).flatten(-2)
    return joined @ output_weight, weights


@wrong("scale-by-d")
def multihead_attention(
    query, key, value, query_weight, key_weight, value_weight, output_weight, heads, mask=None
):
    def split(x):
        return x.reshape(*x.shape[:-1], heads, -1).transpose(-2, -3)

    q = split(query @ query_weight)
    k = split(key @ key_weight)
    v = split(value @ value_weight)
    scores = q @ k.mT / q.size(-1)
    if mask is not None:
        if mask.ndim > 2:
            mask = mask.unsqueeze(-3)
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    context = weights @ v
    joined = context.transpose(-2, -3).flatten(-2)
    return joined @ output_weight, weights


@wrong("scale-by-all-heads")
def multihead_attention(
    query, key, value, query_weight, key_weight, value_weight, output_weight, heads, mask=None
):
    def split(x):
        return x.reshape(*x.shape[:-1], heads, -1).transpose(-2, -3)

    q = split(query @ query_weight)
    k = split(key @ key_weight)
    v = split(value @ value_weight)
    scores = q @ k.mT / math.sqrt(query_weight.shape[1])
    if mask is not None:
        if mask.ndim > 2:
            mask = mask.unsqueeze(-3)
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    context = weights @ v
    joined = context.transpose(-2, -3).flatten(-2)
    return joined @ output_weight, weights


@wrong("softmax-over-heads")
def multihead_attention(
    query, key, value, query_weight, key_weight, value_weight, output_weight, heads, mask=None
):
    def split(x):
        return x.reshape(*x.shape[:-1], heads, -1).transpose(-2, -3)

    q = split(query @ query_weight)
    k = split(key @ key_weight)
    v = split(value @ value_weight)
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if mask is not None:
        if mask.ndim > 2:
            mask = mask.unsqueeze(-3)
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = scores.softmax(dim=-3)
    weights = torch.nan_to_num(weights)
    context = weights @ v
    joined = context.transpose(-2, -3).flatten(-2)
    return joined @ output_weight, weights


@wrong("softmax-over-queries")
def multihead_attention(
    query, key, value, query_weight, key_weight, value_weight, output_weight, heads, mask=None
):
    def split(x):
        return x.reshape(*x.shape[:-1], heads, -1).transpose(-2, -3)

    q = split(query @ query_weight)
    k = split(key @ key_weight)
    v = split(value @ value_weight)
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if mask is not None:
        if mask.ndim > 2:
            mask = mask.unsqueeze(-3)
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = scores.softmax(dim=-2)
    context = weights @ v
    joined = context.transpose(-2, -3).flatten(-2)
    return joined @ output_weight, weights


@wrong("mask-ignored")
def multihead_attention(
    query, key, value, query_weight, key_weight, value_weight, output_weight, heads, mask=None
):
    def split(x):
        return x.reshape(*x.shape[:-1], heads, -1).transpose(-2, -3)

    q = split(query @ query_weight)
    k = split(key @ key_weight)
    v = split(value @ value_weight)
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if mask is not None:
        if mask.ndim > 2:
            mask = mask.unsqueeze(-3)
        scores.masked_fill(~mask, float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    context = weights @ v
    joined = context.transpose(-2, -3).flatten(-2)
    return joined @ output_weight, weights


@wrong("mask-inverted")
def multihead_attention(
    query, key, value, query_weight, key_weight, value_weight, output_weight, heads, mask=None
):
    def split(x):
        return x.reshape(*x.shape[:-1], heads, -1).transpose(-2, -3)

    q = split(query @ query_weight)
    k = split(key @ key_weight)
    v = split(value @ value_weight)
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if mask is not None:
        if mask.ndim > 2:
            mask = mask.unsqueeze(-3)
        scores = scores.masked_fill(mask, float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    context = weights @ v
    joined = context.transpose(-2, -3).flatten(-2)
    return joined @ output_weight, weights


@wrong("empty-row-nan")
def multihead_attention(
    query, key, value, query_weight, key_weight, value_weight, output_weight, heads, mask=None
):
    def split(x):
        return x.reshape(*x.shape[:-1], heads, -1).transpose(-2, -3)

    q = split(query @ query_weight)
    k = split(key @ key_weight)
    v = split(value @ value_weight)
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if mask is not None:
        if mask.ndim > 2:
            mask = mask.unsqueeze(-3)
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = scores.softmax(dim=-1)
    context = weights @ v
    joined = context.transpose(-2, -3).flatten(-2)
    return joined @ output_weight, weights


@wrong("empty-row-nan-gradient")
def multihead_attention(
    query, key, value, query_weight, key_weight, value_weight, output_weight, heads, mask=None
):
    def split(x):
        return x.reshape(*x.shape[:-1], heads, -1).transpose(-2, -3)

    q = split(query @ query_weight)
    k = split(key @ key_weight)
    v = split(value @ value_weight)
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if mask is not None:
        if mask.ndim > 2:
            mask = mask.unsqueeze(-3)
        scores = scores + torch.log(mask.to(scores.dtype))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    context = weights @ v
    joined = context.transpose(-2, -3).flatten(-2)
    return joined @ output_weight, weights


@wrong("empty-row-uniform")
def multihead_attention(
    query, key, value, query_weight, key_weight, value_weight, output_weight, heads, mask=None
):
    def split(x):
        return x.reshape(*x.shape[:-1], heads, -1).transpose(-2, -3)

    q = split(query @ query_weight)
    k = split(key @ key_weight)
    v = split(value @ value_weight)
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if mask is not None:
        if mask.ndim > 2:
            mask = mask.unsqueeze(-3)
        scores = scores.masked_fill(~mask, -1e9)
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    context = weights @ v
    joined = context.transpose(-2, -3).flatten(-2)
    return joined @ output_weight, weights


@wrong("mask-batch-as-heads")
def multihead_attention(
    query, key, value, query_weight, key_weight, value_weight, output_weight, heads, mask=None
):
    def split(x):
        return x.reshape(*x.shape[:-1], heads, -1).transpose(-2, -3)

    q = split(query @ query_weight)
    k = split(key @ key_weight)
    v = split(value @ value_weight)
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    context = weights @ v
    joined = context.transpose(-2, -3).flatten(-2)
    return joined @ output_weight, weights


@wrong("projection-transposed")
def multihead_attention(
    query, key, value, query_weight, key_weight, value_weight, output_weight, heads, mask=None
):
    def split(x):
        return x.reshape(*x.shape[:-1], heads, -1).transpose(-2, -3)

    q = split(F.linear(query, query_weight))
    k = split(F.linear(key, key_weight))
    v = split(F.linear(value, value_weight))
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if mask is not None:
        if mask.ndim > 2:
            mask = mask.unsqueeze(-3)
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    context = weights @ v
    joined = context.transpose(-2, -3).flatten(-2)
    return F.linear(joined, output_weight), weights


@wrong("output-projection-transposed")
def multihead_attention(
    query, key, value, query_weight, key_weight, value_weight, output_weight, heads, mask=None
):
    def split(x):
        return x.reshape(*x.shape[:-1], heads, -1).transpose(-2, -3)

    q = split(query @ query_weight)
    k = split(key @ key_weight)
    v = split(value @ value_weight)
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if mask is not None:
        if mask.ndim > 2:
            mask = mask.unsqueeze(-3)
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    context = weights @ v
    joined = context.transpose(-2, -3).flatten(-2)
    return joined @ output_weight.T, weights


@wrong("qkv-weights-swapped")
def multihead_attention(
    query, key, value, query_weight, key_weight, value_weight, output_weight, heads, mask=None
):
    def split(x):
        return x.reshape(*x.shape[:-1], heads, -1).transpose(-2, -3)

    q = split(query @ key_weight)
    k = split(key @ query_weight)
    v = split(value @ value_weight)
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if mask is not None:
        if mask.ndim > 2:
            mask = mask.unsqueeze(-3)
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    context = weights @ v
    joined = context.transpose(-2, -3).flatten(-2)
    return joined @ output_weight, weights


@wrong("no-output-projection")
def multihead_attention(
    query, key, value, query_weight, key_weight, value_weight, output_weight, heads, mask=None
):
    def split(x):
        return x.reshape(*x.shape[:-1], heads, -1).transpose(-2, -3)

    q = split(query @ query_weight)
    k = split(key @ key_weight)
    v = split(value @ value_weight)
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if mask is not None:
        if mask.ndim > 2:
            mask = mask.unsqueeze(-3)
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    context = weights @ v
    joined = context.transpose(-2, -3).flatten(-2)
    return joined, weights


@wrong("weights-averaged")
def multihead_attention(
    query, key, value, query_weight, key_weight, value_weight, output_weight, heads, mask=None
):
    def split(x):
        return x.reshape(*x.shape[:-1], heads, -1).transpose(-2, -3)

    q = split(query @ query_weight)
    k = split(key @ key_weight)
    v = split(value @ value_weight)
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if mask is not None:
        if mask.ndim > 2:
            mask = mask.unsqueeze(-3)
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    context = weights @ v
    joined = context.transpose(-2, -3).flatten(-2)
    return joined @ output_weight, weights.mean(dim=-3)


@wrong("values-from-keys")
def multihead_attention(
    query, key, value, query_weight, key_weight, value_weight, output_weight, heads, mask=None
):
    def split(x):
        return x.reshape(*x.shape[:-1], heads, -1).transpose(-2, -3)

    q = split(query @ query_weight)
    k = split(key @ key_weight)
    v = split(key @ value_weight)
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if mask is not None:
        if mask.ndim > 2:
            mask = mask.unsqueeze(-3)
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    context = weights @ v
    joined = context.transpose(-2, -3).flatten(-2)
    return joined @ output_weight, weights


@wrong("returns-scores")
def multihead_attention(
    query, key, value, query_weight, key_weight, value_weight, output_weight, heads, mask=None
):
    def split(x):
        return x.reshape(*x.shape[:-1], heads, -1).transpose(-2, -3)

    q = split(query @ query_weight)
    k = split(key @ key_weight)
    v = split(value @ value_weight)
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if mask is not None:
        pass
    weights = scores.softmax(dim=-1)
    if mask is not None:
        allowed = mask if mask.ndim == 2 else mask.unsqueeze(-3)
        weights = torch.nan_to_num(scores.masked_fill(~allowed, -torch.inf).softmax(dim=-1))
    context = weights @ v
    joined = context.transpose(-2, -3).flatten(-2)
    return joined @ output_weight, scores


@wrong("returns-swapped")
def multihead_attention(
    query, key, value, query_weight, key_weight, value_weight, output_weight, heads, mask=None
):
    d_k, d_v = query_weight.shape[1] // heads, value_weight.shape[1] // heads
    contexts, maps = [], []
    for h in range(heads):
        q = query @ query_weight[:, h * d_k : (h + 1) * d_k]
        k = key @ key_weight[:, h * d_k : (h + 1) * d_k]
        scores = q @ k.mT / d_k**0.5
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf"))
        maps.append(torch.nan_to_num(scores.softmax(dim=-1)))
        contexts.append(maps[-1] @ (value @ value_weight[:, h * d_v : (h + 1) * d_v]))
    return torch.stack(maps, dim=-3), torch.cat(contexts, dim=-1) @ output_weight


@wrong("one-wide-head")
def multihead_attention(
    query, key, value, query_weight, key_weight, value_weight, output_weight, heads, mask=None
):
    scores = (query @ query_weight) @ (key @ key_weight).mT / math.sqrt(query_weight.shape[1])
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = torch.nan_to_num(scores.softmax(dim=-1))
    return weights @ (value @ value_weight) @ output_weight, weights


@wrong("batch-and-heads-mixed")
def multihead_attention(
    query, key, value, query_weight, key_weight, value_weight, output_weight, heads, mask=None
):
    q = torch.cat((query @ query_weight).split(query_weight.shape[1] // heads, dim=-1))
    k = torch.cat((key @ key_weight).split(key_weight.shape[1] // heads, dim=-1))
    v = torch.cat((value @ value_weight).split(value_weight.shape[1] // heads, dim=-1))
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~(mask.repeat(heads, 1, 1) if mask.ndim == 3 else mask), -torch.inf)
    weights = torch.nan_to_num(scores.softmax(dim=-1))
    context = (weights @ v).view(query.shape[0], heads, query.shape[1], -1)
    weights = weights.view(query.shape[0], heads, query.shape[1], -1)
    return context.transpose(1, 2).flatten(2) @ output_weight, weights


@right
def cross_attention(
    states, memory, query_weight, key_weight, value_weight, output_weight, heads, real_tokens=None
):
    batch, target, _ = states.shape
    source = memory.shape[1]
    q = (states @ query_weight).view(batch, target, heads, -1).transpose(1, 2)
    k = (memory @ key_weight).view(batch, source, heads, -1).transpose(1, 2)
    v = (memory @ value_weight).view(batch, source, heads, -1).transpose(1, 2)
    scores = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(q.size(3))
    if real_tokens is not None:
        scores = scores.masked_fill(~real_tokens[:, None, None, :], float("-inf"))
    weights = F.softmax(scores, dim=3)
    if real_tokens is not None:
        weights = weights.masked_fill(~real_tokens[:, None, None, :], 0.0)
    context = torch.matmul(weights, v).transpose(1, 2).contiguous().view(batch, target, -1)
    return context @ output_weight, weights


@right
def cross_attention(
    states, memory, query_weight, key_weight, value_weight, output_weight, heads, real_tokens=None
):
    contexts, maps = [], []
    for i in range(len(states)):
        q = torch.stack((states[i] @ query_weight).chunk(heads, -1))
        k = torch.stack((memory[i] @ key_weight).chunk(heads, -1))
        v = torch.stack((memory[i] @ value_weight).chunk(heads, -1))
        powers = torch.exp(q @ k.mT / q.shape[-1] ** 0.5)
        if real_tokens is not None:
            powers = powers * real_tokens[i]
        total = powers.sum(-1, keepdim=True)
        weights = powers / torch.where(total == 0, torch.ones_like(total), total)
        maps.append(weights)
        contexts.append(torch.cat(list(weights @ v), -1) @ output_weight)
    return torch.stack(contexts), torch.stack(maps)


@right
def cross_attention(
    states, memory, query_weight, key_weight, value_weight, output_weight, heads, real_tokens=None
):
    q = torch.einsum("bqm,mhd->bhqd", states, query_weight.unflatten(1, (heads, -1)))
    k = torch.einsum("bkm,mhd->bhkd", memory, key_weight.unflatten(1, (heads, -1)))
    v = torch.einsum("bkm,mhd->bhkd", memory, value_weight.unflatten(1, (heads, -1)))
    scores = torch.einsum("bhqd,bhkd->bhqk", q, k) * q.shape[-1] ** -0.5
    if real_tokens is None:
        real_tokens = torch.ones(memory.shape[:2], dtype=torch.bool)
    bias = torch.zeros(real_tokens.shape, dtype=states.dtype).masked_fill(~real_tokens, -1e9)
    weights = (scores + bias[:, None, None]).softmax(-1) * real_tokens[:, None, None]
    return torch.einsum("bhqk,bhkd,hdm->bqm", weights, v, output_weight.unflatten(0, (heads, -1))), weights


@right
def cross_attention(
    states, memory, query_weight, key_weight, value_weight, output_weight, heads, real_tokens=None
):
    def split(x):
        return x.unflatten(-1, (heads, -1)).transpose(1, 2)

    q, k, v = split(states @ query_weight), split(memory @ key_weight), split(memory @ value_weight)
    mask = None if real_tokens is None else real_tokens[:, None, None, :]
    context = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = torch.where(mask, scores, -torch.inf)
        scores = torch.where(mask.any(-1, keepdim=True), scores, 0.0)
    weights = scores.softmax(-1) if mask is None else scores.softmax(-1) * mask
    return context.transpose(1, 2).flatten(2) @ output_weight, weights


@wrong("queries-from-memory")
def cross_attention(
    states, memory, query_weight, key_weight, value_weight, output_weight, heads, real_tokens=None
):
    def split(x):
        return x.reshape(len(x), -1, heads, x.shape[-1] // heads).transpose(1, 2)

    q = split(memory @ query_weight)
    k = split(states @ key_weight)
    v = split(states @ value_weight)
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if real_tokens is not None:
        scores = scores.masked_fill(~real_tokens[:, None, None, :], float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    context = (weights @ v).transpose(1, 2).flatten(2)
    return context @ output_weight, weights


@wrong("keys-from-target")
def cross_attention(
    states, memory, query_weight, key_weight, value_weight, output_weight, heads, real_tokens=None
):
    def split(x):
        return x.reshape(len(x), -1, heads, x.shape[-1] // heads).transpose(1, 2)

    q = split(states @ query_weight)
    k = split(states @ key_weight)
    v = split(memory @ value_weight)
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if real_tokens is not None:
        scores = scores.masked_fill(~real_tokens[:, None, None, :], float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    context = (weights @ v).transpose(1, 2).flatten(2)
    return context @ output_weight, weights


@wrong("values-from-target")
def cross_attention(
    states, memory, query_weight, key_weight, value_weight, output_weight, heads, real_tokens=None
):
    def split(x):
        return x.reshape(len(x), -1, heads, x.shape[-1] // heads).transpose(1, 2)

    q = split(states @ query_weight)
    k = split(memory @ key_weight)
    v = split(states @ value_weight)
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if real_tokens is not None:
        scores = scores.masked_fill(~real_tokens[:, None, None, :], float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    context = (weights @ v).transpose(1, 2).flatten(2)
    return context @ output_weight, weights


@wrong("self-attention-for-cross")
def cross_attention(
    states, memory, query_weight, key_weight, value_weight, output_weight, heads, real_tokens=None
):
    def split(x):
        return x.reshape(len(x), -1, heads, x.shape[-1] // heads).transpose(1, 2)

    q = split(states @ query_weight)
    k = split(states @ key_weight)
    v = split(states @ value_weight)
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if real_tokens is not None:
        scores = scores.masked_fill(~real_tokens[:, None, None, :], float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    context = (weights @ v).transpose(1, 2).flatten(2)
    return context @ output_weight, weights


@wrong("memory-to-memory")
def cross_attention(
    states, memory, query_weight, key_weight, value_weight, output_weight, heads, real_tokens=None
):
    def split(x):
        return x.reshape(len(x), -1, heads, x.shape[-1] // heads).transpose(1, 2)

    q = split(memory @ query_weight)
    k = split(memory @ key_weight)
    v = split(memory @ value_weight)
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if real_tokens is not None:
        scores = scores.masked_fill(~real_tokens[:, None, None, :], float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    context = (weights @ v).transpose(1, 2).flatten(2)
    return context @ output_weight, weights


@wrong("padding-on-queries")
def cross_attention(
    states, memory, query_weight, key_weight, value_weight, output_weight, heads, real_tokens=None
):
    def split(x):
        return x.reshape(len(x), -1, heads, x.shape[-1] // heads).transpose(1, 2)

    q = split(states @ query_weight)
    k = split(memory @ key_weight)
    v = split(memory @ value_weight)
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if real_tokens is not None:
        scores = scores.masked_fill(~real_tokens[:, None, :, None], float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    context = (weights @ v).transpose(1, 2).flatten(2)
    return context @ output_weight, weights


@wrong("padding-zeroed")
def cross_attention(
    states, memory, query_weight, key_weight, value_weight, output_weight, heads, real_tokens=None
):
    if real_tokens is not None:
        memory = memory.masked_fill(~real_tokens[..., None], 0.0)

    def split(x):
        return x.reshape(len(x), -1, heads, x.shape[-1] // heads).transpose(1, 2)

    q = split(states @ query_weight)
    k = split(memory @ key_weight)
    v = split(memory @ value_weight)
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if real_tokens is not None:
        pass
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    context = (weights @ v).transpose(1, 2).flatten(2)
    return context @ output_weight, weights


@wrong("first-sentence-mask")
def cross_attention(
    states, memory, query_weight, key_weight, value_weight, output_weight, heads, real_tokens=None
):
    def split(x):
        return x.reshape(len(x), -1, heads, x.shape[-1] // heads).transpose(1, 2)

    q = split(states @ query_weight)
    k = split(memory @ key_weight)
    v = split(memory @ value_weight)
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if real_tokens is not None:
        scores = scores.masked_fill(~real_tokens[0], float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    context = (weights @ v).transpose(1, 2).flatten(2)
    return context @ output_weight, weights


@wrong("causal-cross-attention")
def cross_attention(
    states, memory, query_weight, key_weight, value_weight, output_weight, heads, real_tokens=None
):
    def split(x):
        return x.reshape(len(x), -1, heads, x.shape[-1] // heads).transpose(1, 2)

    q = split(states @ query_weight)
    k = split(memory @ key_weight)
    v = split(memory @ value_weight)
    scores = q @ k.mT / math.sqrt(q.size(-1))
    future = torch.ones_like(scores, dtype=torch.bool).triu(1)
    scores = scores.masked_fill(future, -torch.inf)
    if real_tokens is not None:
        scores = scores.masked_fill(~real_tokens[:, None, None, :], float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    context = (weights @ v).transpose(1, 2).flatten(2)
    return context @ output_weight, weights


@wrong("mask-inverted")
def cross_attention(
    states, memory, query_weight, key_weight, value_weight, output_weight, heads, real_tokens=None
):
    def split(x):
        return x.reshape(len(x), -1, heads, x.shape[-1] // heads).transpose(1, 2)

    q = split(states @ query_weight)
    k = split(memory @ key_weight)
    v = split(memory @ value_weight)
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if real_tokens is not None:
        scores = scores.masked_fill(real_tokens[:, None, None, :], float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    context = (weights @ v).transpose(1, 2).flatten(2)
    return context @ output_weight, weights


@wrong("mask-ignored")
def cross_attention(
    states, memory, query_weight, key_weight, value_weight, output_weight, heads, real_tokens=None
):
    def split(x):
        return x.reshape(len(x), -1, heads, x.shape[-1] // heads).transpose(1, 2)

    q = split(states @ query_weight)
    k = split(memory @ key_weight)
    v = split(memory @ value_weight)
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if real_tokens is not None:
        scores.masked_fill(~real_tokens[:, None, None, :], float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    context = (weights @ v).transpose(1, 2).flatten(2)
    return context @ output_weight, weights


@wrong("mask-batch-as-heads")
def cross_attention(
    states, memory, query_weight, key_weight, value_weight, output_weight, heads, real_tokens=None
):
    def split(x):
        return x.reshape(len(x), -1, heads, x.shape[-1] // heads).transpose(1, 2)

    q = split(states @ query_weight)
    k = split(memory @ key_weight)
    v = split(memory @ value_weight)
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if real_tokens is not None:
        scores = scores.masked_fill(~real_tokens.unsqueeze(1), float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    context = (weights @ v).transpose(1, 2).flatten(2)
    return context @ output_weight, weights


@wrong("mask-after-softmax")
def cross_attention(
    states, memory, query_weight, key_weight, value_weight, output_weight, heads, real_tokens=None
):
    def split(x):
        return x.reshape(len(x), -1, heads, x.shape[-1] // heads).transpose(1, 2)

    q = split(states @ query_weight)
    k = split(memory @ key_weight)
    v = split(memory @ value_weight)
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if real_tokens is not None:
        pass
    weights = scores.softmax(dim=-1)
    if real_tokens is not None:
        weights = weights * real_tokens[:, None, None, :]
    context = (weights @ v).transpose(1, 2).flatten(2)
    return context @ output_weight, weights


@wrong("mask-as-zero-score")
def cross_attention(
    states, memory, query_weight, key_weight, value_weight, output_weight, heads, real_tokens=None
):
    def split(x):
        return x.reshape(len(x), -1, heads, x.shape[-1] // heads).transpose(1, 2)

    q = split(states @ query_weight)
    k = split(memory @ key_weight)
    v = split(memory @ value_weight)
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if real_tokens is not None:
        scores = scores * real_tokens[:, None, None, :]
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    context = (weights @ v).transpose(1, 2).flatten(2)
    return context @ output_weight, weights


@wrong("empty-row-nan")
def cross_attention(
    states, memory, query_weight, key_weight, value_weight, output_weight, heads, real_tokens=None
):
    def split(x):
        return x.reshape(len(x), -1, heads, x.shape[-1] // heads).transpose(1, 2)

    q = split(states @ query_weight)
    k = split(memory @ key_weight)
    v = split(memory @ value_weight)
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if real_tokens is not None:
        scores = scores.masked_fill(~real_tokens[:, None, None, :], float("-inf"))
    weights = scores.softmax(dim=-1)
    context = (weights @ v).transpose(1, 2).flatten(2)
    return context @ output_weight, weights


@wrong("empty-row-uniform")
def cross_attention(
    states, memory, query_weight, key_weight, value_weight, output_weight, heads, real_tokens=None
):
    def split(x):
        return x.reshape(len(x), -1, heads, x.shape[-1] // heads).transpose(1, 2)

    q = split(states @ query_weight)
    k = split(memory @ key_weight)
    v = split(memory @ value_weight)
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if real_tokens is not None:
        scores = scores.masked_fill(~real_tokens[:, None, None, :], -1e9)
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    context = (weights @ v).transpose(1, 2).flatten(2)
    return context @ output_weight, weights


@wrong("empty-row-nan-gradient")
def cross_attention(
    states, memory, query_weight, key_weight, value_weight, output_weight, heads, real_tokens=None
):
    def split(x):
        return x.reshape(len(x), -1, heads, x.shape[-1] // heads).transpose(1, 2)

    q = split(states @ query_weight)
    k = split(memory @ key_weight)
    v = split(memory @ value_weight)
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if real_tokens is not None:
        bias = torch.zeros(real_tokens.shape, dtype=q.dtype)
        bias[~real_tokens] = float("-inf")
        scores = scores + bias[:, None, None, :]
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    context = (weights @ v).transpose(1, 2).flatten(2)
    return context @ output_weight, weights


@wrong("no-scale")
def cross_attention(
    states, memory, query_weight, key_weight, value_weight, output_weight, heads, real_tokens=None
):
    def split(x):
        return x.reshape(len(x), -1, heads, x.shape[-1] // heads).transpose(1, 2)

    q = split(states @ query_weight)
    k = split(memory @ key_weight)
    v = split(memory @ value_weight)
    scores = q @ k.mT
    if real_tokens is not None:
        scores = scores.masked_fill(~real_tokens[:, None, None, :], float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    context = (weights @ v).transpose(1, 2).flatten(2)
    return context @ output_weight, weights


@wrong("split-by-view")
def cross_attention(
    states, memory, query_weight, key_weight, value_weight, output_weight, heads, real_tokens=None
):
    def split(x):
        return x.reshape(len(x), heads, x.shape[1], -1)

    q = split(states @ query_weight)
    k = split(memory @ key_weight)
    v = split(memory @ value_weight)
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if real_tokens is not None:
        scores = scores.masked_fill(~real_tokens[:, None, None, :], float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    context = (weights @ v).transpose(1, 2).flatten(2)
    return context @ output_weight, weights


@wrong("merge-by-view")
def cross_attention(
    states, memory, query_weight, key_weight, value_weight, output_weight, heads, real_tokens=None
):
    def split(x):
        return x.reshape(len(x), -1, heads, x.shape[-1] // heads).transpose(1, 2)

    q = split(states @ query_weight)
    k = split(memory @ key_weight)
    v = split(memory @ value_weight)
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if real_tokens is not None:
        scores = scores.masked_fill(~real_tokens[:, None, None, :], float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    context = (weights @ v).reshape(len(q), q.shape[2], -1)
    return context @ output_weight, weights


@wrong("split-and-merge-by-view")
def cross_attention(
    states, memory, query_weight, key_weight, value_weight, output_weight, heads, real_tokens=None
):
    def split(x):
        return x.reshape(len(x), heads, x.shape[1], -1)

    q = split(states @ query_weight)
    k = split(memory @ key_weight)
    v = split(memory @ value_weight)
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if real_tokens is not None:
        scores = scores.masked_fill(~real_tokens[:, None, None, :], float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    context = (weights @ v).reshape(len(q), q.shape[2], -1)
    return context @ output_weight, weights


@wrong("projection-transposed")
def cross_attention(
    states, memory, query_weight, key_weight, value_weight, output_weight, heads, real_tokens=None
):
    def split(x):
        return x.reshape(len(x), -1, heads, x.shape[-1] // heads).transpose(1, 2)

    q = split(F.linear(states, query_weight))
    k = split(F.linear(memory, key_weight))
    v = split(F.linear(memory, value_weight))
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if real_tokens is not None:
        scores = scores.masked_fill(~real_tokens[:, None, None, :], float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    context = (weights @ v).transpose(1, 2).flatten(2)
    return F.linear(context, output_weight), weights


@wrong("weights-averaged")
def cross_attention(
    states, memory, query_weight, key_weight, value_weight, output_weight, heads, real_tokens=None
):
    def split(x):
        return x.reshape(len(x), -1, heads, x.shape[-1] // heads).transpose(1, 2)

    q = split(states @ query_weight)
    k = split(memory @ key_weight)
    v = split(memory @ value_weight)
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if real_tokens is not None:
        scores = scores.masked_fill(~real_tokens[:, None, None, :], float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    context = (weights @ v).transpose(1, 2).flatten(2)
    return context @ output_weight, weights.mean(dim=1)


@wrong("softmax-over-queries")
def cross_attention(
    states, memory, query_weight, key_weight, value_weight, output_weight, heads, real_tokens=None
):
    def split(x):
        return x.reshape(len(x), -1, heads, x.shape[-1] // heads).transpose(1, 2)

    q = split(states @ query_weight)
    k = split(memory @ key_weight)
    v = split(memory @ value_weight)
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if real_tokens is not None:
        scores = scores.masked_fill(~real_tokens[:, None, None, :], float("-inf"))
    weights = scores.softmax(dim=2)
    context = (weights @ v).transpose(1, 2).flatten(2)
    return context @ output_weight, weights


@right
def mask_heads(contexts, kept, output_weight):
    contexts = contexts * kept.view(-1, 1, 1)
    return contexts.transpose(-2, -3).flatten(-2) @ output_weight


@right
def mask_heads(contexts, kept, output_weight):
    rows = output_weight.unflatten(0, (len(kept), -1))
    return torch.einsum("...hqd,hdm,h->...qm", contexts, rows, kept.to(contexts.dtype))


@right
def mask_heads(contexts, kept, output_weight):
    output = contexts.new_zeros(*contexts.shape[:-3], contexts.shape[-2], output_weight.shape[1])
    for context, rows, keep in zip(contexts.unbind(-3), output_weight.chunk(len(kept)), kept, strict=True):
        if keep:
            output = output + context @ rows
    return output


@right
def mask_heads(contexts, kept, output_weight):
    joined = torch.cat(contexts.unbind(-3), dim=-1)
    features = torch.repeat_interleave(kept, contexts.shape[-1])
    return joined[..., features] @ output_weight[features]


@right
def mask_heads(contexts, kept, output_weight):
    contexts = contexts.clone()
    contexts[..., ~kept, :, :] = 0.0
    joined = contexts.transpose(-3, -2).reshape(*contexts.shape[:-3], contexts.shape[-2], -1)
    return torch.matmul(joined, output_weight)


@wrong("head-mask-ignored")
def mask_heads(contexts, kept, output_weight):
    contexts.masked_fill(~kept[:, None, None], 0.0)
    return torch.cat(contexts.unbind(-3), dim=-1) @ output_weight


@wrong("head-mask-inverted")
def mask_heads(contexts, kept, output_weight):
    contexts = contexts.masked_fill(kept[:, None, None], 0.0)
    return torch.cat(contexts.unbind(-3), dim=-1) @ output_weight


@wrong("head-mask-rescaled")
def mask_heads(contexts, kept, output_weight):
    contexts = contexts * kept[:, None, None] / kept.to(contexts.dtype).mean()
    return torch.cat(contexts.unbind(-3), dim=-1) @ output_weight


@wrong("head-mask-interleaved")
def mask_heads(contexts, kept, output_weight):
    joined = torch.cat(contexts.unbind(-3), dim=-1)
    mask = torch.cat([kept] * contexts.shape[-1])
    return joined.masked_fill(~mask, 0.0) @ output_weight


@wrong("head-mask-on-output")
def mask_heads(contexts, kept, output_weight):
    output = torch.cat(contexts.unbind(-3), dim=-1) @ output_weight
    parts = output.unflatten(-1, (len(kept), -1))
    return (parts * kept.unsqueeze(-1)).flatten(-2)


@wrong("kept-heads-moved")
def mask_heads(contexts, kept, output_weight):
    contexts = contexts[..., kept, :, :].transpose(-2, -3).flatten(-2)
    return contexts @ output_weight[: contexts.shape[-1]]


@wrong("merge-by-view")
def mask_heads(contexts, kept, output_weight):
    contexts = contexts * kept[:, None, None]
    return contexts.reshape(*contexts.shape[:-3], contexts.shape[-2], -1) @ output_weight


@wrong("output-projection-transposed")
def mask_heads(contexts, kept, output_weight):
    contexts = contexts * kept[:, None, None]
    return F.linear(torch.cat(contexts.unbind(-3), dim=-1), output_weight)


@wrong("changes-inputs")
def mask_heads(contexts, kept, output_weight):
    contexts *= kept[:, None, None]
    return torch.cat(contexts.unbind(-3), dim=-1) @ output_weight


@right
def weights_from_torch(layer):
    if layer.in_proj_weight is not None:
        weights = list(layer.in_proj_weight.chunk(3, dim=0))
    else:
        weights = [layer.q_proj_weight, layer.k_proj_weight, layer.v_proj_weight]
    weights.append(layer.out_proj.weight)
    if layer.in_proj_bias is None:
        biases = [torch.zeros_like(layer.out_proj.weight[0])] * 4
    else:
        biases = [*layer.in_proj_bias.chunk(3), layer.out_proj.bias]
    return (*(weight.T for weight in weights), *biases)


@right
def weights_from_torch(layer):
    d = layer.embed_dim
    names = dict(layer.named_parameters())
    if "in_proj_weight" in names:
        packed = names["in_proj_weight"].detach()
        q, k, v = packed[:d], packed[d : 2 * d], packed[2 * d :]
    else:
        q, k, v = (names[f"{name}_proj_weight"].detach() for name in "qkv")
    bias = names.get("in_proj_bias", torch.zeros(3 * d, dtype=q.dtype))
    out_bias = names.get("out_proj.bias", torch.zeros(d, dtype=q.dtype))
    output = names["out_proj.weight"].detach()
    return q.T, k.T, v.T, output.T, bias[:d], bias[d : 2 * d], bias[2 * d :], out_bias


@right
def weights_from_torch(layer):
    # What the identity is mapped to: the bias and the rows of the weight.
    weights = (layer.q_proj_weight, layer.k_proj_weight, layer.v_proj_weight)
    if layer.in_proj_weight is not None:
        weights = layer.in_proj_weight.unflatten(0, (3, -1)).unbind(0)
    biases = [0 * weight[:, 0] for weight in weights]
    if layer.in_proj_bias is not None:
        biases = list(layer.in_proj_bias.view(3, -1))
    dtype = layer.out_proj.weight.dtype
    result = [F.linear(torch.eye(weight.shape[1], dtype=dtype), weight) for weight in weights]
    zero = torch.zeros(1, layer.embed_dim, dtype=dtype)
    out_bias = layer.out_proj(zero)[0]
    result.append(layer.out_proj(torch.eye(layer.embed_dim, dtype=dtype)) - out_bias)
    return (*result, *biases, out_bias)


@right
def weights_from_torch(layer):
    with torch.no_grad():
        try:
            q, k, v = torch.tensor_split(layer.in_proj_weight, 3)
        except TypeError:
            q, k, v = layer.q_proj_weight, layer.k_proj_weight, layer.v_proj_weight
        o = layer.out_proj.weight
        if layer.in_proj_bias is not None:
            bq, bk, bv = torch.tensor_split(layer.in_proj_bias, 3)
            bo = layer.out_proj.bias
        else:
            bq = bk = bv = bo = o.new_zeros(layer.embed_dim)
        return [x.transpose(0, 1).clone() for x in (q, k, v, o)] + [bq, bk, bv, bo]


@wrong("torch-layout-kept")
def weights_from_torch(layer):
    if layer.in_proj_weight is not None:
        q, k, v = layer.in_proj_weight.chunk(3)
    else:
        q, k, v = layer.q_proj_weight, layer.k_proj_weight, layer.v_proj_weight
    o = layer.out_proj.weight
    if layer.in_proj_bias is not None:
        bq, bk, bv = layer.in_proj_bias.chunk(3)
        bo = layer.out_proj.bias
    else:
        bq = bk = bv = bo = torch.zeros(layer.embed_dim, dtype=o.dtype)
    return q, k, v, o, bq, bk, bv, bo


@wrong("output-layout-kept")
def weights_from_torch(layer):
    if layer.in_proj_weight is not None:
        q, k, v = layer.in_proj_weight.chunk(3)
    else:
        q, k, v = layer.q_proj_weight, layer.k_proj_weight, layer.v_proj_weight
    o = layer.out_proj.weight
    if layer.in_proj_bias is not None:
        bq, bk, bv = layer.in_proj_bias.chunk(3)
        bo = layer.out_proj.bias
    else:
        bq = bk = bv = bo = torch.zeros(layer.embed_dim, dtype=o.dtype)
    return q.T, k.T, v.T, o, bq, bk, bv, bo


@wrong("input-layout-kept")
def weights_from_torch(layer):
    if layer.in_proj_weight is not None:
        q, k, v = layer.in_proj_weight.chunk(3)
    else:
        q, k, v = layer.q_proj_weight, layer.k_proj_weight, layer.v_proj_weight
    o = layer.out_proj.weight
    if layer.in_proj_bias is not None:
        bq, bk, bv = layer.in_proj_bias.chunk(3)
        bo = layer.out_proj.bias
    else:
        bq = bk = bv = bo = torch.zeros(layer.embed_dim, dtype=o.dtype)
    return q, k, v, o.T, bq, bk, bv, bo


@wrong("packed-order-mixed-up")
def weights_from_torch(layer):
    if layer.in_proj_weight is not None:
        k, q, v = layer.in_proj_weight.chunk(3)
    else:
        q, k, v = layer.q_proj_weight, layer.k_proj_weight, layer.v_proj_weight
    o = layer.out_proj.weight
    if layer.in_proj_bias is not None:
        bk, bq, bv = layer.in_proj_bias.chunk(3)
        bo = layer.out_proj.bias
    else:
        bq = bk = bv = bo = torch.zeros(layer.embed_dim, dtype=o.dtype)
    return q.T, k.T, v.T, o.T, bq, bk, bv, bo


@wrong("packed-rows-interleaved")
def weights_from_torch(layer):
    if layer.in_proj_weight is not None:
        q, k, v = (layer.in_proj_weight[i::3] for i in range(3))
    else:
        q, k, v = layer.q_proj_weight, layer.k_proj_weight, layer.v_proj_weight
    o = layer.out_proj.weight
    if layer.in_proj_bias is not None:
        bq, bk, bv = (layer.in_proj_bias[i::3] for i in range(3))
        bo = layer.out_proj.bias
    else:
        bq = bk = bv = bo = torch.zeros(layer.embed_dim, dtype=o.dtype)
    return q.T, k.T, v.T, o.T, bq, bk, bv, bo


@wrong("packed-head-by-head")
def weights_from_torch(layer):
    heads, d = layer.num_heads, layer.embed_dim
    if layer.in_proj_weight is not None:
        packed = layer.in_proj_weight.view(heads, 3, d // heads, d)
        q, k, v = (packed[:, i].reshape(d, d) for i in range(3))
    else:
        q, k, v = layer.q_proj_weight, layer.k_proj_weight, layer.v_proj_weight
    o = layer.out_proj.weight
    if layer.in_proj_bias is not None:
        packed = layer.in_proj_bias.view(heads, 3, d // heads)
        bq, bk, bv = (packed[:, i].reshape(d) for i in range(3))
        bo = layer.out_proj.bias
    else:
        bq = bk = bv = bo = torch.zeros(d, dtype=o.dtype)
    return q.T, k.T, v.T, o.T, bq, bk, bv, bo


@wrong("packed-along-columns")
def weights_from_torch(layer):
    if layer.in_proj_weight is not None:
        q, k, v = layer.in_proj_weight.chunk(3, dim=1)
    else:
        q, k, v = layer.q_proj_weight, layer.k_proj_weight, layer.v_proj_weight
    o = layer.out_proj.weight
    if layer.in_proj_bias is not None:
        bq, bk, bv = layer.in_proj_bias.chunk(3)
        bo = layer.out_proj.bias
    else:
        bq = bk = bv = bo = torch.zeros(layer.embed_dim, dtype=o.dtype)
    return q.T, k.T, v.T, o.T, bq, bk, bv, bo


@wrong("biases-lost")
def weights_from_torch(layer):
    if layer.in_proj_weight is not None:
        q, k, v = layer.in_proj_weight.chunk(3)
    else:
        q, k, v = layer.q_proj_weight, layer.k_proj_weight, layer.v_proj_weight
    o = layer.out_proj.weight
    if layer.in_proj_bias is not None:
        bq, bk, bv = layer.in_proj_bias.chunk(3)
        bo = layer.out_proj.bias
    else:
        bq = bk = bv = bo = torch.zeros(layer.embed_dim, dtype=o.dtype)
    bq = bk = bv = bo = torch.zeros(layer.embed_dim, dtype=o.dtype)
    return q.T, k.T, v.T, o.T, bq, bk, bv, bo


@wrong("output-bias-lost")
def weights_from_torch(layer):
    if layer.in_proj_weight is not None:
        q, k, v = layer.in_proj_weight.chunk(3)
    else:
        q, k, v = layer.q_proj_weight, layer.k_proj_weight, layer.v_proj_weight
    o = layer.out_proj.weight
    if layer.in_proj_bias is not None:
        bq, bk, bv = layer.in_proj_bias.chunk(3)
        bo = torch.zeros_like(bq)
    else:
        bq = bk = bv = bo = torch.zeros(layer.embed_dim, dtype=o.dtype)
    return q.T, k.T, v.T, o.T, bq, bk, bv, bo


@wrong("packed-weight-taken-for-granted")
def weights_from_torch(layer):
    q, k, v = layer.in_proj_weight.chunk(3)
    o = layer.out_proj.weight
    if layer.in_proj_bias is not None:
        bq, bk, bv = layer.in_proj_bias.chunk(3)
        bo = layer.out_proj.bias
    else:
        bq = bk = bv = bo = torch.zeros(layer.embed_dim, dtype=o.dtype)
    return q.T, k.T, v.T, o.T, bq, bk, bv, bo


@wrong("packed-weight-taken-for-granted")
def weights_from_torch(layer):
    d, o = layer.embed_dim, layer.out_proj.weight
    weights = [layer.in_proj_weight[i : i + d].T for i in (0, d, 2 * d)]
    if layer.in_proj_bias is None:
        return (*weights, o.T, *([o.new_zeros(d)] * 4))
    return (*weights, o.T, *layer.in_proj_bias.chunk(3), layer.out_proj.bias)


@right
def talking_softmax(scores, before, after, mask=None):
    mixed = torch.einsum("gh,...hqk->...gqk", before, scores)
    if mask is not None:
        mixed = mixed.masked_fill(~mask, float("-inf"))
    weights = mixed.softmax(dim=-1)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0)
    return torch.einsum("gh,...hqk->...gqk", after, weights)


@right
def talking_softmax(scores, before, after, mask=None):
    def mix(mixing, maps):
        return (mixing @ maps.flatten(-2)).unflatten(-1, maps.shape[-2:])

    mixed = mix(before, scores)
    if mask is None:
        mask = torch.ones(mixed.shape[-2:], dtype=torch.bool)
    powers = torch.exp(mixed - mixed.amax(dim=-1, keepdim=True)) * mask
    total = powers.sum(dim=-1, keepdim=True)
    return mix(after, powers / total.masked_fill(total == 0, 1.0))


@right
def talking_softmax(scores, before, after, mask=None):
    result = 0
    for g in range(before.shape[0]):
        mixed = sum(before[g, h] * scores[..., h, :, :] for h in range(before.shape[1]))
        if mask is not None:
            allowed = mask if mask.ndim == 2 else mask[..., 0, :, :]
            mixed = mixed.masked_fill(~allowed, -1e9)
        weights = F.softmax(mixed, dim=-1)
        if mask is not None:
            weights = weights * allowed
        result = result + after[:, g, None, None] * weights.unsqueeze(-3)
    return result


@right
def talking_softmax(scores, before, after, mask=None):
    mixed = F.linear(scores.movedim(-3, -1), before)
    if mask is not None:
        mixed = mixed.masked_fill(~mask.expand(scores.shape).movedim(-3, -1)[..., :1], -1e9)
    weights = mixed.softmax(dim=-2)
    if mask is not None:
        weights = weights * mask.expand(scores.shape).movedim(-3, -1)[..., :1]
    return F.linear(weights, after).movedim(-1, -3)


@right
def talking_softmax(scores, before, after, mask=None):
    mixed = torch.tensordot(before, scores, dims=([1], [scores.ndim - 3])).movedim(0, -3)
    weights = torch.softmax(mixed if mask is None else torch.where(mask, mixed, -1e9), dim=-1)
    if mask is not None:
        weights = torch.where(mask, weights, 0.0)
    return torch.tensordot(after, weights, dims=([1], [weights.ndim - 3])).movedim(0, -3)


@wrong("heads-silent-after")
def talking_softmax(scores, before, after, mask=None):
    mixed = torch.einsum("gh,...hqk->...gqk", before, scores)
    if mask is not None:
        mixed = mixed.masked_fill(~mask, float("-inf"))
    weights = torch.softmax(mixed, dim=-1)
    weights = torch.nan_to_num(weights)
    return weights


@wrong("heads-silent-before")
def talking_softmax(scores, before, after, mask=None):
    mixed = scores
    if mask is not None:
        mixed = mixed.masked_fill(~mask, float("-inf"))
    weights = torch.softmax(mixed, dim=-1)
    weights = torch.nan_to_num(weights)
    return torch.einsum("gh,...hqk->...gqk", after, weights)


@wrong("mixing-transposed")
def talking_softmax(scores, before, after, mask=None):
    mixed = torch.einsum("gh,...hqk->...gqk", before.T, scores)
    if mask is not None:
        mixed = mixed.masked_fill(~mask, float("-inf"))
    weights = torch.softmax(mixed, dim=-1)
    weights = torch.nan_to_num(weights)
    return torch.einsum("gh,...hqk->...gqk", after.T, weights)


@wrong("mixed-twice-before")
def talking_softmax(scores, before, after, mask=None):
    mixed = torch.einsum("gh,...hqk->...gqk", after @ before, scores)
    if mask is not None:
        mixed = mixed.masked_fill(~mask, float("-inf"))
    weights = torch.softmax(mixed, dim=-1)
    weights = torch.nan_to_num(weights)
    return weights


@wrong("mask-before-mixing")
def talking_softmax(scores, before, after, mask=None):
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    mixed = torch.einsum("gh,...hqk->...gqk", before, scores)
    weights = torch.softmax(mixed, dim=-1)
    return torch.einsum("gh,...hqk->...gqk", after, weights)


@wrong("mixture-renormalised")
def talking_softmax(scores, before, after, mask=None):
    mixed = torch.einsum("gh,...hqk->...gqk", before, scores)
    if mask is not None:
        mixed = mixed.masked_fill(~mask, float("-inf"))
    weights = torch.softmax(mixed, dim=-1)
    weights = torch.nan_to_num(weights)
    weights = torch.einsum("gh,...hqk->...gqk", after, weights)
    return weights / weights.sum(dim=-1, keepdim=True)


@wrong("mixture-softmaxed")
def talking_softmax(scores, before, after, mask=None):
    mixed = torch.einsum("gh,...hqk->...gqk", before, scores)
    if mask is not None:
        mixed = mixed.masked_fill(~mask, float("-inf"))
    weights = torch.softmax(mixed, dim=-1)
    weights = torch.nan_to_num(weights)
    weights = torch.einsum("gh,...hqk->...gqk", after, weights)
    return F.softmax(weights, dim=-1)


@wrong("softmax-over-heads")
def talking_softmax(scores, before, after, mask=None):
    mixed = torch.einsum("gh,...hqk->...gqk", before, scores)
    if mask is not None:
        mixed = mixed.masked_fill(~mask, float("-inf"))
    weights = torch.softmax(mixed, dim=-3)
    return torch.einsum("gh,...hqk->...gqk", after, weights)


@wrong("softmax-over-queries")
def talking_softmax(scores, before, after, mask=None):
    mixed = torch.einsum("gh,...hqk->...gqk", before, scores)
    if mask is not None:
        mixed = mixed.masked_fill(~mask, float("-inf"))
    weights = torch.softmax(mixed, dim=-2)
    return torch.einsum("gh,...hqk->...gqk", after, weights)


@wrong("mask-inverted")
def talking_softmax(scores, before, after, mask=None):
    mixed = torch.einsum("gh,...hqk->...gqk", before, scores)
    if mask is not None:
        mixed = mixed.masked_fill(mask, float("-inf"))
    weights = torch.softmax(mixed, dim=-1)
    weights = torch.nan_to_num(weights)
    return torch.einsum("gh,...hqk->...gqk", after, weights)


@wrong("mask-ignored")
def talking_softmax(scores, before, after, mask=None):
    mixed = torch.einsum("gh,...hqk->...gqk", before, scores)
    weights = torch.softmax(mixed, dim=-1)
    weights = torch.nan_to_num(weights)
    return torch.einsum("gh,...hqk->...gqk", after, weights)


@wrong("mask-after-softmax")
def talking_softmax(scores, before, after, mask=None):
    mixed = torch.einsum("gh,...hqk->...gqk", before, scores)
    weights = torch.softmax(mixed, dim=-1)
    if mask is not None:
        weights = weights * mask
    return torch.einsum("gh,...hqk->...gqk", after, weights)


@wrong("empty-row-nan")
def talking_softmax(scores, before, after, mask=None):
    mixed = torch.einsum("gh,...hqk->...gqk", before, scores)
    if mask is not None:
        mixed = mixed.masked_fill(~mask, float("-inf"))
    weights = torch.softmax(mixed, dim=-1)
    return torch.einsum("gh,...hqk->...gqk", after, weights)


@wrong("empty-row-nan-gradient")
def talking_softmax(scores, before, after, mask=None):
    mixed = torch.einsum("gh,...hqk->...gqk", before, scores)
    if mask is not None:
        mixed = mixed + torch.log(mask.to(mixed.dtype))
    weights = torch.softmax(mixed, dim=-1)
    weights = torch.nan_to_num(weights)
    return torch.einsum("gh,...hqk->...gqk", after, weights)


@wrong("empty-row-uniform")
def talking_softmax(scores, before, after, mask=None):
    mixed = torch.einsum("gh,...hqk->...gqk", before, scores)
    if mask is not None:
        mixed = mixed.masked_fill(~mask, -1e9)
    weights = torch.softmax(mixed, dim=-1)
    weights = torch.nan_to_num(weights)
    return torch.einsum("gh,...hqk->...gqk", after, weights)
