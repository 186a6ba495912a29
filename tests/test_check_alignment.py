"""What only the checks of the set `alignment` have to show."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import attncourse.alignment as library
import attncourse.qkv as qkv
from attncourse.checks.alignment import (
    ADDITIVE_SCORES,
    BAHDANAU_STEP,
    CONTEXT_VECTOR,
    LUONG_STEP,
    MONOTONIC_WEIGHTS,
    PADDED_SOFTMAX,
    check_additive_scores,
    check_bahdanau_step,
    check_luong_step,
    check_padded_softmax,
)
from attncourse.checks.judge import CheckFailed, judge
from attncourse.masks import padding_mask

DTYPES = (torch.float32, torch.float64)
GENERATOR = torch.Generator().manual_seed(0)
BATCH, LENGTH, D_STATE, D_INPUT, D_SOURCE = 3, 5, 7, 2, 4


def normal(*shape):
    return torch.randn(shape, generator=GENERATOR, dtype=torch.float64)


# --- The oracles agree with PyTorch. ---


def test_additive_scores_are_two_linear_layers():
    state, states, w, u, v = normal(3, 7), normal(3, 5, 4), normal(6, 7), normal(6, 4), normal(6)
    expected = F.linear(torch.tanh(F.linear(state, w)[:, None] + F.linear(states, u)), v[None])[..., 0]
    torch.testing.assert_close(ADDITIVE_SCORES.oracle(state, states, w, u, v), expected)


def test_padded_softmax_is_the_softmax_of_each_sentence_alone():
    scores, lengths = normal(3, 5), torch.tensor([5, 2, 0])
    weights = PADDED_SOFTMAX.oracle(scores, lengths)
    for row, e, n in zip(weights, scores, lengths, strict=True):
        torch.testing.assert_close(row, F.pad(e[:n].softmax(dim=0), (0, 5 - int(n))))


def test_one_step_is_that_of_a_gru_cell():
    cell = nn.GRUCell(D_INPUT + D_SOURCE, D_STATE).double()
    weight = normal(D_STATE, D_SOURCE)
    state, inputs, states = normal(BATCH, D_STATE), normal(BATCH, D_INPUT), normal(BATCH, LENGTH, D_SOURCE)

    def score(state, states):
        return torch.einsum("bd,de,bje->bj", state, weight, states)

    lengths = torch.full((BATCH,), LENGTH)
    new, context, weights = BAHDANAU_STEP.oracle(cell, score, state, inputs, states, lengths)
    torch.testing.assert_close(weights, score(state, states).softmax(dim=1))
    torch.testing.assert_close(context, torch.bmm(weights[:, None], states)[:, 0])
    torch.testing.assert_close(new, cell(torch.cat([inputs, context], dim=1), state))


def test_monotonic_weights_are_the_frequencies_of_stops():
    stops, old, draws = (
        torch.tensor([0.3, 0.6, 0.2, 0.9, 0.5]),
        torch.tensor([0.4, 0.1, 0.3, 0.2, 0.0]),
        20_000,
    )
    place = torch.multinomial(old, draws, replacement=True, generator=GENERATOR)
    stopped = torch.zeros(draws, dtype=torch.bool)
    counts = torch.zeros(5)
    for j in range(5):
        stops_here = (place <= j) & ~stopped & (torch.rand(draws, generator=GENERATOR) < stops[j])
        counts[j], stopped = stops_here.sum(), stopped | stops_here
    weights = MONOTONIC_WEIGHTS.oracle(stops[None], old[None])[0]
    torch.testing.assert_close(counts / draws, weights, atol=0.02, rtol=0.0)


# --- The library passes, and is refused where it is the answer. ---


def score_of_library(score):
    """Make the library's score, of many queries, from one of a single state."""
    return lambda query, key: score(query.squeeze(1), key).unsqueeze(1)


def additive_scores(state, states, state_weight, states_weight, vector):
    parameters = {"query_weight": state_weight, "key_weight": states_weight, "vector": vector}
    return qkv.additive_scores(state.unsqueeze(1), states, **parameters).squeeze(1)


def padded_softmax(scores, lengths):
    return qkv.masked_softmax(scores.unsqueeze(1), padding_mask(lengths, scores.shape[1])).squeeze(1)


def context_vector(weights, states):
    return qkv.weighted_sum(weights.unsqueeze(1), states).squeeze(1)


def bahdanau_step(cell, score, state, inputs, states, lengths):
    mask, score = padding_mask(lengths, states.shape[1]), score_of_library(score)
    return tuple(library.bahdanau_step(cell, state, inputs, states, states, mask, score=score))


def luong_step(cell, score, weight, state, inputs, states, lengths):
    mask, score = padding_mask(lengths, states.shape[1]), score_of_library(score)
    state, context, weights = library.luong_step(cell, state, inputs, states, states, mask, score=score)
    return state, library.attentional_state(context, state, weight=weight), weights


LIBRARY = [
    (ADDITIVE_SCORES, additive_scores),
    (PADDED_SOFTMAX, padded_softmax),
    (CONTEXT_VECTOR, context_vector),
    (BAHDANAU_STEP, bahdanau_step),
    (LUONG_STEP, luong_step),
]


@pytest.mark.parametrize(("task", "function"), LIBRARY)
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_library_passes_the_checks(task, function, dtype):
    judge(task, function, seed=0, dtype=dtype, refuse_shortcuts=False)


@pytest.mark.parametrize(
    ("check", "function", "module"),
    [
        (check_additive_scores, additive_scores, "qkv"),
        (check_padded_softmax, padded_softmax, "qkv"),
        (check_bahdanau_step, bahdanau_step, "alignment"),
        (check_luong_step, luong_step, "alignment"),
    ],
)
def test_the_library_is_refused_where_it_is_the_answer(check, function, module):
    with pytest.raises(CheckFailed, match=rf"attncourse\.{module}\.\w+ belongs to the course's library"):
        check(function)


def test_a_mask_of_the_library_is_a_building_block():
    def padded_softmax(scores, lengths):
        mask = padding_mask(lengths, scores.shape[1]).squeeze(1)
        return scores.masked_fill(~mask, -torch.inf).softmax(dim=1).masked_fill(~mask, 0.0)

    check_padded_softmax(padded_softmax)


def test_monotonic_weights_take_the_place_of_a_softmax_in_attend():
    query, key, value = (
        normal(BATCH, 1, D_STATE),
        normal(BATCH, LENGTH, D_STATE),
        normal(BATCH, LENGTH, D_SOURCE),
    )
    old = normal(BATCH, LENGTH).softmax(dim=1)

    def normalise(scores, mask):
        return MONOTONIC_WEIGHTS.oracle(scores.sigmoid().squeeze(1), old).unsqueeze(1)

    context, weights = qkv.attend(query, key, value, normalise=normalise)
    torch.testing.assert_close(context, weights @ value)
    assert (weights.sum(dim=-1) < 1).all()


# --- Mistakes that nobody listed. ---


def step_with_gradient_lost(cell, score, state, inputs, states, lengths):
    new, context, weights = BAHDANAU_STEP.oracle(cell, score, state, inputs, states, lengths)
    return new, context.detach(), weights


def luong_with_context_of_all_positions(cell, score, weight, state, inputs, states, lengths):
    new, _, weights = LUONG_STEP.oracle(cell, score, weight, state, inputs, states, lengths)
    context = score(new, states).softmax(dim=1).unsqueeze(1) @ states
    return new, torch.tanh(torch.cat([context.squeeze(1), new], dim=1) @ weight.mT), weights


def monotonic_in_logarithms(stops, previous):
    passed = F.pad((1 - stops[:, :-1]).log(), (1, 0)).cumsum(dim=1)
    table = (passed[:, None] - passed[:, :, None]).exp().triu()
    return stops * (previous.unsqueeze(1) @ table).squeeze(1)


UNNAMED = [
    (ADDITIVE_SCORES, lambda *inputs: 1.0001 * ADDITIVE_SCORES.oracle(*inputs)),
    (ADDITIVE_SCORES, lambda s, h, w, u, v: ADDITIVE_SCORES.oracle(s.detach(), h, w, u, v)),
    (PADDED_SOFTMAX, lambda scores, lengths: PADDED_SOFTMAX.oracle(scores.clamp(-5, 5), lengths)),
    (PADDED_SOFTMAX, lambda scores, lengths: PADDED_SOFTMAX.oracle(scores, lengths.clamp(min=1))),
    (CONTEXT_VECTOR, lambda weights, states: CONTEXT_VECTOR.oracle(weights.clamp(min=0), states)),
    (CONTEXT_VECTOR, lambda weights, states: CONTEXT_VECTOR.oracle(weights, states).float().double()),
    (BAHDANAU_STEP, step_with_gradient_lost),
    (LUONG_STEP, luong_with_context_of_all_positions),
    (MONOTONIC_WEIGHTS, monotonic_in_logarithms),
    (MONOTONIC_WEIGHTS, lambda stops, previous: MONOTONIC_WEIGHTS.oracle(stops, previous.softmax(dim=1))),
]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("task", "wrong"), UNNAMED)
def test_a_mistake_that_nobody_listed_fails(task, wrong, seed):
    with pytest.raises(CheckFailed):
        judge(task, wrong, seed=seed, dtype=torch.float32, refuse_shortcuts=False)
