"""Checks of the set `selfattention`: masks, blocks, a test of order, pooling, shared queries and keys."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

from attncourse.checks.judge import Task, checking
from attncourse.checks.materials import BATCHES, INFINITY, accepts, normal, sizes, softmax
from attncourse.checks.observe import TRUTH, Case
from attncourse.checks.qkv import WRONG_WEIGHTS

EPSILON = 1e-5
LOW = -1e4

# --- The right answers: one number, or one number of each batch, after the other. ---


def _oracle_causal(queries: int, past: int = 0) -> Tensor:
    rows = [[key <= past + query for key in range(past + queries)] for query in range(queries)]
    return torch.tensor(rows)


def _oracle_self_attention(
    inputs: Tensor,
    query_weight: Tensor,
    key_weight: Tensor,
    value_weight: Tensor,
    causal: bool = False,
    real_tokens: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    if inputs.ndim == 3:
        real = [None] * len(inputs) if real_tokens is None else real_tokens
        weights = (query_weight, key_weight, value_weight)
        pairs = [_oracle_self_attention(x, *weights, causal, r) for x, r in zip(inputs, real, strict=True)]
        return tuple(torch.stack(part) for part in zip(*pairs, strict=True))
    query, key, value = inputs @ query_weight, inputs @ key_weight, inputs @ value_weight
    maps = []
    for i, q in enumerate(query):
        allowed = [
            j
            for j in range(len(key))
            if (not causal or j <= i) and (real_tokens is None or real_tokens[j].item())
        ]
        powers = {j: torch.exp((q * key[j]).sum() / len(q) ** 0.5) for j in allowed}
        zero = (q * 0).sum()
        total = sum(powers.values())
        maps.append(torch.stack([powers[j] / total if j in powers else zero for j in range(len(key))]))
    weights = torch.stack(maps)
    context = torch.stack([sum(w * v for w, v in zip(row, value, strict=True)) for row in weights])
    return context, weights


def _oracle_norm(vectors: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
    """Normalises one number after the other: the mean, then the variance, over the last axis."""
    width = vectors.shape[-1]
    mean = sum(vectors[..., d] for d in range(width)) / width
    variance = sum((vectors[..., d] - mean) ** 2 for d in range(width)) / width
    columns = [
        gain[d] * (vectors[..., d] - mean) / torch.sqrt(variance + EPSILON) + bias[d] for d in range(width)
    ]
    return torch.stack(columns, -1)


def _oracle_block(
    inputs: Tensor,
    attend: Callable,
    feedforward: Callable,
    gain_1: Tensor,
    bias_1: Tensor,
    gain_2: Tensor,
    bias_2: Tensor,
) -> Tensor:
    middle = inputs + attend(_oracle_norm(inputs, gain_1, bias_1))
    return middle + feedforward(_oracle_norm(middle, gain_2, bias_2))


def _oracle_pooling(
    inputs: Tensor, weight: Tensor, bias: Tensor, query: Tensor, real_tokens: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    if inputs.ndim > 2:
        real = [None] * len(inputs) if real_tokens is None else real_tokens
        pairs = [_oracle_pooling(x, weight, bias, query, r) for x, r in zip(inputs, real, strict=True)]
        return tuple(torch.stack(part) for part in zip(*pairs, strict=True))
    allowed = [i for i in range(len(inputs)) if real_tokens is None or real_tokens[i].item()]
    powers = {i: torch.exp((torch.tanh(inputs[i] @ weight + bias) * query).sum()) for i in allowed}
    zero = (inputs[0] * 0).sum()
    total = sum(powers.values())
    weights = torch.stack([powers[i] / total if i in powers else zero for i in range(len(inputs))])
    return sum(w * x for w, x in zip(weights, inputs, strict=True)), weights


def _oracle_shared(vectors: Tensor) -> Tensor:
    if vectors.ndim > 2:
        return torch.stack([_oracle_shared(part) for part in vectors])
    length, width = vectors.shape
    rows = []
    for i in range(length):
        row = []
        for j in range(length):
            square = (vectors[j] ** 2).sum()
            long = torch.sqrt(square) if square > 0 else torch.ones_like(square)
            score = (vectors[i] * vectors[j]).sum() / long / width**0.5
            row.append(score * 0 + LOW if i == j else score)
        rows.append(torch.stack(row))
    return torch.stack(rows)


# --- The cases. ---


def _causal_cases(generator: torch.Generator, dtype: torch.dtype) -> Iterator[Case]:
    queries, past = sizes(generator, 2)
    yield Case("one token", {"queries": 1, "past": 0})
    yield Case("some tokens", {"queries": 3})
    yield Case("many tokens", {"queries": queries, "past": 0})
    yield Case("some tokens after others", {"queries": queries, "past": past})
    yield Case("one token after others", {"queries": 1, "past": past})


def _self_attention_cases(generator: torch.Generator, dtype: torch.dtype) -> Iterator[Case]:
    length, d_model, d_key, d_value = sizes(generator, 4)
    batch = BATCHES["one batch axis"][0]

    def inputs(
        length: int = length, d_key: int = d_model, d_value: int = d_model, batch: int = batch, **options
    ) -> dict:
        shapes = {"query": d_key, "key": d_key, "value": d_value}
        weights = {
            f"{name}_weight": (normal(generator, torch.float64, d_model, width) / d_model**0.5).to(dtype)
            for name, width in shapes.items()
        }
        return {"inputs": normal(generator, dtype, batch, length, d_model)} | weights | options

    lengths = 1 + torch.randperm(length - 1, generator=generator)[:batch]
    right = torch.arange(length) < lengths.unsqueeze(-1)
    left = right.flip(-1)
    nothing = right.clone()
    nothing[1] = False
    yield Case("one token", inputs(1))
    yield Case("one sentence", inputs(batch=1))
    yield Case("a batch", inputs())
    yield Case("other widths", inputs(d_key=d_key, d_value=d_value))
    yield Case("causal", inputs(causal=True))
    yield Case("padding", inputs(causal=False, real_tokens=right))
    yield Case("causal, with padding", inputs(causal=True, real_tokens=right))
    yield Case("causal, with padding on the left", inputs(causal=True, real_tokens=left))
    yield Case("a sentence of padding alone", inputs(causal=False, real_tokens=nothing))
    # The score of a vector of zeros is 0, as are all scores with it. It is a score like any other.
    zero = inputs(d_key=d_key, d_value=d_value, causal=True)
    zero["inputs"][:, length // 2] = 0
    yield Case("a token of zeros", zero)
    yield Case("gradient", inputs(d_key=d_key, d_value=d_value, causal=True, real_tokens=left), gradient=True)


def _block_cases(generator: torch.Generator, dtype: torch.dtype) -> Iterator[Case]:
    length, d_model, d_hidden = sizes(generator, 3)
    mixing, widen, narrow = (
        normal(generator, torch.float64, *shape) / shape[0] ** 0.5
        for shape in ((d_model, d_model), (d_model, d_hidden), (d_hidden, d_model))
    )

    def attend(x: Tensor) -> Tensor:
        weights = (x @ x.mT / x.shape[-1] ** 0.5).softmax(-1)
        return weights @ x @ mixing.to(x.dtype)

    def feedforward(x: Tensor) -> Tensor:
        return torch.tanh(x @ widen.to(x.dtype)) @ narrow.to(x.dtype)

    def inputs(length: int = length, batch: tuple[int, ...] = (3,), scale: float = 1.0, plain=False) -> dict:
        # Far from mean 0 and deviation 1, so that a norm that is left out shows.
        spread = 0.5 + 2 * torch.rand(d_model, generator=generator, dtype=torch.float64)
        x = normal(generator, torch.float64, *batch, length, d_model) * spread + 1.0
        norms = {
            name: (1.0 + normal(generator, torch.float64, d_model) / 2).to(dtype)
            for name in ("gain_1", "bias_1", "gain_2", "bias_2")
        }
        if plain:
            norms = {name: torch.full_like(x, float("gain" in name)) for name, x in norms.items()}
        parts = {"attend": attend, "feedforward": feedforward}
        return {"inputs": (scale * x).to(dtype)} | parts | norms

    yield Case("shape", inputs(), shape_only=True)
    yield Case("one token, plain norms", inputs(1, plain=True))
    yield Case("several tokens, plain norms", inputs(plain=True))
    yield Case("gain and bias", inputs())
    yield Case("very small inputs", inputs(scale=1e-3), note="Here the variance is near epsilon.")
    yield Case("no batch axis", inputs(batch=()))
    yield Case("two batch axes", inputs(batch=BATCHES["two batch axes"]))
    yield Case("gradient", inputs(), gradient=True)


SAME, BROKEN = "Your test should let it pass.", "Your test should fail it."


def _layers(matrix: Tensor) -> dict[str, tuple[Callable, bool, str]]:
    """Gives layers ``(batch, length, width) -> (batch, length, width)``: name -> (layer, is it right?, note).

    The right ones either round (sums over the tokens), or do not round at all.
    """

    def scores(x: Tensor) -> Tensor:
        return x @ matrix.to(x.dtype) @ x.mT / x.shape[-1] ** 0.5

    def waves(x: Tensor) -> Tensor:
        place = torch.arange(x.shape[1], dtype=x.dtype).unsqueeze(-1)
        return torch.sin(place * (1 + torch.arange(x.shape[2], dtype=x.dtype)))

    def apart(x: Tensor) -> Tensor:
        itself = torch.eye(x.shape[1], dtype=torch.bool)
        return scores(x).masked_fill(itself, -INFINITY).softmax(-1) @ x

    def near(x: Tensor) -> Tensor:
        place = torch.arange(x.shape[1])
        distance = (place - place.unsqueeze(-1)).abs().to(x.dtype)
        return (scores(x) - 0.5 * distance).softmax(-1) @ x

    def neighbours(x: Tensor) -> Tensor:
        padded = F.pad(x, (0, 0, 1, 1))
        return padded[:, :-2] + x + padded[:, 2:]

    def late(x: Tensor) -> Tensor:
        return x + (torch.arange(x.shape[1]) >= 6).to(x.dtype).unsqueeze(-1)

    def swapped(x: Tensor) -> Tensor:
        return torch.cat([x[:, 1:2], x[:, :1], x[:, 2:]], 1)

    def causal(x: Tensor) -> Tensor:
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        return scores(x).masked_fill(future, -INFINITY).softmax(-1) @ x

    right = {
        "attention": (lambda x: scores(x).softmax(-1) @ x, "This layer is plain self-attention."),
        "identity": (lambda x: x.clone(), "This layer returns its inputs as they are."),
        "network": (lambda x: torch.tanh(2 * x) + x, "This layer treats each token alone."),
        "mean": (
            lambda x: x + x.mean(1, keepdim=True),
            "This layer adds the mean of its sentence to each token.",
        ),
        "apart": (apart, "This layer is self-attention in which no token attends to itself."),
        "maximum": (
            lambda x: x.amax(1, keepdim=True).expand_as(x).clone(),
            "This layer gives each token the maximum over its sentence.",
        ),
        "zeros": (torch.zeros_like, "This layer returns zeros."),
        "block": (
            lambda x: x + 3 * F.layer_norm(scores(x).softmax(-1) @ x, x.shape[-1:]),
            "This layer is self-attention with a norm and a residual connection.",
        ),
    }
    broken = {
        "positions": (lambda x: x + waves(x), "This layer adds a position encoding."),
        "weak": (lambda x: x + 0.02 * waves(x), "This layer adds a position encoding of size 0.02."),
        "late": (late, "This layer adds 1 to each token from the seventh on."),
        "causal": (causal, "This layer is causal self-attention."),
        "near": (near, "This layer is self-attention that prefers keys nearby."),
        "rolled": (lambda x: x.roll(1, 1), "This layer moves each token by one place."),
        "circle": (
            lambda x: x + x.roll(1, 1) + x.roll(-1, 1),
            "This layer adds both neighbours to each token; the first and the last are neighbours, too.",
        ),
        "neighbours": (neighbours, "This layer adds both neighbours to each token."),
        "first": (lambda x: x + x[:, :1], "This layer adds the first token of the sentence to each token."),
        "swapped": (swapped, "This layer swaps the first two tokens."),
        "sorted": (lambda x: x.sort(1).values, "This layer sorts each feature over the tokens."),
        "batch": (
            lambda x: x + x.mean(0, keepdim=True),
            "This layer adds to each token the mean over all sentences at its position.",
        ),
        "running": (
            lambda x: x.cumsum(1) / (1 + torch.arange(x.shape[1])).to(x.dtype).unsqueeze(-1),
            "This layer gives each token the mean of the tokens up to it.",
        ),
    }
    return {name: (layer, True, f"{note} {SAME}") for name, (layer, note) in right.items()} | {
        name: (layer, False, f"{note} {BROKEN}") for name, (layer, note) in broken.items()
    }


def _layer_cases(generator: torch.Generator, dtype: torch.dtype) -> Iterator[Case]:
    (width,) = sizes(generator, 1)
    layers = _layers(normal(generator, torch.float64, width, width) / width**0.5)
    seed = int(torch.randint(1000, (), generator=generator))

    def call(test: Callable, layer: Callable, width: int) -> bool:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            # A test that draws its orders may miss a broken layer by chance, but not again and again.
            return all(accepts(test, layer, width) for _ in range(4))

    def case(stage: str, name: str) -> Case:
        layer, _, note = layers[name]
        return Case(stage, {"layer": layer, "width": width}, call=call, note=note)

    yield case("a right layer", "attention")
    yield case("a broken layer", "positions")
    for name, (_, is_right, _) in layers.items():
        if name not in ("attention", "positions"):
            yield case("other right layers" if is_right else "other broken layers", name)


def _oracle_test(layer: Callable, width: int) -> None:
    """Fails a layer whose output moves otherwise than its input, or that mixes sentences: for all pairs."""
    x = torch.randn(2, 9, width, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    before = layer(x)
    for first in range(9):
        for second in range(first):
            order = list(range(9))
            order[first], order[second] = second, first
            # The first sentence moves, the second stays.
            moved = torch.stack([x[0, order], x[1]])
            expected = torch.stack([before[0, order], before[1]])
            if (layer(moved) - expected).abs().max() > 1e-6:
                raise AssertionError


def _pooling_cases(generator: torch.Generator, dtype: torch.dtype) -> Iterator[Case]:
    length, width, hidden = sizes(generator, 3)

    def inputs(
        length: int = length, batch: tuple[int, ...] = (3,), hidden: int = width, **options: Tensor
    ) -> dict:
        return {
            "inputs": normal(generator, dtype, *batch, length, width),
            "weight": (normal(generator, torch.float64, width, hidden) / width**0.5).to(dtype),
            "bias": normal(generator, dtype, hidden),
            "query": normal(generator, dtype, hidden),
        } | options

    lengths = 1 + torch.randperm(length - 1, generator=generator)[:3]
    real = torch.arange(length) < lengths.unsqueeze(-1)
    nothing = real.clone()
    nothing[1] = False
    yield Case("one token", inputs(1))
    yield Case("several tokens", inputs())
    yield Case("padding", inputs(real_tokens=real))
    yield Case("padding on the left", inputs(real_tokens=real.flip(-1)))
    yield Case("a sentence of padding alone", inputs(real_tokens=nothing))
    yield Case("another hidden width", inputs(hidden=hidden))
    yield Case("no batch axis", inputs(batch=(), hidden=hidden, real_tokens=real[0]))
    two = torch.stack([real, real.flip(-1)])
    yield Case("two batch axes", inputs(batch=(2, 3), hidden=hidden, real_tokens=two))
    yield Case("two batch axes without padding", inputs(batch=(2, 3)))
    yield Case("gradient", inputs(hidden=hidden, real_tokens=nothing), gradient=True)


def _shared_cases(generator: torch.Generator, dtype: torch.dtype) -> Iterator[Case]:
    length, width = sizes(generator, 2)

    def inputs(length: int = length, batch: tuple[int, ...] = (3,), dtype: torch.dtype = dtype) -> dict:
        return {"vectors": 1.5 * normal(generator, dtype, *batch, length, width)}

    zero = inputs()
    zero["vectors"][:, 2] = 0
    yield Case("shape", inputs(), shape_only=True)
    yield Case("two tokens", inputs(2))
    yield Case("several tokens", inputs())
    yield Case("a token of zeros", zero)
    yield Case("no batch axis", inputs(batch=()))
    yield Case("batch and heads", inputs(batch=BATCHES["two batch axes"]))
    yield Case("gradient", inputs(), gradient=True)
    yield Case("half precision", inputs(dtype=torch.float16))


# --- The known wrong versions, each named in the catalogue. ---


def _causal(queries: int, past: int, diagonal: int = 0) -> Tensor:
    return torch.ones(queries, past + queries, dtype=torch.bool).tril(past + diagonal)


def _joined_masks(x: Tensor, causal: bool, real: Tensor | None) -> Tensor | None:
    mask = _causal(x.shape[1], 0) if causal else None
    if real is None:
        return mask
    real = real.unsqueeze(-2)
    return real if mask is None else mask & real


def _self_attention(
    order: Callable = lambda q, k, v: (q, k, v),
    scale: Callable = lambda q, x: q.shape[-1] ** 0.5,
    masks: Callable = _joined_masks,
    normalise: Callable = softmax,
    finish: Callable = lambda context, weights: (context, weights),
) -> Callable:
    """Builds self-attention from its steps, one of which is wrong."""

    def attend(
        inputs: Tensor,
        query_weight: Tensor,
        key_weight: Tensor,
        value_weight: Tensor,
        causal=False,
        real_tokens=None,
    ) -> tuple[Tensor, Tensor]:
        q, k, v = (
            inputs if weight is None else inputs @ weight
            for weight in order(query_weight, key_weight, value_weight)
        )
        scores = q @ k.mT / scale(q, inputs)
        weights = normalise(scores, masks(inputs, causal, real_tokens))
        return finish(weights @ v, weights)

    return attend


def _masks(on_causal: Callable = lambda mask: mask, real_axes: Callable | None = None) -> Callable:
    """Builds the joined masks with a wrong causal mask, or with the padding on a wrong axis."""
    real_axes = real_axes or (lambda real: real.unsqueeze(-2))

    def masks(x: Tensor, causal: bool, real: Tensor | None) -> Tensor | None:
        mask = on_causal(_causal(x.shape[1], 0)) if causal else None
        padding = None if real is None else real_axes(real)
        return padding if mask is None else mask if padding is None else mask & padding

    return masks


def _masks_or(x: Tensor, causal: bool, real: Tensor | None) -> Tensor | None:
    both = causal and real is not None
    return _causal(x.shape[1], 0) | real.unsqueeze(-2) if both else _joined_masks(x, causal, real)


def _masks_or_always(x: Tensor, causal: bool, real: Tensor | None) -> Tensor | None:
    """Joins masks by "or" with the causal one, or with one that allows all: then nothing is forbidden."""
    allowed = _causal(x.shape[1], 0) if causal else torch.ones(x.shape[1], x.shape[1], dtype=torch.bool)
    return allowed if real is None else allowed | real.unsqueeze(-2)


def _softmax_zero_is_masked(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    if mask is None:
        return scores.softmax(-1)
    scores = scores * mask
    return scores.masked_fill(scores == 0, -INFINITY).softmax(-1)


def _norm(
    axis: tuple[int, ...] = (-1,),
    correction: int = 0,
    inside: float = EPSILON,
    outside: float = 0.0,
    gain_off: float = 1.0,
    use_gain: bool = True,
    use_bias: bool = True,
) -> Callable:
    """Builds a norm, one step of which is wrong."""

    def norm(x: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
        axes = tuple(a for a in axis if -a <= x.ndim)
        centred = x - x.mean(axes, keepdim=True)
        spread = torch.sqrt(x.var(axes, correction=correction, keepdim=True) + inside) + outside
        x = centred / spread
        x = x * gain if use_gain else x
        return x + bias if use_bias else x

    return norm


def _no_norm(x: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
    return x


def _centred_only(x: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
    return (x - x.mean(-1, keepdim=True)) * gain + bias


def _root_mean_square(x: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
    return x / torch.sqrt((x**2).mean(-1, keepdim=True) + EPSILON) * gain + bias


def _block(
    compose: Callable | None = None, norm: Callable | None = None, order: tuple[int, int] = (0, 1)
) -> Callable:
    """Builds a block from its composition and its norm, one of which is wrong."""
    norm = norm or _norm()
    compose = compose or (lambda x, attend, feed, n1, n2: (y := x + attend(n1(x))) + feed(n2(y)))

    def block(x: Tensor, attend: Callable, feedforward: Callable, *parameters: Tensor) -> Tensor:
        norms = [lambda v, i=i: norm(v, parameters[2 * i], parameters[2 * i + 1]) for i in order]
        return compose(x, attend, feedforward, *norms)

    return block


def _post_norm(x: Tensor, attend: Callable, feed: Callable, n1: Callable, n2: Callable) -> Tensor:
    x = n1(x + attend(x))
    return n2(x + feed(x))


def _residual_after_norm(x: Tensor, attend: Callable, feed: Callable, n1: Callable, n2: Callable) -> Tensor:
    x = n1(x)
    x = n2(x + attend(x))
    return x + feed(x)


def _norm_of_the_sum_kept(x: Tensor, attend: Callable, feed: Callable, n1: Callable, n2: Callable) -> Tensor:
    x = n2(x + attend(n1(x)))
    return x + feed(x)


def _first_norm_kept(x: Tensor, attend: Callable, feed: Callable, n1: Callable, n2: Callable) -> Tensor:
    x = n1(x)
    x = x + attend(x)
    return x + feed(n2(x))


def _outputs_normed(x: Tensor, attend: Callable, feed: Callable, n1: Callable, n2: Callable) -> Tensor:
    x = x + n1(attend(x))
    return x + n2(feed(x))


def _permutation_test(
    sentences: int = 3,
    length: int = 12,
    tolerance: float | None = 1e-4,
    order: Callable = torch.randperm,
    each: bool = True,
    expect: Callable = lambda output, order: output[:, order] if order.ndim == 1 else _move(output, order),
    compare: Callable | None = None,
) -> Callable:
    """Builds a test of layers from its steps, one of which is wrong."""

    def test(layer: Callable, width: int) -> None:
        x = torch.randn(sentences, length, width)
        orders = torch.stack([order(length) for _ in range(sentences)]) if each else order(length)
        moved = _move(x, orders) if each else x[:, orders]
        got, expected = layer(moved), expect(layer(x), orders)
        if compare:
            got, expected = compare(got), compare(expected)
        same = torch.equal(got, expected) if tolerance is None else (got - expected).abs().max() <= tolerance
        assert same

    return test


def _move(x: Tensor, orders: Tensor) -> Tensor:
    return torch.take_along_dim(x, orders.unsqueeze(-1), 1)


def _first_two(length: int) -> Tensor:
    return torch.tensor([1, 0, *range(2, length)])


def _pooling(
    hidden: Callable = lambda x, weight, bias: torch.tanh(x @ weight + bias),
    score: Callable = lambda hidden, query: hidden @ query,
    normalise: Callable = lambda scores, real: softmax(scores, real),
    combine: Callable = lambda weights, x, hidden: (weights.unsqueeze(-1) * x).sum(-2),
) -> Callable:
    """Builds pooling from its steps, one of which is wrong."""

    def pool(x: Tensor, weight: Tensor, bias: Tensor, query: Tensor, real: Tensor | None = None) -> tuple:
        inner = hidden(x, weight, bias)
        weights = normalise(score(inner, query), real)
        return combine(weights, x, inner), weights

    return pool


def _pooling_mean(
    x: Tensor, weight: Tensor, bias: Tensor, query: Tensor, real: Tensor | None = None
) -> tuple:
    return _pooling(score=lambda hidden, query: (hidden @ query) * 0)(x, weight, bias, query, real)


def _pooling_zeroed(
    x: Tensor, weight: Tensor, bias: Tensor, query: Tensor, real: Tensor | None = None
) -> tuple:
    x = x if real is None else x * real.unsqueeze(-1)
    return _pooling()(x, weight, bias, query)


def _softmax_over_sentences(scores: Tensor, real: Tensor | None) -> Tensor:
    return (scores if real is None else scores.masked_fill(~real, -INFINITY)).softmax(0)


def _hard(weights: Tensor, x: Tensor, hidden: Tensor) -> Tensor:
    best = weights.argmax(-1, keepdim=True).unsqueeze(-1)
    return torch.take_along_dim(x, best, -2).squeeze(-2)


def _pooled_of_features(x: Tensor, weight: Tensor, bias: Tensor, query: Tensor, real=None) -> tuple:
    scores = torch.tanh(x @ weight + bias) * query
    weights = scores.softmax(-1).sum(-1)
    weights = weights if real is None else weights * real
    return (weights.unsqueeze(-1) * x).sum(-2), weights


PLAIN_WEIGHTS = tuple(
    (name, version)
    for name, version in WRONG_WEIGHTS
    if name not in {"half-overflow", "exp-overflow", "axis-from-the-front", "no-exponential"}
)


def _unit(vectors: Tensor, axis: int = -1) -> Tensor:
    return F.normalize(vectors, dim=axis, eps=1e-4)


def _with_low_diagonal(scores: Tensor, low: float = LOW) -> Tensor:
    itself = torch.eye(scores.shape[-1], dtype=torch.bool)
    return scores.masked_fill(itself, low)


def _shared(
    queries: Callable = lambda x: x,
    keys: Callable = _unit,
    scale: Callable = lambda x: x.shape[-1] ** 0.5,
    diagonal: Callable = _with_low_diagonal,
) -> Callable:
    """Builds scores of shared queries and keys from their steps, one of which is wrong."""

    def scores(x: Tensor) -> Tensor:
        return diagonal(queries(x) @ keys(x).mT / scale(x))

    return scores


def _shared_in_place(x: Tensor) -> Tensor:
    scores = _shared()(x)
    x /= x.norm(dim=-1, keepdim=True).clamp(min=1e-4)
    return scores


# --- The tasks. ---

CAUSAL_MASK = Task(
    name="causal_mask",
    outputs={"mask": ("query", "key")},
    oracle=_oracle_causal,
    cases=_causal_cases,
    wrong=(
        ("causal-mask-inverted", lambda queries, past=0: ~_causal(queries, past)),
        ("causal-upside-down", lambda queries, past=0: ~_causal(queries, past, -1)),
        ("causal-without-itself", lambda queries, past=0: _causal(queries, past, -1)),
        ("causal-one-ahead", lambda queries, past=0: _causal(queries, past, 1)),
        (
            "past-out-of-sight",
            lambda queries, past=0: torch.ones(queries, past + queries, dtype=torch.bool).tril(),
        ),
        (
            "past-forbidden",
            lambda queries, past=0: torch.cat(
                [torch.zeros(queries, past, dtype=torch.bool), _causal(queries, 0)], 1
            ),
        ),
        ("past-left-out", lambda queries, past=0: _causal(queries, 0)),
        (
            "additive-mask",
            lambda queries, past=0: torch.zeros(queries, past + queries).masked_fill(
                ~_causal(queries, past), -INFINITY
            ),
        ),
        ("mask-of-numbers", lambda queries, past=0: _causal(queries, past).float()),
        ("mask-of-numbers", lambda queries, past=0: _causal(queries, past).long()),
        (
            "all-allowed",
            lambda queries, past=0: torch.ones(queries, past + queries, dtype=torch.bool),
        ),
    ),
)

SELF_ATTENTION = Task(
    name="self_attention",
    outputs={"context": ("query", "feature"), "weights": ("query", "key")},
    oracle=_oracle_self_attention,
    cases=_self_attention_cases,
    wrong=(
        ("no-projections", _self_attention(lambda q, k, v: (None, None, None))),
        ("values-not-projected", _self_attention(lambda q, k, v: (q, k, None))),
        ("keys-are-queries", _self_attention(lambda q, k, v: (q, q, v))),
        ("keys-are-queries", _self_attention(lambda q, k, v: (k, k, v))),
        ("qkv-weights-swapped", _self_attention(lambda q, k, v: (k, q, v))),
        ("qkv-weights-swapped", _self_attention(lambda q, k, v: (q, v, k))),
        ("projection-transposed", _self_attention(lambda q, k, v: (q.T, k.T, v.T))),
        ("no-scale", _self_attention(scale=lambda q, x: 1)),
        ("scale-by-d", _self_attention(scale=lambda q, x: q.shape[-1])),
        ("scale-by-model-width", _self_attention(scale=lambda q, x: x.shape[-1] ** 0.5)),
        ("scale-by-length", _self_attention(scale=lambda q, x: x.shape[-2] ** 0.5)),
        ("causal-ignored", _self_attention(masks=lambda x, causal, real: _joined_masks(x, False, real))),
        ("padding-ignored", _self_attention(masks=lambda x, causal, real: _joined_masks(x, causal, None))),
        ("masks-joined-by-or", _self_attention(masks=_masks_or)),
        ("masks-joined-by-or", _self_attention(masks=_masks_or_always)),
        ("causal-without-itself", _self_attention(masks=_masks(lambda mask: mask.tril(-1)))),
        ("causal-upside-down", _self_attention(masks=_masks(lambda mask: mask.T))),
        ("causal-one-ahead", _self_attention(masks=_masks(lambda m: torch.ones_like(m).tril(1)))),
        ("padding-on-queries", _self_attention(masks=_masks(real_axes=lambda r: r.unsqueeze(-1)))),
        (
            "padding-on-both",
            _self_attention(masks=_masks(real_axes=lambda r: r.unsqueeze(-1) & r.unsqueeze(-2))),
        ),
        ("first-sentence-mask", _self_attention(masks=_masks(real_axes=lambda r: r[:1].unsqueeze(-2)))),
        ("zero-score-masked", _self_attention(normalise=_softmax_zero_is_masked)),
        *(
            (name, _self_attention(normalise=version))
            for name, version in PLAIN_WEIGHTS
            if name != "mask-ignored"
        ),
        ("mask-ignored", _self_attention(masks=lambda x, causal, real: None)),
        ("returns-swapped", _self_attention(finish=lambda context, weights: (weights, context))),
    ),
    builds_on=frozenset({"masks", "qkv", "multihead"}),
)

ENCODER_BLOCK = Task(
    name="encoder_block",
    outputs={"output": ("position", "feature")},
    oracle=_oracle_block,
    cases=_block_cases,
    wrong=(
        ("post-norm", _block(_post_norm)),
        ("residual-after-norm", _block(_residual_after_norm)),
        ("residual-after-norm", _block(_norm_of_the_sum_kept)),
        ("residual-after-norm", _block(_first_norm_kept)),
        ("sublayer-outputs-normed", _block(_outputs_normed)),
        (
            "residual-from-the-start",
            _block(lambda x, attend, feed, n1, n2: x + feed(n2(x + attend(n1(x))))),
        ),
        ("residual-missing", _block(lambda x, attend, feed, n1, n2: feed(n2(attend(n1(x)))))),
        ("residual-missing", _block(lambda x, attend, feed, n1, n2: (y := attend(n1(x))) + feed(n2(y)))),
        ("residual-missing", _block(lambda x, attend, feed, n1, n2: feed(n2(x + attend(n1(x)))))),
        ("sublayers-in-parallel", _block(lambda x, attend, feed, n1, n2: x + attend(n1(x)) + feed(n2(x)))),
        ("feedforward-first", _block(lambda x, attend, feed, n1, n2: (y := x + feed(n1(x))) + attend(n2(y)))),
        ("feedforward-first", _block(lambda x, attend, feed, n1, n2: (y := x + feed(n2(x))) + attend(n1(y)))),
        ("norm-shared", _block(order=(0, 0))),
        ("norms-swapped", _block(order=(1, 0))),
        ("norm-left-out", _block(norm=_no_norm)),
        ("norm-left-out", _block(lambda x, attend, feed, n1, n2: (y := x + attend(n1(x))) + feed(y))),
        ("norm-left-out", _block(lambda x, attend, feed, n1, n2: (y := x + attend(x)) + feed(n2(y)))),
        ("norm-not-centred", _block(norm=_root_mean_square)),
        ("norm-not-scaled", _block(norm=_centred_only)),
        ("norm-unbiased", _block(norm=_norm(correction=1))),
        ("norm-unbiased", _block(norm=_norm(correction=1, inside=0.0, outside=EPSILON))),
        ("norm-unbiased", _block(norm=_norm(correction=1, inside=0.0, outside=1e-6))),
        ("norm-without-epsilon", _block(norm=_norm(inside=0.0))),
        ("epsilon-outside-root", _block(norm=_norm(inside=0.0, outside=EPSILON))),
        ("norm-over-positions", _block(norm=_norm(axis=(-2,)))),
        ("norm-over-all", _block(norm=_norm(axis=(-1, -2)))),
        ("norm-gain-ignored", _block(norm=_norm(use_gain=False))),
        ("norm-bias-ignored", _block(norm=_norm(use_bias=False))),
        ("gain-and-bias-ignored", _block(norm=_norm(use_gain=False, use_bias=False))),
    ),
)

PERMUTATION_TEST = Task(
    name="permutation_test",
    outputs={'"your test lets the layer pass"': TRUTH},
    oracle=_oracle_test,
    cases=_layer_cases,
    wrong=(
        ("test-never-fails", lambda layer, width: None),
        ("test-wants-the-same-output", _permutation_test(expect=lambda output, order: output)),
        ("moved-back", _permutation_test(expect=lambda output, order: _move(output, order.argsort(-1)))),
        ("test-too-strict", _permutation_test(tolerance=None)),
        ("test-too-lenient", _permutation_test(tolerance=0.1)),
        ("test-too-short", _permutation_test(length=4)),
        ("reversal-only", _permutation_test(each=False, order=lambda n: torch.arange(n).flip(0))),
        ("shift-only", _permutation_test(each=False, order=lambda n: torch.arange(n).roll(1))),
        ("one-swap-only", _permutation_test(each=False, order=_first_two)),
        ("one-order-for-all", _permutation_test(each=False)),
        ("sums-compared", _permutation_test(compare=lambda output: output.sum(1))),
        ("assertion-inverted", lambda layer, width: _inverted(layer, width)),
    ),
)


def _inverted(layer: Callable, width: int) -> None:
    assert not accepts(_permutation_test(), layer, width)


ATTENTION_POOLING = Task(
    name="attention_pooling",
    outputs={"pooled": ("feature",), "weights": ("position",)},
    oracle=_oracle_pooling,
    cases=_pooling_cases,
    wrong=(
        ("plain-mean", _pooling_mean),
        ("hard-choice", _pooling(combine=_hard)),
        ("pooled-hidden", _pooling(combine=lambda weights, x, h: (weights.unsqueeze(-1) * h).sum(-2))),
        ("pooling-without-tanh", _pooling(lambda x, weight, bias: x @ weight + bias)),
        ("pooling-bias-lost", _pooling(lambda x, weight, bias: torch.tanh(x @ weight))),
        ("projection-transposed", _pooling(lambda x, weight, bias: torch.tanh(x @ weight.T + bias))),
        ("pooling-not-projected", _pooling(score=lambda h, q: h @ q, hidden=lambda x, w, b: x + 0 * b)),
        ("scale-not-asked", _pooling(score=lambda hidden, query: hidden @ query / len(query) ** 0.5)),
        ("softmax-over-features", _pooled_of_features),
        (
            "softmax-over-sentences",
            _pooling(
                normalise=lambda s, real: (s if real is None else s.masked_fill(~real, -INFINITY)).softmax(0)
            ),
        ),
        (
            "pooled-divided",
            _pooling(combine=lambda weights, x, h: (weights.unsqueeze(-1) * x).mean(-2)),
        ),
        ("padding-zeroed", _pooling_zeroed),
        *(
            (name, _pooling(normalise=version))
            for name, version in PLAIN_WEIGHTS
            if name != "softmax-over-queries"
        ),
        ("returns-swapped", lambda *inputs: _pooling()(*inputs)[::-1]),
    ),
    builds_on=frozenset({"masks", "qkv", "multihead"}),
)

SHARED_SCORES = Task(
    name="shared_scores",
    outputs={"scores": ("query", "key")},
    oracle=_oracle_shared,
    cases=_shared_cases,
    wrong=(
        ("no-scale", _shared(scale=lambda x: 1)),
        ("scale-by-d", _shared(scale=lambda x: x.shape[-1])),
        ("scale-multiplied", _shared(scale=lambda x: x.shape[-1] ** -0.5)),
        ("keys-not-normalised", _shared(keys=lambda x: x)),
        ("queries-normalised-too", _shared(queries=_unit)),
        ("transposed", _shared(queries=_unit, keys=lambda x: x)),
        ("normalised-over-positions", _shared(keys=lambda x: _unit(x, -2))),
        ("zero-vector-nan", _shared(keys=lambda x: x / x.norm(dim=-1, keepdim=True))),
        ("self-never", _shared(diagonal=lambda scores: _with_low_diagonal(scores, -INFINITY))),
        ("self-score-zero", _shared(diagonal=lambda scores: _with_low_diagonal(scores, 0.0))),
        ("self-score-kept", _shared(diagonal=lambda scores: scores)),
        ("others-lowered", _shared(diagonal=lambda s: torch.where(torch.eye(s.shape[-1]) > 0, s, LOW))),
        ("changes-inputs", _shared_in_place),
    ),
)

check_causal_mask = checking(CAUSAL_MASK)
check_self_attention = checking(SELF_ATTENTION)
check_encoder_block = checking(ENCODER_BLOCK)
check_permutation_test = checking(PERMUTATION_TEST)
check_attention_pooling = checking(ATTENTION_POOLING)
check_shared_scores = checking(SHARED_SCORES)
