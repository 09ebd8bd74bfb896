"""Shape functions are the parts of an additive model, for numbers and for classes, drawn small and large."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from manykernels import Gaussian, KernelBank, Linear, MKLClassifier, MKLRegressor, report
from manykernels.exceptions import InvalidInputError
from manykernels.inspection import KernelWeightsDisplay, ShapeDisplay

ADDITIVE = KernelBank.per_feature(widths=[0.5, 1.0], standardize=True, normalize="mean_diagonal")


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    values = np.random.default_rng(0).uniform(-2, 2, size=(60, 3))
    return pd.DataFrame(values, columns=["first, in mm", "second", "third"])


@pytest.fixture(scope="module")
def model(table: pd.DataFrame) -> Any:
    return MKLRegressor(ADDITIVE, alpha=1e-3).fit(table, np.sin(2 * table["second"]) + table["third"])


def test_a_curve_is_what_predictions_do_when_its_column_changes(model: Any, table: pd.DataFrame) -> None:
    display = ShapeDisplay.from_estimator(model, table, n_points=30)
    assert display.left_out == ()
    for name, shape in display.frame().groupby("column"):
        rows = pd.concat([table.iloc[[7]]] * len(shape), ignore_index=True).assign(**{name: shape["x"].to_numpy()})
        predicted = model.predict(rows)
        np.testing.assert_allclose(np.diff(predicted), np.diff(shape["effect"]), atol=1e-9)
        assert shape["density"].sum() == pytest.approx(1.0)
        assert shape["density"] @ shape["effect"] == pytest.approx(0.0, abs=1e-12)


def test_the_columns_that_vary_most_come_first(model: Any, table: pd.DataFrame) -> None:
    shown = ShapeDisplay.from_estimator(model, table, top=2).frame()["column"].unique()
    assert set(shown) == {"second", "third"}
    asked = ShapeDisplay.from_estimator(model, table.to_numpy(), columns=["first, in mm"]).frame()
    assert asked["column"].unique().tolist() == ["first, in mm"]


def test_classes_and_kernels_of_several_columns(table: pd.DataFrame) -> None:
    codes = np.digitize(table["second"], [-0.7, 0.7])
    bank = KernelBank([("alone", Gaussian(1.0), ["second"]), ("both", Linear(), ["second", "third"])])
    several = MKLClassifier(bank, alpha=1e-4).fit(table, codes)
    display = ShapeDisplay.from_estimator(several, table, target=2)
    assert display.target == "2"
    assert display.frame()["column"].unique().tolist() == ["second"]
    assert set(display.left_out) <= {"both"}
    with pytest.raises(InvalidInputError, match="Choose one of several targets"):
        ShapeDisplay.from_estimator(several, table)


def test_targets_that_share_their_weights_have_curves_of_their_own(table: pd.DataFrame) -> None:
    y = pd.DataFrame({"up": np.sin(2 * table["second"]), "down": -np.sin(2 * table["second"]), "none": 0.0})
    model = MKLRegressor(ADDITIVE, outputs="shared", alpha=1e-3).fit(table, y)
    curves = {name: ShapeDisplay.from_estimator(model, table, target=name, n_points=20).frame() for name in y}
    np.testing.assert_allclose(curves["up"]["effect"], -curves["down"]["effect"], atol=1e-3)
    assert np.abs(curves["up"]["effect"]).max() > 0.5
    pd.testing.assert_frame_equal(
        curves["down"], ShapeDisplay.from_estimator(model, table, target=1, n_points=20).frame()
    )
    assert KernelWeightsDisplay.from_estimator(model, target="up").frame()["value"].tolist() == (
        KernelWeightsDisplay.from_estimator(model).frame()["value"].tolist()
    )
    classes = np.digitize(table["second"], [-0.7, 0.7])
    shared = MKLClassifier(ADDITIVE, loss="logistic", outputs="shared", alpha=1e-3).fit(table, classes)
    assert ShapeDisplay.from_estimator(shared, table, target=0).target == "0"
    for wrong in (None, 3, "up"):
        with pytest.raises(InvalidInputError, match="Choose one of several targets"):
            ShapeDisplay.from_estimator(shared, table, target=wrong)


def test_categories_truth_values_and_dates_have_curves_too() -> None:
    rng = np.random.default_rng(1)
    days = pd.to_datetime("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, 60), unit="D")
    frame = pd.DataFrame({"kind": rng.choice(["a", "b", "c"], 60), "old": rng.random(60) > 0.5, "day": days})
    y = 1.0 * (frame["kind"] == "b") + frame["old"] + np.asarray(days.month) / 12
    model = MKLRegressor(KernelBank.auto(), alpha=1e-4).fit(frame, y)
    shapes = ShapeDisplay.from_estimator(model, frame, n_points=25)
    sizes = shapes.frame().groupby("column").size()
    assert sizes.to_dict() == {"kind": 3, "old": 2, "day": 25}
    kinds = shapes.frame().query("column == 'kind'").set_index("x")["effect"]
    assert kinds.idxmax() == "b"
    labels = next(ax for ax in shapes.plot().axes_.flat if ax.get_title() == "old").get_xticklabels()
    assert {label.get_text() for label in labels} == {"True", "False"}
    plt.close("all")


@pytest.mark.parametrize("names", ["numbers", "two levels"])
def test_columns_without_plain_names_have_curves(names: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"a": rng.choice(["u", "v"], 60), "b": rng.normal(size=60), "c": rng.random(60) > 0.5})
    y = 1.0 * (frame["a"] == "u") + frame["b"] + frame["c"]
    pairs = pd.MultiIndex.from_tuples([("one", "a"), ("two", "b"), ("three", "c")])  # views
    other = frame.set_axis(range(3) if names == "numbers" else pairs, axis=1)
    bank = KernelBank.auto()
    plain = ShapeDisplay.from_estimator(MKLRegressor(bank, alpha=1e-3).fit(frame, y), frame, columns=["a", "b", "c"])
    model = MKLRegressor(bank, alpha=1e-3).fit(other, y)
    columns = ["x0", "x1", "x2"] if names == "numbers" else ["one/a", "two/b", "three/c"]
    shapes = ShapeDisplay.from_estimator(model, other, columns=columns).frame()
    assert shapes["column"].unique().tolist() == columns
    np.testing.assert_allclose(shapes["effect"], plain.frame()["effect"], atol=1e-9)
    report(model, other, y, tmp_path / "r.html")


def test_ordered_categories_are_in_their_order_and_effects_name_the_class() -> None:
    rng = np.random.default_rng(2)
    grades = ["low", "middle", "high", "never seen"]
    frame = pd.DataFrame({"grade": pd.Categorical(rng.choice(grades[:3], 80, p=[0.2, 0.3, 0.5]), grades, ordered=True)})
    frame["kind"] = rng.choice(["rare", "often"], 80, p=[0.2, 0.8])
    frame["on"] = rng.random(80) > 0.2
    y = np.where(frame["grade"].cat.codes + 0.5 * frame["on"] > 1.2, "stay", "go")
    model = MKLClassifier(KernelBank.auto(), alpha=1e-3).fit(frame, y)
    display = ShapeDisplay.from_estimator(model, frame, columns=["grade", "kind", "on"]).plot()
    shown = {name: part["x"].tolist() for name, part in display.frame().groupby("column")}
    assert shown == {"grade": ["low", "middle", "high"], "kind": ["often", "rare"], "on": [False, True]}
    assert display.effect == "towards 'stay'" == display.figure_.get_supylabel()
    grade = display.frame().query("column == 'grade'")["effect"]
    assert grade.is_monotonic_increasing
    plt.close("all")


def test_ends_of_curves_and_dates_are_drawn() -> None:
    days = pd.to_datetime(["2024-01-01", "2024-03-01", "2024-12-31"] * 10)
    frame = pd.DataFrame({"day": days, "size": np.linspace(0.0, 9.0, 30)})
    y = days.day_of_year / 100 + np.sin(frame["size"])
    display = ShapeDisplay.from_estimator(MKLRegressor(KernelBank.auto(), alpha=1e-3).fit(frame, y), frame).plot()
    display.figure_.draw_without_rendering()
    for ax in display.axes_.flat:
        x, (left, right) = ax.lines[-1].get_xdata(orig=False), ax.get_xlim()
        assert left <= x[0] < x[-1] <= right
        low, high = ax.get_ylim()
        assert low < ax.lines[-1].get_ydata().min() <= ax.lines[-1].get_ydata().max() < high
    dates = next(ax for ax in display.axes_.flat if ax.get_title() == "day")
    assert all("2024" in text or text[:3].isalpha() or "2025" in text for text in _ticks(dates))
    plt.close("all")


def _ticks(ax: Any) -> list[str]:
    return [label.get_text() for label in ax.get_xticklabels() if label.get_text()]


def test_what_cannot_be_shown_is_said(model: Any, table: pd.DataFrame) -> None:
    with pytest.raises(InvalidInputError, match="no column 'fourth'"):
        ShapeDisplay.from_estimator(model, table, columns=["fourth"])
    with pytest.raises(InvalidInputError, match="3 columns"):
        ShapeDisplay.from_estimator(model, table.to_numpy()[:, :2])
    joint = MKLRegressor(KernelBank([Linear()]), alpha=1e-4).fit(table, table["third"])
    with pytest.raises(InvalidInputError, match=r"No kernel on a single column.*ContributionsDisplay"):
        ShapeDisplay.from_estimator(joint, table)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("style", ["default", "dark_background"])
@pytest.mark.parametrize("size", [(3.0, 2.5), (10.0, 6.0)])
def test_pictures(model: Any, table: pd.DataFrame, style: str, size: tuple[float, float]) -> None:
    with plt.style.context(style):
        display = ShapeDisplay.from_estimator(model, table).plot(plt.figure(figsize=size))
        titles = [ax.get_title() for ax in display.axes_.flat if ax.get_visible()]
        assert "first, in mm" in titles
        assert len(titles) == 3
        limits = {ax.get_ylim() for ax in display.axes_.flat if ax.get_visible()}
        assert len(limits) == 1, "curves are compared on one scale"
    plt.close("all")


def test_a_small_figure_shows_what_it_has_room_for() -> None:
    x, effect, density = np.linspace(0, 1, 20), np.linspace(-1, 1, 20), np.full(20, 0.05)
    parts = [pd.DataFrame({"column": f"c{j}", "x": x, "effect": effect, "density": density}) for j in range(11)]
    display = ShapeDisplay(shapes=pd.concat(parts, ignore_index=True))
    whole = display.plot().figure_
    assert sum(ax.get_visible() for ax in whole.axes) == 11
    assert whole.get_supylabel() == "added to the score"
    small = display.plot(plt.figure(figsize=(4.0, 3.2))).figure_
    assert small.get_supxlabel() == "and 5 more columns"
    small.draw_without_rendering()
    boxes = [ax.get_tightbbox() for ax in small.axes]
    assert len(boxes) == 6
    assert not any(one.overlaps(other) for k, one in enumerate(boxes) for other in boxes[:k])
    plt.close("all")
