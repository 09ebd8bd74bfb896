"""Estimators of many targets: each is the model of a single target, chosen on folds without a leak."""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import csr_array
from sklearn.metrics import r2_score
from sklearn.model_selection import GroupKFold, KFold

from manykernels import KernelBank, Linear, MKLRegressor, MKLRegressorCV, load_model, save_model
from manykernels.estimators.selection import learning
from manykernels.estimators.selection import targets as search
from manykernels.estimators.selection.targets import TargetFold
from manykernels.estimators.supervised import regressor
from manykernels.estimators.supervised.samples import release_pages
from manykernels.exceptions import InvalidInputError

RNG = np.random.default_rng(4)
N, T = 120, 14
X = RNG.normal(size=(N + 60, 12))
VIEWS = {"one": [0, 1, 2, 3], "two": [4, 5, 6, 7], "three": [8, 9, 10, 11]}
BANK = KernelBank.from_views(VIEWS, Linear(), normalize="mean_diagonal")
WEIGHTS = RNG.normal(size=(12, T))
WEIGHTS[4:, : T // 2] = 0.0  # the first half of the targets sees one view
WEIGHTS[:8, T // 2 :] = 0.0  # the other half another one
SIGNAL = X @ WEIGHTS
Y = SIGNAL + SIGNAL.std(axis=0) * RNG.uniform(0.3, 1.5, T) * RNG.normal(size=SIGNAL.shape)
TRAIN, TEST = slice(N), slice(N, None)


@pytest.fixture(scope="module")
def searched() -> MKLRegressorCV:
    return MKLRegressorCV(BANK, cv=KFold(4)).fit(X[TRAIN], Y[TRAIN])


@pytest.mark.parametrize(
    ("penalty", "alpha"), [("l1", "0.2*max"), ("elasticnet", 0.05), ("l1", "auto"), ("ridge", 0.1)]
)
def test_a_fit_of_many_targets_is_a_fit_of_each(penalty, alpha):
    model = MKLRegressor(BANK, penalty=penalty, alpha=alpha, tol=1e-5).fit(X[TRAIN], Y[TRAIN])
    assert {found.solver for found in model.solution_} == {"many_targets"}
    assert model.dual_gap_ <= 1e-5
    predicted = model.predict(X[TEST])
    for t in (0, T // 2, T - 1):
        own = model.alpha_[t] if penalty != "elasticnet" else alpha
        one = MKLRegressor(BANK, penalty=penalty, alpha=own, tol=1e-7).fit(X[TRAIN], Y[TRAIN, t])
        np.testing.assert_allclose(predicted[:, t], one.predict(X[TEST]), atol=0.02 * Y[:, t].std())
        np.testing.assert_array_equal(model.kernel_weights_[t] > 0, one.kernel_weights_ > 0)


def test_a_search_chooses_strength_and_mixing_of_every_target(searched):
    assert searched.dual_gap_ <= searched.tol
    assert searched.alpha_.shape == searched.mixing_.shape == searched.best_per_target_.shape == (T,)
    assert len(set(searched.alpha_)) > T // 2
    parts = np.abs(searched.decompose(X[TEST])).mean(axis=1)  # (M, T)
    assert (parts[:, : T // 2].argmax(axis=0) == 0).all()
    assert (parts[:, T // 2 :].argmax(axis=0) == 2).all()
    constant = np.mean((Y[TEST] - Y[TRAIN].mean(axis=0)) ** 2, axis=0)
    errors = np.mean((Y[TEST] - searched.predict(X[TEST])) ** 2, axis=0)
    assert (errors < constant).all()


def test_the_models_of_a_search_are_those_of_plain_estimators(searched):
    for t in range(0, T, 3):
        ratio = {1.0: "l1", 0.0: "ridge"}.get(searched.mixing_[t], "elasticnet")
        taken = searched.kernel_weights_[t] > 0 if ratio == "ridge" else np.ones(3, dtype=bool)  # averages of few views
        views = {name: VIEWS[name] for name, used in zip(VIEWS, taken, strict=True) if used}
        bank = KernelBank.from_views(views, Linear(), normalize="mean_diagonal")
        plain = MKLRegressor(bank, penalty=ratio, alpha=searched.alpha_[t], l1_ratio=searched.l1_ratio_[t], tol=1e-5)
        plain.fit(X[TRAIN], Y[TRAIN, t])
        np.testing.assert_allclose(searched.predict(X[TEST])[:, t], plain.predict(X[TEST]), atol=0.05 * Y[:, t].std())


def test_scores_of_folds_are_those_of_models_that_have_not_seen_the_rows(searched):
    selects = MKLRegressorCV(BANK, cv=KFold(4), l1_ratios=[1.0]).fit(X[TRAIN], Y[TRAIN])
    assert set(searched.cv_results_["mixing"]) == {0.0, 0.5, 1.0}
    table = selects.cv_results_
    selecting = table[(table["mixing"] == 1.0) & (table["kernels"] != "no kernels")]
    assert selecting["n_active"].is_monotonic_increasing
    # Predictions of held-out rows are those of models of the other rows at the same fraction of their own strengths.
    fraction = table["fraction"][selects.best_per_target_[0]]
    train, test = next(KFold(4).split(X[TRAIN]))
    own = MKLRegressor(BANK, alpha=f"{fraction}*max").fit(X[train], Y[train, 0])
    np.testing.assert_allclose(selects.cv_predictions_[test, 0], own.predict(X[test]), atol=0.1 * Y[:, 0].std())


def test_targets_that_see_a_single_view_are_averages_of_few_views_with_weights_of_exactly_zero(searched):
    labels = searched.cv_results_["kernels"].to_numpy()[searched.best_per_target_]
    few = labels == "kernels of each target"
    assert few.mean() > 0.7
    assert (searched.kernel_weights_ == 0).mean() > 0.5
    t = int(np.flatnonzero(few & (np.arange(T) < T // 2))[0])
    assert searched.kernel_weights_[t, 0] > 0
    # Held-out predictions are those of ridge regression on these views at the same fraction of the scale of the fold.
    views = [VIEWS[name] for name, weight in zip(VIEWS, searched.kernel_weights_[t], strict=True) if weight > 0]
    train, test = next(KFold(4).split(X[TRAIN]))
    bank, rows = KernelBank.from_views(dict(enumerate(views)), Linear(), normalize="mean_diagonal").fit_prepare(
        X[train]
    )
    K, crossed = bank.block(rows, rows).sum(axis=0), bank.block(bank.prepare(X[test]), rows).sum(axis=0)
    y = Y[train, t] - Y[train, t].mean()
    crossed = crossed - crossed.mean(axis=1, keepdims=True) - K.mean(axis=0) + K.mean()
    K = K - K.mean(axis=0) - K.mean(axis=1, keepdims=True) + K.mean()
    strength = searched.cv_results_["fraction"][searched.best_per_target_[t]] * (y @ K @ y) / (y @ y)
    expected = crossed @ np.linalg.solve(K + strength * np.eye(len(train)), y) + Y[train, t].mean()
    np.testing.assert_allclose(searched.cv_predictions_[test, t], expected, atol=1e-4 * Y[:, t].std())


def test_targets_of_held_out_rows_change_nothing_in_their_fold(monkeypatch):
    folds: list[TargetFold] = []

    class Noted(TargetFold):
        def select_targets(self, targets):
            folds.append(super().select_targets(targets))
            return folds[-1]

    monkeypatch.setattr(search, "TargetFold", Noted)
    groups = np.repeat(np.arange(12), N // 12)  # blocks of rows, as runs of a scanner
    changed = Y[TRAIN].copy()
    train = next(iter(GroupKFold(4).split(X[TRAIN], groups=groups)))[0]
    test = np.setdiff1d(np.arange(N), train)
    changed[test] = changed[test][::-1]
    models = [MKLRegressorCV(BANK, cv=GroupKFold(4)).fit(X[TRAIN], y, groups=groups) for y in (Y[TRAIN], changed)]
    first, other = folds[0], folds[len(folds) // 2]
    np.testing.assert_array_equal(first.inside, other.inside)
    np.testing.assert_array_equal(first.largest, other.largest)
    np.testing.assert_array_equal(first.intercepts, other.intercepts)
    assert not np.allclose(models[0].cv_predictions_, models[1].cv_predictions_)


def test_targets_that_are_searched_in_parts_are_those_that_are_searched_together(searched, monkeypatch):
    monkeypatch.setattr(search, "SEARCHED_BYTES", 1)
    monkeypatch.setattr(search, "CHUNK", 5)
    parts = MKLRegressorCV(BANK, cv=KFold(4)).fit(X[TRAIN], Y[TRAIN])
    np.testing.assert_array_equal(parts.mixing_, searched.mixing_)
    np.testing.assert_allclose(parts.alpha_, searched.alpha_)
    np.testing.assert_allclose(parts.predict(X[TEST]), searched.predict(X[TEST]), atol=0.02)
    np.testing.assert_allclose(parts.cv_predictions_, searched.cv_predictions_, atol=0.1)
    np.testing.assert_allclose(parts.best_score_, searched.best_score_, rtol=1e-3)


def test_targets_in_a_memory_map_stay_in_single_precision(searched, tmp_path):
    np.save(tmp_path / "targets.npy", Y[TRAIN].astype(np.float32))
    given = np.load(tmp_path / "targets.npy", mmap_mode="r")
    model = MKLRegressorCV(BANK, cv=KFold(4)).fit(X[TRAIN], given)
    assert model.dual_coef_.dtype == model.cv_predictions_.dtype == model.predict(X[TEST]).dtype == np.float32
    assert model.dual_gap_ <= model.tol
    np.testing.assert_allclose(model.predict(X[TEST]), searched.predict(X[TEST]), atol=0.02 * np.abs(Y).max())
    problem = [K.sum() for K in (model.solution_[0].dual_coef, model.solution_[1].dual_coef)]
    np.testing.assert_allclose(problem, 0.0, atol=1e-3 * np.abs(model.dual_coef_).max())
    save_model(model, tmp_path / "single.zip")
    np.testing.assert_array_equal(load_model(tmp_path / "single.zip").predict(X[TEST]), model.predict(X[TEST]))


def test_coefficients_of_many_targets_are_held_once():
    model = MKLRegressor(BANK, alpha=0.05).fit(X[TRAIN], Y[TRAIN])
    assert all(np.shares_memory(found.dual_coef, model.dual_coef_) for found in model.solution_)


def test_a_target_that_is_noise_has_no_kernels():
    noisy = Y[TRAIN].copy()
    noisy[:, 3] = RNG.normal(size=N)
    with pytest.warns(UserWarning, match="output"):
        model = MKLRegressorCV(BANK, cv=KFold(4), penalty="auto").fit(X[TRAIN], np.c_[noisy, np.ones(N)])
    assert not model.kernel_weights_[-1].any()
    assert model.predict(X[TEST])[:, -1] == pytest.approx(1.0)


def test_names_weights_and_importance_of_many_targets(searched):
    frame = pd.DataFrame(Y[TRAIN], columns=[f"voxel {t}" for t in range(T)])
    model = MKLRegressorCV(BANK, cv=KFold(4)).fit(X[TRAIN], frame, sample_weight=np.ones(N))
    assert list(model.target_names_) == list(frame.columns)
    np.testing.assert_allclose(model.kernel_weights_, searched.kernel_weights_)
    importance = model.importance_frame("kernel")
    assert set(importance.iloc[:2, 0]) == {"x0, x1, x2, x3", "x8, x9, x10, x11"}


def test_a_model_of_many_targets_is_read_as_it_was_written(searched, tmp_path):
    save_model(searched, tmp_path / "many.zip")
    read = load_model(tmp_path / "many.zip")
    np.testing.assert_allclose(read.predict(X[TEST]), searched.predict(X[TEST]))
    np.testing.assert_array_equal(read.mixing_, searched.mixing_)


def test_given_mixtures_and_averages_alone_are_followed():
    averages = MKLRegressorCV(BANK, cv=KFold(3), penalty="ridge").fit(X[TRAIN], Y[TRAIN])
    assert set(np.unique(averages.mixing_)) <= {0.0, 1.0}  # 1 is the empty model
    selecting = MKLRegressorCV(BANK, cv=KFold(3), l1_ratios=[1.0]).fit(X[TRAIN], Y[TRAIN])
    assert (selecting.mixing_ == 1.0).all()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_search_out_of_time_learns_what_it_knows():
    with pytest.warns(UserWarning, match="The search stopped"):
        model = MKLRegressorCV(BANK, cv=KFold(4), resources={"time_limit": 1e-3}).fit(X[TRAIN], Y[TRAIN])
    assert model.predict(X[TEST]).shape == (60, T)


def test_r2_of_each_target_is_split_by_kernel(searched, monkeypatch):
    table = searched.target_frame(X[TEST], Y[TEST])
    assert table.columns[:2].tolist() == ["r2", "bias"]
    np.testing.assert_allclose(table["r2"], r2_score(Y[TEST], searched.predict(X[TEST]), multioutput="raw_values"))
    np.testing.assert_allclose(table.drop(columns="r2").sum(axis=1), table["r2"])
    parts = searched.decompose(X[TEST])
    parts = parts - parts.mean(axis=1, keepdims=True)
    y = Y[TEST] - Y[TEST].mean(axis=0)
    split = np.einsum("mnt,nt->mt", parts, 2 * y - parts.sum(axis=0)) / np.square(y).sum(axis=0)
    np.testing.assert_allclose(table.iloc[:, 2:].T, split, atol=1e-12)
    assert (table["bias"] <= 0).all()
    monkeypatch.setattr(regressor, "PARTS_BYTES", 8 * 3 * T * 7)  # seven rows at a time
    pd.testing.assert_frame_equal(searched.target_frame(X[TEST], Y[TEST]), table)


def test_sparse_targets_are_those_of_the_array():
    counts = RNG.poisson(0.5, size=(N, 3)).astype(float)
    ways = [MKLRegressor(BANK, loss="poisson", alpha=0.01).fit(X[TRAIN], y) for y in (csr_array(counts), counts)]
    np.testing.assert_array_equal(ways[0].predict(X[TEST]), ways[1].predict(X[TEST]))
    assert ways[0].score(X[TRAIN], csr_array(counts)) == pytest.approx(ways[1].score(X[TRAIN], counts))


def test_r2_of_one_target_and_of_matrices_is_split():
    model = MKLRegressor(BANK, alpha=0.01).fit(X[TRAIN], pd.Series(Y[TRAIN, 0], name="first"))
    table = model.target_frame(X[TEST], Y[TEST, 0])
    assert table.index.tolist() == ["first"]
    assert table["r2"].iloc[0] == pytest.approx(model.score(X[TEST], Y[TEST, 0]))
    matrices = np.array([X[:, own] @ X[:, own].T for own in (slice(4), slice(4, 8))])
    fitted = MKLRegressor("precomputed", alpha=0.1).fit(matrices[:, TRAIN, TRAIN], Y[TRAIN])
    found = fitted.target_frame(matrices[:, TEST, TRAIN], Y[TEST])
    expected = r2_score(Y[TEST], fitted.predict(matrices[:, TEST, TRAIN]), multioutput="raw_values")
    np.testing.assert_allclose(found["r2"], expected)


def test_r2_is_not_split_where_predictions_are_no_sums():
    counts = RNG.poisson(2.0, size=(N, 2))
    with pytest.raises(InvalidInputError, match="not for loss='poisson'"):
        MKLRegressor(BANK, loss="poisson", alpha=0.1).fit(X[TRAIN], counts).target_frame(X[TRAIN], counts)
    model = MKLRegressor(BANK, alpha=0.1).fit(X[TRAIN], Y[TRAIN, :2])
    with pytest.raises(InvalidInputError, match="y has 3 targets, but the model has 2"):
        model.target_frame(X[TEST], Y[TEST, :3])
    assert model.target_frame(X[TEST], np.c_[Y[TEST, 0], np.ones(60)])["r2"].isna().tolist() == [False, True]


def test_targets_keep_no_bounds_of_coefficients_after_their_fit(monkeypatch):
    kept, fit_chosen, copies = [], learning.solve_mixtures, 8  # enough for a batch on any of the averages

    def solve_mixtures(*args, **named):
        fit = fit_chosen(*args, **named)
        kept.extend(
            (found.kernel_weights, set(vars(problem.bound)))
            for found, problem in zip(fit.solutions, fit.problems, strict=True)
        )
        return fit

    monkeypatch.setattr(learning, "solve_mixtures", solve_mixtures)
    MKLRegressorCV(BANK, cv=KFold(4)).fit(X[TRAIN], np.hstack([Y[TRAIN]] * copies))
    assert len(kept) == copies * T
    assert 0 < min(np.count_nonzero(weights) for weights, _ in kept) < len(VIEWS)  # some are on fewer kernels
    assert not any("box" in names for _, names in kept)  # as long as two targets


def test_targets_are_not_those_of_the_caller():
    given = np.asfortranarray(Y[TRAIN])
    model = MKLRegressor(BANK, alpha=0.1).fit(X[TRAIN], given)
    kept = model._support_targets.copy()
    given[:] = 0.0
    assert_allclose(model._support_targets, kept, rtol=0)
    assert kept.any()


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the number of mapped pages is known on Linux")
def test_a_read_memory_map_keeps_no_pages(tmp_path):
    np.save(tmp_path / "targets.npy", np.ones((200, 10_000), dtype=np.float32))
    mapped = np.load(tmp_path / "targets.npy", mmap_mode="r")

    def mapped_bytes():
        return int(Path("/proc/self/statm").read_text().split()[2]) * mmap.PAGESIZE

    total, before = float(mapped.sum()), mapped_bytes()
    release_pages(mapped[:100])
    assert before - mapped_bytes() > mapped.nbytes / 2
    assert float(mapped.sum()) == total == mapped.size


def test_changed_pages_of_a_private_memory_map_are_kept(tmp_path):
    np.save(tmp_path / "targets.npy", np.ones((20, 1_000)))
    mapped = np.load(tmp_path / "targets.npy", mmap_mode="c")
    mapped[:] = 2.0
    release_pages(mapped)
    assert (mapped == 2.0).all()
