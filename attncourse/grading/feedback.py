"""What a feedback page must not hold: hidden tests, and anything a learner wrote that would run."""

import bleach
from jinja2 import pass_context
from jinja2.runtime import Context
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbformat import NotebookNode
from nbgrader.api import Gradebook
from nbgrader.preprocessors import ClearHiddenTests, NbGraderPreprocessor
from nbgrader.utils import is_grade, is_solution

TAGS = bleach.ALLOWED_TAGS | {
    *("h1", "h2", "h3", "h4", "h5", "h6", "p", "br", "hr", "div", "span", "pre", "img", "details", "summary"),
    *("table", "thead", "tbody", "tr", "th", "td", "dl", "dt", "dd", "sub", "sup", "ins", "del"),
}


def _harmless_link(tag: str, name: str, value: str) -> bool:
    return name == "title" or (
        name == "href" and value.lower().startswith(("http:", "https:", "mailto:", "#"))
    )


ATTRIBUTES = {
    "*": ["class", "id"],
    "a": _harmless_link,
    "img": ["alt", "src"],
    "td": ["align"],
    "th": ["align"],
}


class HideTests(ClearHiddenTests):
    """Takes the hidden tests out of test cells, and the lines of the test out of their tracebacks."""

    def preprocess_cell(self, cell: NotebookNode, resources, cell_index: int):
        """Leaves the message of a failed test, and the public part of its source."""
        if is_grade(cell) and not is_solution(cell):
            cell, resources = super().preprocess_cell(cell, resources, cell_index)
            for output in cell.get("outputs", []):
                if output.output_type == "error":
                    output.traceback = [f"{output.ename}: {output.evalue}"]
        return cell, resources


class TellPending(NbGraderPreprocessor):
    """Says on the page that a person has yet to mark an answer; nbgrader alone would just show 0 points."""

    def preprocess_cell(self, cell: NotebookNode, resources, cell_index: int):
        """Adds a comment to a written answer without a mark."""
        if is_grade(cell) and is_solution(cell):
            at = resources["nbgrader"]
            with Gradebook(at["db_url"]) as gradebook:
                mark = gradebook.find_grade(
                    cell.metadata.nbgrader.grade_id, at["notebook"], at["assignment"], at["student"]
                )
                waiting = mark.auto_score is None and mark.manual_score is None
            if waiting:
                cell.metadata.nbgrader["comment"] = (
                    "A person has yet to mark this answer. It counts as 0 now."
                )
        return cell, resources


@pass_context
def safe_markdown(context: Context, source: str) -> str:
    """Renders Markdown to HTML without scripts, forms, frames or styles.

    Args:
        context: what the page's template knows; its cell may hold pictures.
        source: what stands in a Markdown cell or in a comment; formulas stay as they are.
    """
    pictures = context.get("cell", {}).get("attachments", {})
    html = MarkdownWithMath(renderer=IPythonRenderer(escape=False, attachments=pictures)).render(source)
    return bleach.clean(html, tags=TAGS, attributes=ATTRIBUTES, protocols={"http", "https", "mailto", "data"})
