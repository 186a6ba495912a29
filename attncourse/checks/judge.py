"""What all checks share: run a function on cases, compare with the truth, and say what is wrong and why."""

import contextlib
import io
import linecache
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.overrides import TorchFunctionMode

from attncourse.checks.misconceptions import MISCONCEPTIONS

# Largest difference that counts as equal, absolute and relative. Wide enough for any order of summation.
TOLERANCE = {torch.float64: 1e-8, torch.float32: 2e-5, torch.float16: 1e-2, torch.bfloat16: 6e-2}
SIZES = (5, 7, 11, 13)
BATCH = (2, 3)


class CheckFailed(AssertionError):
    """A check's verdict on a function. Its text is all that the learner needs to read."""

    def _render_traceback_(self) -> list[str]:
        """Tells IPython to show the verdict without the stack of the check."""
        return [f"CheckFailed: {self}"]


@dataclass(frozen=True)
class Case:
    """One call of the function: its stage in the check, and its inputs in the order of the parameters."""

    stage: str
    inputs: dict[str, Tensor]
    shape_only: bool = False
    gradient: bool = False
    budget: int | None = None  # judge the cost alone: how many numbers may be kept on the way


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


@dataclass
class Outcome:
    """All that can be seen of one call."""

    values: dict[str, Tensor] = field(default_factory=dict)
    gradients: dict[str, Tensor] = field(default_factory=dict)
    problem: str | None = None  # the call failed, or returned something that is no answer
    where: str = ""  # the line on which it failed
    changed: tuple[str, ...] = ()
    shortcut: str | None = None
    printed: str = ""


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
        raise CheckFailed(f"{task.name} should be a function, but is {_describe(fn)}.")
    cases = list(task.cases(torch.Generator().manual_seed(seed), dtype))
    seen = [_run(fn, case, task) for case in cases]
    printed = _printed(seen)
    for outcome in seen:
        if outcome.shortcut and refuse_shortcuts:
            raise CheckFailed(
                f"{task.name}: {outcome.shortcut} does the whole task. Write it yourself from smaller pieces."
            )
    for case, outcome in zip(cases, seen, strict=True):
        wanted = Outcome() if case.budget else _run(task.oracle, _in_float64(case), task)
        difference = _difference(task, case, outcome, wanted)
        if difference:
            text = f'{task.name}, stage "{case.stage}":\n{difference}{outcome.where}'
            raise CheckFailed(text + _explain(task, cases, seen, case) + printed)
    stages = ", ".join(dict.fromkeys(case.stage for case in cases))
    print(f"✓ {task.name}: passed ({stages}).{printed}")


def _explain(task: Task, cases: list[Case], seen: list[Outcome], failed: Case) -> str:
    """Names the mistake that leads to the same outcomes: in all cases, or else in the one that failed."""
    for subset in (range(len(cases)), [cases.index(failed)]):
        names = {
            name
            for name, wrong in task.wrong
            if all(_same(task, cases[i], seen[i], _run(wrong, cases[i], task)) for i in subset)
        }
        if len(names) == 1:
            name = names.pop()
            entry = MISCONCEPTIONS[name]
            text = f"\n\n{entry.says} [misconception: {name}]\nLook at: {entry.look}."
            chapter = entry.section.split("-")[0]
            return text + (f"\nRead: book/{chapter}.html#{entry.section}" if chapter else "")
    return ""


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
        if text := _value_difference(f"the gradient of {name}", gradient, want.gradients[name], ()):
            return text
    return None


def _value_difference(name: str, got: Tensor, expected: Tensor, axes: tuple[str, ...]) -> str | None:
    tolerance = TOLERANCE[got.dtype]
    got, expected = got.detach().double(), expected.detach().double()
    close = torch.isclose(got, expected, rtol=tolerance, atol=tolerance, equal_nan=True)
    if close.all():
        return None
    index = (~close).nonzero()[0].tolist()
    unnamed = got.ndim - len(axes)
    place = ", ".join(f"{axes[i - unnamed]} {at}" if i >= unnamed else str(at) for i, at in enumerate(index))
    return (
        f"{int((~close).sum())} of {got.numel()} entries of {name} are wrong. The first is at [{place}]:\n"
        f"  expected {expected[tuple(index)]:.5g}\n  got      {got[tuple(index)]:.5g}"
    )


# --- Running a function under observation. ---


def _run(fn: Callable, case: Case, task: Task) -> Outcome:
    """Calls a function on copies of a case's inputs and notes all that can be seen of it."""
    outcome = Outcome()
    inputs = {name: value.clone() for name, value in case.inputs.items()}
    if case.gradient or case.budget:
        for value in inputs.values():
            value.requires_grad_(value.is_floating_point())
    # A leaf that wants a gradient refuses in-place changes; a clone lets them happen, and shows them.
    given = {name: value.clone() for name, value in inputs.items()}
    watch, output = _Watch(task.shortcuts), io.StringIO()
    budget = _Budget(case.budget) if case.budget else contextlib.nullcontext()
    with (
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(output),
        warnings.catch_warnings(record=True) as warned,
    ):
        warnings.simplefilter("always")
        try:
            with watch, budget:
                result = fn(*given.values())
        except (Exception, SystemExit) as error:
            outcome.problem, outcome.where = _failure(fn, error)
            result = None
    outcome.shortcut = watch.found
    warned = (f"{warning.category.__name__}: {warning.message}" for warning in warned)
    outcome.printed = "\n".join([output.getvalue(), *warned])
    if outcome.problem is None:
        outcome.values, outcome.problem = _outputs(task, result)
    if outcome.problem is None:
        outcome.changed = tuple(n for n in given if not torch.equal(given[n], case.inputs[n]))
        if case.gradient and not outcome.changed:
            outcome.gradients, outcome.problem = _gradients(outcome.values, inputs)
    return outcome


def _outputs(task: Task, result: object) -> tuple[dict[str, Tensor], str | None]:
    """Splits a result into its named outputs, or says why that is impossible."""
    names = list(task.outputs)
    if len(names) == 1:
        result = [result]
    elif not (isinstance(result, tuple | list) and len(result) == len(names)):
        return {}, f"it should return ({', '.join(names)}).\n  got {_describe(result)}"
    for name, value in zip(names, result, strict=True):
        if not isinstance(value, Tensor):
            return {}, f"{name} should be a tensor.\n  got {_describe(value)}"
    return dict(zip(names, result, strict=True)), None


def _gradients(values: dict[str, Tensor], inputs: dict[str, Tensor]) -> tuple[dict[str, Tensor], str | None]:
    """Gives the gradient of a fixed mixture of all output entries with respect to each input."""
    if not any(value.requires_grad for value in values.values()):
        return {}, (
            "no gradient flows from the result back to the inputs.\n"
            "  The values left PyTorch by .item(), float(…), .detach(), .data, numpy or torch.tensor(…)."
        )
    loss = sum(
        (value.double().flatten() * torch.arange(value.numel(), dtype=torch.float64).cos()).sum()
        for value in values.values()
    )
    leaves = {name: value for name, value in inputs.items() if value.requires_grad}
    try:
        gradients = torch.autograd.grad(
            loss, list(leaves.values()), allow_unused=True, materialize_grads=True
        )
    except RuntimeError as error:
        return {}, f"the backward pass raised an error.\n  {error}"
    return dict(zip(leaves, gradients, strict=True)), None


class _Watch(TorchFunctionMode):
    """Notices calls of functions that are the answer, however they are spelled.

    PyTorch's functions pass the function mode under their own name, whatever alias was used. Functions of the
    library are recognised by the module that their code belongs to.
    """

    def __init__(self, shortcuts: frozenset[str]) -> None:
        super().__init__()
        self.shortcuts, self.found = shortcuts, None

    def __enter__(self) -> "_Watch":
        self.profile = sys.getprofile()
        sys.setprofile(self._on_call)
        return super().__enter__()

    def __exit__(self, *exception: object) -> None:
        sys.setprofile(self.profile)
        super().__exit__(*exception)

    def __torch_function__(self, function, types, args=(), kwargs=None):
        name = getattr(function, "__name__", "").split(".")[0]
        if name in self.shortcuts:
            self.found = self.found or name
        return function(*args, **(kwargs or {}))

    def _on_call(self, frame, event: str, argument: object) -> None:
        module = frame.f_globals.get("__name__") or ""
        if (
            event == "call"
            and module.startswith("attncourse.")
            and not module.startswith("attncourse.checks")
        ):
            self.found = self.found or f"{module}.{frame.f_code.co_name}"


class _OverBudgetError(Exception):
    """Stops a function that needs too much."""


class _Budget(saved_tensors_hooks):
    """Counts the numbers that a function keeps for the backward pass, and stops it at a limit.

    They include each matrix that is a factor of a later product, also inside einsum, and each step of a loop.
    """

    def __init__(self, limit: int) -> None:
        super().__init__(self._keep, lambda value: value)
        self.limit, self.count = limit, 0

    def _keep(self, value: Tensor) -> Tensor:
        self.count += value.numel()
        if self.count > self.limit:
            raise _OverBudgetError(f"it keeps more than {self.limit} numbers on the way to the result")
        return value


# --- Words. ---


def _failure(fn: Callable, error: BaseException) -> tuple[str, str]:
    """Says what a function raised, and on which of its lines."""
    if isinstance(error, NotImplementedError):
        return "not written yet. Replace `raise NotImplementedError()` with your code.", ""
    if isinstance(error, _OverBudgetError):
        return f"it costs too much: {error}.", ""
    message = next(iter(str(error).splitlines()), "")
    problem = f"your function raised {type(error).__name__}: {message}"
    own = getattr(getattr(fn, "__code__", None), "co_filename", None)
    lines = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == own]
    if not lines:
        return problem, ""
    number = lines[-1].lineno
    return (
        problem,
        f"\n  in {lines[-1].name}, line {number} of its cell: {linecache.getline(own, number).strip()}",
    )


def _describe(value: object) -> str:
    if isinstance(value, Tensor):
        return f"one tensor of shape {tuple(value.shape)}"
    if value is None:
        return "None (is there a `return`?)"
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)}"
    return f"a value of type {type(value).__name__}"


def _shape(expected: Tensor, axes: tuple[str, ...]) -> str:
    named = ["…"] * (expected.ndim - len(axes)) + list(axes)
    return f"{tuple(expected.shape)}" + (f", that is ({', '.join(named)})" if axes else "")


def _printed(seen: list[Outcome]) -> str:
    text = "\n".join(dict.fromkeys(line for o in seen for line in o.printed.splitlines() if line.strip()))
    return f"\n\nYour code printed:\n{text[:1000]}" if text else ""


def _dtype(case: Case) -> torch.dtype:
    return next(value.dtype for value in case.inputs.values() if value.is_floating_point())


def _in_float64(case: Case) -> Case:
    inputs = {n: v.double() if v.is_floating_point() else v for n, v in case.inputs.items()}
    return Case(case.stage, inputs, case.shape_only, case.gradient)


# --- Inputs. ---


def sizes(generator: torch.Generator, count: int) -> list[int]:
    """Draws a different size for each of this many axes, none in BATCH, so that a mix-up of axes shows."""
    order = torch.randperm(len(SIZES), generator=generator)[:count]
    return [SIZES[i] for i in order]
