"""Time to a certified gap on the ringnorm problem, in CPU seconds and in passes of a dense float64 BLAS product.

``python benchmarks/solvers.py [--kernels 50 500 1000 3000 6000] [--solvers auto] [--check] [--smoke] [--output DIR]``
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import _common as common
import numpy as np
import pandas as pd

from manykernels.datasets import make_ringnorm
from manykernels.grams.base import GramStack
from manykernels.grams.dense import DenseStack
from manykernels.grams.packed import PackedStack
from manykernels.objective.losses import get_loss
from manykernels.objective.problem import Problem
from manykernels.objective.regularizers import get_regularizer
from manykernels.solvers import SOLVERS, Solution, configured_solver
from manykernels.testing.problems import SmallProblem
from manykernels.testing.solver import certificate_in_numpy

LOSSES = ("logistic", "hinge", "squared")
PENALTIES = ("l1", "elasticnet")
CONSTANTS = (0.05, 0.5)
GAPS = (1e-2, 1e-4, 1e-6)
L1_RATIO = 0.5
N_FEATURES = 20
TARGET_GAP = 1e-4  # of the bars
SLOW_SECONDS = 5.0  # a run this long is not repeated

LARGE, SMALL, SMOOTH_OR_HINGE = {"n_kernels": 6000}, {"n_kernels": 50}, {"loss": ("logistic", "hinge")}
BARS = (
    ("logistic, packed float32: dense passes' time", LARGE | {"loss": "logistic", "storage": "packed32"}, 4.0),
    ("logistic, dense float64: dense passes' time", LARGE | {"loss": "logistic", "storage": "dense64"}, 5.0),
    ("hinge, packed float32: dense passes' time", LARGE | {"loss": "hinge", "storage": "packed32"}, 8.0),
    ("hinge, dense float64: dense passes' time", LARGE | {"loss": "hinge", "storage": "dense64"}, 8.0),
    ("logistic and hinge: passes read", LARGE | SMOOTH_OR_HINGE, 6.0),
    ("squared: passes read", LARGE | {"loss": "squared"}, 6.0),
    ("logistic and hinge: CPU seconds", SMALL | SMOOTH_OR_HINGE, 0.05),
    ("squared: CPU seconds", SMALL | {"loss": "squared"}, 0.05),
)

SHOWN = ["loss", "penalty", "C", "storage", "solver", "tol", "cpu_s", "dense_passes", "passes", "newton_steps"]
SHOWN += ["active", "gap", "numpy_gap", "status"]
FORMATS = {
    "C": "g",
    "tol": ".0e",
    "cpu_s": ".4f",
    "dense_passes": ".2f",
    "passes": ".2f",
    "gap": ".1e",
    "numpy_gap": ".1e",
}


@dataclass(frozen=True)
class Row:
    """One solver on one problem to one gap."""

    n_kernels: int
    loss: str
    penalty: str
    C: float
    storage: str
    solver: str
    tol: float
    cpu_s: float
    cpu_median_s: float
    passes: float
    newton_steps: int
    n_iter: int
    active: int
    primal: float
    gap: float
    numpy_gap: float
    status: str


@dataclass(frozen=True)
class Ringnorm:
    """The data of one number of kernels in each storage."""

    kernels: np.ndarray
    y: np.ndarray
    stacks: dict[str, GramStack]

    @classmethod
    def draw(cls, n_samples: int, n_kernels: int, seed: int) -> Ringnorm:
        rng = np.random.default_rng(seed)
        X, y = make_ringnorm(n_samples, N_FEATURES, random_state=rng)
        kernels = common.dense_kernels(common.random_gaussians(n_kernels, N_FEATURES, rng), X)
        packed = PackedStack.from_dense(kernels, dtype=np.float32)
        return cls(kernels, y, {"dense64": DenseStack(kernels), "packed32": packed})

    def pass_seconds(self) -> float:
        return common.dense_pass_seconds(self.kernels, self.y / len(self.y))

    def problem(self, storage: str, loss: str, penalty: str, constant: float) -> Problem:
        options = {"l1_ratio": L1_RATIO} if penalty == "elasticnet" else {}
        return Problem(self.stacks[storage], self.y, get_loss(loss), get_regularizer(penalty, constant, **options))

    def numpy_gap(self, problem: Problem, solution: Solution) -> float:
        """Relative gap of the returned model on the float64 kernels, by the test oracle, which shares no code."""
        regularizer = problem.regularizer
        options = {"l1_ratio": L1_RATIO} if regularizer.name == "elasticnet" else {}
        plain = SmallProblem(
            self.kernels,
            self.y,
            problem.loss.name,
            regularizer.name,
            regularizer.strength,
            regularizer_params=options,
        )
        model = solution.dual_coef, solution.kernel_weights, solution.intercept
        return certificate_in_numpy(plain, *model).relative_gap


def measure(data: Ringnorm, problem: Problem, solver: str, tol: float, repeats: int, limit: float) -> dict[str, Any]:
    """Solve once to warm up and then against the clock; return the measured fields of a row."""
    with common.quiet():
        chosen = configured_solver(solver, problem, tol=tol, time_limit=limit)
        timing = common.cpu_time(lambda: chosen.solve(problem), 1)
        if timing.best < SLOW_SECONDS:
            timing = common.cpu_time(lambda: chosen.solve(problem), repeats)
    solution = timing.result
    return {
        "solver": solution.solver,
        "tol": tol,
        "cpu_s": timing.best,
        "cpu_median_s": timing.median,
        "passes": solution.passes,
        "newton_steps": solution.newton_steps,
        "n_iter": solution.n_iter,
        "active": len(solution.active),
        "primal": solution.certificate.primal,
        "gap": solution.certificate.relative_gap,
        "numpy_gap": data.numpy_gap(problem, solution),
        "status": "handed_on" if "went on" in solution.message else str(solution.status),
    }


def groups(options: argparse.Namespace) -> Iterator[tuple[str, str, float]]:
    """Yield every (loss, penalty, C)."""
    return itertools.product(options.losses, options.penalties, options.constants)


def run_size(n_kernels: int, options: argparse.Namespace) -> pd.DataFrame:
    """Measure everything at one number of kernels, and the dense pass before each group and at the end."""
    data = Ringnorm.draw(options.samples, n_kernels, options.seed)
    rows, seconds = [], []
    for loss, penalty, constant in groups(options):
        seconds.append(data.pass_seconds())
        for storage, solver in itertools.product(data.stacks, options.solvers):
            problem = data.problem(storage, loss, penalty, constant)
            if solver != "auto" and SOLVERS[solver].refusals(problem):
                common.CONSOLE.print(f"{solver} skipped: {SOLVERS[solver].refusals(problem)[0]}")
                continue
            for tol in options.gaps:
                found = measure(data, problem, solver, tol, options.repeats, options.time_limit)
                rows.append(Row(n_kernels, loss, penalty, constant, storage, **found))
    seconds.append(data.pass_seconds())
    return _with_passes(pd.DataFrame([asdict(row) for row in rows]), seconds)


def _with_passes(frame: pd.DataFrame, seconds: list[float]) -> pd.DataFrame:
    """Insert the time of a dense pass (median, and how far it drifted) and the CPU time in such passes."""
    unit = float(np.median(seconds))
    frame.insert(frame.columns.get_loc("passes"), "dense_passes", frame["cpu_s"] / unit)
    return frame.assign(pass_s=unit, pass_first_s=seconds[0], pass_last_s=seconds[-1], pass_max_s=max(seconds))


def report_size(frame: pd.DataFrame) -> None:
    """Print the table of one number of kernels."""
    unit, first, last, worst = (1e3 * frame[f"pass{name}_s"].iloc[0] for name in ("", "_first", "_last", "_max"))
    title = f"M = {frame['n_kernels'].iloc[0]}: one dense pass {unit:.2f} ms "
    title += f"(first {first:.2f}, last {last:.2f}, worst {worst:.2f}: drift of the machine)"
    shown = [column for column in SHOWN if column != "solver" or frame["solver"].nunique() > 1]
    common.print_table(frame[shown], title, FORMATS)


def check(frame: pd.DataFrame) -> pd.DataFrame:
    """Return every bar beside the worst measured figure, for each penalty and C."""
    rows = []
    own = frame[frame["tol"] == TARGET_GAP]
    for (label, where, limit), penalty, constant in itertools.product(BARS, PENALTIES, CONSTANTS):
        chosen = own[(own["penalty"] == penalty) & (own["C"] == constant)]
        for column, value in where.items():
            chosen = chosen[chosen[column].isin(value if isinstance(value, tuple) else (value,))]
        if len(chosen):
            column = "cpu_s" if "CPU" in label else "passes" if "read" in label else "dense_passes"
            name = f"M = {where['n_kernels']}, {penalty}, C = {constant:g}, {label}"
            done = bool((chosen["status"] == "converged").all())
            rows.append((name, float(chosen[column].max()) if done else np.inf, limit))
    return common.verdicts(rows)


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = common.parser("Time to a certified gap on ringnorm.")
    parser.add_argument("--kernels", type=int, nargs="+", default=[50, 500, 1000, 3000, 6000], help="values of M")
    parser.add_argument("--samples", type=int, default=200, help="number of samples")
    parser.add_argument("--solvers", nargs="+", default=["auto"], choices=["auto", *SOLVERS], help="solvers to measure")
    parser.add_argument("--losses", nargs="+", default=list(LOSSES), choices=LOSSES)
    parser.add_argument("--penalties", nargs="+", default=list(PENALTIES), choices=PENALTIES)
    parser.add_argument("--constants", type=float, nargs="+", default=list(CONSTANTS), help="values of C")
    parser.add_argument("--gaps", type=float, nargs="+", default=list(GAPS), help="relative duality gaps")
    parser.add_argument("--repeats", type=int, default=3, help="timed runs after the first; the best one counts")
    parser.add_argument("--time-limit", type=float, default=60.0, help="wall-clock seconds a run may take")
    parser.add_argument("--check", action="store_true", help="compare with the bars; exit with 1 if one is missed")
    options = parser.parse_args()
    if options.smoke:
        options.kernels, options.samples, options.repeats, options.gaps = [30], 40, 1, [1e-2, 1e-4]
    return options


def main() -> int:
    """Measure, print, save; return the exit code."""
    options = parse()
    record = common.environment()
    common.print_environment(record)
    frames = []
    for n_kernels in options.kernels:
        frames.append(run_size(n_kernels, options))
        report_size(frames[-1])
    frame = pd.concat(frames, ignore_index=True)
    common.save(frame, record, options.output, "solvers")
    if not options.check:
        return 0
    bars = check(frame)
    common.print_table(bars, f"bars at gap {TARGET_GAP:g}, worst case of each", {"measured": ".3f", "at most": "g"})
    return int((bars["verdict"] != "pass").any())


if __name__ == "__main__":
    raise SystemExit(main())
