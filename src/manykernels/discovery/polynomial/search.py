"""The search of SGD-1s: certified points of the mirror descent, then rounds of polishing on a growing set."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain, zip_longest
from typing import Any

import numpy as np

from manykernels.discovery.base import Found, family_certificate, replace_dual, solve_quietly
from manykernels.discovery.polynomial.descent import InteractionSampler, MirrorDescent
from manykernels.discovery.polynomial.family import PolynomialFamily
from manykernels.discovery.polynomial.family_norm import FamilyNorm, family_norm, norm_cost
from manykernels.discovery.polynomial.lasso_path import (
    PATH_LENGTH,
    SECOND_STEP,
    PathPoint,
    WeightedRows,
    lasso_of,
    surveyed_family,
)
from manykernels.discovery.polynomial.product_bases import Index, RankOneBase
from manykernels.grams import GramStack
from manykernels.objective.certificate import Certificate
from manykernels.objective.problem import Problem
from manykernels.solvers import Solution
from manykernels.solvers.learners.learners import fit_learner
from manykernels.solvers.solution import Model
from manykernels.validation.arrays import Array

# Numbers that follow from no theorem: they decide the time, not what is certified.
LEAST_GROWTH = 50  # kernels added a round
GROWTH = 0.5  # or this share of those there are
DRAWS = 50  # where products cannot be enumerated
FULL_SHARE, KEPT_SHARE = 0.5, 0.2  # of max_kernels: when a stronger penalty stops, and what it hands on
DESCENT = 0.5  # of the time limit: a search that is to polish must come to it


# Where a search at ``p = 1`` begins: the products of the lasso path down to its strength.


def first_products(problem: Problem, family: PolynomialFamily, norm: FamilyNorm, max_kernels: int) -> tuple[Index, ...]:
    """Return the products selected at the strength of the problem, or where half of ``max_kernels`` are.

    ``norm`` is that of the empty model: the root is the strength of the lasso above which nothing is selected.
    """
    base = family.base
    assert isinstance(base, RankOneBase)
    rows, strength = WeightedRows(base.columns, problem.y, problem.weight), problem.regularizer.strength
    lasso = lasso_of(rows, surveyed_family(family, rows.features, base.normalize), problem.fit_intercept)
    mu, size = float(np.sqrt(norm.norm)), 0.0
    point = PathPoint((), np.zeros(0), 0.0, norm.largest, np.sqrt(norm.scores))
    for _ in range(PATH_LENGTH):
        # The strength that is looked for is that of the norm times ``strength``, and norms grow on the way.
        mu = max(SECOND_STEP * mu, strength * size)
        point = lasso.solve_along(mu, point)
        size = float(lasso.penalties(point.indices) @ np.abs(point.coefficients))
        if mu <= strength * size or len(point.indices) >= FULL_SHARE * max_kernels:
            break
    return point.indices


@dataclass(eq=False)
class PolynomialSearch:
    """Offers certified models in turn."""

    family: PolynomialFamily
    problem: Problem  # target, loss, weights and penalty; its kernels are exchanged
    found: Callable[[Index], Found]  # makes a kernel of a multi-index
    rng: np.random.Generator
    tol: float  # as in discover_polynomial
    max_kernels: int  # as in discover_polynomial
    budget: float  # as in discover_polynomial
    time_limit: float | None = None  # as in discover_polynomial
    all_rounds: bool = field(default=True, init=False)  # whether the search ended because it had no rounds left
    index_of: dict[Found, Index] = field(default_factory=dict, init=False)  # the multi-indices of the kernels offered
    _norm: FamilyNorm | None = field(default=None, init=False)
    _rho: Array | None = field(default=None, init=False)
    _dual: float = field(default=-np.inf, init=False)
    _first: float = field(default=0.0, init=False)
    _n_norms: int = field(default=0, init=False)
    _systems: int = field(default=0, init=False)
    _methods: dict[float, str] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._started = time.perf_counter()

    @property
    def _remaining_seconds(self) -> float | None:
        """Seconds left, None without a limit."""
        if self.time_limit is None:
            return None
        return max(0.0, self._started + self.time_limit - time.perf_counter())

    def method(self, dual: float) -> str:
        """Return the method of the norm behind a dual bound; none for a model without kernels."""
        return self._methods.get(dual, "enumeration")

    def candidates(
        self, n_steps: int, descent: Callable[..., MirrorDescent], rounds: int, start: tuple[Index, ...] = ()
    ) -> Iterator[Solution]:
        """Yield the constant model, averages of the descent unless there is a start, and polished models."""
        rho, b = self.problem.zero_model()
        constant = self._candidate([()], self.family.base.stack([()]), (rho, np.zeros(1), b))
        assert self._norm is not None
        # A bound may be above the norm by orders of magnitude; the largest score that was seen is never larger.
        size = self._norm.norm if self._norm.method != "bound" else self._norm.scores.max(initial=0.0)
        strongest = 0.1  # share of the strength at which the dual penalty of the zero model equals its loss
        self._first = strongest * size / max(2.0 * constant.certificate.primal, self.problem.tiny)
        yield constant
        start = start or (self._first_products() if rounds else ())
        if start:
            yield from self._polish(list(start), rounds, [self.problem])
            return
        strength: float = self.problem.regularizer.strength
        steps = descent(self.family, self.problem, strength, self.rng)
        yield from self._descend(steps, n_steps, DESCENT if rounds else 1.0)
        if rounds:
            yield from self._polish(list(steps.indices), rounds, self._stages())

    def _first_products(self) -> tuple[Index, ...]:
        """Return the selection of a lasso path, empty without a path or a survey."""
        assert self._norm is not None
        named = self._norm.method == "enumeration" and self._norm.norm > 0
        features = isinstance(self.family.base, RankOneBase) and self.family.p == 1  # of a lasso, can be made
        if self.time_limit is not None or not named or not features or self.problem.loss.name != "squared":
            return ()
        return first_products(self.problem, self.family, self._norm, self.max_kernels)

    # --- mirror descent ---------------------------------------------------------------------------------------------

    def _descend(self, descent: MirrorDescent, n_steps: int, share: float) -> Iterator[Solution]:
        base, due = self.family.base, 1
        # A certificate that costs more than a step waits until the steps have cost as much.
        wait = norm_cost(self.family, self.budget) / (self.family.degree * base.n_base * base.n_samples**2)
        certified_steps = 1.5  # factor from one certified step to the next
        for step in range(1, n_steps + 1):
            if not descent.step():
                return
            late = self.time_limit is not None and time.perf_counter() - self._started >= share * self.time_limit
            if step >= due or step == n_steps or late:
                due = step + max(1, int(np.ceil((certified_steps - 1) * step)), int(min(wait, n_steps)))
                yield self._average_model(descent)
            if late:
                return

    def _average_model(self, descent: MirrorDescent) -> Solution:
        """Return the model of the averaged weights."""
        d, stack = descent.average(), descent.stack()
        fit = fit_learner(self.problem, stack.combine(d))
        self._systems = descent.solver.systems + fit.steps
        return self._candidate(list(descent.indices), stack, (fit.rho, d, fit.b))

    # --- polishing --------------------------------------------------------------------------------------------------

    def _polish(self, indices: list[Index], rounds: int, stages: list[Problem]) -> Iterator[Solution]:
        """Solve and add violators, at falling strengths.

        Under a weak penalty a hundred random kernels absorb most of the target; the residual suggests wrong kernels,
        and for p > 1 no weight becomes zero. The residual of a stronger penalty is informative, and the heaviest final
        kernels are a better start than the draws.
        """
        indices, last = indices[: self.max_kernels], None
        stage_gap = 0.1  # relative, over the family, at which a stronger penalty has done its work
        for stage in stages:
            for turn in range(rounds):
                new = self._additions(indices)
                if turn and not new:
                    break
                indices = indices + new
                if not indices:
                    return
                rounds -= 1
                stack = self.family.base.stack(indices)
                last = self._solve(stage, indices, stack, last)
                self._systems += last.newton_steps
                model = (last.dual_coef, last.kernel_weights, last.intercept)
                yield self._candidate(indices, stack, model)
                kept = np.flatnonzero(last.kernel_weights)
                done = stage is not self.problem and (
                    len(kept) >= FULL_SHARE * self.max_kernels
                    or self._certificate(stage, indices, stack, model).relative_gap <= stage_gap
                )
                kept = self._heaviest(last.kernel_weights) if done else kept
                indices = [indices[m] for m in kept]
                last = replace(last, kernel_weights=last.kernel_weights[kept])
                if done:
                    break
        self.all_rounds = not rounds

    def _heaviest(self, weights: Array) -> Array:
        """Return the positions of the starting kernels of the next strength."""
        first = np.argsort(-weights, kind="stable")[: max(1, int(KEPT_SHARE * self.max_kernels))]
        return np.sort(first[weights[first] > 0])

    def _stages(self) -> list[Problem]:
        """Return the problem at strengths decreasing to the target."""
        strength: float = self.problem.regularizer.strength
        stage = 10.0  # factor between strengths
        count = int(np.ceil(np.log(self._first / strength) / np.log(stage))) if self._first > strength else 0
        stronger = [strength * stage**k for k in range(count, 0, -1)]
        return [
            *(replace(self.problem, regularizer=self.family.regularizer(value)) for value in stronger),
            self.problem,
        ]

    def _solve(self, stage: Problem, indices: list[Index], stack: GramStack, last: Solution | None) -> Solution:
        """Solve on the kernels found, from the last answer."""
        least_seconds = 0.1  # of a restricted solve when time is over: its answer is the last one to be certified
        limit: dict[str, Any] = (
            {} if self._remaining_seconds is None else {"time_limit": max(self._remaining_seconds, least_seconds)}
        )
        if last is not None:
            padding = np.zeros(len(indices) - len(last.kernel_weights))
            last = replace(last, kernel_weights=np.append(last.kernel_weights, padding))
        restricted_share = 0.1  # of tol: how closely the model on the kernels found is solved
        return solve_quietly(self._restricted(stage, indices, stack), restricted_share * self.tol, last, **limit)

    def _restricted(self, stage: Problem, indices: list[Index], stack: GramStack) -> Problem:
        return replace(stage, stack=stack, kernel_penalties=self.family.penalties(indices))

    def _additions(self, indices: list[Index]) -> list[Index]:
        """Return the most relevant kernels for the last dual vector, or draws of Algorithm 3, or both."""
        room = min(max(LEAST_GROWTH, int(GROWTH * len(indices))), self.max_kernels - len(indices))
        if room <= 0:
            return []
        known = set(indices)
        return [index for index in self._largest() if index not in known][:room]

    def _largest(self) -> tuple[Index, ...]:
        assert self._norm is not None
        largest = self._norm.largest
        if largest and self._norm.method == "enumeration":
            return largest
        # The largest are of the degrees that could be enumerated; products of the others must be drawn.
        pairs = zip_longest(self._draw(), largest)
        return tuple(dict.fromkeys(index for index in chain.from_iterable(pairs) if index is not None))

    def _draw(self) -> tuple[Index, ...]:
        assert self._rho is not None
        sampler = InteractionSampler(self.family, self._rho)
        if not sampler.gradient_norm > 0:
            return ()
        return tuple(dict.fromkeys(tuple(sorted(sampler.draw(self.rng))) for _ in range(DRAWS)))

    # --- certificates -----------------------------------------------------------------------------------------------

    def _candidate(self, indices: list[Index], stack: GramStack, model: Model) -> Solution:
        self._rho = self.problem.feasible_dual(model[0])
        wanted = len(indices) + max(LEAST_GROWTH, int(GROWTH * len(indices)))
        first_norm, later_norm = 0.05, 0.2  # of the time left: the constant model is where a search begins, not ends
        share = later_norm if self._n_norms else first_norm
        seconds = None if self._remaining_seconds is None else share * self._remaining_seconds
        self._norm = family_norm(self.family, self._rho, min(wanted, 2 * self.max_kernels), self.budget, seconds)
        self._n_norms += 1
        certificate = self._certificate(self.problem, indices, stack, model)
        self._methods.setdefault(certificate.dual, self._norm.method)
        self._dual = max(self._dual, certificate.dual)
        if self._dual > certificate.dual:
            certificate = replace_dual(certificate, self._dual, self.problem.tiny)
        kernels = tuple(self.found(index) for index in indices)
        self.index_of.update(zip(kernels, indices, strict=True))
        return Solution(*model, certificate, passes=float(self._n_norms), newton_steps=self._systems, kernels=kernels)

    def _certificate(self, stage: Problem, indices: list[Index], stack: GramStack, model: Model) -> Certificate:
        """Return the certificate of a model with a known dual norm, at the strength of ``stage``."""
        assert self._norm is not None
        return family_certificate(self._restricted(stage, indices, stack), model, self._norm.norm)
