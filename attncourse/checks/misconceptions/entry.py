"""What one entry of the catalogue says."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Misconception:
    """A known wrong idea, in words for the learner. The words never contain the solution.

    Attributes:
        says: what the answer does, in place of what it should do.
        look: what to look at; completes "Look at: ".
        section: label of a section in the book. It is shown once the section is in `SECTIONS`.
    """

    says: str
    look: str
    section: str = ""
