"""A course of one tiny exercise set, without torch: the tests of releasing and grading work on it."""

import copy
import functools
import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from attncourse.cli import main

REPOSITORY = Path(__file__).parents[1]
TIMEOUT = 4  # seconds for a cell; it is what an endless loop costs the tests


def _cell(kind: str, grade_id: str, points: int | None = None, *, solution: bool) -> str:
    """The header of a cell that nbgrader knows; it is graded if it has points."""
    metadata = {"schema_version": 3, "task": False, "grade_id": grade_id, "solution": solution}
    metadata |= {"grade": points is not None, "locked": not solution}
    return f"# %%{kind} nbgrader={json.dumps(metadata | ({'points': points} if points else {}))}\n"


def answer(name: str, body: str) -> str:
    """A cell with a function to write."""
    return (
        _cell("", name, solution=True)
        + f"""def {name}(x):
    ### BEGIN SOLUTION
    {body}
    ### END SOLUTION

"""
    )


def tested(name: str, points: int, public: str, hidden: str) -> str:
    """A test cell, with a hidden part."""
    return (
        _cell("", name, points, solution=False)
        + f"""{public}
### BEGIN HIDDEN TESTS
{hidden}
### END HIDDEN TESTS

"""
    )


HEAD = """# %% [markdown]
# # Numbers
# <details><summary>Hint</summary> Add $x < x + 1$. </details>

# %%
def check_double(fn, x=2):
    got = fn(x)
    if got == x:
        raise AssertionError("nothing happened [misconception: identity]")
    assert got == 2 * x, "not the double"

"""
DOUBLE = answer("double", "return x + x") + tested(
    "test_double", 3, "check_double(double)", "check_double(double, x=421)\ncheck_double(double, x=-77)"
)
WRITTEN = f"""# %% [markdown]
# Why?

{_cell(" [markdown]", "why", 2, solution=True)}# Because of addition.

"""
TRIPLE = answer("triple", "return x * 3") + tested(
    "test_triple", 1, "assert triple(2) == 6", 'assert triple(5) == 15, "wrong for a larger number"'
)
SOURCE = HEAD + DOUBLE + WRITTEN + TRIPLE

RIGHT = {
    "double": "def double(x):\n    return 2 * x",
    "why": "My own words.",
    "triple": "def triple(x):\n    return 3 * x",
}


def make_repository(folder: Path, source: str = SOURCE) -> Path:
    """A repository with the course's own settings, but for a short time limit, and the set `toy`."""
    settings = (REPOSITORY / "nbgrader_config.py").read_text()
    (folder / "solutions").mkdir(parents=True)
    (folder / "solutions" / "toy.py").write_text(source)
    (folder / "nbgrader_config.py").write_text(f"{settings}\nc.Execute.timeout = {TIMEOUT}\n")
    return folder


@functools.cache
def _released_repository(base: Path) -> Path:
    repository = make_repository(base / "toy")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(repository)
        result = run("release")
    assert result.exit_code == 0, result.output
    return repository


def released_repository(factory: pytest.TempPathFactory, folder: Path) -> Path:
    """A repository in which `toy` is released: a copy, because a new database takes seconds to make."""
    shutil.copytree(_released_repository(factory.getbasetemp()), folder, dirs_exist_ok=True)
    return folder


def run(*arguments: str) -> Result:
    """Run `attncourse …` in the current folder."""
    return CliRunner().invoke(main, arguments)


def released(repository: Path) -> dict:
    """The content of the learner's notebook."""
    return json.loads((repository / "exercises" / "toy" / "toy.ipynb").read_text())


def fill(notebook: dict, answers: dict[str, str], without: tuple[str, ...] = ()) -> dict:
    """A copy of a notebook with other texts in some cells, and some cells deleted."""
    notebook = copy.deepcopy(notebook)
    notebook["cells"] = [cell for cell in notebook["cells"] if cell["id"] not in without]
    for cell in notebook["cells"]:
        cell["source"] = answers.get(cell["id"], cell["source"])
    return notebook


def submit(repository: Path, student: str, content: dict | bytes, name: str = "toy.ipynb") -> Path:
    """Put a notebook, or any bytes, into a student's folder."""
    path = repository / "gradebook" / "submitted" / student / "toy" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return path
