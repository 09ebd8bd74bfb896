"""Working set: second-order steps on the few kernels that matter, a single pass over all to certify.

    minimize_{f, b}  sum_i s_i l(y_i, f_i + b) + Omega(t),      t_m = w_m ||f_m||

The iteration of `iteration.py` runs on the kernels of the set. A pass computes ``u_m = sqrt(rho'K_m rho) / w_m`` of all
kernels, and the certificate; kernels with ``u_m`` above the bound ``B_m(0)`` of zero weight (``C`` for the block
1-norm) are missing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from manykernels.grams.packed import PackedStack
from manykernels.grams.plan import COPIED_BYTES
from manykernels.objective.capabilities import Capability
from manykernels.solvers.base import Solver
from manykernels.solvers.gram.block_coordinate import BlockCoordinate
from manykernels.solvers.gram.iteration import PRUNING_TOLERANCE, PrimalDual
from manykernels.solvers.gram.start import scores_of, start_iteration
from manykernels.validation.arrays import check_count

if TYPE_CHECKING:
    from manykernels.grams.base import GramStack
    from manykernels.objective.problem import Certificate, Problem
    from manykernels.solvers.solution import Model
    from manykernels.validation.arrays import Array


# Numbers of the working set that follow from no theorem: they decide the time, not what is certified.
#
# `benchmarks/solvers.py` and `benchmarks/auto.py` measure what they cost.


# Working sets
INNER_SHARE = 0.3  # of tol: how closely a working set is solved, to leave room for violations outside
INNER_PROGRESS = 0.05  # of the current gap: there is no point in solving a wrong working set exactly
FIRST_GAP = 0.1  # of the first working set
NEARLY_ACTIVE = 0.98  # kernels this close to the bound stay
GROWTH = 3  # most kernels added to a working set, in sizes of it
WORTH_DROPPING = 0.25  # share of the working set below which copying the rest costs more than it saves

# Copies
FULL = 1.5  # sizes of its triangles from which a stack holds more than them
# Most kernels that it has spare room for, of a set that begins from a model and is some times as large: of the last
# fits of three searches two sets did not grow, from 10 and 28 kernels, and one from 10 to 14; a buffer that is outgrown
# is held beside the next.
SPARED_OF_WARM = 5


# Where the kernels of a working set are read from: the stack itself if in memory, unless its matrices are full and few,
# else a packed copy if that fits.


@dataclass
class WorkingCopy:
    """The kernels of a working set of ``problem``, evaluated once every while they stay in it.

    A buffer is reused from set to set, since allocation costs more than the evaluation of the kernels. A set too large
    for a copy is read from the stack, with evaluation in every pass.
    """

    problem: Problem
    tol: float
    warm: bool = False  # whether the first set is some times as large as a model to begin from, and seldom grows
    kernels: Array = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    _rows: Array = field(default_factory=lambda: np.zeros(0, dtype=np.intp), repr=False)  # of the buffer, of each
    _buffer: Array | None = field(default=None, repr=False)

    def choose(self, kernels: Array) -> Problem:
        """Return the problem on ``kernels``; previous kernels must come first, in their old order."""
        stack = self.problem.stack
        if stack.in_memory and not self._pays(kernels.size):
            chosen: GramStack = stack.view(kernels, prove=False)
            self._forget()
        elif self._fits(kernels.size):
            chosen = PackedStack(self._pack(kernels), stack.n_samples, n_threads=stack.n_threads)
            self.kernels = kernels
        else:
            chosen = stack.take(kernels)
            self._forget()
        return self.problem.replace_stack(chosen, kernels)

    def _forget(self) -> None:
        self.kernels = self._rows = np.zeros(0, dtype=np.intp)
        self._buffer = None

    def _pack(self, kernels: Array) -> Array:
        kept = self._rows[np.isin(self.kernels, kernels)]
        buffer = self._room(kernels.size)
        source = buffer if self._buffer is None else self._buffer
        for new, old in enumerate(kept):
            if new != old or source is not buffer:
                buffer[new] = source[old]
        self._buffer, self._rows = buffer, np.arange(kernels.size)
        if kernels.size > kept.size:
            self.problem.stack.triangles(kernels[kept.size :], out=buffer[kept.size : kernels.size], prove=False)
        return buffer[: kernels.size]

    def _pays(self, size: int) -> bool:
        """Return whether a copy of kernels in memory is read faster: few triangles of full matrices."""
        stack, triangle = self.problem.stack, self._dtype.itemsize * self._entries
        return stack.nbytes >= FULL * stack.n_kernels * triangle and size * triangle <= COPIED_BYTES

    @property
    def _entries(self) -> int:
        """Number of entries of a triangle."""
        return self.problem.n_samples * (self.problem.n_samples + 1) // 2

    @cached_property
    def _dtype(self) -> Any:
        problem, stack = self.problem, self.problem.stack
        if stack.dtype == np.float32:
            return stack.dtype
        # loosest gap that single precision of a copy could be felt in, of kernels to be evaluated
        single_precision_gap = 1e-5
        rounded_share = 0.1  # of tol, that single precision of a copy of kernels in memory may be predicted to move
        single = self._rounding <= rounded_share * self.tol if stack.in_memory else self.tol >= single_precision_gap
        single &= not problem.unpenalized.size  # whose weights multiply rounding
        return np.dtype(np.float32 if single else np.float64)

    @property
    def _rounding(self) -> float:
        """By what share single precision of the kernels is predicted to move the objective; infinite out of the range.

        Kernels ``K + E`` move it by ``rho'E rho / 2`` times their weights. These add up to the value over the square of
        the bound ``B(0)`` on norms at most, and ``|E|`` is ``sqrt(N)`` roundings of a diagonal entry, about.
        """
        problem, numbers = self.problem, np.finfo(np.float32)
        tops = problem.entry_roots.max(axis=1) ** 2
        bounds = np.broadcast_to(problem.regularizer.inactive_below, tops.shape) * problem.penalties
        if not (bounds > 0).all() or tops.max() > numbers.max or tops.min() * numbers.eps < numbers.tiny:
            return np.inf
        rho = problem.zero_model()[0]
        relative = float((np.sqrt(tops) * float(np.linalg.norm(rho)) / bounds).max())
        return 0.5 * float(numbers.eps) * float(np.sqrt(problem.n_samples)) * relative * relative

    @property
    def _most_rows(self) -> int:
        """Number of storable triangles of kernels."""
        stack = self.problem.stack
        allowed = COPIED_BYTES if stack.in_memory else stack.spare_bytes
        row = self._dtype.itemsize * self._entries
        return stack.n_kernels if allowed is None else min(stack.n_kernels, allowed // row)

    def _fits(self, size: int) -> bool:
        """Return whether ``size`` kernels fit, beside the rows of an outgrown buffer."""
        if self.problem.stack.in_memory or self.problem.stack.spare_bytes is None:
            return True
        outgrown = self._buffer is not None and self._buffer.shape[0] < size
        return size + (self.kernels.size if outgrown else 0) <= self._most_rows

    def _room(self, size: int) -> Array:
        """Return a buffer of at least ``size`` rows, with some to spare: where addresses are limited the count."""
        if self._buffer is not None and self._buffer.shape[0] >= size:
            return self._buffer
        spared_rows = 1.5  # kernels that a buffer has room for, in those of the working set that it is for
        spared = int(spared_rows * size) - size
        rows = size + (min(spared, SPARED_OF_WARM) if self.warm else spared)
        return np.empty((min(rows, self._most_rows), self._entries), dtype=self._dtype)


@dataclass
class _State:
    start: Model
    copy: WorkingCopy
    kernels: Array = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    iteration: PrimalDual | None = None
    norms: Array = field(default_factory=lambda: np.zeros(0))
    gap: float = np.inf
    previous_gap: float = np.inf
    absolute_gap: float = np.inf
    share: float = INNER_SHARE
    trims: int = 0
    trimmed: Array = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    missed: Array = field(default_factory=lambda: np.zeros(0, dtype=np.intp))


@dataclass(frozen=True, kw_only=True)
class WorkingSet(Solver):
    """Solve on a growing set of kernels with the primal-dual Newton iteration; certify on all kernels with one pass.

    Solves ``min_{f,b} sum_i s_i l(y_i, f_i + b) + Omega(||f_1||, ..., ||f_M||)`` for regularizers that select kernels:
    block 1-norm, elastic net and weights on a simplex. A kernel outside the set cannot matter while the dual norm ``u_m
    = sqrt(rho' K_m rho)`` stays below a bound (``C`` for the block 1-norm); the pass of every outer iteration computes
    all, which gives the certificate and the worst violators at once.

    Parameters
    ----------
    initial_size : int
        Most kernels in the first working set, of a cold start all; every later one is at most four times the one
        before, or twice where kernels have to be evaluated.

    Notes
    -----
    The variables of the iteration survive from one working set to the next: new kernels enter with a slack and with
    the weight that puts their product on the central path.

    Where the iteration breaks down, as it can when the optimum is a millionth of the loss at zero, block coordinate
    descent goes on from the best model, and the better of both is returned.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.objective import Problem, get_loss, get_regularizer
    >>> rng = np.random.default_rng(0)
    >>> factors = rng.standard_normal((300, 20, 2))
    >>> kernels = factors @ factors.transpose(0, 2, 1)
    >>> problem = Problem(kernels, np.sign(factors[7, :, 0]), get_loss("logistic"), get_regularizer("l1", 3.0))
    >>> solution = WorkingSet(tol=1e-6).solve(problem)
    >>> str(solution.status), int(solution.kernel_weights.argmax())
    ('converged', 7)
    """

    initial_size: int = 50

    name: ClassVar[str] = "working_set"
    supports_coupled: ClassVar[bool] = True
    unpenalized: ClassVar[bool] = True
    fallback: ClassVar[type[Solver] | None] = BlockCoordinate
    needs: ClassVar[frozenset[Capability]] = frozenset(
        {Capability.CURVED_CONJUGATE, Capability.MULTIPLIERS, Capability.SELECTION}
    )

    def __post_init__(self) -> None:
        check_count(self.initial_size, "initial_size")

    def initialize(self, problem: Problem, start: Model) -> _State:
        """Start from the given model with an empty working set."""
        return _State(start, WorkingCopy(problem, self.tol, warm=bool(start[1].any())))

    def observe(self, problem: Problem, state: _State, certificate: Certificate) -> None:
        """Keep the norms of all kernels, which determine the violators."""
        state.norms = certificate.dual_norms
        state.previous_gap = state.gap
        state.gap, state.absolute_gap = certificate.relative_gap, certificate.gap

    def step(self, problem: Problem, state: _State) -> None:
        """Grow the working set by the worst violators and solve."""
        if state.iteration is None:
            self._open(problem, state)
        else:
            self._revise(problem, state, state.iteration)
        assert state.iteration is not None
        wanted = state.share * self.tol
        if state.kernels.size < problem.n_kernels:
            wanted = max(wanted, min(INNER_PROGRESS * state.gap, FIRST_GAP))
        state.iteration.descend(wanted, self._negligible_gap(wanted))
        most_trims = 3
        if state.trims < most_trims and state.iteration.is_within(self.tol):
            self._trim(problem, state, state.share * self.tol)

    def extract(self, problem: Problem, state: _State) -> Model:
        """Return the model of the working set, with weight zero for all other kernels."""
        assert state.iteration is not None
        rho, weights, b = state.iteration.model(PRUNING_TOLERANCE * self.tol)
        d = np.zeros(problem.n_kernels)
        d[state.kernels] = weights
        return rho, d, b

    def newton_steps(self, state: _State) -> int:
        """Return the number of Newton steps over all working sets."""
        return 0 if state.iteration is None else state.iteration.n_steps

    def _open(self, problem: Problem, state: _State) -> None:
        rho, d, b = state.start
        bounds = problem.regularizer.inactive_below
        norms = _relative(state.norms, bounds) if np.any(bounds) else state.norms
        always = int(np.isinf(norms).sum())  # kernels that no norm is too small for can never be left out
        warm, least_warm = 2, 10  # size of the first working set from a model: in kernels of that model, and at least
        size = (
            min(self.initial_size, max(warm * int(np.count_nonzero(d)), least_warm)) if d.any() else self.initial_size
        )
        dense_start = 20  # regularizers without a hard dual constraint keep many kernels: start with this part of all
        size = max(size, 0 if problem.regularizer.dual_constraint else problem.n_kernels // dense_start)
        worst = np.argsort(-norms, kind="stable")[: size + always]
        state.kernels = np.union1d(worst, np.flatnonzero(d))
        if state.kernels.size == problem.n_kernels:  # none outside, for which to leave room
            state.share = PRUNING_TOLERANCE
        chosen = state.copy.choose(state.kernels)
        state.iteration = start_iteration(chosen, rho, b, scores_of(problem, rho, d), d[state.kernels])
        state.gap = FIRST_GAP / INNER_PROGRESS

    def _revise(self, problem: Problem, state: _State, iteration: PrimalDual) -> None:
        shared = iteration.shared_bound
        norms = _relative(state.norms, problem.regularizer.inactive_below if shared is None else shared)
        inside = norms[state.kernels]
        keep = ~iteration.kernels.inactive() | (inside >= min(NEARLY_ACTIVE, inside.max()))
        outside = np.ones(problem.n_kernels, dtype=bool)
        outside[state.kernels] = False
        nearly_violated = 0.995  # kernels this close to the bound are taken in along with the violators
        found = np.flatnonzero(outside & (norms > nearly_violated))
        growth = GROWTH if problem.stack.in_memory else 1
        room = max(self.initial_size, growth * state.kernels.size)
        added = found[np.argsort(-norms[found], kind="stable")][:room]
        state.missed = np.union1d(state.missed, np.intersect1d(added, state.trimmed))
        slow = 0.7  # a gap that shrinks by less calls for solving more closely and for dropping no kernel
        if not (norms[added] > 1.0).any() or state.gap > slow * state.previous_gap:
            state.share *= 0.3
            keep[:] = True
        if problem.stack.in_memory and np.count_nonzero(~keep) < WORTH_DROPPING * keep.size:
            keep[:] = True
        if added.size or not keep.all():
            state.kernels = np.concatenate([state.kernels[keep], added])
            chosen = state.copy.choose(state.kernels)
            moved = iteration.move_to(chosen, keep, state.norms[added], state.absolute_gap)
            # Kernels far beyond their bound enter with weights that can throw the iteration off its path for good.
            rho, b = problem.zero_model()
            lost = moved.bounds()[0] > problem.empirical_loss(np.full(problem.n_samples, b))
            state.iteration = start_iteration(chosen, rho, b) if lost else moved
            state.iteration.n_steps = moved.n_steps
            if moved.alone:
                moved.otherwise = partial(start_iteration, chosen, rho, b)

    def _trim(self, problem: Problem, state: _State, wanted: float) -> None:
        """Solve once more without inactive kernels whose small weights the model still needs.

        Among many kernels that nearly reach their bound, an interior point spreads small weights over all. Should one
        of the kernels left out be missed, the next pass finds it, and it is not left out again.
        """
        assert state.iteration is not None
        keep = ~state.iteration.kernels.inactive() | np.isin(state.kernels, state.missed)
        if keep.all() or not keep.any() or state.iteration.allows_zeros(self._negligible_gap(wanted)):
            return
        state.trims += 1
        state.trimmed = np.union1d(state.trimmed, state.kernels[~keep])
        state.kernels = state.kernels[keep]
        chosen = state.copy.choose(state.kernels)
        distance = wanted * max(abs(state.iteration.bounds()[0]), problem.tiny)
        state.iteration = state.iteration.move_to(chosen, keep, np.zeros(0), distance)
        state.iteration.descend(wanted, self._negligible_gap(wanted))

    def _negligible_gap(self, wanted: float) -> float:
        """Return the relative gap within which inactive kernels are negligible."""
        return 2.0 * wanted if wanted > self.tol else PRUNING_TOLERANCE * self.tol


def _relative(norms: Array, bounds: Array | float) -> Array:
    """Return dual norms in units of the activity bound of a kernel; infinite without a bound."""
    bounds = np.broadcast_to(bounds, norms.shape)
    return np.divide(norms, bounds, out=np.full(norms.shape, np.inf), where=bounds > 0)
