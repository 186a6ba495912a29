"""The cost model against Table 1, worked out by hand, and against bytes that are counted."""

import itertools
import math

import pytest

from attncourse import cost


# Vaswani et al. (2017), Table 1, worked out by hand for n = 7, d = 11, k = r = 3.
@pytest.mark.parametrize(
    ("layer", "width", "operations", "steps", "path"),
    [
        ("self-attention", None, 539, 1, 1),
        ("recurrent", None, 847, 7, 7),
        ("convolutional", 3, 2541, 1, 2),
        ("restricted", 3, 231, 1, 3),
    ],
)
def test_costs_are_those_of_table_1(layer, width, operations, steps, path):
    assert cost.operations(layer, length=7, d_model=11, width=width) == operations
    assert cost.sequential_steps(layer, length=7) == steps
    assert cost.path_length(layer, length=7, width=width) == path


@pytest.mark.parametrize(("length", "path"), [(1, 1), (2, 1), (3, 1), (4, 2), (9, 2), (243, 5), (244, 6)])
def test_path_of_dilated_convolutions_is_exact_at_powers_of_the_width(length, path):
    assert cost.path_length("convolutional", length=length, width=3) == path


@pytest.mark.parametrize(("width", "length"), [*itertools.product([2, 3, 5], [1, 2, 7, 12])])
def test_path_of_restricted_attention_is_the_length_over_the_width_rounded_up(width, length):
    expected = math.ceil(length / width)
    assert cost.path_length("restricted", length=length, width=width) == expected


def test_costs_refuse_what_the_table_does_not_have(no_shape_checks):
    kinds = "self-attention, recurrent, convolutional, restricted"
    sizes = {"length": 7, "d_model": 11}
    for count, arguments in [
        (cost.operations, sizes),
        (cost.path_length, {"length": 7}),
        (cost.sequential_steps, {"length": 7}),
    ]:
        with pytest.raises(ValueError, match=f"^layer must be one of {kinds}, but is pooling$"):
            count("pooling", **arguments)
        with pytest.raises(ValueError, match=r"^length must be at least 1, but is 0$"):
            count("recurrent", **{**arguments, "length": 0})
    with pytest.raises(ValueError, match=r"^d_model must be at least 1, but is 0$"):
        cost.operations("recurrent", length=7, d_model=0)
    for count, arguments in [(cost.operations, sizes), (cost.path_length, {"length": 7})]:
        with pytest.raises(ValueError, match=r"^a recurrent layer takes no width, but got 3$"):
            count("recurrent", width=3, **arguments)
        with pytest.raises(ValueError, match=r"^a restricted layer needs a width$"):
            count("restricted", **arguments)
        with pytest.raises(ValueError, match=r"^width must be at least 2, but is 1$"):
            count("convolutional", width=1, **arguments)


@pytest.mark.parametrize(
    ("layer", "width", "numbers"),
    [
        ("self-attention", None, 7 * 11 + 7 * 7),
        ("recurrent", None, 7 * 11),
        ("convolutional", 3, 7 * 11),
        ("restricted", 3, 7 * 11 + 3 * 7),
    ],
)
def test_memory_is_that_of_outputs_and_weights(layer, width, numbers):
    assert cost.memory(layer, length=7, d_model=11, width=width) == 4 * numbers
    assert cost.memory(layer, length=7, d_model=11, width=width, item_size=2) == 2 * numbers


def test_memory_refuses_numbers_of_no_size(no_shape_checks):
    with pytest.raises(ValueError, match=r"^item_size must be at least 1, but is 0$"):
        cost.memory("recurrent", length=7, d_model=11, item_size=0)
    with pytest.raises(ValueError, match=r"^d_model must be at least 1, but is 0$"):
        cost.memory("recurrent", length=7, d_model=0)
    with pytest.raises(ValueError, match=r"^a recurrent layer takes no width, but got 3$"):
        cost.memory("recurrent", length=7, d_model=11, width=3)
