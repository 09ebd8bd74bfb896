"""Support vector machines inside the solvers that alternate with them: started by `smo_svm`, or by LIBSVM.

``python benchmarks/learners.py [--data DIR] [--linear] [--constants 0.1 1 10 100 1000] [--smoke] [--output DIR]``

Five solvers fit a learner at every iteration: an approximate answer, whose active set is then exchanged until it is
exact. The library gets that answer from sequential minimal optimization, started at the last learner. The alternative
measured here exchanges the active set of the last learner itself and takes LIBSVM's answer, from zero, for the first
learner and where that fails. Gaussian kernels of two widths on each column and on all of them, or linear ones; hinge
loss, weights on the simplex, ``C = 1 / strength``. CPU seconds of run and learners, one thread, the best of three.

``--data`` names a folder with ``ionosphere.npz`` and ``sonar.npz`` (arrays X and y); without it, ringnorm is drawn.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import _common as common
import numpy as np
import pandas as pd
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from manykernels import solve
from manykernels.datasets import make_ringnorm
from manykernels.objective.problem import Problem
from manykernels.solvers.learners import learners

SOLVERS = ("block_coordinate", "simplemkl", "silp", "levelmkl", "hessianmkl")
SETS = ("ionosphere", "sonar")
WIDTHS = (0.5, 2.0)  # times the square root of the number of columns
STARTS = ("libsvm", "smo")
LIBSVM_TOL, LIBSVM_SWEEPS = 1e-3, 50
FORMATS = {"C": "g", "libsvm_s": ".3f", "smo_s": ".3f", "ratio": ".2f"}
FORMATS |= {"libsvm_ms": ".2f", "smo_ms": ".2f"}


@dataclass
class Clock:
    """CPU seconds and number of learners, and how many needed the primal-dual iteration in the end."""

    seconds: float = 0.0
    fits: int = 0
    failures: int = 0
    status: str = ""
    total: float = 0.0


@dataclass(frozen=True)
class Row:
    """One solver at one constant: seconds of the run, learners, milliseconds each, how many were not exact at once."""

    data: str
    solver: str
    C: float
    status: str
    libsvm_s: float
    smo_s: float
    libsvm_n: int
    smo_n: int
    libsvm_ms: float
    smo_ms: float
    ratio: float
    libsvm_bad: int
    smo_bad: int


def load(name: str, options: argparse.Namespace) -> tuple[np.ndarray, np.ndarray]:
    """Return the kernels and the labels of a data set."""
    if options.data is None:
        X, y = make_ringnorm(options.samples, 20, random_state=options.seed)
    else:
        archive = np.load(options.data / f"{name}.npz")
        X, y = archive["X"].astype(float), np.where(archive["y"] == np.unique(archive["y"])[0], -1.0, 1.0)
    X = StandardScaler().fit_transform(X)
    views = [*X.T[:, :, None], X]
    if options.linear:
        return np.stack([Z @ Z.T / Z.shape[1] for Z in views]), y
    return np.stack([gaussian(Z, width) for Z in views for width in WIDTHS]), y


def gaussian(Z: np.ndarray, width: float) -> np.ndarray:
    """Return the Gaussian kernel of that width times the square root of the number of columns."""
    squares = (Z * Z).sum(axis=1)
    distances = np.maximum(squares[:, None] + squares - 2.0 * Z @ Z.T, 0.0)
    gram = np.exp(distances / (-2.0 * width**2 * Z.shape[1]))
    return (gram + gram.T) / 2.0


def libsvm_starts(problem: Problem, gram: np.ndarray, warm: Any) -> Iterator[tuple[np.ndarray, float]]:
    """Yield the coefficients of the last learner, then LIBSVM's."""
    if warm is not None:
        yield warm.rho, warm.b
    most = LIBSVM_SWEEPS * problem.n_samples
    fitted = SVC(kernel="precomputed", C=1.0, tol=LIBSVM_TOL, max_iter=most)
    with common.quiet():
        fitted.fit(gram, problem.y, sample_weight=problem.weight)
    rho = np.zeros(problem.n_samples)
    rho[fitted.support_] = fitted.dual_coef_[0]
    yield rho, float(fitted.intercept_[0])


def run(kernels: np.ndarray, y: np.ndarray, solver: str, constant: float, start: str) -> Clock:
    """Solve once, with a clock on the learners."""
    clock, exchange, descend = Clock(), learners._exchange, learners._descend

    def timed(*arguments: Any) -> Any:
        started = time.process_time()
        found = exchange(*arguments)
        clock.seconds += time.process_time() - started
        clock.fits += 1
        return found

    def counted(*arguments: Any) -> Any:
        clock.failures += 1
        return descend(*arguments)

    starts = libsvm_starts if start == "libsvm" else learners._starts
    changed = patch.multiple(learners, _exchange=timed, _descend=counted, _starts=starts)
    given = {"loss": "hinge", "penalty": "simplex", "alpha": 1.0 / (constant * len(y)), "solver": solver}
    started = time.process_time()
    with changed, common.quiet():
        clock.status = str(solve(kernels, y, **given, tol=1e-3, max_iter=100).status)
    clock.total = time.process_time() - started
    return clock


def measure(name: str, kernels: np.ndarray, y: np.ndarray, solver: str, constant: float, repeats: int) -> Row:
    """Take turns between both starts, so that a busy computer disturbs both; keep the best run of each."""
    best: dict[str, Clock] = {}
    for start in STARTS * repeats:
        found = run(kernels, y, solver, constant, start)
        if start not in best or found.seconds < best[start].seconds:
            best[start] = found
    libsvm, smo = (best[start] for start in STARTS)
    each = [max(clock.seconds, common.SHORTEST) / clock.fits * 1e3 for clock in (libsvm, smo)]
    counts = (libsvm.fits, smo.fits, *each, each[0] / each[1], libsvm.failures, smo.failures)
    return Row(name, solver, constant, smo.status, libsvm.total, smo.total, *counts)


def summary(frame: pd.DataFrame) -> pd.DataFrame:
    """Return, for each data set and solver, the sums over the constants and the range of the ratio."""
    rows = []
    for (data, solver), part in frame.groupby(["data", "solver"], sort=False):
        sums = {name: part[name].sum() for name in ("libsvm_s", "smo_s", "libsvm_bad", "smo_bad")}
        ratio = part["ratio"]
        shown = {"least": ratio.min(), "median": ratio.median(), "most": ratio.max()}
        rows.append({"data": data, "solver": solver, **sums, **shown})
    return pd.DataFrame(rows)


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = common.parser("Learners started by smo_svm or by LIBSVM, inside five solvers.")
    parser.add_argument("--data", type=Path, help="folder with ionosphere.npz and sonar.npz")
    parser.add_argument("--linear", action="store_true", help="linear kernels, whose sums are of low rank")
    parser.add_argument("--samples", type=int, default=200, help="samples of ringnorm, without --data")
    parser.add_argument("--constants", type=float, nargs="+", default=[0.1, 1.0, 10.0, 100.0, 1000.0], help="of C")
    parser.add_argument("--solvers", nargs="+", default=list(SOLVERS), choices=SOLVERS, help="solvers to run")
    parser.add_argument("--repeats", type=int, default=3, help="timed runs of each start; the best one counts")
    options = parser.parse_args()
    if options.smoke:
        options.data, options.samples, options.constants, options.repeats = None, 40, [1.0], 1
    return options


def main() -> int:
    """Measure, print, save."""
    options = parse()
    record = common.environment()
    common.print_environment(record)
    rows = []
    for name in SETS if options.data is not None else ("ringnorm",):
        kernels, y = load(name, options)
        run(kernels, y, "hessianmkl", 1.0, "smo")  # compile
        settings = itertools.product(options.solvers, options.constants)
        rows += [measure(name, kernels, y, solver, constant, options.repeats) for solver, constant in settings]
    frame = pd.DataFrame([asdict(row) for row in rows])
    common.print_table(frame, "CPU seconds of runs, milliseconds a learner", FORMATS)
    short = summary(frame)
    formats = {"libsvm_s": ".1f", "smo_s": ".1f", "least": ".2f", "median": ".2f", "most": ".2f"}
    common.print_table(short, "seconds at all C, and a learner's time with LIBSVM over that with smo_svm", formats)
    name = "learners_linear" if options.linear else "learners"
    common.save(frame, record | {"summary": short.to_dict("records")}, options.output, name)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
