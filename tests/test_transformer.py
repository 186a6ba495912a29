"""The whole model against PyTorch's on copied weights, and generation with a cache against that without."""

import math
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from attncourse.decoding import Decoded, beam_search, greedy, sample
from attncourse.masks import causal_mask, padding_mask, window_mask
from attncourse.position import alibi_bias, sinusoidal
from attncourse.selfattention import DecoderBlock, EncoderBlock, equivariance_error
from attncourse.transformer import (
    CausalModel,
    Embedding,
    Transformer,
    alibi_scores,
    rotary_scores,
)

BATCH, SOURCE, TARGET, HEADS, D_MODEL, D_FEEDFORWARD = 3, 7, 5, 2, 20, 23
SOURCE_VOCABULARY, TARGET_VOCABULARY, START, END = 11, 13, 1, 2
POSITIONS = ["sinusoidal", "learned", "rotary", "alibi", "none"]
LENGTHS = torch.tensor([7, 1, 4])


def tokens(*shape, vocabulary=SOURCE_VOCABULARY, seed=0):
    return torch.randint(3, vocabulary, shape, generator=torch.Generator().manual_seed(seed))


def pair():
    return tokens(BATCH, SOURCE), tokens(BATCH, TARGET, vocabulary=TARGET_VOCABULARY, seed=1)


def model(encoder_layers=2, decoder_layers=3, **options):
    torch.manual_seed(0)
    sizes = {"d_model": D_MODEL, "heads": HEADS, "d_feedforward": D_FEEDFORWARD}
    layers = {"encoder_layers": encoder_layers, "decoder_layers": decoder_layers}
    return Transformer(SOURCE_VOCABULARY, TARGET_VOCABULARY, **sizes, **layers, **options).double()


def writer(**options):
    """Give a model that writes something else at each step, which an untrained one hardly does."""
    ours = model(2, 2, **options).eval()
    for parameter in ours.parameters():
        if parameter.ndim > 1:
            nn.init.normal_(parameter, std=0.3)
    with torch.no_grad():
        ours.readout.bias[END] -= 2.0
    return ours


def causal_model(layers=2, **options):
    torch.manual_seed(0)
    return CausalModel(SOURCE_VOCABULARY, d_model=D_MODEL, heads=HEADS, layers=layers, **options).double()


# Against PyTorch's model.


@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["all", "padded"])
@pytest.mark.parametrize("pre_norm", [False, True])
def test_the_model_equals_pytorch_on_copied_weights(pre_norm, lengths):
    ours = model(pre_norm=pre_norm)
    options = {"dropout": 0.0, "norm_first": pre_norm, "batch_first": True, "dtype": torch.float64}
    norms = [nn.LayerNorm(D_MODEL, dtype=torch.float64) if pre_norm else None for _ in range(2)]
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(D_MODEL, HEADS, D_FEEDFORWARD, **options),
        2,
        norms[0],
        enable_nested_tensor=False,
    )
    decoder = nn.TransformerDecoder(
        nn.TransformerDecoderLayer(D_MODEL, HEADS, D_FEEDFORWARD, **options), 3, norms[1]
    )
    theirs = nn.Transformer(
        D_MODEL, HEADS, custom_encoder=encoder, custom_decoder=decoder, batch_first=True, dtype=torch.float64
    )
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, std=0.3)
    ours.encoder.blocks = nn.ModuleList(map(EncoderBlock.from_torch, encoder.layers))
    ours.decoder.blocks = nn.ModuleList(map(DecoderBlock.from_torch, decoder.layers))
    if pre_norm:
        ours.encoder.norm.load_state_dict(norms[0].state_dict())
        ours.decoder.norm.load_state_dict(norms[1].state_dict())

    source, target = pair()
    embedded = [
        module.embedding.tokens.weight[read] * math.sqrt(D_MODEL)
        + sinusoidal(read.shape[1], D_MODEL, dtype=torch.float64)
        for module, read in ((ours.encoder, source), (ours.decoder, target))
    ]
    padding = None if lengths is None else ~padding_mask(lengths, SOURCE).squeeze(1)
    expected = theirs(
        *embedded,
        tgt_mask=~causal_mask(TARGET),
        src_key_padding_mask=padding,
        memory_key_padding_mask=padding,
    )
    logits, _ = ours(source, target, lengths)
    torch.testing.assert_close(logits, ours.readout(expected))


def test_a_causal_model_equals_pytorchs_encoder_with_a_causal_mask():
    layer = nn.TransformerEncoderLayer(D_MODEL, HEADS, batch_first=True, norm_first=True, dtype=torch.float64)
    theirs = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, std=0.3)
    ours = causal_model(positions="none").eval()
    ours.encoder.blocks = nn.ModuleList(map(EncoderBlock.from_torch, theirs.layers))
    ours.encoder.norm = nn.Identity()
    read = tokens(BATCH, SOURCE)
    embedded = ours.encoder.embedding.tokens.weight[read] * math.sqrt(D_MODEL)
    expected = ours.readout(theirs(embedded, mask=~causal_mask(SOURCE)))
    torch.testing.assert_close(ours(read)[0], expected)


# Embeddings and positions.


def test_embeddings_are_scaled_by_the_root_of_the_width_and_start_with_variance_1():
    torch.manual_seed(0)
    embedding = Embedding(997, 101, positions="none")
    read = tokens(2, 5, vocabulary=997)
    expected = F.embedding(read, embedding.tokens.weight) * math.sqrt(101)
    torch.testing.assert_close(embedding(read), expected)
    assert embedding.tokens.weight.std().item() * math.sqrt(101) == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("start", [0, 3])
@pytest.mark.parametrize("d_model", [20, 21])
def test_positions_that_are_added_begin_at_start(start, d_model):
    read = tokens(2, 5)
    for positions in ("sinusoidal", "learned"):
        torch.manual_seed(0)
        embedding = Embedding(11, d_model, positions=positions, max_length=8)
        table = embedding.learned(8) if positions == "learned" else sinusoidal(8, d_model)
        found = embedding(read, start=start) - embedding.tokens(read) * math.sqrt(d_model)
        expected = table[start : start + 5].expand_as(found)
        torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("positions", ["rotary", "alibi", "none"])
def test_other_positions_leave_the_embeddings_alone(positions):
    torch.manual_seed(0)
    embedding = Embedding(11, D_MODEL, positions=positions)
    torch.testing.assert_close(embedding(tokens(2, 5), start=3), embedding(tokens(2, 5)), atol=0, rtol=0)


def test_embeddings_are_dropped_in_training_only():
    embedding = Embedding(11, D_MODEL, dropout=1.0)
    assert embedding(tokens(2, 5)).eq(0).all()
    assert embedding.eval()(tokens(2, 5)).ne(0).any()


@pytest.mark.parametrize("past", [0, 4])
def test_rotary_scores_equal_loops_and_read_queries_as_the_last_positions(past):
    torch.manual_seed(0)
    query, key = torch.randn(2, HEADS, 3, 10).double(), torch.randn(2, HEADS, 3 + past, 10).double()
    scores = rotary_scores(query, key)
    for i in range(3):
        for j in range(3 + past):
            # As complex numbers, turning is a product, and the score depends on the distance alone.
            q, k = (torch.view_as_complex(x.unflatten(-1, (5, 2))) for x in (query[:, :, i], key[:, :, j]))
            angles = (past + i - j) * 10_000.0 ** (-torch.arange(5).double() / 5)
            expected = (q * k.conj() * torch.polar(torch.ones(5).double(), angles)).sum(-1).real
            torch.testing.assert_close(scores[:, :, i, j], expected / math.sqrt(10))


@pytest.mark.parametrize("past", [0, 4])
def test_alibi_scores_fall_with_the_distance_and_read_queries_as_the_last_positions(past):
    torch.manual_seed(0)
    query, key = torch.randn(3, 4, 5, 10).double(), torch.randn(3, 4, 5 + past, 10).double()
    slopes = torch.tensor([2**-2, 2**-4, 2**-6, 2**-8]).double()
    distance = past + torch.arange(5)[:, None] - torch.arange(5 + past)
    expected = query @ key.mT / math.sqrt(10) - slopes[:, None, None] * distance.abs()
    torch.testing.assert_close(alibi_scores(query, key), expected)
    torch.testing.assert_close(alibi_bias(4, 5, past=past)[1, 0, past], torch.tensor(0.0))


@pytest.mark.parametrize("positions", POSITIONS)
def test_without_positions_the_encoder_is_equivariant_and_with_any_kind_it_is_not(positions):
    encoder = model(positions=positions).encoder
    order = torch.tensor([3, 0, 6, 1, 2, 5, 4])

    def read(vectors):
        ids = vectors.squeeze(-1).long()
        return encoder(ids)

    error = equivariance_error(read, tokens(BATCH, SOURCE).double().unsqueeze(-1), order)
    assert (error < 1e-12) == (positions == "none")


def test_a_causal_model_without_positions_can_tell_order():
    """S27: to the encoder a sequence is a bag; the causal mask breaks that."""
    order = torch.tensor([3, 0, 1, 2, 4, 5, 6])  # the last token stays last
    read = tokens(BATCH, SOURCE)
    for causal in (False, True):
        ours = causal_model(positions="none", causal=causal)
        error = (ours(read)[0][:, -1] - ours(read[:, order])[0][:, -1]).abs().max()
        assert (error > 1e-4) == causal


@pytest.mark.parametrize("positions", POSITIONS)
def test_only_with_alibi_or_without_positions_an_encoder_cannot_tell_a_sequence_from_its_mirror(positions):
    read = tokens(BATCH, SOURCE)
    encoder = model(positions=positions).encoder
    error = (encoder(read.flip(1))[0].flip(1) - encoder(read)[0]).abs().max()
    assert (error < 1e-12) == (positions in ("alibi", "none"))


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary", "alibi", "none"])
def test_a_model_reads_sequences_of_any_length(positions):
    assert causal_model(positions=positions)(tokens(2, 600))[0].shape == (2, 600, SOURCE_VOCABULARY)


def test_learned_positions_end():
    with pytest.raises(ValueError, match=r"^the table holds 6 positions, but 7 from position 0 on need 7$"):
        causal_model(positions="learned", max_length=6)(tokens(2, 7))


# What may reach what.


@pytest.mark.parametrize(
    ("pre_norm", "positions"), [(False, "sinusoidal"), *((True, positions) for positions in POSITIONS)]
)
def test_logits_see_all_of_the_source_the_target_up_to_their_place_and_nothing_else(pre_norm, positions):
    ours = model(pre_norm=pre_norm, positions=positions)
    read = [torch.nn.Parameter(torch.zeros(BATCH, n, D_MODEL).double()) for n in (SOURCE, TARGET)]
    for module, added in zip((ours.encoder, ours.decoder), read, strict=True):
        module.embedding.register_forward_hook(lambda _m, _i, output, added=added: output + added)
    logits, _ = ours(*pair(), LENGTHS)
    direction = torch.randn(TARGET_VOCABULARY, generator=torch.Generator().manual_seed(2)).double()
    for b in range(BATCH):
        for i in range(TARGET):
            gradients = torch.autograd.grad((logits[b, i] * direction).sum(), read, retain_graph=True)
            source, target = (gradient.ne(0).any(dim=-1) for gradient in gradients)
            assert source[b].tolist() == [j < LENGTHS[b] for j in range(SOURCE)]
            assert target[b].tolist() == [j <= i for j in range(TARGET)]
            others = torch.arange(BATCH) != b
            assert not source[others].any()
            assert not target[others].any()


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("lengths", [[7, 1, 4], [0, 7, 2]], ids=str)
def test_what_stands_in_the_padding_of_the_source_never_matters(lengths, positions):
    ours, (source, target), lengths = model(positions=positions), pair(), torch.tensor(lengths)
    padding = torch.arange(SOURCE) >= lengths.unsqueeze(-1)
    logits, maps = ours(source, target, lengths)
    other = ours(source.masked_fill(padding, 0), target, lengths)[0]
    torch.testing.assert_close(other, logits, atol=0, rtol=0)
    for weights in (*maps.encoder, *maps.cross):
        assert weights.masked_select(padding[:, None, None, :]).eq(0).all()
    for b, length in enumerate(lengths.tolist()):
        alone, _ = ours(source[b : b + 1, :length], target[b : b + 1])
        torch.testing.assert_close(alone[0], logits[b])


def test_gradients_are_finite_for_sources_of_length_0():
    ours, (source, target) = model(), pair()
    logits, _ = ours(source, target, torch.tensor([0, 7, 0]))
    F.cross_entropy(logits.flatten(0, 1), target.flatten()).backward()
    assert all(x.grad.isfinite().all() for x in ours.parameters())


def test_maps_are_those_of_every_layer_and_their_rows_sum_to_1():
    logits, maps = model()(*pair())
    assert logits.shape == (BATCH, TARGET, TARGET_VOCABULARY)
    assert [x.shape for x in maps.encoder] == [(BATCH, HEADS, SOURCE, SOURCE)] * 2
    assert [x.shape for x in maps.decoder] == [(BATCH, HEADS, TARGET, TARGET)] * 3
    assert [x.shape for x in maps.cross] == [(BATCH, HEADS, TARGET, SOURCE)] * 3
    for weights in (*maps.encoder, *maps.decoder, *maps.cross):
        torch.testing.assert_close(weights.sum(dim=-1), torch.ones(weights.shape[:-1]).double())
    assert not torch.equal(maps.decoder[0], maps.decoder[1])


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize(("batch", "source", "target"), [(0, 7, 5), (3, 0, 5), (3, 7, 0), (1, 1, 1)])
def test_batch_and_lengths_may_be_zero_or_one(batch, source, target, positions):
    ours = model(positions=positions)
    logits, maps = ours(tokens(batch, source), tokens(batch, target), torch.full((batch,), source))
    assert logits.shape == (batch, target, TARGET_VOCABULARY)
    assert maps.cross[-1].shape == (batch, HEADS, target, source)
    assert logits.isfinite().all()


def test_a_mask_joins_the_causal_one():
    ours, read = causal_model(), tokens(BATCH, SOURCE)
    _, maps = ours(read, window_mask(SOURCE, radius=2))
    expected = window_mask(SOURCE, radius=2) & causal_mask(SOURCE)
    assert all(torch.equal(weights > 0, expected.expand_as(weights)) for weights in maps)
    _, maps = ours(read)
    assert all(torch.equal(weights > 0, causal_mask(SOURCE).expand_as(weights)) for weights in maps)


# Parameters.


def test_the_shared_output_is_one_parameter_that_both_places_train():
    shared, apart = model(share_output=True), model()
    numbers = [sum(x.numel() for x in ours.parameters()) for ours in (shared, apart)]
    assert numbers[1] - numbers[0] == TARGET_VOCABULARY * D_MODEL
    logits, _ = shared(*pair())
    logits.sum().backward()
    table = shared.decoder.embedding.tokens.weight
    assert shared.readout.weight is table
    unread = [i for i in range(TARGET_VOCABULARY) if i not in pair()[1]]
    assert table.grad[unread].ne(0).any(dim=-1).all()  # by the readout alone


def test_the_options_reach_encoder_and_decoder():
    ours = model(pre_norm=False, bias=False, dropout=0.25, activation=F.gelu)
    for part in (ours.encoder, ours.decoder):
        assert isinstance(part.norm, nn.Identity)
        assert all(block.feedforward.activation is F.gelu for block in part.blocks)
        assert not any("bias" in name for name, _ in part.named_parameters())
        assert {x.p for x in part.modules() if isinstance(x, nn.Dropout)} == {0.25}
    assert len(model(2, None).decoder.blocks) == 2


@pytest.mark.parametrize("layers", [(0, 1), (1, 0), (1, -2)])
def test_encoder_and_decoder_have_at_least_one_layer(layers):
    with pytest.raises(ValueError, match=f"^layers must be at least 1, but is {min(layers)}$"):
        model(*layers)


def test_the_model_refuses_batches_and_tokens_that_do_not_fit(no_shape_checks):
    source, target = torch.zeros(4, 5, dtype=torch.int64), torch.zeros(4, 3, dtype=torch.int64)
    with pytest.raises(ValueError, match=r"^source_lengths must have shape .*4.* here, but has shape \(1,"):
        model()(source, target, torch.tensor([4]))
    for wrong in (target[:1], target[:3]):
        message = f"^source and target need the same number of sequences, but have 4 and {len(wrong)}$"
        with pytest.raises(ValueError, match=message):
            model()(source, wrong)
    source[2, 1] = SOURCE_VOCABULARY
    message = f"^tokens must lie between 0 and {SOURCE_VOCABULARY - 1}, .* from 0 to {SOURCE_VOCABULARY}$"
    with pytest.raises(ValueError, match=message):
        model()(source, target)


# Generation.

SEARCHES = {
    "greedy": lambda: greedy,
    "sample": lambda: partial(sample, generator=torch.Generator().manual_seed(0)),
    "sample of the best": lambda: partial(
        sample, temperature=2.0, top_k=3, generator=torch.Generator().manual_seed(0)
    ),
    "beam": lambda: partial(beam_search, beams=3),
    "beam with penalty": lambda: partial(beam_search, beams=4, length_penalty=0.6),
}
LIMITS = {"start": START, "end": END, "max_length": 9}


@pytest.mark.parametrize(
    ("positions", "lengths"),
    [("sinusoidal", None), *((positions, torch.tensor([0, 7, 1])) for positions in POSITIONS)],
)
@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
def test_generation_with_a_cache_equals_that_without(search, positions, lengths):
    ours, (source, _) = writer(positions=positions), pair()
    cached, uncached = (
        ours.generate(source, lengths, search=search(), cache=cache, **LIMITS) for cache in (True, False)
    )
    assert torch.equal(cached.tokens, uncached.tokens)
    torch.testing.assert_close(cached.log_probability, uncached.log_probability)
    assert cached.tokens.unique().numel() > 1


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
def test_the_log_probability_is_that_of_the_forward_pass(search):
    ours, (source, _) = writer(), pair()
    written, log_probability = ours.generate(source, LENGTHS, search=search(), **LIMITS)
    read = torch.cat([torch.full((BATCH, 1), START), written[:, :-1]], dim=1)
    scores = ours(source, read, LENGTHS)[0].log_softmax(dim=-1)
    each = scores.gather(-1, written.unsqueeze(-1)).squeeze(-1)
    ended = (written == END).cumsum(dim=-1) - (written == END).long() > 0
    torch.testing.assert_close(log_probability.double(), each.masked_fill(ended, 0.0).sum(dim=-1))


def test_greedy_generation_takes_the_best_next_token_of_the_forward_pass():
    ours, (source, _) = writer(), pair()
    written = ours.generate(source, LENGTHS, **LIMITS).tokens
    for b in range(BATCH):
        read = [START]
        while len(read) <= 9 and read[-1] != END:
            logits, _ = ours(source[b : b + 1], torch.tensor([read]), LENGTHS[b : b + 1])
            read.append(logits[0, -1].argmax().item())
        ours_too = written[b].tolist()
        assert ours_too[: len(read) - 1] == read[1:]
        assert set(ours_too[len(read) - 1 :]) <= {END}


def test_each_source_is_generated_from_as_if_alone():
    ours, (source, _) = writer(), pair()
    search = partial(beam_search, beams=3)
    together = ours.generate(source, LENGTHS, search=search, **LIMITS)
    for b in range(BATCH):
        alone = ours.generate(source[b : b + 1, : LENGTHS[b]], search=search, **LIMITS)
        assert torch.equal(alone.tokens[0], together.tokens[b, : alone.tokens.shape[1]])
        torch.testing.assert_close(alone.log_probability[0], together.log_probability[b])


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
@pytest.mark.parametrize("cache", [False, True])
def test_generation_takes_an_empty_batch_and_an_empty_source(search, cache):
    ours = writer()
    assert ours.generate(tokens(0, 7), search=search(), cache=cache, **LIMITS).tokens.shape[0] == 0
    written = ours.generate(tokens(2, 0), search=search(), cache=cache, **LIMITS)
    assert written.log_probability.isfinite().all()


def test_generation_makes_no_graph_and_leaves_the_mode():
    ours = model(dropout=0.5).train()
    assert not ours.generate(pair()[0], **LIMITS).log_probability.requires_grad
    assert ours.training


@pytest.mark.parametrize("cache", [False, True])
def test_the_state_of_selected_rows_goes_on_with_their_sources_and_what_they_have_written(cache):
    ours, (source, target), rows = writer(), pair(), torch.tensor([2, 0, 0])

    def search(step, state, *, select, **_):
        _, state = step(target[:, 0], state)
        _, state = step(target[:, 1], state)
        logits, _ = step(target[rows, 2], select(state, rows))
        return Decoded(target[rows], logits.log_softmax(dim=-1)[:, 0])

    found = ours.generate(source, LENGTHS, search=search, cache=cache, **LIMITS).log_probability
    expected, _ = ours(source, target[:, :3], LENGTHS)
    torch.testing.assert_close(found, expected[rows, -1].log_softmax(dim=-1)[:, 0])


def test_caches_grow_by_the_tokens_read_and_the_source_is_projected_once():
    ours, (source, _), calls = writer(), pair(), []
    memory, mask, _ = ours.encode(source, LENGTHS)
    caches = ours.new_caches()
    for step in range(3):
        ours.decode(torch.full((BATCH, 1), START), memory, mask, caches=caches)
        assert [(own.length, cross.length) for own, cross in caches] == [(step + 1, SOURCE)] * 2
        calls.append([cross.keys.data_ptr() for _, cross in caches])
    assert calls[0] == calls[1] == calls[2]


@pytest.mark.parametrize("positions", POSITIONS)
def test_decoding_in_parts_equals_decoding_at_once(positions):
    ours, (source, target) = model(positions=positions), pair()
    memory, mask, _ = ours.encode(source, LENGTHS)
    expected, _ = ours(source, target, LENGTHS)
    caches = ours.new_caches()
    parts = [ours.decode(part, memory, mask, caches=caches)[0] for part in target.split([2, 0, 3], dim=1)]
    torch.testing.assert_close(torch.cat(parts, dim=1), expected)


# Precision, devices, learning, export.


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("positions", POSITIONS)
def test_lower_precision_keeps_its_dtype_and_comes_close(positions, dtype, device):
    exact, _ = model(positions=positions)(*pair(), LENGTHS)
    ours = model(positions=positions).to(device, dtype).eval()
    source, target = (x.to(device) for x in pair())
    logits, maps = ours(source, target, LENGTHS.to(device))
    assert logits.dtype == maps.cross[0].dtype == dtype
    assert logits.device.type == device.type
    tolerance = 30 * torch.finfo(dtype).eps
    torch.testing.assert_close(logits.cpu().double(), exact, atol=tolerance, rtol=tolerance)
    written = ours.generate(source, LENGTHS.to(device), search=partial(beam_search, beams=2), **LIMITS)
    assert written.tokens.device.type == device.type


def test_with_dropout_training_differs_from_run_to_run_and_evaluation_does_not():
    ours = model(dropout=0.3)
    assert not torch.equal(ours(*pair())[0], ours(*pair())[0])
    ours.eval()
    assert torch.equal(ours(*pair())[0], ours(*pair())[0])


def test_the_model_learns_to_reverse_and_generates_what_it_has_learned():
    torch.manual_seed(0)
    ours = Transformer(8, 8, d_model=32, heads=2, encoder_layers=1)
    optimiser = torch.optim.Adam(ours.parameters(), lr=5e-3)
    generator = torch.Generator().manual_seed(0)
    for _ in range(100):
        source = torch.randint(3, 8, (32, 4), generator=generator)
        target = F.pad(F.pad(source.flip(1), (1, 0), value=START), (0, 1), value=END)
        logits, _ = ours(source, target[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    source = torch.cartesian_prod(*[torch.arange(3, 8)] * 4)
    written = ours.eval().generate(source, start=START, end=END, max_length=5).tokens
    expected = F.pad(source.flip(1), (0, 1), value=END)
    assert (written == expected).all(dim=1).double().mean() > 0.9


def test_the_model_is_exported():
    ours, (source, target) = model(1, 1, positions="rotary").eval(), pair()
    exported = torch.export.export(ours, (source, target)).module()
    torch.testing.assert_close(exported(source.flip(0), target.flip(1)), ours(source.flip(0), target.flip(1)))


# Errors.


def test_a_wrong_call_is_told_what_was_expected_and_what_came(no_shape_checks):
    with pytest.raises(ValueError) as caught:
        Embedding(11, 20, positions="fourier")
    assert str(caught.value) == (
        "positions must be one of ('sinusoidal', 'learned', 'rotary', 'alibi', 'none'), but is 'fourier'"
    )
    with pytest.raises(ValueError, match=r"^lengths must lie between 0 and keys = 7, but range from 1 to 8$"):
        model()(*pair(), torch.tensor([1, 8, 3]))
    with pytest.raises(ValueError, match=r"^heads must be at least 1 and divide d_model"):
        Transformer(11, 13, d_model=20, heads=3, encoder_layers=1)
