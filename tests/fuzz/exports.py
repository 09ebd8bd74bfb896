"""Exports of random models in every format, run by other programs and compared with what the models predict.

Tables have hostile names, numbers far from zero, integers beyond 2**53, booleans, dates, categories of texts and of
numbers, and gaps; rows to predict have also sentinels, levels that no training row has, and columns of other types
than those of fit. A file may be refused in words; what is written must agree with the model within what it says.
"""

from __future__ import annotations

import csv
import importlib.util
import sqlite3
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from tests.fuzz.uses import REFUSALS, Judgment

from manykernels import (
    Gaussian,
    KernelBank,
    Laplacian,
    Linear,
    MKLClassifier,
    MKLRegressor,
    MKLSurvival,
    Periodic,
    Polynomial,
    survival_array,
)
from manykernels.inspection import Export, export_model
from manykernels.kernels import Landmarks, Matern

ROUNDING = 1e-9  # of a score
FORMATS = (".py", ".onnx", ".sql", ".csv")
NAMES = (
    "age", "dose (mg)", "score", "Score", "prediction", "probabilities", "scores", "X", "x1", "value_0", "s0", "cell",
    "term_1", "rows_given", "row number", "", "it's", 'say "no"', "line\nbreak", "x\n; DROP TABLE data; --", "-- x",
    "*/ x /*", "a;b", "nul\0x", "next\u2028line", "\u202egnp.exe", "carriage\rreturn", "=1+1", "@sum",
    "+x", "tab\tx", "列", "select", "'''", '"""', "\\", "{x}", "%s", "?", ":x", "$1", "NULL",
)  # fmt: skip
KINDS = ("number", "number", "number", "few", "large", "boolean", "text", "codes", "ordered", "date", "duration")
SENTINELS = (-999.0, 1e4, 1e5, 1e6, -1e6, 1e9, 1e12, -1e12)


@dataclass(frozen=True)
class ExportCase:
    """A fitted model and rows to predict: like those of fit, and with values far beyond."""

    model: Any
    near: pd.DataFrame
    far: pd.DataFrame
    kinds: dict[str, str]
    seed: int


# --- drawing ----------------------------------------------------------------------------------------------------------


def draw_case(seed: int) -> ExportCase:
    """Fit a model on a random table."""
    rng = np.random.default_rng([seed, 61])
    n = int(rng.choice([40, 80, 150, 400], p=[0.3, 0.4, 0.2, 0.1]))
    names = rng.permutation(np.array(NAMES, dtype=object))[: int(rng.integers(1, 6))].tolist()
    kinds = {name: str(rng.choice(KINDS)) for name in names}
    makers = {name: maker_of(kind, rng) for name, kind in kinds.items()}
    X, more = (pd.DataFrame({name: make(size, False) for name, make in makers.items()}) for size in (n, 60))
    unseen = pd.DataFrame({name: make(20, True) for name, make in makers.items()})
    near = pd.concat([X.iloc[:40], more, unseen], ignore_index=True)
    missing = str(rng.choice(["error", "mask", "indicator"]))
    if missing != "error":
        whole = dict.fromkeys([name for name in names if kinds[name] == "boolean"], "boolean")
        X, near = X.astype(whole), near.astype(whole)
        for table in (X, near):
            for name in names:
                table.loc[rng.random(len(table)) < 0.1, name] = None
    near = near.astype({name: dtype for name, dtype in X.dtypes.items() if kinds[name] != "ordered"})
    return ExportCase(fitted(X, kinds, missing, rng), near, far_rows(near, kinds), kinds, seed)


def maker_of(kind: str, rng: np.random.Generator) -> Callable[[int, bool], Any]:
    """Return what makes columns of a kind; with values that training rows do not have if asked to."""
    scale, offset = 10.0 ** rng.integers(-3, 4), float(rng.choice([0.0, 0.0, 1e3, -1e6]))
    base = int(rng.integers(2**53, 2**60))
    levels = [f"level {j}" for j in range(4)] if rng.random() < 0.6 else ["it's", 'a"b', "=1", "", "None", "x\ny"]
    start = pd.Timestamp("2021-03-01") + pd.Timedelta(days=int(rng.integers(0, 900)))

    def make(n: int, unseen: bool) -> Any:
        match kind:
            case "number":
                return offset + scale * rng.normal(size=n)
            case "few":
                return scale * (rng.integers(0, 5 + 2 * unseen, n))
            case "large":
                return base + rng.integers(0, 10**6, n) * 10**3 + rng.integers(-3, 4, n)
            case "boolean":
                return rng.random(n) < 0.5
            case "text":
                return pd.Series(rng.choice(np.array(levels + ["new"] * unseen, dtype=object), n), dtype=object)
            case "codes":
                return pd.Series(rng.integers(1, 5, n)).astype(pd.CategoricalDtype([1, 2, 3, 4]))
            case "ordered":
                grades = pd.CategoricalDtype(["lo", "mid", "hi"], ordered=True)
                return pd.Series(rng.choice(["lo", "mid", "hi"], n)).astype(grades)
            case "date":
                return start + pd.to_timedelta(rng.integers(0, 700, n) + 0.25 * rng.integers(0, 4, n), unit="D")
        return pd.to_timedelta(rng.integers(0, 10_000, n), unit="min")

    return make


def bank_of(columns: list[str], kinds: dict[str, str], missing: str, rng: np.random.Generator) -> Any:
    """Return kernels of single columns, of pairs, of several columns, or those of the types of columns."""
    numeric = [name for name in columns if kinds[name] in ("number", "few", "large", "boolean", "date", "duration")]
    width = float(rng.choice([0.3, 1.0, 3.0]))
    way = int(rng.integers(5))
    if way == 0 or not numeric:
        return KernelBank.auto(missing=missing)
    if way == 1:
        return KernelBank.interactions(missing=missing)
    one: list[Any] = [
        Gaussian(width), Laplacian(width), Linear(), Polynomial(2), Polynomial(3), Matern(width, nu=1.5),
        Periodic(4 * width), Gaussian(width) * Linear(), Gaussian("median") + Linear(), Matern("median", nu=2.5),
    ]  # fmt: skip
    several: list[Any] = [Gaussian("median"), Linear(), Polynomial(2), Matern("median", nu=0.5), Landmarks(
        Gaussian("median"), count=20)]  # fmt: skip
    entries = []
    for m in range(int(rng.integers(1, 6))):
        if way == 4 and len(numeric) > 1:
            size = int(rng.integers(2, len(numeric) + 1))
            chosen = rng.permutation(np.array(numeric, dtype=object))[:size].tolist()
            entries.append((f"k{m}", several[int(rng.integers(len(several)))], chosen))
        else:
            entries.append((f"k{m}", one[int(rng.integers(len(one)))], [str(rng.choice(numeric))]))
    return KernelBank(entries, standardize=True, missing=missing)


def fitted(X: pd.DataFrame, kinds: dict[str, str], missing: str, rng: np.random.Generator) -> Any:
    """Return a fitted estimator whose target depends on every column."""
    score = np.zeros(len(X))
    for name in X:
        codes = (
            X[name].rank(method="dense")
            if kinds[name] not in ("text", "codes")
            else X[name].astype("category").cat.codes
        )
        codes = np.nan_to_num(np.asarray(codes, dtype=np.float64))
        score += np.sin(3 * codes / max(codes.max(), 1.0) + rng.uniform(0, 3))
    score += 0.1 * rng.normal(size=len(X))
    bank = bank_of(list(X), kinds, missing, rng)
    options: dict[str, Any] = {"alpha": float(10 ** rng.uniform(-4, -2))}
    if rng.random() < 0.3:
        options["resources"] = {"representation": str(rng.choice(["gram", "factored"]))}
    match int(rng.integers(6)):
        case 0 | 1:
            return MKLRegressor(bank, **options).fit(X, score)
        case 2:
            return MKLClassifier(bank, **options).fit(X, np.where(score > np.median(score), "a", "A"))
        case 3:
            names = np.array(["=x", "no\nbreak", "prediction"], dtype=object)
            return MKLClassifier(bank, **options).fit(X, names[np.digitize(score, np.quantile(score, [0.3, 0.7]))])
        case 4:
            return MKLRegressor(bank, loss="poisson", **options).fit(X, rng.poisson(np.exp(score / 2)) + 0.0)
    event = rng.random(len(X)) < 0.7
    return MKLSurvival(bank, alpha=1e-2).fit(X, survival_array(event, np.exp(rng.normal(size=len(X)) - score)))


def far_rows(near: pd.DataFrame, kinds: dict[str, str]) -> pd.DataFrame:
    """Return rows in which one number is far beyond its range."""
    parts = []
    for name, kind in kinds.items():
        if kind in ("number", "few"):
            rows = near.iloc[: len(SENTINELS)].copy()
            rows[name] = np.array(SENTINELS)
            parts.append(rows)
    return pd.concat(parts, ignore_index=True) if parts else near.iloc[:0]


# --- running files ----------------------------------------------------------------------------------------------------


def plain_rows(X: pd.DataFrame, kinds: dict[str, str]) -> dict[str, list[Any]]:
    """Return columns as values of Python: dates as days, booleans as 0 and 1, None for what is missing."""
    columns: dict[str, list[Any]] = {}
    for name in X:
        column = X[name]
        if kinds[name] == "date":
            column = (column - pd.Timestamp("1970-01-01")) / pd.Timedelta(days=1)
        elif kinds[name] == "duration":
            column = column / pd.Timedelta(days=1)
        values = [None if pd.isna(value) else value for value in column.astype(object)]
        values = [value.item() if isinstance(value, np.generic) else value for value in values]
        columns[str(name)] = [int(value) if isinstance(value, bool) else value for value in values]
    return columns


def run_python(told: Export, rows: dict[str, list[Any]], case: ExportCase) -> tuple[Any, Any]:
    """Return scores and predictions of a Python file."""
    module: dict[str, Any] = {}
    exec(told.path.read_text(encoding="utf-8"), module)
    return module["scores"](rows), module["predict"](rows)


def run_onnx(told: Export, rows: dict[str, list[Any]], case: ExportCase) -> tuple[Any, Any]:
    """Return scores and predictions of a graph."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(told.path), providers=["CPUExecutionProvider"])
    columns = {given: column for column, given in told.names.items()}
    n, feed = len(next(iter(rows.values()))), {}
    for given in session.get_inputs():
        values = rows[columns[given.name]] if given.name in columns else [0.0] * n
        if given.type == "tensor(string)":
            feed[given.name] = np.array([["" if value is None else str(value)] for value in values], dtype=object)
        else:
            feed[given.name] = np.array([[np.nan if value is None else value] for value in values], dtype=np.float64)
    scores, prediction = session.run(["scores", "prediction"], feed)
    return scores, prediction


def run_sqlite(told: Export, rows: dict[str, list[Any]], case: ExportCase) -> tuple[Any, Any]:
    """Return scores and predictions of a statement; the table has columns that the model does not know, too."""
    with sqlite3.connect(":memory:") as base:
        base.create_function("exp", 1, lambda value: None if value is None else float(np.exp(min(value, 709.0))))
        return from_database(base.execute, base.executemany, told, rows, case, types=False)


def run_duckdb(told: Export, rows: dict[str, list[Any]], case: ExportCase) -> tuple[Any, Any]:
    """Return the same by another engine."""
    import duckdb

    base = duckdb.connect()
    return from_database(base.execute, base.executemany, told, rows, case, types=True)


def from_database(
    execute: Any, many: Any, told: Export, rows: dict[str, list[Any]], case: ExportCase, *, types: bool
) -> tuple[Any, Any]:
    """Fill a table, run the statement, and return scores and predictions in the order of the rows."""
    known = {name.casefold() for name in rows}
    extra = [name for name in ("id of row", "score", "prediction", "s0", "top") if name.casefold() not in known]
    fields = {name: rows[name] for name in rows if name in told.columns}
    n = len(next(iter(rows.values())))
    fields |= {name: list(range(n)) if name == "id of row" else [1e6] * n for name in extra}
    quoted = ['"' + name.replace('"', '""') + '"' for name in fields]
    kinds = {
        name: "VARCHAR" if case.kinds.get(name) in ("text", "ordered") else
        "BIGINT" if case.kinds.get(name) in ("large", "codes", "boolean") else "DOUBLE" for name in fields
    }  # fmt: skip
    typed = [f"{name} {kind if types else ''}" for name, kind in zip(quoted, kinds.values(), strict=True)]
    execute(f"CREATE TABLE data ({', '.join(typed)})")
    many(f"INSERT INTO data VALUES ({', '.join('?' * len(fields))})", list(zip(*fields.values(), strict=True)))
    cursor = execute(told.path.read_text(encoding="utf-8"))
    found, names = cursor.fetchall(), [part[0] for part in cursor.description]
    if execute("SELECT count(*) FROM data").fetchone()[0] != n:
        raise AssertionError("the statement changed the table of the rows")
    key = list(fields).index("id of row")
    found = sorted(found, key=lambda row: row[key])
    added = [row[len(fields) :] for row in found]
    k = np.atleast_1d(case.model.intercept_).size
    scores = np.array([row[:k] for row in added], dtype=np.float64)
    told_names = list(told.names.values())
    if [name.casefold() for name in names[len(fields) :]] != [name.casefold() for name in told_names] and not types:
        raise AssertionError(f"added columns {names[len(fields) :]}, told {told_names}")
    predictions = [row[k] for row in added] if len(told_names) > k else None
    return scores, predictions


RUNS: dict[str, list[Callable[[Export, dict[str, list[Any]], ExportCase], tuple[Any, Any]]]] = {
    ".py": [run_python], ".onnx": [run_onnx],
    ".sql": [run_sqlite, *([run_duckdb] if importlib.util.find_spec("duckdb") else [])],
}  # fmt: skip


# --- judging ----------------------------------------------------------------------------------------------------------


def judge_export(seed: int) -> list[Judgment]:
    """Draw, fit, export in every format, run and compare."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            case = draw_case(seed)
        except REFUSALS as error:
            return [Judgment("fit", seed, "refused", detail=str(error)[:200])]
        except Exception as error:
            return [Judgment("fit", seed, "exception", "exception", f"{type(error).__name__}: {error}"[:300])]
        return [_judged(case, ending) for ending in FORMATS] + [judge_types(case)]


def _judged(case: ExportCase, ending: str) -> Judgment:
    with tempfile.TemporaryDirectory() as folder:
        try:
            told = export_model(case.model, Path(folder) / f"model{ending}", tol=1e-5)
            wrong = _wrong_card(told, case) if ending == ".csv" else _wrong(told, case, ending)
        except REFUSALS as error:
            # A file that is not written since it would be wrong is a fault too.
            wrong = "differs from the model by" in str(error)
            return Judgment(ending, case.seed, "refused", "wrong" if wrong else "", str(error)[:300])
        except Exception as error:
            return Judgment(ending, case.seed, "exception", "exception", f"{type(error).__name__}: {error}"[:300])
    return Judgment(ending, case.seed, "converged", "wrong" if wrong else "", wrong)


def _read_as_missing(rows: pd.DataFrame) -> Any:
    """Return the rows with an empty text in a column with missing values, which graphs take for one of these."""
    columns = [rows[name] for name in rows if rows[name].dtype == object and rows[name].isna().any()]
    return np.any([np.asarray(column == "") for column in columns], axis=0) if columns else np.zeros(len(rows), bool)


def _wrong(told: Export, case: ExportCase, ending: str) -> str:
    """Return how a file differs from the model by more than it says, if it does."""
    for rows, allowed in ((case.near, told.max_error), (case.far, told.max_error + told.max_error_beyond)):
        if ending == ".onnx":
            rows = rows[~_read_as_missing(rows)]
        if not len(rows):
            continue
        expected = case.model._scores(rows)
        for run in RUNS[ending]:
            found, predicted = run(told, plain_rows(rows, case.kinds), case)
            found = np.asarray(found, dtype=np.float64).reshape(expected.shape)
            limit = 1.5 * allowed + ROUNDING * np.maximum(np.abs(expected), np.ptp(expected))
            differences = np.abs(found - expected)
            if not (differences <= limit).all():
                at = np.unravel_index(np.argmax(np.nan_to_num(differences - limit, nan=np.inf)), differences.shape)
                return (
                    f"{run.__name__}: {found[at]:.9g} for {expected[at]:.9g} with {allowed:.2g} told, row "
                    f"{rows.iloc[at[0]].to_dict()}"
                )
            if predicted is not None and isinstance(case.model, MKLClassifier):
                margins = np.sort(np.hstack([expected, -expected]) if expected.shape[1] == 1 else expected, axis=1)
                clear = margins[:, -1] - margins[:, -2] > 2 * limit.max(axis=1)
                labels = [str(label) for label in case.model.predict(rows)]
                if any(str(a) != b for a, b, sure in zip(predicted, labels, clear, strict=True) if sure):
                    return f"{run.__name__}: other classes"
    return ""


def _wrong_card(told: Export, case: ExportCase) -> str:
    """Return whether a card contains a formula."""
    with open(told.path, encoding="utf-8", newline="") as file:
        for line in csv.reader(file):
            for cell in line:
                try:
                    float(cell)
                except ValueError:
                    if cell[:1] in tuple("=+-@\t\r\n"):
                        return f"a formula: {cell!r}"
    return ""


def judge_types(case: ExportCase) -> Judgment:
    """Predict rows whose columns have other types: the same numbers, or a refusal in words."""
    try:
        expected = case.model._scores(case.near)
    except REFUSALS as error:
        return Judgment("types", case.seed, "refused", detail=str(error)[:300])
    for way, changed in retyped(case.near, case.kinds).items():
        try:
            found = case.model._scores(changed)
        except REFUSALS:
            continue
        except Exception as error:
            detail = f"{way}: {type(error).__name__}: {error}"[:300]
            return Judgment("types", case.seed, "exception", "exception", detail)
        same = np.abs(found - expected) <= 1e-6 * max(1.0, float(np.nanmax(np.abs(expected))))
        if not same.all():
            row = int(np.flatnonzero(~same.all(axis=1))[0])
            detail = f"{way}: {found[row]} for {expected[row]}, row {case.near.iloc[row].to_dict()}"
            return Judgment("types", case.seed, "wrong", "wrong", detail)
    return Judgment("types", case.seed, "converged")


def retyped(X: pd.DataFrame, kinds: dict[str, str]) -> dict[str, pd.DataFrame]:
    """Return the same rows with columns of other types that lose nothing."""
    codes = [name for name in X if kinds[str(name)] == "codes"]
    ways: dict[str, pd.DataFrame] = {
        "objects": X.astype(object).where(X.notna(), None),
        "nullable": X.convert_dtypes(),
        "categories": X.astype({name: "category" for name in X if kinds[str(name)] in ("text", "codes")}),
    }
    if codes:
        ways["codes as floats"] = X.astype(dict.fromkeys(codes, float))
        ways["codes as text"] = X.assign(
            **{name: X[name].map(_text, na_action="ignore").astype(object) for name in codes}
        )
    if any(kinds[str(name)] == "text" for name in X):
        texts = {name: "string" for name in X if kinds[str(name)] == "text"}
        ways["strings"] = X.astype(texts)
    return ways


def _text(value: Any) -> str:
    return str(int(value))
