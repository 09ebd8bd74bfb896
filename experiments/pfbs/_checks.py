"""Cross-checks of PFBS: the same optimum as other solvers, both step-size rules, and what acceleration is worth."""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import pyplot

sys.path.insert(0, str(Path(__file__).parents[2]))  # the problems of the papers are those of all experiments

from experiments.ledger import cpu_seconds

from manykernels.exceptions import ConvergenceWarning
from manykernels.grams import build_stack
from manykernels.papers.problems import pfbs
from manykernels.solvers import ForwardBackward, get_solver

OTHERS = ("working_set", "spicymkl")
TOL = 1e-8
PAIRS = ((0.3, 1e-2), (0.03, 1e-3), (0.003, 1e-4))  # (tau over the largest useful tau, mu)
VARIANTS: dict[str, dict[str, Any]] = {
    "paper's step, safe once it diverges": {"step_rule": "heuristic", "accelerate": False, "polish": False},
    "safe step": {"step_rule": "safe", "accelerate": False, "polish": False},
    "safe step, momentum": {"step_rule": "safe", "polish": False},
    "scaled step, momentum": {"step_rule": "scaled", "polish": False},
    "scaled step, momentum, Newton on the support": {},
}


def posed(bank: Any, X: np.ndarray, y: np.ndarray, share: float, mu: float) -> tuple[Any, float]:
    """Return the problem of the paper at ``tau = share * tau_max`` and ``mu``, and ``tau``."""
    stack = build_stack(bank, X, kind="dense")
    tau = share * float(np.sqrt(stack.quad(y)).max()) / len(y)
    return pfbs(tau, mu, len(y)).problem(stack, y), tau


def compare_optima(bank: Any, X: np.ndarray, y: np.ndarray) -> pd.DataFrame:
    """Return objectives of PFBS and other solvers at three pairs, as the paper writes them, and their differences."""
    rows = []
    for share, mu in PAIRS:
        problem, tau = posed(bank, X, y, share, mu)
        factor = pfbs(tau, mu, len(y)).factor
        with cpu_seconds() as spent:
            found = {name: get_solver(name).configured(tol=TOL).solve(problem) for name in ("pfbs", *OTHERS)}
        values = {name: factor * solution.certificate.primal for name, solution in found.items()}
        rows.append(
            {"tau": tau, "mu": mu, "repeat": 0, "n_active": found["pfbs"].active.size}
            | values
            | {f"difference_{name}": abs(values[name] / values["pfbs"] - 1) for name in OTHERS}
            | {"newton_steps": found["pfbs"].newton_steps, "n_iter": found["pfbs"].n_iter}
            | {"status": str(found["pfbs"].status), "gap": found["pfbs"].certificate.relative_gap}
            | spent
        )
    return pd.DataFrame(rows)


def step_sizes(bank: Any, X: np.ndarray, y: np.ndarray) -> pd.DataFrame:
    """Return the step rules, as the paper's sigma without mu, and whether each can diverge.

    Plain steps converge while ``lambda_max(sum_j K_j) / (2 n sigma) < 1``.
    """
    problem, _ = posed(bank, X, y, 0.5, 1.0)
    with cpu_seconds() as spent:
        safe, heuristic = (float(ForwardBackward(step_rule=rule).sigma(problem)[0]) for rule in ("safe", "heuristic"))
    rules = {"safe": safe, "paper": heuristic, "gurls": heuristic / 2}
    rows = [
        {
            "rule": rule,
            "repeat": 0,
            "n_kernels": problem.n_kernels,
            "sigma": sigma / len(X),
            "stability": safe / 2 / sigma,
        }
        for rule, sigma in rules.items()
    ]
    return pd.DataFrame(rows).assign(**spent)


def compare_variants(bank: Any, X: np.ndarray, y: np.ndarray, *, quick: bool) -> pd.DataFrame:
    """Return the certified gap of each variant against splitting steps and seconds, at the middle pair."""
    problem, _ = posed(bank, X, y, *PAIRS[1])
    frames = []
    for name, given in VARIANTS.items():
        solver = ForwardBackward(tol=TOL, max_iter=10 if quick else 100, **given)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            started = time.process_time()
            solution = solver.solve(problem)
            spent = time.process_time() - started
        frame = solution.frame()[["iteration", "elapsed_s", "passes", "newton_steps", "relative_gap"]]
        frame = frame.assign(variant=name, splitting_steps=frame["iteration"] * solver.round_steps, repeat=0)
        frames.append(frame.assign(cpu_s=spent, status=str(solution.status)))
    return pd.concat(frames, ignore_index=True)


def plot_variants(table: pd.DataFrame, path: Path) -> None:
    """Draw the gaps against passes over the kernels."""
    figure, ax = pyplot.subplots(figsize=(7.5, 4.2), layout="constrained")
    for name, rows in table.groupby("variant", sort=False):
        # The best model so far is what a solver returns.
        ax.plot(rows["passes"].clip(lower=1), rows["relative_gap"].cummin().clip(lower=1e-12), label=str(name))
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("passes over the kernels")
    ax.set_ylabel("relative duality gap")
    ax.grid(color="#e3e6ea", linewidth=0.8)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize="small")
    figure.savefig(path, dpi=90)
    pyplot.close(figure)
