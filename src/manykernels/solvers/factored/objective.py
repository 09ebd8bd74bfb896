"""The smooth part of the problem in coefficients of factors, with the sums over rows that the minimizers need.

`KnownCurvature` caches products under a fixed curvature of the samples. The curvature ``W`` of a squared loss is the
same at every point, so that ``Z_m' W Z_m`` and ``Z' W Z`` of kernels in use once serve all rounds and all strengths of
a path.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.optimize import brentq

from manykernels.grams.factored import FactorOperator
from manykernels.grams.factored.base import columns_of
from manykernels.grams.factored.operators import ColumnFactors, DenseOperator, neighbors_from
from manykernels.grams.loops import block_grams, copy_block
from manykernels.grams.rows.vectors import RowVector, sums
from manykernels.objective.losses.smoothing import ScoreFunction
from manykernels.objective.problem import Problem
from manykernels.solvers.factored.group_penalty import GroupPenalty, places_of
from manykernels.validation.arrays import Array, read_only

NO_BASES = np.zeros((0, 0)), np.zeros((0, 0, 0))


@dataclass(frozen=True, eq=False)
class Coefficients:
    """Coefficients of the factors of some kernels, in turn."""

    kernels: Array  # (g,) int
    starts: Array  # (g + 1,) int: where those of each kernel begin
    v: Array  # (r,) float64

    @classmethod
    def create(cls, kernels: Array, starts: Array, v: Array) -> Coefficients:
        """Return a copy of the nonzero kernels."""
        alive = np.flatnonzero(np.add.reduceat(v != 0, starts[:-1])) if len(kernels) else np.zeros(0, dtype=np.int64)
        ranks = np.diff(starts)[alive]
        places = neighbors_from(starts[:-1][alive], ranks)
        return cls(kernels[alive], np.concatenate([[0], np.cumsum(ranks)]), v[places])

    def transfer(self, kernels: Array, starts: Array, n_outputs: int = 0) -> Array:
        """Return the coefficients of other kernels, zero for new kernels.

        Finer factors begin with the directions of coarser factors, for every output; none without ``n_outputs``.
        """
        v, (here, there) = np.zeros(starts[-1]), both(kernels, self.kernels)
        ranks, own = starts[here + 1] - starts[here], self.starts[there + 1] - self.starts[there]
        same = ranks == own
        heads, old = starts[here], self.starts[there]
        v[neighbors_from(heads[same], ranks[same])] = self.v[neighbors_from(old[same], ranks[same])]
        for slot in np.flatnonzero(~same).tolist() if n_outputs else ():
            part = self.v[old[slot] : old[slot] + own[slot]].reshape(n_outputs, -1)
            wide = v[heads[slot] : heads[slot] + ranks[slot]].reshape(n_outputs, -1)
            size = min(part.shape[1], wide.shape[1])
            wide[:, :size] = part[:, :size]
        return v


def both(kernels: Array, others: Array) -> tuple[Array, Array]:
    """Return the places of common kernels in both lists."""
    order = np.argsort(others)
    at = np.searchsorted(others, kernels, sorter=order)
    here = np.flatnonzero(at < len(others))
    there = order[at[here]]
    same = others[there] == kernels[here]
    return here[same], there[same]


@dataclass
class KnownCurvature:
    """Products of factors under a fixed curvature of the samples."""

    factor_tol: float = 0.0  # what the factors leave of the trace
    single: bool = False  # whether products in single precision do: gradients are exact, steps go on until the gap is
    weights: Array = field(default_factory=lambda: np.zeros(0))  # (N,): the curvature
    sweeps: int = 0  # over groups that the last solve took, if it took any
    # Eigenvalues (g, r) of ``Z_m' W Z_m`` and eigenvectors (g, r, r) of kernels of fewer factors filled up with zeros,
    # and where each kernel's stand
    bases: tuple[Array, Array] = NO_BASES
    slots: dict[int, int] = field(default_factory=dict)
    # (r, r): ``Z' W Z`` of all kernels in ``places``, which says where each kernel's coefficients begin
    hessian: Array = field(default_factory=lambda: np.zeros((0, 0)))
    totals: Array = field(default_factory=lambda: np.zeros(0))  # (r,): ``Z' W 1``
    places: dict[int, int] = field(default_factory=dict)
    # (P, N): columns of the table in single precision, as far as some are known, which ``copied`` says
    rounded: Array = field(default_factory=lambda: np.zeros((0, 0), dtype=np.float32))
    copied: Array = field(default_factory=lambda: np.zeros(0, dtype=bool))

    def find_products(self, weights: Array) -> KnownCurvature:
        """Return the cached products under equal weights, else empty."""
        if not np.array_equal(self.weights, weights):
            self.weights, self.slots, self.places, self.bases = weights, {}, {}, NO_BASES
        return self

    def let_go(self) -> None:
        """Release the products, as large as the factors."""
        self.find_products(np.zeros(0)).hessian = np.zeros((0, 0))

    def eigenbases(
        self, kernels: Array, Z: Array, firsts: Array, ranks: Array, roots: Array, alike: float = 0.0
    ) -> tuple[Array, Array]:
        """Return eigenvalues and eigenvectors of kernels: factors are ``roots`` times rows of Z from ``firsts`` on.

        Less their means where ``alike``, the sum of weights, says that a shift of all scores changes nothing.
        """
        new = np.flatnonzero([kernel not in self.slots for kernel in kernels.tolist()])
        if len(new):
            self._add_bases(kernels[new], Z, firsts[new], ranks[new], roots[new], alike)
        slots, most = [self.slots[kernel] for kernel in kernels.tolist()], int(ranks.max())
        return self.bases[0][slots, :most], self.bases[1][slots, :most, :most]

    def _add_bases(self, kernels: Array, Z: Array, firsts: Array, ranks: Array, roots: Array, alike: float) -> None:
        old, (values, vectors) = len(self.slots), self.bases
        most, width = max(int(ranks.max()), values.shape[1]), values.shape[1]
        if old + len(kernels) > len(values) or most > width:
            size = max(2 * old, old + len(kernels))
            self.bases = np.zeros((size, most)), np.zeros((size, most, most))
            self.bases[0][:old, :width], self.bases[1][:old, :width, :width] = values[:old], vectors[:old]
        no_curvature = 50.0  # roundings of the largest eigenvalue of a kernel: below them, another one is given so much
        least = no_curvature * float(np.finfo(Z.dtype).eps)
        for rank in np.unique(ranks).tolist():
            own = np.flatnonzero(ranks == rank)
            grams, sums = np.empty((len(own), rank, rank)), np.empty((len(own), rank))
            block_grams(read_only(Z), firsts[own], self.weights, grams, sums)
            if alike > 0.0:
                grams -= sums[:, :, None] * (sums / alike)[:, None]
            found, turns = np.linalg.eigh(roots[own, None, None] ** 2 * grams)
            self.bases[0][old + own, :rank] = np.maximum(found, least * np.maximum(found[:, -1:], 1e-300))
            self.bases[1][old + own, :rank, :rank] = turns
        self.slots.update(zip(kernels.tolist(), range(old, old + len(kernels)), strict=True))

    def single_columns(self, columns: Array, places: Array) -> Array:
        """Return columns of a table (P, N) in single precision in place, for used columns only.

        Memory is taken as they are written.
        """
        if self.rounded.shape != columns.shape:
            self.rounded, self.copied = np.empty(columns.shape, np.float32), np.zeros(len(columns), dtype=bool)
        new = places[~self.copied[places]]
        for place in new.tolist():
            self.rounded[place] = columns[place]
        self.copied[new] = True
        return self.rounded

    def missing(self, operators: Sequence[Any]) -> int:
        """Return how many coefficients of operators have no part in the Hessian yet."""
        kernels, ranks = kernels_of(operators)
        return int(ranks[[kernel not in self.places for kernel in kernels.tolist()]].sum())

    def gram(self, operators: Sequence[Any], in_place: ColumnFactors | None = None, *, n_constants: int) -> Array:
        """Return ``Z' W Z``, and a row for ``n_constants`` = 1; kernels known cost nothing.

        ``in_place`` are the factors together, where they are columns of the table.
        """
        ends = np.cumsum([0] + [int(operator.starts[-1]) for operator in operators])
        rank, (kernels, ranks) = int(ends[-1]), kernels_of(operators)
        H, totals = np.empty((rank + n_constants, rank + n_constants)), np.empty(rank)
        heads = np.array([self.places.get(kernel, -1) for kernel in kernels.tolist()])
        old = np.where(np.repeat(heads >= 0, ranks), neighbors_from(heads, ranks), -1)
        kept = np.flatnonzero(old >= 0)
        if len(kept):
            copy_block(self.hessian, old[kept], kept, H)
            totals[kept] = self.totals[old[kept]]
        new = np.flatnonzero(old < 0)
        if in_place is not None and len(new):
            H[:rank, new], totals[new] = in_place.products(self.weights, new, single=self.single)
            H[new, :rank] = H[:rank, new].T
        for operator, low, high in zip(operators, ends[:-1], ends[1:], strict=True):
            if in_place is None and (old[low:high] < 0).any():
                weighted = self.weights[:, None] * operator.rows(slice(None))
                H[:rank, low:high] = np.concatenate([other.adjoint(weighted) for other in operators])
                H[low:high, :rank], totals[low:high] = H[:rank, low:high].T, weighted.sum(axis=0)
        if len(kept) < rank:
            self.hessian, self.totals = H[:rank, :rank].copy(), totals
            self.places = dict(zip(kernels.tolist(), (np.cumsum(ranks) - ranks).tolist(), strict=True))
        if n_constants:
            H[rank, :rank] = H[:rank, rank] = totals
            H[rank, rank] = self.weights.sum()
        return H


def kernels_of(operators: Sequence[Any]) -> tuple[Array, Array]:
    """Return the kernels (g,) of operators, and their numbers of coefficients."""
    if len(operators) == 1:
        return operators[0].kernels, np.diff(operators[0].starts)
    ranks = [np.diff(one.starts) if len(one.kernels) > 1 else one.starts[1:] for one in operators]
    return np.concatenate([operator.kernels for operator in operators]), np.concatenate(ranks)


class OutputOperator:
    """The factors of an operator, once for every output; vectors over rows are (N, T).

    Parameters
    ----------
    base : FactorOperator
        Of a single output.
    n_outputs : int

    Attributes
    ----------
    place : (T, r) int
        Where the coefficients of every output stand: kernel by kernel, output after output.
    """

    def __init__(self, base: FactorOperator, n_outputs: int) -> None:
        self.base, self.n_outputs = base, n_outputs
        self.kernels, self.positions, self.starts = base.kernels, base.positions, base.starts * n_outputs
        self.place = places_of(self.starts, n_outputs)

    def add_scores(self, v: Array, out: Array) -> None:
        """Add ``Z v_t`` to the scores of every output."""
        parts = v[self.place]
        if isinstance(self.base, DenseOperator):
            self.base.add_scores(parts.T, out)
            return
        for part, own in zip(parts, out.T, strict=True):
            if part.any():
                self.base.add_scores(part, own)

    def adjoint(self, rho: Array) -> Array:
        """Return ``Z' rho_t`` of every output."""
        out = np.empty(self.place.size)
        if isinstance(self.base, DenseOperator):
            out[self.place] = self.base.adjoint(rho).T
        else:
            out[self.place] = [self.base.adjoint(column) for column in columns_of(rho)]
        return out

    def rows(self, index: Array) -> Array:
        """Return rows of ``Z``, common to all outputs."""
        return self.base.rows(index)

    def excess(self, v: Array) -> tuple[Array, Array]:
        """Bound what the exact kernels add: squared norms over all outputs, and the largest change of any score."""
        squares, scores = zip(*(self.base.excess(part) for part in v[self.place]), strict=True)
        return np.sum(squares, axis=0), np.max(scores, axis=0)


def is_matrix_free(operator: object) -> bool:
    """Whether an operator's Hessian is not to be formed: sparse features are many."""
    return bool(getattr(getattr(operator, "base", operator), "matrix_free", False))


def per_output(operators: Sequence[FactorOperator], problem: Problem) -> list[FactorOperator]:
    """Return factors repeated for every output, for the vectors of the problem."""
    return [OutputOperator(each, problem.n_targets) for each in operators] if problem.shared else list(operators)


@dataclass
class Point:
    """Coefficients, intercept (of several outputs (T,)) and scores ``z = Z v + b`` ((N,) or (N, T)), kept together."""

    v: Array
    b: Any
    z: Array
    whole: bool = False  # whether scores are those of the coefficients, rather than what changes of them add up to


class FactoredObjective:
    """Loss and penalty on the factors of a working set of kernels.

    Parameters
    ----------
    problem : Problem
    operators : list of FactorOperator
    mu : float or (T,) array
        Smoothing of a kinked loss, of several outputs of every.
    center : float or array of the shape of the scores
        Dual variables that it is smoothed around.
    """

    def __init__(
        self, problem: Problem, operators: list[FactorOperator], mu: float | Array, center: float | Array = 0.0
    ) -> None:
        self.problem, self.operators, self.bases = problem, per_output(operators, problem), operators
        self.n_outputs, self.mu, self.center = problem.n_targets if problem.shared else 1, mu, center
        self.loss = problem.bound.smoothed(mu, center)
        operators = self.operators
        self.kernels, ranks = kernels_of(operators)
        self.ends = np.cumsum([0] + [int(operator.starts[-1]) for operator in operators])
        starts = np.concatenate([[0], np.cumsum(ranks)])
        self.penalty = GroupPenalty.create(
            problem.regularizer.take(self.kernels), starts, problem.penalties[self.kernels]
        )
        stack: Any = problem.stack
        if stack.shaped:
            cones = tuple(stack.constraints_of(kernel) for kernel in self.kernels.tolist())
            self.penalty = replace(self.penalty, cones=cones)
        self.rank = int(self.ends[-1])
        self.known = KnownCurvature()  # that of a path, in its place, serves all strengths

    @cached_property
    def joint_columns(self) -> ColumnFactors | None:
        """All factors together, as table columns readable in place."""
        stack: Any = self.problem.stack
        return ColumnFactors.create(stack.table, self.bases)

    @cached_property
    def place(self) -> Array:
        """Where the coefficients of every output stand, (T, r): kernel by kernel, output after output."""
        return places_of(self.penalty.starts, self.n_outputs)

    # --- sums over rows ---------------------------------------------------------------------------------------------

    @cached_property
    def constant(self) -> bool:
        """Whether second derivatives are independent of scores, with factors in memory, for cached sums."""
        quadratic = getattr(self.problem.loss, "linear_dual", False)
        return quadratic and all(isinstance(operator, (DenseOperator, ColumnFactors)) for operator in self.operators)

    @cached_property
    def takes_turns(self) -> bool:
        """Whether block coordinate descent over rows applies: factors in memory, compiled penalties, no cones.

        It converges slowly for kernels on the same columns.
        """
        if self.penalty.shape is None or self.penalty.coned:
            return False
        if self.joint_columns is not None:
            return self.joint_columns.disjoint
        if not all(isinstance(one, DenseOperator) and len(one.kernels) == 1 for one in self.bases):
            return False
        columns = [j for operator in self.bases for j in operator.positions or ()]
        return len(set(columns)) == len(columns)

    @property
    def matrix_free(self) -> bool:
        """Whether some factors are for products only."""
        return any(is_matrix_free(operator) for operator in self.operators)

    @cached_property
    def apart(self) -> FactoredObjective:
        """The same objective with an operator per kernel, if joined."""
        if self.joint_columns is None or len(self.bases) > 1:
            return self
        return FactoredObjective(self.problem, self.joint_columns.apart(), self.mu, self.center)

    @cached_property
    def single_precision(self) -> FactoredObjective:
        """The same objective on columns in single precision, if permitted and in place."""
        own = self.joint_columns
        if own is None or not self.known.single:
            return self
        columns = self.known.single_columns(own.columns, own.places)
        factors: Any = ColumnFactors(columns, own.kernels, own.firsts, own.ranks, own.roots)
        return FactoredObjective(self.problem, [factors], self.mu, self.center)

    def scores(self, v: Array) -> Array:
        """Return ``Z v`` without the intercept."""
        out = self.problem.constant_scores(0.0)
        if self.joint_columns is not None:
            rows = out.reshape(-1, self.n_outputs).T.copy()
            for part, own in zip(v[self.place], rows, strict=True):
                self.joint_columns.add_scores(part, own)
            return rows.T if self.problem.shared else rows[0]
        for operator, part in zip(self.operators, self.split(v), strict=True):
            if part.any():
                operator.add_scores(part, out)
        return out

    def settle(self, point: Point) -> None:
        """Compute the scores kept with rows on workers anew, a checkpoint against lost workers."""
        if isinstance(point.z, RowVector):
            point.z = self.scores(point.v) + point.b

    def adjoint(self, rho: Array) -> Array:
        """Return ``Z' rho``."""
        if self.joint_columns is not None:
            found = np.empty(self.rank)
            found[self.place] = [self.joint_columns.adjoint(column) for column in columns_of(rho)]
            return found
        return np.concatenate([operator.adjoint(rho) for operator in self.operators])

    def split(self, v: Array) -> list[Array]:
        """Return the part of every operator."""
        return [v[low:high] for low, high in pairwise(self.ends.tolist())]

    def value(self, point: Point) -> float:
        """Return the (smoothed) objective."""
        return self.loss.value(point.z) + self.penalty.value(point.v)

    # --- intercept and gap ------------------------------------------------------------------------------------------

    @property
    def n_free(self) -> int:
        """Number of intercepts."""
        return self.problem.n_targets if self.problem.fit_intercept else 0

    @property
    def products(self) -> float:
        """Products per row in a dense Hessian, with a block per output."""
        return float(self.rank) ** 2 / self.n_outputs

    @property
    def order(self) -> float:
        """The order of a single matrix of equal factorization cost."""
        return float(self.rank) / self.n_outputs ** (2.0 / 3.0)

    def totals(self, rho: Array) -> Array:
        """Return the sums of score coefficients for the intercepts, (n_free,)."""
        if not self.n_free:
            return np.zeros(0)
        return rho.sum(axis=0) if self.problem.shared else np.array([float(rho.sum())])

    def intercepts(self, b: Array) -> Any:
        """Return intercepts (n_free,), also in the form added to scores, zero if none."""
        if self.problem.shared:
            return b if self.n_free else np.zeros(self.problem.n_targets)
        return float(b.sum())

    def settle_intercept(self, point: Point) -> Array:
        """Move the intercepts to their minimum by a few safeguarded Newton steps; return the slopes there."""
        problem = self.problem
        if not problem.fit_intercept:
            return self.loss.gradient(point.z)
        if not problem.shared:
            point.z, shift, slopes = shift_scores(self.loss, point.z)
            point.b = point.b + shift
            return slopes
        if len(self.loss.outputs) < problem.n_targets:  # outputs that act on each other
            step = problem.loss.best_intercepts(problem.y, point.z, problem.weight)
            point.z, point.b = point.z + step, point.b + step
            return self.loss.gradient(point.z)
        pairs = zip(self.loss.outputs, columns_of(point.z), strict=True)
        scores, shifts, columns = zip(*(shift_scores(*pair) for pair in pairs), strict=True)
        point.z, point.b = np.array(scores).T, point.b + np.array(shifts)
        return np.array(columns).T

    def dual_value(self, z: Array, rho: Array, adjoint: Array) -> float:
        """Return the dual bound of the (smoothed) problem on the factors at slopes ``-rho`` of scores ``z``.

        ``adjoint`` is ``Z' rho``.
        """
        problem = self.problem
        u = self.penalty.dual_norms(adjoint) / problem.penalties[self.kernels]
        regularizer = problem.regularizer.take(self.kernels)
        scale = regularizer.dual_scale(u)
        return -self.loss.conjugate_at(rho, scale, z) - regularizer.conjugate(scale * u)


def shift_scores(loss: ScoreFunction, z: Array) -> tuple[Array, float, Array]:
    """Return scores of a single output shifted to where the slopes sum to zero, the shift, and the slopes there."""
    slopes, shift = loss.gradient(z), 0.0
    total, size = sums(slopes, np.abs(slopes))
    for _ in range(20):
        if abs(total) <= 1e-9 * size:
            break
        for step in _intercept_steps(loss, z, total):
            trial = loss.gradient(z + step)
            left, reach = sums(trial, np.abs(trial))
            if abs(left) < abs(total):
                z, shift, slopes = z + step, shift + step, trial
                total, size = left, reach
                break
        else:
            step = _crossing_step(loss, z, total)
            return z + step, shift + step, loss.gradient(z + step)
    return z, shift, slopes


def _intercept_steps(loss: ScoreFunction, z: Array, total: float) -> Iterator[float]:
    """Yield steps to try: Newton's, then increasingly short steps of the curvature bound."""
    curvature = loss.curvature(z).total
    if curvature > 0:
        yield -total / curvature
    safe = -total / max(loss.curvature_bound(z).total, 1e-300)
    yield from (safe, 0.25 * safe, 0.05 * safe)


def _crossing_step(loss: ScoreFunction, z: Array, total: float) -> float:
    """Return the step to where the sum of slopes changes the sign: on plateaus other steps lead nowhere.

    A smoothed loss has plateaus where no sample has curvature, between the kinks of two groups of samples.
    """

    def rest(step: float) -> float:
        return float(sums(loss.gradient(z + step))[0])

    reach = -total / max(loss.curvature_bound(z).total, 1e-300)
    for _ in range(60):
        if rest(reach) * total <= 0:
            return float(brentq(rest, 0.0, reach, xtol=1e-300, maxiter=100, disp=False))
        reach *= 2.0
    return 0.0
