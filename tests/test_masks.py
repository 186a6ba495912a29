import itertools

import pytest
import torch

from attncourse.masks import causal_mask, padding_mask, window_mask


def by_loops(queries, keys, may_attend):
    rows = [[may_attend(i, j) for j in range(keys)] for i in range(queries)]
    return torch.tensor(rows, dtype=torch.bool).reshape(queries, keys)


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0,)])
def test_padding_mask_is_true_on_the_first_length_keys(shape):
    keys = 7
    lengths = torch.randint(0, keys + 1, shape, generator=torch.Generator().manual_seed(0))
    mask = padding_mask(lengths, keys)
    assert mask.shape == (*shape, 1, keys)
    assert mask.dtype == torch.bool
    for index in itertools.product(*map(range, shape)):
        assert mask[index].squeeze(0).tolist() == [j < lengths[index] for j in range(keys)]


def test_padding_mask_takes_the_lengths_0_and_full():
    assert padding_mask(torch.tensor([0, 5]), 5).tolist() == [[[False] * 5], [[True] * 5]]


def test_padding_mask_may_have_no_key():
    assert padding_mask(torch.tensor([0, 0]), 0).shape == (2, 1, 0)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.int64])
def test_padding_mask_takes_signed_integers_of_any_width(dtype):
    assert padding_mask(torch.tensor([2], dtype=dtype), 3).tolist() == [[[True, True, False]]]


def test_padding_mask_broadcasts_over_heads_after_unsqueeze():
    lengths, heads, queries, keys = torch.tensor([2, 5]), 3, 7, 5
    mask = padding_mask(lengths, keys).unsqueeze(-3).expand(2, heads, queries, keys)
    assert mask.sum(dim=-1).eq(lengths[:, None, None]).all()


@pytest.mark.parametrize(("lengths", "low", "high"), [([2, -1], -1, 2), ([3, 6, 1], 1, 6)])
def test_padding_mask_refuses_lengths_out_of_range(lengths, low, high):
    message = f"^lengths must lie between 0 and keys = 5, but range from {low} to {high}$"
    with pytest.raises(ValueError, match=message):
        padding_mask(torch.tensor(lengths), 5)


def test_padding_mask_does_not_change_the_lengths():
    lengths = torch.tensor([3, 0, 2])
    padding_mask(lengths, 5)
    assert lengths.tolist() == [3, 0, 2]


@pytest.mark.parametrize("past", [0, 1, 3])
@pytest.mark.parametrize("keys", [0, 1, 3, 5, 11])
@pytest.mark.parametrize("queries", [0, 1, 2, 7])
def test_causal_mask_lets_a_query_see_itself_and_what_lies_before_it(queries, keys, past):
    expected = by_loops(queries, keys, lambda i, j: j <= past + i)
    assert torch.equal(causal_mask(queries, keys, past=past), expected)


@pytest.mark.parametrize("mask", [causal_mask, lambda *sizes, **past: window_mask(*sizes, radius=1, **past)])
def test_keys_default_to_past_and_queries(mask):
    assert torch.equal(mask(3, past=2), mask(3, 5, past=2))


@pytest.mark.parametrize(
    "mask", [causal_mask, lambda queries, **past: window_mask(queries, radius=2, **past)]
)
def test_with_past_the_mask_is_the_last_rows_of_the_whole_mask(mask):
    assert torch.equal(mask(3, past=4), mask(7)[4:])


@pytest.mark.parametrize("radius", [0, 1, 4, 20])
@pytest.mark.parametrize(
    ("queries", "keys", "past"), [(7, 7, 0), (5, 11, 3), (5, 3, 0), (0, 3, 1), (2, 0, 0)]
)
def test_window_mask_lets_a_query_see_its_neighbours_on_both_sides(queries, keys, past, radius):
    expected = by_loops(queries, keys, lambda i, j: abs(j - (past + i)) <= radius)
    assert torch.equal(window_mask(queries, keys, radius=radius, past=past), expected)


def test_a_query_sees_twice_the_radius_plus_itself_and_half_of_it_with_a_causal_mask():
    window = window_mask(13, radius=3)
    assert window.sum(dim=-1).max() == 7
    assert (window & causal_mask(13)).sum(dim=-1).max() == 4


def test_masks_of_different_shapes_join_with_and():
    lengths, queries, keys = torch.tensor([0, 2, 5]), 7, 5
    joined = padding_mask(lengths, keys) & causal_mask(queries, keys) & window_mask(queries, keys, radius=1)
    assert joined.shape == (3, queries, keys)
    for mask, length in zip(joined, lengths.tolist(), strict=True):
        expected = by_loops(
            queries, keys, lambda i, j, length=length: j < length and j <= i and abs(j - i) <= 1
        )
        assert torch.equal(mask, expected)


@pytest.mark.parametrize("mask", [causal_mask, lambda *sizes, **past: window_mask(*sizes, radius=1, **past)])
@pytest.mark.parametrize(
    ("sizes", "past", "came"),
    [((-1, 3), 0, "-1, 3 and 0"), ((2, -3), 0, "2, -3 and 0"), ((2, 3), -1, "2, 3 and -1")],
)
def test_masks_refuse_negative_sizes(mask, sizes, past, came):
    with pytest.raises(ValueError, match=f"^queries, keys and past must be at least 0, but are {came}$"):
        mask(*sizes, past=past)


def test_window_mask_refuses_a_negative_radius():
    with pytest.raises(ValueError, match=r"^radius must be at least 0, but is -1$"):
        window_mask(3, radius=-1)


def test_masks_are_made_on_the_device_asked_for(device):
    lengths = torch.tensor([1, 2], device=device)
    for mask in (
        padding_mask(lengths, 3),
        causal_mask(2, device=device),
        window_mask(2, radius=1, device=device),
    ):
        assert mask.device.type == device.type
        assert mask.dtype == torch.bool


def test_masks_follow_their_lengths_or_the_device_asked_for_also_without_an_accelerator():
    assert padding_mask(torch.zeros(0, dtype=torch.int64, device="meta"), 3).device.type == "meta"
    assert causal_mask(2, device="meta").device.type == "meta"
    assert window_mask(2, radius=1, device="meta").device.type == "meta"


@pytest.mark.parametrize("lengths", [torch.tensor([2.5]), torch.tensor([True])])
def test_lengths_are_whole_numbers(lengths, no_shape_checks):
    with pytest.raises(ValueError, match=f"^lengths must be whole numbers, .* is {lengths.dtype}$"):
        padding_mask(lengths, 4)


def test_a_mask_of_lengths_goes_through_vmap():
    lengths = torch.tensor([[1, 2], [3, 0]])
    mapped = torch.vmap(lambda row: padding_mask(row, 5))(lengths)
    assert torch.equal(mapped, padding_mask(lengths, 5))
