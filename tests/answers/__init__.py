"""Answers that learners give: right ones in many styles, and wrong ones, each with the name of its mistake.

One file a topic. To add an answer found in the wild, write the function under `@right`, or under
`@wrong("name-in-the-catalogue")`. Each must stand alone: its text is pasted into notebooks.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Answer:
    """A function that a learner might hand in; `misconception` is None if it is right."""

    function: Callable
    misconception: str | None

    @property
    def task(self) -> str:
        return self.function.__name__

    @property
    def source(self) -> str:
        """The text of the function, without the decorator."""
        return inspect.getsource(self.function).partition("\n")[2]


class Answers(list[Answer]):
    """All answers to the tasks of one topic."""

    def right(self, function: Callable) -> Callable:
        self.append(Answer(function, None))
        return function

    def wrong(self, misconception: str) -> Callable[[Callable], Callable]:
        def register(function: Callable) -> Callable:
            self.append(Answer(function, misconception))
            return function

        return register

    def find(self, task: str, misconception: str | None = None) -> Answer:
        """Give the first answer to a task that is right, or that makes this mistake."""
        return next(a for a in self if a.task == task and a.misconception == misconception)
