"""Kernel weights of the support kernel machine: from the smoothed dual, judged for optimality, made sparser by LPs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import linprog

from manykernels.exceptions import IncompatibleError, InvalidInputError
from manykernels.objective.capabilities import Capability
from manykernels.solvers.learners.pair_loops import steepest, violation_of
from manykernels.validation.arrays import check_nonnegative_vector, check_positive

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from manykernels.objective.problem import Problem
    from manykernels.validation.arrays import Array

__all__ = ["EpsilonOptimality", "SmoothedDual", "epsilon_optimality", "smoothed_dual", "sparser_weights"]


@dataclass(frozen=True)
class SmoothedDual:
    """The Moreau-Yosida regularized maximum at given kernel norms."""

    value: float  # min_h h^2 / (2 (1 - kappa)^2) + sum_j o_j max(0, q_j - h)^2 / (2 kappa^2): G(alpha) + alpha'e
    threshold: float  # the minimizing h, the paper's (1 - kappa) gamma
    # ndarray of shape (M,): o_j (1 - h/q_j)_+ / kappa^2: the gradient of the value is sum_j gradient_weights_j Q_j
    # rho
    gradient_weights: Array
    # ndarray of shape (M,): eta, proportional to o_j (q_j - h)_+, with sum_j eta_j = 1; zeros if all norms are
    weights: Array


def smoothed_dual(norms: ArrayLike, kappa: float, smoothing: ArrayLike | None = None) -> SmoothedDual:
    """Minimize over the threshold exactly, by sorting the norms: O(M log M).

    The paper's ``G`` with ``d_j = (1 - kappa) w_j`` and ``a_j = kappa c_j w_j`` for the factors ``c`` in ``smoothing``
    (ones by default), so that the shares are ``o_j = 1 / c_j^2``; in the norms ``q_j = sqrt(alpha' D(y) K_j
    D(y) alpha) / w_j``; its ``gamma_j = q_j / (1 - kappa)`` would be infinite at ``kappa = 1``, where ``G`` is the
    objective of a support vector machine on the sum of the kernels.

    References
    ----------
    F. Bach, G. Lanckriet, M. Jordan, "Multiple kernel learning, conic duality, and the SMO algorithm", ICML 2004,
    section 4 and appendix B.
    """
    kappa = check_positive(kappa, "kappa", upper=1.0)
    q = check_nonnegative_vector(norms, np.size(norms), "norms")
    shares = np.ones(q.size) if smoothing is None else shares_of(smoothing)
    slope = (kappa / (1.0 - kappa)) ** 2 if kappa < 1 else np.inf
    order = np.argsort(-q, kind="stable")
    candidates = np.cumsum((shares * q)[order]) / (np.cumsum(shares[order]) + slope)
    h = float(candidates[np.count_nonzero(q[order] > candidates) - 1]) if q.any() else 0.0
    excess = np.maximum(q - h, 0.0)
    shared = 0.5 * (h / (1.0 - kappa)) ** 2 if kappa < 1 else 0.0
    gradient_weights = shares * excess / (kappa**2 * np.where(q > 0, q, 1.0))
    weights = shares * excess / (shares @ excess) if q.any() else excess
    return SmoothedDual(shared + 0.5 * float(shares @ excess**2) / kappa**2, h, gradient_weights, weights)


def shares_of(smoothing: ArrayLike) -> Array:
    """Return ``1 / c_j^2`` for the factors ``c`` on the smoothing of each kernel, which must be positive."""
    factors = check_nonnegative_vector(smoothing, np.size(smoothing), "smoothing")
    if not (factors > 0).all():
        raise InvalidInputError("smoothing must be positive for every kernel: where it is zero, the dual has a kink.")
    return factors**-2.0


@dataclass(frozen=True)
class EpsilonOptimality:
    """How far a model is from the paper's optimality conditions."""

    eps1: float  # max_j J_j - min J_j over the kernels with positive weight, in units of the objective
    eps2: float  # half of what the optimality interval of the samples is missed by, in units of the score (margin 1)
    # eps1 + eps2 sum_i s_i in units of the objective: no duality gap of this model, with the best intercept and
    # weights that sum to 1/lam, is larger
    bound: float


def epsilon_optimality(problem: Problem, rho: Array, d: Array) -> EpsilonOptimality:
    """Return the smallest ``(eps1, eps2)`` for which a model is optimal in the sense of the paper's (OPT).

    ``J_j(alpha) = alpha' D(y) K_j D(y) alpha / (2 w_j^2) - alpha'e``; a model is optimal if the weights are supported
    on the kernels with the largest ``J_j`` and ``alpha`` solves the support vector machine on their sum.
    """
    lacking = {Capability.HINGE_FORM, Capability.SIMPLEX} - problem.loss.capabilities - problem.regularizer.capabilities
    if lacking:
        raise IncompatibleError(
            f"(eps1, eps2)-optimality is defined for the hinge loss with the simplex, not for the loss "
            f"'{problem.loss.name}' with the regularizer '{problem.regularizer.name}'."
        )
    objectives = 0.5 * problem.dual_norms(rho) ** 2 / problem.regularizer.strength
    support = np.flatnonzero(d)
    eps1 = float(objectives.max() - objectives[support].min()) if support.size else float(objectives.max())
    grad = problem.stack.apply(d, rho) - problem.y
    lo, hi = (np.array(bound) for bound in problem.dual_box)
    up, down = steepest(grad, np.array(rho), lo, hi, np.arange(rho.size))
    eps2 = 0.5 * violation_of(grad, up, down, problem.fit_intercept)
    return EpsilonOptimality(eps1, eps2, eps1 + eps2 * problem.total_weight)


def sparser_weights(
    products: Array, y: Array, rho: Array, box: tuple[Array, Array], eta: Array, slack: float, *, fit_intercept: bool
) -> Array:
    """Set weights to zero, one after the other, as long as a linear program finds optimal weights without them.

    The program asks for ``eta >= 0``, ``sum eta = 1`` and an intercept for which the given ``rho`` meets the optimality
    interval of every sample within ``slack`` (the paper's section 3.3). The smallest weights are tried first.
    """
    best = eta
    for j in np.argsort(eta, kind="stable"):
        if best[j] == 0 or np.count_nonzero(best) == 1:
            continue
        kept = np.flatnonzero(best)
        kept = kept[kept != j]
        found = _feasible_weights(products[kept], y, rho, box, slack, fit_intercept)
        if found is not None:
            best = np.zeros_like(eta)
            best[kept] = found
    return best


def _feasible_weights(
    products: Array, y: Array, rho: Array, box: tuple[Array, Array], slack: float, fit_intercept: bool
) -> Array | None:
    """Return weights of these kernels that explain ``rho``, or None if there are none."""
    n_kernels = products.shape[0]
    border = np.ones((1, y.size)) if fit_intercept else np.zeros((0, y.size))
    columns = np.vstack([products, border]).T
    may_rise, may_fall = rho < box[1], rho > box[0]
    rows = np.vstack([columns[may_fall], -columns[may_rise]])
    limits = np.concatenate([y[may_fall], -y[may_rise]]) + slack
    total = np.concatenate([np.ones(n_kernels), np.zeros(len(border))])[None]
    ranges = [(0.0, None)] * n_kernels + [(None, None)] * len(border)
    # Any feasible point will do; rows in units of their own keep the tolerances of the solver meaningful.
    scale = np.maximum(np.abs(rows).max(axis=1), 1.0)
    solved = linprog(
        np.zeros(total.size), rows / scale[:, None], limits / scale, total, [1.0], ranges, method="highs-ds"
    )
    if solved.status != 0:
        return None
    weights = np.maximum(solved.x[:n_kernels], 0.0)
    return weights / weights.sum()
