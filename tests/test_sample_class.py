"""The sample class of `examples/class/`: made from known answers, so every point is known in advance."""

import csv
import json
import shutil
import subprocess
import sys

import nbformat
import pytest
from nbgrader.api import Gradebook

from examples.make_class import TASKS, submissions
from tests.toy_course import REPOSITORY, released_repository, run

CLASS = REPOSITORY / "examples" / "class"
POINTS = {  # as the headings of solutions/qkv.py promise
    "test_scaled_dot_scores": "2",
    "test_masked_softmax": "4",
    "test_weighted_sum": "2",
    "test_attend": "3",
    "test_cosine_scores": "1",
    "test_softmax_with_temperature": "1",
    "test_entropy": "1",
    "test_linear_attention": "4",
    "test_sparsemax": "4",
}
WRITTEN = "what_a_weight_says"
# student: (questions that are lost, points of the written answer, misconceptions that are named)
GRADED = {
    "right": ((), "", []),
    "partly-right": (tuple(POINTS)[3:], "0", []),
    "no-scale": (("test_scaled_dot_scores", "test_attend"), "", ["no-scale"]),
    "softmax-over-queries": (("test_masked_softmax", "test_attend"), "", ["softmax-over-queries"]),
    "blank": (tuple(POINTS), "0", []),
    "test-cell-deleted": ((), "", []),
}


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """The class graded by `attncourse grade qkv`, in a repository of its own."""
    repository = released_repository(tmp_path_factory, tmp_path_factory.mktemp("sample"))
    (repository / "solutions" / "toy.py").unlink()
    for name in ("nbgrader_config.py", "solutions/qkv.py"):
        shutil.copy(REPOSITORY / name, repository / name)
    shutil.copytree(CLASS, repository / "gradebook" / "submitted")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(repository)
        for command in ("release", "grade"):
            result = run(command, "qkv")
            assert result.exit_code == 0, result.output
    with (repository / "gradebook" / "grades-qkv.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = {row["student"]: row for row in csv.DictReader(file)}
    return repository, rows


def test_committed_class_is_what_the_maker_makes():
    made = submissions(nbformat.read(REPOSITORY / "exercises" / "qkv" / "qkv.ipynb", as_version=4))
    committed = {p.parts[-3]: p.read_text(encoding="utf-8") for p in CLASS.glob("*/qkv/qkv.ipynb")}
    assert committed == made, "run `python -m examples.make_class`"
    assert len(made) == 8


def test_the_class_has_no_other_file():
    assert len([path for path in CLASS.rglob("*") if path.is_file()]) == 8


@pytest.mark.parametrize("student", GRADED)
def test_points_of_a_submission(student, graded):
    lost, written, _ = GRADED[student]
    want = {name: "0" if name in lost else points for name, points in POINTS.items()} | {WRITTEN: written}
    row = graded[1][student]
    assert {name: row[name] for name in want} == want
    assert (row["status"], row["max"]) == ("graded", "25")
    assert row["score"] == str(sum(int(points or 0) for points in want.values()))
    assert (f"waits for a mark by a person: {WRITTEN}" in row["reason"]) == (written == "")


def test_rows_of_the_two_that_cannot_be_graded(graded):
    rows = graded[1]
    assert set(rows) == {*GRADED, "kernel-killed", "unreadable"}
    assert (rows["kernel-killed"]["status"], rows["kernel-killed"]["score"]) == ("failed", "")
    assert "the Python process ended at cell" in rows["kernel-killed"]["reason"]
    assert "(attend)" in rows["kernel-killed"]["reason"]
    assert (rows["unreadable"]["status"], rows["unreadable"]["score"]) == ("unreadable", "")
    assert "put back: test_masked_softmax" in rows["test-cell-deleted"]["reason"]


def test_misconceptions_are_counted(graded):
    state = json.loads((graded[0] / "gradebook" / "grading.json").read_text())
    assert {name: state["qkv"][name]["misconceptions"] for name in GRADED} == {
        name: named for name, (_, _, named) in GRADED.items()
    }


@pytest.mark.parametrize("student", GRADED)
def test_feedback_has_the_message_and_no_hidden_test(student, graded):
    path = graded[0] / "gradebook" / "feedback" / student / "qkv" / "qkv.html"
    text = path.read_text(encoding="utf-8")
    assert "HIDDEN" not in text
    assert "seed=" not in text
    assert all(f"misconception: {name}" in text for name in GRADED[student][2])


def test_every_task_is_answered_by_the_class():
    cells = nbformat.read(CLASS / "right" / "qkv" / "qkv.ipynb", as_version=4).cells
    assert not [cell.id for cell in cells if "NotImplementedError()" in cell.source]
    assert {cell.id for cell in cells} >= set(TASKS)


def test_plain_nbgrader_gives_the_same_scores(graded, tmp_path):
    repository, rows = graded
    students = ("no-scale", "test-cell-deleted")
    for name in ("nbgrader_config.py", "gradebook/source", "gradebook/release", "gradebook/gradebook.db"):
        copy = shutil.copytree if (repository / name).is_dir() else shutil.copy
        (tmp_path / name).parent.mkdir(exist_ok=True)
        copy(repository / name, tmp_path / name)
    for student in students:
        shutil.copytree(CLASS / student, tmp_path / "gradebook" / "submitted" / student)
    with Gradebook(f"sqlite:///{tmp_path}/gradebook/gradebook.db", "attention") as gradebook:
        for student in students:
            gradebook.remove_submission("qkv", student)
    line = [sys.executable, "-m", "nbgrader", "autograde", "qkv"]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    with Gradebook(f"sqlite:///{tmp_path}/gradebook/gradebook.db", "attention") as gradebook:
        for student in students:
            marks = gradebook.find_submission_notebook("qkv", "qkv", student).grades
            scores = {mark.name: "" if mark.auto_score is None else f"{mark.score:g}" for mark in marks}
            assert scores == {name: rows[student][name] for name in [*POINTS, WRITTEN]}
