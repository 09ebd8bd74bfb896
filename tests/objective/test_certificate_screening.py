"""Kernels that a gap proves to be zero are zero in the optimum, and a small gap proves nearly all of them."""

from __future__ import annotations

import numpy as np
import pytest

from manykernels import MKLClassifier, solve
from manykernels.objective import Problem, get_loss, get_regularizer, proved_inactive


def _problem(seed: int, loss: str, l1_ratio: float, intercept: bool) -> Problem:
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(8, 20, 3))
    y = rng.normal(size=20) if loss in ("squared", "huber") else np.where(rng.normal(size=20) > 0, 1.0, -1.0)
    regularizer = get_regularizer("elasticnet", 1.0, l1_ratio=l1_ratio)
    problem = Problem(
        factors @ factors.transpose(0, 2, 1),
        y,
        get_loss(loss),
        regularizer,
        fit_intercept=intercept,
        sample_weight=rng.uniform(0.2, 3.0, size=20),
        kernel_penalties=rng.uniform(0.5, 2.0, size=8),
    )
    strength = 0.5 * problem.strength_max()
    return Problem(
        problem.stack,
        y,
        problem.loss,
        get_regularizer("elasticnet", strength, l1_ratio=l1_ratio),
        fit_intercept=intercept,
        sample_weight=problem.weight,
        kernel_penalties=problem.penalties,
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize("loss", ["squared", "huber", "logistic", "squared_hinge"])
def test_what_is_proved_is_true_at_every_gap(loss: str) -> None:
    proved_at = {1e-2: 0, 1e-6: 0, 1e-10: 0}
    zeros = 0
    for seed in range(6):
        problem = _problem(seed, loss, 1.0 if seed % 2 else 0.7, intercept=seed % 3 > 0)
        asked = {"penalty": problem.regularizer, "fit_intercept": problem.fit_intercept, "loss": loss}
        known = {"sample_weight": problem.weight, "kernel_penalties": problem.penalties}
        best = solve(problem.stack, problem.y, **asked, **known, tol=1e-12, solver="working_set")
        truth = problem.dual_norms(best.dual_coef) < problem.regularizer.inactive_below * (1 - 1e-5)
        zeros += int(truth.sum())
        for tol in proved_at:
            found = solve(problem.stack, problem.y, **asked, **known, tol=tol)
            proved = proved_inactive(problem, found.certificate)
            assert not (proved & ~truth).any()
            proved_at[tol] += int(proved.sum())
    assert zeros > 20
    assert proved_at[1e-2] <= proved_at[1e-6] <= proved_at[1e-10]
    assert proved_at[1e-10] > 0.9 * zeros


def test_nothing_is_proved_without_curvature_or_threshold() -> None:
    stack, y = np.eye(4)[None], np.array([1.0, -1.0, 1.0, -1.0])
    for loss, penalty in (("hinge", "l1"), ("logistic", "ridge")):
        problem = Problem(stack, y, get_loss(loss), get_regularizer(penalty, 10.0))
        rho, b = problem.zero_model()
        assert not proved_inactive(problem, problem.certificate(rho, np.zeros(1), b)).any()


def test_estimators_tell_what_is_proved() -> None:
    X = np.random.default_rng(0).uniform(-2, 2, (60, 3))
    model = MKLClassifier(alpha=0.1, tol=1e-9).fit(X, X[:, 1] > 0)
    assert model.proved_inactive_.shape == model.kernel_weights_.shape
    assert model.proved_inactive_.any()
    assert not (model.proved_inactive_ & (model.kernel_weights_ > 0)).any()
    several = MKLClassifier(alpha=0.05).fit(X, np.digitize(X[:, 1], [-1, 1]))
    assert several.proved_inactive_.shape == several.kernel_weights_.shape
