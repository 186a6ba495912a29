"""Encoders against PyTorch's layers on copied weights, each sentence read alone and without padding."""

import math

import pytest
import torch
from torch import nn
from torch.autograd import gradcheck
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from attncourse.encoders import (
    LAYERS,
    AttentionEncoder,
    ConvolutionalEncoder,
    Encoder,
    RecurrentEncoder,
    receptive_field,
    reverse,
    rnn,
    rnn_step,
)
from attncourse.position import sinusoidal

BATCH, SOURCE, D_INPUT, D_STATE = 5, 7, 3, 11
LENGTHS = torch.tensor([4, 7, 1, 0, 5])
POSITIONS = ["none", "learned", "sinusoidal"]
ENCODERS = {
    "recurrent": RecurrentEncoder,
    "bidirectional": lambda *sizes, **options: RecurrentEncoder(*sizes, bidirectional=True, **options),
    "convolutional": ConvolutionalEncoder,
    "dilated": lambda *sizes, **options: ConvolutionalEncoder(*sizes, kernel=5, dilation=2, **options),
    "attention": AttentionEncoder,
}


def normal(*shape, seed=0, dtype=torch.float64):
    numbers = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return numbers.to(dtype)


def inputs(**options):
    return normal(BATCH, SOURCE, D_INPUT, **options)


def build(kind, **options):
    torch.manual_seed(0)
    return ENCODERS[kind](D_INPUT, D_STATE, **options).double()


def parameters_of(layer):
    """Give a layer of PyTorch as the parameters of `rnn`, which has one bias and not two."""
    suffix = "_l0" if isinstance(layer, nn.RNN) else ""
    ours = {"input_weight": "weight_ih", "state_weight": "weight_hh"}
    named = {name: getattr(layer, f"{theirs}{suffix}") for name, theirs in ours.items()}
    return named | {"bias": getattr(layer, f"bias_ih{suffix}") + getattr(layer, f"bias_hh{suffix}")}


# The tanh RNN, written out.


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_step_equals_pytorchs_cell(dtype, device):
    cell = nn.RNNCell(D_INPUT, D_STATE, device=device, dtype=dtype)
    token, state = normal(BATCH, D_INPUT, dtype=dtype), normal(BATCH, D_STATE, seed=1, dtype=dtype)
    token, state = token.to(device), state.to(device)
    torch.testing.assert_close(rnn_step(token, state, **parameters_of(cell)), cell(token, state))


@pytest.mark.parametrize("length", [0, 1, SOURCE])
def test_the_loop_equals_pytorchs_layer(length):
    layer = nn.RNN(D_INPUT, D_STATE, batch_first=True, dtype=torch.float64)
    tokens, state = normal(BATCH, length, D_INPUT), normal(BATCH, D_STATE, seed=1)
    states = rnn(tokens, state, **parameters_of(layer))
    assert states.shape == (BATCH, length, D_STATE)
    if length:
        torch.testing.assert_close(states, layer(tokens, state.unsqueeze(0))[0])


def test_the_loop_takes_any_batch_axes():
    parameters = parameters_of(nn.RNN(D_INPUT, D_STATE, dtype=torch.float64))
    tokens, state = normal(2, BATCH, SOURCE, D_INPUT), normal(2, BATCH, D_STATE, seed=1)
    both = rnn(tokens, state, **parameters)
    torch.testing.assert_close(both[1, 3], rnn(tokens[1, 3], state[1, 3], **parameters))


def test_gradients_of_the_loop():
    named = {name: value.detach() for name, value in parameters_of(nn.RNN(2, 3, dtype=torch.float64)).items()}
    arguments = [normal(2, 4, 2), normal(2, 3, seed=1), *named.values()]

    def run(tokens, state, *values):
        return rnn(tokens, state, **dict(zip(named, values, strict=True)))

    assert gradcheck(run, [argument.requires_grad_() for argument in arguments])


@pytest.mark.parametrize("name", ["input_weight", "state_weight", "bias"])
def test_a_parameter_of_the_wrong_shape(name, no_shape_checks):
    parameters = parameters_of(nn.RNN(D_INPUT, D_STATE, dtype=torch.float64)) | {name: normal(13)}
    with pytest.raises(ValueError, match=rf"{name} must have shape \(11.* here, but has shape \(13,\)"):
        rnn(inputs(), normal(BATCH, D_STATE), **parameters)


# Helpers.


def test_reverse_turns_each_sequence_round_and_leaves_its_padding():
    given = torch.arange(BATCH * SOURCE).view(BATCH, SOURCE, 1).double()
    turned = reverse(given, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        tokens = given[row, :, 0].tolist()
        assert turned[row, :, 0].tolist() == tokens[:length][::-1] + tokens[length:]
    assert torch.equal(reverse(turned, LENGTHS), given)


def test_reverse_needs_one_length_for_each_sequence(no_shape_checks):
    with pytest.raises(ValueError, match=r"lengths must have shape \(5,\) here, but has shape \(3,\)"):
        reverse(inputs(), LENGTHS[:3])


@pytest.mark.parametrize("kernel", [1, 2, 3, 5])
@pytest.mark.parametrize("layers", [0, 1, 2, 4])
def test_the_receptive_field(layers, kernel):
    assert receptive_field(layers=layers, kernel=kernel) == 1 + layers * (kernel - 1)
    assert receptive_field(layers=layers, kernel=kernel, dilation=kernel) == kernel**layers


@pytest.mark.parametrize("name, least", [("layers", 0), ("kernel", 1), ("dilation", 1)])
def test_the_receptive_field_of_impossible_sizes(name, least):
    sizes = {"layers": 2, "kernel": 3, "dilation": 1} | {name: least - 1}
    with pytest.raises(ValueError, match=f"{name} must be at least {least}, but is {least - 1}"):
        receptive_field(**sizes)


# Against PyTorch.


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("cell", LAYERS)
def test_the_recurrent_encoder_equals_a_packed_layer(cell, bidirectional):
    ours = RecurrentEncoder(D_INPUT, D_STATE, cell=cell, bidirectional=bidirectional).double()
    theirs = LAYERS[cell](
        D_INPUT, D_STATE, batch_first=True, bidirectional=bidirectional, dtype=torch.float64
    )
    weights = dict(ours.left_to_right.state_dict())
    if bidirectional:
        weights |= {f"{name}_reverse": value for name, value in ours.right_to_left.state_dict().items()}
    theirs.load_state_dict(weights)

    some = LENGTHS > 0  # PyTorch packs no empty sequence
    packed = pack_padded_sequence(inputs()[some], LENGTHS[some], batch_first=True, enforce_sorted=False)
    states, last = theirs(packed)
    last = last[0] if cell == "lstm" else last
    encoded = ours(inputs(), LENGTHS)
    expected, _ = pad_packed_sequence(states, batch_first=True, total_length=SOURCE)
    torch.testing.assert_close(encoded.states[some], expected)
    torch.testing.assert_close(encoded.summary[some], last.transpose(0, 1).flatten(1))
    assert encoded.maps == ()


def convolve_by_windows(vectors, weight, bias, dilation):
    """Give `[weight; window] + bias` for each position, with zeros outside the sentence."""
    length, kernel = vectors.shape[0], weight.shape[-1]
    rows = []
    for middle in range(length):
        total = bias.clone()
        for tap in range(kernel):
            place = middle + (tap - kernel // 2) * dilation
            if 0 <= place < length:
                total = total + weight[:, :, tap] @ vectors[place]
        rows.append(total)
    return torch.stack(rows)


@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("kernel", [1, 3, 5])
def test_the_convolutional_encoder_equals_a_loop_over_windows(kernel, dilation):
    ours = build("convolutional", layers=3, kernel=kernel, dilation=dilation)
    encoded = ours(inputs(), LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        if not length:
            continue
        vectors = F.linear(
            inputs()[row, :length] + ours.positions.table[:length], ours.widen.weight, ours.widen.bias
        )
        for number, layer in enumerate(ours.layers):
            both = convolve_by_windows(vectors, layer.weight, layer.bias, dilation**number)
            gated = both[:, :D_STATE] * torch.sigmoid(both[:, D_STATE:])
            vectors = (vectors + gated) / math.sqrt(2)
        torch.testing.assert_close(encoded.states[row, :length], vectors)
        torch.testing.assert_close(encoded.summary[row], vectors.mean(dim=0))


def test_one_convolutional_layer_equals_conv1d():
    ours = build("convolutional", layers=1, positions="none")
    (layer,) = ours.layers
    vectors = ours.widen(inputs()).mT
    expected = (vectors + F.glu(F.conv1d(vectors, layer.weight, layer.bias, padding=1), dim=1)) / math.sqrt(2)
    torch.testing.assert_close(ours(inputs()).states, expected.mT)


def test_the_attention_encoder_equals_pytorchs_attention():
    ours = build("attention", layers=2)
    encoded = ours(inputs(), LENGTHS)
    assert [weights.shape for weights in encoded.maps] == [(BATCH, SOURCE, SOURCE)] * 2
    for row, length in enumerate(LENGTHS.tolist()):
        vectors = ours.widen(inputs()[row, :length] + sinusoidal(length, D_INPUT, dtype=torch.float64))
        for layer in ours.layers:
            query, key, value = (
                F.linear(vectors, layer.weight[rows], layer.bias[rows])
                for rows in torch.arange(3 * D_STATE).view(3, D_STATE)
            )
            if length:
                vectors = vectors + F.scaled_dot_product_attention(query[None], key[None], value[None])[0]
        torch.testing.assert_close(encoded.states[row, :length], vectors)
        if length:
            torch.testing.assert_close(encoded.summary[row], vectors.mean(dim=0))


def test_the_maps_of_the_attention_encoder_are_distributions_over_real_tokens():
    for weights in build("attention")(inputs(), LENGTHS).maps:
        for row, length in enumerate(LENGTHS.tolist()):
            assert (weights[row, :, length:] == 0).all()
            expected = torch.full((SOURCE,), float(length > 0), dtype=torch.float64)
            torch.testing.assert_close(weights[row].sum(dim=-1), expected)


# Padding, positions, sizes.


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("kind", ENCODERS)
def test_padding_never_matters(kind, positions):
    encoder = build(kind, positions=positions)
    clean = encoder(inputs(), LENGTHS)
    dirty = inputs()
    for row, length in enumerate(LENGTHS.tolist()):
        dirty[row, length:] = float("nan")
        assert (clean.states[row, length:] == 0).all()
        alone = encoder(inputs()[row : row + 1, :length])
        torch.testing.assert_close(clean.states[row : row + 1, :length], alone.states)
        torch.testing.assert_close(clean.summary[row : row + 1], alone.summary)
    dirty.requires_grad_()
    read = encoder(dirty, LENGTHS)
    assert torch.equal(read.states, clean.states)
    assert torch.equal(read.summary, clean.summary)
    (read.states.square().sum() + read.summary.sum()).backward()
    for row, length in enumerate(LENGTHS.tolist()):
        assert (dirty.grad[row, length:] == 0).all()
        assert (dirty.grad[row, :length].abs().sum(dim=-1) > 0).all()
    assert all(parameter.grad.isfinite().all() for parameter in encoder.parameters())


@pytest.mark.parametrize("kind", ENCODERS)
def test_without_lengths_all_tokens_are_real(kind):
    encoder = build(kind)
    full = encoder(inputs(), torch.full((BATCH,), SOURCE))
    torch.testing.assert_close(encoder(inputs()), full)


@pytest.mark.parametrize("kind", ENCODERS)
def test_positions_are_added_to_the_inputs(kind):
    for positions in POSITIONS:
        encoder = build(kind, positions=positions)
        plain = build(kind, positions="none")
        own = {name: value for name, value in encoder.state_dict().items() if "table" not in name}
        plain.load_state_dict(own)
        table = {
            "none": torch.zeros(SOURCE, D_INPUT),
            "sinusoidal": sinusoidal(SOURCE, D_INPUT, dtype=torch.float64),
            "learned": encoder.positions.table[:SOURCE] if positions == "learned" else None,
        }[positions]
        torch.testing.assert_close(encoder(inputs()).states, plain(inputs() + table).states)


def test_without_positions_the_attention_encoder_does_not_see_the_order():
    encoder = build("attention", positions="none")
    order = torch.tensor([3, 0, 6, 1, 5, 2, 4])
    torch.testing.assert_close(encoder(inputs()[:, order]).states, encoder(inputs()).states[:, order])
    torch.testing.assert_close(encoder(inputs()[:, order]).summary, encoder(inputs()).summary)


@pytest.mark.parametrize("batch, source", [(0, 5), (3, 0), (0, 0), (3, 1)])
@pytest.mark.parametrize("kind", ENCODERS)
def test_small_sizes(kind, batch, source):
    encoder = build(kind)
    encoded = encoder(normal(batch, source, D_INPUT), torch.full((batch,), source))
    assert encoded.states.shape == (batch, source, encoder.d_output)
    assert encoded.summary.shape == (batch, encoder.d_output)
    assert encoder.d_output == D_STATE * (2 if kind == "bidirectional" else 1)
    if not source:
        assert (encoded.summary == 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kind", ENCODERS)
def test_dtype_and_device_are_kept(kind, dtype, device):
    encoder = build(kind)
    expected = encoder(inputs(), LENGTHS)
    encoded = encoder.to(device, dtype)(inputs(dtype=dtype).to(device), LENGTHS.to(device))
    tolerance = {torch.float32: 1e-5, torch.bfloat16: 0.05}[dtype]
    for tensor, exact in zip(encoded[:2], expected[:2], strict=True):
        assert tensor.dtype == dtype
        assert tensor.device.type == device.type
        torch.testing.assert_close(tensor.double().cpu(), exact, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("kind", ENCODERS)
def test_gradients(kind):
    torch.manual_seed(0)
    encoder = ENCODERS[kind](2, 3).double()

    def run(vectors):
        return encoder(vectors, torch.tensor([4, 2])).states

    assert gradcheck(run, normal(2, 4, 2).requires_grad_())


def test_each_encoder_says_how_it_reads():
    with pytest.raises(NotImplementedError):
        Encoder(D_INPUT, D_STATE, "none", 5)(inputs())


# Errors.


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: RecurrentEncoder(0, 5), "d_input must be at least 1, but is 0"),
        (lambda: RecurrentEncoder(3, 0), "d_output must be at least 1, but is 0"),
        (
            lambda: RecurrentEncoder(3, 5, cell="tanh"),
            r"cell must be one of \('rnn', 'gru', 'lstm'\), but is 'tanh'",
        ),
        (lambda: AttentionEncoder(3, 5, positions="rotary"), "positions must be one of .*, but is 'rotary'"),
        (lambda: AttentionEncoder(3, 5, layers=-1), "layers must be at least 0, but is -1"),
        (lambda: ConvolutionalEncoder(3, 5, layers=-1), "layers must be at least 0, but is -1"),
        (lambda: ConvolutionalEncoder(3, 5, kernel=4), "kernel must be odd, but is 4"),
        (lambda: ConvolutionalEncoder(3, 5, kernel=0), "kernel must be at least 1, but is 0"),
        (lambda: ConvolutionalEncoder(3, 5, dilation=0), "dilation must be at least 1, but is 0"),
    ],
)
def test_impossible_encoders(make, message, no_shape_checks):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("kind", ENCODERS)
def test_impossible_inputs(kind, no_shape_checks):
    encoder = build(kind, positions="learned", max_length=SOURCE)
    with pytest.raises(ValueError, match="inputs must have width 3, but have width 5"):
        encoder(normal(BATCH, SOURCE, 5))
    with pytest.raises(ValueError, match=r"lengths must have shape \(5,\) here, but has shape \(2,\)"):
        encoder(inputs(), LENGTHS[:2])
    with pytest.raises(ValueError, match="lengths must lie between 0 and keys = 7, but range from 0 to 8"):
        encoder(inputs(), torch.tensor([4, 8, 1, 0, 5]))
    with pytest.raises(ValueError, match="the table holds 7 positions"):
        encoder(normal(BATCH, 8, D_INPUT))
