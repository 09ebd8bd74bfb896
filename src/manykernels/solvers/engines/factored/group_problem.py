"""A quadratic with a group penalty: ``min_v q'v + v'Hv/2 + sum_m (a_m ||v_m|| + c_m ||v_m||^2 / 2)``.

Block coordinate descent in the eigenbasis of every diagonal block, where one block is a scalar secular equation, and
Newton steps on the blocks that are not zero once these stay the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigh

from manykernels.compiled import compiled
from manykernels.grams.loops import FAST

Array = NDArray[Any]

SWEEPS = 4  # between two attempts at a Newton step
MAX_ROUNDS = 200
SECULAR_STEPS = 100
RIDGE = 1e-12  # of the mean diagonal: keeps directions that no sample bends solvable


@dataclass(frozen=True)
class GroupPenalty:
    """Groups of coordinates and their penalties ``a ||v|| + c ||v||^2 / 2``; both zero for the intercept.

    Attributes
    ----------
    starts : (G + 1,) int
    linear, curvature : (G,) float
    """

    starts: Array
    linear: Array
    curvature: Array

    def norms(self, v: Array) -> Array:
        """Return the norm of every group, (G,)."""
        return np.sqrt(np.add.reduceat(v**2, self.starts[:-1]))

    def value(self, v: Array) -> float:
        """Return the penalty of ``v``."""
        norms = self.norms(v)
        return float(np.sum(norms * (self.linear + 0.5 * self.curvature * norms)))

    def violation(self, v: Array, gradient: Array) -> float:
        """Return the norm of the smallest subgradient, given the gradient of the smooth part."""
        norms, owner = self.norms(v), np.repeat(np.arange(len(self.linear)), np.diff(self.starts))
        alive = norms > 0
        slopes = np.where(alive, self.linear / np.where(alive, norms, 1.0), 0.0) + self.curvature
        sizes = self.norms(gradient + slopes[owner] * v)
        sizes[~alive] = np.maximum(sizes[~alive] - self.linear[~alive], 0.0)
        return float(np.linalg.norm(sizes))


@compiled()
def block_root(p: Array, eigenvalues: Array, linear: float, curvature: float) -> float:
    """Return ``tau > 0`` with ``sum_k p_k^2 / ((eigenvalue_k + c) tau + a)^2 = 1``, the norm of the block's minimizer.

    Newton on ``1 / sqrt(sum) - 1``, which is nearly linear in tau and is approached from below.
    """
    tau = 0.0
    for _ in range(SECULAR_STEPS):
        total, slope = 0.0, 0.0
        for k in range(p.size):
            size = eigenvalues[k] + curvature
            inverse = 1.0 / (size * tau + linear)
            term = (p[k] * inverse) ** 2
            total += term
            slope += term * size * inverse
        step = (np.sqrt(total) - 1.0) * total / slope
        tau += step
        if step <= 1e-14 * tau:
            break
    return tau


@compiled(fastmath=FAST)
def sweep(H: Array, starts: Array, eigenvalues: Array, linear: Array, curvature: Array, v: Array, r: Array) -> None:
    """One sweep over groups; H has diagonal blocks diag(eigenvalues), ``r`` is the gradient at ``v``, both updated."""
    new = np.empty(v.size)
    for m in range(linear.size):
        low, high = starts[m], starts[m + 1]
        p = r[low:high] - eigenvalues[low:high] * v[low:high]
        size = np.sqrt(np.dot(p, p))
        if size <= linear[m]:
            new[low:high] = 0.0
        else:
            extra = curvature[m]
            if linear[m] > 0:
                tau = block_root(p, eigenvalues[low:high], linear[m], curvature[m])
                if tau > 0:
                    extra += linear[m] / tau
                else:
                    extra = np.inf
            for k in range(low, high):
                new[k] = -p[k - low] / (eigenvalues[k] + extra)
        for k in range(low, high):
            change = new[k] - v[k]
            if change != 0.0:
                v[k] = new[k]
                row = H[k]
                for j in range(r.size):
                    r[j] += change * row[j]


class GroupProblem:
    """The quadratic of one Newton step, in the eigenbasis of its diagonal blocks.

    Parameters
    ----------
    H : (r, r) float64
        Positive semidefinite; changed in place.
    penalty : GroupPenalty
    """

    def __init__(self, H: Array, penalty: GroupPenalty) -> None:
        self.penalty = penalty
        H[np.diag_indices_from(H)] += RIDGE * max(float(np.trace(H)), 1e-300) / len(H)
        self._bases: list[Array] = []
        self._eigenvalues = np.empty(len(H))
        for low, high in zip(penalty.starts[:-1], penalty.starts[1:], strict=True):
            values, vectors = eigh(H[low:high, low:high])
            self._eigenvalues[low:high] = np.maximum(values, values[-1] * 1e-14)
            self._bases.append(vectors)
        for low, high, basis in self._blocks():
            H[:, low:high] = H[:, low:high] @ basis
        for low, high, basis in self._blocks():
            H[low:high] = basis.T @ H[low:high]
            H[low:high, low:high] = np.diag(self._eigenvalues[low:high])
        self._H = H

    def _blocks(self) -> list[tuple[int, int, Array]]:
        return [
            (int(low), int(high), basis)
            for low, high, basis in zip(self.penalty.starts[:-1], self.penalty.starts[1:], self._bases, strict=True)
        ]

    def _rotate(self, v: Array, *, back: bool = False) -> Array:
        out = np.empty_like(v)
        for low, high, basis in self._blocks():
            out[low:high] = (basis if back else basis.T) @ v[low:high]
        return out

    def solve(self, v: Array, gradient: Array, tol: float) -> tuple[Array, Array]:
        """Minimize from ``v``, at which the quadratic has this gradient; stop at ``tol`` times the first violation.

        Returns
        -------
        v : (r,)
        gradient : (r,)
            Of the quadratic at the returned point.
        """
        penalty = self.penalty
        v, r = self._rotate(v), self._rotate(gradient)
        target = tol * penalty.violation(v, r)
        for _ in range(MAX_ROUNDS):
            before = penalty.norms(v) > 0
            for _ in range(SWEEPS):
                sweep(self._H, penalty.starts, self._eigenvalues, penalty.linear, penalty.curvature, v, r)
            if penalty.violation(v, r) <= target:
                break
            if np.array_equal(before, penalty.norms(v) > 0):
                v, r = self._newton_step(v, r)
                if penalty.violation(v, r) <= target:
                    break
        return self._rotate(v, back=True), self._rotate(r, back=True)

    def _newton_step(self, v: Array, r: Array) -> tuple[Array, Array]:
        """Take a Newton step on the groups that are not zero, if one of a few step sizes decreases the objective."""
        penalty = self.penalty
        owner = np.repeat(np.arange(len(penalty.linear)), np.diff(penalty.starts))
        norms = penalty.norms(v)
        free = (norms > 0)[owner] | (penalty.linear == 0)[owner]
        safe = np.where(norms > 0, norms, 1.0)
        slopes = (penalty.linear / safe + penalty.curvature)[owner]
        system = self._H[np.ix_(free, free)].copy()
        system[np.diag_indices_from(system)] += slopes[free]
        for m in np.flatnonzero((norms > 0) & (penalty.linear > 0)):
            own = owner[free] == m
            direction = v[penalty.starts[m] : penalty.starts[m + 1]] / norms[m]
            system[np.ix_(own, own)] -= penalty.linear[m] / norms[m] * np.outer(direction, direction)
        try:
            factor = cho_factor(system, lower=True, check_finite=False)
        except LinAlgError:
            return v, r
        step = np.zeros_like(v)
        step[free] = cho_solve(factor, -(r + slopes * v)[free], check_finite=False)
        image = self._H @ step
        linear, square, start = float(r @ step), float(step @ image), penalty.value(v)
        for size in (1.0, 0.5, 0.1):
            change = size * linear + 0.5 * size**2 * square + penalty.value(v + size * step) - start
            if change < 0:
                return v + size * step, r + size * image
        return v, r
