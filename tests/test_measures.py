"""Measures by hand and by their definitions."""

import functools
import math
import random

import pytest
import torch

from attncourse import measures, tasks
from attncourse.tasks import END


def test_tokens_up_to_the_first_end():
    tokens = torch.tensor([[5, 6, 2, 2], [2, 5, 2, 7], [5, 6, 7, 8]])
    assert measures.until_end(tokens, end=END) == [[5, 6], [], [5, 6, 7, 8]]


def test_exact_match_counts_the_end_and_nothing_after_it():
    target = torch.tensor(
        [[5, 6, 2, 0], [5, 6, 2, 0], [5, 2, 0, 0], [5, 6, 7, 2], [2, 0, 0, 0], [5, 6, 7, 2]]
    )
    predicted = torch.tensor(
        [
            [5, 6, 2, 2, 2],  # right, filled up with ends
            [5, 6, 0, 2, 2],  # one token too many
            [5, 2, 9, 9, 9],  # right; what follows the end does not count
            [5, 6, 7, 8, 8],  # wrong at the end
            [2, 2, 2, 2, 2],  # right: nothing to say
            [5, 6, 2, 2, 2],  # too short
        ]
    )
    expected = [True, False, True, False, True, False]
    assert measures.exact_match(predicted, target, end=END).tolist() == expected
    assert measures.exact_match(target, predicted, end=END).tolist() == expected
    cut = torch.tensor([[5, 6, 7]])
    assert measures.exact_match(cut, target[3:4], end=END).tolist() == [False]
    assert measures.exact_match(target[:0], predicted[:0], end=END).tolist() == []


def test_exact_match_takes_a_target_as_tasks_make_it(device):
    batch = tasks.copying(5, (2, 7), symbols=5, generator=torch.Generator().manual_seed(0)).to(device)
    target = batch.target[:, 1:]
    assert measures.exact_match(target, target, end=END).all()
    assert not measures.exact_match(target.flip(0), target, end=END).all()


def test_exact_match_refuses_other_numbers_of_sequences(no_shape_checks):
    with pytest.raises(ValueError, match=r"but have \(2, 3\) and \(1, 3\)"):
        measures.exact_match(torch.zeros(2, 3), torch.zeros(1, 3), end=END)


@functools.cache
def edits(one, other):
    """Levenshtein's distance by its recursive definition."""
    if not one or not other:
        return len(one) + len(other)
    return min(
        edits(one[1:], other) + 1,
        edits(one, other[1:]) + 1,
        edits(one[1:], other[1:]) + (one[0] != other[0]),
    )


def test_edit_distance_is_the_recursive_definition():
    draw = random.Random(0)
    for _ in range(200):
        one, other = ("".join(draw.choices("abc", k=draw.randrange(8))) for _ in range(2))
        assert measures.edit_distance(one, other) == edits(one, other)
    assert measures.edit_distance("kitten", "sitting") == 3
    assert measures.edit_distance([3, 4, 5], [4, 5]) == 1
    assert measures.edit_distance("", []) == 0


def test_edit_rate_is_over_all_tokens():
    assert measures.edit_rate([[5, 6], [7]], [[5, 6, 8], [9]]) == 2 / 4
    assert measures.edit_rate(["aaaa"], ["b"]) == 4.0
    with pytest.raises(ValueError, match="needs a target, but there are 1 and 2"):
        measures.edit_rate(["a"], ["a", "b"])
    with pytest.raises(ValueError, match="at least one token, but are all empty"):
        measures.edit_rate(["a"], [""])


def test_bleu_by_hand():
    # One sentence of 6 tokens with 1 wrong at its end: n-grams 5/6, 4/5, 3/4, 2/3; no brevity penalty.
    score = measures.bleu(["one two three four five seven"], ["one two three four five six"])
    assert score == pytest.approx(100 * (5 / 6 * 4 / 5 * 3 / 4 * 2 / 3) ** 0.25)
    # All n-grams right, 5 tokens for 6: only the brevity penalty is left.
    short = measures.bleu(["one two three four five"], ["one two three four five six"])
    assert short == pytest.approx(100 * math.exp(1 - 6 / 5))
    with pytest.raises(ValueError, match="needs a target, but there are 1 and 0"):
        measures.bleu(["a"], [])
    with pytest.raises(ValueError, match="at least one prediction"):
        measures.bleu([], [])


def test_over_seeds_gives_every_run_and_how_far_they_lie_apart():
    spread = measures.over_seeds(lambda seed: torch.tensor([seed, seed**2, -1]), range(1, 5))
    assert spread.runs.tolist() == [[1, 1, -1], [2, 4, -1], [3, 9, -1], [4, 16, -1]]
    assert spread.median.tolist() == [2.5, 6.5, -1]
    assert spread.lowest.tolist() == [1, 1, -1] and spread.highest.tolist() == [4, 16, -1]
    assert measures.over_seeds(float, [7]).median.item() == 7.0


@pytest.mark.parametrize(("seeds", "came"), [([], r"\[\]"), ([1, 2], r"\[\(1,\), \(2,\)\]")])
def test_over_seeds_needs_one_shape(seeds, came):
    with pytest.raises(ValueError, match=f"at least one seed, but got shapes {came}"):
        measures.over_seeds(torch.zeros, seeds)
