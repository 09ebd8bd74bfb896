"""Whether exported models agree with the model, and how many rows a second they score.

``python benchmarks/export.py [--rows 1000000] [--smoke] [--output DIR]``

Ten models of drawn tables: curves of 10 and of 30 columns, three classes, centered kernels, bins of pairs, categories,
gaps, a count, hazards, and the default bank. Each is written as ONNX, SQL and Python; the largest difference of a score
from the model's on 20,000 rows is told beside what the file says, with rows a second (one thread) of onnxruntime,
DuckDB, SQLite (on a tenth of the rows) and NumPy. Needs onnx, onnxruntime and duckdb for their columns.
"""

from __future__ import annotations

import argparse
import sqlite3
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import _common as common
import numpy as np
import pandas as pd

from manykernels import KernelBank, MKLClassifier, MKLRegressor, MKLSurvival, survival_array
from manykernels.exceptions import IncompatibleError
from manykernels.inspection import export_model

FITTED = 500
COMPARED = 20_000  # rows whose scores are compared with the model's, which takes longer over them
AT_ONCE = 100_000


def table(n: int, rng: np.random.Generator, *, columns: int = 10, gaps: bool = False) -> pd.DataFrame:
    """Return numbers and two categories."""
    found = pd.DataFrame(rng.normal(size=(n, columns)), columns=[f"x{j}" for j in range(columns)])
    found["city"] = rng.choice([f"city {j}" for j in range(12)], n)
    found["kind"] = rng.choice(["a", "b", "c"], n)
    if gaps:
        for name in ("x0", "x1"):
            found.loc[rng.random(n) < 0.1, name] = np.nan
    return found


def wave(X: pd.DataFrame) -> Any:
    """Return a smooth target of three columns and a category."""
    values = np.sin(2 * X["x0"].fillna(0)) + X["x1"].fillna(0) * (X["x2"] > 0) + 0.5 * X["x3"] ** 2
    return (values + (X["kind"] == "a") if "kind" in X else values).to_numpy()


def cases(n_rows: int, rng: np.random.Generator) -> dict[str, tuple[Any, pd.DataFrame, pd.DataFrame]]:
    """Return fitted models with the rows that they are to score, by name."""

    def numbers(columns: int) -> tuple[pd.DataFrame, pd.DataFrame]:
        both = (table(n, rng, columns=columns).drop(columns=["city", "kind"]) for n in (FITTED, n_rows))
        return tuple(both)  # type: ignore[return-value]

    curves = KernelBank.per_feature(widths=[0.5, 1.0, 2.0])
    ten, many = numbers(10), numbers(30)
    mixed = table(FITTED, rng), table(n_rows, rng)
    gapped = table(FITTED, rng, gaps=True), table(n_rows, rng, gaps=True)
    y, z = wave(ten[0]), wave(mixed[0])
    y = y + 0.1 * rng.normal(size=FITTED)
    return {
        "curves of 10 columns": (MKLRegressor(curves).fit(ten[0], y), *ten),
        "curves of 30 columns": (MKLRegressor(curves).fit(many[0], wave(many[0])), *many),
        "two classes": (MKLClassifier(curves).fit(ten[0], y > 0.5), *ten),
        "three classes": (MKLClassifier(curves).fit(ten[0], np.digitize(y, [0.0, 1.0])), *ten),
        "centered": (MKLRegressor(KernelBank.per_feature(widths=[1.0], center=True)).fit(ten[0], y), *ten),
        "bins of pairs": (MKLRegressor(KernelBank.interactions()).fit(mixed[0], z), *mixed),
        "categories": (MKLRegressor(KernelBank.auto()).fit(mixed[0], z), *mixed),
        "gaps": (MKLRegressor(KernelBank.auto(missing="indicator")).fit(gapped[0], wave(gapped[0])), *gapped),
        "counts": (MKLRegressor(curves, loss="poisson").fit(ten[0], np.round(np.exp(0.3 * y))), *ten),
        "hazards": (MKLSurvival(curves).fit(ten[0], survival_array(np.arange(FITTED) % 3 > 0, np.exp(y))), *ten),
    }


def by_onnx(path: Path, rows: pd.DataFrame) -> Callable[[], Any]:
    """Return what scores rows by onnxruntime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    feed = {
        given.name: rows[[given.name]].fillna("").to_numpy(dtype=object)
        if given.type == "tensor(string)"
        else rows[[given.name]].to_numpy(dtype=np.float64)
        for given in session.get_inputs()
    }

    def run() -> Any:
        parts = []
        for start in range(0, len(rows), AT_ONCE):
            own = {name: values[start : start + AT_ONCE] for name, values in feed.items()}
            parts.append(session.run(["scores"], own)[0])
        return np.vstack(parts)

    return run


def by_duckdb(path: Path, rows: pd.DataFrame) -> Callable[[], Any]:
    """Return what scores rows by DuckDB."""
    import duckdb

    base = duckdb.connect(config={"threads": 1})
    numbered = rows.assign(number=np.arange(len(rows)))
    base.register("given", numbered)
    numbers = [name for name in rows if rows[name].dtype == float]
    known = [f'CASE WHEN isnan("{name}") THEN NULL ELSE "{name}" END AS "{name}"' for name in numbers]
    names = ", ".join([*known, *(f'"{name}"' for name in rows if name not in numbers)])
    base.execute(f"CREATE TABLE data AS SELECT {names}, number FROM given")
    statement = path.read_text()

    def run() -> Any:
        return score_columns(base.execute(statement).df())

    return run


def by_sqlite(path: Path, rows: pd.DataFrame) -> Callable[[], Any]:
    """Return what scores rows by SQLite."""
    base = sqlite3.connect(":memory:")
    rows.to_sql("data", base, index_label="number")
    statement = path.read_text()
    return lambda: score_columns(pd.read_sql_query(statement, base))


def score_columns(found: pd.DataFrame) -> Any:
    """Return the scores in the order of the rows."""
    found = found.sort_values("number")
    return found[[name for name in found if name == "score" or name.startswith("score_")]].to_numpy(dtype=float)


def by_numpy(path: Path, rows: pd.DataFrame) -> Callable[[], Any]:
    """Return what scores rows by the Python file."""
    module: dict[str, Any] = {}
    exec(path.read_text(), module)
    columns = {name: rows[name].to_numpy() for name in rows}
    return lambda: module["scores"](columns)


# What runs a file: its ending, and the share of the rows that is scored.
RUNS = {
    "onnxruntime": (".onnx", by_onnx, 1),
    "duckdb": (".sql", by_duckdb, 1),
    "sqlite": (".sql", by_sqlite, 10),
    "numpy": (".py", by_numpy, 1),
}


def measured(name: str, model: Any, rows: pd.DataFrame, runner: str, folder: Path) -> dict[str, Any]:
    """Export a model, score the rows, and compare."""
    ending, door, share = RUNS[runner]
    line: dict[str, Any] = {"model": name, "runner": runner}
    try:
        started = time.process_time()
        told = export_model(model, folder / f"model{ending}")
        line |= {"export s": time.process_time() - started, "kB": told.path.stat().st_size / 1e3}
        own = rows.iloc[: len(rows) // share]
        run = door(told.path, own)
        started = time.process_time()
        found = run()
        seconds = max(time.process_time() - started, common.SHORTEST)
    except (ImportError, IncompatibleError) as error:
        return line | {"refused": str(error).partition(" reads")[0][:40]}
    some = rows.iloc[: min(len(own), COMPARED)]
    scores = getattr(model, "decision_function", model.predict)(some)
    expected = np.reshape(scores, found[: len(some)].shape)
    differences = {"difference": float(np.abs(found[: len(some)] - expected).max()), "told": told.max_error}
    return line | {"rows/s": len(own) / seconds, **differences, "spread": float(np.ptp(expected))}


def main() -> int:
    """Export, score, compare, print, save."""
    parser = common.parser("Exported models beside the models they come from.")
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows to score")
    options: argparse.Namespace = parser.parse_args()
    record = common.environment()
    common.print_environment(record)
    lines = []
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        drawn = cases(2000 if options.smoke else options.rows, np.random.default_rng(options.seed))
        for name, (model, _, rows) in drawn.items():
            lines += [measured(name, model, rows, runner, Path(folder)) for runner in RUNS]
    frame = pd.DataFrame(lines)
    shown = {"export s": ".2f", "kB": ".0f", "rows/s": ",.0f"}
    frame["refused"] = frame["refused"].fillna("") if "refused" in frame else ""
    common.print_table(frame, "Exported models", shown | dict.fromkeys(["difference", "told", "spread"], ".2g"))
    common.save(frame, record, options.output, "export")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
