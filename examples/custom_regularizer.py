"""A regularizer of one's own: block 1-norm and ridge, mixed in other proportions for each group of kernels.

A regularizer of linear terms and ridge terms or powers is its `curve`: value, conjugate, prox, derivatives and bounds
follow, and all solvers on matrices and on factors run. Kernels of a group with ratio 0 always keep a weight.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from manykernels import Gaussian, KernelBank, Linear, MKLRegressor, MKLRegressorCV, regularization_path, solve
from manykernels.objective import Curve, Regularizer


@dataclass(frozen=True)
class GroupMixture(Regularizer):
    """``C sum_m w_g (ratio_g t_m + (1 - ratio_g) t_m^2 / 2)`` for kernel ``m`` in group ``g = groups[m]``."""

    groups: tuple[int, ...] = ()
    ratios: tuple[float, ...] = ()
    group_weights: tuple[float, ...] = ()
    name: ClassVar[str] = "group_mixture"
    separable: ClassVar[bool] = True

    @cached_property
    def curve(self):
        groups = np.asarray(self.groups, dtype=np.intp)
        size = self.strength * np.asarray(self.group_weights)[groups]
        ratio = np.asarray(self.ratios)[groups]
        return Curve(linear=size * ratio, ridge=size * (1 - ratio))

    def take(self, kernels):
        return replace(self, groups=tuple(np.asarray(self.groups)[kernels].tolist()))


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
    solution = solve(kernels, y, loss="squared", penalty=replace(penalty, strength=2.0), tol=1e-8)
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
