"""The laws of a regularizer, as a test class to inherit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manykernels.objective.regularizers.base import Regularizer

__all__ = ["RegularizerContract"]

Array = NDArray[Any]


def _close(actual: Any, expected: Any, tolerance: float) -> None:
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


def _gradient(regularizer: Regularizer, t: Array) -> Array:
    """Gradient of the penalty at positive block norms by a five-point difference."""
    gradient = np.empty(t.size)
    for m, size in enumerate(t):
        step = np.zeros(t.size)
        step[m] = 1e-3 * size
        near = regularizer.value(t + step) - regularizer.value(t - step)
        far = regularizer.value(t + 2 * step) - regularizer.value(t - 2 * step)
        gradient[m] = (8 * near - far) / (12 * step[m])
    return gradient


class RegularizerContract:
    """Laws that every regularizer obeys; inherit it and supply a fixture ``regularizer``.

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
        for t in self.norms():
            for u in [vector for vector in self.norms() if vector.size == t.size]:
                feasible = regularizer.dual_scale(u) * u
                right = float(np.dot(t, feasible))
                left = regularizer.value(t) + regularizer.conjugate(feasible)
                assert left >= right - 1e-12 * max(1.0, abs(right))

    def test_the_conjugate_is_attained(self, regularizer: Regularizer) -> None:
        """Check equality at the gradient of the penalty: the conjugate is the supremum, not just a bound."""
        for t in (vector for vector in self.norms() if vector.min() > 1e-7):
            u = _gradient(regularizer, t)
            u = regularizer.dual_scale(u) * u
            _close(regularizer.value(t) + regularizer.conjugate(u), float(np.dot(t, u)), 1e-8)

    def test_weights_turn_dual_norms_into_block_norms(self, regularizer: Regularizer) -> None:
        """Check ``t = d u`` at the optimum, where ``u`` is the gradient of the penalty."""
        for t in (vector for vector in self.norms() if vector.min() > 1e-7):
            u = _gradient(regularizer, t)
            d = regularizer.weights(t, u)
            assert d.shape == t.shape
            _close(d * u / t, 1.0, 1e-7)

    def test_weights_of_a_zero_model(self, regularizer: Regularizer) -> None:
        """Check that zero norms give finite weights, and zero ones where the penalty selects kernels."""
        d = regularizer.weights(np.array([1.0, 0.0]), np.array([0.5, 0.0]))
        assert np.all(np.isfinite(d))
        assert not regularizer.sparse or d[1] == 0
        assert np.all(np.isfinite(regularizer.weights(np.zeros(2), np.zeros(2))))

    def test_prox_is_optimal(self, regularizer: Regularizer) -> None:
        """Check Moreau's conditions: ``v = (t - x) / step`` is a non-negative subgradient of the penalty at ``x``."""
        for t in self.norms():
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
        x = regularizer.prox(t, 0.0)
        _close(x, t, 1e-15)
        assert not np.shares_memory(x, t)

    def test_convex_and_increasing(self, regularizer: Regularizer) -> None:
        """Check convexity along segments and monotonicity of the penalty and of its conjugate."""
        vectors = [vector for vector in self.norms() if vector.size == 7]
        for a in vectors:
            assert regularizer.value(1.1 * a) >= regularizer.value(a) > 0
            assert regularizer.conjugate(1.1 * a) >= regularizer.conjugate(a) >= 0
            for b in vectors:
                mean = 0.5 * (regularizer.value(a) + regularizer.value(b))
                assert regularizer.value(0.5 * (a + b)) <= mean * (1 + 1e-12)
        assert regularizer.value(np.zeros(3)) == 0
        assert regularizer.conjugate(np.zeros(3)) == 0

    def test_dual_scale_is_feasible_and_largest(self, regularizer: Regularizer) -> None:
        """Check that the scaled point is feasible to the last bit, and that nothing larger is."""
        rng = np.random.default_rng(2)
        for _ in range(200):
            u = rng.exponential(size=4) * 10.0 ** rng.uniform(-3, 3)
            c = regularizer.dual_scale(u)
            assert 0 <= c <= 1
            assert np.isfinite(regularizer.conjugate(c * u)) or not regularizer.dual_constraint
            assert c == 1 or np.isinf(regularizer.conjugate(c * (1 + 1e-9) * u))

    def test_strength_max(self, regularizer: Regularizer) -> None:
        """Check that the zero model is optimal above it and is not below: the conjugate vanishes, or does not."""
        u = np.array([0.2, 0.9, 0.4])
        largest = regularizer.strength_max(u)
        assert regularizer.strength_max(np.zeros(2)) == 0
        if np.isinf(largest):
            assert replace(regularizer, strength=10.0).conjugate(u) > 0
        else:
            assert replace(regularizer, strength=largest * (1 + 1e-9)).conjugate(u) == 0
            assert replace(regularizer, strength=largest * (1 - 1e-6)).conjugate(u) > 0

    def test_inactive_below(self, regularizer: Regularizer) -> None:
        """Check that a kernel below the threshold adds nothing to the conjugate, and above it does."""
        threshold = regularizer.inactive_below
        assert regularizer.conjugate(np.array([0.999 * threshold])) == 0
        assert threshold == 0 or regularizer.conjugate(np.array([1.001 * threshold])) > 0
        assert not regularizer.dual_constraint or threshold > 0

    def test_separable(self, regularizer: Regularizer) -> None:
        """Check that the penalty is a sum over kernels exactly if it says so."""
        a, b = np.array([1.0, 0.4]), np.array([0.7])
        parts = regularizer.value(a) + regularizer.value(b)
        apart = abs(regularizer.value(np.concatenate([a, b])) - parts) > 1e-9 * parts
        assert apart != regularizer.separable

    def test_strength_multiplies(self, regularizer: Regularizer) -> None:
        """Check that the strength is a factor of the penalty."""
        t = np.array([0.3, 1.2])
        doubled = replace(regularizer, strength=2 * regularizer.strength)
        _close(doubled.value(t), 2 * regularizer.value(t), 1e-12)

    def test_extreme_norms(self, regularizer: Regularizer) -> None:
        """Check that tiny and huge norms give no NaN and no warning."""
        for scale in (1e-200, 1e200):
            t = scale * np.array([1.0, 0.5, 0.0])
            for result in (regularizer.value(t), regularizer.conjugate(t), *regularizer.prox(t, 1.0)):
                assert not np.isnan(result)
