"""`make mutants`: change the library in one place at a time, and see whether a test fails.

mutmut makes the mutants: all variants of a function in one file, of which an environment variable picks one.
Its own runner starts pytest anew for each. Here the tests are collected once, and each mutant is a fork that
runs the tests which call its function, the fastest first, until one fails.

The shape annotations are not checked here, so that the tests' own assertions must kill a mutant.
"""

import contextlib
import difflib
import os
import shutil
import signal
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from mutmut.mutation import trampoline
from mutmut.mutation.file_mutation import MutatedFile, mutate_file_contents
from tqdm import tqdm

MODULES = ["masks", "qkv", "position", "restricted", "taxonomy"]
TESTS = [*(f"test_{module}.py" for module in MODULES), "test_placement.py"]
# These look at the annotations, or at the source that a compiler sees.
LEFT_OUT = [
    "test_qkv.py::test_the_shape_annotations",
    "test_position.py::test_the_pure_functions_compile_into_one_graph",
]
ROOT = Path(__file__).parents[1]
BUILD = ROOT / "_build" / "mutants"
# With settings of its own, pytest does not look for those of the repository.
SETTINGS = '[tool.mutmut]\nsource_paths = ["attncourse"]\n[tool.pytest.ini_options]\n'
SECONDS, WORKERS, LEAST = 60, os.cpu_count() or 1, 0.9


def make_mutants() -> dict[str, list[str]]:
    """Write the library with all its mutants, and the tests. Gives the changed lines of each mutant."""
    shutil.rmtree(BUILD, ignore_errors=True)
    shutil.copytree(ROOT / "attncourse", BUILD / "attncourse", ignore=shutil.ignore_patterns("__pycache__"))
    (BUILD / "pyproject.toml").write_text(SETTINGS, encoding="utf-8")
    (BUILD / "tests").mkdir()
    for name in ["__init__.py", "conftest.py", *TESTS]:
        shutil.copy(ROOT / "tests" / name, BUILD / "tests")
    os.chdir(BUILD)
    changes = {}
    for module in MODULES:
        path = BUILD / "attncourse" / f"{module}.py"
        mutated = mutate_file_contents(str(path), path.read_text(encoding="utf-8"))
        path.write_text(mutated.code, encoding="utf-8")
        for name in mutated.mutant_names:
            changes[f"attncourse.{module}.{name}"] = _changed_lines(mutated, name)
    return changes


def _changed_lines(mutated: MutatedFile, name: str) -> list[str]:
    lines = mutated.code.splitlines()
    original = name.partition("__mutmut_")[0]
    before, after = (
        [line.strip().replace(copy, original) for line in lines[span.start - 1 : span.end]]
        for copy in (f"{original}__mutmut_orig", name)
        for span in [mutated.line_span_by_function_name[copy]]
    )
    _, _, *changes = difflib.unified_diff(before, after, n=0, lineterm="")
    return [line for line in changes if not line.startswith("@@")]


class Runner:
    """Takes the place of pytest's loop over the tests."""

    def __init__(self, mutants: list[str]) -> None:
        self.mutants = mutants
        self.outcomes: dict[str, str] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if not any(name in item.nodeid for name in LEFT_OUT)]

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        tests = self._tests_of_functions(session)
        running: dict[int, str] = {}
        for mutant in tqdm(self.mutants, unit="mutant"):
            if len(running) == WORKERS:
                self._wait(running)
            pid = os.fork()
            if not pid:
                signal.alarm(SECONDS)
                trampoline.set_mutant_under_test(mutant)
                try:
                    _run(tests.get(mutant.partition("__mutmut_")[0], []), session)
                finally:
                    os._exit(1 if session.testsfailed else 0)
            running[pid] = mutant
        while running:
            self._wait(running)
        return True

    def _wait(self, running: dict[int, str]) -> None:
        pid, status = os.wait()
        names = {0: "survived", 1: "killed", -signal.SIGALRM: "timeout"}
        code = os.waitstatus_to_exitcode(status)
        self.outcomes[running.pop(pid)] = names.get(code, f"ended with {code}")

    def _tests_of_functions(self, session: pytest.Session) -> dict[str, list[pytest.Item]]:
        """Run every test once, without a mutant. Gives the tests that call each function, fastest first."""
        hits: set[str] = set()
        trampoline.record_trampoline_hit = lambda name, caller=None: hits.add(name)
        trampoline.set_mutant_under_test("stats")
        tests = defaultdict(list)
        for item in tqdm(session.items, unit="test"):
            hits.clear()
            start = time.perf_counter()
            _run([item], session)
            seconds = time.perf_counter() - start
            for name in hits:
                tests[name].append((seconds, item.nodeid, item))
        if session.testsfailed:
            pytest.exit("the tests fail without a mutant", returncode=1)
        return {name: [item for *_, item in sorted(found)] for name, found in tests.items()}


def _run(items: list[pytest.Item], session: pytest.Session) -> None:
    for item, following in zip(items, [*items[1:], None], strict=False):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.testsfailed:
            return


def main() -> int:
    """Run the mutants whose names contain an argument, or all. Print who survives, and the shares killed."""
    changes = make_mutants()
    chosen = [name for name in changes if not sys.argv[1:] or any(part in name for part in sys.argv[1:])]
    # Number 0 is no mutant, so the function runs unchanged: a test that fails then would kill everything.
    controls = sorted({f"{name.partition('__mutmut_')[0]}__mutmut_0" for name in chosen})
    runner = Runner([*controls, *chosen])
    log = BUILD / "pytest.log"
    with log.open("w", encoding="utf-8") as file, contextlib.redirect_stdout(file):
        pytest.main(["-q", "-p", "no:cacheprovider", "--tb=no", "tests"], plugins=[runner])
    if not runner.outcomes:
        print(f"no mutant ran; {log} says why")
        return 1
    if wrong := [name for name in controls if runner.outcomes.pop(name) != "survived"]:
        print(f"tests fail in a fork without a mutant, of {', '.join(wrong)}")
        return 1
    for name, outcome in runner.outcomes.items():
        if outcome != "killed":
            print(f"{name} {outcome}", *changes[name], sep="\n    ")
    good = True
    for module in MODULES:
        counts = Counter(outcome for name, outcome in runner.outcomes.items() if f".{module}." in name)
        if counts:
            share = counts["killed"] / counts.total()
            print(f"{module}: {counts.total()} mutants, {share:.1%} killed, {dict(counts)}")
            good = good and share >= LEAST
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
