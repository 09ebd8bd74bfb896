"""The support vector machine on a single kernel: the support kernel machine at ``kappa = 1``.

The loop on a single matrix is compiled. Samples that sit at a bound which their gradient pushes against are left out
for a while; once few remain, their part of the matrix is copied together, so every sweep runs over adjacent memory.
"""

import numpy as np
from numpy.typing import ArrayLike

from manykernels.compiled import compiled
from manykernels.exceptions import ConvergenceWarning, warn
from manykernels.objective.losses import get_loss
from manykernels.objective.projection import project_box_hyperplane
from manykernels.solvers.learners.pair_loops import (
    FAST,
    TINY_CURVATURE,
    move_coordinate,
    shrink,
    steepest,
    violation_of_single,
)
from manykernels.solvers.learners.products import LONGEST_PERIOD, STEPS_PER_SAMPLE
from manykernels.validation.arrays import Array, check_count, check_positive, check_positive_vector, check_vector
from manykernels.validation.gram import check_square
from manykernels.validation.parameters import check_flag

WORTH_PACKING = 0.7  # share of the active samples below which what is left is copied together


@compiled(fastmath=FAST)
def _svm_gradient(gram: Array, rho: Array, y: Array, grad: Array) -> None:
    for n in range(grad.size):
        grad[n] = -y[n]
    for i in range(rho.size):
        if rho[i] != 0.0:
            row, own = gram[i], rho[i]
            for n in range(grad.size):
                grad[n] += own * row[n]


@compiled()
def _svm_partner(
    row: Array, diagonal: Array, grad: Array, rho: Array, lo: Array, own: float, lowest: float
) -> tuple[int, float]:
    """Return the coordinate of the largest gain by falling, paired with a rise, and the highest falling gradient."""
    best, partner, highest = -1.0, -1, -np.inf
    for n in range(grad.size):
        if rho[n] > lo[n]:
            highest = max(highest, grad[n])
            gain = grad[n] - lowest
            if gain > 0.0:
                value = gain * gain / max(own + diagonal[n] - 2.0 * row[n], TINY_CURVATURE)
                if value > best:
                    best, partner = value, n
    return partner, highest


@compiled()
def _svm_pairs(
    gram: Array, diagonal: Array, lo: Array, hi: Array, rho: Array, grad: Array, tol: float, most: int
) -> tuple[float, int]:
    """Move up to ``most`` pairs, with two sweeps per step: for the partner, and for the gradient and the next rise."""
    everything = np.arange(rho.size)
    up, _ = steepest(grad, rho, lo, hi, everything)
    steps = 0
    while True:  # at most `most` steps
        if up < 0:
            return 0.0, steps
        first, lowest = gram[up], grad[up]
        down, highest = _svm_partner(first, diagonal, grad, rho, lo, diagonal[up], lowest)
        if highest - lowest <= tol or steps == most:
            return max(highest - lowest, 0.0), steps
        room_up, room_down = hi[up] - rho[up], rho[down] - lo[down]
        curvature = max(diagonal[up] + diagonal[down] - 2.0 * first[down], TINY_CURVATURE)
        step = min((grad[down] - lowest) / curvature, room_up, room_down)
        rho[up] = move_coordinate(rho[up], step, room_up, hi[up])
        rho[down] = move_coordinate(rho[down], -step, room_down, lo[down])
        second, lowest, up = gram[down], np.inf, -1
        for n in range(grad.size):
            grad[n] += step * (first[n] - second[n])
            if grad[n] < lowest and rho[n] < hi[n]:
                lowest, up = grad[n], n
        steps += 1


@compiled()
def _svm_singles(
    gram: Array, diagonal: Array, lo: Array, hi: Array, rho: Array, grad: Array, tol: float, most: int
) -> tuple[float, int]:
    """Move up to ``most`` single coordinates."""
    everything = np.arange(rho.size)
    steps = 0
    while True:  # at most `most` steps
        up, down = steepest(grad, rho, lo, hi, everything)
        violation = violation_of_single(grad, up, down)
        if violation <= tol or steps == most:
            return violation, steps
        i = up if up >= 0 and (down < 0 or -grad[up] >= grad[down]) else down
        before, row = rho[i], gram[i]
        rho[i] = min(max(before - grad[i] / max(diagonal[i], TINY_CURVATURE), lo[i]), hi[i])
        for n in range(grad.size):
            grad[n] += (rho[i] - before) * row[n]
        steps += 1


@compiled()
def _diagonal(gram: Array) -> Array:
    diagonal = np.empty(gram.shape[0])
    for n in range(diagonal.size):
        diagonal[n] = gram[n, n]
    return diagonal


@compiled()
def _pack(gram: Array, kept: Array) -> Array:
    small = np.empty((kept.size, kept.size))
    for i in range(kept.size):
        row = gram[kept[i]]
        for n in range(kept.size):
            small[i, n] = row[kept[n]]
    return small


@compiled()
def _picked(values: Array, kept: Array) -> Array:
    small = np.empty(kept.size)
    for i in range(kept.size):
        small[i] = values[kept[i]]
    return small


@compiled()
def _still_active(grad: Array, rho: Array, lo: Array, hi: Array, paired: bool) -> Array:
    everything = np.arange(rho.size)
    up, down = steepest(grad, rho, lo, hi, everything)
    if paired and (up < 0 or down < 0):
        return everything
    low, high = (grad[up], grad[down]) if paired else (0.0, 0.0)
    kept = np.empty_like(everything)
    return kept[: shrink(grad, rho, lo, hi, everything, low, high, kept)].copy()


@compiled()
def svm_loop(
    gram: Array,
    y: Array,
    lo: Array,
    hi: Array,
    rho: Array,
    grad: Array,
    paired: bool,
    tol: float,
    most: int,
    period: int,
) -> tuple[float, int]:
    """Minimize ``rho'gram rho/2 - y'rho`` over the box (and ``sum rho`` as given); return violation and steps.

    ``rho`` and ``grad`` are overwritten. Every ``period`` steps (0: never) idle coordinates are left out, and what
    remains is copied together once it is much smaller; all come back, with their gradient recomputed, before the end.
    """
    everything = np.arange(rho.size)
    _svm_gradient(gram, rho, y, grad)
    active, steps = everything, 0
    part, low, high, point, slope = gram, lo, hi, rho, grad
    whole = _diagonal(gram)
    diagonal = whole
    while True:  # at most `most` steps
        left = min(most - steps, period) if period > 0 else most - steps
        if paired:
            violation, taken = _svm_pairs(part, diagonal, low, high, point, slope, tol, left)
        else:
            violation, taken = _svm_singles(part, diagonal, low, high, point, slope, tol, left)
        steps += taken
        for i in range(active.size):
            rho[active[i]] = point[i]
        if violation > tol and steps < most:
            kept = _still_active(slope, point, low, high, paired)
            if kept.size > WORTH_PACKING * active.size:
                continue
            part, diagonal = _pack(part, kept), _picked(diagonal, kept)
            low, high, point, slope = (
                _picked(low, kept),
                _picked(high, kept),
                _picked(point, kept),
                _picked(slope, kept),
            )
            active = active[kept]
        elif active.size == rho.size:
            return violation, steps
        else:
            _svm_gradient(gram, rho, y, grad)
            active = everything
            part, low, high, point, slope = gram, lo, hi, rho, grad
            diagonal = whole


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
    gram, target = check_square(gram, "gram"), get_loss("hinge").check_target(y)
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
        warn(message + "Raise max_steps, loosen tol, or lower C.", ConvergenceWarning)
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
