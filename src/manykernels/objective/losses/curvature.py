"""Curvatures: second derivatives ``H`` of a loss in the scores, as products, squares, and ``Z' H Z`` for factors ``Z``.

There are three shapes: `SampleCurvature`, diagonal (separate scores); `OutputCurvature`, with coupled scores of a
sample; and custom curvatures of losses that couple samples. Vectors are (N,), of several outputs (N, T), and
coefficients of factors are ordered by output, then by kernel.
"""

from __future__ import annotations

import abc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from manykernels.compiled import compiled
from manykernels.grams.factored.cells import CellOperator
from manykernels.grams.factored.operators import CHUNK_ROWS, ChunkedOperator
from manykernels.grams.loops import FAST
from manykernels.grams.rows.vectors import RowVector, map_rows, sums
from manykernels.objective.certificate import inner
from manykernels.objective.losses.survival import take_at_risk
from manykernels.validation.arrays import Array

MOST_ENTRIES = 2**25  # of factors that a Hessian of coupled samples holds at once: 256 MB
SAMPLE_PER_RANK = 15  # rows that a Hessian is summed over, for each of its columns
COUPLED_REACH = 10.0  # change of a logarithm of hazards in one step: beyond, the shares in risk sets are others

NO_SHARES, NO_PLACES = np.zeros((0, 0)), np.zeros(0, dtype=np.intp)
NO_RISKS = (NO_PLACES, np.zeros(0, bool), NO_PLACES, NO_PLACES, NO_PLACES, np.zeros(0, bool), *[np.zeros(0)] * 4)


@compiled(fastmath=FAST)
def add_curved(weights: Array, shares: Array, risks: Any, image: Array, out: Array) -> None:
    """Add ``H x`` to ``out`` for a change of scores ``image``, both (T, N), apart from `Curvature.terms`."""
    for t in range(image.shape[0]):
        own, x, target = weights[t], image[t], out[t]
        for i in range(x.size):
            target[i] += own[i] * x[i]
    if shares.size > 0:
        means = np.zeros(image.shape[1])
        for t in range(image.shape[0]):
            own, x = shares[t], image[t]
            for i in range(x.size):
                means[i] += own[i] * x[i]
        for t in range(image.shape[0]):
            own, target = weights[t], out[t]
            for i in range(means.size):
                target[i] -= own[i] * means[i]
    if risks[0].size > 0:
        take_at_risk(risks, image[0], out[0])


@dataclass(frozen=True, eq=False)
class Shares:
    """The coupling of outputs in ``sum_i z_i z_i' (x) (diag(p_i) - p_i p_i')``, in coordinates of small coupling.

    A change that is the same in all outputs bends nothing; the rest have a basis in which the mean over rows of
    ``diag(p_i) - p_i p_i'`` is diagonal. There are blocks on the diagonal, and what is between them is zero on average.

    Attributes
    ----------
    rows : (n, r) float32
        Rows ``z_i`` of factors.
    p : (n, T) float32
    basis : (T, T - 1)
        Orthonormal.
    diagonal : (n, T - 1) float32
        Of ``basis' (diag(p_i) - p_i p_i') basis``.
    """

    rows: Array
    p: Array
    basis: Array
    diagonal: Array

    def product(self, V: Array) -> Array:
        """Return the coupling between blocks times coordinates (r, T - 1) of factors."""
        right, basis = np.ascontiguousarray(V, dtype=self.rows.dtype), self.basis.astype(self.rows.dtype)
        tile_entries = 2**17  # of rows of factors, which a cache keeps from one product to the next
        total, step = np.zeros_like(right), max(tile_entries // self.rows.shape[1], 1)
        for low in range(0, len(self.rows), step):
            part = slice(low, low + step)
            moves = self.rows[part] @ right
            own = moves @ basis.T
            own -= np.einsum("it,it->i", own, self.p[part])[:, None]
            own *= self.p[part]
            total += self.rows[part].T @ (own @ basis - self.diagonal[part] * moves)
        return total.astype(np.float64)


class Curvature(abc.ABC):
    """The second derivatives ``H`` of a loss at some scores."""

    diagonal: Array  # (N,) or (N, T): a diagonal matrix that is nowhere below ``H``
    separable: ClassVar[bool] = False  # whether ``H`` is this diagonal
    reach: float = np.inf  # by how much a step may change a score before the quadratic model says nothing
    shifts_alike: ClassVar[bool] = False  # whether ``H 1 = 0`` without an intercept
    in_turn: ClassVar[float] = 1.0  # time a row of `add_curved`, beside a product of a group's turn with its factors
    in_gram: ClassVar[float] = 1.0  # products of matrices that `hessian` takes, each as one of all factors

    @property
    def above(self) -> Array:
        """Weights (N,) of samples, ``H`` being nowhere above ``diag(weights)`` in all outputs alike."""
        return self.diagonal if self.diagonal.ndim == 1 else self.diagonal.max(axis=1)

    @property
    def terms(self) -> tuple[Array, Array, Any]:
        """Terms of ``H`` for compiled loops (`add_curved`): the diagonal (T, N), shares of outputs, sums at risk."""
        return np.ascontiguousarray(np.atleast_2d(self.diagonal.T)), NO_SHARES, NO_RISKS

    @property
    def any(self) -> bool:
        """Whether there are any."""
        return bool(self.diagonal.any())

    @property
    def total(self) -> float:
        """The sum of the diagonal."""
        return float(self.diagonal.sum())

    @property
    def definite(self) -> bool:
        """Whether quadratic models are bounded: no separate scores without curvature."""
        return True

    def plus(self, share: float, other: Curvature) -> Curvature:
        """Return the curvature plus a share of another; unchanged if definite."""
        return self

    @abc.abstractmethod
    def product(self, x: Array) -> Array:
        """Return ``H x``."""

    def square(self, x: Array) -> float:
        """Return ``x' H x``."""
        return max(inner(x, self.product(x)), 0.0)

    @abc.abstractmethod
    def gram(self, operators: Sequence[Any], rows: int, *, n_constants: int) -> Array:
        """Return ``[Z, 1]' H [Z, 1]`` from about ``rows`` rows, with 1 column of ones for an intercept, else 0.

        With several outputs (T, r, r), decoupled, or (1, r, r) if equal for all.
        """

    def hessian(self, operators: Sequence[Any], rows: int, *, n_constants: int) -> tuple[Array, Shares | None]:
        """Return `gram`, and the coupling of outputs, with blocks in the coordinates of `Shares`."""
        return self.gram(operators, rows, n_constants=n_constants), None


class SampleCurvature(Curvature):
    """Of a sum over samples, and over outputs: ``diag(s l'')``, from the diagonal (N,) or (N, T)."""

    separable: ClassVar[bool] = True

    def __init__(self, diagonal: Array) -> None:
        self.diagonal = diagonal

    @property
    def definite(self) -> bool:
        """Whether there is curvature in every score."""
        return bool(self.diagonal.all())

    def plus(self, share: float, other: Curvature) -> SampleCurvature:
        """Return the curvature and a share of the diagonal of another."""
        return SampleCurvature(self.diagonal + share * other.diagonal)

    def product(self, x: Array) -> Array:
        return self.diagonal * x

    def square(self, x: Array) -> float:
        return inner(self.diagonal, x**2)

    def gram(self, operators: Sequence[Any], rows: int, *, n_constants: int) -> Array:
        """Return ``Z' H Z`` from about so many of the rows; unbiased, and zero between outputs."""
        if self.diagonal.ndim == 2:
            return self._gram_of_outputs(operators, rows, n_constants=n_constants)
        if len(operators) == 1 and isinstance(operators[0], CellOperator) and not n_constants:
            return operators[0].gram(self.diagonal)  # sums over cells read all rows for less
        if isinstance(operators[0], ChunkedOperator):
            together = ChunkedOperator.join(operators)
            return together.weighted_gram(sampled_weights(self.diagonal, rows), n_constants=n_constants)
        index, weights = sampled_rows(self.diagonal, rows)
        size = rank_of(operators) + n_constants
        H = np.zeros((size, size))
        n_rows = int(np.count_nonzero(self.diagonal))
        for _, Z in _scaled_rows(operators, index, weights, n_constants=n_constants, n_rows=n_rows):
            H += Z.T @ Z
        return H

    def _gram_of_outputs(self, operators: Sequence[Any], rows: int, *, n_constants: int) -> Array:
        """Return a Hessian for every output, all from the same rows."""
        alike = bool((self.diagonal == self.diagonal[:, :1]).all())
        total = self.diagonal[:, 0] if alike else self.diagonal.sum(axis=1)
        index, weights = sampled_rows(total, rows)
        shares = np.ones((len(index), 1)) if alike else self.diagonal[index] / total[index, None]
        size = rank_of(operators) + n_constants
        H, n_rows = np.zeros((shares.shape[1], size, size)), int(np.count_nonzero(total))
        for part, Z in _scaled_rows(operators, index, weights, n_constants=n_constants, n_rows=n_rows):
            _add_shares(H, Z, shares[part])
        return H


def _add_shares(H: Array, Z: Array, shares: Array) -> None:
    """Add ``Z' diag(s_t) Z`` to the block of every output; shares are (n, T)."""
    for own, gram in zip(shares.T, H, strict=True):
        part = Z * np.sqrt(own).astype(Z.dtype)[:, None]
        gram += part.T @ part


class OutputCurvature(Curvature):
    """Of the multinomial loss, ``s (diag(p) - p p')`` in the scores of every sample, from probabilities (N, T)."""

    def __init__(self, p: Array, weight: Array) -> None:
        self.p, self.weight, self.diagonal = p, weight, weight[:, None] * p

    @property
    def above(self) -> Array:
        """``diag(p) - p p'`` has no eigenvalue above the largest ``p``, nor above twice the largest ``p (1 - p)``."""
        p = np.ascontiguousarray(self.p.T)
        return self.weight * np.minimum(p.max(axis=0), 2.0 * (p * (1.0 - p)).max(axis=0))

    @property
    def terms(self) -> tuple[Array, Array, Any]:
        """The diagonal, and probabilities for the invariance to the mean change."""
        return np.ascontiguousarray(self.diagonal.T), np.ascontiguousarray(self.p.T), NO_RISKS

    def product(self, x: Array) -> Array:
        px = self.p * x
        return self.weight[:, None] * (px - self.p * (px @ np.ones(px.shape[1]))[:, None])

    def gram(self, operators: Sequence[Any], rows: int, *, n_constants: int) -> Array:
        """Return ``Z' H Z`` with ``p (1 - p) T / (T - 1)`` for ``diag(p) - p p'``, the same where classes are alike.

        With nothing between outputs it is a ``T``-th of the work; slopes are exact all the same.
        """
        n_outputs = self.p.shape[1]
        alone = self.weight[:, None] * self.p * (1.0 - self.p) * (n_outputs / (n_outputs - 1.0))
        return SampleCurvature(alone).gram(operators, rows, n_constants=n_constants)

    def hessian(self, operators: Sequence[Any], rows: int, *, n_constants: int) -> tuple[Array, Shares | None]:
        """Return blocks of ``diag(p) - p p'``, and the coupling, from about a number of rows; unbiased."""
        spread = 1.0 - (self.p**2).sum(axis=1)
        index, weights = sampled_rows(self.weight * spread, rows)
        ratios, p = weights / spread[index], self.p[index]  # sample weights over chances
        size = rank_of(operators) + n_constants
        mean = np.diag(ratios @ p) - (ratios[:, None] * p).T @ p
        basis = np.linalg.eigh(mean + mean.trace())[1][:, :-1]  # the last is the same in all outputs
        own = np.maximum(p @ basis**2 - (p @ basis) ** 2, 0.0)
        H, kept = np.zeros((basis.shape[1], size, size)), np.empty((len(index), size), dtype=np.float32)
        for part, Z in _scaled_rows(operators, index, ratios, n_constants=n_constants, n_rows=len(self.p)):
            _add_shares(H, Z, own[part])
            kept[part] = Z
        return H, Shares(kept, p.astype(np.float32), basis, own.astype(np.float32))


# --- rows of factors ------------------------------------------------------------------------------------------------


def rank_of(operators: Sequence[Any]) -> int:
    """Return the number of coefficients of all factors, of a single output."""
    return sum(int(getattr(each, "base", each).starts[-1]) for each in operators)


def _scaled_rows(
    operators: Sequence[Any], index: Array, weights: Array, *, n_constants: int, n_rows: int
) -> Iterator[tuple[slice, Array]]:
    """Yield slices of an index, and the rows of ``[Z, 1]`` times roots of weights, which the next ones overwrite.

    Those of a sample are in single precision: what chance adds to their products is far above the rounding.
    """
    operators = [getattr(each, "base", each) for each in operators]
    size = rank_of(operators) + n_constants
    chunk_entries, min_rows = 2**19, 1024  # of rows of factors held at once for a Hessian: 4 MB
    step = min(CHUNK_ROWS, max(min_rows, chunk_entries // size))
    buffer = np.empty((min(step, len(index)), size), dtype=np.float32 if len(index) < n_rows else np.float64)
    roots = np.sqrt(weights)[:, None]
    for start in range(0, len(index), step):
        part = slice(start, start + step)
        chosen, root = index[part], roots[part]
        Z, low = buffer[: len(chosen)], 0
        for operator in operators:
            high = low + int(operator.starts[-1])
            np.multiply(operator.rows(chosen), root, out=Z[:, low:high], casting="same_kind")
            low = high
        Z[:, low:] = root
        yield part, Z


# --- rows that stand for all in a sum of curvatures: those with most of it for certain, the others by chance ---------


def sampled_rows(curvatures: Array, rows: int) -> tuple[Array, Array]:
    """Return about ``rows`` rows with weights of the right expected curvature sums, deterministically."""
    weights = sampled_weights(curvatures, rows)
    chosen = np.flatnonzero(weights)
    return chosen, weights[chosen]


def sampled_weights(curvatures: Any, rows: int) -> Any:
    """Return the weights of all rows, local or beside the rows; zero for rows outside the sample."""
    curved, total = sums(curvatures > 0, curvatures)
    if curved <= rows:
        return curvatures
    factor = rows / total
    certain_rounds = 3
    for _ in range(certain_rounds):
        certain = factor * curvatures >= 1.0
        count, rest = sums(certain, curvatures[~certain])
        if not 0 < count < rows:
            break
        factor = (rows - count) / rest
    start = curvatures.starts() if isinstance(curvatures, RowVector) else 0
    return map_rows(_draw_weights, curvatures, start, rows, factor)


def _draw_weights(curvatures: Array, start: int, seed: int, factor: float) -> Array:
    """Return the weights of rows from ``start`` on, every chosen with a chance in proportion to the curvature."""
    generator = np.random.default_rng(seed)
    generator.bit_generator.advance(start)  # type: ignore[attr-defined]  # one number a row before these
    chances = np.minimum(factor * curvatures, 1.0)
    chosen = generator.random(len(curvatures)) < chances
    return np.divide(curvatures, chances, out=np.zeros(len(curvatures)), where=chosen)
