"""The support vector machine on one kernel: the support kernel machine at ``kappa = 1``."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

from manykernels.exceptions import ConvergenceWarning
from manykernels.objective.losses import get_loss
from manykernels.objective.projection import project_box_hyperplane
from manykernels.solvers.learners.pair_loops import steepest
from manykernels.solvers.learners.products import LONGEST_PERIOD, STEPS_PER_SAMPLE
from manykernels.solvers.learners.svm_loops import svm_loop
from manykernels.validation.arrays import (
    check_count,
    check_positive,
    check_positive_vector,
    check_vector,
)
from manykernels.validation.gram import check_square_kernel
from manykernels.validation.parameters import check_flag

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from manykernels.validation.arrays import Array

__all__ = ["smo_svm", "svm_from"]


def smo_svm(
    gram: Array,
    y: ArrayLike,
    C: float | ArrayLike = 1.0,
    warm: ArrayLike | None = None,
    tol: float = 1e-3,
    *,
    fit_intercept: bool = True,
    max_steps: int | None = None,
) -> tuple[Array, float]:
    """Solve ``min_alpha alpha' D(y) K D(y) alpha / 2 - sum alpha`` over ``0 <= alpha_i <= C_i``, ``y'alpha = 0``.

    Maximal violating pairs with second-order choice of the partner, and shrinking. The model is ``f(x) = sum_i y_i
    alpha_i k(x, x_i) + b``. Unlike LIBSVM it reads the matrix in place, where LIBSVM copies it into nodes of 16 bytes,
    and starts from any ``warm`` point, which LIBSVM cannot.

    References
    ----------
    R.-E. Fan, P.-H. Chen, C.-J. Lin, "Working set selection using second order information for training support vector
    machines", JMLR 6 (2005).
    """
    gram, target = check_square_kernel(gram, "gram", symmetric=False), get_loss("hinge").check_target(y)
    check_flag(fit_intercept, "fit_intercept")
    n_samples = gram.shape[0]
    target = np.array(check_vector(target, n_samples, "y"))
    sizes = np.full(n_samples, check_positive(C, "C")) if np.ndim(C) == 0 else check_positive_vector(C, n_samples, "C")
    lo, hi = np.minimum(target * sizes, 0.0), np.maximum(target * sizes, 0.0)
    start = np.zeros(n_samples) if warm is None else target * check_vector(warm, n_samples, "warm")
    rho = project_box_hyperplane(start, lo, hi) if fit_intercept else np.clip(start, lo, hi)
    most = STEPS_PER_SAMPLE * n_samples if max_steps is None else check_count(max_steps, "max_steps")
    tol = check_positive(tol, "tol")
    rho, b, violation = svm_from(rho, gram, target, (lo, hi), tol=tol, most=most, fit_intercept=fit_intercept)
    if violation > tol:
        message = f"smo_svm stopped after {most} steps at violation {violation:.2e}, above tol {tol:.2e}. "
        warnings.warn(message + "Raise max_steps, loosen tol, or lower C.", ConvergenceWarning, stacklevel=2)
    return np.abs(rho), b


def svm_from(
    rho: Array, gram: Array, y: Array, box: tuple[Array, Array], *, tol: float, most: int, fit_intercept: bool
) -> tuple[Array, float, float]:
    """Minimize ``rho' gram rho / 2 - y'rho`` over the box (and ``sum rho = 0``) from a feasible point, unchecked.

    This is `smo_svm` with ``rho = y * alpha``, for loops that know their input.
    """
    gram = np.ascontiguousarray(gram, dtype=np.float64)
    # Copies, since compiled loops would be compiled once more for read-only arrays.
    rho, y, lo, hi = (np.array(values, dtype=np.float64) for values in (rho, y, *box))
    grad, period = np.empty(rho.size), min(rho.size, LONGEST_PERIOD)
    violation, _ = svm_loop(gram, y, lo, hi, rho, grad, fit_intercept, tol, most, period)
    return rho, _middle(grad, rho, lo, hi) if fit_intercept else 0.0, violation


def _middle(grad: Array, rho: Array, lo: Array, hi: Array) -> float:
    """Return the intercept in the middle of ``[-max grad, -min grad]`` over the samples that may fall and rise."""
    up, down = steepest(grad, rho, lo, hi, np.arange(rho.size))
    ends = [grad[i] for i in (up, down) if i >= 0]
    return 0.0 - float(np.mean(ends)) if ends else 0.0
