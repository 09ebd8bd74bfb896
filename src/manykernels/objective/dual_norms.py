r"""Dual norms of kernels held as factors: bounds of a single pass, evaluated exactly where they decide.

With what takes the place of a dual norm for kernels without a penalty, and what engines see there.

.. math:: \min_{g, f}\ L\Big(A g + \sum_m f_m\Big) + \Omega(t)
          \quad\Longleftrightarrow\quad \max_\rho\ -L^*(-\rho) - \Omega^*(u), \qquad A'\rho = 0

``A`` are the columns of unpenalized kernels as inner products, and ones for an intercept. The certificate is for the
original problem: such kernels add nothing to the primal value, and dual points are orthogonal to ``A``. Engines use a
negligible ridge term; the effect is part of the gap.
"""

from typing import Any

import numpy as np
from scipy.linalg import qr

from manykernels.exceptions import IncompatibleError, InvalidInputError
from manykernels.grams.base import GramStack
from manykernels.grams.factored.base import columns_of
from manykernels.objective.capabilities import Capability
from manykernels.objective.regularizers.base import Regularizer
from manykernels.validation.arrays import Array

MOST_DIRECTIONS = 300  # columns beyond which a kernel is no linear part any more


def resting_ridge(problem: Any, kernels: Array) -> Array:
    """Return ridge terms, (M,), that change the functions of the kernels by next to nothing, zero for the rest.

    Their unit is the second derivative of the loss, as the slopes and the value at the best constant tell it, times the
    size of every kernel: they do not depend on the units of columns and target.
    """
    rho, b = problem.zero_model()
    weight = problem.weight if rho.ndim == 1 else problem.weight[:, None]
    loss = abs(problem.empirical_loss(problem.constant_scores(b)))
    bend = float((rho**2 / weight).sum()) / (2.0 * loss) if loss > 0 else 0.0
    sizes = problem.stack.take(kernels).diag_sums(problem.weight) / problem.penalties[kernels] ** 2
    ridge = np.zeros(problem.n_kernels)
    resting = 1e-9  # strength of the ridge term beside the second derivatives of the loss along the columns
    ridge[kernels] = resting * (bend or 1.0) * np.where(sizes > 0, sizes, 1.0)
    return ridge


def free_directions(stack: GramStack, kernels: Array, n_constants: int) -> Array:
    """Return an orthonormal basis (N, p) of kernels without a penalty and of constant columns (1 for an intercept).

    Raises
    ------
    InvalidInputError
        If a kernel is no inner product of a few columns.
    IncompatibleError
        If rows are read in chunks, or are on workers, or matrices are in single precision.
    """
    if stack.has_factors and stack.table.chunked:  # type: ignore[attr-defined]  # as such stacks have
        raise IncompatibleError(
            "Kernels without a penalty need rows in memory, and these are read in chunks. Give them a small penalty "
            "instead, such as {'age': Ridge(1e-4)}."
        )
    if stack.dtype != np.float64:
        raise IncompatibleError(
            f"Kernels without a penalty need matrices in double precision, and these are {stack.dtype}: give them as "
            "float64, allow more memory (memory_budget), or take representation='factored'."
        )
    columns = [np.ones((stack.n_samples, n_constants))]
    columns += [kernel_factor(stack, int(kernel)) for kernel in kernels]
    whole = np.hstack(columns)
    whole = whole / np.maximum(np.linalg.norm(whole, axis=0), np.finfo(np.float64).tiny)
    basis, triangle, _ = qr(whole, mode="economic", pivoting=True)
    sizes = np.abs(np.diag(triangle))
    alike = 1e-8  # distance of a column of length one from the span of others that is rounding
    kept: Array = np.ascontiguousarray(basis[:, sizes > alike])
    if kept.shape[1] >= stack.n_samples:
        raise InvalidInputError(
            f"The kernels without a penalty fit {stack.n_samples} rows exactly, whatever the target: they have too "
            f"many columns. Give some of them a penalty."
        )
    return kept


def kernel_factor(stack: GramStack, kernel: int) -> Array:
    """Return the few columns (N, r) whose inner products a kernel is.

    Raises
    ------
    InvalidInputError
        If there are many, or some are far smaller than others: then no penalty at all would fit anything.
    """
    diagonal = np.array(stack.take([kernel]).diag()[0])
    top, factor = diagonal.max(initial=0.0), np.empty((stack.n_samples, 0))
    smallest = 1e-6  # squared size of a column beside the largest: smaller ones would feel what stands for no penalty
    exact = 1e-13  # rest of a kernel beside its largest diagonal entry that is rounding
    while diagonal.max(initial=0.0) > exact * top:  # at most MOST_DIRECTIONS times
        pivot = int(np.argmax(diagonal))
        if factor.shape[1] == MOST_DIRECTIONS or diagonal[pivot] < smallest * top:
            name = stack.names[kernel] if stack.names else kernel
            raise InvalidInputError(
                f"Kernel {name!r} cannot be unpenalized: it is not an inner product of a few columns of similar size. "
                f"Give it a penalty, or use Linear() on single columns: at most {MOST_DIRECTIONS}."
            )
        column = stack.block(None, [pivot], [kernel])[0, :, 0] - factor @ factor[pivot]
        column /= np.sqrt(diagonal[pivot])
        factor = np.column_stack([factor, column])
        diagonal = np.maximum(diagonal - column**2, 0.0)
        diagonal[pivot] = 0.0
    return factor


PLAIN_BUDGET = 1e9  # kernel values, or rows read, that exact dual norms of all kernels may cost at most
SHARP = 1e-7  # width of bounds on quadratic forms, beside the largest, that do for the strength of an empty model
TIGHT = 1e-4  # relative width of the bounds on a norm that is good enough


def tightened_norms(problem: Any, rho: Any) -> Array:
    """Return upper bounds (M,) on the dual norms, tightened if decisive for the largest norm."""
    low, high = (np.sqrt(bound) / problem.penalties for bound in problem.stack.quads(rho))
    tighten(problem, rho, low, high)
    return np.asarray(high)


def tighten(problem: Any, rho: Any, low: Array, high: Array, width: float = TIGHT, before: int = 0) -> tuple[int, int]:
    """Evaluate kernels whose upper bound matters and is wider than ``width``, the largest first; changes both bounds.

    Returns how many were evaluated and how many are left for which the budget does not suffice, of which ``before``
    evaluations have taken their part.
    """
    stack, columns = problem.stack, columns_of(rho)
    cost, evaluated = stack.exact_cost * len(columns), 0
    exact_budget = 2e10  # kernel values that the evaluation of unsettled kernels may cost in one certificate
    budget = exact_budget - before * cost
    while True:  # at most one evaluation a kernel
        loose = np.flatnonzero(_matters(problem.regularizer, low, high, width))
        loose = loose[high[loose] > low[loose] * (1 + width)]
        if not len(loose):
            return evaluated, 0
        if budget < cost:
            return evaluated, len(loose)
        kernel = int(loose[np.argmax(high[loose])])
        value, error = np.sum([stack.exact_quad(kernel, column) for column in columns], axis=0)
        budget, evaluated = budget - cost, evaluated + 1
        # The two bounds are made to meet, so that a kernel is evaluated once.
        high[kernel] = min(high[kernel], np.sqrt(max(value, 0.0) + error) / problem.penalties[kernel])
        low[kernel] = high[kernel]


def _matters(regularizer: Regularizer, low: Array, high: Array, width: float) -> Array:
    """Return whose upper bound shows in the conjugate: the largest where that is a maximum, or any above a threshold.

    If every kernel contributes, the kernels with a relevant difference of bounds.
    """
    if Capability.SIMPLEX in regularizer.capabilities:
        return high > float(low.max()) * (1 + width)
    limit = regularizer.inactive_below
    if regularizer.dual_constraint and regularizer.separable:  # the largest multiple of a limit scales all
        bare = np.equal(regularizer.weight_range[1], np.inf)  # others may have limits of zero
        scale = float(np.max(np.divide(low, limit, out=np.zeros_like(low), where=bare), initial=1.0))
        return np.asarray(high > np.where(bare, limit * scale * (1 + width), limit))
    if regularizer.sparse:
        return high > limit
    exponent, top = dual_exponent(regularizer), max(float(high.max()), 1e-300)
    upper, lower = (high / top) ** exponent, (low / top) ** exponent
    return upper - lower > width * upper.sum() / len(high)


def dual_exponent(regularizer: Regularizer) -> float:
    """Return the power of dual norms in the conjugate of a power of norms; 2 otherwise."""
    return 2.0 if regularizer.curve is None else regularizer.curve.dual_exponent


def check_range(values: Array) -> Array:
    """Reject overflowing norms and weights of an invalid model."""
    if not np.isfinite(values).all():
        m = int(np.argmax(~np.isfinite(values)))
        raise InvalidInputError(
            f"The norm of kernel {m} overflows: its entries, its weight or the dual coefficients are too large. "
            "Normalize the kernels, for instance to unit trace."
        )
    return values


def finite(squares: Array) -> Array:
    """Reject an overflowing ``rho' K_m rho``."""
    if not np.isfinite(squares).all():
        m = int(np.argmax(~np.isfinite(squares)))
        raise InvalidInputError(
            f"rho' K_m rho is {squares[m]} for kernel {m}: its entries or the dual coefficients overflow. "
            "Normalize the kernels, for instance to unit trace."
        )
    return squares
