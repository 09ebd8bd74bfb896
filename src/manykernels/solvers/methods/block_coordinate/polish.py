"""Dual coefficients that certify, where an alternation that no longer gets on has left them open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scipy.linalg import LinAlgError

from manykernels.objective.capabilities import Capability
from manykernels.solvers.engines.primal_dual.start import scores_of, start_iteration
from manykernels.solvers.engines.primal_dual.tuning import PRUNING_TOLERANCE
from manykernels.solvers.methods.block_coordinate.tuning import MOST_POLISHING_STEPS, POLISHED_SHARE

if TYPE_CHECKING:
    from manykernels.objective.problem import Problem
    from manykernels.solvers.solution import Model


def polished(problem: Problem, model: Model, tol: float) -> tuple[Model, int]:
    """Return the model after a few primal-dual Newton steps on weights and coefficients at once, and their number.

    At the best weights a loss with kinks may be met by many dual coefficients, of which a learner returns any; only
    some of them keep the norms of all kernels within their bounds. The better of both models is returned.
    """
    if not problem.loss.piecewise_linear or Capability.MULTIPLIERS not in problem.regularizer.capabilities:
        return model, 0
    rho, d, b = model
    iteration, steps = start_iteration(problem, rho, b, scores_of(problem, rho, d)), 0
    try:
        while steps < MOST_POLISHING_STEPS and _gap(problem, iteration.bounds()) > POLISHED_SHARE * tol:
            iteration.newton_step(POLISHED_SHARE * tol * max(abs(iteration.bounds()[0]), problem.tiny))
            steps += 1
    except LinAlgError:
        return model, steps
    found = iteration.model(PRUNING_TOLERANCE * tol)
    return min(model, found, key=lambda each: problem.certificate(*each).relative_gap), steps


def _gap(problem: Problem, bounds: tuple[float, float]) -> float:
    primal, dual = bounds
    return (primal - dual) / max(abs(primal), problem.tiny)
