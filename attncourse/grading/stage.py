"""Reading a submission: any file in, a clean notebook or a reason out. Nothing in it is run."""

import json
import stat
from pathlib import Path

import nbformat
from nbformat import NotebookNode, v4
from nbgrader.utils import parse_utc

LARGEST = 10_000_000  # bytes of a notebook file; an exercise set has some 30,000
NEW_CELL = {"code": v4.new_code_cell, "markdown": v4.new_markdown_cell, "raw": v4.new_raw_cell}


class Unreadable(Exception):
    """The submission cannot be graded as it is; the message says why."""


def read_regular(path: Path, largest: int = LARGEST) -> bytes:
    """Reads a file that a learner sent, unless opening it could do harm.

    Raises:
        Unreadable: it is a link, a pipe, a folder or a device, or it is too large, or it cannot be read.
    """
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode):
            raise Unreadable(f"{path.name} is not a regular file")
        if status.st_size > largest:
            raise Unreadable(f"{path.name} has {status.st_size:,} bytes; at most {largest:,} are read")
        return path.read_bytes()
    except OSError as error:
        raise Unreadable(f"{path.name} cannot be read: {error.strerror}") from error


def find_notebook(folder: Path, topic: str) -> Path:
    """Finds the notebook in a submission's folder: TOPIC.ipynb, else the only notebook there.

    Raises:
        Unreadable: the folder is a link or not a folder, or holds no notebook, or several under other names.
    """
    if folder.is_symlink() or folder.parent.is_symlink() or not folder.is_dir():
        raise Unreadable(f"{folder.name} is not a folder")
    try:
        notebooks = [path for path in folder.iterdir() if path.suffix == ".ipynb"]
    except OSError as error:
        raise Unreadable(f"{folder.name} cannot be read: {error.strerror}") from error
    expected = folder / f"{topic}.ipynb"
    if expected in notebooks:
        return expected
    if len(notebooks) != 1:
        raise Unreadable(f"no {topic}.ipynb in the folder" + (", but several others" if notebooks else ""))
    return notebooks[0]


def parse_notebook(data: bytes) -> NotebookNode:
    """Reads a notebook of any format version, in any Unicode encoding.

    Raises:
        Unreadable: this is not a notebook.
    """
    if not data.strip():
        raise Unreadable("the file is empty")
    try:
        text = data.decode(json.detect_encoding(data))
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"the file is damaged or cut off: not JSON, {error}") from error
    if not isinstance(content, dict) or not content.keys() & {"cells", "worksheets"}:
        raise Unreadable("the file is JSON, but not a notebook")
    try:
        notebook = nbformat.reads(text, as_version=4)
        cells = [_clean(cell) for cell in notebook.cells]
        nbformat.writes(v4.new_notebook(cells=cells)).encode()
    except Exception as error:
        raise Unreadable(f"the file is a damaged notebook: {type(error).__name__}: {error}") from error
    return v4.new_notebook(cells=cells)


def _clean(cell: NotebookNode) -> NotebookNode:
    """The text of a cell, its nbgrader metadata, and the pictures in a written answer."""
    metadata = {"nbgrader": cell.metadata["nbgrader"]} if "nbgrader" in cell.metadata else {}
    pictures = (
        {"attachments": cell.attachments} if cell.cell_type == "markdown" and "attachments" in cell else {}
    )
    return NEW_CELL[cell.cell_type](cell.source, metadata=metadata, **pictures)


def restore_cells(notebook: NotebookNode, released: NotebookNode) -> list[str]:
    """Gives the cells of the exercise set their released metadata, and puts deleted ones back.

    A copy of a cell runs in its place, but is no cell of the set any more: nbgrader refuses two of a name.

    Args:
        notebook: the learner's notebook; it is changed in place.
        released: the notebook that was handed out.

    Returns:
        What a person should know, one sentence each.

    Raises:
        Unreadable: no cell of the set is in the notebook.
    """
    given = {cell.metadata.nbgrader.grade_id: cell for cell in released.cells if "nbgrader" in cell.metadata}
    present, copied = set(), []
    for cell in notebook.cells:
        mark = cell.metadata.pop("nbgrader", None)
        name = mark.get("grade_id") if isinstance(mark, dict) else None
        if not (isinstance(name, str) and name in given):
            continue
        if name in present:
            copied.append(name)
        else:
            cell.metadata["nbgrader"] = given[name].metadata.nbgrader.copy()
            present.add(name)
    if not present:
        raise Unreadable(
            "no cell of the exercise set is in the notebook; an editor may have dropped the cells' metadata:"
            " the answers must be copied into a fresh set"
        )
    restored, position = [], 0
    for name, cell in given.items():
        if name in present:
            names = [c.metadata.get("nbgrader", {}).get("grade_id") for c in notebook.cells]
            position = names.index(name) + 1
        else:
            notebook.cells.insert(position, cell)
            position += 1
            restored.append(name)
    notes = [f"deleted cells were put back: {', '.join(restored)}"] if restored else []
    return notes + ([f"of copied cells the first counts: {', '.join(copied)}"] if copied else [])


def stage(folder: Path, topic: str, released: NotebookNode, destination: Path) -> list[str]:
    """Writes a clean copy of a submission into a folder for nbgrader.

    The copy holds the text and the kind of the learner's cells, and nothing else that came with them. Other
    files in the submission are left behind, but for `timestamp.txt`, if it holds a time.

    Args:
        folder: the folder that was submitted.
        topic: the topic.
        released: the notebook that was handed out.
        destination: an empty folder.

    Returns:
        What a person should know about the submission, one sentence each.

    Raises:
        Unreadable: there is no notebook that could be graded.
    """
    path = find_notebook(folder, topic)
    notebook = parse_notebook(read_regular(path))
    notebook.metadata = released.metadata.copy()
    notes = restore_cells(notebook, released)
    nbformat.write(notebook, destination / f"{topic}.ipynb")
    if path.stem != topic:
        notes.append(f"the notebook was named {path.name}")
    try:
        time = read_regular(folder / "timestamp.txt", 1000).decode().strip()
        parse_utc(time)
        (destination / "timestamp.txt").write_text(time)
    except (Unreadable, ValueError, OverflowError):
        pass
    return notes
