"""The checks of the set `restricted`: their oracles are right, and mistakes that nobody listed fail."""

import math

import pytest
import torch
from torch.nn import functional as F

import attncourse.restricted as library
from attncourse import masks
from attncourse.checks.judge import CheckFailed, judge
from attncourse.checks.restricted import (
    ASSERT_WINDOW,
    BAND_MASK,
    CONVOLUTION_AS_ATTENTION,
    LAYER_COSTS,
    STREAMING_ATTENTION,
    STRIDED_MASK,
    WINDOW_ATTENTION,
    check_assert_window,
    check_convolution_as_attention,
    check_streaming_attention,
    check_window_attention,
)
from tests.answers.restricted import answers

DTYPES = (torch.float32, torch.float64)


def band(queries, width, causal=True, past=0):
    mask = masks.window_mask(queries, radius=width - 1, past=past)
    return mask & masks.causal_mask(queries, past=past) if causal else mask


def window(query, key, value, width):
    return library.window_attention(query, key, value, radius=width - 1, causal=True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("task", "function"),
    [(BAND_MASK, band), (CONVOLUTION_AS_ATTENTION, library.convolution_as_attention)],
)
def test_the_library_passes_the_checks(task, function, dtype, capsys):
    judge(task, function, seed=0, dtype=dtype, refuse_shortcuts=False)
    assert f"✓ {task.name}: passed" in capsys.readouterr().out


def test_the_oracles_agree_with_the_library_and_with_pytorch():
    generator = torch.Generator().manual_seed(0)
    query, key, value = torch.randn(3, 2, 9, 4, generator=generator, dtype=torch.float64)
    torch.testing.assert_close(WINDOW_ATTENTION.oracle(query, key, value, 3), window(query, key, value, 3))
    scores = query @ key.mT / 2
    scores[..., :2, :] = -math.inf
    chunks = zip(scores.split(4, dim=-1), value.split(4, dim=-2), strict=True)
    torch.testing.assert_close(STREAMING_ATTENTION.oracle(chunks), scores.softmax(-1).nan_to_num() @ value)
    kernel = torch.randn(5, 4, 3, generator=generator, dtype=torch.float64)
    context, weights = CONVOLUTION_AS_ATTENTION.oracle(value, kernel)
    torch.testing.assert_close(context, F.conv1d(value.mT, kernel, padding=1).mT)
    assert weights.sum(dim=-1).eq(1).all(dim=-1).tolist() == [False, True, False]


@pytest.mark.parametrize("layer", ["self-attention", "restricted", "recurrent", "convolutional"])
def test_the_costs_agree_with_what_is_multiplied(layer):
    n, d, w = 7, 5, 3
    seen = n if layer == "self-attention" else w
    # Each pair of an input and an output of a matrix, of a score, or of a weighted sum is one multiplication.
    expected = {"recurrent": 2 * n * d * d, "convolutional": n * w * d * d}.get(
        layer, 3 * n * d * d + n * seen * d + n * seen * d
    )
    assert LAYER_COSTS.oracle(layer, n, d, w)[0] == expected
    if layer in ("restricted", "convolutional"):
        mask = band(n, w).double()
        path = next(p for p in range(1, n) if torch.linalg.matrix_power(mask, p)[-1, 0] > 0)
        assert LAYER_COSTS.oracle(layer, n, d, w)[1:] == (1, path)


def test_through_two_strided_layers_every_token_reaches_every_later_one():
    mask = STRIDED_MASK.oracle(30, 5).double()
    assert torch.equal(mask @ mask > 0, torch.ones(30, 30).tril().bool())


@pytest.mark.parametrize(
    ("check", "function"),
    [
        (check_window_attention, window),
        (check_convolution_as_attention, library.convolution_as_attention),
        (check_streaming_attention, STREAMING_ATTENTION.oracle),
        (check_assert_window, ASSERT_WINDOW.oracle),
    ],
)
def test_the_function_of_the_library_is_refused(check, function):
    with pytest.raises(CheckFailed, match="belongs to the course's library"):
        check(function)


def test_pytorchs_convolution_is_refused():
    def convolution(inputs, weight):
        context = F.conv1d(inputs.mT, weight, padding=weight.shape[-1] // 2).mT
        return context, CONVOLUTION_AS_ATTENTION.oracle(inputs, weight)[1]

    with pytest.raises(CheckFailed, match="PyTorch's conv1d does the whole task"):
        check_convolution_as_attention(convolution)


def test_a_chunk_that_is_kept_is_noticed():
    kept = []

    def streaming_attention(chunks):
        kept.clear()

        def noted():
            for scores, value in chunks:
                kept.append(scores)
                yield scores, value

        return answers.find("streaming_attention").function(noted())

    with pytest.raises(CheckFailed, match=r'stage "cost":\n.*chunks that were read before are still kept'):
        check_streaming_attention(streaming_attention)


def test_the_layers_of_a_test_are_described_when_it_is_wrong():
    with pytest.raises(CheckFailed, match=r"This layer sees one key too many. Your test should let it fail."):
        check_assert_window(lambda layer, width, d_model: None)


right_stream = answers.find("streaming_attention").function
right_window = answers.find("window_attention").function
right_costs = answers.find("layer_costs").function
right_test = answers.find("assert_window").function
UNNAMED = [
    (LAYER_COSTS, lambda *a: (right_costs(*a)[0] + 1, *right_costs(*a)[1:])),
    (LAYER_COSTS, lambda *a: (*right_costs(*a)[:2], right_costs(*a)[2] + 1)),
    (BAND_MASK, lambda queries, width, causal=True, past=0: band(queries, width, causal, min(past, 2))),
    (BAND_MASK, lambda queries, width, causal=True, past=0: band(queries, min(width, 2), causal, past)),
    (WINDOW_ATTENTION, lambda q, k, v, width: right_window(q, k.detach(), v, width)),
    (WINDOW_ATTENTION, lambda q, k, v, width: right_window(q, k.abs(), v, width)),
    (WINDOW_ATTENTION, lambda q, k, v, width: right_window(q, k, v, width).float()),
    (STREAMING_ATTENTION, lambda chunks: right_stream((s.clamp(-20, 20), v) for s, v in chunks)),
    (STREAMING_ATTENTION, lambda chunks: right_stream((s, v.detach()) for s, v in chunks)),
    (STREAMING_ATTENTION, lambda chunks: right_stream(zip(*zip(*chunks, strict=True), strict=True))),
    (CONVOLUTION_AS_ATTENTION, lambda x, w: library.convolution_as_attention(x, w.detach())),
    (CONVOLUTION_AS_ATTENTION, lambda x, w: library.convolution_as_attention(x, w[..., :1])),
    (STRIDED_MASK, lambda queries, stride, past=0: STRIDED_MASK.oracle(queries, min(stride, 2), past)),
    (STRIDED_MASK, lambda queries, stride, past=0: STRIDED_MASK.oracle(queries, stride + 1, past)),
    (ASSERT_WINDOW, lambda layer, width, d_model: right_test(layer, width + 1, d_model)),
    (ASSERT_WINDOW, lambda layer, width, d_model: right_test(lambda x: layer(x)[:5], width, d_model)),
]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("task", "wrong"), UNNAMED)
def test_a_mistake_that_nobody_listed_fails(task, wrong, seed):
    with pytest.raises(CheckFailed):
        judge(task, wrong, seed=seed, dtype=torch.float32, refuse_shortcuts=False)
