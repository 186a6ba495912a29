"""The judge of library, solution and learner: one module a topic, `check_<function>(fn)` in each.

Checks import torch and nothing of the library, so that a bug in the library can never bless the same bug in a
learner's answer.
"""
