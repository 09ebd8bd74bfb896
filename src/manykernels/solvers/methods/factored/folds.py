"""Cross-validation of the squared loss on factors: folds share their sums over rows, and passes serve all of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from manykernels.exceptions import IncompatibleError, InvalidInputError
from manykernels.grams.factored import FactoredStack, factored_stack
from manykernels.kernels import KernelBank
from manykernels.objective.regularizers import get_regularizer
from manykernels.solvers.engines.factored.group_problem import GroupProblem
from manykernels.solvers.engines.factored.moments import FoldMoments
from manykernels.solvers.engines.factored.objective import group_penalty
from manykernels.solvers.methods.factored.certificate import DualBound
from manykernels.solvers.methods.factored.entering import violators
from manykernels.solvers.methods.factored.solve import default_bank
from manykernels.validation.arrays import check_count, check_positive

Array = NDArray[Any]

COARSE, FINEST = 1e-7, 1e-15  # share of the trace that factors leave at first, and at least; the gap contains it
FINER = 1e-3  # how much less they leave where it keeps the gap above its tolerance
MOST_RANK = 4000  # of all factors together: Hessians of folds are stored
MOST_ROUNDS = 50
INNER = 1e-3  # of the tolerance: how far a working set is solved
SWEEPS = 20  # attempts at that


@dataclass(frozen=True, eq=False)
class FoldPaths:
    """Models of every training fold at decreasing strengths, judged on the rows that the fold holds out.

    Attributes
    ----------
    strengths : (S,) float64
        Relative to the number of rows: ``strength / N`` of the mean loss, the ``alpha`` of the estimators.
    errors : (S, K) float64
        Mean squared errors on held-out rows.
    gaps : (S, K) float64
        Relative duality gaps, of the exact kernels on the training rows.
    n_active : (S, K) int
    passes : int
        Over all kernels, for all folds together.
    """

    strengths: Array
    errors: Array
    gaps: Array
    n_active: Array
    passes: int

    @property
    def best(self) -> float:
        """The strength with the smallest mean error."""
        return float(self.strengths[int(np.argmin(self.errors.mean(axis=1)))])

    def frame(self) -> pd.DataFrame:
        """Return a row a strength: error, its deviation over the folds, active kernels, the worst gap."""
        return pd.DataFrame(
            {
                "alpha": self.strengths,
                "mean_error": self.errors.mean(axis=1),
                "std_error": self.errors.std(axis=1),
                "n_active": self.n_active.mean(axis=1),
                "gap": self.gaps.max(axis=1),
            }
        )


def factored_folds(
    X: Any,
    y: ArrayLike,
    bank: KernelBank | FactoredStack | None = None,
    *,
    folds: int | Iterable[tuple[Array, Array]] = 5,
    alphas: Sequence[float] | None = None,
    n_alphas: int = 10,
    ratio: float = 0.01,
    kernel_penalties: ArrayLike | None = None,
    tol: float = 1e-4,
    shared: bool = True,
) -> FoldPaths:
    r"""Follow the block 1-norm path of the squared loss in all training folds at once.

    :math:`\min_{f,b} \frac12 \sum_{i \in T} (y_i - f_i - b)^2 + \alpha |T| \sum_m w_m \|f_m\|` needs of rows only
    :math:`[Z, 1]'[Z, 1]` and :math:`[Z, 1]'y`. These are sums, so that those of a training fold are the sums over all
    rows less those of the rows held out: one reading of the rows serves every fold and every strength. A pass over all
    kernels certifies all folds, for the exact kernels, and names the kernels that enter.

    Standardization, widths and bins are those of all rows: unlike the folds of `MKLRegressorCV`, which learn them anew,
    these see the columns, though not the targets, of the rows that they hold out.

    Parameters
    ----------
    X : DataFrame or (n_samples, n_columns) array
        In memory.
    y : array_like of shape (n_samples,)
    bank : KernelBank or FactoredStack, optional
        As in `solve_factored`.
    folds : int or iterable of (train, test), default=5
        A number of folds, drawn with a fixed seed, or held-out rows, which must not overlap; a fold trains on all
        others.
    alphas : sequence of float, optional
        Strengths relative to the mean loss.
    n_alphas, ratio : int, float
        Otherwise: how many, and the smallest over the largest, at which no fold selects a kernel.
    kernel_penalties : array_like of shape (n_kernels,), optional
    tol : float, default=1e-4
        Relative gap; factors get finer until it is met or they are exact to rounding.
    shared : bool, default=True
        False computes the sums of every fold from its own rows, which takes as many readings as there are folds.

    Returns
    -------
    FoldPaths

    Raises
    ------
    InvalidInputError
        If folds overlap, or y is not what it should be.
    IncompatibleError
        If rows come in chunks, or the factors that enter have too many columns.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import KernelBank
    >>> from manykernels.solvers import factored_folds
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> bank = KernelBank.per_feature(widths=[0.5, 1.0], standardize=True)
    >>> path = factored_folds(X, np.sin(2 * X[:, 0]), bank, folds=3, n_alphas=4)
    >>> path.frame().columns.tolist(), bool(path.best == path.strengths[-1])
    (['alpha', 'mean_error', 'std_error', 'n_active', 'gap'], True)
    """
    stack = bank if isinstance(bank, FactoredStack) else factored_stack(X, bank or default_bank())
    if stack.table.chunked:
        raise IncompatibleError(
            "factored_folds reads rows in memory; for rows in chunks, call solve_factored on parts."
        )
    target = np.asarray(y, dtype=np.float64)
    if target.shape != (stack.n_samples,) or not np.isfinite(target).all():
        raise InvalidInputError(f"y must be {stack.n_samples} finite numbers, one a row, got shape {target.shape}.")
    held, n_folds = _held(folds, stack.n_samples)
    weights = np.ones(stack.n_kernels) if kernel_penalties is None else np.asarray(kernel_penalties, dtype=np.float64)
    if weights.shape != (stack.n_kernels,) or not (weights > 0).all():
        raise InvalidInputError(f"kernel_penalties must be {stack.n_kernels} positive numbers.")
    moments = FoldMoments(target, held, n_folds, shared=shared)
    return _Paths(stack, moments, weights, check_positive(tol, "tol")).run(alphas, n_alphas, ratio)


def _held(folds: Any, n: int) -> tuple[Array, int]:
    """Return which fold holds out each row, -1 for none, and the number of folds."""
    if isinstance(folds, (int, np.integer)):
        count = check_count(folds, "folds", least=2, most=n)
        return np.random.default_rng(0).permutation(np.arange(n) % count), count
    held, number = np.full(n, -1), 0
    for number, (_, test) in enumerate(folds, 1):
        rows = np.asarray(test)
        if (held[rows] >= 0).any():
            raise InvalidInputError(
                f"Fold {number - 1} holds out rows that another one holds out: sums of folds are differences only "
                "where these are apart. Take KFold or GroupKFold."
            )
        held[rows] = number - 1
    if number < 2:
        raise InvalidInputError(f"Give at least two folds, got {number}.")
    return held, number


class _Paths:
    """The models of all folds at one strength after the other."""

    def __init__(self, stack: FactoredStack, moments: FoldMoments, weights: Array, tol: float) -> None:
        self.stack, self.moments, self.weights, self.tol = stack, moments, weights, tol
        self.passes, self._factor_tol = 0, COARSE
        self._neighbors = stack.neighbors()
        self._problems: list[GroupProblem] = []
        count = moments.n_folds
        self.rows = [moments.held != fold for fold in range(count)]
        self.v = [np.array([float(moments.y[rows].mean())]) for rows in self.rows]

    def run(self, alphas: Sequence[float] | None, n_alphas: int, ratio: float) -> FoldPaths:
        """Follow the path down."""
        grid = self._grid(n_alphas, ratio) if alphas is None else -np.sort(-np.asarray(alphas, dtype=np.float64))
        found = [self._at(float(alpha)) for alpha in grid]
        errors, gaps, active = (np.array(part) for part in zip(*found, strict=True))
        return FoldPaths(grid, errors, gaps, active, self.passes)

    def _grid(self, n_alphas: int, ratio: float) -> Array:
        rhos = [self._residual(fold)[0] for fold in range(len(self.rows))]
        largest = [
            float((np.sqrt(high) / self.weights).max()) / rows.sum()
            for (_, high), rows in zip(self._bounds(rhos), self.rows, strict=True)
        ]
        return np.geomspace(max(largest), ratio * max(largest), n_alphas)

    def _bounds(self, rhos: Sequence[Array]) -> list[tuple[Array, Array]]:
        """Return bounds on all quadratic forms of the residuals of every fold: one pass."""
        self.passes += 1
        return self.stack.quad_bounds_each(rhos)

    def _residual(self, fold: int) -> tuple[Array, Array]:
        """Return residuals on the training rows, zero on the others, and scores of all rows."""
        scores = self.moments.scores(self.v[fold])
        return np.where(self.rows[fold], self.moments.y - scores, 0.0), scores

    def _at(self, alpha: float) -> tuple[list[float], list[float], list[int]]:
        """Return errors, gaps and numbers of active kernels of the folds at one strength."""
        for number in range(MOST_ROUNDS):
            self._solve(alpha)
            state = [self._residual(fold) for fold in range(len(self.rows))]
            quads = self._bounds([rho for rho, _ in state])
            gaps = [self._gap(fold, alpha, state[fold][0], quads[fold]) for fold in range(len(self.rows))]
            wanted = self._entering(alpha, gaps, quads)
            if number == MOST_ROUNDS - 1 or not (len(wanted) or self._refines(gaps)):
                break
            self._enter(wanted)
        errors = [
            float(np.mean((self.moments.y - scores)[~rows] ** 2))
            for (_, scores), rows in zip(state, self.rows, strict=True)
        ]
        return errors, gaps, [int(np.sum(self._norms(v) > 0)) for v in self.v]

    def _norms(self, v: Array) -> Array:
        starts = self.moments.starts
        return np.sqrt(np.add.reduceat(v[:-1] ** 2, starts[:-1])) if len(starts) > 1 else np.zeros(0)

    def _gap(self, fold: int, alpha: float, rho: Array, quads: tuple[Array, Array]) -> float:
        """Return the relative gap of the exact kernels on the training rows of a fold."""
        strength = alpha * float(self.rows[fold].sum())
        y, norms = self.moments.y[self.rows[fold]], self._exact_norms(self.v[fold])
        own = rho[self.rows[fold]]
        primal = 0.5 * float(own @ own) + strength * float(self.weights[self.moments.kernels] @ norms[0])
        primal += norms[1] * float(np.abs(own).sum()) + 0.5 * norms[1] ** 2 * len(own)
        u = float((np.sqrt(quads[1]) / self.weights).max())
        centered = own - own.mean()
        scale = min(1.0, strength / max(u, 1e-300))
        return max(primal - float(scale * (y @ centered) - 0.5 * scale**2 * (centered @ centered)), 0.0) / primal

    def _exact_norms(self, v: Array) -> tuple[Array, float]:
        """Return bounds on the norms of the exact functions, and on how far scores are from theirs."""
        norms, shift, start, squares = self._norms(v), 0.0, 0, []
        for operator in self.moments.operators:
            stop = start + int(operator.starts[-1])
            square, score = operator.excess(v[start:stop])
            squares.append(square)
            shift += float(score.sum())
            start = stop
        return (np.sqrt(norms**2 + np.concatenate(squares)) if squares else norms), shift

    def _entering(self, alpha: float, gaps: list[float], quads: Sequence[tuple[Array, Array]]) -> Array:
        """Return kernels that are missing in folds whose gap is too large."""
        used, chosen = self.moments.kernels, [np.zeros(0, dtype=np.int64)]
        for fold, (low, high) in enumerate(quads):
            if gaps[fold] > self.tol:
                limit = alpha * float(self.rows[fold].sum())
                bound = [np.sqrt(side) / self.weights for side in (high, low)]
                found = DualBound(0.0, np.zeros(0), bound[0], bound[1], 1.0, 0.0, 0, 0)
                chosen.append(violators(found, used, self._neighbors, limit, 1.0 + 0.1 * self.tol))
        return np.setdiff1d(np.concatenate(chosen), used)

    def _refines(self, gaps: list[float]) -> bool:
        """Take finer factors of the same kernels, if a gap needs them and there are any; say whether."""
        kernels = self.moments.kernels
        if max(gaps) <= self.tol or self._factor_tol <= FINEST or not len(kernels):
            return False
        self._factor_tol = max(FINER * self._factor_tol, FINEST)
        old = self.moments
        self.moments = FoldMoments(old.y, old.held, old.n_folds, shared=old.shared)
        self.v = [v[-1:] for v in self.v]
        self._enter(kernels)
        return True

    def _enter(self, kernels: Array) -> None:
        """Add kernels to the working set of all folds."""
        if not len(kernels):
            return
        before = self.moments.rank
        self.moments.grow(self.stack.operators(kernels.tolist(), self._factor_tol))
        if self.moments.rank > MOST_RANK:
            raise IncompatibleError(
                f"The factors of {len(self.moments.kernels)} kernels have {self.moments.rank} columns, more than the "
                f"{MOST_RANK} whose sums folds can share. Raise the strengths, or use MKLRegressorCV."
            )
        new = np.zeros(self.moments.rank - before)
        self.v = [np.concatenate([v[:-1], new, v[-1:]]) for v in self.v]
        self._problems = []

    def _solve(self, alpha: float) -> None:
        """Minimize the quadratic of every fold on the working set."""
        if not self.moments.rank:
            return
        for fold, rows in enumerate(self.rows):
            gram, inner = self.moments.of(fold)
            regularizer = get_regularizer("l1", alpha * float(rows.sum()))
            penalty = group_penalty(regularizer, self.moments.starts, self.weights[self.moments.kernels])
            if len(self._problems) <= fold:
                self._problems.append(GroupProblem(gram.copy(), penalty.with_intercept()))
            problem = self._problems[fold]
            problem.penalty = replace(penalty.with_intercept())
            first = problem.penalty.violation(np.zeros_like(inner), -inner)
            v = self.v[fold]
            for _ in range(SWEEPS):
                gradient = gram @ v - inner
                if problem.penalty.violation(v, gradient) <= INNER * self.tol * first:
                    break
                v = problem.solve(v, gradient, 0.01)[0]
            self.v[fold] = v
