"""The problem of several targets with shared weights as one of a single target on a copy of the samples for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from manykernels.grams.factored import FactoredStack, FactorOperator
from manykernels.grams.factored.operators import CHUNK_ROWS, DenseOperator
from manykernels.grams.rows.columns import ColumnTable
from manykernels.kernels import KernelSpec
from manykernels.objective.problem import Problem
from manykernels.solvers.factored.curvatures import Bends, SampleBends, sampled_rows
from manykernels.solvers.factored.loss_sides import LossSide, SumOverSamples
from manykernels.solvers.factored.objective import balance
from manykernels.solvers.factored.smoothing import CHUNK_ENTRIES, MIN_ROWS

# Factors of ``K (x) I``, kernels on a copy of the samples for every target: coordinates by kernel, target and rank.


Array = NDArray[Any]


class OperatorOfTargets:
    """The factors of an operator, once for every target; vectors over rows are those of target after target, (T N,).

    Parameters
    ----------
    base : FactorOperator
        Of one copy of the samples.
    n_targets : int

    Attributes
    ----------
    place : (T, r) int
        Where the coefficients of each target stand.
    """

    def __init__(self, base: FactorOperator, n_targets: int) -> None:
        self.base, self.n_targets = base, n_targets
        self.kernels, self.positions, self.starts = base.kernels, base.positions, base.starts * n_targets
        parts = [n_targets * low + np.arange(n_targets * (high - low)) for low, high in pairwise(base.starts.tolist())]
        self.place = np.hstack([part.reshape(n_targets, -1) for part in parts])

    def add_scores(self, v: Array, out: Array) -> None:
        """Add ``Z v_t`` to the scores of every target."""
        parts, scores = v[self.place], out.reshape(self.n_targets, -1)
        if isinstance(self.base, DenseOperator):
            self.base.add_scores(parts.T, scores.T)
            return
        for part, own in zip(parts, scores, strict=True):
            if part.any():
                self.base.add_scores(part, own)

    def adjoint(self, rho: Array) -> Array:
        """Return ``Z' rho_t`` of every target."""
        columns, out = rho.reshape(self.n_targets, -1), np.empty(self.place.size)
        if isinstance(self.base, DenseOperator):
            out[self.place] = self.base.adjoint(columns.T).T
        else:
            out[self.place] = [self.base.adjoint(column) for column in columns]
        return out

    def rows(self, index: Array) -> Array:
        """Return rows of ``Z``, which all targets have."""
        return self.base.rows(index)

    def excess(self, v: Array) -> tuple[Array, Array]:
        """Bound what the exact kernels add: squared norms over all targets, and the largest change of any score."""
        squares, scores = zip(*(self.base.excess(part) for part in v[self.place]), strict=True)
        return np.sum(squares, axis=0), np.max(scores, axis=0)


def places(operators: Sequence[OperatorOfTargets]) -> Array:
    """Return where the coefficients of each target stand among those of several operators, (T, r)."""
    lows = np.cumsum([0] + [operator.place.size for operator in operators])[:-1]
    return np.hstack([operator.place + low for operator, low in zip(operators, lows, strict=True)])


# Kernels ``K_m (x) I``: what several targets with shared weights are to one kernel is what one target is to these.


class StackOfTargets(FactoredStack):
    """The kernels of a stack on a copy of its samples for every target, zero between copies.

    ``rho' K rho`` is a sum over targets, and so are its bounds; a pass serves all targets.

    Parameters
    ----------
    stack : FactoredStack
        Of one copy.
    n_targets : int
    """

    def __init__(self, stack: FactoredStack, n_targets: int) -> None:
        size = stack.n_samples * n_targets
        super().__init__(stack.n_kernels, size, stack.dtype, names=stack.names, n_threads=stack.n_threads)
        self.base, self.n_targets = stack, n_targets
        self.table = stack.table

    def columns(self, rho: Array) -> Array:
        """Return a vector over all copies as one column a target, (N, T)."""
        return rho.reshape(self.n_targets, -1).T

    # --- passes ------------------------------------------------------------------------------------------------------

    def _quad(self, r: Array) -> Array:
        return np.sum([self.base.quad(np.ascontiguousarray(column)) for column in self.columns(r).T], axis=0)

    def error_bound(self, rho: Array) -> Array:
        """Return bounds (M,) on the error of ``quad(rho)``."""
        return np.sum([self.base.error_bound(column) for column in self.columns(rho).T], axis=0)

    def quad_bounds(self, rho: Array) -> tuple[Array, Array]:
        """Return bounds (M,) from below and above on ``sum_t rho_t' K_m rho_t``: one pass."""
        low, high = zip(*self.base.quad_bounds_each(list(self.columns(rho).T)), strict=True)
        return np.sum(low, axis=0), np.sum(high, axis=0)

    def exact_quad(self, kernel: int, rho: Array) -> tuple[float, float]:
        """Return the form of one kernel as well as it can be had, and a bound on its error."""
        parts = [self.base.exact_quad(kernel, np.ascontiguousarray(column)) for column in self.columns(rho).T]
        values, errors = zip(*parts, strict=True)
        return sum(values), sum(errors)

    @property
    def exact_cost(self) -> float:
        """Kernel values that one exact quadratic form computes."""
        return self.n_targets * self.base.exact_cost

    @property
    def error_constants(self) -> Array:
        """Bounds (M,) on ``|quad(rho)_m - rho' K_m rho| / ||rho||_1^2``."""
        return self.base.error_constants

    # --- factors -----------------------------------------------------------------------------------------------------

    def operators(self, kernels: Sequence[int], tol: float) -> list[FactorOperator]:
        """Return the factors of these kernels for every target."""
        return [OperatorOfTargets(operator, self.n_targets) for operator in self.base.operators(kernels, tol)]

    def templates(self, kernels: Sequence[int], tol: float) -> list[Any]:
        """Return operators of one copy without rows."""
        return self.base.templates(kernels, tol)

    def factor(self, kernel: int, tol: float) -> Array:
        """Return ``Z_m`` of all copies."""
        return np.kron(np.eye(self.n_targets), self.base.factor(kernel, tol))

    def features(self, kernel: int, X: ColumnTable, tol: float) -> Array:
        """Return the rows of ``Z_m`` that copies of new samples would have."""
        return np.kron(np.eye(self.n_targets), self.base.features(kernel, X, tol))

    # --- what the stack of one copy knows ----------------------------------------------------------------------------

    def _block(self, rows: Array, cols: Array, kernels: Array) -> Array:
        n = self.base.n_samples
        same = (rows // n)[:, None] == cols // n
        return np.where(same, self.base.block(rows % n, cols % n, kernels), 0.0)

    def _kernel_diag(self, kernel: int) -> Array:
        return np.tile(self.base._kernel_diag(kernel), self.n_targets)

    @cached_property
    def largest(self) -> Array:
        """Return the largest diagonal entry of every kernel, (M,)."""
        return self.base.largest

    def diag_sums(self, weight: Array) -> Array:
        """Return ``sum_i s_i k_m(x_i, x_i)`` over all copies, (M,)."""
        return self.base.diag_sums(self.columns(weight).sum(axis=1))

    def cross_apply(self, kernel: int, X: ColumnTable, rho: Array) -> Array:
        """Return ``sum_i rho_i k_m(x, x_i)`` at copies of new rows."""
        return np.concatenate([self.base.cross_apply(kernel, X, column) for column in self.columns(rho).T])

    @property
    def nbytes(self) -> int:
        """Bytes held by the stack of one copy."""
        return self.base.nbytes

    def spec_of(self, kernel: int) -> KernelSpec:
        """Return a kernel by itself, without scale."""
        return self.base.spec_of(kernel)

    def columns_of(self, kernel: int) -> tuple[int, ...]:
        """Return the columns that a kernel acts on."""
        return self.base.columns_of(kernel)

    @property
    def most_landmarks(self) -> int:
        """Columns that factors of kernels on several columns may have."""
        return self.base.most_landmarks

    def left_over(self, kernel: int, tol: float) -> float:
        """Return the part of the trace that a factor leaves although it should not."""
        return self.base.left_over(kernel, tol)

    def neighbors(self) -> Array:
        """Return for every kernel those that are next to it in width."""
        return self.base.neighbors()


# Losses of several targets as functions of all scores, those of target after target.


# Second derivatives of losses of several targets in their scores, and ``Z' H Z`` by kernel, target and rank.


class BendsOfTargets(SampleBends):
    """Those of a sum over samples and targets: a Hessian for each target, all from the same rows.

    Parameters
    ----------
    diagonal : (T N,)
    n_targets : int
    """

    def __init__(self, diagonal: Array, n_targets: int) -> None:
        super().__init__(diagonal)
        self.n_targets = n_targets

    def plus(self, share: float, others: SampleBends) -> BendsOfTargets:
        """Return these and a share of others."""
        return BendsOfTargets(self.diagonal + share * others.diagonal, self.n_targets)

    def gram(self, operators: Sequence[Any], rows: int, *, intercept: bool) -> Array:
        """Return ``Z' H Z`` from about so many of the rows, zero between targets; unbiased."""
        bends = self.diagonal.reshape(self.n_targets, -1)
        total = bends.sum(axis=0)
        index, weights = sampled_rows(total, rows)
        weights = weights / total[index]
        alike = bool((bends == bends[0]).all())
        grams = [np.zeros(()) for _ in range(1 if alike else self.n_targets)]
        for part, Z in _chunks(operators, index, intercept=intercept):
            for t in range(len(grams)):
                own = Z * np.sqrt(weights[part] * bends[t, index[part]])[:, None]
                grams[t] = grams[t] + own.T @ own
        place = _places(operators, intercept=intercept)
        H = np.zeros((place.size, place.size))
        for t, own_place in enumerate(place):
            H[np.ix_(own_place, own_place)] = grams[0 if alike else t]
        return H


class CoupledBends(Bends):
    """Those of the multinomial loss, ``s (diag(p) - p p')`` in the scores of each sample.

    Parameters
    ----------
    p : (T, N)
        Probabilities.
    weight : (N,)
    """

    def __init__(self, p: Array, weight: Array) -> None:
        self.p, self.weight, self.diagonal = p, weight, (weight * p).ravel()

    def block(self, operator: Any, rows: int) -> Array:
        """Return ``Z' H Z`` with ``p (1 - p) T / (T - 1)`` for ``diag(p) - p p'``, the same where classes are alike.

        With nothing between targets it is a ``T``-th of the work; slopes are exact all the same.
        """
        n_targets = len(self.p)
        alone = self.weight * self.p * (1.0 - self.p) * (n_targets / (n_targets - 1.0))
        return BendsOfTargets(alone.ravel(), n_targets).block(operator, rows)

    def product(self, x: Array) -> Array:
        """Return ``H x``."""
        px = self.p * x.reshape(self.p.shape)
        return np.ravel(self.weight * (px - self.p * px.sum(axis=0)))

    def square(self, x: Array) -> float:
        """Return ``x' H x``."""
        return max(float(x @ self.product(x)), 0.0)

    def gram(self, operators: Sequence[Any], rows: int, *, intercept: bool) -> Array:
        """Return ``Z' H Z`` from about so many of the rows; unbiased."""
        index, weights = sampled_rows(self.weight * (1.0 - (self.p**2).sum(axis=0)), rows)
        ratios = weights / (1.0 - (self.p[:, index] ** 2).sum(axis=0))  # sample weights over chances
        place = _places(operators, intercept=intercept)
        H = np.zeros((place.size, place.size))
        for part, Z in _chunks(operators, index, intercept=intercept):
            roots = np.sqrt(ratios[part])[:, None]
            sides = np.empty((len(Z), place.size))
            for p, own_place in zip(self.p[:, index[part]], place, strict=True):
                sides[:, own_place] = p[:, None] * roots * Z
                own = np.sqrt(p)[:, None] * roots * Z
                H[np.ix_(own_place, own_place)] += own.T @ own
            H -= sides.T @ sides
        if intercept:  # the same shift of all scores changes nothing: there is to be none
            ends = place[:, -1]
            H[np.ix_(ends, ends)] += np.trace(H[np.ix_(ends, ends)]) / len(ends) ** 2
        return H


def _chunks(operators: Sequence[OperatorOfTargets], index: Array, *, intercept: bool) -> Iterator[tuple[slice, Array]]:
    """Yield slices of an index and these rows of the factors of one target, of ones as well for intercepts."""
    rank = sum(operator.place.shape[1] for operator in operators)
    step = min(CHUNK_ROWS, max(MIN_ROWS, CHUNK_ENTRIES // (rank + intercept)))
    for start in range(0, len(index), step):
        part = slice(start, start + step)
        chosen = index[part]
        ones = [np.ones((len(chosen), 1))] if intercept else []
        yield part, np.hstack([operator.rows(chosen) for operator in operators] + ones)


def _places(operators: Sequence[OperatorOfTargets], *, intercept: bool) -> Array:
    """Return where the coefficients of each target stand, intercepts behind all, (T, r) or (T, r + 1)."""
    place = places(operators)
    ends = place.size + np.arange(len(place))[:, None]
    return np.hstack([place, ends]) if intercept else place


STEEPEST = 2.0  # sum of the sizes of derivatives of the multinomial loss in the scores of a sample, at most


class SumOverTargets(SumOverSamples):
    """``sum_it s_i l(y_it, z_it)``, smoothed by ``mu`` where it has kinks."""

    def __init__(self, problem: Problem, mu: float, n_targets: int) -> None:
        super().__init__(problem, mu)
        self._n_targets = n_targets

    def bends(self, z: Array) -> BendsOfTargets:
        """Return ``s l''(z)``."""
        return BendsOfTargets(super().bends(z).diagonal, self._n_targets)

    def majorizers(self, z: Array) -> BendsOfTargets:
        """Return curvatures that are safe far from the solution."""
        return BendsOfTargets(super().majorizers(z).diagonal, self._n_targets)


class CoupledScores:
    """A smooth loss whose targets act on each other, ``sum_i s_i l(y_i, z_i)``: the multinomial one."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.loss, self.y = problem, problem.loss, problem.y

    def _columns(self, z: Array) -> Array:
        return z.reshape(self.y.shape[1], -1).T

    def value(self, z: Array) -> float:
        """Return the loss."""
        return self.problem.empirical_loss(self._columns(z))

    def slopes(self, z: Array) -> Array:
        """Return its gradient."""
        return np.ravel(self.problem.weight * self.loss.derivative(self.y, self._columns(z)).T)

    def bends(self, z: Array) -> CoupledBends:
        """Return its Hessian."""
        return CoupledBends(np.ascontiguousarray(self.loss.curvature(self.y, self._columns(z)).T), self.problem.weight)

    def majorizers(self, z: Array) -> BendsOfTargets:
        """Return a diagonal above every Hessian."""
        n_targets = self.y.shape[1]
        return BendsOfTargets(np.tile(self.loss.curvature_bound * self.problem.weight, n_targets), n_targets)

    def conjugate(self, z: Array, rho: Array, scale: float) -> float:
        """Return the conjugate."""
        return self.problem.conjugate_loss(scale * self._columns(rho))

    def around(self, z: Array, shift: float | Array) -> float:
        """Return the loss and how steeply it can rise."""
        return self.value(z) + STEEPEST * max(float(np.max(shift)), 0.0) * self.problem.total_weight


class ProblemOfTargets(Problem):
    """``T N`` samples, kernels ``K_m (x) I``, an intercept for each copy: the same primal, dual and block norms.

    Made by `of`. Vectors over samples are those of target after target. ``loss`` is that of one score; the loss of
    a problem whose targets act on each other is in its `side`.
    """

    shared: ClassVar[bool] = True
    whole: Problem

    @classmethod
    def of(cls, problem: Problem) -> ProblemOfTargets:
        """Return a shared problem in this form."""
        stack: Any = problem.stack
        flat = cls(
            StackOfTargets(stack, problem.n_targets),
            problem.y.T.ravel(),
            problem.loss.each,
            problem.regularizer,
            fit_intercept=problem.fit_intercept,
            sample_weight=np.tile(problem.weight, problem.n_targets),
            kernel_penalties=problem.penalties,
        )
        flat._set("whole", problem)
        flat._set("n_targets", problem.n_targets)
        return flat

    def _check_solvable(self) -> None:
        """Nothing: the problem that this one is another form of was checked."""

    @cached_property
    def tiny(self) -> float:
        """Floor of the denominator of the relative gap."""
        return self.whole.tiny

    def columns(self, vector: Array) -> Array:
        """Return a vector over all copies as one column a target, (N, T)."""
        return vector.reshape(self.n_targets, -1).T

    def constant_scores(self, b: Any) -> Array:
        """Scores (T N,) of the model without kernels."""
        return np.repeat(np.broadcast_to(np.asarray(b, dtype=np.float64), self.n_targets), self.whole.n_samples)

    def zero_model(self) -> tuple[Array, Any]:
        """Return the optimal dual coefficients (T N,) and intercepts (T,) of the model without kernels."""
        rho, b = self.whole.zero_model()
        return rho.T.ravel(), b

    def empirical_loss(self, z: Array) -> float:
        """Return the loss of all targets."""
        return self.whole.empirical_loss(self.columns(z))

    def conjugate_loss(self, rho: Array) -> float:
        """Return the conjugate of the loss of all targets."""
        return self.whole.conjugate_loss(self.columns(rho))

    def side(self, mu: float) -> LossSide:
        """Return the loss as a function of all scores."""
        return CoupledScores(self.whole) if self.whole.loss.coupled else SumOverTargets(self, mu, self.n_targets)

    def balanced(self, rho: Array) -> Array:
        """Return dual coefficients in the domain of the loss, of zero sum for each intercept, near those in the box."""
        if self.whole.loss.coupled:
            sums = self.fit_intercept
            return self.whole.loss.feasible(self.whole.y, self.columns(rho), self.whole.weight, sums=sums).T.ravel()
        return np.concatenate([balance(row) for row in self.columns(rho).T]) if self.fit_intercept else rho

    def in_domain(self, rho: Array) -> Array:
        """Return dual coefficients that rounding may have left outside the box, inside."""
        return rho if self.whole.loss.coupled else np.clip(rho, *self.dual_box)
