"""The laws of a loss and of a regularizer, as test classes to inherit."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from manykernels.exceptions import InvalidInputError
from manykernels.objective.capabilities import Capability
from manykernels.objective.losses.base import Loss
from manykernels.objective.regularizers.base import Regularizer
from manykernels.validation.arrays import Array


def _close(actual: Any, expected: Any, tolerance: float) -> None:
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


def valid_targets(loss: Loss, rng: np.random.Generator, size: int) -> Array:
    """Return targets (size,) in the support of the loss."""
    if loss.task != "regression":
        return np.where(np.arange(size) % 2, 1.0, -1.0)
    if loss.support == "real":
        return rng.normal(size=size)
    return rng.standard_exponential(size) if loss.support == "positive" else rng.poisson(1.5, size).astype(np.float64)


class LossContract:
    """Laws of every loss; inherit the class and supply a fixture ``loss``.

    Examples
    --------
    A test module for a new loss::

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
        """Check that a loss of positive or non-negative targets rejects negative targets, with a message."""
        worst = {"real": np.nan, "non-negative": -0.5, "positive": 0.0}[loss.support]
        with pytest.raises(InvalidInputError, match=r"-0\.5|0\.0|nan|NaN"):
            loss.check_target([1.0, 2.0 if loss.task == "regression" else -1.0, worst])

    def test_mean_of_scores(self, loss: Loss) -> None:
        """Check that predictions rise with scores, and the best constant of a single target predicts the target."""
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
        """Check the ends of the box: finite on both and 1 ulp beyond, infinite further out."""
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
        """Check the declared properties: form of the conjugate, kink, curvature, barrier, bound, linear dual."""
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
        """Check that the conjugate without ``kink |r|`` has no jump in the slope, unless declared by the form."""
        y, _, r = self.samples(loss)
        slopes = np.array([loss.conjugate_derivative(y, t) - loss.kink * np.sign(t) for t in (-1e-9 * r, 1e-9 * r)])
        inside = np.all(
            [(t > lo) & (t < hi) for lo, hi in [loss.dual_bounds(y)] for t in (-1e-9 * r, 1e-9 * r)], axis=0
        )
        assert loss.conjugate_form == "kinked" or np.all(np.abs(slopes[1] - slopes[0])[inside] <= 1e-6)

    def test_dual_interval(self, loss: Loss) -> None:
        """Check that dual variables of scores are inside the interval, in the box, and decrease with the score."""
        y, z, r = self.samples(loss)
        lo, hi = loss.dual_interval(y, z)
        box_lo, box_hi = loss.dual_bounds(y)
        assert np.all((box_lo <= lo) & (lo <= hi) & (hi <= box_hi))
        _close(loss.dual_distance(y, z, loss.dual_from_scores(y, z)), 0.0, 0.0)
        _close(loss.dual_distance(y, z, hi + 0.5), 0.5, 1e-12)
        assert np.all(loss.dual_from_scores(y, z + 0.3) <= loss.dual_from_scores(y, z))
        assert np.all(loss.dual_distance(y, z, r) >= 0)

    def test_best_intercept_minimizes(self, loss: Loss) -> None:
        """Check that no intercept, near or far, has a smaller loss, for scores of any scale."""
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


def _gradient(regularizer: Regularizer, t: Array) -> Array:
    """Gradient of the penalty at positive block norms by a five-point difference, kernel by kernel if separable."""
    if regularizer.separable and t.size > 1:
        parts = [_gradient(regularizer.take(np.array([m])), t[m : m + 1]) for m in range(t.size)]
        return np.concatenate(parts)
    gradient = np.empty(t.size)
    for m, size in enumerate(t):
        step = np.zeros(t.size)
        step[m] = 1e-3 * size
        near = regularizer.value(t + step) - regularizer.value(t - step)
        far = regularizer.value(t + 2 * step) - regularizer.value(t - 2 * step)
        gradient[m] = (8 * near - far) / (12 * step[m])
    return gradient


def _can(regularizer: Regularizer, name: str) -> bool:
    """Return whether the regularizer declares a capability."""
    return Capability[name] in regularizer.capabilities


def _first(regularizer: Regularizer, vector: Array) -> Regularizer:
    """Return the regularizer of as many kernels as the vector has entries."""
    return regularizer.take(np.arange(vector.size))


class RegularizerContract:
    """Laws of every regularizer; inherit the class and supply a fixture ``regularizer``.

    A regularizer with coefficients per kernel needs at least seven kernels; some laws `take` fewer.

    Examples
    --------
    A test module for a new regularizer::

        class TestMyRegularizer(RegularizerContract):
            @pytest.fixture
            def regularizer(self):
                return MyRegularizer(0.7)
    """

    def norms(self) -> list[Array]:
        """Return non-negative vectors: spread, tied, with zeros, of a single entry, of small and of large scale."""
        rng = np.random.default_rng(0)
        spread = [scale * (0.1 + rng.exponential(size=7)) for scale in (1e-6, 0.1, 1.0, 30.0)]
        special = [np.zeros(3), np.ones(4), np.array([2.0, 0.0, 2.0, 1e-9]), np.array([0.3])]
        for vector in spread + special:
            vector.flags.writeable = False
        return spread + special

    def test_fenchel_young_inequality(self, regularizer: Regularizer) -> None:
        """Check ``Omega(t) + Omega*(u) >= t'u`` for feasible u."""
        whole = regularizer
        for t in self.norms():
            regularizer = _first(whole, t)
            for u in [vector for vector in self.norms() if vector.size == t.size]:
                feasible = regularizer.dual_scale(u) * u
                right = float(np.dot(t, feasible))
                left = regularizer.value(t) + regularizer.conjugate(feasible)
                assert left >= right - 1e-12 * max(1.0, abs(right))

    def test_the_conjugate_is_attained(self, regularizer: Regularizer) -> None:
        """Check equality at the gradient of the penalty: the conjugate is the supremum, not just a bound."""
        whole = regularizer
        for t in (vector for vector in self.norms() if vector.min() > 1e-7):
            regularizer = _first(whole, t)
            u = _gradient(regularizer, t)
            u = regularizer.dual_scale(u) * u
            _close(regularizer.value(t) + regularizer.conjugate(u), float(np.dot(t, u)), 1e-8)

    def test_weights_turn_dual_norms_into_block_norms(self, regularizer: Regularizer) -> None:
        """Check ``t = d u`` at the optimum, where ``u`` is the gradient of the penalty."""
        whole = regularizer
        for t in (vector for vector in self.norms() if vector.min() > 1e-7):
            regularizer = _first(whole, t)
            u = _gradient(regularizer, t)
            d = regularizer.weights(t, u)
            assert d.shape == t.shape
            _close(d * u / t, 1.0, 1e-7)

    def test_weights_of_a_zero_model(self, regularizer: Regularizer) -> None:
        """Check that zero norms give finite weights, and zero ones where the penalty selects kernels."""
        regularizer = regularizer.take(np.arange(2))
        d = regularizer.weights(np.array([1.0, 0.0]), np.array([0.5, 0.0]))
        assert np.all(np.isfinite(d))
        assert not regularizer.sparse or d[1] == 0
        assert np.all(np.isfinite(regularizer.weights(np.zeros(2), np.zeros(2))))

    def test_prox_is_optimal(self, regularizer: Regularizer) -> None:
        """Check Moreau's conditions: ``v = (t - x) / step`` is a non-negative subgradient of the penalty at ``x``."""
        whole = regularizer
        for t in self.norms():
            regularizer = _first(whole, t)
            for step in (1e-3, 0.4, 20.0):
                x = regularizer.prox(t, step)
                v = (t - x) / step
                assert np.all(x >= 0)
                assert np.all(v >= -1e-12)
                v = np.maximum(v, 0.0)
                v = v * regularizer.dual_scale(v)
                _close(v, (t - x) / step, 1e-9)
                scale = max(float(np.dot(t, t)) / step, 1e-300)
                gap = regularizer.value(x) + regularizer.conjugate(v) - float(np.dot(x, v))
                assert abs(gap) <= 1e-10 * scale

    def test_prox_beats_a_grid(self, regularizer: Regularizer) -> None:
        """Compare with the best point of a fine grid in the plane."""
        t, step = np.array([1.0, 0.6]), 0.3
        regularizer = _first(regularizer, t)
        x = regularizer.prox(t, step)
        ticks = np.linspace(0.0, 1.0, 21)

        def objective(point: Array) -> float:
            return 0.5 * float(np.sum((point - t) ** 2)) + step * regularizer.value(point)

        values = {(a, b): objective(np.array([a, b])) for a in ticks for b in ticks}
        best = min(values, key=lambda point: values[point])
        assert objective(x) <= values[best] + 1e-14
        assert np.all(np.abs(x - best) <= 0.1)

    def test_prox_without_step(self, regularizer: Regularizer) -> None:
        """Check a vanishing step: no change, and a new array."""
        t = np.array([0.5, 0.0, 2.0])
        x = _first(regularizer, t).prox(t, 0.0)
        _close(x, t, 1e-15)
        assert not np.shares_memory(x, t)

    def test_convex_and_increasing(self, regularizer: Regularizer) -> None:
        """Check convexity along segments and monotonicity of the penalty and of the conjugate."""
        vectors = [vector for vector in self.norms() if vector.size == 7]
        regularizer = _first(regularizer, vectors[0])
        for a in vectors:
            assert regularizer.value(1.1 * a) >= regularizer.value(a) > 0
            assert regularizer.conjugate(1.1 * a) >= regularizer.conjugate(a) >= 0
            for b in vectors:
                mean = 0.5 * (regularizer.value(a) + regularizer.value(b))
                assert regularizer.value(0.5 * (a + b)) <= mean * (1 + 1e-12)
        assert regularizer.value(np.zeros(7)) == 0
        assert regularizer.conjugate(np.zeros(7)) == 0

    def test_dual_scale_is_feasible_and_largest(self, regularizer: Regularizer) -> None:
        """Check that the scaled point is feasible to the last bit, and no larger point is."""
        rng = np.random.default_rng(2)
        regularizer = regularizer.take(np.arange(4))
        for _ in range(200):
            u = rng.exponential(size=4) * 10.0 ** rng.uniform(-3, 3)
            c = regularizer.dual_scale(u)
            assert 0 <= c <= 1
            assert np.isfinite(regularizer.conjugate(c * u)) or not regularizer.dual_constraint
            assert c == 1 or np.isinf(regularizer.conjugate(c * (1 + 1e-9) * u))

    def test_strength_max(self, regularizer: Regularizer) -> None:
        """Check that the zero model is optimal exactly above the strength, where the conjugate vanishes."""
        u = np.array([0.2, 0.9, 0.4])
        regularizer = _first(regularizer, u)
        largest = regularizer.strength_max(u)
        assert regularizer.strength_max(np.zeros(3)) == 0
        if np.isinf(largest):
            assert replace(regularizer, strength=10.0).conjugate(u) > 0
        else:
            assert replace(regularizer, strength=largest * (1 + 1e-9)).conjugate(u) == 0
            assert replace(regularizer, strength=largest * (1 - 1e-6)).conjugate(u) > 0

    def test_inactive_below(self, regularizer: Regularizer) -> None:
        """Check that a kernel adds to the conjugate exactly above the threshold, in sums over kernels."""
        regularizer = regularizer.take(np.arange(7))
        thresholds = np.broadcast_to(regularizer.inactive_below, 7)
        for m, threshold in enumerate(thresholds):
            one = regularizer.take(np.array([m]))
            assert one.conjugate(np.array([0.999 * threshold])) == 0
            tied = not one.separable  # the others may hold it back
            assert threshold == 0 or tied or one.conjugate(np.array([1.001 * threshold])) > 0
        assert not regularizer.dual_constraint or thresholds.max() > 0

    def test_separable(self, regularizer: Regularizer) -> None:
        """Check that the penalty is a sum over kernels exactly if declared."""
        a, b = np.array([1.0, 0.4]), np.array([0.7])
        whole = regularizer.take(np.arange(3)).value(np.concatenate([a, b]))
        parts = regularizer.take(np.arange(2)).value(a) + regularizer.take(np.array([2])).value(b)
        apart = abs(whole - parts) > 1e-9 * parts
        assert apart != regularizer.separable

    def test_strength_multiplies(self, regularizer: Regularizer) -> None:
        """Check that the strength is a factor of the penalty."""
        t = np.array([0.3, 1.2])
        regularizer = _first(regularizer, t)
        doubled = replace(regularizer, strength=2 * regularizer.strength)
        _close(doubled.value(t), 2 * regularizer.value(t), 1e-12)

    def test_extreme_norms(self, regularizer: Regularizer) -> None:
        """Check that tiny and huge norms give no NaN and no warning."""
        for scale in (1e-200, 1e200):
            t = scale * np.array([1.0, 0.5, 0.0])
            regularizer = regularizer.take(np.arange(3))
            for result in (regularizer.value(t), regularizer.conjugate(t), *regularizer.prox(t, 1.0)):
                assert not np.isnan(result)

    # --- what more solvers ask for ----------------------------------------------------------------------------------

    def positive(self, regularizer: Regularizer, capability: str) -> list[Array]:
        """Return the vectors without zeros, none without the capability."""
        return [vector for vector in self.norms() if vector.min() > 1e-7 and _can(regularizer, capability)]

    def test_weights_from_norms(self, regularizer: Regularizer) -> None:
        """Check that the best weights for given norms are ``t`` divided by the slope of the penalty."""
        for t in self.positive(regularizer, "WEIGHTS_FROM_NORMS"):
            _close(_first(regularizer, t).weights_from_norms(t) * _gradient(_first(regularizer, t), t) / t, 1.0, 1e-7)

    def test_on_boundary(self, regularizer: Regularizer) -> None:
        """Check that multiples of the best weights of a set are scaled back; all further weights stay."""
        for t in self.positive(regularizer, "WEIGHTS_FROM_NORMS"):
            one = _first(regularizer, t)
            best = one.weights_from_norms(t)
            _close(one.on_boundary((3.0 if one.weight_set else 1.0) * best) / best, 1.0, 1e-12)

    def test_derivatives(self, regularizer: Regularizer) -> None:
        """Compare slopes and second derivatives with differences, where the regularizer has them."""
        for t in self.positive(regularizer, "CURVATURE"):
            one = _first(regularizer, t)
            _close(one.derivative(t) / _gradient(one, t), 1.0, 1e-7)
            steps = 1e-5 * t * np.eye(t.size)
            slopes = np.array([one.derivative(t + step) - one.derivative(t - step) for step in steps])
            _close(one.hessian(t) * t[:, None] / one.derivative(t), slopes / 2e-5 / one.derivative(t), 1e-7)
            _close(np.diag(one.hessian(t)), one.second_derivative(t), 1e-12)

    def test_conjugate_derivative(self, regularizer: Regularizer) -> None:
        """Check that the inverse maps slopes of the penalty to block norms."""
        for t in self.positive(regularizer, "SMOOTH_CONJUGATE"):
            one = _first(regularizer, t)
            slopes = one.derivative(t) if _can(one, "CURVATURE") else _gradient(one, t)
            _close(one.conjugate_derivative(slopes) / t, 1.0, 1e-7)

    def test_norm_bound(self, regularizer: Regularizer) -> None:
        """Check that the slopes of the penalty reach the bound by weight, and the derivative of the bound."""
        for t in () if regularizer.weight_set else self.positive(regularizer, "MULTIPLIERS"):
            one = _first(regularizer, t)
            u = _gradient(one, t)
            d, (low, high) = t / u, (np.broadcast_to(end, t.size) for end in one.weight_range)
            assert np.all((low * (1 - 1e-6) <= d) & (d <= high * (1 + 1e-6)))
            free = low < high
            if not free.any():
                continue
            part, d = one.take(np.flatnonzero(free)), d[free]
            _close(np.sqrt(part.norm_bound(d)[0]) / u[free], 1.0, 1e-5)
            step = 1e-5 * np.minimum(d, high[free] - d)
            rise = (part.norm_bound(d + step)[0] - part.norm_bound(d - step)[0]) / 4
            _close(part.norm_bound(d)[1] * step / u[free] ** 2, rise / u[free] ** 2, 1e-9)

    def test_weight_limit(self, regularizer: Regularizer) -> None:
        """Check that best weights reach the limit of the set, with slopes in proportion to squared dual norms."""
        for t in self.positive(regularizer, "MULTIPLIERS") if regularizer.weight_set else ():
            one = _first(regularizer, t)
            d, u = one.weights_from_norms(t), _gradient(one, t)
            slopes, bends, missing = one.weight_limit(d)
            ratios = u**2 / slopes
            _close(ratios / ratios.max(), 1.0, 1e-6)
            assert abs(missing) <= 1e-10 * float(slopes @ d)
            steps = 1e-5 * d * np.eye(d.size)
            limits = [(one.weight_limit(d + step), one.weight_limit(d - step)) for step in steps]
            _close(np.array([(low[2] - high[2]) / 2e-5 for high, low in limits]) / (slopes * d), 1.0, 1e-5)
            rise = np.array([(high[0] - low[0]).sum() / 2e-5 for high, low in limits])
            _close(bends / slopes, rise / slopes, 1e-6)

    def test_curve(self, regularizer: Regularizer) -> None:
        """Check the declared coefficients against the value."""
        for t in (vector for vector in self.norms() if vector.size == 7):
            one, value = _first(regularizer, t), _first(regularizer, t).value(t)
            if (curve := one.curve) is not None:
                q, total = curve.exponent, float(np.sum(t**curve.exponent))
                power = curve.power * (0.5 * total ** (2 / q) if curve.coupled else total / q)
                _close((np.sum(curve.linear * t + 0.5 * curve.ridge * t**2) + power) / value, 1.0, 1e-12)
                assert one.separable or curve.coupled or q == 2
