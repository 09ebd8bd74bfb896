"""The content of an exported model: polynomials on cells, tables of categories, kernels with points."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from manykernels.inspection.export.evaluate import SMOOTH, texts_of
from manykernels.validation.arrays import Array

OTHER = "\0 none of these"  # a category that no table has


@dataclass(frozen=True)
class Axis:
    """A column in the form of a term.

    Kinds: ``"pieces"`` of equal length or, with edges, between edges, ``"steps"`` between edges, ``"boolean"``,
    ``"numbers"`` compared for equality, and ``"levels"`` of categories, compared as text.
    """

    column: str
    position: int  # in the table of the model
    kind: str
    low: float = 0.0  # of pieces: beyond, a function goes on as its polynomials do, and else is constant
    high: float = 0.0
    n_pieces: int = 0
    period: bool = False  # whether the function repeats itself from low to high
    positive: bool = False  # whether the model takes no numbers below zero
    tails: tuple[float, float] | None = None  # middle and unit of numbers that are compressed first
    edges: tuple[float, ...] = ()
    levels: tuple[Any, ...] = ()
    unit: str = ""  # of a column of dates or durations
    text: bool = False  # whether some of its values are texts

    @property
    def n_cells(self) -> int:
        """Pieces, plus a cell below and above; steps; levels, plus other levels; and a cell for missing values."""
        counts = {"pieces": self.n_pieces + 1, "steps": len(self.edges), "boolean": 1}
        return counts.get(self.kind, len(self.levels)) + 2

    @property
    def degree(self) -> int:
        """Number of coefficients along the axis."""
        return SMOOTH if self.kind == "pieces" else 1

    def plain(self) -> dict[str, Any]:
        """Return the axis in the form of exported programs."""
        values: dict[str, Any] = {"column": self.column, "kind": self.kind}
        if self.kind == "pieces":
            ends = {"low": self.low, "high": self.high, "n_pieces": self.n_pieces}
            return (
                values
                | ends
                | ({"period": True} if self.period else {})
                | ({"edges": list(self.edges)} if self.edges else {})
            )
        if self.kind == "boolean":
            return values | {"kind": "steps", "edges": [0.5]}
        return values | ({"edges": list(self.edges)} if self.kind == "steps" else {"levels": list(self.levels)})


@dataclass(frozen=True, eq=False)
class Term:
    """A function of few columns: polynomials on the cells of the axes."""

    axes: tuple[Axis, ...]
    coefficients: Array  # (cells, monomials, K) float64: NaN where a row must not have that cell
    error: float = 0.0  # largest difference from the model that was measured between the nodes
    beyond: float = 0.0  # the same far beyond the pieces, as a share of the function where that is larger than one

    def plain(self) -> dict[str, Any]:
        """Return the term in the form of exported programs."""
        return {"axes": [axis.plain() for axis in self.axes], "coefficients": self.coefficients.tolist()}


@dataclass(frozen=True, eq=False)
class KernelTerm:
    """A kernel of several columns at points: ``sum_i c_i k(x, z_i)``, where ``x`` and ``z_i`` are standardized."""

    axes: tuple[Axis, ...]  # columns as levels, or as plain numbers ("pieces")
    codes: tuple[Array | None, ...]  # what levels are as numbers; None for a column of numbers
    means: Array  # (d,) float64: subtracted from rows, before they are divided by scales
    scales: Array
    points: Array  # (r, d) float64
    coefficients: Array  # (r, K) float64
    offsets: Array  # (K,) float64
    kernel: dict[str, Any]  # its name and parameters
    masks: bool  # whether a row with a missing value gets nothing; else its score is missing
    error: float = 0.0  # largest difference from the model that was measured

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns read by the kernel."""
        return tuple(axis.column for axis in self.axes)

    def plain(self) -> dict[str, Any]:
        """Return the term in the form of exported programs."""
        arrays = {name: getattr(self, name).tolist() for name in ("means", "scales", "points", "coefficients")}
        readers = [
            {"column": axis.column}
            if codes is None
            else {"column": axis.column, "levels": list(axis.levels), "codes": codes.tolist()}
            for axis, codes in zip(self.axes, self.codes, strict=True)
        ]
        own = {"offsets": self.offsets.tolist(), "masks": self.masks, "kernel": self.kernel}
        return {"readers": readers, **arrays, **own}


@dataclass(frozen=True, eq=False)
class Program:
    """The computation of a fitted model."""

    columns: tuple[str, ...]  # that it reads
    features: tuple[str, ...]  # all columns of the model
    named: bool  # whether rows come as a table with names; else as an array
    positions: tuple[int, ...]  # of the columns that it reads
    units: dict[str, str]  # of columns of dates and durations
    terms: tuple[Term, ...]
    kernels: tuple[KernelTerm, ...]
    intercept: Array  # (K,)
    labels: tuple[Any, ...]  # of classes or outputs, none for a single score
    classes: tuple[Any, ...] | None
    probabilities: str  # "sigmoid", "softmax", "shares" of several sigmoids, sigmoids of "labels", or none
    link: str  # "identity", "exp" or "sort"
    single: bool
    masks: bool  # whether missing values have scores

    @property
    def parts(self) -> tuple[Term | KernelTerm, ...]:
        """Terms and kernels."""
        return (*self.terms, *self.kernels)

    @property
    def tails(self) -> dict[str, tuple[float, float]]:
        """Middle and unit of columns with heavy tails, which are compressed before terms and kernels read them."""
        return {axis.column: axis.tails for part in self.parts for axis in part.axes if axis.tails is not None}

    @property
    def predicts_labels(self) -> bool:
        """Whether every score is that of a label of 0 or 1."""
        return self.classes is not None and not self.single and len(self.classes) == 2

    @property
    def error(self) -> float:
        """Sum of the largest differences of terms: the error bound of a score within the ranges of the columns."""
        return float(sum(part.error for part in self.parts))

    def plain(self) -> dict[str, Any]:
        """Return the model as lists and numbers."""
        return {
            "columns": list(self.columns),
            "tails": {name: list(own) for name, own in self.tails.items()},
            "terms": [term.plain() for term in self.terms],
            "kernels": [part.plain() for part in self.kernels],
            "intercept": self.intercept.tolist(),
            "classes": None if self.classes is None else list(self.classes),
            "probabilities": self.probabilities,
            "link": self.link,
            "single": self.single,
        }


def nodes_of(axis: Axis, inside: Array) -> list[list[Any]]:
    """Return values in every cell of an axis: several per piece, else one per cell."""
    if axis.kind == "boolean":
        return [[0.0], [1.0], [np.nan]]
    if axis.kind == "steps":
        first, last = (axis.edges[0], axis.edges[-1]) if axis.edges else (0.0, 0.0)
        starts, ends = np.array(axis.edges[:-1]), np.array(axis.edges[1:])
        middle = starts + 0.5 * (ends - starts)  # of neighboring floats, a cell is its edge
        inner = np.where(middle < ends, middle, starts).tolist()
        around = [first - max(1.0, abs(first)), *inner, last + max(1.0, abs(last))] if axis.edges else [0.0]
        return [[float(value)] for value in around] + [[np.nan]]
    if axis.kind == "numbers":
        largest = max(axis.levels, default=0.0)
        return [[level] for level in (*axis.levels, largest + max(1.0, abs(largest)), np.nan)]
    if axis.kind == "levels":
        return [[level] for level in (*axis.levels, OTHER, None)]
    step = (axis.high - axis.low) / axis.n_pieces
    if axis.edges:
        pieces = np.array(axis.edges[:-1])[:, None] + np.diff(axis.edges)[:, None] * inside
    else:
        pieces = axis.low + (np.arange(axis.n_pieces)[:, None] + inside) * step
    beyond = [[end] * len(inside) for end in (axis.low, axis.high, np.nan)]
    return pieces.tolist() + beyond


def score_names(program: Program) -> list[str]:
    """Return the names of the scores."""
    return ["score"] if not program.labels else [f"score_{label}" for label in program.labels]


def written_forms(levels: Sequence[Any]) -> dict[str, int]:
    """Return the position of every category by equivalent texts, for example "1" and "1.0" for a number."""
    forms = texts_of(levels)
    for text, place in list(forms.items()):
        if re.fullmatch(r"-?\d+", text):
            forms.setdefault(f"{text}.0", place)
        if isinstance(levels[place], bool):
            forms.setdefault(text.lower(), place)
    return forms
