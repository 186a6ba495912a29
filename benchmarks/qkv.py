"""Topic ``qkv``: what the readable `attend` costs, and what associativity saves."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from attncourse import qkv
from attncourse.masks import causal_mask

from .timing import growth_exponent, interleave, ratio, show, spread

WIDTH = 64


def run(
    device: torch.device,
    *,
    lengths: Sequence[int] = (16, 128, 512),
    growth_lengths: Sequence[int] = (512, 1024, 2048, 4096),
    rounds: int = 15,
) -> dict[str, list[dict] | dict]:
    """Measure both, print a table of each as it comes, and return the numbers.

    Args:
        device: where to compute.
        lengths: numbers of tokens for `attend`, self-attention on a batch of 4.
        growth_lengths: numbers of tokens for linear attention, on one sequence.
        rounds: number of times that each function has its turn, at least 2.

    Returns:
        What was measured, in milliseconds and ratios, each as median and quartiles.
    """
    return {
        "attend": attend_against_plain(device, lengths, rounds),
        "linear": linear_against_quadratic(device, growth_lengths, rounds),
    }


def attend_against_plain(device: torch.device, lengths: Sequence[int], rounds: int) -> list[dict]:
    print(f"\nattend against softmax(QKᵀ/√d)V in one line and against PyTorch's own, batch 4, width {WIDTH}")
    print(f"{'tokens':>6} {'mask':6} {'pass':8} {'attend, ms':>10}  {'attend / plain':22} attend / PyTorch")
    rows = []
    for length in lengths:
        for mask in (None, causal_mask(length, device=device)):
            for backward in (False, True):
                times = interleave(_rivals(device, length, mask, backward), rounds=rounds)
                rows.append(
                    {
                        "tokens": length,
                        "mask": "causal" if mask is not None else "none",
                        "pass": "training" if backward else "forward",
                        "attend_ms": spread([1e3 * seconds for seconds in times["attend"]]),
                        "attend_over_plain": ratio(times, "attend", "plain"),
                        "attend_over_pytorch": ratio(times, "attend", "pytorch"),
                    }
                )
                row = rows[-1]
                print(
                    f"{length:6} {row['mask']:6} {row['pass']:8} {row['attend_ms']['median']:10.3f}  "
                    f"{show(row['attend_over_plain']):22} {show(row['attend_over_pytorch'])}",
                    flush=True,
                )
    return rows


def _rivals(
    device: torch.device, length: int, mask: Tensor | None, backward: bool
) -> dict[str, Callable[[], Tensor]]:
    inputs = [torch.randn(4, length, WIDTH, device=device, requires_grad=backward) for _ in range(3)]

    def plain(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        scores = query @ key.mT / WIDTH**0.5
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf"))
        return torch.softmax(scores, dim=-1) @ value

    attentions = {
        "attend": lambda query, key, value: qkv.attend(query, key, value, mask)[0],
        "plain": plain,
        "pytorch": lambda query, key, value: F.scaled_dot_product_attention(
            query, key, value, attn_mask=mask
        ),
    }
    return _same_work(attentions, inputs, backward)


def linear_against_quadratic(device: torch.device, lengths: Sequence[int], rounds: int) -> dict:
    print(f"\nlinear attention against the same weights in full, one sequence, width {WIDTH}, float32")
    print(f"{'tokens':>6} {'linear, ms':>11} {'quadratic, ms':>14}  quadratic / linear")
    rows, all_times = [], []
    for length in lengths:
        inputs = [torch.randn(length, WIDTH, device=device) for _ in range(3)]
        attentions = {"linear": qkv.linear_attention, "quadratic": _quadratic}
        times = interleave(_same_work(attentions, inputs, backward=False), rounds=rounds)
        all_times.append(times)
        rows.append(
            {
                "tokens": length,
                "linear_ms": spread([1e3 * seconds for seconds in times["linear"]]),
                "quadratic_ms": spread([1e3 * seconds for seconds in times["quadratic"]]),
                "quadratic_over_linear": ratio(times, "quadratic", "linear"),
            }
        )
        row = rows[-1]
        print(
            f"{length:6} {row['linear_ms']['median']:11.3f} {row['quadratic_ms']['median']:14.3f}  "
            f"{show(row['quadratic_over_linear'])}",
            flush=True,
        )
    exponents = {
        name: growth_exponent(list(lengths), [times[name] for times in all_times])
        for name in ("linear", "quadratic")
    }
    print(
        "time grows as tokens to the power of "
        f"{show(exponents['linear'])} for linear, {show(exponents['quadratic'])} for quadratic",
        flush=True,
    )
    return {"rows": rows, "growth_exponents": exponents}


def _quadratic(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    weights = qkv.dot_scores(qkv.elu_features(query), qkv.elu_features(key))
    return weights / weights.sum(dim=-1, keepdim=True) @ value


def _same_work(
    attentions: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]], inputs: list[Tensor], backward: bool
) -> dict[str, Callable[[], object]]:
    """Bind the inputs, after a check that all rivals give the same context."""
    expected, *others = [attention(*inputs) for attention in attentions.values()]
    for other in others:
        torch.testing.assert_close(other, expected, rtol=1e-3, atol=1e-4)

    def bind(attention: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Callable[[], object]:
        if backward:
            return lambda: torch.autograd.grad(attention(*inputs).sum(), inputs)
        return lambda: attention(*inputs)

    return {name: bind(attention) for name, attention in attentions.items()}
