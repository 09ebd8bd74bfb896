"""Support vector machines with given kernel weights, by the LIBSVM of scikit-learn.

    minimize_rho  1/2 rho' K rho - y' rho   s.t.  0 <= y_i rho_i <= s_i,   sum rho = 0,     K = sum_m d_m K_m

The dual problem of the hinge loss under ridge, whose weights ``d`` are known. LIBSVM stores ``K`` in single precision:
no gap is below 1e-7, and under a weak penalty it may remain near 1e-2. The certificate decides. Within a tolerance of
1e-2 LIBSVM takes a third to a thirtieth of the time of the interior-point method.

Source: C.-C. Chang, C.-J. Lin, "LIBSVM: a library for support vector machines", ACM TIST 2 (2011).
"""

import warnings
from importlib import import_module
from typing import Any

import numpy as np

from manykernels.objective.losses import Hinge
from manykernels.objective.problem import Problem
from manykernels.solvers.gram.weight_variables import free_kernels
from manykernels.solvers.solution import Model
from manykernels.validation.arrays import Array


def suits_libsvm(problem: Problem, tol: float) -> bool:
    """Return True for the hinge loss with an intercept and given kernel weights, if single precision is enough."""
    finest = 1e-3  # relative gap that single precision reaches in most cases; below it the time would often be lost
    plain = tol >= finest and isinstance(problem.loss, Hinge) and problem.y.ndim == 1 and problem.fit_intercept
    most_rows = 5_000  # of a matrix in float64 and the cache of LIBSVM: 400 MB
    if (
        not plain
        or not np.ptp(problem.y)
        or problem.n_samples > most_rows
        or problem.regularizer.weight_set
        or len(problem.unpenalized)
    ):
        return False
    free, largest = free_kernels(problem.regularizer, problem.n_kernels)
    return not free.any() and bool(np.isfinite(largest).all())


def support_vector_model(problem: Problem, tol: float) -> Model | None:
    """Return the model of LIBSVM after a limited number of steps; None for a matrix beyond the range of floats."""
    weights = free_kernels(problem.regularizer, problem.n_kernels)[1] / problem.penalties**2
    gram = problem.stack.combine(weights)
    if not np.isfinite(gram).all():
        return None
    steps_per_row = 30  # of LIBSVM: of 1,000 rows at most half the time of the interior-point method
    limit = steps_per_row * problem.n_samples
    svm: Any = import_module("sklearn.svm")  # when needed: the import takes as long as many fits
    share = 1e-3  # of the relative gap asked for: a violation of the optimality conditions, in units of scores
    cache = 200.0  # megabytes
    machine = svm.SVC(kernel="precomputed", C=1.0, tol=share * tol, cache_size=cache, max_iter=limit)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the limit
        machine.fit(gram, problem.y, sample_weight=problem.weight)
    rho = np.zeros(problem.n_samples)
    rho[machine.support_] = machine.dual_coef_[0]
    scores, b = gram @ rho, float(machine.intercept_[0])
    stretch = _best_stretch(problem.y * (scores + b), problem.weight, float(rho @ scores))
    return stretch * rho, weights, stretch * b


def _best_stretch(margins: Array, weight: Array, squared_norm: float) -> float:
    """Return the minimizer ``t`` of ``sum_i s_i max(1 - t m_i, 0) + t^2 ||f||^2 / 2``.

    Of separable classes the losses must vanish, and those of LIBSVM do so only within its tolerance.
    """
    positive = margins > 0
    ends = 1.0 / margins[positive]  # where losses become zero
    order = np.argsort(ends)
    ends, falls = ends[order], (weight * margins)[positive][order]
    slope = -float(weight @ margins) + np.concatenate([[0.0], np.cumsum(falls)])  # of the losses, between the ends
    zeros = -slope / squared_norm if squared_norm > 0 else np.ones(slope.size)
    low, high = np.concatenate([[0.0], ends]), np.concatenate([ends, [np.inf]])
    at = int(np.argmax(zeros <= high))  # the first piece whose derivative is zero before its end
    return float(np.clip(zeros[at], low[at], high[at]))
