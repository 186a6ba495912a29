"""Misconceptions of the set `restricted`."""

from attncourse.checks.misconceptions.entry import Misconception

MISCONCEPTIONS: dict[str, Misconception] = {}
