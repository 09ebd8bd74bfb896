"""Second derivatives of losses of several targets in their scores, and ``Z' H Z`` by kernel, target and rank."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manykernels.grams.factored.operators import CHUNK_ROWS
from manykernels.solvers.engines.factored.curvatures import Bends, SampleBends
from manykernels.solvers.engines.factored.sampling import sampled_rows
from manykernels.solvers.engines.factored.targets.operators import OperatorOfTargets, places
from manykernels.solvers.engines.factored.tuning import CHUNK_ENTRIES, MIN_ROWS

Array = NDArray[Any]


class BendsOfTargets(SampleBends):
    """Those of a sum over samples and targets: a Hessian for each target, all from the same rows.

    Parameters
    ----------
    diagonal : (T N,)
    n_targets : int
    """

    def __init__(self, diagonal: Array, n_targets: int) -> None:
        super().__init__(diagonal)
        self.n_targets = n_targets

    def plus(self, share: float, others: SampleBends) -> BendsOfTargets:
        """Return these and a share of others."""
        return BendsOfTargets(self.diagonal + share * others.diagonal, self.n_targets)

    def gram(self, operators: Sequence[Any], rows: int, *, intercept: bool) -> Array:
        """Return ``Z' H Z`` from about so many of the rows, zero between targets; unbiased."""
        bends = self.diagonal.reshape(self.n_targets, -1)
        total = bends.sum(axis=0)
        index, weights = sampled_rows(total, rows)
        weights = weights / total[index]
        alike = bool((bends == bends[0]).all())
        grams = [np.zeros(()) for _ in range(1 if alike else self.n_targets)]
        for part, Z in _chunks(operators, index, intercept=intercept):
            for t in range(len(grams)):
                own = Z * np.sqrt(weights[part] * bends[t, index[part]])[:, None]
                grams[t] = grams[t] + own.T @ own
        place = _places(operators, intercept=intercept)
        H = np.zeros((place.size, place.size))
        for t, own_place in enumerate(place):
            H[np.ix_(own_place, own_place)] = grams[0 if alike else t]
        return H


class CoupledBends(Bends):
    """Those of the multinomial loss, ``s (diag(p) - p p')`` in the scores of each sample.

    Parameters
    ----------
    p : (T, N)
        Probabilities.
    weight : (N,)
    """

    def __init__(self, p: Array, weight: Array) -> None:
        self.p, self.weight, self.diagonal = p, weight, (weight * p).ravel()

    def block(self, operator: Any, rows: int) -> Array:
        """Return ``Z' H Z`` with ``p (1 - p) T / (T - 1)`` for ``diag(p) - p p'``, the same where classes are alike.

        With nothing between targets it is a ``T``-th of the work; slopes are exact all the same.
        """
        n_targets = len(self.p)
        alone = self.weight * self.p * (1.0 - self.p) * (n_targets / (n_targets - 1.0))
        return BendsOfTargets(alone.ravel(), n_targets).block(operator, rows)

    def product(self, x: Array) -> Array:
        """Return ``H x``."""
        px = self.p * x.reshape(self.p.shape)
        return np.ravel(self.weight * (px - self.p * px.sum(axis=0)))

    def square(self, x: Array) -> float:
        """Return ``x' H x``."""
        return max(float(x @ self.product(x)), 0.0)

    def gram(self, operators: Sequence[Any], rows: int, *, intercept: bool) -> Array:
        """Return ``Z' H Z`` from about so many of the rows; unbiased."""
        index, weights = sampled_rows(self.weight * (1.0 - (self.p**2).sum(axis=0)), rows)
        ratios = weights / (1.0 - (self.p[:, index] ** 2).sum(axis=0))  # sample weights over chances
        place = _places(operators, intercept=intercept)
        H = np.zeros((place.size, place.size))
        for part, Z in _chunks(operators, index, intercept=intercept):
            roots = np.sqrt(ratios[part])[:, None]
            sides = np.empty((len(Z), place.size))
            for p, own_place in zip(self.p[:, index[part]], place, strict=True):
                sides[:, own_place] = p[:, None] * roots * Z
                own = np.sqrt(p)[:, None] * roots * Z
                H[np.ix_(own_place, own_place)] += own.T @ own
            H -= sides.T @ sides
        if intercept:  # the same shift of all scores changes nothing: there is to be none
            ends = place[:, -1]
            H[np.ix_(ends, ends)] += np.trace(H[np.ix_(ends, ends)]) / len(ends) ** 2
        return H


def _chunks(operators: Sequence[OperatorOfTargets], index: Array, *, intercept: bool) -> Iterator[tuple[slice, Array]]:
    """Yield slices of an index and these rows of the factors of one target, of ones as well for intercepts."""
    rank = sum(operator.place.shape[1] for operator in operators)
    step = min(CHUNK_ROWS, max(MIN_ROWS, CHUNK_ENTRIES // (rank + intercept)))
    for start in range(0, len(index), step):
        part = slice(start, start + step)
        chosen = index[part]
        ones = [np.ones((len(chosen), 1))] if intercept else []
        yield part, np.hstack([operator.rows(chosen) for operator in operators] + ones)


def _places(operators: Sequence[OperatorOfTargets], *, intercept: bool) -> Array:
    """Return where the coefficients of each target stand, intercepts behind all, (T, r) or (T, r + 1)."""
    place = places(operators)
    ends = place.size + np.arange(len(place))[:, None]
    return np.hstack([place, ends]) if intercept else place
