"""The benchmark runs, compares like with like, and computes its summaries right. No time is judged."""

import itertools
import json

import pytest
import torch

from benchmarks import qkv
from benchmarks.timing import growth_exponent, interleave, ratio


def test_rivals_take_turns():
    turns = []
    functions = {name: lambda name=name: turns.append(name) for name in ("first", "second")}
    times = interleave(functions, rounds=3, seconds=1e-9)
    assert {name: len(seconds) for name, seconds in times.items()} == {"first": 3, "second": 3}
    changes = sum(left != right for left, right in itertools.pairwise(turns))
    assert changes == 2 * (1 + 3) - 1  # one turn each to choose the number of calls, then three rounds


def test_the_ratio_is_taken_round_by_round():
    times = {"slow": [2.0, 30.0, 8.0], "fast": [1.0, 10.0, 2.0]}
    assert ratio(times, "slow", "fast") == {"median": 3.0, "low": 2.0, "high": 4.0}


def test_the_growth_exponent_of_a_power_is_that_power():
    sizes = [3, 7, 19]
    exponent = growth_exponent(sizes, [[constant * size**1.5 for constant in (1, 5, 2)] for size in sizes])
    assert exponent == pytest.approx({"median": 1.5, "low": 1.5, "high": 1.5})


def test_the_qkv_benchmark_reports_every_case_and_writes_as_json(capsys):
    results = qkv.run(torch.device("cpu"), lengths=[3, 5], growth_lengths=[3, 7], rounds=2)
    results = json.loads(json.dumps(results))
    cases = [(row["tokens"], row["mask"], row["pass"]) for row in results["attend"]]
    assert sorted(cases) == sorted(
        (tokens, mask, work)
        for tokens in (3, 5)
        for mask in ("none", "causal")
        for work in ("forward", "training")
    )
    assert [row["tokens"] for row in results["linear"]["rows"]] == [3, 7]
    assert set(results["linear"]["growth_exponents"]) == {"linear", "quadratic"}
    assert "tokens to the power of" in capsys.readouterr().out


def test_the_benchmark_refuses_rivals_that_disagree():
    attentions = {"right": lambda query, key, value: value, "wrong": lambda query, key, value: value + 1}
    with pytest.raises(AssertionError, match="not close"):
        qkv._same_work(attentions, [torch.zeros(2)] * 3, backward=False)
