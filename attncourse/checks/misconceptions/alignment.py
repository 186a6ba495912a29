"""Misconceptions of the set `alignment`."""

from attncourse.checks.misconceptions.entry import Misconception

MISCONCEPTIONS: dict[str, Misconception] = {}
