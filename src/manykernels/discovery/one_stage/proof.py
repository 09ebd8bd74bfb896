"""The certificate of a model over kernels with one width a feature, proven once the search is over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from manykernels.discovery.base import Discovery, Limits
from manykernels.discovery.families.corner_bound import CornerBound, corner_bound
from manykernels.discovery.families.radial import ArdGaussianFamily
from manykernels.discovery.family_certificate import best_scaling, with_dual
from manykernels.discovery.one_stage.mixture import Learner
from manykernels.exceptions import InvalidInputError
from manykernels.kernels import ArdGaussian
from manykernels.objective.problem import Problem
from manykernels.solvers import Solution, Status
from manykernels.validation.arrays import Array

MOST_ROUNDS = 10  # of searches that a proof has shown to have missed a kernel
SHARE = 0.25  # of the gap asked for, that the bound on the family may take


def check_provable(learner: Learner) -> None:
    """Raise ``InvalidInputError`` if a proof is asked for that there is no way to."""
    if learner.search.settings.proof and not isinstance(learner.search.family, ArdGaussianFamily):
        raise InvalidInputError(
            f"proof={learner.search.settings.proof} is for Gaussian kernels with one width a feature, but the family "
            f"is {learner.search.family!r}; leave it at 0: families of one parameter have their bound anyway."
        )


def proven(
    learner: Learner, found: Discovery, limits: Limits, again: Callable[[list[Array]], Discovery] | None
) -> Discovery:
    """Return the model with a dual bound that holds for all widths; where the proof meets better ones, search again.

    Parameters
    ----------
    learner : Learner
    found : Discovery
    limits : Limits
    again : callable or None
        Search that starts from some parameters; None for updates that cannot.
    """
    best, better = _proof(learner, found, limits)
    for _ in range(MOST_ROUNDS):
        if better is None or again is None or found.solution.status is not Status.CONVERGED:
            break
        found = again([*_widths(found), better])
        told, better = _proof(learner, found, limits)
        best = min(best, told, key=lambda each: each.solution.certificate.relative_gap)
    return best


def _proof(learner: Learner, found: Discovery, limits: Limits) -> tuple[Discovery, Array | None]:
    """Return the model with the proven bound, as good as the evaluations allow, and better widths if any were met.

    The dual value ``-sum_i s_i l*(y_i, -c r_i/s_i) - c^2 B / (2 lambda)`` needs a number B that ``r'K_w r`` exceeds
    nowhere, and may scale ``r`` by any c.
    """
    family, most = learner.search.family, learner.search.settings.proof
    problem = _problem(learner, found)
    vector = problem.feasible_dual(found.solution.dual_coef)
    primal = found.solution.certificate.primal
    allowed = SHARE * limits.tol * 2.0 * learner.strength * max(abs(primal), problem.tiny)
    known = max((float(vector @ learner.search.gram(w) @ vector) for w in _widths(found)), default=0.0)
    slack = allowed / known if known > 0 else 1.0
    bound = corner_bound(learner.search.points, vector, family.low, family.high, slack=slack, most=most)
    _, dual = best_scaling(problem.conjugate_loss, vector, bound.bound / (2.0 * learner.strength))
    better = learner.search.rounded(np.array(bound.widths)) if bound.best > known * (1 + slack) else None
    return replace(found, solution=_told(found.solution, problem, dual, bound, limits.tol)), better


def _problem(learner: Learner, found: Discovery) -> Problem:
    """Return the problem on the kernels found."""
    grams = [learner.search.gram(widths) for widths in _widths(found)]
    return learner.problem(grams) if grams else learner.start()[0]


def _widths(found: Discovery) -> list[Array]:
    """Return the parameters of the kernels found."""
    specs = [kernel.spec for kernel in found.kernels]
    return [np.array(spec.widths) for spec in specs if isinstance(spec, ArdGaussian)]


def _told(solution: Solution, problem: Problem, dual: float, bound: CornerBound, tol: float) -> Solution:
    """Return the solution with the bound, and in words what it proves."""
    certificate = with_dual(solution.certificate, dual, problem.tiny)
    gap = certificate.relative_gap
    words = f"over all widths the relative duality gap is at most {gap:.2e}, by {bound.evaluations} evaluations"
    short = gap > tol and solution.status is Status.CONVERGED
    advice = ". A larger proof may bring the bound down" if short else ""
    return replace(
        solution,
        certificate=certificate,
        status=Status.STALLED if short else solution.status,
        message=f"{solution.message}; {words}{advice}",
    )
