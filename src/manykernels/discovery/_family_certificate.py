"""The certificate of a model over a family of kernels of which only the norm of the dual vector is known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from manykernels.objective.certificate import Certificate, KKTResiduals
from manykernels.objective.problem import Problem

Array = NDArray[Any]


def family_certificate(problem: Problem, model: tuple[Array, Array, float], norm: float) -> Certificate:
    """Return primal and dual value of a model, the dual over a whole family with an lp ball of weights.

    The dual vector ``r``, made feasible, may still be scaled down; the best scale solves
    ``max_{0 <= c <= 1} -sum_i s_i l*(y_i, -c r_i/s_i) - c^2 V / (2 lambda)``.

    Parameters
    ----------
    problem : Problem
        On the kernels of the model.
    model : (rho, d, b)
        Dual coefficients, kernel weights, intercept.
    norm : float
        ``V`` of the feasible dual vector: ``Omega*`` over the family is ``V / (2 lambda)``.

    Returns
    -------
    Certificate
    """
    rho, d, b = model
    f, t = problem.model_parts(rho, d)
    feasible = problem.feasible_dual(rho)
    conjugate = norm / (2.0 * problem.regularizer.strength)

    def dual(c: float) -> float:
        return -problem.conjugate_loss(c * feasible) - c**2 * conjugate

    inner = float(minimize_scalar(lambda c: -dual(c), bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-9}).x)
    scale = max((1.0, inner), key=dual)
    loss, penalty = problem.empirical_loss(f + b), problem.regularizer.value(t)
    denominator = max(abs(loss + penalty), problem.tiny)
    stationarity = loss + problem.conjugate_loss(scale * feasible) + scale * float((f + b) @ feasible)
    kkt = KKTResiduals(
        stationarity=stationarity / denominator,
        complementarity=(penalty + scale**2 * conjugate - scale * float(f @ feasible)) / denominator,
        box=_ratio(float(np.max(np.abs(rho - np.clip(rho, *problem.dual_box)))), float(np.abs(rho).max())),
        intercept=_ratio(abs(float(rho.sum())), float(np.abs(rho).sum())) if problem.fit_intercept else 0.0,
        scaling=1.0 - scale,
    )
    return Certificate.from_values(loss + penalty, dual(scale), denominator, kkt)


def with_dual(certificate: Certificate, dual: float, tiny: float) -> Certificate:
    """Return the certificate with another lower bound, from another dual vector.

    Parameters
    ----------
    certificate : Certificate
    dual : float
    tiny : float
        Floor of the denominator of the relative gap.

    Returns
    -------
    Certificate
    """
    denominator = max(abs(certificate.primal), tiny)
    less = (dual - certificate.dual) / denominator
    kkt = replace(certificate.kkt, complementarity=certificate.kkt.complementarity - less)
    return Certificate.from_values(certificate.primal, dual, denominator, kkt)


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0
