"""A regularizer of one's own: block 1-norm and ridge, mixed in other proportions for each group of kernels.

A regularizer is its value, its conjugate and its prox. Each further method opens more solvers: the derivatives those
of second order in the primal, `norm_bound` the default solver. Kernels of a group with ratio 0 always keep a weight.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from manykernels import Gaussian, KernelBank, Linear, MKLRegressor, MKLRegressorCV, regularization_path, solve
from manykernels.objective import Regularizer


@dataclass(frozen=True)
class GroupMixture(Regularizer):
    """``C sum_m w_g (ratio_g t_m + (1 - ratio_g) t_m^2 / 2)`` for kernel ``m`` in group ``g = groups[m]``."""

    groups: tuple[int, ...] = ()
    ratios: tuple[float, ...] = ()
    group_weights: tuple[float, ...] = ()
    name: ClassVar[str] = "group_mixture"
    separable: ClassVar[bool] = True

    @property
    def linear_and_ridge(self):
        groups = np.asarray(self.groups, dtype=np.intp)
        size = self.strength * np.asarray(self.group_weights)[groups]
        ratio = np.asarray(self.ratios)[groups]
        return size * ratio, size * (1 - ratio)

    @property
    def sparse(self):
        return max(self.ratios) > 0

    def value(self, t):
        linear, ridge = self.linear_and_ridge
        with np.errstate(over="ignore"):
            return float(np.sum(t * (linear + ridge * t / 2)))

    def conjugate(self, u):
        linear, ridge = self.linear_and_ridge
        if np.any(u[ridge == 0] > linear[ridge == 0] * (1 + 1e-12)):
            return np.inf
        with np.errstate(over="ignore"):
            return float(np.sum(np.maximum(u - linear, 0)[ridge > 0] ** 2 / (2 * ridge[ridge > 0])))

    def dual_scale(self, u):
        linear, ridge = self.linear_and_ridge
        return float(np.min(linear[ridge == 0] / np.maximum(u, linear)[ridge == 0], initial=1.0))

    def prox(self, t, step):
        linear, ridge = self.linear_and_ridge
        return np.maximum(t - step * linear, 0) / (1 + step * ridge)

    def strength_max(self, u):
        linear = self.linear_and_ridge[0] / self.strength
        return float(np.max(np.divide(u, linear, out=np.where(u > 0, np.inf, 0.0), where=linear > 0)))

    def take(self, kernels):
        return replace(self, groups=tuple(np.asarray(self.groups)[kernels].tolist()))

    def derivative(self, t):
        linear, ridge = self.linear_and_ridge
        return linear + ridge * t

    def second_derivative(self, t):
        return self.linear_and_ridge[1]

    def norm_bound(self, d):
        linear, ridge = self.linear_and_ridge
        return (linear / (1 - ridge * d)) ** 2, linear**2 * ridge / (1 - ridge * d) ** 3


def main() -> None:
    """Keep linear kernels without selection, select Gaussians, and choose the strength by cross-validation."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (120, 4))
    y = X[:, 0] - X[:, 1] + np.sin(5 * X[:, 2]) + 0.1 * rng.standard_normal(120)
    linear = [(f"linear x{j}", Linear(), [j]) for j in range(4)]
    curved = [(f"x{j} w{w}", Gaussian(w), [j]) for j in range(4) for w in (0.1, 0.5)]
    bank = KernelBank(linear + curved)
    penalty = GroupMixture(1.0, groups=(0,) * 4 + (1,) * 8, ratios=(0.0, 0.9), group_weights=(0.5, 1.0))

    fitted = bank.fit(X)
    kernels = fitted.block(fitted.prepare(X), fitted.prepare(X))
    solution = solve(kernels, y, loss="squared", regularizer=replace(penalty, strength=2.0), tol=1e-8)
    active = [name for name, d in zip(fitted.names, solution.kernel_weights, strict=True) if d > 0]
    print(f"{solution.solver}: gap {solution.certificate.relative_gap:.0e}, kernels {active}")

    model = MKLRegressor(bank, penalty=replace(penalty, strength=1.2), tol=1e-8).fit(X, y)
    print(f"R2 {model.score(X, y):.3f} with {(model.kernel_weights_ > 0).sum()} of {len(fitted.names)} kernels")
    path = regularization_path(X, y, kernels=bank, penalty=penalty, alphas=[0.1, 0.01, 0.001, 0.0001], tol=1e-8)
    print("kernels along the path:", path.summary()["n_active"].tolist())
    chosen = MKLRegressorCV(bank, penalty=penalty, cv=3, alphas=np.geomspace(0.1, 1e-5, 5)).fit(X, y)
    print(f"alpha chosen by cross-validation: {chosen.alpha_:.3g}")


if __name__ == "__main__":
    main()
