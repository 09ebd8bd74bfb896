r"""Groups of coordinates in a cone: the blocks of functions that must have a shape.

One group's turn minimizes, in the eigenbasis of its diagonal block, with the other groups as they are,

    p'x + sum_k e_k x_k^2 / 2 + Omega(||x||)      subject to  G x >= 0.

It is zero if ``min_{mu >= 0} ||G'mu - p||`` is at most the slope of the penalty at zero. Otherwise the penalty acts as
a ridge term of the size ``kappa = Omega'(||x||) / ||x||``: with ``D = diag(e) + kappa`` the minimizer is
``x = D^-1 (G'mu - p)`` with the multipliers of a nonnegative least squares problem. ``kappa ||x||`` rises and
``Omega'(||x||)`` falls in ``kappa``, so that where they meet is one root. Newton steps move the groups together that
are not zero, along the faces on which inequalities hold them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag

from manykernels.compiled import compiled
from manykernels.grams.factored.cones import ON_FACE, face, held, multipliers, project
from manykernels.solvers.factored.group_penalty import group_minimizer, move, power_slope, sum_of_powers

Array = NDArray[Any]

ROOT_STEPS = 60  # of a bracket of the ridge term, in its logarithm
ROOT_TOL = 1e-13


@compiled()
def on_ridge(p: Array, eigenvalues: Array, G: Array, kappa: float, mu: Array, A: Array, out: Array) -> float:
    """Set ``out`` to the minimizer with a ridge term ``kappa``, and return its norm; ``mu`` begins and is improved."""
    roots = 1.0 / np.sqrt(eigenvalues + kappa)
    for k in range(mu.size):
        A[k] = G[k] * roots
    multipliers(A, p * roots, mu)
    out[:] = -p
    for k in range(mu.size):
        if mu[k] > 0.0:
            out += mu[k] * G[k]
    out *= roots * roots
    return np.sqrt(np.dot(out, out))


@compiled()
def cone_minimizer(
    p: Array,
    eigenvalues: Array,
    G: Array,
    a: float,
    c: float,
    b: float,
    q: float,
    strength: float,
    coupled: bool,
    rest: float,
    mu: Array,
    out: Array,
) -> None:
    """Set ``out`` to the minimizer of one group in its cone; arguments are those of `group_minimizer`."""
    if coupled:
        if q == 1.0:
            a, c, b = a + strength * rest * b, c + strength * b * b, 0.0
    elif q == 2.0:
        c, b = c + strength * b, 0.0
    if strength == 0.0:
        b = 0.0
    size = project(G, -p, mu, out)
    if size <= a or size == 0.0:
        out[:] = 0.0
        return
    A = np.empty_like(G)
    if a == 0.0 and b == 0.0:
        on_ridge(p, eigenvalues, G, c, mu, A, out)
        return
    x = np.log(max(c, 0.0) + eigenvalues.max())
    low, high, below, above, side = -np.inf, np.inf, 0.0, 0.0, 0
    for _ in range(ROOT_STEPS):
        kappa = np.exp(x)
        norm = on_ridge(p, eigenvalues, G, kappa, mu, A, out)
        slope = power_slope(norm, a, c, b, q, strength, coupled, rest) if b > 0.0 else a + c * norm
        if not (norm > 0.0 and slope > 0.0):
            break
        value = np.log(kappa * norm) - np.log(slope)
        if value < 0.0:
            above *= 0.5 if side < 0 else 1.0  # Illinois: where the other end stays, its value counts half
            low, below, side = x, value, -1
        else:
            below *= 0.5 if side > 0 else 1.0
            high, above, side = x, value, 1
        if abs(value) <= ROOT_TOL or high - low <= ROOT_TOL * max(1.0, abs(x)):
            break
        if low == -np.inf:
            x = high - max(2.0, 1.5 * above)
        elif high == np.inf:
            x = low + max(2.0, -1.5 * below)
        else:
            x = (low * above - high * below) / (above - below)
            if not low < x < high:
                x = 0.5 * (low + high)


@compiled()
def sweep_cones(
    H: Array,
    starts: Array,
    eigenvalues: Array,
    linear: Array,
    curvature: Array,
    power: Array,
    q: float,
    strength: float,
    coupled: bool,
    outside: float,
    rows: Array,
    row_starts: Array,
    mu: Array,
    v: Array,
    r: Array,
) -> None:
    """One sweep over groups as `group_penalty.sweep` makes it, those with rows of inequalities in their cones."""
    new = np.empty(v.size)
    total = sum_of_powers(starts, power, q, outside, v) if coupled else outside
    for m in range(linear.size):
        low, high = starts[m], starts[m + 1]
        old, own = v[low:high], eigenvalues[low:high]
        p = r[low:high] - own * old
        rest = 0.0
        if coupled:
            rest = max(total - power[m] * np.sqrt(np.dot(old, old)) ** q, outside)
        first, last = row_starts[m], row_starts[m + 1]
        shape = (linear[m], curvature[m], power[m], q, strength, coupled, rest)
        if last > first:
            G = np.ascontiguousarray(rows[first:last, : high - low])
            cone_minimizer(p, own, G, *shape, mu[first:last], new[low:high])
        else:
            group_minimizer(p, own, *shape, new[low:high])
        if coupled:
            total = rest + power[m] * np.sqrt(np.dot(new[low:high], new[low:high])) ** q
        move(H, low, high, new, v, r)


class Cones:
    """The cones of groups in the eigenbasis of a quadratic, with the multipliers that sweeps leave.

    Parameters
    ----------
    constraints : sequence of (c_m, r_m) arrays or None
        Of every group.
    starts : (G + 1,) int
        Of groups.
    blocks : sequence of (int, int, array)
        Where each block of the eigenbasis begins and ends, and its basis.
    """

    def __init__(self, constraints: Sequence[Array | None], starts: Array, blocks: Sequence[tuple[int, int, Array]]):
        self.starts = starts
        self.own = [_turned(G, low, blocks) for G, low in zip(constraints, starts.tolist(), strict=False)]
        self.own += [np.zeros((0, 1))] * (len(starts) - 1 - len(self.own))  # intercepts
        self.row_starts = np.concatenate([[0], np.cumsum([len(G) for G in self.own])]).astype(np.int64)
        self.rows = np.zeros((self.row_starts[-1], max(G.shape[1] for G in self.own)))
        for G, first in zip(self.own, self.row_starts, strict=False):
            self.rows[first : first + len(G), : G.shape[1]] = G
        self.mu = np.zeros(len(self.rows))

    def _groups(self) -> Any:
        """Yield the groups in cones: their number, coordinates and inequalities."""
        for m, (low, high) in enumerate(pairwise(self.starts.tolist())):
            if len(self.own[m]):
                yield m, slice(low, high), self.own[m]

    def rests(self, v: Array, pulls: Array) -> Array:
        """Return what is left of negative subgradients ``pulls`` once multipliers of the inequalities that hold act."""
        out = pulls.copy()
        for _, own, G in self._groups():
            rows = held(G, v[own])
            if len(rows):
                project(rows, np.ascontiguousarray(pulls[own]), np.zeros(len(rows)), out[own])
        return out

    def face(self, v: Array) -> Array:
        """Return an orthonormal basis (r, f) of the moves of groups that are not zero along their faces."""
        parts = []
        for m, (low, high) in enumerate(pairwise(self.starts.tolist())):
            moves = len(self.own[m]) and v[low:high].any()
            parts.append(face(self.own[m], v[low:high]) if moves else np.eye(high - low))
        return np.asarray(block_diag(*parts))

    def reach(self, v: Array, step: Array) -> float:
        """Return how far a step may go before a group leaves its cone, at most 1."""
        most = 1.0
        for _, own, G in self._groups():
            here, ahead = G @ v[own], G @ step[own]
            # What holds a group stays, up to rounding: steps go along it.
            falling = (ahead < 0.0) & (here > ON_FACE * float(np.linalg.norm(v[own])))
            if falling.any():
                most = min(most, float((here[falling] / -ahead[falling]).min()))
        return most

    def sweep(self, H: Array, eigenvalues: Array, shape: tuple[Any, ...], outside: Any, v: Array, r: Array) -> None:
        """Let every group take its turn."""
        sweep_cones(H, self.starts, eigenvalues, *shape, outside, self.rows, self.row_starts, self.mu, v, r)


def _turned(G: Array | None, low: int, blocks: Sequence[tuple[int, int, Array]]) -> Array:
    """Return the inequalities of the group that begins at ``low`` for coordinates in an eigenbasis."""
    if G is None:
        return np.zeros((0, 1))
    out = np.array(G, dtype=np.float64)
    for first, last, basis in blocks:
        if first >= low and last <= low + G.shape[1]:
            out[:, first - low : last - low] = G[:, first - low : last - low] @ basis
    return out
