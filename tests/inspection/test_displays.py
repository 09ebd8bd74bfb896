"""Displays show what the model holds: their data equal its frames, and what is drawn equals their data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot
from matplotlib.figure import Figure
from tests.support.processes import python

from manykernels import InvalidInputError, KernelBank, KernelStack, Linear, MKLClassifier, MKLRegressor, solve
from manykernels.inspection import (
    ConvergenceDisplay,
    DecompositionDisplay,
    KernelWeightsDisplay,
    WeightMapDisplay,
    plot_overview,
)
from manykernels.inspection.displays.plotting import short_label

Named = Callable[[str], tuple[Any, Any]]


@pytest.fixture(autouse=True)
def close_figures() -> Iterator[None]:
    """Leave no figure open."""
    yield
    pyplot.close("all")


def heights(ax: Any) -> list[float]:
    """Return the lengths of the horizontal bars, from the top."""
    return [bar.get_width() for bar in ax.patches]


# --- weights ---


@pytest.mark.parametrize("value", ["weight", "norm", "norm_share"])
def test_weights_are_those_of_the_frame(named: Named, value: str) -> None:
    model, _ = named("binary")
    display = KernelWeightsDisplay.from_estimator(model, value=value, top=3).plot()
    expected = model.weights_frame().sort_values(value, ascending=False, kind="stable").head(3)
    assert display.frame()["name"].tolist() == expected["name"].tolist()
    assert heights(display.ax_) == expected[value].tolist()
    assert display.figure_ is display.ax_.figure
    assert (display.n_active, display.n_kernels) == (len(model.weights_frame()), len(model.kernel_names_))


def test_weights_tell_what_is_not_shown(named: Named) -> None:
    model, _ = named("binary")
    n_active = len(model.weights_frame())
    display = KernelWeightsDisplay.from_estimator(model, top=1).plot()
    assert display.ax_.get_yticklabels()[-1].get_text() == f"and {n_active - 1} more"
    assert display.ax_.get_title() == f"{n_active} of {len(model.kernel_names_)} kernels selected"


def test_weights_of_a_target_or_of_their_mean(named: Named) -> None:
    model, _ = named("multiclass")
    frame = KernelWeightsDisplay.from_estimator(model, top=100, target=1).frame().set_index("name")["value"]
    expected = pd.Series(model.kernel_weights_[1], model.kernel_names_)
    assert frame.to_dict() == expected[expected > 0].to_dict()
    mean = KernelWeightsDisplay.from_estimator(model, top=100).frame().set_index("name")["value"]
    expected = pd.Series(model.kernel_weights_.mean(axis=0), model.kernel_names_)
    np.testing.assert_allclose(mean, expected[mean.index], rtol=1e-12)
    assert len(mean) == (expected > 0).sum()


def test_weights_refuse_what_is_not_there(named: Named) -> None:
    with pytest.raises(InvalidInputError, match=r"value must be one of 'weight', 'norm', 'norm_share', got 'size'"):
        KernelWeightsDisplay.from_estimator(named("binary")[0], value="size")
    with pytest.raises(InvalidInputError, match=r"single target; leave out target='yes'"):
        KernelWeightsDisplay.from_estimator(named("binary")[0], target="yes")
    with pytest.raises(InvalidInputError, match=r"target must be one of \[0, 1, 2\], got 7"):
        KernelWeightsDisplay.from_estimator(named("multiclass")[0], target=7)


# --- map ---


def test_map_holds_every_weight_once(fitted: tuple[Any, Any]) -> None:
    model, _ = fitted
    frame = WeightMapDisplay.from_estimator(model).frame()
    weights = np.atleast_2d(model.kernel_weights_).mean(axis=0)
    assert np.isclose(np.nansum(frame.to_numpy()), weights.sum(), rtol=1e-12, atol=0)
    assert int(frame.notna().to_numpy().sum()) == len(weights)


def test_map_places_weights_by_column_and_kind(named: Named) -> None:
    model, _ = named("multiclass")
    display = WeightMapDisplay.from_estimator(model, target=2)
    frame, weights = display.frame(), dict(zip(model.kernel_names_, model.kernel_weights_[2], strict=True))
    assert frame.index.tolist() == ["first", "second", "third one"]
    assert all(frame.loc[place, kind] == weights[f"{place}: {kind}"] for place in frame.index for kind in frame.columns)
    assert display.n_single == 3


def test_map_puts_joint_kernels_last_and_can_leave_out_zeros() -> None:
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 3)), columns=["a", "b", "c: d"])
    bank = KernelBank.joint(Linear()) + KernelBank.per_feature(Linear()) + KernelBank([("own", Linear(), ["a", "b"])])
    model = MKLRegressor(bank, alpha=0.05).fit(X, X["a"])
    display = WeightMapDisplay.from_estimator(model)
    assert display.frame().index.tolist() == ["a", "b", "c: d", "all", "a, b"]
    assert display.n_single == 3
    active = WeightMapDisplay.from_estimator(model, active_only=True).frame()
    assert (active.sum(axis=1) > 0).all()
    assert 0 < len(active) < 5


def test_map_draws_its_frame(named: Named) -> None:
    display = WeightMapDisplay.from_estimator(named("binary")[0]).plot()
    drawn = np.ma.filled(display.ax_.collections[-1].get_array().astype(float), 0.0).reshape(display.frame().shape)
    assert np.array_equal(drawn, display.frame().fillna(0.0).to_numpy())
    ticks = [tick.get_text() for tick in display.ax_.get_yticklabels()]
    assert ticks == ["first", "second", "third one", "all columns"]


# --- convergence ---


def test_convergence_is_the_history(named: Named) -> None:
    model, _ = named("binary")
    display = ConvergenceDisplay.from_estimator(model).plot(x="passes", annotate=True)
    history = model.solution_.frame()
    assert display.frame().drop(columns="run").equals(history)
    line = display.ax_.lines[0]
    assert np.array_equal(line.get_xdata(), history["passes"])
    assert np.array_equal(line.get_ydata(), history["relative_gap"])
    assert display.ax_.get_yscale() == "log"
    assert display.ax_.lines[1].get_ydata()[0] == model.tol
    assert [text.get_text() for text in display.ax_.texts][:-1] == [str(n) for n in history["n_active"][::-1]]


def test_convergence_of_several_runs(named: Named) -> None:
    model, _ = named("multiclass")
    frame = ConvergenceDisplay.from_estimator(model).frame()
    assert frame["run"].unique().tolist() == ["0", "1", "2"]
    assert frame.groupby("run").size().tolist() == [len(one.history) for one in model.solution_]


def test_a_gap_of_zero_is_drawn_below_the_others() -> None:
    display = ConvergenceDisplay(
        history=pd.DataFrame({"run": "a", "elapsed_s": [0.0, 1.0], "relative_gap": [0.5, 0.0], "n_active": [0, 1]})
    ).plot()
    assert display.ax_.lines[0].get_ydata().tolist() == [0.5, 0.05]


def test_convergence_refuses_other_things(named: Named) -> None:
    kernels = np.eye(4)[None]
    solution = solve(kernels, [1.0, -1.0, 1.0, -1.0], loss="squared", penalty="ridge", strength=1.0)
    with pytest.raises(InvalidInputError, match="Expected a Solution"):
        ConvergenceDisplay.from_solution({"a": solution, "b": 3})
    with pytest.raises(InvalidInputError, match=r"x must be one of 'elapsed_s', .*, got 'time'"):
        ConvergenceDisplay.from_solution(solution).plot(x="time")


# --- decomposition ---


@pytest.mark.parametrize(("name", "target"), [("binary", None), ("multiclass", 2), ("multioutput", 1)])
def test_contributions_add_up_to_the_scores(named: Named, name: str, target: Any) -> None:
    model, X = named(name)
    display = DecompositionDisplay.from_estimator(model, X, samples=[4, 1, 7], top=2, target=target)
    scores = model.decision_function(X) if isinstance(model, MKLClassifier) else model.predict(X)
    expected = scores[[4, 1, 7]] if target is None else scores[[4, 1, 7], target]
    np.testing.assert_allclose(display.contributions.sum(axis=1), expected, rtol=1e-10)
    assert display.contributions.columns[-2:].tolist() == ["other kernels", "intercept"]
    assert display.contributions.shape[1] <= 4


def test_contributions_are_those_of_decompose(named: Named) -> None:
    model, X = named("binary")
    frame = DecompositionDisplay.from_estimator(model, X, samples=[3], top=100).frame()
    parts = dict(zip(model.kernel_names_, model.decompose(X.iloc[[3]])[:, 0], strict=True))
    shown = frame[~frame["kernel"].isin(["other kernels", "intercept"])]
    assert dict(zip(shown["kernel"], shown["contribution"], strict=True)) == {k: v for k, v in parts.items() if v != 0}
    assert set(frame["sample"]) == {3}


def test_decomposition_draws_bars_that_end_at_the_score(named: Named) -> None:
    model, X = named("binary")
    display = DecompositionDisplay.from_estimator(model, X, samples=[0, 5]).plot()
    ends = [bar.get_width() for bar in display.ax_.patches]
    np.testing.assert_allclose(sum(ends), model.decision_function(X)[[0, 5]].sum(), rtol=1e-10)
    np.testing.assert_allclose(display.ax_.lines[0].get_xdata(), model.decision_function(X)[[0, 5]], rtol=1e-10)


def test_decomposition_of_precomputed_kernels(named: Named) -> None:
    model, kernels = named("precomputed")
    assert isinstance(kernels, KernelStack)
    display = DecompositionDisplay.from_estimator(model, kernels, samples=[31, 2])
    np.testing.assert_allclose(
        display.contributions.sum(axis=1), model.decision_function(kernels)[[31, 2]], rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize("samples", [[], [99], [-1], [0.5], [[1]]])
def test_decomposition_refuses_other_rows(named: Named, samples: Any) -> None:
    model, X = named("binary")
    with pytest.raises(InvalidInputError, match="samples must be positions between 0 and 35"):
        DecompositionDisplay.from_estimator(model, X, samples=samples)


def test_decomposition_asks_for_the_target(named: Named) -> None:
    model, X = named("multiclass")
    with pytest.raises(InvalidInputError, match=r"target must be one of \[0, 1, 2\], got None"):
        DecompositionDisplay.from_estimator(model, X)


# --- all ---


def test_displays_draw_into_given_axes(named: Named) -> None:
    model, X = named("binary")
    figure = Figure()
    axes = figure.subplots(2, 2).ravel()
    displays = [
        KernelWeightsDisplay.from_estimator(model),
        ConvergenceDisplay.from_estimator(model),
        WeightMapDisplay.from_estimator(model),
        DecompositionDisplay.from_estimator(model, X),
    ]
    for ax, display in zip(axes, displays, strict=True):
        assert display.plot(ax) is display
        assert display.ax_ is ax
        assert display.figure_ is figure
    assert pyplot.get_fignums() == []


def test_frames_are_copies(named: Named) -> None:
    display = KernelWeightsDisplay.from_estimator(named("binary")[0])
    changed = display.frame()
    changed["value"] = 0.0
    assert (display.frame()["value"] > 0).all()


@pytest.mark.sampled(4)
def test_overview_is_a_picture(fitted: tuple[Any, Any], tmp_path: Path) -> None:
    model, _ = fitted
    if not np.any(model.kernel_weights_):
        plot_overview(model).savefig(tmp_path / "empty.png")
        return
    figure = plot_overview(model, title="Title")
    assert {"weights", "map", "convergence"} == {ax.get_label() for ax in figure.axes if ax.get_label() != "<colorbar>"}
    figure.savefig(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("label", "short"),
    [
        ("gaussian(width=0.5)", "gaussian 0.5"),
        ("age: polynomial(degree=2)", "age: polynomial 2"),
        ("linear()", "linear"),
        ("dirichlet(degree=1, frequency=2)", "dirichlet(degree=1, frequency=2)"),
        ("gaussian(width=1) * linear()", "gaussian 1 * linear"),
    ],
)
def test_short_labels(label: str, short: str) -> None:
    assert short_label(label) == short


def test_matplotlib_is_imported_only_to_draw() -> None:
    code = (
        "import sys, manykernels.inspection as i; assert 'matplotlib' not in sys.modules; "
        "sys.modules['matplotlib'] = None\n"
        "try:\n    i.ConvergenceDisplay(history=None).plot()\n"
        "except ImportError as error:\n    print(error)"
    )
    found = python(code)
    assert "ConvergenceDisplay.plot needs matplotlib" in found.stdout
    assert "manykernels[plot]" in found.stdout
