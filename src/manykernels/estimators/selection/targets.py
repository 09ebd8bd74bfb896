"""The search for many targets with the squared loss: every target has its own strength, mixing and kernel weights.

All targets walk down the same strengths in every fold, in batches (`many_targets.py`). A target stops where the score
has fallen for two steps. Averages of the kernels come first, then selections; mixtures between them are for targets
that selections predict at least as well as averages.
"""

from __future__ import annotations

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
from manykernels.estimators.supervised.samples import numeric_targets
from manykernels.grams import cross_combine
from manykernels.solvers.fold import Candidate
from manykernels.solvers.gram.many_targets import KernelFeatures, fit_targets, takes_batch
from manykernels.solvers.run import check_deadline
from manykernels.validation.arrays import Array

if TYPE_CHECKING:
    from manykernels.grams.training import Training
    from manykernels.objective.problem import Problem

COARSE_RANK_TOL = 1e-7  # of the features of folds, whose models have a relative gap of a hundredth
STRIDE = 2  # steps of the grid between strengths that are tried
WORSE = 2  # strengths in a row without a better score that end the walk of a target
RIDGE_RATIO, RIDGE_STEPS = 1e-6, 25  # smallest fraction of the strengths of averages, and how many there are


@dataclass(frozen=True, eq=False)
class TargetMixture(Mixture):
    """All kernels under a single mixture, with the scales of all targets as arrays."""

    linear: Array = field(default_factory=lambda: np.zeros(0))  # (T,): strengths that leave nothing, of the norms
    squared: Array = field(default_factory=lambda: np.zeros(0))  # (T,): and of the squared norms

    @classmethod
    def of(cls, mixing: float, n_kernels: int, whole: OpenedKernels) -> TargetMixture:
        """Return a mixture with the scales of all rows."""
        scales = [
            Scale(mixing, float(u.max()), float(u @ u) / (2.0 * loss) if loss > 0 else 0.0) for u, loss in whole.empty
        ]
        linear, squared = (np.array([getattr(scale, name) for scale in scales]) for name in ("linear", "squared"))
        nothing, total = ~((linear > 0) & (squared > 0)), whole.samples.total_weight
        linear[nothing], squared[nothing] = total, total
        doubt = PLAIN if mixing == 0 else SPECIAL
        return cls(EVERY, np.ones(n_kernels), mixing, doubt, linear=linear, squared=squared)

    def told(self, strength: float, opened: OpenedKernels) -> dict[str, Any]:
        """Return the columns of a table for a strength; over targets, alpha is a geometric mean."""
        linear, squared = strengths_at(self.mixing, strength, self.linear, self.squared)
        alpha = float(np.exp(np.mean(np.log(linear + squared)))) / opened.samples.total_weight
        ratio = float(np.mean(linear / (linear + squared)))
        told = {"alpha": alpha, "kernels": self.label, "mixing": self.mixing}
        return told | {"l1_ratio": ratio, "fraction": strength}

    def scale_of(self, target: int, opened: OpenedKernels) -> Scale:
        """Return the scale of a single target on all rows."""
        return Scale(self.mixing, float(self.linear[target]), float(self.squared[target]))


def strengths_at(mixing: Any, fraction: Any, linear: Array, squared: Array) -> tuple[Array, Array]:
    """Return the strengths of the norms and of the squared norms at fractions of the empty-model strengths."""
    return fraction * mixing * linear, fraction * (1.0 - mixing) * squared


@dataclass(eq=False)
class TargetFold:
    """A fold: features of kernels learned on the training rows, and of held-out rows."""

    training: InitVar[Training]
    problem: InitVar[Problem]  # of the first target
    targets: InitVar[Array]  # (T, n): of the training rows
    held_out: InitVar[HeldOut]
    tol: float

    def __post_init__(self, training: Training, problem: Problem, targets: Array, held_out: HeldOut) -> None:
        first = problem.penalties**-2.0
        bank, rows = training.bank, training.prepared
        held = bank.prepare(held_out.rows)
        self.features: KernelFeatures = cast("Any", KernelFeatures.of(problem, rank_tol=COARSE_RANK_TOL))
        self.summed: KernelFeatures = cast("Any", KernelFeatures.of(problem, rank_tol=COARSE_RANK_TOL, summed=True))
        single = np.diag(first)
        crosses = [
            cross_combine(bank, held, rows, weights)[:, at]
            for weights, at in zip(single, self.features.pivots, strict=True)
        ]
        self.new_rows = [self.features.of_new_rows(m, cross) for m, cross in enumerate(crosses)]
        self.new_summed = [self.summed.of_new_rows(0, cross_combine(bank, held, rows, first)[:, self.summed.pivots[0]])]
        share = problem.weight / problem.weight.sum()
        self.intercepts = targets @ share * problem.fit_intercept
        self.inside, self.rest = self.features.coordinates(targets)
        self.inside_summed, self.rest_summed = self.summed.coordinates(targets)
        self.loss = 0.5 * (np.einsum("ti,ti->t", self.inside, self.inside) + self.rest)
        norms = [np.linalg.norm(self.inside[:, : len(own)] @ own, axis=1) for own in self.features.factors]
        self.largest, self.total = (
            np.max(norms, axis=0),
            np.square(norms).sum(axis=0) / (2.0 * np.maximum(self.loss, 1e-300)),
        )
        self.y = numeric_targets(held_out.target).reshape(len(held_out.target), -1).T
        weight = np.ones(self.y.shape[1]) if held_out.weight is None else held_out.weight
        self.share = weight / weight.sum()

    def scores(self, predicted: Array, targets: Array) -> Array:
        """Return minus the mean squared errors of held-out rows, (t,)."""
        return -np.square(predicted - self.y[targets]) @ self.share

    def constants(self) -> Array:
        """Return the scores of the best constants, (T,)."""
        return -np.square(self.intercepts[:, None] - self.y) @ self.share

    def fit(
        self,
        mixing: float,
        fraction: Any,
        targets: Array,
        scales: tuple[Array, Array],
        start: Array | None = None,
        *,
        apart: bool = False,
    ) -> tuple[list[Array], Array, int]:
        """Return the parts of predictions of held-out rows, (t, n) each, coefficients, and the kernels taken.

        Scales (T,) each are for targets that no kernel of the fold has to do with. Averages are a single kernel, unless
        the kernels are asked for ``apart``.
        """
        nothing = ~((self.largest > 0) & (self.total > 0))
        bounds = [
            np.where(nothing, other, own)[targets]
            for own, other in zip((self.largest, self.total), scales, strict=True)
        ]
        linear, squared = strengths_at(mixing, fraction, *bounds)
        linear, squared = (np.broadcast_to(own, len(targets)) for own in (linear, squared))
        average = mixing == 0 and not apart
        features = self.summed if average else self.features
        inside, rest = (self.inside_summed, self.rest_summed) if average else (self.inside, self.rest)
        settings: dict[str, Any] = {
            "tol": self.tol,
            "scale": 1e-10 * self.loss[targets],
            "expanded": False,
            "start": start,
        }
        fits = fit_targets(features, inside[targets], rest[targets], linear, squared, **settings)
        new_rows = self.new_summed if average else self.new_rows
        parts = [fits.coefficients[:, own] @ z.T for own, z in zip(features.slices, new_rows, strict=True)]
        active = len(self.features.factors) * len(targets) if average else int(np.count_nonzero(fits.weights))
        return parts, fits.coefficients, active


def searches_in_batch(search: Any, whole: OpenedKernels) -> bool:
    """Return True for a search over many targets in batches."""
    problems, options = whole.problems, search._search_options
    plain = search.scoring is None and search.solver == "auto" and not options.keep_folds
    if not plain or len(problems) <= MOST_SELECTED or search._resources.callback is not None:
        return False
    if whole.training.without_matrix or len(whole.names) < 2:
        return False
    return takes_batch(problems)


@dataclass(eq=False)
class TargetSearch:
    """A search over mixtures and strengths for every target."""

    mixtures: list[TargetMixture]
    grids: list[Grid]
    folds: list[TargetFold] = field(default_factory=list)
    found: list[Candidate] = field(default_factory=list)
    ending: StopReason = field(default_factory=StopReason)

    @property
    def n_targets(self) -> int:
        """Number of targets."""
        return len(self.folds[0].y)

    def search(self) -> None:
        """Find candidates, with scores (n_folds, T), the empty model first; targets keep the scores of their last."""
        nothing = replace(self.mixtures[-1], label=NO_KERNELS, mixing=1.0, doubt=EMPTY)
        found = self.found
        found.append(Candidate(nothing, BEYOND, np.array([fold.constants() for fold in self.folds]), 0.0, 0))
        best: dict[float, Array] = {}
        for mixture, grid in zip(self.mixtures, self.grids, strict=True):
            alive = np.ones(self.n_targets, dtype=bool)
            if 0.0 in best and 1.0 in best and 0.0 < mixture.mixing < 1.0:
                alive = best[1.0] >= best[0.0]
            with self.ending.noted():
                for candidate in self._walk(mixture, grid, np.flatnonzero(alive), found[1:]):
                    found.append(candidate)
            own = [each.scores.mean(axis=0) for each in found if each.family is mixture]
            if not own or self.ending.status is not None:
                break
            best[mixture.mixing] = np.max(own, axis=0)

    def _walk(
        self, mixture: TargetMixture, grid: Grid, alive: Array, known: Sequence[Candidate]
    ) -> Iterator[Candidate]:
        """Yield strengths of a mixture down to the last gaining target; finished targets keep their last scores."""
        scores = np.full((len(self.folds), self.n_targets), -np.inf)
        others = [own.scores for own in known if own.family.mixing > mixture.mixing]
        if others:  # scores that are never ahead, for targets that are not tried
            scores = np.min(others, axis=0)
        best, since = np.full(self.n_targets, -np.inf), np.zeros(self.n_targets, dtype=int)
        starts: list[Array | None] = [None] * len(self.folds)
        stride = 1 if mixture.averages else STRIDE  # averages have a closed form
        number = 0 if mixture.averages else stride
        while alive.size and number <= grid.last:
            fraction, active = grid.fraction(number), 0
            scores = scores.copy()
            for at, fold in enumerate(self.folds):
                check_deadline()
                parts, starts[at], count = fold.fit(
                    mixture.mixing, fraction, alive, (mixture.linear, mixture.squared), starts[at]
                )
                scores[at, alive] = fold.scores(np.sum(parts, axis=0) + fold.intercepts[alive, None], alive)
                active += count
            yield Candidate(mixture, fraction, scores, active / (len(alive) * len(self.folds)))
            means = scores[:, alive].mean(axis=0)
            better = means > best[alive]
            since[alive] = np.where(better, 0, since[alive] + 1)
            best[alive] = np.maximum(best[alive], means)
            going = since[alive] < WORSE
            starts = [None if own is None else own[going] for own in starts]
            alive = alive[going]
            number += stride

    def predictions(self, mixings: Array, fractions: Array) -> Iterator[tuple[TargetFold, list[Array]]]:
        """Yield the contribution of every kernel to held-out predictions of every fold, (T, n) each."""
        for fold in self.folds:
            kernels = len(fold.features.factors)
            parts = [np.zeros_like(fold.y) for _ in range(kernels)]
            for mixture in self.mixtures:
                at = np.flatnonzero((mixings == mixture.mixing) & np.isfinite(fractions))
                if at.size:
                    scales = mixture.linear, mixture.squared
                    own, _, _ = fold.fit(mixture.mixing, fractions[at], at, scales, apart=True)
                    for part, values in zip(parts, own, strict=True):
                        part[at] = values
            yield fold, parts

    def unscored(self, n_samples: int, n_targets: int) -> Candidate:
        """Return the candidate of a search without time: the default of a plain estimator."""
        return Candidate(self.mixtures[-1], default_fraction(n_samples), np.full((1, n_targets), np.nan), np.nan, 0)


@dataclass(frozen=True, eq=False)
class HeldOutTargets:
    """Predictions of held-out rows, and their losses without kernels."""

    predictions: Array  # (n_given, T), NaN for rows that no fold held out
    before: Array  # (n,): loss of every held-out row, a mean over targets
    without: Array  # (M, n): of models without one kernel
    without_columns: dict[str, Array]  # (n,) by the columns that kernels read
    weight: Array  # (n,)

    @classmethod
    def of(
        cls,
        search: TargetSearch,
        mixings: Array,
        fractions: Array,
        tests: Sequence[Array],
        n_given: int,
        columns: Sequence[str],
    ) -> HeldOutTargets:
        """Fit the chosen strengths in all folds."""
        total, count = np.zeros((n_given, search.n_targets)), np.zeros(n_given)
        before, without, by_columns = [], [], []
        names = list(dict.fromkeys(columns))
        for (fold, parts), test in zip(search.predictions(mixings, fractions), tests, strict=True):
            scores = np.sum(parts, axis=0) + fold.intercepts[:, None]
            total[test] += scores.T
            count[test] += 1.0
            left = fold.y - scores
            before.append(0.5 * np.square(left).mean(axis=0))
            units = [[part] for part in parts] + [
                [p for p, own in zip(parts, columns, strict=True) if own == name] for name in names
            ]
            losses = []
            for unit in units:
                part = np.sum(unit, axis=0)
                losses.append(0.5 * np.square(left + part - (part @ fold.share)[:, None]).mean(axis=0))
            without.append(losses[: len(parts)])
            by_columns.append(losses[len(parts) :])
        with np.errstate(invalid="ignore"):
            predictions = total / count[:, None]
        each = dict(zip(names, np.concatenate(by_columns, axis=1), strict=True))
        weight = np.concatenate([fold.share for fold in search.folds])
        return cls(predictions, np.concatenate(before), np.concatenate(without, axis=1), each, weight)

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
    search: Any, whole: OpenedKernels, opened: Any, trains: Sequence[Array], held_out: Sequence[HeldOut]
) -> TargetSearch:
    """Return a completed search within the time limit; ``opened`` opens the training rows of a fold."""
    asked = MIXINGS if search.l1_ratios is None else np.ravel(search.l1_ratios)
    mixings = (
        [0.0]
        if search._named_penalty == "ridge"
        else sorted({float(own) for own in asked}, key=lambda own: (own > 0, -own))
    )
    mixtures = [TargetMixture.of(mixing, len(whole.names), whole) for mixing in mixings]
    grids = [
        Grid(RIDGE_STEPS, RIDGE_RATIO) if mixing == 0 else Grid(search.n_alphas, search._alpha_min_ratio)
        for mixing in mixings
    ]
    found = TargetSearch(mixtures, grids)
    with found.ending.noted():
        folds = []
        for train, held in zip(trains, held_out, strict=True):
            training, problem, y = opened(train)
            folds.append(TargetFold(training, problem, y, held, search._fold_tol))
        found.folds = folds
        found.search()
    if found.ending.status is not None and not any(candidate.n_active for candidate in found.found):
        found.found = []  # the empty model alone says nothing
    return found
