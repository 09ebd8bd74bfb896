"""Chapter 3 of the thesis: Dirichlet kernels where a grid of frequencies fails and a search finds the right ones.

    python experiments/thesis/chapter3.py [--quick] [--output DIR]

Labels are the signs of ``sin(sqrt(2) x) + sin(sqrt(12) x) + sin(sqrt(60) x)`` on [-10, 10]. Prints means and bands of
the test errors over draws; writes three tables as CSV and two figures.
"""

from __future__ import annotations

import argparse
import time
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
from rich.table import Table
from scipy.optimize import nnls

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
CONSOLE = Console(width=110)


@dataclass(frozen=True)
class Sizes:
    """How much is computed."""

    draws: int
    n_train: int
    n_test: int
    scan: int
    max_iter: int


FULL = Sizes(draws=20, n_train=500, n_test=1000, scan=201, max_iter=6)
QUICK = Sizes(draws=2, n_train=150, n_test=300, scan=21, max_iter=4)


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


def grid_grams(x: np.ndarray) -> np.ndarray:
    """Return the kernels of the ten frequencies 0 to 9, (10, N, N)."""
    return np.stack([FAMILY.value(x[:, None], frequency) for frequency in GRID])


def finite_methods(data: Data) -> dict[str, float]:
    """Return test errors of methods that combine the ten kernels of the grid."""
    x, y = data.train
    grams = grid_grams(x)
    errors = {"UNIFORM": svm_error(data, GRID)}
    space = TargetSpace(y, np.ones(len(y)))
    columns = np.stack([space.centered(gram).ravel() for gram in grams], axis=1)
    weights = nnls(columns.T @ columns, columns.T @ space.ideal.ravel())[0]
    errors["AMKL"] = svm_error(data, GRID, weights / max(weights.sum(), 1e-300))
    for name, regularizer in (("LPMKL (p=1)", Simplex), ("LPMKL (p=2)", LpBall)):
        settings = {"loss": "hinge", "tol": 1e-2}
        fits = [solve(grams, y, regularizer=regularizer(1 / C), **settings) for C in LIST_CONSTANTS]
        errors[name] = best_model(data, [(GRID, fit) for fit in fits])[0]
    return errors


def continuous_methods(data: Data, sizes: Sizes) -> tuple[dict[str, float], list[dict[str, Any]], dict[str, float]]:
    """Return test errors, frequencies found, and seconds, of the searches over all frequencies from 0 to 20."""
    x, y = data.train
    points, errors, found, seconds = x[:, None], {}, [], {}
    for name, criterion in (("GCD-2s (alignment)", "alignment"), ("GCD-2s (distance)", "distance")):
        started = time.process_time()
        aligned = align_family(
            FamilySearch(FAMILY, points), y, np.ones(len(y)), criterion=criterion, ascent=AscentSettings("published")
        )
        frequencies = np.ravel(aligned.parameters)
        errors[name], seconds[name] = svm_error(data, frequencies, aligned.weights), time.process_time() - started
        found += [rows(name, *pair) for pair in zip(frequencies, aligned.weights, strict=True)]
    for name, update in (("CKL (GCD-1s)", "frank_wolfe"), ("IKL", "corrective")):
        started = time.process_time()
        limits, models = Limits(tol=5e-2, max_iter=sizes.max_iter), []
        for C in ONE_STAGE_CONSTANTS:
            part = discover_greedily(
                SearchProblem(points, y, "hinge", strength=1 / C), FAMILY, update=update, limits=limits
            )
            models.append((np.array([kernel.spec.frequency for kernel in part.kernels]), part.solution))
        errors[name], (frequencies, solution) = best_model(data, models)
        seconds[name] = time.process_time() - started
        total = solution.kernel_weights.sum()
        found += [rows(name, *pair) for pair in zip(frequencies, solution.kernel_weights / total, strict=True)]
    return errors, found, seconds


def rows(method: str, frequency: float, weight: float) -> dict[str, Any]:
    """Return one row of the table of frequencies found."""
    return {"method": method, "frequency": float(frequency), "weight": float(weight)}


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


def run_draw(seed: int, sizes: Sizes) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return errors of all methods, errors of single frequencies, and frequencies found, of one draw."""
    data = draw(seed, sizes)
    errors = {f"one kernel, sqrt {square}": svm_error(data, [np.sqrt(square)]) for square in (2, 12, 60)}
    for key, name in NAMES.items():
        errors[name] = svm_error(data, TRUE[[int(digit) - 1 for digit in key]])
    searched, found, seconds = continuous_methods(data, sizes)
    errors |= finite_methods(data) | searched
    scan = np.linspace(0.0, 20.0, sizes.scan)
    singles = [svm_error(data, [frequency], constants=SCAN_CONSTANTS) for frequency in scan]
    table = pd.DataFrame({"draw": seed, "method": list(errors), "error": [100 * value for value in errors.values()]})
    table["cpu_s"] = table["method"].map(seconds)
    single = pd.DataFrame({"draw": seed, "frequency": scan, "error": 100 * np.array(singles)})
    return table, single, pd.DataFrame(found).assign(draw=seed)


def summarize(errors: pd.DataFrame, found: pd.DataFrame) -> pd.DataFrame:
    """Return mean and range of the error of each method, what the thesis prints, and how far frequencies are off."""
    summary = errors.groupby("method", sort=False)["error"].agg(["mean", "std", "min", "max"])
    summary["cpu_s"] = errors.groupby("method", sort=False)["cpu_s"].mean()
    summary["printed"] = pd.Series({NAMES[key]: value for key, value in PRINTED.items()})
    parts = found.groupby(["method", "draw"])
    off = {key: np.max(np.abs(three_heaviest(part) - TRUE)) if len(part) > 2 else np.inf for key, part in parts}
    distances = pd.Series(off).groupby(level=0)
    summary["frequency_off"] = distances.median()
    summary["within_0.05"] = distances.agg(lambda values: float(np.mean(values <= 0.05)))
    return summary.reset_index()


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


def show(summary: pd.DataFrame, draws: int) -> None:
    """Print the summary."""
    table = Table("kernels or method", "error (%)", "range", "printed", "off by", "within 0.05", "CPU s")
    for row in summary.itertuples(index=False):
        printed = "" if np.isnan(row.printed) else f"{row.printed:.1f}"
        off = ("", "") if np.isnan(row.frequency_off) else (f"{row.frequency_off:.3f}", f"{row[-1]:.0%}")
        cpu = "" if np.isnan(row.cpu_s) else f"{row.cpu_s:.1f}"
        table.add_row(
            row.method, f"{row.mean:.1f} ± {row.std:.1f}", f"{row.min:.1f} - {row.max:.1f}", printed, *off, cpu
        )
    CONSOLE.print(table)
    CONSOLE.print(f"{draws} draws; 'off by' is the median over draws of the largest distance to a true frequency.")


def main() -> None:
    """Run the experiment from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="not needed: the samples are drawn at random")
    parser.add_argument("--quick", action="store_true", help="two small draws")
    parser.add_argument("--draws", type=int, default=None, help="number of draws")
    parser.add_argument("--frequencies", type=int, default=None, help="how many are scanned, from 0 to 20")
    parser.add_argument("--output", default="experiments/results/thesis/chapter3", help="folder for tables and figures")
    arguments = parser.parse_args()
    sizes, output = QUICK if arguments.quick else FULL, Path(arguments.output)
    sizes = replace(sizes, scan=arguments.frequencies or sizes.scan)
    output.mkdir(parents=True, exist_ok=True)
    draws = arguments.draws or sizes.draws
    parts = []
    for seed in track(range(draws), "draws", console=CONSOLE):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            parts.append(run_draw(seed, sizes))
        summary = save(parts, output)  # after every draw: an interrupted run leaves tables and figures too
    show(summary, draws)


def save(parts: list[tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]], output: Path) -> pd.DataFrame:
    """Write tables and figures of the draws so far and return their summary."""
    errors, singles, found = (pd.concat(tables, ignore_index=True) for tables in zip(*parts, strict=True))
    summary = summarize(errors, found)
    for name, table in (("errors", errors), ("singles", singles), ("found", found), ("summary", summary)):
        table.to_csv(output / f"{name}.csv", index=False)
    plot_singles(singles, output / "singles.png")
    plot_methods(errors, found, output / "methods.png")
    return summary


if __name__ == "__main__":
    main()
