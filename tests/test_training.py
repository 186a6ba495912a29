"""Training against a loop written out here; its repetition, interruption and failure."""

import functools
import itertools
import math

import pytest
import torch
from torch import nn

from attncourse import tasks, training
from attncourse.tasks import END
from attncourse.training import History, learning_rate_at, train

SYMBOLS = 5


class Tagger(nn.Module):
    """Reads source and target, and predicts each next token: small, and with dropout."""

    def __init__(self, d_model=7, dropout=0.0):
        super().__init__()
        self.embedding = nn.Embedding(8, d_model)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(d_model, 8)

    def forward(self, source, target, source_lengths=None):
        hidden = self.embedding(target) + self.embedding(source).mean(dim=1, keepdim=True)
        return self.output(self.dropout(hidden)), None


def tagger(**options):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Tagger(**options)


def batches(step):
    return tasks.reversal(3, (2, 5), symbols=SYMBOLS)


def same_parameters(one, other):
    return all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


run = functools.partial(train, batches=batches, device="cpu", learning_rate=0.02)


# The loss


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_loss_is_the_mean_over_real_tokens_by_loops(dtype):
    batch, length, vocabulary = 5, 7, 11
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(batch, length, vocabulary, generator=generator, dtype=dtype)
    target = torch.randint(vocabulary, (batch, length), generator=generator)
    lengths = torch.tensor([7, 0, 1, 3, 5])
    terms = [
        math.log(math.fsum(math.exp(x) for x in logits[i, j].tolist())) - logits[i, j, target[i, j]].item()
        for i in range(batch)
        for j in range(lengths[i])
    ]
    loss = training.token_loss(logits, target, lengths)
    assert loss.item() == pytest.approx(math.fsum(terms) / 16, rel=1e-5)
    assert loss.dtype == dtype


def test_padding_has_no_gradient_and_no_influence():
    logits = torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(0), requires_grad=True)
    lengths = torch.tensor([1, 3])
    target = torch.tensor([[4, 0, 0], [1, 2, 3]])
    loss = training.token_loss(logits, target, lengths)
    loss.backward()
    assert not logits.grad[0, 1:].any() and logits.grad[0, 0].all()
    changed = logits.detach().clone()
    changed[0, 1:] = 100.0
    assert training.token_loss(changed, target + torch.tensor([[0, 1, 3], [0, 0, 0]]), lengths) == loss


@pytest.mark.parametrize(
    ("logits", "target", "lengths", "message"),
    [
        ((2, 3, 5), (2, 4), [1, 2], r"got shapes \(2, 3, 5\), \(2, 4\) and \(2,\)"),
        ((2, 3, 5), (2, 3), [1], r"\(2, 3\) and \(1,\)"),
        ((6, 5), (2, 3), [1, 2], r"got shapes \(6, 5\)"),
        ((2, 3, 5), (2, 3), [4, 1], r"between 0 and length = 3, but range from 1 to 4"),
        ((2, 3, 5), (2, 3), [-1, 1], r"but range from -1 to 1"),
        ((2, 3, 5), (2, 3), [0, 0], r"at least one length must be above 0, but they are \[0, 0\]"),
    ],
)
def test_the_loss_refuses_what_does_not_fit(logits, target, lengths, message, no_shape_checks):
    with pytest.raises(ValueError, match=message):
        training.token_loss(torch.rand(logits), torch.zeros(target, dtype=torch.int64), torch.tensor(lengths))


def test_teacher_forcing_shows_the_start_first_and_asks_for_the_end_last():
    batch = tasks.copying(2, (2, 3), symbols=SYMBOLS, generator=torch.Generator().manual_seed(0))
    seen = []

    class Sure(nn.Module):
        def forward(self, source, target, source_lengths):
            seen.extend([source, target, source_lengths])
            return nn.functional.one_hot(answers, 8) * 50.0, None

    answers = batch.target[:, 1:].clone()
    assert training.sequence_loss(Sure(), batch).item() == pytest.approx(0, abs=1e-6)
    answers[answers == END] = 7  # two wrong tokens, which cost 50 nats each
    tokens = batch.source_lengths.sum().item() + 2
    assert training.sequence_loss(Sure(), batch).item() == pytest.approx(100 / tokens)
    assert torch.equal(seen[0], batch.source) and torch.equal(seen[2], batch.source_lengths)
    assert torch.equal(seen[1], batch.target[:, :-1])


# The schedule


@pytest.mark.parametrize("step", [1, 2, 399, 400, 401, 4000])
def test_inverse_square_root_is_equation_3_of_vaswani_and_others(step):
    d_model, warmup = 512, 400
    expected = d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)
    peak = (d_model * warmup) ** -0.5
    rate = learning_rate_at(step, peak=peak, warmup=warmup, steps=4000, schedule="inverse square root")
    assert rate == pytest.approx(expected, rel=1e-12)


def test_schedules_rise_alike_and_part_after_the_warm_up():
    def rates(schedule, warmup=4):
        return [
            learning_rate_at(s, peak=2.0, warmup=warmup, steps=12, schedule=schedule) for s in range(1, 13)
        ]

    assert rates("constant") == [0.5, 1.0, 1.5, 2.0, *[2.0] * 8]
    cosine = rates("cosine")
    assert cosine[:5] == [0.5, 1.0, 1.5, 2.0, 2.0] and cosine[8] == pytest.approx(1.0)
    assert all(left > right > 0 for left, right in itertools.pairwise(cosine[4:]))
    assert [rates(schedule, 0)[0] for schedule in ("constant", "cosine", "inverse square root")] == [2.0] * 3
    assert rates("inverse square root", 0)[3] == pytest.approx(1.0)
    assert rates("cosine", 20)[11] == pytest.approx(1.2)


@pytest.mark.parametrize(
    ("step", "options", "message"),
    [
        (0, {}, "step = 0, steps = 3"),
        (4, {}, "step = 4, steps = 3"),
        (1, {"warmup": -1}, "warmup = -1"),
        (1, {"schedule": "linear"}, "'cosine', but is 'linear'"),
    ],
)
def test_a_schedule_refuses_what_it_does_not_know(step, options, message, no_shape_checks):
    with pytest.raises(ValueError, match=message):
        learning_rate_at(step, **{"peak": 1.0, "warmup": 1, "steps": 3, "schedule": "constant", **options})


# Training


def test_training_is_adam_with_clipping_as_written_out_here():
    model, rate, clip, betas = tagger(), 0.05, 0.3, (0.9, 0.98)
    data = [tasks.copying(3, (2, 5), symbols=SYMBOLS) for _ in range(7)]
    history = train(
        model, lambda step: data[step - 1], steps=7, learning_rate=rate, warmup=3, clip=clip, device="cpu"
    )

    other = tagger()
    means = {name: torch.zeros_like(p) for name, p in other.named_parameters()}
    squares = {name: torch.zeros_like(p) for name, p in other.named_parameters()}
    for step, batch in enumerate(data, start=1):
        loss = training.sequence_loss(other, batch)
        gradients = torch.autograd.grad(loss, list(other.parameters()))
        norm = math.sqrt(sum(g.square().sum().item() for g in gradients))
        assert history.loss[step - 1] == pytest.approx(loss.item(), rel=1e-4)
        assert history.gradient_norm[step - 1] == pytest.approx(norm, rel=1e-4)
        with torch.no_grad():
            for (name, parameter), gradient in zip(other.named_parameters(), gradients, strict=True):
                gradient = gradient * min(1, clip / norm)
                means[name] = betas[0] * means[name] + (1 - betas[0]) * gradient
                squares[name] = betas[1] * squares[name] + (1 - betas[1]) * gradient.square()
                mean, square = means[name] / (1 - betas[0] ** step), squares[name] / (1 - betas[1] ** step)
                parameter -= rate * min(1, step / 3) * mean / (square.sqrt() + 1e-9)
    assert max(history.gradient_norm) > clip
    assert history.learning_rate == pytest.approx([rate / 3, 2 * rate / 3, *[rate] * 5])
    for left, right in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(left, right, rtol=1e-3, atol=1e-5)


def test_training_learns_and_weight_decay_shrinks():
    model, decayed = tagger(), tagger()
    history = run(model, steps=60)
    assert sum(history.loss[-5:]) < 0.8 * sum(history.loss[:5])
    run(decayed, steps=60, weight_decay=5.0)
    assert decayed.output.weight.norm() < 0.5 * model.output.weight.norm()


def test_a_seed_repeats_a_run_whatever_the_state_outside():
    models = [tagger(dropout=0.5) for _ in range(4)]
    torch.manual_seed(1)
    first = run(models[0], steps=5, seed=3)
    torch.manual_seed(2)
    assert run(models[1], steps=5, seed=3) == first
    assert same_parameters(models[0], models[1])
    assert run(models[2], steps=5, seed=4).loss != first.loss
    assert len(set(first.loss)) == 5
    assert run(models[3], steps=1, seed=3).loss == first.loss[:1]


def test_training_leaves_modes_and_randomness_as_found():
    model = tagger(dropout=0.5).eval()
    model.output.train()
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    modes = []
    run(model, steps=2, loss=lambda m, b: modes.append(m.dropout.training) or training.sequence_loss(m, b))
    assert torch.equal(torch.rand(3), expected)
    assert modes == [True, True]
    assert [model.training, model.dropout.training, model.output.training] == [False, False, True]
    assert all(parameter.grad is None for parameter in model.parameters())


def test_training_runs_on_every_device(device):
    model = tagger()
    history = train(model, batches, steps=3, device=device)
    assert next(model.parameters()).device.type == device.type
    assert all(map(math.isfinite, history.loss))


@pytest.mark.parametrize("schedule", ["constant", "inverse square root", "cosine"])
@pytest.mark.parametrize("stop", [1, 4, 7])
def test_a_resumed_run_is_bit_by_bit_the_unbroken_one(tmp_path, schedule, stop):
    options = {"steps": 9, "schedule": schedule, "warmup": 2, "clip": 0.5, "weight_decay": 0.1, "seed": 8}
    unbroken, broken, resumed = (tagger(dropout=0.3) for _ in range(3))
    expected = run(unbroken, **options)
    path = tmp_path / "run.pt"

    def stopped(step):
        if step == stop + 1:
            raise KeyboardInterrupt
        return batches(step)

    with pytest.raises(KeyboardInterrupt):
        run(broken, batches=stopped, checkpoint=path, save_every=1, **options)
    assert not same_parameters(broken, unbroken)
    torch.manual_seed(stop)  # another process has another state
    assert run(resumed, checkpoint=str(path), **options) == expected
    assert same_parameters(resumed, unbroken)
    assert [file.name for file in tmp_path.iterdir()] == ["run.pt"]


def test_steps_after_the_last_save_are_made_again(tmp_path):
    path = tmp_path / "run.pt"
    seen = []

    def stopped(step):
        seen.append(step)
        if step == 6 and seen.count(6) == 1:
            raise KeyboardInterrupt
        return batches(step)

    with pytest.raises(KeyboardInterrupt):
        run(tagger(), batches=stopped, steps=7, checkpoint=path, save_every=3)
    run(tagger(), batches=stopped, steps=7, checkpoint=path, save_every=3)
    assert seen == [1, 2, 3, 4, 5, 6, 4, 5, 6, 7]


def test_a_finished_run_is_not_trained_again_and_may_go_on(tmp_path):
    path, model, longer = tmp_path / "run.pt", tagger(), tagger()
    history = run(model, steps=4, checkpoint=path)
    again, asked = tagger(), []
    assert run(again, batches=asked.append, steps=4, checkpoint=path) == history
    assert same_parameters(again, model) and not asked
    assert run(tagger(), steps=6, checkpoint=path) == run(longer, steps=6)


def test_a_failing_save_keeps_the_old_checkpoint(tmp_path, monkeypatch):
    path = tmp_path / "run.pt"
    run(tagger(), steps=2, checkpoint=path)
    before = path.read_bytes()

    def half(content, target):
        target.write_bytes(b"half")
        raise OSError("no space left")

    monkeypatch.setattr(torch, "save", half)
    with pytest.raises(OSError, match="no space left"):
        run(tagger(), steps=3, checkpoint=path)
    assert path.read_bytes() == before


class Alien:
    pass


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"no checkpoint", "is no checkpoint of this course, or a broken one"),
        ({"model": {}}, "is no checkpoint of this course"),
        ({"format": "other"}, "not in the format 'attncourse checkpoint 1', but in 'other'"),
        ({"format": Alien()}, r"is no checkpoint of this course, .* \(UnpicklingError\)"),
    ],
)
def test_an_alien_file_is_refused_and_left_as_it_is(tmp_path, content, message):
    path, model = tmp_path / "run.pt", tagger()
    path.write_bytes(content) if isinstance(content, bytes) else torch.save(content, path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=message):
        run(model, steps=2, checkpoint=path)
    assert path.read_bytes() == before
    assert same_parameters(model, tagger())


def test_the_checkpoint_of_another_run_is_refused_and_named(tmp_path):
    path = tmp_path / "run.pt"
    run(tagger(), steps=3, checkpoint=path, schedule="cosine")
    before = path.read_bytes()
    model = tagger()
    for options, message in (
        ({"seed": 4}, r"a run with seed = 0 \(here 4\); use the same settings"),
        ({"learning_rate": 0.5, "clip": 2.0}, r"peak = 0.02 \(here 0.5\), clip = 1.0 \(here 2.0\);"),
        ({"steps": 5}, r"steps = 3 \(here 5\)"),
        ({"schedule": "constant"}, r"schedule = cosine \(here constant\)"),
    ):
        with pytest.raises(ValueError, match=message):
            run(model, **{"steps": 3, "schedule": "cosine", "checkpoint": path, **options})
    with pytest.raises(ValueError, match=r"embedding.weight = \[8, 7\] \(here \[8, 11\]\)"):
        run(tagger(d_model=11), steps=3, checkpoint=path, schedule="cosine")
    assert path.read_bytes() == before and same_parameters(model, tagger())


def test_a_checkpoint_that_is_further_than_the_run_is_refused(tmp_path):
    path = tmp_path / "run.pt"
    run(tagger(), steps=3, checkpoint=path)
    with pytest.raises(ValueError, match="after step 3 already, and steps = 2"):
        run(tagger(), steps=2, checkpoint=path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 0}, "got steps = 0"),
        ({"save_every": 0}, "save_every = 0"),
        ({"clip": 0.0}, "clip = 0.0"),
        ({"learning_rate": -1.0}, "learning_rate = -1.0"),
        ({"warmup": -2}, "warmup = -2"),
        ({"schedule": "linear"}, "but is 'linear'"),
        ({"checkpoint": "no/such/folder/run.pt"}, "there is no folder no/such/folder"),
    ],
)
def test_training_refuses_settings_out_of_range(options, message, no_shape_checks):
    with pytest.raises(ValueError, match=message):
        run(tagger(), **{"steps": 3, **options})


@pytest.mark.parametrize(("value", "number"), [(math.nan, "nan"), (math.inf, "inf")])
def test_a_loss_that_is_not_finite_stops_at_its_step(value, number):
    model, two = tagger(), tagger()
    run(two, steps=2)
    calls = []

    def loss(model, batch):
        calls.append(batch)
        return training.sequence_loss(model, batch) * (value if len(calls) == 3 else 1.0)

    with pytest.raises(FloatingPointError, match=rf"the loss is {number} at step 3, with learning rate 0.02"):
        run(model, steps=9, loss=loss)
    assert same_parameters(model, two) and len(calls) == 3


def test_a_gradient_that_is_not_finite_stops_too():
    def loss(model, batch):
        return training.sequence_loss(model, batch) + (model.output.weight * 0).sum().sqrt()

    with pytest.raises(FloatingPointError, match="the gradient norm is nan at step 1"):
        run(tagger(), steps=2, loss=loss)


class Terminal:
    """A standard error that looks like a terminal, and keeps what is written."""

    def __init__(self):
        self.text = ""

    def write(self, text):
        self.text += text

    def flush(self):
        pass

    def isatty(self):
        return True


def test_the_progress_bar_is_for_terminals_and_not_for_grading(monkeypatch, capfd):
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)
    run(tagger(), steps=2)
    assert capfd.readouterr() == ("", "")
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    run(tagger(), steps=2)
    assert "training" in terminal.text and "2/2" in terminal.text
    terminal.text = ""
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    run(tagger(), steps=2)
    assert terminal.text == ""


# The measures


def test_a_history_begins_empty_each_time():
    History().loss.append(1.0)
    assert History().loss == []
