"""What a learner does outside Jupyter: get an exercise set, and check a notebook in a terminal."""

import copy
import re
import shutil
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import DeadKernelError
from nbformat import NotebookNode

SECONDS_PER_CELL = 60


class CannotRunError(click.ClickException):
    """There is nothing to copy or check; the text says why. The exit status is 2."""

    exit_code = 2


@dataclass(frozen=True)
class Result:
    """The verdict on one graded cell.

    Attributes:
        name: the task's name.
        points: what the cell is worth.
        passed: True or False; None for a question that a person reads.
        text: what the learner should know, over several lines; may be empty.
        hidden: number of further tests that run at grading only.
    """

    name: str
    points: float
    passed: bool | None
    text: str
    hidden: int = 0


def exercise_sets() -> dict[str, Path]:
    """Finds the exercise sets that the installed course brings.

    Returns:
        The path of the learner's notebook for each topic.
    """
    package = Path(__file__).parent
    # An installed package carries the sets inside; in a clone they lie beside the package.
    folder = next((f for f in (package / "exercises", package.parent / "exercises") if f.is_dir()), None)
    return {path.stem: path for path in sorted(folder.glob("*/*.ipynb"))} if folder else {}


def get_set(topic: str, folder: Path) -> Path:
    """Copies an exercise set into a folder, and never overwrites anything there.

    Args:
        topic: the set's name.
        folder: where the set's own folder is made.

    Returns:
        The path of the new notebook.

    Raises:
        CannotRunError: if there is no such set, or if something is there already.
    """
    sets = exercise_sets()
    if topic not in sets:
        raise CannotRunError(f"there is no exercise set {topic!r}; there are: {', '.join(sets) or 'none'}")
    target = folder / topic / f"{topic}.ipynb"
    if target.parent.exists() and not target.parent.is_dir():
        raise CannotRunError(f"{target.parent} is there already and is not a folder; it was left as it is")
    if target.exists() or target.is_symlink():
        raise CannotRunError(
            f"{target} is there already and was left as it is. "
            "To start again, rename it or move it away, and repeat this command."
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(sets[topic], target)
    return target


def check_notebook(path: Path) -> Iterator[Result]:
    """Runs a learner's notebook from the top and yields a verdict on each graded cell as soon as it is there.

    Test cells that were deleted or changed are judged in their original form, as at grading.

    Args:
        path: the notebook. It is read, and never written.

    Raises:
        CannotRunError: if it is not a notebook, holds no exercise of this course, or ends its Python process.
    """
    notebook = _read(path)
    released = _released_cells(notebook, path)
    _restore(notebook, released)
    client = NotebookClient(
        notebook,
        timeout=SECONDS_PER_CELL,
        interrupt_on_timeout=True,
        error_on_timeout={"status": "error"},  # go on after the interrupt
        allow_errors=True,
        kernel_name="python3",
        extra_arguments=["--IPKernelApp.log_level=40"],  # the kernel's warnings say nothing to a learner
        resources={"metadata": {"path": str(path.resolve().parent)}},
        on_cell_executed=_notice_exit,
    )
    broken: dict[str, str] = {}  # cells that are no test and failed: place -> why
    with client.setup_kernel():
        for index, cell in enumerate(notebook.cells):
            name = _grade_id(cell)
            place = f"cell {index + 1}" + (f" ({name})" if name else "")
            try:
                client.execute_cell(cell, index)
            except (DeadKernelError, _ExitCalled):
                raise CannotRunError(f"Python ended while it ran {place} of {path}") from None
            error = next((o for o in cell.get("outputs", []) if o.output_type == "error"), None)
            if name in released and released[name].metadata.nbgrader.grade:
                yield _verdict(released[name], cell, error, broken)
            elif error and error.ename != "NotImplementedError":
                broken[place] = _words(error)


class _ExitCalled(Exception):
    """A cell called `exit()` or `quit()`: the process is about to end."""


def _notice_exit(cell: NotebookNode, cell_index: int, execute_reply: dict) -> None:
    if any(item.get("source") == "ask_exit" for item in execute_reply["content"].get("payload", [])):
        raise _ExitCalled


def _read(path: Path) -> NotebookNode:
    if not path.is_file():
        inside = path / f"{path.resolve().name}.ipynb"
        hint = f"; did you mean {inside}?" if inside.is_file() else ""
        raise CannotRunError(f"there is no file {path}{hint}")
    try:
        with warnings.catch_warnings(action="ignore"):  # about cells without an id
            return nbformat.read(path, as_version=4)
    except Exception as error:  # nbformat raises many kinds, and any of them means the same
        why = next(iter(str(error).splitlines()), type(error).__name__)
        raise CannotRunError(f"{path} is not a notebook: {why[:100]}") from None


def _grade_id(cell: NotebookNode) -> str | None:
    return cell.metadata.get("nbgrader", {}).get("grade_id")


def _released_cells(notebook: NotebookNode, path: Path) -> dict[str, NotebookNode]:
    """Gives the cells of the exercise set that the notebook belongs to, by name, as they were released."""
    names = {_grade_id(cell) for cell in notebook.cells} - {None}
    sets = [
        {_grade_id(cell): cell for cell in nbformat.read(released, as_version=4).cells if _grade_id(cell)}
        for released in exercise_sets().values()
    ]
    # Some names, such as `imports`, are in every set.
    nearest = max(sets, key=lambda cells: len(names & cells.keys()), default={})
    if names & nearest.keys():
        return nearest
    raise CannotRunError(
        f"no cell of {path} belongs to an exercise set of this course ({', '.join(exercise_sets())}). "
        "Did an editor drop the cells' metadata? Copy your answers into a fresh set: `attncourse get TOPIC`."
    )


def _restore(notebook: NotebookNode, released: dict[str, NotebookNode]) -> None:
    """Puts the notebook into the form in which it is graded.

    Locked cells return to their released form, and deleted cells to their places. A copy of a cell keeps its
    text, but is no cell of the set.
    """
    seen = set()
    for cell in notebook.cells:
        cell.metadata.pop("tags", None)  # one of them would skip the cell
        name = _grade_id(cell)
        if name in seen:
            del cell.metadata["nbgrader"]
        elif name in released:
            seen.add(name)
            if released[name].metadata.nbgrader.locked:
                cell.update(copy.deepcopy(released[name]))
            else:
                cell.cell_type = released[name].cell_type
    position = 0
    for name, cell in released.items():
        if name in seen:
            position = next(i for i, c in enumerate(notebook.cells) if _grade_id(c) == name) + 1
        else:
            notebook.cells.insert(position, copy.deepcopy(cell))
            position += 1


def _verdict(released: NotebookNode, cell: NotebookNode, error: NotebookNode | None, broken: dict) -> Result:
    """Turns the outcome of a graded cell into words."""
    grading = released.metadata.nbgrader
    name = grading.grade_id.removeprefix("test_")
    if grading.solution:
        answered = cell.source.split() != released.source.split()
        return Result(name, grading.points, None, "answered" if answered else "not answered yet")
    hidden = released.metadata.get("attncourse", {}).get("hidden_tests", 0)
    if error is None:
        return Result(name, grading.points, True, "", hidden)
    text = _words(error)
    if error.ename == "NameError":
        text += "".join(f"\n{place} failed before: {why}" for place, why in broken.items())
    return Result(name, grading.points, False, text, hidden)


def _words(error: NotebookNode) -> str:
    """Says what an error output means to a learner."""
    if error.ename == "CheckFailed":
        return error.evalue
    if error.ename == "KeyboardInterrupt":
        return f"the cell ran for more than {SECONDS_PER_CELL} seconds and was stopped"
    # IPython names a cell by a file of its own, which says nothing to a learner.
    message = re.sub(r"[(]\d+[.]py, line", "(line", error.evalue)
    return f"{error.ename}: {message}"
