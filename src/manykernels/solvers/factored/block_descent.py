"""Block descent on one quadratic model, group after group over rows: for ranks whose Hessian costs more than sweeps.

    min_{v, b}  g'(Z d + c) + (Z d + c)' W (Z d + c) / 2 + Omega(v),    d = v - v_0,  c = b - b_0

with ``W = diag(s l'')`` and the slopes ``g = s l'`` at the present point. A group's own problem is solved exactly: in
the eigenbasis of ``Z_m' W Z_m`` it is one scalar equation (`group_penalty.group_minimizer`). Slopes are kept for all
rows, so that a group costs ``4 N r_m`` products and a sweep one reading of the factors; sweeps over the groups that are
not zero alternate with sweeps over all of them. Breheny and Huang, "Group descent algorithms for nonconvex penalized
linear and logistic regression models with grouped predictors", Statistics and Computing 25 (2015), without their
orthonormal groups.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from manykernels.compiled import compiled
from manykernels.grams.factored.operators import DenseOperator
from manykernels.grams.loops import FAST
from manykernels.objective.losses.curvature import Curvature
from manykernels.solvers.factored.group_penalty import group_minimizer
from manykernels.solvers.factored.objective import FactoredObjective, Point

Array = NDArray[Any]

USUAL_SWEEPS = 15  # that a step takes
PRODUCT_COST = 4.0  # of a product in a sweep, beside one in a matrix product (benchmarks/group_path.py)
SWEEPS = 30  # over the groups that are not zero, in one step
LAST_MOVE = 1e-2  # a sweep whose groups move by this part of the largest sweep's ends the step


@compiled(fastmath=FAST)
def group_slopes(Z: Array, slopes: Array, low: int, high: int, out: Array) -> None:
    """Set ``out[low:high]`` to the products of rows of ``Z`` with slopes (N,)."""
    for k in range(low, high):
        row, dot = Z[k], 0.0
        for i in range(slopes.size):
            dot += row[i] * slopes[i]
        out[k] = dot


@compiled(fastmath=FAST)
def add_group(Z: Array, weights: Array, step: Array, low: int, high: int, slopes: Array, change: Array) -> None:
    """Add what a step (r,) in one group does to scores and to the slopes of the quadratic."""
    image = np.zeros(slopes.size)
    for k in range(low, high):
        row, size = Z[k], step[k]
        for i in range(image.size):
            image[i] += size * row[i]
    for i in range(image.size):
        change[i] += image[i]
        slopes[i] += weights[i] * image[i]


@compiled(fastmath=FAST)
def sweep_rows(
    Z: Array,
    weights: Array,
    starts: Array,
    eigenvalues: Array,
    linear: Array,
    curvature: Array,
    power: Array,
    q: float,
    strength: float,
    coupled: bool,
    everything: bool,
    v: Array,
    slopes: Array,
    change: Array,
) -> float:
    """Let every group take its turn, or every one that is not zero; return the square of how far scores moved.

    Z is (rank, N), its blocks have ``Z_m W Z_m' = diag(eigenvalues)``; coefficients, slopes of the quadratic and the
    change of scores are updated.
    """
    p, new = np.empty(v.size), np.empty(v.size)
    moved, total = 0.0, 0.0
    if coupled:
        for m in range(linear.size):
            total += power[m] * np.sqrt(np.dot(v[starts[m] : starts[m + 1]], v[starts[m] : starts[m + 1]])) ** q
    for m in range(linear.size):
        low, high = starts[m], starts[m + 1]
        old, own = v[low:high], eigenvalues[low:high]
        size = np.sqrt(np.dot(old, old))
        if size == 0.0 and not everything:
            continue
        group_slopes(Z, slopes, low, high, p)
        p[low:high] -= own * old
        rest = max(total - power[m] * size**q, 0.0) if coupled else 0.0
        group_minimizer(p[low:high], own, linear[m], curvature[m], power[m], q, strength, coupled, rest, new[low:high])
        if coupled:
            total = rest + power[m] * np.sqrt(np.dot(new[low:high], new[low:high])) ** q
        step = 0.0
        for k in range(low, high):
            new[k] -= v[k]
            step += own[k - low] * new[k] ** 2
        if step > 0.0:
            add_group(Z, weights, new, low, high, slopes, change)
            v[low:high] += new[low:high]
            moved += step
    return moved


class DescentModel:
    """The factors of a working set in the eigenbases of one curvature, which the steps of a solve share."""

    def __init__(self, objective: FactoredObjective, weights: Array) -> None:
        n, starts = objective.problem.n_samples, objective.penalty.starts
        self.weights = np.ascontiguousarray(weights, dtype=np.float64)
        self._starts, self._bases = starts, []
        self.Z = np.empty((objective.rank, n))
        self.eigenvalues = np.empty(objective.rank)
        every = np.arange(n)
        for operator, low in zip(objective.operators, objective.ends[:-1], strict=True):
            self.Z[low : low + int(operator.starts[-1])] = operator.rows(every).T
        for low, high in pairwise(starts):
            own = self.Z[low:high]
            values, vectors = eigh((own * self.weights) @ own.T)
            self.eigenvalues[low:high] = np.maximum(values, max(values[-1], 1e-300) * 1e-14)
            self.Z[low:high] = vectors.T @ own
            self._bases.append(vectors)

    def turned(self, v: Array, *, back: bool = False) -> Array:
        """Return coefficients in the eigenbases, or back from them."""
        out = np.empty_like(v)
        for (low, high), basis in zip(pairwise(self._starts), self._bases, strict=True):
            out[low:high] = (basis if back else basis.T) @ v[low:high]
        return out

    def step(self, objective: FactoredObjective, point: Point, slopes: Array) -> tuple[Array, Any, Array]:
        """Minimize the quadratic model at a point."""
        penalty = objective.penalty
        assert penalty.shape is not None
        v, own, change = self.turned(point.v), np.array(slopes, dtype=np.float64), np.zeros(len(slopes))
        fixed = (self.Z, self.weights, penalty.starts, self.eigenvalues, *penalty.shape)
        total = float(self.weights.sum()) if objective.n_free else 0.0
        shift, largest, everything = 0.0, 0.0, True
        for _ in range(SWEEPS):
            moved = sweep_rows(*fixed, everything, v, own, change)
            if total > 0:
                step = -float(own.sum()) / total
                shift, change, own = shift + step, change + step, own + step * self.weights
            largest = max(largest, moved)
            small = moved <= LAST_MOVE**2 * largest
            if everything and small:
                break
            everything = small
        return self.turned(v, back=True), shift, change


def descends(objective: FactoredObjective, curvature: Curvature, rows: int) -> bool:
    """Whether sweeps over rows apply and are predicted to cost less than a Hessian summed over so many rows.

    They apply to factors in memory, a curvature a sample, one target. Kernels that share columns act on each other too
    much for groups to take turns.
    """
    alone = all(isinstance(one, DenseOperator) and len(one.kernels) == 1 for one in objective.operators)
    if alone:
        columns = [j for operator in objective.operators for j in operator.positions or ()]
        alone = len(set(columns)) == len(columns)
    if not (alone and curvature.separable) or objective.n_free > 1 or objective.penalty.shape is None:
        return False
    sweeps = PRODUCT_COST * 4 * USUAL_SWEEPS * objective.problem.n_samples * objective.rank
    return sweeps < rows * objective.products
