"""How the book shows the library: its code in the chapters, its docstrings on the pages of the reference.

`literalinclude` gets the option ``without-docstring``: the chapter itself says what the function does. Fields
of a NamedTuple are left out as members, since the docstring of the class lists them. Sphinx writes a long
signature as a list of definitions without terms, which is no valid list; here it becomes lines.
"""

import ast
import re
from collections import namedtuple
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.directives.code import LiteralInclude


def without_docstring(code: str) -> str:
    """Gives the source of one function without its docstring."""
    docstring = ast.parse(code).body[0].body[0]
    lines = code.splitlines(keepends=True)
    return "".join(lines[: docstring.lineno - 1] + lines[docstring.end_lineno :])


class LibraryCode(LiteralInclude):
    option_spec: ClassVar = {**LiteralInclude.option_spec, "without-docstring": directives.flag}

    def run(self) -> list[nodes.Node]:
        found = super().run()
        if "without-docstring" not in self.options:
            return found
        for block in found:
            if isinstance(block, nodes.literal_block):
                block.rawsource = without_docstring(block.rawsource)
                block.children = [nodes.Text(block.rawsource)]
        return found


FIELD = type(namedtuple("Example", "field").field)


def skip_fields(app, what: str, name: str, member: object, skip: bool, options: object) -> bool | None:
    """Leaves out the fields of NamedTuples, and all else to autodoc."""
    return True if isinstance(member, FIELD) else None


def signatures_as_lines(app, page: str, template: str, context: dict, doctree: object) -> None:
    """Writes each argument of a long signature as a line of its own."""

    def lines(signature: re.Match) -> str:
        inside = re.sub(r"<(/?)dl>", r"<\1span>", signature[0])
        return inside.replace("<dd>", '<span class="sig-line">').replace("</dd>", "</span>")

    if "body" in context:
        context["body"] = re.sub(r'<dt class="sig.*?</dt>', lines, context["body"], flags=re.DOTALL)


def setup(app) -> dict[str, bool]:
    """Registers all of it with Sphinx."""
    app.add_directive("literalinclude", LibraryCode, override=True)
    app.connect("autodoc-skip-member", skip_fields)
    app.connect("html-page-context", signatures_as_lines)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
