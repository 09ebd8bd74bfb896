"""Cox's partial likelihood on factors: the optimum of the Gram solver, its certificate recomputed from plain sums."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from tests.support.cox import CoxCase

from manykernels import Gaussian, KernelBank, Laplacian, Linear, Periodic, solve
from manykernels.grams.factored import factored_stack
from manykernels.grams.factored.operators import DenseOperator
from manykernels.objective import CoxPartial, get_regularizer, survival_target
from manykernels.objective.losses.coupled import BAND, RiskCurvature
from manykernels.objective.losses.curvature import add_curved
from manykernels.objective.problem import Problem
from manykernels.solvers import choose_solver
from manykernels.solvers.factored.solver import FactoredNewton

PENALTIES = {
    "l1": {},
    "elasticnet": {"l1_ratio": 0.5},
    "ridge": {},
    "lq": {"q": 1.5},
    "simplex": {},
}
BANK = KernelBank.per_feature(Linear(), widths=[0.5, 1.0, 2.0], standardize=True)


def drawn(seed: int, n: int = 200) -> tuple[CoxCase, Problem]:
    """Return a problem on factors, and the same as plain matrices."""
    rng = np.random.default_rng([seed, 1972])
    X = rng.uniform(-2, 2, (n, 3))
    seen, censored = rng.exponential(np.exp(-np.sin(2 * X[:, 0]) - 0.5 * X[:, 1])), rng.exponential(2.0, n)
    time, event = np.minimum(seen, censored), seen <= censored
    if seed % 3:
        time = np.ceil((20, 3)[seed % 2] * time)
    strata = rng.integers(0, 2, n) if seed % 2 else np.zeros(n, dtype=np.intp)
    weights = rng.uniform(0.5, 2.0, n) if seed % 4 > 1 else np.ones(n)
    name = list(PENALTIES)[seed % len(PENALTIES)]
    fitted, prepared = BANK.fit_prepare(X)
    kernels, penalties = fitted.block(prepared, prepared), rng.uniform(0.8, 1.2, len(fitted.names))
    efron, params = bool(seed % 2), PENALTIES[name]
    case = CoxCase(kernels, time, event, strata, weights, penalties, efron, name, params, 1.0)
    u = case.problem().dual_norms(case.problem().zero_model()[0])
    largest = u.max() if name in ("l1", "elasticnet") else float(u @ u) / case.problem().loss_at_zero
    case = replace(case, strength=float(largest) * (0.03, 0.1, 0.3)[seed % 3])
    problem = Problem(
        factored_stack(X, BANK),
        survival_target(event, time, strata),
        CoxPartial("efron" if efron else "breslow"),
        get_regularizer(name, case.strength, **params),
        sample_weight=weights,
        kernel_penalties=penalties,
    )
    return case, problem


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(12))
def test_factors_and_matrices_have_one_optimum(seed: int) -> None:
    case, problem = drawn(seed)
    found = FactoredNewton(tol=1e-8).solve(problem)
    told = found.certificate
    assert told.relative_gap <= 1e-8
    # The bounds of the certificate, recomputed for the exact kernels from plain sums.
    state_scores = sum(part.values(problem.stack, problem.stack.table) for part in found.functions.components)
    assert told.dual <= case.dual(state_scores) + 1e-10 * abs(told.primal)
    assert told.dual == pytest.approx(case.dual(state_scores), rel=1e-7)
    assert told.primal >= case.loss(state_scores)
    gram = case.problem()
    other = choose_solver(gram)[0](tol=1e-9).solve(gram).certificate
    assert told.primal == pytest.approx(other.primal, rel=1e-8)
    assert told.dual <= other.primal * (1 + 1e-12)
    assert other.dual <= told.primal * (1 + 1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_curvature_is_the_hessian_and_rows_estimate_it_without_losing_sign(seed: int) -> None:
    case, problem = drawn(seed, 40)
    rng = np.random.default_rng(seed)
    z, Z = rng.normal(size=40), rng.normal(size=(40, 5))
    shares, sizes = case.softmax(z), np.array([term.size for term in case.terms()])
    hessian = np.diag(sizes @ shares) - shares.T @ (sizes[:, None] * shares)
    curvature: RiskCurvature = problem.bound.curvature(z)
    np.testing.assert_allclose(curvature.diagonal, sizes @ shares, atol=1e-12)
    np.testing.assert_allclose([curvature.product(x) for x in np.eye(40)], hessian, atol=1e-12)
    out = np.zeros((1, 40))
    add_curved(*curvature.terms, z[None], out)
    np.testing.assert_allclose(out[0], hessian @ z, atol=1e-12)
    np.testing.assert_allclose(curvature.gram_of(Z[curvature.rows]), Z.T @ hessian @ Z, atol=1e-10)
    some = curvature.sample_rows(np.arange(0, 40, 2), np.full(20, 2.0))
    estimate = np.array([some.product(x) for x in np.eye(40)])
    np.testing.assert_allclose(some.gram_of(Z[some.rows]), Z.T @ estimate @ Z, atol=1e-10)
    assert np.linalg.eigvalsh(estimate)[0] >= -1e-12 * np.abs(estimate).max()
    assert np.linalg.eigvalsh(np.diag(curvature.diagonal) - hessian)[0] >= -1e-12


def test_a_hessian_holds_the_factors_of_all_rows_once() -> None:
    rng = np.random.default_rng(0)
    n, ranks = 8 * BAND + 300, [20] * 6
    target = survival_target(rng.random(n) < 0.6, np.round(rng.exponential(size=n), 2))
    curvature = CoxPartial().bind(target, np.ones(n)).curvature(rng.normal(size=n))
    factors = [rng.normal(size=(n, rank)) for rank in ranks]
    operators = [DenseOperator(np.array([m]), [own]) for m, own in enumerate(factors)]
    Z = np.hstack(factors)
    tracemalloc.start()
    found = curvature.gram(operators, n, n_constants=0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    expected = Z.T @ np.column_stack([curvature.product(column) for column in Z.T])
    np.testing.assert_allclose(found, expected, atol=1e-10 * np.abs(expected).max())
    assert peak < 1.7 * Z.nbytes  # with a band of rows, and what is summed


def test_ties_of_hundreds_cost_no_pairs_and_bound_the_conjugate_from_above() -> None:
    rng = np.random.default_rng(0)
    n = 300
    time, event = np.ceil(3 * rng.uniform(size=n)), rng.uniform(size=n) < 0.8
    weights, zeros = rng.uniform(0.5, 2.0, n), np.zeros(n, dtype=np.intp)
    case = CoxCase(np.eye(n)[None], time, event, zeros, weights, np.ones(1), True, "l1", {}, 1.0)
    joint, z = case.problem().bound, rng.normal(size=n)
    terms, shares = case.terms(), case.softmax(z)
    for scale, slack in ((1.0, 1e-12), (0.999, 1e-5), (0.9, 1e-3), (0.1, 1e-3)):
        exact = 0.0
        for term, share in zip(terms, shares, strict=True):
            q = scale * share + (1 - scale) * term.tie
            exact += term.size * float(q[q > 0] @ np.log(q[q > 0] / term.at_risk[q > 0]))
        found = joint.conjugate_along(z, scale)
        assert found >= exact - 1e-12 * abs(exact)
        assert found <= exact + slack * abs(exact)


@pytest.mark.parametrize("ties", [1, 4, 50])
@pytest.mark.parametrize("lowest", [-1e2, -1e5, -1e8])
def test_conjugate_of_scores_far_below_the_others_keeps_its_digits(ties: int, lowest: float) -> None:
    """Samples that hardly matter have scores of no end: their squares, times rounding, were in the dual bound."""
    rng = np.random.default_rng(0)
    event, time = rng.random(200) < 0.6, np.ceil(rng.exponential(size=200) * 200 / ties)
    joint = CoxPartial().bind(survival_target(event, time), rng.uniform(0.5, 2.0, 200))
    z = rng.normal(size=200) * 3
    z[~event & (rng.random(200) < 0.3)] = lowest
    slopes = joint.gradient(z)
    exact = float(slopes @ z) - joint.value(z)  # Fenchel's equality at a gradient
    assert joint.conjugate_along(z, 1.0) == pytest.approx(exact, abs=1e-11 * (1 + float(np.abs(slopes) @ np.abs(z))))


def test_blocks_of_columns_find_the_same_optimum_as_one_hessian(monkeypatch: pytest.MonkeyPatch) -> None:
    """Above a rank of 1500 columns take turns: here, above 20."""
    _, problem = drawn(0)
    whole = FactoredNewton(tol=1e-7).solve(problem).certificate
    monkeypatch.setattr("manykernels.solvers.factored.newton.RANK_LIMIT", 20)
    blocks = FactoredNewton(tol=1e-7).solve(problem).certificate
    assert blocks.relative_gap <= 1e-7
    assert blocks.primal == pytest.approx(whole.primal, rel=2e-7)


def test_hessians_of_some_rows_lead_to_the_same_optimum(monkeypatch: pytest.MonkeyPatch) -> None:
    _, problem = drawn(1)
    whole = FactoredNewton(tol=1e-7).solve(problem).certificate
    monkeypatch.setattr("manykernels.solvers.factored.newton.SAMPLE_ROWS", 60)
    monkeypatch.setattr("manykernels.solvers.factored.newton.SAMPLE_PER_RANK", 1)
    sampled = FactoredNewton(tol=1e-7).solve(problem).certificate
    assert sampled.relative_gap <= 1e-7
    assert sampled.primal == pytest.approx(whole.primal, rel=2e-7)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", [4, 5, 13, 26])
def test_bounds_on_norms_are_settled_as_finely_as_the_gap_asks(seed: int) -> None:
    """A product on one column is known by Fourier series to 1e-4 only: that held Cox's gap at 2e-6 to 2e-5."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((60, 3))
    time = np.round(rng.exponential(size=60) * np.exp(-np.sin(2 * X[:, 0])) * 100) + 1
    kernels = [
        ("a", Gaussian(0.21) * Laplacian(2.2), [0]),
        ("b", Laplacian(3.4) * Laplacian(0.12), [0, 1, 2]),
        ("c", Laplacian(0.13) * Periodic(4.0, 0.26), [1, 2]),
        ("d", Gaussian(0.2) * Laplacian(1.0), [1]),
    ]
    bank, target = KernelBank(kernels, standardize=True), survival_target(rng.random(60) < 0.7, time)
    options = {"X": X, "loss": "cox", "penalty": "l1", "alpha": "0.3*max", "tol": 1e-7}
    factored = solve(bank, target, representation="factored", **options).certificate
    gram = solve(bank, target, representation="gram", **options).certificate
    assert max(factored.relative_gap, gram.relative_gap) <= 1e-7
    assert factored.primal == pytest.approx(gram.primal, rel=2e-7)
