"""Kernels of several columns: projections on landmarks that a randomly pivoted Cholesky factorization picks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from manykernels.grams.factored.base import ROUNDING, FactoredStack
from manykernels.grams.factored.features import FeatureMap
from manykernels.grams.factored.operators import CHUNK_ROWS, FeatureOperator
from manykernels.grams.rows.columns import ColumnTable, Reading
from manykernels.kernels import KernelSpec
from manykernels.validation.arrays import Array

PASS_TOL = 1e-3  # share of the trace that the factors of a pass leave
PASS_RANK = 100  # of the factors of a pass: their residual is in the bound
MAX_RANK, MAX_ENTRIES = 1000, 10**8  # of one stored factor: 0.8 GB
BLOCK = 32  # landmarks drawn at once
SMALLEST_PIVOT = 1e-12  # of the largest diagonal entry; rounding divided by smaller ones would not be psd


class NystroemStack(FactoredStack):
    """Any kernels on any columns, through ``K ~ Z Z'`` with ``Z`` a projection; what is left over is bounded.

    ``||Z' rho||^2 <= rho' K rho <= ||Z' rho||^2 + (sum_i |rho_i| sqrt(E_ii))^2`` with ``E = K - Z Z'``.

    Parameters
    ----------
    table : ColumnTable
    positions : sequence of tuple of int
        The columns of every kernel.
    specs : sequence of KernelSpec
    scales : (M,) float
    names : sequence of str, optional
    rank : int, default=100
        Of the factors that a pass uses.
    """

    def __init__(
        self,
        table: ColumnTable,
        positions: Sequence[tuple[int, ...]],
        specs: Sequence[KernelSpec],
        scales: Array,
        *,
        names: Sequence[str] | None = None,
        rank: int = PASS_RANK,
    ) -> None:
        super().__init__(len(specs), table.n_rows, np.float64, names=names)
        self.table, self.positions, self.specs = table, tuple(positions), tuple(specs)
        self.scales, self.rank = np.asarray(scales, dtype=np.float64), rank
        self._maps: dict[tuple[int, float, int], NystroemFeatures] = {}

    # --- factors ----------------------------------------------------------------------------------------------------

    def _operator(self, kernel: int, tol: float, rank: int) -> FeatureOperator:
        """Return the features of a kernel; its landmarks are kept, nothing of length N."""
        key, spec, columns = (kernel, tol, rank), self.specs[kernel], self.positions[kernel]
        if key not in self._maps:
            self._maps[key] = NystroemFeatures.drawn(spec, columns, self.table, tol, rank)
        return FeatureOperator(kernel, columns, spec, self._maps[key], float(self.scales[kernel]))

    def templates(self, kernels: Sequence[int], tol: float) -> list[FeatureOperator]:
        """Return operators without rows, which ``over(table)`` gives them."""
        return [self._operator(int(m), tol, rank_limit(self.n_samples)) for m in kernels]

    def factor(self, kernel: int, tol: float) -> Array:
        """Return ``Z_m`` (N, rank); at most `rank_limit` landmarks are taken."""
        return self.features(kernel, self.table, tol)

    def features(self, kernel: int, X: ColumnTable, tol: float) -> Array:
        """Return the rows of ``Z_m`` that new samples would have."""
        operator = self.templates([kernel], tol)[0].over(X)
        out = np.empty((X.n_rows, operator.rank))
        for start in range(0, len(out), CHUNK_ROWS):
            out[start : start + CHUNK_ROWS] = operator.rows(slice(start, min(start + CHUNK_ROWS, len(out))))
        return out

    # --- passes -----------------------------------------------------------------------------------------------------

    def quad_bounds(self, rho: Array) -> tuple[Array, Array]:
        """Return bounds (M,) from below and above on ``rho' K_m rho``: one pass over the factors."""
        self._count(self.n_kernels)
        templates = [self._operator(m, PASS_TOL, self.rank) for m in range(self.n_kernels)]
        positions = sorted({j for columns in self.positions for j in columns})
        sums = self.table.reduce(positions, partial(_sums, templates), rho)
        inner = np.array([float(image @ image) for image, _ in sums])
        slack = ROUNDING * self.largest * float(np.abs(rho).sum()) ** 2
        return np.maximum(inner - slack, 0.0), inner + np.array([left**2 for _, left in sums]) + slack

    @property
    def error_constants(self) -> Array:
        """Rounding beside ``||rho||_1^2``: ``quad`` sums kernel values; passes use `quad_bounds`."""
        return ROUNDING * self.largest

    @property
    def nbytes(self) -> int:
        """Bytes of the columns, which the stack reads in place."""
        return self.table.nbytes

    def spec_of(self, kernel: int) -> KernelSpec:
        """Return a kernel by itself, without scale."""
        return self.specs[kernel]

    def columns_of(self, kernel: int) -> tuple[int, ...]:
        """Return the columns that a kernel acts on."""
        return self.positions[kernel]

    def _take(self, kernels: Array) -> NystroemStack:
        return type(self)(
            self.table,
            [self.positions[m] for m in kernels],
            [self.specs[m] for m in kernels],
            self.scales[kernels],
            names=self._names_of(kernels),
            rank=self.rank,
        )


def pivoted_cholesky(spec: KernelSpec, rows: Reading, tol: float, max_rank: int) -> tuple[Array, Array]:
    """Return a factor (N, r) and the landmarks (r,) it projects on, drawn in proportion to the diagonal that is left.

    Notes
    -----
    Chen, Epperly, Tropp and Webber, Randomly pivoted Cholesky (2023), algorithm 2.1, in blocks. The generator's seed is
    fixed, so that a smaller tolerance continues the same landmarks.
    """
    generator = np.random.default_rng(0)
    points, n = rows.points, len(rows.points)
    diagonal = np.array(rows.masked(spec.diag(points)), dtype=np.float64)
    trace, smallest = float(diagonal.sum()), SMALLEST_PIVOT * float(diagonal.max(initial=0.0))
    factor, pivots = np.zeros((n, 0)), np.zeros(0, dtype=np.int64)
    while len(pivots) < min(max_rank, n) and float(diagonal.sum()) > tol * trace:
        block = min(BLOCK, max_rank - len(pivots), n - len(pivots))
        drawn = np.unique(generator.choice(n, size=block, p=diagonal / diagonal.sum()))
        left = rows.masked(spec(points, points[drawn])) - factor @ factor[drawn].T
        columns, kept = _accepted(left, drawn, smallest)
        if not len(kept):
            break
        factor, pivots = np.hstack([factor, columns]), np.concatenate([pivots, kept])
        diagonal = np.maximum(diagonal - np.einsum("ij,ij->i", columns, columns), 0.0)
        diagonal[pivots] = 0.0
    return factor, pivots


def rank_limit(n_samples: int) -> int:
    """Return how many landmarks a stored factor may have."""
    return max(BLOCK, min(MAX_RANK, MAX_ENTRIES // n_samples))


def _accepted(left: Array, drawn: Array, smallest: float) -> tuple[Array, Array]:
    """Return orthogonalized columns of the residual for those drawn landmarks that still add something."""
    small = left[drawn].copy()
    least = np.maximum(smallest, 1e-10 * np.abs(np.diag(small)))
    kept: list[int] = []
    columns: list[Array] = []
    while len(kept) < len(drawn):  # the largest pivot first: in any other order rounding grows with every small one
        pivots = np.diag(small) - least
        pivots[kept] = 0.0
        j = int(np.argmax(pivots))
        if pivots[j] <= 0:
            break
        kept.append(j)
        columns.append(small[:, j] / np.sqrt(small[j, j]))
        small = small - np.outer(columns[-1], columns[-1])
    if not kept:
        return np.zeros((len(left), 0)), drawn[:0]
    lower = np.tril(np.array(columns).T[kept])
    return solve_triangular(lower, left[:, kept].T, lower=True).T, drawn[kept]


@dataclass(frozen=True, eq=False)
class NystroemFeatures(FeatureMap):
    """``k(x, landmarks) L'^-1`` with ``L L' = k(landmarks, landmarks)``: the projection on the landmarks."""

    spec: KernelSpec
    landmarks: Array
    lower: Array

    @classmethod
    def of(cls, spec: KernelSpec, landmarks: Array) -> NystroemFeatures:
        """Factorize the kernel on the landmarks."""
        gram = spec(landmarks)
        try:
            lower = cholesky(gram, lower=True)
        except LinAlgError:
            lower = cholesky(gram + 1e-13 * np.diag(np.diag(gram)).max() * np.eye(len(gram)), lower=True)
        return cls(spec, landmarks, lower)

    @classmethod
    def drawn(
        cls, spec: KernelSpec, columns: tuple[int, ...], table: ColumnTable, tol: float, max_rank: int
    ) -> NystroemFeatures:
        """Draw landmarks from the rows of a table, or from a sample where these come in chunks."""
        rows = table.sample().reading(spec, columns)
        return cls.of(spec, rows.points[pivoted_cholesky(spec, rows, tol, max_rank)[1]])

    @property
    def rank(self) -> int:  # type: ignore[override]
        """One feature a landmark."""
        return len(self.landmarks)

    def __call__(self, points: Array) -> Array:
        """Return features of points."""
        return solve_triangular(self.lower, self.spec(points, self.landmarks).T, lower=True).T


def _sums(templates: Sequence[FeatureOperator], table: ColumnTable, rho: Array) -> list[tuple[Array, float]]:
    """Return ``Z' rho`` and what is left of the diagonal for every kernel, over some rows."""
    made = []
    for template in templates:
        operator = template.over(table)
        made.append((operator.adjoint(rho), operator.residual(rho)))
    return made
