"""Running a learner's function under observation: what it returns, changes, prints, raises, and calls."""

import contextlib
import io
import linecache
import sys
import traceback
import warnings
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.overrides import TorchFunctionMode

NOT_THEIRS = (str(Path(torch.__file__).parent), str(Path(__file__).parent))


@dataclass(frozen=True)
class Case:
    """One call of the function: its stage in the check, and its inputs in the order of the parameters."""

    stage: str
    inputs: dict[str, Tensor]
    shape_only: bool = False
    gradient: bool = False
    budget: int | None = None  # judge the cost alone: how many numbers may be kept on the way


@dataclass
class Outcome:
    """All that can be seen of one call."""

    values: dict[str, Tensor] = field(default_factory=dict)
    gradients: dict[str, Tensor] = field(default_factory=dict)
    problem: str | None = None  # the call failed, or returned something that is no answer
    where: str = ""  # the line on which it failed
    stopped: bool = False  # by an interrupt
    changed: tuple[str, ...] = ()
    shortcut: str | None = None
    printed: str = ""


def observe(fn: Callable, case: Case, outputs: Collection[str], shortcuts: frozenset[str]) -> Outcome:
    """Calls a function on copies of a case's inputs and notes all that can be seen of it.

    Args:
        fn: the function.
        case: its inputs, and what to look at.
        outputs: names of the outputs that it should return.
        shortcuts: names of functions of PyTorch that are noted when they are called.
    """
    outcome = Outcome()
    inputs = {name: value.clone() for name, value in case.inputs.items()}
    if case.gradient or case.budget:
        for value in inputs.values():
            value.requires_grad_(value.is_floating_point())
    # A leaf that wants a gradient refuses in-place changes; a clone lets them happen, and shows them.
    given = {name: value.clone() for name, value in inputs.items()}
    default = torch.get_default_dtype()
    watch, output = _Watch(shortcuts, case.budget), io.StringIO()
    budget = _Budget(case.budget) if case.budget else contextlib.nullcontext()
    with (
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(output),
        warnings.catch_warnings(record=True) as warned,
    ):
        warnings.simplefilter("always")
        try:
            with torch.enable_grad(), watch, budget:
                result = fn(*given.values())
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            outcome.problem, outcome.where = _failure(error, case)
            outcome.stopped = isinstance(error, KeyboardInterrupt)
            result = None
    torch.set_default_dtype(default)
    outcome.shortcut = watch.found
    warned = (f"{warning.category.__name__}: {warning.message}" for warning in warned)
    outcome.printed = "\n".join([output.getvalue(), *warned])
    if outcome.problem is None:
        outcome.values, outcome.problem = _outputs(outputs, result)
    if outcome.problem is None:
        outcome.changed = tuple(n for n in given if not torch.equal(given[n], case.inputs[n]))
        if case.gradient and not outcome.changed:
            outcome.gradients, outcome.problem = _gradients(outcome.values, inputs)
    return outcome


def _outputs(names: Collection[str], result: object) -> tuple[dict[str, Tensor], str | None]:
    """Splits a result into its named outputs, or says why that is impossible."""
    if len(names) == 1:
        result = [result]
    elif not (isinstance(result, tuple | list) and len(result) == len(names)):
        return {}, f"it should return ({', '.join(names)}).\n  got {describe(result)}"
    for name, value in zip(names, result, strict=True):
        if not isinstance(value, Tensor):
            return {}, f"{name} should be a tensor.\n  got {describe(value)}"
        if value.layout != torch.strided or value.is_nested or value.is_meta:
            return {}, f"{name} should be an ordinary tensor, neither sparse, nested nor without values."
    return {name: value.as_subclass(Tensor) for name, value in zip(names, result, strict=True)}, None


def _gradients(values: dict[str, Tensor], inputs: dict[str, Tensor]) -> tuple[dict[str, Tensor], str | None]:
    """Gives the gradient of a fixed mixture of all output entries with respect to each input."""
    if not any(value.requires_grad for value in values.values()):
        return {}, (
            "no gradient flows from the result back to the inputs.\n"
            "  The values left PyTorch by .item(), float(…), .detach(), no_grad, numpy or torch.tensor(…)."
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
    library are recognised by the module that their code belongs to. A budget also limits every result.
    """

    def __init__(self, shortcuts: frozenset[str], budget: int | None) -> None:
        super().__init__()
        self.shortcuts, self.budget, self.found = shortcuts, budget, None

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
            self.found = self.found or f"PyTorch's {name} does the whole task"
        result = function(*args, **(kwargs or {}))
        if self.budget and isinstance(result, Tensor) and result.numel() > self.budget:
            raise _OverBudgetError
        return result

    def _on_call(self, frame, event: str, argument: object) -> None:
        module = frame.f_globals.get("__name__") or ""
        if event != "call" or module == __name__:
            return
        if module.startswith("attncourse."):
            self.found = self.found or f"{module}.{frame.f_code.co_name} belongs to the course's library"
        elif module.startswith("torch.masked."):
            self.found = self.found or f"PyTorch's {module} does the whole task"


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
            raise _OverBudgetError
        return value


def _failure(error: BaseException, case: Case) -> tuple[str, str]:
    """Says what a function raised, and on which of the learner's lines."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(NOT_THEIRS)]
    if isinstance(error, NotImplementedError) and own and own[-1] is frames[-1]:
        return f"{own[-1].name} is not written yet. Replace `raise NotImplementedError()` with your code.", ""
    if isinstance(error, _OverBudgetError):
        shapes = ", ".join(f"{name} {tuple(value.shape)}" for name, value in case.inputs.items())
        return f"it costs too much: it keeps more than {case.budget} numbers on the way, for {shapes}.", ""
    message = next(iter(str(error).splitlines()), "")
    problem = f"your function raised {type(error).__name__}: {message}"
    if isinstance(error, KeyboardInterrupt):
        problem = "your function was interrupted while it ran."
    if not own:
        return problem, ""
    line = linecache.getline(own[-1].filename, own[-1].lineno).strip()
    return problem, f"\n  in {own[-1].name}, line {own[-1].lineno} of its cell: {line}"


def describe(value: object) -> str:
    if isinstance(value, Tensor):
        return f"one tensor of shape {tuple(value.shape)}"
    if value is None:
        return "None (is there a `return`?)"
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)}"
    return f"a value of type {type(value).__name__}"
