"""Dual norms over a whole polynomial family: by enumeration, by a matrix identity, or bounded by partial products.

The conjugate of the penalty is ``Omega*(u) = V / (2 lambda)``, ``V = (sum_i v_i^q)^{1/q}`` over the ordered products
with ``v_i = a'K_i a / rho_d^2`` and ``q = p/(p-1)``. Three ways to it, the cheapest exact one first:

- *enumeration*: all distinct products, two factors at a time by one matrix product. Names the largest as well.
- *identity*, for p = 2: ``sum_{|i|=d} v_i^2 = vec(aa')'[(sum_j vec K_j vec K_j')^{o d}] vec(aa')``: ``O(r N^4)``
  whatever the degree.
- *bound*: products that begin with ``i1..ik`` have the sum ``v(i1..ik) = <(aa') o K_{i1} o ... o K_{ik}, S^{o(d-k)}>``
  and are not negative, so that the sum of their q-th powers is at most its q-th power (q >= 1). The longest prefix
  that can be afforded is taken; ``k = 0`` gives the 1-norm of the gradient.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manykernels.discovery._polynomial_family import PolynomialFamily, multiplicity
from manykernels.discovery._product_bases import Index, RankOneBase

Array = NDArray[Any]

BUDGET = 4e11  # multiplications of one survey: 10 to 20 seconds of one core
PANEL = 256  # rows of pairs at a time: little is computed twice, little memory is held


@dataclass(frozen=True, eq=False)
class Survey:
    """What one dual vector says about every kernel of the family.

    Attributes
    ----------
    norm : float
        ``V``, or an upper bound.
    method : str
        "enumeration", "identity" or "bound": the least exact way used for any degree.
    leaders : tuple of tuple of int
        Distinct kernels of the largest ``u_m^2 / w_m^2``, the largest first; empty unless enumerated.
    scores : (n_leaders,) float64
        Their ``u_m^2 / w_m^2``.
    """

    norm: float
    method: str
    leaders: tuple[Index, ...] = ()
    scores: Array = field(default_factory=lambda: np.zeros(0))


def survey(family: PolynomialFamily, a: Array, n_leaders: int = 0, budget: float = BUDGET) -> Survey:
    """Return ``V`` of a dual vector and the kernels that matter most.

    Parameters
    ----------
    family : PolynomialFamily
    a : (N,) float64
        Dual coefficients.
    n_leaders : int, default=0
        How many kernels to name.
    budget : float
        Most multiplications.

    Returns
    -------
    Survey
    """
    size = float(np.abs(a).max(initial=0.0))
    if size == 0:
        return Survey(0.0, "enumeration")
    tally = _Tally(family.conjugate_exponent, n_leaders)
    methods = {_survey_degree(family, family.base.start(a / size), d, tally, budget) for d in range(family.degree + 1)}
    method = next(name for name in ("bound", "identity", "enumeration") if name in methods)
    leaders, scores = tally.leaders()
    return Survey(size**2 * tally.norm, method, leaders, size**2 * scores)


def _survey_degree(family: PolynomialFamily, state: Array, degree: int, tally: _Tally, budget: float) -> str:
    base = family.base
    by_enumeration = _enumeration_cost(family, degree)
    by_identity = base.n_samples**4 * (base.n_base + degree) / 4 if family.p == 2 else np.inf
    if by_enumeration <= min(budget, 4 * by_identity):
        _enumerate(family, state, degree, tally)
        return "enumeration"
    if by_identity <= budget:
        tally.add_sum(family.scales[degree] ** 2 * _sum_of_squares(base, state, degree))
        return "identity"
    _bound(family, state, degree, tally, budget)
    return "bound"


def survey_cost(family: PolynomialFamily, budget: float = BUDGET) -> float:
    """Return about how many multiplications a survey takes."""
    return min(sum(_enumeration_cost(family, d) for d in range(family.degree + 1)), (family.degree + 1) * budget)


def _enumeration_cost(family: PolynomialFamily, degree: int) -> float:
    base = family.base
    entries = base.n_samples if isinstance(base, RankOneBase) else base.n_samples**2
    return float(comb(base.n_base + degree - 1, degree)) * entries if degree else 0.0


class _Tally:
    """The sum of q-th powers, kept relative to the largest score, and the largest scores with their kernels."""

    def __init__(self, q: float, n_leaders: int) -> None:
        self._q, self._wanted = q, n_leaders
        self._top, self._sum = 0.0, 0.0
        self._scores = np.zeros(0)
        self._indices: list[Index] = []
        self._threshold = 0.0

    @property
    def norm(self) -> float:
        """``(sum score^q)^{1/q}``."""
        if self._top == 0 or np.isinf(self._q):
            return self._top
        return self._top * float(self._sum) ** (1.0 / self._q)

    def add(self, scores: Array) -> None:
        """Add scores of distinct kernels."""
        top = float(scores.max(initial=0.0))
        if top > self._top:
            self._sum *= 0.0 if self._top == 0 or np.isinf(self._q) else (self._top / top) ** self._q
            self._top = top
        if self._top > 0 and not np.isinf(self._q):
            shares = scores.ravel() / self._top
            self._sum += float(shares @ shares if self._q == 2 else np.sum(shares**self._q))

    def add_sum(self, squares: float) -> None:
        """Add a sum of squares, for q = 2."""
        self.add(np.array([np.sqrt(max(squares, 0.0))]))

    def offer(self, scores: Array, indices: Any) -> None:
        """Keep those of the scores that are among the largest; ``indices(positions)`` names them."""
        if not self._wanted:
            return
        flat = scores.ravel()
        better = np.flatnonzero(flat > self._threshold)
        if len(better) > self._wanted:
            better = better[np.argpartition(flat[better], -self._wanted)[-self._wanted :]]
        self._scores = np.concatenate([self._scores, flat[better]])
        self._indices.extend(indices(better))
        if len(self._scores) > 4 * self._wanted:
            self._shrink()

    def _shrink(self) -> None:
        kept = np.argsort(-self._scores, kind="stable")[: self._wanted]
        self._scores, self._indices = self._scores[kept], [self._indices[i] for i in kept]
        if 0 < self._wanted == len(kept):
            self._threshold = float(self._scores[-1])

    def leaders(self) -> tuple[tuple[Index, ...], Array]:
        self._shrink()
        return tuple(self._indices), self._scores


# --- enumeration ----------------------------------------------------------------------------------------------------


def _enumerate(family: PolynomialFamily, state: Array, degree: int, tally: _Tally) -> None:
    share = 1.0 / family.conjugate_exponent  # (p - 1) / p, the power of c in w^{-2}
    scale = family.scales[degree]
    if degree == 0:
        _add(tally, np.array([scale * family.base.mass(state, None)]), lambda at: [() for _ in at])
    elif degree == 1:
        _add(tally, scale * family.base.masses(state, None), lambda at: [(int(j),) for j in at])
    else:
        for prefix, partial in _prefixes(family, state, degree - 2):
            _add_pairs(family, prefix, partial, scale, share, tally)


def _add(tally: _Tally, scores: Array, indices: Any) -> None:
    tally.add(scores)
    tally.offer(scores, indices)


def _prefixes(family: PolynomialFamily, state: Array, length: int) -> Iterator[tuple[Index, Array]]:
    """Yield the non-decreasing multi-indices of a length with their states."""
    if length == 0:
        yield (), state
        return
    for prefix, partial in _prefixes(family, state, length - 1):
        for j in range(prefix[-1] if prefix else 0, family.base.n_base):
            yield (*prefix, j), family.base.extend(partial, j)


def _add_pairs(
    family: PolynomialFamily, prefix: Index, partial: Array, scale: float, share: float, tally: _Tally
) -> None:
    """Add all products ``prefix + (j, k)`` with ``prefix[-1] <= j <= k``."""
    first = prefix[-1] if prefix else 0
    for top in range(first, family.base.n_base, PANEL):
        rows = slice(top, min(top + PANEL, family.base.n_base))
        scores = family.base.pair_masses(partial, rows, top)
        _weigh(scores, prefix, top, scale, share)
        width = scores.shape[1]

        def indices(at: Array, top: int = top, width: int = width) -> list[Index]:
            return [(*prefix, top + int(i) // width, top + int(i) % width) for i in at]

        _add(tally, scores, indices)


def _weigh(scores: Array, prefix: Index, top: int, scale: float, share: float) -> None:
    """Multiply masses of ``prefix + (j, k)``, j and k from ``top`` on, by ``scale c^share``; zero where ``j > k``."""
    n_rows, last = len(scores), top + scores.shape[1]
    apart = (last, last + 1)  # stand for two further indices

    def factor(*pair: int) -> float:
        return float(scale * multiplicity((*prefix, *pair)) ** share)

    square, diagonal = scores[:, :n_rows], np.arange(n_rows)
    square[np.tril_indices(n_rows, -1)] = 0.0
    twice = square[diagonal, diagonal] * factor(apart[0], apart[0])
    if prefix and prefix[-1] == top:
        corner = square[0, 0] * factor(top, top)
        scores[0] *= factor(top, apart[0]) / factor(*apart)
        twice[0] = corner
    scores *= factor(*apart)
    square[diagonal, diagonal] = twice


# --- the identity ---------------------------------------------------------------------------------------------------


def _sum_of_squares(base: Any, state: Array, degree: int) -> float:
    """Return the sum over ordered products of ``degree`` factors of ``<M, K_i>^2``, from pairs of samples."""
    rows, cols = np.triu_indices(base.n_samples)
    vectors = base.pair_vectors(rows, cols)
    weight = base.pair_weights(state, rows, cols)
    total = 0.0
    for at in range(0, len(rows), PANEL):
        table = (vectors[:, at : at + PANEL].T @ vectors) ** degree
        total += float(weight[at : at + PANEL] @ table @ weight)
    return total


# --- the bound ------------------------------------------------------------------------------------------------------


def _bound(family: PolynomialFamily, state: Array, degree: int, tally: _Tally, budget: float) -> None:
    base = family.base
    length = 0
    while length < degree - 1 and comb(base.n_base + length, length + 1) * base.n_samples**2 <= budget:
        length += 1
    power, scale = family.powers[degree - length], family.scales[degree]
    share = 1.0 / family.conjugate_exponent
    if length == 0:
        tally.add(np.array([scale * base.mass(state, power)]))
        return
    for prefix, partial in _prefixes(family, state, length - 1):
        first = prefix[-1] if prefix else 0
        masses = scale * base.masses(partial, power)[first:]
        counts = np.array([multiplicity((*prefix, j)) for j in (first, first + 1)], dtype=np.float64)
        weights = np.where(np.arange(len(masses)) == 0, counts[0], counts[1])
        tally.add(masses * weights**share)
