"""Landmarks that a randomly pivoted Cholesky factorization draws, and the projection on them as features.

Which rows become landmarks is decided by randomly pivoted Cholesky factorization, all alike, or next to centers of
k-means.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.cluster.vq import kmeans2, vq
from scipy.linalg import LinAlgError, cholesky, solve_triangular
from scipy.linalg.lapack import dpstrf

from manykernels.exceptions import IncompatibleError
from manykernels.grams.factored.features import FeatureMap
from manykernels.grams.rows.columns import ColumnTable, Reading
from manykernels.kernels import KernelSpec
from manykernels.kernels.specs.distances import SparsePoints, shuffled_by_content
from manykernels.validation.arrays import Array

MAX_RANK, MAX_ENTRIES = 1000, 10**8  # of one stored factor: 0.8 GB
# Share of the trace below which factors have more landmarks, up to so many entries: all of 3,162 rows. Solvers ask for
# that where N x N matrices, which are preferred to more landmarks, cannot be formed.
FINE, FINE_ENTRIES = 1e-9, 10**7
BLOCK = 32  # landmarks drawn at once
SMALLEST_PIVOT = 1e-12  # of the largest diagonal entry; rounding divided by smaller ones would not be psd


def pivoted_cholesky(
    spec: KernelSpec, rows: Reading, tol: float, max_rank: int, counts: Array | None = None
) -> tuple[Array, Array]:
    """Return a factor (N, r) and the landmarks (r,) it projects on, drawn in proportion to the diagonal left.

    Where rows stand for several equal ones, ``counts`` (N,) says for how many.

    Notes
    -----
    Chen, Epperly, Tropp and Webber, Randomly pivoted Cholesky (2023), algorithm 2.1, in blocks. The generator's seed is
    fixed, so a smaller tolerance continues the same landmarks.
    """
    generator = np.random.default_rng(0)
    points, n = rows.points, len(rows.points)
    diagonal = np.array(rows.masked(spec.diag(points)), dtype=np.float64)
    smallest, weights = SMALLEST_PIVOT * float(diagonal.max(initial=0.0)), 1.0 if counts is None else counts
    left_over = weights * diagonal
    trace = float(left_over.sum())
    factor, pivots = np.zeros((n, 0)), np.zeros(0, dtype=np.int64)
    while len(pivots) < min(max_rank, n) and float(left_over.sum()) > tol * trace:
        block = min(BLOCK, max_rank - len(pivots), n - len(pivots))
        drawn = np.unique(generator.choice(n, size=block, p=left_over / left_over.sum()))
        left = rows.masked(spec(points, points[drawn])) - factor @ factor[drawn].T
        columns, kept = _accepted(left, drawn, smallest)
        if not len(kept):
            break
        factor, pivots = np.hstack([factor, columns]), np.concatenate([pivots, kept])
        diagonal = np.maximum(diagonal - np.einsum("ij,ij->i", columns, columns), 0.0)
        diagonal[pivots] = 0.0
        left_over = weights * diagonal
    return factor, pivots


def rank_limit(n_samples: int, tol: float = 1.0) -> int:
    """Return the maximal number of landmarks of a stored factor for a share of the trace."""
    usual = max(BLOCK, min(MAX_RANK, MAX_ENTRIES // n_samples))
    return usual if tol >= FINE else max(usual, min(n_samples, FINE_ENTRIES // n_samples))


def _accepted(left: Array, drawn: Array, smallest: float) -> tuple[Array, Array]:
    """Return orthogonalized columns of the residual for useful drawn landmarks."""
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
    """``k(x, landmarks) L'^-1 U`` with ``L L' = k(landmarks, landmarks)``: the projection on the landmarks.

    ``U`` are orthonormal directions, if not all.
    """

    spec: KernelSpec
    landmarks: Array
    lower: Array
    directions: Array | None = None

    @classmethod
    def factorize(cls, spec: KernelSpec, landmarks: Array) -> NystroemFeatures:
        """Factorize the kernel on the landmarks."""
        gram = spec(landmarks)
        try:
            lower = cholesky(gram, lower=True)
        except LinAlgError:
            lower = cholesky(gram + 1e-13 * np.diag(np.diag(gram)).max() * np.eye(len(gram)), lower=True)
        return cls(spec, landmarks, lower)

    @property
    def rank(self) -> int:  # type: ignore[override]
        """A feature per landmark, or per direction."""
        return len(self.landmarks) if self.directions is None else self.directions.shape[1]

    def rotate(self, directions: Array) -> NystroemFeatures:
        """Return the directions of the features."""
        return replace(self, directions=directions)

    def weights(self, v: Array) -> Array:
        """Return ``c`` with ``z(x)'v = sum_l c_l k(x, landmark_l)``."""
        return solve_triangular(self.lower.T, v if self.directions is None else self.directions @ v, lower=False)

    def __call__(self, points: Array) -> Array:
        features = solve_triangular(self.lower, self.spec(points, self.landmarks).T, lower=True).T
        return features if self.directions is None else features @ self.directions


ROUNDS = 10  # of k-means
PIECE = 4096  # rows whose residual is computed at once


def draw_features(
    spec: KernelSpec, columns: tuple[int, ...], table: ColumnTable, tol: float, max_rank: int, by: str = "cholesky"
) -> NystroemFeatures:
    """Return the projection on landmarks from the rows of a table, or from a sample of chunked rows."""
    rows = _content_order(table.sample().reading(spec, columns))
    if by == "cholesky":
        return NystroemFeatures.factorize(spec, rows.points[pivoted_cholesky(spec, rows, tol, max_rank)[1]])
    return NystroemFeatures.factorize(spec, rows.points[_double_landmarks(spec, rows, tol, max_rank, by)])


def _content_order(rows: Reading) -> Reading:
    """Return rows in an order by content, for landmarks independent of the row order."""
    points = rows.points
    order = shuffled_by_content(points.sketch() if isinstance(points, SparsePoints) else points)
    return Reading(rows.points[order], None if rows.present is None else rows.present[order])


def _double_landmarks(spec: KernelSpec, rows: Reading, tol: float, max_rank: int, by: str) -> Array:
    """Return landmarks (r,), doubled in number until the remaining trace is small."""
    diagonal = np.asarray(rows.masked(spec.diag(rows.points)), dtype=np.float64)
    present = np.flatnonzero(diagonal > SMALLEST_PIVOT * diagonal.max(initial=0.0))
    most = min(max_rank, len(present))
    # Uniform samples are prefixes: rows are shuffled already.
    propose: Callable[[int], Array] = np.arange if by == "uniform" else _centers(rows.points[present])
    size, kept = min(BLOCK, most), present[:0]
    while size:
        proposed = present[propose(size)]
        kept = proposed[_independent(spec(rows.points[proposed]))]
        if size == most or _remaining_trace(spec, rows, kept, diagonal) <= tol * float(diagonal.sum()):
            break
        size = min(2 * size, most)
    return kept


def _centers(points: Array) -> Callable[[int], Array]:
    """Return a sampler of the rows nearest to cluster centers, with standardized columns."""
    if isinstance(points, SparsePoints):
        raise IncompatibleError("k-means needs numbers, not objects. Use landmarks_by='cholesky' or 'uniform'.")
    clustered_rows = 20_000  # of which k-means finds the centers
    chosen = np.arange(len(points))[:clustered_rows]  # as if shuffled
    scale = points.std(axis=0)
    some = points[chosen] / np.where(scale > 0, scale, 1.0)

    def propose(size: int) -> Array:
        if size >= len(points):
            return np.arange(len(points))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of clusters that lost all rows, whose centers stay
            means, _ = kmeans2(some, some[:size], iter=ROUNDS, minit="matrix")
        return np.asarray(chosen[np.unique(vq(means, some)[0])])

    return propose


def _independent(gram: Array) -> Array:
    """Return the linearly independent rows in the space of the kernel, increasing."""
    smallest = SMALLEST_PIVOT * float(np.diag(gram).max(initial=0.0))
    _, pivots, rank, _ = dpstrf(gram, tol=smallest, lower=1)
    return np.sort(pivots[:rank] - 1)


def _remaining_trace(spec: KernelSpec, rows: Reading, kept: Array, diagonal: Array) -> float:
    """Return the trace left by the projection on landmarks."""
    landmarks, left = rows.points[kept], 0.0
    features = NystroemFeatures.factorize(spec, landmarks)
    for start in range(0, len(diagonal), PIECE):
        piece = slice(start, start + PIECE)
        own = features(rows.points[piece])
        inside = np.einsum("ij,ij->i", own, own)
        left += float(np.maximum(diagonal[piece] - inside, 0.0)[diagonal[piece] > 0].sum())
    return left
