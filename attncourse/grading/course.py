"""The folders, the settings and the database of a course, as nbgrader knows them."""

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click
from nbgrader.api import Gradebook
from nbgrader.coursedir import CourseDirectory
from sqlalchemy.exc import SQLAlchemyError
from traitlets.config import Config, PyFileConfigLoader
from traitlets.log import get_logger

CONFIG_FILE = "nbgrader_config.py"


class CourseError(click.ClickException):
    """The command cannot run at all; the message says why. The exit status is 2."""

    exit_code = 2


@dataclass(frozen=True)
class Course:
    """A course: the repository with its sources, and the gradebook folder that nbgrader works in."""

    repository: Path
    gradebook: Path
    config: Config

    def directory(self, topic: str, student: str = "*", **settings: str) -> CourseDirectory:
        """Returns nbgrader's view of the gradebook folder, for one topic.

        Args:
            topic: the topic, which is both the assignment and the notebook of nbgrader.
            student: name of the student's folder; "*" for all.
            **settings: other traits of `CourseDirectory`.
        """
        return CourseDirectory(config=self.config, assignment_id=topic, student_id=student, **settings)

    def folder(self, step: str, topic: str, student: str = ".") -> Path:
        """Returns the folder of a topic at a step: source, release, submitted, ..."""
        return self.gradebook / step / student / topic

    def database(self) -> Gradebook:
        """Opens the database of grades; use it in a `with` statement.

        Raises:
            CourseError: it cannot be opened.
        """
        url = self.directory("").db_url
        try:
            return Gradebook(url, self.config.CourseDirectory.course_id)
        except SQLAlchemyError as error:
            raise CourseError(f"the database {url} cannot be opened: {error}") from error


def unusable(name: str) -> bool:
    """Says whether nbgrader cannot find a file with this name: it takes names as patterns."""
    return bool(set("[]*?") & set(name)) or name != name.strip() or not name.isprintable()


def load_course(gradebook: str | None = None) -> Course:
    """Reads the settings of the course in the current folder.

    Args:
        gradebook: folder for the gradebook; None for the one that `nbgrader_config.py` names.

    Raises:
        CourseError: there is no `nbgrader_config.py` here, or nbgrader cannot work in the folder.
    """
    repository = Path.cwd()
    if not (repository / CONFIG_FILE).is_file():
        raise CourseError(
            f"no {CONFIG_FILE} in {repository}; run this in the top folder of the course's repository"
        )
    config = PyFileConfigLoader(CONFIG_FILE, path=str(repository)).load_config()
    if gradebook is not None:
        config.CourseDirectory.root = str(Path(gradebook).resolve())
    root = Path(config.CourseDirectory.root)
    if unusable(str(root)):
        raise CourseError(f"nbgrader cannot work in {str(root)!r}; use a path without [ ] * ?")
    # nbgrader starts `alembic` by name; it lies beside this Python, which may not be on PATH.
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return Course(repository, root, config)


class LastError(logging.Handler):
    """Keeps the last exception that nbgrader was handling when it wrote to its log."""

    error: BaseException | None = None

    def emit(self, record: logging.LogRecord) -> None:
        self.error = sys.exc_info()[1] or self.error


@contextmanager
def nbgrader_log(course: Course) -> Iterator[LastError]:
    """Sends nbgrader's log to `nbgrader.log` in the gradebook folder, away from the terminal.

    Yields:
        A handler whose `error` is the last exception that nbgrader caught and logged, or None.
    """
    log, last = get_logger(), LastError()
    file = logging.FileHandler(course.gradebook / "nbgrader.log", mode="w", encoding="utf-8")
    file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    handlers, propagate, level = log.handlers, log.propagate, log.level
    log.handlers, log.propagate = [last, file], False
    log.setLevel(logging.INFO)
    try:
        yield last
    finally:
        file.close()
        log.handlers, log.propagate = handlers, propagate
        log.setLevel(level)
