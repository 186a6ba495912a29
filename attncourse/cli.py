"""The command line: `attncourse get`, `check`, `release`, `grade`."""

import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from attncourse.learner import Result


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="attncourse")
def main() -> None:
    """Work with the exercises of the attention course."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # a terminal that has no √ shows a question mark


@main.command()
@click.argument("topic", required=False)
def get(topic: str | None) -> None:
    """Copy the exercise set TOPIC to the current folder.

    Work that is there already is never overwritten. Without TOPIC, the names of the sets are printed.
    """
    from attncourse.learner import exercise_sets, get_set

    if topic is None:
        click.echo("\n".join(exercise_sets()))
        return
    path = get_set(topic, Path())
    click.echo(f"{path} is ready. Open it with:  jupyter lab {path}")


@main.command()
@click.argument("notebook", type=click.Path(path_type=Path))
def check(notebook: Path) -> None:
    """Run NOTEBOOK from the top and report each of its checks.

    The exit status is 0 if all checks passed, 1 if one failed, and 2 if the notebook cannot run.
    """
    click.echo(f"Running {notebook} ...", err=True)
    from attncourse.learner import check_notebook

    results = []
    for result in check_notebook(notebook):
        results.append(result)
        _show(result)
    judged = [result for result in results if result.passed is not None]
    earned = sum(result.points for result in judged if result.passed)
    by_person = sum(result.points for result in results if result.passed is None)
    click.echo(
        f"\n{earned:g} of {sum(r.points for r in judged):g} points; {by_person:g} more are given by a person."
    )
    failed = sum(not result.passed for result in judged)
    if failed:
        click.echo(f"{failed} of {len(judged)} checks failed.")
        sys.exit(1)
    click.echo(f"All public checks passed; {sum(r.hidden for r in judged)} more run at grading.")


def _show(result: "Result") -> None:
    if result.passed is None:
        click.echo(
            f"read  {result.name:<24}   /{result.points:g}  {result.text}; read by a person at grading"
        )
    elif result.passed:
        click.echo(f"ok    {result.name:<24} {result.points:g}/{result.points:g}")
    else:
        click.echo(f"FAIL  {result.name:<24} 0/{result.points:g}\n{textwrap.indent(result.text, ' ' * 6)}")


GRADEBOOK = click.option("--gradebook", metavar="DIR", help="Folder of the gradebook.  [default: gradebook]")


@main.command()
@click.argument("topics", nargs=-1, metavar="[TOPIC]...")
@GRADEBOOK
def release(topics: tuple[str, ...], gradebook: str | None) -> None:
    """Build exercises/ from solutions/.

    All topics are built, or those that are named. Writes exercises/TOPIC/TOPIC.ipynb, and enters the topic in
    the gradebook.
    """
    from attncourse.grading import course, release

    here = course.load_course(gradebook)
    for topic in topics or release.all_topics(here):
        click.echo(f"Building {topic} ... ", nl=False)
        click.echo(release.release(here, topic))


@main.command()
@click.argument("topic")
@GRADEBOOK
def grade(topic: str, gradebook: str | None) -> None:
    """Grade every submission of TOPIC.

    A submission is gradebook/submitted/STUDENT/TOPIC/TOPIC.ipynb. Only what is new or changed is graded; what
    failed is tried again, unless the learner's own code stopped the run. Writes feedback pages,
    grades-TOPIC.csv and report.html. A submission that cannot be graded gets a row that says why, and
    the others are graded.

    Submissions run unsandboxed on this machine, with your rights: grade only learners whom you trust.

    The exit status is 0 when every submission has a row, and 2 when the command could not run at all.
    """
    from attncourse.grading import course, grade, report

    here = course.load_course(gradebook)
    rows = grade.grade(here, topic)
    paths = [report.write_csv(here, topic, rows), report.write_report(here)]
    click.echo("\n" + report.table(rows, sum(grade.questions(here, topic).values())) + "\n")
    for name, path in zip(("grades", "report"), paths, strict=True):
        click.echo(f"{name}: {path}")
