"""The benchmarks run, compare like with like, and compute their summaries right. No time is judged."""

import itertools
import json

import pytest
import torch

from benchmarks import __main__ as bench
from benchmarks import cases
from benchmarks.timing import extra_memory, growth_exponent, interleave, ratio

CPU = torch.device("cpu")
SETTING = cases.Setting(CPU, torch.float32, rounds=2)
SMALL = {
    "attend": {"lengths": [3, 5]},
    "fused": {"lengths": [5]},
    "window": {"lengths": [300, 301], "growth": [64, 300]},
    "local": {"length": 31, "radius": 2},
    "streaming": {"length": 300},
    "linear": {"length": 7, "growth": [3, 7]},
    "generation": {"sizes": [(1, 8)], "tokens": 3},
}


def test_rivals_take_turns():
    turns = []
    functions = {name: lambda name=name: turns.append(name) for name in ("first", "second")}
    times = interleave(functions, rounds=3, device=CPU, seconds=1e-9)
    assert {name: len(seconds) for name, seconds in times.items()} == {"first": 3, "second": 3}
    changes = sum(left != right for left, right in itertools.pairwise(turns))
    assert changes == 2 * (1 + 1 + 3) - 1  # to warm up, to choose the number of calls, then three rounds


def test_the_ratio_is_taken_round_by_round():
    times = {"slow": [2.0, 30.0, 8.0], "fast": [1.0, 10.0, 2.0]}
    assert ratio(times, "slow", "fast") == {"median": 3.0, "low": 2.5, "high": 3.5}


def test_the_growth_exponent_of_a_power_is_that_power():
    sizes = [3, 7, 19]
    exponent = growth_exponent(sizes, [[constant * size**1.5 for constant in (1, 5, 2)] for size in sizes])
    assert exponent == pytest.approx({"median": 1.5, "low": 1.5, "high": 1.5})


def test_extra_memory_is_the_peak_beyond_what_is_returned(device):
    def two_at_a_time():
        first = torch.zeros(1000, 1000, device=device)  # 4 MB
        second = first + 1  # 8 MB now
        del first
        return second * 2  # 8 MB again, of which 4 are returned

    assert extra_memory(two_at_a_time, device) == pytest.approx(4_000_000, rel=0.01)
    assert extra_memory(lambda: torch.zeros(1000, 1000, device=device), device) == pytest.approx(0, abs=4096)


@pytest.mark.parametrize("case", cases.CASES, ids=lambda case: case.__name__)
def test_every_case_gives_numbers_and_targets(case):
    with torch.no_grad():
        rows = list(case(SETTING, **SMALL[case.__name__]))
    assert rows
    for row in rows:
        assert (row.least is None) != (row.most is None)
        assert row.number["low"] <= row.number["median"] <= row.number["high"]


@pytest.mark.parametrize(
    ("limits", "target", "passed"),
    [
        ({"least": 2}, "≥ 2×", True),
        ({"least": 3}, "≥ 3×", False),
        ({"most": 2.5}, "≤ 2.5×", True),
        ({"most": 2}, "≤ 2×", False),
    ],
)
def test_a_row_compares_its_median_with_the_target(limits, target, passed):
    row = cases.Row("what", "×", {"median": 2.5, "low": 0.0, "high": 9.0}, **limits)
    assert row.passed is passed
    verdict = "pass" if passed else "SHORT"
    assert bench.show(row) == f"| what | 2.50× | 0.00 to 9.00 | {target} | {verdict} |"


def test_the_results_are_printed_and_written(capsys, tmp_path, monkeypatch):
    row = cases.Row("what", "", {"median": 1.0, "low": 1.0, "high": 1.0}, most=2)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bench, "CASES", [lambda setting: iter([row])])
    threads = torch.get_num_threads()
    bench.main()
    torch.set_num_threads(threads)
    table = (tmp_path / "_build" / "bench.md").read_text(encoding="utf-8")
    assert table in capsys.readouterr().out
    assert table.endswith("| what | 1.00 | 1.00 to 1.00 | ≤ 2 | pass |\n")
    results = json.loads((tmp_path / "_build" / "bench.json").read_text(encoding="utf-8"))
    assert results["rows"][0]["passed"] is True
    assert results["machine"]["torch"] == torch.__version__


def test_the_benchmark_refuses_rivals_that_disagree():
    rivals = {"right": lambda: torch.zeros(2), "wrong": lambda: torch.ones(2)}
    with pytest.raises(AssertionError, match="not close"):
        SETTING.race(rivals)
