"""The blocks against PyTorch's layers on copied weights, and what order means to self-attention."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from attncourse.masks import causal_mask, padding_mask
from attncourse.multihead import Cache, MultiHeadAttention
from attncourse.qkv import additive_scores, attend, dot_scores, linear_attention, masked_sigmoid
from attncourse.selfattention import (
    DecoderBlock,
    EncoderBlock,
    FeedForward,
    Residual,
    equivariance_error,
    invariance_error,
    permute,
)

BATCH, LENGTH, KEYS, HEADS, D_MODEL, D_FEEDFORWARD = 2, 5, 7, 3, 33, 19


def normal(*shape, seed=0, dtype=torch.float64, requires_grad=False):
    numbers = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return numbers.to(dtype).requires_grad_(requires_grad)


def shuffled(length, seed=0):
    """Give an order other than the present one."""
    return torch.randperm(length, generator=torch.Generator().manual_seed(seed)).roll(1)


def block(kind=EncoderBlock, **options):
    torch.manual_seed(0)
    made = kind(D_MODEL, HEADS, d_feedforward=D_FEEDFORWARD, **options).double()
    return with_random_biases(made)


def with_random_biases(layer):
    """Fill biases and norms, whose first values 0 and 1 would hide an error."""
    for name, parameter in layer.named_parameters():
        if name.endswith("bias") or "norm" in name:
            nn.init.normal_(parameter, mean=0.5)
    return layer


# Order (S27).


def test_permute_moves_the_vector_at_order_i_to_place_i():
    x, order = normal(2, 5, 3), shuffled(5)
    for i, place in enumerate(order.tolist()):
        assert torch.equal(permute(x, order)[:, i], x[:, place])


@pytest.mark.parametrize("length", [0, 1])
def test_permute_takes_short_sequences(length):
    assert torch.equal(permute(normal(2, length, 3), torch.arange(length)), normal(2, length, 3))


@pytest.mark.parametrize("order", [[0, 1], [0, 1, 1], [0, 1, 3], [0, 1, 2, 3]], ids=str)
@pytest.mark.parametrize(
    "function",
    [
        permute,
        lambda x, order: equivariance_error(EncoderBlock(6, 3), x, order),
        lambda x, order: invariance_error(attend, x, x, x, order),
    ],
    ids=["permute", "equivariance", "invariance"],
)
def test_an_order_must_hold_each_position_once(function, order, no_shape_checks):
    with pytest.raises(ValueError) as caught:
        function(normal(3, 6, dtype=torch.float32), torch.tensor(order))
    assert str(caught.value) == f"order must hold each position from 0 to 2 once, but is {order}"


def general_additive(query, key):
    weights = normal(11, D_MODEL, seed=5), normal(11, D_MODEL, seed=6), normal(11, seed=7)
    return additive_scores(query, key, query_weight=weights[0], key_weight=weights[1], vector=weights[2])


ATTENTIONS = {
    "scaled dot": attend,
    "additive": lambda q, k, v: attend(q, k, v, score=general_additive),
    "sigmoid": lambda q, k, v: attend(q, k, v, normalise=masked_sigmoid),
    "linear": lambda q, k, v: (linear_attention(q, k, v), None),
    "several heads": lambda q, k, v: with_random_biases(layer_of_heads())(q, k, v),
}


def layer_of_heads():
    torch.manual_seed(0)
    return MultiHeadAttention(D_MODEL, HEADS).double()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("attention", ATTENTIONS.values(), ids=ATTENTIONS)
def test_attention_is_invariant_to_the_order_of_keys_and_values(attention, seed):
    q, k, v = normal(2, LENGTH, D_MODEL), normal(2, KEYS, D_MODEL, seed=1), normal(2, KEYS, D_MODEL, seed=2)
    assert invariance_error(attention, q, k, v, shuffled(KEYS, seed)) < 1e-12
    # Keys alone in another order are another question.
    before, after = attention(q, k, v)[0], attention(q, permute(k, shuffled(KEYS, seed)), v)[0]
    assert (before - after).abs().max() > 1e-3


def test_with_a_causal_mask_attention_is_not_invariant():
    q, k, v = normal(KEYS, 11), normal(KEYS, 11, seed=1), normal(KEYS, 13, seed=2)
    masked = lambda q, k, v: attend(q, k, v, causal_mask(KEYS))  # noqa: E731
    assert invariance_error(masked, q, k, v, shuffled(KEYS)) > 1e-3


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("pre_norm", [False, True])
def test_a_block_is_equivariant_and_a_causal_mask_breaks_it(pre_norm, seed):
    layer, x, order = block(pre_norm=pre_norm), normal(BATCH, LENGTH, D_MODEL), shuffled(LENGTH, seed)
    assert equivariance_error(layer, x, order) < 1e-12
    assert equivariance_error(lambda x: layer(x, causal_mask(LENGTH)), x, order) > 1e-3


def test_errors_are_the_largest_absolute_differences():
    x, order = torch.tensor([[1.0], [4.0], [-6.0]]), torch.tensor([2, 0, 1])
    # Running sums: (1, 5, -1), moved after: (-1, 1, 5); moved before: sums of (-6, 1, 4) = (-6, -5, -1).
    assert equivariance_error(lambda x: (x.cumsum(dim=-2), None), x, order) == 6.0
    # The product with the first value, 1 before and -6 after.
    assert invariance_error(lambda q, k, v: (q * v[:1], None), x, x, x, order) == 42.0


def test_an_empty_sequence_has_no_error():
    x, order = normal(2, 0, D_MODEL), torch.arange(0)
    assert equivariance_error(block(), x, order) == 0
    assert invariance_error(attend, x, x, x, order) == 0


# Without projections (S23).


def test_without_projections_the_scores_are_symmetric_and_the_diagonal_dominates():
    x = normal(BATCH, 31, 64)
    scores = dot_scores(x, x)
    torch.testing.assert_close(scores, scores.mT)
    assert torch.equal(scores.argmax(dim=-1), torch.arange(31).expand(BATCH, -1))
    _, weights = attend(x, x, x)
    assert weights.diagonal(dim1=-2, dim2=-1).min() > 0.5
    projected = dot_scores(x @ normal(64, 64, seed=1), x @ normal(64, 64, seed=2))
    assert not torch.allclose(projected, projected.mT)
    assert (projected.argmax(dim=-1) == torch.arange(31)).double().mean() < 0.2


# Against PyTorch's layers.


def torch_layer(kind, **options):
    torch.manual_seed(0)
    layer = kind(D_MODEL, HEADS, D_FEEDFORWARD, batch_first=True, dtype=torch.float64, **options)
    return with_random_biases(layer)


OPTIONS = [
    {"dropout": 0.0},
    {"dropout": 0.0, "activation": F.gelu, "layer_norm_eps": 1e-2},
    {"dropout": 0.0, "activation": torch.tanh, "bias": False},
]
OPTION_NAMES = ["relu", "gelu", "without bias"]


def compare(ours, theirs, tensors, parameters):
    """Compare values, and gradients by inputs and parameters."""
    torch.testing.assert_close(ours, theirs)
    direction = normal(*ours.shape, seed=20)
    found = torch.autograd.grad((ours * direction).sum(), [*tensors, *parameters[0]])
    wanted = torch.autograd.grad((theirs * direction).sum(), [*tensors, *parameters[1]])
    torch.testing.assert_close(found, wanted)


MASKS = {
    "none": (None, None),
    "causal": (causal_mask(LENGTH), None),
    "padding": (None, torch.tensor([4, 2])),
    "both": (causal_mask(LENGTH), torch.tensor([1, 5])),
}


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("pre_norm", [False, True])
@pytest.mark.parametrize("options", OPTIONS, ids=OPTION_NAMES)
def test_an_encoder_block_equals_pytorch(options, pre_norm, mask):
    theirs = torch_layer(nn.TransformerEncoderLayer, norm_first=pre_norm, **options)
    ours = EncoderBlock.from_torch(theirs)
    x = normal(BATCH, LENGTH, D_MODEL, seed=1, requires_grad=True)
    causal, lengths = mask
    padding = None if lengths is None else padding_mask(lengths, LENGTH)
    joined = causal if padding is None else padding if causal is None else causal & padding
    found, weights = ours(x, joined)
    expected = theirs(
        x,
        src_mask=None if causal is None else ~causal,
        src_key_padding_mask=None if padding is None else ~padding.squeeze(1),
    )
    norms = ours.attention_residual.norm, ours.feedforward_residual.norm
    compare(
        found,
        expected,
        [x],
        (
            [norms[0].weight, norms[1].weight, ours.feedforward.widen.weight, ours.feedforward.narrow.weight],
            [theirs.norm1.weight, theirs.norm2.weight, theirs.linear1.weight, theirs.linear2.weight],
        ),
    )
    read = theirs.norm1(x) if pre_norm else x
    whole = None if joined is None else ~joined.expand(BATCH, LENGTH, LENGTH).repeat_interleave(HEADS, dim=0)
    _, maps = theirs.self_attn(read, read, read, attn_mask=whole, average_attn_weights=False)
    torch.testing.assert_close(weights, maps)


@pytest.mark.parametrize("source", [None, [3, 7], [1, 6]], ids=str)
@pytest.mark.parametrize("target", [None, [5, 2]], ids=str)
@pytest.mark.parametrize("pre_norm", [False, True])
@pytest.mark.parametrize("options", OPTIONS, ids=OPTION_NAMES)
def test_a_decoder_block_equals_pytorch(options, pre_norm, target, source):
    theirs = torch_layer(nn.TransformerDecoderLayer, norm_first=pre_norm, **options)
    ours = DecoderBlock.from_torch(theirs)
    x = normal(BATCH, LENGTH, D_MODEL, seed=1, requires_grad=True)
    memory = normal(BATCH, KEYS, D_MODEL, seed=2, requires_grad=True)
    mask = None if target is None else padding_mask(torch.tensor(target), LENGTH)
    memory_mask = None if source is None else padding_mask(torch.tensor(source), KEYS)
    found, (self_weights, cross_weights) = ours(x, memory, mask, memory_mask)
    expected = theirs(
        x,
        memory,
        tgt_mask=~causal_mask(LENGTH),
        tgt_key_padding_mask=None if mask is None else ~mask.squeeze(1),
        memory_key_padding_mask=None if memory_mask is None else ~memory_mask.squeeze(1),
    )
    norms = ours.attention_residual.norm, ours.cross_residual.norm, ours.feedforward_residual.norm
    compare(
        found,
        expected,
        [x, memory],
        (
            [*(norm.weight for norm in norms), ours.feedforward.widen.weight],
            [theirs.norm1.weight, theirs.norm2.weight, theirs.norm3.weight, theirs.linear1.weight],
        ),
    )
    assert self_weights.shape == (BATCH, HEADS, LENGTH, LENGTH)
    assert cross_weights.shape == (BATCH, HEADS, LENGTH, KEYS)
    read = theirs.norm1(x) if pre_norm else x
    own, maps = theirs.self_attn(
        read,
        read,
        read,
        attn_mask=~causal_mask(LENGTH),
        key_padding_mask=None if mask is None else ~mask.squeeze(1),
        average_attn_weights=False,
    )
    torch.testing.assert_close(self_weights, maps)
    middle = theirs.norm2(x + own)
    _, maps = theirs.multihead_attn(
        middle if pre_norm else theirs.norm1(x + own),
        memory,
        memory,
        key_padding_mask=None if memory_mask is None else ~memory_mask.squeeze(1),
        average_attn_weights=False,
    )
    torch.testing.assert_close(cross_weights, maps)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("kind", "theirs"),
    [(EncoderBlock, nn.TransformerEncoderLayer), (DecoderBlock, nn.TransformerDecoderLayer)],
)
def test_from_torch_keeps_mode_dropout_dtype_and_device_and_shares_nothing(
    kind, theirs, dtype, training, device
):
    layer = theirs(D_MODEL, HEADS, D_FEEDFORWARD, dropout=0.25, dtype=dtype, device=device).train(training)
    ours = kind.from_torch(layer)
    assert all(x.dtype == dtype and x.device.type == device.type for x in ours.parameters())
    assert all(module.training == training for module in ours.modules())
    assert {x.p for x in ours.modules() if isinstance(x, nn.Dropout)} == {0.25}
    assert {x.dropout for x in ours.modules() if isinstance(x, MultiHeadAttention)} == {0.25}
    assert sum(x.numel() for x in ours.parameters()) == sum(x.numel() for x in layer.parameters())
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.fill_(7.0)
    assert not any((x == 7.0).all() for x in layer.parameters())


# The parts.


def test_the_feed_forward_network_treats_each_position_alone():
    network = with_random_biases(FeedForward(D_MODEL, D_FEEDFORWARD)).double()
    x = normal(BATCH, LENGTH, D_MODEL)
    w, b, v, c = (y.detach() for y in network.parameters())
    for i in range(LENGTH):
        expected = (x[:, i] @ w.T + b).clamp(min=0) @ v.T + c
        torch.testing.assert_close(network(x)[:, i], expected)


def test_the_feed_forward_network_is_four_times_as_wide_if_nothing_is_said():
    assert EncoderBlock(6, 3).feedforward.widen.weight.shape == (24, 6)
    assert DecoderBlock(6, 3).feedforward.widen.weight.shape == (24, 6)


def test_the_norm_stands_before_the_part_or_after_the_sum():
    x, said = normal(BATCH, D_MODEL), normal(BATCH, D_MODEL, seed=1)
    pre, post = (Residual(D_MODEL, pre_norm=order).double() for order in (True, False))
    normed = lambda y: (y - y.mean(-1, keepdim=True)) / (y.var(-1, False, keepdim=True) + 1e-5).sqrt()  # noqa: E731
    torch.testing.assert_close(pre.read(x), normed(x))
    torch.testing.assert_close(pre(x, said), x + said)
    torch.testing.assert_close(post.read(x), x)
    torch.testing.assert_close(post(x, said), normed(x + said))


@pytest.mark.parametrize("kind", [EncoderBlock, DecoderBlock])
def test_with_everything_dropped_in_training_only_the_residual_is_left(kind):
    layer = block(kind, dropout=1.0)
    x, memory = normal(BATCH, LENGTH, D_MODEL), normal(BATCH, KEYS, D_MODEL, seed=1)
    arguments = (x,) if kind is EncoderBlock else (x, memory)
    assert torch.equal(layer(*arguments)[0], x)
    undropped = block(kind)
    undropped.load_state_dict(layer.state_dict())
    torch.testing.assert_close(layer.eval()(*arguments), undropped(*arguments), atol=0, rtol=0)
    # The weights are those before dropout.
    weights = layer.train()(*arguments)[1]
    if kind is EncoderBlock:
        torch.testing.assert_close(weights, undropped(*arguments)[1])


def test_dropout_inside_the_feed_forward_network():
    network = with_random_biases(FeedForward(D_MODEL, D_FEEDFORWARD, dropout=1.0)).double()
    x = normal(BATCH, D_MODEL)
    assert torch.equal(network(x), network.narrow.bias.expand(BATCH, -1))


# The decoder block.


def test_cross_attention_asks_with_the_result_of_self_attention():
    """Two sublayers, not a sum (S24): what a query asks of the source depends on earlier target tokens."""
    layer, memory = block(DecoderBlock), normal(BATCH, KEYS, D_MODEL, seed=1)
    x = normal(BATCH, LENGTH, D_MODEL, requires_grad=True)
    _, (_, cross_weights) = layer(x, memory)
    (gradient,) = torch.autograd.grad(cross_weights[:, :, 3].square().sum(), x)
    assert gradient[:, :4].abs().amax(dim=-1).min() > 0
    assert gradient[:, 4:].eq(0).all()


@pytest.mark.parametrize("pre_norm", [False, True])
def test_a_decoder_block_sees_all_of_the_past_all_of_the_memory_and_nothing_of_the_future(pre_norm):
    layer = block(DecoderBlock, pre_norm=pre_norm)
    x = normal(LENGTH, D_MODEL, requires_grad=True)
    memory = normal(KEYS, D_MODEL, seed=1, requires_grad=True)
    output, _ = layer(x, memory)
    for i in range(LENGTH):
        gradients = torch.autograd.grad(
            (output[i] * normal(D_MODEL, seed=2)).sum(), [x, memory], retain_graph=True
        )
        reached = [gradient.ne(0).any(dim=-1).tolist() for gradient in gradients]
        assert reached == [[j <= i for j in range(LENGTH)], [True] * KEYS]


@pytest.mark.parametrize("memory_length", [0, KEYS])
def test_without_a_source_to_see_cross_attention_says_its_bias_and_gradients_are_finite(memory_length):
    layer, x = block(DecoderBlock), normal(BATCH, LENGTH, D_MODEL, requires_grad=True)
    memory = normal(BATCH, memory_length, D_MODEL, seed=1)
    mask = padding_mask(torch.tensor([0, 0]), memory_length)
    output, (_, cross_weights) = layer(x, memory, memory_mask=mask)
    assert cross_weights.eq(0).all()
    (gradient,) = torch.autograd.grad(output.square().sum(), x)
    assert output.isfinite().all()
    assert gradient.isfinite().all()
    other, _ = layer(x, memory + 1, memory_mask=mask)
    assert torch.equal(output, other)


@pytest.mark.parametrize(("batch", "length"), [(0, 5), (2, 0), (2, 1)])
def test_blocks_take_empty_batches_and_short_sequences(batch, length):
    x, memory = normal(batch, length, D_MODEL), normal(batch, KEYS, D_MODEL)
    assert block()(x)[0].shape == x.shape
    output, (self_weights, cross_weights) = block(DecoderBlock)(x, memory)
    assert output.shape == x.shape
    assert self_weights.shape == (batch, HEADS, length, length)
    assert cross_weights.shape == (batch, HEADS, length, KEYS)


# Steps with a cache.


CHUNKS = [[1] * LENGTH, [2, 1, 2], [LENGTH], [3, 0, 2]]


@pytest.mark.parametrize("chunks", CHUNKS, ids=str)
@pytest.mark.parametrize("pre_norm", [False, True])
def test_steps_of_an_encoder_block_with_a_cache_equal_one_causal_run(pre_norm, chunks):
    layer, x, cache = block(pre_norm=pre_norm), normal(BATCH, LENGTH, D_MODEL), Cache()
    parts = [
        layer(part, causal_mask(part.shape[1], past=cache.length), cache=cache)[0]
        for part in x.split(chunks, dim=1)
    ]
    torch.testing.assert_close(torch.cat(parts, dim=1), layer(x, causal_mask(LENGTH))[0])


@pytest.mark.parametrize("chunks", CHUNKS, ids=str)
@pytest.mark.parametrize("pre_norm", [False, True])
def test_steps_of_a_decoder_block_with_caches_equal_one_run(pre_norm, chunks):
    layer = block(DecoderBlock, pre_norm=pre_norm)
    x, memory = normal(BATCH, LENGTH, D_MODEL), normal(BATCH, KEYS, D_MODEL, seed=1)
    mask = padding_mask(torch.tensor([3, 7]), KEYS)
    output, (own, cross) = layer(x, memory, memory_mask=mask)
    caches, start = (Cache(), Cache(fixed=True)), 0
    for part in x.split(chunks, dim=1):
        stop = start + part.shape[1]
        found = layer(part, memory, memory_mask=mask, caches=caches)
        expected = output[:, start:stop], (own[:, :, start:stop, :stop], cross[:, :, start:stop])
        torch.testing.assert_close(found, expected)
        start = stop
    assert [cache.length for cache in caches] == [LENGTH, KEYS]


@pytest.mark.parametrize("kind", [EncoderBlock, DecoderBlock])
def test_score_is_stage_1_of_self_attention(kind):
    layer, x, memory = block(kind), normal(BATCH, LENGTH, D_MODEL), normal(BATCH, KEYS, D_MODEL, seed=1)
    flat = lambda query, key: dot_scores(query, key) * 0  # noqa: E731
    if kind is EncoderBlock:
        _, weights = layer(x, score=flat)
        torch.testing.assert_close(weights, torch.full_like(weights, 1 / LENGTH))
        return
    _, (weights, cross) = layer(x, memory, score=flat)
    counts = torch.arange(1, LENGTH + 1, dtype=torch.float64)
    expected = causal_mask(LENGTH) / counts[:, None]
    torch.testing.assert_close(weights, expected.expand_as(weights))
    assert cross.std() > 1e-3


@pytest.mark.parametrize("kind", [EncoderBlock, DecoderBlock])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"heads": 4}, "heads must be at least 1 and divide d_model, but heads is 4 and d_model is 33"),
        ({"dropout": 1.5}, "dropout must lie between 0 and 1, but is 1.5"),
    ],
)
def test_a_wrong_block_is_told_what_was_expected_and_what_came(kind, options, message):
    with pytest.raises(ValueError) as caught:
        kind(**{"d_model": D_MODEL, "heads": HEADS} | options)
    assert str(caught.value) == message
