"""The library against loops over Python floats, against PyTorch, and against what mathematics says of it.

Every axis has a size of its own, so that no transpose goes unseen.
"""

import itertools
import math
import random
from functools import partial

import jaxtyping
import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck
from torch.nn import functional as F

from attncourse import qkv

QUERIES, KEYS, D_QUERY, D_KEY, D_VALUE, HIDDEN = 5, 7, 3, 11, 13, 17
DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]
SCORES = ["dot", "scaled_dot", "general", "additive", "concat", "cosine"]
NORMALISATIONS = {
    "softmax": qkv.masked_softmax,
    "temperature": partial(qkv.masked_softmax, temperature=0.5),
    "sigmoid": qkv.masked_sigmoid,
    "none": qkv.unnormalised,
}
BATCHES = {  # of query, key and value
    "none": ((), (), ()),
    "one": ((2,), (2,), (2,)),
    "two": ((2, 3), (2, 3), (2, 3)),
    "broadcast": ((2, 1), (3,), ()),
    "only the queries": ((3,), (), ()),
    "only the values": ((), (), (3,)),
    "empty": ((0,), (0,), (0,)),
}


def normal(*shape, seed=0, dtype=torch.float64, requires_grad=False):
    numbers = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return numbers.to(dtype).requires_grad_(requires_grad)


def inputs(batches=((), (), ()), *, d_query=D_KEY, **options):
    query, key, value = batches
    return (
        normal(*query, QUERIES, d_query, seed=1, **options),
        normal(*key, KEYS, D_KEY, seed=2, **options),
        normal(*value, KEYS, D_VALUE, seed=3, **options),
    )


def random_mask(*shape, seed=0, may_be_empty=True):
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < 0.5
    if not may_be_empty:
        mask[..., 0] = True
    return mask


def parameters(name, **options):
    """Give the parameters of a score, whose queries and keys then differ in width."""
    if name == "general":
        return {"weight": normal(D_QUERY, D_KEY, seed=4, **options)}
    if name == "additive":
        return {
            "query_weight": normal(HIDDEN, D_QUERY, seed=5, **options),
            "key_weight": normal(HIDDEN, D_KEY, seed=6, **options),
            "vector": normal(HIDDEN, seed=7, **options),
        }
    if name == "concat":
        return {
            "weight": normal(HIDDEN, D_QUERY + D_KEY, seed=8, **options),
            "vector": normal(HIDDEN, seed=9, **options),
        }
    return {}


def score_case(name, batches=((), (), ()), **options):
    """Give a score function, a query, a key, and the parameters."""
    learned = parameters(name, **options)
    query, key, _ = inputs(batches, d_query=D_QUERY if learned else D_KEY, **options)
    return getattr(qkv, f"{name}_scores"), query, key, learned


# The oracle: plain Python on lists of floats. It shares nothing with the library.


def dot(left, right):
    return math.fsum(x * y for x, y in zip(left, right, strict=True))


def length(vector):
    return math.sqrt(dot(vector, vector))


def score_by_loops(name, query, key, learned):
    p = {key: value.tolist() for key, value in learned.items()}
    if name == "dot":
        return dot(query, key)
    if name == "scaled_dot":
        return dot(query, key) / math.sqrt(len(key))
    if name == "general":
        return math.fsum(q * dot(row, key) for q, row in zip(query, p["weight"], strict=True))
    if name == "additive":
        rows = zip(p["query_weight"], p["key_weight"], p["vector"], strict=True)
        return math.fsum(v * math.tanh(dot(w, query) + dot(u, key)) for w, u, v in rows)
    if name == "concat":
        rows = zip(p["weight"], p["vector"], strict=True)
        return math.fsum(v * math.tanh(dot(w, query + key)) for w, v in rows)
    return dot(query, key) / (length(query) * length(key))


def normalise_by_loops(name, row, allowed):
    """Turn the scores of one query into weights."""
    if name == "sigmoid":
        return [1 / (1 + math.exp(-s)) if ok else 0.0 for s, ok in zip(row, allowed, strict=True)]
    if name == "none":
        return [s if ok else 0.0 for s, ok in zip(row, allowed, strict=True)]
    temperature = 0.5 if name == "temperature" else 1.0
    powers = [math.exp(s / temperature) if ok else 0.0 for s, ok in zip(row, allowed, strict=True)]
    total = math.fsum(powers)
    return [p / total if total else 0.0 for p in powers]


def each_batch(function, *tensors):
    """Apply a function on lists, of two axes each, to every combination of batch entries."""
    batch = torch.broadcast_shapes(*(tensor.shape[:-2] for tensor in tensors))
    tensors = [tensor.double().expand(*batch, *tensor.shape[-2:]) for tensor in tensors]
    results = [
        torch.tensor(function(*(tensor[index].tolist() for tensor in tensors)), dtype=torch.float64)
        for index in itertools.product(*map(range, batch))
    ]
    return torch.stack(results).reshape(*batch, *results[0].shape)


def scores_by_loops(name, query, key, learned):
    return each_batch(
        lambda queries, keys: [[score_by_loops(name, q, k, learned) for k in keys] for q in queries],
        query,
        key,
    )


def weights_by_loops(name, scores, mask=None):
    mask = torch.ones((), dtype=torch.bool) if mask is None else mask
    return each_batch(
        lambda rows, allowed: [normalise_by_loops(name, *pair) for pair in zip(rows, allowed, strict=True)],
        scores,
        mask.expand(torch.broadcast_shapes(mask.shape, scores.shape)),
    )


def context_by_loops(weights, value):
    return each_batch(
        lambda rows, values: [[dot(row, column) for column in zip(*values, strict=True)] for row in rows],
        weights,
        value,
    )


def assert_near(actual, expected, scale=1.0):
    """Compare to a few units in the last place of the dtype, of numbers of about this scale."""
    assert actual.shape == expected.shape
    tolerance = 8 * torch.finfo(actual.dtype).eps
    torch.testing.assert_close(
        actual.double(), expected.double(), rtol=tolerance, atol=tolerance * scale, equal_nan=False
    )


# Stage 1: scores.


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SCORES)
def test_scores_equal_the_loops(name, dtype):
    function, query, key, learned = score_case(name, dtype=dtype)
    scores = function(query, key, **learned)
    assert scores.dtype == dtype
    assert_near(scores, scores_by_loops(name, query, key, learned), scale=4)


@pytest.mark.parametrize("batches", [b for b in BATCHES if b != "empty"])
@pytest.mark.parametrize("name", SCORES)
def test_scores_take_any_batch_axes(name, batches):
    function, query, key, learned = score_case(name, BATCHES[batches])
    assert_near(function(query, key, **learned), scores_by_loops(name, query, key, learned), scale=10)


@pytest.mark.parametrize("name", SCORES)
def test_scores_of_no_query_no_key_or_no_batch_are_empty(name):
    function, query, key, learned = score_case(name)
    assert function(query[:0], key, **learned).shape == (0, KEYS)
    assert function(query, key[:0], **learned).shape == (QUERIES, 0)
    assert function(query.expand(0, -1, -1), key, **learned).shape == (0, QUERIES, KEYS)


@pytest.mark.parametrize("name", SCORES)
def test_scores_have_the_right_first_and_second_derivatives(name):
    function, query, key, learned = score_case(name, ((2, 1), (2,), ()), requires_grad=True)
    names = list(learned)
    arguments = (query[..., :2, :], key[..., :3, :], *learned.values())

    def call(query, key, *values):
        return function(query, key, **dict(zip(names, values, strict=True)))

    assert gradcheck(call, arguments, fast_mode=True)
    assert gradgradcheck(call, arguments, fast_mode=True)


def test_scaled_dot_scores_of_unit_variance_entries_have_variance_1():
    query, key = normal(500, 64, seed=1), normal(700, 64, seed=2)
    assert qkv.dot_scores(query, key).var().item() == pytest.approx(64, rel=0.1)
    assert qkv.scaled_dot_scores(query, key).var().item() == pytest.approx(1, rel=0.1)


def test_scaled_dot_scores_stay_finite_in_half_precision_where_the_product_does_not():
    query = key = torch.full((1, 64), 40.0, dtype=torch.float16)
    assert qkv.dot_scores(query, key).isinf().all()
    assert qkv.scaled_dot_scores(query, key).item() == 40 * 40 * 8


def test_general_scores_with_the_identity_are_dot_scores():
    query, key, _ = inputs()
    weight = torch.eye(D_KEY, dtype=torch.float64)
    assert_near(qkv.general_scores(query, key, weight=weight), qkv.dot_scores(query, key))


def test_additive_scores_are_concat_scores_with_the_weight_split():
    _, query, key, learned = score_case("concat", BATCHES["broadcast"])
    query_weight, key_weight = learned["weight"].split([D_QUERY, D_KEY], dim=-1)
    additive = qkv.additive_scores(
        query, key, query_weight=query_weight, key_weight=key_weight, vector=learned["vector"]
    )
    assert_near(additive, qkv.concat_scores(query, key, **learned), scale=10)


@pytest.mark.parametrize("name", ["additive", "concat"])
def test_a_tanh_score_is_bounded_by_the_vector(name):
    function, query, key, learned = score_case(name)
    bound = learned["vector"].abs().sum()
    scores = function(1e3 * query, 1e3 * key, **learned).abs()
    assert (scores <= bound + 1e-9).all()
    assert scores.max() > 0.5 * bound


def test_cosine_scores_do_not_depend_on_lengths_and_are_1_for_the_same_direction():
    query, key, _ = inputs()
    assert_near(qkv.cosine_scores(3 * query, 0.01 * key), qkv.cosine_scores(query, key))
    assert_near(qkv.cosine_scores(query, query).diagonal(), torch.ones(QUERIES))
    assert_near(qkv.cosine_scores(query, -2 * query).diagonal(), -torch.ones(QUERIES))


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_cosine_with_a_zero_vector_is_0_with_finite_gradients(dtype):
    query = normal(QUERIES, D_KEY, seed=1)
    key = normal(KEYS, D_KEY, seed=2)
    query[2], key[3] = 0, 0
    query, key = (tensor.to(dtype).requires_grad_() for tensor in (query, key))
    scores = qkv.cosine_scores(query, key)
    assert scores[2].eq(0).all()
    assert scores[:, 3].eq(0).all()
    scores.sum().backward()
    assert query.grad.isfinite().all()
    assert key.grad.isfinite().all()


def test_cosine_scores_of_width_0_are_0():
    scores = qkv.cosine_scores(normal(2, QUERIES, 0), normal(2, KEYS, 0))
    assert torch.equal(scores, torch.zeros(2, QUERIES, KEYS, dtype=torch.float64))


# Stage 2: weights.


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("name", NORMALISATIONS)
def test_weights_equal_the_loops(name, masked, dtype):
    scores = normal(2, 3, QUERIES, KEYS, dtype=dtype)
    mask = None
    if masked:
        mask = random_mask(2, 3, QUERIES, KEYS)
        mask[0, 1, 2] = False
    weights = NORMALISATIONS[name](scores, mask)
    assert weights.dtype == dtype
    assert_near(weights, weights_by_loops(name, scores, mask))


@pytest.mark.parametrize(
    "shape",
    [
        (),
        (1,),
        (KEYS,),
        (1, KEYS),
        (QUERIES, 1),
        (QUERIES, KEYS),
        (3, 1, KEYS),
        (2, 1, 1, KEYS),
        (2, 1, QUERIES, 1),
    ],
)
@pytest.mark.parametrize("name", NORMALISATIONS)
def test_a_mask_broadcasts_to_the_scores(name, shape):
    scores = normal(2, 3, QUERIES, KEYS)
    for mask in (
        random_mask(*shape),
        torch.ones(shape, dtype=torch.bool),
        torch.zeros(shape, dtype=torch.bool),
    ):
        weights = NORMALISATIONS[name](scores, mask)
        assert_near(weights, weights_by_loops(name, scores, mask))


@pytest.mark.parametrize("name", NORMALISATIONS)
def test_a_mask_that_allows_everything_changes_nothing(name):
    scores = normal(3, QUERIES, KEYS)
    mask = torch.ones(3, QUERIES, KEYS, dtype=torch.bool)
    assert torch.equal(NORMALISATIONS[name](scores, mask), NORMALISATIONS[name](scores))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["softmax", "temperature"])
def test_softmax_rows_sum_to_1_or_are_all_0(name, dtype):
    scores = normal(QUERIES, KEYS, dtype=dtype)
    mask = random_mask(QUERIES, KEYS, may_be_empty=False)
    mask[3] = False
    weights = NORMALISATIONS[name](scores, mask)
    assert_near(weights.sum(dim=-1), torch.tensor([1, 1, 1, 0, 1]))
    assert weights[mask].gt(0).all()
    assert weights[~mask].eq(0).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_softmax_does_not_overflow_nor_confuse_a_low_score_with_a_mask(dtype):
    scores = torch.tensor([[60_000.0, 60_000.0, -60_000.0]], dtype=dtype)
    mask = torch.tensor([True, True, True])
    for weights in (qkv.masked_softmax(scores), qkv.masked_softmax(scores, mask)):
        assert weights.tolist() == [[0.5, 0.5, 0]]
    weights = qkv.masked_softmax(-scores, torch.tensor([True, True, False]))
    assert weights.tolist() == [[0.5, 0.5, 0]]


@pytest.mark.parametrize("name", ["softmax", "temperature"])
def test_softmax_does_not_change_when_all_scores_of_a_query_rise(name):
    scores, rise = normal(QUERIES, KEYS, seed=1), normal(QUERIES, 1, seed=2)
    mask = random_mask(QUERIES, KEYS)
    function = NORMALISATIONS[name]
    assert_near(function(scores + rise, mask), function(scores, mask))


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.0, 5.0])
def test_scores_are_divided_by_the_temperature(temperature):
    scores = normal(QUERIES, KEYS)
    weights = qkv.masked_softmax(scores, temperature=temperature)
    assert_near(weights, torch.softmax(scores / temperature, dim=-1))


def test_a_low_temperature_picks_the_largest_score_and_a_high_one_none():
    scores = normal(QUERIES, KEYS)
    hard = F.one_hot(scores.argmax(dim=-1), KEYS)
    assert_near(qkv.masked_softmax(scores, temperature=1e-4), hard)
    uniform = torch.full_like(scores, 1 / KEYS)
    torch.testing.assert_close(qkv.masked_softmax(scores, temperature=1e8), uniform)


@pytest.mark.parametrize("name", NORMALISATIONS)
def test_weights_have_the_right_first_and_second_derivatives(name):
    scores = normal(2, 3, 5, requires_grad=True)
    mask = random_mask(2, 3, 5)
    mask[1, 2] = False
    for argument in (None, mask):
        call = partial(NORMALISATIONS[name], mask=argument)
        assert gradcheck(call, scores)
        assert gradgradcheck(call, scores)


@pytest.mark.parametrize("name", NORMALISATIONS)
def test_weights_of_no_query_or_no_key_are_empty(name):
    for shape in ((0, KEYS), (QUERIES, 0), (0, QUERIES, KEYS)):
        for mask in (None, torch.ones(shape, dtype=torch.bool), torch.zeros(shape, dtype=torch.bool)):
            assert NORMALISATIONS[name](torch.zeros(shape), mask).shape == shape


# Stage 3, and all three together.


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_weighted_sum_equals_the_loops(dtype):
    weights, value = normal(QUERIES, KEYS, seed=1, dtype=dtype), normal(KEYS, D_VALUE, seed=2, dtype=dtype)
    context = qkv.weighted_sum(weights, value)
    assert context.dtype == dtype
    assert_near(context, context_by_loops(weights, value), scale=4)


@pytest.mark.parametrize("name", NORMALISATIONS)
@pytest.mark.parametrize("score", SCORES)
def test_attend_runs_the_three_stages(score, name):
    function, query, key, learned = score_case(score)
    value = normal(KEYS, D_VALUE, seed=3)
    mask = random_mask(QUERIES, KEYS)
    mask[1] = False
    context, weights = qkv.attend(
        query, key, value, mask, score=partial(function, **learned), normalise=NORMALISATIONS[name]
    )
    expected = weights_by_loops(name, scores_by_loops(score, query, key, learned), mask)
    assert_near(weights, expected, scale=10)
    assert_near(context, context_by_loops(expected, value), scale=100)
    assert weights[1].eq(0).all()
    assert context[1].eq(0).all()


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("batches", [b for b in BATCHES if b != "empty"])
def test_attend_takes_any_batch_axes(batches, masked):
    query, key, value = inputs(BATCHES[batches])
    batch = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2])
    mask = random_mask(*batch, QUERIES, KEYS) if masked else None
    context, weights = qkv.attend(query, key, value, mask)
    expected = weights_by_loops("softmax", scores_by_loops("scaled_dot", query, key, {}), mask)
    assert_near(weights, expected)
    assert_near(context, context_by_loops(expected, value))


def test_attend_takes_an_empty_batch():
    context, weights = qkv.attend(*inputs(BATCHES["empty"]))
    assert context.shape == (0, QUERIES, D_VALUE)
    assert weights.shape == (0, QUERIES, KEYS)


@pytest.mark.parametrize("seed", range(12))
def test_attend_equals_pytorch_for_random_sizes_and_masks(seed):
    chance = random.Random(seed)
    sizes = chance.sample([1, 2, 3, 5, 7, 11, 13, 17, 19], 6)
    batch, (queries, keys, d_key, d_value) = sizes[: chance.randrange(3)], sizes[2:]
    query = normal(*batch, queries, d_key, seed=seed)
    key = normal(*batch, keys, d_key, seed=seed + 100)
    value = normal(*batch, keys, d_value, seed=seed + 200)
    mask = random_mask(*batch, queries, keys, seed=seed, may_be_empty=False)
    context, _ = qkv.attend(query, key, value, mask)
    assert_near(context, F.scaled_dot_product_attention(query, key, value, attn_mask=mask))


@pytest.mark.parametrize("dtype", DTYPES)
def test_attend_equals_pytorch_in_every_dtype_on_every_device(dtype, device):
    if device.type == "mps" and dtype == torch.float64:
        dtype = torch.float32
    query, key, value = (tensor.to(device) for tensor in inputs(BATCHES["two"], dtype=dtype))
    mask = random_mask(QUERIES, KEYS, may_be_empty=False).to(device)
    for argument in (None, mask):
        context, weights = qkv.attend(query, key, value, argument)
        assert context.dtype == weights.dtype == dtype
        assert context.device == weights.device == query.device
        expected = F.scaled_dot_product_attention(query, key, value, attn_mask=argument)
        assert_near(context.cpu(), expected.cpu())


def test_attend_has_the_right_first_and_second_derivatives():
    query, key, value = inputs(((2, 1), (2,), ()), requires_grad=True)
    mask = random_mask(QUERIES, KEYS)
    mask[2] = False

    def context(query, key, value):
        return qkv.attend(query, key, value, mask)[0]

    assert gradcheck(context, (query, key, value), fast_mode=True)
    assert gradgradcheck(context, (query, key, value), fast_mode=True)


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("score", ["scaled_dot", "cosine"])
@pytest.mark.parametrize("name", NORMALISATIONS)
def test_empty_rows_give_context_0_and_finite_gradients(name, score, dtype):
    empty_rows = random_mask(2, QUERIES, KEYS, may_be_empty=False)
    empty_rows[:, 3] = False
    empty_rows[1] = False
    for mask in (empty_rows, torch.zeros_like(empty_rows)):
        query, key, value = inputs(BATCHES["one"], dtype=dtype, requires_grad=True)
        with torch.autograd.detect_anomaly(check_nan=True):
            context, weights = qkv.attend(
                query,
                key,
                value,
                mask,
                score=getattr(qkv, f"{score}_scores"),
                normalise=NORMALISATIONS[name],
            )
            (context.square().sum() + weights.square().sum()).backward()
        empty = ~mask.any(dim=-1)
        assert weights[empty].eq(0).all()
        assert context[empty].eq(0).all()
        assert query.grad[empty].eq(0).all()
        assert query.grad[~empty].ne(0).any() or empty.all()
        for tensor in (query, key, value):
            assert tensor.grad.isfinite().all()


@pytest.mark.parametrize("name", NORMALISATIONS)
def test_with_no_key_the_context_is_0(name):
    query, key, value = inputs()
    context, weights = qkv.attend(query, key[:0], value[:0], normalise=NORMALISATIONS[name])
    assert weights.shape == (QUERIES, 0)
    assert torch.equal(context, torch.zeros(QUERIES, D_VALUE, dtype=torch.float64))


def test_with_no_query_there_is_no_context():
    query, key, value = inputs()
    context, weights = qkv.attend(query[:0], key, value, torch.ones(0, KEYS, dtype=torch.bool))
    assert context.shape == (0, D_VALUE)
    assert weights.shape == (0, KEYS)


@pytest.mark.parametrize("name", NORMALISATIONS)
def test_a_masked_key_has_no_effect_and_no_gradient_and_the_others_have(name):
    query, key, value = inputs(requires_grad=True)
    mask = torch.ones(QUERIES, KEYS, dtype=torch.bool)
    mask[:, 4] = False
    context, _ = qkv.attend(query, key, value, mask, normalise=NORMALISATIONS[name])
    kept = torch.arange(KEYS) != 4
    without, _ = qkv.attend(query, key[kept], value[kept], normalise=NORMALISATIONS[name])
    assert_near(context, without)
    context.square().sum().backward()
    for tensor in (key, value):
        assert tensor.grad[4].eq(0).all()
        assert tensor.grad[kept].ne(0).all()


# What must stay the same when the inputs are put in another order.


@pytest.mark.parametrize("name", NORMALISATIONS)
@pytest.mark.parametrize("score", SCORES)
def test_permuted_queries_give_permuted_contexts_and_permuted_keys_the_same(score, name):
    function, query, key, learned = score_case(score)
    value, mask = normal(KEYS, D_VALUE, seed=3), random_mask(QUERIES, KEYS)
    attend = partial(qkv.attend, score=partial(function, **learned), normalise=NORMALISATIONS[name])
    context, weights = attend(query, key, value, mask)
    rows, columns = torch.tensor([3, 0, 4, 1, 2]), torch.tensor([6, 2, 0, 5, 1, 3, 4])

    moved_context, moved_weights = attend(query[rows], key, value, mask[rows])
    assert_near(moved_context, context[rows], scale=100)
    assert_near(moved_weights, weights[rows], scale=10)

    same_context, moved_weights = attend(query, key[columns], value[columns], mask[:, columns])
    assert_near(same_context, context, scale=100)
    assert_near(moved_weights, weights[:, columns], scale=10)


def test_a_softmax_context_lies_between_the_smallest_and_the_largest_value():
    query, key, value = inputs(BATCHES["two"])
    context, _ = qkv.attend(query, key, value)
    assert (context <= value.amax(dim=-2, keepdim=True)).all()
    assert (context >= value.amin(dim=-2, keepdim=True)).all()


def test_unnormalised_attention_is_an_associative_product_of_three_matrices():
    query, key, value = inputs(BATCHES["broadcast"])
    context, _ = qkv.attend(query, key, value, score=qkv.dot_scores, normalise=qkv.unnormalised)
    assert_near(context, query @ (key.mT @ value), scale=10)


# Linear attention.


def feature(x):
    return x + 1 if x > 0 else math.exp(x)


def linear_by_loops(query, key, value, mask=None):
    """Compute every weight, which the library never does."""

    def weigh(queries, keys, allowed):
        rows = []
        for q in queries:
            row = [
                dot(map(feature, q), map(feature, k)) if ok else 0.0
                for k, ok in zip(keys, allowed[0], strict=True)
            ]
            rows.append([weight / math.fsum(row) if any(row) else 0.0 for weight in row])
        return rows

    mask = torch.ones(1, key.shape[-2], dtype=torch.bool) if mask is None else mask
    return context_by_loops(each_batch(weigh, query, key, mask), value)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("masked", [False, True])
def test_linear_attention_equals_the_loops(masked, dtype):
    query, key, value = inputs(BATCHES["two"], dtype=dtype)
    mask = random_mask(2, 3, 1, KEYS) if masked else None
    context = qkv.linear_attention(query, key, value, mask)
    assert context.dtype == dtype
    assert_near(context, linear_by_loops(query, key, value, mask))


@pytest.mark.parametrize("batches", [b for b in BATCHES if b != "empty"])
def test_linear_attention_takes_any_batch_axes(batches):
    query, key, value = inputs(BATCHES[batches])
    batch = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2])
    for mask in (None, random_mask(*batch, 1, KEYS), random_mask(1, KEYS)):
        context = qkv.linear_attention(query, key, value, mask)
        assert_near(context, linear_by_loops(query, key, value, mask))


def test_linear_attention_is_attend_with_feature_products_divided_by_their_sum():
    query, key, value = inputs(BATCHES["two"])

    def score(query, key):
        return qkv.dot_scores(qkv.elu_features(query), qkv.elu_features(key))

    def normalise(scores, mask):
        kept = qkv.unnormalised(scores, mask)
        return kept / kept.sum(dim=-1, keepdim=True)

    mask = random_mask(2, 1, 1, KEYS, may_be_empty=False)
    expected, _ = qkv.attend(query, key, value, mask, score=score, normalise=normalise)
    assert_near(qkv.linear_attention(query, key, value, mask), expected)


def test_linear_attention_averages_also_where_all_features_are_small():
    query, key, value = inputs()
    query, key = query - 9, key - 9
    assert_near(qkv.linear_attention(query, key, value), linear_by_loops(query, key, value))


def test_linear_attention_uses_the_feature_map_it_is_given():
    query, key, value = inputs()
    context = qkv.linear_attention(
        query, key, value, feature_map=lambda x: torch.cat([x.exp(), x.square()], -1)
    )
    weights = query.exp() @ key.exp().mT + query.square() @ key.square().mT
    assert_near(context, weights / weights.sum(dim=-1, keepdim=True) @ value)


def test_linear_attention_has_the_right_first_and_second_derivatives():
    query, key, value = inputs(((2, 1), (2,), ()), requires_grad=True)
    mask = torch.tensor([True, False, True, True, False, True, True]).expand(2, 1, 1, KEYS).clone()
    mask[1] = False
    call = partial(qkv.linear_attention, mask=mask)
    assert gradcheck(call, (query, key, value), fast_mode=True)
    assert gradgradcheck(call, (query, key, value), fast_mode=True)


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize("dtype", DTYPES)
def test_linear_attention_to_no_key_gives_context_0_and_finite_gradients(dtype):
    query, key, value = inputs(BATCHES["one"], dtype=dtype, requires_grad=True)
    mask = torch.ones(2, 1, KEYS, dtype=torch.bool)
    mask[1] = False
    with torch.autograd.detect_anomaly(check_nan=True):
        context = qkv.linear_attention(query, key, value, mask)
        context.square().sum().backward()
    assert context[1].eq(0).all()
    assert context[0].ne(0).all()
    for tensor in (query, key, value):
        assert tensor.grad.isfinite().all()
        assert tensor.grad[1].eq(0).all()
        assert tensor.grad[0].ne(0).any()


def test_linear_attention_takes_no_query_and_no_key():
    query, key, value = inputs()
    assert qkv.linear_attention(query[:0], key, value).shape == (0, D_VALUE)
    context = qkv.linear_attention(query, key[:0], value[:0])
    assert torch.equal(context, torch.zeros(QUERIES, D_VALUE, dtype=torch.float64))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_linear_attention_keeps_its_precision_in_half_precision_over_many_keys(dtype):
    query, key, value = normal(3, 64, seed=1), normal(4096, 64, seed=2), normal(4096, 5, seed=3) + 1
    expected = qkv.linear_attention(query, key, value)
    context = qkv.linear_attention(*(tensor.to(dtype) for tensor in (query, key, value)))
    assert_near(context, expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_elu_features_are_positive_and_equal_the_loop(dtype):
    numbers = torch.tensor([-9.0, -3.0, -0.5, 0.0, 0.5, 4.0], dtype=dtype)
    features = qkv.elu_features(numbers)
    assert features.dtype == dtype
    assert features.gt(0).all()
    expected = torch.tensor([feature(x) for x in numbers.tolist()], dtype=torch.float64)
    torch.testing.assert_close(features.double(), expected, rtol=2 * torch.finfo(dtype).eps, atol=6e-8)


def test_elu_features_have_slope_1_at_0():
    zero = torch.zeros(1, requires_grad=True)
    qkv.elu_features(zero).sum().backward()
    assert zero.grad.item() == 1


# How sharp the weights are.


def test_entropy_is_0_for_one_key_and_log_keys_for_all_alike():
    weights = torch.stack(
        [F.one_hot(torch.tensor(2), KEYS).double(), torch.full((KEYS,), 1 / KEYS, dtype=torch.float64)]
    )
    assert_near(qkv.entropy(weights), torch.tensor([0, math.log(KEYS)], dtype=torch.float64))


def test_entropy_equals_the_loop_and_stays_within_its_bounds():
    weights = qkv.masked_softmax(3 * normal(2, QUERIES, KEYS), random_mask(2, QUERIES, KEYS))
    entropy = qkv.entropy(weights)
    expected = each_batch(
        lambda rows: [[-math.fsum(w * math.log(w) for w in row if w)] for row in rows], weights
    )
    assert_near(entropy, expected.squeeze(-1))
    assert (entropy >= 0).all()
    assert (entropy <= math.log(KEYS)).all()


def test_entropy_of_softmax_has_the_right_derivatives_also_where_a_weight_is_0():
    scores = normal(3, 5, requires_grad=True)
    mask = torch.tensor([[True, True, False, True, False], [True] * 5, [False] * 5])

    def spread(scores):
        return qkv.entropy(qkv.masked_softmax(scores, mask))

    assert gradcheck(spread, scores)
    assert gradgradcheck(spread, scores)


def test_the_softmax_jacobian_is_autograds():
    scores = normal(2, 3, KEYS)
    jacobian = qkv.softmax_jacobian(scores.softmax(dim=-1))
    assert jacobian.shape == (2, 3, KEYS, KEYS)
    for index in itertools.product(range(2), range(3)):
        expected = torch.autograd.functional.jacobian(lambda row: row.softmax(dim=-1), scores[index])
        assert_near(jacobian[index], expected)


def test_the_softmax_jacobian_vanishes_where_one_key_has_all_the_weight():
    one = F.one_hot(torch.tensor(2), KEYS).double()
    assert qkv.softmax_jacobian(one).eq(0).all()


@pytest.mark.parametrize("function", [qkv.entropy, qkv.softmax_jacobian])
def test_entropy_and_jacobian_have_the_right_derivatives(function):
    weights = normal(2, 5).softmax(dim=-1).requires_grad_()
    assert gradcheck(function, weights)
    assert gradgradcheck(function, weights)


# Promises of every function.

EVERY_FUNCTION = {
    **{name: lambda name=name, **options: score_case(name, **options) for name in SCORES},
    **{
        name: lambda function=function, **options: (
            function,
            normal(QUERIES, KEYS, **options),
            random_mask(QUERIES, KEYS),
            {},
        )
        for name, function in NORMALISATIONS.items()
    },
    "attend": lambda **options: (
        qkv.attend,
        *inputs(**options),
        {"mask": random_mask(QUERIES, KEYS)},
    ),
    "linear": lambda **options: (
        qkv.linear_attention,
        *inputs(**options),
        {"mask": random_mask(1, KEYS)},
    ),
    "sum": lambda **options: (
        qkv.weighted_sum,
        normal(QUERIES, KEYS, **options),
        normal(KEYS, D_VALUE, **options),
        {},
    ),
    "features": lambda **options: (qkv.elu_features, normal(QUERIES, D_KEY, **options), {}),
    "entropy": lambda **options: (qkv.entropy, normal(QUERIES, KEYS, **options).softmax(dim=-1), {}),
    "jacobian": lambda **options: (
        qkv.softmax_jacobian,
        normal(QUERIES, KEYS, **options).softmax(dim=-1),
        {},
    ),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", EVERY_FUNCTION)
def test_inputs_stay_as_they_are_and_outputs_follow_their_dtype_and_device(name, dtype, device):
    if device.type == "mps" and dtype == torch.float64:
        dtype = torch.float32
    function, *arguments, options = EVERY_FUNCTION[name](dtype=dtype)
    arguments = [argument.to(device) for argument in arguments]
    options = {key: option.to(device) for key, option in options.items()}
    given = [*arguments, *options.values()]
    before = [tensor.clone() for tensor in given]
    state = torch.get_rng_state()

    results = function(*arguments, **options)

    for result in results if isinstance(results, tuple) else (results,):
        assert result.dtype == dtype
        assert result.device == given[0].device
        assert result.isfinite().all()
    assert all(map(torch.equal, given, before))
    assert torch.equal(torch.get_rng_state(), state)


# Errors.


def ones(*shape, dtype=torch.float32):
    return torch.ones(shape, dtype=dtype)


WRONG_CALLS = {
    "dot: widths": (
        lambda: qkv.dot_scores(ones(2, 3), ones(5, 7)),
        "query and key need the same width, but have 3 and 7",
    ),
    "scaled dot: widths": (
        lambda: qkv.scaled_dot_scores(ones(2, 3), ones(5, 7)),
        "query and key need the same width, but have 3 and 7",
    ),
    "scaled dot: no width": (
        lambda: qkv.scaled_dot_scores(ones(2, 0), ones(5, 0)),
        "query and key need a width d_key of at least 1, but it is 0",
    ),
    "cosine: widths": (
        lambda: qkv.cosine_scores(ones(2, 3), ones(5, 7)),
        "query and key need the same width, but have 3 and 7",
    ),
    "general: weight transposed": (
        lambda: qkv.general_scores(ones(2, 3), ones(5, 7), weight=ones(7, 3)),
        "weight must have shape (3, 7) here, but has shape (7, 3)",
    ),
    "additive: query weight": (
        lambda: qkv.additive_scores(
            ones(2, 3), ones(5, 7), query_weight=ones(11, 7), key_weight=ones(11, 7), vector=ones(11)
        ),
        "query_weight must have shape (11, 3) here, but has shape (11, 7)",
    ),
    "additive: key weight": (
        lambda: qkv.additive_scores(
            ones(2, 3), ones(5, 7), query_weight=ones(11, 3), key_weight=ones(7, 11), vector=ones(11)
        ),
        "key_weight must have shape (11, 7) here, but has shape (7, 11)",
    ),
    "concat: weight": (
        lambda: qkv.concat_scores(ones(2, 3), ones(5, 7), weight=ones(11, 7), vector=ones(11)),
        "weight must have shape (11, 10) here, but has shape (11, 7)",
    ),
    "temperature 0": (
        lambda: qkv.masked_softmax(ones(2, 5), temperature=0.0),
        "temperature must be above 0, but is 0.0",
    ),
    "temperature below 0": (
        lambda: qkv.masked_softmax(ones(2, 5), temperature=-1.0),
        "temperature must be above 0, but is -1.0",
    ),
    "temperature not a number": (
        lambda: qkv.masked_softmax(ones(2, 5), temperature=math.nan),
        "temperature must be above 0, but is nan",
    ),
    **{
        f"{name}: mask of numbers": (
            lambda function=function: function(ones(2, 5), ones(2, 5)),
            "mask must be boolean, with True where a query may attend, but its dtype is torch.float32",
        )
        for name, function in NORMALISATIONS.items()
    },
    **{
        f"{name}: mask transposed": (
            lambda function=function: function(ones(2, 5), ones(5, 2) > 0),
            "mask must broadcast to the scores' shape (2, 5), but has shape (5, 2)",
        )
        for name, function in NORMALISATIONS.items()
    },
    **{
        f"{name}: mask larger than the scores": (
            lambda function=function: function(ones(2, 5), ones(3, 2, 5) > 0),
            "mask must broadcast to the scores' shape (2, 5), but has shape (3, 2, 5)",
        )
        for name, function in NORMALISATIONS.items()
    },
    "weighted sum: keys": (
        lambda: qkv.weighted_sum(ones(3, 2, 5), ones(7, 3)),
        "weights and value need the same number of keys, but have 5 and 7",
    ),
    "attend: widths": (
        lambda: qkv.attend(ones(2, 3), ones(5, 7), ones(5, 11)),
        "query and key need the same width, but have 3 and 7",
    ),
    "attend: keys": (
        lambda: qkv.attend(ones(2, 3), ones(5, 3), ones(7, 11)),
        "key and value need the same number of keys, but have 5 and 7",
    ),
    "scores: batch": (
        lambda: qkv.dot_scores(ones(2, 5, 3), ones(4, 7, 3)),
        "query and key need batch axes that broadcast, but have shapes (2, 5, 3) and (4, 7, 3)",
    ),
    "additive: batch": (
        lambda: qkv.additive_scores(
            ones(2, 5, 3), ones(4, 7, 3), query_weight=ones(2, 3), key_weight=ones(2, 3), vector=ones(2)
        ),
        "query and key need batch axes that broadcast, but have shapes (2, 5, 3) and (4, 7, 3)",
    ),
    "concat: batch": (
        lambda: qkv.concat_scores(ones(2, 5, 3), ones(4, 7, 3), weight=ones(2, 6), vector=ones(2)),
        "query and key need batch axes that broadcast, but have shapes (2, 5, 3) and (4, 7, 3)",
    ),
    "sum: batch": (
        lambda: qkv.weighted_sum(ones(2, 5, 3), ones(4, 3, 7)),
        "weights and value need batch axes that broadcast, but have shapes (2, 5, 3) and (4, 3, 7)",
    ),
    "attend: batch": (
        lambda: qkv.attend(ones(5, 3), ones(2, 7, 3), ones(4, 7, 11)),
        "key and value need batch axes that broadcast, but have shapes (2, 7, 3) and (4, 7, 11)",
    ),
    "additive: vector": (
        lambda: qkv.additive_scores(
            ones(5, 3), ones(7, 3), query_weight=ones(2, 3), key_weight=ones(2, 3), vector=ones(2, 1)
        ),
        "vector must have shape (2,) here, but has shape (2, 1)",
    ),
    "concat: vector": (
        lambda: qkv.concat_scores(ones(5, 3), ones(7, 3), weight=ones(2, 6), vector=ones(1, 2)),
        "vector must have shape (2,) here, but has shape (1, 2)",
    ),
    "attend: mask": (
        lambda: qkv.attend(ones(2, 3), ones(5, 3), ones(5, 11), ones(2, 7) > 0),
        "mask must broadcast to the scores' shape (2, 5), but has shape (2, 7)",
    ),
    "linear: widths": (
        lambda: qkv.linear_attention(ones(2, 3), ones(5, 7), ones(5, 11)),
        "query and key need the same width, but have 3 and 7",
    ),
    "linear: keys": (
        lambda: qkv.linear_attention(ones(2, 3), ones(5, 3), ones(7, 11)),
        "key and value need the same number of keys, but have 5 and 7",
    ),
    "linear: a mask row for each query": (
        lambda: qkv.linear_attention(ones(2, 3), ones(5, 3), ones(5, 11), ones(2, 5) > 0),
        "linear attention takes a mask with one row for all queries, (..., 1, keys), but its shape is (2, 5)",
    ),
    "linear: mask without a row axis": (
        lambda: qkv.linear_attention(ones(2, 3), ones(5, 3), ones(5, 11), ones(5) > 0),
        "linear attention takes a mask with one row for all queries, (..., 1, keys), but its shape is (5,)",
    ),
    "linear: mask of numbers": (
        lambda: qkv.linear_attention(ones(2, 3), ones(5, 3), ones(5, 11), ones(1, 5)),
        "mask must be boolean, with True where a query may attend, but its dtype is torch.float32",
    ),
    "linear: mask of other keys": (
        lambda: qkv.linear_attention(ones(3, 2, 3), ones(5, 3), ones(5, 11), ones(1, 7) > 0),
        "mask must broadcast to the scores' shape (3, 1, 5), but has shape (1, 7)",
    ),
}


@pytest.mark.parametrize("case", WRONG_CALLS)
def test_a_wrong_call_is_told_what_was_expected_and_what_came(case, no_shape_checks):
    call, message = WRONG_CALLS[case]
    with pytest.raises(ValueError) as error:
        call()
    assert str(error.value) == message


# The shape annotations are executed here: see addopts in pyproject.toml.


@pytest.mark.parametrize(
    ("call", "parameter"),
    [
        (lambda: qkv.dot_scores(ones(2, 3), ones(5, 7)), "key"),
        (lambda: qkv.masked_softmax(ones(2, 5), ones(2, 5)), "mask"),
        (lambda: qkv.attend(ones(2, 3), ones(5, 3), ones(7, 11)), "value"),
        (lambda: qkv.entropy(ones(2, 5, dtype=torch.int64)), "weights"),
    ],
)
def test_the_shape_annotations_refuse_a_wrong_argument(call, parameter):
    with pytest.raises(jaxtyping.TypeCheckError, match=f"typechecking parameter '{parameter}'"):
        call()


def test_the_shape_annotations_refuse_a_wrong_result():
    with pytest.raises(
        jaxtyping.TypeCheckError, match=r"checking the return value of attncourse\.qkv\.attend"
    ):
        qkv.attend(ones(2, 3), ones(5, 3), ones(5, 11), normalise=lambda scores, mask: scores[:1])


@pytest.mark.parametrize(
    ("dtype", "size"), [(torch.float32, 1e-30), (torch.float32, 1e30), (torch.float16, 1e4)]
)
def test_cosine_scores_do_not_depend_on_the_length_of_the_vectors(dtype, size):
    query = torch.tensor([[3.0, 4.0]], dtype=dtype) * size
    key = torch.tensor([[4.0, 3.0], [-3.0, -4.0]], dtype=dtype)
    expected = torch.tensor([[24 / 25, -1.0]], dtype=dtype)
    torch.testing.assert_close(qkv.cosine_scores(query, key), expected)


def test_linear_attention_over_thousands_of_keys_stays_in_the_range_of_float16():
    value = torch.full((3000, 2), 50.0, dtype=torch.float16)
    query, key = torch.zeros(2, 16, dtype=torch.float16), torch.zeros(3000, 16, dtype=torch.float16)
    context = qkv.linear_attention(query, key, value)
    torch.testing.assert_close(context, torch.full((2, 2), 50.0, dtype=torch.float16), rtol=0.01, atol=0.0)


def test_linear_attention_over_wide_features_stays_in_the_range_of_float16():
    # One product of two features is 101² = 10,201, so the sum of 64 is 652,864; float16 ends at 65,504.
    query, key = (torch.full((2, rows, 64), 100.0, dtype=torch.float16) for rows in (1, 3))
    value = torch.full((3, 2), 5.0, dtype=torch.float16)
    expected = value.new_full((2, 1, 2), 5.0)
    torch.testing.assert_close(qkv.linear_attention(query, key, value), expected, rtol=0.01, atol=0.0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("batches", BATCHES.values(), ids=BATCHES)
def test_fused_attention_gives_the_context_of_attend_and_its_gradients(batches, masked, dtype):
    tensors = inputs(batches, dtype=dtype, requires_grad=True)
    mask = random_mask(QUERIES, KEYS) if masked else None
    if masked:
        mask[2] = False
    exact = [tensor.detach().double().requires_grad_() for tensor in tensors]
    context, expected = qkv.fused_attention(*tensors, mask), qkv.attend(*exact, mask)[0]
    tolerance = {torch.float64: 1e-10, torch.float32: 1e-5, torch.bfloat16: 5e-2, torch.float16: 5e-3}[dtype]
    assert context.dtype == dtype
    torch.testing.assert_close(context.double(), expected, rtol=tolerance, atol=tolerance)
    if masked:
        assert not context[..., 2, :].any()
    cotangent = normal(*context.shape, seed=4)
    found = torch.autograd.grad((context * cotangent.to(dtype)).sum(), tensors)
    wanted = torch.autograd.grad((expected * cotangent).sum(), exact)
    for actual, wished in zip(found, wanted, strict=True):
        torch.testing.assert_close(actual.double(), wished, rtol=3 * tolerance, atol=3 * tolerance)


@pytest.mark.parametrize("shape", [(KEYS,), (1, KEYS), (QUERIES, 1), (3, 1, KEYS), (2, 1, QUERIES, KEYS)])
def test_fused_attention_takes_every_mask_that_attend_takes(shape):
    tensors, mask = inputs(((2, 3),) * 3), random_mask(*shape)
    torch.testing.assert_close(qkv.fused_attention(*tensors, mask), qkv.attend(*tensors, mask)[0])


@pytest.mark.parametrize("batches", [((3,), (), ()), ((), (3,), ()), ((2, 1), (3,), ())])
def test_fused_attention_takes_a_mask_with_the_batch_axes_of_the_scores(batches):
    tensors = inputs(batches)
    mask = random_mask(*torch.broadcast_shapes(*batches), QUERIES, KEYS)
    torch.testing.assert_close(qkv.fused_attention(*tensors, mask), qkv.attend(*tensors, mask)[0])


@pytest.mark.parametrize("sizes", [(0, 7), (5, 0), (0, 0), (1, 1)])
def test_fused_attention_of_no_query_or_no_key(sizes):
    query, key, value = normal(2, sizes[0], D_KEY), normal(2, sizes[1], D_KEY), normal(2, sizes[1], D_VALUE)
    context = qkv.fused_attention(query, key, value)
    torch.testing.assert_close(context, qkv.attend(query, key, value)[0])


def test_fused_attention_has_a_second_derivative_by_the_mathematical_kernel():
    tensors = inputs(((1, 2),) * 3, requires_grad=True)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        assert gradgradcheck(qkv.fused_attention, tensors)


def test_fused_attention_refuses_what_does_not_fit(no_shape_checks):
    query, key, value = inputs()
    with pytest.raises(ValueError, match=r"^query and key need the same width, but have 11 and 2$"):
        qkv.fused_attention(query, key[:, :2], value)
    with pytest.raises(ValueError, match=r"^key and value need the same number of keys, but have 7 and 2$"):
        qkv.fused_attention(query, key, value[:2])
    with pytest.raises(ValueError, match=r"^the width d_key of query and key must be at least 1, but is 0$"):
        qkv.fused_attention(query[:, :0], key[:, :0], value)
    with pytest.raises(ValueError, match=r"^mask must be boolean, .* but its dtype is torch\.float64$"):
        qkv.fused_attention(query, key, value, normal(QUERIES, KEYS))
    with pytest.raises(
        ValueError, match=r"^mask must broadcast to the scores' shape \(5, 7\), but has shape"
    ):
        qkv.fused_attention(query, key, value, random_mask(QUERIES, 3))


@pytest.mark.parametrize("queries, keys", [(1, 1025), (1024, 2048), (1300, 7)])
@pytest.mark.parametrize("masked", ["not", "by key", "as a whole"])
def test_linear_attention_in_several_chunks_is_the_quotient_of_two_sums(queries, keys, masked):
    query, key, value = normal(2, queries, 3, seed=1), normal(2, keys, 3, seed=2), normal(2, keys, 5, seed=3)
    masks = {
        "not": None,
        "by key": random_mask(2, 1, keys, may_be_empty=False),
        "as a whole": torch.ones(1, 1) > 0,
    }
    mask = masks[masked]
    weights = (F.elu(query) + 1) @ (F.elu(key) + 1).mT
    if mask is not None:
        weights = weights * mask
    expected = weights @ value / weights.sum(dim=-1, keepdim=True)
    torch.testing.assert_close(qkv.linear_attention(query, key, value, mask), expected)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_low_temperature_does_not_leave_the_range_of_half_precision(sign):
    scores = sign * torch.tensor([[60_000.0, 59_000.0]], dtype=torch.float16)
    weights = qkv.masked_softmax(scores, temperature=0.01)
    assert sorted(weights.flatten().tolist()) == [0, 1]


def test_a_temperature_and_no_key():
    assert qkv.masked_softmax(torch.zeros(2, 3, 0), temperature=0.5).shape == (2, 3, 0)
