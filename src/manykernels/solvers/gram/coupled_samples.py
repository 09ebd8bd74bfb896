"""The sample side for losses that couple samples: coefficients with scores tracked on their own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from manykernels.solvers.gram.newton_system import GroupedNewtonSystem, add_rank_update
from manykernels.solvers.gram.tuning import LARGEST_COUPLED_CHANGE

if TYPE_CHECKING:
    from manykernels.objective.losses.bound import CoupledLossBound
    from manykernels.validation.arrays import Array


@dataclass
class CoupledSamples:
    """Dual coefficients ``rho`` and scores ``z``, with ``rho + grad L(z) = 0`` linearized in ``z``.

    With the Hessian ``H`` at ``z``, ``dz = shift - H^- drho``, where ``H^-`` is a matrix in the place of the diagonal
    that losses of single samples have. Shifts of a whole group of scores are invisible to the loss, and the
    coefficients of a group sum to zero, which borders of the Newton system see to.
    """

    loss: CoupledLossBound
    rho: Array
    z: Array
    n_pairs: int = 0
    groups: Array = field(init=False, repr=False)
    _inverse: Array | None = field(default=None, init=False, repr=False)
    _shift: Array = field(init=False, repr=False)
    _drho: Array = field(init=False, repr=False)
    _dz: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.groups = self.loss.groups()

    def scores(self) -> Array:
        return self.z

    def complementarity(self) -> float:
        return 0.0

    def linearize(self, target: float) -> tuple[Array, Array]:
        if self._inverse is None:
            self._inverse = self.loss.inverse_curvature(self.z)
            self._shift = -self._inverse @ (self.rho + self.loss.gradient(self.z))
        return self._inverse, self._shift

    def newton_system(self, kernels: Array, inverse: Array, update: tuple[Array, Array]) -> GroupedNewtonSystem:
        """Return the system for the weighted sum of the kernels, the ``H^-`` and the ``add_rank_update``."""
        matrix = self.loss.centered(self.loss.centered(kernels).T)
        matrix += inverse
        add_rank_update(matrix, *update)
        diagonal = np.diag_indices_from(matrix)
        matrix[diagonal] = np.where(self.groups.any(axis=1), matrix[diagonal], 1.0)
        return GroupedNewtonSystem(matrix, self.groups)

    def aligned(self, scores: Array) -> Array:
        """Return scores of a model, shifted group by group to the scores that are tracked."""
        shares = self.groups * self.loss.hazards(self.z)[:, None]
        totals = shares.sum(axis=0)
        means = np.divide((self.z - scores) @ shares, totals, out=np.zeros_like(totals), where=totals > 0)
        return scores + self.groups @ means

    def set_direction(self, drho: Array) -> None:
        inverse, shift = self.linearize(0.0)
        self._drho = drho
        self._dz = shift - inverse @ drho

    def longest_steps(self) -> tuple[float, float]:
        """Damp steps as far as scores change: exponentials of them make Newton's method cycle otherwise."""
        change = float(np.abs(self._dz).max())
        step = float(np.log1p(change)) / change if change > LARGEST_COUPLED_CHANGE else 1.0
        return step, step

    def complementarity_after(self, primal_step: float, dual_step: float) -> float:
        return 0.0

    def move(self, primal_step: float, dual_step: float) -> bool:
        self.z = self.z + dual_step * self._dz
        self.rho = self.rho + primal_step * self._drho
        self._inverse = None
        return True

    def recenter(self, barrier: float) -> None:
        """Nothing to do: no multipliers."""

    def shrink(self, scale: float) -> None:
        self.rho = scale * self.rho
        self._inverse = None

    def interior_steps(self, share: float) -> tuple[float, float]:
        return self.longest_steps()

    def dual_value(self, scale: float) -> float:
        """Estimate minus the conjugate at ``scale * rho``: at the scores that are tracked, less what they miss.

        It is concave in ``scale`` and zero at zero.
        """
        missing = float(np.abs(self.rho + self.loss.gradient(self.z)).sum())
        at_scores = self.loss.value(self.z) + float(self.rho @ self.z)
        return scale * (at_scores - missing * (1.0 + float(np.abs(self.z).max())))

    def merit_slope(self) -> float:
        return -float(self.z @ self._drho)

    def merit_after(self, step: float) -> float:
        return -float(self.z @ (self.rho + step * self._drho))
