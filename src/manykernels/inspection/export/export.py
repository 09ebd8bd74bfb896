"""The door: a fitted model to a file that other programs run, by the ending of its name."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from manykernels.exceptions import InvalidInputError
from manykernels.inspection.export.extraction import program_of
from manykernels.inspection.export.onnx import as_onnx
from manykernels.inspection.export.program import Program
from manykernels.inspection.export.text import as_card, as_python, as_sql
from manykernels.inspection.files import write_file
from manykernels.validation.arrays import check_positive

ENDINGS = {".onnx": "ONNX model", ".py": "Python module", ".sql": "SQL statement", ".csv": "card"}
WITH_POINTS = (".onnx", ".py")
MOST_JOINED = 62  # tables that SQLite joins beside that of the rows
CARD_TOL = 1e-3  # of curves that ranges will round anyway


@dataclass(frozen=True)
class Export:
    """What a file computes.

    Attributes
    ----------
    path : Path
    max_error : float
        By how much a score may differ from the model's within ``ranges``: the sum over curves of the largest
        difference at seven places of each piece, and a tenth more. Zero where nothing is interpolated. Of a card,
        which has points for ranges in place of curves, each line says its own.
    ranges : dict of str to (float, float)
        Of the columns that curves read. Beyond, a curve goes on as its linear kernels do, and else stays where it is.
    columns : tuple of str
        Columns that the file reads.
    """

    path: Path
    max_error: float
    ranges: dict[str, tuple[float, float]]
    columns: tuple[str, ...]


def export_model(model: Any, path: str | Path, *, X: Any = None, tol: float = 1e-6, table: str = "data") -> Export:
    r"""Write a fitted model as a program that runs without this library.

    The functions of the kernels of each column, :math:`g_j(x) = \sum_m f_m(x)`, become cubic polynomials on pieces of
    equal length, as many as ``tol`` takes; functions of bins and categories become tables, exactly; those of two
    columns become polynomials on a grid, or keep the points of their kernels, as all kernels of more columns do.

    Parameters
    ----------
    model : fitted estimator
        Whose kernels act on columns: no precomputed kernels, pairs or sparse rows. Of a pipeline, its last step.
    path : str or Path
        What is written is in the ending: ``.onnx`` (a graph of double precision; needs the extra ``onnx``), ``.sql`` (a
        statement that SQLite and DuckDB run), ``.py`` (a module that needs NumPy alone), ``.csv`` (a card: points for
        ranges and categories). An older file is replaced once the new one is whole.
    X : DataFrame or array-like of shape (n_samples, n_features), default=None
        Rows whose range curves shall cover too; None: that of the points the model keeps, and as much to each side.
    tol : float, default=1e-6
        By how much curves may be missed together, as a share of what scores vary by. A card takes 1e-3 if that is more.
    table : str, default="data"
        Of SQL: the table of the rows, whose columns have the names that the model knows (``x0``, ``x1``, ... of an
        array).

    Returns
    -------
    Export
        The path, by how much scores may differ, in which ranges, and which columns are read.

    Raises
    ------
    InvalidInputError
        If the ending is none of these, or the file cannot be written.
    IncompatibleError
        If a kernel cannot be written so; the message says which, and what to do.
    ImportError
        For ``.onnx`` without the package onnx.

    Notes
    -----
    Dates are read as days since 1970-01-01, durations as days, booleans as 0 and 1. A category that training rows did
    not have adds what it adds in the model. A missing value is NULL in SQL, NaN or None in Python, NaN or the empty
    text in ONNX; where the model takes none, the score is missing. SQLite joins at most 64 tables, and a statement has
    one a curve. Of several quantiles SQL gives the scores, which Python and ONNX put in order.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from manykernels import KernelBank, MKLRegressor
    >>> from manykernels.inspection import export_model
    >>> X = np.random.default_rng(0).uniform(-2, 2, (60, 2))
    >>> model = MKLRegressor(KernelBank.per_feature(widths=[1.0]), alpha=1e-3).fit(X, np.sin(X[:, 0]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     told = export_model(model, f"{folder}/model.py")
    ...     program = {}
    ...     exec(told.path.read_text(), program)
    >>> bool(np.abs(program["predict"]({"x0": X[:, 0], "x1": X[:, 1]}) - model.predict(X)).max() <= told.max_error)
    True
    """
    check_is_fitted(model)
    ending = Path(path).suffix.lower()
    if ending not in ENDINGS:
        raise InvalidInputError(f"The ending of {str(path)!r} must say what to write: one of {', '.join(ENDINGS)}.")
    share = check_positive(tol, "tol")
    program = program_of(
        model, rows=X, tol=max(share, CARD_TOL) if ending == ".csv" else share, with_points=ending in WITH_POINTS
    )
    about = _about(model, program)
    if ending == ".onnx":
        content: bytes | str = as_onnx(program, about)
    elif ending == ".py":
        content = as_python(program, about)
    else:
        content = as_sql(program, _of_sql(about, program), table) if ending == ".sql" else as_card(program)
    written = write_file(path, content, ENDINGS[ending])
    return Export(written, program.error, _ranges(program), program.columns)


def _ranges(program: Program) -> dict[str, tuple[float, float]]:
    """Return the ranges that all curves of a column have."""
    ranges: dict[str, tuple[float, float]] = {}
    for axis in (axis for term in program.terms for axis in term.axes if axis.kind == "pieces"):
        low, high = ranges.get(axis.column, (axis.low, axis.high))
        ranges[axis.column] = max(low, axis.low), min(high, axis.high)
    return ranges


def _about(model: BaseEstimator, program: Program) -> list[str]:
    """Return what the head of a file says."""
    lines = [f"Scores of a {type(model).__name__}, exported by manykernels {version('manykernels')}.", ""]
    if program.error:
        lines.append(
            f"A score differs from the model's by at most {program.error:.2g} in these ranges, as was measured:"
        )
        lines += [f"  {column}: {low:.6g} to {high:.6g}" for column, (low, high) in _ranges(program).items()]
        lines.append("Beyond, a curve goes on as its linear kernels do, and else stays where it is.")
    lines += [f"Column {column!r} holds {unit}." for column, unit in program.units.items()]
    lines.append(f"Columns: {', '.join(program.columns) or 'none, the scores are constant'}.")
    return lines


def _of_sql(about: list[str], program: Program) -> list[str]:
    """Return these lines with what SQL cannot do."""
    more = []
    if len(program.terms) > MOST_JOINED:
        more.append(f"This joins {len(program.terms)} tables; SQLite joins 64 at most, DuckDB more.")
    if program.link == "sort":
        more.append("The scores of the quantiles are not put in order.")
    return [*about, *more]
