"""An independent judge of an answer: the certificate recomputed in plain NumPy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from manykernels.testing.formulas import (
    bisect_decreasing,
    loss_bounds,
    loss_conjugate,
    loss_value,
    penalty_conjugate,
    penalty_dual_scale,
    penalty_value,
)
from manykernels.testing.problems import SmallProblem

__all__ = ["NumpyCertificate", "certificate_in_numpy"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class NumpyCertificate:
    """Primal, dual, gap and relative gap of one model, recomputed outside the library."""

    primal: float
    dual: float
    gap: float
    relative_gap: float


def certificate_in_numpy(problem: SmallProblem, rho: Floats, d: Floats, b: float) -> NumpyCertificate:
    r"""Recompute the certificate of the model ``f(x) = sum_m d_m sum_i rho_i k_m(x, x_i) + b``.

    .. math:: P = \sum_i s_i \ell(y_i, f_i + b) + \Omega(t), \qquad
              D = -\sum_i s_i \ell^*(y_i, -\rho'_i / s_i) - \Omega^*(u)

    with :math:`t_m = w_m d_m \sqrt{\rho' K_m \rho}`, and the dual taken at rho projected on the box (and on
    ``sum rho = 0`` with an intercept), then scaled until the conjugate of the regularizer is finite.


    Examples
    --------
    >>> from manykernels.testing.problems import random_problem
    >>> small = random_problem(0, loss="squared", fit_intercept=False)
    >>> zero = certificate_in_numpy(small, 0 * small.y, np.zeros(len(small.kernels)), 0.0)
    >>> bool(np.isclose(zero.primal, (small.y**2).sum() / 2)), zero.dual
    (True, 0.0)
    """
    primal = _primal(problem, rho, d, b)
    dual = dual_value(problem, projected(problem, rho))
    at_zero = float(problem.weights @ losses_at(problem, np.zeros_like(problem.y)))
    denominator = max(abs(primal), 1e-10 * at_zero, np.finfo(float).tiny)
    return NumpyCertificate(primal, dual, primal - dual, (primal - dual) / denominator)


def losses_at(problem: SmallProblem, z: Floats) -> Floats:
    """Return the loss (N,) of each sample at scores ``z``."""
    return loss_value(problem.loss_name, problem.loss_params, problem.y, z)


def kernel_norms(problem: SmallProblem, rho: Floats) -> Floats:
    """Return ``sqrt(rho' K_m rho)`` (M,) of all kernels."""
    return np.sqrt(np.maximum([rho @ (K @ rho) for K in problem.kernels], 0.0))


def _primal(problem: SmallProblem, rho: Floats, d: Floats, b: float) -> float:
    scores = sum((d_m * (K @ rho) for d_m, K in zip(d, problem.kernels, strict=True)), start=np.zeros_like(problem.y))
    norms = problem.penalties * d * kernel_norms(problem, rho)
    penalty = penalty_value(problem.regularizer_name, problem.regularizer_params, problem.strength, norms)
    return float(problem.weights @ losses_at(problem, scores + b)) + penalty


def projected(problem: SmallProblem, rho: Floats) -> Floats:
    """Project on ``{lo <= rho <= hi}``, and on ``sum rho = 0`` too with an intercept, by bisection on the shift."""
    lo, hi = (problem.weights * bound for bound in loss_bounds(problem.loss_name, problem.loss_params, problem.y))
    if not problem.fit_intercept:
        return np.clip(rho, lo, hi)
    reach = float(np.abs(rho).max()) + float(np.abs(np.r_[lo[np.isfinite(lo)], hi[np.isfinite(hi)], 0.0]).max())
    shift = bisect_decreasing(lambda nu: float(np.clip(rho - nu, lo, hi).sum()), -reach, reach)
    return np.clip(rho - shift, lo, hi)


def dual_value(problem: SmallProblem, rho: Floats) -> float:
    """Return the dual objective at ``rho``, scaled until the conjugate of the regularizer is finite."""
    name, params, strength = problem.regularizer_name, problem.regularizer_params, problem.strength
    u = kernel_norms(problem, rho) / problem.penalties
    scale = penalty_dual_scale(name, params, strength, u)
    s = problem.weights
    fit = s @ loss_conjugate(problem.loss_name, problem.loss_params, problem.y, scale * rho / s)
    return 0.0 - float(fit) - penalty_conjugate(name, params, strength, scale * u)
