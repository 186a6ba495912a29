"""Checks of the set `seq2seq`: encoder, decoder, loss, and how far a gradient reaches."""

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

from attncourse.checks.alignment import make_cell
from attncourse.checks.judge import Task, checking
from attncourse.checks.materials import accepts, normal, sizes
from attncourse.checks.observe import TRUTH, Case

BATCH = 3  # no number of materials.SIZES

# --- The right answers: one number after the other. ---


def _oracle_gru(
    inputs: Tensor,
    state: Tensor,
    input_weight: Tensor,
    state_weight: Tensor,
    input_bias: Tensor,
    state_bias: Tensor,
) -> Tensor:
    rows = []
    for x, h in zip(inputs, state, strict=True):
        row, width = [], len(h)
        for i in range(width):
            r, z, n = i, width + i, 2 * width + i
            of_input = {k: (input_weight[k] * x).sum() + input_bias[k] for k in (r, z, n)}
            of_state = {k: (state_weight[k] * h).sum() + state_bias[k] for k in (r, z, n)}
            reset = 1 / (1 + torch.exp(-of_input[r] - of_state[r]))
            update = 1 / (1 + torch.exp(-of_input[z] - of_state[z]))
            new = torch.tanh(of_input[n] + reset * of_state[n])
            row.append((1 - update) * new + update * h[i])
        rows.append(torch.stack(row))
    return torch.stack(rows)


def _oracle_encode(step: Callable, inputs: Tensor, lengths: Tensor, state: Tensor) -> tuple:
    all_states, summaries = [], []
    for x, length, h in zip(inputs, lengths.tolist(), state, strict=True):
        states = []
        for j in range(len(x)):
            if j < length:
                h = step(x[j : j + 1], h.unsqueeze(0)).squeeze(0)
            states.append(h if j < length else torch.zeros_like(h))
        all_states.append(torch.stack(states))
        summaries.append(h)
    return torch.stack(all_states), torch.stack(summaries)


def _oracle_loss(logits: Tensor, targets: Tensor, lengths: Tensor) -> Tensor:
    total, count = 0, 0
    for b, length in enumerate(lengths.tolist()):
        for i in range(length):
            row = logits[b, i]
            top = row.max().item()
            total = total + top + sum(torch.exp(x - top) for x in row).log() - row[targets[b, i]]
            count += 1
    return total / count


def _oracle_decode(
    step: Callable, state: Tensor, start: int, end: int, padding: int, max_length: int
) -> Tensor:
    rows = []
    for b in range(len(state)):
        own, token, row = state[b : b + 1], start, []
        while len(row) < max_length and token != end:
            logits, own = step(torch.tensor([token]), own)
            token = max(range(logits.shape[1]), key=lambda v: logits[0, v].item())
            row.append(token)
        rows.append(row)
    longest = max(map(len, rows))
    return torch.tensor([row + [padding] * (longest - len(row)) for row in rows])


def _oracle_reach(read: Callable, inputs: Tensor) -> Tensor:
    inputs = inputs.detach().requires_grad_()
    last = read(inputs)[-1]
    squares = torch.zeros(len(inputs), dtype=inputs.dtype)
    for entry in last:
        gradient = torch.autograd.grad(entry, inputs, retain_graph=True)[0]
        for j in range(len(inputs)):
            squares[len(inputs) - 1 - j] += sum(x**2 for x in gradient[j])
    return squares.sqrt()


def _oracle_test(encode: Callable, inputs: Tensor, lengths: Tensor) -> None:
    """Compares with each sentence alone, without any padding."""
    states, summary = encode(inputs, lengths)
    for b, length in enumerate(lengths.tolist()):
        alone, last = encode(inputs[b : b + 1, :length], lengths[b : b + 1])
        assert (states[b, :length] - alone[0]).abs().max() < 1e-5
        assert (summary[b] - last[0]).abs().max() < 1e-5


def _oracle_hypotheses(
    log_probability: Tensor, weights: Tensor, lengths: Tensor, alpha: float, beta: float
) -> Tensor:
    scores = []
    for p, rows, length in zip(log_probability, weights, lengths.tolist(), strict=True):
        penalty = (5 + length) ** alpha / (5 + 1) ** alpha
        covered = 0
        for j in range(rows.shape[1]):
            seen = sum(rows[i, j] for i in range(length))
            covered = covered + (seen.log() if seen.item() < 1 else 0 * seen)
        scores.append(p / penalty + beta * covered)
    return torch.stack(scores)


# --- The cases. ---


def _gru_cases(generator: torch.Generator, dtype: torch.dtype) -> Iterator[Case]:
    d_input, d_state = sizes(generator, 2)

    def case(stage: str, batch: int = BATCH, **options) -> Case:
        inputs = {
            "inputs": normal(generator, dtype, batch, d_input),
            "state": normal(generator, dtype, batch, d_state),
            "input_weight": normal(generator, dtype, 3 * d_state, d_input) / d_input**0.5,
            "state_weight": normal(generator, dtype, 3 * d_state, d_state) / d_state**0.5,
            "input_bias": normal(generator, dtype, 3 * d_state),
            "state_bias": normal(generator, dtype, 3 * d_state),
        }
        return Case(stage, inputs, **options)

    yield case("shape", shape_only=True)
    first = case("first step, from the state 0", 1).inputs
    yield Case("first step, from the state 0", first | {"state": 0 * first["state"]})
    yield case("one sentence", 1)
    yield case("batch")
    yield case("gradient", gradient=True)


def _lengths(generator: torch.Generator, longest: int, shortest: int = 1) -> Tensor:
    """Draws lengths that differ: one sentence is full, one has the shortest length."""
    between = int(torch.randint(2, longest, (), generator=generator))
    lengths = torch.tensor([longest, shortest, between])
    return lengths[torch.randperm(BATCH, generator=generator)]


def _encode_cases(generator: torch.Generator, dtype: torch.dtype) -> Iterator[Case]:
    length, d_input, d_state = sizes(generator, 3)
    step = make_cell(generator, d_input, d_state)

    def case(stage: str, lengths: Tensor, length: int = length, blank: bool = False, **options) -> Case:
        batch = len(lengths)
        inputs = normal(generator, dtype, batch, length, d_input)
        if blank:
            inputs = inputs * (torch.arange(length) < lengths.unsqueeze(-1)).unsqueeze(-1)
        inputs = {"step": step, "inputs": inputs, "lengths": lengths}
        return Case(stage, inputs | {"state": normal(generator, dtype, batch, d_state)}, **options)

    yield case("shape", _lengths(generator, length - 1), shape_only=True)
    yield case("one sentence without padding", torch.tensor([length]))
    yield case("batch without padding", torch.full((BATCH,), length))
    yield case("one sentence with padding", torch.tensor([length - 2]))
    yield case("sentences of different lengths", _lengths(generator, length))
    yield case("padding that is 0", _lengths(generator, length), blank=True)
    yield case("longest sentence with padding, too", _lengths(generator, length - 1))
    yield case("sentence without tokens", _lengths(generator, length - 1, 0))
    yield case("gradient", _lengths(generator, length - 1, 0), gradient=True)
    dtype = torch.float64
    yield case("in float64", _lengths(generator, length - 1))


def _loss_cases(generator: torch.Generator, dtype: torch.dtype) -> Iterator[Case]:
    length, vocabulary = sizes(generator, 2)

    def case(stage: str, lengths: Tensor, dtype: torch.dtype = dtype, scale: float = 1.0, **options) -> Case:
        shape = len(lengths), length
        inputs = {
            "logits": scale * normal(generator, dtype, *shape, vocabulary),
            # Token 0 is a token like all others, and padding holds any tokens.
            "targets": torch.randint(vocabulary, shape, generator=generator),
            "lengths": lengths,
        }
        inputs["targets"][:, 0] = torch.arange(len(lengths)) % 2
        return Case(stage, inputs, **options)

    yield case("shape", _lengths(generator, length), shape_only=True)
    yield case("one sentence without padding", torch.tensor([length]))
    yield case("batch without padding", torch.full((BATCH,), length))
    yield case("one sentence with padding", torch.tensor([length - 2]))
    yield case("sentences of different lengths", _lengths(generator, length - 1))
    yield case("sentence without tokens", _lengths(generator, length - 1, 0))
    yield case("gradient", _lengths(generator, length - 1, 0), gradient=True)
    yield case("large logits", _lengths(generator, length - 1), torch.float32, 300.0)


def _writer(
    generator: torch.Generator,
    ends: list[int],
    vocabulary: int,
    silent: list[int],
    early: int | None = None,
) -> Callable:
    """Makes a model that ends each row at a given step; what else it writes depends on all it is given.

    The token `early` is the first that every second row writes.
    """
    end = silent[0]
    of_place = normal(generator, torch.float64, len(ends), 40, vocabulary)
    of_token = 2 * normal(generator, torch.float64, vocabulary, vocabulary)
    last = torch.tensor(ends) - 1

    def step(tokens: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        if tokens.shape != state.shape[:1] or tokens.is_floating_point():
            raise ValueError(
                f"step takes whole numbers of shape ({len(state)},), one token for each row, "
                f"but got {tokens.dtype} of shape {tuple(tokens.shape)}"
            )
        row, place = state[:, 0].long(), state[:, 1].long().clamp(max=39)
        logits = of_place[row, place] + of_token[tokens]
        logits[:, silent] = -20.0
        logits[:, end] = torch.where(place == last[row], 20.0, -20.0).double()
        if early is not None:
            logits[(place == 0) & (row % 2 == 0), early] = 20.0
        return logits.to(state.dtype), torch.stack([state[:, 0], state[:, 1] + 1], dim=1)

    return step


def _decode_cases(generator: torch.Generator, dtype: torch.dtype) -> Iterator[Case]:
    (vocabulary,) = sizes(generator, 1)
    vocabulary += 4

    def case(stage: str, ends: list[int], max_length: int, early: bool = False, **options) -> Case:
        start, end, padding = torch.randperm(vocabulary, generator=generator)[:3].tolist()
        order = torch.randperm(len(ends), generator=generator)
        ends = torch.tensor(ends)[order].tolist()
        inputs = {
            "step": _writer(generator, ends, vocabulary, [end, padding, start], padding if early else None),
            "state": torch.stack([torch.arange(len(ends)), torch.zeros(len(ends))], dim=1).to(dtype),
            "start": start,
            "end": end,
            "padding": padding,
            "max_length": max_length,
        }
        return Case(stage, inputs, **options)

    yield case("one sentence that does not end", [30], 6)
    yield case("one sentence that ends", [4], 9)
    yield case("sentences that end together", [5, 5, 5], 9)
    yield case("sentences that end one after the other", [3, 7, 5, 6], 10)
    yield case("some sentences that do not end", [2, 30, 4], 7)
    yield case("end at the first token", [1, 1], 5)
    yield case("end at the last token that is allowed", [6, 4], 6)
    yield case("padding token that the model writes itself", [5, 6, 4], 9, early=True)


def _reach_cases(generator: torch.Generator, dtype: torch.dtype) -> Iterator[Case]:
    length, d_input, d_state = sizes(generator, 3)
    step = make_cell(generator, d_input, d_state)
    mix = normal(generator, torch.float64, d_input, d_state)

    def recurrent(inputs: Tensor) -> Tensor:
        state, states = inputs.new_zeros(1, d_state), []
        for x in inputs.split(1):
            state = step(x, state)
            states.append(state)
        return torch.cat(states)

    def pointwise(inputs: Tensor) -> Tensor:
        return torch.tanh(inputs @ mix.to(inputs))

    def convolution(inputs: Tensor) -> Tensor:
        padded = F.pad(inputs @ mix.to(inputs), (0, 0, 2, 0))
        return torch.tanh(padded[2:] + 0.5 * padded[1:-1] - 2 * padded[:-2])

    def average(inputs: Tensor) -> Tensor:
        return (inputs.cumsum(0) @ mix.to(inputs)).sin()

    def case(stage: str, read: Callable, length: int = length, **options) -> Case:
        return Case(stage, {"read": read, "inputs": normal(generator, dtype, length, d_input)}, **options)

    yield case("shape", recurrent, shape_only=True)
    yield case("one token", recurrent, 1)
    yield case("a function of each token alone", pointwise)
    yield case("a convolution over three tokens", convolution)
    yield case("a recurrent network", recurrent)
    yield case("a sum over all tokens", average)


def _test_cases(generator: torch.Generator, dtype: torch.dtype) -> Iterator[Case]:
    length, d_input, d_state = sizes(generator, 3)
    step = make_cell(generator, d_input, d_state)
    mix = normal(generator, torch.float64, d_input, d_state) / d_input**0.5

    def mask_of(inputs: Tensor, lengths: Tensor) -> Tensor:
        return (torch.arange(inputs.shape[1]) < lengths.unsqueeze(1)).unsqueeze(2)

    def last_of(states: Tensor, lengths: Tensor) -> Tensor:
        return states[torch.arange(len(states)), lengths - 1]

    def recurrent(inputs: Tensor, lengths: Tensor) -> Tensor:
        # Not from 0: there an input of 0 would leave no trace.
        state, states = inputs.new_full((len(inputs), d_state), 0.5), []
        for x in inputs.unbind(1):
            state = step(x, state)
            states.append(state)
        return torch.stack(states, dim=1)

    def projected(inputs: Tensor) -> Tensor:
        # Not 0 for padding of 0, which then cannot be mistaken for no padding at all.
        return torch.tanh(inputs @ mix.to(inputs) + 0.5)

    def good_recurrent(inputs, lengths):
        states = recurrent(inputs, lengths)
        return states, last_of(states, lengths)

    def good_with_zeros(inputs, lengths):
        states = recurrent(inputs, lengths)
        return states * mask_of(inputs, lengths), last_of(states, lengths)

    def good_attention(inputs, lengths):
        states = projected(inputs)
        scores = (states @ states.mT).masked_fill(~mask_of(inputs, lengths).mT, -math.inf)
        states = scores.softmax(-1) @ states
        return states, (states * mask_of(inputs, lengths)).sum(1) / lengths.unsqueeze(1)

    def good_up_to_rounding(inputs, lengths):
        states = recurrent(inputs, lengths)
        scale = 3 + inputs.square().mean(dim=(1, 2), keepdim=True)
        for _ in range(8):  # so often that some number is rounded
            states, scale = states * scale / scale, scale + 1
        return states, last_of(states, lengths)

    def good_with_filled_padding(inputs, lengths):
        states = recurrent(torch.where(mask_of(inputs, lengths), inputs, 0.0), lengths)
        return states, last_of(states, lengths)

    def good_up_to_the_limit(inputs, lengths):
        states = recurrent(inputs, lengths)
        padding = (inputs * ~mask_of(inputs, lengths)).sum(dim=(1, 2)).unsqueeze(1)
        change = 4e-6 * torch.sin(7 * padding * torch.arange(1, d_state + 1))
        return states + change.unsqueeze(1), last_of(states, lengths) + change

    def reads_to_the_end(inputs, lengths):
        states = recurrent(inputs, lengths)
        return states * mask_of(inputs, lengths), states[:, -1]

    def reads_one_too_many(inputs, lengths):
        states = recurrent(inputs, lengths)
        return states, last_of(states, (lengths + 1).clamp(max=states.shape[1]))

    def means_over_all(inputs, lengths):
        states = recurrent(inputs, lengths)
        return states, states.mean(1)

    def largest_of_all(inputs, lengths):
        return recurrent(inputs, lengths), inputs.amax(1)

    def backwards(inputs, lengths):
        states = recurrent(inputs.flip(1), lengths).flip(1)
        return states, states[:, 0]

    def attends_to_all(inputs, lengths):
        states = projected(inputs)
        states = (states @ states.mT).softmax(-1) @ states
        return states, last_of(states, lengths)

    def looks_ahead(inputs, lengths):
        states = projected(inputs)
        return states + 0.3 * F.pad(states[:, 1:], (0, 0, 0, 1)), states[:, 0]

    def ignores_zeros_only(inputs, lengths):
        states, state = [], inputs.new_zeros(len(inputs), d_state)
        for x in inputs.unbind(1):
            token = (x != 0).any(1, keepdim=True)
            state = torch.where(token, step(x, state), state)
            states.append(state)
        return torch.stack(states, dim=1), state

    def leaks_a_little(inputs, lengths):
        states = recurrent(inputs, lengths)
        return states + 1e-2 * inputs.mean(dim=(1, 2), keepdim=True), last_of(states, lengths)

    def leaks_into_the_summary(inputs, lengths):
        states = recurrent(inputs, lengths)
        return states, last_of(states, lengths) + 1e-2 * inputs.mean(dim=(1, 2)).unsqueeze(1)

    def leaks_in_short_sentences(inputs, lengths):
        states = recurrent(inputs, lengths)
        short = (lengths <= lengths.median()).unsqueeze(1)
        return states, torch.where(short, states[:, -1], last_of(states, lengths))

    encoders = (
        (True, good_recurrent, "It reads one token after the other."),
        (False, reads_to_the_end, "Its summary is the state after the last padding."),
        (True, good_with_zeros, "Its states at padding are 0."),
        (True, good_up_to_rounding, "The padding changes only how it rounds."),
        (True, good_attention, "It attends to all tokens and not to padding."),
        (True, good_with_filled_padding, "It writes 0 into the padding before it reads."),
        (True, good_up_to_the_limit, "The padding changes its results by less than 1e-5."),
        (False, attends_to_all, "It attends to padding, too."),
        (False, means_over_all, "Its summary is the mean over all positions."),
        (False, backwards, "It reads from the right, so that it begins in the padding."),
        (False, reads_one_too_many, "Its summary has read one token of padding."),
        (False, looks_ahead, "Each of its states looks one position ahead."),
        (False, leaks_a_little, "Its states change by a hundredth of the padding."),
        (False, leaks_into_the_summary, "Its summary changes by a hundredth of the padding."),
        (False, leaks_in_short_sentences, "It reads the padding of short sentences only."),
        (False, largest_of_all, "Its summary is the maximum of the inputs over all positions."),
        (False, ignores_zeros_only, "It skips padding only where that is 0."),
    )
    for blank in (False, True):
        for right, encode, what in encoders:
            if blank and encode is ignores_zeros_only:
                continue  # with this padding it is right
            lengths = _lengths(generator, length)
            inputs = normal(generator, dtype, BATCH, length, d_input)
            if blank:
                inputs = inputs * mask_of(inputs, lengths)
            stage = ("a right encoder" if right else "a wrong encoder") + ", padding of 0" * blank
            verdict = "right: your test should let it pass" if right else "wrong: your test should fail it"
            note = f"This encoder is {verdict}. {what}"
            yield Case(
                stage, {"encode": encode, "inputs": inputs, "lengths": lengths}, call=accepts, note=note
            )


def _hypothesis_cases(generator: torch.Generator, dtype: torch.dtype) -> Iterator[Case]:
    beams, target, source = sizes(generator, 3)

    def case(stage: str, beams: int, lengths: Tensor, alpha: float, beta: float, **options) -> Case:
        # Some positions are read at most steps, and others at few: their sums lie on both sides of 1.
        weights = normal(generator, torch.float64, beams, target, source)
        weights = 1.5 * weights + 2.0 * normal(generator, torch.float64, beams, 1, source)
        inputs = {
            "log_probability": -2 - 5 * torch.rand(beams, generator=generator, dtype=torch.float64).to(dtype),
            "weights": weights.softmax(-1).to(dtype),
            "lengths": lengths,
            "alpha": alpha,
            "beta": beta,
        }
        return Case(stage, inputs, **options)

    def lengths() -> Tensor:
        return torch.randint(2, target, (beams,), generator=generator)

    yield case("shape", beams, lengths(), 0.6, 0.2, shape_only=True)
    yield case("one hypothesis, no penalties", 1, torch.tensor([target]), 0.0, 0.0)
    yield case("penalty for length alone", 1, torch.tensor([target]), 0.65, 0.0)
    yield case("penalty for coverage alone", 1, torch.tensor([target]), 0.0, 0.3)
    yield case("hypotheses of one length", beams, torch.full((beams,), target), 0.7, 0.25)
    yield case("hypotheses of different lengths", beams, lengths(), 0.8, 0.35)
    yield case("gradient", beams, lengths(), 0.8, 0.35, gradient=True)


# --- The known wrong versions, each named in the catalogue. ---


def _gru(
    order: tuple[int, int, int] = (0, 1, 2),
    gate: Callable = torch.sigmoid,
    candidate: Callable = lambda x, h, r, weight, bias: torch.tanh(x + r * (h @ weight.mT + bias)),
    finish: Callable = lambda z, n, h: (1 - z) * n + z * h,
    split: Callable = lambda rows: rows.chunk(3),
    biases: tuple[int, int] = (1, 1),
) -> Callable:
    """Builds a step of a GRU with one wrong part."""

    def step(inputs, state, input_weight, state_weight, input_bias, state_bias):
        weights, w = split(input_weight), split(state_weight)
        bias, b = split(biases[0] * input_bias), split(biases[1] * state_bias)
        of_input = [inputs @ part.mT + c for part, c in zip(weights, bias, strict=True)]
        of_state = [state @ part.mT + c for part, c in zip(w, b, strict=True)]
        reset, update, new = order
        r, z = (gate(of_input[k] + of_state[k]) for k in (reset, update))
        return finish(z, candidate(of_input[new], state, r, w[new], b[new]), state)

    return step


def _interleaved(rows: Tensor) -> list[Tensor]:
    return [rows[k::3] for k in range(3)]


def _read(step: Callable, inputs: Tensor, state: Tensor) -> Tensor:
    states = []
    for x in inputs.unbind(1):
        state = step(x, state)
        states.append(state)
    return torch.stack(states, dim=1)


def _real(inputs: Tensor, lengths: Tensor) -> Tensor:
    return (torch.arange(inputs.shape[1]) < lengths.unsqueeze(1)).unsqueeze(2)


def _summary(states: Tensor, lengths: Tensor, state: Tensor) -> Tensor:
    return torch.cat([state.unsqueeze(1), states], dim=1)[torch.arange(len(states)), lengths]


def _encode(
    read: Callable = _read,
    pad: Callable = lambda states, real, last: states * real,
    finish: Callable = _summary,
    change: Callable = lambda inputs, real: inputs,
) -> Callable:
    """Builds an encoder with one wrong part."""

    def encode(step, inputs, lengths, state):
        real = _real(inputs, lengths)
        states = read(step, change(inputs, real), state)
        last = finish(states, lengths, state)
        return pad(states, real, _summary(states, lengths, state)), last

    return encode


def _restarting(step: Callable, inputs: Tensor, state: Tensor) -> Tensor:
    return torch.stack([step(x, state) for x in inputs.unbind(1)], dim=1)


def _backwards(step: Callable, inputs: Tensor, state: Tensor) -> Tensor:
    return _read(step, inputs.flip(1), state).flip(1)


def _encode_zero_column(step, inputs, lengths, state):
    states = _read(step, inputs, state) * _real(inputs, lengths)
    return states, states[:, -1]


def _encode_from_zero(step, inputs, lengths, state):
    return _encode()(step, inputs, lengths, torch.zeros_like(state))


def _encode_wrapped(states: Tensor, lengths: Tensor, state: Tensor) -> Tensor:
    return states[torch.arange(len(states)), lengths - 1]


def _empty(pick: Callable) -> Callable:
    """Builds an encoder that takes last states out of states that are 0 at padding."""

    def encode(step, inputs, lengths, state):
        states = _read(step, inputs, state) * _real(inputs, lengths)
        return states, states[torch.arange(len(states)), pick(lengths)]

    return encode


def _encode_one_more(step, inputs, lengths, state):
    return _encode()(step, inputs, (lengths + 1).clamp(max=inputs.shape[1]), state)


def _encode_lengths_across(step, inputs, lengths, state):
    states = []
    for j, x in enumerate(inputs.unbind(1)):
        new = step(x, state)
        states.append(new * (j < lengths))
        state = torch.where(j < lengths, new, state)
    return torch.stack(states, dim=1), state


def _encode_shortest(step, inputs, lengths, state):
    return _encode()(step, inputs, lengths.min().expand_as(lengths), state)


def _losses(logits: Tensor, targets: Tensor) -> Tensor:
    return -logits.log_softmax(-1).gather(2, targets.unsqueeze(2)).squeeze(2)


def _loss(
    losses: Callable = _losses,
    mask: Callable | None = None,
    reduce: Callable = lambda x, m: (x * m).sum() / m.sum(),
) -> Callable:
    """Builds a loss over tokens with one wrong part."""

    def loss(logits, targets, lengths):
        place = torch.arange(targets.shape[1])
        real = place < lengths.unsqueeze(1) if mask is None else mask(place, lengths, targets)
        return reduce(losses(logits, targets), real)

    return loss


def _over_sentences(losses: Tensor, real: Tensor) -> Tensor:
    means = (losses * real).sum(1) / real.sum(1).clamp(min=1)
    return means[real.any(1)].mean()


def _log_of_softmax(logits: Tensor, targets: Tensor) -> Tensor:
    return -logits.softmax(-1).gather(2, targets.unsqueeze(2)).squeeze(2).log()


def _with_epsilon(epsilon: float, join: Callable) -> Callable:
    def losses(logits: Tensor, targets: Tensor) -> Tensor:
        return -join(logits.softmax(-1).gather(2, targets.unsqueeze(2)).squeeze(2), epsilon).log()

    return losses


def _over_places(logits: Tensor, targets: Tensor) -> Tensor:
    return -logits.log_softmax(1).gather(2, targets.unsqueeze(2)).squeeze(2)


def _zeroed_logits(logits, targets, lengths):
    return _losses(logits * _real(logits, lengths), targets).mean()


def _decode(
    pick: Callable = lambda logits: logits.argmax(1),
    pad: Callable = lambda token, ended, end, padding: torch.where(ended, padding, token),
    stop: Callable = lambda ended, token, end: bool(ended.all()),
    feed: Callable = lambda token, start: token,
    keep: Callable = lambda new, old: new,
    more: int = 0,
    finish: Callable = lambda tokens, start, end, padding, max_length: tokens,
) -> Callable:
    """Builds greedy decoding with one wrong part."""

    def decode(step, state, start, end, padding, max_length):
        token = torch.full((len(state),), start)
        ended, written = torch.zeros(len(state), dtype=torch.bool), []
        for _ in range(max_length + more):
            logits, new = step(feed(token, start), state)
            state = keep(new, state)
            token = pad(pick(logits), ended, end, padding)
            written.append(token)
            ended = ended | (token == end)
            if stop(ended, token, end):
                break
        return finish(torch.stack(written, dim=1), start, end, padding, max_length)

    return decode


def _decode_forgetful(known: Callable, stop: Callable) -> Callable:
    """Builds greedy decoding that knows only the last token of each row."""

    def decode(step, state, start, end, padding, max_length):
        token, written = torch.full((len(state),), start), []
        for _ in range(max_length):
            logits, state = step(token, state)
            token = torch.where(known(token, end, padding), padding, logits.argmax(1))
            written.append(token)
            if stop(token, end, padding):
                break
        return torch.stack(written, dim=1)

    return decode


def _started(tokens: Tensor, start: int, end: int, padding: int, max_length: int) -> Tensor:
    return torch.cat([torch.full_like(tokens[:, :1], start), tokens], dim=1)


def _without_end(tokens: Tensor, start: int, end: int, padding: int, max_length: int) -> Tensor:
    tokens = tokens.masked_fill(tokens == end, padding)
    return tokens[:, (tokens != padding).any(0)]


def _end_padded(tokens: Tensor, start: int, end: int, padding: int, max_length: int) -> Tensor:
    return tokens.masked_fill(tokens == end, padding)


def _filled_up(tokens: Tensor, start: int, end: int, padding: int, max_length: int) -> Tensor:
    return F.pad(tokens, (0, max_length - tokens.shape[1]), value=padding)


def _jacobian(read: Callable, inputs: Tensor, at: int | slice = -1) -> Tensor:
    return torch.autograd.functional.jacobian(lambda x: read(x)[at], inputs)  # (d_state, length, d_input)


def _reach(norm: Callable, at: int | slice = -1, flip: bool = True) -> Callable:
    """Builds the reach of a gradient with one wrong part."""

    def reach(read: Callable, inputs: Tensor) -> Tensor:
        norms = norm(_jacobian(read, inputs, at))
        return norms.flip(0) if flip else norms

    return reach


def _frobenius(jacobian: Tensor) -> Tensor:
    return jacobian.square().sum((0, 2)).sqrt()


def _reach_of_sum(read: Callable, inputs: Tensor) -> Tensor:
    inputs = inputs.detach().requires_grad_()
    return torch.autograd.grad(read(inputs)[-1].sum(), inputs)[0].norm(dim=1).flip(0)


def _reach_of_norm(read: Callable, inputs: Tensor) -> Tensor:
    inputs = inputs.detach().requires_grad_()
    return torch.autograd.grad(read(inputs)[-1].norm(), inputs)[0].norm(dim=1).flip(0)


def _reach_of_all(read: Callable, inputs: Tensor) -> Tensor:
    inputs = inputs.detach().requires_grad_()
    return torch.autograd.grad(read(inputs).sum(), inputs)[0].norm(dim=1).flip(0)


def _reach_accumulated(read: Callable, inputs: Tensor) -> Tensor:
    # Each gradient holds those before it, because nothing sets them to 0.
    return _frobenius(_jacobian(read, inputs).cumsum(0)).flip(0)


def _reach_last_entry(read: Callable, inputs: Tensor) -> Tensor:
    return _jacobian(read, inputs)[-1].norm(dim=1).flip(0)


def _changed(inputs: Tensor, lengths: Tensor, shift: int = 0) -> Tensor:
    """Changes the padding, and in wrong versions a token or all but one padding token."""
    behind = torch.arange(inputs.shape[1]) >= (lengths + shift).unsqueeze(1)
    return torch.where(behind.unsqueeze(2), 3 - 2 * inputs, inputs)


def _differ(first: Tensor, second: Tensor, tolerance: float = 1e-5) -> bool:
    return bool(((first - second).abs() > tolerance).any())


def _test(
    change: Callable = _changed,
    look: Callable = lambda states, lengths: states * _real(states, lengths),
    summary: bool = True,
    states: bool = True,
    tolerance: float = 1e-5,
    rows: slice = slice(None),
    verdict: Callable = lambda differs: not differs,
) -> Callable:
    """Builds a test that the learner might write, with one wrong part."""

    def test(encode: Callable, inputs: Tensor, lengths: Tensor) -> None:
        before, after = encode(inputs, lengths), encode(change(inputs, lengths), lengths)
        differs = False
        if states:
            differs |= _differ(look(before[0], lengths)[rows], look(after[0], lengths)[rows], tolerance)
        if summary:
            differs |= _differ(before[1][rows], after[1][rows], tolerance)
        assert verdict(differs)

    return test


def _test_nan(look: Callable) -> Callable:
    """Builds a test that puts nan into the padding, and compares as `torch.allclose` does."""

    def test(encode: Callable, inputs: Tensor, lengths: Tensor) -> None:
        real = _real(inputs, lengths)
        before, after = encode(inputs, lengths), encode(inputs.masked_fill(~real, math.nan), lengths)
        assert torch.allclose(look(before[0], real), look(after[0], real), atol=1e-5)
        assert torch.allclose(before[1], after[1], atol=1e-5)

    return test


def _test_shapes(encode: Callable, inputs: Tensor, lengths: Tensor) -> None:
    assert encode(inputs, lengths)[0].shape[:2] == inputs.shape[:2]


def _test_nothing(encode: Callable, inputs: Tensor, lengths: Tensor) -> None:
    _differ(encode(inputs, lengths)[1], encode(_changed(inputs, lengths), lengths)[1])


def _test_zero_states(encode: Callable, inputs: Tensor, lengths: Tensor) -> None:
    states, _ = encode(inputs, lengths)
    assert not _differ(states * ~_real(states, lengths), torch.zeros_like(states))


def _hypotheses(
    penalty: Callable = lambda n, alpha: ((5 + n) / 6) ** alpha,
    covered: Callable = lambda seen: seen.clamp(max=1).log().sum(-1),
    see: Callable = lambda weights, real: (weights * real).sum(-2),
    join: Callable = lambda p, lp, cp: p / lp + cp,
    factor: Callable = lambda beta: beta,
    real: Callable = lambda n, steps: (torch.arange(steps) < n.unsqueeze(1)).unsqueeze(2),
) -> Callable:
    """Builds the scores of hypotheses with one wrong part."""

    def scores(log_probability, weights, lengths, alpha, beta):
        seen = see(weights, real(lengths, weights.shape[1]))
        lp = penalty(lengths.to(weights.dtype), alpha)
        return join(log_probability, lp, factor(beta) * covered(seen))

    return scores


def _hypotheses_of_all_steps(log_probability, weights, lengths, alpha, beta):
    penalty = ((5 + weights.shape[1]) / 6) ** alpha
    return _hypotheses(penalty=lambda n, alpha: penalty)(log_probability, weights, lengths, alpha, beta)


# --- The tasks. ---

GRU_STEP = Task(
    name="gru_step",
    outputs={"state": ("sentence", "feature")},
    oracle=_oracle_gru,
    cases=_gru_cases,
    wrong=(
        (
            "reset-before-product",
            _gru(candidate=lambda x, h, r, w, b: torch.tanh(x + (r * h) @ w.mT + b)),
        ),
        ("reset-skips-bias", _gru(candidate=lambda x, h, r, w, b: torch.tanh(x + r * (h @ w.mT) + b))),
        ("reset-on-everything", _gru(candidate=lambda x, h, r, w, b: torch.tanh(r * (x + h @ w.mT + b)))),
        ("reset-on-input", _gru(candidate=lambda x, h, r, w, b: torch.tanh(r * x + h @ w.mT + b))),
        ("reset-left-out", _gru(candidate=lambda x, h, r, w, b: torch.tanh(x + h @ w.mT + b))),
        ("state-left-out-of-candidate", _gru(candidate=lambda x, h, r, w, b: torch.tanh(x))),
        ("candidate-without-tanh", _gru(candidate=lambda x, h, r, w, b: x + r * (h @ w.mT + b))),
        ("candidate-with-sigmoid", _gru(candidate=lambda x, h, r, w, b: (x + r * (h @ w.mT + b)).sigmoid())),
        ("gates-swapped", _gru(order=(1, 0, 2))),
        *(
            ("gates-in-wrong-order", _gru(order=order))
            for order in ((0, 2, 1), (1, 2, 0), (2, 0, 1), (2, 1, 0))
        ),
        ("gates-interleaved", _gru(split=_interleaved)),
        ("gates-without-sigmoid", _gru(gate=lambda x: x)),
        ("gates-with-tanh", _gru(gate=torch.tanh)),
        ("update-inverted", _gru(finish=lambda z, n, h: z * n + (1 - z) * h)),
        ("candidate-only", _gru(finish=lambda z, n, h: n)),
        ("old-state-lost", _gru(finish=lambda z, n, h: (1 - z) * n)),
        ("old-state-kept-whole", _gru(finish=lambda z, n, h: (1 - z) * n + h)),
        ("state-bias-left-out", _gru(biases=(1, 0))),
        ("input-bias-left-out", _gru(biases=(0, 1))),
        ("biases-left-out", _gru(biases=(0, 0))),
    ),
    shortcuts=frozenset({"gru_cell", "gru", "quantized_gru_cell"}),
)

ENCODE = Task(
    name="encode",
    outputs={"states": ("sentence", "position", "feature"), "last": ("sentence", "feature")},
    oracle=_oracle_encode,
    cases=_encode_cases,
    wrong=(
        ("reads-padding", _encode(pad=lambda states, real, last: states, finish=lambda s, n, h: s[:, -1])),
        ("last-reads-padding", _encode(finish=lambda states, lengths, state: states[:, -1])),
        ("last-column-of-zeros", _encode_zero_column),
        ("padding-read-as-zeros", _encode(change=lambda x, real: x * real, finish=lambda s, n, h: s[:, -1])),
        ("states-of-padding-left", _encode(pad=lambda states, real, last: states)),
        ("padding-repeats-last", _encode(pad=lambda s, real, last: torch.where(real, s, last.unsqueeze(1)))),
        ("last-one-early", _encode(finish=lambda s, n, h: _summary(s, (n - 1).clamp(min=0), h))),
        ("last-one-late", _encode(finish=lambda s, n, h: _summary(s, (n + 1).clamp(max=s.shape[1]), h))),
        (
            "last-is-mean",
            _encode(finish=lambda s, n, h: (s * _real(s, n)).sum(1) / n.clamp(min=1).unsqueeze(1)),
        ),
        ("empty-sentence-wraps-around", _encode(finish=_encode_wrapped)),
        (
            "empty-sentence-gets-first-column",
            _encode(finish=lambda s, n, h: s[torch.arange(len(s)), (n - 1).clamp(min=0)]),
        ),
        ("empty-sentence-gets-zeros", _empty(lambda lengths: (lengths - 1).clamp(min=0))),
        ("one-padding-token-read", _encode_one_more),
        ("lengths-along-wrong-axis", _encode_lengths_across),
        ("state-starts-anew", _encode(read=_restarting)),
        ("start-state-ignored", _encode_from_zero),
        ("encodes-backwards", _encode(read=_backwards)),
        ("stops-at-shortest", _encode_shortest),
        ("results-in-wrong-order", lambda *inputs: _encode()(*inputs)[::-1]),
    ),
    builds_on=frozenset({"masks", "qkv", "alignment"}),
)

TOKEN_LOSS = Task(
    name="token_loss",
    outputs={"loss": ()},
    oracle=_oracle_loss,
    cases=_loss_cases,
    wrong=(
        ("loss-of-padding", _loss(reduce=lambda losses, real: losses.mean())),
        ("divided-by-padding-too", _loss(reduce=lambda losses, real: (losses * real).mean())),
        ("mean-of-sentence-means", _loss(reduce=_over_sentences)),
        ("mean-of-sentence-means", _loss(reduce=lambda x, m: ((x * m).sum(1) / m.sum(1)).mean())),
        (
            "mean-of-sentence-means",
            _loss(reduce=lambda x, m: ((x * m).sum(1) / m.sum(1).clamp(min=1)).mean()),
        ),
        ("divided-by-sentences", _loss(reduce=lambda losses, real: (losses * real).sum() / len(losses))),
        ("sum-for-mean", _loss(reduce=lambda losses, real: (losses * real).sum())),
        ("loss-for-each-token", _loss(reduce=lambda losses, real: losses * real)),
        ("loss-for-each-sentence", _loss(reduce=lambda x, m: (x * m).sum(1) / m.sum(1).clamp(min=1))),
        ("loss-of-zeroed-logits", _zeroed_logits),
        ("loss-of-one-padding-token", _loss(mask=lambda place, n, t: place <= n.unsqueeze(1))),
        ("loss-without-last-token", _loss(mask=lambda place, n, t: place < n.unsqueeze(1) - 1)),
        ("token-zero-as-padding", _loss(mask=lambda place, n, t: t != 0)),
        ("loss-with-wrong-sign", _loss(losses=lambda logits, t: -_losses(logits, t))),
        ("probability-as-loss", _loss(losses=lambda logits, t: 1 - (-_losses(logits, t)).exp())),
        ("probability-as-loss", _loss(losses=lambda logits, t: -(-_losses(logits, t)).exp())),
        ("softmax-before-log-softmax", _loss(losses=lambda logits, t: _losses(logits.softmax(-1), t))),
        ("softmax-over-positions", _loss(losses=_over_places)),
        ("logit-as-loss", _loss(losses=lambda logits, t: -logits.gather(2, t.unsqueeze(2)).squeeze(2))),
        ("log-of-softmax", _loss(losses=_log_of_softmax)),
        ("log-of-softmax", _loss(losses=_log_of_softmax, reduce=lambda losses, real: losses[real].mean())),
        *(
            ("log-with-epsilon", _loss(losses=_with_epsilon(epsilon, join)))
            for epsilon in (1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-12)
            for join in (torch.Tensor.add, torch.Tensor.clamp)
        ),
        ("perplexity-for-loss", lambda *inputs: _loss()(*inputs).exp()),
    ),
    builds_on=frozenset({"masks", "qkv", "alignment"}),
)

GREEDY_DECODE = Task(
    name="greedy_decode",
    outputs={"tokens": ("sentence", "step")},
    oracle=_oracle_decode,
    cases=_decode_cases,
    wrong=(
        ("never-stops", _decode(stop=lambda ended, token, end: False, pad=lambda token, *_: token)),
        ("writes-after-end", _decode(pad=lambda token, *_: token)),
        (
            "all-must-end-at-once",
            _decode(stop=lambda ended, t, end: bool((t == end).all()), pad=lambda token, *_: token),
        ),
        ("stops-at-first-end", _decode(stop=lambda ended, token, end: bool(ended.any()))),
        *(
            ("end-not-remembered", _decode_forgetful(lambda token, end, padding: token == end, stop))
            for stop in (
                lambda token, end, padding: False,
                lambda token, end, padding: bool((token == end).all()),
                lambda token, end, padding: bool(((token == end) | (token == padding)).all()),
            )
        ),
        (
            "padding-ends-sentence",
            _decode_forgetful(
                lambda token, end, padding: (token == end) | (token == padding),
                lambda token, end, padding: bool(((token == end) | (token == padding)).all()),
            ),
        ),
        ("end-for-padding", _decode(pad=lambda t, ended, end, p: torch.where(ended, end, t))),
        ("end-replaced-by-padding", _decode(finish=_end_padded)),
        ("end-cut-off", _decode(finish=_without_end)),
        ("filled-to-max-length", _decode(finish=_filled_up)),
        ("start-in-output", _decode(finish=_started)),
        ("one-token-too-many", _decode(more=1)),
        ("one-token-too-few", _decode(more=-1)),
        ("feeds-start-each-time", _decode(feed=torch.full_like)),
        ("decoder-state-not-kept", _decode(keep=lambda new, old: old)),
        ("least-probable-token", _decode(pick=lambda logits: logits.argmin(1))),
    ),
    builds_on=frozenset({"masks", "qkv", "alignment"}),
)

GRADIENT_REACH = Task(
    name="gradient_reach",
    outputs={"norms": ("distance",)},
    oracle=_oracle_reach,
    cases=_reach_cases,
    wrong=(
        ("gradient-of-sum", _reach_of_sum),
        ("gradient-of-all-states", _reach_of_all),
        ("gradient-of-all-states", _reach(lambda j: j.square().sum((0, 1, 3)).sqrt(), at=slice(None))),
        ("gradient-of-norm", _reach_of_norm),
        ("norms-added-up", _reach(lambda j: j.norm(dim=2).sum(0))),
        ("gradient-of-one-entry", _reach_last_entry),
        ("gradients-pile-up", _reach_accumulated),
        ("order-of-positions", _reach(_frobenius, flip=False)),
        ("gradient-of-first-state", _reach(_frobenius, at=0)),
        ("norm-squared", _reach(lambda j: j.square().sum((0, 2)))),
        ("norm-of-absolute-values", _reach(lambda j: j.abs().sum((0, 2)))),
        ("norm-as-maximum", _reach(lambda j: j.abs().amax((0, 2)))),
        ("norm-as-mean", _reach(lambda j: j.square().mean((0, 2)).sqrt())),
        ("entries-summed-with-sign", _reach(lambda j: j.sum((0, 2)))),
        ("largest-singular-value", _reach(lambda j: torch.linalg.matrix_norm(j.transpose(0, 1), ord=2))),
    ),
    builds_on=frozenset({"masks", "qkv", "alignment"}),
)

ASSERT_IGNORES_PADDING = Task(
    name="assert_ignores_padding",
    outputs={"the verdict of your test (True: it passes)": TRUTH},
    oracle=_oracle_test,
    cases=_test_cases,
    wrong=(
        ("test-lets-all-pass", _test_nothing),
        ("test-lets-all-pass", _test_shapes),
        ("test-of-zeros-only", _test_zero_states),
        ("test-compares-padding", _test(look=lambda states, lengths: states)),
        ("test-wants-equal-bits", _test(tolerance=0.0)),
        ("test-stricter-than-task", _test(tolerance=1e-6)),
        ("test-pads-with-nan", _test_nan(lambda states, real: states * real)),
        ("test-pads-with-nan", _test_nan(lambda states, real: states[real.squeeze(2)])),
        ("test-too-tolerant", _test(tolerance=0.1)),
        ("test-of-first-sentence", _test(rows=slice(1))),
        ("test-of-states-only", _test(summary=False)),
        ("test-of-summary-only", _test(states=False)),
        ("test-sets-zeros", _test(change=lambda inputs, lengths: inputs * _real(inputs, lengths))),
        ("test-changes-tokens", _test(change=lambda inputs, lengths: 3 - 2 * inputs)),
        ("test-changes-tokens", _test(change=lambda x, n: _changed(x, n, -1))),
        ("test-keeps-first-padding", _test(change=lambda x, n: _changed(x, n, 1))),
        ("test-upside-down", _test(verdict=lambda differs: differs)),
    ),
    builds_on=frozenset({"masks", "qkv", "alignment"}),
)

HYPOTHESIS_SCORES = Task(
    name="hypothesis_scores",
    outputs={"scores": ("hypothesis",)},
    oracle=_oracle_hypotheses,
    cases=_hypothesis_cases,
    wrong=(
        ("no-length-penalty", _hypotheses(penalty=lambda n, alpha: 1.0)),
        ("divided-by-length", _hypotheses(penalty=lambda n, alpha: n**alpha)),
        ("length-penalty-multiplied", _hypotheses(join=lambda p, lp, cp: p * lp + cp)),
        ("exponent-as-factor", _hypotheses(penalty=lambda n, alpha: alpha * (5 + n) / 6)),
        ("exponent-on-length-only", _hypotheses(penalty=lambda n, alpha: (5 + n**alpha) / (5 + 1**alpha))),
        ("exponent-on-length-only", _hypotheses(penalty=lambda n, alpha: (5 + n**alpha) / 6**alpha)),
        ("padded-length-as-n", _hypotheses_of_all_steps),
        ("limit-after-logarithm", _hypotheses(covered=lambda seen: seen.log().clamp(max=1).sum(-1))),
        ("length-penalty-without-six", _hypotheses(penalty=lambda n, alpha: (5 + n) ** alpha)),
        ("padded-steps-counted", _hypotheses(real=lambda n, steps: torch.ones(1, steps, 1))),
        ("coverage-without-effect", _hypotheses(factor=lambda beta: 0.0)),
        ("coverage-without-factor", _hypotheses(factor=lambda beta: 1.0)),
        ("coverage-not-limited", _hypotheses(covered=lambda seen: seen.log().sum(-1))),
        ("coverage-limit-inverted", _hypotheses(covered=lambda seen: seen.clamp(min=1).log().sum(-1))),
        ("coverage-without-logarithm", _hypotheses(covered=lambda seen: seen.clamp(max=1).sum(-1))),
        ("logarithm-after-sum", _hypotheses(covered=lambda seen: seen.clamp(max=1).sum(-1).log())),
        ("coverage-as-mean", _hypotheses(covered=lambda seen: seen.clamp(max=1).log().mean(-1))),
        ("coverage-subtracted", _hypotheses(join=lambda p, lp, cp: p / lp - cp)),
        ("coverage-divided-by-length", _hypotheses(join=lambda p, lp, cp: (p + cp) / lp)),
    ),
    builds_on=frozenset({"masks", "qkv", "alignment"}),
)

check_gru_step = checking(GRU_STEP)
check_encode = checking(ENCODE)
check_token_loss = checking(TOKEN_LOSS)
check_greedy_decode = checking(GREEDY_DECODE)
check_gradient_reach = checking(GRADIENT_REACH)
check_assert_ignores_padding = checking(ASSERT_IGNORES_PADDING)
check_hypothesis_scores = checking(HYPOTHESIS_SCORES)
