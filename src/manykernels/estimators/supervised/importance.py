"""Where a fitted model's rows are left out in turn: the parts of its kernels, from matrices or from factors.

Models of Gram matrices and smooth losses keep all rows that matter, and are asked when somebody wants to know. Factors
keep no rows, and losses with kinks only those at or beyond a kink: there it is measured at the end of the fit, and of
each kernel, and each set of columns, a mean and its error are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator

from manykernels.estimators.supervised.leave_out import (
    LeftOut,
    Target,
    bends_of,
    by_factors,
    by_matrices,
    curvatures,
    some_rows,
)
from manykernels.grams.factored import FactoredStack
from manykernels.grams.factored.cones import face
from manykernels.kernels import FittedBank
from manykernels.objective.losses import get_shared_loss
from manykernels.solvers.factored.objective import is_matrix_free
from manykernels.validation.arrays import Array

if TYPE_CHECKING:
    from manykernels.estimators.supervised.problems import Fit

MOST_ROWS, FEWER_ROWS = 2000, 1000  # left out in turn when somebody asks, and by every fit that cannot be asked later
HELD_BYTES = 2**27  # of Gram matrices that are evaluated once for all targets
FACTOR_TOL = 1e-4  # share of the trace that factors leave of kernels whose functions are sums over rows


def units_of(bank: FittedBank, n_active: int) -> list[list[int]]:
    """Return the active kernels on each set of columns, in the order of the bank; none for kernels without columns."""
    units: dict[tuple[int, ...], list[int]] = {}
    if bank.on_columns and n_active:
        for m, columns in enumerate(bank.table.positions):
            units.setdefault(tuple(columns), []).append(m)
    return list(units.values())


def all_bends(fit: Fit, active: Array) -> Array:
    """Return how the penalty bends along the active functions of every problem, (problems, 2, m)."""
    pairs = zip(fit.problems, fit.solutions, fit.norms, strict=True)
    return np.array([bends_of(problem, found.kernel_weights, norms, active) for problem, found, norms in pairs])


def of_support(model: BaseEstimator) -> LeftOut:
    """Return what is left of the rows that a model of Gram matrices keeps, each left out in turn."""
    expansion = model._expansion
    losses = (get_shared_loss(model._loss),) if model._shares_weights else (model._loss,) * expansion.n_targets
    known = (model._support_targets, model._support_weights)
    return of_rows(model, expansion.bank, expansion.support, expansion.coefficients, losses, *known, MOST_ROWS)


def of_rows(
    model: Any,
    bank: FittedBank,
    rows: Any,
    rho: Array,
    losses: Sequence[Any],
    y: Array,
    weight: Array,
    most: int = FEWER_ROWS,
) -> LeftOut:
    """Return the same of prepared rows of the active kernels, whose dual coefficients ``rho`` (K, n) may be zero."""
    kept = some_rows(len(weight), most)
    some = rows if len(kept) == len(weight) else rows.take(kept)
    weights = np.broadcast_to(model._expansion.weights, (len(rho), model._expansion.active.size))
    held: dict[int, Array] = {}

    def gram(m: int) -> Array:
        if m in held:
            return held[m]
        matrix = np.asarray(bank.block(some, some, kernels=[m])[0], dtype=np.float64)
        if (len(held) + 1) * matrix.nbytes <= HELD_BYTES:
            held[m] = matrix
        return matrix

    values, unit = np.zeros((weights.shape[1], len(kept), len(rho))), np.zeros(len(rho))
    for m in range(weights.shape[1]):
        cross = gram(m) if some is rows else np.asarray(bank.block(some, rows, kernels=[m])[0])
        values[m] = (cross @ rho.T) * weights[:, m]
        unit += weights[:, m] * float(np.diagonal(gram(m)).mean())
    share = len(weight) / len(kept)
    fitted = _targets(model, values, model.intercept_, rho[:, kept].T, losses, y[kept], weight[kept], unit, share)
    return _joined([by_matrices(target, gram) for target in fitted], losses, y[kept], weight[kept])


def of_factors(model: BaseEstimator, stack: FactoredStack, fit: Fit, y: Array, weight: Array) -> LeftOut:
    """Return the same of kernels held as factors, while the rows are there."""
    kept, active, n_targets = some_rows(len(weight), FEWER_ROWS), model._expansion.active, model._expansion.n_targets
    place = {int(m): slot for slot, m in enumerate(active)}
    values = np.zeros((len(active), len(kept), n_targets))
    none = np.zeros((len(kept), 0)), np.zeros(0)
    factors = [[none] * len(active) for _ in range(n_targets)]
    first, many = 0, False
    for found in fit.solutions:
        functions: Any = found.functions
        for component in (each for each in functions.components if each.kernel in place):
            at, target = place[component.kernel], first + component.target
            tol = FACTOR_TOL if component.tol is None else component.tol
            operator, v = stack.templates([component.kernel], tol)[0].over(stack.table), component.coefficients
            if is_matrix_free(operator):
                many = True
                values[at, :, target] = component.values(stack, stack.table)[kept]
                continue
            Z = operator.rows(kept)
            if component.tol is None:
                values[at, :, target] = _sums(stack, component.kernel, kept, v)
                support = np.flatnonzero(v)
                v = operator.rows(support).T @ v[support]
            else:
                values[at, :, target] = Z @ v
                if (G := stack.constraints_of(component.kernel)) is not None:  # without a row, curves move along faces
                    Z, v = Z @ face(G, v), face(G, v).T @ v
            factors[target][at] = Z, v
        first += np.size(found.intercept)
    losses = tuple(problem.loss for problem in fit.problems)
    rho = np.column_stack([found.dual_coef for found in fit.solutions])[kept]
    intercepts = np.concatenate([np.atleast_1d(found.intercept) for found in fit.solutions])
    weights = np.broadcast_to(model._expansion.weights, (n_targets, len(active)))
    sizes: Any = [[float(np.mean(np.sum(Z**2, axis=1))) for Z, _ in own] for own in factors]
    if many:  # features: among some rows, matrices are less
        grams = stack.block(kept, kept, active)
        sizes = np.tile(np.einsum("mii->m", grams) / len(kept), (n_targets, 1))
    unit = np.sum(weights * np.reshape(sizes, weights.shape), axis=1)
    share = len(weight) / len(kept)
    fitted = _targets(model, values, intercepts, rho, losses, y[kept], weight[kept], unit, share)
    if many:
        return _joined([by_matrices(one, grams.__getitem__) for one in fitted], losses, y[kept], weight[kept])
    pairs = zip(fitted, factors, strict=True)
    left = [by_factors(target, [Z for Z, _ in own], [v for _, v in own]) for target, own in pairs]
    return _joined(left, losses, y[kept], weight[kept])


def _sums(stack: FactoredStack, kernel: int, rows: Array, rho: Array) -> Array:
    """Return ``sum_i rho_i k_m(x, x_i)`` at some rows of the fit."""
    spec, columns, support = stack.spec_of(kernel), stack.columns_of(kernel), np.flatnonzero(rho)
    left, right = (stack.table.reading(spec, columns, some) for some in (rows, support))
    products = spec(left.points, right.points) @ right.masked(rho[support])
    return np.asarray(stack.scales[kernel] * left.masked(products))


def _targets(
    model: BaseEstimator,
    values: Array,
    intercepts: Any,
    rho: Array,
    losses: Sequence[Any],
    y: Array,
    weight: Array,
    unit: Array,
    share: float,
) -> list[Target]:
    """Return every target of a model at the rows that are left out."""
    m, n, n_targets = values.shape
    scores = values.sum(axis=0) + intercepts
    first = losses[0]
    constants = np.ones((n, int(bool(getattr(model, "fit_intercept", True)))))
    if first.couples_samples:
        constants = first.bind(y[:, 0], weight).groups()
    curvature = curvatures(losses, y, scores, rho, weight, unit)
    if first.couples_samples or _smooth(losses):  # duals of the certificate are scaled to be feasible
        rho = _negative_gradients(losses, y, scores, weight)
    active = model._expansion.active
    norms = np.broadcast_to(np.atleast_2d(model.kernel_norms_)[:, active], (n_targets, m))
    weights = np.broadcast_to(model._expansion.weights, (n_targets, m))
    bends = model.__dict__.get("_norm_bends", np.array([[np.ones(m), np.zeros(m)]]))
    bends = np.broadcast_to(bends, (n_targets, 2, m))
    return [
        Target(values[:, :, k], scores[:, k], rho[:, k], curvature[:, k], constants, *own, share)
        for k, own in enumerate(zip(weights, norms, bends, strict=True))
    ]


def _smooth(losses: Sequence[Any]) -> bool:
    """Whether dual coefficients follow from scores."""
    return all(loss.each.smooth for loss in losses)


def _negative_gradients(losses: Sequence[Any], y: Array, scores: Array, weight: Array) -> Array:
    if losses[0].couples_samples:
        return -losses[0].bind(y[:, 0], weight).gradient(scores[:, 0])[:, None]
    if losses[0].of_several:
        return -weight[:, None] * losses[0].derivative(y, scores)
    columns = zip(losses, y.T, scores.T, strict=True)
    return -np.column_stack([weight * loss.derivative(*one) for loss, *one in columns])


def _joined(left: Sequence[tuple[Array, Array]], losses: Sequence[Any], y: Array, weight: Array) -> LeftOut:
    scores, parts = zip(*left, strict=True)
    if losses[0].couples_samples:  # the level belongs to the hazard, not to the scores
        scores = tuple(own.sum(axis=0) for own in parts)
    return LeftOut(np.column_stack(scores), np.stack(parts, axis=-1), tuple(losses), y, weight)
