import matplotlib
import pytest
import torch
from matplotlib import pyplot as plt

from attncourse.plotting import band, heatmap, use_style

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
