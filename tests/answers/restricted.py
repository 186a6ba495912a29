"""Answers to the set `restricted`."""

import math

import torch
from torch.nn import functional as F

from tests.answers import Answers

answers = Answers()
right, wrong = answers.right, answers.wrong


@right
def layer_costs(layer, length, d_model, width=None):
    n, d = length, d_model
    if layer == "self-attention":
        return 3 * n * d**2 + 2 * n**2 * d, 1, 1
    if layer == "recurrent":
        return 2 * n * d**2, n, n
    path = max(1, math.ceil((n - 1) / (width - 1)))
    if layer == "convolutional":
        return width * n * d**2, 1, path
    return 3 * n * d**2 + 2 * width * n * d, 1, path


@right
def layer_costs(layer, length, d_model, width=None):
    operations = {
        "self-attention": lambda: length * (3 * d_model * d_model + 2 * length * d_model),
        "recurrent": lambda: length * 2 * d_model * d_model,
        "convolutional": lambda: length * width * d_model * d_model,
        "restricted": lambda: length * (3 * d_model * d_model + 2 * width * d_model),
    }[layer]()
    steps = length if layer == "recurrent" else 1
    path = steps
    if width is not None:
        path = -(-(length - 1) // (width - 1)) or 1
    return operations, steps, path


@right
def layer_costs(layer, length, d_model, width=None):
    path = steps = 1
    if layer == "recurrent":
        path = steps = length
        each = 2 * d_model**2
    elif layer == "convolutional":
        each = width * d_model**2
    else:
        keys = length if layer == "self-attention" else width
        each = 3 * d_model**2 + 2 * keys * d_model
    if width:
        seen = width
        while seen < length:
            seen += width - 1
            path += 1
    return [float(length * each), steps, path]


@right
def layer_costs(layer, length, d_model, width=None):
    x = torch.tensor([length, d_model])
    n, d = x[0], x[1]
    match layer:
        case "self-attention":
            return 3 * n * d * d + 2 * n * n * d, torch.tensor(1), torch.tensor(1)
        case "recurrent":
            return 2 * n * d * d, n, n
    path = torch.ceil((n - 1) / (width - 1)).clamp(min=1)
    return width * n * d * d if layer == "convolutional" else 3 * n * d * d + 2 * width * n * d, 1, path


@wrong("projections-left-out")
def layer_costs(layer, length, d_model, width=None):
    n, d = length, d_model
    if layer == "self-attention":
        return 2 * n**2 * d, 1, 1
    if layer == "recurrent":
        return 2 * n * d**2, n, n
    path = max(1, math.ceil((n - 1) / (width - 1)))
    if layer == "convolutional":
        return width * n * d**2, 1, path
    return 2 * width * n * d, 1, path


@wrong("costs-of-table-1")
def layer_costs(layer, length, d_model, width=None):
    n, d = length, d_model
    if layer == "self-attention":
        return n**2 * d, 1, 1
    if layer == "recurrent":
        return n * d**2, n, n
    path = max(1, math.ceil((n - 1) / (width - 1)))
    if layer == "convolutional":
        return width * n * d**2, 1, path
    return width * n * d, 1, path


@wrong("one-product-of-attention")
def layer_costs(layer, length, d_model, width=None):
    n, d = length, d_model
    if layer == "self-attention":
        return 3 * n * d**2 + n**2 * d, 1, 1
    if layer == "recurrent":
        return 2 * n * d**2, n, n
    path = max(1, math.ceil((n - 1) / (width - 1)))
    if layer == "convolutional":
        return width * n * d**2, 1, path
    return 3 * n * d**2 + width * n * d, 1, path


@wrong("additions-counted")
def layer_costs(layer, length, d_model, width=None):
    n, d = length, d_model
    if layer == "self-attention":
        return 2 * (3 * n * d**2 + 2 * n**2 * d), 1, 1
    if layer == "recurrent":
        return 4 * n * d**2, n, n
    path = max(1, math.ceil((n - 1) / (width - 1)))
    if layer == "convolutional":
        return 2 * width * n * d**2, 1, path
    return 2 * (3 * n * d**2 + 2 * width * n * d), 1, path


@wrong("one-matrix-of-recurrence")
def layer_costs(layer, length, d_model, width=None):
    n, d = length, d_model
    if layer == "self-attention":
        return 3 * n * d**2 + 2 * n**2 * d, 1, 1
    if layer == "recurrent":
        return n * d**2, n, n
    path = max(1, math.ceil((n - 1) / (width - 1)))
    if layer == "convolutional":
        return width * n * d**2, 1, path
    return 3 * n * d**2 + 2 * width * n * d, 1, path


@wrong("steps-one-for-all")
def layer_costs(layer, length, d_model, width=None):
    n, d = length, d_model
    if layer == "self-attention":
        return 3 * n * d**2 + 2 * n**2 * d, 1, 1
    if layer == "recurrent":
        return 2 * n * d**2, 1, n
    path = max(1, math.ceil((n - 1) / (width - 1)))
    if layer == "convolutional":
        return width * n * d**2, 1, path
    return 3 * n * d**2 + 2 * width * n * d, 1, path


@wrong("steps-of-attention")
def layer_costs(layer, length, d_model, width=None):
    n, d = length, d_model
    if layer == "self-attention":
        return 3 * n * d**2 + 2 * n**2 * d, n, 1
    if layer == "recurrent":
        return 2 * n * d**2, n, n
    path = max(1, math.ceil((n - 1) / (width - 1)))
    if layer == "convolutional":
        return width * n * d**2, 1, path
    return 3 * n * d**2 + 2 * width * n * d, n, path


@wrong("path-n-over-w")
def layer_costs(layer, length, d_model, width=None):
    n, d = length, d_model
    if layer == "self-attention":
        return 3 * n * d**2 + 2 * n**2 * d, 1, 1
    if layer == "recurrent":
        return 2 * n * d**2, n, n
    path = -(-n // width)
    if layer == "convolutional":
        return width * n * d**2, 1, path
    return 3 * n * d**2 + 2 * width * n * d, 1, path


@wrong("path-one-too-many")
def layer_costs(layer, length, d_model, width=None):
    n, d = length, d_model
    if layer == "self-attention":
        return 3 * n * d**2 + 2 * n**2 * d, 1, 1
    if layer == "recurrent":
        return 2 * n * d**2, n, n
    path = math.ceil(n / (width - 1))
    if layer == "convolutional":
        return width * n * d**2, 1, path
    return 3 * n * d**2 + 2 * width * n * d, 1, path


@wrong("path-rounded-down")
def layer_costs(layer, length, d_model, width=None):
    n, d = length, d_model
    if layer == "self-attention":
        return 3 * n * d**2 + 2 * n**2 * d, 1, 1
    if layer == "recurrent":
        return 2 * n * d**2, n, n
    path = max(1, (n - 1) // (width - 1))
    if layer == "convolutional":
        return width * n * d**2, 1, path
    return 3 * n * d**2 + 2 * width * n * d, 1, path


@wrong("path-of-dilation")
def layer_costs(layer, length, d_model, width=None):
    n, d = length, d_model
    if layer == "self-attention":
        return 3 * n * d**2 + 2 * n**2 * d, 1, 1
    if layer == "recurrent":
        return 2 * n * d**2, n, n
    path = max(1, math.ceil(round(math.log(n) / math.log(width), 6)))
    if layer == "convolutional":
        return width * n * d**2, 1, path
    return 3 * n * d**2 + 2 * width * n * d, 1, path


@wrong("path-of-recurrence-one")
def layer_costs(layer, length, d_model, width=None):
    n, d = length, d_model
    if layer == "self-attention":
        return 3 * n * d**2 + 2 * n**2 * d, 1, 1
    if layer == "recurrent":
        return 2 * n * d**2, n, 1
    path = max(1, math.ceil((n - 1) / (width - 1)))
    if layer == "convolutional":
        return width * n * d**2, 1, path
    return 3 * n * d**2 + 2 * width * n * d, 1, path


@wrong("convolution-by-feature")
def layer_costs(layer, length, d_model, width=None):
    n, d = length, d_model
    if layer == "self-attention":
        return 3 * n * d**2 + 2 * n**2 * d, 1, 1
    if layer == "recurrent":
        return 2 * n * d**2, n, n
    path = max(1, math.ceil((n - 1) / (width - 1)))
    if layer == "convolutional":
        return width * n * d, 1, path
    return 3 * n * d**2 + 2 * width * n * d, 1, path


@wrong("width-ignored")
def layer_costs(layer, length, d_model, width=None):
    n, d = length, d_model
    if layer == "recurrent":
        return 2 * n * d**2, n, n
    path = 1 if width is None else max(1, math.ceil((n - 1) / (width - 1)))
    if layer == "convolutional":
        return width * n * d**2, 1, path
    return 3 * n * d**2 + 2 * n**2 * d, 1, path


@right
def band_mask(queries, width, causal=True, past=0):
    distance = torch.arange(past, past + queries)[:, None] - torch.arange(past + queries)
    if causal:
        return (distance >= 0) & (distance < width)
    return distance.abs() < width


@right
def band_mask(queries, width, causal=True, past=0):
    ones = torch.ones(queries, past + queries, dtype=torch.bool)
    mask = ones.triu(past - width + 1)
    return mask.tril(past if causal else past + width - 1)


@right
def band_mask(queries, width, causal=True, past=0):
    mask = torch.zeros(queries, past + queries, dtype=torch.bool)
    for q in range(queries):
        first = max(0, past + q - width + 1)
        stop = past + q + 1 if causal else past + q + width
        mask[q, first:stop] = True
    return mask


@right
def band_mask(queries, width, causal=True, past=0):
    rows = []
    for i in range(past, past + queries):
        rows.append(
            [(i - width < j <= i) or (not causal and i < j < i + width) for j in range(past + queries)]
        )
    return torch.tensor(rows)


@wrong("window-one-more")
def band_mask(queries, width, causal=True, past=0):
    distance = torch.arange(past, past + queries)[:, None] - torch.arange(past + queries)
    if causal:
        return (distance >= 0) & (distance <= width)
    return distance.abs() <= width


@wrong("window-one-less")
def band_mask(queries, width, causal=True, past=0):
    distance = torch.arange(past, past + queries)[:, None] - torch.arange(past + queries)
    if causal:
        return (distance >= 0) & (distance < width - 1)
    return distance.abs() < width - 1


@wrong("window-after-the-query")
def band_mask(queries, width, causal=True, past=0):
    distance = torch.arange(past + queries) - torch.arange(past, past + queries)[:, None]
    if causal:
        return (distance >= 0) & (distance < width)
    return distance.abs() < width


@wrong("band-causal-ignored")
def band_mask(queries, width, causal=True, past=0):
    distance = torch.arange(past, past + queries)[:, None] - torch.arange(past + queries)
    return distance.abs() < width


@wrong("always-causal")
def band_mask(queries, width, causal=True, past=0):
    distance = torch.arange(past, past + queries)[:, None] - torch.arange(past + queries)
    return (distance >= 0) & (distance < width)


@wrong("window-in-two-halves")
def band_mask(queries, width, causal=True, past=0):
    distance = torch.arange(past, past + queries)[:, None] - torch.arange(past + queries)
    if causal:
        return (distance >= 0) & (distance < width)
    return distance.abs() <= width // 2


@wrong("later-keys-unlimited")
def band_mask(queries, width, causal=True, past=0):
    distance = torch.arange(past, past + queries)[:, None] - torch.arange(past + queries)
    mask = distance < width
    if causal:
        mask = mask & (distance >= 0)
    return mask


@wrong("window-missing")
def band_mask(queries, width, causal=True, past=0):
    mask = torch.ones(queries, past + queries, dtype=torch.bool)
    return mask.tril(past) if causal else mask


@wrong("mask-inverted")
def band_mask(queries, width, causal=True, past=0):
    distance = torch.arange(past, past + queries)[:, None] - torch.arange(past + queries)
    if causal:
        return (distance < 0) | (distance >= width)
    return distance.abs() >= width


@wrong("mask-as-numbers")
def band_mask(queries, width, causal=True, past=0):
    distance = torch.arange(past, past + queries)[:, None] - torch.arange(past + queries)
    mask = distance.abs() < width
    if causal:
        mask = mask & (distance >= 0)
    return torch.zeros(mask.shape).masked_fill(~mask, float("-inf"))


@wrong("past-ignored")
def band_mask(queries, width, causal=True, past=0):
    distance = torch.arange(queries)[:, None] - torch.arange(past + queries)
    if causal:
        return (distance >= 0) & (distance < width)
    return distance.abs() < width


@wrong("past-keys-left-out")
def band_mask(queries, width, causal=True, past=0):
    distance = torch.arange(queries)[:, None] - torch.arange(queries)
    if causal:
        return (distance >= 0) & (distance < width)
    return distance.abs() < width


@wrong("block-for-window")
def band_mask(queries, width, causal=True, past=0):
    query, key = torch.arange(past, past + queries)[:, None], torch.arange(past + queries)
    mask = query // width == key // width
    return mask & (key <= query) if causal else mask


@right
def window_attention(query, key, value, width):
    length = query.shape[-2]
    contexts = []
    for i in range(length):
        near = slice(max(0, i - width + 1), i + 1)
        scores = query[..., i : i + 1, :] @ key[..., near, :].mT / query.shape[-1] ** 0.5
        contexts.append(scores.softmax(dim=-1) @ value[..., near, :])
    return torch.cat(contexts, dim=-2)


@right
def window_attention(query, key, value, width):
    length = query.shape[-2]
    keys = F.pad(key, (0, 0, width - 1, 0)).unfold(-2, width, 1)  # (..., length, d_k, width)
    values = F.pad(value, (0, 0, width - 1, 0)).unfold(-2, width, 1)
    scores = torch.einsum("...qd,...qdw->...qw", query, keys) / math.sqrt(query.shape[-1])
    there = torch.arange(length)[:, None] + torch.arange(width) >= width - 1
    weights = scores.masked_fill(~there, float("-inf")).softmax(dim=-1)
    return torch.einsum("...qw,...qvw->...qv", weights, values)


@right
def window_attention(query, key, value, width):
    length = query.shape[-2]
    columns, shifted = [], []
    for offset in range(min(width, length)):
        k = F.pad(key, (0, 0, offset, 0))[..., :length, :]
        score = (query * k).sum(dim=-1) / math.sqrt(query.shape[-1])
        columns.append(score.masked_fill(torch.arange(length) < offset, float("-inf")))
        shifted.append(F.pad(value, (0, 0, offset, 0))[..., :length, :])
    weights = torch.stack(columns, dim=-1).softmax(dim=-1)
    return (weights.unsqueeze(-2) * torch.stack(shifted, dim=-1)).sum(dim=-1)


@right
def window_attention(query, key, value, width):
    length, contexts = query.shape[-2], []
    for start in range(0, length, width):
        stop = min(start + width, length)
        first = max(0, start - width + 1)
        q, k, v = query[..., start:stop, :], key[..., first:stop, :], value[..., first:stop, :]
        distance = torch.arange(start, stop)[:, None] - torch.arange(first, stop)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        scores = scores.masked_fill((distance < 0) | (distance >= width), float("-inf"))
        contexts.append(scores.softmax(dim=-1) @ v)
    return torch.cat(contexts, dim=-2)


@wrong("quadratic")
def window_attention(query, key, value, width):
    position = torch.arange(query.shape[-2])
    distance = position[:, None] - position
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    scores = scores.masked_fill((distance < 0) | (distance >= width), float("-inf"))
    return scores.softmax(dim=-1) @ value


@wrong("quadratic")
def window_attention(query, key, value, width):
    contexts = []
    for i in range(query.shape[-2]):
        scores = (query[..., i : i + 1, :] * key).sum(dim=-1) / math.sqrt(query.shape[-1])
        distance = i - torch.arange(key.shape[-2])
        scores = scores.masked_fill((distance < 0) | (distance >= width), float("-inf"))
        contexts.append((scores.softmax(dim=-1).unsqueeze(-1) * value).sum(dim=-2))
    return torch.stack(contexts, dim=-2)


@wrong("window-one-more")
def window_attention(query, key, value, width):
    contexts = []
    for i in range(query.shape[-2]):
        near = slice(max(0, i - width), i + 1)
        scores = query[..., i : i + 1, :] @ key[..., near, :].mT / query.shape[-1] ** 0.5
        contexts.append(scores.softmax(dim=-1) @ value[..., near, :])
    return torch.cat(contexts, dim=-2)


@wrong("window-on-both-sides")
def window_attention(query, key, value, width):
    contexts = []
    for i in range(query.shape[-2]):
        near = slice(max(0, i - width + 1), i + width)
        scores = query[..., i : i + 1, :] @ key[..., near, :].mT / query.shape[-1] ** 0.5
        contexts.append(scores.softmax(dim=-1) @ value[..., near, :])
    return torch.cat(contexts, dim=-2)


@wrong("window-after-the-query")
def window_attention(query, key, value, width):
    contexts = []
    for i in range(query.shape[-2]):
        near = slice(i, i + width)
        scores = query[..., i : i + 1, :] @ key[..., near, :].mT / query.shape[-1] ** 0.5
        contexts.append(scores.softmax(dim=-1) @ value[..., near, :])
    return torch.cat(contexts, dim=-2)


@wrong("window-missing")
def window_attention(query, key, value, width):
    contexts = []
    for i in range(query.shape[-2]):
        scores = query[..., i : i + 1, :] @ key[..., : i + 1, :].mT / query.shape[-1] ** 0.5
        contexts.append(scores.softmax(dim=-1) @ value[..., : i + 1, :])
    return torch.cat(contexts, dim=-2)


@wrong("no-scale")
def window_attention(query, key, value, width):
    contexts = []
    for i in range(query.shape[-2]):
        near = slice(max(0, i - width + 1), i + 1)
        scores = query[..., i : i + 1, :] @ key[..., near, :].mT
        contexts.append(scores.softmax(dim=-1) @ value[..., near, :])
    return torch.cat(contexts, dim=-2)


@wrong("window-padding-attended")
def window_attention(query, key, value, width):
    keys = F.pad(key, (0, 0, width - 1, 0)).unfold(-2, width, 1)
    values = F.pad(value, (0, 0, width - 1, 0)).unfold(-2, width, 1)
    scores = torch.einsum("...qd,...qdw->...qw", query, keys) / math.sqrt(query.shape[-1])
    return torch.einsum("...qw,...qvw->...qv", scores.softmax(dim=-1), values)


@wrong("window-wraps")
def window_attention(query, key, value, width):
    scores = [(query * key.roll(i, dims=-2)).sum(dim=-1) for i in range(width)]
    weights = (torch.stack(scores, dim=-1) / math.sqrt(query.shape[-1])).softmax(dim=-1)
    values = torch.stack([value.roll(i, dims=-2) for i in range(width)], dim=-1)
    return (weights.unsqueeze(-2) * values).sum(dim=-1)


@wrong("first-key-repeated")
def window_attention(query, key, value, width):
    rows = (torch.arange(query.shape[-2])[:, None] - torch.arange(width)).clamp(min=0)
    scores = torch.einsum("...qd,...qwd->...qw", query, key[..., rows, :]) / math.sqrt(query.shape[-1])
    return torch.einsum("...qw,...qwv->...qv", scores.softmax(dim=-1), value[..., rows, :])


@wrong("block-for-window")
def window_attention(query, key, value, width):
    contexts = []
    parts = zip(query.split(width, -2), key.split(width, -2), value.split(width, -2), strict=True)
    for q, k, v in parts:
        later = torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool).triu(1)
        scores = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(later, float("-inf"))
        contexts.append(scores.softmax(dim=-1) @ v)
    return torch.cat(contexts, dim=-2)


@wrong("only-full-windows")
def window_attention(query, key, value, width):
    context = torch.zeros(*query.shape[:-1], value.shape[-1], dtype=query.dtype)
    for i in range(width - 1, query.shape[-2]):
        near = slice(i - width + 1, i + 1)
        scores = query[..., i : i + 1, :] @ key[..., near, :].mT / query.shape[-1] ** 0.5
        context[..., i : i + 1, :] = scores.softmax(dim=-1) @ value[..., near, :]
    return context + 0 * query.sum()


@right
def streaming_attention(chunks):
    largest = total = context = None
    for scores, value in chunks:
        top = scores.amax(dim=-1, keepdim=True)
        if largest is None:
            largest = torch.full_like(top, float("-inf"))
            total = torch.zeros_like(top)
            context = torch.zeros_like(scores @ value)
        new = torch.maximum(largest, top)
        shift = torch.where(new == float("-inf"), torch.zeros_like(new), new)
        weights = torch.exp(scores - shift)
        factor = torch.exp(largest - shift)
        total = total * factor + weights.sum(dim=-1, keepdim=True)
        context = context * factor + weights @ value
        largest = new
    return context / torch.where(total == 0, torch.ones_like(total), total)


@right
def streaming_attention(chunks):
    # Joins two averages at a time, by the logarithms of their sums of weights.
    context, log_total = 0, None
    for scores, value in chunks:
        empty = (scores == -torch.inf).all(dim=-1, keepdim=True)
        new = torch.logsumexp(scores, dim=-1, keepdim=True)
        mean = torch.softmax(scores.masked_fill(empty, 0), dim=-1) @ value
        mean = mean.masked_fill(empty, 0)
        if log_total is None:
            log_total, context = new, mean
            continue
        never = (new == -torch.inf) & (log_total == -torch.inf)
        share = torch.sigmoid((new - log_total).masked_fill(never, 0))
        context = context * (1 - share) + mean * share
        log_total = torch.logaddexp(log_total, new)
    return context


@right
def streaming_attention(chunks):
    state = None
    for scores, value in chunks:
        top = scores.amax(-1).clamp(min=torch.finfo(scores.dtype).min)
        weights = (scores - top[..., None]).exp()
        new = top, weights.sum(-1), torch.einsum("...qk,...kv->...qv", weights, value)
        if state is None:
            state = new
            continue
        m = torch.max(state[0], new[0])
        a, b = (state[0] - m).exp(), (new[0] - m).exp()
        state = m, a * state[1] + b * new[1], a[..., None] * state[2] + b[..., None] * new[2]
    _, total, context = state
    return (context / total[..., None]).nan_to_num(0.0)


@right
def streaming_attention(chunks):
    largest, total, context = float("-inf"), 0.0, 0.0
    for scores, value in chunks:
        for j in range(scores.shape[-1]):
            score = scores[..., j : j + 1]
            new = torch.clamp(score, min=largest)
            shift = new.masked_fill(new == float("-inf"), 0)
            shrink, weight = torch.exp(largest - shift), torch.exp(score - shift)
            total = total * shrink + weight
            context = context * shrink + weight * value[..., j : j + 1, :]
            largest = new
    return context / total.masked_fill(total == 0, 1)


@wrong("exp-overflow")
def streaming_attention(chunks):
    total, context = 0, 0
    for scores, value in chunks:
        weights = torch.exp(scores)
        total = total + weights.sum(dim=-1, keepdim=True)
        context = context + weights @ value
    return context / torch.where(total == 0, torch.ones_like(total), total)


@wrong("maximum-of-the-first-chunk")
def streaming_attention(chunks):
    largest, total, context = None, 0, 0
    for scores, value in chunks:
        if largest is None:
            largest = scores.amax(dim=-1, keepdim=True)
            largest = torch.where(largest == float("-inf"), torch.zeros_like(largest), largest)
        weights = torch.exp(scores - largest)
        total = total + weights.sum(dim=-1, keepdim=True)
        context = context + weights @ value
    return context / torch.where(total == 0, torch.ones_like(total), total)


@wrong("no-rescaling")
def streaming_attention(chunks):
    largest, total, context = None, 0, 0
    for scores, value in chunks:
        top = scores.amax(dim=-1, keepdim=True)
        largest = top if largest is None else torch.maximum(largest, top)
        shift = torch.where(largest == float("-inf"), torch.zeros_like(largest), largest)
        weights = torch.exp(scores - shift)
        total = total + weights.sum(dim=-1, keepdim=True)
        context = context + weights @ value
    return context / torch.where(total == 0, torch.ones_like(total), total)


@wrong("only-total-rescaled")
def streaming_attention(chunks):
    largest, total, context = None, 0, 0
    for scores, value in chunks:
        top = scores.amax(dim=-1, keepdim=True)
        if largest is None:
            largest = torch.full_like(top, float("-inf"))
        new = torch.maximum(largest, top)
        shift = torch.where(new == float("-inf"), torch.zeros_like(new), new)
        weights = torch.exp(scores - shift)
        total = total * torch.exp(largest - shift) + weights.sum(dim=-1, keepdim=True)
        context = context + weights @ value
        largest = new
    return context / torch.where(total == 0, torch.ones_like(total), total)


@wrong("rescaled-the-wrong-way")
def streaming_attention(chunks):
    largest, total, context = None, None, None
    for scores, value in chunks:
        top = scores.amax(dim=-1, keepdim=True)
        if largest is None:
            shift = torch.where(top == float("-inf"), torch.zeros_like(top), top)
            weights = torch.exp(scores - shift)
            largest, total, context = top, weights.sum(dim=-1, keepdim=True), weights @ value
            continue
        new = torch.maximum(largest, top)
        shift = torch.where(new == float("-inf"), torch.zeros_like(new), new)
        weights = torch.exp(scores - shift)
        factor = torch.exp(shift - largest)
        total = total * factor + weights.sum(dim=-1, keepdim=True)
        context = context * factor + weights @ value
        largest = new
    return context / torch.where(total == 0, torch.ones_like(total), total)


@wrong("maximum-starts-at-zero")
def streaming_attention(chunks):
    largest, total, context = 0, 0, 0
    for scores, value in chunks:
        new = scores.amax(dim=-1, keepdim=True).clamp(min=0)
        new = torch.maximum(new, torch.as_tensor(largest, dtype=new.dtype))
        weights, factor = torch.exp(scores - new), torch.exp(largest - new)
        total = total * factor + weights.sum(dim=-1, keepdim=True)
        context = context * factor + weights @ value
        largest = new
    return context / torch.where(total == 0, torch.ones_like(total), total)


@wrong("maximum-starts-finite")
def streaming_attention(chunks):
    largest, total, context = torch.tensor(-1e9), 0, 0
    for scores, value in chunks:
        new = torch.maximum(largest.to(scores.dtype), scores.amax(dim=-1, keepdim=True))
        weights, factor = torch.exp(scores - new), torch.exp(largest - new)
        total = total * factor + weights.sum(dim=-1, keepdim=True)
        context = context * factor + weights @ value
        largest = new
    return context / torch.where(total == 0, torch.ones_like(total), total)


@wrong("empty-chunk-nan")
def streaming_attention(chunks):
    largest, total, context = None, 0, 0
    for scores, value in chunks:
        top = scores.amax(dim=-1, keepdim=True)
        if largest is None:
            largest = torch.full_like(top, float("-inf"))
        new = torch.maximum(largest, top)
        weights, factor = torch.exp(scores - new), torch.exp(largest - new)
        total = total * factor + weights.sum(dim=-1, keepdim=True)
        context = context * factor + weights @ value
        largest = new
    return context / torch.where(total == 0, torch.ones_like(total), total)


@wrong("empty-row-nan")
def streaming_attention(chunks):
    largest, total, context = None, 0, 0
    for scores, value in chunks:
        top = scores.amax(dim=-1, keepdim=True)
        if largest is None:
            largest = torch.full_like(top, float("-inf"))
        new = torch.maximum(largest, top)
        shift = torch.where(new == float("-inf"), torch.zeros_like(new), new)
        weights, factor = torch.exp(scores - shift), torch.exp(largest - shift)
        total = total * factor + weights.sum(dim=-1, keepdim=True)
        context = context * factor + weights @ value
        largest = new
    return context / total


@wrong("mean-of-chunks")
def streaming_attention(chunks):
    total, count = 0, 0
    for scores, value in chunks:
        total = total + torch.nan_to_num(scores.softmax(dim=-1)) @ value
        count += 1
    return total / count


@wrong("sum-of-chunks")
def streaming_attention(chunks):
    return sum(torch.nan_to_num(scores.softmax(dim=-1)) @ value for scores, value in chunks)


@wrong("last-chunk-only")
def streaming_attention(chunks):
    for scores, value in chunks:
        context = torch.nan_to_num(scores.softmax(dim=-1)) @ value
    return context


@wrong("chunks-kept")
def streaming_attention(chunks):
    scores, values = zip(*chunks, strict=True)
    weights = torch.nan_to_num(torch.cat(scores, dim=-1).softmax(dim=-1))
    return weights @ torch.cat(values, dim=-2)


@wrong("chunks-kept")
def streaming_attention(chunks):
    chunks = list(chunks)
    largest = torch.stack([scores.amax(dim=-1, keepdim=True) for scores, _ in chunks]).amax(dim=0)
    largest = torch.where(largest == float("-inf"), torch.zeros_like(largest), largest)
    total = sum(torch.exp(scores - largest).sum(dim=-1, keepdim=True) for scores, _ in chunks)
    context = sum(torch.exp(scores - largest) @ value for scores, value in chunks)
    return context / torch.where(total == 0, torch.ones_like(total), total)


@wrong("no-normaliser")
def streaming_attention(chunks):
    largest, context = None, 0
    for scores, value in chunks:
        top = scores.amax(dim=-1, keepdim=True)
        if largest is None:
            largest = torch.full_like(top, float("-inf"))
        new = torch.maximum(largest, top)
        shift = torch.where(new == float("-inf"), torch.zeros_like(new), new)
        context = context * torch.exp(largest - shift) + torch.exp(scores - shift) @ value
        largest = new
    return context


@right
def convolution_as_attention(inputs, weight):
    heads, length = weight.shape[-1], inputs.shape[-2]
    position = torch.arange(length)
    weights = torch.stack(
        [(position - position[:, None] == h - (heads - 1) // 2).to(inputs.dtype) for h in range(heads)]
    )
    value = torch.einsum("...kc,och->...hko", inputs, weight)
    return (weights @ value).sum(dim=-3), weights


@right
def convolution_as_attention(inputs, weight):
    length, heads = inputs.shape[-2], weight.shape[-1]
    weights = inputs.new_zeros(heads, length, length)
    for h in range(heads):
        for q in range(length):
            k = q + h - heads // 2
            if 0 <= k < length:
                weights[h, q, k] = 1
    return sum(weights[h] @ inputs @ weight[:, :, h].T for h in range(heads)), weights


@right
def convolution_as_attention(inputs, weight):
    length, heads = inputs.shape[-2], weight.shape[-1]
    eye = torch.eye(length, dtype=inputs.dtype)
    middle = heads // 2
    padded = F.pad(eye, (middle, middle))
    weights = torch.stack([padded[:, heads - 1 - h : heads - 1 - h + length] for h in range(heads)])
    context = torch.einsum("hqk,...kc,och->...qo", weights, inputs, weight)
    return context, weights


@right
def convolution_as_attention(inputs, weight):
    length, heads = inputs.shape[-2], weight.shape[-1]
    relative = torch.arange(length).view(1, 1, -1) - torch.arange(length).view(1, -1, 1)
    offset = torch.arange(heads).view(-1, 1, 1) - heads // 2
    scores = torch.zeros(heads, length, length, dtype=inputs.dtype).masked_fill(
        relative != offset, -torch.inf
    )
    weights = torch.softmax(scores, dim=-1).nan_to_num(0.0)
    parts = [F.linear(weights[h] @ inputs, weight[..., h]) for h in range(heads)]
    return torch.stack(parts).sum(dim=0), weights


@wrong("kernel-flipped")
def convolution_as_attention(inputs, weight):
    heads, length = weight.shape[-1], inputs.shape[-2]
    position = torch.arange(length)
    weights = torch.stack(
        [(position[:, None] - position == h - heads // 2).to(inputs.dtype) for h in range(heads)]
    )
    value = torch.einsum("...kc,och->...hko", inputs, weight)
    return (weights @ value).sum(dim=-3), weights


@wrong("offsets-from-zero")
def convolution_as_attention(inputs, weight):
    heads, length = weight.shape[-1], inputs.shape[-2]
    position = torch.arange(length)
    weights = torch.stack([(position - position[:, None] == h).to(inputs.dtype) for h in range(heads)])
    value = torch.einsum("...kc,och->...hko", inputs, weight)
    return (weights @ value).sum(dim=-3), weights


@wrong("offsets-up-to-zero")
def convolution_as_attention(inputs, weight):
    heads, length = weight.shape[-1], inputs.shape[-2]
    position = torch.arange(length)
    weights = torch.stack(
        [(position - position[:, None] == h - heads + 1).to(inputs.dtype) for h in range(heads)]
    )
    value = torch.einsum("...kc,och->...hko", inputs, weight)
    return (weights @ value).sum(dim=-3), weights


@wrong("edges-repeated")
def convolution_as_attention(inputs, weight):
    heads, length = weight.shape[-1], inputs.shape[-2]
    weights = []
    for h in range(heads):
        key = (torch.arange(length) + h - heads // 2).clamp(0, length - 1)
        weights.append(F.one_hot(key, length).to(inputs.dtype))
    weights = torch.stack(weights)
    value = torch.einsum("...kc,och->...hko", inputs, weight)
    return (weights @ value).sum(dim=-3), weights


@wrong("edges-wrapped")
def convolution_as_attention(inputs, weight):
    heads, length = weight.shape[-1], inputs.shape[-2]
    eye = torch.eye(length, dtype=inputs.dtype)
    weights = torch.stack([eye.roll(h - heads // 2, dims=1) for h in range(heads)])
    value = torch.einsum("...kc,och->...hko", inputs, weight)
    return (weights @ value).sum(dim=-3), weights


@wrong("empty-row-nan")
def convolution_as_attention(inputs, weight):
    heads, length = weight.shape[-1], inputs.shape[-2]
    position = torch.arange(length)
    offset = (torch.arange(heads) - heads // 2)[:, None, None]
    scores = torch.zeros(heads, length, length, dtype=inputs.dtype)
    scores = scores.masked_fill(position - position[:, None] != offset, float("-inf"))
    weights = scores.softmax(dim=-1)
    value = torch.einsum("...kc,och->...hko", inputs, weight)
    return (weights @ value).sum(dim=-3), weights


@wrong("empty-row-uniform")
def convolution_as_attention(inputs, weight):
    heads, length = weight.shape[-1], inputs.shape[-2]
    position = torch.arange(length)
    offset = (torch.arange(heads) - heads // 2)[:, None, None]
    scores = torch.zeros(heads, length, length, dtype=inputs.dtype)
    scores = scores.masked_fill(position - position[:, None] != offset, -1e9)
    weights = scores.softmax(dim=-1)
    value = torch.einsum("...kc,och->...hko", inputs, weight)
    return (weights @ value).sum(dim=-3), weights


@wrong("kernel-heads-averaged")
def convolution_as_attention(inputs, weight):
    heads, length = weight.shape[-1], inputs.shape[-2]
    position = torch.arange(length)
    offset = (torch.arange(heads) - heads // 2)[:, None, None]
    weights = (position - position[:, None] == offset).to(inputs.dtype)
    value = torch.einsum("...kc,och->...hko", inputs, weight)
    return (weights @ value).mean(dim=-3), weights


@wrong("weights-transposed")
def convolution_as_attention(inputs, weight):
    heads, length = weight.shape[-1], inputs.shape[-2]
    position = torch.arange(length)
    offset = (torch.arange(heads) - heads // 2)[:, None, None]
    weights = (position[:, None] - position == offset).to(inputs.dtype)
    value = torch.einsum("...kc,och->...hko", inputs, weight)
    return torch.einsum("hkq,...hko->...qo", weights, value), weights


@wrong("kernel-axes-swapped")
def convolution_as_attention(inputs, weight):
    heads, length = weight.shape[-1], inputs.shape[-2]
    position = torch.arange(length)
    offset = (torch.arange(heads) - heads // 2)[:, None, None]
    weights = (position - position[:, None] == offset).to(inputs.dtype)
    context = sum(weights[h] @ inputs @ weight[:, :, h] for h in range(heads))
    return context, weights


@right
def strided_mask(queries, stride, past=0):
    distance = torch.arange(past, past + queries)[:, None] - torch.arange(past + queries)
    return (distance >= 0) & ((distance < stride) | (distance % stride == 0))


@right
def strided_mask(queries, stride, past=0):
    mask = torch.zeros(queries, past + queries, dtype=torch.bool)
    for q in range(queries):
        i = past + q
        mask[q, max(0, i - stride + 1) : i + 1] = True
        mask[q, i % stride : i + 1 : stride] = True
    return mask


@right
def strided_mask(queries, stride, past=0):
    keys = past + queries
    near = torch.ones(keys, keys, dtype=torch.bool).tril().triu(1 - stride)
    same = torch.arange(keys) % stride
    far = (same[:, None] == same).tril()
    return torch.logical_or(near, far)[past:]


@right
def strided_mask(queries, stride, past=0):
    return torch.tensor(
        [
            [j <= i and (i - j < stride or (i - j) % stride == 0) for j in range(past + queries)]
            for i in range(past, past + queries)
        ]
    )


@wrong("stride-left-out")
def strided_mask(queries, stride, past=0):
    distance = torch.arange(past, past + queries)[:, None] - torch.arange(past + queries)
    return (distance >= 0) & (distance < stride)


@wrong("local-part-left-out")
def strided_mask(queries, stride, past=0):
    distance = torch.arange(past, past + queries)[:, None] - torch.arange(past + queries)
    return (distance >= 0) & (distance % stride == 0)


@wrong("and-for-or")
def strided_mask(queries, stride, past=0):
    distance = torch.arange(past, past + queries)[:, None] - torch.arange(past + queries)
    return (distance >= 0) & (distance < stride) & (distance % stride == 0)


@wrong("stride-from-the-start")
def strided_mask(queries, stride, past=0):
    key = torch.arange(past + queries)
    distance = torch.arange(past, past + queries)[:, None] - key
    return (distance >= 0) & ((distance < stride) | (key % stride == 0))


@wrong("fixed-pattern")
def strided_mask(queries, stride, past=0):
    key = torch.arange(past + queries)
    query = torch.arange(past, past + queries)[:, None]
    return ((key // stride == query // stride) | (key % stride == stride - 1)) & (key <= query)


@wrong("strides-on-both-sides")
def strided_mask(queries, stride, past=0):
    distance = torch.arange(past, past + queries)[:, None] - torch.arange(past + queries)
    return (distance >= 0) & (distance < stride) | (distance % stride == 0)


@wrong("window-one-less")
def strided_mask(queries, stride, past=0):
    distance = torch.arange(past, past + queries)[:, None] - torch.arange(past + queries)
    return (distance >= 0) & ((distance < stride - 1) | (distance % stride == 0))


@wrong("mask-inverted")
def strided_mask(queries, stride, past=0):
    distance = torch.arange(past, past + queries)[:, None] - torch.arange(past + queries)
    return (distance < 0) | ((distance >= stride) & (distance % stride != 0))


@wrong("past-ignored")
def strided_mask(queries, stride, past=0):
    distance = torch.arange(queries)[:, None] - torch.arange(past + queries)
    return (distance >= 0) & ((distance < stride) | (distance % stride == 0))


@wrong("window-after-the-query")
def strided_mask(queries, stride, past=0):
    distance = torch.arange(past + queries) - torch.arange(past, past + queries)[:, None]
    return (distance >= 0) & ((distance < stride) | (distance % stride == 0))


@right
def assert_window(layer, width, d_model):
    length = 3 * width
    x = torch.randn(length, d_model, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    before = layer(x)
    for token in range(length):
        changed = x.clone()
        changed[token] += 1
        moved = ((layer(changed) - before).abs() > 1e-9).any(dim=-1)
        for position in range(length):
            should = position - width < token <= position
            assert moved[position] == should, f"position {position}, token {token}"


@right
def assert_window(layer, width, d_model):
    length = 2 * width + 5
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(length, d_model, generator=generator, requires_grad=True)
    output = layer(x)
    mix = torch.randn(d_model, generator=generator)
    for i in range(length):
        (gradient,) = torch.autograd.grad((output[i] * mix).sum(), x, retain_graph=True)
        seen = gradient.abs().sum(dim=-1) > 1e-5
        expected = torch.zeros(length, dtype=torch.bool)
        expected[max(0, i - width + 1) : i + 1] = True
        assert torch.equal(seen, expected)


@right
def assert_window(layer, width, d_model):
    length = 20
    x = torch.linspace(-1, 1, length * d_model).view(length, d_model)
    jacobian = torch.autograd.functional.jacobian(layer, x)
    depends = jacobian.abs().amax(dim=(1, 3)) > 1e-4
    position = torch.arange(length)
    distance = position[:, None] - position
    if not torch.equal(depends, (distance >= 0) & (distance < width)):
        raise AssertionError("this layer sees other keys than those of its window")


@right
def assert_window(layer, width, d_model):
    torch.manual_seed(0)
    x = torch.randn(40, d_model, dtype=torch.double)
    y = layer(x)
    for token in range(40):
        other = x.clone()
        other[token] = torch.randn(d_model, dtype=torch.double)
        z = layer(other)
        first, stop = token, min(40, token + width)
        assert torch.allclose(z[:first], y[:first]), "the future is seen"
        assert torch.allclose(z[stop:], y[stop:]), "the window is too wide"
        assert ((z - y)[first:stop].abs().amax(dim=-1) > 1e-6).all(), "a key is not seen"


@wrong("reach-test-never-fails")
def assert_window(layer, width, d_model):
    x = torch.randn(10, d_model)
    assert layer(x).shape == x.shape


@wrong("reach-test-never-fails")
def assert_window(layer, width, d_model):
    x = torch.randn(10, d_model, dtype=torch.float64)
    changed = x.clone()
    changed[-1] += 1
    return torch.allclose(layer(x)[:-1], layer(changed)[:-1])


@wrong("test-of-causality-only")
def assert_window(layer, width, d_model):
    x = torch.linspace(-1, 1, 20 * d_model, dtype=torch.float64).view(20, d_model)
    for token in range(20):
        changed = x.clone()
        changed[token:] += 1
        assert torch.allclose(layer(changed)[:token], layer(x)[:token])


@wrong("test-without-reach")
def assert_window(layer, width, d_model):
    length = 4 * width
    x = torch.linspace(-1, 1, length * d_model, dtype=torch.float64).view(length, d_model)
    for token in range(length):
        changed = x.clone()
        changed[token] += 1
        before, after = layer(x), layer(changed)
        assert torch.allclose(before[:token], after[:token])
        assert torch.allclose(before[token + width :], after[token + width :])


@wrong("test-without-limits")
def assert_window(layer, width, d_model):
    x = torch.linspace(-1, 1, 30 * d_model, dtype=torch.float64).view(30, d_model)
    for token in range(30):
        changed = x.clone()
        changed[token] += 1
        change = (layer(changed) - layer(x)).abs().sum(dim=-1)
        assert (change[token : token + width] > 1e-9).all()


@wrong("test-without-left-limit")
def assert_window(layer, width, d_model):
    x = torch.linspace(-1, 1, 30 * d_model, dtype=torch.float64).view(30, d_model)
    for token in range(30):
        changed = x.clone()
        changed[token] += 1
        change = (layer(changed) - layer(x)).abs().sum(dim=-1)
        assert (change[token : token + width] > 1e-9).all()
        assert (change[:token] < 1e-9).all()


@wrong("test-without-causality")
def assert_window(layer, width, d_model):
    x = torch.linspace(-1, 1, 30 * d_model, dtype=torch.float64).view(30, d_model)
    for token in range(30):
        changed = x.clone()
        changed[token] += 1
        change = (layer(changed) - layer(x)).abs().sum(dim=-1)
        assert (change[token : token + width] > 1e-9).all()
        assert (change[token + width :] < 1e-9).all()


@wrong("test-of-the-last-query-only")
def assert_window(layer, width, d_model):
    length = 3 * width + 1
    x = torch.linspace(-1, 1, length * d_model, dtype=torch.float64).view(length, d_model)
    x.requires_grad_()
    (gradient,) = torch.autograd.grad(layer(x)[-1].sum(), x)
    seen = gradient.abs().sum(dim=-1) > 1e-9
    assert seen[-width:].all() and not seen[:-width].any()


@wrong("test-of-one-token-only")
def assert_window(layer, width, d_model):
    length = 4 * width + 1
    token = 2 * width
    x = torch.linspace(-1, 1, length * d_model, dtype=torch.float64).view(length, d_model)
    changed = x.clone()
    changed[token] += 1
    moved = (layer(changed) - layer(x)).abs().sum(dim=-1) > 1e-9
    assert moved[token : token + width].all()
    assert not moved[:token].any() and not moved[token + width :].any()


@wrong("reach-test-too-strict")
def assert_window(layer, width, d_model):
    torch.manual_seed(0)
    length = 4 * width
    x = torch.randn(length, d_model)
    for token in range(length):
        changed = x.clone()
        changed[token] += 1
        moved = (layer(changed) != layer(x)).any(dim=-1)
        assert moved[token : token + width].all()
        assert not moved[:token].any() and not moved[token + width :].any()


@wrong("test-too-wide")
def assert_window(layer, width, d_model):
    length = 4 * width
    x = torch.linspace(-1, 1, length * d_model).sin().view(length, d_model)
    for token in range(length):
        changed = x.clone()
        changed[token] += 1
        change = (layer(changed) - layer(x)).abs().amax(dim=-1)
        assert (change[token : token + width] > 0.1).all()
        assert (change[:token] < 0.1).all() and (change[token + width :] < 0.1).all()


@wrong("window-one-more")
def assert_window(layer, width, d_model):
    x = torch.linspace(-1, 1, 30 * d_model, dtype=torch.float64).view(30, d_model)
    for token in range(30):
        changed = x.clone()
        changed[token] += 1
        moved = (layer(changed) - layer(x)).abs().sum(dim=-1) > 1e-9
        assert moved[token : token + width + 1].all()
        assert not moved[:token].any() and not moved[token + width + 1 :].any()


@wrong("test-always-fails")
def assert_window(layer, width, d_model):
    x = torch.linspace(-1, 1, 30 * d_model, dtype=torch.float64).view(30, d_model)
    for token in range(30):
        changed = x.clone()
        changed[token] += 1
        moved = (layer(changed) - layer(x)).abs().sum(dim=-1) > 1e-9
        assert moved[token - width : token + 1].all()
        assert not moved[:token].any() and not moved[token:].any()


@wrong("test-of-the-first-feature-only")
def assert_window(layer, width, d_model):
    x = torch.linspace(-1, 1, 30 * d_model, dtype=torch.float64).view(30, d_model)
    for token in range(30):
        changed = x.clone()
        changed[token] += 1
        moved = (layer(changed) - layer(x)).abs()[:, 0] > 1e-9
        assert moved[token : token + width].all()
        assert not moved[:token].any() and not moved[token + width :].any()
