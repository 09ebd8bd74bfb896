"""Support kernel machine: time against the number of kernels and of samples, beside interior-point solvers.

``python benchmarks/skm_scaling.py [--data DIR] [--gap 0.01] [--time-limit 30] [--smoke] [--output DIR]``

The experiment of Bach, Lanckriet and Jordan (2004), section 6: Gaussian kernels with unit diagonal on random subsets of
the columns and with varying widths; sets of kernels and of samples are nested, the first ones of one random order.
Ionosphere and Wisconsin breast cancer are read from ``DIR/ionosphere.npz`` and ``DIR/breast_cancer_wisconsin.npz``
(arrays ``X`` and ``y``); without a folder there is scikit-learn's breast cancer table alone. A run that exceeds the
time limit is a censored point: drawn hollow, and left out of the fit.

``skm`` is the solver with its defaults; ``skm, paper`` is the published algorithm alone, without Newton steps.
"""

from __future__ import annotations

import argparse
import itertools
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import _common as common
import matplotlib as mpl
import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer

from manykernels.grams.dense import DenseStack
from manykernels.objective import conversions
from manykernels.objective.problem import Problem
from manykernels.solvers import SOLVERS, get_solver

mpl.use("Agg")
import matplotlib.pyplot as plt

FILES = {"ionosphere": "ionosphere", "breast cancer": "breast_cancer_wisconsin"}
PROGRAMS: dict[str, tuple[str, dict[str, Any]]] = {
    "skm": ("skm", {}),
    "skm, paper": ("skm", {"newton": False, "max_iter": 10**6}),
    "conic": ("conic", {}),
    "interior point": ("interior_point", {}),
}
FIXED_KERNELS = 24  # in the sweep over samples
SLOW_SECONDS = 1.0  # a run this long is not repeated
FORMATS = {"cpu_s": ".4f", "gap": ".1e", "exponent": ".2f", "last exponent": ".2f"}


@dataclass(frozen=True)
class Row:
    """One fit of a sweep."""

    data: str
    sweep: str
    n_kernels: int
    n_samples: int
    program: str
    cpu_s: float
    iterations: int
    active: int
    gap: float
    status: str

    @property
    def size(self) -> int:
        """What the sweep varies."""
        return self.n_kernels if self.sweep == "kernels" else self.n_samples


def tables(folder: Path | None) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return standardized columns and labels of each data set."""
    if folder is None:
        found = {"breast cancer": load_breast_cancer(return_X_y=True)}
    else:
        found = {}
        for name, file in FILES.items():
            with np.load(folder / f"{file}.npz", allow_pickle=False) as arrays:
                found[name] = arrays["X"].astype(float), arrays["y"]
    return {name: (_standardized(X), np.where(y == np.max(y), 1.0, -1.0)) for name, (X, y) in found.items()}


def _standardized(X: np.ndarray) -> np.ndarray:
    spread = X.std(axis=0)
    return (X[:, spread > 0] - X[:, spread > 0].mean(axis=0)) / spread[spread > 0]


def draw(X: np.ndarray, y: np.ndarray, n_kernels: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the largest set of kernels on all samples in random order; every other problem is a corner of it."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))
    X, y = X[order], y[order]
    kernels = np.empty((n_kernels, len(y), len(y)))
    for m in range(n_kernels):
        columns = rng.choice(X.shape[1], rng.integers(1, X.shape[1] + 1), replace=False)
        width = np.sqrt(len(columns)) * 10 ** rng.uniform(-0.5, 0.5)
        kernels[m] = common.RandomGaussian(columns, width).gram(X) * len(y)
    return kernels, y


def measure(name: str, sweep: str, problem: Problem, program: str, options: argparse.Namespace) -> Row:
    """Solve once to warm up, then against the clock unless it is slow."""
    solver_name, parameters = PROGRAMS[program]
    solver = get_solver(solver_name).configured(tol=options.gap, time_limit=options.time_limit, **parameters)
    with common.quiet():
        timing = common.cpu_time(partial(solver.solve, problem), 1)
        if timing.best < SLOW_SECONDS:
            timing = common.cpu_time(partial(solver.solve, problem), options.repeats)
    solution = timing.result
    return Row(
        data=name,
        sweep=sweep,
        n_kernels=problem.n_kernels,
        n_samples=problem.n_samples,
        program=program,
        cpu_s=timing.best,
        iterations=solution.n_iter,
        active=len(solution.active),
        gap=solution.certificate.relative_gap,
        status=str(solution.status),
    )


def sweeps(n_samples: int, options: argparse.Namespace) -> list[tuple[str, int, int]]:
    """Return (sweep, kernels, samples) of every problem on a table of so many samples."""
    fixed = min(FIXED_KERNELS, max(options.kernels))
    whole = min(n_samples, max(options.samples))
    counts = sorted({min(n, whole) for n in options.samples})
    return [("kernels", m, whole) for m in options.kernels] + [("samples", fixed, n) for n in counts]


def run(options: argparse.Namespace) -> pd.DataFrame:
    """Return both sweeps on every data set, one row a fit; programs stop at their first censored point of a sweep."""
    programs = [program for program, (solver, _) in PROGRAMS.items() if solver in SOLVERS]
    rows: list[Row] = []
    for name, (X, y) in tables(options.data).items():
        kernels, labels = draw(X, y, max(*options.kernels, FIXED_KERNELS), options.seed)
        given_up: set[tuple[str, str]] = set()
        for (sweep, m, n), program in itertools.product(sweeps(len(y), options), programs):
            if (sweep, program) in given_up:
                continue
            stack = DenseStack(np.ascontiguousarray(kernels[:m, :n, :n]))
            posed = conversions.skm(options.constant, np.ones(m))
            rows.append(measure(name, sweep, posed.problem(stack, labels[:n]), program, options))
            if rows[-1].status != "converged":
                given_up.add((sweep, program))
    return pd.DataFrame([asdict(row) | {"size": row.size} for row in rows])


def exponents(frame: pd.DataFrame) -> pd.DataFrame:
    """Fit ``log t = a + p log size`` by least squares to the finished runs, and once to the two largest alone."""
    rows = []
    for (data, sweep, program), part in frame.groupby(["data", "sweep", "program"], sort=False):
        part = part[part["status"] == "converged"]
        if len(part) < 2:
            continue
        x, t = np.log(part["size"].to_numpy()), np.log(part["cpu_s"].to_numpy())
        slope, level = np.polyfit(x, t, 1)
        last = (t[-1] - t[-2]) / (x[-1] - x[-2])
        key = {"data": data, "sweep": sweep, "program": program, "points": len(part)}
        rows.append(key | {"exponent": slope, "last exponent": last, "level": level})
    return pd.DataFrame(rows)


def plot(frame: pd.DataFrame, fits: pd.DataFrame, options: argparse.Namespace) -> None:
    """Draw every sweep on logarithmic axes with the fitted lines; censored points are hollow."""
    names = list(frame["data"].unique())
    figure, axes = plt.subplots(len(names), 2, figsize=(10, 4.2 * len(names)), layout="constrained", squeeze=False)
    for (row, name), (column, sweep) in itertools.product(enumerate(names), enumerate(("kernels", "samples"))):
        ax = axes[row, column]
        part = frame[(frame["data"] == name) & (frame["sweep"] == sweep)]
        for number, program in enumerate(part["program"].unique()):
            _draw_program(ax, part[part["program"] == program], fits, program, f"C{number}")
        fixed = part["n_samples" if sweep == "kernels" else "n_kernels"].iloc[0]
        label = f"kernels M (N = {fixed})" if sweep == "kernels" else f"samples N (M = {fixed})"
        ax.set(title=name, xlabel=label, ylabel="CPU seconds", xscale="log", yscale="log")
        sizes = sorted(part["size"].unique())
        ax.set_xticks(sizes, labels=[str(size) for size in sizes])
        ax.minorticks_off()
        ax.grid(visible=True, alpha=0.25)
        ax.legend(frameon=False)
    figure.suptitle(f"Support kernel machine, relative gap {options.gap:g}, C = {options.constant:g}, one thread")
    figure.savefig(options.output / "skm_scaling.png", dpi=150)
    plt.close(figure)


def _draw_program(ax: Any, own: pd.DataFrame, fits: pd.DataFrame, program: str, color: str) -> None:
    done = own["status"] == "converged"
    ax.plot(own["size"][done], own["cpu_s"][done], "o", color=color)
    ax.plot(own["size"][~done], own["cpu_s"][~done], "o", color=color, fillstyle="none")
    first = own.iloc[0]
    fit = fits[(fits["data"] == first["data"]) & (fits["sweep"] == first["sweep"]) & (fits["program"] == program)]
    if fit.empty:
        ax.plot([], [], "o", color=color, label=f"{program}: no fit")
        return
    slope, level = fit["exponent"].iloc[0], fit["level"].iloc[0]
    ax.plot(own["size"], np.exp(level) * own["size"] ** slope, "-", color=color, label=f"{program}: {slope:.2f}")


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = common.parser("Support kernel machine: time against the number of kernels and of samples.")
    parser.add_argument("--data", type=Path, help="folder of ionosphere.npz and breast_cancer_wisconsin.npz")
    parser.add_argument("--kernels", type=int, nargs="+", default=[6, 12, 24, 48, 96, 192], help="values of M")
    parser.add_argument("--samples", type=int, nargs="+", default=[50, 100, 200, 400, 700], help="values of N")
    parser.add_argument("--constant", type=float, default=1.0, help="C of the support kernel machine")
    parser.add_argument("--gap", type=float, default=1e-2, help="relative duality gap")
    parser.add_argument("--time-limit", type=float, default=30.0, help="wall-clock seconds a run may take")
    parser.add_argument("--repeats", type=int, default=3, help="timed runs after the first; the best one counts")
    options = parser.parse_args()
    if options.smoke:
        options.kernels, options.samples, options.repeats, options.time_limit = [4, 8], [30, 60], 1, 2.0
    return options


def main() -> int:
    """Measure, print, save, draw."""
    options = parse()
    record = common.environment()
    common.print_environment(record)
    frame = run(options)
    common.print_table(frame.drop(columns="size"), f"to gap {options.gap:g}", FORMATS)
    fits = exponents(frame)
    common.print_table(fits.drop(columns="level"), "time grows as size to the power of", FORMATS)
    common.save(frame, record | {"exponents": fits.to_dict("records")}, options.output, "skm_scaling")
    plot(frame, fits, options)
    common.CONSOLE.print(f"wrote skm_scaling.png to {options.output}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
