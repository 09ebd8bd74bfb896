"""The models of LIBSVM as first models of the interior-point method."""

from __future__ import annotations

import numpy as np
import pytest

from manykernels.objective import Problem, get_loss, get_regularizer
from manykernels.solvers.gram.interior_point import InteriorPoint
from manykernels.solvers.gram.support_vectors import suits_libsvm, support_vector_model
from manykernels.validation.arrays import Array


def kernels(rng: np.random.Generator, n: int = 60) -> tuple[Array, Array]:
    X = rng.normal(size=(n, 3))
    squares = ((X[:, None] - X[None]) ** 2).sum(axis=-1)
    y = np.where(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=n) > 0.5, 1.0, -1.0)
    return np.array([np.exp(-squares / (2 * width**2)) for width in (0.5, 1.0, 3.0)]), y


@pytest.mark.parametrize("strength", [1e-4, 1e-2, 1.0, 10.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_models_are_those_of_the_interior_point_method(strength: float, weighted: bool) -> None:
    rng = np.random.default_rng(0)
    K, y = kernels(rng)
    given = (
        {"sample_weight": rng.uniform(0.2, 3.0, len(y)), "kernel_penalties": np.array([0.5, 1.0, 3.0])}
        if weighted
        else {}
    )
    problem = Problem(K, y, get_loss("hinge"), get_regularizer("ridge", strength), **given)
    near, exact = (InteriorPoint(tol=tol).solve(problem) for tol in (1e-2, 1e-10))
    assert near.newton_steps == 0 < exact.newton_steps
    assert near.certificate.relative_gap <= 1e-2
    assert near.certificate.primal == pytest.approx(exact.certificate.primal, rel=2e-3)
    np.testing.assert_allclose(near.kernel_weights, exact.kernel_weights, rtol=1e-12)
    assert near.intercept == pytest.approx(exact.intercept, abs=0.02)


def test_losses_of_separable_classes_vanish() -> None:
    K, y = kernels(np.random.default_rng(1))
    problem = Problem(K, y, get_loss("hinge"), get_regularizer("ridge", 1e-9))
    model = support_vector_model(problem, 1e-2)
    assert model is not None
    rho, weights, b = model
    margins = y * (problem.model_parts(rho, weights)[0] + b)
    assert margins.min() == pytest.approx(1.0, abs=1e-9)


def test_other_problems_are_left_to_the_iteration() -> None:
    K, y = kernels(np.random.default_rng(2))
    hinge, ridge = get_loss("hinge"), get_regularizer("ridge", 0.1)
    assert suits_libsvm(Problem(K, y, hinge, ridge), 1e-2)
    assert not suits_libsvm(Problem(K, y, hinge, ridge), 1e-6)
    assert not suits_libsvm(Problem(K, y, hinge, ridge, fit_intercept=False), 1e-2)
    assert not suits_libsvm(Problem(K, y, hinge, get_regularizer("l1", 0.1)), 1e-2)
    assert not suits_libsvm(Problem(K, y, get_loss("squared_hinge"), ridge), 1e-2)
