"""The model against loops over one sentence at a time, generation against teacher forcing, and gradients."""

import itertools
from functools import partial

import pytest
import torch
from torch import nn
from torch.autograd import gradcheck
from torch.func import functional_call
from torch.nn import functional as F

from attncourse.alignment import AdditiveAttention
from attncourse.decoding import beam_search, greedy, sample
from attncourse.encoders import AttentionEncoder, ConvolutionalEncoder, RecurrentEncoder, receptive_field, rnn
from attncourse.seq2seq import CELLS, Seq2Seq, gradient_norms, gradient_reach, gradient_support
from attncourse.tasks import FIRST_SYMBOL, reversal
from attncourse.training import sequence_loss, train

BATCH, SOURCE, TARGET, D_INPUT, D_HALF, D_STATE = 5, 7, 4, 3, 5, 11
SOURCE_VOCABULARY, TARGET_VOCABULARY, START, END = 17, 13, 1, 2
LENGTHS = torch.tensor([4, 7, 1, 0, 5])
DECODERS = ["fixed", "bahdanau", "luong"]
KINDS = [("fixed", "additive"), *itertools.product(["bahdanau", "luong"], ["additive", "general", "dot"])]
ENCODERS = {
    "recurrent": partial(RecurrentEncoder, bidirectional=True),
    "convolutional": ConvolutionalEncoder,
    "attention": AttentionEncoder,
}


def tokens(*shape, vocabulary=SOURCE_VOCABULARY, seed=0):
    return torch.randint(3, vocabulary, shape, generator=torch.Generator().manual_seed(seed))


def pair():
    return tokens(BATCH, SOURCE), tokens(BATCH, TARGET, vocabulary=TARGET_VOCABULARY, seed=1)


def normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def model(
    decoder="bahdanau", *, encoder="recurrent", d_state=D_STATE, target=TARGET_VOCABULARY, std=0.5, **options
):
    torch.manual_seed(0)
    reads = ENCODERS[encoder](D_INPUT, D_HALF)
    ours = Seq2Seq(SOURCE_VOCABULARY, target, encoder=reads, d_state=d_state, decoder=decoder, **options)
    for parameter in ours.parameters():
        nn.init.normal_(parameter, std=std)  # so that an untrained model says different things
    return ours.double()


def model_with(decoder, score, **options):
    """Give a model whose widths fit the score."""
    return model(decoder, score=score, d_state=2 * D_HALF if score == "dot" else D_STATE, **options)


# Against a loop.


def decode_by_loops(ours, source, target, decoder, score, cell):
    """Give logits and weights for one sentence without padding, a row at a time."""
    encoded = ours.encoder(ours.source_embedding(source)[None])
    states, summary = encoded.states[0], encoded.summary[0]
    hidden = torch.tanh(ours.bridge.weight @ summary + ours.bridge.bias)
    memory = torch.zeros_like(hidden)

    def step(inputs):
        nonlocal hidden, memory
        if cell == "lstm":
            hidden, memory = (part[0] for part in ours.cell(inputs[None], (hidden[None], memory[None])))
        else:
            hidden = ours.cell(inputs[None], hidden[None])[0]

    def score_of(state):
        if score == "dot":
            return hidden @ state
        if score == "general":
            return hidden @ ours.general.weight @ state
        own = ours.additive
        return own.vector @ torch.tanh(own.query_weight @ hidden + own.key_weight @ state)

    def attend():
        if not len(states):
            return torch.zeros_like(summary), hidden.new_zeros(0)
        weights = torch.softmax(torch.stack([score_of(state) for state in states]), dim=0)
        return sum(weight * state for weight, state in zip(weights, states, strict=True)), weights

    logits, maps = [], []
    for token in target:
        inputs = ours.target_embedding.weight[token]
        if decoder == "fixed":
            context, weights = summary, None
            step(torch.cat([inputs, context]))
        elif decoder == "bahdanau":
            context, weights = attend()
            step(torch.cat([inputs, context]))
        else:
            step(inputs)
            context, weights = attend()
        joined = torch.tanh(ours.join.weight @ torch.cat([context, hidden]))
        logits.append(ours.readout.weight @ joined + ours.readout.bias)
        maps.append(weights)
    return torch.stack(logits), maps


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("decoder, score", KINDS)
def test_the_model_equals_a_loop_over_sentences(decoder, score, cell, encoder):
    if score == "dot" and encoder != "recurrent":
        ours = model(decoder, score=score, cell=cell, encoder=encoder, d_state=D_HALF)
    else:
        ours = model_with(decoder, score, cell=cell, encoder=encoder)
    source, target = pair()
    logits, maps = ours(source, target, LENGTHS)
    assert logits.shape == (BATCH, TARGET, TARGET_VOCABULARY)
    assert (maps is None) == (decoder == "fixed")
    for row, length in enumerate(LENGTHS.tolist()):
        expected, weights = decode_by_loops(ours, source[row, :length], target[row], decoder, score, cell)
        torch.testing.assert_close(logits[row], expected)
        if maps is not None:
            assert (maps[row, :, length:] == 0).all()
            torch.testing.assert_close(maps[row, :, :length], torch.stack(weights))


@pytest.mark.parametrize("cell, kind", [("rnn", nn.RNN), ("gru", nn.GRU), ("lstm", nn.LSTM)])
def test_the_fixed_vector_decoder_equals_a_whole_layer_of_pytorch(cell, kind):
    ours = model("fixed", cell=cell)
    layer = kind(D_INPUT + 2 * D_HALF, D_STATE, batch_first=True, dtype=torch.float64)
    layer.load_state_dict({f"{name}_l0": value for name, value in ours.cell.state_dict().items()})
    source, target = pair()
    summary = ours.encoder(ours.source_embedding(source)).summary
    first = torch.tanh(ours.bridge(summary))[None]
    context = summary[:, None].expand(-1, TARGET, -1)
    inputs = torch.cat([ours.target_embedding(target), context], dim=-1)
    states, _ = layer(inputs, (first, torch.zeros_like(first)) if cell == "lstm" else first)
    expected = ours.readout(torch.tanh(ours.join(torch.cat([context, states], dim=-1))))
    torch.testing.assert_close(ours(source, target)[0], expected)


# What may matter, and what may not.


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("decoder", DECODERS)
def test_padding_of_the_source_never_matters(decoder, encoder):
    ours = model(decoder, encoder=encoder)
    source, target = pair()
    other = source.clone()
    for row, length in enumerate(LENGTHS.tolist()):
        other[row, length:] = 0
    longer = torch.cat([other, tokens(BATCH, 2)], dim=1)
    logits, maps = ours(source, target, LENGTHS)
    assert torch.equal(ours(other, target, LENGTHS)[0], logits)
    with_more, more_maps = ours(longer, target, LENGTHS)
    torch.testing.assert_close(with_more, logits)
    if maps is not None:
        torch.testing.assert_close(more_maps, F.pad(maps, (0, 2)))


@pytest.mark.parametrize("decoder", DECODERS)
def test_without_lengths_all_tokens_are_real(decoder):
    ours = model(decoder)
    full = ours(*pair(), torch.full((BATCH,), SOURCE))
    torch.testing.assert_close(ours(*pair()), full)


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("decoder", DECODERS)
def test_every_source_token_matters(decoder, encoder):
    ours = model(decoder, encoder=encoder)
    source, target = pair()
    logits, _ = ours(source, target)
    for place in range(SOURCE):
        other = source.clone()
        other[:, place] = (other[:, place] - 2) % SOURCE_VOCABULARY
        changed = (ours(other, target)[0] != logits).any(dim=-1)
        assert changed.all()


@pytest.mark.parametrize("decoder", DECODERS)
def test_a_target_token_matters_from_its_place_on_and_never_before(decoder):
    ours = model(decoder)
    source, target = pair()
    logits, _ = ours(source, target)
    for place in range(TARGET):
        other = target.clone()
        other[:, place] = (other[:, place] - 2) % TARGET_VOCABULARY
        changed = (ours(source, other)[0] != logits).any(dim=-1)
        assert not changed[:, :place].any()
        assert changed[:, place:].all()


@pytest.mark.parametrize("decoder, score", KINDS[1:])
def test_the_weights_depend_on_source_and_target(decoder, score):
    ours = model_with(decoder, score)
    source, target = pair()
    _, maps = ours(source, target)
    torch.testing.assert_close(maps.sum(dim=-1), torch.ones(BATCH, TARGET, dtype=torch.float64))
    assert ((maps[:, 0] - maps[:, 1]).abs().amax(dim=-1) > 1e-4).all()
    _, others = ours(source.flip(0), target)
    assert ((others - maps)[[0, 1, 3, 4]].abs().amax(dim=-1) > 1e-4).all()


def test_bahdanau_attends_before_the_step_and_luong_after_it():
    source, target = pair()
    other = target.clone()
    other[:, 0] = (other[:, 0] - 2) % TARGET_VOCABULARY
    for decoder, early in (("bahdanau", True), ("luong", False)):
        ours = model(decoder)
        first, second = ours(source, target)[1][:, 0], ours(source, other)[1][:, 0]
        assert torch.equal(first, second) == early


@pytest.mark.parametrize("decoder, score", KINDS)
@pytest.mark.parametrize("encoder", ENCODERS)
def test_every_parameter_is_used(decoder, score, encoder):
    ours = model(decoder, encoder=encoder, score=score, d_state=10 if encoder == "recurrent" else 5)
    logits, _ = ours(*pair(), LENGTHS)
    logits.square().sum().backward()
    for name, parameter in ours.named_parameters():
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().sum() > 0, name


@pytest.mark.parametrize("decoder", DECODERS)
def test_gradients(decoder):
    ours = model(decoder, target=5)
    source, target = pair()[0][:2, :3], tokens(2, 2, vocabulary=5)
    names = ["encoder.right_to_left.weight_hh_l0", "cell.weight_ih", "bridge.weight", "join.weight"]
    if decoder != "fixed":
        names += ["additive.query_weight", "additive.key_weight", "additive.vector"]
    values = [dict(ours.named_parameters())[name].detach().clone().requires_grad_() for name in names]

    def run(*values):
        named = dict(zip(names, values, strict=True))
        return functional_call(ours, named, (source, target, torch.tensor([3, 1])))[0]

    assert gradcheck(run, values, fast_mode=True)


def test_the_keys_are_projected_once_for_a_sentence(monkeypatch):
    calls = []
    project = AdditiveAttention.project
    monkeypatch.setattr(AdditiveAttention, "project", lambda own, key: calls.append(1) or project(own, key))
    model()(*pair())
    assert len(calls) == 1


# Writing.


def write_by_argmax(ours, source, lengths, max_length):
    """Read all that was written once more at each step, and add the most probable token."""
    target = torch.full((source.shape[0], 1), START)
    for _ in range(max_length):
        following = ours(source, target, lengths)[0][:, -1].argmax(dim=-1)
        following = torch.where(target[:, -1] == END, END, following)
        target = torch.cat([target, following[:, None]], dim=1)
    return target[:, 1:]


def log_probability(ours, source, lengths, written):
    """Sum up log p under teacher forcing, up to and including the first end token of each row."""
    target = torch.cat([torch.full((len(written), 1), START), written], dim=1)
    scores = torch.log_softmax(ours(source, target[:, :-1], lengths)[0], dim=-1)
    scores = scores.gather(-1, written[..., None])[..., 0]
    return scores.masked_fill((target[:, :-1] == END), 0.0).sum(dim=1)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("decoder, score", KINDS)
def test_greedy_writing_equals_the_argmax_of_teacher_forcing(decoder, score, cell):
    ours = model_with(decoder, score, cell=cell, std=1.0)
    source, _ = pair()
    decoded = ours.generate(source, LENGTHS, start=START, end=END, max_length=9)
    expected = write_by_argmax(ours, source, LENGTHS, 9)
    length = decoded.tokens.shape[1]
    assert torch.equal(decoded.tokens, expected[:, :length])
    assert (expected[:, length:] == END).all()
    torch.testing.assert_close(
        decoded.log_probability.double(), log_probability(ours, source, LENGTHS, decoded.tokens)
    )
    assert not decoded.log_probability.requires_grad


@pytest.mark.parametrize("decoder", DECODERS)
def test_what_is_written_depends_on_the_source_and_on_what_was_written(decoder):
    written = model(decoder, std=1.0).generate(pair()[0], start=START, end=END, max_length=9).tokens
    assert len({tuple(row) for row in written.tolist()}) > 2
    assert any(len(set(row)) > 2 for row in written.tolist())


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("decoder", DECODERS)
def test_a_wide_beam_finds_the_most_probable_sequence_of_all(decoder, cell):
    vocabulary, max_length = 4, 3
    ours = model(decoder, cell=cell, target=vocabulary)
    source, _ = pair()
    search = partial(beam_search, beams=vocabulary**max_length)
    options = {"start": START, "end": END, "max_length": max_length}
    decoded = ours.generate(source, LENGTHS, search=search, **options)
    for row in range(BATCH):
        one, length = source[row : row + 1], LENGTHS[row : row + 1]
        every = torch.tensor(list(itertools.product(range(vocabulary), repeat=max_length)))
        all_alike = one.expand(len(every), -1), length.expand(len(every))
        best = log_probability(ours, *all_alike, every).max().item()
        assert decoded.log_probability[row].item() == pytest.approx(best, rel=1e-5)
    torch.testing.assert_close(
        decoded.log_probability.double(), log_probability(ours, source, LENGTHS, decoded.tokens)
    )


@pytest.mark.parametrize("decoder", DECODERS)
def test_other_searches(decoder):
    ours = model(decoder)
    source, _ = pair()
    options = {"start": START, "end": END, "max_length": 6}
    expected = ours.generate(source, LENGTHS, **options)
    for search in (greedy, partial(beam_search, beams=1), partial(sample, top_k=1)):
        decoded = ours.generate(source, LENGTHS, search=search, **options)
        assert torch.equal(decoded.tokens, expected.tokens)
    narrow = ours.generate(source, LENGTHS, search=partial(beam_search, beams=3), **options)
    torch.testing.assert_close(
        narrow.log_probability.double(), log_probability(ours, source, LENGTHS, narrow.tokens)
    )


# Sizes, dtypes, errors.


@pytest.mark.parametrize("batch, source, target", [(0, 5, 3), (3, 0, 2), (3, 5, 0), (0, 0, 0), (2, 1, 1)])
@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("decoder", DECODERS)
def test_small_sizes(decoder, encoder, batch, source, target):
    ours = model(decoder, encoder=encoder)
    read = tokens(batch, source)
    logits, maps = ours(read, tokens(batch, target, vocabulary=TARGET_VOCABULARY))
    assert logits.shape == (batch, target, TARGET_VOCABULARY)
    assert maps is None or maps.shape == (batch, target, source)
    assert logits.isfinite().all()
    for search in (greedy, beam_search):
        written = ours.generate(read, start=START, end=END, max_length=2, search=search).tokens
        assert written.shape[0] == batch
        assert written.shape[1] <= 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("decoder, score", KINDS)
def test_dtype_and_device_are_kept(decoder, score, dtype, device):
    ours = model_with(decoder, score)
    source, target = (part.to(device) for part in pair())
    expected, _ = ours.to(device)(source, target, LENGTHS.to(device))
    logits, maps = ours.to(dtype)(source, target, LENGTHS.to(device))
    assert logits.dtype == dtype
    assert maps is None or maps.dtype == dtype
    assert logits.device.type == device.type
    tolerance = {torch.float32: 1e-4, torch.bfloat16: 0.3}[dtype]
    torch.testing.assert_close(logits.double(), expected, atol=tolerance, rtol=tolerance)
    written = ours.generate(source, LENGTHS.to(device), start=START, end=END, max_length=3)
    assert written.tokens.device.type == device.type


@pytest.mark.parametrize(
    "options, message",
    [
        ({"decoder": "soft"}, r"decoder must be one of \('fixed', 'bahdanau', 'luong'\), but is 'soft'"),
        ({"cell": "tanh"}, r"cell must be one of \('rnn', 'gru', 'lstm'\), but is 'tanh'"),
        ({"score": "cosine"}, r"score must be one of \('additive', 'general', 'dot'\), but is 'cosine'"),
        ({"score": "dot"}, "with the score 'dot' .* the same width, but have 10 and 11"),
        ({"d_state": 0}, "d_state must be at least 1, but is 0"),
        ({"target": 0}, "target_vocabulary must be at least 1, but is 0"),
    ],
)
def test_impossible_models(options, message, no_shape_checks):
    with pytest.raises(ValueError, match=message):
        model(**options)


def test_the_fixed_vector_has_no_score_to_fit():
    assert model("fixed", score="dot")(*pair())[1] is None


@pytest.mark.parametrize("decoder", DECODERS)
def test_impossible_inputs(decoder, no_shape_checks):
    ours = model(decoder)
    source, target = pair()
    with pytest.raises(ValueError, match="the same number of sequences, but have 5 and 3"):
        ours(source, target[:3])
    with pytest.raises(ValueError, match="lengths must lie between 0 and keys = 7, but range from -1 to 7"):
        ours(source, target, torch.tensor([4, 7, 1, -1, 5]))
    with pytest.raises(ValueError, match="max_length must be at least 0, but is -1"):
        ours.generate(source, start=START, end=END, max_length=-1)


# How far the gradient reaches.


def test_gradient_norms_equal_the_whole_jacobian():
    torch.manual_seed(0)
    layer = nn.LSTM(D_INPUT, D_STATE, batch_first=True, dtype=torch.float64)
    inputs = normal(2, SOURCE, D_INPUT)
    for position in (0, 3, -1):
        norms = gradient_norms(lambda vectors: layer(vectors)[0], inputs, position=position)
        for row in range(2):
            whole = torch.autograd.functional.jacobian(lambda one: layer(one[None])[0][0], inputs[row])
            torch.testing.assert_close(norms[row], whole[position].square().sum(dim=(0, 2)).sqrt())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("factor", [0.1, 1.0, 1.5])
def test_the_reach_of_a_linear_recurrence_is_a_power(factor, dtype):
    def read(inputs):
        states = [inputs[:, 0]]
        for token in inputs[:, 1:].unbind(1):
            states.append(factor * states[-1] + token)
        return torch.stack(states, dim=1)

    length = 31  # the square of 0.1 ** 30 is 0 in float32
    reach = gradient_reach(read, normal(2, length, D_INPUT).to(dtype))
    expected = D_INPUT**0.5 * factor ** torch.arange(length, dtype=torch.float64)
    torch.testing.assert_close(reach.double(), expected.expand(2, length), atol=0, rtol=1e-4)


def test_the_reach_of_a_tanh_rnn_decays_at_least_as_fast_as_its_largest_singular_value():
    input_weight, bias = normal(D_STATE, D_INPUT), normal(D_STATE, seed=1)
    state_weight = 0.8 * torch.linalg.qr(normal(D_STATE, D_STATE, seed=2)).Q
    run = partial(rnn, input_weight=input_weight, state_weight=state_weight, bias=bias)
    start = torch.zeros(2, D_STATE, dtype=torch.float64)
    reach = gradient_reach(lambda inputs: run(inputs, start), normal(2, 50, D_INPUT))
    assert (reach > 0).all()
    assert (reach <= 0.8 ** torch.arange(50) * input_weight.norm() * (1 + 1e-9)).all()


def test_attention_reaches_all_tokens_alike_and_recurrence_does_not():
    torch.manual_seed(0)
    reach = {}
    for name, encoder in {
        "attention": AttentionEncoder(D_INPUT, D_STATE, layers=1),
        **{cell: RecurrentEncoder(D_INPUT, D_STATE, cell=cell) for cell in CELLS},
    }.items():
        encoder.double()
        norms = gradient_reach(lambda vectors, read=encoder: read(vectors).states, normal(3, 100, D_INPUT))
        reach[name] = (norms[:, 90:].mean() / norms[:, 1:11].mean()).item()
    assert 0.3 < reach["attention"] < 3
    assert all(reach[cell] < 1e-3 for cell in CELLS)


def test_an_lstm_that_forgets_nothing_reaches_further_than_one_that_forgets():
    def far(forget_bias):
        torch.manual_seed(0)
        encoder = RecurrentEncoder(D_INPUT, D_STATE, cell="lstm").double()
        with torch.no_grad():
            encoder.left_to_right.bias_ih_l0[D_STATE : 2 * D_STATE] += forget_bias
        return gradient_reach(lambda vectors: encoder(vectors).states, normal(1, 60, D_INPUT))[0, -1]

    assert far(5.0) > 1e6 * far(-1.0)


@pytest.mark.parametrize("layers, kernel, dilation", [(0, 3, 1), (1, 3, 1), (4, 3, 1), (3, 5, 1), (3, 3, 3)])
def test_the_receptive_field_is_the_support_of_the_gradient(layers, kernel, dilation):
    torch.manual_seed(0)
    options = {"layers": layers, "kernel": kernel, "dilation": dilation}
    encoder = ConvolutionalEncoder(D_INPUT, D_STATE, **options).double()
    length, middle = 41, 20
    support = gradient_support(
        lambda vectors: encoder(vectors).states, normal(2, length, D_INPUT), position=middle
    )
    field = receptive_field(**options)
    assert support.nonzero().flatten().tolist() == list(range(middle - field // 2, middle + field // 2 + 1))


def test_recurrence_sees_one_side_and_attention_sees_both():
    inputs = normal(2, SOURCE, D_INPUT)
    for encoder, seen in (
        (RecurrentEncoder(D_INPUT, D_STATE), [True] * 3 + [False] * 4),
        (RecurrentEncoder(D_INPUT, D_STATE, bidirectional=True), [True] * 7),
        (AttentionEncoder(D_INPUT, D_STATE), [True] * 7),
    ):
        encoder.double()
        support = gradient_support(lambda vectors, read=encoder: read(vectors).states, inputs, position=2)
        assert support.tolist() == seen


def test_gradients_are_measured_without_a_trace():
    encoder = RecurrentEncoder(D_INPUT, D_STATE).double()
    inputs = normal(2, SOURCE, D_INPUT)
    with torch.no_grad():
        reach = gradient_reach(lambda vectors: encoder(vectors).states, inputs)
    assert (reach > 0).all()
    assert not reach.requires_grad
    assert not inputs.requires_grad
    assert all(parameter.grad is None for parameter in encoder.parameters())


@pytest.mark.parametrize("length, position", [(0, -1), (3, 3), (3, -4)])
def test_a_position_outside_the_sequence(length, position):
    message = rf"position must lie from -?{length} to {length - 1}, but is {position}"
    for measure in (gradient_norms, gradient_support):
        with pytest.raises(ValueError, match=message):
            measure(lambda vectors: vectors, normal(2, length, D_INPUT), position=position)


# Learning.


def test_attention_learns_what_the_fixed_vector_cannot_hold():
    size, losses = FIRST_SYMBOL + 8, {}
    held_out = reversal(64, 8, symbols=8, generator=torch.Generator().manual_seed(1))
    for decoder in ("fixed", "bahdanau"):
        torch.manual_seed(0)
        reads = RecurrentEncoder(16, 24, bidirectional=True)
        ours = Seq2Seq(size, size, encoder=reads, d_state=32, decoder=decoder)
        options = {"steps": 80, "learning_rate": 0.015, "warmup": 20, "device": "cpu"}
        train(ours, lambda step: reversal(16, 8, symbols=8), **options)
        with torch.no_grad():
            losses[decoder] = sequence_loss(ours, held_out).item()
    assert losses["bahdanau"] < 0.7 * losses["fixed"], losses
