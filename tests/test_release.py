"""From `solutions/` to `exercises/`: always the same bytes, and nothing that a learner must not see."""

import json
import re

import jupytext
import nbformat
import pytest

from attncourse.grading.release import build_notebook
from tests.toy_course import (
    DOUBLE,
    HEAD,
    REPOSITORY,
    SOURCE,
    TRIPLE,
    make_repository,
    released,
    released_repository,
    run,
)

TOPICS = sorted(path.stem for path in (REPOSITORY / "solutions").glob("*.py"))


@pytest.fixture(scope="session")
def real(tmp_path_factory):
    """The real sources, released twice: the bytes of each notebook after the first and the second run."""
    repository = make_repository(tmp_path_factory.mktemp("real"))
    (repository / "solutions" / "toy.py").unlink()
    for topic in TOPICS:
        text = (REPOSITORY / "solutions" / f"{topic}.py").read_text(encoding="utf-8")
        (repository / "solutions" / f"{topic}.py").write_text(text, encoding="utf-8")
    versions = []
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(repository)
        for _ in range(2):
            result = run("release")
            assert result.exit_code == 0, result.output
            versions.append({t: (repository / "exercises" / t / f"{t}.ipynb").read_bytes() for t in TOPICS})
    return versions


@pytest.fixture
def toy(tmp_path_factory, tmp_path, monkeypatch):
    """A repository in which `toy` is released; it is the current folder."""
    monkeypatch.chdir(released_repository(tmp_path_factory, tmp_path))
    return tmp_path


@pytest.mark.parametrize("topic", TOPICS)
def test_exercises_are_the_bytes_that_the_sources_give(topic, real):
    first, second = real
    assert first[topic] == second[topic]
    assert first[topic] == (REPOSITORY / "exercises" / topic / f"{topic}.ipynb").read_bytes(), (
        f"exercises/{topic} is older than solutions/{topic}.py; run `make exercises`"
    )


def secret_lines(source: str) -> set[str]:
    """All lines of solutions and hidden tests, without indentation; found without the code under test."""
    lines = set()
    for cell in jupytext.reads(source, fmt="py:percent").cells:
        regions = re.findall(r"BEGIN (?:SOLUTION|HIDDEN TESTS)\n(.*?)### END", cell.source, re.DOTALL)
        if cell.cell_type == "markdown" and cell.metadata.get("nbgrader", {}).get("solution"):
            regions = [cell.source]
        lines |= {line.strip() for region in regions for line in region.splitlines()}
    return {line for line in lines if len(line) > 3}


@pytest.mark.parametrize("topic", TOPICS)
def test_nothing_of_a_solution_or_a_hidden_test_is_released(topic):
    secrets = secret_lines((REPOSITORY / "solutions" / f"{topic}.py").read_text(encoding="utf-8"))
    assert len(secrets) > 10
    text = (REPOSITORY / "exercises" / topic / f"{topic}.ipynb").read_text(encoding="utf-8")
    notebook = json.loads(text)
    lines = {line.strip() for cell in notebook["cells"] for line in "".join(cell["source"]).splitlines()}
    assert not secrets & lines
    assert not [secret for secret in secrets if json.dumps(secret, ensure_ascii=False)[1:-1] in text]
    assert "SOLUTION" not in text
    assert "HIDDEN" not in text


@pytest.mark.parametrize("topic", TOPICS)
def test_released_notebooks_open_without_a_question(topic):
    notebook = nbformat.read(REPOSITORY / "exercises" / topic / f"{topic}.ipynb", as_version=4)
    nbformat.validate(notebook)
    assert notebook.metadata.kernelspec.name == "python3"
    assert all(not cell.get("outputs") and cell.get("execution_count") is None for cell in notebook.cells)


def test_cell_ids_are_grade_ids_and_do_not_depend_on_other_cells():
    before = build_notebook(SOURCE)
    after = build_notebook("# %%\nnew = 1\n\n" + SOURCE)
    ids = [cell.id for cell in before.cells]
    assert len(set(ids)) == len(ids)
    assert [cell.id for cell in after.cells][1:] == ids
    graded = [cell.metadata.nbgrader.grade_id for cell in before.cells if "nbgrader" in cell.metadata]
    assert graded == [i for i in ids if i in graded]
    assert {"double", "test_double", "why"} <= set(ids)


def test_equal_cells_get_different_ids():
    notebook = build_notebook("# %%\npass\n\n# %%\npass\n")
    assert len({cell.id for cell in notebook.cells}) == 2


def test_a_test_cell_says_how_many_hidden_checks_it_has(toy):
    cells = {cell["id"]: cell for cell in released(toy)["cells"]}
    assert cells["test_double"]["metadata"]["attncourse"] == {"hidden_tests": 2}
    assert "attncourse" not in cells["double"]["metadata"]


def test_an_unknown_topic_is_one_clear_line(toy):
    result = run("release", "nothing")
    assert result.exit_code == 2
    assert "no exercise set named 'nothing'" in result.output
    assert "known: toy" in result.output
    assert len(result.output.splitlines()) == 1


def test_outside_the_repository_is_one_clear_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run("release")
    assert result.exit_code == 2
    assert "no nbgrader_config.py" in result.output


def test_a_folder_that_nbgrader_cannot_use_is_refused(toy):
    result = run("release", "--gradebook", "class [2]")
    assert result.exit_code == 2
    assert "without [ ] * ?" in result.output


def test_a_file_beside_the_source_is_never_published(toy):
    (toy / "gradebook" / "source" / "toy" / "answers.py").write_text("secret")
    result = run("release")
    assert result.exit_code == 2
    assert "answers.py" in result.output
    assert not (toy / "gradebook" / "release" / "toy" / "answers.py").exists()


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (SOURCE.replace("### END HIDDEN TESTS", "", 1), "hidden tests"),
        (HEAD + DOUBLE + DOUBLE, "Notebook failed to validate"),
        (SOURCE.replace("### END SOLUTION", "", 1), "solution"),
    ],
    ids=["open hidden region", "grade id twice", "open solution"],
)
def test_a_source_that_nbgrader_refuses_leaves_all_as_it_was(toy, source, says):
    files = [*toy.glob("gradebook/*/toy/*"), *toy.glob("exercises/toy/*")]
    before = {path: path.read_bytes() for path in files}
    assert len(before) == 3
    (toy / "solutions" / "toy.py").write_text(source)
    result = run("release")
    assert result.exit_code == 2
    assert says in result.output
    assert {path: path.read_bytes() for path in files} == before


def test_a_changed_set_replaces_the_old_one_while_nothing_is_submitted(toy):
    (toy / "solutions" / "toy.py").write_text(HEAD + TRIPLE)
    assert run("release").exit_code == 0
    assert "test_double" not in {cell["id"] for cell in released(toy)["cells"]}
