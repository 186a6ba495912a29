"""What only the checks of the set `taxonomy` have to show."""

import math

import pytest
import torch
from torch.nn import functional as F

import attncourse.qkv as qkv
import attncourse.taxonomy as library
from attncourse.checks.judge import CheckFailed, judge
from attncourse.checks.taxonomy import (
    HARD_ATTENTION,
    LOCAL_M_WEIGHTS,
    LOCAL_P_WEIGHTS,
    LUONG_SCORES,
    SCORE_FUNCTION_LOSS,
    SPAN_WEIGHTS,
    check_hard_attention,
    check_local_m_weights,
    check_luong_scores,
    check_score_function_loss,
)
from attncourse.masks import padding_mask, window_mask

DTYPES = (torch.float32, torch.float64)
GENERATOR = torch.Generator().manual_seed(0)


def normal(*shape):
    return torch.randn(shape, generator=GENERATOR, dtype=torch.float64)


# --- The oracles agree with PyTorch. ---


def test_the_oracle_draws_as_often_as_the_weights_say():
    weights = normal(1, 7).softmax(dim=-1)
    context, choices = HARD_ATTENTION.oracle(weights.expand(2000, -1), normal(7, 3), GENERATOR)
    torch.testing.assert_close(choices.mean(dim=0), weights[0], atol=0.005, rtol=0.0)
    assert context.shape == (2000, 3)


def test_the_expected_gradient_is_that_of_the_expected_loss():
    weights = normal(4).softmax(dim=0).requires_grad_()
    losses = normal(4)
    expected = torch.autograd.grad((weights * losses).sum(), weights)[0]
    estimate = torch.zeros(4, dtype=torch.float64)
    for i in range(4):
        for j in range(4):  # all pairs of two draws, each with its probability
            loss = SCORE_FUNCTION_LOSS.oracle(losses[[i, j], None], weights[[i, j], None].log())
            part = torch.autograd.grad(loss, weights)[0]
            estimate += (weights[i] * weights[j]).detach() * part
    # Along the simplex; the direction in which all weights grow has no meaning.
    torch.testing.assert_close(estimate - estimate.mean(), expected - expected.mean())


@pytest.mark.parametrize("kind", ["dot", "general", "concat"])
def test_the_three_scores_are_those_of_linear_layers(kind):
    query, key = normal(2, 5, 4), normal(2, 7, 4 if kind == "dot" else 3)
    both = torch.cat(
        [query.unsqueeze(2).expand(-1, -1, 7, -1), key.unsqueeze(1).expand(-1, 5, -1, -1)], dim=-1
    )
    weight, vector = (
        {"dot": None, "general": normal(4, 3), "concat": normal(6, both.shape[-1])}[kind],
        normal(6),
    )
    scores = LUONG_SCORES.oracle(query, key, kind, weight, vector)
    if kind == "concat":
        expected = F.linear(torch.tanh(F.linear(both, weight)), vector[None])[..., 0]
    else:
        expected = torch.bmm(query if kind == "dot" else query @ weight, key.mT)
    torch.testing.assert_close(scores, expected)


def test_local_m_is_attention_with_a_band_as_its_mask():
    scores, value = normal(9, 5), torch.eye(5, dtype=torch.float64)
    band = torch.ones(9, 5, dtype=torch.bool).triu(-2).tril(2)
    expected = F.scaled_dot_product_attention(scores, value, value, attn_mask=band, scale=1.0)
    torch.testing.assert_close(LOCAL_M_WEIGHTS.oracle(scores, 2), expected.nan_to_num(0.0))


def test_local_p_follows_a_normal_density():
    state, scores, weight, vector = normal(2, 3, 4), normal(2, 3, 7), normal(6, 4), normal(6)
    lengths = torch.tensor([7, 5])
    weights, positions = LOCAL_P_WEIGHTS.oracle(state, scores, lengths, weight, vector, 2)
    for b, t in ((0, 1), (1, 2)):
        centre = positions[b, t]
        seen = (torch.arange(7) - centre).abs().le(2) & (torch.arange(7) < lengths[b])
        soft = scores[b, t].masked_fill(~seen, -math.inf).softmax(dim=0)
        density = torch.distributions.Normal(centre, 1.0).log_prob(torch.arange(7.0)).exp()
        torch.testing.assert_close(weights[b, t], soft * density * math.sqrt(2 * math.pi))


def test_a_span_of_many_tokens_is_the_softmax_and_a_steep_ramp_is_a_window():
    scores = normal(6, 6)
    wide = SPAN_WEIGHTS.oracle(scores, torch.tensor(9.0), 2.0)
    torch.testing.assert_close(wide, scores.softmax(dim=-1))
    steep = SPAN_WEIGHTS.oracle(scores, torch.tensor(1.5), 0.1)
    torch.testing.assert_close(steep, qkv.masked_softmax(scores, window_mask(6, radius=1)))


# --- The library passes, and is refused where it is the answer. ---


def hard_attention(weights, value, generator):
    choices = library.hard_weights(weights, generator=generator).squeeze(0)
    return qkv.weighted_sum(choices, value), choices


def score_function_loss(losses, log_probability):
    # The library leaves the value of the losses as it is; the gradient is the same.
    baseline = library.leave_one_out(losses)
    shift = ((losses - baseline).detach() * log_probability.detach()).mean()
    return library.score_function_loss(losses, log_probability, baseline).mean() + shift


def luong_scores(query, key, kind, weight, vector):
    if kind == "general":
        return qkv.general_scores(query, key, weight=weight)
    return (
        qkv.dot_scores(query, key)
        if kind == "dot"
        else qkv.concat_scores(query, key, weight=weight, vector=vector)
    )


def local_attention(scores, mask, positions, radius, gaussian):
    key = torch.zeros(*scores.shape[:-2], scores.shape[-1], 1, dtype=scores.dtype)
    query = torch.zeros(*scores.shape[:-1], 1, dtype=scores.dtype)
    options = {
        "positions": positions,
        "radius": radius,
        "gaussian": gaussian,
        "score": lambda query, key: scores,
    }
    return library.local_attention(query, key, key, mask, **options)[1]


def local_m_weights(scores, radius):
    return local_attention(scores, None, torch.arange(scores.shape[-2]), radius, False)


def local_p_weights(state, scores, lengths, weight, vector, radius):
    positions = library.predicted_positions(state, lengths, weight=weight, vector=vector)
    mask = padding_mask(lengths, scores.shape[-1])
    return local_attention(scores, mask, positions, radius, True), positions


@pytest.mark.parametrize(
    ("task", "function"),
    [
        (HARD_ATTENTION, hard_attention),
        (SCORE_FUNCTION_LOSS, score_function_loss),
        (LUONG_SCORES, luong_scores),
        (LOCAL_M_WEIGHTS, local_m_weights),
        (LOCAL_P_WEIGHTS, local_p_weights),
    ],
)
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_library_passes_the_checks(task, function, dtype):
    judge(task, function, seed=0, dtype=dtype, refuse_shortcuts=False)


@pytest.mark.parametrize(
    ("check", "function", "module"),
    [
        (check_hard_attention, hard_attention, "taxonomy"),
        (check_score_function_loss, score_function_loss, "taxonomy"),
        (check_luong_scores, luong_scores, "qkv"),
        (check_local_m_weights, local_m_weights, "taxonomy"),
    ],
)
def test_the_library_is_refused_where_it_is_the_answer(check, function, module):
    with pytest.raises(CheckFailed, match=rf"attncourse\.{module}\.\w+ belongs to the course's library"):
        check(function)


def test_a_masked_softmax_of_the_library_is_a_building_block():
    def local_m_weights(scores, radius):
        targets, source = scores.shape[-2:]
        window = torch.ones(targets, source, dtype=torch.bool).triu(-radius).tril(radius)
        return qkv.masked_softmax(scores, window)

    check_local_m_weights(local_m_weights)


def test_a_learned_span_takes_the_place_of_a_softmax_in_attend():
    query, key, value = normal(2, 5, 4), normal(2, 5, 4), normal(2, 5, 3)

    def normalise(scores, mask):
        return SPAN_WEIGHTS.oracle(scores, torch.tensor(1.3), 2.0)

    context, weights = qkv.attend(query, key, value, normalise=normalise)
    torch.testing.assert_close(context, weights @ value)


# --- Mistakes that nobody listed. ---


def drawn_from_powers(weights, value, generator):
    return hard_attention(weights**1.5, value, generator)


def with_shared_numbers(shape):
    """Build a version that uses the same random number for several queries."""

    def version(weights, value, generator):
        number = torch.rand(*shape(weights), 1, generator=generator, dtype=torch.float64)
        index = (weights.double().cumsum(dim=-1) <= number).sum(dim=-1).clamp(max=weights.shape[-1] - 1)
        choices = F.one_hot(index, weights.shape[-1]).to(weights)
        return choices @ value, choices

    return version


UNNAMED = [
    (HARD_ATTENTION, drawn_from_powers),
    (HARD_ATTENTION, with_shared_numbers(lambda weights: (*weights.shape[:-2], 1))),
    (HARD_ATTENTION, with_shared_numbers(lambda weights: weights.shape[-2:-1])),
    (SCORE_FUNCTION_LOSS, lambda losses, log_p: SCORE_FUNCTION_LOSS.oracle(losses, log_p.clamp(min=-1))),
    (SCORE_FUNCTION_LOSS, lambda losses, log_p: SCORE_FUNCTION_LOSS.oracle(losses.detach(), log_p)),
    (
        LUONG_SCORES,
        lambda q, k, kind, w, v: LUONG_SCORES.oracle(q, k, kind, w, v) * (1 if kind == "dot" else 2),
    ),
    (
        LUONG_SCORES,
        lambda q, k, kind, w, v: LUONG_SCORES.oracle(q, k, kind, w if w is None else w.detach(), v),
    ),
    (LOCAL_M_WEIGHTS, lambda scores, radius: LOCAL_M_WEIGHTS.oracle(scores, max(radius, 1))),
    (LOCAL_M_WEIGHTS, lambda scores, radius: LOCAL_M_WEIGHTS.oracle(scores.clamp(-5, 5), radius)),
    (LOCAL_P_WEIGHTS, lambda h, e, n, w, v, r: LOCAL_P_WEIGHTS.oracle(h, e, n, w, v, min(r, 2))),
    (LOCAL_P_WEIGHTS, lambda h, e, n, w, v, r: LOCAL_P_WEIGHTS.oracle(h.detach(), e, n, w, v, r)),
    (SPAN_WEIGHTS, lambda scores, span, ramp: SPAN_WEIGHTS.oracle(scores, span, 2.0)),
    (SPAN_WEIGHTS, lambda scores, span, ramp: SPAN_WEIGHTS.oracle(scores, span.clamp(max=1), ramp)),
]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("task", "wrong"), UNNAMED)
def test_a_mistake_that_nobody_listed_fails(task, wrong, seed):
    with pytest.raises(CheckFailed):
        judge(task, wrong, seed=seed, dtype=torch.float32, refuse_shortcuts=False)
