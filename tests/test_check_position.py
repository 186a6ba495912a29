"""The checks of the set `position`: their oracles are right, and mistakes that nobody listed fail."""

import functools
import math

import pytest
import torch
from torch.nn import functional as F

import attncourse.position as library
from attncourse.checks.judge import CheckFailed, judge
from attncourse.checks.position import (
    ALIBI_BIAS,
    LOG_DECAY_SCORES,
    PROJECT_CONCATENATED,
    ROTATE,
    SHAW_BIAS,
    SHIFT_MATRIX,
    SINUSOIDAL,
    check_rotate,
    check_shaw_bias,
    check_sinusoidal,
)
from tests.answers.position import answers

DTYPES = (torch.float32, torch.float64)


def shaw(query, table, past=0):
    return library.shaw_bias(query, table, past=past)


def alibi(heads, queries, past=0):
    return library.alibi_bias(heads, queries, past=past)


def rotate(inputs, start=0):
    return library.rotate(inputs, start=start)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("task", "function"),
    [
        (SINUSOIDAL, library.sinusoidal),
        (SHIFT_MATRIX, library.shift_matrix),
        (ROTATE, rotate),
        (SHAW_BIAS, shaw),
        (ALIBI_BIAS, alibi),
    ],
)
def test_the_library_passes_the_checks(task, function, dtype, capsys):
    judge(task, function, seed=0, dtype=dtype, refuse_shortcuts=False)
    assert f"✓ {task.name}: passed" in capsys.readouterr().out


def test_the_shift_moves_each_encoding():
    for offset in (-3, 0, 4):
        table, matrix = SINUSOIDAL.oracle(20, 6), SHIFT_MATRIX.oracle(offset, 6)
        torch.testing.assert_close(table[5:10] @ matrix.mT, table[5 + offset : 10 + offset])


def test_the_rotation_is_that_of_complex_numbers():
    inputs = torch.randn(2, 3, 5, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    angle = torch.arange(7, 12).unsqueeze(-1) * 10_000.0 ** (-torch.arange(4, dtype=torch.float64) / 4)
    turned = torch.view_as_complex(inputs.unflatten(-1, (4, 2))) * torch.polar(torch.ones_like(angle), angle)
    torch.testing.assert_close(ROTATE.oracle(inputs, 7), torch.view_as_real(turned).flatten(-2))


def test_the_projection_is_that_of_concatenated_vectors():
    generator = torch.Generator().manual_seed(0)
    inputs, table, weight = (
        torch.randn(shape, dtype=torch.float64, generator=generator) for shape in ((3, 5, 2), (8, 4), (7, 6))
    )
    both = torch.cat([inputs, table[:5].expand(3, 5, 4)], dim=-1)
    torch.testing.assert_close(PROJECT_CONCATENATED.oracle(inputs, table, weight), F.linear(both, weight))


def test_the_decay_is_that_of_a_broadcast():
    generator = torch.Generator().manual_seed(0)
    query, key, strength, rate = (
        torch.randn(shape, dtype=torch.float64, generator=generator)
        for shape in ((2, 3, 4, 5), (2, 3, 6, 5), (3, 1, 1), (3, 1, 1))
    )
    distance = library.relative_positions(4, past=2).abs()
    expected = query @ key.mT / math.sqrt(5) - F.softplus(strength) * torch.log1p(F.softplus(rate) * distance)
    scores = LOG_DECAY_SCORES.oracle(query, key, strength.flatten(), rate.flatten())
    torch.testing.assert_close(scores, expected)


@pytest.mark.parametrize(
    ("check", "function"),
    [(check_sinusoidal, library.sinusoidal), (check_rotate, rotate), (check_shaw_bias, shaw)],
)
def test_the_function_of_the_library_is_refused(check, function):
    with pytest.raises(CheckFailed, match="belongs to the course's library"):
        check(functools.partial(function))


def test_the_properties_of_a_rotation_are_tried_before_its_values():
    with pytest.raises(CheckFailed, match='stage "lengths are kept"'):
        check_rotate(lambda inputs, start=0: inputs * 2 if inputs.shape[-1] > 2 else rotate_by_hand(inputs))
    with pytest.raises(CheckFailed, match='stage "only the distance counts"'):
        check_rotate(rotated_by_the_square)
    with pytest.raises(CheckFailed, match='stage "two and three pairs"'):
        check_rotate(answers.find("rotate", "rotary-halves").function)


def rotate_by_hand(inputs, start=0):
    return answers.find("rotate").function(inputs, start)


def rotated_by_the_square(inputs, start=0):
    """Turn by the square of the position, except where there is only one pair."""
    if inputs.shape[-1] == 2:
        return rotate_by_hand(inputs, start)
    rows = [rotate_by_hand(inputs[..., i, None, :], (start + i) ** 2) for i in range(inputs.shape[-2])]
    return torch.cat(rows, dim=-2)


UNNAMED = [
    (SINUSOIDAL, lambda length, width: library.sinusoidal(length, width).abs()),
    (SINUSOIDAL, lambda length, width: library.sinusoidal(length, width, base=9999.0)),
    (SINUSOIDAL, lambda length, width: library.sinusoidal(min(length, 20), width)),
    (SHIFT_MATRIX, lambda offset, width: library.shift_matrix(abs(offset), width)),
    (SHIFT_MATRIX, lambda offset, width: library.shift_matrix(offset, width) + 1e-2 * torch.eye(width)),
    (ROTATE, lambda inputs, start=0: rotate(inputs.detach(), start)),
    (ROTATE, lambda inputs, start=0: rotate(inputs, start).float()),
    (ROTATE, lambda inputs, start=0: rotate(inputs, min(start, 1))),
    (SHAW_BIAS, lambda query, table, past=0: shaw(query, table.detach(), past)),
    (SHAW_BIAS, lambda query, table, past=0: shaw(query, table, past).tril(past)),
    (ALIBI_BIAS, lambda heads, queries, past=0: alibi(heads, queries, past) / 2),
    (ALIBI_BIAS, lambda heads, queries, past=0: alibi(heads, queries, past).expand(2, -1, -1, -1)[0, :8]),
    (PROJECT_CONCATENATED, lambda x, p, w: torch.zeros(*x.shape[:-1], len(w), dtype=x.dtype)),
    (LOG_DECAY_SCORES, lambda q, k, a, r: LOG_DECAY_SCORES.oracle(q, k, a, r.detach()).to(q.dtype)),
    (LOG_DECAY_SCORES, lambda q, k, a, r: LOG_DECAY_SCORES.oracle(q, k, a, r).tril(k.shape[2] - q.shape[2])),
]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("task", "wrong"), UNNAMED)
def test_a_mistake_that_nobody_listed_fails(task, wrong, seed):
    with pytest.raises(CheckFailed):
        judge(task, wrong, seed=seed, dtype=torch.float32, refuse_shortcuts=False)
