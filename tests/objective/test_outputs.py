"""Losses of several scores a sample and their problem: conjugates, derivatives, feasible duals, refusals."""

from __future__ import annotations

import numpy as np
import pytest

from manykernels import InvalidInputError
from manykernels.exceptions import IncompatibleError
from manykernels.objective import Multinomial, Problem, get_regularizer
from manykernels.objective.losses import get_shared_loss
from manykernels.objective.losses.curvature import add_curved
from manykernels.objective.losses.outputs import WeightedLabels
from manykernels.objective.losses.pointwise import Logistic

RNG = np.random.default_rng(0)
SCORES = 2.0 * RNG.normal(size=(7, 3))
LABELS = np.where(np.arange(7)[:, None] % 3 == np.arange(3), 1.0, -1.0)
NUMBERS = RNG.normal(size=(7, 3))
WEIGHT = RNG.uniform(0.5, 2.0, 7)
LOSSES = ["logistic", "squared_hinge", "squared", "huber"]


def target_of(loss):
    return LABELS if get_shared_loss(loss).task == "classification" else NUMBERS


@pytest.mark.parametrize("name", LOSSES)
def test_fenchel_young_holds_with_equality_at_the_derivative(name):
    loss, y = get_shared_loss(name), target_of(name)
    r = -loss.derivative(y, SCORES)
    both = loss.value(y, SCORES) + loss.conjugate(y, r)
    np.testing.assert_allclose(both, -(r * SCORES).sum(axis=1), atol=1e-12)
    elsewhere = loss.value(y, SCORES + RNG.normal(size=SCORES.shape)) + loss.conjugate(y, 0.5 * r)
    assert (elsewhere >= -0.5 * (r * SCORES).sum(axis=1) - 10.0).all()


@pytest.mark.parametrize("name", LOSSES)
def test_fenchel_young_holds_as_an_inequality_everywhere(name):
    loss, y = get_shared_loss(name), target_of(name)
    r = -loss.derivative(y, 3.0 * RNG.normal(size=SCORES.shape))
    assert (loss.value(y, SCORES) + loss.conjugate(y, r) + (r * SCORES).sum(axis=1) >= -1e-12).all()


@pytest.mark.parametrize("name", LOSSES)
def test_derivatives_are_those_of_the_value(name):
    loss, y, step = get_shared_loss(name), target_of(name), 1e-6
    for t in range(3):
        moved = np.zeros(3)
        moved[t] = step
        slope = (loss.value(y, SCORES + moved) - loss.value(y, SCORES - moved)) / (2 * step)
        np.testing.assert_allclose(slope, loss.derivative(y, SCORES)[:, t], atol=1e-8)
        bend = (loss.derivative(y, SCORES + moved) - loss.derivative(y, SCORES - moved)) / (2 * step)
        p = loss.curvature(y, SCORES)
        whole = -p * p[:, [t]] if loss.coupled else np.zeros(p.shape)
        whole[:, t] += p[:, t]
        np.testing.assert_allclose(bend, whole, atol=1e-7)


@pytest.mark.parametrize("name", LOSSES)
def test_intercepts_are_optimal_and_duals_feasible(name):
    loss, y = get_shared_loss(name), target_of(name)
    b = loss.best_intercepts(y, SCORES, WEIGHT)
    rho = -WEIGHT[:, None] * loss.derivative(y, SCORES + b)
    np.testing.assert_allclose(rho.sum(axis=0), 0.0, atol=1e-10)
    np.testing.assert_allclose(loss.feasible(y, rho, WEIGHT, sums=True), rho, atol=1e-9)
    for seed in range(20):
        moved = rho + (0.2, 1.0)[seed % 2] * np.random.default_rng(seed).normal(size=rho.shape)
        rough = loss.feasible(y, moved, WEIGHT, sums=True)
        np.testing.assert_allclose(rough.sum(axis=0), 0.0, atol=1e-12)
        assert np.isfinite(loss.conjugate(y, rough / WEIGHT[:, None])).all()
        # Zero lies in every domain, so scaling keeps coefficients feasible: for classes p goes to c p + (1 - c) e.
        assert np.isfinite(loss.conjugate(y, 0.3 * rough / WEIGHT[:, None])).all()


@pytest.mark.parametrize("far", [100.0, 1000.0])  # beyond 745 the exponentials of a class are all zero
def test_intercepts_of_classes_whose_scores_are_far_apart_are_optimal(far):
    shift = np.array([0.0, -far, far])
    b = Multinomial().best_intercepts(LABELS, SCORES + shift, WEIGHT)
    slopes = WEIGHT[:, None] * Multinomial().derivative(LABELS, SCORES + shift + b)
    np.testing.assert_allclose(slopes.sum(axis=0), 0.0, atol=1e-10)
    near = Multinomial().best_intercepts(LABELS, SCORES, WEIGHT)
    np.testing.assert_allclose(b + shift, near, atol=1e-9)


def test_slopes_that_sum_to_zero_are_their_own_nearest_dual_coefficients():
    loss = Multinomial()
    rho = -loss.derivative(LABELS, SCORES + loss.best_intercepts(LABELS, SCORES, np.ones(7)))
    np.testing.assert_array_equal(loss.feasible(LABELS, rho, np.ones(7), sums=True), rho)
    off = -loss.derivative(LABELS, SCORES)  # in the simplex, but of other sums
    moved = loss.feasible(LABELS, off, np.ones(7), sums=True)
    assert np.abs(off.sum(axis=0)).max() > 0.1
    np.testing.assert_allclose(moved.sum(axis=0), 0.0, atol=1e-12)


def test_the_multinomial_conjugate_is_infinite_outside_the_simplex():
    outside = np.where(LABELS > 0, -0.1, 0.05)
    assert np.isinf(Multinomial().conjugate(LABELS, outside)).all()
    assert np.isinf(Multinomial().conjugate(LABELS, np.full((7, 3), 0.1))).all()


def test_scores_of_any_size_have_a_finite_loss():
    values = Multinomial().value(LABELS, 1e300 * np.sign(SCORES))
    assert np.isfinite(values).all()


@pytest.mark.parametrize("name", ["hinge", "epsilon_insensitive", "quantile"])
def test_losses_with_kinks_are_refused_with_those_that_would_do(name):
    with pytest.raises(IncompatibleError, match=r"has kinks\. Use 'squared"):
        Problem(np.eye(7)[None], target_of("squared"), name, get_regularizer("l1", 1.0))


@pytest.mark.parametrize(
    ("y", "loss", "message"),
    [
        (np.ones((6, 2)), "squared", r"y has 6 samples but the kernels have 7"),
        (np.ones((7, 2)), "logistic", r"row 0 of y is \[1.0, 1.0\]"),
        (
            np.where(np.arange(2) == 0, 1.0, -1.0) * np.ones((7, 1)),
            "logistic",
            r"Column 0 of y cannot be learned\. Every label is \+1",
        ),
        (np.full((7, 2), np.nan), "huber", r"NaN"),
    ],
)
def test_wrong_targets_are_named(y, loss, message):
    with pytest.raises(InvalidInputError, match=message):
        Problem(np.eye(7)[None], y, loss, get_regularizer("l1", 1.0))


def test_wrong_models_are_named():
    problem = Problem(np.eye(7)[None], NUMBERS, "squared", get_regularizer("l1", 1.0), fit_intercept=False)
    with pytest.raises(InvalidInputError, match="rho must be finite and of the shape"):
        problem.certificate(NUMBERS[:, 0], np.ones(1), np.zeros(3))
    with pytest.raises(InvalidInputError, match="b must be finite and of shape"):
        problem.certificate(NUMBERS, np.ones(1), 0.0)
    with pytest.raises(InvalidInputError, match="must be 0 without fit_intercept"):
        problem.certificate(NUMBERS, np.ones(1), np.ones(3))
    with pytest.raises(InvalidInputError, match="must not be negative"):
        problem.certificate(NUMBERS, -np.ones(1), np.zeros(3))


@pytest.mark.parametrize("name", ["logistic", "squared_hinge", "squared"])
def test_loops_have_the_product_of_a_curvature_and_a_diagonal_of_samples_is_above_it(name):
    problem = Problem(np.eye(7)[None], target_of(name), name, get_regularizer("l1", 1.0), sample_weight=WEIGHT)
    curvature, out = problem.bound.curvature(SCORES), np.zeros((3, 7))
    for row, column in np.ndindex(7, 3):
        move = np.zeros((7, 3))
        move[row, column] = 1.0
        out[:] = 0.0
        add_curved(*curvature.terms, np.ascontiguousarray(move.T), out)
        np.testing.assert_allclose(out.T, curvature.product(move), atol=1e-12)
    for move in RNG.normal(size=(50, 7, 3)):
        assert curvature.square(move) <= (curvature.above[:, None] * move**2).sum() * (1 + 1e-12)


@pytest.mark.parametrize("name", [*LOSSES, "poisson"])
def test_no_curvature_is_above_its_bound(name):
    loss, y = get_shared_loss(name), np.abs(target_of(name)) if name == "poisson" else target_of(name)
    for scale in (0.0, 1.0, 3.0):
        p = loss.curvature(y, scale * SCORES)
        whole = p[:, :, None] * np.eye(3) - (p[:, :, None] * p[:, None] if loss.coupled else 0.0)
        assert np.linalg.eigvalsh(whole).max() <= loss.curvature_bound + 1e-12
    two = Multinomial().curvature(np.array([[1.0, -1.0]]), np.zeros((1, 2)))[0]
    assert np.linalg.eigvalsh(np.diag(two) - np.outer(two, two)).max() == pytest.approx(Multinomial().curvature_bound)


def test_weighted_labels_are_labels_times_their_weights():
    plain, loss = Logistic(), WeightedLabels(Logistic(), 3.0)
    weights, signs = np.array([1.0, 3.0, 1e-8, 0.5]), np.array([1.0, -1.0, 1.0, -1.0])
    y, z = weights * signs, np.array([0.3, -2.0, 1.0, 4.0])
    r = loss.dual_from_scores(y, z)
    for name in ("value", "derivative", "second_derivative"):
        np.testing.assert_allclose(getattr(loss, name)(y, z), weights * getattr(plain, name)(signs, z))
    np.testing.assert_allclose(loss.value(y, z) + loss.conjugate(y, r), -r * z, atol=1e-12)  # Fenchel-Young
    np.testing.assert_allclose(-loss.conjugate_derivative(y, r), z, rtol=1e-6)
    assert (loss.second_derivative(y, z) <= loss.curvature_bound).all()
    best = loss.best_intercept(y, np.zeros(4), np.ones(4))
    assert loss.derivative(y, np.full(4, best)).sum() == pytest.approx(0.0, abs=1e-9)
    with pytest.raises(InvalidInputError, match="finite and not zero"):
        loss.check_target(np.array([1.0, 0.0]))
