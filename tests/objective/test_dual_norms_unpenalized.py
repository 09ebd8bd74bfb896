"""Kernels without a penalty: what they span, what stands for no penalty, certificates, and what cannot be one."""

from __future__ import annotations

import numpy as np
import pytest

from manykernels.exceptions import IncompatibleError, InvalidInputError
from manykernels.grams import DenseStack
from manykernels.objective import Problem, get_regularizer
from manykernels.objective.dual_norms import free_directions, kernel_factor, resting_ridge
from manykernels.objective.projection import project_box_orthogonal
from manykernels.solvers import get_solver

FREE = {0: None, "*": "l1"}


@pytest.fixture
def Z() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(20, 3))


def kernels_of(Z: np.ndarray, *more: np.ndarray) -> np.ndarray:
    return np.stack([Z @ Z.T, *more])


@pytest.mark.parametrize("ones", [True, False])
def test_directions_of_columns_that_repeat(Z, ones) -> None:
    twice = np.column_stack([Z, Z[:, 0] - Z[:, 1], np.ones(20)])
    basis = free_directions(
        DenseStack(kernels_of(twice, np.eye(20), Z[:, :1] @ Z[:, :1].T)), np.array([0, 2]), n_constants=int(ones)
    )
    assert basis.shape == (20, 4)
    np.testing.assert_allclose(basis.T @ basis, np.eye(4), atol=1e-14)
    np.testing.assert_allclose(basis @ (basis.T @ twice), twice, atol=1e-12)


def test_columns_of_a_kernel(Z) -> None:
    factor = kernel_factor(DenseStack(kernels_of(Z)), 0)
    assert factor.shape == (20, 3)
    np.testing.assert_allclose(factor @ factor.T, Z @ Z.T, atol=1e-12)


def test_what_cannot_go_without_a_penalty(Z) -> None:
    away = (Z[:, None, 0] - Z[:, 0]) ** 2
    y = Z[:, 0]
    with pytest.raises(InvalidInputError, match="'curve' cannot be unpenalized"):
        free_directions(DenseStack(np.exp(-away)[None], names=("curve",)), np.array([0]), n_constants=1)
    with pytest.raises(InvalidInputError, match="fit 3 rows exactly"):
        Problem(kernels_of(Z[:3]), y[:3], "squared", get_regularizer(FREE | {"*": None}, 1.0)).dual(y[:3])
    single = DenseStack(kernels_of(Z).astype(np.float32))
    with pytest.raises(IncompatibleError, match="double precision"):
        free_directions(single, np.array([0]), n_constants=1)


def test_solvers_that_cannot_say_so(Z) -> None:
    problem = Problem(kernels_of(Z, np.eye(20)), Z[:, 0], "squared", get_regularizer(FREE, 1.0))
    with pytest.raises(IncompatibleError, match="beside kernels without a penalty"):
        get_solver("block_coordinate")().solve(problem)


def test_what_stands_for_no_penalty_has_the_units_of_the_data(Z) -> None:
    y = np.random.default_rng(1).normal(size=20)
    plain, scaled = (
        Problem(kernels_of(Z, np.eye(20)) * [[[factor**2]], [[1.0]]], y * unit, "squared", get_regularizer(FREE, 1.0))
        for factor, unit in ((1.0, 1.0), (100.0, 1e6))
    )
    zero = np.array([0])
    np.testing.assert_allclose(resting_ridge(scaled, zero), 1e4 * resting_ridge(plain, zero))
    assert plain.with_penalty(get_regularizer(FREE, 5.0)).regularizer.curve.ridge[0] == plain.regularizer.curve.ridge[0]
    assert plain.take(np.array([1, 0])).unpenalized.tolist() == [1]


@pytest.mark.parametrize("loss", ["squared", "logistic", "hinge", "huber"])
def test_certificates_are_those_of_no_penalty(Z, loss) -> None:
    """Any model has a value above any dual value, and functions of the free kernel cost nothing."""
    rng = np.random.default_rng(2)
    y = np.sign(rng.normal(size=20)) if loss in ("logistic", "hinge") else rng.normal(size=20)
    problem = Problem(kernels_of(Z, np.eye(20)), y, loss, get_regularizer(FREE, 0.5))
    for _ in range(5):
        rho, d = rng.normal(size=20), rng.uniform(0, 1, 2)
        certificate = problem.certificate(rho, d, 0.3)
        f = d[0] * (Z @ (Z.T @ rho)) + d[1] * rho
        own = problem.empirical_loss(f + 0.3) + 0.5 * d[1] * np.linalg.norm(rho)
        assert certificate.primal == pytest.approx(own)
        feasible = problem.feasible_dual(rho)
        assert np.abs(np.column_stack([Z, np.ones(20)]).T @ feasible).max() <= 1e-12
        assert certificate.dual <= certificate.primal
        assert problem.dual(rho) == pytest.approx(certificate.dual)


def test_strength_that_leaves_nothing_but_free_kernels(Z) -> None:
    y = 3 * Z[:, 0] + np.random.default_rng(3).normal(size=20)
    problem = Problem(kernels_of(Z, np.eye(20)), y, "squared", get_regularizer(FREE, 1.0))
    design = np.column_stack([np.ones(20), Z])
    rest = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
    assert problem.strength_max() == pytest.approx(np.linalg.norm(rest))
    solution = get_solver("working_set")(tol=1e-6).solve(
        problem.with_penalty(get_regularizer(FREE, 1.01 * problem.strength_max()))
    )
    assert solution.kernel_weights[1] == 0
    np.testing.assert_allclose(
        problem.model_parts(solution.dual_coef, solution.kernel_weights)[0] + solution.intercept, y - rest, atol=1e-6
    )


def test_projections_on_a_box_and_directions(Z) -> None:
    """Against the conditions of optimality: what is off the ends differs from the point by directions only."""
    rng = np.random.default_rng(4)
    basis = np.linalg.qr(np.column_stack([Z, np.ones(20)]))[0]
    for scale in (0.1, 1.0, 100.0):
        r, lo, hi = scale * rng.normal(size=20), -rng.uniform(0, 1, 20), rng.uniform(0, 1, 20)
        x = project_box_orthogonal(r, lo, hi, basis)
        assert np.abs(basis.T @ x).max() <= 1e-12
        assert np.all((x >= lo) & (x <= hi))
        assert x.any()
        free = (x > lo) & (x < hi)
        nu = np.linalg.lstsq(basis[free], (r - x)[free], rcond=None)[0]
        np.testing.assert_allclose((r - x - basis @ nu)[free], 0, atol=1e-9 * scale)
        moved = (r - basis @ nu)[~free]
        assert np.all((moved <= lo[~free] + 1e-9) | (moved >= hi[~free] - 1e-9))


def test_a_dual_point_that_free_directions_feel_proves_nothing(Z, monkeypatch) -> None:
    """Newton's method along the directions of a loss that couples outputs is broken off before its end."""
    y = 2 * np.eye(3)[np.arange(20) % 3] - 1
    y[:5] = np.roll(y[:5], 1, axis=1)
    problem = Problem(kernels_of(Z, np.eye(20)), y, "logistic", get_regularizer(FREE, 0.5))
    rho, _ = problem.zero_model()
    whole = problem.dual(rho)
    monkeypatch.setattr("manykernels.objective.losses.bound.MOST_NEWTON_STEPS", 0)
    assert np.isfinite(whole)
    assert problem.dual(rho) == -np.inf


@pytest.mark.parametrize(("loss", "outputs"), [("hinge", 1), ("epsilon_insensitive", 1), ("squared_hinge", 2)])
def test_coefficients_at_corners_stay_there(loss, outputs, Z) -> None:
    """A sample away from the corners of its loss would pay for leaving those of the conjugate by its distance."""
    rng = np.random.default_rng(5)
    y = rng.normal(size=(20, outputs))
    y = y if loss == "epsilon_insensitive" else np.sign(y)
    problem = Problem(kernels_of(Z, np.eye(20)), y if outputs > 1 else y[:, 0], loss, get_regularizer(FREE, 0.5))
    bound = problem.certificate_bound
    rho = bound.feasible(np.where(rng.uniform(size=y.shape) < 0.7, 0.4 * y, 0.0).reshape(problem.y.shape))
    rho = np.where(np.abs(rho) < 0.05, 0.0, rho)
    rho = bound.project(rho, *bound._corner_box(rho))  # feasible, with zeros
    moved = rho + 1e-8 * np.abs(rho).max() * (bound.basis @ np.ones((bound.basis.shape[1], outputs))).reshape(rho.shape)
    nearest, kept = (candidate for candidate, _ in bound.candidates(moved, moved))
    zeros = rho == 0
    assert 2 <= zeros.sum() < rho.size
    assert np.abs(nearest[zeros]).max() > 0
    assert not kept[zeros].any()
    assert bound.proves(kept)
    np.testing.assert_allclose(kept, rho, atol=1e-7)
