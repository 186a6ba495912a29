"""`make quality`: its mutants are what they should be, and its report belongs to the sets as they are now."""

import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from tests.quality import REASONS, TOPICS, Trial, mutants, survives, trials

ROOT = Path(__file__).parents[1]
REPORT = (ROOT / "exercises" / "QUALITY.md").read_text(encoding="utf-8")
TRIALS = [trial for topic in TOPICS for trial in trials(topic)]


def changed(source):
    return {change.split("  →  ")[1] for change in mutants(f"def f(x, y):\n    {source}\n")}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("return x + y", {"return x - y", "return x"}),
        ("return -x", {"return x"}),
        (
            "return x.sum(dim=-1)",
            {"return x.sum(dim=1)", "return x.mean(dim=-1)", "return x.sum()", "return x"},
        ),
        ("return x if y else 2", {"return x", "return 2", "return x if y else 3"}),
        ("return x[1:y]", {"return x[2:y]", "return x[:y]", "return x[1:]"}),
        ("return einsum('bq,qk->bk', x)", {"return einsum('bq,qk->kb', x)", "return einsum(x, 'bq,qk->bk')"}),
        ("x = y", {"pass"}),
    ],
)
def test_mutants_change_one_thing(source, expected):
    assert expected <= changed(source)
    assert all(text != source for text in changed(source))


def test_a_mutant_survives_if_its_test_cell_passes():
    for value, lives in (("2", True), ("3", False), ("x", False)):
        before = ("import torch", f"def f():\n    return {value}")
        assert survives(Trial("topic", "f", "", before, "assert f() == 2")) is lives


def test_each_reason_belongs_to_a_mutant():
    known = {(trial.function, trial.change) for trial in TRIALS}
    for entry in tomllib.loads(REASONS.read_text(encoding="utf-8")).get("survivor", []):
        assert (entry["function"], entry["change"]) in known
        assert len(entry["why"]) > 20


def test_the_report_is_of_these_sets():
    rows = re.findall(r"\| (\w+) \| `(\w+)` \| (\d+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|", REPORT)
    made = {(topic, function): int(made) for topic, function, *_, made, _ in rows}
    assert made == Counter((trial.topic, trial.function) for trial in TRIALS), "run `make quality`"
    assert "0 complaints" in REPORT
    killed = sum(int(row[-1]) for row in rows)
    assert sum(made.values()) >= 300
    assert killed >= 0.97 * sum(made.values())
    for _, _, right, wrong, named, *_ in rows:
        assert int(right) >= 4 and int(wrong) >= int(named) >= 6
