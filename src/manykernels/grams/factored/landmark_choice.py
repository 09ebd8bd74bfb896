"""Which rows become landmarks: by randomly pivoted Cholesky factorization, all alike, or next to centers of k-means."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from scipy.cluster.vq import kmeans2, vq
from scipy.linalg.lapack import dpstrf

from manykernels.exceptions import IncompatibleError
from manykernels.grams.factored.landmark_cholesky import BLOCK, SMALLEST_PIVOT, NystroemFeatures, pivoted_cholesky
from manykernels.grams.rows.columns import ColumnTable, Reading
from manykernels.kernels import KernelSpec
from manykernels.kernels.specs.distances import SparsePoints, shuffled_by_content
from manykernels.validation.arrays import Array

CLUSTERED_ROWS = 20_000  # of which k-means finds the centers
ROUNDS = 10  # of k-means
PIECE = 4096  # rows whose residual is computed at once


def drawn_features(
    spec: KernelSpec, columns: tuple[int, ...], table: ColumnTable, tol: float, max_rank: int, by: str = "cholesky"
) -> NystroemFeatures:
    """Return the projection on landmarks from the rows of a table, or from a sample where these come in chunks."""
    rows = _by_content(table.sample().reading(spec, columns))
    if by == "cholesky":
        return NystroemFeatures.of(spec, rows.points[pivoted_cholesky(spec, rows, tol, max_rank)[1]])
    return NystroemFeatures.of(spec, rows.points[_grown(spec, rows, tol, max_rank, by)])


def _by_content(rows: Reading) -> Reading:
    """Return rows in an order that their content decides: other orders of a table give the same landmarks."""
    points = rows.points
    order = shuffled_by_content(points.sketch() if isinstance(points, SparsePoints) else points)
    return Reading(rows.points[order], None if rows.present is None else rows.present[order])


def _grown(spec: KernelSpec, rows: Reading, tol: float, max_rank: int, by: str) -> Array:
    """Return landmarks (r,), twice as many until they leave little enough of the trace."""
    diagonal = np.asarray(rows.masked(spec.diag(rows.points)), dtype=np.float64)
    present = np.flatnonzero(diagonal > SMALLEST_PIVOT * diagonal.max(initial=0.0))
    most = min(max_rank, len(present))
    propose: Callable[[int], Array] = {"uniform": _uniform, "k-means": _centers}[by](rows.points[present])
    size, kept = min(BLOCK, most), present[:0]
    while size:
        proposed = present[propose(size)]
        kept = proposed[_independent(spec(rows.points[proposed]))]
        if size == most or _left(spec, rows, kept, diagonal) <= tol * float(diagonal.sum()):
            break
        size = min(2 * size, most)
    return kept


def _uniform(points: Array) -> Callable[[int], Array]:
    """Return what draws so many rows, all alike; fewer are the first of more."""
    return lambda size: np.arange(size)  # they come as if shuffled


def _centers(points: Array) -> Callable[[int], Array]:
    """Return what finds the rows next to so many centers of clusters, columns in standard deviations."""
    if isinstance(points, SparsePoints):
        raise IncompatibleError(
            "k-means finds centers of numbers, and objects have none: take landmarks_by='cholesky' or 'uniform'."
        )
    chosen = np.arange(len(points))[:CLUSTERED_ROWS]  # as if shuffled
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
    """Return, increasing, which of some rows are linearly independent in the space of the kernel."""
    smallest = SMALLEST_PIVOT * float(np.diag(gram).max(initial=0.0))
    _, pivots, rank, _ = dpstrf(gram, tol=smallest, lower=1)
    return np.sort(pivots[:rank] - 1)


def _left(spec: KernelSpec, rows: Reading, kept: Array, diagonal: Array) -> float:
    """Return the trace that the projection on landmarks leaves."""
    landmarks, left = rows.points[kept], 0.0
    features = NystroemFeatures.of(spec, landmarks)
    for start in range(0, len(diagonal), PIECE):
        piece = slice(start, start + PIECE)
        own = features(rows.points[piece])
        inside = np.einsum("ij,ij->i", own, own)
        left += float(np.maximum(diagonal[piece] - inside, 0.0)[diagonal[piece] > 0].sum())
    return left
