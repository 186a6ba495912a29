"""Who may import whom: the arrows of the design, read off the source; and what an import leaves untouched."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "attncourse"

# Each module of the library, and the modules it may build on; what those build on is allowed as well.
ARROWS = {
    "validation": [],
    "masks": ["validation"],
    "qkv": ["masks"],
    "alignment": ["qkv"],
    "taxonomy": ["alignment"],
    "multihead": ["qkv"],
    "selfattention": ["multihead"],
    "position": ["validation"],
    "cost": ["validation"],
    "decoding": ["validation"],
    "restricted": ["qkv", "masks"],
    "encoders": ["qkv", "position"],
    "seq2seq": ["encoders", "alignment", "decoding"],
    "transformer": ["selfattention", "position", "decoding"],
    "tasks": ["validation"],
    "corpora": ["tasks"],
    "measures": [],
    "plotting": [],
    "device": [],
    "training": ["device", "validation"],
}
NOTEBOOK_TOOLS = {
    *(
        "IPython",
        "ipykernel",
        "jupyter_client",
        "jupyter_core",
        "jupyterlab",
        "jupytext",
        "nbclient",
        "nbconvert",
    ),
    *("nbformat", "nbgrader", "notebook"),
}
LIBRARY = [name for name in ARROWS if (PACKAGE / f"{name}.py").exists()]
SOURCES = [path.relative_to(PACKAGE).as_posix() for path in sorted(PACKAGE.rglob("*.py"))]


def reachable(name):
    return {name}.union(*(reachable(below) for below in ARROWS[name]))


def imported_names(source, package):
    """Collect the dotted names that a module of this package imports, also inside functions."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) + 1 - node.level] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            names.update({module, *(f"{module}.{alias.name}" for alias in node.names)})
    return names


def imports_of(path):
    package = ".".join(["attncourse", *Path(path).parts[:-1]])
    return imported_names((PACKAGE / path).read_text(encoding="utf-8"), package)


def parts_of_the_course(names):
    """Keep what lies in the course, as `qkv`, `checks` or `grading`."""
    return {name.split(".")[1] for name in names if name.startswith("attncourse.")}


def test_imported_names_sees_every_way_to_import():
    source = """
import attncourse.qkv as q
from attncourse import masks
from attncourse.checks.judge import compare
from . import device
from .plotting import show
from .. import tasks
def late():
    from attncourse.grading import grade
"""
    names = parts_of_the_course(imported_names(source, "attncourse.checks"))
    assert names >= {"qkv", "masks", "checks", "tasks", "grading"}
    assert "attncourse.checks.plotting.show" in imported_names(source, "attncourse.checks")
    assert {"device", "plotting"} <= parts_of_the_course(imported_names(source, "attncourse"))


def test_every_module_has_a_place():
    tops = {Path(path).parts[0].removesuffix(".py") for path in SOURCES}
    tools = {"checks", "cli", "grading", "learner"}
    assert tops <= {*ARROWS, *tools, "__init__"}, "give the new module its arrows here"


@pytest.mark.parametrize("name", LIBRARY)
def test_a_library_module_builds_only_on_those_before_it(name):
    assert parts_of_the_course(imports_of(f"{name}.py")) <= reachable(name)


@pytest.mark.parametrize("path", [path for path in SOURCES if path.startswith("checks/")])
def test_the_checks_share_nothing_with_the_library(path):
    assert parts_of_the_course(imports_of(path)) <= {"checks"}


@pytest.mark.parametrize("path", [path for path in SOURCES if not path.startswith(("grading/", "cli.py"))])
def test_only_the_command_line_imports_the_grading(path):
    assert "grading" not in parts_of_the_course(imports_of(path))


@pytest.mark.parametrize("name", LIBRARY)
def test_the_library_imports_no_notebook_tool_and_only_plotting_imports_matplotlib(name):
    tops = {imported.split(".")[0] for imported in imports_of(f"{name}.py")}
    assert not tops & NOTEBOOK_TOOLS
    assert name == "plotting" or "matplotlib" not in tops


def test_shapes_are_checked_in_every_module_that_states_them(request):
    checked = request.config.getoption("jaxtyping_packages").split(",")
    stated = {f"attncourse.{name}" for name in LIBRARY if "jaxtyping" in imports_of(f"{name}.py")}
    assert stated
    assert stated <= set(checked)


def run_python(program):
    return subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True, timeout=100
    ).stdout


@pytest.mark.parametrize("module", ["attncourse", "attncourse.qkv"])
def test_importing_loads_no_notebook_tool_and_no_matplotlib(module):
    program = f"import sys, {module}; print(*{{name.split('.')[0] for name in sys.modules}})"
    loaded = set(run_python(program).split())
    assert "attncourse" in loaded
    assert not loaded & {*NOTEBOOK_TOOLS, "matplotlib"}


def test_importing_the_library_changes_no_global_state():
    modules = ", ".join(f"attncourse.{name}" for name in LIBRARY)
    program = f"""
import locale, os, random, warnings
import matplotlib as mpl, numpy as np, torch

def state():
    return {{
        "torch generator": torch.get_rng_state().tolist(),
        "numpy generator": str(np.random.get_state()),
        "python generator": random.getstate(),
        "default dtype": torch.get_default_dtype(),
        "default device": torch.get_default_device(),
        "threads": torch.get_num_threads(),
        "gradients": torch.is_grad_enabled(),
        "anomaly detection": torch.is_anomaly_enabled(),
        "determinism": torch.are_deterministic_algorithms_enabled(),
        "precision of products": torch.get_float32_matmul_precision(),
        "matplotlib": dict(mpl.rcParams),
        "warnings": list(warnings.filters),
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "locale": locale.setlocale(locale.LC_ALL),
    }}

before = state()
import {modules}
after = state()
print([name for name in before if before[name] != after[name]])
"""
    assert run_python(program).strip() == "[]"
