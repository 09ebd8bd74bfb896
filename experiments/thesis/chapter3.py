"""Chapter 3 of the thesis: Dirichlet kernels where a grid of frequencies fails and a search finds the right ones.

    python experiments/thesis/chapter3.py [--quick] [--output DIR] [--page PAGE]

Labels are the signs of ``sin(sqrt(2) x) + sin(sqrt(12) x) + sin(sqrt(60) x)`` on [-10, 10]. Prints means and bands of
the test errors over draws. Writes a row a draw and method to ``thesis_chapter3_runs.csv``, and to
``thesis_chapter3_grid_runs.csv`` for grids of smaller and smaller steps; two figures and what they are drawn from.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from _low_rank_svm import dirichlet_features, fit_svm
from rich.console import Console
from rich.progress import track
from scipy.optimize import nnls

sys.path.insert(0, str(Path(__file__).parents[2]))
from experiments.ledger import Ledger, cpu_seconds, markdown, report
from experiments.program import command_line

from manykernels import solve
from manykernels.discovery import (
    AscentSettings,
    DirichletFamily,
    FamilySearch,
    Limits,
    SearchProblem,
    TargetSpace,
    align_family,
    discover_greedily,
)
from manykernels.exceptions import ConvergenceWarning
from manykernels.objective.regularizers.weight_sets import LpBall, Simplex

TRUE = np.sqrt([2.0, 12.0, 60.0])
GRID = np.arange(10.0)
FAMILY = DirichletFamily(0.0, 20.0)
CONSTANTS = 10.0 ** np.arange(-5.0, 5.5, 0.5)
SCAN_CONSTANTS = (0.1, 10.0)  # the error of one kernel hardly depends on C
LIST_CONSTANTS = 10.0 ** np.arange(-2.0, 2.0)
ONE_STAGE_CONSTANTS = (1.0,)  # each costs a search
NEAR = 0.3  # frequencies closer than this are one when the three heaviest are named
PRINTED = {"12": 16.4, "13": 20.0, "23": 21.3, "123": 2.3}
NAMES = {"12": "sqrt 2, sqrt 12", "13": "sqrt 2, sqrt 60", "23": "sqrt 12, sqrt 60", "123": "the three true"}
SEARCHES = ("GCD-2s (alignment)", "GCD-2s (distance)", "CKL (GCD-1s)", "IKL")
RUNS, GRID_RUNS = "thesis_chapter3_runs.csv", "thesis_chapter3_grid_runs.csv"
CONSOLE = Console(width=110)


@dataclass(frozen=True)
class Sizes:
    """How much is computed."""

    draws: int
    n_train: int
    n_test: int
    scan: int
    max_iter: int
    steps: tuple[float, ...]
    grid_draws: int


FULL = Sizes(20, n_train=500, n_test=1000, scan=201, max_iter=6, steps=(1.0, 0.5, 0.2, 0.1, 0.05), grid_draws=5)
QUICK = Sizes(2, n_train=150, n_test=300, scan=21, max_iter=4, steps=(1.0, 0.1), grid_draws=1)


@dataclass(frozen=True, eq=False)
class Data:
    """Inputs and labels of one draw, in three parts."""

    train: tuple[np.ndarray, np.ndarray]
    validation: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]


def draw(seed: int, sizes: Sizes) -> Data:
    """Return training, validation and test samples."""
    rng = np.random.default_rng(seed)
    parts = []
    for size in (sizes.n_train, sizes.n_train, sizes.n_test):
        x = rng.uniform(-10.0, 10.0, size)
        parts.append((x, np.where(np.sin(np.multiply.outer(x, TRUE)).sum(axis=1) > 0, 1.0, -1.0)))
    return Data(*parts)


# --- learners -------------------------------------------------------------------------------------------------------


def svm_error(data: Data, frequencies: Any, weights: Any = None, constants: Any = CONSTANTS) -> float:
    """Return the test error of an SVM on a weighted sum of kernels, its constant chosen on the validation part."""
    train, validation, test = (
        dirichlet_features(x, np.asarray(frequencies), weights) for x, _ in (data.train, data.validation, data.test)
    )
    machines = [fit_svm(train, data.train[1], C) for C in constants]
    best = min(machines, key=lambda machine: machine.error(validation, data.validation[1]))
    return best.error(test, data.test[1])


def model_error(part: tuple[np.ndarray, np.ndarray], x: np.ndarray, model: Any) -> float:
    """Return the error on one part of a model: a pair of frequencies and solution."""
    frequencies, solution = model
    theta = solution.kernel_weights
    scores = dirichlet_features(part[0], frequencies, theta) @ (
        dirichlet_features(x, frequencies, theta).T @ solution.dual_coef
    )
    return float(np.mean(np.where(scores + solution.intercept > 0, 1.0, -1.0) != part[1]))


def best_model(data: Data, models: list[Any]) -> tuple[float, Any]:
    """Return test error and model of the best of several on the validation part."""
    best = min(models, key=lambda model: model_error(data.validation, data.train[0], model))
    return model_error(data.test, data.train[0], best), best


def listed_error(data: Data, method: str, grid: np.ndarray) -> float:
    """Return the test error of a method that combines the kernels of a grid."""
    x, y = data.train
    if method == "UNIFORM":
        return svm_error(data, grid)
    grams = np.stack([FAMILY.value(x[:, None], frequency) for frequency in grid])
    if method == "AMKL":
        space = TargetSpace(y, np.ones(len(y)))
        columns = np.stack([space.centered(gram).ravel() for gram in grams], axis=1)
        weights = nnls(columns.T @ columns, columns.T @ space.ideal.ravel())[0]
        return svm_error(data, grid, weights / max(weights.sum(), 1e-300))
    regularizer = {"LPMKL (p=1)": Simplex, "LPMKL (p=2)": LpBall}[method]
    fits = [solve(grams, y, penalty=regularizer(1 / C), loss="hinge", tol=1e-2) for C in LIST_CONSTANTS]
    return best_model(data, [(grid, fit) for fit in fits])[0]


LISTED = ("UNIFORM", "AMKL", "LPMKL (p=1)", "LPMKL (p=2)")


def searched(data: Data, method: str, sizes: Sizes) -> tuple[float, pd.DataFrame]:
    """Return the test error of a search over all frequencies from 0 to 20, and the frequencies it found."""
    x, y = data.train
    points = x[:, None]
    if method in SEARCHES[:2]:
        aligned = align_family(
            FamilySearch(FAMILY, points),
            y,
            np.ones(len(y)),
            criterion=method.split("(")[1].rstrip(")"),
            ascent=AscentSettings("published"),
        )
        frequencies, weights = np.ravel(aligned.parameters), aligned.weights
        error = svm_error(data, frequencies, weights)
    else:
        limits, models = Limits(tol=5e-2, max_iter=sizes.max_iter), []
        update = "frank_wolfe" if method == SEARCHES[2] else "corrective"
        for C in ONE_STAGE_CONSTANTS:
            part = discover_greedily(
                SearchProblem(points, y, "hinge", strength=1 / C), FAMILY, update=update, limits=limits
            )
            models.append((np.array([kernel.spec.frequency for kernel in part.kernels]), part.solution))
        error, (frequencies, solution) = best_model(data, models)
        weights = solution.kernel_weights / solution.kernel_weights.sum()
    return error, pd.DataFrame({"method": method, "frequency": frequencies, "weight": weights})


def three_heaviest(found: pd.DataFrame) -> np.ndarray:
    """Return the three heaviest groups of frequencies, each by its weighted mean, in increasing order."""
    ordered = found.sort_values("frequency")
    groups = (ordered["frequency"].diff() > NEAR).cumsum()
    centers = [
        (part["weight"].sum(), np.average(part["frequency"], weights=part["weight"]))
        for _, part in ordered.groupby(groups)
    ]
    return np.sort([center for _, center in sorted(centers, reverse=True)[:3]])


# --- the experiment -------------------------------------------------------------------------------------------------


def run_draw(ledger: Ledger, seed: int, sizes: Sizes) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Run what the table lacks of one draw; return errors of single frequencies, and the frequencies found."""
    data, found = draw(seed, sizes), []
    named = {f"one kernel, sqrt {square}": [np.sqrt(square)] for square in (2, 12, 60)}
    named |= {NAMES[key]: TRUE[[int(digit) - 1 for digit in key]] for key in NAMES}
    for method in (*named, *LISTED, *SEARCHES):
        if (method, seed) in ledger:
            continue
        off = np.nan
        with cpu_seconds() as spent:
            if method in SEARCHES:
                error, frequencies = searched(data, method, sizes)
                found.append(frequencies.assign(draw=seed))
                off = distance(frequencies)
            else:
                error = svm_error(data, named[method]) if method in named else listed_error(data, method, GRID)
        ledger.add({"method": method, "repeat": seed, "error": 100 * error, "off": off} | spent)
    scan = np.linspace(0.0, 20.0, sizes.scan)
    singles = [svm_error(data, [frequency], constants=SCAN_CONSTANTS) for frequency in scan] if found else []
    single = pd.DataFrame({"draw": seed, "frequency": scan, "error": 100 * np.array(singles)} if found else {})
    return single, pd.concat(found, ignore_index=True) if found else pd.DataFrame()


def distance(found: pd.DataFrame) -> float:
    """Return the largest distance of one of the three heaviest frequencies to a true one."""
    heaviest = three_heaviest(found)
    return float(np.max(np.abs(heaviest - TRUE))) if len(heaviest) == len(TRUE) else np.inf


def refine(ledger: Ledger, sizes: Sizes) -> None:
    """Run the methods on lists with grids of smaller and smaller steps from 0 to 9."""
    for seed in range(sizes.grid_draws):
        data = draw(seed, sizes)
        for step in sizes.steps:
            grid = step * np.arange(round(9 / step) + 1)
            for method in LISTED:
                if (method, step, seed) not in ledger:
                    with cpu_seconds() as spent:
                        error = 100 * listed_error(data, method, grid)
                    row = {"method": method, "step": step, "repeat": seed, "kernels": len(grid), "error": error}
                    ledger.add(row | spent)


def summary_table(runs: pd.DataFrame) -> dict[str, str]:
    """Return mean and range of the error of each method, what the thesis prints, and how far frequencies are off."""
    printed = {NAMES[key]: value for key, value in PRINTED.items()}
    lines = []
    for method, own in runs.groupby("method", sort=False):
        error, off = own["error"], own["off"].dropna()
        told = f"{printed[str(method)]:.1f}" if method in printed else ""
        told_off = [f"{off.median():.3f}", f"{np.mean(off <= 0.05):.0%}"] if len(off) else ["", ""]
        cells = [f"{error.mean():.1f} ± {error.std():.1f}", f"{error.min():.1f} to {error.max():.1f}", told]
        lines.append([str(method), *cells, *told_off, f"{own['cpu_s'].mean():.2g}"])
    head = ["kernels or method", "test error, % (mean ± sd)", "range", "printed"]
    return {"errors": markdown([*head, "off by (median)", "within 0.05", "CPU s"], lines)}


def grid_table(runs: pd.DataFrame) -> dict[str, str]:
    """Return the mean error of the methods on lists, a row a step, over draws that all of them have finished."""
    lines = []
    runs = runs[runs.groupby(["step", "repeat"])["method"].transform("nunique") == len(LISTED)]
    for (step, kernels), own in runs.groupby(["step", "kernels"], sort=False):
        means = own.groupby("method")["error"].mean()
        seconds = own.groupby("method")["cpu_s"].mean()
        cells = [f"{means[method]:.1f} ({seconds[method]:.2g} s)" for method in LISTED]
        lines.append([f"{step:g}", f"{kernels}", f"{own['repeat'].nunique()}", *cells])
    return {"grid": markdown(["step", "kernels", "draws", *LISTED], lines)}


LEDGERS = {RUNS: summary_table, GRID_RUNS: grid_table}


def plot_singles(singles: pd.DataFrame, path: Path) -> None:
    """Draw the error of one kernel against its frequency, as a mean with a band of 5 to 95 % of the draws."""
    by = singles.groupby("frequency")["error"]
    figure, ax = plt.subplots(figsize=(7, 3))
    ax.fill_between(by.mean().index, by.quantile(0.05), by.quantile(0.95), alpha=0.3, color="tab:blue", lw=0)
    ax.plot(by.mean().index, by.mean(), color="tab:blue")
    for frequency in TRUE:
        ax.axvline(frequency, color="0.4", ls="--", lw=1)
    ax.set(xlabel="frequency of the kernel", ylabel="test error (%)", xlim=(0, 20))
    figure.tight_layout()
    figure.savefig(path, dpi=90)
    plt.close(figure)


def plot_methods(errors: pd.DataFrame, found: pd.DataFrame, path: Path) -> None:
    """Draw the errors of all methods (left) and the frequencies that searches found, sized by weight (right)."""
    names = list(dict.fromkeys(errors["method"]))
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), width_ratios=(3, 2))
    left.boxplot([errors[errors["method"] == name]["error"] for name in names], orientation="horizontal")
    left.set_yticks(range(1, len(names) + 1), names)
    left.invert_yaxis()
    left.set(xlabel="test error (%)", xlim=(0, None))
    methods = list(dict.fromkeys(found["method"]))
    for row, name in enumerate(methods):
        part = found[found["method"] == name]
        right.scatter(part["frequency"], row + 0.25 * (part["draw"] % 5 - 2) / 2, s=60 * part["weight"], alpha=0.4)
    right.set_yticks(range(len(methods)), methods)
    right.invert_yaxis()
    for frequency in TRUE:
        right.axvline(frequency, color="0.4", ls="--", lw=1)
    right.set(xlabel="frequencies found", xlim=(0, 20))
    figure.tight_layout()
    figure.savefig(path, dpi=80)
    plt.close(figure)


def main() -> None:
    """Run the experiment from the command line."""
    parser = command_line(
        __doc__, "thesis/chapter3", data="not needed: the samples are drawn at random", quick="two small draws"
    )
    parser.add_argument("--draws", type=int, default=None, help="number of draws")
    parser.add_argument("--frequencies", type=int, default=None, help="how many are scanned, from 0 to 20")
    arguments = parser.parse_args()
    sizes, output = QUICK if arguments.quick else FULL, arguments.output
    sizes = replace(sizes, scan=arguments.frequencies or sizes.scan, draws=arguments.draws or sizes.draws)
    ledger = Ledger(output / RUNS, ("method", "repeat"), ("error", "off", "cpu_s"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for seed in track(range(sizes.draws), "draws", console=CONSOLE):
            parts = run_draw(ledger, seed, sizes)
            draw_figures(parts, ledger.frame(), output)  # after every draw: an interrupted run leaves figures too
        refine(Ledger(output / GRID_RUNS, ("method", "step", "repeat"), ("kernels", "error", "cpu_s")), sizes)
    CONSOLE.print(report(LEDGERS, output, arguments.page), markup=False, highlight=False, soft_wrap=True)


def draw_figures(parts: tuple[pd.DataFrame, pd.DataFrame], errors: pd.DataFrame, output: Path) -> None:
    """Add what this draw scanned and found to what earlier ones did, and draw both figures."""
    drawn = []
    for name, new in zip(("singles", "found"), parts, strict=True):
        path = output / f"{name}.csv"
        if len(new):
            new.to_csv(path, mode="a", header=not path.exists(), index=False)
        drawn.append(pd.read_csv(path))
    plot_singles(drawn[0], output / "singles.png")
    plot_methods(errors, drawn[1], output / "methods.png")


if __name__ == "__main__":
    main()
