"""Training a model.

A run is a function of its arguments: each step seeds PyTorch anew, from ``seed`` and its own number. So a run
that was interrupted and resumed from a checkpoint gives the same parameters, bit by bit, as one that was not,
wherever the operations of the model themselves are deterministic, as they are on a CPU.
"""

import contextlib
import hashlib
import math
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm import tqdm

from attncourse.device import pick_device
from attncourse.validation import check_lengths, known_numbers

Schedule = Literal["constant", "inverse square root", "cosine"]
_FORMAT = "attncourse checkpoint 1"


@dataclass
class History:
    """What happened at each step of a run.

    Attributes:
        loss: before the step's update, in nats a token for `sequence_loss`.
        learning_rate: of the update.
        gradient_norm: Euclidean norm of the whole gradient, before clipping.
    """

    loss: list[float] = field(default_factory=list)
    learning_rate: list[float] = field(default_factory=list)
    gradient_norm: list[float] = field(default_factory=list)


def token_loss(
    logits: Float[Tensor, "batch length vocabulary"],
    target: Int[Tensor, "batch length"],
    lengths: Int[Tensor, " batch"],
) -> Float[Tensor, ""]:
    """Averages the cross entropy over the real tokens of a batch: each counts the same, and padding nothing.

    Args:
        logits: the prediction at each place.
        target: the token that should stand there.
        lengths: number of real tokens of each sequence, from 0 to ``length``.

    Returns:
        The loss, in nats a token, at least 0.

    Raises:
        ValueError: if the shapes do not fit, a length is out of range, or no token is real.

    Chapter: ``seq2seq``.
    """
    if logits.ndim != 3 or logits.shape[:2] != target.shape or lengths.shape != target.shape[:1]:
        raise ValueError(
            "expected logits (batch, length, vocabulary), target (batch, length) and lengths (batch,); "
            f"got shapes {tuple(logits.shape)}, {tuple(target.shape)} and {tuple(lengths.shape)}"
        )
    length = target.shape[1]
    check_lengths(lengths, "length", length)
    numbers = known_numbers(lengths)
    if numbers is not None and not any(numbers):
        raise ValueError(f"at least one length must be above 0, but they are {numbers}")
    padding = torch.arange(length, device=target.device) >= lengths[:, None]
    return F.cross_entropy(
        logits.flatten(0, 1), target.masked_fill(padding, -100).flatten(), ignore_index=-100
    )


def sequence_loss(model: nn.Module, batch: Any) -> Float[Tensor, ""]:
    """Gives the loss of a model that reads the true target so far at every place: teacher forcing.

    Args:
        model: ``model(source, target, source_lengths)`` gives ``(logits, maps)``.
        batch: a `Batch`, whose targets run from start to end.

    Returns:
        The loss, in nats a token.

    Source: Williams and Zipser (1989), for teacher forcing. Chapter: ``seq2seq``.
    """
    logits, _ = model(batch.source, batch.target[:, :-1], batch.source_lengths)
    return token_loss(logits, batch.target[:, 1:], batch.target_lengths - 1)


def learning_rate_at(step: int, *, peak: float, warmup: int, steps: int, schedule: Schedule) -> float:
    """Gives the learning rate of a step: it rises in a line over the warm-up, and then follows the schedule.

    With ``peak = (d_model * warmup) ** -0.5``, the schedule "inverse square root" is that of Vaswani et al.

    Args:
        step: number of the step, from 1 to ``steps``.
        peak: the largest rate, which is that of step ``warmup``.
        warmup: number of steps over which the rate rises, at least 0.
        steps: number of steps of the whole run.
        schedule: "constant" stays at the peak; "inverse square root" falls as ``step ** -0.5``; "cosine"
            falls along half a cosine, to 0 after the last step.

    Returns:
        The learning rate, from 0 to ``peak``.

    Raises:
        ValueError: if the step or the warm-up is out of range, or the schedule is unknown.

    Source: Vaswani et al. (2017), section 5.3, equation 3; Loshchilov and Hutter (2017), equation 5, for the
    cosine. Chapter: ``transformer``.
    """
    if not 1 <= step <= steps or warmup < 0:
        raise ValueError(
            "expected a step from 1 to steps and a warm-up of at least 0; "
            f"got step = {step}, steps = {steps}, warmup = {warmup}"
        )
    if schedule not in ("constant", "inverse square root", "cosine"):
        raise ValueError(
            f"schedule must be 'constant', 'inverse square root' or 'cosine', but is {schedule!r}"
        )
    if step <= warmup:
        return peak * step / warmup
    if schedule == "inverse square root":
        return peak * math.sqrt(max(warmup, 1) / step)
    if schedule == "cosine":
        return peak * (1 + math.cos(math.pi * (step - 1 - warmup) / (steps - warmup))) / 2
    return peak


def train(
    model: nn.Module,
    batches: Callable[[int], Any],
    *,
    steps: int,
    loss: Callable[[nn.Module, Any], Tensor] = sequence_loss,
    learning_rate: float = 1e-3,
    warmup: int = 0,
    schedule: Schedule = "constant",
    clip: float = 1.0,
    weight_decay: float = 0.0,
    betas: tuple[float, float] = (0.9, 0.98),
    seed: int = 0,
    device: torch.device | str | None = None,
    checkpoint: Path | str | None = None,
    save_every: int = 100,
) -> History:
    """Trains a model in place, by AdamW, which without weight decay is Adam.

    On CUDA the forward pass runs in bfloat16 where that is safe. A progress bar is shown in a terminal, and
    not when nbgrader runs the notebook. The model goes to the device and stays there. It returns to training
    or evaluation mode as it came, and PyTorch's random state on the CPU and on CUDA is as before.

    Args:
        model: what to train.
        batches: gives the batch of each step, from its number: 1, 2, … It may draw from PyTorch's own
            randomness, which is seeded before each call, and must depend on nothing else that changes.
        steps: number of updates.
        loss: ``loss(model, batch)`` gives a scalar.
        learning_rate: the peak of the schedule.
        warmup: see `learning_rate_at`.
        schedule: see `learning_rate_at`.
        clip: largest norm of the gradient, above 0; a longer one is shortened to it.
        weight_decay: of AdamW.
        betas: of Adam. The default, and an epsilon of 1e-9, are those of Vaswani et al.
        seed: another seed gives other batches and another dropout.
        device: where to train; `pick_device` chooses if left out.
        checkpoint: a file from which the run resumes if it exists, and to which it is saved.
        save_every: number of steps between two saves, at least 1. The last step is always saved.

    Returns:
        Loss, learning rate and gradient norm of every step, those before a resumption among them.

    Raises:
        ValueError: if a setting is out of range, or the checkpoint does not belong to this run. Model and
            checkpoint are then as before.
        FloatingPointError: if the loss or the gradient is not finite. The model then is as it was before that
            step.

    Source: Vaswani et al. (2017), section 5.3; Loshchilov and Hutter (2019), for AdamW; Pascanu et al.
    (2013), for clipping. Chapter: ``transformer``.
    """
    if min(steps, save_every) < 1 or not clip > 0 or not learning_rate > 0:
        raise ValueError(
            "expected steps and save_every of at least 1, and clip and learning_rate above 0; got "
            f"steps = {steps}, save_every = {save_every}, clip = {clip}, learning_rate = {learning_rate}"
        )
    rates = {"peak": learning_rate, "warmup": warmup, "steps": steps, "schedule": schedule}
    learning_rate_at(1, **rates)  # an unknown schedule is refused before anything is read or moved
    settings = {**rates, "clip": clip, "weight_decay": weight_decay, "betas": list(betas), "seed": seed}
    if schedule != "cosine":
        del settings["steps"]  # it changes no step, so a finished run may go on
    if checkpoint is not None and not Path(checkpoint).parent.is_dir():
        raise ValueError(f"there is no folder {Path(checkpoint).parent} to write the checkpoint to")
    device = pick_device() if device is None else torch.device(device)
    model.to(device)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=learning_rate, betas=betas, eps=1e-9, weight_decay=weight_decay
    )
    history = History()
    if checkpoint is not None and Path(checkpoint).exists():
        history = _resume(Path(checkpoint), model, optimizer, settings, steps)
    first = len(history.loss) + 1
    with _as_found(model), _progress(first, steps) as numbers:
        for step in numbers:
            torch.manual_seed(_seed_of(seed, step))
            rate = learning_rate_at(step, **rates)
            value, norm = _update(model, optimizer, batches(step).to(device), loss, rate, clip, step)
            history.loss.append(value)
            history.learning_rate.append(rate)
            history.gradient_norm.append(norm)
            numbers.set_postfix(loss=f"{value:.3f}", refresh=False)
            if checkpoint is not None and (step % save_every == 0 or step == steps):
                _save(Path(checkpoint), model, optimizer, settings, history)
    return history


def _seed_of(seed: int, step: int) -> int:
    """Gives a seed for one step of one run. PyTorch's generator on the CPU reads 32 bits of it."""
    return int.from_bytes(hashlib.sha256(f"{seed} {step}".encode()).digest()[:4])


def _progress(first: int, steps: int) -> tqdm:
    """Counts the steps, and shows how far it is where a person can see it."""
    hidden = True if "NBGRADER_EXECUTION" in os.environ else None  # None: shown in a terminal only
    return tqdm(range(first, steps + 1), initial=first - 1, total=steps, desc="training", disable=hidden)


@contextlib.contextmanager
def _as_found(model: nn.Module):
    """Puts the model into training mode, and restores its mode and PyTorch's randomness afterwards."""
    modes = {module: module.training for module in model.modules()}
    # The seed of a step goes to every GPU.
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        try:
            yield model.train()
        finally:
            for module, mode in modes.items():
                module.training = mode


def _update(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batch: Any,
    loss: Callable[[nn.Module, Any], Tensor],
    rate: float,
    clip: float,
    step: int,
) -> tuple[float, float]:
    """Makes one update. Gives the loss and the norm of the gradient before it."""
    device = next(model.parameters()).device
    with torch.autocast(device.type, dtype=torch.bfloat16, enabled=device.type == "cuda"):
        value = loss(model, batch)
    optimizer.zero_grad()
    value.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), clip)
    optimizer.param_groups[0]["lr"] = rate
    numbers = value.item(), norm.item()
    for name, number in zip(("loss", "gradient norm"), numbers, strict=True):
        if not math.isfinite(number):
            optimizer.zero_grad()
            raise FloatingPointError(
                f"the {name} is {number} at step {step}, with learning rate {rate:g}; "
                "training stopped before this update"
            )
    optimizer.step()
    optimizer.zero_grad()
    return numbers


def _save(
    path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, settings: dict, history: History
) -> None:
    """Writes a checkpoint so that at every moment the file is a whole one, the old or the new."""
    partial = path.with_name(path.name + ".partial")
    torch.save(
        {
            "format": _FORMAT,
            "settings": settings,
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "history": asdict(history),
        },
        partial,
    )
    partial.replace(path)


def _resume(
    path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, settings: dict, steps: int
) -> History:
    """Puts model and optimiser into the state of a checkpoint, and gives its history."""
    try:
        saved = torch.load(path, map_location="cpu", weights_only=True)
        known = saved["format"] == _FORMAT
    except Exception as error:  # a broken file fails in many ways
        reason = type(error).__name__  # PyTorch's text advises to load the file unsafely
        raise ValueError(f"{path} is no checkpoint of this course, or a broken one ({reason})") from error
    if not known:
        raise ValueError(f"{path} is not in the format {_FORMAT!r}, but in {saved['format']!r}")
    if saved["settings"] != settings:
        raise ValueError(
            f"{path} belongs to a run with {_differences(saved['settings'], settings)}; "
            "use the same settings to resume it, or another file for another run"
        )
    shapes, own = (
        {name: list(value.shape) for name, value in state.items()}
        for state in (saved["model"], model.state_dict())
    )
    if shapes != own:
        raise ValueError(f"{path} holds another model, with {_differences(shapes, own)}")
    history = History(**saved["history"])
    if len(history.loss) > steps:
        raise ValueError(f"{path} is after step {len(history.loss)} already, and steps = {steps}")
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    return history


def _differences(saved: dict, own: dict) -> str:
    """Names the entries that differ, at most five."""
    names = [name for name in {**saved, **own} if saved.get(name) != own.get(name)]
    listed = ", ".join(f"{name} = {saved.get(name)} (here {own.get(name)})" for name in names[:5])
    return listed + (f" and {len(names) - 5} more" if len(names) > 5 else "")
