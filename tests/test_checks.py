"""The checks: right answers pass in any style, wrong ones lose their points and are told why."""

import functools
import importlib
import math
import re
import warnings
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

import attncourse.checks.materials as materials
import attncourse.qkv as library
from attncourse.checks.judge import CheckFailed, Task, judge
from attncourse.checks.misconceptions import MISCONCEPTIONS, SECTIONS
from attncourse.checks.qkv import (
    ATTEND,
    LINEAR_ATTENTION,
    MASKED_SOFTMAX,
    SCALED_DOT_SCORES,
    WEIGHTED_SUM,
    check_attend,
    check_linear_attention,
    check_masked_softmax,
    check_scaled_dot_scores,
    check_weighted_sum,
)

ROOT = Path(__file__).parents[1]
TOPICS = sorted(path.stem for path in (ROOT / "tests" / "answers").glob("[!_]*.py"))
ANSWERS = [
    (topic, answer)
    for topic in TOPICS
    for answer in importlib.import_module(f"tests.answers.{topic}").answers
]
TASKS = [
    pytest.param(value, id=f"{topic}-{value.name}")
    for topic in TOPICS
    for value in vars(importlib.import_module(f"attncourse.checks.{topic}")).values()
    if isinstance(value, Task)
]
SEEDS = range(2)  # `make quality` tries 20
DTYPES = (torch.float32, torch.float64)


def import_catalogue(topic):
    return importlib.import_module(f"attncourse.checks.misconceptions.{topic}").MISCONCEPTIONS


def chapter_of(label):
    return ROOT / "book" / f"{label.split('-')[0]}.md"


def check_of(topic, task):
    return getattr(importlib.import_module(f"attncourse.checks.{topic}"), f"check_{task}")


def failure(check, function, **options):
    """Give the text of the failure; it is an error if the check passes."""
    with pytest.raises(CheckFailed) as caught:
        check(function, **options)
    return str(caught.value)


def label(value):
    return f"{value.task}-{value.misconception or 'right'}" if hasattr(value, "task") else None


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("topic", "answer"), [a for a in ANSWERS if not a[1].misconception], ids=label)
def test_a_right_answer_passes_in_any_style(topic, answer, seed):
    for dtype in DTYPES:
        assert check_of(topic, answer.task)(answer.function, seed=seed, dtype=dtype) is None


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("topic", "answer"), [a for a in ANSWERS if a[1].misconception], ids=label)
def test_a_wrong_answer_fails_and_its_mistake_is_named(topic, answer, seed):
    text = failure(check_of(topic, answer.task), answer.function, seed=seed)
    assert f"[misconception: {answer.misconception}]" in text


@pytest.mark.parametrize("task", TASKS)
def test_each_listed_mistake_is_told_apart_from_all_others(task):
    for name, wrong in task.wrong:
        with pytest.raises(CheckFailed, match=re.escape(f"[misconception: {name}]")):
            judge(task, wrong, seed=0, dtype=torch.float32, refuse_shortcuts=False)


@pytest.mark.parametrize("task", TASKS)
def test_each_function_has_enough_answers_of_both_kinds(task):
    right = [a for _, a in ANSWERS if a.task == task.name and not a.misconception]
    wrong = {a.misconception for _, a in ANSWERS if a.task == task.name and a.misconception}
    assert len(right) >= 4
    assert len(wrong) >= 6
    assert wrong <= {name for name, _ in task.wrong}


def test_the_catalogue_has_each_mistake_once_and_points_into_the_book():
    used = {name for param in TASKS for name, _ in param.values[0].wrong}
    assert used == set(MISCONCEPTIONS)
    names = [name for topic in TOPICS for name in import_catalogue(topic)]
    assert len(names) == len(set(names))
    # Chapters that are not written yet have no sections to point to.
    labels = {entry.section for entry in MISCONCEPTIONS.values()} - {""}
    assert {label for label in labels if chapter_of(label).exists()} == set(SECTIONS)
    assert {label.split("-")[0] for label in labels} <= set(TOPICS)
    for label, title in SECTIONS.items():
        text = chapter_of(label).read_text(encoding="utf-8")
        assert re.search(rf"\({label}\)=\n#+ {re.escape(title)}\n", text)


def test_messages_do_not_give_the_solution_away():
    for topic in TOPICS:
        text = (ROOT / "solutions" / f"{topic}.py").read_text(encoding="utf-8")
        solutions = re.findall(r"### BEGIN SOLUTION\n(.*?)### END SOLUTION", text, re.DOTALL)
        lines = {line.strip() for block in solutions for line in block.splitlines()}
        assert lines
        for entry in MISCONCEPTIONS.values():
            assert not any(line in entry.says + entry.look for line in lines if len(line) > 8)


# --- The judge itself is right: its oracles agree with PyTorch, and it accepts the library. ---


@pytest.mark.parametrize("seed", SEEDS)
def test_the_oracle_agrees_with_pytorch_where_pytorch_has_an_answer(seed):
    generator = torch.Generator().manual_seed(seed)
    query, key, value = (
        torch.randn(2, n, d, generator=generator, dtype=torch.float64) for n, d in ((5, 7), (11, 7), (11, 3))
    )
    mask = torch.rand(5, 11, generator=generator) < 0.5
    mask[0], mask[1] = False, True
    context, weights = ATTEND.oracle(query, key, value, mask)
    torch.testing.assert_close(context, F.scaled_dot_product_attention(query, key, value, attn_mask=mask))
    torch.testing.assert_close(context, WEIGHTED_SUM.oracle(weights, value))
    torch.testing.assert_close(weights[:, 1], F.softmax(SCALED_DOT_SCORES.oracle(query, key)[:, 1], dim=-1))
    features = (F.elu(query) + 1) @ (F.elu(key) + 1).mT
    expected = features / features.sum(dim=-1, keepdim=True) @ value
    torch.testing.assert_close(LINEAR_ATTENTION.oracle(query, key, value), expected)


@pytest.mark.parametrize("task", [SCALED_DOT_SCORES, MASKED_SOFTMAX, WEIGHTED_SUM, ATTEND, LINEAR_ATTENTION])
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_library_passes_the_checks(task, dtype, capsys):
    judge(task, getattr(library, task.name), seed=0, dtype=dtype, refuse_shortcuts=False)
    assert f"✓ {task.name}: passed" in capsys.readouterr().out


# --- What a check refuses. ---


def fused(query, key, value, mask=None):
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask), None


def fused_alias(query, key, value, mask=None):
    attention = torch._C._nn.scaled_dot_product_attention
    return attention(query, key, value, mask), None


def fused_operator(query, key, value, mask=None):
    return torch.ops.aten.scaled_dot_product_attention(query, key, value, mask), None


def fused_module(query, key, value, mask=None):
    layer = torch.nn.MultiheadAttention(query.shape[-1], 1, kdim=key.shape[-1], vdim=value.shape[-1])
    return layer(query, key, value)


@pytest.mark.parametrize("shortcut", [fused, fused_alias, fused_operator])
def test_the_fused_function_is_refused_in_any_spelling(shortcut):
    assert "PyTorch's scaled_dot_product_attention does the whole task" in failure(check_attend, shortcut)


def test_the_multihead_module_is_refused():
    assert "multi_head_attention_forward does the whole task" in failure(check_attend, fused_module)


@pytest.mark.parametrize(
    ("check", "shortcut"),
    [
        (check_attend, library.attend),
        (check_attend, functools.partial(library.attend)),
        (check_scaled_dot_scores, lambda query, key: library.scaled_dot_scores(query, key)),
        (check_masked_softmax, library.masked_softmax),
        (check_weighted_sum, library.weighted_sum),
        (check_linear_attention, library.linear_attention),
    ],
)
def test_the_function_of_the_library_is_refused(check, shortcut):
    assert re.search(r"attncourse\.qkv\.\w+ belongs to the course's library", failure(check, shortcut))


@pytest.mark.parametrize(
    "shortcut",
    [
        lambda scores, mask=None: torch.masked.softmax(scores, -1, mask=mask).nan_to_num(0.0),
        lambda scores, mask=None: torch._safe_softmax(scores, -1),
        MASKED_SOFTMAX.oracle,
        materials.softmax,
    ],
)
def test_other_ready_made_answers_are_refused(shortcut):
    assert re.search("does the whole task|belongs to the course", failure(check_masked_softmax, shortcut))


# --- Wrong answers that have no name of their own fail all the same. ---


def renormalised_after_the_softmax(scores, mask=None):
    weights = scores.softmax(dim=-1) * (1 if mask is None else mask)
    total = weights.sum(dim=-1, keepdim=True)
    return weights / total.masked_fill(total == 0, 1.0)


def filled_with_a_number(scores, mask=None):
    if mask is None:
        return scores.softmax(dim=-1)
    return scores.masked_fill(~mask, -1e4).softmax(dim=-1) * mask


def attention(normalise):
    def attend(query, key, value, mask=None):
        weights = normalise(query @ key.mT / key.shape[-1] ** 0.5, mask)
        return weights @ value, weights

    return attend


def softmax(scores, mask=None):
    return MASKED_SOFTMAX.oracle(scores, *([] if mask is None else [mask]))


def clamped(scores, mask=None):
    return softmax(scores.clamp(-5, 5), mask)


def without_one_batch_axis(function):
    """Build a version that does not care for inputs with exactly one batch axis."""

    def version(*inputs):
        result = function(*inputs)
        return result * 0 if inputs[0].ndim == 3 else result

    return version


def without_two_batch_axes(function):
    def version(*inputs):
        result = function(*inputs)
        return result * 0 if inputs[0].ndim == 4 else result

    return version


def with_the_table_in_the_denominator(query, key, value):
    q, k = F.elu(query) + 1, F.elu(key) + 1
    return q @ (k.mT @ value) / (q @ k.mT).sum(dim=-1, keepdim=True)


def linear(query, key, value):
    q, k = F.elu(query) + 1, F.elu(key) + 1
    return q @ (k.mT @ value) / (q @ k.sum(dim=-2).unsqueeze(-1))


def scores(query, key):
    return query @ key.mT / key.shape[-1] ** 0.5


UNNAMED = [
    (MASKED_SOFTMAX, renormalised_after_the_softmax),
    (MASKED_SOFTMAX, filled_with_a_number),
    (MASKED_SOFTMAX, clamped),
    (MASKED_SOFTMAX, without_one_batch_axis(softmax)),
    (MASKED_SOFTMAX, without_two_batch_axes(softmax)),
    (ATTEND, attention(renormalised_after_the_softmax)),
    (ATTEND, attention(filled_with_a_number)),
    (ATTEND, attention(clamped)),
    (SCALED_DOT_SCORES, without_one_batch_axis(scores)),
    (SCALED_DOT_SCORES, without_two_batch_axes(scores)),
    (SCALED_DOT_SCORES, lambda query, key: (query.float() @ key.float().mT) / key.shape[-1] ** 0.5),
    (WEIGHTED_SUM, without_one_batch_axis(torch.matmul)),
    (WEIGHTED_SUM, without_two_batch_axes(torch.matmul)),
    (WEIGHTED_SUM, lambda weights, value: weights.detach() @ value),
    (WEIGHTED_SUM, lambda weights, value: weights.clamp(min=0) @ value),
    (LINEAR_ATTENTION, with_the_table_in_the_denominator),
    (LINEAR_ATTENTION, without_one_batch_axis(linear)),
    (LINEAR_ATTENTION, without_two_batch_axes(linear)),
    (LINEAR_ATTENTION, lambda query, key, value: linear(query, key.detach(), value)),
]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("task", "wrong"), UNNAMED)
def test_a_mistake_that_nobody_listed_fails(task, wrong, seed):
    with pytest.raises(CheckFailed):
        judge(task, wrong, seed=seed, dtype=torch.float32, refuse_shortcuts=False)


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_error_of_a_hundredth_of_a_percent_fails(dtype):
    with pytest.raises(CheckFailed, match="entries of scores are wrong"):
        judge(SCALED_DOT_SCORES, lambda query, key: 1.0001 * scores(query, key), seed=0, dtype=dtype)


def test_weights_are_reported_before_the_context_that_is_made_from_them():
    wrong = attention(lambda scores, mask: scores.clamp(-0.1, 0.1).softmax(dim=-1))
    assert "entries of weights are wrong" in failure(check_attend, wrong)


@pytest.mark.parametrize(
    "strange",
    [
        lambda query, key: scores(query, key).to_sparse(),
        lambda query, key: scores(query, key).to("meta"),
    ],
)
def test_a_strange_kind_of_tensor_is_described(strange):
    assert "should be an ordinary tensor" in failure(check_scaled_dot_scores, strange)


def test_a_function_leaves_no_setting_behind():
    def careless(query, key):
        torch.set_grad_enabled(False)
        torch.set_default_dtype(torch.float64)
        return scores(query, key)

    failure(check_scaled_dot_scores, careless)
    assert torch.is_grad_enabled()
    assert torch.get_default_dtype() == torch.float32


def test_a_guess_from_the_first_stages_says_that_it_is_one():
    def attend(query, key, value, mask=None):
        mask = None if mask is None else ~mask
        return attention(softmax)(query * key.shape[-1] ** 0.5, key, value, mask)

    with pytest.raises(CheckFailed) as caught:
        judge(ATTEND, attend, seed=0, dtype=torch.float32, refuse_shortcuts=False)
    assert "At this stage it looks like this mistake" in str(caught.value)
    assert "[misconception: no-scale]" in str(caught.value)


def test_two_stages_must_agree_before_a_mistake_is_named():
    def attend(query, key, value, mask=None):  # with one query this is the score without a divisor
        return attention(softmax)(query * (key.shape[-1] / query.shape[-2]) ** 0.5, key, value, mask)

    with pytest.raises(CheckFailed) as caught:
        judge(ATTEND, attend, seed=0, dtype=torch.float32, refuse_shortcuts=False)
    assert "misconception" not in str(caught.value)


def test_a_lost_gradient_is_named():
    def scores(query, key):
        return (query @ key.mT / math.sqrt(query.shape[-1])).detach()

    assert 'stage "gradient":\nno gradient flows' in failure(check_scaled_dot_scores, scores)


def test_a_gradient_lost_on_one_side_only_fails():
    def scores(query, key):
        return query @ key.detach().mT / math.sqrt(query.shape[-1])

    assert "no gradient reaches key" in failure(check_scaled_dot_scores, scores)


def test_a_backward_pass_that_fails_is_described():
    def softmax(scores, mask=None):
        weights = scores.softmax(dim=-1)
        if mask is not None:
            weights = scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)
            weights[..., ~mask.any(dim=-1), :] = 0
        return weights

    text = failure(check_masked_softmax, softmax)
    assert 'stage "gradient":\nthe backward pass raised an error' in text
    assert "inplace operation" in text


def test_a_changed_dtype_is_named():
    def scores(query, key):
        return (query @ key.mT / math.sqrt(query.shape[-1])).double()

    text = failure(check_scaled_dot_scores, scores)
    assert "expected torch.float32" in text
    assert "got      torch.float64" in text


def test_numbers_that_depend_on_a_constant_of_the_visible_case_fail():
    def scores(query, key):
        return query @ key.mT / math.sqrt(width)

    seen = []
    check = check_scaled_dot_scores
    failure(check, lambda query, key: seen.append(query.shape[-1]))
    width = seen[0]
    check(scores)
    other = next(
        s
        for s in range(1, 20)
        if next(iter(SCALED_DOT_SCORES.cases(torch.Generator().manual_seed(s), torch.float32)))
        .inputs["query"]
        .shape[-1]
        != width
    )
    assert "wrong" in failure(check, scores, seed=other)


# --- What a learner reads. ---


def test_the_first_wrong_entry_is_shown_with_both_values():
    def scores(query, key):
        result = query @ key.mT / math.sqrt(query.shape[-1])
        return (
            result + torch.nn.functional.one_hot(torch.tensor(2), key.shape[-2])
            if key.shape[-2] > 2
            else result
        )

    text = failure(check_scaled_dot_scores, scores)
    first = next(
        c
        for c in SCALED_DOT_SCORES.cases(torch.Generator().manual_seed(0), torch.float32)
        if c.stage == "one query"
    )
    expected = (first.inputs["query"][0] * first.inputs["key"][2]).sum().item() / math.sqrt(
        first.inputs["query"].shape[-1]
    )
    assert 'stage "one query":\n1 of' in text
    assert "[query 0, key 2]" in text
    shown = [float(v) for v in re.findall(r"(?:expected|got) +(-?[\d.e-]+)", text)]
    assert shown == pytest.approx([expected, expected + 1], rel=1e-3)
    assert "misconception" not in text


def test_a_stub_is_told_to_be_written():
    def attend(query, key, value, mask=None):
        raise NotImplementedError

    assert "attend is not written yet" in failure(check_attend, attend)


def test_a_stub_that_is_called_by_another_function_is_named():
    def masked_softmax(scores):
        raise NotImplementedError

    def attend(query, key, value, mask=None):
        return masked_softmax(query @ key.mT), None

    assert "masked_softmax is not written yet" in failure(check_attend, attend)


def test_an_interrupt_says_where_the_function_was(capsys):
    def scores(query, key):
        raise KeyboardInterrupt

    text = failure(check_scaled_dot_scores, scores)
    assert 'stage "shape":\nyour function was interrupted while it ran.' in text
    assert "in scores" in text and "raise KeyboardInterrupt" in text


def test_an_exception_shows_the_line_of_the_learner():
    def scores(query, key):
        return query @ key

    text = failure(check_scaled_dot_scores, scores)
    assert "your function raised RuntimeError" in text
    assert "return query @ key" in text


def test_a_function_that_ends_python_is_caught():
    def scores(query, key):
        raise SystemExit(0)

    assert "your function raised SystemExit" in failure(check_scaled_dot_scores, scores)


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (None, "None (is there a `return`?)"),
        (torch.zeros(2, 3), "one tensor of shape (2, 3)"),
        ((torch.zeros(2),), "a tuple of 1"),
        (1.5, "1.5, of type float"),
    ],
)
def test_a_result_of_the_wrong_kind_is_described(result, words):
    text = failure(check_attend, lambda query, key, value, mask=None: result)
    assert "it should return (context, weights)" in text
    assert words in text


def test_something_that_is_no_function_is_described():
    assert "should be a function, but is 3, of type int" in failure(check_attend, 3)


def test_what_the_function_prints_is_captured_and_shown_once(capsys):
    def scores(query, key):
        print("looking")
        warnings.warn("careful", stacklevel=2)
        return query @ key.mT

    text = failure(check_scaled_dot_scores, scores)
    assert text.count("looking") == 1
    assert "careful" in text
    assert capsys.readouterr() == ("", "")


def test_a_pass_says_which_stages_there_were_and_writes_no_error_output(capsys):
    def scores(query, key):
        warnings.warn("careful", stacklevel=2)
        return query @ key.mT / math.sqrt(query.shape[-1])

    check_scaled_dot_scores(scores)
    out, err = capsys.readouterr()
    for case in SCALED_DOT_SCORES.cases(torch.Generator(), torch.float32):
        assert case.stage in out
    assert "careful" in out
    assert err == ""


def test_two_mistakes_at_once_are_told_one_after_the_other():
    def attend(query, key, value, mask=None):
        scores = query @ key.mT
        weights = (scores if mask is None else scores.masked_fill(mask, -torch.inf)).softmax(-1)
        return weights @ value, weights

    assert "[misconception: no-scale]" in failure(check_attend, attend)


def test_in_jupyter_only_the_verdict_is_shown():
    assert CheckFailed("why")._render_traceback_() == ["CheckFailed: why"]


def test_a_check_leaves_random_numbers_and_profilers_alone():
    state = torch.get_rng_state()
    check_weighted_sum(torch.matmul)
    assert torch.equal(torch.get_rng_state(), state)
