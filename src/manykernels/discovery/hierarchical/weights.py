"""The kernel side of the primal-dual Newton system for the hierarchical norm.

For fixed dual coefficients the group weights solve ``max sum_w zeta_w(eta) u_w^2 / (2 lambda)`` on the simplex. With
slacks ``s_v >= 0`` of ``eta_v >= 0`` and scaled directions ``deta = eta xi`` the linearized conditions are

    (diag(s eta) + diag(pi'h) - pi' diag(h) pi) xi + nu eta = pi'h / 2 + target + pi' (zeta x) / lambda,   eta'xi = 0

where ``h = zeta u^2 / lambda`` and ``x_w = rho'K_w drho``. The matrix is positive semidefinite since ``zeta`` is
concave; without the slacks it is singular along ``xi = 1``, which the constraint excludes. Kernel weights
``zeta / lambda`` change by ``zeta (pi xi) / lambda``, so that their coupling to ``x`` is a dense, positive semidefinite
matrix of rank ``p - 1``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from manykernels.discovery.hierarchical.norm import HierarchicalNorm
from manykernels.discovery.hierarchical.tuning import FARTHEST, JITTERS, MOST_GROWTH, SMALLEST_RELATIVE_SLACK
from manykernels.solvers.engines.primal_dual.complementarity import lift
from manykernels.validation.arrays import Array


@dataclass
class HierarchicalWeights:
    """Group weights ``eta`` on the simplex with their slacks; what the Newton iteration asks of the kernels."""

    norm: HierarchicalNorm
    eta: Array
    slack: Array
    weights: Array = field(init=False)
    _target: float = field(default=0.0, init=False)
    _zeta: Array = field(init=False, repr=False)
    _shares: Array = field(init=False, repr=False)
    _scale: Array = field(init=False, repr=False)
    _level: float = field(default=1.0, init=False)
    _factor: Array = field(init=False, repr=False)
    _normal: Array = field(init=False, repr=False)
    _fixed: Array = field(init=False, repr=False)
    _growth: Array = field(init=False, repr=False)
    _dweights: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._set_weights()

    @classmethod
    def start(cls, norm: HierarchicalNorm, squared_norms: Array, eta: Array) -> HierarchicalWeights:
        """Return variables at group weights ``eta`` with slacks that fit these squared norms."""
        gains = norm.dual_squares(eta, squared_norms) / (2.0 * norm.strength)
        top = max(1.1 * float(gains.max()), np.finfo(np.float64).tiny)
        return cls(norm, eta, np.maximum(top - gains, SMALLEST_RELATIVE_SLACK * top))

    def grown(self, norm: HierarchicalNorm, squared_norms: Array, share: float) -> HierarchicalWeights:
        """Return variables on a larger hull, whose first nodes are the present ones.

        New group weights are in proportion to ``d_v``, for which the shares among new groups are those of the bound
        on the descendants of a source.
        """
        added = norm.penalties[self.eta.size :]
        eta = np.concatenate([self.eta, share * added / max(float(added.max(initial=0.0)), 1e-300)])
        return HierarchicalWeights.start(norm, squared_norms, eta / eta.sum())

    @property
    def n_pairs(self) -> int:
        """Number of complementarity products."""
        return self.eta.size

    def complementarity(self) -> float:
        """Return the sum of the products of group weights and slacks."""
        return float(self.eta @ self.slack)

    def recenter(self, barrier: float) -> None:
        """Lift products to at least ``barrier``, and return to the simplex."""
        self.slack, eta = lift(self.slack, self.eta, barrier, max(self._level, float(self.slack.max())))
        self.eta = eta / eta.sum()
        self._set_weights()

    def linearize(self, squared_norms: Array, target: float) -> tuple[Array, Array]:
        """Return ``(factor, shift)``: ``dweights = shift + factor' factor x`` for the products ``x``."""
        strength = self.norm.strength
        heights = self._zeta * squared_norms / strength
        pulls = heights @ self._shares
        self._target, self._level = target, max(0.5 * float(pulls.sum()), np.finfo(np.float64).tiny)
        self._factorize(heights, pulls)
        wanted = 0.5 * pulls + self._wanted() + self.slack * self.eta
        self._fixed = self._projected(wanted) + self._normal * (1.0 - self.eta.sum()) / (self.eta @ self._normal)
        shift = self._zeta * (self._shares @ self._fixed) / strength
        return self._coupling_factor(), shift

    def set_direction(self, products: Array) -> None:
        """Derive all directions from ``products = q_w'drho``."""
        pull = (self._zeta * products) @ self._shares / self.norm.strength
        self._growth = self._fixed + self._projected(pull)
        self._dweights = self._zeta * (self._shares @ self._growth) / self.norm.strength

    @property
    def _dslack(self) -> Array:
        return self._wanted() / self.eta - self.slack * self._growth

    def move(self, step: float) -> None:
        """Take the step.

        Group weights shrink along a straight line of their reciprocals, so that they stay positive; kernel weights
        follow from them exactly, not from their linearization. Slacks are kept near their targets: they stand for
        nothing else, and one that is too small lets its group weight grow without bound.
        """
        growth = np.clip(step * self._growth, -MOST_GROWTH, MOST_GROWTH)
        slack = self.slack + step * self._dslack
        eta = self.eta * np.where(growth > 0, 1.0 + growth, 1.0 / (1.0 - growth))
        self.eta = eta / eta.sum()
        central = self._target / self.eta
        self.slack = np.clip(slack, central / FARTHEST, FARTHEST * central)
        self._set_weights()

    def longest_step(self) -> float:
        """Return the step within which the linearization means anything."""
        return min(1.0, MOST_GROWTH / max(float(np.abs(self._growth).max()), MOST_GROWTH))

    def squared_bound(self) -> Array:
        """Return the squared norms that the node penalties alone would allow."""
        return 2.0 * self.norm.strength * self._level * self.norm.squares

    def weight_change(self) -> Array:
        """Return the current direction of the weights."""
        return self._dweights

    def inactive(self, factor: float = 1.0) -> Array:
        """Return which nodes have zero weight: those with a group that has, in doubt one small by ``factor``."""
        groups = self.eta * self._level < factor * self.slack
        chosen: Array = self.norm.above @ groups > 0
        return chosen

    def _wanted(self) -> Array:
        """Return what the products of slack and group weight are to change by."""
        return self._target - self.slack * self.eta

    def _set_weights(self) -> None:
        self._zeta, self._shares = self.norm.shares(self.eta)
        self.weights = self._zeta / self.norm.strength

    def _factorize(self, heights: Array, pulls: Array) -> None:
        matrix = -(self._shares.T * heights) @ self._shares
        # On the constraint this term is constant; off it, it lifts the direction in which all weights grow alike.
        matrix += max(float(pulls.sum()), self.complementarity()) * np.outer(self.eta, self.eta)
        matrix[np.diag_indices_from(matrix)] += pulls + self.slack * self.eta
        self._scale = 1.0 / np.sqrt(np.maximum(matrix.diagonal(), np.finfo(np.float64).tiny))
        self._factor = _robust_cholesky(matrix * self._scale * self._scale[:, None])
        self._normal = self._solve(self.eta)

    def _solve(self, right: Array) -> Array:
        half = solve_triangular(self._factor, self._scale * right, lower=True, check_finite=False)
        return self._scale * solve_triangular(self._factor, half, lower=True, trans="T", check_finite=False)

    def _projected(self, right: Array) -> Array:
        """Solve with the constraint ``eta'xi = 0``."""
        x = self._solve(right)
        return x - self._normal * ((self.eta @ x) / (self.eta @ self._normal))

    def _coupling_factor(self) -> Array:
        right = (self._shares.T * self._zeta) * (self._scale[:, None] / self.norm.strength)
        factor = solve_triangular(self._factor, right, lower=True, check_finite=False)
        normal = solve_triangular(self._factor, self._scale * self.eta, lower=True, check_finite=False)
        normal /= np.linalg.norm(normal)
        return factor - np.outer(normal, normal @ factor)


def _robust_cholesky(matrix: Array) -> Array:
    """Factorize a matrix of unit diagonal, with a jitter only if it is needed."""
    for jitter in JITTERS:
        try:
            return cholesky(matrix + jitter * np.eye(len(matrix)), lower=True)
        except LinAlgError:
            continue
    raise LinAlgError("the Newton matrix of the group weights is not positive definite")
