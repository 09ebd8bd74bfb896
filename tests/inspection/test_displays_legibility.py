"""Pictures that can be read: no text meets another, at two sizes, in light and dark, with few and with many kernels."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot
from matplotlib.colors import to_rgb

from manykernels import KernelBank, Linear, MKLClassifier, MKLRegressor, Overlap, regularization_path
from manykernels.inspection import (
    AlignmentDisplay,
    ContributionsDisplay,
    ConvergenceDisplay,
    DecompositionDisplay,
    GramDisplay,
    KernelWeightsDisplay,
    PathDisplay,
    ShapeDisplay,
    SurfaceDisplay,
    WaterfallDisplay,
    WeightMapDisplay,
)
from manykernels.inspection.displays.plotting import PALETTE, cut_labels, cut_text

# Linear RGB as people see it who lack one kind of cone (Machado, Oliveira, Fernandes 2009, severity 1).
VISION = {
    "normal": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}
JUST_TOLD_APART = 2.3  # distance in CIELAB
SIZES = {"own": None, "small": (4.2, 2.9)}


@pytest.fixture(autouse=True)
def close_figures() -> Iterator[None]:
    """Leave no figure open."""
    yield
    pyplot.close("all")


def _few() -> tuple[Any, Any, Any, KernelBank]:
    X = pd.DataFrame(
        np.random.default_rng(0).normal(size=(45, 6)), columns=[f"a column with a long name {j}" for j in "abcdef"]
    )
    y = np.digitize(X.iloc[:, 0] + X.iloc[:, 3] ** 2, [-0.4, 0.3, 0.8, 1.2, 2.0, 3.0])
    views = {"expression of genes, tumor": [0, 1, 2], "proteins": [3, 4, 5]}
    bank = KernelBank.from_views(views, [Linear()]) + KernelBank.per_feature(
        widths=[1.0], columns=[0, 1, 2], standardize=True
    )
    return MKLClassifier(bank, alpha=1e-3).fit(X, y), X, y, bank


def _many() -> tuple[Any, Any, Any, KernelBank]:
    X = pd.DataFrame(
        np.random.default_rng(0).normal(size=(30, 1000)), columns=[f"probe_{j:04d}_at" for j in range(1000)]
    )
    y = X.iloc[:, :30].sum(axis=1).to_numpy()
    bank = KernelBank.per_feature(Linear(), widths=[0.5, 1.0, 2.0, 5.0], normalize="mean_diagonal")
    return MKLRegressor(bank, alpha=0.01, penalty="elasticnet").fit(X, y), X, y, bank


MODELS: dict[str, tuple[Any, Any, Any, KernelBank]] = {}
MAKERS = {"few": _few, "many": _many}
DISPLAYS: dict[str, Callable[..., Any]] = {
    "weights": lambda model, X, y, bank: KernelWeightsDisplay.from_estimator(model),
    "features": lambda model, X, y, bank: KernelWeightsDisplay.from_estimator(model, by="column", value="norm_share"),
    "map": lambda model, X, y, bank: WeightMapDisplay.from_estimator(model),
    "convergence": lambda model, X, y, bank: ConvergenceDisplay.from_estimator(model),
    "decomposition": lambda model, X, y, bank: DecompositionDisplay.from_estimator(model, X, target=_target(model)),
    "waterfall": lambda model, X, y, bank: WaterfallDisplay.from_estimator(model, X, target=_target(model)),
    "contributions": lambda model, X, y, bank: ContributionsDisplay.from_estimator(model, X, target=_target(model)),
    "path": lambda model, X, y, bank: PathDisplay.from_path(
        regularization_path(X, 1.0 * y, kernels=bank, n_alphas=4, alpha_min_ratio=0.05)
    ),
    "gram": lambda model, X, y, bank: GramDisplay.from_bank(bank, X, y=y),
    "alignment": lambda model, X, y, bank: AlignmentDisplay.from_bank(bank, X, y=y, top=30),
}


COMPUTED: dict[tuple[str, str], Any] = {}


def display_named(name: str, kernels: str) -> Any:
    """Return a display, computed once for all sizes and styles."""
    if kernels not in MODELS:
        MODELS[kernels] = MAKERS[kernels]()
    if (name, kernels) not in COMPUTED:
        COMPUTED[name, kernels] = DISPLAYS[name](*MODELS[kernels])
    return COMPUTED[name, kernels]


def _target(model: Any) -> Any:
    return 0 if hasattr(model, "classes_") else None


def texts_of(ax: Any) -> list[Any]:
    """Return the boxes of all text that is drawn, with the text, in pixels."""
    figure = ax.figure
    figure.canvas.draw()
    renderer = figure.canvas.get_renderer()
    legend = [] if ax.get_legend() is None else ax.get_legend().get_texts()
    # Matplotlib keeps labels of ticks beyond the limits, which it does not draw.
    ticks = [tick.label1 for axis in (ax.xaxis, ax.yaxis) for tick in axis._update_ticks()]
    own = [*ax.texts, ax.title, ax.xaxis.label, ax.yaxis.label]
    drawn = [text for text in [*own, *ticks, *legend] if text.get_visible() and text.get_text().strip()]
    return [(text.get_text(), text.get_window_extent(renderer)) for text in drawn]


def overlaps(boxes: list[Any], slack: float = 1.5) -> list[tuple[str, str]]:
    """Return pairs of texts whose boxes meet by more than ``slack`` pixels in both directions."""
    found = []
    for (one, first), (two, second) in itertools.combinations(boxes, 2):
        across = min(first.x1, second.x1) - max(first.x0, second.x0)
        down = min(first.y1, second.y1) - max(first.y0, second.y0)
        if across > slack and down > slack:
            found.append((one, two))
    return found


@pytest.mark.sampled(20)
@pytest.mark.parametrize(("style", "size"), [("default", "own"), ("default", "small"), ("dark_background", "small")])
@pytest.mark.parametrize("kernels", MAKERS)
@pytest.mark.parametrize("name", DISPLAYS)
def test_no_text_meets_another(name: str, kernels: str, style: str, size: str) -> None:
    display = display_named(name, kernels)
    with pyplot.style.context(style):
        inches = SIZES[size]
        ax = None if inches is None else pyplot.subplots(figsize=inches, layout="constrained")[1]
        display.plot(ax)
        boxes = texts_of(display.ax_)
        width, height = display.figure_.get_size_inches()
        assert overlaps(boxes) == []
        assert max(width, height) <= 14
        canvas = display.figure_.bbox
        outside = [text for text, box in boxes if box.x0 < -2 or box.x1 > canvas.x1 + 2 or box.y0 < -2]
        assert outside == []


@pytest.mark.parametrize("size", [(3.0, 2.2), (6.0, 4.0)])
def test_levels_of_a_category_stand_apart(size: tuple[float, float]) -> None:
    rng = np.random.default_rng(0)
    levels = [f"level {k:02d}" for k in range(20)]
    X = pd.DataFrame({"place": rng.choice(levels, 200), "kind": rng.choice(levels[:12], 200)})
    y = X["place"].isin(levels[::3]) * 1.0 + X["kind"].isin(levels[:5]) + 0.1 * rng.normal(size=200)
    bank = KernelBank([("place", Overlap(), "place"), ("both", Overlap(), ["place", "kind"])])
    model = MKLRegressor(bank, alpha=1e-3).fit(X, y)
    figures = [ShapeDisplay.from_estimator(model, X).plot(pyplot.figure(figsize=size, layout="constrained")).figure_]
    figures.append(SurfaceDisplay.from_estimator(model, X, columns=("place", "kind")).plot().figure_)
    for figure in figures:
        assert overlaps(texts_of(figure.axes[0])) == []


def test_the_check_sees_overlapping_text() -> None:
    ax = pyplot.subplots(figsize=(3, 2))[1]
    ax.text(0.5, 0.5, "one")
    ax.text(0.51, 0.5, "two")
    assert ("one", "two") in overlaps(texts_of(ax))


def _lab(color: str, matrix: Any) -> np.ndarray:
    rgb = np.array(to_rgb(color))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    seen = np.clip(np.asarray(matrix) @ linear, 0.0, 1.0)
    to_xyz = [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.072175], [0.0193339, 0.119192, 0.9503041]]
    x, y, z = np.cbrt(np.array(to_xyz) @ seen / [0.95047, 1.0, 1.08883])
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("vision", VISION)
def test_colors_are_told_apart_with_any_color_vision(vision: str) -> None:
    seen = [_lab(color, VISION[vision]) for color in PALETTE]
    distances = [np.linalg.norm(one - two) for one, two in itertools.combinations(seen, 2)]
    assert min(distances) > 5 * JUST_TOLD_APART


def test_seven_classes_have_seven_looks() -> None:
    display = display_named("weights", "few").plot()
    parts = display.frame().shape[1] - 2
    assert parts == 7
    first = display.ax_.containers
    looks = {(bars.patches[0].get_facecolor(), bars.patches[0].get_hatch()) for bars in first}
    assert len(looks) == 7


def test_a_map_of_600_columns_is_cut_and_says_so() -> None:
    weights = pd.DataFrame(
        np.random.default_rng(0).uniform(size=(600, 3)), index=[f"x{j}" for j in range(600)], columns=["a", "b", "c"]
    )
    display = WeightMapDisplay(weights=weights, n_single=600).plot()
    assert display.figure_.get_size_inches().max() < 13
    assert display.ax_.get_yticklabels()[-1].get_text() == "and 560 more"
    assert display.frame().equals(weights)
    drawn = display.ax_.collections[-1].get_array().sum(axis=1)
    kept = weights.sum(axis=1).nlargest(40).index
    np.testing.assert_allclose(drawn, weights.loc[[name for name in weights.index if name in set(kept)]].sum(axis=1))


@pytest.mark.parametrize(
    ("text", "most", "cut"),
    [
        ("short", 10, "short"),
        ("abcdefghijkl", 7, "abcd…kl"),
        ("gene: gaussian", 14, "gene: gaussian"),
        ("mean concave points: linear", 20, "mean con…nts: linear"),
        ("mean: gaussian 0.5*median", 16, "mean: gaus…edian"),
    ],
)
def test_text_is_cut_in_the_middle(text: str, most: int, cut: str) -> None:
    assert cut_text(text, most) == cut
    assert len(cut_text(text, most)) <= most


def test_of_one_kernel_on_many_columns_the_columns_are_shown() -> None:
    names = ["intercept", "mean concave points: gaussian(width=median)", "worst area: gaussian(width=median)"]
    assert cut_labels(names, 20) == ["intercept", "mean concave points", "worst area"]
    assert cut_labels(names, 60)[2] == "worst area: gaussian median"  # where there is room, nothing is left out
    assert cut_labels([*names, "worst area: linear()"], 20)[2:] == [
        "worst area: g…median",
        "worst area: linear",
    ]
