"""Searches over small models whose best sequences and probabilities can be counted out."""

import itertools
from functools import partial

import pytest
import torch

from attncourse.decoding import Decoded, beam_search, greedy, sample

START, END, VOCABULARY = 1, 2, 5
SEARCHES = [greedy, sample, beam_search]


def no_select(state, rows):
    return state


class Model:
    """Scores the next token from the whole prefix, by a table drawn at random for each prefix."""

    def __init__(self, seed=0, vocabulary=VOCABULARY, forget_end=False):
        self.seed, self.vocabulary, self.forget_end = seed, vocabulary, forget_end
        self.calls = 0

    def logits(self, sentence, prefix):
        place = (
            hash((self.seed, sentence, *prefix)) % 2**31
        )  # a tuple of integers has the same hash in every run
        table = torch.Generator().manual_seed(place)
        logits = 2 * torch.randn(self.vocabulary, generator=table, dtype=torch.float64)
        if self.forget_end:
            logits[END] = float("-inf")
        return logits

    def step(self, tokens, state):
        self.calls += 1
        state = [(*row, token) for row, token in zip(state, tokens.tolist(), strict=True)]
        return torch.stack([self.logits(row[0], row[1:]) for row in state]), state

    @staticmethod
    def select(state, rows):
        return [state[row] for row in rows.tolist()]

    def search(self, search, batch=3, max_length=4, **options):
        return search(
            self.step,
            [(sentence,) for sentence in range(batch)],
            batch=batch,
            start=START,
            end=END,
            max_length=max_length,
            select=self.select,
            **options,
        )

    def log_probability(self, sentence, tokens):
        """Reads off the probability of a row, up to and including its first end token."""
        total, prefix = 0.0, (START,)
        for token in tokens:
            total += torch.log_softmax(self.logits(sentence, prefix), dim=-1)[token].item()
            prefix = (*prefix, token)
            if token == END:
                break
        return total


def all_sequences(vocabulary, max_length):
    """Lists each sequence once: those that end, and those that are cut off."""
    others = [token for token in range(vocabulary) if token != END]
    for length in range(max_length):
        for body in itertools.product(others, repeat=length):
            yield (*body, END)
    yield from itertools.product(others, repeat=max_length)


def without_filling(row):
    row = row.tolist()
    return tuple(row[: row.index(END) + 1]) if END in row else tuple(row)


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("seed", range(5))
def test_a_row_ends_with_its_first_end_token_and_is_as_probable_as_the_model_says(search, seed):
    torch.manual_seed(seed)
    model = Model(seed)
    tokens, log_probability = model.search(search, batch=7, max_length=6)
    lengths = [len(without_filling(row)) for row in tokens]
    assert tokens.shape == (7, max(lengths))
    for sentence, (row, length) in enumerate(zip(tokens.tolist(), lengths, strict=True)):
        assert set(row[length:]) <= {END}
        assert log_probability[sentence].item() == pytest.approx(model.log_probability(sentence, row))


@pytest.mark.parametrize("seed", range(5))
def test_greedy_takes_the_largest_score_at_each_step(seed):
    model = Model(seed)
    decoded = model.search(greedy, max_length=6)
    for sentence, row in enumerate(decoded.tokens):
        prefix = (START,)
        for token in without_filling(row):
            assert token == max(range(VOCABULARY), key=model.logits(sentence, prefix).tolist().__getitem__)
            prefix = (*prefix, token)


@pytest.mark.parametrize("seed", range(5))
def test_one_beam_is_greedy(seed):
    model = Model(seed)
    one, other = model.search(beam_search, beams=1, max_length=6), model.search(greedy, max_length=6)
    assert torch.equal(one.tokens, other.tokens)
    torch.testing.assert_close(one.log_probability, other.log_probability)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("length_penalty", [0.0, 0.8, 3.0])
def test_a_beam_wide_enough_for_all_finds_the_best_of_all_sequences(seed, length_penalty):
    model, vocabulary, max_length = Model(seed, vocabulary=3), 3, 4
    decoded = model.search(
        beam_search, max_length=max_length, beams=vocabulary**max_length, length_penalty=length_penalty
    )

    def worth(sentence, tokens):
        return model.log_probability(sentence, tokens) / ((5 + len(tokens)) / 6) ** length_penalty

    for sentence, row in enumerate(decoded.tokens):
        best = max(all_sequences(vocabulary, max_length), key=partial(worth, sentence))
        assert without_filling(row) == best
        assert decoded.log_probability[sentence].item() == pytest.approx(
            model.log_probability(sentence, best)
        )


@pytest.mark.parametrize("beams", [2, 3])
@pytest.mark.parametrize("seed", range(5))
def test_a_narrow_beam_keeps_the_best_beginnings_at_each_step(seed, beams):
    model, max_length = Model(seed), 5
    decoded = model.search(beam_search, max_length=max_length, beams=beams)
    for sentence, row in enumerate(decoded.tokens):
        kept = [()]
        for _ in range(max_length):
            grown = [
                (*tokens, token) for tokens in kept for token in range(VOCABULARY) if END not in tokens
            ] + [tokens for tokens in kept if END in tokens]
            kept = sorted(grown, key=partial(model.log_probability, sentence), reverse=True)[:beams]
        assert without_filling(row) == kept[0]


def test_the_length_penalty_favours_the_longer_of_two_sequences():
    # Ending at once has probability 0.5; one more token and then the end, 0.4.
    first = torch.tensor([0.1, 0.4, 0.5], dtype=torch.float64).log()
    second = torch.tensor([-1e9, -1e9, 0.0], dtype=torch.float64)

    def step(tokens, state):
        return (first if state == 0 else second).expand(len(tokens), 3), state + 1

    search = partial(
        beam_search, step, 0, select=no_select, batch=1, start=START, end=END, max_length=3, beams=2
    )
    assert search().tokens.tolist() == [[END]]
    assert search(length_penalty=5.0).tokens.tolist() == [[1, END]]


def test_samples_come_as_often_as_the_model_says():
    probabilities = torch.tensor([0.1, 0.5, 0.25, 0.15])

    def step(tokens, state):
        return probabilities.log().expand(len(tokens), 4), state

    def shares(**options):
        generator = torch.Generator().manual_seed(3)
        drawn = sample(step, None, batch=20_000, start=1, end=0, max_length=1, generator=generator, **options)
        return drawn.tokens.flatten().bincount(minlength=4) / 20_000

    # The standard error of a share is at most 0.5 / sqrt(20000) = 0.0035.
    assert (shares() - probabilities).abs().max() < 0.015
    sharp = probabilities**2 / (probabilities**2).sum()
    assert (shares(temperature=0.5) - sharp).abs().max() < 0.015
    assert (shares(top_k=2) - torch.tensor([0, 2 / 3, 1 / 3, 0])).abs().max() < 0.015
    assert torch.equal(shares(top_k=9), shares())
    assert shares(top_k=1).tolist() == [0, 1, 0, 0]


def test_samples_repeat_with_the_generator_and_leave_the_global_one_alone():
    model = Model()
    before = torch.get_rng_state()
    one, same, other = (
        model.search(sample, batch=11, generator=torch.Generator().manual_seed(seed)) for seed in (5, 5, 6)
    )
    assert torch.equal(one.tokens, same.tokens)
    assert not torch.equal(one.tokens, other.tokens)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("search", SEARCHES)
def test_a_model_that_never_ends_is_cut_off(search):
    model = Model(forget_end=True)
    decoded = model.search(search, max_length=4)
    assert decoded.tokens.shape == (3, 4)
    assert not (decoded.tokens == END).any()
    assert model.calls == 4


@pytest.mark.parametrize("search", SEARCHES)
def test_the_model_is_not_asked_once_all_have_ended(search):
    calls = []

    def step(tokens, state):
        calls.append(len(tokens))
        logits = torch.full((len(tokens), 4), -50.0)
        logits[:, END] = 50.0
        return logits, state

    decoded = search(step, None, batch=3, start=START, end=END, max_length=9, select=no_select)
    assert decoded.tokens.tolist() == [[END]] * 3
    if search is beam_search:  # the weaker beams end one step later
        assert calls == [12, 12]
    else:
        assert calls == [3]


@pytest.mark.parametrize("search", SEARCHES)
def test_nothing_to_write(search):
    model = Model()
    for batch, max_length in ((0, 4), (3, 0)):
        tokens, log_probability = model.search(search, batch=batch, max_length=max_length)
        assert tokens.shape == (batch, 0)
        assert tokens.dtype == torch.int64
        assert log_probability.tolist() == [0.0] * batch
    assert model.calls == 0


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_probabilities_are_summed_up_in_float32_at_least(search, dtype, device):
    def step(tokens, state):
        return torch.linspace(0, 1, VOCABULARY, dtype=dtype, device=device).expand(len(tokens), -1), state

    decoded = search(step, None, batch=3, start=START, end=END, max_length=7, select=no_select, device=device)
    assert decoded.log_probability.dtype == torch.promote_types(dtype, torch.float32)
    assert decoded.tokens.device.type == device.type
    assert isinstance(decoded, Decoded)


@pytest.mark.parametrize(
    "search, message",
    [
        (partial(greedy, batch=-1, max_length=2), "batch must be at least 0, but is -1"),
        (partial(greedy, batch=2, max_length=-3), "max_length must be at least 0, but is -3"),
        (partial(beam_search, batch=2, max_length=2, beams=0), "beams must be at least 1, but is 0"),
        (partial(beam_search, batch=-2, max_length=2), "batch must be at least 0, but is -2"),
        (
            partial(sample, batch=2, max_length=2, temperature=0.0),
            "must be above 0 and finite, but is 0.0",
        ),
        (partial(sample, batch=2, max_length=2, temperature=float("inf")), "above 0 and finite, but is inf"),
        (partial(sample, batch=2, max_length=2, top_k=0), "top_k must be at least 1, but is 0"),
    ],
)
def test_bad_arguments(search, message):
    with pytest.raises(ValueError, match=message):
        search(Model().step, [], start=START, end=END, select=no_select)


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("end", [-1, VOCABULARY])
def test_an_end_that_cannot_be_written_is_refused(search, end):
    def step(tokens, state):
        return torch.zeros(len(tokens), VOCABULARY), state

    with pytest.raises(ValueError, match=f"^end must be a token from 0 to {VOCABULARY - 1}, but is {end}$"):
        search(step, None, batch=2, start=START, end=end, max_length=3, select=no_select)


def test_a_tiny_temperature_takes_the_most_probable_token():
    def step(tokens, state):
        return torch.tensor([1.0, 3.0, 2.0]).expand(len(tokens), 3), state

    drawn = sample(step, None, batch=50, start=1, end=0, max_length=1, temperature=1e-37)
    assert set(drawn.tokens.flatten().tolist()) == {1}
