"""Checks of the set `taxonomy`: soft and hard, global and local attention."""

import math
from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from attncourse.checks.judge import Task, checking
from attncourse.checks.materials import (
    BATCHES,
    FUSED_ATTENTION,
    INFINITY,
    normal,
    over_batches,
    sizes,
    softmax,
    softmax_additive,
    softmax_exp,
    softmax_late,
)
from attncourse.checks.observe import Case

DRAWS = 4000  # the frequency of a key then varies by less than 0.01

# --- The right answers: one number after the other. ---


def _oracle_hard(weights: Tensor, value: Tensor, generator: torch.Generator) -> tuple:
    # A regular grid of numbers, moved by one random number, in place of independent draws: the frequencies
    # come out as the weights almost exactly, so that only the answer's own draws vary.
    rows = weights.detach().flatten(end_dim=-2).tolist()
    number, chosen = torch.rand(1, generator=generator).item(), []
    for row in rows:
        number = (number + 0.6180339887498949) % 1.0
        left = number * sum(row)
        for j, weight in enumerate(row):
            if weight > 0:
                last = j
                left -= weight
            if left < 0:
                break
        chosen.append(last)
    choices = torch.zeros_like(weights.detach().flatten(end_dim=-2))
    for i, j in enumerate(chosen):
        choices[i, j] = 1.0
    choices = choices.view(weights.shape)
    return choices @ value, choices


def _oracle_loss(losses: Tensor, log_probability: Tensor) -> Tensor:
    samples, total = len(losses), 0
    for n in range(samples):
        for i in range(losses.shape[1]):
            others = [losses[m, i].item() for m in range(samples) if m != n]
            advantage = losses[n, i].item() - sum(others) / len(others)
            total = total + losses[n, i] + advantage * log_probability[n, i]
    return total / losses.numel()


def _oracle_scores(query: Tensor, key: Tensor, kind: str, weight: Tensor | None, vector: Tensor | None):
    def project(rows: Tensor, vectors: Tensor) -> list[Tensor]:
        return [torch.stack([(row * x).sum() for row in rows]) for x in vectors]

    def of_matrices(query: Tensor, key: Tensor) -> Tensor:
        if kind == "concat":
            cut = query.shape[-1]
            asked, offered = project(weight[:, :cut], query), project(weight[:, cut:], key)
            rows = [[(vector * torch.tanh(a + o)).sum() for o in offered] for a in asked]
        else:
            offered = project(weight, key) if kind == "general" else key
            rows = [[(q * o).sum() for o in offered] for q in query]
        return torch.stack([torch.stack(row) for row in rows])

    return over_batches(of_matrices)(query, key)


def _softmax_of(row: Tensor, allowed: list[int]) -> list[Tensor]:
    """Gives the softmax over some entries, one by one, and 0 for all others."""
    top = max((row[j].item() for j in allowed), default=0.0)
    total = sum(torch.exp(row[j] - top) for j in allowed)
    return [torch.exp(row[j] - top) / total if j in allowed else 0 * row[j] for j in range(len(row))]


def _oracle_local_m(scores: Tensor, radius: int) -> Tensor:
    def of_matrix(scores: Tensor) -> Tensor:
        rows = []
        for t, row in enumerate(scores):
            window = [s for s in range(len(row)) if t - radius <= s <= t + radius]
            rows.append(torch.stack(_softmax_of(row, window)))
        return torch.stack(rows)

    return over_batches(of_matrix)(scores)


def _oracle_local_p(
    state: Tensor, scores: Tensor, lengths: Tensor, weight: Tensor, vector: Tensor, radius: int
) -> tuple:
    all_weights, all_positions = [], []
    for b, length in enumerate(lengths.tolist()):
        for t, row in enumerate(scores[b]):
            hidden = [torch.tanh((w * state[b, t]).sum()) for w in weight]
            position = length * torch.sigmoid(sum(v * h for v, h in zip(vector, hidden, strict=True)))
            window = [s for s in range(length) if abs(s - position.item()) <= radius]
            sigma = radius / 2
            near = [torch.exp(-((s - position) ** 2) / (2 * sigma**2)) for s in range(len(row))]
            soft = _softmax_of(row, window)
            all_weights.append(torch.stack([w * n for w, n in zip(soft, near, strict=True)]))
            all_positions.append(position)
    return torch.stack(all_weights).view(scores.shape), torch.stack(all_positions).view(scores.shape[:2])


def _oracle_span(scores: Tensor, span: Tensor, ramp: float) -> Tensor:
    def of_matrix(scores: Tensor) -> Tensor:
        rows = []
        for t, row in enumerate(scores):
            parts = [(ramp + span - abs(s - t)) / ramp for s in range(len(row))]
            parts = [p if 0 < p.item() < 1 else 0 * p + (p.item() >= 1) for p in parts]
            seen = [s for s, p in enumerate(parts) if p.item() > 0]
            top = max((row[s].item() for s in seen), default=0.0)
            powers = [
                parts[s] * torch.exp(row[s] - top) if s in seen else 0 * row[s] for s in range(len(row))
            ]
            total = sum(powers) if seen else 1.0
            rows.append(torch.stack([power / total for power in powers]))
        return torch.stack(rows)

    return over_batches(of_matrix)(scores)


# --- The cases. ---


def _is_pair(result: object) -> bool:
    return (
        isinstance(result, tuple | list) and len(result) == 2 and all(isinstance(x, Tensor) for x in result)
    )


def _drawn(fn: Callable, weights: Tensor, value: Tensor, seed: int) -> object:
    return fn(weights, value, torch.Generator().manual_seed(seed))


def _facts(fn: Callable, weights: Tensor, value: Tensor, seed: int) -> object:
    """Says what has to hold for any draw: 1 where it does."""
    result = _drawn(fn, weights, value, seed)
    if not _is_pair(result):
        return result
    context, choices = result
    of_choice = torch.isclose(context, choices @ value, atol=1e-4)
    one_hot = ((choices == 0) | (choices == 1)) & (choices.sum(-1, keepdim=True) == 1)
    return of_choice.to(value.dtype), one_hot.to(value.dtype)


def _independence(fn: Callable, weights: Tensor, value: Tensor, seed: int) -> object:
    """Says for each sentence whether not all of its queries draw the same key."""
    result = _drawn(fn, weights, value, seed)
    if not _is_pair(result):
        return result
    context, choices = result
    differ = (choices != choices[..., :1, :]).flatten(-2).any(-1)
    return torch.zeros_like(context), differ.to(weights.dtype)[..., None, None]


def _frequencies(fn: Callable, weights: Tensor, value: Tensor, seed: int) -> object:
    """Says how often each key is drawn, and whether several sentences draw differently."""
    sentences = weights.expand(4, DRAWS // 4, -1).contiguous()
    result = _drawn(fn, sentences, value.expand(4, -1, -1).contiguous(), seed)
    if not _is_pair(result):
        return result
    context, choices = result
    differ = not (choices == choices[:1]).all()
    return torch.full_like(context[0, :1], float(differ)), choices.mean((0, 1)).unsqueeze(0)


def _same_again(fn: Callable, weights: Tensor, value: Tensor, seed: int) -> object:
    """Says whether the same seed gives the same draws, whatever PyTorch's own generator does."""
    torch.rand(1)
    first, second = (_drawn(fn, weights, value, seed) for _ in range(2))
    if not (_is_pair(first) and _is_pair(second)):
        return first
    return torch.zeros_like(first[0]), weights.new_full((1, 1), float(torch.equal(first[1], second[1])))


def _draws_anew(fn: Callable, weights: Tensor, value: Tensor, seed: int) -> object:
    """Says whether a second call with the same generator draws anew."""
    generator = torch.Generator().manual_seed(seed)
    first, second = (fn(weights, value, generator) for _ in range(2))
    if not (_is_pair(first) and _is_pair(second)):
        return first
    return torch.zeros_like(first[0]), weights.new_full((1, 1), float(not torch.equal(first[1], second[1])))


def _hard_cases(generator: torch.Generator, dtype: torch.dtype) -> Iterator[Case]:
    queries, keys, width = sizes(generator, 3)

    def case(stage: str, call: Callable, queries: int, *batch: int, sure: bool = False, **options) -> Case:
        weights = normal(generator, torch.float64, *batch, queries, keys).softmax(-1)
        if sure:
            weights = F.one_hot(weights.argmax(-1), keys)
        seed = int(torch.randint(2**31, (), generator=generator))
        value = normal(generator, dtype, *batch, keys, width)
        return Case(stage, {"weights": weights.to(dtype), "value": value, "seed": seed}, call=call, **options)

    yield case("shape", _drawn, queries, shape_only=True)
    facts = (
        "Here the numbers of context say whether it is the value of the chosen key (1 if so), and those of "
        "choices whether each row is a single 1 among zeros."
    )
    yield case("one query", _facts, 1, note=facts)
    yield case("many queries", _facts, queries, note=facts)
    for stage, batch in BATCHES.items():
        yield case(stage, _facts, queries, *batch, note=facts)
    anew = "Here choices says whether the queries draw independently (1 if so): not all the same key."
    yield case("each query for itself", _independence, 40, note=anew)
    yield case("each query for itself in a batch", _independence, 13, 3, note=anew)
    note = (
        f"Here choices holds the part of {DRAWS} draws that chose each key; expected are the weights. "
        "And context says whether sentences with equal weights draw differently (1 if so)."
    )
    for stage, few in (("frequencies", [0.75, 0.25]), ("frequencies of other weights", [0.5, 0.3, 0.1, 0.1])):
        weights = torch.tensor([*few, *[0.0] * (keys - len(few))], dtype=torch.float64)
        weights = weights[torch.randperm(keys, generator=generator)].unsqueeze(0).to(dtype)
        inputs = case(stage, _frequencies, 1).inputs | {"weights": weights}
        yield Case(stage, inputs, call=_frequencies, tolerance=0.035, note=note)
    again = "Here choices says whether two calls with the same seed draw the same keys (1 if so)."
    yield case("same seed", _same_again, 40, note=again)
    yield case("same seed in a batch", _same_again, 13, 3, note=again)
    later = "Here choices says whether a second call with the same generator draws anew (1 if so)."
    yield case("second call", _draws_anew, 40, note=later)
    yield case("second call in a batch", _draws_anew, 13, 3, note=later)
    note = "Here one key of each query has the weight 1, so that it is drawn for sure."
    yield case("one key with all the weight", _drawn, queries, sure=True, note=note)
    yield case("gradient", _drawn, queries, sure=True, gradient=True)


def _loss_cases(generator: torch.Generator, dtype: torch.dtype) -> Iterator[Case]:
    samples, batch = sizes(generator, 2)

    def case(stage: str, samples: int, batch: int, **options) -> Case:
        losses = 3 * torch.rand(samples, batch, generator=generator, dtype=torch.float64)
        probability = 0.05 + 0.9 * torch.rand(samples, batch, generator=generator, dtype=torch.float64)
        return Case(
            stage, {"losses": losses.to(dtype), "log_probability": probability.log().to(dtype)}, **options
        )

    yield case("shape", samples, batch, shape_only=True)
    yield case("one sentence, two draws", 2, 1)
    yield case("one sentence", samples, 1)
    yield case("batch", samples, batch)
    yield case("gradient with one sentence", samples, 1, gradient=True)
    yield case("gradient", samples, batch, gradient=True)


def _score_cases(generator: torch.Generator, dtype: torch.dtype) -> Iterator[Case]:
    queries, keys, d_query, d_key = sizes(generator, 4)

    def case(
        stage: str,
        kind: str,
        queries: int,
        keys: int,
        *batch: int,
        d_query: int = d_query,
        d_key: int = d_key,
        hidden: int = 6,
        **options,
    ) -> Case:
        d_key = d_query if kind == "dot" else d_key
        shapes = {"dot": None, "general": (d_query, d_key), "concat": (hidden, d_query + d_key)}
        shape = shapes[kind]
        inputs = {
            "query": normal(generator, dtype, *batch, queries, d_query),
            "key": normal(generator, dtype, *batch, keys, d_key),
            "kind": kind,
            "weight": None if shape is None else normal(generator, dtype, *shape) / shape[1] ** 0.5,
            "vector": normal(generator, dtype, hidden) if kind == "concat" else None,
        }
        return Case(f"{kind}: {stage}", inputs, **options)

    yield case("shape", "dot", queries, keys, shape_only=True)
    yield case("one query", "dot", 1, keys)
    yield case("many queries", "dot", queries, keys)
    yield case("shape", "general", queries, keys, shape_only=True)
    # Here a weight with swapped axes raises no error, so that it can be named.
    yield case("equal widths", "general", queries, keys, d_key=d_query)
    yield case("many queries", "general", queries, keys)
    yield case("shape", "concat", queries, keys, shape_only=True)
    yield case("square weight", "concat", queries, keys, hidden=d_query + d_key)
    yield case("many queries", "concat", queries, keys)
    for kind in ("dot", "general", "concat"):
        for stage, batch in BATCHES.items():
            yield case(stage, kind, 4, 5, *batch, d_query=7, d_key=11)
        yield case("gradient", kind, queries, keys, gradient=True)


def _local_m_cases(generator: torch.Generator, dtype: torch.dtype) -> Iterator[Case]:
    length, other = sizes(generator, 2)
    radius = int(torch.randint(1, 3, (), generator=generator))

    def case(stage: str, targets: int, source: int, *batch: int, radius: int = radius, **options) -> Case:
        return Case(
            stage, {"scores": normal(generator, dtype, *batch, targets, source), "radius": radius}, **options
        )

    small, large = sorted((length, other))
    yield case("shape", length, other, shape_only=True)
    yield case("one target position", 1, length)
    yield case("as many targets as sources", length, length)
    yield case("radius 0", length, length, radius=0)
    yield case("more sources than targets", small, large + 2)
    yield case("targets behind the source", large + 2, small)
    for stage, batch in BATCHES.items():
        yield case(stage, large + 2, small, *batch)
    yield case("gradient", large + 2, small, gradient=True)
    scores = case("", 6, 8).inputs["scores"].float()
    outside = (torch.arange(8) - torch.arange(6).unsqueeze(-1)).abs() > radius
    yield Case("large scores", {"scores": 1000 * scores, "radius": radius})
    yield Case("large scores outside", {"scores": 1000 * scores + 10_000 * outside, "radius": radius})


def _local_p_cases(generator: torch.Generator, dtype: torch.dtype) -> Iterator[Case]:
    targets, source, width = sizes(generator, 3)

    def case(stage: str, lengths: list[int], targets: int, source: int, radius: int = 2, **options) -> Case:
        batch = len(lengths)
        inputs = {
            "state": normal(generator, dtype, batch, targets, width),
            "scores": normal(generator, dtype, batch, targets, source),
            "lengths": torch.tensor(lengths),
            "weight": normal(generator, dtype, 6, width) / width**0.5,
            "vector": normal(generator, dtype, 6),
            "radius": radius,
        }
        return Case(stage, inputs, **options)

    yield case("shape", [source, 2, source - 1], targets, source, shape_only=True)
    yield case("one target position", [source], 1, source)
    yield case("one sentence", [source], targets, source)
    yield case("larger radius", [15], targets, 15, radius=3)
    # With the vector 0 the centre is half the length: keys lie at the very ends of the window.
    ends = case("whole centre", [6, 4], targets, 7).inputs
    yield Case("whole centre", ends | {"vector": 0 * ends["vector"]})
    yield case("batch without padding", [source] * 3, targets, source)
    yield case("padding", [source - 1, 2, source - 2], targets, source)
    yield case("sentence without tokens", [source - 1, 0, 3], targets, source)
    yield case("gradient", [source - 1, 0, 3], targets, source, gradient=True)
    large = case("large scores", [source - 1, 3], targets, source, radius=1).inputs
    yield Case("large scores", large | {"scores": 1000 * large["scores"]})


def _span_cases(generator: torch.Generator, dtype: torch.dtype) -> Iterator[Case]:
    length, other = sizes(generator, 2)

    def case(stage: str, targets: int, source: int, *batch: int, whole: int | None = None, **options) -> Case:
        # No distance lies at a corner of the ramp, where the gradient has two values.
        span = 0.6 + 0.3 * torch.rand((), generator=generator, dtype=torch.float64)
        span = span + (torch.randint(2, (), generator=generator) if whole is None else whole)
        inputs = {
            "scores": normal(generator, dtype, *batch, targets, source),
            "span": span.to(dtype),
            "ramp": 2.0 + torch.rand((), generator=generator).item() / 12,
        }
        return Case(stage, inputs, **options)

    small, large = sorted((length, other))
    yield case("shape", length, other, shape_only=True)
    yield case("one target position", 1, length, whole=1)
    yield case("as many targets as sources", length, length, whole=1)
    yield case("more sources than targets", small, large)
    yield case("targets behind the source", large + 4, small)
    for stage, batch in BATCHES.items():
        yield case(stage, large + 4, small, *batch)
    yield case("gradient", length, length, gradient=True)
    yield case("gradient with targets behind the source", large + 4, small, gradient=True)
    inputs = case("", 9, 8).inputs
    inputs = inputs | {"scores": inputs["scores"].float(), "span": inputs["span"].float()}
    outside = (torch.arange(8) - torch.arange(9).unsqueeze(-1)).abs() >= inputs["span"] + inputs["ramp"]
    # Here the span takes in all keys, so that only the size of the scores matters.
    yield Case("large scores", inputs | {"scores": 1000 * inputs["scores"], "span": inputs["span"] + 9})
    yield Case("large scores outside", inputs | {"scores": inputs["scores"] + 10_000 * outside})


# --- The known wrong versions, each named in the catalogue. ---


def _index(weights: Tensor, generator: torch.Generator | None) -> Tensor:
    rows = weights.detach().flatten(end_dim=-2)
    return torch.multinomial(rows, 1, generator=generator).view(weights.shape[:-1])


def _one_hot(index: Tensor, weights: Tensor) -> Tensor:
    return F.one_hot(index, weights.shape[-1]).to(weights.dtype)


def _hard(change: Callable = lambda weights: weights) -> Callable:
    """Builds hard attention that draws from changed weights."""

    def attention(weights: Tensor, value: Tensor, generator: torch.Generator) -> tuple:
        choices = _one_hot(_index(change(weights), generator), weights)
        return choices @ value, choices

    return attention


def _hard_argmax(weights, value, generator):
    choices = _one_hot(weights.argmax(-1), weights)
    return choices @ value, choices


def _hard_minus_uniform(weights, value, generator):
    noise = torch.rand(weights.shape, generator=generator, dtype=weights.dtype)
    choices = _one_hot((weights.detach() - noise).argmax(-1), weights)
    return choices @ value, choices


def _hard_once(weights, value, generator):
    index = torch.multinomial(weights.detach().flatten(end_dim=-2)[0], 1, generator=generator)
    choices = _one_hot(index.expand(weights.shape[:-1]), weights)
    return choices @ value, choices


def _hard_soft_context(weights, value, generator):
    return weights @ value, _one_hot(_index(weights, generator), weights)


def _hard_soft_choices(weights, value, generator):
    return _one_hot(_index(weights, generator), weights) @ value, weights


def _hard_weighted(weights, value, generator):
    choices = _one_hot(_index(weights, generator), weights) * weights
    return choices @ value, choices


def _hard_index(weights, value, generator):
    index = _index(weights, generator)
    return _one_hot(index, weights) @ value, index


def _hard_whole_numbers(weights, value, generator):
    index = _index(weights, generator)
    return _one_hot(index, weights) @ value, F.one_hot(index, weights.shape[-1])


def _hard_unseeded(weights, value, generator):
    return _hard()(weights, value, None)


def _hard_reseeded(weights, value, generator):
    return _hard()(weights, value, torch.Generator().manual_seed(0))


def _hard_straight_through(weights, value, generator):
    choices = _one_hot(_index(weights, generator), weights) + (weights - weights.detach())
    return choices @ value, choices


def _others(losses: Tensor) -> Tensor:
    return (losses.sum(0) - losses) / (len(losses) - 1)


def _loss(
    baseline: Callable = _others,
    advantage: Callable = lambda losses, b: (losses - b).detach(),
    log: Callable = lambda log_probability: log_probability,
    join: Callable = lambda losses, term: losses + term,
    reduce: Callable = torch.mean,
) -> Callable:
    """Builds the loss with one wrong part."""

    def loss(losses: Tensor, log_probability: Tensor) -> Tensor:
        term = advantage(losses, baseline(losses)) * log(log_probability)
        return reduce(join(losses, term))

    return loss


def _standardised(losses: Tensor, baseline: Tensor) -> Tensor:
    return ((losses - baseline) / (losses.std(0) + 1e-8)).detach()


def _three(
    dot: Callable | None = None, general: Callable | None = None, concat: Callable | None = None
) -> Callable:
    """Builds the three scores, of which some are wrong."""

    def scores(query, key, kind, weight, vector):
        if kind == "dot":
            return (dot or (lambda q, k: q @ k.mT))(query, key)
        if kind == "general":
            return (general or (lambda q, k, w: q @ w @ k.mT))(query, key, weight)
        return (concat or _concat)(query, key, weight, vector)

    return scores


def _sums(query: Tensor, key: Tensor, weight: Tensor) -> Tensor:
    on_query, on_key = weight.tensor_split([query.shape[-1]], dim=1)
    return (query @ on_query.mT).unsqueeze(-2) + (key @ on_key.mT).unsqueeze(-3)


def _concat(query: Tensor, key: Tensor, weight: Tensor, vector: Tensor) -> Tensor:
    return torch.tanh(_sums(query, key, weight)) @ vector


def _concat_swapped(query: Tensor, key: Tensor, weight: Tensor, vector: Tensor) -> Tensor:
    on_key, on_query = weight.tensor_split([key.shape[-1]], dim=1)
    return torch.tanh((query @ on_query.mT).unsqueeze(-2) + (key @ on_key.mT).unsqueeze(-3)) @ vector


def _distance(scores: Tensor, shift: float = 0.0) -> Tensor:
    """Gives s - t - shift for each target t and source s."""
    targets, source = scores.shape[-2:]
    return torch.arange(source) - torch.arange(targets).unsqueeze(-1) - shift


# What the softmax over a window is replaced by.
WRONG_SOFTMAX: tuple[tuple[str, Callable], ...] = (
    ("window-after-softmax", lambda scores, seen: scores.softmax(-1) * seen),
    ("window-as-zero-score", lambda scores, seen: (scores * seen).softmax(-1)),
    ("window-inverted", lambda scores, seen: softmax(scores, ~seen)),
    ("empty-window-nan", lambda scores, seen: scores.masked_fill(~seen, -INFINITY).softmax(-1)),
    ("empty-window-uniform", lambda scores, seen: scores.masked_fill(~seen, -1e9).softmax(-1)),
    ("empty-window-nan-gradient", softmax_additive),
    ("exp-overflow", softmax_exp),
)


def _local_m(window: Callable | None = None, normalise: Callable = softmax) -> Callable:
    """Builds local-m with a wrong window or a wrong softmax."""
    window = window or (lambda scores, radius: _distance(scores).abs() <= radius)
    return lambda scores, radius: normalise(scores, window(scores, radius))


def _scaled_centre(scores: Tensor, radius: int) -> Tensor:
    targets, source = scores.shape[-2:]
    centre = torch.arange(targets).unsqueeze(-1) * source / targets
    return (torch.arange(source) - centre).abs() <= radius


def _pushed_inside(scores: Tensor, radius: int) -> Tensor:
    targets, source = scores.shape[-2:]
    centre = torch.arange(targets).unsqueeze(-1).clamp(radius, max(source - 1 - radius, radius))
    return (torch.arange(source) - centre).abs() <= radius


def _clamped_centre(scores: Tensor, radius: int) -> Tensor:
    targets, source = scores.shape[-2:]
    centre = torch.arange(targets).unsqueeze(-1).clamp(max=source - 1)
    return (torch.arange(source) - centre).abs() <= radius


def _position(state, scores, lengths, weight, vector, *, inner=torch.tanh, outer=torch.sigmoid, size=None):
    size = lengths.unsqueeze(-1) if size is None else size(scores, lengths)
    return size * outer(inner(state @ weight.mT) @ vector)


def _gaussian(distance: Tensor, radius: float) -> Tensor:
    return torch.exp(-(distance**2) / (2 * (radius / 2) ** 2))


def _local_p(
    position: Callable = _position,
    gaussian: Callable = _gaussian,
    normalise: Callable = softmax,
    finish: Callable = lambda weights: weights,
    window: Callable = lambda distance, radius: distance.abs() <= radius,
    padded: bool = True,
) -> Callable:
    """Builds local-p with one wrong part."""

    def weights(state, scores, lengths, weight, vector, radius):
        positions = position(state, scores, lengths, weight, vector)
        source = torch.arange(scores.shape[-1])
        distance = source - positions.unsqueeze(-1)
        seen = window(distance, radius)
        if padded:
            seen = seen & (source < lengths.view(-1, 1, 1))
        return finish(normalise(scores, seen) * gaussian(distance, radius)), positions

    return weights


def _local_p_rounded(state, scores, lengths, weight, vector, radius):
    positions = _position(state, scores, lengths, weight, vector)
    source = torch.arange(scores.shape[-1])
    distance = source - positions.unsqueeze(-1)
    seen = (source - positions.round().unsqueeze(-1)).abs() <= radius
    weights = softmax(scores, seen & (source < lengths.view(-1, 1, 1)))
    return weights * _gaussian(distance, radius), positions


def _local_p_scores(state, scores, lengths, weight, vector, radius):
    positions = _position(state, scores, lengths, weight, vector)
    source = torch.arange(scores.shape[-1])
    distance = source - positions.unsqueeze(-1)
    seen = (distance.abs() <= radius) & (source < lengths.view(-1, 1, 1))
    return softmax(scores * _gaussian(distance, radius), seen), positions


def _local_p_centre(change: Callable) -> Callable:
    """Builds local-p with another centre than the position that it returns."""

    def weights(state, scores, lengths, weight, vector, radius):
        positions = _position(state, scores, lengths, weight, vector)
        result = _local_p(position=lambda *inputs: change(positions))
        return result(state, scores, lengths, weight, vector, radius)[0], positions

    return weights


def _local_p_padding(state, scores, lengths, weight, vector, radius):
    weights, positions = _local_p(padded=False)(state, scores, lengths, weight, vector, radius)
    return weights * (torch.arange(scores.shape[-1]) < lengths.view(-1, 1, 1)), positions


def _renormalised(weights: Tensor) -> Tensor:
    total = weights.sum(-1, keepdim=True)
    return weights / total.masked_fill(total == 0, 1.0)


def _share(scores: Tensor, span: Tensor, ramp: float) -> Tensor:
    return ((ramp + span - _distance(scores).abs()) / ramp).clamp(0, 1)


def _span(share: Callable = _share) -> Callable:
    """Builds attention with a learned span from another share of each key."""

    def weights(scores: Tensor, span: Tensor, ramp: float) -> Tensor:
        part = share(scores, span, ramp)
        return _renormalised(softmax(scores, part > 0) * part)

    return weights


def _span_nan(scores: Tensor, span: Tensor, ramp: float) -> Tensor:
    part = _share(scores, span, ramp)
    powers = softmax(scores, part > 0) * part
    return powers / powers.sum(-1, keepdim=True)


def _span_exp(scores: Tensor, span: Tensor, ramp: float) -> Tensor:
    return _renormalised(scores.exp() * _share(scores, span, ramp))


def _span_late(scores: Tensor, span: Tensor, ramp: float) -> Tensor:
    return _renormalised(scores.softmax(-1) * _share(scores, span, ramp))


def _span_log(scores: Tensor, span: Tensor, ramp: float) -> Tensor:
    return (scores + _share(scores, span, ramp).log()).softmax(-1).nan_to_num(0.0)


# --- The tasks. ---

HARD_ATTENTION = Task(
    name="hard_attention",
    outputs={"context": ("query", "feature"), "choices": ("query", "key")},
    oracle=_oracle_hard,
    cases=_hard_cases,
    wrong=(
        ("argmax-for-draw", _hard_argmax),
        ("uniform-draw", _hard(torch.ones_like)),
        ("softmax-before-draw", _hard(lambda weights: weights.softmax(-1))),
        ("uniform-noise-on-weights", _hard_minus_uniform),
        ("one-draw-for-all", _hard_once),
        ("context-stays-soft", _hard_soft_context),
        ("choices-stay-soft", _hard_soft_choices),
        ("choices-keep-weight", _hard_weighted),
        ("choices-as-index", _hard_index),
        ("choices-as-integers", _hard_whole_numbers),
        ("generator-ignored", _hard_unseeded),
        ("seeds-anew", _hard_reseeded),
        ("straight-through", _hard_straight_through),
        ("results-in-wrong-order", lambda *inputs: _hard()(*inputs)[::-1]),
    ),
    shortcuts=FUSED_ATTENTION,
    builds_on=frozenset({"masks", "qkv", "alignment"}),
)

SCORE_FUNCTION_LOSS = Task(
    name="score_function_loss",
    outputs={"loss": ()},
    oracle=_oracle_loss,
    cases=_loss_cases,
    wrong=(
        ("baseline-includes-itself", _loss(lambda losses: losses.mean(0))),
        ("no-baseline", _loss(torch.zeros_like)),
        ("baseline-over-batch", _loss(lambda losses: losses.mean(1, keepdim=True))),
        ("baseline-over-batch", _loss(lambda x: (x.sum(1, keepdim=True) - x) / (x.shape[1] - 1))),
        ("baseline-over-everything", _loss(torch.mean)),
        ("floor-for-constant", _loss(advantage=lambda losses, b: (losses - b).floor().detach())),
        ("left-out-but-divided-by-all", _loss(lambda losses: (losses.sum(0) - losses) / len(losses))),
        ("advantage-not-detached", _loss(advantage=lambda losses, b: losses - b)),
        ("baseline-not-detached", _loss(advantage=lambda losses, b: losses.detach() - b)),
        ("only-baseline-detached", _loss(advantage=lambda losses, b: losses - b.detach())),
        ("sign-of-rewards", _loss(join=lambda losses, term: losses - term)),
        ("probability-for-logarithm", _loss(log=torch.exp)),
        ("loss-itself-left-out", _loss(join=lambda losses, term: term)),
        ("advantage-standardised", _loss(advantage=_standardised)),
        ("sum-for-mean", _loss(reduce=torch.sum)),
        ("not-averaged", _loss(reduce=lambda losses: losses)),
        ("averaged-over-draws-only", _loss(reduce=lambda losses: losses.mean(0))),
    ),
    builds_on=frozenset({"masks", "qkv", "alignment"}),
)

LUONG_SCORES = Task(
    name="luong_scores",
    outputs={"scores": ("query", "key")},
    oracle=_oracle_scores,
    cases=_score_cases,
    wrong=(
        ("scaled-dot", _three(dot=lambda q, k: q @ k.mT / q.shape[-1] ** 0.5)),
        ("cosine", _three(dot=lambda q, k: F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT)),
        ("general-weight-swapped", _three(general=lambda q, k, w: q @ w.mT @ k.mT)),
        ("general-with-tanh", _three(general=lambda q, k, w: torch.tanh(q @ w) @ k.mT)),
        ("concat-in-wrong-order", _three(concat=_concat_swapped)),
        ("concat-weight-swapped", _three(concat=lambda q, k, w, v: _concat(q, k, w.mT, v))),
        ("no-tanh", _three(concat=lambda q, k, w, v: _sums(q, k, w) @ v)),
        ("tanh-outside", _three(concat=lambda q, k, w, v: torch.tanh(_sums(q, k, w) @ v))),
        ("vector-left-out", _three(concat=lambda q, k, w, v: torch.tanh(_sums(q, k, w)).sum(-1))),
        ("hidden-not-summed", _three(concat=lambda q, k, w, v: torch.tanh(_sums(q, k, w)) * v)),
        ("mean-over-hidden", _three(concat=lambda q, k, w, v: (torch.tanh(_sums(q, k, w)) * v).mean(-1))),
        ("transposed", lambda *inputs: _three()(*inputs).mT),
        ("weights-for-scores", lambda *inputs: _three()(*inputs).softmax(-1)),
    ),
)

LOCAL_M_WEIGHTS = Task(
    name="local_m_weights",
    outputs={"weights": ("target", "source")},
    oracle=_oracle_local_m,
    cases=_local_m_cases,
    wrong=(
        *((name, _local_m(normalise=wrong)) for name, wrong in WRONG_SOFTMAX),
        ("window-ignored", lambda scores, radius: scores.softmax(-1)),
        ("window-without-ends", _local_m(lambda scores, radius: _distance(scores).abs() < radius)),
        ("radius-as-width", _local_m(lambda scores, radius: _distance(scores).abs() <= radius // 2)),
        ("window-one-too-wide", _local_m(lambda scores, radius: _distance(scores).abs() <= radius + 1)),
        ("window-without-right-end", _local_m(lambda e, d: (_distance(e) >= -d) & (_distance(e) < d))),
        ("window-looks-back-only", _local_m(lambda e, d: (_distance(e) >= -d) & (_distance(e) <= 0))),
        ("window-looks-ahead-only", _local_m(lambda e, d: (_distance(e) >= 0) & (_distance(e) <= d))),
        ("centre-off-by-one", _local_m(lambda scores, radius: _distance(scores, 1).abs() <= radius)),
        ("centre-off-by-one", _local_m(lambda scores, radius: _distance(scores, -1).abs() <= radius)),
        ("centre-scaled", _local_m(_scaled_centre)),
        ("window-pushed-inside", _local_m(_pushed_inside)),
        ("window-pushed-inside", _local_m(_clamped_centre)),
        (
            "softmax-over-queries",
            lambda scores, radius: (
                scores.masked_fill(_distance(scores).abs() > radius, -INFINITY).softmax(-2).nan_to_num(0)
            ),
        ),
        ("window-scaled-up-late", _local_m(normalise=softmax_late)),
    ),
    shortcuts=FUSED_ATTENTION,
    builds_on=frozenset({"qkv", "alignment"}),
)

LOCAL_P_WEIGHTS = Task(
    name="local_p_weights",
    outputs={"weights": ("target", "source"), "positions": ("target",)},
    oracle=_oracle_local_p,
    cases=_local_p_cases,
    wrong=(
        *((name, _local_p(normalise=wrong)) for name, wrong in WRONG_SOFTMAX),
        ("renormalised-after-gaussian", _local_p(finish=_renormalised)),
        ("no-gaussian", _local_p(gaussian=lambda distance, radius: 1)),
        ("gaussian-on-scores", _local_p_scores),
        ("gaussian-without-window", _local_p(window=lambda d, radius: torch.ones_like(d, dtype=torch.bool))),
        ("sigma-is-radius", _local_p(gaussian=lambda distance, radius: _gaussian(distance, 2 * radius))),
        ("sigma-not-squared", _local_p(gaussian=lambda d, radius: torch.exp(-(d**2) / (2 * (radius / 2))))),
        ("gaussian-without-two", _local_p(gaussian=lambda d, radius: torch.exp(-(d**2) / (radius / 2) ** 2))),
        (
            "distance-not-squared",
            _local_p(gaussian=lambda d, radius: torch.exp(-d.abs() / (2 * (radius / 2) ** 2))),
        ),
        (
            "gaussian-as-density",
            _local_p(gaussian=lambda d, r: _gaussian(d, r) / (r / 2 * math.sqrt(2 * math.pi))),
        ),
        ("window-around-rounded-position", _local_p_rounded),
        ("window-without-ends", _local_p(window=lambda distance, radius: distance.abs() < radius)),
        ("position-rounded", _local_p(position=lambda *inputs: _position(*inputs).round())),
        ("position-rounded", _local_p_centre(torch.round)),
        ("position-without-gradient", _local_p_centre(torch.Tensor.detach)),
        ("padding-in-softmax", _local_p_padding),
        ("sigma-rounded-down", _local_p(gaussian=lambda d, radius: _gaussian(d, 2 * (radius // 2)))),
        ("position-without-sigmoid", _local_p(position=partial(_position, outer=lambda x: x))),
        ("position-without-tanh", _local_p(position=partial(_position, inner=lambda x: x))),
        ("position-without-length", _local_p(position=partial(_position, size=lambda scores, lengths: 1))),
        (
            "position-of-last-token",
            _local_p(
                position=partial(_position, size=lambda e, lengths: (lengths - 1).clamp(min=0)[:, None])
            ),
        ),
        ("position-in-padding", _local_p(position=partial(_position, size=lambda e, lengths: e.shape[-1]))),
        ("padding-attended", _local_p(padded=False)),
        (
            "positions-not-predicted",
            _local_p(position=lambda h, e, n, w, v: torch.arange(e.shape[1]) + 0 * h[..., 0]),
        ),
        ("results-in-wrong-order", lambda *inputs: _local_p()(*inputs)[::-1]),
    ),
    shortcuts=FUSED_ATTENTION,
    builds_on=frozenset({"masks", "qkv", "alignment"}),
)

SPAN_WEIGHTS = Task(
    name="span_weights",
    outputs={"weights": ("target", "source")},
    oracle=_oracle_span,
    cases=_span_cases,
    wrong=(
        ("ramp-after-softmax", lambda e, z, r: softmax(e, _share(e, z, r) > 0) * _share(e, z, r)),
        ("ramp-after-full-softmax", lambda e, z, r: e.softmax(-1) * _share(e, z, r)),
        ("ramp-on-scores", lambda e, z, r: softmax(e * _share(e, z, r), _share(e, z, r) > 0)),
        ("ramp-on-scores", lambda e, z, r: (e * _share(e, z, r)).softmax(-1)),
        ("ramp-above-one", _span(lambda e, z, r: ((r + z - _distance(e).abs()) / r).clamp(min=0))),
        (
            "ramp-below-zero",
            lambda e, z, r: _renormalised(e.exp() * ((r + z - _distance(e).abs()) / r).clamp(max=1)),
        ),
        ("ramp-too-early", _span(lambda e, z, r: ((z - _distance(e).abs()) / r).clamp(0, 1))),
        ("ramp-too-steep", _span(lambda e, z, r: (r + z - _distance(e).abs()).clamp(0, 1))),
        ("ramp-inverted", _span(lambda e, z, r: 1 - _share(e, z, r))),
        ("ramp-left-out", _span(lambda e, z, r: (_distance(e).abs() <= z).to(e.dtype) + 0 * z)),
        ("span-to-the-end-of-ramp", _span(lambda e, z, r: (_distance(e).abs() < z + r).to(e.dtype) + 0 * z)),
        ("distance-with-sign", _span(lambda e, z, r: ((r + z - _distance(e)) / r).clamp(0, 1))),
        ("span-without-gradient", lambda e, z, r: _span()(e, z.detach(), r)),
        ("empty-window-nan", _span_nan),
        ("empty-window-nan-gradient", _span_log),
        ("exp-overflow", _span_exp),
        ("window-scaled-up-late", _span_late),
        ("window-ignored", lambda e, z, r: e.softmax(-1) + 0 * z),
    ),
    shortcuts=FUSED_ATTENTION,
    builds_on=frozenset({"qkv", "alignment"}),
)

check_hard_attention = checking(HARD_ATTENTION)
check_score_function_loss = checking(SCORE_FUNCTION_LOSS)
check_luong_scores = checking(LUONG_SCORES)
check_local_m_weights = checking(LOCAL_M_WEIGHTS)
check_local_p_weights = checking(LOCAL_P_WEIGHTS)
check_span_weights = checking(SPAN_WEIGHTS)
