"""Write the bibliography as a list whose entries are list items.

docutils gives them the role ``doc-biblioentry``, which ARIA has deprecated and which may not stand in a list.
"""

from docutils import nodes


def _is_citation(node: nodes.Node | None) -> bool:
    return isinstance(node, nodes.citation)


def visit_citation(writer, node: nodes.citation) -> None:
    if not _is_citation(node.previous_sibling()):
        writer.body.append('<div role="list" class="citation-list">\n')
    writer.body.append(writer.starttag(node, "div", classes=["citation"], role="listitem"))


def depart_citation(writer, node: nodes.citation) -> None:
    writer.body.append("</div>\n")
    if not _is_citation(node.next_node(descend=False, siblings=True)):
        writer.body.append("</div>\n")


def setup(app) -> dict[str, bool]:
    """Registers the two functions with Sphinx."""
    app.add_node(nodes.citation, override=True, html=(visit_citation, depart_citation))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
