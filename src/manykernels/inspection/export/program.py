"""What an exported model computes: polynomials on cells, tables of categories, kernels with points."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from manykernels.inspection.export.evaluate import SMOOTH
from manykernels.validation.arrays import Array

OTHER = "\0 none of these"  # a category that no table has


@dataclass(frozen=True)
class Axis:
    """One column as a term reads it: pieces of equal length, steps between edges, or levels."""

    column: str
    position: int  # in the table of the model
    kind: str  # "pieces", "steps" or "levels"
    low: float = 0.0  # of pieces: beyond, a function goes on as the polynomials of its linear kernels do
    high: float = 0.0
    n_pieces: int = 0
    edges: tuple[float, ...] = ()
    levels: tuple[Any, ...] = ()
    unit: str = ""  # of a column of dates or durations
    text: bool = False  # whether some of its values are texts

    @property
    def n_cells(self) -> int:
        """Pieces and what lies below, above and nowhere; steps and nowhere; levels, others and nowhere."""
        counts = {"pieces": self.n_pieces + 1, "steps": len(self.edges), "levels": len(self.levels)}
        return counts[self.kind] + 2

    @property
    def degree(self) -> int:
        """Number of coefficients along this axis."""
        return SMOOTH if self.kind == "pieces" else 1

    def plain(self) -> dict[str, Any]:
        """Return the axis as exported programs read it."""
        values: dict[str, Any] = {"column": self.column, "kind": self.kind}
        if self.kind == "pieces":
            return values | {"low": self.low, "high": self.high, "n_pieces": self.n_pieces}
        return values | ({"edges": list(self.edges)} if self.kind == "steps" else {"levels": list(self.levels)})


@dataclass(frozen=True, eq=False)
class Term:
    """A function of one or few columns: polynomials on the cells of its axes."""

    axes: tuple[Axis, ...]
    coefficients: Array  # (cells, monomials, K) float64: NaN where a row must not have that cell
    error: float  # the largest difference that was measured

    def plain(self) -> dict[str, Any]:
        """Return the term as exported programs read it."""
        return {"axes": [axis.plain() for axis in self.axes], "coefficients": self.coefficients.tolist()}


@dataclass(frozen=True, eq=False)
class KernelTerm:
    """Kernels of one shape of many columns: ``sum_i c_i k(x, z_i)`` at standardized points."""

    columns: tuple[str, ...]
    means: Array  # (d,) float64: what is subtracted from rows, and by what they are divided
    scales: Array
    points: Array  # (r, d) float64
    coefficients: Array  # (r, K) float64
    offsets: Array  # (K,) float64
    kernel: dict[str, Any]  # its name and parameters
    masks: bool  # whether a row with a gap gets nothing; else its score is not known

    def plain(self) -> dict[str, Any]:
        """Return the term as exported programs read it."""
        arrays = {name: getattr(self, name).tolist() for name in ("means", "scales", "points", "coefficients")}
        return {"columns": list(self.columns), **arrays, "offsets": self.offsets.tolist(), "masks": self.masks} | (
            self.kernel
        )


@dataclass(frozen=True, eq=False)
class Program:
    """What a fitted model computes."""

    columns: tuple[str, ...]  # that it reads
    n_features: int
    named: bool  # whether rows come as a table with names; else as an array
    positions: tuple[int, ...]  # of these columns
    units: dict[str, str]  # of columns of dates and durations
    terms: tuple[Term, ...]
    kernels: tuple[KernelTerm, ...]
    intercept: Array  # (K,)
    labels: tuple[Any, ...]  # of classes or outputs, none for a single score
    classes: tuple[Any, ...] | None
    probabilities: str  # "sigmoid", "softmax", "shares" of several sigmoids, or none
    link: str  # "identity", "exp" or "sort"
    single: bool

    @property
    def error(self) -> float:
        """Sum of the largest differences of terms: what a score may differ by within the ranges of the columns."""
        return float(sum(term.error for term in self.terms))

    def plain(self) -> dict[str, Any]:
        """Return the model as lists and numbers."""
        return {
            "columns": list(self.columns),
            "terms": [term.plain() for term in self.terms],
            "kernels": [part.plain() for part in self.kernels],
            "intercept": self.intercept.tolist(),
            "classes": None if self.classes is None else list(self.classes),
            "probabilities": self.probabilities,
            "link": self.link,
            "single": self.single,
        }


def nodes_of(axis: Axis, inside: Array) -> list[list[Any]]:
    """Return values in every cell of an axis: of pieces at these places, of others one a cell."""
    if axis.kind == "levels":
        numbers = all(isinstance(level, float) for level in axis.levels)
        other = (max(axis.levels, default=0.0) + 1.0) if numbers else OTHER
        return [[level] for level in (*axis.levels, other, None)]
    if axis.kind == "steps":
        edges = np.asarray(axis.edges)
        inner = 0.5 * (edges[1:] + edges[:-1])
        ends = [edges[0] - 1.0, *inner.tolist(), edges[-1] + 1.0] if len(edges) else [0.0]
        return [[float(value)] for value in ends] + [[np.nan]]
    step = (axis.high - axis.low) / axis.n_pieces
    pieces = axis.low + (np.arange(axis.n_pieces)[:, None] + inside) * step
    beyond = [[end] * len(inside) for end in (axis.low, axis.high, np.nan)]
    return pieces.tolist() + beyond
