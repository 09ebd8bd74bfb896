"""Real tables that packages ship, through ``fit``, ``predict``, ``report`` and ``export``: the same numbers everywhere?

``python benchmarks/real_files.py`` looks for the packages of `FILES` in this environment, or in the folder of
``--packages``, and skips tables whose package is missing. ``--smoke`` takes two tables of scikit-learn instead. Each
table is fitted by the command and by the estimator on the same rows. One row of the result is one table:

- ``held out``: the score of the held-out rows by ``manykernels fit``;
- ``predict``: by how much the score by ``manykernels predict`` on the same file differs;
- ``python``: largest difference of the scores of the estimator, relative to their spread;
- ``types``: the same for predictions of the table with other column types (nullable, categories, text, Parquet);
- ``chunks``: rows whose prediction differs with ``--chunk-rows``;
- ``report``: rows that the report holds out, of those of the fit;
- ``export``: largest difference of the exported program, run on the rows of the table, relative to their spread.
"""

from __future__ import annotations

import argparse
import json
import sysconfig
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from typer.testing import CliRunner

from manykernels import InvalidInputError, load_model
from manykernels.cli import app
from manykernels.cli.fit import ESTIMATORS, hold_out
from manykernels.cli.tables import read_table
from manykernels.cli.targets import split_columns
from manykernels.inspection import export_model, read_metadata
from manykernels.inspection.reports.fitted_rows import fingerprints, split_as_fitted
from manykernels.kernels import KernelBank

MOST_ROWS = 1000  # of a table; larger ones are sampled
CHUNK_ROWS = 100


@dataclass(frozen=True)
class RealFile:
    """A table of a package, and what is predicted from which columns."""

    name: str
    path: str  # inside the folder of packages
    target: str
    event: str = ""
    drop: tuple[str, ...] = ()

    def read(self, packages: Path) -> pd.DataFrame | None:
        """Return the table, at most `MOST_ROWS` rows of it in file order, or None if it is not there."""
        path = packages / self.path
        if not path.is_file():
            return None
        table = pd.read_json(path, dtype=False) if path.suffix == ".json" else pd.read_csv(path)
        table = table.drop(columns=[name for name in table if not str(name) or str(name).startswith("Unnamed")])
        return table.sample(MOST_ROWS, random_state=0).sort_index() if len(table) > MOST_ROWS else table


FILES = (
    RealFile("penguins", "palmerpenguins/data/penguins.csv", "species"),
    RealFile("cars", "vega_datasets/_data/cars.json", "Miles_per_Gallon"),
    RealFile("weather", "vega_datasets/_data/seattle-weather.csv", "temp_max"),
    RealFile("weather, its kind", "vega_datasets/_data/seattle-weather.csv", "weather"),
    RealFile("AIDS trial", "lifelines/datasets/ACTG175.csv", "days", "cens", ("pidnum",)),
    RealFile("recidivism", "lifelines/datasets/rossi.csv", "week", "arrest"),
    RealFile("breast cancer trial", "lifelines/datasets/gbsg2.csv", "time", "cens"),
    RealFile("mortgages", "causaldata/mortgages/fetter_mortgages.csv", "home_ownership"),
    RealFile("restaurants", "causaldata/restaurant_inspections/restaurant_data.csv", "inspection_score"),
    RealFile("fuel economy", "plotnine/data/mpg.csv", "hwy"),
    RealFile("sleep", "plotnine/data/msleep.csv", "sleep_total", drop=("name", "genus", "awake")),
    RealFile("diamonds", "plotnine/data/diamonds.csv", "price"),
    RealFile("counties", "plotnine/data/midwest.csv", "percbelowpoverty", drop=("PID", "county")),
)


def of_sklearn() -> list[tuple[RealFile, pd.DataFrame]]:
    """Return two tables that scikit-learn ships."""
    from sklearn.datasets import load_diabetes, load_wine

    wine, diabetes = load_wine(as_frame=True).frame, load_diabetes(as_frame=True).frame.head(120)
    wine["target"] = np.array(["one", "two", "three"])[wine["target"]]
    return [(RealFile("wine", "", "target"), wine), (RealFile("diabetes", "", "target"), diabetes)]


def command(*words: object) -> dict[str, Any]:
    """Run the command in this process; return its JSON result, or raise with its message."""
    done = CliRunner().invoke(app, [*map(str, words), "--json"], env={"COLUMNS": "200"})
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    found: dict[str, Any] = json.loads(done.stdout) if done.stdout.startswith("{") else {}
    if not found or "error" in found:
        raise InvalidInputError(found.get("error") or done.stderr.strip()[-300:])
    return found


def retyped(table: pd.DataFrame) -> pd.DataFrame:
    """Return the same values in other types: nullable numbers, categories, and text for half of the whole numbers."""
    changed = table.copy()
    for place, name in enumerate(table):
        column = table[name]
        if column.dtype == bool:
            changed[name] = column.astype("boolean")
        elif pd.api.types.is_integer_dtype(column.dtype):
            changed[name] = column.astype("Int64") if place % 2 else column.astype("float64")
        elif pd.api.types.is_numeric_dtype(column.dtype):
            changed[name] = column.astype("Float64")
        else:
            changed[name] = column.astype("category")
    return changed


def apart(one: Any, other: Any) -> float:
    """Return the largest difference of scores relative to their spread; the share of labels that differ."""
    one, other = np.asarray(one), np.asarray(other)
    if one.dtype.kind not in "fiu" or other.dtype.kind not in "fiu":
        return float(np.mean(one.astype(str) != other.astype(str)))
    spread = float(np.ptp(one, axis=0).max())
    return float(np.abs(one.astype(float) - other.astype(float)).max() / (spread or 1.0))


def scores_of(model: Any, rows: Any) -> Any:
    """Return decisions of classifiers, else predictions."""
    return model.decision_function(rows) if hasattr(model, "decision_function") else model.predict(rows)


def attempt(work: Callable[[], object]) -> object:
    """Return what a step found, or the first words of why it failed."""
    try:
        return work()
    except Exception as error:  # the table shows it
        return f"{type(error).__name__}: {str(error).splitlines()[0][:70]}"


def row_of(file: RealFile, table: pd.DataFrame, folder: Path) -> dict[str, object]:
    """Put one table through everything."""
    csv, parquet, model = folder / "table.csv", folder / "table.parquet", folder / "model.mkl"
    table.to_csv(csv, index=False)
    what = ["--time", file.target, "--event", file.event] if file.event else ["--target", file.target]
    drops = [word for name in file.drop for word in ("--drop", name)]
    fit = command("fit", csv, *what, *drops, "--missing", "indicator", "-o", model, "--force")
    score = next(iter(fit["scores"]))
    found: dict[str, object] = {"held out": f"{score} {fit['scores'][score]:.3f}"}
    read, fitted, metadata = read_table(csv), load_model(model), read_metadata(model)
    given = {"task": fit["task"], "missing": "indicator", "drop": file.drop}
    samples = split_columns(read, file.target, event=file.event or None, **given)
    X, y = samples.features, samples.target

    def predicted() -> float:
        told = command("predict", model, csv)
        if told["scores"] is None:
            raise InvalidInputError(" ".join(told["notes"]) or "no scores")
        return abs(float(told["scores"][score]) - float(fit["scores"][score]))

    def in_python() -> float:
        rows, held_out = hold_out(samples, 0.2, 0)
        split = split_as_fitted(fingerprints(X, y), metadata["rows_of_fit"])
        if set(np.flatnonzero(split.fitted)) != set(rows) or len(held_out) != fit["n_test"]:
            raise InvalidInputError(f"{split.fitted.sum()} of {len(rows)} rows of the fit are recognized")
        kind = ESTIMATORS[fit["task"]][0]
        own = kind(KernelBank.auto(missing="indicator"), random_state=0).fit(X.iloc[rows], y[rows])
        return apart(scores_of(fitted, X), scores_of(own, X))

    def other_types() -> float:
        return apart(scores_of(fitted, X), scores_of(fitted, retyped(X)))

    def other_file() -> float:
        retyped(read).to_parquet(parquet)
        names = ("prediction", "risk")
        one, other = (command("predict", model, path)["columns"] for path in (csv, parquet))
        return max(apart(one[name], other[name]) for name in names if name in one)

    def in_chunks() -> int:
        command("predict", model, csv, "-o", folder / "whole.csv", "--force")
        command("predict", model, csv, "-o", folder / "parts.csv", "--force", "--chunk-rows", CHUNK_ROWS)
        one, other = pd.read_csv(folder / "whole.csv"), pd.read_csv(folder / "parts.csv")
        if one.dtypes.iloc[0].kind == "f":
            return int((np.abs(one.to_numpy(float) - other.to_numpy(float)) > 1e-9 * np.abs(one).max().max()).sum())
        return int((one != other).to_numpy().sum())

    def reported() -> str:
        told = command("report", model, csv, "-o", folder / "report.html", "--force")
        return f"{told['n_held_out']} of {fit['n_test']}"

    def exported() -> float:
        told, module = export_model(fitted, folder / "model.py"), {}
        exec(told.path.read_text(encoding="utf-8"), module)
        own, other = np.asarray(scores_of(fitted, X)), np.asarray(module["scores"](X))
        return apart(own.reshape(len(X), -1), other.reshape(len(X), -1)[:, -own.reshape(len(X), -1).shape[1] :])

    steps = {"predict": predicted, "python": in_python, "types": other_types, "file types": other_file}
    steps |= {"chunks": in_chunks, "report": reported, "export": exported}
    return found | {name: attempt(work) for name, work in steps.items()}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packages", type=Path, default=Path(sysconfig.get_paths()["purelib"]))
    parser.add_argument("--smoke", action="store_true", help="two tables of scikit-learn")
    parser.add_argument("--only", type=lambda text: text.split(","), help="these tables, by name")
    options = parser.parse_args()
    given = of_sklearn() if options.smoke else [(file, file.read(options.packages)) for file in FILES]
    head = ("table", "rows", "held out", "predict", "python", "types", "file types", "chunks", "report", "export", "s")
    print(f"| {' | '.join(head)} |\n|{' --- |' * len(head)}")
    for file, table in given:
        if options.only and file.name not in options.only:
            continue
        if table is None:
            print(f"| {file.name} | skipped: {file.path} is not installed |" + " |" * (len(head) - 2))
            continue
        started = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            found = attempt(lambda: row_of(file, table, Path(folder)))  # noqa: B023
        cells = found if isinstance(found, dict) else {"held out": found}
        row = {"table": file.name, "rows": len(table), "s": f"{time.perf_counter() - started:.0f}"} | cells
        texts = [f"{row[name]:.0e}" if isinstance(row.get(name), float) else str(row.get(name, "")) for name in head]
        print(f"| {' | '.join(text.replace('|', ' ') for text in texts)} |", flush=True)


if __name__ == "__main__":
    main()
