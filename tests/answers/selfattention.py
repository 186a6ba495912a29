"""Answers to the set `selfattention`."""

import math

import torch
from torch.nn import functional as F

from tests.answers import Answers

answers = Answers()
right, wrong = answers.right, answers.wrong


@right
def causal_mask(queries, past=0):
    return torch.ones(queries, past + queries, dtype=torch.bool).tril(past)


@right
def causal_mask(queries, past=0):
    return torch.arange(past + queries) <= torch.arange(past, past + queries).unsqueeze(-1)


@right
def causal_mask(queries, past=0):
    mask = torch.zeros(queries, past + queries, dtype=torch.bool)
    for i in range(queries):
        mask[i, : past + i + 1] = True
    return mask


@right
def causal_mask(queries, past=0):
    return torch.triu(torch.ones(queries, past + queries), diagonal=past + 1) == 0


@right
def causal_mask(queries, past=0):
    seen = torch.ones(queries, past, dtype=torch.bool)
    own = torch.tensor([[j <= i for j in range(queries)] for i in range(queries)])
    return torch.cat([seen, own], dim=1)


@wrong("causal-mask-inverted")
def causal_mask(queries, past=0):
    return torch.triu(torch.ones(queries, past + queries), diagonal=past + 1).bool()


@wrong("causal-upside-down")
def causal_mask(queries, past=0):
    return torch.triu(torch.ones(queries, past + queries), diagonal=past).bool()


@wrong("causal-without-itself")
def causal_mask(queries, past=0):
    return torch.arange(past + queries) < torch.arange(past, past + queries)[:, None]


@wrong("causal-one-ahead")
def causal_mask(queries, past=0):
    return torch.tril(torch.ones(queries, past + queries), diagonal=past + 1).bool()


@wrong("past-out-of-sight")
def causal_mask(queries, past=0):
    return torch.arange(queries)[:, None] >= torch.arange(past + queries)[None, :]


@wrong("past-forbidden")
def causal_mask(queries, past=0):
    mask = torch.zeros(queries, past + queries, dtype=torch.bool)
    mask[:, past:] = torch.tril(torch.ones(queries, queries)) == 1
    return mask


@wrong("past-left-out")
def causal_mask(queries, past=0):
    return torch.tril(torch.ones(queries, queries)) > 0


@wrong("additive-mask")
def causal_mask(queries, past=0):
    return torch.triu(torch.full((queries, past + queries), float("-inf")), diagonal=past + 1)


@wrong("mask-of-numbers")
def causal_mask(queries, past=0):
    return torch.tril(torch.ones(queries, past + queries), diagonal=past)


@wrong("mask-of-numbers")
def causal_mask(queries, past=0):
    return torch.ones(queries, past + queries, dtype=torch.int).tril(past)


@wrong("all-allowed")
def causal_mask(queries, past=0):
    return torch.ones(queries, past + queries) > 0


@right
def self_attention(inputs, query_weight, key_weight, value_weight, causal=False, real_tokens=None):
    q, k, v = inputs @ query_weight, inputs @ key_weight, inputs @ value_weight
    scores = q @ k.transpose(1, 2) / math.sqrt(q.size(-1))
    length = inputs.shape[1]
    mask = torch.ones(length, length, dtype=torch.bool)
    if causal:
        mask = mask.tril()
    mask = mask.expand(len(inputs), -1, -1)
    if real_tokens is not None:
        mask = mask & real_tokens[:, None, :]
    weights = scores.masked_fill(~mask, float("-inf")).softmax(dim=-1).masked_fill(~mask, 0.0)
    return weights @ v, weights


@right
def self_attention(inputs, query_weight, key_weight, value_weight, causal=False, real_tokens=None):
    q = torch.einsum("bim,md->bid", inputs, query_weight)
    k = torch.einsum("bim,md->bid", inputs, key_weight)
    v = torch.einsum("bim,md->bid", inputs, value_weight)
    powers = torch.exp(torch.einsum("bid,bjd->bij", q, k) * k.shape[-1] ** -0.5)
    if causal:
        powers = powers.tril()
    if real_tokens is not None:
        powers = powers * real_tokens.unsqueeze(1)
    total = powers.sum(dim=-1, keepdim=True)
    weights = powers / torch.where(total > 0, total, 1.0)
    return torch.einsum("bij,bjd->bid", weights, v), weights


@right
def self_attention(inputs, query_weight, key_weight, value_weight, causal=False, real_tokens=None):
    contexts, maps = [], []
    for b, sentence in enumerate(inputs):
        q, k, v = sentence @ query_weight, sentence @ key_weight, sentence @ value_weight
        rows = []
        for i in range(len(sentence)):
            last = i + 1 if causal else len(sentence)
            allowed = torch.arange(len(sentence)) < last
            if real_tokens is not None:
                allowed = allowed & real_tokens[b]
            if not allowed.any():
                rows.append(0 * (k @ q[i]))
                continue
            scores = k[allowed] @ q[i] / q.shape[1] ** 0.5
            row = torch.zeros(len(sentence), dtype=inputs.dtype)
            rows.append(row.index_put((allowed.nonzero()[:, 0],), F.softmax(scores, dim=0)))
        maps.append(torch.stack(rows))
        contexts.append(maps[-1] @ v)
    return torch.stack(contexts), torch.stack(maps)


@right
def self_attention(inputs, query_weight, key_weight, value_weight, causal=False, real_tokens=None):
    q, k, v = (inputs @ weight for weight in (query_weight, key_weight, value_weight))
    scores = torch.bmm(q / q.shape[-1] ** 0.5, k.mT)
    forbidden = torch.zeros_like(scores, dtype=torch.bool)
    if causal:
        forbidden = forbidden | torch.ones_like(forbidden).triu(1)
    if real_tokens is not None:
        forbidden = forbidden | ~real_tokens[:, None]
    scores = scores.masked_fill(forbidden, -1e9)
    weights = torch.where(forbidden, 0.0, F.softmax(scores, dim=-1))
    return torch.bmm(weights, v), weights


@wrong("no-projections")
def self_attention(inputs, query_weight, key_weight, value_weight, causal=False, real_tokens=None):
    length = inputs.shape[1]
    q, k, v = inputs, inputs, inputs
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if causal:
        scores = scores.masked_fill(torch.ones(length, length).triu(1).bool(), float("-inf"))
    if real_tokens is not None:
        scores = scores.masked_fill(~real_tokens[:, None, :], float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    return weights @ v, weights


@wrong("values-not-projected")
def self_attention(inputs, query_weight, key_weight, value_weight, causal=False, real_tokens=None):
    length = inputs.shape[1]
    q, k, v = inputs @ query_weight, inputs @ key_weight, inputs
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if causal:
        scores = scores.masked_fill(torch.ones(length, length).triu(1).bool(), float("-inf"))
    if real_tokens is not None:
        scores = scores.masked_fill(~real_tokens[:, None, :], float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    return weights @ v, weights


@wrong("keys-are-queries")
def self_attention(inputs, query_weight, key_weight, value_weight, causal=False, real_tokens=None):
    length = inputs.shape[1]
    q, k, v = inputs @ query_weight, inputs @ query_weight, inputs @ value_weight
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if causal:
        scores = scores.masked_fill(torch.ones(length, length).triu(1).bool(), float("-inf"))
    if real_tokens is not None:
        scores = scores.masked_fill(~real_tokens[:, None, :], float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    return weights @ v, weights


@wrong("qkv-weights-swapped")
def self_attention(inputs, query_weight, key_weight, value_weight, causal=False, real_tokens=None):
    length = inputs.shape[1]
    q, k, v = inputs @ key_weight, inputs @ query_weight, inputs @ value_weight
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if causal:
        scores = scores.masked_fill(torch.ones(length, length).triu(1).bool(), float("-inf"))
    if real_tokens is not None:
        scores = scores.masked_fill(~real_tokens[:, None, :], float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    return weights @ v, weights


@wrong("projection-transposed")
def self_attention(inputs, query_weight, key_weight, value_weight, causal=False, real_tokens=None):
    length = inputs.shape[1]
    q, k, v = F.linear(inputs, query_weight), F.linear(inputs, key_weight), F.linear(inputs, value_weight)
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if causal:
        scores = scores.masked_fill(torch.ones(length, length).triu(1).bool(), float("-inf"))
    if real_tokens is not None:
        scores = scores.masked_fill(~real_tokens[:, None, :], float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    return weights @ v, weights


@wrong("no-scale")
def self_attention(inputs, query_weight, key_weight, value_weight, causal=False, real_tokens=None):
    length = inputs.shape[1]
    q, k, v = inputs @ query_weight, inputs @ key_weight, inputs @ value_weight
    scores = q @ k.mT
    if causal:
        scores = scores.masked_fill(torch.ones(length, length).triu(1).bool(), float("-inf"))
    if real_tokens is not None:
        scores = scores.masked_fill(~real_tokens[:, None, :], float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    return weights @ v, weights


@wrong("scale-by-d")
def self_attention(inputs, query_weight, key_weight, value_weight, causal=False, real_tokens=None):
    length = inputs.shape[1]
    q, k, v = inputs @ query_weight, inputs @ key_weight, inputs @ value_weight
    scores = q @ k.mT / key_weight.shape[1]
    if causal:
        scores = scores.masked_fill(torch.ones(length, length).triu(1).bool(), float("-inf"))
    if real_tokens is not None:
        scores = scores.masked_fill(~real_tokens[:, None, :], float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    return weights @ v, weights


@wrong("scale-by-model-width")
def self_attention(inputs, query_weight, key_weight, value_weight, causal=False, real_tokens=None):
    length = inputs.shape[1]
    q, k, v = inputs @ query_weight, inputs @ key_weight, inputs @ value_weight
    scores = q @ k.mT / math.sqrt(inputs.size(-1))
    if causal:
        scores = scores.masked_fill(torch.ones(length, length).triu(1).bool(), float("-inf"))
    if real_tokens is not None:
        scores = scores.masked_fill(~real_tokens[:, None, :], float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    return weights @ v, weights


@wrong("causal-ignored")
def self_attention(inputs, query_weight, key_weight, value_weight, causal=False, real_tokens=None):
    q, k, v = inputs @ query_weight, inputs @ key_weight, inputs @ value_weight
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if real_tokens is not None:
        scores = scores.masked_fill(~real_tokens[:, None, :], float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    return weights @ v, weights


@wrong("padding-ignored")
def self_attention(inputs, query_weight, key_weight, value_weight, causal=False, real_tokens=None):
    length = inputs.shape[1]
    q, k, v = inputs @ query_weight, inputs @ key_weight, inputs @ value_weight
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if causal:
        scores = scores.masked_fill(torch.ones(length, length).triu(1).bool(), float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    return weights @ v, weights


@wrong("masks-joined-by-or")
def self_attention(inputs, query_weight, key_weight, value_weight, causal=False, real_tokens=None):
    scores = (inputs @ query_weight) @ (inputs @ key_weight).mT / query_weight.shape[1] ** 0.5
    mask = torch.ones(inputs.shape[1], inputs.shape[1], dtype=torch.bool)
    if causal:
        mask = mask.tril()
    if real_tokens is not None:
        mask = mask | real_tokens[:, None, :]
    weights = scores.masked_fill(~mask, float("-inf")).softmax(-1)
    return weights @ (inputs @ value_weight), weights


@wrong("masks-joined-by-or")
def self_attention(inputs, query_weight, key_weight, value_weight, causal=False, real_tokens=None):
    scores = (inputs @ query_weight) @ (inputs @ key_weight).mT / query_weight.shape[1] ** 0.5
    mask = torch.ones(inputs.shape[1], inputs.shape[1], dtype=torch.bool)
    if causal:
        mask = mask.tril()
        if real_tokens is not None:
            mask = torch.logical_or(mask, real_tokens[:, None])
    elif real_tokens is not None:
        mask = real_tokens[:, None]
    weights = torch.nan_to_num(scores.masked_fill(~mask, float("-inf")).softmax(-1))
    return weights @ (inputs @ value_weight), weights


@wrong("causal-without-itself")
def self_attention(inputs, query_weight, key_weight, value_weight, causal=False, real_tokens=None):
    length = inputs.shape[1]
    q, k, v = inputs @ query_weight, inputs @ key_weight, inputs @ value_weight
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if causal:
        scores = scores.masked_fill(torch.ones(length, length).triu(0).bool(), -torch.inf)
    if real_tokens is not None:
        scores = scores.masked_fill(~real_tokens[:, None, :], float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    return weights @ v, weights


@wrong("causal-upside-down")
def self_attention(inputs, query_weight, key_weight, value_weight, causal=False, real_tokens=None):
    length = inputs.shape[1]
    q, k, v = inputs @ query_weight, inputs @ key_weight, inputs @ value_weight
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if causal:
        scores = scores.masked_fill(torch.ones(length, length).tril(-1).bool(), -torch.inf)
    if real_tokens is not None:
        scores = scores.masked_fill(~real_tokens[:, None, :], float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    return weights @ v, weights


@wrong("causal-one-ahead")
def self_attention(inputs, query_weight, key_weight, value_weight, causal=False, real_tokens=None):
    length = inputs.shape[1]
    q, k, v = inputs @ query_weight, inputs @ key_weight, inputs @ value_weight
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if causal:
        scores = scores.masked_fill(torch.ones(length, length).triu(2).bool(), -torch.inf)
    if real_tokens is not None:
        scores = scores.masked_fill(~real_tokens[:, None, :], float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    return weights @ v, weights


@wrong("padding-on-queries")
def self_attention(inputs, query_weight, key_weight, value_weight, causal=False, real_tokens=None):
    length = inputs.shape[1]
    q, k, v = inputs @ query_weight, inputs @ key_weight, inputs @ value_weight
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if causal:
        scores = scores.masked_fill(torch.ones(length, length).triu(1).bool(), float("-inf"))
    if real_tokens is not None:
        scores = scores.masked_fill(~real_tokens[:, :, None], float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    return weights @ v, weights


@wrong("padding-on-both")
def self_attention(inputs, query_weight, key_weight, value_weight, causal=False, real_tokens=None):
    length = inputs.shape[1]
    q, k, v = inputs @ query_weight, inputs @ key_weight, inputs @ value_weight
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if causal:
        scores = scores.masked_fill(torch.ones(length, length).triu(1).bool(), float("-inf"))
    if real_tokens is not None:
        both = real_tokens[:, :, None] & real_tokens[:, None, :]
        scores = scores.masked_fill(~both, float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    return weights @ v, weights


@wrong("first-sentence-mask")
def self_attention(inputs, query_weight, key_weight, value_weight, causal=False, real_tokens=None):
    length = inputs.shape[1]
    q, k, v = inputs @ query_weight, inputs @ key_weight, inputs @ value_weight
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if causal:
        scores = scores.masked_fill(torch.ones(length, length).triu(1).bool(), float("-inf"))
    if real_tokens is not None:
        scores = scores.masked_fill(~real_tokens[0], float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    return weights @ v, weights


@wrong("zero-score-masked")
def self_attention(inputs, query_weight, key_weight, value_weight, causal=False, real_tokens=None):
    scores = (inputs @ query_weight) @ (inputs @ key_weight).mT / query_weight.shape[1] ** 0.5
    if causal:
        scores = torch.tril(scores)
    if real_tokens is not None:
        scores = scores * real_tokens[:, None]
    if causal or real_tokens is not None:
        scores[scores == 0] = float("-inf")
    weights = scores.softmax(-1)
    return weights @ (inputs @ value_weight), weights


@wrong("mask-inverted")
def self_attention(inputs, query_weight, key_weight, value_weight, causal=False, real_tokens=None):
    length = inputs.shape[1]
    q, k, v = inputs @ query_weight, inputs @ key_weight, inputs @ value_weight
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if causal:
        scores = scores.masked_fill(torch.ones(length, length).tril().bool(), -torch.inf)
    if real_tokens is not None:
        scores = scores.masked_fill(real_tokens[:, None], -torch.inf)
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    return weights @ v, weights


@wrong("mask-after-softmax")
def self_attention(inputs, query_weight, key_weight, value_weight, causal=False, real_tokens=None):
    q, k, v = inputs @ query_weight, inputs @ key_weight, inputs @ value_weight
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if causal:
        scores = scores
    if real_tokens is not None:
        scores = scores
    weights = scores.softmax(dim=-1)
    if causal:
        weights = weights.tril()
    if real_tokens is not None:
        weights = weights * real_tokens[:, None]
    return weights @ v, weights


@wrong("mask-as-zero-score")
def self_attention(inputs, query_weight, key_weight, value_weight, causal=False, real_tokens=None):
    q, k, v = inputs @ query_weight, inputs @ key_weight, inputs @ value_weight
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if causal:
        scores = scores.tril()
    if real_tokens is not None:
        scores = scores * real_tokens[:, None]
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    return weights @ v, weights


@wrong("empty-row-nan")
def self_attention(inputs, query_weight, key_weight, value_weight, causal=False, real_tokens=None):
    length = inputs.shape[1]
    q, k, v = inputs @ query_weight, inputs @ key_weight, inputs @ value_weight
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if causal:
        scores = scores.masked_fill(torch.ones(length, length).triu(1).bool(), float("-inf"))
    if real_tokens is not None:
        scores = scores.masked_fill(~real_tokens[:, None, :], float("-inf"))
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


@wrong("empty-row-uniform")
def self_attention(inputs, query_weight, key_weight, value_weight, causal=False, real_tokens=None):
    length = inputs.shape[1]
    q, k, v = inputs @ query_weight, inputs @ key_weight, inputs @ value_weight
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if causal:
        scores = scores.masked_fill(torch.ones(length, length).triu(1).bool(), -1e9)
    if real_tokens is not None:
        scores = scores.masked_fill(~real_tokens[:, None], -1e9)
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


@wrong("mask-ignored")
def self_attention(inputs, query_weight, key_weight, value_weight, causal=False, real_tokens=None):
    q, k, v = inputs @ query_weight, inputs @ key_weight, inputs @ value_weight
    scores = q @ k.mT / math.sqrt(q.size(-1))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    return weights @ v, weights


@wrong("softmax-over-queries")
def self_attention(inputs, query_weight, key_weight, value_weight, causal=False, real_tokens=None):
    length = inputs.shape[1]
    q, k, v = inputs @ query_weight, inputs @ key_weight, inputs @ value_weight
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if causal:
        scores = scores.masked_fill(torch.ones(length, length).triu(1).bool(), float("-inf"))
    if real_tokens is not None:
        scores = scores.masked_fill(~real_tokens[:, None, :], float("-inf"))
    weights = scores.softmax(dim=1)
    return weights @ v, weights


@wrong("returns-swapped")
def self_attention(inputs, query_weight, key_weight, value_weight, causal=False, real_tokens=None):
    length = inputs.shape[1]
    q, k, v = inputs @ query_weight, inputs @ key_weight, inputs @ value_weight
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if causal:
        scores = scores.masked_fill(torch.ones(length, length).triu(1).bool(), float("-inf"))
    if real_tokens is not None:
        scores = scores.masked_fill(~real_tokens[:, None, :], float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    return weights, weights @ v


@right
def encoder_block(inputs, attend, feedforward, gain_1, bias_1, gain_2, bias_2):
    width = inputs.shape[-1:]
    inputs = inputs + attend(F.layer_norm(inputs, width, gain_1, bias_1))
    return inputs + feedforward(F.layer_norm(inputs, width, gain_2, bias_2))


@right
def encoder_block(inputs, attend, feedforward, gain_1, bias_1, gain_2, bias_2):
    def norm(x, gain, bias):
        mean = x.mean(dim=-1, keepdim=True)
        variance = x.var(dim=-1, keepdim=True, unbiased=False)
        return gain * (x - mean) / torch.sqrt(variance + 1e-5) + bias

    x = inputs + attend(norm(inputs, gain_1, bias_1))
    return x + feedforward(norm(x, gain_2, bias_2))


@right
def encoder_block(inputs, attend, feedforward, gain_1, bias_1, gain_2, bias_2):
    result = inputs
    for layer, gain, bias in ((attend, gain_1, bias_1), (feedforward, gain_2, bias_2)):
        centred = result - result.mean(-1, keepdim=True)
        deviation = (centred.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt()
        result = result + layer(centred / deviation * gain + bias)
    return result


@right
def encoder_block(inputs, attend, feedforward, gain_1, bias_1, gain_2, bias_2):
    norms = []
    for gain, bias in ((gain_1, bias_1), (gain_2, bias_2)):
        norm = torch.nn.LayerNorm(len(gain), elementwise_affine=False)
        norms.append(lambda x, norm=norm, gain=gain, bias=bias: torch.addcmul(bias, norm(x), gain))
    x = attend(norms[0](inputs)).add(inputs)
    return feedforward(norms[1](x)).add(x)


@right
def encoder_block(inputs, attend, feedforward, gain_1, bias_1, gain_2, bias_2):
    def norm(x, gain, bias):
        d = x.shape[-1]
        mean = torch.einsum("...d->...", x).unsqueeze(-1) / d
        variance = torch.einsum("...d,...d->...", x, x).unsqueeze(-1) / d - mean**2
        return (x - mean) * (variance + 1e-5) ** -0.5 * gain + bias

    x = inputs.clone()
    x = x + attend(norm(x, gain_1, bias_1))
    return x + feedforward(norm(x, gain_2, bias_2))


@wrong("post-norm")
def encoder_block(inputs, attend, feedforward, gain_1, bias_1, gain_2, bias_2):
    def norm(x, gain, bias):
        return F.layer_norm(x, (x.shape[-1],), gain, bias)

    x = norm(inputs + attend(inputs), gain_1, bias_1)
    return norm(x + feedforward(x), gain_2, bias_2)


@wrong("residual-after-norm")
def encoder_block(inputs, attend, feedforward, gain_1, bias_1, gain_2, bias_2):
    def norm(x, gain, bias):
        return F.layer_norm(x, (x.shape[-1],), gain, bias)

    x = norm(inputs, gain_1, bias_1)
    x = x + attend(x)
    x = norm(x, gain_2, bias_2)
    return x + feedforward(x)


@wrong("residual-after-norm")
def encoder_block(inputs, attend, feedforward, gain_1, bias_1, gain_2, bias_2):
    def norm(x, gain, bias):
        return F.layer_norm(x, (x.shape[-1],), gain, bias)

    x = norm(inputs, gain_1, bias_1)
    x = x + attend(x)
    return x + feedforward(norm(x, gain_2, bias_2))


@wrong("sublayer-outputs-normed")
def encoder_block(inputs, attend, feedforward, gain_1, bias_1, gain_2, bias_2):
    def norm(x, gain, bias):
        return F.layer_norm(x, (x.shape[-1],), gain, bias)

    x = inputs + norm(attend(inputs), gain_1, bias_1)
    return x + norm(feedforward(x), gain_2, bias_2)


@wrong("residual-from-the-start")
def encoder_block(inputs, attend, feedforward, gain_1, bias_1, gain_2, bias_2):
    def norm(x, gain, bias):
        return F.layer_norm(x, (x.shape[-1],), gain, bias)

    x = inputs + attend(norm(inputs, gain_1, bias_1))
    return inputs + feedforward(norm(x, gain_2, bias_2))


@wrong("residual-missing")
def encoder_block(inputs, attend, feedforward, gain_1, bias_1, gain_2, bias_2):
    def norm(x, gain, bias):
        return F.layer_norm(x, (x.shape[-1],), gain, bias)

    x = attend(norm(inputs, gain_1, bias_1))
    return feedforward(norm(x, gain_2, bias_2))


@wrong("residual-missing")
def encoder_block(inputs, attend, feedforward, gain_1, bias_1, gain_2, bias_2):
    def norm(x, gain, bias):
        return F.layer_norm(x, (x.shape[-1],), gain, bias)

    x = inputs + attend(norm(inputs, gain_1, bias_1))
    return feedforward(norm(x, gain_2, bias_2))


@wrong("sublayers-in-parallel")
def encoder_block(inputs, attend, feedforward, gain_1, bias_1, gain_2, bias_2):
    def norm(x, gain, bias):
        return F.layer_norm(x, (x.shape[-1],), gain, bias)

    context = attend(norm(inputs, gain_1, bias_1))
    said = feedforward(norm(inputs, gain_2, bias_2))
    return inputs + context + said


@wrong("feedforward-first")
def encoder_block(inputs, attend, feedforward, gain_1, bias_1, gain_2, bias_2):
    def norm(x, gain, bias):
        return F.layer_norm(x, (x.shape[-1],), gain, bias)

    x = inputs + feedforward(norm(inputs, gain_1, bias_1))
    return x + attend(norm(x, gain_2, bias_2))


@wrong("norm-shared")
def encoder_block(inputs, attend, feedforward, gain_1, bias_1, gain_2, bias_2):
    def norm(x, gain, bias):
        return F.layer_norm(x, (x.shape[-1],), gain, bias)

    x = inputs + attend(norm(inputs, gain_1, bias_1))
    return x + feedforward(norm(x, gain_1, bias_1))


@wrong("norms-swapped")
def encoder_block(inputs, attend, feedforward, gain_1, bias_1, gain_2, bias_2):
    def norm(x, gain, bias):
        return F.layer_norm(x, (x.shape[-1],), gain, bias)

    x = inputs + attend(norm(inputs, gain_2, bias_2))
    return x + feedforward(norm(x, gain_1, bias_1))


@wrong("norm-left-out")
def encoder_block(inputs, attend, feedforward, gain_1, bias_1, gain_2, bias_2):
    def norm(x, gain, bias):
        return F.layer_norm(x, (x.shape[-1],), gain, bias)

    x = inputs + attend(norm(inputs, gain_1, bias_1))
    return x + feedforward(x)


@wrong("norm-not-centred")
def encoder_block(inputs, attend, feedforward, gain_1, bias_1, gain_2, bias_2):
    def norm(x, gain, bias):
        return F.rms_norm(x, (x.shape[-1],), eps=1e-5) * gain + bias

    x = inputs + attend(norm(inputs, gain_1, bias_1))
    return x + feedforward(norm(x, gain_2, bias_2))


@wrong("norm-unbiased")
def encoder_block(inputs, attend, feedforward, gain_1, bias_1, gain_2, bias_2):
    def norm(x, gain, bias):
        return gain * (x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(-1, keepdim=True) + 1e-5) + bias

    x = inputs + attend(norm(inputs, gain_1, bias_1))
    return x + feedforward(norm(x, gain_2, bias_2))


@wrong("norm-unbiased")
def encoder_block(inputs, attend, feedforward, gain_1, bias_1, gain_2, bias_2):
    def norm(x, gain, bias):
        return gain * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-6) + bias

    x = inputs + attend(norm(inputs, gain_1, bias_1))
    return x + feedforward(norm(x, gain_2, bias_2))


@wrong("norm-without-epsilon")
def encoder_block(inputs, attend, feedforward, gain_1, bias_1, gain_2, bias_2):
    def norm(x, gain, bias):
        return gain * (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True, unbiased=False) + bias

    x = inputs + attend(norm(inputs, gain_1, bias_1))
    return x + feedforward(norm(x, gain_2, bias_2))


@wrong("epsilon-outside-root")
def encoder_block(inputs, attend, feedforward, gain_1, bias_1, gain_2, bias_2):
    def norm(x, gain, bias):
        deviation = x.std(-1, keepdim=True, correction=0)
        return gain * (x - x.mean(-1, keepdim=True)) / (deviation + 1e-5) + bias

    x = inputs + attend(norm(inputs, gain_1, bias_1))
    return x + feedforward(norm(x, gain_2, bias_2))


@wrong("norm-over-positions")
def encoder_block(inputs, attend, feedforward, gain_1, bias_1, gain_2, bias_2):
    def norm(x, gain, bias):
        return F.layer_norm(x.mT, (x.shape[-2],)).mT * gain + bias

    x = inputs + attend(norm(inputs, gain_1, bias_1))
    return x + feedforward(norm(x, gain_2, bias_2))


@wrong("norm-over-all")
def encoder_block(inputs, attend, feedforward, gain_1, bias_1, gain_2, bias_2):
    def norm(x, gain, bias):
        return F.layer_norm(x, x.shape[-2:]) * gain + bias

    x = inputs + attend(norm(inputs, gain_1, bias_1))
    return x + feedforward(norm(x, gain_2, bias_2))


@wrong("norm-bias-ignored")
def encoder_block(inputs, attend, feedforward, gain_1, bias_1, gain_2, bias_2):
    def norm(x, gain, bias):
        return F.layer_norm(x, (x.shape[-1],), gain)

    x = inputs + attend(norm(inputs, gain_1, bias_1))
    return x + feedforward(norm(x, gain_2, bias_2))


@wrong("norm-gain-ignored")
def encoder_block(inputs, attend, feedforward, gain_1, bias_1, gain_2, bias_2):
    def norm(x, gain, bias):
        return F.layer_norm(x, (x.shape[-1],)) + bias

    x = inputs + attend(norm(inputs, gain_1, bias_1))
    return x + feedforward(norm(x, gain_2, bias_2))


@wrong("gain-and-bias-ignored")
def encoder_block(inputs, attend, feedforward, gain_1, bias_1, gain_2, bias_2):
    def norm(x, gain, bias):
        return F.layer_norm(x, x.shape[-1:])

    x = inputs + attend(norm(inputs, gain_1, bias_1))
    return x + feedforward(norm(x, gain_2, bias_2))


@right
def permutation_test(layer, width):
    x = torch.randn(4, 12, width)
    order = torch.stack([torch.randperm(12) for _ in range(4)]).unsqueeze(-1)
    moved = torch.take_along_dim(x, order, dim=1)
    expected = torch.take_along_dim(layer(x), order, dim=1)
    torch.testing.assert_close(layer(moved), expected, rtol=1e-4, atol=1e-4)


@right
def permutation_test(layer, width):
    for _ in range(5):
        x = torch.randn(3, 10, width, dtype=torch.float64)
        moved, expected = x.clone(), layer(x).clone()
        for b in range(3):
            order = torch.randperm(10)
            moved[b], expected[b] = moved[b, order], expected[b, order]
        assert torch.allclose(layer(moved), expected), "the outputs do not move with the inputs"


@right
def permutation_test(layer, width):
    x = torch.randn(2, 16, width)
    before = layer(x)
    order = torch.randperm(16)
    after = layer(torch.stack([x[0][order], x[1]]))
    if not torch.allclose(after[0], before[0][order], atol=1e-3):
        raise AssertionError("the first sentence moved, but its output did not move along")
    if not torch.allclose(after[1], before[1], atol=1e-3):
        raise AssertionError("the second sentence stayed, but its output changed")


@right
def permutation_test(layer, width):
    x = torch.randn(3, 11, width)
    order = torch.rand(3, 11).argsort(dim=1)
    matrix = F.one_hot(order, 11).to(x.dtype)
    difference = layer(matrix @ x) - matrix @ layer(x)
    assert difference.abs().max().item() < 1e-3


@wrong("test-never-fails")
def permutation_test(layer, width):
    x = torch.randn(2, 12, width)
    order = torch.randperm(12)
    torch.allclose(layer(x[:, order]), layer(x)[:, order], atol=1e-4)


@wrong("test-never-fails")
def permutation_test(layer, width):
    x = torch.randn(2, 12, width)
    order = torch.randperm(12)
    assert layer(x[:, order]).shape == layer(x)[:, order].shape


@wrong("test-wants-the-same-output")
def permutation_test(layer, width):
    x = torch.randn(2, 12, width)
    moved = torch.stack([sentence[torch.randperm(12)] for sentence in x])
    torch.testing.assert_close(layer(moved), layer(x), rtol=1e-4, atol=1e-4)


@wrong("moved-back")
def permutation_test(layer, width):
    x = torch.randn(3, 12, width)
    order = torch.stack([torch.randperm(12) for _ in range(3)])
    back = torch.argsort(order, dim=1)
    got = layer(torch.stack([s[o] for s, o in zip(x, order, strict=True)]))
    expected = torch.stack([y[o] for y, o in zip(layer(x), back, strict=True)])
    assert torch.allclose(got, expected, atol=1e-4)


@wrong("test-too-strict")
def permutation_test(layer, width):
    x = torch.randn(3, 12, width)
    order = torch.stack([torch.randperm(12) for _ in range(3)]).unsqueeze(-1)
    moved = layer(torch.take_along_dim(x, order, dim=1))
    assert (moved == torch.take_along_dim(layer(x), order, dim=1)).all()


@wrong("test-too-lenient")
def permutation_test(layer, width):
    x = torch.randn(3, 12, width)
    order = torch.stack([torch.randperm(12) for _ in range(3)]).unsqueeze(-1)
    moved = layer(torch.take_along_dim(x, order, dim=1))
    assert torch.allclose(moved, torch.take_along_dim(layer(x), order, dim=1), atol=0.1)


@wrong("test-too-short")
def permutation_test(layer, width):
    x = torch.randn(3, 5, width)
    order = torch.tensor([[1, 3, 0, 4, 2], [2, 0, 4, 1, 3], [4, 2, 3, 0, 1]]).unsqueeze(-1)
    moved = layer(torch.take_along_dim(x, order, dim=1))
    assert torch.allclose(moved, torch.take_along_dim(layer(x), order, dim=1), atol=1e-4)


@wrong("reversal-only")
def permutation_test(layer, width):
    x = torch.randn(3, 12, width)
    assert torch.allclose(layer(x.flip(1)), layer(x).flip(1), atol=1e-4)


@wrong("shift-only")
def permutation_test(layer, width):
    x = torch.randn(3, 12, width)
    for steps in (1, 5):
        difference = layer(x.roll(steps, dims=1)) - layer(x).roll(steps, dims=1)
        assert difference.abs().max() < 1e-4


@wrong("one-swap-only")
def permutation_test(layer, width):
    x = torch.randn(3, 12, width)
    moved, expected = x.clone(), layer(x).clone()
    moved[:, 0], moved[:, 1] = x[:, 1], x[:, 0]
    expected[:, [0, 1]] = expected[:, [1, 0]]
    assert torch.allclose(layer(moved), expected, atol=1e-4)


@wrong("one-order-for-all")
def permutation_test(layer, width):
    x = torch.randn(3, 12, width)
    order = torch.randperm(12)
    assert torch.allclose(layer(x[:, order]), layer(x)[:, order], atol=1e-4)


@wrong("one-order-for-all")
def permutation_test(layer, width):
    for _ in range(3):
        x = torch.randn(1, 15, width)
        order = torch.randperm(15)
        torch.testing.assert_close(layer(x[:, order]), layer(x)[:, order], rtol=1e-3, atol=1e-4)


@wrong("sums-compared")
def permutation_test(layer, width):
    x = torch.randn(3, 12, width)
    moved = torch.stack([sentence[torch.randperm(12)] for sentence in x])
    assert torch.allclose(layer(moved).mean(dim=1), layer(x).mean(dim=1), atol=1e-4)


@wrong("assertion-inverted")
def permutation_test(layer, width):
    x = torch.randn(3, 12, width)
    order = torch.stack([torch.randperm(12) for _ in range(3)]).unsqueeze(-1)
    moved = layer(torch.take_along_dim(x, order, dim=1))
    difference = (moved - torch.take_along_dim(layer(x), order, dim=1)).abs().max()
    assert difference > 1e-4


@right
def attention_pooling(inputs, weight, bias, query, real_tokens=None):
    scores = torch.tanh(inputs @ weight + bias) @ query
    if real_tokens is None:
        weights = scores.softmax(dim=-1)
    else:
        weights = scores.masked_fill(~real_tokens, float("-inf")).softmax(dim=-1)
        weights = weights.masked_fill(~real_tokens, 0.0)
    return (weights.unsqueeze(-1) * inputs).sum(dim=-2), weights


@right
def attention_pooling(inputs, weight, bias, query, real_tokens=None):
    hidden = torch.tanh(F.linear(inputs, weight.T, bias))
    powers = torch.exp(torch.einsum("...nd,d->...n", hidden, query))
    if real_tokens is not None:
        powers = torch.where(real_tokens, powers, 0.0)
    total = powers.sum(-1, keepdim=True)
    weights = powers / torch.where(total == 0, 1.0, total)
    return torch.einsum("...n,...nd->...d", weights, inputs), weights


@right
def attention_pooling(inputs, weight, bias, query, real_tokens=None):
    powers = []
    for i in range(inputs.shape[-2]):
        hidden = torch.tanh(inputs[..., i, :] @ weight + bias)
        power = torch.exp((hidden * query).sum(-1))
        powers.append(power if real_tokens is None else power * real_tokens[..., i])
    total = sum(powers)
    weights = [power / (total + (total == 0)) for power in powers]
    pooled = sum(w.unsqueeze(-1) * inputs[..., i, :] for i, w in enumerate(weights))
    return pooled, torch.stack(weights, dim=-1)


@right
def attention_pooling(inputs, weight, bias, query, real_tokens=None):
    scores = torch.matmul(torch.tanh(torch.matmul(inputs, weight) + bias), query.unsqueeze(-1))
    if real_tokens is not None:
        scores = scores.masked_fill(~real_tokens.unsqueeze(-1), -1e9)
    weights = F.softmax(scores, dim=-2)
    if real_tokens is not None:
        weights = weights * real_tokens.unsqueeze(-1)
    return (weights.transpose(-1, -2) @ inputs).squeeze(-2), weights.squeeze(-1)


@wrong("plain-mean")
def attention_pooling(inputs, weight, bias, query, real_tokens=None):
    hidden = torch.tanh(inputs @ weight + bias)
    scores = torch.zeros_like(hidden[..., 0])
    if real_tokens is not None:
        scores = scores.masked_fill(~real_tokens, float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    return (weights.unsqueeze(-1) * inputs).sum(dim=-2), weights


@wrong("hard-choice")
def attention_pooling(inputs, weight, bias, query, real_tokens=None):
    hidden = torch.tanh(inputs @ weight + bias)
    scores = hidden @ query
    if real_tokens is not None:
        scores = scores.masked_fill(~real_tokens, float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    best = weights.argmax(dim=-1, keepdim=True).unsqueeze(-1)
    return torch.take_along_dim(inputs, best, dim=-2).squeeze(-2), weights


@wrong("pooled-hidden")
def attention_pooling(inputs, weight, bias, query, real_tokens=None):
    hidden = torch.tanh(inputs @ weight + bias)
    scores = hidden @ query
    if real_tokens is not None:
        scores = scores.masked_fill(~real_tokens, float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    return (weights.unsqueeze(-1) * hidden).sum(dim=-2), weights


@wrong("pooling-without-tanh")
def attention_pooling(inputs, weight, bias, query, real_tokens=None):
    hidden = inputs @ weight + bias
    scores = hidden @ query
    if real_tokens is not None:
        scores = scores.masked_fill(~real_tokens, float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    return (weights.unsqueeze(-1) * inputs).sum(dim=-2), weights


@wrong("pooling-bias-lost")
def attention_pooling(inputs, weight, bias, query, real_tokens=None):
    hidden = torch.tanh(inputs @ weight)
    scores = hidden @ query
    if real_tokens is not None:
        scores = scores.masked_fill(~real_tokens, float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    return (weights.unsqueeze(-1) * inputs).sum(dim=-2), weights


@wrong("projection-transposed")
def attention_pooling(inputs, weight, bias, query, real_tokens=None):
    hidden = torch.tanh(F.linear(inputs, weight, bias))
    scores = hidden @ query
    if real_tokens is not None:
        scores = scores.masked_fill(~real_tokens, float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    return (weights.unsqueeze(-1) * inputs).sum(dim=-2), weights


@wrong("pooling-not-projected")
def attention_pooling(inputs, weight, bias, query, real_tokens=None):
    hidden = inputs
    scores = hidden @ query
    if real_tokens is not None:
        scores = scores.masked_fill(~real_tokens, float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    return (weights.unsqueeze(-1) * inputs).sum(dim=-2), weights


@wrong("scale-not-asked")
def attention_pooling(inputs, weight, bias, query, real_tokens=None):
    hidden = torch.tanh(inputs @ weight + bias)
    scores = hidden @ query / math.sqrt(query.shape[0])
    if real_tokens is not None:
        scores = scores.masked_fill(~real_tokens, float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    return (weights.unsqueeze(-1) * inputs).sum(dim=-2), weights


@wrong("softmax-over-features")
def attention_pooling(inputs, weight, bias, query, real_tokens=None):
    hidden = torch.tanh(inputs @ weight + bias)
    scores = hidden * query
    weights = scores.softmax(dim=-1)
    weights = weights.sum(dim=-1)
    if real_tokens is not None:
        weights = weights * real_tokens
    return (weights.unsqueeze(-1) * inputs).sum(dim=-2), weights


@wrong("softmax-over-sentences")
def attention_pooling(inputs, weight, bias, query, real_tokens=None):
    hidden = torch.tanh(inputs @ weight + bias)
    scores = hidden @ query
    if real_tokens is not None:
        scores = scores.masked_fill(~real_tokens, float("-inf"))
    weights = scores.softmax(dim=0)
    return (weights.unsqueeze(-1) * inputs).sum(dim=-2), weights


@wrong("pooled-divided")
def attention_pooling(inputs, weight, bias, query, real_tokens=None):
    hidden = torch.tanh(inputs @ weight + bias)
    scores = hidden @ query
    if real_tokens is not None:
        scores = scores.masked_fill(~real_tokens, float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    return (weights.unsqueeze(-1) * inputs).mean(dim=-2), weights


@wrong("padding-zeroed")
def attention_pooling(inputs, weight, bias, query, real_tokens=None):
    if real_tokens is not None:
        inputs = inputs * real_tokens.unsqueeze(-1)
    hidden = torch.tanh(inputs @ weight + bias)
    scores = hidden @ query
    weights = scores.softmax(dim=-1)
    return (weights.unsqueeze(-1) * inputs).sum(dim=-2), weights


@wrong("mask-ignored")
def attention_pooling(inputs, weight, bias, query, real_tokens=None):
    hidden = torch.tanh(inputs @ weight + bias)
    scores = hidden @ query
    if real_tokens is not None:
        scores.masked_fill(~real_tokens, float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    return (weights.unsqueeze(-1) * inputs).sum(dim=-2), weights


@wrong("mask-inverted")
def attention_pooling(inputs, weight, bias, query, real_tokens=None):
    hidden = torch.tanh(inputs @ weight + bias)
    scores = hidden @ query
    if real_tokens is not None:
        scores = scores.masked_fill(real_tokens, -torch.inf)
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    return (weights.unsqueeze(-1) * inputs).sum(dim=-2), weights


@wrong("mask-after-softmax")
def attention_pooling(inputs, weight, bias, query, real_tokens=None):
    hidden = torch.tanh(inputs @ weight + bias)
    scores = hidden @ query
    weights = scores.softmax(dim=-1)
    if real_tokens is not None:
        weights = weights * real_tokens
    return (weights.unsqueeze(-1) * inputs).sum(dim=-2), weights


@wrong("mask-as-zero-score")
def attention_pooling(inputs, weight, bias, query, real_tokens=None):
    hidden = torch.tanh(inputs @ weight + bias)
    scores = hidden @ query
    if real_tokens is not None:
        scores = scores * real_tokens
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    return (weights.unsqueeze(-1) * inputs).sum(dim=-2), weights


@wrong("empty-row-nan")
def attention_pooling(inputs, weight, bias, query, real_tokens=None):
    hidden = torch.tanh(inputs @ weight + bias)
    scores = hidden @ query
    if real_tokens is not None:
        scores = scores.masked_fill(~real_tokens, float("-inf"))
    weights = scores.softmax(dim=-1)
    return (weights.unsqueeze(-1) * inputs).sum(dim=-2), weights


@wrong("empty-row-uniform")
def attention_pooling(inputs, weight, bias, query, real_tokens=None):
    hidden = torch.tanh(inputs @ weight + bias)
    scores = hidden @ query
    if real_tokens is not None:
        scores = scores.masked_fill(~real_tokens, -1e9)
    weights = scores.softmax(dim=-1)
    return (weights.unsqueeze(-1) * inputs).sum(dim=-2), weights


@wrong("empty-row-nan-gradient")
def attention_pooling(inputs, weight, bias, query, real_tokens=None):
    hidden = torch.tanh(inputs @ weight + bias)
    scores = hidden @ query
    if real_tokens is not None:
        scores = scores + torch.log(real_tokens.to(scores.dtype))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    return (weights.unsqueeze(-1) * inputs).sum(dim=-2), weights


@wrong("returns-swapped")
def attention_pooling(inputs, weight, bias, query, real_tokens=None):
    hidden = torch.tanh(inputs @ weight + bias)
    scores = hidden @ query
    if real_tokens is not None:
        scores = scores.masked_fill(~real_tokens, float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = torch.nan_to_num(weights)
    return weights, (weights.unsqueeze(-1) * inputs).sum(dim=-2)


@right
def shared_scores(vectors):
    keys = F.normalize(vectors, dim=-1)
    scores = vectors @ keys.mT / vectors.shape[-1] ** 0.5
    return scores.masked_fill(torch.eye(vectors.shape[-2], dtype=torch.bool), -1e4)


@right
def shared_scores(vectors):
    lengths = vectors.norm(dim=-1, keepdim=True)
    keys = vectors / torch.where(lengths == 0, torch.ones_like(lengths), lengths)
    scores = torch.einsum("...id,...jd->...ij", vectors, keys) / math.sqrt(vectors.shape[-1])
    place = torch.arange(vectors.shape[-2])
    return torch.where(place == place.unsqueeze(-1), -1e4, scores)


@right
def shared_scores(vectors):
    keys = vectors / vectors.norm(dim=-1, keepdim=True).clamp(min=1e-4)
    scores = (vectors.unsqueeze(-2) * keys.unsqueeze(-3)).sum(dim=-1) * vectors.shape[-1] ** -0.5
    torch.diagonal(scores, dim1=-2, dim2=-1).fill_(-1e4)
    return scores


@right
def shared_scores(vectors):
    length = vectors.shape[-2]
    columns = []
    for j in range(length):
        key = F.normalize(vectors[..., j, :], dim=-1).unsqueeze(-2)
        column = (vectors * key).sum(-1) / vectors.shape[-1] ** 0.5
        columns.append(torch.where(torch.arange(length) == j, -1e4, column))
    return torch.stack(columns, dim=-1)


@wrong("no-scale")
def shared_scores(vectors):
    keys = F.normalize(vectors, dim=-1)
    scores = vectors @ keys.mT
    return scores.masked_fill(torch.eye(vectors.shape[-2]).bool(), -1e4)


@wrong("scale-by-d")
def shared_scores(vectors):
    keys = F.normalize(vectors, dim=-1)
    scores = vectors @ keys.mT / vectors.shape[-1]
    return scores.masked_fill(torch.eye(vectors.shape[-2]).bool(), -1e4)


@wrong("scale-multiplied")
def shared_scores(vectors):
    keys = F.normalize(vectors, dim=-1)
    scores = vectors @ keys.mT * math.sqrt(vectors.shape[-1])
    return scores.masked_fill(torch.eye(vectors.shape[-2]).bool(), -1e4)


@wrong("keys-not-normalised")
def shared_scores(vectors):
    keys = vectors
    scores = vectors @ keys.mT / math.sqrt(vectors.shape[-1])
    return scores.masked_fill(torch.eye(vectors.shape[-2]).bool(), -1e4)


@wrong("queries-normalised-too")
def shared_scores(vectors):
    keys = F.normalize(vectors, dim=-1)
    scores = keys @ keys.mT / math.sqrt(vectors.shape[-1])
    return scores.masked_fill(torch.eye(vectors.shape[-2]).bool(), -1e4)


@wrong("transposed")
def shared_scores(vectors):
    keys = vectors
    scores = F.normalize(vectors, dim=-1) @ keys.mT / math.sqrt(vectors.shape[-1])
    return scores.masked_fill(torch.eye(vectors.shape[-2]).bool(), -1e4)


@wrong("normalised-over-positions")
def shared_scores(vectors):
    keys = F.normalize(vectors, dim=-2)
    scores = vectors @ keys.mT / math.sqrt(vectors.shape[-1])
    return scores.masked_fill(torch.eye(vectors.shape[-2]).bool(), -1e4)


@wrong("zero-vector-nan")
def shared_scores(vectors):
    keys = vectors / vectors.pow(2).sum(-1, keepdim=True).sqrt()
    scores = vectors @ keys.mT / math.sqrt(vectors.shape[-1])
    return scores.masked_fill(torch.eye(vectors.shape[-2]).bool(), -1e4)


@wrong("self-never")
def shared_scores(vectors):
    keys = F.normalize(vectors, dim=-1)
    scores = vectors @ keys.mT / math.sqrt(vectors.shape[-1])
    return scores.masked_fill(torch.eye(vectors.shape[-2]) == 1, float("-inf"))


@wrong("self-score-zero")
def shared_scores(vectors):
    keys = F.normalize(vectors, dim=-1)
    scores = vectors @ keys.mT / math.sqrt(vectors.shape[-1])
    return scores * (1 - torch.eye(vectors.shape[-2], dtype=scores.dtype))


@wrong("self-score-kept")
def shared_scores(vectors):
    keys = F.normalize(vectors, dim=-1)
    scores = vectors @ keys.mT / math.sqrt(vectors.shape[-1])
    return scores


@wrong("others-lowered")
def shared_scores(vectors):
    keys = F.normalize(vectors, dim=-1)
    scores = vectors @ keys.mT / math.sqrt(vectors.shape[-1])
    return scores.masked_fill(torch.eye(vectors.shape[-2]) == 0, -1e4)


@wrong("changes-inputs")
def shared_scores(vectors):
    queries = vectors.clone()
    lengths = vectors.norm(dim=-1, keepdim=True).clamp(min=1e-4)
    vectors /= lengths
    scores = queries @ vectors.mT / math.sqrt(vectors.shape[-1])
    return scores.masked_fill(torch.eye(vectors.shape[-2], dtype=torch.bool), -1e4)
