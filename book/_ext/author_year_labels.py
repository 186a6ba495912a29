"""Label the entries of the bibliography as the text cites them, by authors and year."""

from pybtex.plugin import register_plugin
from pybtex.style.formatting.plain import Style
from pybtex.style.labels import BaseLabelStyle


class AuthorYearLabels(BaseLabelStyle):
    def format_labels(self, sorted_entries):
        for entry in sorted_entries:
            names = [" ".join(person.last_names) for person in entry.persons["author"]]
            authors = f"{names[0]} et al." if len(names) > 2 else " and ".join(names)
            yield f"{authors}, {entry.fields['year']}"


class AuthorYearStyle(Style):
    default_label_style = AuthorYearLabels


def setup(app) -> dict[str, bool]:
    """Registers the style with pybtex, for `bibtex_default_style`."""
    register_plugin("pybtex.style.formatting", "author_year", AuthorYearStyle)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
