"""Times of rival functions, measured side by side: in turns, in one run, on one thread."""

import math
from collections.abc import Callable
from statistics import quantiles

import torch
from torch.utils.benchmark import Timer


def interleave(
    functions: dict[str, Callable[[], object]], *, rounds: int, seconds: float = 0.01
) -> dict[str, list[float]]:
    """Time each function once a round, so that a slow moment of the machine meets all of them.

    Args:
        functions: the rivals, by name.
        rounds: number of times that each function has its turn.
        seconds: least duration of one turn; a faster function runs several times in it.

    Returns:
        For each function the seconds of one call, one number a round.
    """
    timers = {
        name: Timer("function()", globals={"function": function}) for name, function in functions.items()
    }
    calls = {name: math.ceil(seconds / timer.timeit(3).mean) for name, timer in timers.items()}
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(rounds):
        for name, timer in timers.items():
            times[name].append(timer.timeit(calls[name]).mean)
    return times


def spread(numbers: list[float]) -> dict[str, float]:
    """Give the median and the quartiles around it."""
    low, median, high = quantiles(numbers, n=4)
    return {"median": median, "low": low, "high": high}


def ratio(times: dict[str, list[float]], over: str, under: str) -> dict[str, float]:
    """Compare two functions round by round: median and quartiles of the ratio of their times."""
    return spread([a / b for a, b in zip(times[over], times[under], strict=True)])


def growth_exponent(sizes: list[int], times: list[list[float]]) -> dict[str, float]:
    """Fit ``time = constant · size ** exponent`` to each round, by least squares on a log-log scale.

    Args:
        sizes: the sizes measured.
        times: for each size the seconds of each round.

    Returns:
        Median and quartiles of the exponent over the rounds.
    """
    points = torch.tensor(sizes, dtype=torch.float64).log()
    points = torch.stack([points, torch.ones_like(points)], dim=-1)
    slopes = torch.linalg.lstsq(points, torch.tensor(times, dtype=torch.float64).log()).solution[0]
    return spread(slopes.tolist())


def show(numbers: dict[str, float]) -> str:
    """Write a median with its quartiles."""
    return f"{numbers['median']:.2f} ({numbers['low']:.2f} to {numbers['high']:.2f})"
