"""Checks of the set `alignment`: the parts of one step of a decoder with attention, and the whole step."""

import itertools
from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

from attncourse.checks.judge import Task, checking
from attncourse.checks.materials import (
    FUSED_ATTENTION,
    INFINITY,
    normal,
    sizes,
    softmax,
    softmax_additive,
    softmax_billion,
    softmax_exp,
    softmax_in_place,
    softmax_late,
    softmax_low,
)
from attncourse.checks.observe import Case

BATCH = 3  # no number of materials.SIZES

# --- The right answers: one number after the other. ---


def _oracle_additive(
    state: Tensor, states: Tensor, state_weight: Tensor, states_weight: Tensor, vector: Tensor
) -> Tensor:
    rows = []
    for s, sentence in zip(state, states, strict=True):
        asked = [(w * s).sum() for w in state_weight]
        row = []
        for h in sentence:
            offered = [(u * h).sum() for u in states_weight]
            row.append(sum(v * torch.tanh(a + o) for v, a, o in zip(vector, asked, offered, strict=True)))
        rows.append(torch.stack(row))
    return torch.stack(rows)


def _oracle_softmax(scores: Tensor, lengths: Tensor) -> Tensor:
    rows = []
    for row, length in zip(scores, lengths.tolist(), strict=True):
        top = max((row[j].item() for j in range(length)), default=0.0)
        total = sum(torch.exp(row[j] - top) for j in range(length))
        rows.append(
            torch.stack([torch.exp(e - top) / total if j < length else 0 * e for j, e in enumerate(row)])
        )
    return torch.stack(rows)


def _oracle_context(weights: Tensor, states: Tensor) -> Tensor:
    return torch.stack(
        [
            sum(a * h for a, h in zip(row, sentence, strict=True))
            for row, sentence in zip(weights, states, strict=True)
        ]
    )


def _oracle_bahdanau(
    cell: Callable, score: Callable, state: Tensor, inputs: Tensor, states: Tensor, lengths: Tensor
) -> tuple:
    weights = _oracle_softmax(score(state, states), lengths)
    context = _oracle_context(weights, states)
    return cell(torch.cat([inputs, context], dim=1), state), context, weights


def _oracle_luong(
    cell: Callable,
    score: Callable,
    weight: Tensor,
    state: Tensor,
    inputs: Tensor,
    states: Tensor,
    lengths: Tensor,
) -> tuple:
    state = cell(inputs, state)
    weights = _oracle_softmax(score(state, states), lengths)
    context = _oracle_context(weights, states)
    split = context.shape[1]
    rows = [
        torch.stack([torch.tanh((w[:split] * c).sum() + (w[split:] * s).sum()) for w in weight])
        for c, s in zip(context, state, strict=True)
    ]
    return state, torch.stack(rows), weights


def _oracle_monotonic(stops: Tensor, previous: Tensor) -> Tensor:
    rows = []
    for p, before in zip(stops, previous, strict=True):
        row = [0 * chance for chance in p]
        for k in range(len(p)):
            way = before[k]  # from each old position, walk on to the end
            for j in range(k, len(p)):
                row[j] = row[j] + way * p[j]
                way = way * (1 - p[j])
        rows.append(torch.stack(row))
    return torch.stack(rows)


# --- The cases. All axes have different sizes; values are random and keep tanh and softmax unsaturated. ---


def _additive_cases(generator: torch.Generator, dtype: torch.dtype) -> Iterator[Case]:
    length, d_state, d_source, hidden = sizes(generator, 4)

    def case(
        stage: str,
        batch: int = BATCH,
        length: int = length,
        d_state: int = d_state,
        d_source: int = d_source,
        hidden: int = hidden,
        **options,
    ) -> Case:
        return Case(
            stage,
            {
                "state": normal(generator, dtype, batch, d_state),
                "states": normal(generator, dtype, batch, length, d_source),
                "state_weight": normal(generator, dtype, hidden, d_state) / d_state**0.5,
                "states_weight": normal(generator, dtype, hidden, d_source) / d_source**0.5,
                "vector": normal(generator, dtype, hidden),
            },
            **options,
        )

    yield case("shape", shape_only=True)
    # The only stage in which a weight that was not transposed raises no error, so that it can be named.
    yield case("equal widths", d_state=hidden, d_source=hidden)
    yield case("one sentence, one position", 1, 1)
    yield case("one sentence", 1)
    yield case("batch")
    yield case("gradient", gradient=True)


def _lengths(generator: torch.Generator, longest: int, empty: bool = False) -> Tensor:
    """Draws lengths that differ: one sentence is full, one has one token, or none."""
    between = 2 + torch.randperm(longest - 3, generator=generator)[: BATCH - 2]
    lengths = torch.cat([torch.tensor([longest, 0 if empty else 1]), between])
    return lengths[torch.randperm(BATCH, generator=generator)]


def _softmax_cases(generator: torch.Generator, dtype: torch.dtype) -> Iterator[Case]:
    (length,) = sizes(generator, 1)

    def scores(batch: int = BATCH, dtype: torch.dtype = dtype, scale: float = 1.0) -> Tensor:
        return scale * normal(generator, dtype, batch, length)

    def case(stage: str, scores: Tensor, lengths: Tensor, **options) -> Case:
        return Case(stage, {"scores": scores, "lengths": lengths}, **options)

    lengths, empty = _lengths(generator, length), _lengths(generator, length, empty=True)
    yield case("shape", scores(), lengths, shape_only=True)
    # The only stage in which a mask with mixed axes raises no error, so that it can be named.
    square = 1 + torch.randperm(length, generator=generator)
    yield case("as many sentences as positions", scores(length), square)
    yield case("one sentence without padding", scores(1), torch.tensor([length]))
    yield case("one sentence with padding", scores(1), torch.tensor([length - 2]))
    yield case("sentences of different lengths", scores(), lengths)
    yield case("sentence without tokens", scores(), empty)
    yield case("gradient", scores(), empty, gradient=True)
    # Here padding has the highest scores: a row's maximum or sum must not include it.
    large = scores(scale=1000.0, dtype=torch.float32)
    padding = torch.arange(length) >= lengths.unsqueeze(-1)
    yield case("large scores", large, torch.full((BATCH,), length))
    yield case("large scores of padding", large + 10_000.0 * padding, lengths)
    yield case("very low scores", large - 30_000.0, lengths)
    yield case("half precision", scores(dtype=torch.float16), empty)


def _context_cases(generator: torch.Generator, dtype: torch.dtype) -> Iterator[Case]:
    length, width = sizes(generator, 2)

    def case(stage: str, batch: int = BATCH, length: int = length, raw: bool = False, **options) -> Case:
        weights = normal(generator, torch.float64, batch, length)
        inputs = {
            "weights": (weights if raw else weights.softmax(-1)).to(dtype),
            "states": normal(generator, dtype, batch, length, width),
        }
        return Case(stage, inputs, **options)

    yield case("shape", shape_only=True)
    yield case("one sentence, one position", 1, 1)
    yield case("one sentence", 1)
    yield case("batch")
    yield case("weights of any sum", raw=True)
    yield case("gradient", gradient=True)


def make_cell(generator: torch.Generator, d_inputs: int, d_state: int) -> Callable:
    """Makes a recurrent cell that says what it wants when it gets something else."""
    on_inputs = normal(generator, torch.float64, d_state, d_inputs) / d_inputs**0.5
    on_state = normal(generator, torch.float64, d_state, d_state) / d_state**0.5

    def cell(inputs: Tensor, state: Tensor) -> Tensor:
        shapes = tuple(inputs.shape), tuple(state.shape)
        if shapes[0] != (len(state), d_inputs) or shapes[1] != (len(state), d_state):
            raise ValueError(
                f"this cell takes inputs of shape (batch, {d_inputs}), then a state of shape "
                f"(batch, {d_state}), but got {shapes[0]} and {shapes[1]}"
            )
        return torch.tanh(inputs @ on_inputs.to(inputs).mT + state @ on_state.to(inputs).mT)

    return cell


def _score(generator: torch.Generator, d_state: int, d_source: int) -> Callable:
    """Makes a score of one state for each position of its sentence, that says what it wants."""
    weight = 1.5 * normal(generator, torch.float64, d_state, d_source) / d_state**0.5

    def score(state: Tensor, states: Tensor) -> Tensor:
        shapes = tuple(state.shape), tuple(states.shape)
        if len(shapes[1]) != 3 or shapes[0] != (len(states), d_state) or shapes[1][2] != d_source:
            raise ValueError(
                f"this score takes a state of shape (batch, {d_state}), then states of shape "
                f"(batch, source, {d_source}), but got {shapes[0]} and {shapes[1]}"
            )
        return torch.tanh((states @ (state @ weight.to(state)).unsqueeze(-1)).squeeze(-1) / 2) * 2

    return score


def _step_cases(joined: bool) -> Callable:
    """Makes the cases of a step: of Bahdanau et al. if the cell reads the context, else of Luong et al."""

    def cases(generator: torch.Generator, dtype: torch.dtype) -> Iterator[Case]:
        length, d_state, d_inputs, d_source = sizes(generator, 4)
        cell = make_cell(generator, d_inputs + joined * d_source, d_state)
        score = _score(generator, d_state, d_source)
        weight = normal(generator, dtype, 6, d_source + d_state) / (d_source + d_state) ** 0.5
        given = {"cell": cell, "score": score} | ({} if joined else {"weight": weight})

        def case(stage: str, lengths: Tensor, length: int = length, **options) -> Case:
            batch = len(lengths)
            tensors = {
                "state": normal(generator, dtype, batch, d_state),
                "inputs": normal(generator, dtype, batch, d_inputs),
                "states": normal(generator, dtype, batch, length, d_source),
                "lengths": lengths,
            }
            return Case(stage, given | tensors, **options)

        # Even the longest sentence has padding, as in a batch that is padded to a fixed length.
        lengths, empty = _lengths(generator, length - 1), _lengths(generator, length - 1, empty=True)
        yield case("shape", lengths, shape_only=True)
        yield case("one sentence, one position", torch.tensor([1]), 1)
        yield case("one sentence", torch.tensor([length]))
        yield case("batch without padding", torch.full((BATCH,), length))
        yield case("padding", lengths)
        yield case("sentence without tokens", empty)
        yield case("gradient", empty, gradient=True)

    return cases


def _monotonic_cases(generator: torch.Generator, dtype: torch.dtype) -> Iterator[Case]:
    (length,) = sizes(generator, 1)

    def case(
        stage: str,
        batch: int = BATCH,
        length: int = length,
        start: bool = False,
        part: float | None = None,
        **options,
    ) -> Case:
        stops = normal(generator, torch.float64, batch, length).sigmoid()
        previous = normal(generator, torch.float64, batch, length).softmax(-1)
        if part:
            previous = part * previous
        if start:
            previous = F.one_hot(torch.zeros(batch, dtype=torch.long), length).double()
        return Case(stage, {"stops": stops.to(dtype), "previous": previous.to(dtype)}, **options)

    yield case("shape", shape_only=True)
    yield case("one position", 1, 1)
    yield case("first step, which starts at position 0", 1, start=True)
    yield case("one sentence", 1)
    yield case("batch")
    yield case("earlier weights that sum to less than 1", part=0.7)
    yield case("gradient", gradient=True)
    certain = case("certain stops", 2).inputs
    certain["stops"] = certain["stops"].masked_fill(certain["stops"] > 0.65, 1.0)
    certain["stops"][:, 1] = 1.0
    certain["stops"][:, 3] = 0.0
    note = "Here some probabilities are exactly 0 and some exactly 1."
    yield Case("certain stops", certain, note=note)
    yield Case("gradient at certain stops", certain, gradient=True, note=note)
    # In float32 the product over all positions is 0.
    long = case("long sentence", 1, 45).inputs
    long["stops"] = 0.9 + 0.08 * long["stops"]
    yield Case("long sentence", long)


# --- The known wrong versions, each named in the catalogue. ---


def _sums(state: Tensor, states: Tensor, state_weight: Tensor, states_weight: Tensor) -> Tensor:
    return (state @ state_weight.mT).unsqueeze(1) + states @ states_weight.mT


def _additive(state: Tensor, states: Tensor, state_weight: Tensor, states_weight: Tensor, vector: Tensor):
    """Does the right thing, as a piece of versions that are wrong elsewhere."""
    return torch.tanh(_sums(state, states, state_weight, states_weight)) @ vector


def _additive_with(curve: Callable) -> Callable:
    """Builds additive scores with another function in place of tanh."""

    def scores(state, states, state_weight, states_weight, vector):
        return curve(_sums(state, states, state_weight, states_weight)) @ vector

    return scores


def _additive_apart(state, states, state_weight, states_weight, vector):
    return (torch.tanh(state @ state_weight.mT).unsqueeze(1) + torch.tanh(states @ states_weight.mT)) @ vector


def _additive_outside(state, states, state_weight, states_weight, vector):
    return torch.tanh(_sums(state, states, state_weight, states_weight) @ vector)


def _additive_product(state, states, state_weight, states_weight, vector):
    return torch.tanh((state @ state_weight.mT).unsqueeze(1) * (states @ states_weight.mT)) @ vector


def _additive_without_vector(state, states, state_weight, states_weight, vector):
    return torch.tanh(_sums(state, states, state_weight, states_weight)).sum(-1)


def _additive_mean(state, states, state_weight, states_weight, vector):
    return (torch.tanh(_sums(state, states, state_weight, states_weight)) * vector).mean(-1)


def _additive_unsummed(state, states, state_weight, states_weight, vector):
    return torch.tanh(_sums(state, states, state_weight, states_weight)) * vector


def _additive_of_state(state, states, state_weight, states_weight, vector):
    scores = torch.tanh(state @ state_weight.mT) @ vector
    return scores.unsqueeze(1).expand(-1, states.shape[1])


def _additive_first_state(state, states, state_weight, states_weight, vector):
    return _additive(state[:1], states, state_weight, states_weight, vector)


def _mask(scores: Tensor, lengths: Tensor) -> Tensor:
    return torch.arange(scores.shape[1]) < lengths.unsqueeze(1)


def _softmax(scores: Tensor, lengths: Tensor, mask: Callable = _mask) -> Tensor:
    return softmax(scores, mask(scores, lengths))


def _softmax_with(mask: Callable) -> Callable:
    """Builds the softmax with a wrong mask."""
    return lambda scores, lengths: _softmax(scores, lengths, mask)


def _masking(wrong: Callable) -> Callable:
    """Lets a wrong softmax with a mask serve lengths."""
    return lambda scores, lengths: wrong(scores, _mask(scores, lengths))


def _softmax_of_batch(scores: Tensor, lengths: Tensor) -> Tensor:
    return scores.masked_fill(~_mask(scores, lengths), -INFINITY).softmax(0).nan_to_num(0.0)


def _softmax_of_all(scores: Tensor, lengths: Tensor) -> Tensor:
    masked = scores.masked_fill(~_mask(scores, lengths), -INFINITY)
    return masked.flatten().softmax(0).view_as(scores)


def _softmax_columns(scores: Tensor, lengths: Tensor) -> Tensor:
    mask = torch.arange(scores.shape[1]).unsqueeze(1) < lengths
    return scores.masked_fill(~mask, -INFINITY).softmax(1)


def _softmax_diagonal(scores: Tensor, lengths: Tensor) -> Tensor:
    mask = torch.arange(scores.shape[1]) < lengths
    return scores.masked_fill(~mask, -INFINITY).softmax(1)


WRONG_MASKS: tuple[tuple[str, Callable], ...] = (
    ("padding-attended", lambda scores, lengths: scores.softmax(1)),
    ("padding-for-tokens", _softmax_with(lambda scores, lengths: ~_mask(scores, lengths))),
    ("one-padding-token-kept", _softmax_with(lambda scores, lengths: _mask(scores, lengths + 1))),
    ("last-token-lost", _softmax_with(lambda scores, lengths: _mask(scores, lengths - 1))),
    (
        "one-length-for-all",
        _softmax_with(lambda scores, lengths: _mask(scores, lengths.max().expand_as(lengths))),
    ),
    ("padding-in-front", _softmax_with(lambda scores, lengths: _mask(scores, lengths).flip(1))),
    ("mask-after-softmax", lambda scores, lengths: scores.softmax(1) * _mask(scores, lengths)),
    ("mask-as-zero-score", lambda scores, lengths: (scores * _mask(scores, lengths)).softmax(1)),
    (
        "empty-row-nan",
        lambda scores, lengths: scores.masked_fill(~_mask(scores, lengths), -INFINITY).softmax(1),
    ),
    ("empty-row-uniform", _masking(softmax_low)),
    ("empty-row-nan-gradient", _masking(softmax_additive)),
    ("softmax-over-batch", _softmax_of_batch),
    ("softmax-over-all", _softmax_of_all),
)


def _context(weights: Tensor, states: Tensor) -> Tensor:
    """Does the right thing, as a piece of versions that are wrong elsewhere."""
    return (weights.unsqueeze(2) * states).sum(1)


def _bahdanau(normalise: Callable = _softmax, read: Callable = _context) -> Callable:
    """Builds the step of Bahdanau et al. with one wrong part."""

    def step(cell, score, state, inputs, states, lengths):
        weights = normalise(score(state, states), lengths)
        context = read(weights, states)
        return cell(torch.cat([inputs, context], dim=1), state), context, weights

    return step


def _bahdanau_asks_again(cell, score, state, inputs, states, lengths):
    new, _, _ = _bahdanau()(cell, score, state, inputs, states, lengths)
    weights = _softmax(score(new, states), lengths)
    return new, _context(weights, states), weights


def _bahdanau_two_steps(cell, score, state, inputs, states, lengths):
    new, _, _ = _bahdanau()(cell, score, state, inputs, states, lengths)
    return _bahdanau()(cell, score, new, inputs, states, lengths)


def _bahdanau_luong_order(cell, score, state, inputs, states, lengths):
    nothing = states.new_zeros(len(states), states.shape[2])
    new = cell(torch.cat([inputs, nothing], dim=1), state)
    weights = _softmax(score(new, states), lengths)
    return new, _context(weights, states), weights


def _bahdanau_context_unread(cell, score, state, inputs, states, lengths):
    _, context, weights = _bahdanau()(cell, score, state, inputs, states, lengths)
    nothing = torch.zeros_like(context)
    return cell(torch.cat([inputs, nothing], dim=1), state), context, weights


def _bahdanau_swapped(cell, score, state, inputs, states, lengths):
    _, context, weights = _bahdanau()(cell, score, state, inputs, states, lengths)
    return cell(torch.cat([context, inputs], dim=1), state), context, weights


def _bahdanau_old_state(cell, score, state, inputs, states, lengths):
    _, context, weights = _bahdanau()(cell, score, state, inputs, states, lengths)
    return state, context, weights


def _bahdanau_scores(cell, score, state, inputs, states, lengths):
    new, context, _ = _bahdanau()(cell, score, state, inputs, states, lengths)
    return new, context, score(state, states)


def _bahdanau_masked_scores(cell, score, state, inputs, states, lengths):
    new, context, _ = _bahdanau()(cell, score, state, inputs, states, lengths)
    scores = score(state, states)
    return new, context, scores.masked_fill(~_mask(scores, lengths), -INFINITY)


def _reordered(step: Callable) -> list[Callable]:
    """Builds the versions that return the right results in a wrong order."""

    def version(order: tuple[int, ...]) -> Callable:
        return lambda *inputs: tuple(step(*inputs)[i] for i in order)

    return [version(order) for order in list(itertools.permutations(range(3)))[1:]]


def _last_state(weights: Tensor, states: Tensor) -> Tensor:
    return states[:, -1]


def _joined(weight: Tensor, context: Tensor, state: Tensor) -> Tensor:
    return torch.tanh(torch.cat([context, state], dim=1) @ weight.mT)


def _luong(normalise: Callable = _softmax, read: Callable = _context, join: Callable = _joined) -> Callable:
    """Builds the step of Luong et al. with one wrong part."""

    def step(cell, score, weight, state, inputs, states, lengths):
        state = cell(inputs, state)
        weights = normalise(score(state, states), lengths)
        return state, join(weight, read(weights, states), state), weights

    return step


def _luong_asks_old(cell, score, weight, state, inputs, states, lengths):
    new = cell(inputs, state)
    weights = _softmax(score(state, states), lengths)
    return new, _joined(weight, _context(weights, states), new), weights


def _luong_joins_old(cell, score, weight, state, inputs, states, lengths):
    new, _, weights = _luong()(cell, score, weight, state, inputs, states, lengths)
    return new, _joined(weight, _context(weights, states), state), weights


def _luong_old_state(cell, score, weight, state, inputs, states, lengths):
    _, joined, weights = _luong()(cell, score, weight, state, inputs, states, lengths)
    return state, joined, weights


def _luong_never_steps(cell, score, weight, state, inputs, states, lengths):
    weights = _softmax(score(state, states), lengths)
    return state, _joined(weight, _context(weights, states), state), weights


def _luong_joined_as_state(cell, score, weight, state, inputs, states, lengths):
    _, joined, weights = _luong()(cell, score, weight, state, inputs, states, lengths)
    return joined, joined, weights


def _luong_context(cell, score, weight, state, inputs, states, lengths):
    new, _, weights = _luong()(cell, score, weight, state, inputs, states, lengths)
    return new, _context(weights, states), weights


def _luong_two_steps(cell, score, weight, state, inputs, states, lengths):
    return _luong()(cell, score, weight, cell(inputs, state), inputs, states, lengths)


def _luong_scores(cell, score, weight, state, inputs, states, lengths):
    new, joined, _ = _luong()(cell, score, weight, state, inputs, states, lengths)
    return new, joined, score(new, states)


def _shifted(values: Tensor, first: float) -> Tensor:
    """Moves values one position on, and puts a number in front."""
    return F.pad(values[:, :-1], (1, 0), value=first)


def _arriving(stops: Tensor, previous: Tensor, staying: bool = True, leave: Callable | None = None) -> Tensor:
    """Gives the probability that reading comes to each position, whether or not it stops there."""
    leave = leave or (lambda p: 1 - p)
    arriving, rows = torch.zeros_like(stops[:, 0]), []
    for j in range(stops.shape[1]):
        passed = arriving * leave(stops[:, j - 1]) if j else arriving
        arriving = passed + previous[:, j]
        rows.append(arriving if staying else passed)
    return torch.stack(rows, dim=1)


def _monotonic(stops: Tensor, previous: Tensor) -> Tensor:
    """Does the right thing, as a piece of versions that are wrong elsewhere."""
    return stops * _arriving(stops, previous)


def _monotonic_from_start(stops: Tensor, previous: Tensor) -> Tensor:
    return stops * _shifted((1 - stops).cumprod(1), 1.0)


def _monotonic_moving_on(stops: Tensor, previous: Tensor) -> Tensor:
    # Starts behind each old position: the position itself is neither stopped at nor counted as passed.
    return stops * _arriving(stops, _shifted(previous, 0.0))


def _monotonic_one_too_far(stops: Tensor, previous: Tensor) -> Tensor:
    return stops * (1 - stops) * _arriving(stops, previous)


def _monotonic_all_passed(stops: Tensor, previous: Tensor) -> Tensor:
    return stops * _shifted((1 - stops).cumprod(1), 1.0) * previous.cumsum(1)


def _monotonic_nothing_passed(stops: Tensor, previous: Tensor) -> Tensor:
    return stops * previous.cumsum(1)


def _monotonic_normalised(stops: Tensor, previous: Tensor) -> Tensor:
    weights = _monotonic(stops, previous)
    return weights / weights.sum(1, keepdim=True)


def _monotonic_backwards(stops: Tensor, previous: Tensor) -> Tensor:
    return _monotonic(stops.flip(1), previous.flip(1)).flip(1)


def _monotonic_divided(stops: Tensor, previous: Tensor) -> Tensor:
    passed = _shifted((1 - stops).cumprod(1), 1.0)
    return stops * passed * (previous / passed).cumsum(1)


def _monotonic_clamped(stops: Tensor, previous: Tensor) -> Tensor:
    passed = _shifted((1 - stops).cumprod(1), 1.0)
    return stops * passed * (previous / passed.clamp(min=1e-10)).cumsum(1)


def _monotonic_inclusive(stops: Tensor, previous: Tensor) -> Tensor:
    passed = (1 - stops).cumprod(1)
    return stops * passed * (previous / passed.clamp(min=1e-10)).cumsum(1)


# --- The tasks. ---

ADDITIVE_SCORES = Task(
    name="additive_scores",
    outputs={"scores": ("sentence", "position")},
    oracle=_oracle_additive,
    cases=_additive_cases,
    wrong=(
        ("no-tanh", _additive_with(lambda x: x)),
        ("sigmoid-for-tanh", _additive_with(torch.sigmoid)),
        ("relu-for-tanh", _additive_with(torch.relu)),
        ("tanh-before-sum", _additive_apart),
        ("tanh-outside", _additive_outside),
        ("product-for-sum", _additive_product),
        ("vector-left-out", _additive_without_vector),
        ("mean-over-hidden", _additive_mean),
        ("hidden-not-summed", _additive_unsummed),
        ("scaled-additive", lambda *inputs: _additive(*inputs) / inputs[-1].shape[0] ** 0.5),
        ("scores-ignore-state", lambda s, h, w, u, v: torch.tanh(h @ u.mT) @ v),
        ("scores-ignore-states", _additive_of_state),
        ("one-state-for-all", _additive_first_state),
        ("weight-not-transposed", lambda s, h, w, u, v: _additive(s, h, w.mT, u.mT, v)),
        ("projections-swapped", lambda s, h, w, u, v: _additive(s, h, u, w, v)),
        ("weights-for-scores", lambda *inputs: _additive(*inputs).softmax(1)),
        ("transposed", lambda *inputs: _additive(*inputs).mT),
        ("axis-left-over", lambda *inputs: _additive(*inputs).unsqueeze(-1)),
    ),
)

PADDED_SOFTMAX = Task(
    name="padded_softmax",
    outputs={"weights": ("sentence", "position")},
    oracle=_oracle_softmax,
    cases=_softmax_cases,
    wrong=(
        *WRONG_MASKS,
        ("renormalised-late", _masking(softmax_late)),
        ("mask-transposed", _softmax_columns),
        ("lengths-against-positions", _softmax_diagonal),
        ("half-overflow", _masking(softmax_billion)),
        ("exp-overflow", _masking(softmax_exp)),
        ("log-weights", lambda scores, lengths: _softmax(scores, lengths).log()),
        ("changes-inputs", _masking(softmax_in_place)),
    ),
    shortcuts=FUSED_ATTENTION,
    builds_on=frozenset({"masks"}),
)

CONTEXT_VECTOR = Task(
    name="context_vector",
    outputs={"context": ("sentence", "feature")},
    oracle=_oracle_context,
    cases=_context_cases,
    wrong=(
        ("plain-mean", lambda weights, states: states.mean(1)),
        ("hard-choice", lambda weights, states: states[torch.arange(len(states)), weights.argmax(1)]),
        ("fixed-vector", lambda weights, states: states[:, -1]),
        ("divided-by-keys", lambda weights, states: _context(weights, states) / states.shape[1]),
        ("renormalised", lambda weights, states: _context(weights / weights.sum(1, keepdim=True), states)),
        ("softmax-twice", lambda weights, states: _context(weights.softmax(1), states)),
        ("batch-mixed", lambda weights, states: weights @ states),
        ("positions-not-summed", lambda weights, states: weights.unsqueeze(2) * states),
        ("features-summed", lambda weights, states: (weights.unsqueeze(2) * states).sum(2)),
        ("axis-left-over", lambda weights, states: weights.unsqueeze(1) @ states),
    ),
    shortcuts=FUSED_ATTENTION,
)

BAHDANAU_STEP = Task(
    name="bahdanau_step",
    outputs={
        "state": ("sentence", "feature"),
        "context": ("sentence", "feature"),
        "weights": ("sentence", "position"),
    },
    oracle=_oracle_bahdanau,
    cases=_step_cases(joined=True),
    wrong=(
        *((name, _bahdanau(normalise=wrong)) for name, wrong in WRONG_MASKS),
        ("attends-from-new-state", _bahdanau_luong_order),
        ("asks-again-after-step", _bahdanau_asks_again),
        ("steps-twice", _bahdanau_two_steps),
        ("context-not-read", _bahdanau_context_unread),
        ("joined-in-wrong-order", _bahdanau_swapped),
        ("returns-old-state", _bahdanau_old_state),
        ("fixed-vector", _bahdanau(read=_last_state)),
        ("weights-ignore-keys", _bahdanau(normalise=lambda e, lengths: _softmax(0 * e, lengths))),
        ("returns-scores", _bahdanau_scores),
        ("returns-scores", _bahdanau_masked_scores),
        *(("results-in-wrong-order", version) for version in _reordered(_bahdanau())),
    ),
    shortcuts=FUSED_ATTENTION,
    builds_on=frozenset({"masks", "qkv"}),
)

LUONG_STEP = Task(
    name="luong_step",
    outputs={
        "state": ("sentence", "feature"),
        "attentional": ("sentence", "feature"),
        "weights": ("sentence", "position"),
    },
    oracle=_oracle_luong,
    cases=_step_cases(joined=False),
    wrong=(
        *((name, _luong(normalise=wrong)) for name, wrong in WRONG_MASKS),
        ("attends-from-old-state", _luong_asks_old),
        ("joins-old-state", _luong_joins_old),
        ("returns-old-state", _luong_old_state),
        ("never-steps", _luong_never_steps),
        ("steps-twice", _luong_two_steps),
        ("attentional-as-state", _luong_joined_as_state),
        ("context-for-attentional", _luong_context),
        ("no-tanh", _luong(join=lambda w, c, s: torch.cat([c, s], dim=1) @ w.mT)),
        ("joined-in-wrong-order", _luong(join=lambda w, c, s: _joined(w, s, c))),
        ("fixed-vector", _luong(read=_last_state)),
        ("weights-ignore-keys", _luong(normalise=lambda e, lengths: _softmax(0 * e, lengths))),
        ("returns-scores", _luong_scores),
        *(("results-in-wrong-order", version) for version in _reordered(_luong())),
    ),
    shortcuts=FUSED_ATTENTION,
    builds_on=frozenset({"masks", "qkv"}),
)

MONOTONIC_WEIGHTS = Task(
    name="monotonic_weights",
    outputs={"weights": ("sentence", "position")},
    oracle=_oracle_monotonic,
    cases=_monotonic_cases,
    wrong=(
        ("stops-without-history", lambda stops, previous: stops),
        ("starts-anew-each-step", _monotonic_from_start),
        ("must-move-on", _monotonic_moving_on),
        ("must-move-on", lambda stops, previous: stops * _arriving(stops, previous, staying=False)),
        ("passes-the-stop-too", _monotonic_one_too_far),
        ("passes-unread-positions", _monotonic_all_passed),
        ("passes-for-free", _monotonic_nothing_passed),
        ("stop-left-out", lambda stops, previous: _arriving(stops, previous)),
        (
            "only-one-position-on",
            lambda stops, previous: stops * (previous + _shifted(previous * (1 - stops), 0.0)),
        ),
        ("stops-for-passes", lambda stops, previous: stops * _arriving(stops, previous, leave=lambda p: p)),
        ("weights-forced-to-one", _monotonic_normalised),
        ("reads-backwards", _monotonic_backwards),
        ("division-by-zero-product", _monotonic_divided),
        ("lost-after-certain-stop", _monotonic_clamped),
        ("product-includes-stop", _monotonic_inclusive),
    ),
)

check_additive_scores = checking(ADDITIVE_SCORES)
check_padded_softmax = checking(PADDED_SOFTMAX)
check_context_vector = checking(CONTEXT_VECTOR)
check_bahdanau_step = checking(BAHDANAU_STEP)
check_luong_step = checking(LUONG_STEP)
check_monotonic_weights = checking(MONOTONIC_WEIGHTS)
