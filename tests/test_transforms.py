"""The pure functions give the same numbers under `torch.compile`, `torch.export` and `torch.vmap`."""

from functools import partial

import jaxtyping
import pytest
import torch

from attncourse import (
    alignment,
    encoders,
    masks,
    multihead,
    position,
    qkv,
    restricted,
    selfattention,
    taxonomy,
)


@pytest.fixture(autouse=True, scope="module")
def without_shape_checks():
    """PyTorch traces what a user runs; the checks of the tests are not part of it."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


BATCH, HEADS, QUERIES, KEYS, WIDTH, D_VALUE, HIDDEN = 2, 3, 11, 13, 6, 5, 7
QUERY, KEY, VALUE = (
    normal(BATCH, HEADS, QUERIES, WIDTH, seed=1),
    normal(BATCH, HEADS, KEYS, WIDTH, seed=2),
    normal(BATCH, HEADS, KEYS, D_VALUE, seed=3),
)
SCORES = normal(BATCH, HEADS, QUERIES, KEYS, seed=4)
MASK = torch.rand(BATCH, HEADS, QUERIES, KEYS, generator=torch.Generator().manual_seed(5)) < 0.6
MASK[..., 2, :] = False  # a query that may attend to nothing
CENTRES = KEYS * torch.rand(BATCH, HEADS, QUERIES, generator=torch.Generator().manual_seed(7))
LOCAL = {"radius": 2, "gaussian": True}
SEQUENCE = KEY, normal(BATCH, HEADS, KEYS, WIDTH, seed=6), VALUE
WEIGHTS = {
    f"{name}_weight": normal(*shape, seed=seed)
    for seed, (name, shape) in enumerate(
        {"query": (6, 6), "key": (6, 6), "value": (9, 5), "output": (4, 9)}.items()
    )
}

# Each function with tensors that share their first axis, over which vmap maps; options are fixed.
MAPPED = {
    "dot_scores": (qkv.dot_scores, (QUERY, KEY)),
    "scaled_dot_scores": (qkv.scaled_dot_scores, (QUERY, KEY)),
    "general_scores": (partial(qkv.general_scores, weight=normal(WIDTH, WIDTH)), (QUERY, KEY)),
    "additive_scores": (
        partial(
            qkv.additive_scores,
            query_weight=normal(HIDDEN, WIDTH),
            key_weight=normal(HIDDEN, WIDTH, seed=1),
            vector=normal(HIDDEN, seed=2),
        ),
        (QUERY, KEY),
    ),
    "concat_scores": (
        partial(qkv.concat_scores, weight=normal(HIDDEN, 2 * WIDTH), vector=normal(HIDDEN, seed=2)),
        (QUERY, KEY),
    ),
    "cosine_scores": (qkv.cosine_scores, (QUERY, KEY)),
    "masked_softmax": (qkv.masked_softmax, (SCORES, MASK)),
    "masked_softmax, temperature": (partial(qkv.masked_softmax, temperature=0.5), (SCORES, MASK)),
    "masked_sigmoid": (qkv.masked_sigmoid, (SCORES, MASK)),
    "unnormalised": (qkv.unnormalised, (SCORES, MASK)),
    "weighted_sum": (qkv.weighted_sum, (SCORES, VALUE)),
    "attend": (qkv.attend, (QUERY, KEY, VALUE, MASK)),
    "fused_attention": (qkv.fused_attention, (QUERY, KEY, VALUE, MASK)),
    "linear_attention": (qkv.linear_attention, (QUERY, KEY, VALUE, MASK[..., :1, :])),
    "entropy": (qkv.entropy, (SCORES.softmax(dim=-1),)),
    "softmax_jacobian": (qkv.softmax_jacobian, (SCORES.softmax(dim=-1),)),
    "multihead_attention": (
        partial(multihead.multihead_attention, heads=3, **WEIGHTS),
        (QUERY, KEY, VALUE, MASK),
    ),
    "window_attention": (partial(restricted.window_attention, radius=3), SEQUENCE),
    "streaming_attention": (partial(restricted.streaming_attention, chunk=4), (QUERY, KEY, VALUE, MASK)),
    "causal_linear_attention": (partial(restricted.causal_linear_attention, chunk=4), SEQUENCE),
    "block_attention": (partial(restricted.block_attention, size=5, causal=True), SEQUENCE),
    "dilated_attention": (partial(restricted.dilated_attention, radius=2, dilation=3), SEQUENCE),
    "global_window_attention": (partial(restricted.global_window_attention, radius=2, tokens=3), SEQUENCE),
    "convolution_as_attention": (
        partial(restricted.convolution_as_attention, weight=normal(4, WIDTH, 3)),
        (QUERY,),
    ),
    "padding_mask": (partial(masks.padding_mask, keys=KEYS), (torch.tensor([[3, 0], [13, 1]]),)),
    "attentional_state": (
        partial(alignment.attentional_state, weight=normal(4, 2 * WIDTH)),
        (QUERY, normal(*QUERY.shape, seed=8)),
    ),
    "coverage": (alignment.coverage, (SCORES, torch.tensor([[3, 0, 11], [1, 2, 5]]))),
    "local_attention": (
        lambda *tensors: taxonomy.local_attention(*tensors[:3], positions=tensors[3], **LOCAL),
        (QUERY, KEY, VALUE, CENTRES),
    ),
    "gathered_local_attention": (
        lambda *tensors: taxonomy.gathered_local_attention(*tensors[:3], positions=tensors[3], **LOCAL),
        (QUERY, KEY, VALUE, CENTRES),
    ),
    "window_positions": (partial(taxonomy.window_positions, radius=2), (CENTRES,)),
    "score_function_loss": (taxonomy.score_function_loss, (SCORES, normal(*SCORES.shape, seed=8))),
    "leave_one_out": (taxonomy.leave_one_out, (SCORES,)),
    "expected_loss": (taxonomy.expected_loss, (SCORES, normal(*SCORES.shape, seed=8))),
    "permute": (partial(selfattention.permute, order=torch.arange(QUERIES).flip(0)), (QUERY,)),
    "rotate": (position.rotate, (QUERY,)),
    "shaw_bias": (partial(position.shaw_bias, table=normal(7, WIDTH)), (QUERY,)),
    "shaw_context": (partial(position.shaw_context, table=normal(7, WIDTH)), (SCORES,)),
    "add_positions": (partial(position.add_positions, positions=normal(QUERIES, WIDTH)), (QUERY,)),
    "concat_positions": (partial(position.concat_positions, positions=normal(QUERIES, 4)), (QUERY,)),
}
# Functions that make a table from sizes, or masks from lengths.
MADE = {
    "reverse": (encoders.reverse, (normal(3, 5, 7), torch.tensor([3, 0, 5]))),
    "causal_mask": (lambda scores: scores + masks.causal_mask(QUERIES, KEYS), (SCORES,)),
    "window_mask": (lambda scores: scores + masks.window_mask(QUERIES, KEYS, radius=2), (SCORES,)),
    "block_mask": (lambda scores: scores + masks.block_mask(QUERIES, KEYS, size=4), (SCORES,)),
    "dilated_mask": (
        lambda scores: scores + masks.dilated_mask(QUERIES, KEYS, radius=2, dilation=3),
        (SCORES,),
    ),
    "global_window_mask": (
        lambda scores: scores + masks.global_window_mask(QUERIES, KEYS, radius=2, tokens=1),
        (SCORES,),
    ),
    "sinusoidal": (lambda inputs: inputs + position.sinusoidal(QUERIES, WIDTH), (QUERY,)),
    "shift_matrix": (lambda inputs: inputs @ position.shift_matrix(3, WIDTH).to(inputs), (QUERY,)),
    "relative_positions": (lambda scores: scores + position.relative_positions(QUERIES, KEYS), (SCORES,)),
    "alibi_bias": (lambda scores: scores + position.alibi_bias(HEADS, QUERIES, KEYS), (SCORES,)),
    "t5_buckets": (lambda scores: scores + position.t5_buckets(QUERIES, KEYS), (SCORES,)),
}
ALL = MAPPED | MADE


class Wrapped(torch.nn.Module):
    """`torch.export` takes modules."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


@pytest.mark.parametrize("name", ALL)
def test_compiles_in_one_graph(name):
    function, inputs = ALL[name]
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(*inputs), function(*inputs))


@pytest.mark.parametrize("name", ALL)
def test_exports(name):
    function, inputs = ALL[name]
    program = torch.export.export(Wrapped(function), inputs)
    torch.testing.assert_close(program.module()(*inputs), function(*inputs))


@pytest.mark.parametrize("name", MAPPED)
def test_vmap_maps_over_a_batch_axis(name):
    function, inputs = MAPPED[name]
    mapped = torch.vmap(function)(*inputs)
    one_by_one = [function(*rows) for rows in zip(*inputs, strict=True)]
    if isinstance(mapped, tuple):
        one_by_one = [torch.stack(parts) for parts in zip(*one_by_one, strict=True)]
        # Weights of a head that no input reaches are the same for the whole batch.
        torch.testing.assert_close(list(mapped), one_by_one)
    else:
        torch.testing.assert_close(mapped, torch.stack(one_by_one))


@pytest.mark.parametrize("name", ["attend", "linear_attention", "streaming_attention", "window_attention"])
def test_gradients_pass_through_the_compiled_function(name):
    function, inputs = MAPPED[name]
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="aot_eager", fullgraph=True)

    def gradients(run):
        leaves = [tensor.clone().requires_grad_() for tensor in inputs[:3]]
        context = run(*leaves, *inputs[3:])
        context = context[0] if isinstance(context, tuple) else context
        return torch.autograd.grad(context.square().sum(), leaves)

    torch.testing.assert_close(gradients(compiled), gradients(function))
