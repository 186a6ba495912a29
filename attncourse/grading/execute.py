"""Running a learner's notebook: unexecuted cells in, executed cells out. No scores, no database."""

from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from nbgrader.preprocessors import Execute
from traitlets import Integer


class CellStopped(Exception):
    """A cell ended the Python process, or could not be stopped: what came after it never ran."""


def describe(cell: NotebookNode, index: int) -> str:
    """Names a cell for a person: its place in the notebook (from 1), and its grade id."""
    grade_id = cell.metadata.get("nbgrader", {}).get("grade_id")
    return f"cell {index + 1}" + (f" ({grade_id})" if grade_id else "")


def timed_out(cell: NotebookNode) -> bool:
    """Says whether a cell was interrupted because it ran too long."""
    return any(output.get("ename") == "CellTimeoutError" for output in cell.get("outputs", []))


class RunCells(Execute):
    """nbgrader's `Execute`, which names the cell that it cannot go on from, and stores a bounded output.

    The course's `nbgrader_config.py` puts it in the place of `Execute`; another way to run notebooks would go
    there too.
    """

    output_limit = Integer(1_000_000, help="Characters of output that are kept for each cell.").tag(
        config=True
    )

    def preprocess_cell(self, cell, resources, index):
        """Runs one cell.

        Raises:
            CellStopped: the Python process ended, or the cell went on after the interrupt.
        """
        self._characters = 0
        try:
            return super().preprocess_cell(cell, resources, index)
        except DeadKernelError as error:
            raise CellStopped(f"the Python process ended at {describe(cell, index)}") from error
        except CellTimeoutError as error:
            raise CellStopped(
                f"{describe(cell, index)} ran too long or wrote too much, and could not be interrupted"
            ) from error

    def on_cell_executed(self, **kwargs):
        """Notices a cell that called `exit()`: the process is about to end."""
        super().on_cell_executed(**kwargs)
        payload = kwargs["execute_reply"]["content"].get("payload", [])
        if any(item.get("source") == "ask_exit" for item in payload):
            raise DeadKernelError("The cell called exit()")

    def output(self, outs, msg, display_id, cell_index):
        """Stores one output of the running cell, unless the cell has used up its limit.

        An error that is dropped here is still recorded: nbgrader takes it from the reply of the kernel.
        """
        self._characters += len(str(msg["content"]))
        if self._characters > self.output_limit:
            return None
        return super().output(outs, msg, display_id, cell_index)
