"""Time and memory of rival functions, measured side by side: in turns, in one run."""

import math
import time
from collections.abc import Callable
from statistics import quantiles

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

Functions = dict[str, Callable[[], object]]
Times = dict[str, list[float]]


def interleave(functions: Functions, *, rounds: int, device: torch.device, seconds: float = 0.02) -> Times:
    """Time each function once a round, so that a slow moment of the machine meets all of them.

    Args:
        functions: the rivals, by name.
        rounds: number of times that each function has its turn.
        device: where they compute.
        seconds: least duration of one turn; a faster function runs several times in it.

    Returns:
        For each function the seconds of one call, one number a round.
    """
    for function in functions.values():
        function()  # the first call warms up
    calls = {name: math.ceil(seconds / _time(function, 1, device)) for name, function in functions.items()}
    times: Times = {name: [] for name in functions}
    for _ in range(rounds):
        for name, function in functions.items():
            times[name].append(_time(function, calls[name], device))
    return times


def spread(numbers: list[float]) -> dict[str, float]:
    """Give the median and the quartiles around it."""
    low, median, high = quantiles(numbers, n=4, method="inclusive")
    return {"median": median, "low": low, "high": high}


def ratio(times: Times, over: str, under: str) -> dict[str, float]:
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


def extra_memory(function: Callable[[], Tensor | tuple[Tensor, ...]], device: torch.device) -> int:
    """Count the bytes that a call needs at its peak, beyond its inputs and what it returns.

    Args:
        function: gives a tensor, or a tuple of tensors.
        device: where it computes.

    Returns:
        Bytes, as PyTorch's allocator sees them.
    """
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        result = function()
        peak = torch.cuda.max_memory_allocated(device) - before
    else:
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as trace:
            result = function()
        events = [event for event in trace.profiler.kineto_results.events() if event.name() == "[memory]"]
        now = peak = 0
        for event in sorted(events, key=lambda event: event.start_ns()):
            now += event.nbytes()
            peak = max(peak, now)
    returned = result if isinstance(result, tuple) else (result,)
    return peak - sum(tensor.nbytes for tensor in returned)


def _time(function: Callable[[], object], calls: int, device: torch.device) -> float:
    _wait(device)
    start = time.perf_counter()
    for _ in range(calls):
        function()
    _wait(device)
    return (time.perf_counter() - start) / calls


def _wait(device: torch.device) -> None:
    if device.type != "cpu":
        torch.accelerator.synchronize(device)
