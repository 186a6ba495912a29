"""Answers to the set `transformer`."""

import math

import torch
from torch.nn import functional as F

from tests.answers import Answers

answers = Answers()
right, wrong = answers.right, answers.wrong


@right
def decoder_block(
    inputs, memory, self_attend, cross_attend, feedforward, norm_1, norm_2, norm_3, real_source=None
):
    causal = torch.ones(inputs.shape[-2], inputs.shape[-2], dtype=torch.bool).tril()
    mask = None if real_source is None else real_source.unsqueeze(-2)
    normed = norm_1(inputs)
    x = inputs + self_attend(normed, normed, causal)
    x = x + cross_attend(norm_2(x), memory, mask)
    return x + feedforward(norm_3(x))


@right
def decoder_block(
    inputs, memory, self_attend, cross_attend, feedforward, norm_1, norm_2, norm_3, real_source=None
):
    target, source = inputs.shape[1], memory.shape[1]
    place = torch.arange(target)
    if real_source is None:
        real_source = torch.ones(len(inputs), source, dtype=torch.bool)
    mask = real_source[:, None, :].expand(-1, target, -1)
    steps = [
        lambda x: self_attend(norm_1(x), norm_1(x), place[:, None] >= place),
        lambda x: cross_attend(norm_2(x), memory, mask),
        lambda x: feedforward(norm_3(x)),
    ]
    for step in steps:
        inputs = inputs + step(inputs)
    return inputs


@right
def decoder_block(
    inputs, memory, self_attend, cross_attend, feedforward, norm_1, norm_2, norm_3, real_source=None
):
    outputs = []
    normed = norm_1(inputs)
    for i in range(inputs.shape[1]):
        x = inputs[:, i : i + 1]
        x = x + self_attend(normed[:, i : i + 1], normed[:, : i + 1], None)
        x = x + cross_attend(norm_2(x), memory, None if real_source is None else real_source[:, None])
        outputs.append(x + feedforward(norm_3(x)))
    return torch.cat(outputs, dim=1)


@right
def decoder_block(
    inputs, memory, self_attend, cross_attend, feedforward, norm_1, norm_2, norm_3, real_source=None
):
    causal = torch.triu(torch.ones(inputs.shape[1], inputs.shape[1]), diagonal=1) == 0
    outputs = []
    for b in range(inputs.shape[0]):
        x = inputs[b]
        x = x + self_attend(norm_1(x), norm_1(x), causal)
        source = memory[b] if real_source is None else memory[b][real_source[b]]
        x = x + cross_attend(norm_2(x), source, None)
        outputs.append(feedforward(norm_3(x)) + x)
    return torch.stack(outputs)


@wrong("decoder-sees-the-future")
def decoder_block(
    inputs, memory, self_attend, cross_attend, feedforward, norm_1, norm_2, norm_3, real_source=None
):
    mask = None if real_source is None else real_source[:, None, :]
    x = inputs + self_attend(norm_1(inputs), norm_1(inputs), None)
    x = x + cross_attend(norm_2(x), memory, mask)
    return x + feedforward(norm_3(x))


@wrong("causal-upside-down")
def decoder_block(
    inputs, memory, self_attend, cross_attend, feedforward, norm_1, norm_2, norm_3, real_source=None
):
    causal = torch.ones(inputs.shape[1], inputs.shape[1], dtype=torch.bool).tril()
    mask = None if real_source is None else real_source[:, None, :]
    x = inputs + self_attend(norm_1(inputs), norm_1(inputs), causal.T)
    x = x + cross_attend(norm_2(x), memory, mask)
    return x + feedforward(norm_3(x))


@wrong("causal-without-itself")
def decoder_block(
    inputs, memory, self_attend, cross_attend, feedforward, norm_1, norm_2, norm_3, real_source=None
):
    causal = torch.ones(inputs.shape[1], inputs.shape[1], dtype=torch.bool).tril()
    mask = None if real_source is None else real_source[:, None, :]
    x = inputs + self_attend(norm_1(inputs), norm_1(inputs), causal.tril(-1))
    x = x + cross_attend(norm_2(x), memory, mask)
    return x + feedforward(norm_3(x))


@wrong("source-mask-on-target")
def decoder_block(
    inputs, memory, self_attend, cross_attend, feedforward, norm_1, norm_2, norm_3, real_source=None
):
    causal = torch.ones(inputs.shape[1], inputs.shape[1], dtype=torch.bool).tril()
    mask = None if real_source is None else real_source[:, None, :]
    own = causal if mask is None else causal & mask
    x = inputs + self_attend(norm_1(inputs), norm_1(inputs), own)
    x = x + cross_attend(norm_2(x), memory, mask)
    return x + feedforward(norm_3(x))


@wrong("cross-before-self")
def decoder_block(
    inputs, memory, self_attend, cross_attend, feedforward, norm_1, norm_2, norm_3, real_source=None
):
    causal = torch.ones(inputs.shape[1], inputs.shape[1], dtype=torch.bool).tril()
    mask = None if real_source is None else real_source[:, None, :]
    x = inputs + cross_attend(norm_1(inputs), memory, mask)
    x = x + self_attend(norm_2(x), norm_2(x), causal)
    return x + feedforward(norm_3(x))


@wrong("attentions-in-parallel")
def decoder_block(
    inputs, memory, self_attend, cross_attend, feedforward, norm_1, norm_2, norm_3, real_source=None
):
    causal = torch.ones(inputs.shape[1], inputs.shape[1], dtype=torch.bool).tril()
    mask = None if real_source is None else real_source[:, None, :]
    own = self_attend(norm_1(inputs), norm_1(inputs), causal)
    x = inputs + own + cross_attend(norm_2(inputs), memory, mask)
    return x + feedforward(norm_3(x))


@wrong("feedforward-before-cross")
def decoder_block(
    inputs, memory, self_attend, cross_attend, feedforward, norm_1, norm_2, norm_3, real_source=None
):
    causal = torch.ones(inputs.shape[1], inputs.shape[1], dtype=torch.bool).tril()
    mask = None if real_source is None else real_source[:, None, :]
    x = inputs + self_attend(norm_1(inputs), norm_1(inputs), causal)
    x = x + feedforward(norm_2(x))
    return x + cross_attend(norm_3(x), memory, mask)


@wrong("memory-asks")
def decoder_block(
    inputs, memory, self_attend, cross_attend, feedforward, norm_1, norm_2, norm_3, real_source=None
):
    causal = torch.ones(inputs.shape[1], inputs.shape[1], dtype=torch.bool).tril()
    x = inputs + self_attend(norm_1(inputs), norm_1(inputs), causal)
    x = x + cross_attend(memory, norm_2(x), None)
    return x + feedforward(norm_3(x))


@wrong("memory-not-read")
def decoder_block(
    inputs, memory, self_attend, cross_attend, feedforward, norm_1, norm_2, norm_3, real_source=None
):
    causal = torch.ones(inputs.shape[1], inputs.shape[1], dtype=torch.bool).tril()
    mask = None if real_source is None else real_source[:, None, :]
    x = inputs + self_attend(norm_1(inputs), norm_1(inputs), causal)
    x = x + cross_attend(norm_2(x), norm_2(x), mask)
    return x + feedforward(norm_3(x))


@wrong("memory-normed")
def decoder_block(
    inputs, memory, self_attend, cross_attend, feedforward, norm_1, norm_2, norm_3, real_source=None
):
    causal = torch.ones(inputs.shape[1], inputs.shape[1], dtype=torch.bool).tril()
    mask = None if real_source is None else real_source[:, None, :]
    x = inputs + self_attend(norm_1(inputs), norm_1(inputs), causal)
    x = x + cross_attend(norm_2(x), norm_2(memory), mask)
    return x + feedforward(norm_3(x))


@wrong("causal-cross-attention")
def decoder_block(
    inputs, memory, self_attend, cross_attend, feedforward, norm_1, norm_2, norm_3, real_source=None
):
    causal = torch.ones(inputs.shape[1], inputs.shape[1], dtype=torch.bool).tril()
    mask = None if real_source is None else real_source[:, None, :]
    x = inputs + self_attend(norm_1(inputs), norm_1(inputs), causal)
    both = torch.ones(inputs.shape[1], memory.shape[1]).tril() == 1
    if mask is not None:
        both = both & mask
    x = x + cross_attend(norm_2(x), memory, both)
    return x + feedforward(norm_3(x))


@wrong("padding-ignored")
def decoder_block(
    inputs, memory, self_attend, cross_attend, feedforward, norm_1, norm_2, norm_3, real_source=None
):
    causal = torch.ones(inputs.shape[1], inputs.shape[1], dtype=torch.bool).tril()
    x = inputs + self_attend(norm_1(inputs), norm_1(inputs), causal)
    x = x + cross_attend(norm_2(x), memory, None)
    return x + feedforward(norm_3(x))


@wrong("mask-inverted")
def decoder_block(
    inputs, memory, self_attend, cross_attend, feedforward, norm_1, norm_2, norm_3, real_source=None
):
    causal = torch.ones(inputs.shape[1], inputs.shape[1], dtype=torch.bool).tril()
    mask = None if real_source is None else real_source[:, None, :]
    x = inputs + self_attend(norm_1(inputs), norm_1(inputs), causal)
    if mask is not None:
        mask = ~mask
    x = x + cross_attend(norm_2(x), memory, mask)
    return x + feedforward(norm_3(x))


@wrong("norm-left-out")
def decoder_block(
    inputs, memory, self_attend, cross_attend, feedforward, norm_1, norm_2, norm_3, real_source=None
):
    causal = torch.ones(inputs.shape[1], inputs.shape[1], dtype=torch.bool).tril()
    mask = None if real_source is None else real_source[:, None, :]
    x = inputs + self_attend(norm_1(inputs), norm_1(inputs), causal)
    x = x + cross_attend(x, memory, mask)
    return x + feedforward(norm_3(x))


@wrong("norms-swapped")
def decoder_block(
    inputs, memory, self_attend, cross_attend, feedforward, norm_1, norm_2, norm_3, real_source=None
):
    causal = torch.ones(inputs.shape[1], inputs.shape[1], dtype=torch.bool).tril()
    mask = None if real_source is None else real_source[:, None, :]
    x = inputs + self_attend(norm_2(inputs), norm_2(inputs), causal)
    x = x + cross_attend(norm_1(x), memory, mask)
    return x + feedforward(norm_3(x))


@wrong("post-norm")
def decoder_block(
    inputs, memory, self_attend, cross_attend, feedforward, norm_1, norm_2, norm_3, real_source=None
):
    causal = torch.ones(inputs.shape[1], inputs.shape[1], dtype=torch.bool).tril()
    mask = None if real_source is None else real_source[:, None, :]
    x = norm_1(inputs + self_attend(inputs, inputs, causal))
    x = norm_2(x + cross_attend(x, memory, mask))
    return norm_3(x + feedforward(x))


@wrong("residual-after-norm")
def decoder_block(
    inputs, memory, self_attend, cross_attend, feedforward, norm_1, norm_2, norm_3, real_source=None
):
    causal = torch.ones(inputs.shape[1], inputs.shape[1], dtype=torch.bool).tril()
    mask = None if real_source is None else real_source[:, None, :]
    x = norm_1(inputs)
    x = norm_2(x + self_attend(x, x, causal))
    x = norm_3(x + cross_attend(x, memory, mask))
    return x + feedforward(x)


@wrong("residual-missing")
def decoder_block(
    inputs, memory, self_attend, cross_attend, feedforward, norm_1, norm_2, norm_3, real_source=None
):
    causal = torch.ones(inputs.shape[1], inputs.shape[1], dtype=torch.bool).tril()
    mask = None if real_source is None else real_source[:, None, :]
    x = self_attend(norm_1(inputs), norm_1(inputs), causal)
    x = cross_attend(norm_2(x), memory, mask)
    return feedforward(norm_3(x))


@wrong("residual-missing")
def decoder_block(
    inputs, memory, self_attend, cross_attend, feedforward, norm_1, norm_2, norm_3, real_source=None
):
    causal = torch.ones(inputs.shape[1], inputs.shape[1], dtype=torch.bool).tril()
    mask = None if real_source is None else real_source[:, None, :]
    x = inputs + self_attend(norm_1(inputs), norm_1(inputs), causal)
    x = cross_attend(norm_2(x), memory, mask)
    return x + feedforward(norm_3(x))


@wrong("residual-from-the-start")
def decoder_block(
    inputs, memory, self_attend, cross_attend, feedforward, norm_1, norm_2, norm_3, real_source=None
):
    causal = torch.ones(inputs.shape[1], inputs.shape[1], dtype=torch.bool).tril()
    mask = None if real_source is None else real_source[:, None, :]
    x = inputs + self_attend(norm_1(inputs), norm_1(inputs), causal)
    x = inputs + cross_attend(norm_2(x), memory, mask)
    return inputs + feedforward(norm_3(x))


@right
def smoothed_loss(logits, target, smoothing, real_tokens):
    logs = logits.log_softmax(dim=-1)
    right_token = logs.gather(-1, target.unsqueeze(-1)).squeeze(-1)
    losses = -(1 - smoothing) * right_token - smoothing * logs.mean(dim=-1)
    return losses[real_tokens].mean()


@right
def smoothed_loss(logits, target, smoothing, real_tokens):
    vocabulary = logits.shape[-1]
    wanted = torch.full_like(logits, smoothing / vocabulary)
    wanted.scatter_add_(-1, target.unsqueeze(-1), torch.full_like(logits[..., :1], 1 - smoothing))
    losses = -(wanted * F.log_softmax(logits, dim=-1)).sum(dim=-1)
    return (losses * real_tokens).sum() / real_tokens.sum()


@right
def smoothed_loss(logits, target, smoothing, real_tokens):
    total, count = 0, 0
    for row, token, real in zip(logits.flatten(0, 1), target.flatten(), real_tokens.flatten(), strict=True):
        if real:
            logs = row - torch.logsumexp(row, dim=0)
            wanted = torch.full_like(row, smoothing / len(row))
            wanted[token] += 1 - smoothing
            total = total - wanted @ logs
            count += 1
    return total / count


@right
def smoothed_loss(logits, target, smoothing, real_tokens):
    logs = torch.log_softmax(logits[real_tokens], dim=-1)
    hot = F.one_hot(target[real_tokens], logits.shape[-1])
    wanted = hot * (1 - smoothing) + smoothing / logits.shape[-1]
    return torch.einsum("nv,nv->", wanted.to(logs.dtype), logs) / -len(logs)


@wrong("smoothing-ignored")
def smoothed_loss(logits, target, smoothing, real_tokens):
    vocabulary = logits.shape[-1]
    hot = F.one_hot(target, vocabulary).to(logits.dtype)
    wanted = hot
    losses = -(wanted * logits.log_softmax(dim=-1)).sum(dim=-1)
    return losses[real_tokens].mean()


@wrong("smoothing-over-others")
def smoothed_loss(logits, target, smoothing, real_tokens):
    vocabulary = logits.shape[-1]
    hot = F.one_hot(target, vocabulary).to(logits.dtype)
    wanted = torch.where(hot == 1, 1 - smoothing, smoothing / (vocabulary - 1))
    losses = -(wanted * logits.log_softmax(dim=-1)).sum(dim=-1)
    return losses[real_tokens].mean()


@wrong("smoothing-over-others-twice")
def smoothed_loss(logits, target, smoothing, real_tokens):
    vocabulary = logits.shape[-1]
    hot = F.one_hot(target, vocabulary).to(logits.dtype)
    wanted = hot * (1 - smoothing) + smoothing / (vocabulary - 1)
    losses = -(wanted * logits.log_softmax(dim=-1)).sum(dim=-1)
    return losses[real_tokens].mean()


@wrong("smoothing-own-share-missing")
def smoothed_loss(logits, target, smoothing, real_tokens):
    vocabulary = logits.shape[-1]
    wanted = torch.full_like(logits, smoothing / vocabulary)
    wanted.scatter_(-1, target.unsqueeze(-1), 1 - smoothing)
    losses = -(wanted * logits.log_softmax(dim=-1)).sum(dim=-1)
    return losses[real_tokens].mean()


@wrong("smoothing-turned-round")
def smoothed_loss(logits, target, smoothing, real_tokens):
    vocabulary = logits.shape[-1]
    hot = F.one_hot(target, vocabulary).to(logits.dtype)
    wanted = hot * smoothing + (1 - smoothing) / vocabulary
    losses = -(wanted * logits.log_softmax(dim=-1)).sum(dim=-1)
    return losses[real_tokens].mean()


@wrong("smoothing-not-shared")
def smoothed_loss(logits, target, smoothing, real_tokens):
    vocabulary = logits.shape[-1]
    hot = F.one_hot(target, vocabulary).to(logits.dtype)
    wanted = hot * (1 - smoothing) + smoothing
    losses = -(wanted * logits.log_softmax(dim=-1)).sum(dim=-1)
    return losses[real_tokens].mean()


@wrong("smoothing-on-top")
def smoothed_loss(logits, target, smoothing, real_tokens):
    vocabulary = logits.shape[-1]
    hot = F.one_hot(target, vocabulary).to(logits.dtype)
    wanted = hot + smoothing / vocabulary
    losses = -(wanted * logits.log_softmax(dim=-1)).sum(dim=-1)
    return losses[real_tokens].mean()


@wrong("smoothing-of-a-whole")
def smoothed_loss(logits, target, smoothing, real_tokens):
    vocabulary = logits.shape[-1]
    hot = F.one_hot(target, vocabulary).to(logits.dtype)
    wanted = (1.0 - smoothing) * hot + 1.0 / vocabulary
    losses = -(wanted * logits.log_softmax(dim=-1)).sum(dim=-1)
    return losses[real_tokens].mean()


@wrong("smoothed-padding-counted")
def smoothed_loss(logits, target, smoothing, real_tokens):
    vocabulary = logits.shape[-1]
    hot = F.one_hot(target, vocabulary).to(logits.dtype)
    wanted = hot * (1 - smoothing) + smoothing / vocabulary
    losses = -(wanted * logits.log_softmax(dim=-1)).sum(dim=-1)
    return losses.mean()


@wrong("smoothed-over-all-places")
def smoothed_loss(logits, target, smoothing, real_tokens):
    vocabulary = logits.shape[-1]
    hot = F.one_hot(target, vocabulary).to(logits.dtype)
    wanted = hot * (1 - smoothing) + smoothing / vocabulary
    losses = -(wanted * logits.log_softmax(dim=-1)).sum(dim=-1)
    return losses.masked_fill(~real_tokens, 0.0).mean()


@wrong("smoothed-sentences-alike")
def smoothed_loss(logits, target, smoothing, real_tokens):
    vocabulary = logits.shape[-1]
    hot = F.one_hot(target, vocabulary).to(logits.dtype)
    wanted = hot * (1 - smoothing) + smoothing / vocabulary
    losses = -(wanted * logits.log_softmax(dim=-1)).sum(dim=-1)
    counts = real_tokens.sum(dim=1)
    losses = (losses * real_tokens).sum(dim=1)[counts > 0] / counts[counts > 0]
    return losses.mean()


@wrong("smoothed-over-sentences")
def smoothed_loss(logits, target, smoothing, real_tokens):
    vocabulary = logits.shape[-1]
    hot = F.one_hot(target, vocabulary).to(logits.dtype)
    wanted = hot * (1 - smoothing) + smoothing / vocabulary
    losses = -(wanted * logits.log_softmax(dim=-1)).sum(dim=-1)
    return (losses * real_tokens).sum() / target.shape[0]


@wrong("smoothed-sum")
def smoothed_loss(logits, target, smoothing, real_tokens):
    vocabulary = logits.shape[-1]
    hot = F.one_hot(target, vocabulary).to(logits.dtype)
    wanted = hot * (1 - smoothing) + smoothing / vocabulary
    losses = -(wanted * logits.log_softmax(dim=-1)).sum(dim=-1)
    return losses[real_tokens].sum()


@wrong("logits-not-normalised")
def smoothed_loss(logits, target, smoothing, real_tokens):
    vocabulary = logits.shape[-1]
    hot = F.one_hot(target, vocabulary).to(logits.dtype)
    wanted = hot * (1 - smoothing) + smoothing / vocabulary
    losses = -(wanted * logits).sum(dim=-1)
    return losses[real_tokens].mean()


@wrong("logarithm-forgotten")
def smoothed_loss(logits, target, smoothing, real_tokens):
    vocabulary = logits.shape[-1]
    hot = F.one_hot(target, vocabulary).to(logits.dtype)
    wanted = hot * (1 - smoothing) + smoothing / vocabulary
    losses = -(wanted * F.softmax(logits, dim=-1)).sum(dim=-1)
    return losses[real_tokens].mean()


@wrong("log-underflow")
def smoothed_loss(logits, target, smoothing, real_tokens):
    vocabulary = logits.shape[-1]
    hot = F.one_hot(target, vocabulary).to(logits.dtype)
    wanted = hot * (1 - smoothing) + smoothing / vocabulary
    losses = -(wanted * torch.log(torch.softmax(logits, dim=-1))).sum(dim=-1)
    return losses[real_tokens].mean()


@wrong("normalised-over-places")
def smoothed_loss(logits, target, smoothing, real_tokens):
    vocabulary = logits.shape[-1]
    hot = F.one_hot(target, vocabulary).to(logits.dtype)
    wanted = hot * (1 - smoothing) + smoothing / vocabulary
    losses = -(wanted * logits.log_softmax(dim=1)).sum(dim=-1)
    return losses[real_tokens].mean()


@wrong("divergence-for-entropy")
def smoothed_loss(logits, target, smoothing, real_tokens):
    vocabulary = logits.shape[-1]
    wanted = torch.full_like(logits, smoothing / vocabulary)
    wanted.scatter_(-1, target.unsqueeze(-1), 1 - smoothing + smoothing / vocabulary)
    logs = logits.log_softmax(dim=-1)
    losses = F.kl_div(logs, wanted, reduction="none").sum(dim=-1)
    return losses[real_tokens].mean()


@right
def generate(step, prompt, length, end):
    logits, state = step(prompt, None)
    written = []
    ended = torch.zeros(len(prompt), dtype=torch.bool)
    for i in range(length):
        best = logits[:, -1].argmax(dim=-1).masked_fill(ended, end)
        ended = ended | (best == end)
        written.append(best)
        if i + 1 < length:
            logits, state = step(best.unsqueeze(1), state)
    return torch.stack(written, dim=1)


@right
def generate(step, prompt, length, end):
    tokens = torch.full((len(prompt), length), end)
    new, state = prompt, None
    for i in range(length):
        logits, state = step(new, state)
        new = logits[:, -1].argmax(dim=-1, keepdim=True)
        if i > 0:
            new[tokens[:, i - 1] == end] = end
        tokens[:, i] = new[:, 0]
        if (new == end).all():
            break
    return tokens


@right
def generate(step, prompt, length, end):
    rows = []
    for sentence in prompt:
        logits, state = step(sentence.unsqueeze(0), None)
        row = [int(logits[0, -1].argmax())]
        while len(row) < length and row[-1] != end:
            logits, state = step(torch.tensor([[row[-1]]]), state)
            row.append(int(logits[0, -1].argmax()))
        rows.append(row + [end] * (length - len(row)))
    return torch.tensor(rows)


@right
def generate(step, prompt, length, end):
    state = None
    for token in prompt.split(1, dim=1):
        logits, state = step(token, state)
    tokens = prompt.new_zeros(len(prompt), 0)
    while True:
        best = torch.topk(logits[:, -1], 1).indices
        best = torch.where((tokens == end).any(dim=1, keepdim=True), end, best)
        tokens = torch.cat([tokens, best], dim=1)
        if tokens.shape[1] == length:
            return tokens
        logits, state = step(best, state)


@wrong("no-cache")
def generate(step, prompt, length, end):
    new = prompt
    ended = torch.zeros(len(prompt), dtype=torch.bool)
    written = []
    for _ in range(length):
        logits, _ = step(new, None)
        best = logits[:, -1].argmax(dim=-1).masked_fill(ended, end)
        ended = ended | (best == end)
        written.append(best)
        new = torch.cat([prompt, torch.stack(written, dim=1)], dim=1)
    return torch.stack(written, dim=1)


@wrong("cache-not-passed")
def generate(step, prompt, length, end):
    new = prompt
    ended = torch.zeros(len(prompt), dtype=torch.bool)
    written = []
    for _ in range(length):
        logits, _ = step(new, None)
        best = logits[:, -1].argmax(dim=-1).masked_fill(ended, end)
        ended = ended | (best == end)
        written.append(best)
        new = best.unsqueeze(1)
    return torch.stack(written, dim=1)


@wrong("cache-and-all-tokens")
def generate(step, prompt, length, end):
    new, state = prompt, None
    ended = torch.zeros(len(prompt), dtype=torch.bool)
    written = []
    for _ in range(length):
        logits, state = step(new, state)
        best = logits[:, -1].argmax(dim=-1).masked_fill(ended, end)
        ended = ended | (best == end)
        written.append(best)
        new = torch.cat([prompt, torch.stack(written, dim=1)], dim=1)
    return torch.stack(written, dim=1)


@wrong("cache-not-updated")
def generate(step, prompt, length, end):
    logits, cache = step(prompt, None)
    tokens = logits[:, -1:].argmax(dim=-1)
    while tokens.shape[1] < length:
        last = tokens[:, -1:]
        logits, _ = step(last, cache)
        best = torch.where(last == end, end, logits[:, -1:].argmax(dim=-1))
        tokens = torch.cat([tokens, best], dim=1)
    return tokens


@wrong("end-in-prompt")
def generate(step, prompt, length, end):
    tokens, new, cache = prompt, prompt, None
    for _ in range(length):
        logits, cache = step(new, cache)
        new = torch.where(tokens[:, -1] == end, end, logits[:, -1].argmax(dim=-1)).unsqueeze(1)
        tokens = torch.cat([tokens, new], dim=1)
    return tokens[:, prompt.shape[1] :]


@wrong("end-in-prompt")
def generate(step, prompt, length, end):
    tokens, new, cache = prompt, prompt, None
    for _ in range(length):
        logits, cache = step(new, cache)
        new = logits[:, -1:].argmax(dim=-1)
        new[(tokens == end).any(dim=1)] = end
        tokens = torch.cat([tokens, new], dim=1)
    return tokens[:, prompt.shape[1] :]


@wrong("prompt-end-read-twice")
def generate(step, prompt, length, end):
    new, state = prompt, None
    _, state = step(prompt, None)
    new = prompt[:, -1:]
    ended = torch.zeros(len(prompt), dtype=torch.bool)
    written = []
    for _ in range(length):
        logits, state = step(new, state)
        best = logits[:, -1].argmax(dim=-1).masked_fill(ended, end)
        ended = ended | (best == end)
        written.append(best)
        new = best.unsqueeze(1)
    return torch.stack(written, dim=1)


@wrong("only-last-of-prompt")
def generate(step, prompt, length, end):
    new, state = prompt[:, -1:], None
    ended = torch.zeros(len(prompt), dtype=torch.bool)
    written = []
    for _ in range(length):
        logits, state = step(new, state)
        best = logits[:, -1].argmax(dim=-1).masked_fill(ended, end)
        ended = ended | (best == end)
        written.append(best)
        new = best.unsqueeze(1)
    return torch.stack(written, dim=1)


@wrong("first-place-read")
def generate(step, prompt, length, end):
    new, state = prompt, None
    ended = torch.zeros(len(prompt), dtype=torch.bool)
    written = []
    for _ in range(length):
        logits, state = step(new, state)
        best = logits[:, 0].argmax(dim=-1).masked_fill(ended, end)
        ended = ended | (best == end)
        written.append(best)
        new = best.unsqueeze(1)
    return torch.stack(written, dim=1)


@wrong("lowest-score-chosen")
def generate(step, prompt, length, end):
    new, state = prompt, None
    ended = torch.zeros(len(prompt), dtype=torch.bool)
    written = []
    for _ in range(length):
        logits, state = step(new, state)
        best = logits[:, -1].argmin(dim=-1).masked_fill(ended, end)
        ended = ended | (best == end)
        written.append(best)
        new = best.unsqueeze(1)
    return torch.stack(written, dim=1)


@wrong("goes-on-after-end")
def generate(step, prompt, length, end):
    new, state = prompt, None
    ended = torch.zeros(len(prompt), dtype=torch.bool)
    written = []
    for _ in range(length):
        logits, state = step(new, state)
        best = logits[:, -1].argmax(dim=-1)
        ended = ended | (best == end)
        written.append(best)
        new = best.unsqueeze(1)
    return torch.stack(written, dim=1)


@wrong("all-stop-with-the-first")
def generate(step, prompt, length, end):
    tokens = torch.full((len(prompt), length), end)
    new, state = prompt, None
    for i in range(length):
        logits, state = step(new, state)
        new = logits[:, -1].argmax(dim=-1, keepdim=True)
        tokens[:, i] = new[:, 0]
        if (new == end).any():
            break
    return tokens


@wrong("zeros-after-end")
def generate(step, prompt, length, end):
    new, state = prompt, None
    ended = torch.zeros(len(prompt), dtype=torch.bool)
    written = []
    for _ in range(length):
        logits, state = step(new, state)
        best = logits[:, -1].argmax(dim=-1).masked_fill(ended, end)
        ended = ended | (best == end)
        written.append(best)
        new = best.unsqueeze(1)
    tokens = torch.stack(written, dim=1)
    return tokens.masked_fill((tokens == end).cumsum(1) > 1, 0)


@wrong("read-once-too-often")
def generate(step, prompt, length, end):
    new, state = prompt, None
    ended = torch.zeros(len(prompt), dtype=torch.bool)
    written = []
    for _ in range(length):
        logits, state = step(new, state)
        best = logits[:, -1].argmax(dim=-1).masked_fill(ended, end)
        ended = ended | (best == end)
        written.append(best)
        new = best.unsqueeze(1)
    step(new, state)
    return torch.stack(written, dim=1)


@wrong("prompt-returned-too")
def generate(step, prompt, length, end):
    new, state = prompt, None
    ended = torch.zeros(len(prompt), dtype=torch.bool)
    written = []
    for _ in range(length):
        logits, state = step(new, state)
        best = logits[:, -1].argmax(dim=-1).masked_fill(ended, end)
        ended = ended | (best == end)
        written.append(best)
        new = best.unsqueeze(1)
    return torch.cat([prompt, torch.stack(written, dim=1)], dim=1)


@wrong("generated-one-too-few")
def generate(step, prompt, length, end):
    tokens, new, state = prompt, prompt, None
    for _ in range(1, length):
        logits, state = step(new, state)
        new = logits[:, -1].argmax(dim=-1, keepdim=True)
        if tokens.shape[1] > prompt.shape[1]:
            new = torch.where((tokens[:, prompt.shape[1] :] == end).any(dim=1, keepdim=True), end, new)
        tokens = torch.cat([tokens, new], dim=1)
    return tokens[:, prompt.shape[1] :]


@wrong("generated-one-too-many")
def generate(step, prompt, length, end):
    new, state = prompt, None
    ended = torch.zeros(len(prompt), dtype=torch.bool)
    written = []
    for _ in range(length + 1):
        logits, state = step(new, state)
        best = logits[:, -1].argmax(dim=-1).masked_fill(ended, end)
        ended = ended | (best == end)
        written.append(best)
        new = best.unsqueeze(1)
    return torch.stack(written, dim=1)


@right
def train_translator(model, source, target, source_lengths, steps):
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(steps):
        rows = torch.randint(len(source), (32,))
        logits = model(source[rows], target[rows, :-1], source_lengths[rows])
        loss = F.cross_entropy(logits.flatten(0, 1), target[rows, 1:].flatten(), ignore_index=0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@right
def train_translator(model, source, target, source_lengths, steps):
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        rows = torch.randperm(len(source))[:48]
        read, wanted = target[rows, :-1], target[rows, 1:]
        logs = model(source[rows], read, source_lengths[rows]).log_softmax(dim=-1)
        losses = -logs.gather(-1, wanted.unsqueeze(-1)).squeeze(-1)
        real = wanted != 0
        loss = losses[real].mean()
        for parameter in model.parameters():
            parameter.grad = None
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return model


@right
def train_translator(model, source, target, source_lengths, steps):
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3, betas=(0.9, 0.98))
    done, size = 0, 24
    while True:
        order = torch.randperm(len(source))
        for rows in order.split(size):
            if done == steps:
                return
            done += 1
            output = model(source[rows], target[rows][:, :-1], source_lengths[rows])
            optimizer.zero_grad(set_to_none=True)
            loss = F.cross_entropy(
                output.transpose(1, 2), target[rows][:, 1:], ignore_index=0, label_smoothing=0.05
            )
            loss.backward()
            optimizer.step()


@right
def train_translator(model, source, target, source_lengths, steps):
    data = torch.utils.data.TensorDataset(source, target, source_lengths)
    sampler = torch.utils.data.RandomSampler(data, replacement=True, num_samples=32 * steps)
    optimizer = torch.optim.RAdam(model.parameters(), lr=1e-2)
    model.train()
    for x, y, lengths in torch.utils.data.DataLoader(data, batch_size=32, sampler=sampler):
        wanted = y[:, 1:].masked_fill(y[:, 1:] == 0, -100)
        scores = model(x, y[:, :-1], lengths)
        loss = F.nll_loss(F.log_softmax(scores, -1).flatten(0, 1), wanted.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


@wrong("target-not-shifted")
def train_translator(model, source, target, source_lengths, steps):
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(steps):
        rows = torch.randint(len(source), (32,))
        wanted = target[rows, :-1]
        logits = model(source[rows], target[rows, :-1], source_lengths[rows])
        loss = F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@wrong("reads-what-it-predicts")
def train_translator(model, source, target, source_lengths, steps):
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(steps):
        rows = torch.randint(len(source), (32,))
        wanted = target[rows, 1:]
        logits = model(source[rows], target[rows, 1:], source_lengths[rows])
        loss = F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@wrong("padding-learned")
def train_translator(model, source, target, source_lengths, steps):
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(steps):
        rows = torch.randint(len(source), (32,))
        wanted = target[rows, 1:]
        logits = model(source[rows], target[rows, :-1], source_lengths[rows])
        loss = F.cross_entropy(logits.flatten(0, 1), wanted.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@wrong("gradients-not-reset")
def train_translator(model, source, target, source_lengths, steps):
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(steps):
        rows = torch.randint(len(source), (32,))
        wanted = target[rows, 1:]
        logits = model(source[rows], target[rows, :-1], source_lengths[rows])
        loss = F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=0)
        loss.backward()
        optimizer.step()


@wrong("trained-in-eval-mode")
def train_translator(model, source, target, source_lengths, steps):
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(steps):
        rows = torch.randint(len(source), (32,))
        wanted = target[rows, 1:]
        logits = model(source[rows], target[rows, :-1], source_lengths[rows])
        loss = F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@wrong("lengths-left-out")
def train_translator(model, source, target, source_lengths, steps):
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(steps):
        rows = torch.randint(len(source), (32,))
        wanted = target[rows, 1:]
        logits = model(source[rows], target[rows, :-1], torch.full((32,), source.shape[1]))
        loss = F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@wrong("lengths-left-out")
def train_translator(model, source, target, source_lengths, steps):
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(steps):
        rows = torch.randint(len(source), (32,))
        wanted = target[rows, 1:]
        logits = model(source[rows], target[rows, :-1], source_lengths[:32])
        loss = F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@wrong("one-batch-again-and-again")
def train_translator(model, source, target, source_lengths, steps):
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(steps):
        rows = torch.arange(32)
        wanted = target[rows, 1:]
        logits = model(source[rows], target[rows, :-1], source_lengths[rows])
        loss = F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@wrong("never-updated")
def train_translator(model, source, target, source_lengths, steps):
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(steps):
        rows = torch.randint(len(source), (32,))
        wanted = target[rows, 1:]
        logits = model(source[rows], target[rows, :-1], source_lengths[rows])
        loss = F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=0)
        optimizer.zero_grad()
        loss.backward()


@wrong("loss-made-larger")
def train_translator(model, source, target, source_lengths, steps):
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(steps):
        rows = torch.randint(len(source), (32,))
        wanted = target[rows, 1:]
        logits = model(source[rows], target[rows, :-1], source_lengths[rows])
        loss = -F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@wrong("steps-missed")
def train_translator(model, source, target, source_lengths, steps):
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(steps * (len(source) // 32)):
        rows = torch.randint(len(source), (32,))
        wanted = target[rows, 1:]
        logits = model(source[rows], target[rows, :-1], source_lengths[rows])
        loss = F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@right
def nucleus(logits, share):
    values, order = logits.sort(dim=-1, descending=True)
    mass = values.softmax(dim=-1)
    before = mass.cumsum(dim=-1) - mass
    values = values.masked_fill(before >= share, float("-inf"))
    return torch.empty_like(values).scatter(-1, order, values)


@right
def nucleus(logits, share):
    weights = logits.softmax(dim=-1)
    larger = weights.unsqueeze(-2) > weights.unsqueeze(-1)
    before = (larger * weights.unsqueeze(-2)).sum(dim=-1)
    return torch.where(before < share, logits, -math.inf)


@right
def nucleus(logits, share):
    rows = logits.reshape(-1, logits.shape[-1])
    result = []
    for row in rows:
        weights = F.softmax(row, dim=0)
        kept, mass = torch.zeros_like(row, dtype=torch.bool), 0.0
        for token in weights.argsort(descending=True):
            kept[token] = True
            mass += weights[token].item()
            if mass >= share:
                break
        result.append(row.masked_fill(~kept, float("-inf")))
    return torch.stack(result).reshape(logits.shape)


@right
def nucleus(logits, share):
    weights, order = torch.softmax(logits, dim=-1).sort(dim=-1, descending=True)
    removed = weights.cumsum(dim=-1) >= share
    removed = torch.cat([torch.zeros_like(removed[..., :1]), removed[..., :-1]], dim=-1)
    removed = removed.gather(-1, order.argsort(dim=-1))
    return logits.masked_fill(removed, float("-inf"))


@wrong("nucleus-below-share")
def nucleus(logits, share):
    values, order = logits.sort(dim=-1, descending=True)
    mass = values.softmax(dim=-1)
    removed = mass.cumsum(dim=-1) > share
    removed = removed.gather(-1, order.argsort(dim=-1))
    return logits.masked_fill(removed, float("-inf"))


@wrong("nucleus-below-share-but-one")
def nucleus(logits, share):
    values, order = logits.sort(dim=-1, descending=True)
    removed = values.softmax(dim=-1).cumsum(dim=-1) > share
    removed[..., 0] = False
    return logits.masked_fill(removed.gather(-1, order.argsort(dim=-1)), float("-inf"))


@wrong("nucleus-below-share-but-one")
def nucleus(logits, share):
    values, order = logits.sort(dim=-1, descending=True)
    kept = values.softmax(dim=-1).cumsum(dim=-1) < share
    kept[..., 0] = True
    return logits.masked_fill(~kept.gather(-1, order.argsort(dim=-1)), float("-inf"))


@wrong("nucleus-one-too-many")
def nucleus(logits, share):
    values, order = logits.sort(dim=-1, descending=True)
    removed = values.softmax(dim=-1).cumsum(dim=-1) >= share
    removed = F.pad(removed[..., :-2], (2, 0), value=False)
    return logits.masked_fill(removed.gather(-1, order.argsort(dim=-1)), float("-inf"))


@wrong("nucleus-in-sorted-order")
def nucleus(logits, share):
    values, _ = logits.sort(dim=-1, descending=True)
    mass = values.softmax(dim=-1)
    removed = mass.cumsum(dim=-1) - mass >= share
    return values.masked_fill(removed, float("-inf"))


@wrong("nucleus-places-mixed")
def nucleus(logits, share):
    values, order = logits.sort(dim=-1, descending=True)
    mass = values.softmax(dim=-1)
    removed = mass.cumsum(dim=-1) - mass >= share
    return logits.masked_fill(removed.gather(-1, order), float("-inf"))


@wrong("nucleus-of-the-least")
def nucleus(logits, share):
    values, order = logits.sort(dim=-1, descending=False)
    mass = values.softmax(dim=-1)
    removed = mass.cumsum(dim=-1) - mass >= share
    removed = removed.gather(-1, order.argsort(dim=-1))
    return logits.masked_fill(removed, float("-inf"))


@wrong("nucleus-of-logits")
def nucleus(logits, share):
    values, order = logits.sort(dim=-1, descending=True)
    mass = values
    removed = mass.cumsum(dim=-1) - mass >= share
    removed = removed.gather(-1, order.argsort(dim=-1))
    return logits.masked_fill(removed, float("-inf"))


@wrong("nucleus-zero-logits")
def nucleus(logits, share):
    values, order = logits.sort(dim=-1, descending=True)
    mass = values.softmax(dim=-1)
    removed = mass.cumsum(dim=-1) - mass >= share
    removed = removed.gather(-1, order.argsort(dim=-1))
    return logits.masked_fill(removed, 0.0)


@wrong("nucleus-as-weights")
def nucleus(logits, share):
    values, order = logits.sort(dim=-1, descending=True)
    mass = values.softmax(dim=-1)
    removed = mass.cumsum(dim=-1) - mass >= share
    removed = removed.gather(-1, order.argsort(dim=-1))
    return logits.masked_fill(removed, float("-inf")).softmax(dim=-1)


@wrong("nucleus-as-weights")
def nucleus(logits, share):
    values, order = logits.sort(dim=-1, descending=True)
    mass = values.softmax(dim=-1)
    removed = mass.cumsum(dim=-1) - mass >= share
    removed = removed.gather(-1, order.argsort(dim=-1))
    return logits.softmax(dim=-1).masked_fill(removed, 0.0)


@wrong("nucleus-as-log-weights")
def nucleus(logits, share):
    values, order = logits.sort(dim=-1, descending=True)
    mass = values.softmax(dim=-1)
    removed = mass.cumsum(dim=-1) - mass >= share
    removed = removed.gather(-1, order.argsort(dim=-1))
    return logits.log_softmax(dim=-1).masked_fill(removed, float("-inf"))


@wrong("nucleus-finite-outside")
def nucleus(logits, share):
    values, order = logits.sort(dim=-1, descending=True)
    mass = values.softmax(dim=-1)
    removed = mass.cumsum(dim=-1) - mass >= share
    removed = removed.gather(-1, order.argsort(dim=-1))
    return logits.masked_fill(removed, -1e9)


@wrong("threshold-for-each-token")
def nucleus(logits, share):
    return torch.where(logits.softmax(dim=-1) >= share, logits, float("-inf"))


@wrong("threshold-of-the-best")
def nucleus(logits, share):
    weights = logits.softmax(dim=-1)
    least = share * weights.max(dim=-1, keepdim=True).values
    return logits.masked_fill(weights < least, float("-inf"))


@wrong("nucleus-best-only")
def nucleus(logits, share):
    best = logits.max(dim=-1, keepdim=True).values
    return logits.masked_fill(logits < best, float("-inf"))
