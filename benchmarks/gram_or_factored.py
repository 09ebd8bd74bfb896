"""Whether kernels are better held as Gram matrices or as factors: CPU seconds of a whole fit, and its gap.

``python benchmarks/gram_or_factored.py [--problem columns|units|growth|steps|default|search|landmarks]
[--data DIR] [--rows 3000] [--sets NAME,...] [--alpha auto] [--banks TEXT ...] [--draws 3] [--smoke] [--output DIR]``

*columns*: twelve Gaussian kernels on four columns, logistic loss, the estimator's defaults, the better of two fits.

*units*: fits of several shapes both ways, and the unit costs that predict them best: those of
`manykernels.grams.seconds`, by which ``representation="auto"`` chooses, stand beside them, with what they predict.

*growth*: fits as ``representation="auto"`` chooses, of more and more rows, columns, widths of each column or classes,
and of 5 % more of them; a picture, and the exponents. *steps*: the same in steps of 5 % where plans change. Every fit
reads what the one before reads, and more; ratios are medians over draws. Beside seconds stand counts that no clock
changes: certified rounds, Newton steps, passes over all kernels, products of these steps, and random orders of the
target. Where a ratio is large and they are not, the machine was busy; where a round is one more, it is the price of a
round. The strength is a tenth of the largest (``--alpha``): the default, in units of noise, is another one at every
number of rows, and so is the model. Some steps are those of untouched searches, which choose it. *landmarks*: the
default bank with its kernels of all columns as they are, and on landmarks.

*default*: the default bank, with Gaussians on all columns, narrow ones among them, on drawn and on real tables, one
fit; *search*: the same by the ``CV`` twin, five folds. A row that was measured is not measured again.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, replace
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
from manykernels.estimators.permutations import PermutedTargets
from manykernels.estimators.selection.folds import OpenedKernels
from manykernels.estimators.strength import NoiseLevel
from manykernels.exceptions import ConvergenceWarning
from manykernels.grams import seconds as predicted
from manykernels.grams import training
from manykernels.grams.factored import banks
from manykernels.grams.training import total_rank
from manykernels.kernels.bank.columns import Table
from manykernels.solvers.factored.state import State
from manykernels.solvers.factored.working_set import FactoredWorkingSet

SIZES, SMOKE_SIZES = (500, 1000, 2000, 5000), (100, 200)
SHAPES = ((4, 3, 0), (8, 3, 0), (20, 10, 0), (50, 3, 0), (20, 3, 5))  # columns, widths, levels of a column (0: numbers)
UNIT_SIZES = {"gram": (200, 400, 800, 1600), "factored": (400, 1600, 6400)}
MOST_ENTRIES = 1e8  # of all matrices of a fit that is timed
MORE = 1.05  # times the rows, columns or kernels of one fit, in the next
DRAWS = 3
RELATIVE = "0.1*max"  # a strength that is the same at every size, as the default in units of noise is not
ALLOWED = 1.2  # times the seconds, for 5 % more
# What a fit does, whatever the clock says; of a search the last one, and models of folds that were learned
COUNTS = ("rounds", "steps", "passes", "products", "active", "orders", "tried")
QUICK, REPEATS = 0.5, 3  # seconds of a fit that is timed so often


@dataclass(frozen=True)
class Sweep:
    """Fits that differ in one size: each is on what the one before is on, and more."""

    axis: str  # rows, columns, widths, classes
    sizes: tuple[int, ...]
    rows: int = 2000
    columns: int = 8
    widths: int = 3  # of Gaussians on each column; none: the default bank
    classes: int = 2  # one: numbers
    outputs: str = "own"
    way: str = "auto"
    search: bool = False  # by an untouched ``CV`` twin, over five folds

    def at(self, size: int) -> Sweep:
        """Return the fit of one size."""
        return replace(self, **{self.axis: size})


def steps_between(first: int, last: int) -> tuple[int, ...]:
    """Return sizes from one to another, each 5 % more than the one before."""
    count = int(np.ceil(np.log(last / first) / np.log(MORE) - 1e-9))
    return tuple(round(first * MORE**k) for k in range(count + 1))


def and_more(*sizes: int) -> tuple[int, ...]:
    """Return sizes and 5 % more of each."""
    return tuple(n for size in sizes for n in (size, round(MORE * size)))


CLASSES = tuple(range(2, 13))
IN_ROWS = and_more(200, 400, 600, 800, 1000, 1500, 2000, 2500, 3200, 4900, 6000)
GROWTH = {
    "8 columns x 3 widths": Sweep("rows", IN_ROWS),
    "40 columns x 5 widths": Sweep("rows", IN_ROWS, columns=40, widths=5),
    "default bank, 6 columns": Sweep("rows", IN_ROWS, columns=6, widths=0),
    "default bank, 30 columns": Sweep("rows", (*IN_ROWS, *and_more(10_000, 100_000)), columns=30, widths=0),
    "300 rows x 5 widths, columns": Sweep("columns", and_more(20, 40, 80, 160), rows=300, widths=5),
    "2,000 rows x 5 widths, columns": Sweep("columns", and_more(20, 40, 80, 160, 320), widths=5),
    "300 rows x 10 columns, widths": Sweep("widths", and_more(20, 40, 80), rows=300, columns=10),
    "2,000 rows x 10 columns, widths": Sweep("widths", and_more(20, 40, 80, 160), columns=10),
    "150 rows, classes": Sweep("classes", CLASSES, rows=150),
    "2,000 rows, classes": Sweep("classes", CLASSES),
    "150 rows, classes, shared": Sweep("classes", CLASSES, rows=150, outputs="shared"),
    "2,000 rows, classes, shared": Sweep("classes", CLASSES, outputs="shared"),
}
STEPS = {  # where plans change
    "8 columns x 3 widths, few rows": Sweep("rows", steps_between(400, 800)),
    "40 columns x 5 widths, few rows": Sweep("rows", steps_between(200, 400), columns=40, widths=5),
    "40 columns x 5 widths, 1,000 rows": Sweep("rows", steps_between(800, 1200), columns=40, widths=5),
    "20 columns x 10 widths, factored": Sweep("rows", steps_between(900, 1200), columns=20, widths=10, way="factored"),
    "8 columns x 3 widths": Sweep("rows", steps_between(4600, 5400)),
    "default bank, 6 columns": Sweep("rows", steps_between(2100, 2600), columns=6, widths=0),
    "default bank, 30 columns": Sweep("rows", steps_between(600, 2400), columns=30, widths=0),
    "500 rows x 5 widths, columns": Sweep("columns", steps_between(20, 60), rows=500, widths=5),
    "500 rows x 8 columns, widths": Sweep("widths", steps_between(20, 60), rows=500),
    "default bank, 600 columns": Sweep("rows", steps_between(430, 570), columns=600, widths=0),
    "500 rows, default bank, columns": Sweep("columns", steps_between(380, 760), rows=500, widths=0),
    "search, 8 columns x 3 widths": Sweep("rows", steps_between(430, 500), search=True),
    "search, default bank, 6 columns": Sweep("rows", steps_between(510, 590), columns=6, widths=0, search=True),
    "search, numbers, default bank": Sweep("rows", steps_between(510, 590), 2000, 6, 0, classes=1, search=True),
}
SMOKE_SWEEPS = {
    "3 columns x 2 widths": Sweep("rows", (150, 158), columns=3, widths=2),
    "100 rows, classes": Sweep("classes", (2, 3), rows=100, columns=3, widths=2),
    "search, numbers": Sweep("rows", (60, 63), columns=2, widths=0, classes=1, search=True),
}
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
    sizes = {
        "rows": n_samples,
        "columns": n_columns,
        "kernels": n_columns * n_widths,
        "rank": total_rank(Table.wrap(X)),
    }
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
        held = np.array([getattr(predicted, name) for name in multiples])
        frame.loc[own.index, "fitted_s"] = multiples.to_numpy() @ fitted
        frame.loc[own.index, "plan_s"] = multiples.to_numpy() @ held
        costs += [{"unit": name, "measured": fitted[k], "plan": held[k]} for k, name in enumerate(multiples)]
    seconds = {name: ".3f" for name in ("cpu_s", "fitted_s", "plan_s")}
    common.print_table(frame, "CPU seconds of a fit, fitted and predicted", seconds | {"gap": ".0e"})
    common.print_table(pd.DataFrame(costs), "Unit costs, seconds", {"measured": ".2g", "plan": ".2g"})
    common.save(frame, record, options.output, "gram_or_factored_units")


def drawn(case: Sweep, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw the columns of the largest fit of a sweep, and classes, one score each: smaller fits read a part of both."""
    most = case.at(max(case.sizes))
    if most.classes <= 2 and case.axis != "classes":
        return additive(most.rows, most.columns, 0, seed, classes=most.classes == 2)
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(most.rows, most.columns))
    scores = [np.sin(2 * X[:, k % 2] + k) + 0.5 * X[:, (k + 1) % most.columns] for k in range(most.classes)]
    return X, np.array(scores) + 0.5 * rng.gumbel(size=(most.classes, most.rows))


def counted(model: Any, X: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Fit, and return what the fit did, whatever the clock says: of all classes together.

    Products, in units of 1e9, are those of Newton steps: rows times the square of the coefficients that move together
    in a round on factors, the cube of the rows on matrices. Orders are random ones of the target, which tell of noise.
    """
    record, products, n = FactoredWorkingSet._record, [0.0], len(y)
    drawn, until_told, tried, learned = [0], PermutedTargets.until_told, [0], OpenedKernels.try_strength

    def recorded(method: FactoredWorkingSet, state: State, number: int, gap: float) -> None:
        before = state.rounds[-1].newton_steps if state.rounds else 0
        record(method, state, number, gap)
        last = state.rounds[-1]
        products[0] += (last.newton_steps - before) * n * float(last.rank or n) ** 2

    def told(targets: PermutedTargets, *given: Any) -> list[NoiseLevel]:
        levels = until_told(targets, *given)
        drawn[0] = len(levels[0].permuted)
        return levels

    def asked(opened: OpenedKernels, *given: Any) -> Any:
        tried[0] += 1
        return learned(opened, *given)

    with (
        mock.patch.object(FactoredWorkingSet, "_record", recorded),
        mock.patch.object(PermutedTargets, "until_told", told),
        mock.patch.object(OpenedKernels, "try_strength", asked),
    ):
        model.fit(X, y)
    found = model.solution_ if isinstance(model.solution_, tuple) else (model.solution_,)
    steps = sum(one.newton_steps for one in found)
    return {
        "rounds": sum(len(one.history) for one in found),
        "steps": steps,
        "passes": round(sum(one.passes for one in found)),
        "products": 1e-9 * (products[0] if model.representation_ == "factored" else steps * float(n) ** 3),
        "active": sum(int(np.count_nonzero(one.kernel_weights)) for one in found),
        "orders": drawn[0],
        "tried": tried[0],
    }


def sweep_rows(name: str, case: Sweep, seed: int, alpha: float | str) -> list[dict[str, Any]]:
    """Return what the fits of a sweep cost and did, on parts of one draw.

    Fits that take little are timed several times, each time all of them in turn: the least counts, and a while in which
    a machine is slow does not pass for a step.
    """
    X, y = drawn(case, seed)
    found, seconds = [], np.full((REPEATS, len(case.sizes)), np.inf)
    for again, (slot, size) in product(range(REPEATS), enumerate(case.sizes)):
        if again and seconds[0, slot] > QUICK:
            continue
        own = case.at(size)
        widths = np.geomspace(0.5, 2.0, own.widths).tolist()
        bank = KernelBank.per_feature(widths=widths, standardize=True) if widths else None
        rows, target = X[: own.rows, : own.columns], (y if y.ndim == 1 else y[: own.classes].argmax(axis=0))[: own.rows]
        model = (MKLClassifier, MKLRegressor)[own.classes == 1](bank, alpha=alpha, outputs=own.outputs)
        model = (MKLClassifierCV, MKLRegressorCV)[own.classes == 1](bank) if own.search else model
        model.set_params(resources__representation=own.way)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of few rows, and columns of noise
            timed = common.cpu_time(lambda: counted(model, rows, target), repeats=1)  # noqa: B023 - called at once
        seconds[again, slot] = timed.best
        if not again:
            landmarks = any("landmarks" in kernel for kernel in model.kernel_names_)
            form = model.representation_ + (", landmarks" if landmarks else "")
            told = {"fits": name, "axis": case.axis, "size": size, "draw": seed, "form": form}
            cost = {"strength": float(np.mean(model.alpha_)), "gap": float(np.max(model.dual_gap_))}
            found.append(told | cost | timed.result)
    return [row | {"cpu_s": best} for row, best in zip(found, seconds.min(axis=0).tolist(), strict=True)]


def summary(frame: pd.DataFrame) -> pd.DataFrame:
    """Return medians over draws, and the ratio of seconds to those of the size before as it would be for 5 % more."""
    by_size = frame.groupby(["fits", "axis", "size"], sort=False)
    middle = {name: (name, "median") for name in ("strength", "cpu_s", *COUNTS)}
    table = by_size.agg(form=("form", "first"), gap=("gap", "max"), **middle).reset_index()
    both = frame.assign(seconds=np.log(frame["cpu_s"]), length=np.log(frame["size"]))
    both = both.groupby(["fits", "draw"], sort=False)[["seconds", "length"]].diff()
    frame = frame.assign(ratio=MORE ** (both["seconds"] / both["length"]))
    table["ratio"] = frame.groupby(["fits", "axis", "size"], sort=False)["ratio"].median().to_numpy()
    return table


def exponents(table: pd.DataFrame) -> pd.Series:
    """Return the power of the size by which the seconds of each sweep grow."""
    own = {name: np.log(part[["size", "cpu_s"]].to_numpy()) for name, part in table.groupby("fits", sort=False)}
    return pd.Series({name: np.polyfit(*part.T, 1)[0] for name, part in own.items()})


def picture(table: pd.DataFrame, path: Path) -> None:
    """Draw CPU seconds against each size, with the exponents."""
    import matplotlib.pyplot as plt

    powers, axes_of = exponents(table), table["axis"].unique()
    figure, axes = plt.subplots(1, len(axes_of), figsize=(3.4 * len(axes_of), 3.6), sharey=True, layout="constrained")
    for axis, name in zip(np.atleast_1d(axes), axes_of, strict=True):
        for fits, part in table[table["axis"] == name].groupby("fits", sort=False):
            axis.loglog(part["size"], part["cpu_s"], ".-", label=f"{fits}: {powers[fits]:.1f}")
        sizes = np.sort(table.loc[table["axis"] == name, "size"].unique())
        spread = np.geomspace(sizes[0], sizes[-1], 4)
        ticks = np.unique(sizes[np.abs(np.log(sizes[:, None] / spread)).argmin(axis=0)])
        axis.set_xticks(ticks, [f"{size:,}" for size in ticks])
        axis.minorticks_off()
        axis.set_xlabel(name)
        axis.grid(visible=True, alpha=0.3)
        axis.legend(frameon=False, fontsize=7)
    np.atleast_1d(axes)[0].set_ylabel("CPU seconds")
    np.atleast_1d(axes)[0].set_yticks([0.05, 0.1, 0.2, 0.5, 1, 2, 5], ["0.05", "0.1", "0.2", "0.5", "1", "2", "5"])
    figure.savefig(path, dpi=110)
    plt.close(figure)


def sweeps(options: Any, record: dict[str, Any], problem: str, cases: dict[str, Sweep]) -> None:
    """Measure fits of growing size; save every draw, print medians and exponents, and draw them."""
    cases = SMOKE_SWEEPS if options.smoke else cases
    cases = {name: case for name, case in cases.items() if any(text in name for text in options.banks)}
    alpha = options.alpha if options.alpha == "auto" or "*" in options.alpha else float(options.alpha)
    found: list[dict[str, Any]] = []
    for name, case in cases.items():
        ends = replace(case, sizes=(min(case.sizes), max(case.sizes)))
        sweep_rows(name, ends, options.seed, alpha)  # compiled, and read from disk
        for draw in range(options.draws):
            found += sweep_rows(name, case, options.seed + draw, alpha)
            common.save(pd.DataFrame(found), record, options.output, f"gram_or_factored_{problem}")
    table = summary(pd.DataFrame(found))
    formats = {"strength": ".2e", "cpu_s": ".3f", "gap": ".0e", "ratio": ".2f"} | dict.fromkeys(COUNTS, ".3g")
    common.print_table(table, f"CPU seconds at alpha={options.alpha}, and times those before for 5 % more", formats)
    print(exponents(table).rename("exponent").round(2).to_string())
    print(f"more than {ALLOWED:g} times for 5 % more: {(table['ratio'] > ALLOWED).sum()} of {table['ratio'].count()}")
    picture(table, options.output / f"gram_or_factored_{problem}.png")


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
        with (
            mock.patch.object(training, "PATIENCE_SECONDS", patience),
            mock.patch.multiple(banks, LANDMARK_COUNTS=counts, LANDMARK_PRODUCTS=1e12),
        ):
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
    parser.add_argument("--alpha", default=RELATIVE, help="strength of the fits of growth and steps")
    parser.add_argument("--banks", nargs="*", default=[""], help="of these, those that have one of these texts in them")
    parser.add_argument("--draws", type=int, default=DRAWS, help="of their data")
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
    for problem, cases in (("growth", GROWTH), ("steps", STEPS)):
        if options.smoke or options.problem == problem:
            sweeps(options, record, problem, cases)
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
