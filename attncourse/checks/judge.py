"""What all checks share: run a function on cases, compare with the truth, and say what is wrong and why."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from attncourse.checks.misconceptions import MISCONCEPTIONS, SECTIONS
from attncourse.checks.observe import Case, Outcome, describe, observe

# Largest difference that counts as equal, absolute and relative. Wide enough for any order of summation.
TOLERANCE = {torch.float64: 1e-6, torch.float32: 2e-5, torch.float16: 1e-2, torch.bfloat16: 6e-2}
SIZES = (5, 7, 11, 13)
BATCHES = {"one batch axis": (3,), "two batch axes": (2, 3)}


class CheckFailed(AssertionError):
    """A check's verdict on a function. Its text is all that the learner needs to read."""

    def _render_traceback_(self) -> list[str]:
        """Tells IPython to show the verdict without the stack of the check."""
        return [f"CheckFailed: {self}"]


@dataclass(frozen=True)
class Task:
    """What a function has to do, and what people do instead.

    Attributes:
        name: the function's name.
        outputs: name of each output, with the names of its last axes.
        oracle: the right answer by plain loops, called with float64 inputs.
        cases: ``(generator, dtype) -> cases``, in the order of the stages.
        wrong: pairs of a name in the catalogue and a function that makes this mistake.
        shortcuts: names of PyTorch functions that *are* the answer. Functions of the library always are.
    """

    name: str
    outputs: dict[str, tuple[str, ...]]
    oracle: Callable
    cases: Callable[[torch.Generator, torch.dtype], Iterable[Case]]
    wrong: tuple[tuple[str, Callable], ...]
    shortcuts: frozenset[str] = frozenset()


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
    if not callable(fn):
        raise CheckFailed(f"{task.name} should be a function, but is {describe(fn)}.")
    tried: list[tuple[Case, Outcome]] = []
    failed: list[tuple[Case, Outcome]] = []
    report = ""
    for case in task.cases(torch.Generator().manual_seed(seed), dtype):
        if case.budget and failed:
            continue  # the cost of a wrong answer is of no interest
        outcome = _run(fn, case, task)
        if outcome.shortcut and refuse_shortcuts:
            raise CheckFailed(f"{task.name}: {outcome.shortcut}. Write the function yourself, without it.")
        wanted = Outcome() if case.budget else _run(task.oracle, _in_float64(case), task)
        difference = _difference(task, case, outcome, wanted)
        tried.append((case, outcome))
        if difference:
            failed.append((case, outcome))
            report = report or f'{task.name}, stage "{case.stage}":\n{difference}{outcome.where}'
        if outcome.stopped:
            raise CheckFailed(report)
    printed = _printed([outcome for _, outcome in tried])
    if failed:
        raise CheckFailed(report + _explain(task, tried, failed[:2]) + printed)
    stages = ", ".join(dict.fromkeys(case.stage for case, _ in tried))
    print(f"✓ {task.name}: passed ({stages}).{printed}")


def _explain(task: Task, tried: list[tuple[Case, Outcome]], failed: list[tuple[Case, Outcome]]) -> str:
    """Names the mistake that leads to the same outcomes, in all cases or in the first that failed."""
    for lead, trials in (("", tried), ("At this stage it looks like this mistake: ", failed)):
        names = {
            name
            for name, wrong in task.wrong
            if all(_same(task, case, outcome, _run(wrong, case, task)) for case, outcome in trials)
        }
        if len(names) == 1:
            name = names.pop()
            entry = MISCONCEPTIONS[name]
            text = f"\n\n{lead}{entry.says} [misconception: {name}]\nLook at: {entry.look}."
            if entry.section:
                place = f"book/{entry.section.split('-')[0]}.html#{entry.section}"
                text += f'\nRead: "{SECTIONS[entry.section]}" in the book ({place})'
            return text
    return ""


def _run(fn: Callable, case: Case, task: Task) -> Outcome:
    return observe(fn, case, task.outputs, task.shortcuts)


def _same(task: Task, case: Case, first: Outcome, second: Outcome) -> bool:
    """Says whether two functions did the same, in every respect that a check looks at."""
    if first.problem or second.problem:
        return first.problem == second.problem
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
        if value.dtype != _dtype(case):
            wanted = _dtype(case)
            return (
                f"{name} has the wrong dtype.\n  expected {wanted}, as the inputs\n  got      {value.dtype}"
            )
    if case.shape_only:
        return None
    # Weights before the context that is made from them; gradients last.
    for name in reversed(task.outputs):
        if text := _value_difference(name, got.values[name], want.values[name], task.outputs[name]):
            return text
    if got.changed != want.changed:
        return f"the input {' and '.join(got.changed)} was changed by your function."
    for name, gradient in got.gradients.items():
        if not gradient.any() and want.gradients[name].any():
            return f"no gradient reaches {name}.\n  Was it cut off, by .detach(), .data or torch.no_grad()?"
        if text := _value_difference(f"the gradient of {name}", gradient, want.gradients[name], ()):
            return text
    return None


def _value_difference(name: str, got: Tensor, expected: Tensor, axes: tuple[str, ...]) -> str | None:
    tolerance = TOLERANCE[got.dtype]
    digits = 5 if got.dtype != torch.float64 else 10
    got, expected = got.detach().double(), expected.detach().double()
    close = torch.isclose(got, expected, rtol=tolerance, atol=tolerance, equal_nan=True)
    if close.all():
        return None
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


def _dtype(case: Case) -> torch.dtype:
    return next(value.dtype for value in case.inputs.values() if value.is_floating_point())


def _in_float64(case: Case) -> Case:
    inputs = {n: v.double() if v.is_floating_point() else v for n, v in case.inputs.items()}
    return Case(case.stage, inputs, case.shape_only, case.gradient)


def sizes(generator: torch.Generator, count: int) -> list[int]:
    """Draws a different size for each axis, none as in BATCHES, so that a mix-up of axes shows."""
    order = torch.randperm(len(SIZES), generator=generator)[:count]
    return [SIZES[i] for i in order]
