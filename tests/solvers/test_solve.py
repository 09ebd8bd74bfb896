"""One call for kernels of every kind: matrices, factors, pairs, several targets, times and events, banks on tables."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array

from manykernels import Gaussian, KernelBank, MKLRegressor, Pairs, solve, survival_array
from manykernels.exceptions import ConvergenceWarning, InvalidInputError
from manykernels.grams import as_stack
from manykernels.grams.factored import factored_stack
from manykernels.kernels import PairKernels
from manykernels.objective import get_regularizer, survival_target
from manykernels.objective.losses import get_shared_loss
from manykernels.solvers import Solution, Status

Array = NDArray[Any]
BANK = KernelBank.per_feature(widths=[0.5, 1.5], standardize=True)
SQUARED: dict[str, Any] = {"loss": "squared", "penalty": "l1"}


def rows(n: int = 120, columns: int = 3) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, columns))
    return X, np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] ** 2 + 0.2 * rng.normal(size=n)


def grams(X: Array, bank: KernelBank = BANK) -> Array:
    fitted, prepared = bank.fit_prepare(X)
    return np.asarray(fitted.block(prepared, prepared))


def survival(score: Array) -> tuple[Array, Array]:
    rng = np.random.default_rng(1)
    return rng.random(len(score)) < 0.7, rng.exponential(np.exp(-score))


def own_norms(kernels: Array, found: Solution) -> Array:
    rho = found.dual_coef.reshape(kernels.shape[1], -1)
    return found.kernel_weights * np.sqrt(np.einsum("mij,it,jt->m", kernels, rho, rho))


@pytest.mark.parametrize("targets", ["one", "three", "cox"])
def test_matrices_and_factors_have_one_optimum_and_factors_get_their_own_solver(targets: str) -> None:
    X, f = rows()
    kernels: Array = grams(X)
    options: dict[str, Any] = {**SQUARED, "strength": 3.0, "tol": 1e-7, "outputs": "shared"}
    y: Any = np.column_stack([f, X[:, 2], -f]) if targets == "three" else f
    if targets == "cox":
        y, options["loss"] = survival_array(*survival(f)), "cox"
    dense, factored = solve(kernels, y, **options), solve(factored_stack(X, BANK), y, **options)
    assert (factored.solver, dense.solver != "factored") == ("factored", True)
    assert dense.dual_gap <= 1e-7
    assert factored.dual_gap <= 1e-7
    assert factored.certificate.primal == pytest.approx(dense.certificate.primal, rel=1e-6)
    np.testing.assert_allclose(dense.kernel_norms, own_norms(kernels, dense), rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(factored.kernel_norms, dense.kernel_norms, atol=2e-2 * dense.kernel_norms.max())


def test_a_survival_target_is_ranks_of_signed_times() -> None:
    X, f = rows()
    event, time = survival(f)
    kernels = grams(X)
    options: dict[str, Any] = {"loss": "cox", "penalty": "l1", "alpha": 0.01, "tol": 1e-6}
    named = pd.DataFrame({"seen": event, "months": time})
    found = [solve(kernels, y, **options) for y in (survival_array(event, time), survival_target(event, time), named)]
    assert len({each.certificate.primal for each in found}) == 1
    assert found[0].intercept == 0.0


@pytest.mark.parametrize("held", ["gram", "factored"])
def test_a_bank_with_its_table_is_a_function_of_new_rows(held: str) -> None:
    X, y = rows()
    new = np.random.default_rng(2).normal(size=(20, 3))
    found = solve(BANK, y, X=X, alpha="0.1*max", tol=1e-8, representation=held, **SQUARED)
    fitted, prepared = BANK.fit_prepare(X)
    cross = fitted.block(fitted.prepare(new), prepared)
    expected = np.tensordot(found.kernel_weights, cross, 1) @ found.dual_coef + found.intercept
    np.testing.assert_allclose(found.decision_function(new), expected, atol=2e-3 * y.std())
    parts = found.decompose(new)
    assert parts.shape == (len(found.active), 20)
    np.testing.assert_allclose(parts.sum(axis=0) + found.intercept, found.decision_function(new), atol=1e-10)
    frame = found.weights_frame()
    assert set(frame["name"]) == {fitted.names[m] for m in found.active}
    assert frame["norm"].is_monotonic_decreasing


@pytest.mark.parametrize("bank", [BANK.replace(center=True), BANK.replace(normalize="unit_diagonal")], ids=str)
def test_a_bank_that_stacks_cannot_read_rows_for_prepares_new_rows(bank: KernelBank) -> None:
    X, y = rows()
    options: dict[str, Any] = {"alpha": "0.1*max", "tol": 1e-7, **SQUARED}
    gram, factored = (solve(bank, y, X=X, representation=held, **options) for held in ("gram", "factored"))
    assert factored.certificate.primal == pytest.approx(gram.certificate.primal, rel=1e-6)
    difference = factored.decision_function(X) - gram.decision_function(X)
    assert np.ptp(difference) < 5e-2 * y.std()


@pytest.mark.parametrize("missing", ["error", "mask"])  # columns are read in place, or standardized first
def test_shape_functions_are_of_columns_as_they_were_given(missing: str) -> None:
    X, y = rows()
    moved = np.asfortranarray(40.0 + 3.0 * X)
    found = solve(
        BANK.replace(missing=missing), y, X=moved, alpha="0.1*max", tol=1e-7, representation="factored", **SQUARED
    )
    functions: Any = found.functions
    shape = functions.shape_functions(0)
    assert (shape["x"].min(), shape["x"].max()) == pytest.approx((moved[:, 0].min(), moved[:, 0].max()))
    held = np.tile(moved[:1], (len(shape), 1))
    held[:, 0] = shape["x"]
    values = found.decision_function(held)
    np.testing.assert_allclose(values - values[0], shape["effect"] - shape["effect"][0], atol=1e-6)


@pytest.mark.parametrize("held", ["gram", "factored"])
def test_targets_have_one_set_of_weights_or_each_its_own(held: str) -> None:
    X, f = rows()
    Y = np.column_stack([f, X[:, 2]])
    options: dict[str, Any] = {"X": X, "alpha": "0.1*max", "tol": 1e-6, "representation": held, **SQUARED}
    shared, own = solve(BANK, Y, outputs="shared", **options), solve(BANK, Y, **options)
    assert shared.decision_function(X).shape == (len(X), 2)
    assert shared.decompose(X[:5]).shape == (len(shared.active), 5, 2)
    for found, y in zip(own, Y.T, strict=True):
        alone = solve(BANK, y, **options)
        assert found.certificate.primal == pytest.approx(alone.certificate.primal, rel=1e-8)


def test_a_loss_of_several_outputs_is_one_problem_and_one_target_is_no_tuple() -> None:
    X, f = rows()
    kernels, signs = grams(X), np.where(np.digitize(f, np.quantile(f, [0.3, 0.6]))[:, None] == np.arange(3), 1.0, -1.0)
    found = solve(kernels, signs, loss=get_shared_loss("logistic"), penalty="l1", alpha="0.2*max", tol=1e-3)
    assert found.decision_function(kernels).shape == (len(f), 3)
    alone = solve(kernels, f, outputs="own", alpha="0.2*max", tol=1e-3, **SQUARED)
    assert alone.decision_function(kernels).shape == (len(f),)


def test_strengths_are_relative_to_the_mean_loss_or_to_an_empty_model() -> None:
    X, y = rows()
    kernels, weight = grams(X), np.random.default_rng(3).uniform(0.5, 2.0, len(y))
    given: dict[str, Any] = {**SQUARED, "sample_weight": weight, "tol": 1e-8}
    first = solve(kernels, y, alpha=0.05, **given)
    with pytest.warns(FutureWarning, match="strength of solve.* is now alpha"):
        second = solve(kernels, y, strength=0.05 * weight.sum(), **given)
    assert first.certificate.primal == pytest.approx(second.certificate.primal, rel=1e-12)
    assert not len(solve(kernels, y, alpha="1.01*max", **given).active)
    assert len(solve(kernels, y, alpha="0.9*max", **given).active)
    with (
        pytest.warns(FutureWarning, match="is now alpha"),
        pytest.raises(InvalidInputError, match=r"Give one of alpha=2.*strength=1"),
    ):
        solve(kernels, y, strength=1.0, alpha=2.0, **given)


@pytest.mark.parametrize("held", ["gram", "factored"])
def test_samples_of_weight_zero_take_no_part(held: str) -> None:
    X, y = rows()
    weight = np.ones(len(y))
    weight[::3] = 0.0
    options: dict[str, Any] = {"alpha": 0.05, "tol": 1e-7, "representation": held, **SQUARED}
    found = solve(BANK, y, X=X, sample_weight=weight, **options)
    fewer = solve(BANK, y[weight > 0], X=X[weight > 0], **options)
    assert found.certificate.primal == pytest.approx(fewer.certificate.primal, rel=1e-9)
    assert not found.dual_coef[::3].any()
    assert len(found.dual_coef) == len(y)


def test_kernels_of_pairs_form_no_matrix_among_samples() -> None:
    rng = np.random.default_rng(4)
    left, right = rng.normal(size=(12, 2)), rng.normal(size=(9, 2))
    index = np.array([(i, j) for i in range(12) for j in range(9)])
    X = Pairs(left, right, index)
    y = left[index[:, 0], 0] * right[index[:, 1], 0]
    bank = PairKernels(KernelBank.per_feature(Gaussian(1.0)), KernelBank.per_feature(Gaussian(1.0)))
    found = solve(bank, y, X=X, alpha=0.01, tol=1e-5, **SQUARED)
    fitted, prepared = bank.fit_prepare(X)
    exact = solve(fitted.block(prepared, prepared), y, alpha=0.01, tol=1e-6, **SQUARED)
    assert found.certificate.primal == pytest.approx(exact.certificate.primal, rel=2e-5)
    assert found.decision_function(X).shape == y.shape


def test_pairs_of_columns_are_kernels_of_a_bank() -> None:
    X, _ = rows()
    joint = [(f"{i} and {j}", Gaussian("median"), [i, j]) for i, j in combinations(range(3), 2)]
    found = solve(
        BANK + KernelBank(joint, standardize=True), X[:, 0] * X[:, 1], X=X, alpha="0.1*max", tol=1e-5,
        representation="factored", **SQUARED,
    )  # fmt: skip
    assert found.weights_frame()["name"][0] == "0 and 1"
    surface = found.functions.surface(0, 1, 9)
    assert np.corrcoef(surface["effect"], surface["x"] * surface["z"])[0, 1] > 0.8


def test_estimators_solve_what_solve_does() -> None:
    X, y = rows()
    model = MKLRegressor(BANK, loss="squared", alpha=0.05, tol=1e-8).fit(X, y)
    found = solve(BANK, y, X=X, alpha=0.05, tol=1e-8, **SQUARED)
    assert found.certificate.primal == pytest.approx(model.solution_.certificate.primal, rel=1e-12)
    np.testing.assert_allclose(found.decision_function(X[:9]), model.predict(X[:9]), rtol=1e-9)
    np.testing.assert_allclose(found.kernel_norms, model.kernel_norms_, rtol=1e-9)


def test_what_cannot_be_done_is_said() -> None:
    X, y = rows()
    kernels = grams(X)
    with pytest.raises(InvalidInputError, match="needs a table"):
        solve(BANK, y, strength=1.0, **SQUARED)
    with pytest.raises(InvalidInputError, match="leave X out"):
        solve(kernels, y, X=X, strength=1.0, **SQUARED)
    with pytest.raises(InvalidInputError, match="needs a strength"):
        solve(kernels, y, **SQUARED)
    with pytest.raises(InvalidInputError, match="outputs"):
        solve(kernels, y, strength=1.0, outputs="both", **SQUARED)
    with pytest.raises(InvalidInputError, match="Leave them out of the table"):
        solve(factored_stack(X, BANK), y, sample_weight=np.arange(len(y)), strength=1.0, **SQUARED)
    assert solve(as_stack(kernels), y, strength=1.0, **SQUARED).functions is None
    with pytest.raises(InvalidInputError, match=r"kernels is a dict\. Pass numpy\.stack"):
        solve(dict(enumerate(kernels)), y, strength=1.0, **SQUARED)
    with pytest.raises(InvalidInputError, match=r"y is a sparse matrix.*toarray"):
        solve(kernels, csr_array(y[:, None]), strength=1.0, **SQUARED)
    with pytest.raises(InvalidInputError, match=r"y holds fields.*the squared loss reads numbers"):
        solve(kernels, survival_array(y > 0, np.abs(y)), strength=1.0, **SQUARED)
    with pytest.raises(InvalidInputError, match=r"one time and one event a sample.*survival_array\(event, time\)"):
        solve(kernels, np.column_stack([np.abs(y), y > 0]), strength=1.0, loss="cox", penalty="l1")


def test_times_without_events_are_asked_about() -> None:
    X, y = rows()
    kernels, times = grams(X), np.exp(y)
    options: dict[str, Any] = {"strength": 1.0, "loss": "cox", "penalty": "l1"}
    with pytest.warns(UserWarning, match=r"times without events.*Pass survival_array\(event, time\)") as told:
        found = solve(kernels, times, **options)
    assert told[0].filename == __file__
    all_seen = solve(kernels, survival_array(np.ones(len(times)), times), **options)
    np.testing.assert_allclose(found.certificate.primal, all_seen.certificate.primal, rtol=1e-12)
    solve(kernels, np.where(y > 0, times, -times), **options)  # signed times say which


def test_a_solution_on_matrices_takes_the_kernels_of_new_rows() -> None:
    X, y = rows()
    kernels = grams(X)
    found = solve(kernels[:, :90, :90], y[:90], strength=1.0, **SQUARED)
    K = kernels[:, 90:, :90]
    expected = np.tensordot(found.kernel_weights, K, 1) @ found.dual_coef + found.intercept
    np.testing.assert_allclose(found.decision_function(K), expected, rtol=1e-9, atol=1e-12)
    parts = found.decompose(K)
    assert len(parts) == len(found.active) == len(found.weights_frame())
    np.testing.assert_allclose(parts.sum(axis=0) + found.intercept, expected, rtol=1e-9, atol=1e-12)
    for wrong in (X[90:], K[:-1], kernels[:, 90:, :80], K[0]):
        with pytest.raises(InvalidInputError, match=r"of shape \(6, n, 90\), got shape"):
            found.decision_function(wrong)
    several = solve(kernels[:, :90, :90], np.column_stack([y, -y])[:90], strength=1.0, outputs="shared", **SQUARED)
    np.testing.assert_allclose(several.decision_function(K).sum(axis=1), several.intercept.sum(), atol=1e-6)
    empty = solve(kernels, y, strength=1e6, **SQUARED)
    np.testing.assert_allclose(empty.decision_function(kernels), empty.intercept)


def test_a_solution_is_shown_in_a_line() -> None:
    X, y = rows()
    shown = repr(solve(grams(X), y, strength=1.0, **SQUARED))
    assert shown.startswith("<Solution: ")
    assert "of 6 kernels on 120 samples, converged, relative gap" in shown
    assert len(shown) < 120


def test_a_bank_has_the_same_kernels_for_solve_and_for_estimators() -> None:
    """A single row of the table chose them where they are held as factors, and fits stalled at gaps of a half."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 4))
    y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.5 * X[:, 2] * X[:, 3] + rng.normal(size=3000)
    model = MKLRegressor(KernelBank.auto(), alpha=0.01).fit(X, y)
    found = solve(KernelBank.auto(), y, X=X, loss="squared", penalty="l1", alpha=0.01)
    assert found.status is Status.CONVERGED
    assert len(found.kernel_weights) == len(model.kernel_names_)
    np.testing.assert_allclose(found.decision_function(X[:50]), model.predict(X[:50]), atol=2e-2)


def test_matrices_that_are_no_array_are_rejected_with_a_remedy() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 2))
    grams = [X @ X.T, np.exp(-(((X[:, None] - X) ** 2).sum(axis=2)))]
    lists = [csr_array(K) for K in grams]
    with pytest.raises(InvalidInputError, match=r"kernels has sparse matrices.*Pass \[K.toarray\(\)"):
        solve(lists, X[:, 0], loss="squared", penalty="l1", strength=0.1)
    found = solve(np.array(grams), X[:, 0], loss="squared", penalty="l1", strength=0.1)
    with pytest.raises(InvalidInputError, match="X has rows of different lengths: row 0 has 5"):
        found.decision_function([grams[0][:5], grams[1][:4]])
    with pytest.raises(InvalidInputError, match="X could not be read as one array"):
        found.decision_function([grams[0][:5], grams[1][:5, :3]])
    with pytest.raises(InvalidInputError, match="X has sparse matrices"):
        found.decision_function([K[:5] for K in lists])


def test_shapes_of_a_named_penalty_are_given_beside_it() -> None:
    X, y = rows()
    kernels = grams(X)
    named = solve(kernels, y, loss="squared", penalty="elasticnet", l1_ratio=0.9, strength=0.3, tol=1e-8)
    own = get_regularizer("elasticnet", 0.3, l1_ratio=0.9)
    assert named.certificate.primal == solve(kernels, y, loss="squared", penalty=own, tol=1e-8).certificate.primal
    with pytest.raises(InvalidInputError, match=r"such as '0\.1\*max', got '0\.1\*noise'"):
        solve(kernels, y, loss="squared", penalty="l1", alpha="0.1*noise")
    with pytest.raises(InvalidInputError, match="has no parameter 'eta'"):
        solve(kernels, y, loss="squared", penalty="l1", eta=0.5, alpha=0.1)


def test_a_time_limit_is_for_all_targets_and_warnings_name_them() -> None:
    X, y = rows()
    Y = np.column_stack([y, y**2, np.cos(y)])
    with pytest.warns(ConvergenceWarning) as caught:
        found = solve(grams(X), Y, alpha=1e-4, outputs="own", time_limit=1e-9, tol=1e-12, **SQUARED)
    assert [str(one.message)[:9] for one in caught] == ["Target 0:", "Target 1:", "Target 2:"]
    assert len(found) == 3
