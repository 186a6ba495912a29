"""The checks of the set `multihead`: their oracles, the library, shortcuts, and mistakes without a name."""

import pytest
import torch
from torch import nn

import attncourse.multihead as library
from attncourse.checks.judge import CheckFailed, judge
from attncourse.checks.multihead import (
    CROSS_ATTENTION,
    MASK_HEADS,
    MERGE_HEADS,
    MULTIHEAD_ATTENTION,
    SPLIT_HEADS,
    TALKING_SOFTMAX,
    WEIGHTS_FROM_TORCH,
    check_cross_attention,
    check_merge_heads,
    check_multihead_attention,
    check_split_heads,
)
from tests.answers.multihead import answers

DTYPES = (torch.float32, torch.float64)
SEEDS = range(3)


def layer_and_tokens(seed, **widths):
    generator = torch.Generator().manual_seed(seed)
    layer = nn.MultiheadAttention(12, 4, batch_first=True, dtype=torch.float64, **widths)
    for parameter in layer.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    shapes = ((3, 5, 12), (3, 7, layer.kdim), (3, 7, layer.vdim))
    return layer, [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("widths", [{}, {"kdim": 10, "vdim": 9}])
def test_the_oracles_agree_with_the_layer_of_pytorch(seed, widths):
    layer, tokens = layer_and_tokens(seed, bias=False, **widths)
    mask = torch.rand(5, 7, generator=torch.Generator().manual_seed(seed)) < 0.6
    mask[:, 0] = True
    weights = WEIGHTS_FROM_TORCH.oracle(layer)[:4]
    found = MULTIHEAD_ATTENTION.oracle(*tokens, *weights, 4, mask)
    torch.testing.assert_close(found, layer(*tokens, attn_mask=~mask, average_attn_weights=False))


@pytest.mark.parametrize("seed", SEEDS)
def test_the_oracle_of_cross_attention_agrees_with_the_layer_of_pytorch(seed):
    layer, (states, memory, _) = layer_and_tokens(seed, bias=False, kdim=10, vdim=10)
    real = torch.arange(7) < torch.tensor([[7], [3], [1]])
    weights = WEIGHTS_FROM_TORCH.oracle(layer)[:4]
    found = CROSS_ATTENTION.oracle(states, memory, *weights, 4, real)
    expected = layer(states, memory, memory, key_padding_mask=~real, average_attn_weights=False)
    torch.testing.assert_close(found, expected)


def test_a_masked_head_adds_what_a_head_of_zeros_adds():
    contexts, output_weight = torch.randn(3, 4, 5, 2).double(), torch.randn(8, 7).double()
    kept = torch.tensor([True, False, True, True])
    zeroed = contexts.clone()
    zeroed[:, 1] = 0
    expected = library.merge_heads(zeroed) @ output_weight
    torch.testing.assert_close(MASK_HEADS.oracle(contexts, kept, output_weight), expected)


def test_the_talking_softmax_plugs_into_the_library():
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randn(2, 5, 12, generator=generator, dtype=torch.float64)
    weight = torch.randn(12, 12, generator=generator, dtype=torch.float64)
    mixing = torch.randn(3, 3, generator=generator, dtype=torch.float64)
    mask = torch.ones(5, 5, dtype=torch.bool).tril()
    names = ("query_weight", "key_weight", "value_weight", "output_weight")

    def attend(before, after):
        return library.multihead_attention(
            *(tokens, tokens, tokens, mask),
            **dict.fromkeys(names, weight),
            heads=3,
            normalise=lambda scores, mask: TALKING_SOFTMAX.oracle(scores, before, after, mask),
        )

    silent = library.multihead_attention(
        *(tokens, tokens, tokens, mask), **dict.fromkeys(names, weight), heads=3
    )
    torch.testing.assert_close(attend(torch.eye(3).double(), torch.eye(3).double()), silent)
    assert attend(mixing, mixing)[1].shape == silent[1].shape


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("task", [SPLIT_HEADS, MERGE_HEADS])
def test_the_library_passes_the_checks(task, dtype):
    judge(task, getattr(library, task.name), seed=0, dtype=dtype, refuse_shortcuts=False)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_attention_of_the_library_passes_with_the_weights_in_its_layout(dtype):
    def attend(query, key, value, of_query, of_key, of_value, of_output, heads, mask=None):
        return library.multihead_attention(
            *(query, key, value, mask),
            query_weight=of_query.T,
            key_weight=of_key.T,
            value_weight=of_value.T,
            output_weight=of_output.T,
            heads=heads,
        )

    judge(MULTIHEAD_ATTENTION, attend, seed=0, dtype=dtype, refuse_shortcuts=False)
    with pytest.raises(CheckFailed, match="belongs to the course's library"):
        check_multihead_attention(attend, dtype=dtype)


def as_a_layer(query, key, value, of_query, of_key, of_value, of_output, heads, mask=None):
    layer = nn.MultiheadAttention(query.shape[-1], heads, bias=False, batch_first=True, dtype=query.dtype)
    layer.in_proj_weight.data = torch.cat([of_query, of_key, of_value], dim=1).T
    layer.out_proj.weight.data = of_output.T
    return layer(query, key, value, attn_mask=mask, average_attn_weights=False)


def test_the_layer_of_pytorch_is_refused():
    with pytest.raises(CheckFailed, match="multi_head_attention_forward does the whole task"):
        check_multihead_attention(as_a_layer)
    with pytest.raises(CheckFailed, match="multi_head_attention_forward does the whole task"):
        check_cross_attention(lambda states, memory, *rest: as_a_layer(states, memory, memory, *rest))


def test_the_library_is_refused():
    for check, name in ((check_split_heads, "split_heads"), (check_merge_heads, "merge_heads")):
        with pytest.raises(CheckFailed, match=f"attncourse.multihead.{name} belongs to the course's library"):
            check(getattr(library, name))


def right(task):
    return answers.find(task).function


def reversed_heads(inputs, heads):
    return right("split_heads")(inputs, heads).flip(-3)


def without_the_last_feature(inputs):
    joined = right("merge_heads")(inputs).clone()
    joined[..., -1] = 0
    return joined


def all_heads_as_the_first(*inputs):
    context, weights = right("multihead_attention")(*inputs)
    return context, weights[..., :1, :, :].expand_as(weights)


def rows_of_the_mask_shifted(*inputs):
    *inputs, mask = inputs if len(inputs) == 9 else (*inputs, None)
    return right("multihead_attention")(*inputs, None if mask is None else mask.roll(1, -2))


def padding_of_the_next_sentence(*inputs):
    *inputs, real = inputs if len(inputs) == 8 else (*inputs, None)
    return right("cross_attention")(*inputs, None if real is None else real.roll(1, 0))


def wrong_only_for_one_target_token(*inputs):
    context, weights = right("cross_attention")(*inputs)
    return (context * 0 if context.shape[1] == 1 else context), weights


def one_head_too_few(contexts, kept, output_weight):
    kept = kept.clone()
    kept[-1] = False
    return right("mask_heads")(contexts, kept, output_weight)


def no_gradient_to_the_output_weight(contexts, kept, output_weight):
    return right("mask_heads")(contexts, kept, output_weight.detach())


def key_bias_for_value_bias(layer):
    *weights, of_query, of_key, _, of_output = right("weights_from_torch")(layer)
    return *weights, of_query, of_key, of_key, of_output


def the_width_of_the_visible_layer(layer):
    found = right("weights_from_torch")(layer)
    return found if layer.kdim == layer.embed_dim else tuple(0 * x for x in found)


def first_mixing_twice(scores, before, after, mask=None):
    return right("talking_softmax")(scores, before, before.T @ after.mean() + after * 0.5, mask)


def weights_of_forbidden_keys(scores, before, after, mask=None):
    weights = right("talking_softmax")(scores, before, after, mask)
    return weights if mask is None else weights + 0.01 * ~mask


UNNAMED = [
    (SPLIT_HEADS, reversed_heads),
    (SPLIT_HEADS, lambda inputs, heads: right("split_heads")(inputs, 2)),
    (MERGE_HEADS, without_the_last_feature),
    (MERGE_HEADS, lambda inputs: right("merge_heads")(inputs.flip(-3))),
    (MULTIHEAD_ATTENTION, all_heads_as_the_first),
    (MULTIHEAD_ATTENTION, rows_of_the_mask_shifted),
    (CROSS_ATTENTION, padding_of_the_next_sentence),
    (CROSS_ATTENTION, wrong_only_for_one_target_token),
    (MASK_HEADS, one_head_too_few),
    (MASK_HEADS, no_gradient_to_the_output_weight),
    (WEIGHTS_FROM_TORCH, key_bias_for_value_bias),
    (WEIGHTS_FROM_TORCH, the_width_of_the_visible_layer),
    (TALKING_SOFTMAX, first_mixing_twice),
    (TALKING_SOFTMAX, weights_of_forbidden_keys),
]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("task", "wrong"), UNNAMED)
def test_a_mistake_that_nobody_listed_fails(task, wrong, seed):
    with pytest.raises(CheckFailed):
        judge(task, wrong, seed=seed, dtype=torch.float32, refuse_shortcuts=False)
