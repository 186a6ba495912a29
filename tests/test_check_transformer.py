"""The checks of the set `transformer`: oracles, the library, shortcuts, and mistakes without a name."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import attncourse.decoding as decoding
import attncourse.training as training
from attncourse.checks.judge import CheckFailed, judge
from attncourse.checks.transformer import (
    DECODER_BLOCK,
    GENERATE,
    NUCLEUS,
    SMOOTHED_LOSS,
    TRAIN_TRANSLATOR,
    check_smoothed_loss,
    check_train_translator,
)
from attncourse.checks.words import number_words
from tests.answers.transformer import answers

SEEDS = range(3)


def normal(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_the_oracle_of_the_block_agrees_with_the_layer_of_pytorch():
    layer = nn.TransformerDecoderLayer(
        8, 2, 16, dropout=0.0, norm_first=True, batch_first=True, dtype=torch.float64
    ).eval()
    for number, parameter in enumerate(layer.parameters()):
        parameter.data = normal(number, *parameter.shape)
    inputs, memory = normal(1, 3, 5, 8), normal(2, 3, 7, 8)
    real = torch.arange(7) < torch.tensor([[7], [4], [1]])

    def cross_attend(x, y, mask):
        return layer.multihead_attn(x, y, y, key_padding_mask=~mask.squeeze(-2))[0]

    found = DECODER_BLOCK.oracle(
        *(inputs, memory, lambda x, y, mask: layer.self_attn(x, y, y)[0], cross_attend),
        lambda x: layer.linear2(torch.relu(layer.linear1(x))),
        *(layer.norm1, layer.norm2, layer.norm3, real),
    )
    future = torch.ones(5, 5, dtype=torch.bool).triu(1)
    expected = layer(inputs, memory, tgt_mask=future, memory_key_padding_mask=~real)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.7])
def test_the_oracle_of_the_loss_agrees_with_pytorch(smoothing):
    logits, target = normal(0, 3, 5, 7), torch.arange(15).reshape(3, 5) % 7
    real = torch.arange(5) < torch.tensor([[5], [2], [0]])
    expected = F.cross_entropy(logits[real], target[real], label_smoothing=smoothing)
    torch.testing.assert_close(SMOOTHED_LOSS.oracle(logits, target, smoothing, real), expected)


def test_the_ready_made_loss_is_refused():
    def loss(logits, target, smoothing, real):
        return F.cross_entropy(logits[real], target[real], label_smoothing=smoothing)

    with pytest.raises(CheckFailed, match="PyTorch's cross_entropy does the whole task"):
        check_smoothed_loss(loss)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_oracle_of_generation_writes_what_reading_everything_again_writes(seed):
    for case in GENERATE.cases(torch.Generator().manual_seed(seed), torch.float32):
        step, prompt, length, end = case.inputs.values()
        tokens = prompt
        for _ in range(length):
            best = step(tokens, None)[0][:, -1].argmax(-1, keepdim=True)
            ended = (tokens[:, prompt.shape[1] :] == end).any(-1, keepdim=True)
            tokens = torch.cat([tokens, torch.where(ended, end, best)], 1)
        assert torch.equal(GENERATE.oracle(step, prompt, length, end), tokens[:, prompt.shape[1] :])


def test_the_training_of_the_library_passes_and_is_refused():
    def train(model, source, target, source_lengths, steps):
        def loss(model, rows):
            logits = model(source[rows], target[rows, :-1], source_lengths[rows])
            return F.cross_entropy(logits.flatten(0, 1), target[rows, 1:].flatten(), ignore_index=0)

        model.train()

        def batches(step):
            return torch.randint(len(source), (32,))

        training.train(model, batches, steps=steps, loss=loss, learning_rate=5e-3, device="cpu")

    judge(TRAIN_TRANSLATOR, train, seed=0, dtype=torch.float32, refuse_shortcuts=False)
    with pytest.raises(CheckFailed, match=r"attncourse\.training\.train belongs to the course's library"):
        check_train_translator(train, dtype=torch.float64)


def test_number_words_are_those_of_the_corpus():
    corpora = pytest.importorskip("attncourse.corpora")
    data, english, german = number_words()
    pairs = corpora.number_pairs("en", "de", first=0, last=999, tokens="words")
    without_and = [(source.replace(" and", ""), target) for source, target in pairs]
    split = [(source.split(), target.split()) for source, target in without_and]
    assert [len(source) for source, _ in split] == data["source_lengths"].tolist()
    assert [len(target) + 2 for _, target in split] == (data["target"] != 0).sum(-1).tolist()
    assert len({word for source, _ in split for word in source}) + 3 == english
    assert len({word for _, target in split for word in target}) + 3 == german


def test_a_nucleus_plugs_into_the_library():
    logits = torch.tensor([[2.0, 1.0, 0.0, -1.0]])

    def step(tokens, state):
        return NUCLEUS.oracle(logits, 0.7).expand(len(tokens), -1), state

    found = decoding.sample(
        *(step, None),
        **{"batch": 50, "start": 0, "end": 3, "max_length": 4, "generator": torch.Generator().manual_seed(0)},
    )
    assert set(found.tokens.flatten().tolist()) == {0, 1}


def right(task):
    return answers.find(task).function


def block_without_its_last_position(inputs, *others):
    output = right("decoder_block")(inputs, *others).clone()
    output[:, -1] = inputs[:, -1]
    return output


def block_with_two_networks(inputs, memory, own, cross, feed, *norms):
    return right("decoder_block")(inputs, memory, own, cross, lambda x: 2 * feed(x), *norms)


def loss_of_other_smoothing(logits, target, smoothing, real):
    return right("smoothed_loss")(logits, target, 0.1, real)


def loss_without_gradient(logits, target, smoothing, real):
    return right("smoothed_loss")(logits.detach(), target, smoothing, real) + 0 * logits.sum()


def second_best(step, prompt, length, end):
    tokens = right("generate")(step, prompt, length, end)
    return torch.where(torch.arange(length) == length - 1, 0, tokens)


def reads_the_prompt_again(step, prompt, length, end):
    step(prompt, None)
    return right("generate")(step, prompt, length, end)


def trains_too_slowly(model, source, target, source_lengths, steps):
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    for _ in range(steps):
        rows = torch.randint(len(source), (8,))
        logits = model(source[rows], target[rows, :-1], source_lengths[rows])
        loss = F.cross_entropy(logits.flatten(0, 1), target[rows, 1:].flatten(), ignore_index=0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def trains_with_the_source_of_others(model, source, target, source_lengths, steps):
    order = torch.randperm(len(source))
    right("train_translator")(model, source[order], target, source_lengths[order], steps)


def rounded_logits(logits, share):
    return right("nucleus")(logits.round(decimals=1), share)


def half_the_share(logits, share):
    return right("nucleus")(logits, share if share < 0.6 else 0.6)


UNNAMED = [
    (DECODER_BLOCK, block_without_its_last_position),
    (DECODER_BLOCK, block_with_two_networks),
    (SMOOTHED_LOSS, loss_of_other_smoothing),
    (SMOOTHED_LOSS, loss_without_gradient),
    (GENERATE, second_best),
    (GENERATE, reads_the_prompt_again),
    (NUCLEUS, rounded_logits),
    (NUCLEUS, half_the_share),
]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("task", "wrong"), UNNAMED)
def test_a_mistake_that_nobody_listed_fails(task, wrong, seed):
    with pytest.raises(CheckFailed):
        judge(task, wrong, seed=seed, dtype=torch.float32, refuse_shortcuts=False)


def test_a_step_with_tokens_of_the_wrong_shape_is_refused_at_once():
    def without_an_axis(step, prompt, length, end):
        logits, cache = step(prompt, None)
        written = [logits[:, -1].argmax(dim=-1)]
        while len(written) < length:
            logits, cache = step(written[-1], cache)
            written.append(logits[:, -1].argmax(dim=-1))
        return torch.stack(written, dim=1)

    with pytest.raises(CheckFailed, match=r"several tokens after one.*\n.*\(batch, n\), got \(1,\)"):
        judge(GENERATE, without_an_axis, seed=0, dtype=torch.float32, refuse_shortcuts=False)


def test_unshifted_targets_are_not_called_padding_that_is_learned():
    wrong = answers.find("train_translator", "target-not-shifted").function
    with pytest.raises(CheckFailed, match='"the model does not learn to repeat') as caught:
        judge(TRAIN_TRANSLATOR, wrong, seed=0, dtype=torch.float32, refuse_shortcuts=False)
    assert "padding is not learned" not in str(caught.value)


@pytest.mark.parametrize("wrong", [trains_too_slowly, trains_with_the_source_of_others])
def test_a_training_that_teaches_nothing_fails(wrong):
    with pytest.raises(CheckFailed, match=r"number words|learns which token"):
        judge(TRAIN_TRANSLATOR, wrong, seed=0, dtype=torch.float32, refuse_shortcuts=False)
