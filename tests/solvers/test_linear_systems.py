"""Conjugate gradients and Anderson extrapolation on dense systems, with a preconditioner, and without curvature."""

from __future__ import annotations

import numpy as np
import pytest

from manykernels.solvers.linear_systems import ConjugateGradients, shortest_combination


def system(n: int = 30) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(n, n))
    return Z @ Z.T + np.diag(np.geomspace(1.0, 1e4, n)), rng.normal(size=n)


@pytest.mark.parametrize("preconditioned", [False, True])
def test_the_solution_is_that_of_a_factorization(preconditioned: bool) -> None:
    A, b = system()
    found = ConjugateGradients(A.__matmul__, b, (lambda r: r / A.diagonal()) if preconditioned else None)
    x = found.solve(200, 1e-12)
    np.testing.assert_allclose(x, np.linalg.solve(A, b), rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(found.residual, b - A @ x, atol=1e-8)


def test_the_inverse_as_preconditioner_takes_one_step() -> None:
    A, b = system()
    found = ConjugateGradients(A.__matmul__, b, np.linalg.inv(A).__matmul__)
    assert not found.is_within(0.5)
    assert found.step() == pytest.approx(1.0)
    assert found.is_within(1e-6)


def test_steps_end_where_nothing_bends_or_nothing_is_left() -> None:
    flat = ConjugateGradients(lambda d: 0.0 * d, np.ones(3))
    assert flat.step() == 0.0
    assert not flat.solve(5, 1e-3).any()
    assert not ConjugateGradients(lambda d: d, np.zeros(3)).solve(5, 1e-3).any()


def test_the_shortest_combination_of_moves_has_sum_one_and_is_orthogonal_to_their_differences() -> None:
    moves = np.random.default_rng(1).normal(size=(4, 9))
    parts = shortest_combination(moves)
    assert parts.sum() == pytest.approx(1.0)
    np.testing.assert_allclose((moves[1:] - moves[0]) @ (parts @ moves), 0.0, atol=1e-8)


def test_a_linear_iteration_ends_at_its_fixed_point() -> None:
    rng = np.random.default_rng(2)
    A, b = 0.3 * rng.normal(size=(3, 3)), rng.normal(size=3)
    points = [np.zeros(3)]
    for _ in range(4):
        points.append(A @ points[-1] + b)
    found = shortest_combination(np.diff(points, axis=0)) @ np.array(points[1:])
    np.testing.assert_allclose(found, np.linalg.solve(np.eye(3) - A, b), rtol=1e-4)
