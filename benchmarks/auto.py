"""Whether ``solver="auto"`` takes the fastest solver: CPU seconds of every fast one, over kinds of problems.

``python benchmarks/auto.py [--tol 1e-4] [--time-limit 5] [--smoke] [--output DIR]``

Ringnorm, Gaussian kernels of unit mean diagonal in memory. For each penalty and loss, fewer kernels than samples and
more; the table has the seconds of what "auto" takes and of its best rival. Solvers that wrap a machine or visit samples
one by one are left out: they are slower by orders of magnitude. The balls of weights have one solver.
"""

from __future__ import annotations

import argparse

import _common as common
import numpy as np
import pandas as pd

from manykernels.datasets import make_ringnorm
from manykernels.objective import BlockL1, BlockLq, ElasticNet, Problem, Regularizer, Simplex, get_loss
from manykernels.solvers import choose_solver, get_solver, solvers_for

RIVALS = ("working_set", "interior_point", "smooth_dual", "spicymkl", "block_coordinate")
LOSSES = ("hinge", "logistic", "squared", "squared_hinge", "epsilon_insensitive", "huber")
SIZES = ((500, 50), (150, 600))  # samples, kernels
SMOKE_SIZES = ((30, 6),)
ALPHAS = (1e-3, 1e-2)
N_FEATURES = 20


def penalties(strength: float) -> dict[str, Regularizer]:
    """Return the penalties, under the names of the table."""
    return {
        "l1": BlockL1(strength),
        "elastic net 0.5": ElasticNet(strength, 0.5),
        "elastic net 0.9": ElasticNet(strength, 0.9),
        "q-norm 1.33": BlockLq(strength, 4 / 3),
        "simplex": Simplex(strength),
    }


def seconds(problem: Problem, options: argparse.Namespace) -> dict[str, float]:
    """Return CPU seconds of every rival that accepts the problem; infinite if it misses the gap."""
    found = {}
    for name in [name for name in RIVALS if name in solvers_for(problem)]:
        solver = get_solver(name)(tol=options.tol, time_limit=options.time_limit, max_iter=10_000)
        with common.quiet():
            timing = common.cpu_time(lambda solver=solver: solver.solve(problem), options.repeats)
        found[name] = timing.best if timing.result.certificate.relative_gap <= options.tol else np.inf
    return found


def compare(kernels: np.ndarray, y: np.ndarray, options: argparse.Namespace) -> list[dict[str, object]]:
    """Return a row a problem: what "auto" takes, its seconds, the best other solver and its seconds."""
    rows = []
    for alpha in ALPHAS:
        for penalty, regularizer in penalties(alpha * len(y)).items():
            for loss in LOSSES:
                problem = Problem(kernels, y, get_loss(loss), regularizer)
                found = seconds(problem, options)
                auto = choose_solver(problem)[0].name
                rival = min((name for name in found if name != auto), key=found.__getitem__)
                ratio = found[rival] / found[auto]
                rows.append(
                    {"penalty": penalty, "loss": loss, "alpha": alpha, "N": len(y), "M": len(kernels), "auto": auto}
                    | {"s": found[auto], "best rival": rival, "rival s": found[rival], "rival / auto": ratio}
                )
    return rows


def summary(frame: pd.DataFrame) -> pd.DataFrame:
    """Return, for each penalty and side of M = N, how often "auto" was fastest, and by how much on average."""
    groups = frame.assign(side=np.where(frame["M"] <= frame["N"], "M <= N", "M > N")).groupby(["penalty", "side"])
    return groups["rival / auto"].agg(
        problems="size", fastest=lambda r: (r >= 1).sum(), mean=lambda r: np.exp(np.log(r).mean()), worst="min"
    )


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = common.parser('Is what "auto" takes the fastest solver?')
    parser.add_argument("--tol", type=float, default=1e-4, help="relative duality gap")
    parser.add_argument("--time-limit", type=float, default=5.0, help="wall-clock seconds a run may take")
    parser.add_argument("--repeats", type=int, default=2, help="runs, of which the best counts")
    options = parser.parse_args()
    options.sizes = SMOKE_SIZES if options.smoke else SIZES
    return options


def main() -> int:
    """Measure, print, save."""
    options = parse()
    record = common.environment()
    common.print_environment(record)
    rows: list[dict[str, object]] = []
    for n_samples, n_kernels in options.sizes:
        rng = np.random.default_rng(options.seed)
        X, y = make_ringnorm(n_samples, N_FEATURES, random_state=rng)
        kernels = common.dense_kernels(common.random_gaussians(n_kernels, N_FEATURES, rng), X) * n_samples
        rows += compare(kernels, y, options)
    frame = pd.DataFrame(rows)
    common.print_table(
        frame,
        f"CPU seconds to a relative gap of {options.tol:g}",
        {"s": ".3f", "rival s": ".3f", "rival / auto": ".2f"},
    )
    common.print_table(
        summary(frame).reset_index(), "How many times faster than its best rival", {"mean": ".2f", "worst": ".2f"}
    )
    common.save(frame, record, options.output, "auto")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
