"""The PFBS pipeline on a regression set: 60 kernels, a grid of tau and mu, selection, path plot, RMSE, cross-checks.

    python experiments/pfbs/run.py --data DIR [--quick] [--output DIR] [--page PAGE]

``DIR`` holds ``concrete.npz`` with arrays ``X`` and ``y``; without it the same set is fetched from OpenML.
Writes four run tables, of which the long one, of the selections, goes on where it stopped, and two figures.
"""

from __future__ import annotations

import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _checks import compare_optima, compare_variants, plot_variants, step_sizes
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from sklearn.datasets import fetch_openml
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV, KFold, ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

sys.path.insert(0, str(Path(__file__).parents[2]))
from experiments.ledger import Ledger, cpu_seconds, markdown, report
from experiments.program import command_line

from manykernels import Gaussian, KernelBank, Linear, MKLRegressor, regularization_path
from manykernels.inspection import PathDisplay

OPENML_ID = 44959  # concrete_compressive_strength
COLUMN_WIDTHS, JOINT_WIDTHS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0), (1.0, 2.0, 4.0, 8.0)
TOL_SELECTION, TOL_FINAL = 1e-3, 1e-5  # those of GURLS, as relative duality gaps
CONSOLE = Console()
REPEATS, OPTIMA, STEPS, VARIANTS = (f"pfbs_{name}_runs.csv" for name in ("repeats", "optima", "steps", "variants"))
KEYS = {
    REPEATS: ("repeat", "selection"),
    OPTIMA: ("tau", "mu", "repeat"),
    STEPS: ("rule", "repeat"),
    VARIANTS: ("variant", "repeat"),
}
MEASURED = {
    REPEATS: ("tau", "mu", "tau_over_tau_max", "at_edge", "n_active", "gap", "rmse", "cpu_s"),
    OPTIMA: (
        *("n_active", "pfbs", "difference_working_set", "difference_spicymkl"),
        *("n_iter", "newton_steps", "status", "gap", "cpu_s"),
    ),
    STEPS: ("n_kernels", "sigma", "stability", "cpu_s"),
    VARIANTS: ("splitting_steps", "newton_steps", "passes", "relative_gap", "status", "cpu_s"),
}
ONE_KERNEL = "kernel ridge, one Gaussian"


@dataclass(frozen=True)
class Sizes:
    """How much is computed."""

    n_train: int
    repeats: int
    splits: int
    n_taus: int
    mus: tuple[float, ...]


FULL = Sizes(n_train=300, repeats=5, splits=3, n_taus=12, mus=(1e-4, 1e-3, 1e-2, 1e-1))
QUICK = Sizes(n_train=60, repeats=1, splits=2, n_taus=3, mus=(1e-4, 1e-2))


def load(folder: str | None) -> tuple[np.ndarray, np.ndarray]:
    """Return features and target (MPa) from a folder of archives or from OpenML."""
    if folder is not None:
        with np.load(Path(folder) / "concrete.npz", allow_pickle=False) as archive:
            return archive["X"].astype(float), archive["y"].astype(float)
    table = fetch_openml(data_id=OPENML_ID, as_frame=True)
    return table.data.to_numpy(dtype=float), table.target.to_numpy(dtype=float)


def sixty_kernels() -> KernelBank:
    """Return six Gaussian widths and a linear kernel on each of eight columns, and four widths on all: 60 kernels.

    Columns are standardized and every kernel has unit mean diagonal, both learned on training rows.
    """
    kernels: list[Any] = []
    for column in range(8):
        kernels += [(f"x{column} gaussian {width:g}", Gaussian(width), [column]) for width in COLUMN_WIDTHS]
        kernels.append((f"x{column} linear", Linear(), [column]))
    kernels += [(f"all gaussian {width:g}", Gaussian(width), None) for width in JOINT_WIDTHS]
    return KernelBank(kernels, standardize=True, normalize="mean_diagonal")


def in_library(tau: float, mu: float) -> dict[str, float]:
    """Return the parameters of the elastic net whose norms weigh ``tau`` and whose squared norms ``mu``."""
    return {"alpha": tau + mu, "l1_ratio": tau / (tau + mu)}


def taus_from_empty(X: np.ndarray, y: np.ndarray, n_taus: int) -> np.ndarray:
    """Return ``tau`` from the smallest one with an empty model, ``max_j sqrt(y'K_j y) / n``, to a thousandth of it."""
    start = regularization_path(X, y, kernels=sixty_kernels(), n_alphas=1, fit_intercept=False)
    assert start.alpha_max is not None
    return np.geomspace(start.alpha_max, 1e-3 * start.alpha_max, n_taus)


def selector(sizes: Sizes, cv: Any, taus: np.ndarray) -> GridSearchCV:
    """Return the pipeline of the paper: PFBS, squared loss, no intercept, ``tau`` and ``mu`` chosen by ``cv``."""
    model = MKLRegressor(
        sixty_kernels(),
        penalty="elasticnet",
        solver="pfbs",
        fit_intercept=False,
        tol=TOL_SELECTION,
        resources={"max_iter": 1000},
    )
    pairs = [in_library(tau, mu) for mu in sizes.mus for tau in taus]
    grid = [{name: [value] for name, value in pair.items()} for pair in pairs]
    return GridSearchCV(model, grid, scoring="neg_mean_squared_error", cv=cv)


def run_repeats(ledger: Ledger, X: np.ndarray, y: np.ndarray, sizes: Sizes) -> None:
    """Choose by hold-out and by K-fold on random training sets, and measure the error on all other samples."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=CONSOLE) as progress:
        task = progress.add_task("selection", total=3 * sizes.repeats)
        for repeat in range(sizes.repeats):
            order = np.random.default_rng(repeat).permutation(len(y))
            train, test = order[: sizes.n_train], order[sizes.n_train :]
            ways: dict[str, Any] = {
                "hold-out": ShuffleSplit(sizes.splits, test_size=0.25, random_state=repeat),
                "K-fold": KFold(sizes.splits, shuffle=True, random_state=repeat),
            }
            for name, cv in ways.items():
                if (repeat, name) not in ledger:
                    ledger.add({"repeat": repeat, "selection": name} | fitted(sizes, cv, X, y, train, test))
                progress.advance(task)
            if (repeat, ONE_KERNEL) not in ledger:
                with cpu_seconds() as spent:
                    model = kernel_ridge(sizes.splits).fit(X[train], y[train] - y[train].mean())
                error = rmse(model, X, y, train, test)
                ledger.add({"repeat": repeat, "selection": ONE_KERNEL, "rmse": error} | spent)
            progress.advance(task)


def fitted(sizes: Sizes, cv: Any, X: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray) -> dict[str, Any]:
    """Return what one selection chose and its error on held-out samples, in MPa."""
    started = time.process_time()
    target = y[train] - y[train].mean()
    taus = taus_from_empty(X[train], target, sizes.n_taus)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="No kernel")  # at the first tau, where the model is empty
        search = selector(sizes, cv, taus).fit(X[train], target)
    model, mu_index, tau_index = search.best_estimator_, *divmod(search.best_index_, len(taus))
    tau = float(taus[tau_index])
    return {
        "tau": tau,
        "mu": sizes.mus[mu_index],
        "tau_over_tau_max": tau / taus[0],
        "at_edge": tau_index in (0, len(taus) - 1),
        "n_active": int(np.count_nonzero(model.kernel_weights_)),
        "gap": model.dual_gap_,
        "rmse": rmse(model, X, y, train, test),
        "cpu_s": time.process_time() - started,
    }


def rmse(model: Any, X: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray) -> float:
    """Return the root mean squared error on held-out samples; models know the target less its training mean."""
    return float(np.sqrt(np.mean((model.predict(X[test]) + y[train].mean() - y[test]) ** 2)))


def kernel_ridge(splits: int) -> GridSearchCV:
    """Return the yardstick: one Gaussian kernel on all standardized columns, width and strength by K-fold."""
    grid = {
        "kernelridge__gamma": [0.5 / width**2 for width in JOINT_WIDTHS],
        "kernelridge__alpha": np.geomspace(1e-4, 10, 11),
    }
    model = make_pipeline(StandardScaler(), KernelRidge(kernel="rbf"))
    return GridSearchCV(model, grid, scoring="neg_root_mean_squared_error", cv=KFold(splits))


def draw_path(X: np.ndarray, y: np.ndarray, sizes: Sizes, mu: float, tau: float, output: Path) -> None:
    """Draw the L1 path on the training set of the first repeat."""
    train = np.random.default_rng(0).permutation(len(y))[: sizes.n_train]
    target = y[train] - y[train].mean()
    given: dict[str, Any] = {"kernels": sixty_kernels(), "solver": "pfbs", "max_iter": 1000, "tol": TOL_FINAL}
    path = regularization_path(X[train], target, ridge=mu, n_alphas=4 * sizes.n_taus, fit_intercept=False, **given)
    display = PathDisplay.from_path(path, chosen=tau).plot()
    display.ax_.set_title(f"concrete, {sizes.n_train} samples, 60 kernels, mu = {mu:g}")
    display.ax_.set_xlabel("tau (weaker penalties to the right)")
    display.figure_.savefig(output / "path.png", dpi=90)


# --- tables of the page ---------------------------------------------------------------------------------------------


def repeats_table(runs: pd.DataFrame) -> dict[str, str]:
    """Return mean and standard deviation of the error over repeats, and medians of what was chosen."""
    rows = []
    for name, own in runs.groupby("selection", sort=False):
        chosen = own[["tau", "mu", "n_active"]].median()
        cells = [f"{chosen['tau']:.3g}", f"{chosen['mu']:g}", f"{chosen['n_active']:.0f}"]
        told = cells if name != ONE_KERNEL else ["", "", "1"]
        error = f"{own['rmse'].mean():.2f} ± {own['rmse'].std():.2f}"
        rows.append([str(name), error, *told, f"{own['cpu_s'].median():.2g}"])
    head = [
        "selection",
        "RMSE, MPa (mean ± sd over repeats)",
        "median tau",
        "median mu",
        "median kernels of 60",
        "CPU s",
    ]
    return {"repeats": markdown(head, rows)}


def optima_table(runs: pd.DataFrame) -> dict[str, str]:
    """Return the optimum at each pair and its difference to those of other solvers."""
    rows = [
        [
            *(f"{r.tau:.3g}", f"{r.mu:g}", f"{r.n_active}", f"{r.pfbs:.4g}", f"{r.difference_working_set:.0e}"),
            *(f"{r.difference_spicymkl:.0e}", f"{r.n_iter}", f"{r.newton_steps}", f"{r.status}"),
        ]
        for r in runs.itertuples()
    ]
    head = ["tau", "mu", "kernels", "objective", "difference to `working_set`", "to `spicymkl`"]
    return {"optima": markdown([*head, "outer iterations", "Newton steps", "status"], rows)}


def steps_table(runs: pd.DataFrame) -> dict[str, str]:
    """Return both step rules, the program's, and whether they can diverge."""
    names = {
        "safe": "safe: `lambda_max(sum_j K_j)/n`",
        "paper": "the paper: `max_j lambda_max(K_j)/n`",
        "gurls": "published program: half of that",
    }
    rows = [[names[r.rule], f"{r.sigma:.3g}", f"{r.stability:.2g}"] for r in runs.itertuples()]
    head = ["rule", "sigma, without mu", "`lambda_max(sum K_j) / (2 n sigma)`, must be below 1"]
    return {"steps": markdown(head, rows)}


def variants_table(runs: pd.DataFrame) -> dict[str, str]:
    """Return what each variant ends with."""
    rows = []
    for r in runs.itertuples():
        steps = f"{r.splitting_steps}" + (f", and {r.newton_steps} Newton steps" if r.newton_steps else "")
        rows.append(
            [str(r.variant), steps, f"{r.relative_gap:.0e}", f"{r.passes:.0f}", f"{r.status}", f"{r.cpu_s:.2g}"]
        )
    head = ["variant", "splitting steps", "relative gap", "passes over the kernels", "status", "CPU s"]
    return {"variants": markdown(head, rows)}


LEDGERS = {REPEATS: repeats_table, OPTIMA: optima_table, STEPS: steps_table, VARIANTS: variants_table}


def kept(output: Path, name: str, table: pd.DataFrame) -> None:
    """Write a table of runs anew."""
    (output / name).unlink(missing_ok=True)
    ledger = Ledger(output / name, KEYS[name], MEASURED[name])
    for row in table.to_dict("records"):
        ledger.add({str(column): value for column, value in row.items()})


def main() -> None:
    """Run everything and write it down."""
    arguments = command_line(
        __doc__, "pfbs", data="folder with concrete.npz; without it the set is fetched from OpenML"
    ).parse_args()
    sizes, output = QUICK if arguments.quick else FULL, arguments.output
    X, y = load(arguments.data)
    selections = Ledger(output / REPEATS, KEYS[REPEATS], MEASURED[REPEATS])
    run_repeats(selections, X, y, sizes)
    chosen = selections.find(repeat=0, selection="K-fold")[0]
    draw_path(X, y, sizes, float(chosen["mu"]), float(chosen["tau"]), output)
    train = np.random.default_rng(0).permutation(len(y))[: sizes.n_train]
    bank, target = sixty_kernels().fit(X[train]), y[train] - y[train].mean()
    kept(output, OPTIMA, compare_optima(bank, X[train], target))
    kept(output, STEPS, step_sizes(bank, X[train], target))
    variants = compare_variants(bank, X[train], target, quick=arguments.quick)
    plot_variants(variants, output / "variants.png")
    kept(output, VARIANTS, variants.groupby("variant", sort=False).last().reset_index())
    CONSOLE.print(report(LEDGERS, output, arguments.page), markup=False, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main()
