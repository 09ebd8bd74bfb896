"""The search for many targets with the squared loss: every target has its own strength, mixing and kernel weights.

All targets walk down the same strengths in every fold, in batches (`many_targets.py`). A target stops where the score
has fallen for two steps. Averages of all kernels come first, then selections; mixtures between them are for targets
that selections predict at least as well as averages. Averages of fewer kernels begin with a single kernel, and another
one joins as long as the held-out rows of the target gain.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import InitVar, dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from manykernels.estimators.selection.folds import HeldOut, OpenedKernels
from manykernels.estimators.selection.mixtures import (
    EMPTY,
    EVERY,
    MIXINGS,
    MOST_SELECTED,
    NO_KERNELS,
    PLAIN,
    SPECIAL,
    Mixture,
    Scale,
)
from manykernels.estimators.selection.search import BEYOND
from manykernels.estimators.selection.strengths import Grid, StopReason
from manykernels.estimators.strength import default_fraction
from manykernels.grams import cross_combine
from manykernels.solvers.fold import Candidate
from manykernels.solvers.gram.many_targets import ALWAYS, CHUNK, KernelFeatures, fit_targets, takes_batch
from manykernels.solvers.run import check_deadline
from manykernels.validation.arrays import Array

if TYPE_CHECKING:
    from manykernels.estimators.selection.splits import Split
    from manykernels.grams.training import Training
    from manykernels.objective.problem import Problem

SEARCHED_BYTES = 2**26  # of targets that are searched together
COARSE_RANK_TOL = 1e-7  # of the features of folds, whose models have a relative gap of a hundredth
STRIDE = 2  # steps of the grid between strengths that are tried
FEWER, SOME_ERROR = "kernels of each target", 0.25  # standard errors by which fewer kernels must be ahead of all
MOST_SUMS = 32  # sums of as many kernels that are tried for some target; the less frequent ones are left out
NEGLIGIBLE = 1e-5  # of a score: what counts for no gain
WORSE = 2  # strengths in a row without a better score that end the walk of a target
SHORTEST_SQUARE = 1e-13  # of the largest eigenvalue of a sum of kernels: what is left out
RIDGE_RATIO, RIDGE_STEPS = 1e-6, 25  # smallest fraction of the strengths of averages, and how many there are
STRONGER = 8  # more of them, above the first: kernels of low rank and weak effects are shrunk further


@dataclass(frozen=True, eq=False)
class TargetMixture(Mixture):
    """All kernels under one mixture, or averages of kernels of each target, with the scales of targets as arrays."""

    linear: Array = field(default_factory=lambda: np.zeros(0))  # (T,): strengths that leave nothing, of the norms
    squared: Array = field(default_factory=lambda: np.zeros(0))  # (T,): and of the squared norms
    each: Array = field(default_factory=lambda: np.zeros((0, 0)))  # (T, M): what each kernel adds to the latter
    # (T, M) bool: kernels of each target, which the search sets together with `squared`; empty if all take part
    taken: Array = field(default_factory=lambda: np.zeros((0, 0), dtype=bool))
    parts: dict[bytes, Mixture] = field(default_factory=dict)

    @classmethod
    def create(cls, mixing: float, n_kernels: int, whole: OpenedKernels) -> TargetMixture:
        """Return a mixture with the scales of all rows."""
        linear = np.array([float(u.max()) for u, _ in whole.empty])
        each = np.array([u**2 / (2.0 * loss) if loss > 0 else 0.0 * u for u, loss in whole.empty])
        nothing, total = ~((linear > 0) & each.any(axis=1)), whole.samples.total_weight
        linear[nothing], each[nothing] = total, total / n_kernels
        doubt = PLAIN if mixing == 0 else SPECIAL
        return cls(EVERY, np.ones(n_kernels), mixing, doubt, linear=linear, squared=each.sum(axis=1), each=each)

    def fewer(self) -> TargetMixture:
        """Return averages of kernels that the search finds for each target."""
        own: dict[str, Any] = {"squared": self.squared.copy(), "taken": np.zeros(self.each.shape, dtype=bool)}
        return replace(self, label=FEWER, doubt=SOME_ERROR, parts={}, **own)

    def describe_strength(self, strength: float, opened: OpenedKernels) -> dict[str, Any]:
        """Return the columns of a table for a strength; over targets, alpha is a geometric mean."""
        linear, squared = strengths_at(self.mixing, strength, self.linear, self.squared)
        alpha = float(np.exp(np.mean(np.log(linear + squared)))) / opened.samples.total_weight
        ratio = float(np.mean(linear / (linear + squared)))
        told = {"alpha": alpha, "kernels": self.label, "mixing": self.mixing}
        return told | {"l1_ratio": ratio, "fraction": strength}

    def scale_of(self, target: int, opened: OpenedKernels) -> Scale:
        """Return the scale of a single target on all rows."""
        return Scale(self.mixing, float(self.linear[target]), float(self.squared[target]))

    def select_target(self, target: int) -> Mixture:
        """Return the mixture of the kernels of a target."""
        if not self.taken.size:
            return self
        own = self.taken[target] if self.taken[target].any() else np.ones(len(self.weights), dtype=bool)
        return self.parts.setdefault(own.tobytes(), Mixture(FEWER, own.astype(np.float64), self.mixing, self.doubt))


def strengths_at(mixing: Any, fraction: Any, linear: Array, squared: Array) -> tuple[Array, Array]:
    """Return the strengths of the norms and of the squared norms at fractions of the empty-model strengths."""
    return fraction * mixing * linear, fraction * (1.0 - mixing) * squared


@dataclass(eq=False)
class TargetFold:
    """A fold: features of kernels learned on the training rows, and of held-out rows."""

    training: InitVar[Training]
    problem: Problem  # of the first target
    held_out: InitVar[HeldOut]
    train: Array  # (n,) int: positions of the training rows among all
    test: Array  # (n_test,) int
    tol: float
    # Of the targets that `select_targets` sets: held-out values, means, coordinates in features and the rest, scales.
    y: Array = field(init=False)
    intercepts: Array = field(init=False)
    inside: Array = field(init=False)
    rest: Array = field(init=False)
    loss: Array = field(init=False)
    largest: Array = field(init=False)
    each: Array = field(init=False)

    def __post_init__(self, training: Training, held_out: HeldOut) -> None:
        problem, first = self.problem, self.problem.penalties**-2.0
        bank, rows = training.bank, training.prepared
        held = bank.prepare(held_out.rows)
        self.features: KernelFeatures = cast("Any", KernelFeatures.factorize(problem, rank_tol=COARSE_RANK_TOL))
        crosses = [
            cross_combine(bank, held, rows, weights)[:, at]
            for weights, at in zip(np.diag(first), self.features.pivots, strict=True)
        ]
        self.new_rows = [self.features.evaluate_rows(m, cross) for m, cross in enumerate(crosses)]
        weight = np.ones(len(self.test)) if held_out.weight is None else held_out.weight
        self.share = weight / weight.sum()
        self.sums: dict[bytes, tuple[Array, Array, Array]] = {}

    @property
    def target_nbytes(self) -> int:
        """Bytes that a target takes while it is searched."""
        return 8 * (5 * self.features.size + len(self.train) + 3 * len(self.test))

    def select_targets(self, targets: Array) -> TargetFold:
        """Return the fold with some targets (t, N) of all rows."""
        fold, problem = copy.copy(self), self.problem
        own = targets[:, self.train].astype(np.float64)
        fold.y = targets[:, self.test].astype(np.float64)
        fold.intercepts = own @ (problem.weight / problem.weight.sum()) * problem.fit_intercept
        fold.inside, fold.rest = self.features.coordinates(own)
        fold.loss = 0.5 * (np.einsum("ti,ti->t", fold.inside, fold.inside) + fold.rest)
        norms = [np.linalg.norm(fold.inside[:, : len(each)] @ each, axis=1) for each in self.features.factors]
        fold.largest = np.max(norms, axis=0)
        fold.each = np.square(norms).T / (2.0 * np.maximum(fold.loss, 1e-300))[:, None]
        return fold

    def scores(self, predicted: Array, targets: Array) -> Array:
        """Return minus the mean squared errors of held-out rows, (t,)."""
        return -np.square(predicted - self.y[targets]) @ self.share

    def constants(self) -> Array:
        """Return the scores of the best constants, (T,)."""
        return -np.square(self.intercepts[:, None] - self.y) @ self.share

    def fit(
        self, mixture: TargetMixture, fraction: Any, targets: Array, part: slice, start: Array | None = None
    ) -> tuple[list[Array], Array, int]:
        """Return the parts of predictions of held-out rows, (t, n) each, coefficients, and the kernels taken.

        The scales of a ``part`` of all targets are for those that no kernel of the fold has to do with.
        """
        total = self.each.sum(axis=1)
        nothing = ~((self.largest > 0) & (total > 0))
        scales = (self.largest, mixture.linear[part]), (total, mixture.squared[part])
        bounds = [np.where(nothing, other, own)[targets] for own, other in scales]
        linear, squared = strengths_at(mixture.mixing, fraction, *bounds)
        linear, squared = (np.broadcast_to(own, len(targets)) for own in (linear, squared))
        settings: dict[str, Any] = {"tol": self.tol, "scale": 1e-10 * self.loss[targets], "expanded": False}
        fits = fit_targets(
            self.features, self.inside[targets], self.rest[targets], linear, squared, start=start, **settings
        )
        parts = [fits.coefficients[:, own] @ z.T for own, z in zip(self.features.slices, self.new_rows, strict=True)]
        return parts, fits.coefficients, int(np.count_nonzero(fits.weights))

    def summed(self, taken: Array) -> tuple[Array, Array, Array]:
        """Return eigenvalues (r,), eigenvectors (k, r) and held-out rows (n, r) of the sum of taken kernels (M,)."""
        key = taken.tobytes()
        if key in self.sums:
            return self.sums[key]
        kernels, k = np.flatnonzero(taken), max(map(len, self.features.factors))
        gram = np.zeros((k, k))
        for m in kernels:
            own = self.features.factors[m]
            gram[: len(own), : len(own)] += own @ own.T
        values, vectors = np.linalg.eigh(gram)
        kept = values > SHORTEST_SQUARE * values[-1]
        values, vectors = values[kept], vectors[:, kept]
        rows = [self.new_rows[m] @ (own.T @ vectors[: len(own)]) for m in kernels for own in [self.features.factors[m]]]
        found = values, vectors, np.sum(rows, axis=0)
        if k <= ALWAYS or taken.all():
            self.sums[key] = found
        return found

    def average(
        self,
        taken: Array,
        fraction: Any,
        targets: Array,
        otherwise: Array,
        start: Array | None = None,
        *,
        apart: bool = False,
    ) -> tuple[list[Array], Array, int]:
        """Return what `fit` does, of the average of the taken kernels (M,), in a single part unless ``apart``.

        Coefficients are those of eigenvectors at no penalty, times the eigenvalues. Strengths ``otherwise`` (t,) are
        for targets that the kernels have nothing to do with.
        """
        values, vectors, rows = self.summed(taken)
        own = self.each[targets] @ taken
        strengths = fraction * np.where((own > 0) & (self.largest[targets] > 0), own, otherwise)
        start = self.inside[targets] @ vectors if start is None else start
        inner = start / (values + strengths[:, None])
        count = int(taken.sum()) * len(targets)
        if not apart:
            return [inner @ rows.T], start, count
        rho = inner @ vectors.T
        pairs = zip(self.features.factors, self.new_rows, taken, strict=True)
        return [rho[:, : len(factor)] @ factor @ z.T * used for factor, z, used in pairs], start, count


def searches_in_batch(search: Any, whole: OpenedKernels) -> bool:
    """Return True for a search over many targets in batches."""
    problems, options = whole.problems, search._search_options
    plain = search.scoring is None and search.solver == "auto" and not options.keep_folds
    if not plain or len(problems) <= MOST_SELECTED or search._resources.callback is not None:
        return False
    if whole.training.avoids_matrices or len(whole.names) < 2:
        return False
    return takes_batch(problems)


def averages_fewer_kernels(mixings: Sequence[float]) -> bool:
    """Return True if each target may have the average of some kernels: beside averages of all, and selections."""
    return {0.0, 1.0} <= set(mixings)


@dataclass(eq=False)
class TargetSearch:
    """A search over mixtures and strengths for every target, some targets at a time."""

    mixtures: list[TargetMixture]
    grids: list[Grid]
    targets: Array  # (T, N)
    room: int  # bytes that targets may take at a time
    folds: list[TargetFold] = field(default_factory=list)
    found: list[Candidate] = field(default_factory=list)
    ending: StopReason = field(default_factory=StopReason)

    def parts(self) -> Iterator[slice]:
        """Yield targets that are searched together."""
        step = max(self.room // sum(fold.target_nbytes for fold in self.folds), CHUNK)
        for first in range(0, len(self.targets), step):
            yield slice(first, min(first + step, len(self.targets)))

    def search(self) -> None:
        """Find candidates, with scores (n_folds, T), the empty model first; targets keep the scores of their last.

        Targets that are not searched in time have the mean scores of the others.
        """
        constants = self._no_scores()
        known = [
            _Walked(mixture, grid, self._no_scores()) for mixture, grid in zip(self.mixtures, self.grids, strict=True)
        ]
        for part in self.parts():
            with self.ending.record():
                folds = [fold.select_targets(self.targets[part]) for fold in self.folds]
                self._search_part(folds, part, known)
                constants[:, part] = [fold.constants() for fold in folds]
            if self.ending.status is not None:
                break
        nothing = replace(self.mixtures[-1], label=NO_KERNELS, mixing=1.0, doubt=EMPTY)
        tried = np.isfinite(constants[0])
        if tried.any():
            constants[:, ~tried] = constants[:, tried].mean(axis=1, keepdims=True)
            self.found = [Candidate(nothing, BEYOND, constants, 0.0, 0)]
            self.found += [candidate for walked in known for candidate in walked.candidates()]

    def _no_scores(self) -> Array:
        return np.full((len(self.folds), len(self.targets)), np.nan)

    def _search_part(self, folds: Sequence[TargetFold], part: slice, known: Sequence[_Walked]) -> None:
        """Walk down all mixtures with some targets."""
        best: dict[float, Array] = {}
        for walked in known:
            mixing, alive = walked.mixture.mixing, np.ones(part.stop - part.start, dtype=bool)
            if walked.mixture.taken.size:
                walked.add_kernels(folds, part)
                continue
            if 0.0 in best and 1.0 in best and 0.0 < mixing < 1.0:
                alive = best[1.0] >= best[0.0]
            sparser = [own.least[:, part] for own in known if own.mixture.mixing > mixing]
            if sparser:  # scores that are never ahead, for targets that are not tried
                walked.least[:, part] = np.min(sparser, axis=0)
            best[mixing] = walked.walk(folds, part, np.flatnonzero(alive))

    def predictions(self, families: Array, fractions: Array) -> Iterator[tuple[int, slice, TargetFold, list[Array]]]:
        """Yield what each kernel adds to predictions of the held-out rows of every fold, (t, n) each.

        Every target has the number of a mixture, negative without kernels.
        """
        for part in self.parts():
            for number, whole in enumerate(self.folds):
                fold = whole.select_targets(self.targets[part])
                parts = [np.zeros_like(fold.y) for _ in fold.features.factors]
                for k in np.unique(families[part][families[part] >= 0]):
                    mixture, at = self.mixtures[k], np.flatnonzero(families[part] == k)
                    for taken, some in _group_by_kernels(mixture, part, at):
                        own = fractions[part][some]
                        if mixture.averages:
                            values, *_ = fold.average(taken, own, some, mixture.squared[part][some], apart=True)
                        else:
                            values, *_ = fold.fit(mixture, own, some, part)
                        for kernel, each in zip(parts, values, strict=True):
                            kernel[some] = each
                yield number, part, fold, parts

    def unscored(self, n_samples: int, n_targets: int) -> Candidate:
        """Return the candidate of a search without time: the default of a plain estimator."""
        return Candidate(self.mixtures[-1], default_fraction(n_samples), np.full((1, n_targets), np.nan), np.nan, 0)


@dataclass(eq=False)
class _Walked:
    """What is known of a mixture: scores of all targets by the number of the strength."""

    mixture: TargetMixture
    grid: Grid
    least: Array  # (n_folds, T): lowest scores; of targets that are not tried, those of sparser mixtures
    scores: dict[int, Array] = field(default_factory=dict)  # NaN for targets that are not tried there
    counts: dict[int, tuple[int, int]] = field(default_factory=dict)  # kernels with a weight, and models

    def walk(self, folds: Sequence[TargetFold], part: slice, alive: Array, taken: Array | None = None) -> Array:
        """Try strengths down to where no target of a part gains; return the best mean scores of these targets.

        Averages are those of the ``taken`` kernels, by default all.
        """
        mixture, grid, n = self.mixture, self.grid, self.least[0, part].size
        taken = np.ones(len(mixture.weights), dtype=bool) if taken is None else taken
        otherwise = mixture.each[part] @ taken
        own = np.array(self.least[:, part])
        self.least[:, part] = np.where(np.isfinite(own), own, np.inf)
        best, since = np.full(n, -np.inf), np.zeros(n, dtype=int)
        starts: list[Array | None] = [None] * len(folds)
        stride = 1 if mixture.averages else STRIDE  # averages have a closed form
        number = -STRONGER if mixture.averages else stride
        while alive.size and number <= grid.last:
            active = 0
            for at, fold in enumerate(folds):
                check_deadline()
                fraction = grid.fraction(number)
                if mixture.averages:
                    given = taken, fraction, alive, otherwise[alive], starts[at]
                    parts, starts[at], count = fold.average(*given)
                else:
                    parts, starts[at], count = fold.fit(mixture, fraction, alive, part, starts[at])
                own[at, alive] = fold.scores(np.sum(parts, axis=0) + fold.intercepts[alive, None], alive)
                active += count
            self.scores.setdefault(number, np.full(self.least.shape, np.nan))[:, part] = own
            before = self.counts.get(number, (0, 0))
            self.counts[number] = before[0] + active, before[1] + len(alive) * len(folds)
            self.least[:, part] = np.minimum(self.least[:, part], own)
            means = own[:, alive].mean(axis=0)
            gained = means > best[alive] + np.where(np.isfinite(best[alive]), NEGLIGIBLE * np.abs(means), 0.0)
            since[alive] = np.where(gained, 0, since[alive] + 1)
            best[alive] = np.maximum(best[alive], means)
            going = since[alive] < WORSE
            starts = [None if start is None else start[going] for start in starts]
            alive = alive[going]
            number += stride
        return best

    def add_kernels(self, folds: Sequence[TargetFold], part: slice) -> None:
        """Add a kernel at a time to the averages of each target of a part, as long as its best score rises."""
        n, found = part.stop - part.start, self.mixture.taken[part]
        mine = replace(self.mixture, each=self.mixture.each[part])
        best, alive = np.full(n, -np.inf), np.arange(n)
        while alive.size and found[alive[0]].sum() < found.shape[1] - 1:
            more = found[alive][:, None] | np.eye(found.shape[1], dtype=bool)
            which, kernel = np.nonzero(~found[alive])
            sums, of, counts = np.unique(more[which, kernel], axis=0, return_inverse=True, return_counts=True)
            before = best.copy()
            for number in np.argsort(-counts, kind="stable")[:MOST_SUMS]:
                some = alive[which[of == number]]
                tried = _Walked(mine, self.grid, np.full((len(folds), n), np.nan))
                scores = tried.walk(folds, slice(n), some, sums[number])
                better = some[scores[some] > best[some]]
                best[better] = scores[better]
                self.take(tried, part, better, sums[number])
            alive = alive[best[alive] > before[alive]]

    def take(self, tried: _Walked, part: slice, targets: Array, taken: Array) -> None:
        """Set what is known of some targets of a part."""
        mixture, at = self.mixture, part.start + targets
        mixture.taken[at], mixture.squared[at] = taken, mixture.each[at] @ taken
        for number in tried.scores.keys() | self.scores.keys():
            own = self.scores.setdefault(number, np.full(self.least.shape, np.nan))
            own[:, at] = tried.scores[number][:, targets] if number in tried.scores else np.nan
        self.least[:, at] = tried.least[:, targets]
        for number, (active, models) in tried.counts.items():
            before = self.counts.get(number, (0, 0))
            self.counts[number] = before[0] + active, before[1] + models

    def candidates(self) -> Iterator[Candidate]:
        """Yield the strengths; a target that was not tried at one has the scores of the strength before."""
        last = self.least
        for number in sorted(self.scores):
            last = np.where(np.isfinite(self.scores[number]), self.scores[number], last)
            tried = np.isfinite(last).all(axis=0)
            scores = np.where(tried, last, last[:, tried].mean(axis=1, keepdims=True))
            active, models = self.counts[number]
            yield Candidate(self.mixture, self.grid.fraction(number), scores, active / models)


def _group_by_kernels(mixture: TargetMixture, part: slice, targets: Array) -> Iterator[tuple[Array, Array]]:
    """Yield kernels (M,) with the targets of a part that have these."""
    if not mixture.taken.size:
        yield np.ones(len(mixture.weights), dtype=bool), targets
        return
    sums, of = np.unique(mixture.taken[part][targets], axis=0, return_inverse=True)
    for number, taken in enumerate(sums):
        yield taken, targets[of == number]


@dataclass(frozen=True, eq=False)
class HeldOutTargets:
    """Predictions of held-out rows, and their losses without kernels."""

    predictions: Array  # (n_given, T), NaN for rows that no fold held out
    before: Array  # (n,): loss of every held-out row, a mean over targets
    without: Array  # (M, n): of models without one kernel
    without_columns: dict[str, Array]  # (n,) by the columns that kernels read
    weight: Array  # (n,)

    @classmethod
    def fit(
        cls,
        search: TargetSearch,
        families: Array,
        fractions: Array,
        tests: Sequence[Array],
        n_given: int,
        columns: Sequence[str],
    ) -> HeldOutTargets:
        """Fit the chosen strengths in all folds."""
        total, count = np.zeros((len(search.targets), n_given), dtype=search.targets.dtype), np.zeros(n_given)
        for test in tests:
            count[test] += 1.0
        names = list(dict.fromkeys(columns))
        kernels = range(len(columns))
        units = [[m] for m in kernels] + [[m for m in kernels if columns[m] == name] for name in names]
        losses = [np.zeros((1 + len(units), len(test))) for test in tests]
        for number, part, fold, parts in search.predictions(families, fractions):
            scores = np.sum(parts, axis=0) + fold.intercepts[:, None]
            total[part, tests[number]] += scores / count[tests[number]]
            left, own = fold.y - scores, losses[number]
            own[0] += 0.5 * np.square(left).sum(axis=0)
            for unit, sums in zip(units, own[1:], strict=True):
                kept = np.sum([parts[m] for m in unit], axis=0)
                sums += 0.5 * np.square(left + kept - (kept @ fold.share)[:, None]).sum(axis=0)
        total[:, count == 0] = np.nan
        before, *others = np.concatenate(losses, axis=1) / len(search.targets)
        each = dict(zip(names, others[len(columns) :], strict=True))
        weight = np.concatenate([fold.share for fold in search.folds])
        return cls(total.T, before, np.array(others[: len(columns)]), each, weight)

    def lost(self, active: Array, names: Sequence[str]) -> dict[str, Array]:
        """Return the losses of predictions without columns and without kernels, with standard errors."""
        gains = {"columns": [self.without_columns[name] for name in names], "kernel": [self.without[m] for m in active]}
        found = {
            key: np.array([self._mean(own - self.before) for own in each]).reshape(-1, 2) for key, each in gains.items()
        }
        return {**found, "rows": np.array([float(len(self.weight))])}

    def _mean(self, gains: Array) -> tuple[float, float]:
        mean = float(np.average(gains, weights=self.weight))
        return mean, float(np.sqrt(np.sum((self.weight * (gains - mean)) ** 2)) / self.weight.sum())


def search_targets(
    search: Any, whole: OpenedKernels, opened: Any, splits: Sequence[Split], held_out: Sequence[HeldOut]
) -> TargetSearch:
    """Return a completed search within the time limit; ``opened`` opens the training rows of a fold."""
    asked = MIXINGS if search.l1_ratios is None else np.ravel(search.l1_ratios)
    mixings = (
        [0.0]
        if search._named_penalty == "ridge"
        else sorted({float(own) for own in asked}, key=lambda own: (own > 0, -own))
    )
    mixtures = [TargetMixture.create(mixing, len(whole.names), whole) for mixing in mixings]
    if averages_fewer_kernels(mixings):
        mixtures.insert(1, mixtures[0].fewer())
    grids = [
        Grid(RIDGE_STEPS, RIDGE_RATIO) if own.averages else Grid(search.n_alphas, search._alpha_min_ratio)
        for own in mixtures
    ]
    room = min(SEARCHED_BYTES, whole.room) if whole.training.stack.evaluates else SEARCHED_BYTES
    found = TargetSearch(mixtures, grids, whole.samples.y.T, room)
    with found.ending.record():
        for (train, test), held in zip(splits, held_out, strict=True):
            training, problem, kept = opened(train)
            found.folds.append(TargetFold(training, problem, held, kept, test, search._fold_tol))
        found.search()
    if found.ending.status is not None and not any(candidate.n_active for candidate in found.found):
        found.found = []  # the empty model alone says nothing
    return found
