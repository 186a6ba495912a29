"""What holds for all shapes, masks and dtypes. Hypothesis draws the examples; the references are loops."""

import math

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attncourse import masks, multihead, position, qkv, restricted, taxonomy

settings.register_profile(
    "course",
    deadline=None,  # no test asserts a time
    derandomize=True,  # the same examples in every run
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("course")

TOLERANCES = {torch.float64: 1e-10, torch.float32: 1e-4, torch.bfloat16: 0.1, torch.float16: 2e-2}
sizes = st.integers(0, 7)
widths = st.integers(1, 6)
batches = st.lists(st.integers(0, 3), max_size=2).map(tuple)
dtypes = st.sampled_from(list(TOLERANCES))
seeds = st.integers(0, 2**31 - 1)


def normal(shape, seed, dtype=torch.float64, scale=1.0):
    numbers = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return (scale * numbers).to(dtype)


def by_loops(query, key, value, may_attend):
    """Attends one query at a time, with Python's floats; `may_attend(i, j)` is the mask."""
    rows = []
    for i, q in enumerate(query.tolist()):
        seen = [j for j in range(len(key)) if may_attend(i, j)]
        scores = [
            sum(a * b for a, b in zip(q, key[j].tolist(), strict=True)) / math.sqrt(len(q)) for j in seen
        ]
        powers = [math.exp(score - max(scores)) for score in scores]
        total = math.fsum(powers)
        rows.append(
            [
                math.fsum(
                    power / total * value[j, column].item() for power, j in zip(powers, seen, strict=True)
                )
                for column in range(value.shape[-1])
            ]
        )
    return torch.tensor(rows, dtype=torch.float64).reshape(len(query), value.shape[-1])


def one_by_one(batch, query, key, value, may_attend):
    flat = [tensor.double().reshape(math.prod(batch), *tensor.shape[-2:]) for tensor in (query, key, value)]
    contexts = [
        by_loops(*rows, lambda i, j, number=number: may_attend(number, i, j))
        for number, rows in enumerate(zip(*flat, strict=True))
    ]
    shape = (*batch, query.shape[-2], value.shape[-1])
    return torch.stack(contexts).reshape(shape) if contexts else torch.zeros(shape, dtype=torch.float64)


def assert_near(actual, expected, dtype):
    assert actual.dtype == dtype
    torch.testing.assert_close(actual.double(), expected, rtol=TOLERANCES[dtype], atol=TOLERANCES[dtype])


@given(batches, sizes, sizes, widths, sizes, dtypes, seeds, st.floats(0, 1))
def test_the_dense_forms_agree_with_loops(batch, queries, keys, d_key, d_value, dtype, seed, density):
    query = normal((*batch, queries, d_key), seed, dtype)
    key = normal((*batch, keys, d_key), seed + 1, dtype)
    value = normal((*batch, keys, d_value), seed + 2, dtype)
    mask = torch.rand((*batch, queries, keys), generator=torch.Generator().manual_seed(seed)) < density
    flat = mask.reshape(math.prod(batch), queries, keys)
    expected = one_by_one(batch, query, key, value, lambda number, i, j: flat[number, i, j])
    context, weights = qkv.attend(query, key, value, mask)
    assert_near(context, expected, dtype)
    assert_near(qkv.fused_attention(query, key, value, mask), expected, dtype)
    assert_near(restricted.streaming_attention(query, key, value, mask, chunk=3), expected, dtype)
    assert not weights[~mask].any()
    torch.testing.assert_close(
        weights.double().sum(dim=-1), mask.any(dim=-1).double(), rtol=0, atol=TOLERANCES[dtype]
    )


@pytest.mark.parametrize("kind", ["window", "block", "dilated", "global_window"])
@given(st.data())
def test_the_restricted_forms_agree_with_loops(kind, data):
    batch, length = data.draw(batches), data.draw(st.integers(0, 23))
    d_key, d_value, dtype, seed = (data.draw(strategy) for strategy in (widths, sizes, dtypes, seeds))
    step, count = data.draw(st.integers(1, 9)), data.draw(st.integers(0, 9))
    causal = data.draw(st.booleans())
    options, rule = {
        "window": ({"radius": count}, lambda i, j: abs(i - j) <= count),
        "block": ({"size": step}, lambda i, j: i // step == j // step),
        "dilated": (
            {"radius": count, "dilation": step},
            lambda i, j: (i - j) % step == 0 and abs(i - j) <= count * step,
        ),
        "global_window": (
            {"radius": count, "tokens": step},
            lambda i, j: abs(i - j) <= count or min(i, j) < step,
        ),
    }[kind]
    tensors = [
        normal((*batch, length, width), seed + number, dtype)
        for number, width in enumerate((d_key, d_key, d_value))
    ]
    expected = one_by_one(batch, *tensors, lambda _, i, j: rule(i, j) and (j <= i or not causal))
    form, mask = getattr(restricted, f"{kind}_attention"), getattr(masks, f"{kind}_mask")(length, **options)
    assert_near(form(*tensors, causal=causal, **options), expected, dtype)
    if causal:
        mask = mask & masks.causal_mask(length)
    assert_near(qkv.attend(*tensors, mask)[0], expected, dtype)


@given(batches, sizes, sizes, widths, sizes, st.integers(1, 5), st.booleans(), seeds)
def test_the_local_forms_agree_with_loops(batch, queries, keys, d_key, d_value, radius, gaussian, seed):
    query, key, value = (
        normal((*batch, *shape), seed + number)
        for number, shape in enumerate([(queries, d_key), (keys, d_key), (keys, d_value)])
    )
    # Within the sentence, and up to 2 tokens outside it.
    positions = (keys + 4) * torch.rand((*batch, queries), generator=torch.Generator().manual_seed(seed)) - 2
    options = {"positions": positions, "radius": radius, "gaussian": gaussian, "score": qkv.scaled_dot_scores}
    context, weights = taxonomy.local_attention(query, key, value, **options)
    flat = positions.reshape(math.prod(batch), queries)
    inside = [[[abs(j - centre) <= radius for j in range(keys)] for centre in row] for row in flat.tolist()]
    if not gaussian:
        expected = one_by_one(batch, query, key, value, lambda number, i, j: inside[number][i][j])
        assert_near(context, expected, torch.float64)
    seen = torch.tensor(inside, dtype=torch.bool).reshape(*batch, queries, keys)
    assert not weights[~seen].any()
    assert (weights.sum(dim=-1) <= 1 + 1e-6).all()
    assert_near(taxonomy.gathered_local_attention(query, key, value, **options)[0], context, torch.float64)


@given(sizes, st.integers(0, 5), sizes, seeds)
def test_masks_with_a_past_are_the_last_rows_of_the_whole(queries, past, radius, seed):
    whole = past + queries
    assert torch.equal(masks.causal_mask(queries, past=past), masks.causal_mask(whole)[past:])
    later = masks.window_mask(queries, radius=radius, past=past)
    assert torch.equal(later, masks.window_mask(whole, radius=radius)[past:])
    if whole:
        lengths = torch.randint(whole + 1, (3,), generator=torch.Generator().manual_seed(seed))
        assert torch.equal(masks.padding_mask(lengths, whole).sum(dim=-1).squeeze(-1), lengths)


@given(batches, sizes, st.integers(1, 4), widths, dtypes, seeds)
def test_splitting_and_merging_heads_undo_each_other(batch, length, heads, width, dtype, seed):
    inputs = normal((*batch, length, heads * width), seed, dtype)
    split = multihead.split_heads(inputs, heads)
    assert split.shape == (*batch, heads, length, width)
    assert torch.equal(multihead.merge_heads(split), inputs)
    assert all(
        torch.equal(split[..., head, :, :], inputs[..., head * width : (head + 1) * width])
        for head in range(heads)
    )


@given(st.integers(-50, 50), st.integers(0, 60), st.integers(1, 9).map(lambda half: 2 * half))
def test_the_shift_matrix_moves_every_position(offset, start, d_model):
    start = max(start, -offset)
    options = {"dtype": torch.float64}
    here = position.sinusoidal(3, d_model, start=start, **options)
    there = position.sinusoidal(3, d_model, start=start + offset, **options)
    torch.testing.assert_close(here @ position.shift_matrix(offset, d_model, **options).mT, there)


@given(st.integers(0, 200), st.integers(0, 9), st.integers(1, 5).map(lambda half: 2 * half), seeds)
def test_rotary_products_depend_on_the_distance_alone(moved, length, width, seed):
    query, key = normal((length, width), seed), normal((length, width), seed + 1)
    products = [
        position.rotate(query, start=start) @ position.rotate(key, start=start).mT for start in (0, moved)
    ]
    torch.testing.assert_close(*products)


@given(st.integers(1, 40))
def test_alibi_slopes_fall_within_each_run(heads):
    slopes = position.alibi_slopes(heads, dtype=torch.float64)
    assert ((slopes > 0) & (slopes < 1)).all()
    whole = 2 ** (heads.bit_length() - 1)
    assert (slopes[:whole].diff() < 0).all() and (slopes[whole:].diff() < 0).all()
    assert len(set(slopes.tolist())) == heads
