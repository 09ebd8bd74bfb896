"""Whether kernels are better held as Gram matrices or as factors: CPU seconds of a whole fit, and its gap.

``python benchmarks/gram_or_factored.py [--problem columns|units|growth|steps|default|search|landmarks] [--data DIR]
[--rows 3000] [--sets NAME,...] [--alpha auto] [--banks NAME ...] [--smoke] [--output DIR]``

*columns*: twelve Gaussian kernels on four columns, logistic loss, the estimator's defaults, the better of two fits.

*units*: fits of several shapes both ways, and the unit costs that predict them best: those of
`manykernels.grams.plan`, by which ``representation="auto"`` chooses, stand beside them, with what they predict.

*growth*: fits as ``representation="auto"`` chooses at 200 to 6,000 rows, and at 5 % more, for four banks: what more
rows cost. *steps*: the same in steps of 5 % around the places where plans change, each step on the rows of the one
before and 5 % more, medians over several draws. The strength in units of noise is another one at every number of rows,
and so is the model: with a number for ``--alpha`` rows are all that changes. *landmarks*: the default bank with its
kernels of all columns as they are, and on landmarks.

*default*: the default bank, with Gaussians on all columns, narrow ones among them, on drawn and on real tables, one
fit; *search*: the same by the ``CV`` twin, five folds. A row that was measured is not measured again.
"""

from __future__ import annotations

import time
import warnings
from itertools import product
from pathlib import Path
from typing import Any
from unittest import mock

import _common as common
import accuracy
import large_tables
import numpy as np
import pandas as pd
from scipy.optimize import nnls

from manykernels import KernelBank, MKLClassifier, MKLClassifierCV, MKLRegressor, MKLRegressorCV
from manykernels.exceptions import ConvergenceWarning
from manykernels.grams import plan, training
from manykernels.grams.training import total_rank
from manykernels.kernels.bank.columns import Table

SIZES, SMOKE_SIZES = (500, 1000, 2000, 5000), (100, 200)
SHAPES = ((4, 3, 0), (8, 3, 0), (20, 10, 0), (50, 3, 0), (20, 3, 5))  # columns, widths, levels of a column (0: numbers)
UNIT_SIZES = {"gram": (200, 400, 800, 1600), "factored": (400, 1600, 6400)}
MOST_ENTRIES = 1e8  # of all matrices of a fit that is timed
GROWTH_BANKS = {"8 columns x 3 widths": (8, 3), "40 columns x 5 widths": (40, 5), "default bank, 6 columns": (6, 0)}
GROWTH_BANKS |= {"default bank, 30 columns": (30, 0)}
GROWTH_SIZES = (200, 400, 600, 800, 1000, 1500, 2000, 2500, 3500, 4900, 6000)
MORE_ROWS = 1.05
# Where plans change: bank (columns, widths; no widths: the default bank), how it is held, first and last number of rows
STEPS: dict[str, tuple[int, int, str, int, int]] = {
    "8 columns x 3 widths, few rows": (8, 3, "auto", 400, 800),
    "40 columns x 5 widths, few rows": (40, 5, "auto", 200, 400),
    "20 columns x 10 widths, factored": (20, 10, "factored", 900, 1200),
    "8 columns x 3 widths": (8, 3, "auto", 4600, 5400),
    "default bank, 6 columns": (6, 0, "auto", 2100, 2600),
    "default bank, 30 columns": (30, 0, "auto", 1300, 2400),
}
SMOKE_STEPS: dict[str, tuple[int, int, str, int, int]] = {"3 columns x 2 widths": (3, 2, "auto", 150, 160)}
DRAWS = 3
ALLOWED = 1.2  # times the seconds, for 5 % more rows
PROBLEMS = ("columns", "units", "growth", "steps", "default", "search", "landmarks")
LANDMARKS = (0, 100, 300, 500)  # of kernels of all columns; 0: none, the kernels as they are
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
        model = MKLClassifier(bank, resources={"representation": way})
        found[f"{way}_s"] = common.cpu_time(lambda model=model: model.fit(X, y), repeats=2).best
        found[f"{way}_gap"] = model.dual_gap_
    return found


def additive(n_samples: int, n_columns: int, levels: int, seed: int, *, classes: bool) -> tuple[np.ndarray, np.ndarray]:
    """Draw columns, rounded to a few levels if asked for, two of which make a target: two classes, or numbers."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, n_columns))
    if levels:
        X = np.clip(np.round(X), -(levels // 2), levels // 2)
    score = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] ** 2
    noise = rng.logistic(size=n_samples)
    return X, np.where(score + noise > 0.5, 1, -1) if classes else score + 0.3 * noise


def unit_row(shape: tuple[int, int, int], n_samples: int, way: str, seed: int, *, classes: bool) -> dict[str, Any]:
    """Return CPU seconds of a fit of kernels of single columns held one way, and its sizes."""
    n_columns, n_widths, levels = shape
    X, y = additive(n_samples, n_columns, levels, seed, classes=classes)
    bank = KernelBank.per_feature(widths=np.geomspace(0.5, 2.0, n_widths).tolist(), standardize=True)
    model = (MKLClassifier if classes else MKLRegressor)(bank, resources={"representation": way})
    timed = common.cpu_time(lambda: model.fit(X, y), repeats=2)
    sizes = {"rows": n_samples, "columns": n_columns, "kernels": n_columns * n_widths, "rank": total_rank(Table.of(X))}
    return {"way": way, "classes": classes, **sizes, "cpu_s": timed.best, "gap": model.dual_gap_}


def terms(frame: pd.DataFrame, way: str) -> pd.DataFrame:
    """Return what each unit cost of the plan is multiplied by in these fits."""
    n = frame["rows"].astype(float)
    if way == "gram":
        columns = {"GRAM_BASE": 1.0 + 0 * n, "ENTRY": frame["kernels"] * n**2 / 2, "CUBE": n**3}
    else:
        columns = {"FACTORED_BASE": 1.0 + 0 * n, "RANK": frame["rank"].astype(float), "READ": n * frame["columns"]}
        columns["KERNEL"] = frame["kernels"].astype(float)
    return pd.DataFrame(columns)


def unit_costs(options: Any, record: dict[str, Any]) -> None:
    """Measure fits of several shapes, and print the unit costs of least relative error beside those of the plan."""
    shapes = SHAPES[:1] if options.smoke else SHAPES
    sizes = {way: SMOKE_SIZES for way in WAYS} if options.smoke else UNIT_SIZES
    for way, classes in product(WAYS, (True, False)):
        unit_row((3, 2, 0), SMOKE_ROWS, way, options.seed, classes=classes)  # compiled, and read from disk
    cases = [(shape, n, way) for way in WAYS for shape in shapes for n in sizes[way]]
    cases = [case for case in cases if case[2] != "gram" or case[0][0] * case[0][1] * case[1] ** 2 <= MOST_ENTRIES]
    found = [unit_row(*case, options.seed, classes=classes) for case in cases for classes in (True, False)]
    frame, costs = pd.DataFrame(found), []
    for way in WAYS:
        own = frame[frame["way"] == way]
        multiples = terms(own, way)
        seconds = own["cpu_s"].to_numpy()
        fitted = nnls(multiples.to_numpy() / seconds[:, None], np.ones(len(own)))[0]
        held = np.array([getattr(plan, name) for name in multiples])
        frame.loc[own.index, "fitted_s"] = multiples.to_numpy() @ fitted
        frame.loc[own.index, "plan_s"] = multiples.to_numpy() @ held
        costs += [{"unit": name, "measured": fitted[k], "plan": held[k]} for k, name in enumerate(multiples)]
    seconds = {name: ".3f" for name in ("cpu_s", "fitted_s", "plan_s")}
    common.print_table(frame, "CPU seconds of a fit, fitted and predicted", seconds | {"gap": ".0e"})
    common.print_table(pd.DataFrame(costs), "Unit costs, seconds", {"measured": ".2g", "plan": ".2g"})
    common.save(frame, record, options.output, "gram_or_factored_units")


def growth_row(name: str, n_samples: int, seed: int) -> dict[str, Any]:
    """Return CPU seconds, form and gap of a fit as "auto" chooses, and of one on a few rows more."""
    n_columns, n_widths = GROWTH_BANKS[name]
    widths = np.geomspace(0.5, 2.0, n_widths).tolist()
    bank = KernelBank.per_feature(widths=widths, standardize=True) if widths else None
    found: dict[str, Any] = {"bank": name, "rows": n_samples}
    for label, n in (("", n_samples), ("more_", round(MORE_ROWS * n_samples))):
        X, y = additive(n, n_columns, 0, seed, classes=True)
        model = MKLClassifier(bank)
        seconds = common.cpu_time(lambda model=model, X=X, y=y: model.fit(X, y), repeats=2).best
        found |= {f"{label}form": model.representation_, f"{label}cpu_s": seconds, f"{label}gap": model.dual_gap_}
    return found | {"ratio": found["more_cpu_s"] / found["cpu_s"]}


def growth(options: Any, record: dict[str, Any]) -> None:
    """Measure fits at growing numbers of rows."""
    sizes = SMOKE_SIZES if options.smoke else GROWTH_SIZES
    growth_row(next(iter(GROWTH_BANKS)), 1200, options.seed)
    frame = pd.DataFrame([growth_row(name, n, options.seed) for name in GROWTH_BANKS for n in sizes])
    formats = {"cpu_s": ".2f", "more_cpu_s": ".2f", "gap": ".0e", "more_gap": ".0e", "ratio": ".2f"}
    common.print_table(frame, "CPU seconds of a fit as the plan chooses, and of one on 5 % more rows", formats)
    common.save(frame, record, options.output, "gram_or_factored_growth")


def step_sizes(first: int, last: int) -> list[int]:
    """Return numbers of rows from one to another, each 5 % more than the one before."""
    count = int(np.ceil(np.log(last / first) / np.log(MORE_ROWS) - 1e-9))
    return [round(first * MORE_ROWS**k) for k in range(count + 1)]


def drawn_steps(
    name: str, case: tuple[int, int, str, int, int], seed: int, alpha: float | str = "auto"
) -> list[dict[str, Any]]:
    """Return what fits on the first rows of one draw cost, more rows in each."""
    n_columns, n_widths, way, first, last = case
    widths, sizes = np.geomspace(0.5, 2.0, n_widths).tolist(), step_sizes(first, last)
    bank = KernelBank.per_feature(widths=widths, standardize=True) if widths else None
    X, y = additive(sizes[-1], n_columns, 0, seed, classes=True)
    found = []
    for n in sizes:
        model = MKLClassifier(bank, alpha=alpha, resources={"representation": way})
        timed = common.cpu_time(lambda model=model, n=n: model.fit(X[:n], y[:n]), repeats=1)
        landmarks = any("landmarks" in kernel for kernel in model.kernel_names_)
        form = model.representation_ + (", landmarks" if landmarks else "")
        own = {"form": form, "alpha": model.alpha_, "newton_steps": model.solution_.newton_steps}
        found.append({"bank": name, "rows": n, "draw": seed, **own, "cpu_s": timed.best, "gap": model.dual_gap_})
    return found


def steps(options: Any, record: dict[str, Any]) -> None:
    """Measure fits at numbers of rows 5 % apart where plans change; save every draw, and print medians."""
    cases, draws = (SMOKE_STEPS, 2) if options.smoke else (STEPS, DRAWS)
    cases = {name: case for name, case in cases.items() if name in (options.banks or cases)}
    alpha = "auto" if options.alpha == "auto" else float(options.alpha)
    for first in ((8, 3, "auto", 1200, 1200), (3, 0, "auto", 900, 900), (3, 2, "auto", 150, 150)):
        drawn_steps("first", first, options.seed)  # compiled, and read from disk
    found: list[dict[str, Any]] = []
    for name, case in cases.items():
        for draw in range(draws):
            found += drawn_steps(name, case, options.seed + draw, alpha)
            common.save(pd.DataFrame(found), record, options.output, "gram_or_factored_steps")
    frame = pd.DataFrame(found)
    by_size = frame.groupby(["bank", "rows"], sort=False)
    table = by_size.agg(form=("form", "first"), cpu_s=("cpu_s", "median"), gap=("gap", "max")).reset_index()
    times = frame.pivot_table(index=["bank", "rows"], columns="draw", values="cpu_s", sort=False)
    times = times.groupby("bank", sort=False).pct_change().add(1.0).median(axis=1)  # of the ratios draw by draw
    table["ratio"] = times.to_numpy()
    common.print_table(
        table, "CPU seconds, and times those of 5 % fewer rows", {"cpu_s": ".2f", "gap": ".0e", "ratio": ".2f"}
    )
    common.CONSOLE.print(
        f"steps that cost more than {ALLOWED:g} times: {(table['ratio'] > ALLOWED).sum()} of {table['ratio'].count()}"
    )


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
    model = kinds[not data.classes](resources={"representation": way})
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


def landmarks(options: Any) -> pd.DataFrame:
    """Measure the default bank on every set by how many landmarks its kernels of all columns have."""
    rows = SMOKE_ROWS if options.smoke else options.rows
    names = ["drawn"] if options.smoke else options.sets.split(",")
    tables = [data for name in names if (data := table(name, options.data, rows, options.seed)) is not None]
    found = []
    for again, count, data in product((False, True), LANDMARKS, tables):
        if not again and data is not tables[0]:
            continue  # once, for what is compiled or read from disk at a first call
        patience, counts = (0.0 if count else np.inf), (min(count, 50), max(count, 50))
        with mock.patch.multiple(training, PATIENCE_SECONDS=patience, LANDMARK_COUNTS=counts, LANDMARK_PRODUCTS=1e12):
            measured = default_bank_row(data, rows, options.seed, "auto", search=False)
        found += [{"landmarks": count} | measured] if again else []
    return pd.DataFrame(found).sort_values(["set", "landmarks"])


def main() -> None:
    """Measure, print, save."""
    parser = common.parser(str(__doc__).split("\n", 1)[0])
    parser.add_argument("--problem", choices=PROBLEMS, default="columns", help="what to fit")
    parser.add_argument("--data", type=Path, default=common.HERE.parents[1] / "shared" / "data", help="folder of sets")
    parser.add_argument("--rows", type=int, default=3000, help="rows to learn from, of the default bank")
    parser.add_argument("--sets", default=SETS, help="sets for the default bank, separated by commas")
    parser.add_argument("--alpha", default="auto", help="strength of the fits of steps")
    parser.add_argument("--banks", nargs="*", help="of steps, by their names; all by default")
    options = parser.parse_args()
    record = common.environment()
    common.print_environment(record)
    if options.smoke or options.problem == "columns":
        frame = pd.DataFrame([row(n, options.seed) for n in (SMOKE_SIZES if options.smoke else SIZES)])
        frame["ratio"] = frame["gram_s"] / frame["factored_s"]
        common.print_table(frame, "CPU seconds of a fit", FORMATS | {"gram_s": ".2f", "factored_s": ".2f"})
        common.save(frame, record, options.output, "gram_or_factored")
    if options.smoke or options.problem == "units":
        unit_costs(options, record)
    if options.smoke or options.problem == "growth":
        growth(options, record)
    if options.smoke or options.problem == "steps":
        steps(options, record)
    for problem in ("default", "search") if options.smoke else {options.problem} & {"default", "search"}:
        frame = default_banks(options, problem)
        common.print_table(frame, f"The default bank, {problem}", {"cpu_s": ".1f", "gap": ".0e", "score": ".3f"})
        common.save(frame, record, options.output, f"gram_or_factored_{problem}")
    if options.smoke or options.problem == "landmarks":
        frame = landmarks(options)
        common.print_table(frame, "The default bank on landmarks", {"cpu_s": ".1f", "gap": ".0e", "score": ".3f"})
        common.save(frame, record, options.output, "gram_or_factored_landmarks")


if __name__ == "__main__":
    main()
