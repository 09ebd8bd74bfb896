"""Waterfall, contributions, cross-validation curve, Gram and alignment displays show what the model or matrix holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot

from manykernels import Gaussian, InvalidInputError, KernelBank, Linear, MKLClassifier, MKLClassifierCV, MKLRegressorCV
from manykernels.alignment import centered_alignment, target_kernel
from manykernels.inspection import (
    AlignmentDisplay,
    ContributionsDisplay,
    CVCurveDisplay,
    GramDisplay,
    KernelWeightsDisplay,
    WaterfallDisplay,
    WeightMapDisplay,
)
from manykernels.inspection.reports.pictures import strength_curve

Named = Callable[[str], tuple[Any, Any]]


@pytest.fixture(autouse=True)
def close_figures() -> Iterator[None]:
    """Leave no figure open."""
    yield
    pyplot.close("all")


# --- weights by view, column, kind and class ---


@pytest.mark.parametrize("by", ["view", "column", "kind"])
@pytest.mark.parametrize("name", ["binary", "multiclass"])
def test_sums_keep_the_whole_weight(named: Named, name: str, by: str) -> None:
    model, _ = named(name)
    frame = KernelWeightsDisplay.from_estimator(model, by=by, top=1000).frame()
    assert frame["value"].sum() == pytest.approx(np.atleast_2d(model.kernel_weights_).mean(axis=0).sum(), rel=1e-12)


def test_views_add_up_their_kernels() -> None:
    X = np.random.default_rng(0).normal(size=(40, 4))
    bank = KernelBank.from_views({"left": [0, 1], "right": [2, 3]}, [Gaussian(1.0), Linear()])
    model = MKLClassifier(bank, alpha=1e-4).fit(X, X[:, 0] * X[:, 2] > 0)
    frame = KernelWeightsDisplay.from_estimator(model, by="view").frame().set_index("name")["value"]
    weights = dict(zip(model.kernel_names_, model.kernel_weights_, strict=True))
    assert frame["left"] == pytest.approx(sum(d for name, d in weights.items() if name.startswith("left: ")))


def test_a_kernel_of_several_features_counts_in_equal_parts() -> None:
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 3)), columns=["a", "b, c", "d"])
    bank = KernelBank([("one", Linear(), ["b, c"]), ("two", Linear(), ["a", "d"])])
    model = MKLClassifier(bank, alpha=1e-5).fit(X, X["a"] + X["b, c"] > 0)
    one, two = model.kernel_weights_
    frame = KernelWeightsDisplay.from_estimator(model, by="column").frame().set_index("name")["value"]
    assert frame.to_dict() == pytest.approx({"b, c": one, "a": two / 2, "d": two / 2})


def test_bars_of_several_classes_are_labeled_parts_of_the_mean(named: Named) -> None:
    model, _ = named("multiclass")
    display = KernelWeightsDisplay.from_estimator(model, top=4).plot()
    parts = display.frame().iloc[:, 2:]
    assert parts.columns.tolist() == [0, 1, 2]
    np.testing.assert_allclose(parts.mean(axis=1), display.frame()["value"], rtol=1e-12)
    drawn = np.array([bar.get_width() for bar in display.ax_.patches]).reshape(3, -1)
    np.testing.assert_allclose(drawn.T, parts / 3, rtol=1e-12)
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == ["0", "1", "2"]
    assert "mean of 3 classes" in display.ax_.get_xlabel().replace("\n", " ")


def test_the_map_of_classes_holds_the_weights_of_each(named: Named) -> None:
    model, _ = named("multiclass")
    frame = WeightMapDisplay.from_estimator(model, across="target").frame()
    np.testing.assert_allclose(frame.sum(), model.kernel_weights_.sum(axis=1), rtol=1e-12)
    with pytest.raises(InvalidInputError, match="several classes or outputs; this one has one"):
        WeightMapDisplay.from_estimator(named("binary")[0], across="target")
    with pytest.raises(InvalidInputError, match="across must be one of 'kind', 'target', got 'class'"):
        WeightMapDisplay.from_estimator(model, across="class")
    with pytest.raises(InvalidInputError, match="by must be one of 'column', 'view', 'kernel', 'kind', got 'size'"):
        KernelWeightsDisplay.from_estimator(model, by="size")


# --- one prediction, all predictions ---


@pytest.mark.parametrize(("name", "target"), [("binary", None), ("multiclass", 2), ("multioutput", 1)])
def test_a_waterfall_ends_at_the_score(named: Named, name: str, target: Any) -> None:
    model, X = named(name)
    display = WaterfallDisplay.from_estimator(model, X, sample=7, top=2, target=target).plot()
    scores = model.decision_function(X) if isinstance(model, MKLClassifier) else model.predict(X)
    expected = scores[7] if target is None else scores[7, target]
    assert display.frame()["score"].iloc[-1] == pytest.approx(expected, rel=1e-10)
    first, last = display.ax_.patches[0], display.ax_.patches[-1]
    assert first.get_x() == 0.0
    assert last.get_x() + last.get_width() == pytest.approx(expected, rel=1e-10)


def test_a_waterfall_without_room_joins_steps(named: Named) -> None:
    model, X = named("binary")
    display = WaterfallDisplay.from_estimator(model, X, sample=0, top=100)
    ax = pyplot.subplots(figsize=(3.0, 1.4))[1]
    bars = display.plot(ax).ax_.patches
    assert len(bars) < len(display.frame())
    assert sum(bar.get_width() for bar in bars) == pytest.approx(model.decision_function(X)[0], rel=1e-10)


def test_a_waterfall_refuses_other_rows(named: Named) -> None:
    model, X = named("binary")
    with pytest.raises(InvalidInputError, match="samples must be positions between 0 and 35"):
        WaterfallDisplay.from_estimator(model, X, sample=36)


def test_contributions_are_those_of_decompose(named: Named) -> None:
    model, X = named("multiclass")
    display = ContributionsDisplay.from_estimator(model, X, target=1, top=3).plot()
    parts = dict(zip(model.kernel_names_, model.decompose(X)[:, :, 1], strict=True))
    for name, values in display.contributions.items():
        np.testing.assert_array_equal(values, parts[name])
    sizes = sorted((np.abs(part).mean() for part in parts.values()), reverse=True)
    np.testing.assert_allclose(display.frame()["mean_size"], sizes[: len(display.frame())], rtol=1e-12)
    points = np.concatenate([np.asarray(found.get_offsets())[:, 0] for found in display.ax_.collections[:1]])
    np.testing.assert_array_equal(np.sort(points), np.sort(display.contributions.iloc[:, 0]))


# --- cross-validation ---


@pytest.mark.filterwarnings("ignore:The best strength")
def test_the_curve_is_that_of_the_search() -> None:
    X = np.random.default_rng(0).normal(size=(60, 3))
    model = MKLRegressorCV(
        penalty="elasticnet", l1_ratios=[0.3, 0.8], cv=3, n_alphas=5, search={"alpha_min_ratio": 0.05}
    )
    model.fit(X, np.sin(2 * X[:, 1]) + 0.3 * X[:, 0])
    display = CVCurveDisplay.from_estimator(model).plot()
    frame = display.frame()
    np.testing.assert_array_equal(frame["mean_score"], model.cv_results_["mean_score"])
    np.testing.assert_allclose(frame["std_error"], model.cv_results_["std_score"] / np.sqrt(2), rtol=1e-12)
    assert frame["curve"].unique().tolist() == ["l1_ratio 0.3", "l1_ratio 0.8"]
    ring = display.ax_.lines[-1]
    assert (ring.get_xdata()[0], ring.get_ydata()[0]) == (model.alpha_, model.best_score_)
    left, right = display.ax_.get_xlim()
    assert left > right
    assert display.ax_.get_ylabel() == "negative mean squared error,\nmean of 3 folds"


def test_a_curve_of_many_mixtures_shows_as_many_as_there_is_room_for() -> None:
    import matplotlib.pyplot as plt

    rows = [(10.0**-step, 0.5 - 0.01 * k, 0.02, 3.0, f"draw {k}") for k in range(30) for step in range(3)]
    results = pd.DataFrame(rows, columns=["alpha", "mean_score", "std_error", "n_active", "curve"])
    for size, most in (((4.0, 3.0), 10), ((9.0, 5.5), 12)):
        figure, ax = plt.subplots(figsize=size, layout="constrained")
        CVCurveDisplay(results=results, chosen=60, n_folds=5).plot(ax)  # by a rule, not the best
        figure.draw_without_rendering()
        labels = [text.get_text() for text in ax.get_legend().get_texts()]
        n_named = sum(label.startswith("draw") for label in labels)
        assert 2 <= n_named <= most
        assert "draw 20" in labels
        assert labels[-1] == f"and {30 - n_named} more"
        assert ax.get_legend().get_window_extent().height < figure.bbox.height
        assert ax.get_window_extent().width > 0.4 * figure.bbox.width
        plt.close(figure)


def test_a_curve_needs_a_search(named: Named) -> None:
    with pytest.raises(InvalidInputError, match="needs a fitted MKLClassifierCV or MKLRegressorCV, got MKLClassifier"):
        CVCurveDisplay.from_estimator(named("binary")[0])
    with pytest.raises(InvalidInputError, match="got MKLClassifierCV"):
        CVCurveDisplay.from_estimator(MKLClassifierCV())


@pytest.mark.filterwarnings("ignore:The score was still rising")  # of a target without noise
def test_a_search_has_a_curve_for_each_mixture() -> None:
    X = np.random.default_rng(0).uniform(-2, 2, (40, 2))
    model = MKLRegressorCV(cv=2, n_alphas=4, l1_ratios=(1.0, 0.5, 0.0)).fit(X, np.sin(2 * X[:, 1]))
    frame = CVCurveDisplay.from_estimator(model).frame()
    wanted = model.cv_frame().groupby(["kernels", "mixing"], sort=False).ngroups
    assert frame["curve"].nunique() == wanted > 3
    assert "all kernels, mixing 0.5" in set(frame["curve"])
    picture = strength_curve(model)
    assert picture is not None
    assert "of 2 folds" in picture.svg


# --- matrices ---


def test_a_gram_matrix_is_sorted_by_class() -> None:
    X = np.random.default_rng(0).normal(size=(20, 2))
    y = np.array(["b", "a"] * 10)
    display = GramDisplay.from_kernel(Gaussian(1.0)(X), y=y, name="$near$").plot()
    order = np.argsort(y, kind="stable")
    np.testing.assert_array_equal(display.frame(), Gaussian(1.0)(X[order]))
    assert display.groups is not None
    assert display.groups.to_dict("list") == {"label": ["a", "b"], "end": [0.5, 1.0]}
    assert [tick.get_text() for tick in display.ax_.get_yticklabels()] == ["a", "b"]
    assert display.ax_.get_title() == r"\$near\$"


def test_a_large_gram_matrix_is_averaged() -> None:
    values = np.arange(800.0)
    display = GramDisplay.from_kernel(np.add.outer(values, values), y=values + 0.5)
    assert display.frame().shape == (400, 400)
    assert display.frame().iloc[0, 0] == 1.0
    assert display.frame().to_numpy().mean() == pytest.approx(799.0)
    assert (display.n_samples, display.groups, display.ordered_by) == (800, None, "target")


def test_gram_displays_refuse_what_does_not_fit() -> None:
    X = np.random.default_rng(0).normal(size=(10, 2))
    bank = KernelBank.per_feature(Linear())
    assert GramDisplay.from_bank(bank, X, 1).name == "x1: linear()"
    with pytest.raises(InvalidInputError, match="No kernel 'other'; the 2 kernels are"):
        GramDisplay.from_bank(bank, X, "other")
    with pytest.raises(InvalidInputError, match=r"y must have shape \(10,\)"):
        GramDisplay.from_kernel(np.eye(10), y=[1, 2])


def test_alignments_are_centered_alignments() -> None:
    X = np.random.default_rng(0).normal(size=(25, 3))
    kernels = [Gaussian(1.0)(X[:, [j]]) for j in range(3)]
    display = AlignmentDisplay.from_kernels(kernels, y=X[:, 2], names=["a", "b", "c"], top=2).plot()
    frame = display.frame()
    alone = {name: centered_alignment(K, target_kernel(X[:, 2])) for name, K in zip("abc", kernels, strict=True)}
    assert frame.index.tolist() == ["target", *sorted(alone, key=lambda name: -alone[name])[:2]]
    assert frame.loc["target", "c"] == pytest.approx(alone["c"], rel=1e-10)
    first, second = frame.index[1:]
    both = centered_alignment(kernels["abc".index(first)], kernels["abc".index(second)])
    assert frame.loc[first, second] == pytest.approx(both, rel=1e-10)
    assert display.ax_.get_xlabel() == "and 1 more kernels"
    with pytest.raises(InvalidInputError, match="There are 3 kernels but 1 names"):
        AlignmentDisplay.from_kernels(kernels, names=["a"])
    with pytest.raises(InvalidInputError, match="'kernel 0' is constant after centering"):
        AlignmentDisplay.from_kernels([np.ones((5, 5))])
