"""What only the checks of the set `seq2seq` have to show."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import attncourse.seq2seq as library
from attncourse.checks.judge import CheckFailed, judge
from attncourse.checks.seq2seq import (
    ASSERT_IGNORES_PADDING,
    ENCODE,
    GRADIENT_REACH,
    GREEDY_DECODE,
    GRU_STEP,
    HYPOTHESIS_SCORES,
    TOKEN_LOSS,
    check_gradient_reach,
    check_greedy_decode,
    check_gru_step,
    check_token_loss,
)
from attncourse.decoding import greedy
from attncourse.training import token_loss as library_loss

DTYPES = (torch.float32, torch.float64)
GENERATOR = torch.Generator().manual_seed(0)
BATCH, LENGTH, D_INPUT, D_STATE = 3, 6, 4, 5


def normal(*shape):
    return torch.randn(shape, generator=GENERATOR, dtype=torch.float64)


# --- The oracles agree with PyTorch. ---


def test_the_step_is_that_of_a_gru_cell():
    cell = nn.GRUCell(D_INPUT, D_STATE).double()
    inputs, state = normal(BATCH, D_INPUT), normal(BATCH, D_STATE)
    parameters = cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh
    torch.testing.assert_close(GRU_STEP.oracle(inputs, state, *parameters), cell(inputs, state))


def test_encoding_is_that_of_a_packed_sequence():
    gru = nn.GRU(D_INPUT, D_STATE, batch_first=True).double()
    cell = nn.GRUCell(D_INPUT, D_STATE).double()
    for mine, theirs in zip(cell.parameters(), gru.parameters(), strict=True):
        mine.data = theirs.data
    inputs, state, lengths = normal(BATCH, LENGTH, D_INPUT), normal(BATCH, D_STATE), torch.tensor([2, 6, 5])
    packed = pack_padded_sequence(inputs, lengths, batch_first=True, enforce_sorted=False)
    expected, last = gru(packed, state.unsqueeze(0))
    states, summary = ENCODE.oracle(cell, inputs, lengths, state)
    torch.testing.assert_close(states, pad_packed_sequence(expected, batch_first=True)[0])
    torch.testing.assert_close(summary, last[0])


def test_the_loss_is_the_cross_entropy_without_ignored_targets():
    logits, targets, lengths = (
        normal(BATCH, LENGTH, 7),
        torch.randint(7, (BATCH, LENGTH)),
        torch.tensor([4, 0, 6]),
    )
    ignored = targets.masked_fill(torch.arange(LENGTH) >= lengths[:, None], -100)
    expected = F.cross_entropy(logits.flatten(0, 1), ignored.flatten())
    torch.testing.assert_close(TOKEN_LOSS.oracle(logits, targets, lengths), expected)


def test_the_reach_is_the_norm_of_the_jacobian():
    weight, inputs = normal(D_STATE, D_INPUT), normal(LENGTH, D_INPUT)

    def read(inputs):
        return (inputs.cumsum(dim=0) @ weight.mT).tanh()

    jacobian = torch.func.jacrev(lambda x: read(x)[-1])(inputs)
    expected = torch.stack([jacobian[:, j].norm() for j in reversed(range(LENGTH))])
    torch.testing.assert_close(GRADIENT_REACH.oracle(read, inputs), expected)


def test_the_oracle_tells_right_encoders_from_wrong_ones():
    for dtype in DTYPES:
        seen = set()
        for case in ASSERT_IGNORES_PADDING.cases(torch.Generator().manual_seed(0), dtype):
            passes = case.call(ASSERT_IGNORES_PADDING.oracle, *case.inputs.values())
            assert passes == case.stage.startswith("a right encoder")
            seen.add(passes)
        assert seen == {True, False}


def test_the_score_of_a_hypothesis_by_hand():
    weights = torch.tensor([[[0.5, 0.5], [0.8, 0.2], [0.1, 0.9]]], dtype=torch.float64)
    score = HYPOTHESIS_SCORES.oracle(torch.tensor([-4.0]).double(), weights, torch.tensor([2]), 1.0, 0.1)
    # Two steps of three: the first position was read 1.3 times, the second 0.7 times.
    torch.testing.assert_close(score, -4 / (7 / 6) + 0.1 * torch.tensor([0.7]).double().log())


# --- The library passes, and is refused where it is the answer. ---


def token_loss(logits, targets, lengths):
    return library_loss(logits, targets, lengths)


def greedy_decode(step, state, start, end, padding, max_length):
    tokens = greedy(step, state, batch=len(state), start=start, end=end, max_length=max_length).tokens
    behind = (tokens == end).cumsum(dim=1) - (tokens == end).long() > 0
    return tokens.masked_fill(behind, padding)


def gradient_reach(read, inputs):
    return library.gradient_reach(lambda inputs: read(inputs[0])[None], inputs[None])[0]


@pytest.mark.parametrize(
    ("task", "function"),
    [(TOKEN_LOSS, token_loss), (GREEDY_DECODE, greedy_decode), (GRADIENT_REACH, gradient_reach)],
)
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_library_passes_the_checks(task, function, dtype):
    judge(task, function, seed=0, dtype=dtype, refuse_shortcuts=False)


@pytest.mark.parametrize(
    ("check", "function", "module"),
    [
        (check_token_loss, token_loss, "training"),
        (check_greedy_decode, greedy_decode, "decoding"),
        (check_gradient_reach, gradient_reach, "seq2seq"),
    ],
)
def test_the_library_is_refused_where_it_is_the_answer(check, function, module):
    with pytest.raises(CheckFailed, match=rf"attncourse\.{module}\.\w+ belongs to the course's library"):
        check(function)


def cell_of_pytorch(inputs, state, *parameters):
    return torch.gru_cell(inputs, state, *parameters)


def module_of_pytorch(inputs, state, *parameters):
    cell = nn.GRUCell(inputs.shape[1], state.shape[1]).to(inputs.dtype)
    names = [name for name, _ in cell.named_parameters()]
    return torch.func.functional_call(cell, dict(zip(names, parameters, strict=True)), (inputs, state))


@pytest.mark.parametrize("function", [cell_of_pytorch, module_of_pytorch])
def test_the_cell_of_pytorch_is_refused(function):
    with pytest.raises(CheckFailed, match="PyTorch's gru_cell does the whole task"):
        check_gru_step(function)


# --- Mistakes that nobody listed. ---


def step_without_gradient_of_the_gates(inputs, state, *parameters):
    detached = GRU_STEP.oracle(inputs, state.detach(), *parameters)
    return detached + 0 * state


def encoder_that_forgets_short_sentences(step, inputs, lengths, state):
    states, last = ENCODE.oracle(step, inputs, lengths, state)
    return states, last * (lengths > 1).unsqueeze(1)


def decoder_that_reads_the_first_row_only(step, state, start, end, padding, max_length):
    tokens = GREEDY_DECODE.oracle(step, state, start, end, padding, max_length)
    return tokens[:1].expand(len(tokens), -1).clone()


def nearly_the_same_padding(encode, inputs, lengths):
    real = (torch.arange(inputs.shape[1]) < lengths[:, None]).unsqueeze(2)
    states, summary = encode(inputs, lengths)
    new_states, new_summary = encode(torch.where(real, inputs, inputs + 1e-4), lengths)
    assert torch.allclose(states * real, new_states * real, atol=1e-5)
    assert torch.allclose(summary, new_summary, atol=1e-5)


UNNAMED = [
    (GRU_STEP, lambda *inputs: 1.0001 * GRU_STEP.oracle(*inputs)),
    (GRU_STEP, step_without_gradient_of_the_gates),
    (ENCODE, encoder_that_forgets_short_sentences),
    (ENCODE, lambda step, x, n, h: ENCODE.oracle(step, x, n.clamp(min=1), h)),
    (TOKEN_LOSS, lambda logits, targets, n: TOKEN_LOSS.oracle(logits.clamp(-50, 50), targets, n)),
    (TOKEN_LOSS, lambda logits, targets, n: TOKEN_LOSS.oracle(logits, targets.clamp(min=1), n)),
    (GREEDY_DECODE, decoder_that_reads_the_first_row_only),
    (GREEDY_DECODE, lambda *inputs: GREEDY_DECODE.oracle(*inputs)[:, :5]),
    (GRADIENT_REACH, lambda read, inputs: GRADIENT_REACH.oracle(read, inputs).cummin(dim=0).values),
    (GRADIENT_REACH, lambda read, inputs: GRADIENT_REACH.oracle(read, inputs).clamp(max=1)),
    (ASSERT_IGNORES_PADDING, nearly_the_same_padding),
    (HYPOTHESIS_SCORES, lambda p, a, n, alpha, beta: HYPOTHESIS_SCORES.oracle(p, a, n, 0.6, beta)),
    (HYPOTHESIS_SCORES, lambda p, a, n, *rest: HYPOTHESIS_SCORES.oracle(p, a.detach(), n, *rest)),
]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("task", "wrong"), UNNAMED)
def test_a_mistake_that_nobody_listed_fails(task, wrong, seed):
    with pytest.raises(CheckFailed):
        judge(task, wrong, seed=seed, dtype=torch.float32, refuse_shortcuts=False)


def states_in_float32(step, inputs, lengths, state):
    states, last = ENCODE.oracle(step, inputs, lengths, state)
    return states.float(), last.float()


def test_a_dtype_that_is_not_that_of_the_inputs_fails_in_the_first_check_already():
    with pytest.raises(CheckFailed, match=r'stage "in float64":\n.* has the wrong dtype'):
        judge(ENCODE, states_in_float32, seed=0, dtype=torch.float32, refuse_shortcuts=False)
