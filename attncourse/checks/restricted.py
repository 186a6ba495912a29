"""Checks of the set `restricted`: counted costs, masks of bands, attention in pieces, heads as a kernel."""

import math
import weakref
from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

from attncourse.checks.judge import Task, checking
from attncourse.checks.materials import (
    BATCHES,
    FUSED_ATTENTION,
    INFINITY,
    accepts,
    normal,
    over_batches,
    sizes,
)
from attncourse.checks.observe import NUMBER, TRUTH, Case

# --- The right answers: one number after the other. ---


def _oracle_costs(layer: str, length: int, d_model: int, width: int | None = None) -> tuple[int, int, int]:
    operations = 0
    for _ in range(length):  # for each position
        if layer == "recurrent":
            operations += 2 * d_model * d_model
        elif layer == "convolutional":
            operations += width * d_model * d_model
        else:
            seen = width if layer == "restricted" else length
            operations += 3 * d_model * d_model + seen * d_model + seen * d_model
    if layer == "self-attention":
        return operations, 1, 1
    if layer == "recurrent":
        return operations, length, length
    layers, reached = 1, width  # the last position sees so many positions, its own included
    while reached < length:
        layers, reached = layers + 1, reached + width - 1
    return operations, 1, layers


def _oracle_band(queries: int, width: int, causal: bool = True, past: int = 0) -> Tensor:
    return torch.tensor(
        [
            [
                q + past - width < k < q + past + (1 if causal else width)  # no key after the query
                for k in range(past + queries)
            ]
            for q in range(queries)
        ]
    )


def _softmax_sum(scores: list[Tensor], values: list[Tensor]) -> Tensor:
    """Gives the average of some values, with the softmax of their scores as weights; 0 where all are -inf."""
    top = max(score.item() for score in scores)
    if top == -INFINITY:
        return 0 * values[0]
    powers = [torch.exp(score - top) for score in scores]
    return sum(p * v for p, v in zip(powers, values, strict=True)) / sum(powers)


@over_batches
def _attend_near(query: Tensor, key: Tensor, value: Tensor, width: Tensor) -> Tensor:
    rows = []
    for i, q in enumerate(query):
        near = range(max(0, i - int(width) + 1), i + 1)
        scores = [(q * key[j]).sum() / math.sqrt(len(q)) for j in near]
        rows.append(_softmax_sum(scores, [value[j] for j in near]))
    return torch.stack(rows)


def _oracle_window(query: Tensor, key: Tensor, value: Tensor, width: int) -> Tensor:
    return _attend_near(query, key, value, torch.tensor(width))


@over_batches
def _attend_to_all(scores: Tensor, value: Tensor) -> Tensor:
    return torch.stack([_softmax_sum(list(row), list(value)) for row in scores])


def _oracle_streaming(chunks: Iterator[tuple[Tensor, Tensor]]) -> Tensor:
    copies = [(scores.clone(), value.clone()) for scores, value in chunks]
    scores, values = zip(*copies, strict=True)
    return _attend_to_all(torch.cat(scores, dim=-1), torch.cat(values, dim=-2))


def _oracle_convolution(inputs: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    d_out, _, heads = weight.shape
    length = inputs.shape[-2]
    weights = torch.zeros(heads, length, length, dtype=inputs.dtype)
    rows = []
    for i in range(length):
        row = [0 * inputs[..., 0, 0] for _ in range(d_out)]
        for h in range(heads):
            j = i + h - heads // 2
            if 0 <= j < length:
                weights[h, i, j] = 1.0
                for o in range(d_out):
                    row[o] = row[o] + (inputs[..., j, :] * weight[o, :, h]).sum(dim=-1)
        rows.append(torch.stack(row, dim=-1))
    return torch.stack(rows, dim=-2), weights


def _oracle_strided(queries: int, stride: int, past: int = 0) -> Tensor:
    distances = [[past + q - k for k in range(past + queries)] for q in range(queries)]
    return torch.tensor([[d >= 0 and (d < stride or d % stride == 0) for d in row] for row in distances])


def _oracle_assert_window(layer: Callable, width: int, d_model: int) -> None:
    length = 3 * width + 1
    changes = _changes(layer, d_model, length)
    for i in range(length):
        for j in range(length):
            assert (changes[i, j] > 1e-9) == (i - width < j <= i)


def _changes(layer: Callable, d_model: int, length: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """Gives the largest change of each position when one token is changed: (position, token)."""
    x = torch.arange(length * d_model).cos().view(length, d_model).to(dtype)
    before, columns = layer(x), []
    for token in range(length):
        changed = x.clone()
        changed[token] += 1
        columns.append((layer(changed) - before).abs().amax(dim=-1))
    return torch.stack(columns, dim=-1)


# --- The cases. ---


def _costs_cases(generator: torch.Generator, dtype: torch.dtype) -> Iterator[Case]:
    length, d_model = sizes(generator, 2)

    def case(stage: str, layer: str, length: int, width: int | None = None, **options) -> Case:
        inputs = {"layer": layer, "length": length, "d_model": d_model, "width": width}
        return Case(stage, inputs, **options)

    yield case("self-attention", "self-attention", 1)
    yield case("self-attention", "self-attention", length)
    yield case("self-attention", "self-attention", 20 * length)
    yield case("recurrent", "recurrent", length)
    yield case("recurrent", "recurrent", 20 * length)
    width = 3 + int(torch.randint(3, (), generator=generator))
    layers = width + 2 + int(torch.randint(4, (), generator=generator))
    reached = 1 + layers * (width - 1)
    for layer in ("convolutional", "restricted"):
        note = f"After {layers} of these layers the last position can depend on {reached} positions."
        yield case(layer, layer, reached, width, note=note)
        yield case(layer, layer, reached + 1, width, note=note)
        yield case(f"{layer}, a short text", layer, width, width + 1)
        yield case(f"{layer}, a short text", layer, 1, width)


def _band_cases(generator: torch.Generator, dtype: torch.dtype) -> Iterator[Case]:
    queries, past = sizes(generator, 2)
    width = 3 + int(torch.randint(3, (), generator=generator))

    def case(stage: str, queries: int, width: int, **more: object) -> Case:
        return Case(stage, {"queries": queries, "width": width} | more)

    yield case("one query", 1, width)
    yield case("a window of one key", queries, 1)
    yield case("many queries", queries, width)
    yield case("a window longer than the text", queries, queries + 2)
    yield case("keys after the query, too", queries, width, causal=False)
    yield case("past keys", queries, width, causal=True, past=past)
    yield case("everything", queries, width, causal=False, past=past)


def _window_cases(generator: torch.Generator, dtype: torch.dtype) -> Iterator[Case]:
    length, width, d_value = sizes(generator, 3)
    window = 2 + int(torch.randint(3, (), generator=generator))

    def case(
        stage: str, length: int, window: int, *batch: int, dtype: torch.dtype = dtype, **options
    ) -> Case:
        shapes = {"query": width, "key": width, "value": d_value}
        tensors = {name: normal(generator, dtype, *batch, length, d) for name, d in shapes.items()}
        return Case(stage, tensors | {"width": window}, **options)

    yield case("shape", length, window, shape_only=True)
    yield case("one token", 1, window)
    yield case("a window of one key", length, 1)
    yield case("no token beyond the window", window, window)
    yield case("a window longer than the text", length, length + 3)
    yield case("everything", 2 * length, window)
    for stage, batch in BATCHES.items():
        yield case(stage, length, window, *batch)
    yield case("gradient", length, window, gradient=True)
    yield case("half precision", length, window, dtype=torch.float16)
    # The n × n weights alone would be kept twice: as the result of a softmax, and as a factor of the values.
    many = 500
    tokens = {name: normal(generator, dtype, many, d) for name, d in (("query", 2), ("key", 2), ("value", 3))}
    yield Case("cost", tokens | {"width": 6}, budget=many * many)


class _Reader:
    """Hands out scores and values in chunks, and stops a function that keeps what it has read."""

    def __init__(self, *lengths: int) -> None:
        self.lengths = lengths

    def __call__(self, *start: Tensor) -> tuple[Tensor, Tensor] | None:
        if start:
            (self.scores, self.value), self.place, self.seen = start, 0, []
            return None
        # The last chunk may still be in use by the loop that asks for the next.
        if any(reference() is not None for reference in self.seen[:-2]):
            raise MemoryError("chunks that were read before are still kept")
        if len(self.seen) == 2 * len(self.lengths):
            return None
        stop = self.place + self.lengths[len(self.seen) // 2]
        chunk = self.scores[..., self.place : stop].clone(), self.value[..., self.place : stop, :].clone()
        self.seen += map(weakref.ref, chunk)
        self.place = stop
        return chunk


def _read_once(fn: Callable, scores: Tensor, value: Tensor, reader: _Reader) -> Tensor:
    reader(scores, value)
    return fn(iter(reader, None))


def _cut(*lengths: int) -> Callable:
    """Lets a case hand out scores and values in chunks, as an iterator."""

    def call(fn: Callable, scores: Tensor, value: Tensor) -> Tensor:
        return fn(zip(scores.split(lengths, dim=-1), value.split(lengths, dim=-2), strict=True))

    return call


def _streaming_cases(generator: torch.Generator, dtype: torch.dtype) -> Iterator[Case]:
    queries, keys, width = sizes(generator, 3)
    first = 2 + keys // 3
    two = (first, keys - first)
    three = (1, keys - 3, 2)

    def inputs(*batch: int, dtype: torch.dtype = dtype) -> dict[str, Tensor]:
        shapes = {"scores": (queries, keys), "value": (keys, width)}
        return {name: normal(generator, dtype, *batch, *shape) for name, shape in shapes.items()}

    def masked(hidden: tuple[slice, slice], scale: float = 1.0, shift: float = 0.0) -> dict[str, Tensor]:
        some = inputs()
        some["scores"] = scale * some["scores"] + shift
        some["scores"][hidden] = -INFINITY
        return some

    def case(stage: str, some: dict, chunks: tuple[int, ...], **options) -> Case:
        note = f"The chunks have {', '.join(map(str, chunks))} keys."
        return Case(stage, some, call=_cut(*chunks), **({"note": note} | options))

    yield case("shape", inputs(), two, shape_only=True)
    yield case("one chunk", inputs(), (keys,))
    yield case("two chunks", inputs(), two)
    yield case("many chunks", inputs(), three)
    yield case("one key a chunk", inputs(), (1,) * keys)
    every, some = slice(None), slice(1, 3)
    mask = (every, slice(first - 1, first + 1))
    yield case("some keys masked", masked(mask), two)
    hidden = "In it all scores of some queries are -inf."
    yield case("the last chunk masked", masked((some, slice(first, None))), two, note=hidden)
    yield case("the first chunk masked", masked((some, slice(0, first))), two, note=hidden)
    yield case("query without keys", masked((some, every)), two, note=hidden)
    for stage, batch in BATCHES.items():
        yield case(stage, inputs(*batch), three)
    yield case("gradient", inputs(), three, gradient=True)
    # In float64, so that the scores keep their digits.
    wide = {name: tensor.double() for name, tensor in inputs().items()}
    yield case("large scores", wide | {"scores": 1000 * wide["scores"]}, three)
    rising = 1000.0 * torch.arange(keys) + wide["scores"]
    yield case("rising scores", wide | {"scores": rising}, three)
    yield case("low scores", wide | {"scores": wide["scores"] - 5000}, three)
    low = wide | {"scores": wide["scores"] - 1e10}
    yield case("very low scores", low, three)
    low = {name: tensor.clone() for name, tensor in low.items()}
    low["scores"][some, :first] = -INFINITY
    yield case("very low scores after a masked chunk", low, two, note=hidden)
    yield Case(
        "cost",
        inputs() | {"reader": _Reader(*[1] * keys)},
        call=_read_once,
        note="Each chunk may be read once. When the next is read, the ones before should not be kept.",
    )


def _convolution_cases(generator: torch.Generator, dtype: torch.dtype) -> Iterator[Case]:
    length, d_in, d_out = sizes(generator, 3)
    heads = (3, 9)[int(torch.randint(2, (), generator=generator))]

    def case(stage: str, length: int, heads: int, *batch: int, **options) -> Case:
        tensors = {
            "inputs": normal(generator, dtype, *batch, length, d_in),
            "weight": normal(generator, dtype, d_out, d_in, heads),
        }
        return Case(stage, tensors, **options)

    yield case("shape", length, heads, shape_only=True)
    yield case("one token, a kernel of 1", 1, 1)
    yield case("a kernel of 1", length, 1)
    yield case("a kernel of 3", 2, 3)
    yield case("a kernel of 3", length, 3)
    yield case("a kernel of 9", length, 9)
    yield case("a kernel longer than the text", 4, 9)
    for stage, batch in BATCHES.items():
        yield case(stage, length, heads, *batch)
    yield case("gradient", length, heads, gradient=True)


def _strided_cases(generator: torch.Generator, dtype: torch.dtype) -> Iterator[Case]:
    queries, past = sizes(generator, 2)
    stride = 3 + int(torch.randint(3, (), generator=generator))

    def case(stage: str, queries: int, stride: int, past: int = 0) -> Case:
        inputs = {"queries": queries, "stride": stride}
        return Case(stage, inputs | ({"past": past} if past else {}))

    yield case("one query", 1, stride)
    yield case("the nearest keys", stride, stride)
    yield case("one step further", stride + 2, stride)
    yield case("everything", 2 * stride + queries, stride)
    yield case("a stride longer than the text", queries, queries + 2)
    yield case("past keys", queries, stride, past + stride)


def _assert_window_cases(generator: torch.Generator, dtype: torch.dtype) -> Iterator[Case]:
    (d_model,) = sizes(generator, 1)
    width = 3 + int(torch.randint(3, (), generator=generator))
    layers = _layers(generator, width, d_model)
    for stage, (note, layer) in (
        *(("good layers", layer) for layer in layers["good"]),
        *(("broken layers", layer) for layer in layers["broken"]),
    ):
        good = "pass" if stage == "good layers" else "fail"
        note = f"This layer {note}. Your test should let it {good}."
        inputs = {"layer": layer, "width": width, "d_model": d_model}
        yield Case(stage, inputs, call=accepts, note=note)


def _layers(generator: torch.Generator, width: int, d_model: int) -> dict[str, list[tuple[str, Callable]]]:
    """Makes layers of the width, each with the end of the sentence that begins with "This layer"."""
    taps = 0.5 + torch.rand(width, generator=generator, dtype=torch.float64)
    matrix = torch.randn(3, d_model, d_model, generator=generator, dtype=torch.float64) / d_model**0.5

    def mean(near: Callable[[Tensor], Tensor], factor: float = 1.0) -> Callable:
        """Averages over the keys whose distance to the query passes: positive before the query."""

        def layer(x: Tensor) -> Tensor:
            position = torch.arange(len(x))
            mask = near(position[:, None] - position).to(x.dtype)
            return factor * (mask / mask.sum(dim=-1, keepdim=True).clamp(min=1) @ x)

        return layer

    def window(distance: Tensor) -> Tensor:
        return (distance >= 0) & (distance < width)

    def attention(x: Tensor, hide: Callable | None = None) -> Tensor:
        query, key, value = x @ matrix.to(x.dtype) * torch.tensor([0.5, 0.5, 30.0]).view(3, 1, 1)
        position = torch.arange(len(x))
        near = window(position[:, None] - position)
        scores = query @ key.mT / d_model**0.5
        if hide:
            return hide(scores, near) @ value
        return scores.masked_fill(~near, -INFINITY).softmax(-1) @ value

    def convolution(x: Tensor) -> Tensor:
        shifted = [F.pad(x, (0, 0, i, 0))[: len(x)] for i in range(width)]
        return sum(tap * part for tap, part in zip(taps.tolist(), shifted, strict=True))

    def running(x: Tensor) -> Tensor:
        total = x.cumsum(dim=0)
        return (total - F.pad(total, (0, 0, width, 0))[: len(x)]) / width

    exact = mean(window)

    def blocks(x: Tensor) -> Tensor:
        block = torch.arange(len(x)) // width
        distance = torch.arange(len(x))[:, None] - torch.arange(len(x))
        mask = ((block[:, None] == block) & (distance >= 0)).to(x.dtype)
        return mask / mask.sum(dim=-1, keepdim=True) @ x

    def one_feature(x: Tensor) -> Tensor:
        return torch.cat([exact(x)[:, :-1], mean(lambda d: d >= 0)(x)[:, -1:]], dim=-1)

    def wrapped(x: Tensor) -> Tensor:
        return sum(x.roll(i, dims=0) for i in range(width)) / width

    def wide_at(early: bool) -> Callable:
        def layer(x: Tensor) -> Tensor:
            wide = torch.arange(len(x)) < len(x) // 2 if early else torch.arange(len(x)) == len(x) - 1
            return torch.where(wide.unsqueeze(-1), mean(lambda d: d >= 0, 10)(x), exact(x))

        return layer

    def after_softmax(x: Tensor) -> Tensor:
        return attention(x, lambda scores, near: scores.softmax(-1) * near)

    return {
        "good": [
            ("averages over its window", exact),
            ("attends to its window", attention),
            ("is a convolution over its window", convolution),
            ("makes its averages from running sums, and so has rounding errors", running),
            ("multiplies the average over its window by 0.05", mean(window, 0.05)),
            (
                "adds a function of the average over its window to its input",
                lambda x: x + 3 * exact(x).tanh(),
            ),
        ],
        "broken": [
            ("sees one key too many", mean(lambda d: (d >= 0) & (d <= width))),
            ("sees one key too few", mean(lambda d: (d >= 0) & (d < width - 1))),
            ("sees all keys before the query", mean(lambda d: d >= 0)),
            ("sees as many keys after the query as before it", mean(lambda d: d.abs() < width)),
            ("sees only keys after the query", mean(lambda d: (d <= 0) & (d > -width))),
            ("sees one key after the query", mean(lambda d: (d >= -1) & (d < width))),
            ("gives its input back", lambda x: x * 1),
            ("gives zeros", lambda x: x * 0),
            ("leaves out every second key of its window", mean(lambda d: window(d) & (d % 2 == 0))),
            ("leaves out the query's own key", mean(lambda d: window(d) & (d > 0))),
            ("sees the keys of the query's block", blocks),
            ("adds a hundredth of the first token", lambda x: exact(x) + 0.01 * x[:1]),
            ("adds a hundredth of the last token", lambda x: exact(x) + 0.01 * x[-1:]),
            ("masks after the softmax, so that all keys change the denominator", after_softmax),
            ("sees the end of the text from its first positions", wrapped),
            ("is right but for its last feature, which sees all keys before the query", one_feature),
            ("sees all keys before the query in the first half of the text", wide_at(early=True)),
            ("sees all keys before the query at the last position", wide_at(early=False)),
        ],
    }


# --- The known wrong versions, each named in the catalogue. ---

ATTENTIVE = ("self-attention", "restricted")


def _costs(
    operations: Callable[[str, int, int, int], float] | None = None,
    steps: Callable[[str, int, int, int], float] | None = None,
    path: Callable[[str, int, int, int], float] | None = None,
) -> Callable:
    """Builds counts, one of them wrong; a function gets the layer, n, d, and how many positions it sees."""

    def layer_costs(layer: str, length: int, d_model: int, width: int | None = None) -> tuple:
        right = _oracle_costs(layer, length, d_model, width)
        arguments = layer, length, d_model, width or length
        return tuple(
            wrong(*arguments) if wrong else value
            for wrong, value in zip((operations, steps, path), right, strict=True)
        )

    return layer_costs


def _operations(layer: str, n: int, d: int, seen: int) -> int:
    return _oracle_costs(layer, n, d, seen)[0]


def _path(layer: str, n: int, seen: int) -> int:
    return _oracle_costs(layer, n, 1, seen)[2]


def _table_1(layer: str, n: int, d: int, seen: int) -> int:
    return {"recurrent": n * d * d, "convolutional": seen * n * d * d}.get(layer, seen * n * d)


def _far(layer: str, wrong: float, n: int, seen: int) -> float:
    """Gives a wrong path for the layers with a width, and the right one for the others."""
    return wrong if layer in ("convolutional", "restricted") else _path(layer, n, seen)


def _log_path(n: int, seen: int) -> int:
    layers = 1
    while seen**layers < n:
        layers += 1
    return layers


def _mask(near: Callable, with_past: bool = True) -> Callable:
    """Builds a band; ``near`` gets the distances, positive before the query, the width, and ``causal``."""

    def band_mask(queries: int, width: int, causal: bool = True, past: int = 0) -> Tensor:
        return near(_distances(queries, past, with_past), width, causal)

    return band_mask


def _distances(queries: int, past: int, with_past: bool = True) -> Tensor:
    return torch.arange(queries).unsqueeze(-1) + past * with_past - torch.arange(past + queries)


def _band(distance: Tensor, width: int, causal: bool) -> Tensor:
    return (distance.abs() < width) & ((distance >= 0) | (not causal))


def _mask_by_block(queries: int, width: int, causal: bool = True, past: int = 0) -> Tensor:
    query, key = (past + torch.arange(queries)).unsqueeze(-1) // width, torch.arange(past + queries) // width
    return (query == key) & ((_distances(queries, past) >= 0) | (not causal))


def _additive(mask: Tensor) -> Tensor:
    return torch.zeros(mask.shape).masked_fill(~mask, -INFINITY)


def _dense_window(
    near: Callable[[Tensor, int], Tensor],
    score: Callable[[Tensor, Tensor], Tensor] = lambda query, key: query @ key.mT / query.shape[-1] ** 0.5,
    hide: Callable | None = None,
) -> Callable:
    """Builds attention with a dense mask; ``near`` gets distances, positive before the query, and a width."""

    def window_attention(query: Tensor, key: Tensor, value: Tensor, width: int) -> Tensor:
        mask = near(_distances(query.shape[-2], 0), width)
        scores = score(query, key)
        weights = hide(scores, mask) if hide else scores.masked_fill(~mask, -INFINITY).softmax(-1)
        return weights @ value

    return window_attention


def _causal_window(distance: Tensor, width: int) -> Tensor:
    return (distance >= 0) & (distance < width)


def _gathered(fill: Callable[[Tensor, int], Tensor]) -> Callable:
    """Builds window attention from keys that ``fill`` put before the first, and that are seen, too."""

    def window_attention(query: Tensor, key: Tensor, value: Tensor, width: int) -> Tensor:
        key, value = (fill(tensor, width - 1).unfold(-2, width, 1) for tensor in (key, value))
        scores = (query.unsqueeze(-1) * key).sum(-2) / query.shape[-1] ** 0.5
        return (scores.softmax(-1).unsqueeze(-2) * value).sum(-1)

    return window_attention


def _zeros_before(tensor: Tensor, count: int) -> Tensor:
    return F.pad(tensor, (0, 0, count, 0))


def _end_before(tensor: Tensor, count: int) -> Tensor:
    position = torch.arange(-count, tensor.shape[-2]) % tensor.shape[-2]
    return tensor[..., position, :]


def _first_before(tensor: Tensor, count: int) -> Tensor:
    position = torch.arange(-count, tensor.shape[-2]).clamp(min=0)
    return tensor[..., position, :]


def _window_by_block(query: Tensor, key: Tensor, value: Tensor, width: int) -> Tensor:
    mask = _mask_by_block(query.shape[-2], width)
    scores = query @ key.mT / query.shape[-1] ** 0.5
    return scores.masked_fill(~mask, -INFINITY).softmax(-1) @ value


def _window_without_start(query: Tensor, key: Tensor, value: Tensor, width: int) -> Tensor:
    """Gives only the positions with a full window."""
    return _dense_window(_causal_window)(query, key, value, width)[..., width - 1 :, :]


def _window_zero_start(query: Tensor, key: Tensor, value: Tensor, width: int) -> Tensor:
    context = _dense_window(_causal_window)(query, key, value, width)
    full = torch.arange(query.shape[-2]) >= width - 1
    return context * full.unsqueeze(-1)


def _stream(
    shift: Callable[[Tensor, Tensor], Tensor] = torch.maximum,
    rescale_total: Callable | None = None,
    rescale_context: Callable | None = None,
    start: float = -INFINITY,
    empty: Callable[[Tensor], Tensor] = lambda shift: shift.masked_fill(shift == -INFINITY, 0.0),
    finish: Callable[[Tensor, Tensor, int], Tensor] | None = None,
) -> Callable:
    """Builds a streaming softmax, one step of which is wrong."""

    def streaming_attention(chunks: Iterator[tuple[Tensor, Tensor]]) -> Tensor:
        largest, total, context, count = None, 0.0, 0.0, 0
        for scores, value in chunks:
            top = scores.amax(-1, keepdim=True)
            before = torch.full_like(top, start) if largest is None else largest
            largest = shift(before, top)
            safe = empty(largest)
            factor, weights = torch.exp(before - safe), torch.exp(scores - safe)
            total = (rescale_total or _product)(total, factor) + weights.sum(-1, keepdim=True)
            context = (rescale_context or _product)(context, factor) + weights @ value
            count += 1
            del scores, value
        return (finish or _divided)(context, total, count)

    return streaming_attention


def _finite(top: Tensor) -> Tensor:
    return top.masked_fill(top == -INFINITY, 0.0)


def _product(old: Tensor | float, factor: Tensor) -> Tensor | float:
    return old * factor


def _unscaled(old: Tensor | float, factor: Tensor) -> Tensor | float:
    return old


def _inverse(old: Tensor | float, factor: Tensor) -> Tensor | float:
    return old / factor if isinstance(old, Tensor) else old


def _divided(context: Tensor, total: Tensor, count: int) -> Tensor:
    return context / total.masked_fill(total == 0, 1.0)


def _stream_per_chunk(join: Callable[[list[Tensor], list[int]], Tensor]) -> Callable:
    def streaming_attention(chunks: Iterator[tuple[Tensor, Tensor]]) -> Tensor:
        parts, keys = [], []
        for scores, value in chunks:
            parts.append(scores.softmax(-1).nan_to_num() @ value)
            keys.append(scores.shape[-1])
            del scores, value
        return join(parts, keys)

    return streaming_attention


def _stream_exp(chunks: Iterator[tuple[Tensor, Tensor]]) -> Tensor:
    total = context = 0.0
    for scores, value in chunks:
        weights = scores.exp()
        total, context = total + weights.sum(-1, keepdim=True), context + weights @ value
        del scores, value
    return _divided(context, total, 0)


def _stream_first_maximum(chunks: Iterator[tuple[Tensor, Tensor]]) -> Tensor:
    largest, total, context = None, 0.0, 0.0
    for scores, value in chunks:
        if largest is None:
            largest = scores.amax(-1, keepdim=True)
            largest = largest.masked_fill(largest == -INFINITY, 0.0)
        weights = torch.exp(scores - largest)
        total, context = total + weights.sum(-1, keepdim=True), context + weights @ value
        del scores, value
    return _divided(context, total, 0)


def _stream_kept(chunks: Iterator[tuple[Tensor, Tensor]]) -> Tensor:
    scores, values = zip(*chunks, strict=True)
    return torch.cat(scores, dim=-1).softmax(-1).nan_to_num() @ torch.cat(values, dim=-2)


def _stream_kept_safely(chunks: Iterator[tuple[Tensor, Tensor]]) -> Tensor:
    return _stream()(iter(list(chunks)))


def _stream_twice(chunks: Iterator[tuple[Tensor, Tensor]]) -> Tensor:
    largest = None
    for scores, _ in chunks:
        top = scores.amax(-1, keepdim=True)
        largest = top if largest is None else torch.maximum(largest, top)
    total = context = None
    for scores, value in chunks:
        weights = torch.exp(scores - largest)
        total, context = total + weights.sum(-1, keepdim=True), context + weights @ value
    return context / total


def _stream_last(chunks: Iterator[tuple[Tensor, Tensor]]) -> Tensor:
    for scores, value in chunks:
        context = scores.softmax(-1).nan_to_num() @ value
        del scores, value
    return context


def _stream_normalised(chunks: Iterator[tuple[Tensor, Tensor]]) -> Tensor:
    """Divides by the total at every step, and goes on as if it had not."""
    largest, total, context = None, 0.0, 0.0
    for scores, value in chunks:
        top = scores.amax(-1, keepdim=True)
        before = torch.full_like(top, -INFINITY) if largest is None else largest
        largest = torch.maximum(before, top)
        safe = largest.masked_fill(largest == -INFINITY, 0.0)
        factor, weights = torch.exp(before - safe), torch.exp(scores - safe)
        total = total * factor + weights.sum(-1, keepdim=True)
        context = (context * factor + weights @ value) / total.masked_fill(total == 0, 1.0)
        del scores, value
    return context


def _heads(
    offset: Callable[[int, int], int] = lambda head, heads: head - heads // 2,
    at: Callable[[int, int], int | None] = lambda key, length: key if 0 <= key < length else None,
    empty: float = 0.0,
) -> Callable:
    """Builds heads that look at one key each."""

    def weights(length: int, heads: int, dtype: torch.dtype) -> Tensor:
        table = torch.zeros(heads, length, length, dtype=dtype)
        for h in range(heads):
            for i in range(length):
                key = at(i + offset(h, heads), length)
                if key is None:
                    table[h, i] = empty / length
                else:
                    table[h, i, key] = 1.0
        return table

    return weights


def _convolved(
    heads: Callable | None = None, join: Callable[[Tensor], Tensor] = lambda x: x.sum(-3)
) -> Callable:
    def convolution_as_attention(inputs: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        weights = (heads or _heads())(inputs.shape[-2], weight.shape[-1], inputs.dtype)
        value = inputs.unsqueeze(-3) @ weight.permute(2, 1, 0)
        return join(weights @ value), weights

    return convolution_as_attention


def _convolved_transposed(inputs: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    context, weights = _convolved()(inputs, weight)
    return context, weights.mT


def _convolved_heads_last(inputs: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    context, weights = _convolved()(inputs, weight)
    return context, weights.movedim(0, -1)


def _convolved_swapped(inputs: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Reads the kernel as (d_in, d_out, heads)."""
    weights = _heads()(inputs.shape[-2], weight.shape[-1], inputs.dtype)
    return (weights @ (inputs.unsqueeze(-3) @ weight.permute(2, 0, 1))).sum(-3), weights


def _convolved_concatenated(inputs: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    weights = _heads()(inputs.shape[-2], weight.shape[-1], inputs.dtype)
    context = weights @ (inputs.unsqueeze(-3) @ weight.permute(2, 1, 0))
    return context.movedim(-3, -2).flatten(-2), weights


def _strided(near: Callable[[Tensor, int], Tensor], with_past: bool = True) -> Callable:
    def strided_mask(queries: int, stride: int, past: int = 0) -> Tensor:
        return near(_distances(queries, past, with_past), stride)

    return strided_mask


def _local_or_stride(distance: Tensor, stride: int) -> Tensor:
    return (distance >= 0) & ((distance < stride) | (distance % stride == 0))


def _strided_columns(first: Callable[[int], int]) -> Callable:
    """Builds a pattern whose far keys stand at fixed positions."""

    def strided_mask(queries: int, stride: int, past: int = 0) -> Tensor:
        distance, key = _distances(queries, past), torch.arange(past + queries)
        return (distance >= 0) & ((distance < stride) | (key % stride == first(stride)))

    return strided_mask


def _strided_fixed(queries: int, stride: int, past: int = 0) -> Tensor:
    """Gives the other pattern of the same paper: the query's block, and the last key of each block."""
    query, key = (past + torch.arange(queries)).unsqueeze(-1), torch.arange(past + queries)
    return (key <= query) & ((key // stride == query // stride) | (key % stride == stride - 1))


def _tests(
    must_see: Callable[[Tensor, int], Tensor] | None = None,
    must_not_see: Callable[[Tensor, int], Tensor] | None = None,
    queries: Callable[[int], slice] = lambda length: slice(None),
    keys: Callable[[int], slice] = lambda length: slice(None),
    length: Callable[[int], int] = lambda width: 3 * width + 1,
    features: slice = slice(None),
) -> Callable:
    """Builds a test that looks at some of the pairs of query and key."""

    def assert_window(layer: Callable, width: int, d_model: int) -> None:
        size = length(width)
        chosen = queries(size), keys(size)
        reach = _changes(lambda x: layer(x)[:, features], d_model, size)[chosen]
        distance = _distances(size, 0)[chosen]
        if must_see is not None:
            assert (reach > 1e-9)[must_see(distance, width)].all()
        if must_not_see is not None:
            assert (reach <= 1e-9)[must_not_see(distance, width)].all()

    return assert_window


def _tests_by_change(tolerance: float, see: float | None = None) -> Callable:
    """Builds a test that changes one token after the other, and compares with a tolerance."""

    def assert_window(layer: Callable, width: int, d_model: int) -> None:
        length = 3 * width + 1
        changes = _changes(layer, d_model, length, torch.float32)
        near = _causal_window(_distances(length, 0), width)
        assert (changes[~near] <= tolerance).all()
        assert (changes[near] > (tolerance if see is None else see)).all()

    return assert_window


def _test_fails(layer: Callable, width: int, d_model: int) -> None:
    raise AssertionError


def _outside(distance: Tensor, width: int) -> Tensor:
    return ~_causal_window(distance, width)


# --- The tasks. ---

LAYER_COSTS = Task(
    name="layer_costs",
    outputs={"operations": NUMBER, "steps": NUMBER, "path": NUMBER},
    oracle=_oracle_costs,
    cases=_costs_cases,
    wrong=(
        (
            "projections-left-out",
            _costs(lambda layer, n, d, w: _operations(layer, n, d, w) - 3 * n * d * d * (layer in ATTENTIVE)),
        ),
        ("costs-of-table-1", _costs(_table_1)),
        (
            "one-product-of-attention",
            _costs(lambda layer, n, d, w: _operations(layer, n, d, w) - w * n * d * (layer in ATTENTIVE)),
        ),
        (
            "one-projection",
            _costs(lambda layer, n, d, w: _operations(layer, n, d, w) - 2 * n * d * d * (layer in ATTENTIVE)),
        ),
        (
            "output-projection-counted",
            _costs(lambda layer, n, d, w: _operations(layer, n, d, w) + n * d * d * (layer in ATTENTIVE)),
        ),
        ("additions-counted", _costs(lambda layer, n, d, w: 2 * _operations(layer, n, d, w))),
        (
            "one-matrix-of-recurrence",
            _costs(lambda layer, n, d, w: _operations(layer, n, d, w) // (1 + (layer == "recurrent"))),
        ),
        (
            "width-ignored",
            _costs(lambda layer, n, d, w: _operations(layer, n, d, n if layer == "restricted" else w)),
        ),
        (
            "convolution-by-feature",
            _costs(lambda layer, n, d, w: _operations(layer, n, d, w) // (d if layer[0] == "c" else 1)),
        ),
        (
            "window-cut-at-the-start",
            _costs(
                lambda layer, n, d, w: (
                    _operations(layer, n, d, w) - 2 * d * sum(max(0, w - 1 - i) for i in range(n))
                    if layer == "restricted"
                    else _operations(layer, n, d, w)
                )
            ),
        ),
        (
            "steps-of-attention",
            _costs(steps=lambda layer, n, d, w: 1 if layer == "convolutional" else n),
        ),
        ("steps-of-attention", _costs(steps=lambda layer, n, d, w: n)),
        ("steps-one-for-all", _costs(steps=lambda layer, n, d, w: 1)),
        (
            "path-of-recurrence-one",
            _costs(path=lambda layer, n, d, w: 1 if layer == "recurrent" else _path(layer, n, w)),
        ),
        (
            "path-of-recurrence-short",
            _costs(path=lambda layer, n, d, w: n - 1 if layer == "recurrent" else _path(layer, n, w)),
        ),
        ("path-n-over-w", _costs(path=lambda layer, n, d, w: _far(layer, math.ceil(n / w), n, w))),
        ("path-n-over-w", _costs(path=lambda layer, n, d, w: _far(layer, math.ceil((n - 1) / w), n, w))),
        (
            "path-one-too-many",
            _costs(path=lambda layer, n, d, w: _far(layer, math.ceil(n / max(w - 1, 1)), n, w)),
        ),
        (
            "path-rounded-down",
            _costs(path=lambda layer, n, d, w: _far(layer, (n - 1) // max(w - 1, 1), n, w)),
        ),
        (
            "path-rounded-down",
            _costs(path=lambda layer, n, d, w: _far(layer, max(1, (n - 1) // max(w - 1, 1)), n, w)),
        ),
        ("path-not-rounded", _costs(path=lambda layer, n, d, w: _far(layer, (n - 1) / max(w - 1, 1), n, w))),
        ("path-of-dilation", _costs(path=lambda layer, n, d, w: _far(layer, _log_path(n, w), n, w))),
        ("path-one-for-all", _costs(path=lambda layer, n, d, w: n if layer == "recurrent" else 1)),
    ),
)

BAND_MASK = Task(
    name="band_mask",
    outputs={"mask": ("query", "key")},
    oracle=_oracle_band,
    cases=_band_cases,
    wrong=(
        ("window-one-more", _mask(lambda d, width, causal: _band(d, width + 1, causal))),
        ("window-one-less", _mask(lambda d, width, causal: _band(d, width - 1, causal))),
        ("window-after-the-query", _mask(lambda d, width, causal: _band(-d, width, causal))),
        ("band-causal-ignored", _mask(lambda d, width, causal: _band(d, width, False))),
        ("always-causal", _mask(lambda d, width, causal: _band(d, width, True))),
        ("causal-inverted", _mask(lambda d, width, causal: _band(d, width, not causal))),
        (
            "window-in-two-halves",
            _mask(lambda d, w, causal: _band(d, w, True) if causal else d.abs() <= w // 2),
        ),
        (
            "window-in-two-halves",
            _mask(lambda d, w, causal: _band(d, w, True) if causal else d.abs() < (w + 1) // 2),
        ),
        (
            "later-keys-unlimited",
            _mask(lambda d, w, causal: (d < w) & (d >= 0) if causal else d < w),
        ),
        ("window-missing", _mask(lambda d, width, causal: (d >= 0) | (not causal))),
        ("mask-inverted", _mask(lambda d, width, causal: ~_band(d, width, causal))),
        ("mask-as-numbers", _mask(lambda d, width, causal: _additive(_band(d, width, causal)))),
        ("mask-as-numbers", _mask(lambda d, width, causal: _band(d, width, causal).float())),
        ("past-ignored", _mask(_band, with_past=False)),
        (
            "past-keys-left-out",
            lambda queries, width, causal=True, past=0: _mask(_band)(queries, width, causal),
        ),
        ("block-for-window", _mask_by_block),
    ),
    builds_on=frozenset({"qkv"}),
)

WINDOW_ATTENTION = Task(
    name="window_attention",
    outputs={"context": ("position", "feature")},
    oracle=_oracle_window,
    cases=_window_cases,
    wrong=(
        ("quadratic", _dense_window(_causal_window)),
        ("window-one-more", _dense_window(lambda d, width: _causal_window(d, width + 1))),
        ("window-one-less", _dense_window(lambda d, width: _causal_window(d, width - 1))),
        ("window-after-the-query", _dense_window(lambda d, width: _causal_window(-d, width))),
        ("window-on-both-sides", _dense_window(lambda d, width: d.abs() < width)),
        ("window-missing", _dense_window(lambda d, width: d >= 0)),
        ("mask-ignored", _dense_window(lambda d, width: d == d)),
        ("no-scale", _dense_window(_causal_window, lambda query, key: query @ key.mT)),
        ("scale-by-d", _dense_window(_causal_window, lambda query, key: query @ key.mT / query.shape[-1])),
        (
            "scale-by-length",
            _dense_window(_causal_window, lambda query, key: query @ key.mT / query.shape[-2] ** 0.5),
        ),
        (
            "mask-after-softmax",
            _dense_window(_causal_window, hide=lambda scores, mask: scores.softmax(-1) * mask),
        ),
        (
            "mask-as-zero-score",
            _dense_window(_causal_window, hide=lambda scores, mask: (scores * mask).softmax(-1)),
        ),
        (
            "weights-ignore-keys",
            _dense_window(_causal_window, score=lambda query, key: 0 * (query @ key.mT)),
        ),
        ("window-padding-attended", _gathered(_zeros_before)),
        ("window-wraps", _gathered(_end_before)),
        ("first-key-repeated", _gathered(_first_before)),
        ("block-for-window", _window_by_block),
        ("only-full-windows", _window_without_start),
        ("only-full-windows", _window_zero_start),
    ),
    shortcuts=FUSED_ATTENTION,
    builds_on=frozenset({"masks", "qkv"}),
)

STREAMING_ATTENTION = Task(
    name="streaming_attention",
    outputs={"context": ("query", "feature")},
    oracle=_oracle_streaming,
    cases=_streaming_cases,
    wrong=(
        ("exp-overflow", _stream_exp),
        ("maximum-of-the-first-chunk", _stream_first_maximum),
        ("maximum-of-the-last-chunk", _stream(shift=lambda before, top: top)),
        ("no-rescaling", _stream(rescale_total=_unscaled, rescale_context=_unscaled)),
        ("only-total-rescaled", _stream(rescale_context=_unscaled)),
        ("only-context-rescaled", _stream(rescale_total=_unscaled)),
        ("rescaled-the-wrong-way", _stream(rescale_total=_inverse, rescale_context=_inverse)),
        ("maximum-starts-at-zero", _stream(start=0.0)),
        ("maximum-starts-at-zero", _stream(shift=lambda a, b: _finite(torch.maximum(a, b)))),
        ("maximum-starts-finite", _stream(start=-1e9)),
        ("maximum-starts-finite", _stream(start=-1e4)),
        ("empty-chunk-nan", _stream(empty=lambda shift: shift)),
        ("empty-row-nan", _stream(finish=lambda context, total, count: context / total)),
        ("no-normaliser", _stream(finish=lambda context, total, count: context)),
        ("normalised-by-chunks", _stream(finish=lambda context, total, count: context / count)),
        ("normalised-at-each-step", _stream_normalised),
        (
            "mean-of-chunks",
            _stream_per_chunk(lambda parts, keys: sum(parts) / len(parts)),
        ),
        (
            "mean-of-chunks",
            _stream_per_chunk(
                lambda parts, keys: sum(n * p for n, p in zip(keys, parts, strict=True)) / sum(keys)
            ),
        ),
        ("sum-of-chunks", _stream_per_chunk(lambda parts, keys: sum(parts))),
        ("last-chunk-only", _stream_last),
        ("chunks-kept", _stream_kept),
        ("chunks-kept", _stream_kept_safely),
        ("chunks-read-twice", _stream_twice),
    ),
    shortcuts=FUSED_ATTENTION,
    builds_on=frozenset({"masks", "qkv"}),
)

CONVOLUTION_AS_ATTENTION = Task(
    name="convolution_as_attention",
    outputs={"context": ("position", "feature"), "weights": ("head", "query", "key")},
    oracle=_oracle_convolution,
    cases=_convolution_cases,
    wrong=(
        ("kernel-flipped", _convolved(_heads(lambda head, heads: heads // 2 - head))),
        ("offsets-from-zero", _convolved(_heads(lambda head, heads: head))),
        ("offsets-up-to-zero", _convolved(_heads(lambda head, heads: head - heads + 1))),
        ("offset-off-by-one", _convolved(_heads(lambda head, heads: head - heads // 2 + 1))),
        ("offset-off-by-one", _convolved(_heads(lambda head, heads: head - heads // 2 - 1))),
        ("edges-repeated", _convolved(_heads(at=lambda key, length: min(max(key, 0), length - 1)))),
        ("edges-wrapped", _convolved(_heads(at=lambda key, length: key % length))),
        ("empty-row-uniform", _convolved(_heads(empty=1.0))),
        ("empty-row-nan", _convolved(_heads(empty=math.nan))),
        ("kernel-heads-averaged", _convolved(join=lambda context: context.mean(-3))),
        ("heads-concatenated", _convolved_concatenated),
        ("kernel-axes-swapped", _convolved_swapped),
        ("weights-transposed", _convolved_transposed),
        ("heads-last", _convolved_heads_last),
        ("returns-swapped", lambda inputs, weight: _convolved()(inputs, weight)[::-1]),
    ),
    shortcuts=FUSED_ATTENTION | {"conv1d", "convolution", "conv2d"},
    builds_on=frozenset({"masks", "qkv"}),
)

STRIDED_MASK = Task(
    name="strided_mask",
    outputs={"mask": ("query", "key")},
    oracle=_oracle_strided,
    cases=_strided_cases,
    wrong=(
        ("stride-left-out", _strided(lambda d, stride: (d >= 0) & (d < stride))),
        ("local-part-left-out", _strided(lambda d, stride: (d >= 0) & (d % stride == 0))),
        ("and-for-or", _strided(lambda d, stride: (d >= 0) & (d < stride) & (d % stride == 0))),
        (
            "window-one-more",
            _strided(lambda d, stride: (d >= 0) & ((d < stride + 2) | (d % stride == 0))),
        ),
        (
            "window-one-less",
            _strided(lambda d, stride: (d >= 0) & ((d < stride - 1) | (d % stride == 0))),
        ),
        ("stride-from-the-start", _strided_columns(lambda stride: 0)),
        ("stride-from-the-start", _strided_columns(lambda stride: stride - 1)),
        ("fixed-pattern", _strided_fixed),
        ("strides-on-both-sides", _strided(lambda d, stride: (d.abs() < stride) | (d % stride == 0))),
        (
            "strides-on-both-sides",
            _strided(lambda d, stride: ((d >= 0) & (d < stride)) | (d % stride == 0)),
        ),
        ("window-after-the-query", _strided(lambda d, stride: _local_or_stride(-d, stride))),
        ("mask-inverted", _strided(lambda d, stride: ~_local_or_stride(d, stride))),
        ("mask-as-numbers", _strided(lambda d, stride: _additive(_local_or_stride(d, stride)))),
        ("mask-as-numbers", _strided(lambda d, stride: _local_or_stride(d, stride).float())),
        ("past-ignored", _strided(_local_or_stride, with_past=False)),
    ),
    builds_on=frozenset({"qkv"}),
)

ASSERT_WINDOW = Task(
    name="assert_window",
    outputs={"your test lets it pass": TRUTH},
    oracle=_oracle_assert_window,
    cases=_assert_window_cases,
    wrong=(
        ("reach-test-never-fails", _tests()),
        ("test-always-fails", _test_fails),
        ("test-of-causality-only", _tests(must_not_see=lambda d, width: d < 0)),
        ("test-without-reach", _tests(must_not_see=_outside)),
        ("test-without-limits", _tests(must_see=_causal_window)),
        ("test-without-left-limit", _tests(_causal_window, lambda d, width: d < 0)),
        ("test-without-causality", _tests(_causal_window, lambda d, width: d >= width)),
        (
            "test-at-the-limits-only",
            _tests(lambda d, width: (d == 0) | (d == width - 1), lambda d, width: (d == -1) | (d == width)),
        ),
        (
            "test-of-the-last-query-only",
            _tests(_causal_window, _outside, queries=lambda length: slice(length - 1, None)),
        ),
        (
            "test-of-one-token-only",
            _tests(_causal_window, _outside, keys=lambda length: slice(length // 2, length // 2 + 1)),
        ),
        (  # at the start of a block of the width
            "test-of-one-token-only",
            _tests(_causal_window, _outside, keys=lambda length: slice(length // 3 * 2, length // 3 * 2 + 1)),
        ),
        (
            "test-of-the-first-feature-only",
            _tests(_causal_window, _outside, features=slice(0, 1)),
        ),
        ("reach-test-too-strict", _tests_by_change(0.0)),
        ("test-too-wide", _tests_by_change(0.1, see=1e-6)),
        ("test-too-wide", _tests_by_change(0.1)),
        (
            "window-one-more",
            _tests(lambda d, width: _causal_window(d, width + 1), lambda d, width: _outside(d, width + 1)),
        ),
        (
            "window-on-both-sides",
            _tests(lambda d, width: d.abs() < width, lambda d, width: d.abs() >= width),
        ),
    ),
    builds_on=frozenset({"masks", "qkv"}),
)

check_layer_costs = checking(LAYER_COSTS)
check_band_mask = checking(BAND_MASK)
check_window_attention = checking(WINDOW_ATTENTION)
check_streaming_attention = checking(STREAMING_ATTENTION)
check_convolution_as_attention = checking(CONVOLUTION_AS_ATTENTION)
check_strided_mask = checking(STRIDED_MASK)
check_assert_window = checking(ASSERT_WINDOW)
