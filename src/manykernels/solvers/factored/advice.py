"""What keeps a fit on factors from a smaller gap, in words: which kernels, and what it would take."""

from __future__ import annotations

from typing import cast

from manykernels.grams.factored import FactoredStack
from manykernels.grams.plan import format_bytes
from manykernels.objective.problem import Problem
from manykernels.solvers.factored.state import State
from manykernels.solvers.factored.working_matrices import WorkingMatrices

MOST_NAMES = 3


def obstacle(problem: Problem, state: State, tol: float) -> str:
    """Return which kernels have too coarse factors and what would help; empty if that is not what keeps the gap."""
    stack = cast("FactoredStack", problem.stack)
    if state.objective is None:
        return ""
    alive = state.objective.kernels[state.objective.penalty.norms(state.point.v) > 0].tolist()
    shares = {m: stack.left_over(m, state.factor_tol) for m in alive}
    short = sorted((m for m in alive if shares[m] > 0), key=lambda m: -shares[m])
    if not short:
        return ""
    matrices = WorkingMatrices(problem, tol)
    if problem.bound.couples_samples:
        why = f"Matrices among samples, which would do better, prove no gap of the loss '{problem.loss.name}'."
    elif problem.shared and not problem.loss.smooth:
        why = f"Matrices among samples, which would do better, need derivatives of the loss '{problem.loss.name}'."
    elif stack.table.chunked:
        why = "Matrices among samples, which would do better, need rows in memory rather than in chunks."
    elif (needed := matrices.needed(alive)) > matrices.allowed:
        allowed = format_bytes(max(matrices.allowed, 0))
        why = f"Matrices among samples, which would do better, take {format_bytes(needed)}, and {allowed} may be had."
    else:
        return ""
    named = ", ".join(f"{stack.name_of(m)!r} ({shares[m]:.1%})" for m in short[:MOST_NAMES])
    more = f" and of {len(short) - MOST_NAMES} more kernels" if len(short) > MOST_NAMES else ""
    return (
        f"Factors of kernels on several columns have at most {stack.most_landmarks} landmarks at {stack.n_samples} "
        f"rows, which leave a part of the trace of {named}{more}. {why} More memory, fewer rows, a bank without these "
        "kernels, a larger strength, or a tol above this gap would end it."
    )
