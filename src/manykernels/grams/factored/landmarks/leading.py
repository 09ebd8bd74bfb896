"""Landmarks rotated to the leading directions of the rows: short factors of kernels whose series would be long."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh, qr

from manykernels.grams.factored.landmarks.cholesky import NystroemFeatures, pivoted_cholesky
from manykernels.grams.rows.columns import ColumnTable, Reading
from manykernels.kernels import KernelSpec
from manykernels.validation.arrays import Array

LANDMARK_SHARE = 0.1  # of the trace that a factor may leave: what its landmarks may


@dataclass(frozen=True, eq=False)
class LeadingDirections:
    """A kernel's landmarks and the directions of their features that matter for the rows, the largest first.

    What landmarks and truncation leave of the kernel is positive semidefinite, like all that projections leave. Finer
    directions begin with the coarser ones, so that coefficients of these are coefficients of those.

    Attributes
    ----------
    features : NystroemFeatures
        All directions.
    sizes : (r,) float64
        What every direction adds to the trace.
    trace : float
        Of the kernel on the rows, without scale.
    """

    features: NystroemFeatures
    sizes: Array
    trace: float

    @classmethod
    def of(
        cls,
        spec: KernelSpec,
        column: int,
        table: ColumnTable,
        tol: float,
        max_rank: int,
        coarser: LeadingDirections | None = None,
    ) -> LeadingDirections:
        """Find directions that leave at most ``tol`` of the trace, if no more than ``max_rank`` landmarks do.

        Parameters
        ----------
        spec : KernelSpec
        column : int
        table : ColumnTable
            The rows, or a sample of them.
        tol : float
        max_rank : int
        coarser : LeadingDirections, optional
            Those of a larger tolerance.
        """
        rows, counts = distinct(spec, column, table)
        landmarks = pivoted_cholesky(spec, rows, LANDMARK_SHARE * tol, max_rank, counts)[1]
        base = NystroemFeatures.of(spec, rows.points[landmarks])
        Z = base(rows.points)
        gram = (Z.T * counts) @ Z
        known = None if coarser is None else coarser.features.directions
        directions = _directions(gram, known)
        sizes = np.einsum("ij,ij->j", directions, gram @ directions)
        trace = float(spec.diag(rows.points) @ counts)
        return cls(base.turned(directions), sizes, trace)

    @property
    def left_over(self) -> float:
        """Share of the trace that all directions leave."""
        return max(1.0 - float(self.sizes.sum()) / max(self.trace, 1e-300), 0.0)

    def at(self, tol: float) -> NystroemFeatures:
        """Return the features that leave at most ``tol`` of the trace, or all that there are."""
        left = self.trace - np.cumsum(self.sizes)
        enough = np.flatnonzero(left <= tol * self.trace)
        rank = int(enough[0]) + 1 if len(enough) else len(self.sizes)
        directions = self.features.directions
        assert directions is not None
        return self.features.turned(directions[:, :rank])


def distinct(spec: KernelSpec, column: int, table: ColumnTable) -> tuple[Reading, Array]:
    """Return the different values of a column as a kernel reads them, and how many rows have each."""
    present = table.present((column,))
    rows = np.arange(table.n_rows) if present is None else np.flatnonzero(present)
    _, first, counts = np.unique(table.column(column)[rows], return_index=True, return_counts=True)
    return Reading(table.reading(spec, (column,), rows[first]).points, None), counts.astype(np.float64)


def _directions(gram: Array, known: Array | None) -> Array:
    """Return orthonormal directions, the largest first; after the known ones, which are of the first coordinates."""
    if known is None:
        return np.ascontiguousarray(eigh(gram)[1][:, ::-1])
    kept = np.zeros((len(gram), known.shape[1]))
    kept[: len(known)] = known
    others = qr(kept)[0][:, kept.shape[1] :]
    return np.hstack([kept, others @ eigh(others.T @ gram @ others)[1][:, ::-1]])
