"""Whether the search that races chooses as well as one that follows every mixture down.

``python benchmarks/race.py [--data DIR] [--rows 120] [--sets NAME,...] [--smoke] [--output DIR]``

On each set of ``accuracy.py``, a small split: the untouched search of the CV estimators, which gives up selections that
are behind after a few strengths in three folds, and the same with ``l1_ratios=(1, 0.5, 0)``, which follows all of them.
Scores are means over the same five folds, minus the loss; their difference is told in standard errors of the score of
the search of everything. Sets that are not in the folder of ``--data`` are named and left out.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import _common as common
import accuracy
import numpy as np
import pandas as pd

from manykernels import MKLClassifierCV, MKLRegressorCV

EVERYTHING = (1.0, 0.5, 0.0)
TINY = 1e-12  # of a standard error that may be zero


def found(data: accuracy.Data, split: list[Any], ratios: Any) -> tuple[np.ndarray, float, str, float]:
    """Return the scores of the choice by fold, that of held-out rows, what was chosen, and CPU seconds."""
    X, X_test, y, y_test = split
    kind = MKLClassifierCV if data.classes else MKLRegressorCV
    start = time.process_time()
    with common.quiet():
        model = kind(data.bank, l1_ratios=ratios).fit(X, y)
    seconds, row = time.process_time() - start, model.cv_frame().loc[model.best_index_]
    scores = row[[f"score_{fold}" for fold in range(model.n_folds_)]].to_numpy(dtype=float)
    return scores, float(model.score(X_test, y_test)), f"{row['kernels']}, {row['mixing']:g}", seconds


def row_of(data: accuracy.Data, rows: int, seed: int) -> dict[str, Any]:
    """Return a row of the table."""
    split = data.split(rows, seed)
    (race, held, choice, seconds), (every, held_every, best, all_seconds) = (
        found(data, split, ratios) for ratios in (None, EVERYTHING)
    )
    error = every.std(ddof=1) / np.sqrt(len(every))
    return {
        "set": data.name,
        "race": choice,
        "everything": best,
        "score": race.mean(),
        "of everything": every.mean(),
        "ahead by errors": (race.mean() - every.mean()) / max(error, TINY),
        "held out": held,
        "of everything, held out": held_every,
        "CPU s": seconds,
        "of everything, CPU s": all_seconds,
    }


def main() -> None:
    """Measure, print, save."""
    parser = common.parser(__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of data sets (.npz with X and y)")
    parser.add_argument("--rows", type=int, default=120, help="training rows")
    parser.add_argument("--sets", default=",".join([*accuracy.CLASSES, *accuracy.NUMBERS]), help="names, with commas")
    options: argparse.Namespace = parser.parse_args()
    names, rows = options.sets.split(","), options.rows
    if options.smoke:
        names, rows = ["wine", "diabetes"], 40
    record = common.environment()
    common.print_environment(record)
    for name in () if options.smoke else ("wine", "diabetes"):  # compiled loops are loaded before the clock starts
        data = accuracy.load(name, options.data, classes=name in accuracy.CLASSES)
        assert data is not None  # both come with scikit-learn
        row_of(data, 40, options.seed)
    table: list[dict[str, Any]] = []
    for name in names:
        data = accuracy.load(name, options.data, classes=name in accuracy.CLASSES)
        if data is None:
            continue
        table.append(row_of(data, rows, options.seed))
        common.CONSOLE.print(" ".join(f"{key}: {value}" for key, value in table[-1].items()), soft_wrap=True)
        common.save(pd.DataFrame(table), record, options.output, "race")
    frame = pd.DataFrame(table)
    formats = {name: ".3f" for name in frame.columns[3:]} | {"ahead by errors": ".2f"}
    common.print_table(frame, "The race beside a search of everything", formats)
    behind = int((frame["ahead by errors"] < -0.5).sum())
    common.CONSOLE.print(f"behind by more than half a standard error: {behind} of {len(frame)}")


if __name__ == "__main__":
    main()
