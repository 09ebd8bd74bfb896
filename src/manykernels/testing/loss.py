"""The laws of a loss, as a test class to inherit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from manykernels.exceptions import InvalidInputError
from manykernels.objective.losses.base import Loss

__all__ = ["LossContract"]

Array = NDArray[Any]


def _close(actual: Any, expected: Any, tolerance: float) -> None:
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


def valid_targets(loss: Loss, rng: np.random.Generator, size: int) -> Array:
    """Return targets that the loss accepts, (size,), from the support that it declares."""
    if loss.task != "regression":
        return np.where(np.arange(size) % 2, 1.0, -1.0)
    if loss.support == "real":
        return rng.normal(size=size)
    return rng.standard_exponential(size) if loss.support == "positive" else rng.poisson(1.5, size).astype(np.float64)


class LossContract:
    """Laws that every loss obeys; inherit it and supply a fixture ``loss``.

    Examples
    --------
    A test module for a loss of your own::

        class TestMyLoss(LossContract):
            @pytest.fixture
            def loss(self):
                return MyLoss()
    """

    def samples(self, loss: Loss, size: int = 60) -> tuple[Array, Array, Array]:
        """Return targets, scores on both sides of every bend, and dual variables strictly inside the box."""
        rng = np.random.default_rng(0)
        y = valid_targets(loss, rng, size)
        z = rng.normal(scale=2.5, size=size)
        lo, hi = (np.clip(end, -3.0, 3.0) for end in loss.dual_bounds(y))
        r = lo + (hi - lo) * rng.uniform(0.02, 0.98, size)
        for array in (y, z, r):
            array.flags.writeable = False
        return y, z, r

    def test_targets_outside_the_support_are_refused(self, loss: Loss) -> None:
        """Check that a loss of positive or non-negative targets refuses those that are not, and says so."""
        worst = {"real": np.nan, "non-negative": -0.5, "positive": 0.0}[loss.support]
        with pytest.raises(InvalidInputError, match=r"-0\.5|0\.0|nan|NaN"):
            loss.check_target([1.0, 2.0 if loss.task == "regression" else -1.0, worst])

    def test_mean_of_scores(self, loss: Loss) -> None:
        """Check that predictions rise with scores, and that the best constant of one target predicts it."""
        y, z, _ = self.samples(loss)
        assert np.all(np.diff(loss.mean(np.sort(z))) >= 0)
        if loss.task == "regression":
            constants = [loss.mean(np.array(loss.best_intercept(np.full(3, t), np.zeros(3), np.ones(3)))) for t in y]
            assert np.all(np.abs(constants - y) <= 1e-9 * (1 + np.abs(y)))

    def test_fenchel_young_inequality(self, loss: Loss) -> None:
        """Check ``l(y, z) + l*(y, -r) + r z >= 0`` for every pair."""
        y, z, r = self.samples(loss)
        for scores in (z, np.roll(z, 2), 10 * z):
            assert np.all(loss.value(y, scores) + loss.conjugate(y, r) + r * scores >= -1e-12)

    def test_fenchel_young_equality(self, loss: Loss) -> None:
        """Check equality at ``r = -dl/dz`` and nowhere else."""
        y, z, _ = self.samples(loss)
        r = loss.dual_from_scores(y, z)
        _close(loss.value(y, z) + loss.conjugate(y, r) + r * z, 0.0, 1e-11)
        other = np.clip(r + 0.2, *loss.dual_bounds(y))
        gap = loss.value(y, z) + loss.conjugate(y, other) + other * z
        np.testing.assert_array_equal(gap > 1e-9, loss.dual_distance(y, z, other) > 1e-9)

    def test_conjugate_is_the_supremum(self, loss: Loss) -> None:
        """Compare the conjugate with a numerical supremum over scores."""
        y, _, r = self.samples(loss, 12)

        def supremum(i: int) -> float:
            one, dual = y[i : i + 1], r[i]
            found = minimize_scalar(
                lambda z: float(dual * z + loss.value(one, np.array([z]))[0]), bounds=(-30, 30), options={"xatol": 1e-9}
            )
            return -float(found.fun)

        _close(loss.conjugate(y, r), [supremum(i) for i in range(len(y))], 1e-6)

    def test_conjugate_is_infinite_outside_the_box(self, loss: Loss) -> None:
        """Check the ends of the box: finite on them and one ulp beyond, infinite further out."""
        y, _, _ = self.samples(loss)
        for end, side in zip(loss.dual_bounds(y), (-1.0, 1.0), strict=True):
            kept = np.isfinite(end)
            on, beyond = np.where(kept, end, 0.0), np.where(kept, end + side * 1e-3, 0.0)
            assert np.all(np.isfinite(loss.conjugate(y, on)))
            assert np.all(np.isfinite(loss.conjugate(y, np.nextafter(on, side * 9) if kept.any() else on)))
            assert np.all(np.isinf(loss.conjugate(y, beyond)[kept]))
        lo, hi = loss.dual_bounds(y)
        assert np.all((lo <= 0) & (hi >= 0))

    def test_derivatives_match_differences(self, loss: Loss) -> None:
        """Compare first and second derivatives of the loss with central differences (no sample sits on a bend)."""
        y, z, _ = self.samples(loss)
        step = 1e-6
        _close(loss.derivative(y, z), (loss.value(y, z + step) - loss.value(y, z - step)) / (2 * step), 1e-7)
        slope = (loss.derivative(y, z + step) - loss.derivative(y, z - step)) / (2 * step)
        _close(loss.second_derivative(y, z), slope, 1e-7)

    def test_conjugate_derivatives_match_differences(self, loss: Loss) -> None:
        """Compare the derivatives of the conjugate with central differences."""
        y, _, r = self.samples(loss)
        r = np.where(np.abs(r) < 1e-3, 1e-2 * np.sign(r), r)
        step = 1e-6
        slope = (loss.conjugate(y, r + step) - loss.conjugate(y, r - step)) / (2 * step)
        _close(loss.conjugate_derivative(y, r), slope, 1e-6)
        bend = (loss.conjugate_derivative(y, r + step) - loss.conjugate_derivative(y, r - step)) / (2 * step)
        _close(loss.conjugate_second_derivative(y, r), bend, 1e-4)

    def test_conjugate_derivative_inverts_the_derivative(self, loss: Loss) -> None:
        """Check that scores come back from dual variables where the loss is strictly convex."""
        y, z, _ = self.samples(loss)
        curved = loss.second_derivative(y, z) > 1e-3
        scores = -loss.conjugate_derivative(y, loss.dual_from_scores(y, z))
        _close(scores[curved], z[curved], 1e-9)

    def test_declared_data(self, loss: Loss) -> None:
        """Check the data that solvers read: form of the conjugate, kink, curvature, barrier, bound, linear dual."""
        y, z, r = self.samples(loss)
        lo, hi = loss.dual_bounds(y)
        if loss.conjugate_form == "quadratic":
            _close(loss.conjugate(y, r), 0.5 * loss.curvature * r**2 + loss.kink * np.abs(r) - y * r, 1e-11)
            assert loss.smooth == bool(loss.curvature > 0)
        if loss.conjugate_form == "binary_entropy":
            p = y * r
            _close(loss.conjugate(y, r), p * np.log(p) + (1.0 - p) * np.log1p(-p), 1e-11)
        at_ends = [np.isinf(loss.conjugate_derivative(y, end)[np.isfinite(end)]).all() for end in (lo, hi)]
        assert not loss.entropic or all(at_ends)
        assert np.all(loss.second_derivative(y, z) <= loss.curvature_bound * (1 + 1e-12))
        assert loss.smooth or np.isinf(loss.curvature_bound)
        quadratic = loss.conjugate_form == "quadratic" and loss.curvature > 0 and loss.kink == 0
        assert loss.linear_dual == bool(quadratic and np.isinf(lo).all() and np.isinf(hi).all())

    def test_kinks_of_the_conjugate_are_declared(self, loss: Loss) -> None:
        """Check that the conjugate without ``kink |r|`` has no jump in its slope, unless its form says so."""
        y, _, r = self.samples(loss)
        slopes = np.array([loss.conjugate_derivative(y, t) - loss.kink * np.sign(t) for t in (-1e-9 * r, 1e-9 * r)])
        inside = np.all(
            [(t > lo) & (t < hi) for lo, hi in [loss.dual_bounds(y)] for t in (-1e-9 * r, 1e-9 * r)], axis=0
        )
        assert loss.conjugate_form == "kinked" or np.all(np.abs(slopes[1] - slopes[0])[inside] <= 1e-6)

    def test_dual_interval(self, loss: Loss) -> None:
        """Check that dual variables of scores are inside their interval, in the box, and decrease with the score."""
        y, z, r = self.samples(loss)
        lo, hi = loss.dual_interval(y, z)
        box_lo, box_hi = loss.dual_bounds(y)
        assert np.all((box_lo <= lo) & (lo <= hi) & (hi <= box_hi))
        _close(loss.dual_distance(y, z, loss.dual_from_scores(y, z)), 0.0, 0.0)
        _close(loss.dual_distance(y, z, hi + 0.5), 0.5, 1e-12)
        assert np.all(loss.dual_from_scores(y, z + 0.3) <= loss.dual_from_scores(y, z))
        assert np.all(loss.dual_distance(y, z, r) >= 0)

    def test_best_intercept_minimizes(self, loss: Loss) -> None:
        """Check that no other intercept, near or far, has a smaller loss, for scores of any scale."""
        y, z, _ = self.samples(loss)
        weight = np.random.default_rng(1).uniform(0.1, 3.0, len(y))
        for scale in (0.0, 1e-6, 1.0, 1e3, 1e8):
            f = scale * z
            b = loss.best_intercept(y, f, weight)
            best = float(np.dot(weight, loss.value(y, f + b)))
            for step in np.concatenate([10.0 ** np.arange(-7, 9), -(10.0 ** np.arange(-7, 9))]):
                assert np.dot(weight, loss.value(y, f + b + step)) >= best * (1 - 1e-12) - 1e-12

    def test_best_intercept_of_one_class_or_value(self, loss: Loss) -> None:
        """Check that a flat or unattained minimum still gives a finite intercept."""
        for f in (np.zeros(3), np.array([1e200, 0.0, -1e200]), np.array([1e-200, 0.0, 3.0])):
            assert np.isfinite(loss.best_intercept(np.ones(3), f, np.ones(3)))

    def test_extreme_scores(self, loss: Loss) -> None:
        """Check that huge scores give no NaN and no warning."""
        y, _, _ = self.samples(loss, 4)
        for score in (1e300, -1e300, 1e-300, 0.0):
            z = np.full(4, score)
            for result in (loss.value(y, z), loss.derivative(y, z), loss.second_derivative(y, z)):
                assert not np.any(np.isnan(result))
            assert np.all(loss.value(y, z) >= 0)
        for end in loss.dual_bounds(y):
            assert not np.any(np.isnan(loss.conjugate(y, np.where(np.isfinite(end), end, 1e300))))

    def test_value_and_check_target(self, loss: Loss) -> None:
        """Check convexity along a line and that a valid target passes unchanged, as a new array."""
        y, z, _ = self.samples(loss)
        middle = loss.value(y, 0.5 * (z + np.roll(z, 2)))
        assert np.all(middle <= 0.5 * (loss.value(y, z) + loss.value(y, np.roll(z, 2))) + 1e-12)
        checked = loss.check_target(y)
        np.testing.assert_array_equal(checked, y)
        assert not np.shares_memory(checked, y)
