"""Second derivatives of a loss in its scores, as the minimizers read them: products, squares, and ``Z' H Z``."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manykernels.grams.factored.cells import CellOperator
from manykernels.grams.factored.operators import CHUNK_ROWS, ChunkedOperator
from manykernels.grams.rows import RowVector, on_rows, sums
from manykernels.objective.losses.coupled import CoupledCurvature
from manykernels.solvers.factored.smoothing import (
    CHUNK_ENTRIES,
    COUPLED_REACH,
    MIN_ROWS,
    MOST_ENTRIES,
    SAMPLE_PER_RANK,
)

# Rows that stand for all in a sum of curvatures: those that bend most for certain, the others by chance.


Array = NDArray[Any]

CERTAIN_ROUNDS = 3


def sampled_rows(bends: Array, rows: int) -> tuple[Array, Array]:
    """Return about ``rows`` rows with weights whose sums are those of ``bends`` on average; the same every time."""
    weights = sampled_weights(bends, rows)
    chosen = np.flatnonzero(weights)
    return chosen, weights[chosen]


def sampled_weights(bends: Any, rows: int) -> Any:
    """Return these weights of all rows, here or beside the rows; zero for those not chosen."""
    bent, total = sums(bends > 0, bends)
    if bent <= rows:
        return bends
    factor = rows / total
    for _ in range(CERTAIN_ROUNDS):
        certain = factor * bends >= 1.0
        count, rest = sums(certain, bends[~certain])
        if not 0 < count < rows:
            break
        factor = (rows - count) / rest
    return on_rows(_drawn, bends, bends.starts() if isinstance(bends, RowVector) else 0, rows, factor)


def _drawn(bends: Array, start: int, seed: int, factor: float) -> Array:
    """Return the weights of rows from ``start`` on, each chosen with a chance in proportion to what it bends."""
    generator = np.random.default_rng(seed)
    generator.bit_generator.advance(start)  # type: ignore[attr-defined]  # one number a row before these
    chances = np.minimum(factor * bends, 1.0)
    chosen = generator.random(len(bends)) < chances
    return np.divide(bends, chances, out=np.zeros(len(bends)), where=chosen)


class Bends(abc.ABC):
    """The second derivatives ``H`` (N, N) of a loss at some scores.

    Attributes
    ----------
    diagonal : (N,)
        Nowhere below ``H``.
    reach : float
        By how much a step may change a score before the quadratic model says nothing.
    """

    diagonal: Array
    reach: float = np.inf

    @property
    def any(self) -> bool:
        """Whether there are any."""
        return bool(self.diagonal.any())

    @property
    def total(self) -> float:
        """The sum of the diagonal."""
        return float(self.diagonal.sum())

    @abc.abstractmethod
    def product(self, x: Array) -> Array:
        """Return ``H x``."""

    @abc.abstractmethod
    def square(self, x: Array) -> float:
        """Return ``x' H x``."""

    @abc.abstractmethod
    def gram(self, operators: Sequence[Any], rows: int, *, intercept: bool) -> Array:
        """Return ``Z' H Z`` from about so many of the rows, and a row for the intercept."""

    def block(self, operator: Any, rows: int) -> Array:
        """Return ``Z' H Z`` of one operator's factors, as well as steps in its coefficients alone need it."""
        return self.gram([operator], rows, intercept=False)


class SampleBends(Bends):
    """Those of a sum over samples, ``diag(s l'')``."""

    def __init__(self, diagonal: Array) -> None:
        self.diagonal = diagonal

    @property
    def everywhere(self) -> bool:
        """Whether every sample bends."""
        return bool(self.diagonal.all())

    def plus(self, share: float, others: SampleBends) -> SampleBends:
        """Return these and a share of others."""
        return SampleBends(self.diagonal + share * others.diagonal)

    def product(self, x: Array) -> Array:
        """Return ``H x``."""
        return self.diagonal * x

    def square(self, x: Array) -> float:
        """Return ``x' H x``."""
        return float(self.diagonal @ x**2)

    def gram(self, operators: Sequence[Any], rows: int, *, intercept: bool) -> Array:
        """Return ``Z' H Z`` from about so many of the rows; unbiased."""
        if len(operators) == 1 and isinstance(operators[0], CellOperator) and not intercept:
            return operators[0].gram(self.diagonal)  # sums over cells read all rows for less
        if isinstance(operators[0], ChunkedOperator):
            together = ChunkedOperator.joined(operators)
            return together.weighted_gram(sampled_weights(self.diagonal, rows), intercept=intercept)
        index, weights = sampled_rows(self.diagonal, rows)
        size = rank_of(operators) + intercept
        H = np.zeros((size, size))
        step = min(CHUNK_ROWS, max(MIN_ROWS, CHUNK_ENTRIES // size))
        buffer, roots = np.empty((step, size)), np.sqrt(weights)[:, None]
        for start in range(0, len(index), step):
            chosen, root = index[start : start + step], roots[start : start + step]
            Z, low = buffer[: len(chosen)], 0
            for operator in operators:
                high = low + int(operator.starts[-1])
                np.multiply(operator.rows(chosen), root, out=Z[:, low:high])
                low = high
            Z[:, low:] = root
            H += Z.T @ Z
        return H


class JointBends(Bends):
    """Those of a loss of all samples together, whose scores may be shifted alike: there is no intercept."""

    reach: float = COUPLED_REACH

    def __init__(self, curvature: CoupledCurvature) -> None:
        self._curvature, self.diagonal = curvature, curvature.bends

    def product(self, x: Array) -> Array:
        """Return ``H x``."""
        return self._curvature.product(x)

    def square(self, x: Array) -> float:
        """Return ``x' H x``."""
        return max(float(x @ self._curvature.product(x)), 0.0)

    def gram(self, operators: Sequence[Any], rows: int, *, intercept: bool) -> Array:
        """Return ``Z' H Z``, of fewer rows that of the risk sets of these rows."""
        rank = rank_of(operators)
        index, weights = sampled_rows(self.diagonal, min(rows, max(MOST_ENTRIES // rank, SAMPLE_PER_RANK * rank)))
        used = self._curvature
        if len(index) < int(np.count_nonzero(self.diagonal)):
            used = used.of_rows(index, weights / self.diagonal[index])
        return used.gram(np.hstack([operator.rows(used.rows) for operator in operators]))


def rank_of(operators: Sequence[Any]) -> int:
    """Return the number of coefficients of all factors."""
    return sum(int(operator.starts[-1]) for operator in operators)
