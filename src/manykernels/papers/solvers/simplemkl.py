"""SimpleMKL: reduced gradient over kernel weights on the simplex.

With ``J`` and the slopes ``g_m = -u_m^2 / (2 lambda)`` of `simplex_point` and the pivot ``p``, the largest weight,

    D_m = g_p - g_m  (0 where theta_m = 0 and g_m > g_p),      D_p = -sum_{m != p} D_m
"""

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from manykernels.objective.problem import Problem
from manykernels.papers.solvers.simplex_point import SimplexMethod, SimplexPoint, falls, search_line, stepped
from manykernels.solvers.solution import Model
from manykernels.validation.arrays import Array


@dataclass
class _State:
    point: SimplexPoint
    pivot: int = -1
    face: Array = field(default_factory=lambda: np.zeros(0, dtype=bool))
    gradient: Array = field(default_factory=lambda: np.zeros(0))
    direction: Array = field(default_factory=lambda: np.zeros(0))
    best_gap: float = np.inf
    idle: int = 0


@dataclass(frozen=True, kw_only=True)
class SimpleMKL(SimplexMethod):
    """Reduced gradient descent on kernel weights (Rakotomamonjy et al. 2008).

    Minimizes ``J(theta) = min_{f,b} sum_i s_i l(y_i, f_i + b) + (lambda/2) sum_m t_m^2 / theta_m`` over the simplex.
    With ``g = dJ/dtheta`` and the pivot ``p``, the largest weight, the direction is::

        D_m = g_p - g_m (0 where theta_m = 0 and g_m > g_p),       D_p = -sum_{m != p} D_m

    The longest step along it sets a single weight to zero; it is taken, with the direction adapted, as long as ``J``
    falls. A line search between the last two points ends the iteration. Every value of ``J`` is a learner fitted to the
    combined kernel, warm-started from the one before.

    Parameters
    ----------
    conjugate : bool
        Whether directions on the same face of the simplex are made conjugate (Polak-Ribiere). The published method is
        False: it zigzags where kernels are correlated.

    Notes
    -----
    The published program certifies the end of a bracket instead of the weights that it returns; here the certificate
    is that of the returned model.

    References
    ----------
    A. Rakotomamonjy, F. Bach, S. Canu, Y. Grandvalet, "SimpleMKL", JMLR 9 (2008).

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.objective.problem import Problem
    >>> from manykernels.objective.regularizers import Simplex
    >>> kernels = np.stack([np.eye(4), np.ones((4, 4)), np.outer([1, -1, 1, -1], [1, -1, 1, -1])])
    >>> problem = Problem(kernels, [1.0, -1.0, 1.0, -1.0], "hinge", Simplex(0.1))
    >>> SimpleMKL(tol=1e-6).solve(problem).kernel_weights.round(6).tolist()
    [0.0, 0.0, 10.0]
    """

    conjugate: bool = True

    name: ClassVar[str] = "simplemkl"

    @property
    def is_published(self) -> bool:
        return not self.conjugate

    def initialize(self, problem: Problem, start: Model) -> _State:
        """Start from the weights of the given model, or from equal weights."""
        return _State(self.first_point(problem, start))

    def step(self, problem: Problem, state: _State) -> None:
        """Move to the boundary while useful, then search the line."""
        self._choose_direction(state)
        if not state.direction.any():
            return
        point, direction, length, end = self._cross_faces(state)
        state.point = search_line(point, direction, length, end, self.tol) if direction.any() else point

    def worth_certifying(self, problem: Problem, state: _State) -> bool:
        """Certify after the estimated gap has shrunk."""
        gap = state.point.relative_gap
        worth_certifying = 0.9  # a certificate costs a pass: only for gaps that shrank by as much
        if gap > self.tol and gap > worth_certifying * state.best_gap and state.direction.any():
            state.idle += 1
            # iterations without one, after which each is certified, so that no progress counts as stalled
            most_idle = 30
            return self.conjugate and state.idle > most_idle
        state.idle = 0
        state.best_gap = min(gap, state.best_gap)
        return True

    def _choose_direction(self, state: _State) -> None:
        theta, slopes = state.point.theta, state.point.slopes
        same_face = state.face.size > 0 and bool(((theta > 0) == state.face).all())
        pivot = state.pivot if self.conjugate and same_face else int(theta.argmax())
        gradient = reduced_direction(theta, slopes, pivot)
        direction = gradient
        if self.conjugate and same_face:
            direction = _conjugate(gradient, state.gradient, state.direction, pivot)
            leaves = bool((direction[theta == 0] < 0).any())
            direction = gradient if leaves or slopes @ direction >= 0.1 * (slopes @ gradient) else direction
        state.pivot, state.face, state.gradient, state.direction = pivot, theta > 0, gradient, direction

    def _cross_faces(self, state: _State) -> tuple[SimplexPoint, Array, float, SimplexPoint]:
        """Return the last point with a smaller value, the direction there, the length, and the point at the end."""
        point, direction = state.point, state.direction
        while True:  # at most one turn a kernel, whose direction ends at zero
            length, blocking = longest_step(point.theta, direction)
            end = point.move(stepped(point.theta, length * direction, blocking), self.tol)
            if not falls(point, end) and float(end.slopes @ direction) > 0:
                return replace(point, steps=end.steps), direction, length, end
            point, direction = end, direction.copy()
            direction[[blocking, state.pivot]] = 0.0
            direction[state.pivot] = -direction.sum()
            if blocking == state.pivot or float(point.slopes @ direction) >= 0:
                return point, np.zeros_like(direction), 0.0, point


def reduced_direction(theta: Array, slopes: Array, pivot: int) -> Array:
    """Return the negative reduced gradient: a descent direction of zero sum for ``J``."""
    direction = slopes[pivot] - slopes
    slope_rounding = 1e-13
    direction[np.abs(direction) <= slope_rounding * np.abs(slopes).max()] = 0.0
    direction[(theta == 0) & (direction < 0)] = 0.0
    direction[pivot] = 0.0
    direction[pivot] = -direction.sum()
    return direction


def longest_step(theta: Array, direction: Array) -> tuple[float, int]:
    """Return the longest step with nonnegative weights, and the weight set to zero."""
    falling = np.flatnonzero(direction < 0)
    lengths = theta[falling] / -direction[falling]
    first = int(lengths.argmin())
    return float(lengths[first]), int(falling[first])


def _conjugate(gradient: Array, previous_gradient: Array, previous_direction: Array, pivot: int) -> Array:
    """Return the Polak-Ribiere direction in the coordinates without the pivot."""
    free = np.arange(gradient.size) != pivot
    now, before = gradient[free], previous_gradient[free]
    weight = max(0.0, float(now @ (now - before)) / float(before @ before)) if before.any() else 0.0
    direction = gradient + weight * previous_direction
    direction[pivot] = -direction[free].sum()
    return direction
