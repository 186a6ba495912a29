"""Checks of the set `position`: sinusoids, shifts, rotations, biases, and positions beside tokens."""

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

from attncourse.checks.judge import Task, checking
from attncourse.checks.materials import BATCHES, normal, over_batches, scaled_scores, sizes
from attncourse.checks.observe import Case

# An answer may compute its angles in float32, also for inputs in float64.
ANGLES = {"tolerance": 1e-4}
# For small tables: so wide that a wrong angle of some hundreds, rounded in float32, is still recognised.
WIDE = {"tolerance": 1e-3}
# For angles of some hundreds that must be right.
FAR = {"tolerance": 2e-4}

# --- The right answers: one number after the other. ---


def _angle(position: int, pair: int, width: int) -> float:
    return position / 10_000 ** (2 * pair / width)


def _oracle_sinusoidal(length: int, d_model: int) -> Tensor:
    rows = [
        [(math.cos if c % 2 else math.sin)(_angle(p, c // 2, d_model)) for c in range(d_model)]
        for p in range(length)
    ]
    return torch.tensor(rows, dtype=torch.float64)


def _oracle_shift(offset: int, d_model: int) -> Tensor:
    matrix = torch.zeros(d_model, d_model, dtype=torch.float64)
    for pair in range(d_model // 2):
        angle = _angle(offset, pair, d_model)
        sine, cosine = 2 * pair, 2 * pair + 1
        # sin(a + b) = sin a cos b + cos a sin b, and cos(a + b) = cos a cos b - sin a sin b.
        matrix[sine, sine] = matrix[cosine, cosine] = math.cos(angle)
        matrix[sine, cosine] = math.sin(angle)
        matrix[cosine, sine] = -math.sin(angle)
    return matrix


def _oracle_rotate(inputs: Tensor, start: int = 0) -> Tensor:
    if inputs.ndim > 2:
        return torch.stack([_oracle_rotate(part, start) for part in inputs])
    length, width = inputs.shape
    rows = []
    for position in range(length):
        row = []
        for pair in range(width // 2):
            angle = _angle(start + position, pair, width)
            x, y = inputs[position, 2 * pair], inputs[position, 2 * pair + 1]
            row += [
                x * math.cos(angle) - y * math.sin(angle),
                x * math.sin(angle) + y * math.cos(angle),
            ]
        rows.append(torch.stack(row))
    return torch.stack(rows)


def _oracle_shaw(query: Tensor, table: Tensor, past: int = 0) -> Tensor:
    if query.ndim > 2:
        return torch.stack([_oracle_shaw(part, table, past) for part in query])
    most = len(table) // 2
    rows = [
        [(q * table[min(max(k - past - i, -most), most) + most]).sum() for k in range(past + len(query))]
        for i, q in enumerate(query)
    ]
    return torch.stack([torch.stack(row) for row in rows])


def _slopes(heads: int) -> list[float]:
    power = 1
    while 2 * power <= heads:
        power *= 2
    slopes = [2.0 ** (-8 * i / power) for i in range(1, power + 1)]
    return slopes + [2.0 ** (-4 * i / power) for i in range(1, 2 * (heads - power), 2)]


def _oracle_alibi(heads: int, queries: int, past: int = 0) -> Tensor:
    bias = [
        [[-slope * abs(k - past - q) for k in range(past + queries)] for q in range(queries)]
        for slope in _slopes(heads)
    ]
    return torch.tensor(bias, dtype=torch.float64)


@over_batches
def _oracle_project(inputs: Tensor, table: Tensor, weight: Tensor) -> Tensor:
    rows = []
    for token, position in zip(inputs, table, strict=False):
        both = [*token, *position]
        rows.append(torch.stack([sum(w * x for w, x in zip(row, both, strict=True)) for row in weight]))
    return torch.stack(rows)


def _oracle_decay(query: Tensor, key: Tensor, strength: Tensor, rate: Tensor) -> Tensor:
    past = key.shape[-2] - query.shape[-2]
    scores = []
    for b in range(query.shape[0]):
        for h in range(query.shape[1]):
            a, r = (torch.log1p(torch.exp(parameter[h])) for parameter in (strength, rate))
            for i, q in enumerate(query[b, h]):
                for j, k in enumerate(key[b, h]):
                    score = (q * k).sum() / math.sqrt(len(q))
                    scores.append(score - a * torch.log(1 + r * abs(j - past - i)))
    return torch.stack(scores).view(*query.shape[:-1], key.shape[-2])


# --- The cases. ---


def _sinusoidal_cases(generator: torch.Generator, dtype: torch.dtype) -> Iterator[Case]:
    length, pairs = sizes(generator, 2)

    def case(stage: str, length: int, d_model: int, **options) -> Case:
        return Case(stage, {"length": length, "d_model": d_model}, **(WIDE | options))

    yield case("shape", length, 2 * pairs, shape_only=True)
    yield case("one pair", length, 2)
    yield case("two and three pairs", 5, 4)
    yield case("two and three pairs", 5, 6)
    yield case("more pairs", length, 2 * pairs)
    yield case("odd width", length, 2 * pairs - 1)
    yield case("odd width", length, 3)
    yield case("many positions", 20 * length + pairs, 2 * length, **FAR)


def _shift_cases(generator: torch.Generator, dtype: torch.dtype) -> Iterator[Case]:
    offset, pairs = sizes(generator, 2)

    def case(stage: str, offset: int, pairs: int, **options) -> Case:
        return Case(stage, {"offset": offset, "d_model": 2 * pairs}, **(WIDE | options))

    yield case("shape", offset, pairs, shape_only=True)
    yield case("one pair", 1, 1)
    yield case("two and three pairs", 1, 2)
    yield case("two and three pairs", 2, 3)
    yield case("more pairs", offset, pairs)
    yield case("no shift", 0, pairs)
    yield case("backwards", -offset, pairs)
    yield case("far", 20 * offset, pairs, **FAR)


def _norms(fn: Callable, *inputs: object) -> Tensor:
    return fn(*inputs).norm(dim=-1, keepdim=True)


def _distance_alone(fn: Callable, query: Tensor, start: int) -> Tensor:
    """Gives the change of all scores when queries and keys move together; 0 if the distance alone counts."""
    key = query.flip(-1)
    near, far = (fn(query, at) @ fn(key, at).mT for at in (0, start))
    return far - near


def _coarse_late(fn: Callable, inputs: Tensor, start: int) -> Tensor:
    """Says whether half precision costs more than rounding. The values themselves depend on its order."""
    differs = (fn(inputs, start) - fn(inputs.float(), start)).abs() > 0.1
    return differs.any().to(inputs.dtype).view(1, 1)


def _rotate_cases(generator: torch.Generator, dtype: torch.dtype) -> Iterator[Case]:
    length, pairs = sizes(generator, 2)
    batch, heads = (2, 3) if length < pairs else (4, 2)
    start = 2 + int(torch.randint(20, (), generator=generator))

    def inputs(
        batch: int = 1, heads: int = 1, length: int = length, pairs: int = pairs, dtype: torch.dtype = dtype
    ) -> dict:
        return {"inputs": normal(generator, dtype, batch, heads, length, 2 * pairs)}

    yield Case("shape", inputs(batch, heads), shape_only=True)
    yield Case("one pair", inputs(pairs=1), **ANGLES)
    yield Case(
        "lengths are kept",
        inputs(pairs=2),
        call=_norms,
        note="A rotation changes no vector's length. Compared here: the lengths before and after.",
        **ANGLES,
    )
    yield Case(
        "only the distance counts",
        inputs(pairs=2) | {"start": start},
        call=_distance_alone,
        note="Queries and keys were moved together by the same number of positions, and all scores should "
        "be as before. Compared here: by how much they changed.",
        **WIDE,
    )
    yield Case("two and three pairs", inputs(length=5, pairs=2), **WIDE)
    yield Case("two and three pairs", inputs(length=5, pairs=3), **WIDE)
    yield Case("batch and heads", inputs(batch, heads), **ANGLES)
    yield Case("a later start", inputs(batch, heads) | {"start": start}, **ANGLES)
    yield Case("gradient", inputs(batch, heads) | {"start": start}, gradient=True, **ANGLES)
    half = inputs(batch, heads, dtype=torch.float16)
    yield Case("half precision", half, tolerance=0.05)
    yield Case(
        "half precision, late positions",
        half | {"start": 3000 + start},
        call=_coarse_late,
        note="Compared here: whether any entry in float16 is more than 0.1 away from the same in float32 "
        "(1 if so, and 0 if not).",
    )


def _shaw_cases(generator: torch.Generator, dtype: torch.dtype) -> Iterator[Case]:
    queries, width = sizes(generator, 2)
    most = (2, 3, 4)[int(torch.randint(3, (), generator=generator))]
    past = queries // 2 + 1

    def case(stage: str, queries: int, most: int, past: int = 0, *batch: int, **options) -> Case:
        inputs = {
            "query": normal(generator, dtype, *batch, queries, width),
            "table": normal(generator, dtype, 2 * most + 1, width),
        }
        return Case(stage, inputs | ({"past": past} if past else {}), **options)

    yield case("shape", queries, most, shape_only=True)
    yield case("one query, one key", 1, most)
    yield case("no distance above the largest", most + 1, most)
    yield case("distances above the largest", queries + 4, most)
    yield case("past keys", queries, most, past)
    for stage, batch in BATCHES.items():
        yield case(stage, queries, most, past, *batch)
    yield case("gradient", queries, most, past, gradient=True)


def _alibi_cases(generator: torch.Generator, dtype: torch.dtype) -> Iterator[Case]:
    queries, past = sizes(generator, 2)

    def case(stage: str, heads: int, queries: int, past: int = 0, **options) -> Case:
        inputs = {"heads": heads, "queries": queries}
        return Case(stage, inputs | ({"past": past} if past else {}), **options)

    def one_of(*heads: int) -> int:
        return heads[int(torch.randint(len(heads), (), generator=generator))]

    yield case("shape", 8, queries, shape_only=True)
    yield case("eight heads", 8, queries)
    yield case("other powers of two", 4, queries)
    yield case("other powers of two", one_of(1, 2, 16, 32), queries)
    other = "a number of heads that is no power of two"
    yield case(other, one_of(3, 6, 12), queries)
    yield case(other, one_of(5, 7, 10, 20), queries)
    yield case("past keys", 8, queries, past)
    yield case("past keys, no power of two", one_of(9, 13, 24), queries, past)


def _project_cases(generator: torch.Generator, dtype: torch.dtype) -> Iterator[Case]:
    length, d_model, d_position, d_out = sizes(generator, 4)

    def inputs(length: int, *batch: int, d_model=d_model, d_position=d_position, more: int = 4) -> dict:
        return {
            "inputs": normal(generator, dtype, *batch, length, d_model),
            "table": normal(generator, dtype, length + more, d_position),
            "weight": normal(generator, dtype, d_out, d_model + d_position),
        }

    yield Case("shape", inputs(length), shape_only=True)
    yield Case("one token", inputs(1))
    yield Case("many tokens", inputs(length))
    yield Case("a table without rows to spare", inputs(length, more=0))
    yield Case("positions as wide as tokens", inputs(length, d_position=d_model))
    tied = inputs(length, d_position=d_model)
    half = tied["weight"][:, :d_model]
    yield Case(
        "both parts of the weight equal",
        tied | {"weight": torch.cat([half, half], dim=-1)},
        note="Here W_x = W_p, and the result is W_x (x + p): addition is this special case.",
    )
    for stage, batch in BATCHES.items():
        yield Case(stage, inputs(length, *batch))
    yield Case("gradient", inputs(length, 3), gradient=True)
    # 50 sentences of 4 tokens: a copy of the wide positions for each sentence is far above what is needed.
    yield Case("cost", inputs(4, 50, d_model=2, d_position=100), budget=50 * 4 * 100 // 2)


def _decay_cases(generator: torch.Generator, dtype: torch.dtype) -> Iterator[Case]:
    width, queries = sizes(generator, 2)
    batch, heads = (2, 3) if width < queries else (4, 2)
    queries = min(queries, 6)

    def inputs(batch: int = 1, heads: int = 1, queries: int = queries, past: int = 0) -> dict:
        return {
            "query": normal(generator, dtype, batch, heads, queries, width),
            "key": normal(generator, dtype, batch, heads, past + queries, width),
            "strength": normal(generator, dtype, heads),
            "rate": normal(generator, dtype, heads),
        }

    yield Case("shape", inputs(batch, heads), shape_only=True)
    yield Case("one query, one key", inputs(queries=1))
    yield Case("one head", inputs())
    yield Case("many heads", inputs(heads=heads))
    yield Case("past keys", inputs(past=3))
    yield Case("batch and heads", inputs(batch, heads, past=3))
    yield Case("gradient", inputs(batch, heads, past=3), gradient=True)
    large = {name: value.float() for name, value in inputs(heads=2, past=3).items()}
    sign = torch.tensor([1.0, -1.0])
    yield Case("large parameters", large | {"strength": 200 * sign.flip(0), "rate": 200 * sign})
    yield Case("large parameters", large | {"strength": 200 * sign, "rate": 200 * sign})


# --- The known wrong versions, each named in the catalogue. ---


def _waves(
    frequency: Callable[[Tensor, int], Tensor] | None = None, first: int = 0, even: Callable = torch.sin
) -> Callable:
    """Builds a table of sines and cosines; ``frequency`` gets the column and the width."""
    odd = torch.cos if even is torch.sin else torch.sin

    def sinusoidal(length: int, d_model: int) -> Tensor:
        column = torch.arange(d_model, dtype=torch.float64)
        position = torch.arange(first, first + length, dtype=torch.float64).unsqueeze(-1)
        angle = position * (frequency or _frequency)(column, d_model)
        return torch.where(column % 2 == 0, even(angle), odd(angle)).float()

    return sinusoidal


def _frequency(column: Tensor, width: int, base: float = 10_000.0) -> Tensor:
    return base ** -(2 * (column // 2) / width)


# Frequencies that are wrong in every task that needs them.
WRONG_FREQUENCIES: tuple[tuple[str, Callable], ...] = (
    ("exponent-doubled", lambda column, width: 10_000.0 ** -(4 * (column // 2) / width)),
    ("exponent-halved", lambda column, width: 10_000.0 ** -((column // 2) / width)),
    ("frequency-inverted", lambda column, width: 1 / _frequency(column, width)),
    ("one-frequency", lambda column, width: torch.ones_like(column)),
    ("exponent-whole-number", lambda column, width: torch.exp(2 * (column // 2) * (-math.log(1e4) // width))),
    ("exponent-and-base-swapped", lambda column, width: (2 * (column // 2) / width) ** 1e-4),
    ("other-base", lambda column, width: _frequency(column, width, 1000.0)),
    ("other-base", lambda column, width: _frequency(column, width, 100_000.0)),
    ("other-base", lambda column, width: _frequency(column, width, math.e)),
    (
        "frequencies-to-the-end",
        lambda column, width: 10_000.0 ** -((column // 2) / max((width + 1) // 2 - 1, 1)),
    ),
)
# These give two columns of a pair different angles.
WRONG_COLUMNS: tuple[tuple[str, Callable], ...] = (
    ("frequency-per-column", lambda column, width: 10_000.0 ** -(column / width)),
    ("exponent-doubled", lambda column, width: 10_000.0 ** -(2 * column / width)),
)


def _sinusoidal_crashes(length: int, d_model: int) -> Tensor:
    table = torch.zeros(length, d_model)
    whole = _waves()(length, d_model + d_model % 2)
    table[:, 0::2], table[:, 1::2] = whole[:, 0::2], whole[:, 1::2]
    return table


def _halves(table: Tensor) -> Tensor:
    return torch.cat([table[..., 0::2], table[..., 1::2]], dim=-1)


def _turns(
    frequency: Callable[[Tensor, int], Tensor] | None = None, signs: tuple[int, int] = (1, -1)
) -> Callable:
    def shift_matrix(offset: int, d_model: int) -> Tensor:
        angle = offset * (frequency or _frequency)(torch.arange(0, d_model, 2, dtype=torch.float64), d_model)
        matrix = torch.diag(angle.cos().repeat_interleave(2))
        matrix[0::2, 1::2] = torch.diag(signs[0] * angle.sin())
        matrix[1::2, 0::2] = torch.diag(signs[1] * angle.sin())
        return matrix.float()

    return shift_matrix


def _shift_halves(offset: int, d_model: int) -> Tensor:
    order = _halves(torch.arange(d_model))
    return _turns()(offset, d_model)[order][:, order]


def _shift_swapped(offset: int, d_model: int) -> Tensor:
    order = torch.arange(d_model).view(-1, 2).flip(-1).flatten()
    return _turns()(offset, d_model)[order]


def _shift_diagonal(offset: int, d_model: int) -> Tensor:
    return torch.diag(_waves()(abs(offset) + 1, d_model)[-1])


def _shift_by_roll(offset: int, d_model: int) -> Tensor:
    return torch.eye(d_model).roll(offset, 0)


def _shift_one_angle(offset: int, d_model: int) -> Tensor:
    """Turns each pair by the angle of the first position: the offset is missing."""
    return _turns()(1, d_model)


def _shift_power(offset: int, d_model: int) -> Tensor:
    return _turns()(1, d_model).pow(offset)


def _angles(inputs: Tensor, start: int, frequency: Callable | None = None, axis: int = -2) -> Tensor:
    width = inputs.shape[-1]
    position = start + torch.arange(inputs.shape[axis], dtype=torch.float64)
    shape = [1] * inputs.ndim
    shape[axis] = len(position)
    return position.view(shape) * (frequency or _frequency)(
        torch.arange(0, width, 2, dtype=torch.float64), width
    )


def _turned(inputs: Tensor, angle: Tensor, signs: tuple[int, int] = (-1, 1)) -> tuple[Tensor, Tensor]:
    x, y = inputs[..., 0::2], inputs[..., 1::2]
    cosine, sine = angle.cos().to(inputs.dtype), angle.sin().to(inputs.dtype)
    return x * cosine + signs[0] * y * sine, signs[1] * x * sine + y * cosine


def _rotates(
    signs: tuple[int, int] = (-1, 1), first: int = 0, with_start: bool = True, **options
) -> Callable:
    def rotate(inputs: Tensor, start: int = 0) -> Tensor:
        angle = _angles(inputs, first + start * with_start, **options)
        return torch.stack(_turned(inputs, angle, signs), dim=-1).flatten(-2)

    return rotate


def _rotate_halves(inputs: Tensor, start: int = 0) -> Tensor:
    x, y = inputs.chunk(2, dim=-1)
    pairs = torch.stack([x, y], dim=-1).flatten(-2)
    return torch.cat(_turned(pairs, _angles(inputs, start)), dim=-1)


def _rotate_mixed(swap: Callable, repeat: Callable) -> Callable:
    """Builds a version in which columns and angles are paired in two different ways."""

    def rotate(inputs: Tensor, start: int = 0) -> Tensor:
        angle = repeat(_angles(inputs, start))
        return inputs * angle.cos().to(inputs.dtype) + swap(inputs) * angle.sin().to(inputs.dtype)

    return rotate


def _rotate_over_heads(inputs: Tensor, start: int = 0) -> Tensor:
    """Counts the heads, and puts the result on the axis of the positions, where it does not fit."""
    x, y = _turned(inputs, _angles(inputs.transpose(1, 2), start))
    return torch.stack([x, y], dim=-1).flatten(-2)


def _rotate_per_column(inputs: Tensor, start: int = 0) -> Tensor:
    length, width = inputs.shape[-2:]
    position = torch.arange(start, start + length, dtype=torch.float64).unsqueeze(-1)
    angle = position * 10_000.0 ** -(torch.arange(width, dtype=torch.float64) / width)
    return inputs * angle.cos().to(inputs.dtype) + _swap_neighbours(inputs) * angle.sin().to(inputs.dtype)


def _swap_halves(inputs: Tensor) -> Tensor:
    x, y = inputs.chunk(2, dim=-1)
    return torch.cat([-y, x], dim=-1)


def _swap_neighbours(inputs: Tensor) -> Tensor:
    return torch.stack([-inputs[..., 1::2], inputs[..., 0::2]], dim=-1).flatten(-2)


def _rotate_joined(inputs: Tensor, start: int = 0) -> Tensor:
    return torch.cat(_turned(inputs, _angles(inputs, start)), dim=-1)


def _rotate_added(inputs: Tensor, start: int = 0) -> Tensor:
    return inputs + _waves(first=start)(*inputs.shape[-2:]).to(inputs.dtype)


def _rotate_multiplied(inputs: Tensor, start: int = 0) -> Tensor:
    return inputs * _waves(first=start)(*inputs.shape[-2:]).to(inputs.dtype)


def _rotate_cosine_only(inputs: Tensor, start: int = 0) -> Tensor:
    return inputs * _angles(inputs, start).cos().repeat_interleave(2, -1).to(inputs.dtype)


def _rotate_in_half(inputs: Tensor, start: int = 0) -> Tensor:
    dtype, width = inputs.dtype, inputs.shape[-1]
    position = torch.arange(start, start + inputs.shape[-2], dtype=dtype).unsqueeze(-1)
    angle = position * 10_000.0 ** -(torch.arange(0, width, 2, dtype=dtype) / width)
    return torch.stack(_turned(inputs, angle), dim=-1).flatten(-2)


def _rotate_in_place(inputs: Tensor, start: int = 0) -> Tensor:
    inputs.copy_(_rotates()(inputs.clone(), start))
    return inputs


def _rotate_overwriting(copy: bool) -> Callable:
    def rotate(inputs: Tensor, start: int = 0) -> Tensor:
        result = inputs.clone() if copy else inputs
        angle = _angles(inputs, start)
        result[..., 0::2] = _turned(result, angle)[0]
        result[..., 1::2] = _turned(result, angle)[1]
        return result

    return rotate


def _distances(queries: int, keys: int, past: int) -> Tensor:
    return torch.arange(keys) - torch.arange(past, past + queries).unsqueeze(-1)


def _shaw(row: Callable[[Tensor, int], Tensor], factor: Callable | None = None, past_counts=True) -> Callable:
    """Builds relative scores; ``row`` turns distances and the largest one into rows of the table."""

    def shaw_bias(query: Tensor, table: Tensor, past: int = 0) -> Tensor:
        queries, most = query.shape[-2], len(table) // 2
        rows = row(_distances(queries, past + queries, past if past_counts else 0), most)
        bias = torch.einsum("...qd,qkd->...qk", query, table[rows])
        return bias * factor(query, rows, most) if factor else bias

    return shaw_bias


def _clipped(distance: Tensor, most: int) -> Tensor:
    return distance.clamp(-most, most) + most


def _shaw_far_zero(query: Tensor, table: Tensor, past: int = 0) -> Tensor:
    near = _distances(query.shape[-2], past + query.shape[-2], past).abs() <= len(table) // 2
    return _shaw(_clipped)(query, table, past) * near


def _shaw_without_query(query: Tensor, table: Tensor, past: int = 0) -> Tensor:
    return _shaw(_clipped)(torch.ones_like(query), table, past)


def _shaw_at_key(query: Tensor, table: Tensor, past: int = 0) -> Tensor:
    """Takes the vector at the key's place for the query: q_k · a, of shape (queries, keys) without a past."""
    rows = _clipped(_distances(query.shape[-2], query.shape[-2], 0), len(table) // 2)
    return torch.einsum("...kd,qkd->...qk", query, table[rows])


def _alibi(
    slopes: Callable[[int], list[float]] = _slopes,
    distance: Callable[[Tensor], Tensor] = lambda way: -way.abs(),
    past_counts: bool = True,
) -> Callable:
    def alibi_bias(heads: int, queries: int, past: int = 0) -> Tensor:
        way = distance(_distances(queries, past + queries, past if past_counts else 0))
        return torch.tensor(slopes(heads)).view(-1, 1, 1) * way

    return alibi_bias


def _geometric(heads: int, count: int | None = None, first: int = 1) -> list[float]:
    return [2.0 ** (-8 * i / heads) for i in range(first, first + (count or heads))]


def _power(heads: int) -> int:
    return 2 ** (heads.bit_length() - 1)


def _slopes_with_extra(extra: Callable[[list[float], int], list[float]]) -> Callable:
    """Builds slopes whose extra ones, for heads beyond a power of two, are chosen in another way."""

    def slopes(heads: int) -> list[float]:
        power = _power(heads)
        return _geometric(power) + extra(_geometric(2 * power), heads - power)

    return slopes


def _slopes_of_next_power(heads: int) -> list[float]:
    power = _power(heads)
    return _geometric(power if power == heads else 2 * power, heads)


def _alibi_from_start(heads: int, queries: int, past: int = 0) -> Tensor:
    position = torch.arange(past + queries).expand(queries, -1)
    return torch.tensor(_slopes(heads)).view(-1, 1, 1) * position


def _alibi_masked(heads: int, queries: int, past: int = 0) -> Tensor:
    later = _distances(queries, past + queries, past) > 0
    return _alibi()(heads, queries, past).masked_fill(later, -math.inf)


def _cut(inputs: Tensor, table: Tensor) -> Tensor:
    return table[: inputs.shape[-2]]


def _project(first: Callable, second: Callable) -> Callable:
    """Builds the sum of two projections; each part gets the tokens, their positions, and W_x, or W_p."""

    def project(inputs: Tensor, table: Tensor, weight: Tensor) -> Tensor:
        width, positions = inputs.shape[-1], _cut(inputs, table)
        tokens = first(inputs, positions, weight[:, :width])
        return tokens + second(inputs, positions, weight[:, width:])

    return project


def _project_concatenated(inputs: Tensor, table: Tensor, weight: Tensor) -> Tensor:
    positions = _cut(inputs, table).expand(*inputs.shape[:-1], -1)
    return torch.cat([inputs, positions], dim=-1) @ weight.mT


def _project_swapped(inputs: Tensor, table: Tensor, weight: Tensor) -> Tensor:
    width = table.shape[-1]
    return inputs @ weight[:, width:].mT + _cut(inputs, table) @ weight[:, :width].mT


def _project_middle(inputs: Tensor, table: Tensor, weight: Tensor) -> Tensor:
    width = weight.shape[-1] // 2
    return inputs @ weight[:, :width].mT + _cut(inputs, table) @ weight[:, width:].mT


def _project_sum(inputs: Tensor, table: Tensor, weight: Tensor) -> Tensor:
    return (inputs + _cut(inputs, table)) @ weight[:, : inputs.shape[-1]].mT


def _project_per_sentence(inputs: Tensor, table: Tensor, weight: Tensor) -> Tensor:
    width = inputs.shape[-1]
    positions = table[: inputs.shape[0]]
    if inputs.ndim > 2:
        positions = positions.view(-1, *[1] * (inputs.ndim - 2), table.shape[-1])
    return inputs @ weight[:, :width].mT + positions @ weight[:, width:].mT


def _project_wrong_axis(inputs: Tensor, table: Tensor, weight: Tensor) -> Tensor:
    width = inputs.shape[-1]
    return inputs @ weight[:width] + _cut(inputs, table) @ weight[width:]


def _project_whole_table(inputs: Tensor, table: Tensor, weight: Tensor) -> Tensor:
    width = inputs.shape[-1]
    return inputs @ weight[:, :width].mT + table @ weight[:, width:].mT


def _project_last_rows(inputs: Tensor, table: Tensor, weight: Tensor) -> Tensor:
    width = inputs.shape[-1]
    return inputs @ weight[:, :width].mT + table[-inputs.shape[-2] :] @ weight[:, width:].mT


def _decay(
    decay: Callable[[Tensor, Tensor, Tensor], Tensor] | None = None,
    positive: Callable[[Tensor], Tensor] = F.softplus,
    distance: Callable[[Tensor], Tensor] = torch.abs,
    join: Callable[[Tensor, Tensor, Tensor], Tensor] = lambda scores, decay, query: scores - decay,
    past_counts: bool = True,
) -> Callable:
    """Builds scores with a decay, one step of which is wrong."""

    def scores(query: Tensor, key: Tensor, strength: Tensor, rate: Tensor) -> Tensor:
        queries, keys = query.shape[-2], key.shape[-2]
        way = distance(_distances(queries, keys, keys - queries if past_counts else 0))
        a, r = (positive(parameter).view(-1, 1, 1) for parameter in (strength, rate))
        return join(scaled_scores(query, key), (decay or _log_decay)(a, r, way), query)

    return scores


def _log_decay(a: Tensor, r: Tensor, distance: Tensor) -> Tensor:
    return a * torch.log(1 + r * distance)


def _decay_wrong_axis(query: Tensor, key: Tensor, strength: Tensor, rate: Tensor) -> Tensor:
    way = _distances(query.shape[-2], key.shape[-2], key.shape[-2] - query.shape[-2]).abs()
    return scaled_scores(query, key) - F.softplus(strength) * torch.log(1 + F.softplus(rate) * way)


# --- The tasks. ---

SINUSOIDAL = Task(
    name="sinusoidal",
    outputs={"table": ("position", "column")},
    oracle=_oracle_sinusoidal,
    cases=_sinusoidal_cases,
    wrong=(
        *((name, _waves(wrong)) for name, wrong in (*WRONG_FREQUENCIES, *WRONG_COLUMNS)),
        ("sines-then-cosines", lambda length, d_model: _halves(_waves()(length, d_model))),
        ("sine-and-cosine-swapped", _waves(even=torch.cos)),
        ("positions-from-one", _waves(first=1)),
        ("length-last", lambda length, d_model: _waves()(length, d_model).mT),
        ("odd-width-crashes", _sinusoidal_crashes),
        ("odd-width-rounded-up", lambda length, width: _waves()(length, width + width % 2)[:, :width]),
        ("odd-width-too-wide", lambda length, width: _waves()(length, width + width % 2)),
        (
            "odd-width-too-wide",
            lambda length, width: _waves(lambda c, _: _frequency(c, width))(length, width + width % 2),
        ),
        (
            "odd-width-no-last-sine",
            lambda length, width: F.pad(_waves()(length, width)[:, : width - width % 2], (0, width % 2)),
        ),
    ),
)

SHIFT_MATRIX = Task(
    name="shift_matrix",
    outputs={"matrix": ("row", "column")},
    oracle=_oracle_shift,
    cases=_shift_cases,
    wrong=(
        *((name, _turns(wrong)) for name, wrong in WRONG_FREQUENCIES),
        ("rotation-reversed", _turns(signs=(-1, 1))),
        ("rotation-same-sign", _turns(signs=(1, 1))),
        ("rotation-same-sign", _turns(signs=(-1, -1))),
        ("sines-then-cosines", _shift_halves),
        ("sine-and-cosine-swapped", _shift_swapped),
        ("encoding-on-diagonal", _shift_diagonal),
        ("columns-moved", _shift_by_roll),
        ("columns-moved", lambda offset, d_model: _shift_by_roll(-offset, d_model)),
        ("offset-ignored", _shift_one_angle),
        ("entries-to-a-power", _shift_power),
    ),
)

ROTATE = Task(
    name="rotate",
    outputs={"rotated": ("position", "column")},
    oracle=_oracle_rotate,
    cases=_rotate_cases,
    wrong=(
        *((name, _rotates(frequency=wrong)) for name, wrong in WRONG_FREQUENCIES),
        ("frequency-per-column", _rotate_per_column),
        ("rotary-halves", _rotate_halves),
        ("rotary-mixed-pairs", _rotate_mixed(_swap_neighbours, lambda angle: angle.repeat(1, 1, 1, 2))),
        ("rotary-mixed-pairs", _rotate_mixed(_swap_halves, lambda angle: angle.repeat_interleave(2, -1))),
        ("rotary-joined-halves", _rotate_joined),
        ("rotation-reversed", _rotates(signs=(1, -1))),
        ("rotation-same-sign", _rotates(signs=(1, 1))),
        ("rotation-same-sign", _rotates(signs=(-1, -1))),
        ("rotary-over-heads", _rotates(axis=1)),
        ("rotary-over-heads", _rotate_over_heads),
        ("position-per-sentence", _rotates(axis=0)),
        ("past-ignored", _rotates(with_start=False)),
        ("positions-from-one", _rotates(first=1)),
        ("rotary-added", _rotate_added),
        ("rotary-multiplied", _rotate_multiplied),
        ("rotary-cosine-only", _rotate_cosine_only),
        ("half-angles", _rotate_in_half),
        ("changes-inputs", _rotate_in_place),
        ("pair-overwritten", _rotate_overwriting(copy=True)),
        ("pair-overwritten", _rotate_overwriting(copy=False)),
    ),
)

SHAW_BIAS = Task(
    name="shaw_bias",
    outputs={"bias": ("query", "key")},
    oracle=_oracle_shaw,
    cases=_shaw_cases,
    wrong=(
        ("distance-reversed", _shaw(lambda way, most: _clipped(-way, most))),
        ("distance-unsigned", _shaw(lambda way, most: _clipped(way.abs(), most))),
        ("distance-from-row-zero", _shaw(lambda way, most: way.abs().clamp(max=most))),
        ("distance-not-clipped", _shaw(lambda way, most: way + most)),
        ("distance-wrapped", _shaw(lambda way, most: (way + most) % (2 * most + 1))),
        ("distance-off-by-one", _shaw(lambda way, most: way.clamp(1 - most, most - 1) + most)),
        ("table-rows-shifted", _shaw(lambda way, most: way.clamp(-most, most))),
        ("far-distances-zero", _shaw_far_zero),
        ("past-ignored", _shaw(_clipped, past_counts=False)),
        ("scaled-too-early", _shaw(_clipped, lambda query, rows, most: query.shape[-1] ** -0.5)),
        ("bias-without-query", _shaw_without_query),
        ("vector-of-the-key", _shaw_at_key),
    ),
)

ALIBI_BIAS = Task(
    name="alibi_bias",
    outputs={"bias": ("head", "query", "key")},
    oracle=_oracle_alibi,
    cases=_alibi_cases,
    wrong=(
        ("slopes-off-by-one", _alibi(lambda heads: _geometric(heads, first=0))),
        (
            "slopes-off-by-one",
            _alibi(lambda heads: [s * 2 ** (8 / _power(heads)) for s in _slopes(heads)]),
        ),
        ("slopes-of-eight-heads", _alibi(lambda heads: _geometric(8, heads))),
        (
            "slopes-exponent-whole",
            _alibi(lambda heads: [2.0 ** (-8 * i // heads) for i in range(1, heads + 1)]),
        ),
        (
            "slopes-exponent-whole",
            _alibi(lambda heads: [2.0 ** -(8 * i // heads) for i in range(1, heads + 1)]),
        ),
        ("slopes-one-formula", _alibi(_geometric)),
        ("slopes-of-next-power", _alibi(_slopes_of_next_power)),
        ("slopes-extra-in-order", _alibi(_slopes_with_extra(lambda slopes, count: slopes[:count]))),
        ("slopes-extra-even", _alibi(_slopes_with_extra(lambda slopes, count: slopes[1::2][:count]))),
        (
            "slopes-sorted",
            _alibi(lambda heads: sorted(_slopes(heads), reverse=True)),
        ),
        ("slopes-reversed", _alibi(lambda heads: _slopes(heads)[::-1])),
        ("slopes-inverted", _alibi(lambda heads: [1 / slope for slope in _slopes(heads)])),
        ("bias-rewards-distance", _alibi(distance=lambda way: way.abs())),
        ("later-keys-rewarded", _alibi(distance=lambda way: way)),
        ("earlier-keys-rewarded", _alibi(distance=lambda way: -way)),
        ("later-keys-without-bias", _alibi(distance=lambda way: way.clamp(max=0))),
        ("bias-from-the-start", _alibi_from_start),
        ("bias-with-mask", _alibi_masked),
        ("past-ignored", _alibi(past_counts=False)),
        ("heads-last", lambda *sizes: _alibi()(*sizes).movedim(0, -1)),
    ),
)

PROJECT_CONCATENATED = Task(
    name="project_concatenated",
    outputs={"projected": ("position", "feature")},
    oracle=_oracle_project,
    cases=_project_cases,
    wrong=(
        ("concatenated-for-each", _project_concatenated),
        ("order-swapped", _project_swapped),
        ("split-in-the-middle", _project_middle),
        ("added-before-projection", _project_sum),
        ("position-per-sentence", _project_per_sentence),
        ("whole-table", _project_whole_table),
        ("last-rows", _project_last_rows),
        ("positions-left-out", _project(lambda x, p, w: x @ w.mT, lambda x, p, w: 0)),
        ("tokens-left-out", _project(lambda x, p, w: 0 * x.sum(-1, keepdim=True), lambda x, p, w: p @ w.mT)),
        ("one-position-for-all", _project(lambda x, p, w: x @ w.mT, lambda x, p, w: p[0] @ w.mT)),
        (
            "tokens-scaled",
            _project(lambda x, p, w: x.shape[-1] ** 0.5 * x @ w.mT, lambda x, p, w: p @ w.mT),
        ),
        ("weight-rows-cut", _project_wrong_axis),
    ),
)

LOG_DECAY_SCORES = Task(
    name="log_decay_scores",
    outputs={"scores": ("query", "key")},
    oracle=_oracle_decay,
    cases=_decay_cases,
    wrong=(
        ("no-scale", _decay(join=lambda scores, decay, query: scores * query.shape[-1] ** 0.5 - decay)),
        ("scaled-with-decay", _decay(join=lambda s, decay, query: s - decay / query.shape[-1] ** 0.5)),
        ("decay-rewards-distance", _decay(join=lambda scores, decay, query: scores + decay)),
        ("decay-multiplied", _decay(join=lambda scores, decay, query: scores * torch.exp(-decay))),
        ("decay-without-scores", _decay(join=lambda scores, decay, query: 0 * scores - decay)),
        ("decay-linear", _decay(lambda a, r, distance: a * r * distance)),
        ("decay-linear", _decay(lambda a, r, distance: a * (1 + r * distance))),
        ("log-of-zero", _decay(lambda a, r, distance: a * torch.log(r * distance))),
        ("rate-outside-the-log", _decay(lambda a, r, distance: a * r * torch.log(1 + distance))),
        ("rate-outside-the-log", _decay(lambda a, r, distance: a * torch.log(r + distance))),
        ("log-of-other-base", _decay(lambda a, r, distance: a * torch.log2(1 + r * distance))),
        ("log-of-other-base", _decay(lambda a, r, distance: a * torch.log10(1 + r * distance))),
        ("parameters-unbounded", _decay(positive=lambda parameter: parameter)),
        ("exp-for-softplus", _decay(positive=torch.exp)),
        ("softplus-overflow", _decay(positive=lambda parameter: (1 + parameter.exp()).log())),
        ("rate-times-one-plus-distance", _decay(lambda a, r, distance: a * torch.log(r * (1 + distance)))),
        ("relu-for-softplus", _decay(positive=F.relu)),
        ("sigmoid-for-softplus", _decay(positive=torch.sigmoid)),
        ("parameters-swapped", _decay(lambda a, r, distance: _log_decay(r, a, distance))),
        ("later-keys-without-bias", _decay(distance=lambda way: (-way).clamp(min=0))),
        ("distance-signed", _decay(distance=lambda way: -way)),
        ("distance-signed", _decay(distance=lambda way: way)),
        ("past-ignored", _decay(past_counts=False)),
        ("heads-on-the-key-axis", _decay_wrong_axis),
    ),
    builds_on=frozenset({"masks", "qkv"}),
)

check_sinusoidal = checking(SINUSOIDAL)
check_shift_matrix = checking(SHIFT_MATRIX)
check_rotate = checking(ROTATE)
check_shaw_bias = checking(SHAW_BIAS)
check_alibi_bias = checking(ALIBI_BIAS)
check_project_concatenated = checking(PROJECT_CONCATENATED)
check_log_decay_scores = checking(LOG_DECAY_SCORES)
