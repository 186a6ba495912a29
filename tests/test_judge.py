"""The judge on small tasks of its own: kinds of inputs and outputs that the set `qkv` does not have."""

import warnings

import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell
from torch import nn

import attncourse.masks as library
from attncourse.checks.judge import CheckFailed, Task, checking
from attncourse.checks.materials import accepts
from attncourse.checks.observe import NUMBER, TRUTH, Case
from attncourse.checks.summary import points_so_far


def task(cases, oracle, outputs=None, **options):
    outputs = outputs or {"result": ("token",)}
    return Task(
        name="double",
        outputs=outputs,
        oracle=oracle,
        cases=lambda generator, dtype: cases,
        wrong=(),
        **options,
    )


def failure(a_task, function):
    with pytest.raises(CheckFailed) as caught:
        checking(a_task)(function)
    return str(caught.value)


COUNT = task([Case("a count", {"n": 3})], lambda n: 2 * n, {"count": NUMBER})


@pytest.mark.parametrize("right", [lambda n: 6, lambda n: 6.0, lambda n: torch.tensor(6)])
def test_a_number_may_be_of_any_kind(right):
    checking(COUNT)(right)


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (7, "count is wrong.\n  expected 6\n  got      7"),
        (True, "count should be a number.\n  got True, of type bool"),
        ("6", "count should be a number.\n  got a value of type str"),
        (torch.tensor([6]), "count should be a number.\n  got one tensor of shape (1,)"),
        (None, "count should be a number.\n  got None (is there a `return`?)"),
    ],
)
def test_a_wrong_number_is_described(result, words):
    assert words in failure(COUNT, lambda n: result)


MASK = task([Case("a mask", {"length": 3})], lambda n: torch.ones(n, dtype=torch.bool))
TOKENS = task([Case("tokens", {"tokens": torch.tensor([4, 5])})], lambda tokens: tokens + 1)


def test_outputs_that_are_no_floating_point_numbers_are_compared_exactly():
    checking(MASK)(lambda n: torch.full((n,), True))
    assert "expected torch.bool\n  got      torch.float32" in failure(MASK, lambda n: torch.ones(n))
    checking(TOKENS)(lambda tokens: (tokens + 1).to(torch.int32))
    assert "expected 5\n  got      6" in failure(TOKENS, lambda tokens: tokens + 2)


def good(x):
    return 2 * x


def bad(x):
    return 3 * x


TEST = task(
    [
        Case("a good layer", {"layer": good}, call=accepts),
        Case("a bad layer", {"layer": bad}, call=accepts, note="This layer triples."),
    ],
    lambda layer: None,
    {"verdict": TRUTH},
)


def careful(layer):
    assert layer(2.0) == 4.0


def test_a_test_that_a_learner_writes_is_judged_by_what_it_catches():
    def oracle(layer):
        assert layer(1.0) == 2.0

    a_task = Task(**{**vars(TEST), "oracle": oracle})
    checking(a_task)(careful)
    text = failure(a_task, lambda layer: layer(2.0) == 4.0)
    assert 'stage "a bad layer":\nverdict: should be False, but is True.' in text
    assert text.count("This layer triples.") == 1


def test_lent_functions_look_the_same_and_are_not_held_against_the_learner():
    seen = []

    def uses_the_library(x):
        return library.causal_mask(3).float() @ torch.softmax(x, dim=0)

    x = torch.randn(3)
    cases = [Case("a lent function", {"x": x, "step": uses_the_library})]
    a_task = task(cases, lambda x, step: step(x.float()).double(), shortcuts=frozenset({"softmax"}))
    checking(a_task)(lambda x, step: (seen.append(step), step(x))[1])
    assert seen[0].__name__ == "lent" and not hasattr(seen[0], "__wrapped__")
    assert "PyTorch's softmax" in failure(a_task, lambda x, step: step(x) + 0 * x.softmax(0))
    assert "causal_mask belongs to the course's library" in failure(
        a_task, lambda x, step: step(x) + 0 * library.causal_mask(3).float()
    )


def test_only_the_learners_own_warnings_are_shown(capsys):
    def warns(x):
        warnings.warn("of the lent function", stacklevel=2)
        return 2 * x

    def learner(x, step):
        warnings.warn("of the learner", stacklevel=2)
        return step(x)

    for call in (None, lambda fn, x, step: fn(x, step)):
        checking(task([Case("one", {"x": torch.ones(2), "step": warns}, call=call)], lambda x, step: 2 * x))(
            learner
        )
        out = capsys.readouterr().out
        assert "UserWarning: of the learner" in out and "lent" not in out


def test_modules_of_the_library_that_a_task_builds_on_may_be_used():
    cases = [Case("a mask", {"length": 3})]
    outputs = {"mask": ("query", "key")}
    for builds_on in (frozenset(), frozenset({"masks"})):
        a_task = task(cases, lambda n: torch.ones(n, n).tril().bool(), outputs, builds_on=builds_on)
        if builds_on:
            checking(a_task)(library.causal_mask)
        else:
            assert "belongs to the course's library" in failure(a_task, library.causal_mask)


def test_an_input_that_is_a_module_or_a_list_reaches_the_learner_as_a_copy():
    layer, weights = nn.Linear(3, 2), [torch.ones(2), torch.ones(2)]
    before = layer.weight.detach().clone()

    def destructive(layer, weights):
        result = (layer.weight.sum(-1) + weights[0]).detach()
        with torch.no_grad():
            layer.weight.zero_()
        weights.clear()
        return result

    cases = [Case("a module", {"layer": layer, "weights": weights})]
    a_task = task(cases, lambda layer, weights: (layer.weight.double().sum(-1) + weights[0]).detach())
    assert "the input layer was changed" in failure(a_task, destructive)
    assert torch.equal(layer.weight, before) and len(weights) == 2


def test_a_module_that_is_changed_is_noticed():
    def transposing(layer):
        with torch.no_grad():
            layer.weight.data = layer.weight.data.T
        return layer.weight.T

    a_task = task([Case("a module", {"layer": nn.Linear(3, 2)})], lambda layer: 1 * layer.weight)
    checking(a_task)(lambda layer: 1 * layer.weight)
    assert "the input layer was changed by your function" in failure(a_task, transposing)


def test_a_notebook_that_turned_gradients_off_is_judged_all_the_same():
    a_task = task([Case("gradient", {"x": torch.ones(2)}, gradient=True)], lambda x: 2 * x)
    with torch.no_grad():
        checking(a_task)(lambda x: 2 * x)
    checking(a_task)(lambda x: 2 * x)


def test_the_same_kind_of_error_is_the_same_mistake():
    def odd(length):
        if length % 2:
            raise ValueError("only even lengths")
        return torch.zeros(length)

    cases = [Case("even", {"length": 4}), Case("odd", {"length": 3})]
    a_task = task(cases, lambda n: torch.zeros(n))
    a_task = Task(**{**vars(a_task), "wrong": (("mask-ignored", odd),)})

    def also_odd(length):
        return torch.zeros(length) if length % 2 == 0 else int("x")

    def odd_by_another_error(length):
        return torch.zeros(length) if length % 2 == 0 else [][0]

    assert "[misconception: mask-ignored]" in failure(a_task, also_odd)
    assert "misconception" not in failure(a_task, odd_by_another_error)


def test_a_trial_may_have_its_own_tolerance():
    for tolerance in (None, 0.1):
        cases = [Case("about", {"x": torch.ones(2)}, tolerance=tolerance)]
        a_task = task(cases, lambda x: 2 * x)
        if tolerance:
            checking(a_task)(lambda x: 2.05 * x)
            failure(a_task, lambda x: 2.5 * x)
        else:
            failure(a_task, lambda x: 2.05 * x)


def test_the_summary_counts_what_has_passed(capsys):
    a_task = task([Case("tokens", {"x": torch.ones(2)})], lambda x: 2 * x)
    points_so_far(never_run=3, double=2)
    assert "never_run  0 of 3  its check has not run yet" in capsys.readouterr().out
    for function, text, total in (
        (good, "double     2 of 2  ✓", 2),
        (bad, "double     0 of 2  not yet right", 0),
    ):
        try:
            checking(a_task)(function)
        except CheckFailed:
            assert function is bad
        points_so_far(never_run=3, double=2)
        out = capsys.readouterr().out
        assert text in out
        assert f"\n{total} of 5 points" in out


def test_a_function_that_is_older_than_a_syntax_error_is_not_judged(capsys):
    shell = InteractiveShell.instance()
    shell.user_ns["check"] = checking(task([Case("tokens", {"x": torch.ones(2)})], lambda x: 2 * x))
    try:
        for text, words in (
            ("def double(x):\n    return x + x", "✓ double: passed"),
            ("def double(x):\n    return x +", "Python could not read its cell when you last ran it"),
            ("%time 3", "Python could not read its cell"),
            ("def double(x):\n    return 2 * x", "✓ double: passed"),
        ):
            shell.run_cell(text, store_history=True)
            capsys.readouterr()
            shell.run_cell("check(double)", store_history=True)
            assert words in capsys.readouterr().out
    finally:
        InteractiveShell.clear_instance()
