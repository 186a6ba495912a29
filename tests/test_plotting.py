import math

import matplotlib
import pytest
import torch
from matplotlib import pyplot as plt

from attncourse.plotting import (
    band,
    cost_curves,
    encoding_products,
    encoding_table,
    growth_exponent,
    head_maps,
    heatmap,
    length_curve,
    use_style,
    weights_over_time,
)

matplotlib.use("Agg")
WEIGHTS = torch.tensor([[0.0, 0.25, 0.75], [0.1, 0.9, 0.0]])


@pytest.fixture(autouse=True)
def _no_figures_and_no_style_left():
    with matplotlib.rc_context():
        yield
    plt.close("all")


def _luminance(colour):
    """Relative luminance by WCAG 2.2, for colours given as matplotlib gives them."""
    channels = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour[:3]]
    return sum(part * c for part, c in zip((0.2126, 0.7152, 0.0722), channels, strict=True))


def test_heatmap_draws_rows_as_queries_and_columns_as_keys_from_0_to_1():
    ax = heatmap(WEIGHTS, ["one", "two"], ["a", "b", "c"], title="weights")
    image = ax.images[0]
    assert image.get_array().tolist() == WEIGHTS.double().tolist()
    assert image.get_clim() == (0, 1)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["one", "two"]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["a", "b", "c"]
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_title()) == ("key", "query", "weights")


def test_heatmap_writes_each_number_where_its_cell_is():
    ax = heatmap(WEIGHTS)
    written = {text.get_position(): text.get_text() for text in ax.texts}
    assert written[(2, 0)] == "0.75" and written[(1, 1)] == "0.90" and len(written) == 6
    assert [text.get_text() for text in heatmap(torch.tensor([[True, False]])).texts] == ["1", "0"]


def test_heatmap_writes_no_numbers_into_a_large_matrix_unless_asked():
    assert not heatmap(torch.rand(2, 13)).texts
    assert len(heatmap(torch.rand(2, 13), numbers=True).texts) == 26
    assert not heatmap(WEIGHTS, numbers=False).texts


def test_every_number_has_a_contrast_of_at_least_4_5_to_its_cell():
    ax = heatmap(torch.linspace(0, 1, 101)[None], numbers=True)
    image = ax.images[0]
    for text in ax.texts:
        cell = _luminance(image.cmap(image.norm(image.get_array()[0, text.get_position()[0]])))
        ink = _luminance(matplotlib.colors.to_rgb(text.get_color()))
        assert (max(cell, ink) + 0.05) / (min(cell, ink) + 0.05) >= 4.5


def test_larger_weights_are_lighter_so_that_no_colour_vision_is_needed():
    image = heatmap(torch.linspace(0, 1, 101)[None]).images[0]
    lightness = [_luminance(image.cmap(weight / 100)) for weight in range(101)]
    assert lightness == sorted(lightness) and len(set(lightness)) == 101


def test_heatmap_draws_into_given_axes_and_takes_weights_that_need_a_gradient():
    _, ax = plt.subplots()
    assert heatmap(WEIGHTS.clone().requires_grad_(), ax=ax) is ax
    assert len(plt.get_fignums()) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((torch.rand(2, 3, 5),), r"2 axes, \(queries, keys\), but have shape \(2, 3, 5\)"),
        ((WEIGHTS, ["one"]), "queries must name 2 tokens, one for each, but names 1"),
        ((WEIGHTS, None, ["a", "b"]), "keys must name 3 tokens, one for each, but names 2"),
        ((torch.tensor([[-0.5, 1.5]]),), "between 0 and 1, but range from -0.5 to 1.5"),
        ((torch.tensor([[0.5, torch.nan]]),), "between 0 and 1, but range from nan to nan"),
        ((torch.rand(0, 3),), "at least one query and one key"),
    ],
)
def test_heatmap_refuses_what_it_cannot_draw(arguments, message, no_shape_checks):
    with pytest.raises(ValueError, match=message):
        heatmap(*arguments)


def test_band_draws_the_mean_and_the_range_of_the_runs():
    ax = band(torch.tensor([1.0, 2.0]), torch.tensor([[1.0, 5.0], [3.0, 4.0], [8.0, 0.0]]), label="curve")
    (line,) = ax.lines
    assert line.get_ydata().tolist() == [4.0, 3.0] and line.get_label() == "curve"
    corners = {tuple(corner) for corner in ax.collections[0].get_paths()[0].vertices.tolist()}
    assert {(1.0, 1.0), (1.0, 8.0), (2.0, 0.0), (2.0, 5.0)} <= corners


def test_band_refuses_runs_that_do_not_fit(no_shape_checks):
    with pytest.raises(ValueError, match=r"shape \(runs, points\) .* \(3, 5\) and \(2,\)"):
        band(torch.rand(2), torch.rand(3, 5), label="curve")


def test_the_same_figure_is_the_same_bytes(tmp_path):
    use_style()
    files = [tmp_path / "one.svg", tmp_path / "two.svg"]
    for file in files:
        heatmap(WEIGHTS).figure.savefig(file, metadata={"Date": None})
    assert files[0].read_bytes() == files[1].read_bytes()


def test_importing_changes_no_setting():
    assert matplotlib.rcParams["svg.hashsalt"] == matplotlib.rcParamsDefault["svg.hashsalt"]


def test_a_token_with_a_dollar_sign_is_no_formula():
    ax = heatmap(torch.full((1, 2), 0.5), ["$x_$"], ["$", "a_b"])
    ax.figure.canvas.draw()
    assert [label.get_text() for label in ax.get_yticklabels()] == ["$x_$"]


def maps(count, queries, keys):
    return torch.rand(count, queries, keys, generator=torch.Generator().manual_seed(0))


def test_head_maps_draw_every_head_on_one_scale():
    weights = maps(5, 2, 3)
    figure = head_maps(weights, ["one", "two"], ["a", "b", "c"], columns=3)
    *axes, scale = figure.axes
    assert scale.get_ylabel() == "weight" and scale.get_ylim() == (0, 1)
    assert [ax.get_title() for ax in axes] == [f"head {number}" for number in range(1, 6)]
    for ax, head in zip(axes, weights, strict=True):
        assert ax.images[0].get_array().tolist() == head.double().tolist()
        assert ax.images[0].get_clim() == (0, 1)
        assert [label.get_text() for label in ax.get_yticklabels()] == ["one", "two"]
        assert [label.get_text() for label in ax.get_xticklabels()] == ["a", "b", "c"]
        assert not ax.texts
    assert {ax.get_subplotspec().rowspan.start for ax in axes} == {0, 1}
    # The left column names the queries; the lowest map of each column names the keys.
    assert [ax.get_ylabel() for ax in axes] == ["query", "", "", "query", ""]
    assert [ax.get_xlabel() for ax in axes] == ["", "", "key", "key", "key"]


def test_weights_over_time_run_from_left_to_right():
    figure = weights_over_time(maps(3, 2, 5), ["step 0", "step 10", "step 99"], numbers=True)
    assert [ax.get_title() for ax in figure.axes] == ["step 0", "step 10", "step 99"]
    assert [ax.get_subplotspec().colspan.start for ax in figure.axes] == [0, 1, 2]
    assert [len(ax.texts) for ax in figure.axes] == [10, 10, 10]
    assert figure.axes[1].images[0].get_array().tolist() == maps(3, 2, 5)[1].double().tolist()


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: head_maps(torch.rand(2, 3)), r"3 axes, \(heads, queries, keys\), .* shape \(2, 3\)"),
        (lambda: head_maps(torch.rand(0, 2, 3)), r"none of them empty, but have shape \(0, 2, 3\)"),
        (lambda: head_maps(maps(2, 3, 5), columns=0), "got 2 names and 0 columns"),
        (lambda: head_maps(maps(2, 3, 5) * 2), "between 0 and 1"),
        (lambda: weights_over_time(torch.rand(2, 3), ["a", "b"]), r"3 axes, \(times, queries, keys\)"),
        (
            lambda: weights_over_time(maps(2, 3, 5), ["a"]),
            "expected 2 names, one for each map, .* got 1 names",
        ),
        (lambda: weights_over_time(maps(1, 3, 5), ["a"], ["q"]), "queries must name 3 tokens"),
    ],
)
def test_grids_refuse_what_they_cannot_draw(draw, message, no_shape_checks):
    with pytest.raises(ValueError, match=message):
        draw()


def test_length_curve_draws_a_band_for_each_model_from_0_to_1():
    scores = {"fixed": torch.tensor([[1.0, 0.5, 0.0], [0.5, 0.25, 0.0]]), "attention": torch.ones(1, 3)}
    ax = length_curve(torch.tensor([4, 8, 16]), scores, trained=(4, 10))
    assert [line.get_ydata().tolist() for line in ax.lines] == [[0.75, 0.375, 0.0], [1.0, 1.0, 1.0]]
    assert [line.get_xdata().tolist() for line in ax.lines] == [[4, 8, 16]] * 2
    assert len({line.get_marker() for line in ax.lines}) == len({line.get_color() for line in ax.lines}) == 2
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    assert legend == ["fixed", "attention", "lengths in training"]
    (shaded,) = ax.patches
    assert (shaded.get_x(), shaded.get_width()) == (4, 6)
    assert ax.get_ylim()[0] < 0 < 1 < ax.get_ylim()[1] < 1.1
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("length (tokens)", "exact match")


def test_more_curves_than_markers_are_all_drawn():
    ax = length_curve(torch.arange(2), {str(number): torch.rand(3, 2) for number in range(9)})
    assert len(ax.lines) == 9


@pytest.mark.parametrize("exponent", [-1.0, 0.0, 1.0, 2.5])
def test_a_power_law_has_its_exponent_whatever_the_factor(exponent):
    sizes = torch.tensor([128, 512, 256, 4096])
    assert growth_exponent(sizes, 3e-7 * sizes.double() ** exponent) == pytest.approx(exponent, abs=1e-9)


def test_the_exponent_is_the_slope_of_least_squares():
    # By hand: logs of base 2 are x = 0, 1, 2 and y = 0, 2, 1, so the slope is (1 * 1) / 2.
    assert growth_exponent(torch.tensor([1, 2, 4]), torch.tensor([1, 4, 2])) == pytest.approx(0.5)


def test_cost_curves_show_measurements_fits_and_exponents():
    sizes = torch.tensor([128.0, 256.0, 1024.0])
    ax = cost_curves(sizes, {"dense": 2 * sizes**2, "window": 5 * sizes}, ylabel="time (s)")
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "dense: $n^{2.00}$",
        "window: $n^{1.00}$",
    ]
    dense, dense_fit, window, window_fit = ax.lines
    assert dense.get_ydata().tolist() == (2 * sizes**2).tolist() and dense.get_linestyle() == "None"
    assert dense_fit.get_ydata().tolist() == pytest.approx((2 * sizes**2).tolist())
    assert window_fit.get_ydata().tolist() == pytest.approx((5 * sizes).tolist())
    assert window_fit.get_color() == window.get_color() != dense.get_color()
    assert window.get_marker() != dense.get_marker()
    assert [label.get_text() for label in ax.get_xticklabels()] == ["128", "256", "1024"]
    assert ax.get_ylabel() == "time (s)"


def encoding(length, d_model):
    """Sine and cosine in pairs, written out."""
    angles = [[p / 10_000 ** (i / d_model) for i in range(0, d_model, 2)] for p in range(length)]
    rows = [[wave for angle in row for wave in (math.sin(angle), math.cos(angle))] for row in angles]
    return torch.tensor(rows, dtype=torch.float64)


def test_an_encoding_is_drawn_with_zero_in_the_middle():
    table = encoding(7, 4) - 0.5
    ax = encoding_table(table, title="sinusoidal")
    assert ax.images[0].get_array().tolist() == table.tolist()
    low, high = ax.images[0].get_clim()
    assert -low == high == table.abs().max()
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_title()) == ("dimension", "position", "sinusoidal")
    assert len(ax.figure.axes) == 2  # the bar of the colours
    assert encoding_table(torch.zeros(2, 3)).images[0].get_clim() == (-1, 1)


def test_products_of_the_sinusoidal_encoding_depend_on_the_distance_alone():
    length, d_model = 11, 6
    ax = encoding_products(encoding(length, d_model), label="sinusoidal")
    expected = [sum(math.cos(k / 10_000 ** (i / d_model)) for i in (0, 2, 4)) for k in range(length)]
    (line,) = ax.lines
    assert line.get_ydata().tolist() == pytest.approx(expected)
    band_corners = ax.collections[0].get_paths()[0].vertices
    assert {round(x) for x, _ in band_corners} == set(range(length))
    assert all(y == pytest.approx(expected[round(x)]) for x, y in band_corners)


def test_products_of_another_encoding_have_a_band():
    table = torch.tensor([[1.0, 0.0], [2.0, 0.0], [0.0, 3.0]])
    ax = encoding_products(table, label="table")
    assert ax.lines[0].get_ydata().tolist() == pytest.approx([14 / 3, 1.0, 0.0])
    corners = {tuple(corner) for corner in ax.collections[0].get_paths()[0].vertices.tolist()}
    assert {(0.0, 1.0), (0.0, 9.0), (1.0, 0.0), (1.0, 2.0), (2.0, 0.0)} <= corners
    assert encoding_products(table * 2, label="other", ax=ax) is ax
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["table", "other"]


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: length_curve(torch.arange(3), {}), "scores must hold at least one curve"),
        (
            lambda: length_curve(torch.arange(2), {"rnn": torch.tensor([[0.5, 1.5]])}),
            "those of rnn range from 0.5 to 1.5",
        ),
        (lambda: length_curve(torch.arange(2), {"rnn": torch.rand(3, 5)}), r"\(3, 5\) and \(2,\)"),
        (lambda: cost_curves(torch.arange(3), {}, ylabel="s"), "costs must hold at least one curve"),
        (lambda: growth_exponent(torch.ones(3), torch.ones(3)), "at least two different sizes"),
        (lambda: growth_exponent(torch.tensor([0, 1]), torch.ones(2)), r"got sizes \[0, 1\]"),
        (lambda: growth_exponent(torch.tensor([2, 1]), torch.tensor([1.0, math.nan])), r"costs \[1.0, nan\]"),
        (lambda: growth_exponent(torch.ones(3), torch.ones(2)), r"but have \(3,\) and \(2,\)"),
        (lambda: encoding_table(torch.rand(3)), r"2 axes, \(length, d_model\), .* shape \(3,\)"),
        (lambda: encoding_table(torch.tensor([[math.nan, 1.0]])), "1 numbers not finite"),
        (lambda: encoding_products(torch.rand(0, 3), label="none"), r"has shape \(0, 3\)"),
    ],
)
def test_curves_and_encodings_refuse_what_they_cannot_draw(draw, message, no_shape_checks):
    with pytest.raises(ValueError, match=message):
        draw()
