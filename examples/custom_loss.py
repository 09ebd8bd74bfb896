"""Two losses of one's own: log-cosh, and asymmetric squares (expectiles), solved like those of the library.

A loss is its value, two derivatives, its conjugate with two derivatives, and the interval of its dual variable.
Solvers look at nothing else, so the default solver proves its answer here as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from manykernels import Gaussian, KernelBank, MKLRegressor, MKLRegressorCV, regularization_path, solve
from manykernels.objective import RegressionLoss


@dataclass(frozen=True)
class LogCosh(RegressionLoss):
    """``log cosh(z - y)``: squares near the target, absolute values far from it."""

    name: ClassVar[str] = "log_cosh"
    smooth: ClassVar[bool] = True
    entropic: ClassVar[bool] = True  # the slope of the conjugate, atanh(r), is infinite at both ends

    @property
    def curvature_bound(self):
        return 1.0

    def value(self, y, z):
        size = np.abs(z - y)
        return size + np.log1p(np.exp(-2 * size)) - np.log(2)

    def derivative(self, y, z):
        return np.tanh(z - y)

    def second_derivative(self, y, z):
        falling = np.exp(-2 * np.abs(z - y))
        return 4 * falling / (1 + falling) ** 2

    def _conjugate_inside(self, y, r):
        both = [np.where(x > 0, x * np.log(np.where(x > 0, x, 1.0)), 0.0) for x in (1 + r, 1 - r)]
        return (both[0] + both[1]) / 2 - y * r

    def conjugate_derivative(self, y, r):
        with np.errstate(divide="ignore"):
            return np.arctanh(np.clip(r, -1, 1)) - y

    def conjugate_second_derivative(self, y, r):
        with np.errstate(divide="ignore"):
            return 1 / np.maximum((1 - r) * (1 + r), 0.0)

    def dual_bounds(self, y):
        return -np.ones(np.shape(y)), np.ones(np.shape(y))


@dataclass(frozen=True)
class AsymmetricSquared(RegressionLoss):
    """``a (z - y)^2 / 2`` with ``a = tau`` below the target and ``1 - tau`` above it: the ``tau`` expectile."""

    tau: float = 0.8
    name: ClassVar[str] = "asymmetric_squared"
    smooth: ClassVar[bool] = True

    @property
    def curvature_bound(self):
        return max(self.tau, 1 - self.tau)

    def _side(self, below):
        return np.where(below, self.tau, 1 - self.tau)

    def value(self, y, z):
        with np.errstate(over="ignore"):
            return self._side(z < y) * (z - y) ** 2 / 2

    def derivative(self, y, z):
        return self._side(z < y) * (z - y)

    def second_derivative(self, y, z):
        return self._side(z < y)

    def _conjugate_inside(self, y, r):
        return r * (r / (2 * self._side(r > 0)) - y)

    def conjugate_derivative(self, y, r):
        return r / self._side(r > 0) - y

    def conjugate_second_derivative(self, y, r):
        return 1 / self._side(r > 0)

    def dual_bounds(self, y):
        return np.full(np.shape(y), -np.inf), np.full(np.shape(y), np.inf)


def main() -> None:
    """Fit both on a curve with outliers; choose the strength of one by cross-validation."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (150, 2))
    truth = 2 * np.sin(4 * X[:, 0])
    y = truth + 0.1 * rng.standard_normal(150) + 8.0 * (rng.uniform(size=150) < 0.05)
    bank = KernelBank([(f"x{j} w{w}", Gaussian(w), [j]) for j in (0, 1) for w in (0.1, 0.5, 2.0)])

    fitted = bank.fit(X)
    kernels = fitted.block(fitted.prepare(X), fitted.prepare(X))
    for loss in (LogCosh(), AsymmetricSquared(0.8)):
        solution = solve(kernels, y, loss=loss, penalty="l1", alpha=0.3 / 150, tol=1e-8)
        active = [name for name, d in zip(fitted.names, solution.kernel_weights, strict=True) if d > 0]
        print(f"{loss.name}: {solution.solver}, gap {solution.certificate.relative_gap:.0e}, kernels {active}")

    for chosen in ("squared", LogCosh()):
        model = MKLRegressor(bank, loss=chosen, alpha=0.002, tol=1e-8).fit(X, y)
        print(f"{chosen}: distance to the truth {np.abs(model.predict(X) - truth).mean():.3f}")
    path = regularization_path(
        X, y, kernels=bank, loss=AsymmetricSquared(0.8), n_alphas=4, alpha_min_ratio=0.05, tol=1e-8
    )
    print("kernels along the path of the expectile:", path.summary()["n_active"].tolist())
    best = MKLRegressorCV(bank, loss=LogCosh(), cv=3, penalty="l1", n_alphas=10).fit(X, y)
    print(f"alpha chosen by cross-validation: {best.alpha_:.2g}")


if __name__ == "__main__":
    main()
