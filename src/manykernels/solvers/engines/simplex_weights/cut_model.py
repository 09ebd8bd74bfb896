"""The piecewise linear lower model of a convex function of kernel weights on the simplex."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import LinAlgError
from scipy.optimize import OptimizeResult, linprog

from manykernels.solvers.engines.cone_program import ConeProgram
from manykernels.solvers.engines.simplex_weights.tuning import ACCURACY, NEGLIGIBLE, SMALLEST_GAP

if TYPE_CHECKING:
    from manykernels.solvers.engines.simplex_weights.point import SimplexPoint
    from manykernels.validation.arrays import Array

# HiGHS now and then takes a bounded program for an unbounded one; what fools one of these does not fool the next.
ATTEMPTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("highs-ds", {}),
    ("highs-ds", {"presolve": False}),
    ("highs-ipm", {}),
)


@dataclass(frozen=True, eq=False)
class CutMinimum:
    """Where the model is smallest, how small, and the average of dual coefficients that proves it.

    Attributes
    ----------
    theta : ndarray of shape (M,)
    value : float
        A lower bound of the function on the simplex, up to the accuracy of the linear program.
    rho : ndarray of shape (N,)
        ``sum_t pi_t rho_t`` with the multipliers ``pi`` of the cuts. The dual is concave, so its value here is no
        smaller than ``value``: the certificate of the library sees what the linear program promises.
    """

    theta: Array
    value: float
    rho: Array


@dataclass(frozen=True, eq=False)
class CutModel:
    """Cuts ``J(theta) >= constants_t + slopes_t'theta``, one a learner.

    Attributes
    ----------
    constants : ndarray of shape (T,)
    slopes : ndarray of shape (T, M)
    coefficients : ndarray of shape (T, N)
        The dual coefficients that each cut comes from.
    """

    constants: Array
    slopes: Array
    coefficients: Array

    @classmethod
    def of(cls, point: SimplexPoint) -> CutModel:
        """Return the model with the cut at one point."""
        return cls(np.array([point.cut_intercept]), point.slopes[None], point.fit.rho[None])

    def with_cut(self, point: SimplexPoint) -> CutModel:
        """Return the model with the cut at one more point."""
        new = CutModel.of(point)
        pairs = ((getattr(self, name), getattr(new, name)) for name in ("constants", "slopes", "coefficients"))
        return CutModel(*(np.concatenate(pair) for pair in pairs))

    def value(self, theta: Array) -> float:
        """Return the model at ``theta``."""
        return float((self.constants + self.slopes @ theta).max())

    def minimum(self, center: Array, upper: float, gap: float) -> CutMinimum:
        """Minimize the model over the simplex, by HiGHS.

        Cuts differ by the gap, and weights move by its square root: with ``theta = center + eta x`` and
        ``tau = upper + gap t`` the program keeps entries of order one, while HiGHS in plain units knows ten digits.
        """
        zoom = _Zoom.at(center, upper, gap, np.abs(self.slopes).max())
        rows, right = zoom.cuts(self.constants, self.slopes)
        n_cuts, n_kernels = rows.shape
        found = _solved(
            c=np.append(np.zeros(n_kernels), 1.0),
            A_ub=np.hstack([rows, -np.ones((n_cuts, 1))]),
            b_ub=right,
            A_eq=np.append(np.ones(n_kernels), 0.0)[None],
            b_eq=[0.0],
            bounds=[*((low, None) for low in zoom.lowest), (None, None)],
        )
        shares = np.maximum(-found.ineqlin.marginals, 0.0)
        rho = (shares / shares.sum()) @ self.coefficients
        return CutMinimum(zoom.weights(found.x[:-1]), upper + zoom.height * float(found.x[-1]), rho)

    def nearest(self, theta: Array, level: float, center: Array, upper: float, gap: float) -> Array:
        """Return the point of the simplex nearest to ``theta`` at which the model is at most ``level``, by Clarabel."""
        zoom = _Zoom.at(center, upper, gap, np.abs(self.slopes).max())
        rows, right = zoom.cuts(self.constants, self.slopes)
        right = right + (level - upper) / zoom.height
        sizes = np.maximum(np.abs(rows).max(axis=1), np.finfo(np.float64).tiny)
        program, indices = ConeProgram(theta.size), np.arange(theta.size)
        program.quadratic[:], program.linear[:] = 1.0, (center - theta) / zoom.width
        program.add("Nonnegative", right / sizes, -rows / sizes[:, None], indices[None])
        program.add("Nonnegative", -zoom.lowest, np.ones((1, 1)), indices[:, None])
        program.add("Zero", np.zeros(1), np.ones((1, theta.size)), indices[None])
        options = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), ACCURACY)
        return zoom.weights(program.solve(**options).x, NEGLIGIBLE)


def _solved(**program: Any) -> OptimizeResult:
    """Solve a linear program, in another way where HiGHS fails."""
    accuracy = {"primal_feasibility_tolerance": ACCURACY, "dual_feasibility_tolerance": ACCURACY}
    for method, options in ATTEMPTS:
        found = linprog(**program, method=method, options=accuracy | options)
        if found.x is not None:
            return found
    raise LinAlgError(f"HiGHS could not solve the linear program of the cuts: {found.message}")


@dataclass(frozen=True, eq=False)
class _Zoom:
    """``theta = center + width x``, ``tau = upper + height t``."""

    center: Array
    upper: float
    width: float
    height: float

    @classmethod
    def at(cls, center: Array, upper: float, gap: float, steepness: float) -> _Zoom:
        height = min(max(gap, SMALLEST_GAP * steepness), steepness) or 1.0
        return cls(center, upper, np.sqrt(height / steepness) if steepness > 0 else 1.0, height)

    @property
    def lowest(self) -> Array:
        """``x`` where weights are zero."""
        return -self.center / self.width

    def cuts(self, constants: Array, slopes: Array) -> tuple[Array, Array]:
        """Return ``(rows, right)`` of ``rows x - t <= right``; since ``sum x = 0``, slopes count from a pivot's."""
        relative = slopes - slopes[:, [int(self.center.argmax())]]
        return relative * (self.width / self.height), (self.upper - constants - slopes @ self.center) / self.height

    def weights(self, x: Array, negligible: float = ACCURACY) -> Array:
        """Return ``theta``, exactly on the simplex, with zeros for what is negligible in ``x``."""
        theta = np.where(x > self.lowest + negligible, self.center + self.width * x, 0.0)
        theta = np.maximum(theta, 0.0)
        return theta / theta.sum()
