"""Answers to the set `taxonomy`."""

import math

import torch
from torch.nn import functional as F

from tests.answers import Answers

answers = Answers()
right, wrong = answers.right, answers.wrong


@right
def hard_attention(weights, value, generator):
    rows = weights.reshape(-1, weights.shape[-1])
    index = torch.multinomial(rows, 1, generator=generator)
    choices = torch.zeros_like(rows).scatter(1, index, 1.0).reshape(weights.shape)
    return choices @ value, choices


@right
def hard_attention(weights, value, generator):
    # A uniform number, and the first key at which the sum of the weights exceeds it.
    number = torch.rand(*weights.shape[:-1], 1, generator=generator, dtype=torch.float64)
    steps = weights.detach().double().cumsum(dim=-1)
    index = (steps / steps[..., -1:] <= number).sum(dim=-1, keepdim=True)
    choices = F.one_hot(index.squeeze(-1), weights.shape[-1]).to(weights)
    context = torch.take_along_dim(value, index, dim=-2)
    return context, choices


@right
def hard_attention(weights, value, generator):
    # Gumbel noise on the logarithms.
    uniform = torch.rand(weights.shape, generator=generator, dtype=torch.float64)
    noisy = weights.detach().double().log() - torch.log(-torch.log(uniform))
    choices = F.one_hot(noisy.argmax(dim=-1), num_classes=weights.size(-1)).type_as(weights)
    return [torch.einsum("...qk,...kv->...qv", choices, value), choices]


@right
def hard_attention(weights, value, generator):
    w = weights.flatten(0, -2) if weights.ndim > 2 else weights
    v = value.expand(*weights.shape[:-2], *value.shape[-2:]).reshape(-1, *value.shape[-2:])
    choices = torch.zeros_like(w)
    contexts = []
    for i, row in enumerate(w):
        j = torch.multinomial(row, 1, generator=generator).item()
        choices[i, j] = 1
        contexts.append(v[i // weights.shape[-2], j])
    context = torch.stack(contexts).view(*weights.shape[:-1], -1)
    return context, choices.view(weights.shape)


@wrong("argmax-for-draw")
def hard_attention(weights, value, generator):
    best = weights.argmax(dim=-1)
    choices = F.one_hot(best, weights.shape[-1]).to(weights.dtype)
    return choices @ value, choices


@wrong("uniform-draw")
def hard_attention(weights, value, generator):
    index = torch.randint(weights.shape[-1], weights.shape[:-1], generator=generator)
    choices = F.one_hot(index, weights.shape[-1]).to(weights.dtype)
    return choices @ value, choices


@wrong("softmax-before-draw")
def hard_attention(weights, value, generator):
    probabilities = F.softmax(weights, dim=-1).reshape(-1, weights.shape[-1])
    index = torch.multinomial(probabilities, 1, generator=generator).view(weights.shape[:-1])
    choices = F.one_hot(index, weights.shape[-1]).to(weights.dtype)
    return choices @ value, choices


@wrong("softmax-before-draw")
def hard_attention(weights, value, generator):
    uniform = torch.rand(weights.shape, generator=generator)
    noisy = weights.detach() - torch.log(-torch.log(uniform))
    choices = F.one_hot(noisy.argmax(dim=-1), weights.shape[-1]).to(weights.dtype)
    return choices @ value, choices


@wrong("uniform-noise-on-weights")
def hard_attention(weights, value, generator):
    noise = torch.rand(weights.shape, generator=generator)
    choices = F.one_hot((weights + noise).argmax(dim=-1), weights.shape[-1]).to(weights.dtype)
    return choices @ value, choices


@wrong("one-draw-for-all")
def hard_attention(weights, value, generator):
    mean = weights.detach().flatten(0, -2).mean(dim=0)
    j = torch.multinomial(mean, 1, generator=generator)
    choices = torch.zeros_like(weights)
    choices[..., j] = 1
    return choices @ value, choices


@wrong("context-stays-soft")
def hard_attention(weights, value, generator):
    rows = weights.detach().reshape(-1, weights.shape[-1])
    index = torch.multinomial(rows, 1, generator=generator).view(weights.shape[:-1])
    choices = F.one_hot(index, weights.shape[-1]).to(weights.dtype)
    return weights @ value, choices


@wrong("choices-stay-soft")
def hard_attention(weights, value, generator):
    rows = weights.detach().reshape(-1, weights.shape[-1])
    index = torch.multinomial(rows, 1, generator=generator).view(weights.shape[:-1])
    return torch.take_along_dim(value, index.unsqueeze(-1), dim=-2), weights


@wrong("choices-keep-weight")
def hard_attention(weights, value, generator):
    rows = weights.detach().reshape(-1, weights.shape[-1])
    index = torch.multinomial(rows, 1, generator=generator).view(weights.shape[:-1])
    choices = torch.zeros_like(weights)
    index = index.unsqueeze(-1)
    choices = choices.scatter(-1, index, weights.gather(-1, index))
    return choices @ value, choices


@wrong("choices-as-index")
def hard_attention(weights, value, generator):
    rows = weights.detach().reshape(-1, weights.shape[-1])
    index = torch.multinomial(rows, 1, generator=generator).view(weights.shape[:-1])
    return torch.take_along_dim(value, index.unsqueeze(-1), dim=-2), index


@wrong("choices-as-integers")
def hard_attention(weights, value, generator):
    rows = weights.detach().reshape(-1, weights.shape[-1])
    index = torch.multinomial(rows, 1, generator=generator).view(weights.shape[:-1])
    choices = F.one_hot(index, weights.shape[-1])
    return choices.to(value.dtype) @ value, choices


@wrong("generator-ignored")
def hard_attention(weights, value, generator):
    index = torch.distributions.Categorical(probs=weights.detach()).sample()
    choices = F.one_hot(index, weights.shape[-1]).to(weights.dtype)
    return choices @ value, choices


@wrong("seeds-anew")
def hard_attention(weights, value, generator):
    generator = torch.Generator().manual_seed(42)
    rows = weights.detach().reshape(-1, weights.shape[-1])
    index = torch.multinomial(rows, 1, generator=generator).view(weights.shape[:-1])
    choices = F.one_hot(index, weights.shape[-1]).to(weights.dtype)
    return choices @ value, choices


@wrong("straight-through")
def hard_attention(weights, value, generator):
    rows = weights.detach().reshape(-1, weights.shape[-1])
    index = torch.multinomial(rows, 1, generator=generator).view(weights.shape[:-1])
    hard = F.one_hot(index, weights.shape[-1]).to(weights.dtype)
    choices = hard - weights.detach() + weights
    return choices @ value, choices


@wrong("results-in-wrong-order")
def hard_attention(weights, value, generator):
    rows = weights.detach().reshape(-1, weights.shape[-1])
    index = torch.multinomial(rows, 1, generator=generator).view(weights.shape[:-1])
    choices = F.one_hot(index, weights.shape[-1]).to(weights.dtype)
    return choices, choices @ value


@right
def score_function_loss(losses, log_probability):
    baseline = (losses.sum(dim=0) - losses) / (len(losses) - 1)
    return (losses + (losses - baseline).detach() * log_probability).mean()


@right
def score_function_loss(losses, log_probability):
    with torch.no_grad():
        samples = losses.shape[0]
        advantage = (losses - losses.mean(dim=0, keepdim=True)) * samples / (samples - 1)
    return losses.mean() + torch.mean(advantage * log_probability)


@right
def score_function_loss(losses, log_probability):
    total = 0
    samples, batch = losses.shape
    for i in range(batch):
        for n in range(samples):
            others = [losses[m, i].detach() for m in range(samples) if m != n]
            baseline = torch.stack(others).mean()
            total = total + losses[n, i] + (losses[n, i].detach() - baseline) * log_probability[n, i]
    return total / (samples * batch)


@right
def score_function_loss(losses, log_probability):
    fixed = losses.data
    samples = len(fixed)
    others = (1 - torch.eye(samples, dtype=fixed.dtype)) / (samples - 1)
    surrogate = losses + torch.einsum("ni,ni->ni", fixed - others @ fixed, log_probability)
    return surrogate.sum() / surrogate.numel()


@wrong("baseline-includes-itself")
def score_function_loss(losses, log_probability):
    baseline = losses.mean(dim=0, keepdim=True)
    return (losses + (losses - baseline).detach() * log_probability).mean()


@wrong("no-baseline")
def score_function_loss(losses, log_probability):
    return torch.mean(losses + losses.detach() * log_probability)


@wrong("baseline-over-batch")
def score_function_loss(losses, log_probability):
    baseline = losses.mean(dim=-1, keepdim=True)
    return (losses + (losses - baseline).detach() * log_probability).mean()


@wrong("baseline-over-everything")
def score_function_loss(losses, log_probability):
    return (losses + (losses - losses.mean()).detach() * log_probability).mean()


@wrong("left-out-but-divided-by-all")
def score_function_loss(losses, log_probability):
    baseline = (losses.sum(dim=0, keepdim=True) - losses) / losses.shape[0]
    return (losses + (losses - baseline).detach() * log_probability).mean()


@wrong("advantage-not-detached")
def score_function_loss(losses, log_probability):
    baseline = (losses.sum(dim=0) - losses) / (len(losses) - 1)
    return (losses + (losses - baseline) * log_probability).mean()


@wrong("baseline-not-detached")
def score_function_loss(losses, log_probability):
    baseline = (losses.sum(dim=0) - losses) / (len(losses) - 1)
    return (losses + (losses.detach() - baseline) * log_probability).mean()


@wrong("only-baseline-detached")
def score_function_loss(losses, log_probability):
    fixed = losses.detach()
    baseline = (fixed.sum(dim=0) - fixed) / (len(losses) - 1)
    return (losses + (losses - baseline) * log_probability).mean()


@wrong("sign-of-rewards")
def score_function_loss(losses, log_probability):
    baseline = (losses.sum(dim=0) - losses) / (len(losses) - 1)
    return (losses - (losses - baseline).detach() * log_probability).mean()


@wrong("probability-for-logarithm")
def score_function_loss(losses, log_probability):
    baseline = (losses.sum(dim=0) - losses) / (len(losses) - 1)
    return (losses + (losses - baseline).detach() * log_probability.exp()).mean()


@wrong("loss-itself-left-out")
def score_function_loss(losses, log_probability):
    baseline = (losses.sum(dim=0) - losses) / (len(losses) - 1)
    return ((losses - baseline).detach() * log_probability).mean()


@wrong("advantage-standardised")
def score_function_loss(losses, log_probability):
    baseline = (losses.sum(dim=0) - losses) / (len(losses) - 1)
    advantage = (losses - baseline).detach()
    advantage = advantage / losses.detach().std(dim=0)
    return (losses + advantage * log_probability).mean()


@wrong("sum-for-mean")
def score_function_loss(losses, log_probability):
    baseline = (losses.sum(dim=0) - losses) / (len(losses) - 1)
    return (losses + (losses - baseline).detach() * log_probability).sum()


@wrong("not-averaged")
def score_function_loss(losses, log_probability):
    baseline = (losses.sum(dim=0) - losses) / (len(losses) - 1)
    return losses + (losses - baseline).detach() * log_probability


@wrong("averaged-over-draws-only")
def score_function_loss(losses, log_probability):
    baseline = (losses.sum(dim=0) - losses) / (len(losses) - 1)
    return (losses + (losses - baseline).detach() * log_probability).mean(dim=0)


@right
def luong_scores(query, key, kind, weight=None, vector=None):
    if kind == "dot":
        return query @ key.mT
    if kind == "general":
        return query @ weight @ key.mT
    queries, keys = query.shape[-2], key.shape[-2]
    joined = torch.cat(
        [
            query.unsqueeze(-2).expand(*query.shape[:-1], keys, query.shape[-1]),
            key.unsqueeze(-3).expand(*key.shape[:-2], queries, keys, key.shape[-1]),
        ],
        dim=-1,
    )
    return torch.tanh(joined @ weight.mT) @ vector


@right
def luong_scores(query, key, kind, weight=None, vector=None):
    if kind == "concat":
        d = query.shape[-1]
        asked = F.linear(query, weight[:, :d]).unsqueeze(-2)
        offered = F.linear(key, weight[:, d:]).unsqueeze(-3)
        return F.linear(torch.tanh(asked + offered), vector.unsqueeze(0)).squeeze(-1)
    offered = key if kind == "dot" else F.linear(key, weight)
    return torch.matmul(query, offered.transpose(-1, -2))


@right
def luong_scores(query, key, kind, weight=None, vector=None):
    if kind == "dot":
        return torch.einsum("...qd,...kd->...qk", query, key)
    if kind == "general":
        return torch.einsum("...qd,de,...ke->...qk", query, weight, key)
    on_query, on_key = weight.split([query.shape[-1], key.shape[-1]], dim=1)
    asked = torch.einsum("...qd,hd->...qh", query, on_query)
    offered = torch.einsum("...kd,hd->...kh", key, on_key)
    return torch.einsum("h,...qkh->...qk", vector, (asked[..., :, None, :] + offered[..., None, :, :]).tanh())


@right
def luong_scores(query, key, kind, weight=None, vector=None):
    columns = []
    for j in range(key.shape[-2]):
        k = key[..., j : j + 1, :]
        if kind == "dot":
            columns.append((query * k).sum(dim=-1))
        elif kind == "general":
            columns.append((query @ weight * k).sum(dim=-1))
        else:
            both = torch.cat([query, k.expand(*query.shape[:-1], k.shape[-1])], dim=-1)
            columns.append((torch.tanh(both @ weight.T) * vector).sum(dim=-1))
    return torch.stack(columns, dim=-1)


@wrong("scaled-dot")
def luong_scores(query, key, kind, weight=None, vector=None):
    if kind == "dot":
        return query @ key.mT / math.sqrt(query.shape[-1])
    if kind == "general":
        return query @ weight @ key.mT
    queries, keys = query.shape[-2], key.shape[-2]
    joined = torch.cat(
        [
            query.unsqueeze(-2).expand(*query.shape[:-1], keys, query.shape[-1]),
            key.unsqueeze(-3).expand(*key.shape[:-2], queries, keys, key.shape[-1]),
        ],
        dim=-1,
    )
    return torch.tanh(joined @ weight.mT) @ vector


@wrong("cosine")
def luong_scores(query, key, kind, weight=None, vector=None):
    if kind == "dot":
        return F.cosine_similarity(query.unsqueeze(-2), key.unsqueeze(-3), dim=-1)
    if kind == "general":
        return query @ weight @ key.mT
    queries, keys = query.shape[-2], key.shape[-2]
    joined = torch.cat(
        [
            query.unsqueeze(-2).expand(*query.shape[:-1], keys, query.shape[-1]),
            key.unsqueeze(-3).expand(*key.shape[:-2], queries, keys, key.shape[-1]),
        ],
        dim=-1,
    )
    return torch.tanh(joined @ weight.mT) @ vector


@wrong("general-weight-swapped")
def luong_scores(query, key, kind, weight=None, vector=None):
    if kind == "dot":
        return query @ key.mT
    if kind == "general":
        return F.linear(query, weight) @ key.mT
    queries, keys = query.shape[-2], key.shape[-2]
    joined = torch.cat(
        [
            query.unsqueeze(-2).expand(*query.shape[:-1], keys, query.shape[-1]),
            key.unsqueeze(-3).expand(*key.shape[:-2], queries, keys, key.shape[-1]),
        ],
        dim=-1,
    )
    return torch.tanh(joined @ weight.mT) @ vector


@wrong("general-with-tanh")
def luong_scores(query, key, kind, weight=None, vector=None):
    if kind == "dot":
        return query @ key.mT
    if kind == "general":
        return torch.tanh(query @ weight) @ key.mT
    queries, keys = query.shape[-2], key.shape[-2]
    joined = torch.cat(
        [
            query.unsqueeze(-2).expand(*query.shape[:-1], keys, query.shape[-1]),
            key.unsqueeze(-3).expand(*key.shape[:-2], queries, keys, key.shape[-1]),
        ],
        dim=-1,
    )
    return torch.tanh(joined @ weight.mT) @ vector


@wrong("concat-in-wrong-order")
def luong_scores(query, key, kind, weight=None, vector=None):
    if kind == "dot":
        return query @ key.mT
    if kind == "general":
        return query @ weight @ key.mT
    queries, keys = query.shape[-2], key.shape[-2]
    joined = torch.cat(
        [
            query.unsqueeze(-2).expand(*query.shape[:-1], keys, query.shape[-1]),
            key.unsqueeze(-3).expand(*key.shape[:-2], queries, keys, key.shape[-1]),
        ],
        dim=-1,
    )
    joined = joined.roll(key.shape[-1], dims=-1)
    return torch.tanh(joined @ weight.mT) @ vector


@wrong("concat-weight-swapped")
def luong_scores(query, key, kind, weight=None, vector=None):
    if kind == "dot":
        return query @ key.mT
    if kind == "general":
        return query @ weight @ key.mT
    queries, keys = query.shape[-2], key.shape[-2]
    joined = torch.cat(
        [
            query.unsqueeze(-2).expand(*query.shape[:-1], keys, query.shape[-1]),
            key.unsqueeze(-3).expand(*key.shape[:-2], queries, keys, key.shape[-1]),
        ],
        dim=-1,
    )
    return torch.tanh(joined @ weight) @ vector


@wrong("no-tanh")
def luong_scores(query, key, kind, weight=None, vector=None):
    if kind == "dot":
        return query @ key.mT
    if kind == "general":
        return query @ weight @ key.mT
    queries, keys = query.shape[-2], key.shape[-2]
    joined = torch.cat(
        [
            query.unsqueeze(-2).expand(*query.shape[:-1], keys, query.shape[-1]),
            key.unsqueeze(-3).expand(*key.shape[:-2], queries, keys, key.shape[-1]),
        ],
        dim=-1,
    )
    return joined @ weight.mT @ vector


@wrong("tanh-outside")
def luong_scores(query, key, kind, weight=None, vector=None):
    if kind == "dot":
        return query @ key.mT
    if kind == "general":
        return query @ weight @ key.mT
    queries, keys = query.shape[-2], key.shape[-2]
    joined = torch.cat(
        [
            query.unsqueeze(-2).expand(*query.shape[:-1], keys, query.shape[-1]),
            key.unsqueeze(-3).expand(*key.shape[:-2], queries, keys, key.shape[-1]),
        ],
        dim=-1,
    )
    return torch.tanh(joined @ weight.mT @ vector)


@wrong("vector-left-out")
def luong_scores(query, key, kind, weight=None, vector=None):
    if kind == "dot":
        return query @ key.mT
    if kind == "general":
        return query @ weight @ key.mT
    queries, keys = query.shape[-2], key.shape[-2]
    joined = torch.cat(
        [
            query.unsqueeze(-2).expand(*query.shape[:-1], keys, query.shape[-1]),
            key.unsqueeze(-3).expand(*key.shape[:-2], queries, keys, key.shape[-1]),
        ],
        dim=-1,
    )
    return torch.tanh(joined @ weight.mT).sum(dim=-1)


@wrong("hidden-not-summed")
def luong_scores(query, key, kind, weight=None, vector=None):
    if kind == "dot":
        return query @ key.mT
    if kind == "general":
        return query @ weight @ key.mT
    queries, keys = query.shape[-2], key.shape[-2]
    joined = torch.cat(
        [
            query.unsqueeze(-2).expand(*query.shape[:-1], keys, query.shape[-1]),
            key.unsqueeze(-3).expand(*key.shape[:-2], queries, keys, key.shape[-1]),
        ],
        dim=-1,
    )
    return torch.tanh(joined @ weight.mT) * vector


@wrong("mean-over-hidden")
def luong_scores(query, key, kind, weight=None, vector=None):
    if kind == "dot":
        return query @ key.mT
    if kind == "general":
        return query @ weight @ key.mT
    queries, keys = query.shape[-2], key.shape[-2]
    joined = torch.cat(
        [
            query.unsqueeze(-2).expand(*query.shape[:-1], keys, query.shape[-1]),
            key.unsqueeze(-3).expand(*key.shape[:-2], queries, keys, key.shape[-1]),
        ],
        dim=-1,
    )
    return (torch.tanh(joined @ weight.mT) * vector).mean(dim=-1)


@wrong("transposed")
def luong_scores(query, key, kind, weight=None, vector=None):
    if kind == "dot":
        return key @ query.mT
    if kind == "general":
        return key @ weight.mT @ query.mT
    d = query.shape[-1]
    asked, offered = query @ weight[:, :d].mT, key @ weight[:, d:].mT
    return torch.tanh(offered.unsqueeze(-2) + asked.unsqueeze(-3)) @ vector


@wrong("weights-for-scores")
def luong_scores(query, key, kind, weight=None, vector=None):
    if kind == "dot":
        return F.softmax(query @ key.mT, dim=-1)
    if kind == "general":
        return F.softmax(query @ weight @ key.mT, dim=-1)
    d = query.shape[-1]
    asked, offered = query @ weight[:, :d].mT, key @ weight[:, d:].mT
    return F.softmax(torch.tanh(asked.unsqueeze(-2) + offered.unsqueeze(-3)) @ vector, dim=-1)


@right
def local_m_weights(scores, radius):
    t = torch.arange(scores.shape[-2]).unsqueeze(1)
    s = torch.arange(scores.shape[-1])
    seen = (s - t).abs() <= radius
    weights = scores.masked_fill(~seen, float("-inf")).softmax(dim=-1)
    return weights.masked_fill(~seen, 0.0)


@right
def local_m_weights(scores, radius):
    weights = torch.zeros_like(scores)
    for t in range(scores.shape[-2]):
        first, last = max(t - radius, 0), t + radius + 1
        weights[..., t, first:last] = scores[..., t, first:last].softmax(dim=-1)
    return weights


@right
def local_m_weights(scores, radius):
    seen = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(-radius).tril(radius)
    low = scores.where(seen, torch.finfo(scores.dtype).min)
    return F.softmax(low, dim=-1) * seen


@right
def local_m_weights(scores, radius):
    t = torch.arange(scores.shape[-2]).unsqueeze(1)
    s = torch.arange(scores.shape[-1])
    seen = ((s >= t - radius) & (s <= t + radius)).expand_as(scores)
    top = torch.where(seen, scores, -1e30).amax(dim=-1, keepdim=True).detach()
    powers = torch.where(seen, (scores - top).clamp(max=0).exp(), torch.zeros_like(scores))
    return powers / powers.sum(dim=-1, keepdim=True).clamp(min=1e-30)


@wrong("window-without-ends")
def local_m_weights(scores, radius):
    t = torch.arange(scores.shape[-2]).unsqueeze(1)
    s = torch.arange(scores.shape[-1])
    seen = (s - t).abs() < radius
    weights = scores.masked_fill(~seen, float("-inf")).softmax(dim=-1)
    return weights.masked_fill(~seen, 0.0)


@wrong("window-without-right-end")
def local_m_weights(scores, radius):
    weights = torch.zeros_like(scores)
    for t in range(scores.shape[-2]):
        first, last = max(t - radius, 0), t + radius
        weights[..., t, first:last] = scores[..., t, first:last].softmax(dim=-1)
    return weights


@wrong("radius-as-width")
def local_m_weights(scores, radius):
    t = torch.arange(scores.shape[-2]).unsqueeze(1)
    s = torch.arange(scores.shape[-1])
    seen = (s - t).abs() <= radius / 2
    weights = scores.masked_fill(~seen, float("-inf")).softmax(dim=-1)
    return weights.masked_fill(~seen, 0.0)


@wrong("window-one-too-wide")
def local_m_weights(scores, radius):
    t = torch.arange(scores.shape[-2]).unsqueeze(1)
    s = torch.arange(scores.shape[-1])
    seen = (s - t).abs() <= radius + 1
    weights = scores.masked_fill(~seen, float("-inf")).softmax(dim=-1)
    return weights.masked_fill(~seen, 0.0)


@wrong("window-looks-back-only")
def local_m_weights(scores, radius):
    t = torch.arange(scores.shape[-2]).unsqueeze(1)
    s = torch.arange(scores.shape[-1])
    seen = (s <= t) & (s >= t - radius)
    weights = scores.masked_fill(~seen, float("-inf")).softmax(dim=-1)
    return weights.masked_fill(~seen, 0.0)


@wrong("window-looks-ahead-only")
def local_m_weights(scores, radius):
    weights = torch.zeros_like(scores)
    for t in range(scores.shape[-2]):
        weights[..., t, t : t + radius + 1] = scores[..., t, t : t + radius + 1].softmax(dim=-1)
    return weights


@wrong("centre-off-by-one")
def local_m_weights(scores, radius):
    t = torch.arange(1, scores.shape[-2] + 1).unsqueeze(1)
    s = torch.arange(scores.shape[-1])
    seen = (s - t).abs() <= radius
    weights = scores.masked_fill(~seen, float("-inf")).softmax(dim=-1)
    return weights.masked_fill(~seen, 0.0)


@wrong("centre-scaled")
def local_m_weights(scores, radius):
    t = torch.arange(scores.shape[-2]).unsqueeze(1)
    s = torch.arange(scores.shape[-1])
    centre = t * (scores.shape[-1] / scores.shape[-2])
    seen = (s - centre).abs() <= radius
    weights = scores.masked_fill(~seen, float("-inf")).softmax(dim=-1)
    return weights.masked_fill(~seen, 0.0)


@wrong("window-pushed-inside")
def local_m_weights(scores, radius):
    t = torch.arange(scores.shape[-2]).clamp(radius, scores.shape[-1] - radius - 1).unsqueeze(1)
    s = torch.arange(scores.shape[-1])
    seen = (s - t).abs() <= radius
    weights = scores.masked_fill(~seen, float("-inf")).softmax(dim=-1)
    return weights.masked_fill(~seen, 0.0)


@wrong("window-after-softmax")
def local_m_weights(scores, radius):
    t = torch.arange(scores.shape[-2]).unsqueeze(1)
    s = torch.arange(scores.shape[-1])
    weights = scores.softmax(dim=-1)
    return weights.masked_fill((s - t).abs() > radius, 0.0)


@wrong("window-as-zero-score")
def local_m_weights(scores, radius):
    t = torch.arange(scores.shape[-2]).unsqueeze(1)
    s = torch.arange(scores.shape[-1])
    return scores.masked_fill((s - t).abs() > radius, 0.0).softmax(dim=-1)


@wrong("window-inverted")
def local_m_weights(scores, radius):
    t = torch.arange(scores.shape[-2]).unsqueeze(1)
    s = torch.arange(scores.shape[-1])
    seen = (s - t).abs() > radius
    weights = scores.masked_fill(~seen, float("-inf")).softmax(dim=-1)
    return weights.masked_fill(~seen, 0.0)


@wrong("window-ignored")
def local_m_weights(scores, radius):
    return F.softmax(scores, dim=-1)


@wrong("window-scaled-up-late")
def local_m_weights(scores, radius):
    t = torch.arange(scores.shape[-2]).unsqueeze(1)
    s = torch.arange(scores.shape[-1])
    weights = scores.softmax(dim=-1) * ((s - t).abs() <= radius)
    total = weights.sum(dim=-1, keepdim=True)
    return weights / total.masked_fill(total == 0, 1.0)


@wrong("softmax-over-queries")
def local_m_weights(scores, radius):
    t = torch.arange(scores.shape[-2]).unsqueeze(1)
    s = torch.arange(scores.shape[-1])
    seen = (s - t).abs() <= radius
    return scores.masked_fill(~seen, float("-inf")).softmax(dim=-2).nan_to_num()


@wrong("empty-window-nan")
def local_m_weights(scores, radius):
    t = torch.arange(scores.shape[-2]).unsqueeze(1)
    s = torch.arange(scores.shape[-1])
    seen = (s - t).abs() <= radius
    return scores.masked_fill(~seen, float("-inf")).softmax(dim=-1)


@wrong("empty-window-uniform")
def local_m_weights(scores, radius):
    t = torch.arange(scores.shape[-2]).unsqueeze(1)
    s = torch.arange(scores.shape[-1])
    seen = (s - t).abs() <= radius
    return scores.masked_fill(~seen, -1e9).softmax(dim=-1)


@wrong("empty-window-nan-gradient")
def local_m_weights(scores, radius):
    t = torch.arange(scores.shape[-2]).unsqueeze(1)
    s = torch.arange(scores.shape[-1])
    bias = torch.zeros_like(scores).masked_fill((s - t).abs() > radius, float("-inf"))
    return torch.nan_to_num((scores + bias).softmax(dim=-1))


@wrong("exp-overflow")
def local_m_weights(scores, radius):
    t = torch.arange(scores.shape[-2]).unsqueeze(1)
    s = torch.arange(scores.shape[-1])
    powers = scores.exp() * ((s - t).abs() <= radius)
    total = powers.sum(dim=-1, keepdim=True)
    return powers / total.masked_fill(total == 0, 1.0)


@right
def local_p_weights(state, scores, lengths, weight, vector, radius):
    positions = lengths[:, None] * torch.sigmoid(torch.tanh(state @ weight.mT) @ vector)
    source = torch.arange(scores.shape[-1])
    distance = source - positions[..., None]
    seen = (distance.abs() <= radius) & (source < lengths[:, None, None])
    weights = scores.masked_fill(~seen, float("-inf")).softmax(dim=-1).masked_fill(~seen, 0.0)
    sigma = radius / 2
    return weights * torch.exp(-(distance**2) / (2 * sigma**2)), positions


@right
def local_p_weights(state, scores, lengths, weight, vector, radius):
    weights = torch.zeros_like(scores)
    positions = scores.new_zeros(scores.shape[:2])
    for b in range(scores.shape[0]):
        for t in range(scores.shape[1]):
            p = lengths[b] * torch.sigmoid(vector.dot(torch.tanh(weight.mv(state[b, t]))))
            positions[b, t] = p
            first = max(math.ceil(float(p.detach()) - radius), 0)
            last = min(math.floor(float(p.detach()) + radius), int(lengths[b]) - 1)
            if first <= last:
                s = torch.arange(first, last + 1)
                soft = scores[b, t, first : last + 1].softmax(dim=0)
                weights[b, t, first : last + 1] = soft * torch.exp(-2 * (s - p) ** 2 / radius**2)
    return weights, positions


@right
def local_p_weights(state, scores, lengths, weight, vector, radius):
    hidden = torch.einsum("hd,btd->bth", weight, state).tanh()
    positions = torch.einsum("h,bth->bt", vector, hidden).sigmoid() * lengths.view(-1, 1)
    source = torch.arange(scores.size(2), dtype=scores.dtype).view(1, 1, -1)
    apart = (source - positions.unsqueeze(2)) / (radius / 2)
    outside = (apart.abs() > 2).logical_or(source >= lengths.view(-1, 1, 1))
    soft = F.softmax(scores.masked_fill(outside, -1e30), dim=2)
    return [soft.masked_fill(outside, 0) * torch.exp(-0.5 * apart.square()), positions]


@right
def local_p_weights(state, scores, lengths, weight, vector, radius):
    shares = torch.sigmoid(F.linear(torch.tanh(F.linear(state, weight)), vector[None]))
    positions = (lengths.view(-1, 1, 1) * shares).squeeze(-1)
    source = torch.arange(scores.shape[-1])
    near = torch.exp(-0.5 * ((source - positions[..., None]) * 2 / radius).pow(2))
    seen = torch.logical_and(
        (source - positions.detach()[..., None]).abs() <= radius, source < lengths.view(-1, 1, 1)
    )
    empty = ~seen.any(dim=-1, keepdim=True)
    soft = torch.softmax(scores.masked_fill(~(seen | empty), -torch.inf), dim=-1)
    return soft * near * ~empty, positions


@wrong("renormalised-after-gaussian")
def local_p_weights(state, scores, lengths, weight, vector, radius):
    positions = lengths[:, None] * torch.sigmoid(torch.tanh(state @ weight.mT) @ vector)
    source = torch.arange(scores.shape[-1])
    distance = source - positions[..., None]
    seen = (distance.abs() <= radius) & (source < lengths[:, None, None])
    weights = scores.masked_fill(~seen, float("-inf")).softmax(dim=-1).masked_fill(~seen, 0.0)
    weights = weights * torch.exp(-(distance**2) / (2 * (radius / 2) ** 2))
    total = weights.sum(dim=-1, keepdim=True)
    return weights / total.masked_fill(total == 0, 1.0), positions


@wrong("renormalised-after-gaussian")
def local_p_weights(state, scores, lengths, weight, vector, radius):
    positions = lengths[:, None] * torch.sigmoid(torch.tanh(state @ weight.mT) @ vector)
    source = torch.arange(scores.shape[-1])
    distance = source - positions[..., None]
    seen = (distance.abs() <= radius) & (source < lengths[:, None, None])
    scores = scores - distance**2 / (2 * (radius / 2) ** 2)
    weights = scores.masked_fill(~seen, float("-inf")).softmax(dim=-1).masked_fill(~seen, 0.0)
    return weights, positions


@wrong("no-gaussian")
def local_p_weights(state, scores, lengths, weight, vector, radius):
    positions = lengths[:, None] * torch.sigmoid(torch.tanh(state @ weight.mT) @ vector)
    source = torch.arange(scores.shape[-1])
    distance = source - positions[..., None]
    seen = (distance.abs() <= radius) & (source < lengths[:, None, None])
    weights = scores.masked_fill(~seen, float("-inf")).softmax(dim=-1).masked_fill(~seen, 0.0)
    return weights, positions


@wrong("gaussian-on-scores")
def local_p_weights(state, scores, lengths, weight, vector, radius):
    positions = lengths[:, None] * torch.sigmoid(torch.tanh(state @ weight.mT) @ vector)
    source = torch.arange(scores.shape[-1])
    distance = source - positions[..., None]
    seen = (distance.abs() <= radius) & (source < lengths[:, None, None])
    scores = scores * torch.exp(-(distance**2) / (2 * (radius / 2) ** 2))
    weights = scores.masked_fill(~seen, float("-inf")).softmax(dim=-1).masked_fill(~seen, 0.0)
    return weights, positions


@wrong("gaussian-without-window")
def local_p_weights(state, scores, lengths, weight, vector, radius):
    positions = lengths[:, None] * torch.sigmoid(torch.tanh(state @ weight.mT) @ vector)
    source = torch.arange(scores.shape[-1])
    distance = source - positions[..., None]
    seen = (source < lengths[:, None, None]).expand_as(scores)
    weights = scores.masked_fill(~seen, float("-inf")).softmax(dim=-1).masked_fill(~seen, 0.0)
    sigma = radius / 2
    return weights * torch.exp(-(distance**2) / (2 * sigma**2)), positions


@wrong("sigma-is-radius")
def local_p_weights(state, scores, lengths, weight, vector, radius):
    positions = lengths[:, None] * torch.sigmoid(torch.tanh(state @ weight.mT) @ vector)
    source = torch.arange(scores.shape[-1])
    distance = source - positions[..., None]
    seen = (distance.abs() <= radius) & (source < lengths[:, None, None])
    weights = scores.masked_fill(~seen, float("-inf")).softmax(dim=-1).masked_fill(~seen, 0.0)
    return weights * torch.exp(-(distance**2) / (2 * radius**2)), positions


@wrong("sigma-not-squared")
def local_p_weights(state, scores, lengths, weight, vector, radius):
    positions = lengths[:, None] * torch.sigmoid(torch.tanh(state @ weight.mT) @ vector)
    source = torch.arange(scores.shape[-1])
    distance = source - positions[..., None]
    seen = (distance.abs() <= radius) & (source < lengths[:, None, None])
    weights = scores.masked_fill(~seen, float("-inf")).softmax(dim=-1).masked_fill(~seen, 0.0)
    return weights * torch.exp(-(distance**2) / (2 * (radius / 2))), positions


@wrong("gaussian-without-two")
def local_p_weights(state, scores, lengths, weight, vector, radius):
    positions = lengths[:, None] * torch.sigmoid(torch.tanh(state @ weight.mT) @ vector)
    source = torch.arange(scores.shape[-1])
    distance = source - positions[..., None]
    seen = (distance.abs() <= radius) & (source < lengths[:, None, None])
    weights = scores.masked_fill(~seen, float("-inf")).softmax(dim=-1).masked_fill(~seen, 0.0)
    return weights * torch.exp(-((distance / (radius / 2)) ** 2)), positions


@wrong("distance-not-squared")
def local_p_weights(state, scores, lengths, weight, vector, radius):
    positions = lengths[:, None] * torch.sigmoid(torch.tanh(state @ weight.mT) @ vector)
    source = torch.arange(scores.shape[-1])
    distance = source - positions[..., None]
    seen = (distance.abs() <= radius) & (source < lengths[:, None, None])
    weights = scores.masked_fill(~seen, float("-inf")).softmax(dim=-1).masked_fill(~seen, 0.0)
    return weights * torch.exp(-distance.abs() / (2 * (radius / 2) ** 2)), positions


@wrong("gaussian-as-density")
def local_p_weights(state, scores, lengths, weight, vector, radius):
    positions = lengths[:, None] * torch.sigmoid(torch.tanh(state @ weight.mT) @ vector)
    source = torch.arange(scores.shape[-1])
    distance = source - positions[..., None]
    seen = (distance.abs() <= radius) & (source < lengths[:, None, None])
    weights = scores.masked_fill(~seen, float("-inf")).softmax(dim=-1).masked_fill(~seen, 0.0)
    normal = torch.distributions.Normal(positions[..., None], radius / 2, validate_args=False)
    return weights * normal.log_prob(source).exp(), positions


@wrong("window-around-rounded-position")
def local_p_weights(state, scores, lengths, weight, vector, radius):
    positions = lengths[:, None] * torch.sigmoid(torch.tanh(state @ weight.mT) @ vector)
    source = torch.arange(scores.shape[-1])
    distance = source - positions[..., None]
    centre = positions.round().unsqueeze(-1)
    seen = ((source - centre).abs() <= radius) & (source < lengths[:, None, None])
    weights = scores.masked_fill(~seen, float("-inf")).softmax(dim=-1).masked_fill(~seen, 0.0)
    sigma = radius / 2
    return weights * torch.exp(-(distance**2) / (2 * sigma**2)), positions


@wrong("window-without-ends")
def local_p_weights(state, scores, lengths, weight, vector, radius):
    positions = lengths[:, None] * torch.sigmoid(torch.tanh(state @ weight.mT) @ vector)
    source = torch.arange(scores.shape[-1])
    distance = source - positions[..., None]
    seen = (distance.abs() < radius) & (source < lengths[:, None, None])
    weights = scores.masked_fill(~seen, float("-inf")).softmax(dim=-1).masked_fill(~seen, 0.0)
    sigma = radius / 2
    return weights * torch.exp(-(distance**2) / (2 * sigma**2)), positions


@wrong("position-rounded")
def local_p_weights(state, scores, lengths, weight, vector, radius):
    positions = lengths[:, None] * torch.sigmoid(torch.tanh(state @ weight.mT) @ vector)
    positions = torch.round(positions)
    source = torch.arange(scores.shape[-1])
    distance = source - positions[..., None]
    seen = (distance.abs() <= radius) & (source < lengths[:, None, None])
    weights = scores.masked_fill(~seen, float("-inf")).softmax(dim=-1).masked_fill(~seen, 0.0)
    sigma = radius / 2
    return weights * torch.exp(-(distance**2) / (2 * sigma**2)), positions


@wrong("position-without-sigmoid")
def local_p_weights(state, scores, lengths, weight, vector, radius):
    positions = lengths[:, None] * (torch.tanh(state @ weight.mT) @ vector)
    source = torch.arange(scores.shape[-1])
    distance = source - positions[..., None]
    seen = (distance.abs() <= radius) & (source < lengths[:, None, None])
    weights = scores.masked_fill(~seen, float("-inf")).softmax(dim=-1).masked_fill(~seen, 0.0)
    sigma = radius / 2
    return weights * torch.exp(-(distance**2) / (2 * sigma**2)), positions


@wrong("position-without-tanh")
def local_p_weights(state, scores, lengths, weight, vector, radius):
    positions = lengths[:, None] * torch.sigmoid(state @ weight.mT @ vector)
    source = torch.arange(scores.shape[-1])
    distance = source - positions[..., None]
    seen = (distance.abs() <= radius) & (source < lengths[:, None, None])
    weights = scores.masked_fill(~seen, float("-inf")).softmax(dim=-1).masked_fill(~seen, 0.0)
    sigma = radius / 2
    return weights * torch.exp(-(distance**2) / (2 * sigma**2)), positions


@wrong("position-without-length")
def local_p_weights(state, scores, lengths, weight, vector, radius):
    positions = torch.sigmoid(torch.tanh(state @ weight.mT) @ vector)
    source = torch.arange(scores.shape[-1])
    distance = source - positions[..., None]
    seen = (distance.abs() <= radius) & (source < lengths[:, None, None])
    weights = scores.masked_fill(~seen, float("-inf")).softmax(dim=-1).masked_fill(~seen, 0.0)
    sigma = radius / 2
    return weights * torch.exp(-(distance**2) / (2 * sigma**2)), positions


@wrong("position-in-padding")
def local_p_weights(state, scores, lengths, weight, vector, radius):
    positions = scores.shape[-1] * torch.sigmoid(torch.tanh(state @ weight.mT) @ vector)
    source = torch.arange(scores.shape[-1])
    distance = source - positions[..., None]
    seen = (distance.abs() <= radius) & (source < lengths[:, None, None])
    weights = scores.masked_fill(~seen, float("-inf")).softmax(dim=-1).masked_fill(~seen, 0.0)
    sigma = radius / 2
    return weights * torch.exp(-(distance**2) / (2 * sigma**2)), positions


@wrong("position-of-last-token")
def local_p_weights(state, scores, lengths, weight, vector, radius):
    last = (lengths - 1).clamp(min=0)[:, None]
    positions = last * torch.sigmoid(torch.tanh(state @ weight.mT) @ vector)
    source = torch.arange(scores.shape[-1])
    distance = source - positions[..., None]
    seen = (distance.abs() <= radius) & (source < lengths[:, None, None])
    weights = scores.masked_fill(~seen, float("-inf")).softmax(dim=-1).masked_fill(~seen, 0.0)
    sigma = radius / 2
    return weights * torch.exp(-(distance**2) / (2 * sigma**2)), positions


@wrong("positions-not-predicted")
def local_p_weights(state, scores, lengths, weight, vector, radius):
    positions = torch.arange(scores.shape[1], dtype=scores.dtype).repeat(len(scores), 1)
    source = torch.arange(scores.shape[-1])
    distance = source - positions[..., None]
    seen = (distance.abs() <= radius) & (source < lengths[:, None, None])
    weights = scores.masked_fill(~seen, float("-inf")).softmax(dim=-1).masked_fill(~seen, 0.0)
    sigma = radius / 2
    return weights * torch.exp(-(distance**2) / (2 * sigma**2)), positions


@wrong("padding-attended")
def local_p_weights(state, scores, lengths, weight, vector, radius):
    positions = lengths[:, None] * torch.sigmoid(torch.tanh(state @ weight.mT) @ vector)
    source = torch.arange(scores.shape[-1])
    distance = source - positions[..., None]
    seen = distance.abs() <= radius
    weights = scores.masked_fill(~seen, float("-inf")).softmax(dim=-1).masked_fill(~seen, 0.0)
    sigma = radius / 2
    return weights * torch.exp(-(distance**2) / (2 * sigma**2)), positions


@wrong("window-after-softmax")
def local_p_weights(state, scores, lengths, weight, vector, radius):
    positions = lengths[:, None] * torch.sigmoid(torch.tanh(state @ weight.mT) @ vector)
    source = torch.arange(scores.shape[-1])
    distance = source - positions[..., None]
    seen = (distance.abs() <= radius) & (source < lengths[:, None, None])
    weights = scores.softmax(dim=-1) * seen
    sigma = radius / 2
    return weights * torch.exp(-(distance**2) / (2 * sigma**2)), positions


@wrong("empty-window-nan")
def local_p_weights(state, scores, lengths, weight, vector, radius):
    positions = lengths[:, None] * torch.sigmoid(torch.tanh(state @ weight.mT) @ vector)
    source = torch.arange(scores.shape[-1])
    distance = source - positions[..., None]
    seen = (distance.abs() <= radius) & (source < lengths[:, None, None])
    weights = scores.masked_fill(~seen, float("-inf")).softmax(dim=-1)
    sigma = radius / 2
    return weights * torch.exp(-(distance**2) / (2 * sigma**2)), positions


@wrong("results-in-wrong-order")
def local_p_weights(state, scores, lengths, weight, vector, radius):
    positions = lengths[:, None] * torch.sigmoid(torch.tanh(state @ weight.mT) @ vector)
    source = torch.arange(scores.shape[-1])
    distance = source - positions[..., None]
    seen = (distance.abs() <= radius) & (source < lengths[:, None, None])
    weights = scores.masked_fill(~seen, float("-inf")).softmax(dim=-1).masked_fill(~seen, 0.0)
    sigma = radius / 2
    return positions, weights * torch.exp(-(distance**2) / (2 * sigma**2))


@right
def span_weights(scores, span, ramp):
    targets, source = scores.shape[-2:]
    distance = (torch.arange(source) - torch.arange(targets)[:, None]).abs()
    share = ((ramp + span - distance) / ramp).clamp(0, 1)
    seen = share > 0
    soft = scores.masked_fill(~seen, float("-inf")).softmax(dim=-1).masked_fill(~seen, 0.0)
    weights = soft * share
    return weights / weights.sum(dim=-1, keepdim=True).clamp(min=torch.finfo(weights.dtype).tiny)


@right
def span_weights(scores, span, ramp):
    rows = []
    for t in range(scores.shape[-2]):
        distance = (torch.arange(scores.shape[-1]) - t).abs()
        share = torch.clamp((ramp + span - distance) / ramp, min=0.0, max=1.0)
        near = (share > 0).nonzero().flatten()
        row = torch.zeros_like(scores[..., t, :])
        if len(near):
            powers = scores[..., t, near].softmax(dim=-1) * share[near]
            row[..., near] = powers / powers.sum(dim=-1, keepdim=True)
        rows.append(row)
    return torch.stack(rows, dim=-2)


@right
def span_weights(scores, span, ramp):
    targets, source = scores.shape[-2:]
    distance = (torch.arange(source) - torch.arange(targets)[:, None]).abs()
    share = ((ramp + span - distance) / ramp).clamp(0, 1)
    seen = (share > 0).expand_as(scores)
    low = scores.masked_fill(~seen, -1e30)
    top = low.amax(dim=-1, keepdim=True).detach()
    powers = torch.exp((low - top).clamp(min=-1e4)) * share
    total = powers.sum(dim=-1, keepdim=True)
    return powers / torch.where(total > 0, total, torch.ones_like(total))


@right
def span_weights(scores, span, ramp):
    targets, source = scores.shape[-2:]
    distance = (torch.arange(source) - torch.arange(targets)[:, None]).abs().to(scores.dtype)
    share = torch.minimum(1 + (span - distance) / ramp, torch.ones(()).to(scores.dtype)).relu()
    # The logarithm of the share joins the scores, where the share is not 0.
    seen = share > 0
    logits = scores + torch.where(seen, share, torch.ones_like(share)).log()
    empty = ~seen.any(dim=-1, keepdim=True)
    weights = logits.masked_fill(~(seen | empty), -torch.inf).softmax(dim=-1)
    return weights * ~empty


@wrong("ramp-after-softmax")
def span_weights(scores, span, ramp):
    targets, source = scores.shape[-2:]
    distance = (torch.arange(source) - torch.arange(targets)[:, None]).abs()
    share = ((ramp + span - distance) / ramp).clamp(0, 1)
    seen = share > 0
    soft = scores.masked_fill(~seen, float("-inf")).softmax(dim=-1).masked_fill(~seen, 0.0)
    weights = soft * share
    return weights


@wrong("ramp-after-full-softmax")
def span_weights(scores, span, ramp):
    targets, source = scores.shape[-2:]
    distance = (torch.arange(source) - torch.arange(targets)[:, None]).abs()
    share = ((ramp + span - distance) / ramp).clamp(0, 1)
    return F.softmax(scores, dim=-1) * share


@wrong("ramp-on-scores")
def span_weights(scores, span, ramp):
    targets, source = scores.shape[-2:]
    distance = (torch.arange(source) - torch.arange(targets)[:, None]).abs()
    share = ((ramp + span - distance) / ramp).clamp(0, 1)
    return (scores * share).masked_fill(share == 0, -1e30).softmax(dim=-1) * (share > 0)


@wrong("ramp-above-one")
def span_weights(scores, span, ramp):
    targets, source = scores.shape[-2:]
    distance = (torch.arange(source) - torch.arange(targets)[:, None]).abs()
    share = F.relu((ramp + span - distance) / ramp)
    seen = share > 0
    soft = scores.masked_fill(~seen, float("-inf")).softmax(dim=-1).masked_fill(~seen, 0.0)
    weights = soft * share
    return weights / weights.sum(dim=-1, keepdim=True).clamp(min=torch.finfo(weights.dtype).tiny)


@wrong("ramp-too-early")
def span_weights(scores, span, ramp):
    targets, source = scores.shape[-2:]
    distance = (torch.arange(source) - torch.arange(targets)[:, None]).abs()
    share = ((span - distance) / ramp).clamp(0, 1)
    seen = share > 0
    soft = scores.masked_fill(~seen, float("-inf")).softmax(dim=-1).masked_fill(~seen, 0.0)
    weights = soft * share
    return weights / weights.sum(dim=-1, keepdim=True).clamp(min=torch.finfo(weights.dtype).tiny)


@wrong("ramp-too-steep")
def span_weights(scores, span, ramp):
    targets, source = scores.shape[-2:]
    distance = (torch.arange(source) - torch.arange(targets)[:, None]).abs()
    share = (ramp + span - distance).clamp(0, 1)
    seen = share > 0
    soft = scores.masked_fill(~seen, float("-inf")).softmax(dim=-1).masked_fill(~seen, 0.0)
    weights = soft * share
    return weights / weights.sum(dim=-1, keepdim=True).clamp(min=torch.finfo(weights.dtype).tiny)


@wrong("ramp-inverted")
def span_weights(scores, span, ramp):
    targets, source = scores.shape[-2:]
    distance = (torch.arange(source) - torch.arange(targets)[:, None]).abs()
    share = ((distance - span) / ramp).clamp(0, 1)
    seen = share > 0
    soft = scores.masked_fill(~seen, float("-inf")).softmax(dim=-1).masked_fill(~seen, 0.0)
    weights = soft * share
    return weights / weights.sum(dim=-1, keepdim=True).clamp(min=torch.finfo(weights.dtype).tiny)


@wrong("ramp-left-out")
def span_weights(scores, span, ramp):
    targets, source = scores.shape[-2:]
    distance = (torch.arange(source) - torch.arange(targets)[:, None]).abs()
    share = (distance <= span).to(scores.dtype)
    seen = share > 0
    soft = scores.masked_fill(~seen, float("-inf")).softmax(dim=-1).masked_fill(~seen, 0.0)
    weights = soft * share
    return weights / weights.sum(dim=-1, keepdim=True).clamp(min=torch.finfo(weights.dtype).tiny)


@wrong("span-to-the-end-of-ramp")
def span_weights(scores, span, ramp):
    targets, source = scores.shape[-2:]
    distance = (torch.arange(source) - torch.arange(targets)[:, None]).abs()
    share = (distance <= span + ramp).to(scores.dtype)
    seen = share > 0
    soft = scores.masked_fill(~seen, float("-inf")).softmax(dim=-1).masked_fill(~seen, 0.0)
    weights = soft * share
    return weights / weights.sum(dim=-1, keepdim=True).clamp(min=torch.finfo(weights.dtype).tiny)


@wrong("distance-with-sign")
def span_weights(scores, span, ramp):
    targets, source = scores.shape[-2:]
    distance = torch.arange(source) - torch.arange(targets)[:, None]
    share = ((ramp + span - distance) / ramp).clamp(0, 1)
    seen = share > 0
    soft = scores.masked_fill(~seen, float("-inf")).softmax(dim=-1).masked_fill(~seen, 0.0)
    weights = soft * share
    return weights / weights.sum(dim=-1, keepdim=True).clamp(min=torch.finfo(weights.dtype).tiny)


@wrong("span-without-gradient")
def span_weights(scores, span, ramp):
    targets, source = scores.shape[-2:]
    distance = (torch.arange(source) - torch.arange(targets)[:, None]).abs()
    share = ((ramp + span.item() - distance) / ramp).clamp(0, 1)
    seen = share > 0
    soft = scores.masked_fill(~seen, float("-inf")).softmax(dim=-1).masked_fill(~seen, 0.0)
    weights = soft * share
    return weights / weights.sum(dim=-1, keepdim=True).clamp(min=torch.finfo(weights.dtype).tiny)


@wrong("empty-window-nan")
def span_weights(scores, span, ramp):
    targets, source = scores.shape[-2:]
    distance = (torch.arange(source) - torch.arange(targets)[:, None]).abs()
    share = ((ramp + span - distance) / ramp).clamp(0, 1)
    seen = share > 0
    soft = scores.masked_fill(~seen, float("-inf")).softmax(dim=-1).masked_fill(~seen, 0.0)
    weights = soft * share
    return weights / weights.sum(dim=-1, keepdim=True)


@wrong("empty-window-nan-gradient")
def span_weights(scores, span, ramp):
    targets, source = scores.shape[-2:]
    distance = (torch.arange(source) - torch.arange(targets)[:, None]).abs()
    share = ((ramp + span - distance) / ramp).clamp(0, 1)
    return (scores + torch.log(share)).softmax(dim=-1).nan_to_num()


@wrong("exp-overflow")
def span_weights(scores, span, ramp):
    targets, source = scores.shape[-2:]
    distance = (torch.arange(source) - torch.arange(targets)[:, None]).abs()
    share = ((ramp + span - distance) / ramp).clamp(0, 1)
    weights = torch.exp(scores) * share
    return weights / weights.sum(dim=-1, keepdim=True).clamp(min=torch.finfo(weights.dtype).tiny)


@wrong("window-scaled-up-late")
def span_weights(scores, span, ramp):
    targets, source = scores.shape[-2:]
    distance = (torch.arange(source) - torch.arange(targets)[:, None]).abs()
    share = ((ramp + span - distance) / ramp).clamp(0, 1)
    weights = F.softmax(scores, dim=-1) * share
    return weights / weights.sum(dim=-1, keepdim=True).clamp(min=torch.finfo(weights.dtype).tiny)


@wrong("ramp-on-scores")
def span_weights(scores, span, ramp):
    targets, source = scores.shape[-2:]
    distance = (torch.arange(source) - torch.arange(targets)[:, None]).abs()
    share = ((ramp + span - distance) / ramp).clamp(0, 1)
    return torch.softmax(share * scores, dim=-1)


@wrong("floor-for-constant")
def score_function_loss(losses, log_probability):
    baseline = (losses.sum(0) - losses) / (len(losses) - 1)
    return (losses + torch.floor(losses - baseline) * log_probability).mean()


@wrong("baseline-over-batch")
def score_function_loss(losses, log_probability):
    baseline = (losses.sum(1, keepdim=True) - losses) / (losses.shape[1] - 1)
    return (losses + (losses - baseline).detach() * log_probability).mean()


@wrong("position-rounded")
def local_p_weights(state, scores, lengths, weight, vector, radius):
    positions = lengths[:, None] * torch.sigmoid(torch.tanh(state @ weight.mT) @ vector)
    source = torch.arange(scores.shape[-1])
    distance = source - positions.round().unsqueeze(-1)
    far, padding = distance.abs() > radius, source >= lengths.view(-1, 1, 1)
    weights = torch.softmax(scores.masked_fill(far | padding, float("-inf")), dim=-1)
    weights = weights.masked_fill(far | padding, 0.0)
    return weights * torch.exp(-(distance**2) / (2 * (radius / 2) ** 2)), positions


@wrong("position-without-gradient")
def local_p_weights(state, scores, lengths, weight, vector, radius):
    positions = lengths[:, None] * torch.sigmoid(torch.tanh(state @ weight.mT) @ vector)
    source = torch.arange(scores.shape[-1])
    distance = source - positions.detach().unsqueeze(-1)
    far, padding = distance.abs() > radius, source >= lengths.view(-1, 1, 1)
    weights = torch.softmax(scores.masked_fill(far | padding, float("-inf")), dim=-1)
    weights = weights.masked_fill(far | padding, 0.0)
    return weights * torch.exp(-(distance**2) / (2 * (radius / 2) ** 2)), positions


@wrong("padding-in-softmax")
def local_p_weights(state, scores, lengths, weight, vector, radius):
    positions = lengths[:, None] * torch.sigmoid(torch.tanh(state @ weight.mT) @ vector)
    source = torch.arange(scores.shape[-1])
    distance = source - positions.unsqueeze(-1)
    far, padding = distance.abs() > radius, source >= lengths.view(-1, 1, 1)
    weights = torch.softmax(scores.masked_fill(far, float("-inf")), dim=-1)
    weights = weights.masked_fill(far | padding, 0.0)
    return weights * torch.exp(-(distance**2) / (2 * (radius / 2) ** 2)), positions


@wrong("sigma-rounded-down")
def local_p_weights(state, scores, lengths, weight, vector, radius):
    positions = lengths[:, None] * torch.sigmoid(torch.tanh(state @ weight.mT) @ vector)
    source = torch.arange(scores.shape[-1])
    distance = source - positions.unsqueeze(-1)
    far, padding = distance.abs() > radius, source >= lengths.view(-1, 1, 1)
    weights = torch.softmax(scores.masked_fill(far | padding, float("-inf")), dim=-1)
    weights = weights.masked_fill(far | padding, 0.0)
    return weights * torch.exp(-(distance**2) / (2 * (radius // 2) ** 2)), positions
