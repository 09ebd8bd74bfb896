"""Section 6.2.1 of the thesis: Gaussian classes in 50 dimensions of which fewer and fewer matter.

    python experiments/thesis/greedy.py [--quick] [--repeats N] [--output DIR]

Compares searches for one width and for one width a feature, in one and two stages, with methods on 50 listed widths.
Prints test error, alignment and time for each relevance level; writes two tables and a figure of three panels.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from rich.console import Console
from rich.progress import track
from rich.table import Table
from scipy.optimize import nnls
from sklearn.svm import SVC

from manykernels import Gaussian, solve
from manykernels.discovery import (
    ArdGaussianFamily,
    FamilySearch,
    GaussianFamily,
    Limits,
    SearchSettings,
    TargetSpace,
    align_family,
    discover_greedily,
)
from manykernels.exceptions import ConvergenceWarning
from manykernels.objective.weight_sets import LpBall, Simplex

N_FEATURES, DISTANCE = 50, 1.75
RELEVANCE = (0, 1, 2, 5, 10, 20, 40)
WIDTHS = np.geomspace(1e-3, 1e3, 50) / np.sqrt(2)  # the thesis writes exp(-d^2 / sigma^2)
RANGE = (1e-2, 1e3)
SVM_CONSTANTS = 10.0 ** np.arange(-5.0, 5.5, 0.5)
ONE_STAGE_CONSTANTS = 10.0 ** np.arange(-1.0, 3.0)
SHRINKAGES = 10.0 ** np.arange(-6.0, 1.0)
ONCE = SearchSettings(n_starts=1)
N_ALIGNED = 500  # test samples on which alignment is measured
CONSOLE = Console(width=130)


@dataclass(frozen=True)
class Sizes:
    """How much is computed."""

    repeats: int
    n_validation: int
    n_test: int
    relevance: tuple[int, ...]
    max_iter: int


FULL = Sizes(repeats=5, n_validation=1000, n_test=2000, relevance=RELEVANCE, max_iter=20)
QUICK = Sizes(repeats=1, n_validation=200, n_test=300, relevance=(0, 40), max_iter=4)


@dataclass(frozen=True, eq=False)
class Data:
    """Points and labels of one draw, in three parts."""

    train: tuple[np.ndarray, np.ndarray]
    validation: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class Kernel:
    """A weighted sum of kernels."""

    specs: tuple[Any, ...]
    weights: np.ndarray

    def __call__(self, A: np.ndarray, B: np.ndarray | None = None) -> np.ndarray:
        """Return the matrix of kernel values."""
        return sum(weight * spec(A, B) for weight, spec in zip(self.weights, self.specs, strict=True))


def draw(gamma: float, seed: int, sizes: Sizes) -> Data:
    """Return samples of two Gaussian classes whose means differ in feature i by ``(i/50)^gamma``, scaled."""
    rng = np.random.default_rng(seed)
    relevance = (np.arange(1, N_FEATURES + 1) / N_FEATURES) ** gamma
    mean = DISTANCE * relevance / np.linalg.norm(relevance)
    parts = []
    for size in (50, sizes.n_validation, sizes.n_test):
        y = rng.permutation(np.where(np.arange(size) < size // 2, 1.0, -1.0))
        parts.append((rng.normal(size=(size, N_FEATURES)) + y[:, None] * mean, y))
    return Data(*parts)


# --- methods: data -> kernel and scores of one model a constant -------------------------------------------------------


def machines(data: Data, kernel: Kernel) -> list[tuple[Kernel, np.ndarray, float]]:
    """Return SVMs on one kernel."""
    (X, y), models = data.train, []
    gram = kernel(X)
    scale = max(float(np.mean(np.diag(gram))), 1e-300)
    for C in SVM_CONSTANTS:
        machine = SVC(C=C / scale, kernel="precomputed", max_iter=100_000).fit(gram, y)
        rho = np.zeros(len(y))
        rho[machine.support_] = machine.dual_coef_[0]
        models.append((kernel, rho, float(machine.intercept_[0])))
    return models


def listed(weights: np.ndarray) -> Kernel:
    """Return a weighted sum of the listed kernels."""
    kept = np.flatnonzero(weights) if weights.any() else np.array([0])
    return Kernel(tuple(Gaussian(WIDTHS[m]) for m in kept), weights[kept])


def uniform(data: Data, sizes: Sizes) -> list[Any]:
    """Return SVMs on the mean of the listed kernels."""
    return machines(data, listed(np.full(len(WIDTHS), 1 / len(WIDTHS))))


def aligned_list(data: Data, sizes: Sizes) -> list[Any]:
    """Return SVMs on the best aligned sum of the listed kernels (AMKL)."""
    X, y = data.train
    space = TargetSpace(y, np.ones(len(y)))
    columns = np.stack([space.centered(Gaussian(width)(X)).ravel() for width in WIDTHS], axis=1)
    return machines(data, listed(nnls(columns, space.ideal.ravel())[0]))


def lp(regularizer: Any) -> Callable[[Data, Sizes], list[Any]]:
    """Return the method that learns weights on the simplex or in a ball."""

    def learn(data: Data, sizes: Sizes) -> list[Any]:
        X, y = data.train
        grams, models = np.stack([Gaussian(width)(X) for width in WIDTHS]), []
        for C in ONE_STAGE_CONSTANTS:
            found = solve(grams, y, loss="hinge", regularizer=regularizer(1 / C), tol=1e-3)
            models.append((listed(found.kernel_weights), found.dual_coef, found.intercept))
        return models

    return learn


def one_stage(family: Any) -> Callable[[Data, Sizes], list[Any]]:
    """Return GCD-1s, which is CKL."""

    def learn(data: Data, sizes: Sizes) -> list[Any]:
        limits, models = Limits(tol=1e-2, max_iter=sizes.max_iter), []
        for C in ONE_STAGE_CONSTANTS:
            found = discover_greedily(
                *data.train, family, loss="hinge", strength=1 / C, update="frank_wolfe", settings=ONCE, limits=limits
            )
            kernel = Kernel(tuple(part.spec for part in found.kernels), found.solution.kernel_weights)
            models.append((kernel, found.solution.dual_coef, found.solution.intercept))
        return models

    return learn


def two_stages(family: Any, shrinkages: Any = (0.0,)) -> Callable[[Data, Sizes], list[Any]]:
    """Return GCD-2s by distance; of several strengths of shrinkage, the one aligned best on validation samples."""

    def learn(data: Data, sizes: Sizes) -> list[Any]:
        kernels = [combined(family, data, sizes, shrinkage) for shrinkage in shrinkages]
        if len(kernels) == 1:
            return machines(data, kernels[0])
        part = data.validation[0][:N_ALIGNED], data.validation[1][:N_ALIGNED]
        return machines(data, max(kernels, key=lambda kernel: alignment(kernel, *part)))

    return learn


def combined(family: Any, data: Data, sizes: Sizes, shrinkage: float) -> Kernel:
    """Return the kernel of the first stage."""
    X, y = data.train
    search = FamilySearch(family, X, SearchSettings(n_starts=ONCE.n_starts, shrinkage=shrinkage))
    found = align_family(
        search, y, np.ones(len(y)), criterion="distance", limits=Limits(max_iter=sizes.max_iter), random_state=0
    )
    return Kernel(tuple(family.spec(parameter) for parameter in found.parameters), found.weights)


def alignment(kernel: Kernel, X: np.ndarray, y: np.ndarray) -> float:
    """Return the centered alignment of a kernel with the labels of some samples."""
    return TargetSpace(y, np.ones(len(y))).alignment(kernel(X)) if len(kernel.specs) else 0.0


METHODS: dict[str, Callable[[Data, Sizes], list[Any]]] = {
    "UNIFORM": uniform,
    "AMKL": aligned_list,
    "LPMKL (p=1)": lp(Simplex),
    "LPMKL (p=2)": lp(LpBall),
    "CKL (1D)": one_stage(GaussianFamily(*RANGE)),
    "CKL (nD)": one_stage(ArdGaussianFamily(*RANGE)),
    "GCD-2s (1D)": two_stages(GaussianFamily(*RANGE)),
    "GCD-2s (nD, NoReg)": two_stages(ArdGaussianFamily(*RANGE)),
    "GCD-2s (nD)": two_stages(ArdGaussianFamily(*RANGE), SHRINKAGES),
}


# --- the experiment -------------------------------------------------------------------------------------------------


def share_missed(models: list[Any], X: np.ndarray, y: np.ndarray, train: np.ndarray) -> list[float]:
    """Return the share of samples whose sign each model misses; kernels that models share are computed once."""
    cross: dict[int, np.ndarray] = {}
    errors = []
    for kernel, rho, intercept in models:
        if id(kernel) not in cross:
            cross[id(kernel)] = kernel(X, train) if len(kernel.specs) else np.zeros((len(y), len(train)))
        scores = cross[id(kernel)] @ rho + intercept
        errors.append(float(np.mean(np.where(scores > 0, 1.0, -1.0) != y)))
    return errors


def measure(gamma: int, repeat: int, sizes: Sizes) -> list[dict[str, Any]]:
    """Return error, alignment and time of every method on one draw."""
    data, table = draw(gamma, 1000 * repeat + gamma, sizes), []
    part = data.test[0][:N_ALIGNED], data.test[1][:N_ALIGNED]
    for name, method in METHODS.items():
        started = time.process_time()
        models = method(data, sizes)
        seconds = time.process_time() - started
        best = models[int(np.argmin(share_missed(models, *data.validation, data.train[0])))]
        row = {"relevance": gamma, "repeat": repeat, "method": name}
        row |= {
            "error": 100 * share_missed([best], *data.test, data.train[0])[0],
            "alignment": alignment(best[0], *part),
        }
        table.append(row | {"cpu_s": seconds})
    return table


def plot(results: pd.DataFrame, path: Path) -> None:
    """Draw error, alignment and time against the relevance level."""
    figure, axes = plt.subplots(1, 3, figsize=(13, 4))
    levels = sorted(results["relevance"].unique())
    for name, part in results.groupby("method", sort=False):
        style = {"ls": "--" if "nD" in str(name) else "-", "marker": "o" if "D" in str(name) else "x", "ms": 4}
        for ax, column in zip(axes, ("error", "alignment", "cpu_s"), strict=True):
            ax.plot(range(len(levels)), part.groupby("relevance")[column].mean(), label=name, **style)
    for ax, label in zip(axes, ("test error (%)", "alignment on test samples", "CPU seconds"), strict=True):
        ax.set(xlabel="relevance parameter", ylabel=label)
        ax.set_xticks(range(len(levels)), levels)
    axes[2].set_yscale("log")
    axes[0].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=75)
    plt.close(figure)


def save(results: pd.DataFrame, output: Path) -> pd.DataFrame:
    """Write tables and figure, and return the table of mean errors."""
    results.to_csv(output / "results.csv", index=False)
    columns = ["error", "alignment", "cpu_s"]
    summary = results.groupby(["method", "relevance"], sort=False)[columns].mean().reset_index()
    summary.to_csv(output / "summary.csv", index=False)
    plot(results, output / "greedy.png")
    return summary


def show(summary: pd.DataFrame) -> None:
    """Print errors and alignments, a row a method."""
    for column, form in (("error", "{:.1f}"), ("alignment", "{:.2f}"), ("cpu_s", "{:.2f}")):
        levels = list(dict.fromkeys(summary["relevance"]))
        table = Table(column, *(str(level) for level in levels))
        for name, part in summary.groupby("method", sort=False):
            values = part.set_index("relevance")[column]
            table.add_row(str(name), *(form.format(values[level]) for level in levels))
        CONSOLE.print(table)


def main() -> None:
    """Run the experiment from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one small draw of two levels")
    parser.add_argument("--repeats", type=int, default=None, help="draws of each level")
    parser.add_argument("--data", help="not needed: the classes are drawn at random")
    parser.add_argument("--output", default="experiments/results/thesis/greedy", help="folder for tables and figure")
    arguments = parser.parse_args()
    sizes, output = QUICK if arguments.quick else FULL, Path(arguments.output)
    output.mkdir(parents=True, exist_ok=True)
    jobs = [(gamma, repeat) for repeat in range(arguments.repeats or sizes.repeats) for gamma in sizes.relevance]
    table: list[dict[str, Any]] = []
    for gamma, repeat in track(jobs, "draws", console=CONSOLE):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            table += measure(gamma, repeat, sizes)
        summary = save(pd.DataFrame(table), output)
    show(summary)


if __name__ == "__main__":
    main()
