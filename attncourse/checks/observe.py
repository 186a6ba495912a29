"""Running a learner's function under observation: what it returns, changes, prints, raises, and calls."""

import contextlib
import copy
import dataclasses
import io
import linecache
import sys
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.overrides import TorchFunctionMode

NOT_THEIRS = (str(Path(torch.__file__).parent), str(Path(__file__).parent))


# Kinds of outputs that are no tensors; other outputs are described by the names of their last axes.
NUMBER, TRUTH = "a number", "True or False"


@dataclass(frozen=True)
class Case:
    """One trial of the function.

    Attributes:
        stage: its stage in the check.
        inputs: what the function is called with, in the order of its parameters: tensors, numbers, functions,
            modules, or lists, tuples and dicts of them.
        shape_only: compare shapes and dtypes, and no values.
        gradient: compare the gradients of the outputs with respect to the inputs, too.
        budget: judge the cost alone: how many numbers may be kept on the way.
        call: ``(fn, *inputs) -> outputs``, where a plain call of the function would say too little.
        tolerance: largest difference that counts as equal, if not that of the dtype.
        note: what the learner should know about this trial if it fails.
    """

    stage: str
    inputs: dict[str, object]
    shape_only: bool = False
    gradient: bool = False
    budget: int | None = None
    call: Callable | None = None
    tolerance: float | None = None
    note: str = ""

    @property
    def tensors(self) -> dict[str, Tensor]:
        return {name: value for name, value in self.inputs.items() if isinstance(value, Tensor)}

    @property
    def dtype(self) -> torch.dtype:
        """The dtype that outputs should have: that of the first input with a floating-point dtype."""
        modules = (x for x in self.inputs.values() if isinstance(x, nn.Module))
        parameters = (parameter for module in modules for parameter in module.parameters())
        floats = (x.dtype for x in (*self.tensors.values(), *parameters) if x.is_floating_point())
        return next(floats, torch.float32)

    def in_float64(self) -> "Case":
        """Gives the same trial with inputs for an oracle."""
        inputs = {name: _convert(value, _to_float64) for name, value in self.inputs.items()}
        return dataclasses.replace(self, inputs=inputs)


@dataclass
class Outcome:
    """All that can be seen of one call."""

    values: dict[str, Tensor] = field(default_factory=dict)
    gradients: dict[str, Tensor] = field(default_factory=dict)
    problem: str | None = None  # the call failed, or returned something that is no answer
    error: str = ""  # the kind of error that the call raised
    where: str = ""  # the line on which it failed
    stopped: bool = False  # by an interrupt
    changed: tuple[str, ...] = ()
    shortcut: str | None = None
    printed: str = ""


@torch.enable_grad()  # whatever the learner's notebook has set
def observe(
    fn: Callable,
    case: Case,
    outputs: dict[str, tuple[str, ...] | str],
    shortcuts: frozenset[str] = frozenset(),
    builds_on: frozenset[str] = frozenset(),
    *,
    watched: bool = False,
) -> Outcome:
    """Calls a function on copies of a case's inputs and notes all that can be seen of it.

    Args:
        fn: the function.
        case: its inputs, and what to look at.
        outputs: names and kinds of the outputs that it should return.
        shortcuts: names of functions of PyTorch that are noted when they are called.
        builds_on: modules of the library that it may use; others are noted.
        watched: whether to note them at all, which takes time.
    """
    outcome = Outcome()
    watch, output = _Watch(shortcuts, builds_on, case.budget, watched), io.StringIO()
    inputs = {name: value.clone() for name, value in case.tensors.items()}
    if case.gradient or case.budget:
        for value in inputs.values():
            value.requires_grad_(value.is_floating_point())
    # A leaf that wants a gradient refuses in-place changes; a clone lets them happen, and shows them.
    copies = {name: value.clone() for name, value in inputs.items()}
    given = [copies.get(name, _convert(value, watch.lend)) for name, value in case.inputs.items()]
    default = torch.get_default_dtype()
    budget = _Budget(case.budget) if case.budget else contextlib.nullcontext()
    with (
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(output),
        warnings.catch_warnings(record=True) as warned,
        torch.random.fork_rng(devices=[]),
    ):
        warnings.simplefilter("always")
        torch.manual_seed(0)  # so that the verdict on a function that draws numbers is always the same
        try:
            with watch, budget:
                result = watch.apart(case.call)(watch.again(fn), *given) if case.call else fn(*given)
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            outcome.problem, outcome.where = _failure(error, case)
            outcome.error = type(error).__name__
            outcome.stopped = isinstance(error, KeyboardInterrupt)
            result = None
    torch.set_default_dtype(default)
    outcome.shortcut = watch.found
    warned = (f"{warning.category.__name__}: {warning.message}" for warning in warned)
    outcome.printed = "\n".join([output.getvalue(), *warned])
    if outcome.problem is None:
        outcome.values, outcome.problem = _outputs(outputs, result)
    if outcome.problem is None:
        outcome.changed = tuple(
            name
            for name, before, after in zip(case.inputs, case.inputs.values(), given, strict=True)
            if not (case.call and isinstance(before, nn.Module)) and _state(before) != _state(after)
        )
        if case.gradient and not outcome.changed:
            outcome.gradients, outcome.problem = _gradients(outcome.values, inputs)
    return outcome


def _state(value: object) -> list[tuple[str, object]]:
    """Gives what a function could change of an input, in a form that can be compared."""
    tensors = value.state_dict() if isinstance(value, nn.Module) else {"": value}
    return [(name, x.tolist(), x.dtype) for name, x in tensors.items() if isinstance(x, Tensor)]


def _convert(value: object, convert: Callable[[object], object]) -> object:
    """Applies a function to an input, or to each entry of a list, tuple or dict of inputs."""
    if isinstance(value, list | tuple):
        return type(value)(_convert(entry, convert) for entry in value)
    if isinstance(value, dict):
        return {name: _convert(entry, convert) for name, entry in value.items()}
    return convert(value)


def _to_float64(value: object) -> object:
    if isinstance(value, nn.Module):
        return copy.deepcopy(value).double()
    return value.double() if isinstance(value, Tensor) and value.is_floating_point() else value


def _outputs(kinds: dict[str, tuple[str, ...] | str], result: object) -> tuple[dict[str, Tensor], str | None]:
    """Splits a result into its named outputs, or says why that is impossible. A number becomes a tensor."""
    if len(kinds) == 1:
        result = [result]
    elif not (isinstance(result, tuple | list) and len(result) == len(kinds)):
        return {}, f"it should return ({', '.join(kinds)}).\n  got {describe(result)}"
    values = {}
    for (name, kind), value in zip(kinds.items(), result, strict=True):
        if kind in (NUMBER, TRUTH):
            number = value.item() if getattr(value, "ndim", None) == 0 else value  # of PyTorch or NumPy
            if not isinstance(number, bool if kind == TRUTH else int | float) or (
                isinstance(number, bool) and kind == NUMBER
            ):
                return {}, f"{name} should be {kind}.\n  got {describe(value)}"
            values[name] = torch.tensor(number, dtype=torch.float64)
            continue
        if not isinstance(value, Tensor):
            return {}, f"{name} should be a tensor.\n  got {describe(value)}"
        if value.layout != torch.strided or value.is_nested or value.is_meta:
            return {}, f"{name} should be an ordinary tensor, neither sparse, nested nor without values."
        values[name] = value.as_subclass(Tensor)
    return values, None


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
    What is done by a function that the learner was given is not the learner's doing.
    """

    def __init__(
        self, shortcuts: frozenset[str], builds_on: frozenset[str], budget: int | None, watched: bool
    ) -> None:
        super().__init__()
        self.shortcuts, self.budget, self.watched, self.found = shortcuts, budget, watched, None
        self.allowed = {f"attncourse.{name}" for name in builds_on | {"validation"}} if builds_on else set()
        self.away = False  # inside a function that is not the learner's

    def lend(self, value: object) -> object:
        """Gives the learner an input: a function that is not watched, or a copy of anything else."""
        return (
            self.apart(value)
            if callable(value) and not isinstance(value, nn.Module)
            else copy.deepcopy(value)
        )

    def apart(self, function: Callable) -> Callable:
        """Wraps a function, which then is not watched. Nothing tells it from any other wrapped one."""
        return self._switching(function, away=True)

    def again(self, function: Callable) -> Callable:
        """Wraps a function that is watched, also where it is called from one that is not."""
        return self._switching(function, away=False)

    def _switching(self, function: Callable, *, away: bool) -> Callable:
        def lent(*args: object, **kwargs: object) -> object:
            before, self.away = self.away, away
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore" if away else "always")
                    return function(*args, **kwargs)
            finally:
                self.away = before

        return lent

    def __enter__(self) -> "_Watch":
        self.profile = sys.getprofile()
        if self.watched:
            sys.setprofile(self._on_call)
        return super().__enter__()

    def __exit__(self, *exception: object) -> None:
        sys.setprofile(self.profile)
        super().__exit__(*exception)

    def __torch_function__(self, function, types, args=(), kwargs=None):
        name = getattr(function, "__name__", "").split(".")[0]
        if name in self.shortcuts and not self.away:
            self.found = self.found or f"PyTorch's {name} does the whole task"
        result = function(*args, **(kwargs or {}))
        if self.budget and isinstance(result, Tensor) and result.numel() > self.budget:
            raise _OverBudgetError
        return result

    def _on_call(self, frame, event: str, argument: object) -> None:
        module = frame.f_globals.get("__name__") or ""
        if event != "call" or self.away or module == __name__ or module in self.allowed:
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
        shapes = ", ".join(f"{name} {tuple(value.shape)}" for name, value in case.tensors.items())
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
    if isinstance(value, bool | int | float):
        return f"{value}, of type {type(value).__name__}"
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)}"
    return f"a value of type {type(value).__name__}"
