"""Position encodings against loops over Python floats, and against the properties that they are made for.

Every axis has a size of its own, so that no transpose goes unseen.
"""

import math

import pytest
import torch
from torch.autograd import gradcheck
from torch.nn import functional as F

from attncourse import position

BATCH, HEADS, QUERIES, KEYS, LENGTH, D_KEY = 2, 3, 5, 7, 11, 6
BASES = [10_000.0, 100.0, 0.5]
HALF = [torch.bfloat16, torch.float16]
SIZES = [(7, 7, 0), (5, 11, 3), (5, 3, 0), (1, 6, 5), (0, 3, 1), (2, 0, 0), (1, 1, 0)]


def normal(*shape, seed=0, dtype=torch.float64, requires_grad=False):
    numbers = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return numbers.to(dtype).requires_grad_(requires_grad)


def table_of(rows, columns, entry):
    """Fill a table by a function of row and column."""
    entries = [[entry(i, j) for j in range(columns)] for i in range(rows)]
    return torch.tensor(entries, dtype=torch.float64).reshape(rows, columns)


def sinusoid(p, column, d_model, base):
    angle = p / base ** ((column - column % 2) / d_model)
    return math.cos(angle) if column % 2 else math.sin(angle)


# --- absolute


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("start", [0, 3, -4, 100_000])
@pytest.mark.parametrize(("length", "d_model"), [(11, 6), (5, 7), (3, 1), (1, 2), (0, 6), (3, 0)])
def test_sinusoidal_follows_the_formula(length, d_model, start, base):
    expected = table_of(length, d_model, lambda p, column: sinusoid(start + p, column, d_model, base))
    table = position.sinusoidal(length, d_model, start=start, base=base, dtype=torch.float64)
    torch.testing.assert_close(table, expected, rtol=0, atol=1e-9)


def test_the_base_is_10_000_and_the_first_position_0_unless_told_otherwise():
    expected = table_of(LENGTH, D_KEY, lambda p, column: sinusoid(p, column, D_KEY, 10_000))
    torch.testing.assert_close(position.sinusoidal(LENGTH, D_KEY, dtype=torch.float64), expected)
    matrix = position.shift_matrix(3, D_KEY, dtype=torch.float64)
    torch.testing.assert_close(matrix @ expected[2], expected[5])


@pytest.mark.parametrize("dtype", [torch.float32, *HALF])
def test_far_positions_are_as_exact_as_the_dtype_allows(dtype):
    expected = table_of(3, D_KEY, lambda p, column: sinusoid(10**6 + p, column, D_KEY, 10_000)).to(dtype)
    assert torch.equal(position.sinusoidal(3, D_KEY, start=10**6, dtype=dtype), expected)


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("offset", [0, 1, 5, -3])
@pytest.mark.parametrize("d_model", [2, 6, 14])
def test_one_matrix_shifts_every_sinusoidal_encoding(d_model, offset, base):
    matrix = position.shift_matrix(offset, d_model, base=base, dtype=torch.float64)
    encodings = table_of(20, d_model, lambda p, column: sinusoid(p, column, d_model, base))
    moved = table_of(20, d_model, lambda p, column: sinusoid(p + offset, column, d_model, base))
    torch.testing.assert_close(encodings @ matrix.mT, moved)
    torch.testing.assert_close(matrix @ matrix.mT, torch.eye(d_model, dtype=torch.float64))


def test_dot_products_of_sinusoidal_encodings_depend_on_the_distance_alone():
    table = position.sinusoidal(LENGTH, D_KEY, dtype=torch.float64)
    products = table @ table.mT
    for distance in range(LENGTH):
        along = products.diagonal(distance)
        torch.testing.assert_close(along, along[0].expand_as(along))
    assert products[0, 1] < products[0, 0] - 0.1


def test_learned_positions_are_rows_of_a_parameter_of_their_own():
    learned = position.LearnedPositions(LENGTH, D_KEY)
    assert [(name, p.shape) for name, p in learned.named_parameters()] == [("table", (LENGTH, D_KEY))]
    assert torch.equal(learned(LENGTH), learned.table)
    assert torch.equal(learned(5), learned.table[:5])
    assert torch.equal(learned(5, start=6), learned.table[6:])
    assert learned(0, start=LENGTH).shape == (0, D_KEY)
    learned(3, start=2).sum().backward()
    touched = [float(2 <= p < 5) for p in range(LENGTH)]
    assert learned.table.grad.tolist() == [[one] * D_KEY for one in touched]


def test_learned_positions_start_from_the_generator_with_the_deviation_that_they_state():
    first, second = (
        position.LearnedPositions(101, 103, generator=torch.Generator().manual_seed(7)).table
        for _ in range(2)
    )
    assert torch.equal(first, second)
    assert first.std().item() == pytest.approx(0.02, rel=0.05)
    assert first.mean().item() == pytest.approx(0, abs=0.001)


@pytest.mark.parametrize(("length", "start"), [(12, 0), (5, 7), (1, 11)])
def test_learned_positions_refuse_what_lies_beyond_their_length(length, start):
    message = f"^the table holds 11 positions, but {length} from position {start} on need {start + length}$"
    with pytest.raises(ValueError, match=message):
        position.LearnedPositions(LENGTH, D_KEY)(length, start=start)


@pytest.mark.parametrize("batch", [(), (BATCH,), (BATCH, HEADS), (0,)])
def test_positions_are_added_to_and_appended_to_each_token(batch):
    inputs, positions = normal(*batch, LENGTH, D_KEY), normal(LENGTH, D_KEY, seed=1)
    both = position.concat_positions(inputs, positions[:, :5])
    added = position.add_positions(inputs, positions)
    assert both.shape == (*batch, LENGTH, D_KEY + 5)
    assert added.shape == inputs.shape
    for p in range(LENGTH):
        assert torch.equal(added[..., p, :], inputs[..., p, :] + positions[p])
        assert torch.equal(both[..., p, :D_KEY], inputs[..., p, :])
        assert torch.equal(both[..., p, D_KEY:], positions[p, :5].expand(*batch, 5))


def test_a_projection_of_the_concatenation_is_the_sum_of_two_projections():
    inputs, positions, width = normal(BATCH, LENGTH, D_KEY), normal(LENGTH, 5, seed=1), 13
    weight = normal(width, D_KEY + 5, seed=2)
    separate = F.linear(inputs, weight[:, :D_KEY]) + F.linear(positions, weight[:, D_KEY:])
    torch.testing.assert_close(F.linear(position.concat_positions(inputs, positions), weight), separate)


def test_addition_is_concatenation_with_tied_projections():
    inputs, positions, weight = normal(BATCH, LENGTH, D_KEY), normal(LENGTH, D_KEY, seed=1), normal(13, D_KEY)
    tied = F.linear(position.concat_positions(inputs, positions), torch.cat([weight, weight], dim=1))
    torch.testing.assert_close(F.linear(position.add_positions(inputs, positions), weight), tied)


@pytest.mark.parametrize("combine", [position.add_positions, position.concat_positions])
@pytest.mark.parametrize("dtype", HALF)
def test_the_dtype_follows_the_inputs_and_learned_positions_get_a_gradient(combine, dtype):
    positions = normal(LENGTH, D_KEY, dtype=torch.float32, requires_grad=True)
    combined = combine(normal(BATCH, LENGTH, D_KEY, dtype=dtype), positions)
    assert combined.dtype == dtype
    combined.sum().backward()
    assert positions.grad.eq(BATCH).all()


# --- relative


@pytest.mark.parametrize(("queries", "keys", "past"), SIZES)
def test_relative_positions_are_key_minus_query(queries, keys, past):
    expected = table_of(queries, keys, lambda i, j: j - (past + i)).long()
    assert torch.equal(position.relative_positions(queries, keys, past=past), expected)


@pytest.mark.parametrize("largest", [0, 1, 3, 20])
@pytest.mark.parametrize(("queries", "keys", "past"), SIZES)
@pytest.mark.parametrize("batch", [(), (BATCH, HEADS), (0,)])
def test_shaw_adds_the_embedding_of_the_clipped_distance_to_keys_and_values(
    batch, queries, keys, past, largest
):
    query, weights = normal(*batch, queries, D_KEY), normal(*batch, queries, keys, seed=1)
    table, d_value = normal(2 * largest + 1, D_KEY, seed=2), 13
    values = normal(2 * largest + 1, d_value, seed=3)
    bias = torch.zeros(*batch, queries, keys, dtype=torch.float64)
    context = torch.zeros(*batch, queries, d_value, dtype=torch.float64)
    for i in range(queries):
        for j in range(keys):
            row = max(-largest, min(largest, j - (past + i))) + largest
            bias[..., i, j] = (query[..., i, :] * table[row]).sum(dim=-1)
            context[..., i, :] += weights[..., i, j, None] * values[row]
    torch.testing.assert_close(position.shaw_bias(query, table, keys, past=past), bias)
    torch.testing.assert_close(position.shaw_context(weights, values, past=past), context)


def test_shaw_terms_are_those_of_keys_and_values_moved_by_the_embeddings():
    query, key, value = normal(KEYS, D_KEY), normal(KEYS, D_KEY, seed=1), normal(KEYS, 13, seed=2)
    key_table, value_table = normal(5, D_KEY, seed=3), normal(5, 13, seed=4)
    weights = torch.softmax((query @ key.mT + position.shaw_bias(query, key_table)) / D_KEY**0.5, dim=-1)
    context = weights @ value + position.shaw_context(weights, value_table)
    for i in range(KEYS):
        rows = [max(-2, min(2, j - i)) + 2 for j in range(KEYS)]
        expected = F.scaled_dot_product_attention(
            query[None, [i]], (key + key_table[rows])[None], (value + value_table[rows])[None]
        )
        torch.testing.assert_close(context[i], expected[0, 0])


def test_shaw_terms_have_the_right_gradients():
    query, weights = normal(3, D_KEY, requires_grad=True), normal(3, 5, requires_grad=True)
    table = normal(3, D_KEY, requires_grad=True)
    assert gradcheck(lambda *inputs: position.shaw_bias(*inputs, 5, past=2), (query, table))
    assert gradcheck(lambda *inputs: position.shaw_context(*inputs, past=2), (weights, table))


@pytest.mark.parametrize("dtype", HALF)
def test_many_small_weights_of_far_keys_add_up_in_half_precision(dtype, device):
    weights = torch.full((1, 4096), 1 / 4096, dtype=dtype, device=device)
    context = position.shaw_context(weights, torch.ones(3, 2, dtype=dtype, device=device))
    assert context.dtype == dtype
    assert context.tolist() == [[1.0, 1.0]]


# --- rotary


def rotate_by_loops(vector, p, base, pairs):
    width, turned = len(vector), [0.0] * len(vector)
    for i in range(width // 2):
        one, other = (2 * i, 2 * i + 1) if pairs == "interleaved" else (i, i + width // 2)
        number = complex(vector[one], vector[other]) * complex(
            math.cos(p * base ** (-2 * i / width)), math.sin(p * base ** (-2 * i / width))
        )
        turned[one], turned[other] = number.real, number.imag
    return turned


@pytest.mark.parametrize("pairs", ["interleaved", "halves"])
@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("start", [0, 3, 100_000])
@pytest.mark.parametrize("shape", [(5, 2), (1, 6), (2, 3, 5, 14), (0, 6), (2, 0, 3, 6), (3, 0)])
def test_rotate_multiplies_complex_numbers_by_a_phase(shape, start, base, pairs):
    inputs = normal(*shape)
    before = inputs.clone()
    turned = position.rotate(inputs, start=start, base=base, pairs=pairs)
    rows = [
        rotate_by_loops(row, start + n % shape[-2], base, pairs)
        for n, row in enumerate(inputs.reshape(math.prod(shape[:-1]), shape[-1]).tolist())
    ]
    expected = torch.tensor(rows, dtype=torch.float64).reshape(shape)
    torch.testing.assert_close(turned, expected, rtol=1e-9, atol=1e-9)
    assert torch.equal(inputs, before)


def test_rotate_is_interleaved_with_base_10_000_from_position_0_unless_told_otherwise():
    inputs = normal(LENGTH, D_KEY)
    rows = [rotate_by_loops(row, p, 10_000, "interleaved") for p, row in enumerate(inputs.tolist())]
    torch.testing.assert_close(position.rotate(inputs), torch.tensor(rows, dtype=torch.float64))


@pytest.mark.parametrize("pairs", ["interleaved", "halves"])
def test_dot_products_of_turned_vectors_depend_on_the_distance_alone(pairs):
    query, key = normal(D_KEY).expand(LENGTH, D_KEY), normal(D_KEY, seed=1).expand(LENGTH, D_KEY)
    products = position.rotate(query, pairs=pairs) @ position.rotate(key, pairs=pairs).mT
    for distance in range(1 - LENGTH, LENGTH):
        along = products.diagonal(distance)
        torch.testing.assert_close(along, along[0].expand_as(along))
    assert products[0].unique().numel() == LENGTH
    later = position.rotate(query, start=50, pairs=pairs) @ position.rotate(key, start=50, pairs=pairs).mT
    torch.testing.assert_close(later, products)


def test_the_two_kinds_of_pairs_are_one_up_to_the_order_of_the_columns():
    inputs = normal(BATCH, LENGTH, D_KEY)
    order = [0, 2, 4, 1, 3, 5]
    halves = position.rotate(inputs[..., order], pairs="halves")
    torch.testing.assert_close(position.rotate(inputs)[..., order], halves)


@pytest.mark.parametrize("pairs", ["interleaved", "halves"])
def test_rotate_keeps_lengths_and_has_the_right_gradient(pairs):
    inputs = normal(BATCH, 3, D_KEY, requires_grad=True)
    turned = position.rotate(inputs, start=9, pairs=pairs)
    torch.testing.assert_close(turned.norm(dim=-1), inputs.norm(dim=-1))
    assert gradcheck(lambda inputs: position.rotate(inputs, start=9, pairs=pairs), (inputs,))


@pytest.mark.parametrize("pairs", ["interleaved", "halves"])
@pytest.mark.parametrize("dtype", HALF)
def test_rotate_rounds_once_in_half_precision_also_far_out(dtype, pairs):
    inputs = normal(LENGTH, D_KEY, dtype=dtype)
    exact = position.rotate(inputs.double(), start=10**6, pairs=pairs)
    turned = position.rotate(inputs, start=10**6, pairs=pairs)
    assert turned.dtype == dtype
    step = torch.finfo(dtype).eps
    torch.testing.assert_close(turned.double(), exact, rtol=0.51 * step, atol=1e-5)


# --- biases


def test_alibi_slopes_of_a_power_of_two_are_a_geometric_series():
    # Press et al. (2022), section 3: from 1/2 to 1/2⁸ for 8 heads, and twice as dense for 16.
    assert position.alibi_slopes(8).tolist() == [2.0**-i for i in range(1, 9)]
    assert position.alibi_slopes(16).tolist() == pytest.approx([2.0 ** (-i / 2) for i in range(1, 17)])
    assert position.alibi_slopes(1).tolist() == [2.0**-8]
    assert position.alibi_slopes(2).tolist() == [2.0**-4, 2.0**-8]


def test_alibi_slopes_of_other_numbers_of_heads_take_every_other_slope_of_the_next_power():
    assert position.alibi_slopes(3).tolist() == [2.0**-4, 2.0**-8, 2.0**-2]
    assert position.alibi_slopes(6).tolist() == [2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8, 2.0**-1, 2.0**-3]
    eight, extra = [2.0**-i for i in range(1, 9)], [2.0**-0.5, 2.0**-1.5, 2.0**-2.5, 2.0**-3.5]
    assert position.alibi_slopes(12, dtype=torch.float64).tolist() == pytest.approx(eight + extra, rel=1e-15)


@pytest.mark.parametrize("heads", range(1, 40))
def test_alibi_slopes_differ_from_head_to_head_and_lie_between_0_and_1(heads):
    slopes = position.alibi_slopes(heads, dtype=torch.float64).tolist()
    assert len(set(slopes)) == heads
    assert min(slopes) == 2**-8
    assert max(slopes) < 1


@pytest.mark.parametrize(("queries", "keys", "past"), SIZES)
def test_alibi_bias_falls_with_the_distance_on_both_sides(queries, keys, past):
    bias = position.alibi_bias(3, queries, keys, past=past, dtype=torch.float64)
    expected = [
        table_of(queries, keys, lambda i, j, slope=slope: -slope * abs(j - (past + i)))
        for slope in (2**-4, 2**-8, 2**-2)
    ]
    assert torch.equal(bias, torch.stack(expected))


@pytest.mark.parametrize("dtype", HALF)
def test_alibi_bias_rounds_once_in_half_precision(dtype):
    bias = position.alibi_bias(12, 1, 1030, past=1029, dtype=dtype)
    exact = position.alibi_bias(12, 1, 1030, past=1029, dtype=torch.float64)
    torch.testing.assert_close(bias.double(), exact, rtol=0.51 * torch.finfo(dtype).eps, atol=0)


def test_alibi_bias_has_the_digits_of_float64_if_that_is_asked_for():
    bias = position.alibi_bias(16, 1, 2, dtype=torch.float64)
    assert bias[:, 0, 1].tolist() == pytest.approx([-(2.0 ** (-i / 2)) for i in range(1, 17)], rel=1e-15)


def t5_bucket_by_loops(way, buckets, max_distance, bidirectional):
    """Follow the definition of T5: exact up to half of the buckets, then logarithmic."""
    if bidirectional:
        first, buckets, distance = (buckets // 2 if way > 0 else 0), buckets // 2, abs(way)
    else:
        first, distance = 0, max(-way, 0)
    exact = buckets // 2
    if distance < exact:
        return first + distance
    share = math.log(distance / exact) / math.log(max_distance / exact)
    # The released code truncates; a share that is a whole number must not be truncated to the one below.
    return first + min(exact + math.floor(share * (buckets - exact) + 1e-9), buckets - 1)


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(
    ("buckets", "max_distance"), [(32, 128), (32, 129), (16, 40), (4, 3), (6, 100), (64, 1000), (10, 7)]
)
def test_t5_buckets_are_exact_up_to_half_then_logarithmic(buckets, max_distance, bidirectional):
    queries, keys, past = 3, 301, 150
    expected = table_of(
        queries,
        keys,
        lambda i, j: t5_bucket_by_loops(j - (past + i), buckets, max_distance, bidirectional),
    )
    result = position.t5_buckets(
        queries, keys, buckets=buckets, max_distance=max_distance, bidirectional=bidirectional, past=past
    )
    assert torch.equal(result, expected.long())
    assert result.max() < buckets


def test_t5_buckets_are_those_of_t5_unless_told_otherwise():
    # The boundaries 8, 16, 32, 64 are powers of two; the others are rounded up from 8 · 2^(j / 2).
    before = [0, 1, 2, 3, 4, 5, 6, 7, *[8] * 4, *[9] * 4, *[10] * 7, *[11] * 9, *[12] * 14, *[13] * 18]
    before += [*[14] * 27, *[15] * 100]
    ways = range(-(len(before) - 1), len(before))
    expected = [before[-way] if way <= 0 else before[way] + 16 for way in ways]
    assert position.t5_buckets(1, len(ways), past=len(before) - 1).tolist() == [expected]


def test_two_t5_buckets_tell_the_keys_before_the_query_from_the_others():
    expected = table_of(5, 7, lambda i, j: j < i).long()
    assert torch.equal(position.t5_buckets(5, 7, buckets=2, max_distance=3, bidirectional=False), expected)


@pytest.mark.parametrize(("queries", "keys", "past"), SIZES)
def test_t5_buckets_take_any_sizes(queries, keys, past):
    expected = table_of(queries, keys, lambda i, j: t5_bucket_by_loops(j - (past + i), 8, 5, True)).long()
    assert torch.equal(position.t5_buckets(queries, keys, buckets=8, max_distance=5, past=past), expected)


# --- what holds for all

RELATIVE = {
    "relative": position.relative_positions,
    "alibi": lambda *sizes, **options: position.alibi_bias(HEADS, *sizes, **options),
    "t5": position.t5_buckets,
}


@pytest.mark.parametrize("bias", RELATIVE.values(), ids=RELATIVE)
def test_keys_default_to_past_and_queries_and_past_cuts_the_last_rows(bias):
    assert torch.equal(bias(3, past=4), bias(3, 7, past=4))
    assert torch.equal(bias(3, past=4), bias(7)[..., 4:, :])


@pytest.mark.parametrize("bias", RELATIVE.values(), ids=RELATIVE)
@pytest.mark.parametrize(
    ("sizes", "past", "name"), [((-1, 3), 0, "queries"), ((2, -1), 0, "keys"), ((2, 3), -1, "past")]
)
def test_relative_positions_refuse_negative_sizes(bias, sizes, past, name):
    with pytest.raises(ValueError, match=f"^{name} must be at least 0, but is -1$"):
        bias(*sizes, past=past)


@pytest.mark.usefixtures("no_shape_checks")
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: position.sinusoidal(-1, 4), "length must be at least 0, but is -1"),
        (lambda: position.sinusoidal(3, -2), "d_model must be at least 0, but is -2"),
        (lambda: position.sinusoidal(3, 4, base=0.0), "base must be above 0, but is 0.0"),
        (lambda: position.shift_matrix(1, 5), "d_model must be even, but is 5"),
        (lambda: position.shift_matrix(1, 4, base=-1.0), "base must be above 0, but is -1.0"),
        (lambda: position.LearnedPositions(-1, 4), "length must be at least 0, but is -1"),
        (lambda: position.LearnedPositions(3, -4), "d_model must be at least 0, but is -4"),
        (lambda: position.LearnedPositions(3, 4)(-1), "length must be at least 0, but is -1"),
        (lambda: position.LearnedPositions(3, 4)(1, start=-1), "start must be at least 0, but is -1"),
        (
            lambda: position.add_positions(normal(2, 5, 3), normal(5, 4)),
            "inputs and positions need the same length and width, but have (5, 3) and (5, 4)",
        ),
        (
            lambda: position.add_positions(normal(2, 5, 3), normal(1, 3)),
            "inputs and positions need the same length and width, but have (5, 3) and (1, 3)",
        ),
        (
            lambda: position.concat_positions(normal(2, 5, 3), normal(1, 4)),
            "inputs and positions need the same length, but have 5 and 1",
        ),
        (
            lambda: position.shaw_bias(normal(2, 5, 3), normal(7, 4)),
            "query and table need the same width, but have 3 and 4",
        ),
        (
            lambda: position.shaw_bias(normal(5, 3), normal(6, 3)),
            "table needs an odd number of rows, for the distances from -k to k, but has 6",
        ),
        (
            lambda: position.shaw_context(normal(5, 3), normal(0, 3)),
            "table needs an odd number of rows, for the distances from -k to k, but has 0",
        ),
        (lambda: position.rotate(normal(5, 3)), "the width d_key must be even, but is 3"),
        (lambda: position.rotate(normal(5, 4), base=0.0), "base must be above 0, but is 0.0"),
        (
            lambda: position.rotate(normal(5, 4), pairs="half"),
            "pairs must be 'interleaved' or 'halves', but is 'half'",
        ),
        (lambda: position.alibi_slopes(0), "heads must be at least 1, but is 0"),
        (lambda: position.alibi_bias(0, 2), "heads must be at least 1, but is 0"),
        (
            lambda: position.t5_buckets(2, buckets=2),
            "buckets must be even and at least 4 for two directions, but is 2",
        ),
        (
            lambda: position.t5_buckets(2, buckets=7),
            "buckets must be even and at least 4 for two directions, but is 7",
        ),
        (
            lambda: position.t5_buckets(2, buckets=1, bidirectional=False),
            "buckets must be at least 2, but is 1",
        ),
        (
            lambda: position.t5_buckets(2, max_distance=8),
            "max_distance must be above 8, the distances with a bucket each, but is 8",
        ),
    ],
)
def test_wrong_values_are_refused_with_what_was_expected_and_what_came(call, message):
    with pytest.raises(ValueError) as error:
        call()
    assert str(error.value) == message


MAKERS = {
    "sinusoidal": lambda **options: position.sinusoidal(5, 6, **options),
    "shift": lambda **options: position.shift_matrix(3, 6, **options),
    "learned": lambda **options: position.LearnedPositions(5, 6, **options)(3),
    "slopes": lambda **options: position.alibi_slopes(3, **options),
    "alibi": lambda **options: position.alibi_bias(3, 5, 7, **options),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_tables_have_the_device_and_dtype_asked_for(make, device):
    assert make(device=device).device.type == device.type
    assert make(device="meta").device.type == "meta"
    assert make().dtype == torch.float32
    for dtype in (torch.float64, *HALF):
        assert make(dtype=dtype).dtype == dtype


def test_relative_tables_are_made_on_the_device_asked_for_and_functions_follow_their_inputs(device):
    assert position.relative_positions(3, device=device).device.type == device.type
    assert position.t5_buckets(3, device=device).device.type == device.type
    inputs = normal(5, 6, dtype=torch.float32).to(device)
    for result in (
        position.rotate(inputs),
        position.shaw_bias(inputs, inputs),
        position.shaw_context(inputs, inputs),
        position.add_positions(inputs, position.sinusoidal(5, 6)),
        position.concat_positions(inputs, position.sinusoidal(5, 6)),
    ):
        assert (result.device.type, result.dtype) == (device.type, torch.float32)


PURE = {
    "rotate": (position.rotate, (normal(BATCH, LENGTH, D_KEY),), (0,)),
    "add": (position.add_positions, (normal(BATCH, LENGTH, D_KEY), normal(LENGTH, D_KEY)), (0, None)),
    "concat": (position.concat_positions, (normal(BATCH, LENGTH, D_KEY), normal(LENGTH, 5)), (0, None)),
    "shaw bias": (position.shaw_bias, (normal(BATCH, QUERIES, D_KEY), normal(3, D_KEY)), (0, None)),
    "shaw context": (position.shaw_context, (normal(BATCH, QUERIES, KEYS), normal(3, 13)), (0, None)),
}


@pytest.mark.parametrize("case", PURE.values(), ids=PURE)
def test_the_pure_functions_run_under_vmap(case):
    function, inputs, axes = case
    torch.testing.assert_close(torch.vmap(function, in_dims=axes)(*inputs), function(*inputs))


@pytest.mark.usefixtures("no_shape_checks")
@pytest.mark.parametrize("case", PURE.values(), ids=PURE)
def test_the_pure_functions_compile_into_one_graph(case):
    function, inputs, _ = case
    function = getattr(function, "__wrapped__", function)
    compiled = torch.compile(function, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(*inputs), function(*inputs))
