"""What is measured: each function gives rows, one for each target, and refuses rivals that disagree.

"a / b" is how often the time of b goes into the time of a. SDPA is ``F.scaled_dot_product_attention``.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from attncourse import masks, qkv, restricted, taxonomy
from attncourse.transformer import Transformer

from .timing import extra_memory, growth_exponent, interleave, ratio, spread

WIDTH, HEADS, RADIUS = 64, 8, 128
MEBIBYTE = 2**20


class Row(NamedTuple):
    """One number, and what it should be.

    Attributes:
        what: what was measured.
        unit: "×", "MiB", or "" for an exponent.
        number: median and quartiles.
        least: the number should be at least this.
        most: the number should be at most this.
    """

    what: str
    unit: str
    number: dict[str, float]
    least: float | None = None
    most: float | None = None

    @property
    def passed(self) -> bool:
        """Compare the median with the target."""
        median = self.number["median"]
        return (self.least is None or median >= self.least) and (self.most is None or median <= self.most)

    @property
    def target(self) -> str:
        """Write the target."""
        return f"≥ {self.least:g}{self.unit}" if self.least is not None else f"≤ {self.most:g}{self.unit}"


class Setting(NamedTuple):
    """Where and how long to measure.

    Attributes:
        device: where to compute.
        dtype: of all numbers.
        rounds: number of turns of each function, at least 2; slow ones get a third of them.
    """

    device: torch.device
    dtype: torch.dtype
    rounds: int

    def inputs(self, length: int, heads: int = HEADS) -> list[Tensor]:
        """Draw query, key and value, ``(1, heads, length, WIDTH)``."""
        shape = (1, heads, length, WIDTH)
        return [torch.randn(shape, device=self.device, dtype=self.dtype) for _ in range(3)]

    def race(self, rivals: dict[str, Callable[[], Tensor]], *, slow: bool = False) -> dict[str, list[float]]:
        """Check that all rivals give the same context, then time them."""
        first, *others = [rival() for rival in rivals.values()]
        for other in others:
            torch.testing.assert_close(other, first, rtol=1e-2, atol=1e-3 * self._coarseness)
        rounds = max(2, self.rounds // 3) if slow else self.rounds
        return interleave(rivals, rounds=rounds, device=self.device)

    def grow(self, function: Callable[..., Tensor], lengths: Sequence[int]) -> dict[str, float]:
        """Fit the exponent with which the time of a function of query, key and value grows."""
        tensors = {str(length): self.inputs(length) for length in lengths}
        calls = {length: partial(function, *inputs) for length, inputs in tensors.items()}
        times = interleave(calls, rounds=self.rounds, device=self.device)
        return growth_exponent(list(lengths), [times[str(length)] for length in lengths])

    def memory(self, function: Callable[[], Tensor]) -> float:
        """Count the extra memory of a call, in MiB."""
        return extra_memory(function, self.device) / MEBIBYTE

    @property
    def _coarseness(self) -> float:
        return 1 if self.dtype == torch.float32 else 20


def attend(setting: Setting, lengths: Sequence[int] = (512, 1024, 2048, 4096)) -> Iterator[Row]:
    """Measure the readable form against the same in one line."""
    for length in lengths:
        for name, mask in (("no mask", None), ("causal", masks.causal_mask(length, device=setting.device))):
            inputs = setting.inputs(length)
            times = setting.race(
                {
                    "attend": lambda inputs=inputs, mask=mask: qkv.attend(*inputs, mask)[0],
                    "plain": partial(_plain, *inputs, mask),
                },
                slow=length > 1024,
            )
            what = f"attend / softmax(QKᵀ/√d)V, n = {length}, {name}"
            yield Row(what, "×", ratio(times, "attend", "plain"), most=1.1)


def fused(setting: Setting, lengths: Sequence[int] = (512, 2048)) -> Iterator[Row]:
    """Measure the fused form against the call that it wraps."""
    for length in lengths:
        real = torch.tensor([length - length // 5], device=setting.device)
        for name, mask in (
            ("no mask", None),
            ("causal", masks.causal_mask(length, device=setting.device)),
            ("padding", masks.padding_mask(real, length).unsqueeze(-3)),
        ):
            inputs = setting.inputs(length)
            times = setting.race(
                {
                    "fused": partial(qkv.fused_attention, *inputs, mask),
                    "PyTorch": partial(F.scaled_dot_product_attention, *inputs, mask),
                }
            )
            what = f"fused_attention / SDPA, n = {length}, {name}"
            yield Row(what, "×", ratio(times, "fused", "PyTorch"), most=1.05)


def window(
    setting: Setting,
    lengths: Sequence[int] = (4096, 16384),
    growth: Sequence[int] = (2048, 4096, 8192, 16384),
) -> Iterator[Row]:
    """Measure window attention against PyTorch's attention with the band as mask."""
    form = partial(restricted.window_attention, radius=RADIUS)
    for length, least in zip(lengths, (7, 25), strict=True):
        inputs = setting.inputs(length)
        mask = masks.window_mask(length, radius=RADIUS, device=setting.device)
        rivals = {
            "window": partial(form, *inputs),
            "dense": partial(F.scaled_dot_product_attention, *inputs, mask),
        }
        times = setting.race(rivals, slow=True)
        what = f"SDPA with the band as mask / window_attention, radius {RADIUS}, n = {length}"
        yield Row(what, "×", ratio(times, "dense", "window"), least=least)
    yield Row("window_attention, exponent of its time in n", "", setting.grow(form, growth), most=1.1)

    inputs = setting.inputs(lengths[0])

    def dense() -> Tensor:
        mask = masks.window_mask(lengths[0], radius=RADIUS, device=setting.device)
        return F.scaled_dot_product_attention(*inputs, mask)

    memory = setting.memory(dense) / setting.memory(partial(form, *inputs))
    what = f"extra memory of the band and SDPA with it / window_attention, n = {lengths[0]}"
    yield Row(what, "×", _exactly(memory), least=15)


def local(setting: Setting, length: int = 4096, radius: int = 10) -> Iterator[Row]:
    """Measure the form of local-p that gathers its window against the one that scores all keys."""
    query, key, value = (tensor[0, 0] for tensor in setting.inputs(length, heads=1))
    options = {
        "positions": length * torch.rand(length, device=setting.device),
        "radius": radius,
        "gaussian": True,
    }
    times = setting.race(
        {
            "dense": lambda: taxonomy.local_attention(query, key, value, **options)[0],
            "gathered": lambda: taxonomy.gathered_local_attention(query, key, value, **options)[0],
        }
    )
    what = f"local-p, dense / gathered, n = {length}, radius {radius}"
    yield Row(what, "×", ratio(times, "dense", "gathered"), least=20)


def streaming(setting: Setting, length: int = 16384) -> Iterator[Row]:
    """Measure the streaming softmax against PyTorch's attention."""
    inputs = setting.inputs(length)
    rivals = {
        "streaming": partial(restricted.streaming_attention, *inputs),
        "PyTorch": partial(F.scaled_dot_product_attention, *inputs),
    }
    times = setting.race(rivals, slow=True)
    yield Row(
        f"streaming_attention / SDPA, n = {length}", "×", ratio(times, "streaming", "PyTorch"), most=1.8
    )
    memory = setting.memory(rivals["streaming"])
    yield Row(f"streaming_attention, extra memory, n = {length}", " MiB", _exactly(memory), most=40)


def linear(
    setting: Setting, length: int = 16384, growth: Sequence[int] = (2048, 4096, 8192, 16384)
) -> Iterator[Row]:
    """Measure linear attention against PyTorch's, which computes other weights."""
    inputs = setting.inputs(length)
    times = interleave(
        {
            "linear": partial(qkv.linear_attention, *inputs),
            "PyTorch": partial(F.scaled_dot_product_attention, *inputs),
        },
        rounds=max(2, setting.rounds // 3),
        device=setting.device,
    )
    yield Row(f"SDPA / linear_attention, n = {length}", "×", ratio(times, "PyTorch", "linear"), least=30)
    exponent = setting.grow(qkv.linear_attention, growth)
    yield Row("linear_attention, exponent of its time in n", "", exponent, most=1.05)


def generation(
    setting: Setting, sizes: Sequence[tuple[int, int]] = ((1, 512), (8, 128)), tokens: int = 256
) -> Iterator[Row]:
    """Measure greedy generation with and without cached keys and values, for ``(batch, d_model)``."""
    end = 2
    for batch, d_model in sizes:
        model = Transformer(11, 13, d_model=d_model, heads=4, encoder_layers=2)
        model = model.to(setting.device, setting.dtype).eval()
        with torch.no_grad():
            model.readout.bias[end] = float("-inf")  # all tokens that are asked for get written
        source = torch.randint(3, 11, (batch, 32), device=setting.device)
        write = partial(model.generate, source, start=1, end=end, max_length=tokens)
        times = setting.race(
            {
                "cached": lambda write=write: write().log_probability,
                "uncached": lambda write=write: write(cache=False).log_probability,
            },
            slow=True,
        )
        what = f"generation of {tokens} tokens, uncached / cached, d = {d_model}, 2 layers, batch {batch}"
        yield Row(what, "×", ratio(times, "uncached", "cached"), least=5)


CASES = (attend, fused, window, local, streaming, linear, generation)


def _plain(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    scores = query @ key.mT / WIDTH**0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    return torch.softmax(scores, dim=-1) @ value


def _exactly(number: float) -> dict[str, float]:
    return spread([number, number])
