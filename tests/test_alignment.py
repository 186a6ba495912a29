"""One step of a decoder with attention, against loops over Python floats and the cells of PyTorch."""

import math

import pytest
import torch
from torch import nn
from torch.autograd import gradcheck

from attncourse import alignment, qkv
from attncourse.alignment import AdditiveAttention, attentional_state, bahdanau_step, coverage, luong_step
from attncourse.masks import padding_mask

BATCH, SOURCE, D_STATE, D_INPUT, D_KEY, D_VALUE, HIDDEN, D_OUTPUT = 3, 5, 7, 2, 11, 13, 17, 19
LENGTHS = [5, 0, 2]
STEPS = {"bahdanau": bahdanau_step, "luong": luong_step}


def normal(*shape, seed=0, dtype=torch.float64, requires_grad=False):
    numbers = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return numbers.to(dtype).requires_grad_(requires_grad)


def additive(dtype=torch.float64):
    module = AdditiveAttention(d_query=D_STATE, d_key=D_KEY, hidden=HIDDEN).to(dtype)
    with torch.no_grad():
        module.query_weight.copy_(normal(HIDDEN, D_STATE, seed=4) / 3)
        module.key_weight.copy_(normal(HIDDEN, D_KEY, seed=5) / 3)
        module.vector.copy_(normal(HIDDEN, seed=6))
    return module


def tensors(**options):
    return {
        "state": normal(BATCH, D_STATE, seed=1, **options),
        "inputs": normal(BATCH, D_INPUT, seed=7, **options),
        "key": normal(BATCH, SOURCE, D_KEY, seed=2, **options),
        "value": normal(BATCH, SOURCE, D_VALUE, seed=3, **options),
    }


def mask():
    return padding_mask(torch.tensor(LENGTHS), SOURCE)


def cell(order, kind=nn.GRUCell, dtype=torch.float64):
    torch.manual_seed(0)
    return kind(D_INPUT + (D_VALUE if order == "bahdanau" else 0), D_STATE).to(dtype)


def dot(left, right):
    return math.fsum(x * y for x, y in zip(left, right, strict=True))


def attend_by_loops(query, key, value, length, module):
    """Give the context and the weights for one query and the first `length` source positions."""
    w, u, v = (p.tolist() for p in (module.query_weight, module.key_weight, module.vector))
    scores = [
        math.fsum(v[i] * math.tanh(dot(w[i], query) + dot(u[i], key[j])) for i in range(len(v)))
        for j in range(length)
    ]
    powers = [math.exp(score) for score in scores]
    weights = [power / math.fsum(powers) for power in powers] + [0.0] * (len(key) - length)
    context = [math.fsum(a * h[d] for a, h in zip(weights, value, strict=True)) for d in range(D_VALUE)]
    return context, weights


def by_loops(queries, key, value, module):
    rows = [
        attend_by_loops(queries[b].tolist(), key[b].tolist(), value[b].tolist(), LENGTHS[b], module)
        for b in range(BATCH)
    ]
    return tuple(torch.tensor(column, dtype=torch.float64) for column in zip(*rows, strict=True))


@pytest.mark.parametrize("kind", [nn.GRUCell, nn.RNNCell])
def test_bahdanau_attends_from_the_old_state_and_steps_with_the_context(kind):
    given, module, step = tensors(), additive(), cell("bahdanau", kind)
    aligned = bahdanau_step(step, **given, mask=mask(), score=module.score)
    context, weights = by_loops(given["state"], given["key"], given["value"], module)
    torch.testing.assert_close(aligned.weights, weights)
    torch.testing.assert_close(aligned.context, context)
    expected = step(torch.cat([given["inputs"], context], dim=1), given["state"])
    torch.testing.assert_close(aligned.state, expected)


@pytest.mark.parametrize("kind", [nn.GRUCell, nn.RNNCell])
def test_luong_steps_first_and_attends_from_the_new_state(kind):
    given, module, step = tensors(), additive(), cell("luong", kind)
    aligned = luong_step(step, **given, mask=mask(), score=module.score)
    state = step(given["inputs"], given["state"])
    context, weights = by_loops(state, given["key"], given["value"], module)
    torch.testing.assert_close(aligned.state, state)
    torch.testing.assert_close(aligned.weights, weights)
    torch.testing.assert_close(aligned.context, context)


@pytest.mark.parametrize("order", STEPS)
def test_an_lstm_asks_with_its_hidden_part(order):
    given, module, step = tensors(), additive(), cell(order, nn.LSTMCell)
    hidden, memory = given.pop("state"), normal(BATCH, D_STATE, seed=9)
    aligned = STEPS[order](step, (hidden, memory), **given, mask=mask(), score=module.score)
    asks = hidden if order == "bahdanau" else aligned.state[0]
    context, weights = by_loops(asks, given["key"], given["value"], module)
    torch.testing.assert_close(aligned.weights, weights)
    inputs = given["inputs"]
    expected = step(torch.cat([inputs, context], dim=1) if order == "bahdanau" else inputs, (hidden, memory))
    torch.testing.assert_close(aligned.state, expected)


@pytest.mark.parametrize("order", STEPS)
def test_padding_has_weight_0_whatever_it_holds(order):
    given, module, step = tensors(), additive(), cell(order)
    clean = STEPS[order](step, **given, mask=mask(), score=module.score)
    assert torch.equal(clean.weights == 0, ~mask().squeeze(1))
    padding = ~mask().mT
    for name in ("key", "value"):
        given[name] = given[name].masked_fill(padding, 1e6)
    dirty = STEPS[order](step, **given, mask=mask(), score=module.score)
    for before, after in zip(clean, dirty, strict=True):
        assert torch.equal(before, after)


@pytest.mark.parametrize("order", STEPS)
def test_padding_gets_and_gives_no_gradient(order):
    given, module, step = tensors(requires_grad=True), additive(), cell(order)
    aligned = STEPS[order](step, **given, mask=mask(), score=module.score)
    (
        aligned.state.square().sum() + aligned.context.square().sum() + aligned.weights.square().sum()
    ).backward()
    real = mask().squeeze(1)
    for name in ("key", "value"):
        moved = given[name].grad.ne(0).any(dim=-1)
        assert torch.equal(moved, real), name
    for tensor in [*given.values(), *module.parameters()]:
        assert tensor.grad.isfinite().all()


@pytest.mark.parametrize("order", STEPS)
def test_an_empty_source_gives_weights_and_context_0(order):
    given, module = tensors(), additive()
    aligned = STEPS[order](cell(order), **given, mask=mask(), score=module.score)
    assert not aligned.weights[1].any()
    assert not aligned.context[1].any()
    assert aligned.state.isfinite().all()


@pytest.mark.parametrize("order", STEPS)
@pytest.mark.parametrize("source", [0, 1])
def test_a_source_axis_of_length_0_or_1(order, source):
    given, module = tensors(), additive()
    given |= {name: given[name][:, :source] for name in ("key", "value")}
    aligned = STEPS[order](cell(order), **given, score=module.score)
    assert aligned.weights.tolist() == [[1.0] * source] * BATCH
    torch.testing.assert_close(aligned.context, given["value"].sum(dim=1))


@pytest.mark.parametrize("order", STEPS)
def test_without_a_mask_all_positions_are_real(order):
    given, module, step = tensors(), additive(), cell(order)
    everything = torch.ones(BATCH, 1, SOURCE, dtype=torch.bool)
    with_mask = STEPS[order](step, **given, mask=everything, score=module.score)
    without = STEPS[order](step, **given, score=module.score)
    for left, right in zip(with_mask, without, strict=True):
        torch.testing.assert_close(left, right)


@pytest.mark.parametrize("order", STEPS)
def test_weights_change_when_the_keys_change(order):
    given, module, step = tensors(), additive(), cell(order)
    before = STEPS[order](step, **given, mask=mask(), score=module.score).weights
    given["key"] = given["key"].flip(1)
    after = STEPS[order](step, **given, mask=mask(), score=module.score).weights
    assert (before - after)[0].abs().max() > 0.01


@pytest.mark.parametrize("order", STEPS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_dtype_and_device_are_kept(order, dtype, device):
    given = {name: tensor.to(device) for name, tensor in tensors(dtype=dtype).items()}
    module, step = additive(dtype).to(device), cell(order, dtype=dtype).to(device)
    aligned = STEPS[order](step, **given, mask=mask().to(device), score=module.score)
    assert {tensor.dtype for tensor in aligned} == {dtype}
    assert {tensor.device.type for tensor in aligned} == {device.type}


@pytest.mark.parametrize("order", STEPS)
def test_gradients_are_those_of_finite_differences(order):
    given, module, step = tensors(requires_grad=True), additive(), cell(order)

    def run(*leaves):
        return tuple(
            STEPS[order](step, **dict(zip(given, leaves, strict=True)), mask=mask(), score=module.score)
        )

    assert gradcheck(run, tuple(given.values()))


@pytest.mark.parametrize("order", STEPS)
def test_inputs_are_not_changed(order):
    given = tensors()
    before = {name: tensor.clone() for name, tensor in given.items()}
    STEPS[order](cell(order), **given, mask=mask(), score=additive().score)
    assert all(torch.equal(given[name], before[name]) for name in given)


def test_attentional_state_by_loops():
    context, hidden = normal(BATCH, D_VALUE, seed=1), normal(BATCH, D_STATE, seed=2)
    weight = normal(D_OUTPUT, D_VALUE + D_STATE, seed=3) / 5
    both = [c + h for c, h in zip(context.tolist(), hidden.tolist(), strict=True)]
    expected = [[math.tanh(dot(row, vector)) for row in weight.tolist()] for vector in both]
    torch.testing.assert_close(
        attentional_state(context, hidden, weight=weight), torch.tensor(expected, dtype=torch.float64)
    )


def test_attentional_state_refuses_a_weight_of_another_width():
    message = r"^weight must take d_value \+ d_state = 20 numbers, but takes 19$"
    with pytest.raises(ValueError, match=message):
        attentional_state(normal(BATCH, 13), normal(BATCH, 7), weight=normal(D_OUTPUT, 19))


def test_coverage_sums_over_the_real_target_positions():
    weights = torch.softmax(normal(2, 3, 5), dim=-1)
    lengths = [3, 1]
    for given, count in [(None, [3, 3]), (torch.tensor(lengths), lengths)]:
        expected = [
            [math.fsum(weights[b, i, j].item() for i in range(count[b])) for j in range(5)] for b in range(2)
        ]
        received = coverage(weights, given)
        torch.testing.assert_close(received, torch.tensor(expected, dtype=torch.float64))
        torch.testing.assert_close(received.sum(dim=-1), torch.tensor(count, dtype=torch.float64))


def test_coverage_without_batch_or_target():
    assert coverage(torch.eye(3)[:, [2, 0, 1]]).tolist() == [1.0, 1.0, 1.0]
    assert coverage(torch.zeros(2, 0, 5), torch.tensor([0, 0])).tolist() == [[0.0] * 5] * 2


def test_coverage_refuses_too_long_a_target():
    with pytest.raises(ValueError, match=r"^lengths must lie between 0 and keys = 3, but range from 1 to 4$"):
        coverage(torch.zeros(2, 3, 5), torch.tensor([1, 4]))


def test_additive_attention_scores_as_qkv_does_and_from_projected_keys():
    module, query, key = additive(), normal(BATCH, 2, D_STATE, seed=1), normal(BATCH, SOURCE, D_KEY, seed=2)
    expected = qkv.additive_scores(
        query, key, query_weight=module.query_weight, key_weight=module.key_weight, vector=module.vector
    )
    assert torch.equal(module.score(query, key), expected)
    torch.testing.assert_close(module.score_projected(query, module.project(key)), expected)


@pytest.mark.parametrize("order", STEPS)
def test_projected_keys_give_the_same_step(order):
    given, module, step = tensors(), additive(), cell(order)
    plain = STEPS[order](step, **given, mask=mask(), score=module.score)
    given["key"] = module.project(given["key"])
    projected = STEPS[order](step, **given, mask=mask(), score=module.score_projected)
    for left, right in zip(plain, projected, strict=True):
        torch.testing.assert_close(left, right)


def test_additive_attention_attends():
    module = additive()
    query, key, value = normal(BATCH, 1, D_STATE), *list(tensors().values())[2:]
    context, weights = module(query, key, value, mask())
    expected_context, expected_weights = by_loops(query[:, 0], key, value, module)
    torch.testing.assert_close(context[:, 0], expected_context)
    torch.testing.assert_close(weights[:, 0], expected_weights)


def test_additive_attention_draws_its_parameters_within_the_bounds_of_a_linear_layer():
    torch.manual_seed(0)
    module = AdditiveAttention(d_query=D_STATE, d_key=D_KEY, hidden=HIDDEN)
    shapes = {name: (tuple(p.shape), p.requires_grad) for name, p in module.named_parameters()}
    assert shapes == {
        "query_weight": ((HIDDEN, D_STATE), True),
        "key_weight": ((HIDDEN, D_KEY), True),
        "vector": ((HIDDEN,), True),
    }
    for parameter, width in [
        (module.query_weight, D_STATE),
        (module.key_weight, D_KEY),
        (module.vector, HIDDEN),
    ]:
        assert 0.6 / math.sqrt(width) < parameter.abs().max() <= 1 / math.sqrt(width)


def test_the_two_orders_give_named_results_in_the_same_order():
    assert alignment.Aligned._fields == ("state", "context", "weights")
