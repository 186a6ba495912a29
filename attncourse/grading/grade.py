"""Grading a class: one submission after the other, each ending as one row, whatever is in it."""

import hashlib
import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import click
import nbformat
from filelock import FileLock, Timeout
from nbformat import NotebookNode
from nbgrader.api import MissingEntry
from nbgrader.converters import Autograde, GenerateFeedback
from nbgrader.converters.base import NbGraderException
from nbgrader.utils import is_grade, is_solution, rmtree

from attncourse.grading.course import CONFIG_FILE, Course, CourseError, nbgrader_log, unusable
from attncourse.grading.execute import CellStopped, describe, timed_out
from attncourse.grading.stage import Unreadable, find_notebook, read_regular, stage

UNSANDBOXED = (
    "Submissions run unsandboxed on this machine, with your rights: grade only learners whom you trust."
)
MISCONCEPTION = re.compile(r"\[misconception: ([a-z-]+)\]")


@dataclass
class Row:
    """What is known of one learner's submission of one topic; `grading.json` keeps it.

    Attributes:
        student: name of the folder.
        status: graded, failed, missing or unreadable; "started" if the grader was stopped in the middle.
        reason: why there is no score, or what a person should know about the score.
        fingerprint: digest of all that the scores depend on.
        pages: digest of the marks and comments that the feedback page shows.
        misconceptions: names of the misconceptions that the checks recognised.
        stopped: whether a cell of the learner ended the run, which another run would repeat.
        answers: digest of each written answer, with its pictures, when it was graded last.
        points: points of each question; None where a person has yet to give them.
    """

    student: str
    status: str = "started"
    reason: str = ""
    fingerprint: str = ""
    pages: str = ""
    misconceptions: list[str] = field(default_factory=list)
    stopped: bool = False
    answers: dict[str, str] = field(default_factory=dict)
    points: dict[str, float | None] = field(default_factory=dict)

    @property
    def score(self) -> float | None:
        """The sum of the points that are known; None without a current grade."""
        return sum(p for p in self.points.values() if p is not None) if self.status == "graded" else None


class State:
    """The rows of all topics, in `grading.json`, written after each submission: a stopped run can go on."""

    def __init__(self, course: Course):
        self.path = course.gradebook / "grading.json"
        try:
            stored = json.loads(self.path.read_text(encoding="utf-8")) if self.path.exists() else {}
            self.topics = {
                topic: {name: Row(**row) for name, row in rows.items()} for topic, rows in stored.items()
            }
        except (ValueError, TypeError, AttributeError) as error:
            raise CourseError(
                f"{self.path} is damaged; delete it to grade everything again ({error})"
            ) from error

    def save(self) -> None:
        """Writes the file in one step: a reader sees the old state or the new one."""
        content = {
            topic: {name: asdict(row) for name, row in rows.items()} for topic, rows in self.topics.items()
        }
        temporary = self.path.with_suffix(".tmp")
        temporary.write_text(json.dumps(content, indent=1), encoding="utf-8")
        temporary.replace(self.path)


def questions(course: Course, topic: str) -> dict[str, float]:
    """Maps the graded cells of a topic, in the order of the notebook, to their points."""
    notebook = nbformat.read(course.folder("source", topic) / f"{topic}.ipynb", as_version=4)
    return {
        c.metadata.nbgrader.grade_id: float(c.metadata.nbgrader.points) for c in notebook.cells if is_grade(c)
    }


def printable(text: str, length: int = 300) -> str:
    """Makes one line, safe for a terminal, of what a learner or an error message wrote."""
    line = " ".join(str(text).split())
    line = line if line.isprintable() else ascii(line)[1:-1]
    return line if len(line) <= length else line[: length - 1] + "…"


def grade(course: Course, topic: str) -> list[Row]:
    """Grades what is new or changed in `submitted/`, and tells its progress.

    What failed is tried again, unless a cell of the learner was the reason.

    Args:
        course: the course.
        topic: a released topic.

    Returns:
        One row for each learner who submitted or who is in the gradebook, in the order of their names.

    Raises:
        CourseError: the topic is not released in this gradebook, or nothing was submitted.
    """
    students = _students(course, topic)
    with _only_grader(course):
        return _grade_all(course, topic, students)


@contextmanager
def _only_grader(course: Course) -> Iterator[None]:
    """Holds the lock of the gradebook: two graders at once would mix up their scores."""
    lock = FileLock(course.gradebook / "grading.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise CourseError(
            f"another `attncourse grade` is at work in {course.gradebook}; wait for it"
        ) from error
    try:
        yield
    finally:
        lock.release()


def _grade_all(course: Course, topic: str, students: list[str]) -> list[Row]:
    state, code = State(course), _code_digest(course, topic)
    rows = state.topics.setdefault(topic, {})
    click.echo(UNSANDBOXED)
    with nbgrader_log(course) as log:
        for number, student in enumerate(students, 1):
            click.echo(f"[{number}/{len(students)}] {printable(student)}: ", nl=False)
            start = time.monotonic()
            fingerprint = _fingerprint(course, topic, student, code)
            row = rows.get(student)
            current = row and row.fingerprint == fingerprint
            current = current and (row.stopped or _has_result(course, topic, row))
            if not current:
                answers = row.answers if row else {}
                rows[student] = row = Row(student, fingerprint=fingerprint, answers=answers)
                state.save()
            try:
                if not current:
                    _grade_student(course, topic, row)
                if row.status == "graded":
                    _read_points(course, topic, row)
                    _write_feedback(course, topic, row)
            except Unreadable as error:
                row.status, row.reason = "unreadable", printable(error)
            except Exception as error:  # whatever a notebook does to nbgrader, the next one is graded
                cause = log.error if isinstance(error, NbGraderException) and log.error else error
                row.stopped = isinstance(cause, CellStopped)
                kind = "" if row.stopped else f"{type(cause).__name__}: "
                row.status, row.reason, row.points = "failed", printable(f"{kind}{cause}"), {}
                _clear(course, topic, student)
            log.error = None
            state.save()
            result = row.status if row.score is None else f"{row.status}, {row.score:g} points"
            click.echo(f"unchanged: {result}" if current else f"{result} ({time.monotonic() - start:.1f} s)")
    for gone in rows.keys() - set(students):
        del rows[gone]
    state.save()
    return [rows[student] for student in students]


def _students(course: Course, topic: str) -> list[str]:
    """The names of all who submitted anything or are registered; an error if the topic cannot be graded."""
    submitted, released = course.gradebook / "submitted", course.gradebook / "release"
    known = {path.name for path in released.glob("*") if (path / f"{path.name}.ipynb").is_file()}
    registered = set()
    if topic in known:
        with course.database() as gradebook:
            registered = {student.id for student in gradebook.students}
            known &= {assignment.name for assignment in gradebook.assignments}
    if topic not in known:
        names = ", ".join(sorted(known)) or "none"
        raise CourseError(
            f"{topic!r} is not released in {course.gradebook} (released: {names});"
            " run `attncourse release` first, with the same --gradebook"
        )
    if not submitted.is_dir():
        raise CourseError(f"no folder {submitted}; submissions go to submitted/STUDENT/{topic}/{topic}.ipynb")
    entries = [path for path in submitted.iterdir() if not path.name.startswith(".")]
    present = {path.name for path in entries if path.is_dir()}
    for loose in sorted({path.name for path in entries} - present):
        click.echo(
            f"Not graded: {submitted / printable(loose)} lies in no student's folder;"
            f" submissions go to submitted/STUDENT/{topic}/{topic}.ipynb"
        )
    if not present | registered:
        raise CourseError(f"{submitted} holds no student's folder, and no student is registered")
    return sorted(present | registered)


def _code_digest(course: Course, topic: str) -> bytes:
    """The digest of the source notebook, and of the code and the settings that grade it."""
    package = Path(__file__).parents[1]
    files = [course.folder("source", topic) / f"{topic}.ipynb", course.repository / CONFIG_FILE]
    digest = hashlib.sha256()
    for path in files + sorted([*package.rglob("*.py"), *package.rglob("*.j2")]):
        digest.update(path.read_bytes())
    return digest.digest()


def _fingerprint(course: Course, topic: str, student: str, code: bytes) -> str:
    folder = course.folder("submitted", topic, student)
    digest = hashlib.sha256(code)
    for name in (None, "timestamp.txt"):
        try:
            path = folder / name if name else find_notebook(folder, topic)
            digest.update(path.name.encode(errors="surrogateescape") + read_regular(path))
        except Unreadable:
            digest.update(b"unreadable")
    return digest.hexdigest()


def _has_result(course: Course, topic: str, row: Row) -> bool:
    with course.database() as gradebook:
        try:
            gradebook.find_submission(topic, row.student)
        except MissingEntry:
            return False
    notebook = course.folder("autograded", topic, row.student) / f"{topic}.ipynb"
    return row.status == "graded" and notebook.is_file()


def _clear(course: Course, topic: str, student: str) -> None:
    """Let no score, notebook or page of an earlier version pass for the current one.

    Marks and comments that a person gave stay.
    """
    with course.database() as gradebook:
        try:
            submission = gradebook.find_submission(topic, student)
        except MissingEntry:
            return
        for notebook in submission.notebooks:
            for mark in notebook.grades:
                mark.auto_score, mark.needs_manual_grade = None, True
        gradebook.db.commit()
    for step in ("autograded", "feedback"):
        folder = course.folder(step, topic, student)
        if folder.exists():
            rmtree(str(folder))


def _grade_student(course: Course, topic: str, row: Row) -> None:
    """Grade one submission through nbgrader, and set the status and the reason of its row."""
    submitted = course.folder("submitted", topic, row.student)
    if not os.path.lexists(submitted):
        _clear(course, topic, row.student)
        row.status, row.reason = "missing", "nothing was submitted"
        return
    if unusable(row.student):
        raise Unreadable(
            "nbgrader cannot work with this folder's name (no [ ] * ?, no space at its ends); rename it"
        )
    _clear(course, topic, row.student)
    with course.database() as gradebook:
        gradebook.update_or_create_student(row.student)
    released = nbformat.read(course.folder("release", topic) / f"{topic}.ipynb", as_version=4)
    staged = course.folder("staged", topic, row.student)
    if staged.parents[1].exists():
        rmtree(str(staged.parents[1]))
    staged.mkdir(parents=True)
    directory = course.directory(topic, row.student, submitted_directory="staged")
    converter = Autograde(directory, config=course.config)
    converter.force = True
    try:
        notes = stage(submitted, topic, released, staged)
        converter.start()
    finally:
        rmtree(str(staged.parents[1]))
    notebook = nbformat.read(course.folder("autograded", topic, row.student) / f"{topic}.ipynb", as_version=4)
    notes += _take_back_marks(course, topic, row, notebook)
    slow = [describe(cell, i) for i, cell in enumerate(notebook.cells) if timed_out(cell)]
    if slow:
        notes.append(f"stopped because they ran too long: {', '.join(slow)}")
    failures = [
        output.evalue
        for cell in notebook.cells
        if is_grade(cell) and not is_solution(cell)
        for output in cell.get("outputs", [])
        if output.output_type == "error"
    ]
    row.misconceptions = sorted({name for text in failures for name in MISCONCEPTION.findall(text)})
    row.status, row.reason = "graded", printable("; ".join(notes))


def _take_back_marks(course: Course, topic: str, row: Row, notebook: NotebookNode) -> list[str]:
    """Take back what a person gave to a written answer whose text has changed since, and say so."""
    answers, notes = {}, []
    for cell in notebook.cells:
        if is_grade(cell) and is_solution(cell):
            text = json.dumps([cell.source, cell.get("attachments")], sort_keys=True)
            answers[cell.metadata.nbgrader.grade_id] = hashlib.sha256(text.encode()).hexdigest()
    with course.database() as gradebook:
        for name, digest in answers.items():
            if row.answers.get(name, digest) == digest:
                continue
            mark = gradebook.find_grade(name, topic, topic, row.student)
            if mark.manual_score is not None:
                notes.append(f"{name} had {mark.score:g} points before its text changed")
            mark.manual_score, mark.extra_credit = None, None
            mark.needs_manual_grade = mark.auto_score is None
            gradebook.find_comment(name, topic, topic, row.student).manual_comment = None
        gradebook.db.commit()
    row.answers = answers
    return notes


def _read_points(course: Course, topic: str, row: Row) -> None:
    """The points as the database has them now: a person may have marked since the last run."""
    with course.database() as gradebook:
        notebook = gradebook.find_submission_notebook(topic, topic, row.student)
        marks = {
            mark.name: None if mark.manual_score is None and mark.auto_score is None else float(mark.score)
            for mark in notebook.grades
        }
    row.points = {name: marks[name] for name in questions(course, topic)}


def _write_feedback(course: Course, topic: str, row: Row) -> None:
    """Write the learner's page again if it is missing, or if a mark or a comment on it has changed."""
    with course.database() as gradebook:
        notebook = gradebook.find_submission_notebook(topic, topic, row.student)
        shown = [sorted((m.name, m.score) for m in notebook.grades)]
        shown += [sorted((c.name, c.comment or "") for c in notebook.comments)]
    pages = hashlib.sha256(json.dumps([row.fingerprint, shown]).encode()).hexdigest()
    if pages != row.pages or not feedback_page(course, topic, row.student).exists():
        converter = GenerateFeedback(course.directory(topic, row.student), config=course.config)
        converter.force = True
        converter.start()
        row.pages = pages


def feedback_page(course: Course, topic: str, student: str) -> Path:
    """Returns where the feedback page of a learner is, or would be."""
    return course.folder("feedback", topic, student) / f"{topic}.html"
