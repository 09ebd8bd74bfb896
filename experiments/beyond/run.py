"""What to use today in place of each paper's own method, at the paper's own task: error, CPU seconds and gap.

    python experiments/beyond/run.py [--data DIR] [--quick] [--repeats N] [--report] [--output DIR]

Every method chooses its strength on the same training rows and is judged on the rows that are left: the solver and the
kernels of the paper; the same kernels and penalty by ``solver="auto"`` (the same search by default settings, where the
paper searches for kernels); the untouched estimator of this library, which knows nothing of the paper; and one machine
with one Gaussian kernel, tuned by a grid search. ``DIR`` holds the archives of the papers' sets; without it rows of the
same shape are drawn. Every result is a row of ``beyond_runs.csv`` at once and not computed again; ``--report`` computes
nothing. Then writes ``tables.md``.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from rich.console import Console
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV, ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

sys.path.insert(0, str(Path(__file__).parents[2]))
from experiments.ledger import Ledger, markdown, report
from experiments.program import command_line

from manykernels import Gaussian, GaussianMKL, KernelBank, MKLClassifierCV, MKLRegressorCV, Polynomial, PolynomialMKL
from manykernels.kernels import Joint, PerFeature

Array = NDArray[Any]
RUNS = "beyond_runs.csv"
KEYS, MEASURED = ("paper", "set", "repeat", "method"), ("error", "cpu_s", "gap", "kernels")
WIDTHS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
OWN, SAME, DEFAULT, ONE = "the paper's", "its task, our defaults", "untouched", "one tuned kernel"
METHODS = (OWN, SAME, DEFAULT, ONE)


@dataclass(frozen=True)
class Task:
    """One paper at its own task.

    Attributes
    ----------
    sets : mapping of str to int
        Archives, and how many rows of each are for training.
    entrants : function of (method, number of columns, number of training rows)
        Return the estimator of the paper, or the one that differs from it in the solver alone.
    continuous : bool
        Whether the target is a number: the error is then the root mean square in its unit, else the share of wrong
        labels.
    """

    sets: Mapping[str, int]
    entrants: Callable[[str, int, int], Any]
    continuous: bool = False


def holdouts() -> ShuffleSplit:
    """Return the splits by which every search here chooses."""
    return ShuffleSplit(3, test_size=0.25, random_state=0)


def widths_and_polynomials(n_columns: int) -> KernelBank:
    """Return Gaussians and polynomials of degree 1 to 3 on each column and on all of them (SpicyMKL, section 6.2)."""
    polynomials = tuple(Polynomial(degree) for degree in (1, 2, 3))
    joint = tuple(Gaussian(width * np.sqrt(n_columns)) for width in WIDTHS)
    single = tuple(Gaussian(width) for width in WIDTHS)
    kernels = [PerFeature((*single, *polynomials)), Joint((*joint, *polynomials))]
    return KernelBank(kernels, standardize=True, normalize="mean_diagonal")


def random_columns(n_columns: int, n_kernels: int = 50) -> KernelBank:
    """Return Gaussians on random sets of columns (support kernel machines, section 5)."""
    rng = np.random.default_rng(0)
    kernels = []
    for m in range(n_kernels):
        columns = sorted(rng.choice(n_columns, rng.integers(1, n_columns + 1), replace=False).tolist())
        kernels.append((f"subset {m}", Gaussian(np.sqrt(len(columns)) * 10 ** rng.uniform(-0.5, 0.5)), columns))
    return KernelBank(kernels, standardize=True, normalize="mean_diagonal")


def solver_of(method: str, name: str) -> dict[str, Any]:
    """Return the solver of a paper with room to end, or the choice of this library."""
    return {"solver": name, "resources": {"max_iter": 1000}} if method == OWN else {"solver": "auto"}


def spicymkl(method: str, n_columns: int, n_rows: int) -> Any:
    """Block 1-norm, logistic loss, the paper's three constants and its gap."""
    return MKLClassifierCV(
        widths_and_polynomials(n_columns), penalty="l1", alphas=[constant / n_rows for constant in (5.0, 0.5, 0.05)],
        tol=1e-2, cv=holdouts(), **solver_of(method, "spicymkl"),
    )  # fmt: skip


def citi(method: str, n_columns: int, n_rows: int) -> Any:
    """Weights in the elastic-net ball with eta = 0.5, hinge loss, constants of a support vector machine."""
    return MKLClassifierCV(
        widths_and_polynomials(n_columns), loss="hinge", penalty="elasticnet_ball", eta=0.5, tol=1e-3, cv=holdouts(),
        alphas=[1 / (constant * n_rows) for constant in (0.1, 1.0, 10.0, 100.0)], **solver_of(method, "citi"),
    )  # fmt: skip


def pfbs(method: str, n_columns: int, n_rows: int) -> Any:
    """Elastic net, squared loss, a path of tau for each share of mu."""
    bank = KernelBank(
        [PerFeature(tuple(Gaussian(width) for width in WIDTHS)), Joint((Gaussian(1.0), Gaussian(2.0), Gaussian(4.0)))],
        standardize=True,
        normalize="mean_diagonal",
    )
    return MKLRegressorCV(
        bank, penalty="elasticnet", l1_ratios=(0.5, 0.9), n_alphas=12, tol=1e-3, cv=holdouts(),
        **solver_of(method, "pfbs"),
    )  # fmt: skip


def skm(method: str, n_columns: int, n_rows: int) -> Any:
    """Squared sum of norms, hinge loss, the constants 0.1 to 100."""
    return MKLClassifierCV(
        random_columns(n_columns), loss="hinge", penalty="simplex", tol=1e-2, cv=holdouts(),
        alphas=[1 / (constant * n_rows) for constant in (0.1, 1.0, 10.0, 100.0)], **solver_of(method, "skm"),
    )  # fmt: skip


def greedy(method: str, n_columns: int, n_rows: int) -> Any:
    """GCD-2s (Algorithms 7 and 8) with its machine tuned; one certified stage with the default strength otherwise."""
    if method == SAME:
        return GaussianMKL("logistic")
    search = GaussianMKL("logistic", stages=2, update="published", criterion="distance")
    return GridSearchCV(search, {"alpha": [0.1, 0.01, 0.001]}, cv=holdouts())


def polynomial(method: str, n_columns: int, n_rows: int) -> Any:
    """Stochastic steps over all products of columns up to degree 3; polished to a certificate by default."""
    published = {"polish": False, "tol": 1e-2} if method == OWN else {}
    search = PolynomialMKL(3, p=2.0, random_state=0, **published)
    return GridSearchCV(search, {"alpha": [0.1, 0.01, 0.001]}, cv=holdouts())


TASKS: dict[str, Task] = {
    "SpicyMKL": Task({"pima": 400, "ionosphere": 200, "sonar": 140}, spicymkl),
    "Elastic-net constrained weights": Task({"ionosphere": 200, "heart_statlog": 190, "sonar": 140}, citi),
    "rls_dual_mkl (PFBS)": Task({"concrete": 300, "yacht": 200}, pfbs, continuous=True),
    "Support kernel machine": Task({"ionosphere": 200, "breast_cancer_wisconsin": 300}, skm),
    "Many kernels, Gaussian": Task({"heart_statlog": 108, "thyroid_ida": 86, "banana": 300}, greedy),
    "Many kernels, polynomial": Task({"concrete": 300, "yacht": 200}, polynomial, continuous=True),
}
QUICK = {"SpicyMKL": {"pima": 60}, "rls_dual_mkl (PFBS)": {"concrete": 60}}


def one_kernel(continuous: bool) -> Any:
    """Return ridge regression or a support vector machine with one Gaussian, both settings tuned."""
    machine = KernelRidge(kernel="rbf") if continuous else SVC(kernel="rbf")
    strength = "kernelridge__alpha" if continuous else "svc__C"
    grid = {strength: np.logspace(-3, 1, 5) if continuous else np.logspace(-1, 3, 5)}
    grid[strength.split("__")[0] + "__gamma"] = np.logspace(-3, 1, 9)
    return GridSearchCV(make_pipeline(StandardScaler(), machine), grid, cv=holdouts())


def estimator(task: Task, method: str, n_columns: int, n_rows: int) -> Any:
    """Return what a method fits."""
    if method == DEFAULT:
        return MKLRegressorCV() if task.continuous else MKLClassifierCV()
    return one_kernel(task.continuous) if method == ONE else task.entrants(method, n_columns, n_rows)


def load(name: str, folder: str | None, continuous: bool) -> tuple[Array, Array]:
    """Return complete rows without constant columns, and the target; drawn in the same shape without a folder."""
    if folder is None:
        rng = np.random.default_rng(len(name))
        X = rng.normal(size=(800, 8))
        f = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=800)
        return X, f if continuous else np.where(f > 0, 1.0, -1.0)
    with np.load(Path(folder) / f"{name}.npz", allow_pickle=False) as archive:
        X, y = archive["X"].astype(float), np.asarray(archive["y"], dtype=float)
    whole = np.isfinite(X).all(axis=1)
    return X[whole][:, np.ptp(X[whole], axis=0) > 0], y[whole]


def measure(task: Task, method: str, X: Array, y: Array, n_train: int, repeat: int) -> dict[str, Any]:
    """Fit on random rows; return the error on the others, CPU seconds, the gap that is told and the kernels in use."""
    order = np.random.default_rng(repeat).permutation(len(y))
    train, test = order[:n_train], order[n_train:]
    mean = y[train].mean() if task.continuous else 0.0
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = estimator(task, method, X.shape[1], n_train).fit(X[train], y[train] - mean)
    seconds = time.process_time() - started
    predicted = model.predict(X[test])
    wrong = predicted + mean - y[test] if task.continuous else (predicted != y[test]).astype(float)
    best = getattr(model, "best_estimator_", model)
    weights = getattr(best, "kernel_weights_", None)
    return {
        "error": float(np.sqrt(np.mean(wrong**2)) if task.continuous else np.mean(wrong)),
        "cpu_s": round(seconds, 3),
        "gap": float(getattr(best, "dual_gap_", np.nan)),
        "kernels": 1 if weights is None else int(np.count_nonzero(weights)),
    }


def compare(arguments: Any, ledger: Ledger) -> None:
    """Compute what the run table lacks."""
    for repeat in range(arguments.repeats):
        for paper, task in TASKS.items():
            sets = QUICK.get(paper, {}) if arguments.quick else task.sets
            for name, n_train in sets.items():
                X, y = load(name, arguments.data, task.continuous)
                for method in METHODS:
                    if (paper, name, repeat, method) not in ledger:
                        row = {"paper": paper, "set": name, "repeat": repeat, "method": method}
                        ledger.add(row | measure(task, method, X, y, n_train, repeat))


def tables(results: pd.DataFrame) -> dict[str, str]:
    """Return one table a paper: for each set and method mean error, median seconds, largest gap, median kernels."""
    return {str(paper): table(paper, own) for paper, own in results.groupby("paper", sort=False)}


def table(paper: Any, own: pd.DataFrame) -> str:
    """Return the table of one paper, methods as rows and sets as columns."""
    continuous, sets = TASKS[paper].continuous, list(own["set"].unique())
    lines = []
    for method in METHODS:
        cells = []
        for name in sets:
            rows = own[(own["set"] == name) & (own["method"] == method)]
            error = f"{rows['error'].mean():.3g}" if continuous else f"{100 * rows['error'].mean():.1f} %"
            gap = "" if rows["gap"].isna().all() else f", gap {rows['gap'].max():.0e}"
            cells.append(f"{error}, {rows['cpu_s'].median():.2g} s{gap}, {rows['kernels'].median():.0f} kernels")
        lines.append([method, *cells])
    return markdown([str(paper), *sets], lines)


LEDGERS = {RUNS: tables}


def main() -> None:
    """Run everything and write it down."""
    parser = command_line(
        __doc__,
        "beyond",
        data="folder with the archives; without it rows are drawn",
        quick="two papers at small sizes, for a check that everything runs",
    )
    parser.add_argument("--repeats", type=int, default=5, help="random splits")
    parser.add_argument("--report", action="store_true", help="compute nothing, write the tables of the runs so far")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.repeats = 1
    output = arguments.output
    if not arguments.report:
        compare(arguments, Ledger(output / RUNS, KEYS, MEASURED))
    Console().print(report(LEDGERS, output, arguments.page), markup=False, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main()
