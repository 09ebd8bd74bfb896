"""The continuation along kappa as published: the test of optimality, the gap and the kernels at every stage."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import pyplot

sys.path.insert(0, str(Path(__file__).parents[2]))  # the problems of the papers are those of all experiments

from experiments.ledger import cpu_seconds

from manykernels.objective import Problem
from manykernels.papers import problems as paper_problems
from manykernels.papers.solvers.skm_descent import epsilon_optimality
from manykernels.solvers import get_solver

Model = tuple[np.ndarray, np.ndarray, float]

AS_PUBLISHED, RESCALED = "as published", "C (1 - kappa)^2"
EPS1_SHARE, EPS2 = 5e-4, 1e-4  # of the paper's test: eps1 / n and eps2


def follow(
    kernels: np.ndarray, y: np.ndarray, constant: float, *, rescale: bool, tol: float, seconds: float
) -> pd.DataFrame:
    """Solve at kappa = 1, 1/2, 1/4, ... by pairs alone, until the paper's test passes or time is out.

    ``rescale=False`` is the paper to the letter; True solves each stage at the constant ``C (1 - kappa)^2``. ``tol``
    sets how closely each stage is solved. ``eps1_over_n`` and ``eps2`` are those of the model after a stage, ``gap`` is
    its relative duality gap, ``bound`` what both epsilons allow the gap to be.
    """
    problem, rows = posed(kernels, y, constant), []
    for kappa, model, spent in stages(problem, rescale=rescale, tol=tol, seconds=4 * seconds):
        rows.append({"kappa": kappa} | judged(problem, constant, model) | {"cpu_s": spent})
        if rows[-1]["optimal"] or spent > seconds:
            break
    return pd.DataFrame(rows)


def posed(kernels: np.ndarray, y: np.ndarray, constant: float) -> Problem:
    """Return the support kernel machine with ``d_j = 1``."""
    return paper_problems.skm(constant, np.ones(len(kernels))).problem(kernels, y)


def stages(problem: Problem, *, rescale: bool, tol: float, seconds: float) -> Iterator[tuple[float, Model, float]]:
    """Yield ``kappa``, the model of the solved stage and the CPU seconds since the start.

    A stage that is not solved when time is out is left out: pairs may need any number of steps.
    """
    solver = get_solver("skm").configured(newton=False, rescale=rescale, tol=tol)
    started, (rho, b) = time.process_time(), problem.zero_model()
    model: Model = (rho, np.zeros(problem.n_kernels), b)
    state = solver.initialize(problem, model)
    while True:
        solver.observe(problem, state, problem.certificate(*model))
        solver.step(problem, state)
        while not solver.worth_certifying(problem, state):
            if time.process_time() - started > seconds:
                return
            solver.step(problem, state)
        model = solver.extract(problem, state)
        yield state.kappa, model, time.process_time() - started


def judged(problem: Problem, constant: float, model: Model) -> dict[str, Any]:
    """Return both epsilons in the units of the paper, whose objective is C times that of the library, and the gap."""
    certificate, found = problem.certificate(*model), epsilon_optimality(problem, model[0], model[1])
    scale = max(abs(certificate.primal), problem.tiny)
    share = constant * found.eps1 / problem.n_samples
    return {
        "eps1_over_n": share,
        "eps2": found.eps2,
        "optimal": bool(share <= EPS1_SHARE and found.eps2 <= EPS2),
        "gap": certificate.relative_gap,
        "bound": found.bound / scale,
        "active": int(np.count_nonzero(model[1])),
    }


def support(kernels: np.ndarray, y: np.ndarray, constant: float, tol: float, seconds: float) -> pd.DataFrame:
    """Return the number of support kernels and of support vectors that each program ends with at one gap."""
    problem, rows = posed(kernels, y, constant), []
    programs = {"skm": {}, "skm, sparsified": {"sparsify": True}, "working_set": {}, "interior_point": {}}
    for label, given in programs.items():
        solver = get_solver(label.split(",")[0]).configured(tol=tol, time_limit=seconds, **given)
        with cpu_seconds() as spent:
            found = solver.solve(problem)
        row = {"program": label, "kernels": len(kernels), "active": len(found.active)}
        row |= {"support_vectors": len(found.support), "gap": found.certificate.relative_gap}
        rows.append(row | {"objective": constant * found.certificate.primal} | spent)
    return pd.DataFrame(rows)


def plot(table: pd.DataFrame, path: str) -> None:
    """Draw eps2, the gap and the kernels against kappa; the continuation runs to the right."""
    figure, axes = pyplot.subplots(1, 3, figsize=(11, 3.8), layout="constrained")
    styles = {AS_PUBLISHED: ("-", "o"), RESCALED: ("--", ".")}
    names = list(table["data"].unique())
    for (name, variant), rows in table.groupby(["data", "variant"], sort=False):
        line, marker = styles[str(variant)]
        drawn = {"linestyle": line, "marker": marker, "color": f"C{names.index(name)}"}
        for ax, column in zip(axes, ("eps2", "gap", "active"), strict=True):
            ax.plot(rows["kappa"], rows[column], label=f"{name}, {variant}", **drawn)
    axes[0].axhline(EPS2, color="#8a8f98", linewidth=0.8, linestyle="--")
    for ax, label in zip(axes, ("eps2, in units of the margin", "relative duality gap", "kernels in use"), strict=True):
        ax.set(xscale="log", yscale="linear" if ax is axes[2] else "log", xlabel="kappa", ylabel=label)
        ax.invert_xaxis()
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].legend(frameon=False, fontsize="x-small")
    figure.savefig(path, dpi=80)
    pyplot.close(figure)
