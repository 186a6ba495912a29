"""Checks of the set `qkv`: the stages of attention, other scores and weights, and linear attention."""

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

from attncourse.checks.judge import Task, checking
from attncourse.checks.materials import (
    BATCHES,
    FUSED_ATTENTION,
    masked,
    normal,
    over_batches,
    random_mask,
    scaled_scores,
    sizes,
    softmax,
    softmax_additive,
    softmax_billion,
    softmax_exp,
    softmax_in_place,
    softmax_low,
)
from attncourse.checks.observe import Case

# --- The right answers: one number after the other. ---


@over_batches
def _oracle_scores(query: Tensor, key: Tensor) -> Tensor:
    rows = [[(q * k).sum() / math.sqrt(len(q)) for k in key] for q in query]
    return torch.stack([torch.stack(row) for row in rows])


@over_batches
def _oracle_softmax(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    rows = []
    for i, row in enumerate(scores):
        allowed = [j for j in range(len(row)) if mask is None or mask[i, j]]
        top = max((row[j].item() for j in allowed), default=0.0)
        total = sum(torch.exp(row[j] - top) for j in allowed)
        rows.append(
            [torch.exp(row[j] - top) / total if j in allowed else 0 * row[j] for j in range(len(row))]
        )
    return torch.stack([torch.stack(row) for row in rows])


@over_batches
def _oracle_sum(weights: Tensor, value: Tensor) -> Tensor:
    return torch.stack([sum(w * v for w, v in zip(row, value, strict=True)) for row in weights])


def _oracle_attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> tuple:
    scores = _oracle_scores(query, key)
    weights = _oracle_softmax(scores, mask) if mask is not None else _oracle_softmax(scores)
    return _oracle_sum(weights, value), weights


@over_batches
def _oracle_cosine(query: Tensor, key: Tensor) -> Tensor:
    def cosine(q: Tensor, k: Tensor) -> Tensor:
        lengths = (q * q).sum() * (k * k).sum()
        return (q * k).sum() / lengths.sqrt() if lengths else 0 * (q * k).sum()

    return torch.stack([torch.stack([cosine(q, k) for k in key]) for q in query])


def _oracle_temperature(scores: Tensor, temperature: float) -> Tensor:
    return _oracle_softmax(scores / temperature)


@over_batches
def _oracle_entropy(weights: Tensor) -> Tensor:
    return torch.stack([0 * row.sum() - sum(w * w.log() for w in row if w > 0) for row in weights])


@over_batches
def _oracle_sparsemax(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    rows = []
    for i, row in enumerate(scores):
        allowed = [j for j in range(len(row)) if mask is None or mask[i, j]]
        # The sum of max(score - tau, 0) falls as tau rises: halve the interval around the sum 1.
        numbers = [row[j].item() for j in allowed]
        low, high = min(numbers, default=0.0) - 1, max(numbers, default=0.0)
        for _ in range(60):
            tau = (low + high) / 2
            low, high = (low, tau) if sum(max(number - tau, 0) for number in numbers) < 1 else (tau, high)
        support = [j for j in allowed if row[j] > tau]
        tau = (sum(row[j] for j in support) - 1) / len(support) if support else 0.0
        rows.append([row[j] - tau if j in support else 0 * row[j] for j in range(len(row))])
    return torch.stack([torch.stack(row) for row in rows])


@over_batches
def _oracle_linear(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    def feature(x: Tensor) -> Tensor:
        return torch.where(x > 0, x + 1, torch.exp(x))  # elu(x) + 1, written out

    rows = []
    for q in query:
        weights = [(feature(q) * feature(k)).sum() for k in key]
        rows.append(sum(w * v for w, v in zip(weights, value, strict=True)) / sum(weights))
    return torch.stack(rows)


# --- The cases. All axes have different sizes; values are random and keep the softmax away from 0 and 1. ---


def _score_cases(generator: torch.Generator, dtype: torch.dtype) -> Iterator[Case]:
    queries, keys, width = sizes(generator, 3)

    def case(stage: str, queries: int, keys: int, *batch: int, dtype: torch.dtype = dtype, **options) -> Case:
        query, key = (normal(generator, dtype, *batch, n, width) for n in (queries, keys))
        return Case(stage, {"query": query, "key": key}, **options)

    yield case("shape", queries, keys, shape_only=True)
    yield case("one query, one key", 1, 1)
    yield case("one query", 1, keys)
    yield case("everything", queries, keys)
    for stage, batch in BATCHES.items():
        yield case(stage, queries, keys, *batch)
    yield case("gradient", queries, keys, gradient=True)
    yield case("half precision", queries, keys, dtype=torch.float16)


def _softmax_cases(generator: torch.Generator, dtype: torch.dtype) -> Iterator[Case]:
    queries, keys = sizes(generator, 2)

    def scores(queries: int = queries, *batch: int, dtype: torch.dtype = dtype, scale: float = 1.0) -> dict:
        return {"scores": scale * normal(generator, dtype, *batch, queries, keys)}

    masked = {"mask": random_mask(generator, queries, keys)}
    empty = {"mask": masked["mask"].clone()}
    empty["mask"][torch.randint(queries, (2,), generator=generator)] = False
    yield Case("shape", scores(), shape_only=True)
    yield Case("one query", scores(1))
    yield Case("many queries", scores())
    yield Case("mask", scores() | masked)
    yield Case("query without keys", scores() | empty)
    for stage, batch in BATCHES.items():
        yield Case(stage, scores(queries, *batch) | empty)
    yield Case("batch without a mask", scores(queries, 2))
    yield Case("gradient", scores() | empty, gradient=True)
    # Here forbidden keys have the highest scores: a row's maximum or sum must not include them.
    large = scores(scale=1000.0, dtype=torch.float32)["scores"]
    yield Case("large scores", {"scores": large})
    yield Case("large forbidden scores", {"scores": large + 10_000.0 * ~masked["mask"]} | masked)
    yield Case("very low scores", {"scores": large - 30_000.0} | masked)
    yield Case("half precision", scores(dtype=torch.float16) | empty)


def _sum_cases(generator: torch.Generator, dtype: torch.dtype) -> Iterator[Case]:
    queries, keys, width = sizes(generator, 3)

    def case(
        stage: str, queries: int, keys: int, *batch: int, raw=False, dtype: torch.dtype = dtype, **options
    ) -> Case:
        weights = normal(generator, torch.float64, *batch, queries, keys)
        weights = (weights if raw else weights.softmax(-1)).to(dtype)
        return Case(
            stage, {"weights": weights, "value": normal(generator, dtype, *batch, keys, width)}, **options
        )

    yield case("shape", queries, keys, shape_only=True)
    yield case("one query, one key", 1, 1)
    yield case("one query", 1, keys)
    yield case("everything", queries, keys)
    yield case("weights of any sum", queries, keys, raw=True)
    for stage, batch in BATCHES.items():
        yield case(stage, queries, keys, *batch)
    yield case("gradient", queries, keys, gradient=True)
    yield case("half precision", queries, keys, dtype=torch.float16)


def _attend_cases(generator: torch.Generator, dtype: torch.dtype) -> Iterator[Case]:
    queries, keys, width, value_width = sizes(generator, 4)

    def inputs(queries: int = queries, keys: int = keys, *batch: int, dtype: torch.dtype = dtype) -> dict:
        shapes = {"query": (queries, width), "key": (keys, width), "value": (keys, value_width)}
        return {name: normal(generator, dtype, *batch, *shape) for name, shape in shapes.items()}

    masked = {"mask": random_mask(generator, queries, keys)}
    empty = {"mask": masked["mask"].clone()}
    empty["mask"][torch.randint(queries, (2,), generator=generator)] = False
    yield Case("shape", inputs(), shape_only=True)
    yield Case("one query, one key", inputs(1, 1))
    yield Case("one query", inputs(1))
    yield Case("many queries", inputs())
    yield Case("mask", inputs() | masked)
    yield Case("query without keys", inputs() | empty)
    for stage, batch in BATCHES.items():
        yield Case(stage, inputs(queries, keys, *batch) | empty)
    yield Case("batch without a mask", inputs(queries, keys, 2))
    yield Case("gradient", inputs() | empty, gradient=True)
    # In float64, where rounding does not matter even for scores of many thousands.
    large = inputs(dtype=torch.float64) | masked
    yield Case("large scores", large | {"query": 3000.0 * large["query"]})
    low = {"query": -30_000.0 * large["query"].abs(), "key": large["key"].abs()}
    yield Case("very low scores", large | low)
    yield Case("half precision", inputs(dtype=torch.float16) | empty)


def _linear_cases(generator: torch.Generator, dtype: torch.dtype) -> Iterator[Case]:
    queries, keys, width, value_width = sizes(generator, 4)

    def inputs(queries: int = queries, keys: int = keys, *batch: int, dtype: torch.dtype = dtype) -> dict:
        shapes = {"query": (queries, width), "key": (keys, width), "value": (keys, value_width)}
        return {name: normal(generator, dtype, *batch, *shape) for name, shape in shapes.items()}

    yield Case("shape", inputs(), shape_only=True)
    yield Case("one query, one key", inputs(1, 1))
    yield Case("one query", inputs(1))
    yield Case("everything", inputs())
    for stage, batch in BATCHES.items():
        yield Case(stage, inputs(queries, keys, *batch))
    yield Case("gradient", inputs(), gradient=True)
    yield Case("half precision", inputs(dtype=torch.float16))
    # With so many tokens of so small a width, queries × keys is far above anything that the task needs.
    many = 500
    shapes = {"query": (many, 2), "key": (many + 1, 2), "value": (many + 1, 3)}
    tokens = {name: normal(generator, dtype, *shape) for name, shape in shapes.items()}
    yield Case("cost", tokens, budget=many * many // 2)


def _cosine_cases(generator: torch.Generator, dtype: torch.dtype) -> Iterator[Case]:
    queries, keys, width = sizes(generator, 3)

    def case(stage: str, queries: int, keys: int, *batch: int, **options) -> Case:
        query, key = (3 * normal(generator, dtype, *batch, n, width) for n in (queries, keys))
        return Case(stage, {"query": query, "key": key}, **options)

    yield case("shape", queries, keys, shape_only=True)
    yield case("one query, one key", 1, 1)
    yield case("one query", 1, keys)
    yield case("everything", queries, keys)
    for stage, batch in BATCHES.items():
        yield case(stage, queries, keys, *batch)
    yield case("gradient", queries, keys, gradient=True)
    zero = case("vectors of length 0", queries, keys)
    for value in zero.tensors.values():
        value[1] = 0
    yield zero
    short = case("very short vectors", queries, keys, tolerance=2e-5)
    for value in short.tensors.values():
        value *= 1e-2
    yield short


def _temperature_cases(generator: torch.Generator, dtype: torch.dtype) -> Iterator[Case]:
    queries, keys = sizes(generator, 2)

    def case(stage: str, temperature: float, *shape: int, dtype=dtype, scale=1.0, **options) -> Case:
        scores = scale * normal(generator, dtype, *shape)
        return Case(stage, {"scores": scores, "temperature": temperature}, **options)

    yield case("shape", 1.0, queries, keys, shape_only=True)
    yield case("temperature 1", 1.0, queries, keys)
    yield case("a high temperature", 3.0, queries, keys)
    yield case("a low temperature", 0.4, queries, keys)
    for stage, batch in BATCHES.items():
        yield case(stage, 1.7, *batch, queries, keys)
    yield case("gradient", 0.6, queries, keys, gradient=True)
    # Close to 0 the largest score takes all.
    yield case("a temperature close to 0", 1e-3, queries, keys, dtype=torch.float64, scale=3.0)


def _entropy_cases(generator: torch.Generator, dtype: torch.dtype) -> Iterator[Case]:
    queries, keys = sizes(generator, 2)

    def case(stage: str, *shape: int, **options) -> Case:
        return Case(
            stage, {"weights": normal(generator, torch.float64, *shape).softmax(-1).to(dtype)}, **options
        )

    yield case("shape", queries, keys, shape_only=True)
    yield case("one query", 1, keys)
    yield case("many queries", queries, keys)
    for stage, batch in BATCHES.items():
        yield case(stage, *batch, queries, keys)
    yield case("gradient", queries, keys, gradient=True)
    hard = case("weights of 0", queries, keys)
    weights = hard.inputs["weights"]
    weights[0] = torch.eye(keys, dtype=dtype)[2]
    weights[1, 1:] = weights[1, 1:] * (torch.arange(1, keys) % 2)
    weights[1] /= weights[1].sum()
    yield hard
    yield Case("a query without keys", {"weights": weights * (torch.arange(queries) > 0).unsqueeze(-1)})
    tiny = torch.full((2, keys), 1e-6, dtype=dtype)
    tiny[:, 0] = 1 - (keys - 1) * 1e-6
    yield Case("very small weights", {"weights": tiny}, tolerance=1e-6)


def _sparsemax_cases(generator: torch.Generator, dtype: torch.dtype) -> Iterator[Case]:
    queries, keys = sizes(generator, 2)

    def scores(queries: int = queries, *batch: int, scale: float = 0.7) -> dict:
        return {"scores": scale * normal(generator, dtype, *batch, queries, keys)}

    masked = {"mask": random_mask(generator, queries, keys)}
    empty = {"mask": masked["mask"].clone()}
    empty["mask"][torch.randint(queries, (2,), generator=generator)] = False
    yield Case("shape", scores(), shape_only=True)
    yield Case("close scores, no weight is 0", scores(1, scale=0.01))
    yield Case("one query", scores(1))
    yield Case("many queries", scores())
    yield Case("all scores far above 0", {"scores": scores()["scores"] + 20})
    yield Case("all scores far below 0", {"scores": scores()["scores"] - 20})
    yield Case("mask", scores() | masked)
    yield Case("mask, and all scores far below 0", {"scores": scores()["scores"] - 20} | masked)
    yield Case("query without keys", scores() | empty)
    for stage, batch in BATCHES.items():
        yield Case(stage, scores(queries, *batch) | empty)
    yield Case("batch without a mask", scores(queries, 2))
    yield Case("gradient", scores() | empty, gradient=True)
    yield Case("one large score", {"scores": scores(scale=50.0)["scores"]})


# --- The known wrong versions, each named in the catalogue. ---


def _softmax_after(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    return scores.softmax(-1) if mask is None else scores.softmax(-1) * mask


def _softmax_without_exp(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    scores = scores if mask is None else scores * mask
    return scores / scores.sum(-1, keepdim=True)


def _softmax_added_mask(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    return (scores if mask is None else scores + mask).softmax(-1)


def _guarded(total: Tensor) -> Tensor:
    return total.masked_fill(total == 0, 1.0)


GUARDS = (
    _guarded,
    lambda total: total + 1e-9,
    lambda total: total + 1e-12,
    lambda total: total.clamp(min=1e-9),
)


def _softmax_below(top: Callable, guard: Callable, *, fill: bool = True) -> Callable:
    """Builds a softmax that subtracts another maximum, which may be far above the allowed scores."""

    def normalise(scores: Tensor, mask: Tensor | None = None) -> Tensor:
        powers = (scores - top(scores, mask)).exp()
        if mask is not None:  # inf * 0 is nan
            powers = powers.masked_fill(~mask, 0.0) if fill else powers * mask
        return powers / guard(powers.sum(-1, keepdim=True))

    return normalise


def _top_of_all(scores: Tensor, mask: Tensor | None) -> Tensor:
    return scores.amax(-1, keepdim=True)


def _top_of_zeros(scores: Tensor, mask: Tensor | None) -> Tensor:
    return (scores if mask is None else scores * mask).amax(-1, keepdim=True)


WRONG_WEIGHTS: tuple[tuple[str, Callable], ...] = (
    ("softmax-over-queries", lambda scores, mask=None: masked(scores, mask).softmax(-2)),
    ("mask-ignored", lambda scores, mask=None: scores.softmax(-1)),
    ("mask-inverted", lambda scores, mask=None: softmax(scores, None if mask is None else ~mask)),
    ("mask-after-softmax", lambda scores, mask=None: scores.softmax(-1) * (1 if mask is None else mask)),
    ("mask-as-zero-score", lambda scores, mask=None: (scores * (1 if mask is None else mask)).softmax(-1)),
    ("empty-row-nan", lambda scores, mask=None: masked(scores, mask).softmax(-1)),
    ("empty-row-uniform", softmax_low),
    ("empty-row-nan-gradient", softmax_additive),
    ("half-overflow", softmax_billion),
    ("exp-overflow", softmax_exp),
    ("axis-from-the-front", lambda scores, mask=None: masked(scores, mask).softmax(1).nan_to_num()),
    ("no-exponential", _softmax_without_exp),
)


def _dot(query: Tensor, key: Tensor) -> Tensor:
    return query @ key.mT


def _scores_in_place(query: Tensor, key: Tensor) -> Tensor:
    query /= query.shape[-1] ** 0.5
    return query @ key.mT


WRONG_SCORES: tuple[tuple[str, Callable], ...] = (
    ("no-scale", _dot),
    ("scale-by-d", lambda query, key: _dot(query, key) / query.shape[-1]),
    ("scale-multiplied", lambda query, key: _dot(query, key) * query.shape[-1] ** 0.5),
    ("scale-by-length", lambda query, key: _dot(query, key) / key.shape[-2] ** 0.5),
    ("cosine", lambda query, key: _dot(F.normalize(query, dim=-1), F.normalize(key, dim=-1))),
)


def _attention(score: Callable = scaled_scores, normalise: Callable = softmax) -> Callable:
    """Builds attention from two stages, one of which is wrong."""

    def attend(
        query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        weights = normalise(score(query, key), mask)
        return weights @ value, weights

    return attend


def _attend_scaled_by_value(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> tuple:
    weights = softmax(_dot(query, key) / value.shape[-1] ** 0.5, mask)
    return weights @ value, weights


def _attend_returning_scores(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> tuple:
    scores = scaled_scores(query, key)
    return softmax(scores, mask) @ value, scores


def _attend_returning_masked_scores(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> tuple:
    scores = masked(scaled_scores(query, key), mask)
    return softmax(scores, mask) @ value, scores


def _linear(on_query: Callable, on_key: Callable, divide: str = "weights") -> Callable:
    """Builds linear attention from two feature maps and a divisor, one of which is wrong."""

    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        query, key = on_query(query), on_key(key)
        context = query @ (key.mT @ value)
        total = (query @ key.sum(-2).unsqueeze(-1)) if divide == "weights" else key.shape[-2]
        return context if divide == "nothing" else context / total

    return attend


def _features(x: Tensor) -> Tensor:
    return F.elu(x) + 1


def _linear_quadratic(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    weights = _dot(_features(query), _features(key))
    return weights / weights.sum(-1, keepdim=True) @ value


def _cosine_divided(divisor: Callable) -> Callable:
    return lambda query, key: _dot(query, key) / divisor(query, key)


def _lengths(query: Tensor, key: Tensor) -> Tensor:
    return query.norm(dim=-1).unsqueeze(-1) * key.norm(dim=-1).unsqueeze(-2)


def _unit(vectors: Tensor, axis: int = -1) -> Tensor:
    return F.normalize(vectors, dim=axis)


def _plogp(weights: Tensor) -> Tensor:
    return torch.xlogy(weights, weights)


def _sparsemax(
    scores: Tensor, mask: Tensor | None = None, change: Callable | None = None, detach: bool = False
) -> Tensor:
    """Does the right thing, unless `change` replaces the size of the support, or τ is detached."""
    low = _masked_low(scores, mask)
    ordered = low.sort(dim=-1, descending=True).values
    count = torch.arange(1, scores.shape[-1] + 1, dtype=scores.dtype)
    total = ordered.cumsum(-1) - 1
    size = (count * ordered > total).sum(-1, keepdim=True)
    size = change(size, scores.shape[-1]) if change else size
    threshold = total.gather(-1, size - 1) / size
    weights = (low - (threshold.detach() if detach else threshold)).clamp(min=0)
    return weights if mask is None else weights * mask.any(-1, keepdim=True)


def _masked_low(scores: Tensor, mask: Tensor | None) -> Tensor:
    return scores if mask is None else scores.masked_fill(~mask, -1e4)


def _sparsemax_below_best(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    low = _masked_low(scores, mask)
    weights = (low - low.amax(-1, keepdim=True) + 1).clamp(min=0)
    return weights if mask is None else weights * mask


def _sparsemax_normalised(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    positive = scores.clamp(min=0) if mask is None else scores.clamp(min=0) * mask
    return positive / positive.sum(-1, keepdim=True)


def _sparsemax_unclipped(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    mask = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask.expand(scores.shape)
    count = mask.sum(-1, keepdim=True).clamp(min=1)
    return (scores - ((scores * mask).sum(-1, keepdim=True) - 1) / count) * mask


def _hardest(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    best = F.one_hot(masked(scores, mask).argmax(-1), scores.shape[-1]).to(scores.dtype)
    return best if mask is None else best * mask.any(-1, keepdim=True)


# --- The tasks. ---

SCALED_DOT_SCORES = Task(
    name="scaled_dot_scores",
    outputs={"scores": ("query", "key")},
    oracle=_oracle_scores,
    cases=_score_cases,
    wrong=(
        *WRONG_SCORES,
        ("transposed", lambda query, key: scaled_scores(key, query)),
        ("weights-for-scores", lambda query, key: scaled_scores(query, key).softmax(-1)),
        ("changes-inputs", _scores_in_place),
    ),
)

MASKED_SOFTMAX = Task(
    name="masked_softmax",
    outputs={"weights": ("query", "key")},
    oracle=_oracle_softmax,
    cases=_softmax_cases,
    wrong=(
        *WRONG_WEIGHTS,
        (
            "softmax-over-all",
            lambda scores, mask=None: masked(scores, mask).flatten(-2).softmax(-1).view_as(scores),
        ),
        ("log-weights", lambda scores, mask=None: masked(scores, mask).log_softmax(-1)),
        ("changes-inputs", softmax_in_place),
        ("mask-added", _softmax_added_mask),
        (
            "mask-as-zero-score",
            lambda s, mask=None: s.softmax(-1) if mask is None else (s * mask).softmax(-1) * mask,
        ),
        *(
            ("maximum-of-forbidden", _softmax_below(top, guard, fill=fill))
            for top, fill in ((_top_of_all, True), (_top_of_zeros, True), (_top_of_zeros, False))
            for guard in GUARDS
        ),
        *(
            ("maximum-of-all-rows", _softmax_below(lambda scores, mask: scores.max(), guard))
            for guard in (*GUARDS, lambda total: total)
        ),
    ),
    shortcuts=FUSED_ATTENTION,
)

WEIGHTED_SUM = Task(
    name="weighted_sum",
    outputs={"context": ("query", "feature")},
    oracle=_oracle_sum,
    cases=_sum_cases,
    wrong=(
        ("plain-mean", lambda weights, value: (torch.ones_like(weights) / weights.shape[-1]) @ value),
        (
            "hard-choice",
            lambda weights, value: F.one_hot(weights.argmax(-1), weights.shape[-1]).to(value.dtype) @ value,
        ),
        ("divided-by-keys", lambda weights, value: weights @ value / value.shape[-2]),
        ("renormalised", lambda weights, value: weights / weights.sum(-1, keepdim=True) @ value),
        ("weights-for-scores", lambda weights, value: weights.softmax(-1) @ value),
        ("transposed", lambda weights, value: (weights @ value).mT),
    ),
    shortcuts=FUSED_ATTENTION,
)

ATTEND = Task(
    name="attend",
    outputs={"context": ("query", "feature"), "weights": ("query", "key")},
    oracle=_oracle_attend,
    cases=_attend_cases,
    wrong=(
        *((name, _attention(score=wrong)) for name, wrong in WRONG_SCORES),
        *((name, _attention(normalise=wrong)) for name, wrong in WRONG_WEIGHTS),
        ("scale-by-value-width", _attend_scaled_by_value),
        ("weights-ignore-keys", _attention(score=lambda query, key: 0 * _dot(query, key))),
        ("no-softmax", _attention(normalise=lambda s, mask=None: s if mask is None else s * mask)),
        ("no-softmax", _attention(normalise=lambda scores, mask=None: masked(scores, mask))),
        ("no-softmax", _attention(normalise=lambda scores, mask=None: scores)),
        ("returns-scores", _attend_returning_scores),
        ("returns-swapped", lambda *inputs: _attention()(*inputs)[::-1]),
    ),
    shortcuts=FUSED_ATTENTION,
)

LINEAR_ATTENTION = Task(
    name="linear_attention",
    outputs={"context": ("query", "feature")},
    oracle=_oracle_linear,
    cases=_linear_cases,
    wrong=(
        ("no-normaliser", _linear(_features, _features, divide="nothing")),
        ("normalised-by-count", _linear(_features, _features, divide="count")),
        ("quadratic", _linear_quadratic),
        ("no-feature-map", _linear(lambda x: x, lambda x: x)),
        ("feature-map-once", _linear(_features, lambda x: x)),
        ("feature-map-once", _linear(lambda x: x, _features)),
        ("elu-without-one", _linear(F.elu, F.elu)),
        ("relu-features", _linear(F.relu, F.relu)),
        ("linear-scaled", _linear(lambda x: _features(x / x.shape[-1] ** 0.5), _features)),
        ("linear-scaled", _linear(_features, lambda x: _features(x / x.shape[-1] ** 0.5))),
        ("linear-scaled", _linear(*[lambda x: _features(x / x.shape[-1] ** 0.5)] * 2)),
        ("linear-scaled", _linear(*[lambda x: _features(x / x.shape[-1] ** 0.25)] * 2)),
        ("linear-scaled", lambda q, k, v: _linear(_features, _features)(q, k, v) / q.shape[-1] ** 0.5),
        ("softmax-attention", lambda query, key, value: _attention()(query, key, value)[0]),
    ),
    shortcuts=FUSED_ATTENTION,
)

COSINE_SCORES = Task(
    name="cosine_scores",
    outputs={"scores": ("query", "key")},
    oracle=_oracle_cosine,
    cases=_cosine_cases,
    wrong=(
        ("cosine-not-divided", _dot),
        ("no-cosine-but-scale", scaled_scores),
        ("cosine-one-side", lambda query, key: _dot(_unit(query), key)),
        ("cosine-one-side", lambda query, key: _dot(query, _unit(key))),
        ("cosine-squared-lengths", _cosine_divided(lambda q, k: _lengths(q, k) ** 2)),
        (
            "cosine-added-lengths",
            _cosine_divided(lambda q, k: q.norm(dim=-1)[..., None] + k.norm(dim=-1)[..., None, :]),
        ),
        ("cosine-over-tokens", lambda query, key: _dot(_unit(query, -2), _unit(key, -2))),
        ("cosine-zero-nan", _cosine_divided(_lengths)),
        ("cosine-scaled", lambda query, key: scaled_scores(_unit(query), _unit(key))),
        ("cosine-large-epsilon", _cosine_divided(lambda q, k: _lengths(q, k) + 1e-6)),
        ("cosine-large-epsilon", _cosine_divided(lambda q, k: _lengths(q, k) + 1e-5)),
        ("transposed", lambda query, key: _dot(_unit(key), _unit(query))),
        ("weights-for-scores", lambda query, key: _dot(_unit(query), _unit(key)).softmax(-1)),
    ),
    shortcuts=frozenset({"cosine_similarity"}),
)

SOFTMAX_WITH_TEMPERATURE = Task(
    name="softmax_with_temperature",
    outputs={"weights": ("query", "key")},
    oracle=_oracle_temperature,
    cases=_temperature_cases,
    wrong=(
        ("temperature-multiplied", lambda scores, temperature: (scores * temperature).softmax(-1)),
        ("temperature-ignored", lambda scores, temperature: scores.softmax(-1)),
        ("temperature-after-softmax", lambda scores, temperature: scores.softmax(-1) / temperature),
        ("temperature-root", lambda scores, temperature: (scores / temperature**0.5).softmax(-1)),
        ("softmax-over-queries", lambda scores, temperature: (scores / temperature).softmax(-2)),
        ("axis-from-the-front", lambda scores, temperature: (scores / temperature).softmax(1)),
        ("softmax-over-all", lambda s, temperature: (s / temperature).flatten(-2).softmax(-1).view_as(s)),
        ("log-weights", lambda scores, temperature: (scores / temperature).log_softmax(-1)),
        ("exp-overflow", lambda scores, temperature: softmax_exp(scores / temperature)),
        ("no-exponential", lambda scores, temperature: _softmax_without_exp(scores / temperature)),
    ),
)

ENTROPY = Task(
    name="entropy",
    outputs={"entropy": ("query",)},
    oracle=_oracle_entropy,
    cases=_entropy_cases,
    wrong=(
        ("entropy-in-bits", lambda weights: -_plogp(weights).sum(-1) / math.log(2)),
        ("entropy-sign", lambda weights: _plogp(weights).sum(-1)),
        ("entropy-zero-nan", lambda weights: -(weights * weights.log()).sum(-1)),
        ("entropy-without-weights", lambda weights: -weights.log().sum(-1)),
        ("entropy-of-the-mean", lambda weights: -_plogp(weights).mean(-1)),
        ("entropy-over-queries", lambda weights: -_plogp(weights).sum(-2)),
        ("entropy-over-all", lambda weights: -_plogp(weights).sum()),
        ("entropy-normalised", lambda weights: -_plogp(weights).sum(-1) / math.log(weights.shape[-1])),
        ("entropy-large-epsilon", lambda weights: -(weights * (weights + 1e-3).log()).sum(-1)),
        ("entropy-large-epsilon", lambda weights: -(weights * (weights + 1e-4).log()).sum(-1)),
        ("entropy-large-epsilon", lambda weights: -(weights * (weights + 1e-5).log()).sum(-1)),
        ("entropy-large-epsilon", lambda weights: -(weights * (weights + 1e-6).log()).sum(-1)),
        ("entropy-after-softmax", lambda weights: -_plogp(weights.softmax(-1)).sum(-1)),
    ),
)

SPARSEMAX = Task(
    name="sparsemax",
    outputs={"weights": ("query", "key")},
    oracle=_oracle_sparsemax,
    cases=_sparsemax_cases,
    wrong=(
        ("softmax-for-sparsemax", softmax),
        ("sparsemax-normalised", _sparsemax_normalised),
        ("sparsemax-unclipped", _sparsemax_unclipped),
        ("sparsemax-all-keys", lambda scores, mask=None: _sparsemax_unclipped(scores, mask).clamp(min=0)),
        (
            "sparsemax-one-key-short",
            lambda s, mask=None: _sparsemax(s, mask, lambda k, n: (k - 1).clamp(min=1)),
        ),
        (
            "sparsemax-one-key-more",
            lambda s, mask=None: _sparsemax(s, mask, lambda k, n: (k + 1).clamp(max=n)),
        ),
        ("sparsemax-threshold-of-the-best", _sparsemax_below_best),
        ("sparsemax-threshold-detached", lambda s, mask=None: _sparsemax(s, mask, detach=True)),
        ("hard-weights", _hardest),
        ("mask-ignored", lambda scores, mask=None: _sparsemax(scores)),
        ("mask-inverted", lambda scores, mask=None: _sparsemax(scores, None if mask is None else ~mask)),
        ("mask-as-zero-score", lambda s, mask=None: _sparsemax(s if mask is None else s * mask)),
        (
            "mask-as-zero-score",
            lambda s, mask=None: _sparsemax(s) if mask is None else _sparsemax(s * mask) * mask,
        ),
        ("mask-after-sparsemax", lambda s, mask=None: _sparsemax(s) * (1 if mask is None else mask)),
        ("empty-row-uniform", lambda s, mask=None: _sparsemax(_masked_low(s, mask))),
        (
            "axis-from-the-front",
            lambda s, mask=None: _sparsemax(_masked_low(s, mask).transpose(1, -1)).transpose(1, -1),
        ),
        ("softmax-over-queries", lambda s, mask=None: _sparsemax(_masked_low(s, mask).mT).mT),
    ),
)

check_scaled_dot_scores = checking(SCALED_DOT_SCORES)
check_masked_softmax = checking(MASKED_SOFTMAX)
check_weighted_sum = checking(WEIGHTED_SUM)
check_attend = checking(ATTEND)
check_linear_attention = checking(LINEAR_ATTENTION)
check_cosine_scores = checking(COSINE_SCORES)
check_softmax_with_temperature = checking(SOFTMAX_WITH_TEMPERATURE)
check_entropy = checking(ENTROPY)
check_sparsemax = checking(SPARSEMAX)
