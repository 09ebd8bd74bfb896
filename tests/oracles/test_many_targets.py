"""Batches of targets, and several labels, against CVXPY and Clarabel, and their certificates in plain NumPy."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from sklearn.model_selection import KFold
from tests.support.conic import conic_optimum, proved_value
from tests.support.targets import LINEAR, posed

from manykernels import Gaussian, KernelBank, Linear, MKLClassifier, MKLRegressorCV
from manykernels.solvers.gram.many_targets import solve_targets
from manykernels.testing.problems import SmallProblem
from manykernels.testing.solver import certificate_in_numpy

RNG = np.random.default_rng(11)
N, T, ALPHA = 36, 3, 0.02
X = RNG.normal(size=(N, 3))
LABELS = (X @ RNG.normal(size=(3, T)) + RNG.logistic(size=(N, T)) > 0).astype(float)
BANK = KernelBank([(f"x{j}", Gaussian(1.0), [j]) for j in range(3)], normalize=None)


@pytest.mark.parametrize(("penalty", "parameters"), [("l1", {}), ("elasticnet", {"l1_ratio": 0.6}), ("ridge", {})])
def test_a_batch_of_targets_has_the_objectives_of_a_conic_solver(penalty: str, parameters: dict[str, float]) -> None:
    problems = posed(LINEAR, penalty, **parameters)
    found, _ = solve_targets(problems, tol=1e-7)
    for problem, solution in zip(problems[::4], found[::4], strict=True):
        assert solution is not None
        own = {name: getattr(problem.regularizer, name) for name in parameters}  # of a fraction, not those given
        small = SmallProblem(
            problem.stack.array, problem.y, "squared", penalty, problem.regularizer.strength,
            regularizer_params=own, sample_weight=problem.weight, kernel_penalties=problem.penalties,
        )  # fmt: skip
        assert solution.certificate.primal == pytest.approx(conic_optimum(small).primal, rel=1e-6)


def kernels_of_labels() -> np.ndarray:
    """Return the kernels among the rows, (3, N, N)."""
    bank, rows = BANK.fit_prepare(X)
    return np.asarray(bank.block(rows, rows))


def test_own_labels_have_the_objectives_of_a_conic_solver() -> None:
    model = MKLClassifier(BANK, alpha=ALPHA, tol=1e-8).fit(X, LABELS)
    for label, solution in zip(LABELS.T, model.solution_, strict=True):
        small = SmallProblem(kernels_of_labels(), 2.0 * label - 1.0, "logistic", "l1", ALPHA * N)
        assert solution.certificate.primal == pytest.approx(conic_optimum(small).primal, rel=1e-6)


def test_shared_labels_have_the_objective_of_a_conic_solver() -> None:
    model = MKLClassifier(BANK, alpha=ALPHA, outputs="shared", tol=1e-8).fit(X, LABELS)
    scores: Any = cp.reshape(np.ones((N, 1)) @ (b := cp.Variable((1, T))), (N, T), order="F")
    norms = []
    for kernel in kernels_of_labels():
        values, vectors = np.linalg.eigh(kernel)
        factor = vectors * np.sqrt(np.maximum(values, 0.0))
        coefficients = cp.Variable((N, T))
        scores = scores + factor @ coefficients
        norms.append(cp.norm(coefficients, "fro"))
    losses = cp.sum(cp.logistic(cp.multiply(1.0 - 2.0 * LABELS, scores)))
    optimum = proved_value(cp.Problem(cp.Minimize(losses + ALPHA * N * sum(norms))))
    assert b.value is not None
    (solution,) = np.atleast_1d(np.array(model.solution_, dtype=object))
    assert solution.certificate.primal == pytest.approx(optimum, rel=1e-6)


@pytest.mark.filterwarnings("ignore:No kernel was selected", "ignore:For .* outputs")
def test_certificates_of_200_targets_are_those_of_dense_matrices() -> None:
    rows = RNG.normal(size=(80, 12))
    coefficients = RNG.normal(size=(12, 200)) * np.repeat(RNG.random((3, 200)) < 0.5, 4, axis=0)
    targets = rows @ coefficients + RNG.uniform(0.5, 4.0, 200) * RNG.normal(size=(80, 200))
    views = {name: list(range(4 * k, 4 * k + 4)) for k, name in enumerate("abc")}
    bank = KernelBank.from_views(views, Linear(), normalize="mean_diagonal")
    model = MKLRegressorCV(bank, cv=KFold(4)).fit(rows, targets)
    fitted, held = bank.fit_prepare(rows)
    kernels = np.asarray(fitted.block(held, held))
    assert (model.kernel_weights_ == 0).mean() > 0.25
    for t, solution in enumerate(model.solution_):
        alpha, ratio, taken = model.alpha_[t], float(model.l1_ratio_[t]), np.arange(3)
        if ratio == 0.0:  # the average of some kernels is the optimum on these
            taken = solution.active
        small = SmallProblem(
            kernels[taken], targets[:, t], "squared", "elasticnet", 80 * alpha, regularizer_params={"l1_ratio": ratio}
        )
        found = certificate_in_numpy(small, solution.dual_coef, solution.kernel_weights[taken], solution.intercept)
        assert found.relative_gap <= model.tol
        assert found.relative_gap == pytest.approx(solution.certificate.relative_gap, abs=1e-8)
