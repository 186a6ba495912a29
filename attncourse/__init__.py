"""A course on the attention mechanism: its mathematics, its checks, and its grader."""

from importlib.metadata import version

__version__ = version("attncourse")
