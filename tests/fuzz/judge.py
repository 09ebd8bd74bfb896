"""Fit one case and say what went wrong with it, if anything."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from tests.fuzz import oracle
from tests.fuzz.generator import Case, with_

from manykernels.exceptions import ConvergenceWarning
from manykernels.objective import Problem, get_loss, get_regularizer
from manykernels.solvers.registry import SOLVERS, choose_solver, solvers_for

TIME_LIMIT = 10.0
GRACE = (
    2.0  # seconds beyond the limit that one factorization of these small problems never takes, even on a busy machine
)
FAILURES = ("wrong", "exception", "hang", "worse than zero", "warning", "modified", "not a model")


@dataclass(frozen=True)
class Verdict:
    """What became of a case."""

    solver: str
    status: str
    failure: str = ""
    detail: str = ""
    true_gap: float = 0.0
    noise: float = 0.0
    elapsed_s: float = 0.0
    indefinite: bool = False

    @property
    def converged(self) -> bool:
        return self.status == "converged"


def problem_of(case: Case) -> Problem:
    return Problem(
        case.stack(),
        case.y.copy(),
        get_loss(case.loss, **case.loss_parameters),
        get_regularizer(case.regularizer, case.strength, **case.parameters),
        fit_intercept=case.fit_intercept,
        sample_weight=case.weights.copy(),
        kernel_penalties=case.penalties.copy(),
    )


def with_any_solver(case: Case, position: int) -> Case:
    """Return the case for one of the solvers that accept it."""
    able = solvers_for(problem_of(case))
    return with_(case, solver=able[position % len(able)])


def judge(case: Case, time_limit: float = TIME_LIMIT) -> Verdict:
    """Fit ``case``; whatever is wrong comes back as a failure, never as an exception.

    A hang must repeat: the first fit of an installation compiles its loops.
    """
    verdict = _judge(case, time_limit)
    return _judge(case, time_limit) if verdict.failure == "hang" else verdict


def _judge(case: Case, time_limit: float) -> Verdict:
    before = [part.copy() for part in (case.grams, case.y, case.weights, case.penalties)]
    try:
        problem = problem_of(case)
        solver = choose_solver(problem)[0] if case.solver == "auto" else SOLVERS[case.solver]
    except ValueError as error:
        return Verdict(case.solver, "refused", detail=str(error)[:200])
    label = f"auto: {solver.name}" if case.solver == "auto" else solver.name
    started = time.process_time()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            solution = solver.configured(tol=case.tol, time_limit=time_limit).solve(problem)
    except Exception as error:
        return Verdict(label, "exception", "exception", f"{type(error).__name__}: {error}"[:300])
    elapsed = time.process_time() - started
    verdict = _verdict(case, label, solution, elapsed)
    if not verdict.failure and elapsed > time_limit + GRACE:
        return _failed(verdict, "hang", f"{elapsed:.1f} s with time_limit={time_limit}")
    if verdict.failure:
        return verdict
    leaked = [str(warning.message) for warning in caught if not issubclass(warning.category, ConvergenceWarning)]
    if leaked:
        return _failed(verdict, "warning", leaked[0])
    if any(
        (part != old).any()
        for part, old in zip((case.grams, case.y, case.weights, case.penalties), before, strict=True)
    ):
        return _failed(verdict, "modified", "an argument was written to")
    return verdict


def _failed(verdict: Verdict, failure: str, detail: str) -> Verdict:
    return replace(verdict, failure=failure, detail=detail)


def is_indefinite(case: Case) -> bool:
    """Whether rounding to float32 left a kernel with negative eigenvalues: the problem is then convex in name only."""
    eigenvalues = np.linalg.eigvalsh(case.grams.astype(np.float64))
    return bool((eigenvalues[:, 0] < -1e-12 * np.abs(eigenvalues[:, -1])).any())


def without_rounding(grams: np.ndarray, kernels: Iterable[int]) -> np.ndarray:
    """Return kernels of which some are without eigenvalues of the size of the negative ones, in float64."""
    exact = grams.astype(np.float64)
    for m in kernels:
        values, vectors = np.linalg.eigh(exact[m])
        exact[m] = (vectors * np.where(values > -1.5 * values[0], values, 0.0)) @ vectors.T
    return exact


def _verdict(case: Case, label: str, solution: Any, elapsed: float) -> Verdict:
    rho, d, b = solution.dual_coef, solution.kernel_weights, solution.intercept
    if not (np.isfinite(rho).all() and np.isfinite(d).all() and np.isfinite(b)):
        return Verdict(label, str(solution.status), "not a model", "NaN or infinite coefficients")
    exact = without_rounding(case.grams, solution.replaced_kernels) if solution.replaced_kernels else None
    true = oracle.true_bounds(case, rho, d, b, exact)
    claimed = solution.certificate
    noise = claimed.relative_rounding + 1e3 * oracle.EPS
    indefinite = solution.status != "converged" and is_indefinite(case)
    verdict = Verdict(label, str(solution.status), "", "", true.relative_gap, noise, elapsed, indefinite)
    if not np.isfinite(true.primal):
        return _failed(verdict, "not a model", f"its true value is {true.primal}")
    # Who tells a gap above one has claimed nothing: no loss is negative, so that zero would be a better bound.
    if true.relative_gap > claimed.relative_gap * (1 + 1e-6) + noise and claimed.relative_gap < 1:
        told = f"gap {claimed.relative_gap:.3g}, rounding {noise:.3g}, P {claimed.primal:.6g}, D {claimed.dual:.6g}"
        return _failed(verdict, "wrong", f"told {told}; true gap {true.relative_gap:.3g}, P {true.primal:.6g}")
    if verdict.converged and true.relative_gap > case.tol * (1 + 1e-6) + noise:
        return _failed(verdict, "wrong", f"converged at a true gap of {true.relative_gap:.3g}")
    zero = oracle.zero_value(case)
    if true.primal > zero * (1 + (case.tol if verdict.converged else 1e-9)) + noise * max(abs(true.primal), 1e-300):
        return _failed(verdict, "worse than zero", f"P {true.primal:.6g}, without kernels {zero:.6g}")
    return verdict
