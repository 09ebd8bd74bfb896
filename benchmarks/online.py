"""The online solvers beside batch ones: relative gap against passes over the kernels.

``python benchmarks/online.py [--samples 1000] [--kernels 50] [--smoke] [--output DIR]``

Ringnorm, Gaussian kernels of unit mean diagonal, hinge and logistic loss with an intercept. UFO-MKL has the elastic
net, beside the working set and SpicyMKL; OBSCURE the block q-norm with its paper's exponent, beside the interior point
and SpicyMKL. *subgradient* marks the steps as they were published. A pass is one reading of every Gram entry of every
kernel.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import _common as common
import numpy as np
import pandas as pd

from manykernels.datasets import make_ringnorm
from manykernels.objective import Problem, get_loss
from manykernels.objective.regularizers import BlockLq, ElasticNet, Regularizer
from manykernels.solvers import UFOMKL, Obscure, SolverComparison, compare_solvers

N_FEATURES = 20
ALPHA, L1_RATIO = 0.02, 0.5  # strength relative to the mean loss, share of the block 1-norm
GAPS = (1e-1, 1e-2, 1e-3)
SMOKE_SAMPLES, SMOKE_KERNELS, SMOKE_SECONDS = 60, 6, 2.0


def penalties(n_samples: int, n_kernels: int) -> dict[str, tuple[Regularizer, dict[str, object]]]:
    """Return each penalty with the solvers that run on it."""
    exponent = 2 * np.log(n_kernels) / (2 * np.log(n_kernels) - 1)
    ufo = {"ufo_mkl": "ufo_mkl", "ufo_mkl, subgradient": UFOMKL(step_rule="subgradient")}
    obscure = {"obscure": "obscure", "obscure, subgradient": Obscure(step_rule="subgradient")}
    strength = ALPHA * n_samples
    return {
        "elastic net": (ElasticNet(strength, L1_RATIO), ufo | {"working_set": "working_set", "spicymkl": "spicymkl"}),
        "q-norm": (BlockLq(strength, exponent), obscure | {"interior_point": "interior_point", "spicymkl": "spicymkl"}),
    }


def first_below(comparison: SolverComparison, loss: str, penalty: str) -> list[dict[str, object]]:
    """Return, for each solver, passes and seconds until its gap was first below each of the marks."""
    rows = []
    for solver, curve in comparison.frame().groupby("solver", sort=False):
        row: dict[str, object] = {"loss": loss, "penalty": penalty, "solver": solver}
        for gap in GAPS:
            reached = curve[curve["relative_gap"] <= gap]
            at = reached.iloc[0] if len(reached) else None
            row[f"passes {gap:.0e}"] = np.nan if at is None else float(at["passes"])
            row[f"s {gap:.0e}"] = np.nan if at is None else float(at["elapsed_s"])
        row["best"] = float(curve["relative_gap"].min())
        rows.append(row)
    return rows


def draw(curves: pd.DataFrame, path: Path) -> None:
    """Draw the gap against passes, a panel a problem."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    groups = list(curves.groupby(["loss", "penalty"], sort=False))
    figure, panels = plt.subplots(1, len(groups), figsize=(4 * len(groups), 3.2), sharey=True, squeeze=False)
    for ax, ((loss, penalty), part) in zip(panels[0], groups, strict=True):
        for solver, curve in part.groupby("solver", sort=False):
            ax.plot(curve["passes"], curve["relative_gap"].clip(lower=1e-6), marker=".", label=solver)
        ax.set(xscale="symlog", yscale="log", title=f"{loss}, {penalty}", xlabel="passes")
        ax.legend(frameon=False, fontsize=7)
    panels[0, 0].set_ylabel("relative gap")
    figure.tight_layout()
    figure.savefig(path, dpi=90)
    plt.close(figure)


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = common.parser("Online solvers: gap against passes.")
    parser.add_argument("--samples", type=int, default=1000, help="N")
    parser.add_argument("--kernels", type=int, default=50, help="M")
    parser.add_argument("--time-limit", type=float, default=30.0, help="wall-clock seconds a run may take")
    options = parser.parse_args()
    if options.smoke:
        options.samples, options.kernels, options.time_limit = SMOKE_SAMPLES, SMOKE_KERNELS, SMOKE_SECONDS
    return options


def main() -> int:
    """Measure, print, save."""
    options = parse()
    record = common.environment()
    common.print_environment(record)
    rng = np.random.default_rng(options.seed)
    X, y = make_ringnorm(options.samples, N_FEATURES, random_state=rng)
    kernels = common.dense_kernels(common.random_gaussians(options.kernels, N_FEATURES, rng), X) * options.samples
    rows, curves = [], []
    for loss in ("hinge", "logistic"):
        for penalty, (regularizer, solvers) in penalties(options.samples, options.kernels).items():
            small = Problem(kernels[:, :20, :20], y[:20], get_loss(loss), regularizer)
            compare_solvers(small, solvers, tol=GAPS[-1], time_limit=1.0)  # compile
            problem = Problem(kernels, y, get_loss(loss), regularizer)
            comparison = compare_solvers(problem, solvers, tol=GAPS[-1], time_limit=options.time_limit)
            rows += first_below(comparison, loss, penalty)
            curves.append(comparison.frame().assign(loss=loss, penalty=penalty))
    frame = pd.DataFrame(rows)
    formats = {column: ".1f" for column in frame if column.startswith("passes")} | {"best": ".1e"}
    formats |= {column: ".2f" for column in frame if column.startswith("s ")}
    title = f"N = {options.samples}, M = {options.kernels}: passes and seconds to a relative gap"
    common.print_table(frame, title, formats)
    common.save(frame, record, options.output, "online")
    pd.concat(curves).to_csv(options.output / "online_curves.csv", index=False)
    draw(pd.concat(curves), options.output / "online.png")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
