"""The certificate of a model over a family of kernels of which only the norm of the dual vector is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.optimize import minimize_scalar

from manykernels.objective.certificate import Certificate, KKTResiduals
from manykernels.objective.problem import Problem
from manykernels.solvers.learners.learners import LearnerFit
from manykernels.solvers.solution import Model
from manykernels.validation.arrays import Array


def family_certificate(problem: Problem, model: Model, norm: float) -> Certificate:
    """Return primal and dual value of a model, the dual over a whole family with an lp ball of weights.

    The dual vector ``r``, made feasible, may still be scaled down; the best scale solves
    ``max_{0 <= c <= 1} -sum_i s_i l*(y_i, -c r_i/s_i) - c^2 V / (2 lambda)``.
    """
    rho, d, b = model
    f, t = problem.model_parts(rho, d)
    conjugate = norm / (2.0 * problem.regularizer.strength)
    return certificate_of(problem, (rho, f, b), problem.regularizer.value(t), problem.feasible_dual(rho), conjugate)


def certificate_of(problem: Problem, model: Model, penalty: float, feasible: Array, conjugate: float) -> Certificate:
    """Return the certificate of a model whose penalty, and its conjugate at feasible dual coefficients, are known.

    The dual coefficients are scaled to the best point of their ray.
    """
    rho, f, b = model
    scale, dual = best_scaling(problem.conjugate_loss, feasible, conjugate)
    loss = problem.empirical_loss(f + b)
    denominator = max(abs(loss + penalty), problem.tiny)
    stationarity = loss + problem.conjugate_loss(scale * feasible) + scale * float((f + b) @ feasible)
    kkt = KKTResiduals(
        stationarity=stationarity / denominator,
        complementarity=(penalty + scale**2 * conjugate - scale * float(f @ feasible)) / denominator,
        box=_ratio(float(np.max(np.abs(rho - np.clip(rho, *problem.dual_box)))), float(np.abs(rho).max())),
        intercept=_ratio(abs(float(rho.sum())), float(np.abs(rho).sum())) if problem.fit_intercept else 0.0,
        scaling=1.0 - scale,
    )
    return Certificate.from_values(loss + penalty, dual, denominator, kkt)


def learner_certificate(fit: LearnerFit, tiny: float) -> Certificate:
    """Return the certificate of a learner: for its kernel weights, stationarity is all there is to miss."""
    scale = max(abs(fit.primal_value), tiny)
    kkt = KKTResiduals(fit.gap / scale, 0.0, 0.0, 0.0, 0.0)
    return Certificate.from_values(fit.primal_value, fit.dual_value, scale, kkt)


def best_scaling(conjugate_loss: Callable[[Array], float], rho: Array, bound: float) -> tuple[float, float]:
    """Maximize the dual value along the ray of ``rho``, which keeps it in its box."""

    def negative(scale: float) -> float:
        return conjugate_loss(scale * rho) + scale**2 * bound

    found = minimize_scalar(negative, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-9})
    whole = negative(1.0)
    return (1.0, -whole) if whole <= found.fun else (float(found.x), -float(found.fun))


def with_dual(certificate: Certificate, dual: float, tiny: float) -> Certificate:
    """Return the certificate with another lower bound, from another dual vector."""
    denominator = max(abs(certificate.primal), tiny)
    less = (dual - certificate.dual) / denominator
    kkt = replace(certificate.kkt, complementarity=certificate.kkt.complementarity - less)
    return Certificate.from_values(certificate.primal, dual, denominator, kkt)


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0
