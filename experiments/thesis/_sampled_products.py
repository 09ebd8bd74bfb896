"""SGD-1s alone: the descent, one learner on its average, and the model as a polynomial.

``PolynomialMKL(polish=False)`` learns the same, certifies a few averages on the way, and evaluates each of thousands of
kernels by itself: what a search costs is told more fairly without.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from manykernels.discovery.polynomial.descent import MirrorDescent
from manykernels.discovery.polynomial.family import PolynomialFamily
from manykernels.discovery.polynomial.product_bases import RankOneBase
from manykernels.objective.losses import get_loss
from manykernels.objective.problem import Problem
from manykernels.solvers.learners.learners import fit_learner

Array = NDArray[Any]


@dataclass(eq=False)
class SampledProducts:
    """Mirror descent on products of at most ``degree`` columns for the squared loss, ``p = 2``, with an intercept.

    Parameters
    ----------
    degree : int
    alpha : float
        Strength, relative to the mean loss.
    n_steps, batch : int
        Solutions, and draws a solution.
    seed : int
        Of the draws.
    degree_penalties : tuple of float, optional
        One a degree, from zero on.
    """

    degree: int
    alpha: float
    n_steps: int
    batch: int
    seed: int
    degree_penalties: tuple[float, ...] | None = None

    def fit(self, X: Array, y: Array) -> Self:
        """Descend, solve for the average weights, and keep one coefficient a product."""
        base = RankOneBase(np.ascontiguousarray(X.T))
        family = PolynomialFamily.create(base, self.degree, self.degree_penalties)
        strength = self.alpha * len(y)
        shell = Problem(base.stack([()]), y, get_loss("squared"), family.regularizer(strength))
        descent = MirrorDescent(family, shell, strength, np.random.default_rng(self.seed), batch=self.batch)
        for _ in range(self.n_steps):
            if not descent.step():
                break
        weights = descent.average()
        found = fit_learner(shell, descent.stack().combine(weights))
        kept = np.flatnonzero(weights)
        self.kernel_names_ = [descent.indices[m] for m in kept]
        self.coefficients_ = weights[kept] * (base.features(self.kernel_names_) @ found.rho)
        self.intercept_, self.dual_gap_, self._base = found.b, float("nan"), base
        return self

    def predict(self, X: Array) -> Array:
        """Return the values at new rows."""
        values: Array = self._base.features_of(np.ascontiguousarray(X.T), self.kernel_names_).T @ self.coefficients_
        return values + self.intercept_
