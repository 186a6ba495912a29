"""What all checks share: run a function on cases, compare with the truth, and say what is wrong and why."""

import ast
import functools
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from attncourse.checks.misconceptions import MISCONCEPTIONS, SECTIONS
from attncourse.checks.observe import NUMBER, TRUTH, Case, Outcome, describe, observe

# Largest difference that counts as equal, absolute and relative. Wide enough for any order of summation.
TOLERANCE = {torch.float64: 1e-6, torch.float32: 2e-5, torch.float16: 1e-2, torch.bfloat16: 6e-2}

# What `points_so_far` knows: whether each function passed its check when it was last called.
VERDICTS: dict[str, bool] = {}


class CheckFailed(AssertionError):
    """A check's verdict on a function. Its text is all that the learner needs to read."""

    def _render_traceback_(self) -> list[str]:
        """Tells IPython to show the verdict without the stack of the check."""
        return [f"CheckFailed: {self}"]


@dataclass(frozen=True, eq=False)
class Task:
    """What a function has to do, and what people do instead.

    Attributes:
        name: the function's name.
        outputs: name of each output, with the names of its last axes; or NUMBER or TRUTH in place of them.
        oracle: the right answer by plain loops, called with float64 inputs.
        cases: ``(generator, dtype) -> cases``, in the order of the stages.
        wrong: pairs of a name in the catalogue and a function that makes this mistake.
        shortcuts: names of PyTorch functions that *are* the answer. Functions of the library are, too,
        builds_on: except those of these modules, such as ``{"masks", "qkv"}``.
    """

    name: str
    outputs: dict[str, tuple[str, ...] | str]
    oracle: Callable
    cases: Callable[[torch.Generator, torch.dtype], Iterable[Case]]
    wrong: tuple[tuple[str, Callable], ...]
    shortcuts: frozenset[str] = frozenset()
    builds_on: frozenset[str] = frozenset()


def checking(task: Task) -> Callable:
    """Makes the check of a task: ``check(fn, *, seed=0, dtype=torch.float32)``."""

    def check(fn: Callable, *, seed: int = 0, dtype: torch.dtype = torch.float32) -> None:
        judge(task, fn, seed=seed, dtype=dtype)

    check.__name__ = check.__qualname__ = f"check_{task.name}"
    check.__doc__ = f"""Checks the function `{task.name}`, and prints a line if it is right.

    Args:
        fn: the function to judge.
        seed: chooses sizes and values of the inputs.
        dtype: of the inputs.

    Raises:
        CheckFailed: if the function is wrong; the text says where and, for a known mistake, why.
    """
    return check


def judge(task: Task, fn: Callable, *, seed: int, dtype: torch.dtype, refuse_shortcuts: bool = True) -> None:
    """Checks a function stage by stage, and prints a line if it passes.

    Args:
        task: what the function has to do.
        fn: the function to judge.
        seed: chooses sizes and values of the inputs.
        dtype: of the inputs.
        refuse_shortcuts: False only to judge the library itself.

    Raises:
        CheckFailed: if the function is wrong, saying at which stage, where, and if possible why.
    """
    VERDICTS[task.name] = False
    if not callable(fn):
        raise CheckFailed(f"{task.name} should be a function, but is {describe(fn)}.")
    if _is_out_of_date(task.name):
        raise CheckFailed(
            f"{task.name}: Python could not read its cell when you last ran it, and kept the old function.\n"
            "Mend what the error under that cell says, run the cell, and then run this check."
        )
    tried: list[tuple[_Trial, Outcome]] = []
    failed: list[tuple[_Trial, Outcome]] = []
    report = ""
    for trial in _trials(task, seed, dtype):
        case = trial.case
        if case.budget and failed:
            continue  # the cost of a wrong answer is of no interest
        outcome = observe(fn, case, task.outputs, task.shortcuts, task.builds_on, watched=True)
        if outcome.shortcut and refuse_shortcuts:
            raise CheckFailed(f"{task.name}: {outcome.shortcut}. Write the function yourself, without it.")
        difference = _difference(task, case, outcome, trial.wanted)
        tried.append((trial, outcome))
        if difference:
            failed.append((trial, outcome))
            report = report or f'{task.name}, stage "{case.stage}":\n{difference}{outcome.where}'
            report += f"\n  {case.note}" if case.note and len(failed) == 1 else ""
        if outcome.stopped:
            raise CheckFailed(report)
    printed = _printed([outcome for _, outcome in tried])
    if failed:
        raise CheckFailed(report + _explain(task, tried, failed[:2]) + printed)
    VERDICTS[task.name] = True
    stages = ", ".join(dict.fromkeys(trial.case.stage for trial, _ in tried))
    print(f"✓ {task.name}: passed ({stages}).{printed}")


def _is_out_of_date(name: str) -> bool:
    """Says whether the last cell that defines a function has a syntax error: an older version is left."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    for text in reversed(shell.user_ns.get("In", []) if shell else []):
        if re.search(rf"^def {name}\(", text, re.MULTILINE):
            try:
                ast.parse(shell.transform_cell(text))
            except SyntaxError:
                return True
            return False
    return False


class _Trial:
    """A case, with the outcomes that the judge itself makes of it. Each is made once, when it is needed."""

    def __init__(self, task: Task, case: Case) -> None:
        self.task, self.case = task, case
        self.of_mistakes: dict[int, Outcome] = {}

    @functools.cached_property
    def wanted(self) -> Outcome:
        if self.case.budget:
            return Outcome()
        return observe(self.task.oracle, self.case.in_float64(), self.task.outputs)

    def looks_like(self, outcome: Outcome, number: int) -> bool:
        """Says whether an outcome is that of the wrong version with this number."""
        if number not in self.of_mistakes:
            self.of_mistakes[number] = observe(self.task.wrong[number][1], self.case, self.task.outputs)
        return _same(self.task, self.case, outcome, self.of_mistakes[number])


@functools.lru_cache(maxsize=32)
def _trials(task: Task, seed: int, dtype: torch.dtype) -> list[_Trial]:
    return [_Trial(task, case) for case in task.cases(torch.Generator().manual_seed(seed), dtype)]


def _explain(task: Task, tried: list[tuple[_Trial, Outcome]], failed: list[tuple[_Trial, Outcome]]) -> str:
    """Names the mistake with the same outcomes, in all cases, or up to the second one that failed."""
    # A mistake that would have shown at an earlier stage is not made here.
    until = tried[: tried.index(failed[-1]) + 1]
    for lead, trials in (("", tried), ("At this stage it looks like this mistake: ", until)):
        names = {
            name
            for number, (name, _) in enumerate(task.wrong)
            if all(trial.looks_like(outcome, number) for trial, outcome in trials)
        }
        if len(names) == 1:
            name = names.pop()
            entry = MISCONCEPTIONS[name]
            text = f"\n\n{lead}{entry.says} [misconception: {name}]\nLook at: {entry.look}."
            if entry.section in SECTIONS:
                place = f"book/{entry.section.split('-')[0]}.html#{entry.section}"
                text += f'\nRead: "{SECTIONS[entry.section]}" in the book ({place})'
            return text
    return ""


def _same(task: Task, case: Case, first: Outcome, second: Outcome) -> bool:
    """Says whether two functions did the same, in every respect that a check looks at."""
    if first.problem or second.problem:
        return (first.error, first.error or first.problem) == (second.error, second.error or second.problem)
    return _difference(task, case, first, second) is None


def _difference(task: Task, case: Case, got: Outcome, want: Outcome) -> str | None:
    """Describes the first respect in which an outcome differs from the wanted one; None if there is none."""
    if got.problem or case.budget:
        return got.problem
    for name, value in got.values.items():
        expected, axes = want.values[name], task.outputs[name]
        if value.shape != expected.shape:
            wanted = _shape(expected, axes)
            return f"{name} has the wrong shape.\n  expected {wanted}\n  got      {tuple(value.shape)}"
        if axes not in (NUMBER, TRUTH) and (text := _dtype_difference(name, value, expected, case)):
            return text
    if case.shape_only:
        return None
    # Weights before the context that is made from them; gradients last.
    for name in reversed(task.outputs):
        values = got.values[name], want.values[name]
        if text := _value_difference(name, *values, task.outputs[name], case.tolerance):
            return text
    if got.changed != want.changed:
        return f"the input {' and '.join(got.changed)} was changed by your function."
    for name, gradient in got.gradients.items():
        values = gradient, want.gradients[name]
        if text := _value_difference(f"the gradient of {name}", *values, (), case.tolerance):
            cut = f"no gradient reaches {name}.\n  Was it cut off, by .detach(), .data or torch.no_grad()?"
            return text if gradient.any() else cut
    return None


def _dtype_difference(name: str, got: Tensor, expected: Tensor, case: Case) -> str | None:
    """Describes a wrong dtype. The oracle works in float64; integers may have any width."""
    floating = expected.is_floating_point()
    wanted = case.dtype if floating else expected.dtype
    whole = {torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8}
    if got.dtype == wanted or {got.dtype, wanted} <= whole:
        return None
    why = ", as the inputs" if floating and case.tensors else ""
    return f"{name} has the wrong dtype.\n  expected {wanted}{why}\n  got      {got.dtype}"


def _value_difference(
    name: str, got: Tensor, expected: Tensor, axes: tuple[str, ...] | str, tolerance: float | None
) -> str | None:
    if tolerance is None:
        tolerance = TOLERANCE.get(got.dtype, 0.0)
    digits = 5 if got.dtype not in (torch.float64, torch.int64) else 10
    got, expected = got.detach().double(), expected.detach().double()
    close = torch.isclose(got, expected, rtol=tolerance, atol=tolerance, equal_nan=True)
    if close.all():
        return None
    if axes == TRUTH:
        return f"{name}: should be {bool(expected)}, but is {bool(got)}."
    if not got.ndim:
        return f"{name} is wrong.\n  expected {expected.item():.10g}\n  got      {got.item():.10g}"
    index = (~close).nonzero()[0].tolist()
    unnamed = got.ndim - len(axes)
    place = ", ".join(f"{axes[i - unnamed]} {at}" if i >= unnamed else str(at) for i, at in enumerate(index))
    return (
        f"{int((~close).sum())} of {got.numel()} entries of {name} are wrong. The first is at [{place}]:\n"
        # Adding 0 turns -0 into 0.
        f"  expected {expected[tuple(index)] + 0:.{digits}g}\n  got      {got[tuple(index)] + 0:.{digits}g}"
    )


def _shape(expected: Tensor, axes: tuple[str, ...]) -> str:
    named = ["…"] * (expected.ndim - len(axes)) + list(axes)
    return f"{tuple(expected.shape)}" + (f", that is ({', '.join(named)})" if axes else "")


def _printed(seen: list[Outcome]) -> str:
    text = "\n".join(dict.fromkeys(line for o in seen for line in o.printed.splitlines() if line.strip()))
    text = text if len(text) <= 1000 else text[:1000] + " …"
    return f"\n\nYour code printed:\n{text}" if text else ""
