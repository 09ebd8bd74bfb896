"""The door: a fitted model to a file that other programs run, by the ending of the name."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from manykernels.exceptions import IncompatibleError, InvalidInputError
from manykernels.inspection.export import evaluate
from manykernels.inspection.export.agreement import Agreement, agreement, trial_rows
from manykernels.inspection.export.card import as_card
from manykernels.inspection.export.extraction import program_of
from manykernels.inspection.export.onnx import as_onnx, input_names, takes_array
from manykernels.inspection.export.program import Program
from manykernels.inspection.export.sql import as_sql, output_names
from manykernels.inspection.files import write_file
from manykernels.validation.arrays import TableLike, check_positive
from manykernels.validation.parameters import printable

ENDINGS = {".onnx": "ONNX model", ".py": "Python module", ".sql": "SQL statement", ".csv": "card"}
WITH_POINTS = (".onnx", ".py")
CARD_TOL = 1e-3  # of curves that ranges will round anyway
WRONG = 1e-3  # of what scores vary by: a file that differs by more within its ranges is not written


@dataclass(frozen=True)
class Export:
    """What a file computes.

    Attributes
    ----------
    path : Path
    max_error : float
        Largest difference between a score of the file and of the model, within ``ranges`` and for missing values and
        categories that training rows did not have. It is the larger of two measurements: the sum over curves of the
        largest difference at seven places of every piece, and the largest difference between ``predict`` and the
        written file on some hundred rows; each plus a tenth. Of a card every line says its own too.
    max_error_beyond : float
        The same on rows in which a single column is far beyond the range, up to 1e12 times, or holds a number that
        stands for a missing one (-999, 9999). Differences below 1e-9 of the score are left out.
    ranges : dict of str to (float, float)
        Ranges of the columns that curves read. Beyond, a curve goes on as the polynomials of the kernels do, and else
        stays where it is.
    columns : tuple of str
        Columns that the file reads.
    measured_by : str
        Program that ran the written file: onnxruntime, sqlite3, duckdb or Python; or why the same program was run by
        NumPy instead.
    names : dict of str to str
        Of ONNX: the input of every column, which is the name where a graph can hold that; empty for one input ``X``. Of
        SQL: the columns that the statement adds, by their usual names.
    """

    path: Path
    max_error: float
    ranges: dict[str, tuple[float, float]]
    columns: tuple[str, ...]
    max_error_beyond: float = 0.0
    measured_by: str = ""
    names: dict[str, str] = field(default_factory=dict)


def export_model(
    model: BaseEstimator, path: str | Path, *, X: TableLike | None = None, tol: float = 1e-6, table: str = "data"
) -> Export:
    r"""Write a fitted model as a program that runs without the library.

    The functions of the kernels of every column, :math:`g_j(x) = \sum_m f_m(x)`, become cubic polynomials on pieces of
    equal length, as many as ``tol`` takes; functions of bins and categories become tables, exactly; those of two
    columns become polynomials on a grid, or keep the points of their kernels, as all kernels of more columns do:
    support samples, or landmarks.

    Parameters
    ----------
    model : fitted estimator
        Whose kernels act on columns: no precomputed kernels, pairs or sparse rows. Of a pipeline, the last step.
    path : str or Path
        What is written is in the ending: ``.onnx`` (a graph of double precision; needs the extra ``onnx``), ``.sql`` (a
        statement that SQLite and DuckDB run), ``.py`` (a module that needs NumPy alone), ``.csv`` (a card: points for
        ranges and categories). An older file is replaced once the new one is whole.
    X : DataFrame or array-like of shape (n_samples, n_features), default=None
        Rows whose range curves shall cover too, and on which the file is compared with the model; None: that of the
        points the model keeps, and as much to every side.
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
        If a kernel or a name cannot be written so, or the written file would differ from the model; the message says
        which, and what to do.
    ImportError
        For ``.onnx`` without the package onnx.

    Notes
    -----
    Dates are read as days since 1970-01-01, durations as days, booleans as 0 and 1. Categories are compared as text. A
    category that training rows did not have adds what it adds in the model. A missing value is NULL in SQL, NaN, None
    or NA in Python, NaN or the empty text in ONNX; where the model takes none, the score is missing. SQLite joins at
    most 64 tables, and a statement has one a curve. Of several quantiles SQL gives the scores, which Python and ONNX
    put in order.

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
    program, columns = program_of(
        model, rows=X, tol=max(share, CARD_TOL) if ending == ".csv" else share, with_points=ending in WITH_POINTS
    )
    ranges = _ranges(program)
    content = _content(ending, program, _about(model, program, ranges, None), table)
    trial = trial_rows(model, program, columns, ranges)
    found = agreement(ending, content, program, trial, table)
    if ending != ".csv" and found.error > max(10 * program.error, WRONG * trial.spread):
        raise IncompatibleError(
            f"The exported program differs from the model by {found.error:.2g} on rows like those of fit, run by "
            f"{found.by}; nothing was written. Columns of whole numbers beyond 2**53 and of decimals with more than 15 "
            "digits are read differently by other programs: subtract a constant from such a column and fit again."
        )
    content = _content(ending, program, _about(model, program, ranges, found), table)
    written = write_file(path, content, ENDINGS[ending])
    return Export(
        written,
        max(program.error, found.error),
        ranges,
        program.columns,
        found.beyond,
        found.by,
        _names(ending, program),
    )


def _content(ending: str, program: Program, about: list[str], table: str) -> bytes | str:
    """Return the file of a program."""
    about = [printable(line) for line in about]
    match ending:
        case ".onnx":
            return as_onnx(program, about)
        case ".py":
            return as_python(program, about)
        case ".sql":
            return as_sql(program, about, table)
    return as_card(program)


def _ranges(program: Program) -> dict[str, tuple[float, float]]:
    """Return the ranges that all curves of a column have."""
    ranges: dict[str, tuple[float, float]] = {}
    for axis in (axis for term in program.terms for axis in term.axes if axis.kind == "pieces" and not axis.period):
        low, high = ranges.get(axis.column, (axis.low, axis.high))
        ranges[axis.column] = max(low, axis.low), min(high, axis.high)
    return ranges


def _names(ending: str, program: Program) -> dict[str, str]:
    """Return what columns are called in a file."""
    if ending == ".onnx":
        return {} if takes_array(program) else input_names(program)
    if ending != ".sql":
        return {}
    return output_names(program)


def _about(
    model: BaseEstimator, program: Program, ranges: Mapping[str, tuple[float, float]], found: Agreement | None
) -> list[str]:
    """Return what the head of a file says."""
    lines = [f"Scores of a {type(model).__name__}, exported by manykernels {version('manykernels')}.", ""]
    if found is not None:
        error = max(program.error, found.error)
        lines.append(
            f"Scores differ from the model's by at most {error:.2g}, measured on {found.n_rows} rows by {found.by}"
            + (", in these ranges:" if ranges else ".")
        )
        lines += [f"  {column}: {low:.6g} to {high:.6g}" for column, (low, high) in ranges.items()]
        if ranges:
            lines.append(
                "Beyond, a curve goes on as the polynomials of its kernels do, and else stays where it is; up to "
                f"1e12 times the range that differs from the model by {found.beyond:.2g}."
            )
    lines += [f"Column {column!r} holds {unit}." for column, unit in program.units.items()]
    lines.append(f"Columns: {', '.join(program.columns) or 'none, the scores are constant'}.")
    return lines


def as_python(program: Program, about: Sequence[str]) -> str:
    """Return a module with ``scores(rows)``, ``predict(rows)`` and, where a model has them, ``probabilities(rows)``."""
    source = Path(evaluate.__file__).read_text(encoding="utf-8")
    code = source[source.index("import numpy as np\n") + len("import numpy as np\n") :]
    used = ["scores", "predict"] + (["probabilities"] if program.probabilities else [])
    if not program.probabilities:
        start = code.index("def probabilities")
        code = code[:start] + code[code.index("def predict") :]
    for name in used:
        code = code.replace(f"def {name}(model:", f"def _{name}(model:")
    code = code.replace("found = scores(model, rows)", "found = _scores(model, rows)")
    doors = [
        f"def {name}(rows: Mapping) -> np.ndarray:\n"
        f'    """Return what the model computes of rows: a DataFrame or a dictionary of columns by name."""\n'
        f"    return _{name}(MODEL, rows)\n"
        for name in used
    ]
    head = "\n".join(about).replace("\\", "\\\\").replace('"', '\\"')
    model = json.dumps(_without_nan(program.plain())).replace("\\", "\\\\").replace("'", "\\'")
    parts = [
        f'"""{head}\n"""\n\nimport json\nimport re\n'
        "from collections.abc import Mapping, Sequence\nfrom typing import Any\n\nimport numpy as np\n",
        code.strip() + "\n",
        f"MODEL = json.loads('{model}')\n",
    ]
    return "\n\n".join([*parts, *doors])


def _without_nan(value: object) -> Any:
    """Return lists and numbers with None for what is no number, as JSON has it; arrays read it as NaN."""
    if isinstance(value, dict):
        return {name: _without_nan(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_without_nan(each) for each in value]
    return None if isinstance(value, float) and value != value else value
