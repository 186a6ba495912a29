"""The exercise sets as notebooks: the solved one and the released one run from top to bottom."""

import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from attncourse.grading.release import build_notebook
from attncourse.learner import exercise_sets

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module", params=sorted(exercise_sets()))
def executed(request, tmp_path_factory):
    """Run both notebooks of a set with nbmake, and give them with their outputs."""
    folder = tmp_path_factory.mktemp(request.param)
    source = (ROOT / "solutions" / f"{request.param}.py").read_text(encoding="utf-8")
    notebooks = {"solved": build_notebook(source)}
    notebooks["released"] = nbformat.read(exercise_sets()[request.param], as_version=4)
    for name, notebook in notebooks.items():
        nbformat.write(notebook, folder / f"{name}.ipynb")
    command = [sys.executable, "-m", "pytest", "--nbmake", "--nbmake-kernel=python3", "--overwrite", "-q"]
    done = subprocess.run(
        [*command, f"--rootdir={folder}", folder], cwd=folder, capture_output=True, text=True
    )
    assert "2 passed" in done.stdout, done.stdout + done.stderr
    return {name: nbformat.read(folder / f"{name}.ipynb", as_version=4).cells for name in notebooks}


def outputs(cells, kind):
    return [output for cell in cells for output in cell.get("outputs", []) if output.output_type == kind]


def graded(cells):
    return [c for c in cells if c.cell_type == "code" and c.metadata.get("nbgrader", {}).get("grade")]


def test_the_solved_set_passes_all_its_tests_hidden_ones_too(executed):
    tests = graded(executed["solved"])
    assert len(tests) >= 5
    assert outputs(executed["solved"], "error") == []
    for cell in tests:
        calls = cell.source.count("check_")
        assert "HIDDEN" in cell.source
        assert "".join(o.text for o in outputs([cell], "stream")).count("passed (") == calls
        assert {o.output_type for o in cell.outputs} == {"stream"}, "a value would be read as partial credit"


def test_the_released_set_runs_and_every_test_says_not_written_yet(executed):
    tests = graded(executed["released"])
    errors = outputs(executed["released"], "error")
    assert len(tests) == len(errors) >= 5
    for cell in tests:
        error = outputs([cell], "error")[0]
        assert error.ename == "CheckFailed"
        assert "not written yet" in error.evalue
        assert error.traceback == [f"CheckFailed: {error.evalue}"], "no stack of the check is shown"


def test_nothing_is_written_to_the_error_output(executed):
    for cells in executed.values():
        assert [o for o in outputs(cells, "stream") if o.name == "stderr"] == []


@pytest.mark.parametrize("topic", sorted(exercise_sets()))
def test_points_in_the_text_are_the_points_of_the_cells(topic):
    cells = nbformat.read(exercise_sets()[topic], as_version=4).cells
    table = [line.split("|") for line in cells[0].source.splitlines() if line.startswith("| ")][1:]
    points = [c.metadata.nbgrader.points for c in cells if c.metadata.get("nbgrader", {}).get("grade")]
    assert [int(row[3]) for row in table] == points


@pytest.mark.parametrize("topic", sorted(exercise_sets()))
def test_the_summary_cell_knows_the_points_of_all_functions(topic):
    cells = nbformat.read(exercise_sets()[topic], as_version=4).cells
    summary = next(c.source for c in cells if c.source.startswith("points_so_far("))
    assert dict(re.findall(r"(\w+)=(\d+)", summary)) == {
        c.metadata.nbgrader.grade_id.removeprefix("test_"): str(c.metadata.nbgrader.points)
        for c in graded(cells)
    }


def test_the_summary_shows_all_points_when_solved_and_none_before(executed):
    total = sum(c.metadata.nbgrader.points for c in graded(executed["released"]))
    for name, reached in (("solved", total), ("released", 0)):
        summary = next(c for c in executed[name] if c.source.startswith("points_so_far("))
        assert f"\n{reached} of {total} points" in outputs([summary], "stream")[0].text
