"""SpicyMKL as printed among the entrants: Tables 1 and 2 of the publication, by `manykernels.papers.solve_as_printed`.

It keeps one coefficient vector a kernel and all kernel matrices in double precision, and reads all of them in every
Newton step, so that it is run as the slow solvers are.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from manykernels.objective import Problem
from manykernels.papers import PrintedRun, solve_as_printed

LABEL = "spicymkl, as printed"
MOST_OUTER = 40  # outer iterations: gamma is 2^40 then


def run_as_printed(
    problem: Problem, tol: float, note: Callable[[float], None] | None = None
) -> tuple[dict[str, Any], PrintedRun | None]:
    """Return counts of a run and the run; without one where it was interrupted.

    Parameters
    ----------
    problem : Problem
    tol : float
        Relative duality gap.
    note : callable, optional
        Receives the CPU seconds so far at the start of each outer iteration.
    """
    started = time.process_time()
    steps = 0

    def gamma(t: int) -> float:
        nonlocal steps
        steps = t
        if note is not None:
            note(time.process_time() - started)
        return 2.0**t

    try:
        run = solve_as_printed(problem, tol=tol, max_iter=MOST_OUTER, gamma=gamma)
    except KeyboardInterrupt:
        return {"status": "interrupted", "n_iter": steps}, None
    last = run.history.iloc[-1]
    return {
        "status": "converged" if run.converged else "iteration_limit",
        "n_iter": len(run.history),
        "newton_steps": int(run.history["newton_steps"].sum()),
        "active": int(last["active"]),
        "relative_gap": float(last["relative_gap"]),
    }, run


def scores(run: PrintedRun, cross: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
    """Return ``sum_m K_m alpha_m + b`` at new rows; ``cross(weights, coefficients)`` applies a sum of kernels."""
    total = run.intercept
    for m in np.flatnonzero(run.kernel_norms):
        unit = np.zeros(run.kernel_norms.size)
        unit[m] = 1.0
        total = total + cross(unit, run.coefficients[m])
    return np.asarray(total)


def trace(problem: Problem, tol: float) -> pd.DataFrame:
    """Return iteration, CPU seconds, relative gap and active kernels of every outer iteration."""
    begun: list[float] = []
    started = time.process_time()
    _, run = run_as_printed(problem, tol, begun.append)
    if run is None:
        return pd.DataFrame(columns=["iteration", "cpu_s", "relative_gap", "active"])
    ends = [*begun[1:], time.process_time() - started]
    return run.history[["iteration", "relative_gap", "active"]].assign(cpu_s=ends)
