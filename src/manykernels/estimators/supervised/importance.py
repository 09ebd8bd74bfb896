"""Importance of columns from leave-one-out predictions of the training rows.

At the optimum a model is the mean of a Gaussian process, ``f_m ~ GP(0, d_m K_m)`` beside free constants, seen through
losses of curvature ``W = s l''(y, z)``. With ``Q_m = d_m K_m``, ``Q`` their sum and ``B`` the constants,

    R   = (Q + W^-1)^-1,      U = B - Q R B,      G = (B' R B)^-1,
    C_m = diag(Q_m - Q_m R Q - Q_m R B G U'),     C = sum_m C_m + diag(B G U')

are the posterior covariances of ``f_m`` with the whole score at every row, and one Newton step leaves row ``i`` out:

    z_i^(-i) = z_i - rho_i C_i / (1 - W_i C_i),   f_mi^(-i) = f_mi - rho_i C_mi / (1 - W_i C_i).

It is exact for the squared loss and fixed weights. Of losses with kinks, rows at a kink have infinite curvature and all
others none. Cox's partial likelihood is that of Poisson counts at the respective baseline hazard, whose level is free.

**Weights are learned, too.** Across ``f_m`` the penalty bends by ``1 / d_m``, along it by the second derivative in the
norm, which for the block 1-norm is zero: how large a function is costs nothing more once the kernel is there. With
``H`` the Hessian of the penalty in the norms ``t``, ``S = D^1/2 H D^1/2`` and ``F`` the functions ``f_m / t_m``,

    Q_m = d_m K_m + F_m [D^1/2 (S^-1 - I) D^1/2 F']_m.

Without the term a noise category of many levels, and whatever else follows single rows, gains by the respective weight.

**In factors** ``K_m = Z_m Z_m'`` the same covariances are ``C_m = diag(P_m A^-1 P')`` with ``P = [D^1/2 Z, B]`` and ``A
= P' W P + (I - V (I - S) V')``, ``V`` the directions of the coefficients: systems of the size of all ranks. Where these
are far more than the rows left out, matrices ``Z_m Z_m'`` among the rows are smaller.

**When.** Models of Gram matrices and smooth losses keep all rows that matter, and are asked when somebody wants to
know. Factors keep no rows, and losses with kinks only those at or beyond a kink: there what it takes is held until
somebody asks, or saves the model, and where that is much it is measured at the end of the fit; of every kernel, and
every set of columns, a mean and the error are kept. Where factors have far more columns than rows are left out, what is
held are the rows of the table, of which factors are made when asked for.

K. R. Rad, A. Maleki, "A scalable estimate of the out-of-sample prediction error via approximate leave-one-out
cross-validation", JRSS B 82 (2020); S. Wang and others, "Approximate leave-one-out for fast parameter tuning in high
dimensions", ICML 2018, for kinks and norms of groups.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator

from manykernels.estimators.supervised.deferred import MOST_BYTES, drop_questions, forget, put_off, set_all
from manykernels.estimators.supervised.leave_out import (
    Target,
    bends_of,
    curvatures,
    leave_out_by_factors,
    leave_out_by_matrices,
    leave_out_by_rows,
    scores_by_matrix,
    stack_features,
)
from manykernels.grams.factored import FactoredStack
from manykernels.grams.factored.cones import face
from manykernels.grams.training import numbers_of_rows
from manykernels.kernels import FittedBank, PreparedRows
from manykernels.objective.losses import get_shared_loss
from manykernels.objective.losses.coupled import STRATUM
from manykernels.solvers.factored.objective import is_matrix_free
from manykernels.validation.arrays import Array

if TYPE_CHECKING:
    from manykernels.estimators.supervised.problems import Fit
    from manykernels.estimators.supervised.samples import Samples

IMPORTANCE = "importance"
UNKNOWN = (np.linalg.LinAlgError, FloatingPointError)  # rows cannot be left out, which is said when somebody asks


def some_rows(n: int, most: int, seed: int) -> Array:
    """Return the rows left out in turn: all, or some drawn at random and stand for all."""
    return np.arange(n) if n <= most else np.sort(np.random.default_rng(seed).choice(n, most, replace=False))


def _seed_of(model: BaseEstimator) -> int:
    """Return the seed of the sampled rows, 0 for a generator with changing state."""
    seed = getattr(model, "random_state", None)
    return int(seed) if isinstance(seed, (int, np.integer)) else 0


def most_rows(stack: FactoredStack, fit: Fit, active: Sequence[int]) -> int:
    """Return how many rows of factors are left out: as many as take about a tenth of a fit, at least `FEWER_ROWS`.

    A row takes three times the square of all active ranks, in a fit at least some hundred times the ranks.
    """
    ranks, kernels = np.zeros(1), set(active)
    for found in fit.solutions:
        functions: Any = found.functions
        own = [each for each in functions.components if each.kernel in kernels]
        if any(each.tol is None or is_matrix_free(stack.templates([each.kernel], each.tol)[0]) for each in own):
            return FEWER_ROWS  # what is held as a matrix, and features, become matrices among these rows
        targets = np.array([each.target for each in own], dtype=np.intp)
        ranks = np.append(ranks, np.bincount(targets, [len(each.coefficients) for each in own]))
    rank = max(float(ranks.max()), 1.0)
    return max(FEWER_ROWS, int(min(stack.n_samples * FIT_RANKS, LEFT_ENTRIES) / rank))


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Leave-one-out predictions of rows."""

    scores: Array  # (n, K)
    parts: Array  # (m, n, K): what each active kernel adds
    losses: tuple[Any, ...]  # one a target, or one that takes all
    y: Array  # (n, K)
    weight: Array  # (n,)

    def drops(self, units: Sequence[Sequence[int]]) -> Array:
        """Return what the mean loss gains when the part of a unit is replaced by the mean, and the error, (u, 2).

        The error is the standard error of the mean of the differences by row, which are paired.
        """
        before, weight = losses_of_rows(self.losses, self.y, self.scores, self.weight)
        found = np.zeros((len(units), 2))
        for at, members in enumerate(units):
            part = self.parts[list(members)].sum(axis=0)
            without = self.scores - part + np.average(part, axis=0, weights=self.weight)
            gains = losses_of_rows(self.losses, self.y, without, self.weight)[0] - before
            mean = np.average(gains, weights=weight)
            found[at] = mean, np.sqrt(np.sum((weight * (gains - mean)) ** 2)) / weight.sum()
        return found


def losses_of_rows(losses: Sequence[Any], y: Array, scores: Array, weight: Array) -> tuple[Array, Array]:
    """Return the loss of every row, a mean over targets, and the weight; of a partial likelihood, of every event."""
    first = losses[0]
    if first.of_several:
        return first.value(y, scores), weight
    if first.couples_samples:
        return _losses_of_events(y[:, 0], scores[:, 0], weight)
    columns = zip(losses, y.T, scores.T, strict=True)
    return np.mean([loss.value(target, z) for loss, target, z in columns], axis=0), weight


def _losses_of_events(y: Array, z: Array, weight: Array) -> tuple[Array, Array]:
    """Return ``log sum_{j in R_e} s_j exp(z_j) - z_e`` of every event, and the weight, shared at ties."""
    stratum, time = np.divmod(np.abs(y), STRATUM)
    order = np.lexsort((-time, stratum))
    terms = np.log(weight[order]) + z[order]
    ends = np.flatnonzero(np.r_[np.diff(stratum[order]) != 0, True]) + 1
    at_risk = np.concatenate([np.logaddexp.accumulate(part) for part in np.split(terms, ends[:-1])])
    groups = np.cumsum(np.r_[True, (np.diff(time[order]) != 0) | (np.diff(stratum[order]) != 0)]) - 1
    last = np.flatnonzero(np.r_[np.diff(groups) != 0, True])
    at_risk = at_risk[last][groups]  # all of one time are at risk together
    events = y[order] > 0
    return (at_risk - z[order])[events], weight[order][events]


MOST_ROWS, FEWER_ROWS = 2000, 1000  # left out in turn when somebody asks, and by every fit that cannot be asked later
FIT_RANKS = 64  # active ranks at which leaving out all rows takes a tenth of a fit: .07 to .1 at ranks of 140 to 290
LEFT_ENTRIES = 2**23  # of factors of the rows that are left out: 64 MB
RANK_PER_ROW = 2  # of factors, above which matrices among the rows take less time than systems of all ranks
FACTOR_TOL = 1e-4  # share of the trace that factors leave of kernels whose functions are sums over rows


def units_of(bank: FittedBank, n_active: int) -> list[list[int]]:
    """Return the active kernels on every set of columns, in the order of the bank; none for kernels without columns."""
    units: dict[tuple[int, ...], list[int]] = {}
    if bank.on_columns and n_active:
        for m, columns in enumerate(bank.table.positions):
            units.setdefault(tuple(columns), []).append(m)
    return list(units.values())


def leave_out_support(model: BaseEstimator) -> LeftOut:
    """Return leave-one-out results for the stored rows of a model of Gram matrices."""
    expansion = model._expansion
    shared = model._shares_weights and np.ndim(getattr(model, "classes_", 0)) < 2  # sums of labels are as they are
    losses = [get_shared_loss(model._loss)] if shared else [model._loss] * expansion.n_targets
    losses = losses if shared else model._losses(losses)[: 1 if model._shares_weights else None]
    known = (model._support_targets, model._support_weights)
    return leave_out_rows(model, expansion.bank, expansion.support, expansion.coefficients, losses, *known, MOST_ROWS)


def leave_out_rows(
    model: BaseEstimator,
    bank: FittedBank,
    rows: PreparedRows[Any],
    rho: Array,
    losses: Sequence[Any],
    y: Array,
    weight: Array,
    most: int = FEWER_ROWS,
) -> LeftOut:
    """Return leave-one-out results for prepared rows of the active kernels with dual coefficients ``rho`` (K, n)."""
    kept = some_rows(len(weight), most, _seed_of(model))
    some = rows if len(kept) == len(weight) else rows.take(kept)
    weights = np.broadcast_to(model._expansion.weights, (len(rho), model._expansion.active.size))
    held: dict[int, Array] = {}

    def gram(m: int) -> Array:
        if m in held:
            return held[m]
        if bank.raw.as_matrices and (given := bank.take([m]).grams(some)) is not None:  # which is there already
            matrix = given.array[0]
            if not np.array_equal(given.samples, np.arange(len(matrix))):
                matrix = matrix.take(given.samples, axis=0).take(given.samples, axis=1)
            return matrix.astype(np.float64, copy=False)
        matrix = np.asarray(bank.block(some, some, kernels=[m])[0], dtype=np.float64)
        held_bytes = 2**27  # of Gram matrices that are evaluated once for all targets
        if (len(held) + 1) * matrix.nbytes <= held_bytes:
            held[m] = matrix
        return matrix

    values, unit = np.zeros((weights.shape[1], len(kept), len(rho))), np.zeros(len(rho))
    for m in range(weights.shape[1]):
        cross = gram(m) if some is rows else np.asarray(bank.block(some, rows, kernels=[m])[0])
        values[m] = (cross @ rho.T) * weights[:, m]
        unit += weights[:, m] * float(np.diagonal(gram(m)).mean())
    share = len(weight) / len(kept)
    fitted = targets_of(model, values, model.intercept_, rho[:, kept].T, losses, y[kept], weight[kept], unit, share)
    return _join([leave_out_by_matrices(target, gram) for target in fitted], losses, y[kept], weight[kept])


@dataclass(frozen=True, eq=False)
class FactorRows:
    """Rows of kernels held as factors with everything for leave-one-out predictions, kept with the fit."""

    targets: list[Target]
    factors: list[list[tuple[Array, Array]]]  # of every target and active kernel: rows, and coefficients
    grams: Array | None  # (m, n, n): instead, of features in chunks, of which there are more than rows
    losses: tuple[Any, ...]
    y: Array
    weight: Array
    stack: FactoredStack | None = None  # the active kernels on these rows, instead of many factors or matrices
    tols: tuple[float, ...] = ()  # shares of the trace that factors of each are to leave; none for matrices

    @property
    def nbytes(self) -> int:
        """Bytes that grow with rows and kernels, with shared rows counted once."""
        shared = {id(Z): Z.nbytes for own in self.factors for Z, _ in own}
        held = [*shared.values(), *(v.nbytes for own in self.factors for _, v in own)]
        held += [each.nbytes for target in self.targets for each in (target.values, target.constants)]
        return sum(held) + sum(each.nbytes for each in (self.grams, self.stack) if each is not None)

    def replace_factors(self, stack: FactoredStack, active: Array, rows: Array, tols: tuple[float, ...]) -> FactorRows:
        """Return the same with the columns of the table in place of factors or matrices: made when asked for.

        Not of kernels whose functions have a shape: rows are left out along the faces of cones of the fit's factors.
        """
        if self.grams is not None or stack.table.chunked or stack.shaped:
            return self
        return replace(self, factors=[], stack=stack.copy_rows(active, rows), tols=tols)

    def _matrices(self) -> Array | None:
        """Return the Gram matrices, or None where factors take less time."""
        if self.stack is None or self.tols:
            return self.grams
        return self.stack.block()

    def leave_out_scores(self) -> Array:
        """Return the scores of `leave_out`, (n, K), which take half the time where factors are matrices."""
        if (grams := self._matrices()) is None:
            return self.leave_out().scores
        return np.column_stack([scores_by_matrix(t, np.tensordot(t.weights, grams, axes=1)) for t in self.targets])

    def leave_out(self) -> LeftOut:
        """Leave every row out in turn."""
        left: Iterable[tuple[Array, Array]]
        if (grams := self._matrices()) is not None:
            left = [leave_out_by_matrices(target, grams.__getitem__) for target in self.targets]
        elif self.stack is not None:
            operators = [self.stack.operators([m], tol)[0] for m, tol in enumerate(self.tols)]
            factors = [np.asarray(operator.rows(np.arange(len(self.y)))) for operator in operators]
            left = [leave_out_by_rows(target, factors) for target in self.targets]
        else:
            left = self._leave_out_of_factors()
        return _join(left, self.losses, self.y, self.weight)

    def _leave_out_of_factors(self) -> Iterator[tuple[Array, Array]]:
        """Yield the scores and parts of every target, from its factors."""
        stacked: dict[tuple[Any, ...], Array] = {}  # features of the last target, which others may share
        for target, pairs in zip(self.targets, self.factors, strict=True):
            own, coefficients = [Z for Z, _ in pairs], [v for _, v in pairs]
            # From matrices among the rows where coefficients are more than these.
            if sum(Z.shape[1] for Z in own) > RANK_PER_ROW * len(target.rho):
                yield leave_out_by_rows(target, own)
                continue
            key = (*map(id, own), target.weights.tobytes())
            stacked = stacked if key in stacked else {key: stack_features(target, own)}
            yield leave_out_by_factors(target, stacked[key], coefficients)


def _rows_once(stack: FactoredStack, kept: Array) -> Callable[[int, float], Array | None]:
    """Return a cached function for rows of the factor of a kernel, None for features."""

    @cache
    def rows_of(kernel: int, tol: float) -> Array | None:
        operator = stack.templates([kernel], tol)[0].transfer(stack.table)
        return None if is_matrix_free(operator) else np.asarray(operator.rows(kept))

    return rows_of


def create_factor_rows(
    model: BaseEstimator, stack: FactoredStack, fit: Fit, y: Array, weight: Array, most: int | None = None
) -> FactorRows:
    """Return the rows of kernels held as factors for leave-one-out predictions, by default `most_rows`."""
    active, n_targets = model._expansion.active, model._expansion.n_targets
    most = most_rows(stack, fit, active.tolist()) if most is None else most
    kept = some_rows(len(weight), most, _seed_of(model))
    parts = _Parts(stack, active, kept, n_targets)
    parts.add_solutions(fit.solutions)
    losses = tuple(problem.loss for problem in fit.problems)
    rho = np.column_stack([found.dual_coef for found in fit.solutions])[kept]
    intercepts = np.concatenate([np.atleast_1d(found.intercept) for found in fit.solutions])
    weights = np.broadcast_to(model._expansion.weights, (n_targets, len(active)))
    many = parts.matrix_free
    now = many and (stack.table.chunked or stack.shaped)
    grams = stack.block(kept, kept, active) if now else None  # features: among some rows, matrices are less
    unit = np.sum(weights * np.reshape(parts.sizes, weights.shape), axis=1)
    share = len(weight) / len(kept)
    fitted = targets_of(model, parts.values, intercepts, rho, losses, y[kept], weight[kept], unit, share)
    left = FactorRows(fitted, [] if many else parts.factors, grams, losses, y[kept], weight[kept])
    rank = max((sum(Z.shape[1] for Z, _ in own) for own in left.factors), default=0)
    late = many or parts.held_as_matrices or rank > RANK_PER_ROW * len(kept)
    return left.replace_factors(stack, active, kept, () if many else tuple(parts.tols.tolist())) if late else left


class _Parts:
    """Values, factors and sizes of the active kernels on some rows, by target, collected from solutions."""

    def __init__(self, stack: FactoredStack, active: Array, kept: Array, n_targets: int) -> None:
        none = np.zeros((len(kept), 0)), np.zeros(0)
        self.values = np.zeros((len(active), len(kept), n_targets))
        self.factors, self.tols = [[none] * len(active) for _ in range(n_targets)], np.full(len(active), FACTOR_TOL)
        self.sizes = np.zeros((n_targets, len(active)))  # mean diagonal of every kernel
        self.held_as_matrices = self.matrix_free = False  # whether any kernel is
        self._stack, self._kept, self._place = stack, kept, {int(m): slot for slot, m in enumerate(active)}
        self._rows_of = _rows_once(stack, kept)

    def add_solutions(self, solutions: Sequence[Any]) -> None:
        """Add the components of all solutions."""
        first = 0
        for found in solutions:
            functions: Any = found.functions
            for component in (each for each in functions.components if each.kernel in self._place):
                self._add(component, first + component.target)
            first += np.size(found.intercept)

    def _add(self, component: Any, target: int) -> None:
        """Add the function of a kernel for a target."""
        stack, at, kernel = self._stack, self._place[component.kernel], component.kernel
        if component.tol is None and not (stack.table.chunked or stack.shaped or stack.needs_products(kernel)):
            # Factors of what is held as a matrix are large, and are made when they are asked for.
            self.held_as_matrices = True
            self._add_values(component, target)
            return
        tol = FACTOR_TOL if component.tol is None else component.tol
        self.tols[at] = tol
        Z, v = self._rows_of(kernel, tol), component.coefficients
        if Z is None:
            self.matrix_free = True
            self._add_values(component, target)
            return
        if component.tol is None:
            self.values[at, :, target] = component.values(stack, stack.table, self._kept)
            support = np.flatnonzero(v)
            v = stack.templates([kernel], tol)[0].transfer(stack.table).rows(support).T @ v[support]
        else:
            self.values[at, :, target] = Z @ v
            if (G := stack.constraints_of(kernel)) is not None:  # without a row, curves move along faces
                Z, v = Z @ face(G, v), face(G, v).T @ v
        self.factors[target][at], self.sizes[target, at] = (Z, v), float(np.mean(np.sum(Z**2, axis=1)))

    def _add_values(self, component: Any, target: int) -> None:
        """Add the values of a function without factors, and the mean diagonal of the kernel."""
        at, kernel = self._place[component.kernel], component.kernel
        self.values[at, :, target] = component.values(self._stack, self._stack.table, self._kept)
        self.sizes[target, at] = self._stack._kernel_diag(kernel)[self._kept].mean()


def targets_of(
    model: BaseEstimator,
    values: Array,
    intercepts: float | Array,
    rho: Array,
    losses: Sequence[Any],
    y: Array,
    weight: Array,
    unit: Array,
    share: float,
) -> list[Target]:
    """Return every target of a model at the rows left out."""
    m, n, n_targets = values.shape
    scores = values.sum(axis=0) + intercepts
    first = losses[0]
    constants = np.ones((n, int(bool(getattr(model, "fit_intercept", True)))))
    if first.couples_samples:
        constants = first.bind(y[:, 0], weight).groups()
    curvature = curvatures(losses, y, scores, rho, weight, unit)
    # Where they follow from scores: duals of the certificate are scaled to be feasible.
    if first.couples_samples or all(loss.each.smooth for loss in losses):
        rho = _negative_gradients(losses, y, scores, weight)
    active = model._expansion.active
    norms = np.broadcast_to(np.atleast_2d(model.kernel_norms_)[:, active], (n_targets, m))
    weights = np.broadcast_to(model._expansion.weights, (n_targets, m))
    bends = getattr(model, "_norm_bends", np.array([[np.ones(m), np.zeros(m)]]))
    bends = np.broadcast_to(bends, (n_targets, 2, m))
    return [
        Target(values[:, :, k], scores[:, k], rho[:, k], curvature[:, k], constants, *own, share)
        for k, own in enumerate(zip(weights, norms, bends, strict=True))
    ]


def _negative_gradients(losses: Sequence[Any], y: Array, scores: Array, weight: Array) -> Array:
    if losses[0].couples_samples:
        return -losses[0].bind(y[:, 0], weight).gradient(scores[:, 0])[:, None]
    if losses[0].of_several:
        return -weight[:, None] * losses[0].derivative(y, scores)
    columns = zip(losses, y.T, scores.T, strict=True)
    return -np.column_stack([weight * loss.derivative(*one) for loss, *one in columns])


def _join(left: Iterable[tuple[Array, Array]], losses: Sequence[Any], y: Array, weight: Array) -> LeftOut:
    scores, parts = np.empty(y.shape), np.empty((0, *y.shape))
    for k, (whole, each) in enumerate(left):  # parts of a target at a time: all of them are the largest array
        parts = parts if len(parts) else np.empty((len(each), *y.shape))
        # With Cox's loss, the level belongs to the hazard, not to the scores.
        scores[:, k], parts[:, :, k] = each.sum(axis=0) if losses[0].couples_samples else whole, each
    return LeftOut(scores, parts, tuple(losses), y, weight)


# --- what a fitted model keeps of them --------------------------------------------------------------------------------


def keeps_rows(model: BaseEstimator, losses: Sequence[Any]) -> bool:
    """Return whether a model has everything for leave-one-out predictions."""
    each = [loss.each for loss in losses]
    smooth = all(loss.couples_samples or (loss.smooth and loss == each[0]) for loss in each)
    known = model._expansion.stores_samples and hasattr(model, "_support_targets")
    return known and smooth and model._expansion.bank.on_columns  # others are kernels of given samples


def keep_importance(model: BaseEstimator, fit: Fit, samples: Samples, losses: Sequence[Any], kernels: Any) -> None:
    """See to what rows left out lose, where the model keeps too little to be asked later.

    ``kernels`` are the rows in the form of all kernels, or a stack of factors; None after measurement in folds. The
    measurement is deferred until access, unless the sources are large.
    """
    forget(model, IMPORTANCE, ("_lost_by", "_importance_method", "_norm_bends"))
    expansion = model._expansion
    if not expansion.active.size:
        return
    if fit.problems:
        model._norm_bends = norm_bends(fit, expansion.active)
    whole = losses[0].couples_samples or len(getattr(model, "support_", ())) == len(samples.weight)
    if kernels is None or (whole and keeps_rows(model, losses)) or expansion.bank.raw.of_pairs:
        return
    if not expansion.stores_samples:
        try:
            rows = create_factor_rows(model, kernels, fit, samples.y, samples.weight)
        except UNKNOWN:
            return
        later, left = rows.nbytes <= MOST_BYTES, rows.leave_out
    else:
        rho = np.vstack([found.dual_coef.T for found in fit.solutions])
        narrowed = expansion.bank.narrow(kernels)
        own, apart = numbers_of_rows(narrowed, MOST_BYTES), drop_questions(copy.copy(model))
        later, narrowed = own is not None, narrowed if own is None else own
        known = (samples.y.copy(), samples.weight.copy())
        left = partial(leave_out_rows, apart, expansion.bank, narrowed, rho, losses, *known)
    answer = partial(_lost_by, expansion.bank, left)
    if later:
        put_off(model, IMPORTANCE, ("_lost_by",), answer)
    else:
        set_all(model, answer())


def norm_bends(fit: Fit, active: Array) -> Array:
    """Return the second derivatives of penalties along active functions, (K, 2, m) for K problems."""
    solved = zip(fit.problems, fit.solutions, fit.norms, strict=True)
    return np.array([bends_of(problem, found.kernel_weights, norms, active) for problem, found, norms in solved])


def _lost_by(bank: FittedBank, left_out: Callable[[], LeftOut]) -> dict[str, Any]:
    """Return the leave-one-out losses as attributes, or none."""
    try:
        lost = drops(bank, left_out())
    except UNKNOWN:
        return {}
    return {"_lost_by": lost} if all(np.isfinite(each).all() for each in lost.values()) else {}


def drops(bank: FittedBank, left: LeftOut) -> dict[str, Array]:
    """Return the increase in loss without every set of columns and every active kernel, and the number of rows."""
    n_active = len(left.parts)
    lost = {"columns": left.drops(units_of(bank, n_active)), "kernel": left.drops([[m] for m in range(n_active)])}
    return {**lost, "rows": np.array([float(len(left.weight))])}
