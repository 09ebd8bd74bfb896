r"""Models of the squared loss in all training folds at once: folds share sums over rows, and passes serve them all.

With factors ``Z`` of the kernels in use, the model of a training fold ``T`` minimizes the quadratic
:math:`\frac12 \sum_{i \in T} s_i (y_i - z_i' v - b)^2 + \Omega(v)`, which knows the rows by
:math:`[Z, 1]_T' S [Z, 1]_T` and :math:`[Z, 1]_T' S y_T` alone: the sums over all rows less those of the rows held out.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise

import numpy as np

from manykernels.exceptions import IncompatibleError
from manykernels.grams.factored import FactoredStack, FactorOperator
from manykernels.grams.factored.operators import CHUNK_ROWS
from manykernels.objective.certificate import Certificate
from manykernels.objective.problem import Problem
from manykernels.solvers.factored.certificate import (
    DualBound,
    certificate_of,
    contributors,
    dual_bound,
    feasible,
    selects,
    violators,
)
from manykernels.solvers.factored.group_penalty import GroupPenalty
from manykernels.solvers.factored.group_problem import GroupProblem
from manykernels.solvers.factored.model import FactorFunctions
from manykernels.solvers.factored.solver import FactoredNewton
from manykernels.solvers.factored.state import Component
from manykernels.solvers.run import check_deadline
from manykernels.solvers.solution import Solution, Status
from manykernels.validation.arrays import Array

COARSE = 1e-3  # of the tolerance: share of the trace that factors leave at first
FINEST = 1e-15  # share of the trace that they leave at least
FINER = 1e-3  # how much less they leave where it keeps a gap above its tolerance
MOST_RANK = 4000  # of all factors together: Hessians of folds are stored
MOST_ROUNDS = 50
INNER, CLOSEST = 1e-3, 1e-15  # of the tolerance: to which share of the first violation working sets are solved; least
CLOSER = 1e-2  # how much less of it where a gap is that of the working set, which is so above this part of it
OWN_SHARE = 0.3
SWEEPS = 20  # attempts at that

Slot = tuple[int, int]  # a fold and a target


class Moments:
    """``[Z, 1]' S [Z, 1]`` and ``[Z, 1]' S Y`` of the training rows of every fold, for factors that may grow in number.

    Parameters
    ----------
    Y : (N, T) float64
        Targets.
    weight : (N,) float64
        Of the samples, ``S`` as a diagonal.
    held : (N,) int
        The fold that holds a row out, -1 for none.
    n_folds : int
    """

    def __init__(self, Y: Array, weight: Array, held: Array, n_folds: int) -> None:
        self.Y, self.weight, self.held, self.n_folds = Y, weight, held, n_folds
        self.operators: list[FactorOperator] = []
        self.rank = 0
        self._grams = [self._part(rows, [], []) for rows in self._rows()]
        self._inner = [(weight[rows] @ Y[rows])[None] for rows in self._rows()]
        self._add_up()

    def emptied(self) -> Moments:
        """Return the sums of the same folds without any factor."""
        return Moments(self.Y, self.weight, self.held, self.n_folds)

    def _rows(self) -> list[Array]:
        """Return the rows of every sum: those each fold holds out and those none does."""
        return [np.flatnonzero(self.held == fold) for fold in chain(range(self.n_folds), [-1])]

    @property
    def kernels(self) -> Array:
        """Kernels of the factors, in their order."""
        return np.concatenate([np.zeros(0, dtype=np.int64), *(operator.kernels for operator in self.operators)])

    @property
    def starts(self) -> Array:
        """Where the coefficients of each kernel begin, and the rank."""
        return starts_of(self.operators)

    def grow(self, operators: Sequence[FactorOperator]) -> None:
        """Add factors; only sums with the new ones are computed."""
        old = list(self.operators)
        for at, rows in enumerate(self._rows()):
            self._grams[at] = self._bordered(self._grams[at], self._part(rows, old, operators))
            inner = [np.column_stack([operator.adjoint(y) for y in self._masked(rows).T]) for operator in operators]
            self._inner[at] = np.concatenate([self._inner[at][:-1], *inner, self._inner[at][-1:]])
        self.operators += operators
        self.rank = int(self.starts[-1])
        self._add_up()

    def _add_up(self) -> None:
        """Keep the sums over all rows, from which those of a fold are subtracted."""
        self._total: Array = np.add.reduce(self._grams)
        self._total_inner: Array = np.add.reduce(self._inner)

    def _masked(self, rows: Array) -> Array:
        """Return the weighted targets on some rows, zero on the others."""
        out = np.zeros_like(self.Y)
        out[rows] = self.weight[rows, None] * self.Y[rows]
        return np.asfortranarray(out)

    def _part(self, rows: Array, old: Sequence[FactorOperator], new: Sequence[FactorOperator]) -> Array:
        """Return ``[Z_old, Z_new, 1]' S [Z_new, 1]`` over some rows."""
        total: Array | float = 0.0
        for start in range(0, max(len(rows), 1), CHUNK_ROWS):
            index = rows[start : start + CHUNK_ROWS]
            fresh = np.hstack([operator.rows(index) for operator in new] + [np.ones((len(index), 1))])
            every = np.hstack([operator.rows(index) for operator in old] + [fresh])
            total = total + every.T @ (self.weight[index, None] * fresh)
        return np.asarray(total)

    def _bordered(self, gram: Array, part: Array) -> Array:
        """Return a gram with new factors before its last row and column, those of ones."""
        before, size = len(gram) - 1, len(part)
        out = np.empty((size, size))
        out[:before, :before] = gram[:-1, :-1]
        out[:, before:] = part
        out[before:, :before] = part[:before].T
        return out

    def of(self, fold: int) -> tuple[Array, Array]:
        """Return ``[Z, 1]' S [Z, 1]`` and ``[Z, 1]' S Y`` over the training rows of a fold."""
        return self._total - self._grams[fold], self._total_inner - self._inner[fold]

    def slopes(self, fold: int, target: int, v: Array) -> Array:
        """Return ``[Z, 1]' S ([Z, 1] v - y)`` over the training rows of a fold."""
        inner = self._total_inner[:, target] - self._inner[fold][:, target]
        return np.asarray(self._total @ v - self._grams[fold] @ v - inner)

    def scores(self, v: Array) -> Array:
        """Return ``[Z, 1] v`` of all rows."""
        out, start = np.full(len(self.Y), v[-1]), 0
        for operator in self.operators:
            stop = start + int(operator.starts[-1])
            if v[start:stop].any():
                operator.add_scores(v[start:stop], out)
            start = stop
        return out


def starts_of(operators: Sequence[FactorOperator]) -> Array:
    """Return where the coefficients of each kernel of these operators begin, and the rank."""
    ranks = [np.diff(operator.starts) for operator in operators]
    return np.concatenate([[0], np.cumsum(np.concatenate([np.zeros(0, dtype=np.int64), *ranks]))]).astype(np.int64)


@dataclass(frozen=True, eq=False)
class _Pass:
    """What a pass said of one fold's model of one target at the strength at hand."""

    problem: Problem
    bound: DualBound
    best: DualBound  # of those at this strength
    norms: Array  # (M,): at least those of the functions
    own_gap: float


class PooledNewton:
    """The working set of all folds, and where their models stand.

    Parameters
    ----------
    stack : FactoredStack
        Of all rows.
    moments : Moments
        Of the targets, without factors.
    tol : float
        Relative gap of the exact kernels on the training rows of each fold.
    fit_intercept : bool, default=True
    max_rounds : int
        Passes at one strength, after the first.
    most_rank : int
        Of all factors that enter together.

    Attributes
    ----------
    training : list of (N,) bool
        The training rows of each fold.
    passes : int
        Over all kernels, for all folds together.
    """

    def __init__(
        self,
        stack: FactoredStack,
        moments: Moments,
        tol: float,
        *,
        fit_intercept: bool = True,
        max_rounds: int = MOST_ROUNDS,
        most_rank: int = MOST_RANK,
    ) -> None:
        if stack.shaped:
            raise IncompatibleError("Folds cannot share sums where columns have shapes: fit every fold by itself.")
        self.stack, self.moments, self.tol = stack, moments, tol
        self.fit_intercept, self.max_rounds, self.most_rank = fit_intercept, max_rounds, most_rank
        self.passes, self._steps, self._factor_tol = 0, 0, min(COARSE, COARSE * tol)
        self._inner = INNER * tol
        self._neighbors = stack.neighbors
        self._problems: dict[int, GroupProblem] = {}
        self.training = [moments.held != fold for fold in range(moments.n_folds)]
        slots = [(fold, target) for fold in range(moments.n_folds) for target in range(moments.Y.shape[1])]
        self._v = {slot: self._constant(*slot) for slot in slots}

    def _constant(self, fold: int, target: int) -> Array:
        """Return the coefficients of the best constant."""
        total, inner = self.moments.of(fold)
        return np.array([inner[-1, target] / total[-1, -1] if self.fit_intercept else 0.0])

    # --- at one strength ---------------------------------------------------------------------------------------------

    def at(self, posed: Sequence[Sequence[Problem]]) -> list[list[Solution]]:
        """Return the models of every fold and target under these penalties, started where the last ones stand."""
        started, before = time.perf_counter(), self.passes
        found: dict[Slot, Solution] = {}
        waiting, rounds = list(self._v), 0
        while True:  # at most max_rounds
            rounds += 1
            check_deadline()
            self._solve(posed, waiting)
            self._certify(posed, waiting, found)
            waiting = [slot for slot in waiting if found[slot].dual_gap > self.tol]
            entering = self._entering({slot: found[slot] for slot in waiting})
            own = any(found[slot].state.own_gap > OWN_SHARE * found[slot].dual_gap for slot in waiting)
            if not waiting or rounds > self.max_rounds or not (len(entering) or self._closer(own) or self._refined()):
                break
            self._enter(entering)
        told = (self.passes - before, rounds, time.perf_counter() - started)
        return [
            [self._ended(found[fold, target], *told) for target in range(self.moments.Y.shape[1])]
            for fold in range(self.moments.n_folds)
        ]

    def slopes(self, fold: int, target: int) -> tuple[Array, Array]:
        """Return ``s (y - z)`` on the training rows of a fold, zero on the others, and the scores ``z`` of all rows."""
        scores = self.moments.scores(self._v[fold, target])
        errors = self.moments.weight * (self.moments.Y[:, target] - scores)
        return np.where(self.training[fold], errors, 0.0), scores

    def bounds(self, rhos: Sequence[Array]) -> list[tuple[Array, Array]]:
        """Return bounds on the quadratic forms of all kernels: one pass."""
        self.passes += 1
        return self.stack.quad_bounds_each(rhos)

    def _certify(self, posed: Sequence[Sequence[Problem]], slots: Sequence[Slot], found: dict[Slot, Solution]) -> None:
        """Certify models for the exact kernels; of lower bounds at one strength the best is kept."""
        slopes, scores = zip(*(self.slopes(*slot) for slot in slots), strict=True)
        rhos = [
            feasible(posed[fold][target], -rho, z)[0]
            for (fold, target), rho, z in zip(slots, slopes, scores, strict=True)
        ]
        for slot, rho, z, quads in zip(slots, rhos, scores, self.bounds(rhos), strict=True):
            problem = posed[slot[0]][slot[1]]
            # Rows that are held out add nothing: their scores are the targets, their dual coefficients zero.
            own = np.where(self.training[slot[0]], z, problem.y)
            primal, norms = self._primal(problem, slot, own)
            bound = dual_bound(problem, rho, own, quads, primal, self.tol)
            earlier = [found[slot].state.best] if slot in found else []
            best = max([*earlier, bound], key=lambda own: own.value)
            own_gap = self._own_gap(problem, slot, rho, own)
            certificate = certificate_of(problem, primal, best, own)
            found[slot] = self._model(self._v[slot], certificate, _Pass(problem, bound, best, norms, own_gap))

    def _primal(self, problem: Problem, slot: Slot, z: Array) -> tuple[float, Array]:
        """Return an upper bound on the objective of the exact kernels, and on the norms of all functions (M,)."""
        v, start, squares, shift = self._v[slot], 0, [np.zeros(0)], 0.0
        for operator in self.moments.operators:
            stop = start + int(operator.starts[-1])
            square, score = operator.excess(v[start:stop])
            squares.append(square)
            shift += float(score.sum())
            start = stop
        kernels = self.moments.kernels
        norms = np.zeros(problem.n_kernels)
        norms[kernels] = np.sqrt(self._norms(v) ** 2 + np.concatenate(squares))
        used = problem.penalties[kernels] * norms[kernels]
        return problem.bound.largest(z, shift) + problem.regularizer.take(kernels).value(used), norms

    def _own_gap(self, problem: Problem, slot: Slot, rho: Array, z: Array) -> float:
        """Return the relative gap of the problem with factors in place of kernels, of which only these are in use."""
        v, kernels = self._v[slot], self.moments.kernels
        regularizer = problem.regularizer.take(kernels)
        primal = problem.empirical_loss(z) + regularizer.value(problem.penalties[kernels] * self._norms(v))
        u = self._norms(self.moments.slopes(*slot, v)) / problem.penalties[kernels]
        scale = regularizer.dual_scale(u) if len(u) else 1.0
        dual = -problem.conjugate_loss(scale * rho) - (regularizer.conjugate(scale * u) if len(u) else 0.0)
        return max(primal - dual, 0.0) / max(abs(primal), problem.tiny)

    def _norms(self, v: Array) -> Array:
        """Return the norms of the coefficients of every kernel in use."""
        starts = self.moments.starts
        return np.sqrt(np.add.reduceat(v[:-1] ** 2, starts[:-1])) if len(starts) > 1 else np.zeros(0)

    def _components(self, v: Array) -> tuple[Component, ...]:
        """Return the functions that are not zero, in the order of the kernels."""
        spans = list(pairwise(self.moments.starts.tolist()))
        order = np.argsort(self.moments.kernels)
        parts = [(int(self.moments.kernels[at]), v[slice(*spans[at])].copy()) for at in order.tolist()]
        return tuple(Component(kernel, part, self._factor_tol) for kernel, part in parts if part.any())

    # --- which kernels, how fine -------------------------------------------------------------------------------------

    def _entering(self, found: dict[Slot, Solution]) -> Array:
        """Return the kernels that some model lacks whose gap is too large."""
        used, chosen = self.moments.kernels, [np.zeros(0, dtype=np.int64)]
        for model in found.values():
            own, gap = model.state, model.dual_gap
            regularizer = own.problem.regularizer
            if selects(regularizer):
                limit = np.broadcast_to(regularizer.threshold(own.problem.penalties * own.norms), own.norms.shape)
                margin = 1.0 + min(0.1 * max(gap, self.tol), 0.01)
                chosen.append(violators(own.bound, used, self._neighbors, limit, margin))
            else:
                chosen.append(
                    contributors(
                        regularizer, own.bound, used, gap * max(abs(model.certificate.primal), own.problem.tiny)
                    )
                )
        return np.setdiff1d(np.concatenate(chosen), used)

    def _closer(self, own: bool) -> bool:
        """Solve working sets more closely where gaps are theirs, if that is possible; say whether."""
        if not own or self._inner <= CLOSEST:
            return False
        self._inner = max(CLOSER * self._inner, CLOSEST)
        return True

    def _refined(self) -> bool:
        """Take finer factors of the same kernels, if there are any; say whether."""
        old = self.moments
        if self._factor_tol <= FINEST or not old.rank:
            return False
        self._factor_tol = max(FINER * self._factor_tol, FINEST)
        before, spans = old.kernels, list(pairwise(old.starts.tolist()))
        self.moments = old.emptied()
        carried = {slot: [v[slice(*span)] for span in spans] + [v[-1:]] for slot, v in self._v.items()}
        self._v = {slot: v[-1:] for slot, v in self._v.items()}
        self._enter(before)
        places = dict(zip(self.moments.kernels.tolist(), self.moments.starts[:-1].tolist(), strict=True))
        for slot, parts in carried.items():  # finer factors begin with the directions of coarser ones
            for kernel, part in zip(before.tolist(), parts[:-1], strict=True):
                self._v[slot][places[kernel] : places[kernel] + len(part)] = part
        return True

    def _enter(self, kernels: Array) -> None:
        """Add kernels to the working set of all folds."""
        if not len(kernels):
            return
        operators = self.stack.operators(kernels.tolist(), self._factor_tol)
        before, new = self.moments.rank, int(starts_of(operators)[-1])
        if before + new > self.most_rank:
            raise IncompatibleError(
                f"The factors of {len(self.moments.kernels) + len(kernels)} kernels have {before + new} columns, more "
                f"than the {self.most_rank} whose sums folds can share. Raise the strengths or the memory, or let each "
                "fold have its own (MKLRegressorCV with fold_kernels='own')."
            )
        self.moments.grow(operators)
        self._v = {slot: np.concatenate([v[:-1], np.zeros(new), v[-1:]]) for slot, v in self._v.items()}
        self._problems = {}

    def _solve(self, posed: Sequence[Sequence[Problem]], slots: Sequence[Slot]) -> None:
        """Minimize the quadratics of these models on the working set."""
        if not self.moments.rank:
            return
        kept = self.moments.rank + int(self.fit_intercept)  # the column of ones is the last one
        for fold, target in slots:
            check_deadline()
            problem = posed[fold][target]
            kernels = self.moments.kernels
            penalty = GroupPenalty.of(
                problem.regularizer.take(kernels), self.moments.starts, problem.penalties[kernels]
            )
            penalty = penalty.with_intercept() if self.fit_intercept else penalty
            self._minimize((fold, target), self._quadratic(fold, penalty, kept), penalty, kept)

    def _quadratic(self, fold: int, penalty: GroupPenalty, kept: int) -> GroupProblem:
        """Return the quadratic of a fold, which all targets and strengths share, under a penalty."""
        if fold not in self._problems:
            self._problems[fold] = GroupProblem(self.moments.of(fold)[0][:kept, :kept].copy(), penalty)
        self._problems[fold].penalty = penalty
        return self._problems[fold]

    def _minimize(self, slot: Slot, quadratic: GroupProblem, penalty: GroupPenalty, kept: int) -> None:
        """Solve for the coefficients of one fold and target, from where they stand."""
        v = self._v[slot].copy()
        first = penalty.violation(np.zeros(kept), self.moments.slopes(*slot, np.zeros_like(v))[:kept])
        for _ in range(SWEEPS):
            gradient = self.moments.slopes(*slot, v)[:kept]
            if penalty.violation(v[:kept], gradient) <= self._inner * first:
                break
            v[:kept] = quadratic.solve(v[:kept], gradient, 0.01)[0]
            self._steps += 1
        self._v[slot] = v

    def _model(self, v: Array, certificate: Certificate, told: _Pass) -> Solution:
        """Return these coefficients as a model on the way, with what the pass said of it."""
        components, norms = self._components(v), np.zeros(told.problem.n_kernels)
        kernels = [component.kernel for component in components]
        norms[kernels] = [float(np.linalg.norm(component.coefficients)) for component in components]
        return Solution(
            dual_coef=told.best.scale * told.best.rho,
            kernel_weights=norms / np.maximum(told.best.norms * told.problem.penalties, 1e-300),
            intercept=float(v[-1]),
            certificate=certificate,
            solver=FactoredNewton.name,
            kernel_norms=norms,
            functions=FactorFunctions(self.stack, components, approximate_gap=told.own_gap),
            state=told,
        )

    def _ended(self, model: Solution, passes: int, rounds: int, elapsed_s: float) -> Solution:
        """Return a model with how it ended."""
        met, late = model.dual_gap <= self.tol, rounds > self.max_rounds
        sign, end = ("<=", "") if met else (">", ". Raise max_iter." if late else ": finer factors bring nothing more")
        return replace(
            model,
            status=Status.CONVERGED if met else Status.MAX_ITER if late else Status.STALLED,
            message=f"relative duality gap {model.dual_gap:.2e} {sign} tol {self.tol:.2e}{end}",
            passes=passes,
            newton_steps=self._steps,
            n_iter=rounds,
            elapsed_s=elapsed_s,
            state=None,
        )
