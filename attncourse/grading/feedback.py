"""Feedback pages: no hidden test, nothing that a learner wrote and that would run, no use of the network."""

import re
from html import escape, unescape
from pathlib import Path
from xml.etree import ElementTree

import bleach
from bs4 import BeautifulSoup
from jinja2 import pass_context
from jinja2.runtime import Context
from latex2mathml.converter import convert_to_element
from nbconvert.exporters import HTMLExporter
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbformat import NotebookNode
from nbgrader.api import Gradebook
from nbgrader.preprocessors import ClearHiddenTests, NbGraderPreprocessor
from nbgrader.utils import is_grade, is_solution
from traitlets.config import Config

TAGS = bleach.ALLOWED_TAGS | {
    *("h1", "h2", "h3", "h4", "h5", "h6", "p", "br", "hr", "div", "span", "pre", "img", "details", "summary"),
    *("table", "thead", "tbody", "tr", "th", "td", "dl", "dt", "dd", "sub", "sup", "ins", "del"),
}


def _harmless_link(tag: str, name: str, value: str) -> bool:
    return name == "title" or (
        name == "href" and value.lower().startswith(("http:", "https:", "mailto:", "#"))
    )


def _stored_picture(tag: str, name: str, value: str) -> bool:
    return name == "alt" or (name == "src" and value.lower().startswith("data:image/"))


ATTRIBUTES = {
    "*": ["class", "id"],
    "a": _harmless_link,
    "img": _stored_picture,
    "td": ["align"],
    "th": ["align"],
}
# $$...$$, $...$ and \begin{...}...\end{...}: the forms that nbconvert's Markdown leaves in its HTML.
FORMULA = re.compile(r"\$\$(.+?)\$\$|\$(.+?)\$|(\\begin\{([a-z]+\*?)\}.*?\\end\{\4\})", re.DOTALL)
LONGEST_FORMULA = 2000  # characters
MATH_ATTRIBUTES = {
    *("display", "displaystyle", "scriptlevel", "mathvariant", "accent", "accentunder", "movablelimits"),
    *("stretchy", "fence", "form", "separator", "lspace", "rspace", "minsize", "maxsize", "width", "height"),
    *("depth", "linethickness", "columnalign", "columnspacing", "rowspacing", "columnlines", "rowlines"),
}


class FeedbackPage(HTMLExporter):
    """Writes a notebook with its marks as one HTML page, with the template in `feedback_page/`."""

    @property
    def default_config(self) -> Config:
        """The exporter's settings. They win over those that nbgrader makes for every `HTMLExporter`."""
        own = {"template_name": "feedback_page", "extra_template_basedirs": [str(Path(__file__).parent)]}
        config = super().default_config
        config.merge(Config(FeedbackPage=own))
        return config


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


def mathml(tex: str, display: str) -> str:
    """Converts a formula to MathML, which a browser shows without a script.

    Args:
        tex: the formula, without its delimiters.
        display: "inline" or "block".

    Returns:
        HTML that only shows: the converter passes on commands that set links and styles, and these are taken
        out. A formula that cannot be converted stands there as it was written, as code.
    """
    try:
        if len(tex) > LONGEST_FORMULA:
            raise ValueError("too long")
        known = tex.replace("{aligned}", "{align*}")  # the converter's name for it
        formula = convert_to_element(known, display=display)
        for element in formula.iter():
            element.text = unescape(element.text or "")  # the converter writes symbols as references
            if "\\" in element.text or element.text == "&":
                raise ValueError("the converter does not know a command")
            element.attrib = {k: v for k, v in element.attrib.items() if k in MATH_ATTRIBUTES}
        return ElementTree.tostring(formula, encoding="unicode", short_empty_elements=False)
    except Exception:  # the converter raises many kinds, for an input that a learner wrote
        return f"<code>{escape(tex.strip())}</code>"


def _show_formulas(html: str) -> str:
    """Converts the formulas in the text of clean HTML, but not those in code."""
    page = BeautifulSoup(html, "html.parser")
    for text in page.find_all(string=FORMULA):
        if not text.find_parent(["code", "pre"]):
            shown = FORMULA.sub(
                lambda found: mathml(
                    unescape(found[1] or found[2] or found[3]), "inline" if found[2] else "block"
                ),
                escape(text, quote=False),
            )
            text.replace_with(BeautifulSoup(shown, "html.parser"))
    return str(page)


@pass_context
def safe_markdown(context: Context, source: str) -> str:
    """Renders Markdown to HTML without scripts, forms, frames, styles, or pictures from elsewhere.

    Args:
        context: what the page's template knows; its cell may hold pictures.
        source: what stands in a Markdown cell or in a comment; formulas become MathML.
    """
    pictures = context.get("cell", {}).get("attachments", {})
    renderer = IPythonRenderer(escape=False, attachments=pictures, exclude_anchor_links=True)
    markdown = MarkdownWithMath(renderer=renderer)
    try:
        html = markdown.render(source)
    except Exception:  # a picture is not stored in the cell, or damaged
        html = markdown.render(source.replace("attachment:", ""))
    return _show_formulas(
        bleach.clean(html, tags=TAGS, attributes=ATTRIBUTES, protocols={"http", "https", "mailto", "data"})
    )
