"""Make the sample class in `examples/class/`: eight submissions of `qkv`, each named for what it is.

Run in the top folder of the repository: `python -m examples.make_class`. The answers come from
`tests/answers/qkv.py`, the notebook from `exercises/`. A rerun writes the same bytes.
"""

import copy
import sys
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from tests.answers.qkv import answers

TASKS = (
    "scaled_dot_scores",
    "masked_softmax",
    "weighted_sum",
    "attend",
    "cosine_scores",
    "softmax_with_temperature",
    "entropy",
    "linear_attention",
    "sparsemax",
)
IMPORTS = "import math\n\nfrom torch.nn import functional as F\n\n\n"
WRITTEN = "The key with the weight 0.8 has the value (0, 0), the other has (5, 5). The context is (1, 1)."
END_THE_PROCESS = "import os\n\nos._exit(1)\n"


def submissions(released: NotebookNode) -> dict[str, str]:
    """Maps the name of each student's folder to the text of the notebook in it."""
    right = {task: IMPORTS + answers.find(task).source for task in TASKS} | {"what_a_weight_says": WRITTEN}

    def wrong(mistake: str, *tasks: str) -> dict[str, str]:
        return right | {task: IMPORTS + answers.find(task, mistake).source for task in tasks}

    return {
        "right": _fill(released, right),
        "partly-right": _fill(released, {task: right[task] for task in TASKS[:3]}),
        "no-scale": _fill(released, wrong("no-scale", "scaled_dot_scores", "attend")),
        "softmax-over-queries": _fill(released, wrong("softmax-over-queries", "masked_softmax", "attend")),
        "blank": _fill(released, {}),
        "test-cell-deleted": _fill(released, right, without="test_masked_softmax"),
        "kernel-killed": _fill(released, right | {"attend": END_THE_PROCESS}),
        "unreadable": _fill(released, right)[:5000],
    }


def _fill(released: NotebookNode, texts: dict[str, str], without: str = "") -> str:
    notebook = copy.deepcopy(released)
    notebook.cells = [cell for cell in notebook.cells if cell.id != without]
    for cell in notebook.cells:
        cell.source = texts.get(cell.id, cell.source)
    return nbformat.writes(notebook) + "\n"


def main(folder: Path = Path("examples/class")) -> None:
    """Writes the class into a folder."""
    released = nbformat.read(Path("exercises/qkv/qkv.ipynb"), as_version=4)
    for student, text in submissions(released).items():
        path = folder / student / "qkv" / "qkv.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
