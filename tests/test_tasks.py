"""The data: each task against plain Python on lists, and what must hold for any data to learn from."""

import re
from collections import Counter

import pytest
import torch

from attncourse import tasks
from attncourse.tasks import END, FIRST_SYMBOL, PADDING, START, Batch

MADE = {
    "copying": tasks.copying,
    "reversal": tasks.reversal,
    "sorting": tasks.sorting,
    "associative recall": tasks.associative_recall,
    "selective copying": lambda *sizes, **options: tasks.selective_copying(*sizes, blanks=5, **options),
}


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def rows(batch):
    """Give sources and answers as lists, after a look at padding, start and end."""
    found = []
    for source, source_length, target, target_length in zip(*(t.tolist() for t in batch), strict=True):
        assert source[source_length:] == [PADDING] * (len(source) - source_length)
        assert target[target_length:] == [PADDING] * (len(target) - target_length)
        assert target[0] == START and target[target_length - 1] == END
        found.append((source[:source_length], target[1 : target_length - 1]))
        assert all(token >= FIRST_SYMBOL for part in found[-1] for token in part)
    return found


def recall(source):
    *shown, asked = source
    return [dict(zip(shown[::2], shown[1::2], strict=True))[asked]]


ANSWERS = {
    "copying": lambda source: source,
    "reversal": lambda source: source[::-1],
    "sorting": sorted,
    "associative recall": recall,
    "selective copying": lambda source: [token for token in source if token != FIRST_SYMBOL],
}


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("lengths", [1, 7, (1, 2), (2, 11)])
def test_every_made_row_has_the_right_answer(name, lengths):
    batch = MADE[name](53, lengths, symbols=13, generator=generator())
    assert all(tensor.dtype == torch.int64 for tensor in batch)
    assert len(batch.source) == 53
    assert batch.source.shape[1] == batch.source_lengths.max()
    assert batch.target.shape[1] == batch.target_lengths.max()
    for source, answer in rows(batch):
        assert answer == ANSWERS[name](source)


@pytest.mark.parametrize("name", ["copying", "reversal", "sorting"])
def test_all_lengths_of_a_range_and_all_symbols_come_up(name):
    batch = MADE[name](500, (2, 5), symbols=7, generator=generator())
    assert batch.source_lengths.unique().tolist() == [2, 3, 4, 5]
    assert {token for source, _ in rows(batch) for token in source} == set(range(3, 10))


def test_the_keys_of_associative_recall_differ_and_lie_below_the_values():
    batch = tasks.associative_recall(200, (1, 7), symbols=7, generator=generator())
    asked_place = Counter()
    for source, _ in rows(batch):
        keys, values, asked = source[:-1:2], source[1::2], source[-1]
        assert len(set(keys)) == len(keys) == len(values)
        assert set(keys) <= set(range(3, 10)) and set(values) <= set(range(10, 17))
        asked_place[keys.index(asked)] += 1
    assert set(asked_place) == set(range(7))


def test_selective_copying_has_as_many_blanks_as_asked_for_in_any_place():
    batch = tasks.selective_copying(300, (2, 4), symbols=5, blanks=3, generator=generator())
    places = set()
    for source, answer in rows(batch):
        assert Counter(source)[FIRST_SYMBOL] == 3 and 2 <= len(answer) <= 4
        assert set(answer) <= set(range(4, 9))
        places.update(place for place, token in enumerate(source) if token == FIRST_SYMBOL)
    assert places == set(range(7))
    without = tasks.selective_copying(5, 3, symbols=2, blanks=0, generator=generator())
    assert all(source == answer for source, answer in rows(without))


@pytest.mark.parametrize("name", MADE)
def test_a_seed_gives_the_same_batch_and_another_seed_another(name):
    one, same, other = (MADE[name](11, (3, 5), symbols=7, generator=generator(seed)) for seed in (1, 1, 2))
    assert all(torch.equal(left, right) for left, right in zip(one, same, strict=True))
    assert not torch.equal(one.source, other.source)
    torch.manual_seed(3)
    first, second = (MADE[name](11, (3, 5), symbols=7) for _ in range(2))
    torch.manual_seed(3)
    assert torch.equal(MADE[name](11, (3, 5), symbols=7).source, first.source)
    assert not torch.equal(first.source, second.source)


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("sizes", [(0, 3), (2, 0), (2, (3, 2)), (2, (0, 2))])
def test_made_tasks_refuse_sizes_that_are_too_small(name, sizes):
    with pytest.raises(
        ValueError, match=rf"got batch = {sizes[0]}, symbols = 5, lengths = {re.escape(str(sizes[1]))}$"
    ):
        MADE[name](*sizes, symbols=5)
    with pytest.raises(ValueError, match="symbols = 0"):
        MADE[name](2, 3, symbols=0)


def test_made_tasks_refuse_what_cannot_be_made():
    with pytest.raises(ValueError, match="4 pairs need as many symbols, not 3"):
        tasks.associative_recall(2, 4, symbols=3)
    with pytest.raises(ValueError, match="blanks must be at least 0, but is -1"):
        tasks.selective_copying(2, 4, symbols=3, blanks=-1)


def test_a_batch_moves_as_a_whole(device):
    batch = tasks.copying(2, 3, symbols=5, generator=generator()).to(device)
    assert isinstance(batch, Batch)
    assert {tensor.device.type for tensor in batch} == {device.type}
    assert {tensor.device.type for tensor in batch.to("meta")} == {"meta"}


def test_sampled_rows_are_different_rows_without_spare_padding():
    data = tasks.reversal(31, (1, 9), symbols=97, generator=generator())
    known = {tuple(source): answer for source, answer in rows(data)}
    assert len(known) == 31
    draw = tasks.sample_rows(data, 5, generator=generator())
    drawn = rows(draw)
    assert len({tuple(source) for source, _ in drawn}) == 5
    assert all(known[tuple(source)] == answer for source, answer in drawn)
    assert draw.source.shape[1] == draw.source_lengths.max()
    assert draw.target.shape[1] == draw.target_lengths.max()
    everything = tasks.sample_rows(data, 31, generator=generator())
    assert {tuple(source) for source, _ in rows(everything)} == set(known)


@pytest.mark.parametrize("size", [0, 4])
def test_more_rows_than_there_are_cannot_be_sampled(size):
    with pytest.raises(ValueError, match=f"between 1 and the 3 rows, but is {size}"):
        tasks.sample_rows(tasks.copying(3, 2, symbols=5), size)


def test_too_many_pairs_are_refused_whatever_is_drawn():
    for seed in range(20):
        with pytest.raises(ValueError, match=r"so 8 pairs need as many symbols, not 5$"):
            tasks.associative_recall(1, (1, 8), symbols=5, generator=generator(seed))
