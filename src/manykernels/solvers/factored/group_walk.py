"""Down the strengths of the group lasso: a squared loss, groups of columns in place, a penalty of norms alone.

Beside the arithmetic of such a problem the general loop (`working_set`) takes longer over what it asks and builds.
Here a strength begins where the two before it point, the groups that are not zero and those that the strong rule lets
enter take turns (`block_descent.descend`), scores are summed anew, and one pass over the columns certifies the model
and says which groups enter next. Where that ends above the gap asked for, the general loop goes on from there.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import Any, cast

import numpy as np

from manykernels.grams.factored import FactoredStack
from manykernels.grams.factored.operators import neighbors_from
from manykernels.grams.loops import add_columns, column_products
from manykernels.objective.losses.curvature import NO_RISKS, NO_SHARES
from manykernels.objective.problem import Problem
from manykernels.objective.regularizers import BlockL1
from manykernels.solvers.factored import block_descent
from manykernels.solvers.factored.certificate import DualBound, balanced, certificate_of, largest, shows_rounding
from manykernels.solvers.factored.group_sizes import even_out
from manykernels.solvers.factored.model import FactorFunctions
from manykernels.solvers.factored.newton import minimize
from manykernels.solvers.factored.objective import Coefficients, FactoredObjective, Point
from manykernels.solvers.factored.state import Component, DualPass, Round, Start
from manykernels.solvers.factored.tuning import (
    CLOSER,
    COARSE,
    FASTER,
    FIRST_SMOOTHING,
    LAST_GAP,
    LEAST_GROWTH,
    LOOSER,
    LOOSEST,
    MUCH_CLOSER,
    NEWTON_STEPS,
    PRODUCT,
    READ_AHEAD,
    READ_WHOLE,
    STEP,
    TURNS,
)
from manykernels.solvers.run import ROUNDING
from manykernels.solvers.solution import Solution
from manykernels.validation.arrays import Array


class GroupColumns:
    """What all strengths of a path have in common: the columns of all groups, and the curvature of the samples.

    Parameters
    ----------
    problem : Problem
        With kernels that are columns in place, every one.
    """

    def __init__(self, problem: Problem) -> None:
        stack: Any = problem.stack
        factors = stack.in_place
        first = int(factors.firsts[0])
        self.columns, self.starts = factors.columns[first : first + factors.starts[-1]], factors.starts
        self.roots, self.ranks, self.errors = factors.roots, factors.ranks, stack.error_constants
        self.weights = problem.bound.curvature(problem.constant_scores(0.0)).diagonal
        self.total, self.reach = float(self.weights.sum()), np.sqrt(stack.largest)
        self.without_kernels = problem.empirical_loss(problem.constant_scores(problem.best_constant))

    @classmethod
    def of(cls, problem: Problem, start: Start | None) -> GroupColumns | None:
        """Return those of a path that a model is on; None where other problems, or none, were solved before."""
        stack: Any = problem.stack
        if start is None or start.certified is None or not len(start.kernels):
            return None
        if problem.shared or type(problem.regularizer) is not BlockL1 or problem.unpenalized.size:
            return None
        if not (problem.loss.smooth and problem.loss.linear_dual and start.certified.serves(problem)):
            return None
        if stack.table.chunked or stack.in_place is None or stack.shaped:
            return None
        return start.columns or cls(problem)

    def places(self, groups: Array) -> Array:
        """Return where the columns of some groups stand."""
        return neighbors_from(self.starts[groups], self.ranks[groups])

    def norms(self, v: Array) -> Array:
        """Return the norm of every group, (M,)."""
        return np.abs(v) if len(v) == len(self.ranks) else np.sqrt(np.add.reduceat(v * v, self.starts[:-1]))

    def scores(self, groups: Array, v: Array, out: Array) -> Array:
        """Return ``out`` (N,) with ``Z v`` of some groups added; ``v`` is of all."""
        places = self.places(groups)
        add_columns(self.columns, places, np.repeat(self.roots[groups], self.ranks[groups]) * v[places], out)
        return out

    def quads(self, rho: Array, limits: Array, groups: Array, passes: Any) -> tuple[Array, Array, int]:
        """Return bounds on ``rho' K_m rho`` (M,) from below and above, and how many kernels were read.

        With ``passes`` they are wide where they stay below ``limits``, but for those of ``groups``.
        """
        errors = self.errors * float(np.abs(rho).sum()) ** 2
        if passes is None:
            squares = (self.roots * self.norms(self.columns @ rho)) ** 2
            return np.maximum(squares - errors, 0.0), squares + errors, len(limits)
        places = self.places(groups)
        values = np.empty(len(places))
        column_products(self.columns, places, rho, values)
        low, high, read = passes.bounds(rho, limits, errors, (groups, places, values))
        return low, high, read + len(groups)


class GroupWalk:
    """One strength of a path.

    Parameters
    ----------
    problem : Problem
    columns : GroupColumns
        Of the path.
    start : Start
        The model at the strength before.
    tol : float
        Relative gap asked for.
    """

    def __init__(self, problem: Problem, columns: GroupColumns, start: Start, tol: float) -> None:
        self.problem, self.columns, self.before, self.tol = problem, columns, start, tol
        self.known, self.strength, self.share = start.known, problem.regularizer.strength, start.share
        self.passes, self.read, self.enough = start.passes, 0, True
        if self.passes is None and columns.columns.size > READ_WHOLE:
            stack: Any = problem.stack
            self.passes = stack.near_passes()
        ahead, self.b, z = start.toward(self.strength)
        self.v = ahead.onto(np.arange(problem.n_kernels), columns.starts)
        self.used = np.sort(ahead.kernels)
        self.z = z if z is not None else columns.scores(self.used, self.v, problem.constant_scores(self.b))

    def models(self) -> Iterator[Solution]:
        """Yield certified models, until none is within the gap asked for after a few turns."""
        problem, columns, penalties = self.problem, self.columns, self.problem.penalties
        chosen = np.sort(np.concatenate([self.used, self._entering()]))
        size = problem.bound.value(self.z) + self.strength * float(penalties @ columns.norms(self.v))
        fall = min(self.strength / self.before.strength, 1.0) - 1.0
        limits = (max(1.0 + READ_AHEAD * fall, 0.0) * self.strength * penalties) ** 2
        for _ in range(TURNS):
            target = self.tol * max(size, problem.tiny)
            if self.known.slow or not self._turns_cost_less(chosen):
                self._minimize(chosen, LAST_GAP * target)
            else:
                self._descend(chosen, self.share * target)
            *quads, read = columns.quads(self.rho, limits, chosen, self.passes)
            self.read += read
            self.quads = quads[0], quads[1]
            found = self._certified(np.sqrt(quads[1]) / penalties)
            size, gap = found.certificate.primal, found.certificate.relative_gap
            if size > columns.without_kernels * (1.0 + ROUNDING):
                return
            if shows_rounding(problem, self.z, float(self.norms @ columns.reach), size):
                return
            if gap < MUCH_CLOSER * self.tol:
                self.share = min(self.share / LOOSER, LOOSEST)
            yield replace(found, state=copy(self))  # as it is now: a later turn may be no better
            missing = np.setdiff1d(np.flatnonzero(quads[0] > (self.strength * penalties) ** 2), chosen)
            self.known.slow |= not self.enough
            self.share *= CLOSER if not len(missing) else 1.0
            chosen = np.union1d(chosen, missing)

    def _entering(self) -> Array:
        """Return the groups that may have coefficients at this strength but have none, by the strong rule."""
        known = self.before.certified
        assert known is not None
        low, high = (np.sqrt(quad) / self.problem.penalties for quad in known.quads)
        ahead = max(float((high - self.strength)[self.used].max(initial=0.0)), 0.0)
        reach = ahead if known.growth is None else ahead * np.minimum(FASTER * known.growth + LEAST_GROWTH, 1.0)
        wanted = low > self.strength - reach
        wanted[self.used] = False
        return largest(np.flatnonzero(wanted), high, len(self.used))

    def _turns_cost_less(self, chosen: Array) -> bool:
        """Whether groups that take turns are predicted to take less than a step on a Hessian (`descends`)."""
        known, ranks, n = self.known.under(self.columns.weights), self.columns.ranks[chosen], len(self.z)
        rank, sweeps = float(ranks.sum()), known.sweeps or block_descent.USUAL_SWEEPS
        missing = float(ranks[[kernel not in known.places for kernel in chosen.tolist()]].sum())
        dense = rank**3 + n * rank * missing + STEP / PRODUCT
        return block_descent.PRODUCT_COST * sweeps * n * (4.0 * rank + len(chosen)) < dense

    def _descend(self, chosen: Array, tol: float) -> None:
        """Let the chosen groups take turns until what they leave is about ``tol``; sum scores anew."""
        columns, problem, places = self.columns, self.problem, self.columns.places(chosen)
        ranks, firsts, roots = columns.ranks[chosen], columns.starts[chosen], columns.roots[chosen]
        Z = self.known.in_single(columns.columns, places) if self.known.single else columns.columns
        eigenvalues, turns = self.known.under(columns.weights).eigenbases(chosen, Z, firsts, ranks, roots)
        inside = np.arange(turns.shape[1]) < ranks[:, None]
        parts = np.zeros(inside.shape)
        parts[inside] = self.v[places]
        own = np.einsum("mi,mij->mj", parts, turns)[inside]
        slopes = problem.bound.gradient(self.z).astype(Z.dtype, copy=False)[None]
        shift, none = np.zeros(int(problem.fit_intercept)), np.zeros(len(chosen))
        curved = columns.weights.astype(Z.dtype, copy=False)[None], NO_SHARES, NO_RISKS
        ends = np.concatenate([[0], np.cumsum(ranks)])
        model = Z, places, curved, ends, roots[:, None, None] * turns, eigenvalues[inside]
        shape = self.strength * problem.penalties[chosen], none, none, 2.0, 0.0, False
        response = np.full((len(shift), len(shift)), -1.0 / columns.total)
        how = response, tol, True
        moves = own, slopes, np.zeros_like(slopes), shift
        self.known.sweeps, self.enough = block_descent.descend(*model, *shape, *how, *moves)
        parts[inside] = own
        self.v = self.v.copy()
        v, scale = np.einsum("mj,mij->mi", parts, turns)[inside], np.repeat(roots, ranks).astype(Z.dtype)
        limits = self.strength * problem.penalties[chosen]
        even_out(Z, places, ends, scale, curved[0][0], slopes[0], limits, problem.fit_intercept, v)
        self.v[places] = v
        self.b += float(shift.sum())
        self._settle()

    def _settle(self) -> None:
        """Sum scores anew, and move the intercept to its minimum."""
        columns, problem = self.columns, self.problem
        self.norms = columns.norms(self.v)
        self.z = columns.scores(np.flatnonzero(self.norms), self.v, problem.constant_scores(self.b))
        slopes = problem.bound.gradient(self.z)
        if problem.fit_intercept:
            shift = -float(slopes.sum()) / columns.total
            self.b, self.z = self.b + shift, self.z + shift
            slopes += shift * columns.weights
        self.rho, self.behind = balanced(problem, slopes), self.z

    def _minimize(self, chosen: Array, tol: float) -> None:
        """Let groups that act on each other move together."""
        stack: Any = self.problem.stack
        places = self.columns.places(chosen)
        objective = FactoredObjective(self.problem, stack.operators(chosen.tolist(), COARSE), 0.0)
        objective.known = self.known
        fit = minimize(objective, Point(self.v[places], self.b, self.z, whole=True), tol, NEWTON_STEPS)
        self.v, self.b, self.z = self.v.copy(), fit.point.b, fit.point.z
        self.v[places] = fit.point.v
        self.norms = self.columns.norms(self.v)
        if not fit.point.whole:
            self.z = objective.scores(fit.point.v) + self.b
        self.rho, self.behind, self.enough = self.problem.bound.inside(fit.rho), fit.z, True

    def _certified(self, u: Array) -> Solution:
        """Return the model with its certificate, ``u`` (M,) being bounds from above on its dual norms."""
        problem = self.problem
        scale = min(1.0, self.strength / max(float(u.max()), 1e-300))
        conjugate = problem.bound.conjugate_at(self.rho, scale, self.behind)
        primal = problem.bound.value(self.z) + self.strength * float(problem.penalties @ self.norms)
        bound = DualBound(-conjugate, self.rho, u, u, scale, conjugate, 0, 0)
        certificate = certificate_of(problem, primal, bound, self.z)
        weights = self.norms / np.maximum(u * problem.penalties, 1e-300)
        return Solution(scale * self.rho, weights, self.b, certificate, passes=self.read / len(u))

    # --- what is left of it -----------------------------------------------------------------------------------------

    def ended(self, found: Solution) -> Solution:
        """Return its last model with functions, and with where the next strength begins."""
        start, certificate = self.start, found.certificate
        v, spans = start.coefficients.v, pairwise(start.coefficients.starts.tolist())
        each = zip(start.kernels.tolist(), spans, strict=True)
        parts = tuple([Component(kernel, v[low:high], COARSE) for kernel, (low, high) in each])
        gap, active, rank = certificate.relative_gap, len(parts), len(v)
        sizes = gap, active, active, rank, 0, COARSE, 0
        told = Round(found.n_iter, found.elapsed_s, certificate.primal, certificate.dual, gap, *sizes)
        functions = FactorFunctions(cast("FactoredStack", self.problem.stack), parts, 1, gap, (told,), start)
        return replace(found, kernel_norms=self.norms, functions=functions)

    @cached_property
    def start(self) -> Start:
        """Where another strength, or the general loop, begins once it has a model."""
        before, active = self.before, np.flatnonzero(self.norms)
        starts = np.concatenate([[0], np.cumsum(self.columns.ranks[active])])
        own = Coefficients(active, starts, self.v[self.columns.places(active)])
        fall, growth = before.strength - self.strength, None
        if fall > 0.0 and before.certified is not None:
            now, then = np.sqrt(self.quads[1]), np.sqrt(before.certified.quads[0])
            growth = np.maximum(now - then, 0.0) / (self.problem.penalties * fall)
        return Start(
            active,
            own,
            self.b,
            COARSE,
            FIRST_SMOOTHING,
            known=self.known,
            certified=DualPass(self.problem, self.rho, self.quads, growth, self.passes is None),
            strength=self.strength,
            before=replace(before, before=None, certified=None, passes=None, columns=None),
            passes=self.passes,
            scores=self.z,
            columns=self.columns,
            share=self.share,
        )
