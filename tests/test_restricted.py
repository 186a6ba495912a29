"""Each restricted form against its mask, each mask against a loop, and both against PyTorch."""

import math
from functools import cache

import pytest
import torch
from torch.autograd import gradcheck
from torch.nn import functional as F

from attncourse import masks, restricted
from attncourse.masks import padding_mask

D_KEY, D_VALUE = 3, 5
# No position, one, few; more than a unit of 64 keys; one block of 256 queries, and more.
LENGTHS = [0, 1, 13, 67, 256, 331]
TOLERANCES = {torch.float64: 1e-12, torch.float32: 2e-6, torch.bfloat16: 3e-2, torch.float16: 4e-3}


def normal(*shape, seed=0, dtype=torch.float64, requires_grad=False):
    numbers = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return numbers.to(dtype).requires_grad_(requires_grad)


def inputs(length, batches=((2,), (2,), (2,)), *, keys=None, **options):
    keys = length if keys is None else keys
    query, key, value = batches
    return (
        normal(*query, length, D_KEY, seed=1, **options),
        normal(*key, keys, D_KEY, seed=2, **options),
        normal(*value, keys, D_VALUE, seed=3, **options),
    )


def by_loops(queries, keys, may_attend):
    rows = [[may_attend(i, j) for j in range(keys)] for i in range(queries)]
    return torch.tensor(rows, dtype=torch.bool).reshape(queries, keys)


@cache
def past_and_present(length):
    return by_loops(length, length, lambda i, j: j <= i)


def dense(query, key, value, mask):
    """Attend in float64 by exponentials alone: shares nothing with the library."""
    powers = torch.exp(torch.einsum("...qd,...kd->...qk", query, key) / math.sqrt(D_KEY)) * mask
    total = powers.sum(dim=-1, keepdim=True)
    return torch.einsum("...qk,...kd->...qd", powers / torch.where(total == 0, 1.0, total), value)


def gradients(context, tensors):
    cotangent = normal(*context.shape, seed=4, dtype=context.dtype)
    return torch.autograd.grad((context * cotangent).sum(), tensors)


# The five rules of who may attend to whom, written once more as plain Python.
RULES = {
    "window": lambda i, j, radius: abs(i - j) <= radius,
    "block": lambda i, j, size: i // size == j // size,
    "dilated": lambda i, j, radius, dilation: any(
        j == i + step * dilation for step in range(-radius, radius + 1)
    ),
    "global_window": lambda i, j, radius, tokens: i < tokens or j < tokens or abs(i - j) <= radius,
}
OPTIONS = {
    "window": [{"radius": radius} for radius in (0, 1, 5, 67, 1000)],
    "block": [{"size": size} for size in (1, 7, 64, 10**9)],
    "dilated": [{"radius": 2, "dilation": 1}, {"radius": 0, "dilation": 3}, {"radius": 5, "dilation": 7}],
    "global_window": [{"radius": 3, "tokens": 0}, {"radius": 5, "tokens": 2}, {"radius": 0, "tokens": 71}],
}
CASES = [(name, options) for name, choices in OPTIONS.items() for options in choices]
MASKS = [case for case in CASES if case[0] != "window"]  # window_mask has its tests in test_masks.py


def form(name):
    return getattr(restricted, f"{name}_attention")


@pytest.mark.parametrize(("queries", "keys"), [(0, 0), (1, 1), (11, 17), (19, 5), (0, 3), (3, 0)])
@pytest.mark.parametrize(("name", "options"), MASKS)
def test_masks_follow_their_rule(name, options, queries, keys):
    mask = getattr(masks, f"{name}_mask")(queries, keys, **options)
    assert torch.equal(mask, by_loops(queries, keys, lambda i, j: RULES[name](i, j, **options)))


@pytest.mark.parametrize(("name", "options"), MASKS)
def test_past_moves_the_queries(name, options):
    mask = getattr(masks, f"{name}_mask")
    whole = mask(19, **options)
    assert torch.equal(mask(6, past=13, **options), whole[13:])
    assert torch.equal(mask(6, 17, past=2, **options), whole[2:8, :17])


@pytest.mark.parametrize(("name", "options"), MASKS)
def test_masks_are_square_if_the_keys_are_left_out(name, options):
    mask = getattr(masks, f"{name}_mask")
    assert torch.equal(mask(7, **options), mask(7, 7, **options))


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize(("name", "options"), CASES)
def test_forms_equal_dense_attention_with_their_mask_forward_and_backward(name, options, length):
    tensors = inputs(length, requires_grad=True)
    mask = by_loops(length, length, lambda i, j: RULES[name](i, j, **options))
    for causal in (False, True):
        mask = mask & past_and_present(length) if causal else mask
        context, expected = form(name)(*tensors, causal=causal, **options), dense(*tensors, mask)
        torch.testing.assert_close(context, expected)
        for actual, wanted in zip(gradients(context, tensors), gradients(expected, tensors), strict=True):
            torch.testing.assert_close(actual, wanted)


FORMS = {
    "window": ({"radius": 3}, lambda i, j: abs(i - j) <= 3),
    "block": ({"size": 7}, lambda i, j: i // 7 == j // 7),
    "dilated": ({"radius": 2, "dilation": 5}, lambda i, j: abs(i - j) in (0, 5, 10)),
    "global_window": ({"radius": 3, "tokens": 2}, lambda i, j: min(i, j) < 2 or abs(i - j) <= 3),
    "streaming": ({"chunk": 11}, lambda i, j: True),
}
BATCHES = {
    "none": ((), (), ()),
    "two": ((2, 3), (2, 3), (2, 3)),
    "broadcast": ((2, 1), (3,), ()),
    "only the queries": ((3,), (), ()),
    "only the values": ((), (), (3,)),
    "empty": ((0,), (0,), (0,)),
}


@pytest.mark.parametrize("batches", BATCHES.values(), ids=BATCHES)
@pytest.mark.parametrize("name", FORMS)
def test_forms_broadcast_batch_axes(name, batches):
    options, rule = FORMS[name]
    tensors = inputs(73, batches)
    torch.testing.assert_close(form(name)(*tensors, **options), dense(*tensors, by_loops(73, 73, rule)))


@pytest.mark.parametrize("batches", BATCHES.values(), ids=BATCHES)
def test_causal_linear_attention_broadcasts_batch_axes(batches):
    tensors = inputs(73, batches)
    torch.testing.assert_close(restricted.causal_linear_attention(*tensors), quadratic(*tensors))


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("name", FORMS)
def test_forms_keep_dtype_and_device_and_agree_with_sdpa(name, dtype, device):
    options, rule = FORMS[name]
    if dtype == torch.float64 and device.type == "mps":  # the device has no such numbers
        return
    tensors = [tensor.to(device) for tensor in inputs(131, dtype=dtype)]
    context = form(name)(*tensors, **options)
    mask = by_loops(131, 131, rule)
    expected = F.scaled_dot_product_attention(*(tensor.double().cpu() for tensor in tensors), attn_mask=mask)
    assert context.dtype == dtype and context.device.type == device.type
    tolerance = TOLERANCES[dtype]
    torch.testing.assert_close(context.double().cpu(), expected, rtol=tolerance, atol=tolerance)


def quadratic(query, key, value):
    """Weigh by features in float64 with all pairs at hand: the masked quadratic form."""
    features = [torch.where(tensor > 0, tensor + 1, tensor.exp()) for tensor in (query, key)]
    weights = torch.einsum("...qd,...kd->...qk", *features)
    weights = weights * past_and_present(query.shape[-2])
    return torch.einsum("...qk,...kd->...qd", weights / weights.sum(dim=-1, keepdim=True), value)


@pytest.mark.parametrize("chunk", [1, 7, 64, 1000])
@pytest.mark.parametrize("length", LENGTHS)
def test_causal_linear_attention_equals_the_quadratic_form_forward_and_backward(length, chunk):
    tensors = inputs(length, requires_grad=True)
    context, expected = restricted.causal_linear_attention(*tensors, chunk=chunk), quadratic(*tensors)
    torch.testing.assert_close(context, expected)
    for actual, wanted in zip(gradients(context, tensors), gradients(expected, tensors), strict=True):
        torch.testing.assert_close(actual, wanted)


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_causal_linear_attention_keeps_the_dtype(dtype):
    tensors = inputs(131, dtype=dtype)
    context = restricted.causal_linear_attention(*tensors)
    expected = quadratic(*(tensor.double() for tensor in tensors))
    assert context.dtype == dtype
    # Features are computed in half precision, and their error is that of the inputs.
    tolerance = 2 * TOLERANCES[dtype]
    torch.testing.assert_close(context.double(), expected, rtol=tolerance, atol=tolerance)


def test_causal_linear_attention_over_many_keys_stays_in_the_range_of_float16():
    query, key = torch.full((1, 4099, 7), 20.0, dtype=torch.float16), torch.full((1, 4099, 7), 20.0)
    value = torch.full((1, 4099, 5), 3.0, dtype=torch.float16)
    context = restricted.causal_linear_attention(query, key.half(), value)
    torch.testing.assert_close(context, value)


def test_causal_linear_attention_is_0_where_all_features_are_0():
    tensors = [torch.ones(67, 3, requires_grad=True) for _ in range(3)]
    context = restricted.causal_linear_attention(*tensors, feature_map=torch.zeros_like)
    assert torch.equal(context, torch.zeros(67, 3))
    context.sum().backward()
    assert tensors[2].grad.isfinite().all()


@pytest.mark.parametrize("masked", ["no", "causal", "random", "padding", "both"])
@pytest.mark.parametrize(("queries", "keys"), [(0, 0), (7, 0), (0, 7), (1, 1), (13, 29), (31, 17)])
@pytest.mark.parametrize("chunk", [5, 1000])
def test_streaming_equals_dense_attention_forward_and_backward(queries, keys, chunk, masked):
    tensors = inputs(queries, keys=keys, requires_grad=True)
    mask, causal, expected_mask = None, masked in ("causal", "both"), torch.ones(queries, keys)
    if masked in ("random", "both"):
        mask = torch.rand(2, queries, keys, generator=torch.Generator().manual_seed(5)) < 0.3
    if masked == "padding":
        mask = padding_mask(torch.tensor([keys, keys // 2]), keys)
    if mask is not None:
        expected_mask = expected_mask * mask
    if causal:
        expected_mask = expected_mask * by_loops(queries, keys, lambda i, j: j <= i)
    context = restricted.streaming_attention(*tensors, mask, causal=causal, chunk=chunk)
    expected = dense(*tensors, expected_mask)
    torch.testing.assert_close(context, expected)
    for actual, wanted in zip(gradients(context, tensors), gradients(expected, tensors), strict=True):
        torch.testing.assert_close(actual, wanted)


def test_streaming_gives_0_and_finite_gradients_to_queries_that_see_no_key_or_see_the_first_late():
    tensors = inputs(3, keys=11, requires_grad=True)
    mask = torch.zeros(3, 11, dtype=torch.bool)
    mask[1, 7:9] = mask[2, 0] = True
    context = restricted.streaming_attention(*tensors, mask, chunk=2)
    assert torch.equal(context[:, 0], torch.zeros(2, D_VALUE, dtype=torch.float64))
    torch.testing.assert_close(context[:, 2], tensors[2][:, 0])
    assert all(gradient.isfinite().all() for gradient in gradients(context, tensors))


def test_streaming_survives_scores_far_beyond_the_range_of_exp():
    query, key = torch.tensor([[1000.0]]), torch.tensor([[-1000.0], [3.0], [1000.0], [2.0]])
    value = torch.tensor([[5.0], [7.0], [11.0], [13.0]])
    assert restricted.streaming_attention(query, key, value, chunk=1).tolist() == [[11.0]]


def test_streaming_counts_more_keys_than_bfloat16_can():
    # Sums in bfloat16 would stop growing at 256: the first half of the keys would not be counted.
    query, key = torch.zeros(1, 3, dtype=torch.bfloat16), torch.zeros(1024, 3, dtype=torch.bfloat16)
    value = torch.cat([torch.zeros(512, 1), torch.ones(512, 1)]).bfloat16()
    assert restricted.streaming_attention(query, key, value, chunk=1).item() == 0.5


def test_streaming_takes_a_mask_with_one_column_for_all_keys():
    tensors = inputs(5, keys=7)
    mask = torch.tensor([True, False, True, True, False])[:, None]
    context = restricted.streaming_attention(*tensors, mask, chunk=3)
    torch.testing.assert_close(context, dense(*tensors, mask.expand(5, 7)))


@pytest.mark.parametrize("batches", [((3,), (), ()), ((), (3,), ()), ((2, 1), (3,), ()), ((2, 3),) * 3])
def test_streaming_takes_a_mask_with_the_batch_axes_of_the_scores(batches):
    tensors = inputs(5, batches, keys=7)
    shape = (*torch.broadcast_shapes(*batches), 5, 7)
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(5)) < 0.5
    torch.testing.assert_close(restricted.streaming_attention(*tensors, mask, chunk=3), dense(*tensors, mask))


SEQUENCE_FORMS = {
    **{name: options for name, (options, _) in FORMS.items() if name != "streaming"},
    "causal_linear": {},
}


@pytest.mark.parametrize("name", ["window", "causal_linear"])
def test_gradients_against_finite_differences(name):
    tensors = inputs(7, ((), (), ()), requires_grad=True)
    assert gradcheck(lambda *each: form(name)(*each, **SEQUENCE_FORMS[name]), tensors)


@pytest.mark.parametrize("name", [*SEQUENCE_FORMS, "streaming"])
def test_causal_forms_do_not_read_the_future_and_do_read_what_they_may(name):
    options = SEQUENCE_FORMS.get(name, {"chunk": 11})
    options = options if name == "causal_linear" else {**options, "causal": True}
    query, key, value = inputs(301, ((), (), ()), requires_grad=True)
    last = 271
    rule = (lambda i, j: True) if name == "causal_linear" else FORMS[name][1]
    reads = torch.autograd.grad(form(name)(query, key, value, **options)[last].sum(), value)[0]
    assert (reads != 0).any(dim=-1).tolist() == [j <= last and rule(last, j) for j in range(301)]


def test_window_attention_keeps_no_matrix_of_all_pairs():
    length, largest = 8192, 0

    def measure(tensor):
        nonlocal largest
        largest = max(largest, tensor.numel())
        return tensor

    tensors = [torch.zeros(length, 2, requires_grad=True) for _ in range(3)]
    with torch.autograd.graph.saved_tensors_hooks(measure, lambda tensor: tensor):
        restricted.window_attention(*tensors, radius=3).sum().backward()
    assert 0 < largest < length * 32


@pytest.mark.parametrize("name", SEQUENCE_FORMS)
def test_sequence_forms_refuse_inputs_that_do_not_fit(name, no_shape_checks):
    options = SEQUENCE_FORMS[name]
    query, key, value = inputs(7)
    with pytest.raises(ValueError, match=r"^query, key and value need the same length, but have 7, 5 and 7$"):
        form(name)(query, key[:, :5], value, **options)
    with pytest.raises(ValueError, match=r"^query, key and value need the same length, but have 7, 7 and 2$"):
        form(name)(query, key, value[:, :2], **options)
    with pytest.raises(ValueError, match=r"^query and key need the same width, but have 3 and 2$"):
        form(name)(query, key[..., :2], value, **options)
    with pytest.raises(ValueError, match=r"^the width d_key of query and key must be at least 1, but is 0$"):
        form(name)(query[..., :0], key[..., :0], value, **options)


def test_streaming_refuses_inputs_that_do_not_fit(no_shape_checks):
    query, key, value = inputs(5, keys=7)
    with pytest.raises(ValueError, match=r"^key and value need the same number of keys, but have 7 and 2$"):
        restricted.streaming_attention(query, key, value[:, :2])
    with pytest.raises(ValueError, match=r"^query and key need the same width, but have 3 and 2$"):
        restricted.streaming_attention(query, key[..., :2], value)
    with pytest.raises(ValueError, match=r"^the width d_key of query and key must be at least 1, but is 0$"):
        restricted.streaming_attention(query[..., :0], key[..., :0], value)
    with pytest.raises(ValueError, match=r"^mask must broadcast to the scores' shape \(2, 5, 7\), but has"):
        restricted.streaming_attention(query, key, value, torch.ones(5, 3, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"^mask must be boolean, .* but its dtype is torch\.float32$"):
        restricted.streaming_attention(query, key, value, torch.ones(5, 7))


@pytest.mark.parametrize(
    ("name", "wrong", "message"),
    [
        ("window", {"radius": -1}, "radius must be at least 0, but is -1"),
        ("block", {"size": 0}, "size must be at least 1, but is 0"),
        ("dilated", {"radius": -2, "dilation": 1}, "radius must be at least 0, but is -2"),
        ("dilated", {"radius": 1, "dilation": 0}, "dilation must be at least 1, but is 0"),
        ("global_window", {"radius": -1, "tokens": 1}, "radius must be at least 0, but is -1"),
        ("global_window", {"radius": 1, "tokens": -1}, "tokens must be at least 0, but is -1"),
        ("streaming", {"chunk": 0}, "chunk must be at least 1, but is 0"),
        ("causal_linear", {"chunk": 0}, "chunk must be at least 1, but is 0"),
    ],
)
def test_forms_and_masks_refuse_sizes_that_are_too_small(name, wrong, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        form(name)(*inputs(5), **wrong)
    if name in OPTIONS and name != "window":
        with pytest.raises(ValueError, match=f"^{message}$"):
            getattr(masks, f"{name}_mask")(5, **wrong)


@pytest.mark.parametrize("name", ["block", "dilated", "global_window"])
def test_masks_refuse_negative_numbers_of_tokens(name):
    options = OPTIONS[name][0]
    for sizes in ((-1, 3), (2, -3)):
        message = f"^queries, keys and past must be at least 0, but are {sizes[0]}, {sizes[1]} and 0$"
        with pytest.raises(ValueError, match=message):
            getattr(masks, f"{name}_mask")(*sizes, **options)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("width", [1, 2, 3, 7])
@pytest.mark.parametrize("length", [1, 2, 11])
def test_convolution_by_heads_equals_conv1d_forward_and_backward(length, width, with_bias, dtype):
    tensors = [
        normal(2, length, D_KEY, seed=1, dtype=dtype, requires_grad=True),
        normal(D_VALUE, D_KEY, width, seed=2, dtype=dtype, requires_grad=True),
    ]
    if with_bias:
        tensors.append(normal(D_VALUE, seed=3, dtype=dtype, requires_grad=True))
    signal, *kernel = tensors
    context, weights = restricted.convolution_as_attention(signal, *kernel)
    left = (width - 1) // 2
    padded = F.pad(signal.mT, (left, width - 1 - left))
    expected = F.conv1d(padded, *kernel).mT
    torch.testing.assert_close(context, expected)
    for actual, wanted in zip(gradients(context, tensors), gradients(expected, tensors), strict=True):
        torch.testing.assert_close(actual, wanted)
    for head in range(width):
        seen = by_loops(length, length, lambda i, j, head=head: j == i + head - left)
        assert torch.equal(weights[head], seen.to(dtype))


def test_convolution_by_heads_takes_no_position_and_any_batch_axes():
    kernel = normal(D_VALUE, D_KEY, 4)
    context, weights = restricted.convolution_as_attention(normal(0, D_KEY), kernel)
    assert context.shape == (0, D_VALUE) and weights.shape == (4, 0, 0)
    signal = normal(2, 7, 11, D_KEY)
    expected = F.conv1d(F.pad(signal.flatten(0, 1).mT, (1, 2)), kernel).mT.unflatten(0, (2, 7))
    torch.testing.assert_close(restricted.convolution_as_attention(signal, kernel)[0], expected)


def test_convolution_by_heads_refuses_a_kernel_that_does_not_fit(no_shape_checks):
    signal = normal(2, 7, D_KEY)
    with pytest.raises(ValueError, match=r"^weight and inputs need the same d_in, but have 2 and 3$"):
        restricted.convolution_as_attention(signal, normal(D_VALUE, 2, 4))
    with pytest.raises(ValueError, match=r"^the width of the kernel must be at least 1, but is 0$"):
        restricted.convolution_as_attention(signal, normal(D_VALUE, D_KEY, 0))
    with pytest.raises(ValueError, match=r"^bias must have shape \(5,\) here, but has shape \(7,\)$"):
        restricted.convolution_as_attention(signal, normal(D_VALUE, D_KEY, 4), normal(7))
