"""Multi-head attention against loops over batch and heads, and against PyTorch's layer on copied weights.

Every axis has a size of its own, so that no transpose goes unseen.
"""

import math

import pytest
import torch
from torch import nn
from torch.autograd import gradcheck
from torch.nn import functional as F

from attncourse.masks import causal_mask, padding_mask
from attncourse.multihead import Cache, MultiHeadAttention, merge_heads, multihead_attention, split_heads
from attncourse.qkv import attend, dot_scores, masked_sigmoid

BATCH, QUERIES, KEYS, HEADS, D_MODEL = 2, 5, 7, 3, 33
KEY_WIDTH, VALUE_WIDTH = 17, 19
SHARED_HEADS = 6  # query heads where key/value heads are shared


def normal(*shape, seed=0, dtype=torch.float64, requires_grad=False):
    numbers = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return numbers.to(dtype).requires_grad_(requires_grad)


def random_mask(*shape, seed=0):
    """Give a mask that leaves each query its first key."""
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < 0.5
    mask[..., 0] = True
    return mask


def inputs(*batch, **options):
    return (
        normal(*batch, QUERIES, 11, seed=1, **options),
        normal(*batch, KEYS, KEY_WIDTH, seed=2, **options),
        normal(*batch, KEYS, VALUE_WIDTH, seed=3, **options),
    )


def parameters(heads=HEADS, key_value_heads=None, *, bias=True, d_key=2, d_value=13, d_output=23, **options):
    """Give random parameters; keys and values differ in width within a head."""
    shared = key_value_heads or heads
    learned = {
        "query_weight": normal(heads * d_key, 11, seed=4, **options),
        "key_weight": normal(shared * d_key, KEY_WIDTH, seed=5, **options) / 4,
        "value_weight": normal(shared * d_value, VALUE_WIDTH, seed=6, **options),
        "output_weight": normal(d_output, heads * d_value, seed=7, **options),
    }
    if bias:
        learned |= {
            "query_bias": normal(heads * d_key, seed=8, **options),
            "key_bias": normal(shared * d_key, seed=9, **options),
            "value_bias": normal(shared * d_value, seed=10, **options),
            "output_bias": normal(d_output, seed=11, **options),
        }
    return learned


def rows_of(name, learned, head, heads, vector):
    """Project one vector by the rows of one head."""
    weight, bias = learned[f"{name}_weight"], learned.get(f"{name}_bias")
    width = len(weight) // heads
    rows = range(head * width, (head + 1) * width)
    return [float(weight[row].dot(vector)) + (0.0 if bias is None else float(bias[row])) for row in rows]


def by_loops(query, key, value, mask, learned, heads, key_value_heads):
    """Attend by loops over sequences, heads and queries. Shares nothing with the library."""
    d_output, joined = learned["output_weight"].shape
    d_value = joined // heads
    context = torch.zeros(*query.shape[:2], d_output, dtype=torch.float64)
    weights = torch.zeros(query.shape[0], heads, query.shape[1], key.shape[1], dtype=torch.float64)
    for b in range(query.shape[0]):
        for h in range(heads):
            g = h * key_value_heads // heads
            keys = [rows_of("key", learned, g, key_value_heads, k) for k in key[b]]
            values = [rows_of("value", learned, g, key_value_heads, v) for v in value[b]]
            for i, vector in enumerate(query[b]):
                q = rows_of("query", learned, h, heads, vector)
                powers = [
                    math.exp(math.fsum(x * y for x, y in zip(q, k, strict=True)) / math.sqrt(len(q)))
                    if mask is None or mask[b, i, j]
                    else 0.0
                    for j, k in enumerate(keys)
                ]
                total = math.fsum(powers)
                for j, power in enumerate(powers):
                    weights[b, h, i, j] = power / total
                    for c in range(d_value):
                        column = learned["output_weight"][:, h * d_value + c]
                        context[b, i] += power / total * values[j][c] * column
    return context + learned.get("output_bias", 0.0), weights


def test_split_heads_gives_each_head_its_part_of_the_width():
    parts = split_heads(normal(2, 5, 3 * 7), 3)
    assert parts.shape == (2, 3, 5, 7)
    for head in range(3):
        assert torch.equal(parts[:, head], normal(2, 5, 3 * 7)[..., head * 7 : (head + 1) * 7])


@pytest.mark.parametrize("shape", [(5, 21), (2, 5, 21), (2, 11, 5, 21), (0, 5, 21), (2, 0, 21), (1, 1, 3)])
@pytest.mark.parametrize("heads", [1, 3])
def test_merge_heads_undoes_split_heads(shape, heads):
    assert torch.equal(merge_heads(split_heads(normal(*shape), heads)), normal(*shape))


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("heads", "key_value_heads"), [(1, 1), (3, 3), (6, 2), (6, 1)])
def test_multihead_attention_equals_loops(heads, key_value_heads, bias, masked):
    learned = parameters(heads, key_value_heads, bias=bias)
    mask = random_mask(BATCH, QUERIES, KEYS) if masked else None
    found = multihead_attention(*inputs(BATCH), mask, **learned, heads=heads, key_value_heads=key_value_heads)
    torch.testing.assert_close(found, by_loops(*inputs(BATCH), mask, learned, heads, key_value_heads))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_lower_precision_keeps_its_dtype_and_comes_close(dtype, device):
    query, key, value = (x.to(device) for x in inputs(BATCH, dtype=dtype))
    learned = {name: (x / 8).to(device, dtype) for name, x in parameters().items()}
    context, weights = multihead_attention(query, key, value, **learned, heads=HEADS)
    assert context.dtype == weights.dtype == dtype
    assert context.device.type == weights.device.type == device.type
    exact = {name: x.cpu().double() for name, x in learned.items()}
    expected = by_loops(*(x.cpu().double() for x in (query, key, value)), None, exact, HEADS, HEADS)
    tolerance = 8 * torch.finfo(dtype).eps
    torch.testing.assert_close(context.cpu().double(), expected[0], atol=tolerance, rtol=tolerance)
    torch.testing.assert_close(weights.cpu().double(), expected[1], atol=tolerance, rtol=tolerance)


def test_one_head_equals_attend_between_projections():
    learned = parameters(heads=1)
    query, key, value = inputs(BATCH)
    context, weights = multihead_attention(query, key, value, **learned, heads=1)
    inner, expected = attend(
        query @ learned["query_weight"].T + learned["query_bias"],
        key @ learned["key_weight"].T + learned["key_bias"],
        value @ learned["value_weight"].T + learned["value_bias"],
    )
    torch.testing.assert_close(weights, expected.unsqueeze(-3))
    torch.testing.assert_close(context, inner @ learned["output_weight"].T + learned["output_bias"])


def test_heads_in_another_order_give_the_same_context_and_their_weights_in_that_order():
    order = torch.tensor([2, 0, 1])
    learned = parameters()
    moved = {
        name: x if name == "output_bias" else x.unflatten(0, (HEADS, -1))[order].flatten(0, 1)
        for name, x in learned.items()
        if name != "output_weight"
    }
    moved["output_weight"] = learned["output_weight"].unflatten(1, (HEADS, -1))[:, order].flatten(1)
    context, weights = multihead_attention(*inputs(BATCH), **learned, heads=HEADS)
    found, maps = multihead_attention(*inputs(BATCH), **moved, heads=HEADS)
    torch.testing.assert_close(found, context)
    torch.testing.assert_close(maps, weights[:, order])
    assert not torch.allclose(maps, weights)


def test_a_sequence_of_the_batch_is_read_as_if_it_were_alone():
    query, key, value = inputs(BATCH)
    mask = random_mask(BATCH, QUERIES, KEYS)
    learned = parameters()
    context, weights = multihead_attention(query, key, value, mask, **learned, heads=HEADS)
    for b in range(BATCH):
        alone = multihead_attention(query[b], key[b], value[b], mask[b], **learned, heads=HEADS)
        torch.testing.assert_close(alone, (context[b], weights[b]))


def test_a_head_does_not_read_the_parameters_of_another():
    learned = parameters()
    _, before = multihead_attention(*inputs(BATCH), **learned, heads=HEADS)
    learned["key_weight"] = learned["key_weight"].clone()
    learned["key_weight"][2:4] += 1.0  # rows of the second head
    _, after = multihead_attention(*inputs(BATCH), **learned, heads=HEADS)
    changed = (after != before).flatten(2).any(dim=-1)
    assert changed.tolist() == [[False, True, False]] * BATCH


def test_batch_axes_broadcast():
    query, key, value = normal(2, 1, QUERIES, 11), normal(3, KEYS, KEY_WIDTH), normal(KEYS, VALUE_WIDTH)
    mask = random_mask(3, QUERIES, KEYS)
    context, weights = multihead_attention(query, key, value, mask, **parameters(), heads=HEADS)
    assert weights.shape == (2, 3, HEADS, QUERIES, KEYS)
    for i in range(2):
        for j in range(3):
            alone = multihead_attention(query[i, 0], key[j], value, mask[j], **parameters(), heads=HEADS)
            torch.testing.assert_close(alone, (context[i, j], weights[i, j]))


@pytest.mark.parametrize(
    "shape", [(KEYS,), (QUERIES, KEYS), (1, KEYS), (BATCH, 1, KEYS), (BATCH, QUERIES, KEYS)]
)
def test_a_mask_broadcasts_over_heads(shape):
    mask = random_mask(*shape)
    _, weights = multihead_attention(*inputs(BATCH), mask, **parameters(), heads=HEADS)
    whole = mask.expand(BATCH, QUERIES, KEYS)
    for head in range(HEADS):
        assert torch.equal(weights[:, head] > 0, whole)


def test_a_query_that_may_attend_to_nothing_has_the_output_bias_as_context_and_finite_gradients():
    mask = random_mask(QUERIES, KEYS)
    mask[3] = False
    tensors = inputs(BATCH, requires_grad=True)
    learned = parameters()
    context, weights = multihead_attention(*tensors, mask, **learned, heads=HEADS)
    assert weights[..., 3, :].eq(0).all()
    assert torch.equal(context[:, 3], learned["output_bias"].expand(BATCH, -1))
    (context.square().sum() + weights.square().sum()).backward()
    assert all(x.grad.isfinite().all() for x in tensors)
    assert tensors[0].grad[:, 3].eq(0).all()


@pytest.mark.parametrize(
    ("batch", "queries", "keys"), [(2, 0, 7), (2, 5, 0), (0, 5, 7), (1, 1, 1), (2, 0, 0)]
)
def test_lengths_may_be_zero_or_one(batch, queries, keys):
    query, key, value = (
        normal(batch, queries, 11),
        normal(batch, keys, KEY_WIDTH),
        normal(batch, keys, VALUE_WIDTH),
    )
    learned = parameters()
    context, weights = multihead_attention(query, key, value, **learned, heads=HEADS)
    assert context.shape == (batch, queries, 23)
    assert weights.shape == (batch, HEADS, queries, keys)
    if keys == 0:
        assert torch.equal(context, learned["output_bias"].expand(batch, queries, -1))
    if keys == 1:
        assert weights.eq(1).all()


def test_score_and_normalise_are_the_stages_used_in_every_head():
    learned = parameters()
    query, key, value = inputs(BATCH)
    context, weights = multihead_attention(
        query, key, value, **learned, heads=HEADS, score=dot_scores, normalise=masked_sigmoid
    )
    q = F.linear(query, learned["query_weight"], learned["query_bias"])
    k = F.linear(key, learned["key_weight"], learned["key_bias"])
    for head in range(HEADS):
        part = slice(2 * head, 2 * head + 2)
        expected = torch.sigmoid(torch.einsum("bqd,bkd->bqk", q[..., part], k[..., part]))
        torch.testing.assert_close(weights[:, head], expected)
    assert context.shape == (BATCH, QUERIES, 23)


def test_shared_key_value_heads_equal_repeated_ones():
    learned = parameters(SHARED_HEADS, 2)
    found = multihead_attention(*inputs(BATCH), **learned, heads=SHARED_HEADS, key_value_heads=2)
    for name in ("key_weight", "key_bias", "value_weight", "value_bias"):
        learned[name] = learned[name].unflatten(0, (2, -1)).repeat_interleave(3, dim=0).flatten(0, 1)
    torch.testing.assert_close(found, multihead_attention(*inputs(BATCH), **learned, heads=SHARED_HEADS))


def test_shared_key_value_heads_equal_pytorch():
    torch.manual_seed(0)
    layer = MultiHeadAttention(30, SHARED_HEADS, key_value_heads=2).double()
    x = normal(BATCH, QUERIES, 30)
    q, k, v = (
        p(x).unflatten(-1, (-1, 5)).transpose(1, 2)
        for p in (layer.query_projection, layer.key_projection, layer.value_projection)
    )
    inner = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    expected = layer.output_projection(inner.transpose(1, 2).reshape(BATCH, QUERIES, 30))
    torch.testing.assert_close(layer(x, mask=causal_mask(QUERIES))[0], expected)
    assert layer.key_projection.weight.shape == layer.value_projection.weight.shape == (10, 30)


@pytest.mark.parametrize("key_value_heads", [3, 1])
def test_gradients_are_those_of_the_function(key_value_heads):
    learned = parameters(3, key_value_heads, d_value=1, d_output=2, requires_grad=True)
    names = list(learned)
    mask = random_mask(2, 3)
    mask[1] = False

    def function(query, key, value, *values):
        return multihead_attention(
            query,
            key,
            value,
            mask,
            **dict(zip(names, values, strict=True)),
            heads=3,
            key_value_heads=key_value_heads,
        )

    tensors = (normal(2, 11), normal(3, KEY_WIDTH, seed=1), normal(3, VALUE_WIDTH, seed=2))
    assert gradcheck(
        function,
        (*(x.requires_grad_() for x in tensors), *(x.detach().requires_grad_() for x in learned.values())),
        fast_mode=True,
    )


def error_of_one_head(weight):
    """Squared error of the best output projection when one head gives the first place this weight."""
    values, target = two_places()
    places = torch.eye(2, dtype=torch.float64).expand(4, 2, 2)
    query = torch.tensor([[math.log(weight / (1 - weight)) * math.sqrt(2), 0.0]], dtype=torch.float64)
    identity = torch.eye(2, dtype=torch.float64)
    weights_of_layer = dict.fromkeys(
        ("query_weight", "key_weight", "value_weight", "output_weight"), identity
    )
    context, weights = multihead_attention(query, places, values, **weights_of_layer, heads=1)
    torch.testing.assert_close(weights[0, 0, 0, 0].item(), weight)
    best = torch.linalg.lstsq(context[:, 0], target).solution
    return (context[:, 0] @ best - target).square().sum().item()


def two_places():
    """Give a basis of all sequences of two places, and what is asked: one number of each place."""
    values = torch.eye(4, dtype=torch.float64).reshape(4, 2, 2)
    return values, torch.stack([values[:, 0, 0], values[:, 1, 1]], dim=-1)


@pytest.mark.parametrize("weight", [0.001, 0.2, 0.5, 0.7, 0.999])
def test_one_head_cannot_read_different_things_at_two_places(weight):
    """The context is weight · x₁ + (1 - weight) · x₂, and no projection takes it apart.

    The squared length of the target over the basis is 2. The best matrix M for [weight · M, (1 - weight) · M]
    against [E₁₁, E₂₂] always leaves an error of 1.
    """
    assert error_of_one_head(weight) == pytest.approx(1.0)


def test_two_heads_can_read_different_things_at_two_places_with_no_more_width():
    values, target = two_places()
    identity = torch.eye(2, dtype=torch.float64)
    places = identity.expand(4, 2, 2)
    query = torch.full((1, 2), 1e3, dtype=torch.float64)
    weights_of_layer = dict.fromkeys(
        ("query_weight", "key_weight", "value_weight", "output_weight"), identity
    )
    context, weights = multihead_attention(query, places, values, **weights_of_layer, heads=2)
    assert torch.equal(weights[0, :, 0], identity)
    assert torch.equal(context[:, 0], target)


# The layer, against PyTorch's.


def run_torch(layer, query, key, value, mask):
    """Run PyTorch's layer on inputs with the batch first, with a mask in which True means "may attend"."""
    tensors = [query, key, value]
    if not layer.batch_first:
        tensors = [x.transpose(0, 1) for x in tensors]
    if mask is not None and mask.ndim == 3:
        mask = mask.repeat_interleave(layer.num_heads, dim=0)
    context, weights = layer(*tensors, attn_mask=None if mask is None else ~mask, average_attn_weights=False)
    return context if layer.batch_first else context.transpose(0, 1), weights


def torch_layer(*, bias=True, kdim=None, vdim=None, batch_first=True, **options):
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(
        D_MODEL,
        HEADS,
        bias=bias,
        kdim=kdim,
        vdim=vdim,
        batch_first=batch_first,
        dtype=torch.float64,
        **options,
    )
    if bias:  # PyTorch starts them at 0, which would hide a bias in the wrong place.
        nn.init.normal_(layer.in_proj_bias)
        nn.init.normal_(layer.out_proj.bias)
    return layer


def layer_inputs(kdim=None, vdim=None):
    return (
        normal(BATCH, QUERIES, D_MODEL, seed=1, requires_grad=True),
        normal(BATCH, KEYS, kdim or D_MODEL, seed=2, requires_grad=True),
        normal(BATCH, KEYS, vdim or D_MODEL, seed=3, requires_grad=True),
    )


MASKS = {
    "none": None,
    "causal": causal_mask(QUERIES, KEYS),
    "batch": random_mask(BATCH, QUERIES, KEYS),
    "padding": padding_mask(torch.tensor([3, 7]), KEYS).expand(BATCH, QUERIES, KEYS),
}


def gradients(result, tensors):
    context, weights = result
    loss = (context * normal(*context.shape, seed=20)).sum() + (
        weights * normal(*weights.shape, seed=21)
    ).sum()
    return torch.autograd.grad(loss, tensors)


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize(
    ("kdim", "vdim"), [(None, None), (KEY_WIDTH, None), (None, VALUE_WIDTH), (KEY_WIDTH, VALUE_WIDTH)]
)
@pytest.mark.parametrize("bias", [False, True])
def test_from_torch_and_to_torch_equal_pytorch_in_context_weights_and_gradients(
    bias, kdim, vdim, batch_first, mask
):
    theirs = torch_layer(bias=bias, kdim=kdim, vdim=vdim, batch_first=batch_first)
    ours = MultiHeadAttention.from_torch(theirs)
    back = ours.to_torch(batch_first=batch_first)
    tensors = layer_inputs(kdim, vdim)
    expected = run_torch(theirs, *tensors, mask)
    torch.testing.assert_close(ours(*tensors, mask), expected)
    torch.testing.assert_close(run_torch(back, *tensors, mask), expected, atol=0, rtol=0)
    assert back.batch_first == batch_first
    assert {name: x.shape for name, x in back.named_parameters()} == {
        name: x.shape for name, x in theirs.named_parameters()
    }

    learned = [ours.query_projection, ours.key_projection, ours.value_projection]
    found = gradients(
        ours(*tensors, mask), [*tensors, *(p.weight for p in learned), ours.output_projection.weight]
    )
    if kdim is None and vdim is None:
        packed = [theirs.in_proj_weight]
        found = [*found[:3], torch.cat(found[3:6]), found[6]]
    else:
        packed = [theirs.q_proj_weight, theirs.k_proj_weight, theirs.v_proj_weight]
    wanted = gradients(expected, [*tensors, *packed, theirs.out_proj.weight])
    torch.testing.assert_close(list(found), list(wanted))
    if bias:
        found = gradients(ours(*tensors, mask), [*(p.bias for p in learned), ours.output_projection.bias])
        expected = run_torch(theirs, *tensors, mask)
        wanted = gradients(expected, [theirs.in_proj_bias, theirs.out_proj.bias])
        torch.testing.assert_close([torch.cat(found[:3]), found[3]], list(wanted))


def test_from_torch_and_to_torch_copy_and_do_not_share():
    theirs = torch_layer()
    ours = MultiHeadAttention.from_torch(theirs)
    back = ours.to_torch()
    kept = theirs.in_proj_weight.clone()
    with torch.no_grad():
        ours.query_projection.weight.zero_()
    assert torch.equal(theirs.in_proj_weight, kept)
    assert torch.equal(back.in_proj_weight, kept)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_from_torch_and_to_torch_keep_dropout_mode_dtype_and_device(dtype, training, device):
    theirs = nn.MultiheadAttention(D_MODEL, HEADS, dropout=0.25, dtype=dtype, device=device).train(training)
    ours = MultiHeadAttention.from_torch(theirs)
    back = ours.to_torch()
    for layer in (ours, back):
        assert layer.dropout == 0.25
        assert layer.training == training
        assert all(x.dtype == dtype and x.device.type == device.type for x in layer.parameters())
        assert all(x.requires_grad for x in layer.parameters())


def test_from_torch_takes_a_layer_on_any_device():
    layer = MultiHeadAttention.from_torch(nn.MultiheadAttention(D_MODEL, HEADS, device="meta"))
    assert {x.device.type for x in layer.parameters()} == {"meta"}
    assert {x.device.type for x in layer.to_torch().parameters()} == {"meta"}


def test_left_out_keys_are_the_queries_and_left_out_values_the_keys():
    torch.manual_seed(0)
    layer = MultiHeadAttention(D_MODEL, HEADS).double()
    x, memory = normal(BATCH, QUERIES, D_MODEL), normal(BATCH, KEYS, D_MODEL, seed=1)
    torch.testing.assert_close(layer(x), layer(x, x, x), atol=0, rtol=0)
    torch.testing.assert_close(layer(x, memory), layer(x, memory, memory), atol=0, rtol=0)


def test_the_layer_passes_score_and_normalise_on():
    torch.manual_seed(0)
    layer = MultiHeadAttention(D_MODEL, HEADS).double()
    x = normal(BATCH, QUERIES, D_MODEL)
    _, weights = layer(x, score=dot_scores, normalise=masked_sigmoid)
    q, k = (p(x).unflatten(-1, (HEADS, -1)) for p in (layer.query_projection, layer.key_projection))
    torch.testing.assert_close(weights, torch.sigmoid(torch.einsum("bqhd,bkhd->bhqk", q, k)))


def test_the_layer_has_the_parameters_asked_for():
    shapes = {
        name: tuple(x.shape)
        for name, x in MultiHeadAttention(
            30, 6, key_width=7, value_width=11, bias=False, key_value_heads=2
        ).named_parameters()
    }
    assert shapes == {
        "query_projection.weight": (30, 30),
        "key_projection.weight": (10, 7),
        "value_projection.weight": (10, 11),
        "output_projection.weight": (30, 30),
    }


# Dropout.


def test_dropout_drops_from_the_context_and_not_from_the_weights_returned():
    identity = torch.eye(KEYS, dtype=torch.float64)
    weights_of_layer = dict.fromkeys(
        ("query_weight", "key_weight", "value_weight", "output_weight"), identity
    )
    query, key = normal(BATCH, QUERIES, KEYS), normal(BATCH, KEYS, KEYS, seed=1)
    torch.manual_seed(0)
    context, weights = multihead_attention(query, key, identity, **weights_of_layer, heads=1, dropout=0.25)
    _, expected = multihead_attention(query, key, identity, **weights_of_layer, heads=1)
    assert torch.equal(weights, expected)
    # The values are the identity, so the context is the weights that counted.
    factors = (context / weights.squeeze(1)).flatten()
    dropped = factors == 0
    torch.testing.assert_close(factors[~dropped], torch.full_like(factors[~dropped], 1 / 0.75))
    assert 0.1 < dropped.double().mean() < 0.4


def test_the_layer_drops_in_training_only():
    torch.manual_seed(0)
    layer = MultiHeadAttention(D_MODEL, HEADS, dropout=1.0).double()
    x = normal(BATCH, QUERIES, D_MODEL)
    context, weights = layer(x)
    assert torch.equal(context, layer.output_projection.bias.expand_as(context))
    undropped = MultiHeadAttention(D_MODEL, HEADS).double()
    undropped.load_state_dict(layer.state_dict())
    torch.testing.assert_close(weights, undropped(x)[1], atol=0, rtol=0)
    torch.testing.assert_close(layer.eval()(x), undropped(x), atol=0, rtol=0)


# The cache.


@pytest.mark.parametrize("chunks", [[1] * 11, [4, 1, 1, 5], [11], [3, 0, 8]], ids=str)
@pytest.mark.parametrize("key_value_heads", [6, 3, 1])
def test_steps_with_a_cache_equal_one_causal_run_without(chunks, key_value_heads):
    torch.manual_seed(0)
    layer = MultiHeadAttention(30, 6, key_value_heads=key_value_heads).double()
    x = normal(BATCH, 11, 30)
    context, weights = layer(x, mask=causal_mask(11))
    cache, start = Cache(), 0
    for chunk in chunks:
        assert cache.length == start
        part = x[:, start : start + chunk]
        found, maps = layer(part, mask=causal_mask(chunk, past=cache.length), cache=cache)
        torch.testing.assert_close(found, context[:, start : start + chunk])
        torch.testing.assert_close(maps, weights[:, :, start : start + chunk, : start + chunk])
        start += chunk
    assert cache.keys.shape == cache.values.shape == (BATCH, key_value_heads, 11, 5)


def test_one_token_a_step_needs_no_mask():
    torch.manual_seed(0)
    layer = MultiHeadAttention(D_MODEL, HEADS).double()
    x, cache = normal(BATCH, QUERIES, D_MODEL), Cache()
    steps = [layer(x[:, i : i + 1], cache=cache)[0] for i in range(QUERIES)]
    torch.testing.assert_close(torch.cat(steps, dim=1), layer(x, mask=causal_mask(QUERIES))[0])


def test_a_cache_starts_empty_and_gives_what_it_was_given_in_order():
    cache = Cache()
    assert (cache.length, cache.keys, cache.values) == (0, None, None)
    keys, values = normal(2, 3, 7, 5), normal(2, 3, 7, 11, seed=1)
    cache.append(keys[..., :2, :], values[..., :2, :])
    found = cache.append(keys[..., 2:, :], values[..., 2:, :])
    torch.testing.assert_close(found, (keys, values), atol=0, rtol=0)
    assert cache.length == 7


@pytest.mark.parametrize("key_value_heads", [3, 1])
def test_a_fixed_cache_projects_the_memory_once_and_does_not_grow(key_value_heads):
    torch.manual_seed(0)
    layer = MultiHeadAttention(
        D_MODEL, HEADS, key_width=KEY_WIDTH, value_width=KEY_WIDTH, key_value_heads=key_value_heads
    ).double()
    x, memory = normal(BATCH, QUERIES, D_MODEL), normal(BATCH, KEYS, KEY_WIDTH, seed=1)
    mask = padding_mask(torch.tensor([3, 7]), KEYS)
    context, weights = layer(x, memory, mask=mask)
    cache = Cache(fixed=True)
    assert not cache.complete
    first = layer(x[:, :1], memory, mask=mask, cache=cache)
    assert cache.complete
    with torch.no_grad():  # What is projected from now on is NaN.
        layer.key_projection.weight.fill_(torch.nan)
        layer.value_projection.weight.fill_(torch.nan)
    rest = layer(x[:, 1:], memory, mask=mask, cache=cache)
    torch.testing.assert_close(torch.cat([first[0], rest[0]], dim=1), context)
    torch.testing.assert_close(torch.cat([first[1], rest[1]], dim=2), weights)
    assert cache.length == KEYS


def test_a_growing_cache_is_never_complete():
    cache = Cache()
    cache.append(normal(2, 3, 7, 5), normal(2, 3, 7, 5))
    assert not cache.complete


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("rows", [[1, 0], [0, 0, 1], [1], [], [1, 1, 1, 0, 1]], ids=str)
def test_a_selected_cache_goes_on_as_if_its_rows_had_been_read_alone(rows, fixed):
    torch.manual_seed(0)
    layer = MultiHeadAttention(D_MODEL, HEADS).double()
    x, memory = normal(BATCH, QUERIES, D_MODEL), normal(BATCH, KEYS, D_MODEL, seed=1)
    rows = torch.tensor(rows, dtype=torch.int64)
    key = memory if fixed else None
    cache = Cache(fixed=fixed)
    layer(x[:, :4], key, cache=cache)
    kept = cache.keys.clone()
    selected = cache.select(rows)
    found = layer(x[rows, 4:], key[rows] if fixed else None, cache=selected)
    expected = layer(x[:, 4:], key, cache=cache)
    torch.testing.assert_close(found, (expected[0][rows], expected[1][rows]))
    assert selected.fixed == fixed
    assert torch.equal(cache.keys[..., : kept.shape[-2], :], kept)


def test_what_a_selected_cache_reads_does_not_reach_the_cache_it_comes_from():
    cache = Cache()
    cache.append(normal(2, 3, 5, 7), normal(2, 3, 5, 11))
    selected = cache.select(torch.tensor([0, 1]))
    selected.append(normal(2, 3, 1, 7), normal(2, 3, 1, 11))
    assert (selected.length, cache.length) == (6, 5)


def test_an_empty_cache_selects_an_empty_one():
    selected = Cache(fixed=True).select(torch.tensor([0, 0]))
    assert (selected.length, selected.fixed, selected.complete) == (0, True, False)


# What the pure function promises.


def test_the_function_does_not_change_its_inputs():
    tensors, learned, mask = inputs(BATCH), parameters(), random_mask(BATCH, QUERIES, KEYS)
    before = [x.clone() for x in (*tensors, *learned.values(), mask)]
    multihead_attention(*tensors, mask, **learned, heads=HEADS)
    for x, kept in zip((*tensors, *learned.values(), mask), before, strict=True):
        assert torch.equal(x, kept)


def test_vmap_over_sequences_equals_the_batch():
    mask, learned = random_mask(BATCH, QUERIES, KEYS), parameters()

    def one(query, key, value, mask):
        return multihead_attention(query, key, value, mask, **learned, heads=HEADS)

    expected = multihead_attention(*inputs(BATCH), mask, **learned, heads=HEADS)
    torch.testing.assert_close(torch.func.vmap(one)(*inputs(BATCH), mask), expected)


def run(mask=None, heads=HEADS, key_value_heads=None, dropout=0.0, **changed):
    learned = parameters() | changed
    return multihead_attention(
        *inputs(BATCH), mask, **learned, heads=heads, key_value_heads=key_value_heads, dropout=dropout
    )


def fill(keys, values, fixed=False):
    cache = Cache(fixed=fixed)
    cache.append(normal(2, 3, 5, 7), normal(2, 3, 5, 11))
    cache.append(keys, values)


def read_two_memories(first, second):
    layer, cache = MultiHeadAttention(12, 3), Cache(fixed=True)
    for keys in (first, second):
        layer(normal(5, 12, dtype=torch.float32), normal(keys, 12, dtype=torch.float32), cache=cache)


def select_from(keys, values):
    cache = Cache()
    cache.append(keys, values)
    cache.select(torch.tensor([0]))


ERRORS = {
    "split": (
        lambda: split_heads(normal(5, 7), 3),
        "heads must be at least 1 and divide the width, but heads is 3 and the width is 7",
    ),
    "no head": (
        lambda: split_heads(normal(5, 7), 0),
        "heads must be at least 1 and divide the width, but heads is 0 and the width is 7",
    ),
    "layer": (
        lambda: MultiHeadAttention(10, 3),
        "heads must be at least 1 and divide d_model, but heads is 3 and d_model is 10",
    ),
    "layer, shared": (
        lambda: MultiHeadAttention(12, 6, key_value_heads=4),
        "key_value_heads must be at least 1 and divide heads, but key_value_heads is 4 and heads is 6",
    ),
    "layer, dropout": (
        lambda: MultiHeadAttention(12, 6, dropout=1.5),
        "dropout must lie between 0 and 1, but is 1.5",
    ),
    "shared": (
        lambda: run(key_value_heads=2),
        "key_value_heads must be at least 1 and divide heads, but key_value_heads is 2 and heads is 3",
    ),
    "dropout": (lambda: run(dropout=-0.5), "dropout must lie between 0 and 1, but is -0.5"),
    "query_weight": (
        lambda: run(query_weight=normal(6, 10)),
        "query and query_weight do not fit: the width of one is 11, "
        "and the other has shape (6, 10), where (any, 11) is expected",
    ),
    "value_bias": (
        lambda: run(value_bias=normal(1)),
        "value_bias must have shape (39,) here, but has shape (1,)",
    ),
    "output_weight": (
        lambda: run(output_weight=normal(23, 13)),
        "output and output_weight do not fit: the width of one is 39, "
        "and the other has shape (23, 13), where (any, 39) is expected",
    ),
    "width in a head": (
        lambda: run(key_weight=normal(9, KEY_WIDTH), key_bias=None),
        "query and key need the same width, but have 2 and 3",
    ),
    "mask with heads": (
        lambda: run(torch.ones(BATCH, HEADS, QUERIES, KEYS, dtype=torch.bool)),
        "mask must broadcast to the scores' shape without heads (2, 5, 7), but has shape (2, 3, 5, 7)",
    ),
    "mask, transposed": (
        lambda: run(torch.ones(KEYS, QUERIES, dtype=torch.bool)),
        "mask must broadcast to the scores' shape without heads (2, 5, 7), but has shape (7, 5)",
    ),
    "mask, not boolean": (
        lambda: run(torch.zeros(QUERIES, KEYS)),
        "mask must be boolean, with True where a query may attend, but its dtype is torch.float32",
    ),
    "self-attention with keys of another width": (
        lambda: MultiHeadAttention(12, 3, key_width=7)(normal(5, 12, dtype=torch.float32)),
        "key and key_weight do not fit: the width of one is 12, "
        "and the other has shape (12, 7), where (any, 12) is expected",
    ),
    "bias_k": (
        lambda: MultiHeadAttention.from_torch(nn.MultiheadAttention(12, 3, add_bias_kv=True)),
        "the layer must have add_bias_kv=False and add_zero_attn=False, but has add_bias_kv=True and "
        "add_zero_attn=False",
    ),
    "add_zero_attn": (
        lambda: MultiHeadAttention.from_torch(nn.MultiheadAttention(12, 3, add_zero_attn=True)),
        "the layer must have add_bias_kv=False and add_zero_attn=False, but has add_bias_kv=False and "
        "add_zero_attn=True",
    ),
    "to_torch, shared": (
        lambda: MultiHeadAttention(12, 6, key_value_heads=2).to_torch(),
        "nn.MultiheadAttention needs as many key/value heads as heads, but there are 2 and 6",
    ),
    "cache, complete": (
        lambda: fill(normal(2, 3, 1, 7), normal(2, 3, 1, 11), fixed=True),
        "a fixed cache takes keys once, but already holds 5",
    ),
    "cache, another memory": (
        lambda: read_two_memories(7, 5),
        "the fixed cache holds 7 keys, but 5 are given",
    ),
    "cache, select without a batch": (
        lambda: select_from(normal(3, 5, 7), normal(3, 5, 11)),
        "select needs keys and values of shape (batch, heads, length, width), "
        "but they have (3, 5, 7) and (3, 5, 11)",
    ),
    "cache, lengths": (
        lambda: fill(normal(2, 3, 1, 7), normal(2, 3, 2, 11)),
        "keys and values need the same length, but have 1 and 2",
    ),
    "cache, batch": (
        lambda: fill(normal(1, 3, 1, 7), normal(1, 3, 1, 11)),
        "new keys must have the shape of those in the cache in all axes but the length, "
        "(2, 3, 'length', 7), but have shape (1, 3, 1, 7)",
    ),
    "cache, width": (
        lambda: fill(normal(2, 3, 1, 7), normal(2, 3, 1, 13)),
        "new values must have the shape of those in the cache in all axes but the length, "
        "(2, 3, 'length', 11), but have shape (2, 3, 1, 13)",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_a_wrong_call_is_told_what_was_expected_and_what_came(case, no_shape_checks):
    call, message = ERRORS[case]
    with pytest.raises(ValueError) as caught:
        call()
    assert str(caught.value) == message
