"""Answers to the set `alignment`."""

import math

import torch
from torch.nn import functional as F

from tests.answers import Answers

answers = Answers()
right, wrong = answers.right, answers.wrong


@right
def additive_scores(state, states, state_weight, states_weight, vector):
    hidden = torch.tanh((state @ state_weight.T).unsqueeze(1) + states @ states_weight.T)
    return hidden @ vector


@right
def additive_scores(state, states, state_weight, states_weight, vector):
    asked = F.linear(state, state_weight)[:, None]
    offered = F.linear(states, states_weight)
    return F.linear(torch.tanh(asked + offered), vector[None]).squeeze(-1)


@right
def additive_scores(state, states, state_weight, states_weight, vector):
    asked = torch.einsum("ad,bd->ba", state_weight, state)
    offered = torch.einsum("ae,bje->bja", states_weight, states)
    return torch.einsum("a,bja->bj", vector, torch.tanh(asked[:, None, :] + offered))


@right
def additive_scores(state, states, state_weight, states_weight, vector):
    # One weight for both, joined: the way of the PyTorch tutorials.
    length = states.shape[1]
    both = torch.cat([state.unsqueeze(1).repeat(1, length, 1), states], dim=2)
    weight = torch.cat([state_weight, states_weight], dim=1)
    return torch.sum(vector * torch.tanh(both @ weight.transpose(0, 1)), dim=2)


@right
def additive_scores(state, states, state_weight, states_weight, vector):
    batch, length, _ = states.shape
    scores = torch.empty(batch, length, dtype=states.dtype)
    for b in range(batch):
        for j in range(length):
            scores[b, j] = vector.dot(torch.tanh(state_weight.mv(state[b]) + states_weight.mv(states[b, j])))
    return scores


@wrong("no-tanh")
def additive_scores(state, states, state_weight, states_weight, vector):
    return (F.linear(state, state_weight).unsqueeze(1) + F.linear(states, states_weight)) @ vector


@wrong("sigmoid-for-tanh")
def additive_scores(state, states, state_weight, states_weight, vector):
    hidden = torch.einsum("ad,bd->ba", state_weight, state)[:, None] + states @ states_weight.mT
    return torch.einsum("bja,a->bj", hidden.sigmoid(), vector)


@wrong("relu-for-tanh")
def additive_scores(state, states, state_weight, states_weight, vector):
    return F.relu((state @ state_weight.mT)[:, None] + states @ states_weight.mT) @ vector


@wrong("tanh-before-sum")
def additive_scores(state, states, state_weight, states_weight, vector):
    asked = torch.tanh(F.linear(state, state_weight))
    offered = torch.tanh(F.linear(states, states_weight))
    return (asked.unsqueeze(1) + offered) @ vector


@wrong("tanh-outside")
def additive_scores(state, states, state_weight, states_weight, vector):
    asked, offered = F.linear(state, state_weight), F.linear(states, states_weight)
    return torch.tanh((asked @ vector).unsqueeze(1) + offered @ vector)


@wrong("product-for-sum")
def additive_scores(state, states, state_weight, states_weight, vector):
    asked, offered = state @ state_weight.mT, states @ states_weight.mT
    return torch.einsum("bja,a->bj", torch.tanh(asked[:, None] * offered), vector)


@wrong("vector-left-out")
def additive_scores(state, states, state_weight, states_weight, vector):
    asked, offered = state @ state_weight.mT, states @ states_weight.mT
    return torch.tanh(asked[:, None] + offered).sum(dim=-1)


@wrong("mean-over-hidden")
def additive_scores(state, states, state_weight, states_weight, vector):
    asked, offered = state @ state_weight.mT, states @ states_weight.mT
    return torch.mean(torch.tanh(asked[:, None] + offered) * vector, dim=-1)


@wrong("hidden-not-summed")
def additive_scores(state, states, state_weight, states_weight, vector):
    asked, offered = state @ state_weight.mT, states @ states_weight.mT
    return vector * torch.tanh(asked[:, None] + offered)


@wrong("scaled-additive")
def additive_scores(state, states, state_weight, states_weight, vector):
    asked, offered = state @ state_weight.mT, states @ states_weight.mT
    return torch.tanh(asked[:, None] + offered) @ vector / math.sqrt(vector.numel())


@wrong("scores-ignore-state")
def additive_scores(state, states, state_weight, states_weight, vector):
    return torch.tanh(states @ states_weight.mT) @ vector


@wrong("scores-ignore-states")
def additive_scores(state, states, state_weight, states_weight, vector):
    score = torch.tanh(state @ state_weight.mT) @ vector
    return score[:, None].repeat(1, states.shape[1])


@wrong("one-state-for-all")
def additive_scores(state, states, state_weight, states_weight, vector):
    return torch.tanh(state_weight @ state[0] + states @ states_weight.mT) @ vector


@wrong("weight-not-transposed")
def additive_scores(state, states, state_weight, states_weight, vector):
    return torch.tanh((state @ state_weight).unsqueeze(1) + states @ states_weight) @ vector


@wrong("projections-swapped")
def additive_scores(state, states, state_weight, states_weight, vector):
    return torch.tanh(F.linear(state, states_weight).unsqueeze(1) + F.linear(states, state_weight)) @ vector


@wrong("weights-for-scores")
def additive_scores(state, states, state_weight, states_weight, vector):
    energy = torch.tanh(F.linear(state, state_weight).unsqueeze(1) + F.linear(states, states_weight)) @ vector
    return F.softmax(energy, dim=1)


@wrong("transposed")
def additive_scores(state, states, state_weight, states_weight, vector):
    states = states.transpose(0, 1)  # positions first, as many recurrent layers have them
    return torch.tanh(F.linear(state, state_weight) + F.linear(states, states_weight)) @ vector


@wrong("axis-left-over")
def additive_scores(state, states, state_weight, states_weight, vector):
    hidden = torch.tanh(F.linear(state, state_weight).unsqueeze(1) + F.linear(states, states_weight))
    return F.linear(hidden, vector.unsqueeze(0))


@right
def padded_softmax(scores, lengths):
    mask = torch.arange(scores.shape[1]) < lengths[:, None]
    weights = torch.softmax(scores.masked_fill(~mask, float("-inf")), dim=1)
    return weights.masked_fill(~mask, 0.0)


@right
def padded_softmax(scores, lengths):
    weights = torch.zeros_like(scores)
    for b, length in enumerate(lengths):
        if length > 0:
            weights[b, :length] = torch.softmax(scores[b, :length], dim=0)
    return weights


@right
def padded_softmax(scores, lengths):
    rows = []
    for row, n in zip(scores, lengths.tolist(), strict=True):
        powers = torch.exp(row[:n] - row[:n].max()) if n else row[:0]
        rows.append(F.pad(powers / powers.sum(), (0, len(row) - n)))
    return torch.stack(rows)


@right
def padded_softmax(scores, lengths):
    positions = torch.arange(scores.size(-1)).expand_as(scores)
    padding = positions.ge(lengths.unsqueeze(-1))
    weights = F.softmax(scores.masked_fill(padding, torch.finfo(scores.dtype).min), dim=-1)
    return weights * padding.logical_not()


@right
def padded_softmax(scores, lengths):
    mask = torch.arange(scores.shape[1])[None, :] < lengths[:, None]
    safe = mask.clone()
    safe[lengths == 0] = True
    logits = torch.where(safe, scores, torch.full_like(scores, -torch.inf))
    weights = torch.exp(logits - torch.logsumexp(logits, dim=1, keepdim=True))
    return torch.where(mask, weights, torch.zeros_like(weights))


@wrong("padding-attended")
def padded_softmax(scores, lengths):
    return F.softmax(scores, dim=-1)


@wrong("padding-for-tokens")
def padded_softmax(scores, lengths):
    mask = torch.arange(scores.shape[1]) < lengths[:, None]
    return scores.masked_fill(mask, float("-inf")).softmax(dim=-1).nan_to_num()


@wrong("one-padding-token-kept")
def padded_softmax(scores, lengths):
    mask = torch.arange(scores.shape[1]) <= lengths[:, None]
    weights = scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)
    return weights.masked_fill(~mask, 0.0)


@wrong("last-token-lost")
def padded_softmax(scores, lengths):
    mask = torch.arange(1, scores.shape[1] + 1) < lengths[:, None]
    weights = scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)
    return weights.masked_fill(~mask, 0.0)


@wrong("one-length-for-all")
def padded_softmax(scores, lengths):
    longest = lengths.max()
    weights = torch.zeros_like(scores)
    weights[:, :longest] = scores[:, :longest].softmax(dim=1)
    return weights


@wrong("padding-in-front")
def padded_softmax(scores, lengths):
    weights = torch.zeros_like(scores)
    for b, n in enumerate(lengths.tolist()):
        if n:
            weights[b, -n:] = scores[b, -n:].softmax(dim=0)
    return weights


@wrong("mask-transposed")
def padded_softmax(scores, lengths):
    mask = torch.arange(scores.shape[1])[:, None] < lengths[None, :]
    return scores.masked_fill(~mask, float("-inf")).softmax(dim=1)


@wrong("lengths-against-positions")
def padded_softmax(scores, lengths):
    mask = torch.arange(scores.shape[1]) < lengths
    return scores.masked_fill(~mask, float("-inf")).softmax(dim=1)


@wrong("mask-after-softmax")
def padded_softmax(scores, lengths):
    weights = scores.softmax(dim=1)
    weights = weights.clone()
    for b, n in enumerate(lengths.tolist()):
        weights[b, n:] = 0
    return weights


@wrong("mask-as-zero-score")
def padded_softmax(scores, lengths):
    mask = torch.arange(scores.shape[1]) < lengths[:, None]
    return torch.where(mask, scores, torch.zeros_like(scores)).softmax(dim=1)


@wrong("renormalised-late")
def padded_softmax(scores, lengths):
    mask = torch.arange(scores.shape[1]) < lengths[:, None]
    weights = F.softmax(scores, dim=1) * mask
    total = weights.sum(dim=1, keepdim=True)
    return weights / torch.where(total == 0, torch.ones_like(total), total)


@wrong("empty-row-nan")
def padded_softmax(scores, lengths):
    mask = torch.arange(scores.shape[1]) >= lengths.view(-1, 1)
    return torch.softmax(scores.masked_fill(mask, -math.inf), dim=1)


@wrong("empty-row-uniform")
def padded_softmax(scores, lengths):
    mask = torch.arange(scores.shape[1]) < lengths[:, None]
    return scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(dim=1)


@wrong("empty-row-nan-gradient")
def padded_softmax(scores, lengths):
    mask = torch.arange(scores.shape[1]) < lengths[:, None]
    weights = (scores + torch.log(mask.to(scores.dtype))).softmax(dim=1)
    return torch.where(weights.isnan(), torch.zeros_like(weights), weights)


@wrong("half-overflow")
def padded_softmax(scores, lengths):
    mask = torch.arange(scores.shape[1]) < lengths[:, None]
    return scores.masked_fill(~mask, -1e9).softmax(dim=1) * mask


@wrong("exp-overflow")
def padded_softmax(scores, lengths):
    mask = torch.arange(scores.shape[1]) < lengths[:, None]
    powers = torch.exp(scores) * mask
    return powers / powers.sum(dim=1, keepdim=True).masked_fill((lengths == 0)[:, None], 1.0)


@wrong("softmax-over-batch")
def padded_softmax(scores, lengths):
    mask = torch.arange(scores.shape[1]) < lengths[:, None]
    return F.softmax(scores.masked_fill(~mask, float("-inf")), dim=0).nan_to_num()


@wrong("softmax-over-all")
def padded_softmax(scores, lengths):
    mask = torch.arange(scores.shape[1]) < lengths[:, None]
    powers = torch.exp(scores - scores.max()) * mask
    return powers / powers.sum()


@wrong("log-weights")
def padded_softmax(scores, lengths):
    mask = torch.arange(scores.shape[1]) < lengths[:, None]
    return scores.masked_fill(~mask, float("-inf")).log_softmax(dim=1)


@wrong("changes-inputs")
def padded_softmax(scores, lengths):
    mask = torch.arange(scores.shape[1]) < lengths[:, None]
    scores[~mask] = float("-inf")
    return scores.softmax(dim=1).masked_fill(~mask, 0.0)


@right
def context_vector(weights, states):
    return torch.einsum("bj,bjd->bd", weights, states)


@right
def context_vector(weights, states):
    return torch.bmm(weights.unsqueeze(1), states).squeeze(1)


@right
def context_vector(weights, states):
    return (weights[..., None] * states).sum(dim=1)


@right
def context_vector(weights, states):
    context = torch.zeros(len(states), states.shape[2], dtype=states.dtype)
    for j in range(states.shape[1]):
        context = context + weights[:, j : j + 1] * states[:, j]
    return context


@right
def context_vector(weights, states):
    return torch.stack([a @ h for a, h in zip(weights, states, strict=True)])


@wrong("plain-mean")
def context_vector(weights, states):
    return torch.mean(states, dim=1)


@wrong("hard-choice")
def context_vector(weights, states):
    best = weights.argmax(dim=1)
    return torch.stack([h[j] for h, j in zip(states, best, strict=True)])


@wrong("fixed-vector")
def context_vector(weights, states):
    return states[:, -1, :]


@wrong("divided-by-keys")
def context_vector(weights, states):
    return (weights.unsqueeze(-1) * states).mean(dim=1)


@wrong("renormalised")
def context_vector(weights, states):
    weights = weights / weights.sum(dim=1, keepdim=True)
    return torch.einsum("bj,bjd->bd", weights, states)


@wrong("softmax-twice")
def context_vector(weights, states):
    return torch.einsum("bj,bjd->bd", F.softmax(weights, dim=1), states)


@wrong("batch-mixed")
def context_vector(weights, states):
    return torch.matmul(weights, states)


@wrong("positions-not-summed")
def context_vector(weights, states):
    return torch.einsum("bj,bjd->bjd", weights, states)


@wrong("features-summed")
def context_vector(weights, states):
    return (weights[:, :, None] * states).sum(dim=-1)


@wrong("axis-left-over")
def context_vector(weights, states):
    return torch.bmm(weights[:, None], states)


@right
def bahdanau_step(cell, score, state, inputs, states, lengths):
    mask = torch.arange(states.shape[1]) < lengths[:, None]
    weights = score(state, states).masked_fill(~mask, float("-inf")).softmax(dim=1).masked_fill(~mask, 0.0)
    context = torch.einsum("bj,bjd->bd", weights, states)
    return cell(torch.cat([inputs, context], dim=1), state), context, weights


@right
def bahdanau_step(cell, score, state, inputs, states, lengths):
    scores = score(state, states)
    weights = torch.zeros_like(scores)
    for b, n in enumerate(lengths.tolist()):
        if n:
            weights[b, :n] = F.softmax(scores[b, :n], dim=-1)
    context = torch.bmm(weights.unsqueeze(1), states).squeeze(1)
    state = cell(torch.concat((inputs, context), -1), state)
    return [state, context, weights]


@right
def bahdanau_step(cell, score, state, inputs, states, lengths):
    # Sentence by sentence, each without its padding.
    new, contexts, rows = [], [], []
    for b in range(len(states)):
        n = int(lengths[b])
        h = states[b : b + 1, :n]
        a = score(state[b : b + 1], h).softmax(-1) if n else h[..., 0]
        c = (a.unsqueeze(-1) * h).sum(dim=1)
        new.append(cell(torch.hstack([inputs[b : b + 1], c]), state[b : b + 1]))
        contexts.append(c)
        rows.append(F.pad(a, (0, states.shape[1] - n)))
    return torch.cat(new), torch.cat(contexts), torch.cat(rows)


@right
def bahdanau_step(cell, score, state, inputs, states, lengths):
    padding = torch.arange(states.size(1)).unsqueeze(0) >= lengths.unsqueeze(1)
    scores = torch.where(padding, torch.finfo(states.dtype).min, score(state, states))
    weights = torch.exp(scores - scores.amax(dim=1, keepdim=True).detach()) * ~padding
    weights = weights / weights.sum(dim=1, keepdim=True).clamp(min=1e-30)
    context = (weights[:, :, None] * states).sum(1)
    joined = inputs.new_empty(len(inputs), inputs.shape[1] + context.shape[1])
    joined[:, : inputs.shape[1]] = inputs
    joined[:, inputs.shape[1] :] = context
    return cell(joined, state), context, weights


@wrong("padding-attended")
def bahdanau_step(cell, score, state, inputs, states, lengths):
    weights = score(state, states).softmax(dim=-1)
    context = (weights.unsqueeze(-1) * states).sum(dim=1)
    return cell(torch.cat([inputs, context], dim=-1), state), context, weights


@wrong("softmax-over-batch")
def bahdanau_step(cell, score, state, inputs, states, lengths):
    mask = torch.arange(states.shape[1]) < lengths[:, None]
    weights = score(state, states).masked_fill(~mask, float("-inf")).softmax(dim=0).masked_fill(~mask, 0.0)
    context = (weights.unsqueeze(-1) * states).sum(dim=1)
    return cell(torch.cat([inputs, context], dim=-1), state), context, weights


@wrong("empty-row-nan")
def bahdanau_step(cell, score, state, inputs, states, lengths):
    mask = torch.arange(states.shape[1]) < lengths[:, None]
    weights = score(state, states).masked_fill(~mask, float("-inf")).softmax(dim=1)
    context = (weights.unsqueeze(-1) * states).sum(dim=1)
    return cell(torch.cat([inputs, context], dim=-1), state), context, weights


@wrong("empty-row-uniform")
def bahdanau_step(cell, score, state, inputs, states, lengths):
    mask = torch.arange(states.shape[1]) < lengths[:, None]
    weights = score(state, states).masked_fill(~mask, -1e9).softmax(dim=1)
    context = (weights.unsqueeze(-1) * states).sum(dim=1)
    return cell(torch.cat([inputs, context], dim=-1), state), context, weights


@wrong("mask-after-softmax")
def bahdanau_step(cell, score, state, inputs, states, lengths):
    mask = torch.arange(states.shape[1]) < lengths[:, None]
    weights = score(state, states).softmax(dim=1) * mask
    context = (weights.unsqueeze(-1) * states).sum(dim=1)
    return cell(torch.cat([inputs, context], dim=-1), state), context, weights


@wrong("one-padding-token-kept")
def bahdanau_step(cell, score, state, inputs, states, lengths):
    mask = torch.arange(states.shape[1]) <= lengths[:, None]
    weights = score(state, states).masked_fill(~mask, float("-inf")).softmax(dim=1)
    context = (weights.unsqueeze(-1) * states).sum(dim=1)
    return cell(torch.cat([inputs, context], dim=-1), state), context, weights


@wrong("attends-from-new-state")
def bahdanau_step(cell, score, state, inputs, states, lengths):
    mask = torch.arange(states.shape[1]) < lengths[:, None]
    state = cell(F.pad(inputs, (0, states.shape[2])), state)
    weights = score(state, states).masked_fill(~mask, float("-inf")).softmax(dim=1).masked_fill(~mask, 0.0)
    return state, torch.einsum("bj,bjd->bd", weights, states), weights


@wrong("asks-again-after-step")
def bahdanau_step(cell, score, state, inputs, states, lengths):
    mask = torch.arange(states.shape[1]) < lengths[:, None]

    def attend(s):
        a = score(s, states).masked_fill(~mask, float("-inf")).softmax(dim=1).masked_fill(~mask, 0.0)
        return torch.einsum("bj,bjd->bd", a, states), a

    state = cell(torch.cat([inputs, attend(state)[0]], dim=1), state)
    return state, *attend(state)


@wrong("context-not-read")
def bahdanau_step(cell, score, state, inputs, states, lengths):
    mask = torch.arange(states.shape[1]) < lengths[:, None]
    weights = score(state, states).masked_fill(~mask, float("-inf")).softmax(dim=1).masked_fill(~mask, 0.0)
    context = torch.einsum("bj,bjd->bd", weights, states)
    return cell(torch.cat([inputs, 0 * context], dim=1), state), context, weights


@wrong("joined-in-wrong-order")
def bahdanau_step(cell, score, state, inputs, states, lengths):
    mask = torch.arange(states.shape[1]) < lengths[:, None]
    weights = score(state, states).masked_fill(~mask, float("-inf")).softmax(dim=1).masked_fill(~mask, 0.0)
    context = torch.einsum("bj,bjd->bd", weights, states)
    return cell(torch.cat([context, inputs], dim=1), state), context, weights


@wrong("returns-old-state")
def bahdanau_step(cell, score, state, inputs, states, lengths):
    mask = torch.arange(states.shape[1]) < lengths[:, None]
    weights = score(state, states).masked_fill(~mask, float("-inf")).softmax(dim=1).masked_fill(~mask, 0.0)
    context = torch.einsum("bj,bjd->bd", weights, states)
    cell(torch.cat([inputs, context], dim=1), state)
    return state, context, weights


@wrong("fixed-vector")
def bahdanau_step(cell, score, state, inputs, states, lengths):
    mask = torch.arange(states.shape[1]) < lengths[:, None]
    weights = score(state, states).masked_fill(~mask, float("-inf")).softmax(dim=1).masked_fill(~mask, 0.0)
    context = states[:, -1]
    return cell(torch.cat([inputs, context], dim=1), state), context, weights


@wrong("returns-scores")
def bahdanau_step(cell, score, state, inputs, states, lengths):
    mask = torch.arange(states.shape[1]) < lengths[:, None]
    scores = score(state, states)
    weights = scores.masked_fill(~mask, float("-inf")).softmax(dim=1).masked_fill(~mask, 0.0)
    context = torch.einsum("bj,bjd->bd", weights, states)
    return cell(torch.cat([inputs, context], dim=1), state), context, scores


@wrong("results-in-wrong-order")
def bahdanau_step(cell, score, state, inputs, states, lengths):
    mask = torch.arange(states.shape[1]) < lengths[:, None]
    weights = score(state, states).masked_fill(~mask, float("-inf")).softmax(dim=1).masked_fill(~mask, 0.0)
    context = torch.einsum("bj,bjd->bd", weights, states)
    return context, cell(torch.cat([inputs, context], dim=1), state), weights


@right
def luong_step(cell, score, weight, state, inputs, states, lengths):
    state = cell(inputs, state)
    mask = torch.arange(states.shape[1]) < lengths[:, None]
    weights = score(state, states).masked_fill(~mask, float("-inf")).softmax(dim=1).masked_fill(~mask, 0.0)
    context = torch.einsum("bj,bjd->bd", weights, states)
    return state, torch.tanh(torch.cat([context, state], dim=1) @ weight.T), weights


@right
def luong_step(cell, score, weight, state, inputs, states, lengths):
    state = cell(inputs, state)
    scores = score(state, states)
    weights = torch.zeros_like(scores)
    for b, n in enumerate(lengths):
        if n:
            weights[b, :n] = F.softmax(scores[b, :n], dim=-1)
    context = torch.bmm(weights.unsqueeze(1), states).squeeze(1)
    return [state, F.linear(torch.cat((context, state), -1), weight).tanh(), weights]


@right
def luong_step(cell, score, weight, state, inputs, states, lengths):
    # Two products with parts of the weight, and no joined vector.
    state = cell(inputs, state)
    padding = torch.arange(states.size(1)) >= lengths.unsqueeze(1)
    weights = F.softmax(score(state, states).masked_fill(padding, -1e30), dim=1) * ~padding
    context = (weights[:, :, None] * states).sum(1)
    on_context, on_state = weight.split([context.shape[1], state.shape[1]], dim=1)
    return state, (context @ on_context.mT + state @ on_state.mT).tanh(), weights


@right
def luong_step(cell, score, weight, state, inputs, states, lengths):
    new, attentional, rows = [], [], []
    for b in range(len(states)):
        s = cell(inputs[b : b + 1], state[b : b + 1])
        h = states[b : b + 1, : lengths[b]]
        a = score(s, h).softmax(dim=1) if lengths[b] else h.sum(dim=2)
        c = a @ h[0]
        attentional.append(torch.tanh(weight @ torch.cat([c[0], s[0]])))
        new.append(s[0])
        rows.append(F.pad(a[0], (0, states.shape[1] - int(lengths[b]))))
    return torch.stack(new), torch.stack(attentional), torch.stack(rows)


@wrong("attends-from-old-state")
def luong_step(cell, score, weight, state, inputs, states, lengths):
    mask = torch.arange(states.shape[1]) < lengths[:, None]
    weights = score(state, states).masked_fill(~mask, float("-inf")).softmax(dim=1).masked_fill(~mask, 0.0)
    context = torch.einsum("bj,bjd->bd", weights, states)
    state = cell(inputs, state)
    return state, torch.tanh(torch.cat([context, state], dim=1) @ weight.T), weights


@wrong("joins-old-state")
def luong_step(cell, score, weight, state, inputs, states, lengths):
    mask = torch.arange(states.shape[1]) < lengths[:, None]
    new = cell(inputs, state)
    weights = score(new, states).masked_fill(~mask, float("-inf")).softmax(dim=1).masked_fill(~mask, 0.0)
    context = torch.einsum("bj,bjd->bd", weights, states)
    return new, torch.tanh(torch.cat([context, state], dim=1) @ weight.T), weights


@wrong("returns-old-state")
def luong_step(cell, score, weight, state, inputs, states, lengths):
    mask = torch.arange(states.shape[1]) < lengths[:, None]
    new = cell(inputs, state)
    weights = score(new, states).masked_fill(~mask, float("-inf")).softmax(dim=1).masked_fill(~mask, 0.0)
    context = torch.einsum("bj,bjd->bd", weights, states)
    return state, torch.tanh(torch.cat([context, new], dim=1) @ weight.T), weights


@wrong("never-steps")
def luong_step(cell, score, weight, state, inputs, states, lengths):
    mask = torch.arange(states.shape[1]) < lengths[:, None]
    weights = score(state, states).masked_fill(~mask, float("-inf")).softmax(dim=1).masked_fill(~mask, 0.0)
    context = torch.einsum("bj,bjd->bd", weights, states)
    return state, torch.tanh(torch.cat([context, state], dim=1) @ weight.T), weights


@wrong("attentional-as-state")
def luong_step(cell, score, weight, state, inputs, states, lengths):
    mask = torch.arange(states.shape[1]) < lengths[:, None]
    state = cell(inputs, state)
    weights = score(state, states).masked_fill(~mask, float("-inf")).softmax(dim=1).masked_fill(~mask, 0.0)
    context = torch.einsum("bj,bjd->bd", weights, states)
    state = torch.tanh(torch.cat([context, state], dim=1) @ weight.T)
    return state, state, weights


@wrong("context-for-attentional")
def luong_step(cell, score, weight, state, inputs, states, lengths):
    mask = torch.arange(states.shape[1]) < lengths[:, None]
    state = cell(inputs, state)
    weights = score(state, states).masked_fill(~mask, float("-inf")).softmax(dim=1).masked_fill(~mask, 0.0)
    return state, torch.einsum("bj,bjd->bd", weights, states), weights


@wrong("no-tanh")
def luong_step(cell, score, weight, state, inputs, states, lengths):
    mask = torch.arange(states.shape[1]) < lengths[:, None]
    state = cell(inputs, state)
    weights = score(state, states).masked_fill(~mask, float("-inf")).softmax(dim=1).masked_fill(~mask, 0.0)
    context = torch.einsum("bj,bjd->bd", weights, states)
    return state, F.linear(torch.cat([context, state], dim=1), weight), weights


@wrong("joined-in-wrong-order")
def luong_step(cell, score, weight, state, inputs, states, lengths):
    mask = torch.arange(states.shape[1]) < lengths[:, None]
    state = cell(inputs, state)
    weights = score(state, states).masked_fill(~mask, float("-inf")).softmax(dim=1).masked_fill(~mask, 0.0)
    context = torch.einsum("bj,bjd->bd", weights, states)
    return state, torch.tanh(torch.cat([state, context], dim=1) @ weight.T), weights


@wrong("padding-attended")
def luong_step(cell, score, weight, state, inputs, states, lengths):
    state = cell(inputs, state)
    weights = score(state, states).softmax(dim=1)
    context = torch.einsum("bj,bjd->bd", weights, states)
    return state, torch.tanh(torch.cat([context, state], dim=1) @ weight.T), weights


@wrong("empty-row-nan-gradient")
def luong_step(cell, score, weight, state, inputs, states, lengths):
    state = cell(inputs, state)
    mask = torch.arange(states.shape[1]) < lengths[:, None]
    weights = (score(state, states) + mask.to(states.dtype).log()).softmax(dim=1).nan_to_num()
    context = torch.einsum("bj,bjd->bd", weights, states)
    return state, torch.tanh(torch.cat([context, state], dim=1) @ weight.T), weights


@wrong("weights-ignore-keys")
def luong_step(cell, score, weight, state, inputs, states, lengths):
    state = cell(inputs, state)
    mask = torch.arange(states.shape[1]) < lengths[:, None]
    weights = mask / lengths.clamp(min=1)[:, None].to(states.dtype)
    context = torch.einsum("bj,bjd->bd", weights, states)
    return state, torch.tanh(torch.cat([context, state], dim=1) @ weight.T), weights


@wrong("steps-twice")
def luong_step(cell, score, weight, state, inputs, states, lengths):
    mask = torch.arange(states.shape[1]) < lengths[:, None]
    for _ in range(2):
        state = cell(inputs, state)
    weights = score(state, states).masked_fill(~mask, float("-inf")).softmax(dim=1).masked_fill(~mask, 0.0)
    context = torch.einsum("bj,bjd->bd", weights, states)
    return state, torch.tanh(torch.cat([context, state], dim=1) @ weight.T), weights


@right
def monotonic_weights(stops, previous):
    arriving = torch.zeros_like(stops[:, 0])
    columns = []
    for j in range(stops.shape[1]):
        arriving = arriving + previous[:, j]
        columns.append(arriving * stops[:, j])
        arriving = arriving * (1 - stops[:, j])
    return torch.stack(columns, dim=1)


@right
def monotonic_weights(stops, previous):
    weights = torch.zeros_like(stops)
    for j in range(stops.shape[1]):
        for k in range(j + 1):
            weights[:, j] = weights[:, j] + previous[:, k] * (1 - stops[:, k:j]).prod(dim=1)
    return weights * stops


@right
def monotonic_weights(stops, previous):
    # A table of all products: row k starts at position k.
    length = stops.shape[1]
    passes = (1 - stops).unsqueeze(1).expand(-1, length, -1)
    started = torch.ones(length, length, dtype=torch.bool).triu(1)  # l > k, shifted: passed l - 1 >= k
    factors = torch.where(started, passes.roll(1, dims=2), torch.ones_like(passes))
    table = factors.cumprod(dim=2).triu()
    return stops * torch.einsum("bk,bkj->bj", previous, table)


@right
def monotonic_weights(stops, previous):
    rows = []
    for p, a in zip(stops, previous, strict=True):
        row = [a[0] * p[0]]
        come = a[0]
        for j in range(1, len(p)):
            come = a[j] + come * (1.0 - p[j - 1])
            row.append(come * p[j])
        rows.append(torch.stack(row))
    return torch.stack(rows)


@wrong("stops-without-history")
def monotonic_weights(stops, previous):
    return stops.clone()


@wrong("starts-anew-each-step")
def monotonic_weights(stops, previous):
    rest = torch.cat([torch.ones_like(stops[:, :1]), (1 - stops)[:, :-1]], dim=1).cumprod(dim=1)
    return stops * rest


@wrong("must-move-on")
def monotonic_weights(stops, previous):
    weights = torch.zeros_like(stops)
    for j in range(stops.shape[1]):
        for k in range(j):
            weights[:, j] = weights[:, j] + previous[:, k] * (1 - stops[:, k + 1 : j]).prod(dim=1)
    return weights * stops


@wrong("must-move-on")
def monotonic_weights(stops, previous):
    weights = torch.zeros_like(stops)
    for j in range(stops.shape[1]):
        for k in range(j):
            weights[:, j] = weights[:, j] + previous[:, k] * (1 - stops[:, k:j]).prod(dim=1)
    return weights * stops


@wrong("passes-the-stop-too")
def monotonic_weights(stops, previous):
    weights = torch.zeros_like(stops)
    for j in range(stops.shape[1]):
        for k in range(j + 1):
            weights[:, j] = weights[:, j] + previous[:, k] * (1 - stops[:, k : j + 1]).prod(dim=1)
    return weights * stops


@wrong("passes-unread-positions")
def monotonic_weights(stops, previous):
    weights = torch.zeros_like(stops)
    for j in range(stops.shape[1]):
        weights[:, j] = stops[:, j] * (1 - stops[:, :j]).prod(dim=1) * previous[:, : j + 1].sum(dim=1)
    return weights


@wrong("passes-for-free")
def monotonic_weights(stops, previous):
    return stops * torch.cumsum(previous, dim=1)


@wrong("stop-left-out")
def monotonic_weights(stops, previous):
    columns = [previous[:, 0]]
    for j in range(1, stops.shape[1]):
        columns.append(previous[:, j] + columns[-1] * (1 - stops[:, j - 1]))
    return torch.stack(columns, dim=1)


@wrong("stops-for-passes")
def monotonic_weights(stops, previous):
    arriving = torch.zeros_like(stops[:, 0])
    columns = []
    for j in range(stops.shape[1]):
        arriving = arriving + previous[:, j]
        columns.append(arriving * stops[:, j])
        arriving = arriving * stops[:, j]
    return torch.stack(columns, dim=1)


@wrong("only-one-position-on")
def monotonic_weights(stops, previous):
    moved = torch.zeros_like(previous)
    moved[:, 1:] = previous[:, :-1] * (1 - stops[:, :-1])
    return stops * (previous + moved)


@wrong("weights-forced-to-one")
def monotonic_weights(stops, previous):
    columns = [previous[:, 0]]
    for j in range(1, stops.shape[1]):
        columns.append(previous[:, j] + columns[-1] * (1 - stops[:, j - 1]))
    weights = stops * torch.stack(columns, dim=1)
    return weights / weights.sum(dim=1, keepdim=True)


@wrong("reads-backwards")
def monotonic_weights(stops, previous):
    weights = torch.zeros_like(stops)
    arriving = 0
    for j in reversed(range(stops.shape[1])):
        arriving = arriving + previous[:, j]
        weights[:, j] = arriving * stops[:, j]
        arriving = arriving * (1 - stops[:, j])
    return weights


@wrong("division-by-zero-product")
def monotonic_weights(stops, previous):
    products = torch.cumprod(torch.cat([torch.ones_like(stops[:, :1]), 1 - stops[:, :-1]], dim=1), dim=1)
    return stops * products * torch.cumsum(previous / products, dim=1)


@wrong("lost-after-certain-stop")
def monotonic_weights(stops, previous):
    products = torch.cumprod(torch.cat([torch.ones_like(stops[:, :1]), 1 - stops[:, :-1]], dim=1), dim=1)
    return stops * products * torch.cumsum(previous / products.clamp(1e-10, 1.0), dim=1)


@wrong("product-includes-stop")
def monotonic_weights(stops, previous):
    products = torch.cumprod(1 - stops, dim=1)
    return stops * products * torch.cumsum(previous / products.clamp(1e-10, 1.0), dim=1)
