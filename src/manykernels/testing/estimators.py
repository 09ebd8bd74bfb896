"""The laws of a fitted estimator's functions off the training rows, as a test class to inherit."""

import pickle
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from manykernels.kernels import Shaped
from manykernels.validation.arrays import Array

FEWEST_DIGITS = 1e-9  # of the range of a function: how much a shape may be missed by rounding


def off_the_rows(X: Array, n: int = 60) -> Array:
    """Return rows between and beyond training rows: every column at the places of a grid in a separate order.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    n : int, default=60

    Returns
    -------
    ndarray of shape (n, n_features)
    """
    rng, low, high = np.random.default_rng(0), X.min(axis=0), X.max(axis=0)
    grid = low + (high - low) * np.linspace(-0.5, 1.5, n)[:, None]
    return np.column_stack([rng.permutation(column) for column in grid.T])


def check_shape(spec: Shaped, values: Array, x: Array) -> None:
    """Check that a curve, given by values at increasing points, has the shape of the kernel.

    Parameters
    ----------
    spec : Shaped
    values, x : ndarray of shape (n,)

    Raises
    ------
    AssertionError
        If it is missed by more than rounding.
    """
    steps, h = np.diff(values), np.diff(x)
    bends = (h[:-1] * steps[1:] - h[1:] * steps[:-1]) / (h[:-1] + h[1:])
    noise = FEWEST_DIGITS * float(np.abs(values).max(initial=0.0))
    signs = {"increasing": steps, "decreasing": -steps, "convex": bends, "concave": -bends}
    for word in spec.shape.split(" and "):
        worst = float(signs[word].min(initial=0.0))
        assert worst >= -noise, f"{spec.label}: missed by {-worst:.2g}, where rounding leaves {noise:.2g}"


class EstimatorContract(ABC):
    """Laws of what fitted estimators return at rows that they were not fitted on; inherit it and supply two methods.

    A certificate is about functions, not about their values on training rows.

    Examples
    --------
    A test module for an estimator of your own::

        class TestMyEstimator(EstimatorContract):
            def data(self):
                X = np.random.default_rng(0).normal(size=(60, 2))
                return X, X[:, 0]

            def fitted(self, X, y):
                return MyEstimator().fit(X, y)
    """

    tolerance: ClassVar[float] = 1e-6  # relative, of norms: kernel matrices have small eigenvalues

    @abstractmethod
    def data(self) -> tuple[Array, Any]:
        """Return rows of numbers (n, p) and their targets."""

    @abstractmethod
    def fitted(self, X: Array, y: Any) -> Any:
        """Return an estimator of a single output, fitted on the rows."""

    def scores(self, model: Any, X: Array) -> Array:
        """Return the scores of rows (n,)."""
        return np.asarray(getattr(model, "decision_function", model.predict)(X))

    def test_scores_are_sums_of_functions(self) -> None:
        """Check that scores at new rows are what the functions of kernels and the intercept add up to."""
        X, y = self.data()
        model, new = self.fitted(X, y), off_the_rows(X)
        total = model.decompose(new).sum(axis=0) + getattr(model, "intercept_", 0.0)
        np.testing.assert_allclose(self.scores(model, new), total, rtol=1e-10, atol=1e-10 * np.abs(total).max())

    def test_functions_have_the_norms_of_the_certificate(self) -> None:
        """Check that no function of the norm that the certificate has would be impossible through the values returned.

        Through values at training and new rows goes no function of a kernel whose norm is below ``f' K^-1 f``.
        """
        X, y = self.data()
        model = self.fitted(X, y)
        rows, bank = np.vstack([X, off_the_rows(X)]), model._expansion.bank
        prepared, parts = bank.prepare(rows), model.decompose(rows)
        active = np.flatnonzero(model.kernel_norms_ > 0)
        for place, m in enumerate(active):
            K = bank.block(prepared, prepared, np.array([place]))[0]
            f, norm = parts[m], float(model.kernel_norms_[m])
            constant = np.ones(len(K))  # functions may be centered, the constant part of the intercept
            values, vectors = np.linalg.eigh(K)
            kept = values > 1e-9 * values[-1]
            root = vectors[:, kept] / np.sqrt(values[kept])
            own, ones = f @ root, constant @ root
            shift = float(own @ ones) / max(float(ones @ ones), 1e-300)
            smallest = float(np.linalg.norm(own - shift * ones))
            assert smallest <= norm * (1.0 + self.tolerance), f"kernel {m}: {smallest:.6g} above {norm:.6g}"

    def test_functions_keep_their_shapes(self) -> None:
        """Check every curve with a shape at knots, between them and beyond, the other columns at rest."""
        X, y = self.data()
        model = self.fitted(X, y)
        table = model._expansion.bank.table
        for m, (spec, positions) in enumerate(zip(table.specs, table.positions, strict=True)):
            if isinstance(spec, Shaped):
                (column,), at = positions, int(np.searchsorted(table.used, positions[0]))
                knots = np.array(spec.points) * table.column_scales[at] + table.column_means[at]
                reach = np.ptp(np.append(knots, X[:, column])) or 1.0
                grid = np.linspace(knots[0] - reach, knots[-1] + reach, 301)
                x = np.unique(np.concatenate([knots, grid]))
                rows = np.repeat(X[:1], len(x), axis=0)
                rows[:, column] = x
                check_shape(spec, model.decompose(rows)[model._expansion.active[m]], x)

    def test_pickled_functions_are_the_same(self) -> None:
        """Check that a model that was pickled scores new rows alike."""
        X, y = self.data()
        model, new = self.fitted(X, y), off_the_rows(X)
        np.testing.assert_array_equal(self.scores(pickle.loads(pickle.dumps(model)), new), self.scores(model, new))
