"""`make quality`: how well the checks tell right from wrong. Writes `exercises/QUALITY.md`.

- Each reference solution is changed mechanically, in one place at a time. Its test cell must fail each time.
- Each right and each wrong answer of `tests/answers` gets its verdict on many seeds. It must be the same.

`python -m tests.quality TOPIC …` does some topics again; the others keep what was found before.
"""

import ast
import contextlib
import copy
import importlib
import io
import json
import multiprocessing
import multiprocessing.pool
import resource
import signal
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from tqdm import tqdm

from attncourse.checks.judge import CheckFailed
from attncourse.grading.release import build_notebook

ROOT = Path(__file__).parents[1]
TOPICS = sorted(path.stem for path in (ROOT / "solutions").glob("*.py"))
REASONS = ROOT / "tests" / "survivors.toml"
RESULTS = ROOT / "_build" / "quality"
SEEDS, SECONDS, BYTES = range(20), 30, 8 * 2**30
DTYPES = (torch.float32, torch.float64)

HEAD = """# How well the checks tell right from wrong

`make quality` writes this page. Each reference solution is changed in one place at a time, and its test cell
must fail. Each answer of `tests/answers` must get the same verdict on every seed: a wrong one the same name.

"""

OPERATORS = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.MatMult: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
PAIRS = [
    ("sin", "cos"),
    ("max", "min"),
    ("amax", "amin"),
    ("maximum", "minimum"),
    ("argmax", "argmin"),
    ("sum", "mean"),
    ("tril", "triu"),
    ("ones", "zeros"),
    ("ones_like", "zeros_like"),
    ("exp", "log"),
    ("softmax", "log_softmax"),
    ("tanh", "sigmoid"),
    ("floor", "ceil"),
    ("any", "all"),
    ("cumsum", "cumprod"),
]
MODULES = {"torch", "torch.nn.functional", "F", "math", "nn"}
SYMMETRIC = {"transpose", "swapaxes", "maximum", "minimum"}  # the order of the first two arguments is free
NAMES = dict(PAIRS) | {b: a for a, b in PAIRS}


def _change(node: ast.AST, **fields: object) -> ast.AST:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def variants(node: ast.AST) -> Iterator[ast.AST]:
    """Yields what a node is replaced by, one mutant each."""
    if isinstance(node, ast.BinOp | ast.AugAssign | ast.BoolOp) and type(node.op) in OPERATORS:
        yield _change(node, op=OPERATORS[type(node.op)]())
    if isinstance(node, ast.BinOp):
        yield node.left
    if isinstance(node, ast.Compare) and type(node.ops[0]) in OPERATORS:
        yield _change(node, ops=[OPERATORS[type(node.ops[0])](), *node.ops[1:]])
        if isinstance(node.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE):
            yield _change(node, left=node.comparators[0], comparators=[node.left, *node.comparators[1:]])
    if isinstance(node, ast.UnaryOp):
        yield node.operand
    if isinstance(node, ast.Constant):
        yield from map(ast.Constant, _other_values(node.value))
    if isinstance(node, ast.IfExp):
        yield from (node.body, node.orelse)
    if isinstance(node, ast.If):
        yield _change(node, test=ast.UnaryOp(ast.Not(), node.test))
        yield _change(node, body=[ast.Pass()])
    if isinstance(node, ast.Attribute) and node.attr in NAMES:
        yield _change(node, attr=NAMES[node.attr])
    elif isinstance(node, ast.Attribute) and node.attr in ("mT", "T"):
        yield node.value
    if isinstance(node, ast.Name) and node.id in NAMES:
        yield _change(node, id=NAMES[node.id])
    if isinstance(node, ast.Call):
        for i in range(len(node.keywords)):
            yield _change(node, keywords=node.keywords[:i] + node.keywords[i + 1 :])
        if len(node.args) >= 2 and getattr(node.func, "attr", "") not in SYMMETRIC:
            yield _change(node, args=[node.args[1], node.args[0], *node.args[2:]])
        function = node.func
        if isinstance(function, ast.Attribute) and ast.unparse(function.value) not in MODULES:
            yield function.value
    if isinstance(node, ast.Slice):
        if node.lower is not None:
            yield _change(node, lower=None)
        if node.upper is not None:
            yield _change(node, upper=None)
    if isinstance(node, ast.Assign | ast.AugAssign) or (
        isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant)
    ):
        yield ast.Pass()


def _other_values(value: object) -> list[object]:
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, value - 1]
    if isinstance(value, float):
        return [value + 1, value * 2 + 0.25]
    if isinstance(value, str) and "->" in value and len(value.split("->")[1].strip(".")) >= 2:
        return [value[:-2] + value[-1] + value[-2]]  # two axes of einsum's result
    return []


class _Picker(ast.NodeTransformer):
    """Replaces one node: that of the mutant with the given number."""

    def __init__(self, number: int) -> None:
        self.left = number

    def visit(self, node: ast.AST) -> ast.AST:
        node = self.generic_visit(node)
        for variant in variants(node):
            self.left -= 1
            if self.left == -1:
                return variant
        return node


def mutants(source: str) -> dict[str, str]:
    """Maps the changed line of each mutant to the mutant's whole text."""
    tree = ast.parse(source)
    for function in tree.body:
        if isinstance(function, ast.FunctionDef) and ast.get_docstring(function):
            del function.body[0]
    original = ast.unparse(tree).splitlines()
    found, number = {}, 0
    while True:
        picker = _Picker(number)
        text = ast.unparse(ast.fix_missing_locations(picker.visit(copy.deepcopy(tree))))
        if picker.left >= 0:
            return found
        number += 1
        lines = text.splitlines()
        if lines != original:
            before = [line.strip() for line in original if line not in lines]
            after = [line.strip() for line in lines if line not in original]
            found.setdefault(f"{' ; '.join(before)}  →  {' ; '.join(after)}", text)


@dataclass(frozen=True)
class Trial:
    """A mutant of one function, and all that is needed to try it."""

    topic: str
    function: str
    change: str
    before: tuple[str, ...]  # the cells that run first, the changed one among them
    test: str


def trials(topic: str) -> list[Trial]:
    """Makes all mutants of a topic's reference solutions."""
    cells = build_notebook((ROOT / "solutions" / f"{topic}.py").read_text(encoding="utf-8")).cells
    code = [c for c in cells if c.cell_type == "code" and not c.source.startswith("points_so_far(")]
    ids = [c.metadata.get("nbgrader", {}).get("grade_id", "") for c in code]
    sources = {name: c.source for name, c in zip(ids, code, strict=True) if name}
    found = []
    for name in sources:
        if f"test_{name}" not in sources:
            continue
        for change, text in mutants(sources[name]).items():
            before = tuple(
                text if other == name else cell.source
                for other, cell in zip(ids, code, strict=True)
                if not other.startswith("test_")
            )
            found.append(Trial(topic, name, change, before, sources[f"test_{name}"]))
    return found


def survives(trial: Trial) -> bool:
    """Runs a mutant's test cell, hidden tests included, and says whether it passes."""
    _limit()
    namespace = {}
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            for text in (*trial.before, trial.test):
                exec(compile(text, "<solution>", "exec"), namespace)
        except (Exception, KeyboardInterrupt):
            return False
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return True


def _limit() -> None:
    """Lets a mutant that does not end look like one that a person stopped."""
    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_DATA, (BYTES, BYTES))
    signal.signal(signal.SIGVTALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)  # of the processor


def verdicts(job: tuple[str, int]) -> tuple[str, str | None, list[str]]:
    """Gives the task of an answer, its mistake, and all verdicts on it."""
    topic, number = job
    torch.set_num_threads(1)
    answer = list(importlib.import_module(f"tests.answers.{topic}").answers)[number]
    check = getattr(importlib.import_module(f"attncourse.checks.{topic}"), f"check_{answer.task}")
    seen = set()
    for seed in SEEDS:
        with contextlib.redirect_stdout(io.StringIO()):
            try:
                check(answer.function, seed=seed, dtype=DTYPES[seed % 2])
                seen.add("right")
            except CheckFailed as error:
                seen.add(str(error).partition("[misconception: ")[2].partition("]")[0] or "unnamed")
    return answer.task, answer.misconception, sorted(seen)


def measure(topic: str, pool: multiprocessing.pool.Pool) -> dict[str, object]:
    """Tries all mutants and answers of a topic, and keeps what came out in `_build/quality/TOPIC.json`."""
    made = trials(topic)
    jobs = [(topic, n) for n in range(len(importlib.import_module(f"tests.answers.{topic}").answers))]
    alive = list(tqdm(pool.imap(survives, made), f"{topic}: mutants", len(made), disable=None))
    answers = list(tqdm(pool.imap(verdicts, jobs), f"{topic}: answers", len(jobs), disable=None))
    result = {
        "mutants": [(t.function, t.change, lives) for t, lives in zip(made, alive, strict=True)],
        "answers": answers,
    }
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{topic}.json").write_text(json.dumps(result), encoding="utf-8")
    return result


def report(results: dict[str, dict]) -> tuple[str, list[str]]:
    """Gives the text of the report, and a list of complaints."""
    reasons = {
        (entry["function"], entry["change"]): entry["why"]
        for entry in tomllib.loads(REASONS.read_text(encoding="utf-8")).get("survivor", [])
    }
    titles = ("Set", "Function", "Right answers", "Wrong answers", "Mistakes named", "Mutants", "Killed")
    rows = ["| " + " | ".join(titles) + " |", "|" + "---|" * len(titles)]
    complaints, survivors = [], []
    for topic, result in results.items():
        for function in dict.fromkeys(function for function, _, _ in result["mutants"]):
            fates = [lives for name, _, lives in result["mutants"] if name == function]
            mistakes = [mistake for name, mistake, _ in result["answers"] if name == function]
            wrong = [mistake for mistake in mistakes if mistake]
            counts = (len(mistakes) - len(wrong), len(wrong), len(set(wrong)), len(fates), fates.count(False))
            rows.append(f"| {topic} | `{function}` | " + " | ".join(map(str, counts)) + " |")
        complaints += [
            f"{topic}, {function} ({mistake or 'right'}): {', '.join(seen)}"
            for function, mistake, seen in result["answers"]
            if seen != [mistake or "right"]
        ]
        survivors += [(function, change) for function, change, lives in result["mutants"] if lives]
    complaints += [
        f"no reason in tests/survivors.toml: {f}: {c}" for f, c in survivors if (f, c) not in reasons
    ]
    made = sum(len(result["mutants"]) for result in results.values())
    killed = made - len(survivors)
    answers = sum(len(result["answers"]) for result in results.values())
    lines = [
        *rows,
        "",
        f"{made} mutants, {killed} killed: {100 * killed / made:.1f} %. {answers} answers, each on "
        f"{len(SEEDS)} seeds, float32 and float64 in turns: {len(complaints)} complaints.",
        "",
        "## Mutants that no check kills, and why",
        "",
        *(f"- `{f}`: `{c}`\n  {reasons.get((f, c), 'no reason given')}" for f, c in survivors),
    ]
    return HEAD + "\n".join(lines) + "\n", complaints


def main(topics: list[str]) -> int:
    """Measures topics, writes the report if all have been measured, and gives the number of complaints."""
    with multiprocessing.get_context("fork").Pool() as pool:
        results = {topic: measure(topic, pool) for topic in topics}
    text, complaints = report(results)
    print(text, *complaints, sep="\n")
    kept = {topic: RESULTS / f"{topic}.json" for topic in TOPICS}
    if all(path.exists() for path in kept.values()):
        results = {topic: json.loads(path.read_text(encoding="utf-8")) for topic, path in kept.items()}
        (ROOT / "exercises" / "QUALITY.md").write_text(report(results)[0], encoding="utf-8")
    return len(complaints)


if __name__ == "__main__":
    sys.exit(bool(main(sys.argv[1:] or TOPICS)))
