"""From `solutions/TOPIC.py` to the notebook that a learner opens."""

import hashlib
import re
from collections import Counter
from pathlib import Path

import jupytext
import nbformat
from nbformat import NotebookNode
from nbgrader.api import MissingEntry
from nbgrader.converters import GenerateAssignment
from nbgrader.converters.base import NbGraderException
from nbgrader.utils import is_grade, is_locked, is_solution, is_task

from attncourse.grading.course import Course, CourseError, nbgrader_log

# With a kernel named, Jupyter asks nothing when the notebook is opened.
METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
HIDDEN_REGION = re.compile(r"### BEGIN HIDDEN TESTS\n(.*?)### END HIDDEN TESTS", re.DOTALL)


def build_notebook(text: str) -> NotebookNode:
    """Turns a source file of an exercise set into its notebook, the same one every time.

    Args:
        text: a py:percent file with nbgrader's metadata in its cell headers.

    Returns:
        The notebook with solutions and hidden tests. A graded cell has its grade id as cell id; another cell
        has an id made from its text. A test cell says in its metadata how many hidden checks it holds.
    """
    notebook = jupytext.reads(text, fmt="py:percent")
    notebook.metadata = nbformat.from_dict(METADATA)
    used = Counter()
    for cell in notebook.cells:
        cell.metadata.pop("lines_to_next_cell", None)  # jupytext's note for the way back
        digest = hashlib.sha256(cell.source.encode()).hexdigest()[:8]
        name = cell.metadata.get("nbgrader", {}).get("grade_id", f"{cell.cell_type}-{digest}")
        used[name] += 1
        cell.id = name if used[name] == 1 else f"{name}-{used[name]}"
        if is_grade(cell) and not is_solution(cell):
            hidden = "".join(HIDDEN_REGION.findall(cell.source))
            cell.metadata["tags"] = ["raises-exception"]  # "Run All" goes on past a failed check
            cell.metadata["attncourse"] = {"hidden_tests": len(re.findall(r"\bcheck_\w+\(", hidden))}
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    return notebook


def all_topics(course: Course) -> list[str]:
    """Lists the topics that have an exercise set, in the order of their names."""
    return sorted(path.stem for path in (course.repository / "solutions").glob("*.py"))


def release(course: Course, topic: str) -> Path:
    """Builds the learner's notebook of a topic, and enters the topic in the gradebook.

    Args:
        course: the course.
        topic: a topic with a file `solutions/TOPIC.py`.

    Returns:
        The notebook, `exercises/TOPIC/TOPIC.ipynb`. It is written only if it changed.

    Raises:
        CourseError: no such topic; nbgrader refuses the source; or the set of graded cells changed although
            the gradebook has submissions. Then the source, the release and the grades stay as they were.
    """
    if topic not in all_topics(course):
        known = ", ".join(all_topics(course)) or "none"
        raise CourseError(
            f"no exercise set named {topic!r}: there is no solutions/{topic}.py (known: {known})"
        )
    notebook = build_notebook((course.repository / "solutions" / f"{topic}.py").read_text(encoding="utf-8"))
    course.gradebook.mkdir(parents=True, exist_ok=True)
    _refuse_new_cells(course, topic, notebook)

    source = course.folder("source", topic) / f"{topic}.ipynb"
    released = course.folder("release", topic) / f"{topic}.ipynb"
    source.parent.mkdir(parents=True, exist_ok=True)
    extra = sorted(path.name for path in source.parent.iterdir() if path != source)
    if extra:
        raise CourseError(
            f"nbgrader would publish what lies beside {source}: {', '.join(extra)}; move it away"
        )

    before = {path: path.read_bytes() for path in (source, released) if path.exists()}
    nbformat.write(notebook, source)
    converter = GenerateAssignment(course.directory(topic), config=course.config)
    converter.force = True
    with nbgrader_log(course) as last:
        try:
            converter.start()
        except NbGraderException as error:
            for path, data in before.items():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
            raise CourseError(f"nbgrader cannot release {topic}: {last.error or error}") from error

    exercise = course.repository / "exercises" / topic / f"{topic}.ipynb"
    if not exercise.exists() or exercise.read_bytes() != released.read_bytes():
        exercise.parent.mkdir(parents=True, exist_ok=True)
        exercise.write_bytes(released.read_bytes())
    return exercise


def _refuse_new_cells(course: Course, topic: str, notebook: NotebookNode) -> None:
    """nbgrader would delete the release and then stop, if submissions exist and the graded cells differ."""
    with course.database() as gradebook:
        try:
            known = gradebook.find_notebook(topic, topic)
        except MissingEntry:
            return
        old = {
            (kind, cell.name)
            for kind in ("grade", "solution", "task", "source")
            for cell in getattr(known, f"{kind}_cells")
        }
        submissions = len(known.submissions)
    new = set()
    for cell in notebook.cells:
        kinds = {"grade": is_grade(cell), "solution": is_solution(cell), "task": is_task(cell)}
        kinds["source"] = any(kinds.values()) or is_locked(cell)
        new |= {(kind, cell.metadata.nbgrader.grade_id) for kind, holds in kinds.items() if holds}
    if submissions and old != new:
        names = ", ".join(sorted({name for _, name in old ^ new}))
        raise CourseError(
            f"{course.gradebook} holds {submissions} submissions of {topic}, and then nbgrader cannot add,"
            f" remove or retype a graded cell (different: {names}). Nothing was changed. Keep the old cells,"
            " or give another folder with --gradebook for the new version."
        )
