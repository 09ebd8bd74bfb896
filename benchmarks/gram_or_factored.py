"""Whether kernels are better held as Gram matrices or as factors: CPU seconds of a whole fit, and its gap.

``python benchmarks/gram_or_factored.py [--problem columns|default|search] [--data DIR] [--rows 3000] [--sets NAME,...]
[--smoke] [--output DIR]``

*columns*: twelve Gaussian kernels on four columns, logistic loss, the estimator's defaults, the better of two fits.
This is what ``representation="auto"`` goes by, see `manykernels.grams.plan.plan_kernels`.

*default*: the default bank, with Gaussians on all columns, narrow ones among them, on drawn and on real tables, one
fit; *search*: the same by the ``CV`` twin, five folds. A row that was measured is not measured again.
"""

from __future__ import annotations

import time
import warnings
from itertools import product
from pathlib import Path
from typing import Any

import _common as common
import accuracy
import large_tables
import numpy as np
import pandas as pd

from manykernels import KernelBank, MKLClassifier, MKLClassifierCV, MKLRegressor, MKLRegressorCV
from manykernels.exceptions import ConvergenceWarning

SIZES, SMOKE_SIZES = (500, 1000, 2000, 5000), (100, 200)
WAYS = ("factored", "gram")
SETS = "drawn,kin8nh,cpu_act,winequality_white,spambase,covtype15k"
SMOKE_ROWS, WARM_UP_ROWS = 300, 1050
FORMATS = {"gram_s": ".1f", "factored_s": ".1f", "gram_gap": ".0e", "factored_gap": ".0e", "ratio": ".1f"}


def row(n_samples: int, seed: int) -> dict[str, float]:
    """Return seconds and gaps of both ways at one size."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, 4))
    y = np.where(np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] ** 2 + rng.logistic(size=n_samples) > 0.5, 1, -1)
    bank = KernelBank.per_feature(widths=[0.5, 1.0, 2.0], standardize=True)
    found: dict[str, float] = {"samples": n_samples}
    for way in ("gram", "factored"):
        model = MKLClassifier(bank, representation=way)
        found[f"{way}_s"] = common.cpu_time(lambda model=model: model.fit(X, y), repeats=2).best
        found[f"{way}_gap"] = model.dual_gap_
    return found


def table(name: str, folder: Path, rows: int, seed: int) -> accuracy.Data | None:
    """Return a real table, or a drawn one: a wave, a square and a product of six columns."""
    if name != "drawn":
        return large_tables.loaded(name, folder)
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2 * rows, 6))
    y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] ** 2 + X[:, 2] * X[:, 3] + 0.3 * rng.normal(size=len(X))
    return accuracy.Data(name, X, y, False, None)


def default_bank_row(data: Any, rows: int, seed: int, way: str, *, search: bool) -> dict[str, Any]:
    """Return seconds, gap and score of the default bank held one way."""
    X, held_out, y, truth = data.split(rows, seed)
    kinds = (MKLClassifierCV, MKLRegressorCV) if search else (MKLClassifier, MKLRegressor)
    model = kinds[not data.classes](representation=way)
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the gap is in the table
        model.fit(X, y)
    seconds = time.process_time() - started
    found = {"set": data.name, "rows": len(y), "kernels": len(np.ravel(model.kernel_weights_)), "way": way}
    return found | {"cpu_s": seconds, "gap": model.dual_gap_, "score": model.score(held_out, truth)}


def default_banks(options: Any, problem: str) -> pd.DataFrame:
    """Measure the default bank on every set both ways, and save after each fit."""
    path = options.output / f"gram_or_factored_{problem}.csv"
    found = [] if options.smoke or not path.exists() else pd.read_csv(path).to_dict("records")
    rows = SMOKE_ROWS if options.smoke else options.rows
    names = ["drawn"] if options.smoke else options.sets.split(",")
    tables = [data for name in names if (data := table(name, options.data, rows, options.seed)) is not None]
    warm_up = SMOKE_ROWS if options.smoke else WARM_UP_ROWS
    for way in WAYS:  # what is compiled or read from disk at a first call is no part of a fit
        default_bank_row(table("drawn", options.data, warm_up, options.seed), warm_up, options.seed, way, search=False)
    for way, data in product(WAYS, tables):
        if not any(row["set"] == data.name and row["asked"] == rows and row["way"] == way for row in found):
            measured = default_bank_row(data, rows, options.seed, way, search=problem == "search")
            found.append(measured | {"asked": rows})
            options.output.mkdir(parents=True, exist_ok=True)
            pd.DataFrame(found).to_csv(path, index=False)
    return pd.DataFrame(found).drop(columns="asked")


def main() -> None:
    """Measure, print, save."""
    parser = common.parser(str(__doc__).split("\n", 1)[0])
    parser.add_argument("--problem", choices=("columns", "default", "search"), default="columns", help="what to fit")
    parser.add_argument("--data", type=Path, default=common.HERE.parents[1] / "shared" / "data", help="folder of sets")
    parser.add_argument("--rows", type=int, default=3000, help="rows to learn from, of the default bank")
    parser.add_argument("--sets", default=SETS, help="sets for the default bank, separated by commas")
    options = parser.parse_args()
    record = common.environment()
    common.print_environment(record)
    if options.smoke or options.problem == "columns":
        frame = pd.DataFrame([row(n, options.seed) for n in (SMOKE_SIZES if options.smoke else SIZES)])
        frame["ratio"] = frame["gram_s"] / frame["factored_s"]
        common.print_table(frame, "CPU seconds of a fit", FORMATS | {"gram_s": ".2f", "factored_s": ".2f"})
        common.save(frame, record, options.output, "gram_or_factored")
    for problem in ("default", "search") if options.smoke else {options.problem} - {"columns"}:
        frame = default_banks(options, problem)
        common.print_table(frame, f"The default bank, {problem}", {"cpu_s": ".1f", "gap": ".0e", "score": ".3f"})
        common.save(frame, record, options.output, f"gram_or_factored_{problem}")


if __name__ == "__main__":
    main()
