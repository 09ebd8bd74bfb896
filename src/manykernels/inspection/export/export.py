"""Entry point: export a fitted model to a file in the format of the suffix."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from manykernels.exceptions import IncompatibleError, InvalidInputError
from manykernels.inspection.export import evaluate
from manykernels.inspection.export.agreement import Agreement, agreement, trial_rows
from manykernels.inspection.export.card import render_card
from manykernels.inspection.export.extraction import program_of
from manykernels.inspection.export.onnx import input_names, render_onnx, takes_array
from manykernels.inspection.export.program import Program
from manykernels.inspection.export.sql import output_names, render_sql
from manykernels.inspection.files import write_file
from manykernels.inspection.solutions import SolutionModel
from manykernels.kernels.tables.tails import expand_tails
from manykernels.solvers import Solution
from manykernels.validation.arrays import TableLike, check_positive
from manykernels.validation.parameters import printable

ENDINGS = {".onnx": "ONNX model", ".py": "Python module", ".sql": "SQL statement", ".csv": "card"}
WITH_POINTS = (".onnx", ".py")
CARD_TOL = 1e-3  # of curves that ranges will round anyway
WRONG = 1e-3  # of what scores vary by: a file that differs by more within its ranges is not written


@dataclass(frozen=True)
class Export:
    """The content of an exported file.

    Attributes
    ----------
    path : Path
    max_error : float
        Largest difference between a score of the file and of the model, within ``ranges`` and for missing values and
        categories absent from training rows. The value is the larger of two measurements: the sum over curves of the
        largest difference at seven places of every piece, and the largest difference between ``predict`` and the
        written file on some hundred rows; each plus a tenth. A card has the error of every line too.
    max_error_beyond : float
        The same on rows in which a single column is far beyond the range, up to 1e12 times, or holds a number that
        stands for a missing value (-999, 9999). Differences below 1e-9 of the score are left out.
    ranges : dict of str to (float, float)
        Ranges of the columns of curves. Beyond, a curve follows the polynomial tails of the kernels, or stays constant.
    columns : tuple of str
        Columns read by the file.
    measured_by : str
        Program used to run the written file: onnxruntime, sqlite3, duckdb or Python; or the reason for a run by NumPy
        instead.
    names : dict of str to str
        Of ONNX: the input of every column, the column name where possible; empty for a single input ``X``. Of SQL: the
        added columns, by their usual names.
    """

    path: Path
    max_error: float
    ranges: dict[str, tuple[float, float]]
    columns: tuple[str, ...]
    max_error_beyond: float = 0.0
    measured_by: str = ""
    names: dict[str, str] = field(default_factory=dict)


def export_model(
    model: BaseEstimator | Solution,
    path: str | Path,
    *,
    X: TableLike | None = None,
    tol: float = 1e-6,
    table: str = "data",
) -> Export:
    r"""Write a fitted model as a program independent of the library.

    The functions of the kernels of every column, :math:`g_j(x) = \sum_m f_m(x)`, become cubic polynomials on pieces of
    equal length, with an error of at most ``tol``; functions of bins and categories become tables, exactly; functions
    of two columns become polynomials on a grid, or keep the points of their kernels, like kernels of more columns:
    support samples, or landmarks.

    Parameters
    ----------
    model : fitted estimator, or Solution
        A model of kernels on columns: no precomputed kernels, pairs or sparse rows. Of a pipeline, the last step. A
        solution of ``solve(bank, y, X=X, ...)`` has scores only: its ``predict`` returns them.
    path : str or Path
        The suffix sets the format: ``.onnx`` (a graph of double precision; needs the extra ``onnx``), ``.sql`` (a
        statement for SQLite and DuckDB), ``.py`` (a module on NumPy alone), ``.csv`` (a card: points for ranges and
        categories). An older file is replaced after completion.
    X : DataFrame or array-like of shape (n_samples, n_features), default=None
        Rows to extend the range of the curves, and to compare the file with the model; None: the range of the stored
        points, extended on both sides.
    tol : float, default=1e-6
        Total error of the curves, relative to the variation of the scores. A card uses at least 1e-3.
    table : str, default="data"
        Of SQL: the table of the rows, with the column names of the model (``x0``, ``x1``, ... of an array).

    Returns
    -------
    Export
        The path, the score error, the ranges, and the columns.

    Raises
    ------
    InvalidInputError
        For an unknown suffix, or the file cannot be written.
    IncompatibleError
        For a kernel or a name outside the format, or a file that differs from the model; the message has the reason and
        a remedy.
    ImportError
        For ``.onnx`` without the package onnx.

    Notes
    -----
    Dates are read as days since 1970-01-01, durations as days, booleans as 0 and 1. Categories are compared as text. An
    unseen category contributes as in the model. A missing value is NULL in SQL, NaN, None or NA in Python, NaN or the
    empty text in ONNX; without support for missing values the score is missing. SQLite joins at most 64 tables, and a
    statement has a table per curve. Of several quantiles SQL gives the scores, unsorted.

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
    name, model = type(model).__name__, _opened(model)
    ending = Path(path).suffix.lower()
    if ending not in ENDINGS:
        raise InvalidInputError(f"The ending of {str(path)!r} must say what to write: one of {', '.join(ENDINGS)}.")
    share = check_positive(tol, "tol")
    program, columns = program_of(
        model, rows=X, tol=max(share, CARD_TOL) if ending == ".csv" else share, with_points=ending in WITH_POINTS
    )
    ranges = _ranges(program)
    content = _content(ending, program, _about(name, program, ranges, None), table)
    trial = trial_rows(model, program, columns, ranges)
    found = agreement(ending, content, program, trial, table)
    if ending != ".csv" and found.error > max(10 * program.error, WRONG * trial.spread):
        raise IncompatibleError(
            f"The exported program differs from the model by {found.error:.2g} on rows like those of fit, run by "
            f"{found.by}; nothing was written. Columns of whole numbers beyond 2**53 and of decimals with more than 15 "
            "digits are read differently by other programs: subtract a constant from such a column and fit again."
        )
    content = _content(ending, program, _about(name, program, ranges, found), table)
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


def _opened(model: Any) -> Any:
    """Return a fitted model; of a solution, with the attributes of an estimator."""
    if isinstance(model, Solution):
        return SolutionModel(model)
    check_is_fitted(model)
    return model


def _content(ending: str, program: Program, about: list[str], table: str) -> bytes | str:
    """Return the file of a program."""
    about = [printable(line) for line in about]
    match ending:
        case ".onnx":
            return render_onnx(program, about)
        case ".py":
            return render_python(program, about)
        case ".sql":
            return render_sql(program, about, table)
    return render_card(program)


def _ranges(program: Program) -> dict[str, tuple[float, float]]:
    """Return the common ranges of all curves of a column."""
    ranges: dict[str, tuple[float, float]] = {}
    for axis in (axis for term in program.terms for axis in term.axes if axis.kind == "pieces" and not axis.period):
        own = axis.low, axis.high
        if axis.tails is not None:
            own = tuple(expand_tails(np.array(own), *axis.tails).tolist())
        low, high = ranges.get(axis.column, own)
        ranges[axis.column] = max(low, own[0]), min(high, own[1])
    return ranges


def _names(ending: str, program: Program) -> dict[str, str]:
    """Return the names of the columns in a file."""
    if ending == ".onnx":
        return {} if takes_array(program) else input_names(program)
    if ending != ".sql":
        return {}
    return output_names(program)


def _about(
    name: str, program: Program, ranges: Mapping[str, tuple[float, float]], found: Agreement | None
) -> list[str]:
    """Return the header of a file."""
    lines = [f"Scores of a {name}, exported by manykernels {version('manykernels')}.", ""]
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


def render_python(program: Program, about: Sequence[str]) -> str:
    """Return a module with ``scores(rows)``, ``predict(rows)`` and, where available, ``probabilities(rows)``."""
    source = Path(evaluate.__file__).read_text(encoding="utf-8")
    code = source[source.index("import numpy as np\n") + len("import numpy as np\n") :]
    used = ["scores", "predict"] + (["probabilities"] if program.probabilities else [])
    if not program.probabilities:
        start = code.index("def probabilities")
        code = code[:start] + code[code.index("def predict") :]
    for name in used:
        code = code.replace(f"def {name}(model:", f"def _{name}(model:")
    code = code.replace("found = scores(model, rows)", "found = _scores(model, rows)")
    returned = {"predict": "predictions", "scores": "scores", "probabilities": "probabilities"}
    doors = [
        f"def {name}(rows: Mapping | Sequence) -> np.ndarray:\n"
        f'    """Return the {returned[name]} of a DataFrame, a dictionary of columns, or a list of dictionaries."""\n'
        f"    return _{name}(MODEL, rows)\n"
        for name in used
    ]
    head = "\n".join(about).replace("\\", "\\\\").replace('"', '\\"')
    model = json.dumps(_null_for_nan(program.plain())).replace("\\", "\\\\").replace("'", "\\'")
    parts = [
        f'"""{head}\n"""\n\nimport json\nimport re\n'
        "from collections.abc import Mapping, Sequence\nfrom typing import Any\n\nimport numpy as np\n",
        code.strip() + "\n",
        f"MODEL = json.loads('{model}')\n",
    ]
    return "\n\n".join([*parts, *doors])


def _null_for_nan(value: object) -> Any:
    """Return lists and numbers with None for NaN, for JSON; arrays restore NaN."""
    if isinstance(value, dict):
        return {name: _null_for_nan(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_null_for_nan(each) for each in value]
    return None if isinstance(value, float) and value != value else value
