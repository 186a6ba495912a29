"""The checks of the set `selfattention`: oracles, the library, shortcuts, and mistakes without a name."""

import pytest
import torch
from torch import nn

import attncourse.masks as masks
import attncourse.qkv as qkv
import attncourse.selfattention as library
from attncourse.checks.judge import CheckFailed, judge
from attncourse.checks.selfattention import (
    ATTENTION_POOLING,
    CAUSAL_MASK,
    ENCODER_BLOCK,
    PERMUTATION_TEST,
    SELF_ATTENTION,
    SHARED_SCORES,
    check_causal_mask,
)
from tests.answers.selfattention import answers

DTYPES = (torch.float32, torch.float64)
SEEDS = range(3)


def normal(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_causal_mask_of_the_library_passes_and_is_refused(dtype):
    def causal_mask(queries, past=0):
        return masks.causal_mask(queries, past=past)

    judge(CAUSAL_MASK, causal_mask, seed=0, dtype=dtype, refuse_shortcuts=False)
    with pytest.raises(CheckFailed, match=r"attncourse\.masks\.causal_mask belongs to the course's library"):
        check_causal_mask(causal_mask)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_oracle_of_self_attention_agrees_with_the_library(seed):
    inputs, weights = normal(seed, 3, 5, 7), [normal(seed, 7, width) for width in (4, 4, 2)]
    real = torch.arange(5) < torch.tensor([[5], [2], [0]])
    query, key, value = (inputs @ weight for weight in weights)
    expected = qkv.attend(query, key, value, masks.causal_mask(5) & real.unsqueeze(-2))
    torch.testing.assert_close(SELF_ATTENTION.oracle(inputs, *weights, True, real), expected)


def test_the_oracle_of_the_block_agrees_with_the_layer_of_pytorch():
    layer = nn.TransformerEncoderLayer(
        8, 2, 16, dropout=0.0, norm_first=True, batch_first=True, dtype=torch.float64
    ).eval()
    for number, parameter in enumerate(layer.parameters()):
        parameter.data = normal(number, *parameter.shape)
    inputs = normal(0, 3, 5, 8)
    found = ENCODER_BLOCK.oracle(
        inputs,
        lambda x: layer.self_attn(x, x, x)[0],
        lambda x: layer.linear2(torch.relu(layer.linear1(x))),
        *(layer.norm1.weight, layer.norm1.bias, layer.norm2.weight, layer.norm2.bias),
    )
    torch.testing.assert_close(found, layer(inputs))


def test_the_measure_of_the_library_tells_the_same_layers_apart():
    """It moves all sentences alike, so it cannot see a layer that mixes them."""
    for case in PERMUTATION_TEST.cases(torch.Generator().manual_seed(0), torch.float32):
        layer, width = case.inputs.values()
        error = library.equivariance_error(
            lambda x, layer=layer: (layer(x), None), normal(0, 2, 12, width), (5 * torch.arange(12) + 1) % 12
        )
        is_right = "should let it pass" in case.note
        assert (error < 1e-9).item() == (is_right or "over all sentences" in case.note), case.note


def test_a_pooled_sentence_is_what_attention_with_one_query_gives():
    inputs, weight, bias, query = (normal(i, *s) for i, s in enumerate(((3, 5, 7), (7, 4), (4,), (4,))))
    real = torch.arange(5) < torch.tensor([[5], [2], [1]])
    hidden = 2 * torch.tanh(inputs @ weight + bias)  # attend divides by the root of 4
    pooled, weights = qkv.attend(query.expand(3, 1, 4), hidden, inputs, real.unsqueeze(-2))
    found = ATTENTION_POOLING.oracle(inputs, weight, bias, query, real)
    torch.testing.assert_close(found, (pooled.squeeze(-2), weights.squeeze(-2)))


def test_shared_scores_plug_into_the_library():
    vectors = normal(0, 2, 5, 4)
    _, weights = qkv.attend(
        *(vectors, vectors, vectors, masks.causal_mask(5)),
        score=lambda query, key: SHARED_SCORES.oracle(query),
    )
    diagonal = weights.diagonal(dim1=-2, dim2=-1)
    torch.testing.assert_close(diagonal, torch.eye(5, dtype=torch.float64)[:1].expand(2, 5))


def right(task):
    return answers.find(task).function


def only_one_past_token(queries, past=0):
    return right("causal_mask")(queries, past).triu(past - 1) if past else right("causal_mask")(queries)


def for_square_masks_only(queries, past=0):
    return right("causal_mask")(queries, past) & (torch.arange(past + queries) >= min(past, 1))


def padding_of_the_next_sentence(inputs, *others):
    *others, real = others if len(others) == 5 else (*others, None)
    return right("self_attention")(inputs, *others, None if real is None else real.roll(1, 0))


def no_gradient_to_the_keys(inputs, of_query, of_key, of_value, *others):
    return right("self_attention")(inputs, of_query, of_key.detach(), of_value, *others)


def epsilon_of_another_size(inputs, attend, feedforward, *norms):
    def norm(x, gain, bias):
        return nn.functional.layer_norm(x, x.shape[-1:], gain, bias, eps=1e-6)

    inputs = inputs + attend(norm(inputs, *norms[:2]))
    return inputs + feedforward(norm(inputs, *norms[2:]))


def feedforward_twice(inputs, attend, feedforward, *norms):
    return right("encoder_block")(inputs, attend, lambda x: feedforward(feedforward(x)), *norms)


def the_same_token_everywhere(layer, width):
    x = torch.randn(3, 1, width).expand(3, 12, width)
    order = torch.stack([torch.randperm(12) for _ in range(3)]).unsqueeze(-1)
    difference = layer(torch.take_along_dim(x, order, 1)) - torch.take_along_dim(layer(x), order, 1)
    assert difference.abs().max() < 1e-4


def only_the_mean_of_the_differences(layer, width):
    x = torch.randn(3, 12, width)
    order = torch.stack([torch.randperm(12) for _ in range(3)]).unsqueeze(-1)
    difference = layer(torch.take_along_dim(x, order, 1)) - torch.take_along_dim(layer(x), order, 1)
    assert difference.mean() < 1e-4


def twice_the_scores(inputs, weight, bias, query, real_tokens=None):
    return right("attention_pooling")(inputs, weight, bias, 2 * query, real_tokens)


def pooled_with_the_bias(inputs, weight, bias, query, real_tokens=None):
    pooled, weights = right("attention_pooling")(inputs, weight, bias, query, real_tokens)
    return pooled + bias.mean(), weights


def low_by_subtraction(vectors):
    keys = nn.functional.normalize(vectors, dim=-1)
    scores = vectors @ keys.mT / vectors.shape[-1] ** 0.5
    return scores - 1e4 * torch.eye(vectors.shape[-2], dtype=vectors.dtype)


def scaled_by_the_length(vectors):
    scores = right("shared_scores")(vectors)
    off = torch.eye(scores.shape[-1]) == 0
    return torch.where(off, scores * (vectors.shape[-1] / vectors.shape[-2]) ** 0.5, scores)


UNNAMED = [
    (CAUSAL_MASK, only_one_past_token),
    (CAUSAL_MASK, for_square_masks_only),
    (SELF_ATTENTION, padding_of_the_next_sentence),
    (SELF_ATTENTION, no_gradient_to_the_keys),
    (ENCODER_BLOCK, epsilon_of_another_size),
    (ENCODER_BLOCK, feedforward_twice),
    (PERMUTATION_TEST, the_same_token_everywhere),
    (PERMUTATION_TEST, only_the_mean_of_the_differences),
    (ATTENTION_POOLING, twice_the_scores),
    (ATTENTION_POOLING, pooled_with_the_bias),
    (SHARED_SCORES, low_by_subtraction),
    (SHARED_SCORES, scaled_by_the_length),
]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("task", "wrong"), UNNAMED)
def test_a_mistake_that_nobody_listed_fails(task, wrong, seed):
    with pytest.raises(CheckFailed):
        judge(task, wrong, seed=seed, dtype=torch.float32, refuse_shortcuts=False)
