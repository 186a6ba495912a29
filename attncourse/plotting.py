"""Figures of the course, in one style: weights as heat maps, curves over seeds, costs, position encodings.

Each function draws into axes, or makes a figure, and returns it. Labels and titles are set, and the numbers
behind a figure can be read from what is returned.
"""

from collections.abc import Mapping, Sequence
from itertools import cycle

import matplotlib as mpl
import torch
from jaxtyping import Float, Shaped
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib_inline.backend_inline import set_matplotlib_formats
from torch import Tensor

# Okabe and Ito's colours, without their yellow, which is too pale for a line on white.
_COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]
_MARKERS = "os^Dv*X"


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
    cells = weights.detach().cpu().double()
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
    x, runs = x.detach().cpu().numpy(), runs.detach().cpu().double()
    (line,) = ax.plot(x, runs.mean(dim=0).numpy(), marker=marker, label=label)
    ax.fill_between(
        x, runs.amin(dim=0).numpy(), runs.amax(dim=0).numpy(), color=line.get_color(), alpha=0.25, linewidth=0
    )
    return ax


def head_maps(
    weights: Shaped[Tensor, "heads queries keys"],
    queries: Sequence[str] | None = None,
    keys: Sequence[str] | None = None,
    *,
    columns: int = 4,
    numbers: bool = False,
) -> Figure:
    """Draws the weights of several heads as heat maps side by side, all with the colours of `heatmap`.

    Args:
        weights: ``(heads, queries, keys)``, from 0 to 1.
        queries: the token of each row; positions if left out.
        keys: the token of each column; positions if left out.
        columns: number of heat maps in a row, at least 1.
        numbers: write each weight into its cell.

    Returns:
        The figure; its axes are those of the heads, in order.

    Raises:
        ValueError: if the weights do not have three axes, or one head is refused by `heatmap`.

    Chapter: ``multihead``.
    """
    titles = [f"head {head + 1}" for head in range(len(weights))]
    return _small_multiples("heads", weights, titles, queries, keys, columns, numbers)


def weights_over_time(
    weights: Shaped[Tensor, "times queries keys"],
    times: Sequence[str],
    queries: Sequence[str] | None = None,
    keys: Sequence[str] | None = None,
    *,
    columns: int = 4,
    numbers: bool = False,
) -> Figure:
    """Draws how weights change, such as over the steps of a training, as heat maps from left to right.

    Args:
        weights: ``(times, queries, keys)``, from 0 to 1.
        times: name of each moment, such as "step 100".
        queries: the token of each row; positions if left out.
        keys: the token of each column; positions if left out.
        columns: number of heat maps in a row, at least 1.
        numbers: write each weight into its cell.

    Returns:
        The figure; its axes are those of the moments, in order.

    Raises:
        ValueError: if the weights do not have three axes, a moment has no name, or `heatmap` refuses one.

    Chapter: ``alignment``.
    """
    return _small_multiples("times", weights, times, queries, keys, columns, numbers)


def length_curve(
    lengths: Shaped[Tensor, " points"] | Sequence[int],
    scores: Mapping[str, Shaped[Tensor, "_ points"]],
    *,
    trained: tuple[int, int] | None = None,
    ylabel: str = "exact match",
    ax: Axes | None = None,
) -> Axes:
    """Draws how well models do at each length: for each, the mean of its seeds and a band over all of them.

    Args:
        lengths: ``(points,)``, in tokens.
        scores: name of each model, and its scores ``(runs, points)``, from 0 to 1.
        trained: the smallest and the largest length of the training; it is shaded.
        ylabel: what a score is.
        ax: where to draw; a new figure if left out.

    Returns:
        The axes, with a legend and a scale from 0 to 1.

    Raises:
        ValueError: if there is no model, or its scores lie outside 0 to 1 or do not fit the lengths.

    Chapter: ``seq2seq``.
    """
    lengths = torch.as_tensor(lengths)
    _check_some("scores", scores)
    for name, runs in scores.items():
        if not ((runs >= 0) & (runs <= 1)).all():
            raise ValueError(
                f"scores must lie between 0 and 1, but those of {name} range "
                f"from {runs.min().item():g} to {runs.max().item():g}"
            )
    for (name, runs), marker in zip(scores.items(), cycle(_MARKERS), strict=False):
        ax = band(lengths, runs, label=name, marker=marker, ax=ax)
    if trained is not None:
        ax.axvspan(*trained, color="0.9", zorder=0, label="lengths in training")
    ax.set(xlabel="length (tokens)", ylabel=ylabel, ylim=(-0.03, 1.03))
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.legend()
    return ax


def growth_exponent(
    sizes: Shaped[Tensor, " points"] | Sequence[float], costs: Shaped[Tensor, " points"] | Sequence[float]
) -> float:
    """Fits the exponent a of ``cost = c * size ** a``, by least squares on the logarithms.

    Args:
        sizes: at least two different ones, above 0.
        costs: one for each size, above 0.

    Returns:
        The exponent: 1 if the cost grows as the size, 2 if it grows as its square.

    Raises:
        ValueError: if there are not two different sizes, or a number is not above 0.

    Chapter: ``restricted``.
    """
    return _power_law(torch.as_tensor(sizes), torch.as_tensor(costs))[0]


def cost_curves(
    sizes: Shaped[Tensor, " points"] | Sequence[float],
    costs: Mapping[str, Shaped[Tensor, " points"] | Sequence[float]],
    *,
    ylabel: str,
    xlabel: str = "length n (tokens)",
    ax: Axes | None = None,
) -> Axes:
    """Draws how costs grow, both scales logarithmic, with a fitted power law; its exponent is in the legend.

    Args:
        sizes: ``(points,)``, at least two different ones, above 0.
        costs: name of each mechanism, and its costs ``(points,)``, above 0.
        ylabel: what a cost is, with its unit, such as "time (s)".
        xlabel: what a size is, with its unit.
        ax: where to draw; a new figure if left out.

    Returns:
        The axes; the measurements are markers, the fits are lines.

    Raises:
        ValueError: if there is no mechanism, or as for `growth_exponent`.

    Chapter: ``restricted``.
    """
    _check_some("costs", costs)
    sizes = torch.as_tensor(sizes)
    costs = {name: torch.as_tensor(measured) for name, measured in costs.items()}
    fits = {name: _power_law(sizes, measured) for name, measured in costs.items()}
    if ax is None:
        _, ax = plt.subplots()
    x = sizes.detach().cpu().double()
    for (name, (exponent, factor)), marker in zip(fits.items(), cycle(_MARKERS), strict=False):
        (points,) = ax.plot(
            x.numpy(),
            costs[name].detach().cpu().double().numpy(),
            marker=marker,
            linestyle="none",
            label=f"{name}: $n^{{{exponent:.2f}}}$",
        )
        ax.plot(x.numpy(), (factor * x**exponent).numpy(), color=points.get_color(), linewidth=1)
    ax.set(xscale="log", yscale="log", xlabel=xlabel, ylabel=ylabel)
    ax.set_xticks([], minor=True)
    ax.set_xticks(x.tolist(), labels=[f"{size:g}" for size in x.tolist()])
    ax.legend()
    return ax


def encoding_table(
    table: Float[Tensor, "length d_model"], *, ax: Axes | None = None, title: str = ""
) -> Axes:
    """Draws a position encoding as a picture: a row for each position, a column for each dimension.

    Negative numbers are orange and positive ones purple; both get darker with the distance from 0.

    Args:
        table: ``(length, d_model)``.
        ax: where to draw; a new figure if left out.
        title: what is drawn.

    Returns:
        The axes; a bar beside them shows which colour is which number.

    Raises:
        ValueError: if the table is no matrix, is empty, or holds a number that is not finite.

    Chapter: ``position``.
    """
    cells = _checked_table(table)
    if ax is None:
        _, ax = plt.subplots()
    limit = cells.abs().max().item() or 1.0
    image = ax.imshow(
        cells.numpy(), vmin=-limit, vmax=limit, cmap="PuOr", aspect="auto", interpolation="nearest"
    )
    ax.figure.colorbar(image, ax=ax, label="value")
    ax.set(xlabel="dimension", ylabel="position", title=title)
    ax.spines[:].set_visible(False)
    return ax


def encoding_products(
    table: Float[Tensor, "length d_model"], *, label: str, marker: str = "", ax: Axes | None = None
) -> Axes:
    """Draws the dot product of two positions against their distance, averaged over all pairs that far apart.

    The band runs from the lowest to the highest pair. It is as thin as the line where the product depends on
    the distance alone, as it does for the sinusoidal encoding.

    Args:
        table: ``(length, d_model)``.
        label: name of the encoding in the legend.
        marker: shape that marks the points.
        ax: where to draw; a new figure if left out.

    Returns:
        The axes, with a legend.

    Raises:
        ValueError: if the table is no matrix, is empty, or holds a number that is not finite.

    Chapter: ``position``.
    """
    cells = _checked_table(table)
    products = cells @ cells.mT
    distances = [products.diagonal(distance) for distance in range(len(cells))]
    mean, low, high = (
        torch.stack([reduce(row) for row in distances]).numpy()
        for reduce in (torch.mean, torch.min, torch.max)
    )
    if ax is None:
        _, ax = plt.subplots()
    (line,) = ax.plot(mean, marker=marker, label=label)
    ax.fill_between(range(len(cells)), low, high, color=line.get_color(), alpha=0.25, linewidth=0)
    ax.set(xlabel="distance (tokens)", ylabel="dot product")
    ax.legend()
    return ax


def _small_multiples(
    axis: str,
    weights: Shaped[Tensor, "maps queries keys"],
    titles: Sequence[str],
    queries: Sequence[str] | None,
    keys: Sequence[str] | None,
    columns: int,
    numbers: bool,
) -> Figure:
    """Draws heat maps in a grid. Only those at the left and the bottom name the axes."""
    if weights.ndim != 3 or not weights.numel():
        raise ValueError(
            f"weights must have 3 axes, ({axis}, queries, keys), none of them empty, "
            f"but have shape {tuple(weights.shape)}"
        )
    count, height, width = weights.shape
    if len(titles) != count or columns < 1:
        raise ValueError(
            f"expected {count} names, one for each map, and at least 1 column; "
            f"got {len(titles)} names and {columns} columns"
        )
    columns = min(columns, count)
    rows = -(-count // columns)
    cell = 0.62 if numbers else 0.34  # inches
    figure, grid = plt.subplots(
        rows,
        columns,
        squeeze=False,
        layout="constrained",
        figsize=(1.0 + columns * (0.7 + cell * width), 0.4 + rows * (1.0 + 0.8 * cell * height)),
    )
    for index, ax in enumerate(grid.flat):
        if index >= count:
            ax.remove()
            continue
        heatmap(weights[index], queries, keys, ax=ax, title=titles[index], numbers=numbers)
        if index % columns:
            ax.set_ylabel("")
        if index + columns < count:
            ax.set_xlabel("")
    if not numbers:
        drawn = figure.axes
        figure.colorbar(drawn[0].images[0], ax=drawn, label="weight")
    return figure


def _power_law(sizes: Shaped[Tensor, " points"], costs: Shaped[Tensor, " points"]) -> tuple[float, float]:
    """Fits exponent and factor of ``cost = factor * size ** exponent``."""
    if sizes.ndim != 1 or sizes.shape != costs.shape:
        raise ValueError(
            "sizes and costs must have the same shape, (points,), "
            f"but have {tuple(sizes.shape)} and {tuple(costs.shape)}"
        )
    if not ((sizes > 0).all() and (costs > 0).all() and len(sizes.unique()) > 1):
        raise ValueError(
            "expected at least two different sizes, and sizes and costs above 0; "
            f"got sizes {sizes.tolist()} and costs {costs.tolist()}"
        )
    x, y = sizes.detach().cpu().double().log(), costs.detach().cpu().double().log()
    exponent = ((x - x.mean()) * (y - y.mean())).sum() / (x - x.mean()).square().sum()
    return exponent.item(), (y.mean() - exponent * x.mean()).exp().item()


def _checked_table(table: Float[Tensor, "length d_model"]) -> Float[Tensor, "length d_model"]:
    """Gives a position encoding as numbers that can be drawn."""
    if table.ndim != 2 or not table.numel() or not table.isfinite().all():
        raise ValueError(
            "table must have 2 axes, (length, d_model), none of them empty, and finite numbers, "
            f"but has shape {tuple(table.shape)} and {int((~table.isfinite()).sum())} numbers not finite"
        )
    return table.detach().cpu().double()


def _check_some(name: str, curves: Mapping) -> None:
    if not curves:
        raise ValueError(f"{name} must hold at least one curve, but is empty")


def _readable_on(colour: tuple[float, ...]) -> str:
    """Chooses black or white text, whichever has the higher contrast on a colour, as WCAG 2.2 defines it."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour[:3]]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    # Contrast is (lighter + 0.05) / (darker + 0.05); white has luminance 1, black 0.
    return "black" if (luminance + 0.05) / 0.05 > 1.05 / (luminance + 0.05) else "white"
