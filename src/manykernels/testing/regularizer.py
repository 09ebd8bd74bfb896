"""The laws of a regularizer, as a test class to inherit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manykernels.objective.capabilities import Capability
from manykernels.objective.regularizers.base import Regularizer

__all__ = ["RegularizerContract"]

Array = NDArray[Any]


def _close(actual: Any, expected: Any, tolerance: float) -> None:
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


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
    """Whether the regularizer says that it has a capability."""
    return Capability[name] in regularizer.capabilities


def _first(regularizer: Regularizer, vector: Array) -> Regularizer:
    """Return the regularizer of as many kernels as the vector has entries."""
    return regularizer.take(np.arange(vector.size))


class RegularizerContract:
    """Laws that every regularizer obeys; inherit it and supply a fixture ``regularizer``.

    One with coefficients of each kernel needs at least seven kernels, of which the laws `take` fewer.

    Examples
    --------
    A test module for a regularizer of your own::

        class TestMyRegularizer(RegularizerContract):
            @pytest.fixture
            def regularizer(self):
                return MyRegularizer(0.7)
    """

    def norms(self) -> list[Array]:
        """Return non-negative vectors: spread, tied, with zeros, of one entry, of small and of large scale."""
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
        """Check that a vanishing step changes nothing and returns a new array."""
        t = np.array([0.5, 0.0, 2.0])
        x = _first(regularizer, t).prox(t, 0.0)
        _close(x, t, 1e-15)
        assert not np.shares_memory(x, t)

    def test_convex_and_increasing(self, regularizer: Regularizer) -> None:
        """Check convexity along segments and monotonicity of the penalty and of its conjugate."""
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
        """Check that the scaled point is feasible to the last bit, and that nothing larger is."""
        rng = np.random.default_rng(2)
        regularizer = regularizer.take(np.arange(4))
        for _ in range(200):
            u = rng.exponential(size=4) * 10.0 ** rng.uniform(-3, 3)
            c = regularizer.dual_scale(u)
            assert 0 <= c <= 1
            assert np.isfinite(regularizer.conjugate(c * u)) or not regularizer.dual_constraint
            assert c == 1 or np.isinf(regularizer.conjugate(c * (1 + 1e-9) * u))

    def test_strength_max(self, regularizer: Regularizer) -> None:
        """Check that the zero model is optimal above it and is not below: the conjugate vanishes, or does not."""
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
        """Check that a kernel below the threshold adds nothing to the conjugate, and above it in sums over kernels."""
        regularizer = regularizer.take(np.arange(7))
        thresholds = np.broadcast_to(regularizer.inactive_below, 7)
        for m, threshold in enumerate(thresholds):
            one = regularizer.take(np.array([m]))
            assert one.conjugate(np.array([0.999 * threshold])) == 0
            tied = not one.separable  # the others may hold it back
            assert threshold == 0 or tied or one.conjugate(np.array([1.001 * threshold])) > 0
        assert not regularizer.dual_constraint or thresholds.max() > 0

    def test_separable(self, regularizer: Regularizer) -> None:
        """Check that the penalty is a sum over kernels exactly if it says so."""
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
        """Return the vectors without zeros, none if the regularizer does not say that it has the capability."""
        return [vector for vector in self.norms() if vector.min() > 1e-7 and _can(regularizer, capability)]

    def test_weights_from_norms(self, regularizer: Regularizer) -> None:
        """Check that the best weights for given norms are ``t`` divided by the slope of the penalty."""
        for t in self.positive(regularizer, "WEIGHTS_FROM_NORMS"):
            _close(_first(regularizer, t).weights_from_norms(t) * _gradient(_first(regularizer, t), t) / t, 1.0, 1e-7)

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
        """Check that it turns the slopes of the penalty back into block norms."""
        for t in self.positive(regularizer, "SMOOTH_CONJUGATE"):
            one = _first(regularizer, t)
            slopes = one.derivative(t) if _can(one, "CURVATURE") else _gradient(one, t)
            _close(one.conjugate_derivative(slopes) / t, 1.0, 1e-7)

    def test_norm_bound(self, regularizer: Regularizer) -> None:
        """Check that the slopes of the penalty reach the bound of their weight, and the derivative of the bound."""
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
        """Check that best weights reach the limit of their set, with slopes in proportion to squared dual norms."""
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
        """Check the coefficients that a regularizer declares against its value."""
        for t in (vector for vector in self.norms() if vector.size == 7):
            one, value = _first(regularizer, t), _first(regularizer, t).value(t)
            if (curve := one.curve) is not None:
                q, total = curve.exponent, float(np.sum(t**curve.exponent))
                power = curve.power * (0.5 * total ** (2 / q) if curve.coupled else total / q)
                _close((np.sum(curve.linear * t + 0.5 * curve.ridge * t**2) + power) / value, 1.0, 1e-12)
                assert one.separable or curve.coupled or q == 2
