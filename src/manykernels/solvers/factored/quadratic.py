"""A quadratic with a penalty of groups, ``min_v q'v + v'Hv/2 + Omega(v)``: one loop, whatever kind of matrix H is.

A sweep minimizes over every group in turn. Sweeps over all groups and over nonzero groups alternate with joint steps of
the nonzero groups: Newton steps, conjugate gradients, or Anderson combinations. Kinds of H differ in the access: a
matrix (`quadratic_formed`), rows of factors (`quadratic_rows`), rows in bins (`quadratic_bins`), or products with
operators (`quadratic_products`).

D. Anderson, "Iterative procedures for nonlinear integral equations", Journal of the ACM 12 (1965).
"""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.optimize import brentq

from manykernels.objective.certificate import inner
from manykernels.objective.losses.curvature import Curvature
from manykernels.solvers.factored.group_penalty import GroupPenalty
from manykernels.solvers.factored.objective import FactoredObjective, Point
from manykernels.solvers.linear_systems import shortest_combination
from manykernels.validation.arrays import Array

NOTHING = np.zeros(0)
LINE_TOL = 0.1  # of the first slope on a line, below which a slope ends the search
JUST_AHEAD = 1e-9  # of a step: groups that leave zero have a slope there
Groups = Literal["all", "nonzero"]  # that a sweep updates


@dataclass(frozen=True)
class Expansion:
    """The loss to second order at a point of an objective, for a Newton step with the penalty."""

    objective: FactoredObjective
    point: Point
    slopes: Array  # of the loss in scores
    gradient: Array | None  # in coefficients, for steps that need it
    curvature: Curvature  # in scores


@dataclass
class Position:
    """Coefficients, with the linearly dependent quantities; for a step, the changes of all four."""

    v: Array
    slopes: Array  # of the quadratic, in coefficients or in scores
    change: Array  # of scores since the start, empty where slopes give it
    shift: Any  # of intercepts since the start

    @property
    def arrays(self) -> tuple[Any, ...]:
        """All four."""
        return self.v, self.slopes, self.change, self.shift

    def copy(self) -> Position:
        """Return an independent copy."""
        return Position(*map(np.copy, self.arrays))

    def add(self, step: Position, size: float = 1.0) -> None:
        """Move by a multiple of a step."""
        self.v = self.v + size * step.v
        self.slopes = self.slopes + size * step.slopes
        self.change = self.change + size * step.change
        self.shift = self.shift + size * step.shift


class Quadratic(abc.ABC):
    """A kind of H, with the penalty."""

    penalty: GroupPenalty
    most_sweeps: ClassVar[int]
    sweeps_of_some: ClassVar[int]  # over groups that are not zero, up to the next one over all groups
    sweeps_apart: ClassVar[int] = 0  # before each joint step, 0 where combinations of positions take its place
    from_coefficients: ClassVar[bool] = False  # whether scores after a step in single precision are those of ``v``
    enough = False  # whether the last step ended because its gap seemed small enough
    ended = True  # whether it ended before its last sweep
    sweeps = 0  # that it took, where their number says how long the next ones take
    bend = 0.0  # of the quadratic along it, where the rows of the quadratic may miss some

    @classmethod
    def create(cls, objective: FactoredObjective, curvature: Curvature, rows: int) -> Any:
        """Return the quadratic of an objective, summed over a sample of rows if separable over rows."""
        kind: Any = cls
        return kind(objective, curvature)

    @abc.abstractmethod
    def step(self, here: Expansion, tol: float) -> tuple[Array, Any, Array]:
        """Minimize the quadratic model at a point to a gap of about ``tol``, or as far as so many sweeps come.

        Returns coefficients, the change of intercepts and that of scores.
        """

    @abc.abstractmethod
    def sweep(self, at: Position, groups: Groups) -> tuple[float, float]:
        """Update groups in turn; return the squared move of scores, and a gap."""

    @abc.abstractmethod
    def image(self, step: Position) -> Array:
        """Return the dual image of a step, for the change of the quadratic as a product with slopes."""

    def step_jointly(self, at: Position, tol: float) -> bool:
        """Move all groups not zero together; return whether the gap is at most ``tol`` now."""
        return False

    def length(self, at: Position, step: Position) -> float:
        """Return the minimizing multiple of a step, in [0, 1]."""
        image = self.image(step)
        return line_minimum(self.penalty, at.v, step.v, inner(at.slopes, image), inner(step.slopes, image))

    def advance(self, at: Position, step: Position) -> None:
        """Move along a step to the minimum on the line."""
        at.add(step, self.length(at, step))

    def minimize(self, at: Position, tol: float, last_move: float = 0.0) -> tuple[int, bool, bool]:
        """Minimize from a position, until the gap is about ``tol`` or a sweep moves little beside the largest one.

        Returns the number of sweeps, whether the gap seems small enough, and whether that ended before the last sweep.
        """
        past, largest, last = list[tuple[Array, Position]](), 0.0, np.inf
        groups: Groups = "all"
        remembered = 5  # positions that are combined
        slow_fall = 0.25  # of the squared move of a sweep: the next one that leaves more is combined with those before
        for number in range(1, self.most_sweeps + 1):
            before = at.v.copy()
            moved, gap = self.sweep(at, groups)
            slow, last, largest, enough = moved > slow_fall * last, moved, max(largest, moved), gap <= tol
            small = enough or moved <= last_move**2 * largest
            if groups == "all" and small:
                return number, enough, True
            groups = "all" if small or number % self.sweeps_of_some == 0 else "nonzero"
            if small:
                continue
            if self.sweeps_apart:
                if number % self.sweeps_apart == 0 and self.step_jointly(at, tol):
                    return number, True, False
            elif slow:
                past = [*past[1 - remembered :], (at.v - before, at.copy())]
                if len(past) > 1:
                    self.advance(at, combined_step(past))
        return self.most_sweeps, enough, False


def combined_step(past: list[tuple[Array, Position]]) -> Position:
    """Return the step to the combination of past positions with the shortest combined moves."""
    moves, positions = zip(*past, strict=True)
    parts = shortest_combination(np.array(moves))
    parts[-1] -= 1.0  # the last position, from which the step begins
    return Position(*(_combined(parts, each) for each in zip(*(one.arrays for one in positions), strict=True)))


def _combined(parts: Array, arrays: tuple[Array, ...]) -> Array:
    """Return the linear combination of arrays, in their precision."""
    rows = np.array(arrays)
    found = parts.astype(rows.dtype, copy=False) @ rows.reshape(len(rows), -1)
    return np.asarray(found.reshape(rows.shape[1:]))


def line_minimum(penalty: GroupPenalty, v: Array, step: Array, linear: float, square: float) -> float:
    """Return the step size in [0, 1] that approximately minimizes ``linear s + square s^2 / 2 + Omega(v + s step)``."""
    heads = penalty.starts[:-1]
    base, cross, ahead = np.add.reduceat(np.array([v * v, v * step, step * step]), heads, axis=1)

    def slope(s: float) -> float:
        rates = cross + s * ahead
        norms = np.sqrt(np.maximum(base + s * (cross + rates), 0.0))
        rates = np.divide(rates, norms, out=np.sqrt(ahead), where=norms > 0)
        return linear + s * square + float(penalty.slopes(norms) @ rates)

    # Just ahead of zero, groups that leave it together have the shares of their norm; at zero each has the whole.
    first = slope(JUST_AHEAD)
    if first >= 0.0:
        return 0.0
    last = slope(1.0)
    if last <= -LINE_TOL * first:
        return 1.0

    def rest(s: float) -> float:
        found = first if s == JUST_AHEAD else last if s == 1.0 else slope(s)
        return found if abs(found) > -LINE_TOL * first else 0.0

    return float(brentq(rest, JUST_AHEAD, 1.0, xtol=1e-4))


def inverse_of_shifts(curvatures: Array) -> Array:
    """Return pseudo-inverses of curvatures in shifts of all scores, (blocks, outputs, outputs)."""
    if curvatures.shape[1] == 1:
        return np.divide(1.0, curvatures, out=np.zeros_like(curvatures), where=curvatures > 0)
    no_shift = 1e-5  # of the largest sum of curvatures, below which intercepts are left as they are
    return np.asarray(np.linalg.pinv(curvatures, rcond=no_shift, hermitian=True))
