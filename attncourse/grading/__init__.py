"""The instructor's tools, over nbgrader. Nothing outside this package imports it, except the command line."""
