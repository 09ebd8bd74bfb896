"""How time grows with the number of kernels and with the number of samples, with fitted exponents and a picture.

``python benchmarks/scaling.py [--smoke] [--output DIR]``

Ringnorm with Gaussian kernels on random column subsets, packed float32, relative gap 1e-4, one thread. The constant
grows with the square root of N from C = 0.05 at N = 200: for kernels of unit trace this keeps the strength on the mean
loss the same.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import _common as common
import matplotlib as mpl
import numpy as np
import pandas as pd

from manykernels.datasets import make_ringnorm
from manykernels.grams.base import GramStack
from manykernels.grams.training import build_stack
from manykernels.objective.losses import get_loss
from manykernels.objective.problem import Problem
from manykernels.objective.regularizers import get_regularizer
from manykernels.solvers import configured_solver

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import LogLocator

LOSSES = ("logistic", "hinge", "squared")
N_FEATURES = 20
TOL = 1e-4
BASE_SAMPLES, BASE_CONSTANT = 200, 0.05
FIXED = {"kernels": BASE_SAMPLES, "samples": 20}  # samples in the sweep over kernels, kernels in that over samples
SLOW_SECONDS = 3.0
FORMATS = {"C": ".4f", "cpu_s": ".4f", "passes": ".2f", "gap": ".1e", "exponent": ".2f", "last exponent": ".2f"}


@dataclass(frozen=True)
class Row:
    """One fit of a sweep."""

    sweep: str
    n_kernels: int
    n_samples: int
    loss: str
    C: float
    cpu_s: float
    passes: float
    newton_steps: int
    active: int
    gap: float
    status: str

    @property
    def size(self) -> int:
        """What the sweep varies."""
        return self.n_kernels if self.sweep == "kernels" else self.n_samples


def draw(n_kernels: int, n_samples: int, seed: int) -> tuple[GramStack, np.ndarray]:
    """Return a packed float32 stack, built without a dense one, and the labels."""
    rng = np.random.default_rng(seed)
    X, y = make_ringnorm(n_samples, N_FEATURES, random_state=rng)
    bank, prepared = common.bank_of(common.random_gaussians(n_kernels, N_FEATURES, rng)).fit_prepare(X)
    return build_stack(bank, prepared, kind="packed", dtype=np.float32), y


def measure(sweep: str, stack: GramStack, y: np.ndarray, loss: str, repeats: int) -> Row:
    """Solve once to warm up, then against the clock unless it is slow."""
    constant = BASE_CONSTANT * np.sqrt(len(y) / BASE_SAMPLES)
    problem = Problem(stack, y, get_loss(loss), get_regularizer("l1", constant))
    solver = configured_solver("auto", problem, tol=TOL)
    with common.quiet():
        timing = common.cpu_time(partial(solver.solve, problem), 1)
        if timing.best < SLOW_SECONDS:
            timing = common.cpu_time(partial(solver.solve, problem), repeats)
    solution = timing.result
    return Row(
        sweep=sweep,
        n_kernels=stack.n_kernels,
        n_samples=stack.n_samples,
        loss=loss,
        C=constant,
        cpu_s=timing.best,
        passes=solution.passes,
        newton_steps=solution.newton_steps,
        active=len(solution.active),
        gap=solution.certificate.relative_gap,
        status=str(solution.status),
    )


def run(options: argparse.Namespace) -> pd.DataFrame:
    """Return both sweeps, one row a fit; the varied size is the column ``size``."""
    sizes = [("kernels", m, FIXED["kernels"]) for m in options.kernels]
    sizes += [("samples", FIXED["samples"], n) for n in options.samples]
    if options.smoke:
        sizes = [("kernels", m, 40) for m in options.kernels] + [("samples", 10, n) for n in options.samples]
    rows = []
    for sweep, m, n in sizes:
        stack, y = draw(m, n, options.seed)
        rows += [measure(sweep, stack, y, loss, options.repeats) for loss in LOSSES]
    return pd.DataFrame([asdict(row) | {"size": row.size} for row in rows])


def exponents(frame: pd.DataFrame) -> pd.DataFrame:
    """Fit ``log t = a + p log size`` by least squares to each sweep, and once to its two largest sizes alone."""
    rows = []
    for (sweep, loss), part in frame.groupby(["sweep", "loss"], sort=False):
        x, t = np.log(part["size"]), np.log(part["cpu_s"])
        slope, level = np.polyfit(x, t, 1)
        last = np.diff(t.iloc[-2:])[0] / np.diff(x.iloc[-2:])[0]
        rows.append({"sweep": sweep, "loss": loss, "exponent": slope, "last exponent": last, "level": level})
    return pd.DataFrame(rows)


def plot(frame: pd.DataFrame, fits: pd.DataFrame, path: Path) -> None:
    """Draw both sweeps on logarithmic axes with their fitted lines."""
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
    titles = {"kernels": "kernels M (N = {0})", "samples": "samples N (M = {0})"}
    for ax, (sweep, part) in zip(axes, frame.groupby("sweep", sort=False), strict=True):
        for number, fit in enumerate(fits[fits["sweep"] == sweep].itertuples()):
            own = part[part["loss"] == fit.loss]
            ax.loglog(own["size"], own["cpu_s"], "o", color=f"C{number}")
            line = np.exp(fit.level) * own["size"] ** fit.exponent
            ax.loglog(own["size"], line, "-", color=f"C{number}", label=f"{fit.loss}: exponent {fit.exponent:.2f}")
        fixed = part["n_samples" if sweep == "kernels" else "n_kernels"].iloc[0]
        ax.set(xlabel=titles[sweep].format(fixed), ylabel="CPU seconds")
        sizes = sorted(part["size"].unique())
        ax.set_xticks(sizes, labels=[str(size) for size in sizes])
        ax.minorticks_off()
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.yaxis.set_major_formatter("{x:g}")
        ax.grid(visible=True, alpha=0.25)
        ax.legend(frameon=False)
    figure.suptitle(f"Time to a relative duality gap of {TOL:g}, ringnorm, block 1-norm, one thread")
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main() -> int:
    """Measure, print, save, draw."""
    parser = common.parser("Time against the number of kernels and of samples.")
    parser.add_argument("--kernels", type=int, nargs="+", default=[50, 125, 300, 750, 2000, 6000], help="values of M")
    parser.add_argument("--samples", type=int, nargs="+", default=[200, 400, 800, 1500, 3000], help="values of N")
    parser.add_argument("--repeats", type=int, default=3, help="timed runs after the first; the best one counts")
    options = parser.parse_args()
    if options.smoke:
        options.kernels, options.samples, options.repeats = [10, 40], [20, 40], 1
    record = common.environment()
    common.print_environment(record)
    frame = run(options)
    common.print_table(frame.drop(columns="size"), f"to gap {TOL:g}", FORMATS)
    fits = exponents(frame)
    common.print_table(fits.drop(columns="level"), "time grows as size to the power of", FORMATS)
    common.save(frame, record | {"exponents": fits.to_dict("records")}, options.output, "scaling")
    plot(frame, fits, options.output / "scaling.png")
    common.CONSOLE.print(f"wrote scaling.png to {options.output}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
