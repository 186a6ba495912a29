"""Checks of the set `multihead`: heads split and joined, attention with several heads, and what plugs in."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from attncourse.checks.judge import Task, checking
from attncourse.checks.materials import (
    BATCHES,
    masked,
    normal,
    random_mask,
    scaled_scores,
    sizes,
    softmax,
)
from attncourse.checks.observe import Case
from attncourse.checks.qkv import WRONG_SCORES, WRONG_WEIGHTS

# What a library call would do in one line. The fused product of one head is a fair building block.
WHOLE_LAYER = frozenset({"multi_head_attention_forward", "_native_multi_head_attention"})

# --- The right answers: one number, or one number of each batch, after the other. ---


def _oracle_split(inputs: Tensor, heads: int) -> Tensor:
    *batch, length, width = inputs.shape
    parts = inputs.new_zeros(*batch, heads, length, width // heads)
    for head in range(heads):
        for i in range(length):
            for d in range(width // heads):
                parts[..., head, i, d] = inputs[..., i, head * (width // heads) + d]
    return parts


def _oracle_merge(inputs: Tensor) -> Tensor:
    *batch, heads, length, d_head = inputs.shape
    joined = inputs.new_zeros(*batch, length, heads * d_head)
    for head in range(heads):
        for i in range(length):
            for d in range(d_head):
                joined[..., i, head * d_head + d] = inputs[..., head, i, d]
    return joined


def _oracle_rows(scores: list[list[Tensor]], allowed: Tensor) -> list[list[Tensor]]:
    """Gives the weights from scores[query][key] and allowed (..., queries, keys)."""
    weights = []
    for q, row in enumerate(scores):
        top = torch.stack(row).amax(0).detach()
        powers = [torch.exp(s - top) * allowed[..., q, k] for k, s in enumerate(row)]
        total = sum(powers)
        weights.append([p / torch.where(total == 0, 1.0, total) for p in powers])
    return weights


def _oracle_multihead(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    query_weight: Tensor,
    key_weight: Tensor,
    value_weight: Tensor,
    output_weight: Tensor,
    heads: int,
    mask: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    queries, keys = query.shape[-2], key.shape[-2]
    d_key, d_value = query_weight.shape[-1] // heads, value_weight.shape[-1] // heads
    allowed = torch.ones(queries, keys, dtype=torch.bool) if mask is None else mask
    context, maps = 0, []
    for head in range(heads):
        of_keys = slice(head * d_key, (head + 1) * d_key)
        of_values = slice(head * d_value, (head + 1) * d_value)
        q, k = query @ query_weight[:, of_keys], key @ key_weight[:, of_keys]
        v = value @ value_weight[:, of_values]
        scores = [
            [(q[..., i, :] * k[..., j, :]).sum(-1) / d_key**0.5 for j in range(keys)] for i in range(queries)
        ]
        weights = _oracle_rows(scores, allowed)
        rows = [sum(w[..., None] * v[..., j, :] for j, w in enumerate(row)) for row in weights]
        # The joined contexts times W^O is the sum over heads of each context times its rows of W^O.
        context = context + torch.stack(rows, -2) @ output_weight[of_values]
        maps.append(torch.stack([torch.stack(row, -1) for row in weights], -2))
    return context, torch.stack(maps, -3)


def _oracle_cross(
    states: Tensor,
    memory: Tensor,
    query_weight: Tensor,
    key_weight: Tensor,
    value_weight: Tensor,
    output_weight: Tensor,
    heads: int,
    real: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    shared = (query_weight, key_weight, value_weight, output_weight, heads)
    if real is None:
        return _oracle_multihead(states, memory, memory, *shared)
    results = []
    for sentence, source, tokens in zip(states, memory, real, strict=True):
        allowed = tokens.repeat(len(sentence), 1)
        results.append(_oracle_multihead(sentence, source, source, *shared, allowed))
    return tuple(torch.stack(part) for part in zip(*results, strict=True))


def _oracle_mask_heads(contexts: Tensor, kept: Tensor, output_weight: Tensor) -> Tensor:
    *batch, heads, queries, d_value = contexts.shape
    total = contexts.new_zeros(*batch, queries, output_weight.shape[-1])
    for head in range(heads):
        for d in range(d_value):
            if kept[head]:
                total = total + contexts[..., head, :, d, None] * output_weight[head * d_value + d]
    return total


def _oracle_from_torch(layer: nn.MultiheadAttention) -> tuple[Tensor, ...]:
    d_model = layer.embed_dim
    weights, biases = [], []
    for part, own in enumerate((layer.q_proj_weight, layer.k_proj_weight, layer.v_proj_weight)):
        rows = layer.in_proj_weight[part * d_model : (part + 1) * d_model] if own is None else own
        weight = torch.zeros(rows.shape[1], d_model, dtype=rows.dtype)
        for i in range(rows.shape[1]):
            for j in range(d_model):
                weight[i, j] = rows[j, i].detach()
        weights.append(weight)
        bias = torch.zeros(d_model, dtype=rows.dtype)
        if layer.in_proj_bias is not None:
            bias = bias + layer.in_proj_bias[part * d_model : (part + 1) * d_model].detach()
        biases.append(bias)
    output = layer.out_proj.weight.detach()
    weights.append(torch.stack([output[:, i] for i in range(d_model)]))
    no_bias = torch.zeros(d_model, dtype=output.dtype)
    biases.append(no_bias if layer.out_proj.bias is None else layer.out_proj.bias.detach())
    return *weights, *biases


def _oracle_talking(scores: Tensor, before: Tensor, after: Tensor, mask: Tensor | None = None) -> Tensor:
    heads, queries, keys = scores.shape[-3:]
    allowed = torch.ones(queries, keys, dtype=torch.bool) if mask is None else mask
    if allowed.ndim > 2:
        allowed = allowed[..., 0, :, :]
    maps = []
    for row in before:
        mixed = [
            [sum(row[h] * scores[..., h, q, k] for h in range(heads)) for k in range(keys)]
            for q in range(queries)
        ]
        weights = _oracle_rows(mixed, allowed)
        maps.append(torch.stack([torch.stack(line, -1) for line in weights], -2))
    return torch.stack([sum(row[h] * maps[h] for h in range(len(maps))) for row in after], -3)


# --- The cases. Batches of one axis come first, as most people write for them. ---

USUAL = (3,)
OTHER_BATCHES = {"no batch axis": (), "two batch axes": BATCHES["two batch axes"]}


def _two_or_four(generator: torch.Generator) -> int:
    return 2 + 2 * int(torch.randint(2, (), generator=generator))


def _split_cases(generator: torch.Generator, dtype: torch.dtype) -> Iterator[Case]:
    length, d_head = sizes(generator, 2)
    heads = _two_or_four(generator)

    def inputs(heads: int = heads, batch: tuple[int, ...] = USUAL) -> dict:
        return {"inputs": normal(generator, dtype, *batch, length, heads * d_head), "heads": heads}

    yield Case("shape", inputs(), shape_only=True)
    yield Case("one head", inputs(1))
    yield Case("several heads", inputs())
    for stage, batch in OTHER_BATCHES.items():
        yield Case(stage, inputs(heads + 1, batch))
    yield Case("gradient", inputs(), gradient=True)


def _merge_cases(generator: torch.Generator, dtype: torch.dtype) -> Iterator[Case]:
    length, d_head = sizes(generator, 2)
    heads = _two_or_four(generator)

    def inputs(heads: int = heads, batch: tuple[int, ...] = USUAL) -> dict:
        return {"inputs": normal(generator, dtype, *batch, heads, length, d_head)}

    yield Case("shape", inputs(), shape_only=True)
    yield Case("one head", inputs(1))
    yield Case("several heads", inputs())
    # As split_heads gives them: the memory of the tensor is in another order than its axes.
    *batch, heads_, length_, d_head_ = inputs()["inputs"].shape
    swapped = normal(generator, dtype, *batch, length_, heads_, d_head_).transpose(-2, -3)
    yield Case("heads from a transposed tensor", {"inputs": swapped})
    for stage, batch in OTHER_BATCHES.items():
        yield Case(stage, inputs(heads + 1, batch))
    yield Case("gradient", inputs(), gradient=True)


def _projections(
    generator: torch.Generator, dtype: torch.dtype, heads: int, widths: dict[str, int]
) -> dict[str, Tensor]:
    """Draws the four weights. They keep the size of what they project."""
    shapes = {
        "query_weight": (widths["query"], heads * widths["d_key"]),
        "key_weight": (widths["key"], heads * widths["d_key"]),
        "value_weight": (widths["value"], heads * widths["d_value"]),
        "output_weight": (heads * widths["d_value"], widths["output"]),
    }
    return {
        name: (normal(generator, torch.float64, *shape) / shape[0] ** 0.5).to(dtype)
        for name, shape in shapes.items()
    }


def _square(heads: int, d_head: int) -> dict[str, int]:
    """Gives the widths of the usual layer: all inputs as wide as all heads together."""
    model = dict.fromkeys(("query", "key", "value", "output"), heads * d_head)
    return model | {"d_key": d_head, "d_value": d_head}


def _multihead_cases(generator: torch.Generator, dtype: torch.dtype) -> Iterator[Case]:
    queries, keys, d_head, d_value = sizes(generator, 4)
    heads = _two_or_four(generator)
    different = {"query": 6, "key": 9, "value": 10, "output": 14, "d_key": d_head, "d_value": d_value}

    def inputs(
        batch: tuple[int, ...] = USUAL,
        heads: int = heads,
        queries: int = queries,
        widths: dict[str, int] | None = None,
    ) -> dict:
        widths = widths or _square(heads, 3)
        tokens = {
            name: normal(generator, dtype, *batch, length, widths[name])
            for name, length in (("query", queries), ("key", keys), ("value", keys))
        }
        return tokens | _projections(generator, dtype, heads, widths) | {"heads": heads}

    mask = random_mask(generator, queries, keys)
    empty = mask.clone()
    empty[torch.randint(queries, (2,), generator=generator)] = False
    yield Case("shape", inputs(), shape_only=True)
    yield Case("one head, one query", inputs(heads=1, queries=1))
    yield Case("one head", inputs(heads=1))
    yield Case("several heads", inputs())
    yield Case("mask", inputs() | {"mask": mask})
    yield Case("query without keys", inputs() | {"mask": empty})
    # As many sentences as heads: a mask that lies along the wrong one of these axes raises no error.
    each = torch.stack([random_mask(generator, queries, keys) for _ in range(heads)])
    yield Case("a mask for each sentence", inputs((heads,)) | {"mask": each})
    yield Case("as many sentences as wanted", inputs((heads + 1,)) | {"mask": torch.cat([each, each[:1]])})
    for stage, batch in OTHER_BATCHES.items():
        yield Case(stage, inputs(batch) | {"mask": empty})
    yield Case("all widths different", inputs(widths=different) | {"mask": mask})
    yield Case("gradient", inputs(widths=different) | {"mask": empty}, gradient=True)


def _cross_cases(generator: torch.Generator, dtype: torch.dtype) -> Iterator[Case]:
    target, source, d_head, d_value = sizes(generator, 4)
    heads = _two_or_four(generator)
    different = {"query": 6, "key": 9, "value": 9, "output": 14, "d_key": d_head, "d_value": d_value}

    def inputs(
        batch: int = heads, target: int = target, source: int = source, widths: dict[str, int] | None = None
    ) -> dict:
        widths = widths or _square(heads, 3)
        states = normal(generator, dtype, batch, target, widths["query"])
        memory = normal(generator, dtype, batch, source, widths["key"])
        shared = _projections(generator, dtype, heads, widths) | {"heads": heads}
        return {"states": states, "memory": memory} | shared

    def real(batch: int = heads, source: int = source, shortest: int = 1) -> dict:
        lengths = shortest + (torch.arange(batch) + torch.randint(9, (), generator=generator)) % (source - 1)
        lengths[0] = shortest
        return {"real_tokens": torch.arange(source) < lengths.unsqueeze(-1)}

    # As many target as source tokens, and as many sentences as heads: here mix-ups raise no error.
    yield Case("as many target as source tokens", inputs(source=target))
    yield Case("padding", inputs(source=target) | real(source=target))
    yield Case("other lengths", inputs())
    yield Case("other lengths with padding", inputs(heads + 1) | real(heads + 1))
    yield Case("one target token", inputs(heads + 1, target=1) | real(heads + 1))
    yield Case("a sentence of padding alone", inputs(heads + 1) | real(heads + 1, shortest=0))
    # Real tokens need not come first: padding on the left is used for generation.
    scattered = random_mask(generator, heads + 1, source)
    yield Case("padding anywhere", inputs(heads + 1) | {"real_tokens": scattered})
    yield Case("all widths different", inputs(heads + 1, widths=different) | real(heads + 1))
    yield Case("gradient", inputs(heads + 1, widths=different) | real(heads + 1, shortest=0), gradient=True)


def _mask_heads_cases(generator: torch.Generator, dtype: torch.dtype) -> Iterator[Case]:
    queries, d_value, d_model = sizes(generator, 3)
    heads = 3 + int(torch.randint(2, (), generator=generator))

    def inputs(*masked: int, batch: tuple[int, ...] = USUAL, d_model: int = heads * d_value) -> dict:
        kept = torch.ones(heads, dtype=torch.bool)
        kept[list(masked)] = False
        return {
            "contexts": normal(generator, dtype, *batch, heads, queries, d_value),
            "kept": kept,
            "output_weight": normal(generator, dtype, heads * d_value, d_model),
        }

    one = int(torch.randint(heads - 1, (), generator=generator))
    yield Case("no head masked", inputs())
    yield Case("one head masked", inputs(one))
    yield Case("two heads masked", inputs(0, one + 1))
    yield Case("one head left", inputs(*range(1, heads)))
    yield Case("all heads masked", inputs(*range(heads)))
    yield Case("another width", inputs(one, d_model=d_model))
    for stage, batch in OTHER_BATCHES.items():
        yield Case(stage, inputs(one, batch=batch, d_model=d_model))
    yield Case("gradient", inputs(one, d_model=d_model), gradient=True)


def _torch_cases(generator: torch.Generator, dtype: torch.dtype) -> Iterator[Case]:
    d_head, key_width, value_width = sizes(generator, 3)
    heads = _two_or_four(generator)

    def layer(**options: int) -> dict:
        made = nn.MultiheadAttention(heads * d_head, heads, batch_first=True, dtype=dtype, **options)
        for parameter in made.parameters():
            parameter.data = normal(generator, dtype, *parameter.shape)
        return {"layer": made.eval()}

    # Making a layer draws numbers from PyTorch's generator; it is left as it was.
    with torch.random.fork_rng(devices=[]):
        cases = (
            Case("a layer", layer()),
            Case("a layer without biases", layer(bias=False)),
            Case(
                "keys and values of other widths",
                layer(kdim=key_width, vdim=value_width),
                note="This layer was made with kdim and vdim. What is its in_proj_weight?",
            ),
            Case("other widths, without biases", layer(kdim=key_width, vdim=value_width, bias=False)),
        )
    yield from cases


def _talking_cases(generator: torch.Generator, dtype: torch.dtype) -> Iterator[Case]:
    queries, keys = sizes(generator, 2)
    heads = _two_or_four(generator)

    def inputs(
        heads: int = heads,
        inner: int | None = None,
        outer: int | None = None,
        batch: tuple[int, ...] = USUAL,
        queries: int = queries,
    ) -> dict:
        inner, outer = inner or heads, outer or heads
        return {
            "scores": normal(generator, dtype, *batch, heads, queries, keys),
            "before": normal(generator, dtype, inner, heads),
            "after": normal(generator, dtype, outer, inner),
        }

    mask = random_mask(generator, queries, keys)
    empty = mask.clone()
    empty[torch.randint(queries, (2,), generator=generator)] = False
    each = torch.stack([random_mask(generator, queries, keys) for _ in range(3)]).unsqueeze(1)
    yield Case("one head, one query", inputs(1, queries=1))
    yield Case("several heads", inputs())
    yield Case("mask", inputs() | {"mask": mask})
    yield Case("query without keys", inputs() | {"mask": empty})
    yield Case("other numbers of heads", inputs(heads, heads + 1, heads + 2) | {"mask": mask})
    yield Case("a mask for each sentence", inputs(heads, heads + 1) | {"mask": each})
    for stage, batch in OTHER_BATCHES.items():
        yield Case(stage, inputs(heads, heads + 1, batch=batch) | {"mask": empty})
    yield Case("gradient", inputs(heads, heads + 1, heads + 2) | {"mask": empty}, gradient=True)


# --- The known wrong versions, each named in the catalogue. ---


def _split(inputs: Tensor, heads: int) -> Tensor:
    return inputs.unflatten(-1, (heads, -1)).transpose(-2, -3)


def _split_by_view(inputs: Tensor, heads: int) -> Tensor:
    *batch, length, width = inputs.shape
    return inputs.reshape(*batch, heads, length, width // heads)


def _split_interleaved(inputs: Tensor, heads: int) -> Tensor:
    return inputs.unflatten(-1, (-1, heads)).movedim(-1, -3)


def _merge(inputs: Tensor) -> Tensor:
    return inputs.transpose(-2, -3).flatten(-2)


def _merge_by_view(inputs: Tensor) -> Tensor:
    *batch, heads, length, d_head = inputs.shape
    return inputs.reshape(*batch, length, heads * d_head)


def _merge_interleaved(inputs: Tensor) -> Tensor:
    return inputs.movedim(-3, -1).flatten(-2)


def _merge_from_the_front(inputs: Tensor) -> Tensor:
    swapped = inputs.transpose(1, 2)
    return swapped.reshape(*swapped.shape[:-2], -1)


def _with_head_axis(mask: Tensor | None) -> Tensor | None:
    return mask if mask is None or mask.ndim == 2 else mask.unsqueeze(-3)


def _multihead(
    split: Callable = _split,
    merge: Callable = _merge,
    score: Callable = scaled_scores,
    normalise: Callable = softmax,
    head_axis: Callable = _with_head_axis,
    order: Callable = lambda *weights: weights,
    finish: Callable = lambda context, weights: (context, weights),
) -> Callable:
    """Builds multi-head attention from its steps, some of which are wrong."""

    def attend(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        query_weight: Tensor,
        key_weight: Tensor,
        value_weight: Tensor,
        output_weight: Tensor,
        heads: int,
        mask: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        of_query, of_key, of_value, of_output = order(query_weight, key_weight, value_weight, output_weight)
        q, k, v = (
            split(x @ weight, heads) for x, weight in ((query, of_query), (key, of_key), (value, of_value))
        )
        weights = normalise(score(q, k), head_axis(mask))
        joined = merge(weights @ v)
        return finish(joined if of_output is None else joined @ of_output, weights)

    return attend


def _on_inputs(change: Callable, **parts: Callable) -> Callable:
    """Builds multi-head attention that reads other inputs than it should."""

    def attend(query: Tensor, key: Tensor, value: Tensor, *others: object) -> tuple[Tensor, Tensor]:
        return _multihead(**parts)(*change(query, key, value), *others)

    return attend


def _batch_first_of_heads(query: Tensor, key: Tensor, value: Tensor, *others: object) -> tuple:
    """Puts the heads before the batch, and takes them out of the batch."""
    *weights, output_weight, heads, mask = others if len(others) == 6 else (*others, None)
    q, k, v = (
        torch.cat((x @ w).chunk(heads, -1)) if x.ndim > 2 else _split(x @ w, heads)
        for x, w in zip((query, key, value), weights, strict=True)
    )
    mask = mask.repeat(heads, 1, 1) if mask is not None and mask.ndim == 3 else mask
    maps = softmax(scaled_scores(q, k), mask)
    context = (maps @ v).reshape(*query.shape[:-2], heads, *q.shape[-2:-1], v.shape[-1])
    maps = maps.reshape(*query.shape[:-2], heads, *maps.shape[-2:])
    return _merge(context) @ output_weight, maps


def _one_wide_head(query: Tensor, key: Tensor, value: Tensor, *others: object) -> tuple:
    query_weight, key_weight, value_weight, output_weight, _, mask = (
        others if len(others) == 6 else (*others, None)
    )
    weights = softmax(scaled_scores(query @ query_weight, key @ key_weight), mask)
    return weights @ (value @ value_weight) @ output_weight, weights


def _returning_scores(*inputs: object) -> tuple:
    """Returns the scores of all pairs, also of those that the mask forbids."""
    scores = _multihead(normalise=lambda scores, mask=None: scores)(*inputs)[1]
    return _multihead()(*inputs)[0], scores


def _scale_by_all_heads(query: Tensor, key: Tensor) -> Tensor:
    return query @ key.mT / (query.shape[-1] * query.shape[-3]) ** 0.5


WRONG_HEADS: tuple[tuple[str, dict[str, Callable]], ...] = (
    ("split-by-view", {"split": _split_by_view}),
    ("merge-by-view", {"merge": _merge_by_view}),
    ("split-and-merge-by-view", {"split": _split_by_view, "merge": _merge_by_view}),
    ("split-interleaved", {"split": _split_interleaved}),
    ("split-interleaved", {"split": _split_interleaved, "merge": _merge_interleaved}),
    ("merge-interleaved", {"merge": _merge_interleaved}),
    ("softmax-over-heads", {"normalise": lambda scores, mask=None: masked(scores, mask).softmax(-3)}),
    ("scale-by-all-heads", {"score": _scale_by_all_heads}),
    ("projection-transposed", {"order": lambda q, k, v, o: (q.T, k.T, v.T, o.T)}),
    ("output-projection-transposed", {"order": lambda q, k, v, o: (q, k, v, o.T)}),
    ("qkv-weights-swapped", {"order": lambda q, k, v, o: (k, q, v, o)}),
    ("qkv-weights-swapped", {"order": lambda q, k, v, o: (q, v, k, o)}),
    ("no-output-projection", {"order": lambda q, k, v, o: (q, k, v, None)}),
    ("weights-averaged", {"finish": lambda context, weights: (context, weights.mean(-3))}),
    ("mask-batch-as-heads", {"head_axis": lambda mask: mask}),
)
# Of the wrong softmaxes, those that show without half precision and very large scores.
PLAIN_WEIGHTS = tuple(
    (name, version)
    for name, version in WRONG_WEIGHTS
    if name not in {"half-overflow", "exp-overflow", "axis-from-the-front", "no-exponential"}
)


def _cross(reads: Callable = lambda s, m: (s, m, m), real_axes: Callable | None = None, **parts) -> Callable:
    """Builds cross-attention from its steps, some of which are wrong."""
    real_axes = real_axes or (lambda real: real.unsqueeze(-2))

    def attend(states: Tensor, memory: Tensor, *others: object) -> tuple[Tensor, Tensor]:
        *weights, heads, real = others if len(others) == 6 else (*others, None)
        mask = None if real is None else real_axes(real)
        return _multihead(**parts)(*reads(states, memory), *weights, heads, mask)

    return attend


def _cross_zeroed(states: Tensor, memory: Tensor, *others: object) -> tuple[Tensor, Tensor]:
    *others, real = others if len(others) == 6 else (*others, None)
    memory = memory if real is None else memory * real.unsqueeze(-1)
    return _cross()(states, memory, *others)


def _cross_causal(states: Tensor, memory: Tensor, *others: object) -> tuple[Tensor, Tensor]:
    *others, heads, real = others if len(others) == 6 else (*others, None)
    causal = torch.ones(states.shape[-2], memory.shape[-2], dtype=torch.bool).tril()
    mask = causal if real is None else causal & real.unsqueeze(-2)
    return _multihead()(states, memory, memory, *others, heads, mask)


def _heads_kept(change: Callable = lambda kept: kept, merge: Callable = _merge) -> Callable:
    """Builds the output of the heads that are kept, with a wrong mask or a wrong merge."""

    def mask_heads(contexts: Tensor, kept: Tensor, output_weight: Tensor) -> Tensor:
        return merge(contexts * change(kept)[:, None, None]) @ output_weight

    return mask_heads


def _rescaled(kept: Tensor) -> Tensor:
    return kept * (len(kept) / kept.sum())


def _head_mask_interleaved(contexts: Tensor, kept: Tensor, output_weight: Tensor) -> Tensor:
    return (_merge(contexts) * kept.repeat(contexts.shape[-1])) @ output_weight


def _kept_heads_moved(contexts: Tensor, kept: Tensor, output_weight: Tensor) -> Tensor:
    joined = _merge(contexts[..., kept, :, :])
    return joined @ output_weight[: joined.shape[-1]]


def _head_mask_on_output(contexts: Tensor, kept: Tensor, output_weight: Tensor) -> Tensor:
    output = _merge(contexts) @ output_weight
    return output * kept.repeat_interleave(output.shape[-1] // len(kept))


def _mask_heads_in_place(contexts: Tensor, kept: Tensor, output_weight: Tensor) -> Tensor:
    contexts[..., ~kept, :, :] = 0
    return _merge(contexts) @ output_weight


def _from_torch(
    packed: Callable = lambda weight, heads: weight.chunk(3),
    order: tuple[int, int, int] = (0, 1, 2),
    transposed: tuple[bool, bool] = (True, True),
    biases: tuple[bool, bool] = (True, True),
    only_packed: type[Exception] | None = None,
) -> Callable:
    """Builds the reading of a layer's weights from its steps, one of which is wrong."""

    def from_torch(layer: nn.MultiheadAttention) -> tuple[Tensor, ...]:
        weights = (layer.q_proj_weight, layer.k_proj_weight, layer.v_proj_weight)
        if layer.in_proj_weight is not None:
            weights = packed(layer.in_proj_weight, layer.num_heads)
            weights = tuple(weights[i] for i in order)
        elif only_packed:
            raise only_packed
        zeros = torch.zeros_like(layer.out_proj.weight[0])
        bias, output_bias = layer.in_proj_bias, layer.out_proj.bias
        input_biases = (zeros,) * 3
        if bias is not None and biases[0]:
            rows = packed(bias.unsqueeze(-1), layer.num_heads)
            # A cut along the columns has nothing to cut in a bias.
            rows = rows if len(rows) == 3 else bias.unsqueeze(-1).chunk(3)
            input_biases = tuple(rows[i].squeeze(-1) for i in order)
        output = layer.out_proj.weight
        return (
            *(weight.T if transposed[0] else weight for weight in weights),
            output.T if transposed[1] else output,
            *input_biases,
            zeros if output_bias is None or not biases[1] else output_bias,
        )

    return from_torch


def _packed_rows_interleaved(weight: Tensor, heads: int) -> tuple[Tensor, ...]:
    return weight.unflatten(0, (-1, 3)).unbind(1)


def _packed_head_by_head(weight: Tensor, heads: int) -> tuple[Tensor, ...]:
    return tuple(part.flatten(0, 1) for part in weight.unflatten(0, (heads, 3, -1)).unbind(1))


def _talking(
    before: Callable = lambda x: x,
    after: Callable = lambda x: x,
    normalise: Callable = softmax,
    finish: Callable = lambda weights: weights,
) -> Callable:
    """Builds a softmax between two mixings of the heads, with a wrong step."""

    def talk(scores: Tensor, first: Tensor, second: Tensor, mask: Tensor | None = None) -> Tensor:
        weights = normalise(_mix(before(first), scores), mask)
        return finish(_mix(after(second), weights))

    return talk


def _mix(mixing: Tensor | None, maps: Tensor) -> Tensor:
    return maps if mixing is None else torch.einsum("gh,...hqk->...gqk", mixing, maps)


def _talking_masked_first(
    scores: Tensor, first: Tensor, second: Tensor, mask: Tensor | None = None
) -> Tensor:
    return _mix(second, _mix(first, masked(scores, mask)).softmax(-1))


def _talking_twice_before(
    scores: Tensor, first: Tensor, second: Tensor, mask: Tensor | None = None
) -> Tensor:
    return softmax(_mix(second, _mix(first, scores)), mask)


# --- The tasks. ---

SPLIT_HEADS = Task(
    name="split_heads",
    outputs={"parts": ("head", "position", "feature")},
    oracle=_oracle_split,
    cases=_split_cases,
    wrong=(
        ("split-by-view", _split_by_view),
        ("split-interleaved", _split_interleaved),
        ("heads-after-length", lambda inputs, heads: inputs.unflatten(-1, (heads, -1))),
        ("heads-before-batch", lambda inputs, heads: torch.stack(inputs.chunk(heads, -1))),
        (
            "heads-and-batch-joined",
            lambda inputs, heads: _split(inputs, heads).reshape(
                -1, inputs.shape[-2], inputs.shape[-1] // heads
            ),
        ),
        ("head-size-for-number", lambda inputs, heads: torch.stack(inputs.split(heads, -1), -3)),
        ("head-transposed", lambda inputs, heads: _split(inputs, heads).mT),
        ("one-batch-axis-only", lambda inputs, heads: inputs.unflatten(-1, (heads, -1)).transpose(1, 2)),
    ),
)

MERGE_HEADS = Task(
    name="merge_heads",
    outputs={"joined": ("position", "feature")},
    oracle=_oracle_merge,
    cases=_merge_cases,
    wrong=(
        ("merge-by-view", _merge_by_view),
        ("merge-interleaved", _merge_interleaved),
        ("heads-added", lambda inputs: inputs.sum(-3)),
        ("heads-averaged", lambda inputs: inputs.mean(-3)),
        ("heads-joined-in-length", lambda inputs: inputs.flatten(-3, -2)),
        ("heads-not-joined", lambda inputs: inputs.transpose(-2, -3)),
        ("joined-transposed", lambda inputs: _merge(inputs).mT),
        ("one-batch-axis-only", _merge_from_the_front),
    ),
)

MULTIHEAD_ATTENTION = Task(
    name="multihead_attention",
    outputs={"context": ("query", "feature"), "weights": ("head", "query", "key")},
    oracle=_oracle_multihead,
    cases=_multihead_cases,
    wrong=(
        *((name, _multihead(**parts)) for name, parts in WRONG_HEADS),
        *((name, _multihead(score=version)) for name, version in WRONG_SCORES),
        *((name, _multihead(normalise=version)) for name, version in PLAIN_WEIGHTS),
        ("batch-and-heads-mixed", _batch_first_of_heads),
        ("one-wide-head", _one_wide_head),
        ("values-from-keys", _on_inputs(lambda query, key, value: (query, key, key))),
        ("returns-scores", _returning_scores),
        ("returns-swapped", _multihead(finish=lambda context, weights: (weights, context))),
    ),
    shortcuts=WHOLE_LAYER,
    builds_on=frozenset({"masks", "qkv"}),
)

CROSS_ATTENTION = Task(
    name="cross_attention",
    outputs={"context": ("query", "feature"), "weights": ("head", "query", "key")},
    oracle=_oracle_cross,
    cases=_cross_cases,
    wrong=(
        ("queries-from-memory", _cross(lambda states, memory: (memory, states, states))),
        ("keys-from-target", _cross(lambda states, memory: (states, states, memory))),
        ("values-from-target", _cross(lambda states, memory: (states, memory, states))),
        ("self-attention-for-cross", _cross(lambda states, memory: (states, states, states))),
        ("memory-to-memory", _cross(lambda states, memory: (memory, memory, memory))),
        ("padding-on-queries", _cross(real_axes=lambda real: real.unsqueeze(-1))),
        ("padding-zeroed", _cross_zeroed),
        ("first-sentence-mask", _cross(real_axes=lambda real: real[:1].unsqueeze(-2))),
        ("causal-cross-attention", _cross_causal),
        *((name, _cross(**parts)) for name, parts in WRONG_HEADS),
        *((name, _cross(score=version)) for name, version in WRONG_SCORES),
        *((name, _cross(normalise=version)) for name, version in PLAIN_WEIGHTS),
        ("returns-swapped", _cross(finish=lambda context, weights: (weights, context))),
    ),
    shortcuts=WHOLE_LAYER,
    builds_on=frozenset({"masks", "qkv"}),
)

MASK_HEADS = Task(
    name="mask_heads",
    outputs={"output": ("query", "feature")},
    oracle=_oracle_mask_heads,
    cases=_mask_heads_cases,
    wrong=(
        ("head-mask-ignored", _heads_kept(torch.ones_like)),
        ("head-mask-inverted", _heads_kept(torch.logical_not)),
        ("head-mask-rescaled", _heads_kept(_rescaled)),
        ("head-mask-interleaved", _head_mask_interleaved),
        ("head-mask-on-output", _head_mask_on_output),
        ("kept-heads-moved", _kept_heads_moved),
        ("merge-by-view", _heads_kept(merge=_merge_by_view)),
        ("merge-interleaved", _heads_kept(merge=_merge_interleaved)),
        ("output-projection-transposed", lambda c, kept, weight: _heads_kept()(c, kept, weight.T)),
        ("no-output-projection", lambda c, kept, weight: _merge(c * kept[:, None, None])),
        ("changes-inputs", _mask_heads_in_place),
    ),
)

WEIGHTS_FROM_TORCH = Task(
    name="weights_from_torch",
    outputs={
        "query_weight": ("input", "output"),
        "key_weight": ("input", "output"),
        "value_weight": ("input", "output"),
        "output_weight": ("input", "output"),
        "query_bias": ("output",),
        "key_bias": ("output",),
        "value_bias": ("output",),
        "output_bias": ("output",),
    },
    oracle=_oracle_from_torch,
    cases=_torch_cases,
    wrong=(
        ("torch-layout-kept", _from_torch(transposed=(False, False))),
        ("output-layout-kept", _from_torch(transposed=(True, False))),
        ("input-layout-kept", _from_torch(transposed=(False, True))),
        ("packed-order-mixed-up", _from_torch(order=(1, 0, 2))),
        ("packed-order-mixed-up", _from_torch(order=(0, 2, 1))),
        ("packed-order-mixed-up", _from_torch(order=(2, 1, 0))),
        ("packed-order-mixed-up", _from_torch(order=(1, 2, 0))),
        ("packed-order-mixed-up", _from_torch(order=(2, 0, 1))),
        ("packed-rows-interleaved", _from_torch(_packed_rows_interleaved)),
        ("packed-head-by-head", _from_torch(_packed_head_by_head)),
        ("packed-along-columns", _from_torch(lambda weight, heads: weight.chunk(3, -1))),
        ("biases-lost", _from_torch(biases=(False, False))),
        ("output-bias-lost", _from_torch(biases=(True, False))),
        ("packed-weight-taken-for-granted", _from_torch(only_packed=AttributeError)),
        ("packed-weight-taken-for-granted", _from_torch(only_packed=TypeError)),
    ),
)

TALKING_SOFTMAX = Task(
    name="talking_softmax",
    outputs={"weights": ("head", "query", "key")},
    oracle=_oracle_talking,
    cases=_talking_cases,
    wrong=(
        ("heads-silent-after", _talking(after=lambda mixing: None)),
        ("heads-silent-before", _talking(before=lambda mixing: None)),
        ("mixing-transposed", _talking(before=lambda mixing: mixing.T, after=lambda mixing: mixing.T)),
        ("mixed-twice-before", _talking_twice_before),
        ("mask-before-mixing", _talking_masked_first),
        (
            "mixture-renormalised",
            _talking(finish=lambda weights: weights / weights.sum(-1, keepdim=True)),
        ),
        ("mixture-softmaxed", _talking(finish=lambda weights: weights.softmax(-1))),
        ("softmax-over-heads", _talking(normalise=lambda s, mask=None: masked(s, mask).softmax(-3))),
        *((name, _talking(normalise=version)) for name, version in PLAIN_WEIGHTS),
    ),
    builds_on=frozenset({"masks", "qkv"}),
)

check_split_heads = checking(SPLIT_HEADS)
check_merge_heads = checking(MERGE_HEADS)
check_multihead_attention = checking(MULTIHEAD_ATTENTION)
check_cross_attention = checking(CROSS_ATTENTION)
check_mask_heads = checking(MASK_HEADS)
check_weights_from_torch = checking(WEIGHTS_FROM_TORCH)
check_talking_softmax = checking(TALKING_SOFTMAX)
