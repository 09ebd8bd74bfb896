"""Whether ``solver="auto"`` ends at the gap, and takes the fastest solver: CPU seconds of every fast one.

``python benchmarks/auto.py [--shape I] [--alone] [--tol 1e-4] [--smoke] [--output DIR]``

Ringnorm, Gaussian kernels of unit mean diagonal in memory, and standardized columns with a linear kernel each.
For each penalty and loss, fewer kernels than samples and more; the table has the seconds of "auto", with its fallback
if it needs one, and of its best rival. A rival is stopped when it took three times as long, and 0.2 s.
Solvers that wrap a machine or visit samples one by one are left out: they are much slower. Exits with 1 if "auto" ends
in any other way than converged. ``--shape`` takes one of the sets of kernels, numbered from 0, ``--alone`` no rivals.
"""

from __future__ import annotations

import argparse

import _common as common
import numpy as np
import pandas as pd

from manykernels.datasets import make_ringnorm
from manykernels.objective import (
    BlockL1,
    BlockLq,
    ElasticNet,
    ElasticNetBall,
    LpBall,
    Problem,
    Regularizer,
    Ridge,
    Simplex,
    get_loss,
)
from manykernels.solvers import Solution, choose_solver, get_solver, solvers_for

RIVALS = ("working_set", "interior_point", "smooth_dual", "spicymkl", "block_coordinate")
LOSSES = ("hinge", "logistic", "squared", "squared_hinge", "epsilon_insensitive", "huber")
# Samples, kernels. The last two took many minutes.
SHAPES = (
    (200, 20, "gaussian"),
    (80, 160, "gaussian"),
    (100, 250, "columns"),
    (234, 604, "columns"),
    (500, 50, "gaussian"),
    (150, 600, "gaussian"),
)
SMOKE_SHAPES = ((30, 6, "gaussian"), (10, 12, "columns"))
ALPHAS = (1e-3, 1e-2)
N_FEATURES = 20
CUT = 3.0  # a rival that takes so many times as long as "auto" is stopped
SHORT = 0.2  # seconds that are too few to judge by one run


def penalties(strength: float) -> dict[str, Regularizer]:
    """Return the penalties, under the names of the table."""
    return {
        "l1": BlockL1(strength),
        "elastic net 0.5": ElasticNet(strength, 0.5),
        "elastic net 0.9": ElasticNet(strength, 0.9),
        "q-norm 1.33": BlockLq(strength, 4 / 3),
        "ridge": Ridge(strength),
        "simplex": Simplex(strength),
        "lp ball 1.5": LpBall(strength, 1.5),
        "elastic-net ball 0.5": ElasticNetBall(strength, 0.5),
    }


def measured(problem: Problem, name: str, tol: float, limit: float | None, *, once: bool) -> tuple[float, Solution]:
    """Return CPU seconds of a solver, the better of two runs if they are short and count, and what it returned."""
    solver = get_solver(name)(tol=tol, time_limit=limit, max_iter=10_000 if limit else 200)
    with common.quiet():
        timing = common.cpu_time(lambda: solver.solve(problem), 1)
        if timing.best < SHORT and not once:
            timing = common.cpu_time(lambda: solver.solve(problem), 1 + (timing.best < SHORT / 10))
    return timing.best, timing.result


def rivals(problem: Problem, auto: str, taken: float, tol: float) -> dict[str, float]:
    """Return CPU seconds of every other solver that accepts the problem; infinite if it was stopped."""
    limit, found = max(SHORT, CUT * taken), {}
    for name in [name for name in RIVALS if name in solvers_for(problem) and name != auto]:
        spent, solution = measured(problem, name, tol, limit, once=False)
        found[name] = spent if solution.certificate.relative_gap <= tol else np.inf
    return found


def drawn(n_samples: int, n_kernels: int, kind: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return kernels of unit mean diagonal and labels."""
    rng = np.random.default_rng(seed)
    if kind == "columns":
        columns = rng.standard_normal((n_kernels, n_samples))
        columns /= np.sqrt((columns**2).mean(axis=1, keepdims=True))
        return columns[:, :, None] * columns[:, None], np.sign(columns[:5].sum(axis=0) + rng.standard_normal(n_samples))
    X, y = make_ringnorm(n_samples, N_FEATURES, random_state=rng)
    return common.dense_kernels(common.random_gaussians(n_kernels, N_FEATURES, rng), X) * n_samples, y


def compare(shape: str, kernels: np.ndarray, y: np.ndarray, options: argparse.Namespace) -> list[dict[str, object]]:
    """Return a row a problem: what "auto" takes, how it ended, its seconds, the best other solver and its seconds."""
    rows = []
    for alpha in options.alphas:
        for penalty, regularizer in penalties(alpha * len(y)).items():
            for loss in options.losses:
                problem = Problem(kernels, y, get_loss(loss), regularizer)
                auto = choose_solver(problem)[0].name
                spent, solution = measured(problem, auto, options.tol, None, once=options.alone)
                gap = problem.certificate(solution.dual_coef, solution.kernel_weights, solution.intercept).relative_gap
                found = {"none": np.nan} if options.alone else rivals(problem, auto, spent, options.tol)
                rival = min(found, key=found.__getitem__)
                rows.append(
                    {"penalty": penalty, "loss": loss, "alpha": alpha, "shape": shape, "auto": auto}
                    | {"ended": str(solution.status), "gap": gap, "s": spent, "best rival": rival}
                    | {"rival s": found[rival], "rival / auto": min(found[rival] / spent, CUT)}
                )
    return rows


def summary(frame: pd.DataFrame) -> pd.DataFrame:
    """Return, for each penalty and shape, how often "auto" was fastest, and by how much on average."""
    return frame.groupby(["penalty", "shape"])["rival / auto"].agg(
        problems="size", fastest=lambda r: (r >= 1).sum(), mean=lambda r: np.exp(np.log(r).mean()), worst="min"
    )


def endings(frame: pd.DataFrame) -> pd.DataFrame:
    """Return how many problems "auto" ended in which way, by the solver that it takes."""
    return frame.groupby(["auto", "ended"]).agg(problems=("gap", "size"), worst_gap=("gap", "max")).reset_index()


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = common.parser('Is what "auto" takes the fastest solver?')
    parser.add_argument("--tol", type=float, default=1e-4, help="relative duality gap")
    parser.add_argument("--shape", type=int, choices=range(len(SHAPES)), help="only this one of the sets of kernels")
    parser.add_argument("--alone", action="store_true", help="no rivals: only how auto ends")
    options = parser.parse_args()
    options.shapes = SMOKE_SHAPES if options.smoke else SHAPES if options.shape is None else SHAPES[options.shape :][:1]
    options.alphas, options.losses = (ALPHAS[-1:], LOSSES[:2]) if options.smoke else (ALPHAS, LOSSES)
    return options


def main() -> int:
    """Measure, print, save."""
    options = parse()
    record = common.environment()
    common.print_environment(record)
    if not options.alone:  # loops are compiled before the clock starts
        compare("small", *drawn(*SMOKE_SHAPES[0], options.seed), options)
    rows: list[dict[str, object]] = []
    for n_samples, n_kernels, kind in options.shapes:
        kernels, y = drawn(n_samples, n_kernels, kind, options.seed)
        rows += compare(f"{n_kernels} {kind}, {n_samples} rows", kernels, y, options)
    frame = pd.DataFrame(rows)
    common.print_table(
        frame,
        f"CPU seconds to a relative gap of {options.tol:g}",
        {"gap": ".0e", "s": ".3f", "rival s": ".3f", "rival / auto": ".2f"},
    )
    common.print_table(
        summary(frame).reset_index(), "How many times faster than its best rival", {"mean": ".2f", "worst": ".2f"}
    )
    common.print_table(endings(frame), "How auto ended", {"worst_gap": ".1e"})
    common.save(frame, record, options.output, "auto" if options.shape is None else f"auto_{options.shape}")
    return int(((frame["ended"] != "converged") | (frame["gap"] > options.tol)).any())


if __name__ == "__main__":
    raise SystemExit(main())
