"""`make mutants`: change the library in one place at a time, and see whether a test fails.

mutmut makes the mutants: all variants of a function in one file, of which an environment variable picks one.
Its own runner starts pytest anew for each. Here the tests are collected once, and each mutant is a fork that
runs the tests which call its function, the fastest first, until one fails.

The shape annotations are not checked here, so that the tests' own assertions must kill a mutant.
"""

import os
import shutil
import signal
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from mutmut.mutation import trampoline
from mutmut.mutation.file_mutation import mutate_file_contents

MODULES = ["masks", "qkv", "position", "restricted", "taxonomy"]
# These look at the annotations, or at the source that a compiler sees.
LEFT_OUT = [
    "test_qkv.py::test_the_shape_annotations",
    "test_position.py::test_the_pure_functions_compile_into_one_graph",
]
ROOT = Path(__file__).parents[1]
BUILD = ROOT / "_build" / "mutants"
# With settings of its own, pytest does not look for those of the repository.
SETTINGS = '[tool.mutmut]\nsource_paths = ["attncourse"]\n[tool.pytest.ini_options]\n'
SECONDS, WORKERS = 60, 2


def make_mutants() -> list[str]:
    """Write the library with all its mutants, and copy the tests beside it. Gives the mutants' names."""
    shutil.rmtree(BUILD, ignore_errors=True)
    shutil.copytree(ROOT / "attncourse", BUILD / "attncourse", ignore=shutil.ignore_patterns("__pycache__"))
    (BUILD / "pyproject.toml").write_text(SETTINGS, encoding="utf-8")
    (BUILD / "tests").mkdir()
    for name in ["__init__", "conftest", *(f"test_{module}" for module in MODULES)]:
        shutil.copy(ROOT / "tests" / f"{name}.py", BUILD / "tests")
    os.chdir(BUILD)
    names = []
    for module in MODULES:
        path = BUILD / "attncourse" / f"{module}.py"
        mutated = mutate_file_contents(str(path), path.read_text(encoding="utf-8"))
        path.write_text(mutated.code, encoding="utf-8")
        names += [f"attncourse.{module}.{name}" for name in mutated.mutant_names]
    return names


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
        for done, mutant in enumerate(self.mutants):
            if len(running) == WORKERS:
                self._wait(running)
            print(f"\r{done} of {len(self.mutants)}", end="", file=sys.stderr)
            pid = os.fork()
            if not pid:
                signal.alarm(SECONDS)
                trampoline.set_mutant_under_test(mutant)
                _run(tests[mutant.partition("__mutmut_")[0]], session)
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
        for item in session.items:
            hits.clear()
            start = time.perf_counter()
            _run([item], session)
            seconds = time.perf_counter() - start
            for name in hits:
                tests[name].append((seconds, item.nodeid, item))
        if session.testsfailed:
            pytest.exit("the tests fail without a mutant", returncode=1)
        return defaultdict(list, {name: [item for *_, item in sorted(found)] for name, found in tests.items()})


def _run(items: list[pytest.Item], session: pytest.Session) -> None:
    for item, following in zip(items, [*items[1:], None], strict=False):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.testsfailed:
            return


def main() -> int:
    """Run the mutants whose name contains one of the arguments, or all; print the survivors and a table."""
    mutants = [name for name in make_mutants() if not sys.argv[1:] or any(a in name for a in sys.argv[1:])]
    runner = Runner(mutants)
    files = [f"tests/test_{module}.py" for module in MODULES]
    options = ["-q", "-p", "no:cacheprovider", "--tb=no"]
    with (BUILD / "pytest.log").open("w", encoding="utf-8") as log:
        stdout, sys.stdout = sys.stdout, log
        code = pytest.main([*options, *files], plugins=[runner])
        sys.stdout = stdout
    if not runner.outcomes:
        print(f"no mutant ran: see {BUILD / 'pytest.log'}")
        return int(code) or 1
    print()
    for mutant, outcome in sorted(runner.outcomes.items()):
        if outcome != "killed":
            print(f"{outcome}: {mutant}")
    for module in MODULES:
        counts = Counter(
            outcome for name, outcome in runner.outcomes.items() if name.split(".")[1] == module
        )
        if counts:
            print(f"{module}: {counts['killed'] / counts.total():.1%} killed of {counts.total()}, {dict(counts)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
