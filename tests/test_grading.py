"""A class with every fault that was thought of: each submission ends as one row, with the right points."""

import copy
import csv
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import nbformat
import pytest
from bs4 import BeautifulSoup
from filelock import FileLock
from nbgrader.api import Gradebook

import attncourse.grading.stage
from attncourse.grading.feedback import mathml
from attncourse.grading.stage import LARGEST, Unreadable, parse_notebook, restore_cells
from tests.toy_course import (
    DOUBLE,
    HEAD,
    REPOSITORY,
    RIGHT,
    SOURCE,
    WRITTEN,
    fill,
    released,
    released_repository,
    run,
    submit,
)

ATTACK = """<script>alert(1)</script> <img src=x onerror=alert(1)> [link](javascript:alert(1))
<a href="data:text/html,x">b</a> <iframe src="https://example.org"></iframe> **strong** $a < b$
<img src="https://example.org/seen.png"> ![](attachment:lost.png) $\\text{<script>alert(1)</script>}$
$\\href{javascript:alert(1)}{x}$ $\\style{background:url(https://example.org)}{x}$"""
SHOW = """from IPython.display import HTML, Javascript, display
display(HTML("<script>alert(2)</script><b onclick=alert(2)>x</b>"), Javascript("alert(3)"))
def double(x):
    ### BEGIN HIDDEN TESTS
    return x + x"""
IGNORE_INTERRUPTS = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass"
ALL, MARK = {"test_double": 3, "why": None, "test_triple": 1}, "waits for a mark by a person: why"
NO_DOUBLE = ALL | {"test_double": 0}

# student: (cells that differ from RIGHT, cells that are deleted), (status, points, what the reason says)
CLASS = {
    "right": (({}, ()), ("graded", ALL, MARK)),
    "partly-right": (
        ({"triple": "def triple(x):\n    return 6"}, ()),
        ("graded", ALL | {"test_triple": 0}, MARK),
    ),
    "identity": (({"double": "def double(x):\n    return x"}, ()), ("graded", NO_DOUBLE, MARK)),
    "=1+1": (({}, ()), ("graded", ALL, MARK)),
    "test-deleted": (({}, ("test_double",)), ("graded", ALL, "deleted cells were put back: test_double")),
    "code-deleted": (
        ({}, ("double", "test_double", "triple", "test_triple")),
        (
            "graded",
            {"test_double": 0, "why": None, "test_triple": 0},
            "put back: double, test_double, triple",
        ),
    ),
    "test-edited": (({"double": "double = abs", "test_double": "pass"}, ()), ("graded", NO_DOUBLE, MARK)),
    "attack": (({"why": ATTACK, "double": SHOW}, ()), ("graded", ALL, MARK)),
    "loop": (
        ({"double": "while True: pass"}, ()),
        ("graded", NO_DOUBLE, "stopped because they ran too long: cell 3 (double)"),
    ),
    "flood": (
        ({"double": "while True: print('x' * 1000)"}, ()),
        ("graded", NO_DOUBLE, "stopped because they ran too long: cell 3 (double)"),
    ),
    "stubborn": (({"double": IGNORE_INTERRUPTS}, ()), ("failed", {}, "cell 3 (double) ran too long")),
    "killed": (
        ({"double": "import os\nos._exit(1)"}, ()),
        ("failed", {}, "process ended at cell 3 (double)"),
    ),
    "exit": (({"double": "exit()"}, ()), ("failed", {}, "process ended at cell 3 (double)")),
}
# student: what lies there in place of a notebook, and what the reason says
BROKEN = {
    "empty": (b"", "the file is empty"),
    "cut-off": (b'{"cells": [', "damaged or cut off"),
    "picture": (b"\x89PNG\r\n\x1a\n\x00\x00", "damaged or cut off"),
    "list": (b"[]", "JSON, but not a notebook"),
    "other-json": (b'{"answer": 42}', "JSON, but not a notebook"),
    "no-source": (b'{"cells": [{"cell_type": "code", "metadata": {}}], "nbformat": 4}', "damaged notebook"),
    "no-metadata": (
        b'{"cells": [{"cell_type": "raw", "metadata": {}, "source": "x"}], "metadata": {}, "nbformat": 4}',
        "no cell of the exercise set",
    ),
    "too-new": (b'{"cells": [], "metadata": {}, "nbformat": 5, "nbformat_minor": 0}', "damaged notebook"),
    "deep": (b'{"cells": ' + b"[" * 100_000, "damaged or cut off"),
    "a[1]": (b"{}", "nbgrader cannot work with this folder's name"),
    "what?": (b"{}", "nbgrader cannot work with this folder's name"),
    " space": (b"{}", "nbgrader cannot work with this folder's name"),
    os.fsdecode(b"latin-\xe9"): (b"{}", "nbgrader cannot work with this folder's name"),
}


def grades(repository: Path) -> dict[str, dict[str, str]]:
    with (repository / "gradebook" / "grades-toy.csv").open(encoding="utf-8-sig", newline="") as file:
        return {row["student"]: row for row in csv.DictReader(file)}


def database(repository: Path) -> Gradebook:
    return Gradebook(f"sqlite:///{repository}/gradebook/gradebook.db", "attention")


def show(points: float | None) -> str:
    return "" if points is None else str(points)


@pytest.fixture(scope="session")
def graded(tmp_path_factory):
    """The class, graded once: the repository, and what the terminal showed."""
    repository = released_repository(tmp_path_factory, tmp_path_factory.mktemp("graded"))
    notebook = released(repository)
    for student, ((changes, deleted), _) in CLASS.items():
        submit(repository, student, fill(notebook, RIGHT | changes, deleted))
    submit(repository, "blank", notebook)
    for student, (content, _) in BROKEN.items():
        submit(repository, student, content)
    right = json.dumps(fill(notebook, RIGHT))
    submit(repository, "other-name", right.encode(), name="final (2).ipynb")
    submit(repository, "学生", right.encode("utf-16"))
    copied = fill(notebook, RIGHT)
    copied["cells"] += [c for c in copied["cells"] if "nbgrader" in c["metadata"]]
    submit(repository, "copied", json.dumps(copied).encode())
    (repository / "gradebook/submitted/classmate").symlink_to("right")
    submit(repository, "two words", right.encode("utf-8-sig"))
    submit(repository, "huge", b" " * (LARGEST + 1))
    submit(repository, "shadow", right.encode()).with_name("csv.py").write_text("raise SystemExit")
    (submit(repository, "two-names", b"{}", "a.ipynb")).with_name("b.ipynb").write_text("{}")
    pipe = submit(repository, "pipe", b"")
    pipe.unlink()
    os.mkfifo(pipe)
    link = submit(repository, "link", b"")
    link.unlink()
    link.symlink_to(repository / "gradebook" / "source" / "toy" / "toy.ipynb")
    submit(repository, "folder", b"").unlink()
    (repository / "gradebook/submitted/folder/toy/toy.ipynb").mkdir()
    (repository / "gradebook/submitted/no-folder").mkdir()
    (repository / "gradebook/submitted/a file").write_text("not a student")
    with database(repository) as gradebook:
        gradebook.add_student("registered")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(repository)
        result = run("grade", "toy")
    assert result.exit_code == 0, result.output
    return repository, result.output


@pytest.fixture
def again(graded, tmp_path, monkeypatch):
    """A copy of the graded repository that a test may change; it is the current folder, with few students."""
    keep = {"right", "identity", "killed", "blank"}
    repository, _ = graded
    leave = {path.name for path in (repository / "gradebook" / "submitted").iterdir()} - keep
    shutil.copytree(repository, tmp_path, dirs_exist_ok=True, ignore=lambda _, names: leave & set(names))
    with database(tmp_path) as gradebook:
        for student in [student.id for student in gradebook.students if student.id not in keep]:
            gradebook.remove_student(student)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("student", CLASS)
def test_row_of_a_notebook(student, graded):
    status, points, reason = CLASS[student][1]
    row = grades(graded[0])["'=1+1" if student == "=1+1" else student]
    assert row["status"] == status
    assert {name: row[name] for name in ALL} == {name: show(points.get(name)) for name in ALL}
    assert row["score"] == ("" if status == "failed" else str(sum(p or 0 for p in points.values())))
    assert row["max"] == "6"
    assert reason in row["reason"]


@pytest.mark.parametrize("student", BROKEN)
def test_row_of_what_is_no_notebook(student, graded):
    name = student if student.isprintable() else "latin-\\udce9"
    row = grades(graded[0])[name.strip()]
    assert (row["status"], row["score"], row["test_double"]) == ("unreadable", "", "")
    assert BROKEN[student][1] in row["reason"]


@pytest.mark.parametrize(
    ("student", "status", "score", "reason"),
    [
        ("blank", "graded", "0", ""),
        ("other-name", "graded", "4", "the notebook was named final (2).ipynb"),
        ("学生", "graded", "4", MARK),
        ("two words", "graded", "4", MARK),
        ("shadow", "graded", "4", MARK),
        ("copied", "graded", "4", "of copied cells the first counts: double, test_double"),
        ("classmate", "unreadable", "", "not a folder"),
        ("huge", "unreadable", "", "at most 10,000,000 are read"),
        ("two-names", "unreadable", "", "no toy.ipynb in the folder, but several others"),
        ("pipe", "unreadable", "", "not a regular file"),
        ("link", "unreadable", "", "not a regular file"),
        ("folder", "unreadable", "", "not a regular file"),
        ("no-folder", "missing", "", "nothing was submitted"),
        ("registered", "missing", "", "nothing was submitted"),
    ],
)
def test_row_of_other_submissions(student, status, score, reason, graded):
    row = grades(graded[0])[student]
    assert (row["status"], row["score"]) == (status, score)
    assert reason in row["reason"]


def test_every_submission_has_exactly_one_row(graded):
    repository, output = graded
    text = (repository / "gradebook" / "grades-toy.csv").read_text(encoding="utf-8-sig")
    folders = {path.name for path in (repository / "gradebook" / "submitted").iterdir() if path.is_dir()}
    assert len(list(csv.reader(text.splitlines()))) == len(folders) + 2  # the header, and "registered"
    assert "a file" not in grades(repository)
    assert "submitted/a file lies in no student's folder; submissions go to" in output
    assert f"[{len(folders) + 1}/{len(folders) + 1}]" in output


def test_csv_is_quoted_and_computes_nothing(graded):
    text = (graded[0] / "gradebook" / "grades-toy.csv").read_text(encoding="utf-8-sig")
    for line in text.splitlines():
        assert re.fullmatch(r'"[^"]*"(,"[^"]*")*', line)
        assert not re.search(r'"[=+\-@\t\r]', line)


def test_terminal_says_what_happens(graded):
    repository, output = graded
    assert "Submissions run unsandboxed" in output
    assert re.search(r"\] right: graded, 4 points \(\d+\.\d s\)", output)
    assert re.search(r"^killed +failed +the Python process ended at cell 3", output, re.MULTILINE)
    assert output.endswith(
        f"grades: {repository}/gradebook/grades-toy.csv\nreport: {repository}/gradebook/report.html\n"
    )
    assert "Traceback" not in output
    assert len(output.splitlines()) < 3 * len(grades(repository))


def test_database_of_nbgrader_has_the_same_scores(graded):
    rows = grades(graded[0])
    with database(graded[0]) as gradebook:
        scores = {s.student.id: s.score for s in gradebook.assignment_submissions("toy")}
    assert scores["right"] == 4
    for student, score in scores.items():
        row = rows["'=1+1" if student == "=1+1" else student]
        assert score == float(row["score"] or 0)


def test_report_needs_no_network_and_names_misconceptions(graded):
    repository, _ = graded
    html = (repository / "gradebook" / "report.html").read_text(encoding="utf-8")
    page = BeautifulSoup(html, "html.parser")
    assert not page.find_all(["script", "link", "img", "iframe"])
    assert "http" not in html
    assert page.find("table").thead.find_all("th")[2].get_text(" ").split() == ["score", "(of", "6)"]
    rows = {row.th.text: row for row in page.find("table").tbody.find_all("tr")}
    assert set(rows) == {name.removeprefix("'") for name in grades(repository)}
    assert [cell.text for cell in rows["right"].find_all("td")] == ["graded", "4", "3", "", "1", MARK]
    targets = {link.text: link["href"] for link in page.find_all("a")}
    assert len(targets) == sum(row["status"] == "graded" for row in grades(repository).values())
    assert targets["two words"] == "feedback/two%20words/toy/toy.html"
    counts = [
        [cell.text for cell in row.find_all("td")] for row in page.find_all("table")[1].tbody.find_all("tr")
    ]
    assert counts == [["identity", "2"]]  # the one of that name, and the one who edited the test


def feedback(repository: Path, student: str) -> str:
    return (repository / "gradebook" / "feedback" / student / "toy" / "toy.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("student", ["right", "partly-right", "identity", "blank", "code-deleted", "attack"])
def test_feedback_shows_no_hidden_test(student, graded):
    text = BeautifulSoup(feedback(graded[0], student), "html.parser").text
    assert "check_double(double)" in text
    assert "421" not in text
    assert "-77" not in text
    assert "triple(5)" not in text
    assert ("HIDDEN" in text) == (student == "attack")  # whose own answer has the word
    assert ("AssertionError: wrong for a larger number" in text) == (student == "partly-right")


def test_instructor_still_sees_the_hidden_tests(graded):
    path = graded[0] / "gradebook" / "autograded" / "right" / "toy" / "toy.ipynb"
    assert "check_double(double, x=421)" in path.read_text()


def test_feedback_runs_nothing_that_a_learner_wrote(graded):
    page = BeautifulSoup(feedback(graded[0], "attack"), "html.parser")
    assert not page.find_all(["script", "iframe", "form", "object", "embed"])
    for element in page.find_all(True):
        assert not [name for name in element.attrs if name.startswith("on") or name == "style"]
        assert not str(element.get("href", "")).lower().startswith(("javascript", "data"))
    assert page.find("strong", string="strong")
    assert "a<b" in [math.text for math in page.find_all("math")]


@pytest.mark.parametrize("student", ["right", "attack"])
def test_feedback_loads_nothing(student, graded):
    page = BeautifulSoup(feedback(graded[0], student), "html.parser")
    policy = page.find("meta", attrs={"http-equiv": "Content-Security-Policy"})["content"]
    assert policy.startswith("default-src 'none'; img-src data:;")
    assert not page.find_all("link")
    assert all(element["src"].startswith("data:") for element in page.find_all(src=True))
    assert "@import" not in page.style.text
    assert "url(" not in page.style.text


def test_feedback_shows_formulas_without_a_script(graded):
    page = BeautifulSoup(feedback(graded[0], "right"), "html.parser")
    assert "$" not in page.text
    formula = page.find("details").find("math")
    assert [(part.name, part.text) for part in formula.mrow.find_all(True)] == [
        ("mi", "x"),
        ("mo", "<"),
        ("mi", "x"),
        ("mo", "+"),
        ("mn", "1"),
    ]


@pytest.mark.parametrize(
    ("tex", "shown"),
    [
        (r"\text{<b>}", "<mtext>&lt;b&gt;</mtext>"),
        (r"\href{javascript:alert(1)}{x}", "<mrow><mrow><mi>x</mi></mrow></mrow>"),
        (r"\nosuchcommand", r"<code>\nosuchcommand</code>"),
        (r"a<b_", "<code>a&lt;b_</code>"),
    ],
)
def test_a_formula_is_harmless_or_shown_as_written(tex, shown):
    html = mathml(tex, "inline")
    assert shown in html
    assert html.startswith(("<code>", '<math display="inline">'))


def test_every_formula_of_the_course_is_converted():
    text = "\n".join(path.read_text() for path in (REPOSITORY / "solutions").glob("*.py"))
    formulas = [a or b for a, b in re.findall(r"\$\$([^$]+)\$\$|\$([^$]+)\$", text.replace("\n#", "\n"))]
    assert len(formulas) > 5
    assert not [tex for tex in formulas if not mathml(tex, "block").startswith("<math")]


def test_feedback_lists_the_questions_by_name(graded):
    page = BeautifulSoup(feedback(graded[0], "partly-right"), "html.parser")
    rows = [[cell.text for cell in row.find_all("td")] for row in page.find("table").tbody.find_all("tr")]
    assert rows == [
        ["test_double", "3 of 3 points"],
        ["why", "0 of 2 points"],
        ["test_triple", "0 of 1 points"],
    ]
    assert page.h1.text.split() == ["toy:", "3", "of", "6", "points"]
    assert all(page.find(id=link["href"][1:]) for link in page.find("table").find_all("a"))


def test_feedback_says_that_a_mark_is_missing_and_keeps_what_was_given(graded):
    page = feedback(graded[0], "right")
    assert "A person has yet to mark this answer." in page
    assert "<summary>Hint</summary>" in page
    assert "A person has yet to mark" not in feedback(graded[0], "blank")


def test_nothing_of_a_failed_submission_is_left(graded):
    gradebook = graded[0] / "gradebook"
    assert not (gradebook / "autograded" / "killed" / "toy").exists()
    assert not (gradebook / "feedback" / "killed").exists()
    assert not (gradebook / "staged").exists()


def test_two_graders_at_once_are_refused(again):
    with FileLock(again / "gradebook" / "grading.lock"):
        result = run("grade", "toy")
    assert result.exit_code == 2
    assert "another `attncourse grade` is at work" in result.output


def test_a_second_run_runs_nothing_again(again):
    result = run("grade", "toy")
    assert result.exit_code == 0
    for student, score in (("right", 4), ("identity", 1), ("blank", 0)):
        assert f"] {student}: unchanged: graded, {score} points" in result.output
    assert "] killed: unchanged: failed\n" in result.output
    assert set(grades(again)) == {"right", "identity", "blank", "killed"}
    assert "the Python process ended at cell 3" in grades(again)["killed"]["reason"]


def give_mark(repository: Path, student: str, points: float, comment: str) -> None:
    """What the formgrader does when a person marks the written answer."""
    with database(repository) as gradebook:
        mark = gradebook.find_grade("why", "toy", "toy", student)
        mark.manual_score, mark.needs_manual_grade = points, False
        gradebook.find_comment("why", "toy", "toy", student).manual_comment = comment
        gradebook.db.commit()


@pytest.mark.parametrize("between", ["", "double"])
def test_a_mark_does_not_outlive_the_text_that_it_was_given_for(between, again):
    give_mark(again, "right", 2, "Good, but short.")
    run("grade", "toy")
    answers = RIGHT | {"why": "Other words."}
    if between:  # a version that cannot be graded does not save the mark
        submit(again, "right", fill(released(again), answers | {between: "exit()"}))
        assert "] right: failed (" in run("grade", "toy").output
    submit(again, "right", fill(released(again), answers))
    assert "] right: graded, 4 points (" in run("grade", "toy").output
    row = grades(again)["right"]
    assert (row["score"], row["why"]) == ("4", "")
    assert row["reason"] == f"why had 2 points before its text changed; {MARK}"
    page = feedback(again, "right")
    assert "Good, but short." not in page
    assert "A person has yet to mark this answer." in page
    with database(again) as gradebook:
        assert gradebook.find_grade("why", "toy", "toy", "right").needs_manual_grade

    give_mark(again, "right", 1, "Better.")
    run("grade", "toy")
    assert grades(again)["right"]["score"] == "5"
    notebook = fill(released(again), answers)
    picture = {"attachments": {"a.png": {"image/png": "AAAA"}}}
    notebook["cells"] = [cell | picture if cell["id"] == "why" else cell for cell in notebook["cells"]]
    submit(again, "right", notebook)
    run("grade", "toy")
    assert grades(again)["right"]["why"] == ""
    assert "Better." not in feedback(again, "right")


def test_a_mark_is_taken_back_when_the_answer_is_deleted(again):
    give_mark(again, "right", 2, "Good, but short.")
    run("grade", "toy")
    submit(again, "right", fill(released(again), RIGHT, ("why",)))
    assert "] right: graded, 4 points (" in run("grade", "toy").output
    row = grades(again)["right"]
    assert row["why"] == "0"
    assert "why had 2 points before its text changed" in row["reason"]
    assert "Good, but short." not in feedback(again, "right")


def test_only_a_changed_submission_is_graded_again_and_keeps_its_marks(again):
    give_mark(again, "right", 1.5, "Good, but short.")
    submit(again, "killed", fill(released(again), RIGHT | {"triple": ""}))
    result = run("grade", "toy")
    assert "] right: unchanged: graded, 5.5 points" in result.output
    assert "] killed: graded, 3 points (" in result.output
    assert grades(again)["right"]["why"] == "1.5"
    assert "Good, but short." in feedback(again, "right")

    submit(again, "right", fill(released(again), RIGHT | {"double": ""}))
    assert "] right: graded, 2.5 points (" in run("grade", "toy").output
    assert "Good, but short." in feedback(again, "right")


def test_a_score_does_not_outlive_a_submission_that_cannot_be_graded(again):
    submit(again, "right", fill(released(again), RIGHT | {"triple": "import os\nos._exit(1)"}))
    submit(again, "identity", b"")
    shutil.rmtree(again / "gradebook" / "submitted" / "blank")
    run("grade", "toy")
    rows = grades(again)
    assert {name: row["status"] for name, row in rows.items()} == {
        "right": "failed",
        "identity": "unreadable",
        "blank": "missing",
        "killed": "failed",
    }
    assert {row["score"] + row["test_double"] for row in rows.values()} == {""}
    assert not list((again / "gradebook").glob("feedback/*/toy"))
    assert not list((again / "gradebook").glob("autograded/*/toy"))
    with database(again) as gradebook:
        assert {s.score for s in gradebook.assignment_submissions("toy")} == {0}


def test_a_stopped_run_is_not_taken_for_a_grade(again, monkeypatch):
    shutil.rmtree(again / "gradebook" / "submitted" / "killed")
    submit(again, "right", fill(released(again), RIGHT | {"triple": ""}))

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("attncourse.grading.grade.stage", stop)
    assert run("grade", "toy").exit_code != 0
    state = json.loads((again / "gradebook" / "grading.json").read_text())
    assert state["toy"]["right"]["status"] == "started"
    monkeypatch.undo()
    monkeypatch.chdir(again)
    assert "] right: graded, 3 points (" in run("grade", "toy").output


def test_a_lost_database_is_one_clear_line(again):
    (again / "gradebook" / "gradebook.db").unlink()
    result = run("grade", "toy")
    assert (result.exit_code, len(result.output.splitlines())) == (2, 1)
    assert "'toy' is not released" in result.output


def test_a_damaged_state_is_one_clear_line(again):
    (again / "gradebook" / "grading.json").write_text("{")
    result = run("grade", "toy")
    assert (result.exit_code, len(result.output.splitlines())) == (2, 1)
    assert "grading.json is damaged; delete it to grade everything again" in result.output


def test_a_fault_of_the_grader_itself_costs_one_row(again, monkeypatch):
    submit(again, "right", fill(released(again), RIGHT | {"triple": ""}))
    submit(again, "blank", fill(released(again), RIGHT))

    def stage(folder, *arguments):
        if folder.parent.name == "right":
            raise RuntimeError("no space left")
        return attncourse.grading.stage.stage(folder, *arguments)

    monkeypatch.setattr("attncourse.grading.grade.stage", stage)
    assert run("grade", "toy").exit_code == 0
    rows = grades(again)
    assert (rows["right"]["status"], rows["right"]["score"]) == ("failed", "")
    assert rows["right"]["reason"] == "RuntimeError: no space left"
    assert rows["blank"]["score"] == "4"
    monkeypatch.undo()
    monkeypatch.chdir(again)
    assert "] right: graded, 3 points (" in run("grade", "toy").output


def test_a_mended_test_is_applied_to_all(again):
    source = again / "solutions" / "toy.py"
    source.write_text(source.read_text().replace("triple(5) == 15", "triple(5) == 16"))
    assert run("release").exit_code == 0
    assert "] right: graded, 3 points (" in run("grade", "toy").output


def test_cells_cannot_be_added_or_removed_once_there_are_submissions(again):
    files = [*again.glob("gradebook/*/toy/*"), *again.glob("exercises/toy/*")]
    before = {path: path.read_bytes() for path in files}
    for source in (HEAD + DOUBLE + WRITTEN, SOURCE + DOUBLE.replace("double", "twice")):
        (again / "solutions" / "toy.py").write_text(source)
        result = run("release")
        assert result.exit_code == 2
        assert "Nothing was changed" in result.output
        assert {path: path.read_bytes() for path in files} == before
    assert len(before) == 3
    assert "] right: unchanged: graded, 4 points" in run("grade", "toy").output


def test_bad_arguments_are_one_clear_line(tmp_path_factory, tmp_path, monkeypatch):
    monkeypatch.chdir(released_repository(tmp_path_factory, tmp_path))
    for arguments, says in (
        (("grade", "nothing"), "'nothing' is not released in"),
        (("grade", "toy"), "submissions go to submitted/STUDENT/toy/toy.ipynb"),
        (("grade", "toy", "--gradebook", "other"), "(released: none)"),
    ):
        result = run(*arguments)
        assert (result.exit_code, len(result.output.splitlines())) == (2, 1)
        assert says in result.output
    assert not (tmp_path / "other").exists()
    (tmp_path / "gradebook" / "submitted").mkdir()
    assert "holds no student's folder" in run("grade", "toy").output
    (tmp_path / "gradebook" / "gradebook.db").write_bytes(b"no database" * 1000)
    result = run("grade", "toy")
    assert result.exit_code == 2
    assert "cannot be opened" in result.output


def test_plain_nbgrader_gives_the_same_scores_and_pages(again):
    shutil.rmtree(again / "gradebook" / "submitted" / "killed")
    submit(again, "test-deleted", fill(released(again), RIGHT, ("test_double",)))
    assert run("grade", "toy").exit_code == 0
    want = {name: row["score"] for name, row in grades(again).items() if row["status"] == "graded"}
    with database(again) as gradebook:
        for submission in gradebook.assignment_submissions("toy"):
            gradebook.remove_submission("toy", submission.student.id)
    shutil.rmtree(again / "gradebook" / "autograded")
    shutil.rmtree(again / "gradebook" / "feedback")
    for command in ("autograde", "generate_feedback"):
        line = [sys.executable, "-m", "nbgrader", command, "toy"]
        done = subprocess.run(line, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
    with database(again) as gradebook:
        scores = {s.student.id: s.score for s in gradebook.assignment_submissions("toy")}
    assert scores == {name: float(score) for name, score in want.items()}
    assert scores == {"right": 4, "identity": 1, "blank": 0, "test-deleted": 4}
    assert "421" not in feedback(again, "identity")


def test_installed_command_works_by_its_full_path_alone(again):
    command = Path(sys.executable).parent / "attncourse"
    environment = {**os.environ, "PATH": "/usr/bin:/bin"}
    line = [command, "release", "--gradebook", "new"]
    done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert (again / "new" / "gradebook.db").is_file()


def test_formgrader_shows_the_class(again):
    """The real page of nbgrader, in a real Jupyter server started in the repository."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    line = [sys.executable, "-m", "jupyter", "server", "--no-browser", f"--port={port}", "--allow-root"]
    line += ["--IdentityProvider.token=", "--ServerApp.port_retries=0"]
    server = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                answer = urlopen(f"http://127.0.0.1:{port}/formgrader/api/submissions/toy", timeout=30)
                break
            except URLError:
                assert server.poll() is None, "the server did not start"
                assert time.monotonic() < deadline, "the server did not answer"
                time.sleep(0.2)
        submissions = {item["student"]: item for item in json.load(answer)}
        assert submissions["right"]["score"] == 4
        assert submissions["right"]["needs_manual_grade"] is True
        assert submissions["killed"]["autograded"] is False
        page = urlopen(f"http://127.0.0.1:{port}/formgrader/submissions/{notebook_id(again, 'identity')}/")
        assert "check_double(double, x=421)" in BeautifulSoup(page.read(), "html.parser").text
    finally:
        server.terminate()
        server.wait(30)


def notebook_id(repository: Path, student: str) -> str:
    with database(repository) as gradebook:
        return gradebook.find_submission_notebook("toy", "toy", student).id


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32-be"])
def test_a_notebook_is_read_in_any_unicode_encoding(encoding):
    text = nbformat.writes(nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("注意力")]))
    assert parse_notebook(text.encode(encoding)).cells[0].source == "注意力"


def test_old_notebooks_are_read():
    cell = {
        "cell_type": "code",
        "input": "1",
        "outputs": [],
        "language": "python",
        "collapsed": False,
        "metadata": {},
    }
    old = {
        "nbformat": 3,
        "nbformat_minor": 0,
        "metadata": {},
        "worksheets": [{"cells": [cell], "metadata": {}}],
    }
    assert parse_notebook(json.dumps(old).encode()).cells[0].source == "1"


def test_only_text_and_pictures_of_a_cell_are_taken():
    code = nbformat.v4.new_code_cell(
        "1", metadata={"tags": ["skip-execution"], "nbgrader": {"grade_id": "a"}}
    )
    code.outputs = [nbformat.v4.new_output("stream", text="100 points")]
    text = nbformat.v4.new_markdown_cell(
        "![](attachment:a.png)", attachments={"a.png": {"image/png": "AAAA"}}
    )
    notebook = nbformat.v4.new_notebook(cells=[code, text], metadata={"title": "mine"})
    assert parse_notebook(nbformat.writes(notebook).encode()).metadata == {}
    code, text = parse_notebook(nbformat.writes(notebook).encode()).cells
    assert (code.source, code.outputs, code.metadata) == ("1", [], {"nbgrader": {"grade_id": "a"}})
    assert text.attachments == {"a.png": {"image/png": "AAAA"}}


@pytest.mark.parametrize(
    "mark", [{}, None, [], "x", {"grade_id": 3}, {"grade_id": "b"}, {"grade_id": "a", "grade": 7}]
)
def test_metadata_comes_from_the_release(mark):
    given = [
        nbformat.v4.new_code_cell("", metadata={"nbgrader": {"grade_id": name, "points": 1}}) for name in "za"
    ]
    sent = [nbformat.v4.new_code_cell("mine", metadata={"nbgrader": m}) for m in ({"grade_id": "z"}, mark)]
    notebook = nbformat.v4.new_notebook(cells=sent)
    notes = restore_cells(notebook, nbformat.v4.new_notebook(cells=given))
    marks = [cell.metadata.get("nbgrader") for cell in notebook.cells if "nbgrader" in cell.metadata]
    assert marks == [{"grade_id": "z", "points": 1}, {"grade_id": "a", "points": 1}]
    kept = mark == {"grade_id": "a", "grade": 7}
    assert notes == ([] if kept else ["deleted cells were put back: a"])


def test_deleted_cells_return_to_their_places():
    cells = [nbformat.v4.new_code_cell(name, metadata={"nbgrader": {"grade_id": name}}) for name in "abcde"]
    kept = [nbformat.v4.new_code_cell("mine"), copy.deepcopy(cells[1]), copy.deepcopy(cells[3])]
    notebook = nbformat.v4.new_notebook(cells=kept)
    notes = restore_cells(notebook, nbformat.v4.new_notebook(cells=cells))
    assert notes == ["deleted cells were put back: a, c, e"]
    assert [cell.source for cell in notebook.cells] == ["a", "mine", "b", "c", "d", "e"]


def test_text_that_cannot_be_stored_is_unreadable():
    with pytest.raises(Unreadable, match="damaged notebook: UnicodeEncodeError"):
        parse_notebook(
            rb'{"cells":[{"cell_type":"raw","metadata":{},"source":"\ud800"}],"nbformat":4,"metadata":{}}'
        )
