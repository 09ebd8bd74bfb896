"""Targets in random order: the relation of kernels to noise.

All permutations are columns of a single matrix, so they cost about a pass over the kernels. A few are large or small
together by chance. How large all permutations are on average needs none,

    E tr R' P' K P R = tr K q / n + (1' K 1 - tr K) (s - q) / (n (n - 1)),     q = ||R||^2,  s = ||R' 1||^2,

so ``g^2`` is the closed form over the mean of the draws, both summed over the kernels: a ratio estimator, with half of
the spread between draws. **Orders of more rows** extend permutations of fewer rows: the unit changes little.

W. Cochran, "Sampling Techniques" (1977), chapter 6, for ratio estimators; D. Knuth, "The Art of Computer Programming",
volume 2, section 3.4.2, for orders that samples are put into in turn.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from manykernels.compiled import compiled
from manykernels.estimators.strength import N_PERMUTATIONS, SAME, NoiseLevel, clear, is_clear
from manykernels.grams import GramStack
from manykernels.objective.problem import Problem
from manykernels.validation.arrays import Array
from manykernels.validation.parameters import RandomSource, seed_from

PERMUTED_ENTRIES = 100_000  # of all targets, beyond which fewer permutations are drawn: weak effects are clear there
PERMUTED_COST = 2.5e9  # multiplications of all quadratic forms of permuted targets, beyond which fewer are drawn, too
ENOUGH_ROWS = 2**14  # that tell what is clear where the strength is given: one thousandth of the variance is
UNIT_ROWS = 2**16  # of targets in random order, as large relative to the root of their number, over all outputs
FEWEST_ROWS, FREE = 100, 1e-6  # of these that decide at least; sum of a target without a constant, beside its size
SMOOTHED = 0.01  # strength at which the sum of kernels is fitted, over its trace; benchmarks/evidence.py --constant
MOST_COMPARED = 64  # targets of which each is compared with the others: of many, few are multiples of one another
COLUMN_BYTES = 128 * 2**20  # of permuted dual coefficients that are held at once
MOST_COLUMNS = 512  # of these, for each of which a pass over factors holds sums


def noise_seed(random_state: RandomSource) -> int:
    """Return the seed of permutations; a given generator advances."""
    return 0 if random_state is None else seed_from(copy.deepcopy(random_state))


@dataclass(frozen=True, eq=False)
class PermutedTargets:
    """Targets of problems on a stack, and the random permutations for the relation of kernels to targets.

    Targets go with their weights, rows of several targets with shared weights as wholes, times with their events.
    Exchanges are within a stratum, and between whole groups of equal size. All problems share the permutations.
    """

    seed: int
    strata: Array | None
    groups: Array | None
    wanted: int  # orders that tell what noise reaches, the first 19 of which are the unit
    rhos: tuple[Array, ...]  # (N, T) dual coefficients at the empty model
    penalties: tuple[Array, ...]  # (M,)
    roundings: tuple[Array, ...]  # (M,) norms up to which X says nothing: units of rounding would be none
    losses: tuple[float, ...]  # of the best constant
    constant: tuple[bool, ...]  # whether a target has one value only

    @classmethod
    def create(
        cls, problems: Sequence[Problem], seed: int, strata: Array | None = None, groups: Array | None = None
    ) -> PermutedTargets:
        """Return the targets of problems at the empty model."""
        n_samples = problems[0].n_samples
        rhos = tuple(problem.empty_coefficients.reshape(n_samples, -1) for problem in problems)
        entries = sum(rho.size for rho in rhos)
        return cls(
            seed,
            strata,
            groups,
            permutations_for(entries, problems[0].stack.quad_cost * entries / n_samples),
            rhos,
            tuple(problem.penalties for problem in problems),
            tuple(problem.empty_rounding() for problem in problems),
            tuple(problem.empirical_loss(problem.constant_scores(problem.best_constant)) for problem in problems),
            tuple(problem.constant_target for problem in problems),
        )

    def sufficient_levels(self, problems: Sequence[Problem]) -> list[NoiseLevel]:
        """Return the levels on a sample of rows if these are clear, else `levels`."""
        known = self.levels_among(problems[0].stack, ENOUGH_ROWS)
        return known if known is not None and clear(known) else self.levels(problems)

    def levels(self, problems: Sequence[Problem], n_permutations: int = N_PERMUTATIONS) -> list[NoiseLevel]:
        """Return the levels of the problems by so many orders: a pass over the kernels, if all fit.

        Beyond twice `UNIT_ROWS`, orders are those of some rows:
        of as many over all outputs that share weights, whose squares are summed, but not less than `ENOUGH_ROWS`.
        """
        stack, n_outputs = problems[0].stack, self.rhos[0].shape[1]
        n_rows = min(UNIT_ROWS, max(ENOUGH_ROWS, UNIT_ROWS // n_outputs))
        unit = self.levels_among(stack, n_rows) if n_permutations == self.wanted == N_PERMUTATIONS else None
        if unit is None:
            levels, first = self._levels_on(stack, n_permutations)
        else:
            squares = _squares_of(stack, self.rhos, np.arange(len(self.rhos[0]))[None])
            first = [None if high is None else (low[0].copy(), high) for low, high in squares]
            norms = [self._norms(target, low)[0] for target, (low, _) in enumerate(squares)]
            levels = [replace(level, norms=every) for level, every in zip(unit, norms, strict=True)]
        for problem, own, bounds in zip(problems, self.rhos, first, strict=True):
            if bounds is not None and _begins_at(problem, own):  # a fit begins with this pass, where it is one
                problem.keep_empty_quads(bounds)
        return levels

    def levels_among(self, stack: Any, n_rows: int) -> list[NoiseLevel] | None:
        """Return the levels by the orders of the unit among some rows drawn, as large as those of all rows.

        None for few rows, for groups, and for too small samples.
        """
        n = len(self.rhos[0])
        if n < 2 * n_rows or self.groups is not None or not stack.has_factors:
            return None
        if stack.table.chunked or stack.shaped:
            return None
        rows = np.sort(np.random.default_rng(self.seed).choice(n, n_rows, replace=False))
        rhos = []
        for rho in self.rhos:
            squares, free = np.sum(rho**2, axis=1), np.abs(rho.sum(axis=0)) <= FREE * np.abs(rho).sum(axis=0)
            if not free.all() or not len(rows) * squares.sum() ** 2 > FEWEST_ROWS * n * np.sum(squares**2):
                return None
            some = rho[rows] - rho[rows].mean(axis=0)  # constants would hide what kernels have to do with the rest
            rhos.append(some * np.sqrt(squares.sum() / np.sum(some**2)))
        strata = None if self.strata is None else self.strata[rows]
        among = replace(self, rhos=tuple(rhos), strata=strata)
        return among._levels_on(stack.copy_rows(np.arange(stack.n_kernels), rows), N_PERMUTATIONS)[0]

    def _levels_on(
        self, stack: GramStack, n_permutations: int
    ) -> tuple[list[NoiseLevel], list[tuple[Array, Array] | None]]:
        """Return the levels, and bounds on squares of norms of every target, where there are any from above."""
        orders = np.vstack([np.arange(len(self.rhos[0]), dtype=np.int32), self._orders(n_permutations)])
        sums: list[Array] = []  # known where every order of the samples is as likely as any other
        exchangeable = self.strata is None and self.groups is None
        squares = _squares_of(stack, self.rhos, orders, sums if exchangeable else None)
        traces = stack.diag_sums(np.ones(stack.n_samples)) if sums else None
        first = [None if high is None else (low[0].copy(), high) for low, high in squares]
        norms = (self._norms(target, squares[target][0]) for target in range(len(squares)))
        levels = [
            self._level(target, own[0], own[1:], self._scale(target, own[1:], traces, sums))
            for target, own in enumerate(norms)
        ]
        return levels, first

    def _scale(self, target: int, permuted: Array, traces: Array | None, sums: list[Array]) -> float:
        """Return the root mean size of squares over all permutations, relative to the first permutations."""
        if traces is None:
            return 1.0
        rho, n = self.rhos[target], len(self.rhos[target])
        diagonal, pairs = np.sum(rho**2), np.sum(rho.sum(axis=0) ** 2) - np.sum(rho**2)
        expected = traces * diagonal / n + (sums[0] - traces) * pairs / (n * max(n - 1, 1))
        first = permuted[:N_PERMUTATIONS]
        drawn = np.einsum("pm,pm->", first, first) / len(first)
        average = float(np.sum(expected / self.penalties[target] ** 2, where=first.any(axis=0)))
        return float(np.sqrt(average / drawn)) if drawn > 0 and average > 0 else 1.0

    def more(self, levels: list[NoiseLevel], stack: GramStack) -> list[NoiseLevel]:
        """Return the levels by all requested permutations: a second pass over the rest."""
        if len(levels[0].permuted) < self.wanted:
            levels = self._permute(self.wanted, levels, stack)
        return self._resolve_doubt(levels, partial(self._root, stack))

    def until_told(self, levels: list[NoiseLevel], stack: GramStack) -> list[NoiseLevel]:
        """Return the levels by as many orders as tell targets from noise, a few more at a time: all for what is noise.

        So what is a little in doubt costs a little more.
        """
        root = cache(partial(self._root, stack))
        more_at_once = 40  # orders, while these leave doubt
        while (known := len(levels[0].permuted)) < self.wanted and not is_clear(levels):
            if known > N_PERMUTATIONS and is_clear(closer := self._resolve_doubt(levels, root)):
                return closer
            levels = self._permute(min(known + more_at_once, self.wanted), levels, stack)
        return levels if is_clear(levels) else self._resolve_doubt(levels, root)

    def _permute(self, n_permutations: int, levels: list[NoiseLevel], stack: GramStack) -> list[NoiseLevel]:
        """Return levels by more permutations, continued from fewer."""
        squares = _squares_of(stack, self.rhos, self._orders(n_permutations)[len(levels[0].permuted) :])
        return [
            self._level(target, level.norms, np.vstack([level.permuted, self._norms(target, low)]), level.scale)
            for target, (level, (low, _)) in enumerate(zip(levels, squares, strict=True))
        ]

    def _resolve_doubt(self, levels: list[NoiseLevel], root: Callable[[], Array | None]) -> list[NoiseLevel]:
        """Return the levels; where they leave doubt, with how well the sum of the kernels fits targets in every order.

        That is ``-r' (K + c)^-1 r`` for dual coefficients ``r`` of permutation-invariant length: the gain of ridge
        regression on the sum, up to a constant.
        """
        if clear(levels) or (factor := root()) is None:
            return levels
        n = len(factor)
        orders = np.vstack([np.arange(n), self._orders(len(levels[0].permuted))])
        solved = (solve_triangular(factor, rho[orders.T].reshape(n, -1), lower=True) for rho in self.rhos)
        sums = [np.sum(own.reshape(n, len(orders), -1) ** 2, axis=(0, 2)) for own in solved]
        return [replace(level, fitted=-own) for level, own in zip(levels, sums, strict=True)]

    def _root(self, stack: GramStack) -> Array | None:
        """Return the Cholesky factor of ``K + c``, K the sum of the kernels; none where a matrix would be large."""
        n = stack.n_samples
        if stack.has_factors or stack.matrix_free or n**3 / 3.0 > PERMUTED_COST:
            return None
        gram = stack.combine(self.penalties[0] ** -2.0)
        size = float(np.trace(gram))
        gram -= gram.mean(axis=0) + gram.mean(axis=1)[:, None] - gram.mean()
        trace = float(np.trace(gram))
        if not trace > SAME * size:  # kernels are constant
            return None
        gram[np.diag_indices(n)] += SMOOTHED * trace
        try:
            root: Array = cholesky(gram, lower=True, overwrite_a=True, check_finite=False)
        except LinAlgError:
            stack.prove_definite()  # raises the error that names the indefinite kernel
            return None
        return root

    def _orders(self, n_permutations: int) -> Array:
        """Return the first orders, (n_permutations, N)."""
        rng = np.random.default_rng(self.seed)
        return random_orders(len(self.rhos[0]), rng, n_permutations, self.strata, self.groups)

    def _norms(self, target: int, squares: Array) -> Array:
        """Return dual norms from squares without the factors of the kernels, (orders, M), in place."""
        norms = np.maximum(squares, 0.0, out=squares)
        np.sqrt(norms, out=norms)
        norms /= self.penalties[target]
        norms[norms <= self.roundings[target]] = 0.0
        return norms

    def _level(self, target: int, norms: Array, permuted: Array, scale: float) -> NoiseLevel:
        constant = self.constant[target] or not (norms.any() or permuted.any())
        return NoiseLevel(norms, permuted, self.losses[target], constant, scale)


def noise_levels(
    problems: Sequence[Problem],
    seed: int,
    strata: Array | None = None,
    groups: Array | None = None,
    n_permutations: int | None = None,
    *,
    until_told: bool = False,
) -> list[NoiseLevel]:
    """Return dual norms at the empty model of every problem on a single stack, and of the permuted targets.

    A single pass over the kernels for all, or for as many as fit; with ``until_told`` by no more orders than it takes
    to tell that there is more than noise.
    """
    targets_at_once = 512  # of which dual coefficients are held
    if len(problems) > targets_at_once and n_permutations is None and not until_told:
        stack, entries = problems[0].stack, sum(problem.y.size for problem in problems)
        wanted, found = permutations_for(entries, stack.quad_cost * entries / problems[0].n_samples), []
        for start in range(0, len(problems), targets_at_once):
            some = problems[start : start + targets_at_once]
            own = replace(PermutedTargets.create(some, seed, strata, groups), wanted=wanted)
            found += own.more(own.levels(some, wanted), stack)
            for problem in some:
                problem.forget_empty()
        return found
    permuted = PermutedTargets.create(problems, seed, strata, groups)
    levels = permuted.levels(problems, n_permutations or (N_PERMUTATIONS if until_told else permuted.wanted))
    if n_permutations is not None:
        return levels
    return (permuted.until_told if until_told else permuted.more)(levels, problems[0].stack)


def _multiples_of(rhos: Sequence[Array]) -> list[tuple[int, float]]:
    """Return for each target a target of which it is a multiple, itself if there is no other, and the factor."""
    known: dict[int, tuple[int, float]] = {}
    for target in reversed(range(len(rhos)) if len(rhos) <= MOST_COMPARED else ()):
        others = [other for other, (same, _) in known.items() if other == same]
        factors = ((other, multiple_of(rhos[other], rhos[target])) for other in others)
        known[target] = next(((other, factor) for other, factor in factors if factor is not None), (target, 1.0))
    return [known.get(target, (target, 1.0)) for target in range(len(rhos))]


def _squares_of(
    stack: GramStack, rhos: Sequence[Array], orders: Array, sums: list[Array] | None = None
) -> list[tuple[Array, Array | None]]:
    """Return squares of norms of targets (N, T) in the orders, (orders, M) a target: bounds from below.

    Beside them bounds (M,) from above in the first order, or None without bounds. The columns of a target are summed
    overwith shared weights. To ``sums`` the sums of all entries of the kernels are added, (M,).
    """
    multiples = _multiples_of(rhos)
    asked = [target for target, (other, _) in enumerate(multiples) if other == target]
    if len(asked) < len(rhos):  # as weights of two classes multiply the coefficients of both by one factor
        found = dict(zip(asked, _squares_of(stack, [rhos[target] for target in asked], orders, sums), strict=True))
        return [
            found[other] if other == target else _multiplied(found[other], factor**2)
            for target, (other, factor) in enumerate(multiples)
        ]
    if not stack.has_factors and rhos[0].shape[1] > 1:
        return [_squares_of_sets(stack, rho, orders, sums) for rho in rhos]
    largest = max(rho.size for rho in rhos)
    most = min(COLUMN_BYTES // (8 * largest), MOST_COLUMNS * len(rhos[0]) // largest)
    together = max(1, most // len(orders))
    squares: list[tuple[Array, Array | None]] = []
    for first in range(0, len(rhos), together):
        some = rhos[first : first + together]
        widths, unit = [own.shape[1] for own in some], max(float(np.abs(own).max()) for own in some) or 1.0
        ends = np.cumsum([0, *(len(orders) * width for width in widths)]).tolist()
        wanted = sums is not None and not sums
        flat = np.ones((ends[-1] + wanted, len(some[0])))  # set row by row: of many samples these are what is held
        for start, own, width in zip(ends, some, widths, strict=False):
            for row, order in zip(range(start, len(flat), width), orders, strict=False):
                np.divide(own[order].T, unit, out=flat[row : row + width])
        starts = list(zip(ends, ends[1:], widths, strict=False))
        low, high = _quads_of(stack, flat.T, [start + k for start, _, width in starts for k in range(width)])
        if sums is not None and wanted:
            sums.append(low[:, -1].copy())
        low *= unit**2  # in place: of a million kernels they are large
        for start, end, width in starts:
            part = low[:, start:end].reshape(len(low), len(orders), width)
            own = part[:, :, 0] if width == 1 else part.sum(axis=2)
            above = [high[start + k] for k in range(width)] if high else []
            squares.append((own.T, np.sum(above, axis=0) * unit**2 if high else None))
    return squares


def _multiplied(bounds: tuple[Array, Array | None], factor: float) -> tuple[Array, Array | None]:
    """Return bounds times a factor."""
    low, high = bounds
    return low * factor, None if high is None else high * factor


def multiple_of(other: Array, rho: Array) -> float | None:
    """Return the factor between proportional dual coefficients, up to rounding; None otherwise.

    Examples
    --------
    >>> multiple_of(np.array([1.0, -2.0]), np.array([2.0, -4.0])), multiple_of(np.ones(2), np.arange(2.0))
    (2.0, None)
    """
    if other.shape != rho.shape or not other.any():
        return None
    few_rows, about = 100, 1e-6  # rows of two targets, which tell most of them apart, and how alike they are otherwise
    few, own = other[:few_rows], rho[:few_rows]  # which tell most pairs apart
    if not abs(np.vdot(few, own)) >= (1.0 - about) * np.linalg.norm(few) * np.linalg.norm(own):
        return None
    at = np.unravel_index(int(np.argmax(np.abs(other))), other.shape)
    factor = float(rho[at] / other[at])
    return factor if np.allclose(rho, factor * other, rtol=SAME, atol=0.0) else None


def _squares_of_sets(stack: GramStack, rho: Array, orders: Array, sums: list[Array] | None) -> tuple[Array, None]:
    """Return the same of a single target (N, T) of several columns."""
    unit, sets = np.abs(rho).max() or 1.0, rho[orders.T]
    sets /= unit
    if sums is None or sums:
        return unit**2 * stack.squares_each(sets).T, None
    ones = np.zeros((len(rho), 1, rho.shape[1]))
    ones[:, :, 0] = 1.0
    squares = stack.squares_each(np.concatenate([sets, ones], axis=1))
    sums.append(squares[:, -1].copy())
    return unit**2 * squares[:, :-1].T, None


def _quads_of(stack: Any, columns: Array, own: Sequence[int]) -> tuple[Array, dict[int, Array]]:
    """Return bounds (M, k) from below on ``r' K_m r`` of every column, and from above (M,) of some: a single pass.

    None from above where there are no bounds, of matrices.
    """
    if not stack.has_factors:
        return stack.quad_each(columns), {}
    found = stack.quad_bounds_each([np.ascontiguousarray(column) for column in columns.T])
    low, high = np.empty((stack.n_kernels, len(found))), {}
    for slot in reversed(range(len(found))):  # each is let go of once it is copied
        low[:, slot], above = found.pop()
        if slot in own:
            high[slot] = above
    return low, high


def _begins_at(problem: Problem, rho: Array) -> bool:
    """Return whether a fit on factors begins with the dual coefficients (N, 1), to skip the first pass."""
    if not problem.stack.has_factors or problem.shared or problem.unpenalized.size:
        return False
    return np.allclose(problem.empty_start, rho[:, 0], rtol=SAME, atol=0.0)


def permutations_for(n_entries: int, cost: float) -> int:
    """Return how many permutations suffice for the noise level, by entries and cost.

    A multiple of 20 minus 1, for an exact level of 5%.
    """
    most = min(PERMUTED_ENTRIES / n_entries, PERMUTED_COST / cost)
    most_permutations = 199  # more of them tell apart what is weak, which 19 standard deviations of 20 numbers blur
    return 20 * int(np.clip(most // 20, 1, (1 + most_permutations) // 20)) - 1


def random_orders(
    n_samples: int,
    rng: np.random.Generator,
    n_permutations: int,
    strata: Array | None = None,
    groups: Array | None = None,
) -> Array:
    """Return random orders of samples, within their strata and with their groups as wholes, (n_permutations, N).

    Every sample in turn changes places with a uniformly drawn earlier sample or none: a uniform permutation, in which a
    further sample changes a single other place.
    """
    exchanged = _exchanged(n_samples, strata, groups)
    orders = np.tile(np.arange(n_samples, dtype=np.int32), (n_permutations, 1))
    orders_at_once = 20  # that are drawn together
    for start in range(0, n_permutations, orders_at_once):  # by sample: those of the first do not depend on the others
        draws = np.random.default_rng(rng.integers(2**63)).random((n_samples, orders_at_once))
        own = orders[start : start + orders_at_once]
        for units in exchanged:
            places = np.empty((len(own), len(units)), dtype=np.int32)
            _change_places(draws[units[:, 0]], places)
            own[:, units] = units[places]
    return orders


@compiled()
def _change_places(draws: Array, out: Array) -> None:
    """Set ``out`` (p, n) to permutations from uniform numbers (n, p), the choices of earlier swap partners."""
    for order, row in enumerate(out):
        for i in range(row.size):
            j = int(draws[i, order] * (i + 1))
            row[i] = row[j]
            row[j] = i


def _exchanged(n_samples: int, strata: Array | None, groups: Array | None) -> list[Array]:
    """Return which samples change places, (n_units, size) positions: alone, or as groups of equal size.

    The samples of a group as large as no other change places among themselves.
    """
    everything = np.arange(n_samples)
    parts = [everything] if strata is None else [np.flatnonzero(strata == label) for label in np.unique(strata)]
    if groups is None:
        return [part[:, None] for part in parts]
    found: list[Array] = []
    for part in parts:
        by_size: dict[int, list[Array]] = {}
        for label in np.unique(groups[part]):
            own = part[groups[part] == label]
            by_size.setdefault(len(own), []).append(own)
        found += [np.array(sorted(own, key=min)) if len(own) > 1 else own[0][:, None] for own in by_size.values()]
    return found
