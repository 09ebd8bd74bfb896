"""Folds with the kernels of all rows: the scores of folds with their own, where these are the same; or a reason."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GroupKFold, KFold, RepeatedKFold, ShuffleSplit, TimeSeriesSplit

from manykernels import KernelBank, MKLRegressorCV, regularization_path
from manykernels.exceptions import ConvergenceWarning, IncompatibleError, InvalidInputError
from manykernels.kernels import Gaussian, Laplacian, Linear
from manykernels.solvers.factored.pooled import PooledNewton
from manykernels.solvers.run import OutOfTimeError

N = 90
FIXED = KernelBank.per_feature(widths=[0.5, 2.0])


def data(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 3))
    return X, np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] ** 2 + 0.3 * rng.normal(size=N)


@pytest.fixture
def together(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How often all folds were solved at once."""
    calls: list[int] = []
    at = PooledNewton.at

    def counted(self: PooledNewton, posed: Any) -> Any:
        calls.append(len(posed))
        return at(self, posed)

    monkeypatch.setattr(PooledNewton, "at", counted)
    return calls


FACTORED = {"representation": "factored"}
SHORT: dict[str, Any] = {"n_alphas": 3, "search": {"alpha_min_ratio": 0.1}}


def fitted(X: Any, y: Any, wish: str, *args: Any, kernels: Any = FIXED, **options: Any) -> MKLRegressorCV:
    options["search"] = {"fold_kernels": wish, **options.get("search", {})}
    model = MKLRegressorCV(kernels, **({"cv": 3, "resources": FACTORED} | options))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return model.fit(X, y, *args)


def inspecting(model: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
    """Score by more than predictions."""
    active = np.flatnonzero(model.kernel_weights_)
    assert not model.proved_inactive_[active].any()
    assert model.dual_gap_ <= 1e-7
    assert len(model.decompose(X)) == len(model.kernel_names_)
    return -float(np.abs(model.predict(X) - y).mean()) - 0.01 * len(active) - model.alpha


def _common(frame: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    """The candidates that both have: where scores no longer change, the least difference ends a search."""
    if "fraction" not in frame:
        return frame
    keys = ["mixing", "fraction"]
    return frame.set_index(keys).join(other.set_index(keys)[[]], how="inner").query("fraction > 1e-3")


GRIDS: dict[str, dict[str, Any]] = {
    "l1": {"penalty": "l1", "n_alphas": 4, "search": {"alpha_min_ratio": 0.05}},
    "mixtures": {
        "penalty": "elasticnet",
        "l1_ratios": [0.4, 0.9],
        "n_alphas": 3,
        "search": {"alpha_min_ratio": 0.1},
        "cv": GroupKFold(3),
    },
    "alphas": {"alphas": [0.05, 0.2, 0.01], "fit_intercept": False},
    "scoring": {"penalty": "l1", "n_alphas": 3, "search": {"alpha_min_ratio": 0.1}, "scoring": inspecting},
    "penalties": {"n_alphas": 3, "search": {"alpha_min_ratio": 0.1}, "kernel_penalties": [{"x0*": 1.0}, {"x0*": 1.5}]},
    "search": {"search": {"fold_tol": 1e-5, "alpha_min_ratio": 0.2}, "n_alphas": 3},
    "searched mixtures": {
        "search": {"fold_tol": 1e-5, "alpha_min_ratio": 0.3},
        "n_alphas": 3,
        "l1_ratios": [1.0, 0.6],
        "scoring": "r2",
    },
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("name", "n_targets"), [*((name, 1) for name in GRIDS), ("mixtures", 2), ("search", 2)])
def test_scores_are_those_of_folds_with_their_own_kernels(name: str, n_targets: int, together: list[int]) -> None:
    X, y = data()
    if n_targets == 2:
        y = np.column_stack([y, X[:, 2] ** 2 + np.random.default_rng(2).normal(size=N)])
    weight = np.random.default_rng(1).uniform(0.5, 2.0, N)
    weight[::11] = 0.0  # rows that count as absent
    groups = np.arange(N) // 6
    own, auto = (fitted(X, y, wish, weight, groups, tol=1e-8, **GRIDS[name]) for wish in ("own", "auto"))
    # One strength after the other in all folds at once, and folds with their own not at all.
    tried = auto.cv_results_.query("kernels != 'no kernels'") if "kernels" in auto.cv_results_ else auto.cv_results_
    # The choice, or those of the targets, are tried once more: for what held-out rows lose.
    best = [0] if auto.best_per_target_ is None else auto.best_per_target_
    assert together == [3] * (len(tried) + len(set(best)))
    # Of strongly convex objectives within a gap of their minima minimizers differ by its root.
    apart = 4 * np.sqrt(GRIDS[name].get("search", {}).get("fold_tol", 1e-8))
    first, second = (_common(model.cv_results_, other.cv_results_) for model, other in ((own, auto), (auto, own)))
    pd.testing.assert_frame_equal(first, second, rtol=apart, atol=apart)
    assert auto.n_folds_ == own.n_folds_ == 3
    np.testing.assert_allclose(auto.alpha_, own.alpha_, rtol=1e-9)
    np.testing.assert_allclose(auto.alphas_[:3], own.alphas_[:3], rtol=1e-9)
    np.testing.assert_allclose(auto.predict(X), own.predict(X), atol=1e-3)


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("reason", "options"),
    [
        ("kernels are held as Gram matrices", {"resources": {"representation": "gram"}}),
        ("the loss is 'huber'", {"loss": "huber"}),
        ("targets share their weights", {"outputs": "shared"}),
        ("gives every kernel a weight", {"penalty": "ridge"}),
        ("no two may hold out the same", {"cv": ShuffleSplit(2, test_size=0.6, random_state=0)}),
        ("folds must train on all rows that they do not hold out", {"cv": TimeSeriesSplit(3)}),
        ("no two may hold out the same", {"cv": RepeatedKFold(n_splits=2, n_repeats=2, random_state=0)}),
        (None, {"kernels": FIXED.replace(standardize=True)}),
        (None, {"kernels": FIXED.replace(normalize="trace")}),
        (None, {"kernels": FIXED.replace(center=True)}),
        (None, {"kernels": KernelBank.per_feature(widths=["median"])}),
        (None, {"kernels": KernelBank.per_feature(Linear())}),
        (None, {"kernels": KernelBank([("rough", Laplacian(1.0), [0]), ("pair", Gaussian(1.0), [0, 1])])}),
    ],
)
def test_what_cannot_be_shared_is_said_and_what_is_learned_of_rows_is_not_shared_unasked(
    reason: str | None, options: dict[str, Any], together: list[int]
) -> None:
    X, y = data()
    given: dict[str, Any] = {"n_alphas": 2, "search": {"alpha_min_ratio": 0.3}, "penalty": "l1", "tol": 1e-3} | options
    if given["penalty"] == "ridge":
        given["alphas"] = [0.1]
    form = {"resources": given.pop("resources", FACTORED)}
    model = MKLRegressorCV(given.pop("kernels", FIXED), **({"cv": 2} | given), **form)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        assert len(model.fit(X, y).cv_results_) == (1 if "alphas" in given else 2)
        assert not together
        model.set_params(search__fold_kernels="shared")
        if reason is None:  # asked for, it is done
            assert np.isfinite(model.fit(X, y).best_score_)
            assert together
            return
    with pytest.raises(IncompatibleError, match=rf"fold_kernels='shared' cannot be had: .*{reason}"):
        model.fit(X, y)
    with pytest.raises(InvalidInputError, match="fold_kernels must be one of 'auto', 'own', 'shared', got 'all'"):
        model.set_params(search__fold_kernels="all").fit(X, y)


def test_widths_and_scales_of_all_rows_are_nearly_those_of_the_folds(together: list[int]) -> None:
    X, y = data()
    bank = KernelBank.per_feature(widths=["0.5*median", "2*median"], standardize=True)
    own, shared = (
        fitted(X, y, wish, kernels=bank, penalty="l1", n_alphas=4, search={"alpha_min_ratio": 0.05})
        for wish in ("own", "shared")
    )
    assert together
    scores = [f"score_{fold}" for fold in range(3)]
    np.testing.assert_allclose(shared.cv_results_[scores], own.cv_results_[scores], rtol=0.1)
    assert np.abs(shared.cv_results_[scores] - own.cv_results_[scores]).max().max() > 1e-4


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "options",
    [
        {"penalty": "l1", "n_alphas": 3, "search": {"alpha_min_ratio": 0.1}},
        {"n_alphas": 3, "search": {"alpha_min_ratio": 0.1}},
    ],
)
def test_folds_whose_factors_are_too_many_have_their_own(
    options: dict[str, Any], together: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = data()
    own = fitted(X, y, "own", **options)
    monkeypatch.setattr("manykernels.estimators.selection.shared_folds.MOST_RANK", 5)
    auto = fitted(X, y, "auto", **options)
    assert together
    pd.testing.assert_frame_equal(auto.cv_results_, own.cv_results_)
    with pytest.raises(IncompatibleError, match=r"more than the 5 whose sums folds can share"):
        fitted(X, y, "shared", **options)


def test_a_search_that_ends_early_keeps_what_all_folds_scored(
    together: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = data()
    at = PooledNewton.at

    def late(self: PooledNewton, posed: Any) -> Any:
        if len(together) == 2:
            raise OutOfTimeError
        return at(self, posed)

    monkeypatch.setattr(PooledNewton, "at", late)
    for options in ({"penalty": "l1"}, {}):
        together.clear()
        model = MKLRegressorCV(
            FIXED,
            resources={"representation": "factored"},
            cv=3,
            n_alphas=5,
            search={"alpha_min_ratio": 0.1},
            **options,
        )
        with pytest.warns(ConvergenceWarning, match="The search stopped"):
            model.fit(X, y)
        scores = model.cv_results_[[f"score_{fold}" for fold in range(3)]]
        if options:
            assert np.isfinite(scores).all(axis=1).tolist() == [True, True, False, False, False]
        else:
            assert len(scores) == 3  # with the empty model
        assert model.n_folds_ == 3
        assert model.best_index_ == len(scores) - 1 if not options else 1


def test_paths_are_measured_in_shared_folds(together: list[int]) -> None:
    X, y = data()
    given: dict[str, Any] = {"kernels": FIXED, "n_alphas": 3, "alpha_min_ratio": 0.1, "tol": 1e-8, **FACTORED}
    path = regularization_path(X, y, cv=KFold(3), **given)
    assert together == [3, 3, 3, 3]  # and the best once more
    assert path.performance is not None
    alone = fitted(X, y, "own", alphas=path.alphas, tol=1e-8, scoring="neg_root_mean_squared_error")
    np.testing.assert_allclose(path.performance["rmse"], -alone.cv_results_["mean_score"], rtol=1e-5)
