"""What an instructor reads after grading: a table in the terminal, `grades-TOPIC.csv`, and `report.html`."""

import csv
from collections import Counter
from pathlib import Path
from urllib.parse import quote

from jinja2 import Environment, PackageLoader

from attncourse.grading.course import Course
from attncourse.grading.grade import Row, State, feedback_page, printable, questions


def pending(row: Row) -> list[str]:
    """Lists the questions of a graded submission that a person has yet to mark."""
    return [name for name, points in row.points.items() if points is None and row.status == "graded"]


def reason(row: Row) -> str:
    """Says in one line what an instructor should know about a row."""
    waiting = f"waits for a mark by a person: {', '.join(pending(row))}" if pending(row) else ""
    return "; ".join(text for text in (row.reason, waiting) if text)


def cell(value: object) -> str:
    """Makes a text that a spreadsheet shows and never computes.

    A text that would start a formula gets an apostrophe in front (OWASP, "CSV Injection").
    """
    text = "" if value is None else f"{value:g}" if isinstance(value, float) else printable(value)
    return f"'{text}" if text.startswith(tuple("=+-@\t\r")) else text


def write_csv(course: Course, topic: str, rows: list[Row]) -> Path:
    """Writes `grades-TOPIC.csv`: one row a learner, one column a question, every cell quoted.

    Points that nobody has given are empty, and so is the score of a learner without a current grade.
    """
    path = course.gradebook / f"grades-{topic}.csv"
    columns = questions(course, topic)
    with path.open("w", encoding="utf-8-sig", newline="") as file:  # the mark tells Excel that this is UTF-8
        writer = csv.writer(file, quoting=csv.QUOTE_ALL)
        writer.writerow(["student", "status", "score", "max", *columns, "reason"])
        for row in rows:
            points = [cell(row.points.get(name)) for name in columns]
            maximum = float(sum(columns.values()))
            writer.writerow(
                [cell(row.student), row.status, cell(row.score), cell(maximum), *points, cell(reason(row))]
            )
    return path


def write_report(course: Course) -> Path:
    """Writes `report.html`: one page that needs no network, with a section for each topic."""
    topics = []
    for topic, rows in sorted(State(course).topics.items()):
        page = {
            name: quote(str(feedback_page(course, topic, name).relative_to(course.gradebook)))
            for name, row in rows.items()
            if row.status == "graded" and feedback_page(course, topic, name).exists()
        }
        names = Counter(name for row in rows.values() for name in row.misconceptions)
        topics.append(
            {
                "name": topic,
                "questions": questions(course, topic),
                "maximum": sum(questions(course, topic).values()),
                "rows": [rows[student] for student in sorted(rows)],
                "page": page,
                "statuses": Counter(row.status for row in rows.values()),
                "misconceptions": sorted(names.items(), key=lambda item: (-item[1], item[0])),
            }
        )
    loader = PackageLoader("attncourse.grading", "")
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"points": cell, "printable": printable}
    path = course.gradebook / "report.html"
    html = environment.get_template("report.html.j2").render(topics=topics, reason=reason)
    path.write_text(html, encoding="utf-8")
    return path


def table(rows: list[Row], maximum: float) -> str:
    """Returns the rows as lines for a terminal."""
    width = max(len(printable(row.student)) for row in rows)
    lines = [f"{'student':<{width}}  {'status':<10}  {'score':>9}  note"]
    for row in rows:
        score = "" if row.score is None else f"{row.score:g} / {maximum:g}"
        lines.append(
            f"{printable(row.student):<{width}}  {row.status:<10}  {score:>9}  {reason(row)}".rstrip()
        )
    return "\n".join(lines)
