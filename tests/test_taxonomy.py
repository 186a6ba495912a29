"""Hard, global and local attention, against loops over Python floats, enumeration and finite differences."""

import itertools
import math
from functools import partial

import pytest
import torch
from torch.autograd import gradcheck
from torch.nn import functional as F

from attncourse import qkv
from attncourse.masks import padding_mask
from attncourse.taxonomy import (
    GlobalAttention,
    PredictiveAttention,
    expected_loss,
    gathered_local_attention,
    hard_weights,
    leave_one_out,
    local_attention,
    log_probability,
    moving_average,
    predicted_positions,
    score_function_loss,
    straight_through_gumbel,
    window_positions,
)

BATCH, QUERIES, KEYS, D, D_VALUE, HIDDEN = 3, 7, 11, 5, 2, 13
LENGTHS = [11, 4, 0]
DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]
FORMS = {"dense": local_attention, "gathered": gathered_local_attention}


def normal(*shape, seed=0, dtype=torch.float64, requires_grad=False):
    numbers = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return numbers.to(dtype).requires_grad_(requires_grad)


def seeded(seed=0, device="cpu"):
    return torch.Generator(device).manual_seed(seed)


def inputs(**options):
    return (
        normal(BATCH, QUERIES, D, seed=1, **options),
        normal(BATCH, KEYS, D, seed=2, **options),
        normal(BATCH, KEYS, D_VALUE, seed=3, **options),
    )


def mask():
    return padding_mask(torch.tensor(LENGTHS), KEYS)


def dot(left, right):
    return math.fsum(x * y for x, y in zip(left, right, strict=True))


# Hard attention


@pytest.mark.parametrize("dtype", DTYPES)
def test_hard_weights_choose_one_key_of_weight_above_0(dtype, device):
    weights = torch.tensor(
        [[[0.5, 0.0, 0.5], [0.0, 1.0, 0.0]], [[0.0, 0.0, 0.0], [0.25, 0.25, 0.5]]], dtype=dtype, device=device
    )
    choices = hard_weights(weights, samples=101, generator=seeded(device=device))
    assert choices.shape == (101, 2, 2, 3)
    assert choices.dtype == dtype
    assert choices.device == weights.device
    assert set(choices.flatten().tolist()) == {0.0, 1.0}
    assert (choices.sum(dim=-1) == torch.tensor([[1.0, 1.0], [0.0, 1.0]], device=device)).all()
    assert torch.equal(choices.any(dim=0), weights > 0)


def test_hard_weights_choose_as_often_as_the_weights_say():
    samples = 20_000
    weights = torch.softmax(normal(2, 3, 5), dim=-1)
    choices = hard_weights(weights, samples=samples, generator=seeded())
    error = (weights * (1 - weights) / samples).sqrt()
    assert ((choices.mean(dim=0) - weights).abs() < 4 * error).all()
    # Two queries draw independently of each other: the product of their frequencies is that of the pairs.
    pairs = (choices[:, 0, 0, :, None] * choices[:, 1, 2, None, :]).mean(dim=0)
    expected = weights[0, 0, :, None] * weights[1, 2, None, :]
    assert ((pairs - expected).abs() < 4.5 * (expected * (1 - expected) / samples).sqrt()).all()


def test_hard_weights_draw_once_if_not_told_otherwise_and_repeat_with_the_seed():
    weights = torch.full((2, 3, 97), 1 / 97)
    first, again, other = (hard_weights(weights, generator=seeded(seed)) for seed in (0, 0, 1))
    assert first.shape == (1, 2, 3, 97)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_hard_weights_pass_no_gradient_and_change_nothing():
    weights = torch.zeros(2, 3, requires_grad=True)
    assert not hard_weights(weights, generator=seeded()).requires_grad
    assert not weights.any()


@pytest.mark.parametrize("shape", [(0, 3, 5), (2, 0, 5), (2, 3, 0), (3, 1), (0, 0)])
def test_hard_weights_of_sizes_0_and_1(shape):
    choices = hard_weights(torch.ones(shape), samples=2)
    assert choices.shape == (2, *shape)
    assert choices.eq(1).all()


@pytest.mark.parametrize("samples", [0, -1])
def test_hard_weights_need_a_sample(samples):
    with pytest.raises(ValueError, match=rf"^samples must be at least 1, but is {samples}$"):
        hard_weights(torch.ones(2, 3), samples=samples)


def test_the_context_of_a_draw_is_the_value_of_the_drawn_key():
    weights, value = torch.softmax(normal(2, 3, 5), dim=-1), normal(2, 5, 7, seed=1)
    choices = hard_weights(weights, samples=4, generator=seeded())
    context = qkv.weighted_sum(choices, value)
    for s, b, q in itertools.product(range(4), range(2), range(3)):
        assert torch.equal(context[s, b, q], value[b, choices[s, b, q].argmax()])


def test_log_probability_is_that_of_the_drawn_keys():
    weights = torch.softmax(normal(2, 3, 5), dim=-1)
    weights[1, 2] = 0.0
    choices = hard_weights(weights, samples=4, generator=seeded())
    given = log_probability(weights, choices)
    assert given.shape == (4, 2, 3)
    for s, b, q in itertools.product(range(4), range(2), range(3)):
        if (b, q) == (1, 2):
            assert given[s, b, q] == 0
        else:
            drawn = choices[s, b, q].tolist().index(1.0)
            assert given[s, b, q].item() == pytest.approx(math.log(weights[b, q, drawn].item()))


def test_log_probability_has_the_gradient_of_the_logarithm():
    weights = torch.tensor([[0.25, 0.75], [0.0, 0.0]], requires_grad=True)
    choices = torch.tensor([[[0.0, 1.0], [0.0, 0.0]], [[1.0, 0.0], [0.0, 0.0]], [[0.0, 1.0], [0.0, 0.0]]])
    log_probability(weights, choices).sum().backward()
    torch.testing.assert_close(weights.grad, torch.tensor([[4.0, 2 / 0.75], [0.0, 0.0]]))


@pytest.mark.parametrize("baseline", [0.0, 0.5, torch.tensor([0.5, -2.0, 1.0])])
def test_score_function_loss_keeps_the_value_and_has_both_gradients(baseline):
    losses = torch.tensor([1.0, -3.0, 2.0], requires_grad=True)
    logs = torch.tensor([-0.5, -2.0, -1.0], requires_grad=True)
    surrogate = score_function_loss(losses, logs, baseline)
    assert torch.equal(surrogate, losses)
    (surrogate * torch.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert losses.grad.tolist() == [1.0, 2.0, 3.0]
    expected = (torch.tensor([1.0, -3.0, 2.0]) - baseline) * torch.tensor([1.0, 2.0, 3.0])
    torch.testing.assert_close(logs.grad, expected)


def test_score_function_loss_has_no_baseline_if_none_is_given():
    logs = torch.tensor([-0.5], requires_grad=True)
    score_function_loss(torch.tensor([3.0]), logs).sum().backward()
    assert logs.grad.tolist() == [3.0]


def test_a_baseline_gets_no_gradient():
    losses, logs = torch.tensor([1.0, 2.0]), torch.tensor([-1.0, -2.0], requires_grad=True)
    baseline = torch.tensor(0.5, requires_grad=True)
    surrogate = score_function_loss(losses, logs, baseline).sum()
    assert torch.autograd.grad(surrogate, baseline, allow_unused=True) == (None,)


@pytest.mark.parametrize("samples", [2, 3, 5])
def test_leave_one_out_is_the_mean_of_the_others(samples):
    losses = normal(samples, 2, 3, requires_grad=True)
    baseline = leave_one_out(losses)
    assert not baseline.requires_grad
    for s, b, q in itertools.product(range(samples), range(2), range(3)):
        others = [losses[other, b, q].item() for other in range(samples) if other != s]
        assert baseline[s, b, q].item() == pytest.approx(sum(others) / len(others))


@pytest.mark.parametrize("samples", [0, 1])
def test_leave_one_out_needs_two_samples(samples):
    message = rf"^leaving one out needs at least 2 samples, but there is {samples}$"
    with pytest.raises(ValueError, match=message):
        leave_one_out(torch.zeros(samples, 3))


def test_moving_average():
    losses = torch.tensor([[1.0, 2.0], [3.0, 6.0]], requires_grad=True)
    average = moving_average(torch.tensor(10.0, requires_grad=True), losses, decay=0.75)
    assert average.item() == pytest.approx(0.75 * 10 + 0.25 * 3)
    assert not average.requires_grad
    assert moving_average(torch.tensor(10.0), losses).item() == pytest.approx(0.9 * 10 + 0.1 * 3)
    assert moving_average(torch.tensor(10.0), losses, decay=0.0).item() == 3
    assert moving_average(torch.tensor(10.0), losses, decay=1.0).item() == 10


@pytest.mark.parametrize("decay", [-0.125, 1.125])
def test_moving_average_refuses_a_decay_out_of_range(decay):
    with pytest.raises(ValueError, match=rf"^decay must lie between 0 and 1, but is {decay}$"):
        moving_average(torch.tensor(0.0), torch.ones(2), decay=decay)


def test_expected_loss_and_its_exact_gradient():
    scores, losses = normal(2, 3, 5, requires_grad=True), normal(2, 3, 5, seed=1)
    expected = expected_loss(torch.softmax(scores, dim=-1), losses)
    expected.sum().backward()
    for b, q in itertools.product(range(2), range(3)):
        powers = [math.exp(s) for s in scores[b, q].tolist()]
        p = [power / sum(powers) for power in powers]
        mean = dot(p, losses[b, q].tolist())
        assert expected[b, q].item() == pytest.approx(mean)
        by_hand = [pk * (loss - mean) for pk, loss in zip(p, losses[b, q].tolist(), strict=True)]
        assert scores.grad[b, q].tolist() == pytest.approx(by_hand)


# The estimator: many independent estimates of one gradient, against the gradient by enumeration.

ESTIMATES, SAMPLES = 20_000, 3


def estimates(baseline):
    """Give estimates, one a row, of the gradient to the scores of 4 keys, and the exact gradient."""
    one = normal(4, seed=2)
    losses = torch.tensor([3.0, 4.0, 5.0, 4.5], dtype=torch.float64)
    scores = one.expand(ESTIMATES, 4).clone().requires_grad_()
    weights = torch.softmax(scores, dim=-1)
    choices = hard_weights(weights, samples=SAMPLES, generator=seeded(7))
    drawn = (choices * losses).sum(dim=-1)
    score_function_loss(drawn, log_probability(weights, choices), baseline(drawn)).mean(
        dim=0
    ).sum().backward()
    exact = one.clone().requires_grad_()
    expected_loss(torch.softmax(exact, dim=-1), losses).backward()
    return scores.grad, exact.grad


def average_of_earlier_batches(drawn):
    average = torch.tensor(0.0, dtype=torch.float64)
    for batch in range(50):
        average = moving_average(average, drawn[:, batch])
    return average


BASELINES = {
    "none": lambda drawn: 0.0,
    "moving average": average_of_earlier_batches,
    "leave one out": leave_one_out,
    "biased": lambda drawn: drawn.mean(dim=0),
}


@pytest.mark.parametrize("name", ["none", "moving average", "leave one out"])
def test_the_estimated_gradient_is_unbiased(name):
    rows, exact = estimates(BASELINES[name])
    error = rows.std(dim=0) / math.sqrt(ESTIMATES)
    assert exact.abs().max() > 20 * error.max()  # or the next line would say nothing
    assert ((rows.mean(dim=0) - exact).abs() < 4 * error).all()


def test_the_mean_of_all_samples_as_baseline_shrinks_the_gradient():
    rows, exact = estimates(BASELINES["biased"])
    error = rows.std(dim=0) / math.sqrt(ESTIMATES)
    shrunk = (1 - 1 / SAMPLES) * exact
    assert ((rows.mean(dim=0) - shrunk).abs() < 4 * error).all()
    assert ((rows.mean(dim=0) - exact).abs() > 4 * error).any()


def test_baselines_make_the_variance_smaller():
    variance = {name: estimates(BASELINES[name])[0].var(dim=0).sum().item() for name in BASELINES}
    assert variance["moving average"] < variance["none"] / 5
    assert variance["leave one out"] < variance["none"] / 5


# Straight-through Gumbel


@pytest.mark.parametrize("dtype", DTYPES)
def test_gumbel_chooses_exactly_one_allowed_key(dtype, device):
    scores = normal(2, 3, 5, dtype=dtype).to(device)
    allowed = torch.tensor([[True, False, True, True, False], [False] * 5, [False, True] + [False] * 3])
    weights = straight_through_gumbel(scores, allowed.to(device), generator=seeded(device=device))
    assert weights.dtype == dtype
    assert weights.device == scores.device
    assert set(weights.flatten().tolist()) == {0.0, 1.0}
    assert weights.sum(dim=-1).tolist() == [[1.0, 0.0, 1.0]] * 2
    assert not weights.cpu()[:, ~allowed].any()


def test_gumbel_chooses_as_often_as_softmax_says_at_any_temperature():
    samples, scores = 20_000, normal(5)
    expected = torch.softmax(scores, dim=-1)
    error = (expected * (1 - expected) / samples).sqrt()
    for temperature in (0.5, 1.0, 3.0):
        weights = straight_through_gumbel(
            scores.expand(samples, 5), temperature=temperature, generator=seeded(3)
        )
        assert ((weights.mean(dim=0) - expected).abs() < 4 * error).all()


@pytest.mark.parametrize("options", [{}, {"temperature": 1.0}, {"temperature": 0.5}, {"temperature": 3.0}])
def test_gumbel_has_the_gradient_of_the_noisy_softmax(options):
    scores, upstream = normal(2, 3, 5, requires_grad=True), normal(2, 3, 5, seed=1)
    weights = straight_through_gumbel(scores, generator=seeded(4), **options)
    noise = -torch.empty(2, 3, 5, dtype=torch.float64).exponential_(generator=seeded(4)).log()
    soft = torch.softmax((scores + noise) / options.get("temperature", 1.0), dim=-1)
    assert torch.equal(weights.argmax(dim=-1), soft.argmax(dim=-1))
    (given,) = torch.autograd.grad(weights, scores, upstream)
    (expected,) = torch.autograd.grad(soft, scores, upstream)
    torch.testing.assert_close(given, expected)


def test_gumbel_agrees_with_pytorch_on_one_noise():
    scores = normal(2, 3, 5, dtype=torch.float32)
    torch.manual_seed(5)
    expected = F.gumbel_softmax(scores, hard=True)
    torch.manual_seed(5)
    torch.testing.assert_close(straight_through_gumbel(scores), expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_gumbel_noise_is_as_fine_in_half_precision_as_in_float32(dtype):
    scores = normal(20_011, 5, dtype=dtype)
    half = straight_through_gumbel(scores, generator=seeded(6))
    assert torch.equal(half.float(), straight_through_gumbel(scores.float(), generator=seeded(6)))


def test_gumbel_leaves_an_empty_row_without_gradient_and_normalises_in_attend():
    query, key, value = (tensor.requires_grad_() for tensor in inputs())
    normalise = partial(straight_through_gumbel, generator=seeded())
    context, weights = qkv.attend(query, key, value, mask(), normalise=normalise)
    assert not context[2].any()
    assert not weights[2].any()
    context.square().sum().backward()
    assert query.grad[2].eq(0).all()
    assert query.grad[0].ne(0).any()
    assert all(tensor.grad.isfinite().all() for tensor in (query, key, value))


@pytest.mark.parametrize("shape", [(0, 3, 5), (2, 0, 5), (2, 3, 0), (3, 1)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_gumbel_of_sizes_0_and_1(shape, dtype):
    weights = straight_through_gumbel(torch.zeros(shape, dtype=dtype))
    assert weights.shape == shape
    assert weights.dtype == dtype
    assert weights.eq(1).all()


def test_gumbel_refuses_a_temperature_of_0():
    with pytest.raises(ValueError, match=r"^temperature must be above 0, but is 0.0$"):
        straight_through_gumbel(torch.zeros(2, 3), temperature=0.0)


# Local attention


def local_by_loops(query, key, value, lengths, positions, radius, gaussian, score=dot):
    """Give contexts and dense weights in float64, one pair at a time."""
    batch, queries, keys, width = len(query), len(query[0]), len(key[0]), len(value[0][0])
    contexts, weights = [], []
    for b, q in itertools.product(range(batch), range(queries)):
        centre = positions[b][q]
        window = [s for s in range(lengths[b]) if centre - radius <= s <= centre + radius]
        powers = {s: math.exp(score(query[b][q], key[b][s])) for s in window}
        row = [powers.get(s, 0.0) / (math.fsum(powers.values()) or 1.0) for s in range(keys)]
        if gaussian:
            sigma = radius / 2
            row = [w * math.exp(-((s - centre) ** 2) / (2 * sigma**2)) for s, w in enumerate(row)]
        weights.append(row)
        contexts.append([math.fsum(row[s] * value[b][s][d] for s in range(keys)) for d in range(width)])
    return (
        torch.tensor(contexts, dtype=torch.float64).view(batch, queries, width),
        torch.tensor(weights, dtype=torch.float64).view(batch, queries, keys),
    )


def dense(weights, positions, radius, keys):
    """Put the weights of windows where they belong among all keys."""
    window = window_positions(positions, radius=radius).expand(weights.shape)
    full = torch.zeros(*weights.shape[:-1], keys, dtype=weights.dtype)
    for index in itertools.product(*map(range, weights.shape)):
        if 0 <= window[index] < keys:
            full[(*index[:-1], window[index])] += weights[index]
        else:
            assert weights[index] == 0
    return full


def attend_locally(form, query, key, value, given_mask=None, *, positions, radius, **options):
    context, weights = FORMS[form](
        query, key, value, given_mask, positions=positions, radius=radius, **options
    )
    if form == "gathered":
        assert weights.shape[-2:] == (query.shape[-2], 2 * radius + 1)
        weights = dense(weights, positions, radius, key.shape[-2])
    return context, weights


def centres(kind):
    """Give positions inside, at the ends, between two keys, and far outside, for each query."""
    if kind == "whole":
        return torch.tensor([0, 3, 10, 5, 12, -2, 40])
    rows = [[0.0, 3.5, 10.9, 5.25, 11.0, -0.75, 40.0], [0.5, 1.5, 2.5, 3.999, 4.0, 5.5, 7.0], [0.0] * 7]
    return torch.tensor(rows, dtype=torch.float64)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["whole", "real"])
@pytest.mark.parametrize(
    ("radius", "gaussian"), [(0, False), (1, False), (1, True), (2, True), (3, True), (3, False), (20, True)]
)
def test_local_attention_by_loops(form, kind, radius, gaussian):
    query, key, value = inputs()
    positions = centres(kind)
    context, weights = attend_locally(
        form, query, key, value, mask(), positions=positions, radius=radius, gaussian=gaussian
    )
    expected_context, expected_weights = local_by_loops(
        query.tolist(),
        key.tolist(),
        value.tolist(),
        LENGTHS,
        positions.expand(BATCH, QUERIES).tolist(),
        radius,
        gaussian,
    )
    torch.testing.assert_close(weights, expected_weights, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(context, expected_context, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("form", FORMS)
def test_both_ends_of_the_window_belong_to_it(form):
    ones = torch.ones(1, 3, 1, dtype=torch.float64)
    key = torch.zeros(1, 9, 1, dtype=torch.float64)
    positions = torch.tensor([[4.0, 4.25, 4.5]], dtype=torch.float64)
    _, weights = attend_locally(form, ones, key, key, positions=positions, radius=2, gaussian=False)
    assert [[s for s in range(9) if row[s] > 0] for row in weights[0].tolist()] == [
        [2, 3, 4, 5, 6],
        [3, 4, 5, 6],
        [3, 4, 5, 6],
    ]
    assert weights[0, 0, 2] == pytest.approx(0.2)
    assert weights[0, 1, 3] == pytest.approx(0.25)


@pytest.mark.parametrize("form", FORMS)
def test_the_gaussian_is_not_normalised_away(form):
    """With equal scores a weight is 1 / 5 of the Gaussian with standard deviation 1 around key 4."""
    ones = torch.ones(1, 1, 1, dtype=torch.float64)
    key = torch.zeros(1, 9, 1, dtype=torch.float64)
    _, weights = attend_locally(
        form, ones, key, key, positions=torch.tensor([[4.0]]), radius=2, gaussian=True
    )
    bell = [math.exp(-2), math.exp(-0.5), 1.0, math.exp(-0.5), math.exp(-2)]
    assert weights[0, 0].tolist() == pytest.approx([0.0, 0.0, *(b / 5 for b in bell), 0.0, 0.0])
    assert weights.sum().item() == pytest.approx((1 + 2 * math.exp(-0.5) + 2 * math.exp(-2)) / 5)


@pytest.mark.parametrize("form", FORMS)
def test_local_m_is_global_attention_on_a_window(form):
    query, key, value = inputs()
    context, weights = attend_locally(
        form, query, key, value, mask(), positions=torch.arange(QUERIES), radius=2, gaussian=False
    )
    near = (torch.arange(KEYS) - torch.arange(QUERIES)[:, None]).abs() <= 2
    expected = qkv.attend(query, key, value, mask() & near, score=qkv.dot_scores)
    torch.testing.assert_close((context, weights), expected)
    # A source of 4 tokens: the window of target position 6 begins at 4, so nothing is left of it.
    assert weights[1].any(dim=-1).tolist() == [True] * 6 + [False]


@pytest.mark.parametrize("form", FORMS)
def test_without_a_mask_the_window_is_cut_at_the_ends_of_the_keys(form):
    query, key, value = inputs()
    options = {"positions": torch.arange(QUERIES) * 2 - 1, "radius": 3, "gaussian": True}
    everything = torch.ones(BATCH, 1, KEYS, dtype=torch.bool)
    expected = attend_locally(form, query, key, value, everything, **options)
    torch.testing.assert_close(attend_locally(form, query, key, value, **options), expected)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("score", ["general", "concat"])
def test_local_attention_with_other_scores(form, score):
    query, key, value = inputs()
    module = GlobalAttention(score, d_query=D, d_key=D, hidden=HIDDEN if score == "concat" else None).double()
    everything = module.score(query, key)
    context, weights = attend_locally(
        form,
        query,
        key,
        value,
        mask(),
        positions=centres("real"),
        radius=3,
        gaussian=False,
        score=module.score,
    )
    near = (torch.arange(KEYS) - centres("real")[..., None]).abs() <= 3
    expected = qkv.masked_softmax(everything, near & mask())
    torch.testing.assert_close(weights, expected)
    torch.testing.assert_close(context, expected @ value)


@pytest.mark.parametrize("form", FORMS)
def test_padding_never_matters(form):
    query, key, value = (tensor.requires_grad_() for tensor in inputs())
    options = {"positions": centres("real"), "radius": 3, "gaussian": True}
    context, weights = attend_locally(form, query, key, value, mask(), **options)
    context.square().sum().backward()
    padding = ~mask().mT
    for tensor in (query, key, value):
        assert tensor.grad.isfinite().all()
    assert not (key.grad.masked_select(padding).any() or value.grad.masked_select(padding).any())
    assert not weights.masked_select(~mask()).any()
    dirty = [tensor.detach().masked_fill(padding, 1e6) for tensor in (key, value)]
    torch.testing.assert_close(attend_locally(form, query, *dirty, mask(), **options), (context, weights))


@pytest.mark.parametrize("form", FORMS)
def test_gradients_are_those_of_finite_differences(form):
    # No centre is a whole number here: where a key enters or leaves the window there is no derivative.
    leaves = (*inputs(requires_grad=True), (centres("real") + 0.05).requires_grad_())

    def run(query, key, value, positions):
        return FORMS[form](query, key, value, mask(), positions=positions, radius=3, gaussian=True)

    assert gradcheck(run, leaves)


@pytest.mark.parametrize("form", FORMS)
def test_the_gradient_reaches_the_positions_through_the_gaussian_alone(form):
    query, key, value = inputs()
    positions = centres("real").requires_grad_()
    context, _ = FORMS[form](query, key, value, mask(), positions=positions, radius=3, gaussian=False)
    assert not context.requires_grad
    context, _ = FORMS[form](query, key, value, mask(), positions=positions, radius=3, gaussian=True)
    (given,) = torch.autograd.grad(context.sum(), positions)
    _, soft = local_attention(query, key, value, mask(), positions=positions, radius=3, gaussian=False)
    distance = torch.arange(KEYS) - positions.detach()[..., None]
    slope = distance / 1.5**2 * torch.exp(-(distance**2) / (2 * 1.5**2))
    torch.testing.assert_close(given, (soft * slope * value.sum(dim=-1)[:, None]).sum(dim=-1))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("batches", [((), (), ()), ((3,), (), ()), ((), (3,), (3,)), ((2, 1), (3,), (3,))])
@pytest.mark.parametrize("position_batch", [(), "pairs"])
def test_batch_axes_broadcast(form, batches, position_batch):
    query, key, value = (
        normal(*batch, length, width, seed=seed)
        for seed, (batch, length, width) in enumerate(
            zip(batches, (QUERIES, KEYS, KEYS), (D, D, D_VALUE), strict=True)
        )
    )
    batch = torch.broadcast_shapes(*batches)
    positions = normal(*(batch if position_batch else ()), QUERIES, seed=9) * 5
    given = attend_locally(form, query, key, value, positions=positions, radius=2, gaussian=True)
    wide = [tensor.expand(*batch, *tensor.shape[-2:]) for tensor in (query, key, value)]
    expected = local_attention(*wide, positions=positions.expand(*batch, QUERIES), radius=2, gaussian=True)
    torch.testing.assert_close(given, expected)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("queries", "keys"), [(0, 5), (3, 0), (0, 0), (1, 1), (3, 1), (1, 5)])
def test_lengths_0_and_1(form, queries, keys):
    query, key, value = normal(2, queries, 3), normal(2, keys, 3, seed=1), normal(2, keys, 7, seed=2)
    given_mask = padding_mask(torch.tensor([keys, 0]), keys)
    for m in (None, given_mask):
        context, weights = attend_locally(
            form, query, key, value, m, positions=torch.zeros(queries), radius=1, gaussian=True
        )
        assert context.shape == (2, queries, 7)
        assert weights.shape == (2, queries, keys)
        if keys == 1:
            torch.testing.assert_close(context[0], value[0].expand(queries, 7))
        if m is not None:
            assert not context[1].any()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("batch", [(), (3,)])
def test_with_no_key_the_context_is_0_and_has_all_batch_axes(form, batch):
    query, key, value = normal(*batch, QUERIES, D), normal(0, D), normal(3, 0, D_VALUE)
    positions = torch.zeros(*batch, QUERIES)
    context, _ = FORMS[form](query, key, value, positions=positions, radius=1, gaussian=True)
    assert torch.equal(context, torch.zeros(3, QUERIES, D_VALUE, dtype=torch.float64))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_dtype_and_device_are_kept_and_far_positions_are_exact(form, dtype, device):
    length = 3001
    query, key = (torch.ones(1, length, 1, dtype=dtype, device=device) for _ in range(2))
    value = torch.arange(length, device=device).remainder(7).to(dtype).unsqueeze(-1)[None]
    positions = torch.arange(length, device=device)
    context, weights = FORMS[form](query, key, value, positions=positions, radius=0, gaussian=False)
    assert context.dtype == weights.dtype == dtype
    assert context.device == weights.device == query.device
    assert torch.equal(context, value)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_near_full_precision(dtype):
    options = {"positions": centres("real"), "radius": 3, "gaussian": True}
    expected = local_attention(*inputs(), mask(), **options)
    for form in FORMS:
        given = attend_locally(form, *inputs(dtype=dtype), mask(), **options)
        for left, right in zip(given, expected, strict=True):
            assert (left.double() - right).abs().max() < 40 * torch.finfo(dtype).eps


def test_local_attention_does_not_change_its_inputs():
    given = (*inputs(), mask(), centres("real"))
    before = [tensor.clone() for tensor in given]
    for form in FORMS.values():
        form(*given[:4], positions=given[4], radius=2, gaussian=True)
    assert all(torch.equal(left, right) for left, right in zip(before, given, strict=True))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("radius", "gaussian", "least"), [(-1, False, 0), (0, True, 1), (-1, True, 1)])
def test_local_attention_refuses_a_small_radius(form, radius, gaussian, least):
    message = rf"^radius must be at least {least} with gaussian={gaussian}, but is {radius}$"
    with pytest.raises(ValueError, match=message):
        FORMS[form](*inputs(), positions=torch.arange(QUERIES), radius=radius, gaussian=gaussian)


@pytest.mark.usefixtures("no_shape_checks")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"positions": torch.zeros(1)}, "^positions needs one position for each query, 7, but has 1$"),
        (
            {"value": torch.zeros(3, 10, 2)},
            "^key and value need the same number of keys, but have 11 and 10$",
        ),
        (
            {"mask": torch.ones(3, 1, 11)},
            "^mask must be boolean, with True where the key is a real token, but its dtype is torch.float32$",
        ),
        (
            {"mask": torch.ones(3, 7, 11, dtype=torch.bool)},
            r"^local attention takes a mask with one row for all queries, \(\.\.\., 1, 11\), "
            r"but its shape is \(3, 7, 11\)$",
        ),
        (
            {"mask": torch.ones(3, 1, 10, dtype=torch.bool)},
            r"^local attention takes a mask with one row for all queries, \(\.\.\., 1, 11\), "
            r"but its shape is \(3, 1, 10\)$",
        ),
    ],
)
def test_local_attention_refuses_what_does_not_fit(form, change, message):
    query, key, value = inputs()
    given = {"query": query, "key": key, "value": value, "positions": torch.zeros(QUERIES)} | change
    with pytest.raises(ValueError, match=message):
        FORMS[form](**given, radius=1, gaussian=True)


def test_the_gathered_form_makes_no_tensor_of_all_pairs():
    """The largest tensor that it makes holds the keys of all windows, 2D+1 for each query."""
    length, radius, width = 509, 3, 2
    sizes = []

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, arguments=(), options=None):
            result = function(*arguments, **(options or {}))
            sizes.extend(t.numel() for t in [result] if isinstance(t, torch.Tensor))
            return result

    query, key, value = (normal(1, length, width, seed=seed) for seed in range(3))
    with Watch():
        gathered_local_attention(
            query, key, value, positions=torch.arange(length), radius=radius, gaussian=True
        )
    assert max(sizes) == length * (2 * radius + 1) * width


def test_window_positions():
    positions = torch.tensor([[0.0, 2.4, 2.6], [-1.2, 7.0, 3.0]])
    assert window_positions(positions, radius=1).tolist() == [
        [[-1, 0, 1], [1, 2, 3], [2, 3, 4]],
        [[-2, -1, 0], [6, 7, 8], [2, 3, 4]],
    ]
    assert window_positions(torch.tensor([5]), radius=2).tolist() == [[3, 4, 5, 6, 7]]
    assert window_positions(torch.tensor([5.4]), radius=0).tolist() == [[5]]
    assert window_positions(positions, radius=0).dtype == torch.int64


def test_window_positions_hold_every_key_of_the_window():
    positions = torch.linspace(-3, 9, 97)
    for radius in (0, 1, 4):
        for centre, row in zip(positions.tolist(), window_positions(positions, radius=radius), strict=True):
            assert {s for s in range(-9, 20) if abs(s - centre) <= radius} <= set(row.tolist())


def test_window_positions_refuse_a_negative_radius():
    with pytest.raises(ValueError, match=r"^radius must be at least 0, but is -1$"):
        window_positions(torch.zeros(3), radius=-1)


def test_predicted_positions_by_loops():
    query, weight, vector = normal(BATCH, QUERIES, D), normal(HIDDEN, D, seed=1), normal(HIDDEN, seed=2)
    given = predicted_positions(query, torch.tensor(LENGTHS), weight=weight, vector=vector)
    assert given.shape == (BATCH, QUERIES)
    for b, q in itertools.product(range(BATCH), range(QUERIES)):
        hidden = [math.tanh(dot(row, query[b, q].tolist())) for row in weight.tolist()]
        expected = LENGTHS[b] / (1 + math.exp(-dot(vector.tolist(), hidden)))
        assert given[b, q].item() == pytest.approx(expected)


@pytest.mark.parametrize("batch", [(), (2, 3)])
def test_predicted_positions_take_any_batch_axes(batch):
    lengths = torch.arange(4, 4 + math.prod(batch)).reshape(batch)
    zeros = torch.zeros(HIDDEN, dtype=torch.float64)
    given = predicted_positions(
        normal(*batch, QUERIES, D), lengths, weight=normal(HIDDEN, D, seed=1), vector=zeros
    )
    assert torch.equal(given, (lengths / 2).double()[..., None].expand(*batch, QUERIES))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_predicted_positions_are_as_fine_as_float32(dtype):
    given = predicted_positions(
        normal(1, 1, D, dtype=dtype),
        torch.tensor([4097]),
        weight=normal(HIDDEN, D, seed=1, dtype=dtype),
        vector=torch.zeros(HIDDEN, dtype=dtype),
    )
    assert given.dtype == torch.float32
    assert given.item() == 2048.5


def test_predicted_positions_gradients():
    leaves = tuple(
        normal(*shape, seed=seed, requires_grad=True)
        for seed, shape in enumerate([(2, 3, D), (HIDDEN, D), (HIDDEN,)])
    )
    lengths = torch.tensor([4, 0])
    assert gradcheck(lambda q, w, v: predicted_positions(q, lengths, weight=w, vector=v), leaves)


@pytest.mark.usefixtures("no_shape_checks")
@pytest.mark.parametrize("shape", [(HIDDEN, 4), (12, D), (D, HIDDEN)])
def test_predicted_positions_refuse_a_weight_that_does_not_fit(shape):
    message = rf"^weight must have shape \(13, 5\) here, but has shape \({shape[0]}, {shape[1]}\)$"
    with pytest.raises(ValueError, match=message):
        predicted_positions(
            normal(2, 3, D), torch.tensor([1, 1]), weight=torch.zeros(shape), vector=torch.zeros(HIDDEN)
        )


# The holders of parameters


def score_by_loops(module, query, key):
    if module.kind == "dot":
        return dot(query, key)
    if module.kind == "general":
        return math.fsum(q * dot(row, key) for q, row in zip(query, module.weight.tolist(), strict=True))
    rows = zip(module.weight.tolist(), module.vector.tolist(), strict=True)
    return math.fsum(v * math.tanh(dot(row, query + key)) for row, v in rows)


WIDTHS = {"dot": (5, 5, None), "general": (3, 5, None), "concat": (3, 5, 13)}


def holder(kind, factory=GlobalAttention, **options):
    d_query, d_key, hidden = WIDTHS[kind]
    hidden = hidden if kind == "concat" else None
    torch.manual_seed(0)
    return factory(kind, d_query=d_query, d_key=d_key, hidden=hidden, **options).double()


@pytest.mark.parametrize("kind", WIDTHS)
def test_global_attention_by_loops(kind):
    module = holder(kind)
    query, key = normal(BATCH, QUERIES, WIDTHS[kind][0], seed=1), normal(BATCH, KEYS, D, seed=2)
    value = normal(BATCH, KEYS, D_VALUE, seed=3)
    context, weights = module(query, key, value, mask())
    for b, q in itertools.product(range(BATCH), range(QUERIES)):
        scores = [score_by_loops(module, query[b, q].tolist(), key[b, s].tolist()) for s in range(LENGTHS[b])]
        total = math.fsum(map(math.exp, scores)) or 1.0
        expected = [math.exp(score) / total for score in scores] + [0.0] * (KEYS - LENGTHS[b])
        assert weights[b, q].tolist() == pytest.approx(expected)
        by_hand = [dot(expected, value[b, :, d].tolist()) for d in range(D_VALUE)]
        assert context[b, q].tolist() == pytest.approx(by_hand)


@pytest.mark.parametrize("kind", WIDTHS)
def test_global_attention_without_a_mask_sees_all_keys(kind):
    query, key = normal(BATCH, QUERIES, WIDTHS[kind][0], seed=1), normal(BATCH, KEYS, D, seed=2)
    _, weights = holder(kind)(query, key, normal(BATCH, KEYS, D_VALUE))
    assert (weights > 0).all()
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(BATCH, QUERIES, dtype=torch.float64))


PARAMETERS = {
    "dot": {},
    "general": {"weight": ((3, 5), 5)},
    "concat": {"weight": ((13, 8), 8), "vector": ((13,), 13)},
}


@pytest.mark.parametrize("kind", WIDTHS)
@pytest.mark.parametrize("local", [False, True])
def test_parameters_have_the_shapes_and_bounds_of_linear_layers(kind, local):
    module = holder(kind, PredictiveAttention, radius=2) if local else holder(kind)
    d_query = WIDTHS[kind][0]
    positions = {"position_weight": ((d_query,) * 2, d_query), "position_vector": ((d_query,), d_query)}
    expected = PARAMETERS[kind] | (positions if local else {})
    given = dict(module.named_parameters())
    assert {name: tuple(p.shape) for name, p in given.items()} == {n: s for n, (s, _) in expected.items()}
    for name, (_, width) in expected.items():
        assert given[name].requires_grad
        assert 0.3 / math.sqrt(width) < given[name].abs().max() <= 1 / math.sqrt(width)


def test_concat_is_as_wide_as_the_query_if_not_told_otherwise():
    module = GlobalAttention("concat", d_query=3, d_key=5)
    assert module.weight.shape == (3, 8)
    assert module.vector.shape == (3,)


def test_holders_refuse_an_unknown_kind_and_two_widths_for_dot(no_shape_checks):
    with pytest.raises(ValueError, match=r"^kind must be one of dot, general, concat, but is 'cosine'$"):
        GlobalAttention("cosine", d_query=3, d_key=5)
    with pytest.raises(
        ValueError, match=r'^"dot" needs d_query and d_key to be equal, but they are 3 and 5$'
    ):
        GlobalAttention("dot", d_query=3, d_key=5)


@pytest.mark.parametrize("kind", WIDTHS)
def test_predictive_attention_is_local_p(kind):
    radius = 2
    module = holder(kind, PredictiveAttention, radius=radius)
    d_query = WIDTHS[kind][0]
    query, key = normal(BATCH, QUERIES, d_query, seed=1), normal(BATCH, KEYS, D, seed=2)
    value = normal(BATCH, KEYS, D_VALUE, seed=3)
    context, weights = module(query, key, value, torch.tensor(LENGTHS))
    w, v = module.position_weight.tolist(), module.position_vector.tolist()
    positions = [
        [length / (1 + math.exp(-dot(v, [math.tanh(dot(row, q)) for row in w]))) for q in rows]
        for length, rows in zip(LENGTHS, query.tolist(), strict=True)
    ]
    expected = local_by_loops(
        query.tolist(),
        key.tolist(),
        value.tolist(),
        LENGTHS,
        positions,
        radius,
        True,
        score=partial(score_by_loops, module),
    )
    torch.testing.assert_close((context, weights), expected)


def test_predictive_attention_trains_every_parameter_and_survives_an_empty_source():
    module = holder("concat", PredictiveAttention, radius=2)
    query, key, value = normal(BATCH, QUERIES, 3), normal(BATCH, KEYS, D), normal(BATCH, KEYS, D_VALUE)
    context, _ = module(query, key, value, torch.tensor(LENGTHS))
    assert not context[2].any()
    context.square().sum().backward()
    for parameter in module.parameters():
        assert parameter.grad.isfinite().all()
        assert parameter.grad.ne(0).any()


# Compiling and mapping


@pytest.mark.parametrize("form", FORMS)
def test_vmap_over_local_attention(form):
    query, key, value = inputs()
    positions = centres("real")

    def run(query, key, value, mask, positions):
        return FORMS[form](query, key, value, mask, positions=positions, radius=2, gaussian=True)

    mapped = torch.vmap(run)(query, key, value, mask(), positions)
    torch.testing.assert_close(mapped, run(query, key, value, mask(), positions))


@pytest.mark.parametrize("keys", [0, 11])
def test_positions_may_have_batch_axes_of_their_own(keys):
    shapes = {"query": (7, 5), "key": (keys, 5), "value": (keys, 3)}
    query, key, value = (
        torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        for seed, shape in enumerate(shapes.values())
    )
    positions = 10 * torch.rand(2, 3, 7, generator=torch.Generator().manual_seed(3))
    options = {"radius": 2, "gaussian": True}
    for form in (local_attention, gathered_local_attention):
        context, weights = form(query, key, value, positions=positions, **options)
        assert context.shape == (2, 3, 7, 3)
        assert weights.shape[:3] == (2, 3, 7)
        for row in range(2):
            for column in range(3):
                alone, _ = form(query, key, value, positions=positions[row, column], **options)
                torch.testing.assert_close(context[row, column], alone)


def test_a_hidden_width_is_for_concat_alone(no_shape_checks):
    with pytest.raises(ValueError, match=r'^only "concat" has a hidden layer, but hidden is 3 with'):
        GlobalAttention("general", d_query=2, d_key=2, hidden=3)


def test_a_large_temperature_does_not_change_the_draw_of_gumbel():
    scores = torch.zeros(20_000, 5)
    draws = [
        straight_through_gumbel(scores, temperature=temperature, generator=torch.Generator().manual_seed(0))
        for temperature in (1.0, 1e8)
    ]
    assert torch.equal(*draws)


def test_each_loss_belongs_to_one_log_probability(no_shape_checks):
    message = r"^log_probability must have shape .*16.* here, but has shape \(16, 1\)$"
    with pytest.raises(ValueError, match=message):
        score_function_loss(torch.zeros(16), torch.zeros(16, 1))


def test_gumbel_gives_masked_keys_no_gradient_and_rows_without_a_key_no_weight():
    mask = torch.ones(2, 3, 5, dtype=torch.bool)
    mask[0, 1] = False
    mask[1, :, 3] = False
    scores = torch.zeros(2, 3, 5, requires_grad=True)
    weights = straight_through_gumbel(scores, mask, generator=torch.Generator().manual_seed(0))
    assert torch.equal(weights.sum(dim=-1), mask.any(dim=-1).float())
    (weights * torch.arange(5.0)).sum().backward()
    assert not scores.grad[~mask].any()
    assert scores.grad[1, :, :3].all()


def test_the_vector_that_predicts_positions_has_one_axis(no_shape_checks):
    with pytest.raises(ValueError, match=r"^vector must have shape \(2,\) here, but has shape \(2, 1\)$"):
        predicted_positions(
            torch.zeros(1, 5, 3), torch.tensor([4]), weight=torch.zeros(2, 3), vector=torch.zeros(2, 1)
        )
