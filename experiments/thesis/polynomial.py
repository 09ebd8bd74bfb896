"""Polynomial kernels, sections 6.1.2 and 6.1.3 of Afkanpour's thesis: convergence, and error and time against r.

    python experiments/thesis/polynomial.py --data DIR [--quick] [--output DIR]

``DIR`` holds ``ringnorm.npz``, ``waveform.npz``, ``ionosphere.npz`` and ``sonar.npz`` (arrays ``X`` and ``y``); without
it only the synthetic part is run. Writes ``convergence.csv``, ``synthetic.csv`` and a figure of each.
"""

from __future__ import annotations

import argparse
import itertools
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from _polynomial_convergence import DATA, DEGREE, load, race
from rich.console import Console
from rich.table import Table

from manykernels import MKLRegressor, NonlinearMKL, PolynomialMKL
from manykernels.kernels import Interaction, KernelBank, Linear, Polynomial

mpl.use("Agg")
import matplotlib.pyplot as plt

CONSOLE = Console()
LARGEST_LISTED = 25  # columns up to which the thesis runs LPMKL


@dataclass(frozen=True)
class Sizes:
    """How much is computed."""

    seconds: float
    columns: tuple[int, ...]
    n_train: int
    n_other: int
    alphas: tuple[float, ...]
    n_steps: int


FULL = Sizes(5.0, (5, 10, 20, 40, 70, 100), 500, 1000, tuple(10.0**k for k in (-8, -6, -4, -3, -2, 0)), 100)
QUICK = Sizes(0.3, (5, 8), 60, 100, (1e-4, 1e-2), 20)


def monomial_data(n_columns: int, n_samples: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return columns uniform on [-1, 1] and a sum of ten monomials of degree <= 3 in the first five, without noise."""
    terms = [term for d in range(DEGREE + 1) for term in itertools.combinations_with_replacement(range(5), d)]
    X = rng.uniform(-1.0, 1.0, (n_samples, n_columns))
    chosen = rng.choice(len(terms), 10, replace=False)
    return X, np.mean([np.prod(X[:, list(terms[i])], axis=1) for i in chosen], axis=0)


def every_product(n_columns: int) -> KernelBank:
    """Return all distinct products as a bank, which is what LPMKL is given."""
    entries: list[Any] = []
    for d in range(1, DEGREE + 1):
        for index in itertools.combinations_with_replacement(range(n_columns), d):
            columns = sorted(set(index))
            spec = Interaction(tuple((Linear(), (columns.index(j),)) for j in index))
            entries.append((spec.named([f"x{j}" for j in columns]), spec, columns))
    return KernelBank(entries, normalize=None)


def methods(n_columns: int, sizes: Sizes, seed: int) -> dict[str, Callable[[float], Any]]:
    """Return what makes the model of a strength, by the name of the method."""
    common = {"standardize": False, "random_state": seed, "n_steps": sizes.n_steps}
    uniform = KernelBank([(f"degree {d}", Polynomial(d, offset=0.0), None) for d in (1, 2, 3)], normalize=None)
    made: dict[str, Callable[[float], Any]] = {
        "SGD-1s": lambda alpha: PolynomialMKL(DEGREE, alpha=alpha, polish=False, **common),
        "SGD-1s, polished": lambda alpha: PolynomialMKL(DEGREE, alpha=alpha, **common),
        "p = 1.1, polished": lambda alpha: PolynomialMKL(DEGREE, p=1.1, alpha=alpha, **common),
        "NLMKL": lambda alpha: NonlinearMKL(degree=DEGREE, alpha=alpha, standardize=False),
        "UNIFORM": lambda alpha: MKLRegressor(uniform, penalty="ridge", alpha=alpha),
    }
    if n_columns <= LARGEST_LISTED:
        bank = every_product(n_columns)
        made["LPMKL"] = lambda alpha: MKLRegressor(bank, penalty="lp_ball", p=2.0, alpha=alpha, tol=1e-2, max_iter=30)
    return made


def compare(n_columns: int, sizes: Sizes, seed: int, given_up: set[str], limit: float) -> list[dict[str, Any]]:
    """Return the test error of every method at the strength chosen on validation samples, and its training time."""
    X, y = monomial_data(n_columns, sizes.n_train + 2 * sizes.n_other, np.random.default_rng(seed))
    train, check = slice(sizes.n_train), slice(sizes.n_train, sizes.n_train + sizes.n_other)
    test = slice(sizes.n_train + sizes.n_other, None)
    rows = []
    for name, make in methods(n_columns, sizes, seed).items():
        if name in given_up:
            continue
        fits = []
        for alpha in sizes.alphas:
            started = time.process_time()
            model = make(alpha).fit(X[train], y[train])
            spent = time.process_time() - started
            fits.append((float(np.mean((model.predict(X[check]) - y[check]) ** 2)), alpha, spent, model))
        _, alpha, seconds, model = min(fits, key=lambda fit: fit[0])
        if max(fit[2] for fit in fits) > limit:
            given_up.add(name)  # its next size would take longer still
        error = float(np.mean((model.predict(X[test]) - y[test]) ** 2))
        rows.append(
            {"r": n_columns, "method": name, "mse": error, "cpu_s": seconds, "alpha": alpha, "gap": model.dual_gap_}
        )
    return rows


def plot_synthetic(frame: pd.DataFrame, path: Path) -> None:
    """Draw error and time against r."""
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for name, own in frame.groupby("method", sort=False):
        for ax, column in zip(axes, ("mse", "cpu_s"), strict=True):
            ax.plot(own["r"], own[column], "o-", markersize=4, label=name)
    axes[0].set(xlabel="r", ylabel="test mean squared error", yscale="log")
    axes[1].set(xlabel="r", ylabel="CPU seconds of one fit", yscale="log")
    axes[0].legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=90)
    plt.close(figure)


def plot_convergence(frame: pd.DataFrame, path: Path) -> None:
    """Draw the objective against time on every data set."""
    names = list(frame["data"].unique())
    figure, axes = plt.subplots(1, len(names), figsize=(3.2 * len(names), 3.2), layout="constrained", squeeze=False)
    for ax, name in zip(axes[0], names, strict=True):
        for method, own in frame[frame["data"] == name].groupby("method", sort=False):
            ax.plot(own["seconds"], own["objective"], label=method)
        ax.set(title=name, xlabel="CPU seconds", xscale="log", yscale="log")
    axes[0, 0].set_ylabel("objective")
    axes[0, 0].legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=90)
    plt.close(figure)


def show(frame: pd.DataFrame, title: str) -> None:
    """Print a table."""
    table = Table(title=title, title_justify="left")
    for column in frame:
        table.add_column(str(column))
    for row in frame.itertuples(index=False):
        table.add_row(*(f"{value:.3g}" if isinstance(value, float) else str(value) for value in row))
    CONSOLE.print(table)


def summary(frame: pd.DataFrame, seconds: float) -> pd.DataFrame:
    """Return the objective of every method at a tenth of the time and at the end."""
    rows = []
    for (data, method), own in frame.groupby(["data", "method"], sort=False):
        early = own[own["seconds"] <= seconds / 10]["objective"]
        row = {"data": data, "method": method, "steps": int(own["steps"].iloc[-1])}
        rows.append(row | {"early": early.min() if len(early) else np.nan, "end": own["objective"].min()})
    return pd.DataFrame(rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run both parts, print, save and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of the data sets of section 6.1.2")
    parser.add_argument("--output", type=Path, default=Path("experiments/results/thesis_polynomial"))
    parser.add_argument("--quick", action="store_true", help="small sizes, in seconds")
    parser.add_argument("--limit", type=float, default=60.0, help="CPU seconds of a fit after which a method stops")
    parser.add_argument("--columns", type=int, nargs="*", help="values of r of the synthetic part; none leaves it out")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    sizes = QUICK if options.quick else FULL
    options.output.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    if options.data is not None:
        parts = [
            race(*load(options.data, name, size), sizes.seconds, options.seed).assign(data=name)
            for name, size in DATA.items()
            if (options.data / f"{name}.npz").exists()
        ]
        convergence = pd.concat(parts, ignore_index=True)
        convergence.to_csv(options.output / "convergence.csv", index=False)
        show(
            summary(convergence, sizes.seconds),
            f"6.1.2: objective after {sizes.seconds / 10:g} and {sizes.seconds:g} CPU s",
        )
        plot_convergence(convergence, options.output / "convergence.png")
    synthetic, given_up = pd.DataFrame(), set[str]()
    rows: list[dict[str, Any]] = []
    for r in sizes.columns if options.columns is None else options.columns:
        rows += compare(r, sizes, options.seed, given_up, options.limit)
        synthetic = pd.DataFrame(rows)
        synthetic.to_csv(options.output / "synthetic.csv", index=False)
    if rows:
        show(synthetic, "6.1.3: test error and time against r")
        plot_synthetic(synthetic, options.output / "synthetic.png")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
