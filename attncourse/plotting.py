"""Figures of the course: weights as a heat map, curves with a band over seeds, one style for both."""

from collections.abc import Sequence

import matplotlib as mpl
import torch
from jaxtyping import Shaped
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib_inline.backend_inline import set_matplotlib_formats
from torch import Tensor

# Okabe and Ito's colours, without their yellow, which is too pale for a line on white.
_COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]


def use_style() -> None:
    """Sets matplotlib up for the course: colours that colour-blind readers can tell apart, figures as SVG.

    The same figure gives the same bytes at every build: its ids and its date do not change.

    Source: Okabe and Ito (2008), "Color Universal Design", for the colours. Chapters: all.
    """
    mpl.rcParams.update(
        {
            "axes.prop_cycle": mpl.cycler(color=_COLOURS),
            "axes.spines.right": False,
            "axes.spines.top": False,
            "figure.constrained_layout.use": True,
            "figure.facecolor": "white",
            "font.size": 11,
            "legend.frameon": False,
            "svg.hashsalt": "attncourse",
        }
    )
    set_matplotlib_formats("svg", metadata={"Date": None})


def heatmap(
    weights: Shaped[Tensor, "queries keys"],
    queries: Sequence[str] | None = None,
    keys: Sequence[str] | None = None,
    *,
    ax: Axes | None = None,
    title: str = "",
    numbers: bool | None = None,
) -> Axes:
    """Draws weights as a heat map: a row for each query, a column for each key, dark for 0 and light for 1.

    The colours always run from 0 to 1, so that two heat maps can be compared. They get lighter from 0 to 1 in
    every kind of colour vision, and in print.

    Args:
        weights: ``(queries, keys)``, from 0 to 1; a boolean mask is drawn as 0 and 1.
        queries: the token of each row; positions if left out.
        keys: the token of each column; positions if left out.
        ax: where to draw; a new figure that fits the matrix if left out.
        title: what is drawn.
        numbers: write each weight into its cell; if left out, where there are at most 12 rows and columns.

    Returns:
        The axes that hold the heat map.

    Raises:
        ValueError: if the weights are no matrix, are empty, lie outside 0 to 1, or do not fit the labels.

    Chapter: ``qkv``, stage 2.
    """
    if weights.ndim != 2:
        raise ValueError(f"weights must have 2 axes, (queries, keys), but have shape {tuple(weights.shape)}")
    rows, columns = weights.shape
    if not weights.numel():
        raise ValueError(
            f"weights need at least one query and one key, but have shape {tuple(weights.shape)}"
        )
    for name, labels, size in (("queries", queries, rows), ("keys", keys, columns)):
        if labels is not None and len(labels) != size:
            raise ValueError(f"{name} must name {size} tokens, one for each, but names {len(labels)}")
    cells = weights.detach().double().cpu()
    # Written so that NaN is refused too. Rounding may take a weight a little over 1.
    if not ((cells >= 0) & (cells <= 1 + 1e-3)).all():
        raise ValueError(
            "weights must lie between 0 and 1, "
            f"but range from {cells.min().item():g} to {cells.max().item():g}"
        )

    if ax is None:
        _, ax = plt.subplots(figsize=(1.6 + 0.62 * columns, 1.2 + 0.5 * rows))
    image = ax.imshow(cells.numpy(), vmin=0, vmax=1, cmap="cividis", aspect="auto", interpolation="nearest")
    for axis, count, labels in ((ax.xaxis, columns, keys), (ax.yaxis, rows, queries)):
        # A token may hold a $, which starts a formula elsewhere.
        axis.set_ticks(range(count), labels=labels, **({} if labels is None else {"parse_math": False}))
    ax.set(xlabel="key", ylabel="query", title=title)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    if numbers is None:
        numbers = max(rows, columns) <= 12
    if numbers:
        pattern = "{:.0f}" if weights.dtype == torch.bool else "{:.2f}"
        for row in range(rows):
            for column in range(columns):
                weight = cells[row, column].item()
                ax.text(
                    column,
                    row,
                    pattern.format(weight),
                    ha="center",
                    va="center",
                    color=_readable_on(image.cmap(image.norm(weight))),
                )
    return ax


def band(
    x: Shaped[Tensor, " points"],
    runs: Shaped[Tensor, "runs points"],
    *,
    label: str,
    marker: str = "o",
    ax: Axes | None = None,
) -> Axes:
    """Draws several runs of one measurement as their mean, with a band from the lowest to the highest run.

    Args:
        x: ``(points,)``, where the measurements were made.
        runs: ``(runs, points)``, one row for each seed or repetition.
        label: name of the curve in the legend.
        marker: shape that marks the points, so that curves differ in more than colour.
        ax: where to draw; a new figure if left out.

    Returns:
        The axes that hold the curve.

    Raises:
        ValueError: if ``runs`` is not a matrix with one column for each ``x``.

    Chapter: ``qkv``, why divide.
    """
    if runs.ndim != 2 or x.ndim != 1 or runs.shape[1] != len(x):
        raise ValueError(
            "runs must have shape (runs, points) and x (points,), "
            f"but have shapes {tuple(runs.shape)} and {tuple(x.shape)}"
        )
    if ax is None:
        _, ax = plt.subplots()
    x, runs = x.detach().cpu().numpy(), runs.detach().double().cpu()
    (line,) = ax.plot(x, runs.mean(dim=0).numpy(), marker=marker, label=label)
    ax.fill_between(
        x, runs.amin(dim=0).numpy(), runs.amax(dim=0).numpy(), color=line.get_color(), alpha=0.25, linewidth=0
    )
    return ax


def _readable_on(colour: tuple[float, ...]) -> str:
    """Chooses black or white text, whichever has the higher contrast on a colour, as WCAG 2.2 defines it."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour[:3]]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    # Contrast is (lighter + 0.05) / (darker + 0.05); white has luminance 1, black 0.
    return "black" if (luminance + 0.05) / 0.05 > 1.05 / (luminance + 0.05) else "white"
