"""Answers to the set `seq2seq`."""

import torch
from torch.nn import functional as F

from tests.answers import Answers

answers = Answers()
right, wrong = answers.right, answers.wrong


@right
def gru_step(inputs, state, input_weight, state_weight, input_bias, state_bias):
    i_r, i_z, i_n = F.linear(inputs, input_weight, input_bias).chunk(3, dim=1)
    h_r, h_z, h_n = F.linear(state, state_weight, state_bias).chunk(3, dim=1)
    r = torch.sigmoid(i_r + h_r)
    z = torch.sigmoid(i_z + h_z)
    n = torch.tanh(i_n + r * h_n)
    return (1 - z) * n + z * state


@right
def gru_step(inputs, state, input_weight, state_weight, input_bias, state_bias):
    d = state.shape[1]
    of_input = inputs @ input_weight.T + input_bias
    of_state = state @ state_weight.T + state_bias
    gates = (of_input[:, : 2 * d] + of_state[:, : 2 * d]).sigmoid()
    reset, update = gates[:, :d], gates[:, d:]
    new = (of_input[:, 2 * d :] + reset * of_state[:, 2 * d :]).tanh()
    return new + update * (state - new)


@right
def gru_step(inputs, state, input_weight, state_weight, input_bias, state_bias):
    d = state.size(-1)
    w_r, w_z, w_n = input_weight.view(3, d, -1)
    u_r, u_z, u_n = state_weight.view(3, d, d)
    b_r, b_z, b_n = input_bias.view(3, d)
    c_r, c_z, c_n = state_bias.view(3, d)

    def product(weight, vectors):
        return torch.einsum("ij,bj->bi", weight, vectors)

    r = torch.sigmoid(product(w_r, inputs) + b_r + product(u_r, state) + c_r)
    z = torch.sigmoid(product(w_z, inputs) + b_z + product(u_z, state) + c_z)
    n = torch.tanh(product(w_n, inputs) + b_n + r * (product(u_n, state) + c_n))
    return torch.lerp(n, state, z)


@right
def gru_step(inputs, state, input_weight, state_weight, input_bias, state_bias):
    rows = []
    for x, h in zip(inputs, state, strict=True):
        a = input_weight @ x + input_bias
        b = state_weight @ h + state_bias
        (a_r, a_z, a_n), (b_r, b_z, b_n) = a.split(len(h)), b.split(len(h))
        r = 1 / (1 + torch.exp(-(a_r + b_r)))
        z = 1 / (1 + torch.exp(-(a_z + b_z)))
        rows.append((1 - z) * torch.tanh(a_n + r * b_n) + z * h)
    return torch.stack(rows)


@wrong("reset-before-product")
def gru_step(inputs, state, input_weight, state_weight, input_bias, state_bias):
    w_r, w_z, w_n = input_weight.chunk(3)
    u_r, u_z, u_n = state_weight.chunk(3)
    b_r, b_z, b_n = input_bias.chunk(3)
    c_r, c_z, c_n = state_bias.chunk(3)
    r = torch.sigmoid(inputs @ w_r.mT + b_r + state @ u_r.mT + c_r)
    z = torch.sigmoid(inputs @ w_z.mT + b_z + state @ u_z.mT + c_z)
    n = torch.tanh(inputs @ w_n.mT + b_n + (r * state) @ u_n.mT + c_n)
    return (1 - z) * n + z * state


@wrong("reset-skips-bias")
def gru_step(inputs, state, input_weight, state_weight, input_bias, state_bias):
    w_r, w_z, w_n = input_weight.chunk(3)
    u_r, u_z, u_n = state_weight.chunk(3)
    b_r, b_z, b_n = input_bias.chunk(3)
    c_r, c_z, c_n = state_bias.chunk(3)
    r = torch.sigmoid(inputs @ w_r.mT + b_r + state @ u_r.mT + c_r)
    z = torch.sigmoid(inputs @ w_z.mT + b_z + state @ u_z.mT + c_z)
    n = torch.tanh(inputs @ w_n.mT + b_n + r * (state @ u_n.mT) + c_n)
    return (1 - z) * n + z * state


@wrong("reset-on-everything")
def gru_step(inputs, state, input_weight, state_weight, input_bias, state_bias):
    i_r, i_z, i_n = F.linear(inputs, input_weight, input_bias).chunk(3, dim=1)
    h_r, h_z, h_n = F.linear(state, state_weight, state_bias).chunk(3, dim=1)
    r = torch.sigmoid(i_r + h_r)
    z = torch.sigmoid(i_z + h_z)
    n = torch.tanh(r * (i_n + h_n))
    return (1 - z) * n + z * state


@wrong("reset-on-input")
def gru_step(inputs, state, input_weight, state_weight, input_bias, state_bias):
    i_r, i_z, i_n = F.linear(inputs, input_weight, input_bias).chunk(3, dim=1)
    h_r, h_z, h_n = F.linear(state, state_weight, state_bias).chunk(3, dim=1)
    r = torch.sigmoid(i_r + h_r)
    z = torch.sigmoid(i_z + h_z)
    n = torch.tanh(r * i_n + h_n)
    return (1 - z) * n + z * state


@wrong("reset-left-out")
def gru_step(inputs, state, input_weight, state_weight, input_bias, state_bias):
    of_input = F.linear(inputs, input_weight, input_bias).chunk(3, dim=1)
    of_state = F.linear(state, state_weight, state_bias).chunk(3, dim=1)
    z = torch.sigmoid(of_input[1] + of_state[1])
    n = torch.tanh(of_input[2] + of_state[2])
    return (1 - z) * n + z * state


@wrong("candidate-without-tanh")
def gru_step(inputs, state, input_weight, state_weight, input_bias, state_bias):
    i_r, i_z, i_n = F.linear(inputs, input_weight, input_bias).chunk(3, dim=1)
    h_r, h_z, h_n = F.linear(state, state_weight, state_bias).chunk(3, dim=1)
    r = torch.sigmoid(i_r + h_r)
    z = torch.sigmoid(i_z + h_z)
    n = i_n + r * h_n
    return (1 - z) * n + z * state


@wrong("candidate-with-sigmoid")
def gru_step(inputs, state, input_weight, state_weight, input_bias, state_bias):
    i_r, i_z, i_n = F.linear(inputs, input_weight, input_bias).chunk(3, dim=1)
    h_r, h_z, h_n = F.linear(state, state_weight, state_bias).chunk(3, dim=1)
    r = torch.sigmoid(i_r + h_r)
    z = torch.sigmoid(i_z + h_z)
    n = torch.sigmoid(i_n + r * h_n)
    return (1 - z) * n + z * state


@wrong("gates-swapped")
def gru_step(inputs, state, input_weight, state_weight, input_bias, state_bias):
    i_z, i_r, i_n = F.linear(inputs, input_weight, input_bias).chunk(3, dim=1)
    h_z, h_r, h_n = F.linear(state, state_weight, state_bias).chunk(3, dim=1)
    r = torch.sigmoid(i_r + h_r)
    z = torch.sigmoid(i_z + h_z)
    n = torch.tanh(i_n + r * h_n)
    return (1 - z) * n + z * state


@wrong("gates-in-wrong-order")
def gru_step(inputs, state, input_weight, state_weight, input_bias, state_bias):
    i_n, i_r, i_z = F.linear(inputs, input_weight, input_bias).chunk(3, dim=1)
    h_n, h_r, h_z = F.linear(state, state_weight, state_bias).chunk(3, dim=1)
    r = torch.sigmoid(i_r + h_r)
    z = torch.sigmoid(i_z + h_z)
    n = torch.tanh(i_n + r * h_n)
    return (1 - z) * n + z * state


@wrong("gates-interleaved")
def gru_step(inputs, state, input_weight, state_weight, input_bias, state_bias):
    i_r, i_z, i_n = F.linear(inputs, input_weight, input_bias).view(len(state), -1, 3).unbind(dim=-1)
    h_r, h_z, h_n = F.linear(state, state_weight, state_bias).view(len(state), -1, 3).unbind(dim=-1)
    r = torch.sigmoid(i_r + h_r)
    z = torch.sigmoid(i_z + h_z)
    n = torch.tanh(i_n + r * h_n)
    return (1 - z) * n + z * state


@wrong("gates-without-sigmoid")
def gru_step(inputs, state, input_weight, state_weight, input_bias, state_bias):
    i_r, i_z, i_n = F.linear(inputs, input_weight, input_bias).chunk(3, dim=1)
    h_r, h_z, h_n = F.linear(state, state_weight, state_bias).chunk(3, dim=1)
    r = i_r + h_r
    z = i_z + h_z
    n = torch.tanh(i_n + r * h_n)
    return (1 - z) * n + z * state


@wrong("gates-with-tanh")
def gru_step(inputs, state, input_weight, state_weight, input_bias, state_bias):
    i_r, i_z, i_n = F.linear(inputs, input_weight, input_bias).chunk(3, dim=1)
    h_r, h_z, h_n = F.linear(state, state_weight, state_bias).chunk(3, dim=1)
    r = torch.tanh(i_r + h_r)
    z = torch.tanh(i_z + h_z)
    n = torch.tanh(i_n + r * h_n)
    return (1 - z) * n + z * state


@wrong("update-inverted")
def gru_step(inputs, state, input_weight, state_weight, input_bias, state_bias):
    i_r, i_z, i_n = F.linear(inputs, input_weight, input_bias).chunk(3, dim=1)
    h_r, h_z, h_n = F.linear(state, state_weight, state_bias).chunk(3, dim=1)
    r = torch.sigmoid(i_r + h_r)
    z = torch.sigmoid(i_z + h_z)
    n = torch.tanh(i_n + r * h_n)
    return z * n + (1 - z) * state


@wrong("candidate-only")
def gru_step(inputs, state, input_weight, state_weight, input_bias, state_bias):
    of_input = F.linear(inputs, input_weight, input_bias).chunk(3, dim=1)
    of_state = F.linear(state, state_weight, state_bias).chunk(3, dim=1)
    r = torch.sigmoid(of_input[0] + of_state[0])
    return torch.tanh(of_input[2] + r * of_state[2])


@wrong("old-state-lost")
def gru_step(inputs, state, input_weight, state_weight, input_bias, state_bias):
    i_r, i_z, i_n = F.linear(inputs, input_weight, input_bias).chunk(3, dim=1)
    h_r, h_z, h_n = F.linear(state, state_weight, state_bias).chunk(3, dim=1)
    r = torch.sigmoid(i_r + h_r)
    z = torch.sigmoid(i_z + h_z)
    n = torch.tanh(i_n + r * h_n)
    return (1 - z) * n


@wrong("old-state-kept-whole")
def gru_step(inputs, state, input_weight, state_weight, input_bias, state_bias):
    i_r, i_z, i_n = F.linear(inputs, input_weight, input_bias).chunk(3, dim=1)
    h_r, h_z, h_n = F.linear(state, state_weight, state_bias).chunk(3, dim=1)
    r = torch.sigmoid(i_r + h_r)
    z = torch.sigmoid(i_z + h_z)
    n = torch.tanh(i_n + r * h_n)
    return (1 - z) * n + state


@wrong("state-bias-left-out")
def gru_step(inputs, state, input_weight, state_weight, input_bias, state_bias):
    i_r, i_z, i_n = F.linear(inputs, input_weight, input_bias).chunk(3, dim=1)
    h_r, h_z, h_n = F.linear(state, state_weight).chunk(3, dim=1)
    r = torch.sigmoid(i_r + h_r)
    z = torch.sigmoid(i_z + h_z)
    n = torch.tanh(i_n + r * h_n)
    return (1 - z) * n + z * state


@wrong("biases-left-out")
def gru_step(inputs, state, input_weight, state_weight, input_bias, state_bias):
    i_r, i_z, i_n = F.linear(inputs, input_weight).chunk(3, dim=1)
    h_r, h_z, h_n = F.linear(state, state_weight).chunk(3, dim=1)
    r = torch.sigmoid(i_r + h_r)
    z = torch.sigmoid(i_z + h_z)
    n = torch.tanh(i_n + r * h_n)
    return (1 - z) * n + z * state


@right
def encode(step, inputs, lengths, state):
    states = []
    for j in range(inputs.shape[1]):
        new = step(inputs[:, j], state)
        real = (j < lengths).unsqueeze(1)
        state = torch.where(real, new, state)
        states.append(torch.where(real, new, torch.zeros_like(new)))
    return torch.stack(states, dim=1), state


@right
def encode(step, inputs, lengths, state):
    all_states = torch.zeros(*inputs.shape[:2], state.shape[1], dtype=inputs.dtype)
    last = state.clone()
    for b in range(len(inputs)):
        for j in range(int(lengths[b])):
            last[b] = step(inputs[b : b + 1, j], last[b : b + 1].clone())[0]
            all_states[b, j] = last[b]
    return all_states, last


@right
def encode(step, inputs, lengths, state):
    # Read everything, then pick: the states of tokens never see what comes later.
    states = [state]
    for x in inputs.unbind(dim=1):
        states.append(step(x, states[-1]))
    states = torch.stack(states, dim=1)
    last = states.gather(1, lengths.view(-1, 1, 1).expand(-1, 1, states.shape[2])).squeeze(1)
    mask = torch.arange(inputs.shape[1]) < lengths[:, None]
    return states[:, 1:] * mask[..., None], last


@right
def encode(step, inputs, lengths, state):
    # Longest first, and only the sentences that still have a token, as a packed sequence does it.
    order = lengths.argsort(descending=True)
    back = order.argsort()
    inputs, lengths, state = inputs[order], lengths[order], state[order]
    columns = []
    for j in range(inputs.shape[1]):
        active = int((lengths > j).sum())
        if active:
            state = torch.cat([step(inputs[:active, j], state[:active]), state[active:]])
        columns.append(torch.cat([state[:active], torch.zeros_like(state[active:])]))
    return torch.stack(columns, dim=1)[back], state[back]


@wrong("reads-padding")
def encode(step, inputs, lengths, state):
    states = []
    for j in range(inputs.shape[1]):
        state = step(inputs[:, j], state)
        states.append(state)
    return torch.stack(states, dim=1), state


@wrong("last-reads-padding")
def encode(step, inputs, lengths, state):
    states = []
    for j in range(inputs.shape[1]):
        state = step(inputs[:, j], state)
        states.append(state)
    mask = (torch.arange(inputs.shape[1]) < lengths[:, None]).unsqueeze(-1)
    return torch.stack(states, dim=1) * mask, state


@wrong("last-column-of-zeros")
def encode(step, inputs, lengths, state):
    states = []
    for j in range(inputs.shape[1]):
        state = step(inputs[:, j], state)
        states.append(state)
    mask = (torch.arange(inputs.shape[1]) < lengths[:, None]).unsqueeze(-1)
    states = torch.stack(states, dim=1) * mask
    return states, states[:, -1]


@wrong("padding-read-as-zeros")
def encode(step, inputs, lengths, state):
    mask = (torch.arange(inputs.shape[1]) < lengths[:, None]).unsqueeze(-1)
    inputs = inputs * mask
    states = []
    for j in range(inputs.shape[1]):
        state = step(inputs[:, j], state)
        states.append(state)
    return torch.stack(states, dim=1) * mask, state


@wrong("states-of-padding-left")
def encode(step, inputs, lengths, state):
    states = []
    for j in range(inputs.shape[1]):
        new = step(inputs[:, j], state if j == 0 else states[-1])
        states.append(new)
    everything = torch.stack([state, *states], dim=1)
    return everything[:, 1:], everything[torch.arange(len(inputs)), lengths]


@wrong("padding-repeats-last")
def encode(step, inputs, lengths, state):
    states = []
    for j in range(inputs.shape[1]):
        state = torch.where((j < lengths)[:, None], step(inputs[:, j], state), state)
        states.append(state)
    return torch.stack(states, dim=1), state


@wrong("last-one-early")
def encode(step, inputs, lengths, state):
    first = state
    states = []
    for j in range(inputs.shape[1]):
        new = step(inputs[:, j], state)
        states.append(torch.where((j < lengths)[:, None], new, torch.zeros_like(new)))
        state = torch.where((j < lengths)[:, None], new, state)
    everything = torch.stack([first, *states], dim=1)
    return everything[:, 1:], everything[torch.arange(len(inputs)), (lengths - 1).clamp(min=0)]


@wrong("last-one-late")
def encode(step, inputs, lengths, state):
    states = []
    for j in range(inputs.shape[1]):
        new = step(inputs[:, j], state)
        states.append(torch.where((j < lengths)[:, None], new, torch.zeros_like(new)))
        state = torch.where((j <= lengths)[:, None], new, state)
    return torch.stack(states, dim=1), state


@wrong("last-is-mean")
def encode(step, inputs, lengths, state):
    states = []
    for j in range(inputs.shape[1]):
        state = step(inputs[:, j], state)
        states.append(state)
    mask = (torch.arange(inputs.shape[1]) < lengths[:, None]).unsqueeze(-1)
    states = torch.stack(states, dim=1) * mask
    return states, states.sum(dim=1) / lengths.clamp(min=1)[:, None]


@wrong("empty-sentence-wraps-around")
def encode(step, inputs, lengths, state):
    states = []
    for j in range(inputs.shape[1]):
        state = step(inputs[:, j], state)
        states.append(state)
    mask = (torch.arange(inputs.shape[1]) < lengths[:, None]).unsqueeze(-1)
    states = torch.stack(states, dim=1)
    return states * mask, states[torch.arange(len(states)), lengths - 1]


@wrong("state-starts-anew")
def encode(step, inputs, lengths, state):
    first = state
    states = []
    for j in range(inputs.shape[1]):
        new = step(inputs[:, j], first)
        real = (j < lengths)[:, None]
        states.append(new * real)
        state = torch.where(real, new, state)
    return torch.stack(states, dim=1), state


@wrong("start-state-ignored")
def encode(step, inputs, lengths, state):
    state = torch.zeros_like(state)
    states = []
    for j in range(inputs.shape[1]):
        new = step(inputs[:, j], state)
        real = (j < lengths).unsqueeze(1)
        state = torch.where(real, new, state)
        states.append(torch.where(real, new, torch.zeros_like(new)))
    return torch.stack(states, dim=1), state


@wrong("results-in-wrong-order")
def encode(step, inputs, lengths, state):
    states = []
    for j in range(inputs.shape[1]):
        new = step(inputs[:, j], state)
        real = (j < lengths).unsqueeze(1)
        state = torch.where(real, new, state)
        states.append(torch.where(real, new, torch.zeros_like(new)))
    return state, torch.stack(states, dim=1)


@right
def token_loss(logits, targets, lengths):
    mask = torch.arange(targets.shape[1]) < lengths[:, None]
    log_probabilities = torch.log_softmax(logits, dim=-1)
    losses = -log_probabilities.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    return losses[mask].mean()


@right
def token_loss(logits, targets, lengths):
    mask = torch.arange(targets.shape[1]) < lengths[:, None]
    losses = F.cross_entropy(logits.transpose(1, 2), targets, reduction="none")
    return (losses * mask).sum() / lengths.sum()


@right
def token_loss(logits, targets, lengths):
    mask = torch.arange(targets.shape[1]) < lengths[:, None]
    return F.cross_entropy(logits.flatten(0, 1), targets.masked_fill(~mask, -100).flatten())


@right
def token_loss(logits, targets, lengths):
    total = 0
    for row, target, n in zip(logits, targets, lengths.tolist(), strict=True):
        for i in range(n):
            total = total + torch.logsumexp(row[i], dim=0) - row[i, target[i]]
    return total / lengths.sum()


@right
def token_loss(logits, targets, lengths):
    logits = torch.cat([row[:n] for row, n in zip(logits, lengths, strict=True)])
    targets = torch.cat([row[:n] for row, n in zip(targets, lengths, strict=True)])
    return F.nll_loss(F.log_softmax(logits, dim=1), targets)


@wrong("loss-of-padding")
def token_loss(logits, targets, lengths):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


@wrong("divided-by-padding-too")
def token_loss(logits, targets, lengths):
    mask = torch.arange(targets.shape[1]) < lengths[:, None]
    losses = F.cross_entropy(logits.transpose(1, 2), targets, reduction="none")
    return (losses * mask).mean()


@wrong("mean-of-sentence-means")
def token_loss(logits, targets, lengths):
    mask = torch.arange(targets.shape[1]) < lengths[:, None]
    losses = F.cross_entropy(logits.transpose(1, 2), targets, reduction="none")
    means = (losses * mask).sum(dim=1) / mask.sum(dim=1)
    return means.mean()


@wrong("mean-of-sentence-means")
def token_loss(logits, targets, lengths):
    means = [
        F.cross_entropy(row[:n], t[:n]) for row, t, n in zip(logits, targets, lengths, strict=True) if n > 0
    ]
    return torch.stack(means).mean()


@wrong("divided-by-sentences")
def token_loss(logits, targets, lengths):
    mask = torch.arange(targets.shape[1]) < lengths[:, None]
    losses = F.cross_entropy(logits.transpose(1, 2), targets, reduction="none")
    return (losses * mask).sum() / len(logits)


@wrong("sum-for-mean")
def token_loss(logits, targets, lengths):
    mask = torch.arange(targets.shape[1]) < lengths[:, None]
    losses = F.cross_entropy(logits.transpose(1, 2), targets, reduction="none")
    return losses[mask].sum()


@wrong("loss-for-each-token")
def token_loss(logits, targets, lengths):
    mask = torch.arange(targets.shape[1]) < lengths[:, None]
    losses = F.cross_entropy(logits.transpose(1, 2), targets, reduction="none")
    return losses.masked_fill(~mask, 0.0)


@wrong("loss-for-each-sentence")
def token_loss(logits, targets, lengths):
    mask = torch.arange(targets.shape[1]) < lengths[:, None]
    losses = F.cross_entropy(logits.transpose(1, 2), targets, reduction="none")
    return (losses * mask).sum(dim=1) / lengths.clamp(min=1)


@wrong("loss-of-zeroed-logits")
def token_loss(logits, targets, lengths):
    mask = torch.arange(targets.shape[1]) < lengths[:, None]
    logits = logits * mask.unsqueeze(-1)
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


@wrong("loss-of-one-padding-token")
def token_loss(logits, targets, lengths):
    mask = torch.arange(targets.shape[1]) <= lengths[:, None]
    losses = F.cross_entropy(logits.transpose(1, 2), targets, reduction="none")
    return losses[mask].mean()


@wrong("loss-without-last-token")
def token_loss(logits, targets, lengths):
    mask = torch.arange(targets.shape[1]) < lengths[:, None] - 1
    losses = F.cross_entropy(logits.transpose(1, 2), targets, reduction="none")
    return losses[mask].mean()


@wrong("token-zero-as-padding")
def token_loss(logits, targets, lengths):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=0)


@wrong("loss-with-wrong-sign")
def token_loss(logits, targets, lengths):
    mask = torch.arange(targets.shape[1]) < lengths[:, None]
    log_probabilities = torch.log_softmax(logits, dim=-1)
    return log_probabilities.gather(-1, targets.unsqueeze(-1)).squeeze(-1)[mask].mean()


@wrong("probability-as-loss")
def token_loss(logits, targets, lengths):
    mask = torch.arange(targets.shape[1]) < lengths[:, None]
    return -logits.softmax(dim=-1).gather(-1, targets.unsqueeze(-1)).squeeze(-1)[mask].mean()


@wrong("softmax-before-log-softmax")
def token_loss(logits, targets, lengths):
    mask = torch.arange(targets.shape[1]) < lengths[:, None]
    losses = F.cross_entropy(logits.softmax(dim=-1).transpose(1, 2), targets, reduction="none")
    return losses[mask].mean()


@wrong("softmax-over-positions")
def token_loss(logits, targets, lengths):
    mask = torch.arange(targets.shape[1]) < lengths[:, None]
    log_probabilities = torch.log_softmax(logits, dim=1)
    return -log_probabilities.gather(-1, targets.unsqueeze(-1)).squeeze(-1)[mask].mean()


@wrong("logit-as-loss")
def token_loss(logits, targets, lengths):
    mask = torch.arange(targets.shape[1]) < lengths[:, None]
    return -logits.gather(-1, targets.unsqueeze(-1)).squeeze(-1)[mask].mean()


@wrong("log-of-softmax")
def token_loss(logits, targets, lengths):
    mask = torch.arange(targets.shape[1]) < lengths[:, None]
    probabilities = logits.softmax(dim=-1).gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    return -torch.log(probabilities)[mask].mean()


@wrong("perplexity-for-loss")
def token_loss(logits, targets, lengths):
    mask = torch.arange(targets.shape[1]) < lengths[:, None]
    losses = F.cross_entropy(logits.transpose(1, 2), targets, reduction="none")
    return losses[mask].mean().exp()


@right
def greedy_decode(step, state, start, end, padding, max_length):
    token = torch.full((len(state),), start)
    ended = torch.zeros(len(state), dtype=torch.bool)
    written = []
    for _ in range(max_length):
        logits, state = step(token, state)
        token = torch.where(ended, padding, logits.argmax(dim=-1))
        written.append(token)
        ended = ended | (token == end)
        if ended.all():
            break
    return torch.stack(written, dim=1)


@right
def greedy_decode(step, state, start, end, padding, max_length):
    batch = state.shape[0]
    tokens = torch.full((batch, max_length), padding)
    token, ended, length = torch.full((batch,), start), torch.zeros(batch, dtype=torch.bool), 0
    while length < max_length and not ended.all():
        logits, state = step(token, state)
        token = logits.max(dim=1).indices
        tokens[~ended, length] = token[~ended]
        ended |= token == end
        length += 1
    return tokens[:, :length]


@right
def greedy_decode(step, state, start, end, padding, max_length):
    # Write to the largest length, then mend what stands behind the end.
    tokens = [torch.full((len(state),), start)]
    for _ in range(max_length):
        logits, state = step(tokens[-1], state)
        tokens.append(logits.argmax(-1))
    tokens = torch.stack(tokens[1:], dim=1)
    ended = (tokens == end).long().cumsum(dim=1)
    behind = (ended - (tokens == end).long()) > 0
    tokens = tokens.masked_fill(behind, padding)
    return tokens[:, : int((~behind).sum(dim=1).max())]


@right
def greedy_decode(step, state, start, end, padding, max_length):
    rows = []
    for b in range(len(state)):
        own, token, row = state[b : b + 1], start, []
        for _ in range(max_length):
            logits, own = step(torch.tensor([token]), own)
            token = int(logits.argmax())
            row.append(token)
            if token == end:
                break
        rows.append(torch.tensor(row))
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=padding)


@wrong("never-stops")
def greedy_decode(step, state, start, end, padding, max_length):
    token = torch.full((len(state),), start)
    written = []
    for _ in range(max_length):
        logits, state = step(token, state)
        token = logits.argmax(dim=-1)
        written.append(token)
    return torch.stack(written, dim=1)


@wrong("writes-after-end")
def greedy_decode(step, state, start, end, padding, max_length):
    token = torch.full((len(state),), start)
    ended = torch.zeros(len(state), dtype=torch.bool)
    written = []
    for _ in range(max_length):
        logits, state = step(token, state)
        token = logits.argmax(dim=-1)
        written.append(token)
        ended |= token == end
        if ended.all():
            break
    return torch.stack(written, dim=1)


@wrong("all-must-end-at-once")
def greedy_decode(step, state, start, end, padding, max_length):
    token = torch.full((len(state),), start)
    written = []
    for _ in range(max_length):
        logits, state = step(token, state)
        token = logits.argmax(dim=-1)
        written.append(token)
        if (token == end).all():
            break
    return torch.stack(written, dim=1)


@wrong("stops-at-first-end")
def greedy_decode(step, state, start, end, padding, max_length):
    token = torch.full((len(state),), start)
    written = []
    for _ in range(max_length):
        logits, state = step(token, state)
        token = logits.argmax(dim=-1)
        written.append(token)
        if (token == end).any():
            break
    return torch.stack(written, dim=1)


@wrong("end-for-padding")
def greedy_decode(step, state, start, end, padding, max_length):
    token = torch.full((len(state),), start)
    ended = torch.zeros(len(state), dtype=torch.bool)
    written = []
    for _ in range(max_length):
        logits, state = step(token, state)
        token = torch.where(ended, end, logits.argmax(dim=-1))
        written.append(token)
        ended = token == end
        if ended.all():
            break
    return torch.stack(written, dim=1)


@wrong("end-replaced-by-padding")
def greedy_decode(step, state, start, end, padding, max_length):
    token = torch.full((len(state),), start)
    ended = torch.zeros(len(state), dtype=torch.bool)
    written = []
    for _ in range(max_length):
        logits, state = step(token, state)
        token = logits.argmax(dim=-1)
        ended = ended | (token == end)
        token = torch.where(ended, padding, token)
        written.append(token)
        if ended.all():
            break
    return torch.stack(written, dim=1)


@wrong("filled-to-max-length")
def greedy_decode(step, state, start, end, padding, max_length):
    token = torch.full((len(state),), start)
    ended = torch.zeros(len(state), dtype=torch.bool)
    written = []
    for _ in range(max_length):
        logits, state = step(token, state)
        token = torch.where(ended, padding, logits.argmax(dim=-1))
        written.append(token)
        ended = ended | (token == end)
    return torch.stack(written, dim=1)


@wrong("start-in-output")
def greedy_decode(step, state, start, end, padding, max_length):
    token = torch.full((len(state),), start)
    ended = torch.zeros(len(state), dtype=torch.bool)
    written = []
    written.append(token)
    for _ in range(max_length):
        logits, state = step(token, state)
        token = torch.where(ended, padding, logits.argmax(dim=-1))
        written.append(token)
        ended = ended | (token == end)
        if ended.all():
            break
    return torch.stack(written, dim=1)


@wrong("one-token-too-few")
def greedy_decode(step, state, start, end, padding, max_length):
    token = torch.full((len(state),), start)
    ended = torch.zeros(len(state), dtype=torch.bool)
    written = []
    for _ in range(max_length - 1):
        logits, state = step(token, state)
        token = torch.where(ended, padding, logits.argmax(dim=-1))
        written.append(token)
        ended = ended | (token == end)
        if ended.all():
            break
    return torch.stack(written, dim=1)


@wrong("one-token-too-many")
def greedy_decode(step, state, start, end, padding, max_length):
    token = torch.full((len(state),), start)
    ended = torch.zeros(len(state), dtype=torch.bool)
    written = []
    for _ in range(max_length + 1):
        logits, state = step(token, state)
        token = torch.where(ended, padding, logits.argmax(dim=-1))
        written.append(token)
        ended = ended | (token == end)
        if ended.all():
            break
    return torch.stack(written, dim=1)


@wrong("feeds-start-each-time")
def greedy_decode(step, state, start, end, padding, max_length):
    token = torch.full((len(state),), start)
    ended = torch.zeros(len(state), dtype=torch.bool)
    written = []
    for _ in range(max_length):
        logits, state = step(torch.full_like(token, start), state)
        token = torch.where(ended, padding, logits.argmax(dim=-1))
        written.append(token)
        ended = ended | (token == end)
        if ended.all():
            break
    return torch.stack(written, dim=1)


@wrong("decoder-state-not-kept")
def greedy_decode(step, state, start, end, padding, max_length):
    token = torch.full((len(state),), start)
    ended = torch.zeros(len(state), dtype=torch.bool)
    written = []
    for _ in range(max_length):
        logits, _ = step(token, state)
        token = torch.where(ended, padding, logits.argmax(dim=-1))
        written.append(token)
        ended = ended | (token == end)
        if ended.all():
            break
    return torch.stack(written, dim=1)


@wrong("least-probable-token")
def greedy_decode(step, state, start, end, padding, max_length):
    token = torch.full((len(state),), start)
    ended = torch.zeros(len(state), dtype=torch.bool)
    written = []
    for _ in range(max_length):
        logits, state = step(token, state)
        token = torch.where(ended, padding, logits.argmin(dim=-1))
        written.append(token)
        ended = ended | (token == end)
        if ended.all():
            break
    return torch.stack(written, dim=1)


@right
def gradient_reach(read, inputs):
    jacobian = torch.autograd.functional.jacobian(lambda x: read(x)[-1], inputs)
    return jacobian.pow(2).sum(dim=(0, 2)).sqrt().flip(0)


@right
def gradient_reach(read, inputs):
    inputs = inputs.detach().clone().requires_grad_()
    last = read(inputs)[-1]
    total = torch.zeros(len(inputs), dtype=inputs.dtype)
    for entry in last:
        (gradient,) = torch.autograd.grad(entry, inputs, retain_graph=True)
        total += (gradient**2).sum(dim=1)
    return torch.sqrt(total).flip(0)


@right
def gradient_reach(read, inputs):
    jacobian = torch.func.jacrev(lambda x: read(x)[-1])(inputs)
    norms = [jacobian[:, j].norm() for j in range(len(inputs))]
    return torch.stack(norms[::-1])


@right
def gradient_reach(read, inputs):
    x = inputs.detach().requires_grad_(True)
    last = read(x)[-1]
    rows = []
    for i in range(last.numel()):
        x.grad = None
        last[i].backward(retain_graph=True)
        rows.append(x.grad.clone())
    table = torch.stack(rows).permute(1, 0, 2).flatten(1)
    return torch.linalg.vector_norm(table, dim=1)[torch.arange(len(inputs) - 1, -1, -1)]


@wrong("gradient-of-sum")
def gradient_reach(read, inputs):
    inputs = inputs.detach().requires_grad_()
    read(inputs)[-1].sum().backward()
    return inputs.grad.norm(dim=1).flip(0)


@wrong("gradient-of-all-states")
def gradient_reach(read, inputs):
    inputs = inputs.detach().requires_grad_()
    read(inputs).sum().backward()
    return inputs.grad.norm(dim=1).flip(0)


@wrong("gradients-pile-up")
def gradient_reach(read, inputs):
    x = inputs.detach().requires_grad_()
    last = read(x)[-1]
    total = torch.zeros(len(x), dtype=x.dtype)
    for entry in last:
        entry.backward(retain_graph=True)
        total = total + x.grad.pow(2).sum(dim=1)
    return total.sqrt().flip(0)


@wrong("order-of-positions")
def gradient_reach(read, inputs):
    jacobian = torch.autograd.functional.jacobian(lambda x: read(x)[-1], inputs)
    return jacobian.pow(2).sum(dim=(0, 2)).sqrt()


@wrong("gradient-of-first-state")
def gradient_reach(read, inputs):
    jacobian = torch.autograd.functional.jacobian(lambda x: read(x)[0], inputs)
    return jacobian.pow(2).sum(dim=(0, 2)).sqrt().flip(0)


@wrong("norm-squared")
def gradient_reach(read, inputs):
    jacobian = torch.autograd.functional.jacobian(lambda x: read(x)[-1], inputs)
    return jacobian.pow(2).sum(dim=(0, 2)).flip(0)


@wrong("norm-of-absolute-values")
def gradient_reach(read, inputs):
    jacobian = torch.autograd.functional.jacobian(lambda x: read(x)[-1], inputs)
    return jacobian.abs().sum(dim=(0, 2)).flip(0)


@wrong("norm-as-maximum")
def gradient_reach(read, inputs):
    jacobian = torch.autograd.functional.jacobian(lambda x: read(x)[-1], inputs)
    return jacobian.abs().amax(dim=(0, 2)).flip(0)


@wrong("norm-as-mean")
def gradient_reach(read, inputs):
    jacobian = torch.autograd.functional.jacobian(lambda x: read(x)[-1], inputs)
    return jacobian.pow(2).mean(dim=(0, 2)).sqrt().flip(0)


@wrong("entries-summed-with-sign")
def gradient_reach(read, inputs):
    jacobian = torch.autograd.functional.jacobian(lambda x: read(x)[-1], inputs)
    return jacobian.sum(dim=(0, 2)).flip(0)


@wrong("largest-singular-value")
def gradient_reach(read, inputs):
    jacobian = torch.autograd.functional.jacobian(lambda x: read(x)[-1], inputs)
    return torch.linalg.svdvals(jacobian.transpose(0, 1))[:, 0].flip(0)


@wrong("gradient-of-one-entry")
def gradient_reach(read, inputs):
    x = inputs.detach().requires_grad_()
    read(x)[-1, -1].backward()
    return x.grad.norm(dim=1).flip(0)


@right
def assert_ignores_padding(encode, inputs, lengths):
    real = (torch.arange(inputs.shape[1]) < lengths[:, None]).unsqueeze(-1)
    other = torch.where(real, inputs, torch.randn_like(inputs))
    states, summary = encode(inputs, lengths)
    new_states, new_summary = encode(other, lengths)
    assert torch.allclose(states * real, new_states * real, atol=1e-5)
    assert torch.allclose(summary, new_summary, atol=1e-5)


@right
def assert_ignores_padding(encode, inputs, lengths):
    states, summary = encode(inputs, lengths)
    for b, n in enumerate(lengths.tolist()):
        alone, last = encode(inputs[b : b + 1, :n], lengths[b : b + 1])
        torch.testing.assert_close(states[b, :n], alone[0], rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(summary[b], last[0], rtol=1e-5, atol=1e-5)


@right
def assert_ignores_padding(encode, inputs, lengths):
    changed = inputs.clone()
    for b, n in enumerate(lengths):
        changed[b, n:] += 7.0
    before, after = encode(inputs, lengths), encode(changed, lengths)
    for b, n in enumerate(lengths):
        difference = (before[0][b, :n] - after[0][b, :n]).abs().max()
        difference = max(difference, (before[1][b] - after[1][b]).abs().max())
        if difference > 1e-5:
            raise AssertionError(f"sentence {b} depends on its padding")


@right
def assert_ignores_padding(encode, inputs, lengths):
    real = torch.arange(inputs.shape[1]) < lengths.unsqueeze(1)
    states, summary = encode(inputs, lengths)
    for value in (-5.0, 5.0):
        other = inputs.masked_fill(~real.unsqueeze(-1), value)
        new, last = encode(other, lengths)
        assert torch.allclose(states[real], new[real], atol=1e-5)
        assert torch.allclose(summary, last, atol=1e-5)


@right
def assert_ignores_padding(encode, inputs, lengths):
    # The same sentences in a longer tensor, with more padding behind them.
    other = torch.cat([inputs, torch.full_like(inputs, 3.0)], dim=1)
    for b, n in enumerate(lengths):
        other[b, n:] = 3.0
    states, summary = encode(inputs, lengths)
    new, last = encode(other, lengths)
    for b, n in enumerate(lengths):
        assert (states[b, :n] - new[b, :n]).abs().max() < 1e-5
    assert (summary - last).abs().max() < 1e-5


@wrong("test-lets-all-pass")
def assert_ignores_padding(encode, inputs, lengths):
    real = (torch.arange(inputs.shape[1]) < lengths[:, None]).unsqueeze(-1)
    other = torch.where(real, inputs, 2 - 3 * inputs)
    states, summary = encode(inputs, lengths)
    new_states, new_summary = encode(other, lengths)
    torch.allclose(states * real, new_states * real)
    torch.allclose(summary, new_summary)


@wrong("test-lets-all-pass")
def assert_ignores_padding(encode, inputs, lengths):
    states, summary = encode(inputs, lengths)
    assert states.shape[:2] == inputs.shape[:2]
    assert len(summary) == len(inputs)


@wrong("test-of-zeros-only")
def assert_ignores_padding(encode, inputs, lengths):
    states = encode(inputs, lengths)[0]
    for b, n in enumerate(lengths.tolist()):
        assert (states[b, n:] == 0).all()


@wrong("test-compares-padding")
def assert_ignores_padding(encode, inputs, lengths):
    real = (torch.arange(inputs.shape[1]) < lengths[:, None]).unsqueeze(-1)
    other = torch.where(real, inputs, 2 - 3 * inputs)
    states, summary = encode(inputs, lengths)
    new_states, new_summary = encode(other, lengths)
    assert torch.allclose(states, new_states, atol=1e-5)
    assert torch.allclose(summary, new_summary, atol=1e-5)


@wrong("test-wants-equal-bits")
def assert_ignores_padding(encode, inputs, lengths):
    real = (torch.arange(inputs.shape[1]) < lengths[:, None]).unsqueeze(-1)
    other = torch.where(real, inputs, 2 - 3 * inputs)
    states, summary = encode(inputs, lengths)
    new_states, new_summary = encode(other, lengths)
    assert torch.equal(states * real, new_states * real)
    assert torch.equal(summary, new_summary)


@wrong("test-too-tolerant")
def assert_ignores_padding(encode, inputs, lengths):
    real = (torch.arange(inputs.shape[1]) < lengths[:, None]).unsqueeze(-1)
    other = torch.where(real, inputs, 2 - 3 * inputs)
    states, summary = encode(inputs, lengths)
    new_states, new_summary = encode(other, lengths)
    assert torch.allclose(states * real, new_states * real, atol=0.1)
    assert torch.allclose(summary, new_summary, atol=0.1)


@wrong("test-of-first-sentence")
def assert_ignores_padding(encode, inputs, lengths):
    real = (torch.arange(inputs.shape[1]) < lengths[:, None]).unsqueeze(-1)
    other = torch.where(real, inputs, 2 - 3 * inputs)
    states, summary = encode(inputs, lengths)
    new_states, new_summary = encode(other, lengths)
    assert torch.allclose(states[0] * real[0], new_states[0] * real[0], atol=1e-5)
    assert torch.allclose(summary[0], new_summary[0], atol=1e-5)


@wrong("test-of-states-only")
def assert_ignores_padding(encode, inputs, lengths):
    real = (torch.arange(inputs.shape[1]) < lengths[:, None]).unsqueeze(-1)
    other = torch.where(real, inputs, 2 - 3 * inputs)
    states, new_states = encode(inputs, lengths)[0], encode(other, lengths)[0]
    assert torch.allclose(states * real, new_states * real, atol=1e-5)


@wrong("test-of-summary-only")
def assert_ignores_padding(encode, inputs, lengths):
    real = (torch.arange(inputs.shape[1]) < lengths[:, None]).unsqueeze(-1)
    other = torch.where(real, inputs, 2 - 3 * inputs)
    summary, new_summary = encode(inputs, lengths)[1], encode(other, lengths)[1]
    assert torch.allclose(summary, new_summary, atol=1e-5)


@wrong("test-sets-zeros")
def assert_ignores_padding(encode, inputs, lengths):
    real = (torch.arange(inputs.shape[1]) < lengths[:, None]).unsqueeze(-1)
    other = inputs * real
    states, summary = encode(inputs, lengths)
    new_states, new_summary = encode(other, lengths)
    assert torch.allclose(states * real, new_states * real, atol=1e-5)
    assert torch.allclose(summary, new_summary, atol=1e-5)


@wrong("test-changes-tokens")
def assert_ignores_padding(encode, inputs, lengths):
    real = (torch.arange(inputs.shape[1]) < lengths[:, None]).unsqueeze(-1)
    other = inputs + 1
    states, summary = encode(inputs, lengths)
    new_states, new_summary = encode(other, lengths)
    assert torch.allclose(states * real, new_states * real, atol=1e-5)
    assert torch.allclose(summary, new_summary, atol=1e-5)


@wrong("test-changes-tokens")
def assert_ignores_padding(encode, inputs, lengths):
    real = (torch.arange(inputs.shape[1]) < lengths[:, None]).unsqueeze(-1)
    other = inputs.clone()
    for b, n in enumerate(lengths):
        other[b, n - 1 :] = 2.0
    states, summary = encode(inputs, lengths)
    new_states, new_summary = encode(other, lengths)
    assert torch.allclose(states * real, new_states * real, atol=1e-5)
    assert torch.allclose(summary, new_summary, atol=1e-5)


@wrong("test-keeps-first-padding")
def assert_ignores_padding(encode, inputs, lengths):
    real = (torch.arange(inputs.shape[1]) < lengths[:, None]).unsqueeze(-1)
    other = inputs.clone()
    for b, n in enumerate(lengths):
        other[b, n + 1 :] = 2.0
    states, summary = encode(inputs, lengths)
    new_states, new_summary = encode(other, lengths)
    assert torch.allclose(states * real, new_states * real, atol=1e-5)
    assert torch.allclose(summary, new_summary, atol=1e-5)


@wrong("test-upside-down")
def assert_ignores_padding(encode, inputs, lengths):
    real = (torch.arange(inputs.shape[1]) < lengths[:, None]).unsqueeze(-1)
    other = torch.where(real, inputs, 2 - 3 * inputs)
    states, summary = encode(inputs, lengths)
    new_states, new_summary = encode(other, lengths)
    assert not (
        torch.allclose(states * real, new_states * real, atol=1e-5)
        and torch.allclose(summary, new_summary, atol=1e-5)
    )


@right
def hypothesis_scores(log_probability, weights, lengths, alpha, beta):
    real = torch.arange(weights.shape[1]) < lengths[:, None]
    penalty = ((5 + lengths) / 6) ** alpha
    seen = (weights * real.unsqueeze(-1)).sum(dim=1)
    coverage = seen.clamp(max=1.0).log().sum(dim=-1)
    return log_probability / penalty + beta * coverage


@right
def hypothesis_scores(log_probability, weights, lengths, alpha, beta):
    scores = []
    for p, a, n in zip(log_probability, weights, lengths.tolist(), strict=True):
        seen = a[:n].sum(dim=0)
        coverage = torch.minimum(seen, torch.ones_like(seen)).log().sum()
        scores.append(p / ((5 + n) ** alpha / 6**alpha) + beta * coverage)
    return torch.stack(scores)


@right
def hypothesis_scores(log_probability, weights, lengths, alpha, beta):
    real = (torch.arange(weights.shape[1]) < lengths.unsqueeze(-1)).to(weights.dtype)
    seen = torch.einsum("nts,nt->ns", weights, real)
    coverage = torch.where(seen < 1, seen, torch.ones_like(seen)).log().sum(-1)
    return log_probability * (6 / (5 + lengths)) ** alpha + coverage * beta


@right
def hypothesis_scores(log_probability, weights, lengths, alpha, beta):
    seen = weights.cumsum(dim=1)[torch.arange(len(lengths)), lengths - 1]
    coverage = -torch.relu(-torch.log(seen)).sum(dim=1)
    penalty = torch.exp(alpha * torch.log((5 + lengths.to(weights.dtype)) / 6))
    return log_probability.div(penalty).add(coverage, alpha=beta)


@wrong("no-length-penalty")
def hypothesis_scores(log_probability, weights, lengths, alpha, beta):
    real = torch.arange(weights.shape[1]) < lengths[:, None]
    seen = (weights * real.unsqueeze(-1)).sum(dim=1)
    coverage = seen.clamp(max=1.0).log().sum(dim=-1)
    return log_probability + beta * coverage


@wrong("divided-by-length")
def hypothesis_scores(log_probability, weights, lengths, alpha, beta):
    real = torch.arange(weights.shape[1]) < lengths[:, None]
    penalty = lengths.to(weights.dtype) ** alpha
    seen = (weights * real.unsqueeze(-1)).sum(dim=1)
    coverage = seen.clamp(max=1.0).log().sum(dim=-1)
    return log_probability / penalty + beta * coverage


@wrong("length-penalty-multiplied")
def hypothesis_scores(log_probability, weights, lengths, alpha, beta):
    real = torch.arange(weights.shape[1]) < lengths[:, None]
    penalty = ((5 + lengths) / 6) ** alpha
    seen = (weights * real.unsqueeze(-1)).sum(dim=1)
    coverage = seen.clamp(max=1.0).log().sum(dim=-1)
    return log_probability * penalty + beta * coverage


@wrong("exponent-as-factor")
def hypothesis_scores(log_probability, weights, lengths, alpha, beta):
    real = torch.arange(weights.shape[1]) < lengths[:, None]
    penalty = alpha * (5 + lengths) / 6
    seen = (weights * real.unsqueeze(-1)).sum(dim=1)
    coverage = seen.clamp(max=1.0).log().sum(dim=-1)
    return log_probability / penalty + beta * coverage


@wrong("length-penalty-without-six")
def hypothesis_scores(log_probability, weights, lengths, alpha, beta):
    real = torch.arange(weights.shape[1]) < lengths[:, None]
    penalty = (5.0 + lengths) ** alpha
    seen = (weights * real.unsqueeze(-1)).sum(dim=1)
    coverage = seen.clamp(max=1.0).log().sum(dim=-1)
    return log_probability / penalty + beta * coverage


@wrong("padded-steps-counted")
def hypothesis_scores(log_probability, weights, lengths, alpha, beta):
    penalty = ((5 + lengths) / 6) ** alpha
    seen = weights.sum(dim=1)
    coverage = seen.clamp(max=1.0).log().sum(dim=-1)
    return log_probability / penalty + beta * coverage


@wrong("coverage-without-effect")
def hypothesis_scores(log_probability, weights, lengths, alpha, beta):
    penalty = ((5 + lengths) / 6) ** alpha
    return log_probability / penalty


@wrong("coverage-without-effect")
def hypothesis_scores(log_probability, weights, lengths, alpha, beta):
    penalty = ((5 + lengths) / 6) ** alpha
    seen = weights.sum(dim=-1)
    coverage = seen.clamp(max=1.0).log().sum(dim=-1)
    return log_probability / penalty + beta * coverage


@wrong("coverage-without-factor")
def hypothesis_scores(log_probability, weights, lengths, alpha, beta):
    real = torch.arange(weights.shape[1]) < lengths[:, None]
    penalty = ((5 + lengths) / 6) ** alpha
    seen = (weights * real.unsqueeze(-1)).sum(dim=1)
    coverage = seen.clamp(max=1.0).log().sum(dim=-1)
    return log_probability / penalty + coverage


@wrong("coverage-not-limited")
def hypothesis_scores(log_probability, weights, lengths, alpha, beta):
    real = torch.arange(weights.shape[1]) < lengths[:, None]
    penalty = ((5 + lengths) / 6) ** alpha
    seen = (weights * real.unsqueeze(-1)).sum(dim=1)
    coverage = seen.log().sum(dim=-1)
    return log_probability / penalty + beta * coverage


@wrong("coverage-limit-inverted")
def hypothesis_scores(log_probability, weights, lengths, alpha, beta):
    real = torch.arange(weights.shape[1]) < lengths[:, None]
    penalty = ((5 + lengths) / 6) ** alpha
    seen = (weights * real.unsqueeze(-1)).sum(dim=1)
    coverage = seen.clamp(min=1.0).log().sum(dim=-1)
    return log_probability / penalty + beta * coverage


@wrong("coverage-without-logarithm")
def hypothesis_scores(log_probability, weights, lengths, alpha, beta):
    real = torch.arange(weights.shape[1]) < lengths[:, None]
    penalty = ((5 + lengths) / 6) ** alpha
    seen = (weights * real.unsqueeze(-1)).sum(dim=1)
    coverage = seen.clamp(max=1.0).sum(dim=-1)
    return log_probability / penalty + beta * coverage


@wrong("logarithm-after-sum")
def hypothesis_scores(log_probability, weights, lengths, alpha, beta):
    real = torch.arange(weights.shape[1]) < lengths[:, None]
    penalty = ((5 + lengths) / 6) ** alpha
    seen = (weights * real.unsqueeze(-1)).sum(dim=1)
    coverage = seen.clamp(max=1.0).sum(dim=-1).log()
    return log_probability / penalty + beta * coverage


@wrong("coverage-as-mean")
def hypothesis_scores(log_probability, weights, lengths, alpha, beta):
    real = torch.arange(weights.shape[1]) < lengths[:, None]
    penalty = ((5 + lengths) / 6) ** alpha
    seen = (weights * real.unsqueeze(-1)).sum(dim=1)
    coverage = seen.clamp(max=1.0).log().mean(dim=-1)
    return log_probability / penalty + beta * coverage


@wrong("coverage-subtracted")
def hypothesis_scores(log_probability, weights, lengths, alpha, beta):
    real = torch.arange(weights.shape[1]) < lengths[:, None]
    penalty = ((5 + lengths) / 6) ** alpha
    seen = (weights * real.unsqueeze(-1)).sum(dim=1)
    coverage = seen.clamp(max=1.0).log().sum(dim=-1)
    return log_probability / penalty - beta * coverage


@wrong("coverage-divided-by-length")
def hypothesis_scores(log_probability, weights, lengths, alpha, beta):
    real = torch.arange(weights.shape[1]) < lengths[:, None]
    penalty = ((5 + lengths) / 6) ** alpha
    seen = (weights * real.unsqueeze(-1)).sum(dim=1)
    coverage = seen.clamp(max=1.0).log().sum(dim=-1)
    return (log_probability + beta * coverage) / penalty


@wrong("exponent-on-length-only")
def hypothesis_scores(log_probability, weights, lengths, alpha, beta):
    real = torch.arange(weights.shape[1]) < lengths[:, None]
    seen = (weights * real.unsqueeze(-1)).sum(dim=1)
    return log_probability / ((5 + lengths**alpha) / 6**alpha) + beta * seen.clamp(max=1.0).log().sum(dim=-1)


@wrong("padded-length-as-n")
def hypothesis_scores(log_probability, weights, lengths, alpha, beta):
    real = torch.arange(weights.shape[1]) < lengths[:, None]
    seen = (weights * real.unsqueeze(-1)).sum(dim=1)
    n = weights.shape[1]
    return log_probability / ((5 + n) / 6) ** alpha + beta * seen.clamp(max=1.0).log().sum(dim=-1)


@wrong("limit-after-logarithm")
def hypothesis_scores(log_probability, weights, lengths, alpha, beta):
    real = torch.arange(weights.shape[1]) < lengths[:, None]
    seen = (weights * real.unsqueeze(-1)).sum(dim=1)
    return log_probability / ((5 + lengths) / 6) ** alpha + beta * seen.log().clamp(max=1.0).sum(dim=-1)


@wrong("coverage-not-limited")
def hypothesis_scores(log_probability, weights, lengths, alpha, beta):
    real = torch.arange(weights.shape[1]) < lengths[:, None]
    seen = (weights.clamp(max=1) * real.unsqueeze(-1)).sum(dim=1)
    return log_probability / ((5 + lengths) / 6) ** alpha + beta * seen.log().sum(dim=-1)


@wrong("test-lets-all-pass")
def assert_ignores_padding(encode, inputs, lengths):
    other = inputs.clone()
    other[:, lengths.max() :] = 5.0
    before, after = encode(inputs, lengths), encode(other, lengths)
    for b, n in enumerate(lengths):
        assert torch.allclose(before[0][b, :n], after[0][b, :n], atol=1e-5)
    assert torch.allclose(before[1], after[1], atol=1e-5)


@wrong("test-sets-zeros")
def assert_ignores_padding(encode, inputs, lengths):
    other = inputs.clone()
    for b, n in enumerate(lengths):
        other[b, n:] = -inputs[b, n:]
    before, after = encode(inputs, lengths), encode(other, lengths)
    for b, n in enumerate(lengths):
        assert torch.allclose(before[0][b, :n], after[0][b, :n], atol=1e-5)
    assert torch.allclose(before[1], after[1], atol=1e-5)


@wrong("test-stricter-than-task")
def assert_ignores_padding(encode, inputs, lengths):
    other = inputs.clone()
    for b, n in enumerate(lengths):
        other[b, n:] = 3.0
    before, after = encode(inputs, lengths), encode(other, lengths)
    for b, n in enumerate(lengths):
        assert torch.allclose(before[0][b, :n], after[0][b, :n])
    assert torch.allclose(before[1], after[1])


@wrong("test-pads-with-nan")
def assert_ignores_padding(encode, inputs, lengths):
    other = inputs.clone()
    for b, n in enumerate(lengths):
        other[b, n:] = float("nan")
    before, after = encode(inputs, lengths), encode(other, lengths)
    for b, n in enumerate(lengths):
        assert (before[0][b, :n] - after[0][b, :n]).abs().max() < 1e-5
    assert (before[1] - after[1]).abs().max() < 1e-5


@wrong("gradient-of-all-states")
def gradient_reach(read, inputs):
    jacobian = torch.autograd.functional.jacobian(read, inputs)
    return jacobian.pow(2).sum(dim=(0, 1, 3)).sqrt().flip(0)


@wrong("gradient-of-norm")
def gradient_reach(read, inputs):
    x = inputs.detach().requires_grad_()
    read(x)[-1].norm().backward()
    return x.grad.norm(dim=1).flip(0)


@wrong("norms-added-up")
def gradient_reach(read, inputs):
    x = inputs.detach().requires_grad_()
    norms = torch.zeros(len(x), dtype=x.dtype)
    for entry in read(x)[-1]:
        norms = norms + torch.autograd.grad(entry, x, retain_graph=True)[0].norm(dim=1)
    return norms.flip(0)


@wrong("end-not-remembered")
def greedy_decode(step, state, start, end, padding, max_length):
    token = torch.full((len(state),), start)
    written = []
    for _ in range(max_length):
        logits, state = step(token, state)
        token = torch.where(token == end, padding, logits.argmax(dim=-1))
        written.append(token)
        if (token == end).all():
            break
    return torch.stack(written, dim=1)


@wrong("padding-ends-sentence")
def greedy_decode(step, state, start, end, padding, max_length):
    token = torch.full((len(state),), start)
    written = []
    for _ in range(max_length):
        logits, state = step(token, state)
        token = torch.where((token == end) | (token == padding), padding, logits.argmax(dim=-1))
        written.append(token)
        if ((token == end) | (token == padding)).all():
            break
    return torch.stack(written, dim=1)


@wrong("mean-of-sentence-means")
def token_loss(logits, targets, lengths):
    real = torch.arange(targets.shape[1]) < lengths[:, None]
    losses = F.cross_entropy(logits.transpose(1, 2), targets, reduction="none")
    return ((losses * real).sum(1) / lengths.clamp(min=1)).mean()


@wrong("log-with-epsilon")
def token_loss(logits, targets, lengths):
    real = torch.arange(targets.shape[1]) < lengths[:, None]
    log_probability = torch.log(logits.softmax(-1) + 1e-9)
    return -log_probability.gather(2, targets.unsqueeze(2)).squeeze(2)[real].mean()


@wrong("log-with-epsilon")
def token_loss(logits, targets, lengths):
    real = torch.arange(targets.shape[1]) < lengths[:, None]
    log_probability = torch.log(logits.softmax(-1).clamp(min=1e-8))
    return -log_probability.gather(2, targets.unsqueeze(2)).squeeze(2)[real].mean()


@right
def token_loss(logits, targets, lengths):
    real = torch.arange(targets.shape[1]) < lengths[:, None]
    return F.cross_entropy(logits[real], targets[real])


@wrong("one-padding-token-read")
def encode(step, inputs, lengths, state):
    states = []
    for j in range(inputs.shape[1]):
        new = step(inputs[:, j], state)
        real = (j <= lengths)[:, None]
        states.append(torch.where(real, new, torch.zeros_like(new)))
        state = torch.where(real, new, state)
    return torch.stack(states, dim=1), state


@wrong("lengths-along-wrong-axis")
def encode(step, inputs, lengths, state):
    states = []
    for j in range(inputs.shape[1]):
        new = step(inputs[:, j], state)
        states.append(torch.where(j < lengths, new, torch.zeros_like(new)))
        state = torch.where(j < lengths, new, state)
    return torch.stack(states, dim=1), state


@wrong("lengths-along-wrong-axis")
def encode(step, inputs, lengths, state):
    states = [state]
    for x in inputs.unbind(1):
        states.append(step(x, states[-1]))
    states = torch.stack(states, dim=1)
    mask = (torch.arange(inputs.shape[1]) < lengths)[..., None]
    return states[:, 1:] * mask, states[torch.arange(len(inputs)), lengths]


@wrong("empty-sentence-gets-zeros")
def encode(step, inputs, lengths, state):
    states = []
    for x in inputs.unbind(1):
        state = step(x, state)
        states.append(state)
    states = torch.stack(states, dim=1) * (torch.arange(inputs.shape[1]) < lengths[:, None])[..., None]
    return states, states[torch.arange(len(states)), lengths - 1]


@wrong("empty-sentence-gets-first-column")
def encode(step, inputs, lengths, state):
    states = []
    for x in inputs.unbind(1):
        state = step(x, state)
        states.append(state)
    states = torch.stack(states, dim=1)
    mask = (torch.arange(inputs.shape[1]) < lengths[:, None])[..., None]
    return states * mask, states[torch.arange(len(states)), (lengths - 1).clamp(min=0)]
