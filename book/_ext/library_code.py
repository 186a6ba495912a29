"""Give `literalinclude` the option ``without-docstring``: the chapter itself says what the function does."""

import ast
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


def setup(app) -> dict[str, bool]:
    """Registers the directive with Sphinx."""
    app.add_directive("literalinclude", LibraryCode, override=True)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
