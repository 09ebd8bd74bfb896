"""Shared kernel weights on small random problems against CVXPY and Clarabel, and their certificate in plain NumPy."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from tests.support.conic import proved_value
from tests.support.shared import CASES, SharedCase, shared_case, shared_optimum, shared_values, stored_optima

from manykernels import KernelBank, MKLClassifier, solve
from manykernels.objective import Problem, get_regularizer
from manykernels.solvers import SharedNewton, Solution


def solved(case: SharedCase, tol: float = 1e-8) -> tuple[Problem, Solution]:
    """Solve a small problem."""
    problem = Problem(
        case.kernels,
        case.y,
        case.loss,
        get_regularizer(case.penalty, case.strength, **case.parameters),
        fit_intercept=case.fit_intercept,
        sample_weight=case.sample_weight,
        kernel_penalties=case.kernel_penalties,
    )
    return problem, SharedNewton(tol=tol).solve(problem)


@pytest.mark.sampled(10)
@pytest.mark.parametrize(("loss", "index"), CASES)
def test_objective_and_certificate(loss: str, index: int) -> None:
    case = shared_case(index, loss)
    _, solution = solved(case)
    assert solution.certificate.relative_gap <= 1e-8
    assert solution.certificate.primal == pytest.approx(stored_optima()[loss, index], rel=1e-6)
    primal, dual = shared_values(case, solution.dual_coef, solution.kernel_weights, solution.intercept)
    assert solution.certificate.primal == pytest.approx(primal, rel=1e-11)
    assert solution.certificate.dual == pytest.approx(dual, rel=1e-7)
    assert primal >= dual - 1e-7 * abs(primal)


@pytest.mark.parametrize("loss", ["logistic", "squared", "huber", "squared_hinge"])
def test_a_corrupted_answer_is_found_out(loss: str) -> None:
    case = shared_case(10, loss)  # block 1-norm, with intercepts
    problem, solution = solved(case)
    wrong = 1.01 * solution.kernel_weights
    certificate = problem.certificate(solution.dual_coef, wrong, solution.intercept)
    assert certificate.relative_gap > 1e-6
    primal, dual = shared_values(case, solution.dual_coef, wrong, solution.intercept)
    assert certificate.primal == pytest.approx(primal, rel=1e-11)
    assert certificate.dual == pytest.approx(dual, rel=1e-7)


@pytest.mark.parametrize("loss", ["logistic", "squared", "huber", "squared_hinge"])
def test_no_dual_value_is_above_the_optimum(loss: str) -> None:
    case = shared_case(10, loss)
    problem, solution = solved(case)
    rng = np.random.default_rng(0)
    for size in (0.1, 1.0, 10.0):
        rho = solution.dual_coef + size * rng.normal(size=case.y.shape)
        assert problem.dual(rho) <= solution.certificate.primal
        feasible = problem.feasible_dual(rho)
        assert np.isfinite(problem.conjugate_loss(feasible))
        np.testing.assert_allclose(feasible.sum(axis=0), 0.0, atol=1e-12 * np.abs(feasible).sum())


@pytest.mark.parametrize("loss", ["logistic", "squared", "squared_hinge"])
def test_the_stored_optimum_is_what_the_conic_solver_finds(loss: str) -> None:
    assert stored_optima()[loss, 4] == pytest.approx(shared_optimum(shared_case(4, loss)), rel=1e-8)


@pytest.mark.parametrize("n_classes", [3, 5])
def test_the_optimum_of_a_shared_hinge_is_between_the_bounds_of_an_untouched_fit(n_classes: int) -> None:
    """On factors, where the kinks are smoothed inside the certificate, at the strength that is left open."""
    rng = np.random.default_rng(n_classes)
    X = rng.normal(size=(60, 3))
    scores = np.sin(2 * X) @ rng.normal(size=(3, n_classes)) + X @ rng.normal(size=(3, n_classes))
    labels = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    bank = KernelBank.per_feature(widths=[0.5, 2.0], standardize=True)
    settings = {"loss": "hinge", "outputs": "shared", "resources": {"representation": "factored"}}
    model = MKLClassifier(bank, tol=1e-4, **settings).fit(X, labels)  # type: ignore[arg-type]
    certificate = model.solution_.certificate

    fitted, prepared = bank.fit_prepare(X)
    strength = float(np.max(model.alpha_)) * len(X)
    Y = np.where(labels[:, None] == np.unique(labels), 1.0, -1.0)
    f, penalty = np.ones((len(X), 1)) @ cp.Variable((1, Y.shape[1])), 0.0
    for gram in fitted.block(prepared, prepared):
        values, vectors = np.linalg.eigh(gram)
        kept = values > 1e-12 * values[-1]
        own = cp.Variable((int(kept.sum()), Y.shape[1]))
        f, penalty = f + (vectors[:, kept] * np.sqrt(values[kept])) @ own, penalty + cp.norm(own, "fro")
    exact = cp.Problem(cp.Minimize(cp.sum(cp.pos(1.0 - cp.multiply(Y, f))) + strength * penalty))
    assert certificate.relative_gap <= 1e-4
    assert certificate.dual * (1 - 1e-7) <= proved_value(exact) <= certificate.primal * (1 + 1e-7)


@pytest.mark.parametrize("penalty", ["l1", "elasticnet"])
@pytest.mark.parametrize("loss", ["hinge", "epsilon_insensitive", "quantile"])
def test_losses_with_kinks_on_factors_reach_the_conic_optimum(loss: str, penalty: str) -> None:
    rng = np.random.default_rng(7)
    X = rng.normal(size=(50, 3))
    Y = np.sin(2 * X) @ rng.normal(size=(3, 4)) + 0.3 * rng.normal(size=(50, 4))
    if loss == "hinge":
        Y = np.where(Y.argmax(axis=1)[:, None] == np.arange(4), 1.0, -1.0)
    bank = KernelBank.per_feature(widths=[0.5, 2.0], standardize=True)
    weight, penalties = rng.uniform(0.5, 2.0, 50), rng.uniform(0.8, 1.25, 6)
    given = {"loss": loss, "sample_weight": weight, "kernel_penalties": penalties, "representation": "factored"}
    given["outputs"] = "shared"
    found = solve(bank, Y, X=X, penalty=penalty, strength=3.0, tol=1e-7, **given)  # type: ignore[arg-type]

    fitted, prepared = bank.fit_prepare(X)
    f, t = np.ones((50, 1)) @ cp.Variable((1, 4)), []
    for gram, own_penalty in zip(fitted.block(prepared, prepared), penalties, strict=True):
        values, vectors = np.linalg.eigh(gram)
        kept = values > 1e-12 * values[-1]
        own = cp.Variable((int(kept.sum()), 4))
        f, t = f + (vectors[:, kept] * np.sqrt(values[kept])) @ own, [*t, own_penalty * cp.norm(own, "fro")]
    losses = {
        "hinge": lambda: cp.pos(1.0 - cp.multiply(Y, f)),
        "epsilon_insensitive": lambda: cp.pos(cp.abs(Y - f) - 0.1),
        "quantile": lambda: cp.abs(Y - f) / 2,
    }
    total, norms = cp.sum(cp.multiply(weight[:, None] * np.ones(Y.shape), losses[loss]())), cp.hstack(t)
    mixed = cp.sum(norms) if penalty == "l1" else (cp.sum(norms) + cp.sum_squares(norms) / 2) / 2
    exact = cp.Problem(cp.Minimize(total + 3.0 * mixed))
    assert found.certificate.relative_gap <= 1e-7
    assert found.certificate.primal == pytest.approx(proved_value(exact), rel=1e-6)
