"""Whether the default strength suits targets with little noise: untouched fits beside their own cross-validation.

``python benchmarks/clean.py [--data DIR] [--rows 250,1000] [--splits 3] [--tables NAME,...] [--smoke] [--output DIR]``

Three models a split: the fit at the strength in units of noise alone, the untouched fit, which goes on to weaker
strengths while leave-one-out losses fall clearly, and the untouched search. The last table has the distance of both
fits to the search in score (R2, accuracy), and seconds of the untouched fit relative to the other; means over splits.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import _common as common
import numpy as np
import pandas as pd
from ahead import Data, load, split
from sklearn.model_selection import train_test_split

from manykernels import KernelBank, MKLClassifier, MKLClassifierCV, MKLRegressor, MKLRegressorCV
from manykernels.estimators.supervised import descent

TABLES = (
    *("smooth8", "friedman1", "friedman2", "concrete", "cpu_small", "cpu_act", "kin8nh", "puma8nh", "abalone"),
    *("winequality_red", "winequality_white", "diabetes", "levels", "noise10"),
    *("classes5", "image_ida", "letter", "waveform", "german_ida", "spambase", "breast_cancer", "mixed"),
)
CLASSES = {True: (MKLClassifier, MKLClassifierCV), False: (MKLRegressor, MKLRegressorCV)}
NOISE_UNIT, UNTOUCHED, SEARCH = "in units of noise", "untouched", "search"


def parts(data: Data, rows: int, seed: int) -> list[Any]:
    """Return a split, of small tables one that leaves three tenths to test."""
    found = split(data, rows, seed) if len(data.y) > rows + rows // 4 else None
    if found is None:
        strata = data.y if data.classes else None
        size = min(rows, int(0.7 * len(data.y)))
        found = train_test_split(data.X, data.y, train_size=size, stratify=strata, random_state=seed)
    return found


def models(data: Data, names: list[str]) -> Iterator[tuple[str, Any, tuple[float, ...]]]:
    """Yield estimators, each with the weaker strengths that it may go on to."""
    bank = (
        KernelBank.auto(missing="mask") if isinstance(data.X, pd.DataFrame) and data.X.isna().any(axis=None) else None
    )
    plain, search = CLASSES[data.classes]
    shares = descent.SHARES
    for name, kind, own in ((NOISE_UNIT, plain, ()), (UNTOUCHED, plain, shares), (SEARCH, search, shares)):
        if name in names:
            yield name, kind(bank), own


def runs(tables: list[str], rows: list[int], splits: int, folder: Path, names: list[str]) -> Iterator[dict[str, Any]]:
    """Yield scores and CPU seconds."""
    classes = descent.SHARES_OF_CLASSES
    for table in tables:
        data = load(table, folder)
        if data is None:
            common.CONSOLE.print(f"{table} is not in {folder}")
            continue
        for n in rows:
            for seed in range(splits):
                X, X_test, y, y_test = parts(data, n, seed)
                row: dict[str, Any] = {"table": table, "rows": len(y), "split": seed}
                for name, model, shares in models(data, names):
                    whole, descent.SHARES = descent.SHARES, shares
                    descent.SHARES_OF_CLASSES = classes if shares else ()
                    started = time.process_time()
                    try:
                        model.fit(X, y)
                    finally:
                        descent.SHARES, descent.SHARES_OF_CLASSES = whole, classes
                    row |= {f"{name} s": time.process_time() - started, name: model.score(X_test, y_test)}
                    if name == UNTOUCHED:
                        row["of noise"] = float(np.median(model.noise_ratio_))
                common.CONSOLE.print({key: round(v, 3) if isinstance(v, float) else v for key, v in row.items()})
                yield row


def main() -> int:
    """Measure, print, save."""
    parser = common.parser("Untouched fits of clean and noisy targets beside their own search.")
    parser.add_argument("--data", type=Path, default=common.HERE.parent.parent / "shared/data", help="folder of tables")
    parser.add_argument("--rows", default="250,1000", help="training rows, comma-separated")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--tables", help="names, comma-separated; all")
    parser.add_argument("--fits", action="store_true", help="without the search")
    options: argparse.Namespace = parser.parse_args()
    record = common.environment()
    common.print_environment(record)
    tables = options.tables.split(",") if options.tables else list(TABLES)
    rows = [int(n) for n in options.rows.split(",")]
    if options.smoke:
        tables, rows, options.splits = ["smooth8"], [100], 1
    names = [NOISE_UNIT, UNTOUCHED] if options.fits else [NOISE_UNIT, UNTOUCHED, SEARCH]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        frame = pd.DataFrame(runs(tables, rows, options.splits, options.data, names))
    table = frame.drop(columns="split").groupby(["table", "rows"], sort=False).mean().reset_index()
    table["times"] = table[f"{UNTOUCHED} s"] / table[f"{NOISE_UNIT} s"]
    common.print_table(table, "Score and CPU seconds", dict.fromkeys(table.columns[2:], ".3f"))
    if SEARCH in names:
        behind = pd.DataFrame({name: (table[SEARCH] - table[name]).clip(lower=0) for name in names[:2]})
        sums = ", ".join(f"{name} {total:.3f}" for name, total in behind.mean().items())
        common.CONSOLE.print(f"Mean distance behind the search: {sums}; median of times {table['times'].median():.2f}")
    common.save(frame, record, options.output, "clean")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
