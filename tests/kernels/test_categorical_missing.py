"""Masked kernels (a sample that lacks a column is zero there) and kernels of missingness, against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.conic import conic_optimum

from manykernels import Gaussian, InvalidInputError, KernelBank, Linear, Missing, MKLClassifier, MKLRegressor
from manykernels.grams import build_stack
from manykernels.solvers import configured_solver
from manykernels.testing.problems import SmallProblem
from manykernels.testing.solver import build_problem, certificate_in_numpy

NAN = np.nan


def holed(rng: np.random.Generator, n: int = 30, d: int = 3, share: float = 0.25) -> np.ndarray:
    X = rng.normal(size=(n, d)) * [1.0, 5.0, 0.2][:d] + 3.0
    X[rng.random((n, d)) < share] = NAN
    X[:2] = [[1.0], [2.0]]  # somebody has everything
    return X


def grams(bank: KernelBank, X: np.ndarray) -> np.ndarray:
    fitted, rows = bank.fit_prepare(X)
    return fitted.block(rows, rows)


OPTIONS = [
    {"normalize": normalize, "center": center, "standardize": standardize}
    for normalize in ("trace", "mean_diagonal", "unit_diagonal", None)
    for center in (False, True)
    for standardize in (False, True)
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(map(str, options.values())))
def test_among_complete_samples_a_kernel_is_the_one_they_would_have_alone(options, rng):
    X = holed(rng)
    entries = [("near", Gaussian("0.7*median"), [0]), ("line", Linear(), [1]), ("both", Gaussian("median"), [0, 2])]
    K = grams(KernelBank(entries, missing="mask", **options), X)
    for kernel, (name, spec, columns) in zip(K, entries, strict=True):
        present = ~np.isnan(X[:, columns]).any(axis=1)
        each = [~np.isnan(X[:, j]) for j in columns]
        if len(columns) == 1 or not options["standardize"]:  # of several columns each is standardized by its own rows
            alone = grams(KernelBank([(name, spec)], **options), X[present][:, columns])[0]
            np.testing.assert_allclose(kernel[np.ix_(present, present)], alone, rtol=1e-9, atol=1e-12)
        assert not kernel[~present].any()
        assert not kernel[:, ~present].any()
        assert present.sum() < min(part.sum() for part in each) or len(columns) == 1
        assert np.linalg.eigvalsh(kernel)[0] > -1e-10


def test_every_storage_and_new_rows_hold_the_same_masked_kernels(rng):
    X, new = holed(rng), holed(rng, 7)
    bank = KernelBank.auto(missing="indicator", normalize="mean_diagonal")
    fitted, rows = bank.fit_prepare(X)
    K, r = fitted.block(rows, rows), rng.normal(size=len(X))
    for kind in ("dense", "packed", "lazy"):
        stack = build_stack(fitted, rows, kind=kind)
        np.testing.assert_allclose(stack.quad(r), np.einsum("i,mij,j->m", r, K, r), rtol=1e-9)
        np.testing.assert_allclose(stack.diag(), np.einsum("mii->mi", K))
    cross = fitted.block(fitted.prepare(np.vstack([X[:5], new])), rows)
    np.testing.assert_allclose(cross[:, :5], K[:, :5], atol=1e-12)
    first = fitted.names.index("x0: linear()")
    np.testing.assert_array_equal((cross[first, 5:] == 0).all(axis=1), np.isnan(new[:, 0]))


def test_a_kernel_of_missingness_for_every_pattern_of_gaps(rng):
    X = rng.normal(size=(12, 4))
    X[:3, 0] = X[:3, 1] = X[3:7, 2] = NAN
    fitted, rows = KernelBank.per_feature(Linear(), missing="indicator", normalize=None).fit_prepare(X)
    assert [name for name in fitted.names if "missing" in name] == ["x0: missing", "x2: missing"]
    K = fitted.block(rows, rows)
    for name, start, stop in (("x0: missing", 0, 3), ("x2: missing", 3, 7)):
        lacking = np.isin(np.arange(12), np.arange(start, stop)).astype(float)
        np.testing.assert_array_equal(K[fitted.names.index(name)], np.outer(lacking, lacking))
    np.testing.assert_array_equal(Missing()(X[:, [0, 2]]), K[fitted.names.index("x0: missing")] / 2 + K[-1] / 2)


def test_a_gap_without_permission_is_refused_and_one_in_an_idle_column_is_nobodys_business(rng):
    X = rng.normal(size=(20, 3))
    X[4, 2], X[5, 2] = NAN, np.inf
    both = r"(?s)infinity.*'x2' \(1 of 20\).*NaN.*'x2' \(1 of 20\).*missing='mask'"
    with pytest.raises(InvalidInputError, match=both):
        KernelBank.auto().fit(X)
    with pytest.raises(InvalidInputError, match="infinity"):
        KernelBank.auto(missing="mask").fit(X)
    y, bank = X[:, 0], KernelBank.joint(Gaussian(1.0), [0, 1])
    model = MKLRegressor(bank, alpha=0.01).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), MKLRegressor(bank, alpha=0.01).fit(X[:, :2], y).predict(X[:, :2]))
    with pytest.raises(InvalidInputError, match=r"'x0' \(1 of 1\)"):
        model.predict([[NAN, 1.0, 1.0]])


def test_a_column_that_nobody_has_is_a_kernel_of_zero(rng):
    X = rng.normal(size=(20, 2))
    X[:, 1] = NAN
    fitted, rows = KernelBank.per_feature([Linear(), Gaussian("median")], missing="mask", center=True).fit_prepare(X)
    assert fitted.scales[2:].tolist() == [0.0, 0.0]
    assert not fitted.block(rows, rows)[2:].any()


LOSSES = {"logistic": {}, "hinge": {}, "squared": {}, "huber": {"delta": 0.5}, "epsilon_insensitive": {"epsilon": 0.1}}
PENALTIES = {"l1": {}, "elasticnet": {"l1_ratio": 0.5}, "ridge": {}, "simplex": {}}


def masked_problem(seed: int) -> SmallProblem:
    """A problem of 10 to 14 samples, each of which may lack one of two columns, with every loss and penalty in turn."""
    rng = np.random.default_rng(seed)
    loss, penalty = list(LOSSES)[seed % 5], list(PENALTIES)[seed % 4]
    X = holed(rng, int(rng.integers(10, 15)), 2, share=0.4)
    K = grams(KernelBank.per_feature([Gaussian("median"), Linear()], missing="mask", normalize="mean_diagonal"), X)
    y = np.nan_to_num(X[:, 0] - 3) + rng.normal(size=len(X))
    y = np.where(y > np.median(y), 1.0, -1.0) if loss in ("logistic", "hinge") else y
    strength = len(X) * 10 ** rng.uniform(-2.5, -1)
    weight = rng.uniform(0.5, 2.0, len(X)) if seed % 3 else None
    return SmallProblem(K, y, loss, penalty, strength, bool(seed % 2), LOSSES[loss], PENALTIES[penalty], weight)


@pytest.mark.nightly
@pytest.mark.parametrize("start", range(0, 100, 20))
def test_hundred_masked_problems_against_the_conic_oracle(start):
    for seed in range(start, start + 20):
        small = masked_problem(seed)
        problem = build_problem(small)
        found = configured_solver("auto", problem, tol=1e-8).solve(problem)
        assert found.certificate.primal == pytest.approx(conic_optimum(small, target=1e-7).primal, rel=1e-6)
        own = certificate_in_numpy(small, found.dual_coef, found.kernel_weights, found.intercept)
        assert own.relative_gap <= 2e-8


def test_what_one_view_lacks_changes_nothing_for_models_of_other_views(rng):
    X = rng.normal(size=(60, 4))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=60) > 0, 1, -1)
    holes = X.copy()
    holes[rng.random(60) < 0.5, 2:] = NAN
    views = {"left": [0, 1], "right": [2, 3]}
    bank = KernelBank.from_views(views, missing="mask", normalize="mean_diagonal")
    penalties = {"right*": 1e6}  # the right view is priced out of the model
    whole = MKLClassifier(bank, alpha=0.02, kernel_penalties=penalties, tol=1e-9).fit(X, y)
    masked = MKLClassifier(bank, alpha=0.02, kernel_penalties=penalties, tol=1e-9).fit(holes, y)
    np.testing.assert_allclose(masked.decision_function(holes), whole.decision_function(X), atol=1e-6)
    # A masked sample gets nothing from the kernels of the view that it lacks, whatever is put there.
    model = MKLClassifier(bank, alpha=0.005).fit(holes, y)
    lacking = np.isnan(holes[:, 2])
    parts, right = model.decompose(holes), [name.startswith("right") for name in model.kernel_names_]
    assert not parts[right][:, lacking].any()
    assert parts[right][:, ~lacking].any()


def test_test_rows_and_what_they_lack_teach_nothing(rng):
    X = holed(rng, 60)
    y = np.nan_to_num(X[:, 0]) > 3
    model = MKLClassifier(KernelBank.auto(missing="indicator"), alpha=0.01).fit(X[:40], y[:40])
    before = model.decision_function(X[40:50])
    spoiled = np.where(rng.random((10, 3)) < 0.5, NAN, 1e3)
    after = model.decision_function(np.vstack([X[40:50], spoiled]))
    np.testing.assert_allclose(before, after[:10], rtol=1e-12)
