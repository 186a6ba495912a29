"""A learner's terminal: `attncourse get` and `attncourse check`."""

import copy
import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from click.testing import CliRunner

from attncourse import learner
from attncourse.cli import main
from tests.answers.qkv import answers

TASKS = list(dict.fromkeys(answer.task for answer in answers))


def run(*arguments):
    """Run the command line as a learner does; give exit status and all that is printed."""
    result = CliRunner().invoke(main, [str(a) for a in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def write(folder, change=lambda cells: cells, **misconceptions):
    """Solve the set, but for the tasks that are named with a misconception; give the notebook's path."""
    notebook = nbformat.read(learner.exercise_sets()["qkv"], as_version=4)
    for cell in notebook.cells:
        name = cell.metadata.get("nbgrader", {}).get("grade_id")
        if name in TASKS:
            imports = "import math\nimport torch\nfrom torch.nn import functional as F\n"
            cell.source = imports + answers.find(name, misconceptions.get(name)).source
    notebook.cells = change(notebook.cells)
    path = folder / "mine.ipynb"
    nbformat.write(notebook, path)
    return path


def named(cells, name):
    return next(c for c in cells if c.metadata.get("nbgrader", {}).get("grade_id") == name)


def test_get_copies_the_set_and_never_overwrites_work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, text = run("get", "qkv")
    copy = tmp_path / "qkv" / "qkv.ipynb"
    assert status == 0
    assert "jupyter lab" in text
    assert copy.read_bytes() == learner.exercise_sets()["qkv"].read_bytes()
    copy.write_text("my work")
    status, text = run("get", "qkv")
    assert status == 2
    assert "left as it is" in text
    assert copy.read_text() == "my work"


def test_get_leaves_a_file_with_the_name_of_the_set_alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "qkv").write_text("mine")
    status, text = run("get", "qkv")
    assert status == 2
    assert "is not a folder" in text
    assert (tmp_path / "qkv").read_text() == "mine"


def test_get_names_the_sets_that_there_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, text = run("get", "nonsense")
    assert status == 2
    names = list(learner.exercise_sets())
    assert f"no exercise set 'nonsense'; there are: {', '.join(names)}" in text
    assert list(tmp_path.iterdir()) == []
    assert run("get") == (0, "\n".join(names) + "\n")


def test_the_release_gets_no_points_and_says_what_to_do():
    status, text = run("check", learner.exercise_sets()["qkv"])
    assert status == 1
    assert "0 of 22 points; 3 more are given by a person" in text
    assert text.count("is not written yet. Replace `raise NotImplementedError()`") == len(TASKS)
    assert "not answered yet" in text


def test_a_solved_set_gets_all_points_and_the_file_is_not_touched(tmp_path):
    path = write(tmp_path)
    before = path.read_bytes()
    status, text = run("check", path)
    assert status == 0, text
    assert "22 of 22 points" in text
    assert "All public checks passed; 18 more run at grading." in text
    assert path.read_bytes() == before


def test_each_failure_is_explained_and_the_rest_goes_on(tmp_path):
    def change(cells):
        named(cells, "weighted_sum").source = "def weighted_sum(weights, value)\n    return weights @ value"
        named(cells, "test_linear_attention").source = "pass"
        cells.remove(named(cells, "test_scaled_dot_scores"))
        named(cells, "what_a_weight_says").source = "My answer."
        return cells

    path = write(tmp_path, change, attend="no-scale", linear_attention="no-normaliser")
    status, text = run("check", path)
    assert status == 1
    assert "[misconception: no-scale]" in text
    assert "expected" in text and "got" in text
    assert "NameError: name 'weighted_sum' is not defined" in text
    assert "(weighted_sum) failed before: SyntaxError: expected ':' (line" in text
    assert "[misconception: no-normaliser]" in text, "a changed test cell runs in its released form"
    assert "ok    scaled_dot_scores" in text, "a deleted test cell runs all the same"
    assert "answered; read by a person" in text
    assert "13 of 22 points" in text


def test_whatever_happened_to_the_cells_the_notebook_is_judged_as_at_grading(tmp_path):
    def change(cells):
        named(
            cells, "attend"
        ).source = "def attend(query, key, value, mask=None):\n    raise NotImplementedError"
        markdown = nbformat.v4.new_markdown_cell("", metadata=named(cells, "test_attend").metadata)
        cells[cells.index(named(cells, "test_attend"))] = markdown
        named(cells, "test_linear_attention").metadata["tags"] = ["skip-execution"]
        cells.append(copy.deepcopy(named(cells, "test_weighted_sum")))
        cells[-1].update(source="1 / 0", id="copy")
        cells.remove(named(cells, "imports"))
        return cells

    status, text = run("check", write(tmp_path, change))
    assert status == 1
    assert "FAIL  attend" in text
    assert "19 of 22 points" in text
    assert text.count("weighted_sum") == 1
    assert "1 of 9 checks failed" in text


@pytest.mark.parametrize("end", ["import os; os._exit(3)", "quit()"])
def test_a_notebook_that_ends_python_cannot_run(tmp_path, end):
    def change(cells):
        named(cells, "attend").source = end
        return cells

    status, text = run("check", write(tmp_path, change))
    assert status == 2
    assert "Python ended while it ran cell" in text
    assert "(attend)" in text


def test_an_endless_loop_is_stopped_and_the_rest_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(learner, "SECONDS_PER_CELL", 20)

    def change(cells):
        named(cells, "attend").source = "while True: pass"
        return cells

    status, text = run("check", write(tmp_path, change))
    assert status == 1
    assert "failed before: the cell ran for more than 20 seconds and was stopped" in text
    assert "ok    linear_attention" in text


def test_a_folder_is_answered_with_the_notebook_in_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run("get", "qkv")
    status, text = run("check", "qkv")
    assert status == 2
    assert f"did you mean {Path('qkv', 'qkv.ipynb')}?" in text


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "there is no file"),
        (b"", "is not a notebook"),
        (b"{", "is not a notebook"),
        (b"[]", "is not a notebook"),
        (b"\xff\xfe\x00", "is not a notebook"),
        (b'{"cells": 3, "nbformat": 4, "nbformat_minor": 5, "metadata": {}}', "is not a notebook"),
        (b'{"cells": [], "nbformat": 4, "nbformat_minor": 5, "metadata": {}}', "no cell of"),
    ],
)
def test_what_is_no_exercise_gets_one_clear_line(tmp_path, content, reason):
    path = tmp_path / "x.ipynb"
    if content is not None:
        path.write_bytes(content)
    status, text = run("check", path)
    assert status == 2
    assert f"Error: {'' if reason != 'is not a notebook' else str(path) + ' '}{reason}" in text
    assert "Traceback" not in text


def test_the_command_works_by_its_full_path_on_a_terminal_without_unicode(tmp_path):
    path = write(tmp_path, attend="no-scale")
    command = Path(sys.executable).with_name("attncourse")
    environment = {"PATH": os.defpath, "HOME": str(tmp_path), "PYTHONIOENCODING": "cp1252"}
    done = subprocess.run([command, "check", path], env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert "without the division by ?d_k" in done.stdout
