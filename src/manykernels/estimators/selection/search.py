"""The search: every mixture is walked down in all folds side by side, and the best candidate of each score is found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import t as student_t

from manykernels.estimators.selection.folds import Fold, FoldScore
from manykernels.estimators.selection.mixtures import EMPTY, Mixture, Scale
from manykernels.estimators.selection.stopping import StopReason
from manykernels.estimators.strength import SIGNIFICANT, NoiseLevel, p_value
from manykernels.threads import blas_threads
from manykernels.validation.arrays import Array

# Down the strengths of one mixture: coarse steps as far as they help, then finer ones around the best.


COARSE = 3  # steps of the grid that the first walk takes at once
BEHIND = 2  # coarse steps that must have brought nothing better before a walk ends
FARTHEST = 1e-4  # share of the smallest strength of the grid to which it may extend itself
PLATEAU = 1e-3  # standard deviations over the folds that make no difference
SCOUTS = 3  # folds in which what is in doubt is tried first
SCOUTED = 3  # strengths that it is tried at, equally spaced inside the grid
HOPELESS = 1.0  # standard errors of the difference over the folds by which what is behind is given up
BEYOND = 1.0 + 1e-6  # fraction of the strength at which a model is empty
LEVEL = 0.1  # of the test over folds; no other was tried on many draws, which `benchmarks/noise.py --searches` asks
ROOM = 2**29  # bytes that matrices of folds may take together; those of the folds beyond are opened one at a time

TryAt = Callable[[Sequence[int]], Iterator[tuple[int, list["FoldScore"]]]]


@dataclass(frozen=True)
class Grid:
    """Strengths as fractions, ``step ** -i``: ``n_first`` of them at first, more if the best is at the end."""

    n_first: int
    ratio: float

    @property
    def step(self) -> float:
        """Factor between neighbors."""
        return self.ratio ** (-1.0 / max(self.n_first - 1, 1))

    @property
    def last(self) -> int:
        """Largest number that may be reached."""
        return self.n_first - 1 + int(np.ceil(-np.log(FARTHEST) / np.log(self.step)))

    def fraction(self, number: int) -> float:
        """Return the fraction of that number."""
        return float(self.step**-number)


@dataclass(eq=False)
class StrengthPath:
    """What is known of one mixture."""

    mixture: Mixture
    grid: Grid
    # by the number of the strength; one trial a fold
    trials: dict[int, list[FoldScore]] = field(default_factory=dict)

    @property
    def numbers(self) -> list[int]:
        """Numbers of the strengths tried, the strongest first."""
        return sorted(self.trials)

    def scores(self) -> Array:
        """Return the scores, (n_tried, n_folds, T), the strongest first."""
        return np.array([[trial.scores for trial in self.trials[number]] for number in self.numbers])

    def best(self) -> Array:
        """Return the number of the best strength of every score, (T,); the strongest of equals."""
        means = self.scores().mean(axis=1)
        return np.array(self.numbers)[np.argmax(np.where(np.isfinite(means), means, -np.inf), axis=0)]

    def follow(self, try_at: TryAt, around: Sequence[int] = ()) -> StrengthPath:
        """Walk down; ``try_at`` tries strengths by number in all folds. What it raises leaves what was tried before.

        Where it is known ``around`` which strengths the best will be, only what lies beside them is tried, and further
        to the side on which the score rises.
        """
        stride = COARSE if self.grid.n_first > 2 * COARSE else 1
        if around:
            self._follow_around(try_at, around, stride)
        else:
            self._try(range(0, min(BEHIND * stride + 1, self.grid.n_first), stride), try_at)
        while (last := self.numbers[-1]) < self.grid.last and self._goes_on(1 if around else BEHIND, stride):
            self._try(range(last + stride, min(last + BEHIND * stride, self.grid.last + stride) + 1, stride), try_at)
        if stride > 1:
            self._refine(try_at)
        return self

    def _follow_around(self, try_at: TryAt, around: Sequence[int], stride: int) -> None:
        wanted = {number + side for number in around for side in (-stride, 0, stride)}
        self._try(sorted(number for number in wanted if 0 <= number <= self.grid.last), try_at)
        while (first := self.numbers[0]) > 0 and bool((self.best() == first).any()):
            self._try([max(first - stride, 0)], try_at)

    def _try(self, numbers: Iterable[int], try_at: TryAt) -> None:
        for number, trials in try_at(list(numbers)):
            self.trials[number] = trials

    def _goes_on(self, behind: int, stride: int) -> bool:
        """Whether the best of any score is near the end and no plateau."""
        last = self.numbers[-1]
        if bool((self.best() > last - behind * stride).any()):
            return last < self.grid.n_first - 1 or not self.flat()
        return False

    def flat(self) -> bool:
        """Whether the last strengths score alike: to go on would change nothing."""
        ends = self.scores()[-BEHIND - 1 :]
        return bool((np.ptp(ends.mean(axis=1), axis=0) <= PLATEAU * (ends.std(axis=1).max(axis=0) + 1e-12)).all())

    def _refine(self, try_at: TryAt) -> None:
        around = {int(best) + side for best in self.best() for side in (-1, 1)}
        self._try(sorted(number for number in around - set(self.trials) if 0 <= number <= self.grid.last), try_at)


AVERAGING_RATIO = 1e-6  # smallest fraction of the first grid of an average
AVERAGING_STEPS = 25


@dataclass(frozen=True, eq=False)
class Candidate:
    """One candidate with what the folds say of it."""

    mixture: Mixture
    fraction: float  # of the strengths at which next to nothing is left
    scores: Array  # (n_folds, T) float64
    n_active: float
    unfinished: int  # folds whose model was not solved to its tolerance
    edge: bool  # whether its walk had to end there although the score was still rising


@dataclass(eq=False)
class Folds:
    """The folds, and threads to try them in."""

    folds: list[Fold]
    workers: int  # folds that are tried at once
    # by mixture, the scales of all rows, for folds in which nothing can be gained
    spare: Callable[[Mixture], list[Scale]]
    advance: Callable[[str], None]  # told in a line about each strength
    ending: StopReason = field(default_factory=StopReason)  # told why nothing more is tried

    def walk(self, mixture: Mixture, grid: Grid, around: Sequence[int] = ()) -> StrengthPath:
        """Walk down one mixture as far as there is time, then let the folds forget it."""

        def try_at(numbers: Sequence[int]) -> Iterator[tuple[int, list[FoldScore]]]:
            fractions = [grid.fraction(number) for number in numbers]
            for number, fraction, trials in zip(numbers, fractions, self.tried(mixture, fractions), strict=False):
                score = float(np.mean([trial.scores.mean() for trial in trials]))
                self.advance(f"{mixture.label}  {mixture.penalty}  fraction {fraction:.2g}  {score:.4g}")
                yield number, trials

        walk = StrengthPath(mixture, grid)
        with self.ending.noted():
            walk.follow(try_at, around)
        self.forget()
        return walk

    def forget(self) -> None:
        """Let the folds drop what they remember of a mixture."""
        for fold in self.folds:
            fold.forget()

    def race(
        self, mixture: Mixture, grid: Grid, numbers: Sequence[int], rivals: Sequence[StrengthPath]
    ) -> StrengthPath | None:
        """Walk down a mixture, unless it cannot win: None if a few strengths show that it is behind the others.

        It is tried at equally spaced strengths in three folds, then at its best strength in all of them. It is out as
        soon as it is behind the best of the others by more than a standard error of the difference over these folds,
        for every score, even at the top of a parabola through its strengths. What is left is walked around its best
        strength.
        """
        with self.ending.noted():
            around = self._hopes(mixture, grid, sorted(set(numbers)), _best_scores(rivals))
            if around:
                return self.walk(mixture, grid, around)
        self.forget()
        return None

    def _hopes(self, mixture: Mixture, grid: Grid, numbers: list[int], best: Array) -> list[int]:
        """Return the numbers of the strengths at which a mixture may win, none if it cannot."""
        found: dict[int, Array] = {}

        def try_at(wanted: Sequence[int], among: slice) -> None:
            tried = self.tried(mixture, [grid.fraction(number) for number in wanted], among)
            found.update((n, np.array([one.scores for one in own])) for n, own in zip(wanted, tried, strict=True))

        scouts, wanted = slice(min(SCOUTS, len(best))), numbers
        step = max(1, numbers[-1] - numbers[-2] if len(numbers) > 1 else 1)
        while wanted:  # and further on where the score rises to an end
            try_at(wanted, scouts)
            numbers = sorted(found)
            means = np.array([found[number].mean(axis=0) for number in numbers])
            tops = means.argmax(axis=0)
            rising = {numbers[top] + side * step for top in tops for side in (-1, 1)}
            wanted = sorted(n for n in rising - set(found) if 0 <= n <= grid.last)
        rise = _rise(means, tops)
        around = sorted({numbers[top] for top in tops})
        for among in (scouts, slice(None)):
            if among != scouts:
                try_at(around, among)
            own = np.array([found[numbers[top]][:, k] for k, top in enumerate(tops)]).T
            if not ahead(own + rise, best[: len(own)], -HOPELESS, at_least=True).any():
                return []
        return around

    def nothing(self, mixture: Mixture) -> Candidate:
        """Return the empty model as a candidate."""
        scores = self.constants()
        return Candidate(mixture, BEYOND, np.array([score.scores for score in scores]), 0.0, 0, edge=False)

    def constants(self) -> list[FoldScore]:
        """Return what the best constants of the folds score."""
        return [fold.constant() for fold in self.folds]

    def tried(
        self, mixture: Mixture, fractions: Sequence[float], among: slice = slice(None)
    ) -> Iterator[list[FoldScore]]:
        """Yield what the folds say of a mixture at each fraction of its strengths.

        Folds whose matrices can be held side by side are tried at one strength after the other, so that what ends the
        search early loses one strength at most; else each fold is opened, tried at all of these, and closed.
        """
        spare, folds = self.spare(mixture), self.folds[among]
        if all(fold.averages(mixture) or self._stay_open(fold) for fold in folds):
            for fraction in fractions:
                yield [trial for (trial,) in self._each(folds, mixture, [fraction], spare)]
            return
        yield from map(list, zip(*self._each(folds, mixture, fractions, spare), strict=True))

    def _stay_open(self, fold: Fold) -> bool:
        """Whether the matrices of a fold may be held beside those of the folds before it."""
        return sum(each.stored_bytes for each in self.folds[: self.folds.index(fold) + 1]) <= ROOM

    def _each(
        self,
        folds: Sequence[Fold],
        mixture: Mixture,
        fractions: Sequence[float],
        spare: list[Scale],
    ) -> list[list[FoldScore]]:
        """Return what each fold says of a mixture at these fractions, in threads if there are several."""

        def function(fold: Fold) -> list[FoldScore]:
            try:
                return [fold.tried(mixture, fraction, spare) for fraction in fractions]
            finally:
                if not self._stay_open(fold):
                    fold.close()

        with blas_threads(1):
            if self.workers == 1:
                return [function(fold) for fold in folds]
            with ThreadPoolExecutor(self.workers) as pool:
                # Threads know the end of the time from the context that they are given.
                futures = [pool.submit(copy_context().run, function, fold) for fold in folds]
                try:
                    return [future.result() for future in futures]
                except BaseException:
                    self.folds[0].stop.set()  # Ctrl-C reaches this thread only; the others end at their next model
                    raise


def searched(
    folds: Folds,
    averages: Sequence[Mixture],
    selections: Sequence[Mixture],
    n_alphas: int,
    ratio: float,
    *,
    every: bool,
) -> list[Candidate]:
    """Return all candidates tried: averages of every kind, then mixtures that select, the sparsest first.

    Unless ``every`` is true it is a race: a mixture that selects is
    walked only where a few strengths in two folds show that it can still win, and mixtures between the sparsest and the
    averages only where the sparsest leads. A search that ends early has what was scored in every fold.
    """
    walks: list[StrengthPath] = []

    def tried(mixture: Mixture, grid: Grid, numbers: Sequence[int], *, race: bool) -> bool:
        walk = folds.race(mixture, grid, numbers, walks) if race else folds.walk(mixture, grid)
        walks.extend([] if walk is None else [walk])
        return walk is not None

    broad, narrow = Grid(AVERAGING_STEPS, AVERAGING_RATIO), Grid(n_alphas, ratio)
    for mixture in averages:
        tried(mixture, broad, (), race=False)
        if folds.ending.status is not None:
            break
    first, race = len(walks), bool(averages) and not every
    numbers = [k * (n_alphas - 1) // (SCOUTED + 1) for k in range(1, SCOUTED + 1)]
    for mixture in selections if folds.ending.status is None else ():
        leads = not race or len(walks) == first or _leads(walks[first], walks[:first])
        goes_on = leads and tried(mixture, narrow, numbers, race=race)
        if not goes_on or folds.ending.status is not None:
            break
    return [candidate for walk in walks if walk.trials for candidate in _candidates(walk)]


def _leads(walk: StrengthPath, rivals: Sequence[StrengthPath]) -> bool:
    """Whether the best of a walk is ahead of the best of others in the mean over the folds, for any score."""
    own, other = (_best_scores(walks).mean(axis=0) for walks in ([walk], rivals))
    return bool((own >= other).any())


def _rise(means: Array, tops: Array) -> Array:
    """Return how far the top of a parabola through the best of equally spaced strengths and its neighbors is above it.

    ``means`` (n_tried, T) and ``tops`` (T,); zero where the best is the first or the last.
    """
    columns = np.arange(means.shape[1])
    inside = (tops > 0) & (tops < len(means) - 1)
    at = np.where(inside, tops, min(1, len(means) - 1))
    before, best, after = (means[np.clip(at + side, 0, len(means) - 1), columns] for side in (-1, 0, 1))
    bend = 2.0 * best - before - after
    rise = np.square(after - before) / np.where(bend > 0, 8.0 * bend, 1.0)
    return np.where(inside & (bend > 0), rise, 0.0)


def _best_scores(walks: Sequence[StrengthPath]) -> Array:
    """Return the scores of the folds at the best mean, (n_folds, T)."""
    scores = np.concatenate([walk.scores() for walk in walks])
    best = scores.mean(axis=1).argmax(axis=0)
    return np.array(scores[best, :, np.arange(scores.shape[2])]).T


def _candidates(walk: StrengthPath) -> list[Candidate]:
    end = walk.numbers[-1]
    at_end = end >= walk.grid.last and bool((walk.best() == end).any()) and not walk.flat()
    return [
        Candidate(
            walk.mixture,
            walk.grid.fraction(number),
            np.array([trial.scores for trial in walk.trials[number]]),
            float(np.mean([trial.n_active for trial in walk.trials[number]])),
            sum(not trial.finished for trial in walk.trials[number]),
            at_end and number == end,
        )
        for number in walk.numbers
    ]


def chosen(candidates: Sequence[Candidate], rule: str, evidence: Evidence | None = None) -> Array:
    """Return the position of the best candidate of every score, (T,).

    What is no finding by the `Evidence`, if that is given, is the empty model.

    Scores of few folds jump from strength to strength: each mean is averaged with those of its neighbors. The plain
    averages are to beat: one kind of kernels, or a selection, must be ahead of them by more than half a standard error
    of the difference, fold by fold, and a view alone ahead of everything else by more than a whole one. With
    ``rule="1se"``, of the candidates whose mean is within a standard error of the best, the one with the
    fewest kernels, and of these the strongest.
    """
    scores = np.array([candidate.scores for candidate in candidates])
    means = _smoothed(candidates, np.where(np.isfinite(scores).all(axis=1), scores.mean(axis=1), -np.inf))
    doubts = np.array([candidate.mixture.doubt for candidate in candidates])
    if rule == "best":
        return _or_nothing(_with_evidence(doubts, scores, means), doubts, scores, means, evidence)
    best = means.argmax(axis=0)
    errors = scores.std(axis=1, ddof=min(1, scores.shape[1] - 1)) / np.sqrt(scores.shape[1])
    simplicity = [(candidate.n_active, -candidate.fraction) for candidate in candidates]
    order = np.array(sorted(range(len(candidates)), key=simplicity.__getitem__))
    columns = np.arange(means.shape[1])
    good = means[order] >= means[best, columns] - errors[best, columns]
    return order[good.argmax(axis=0)]


def ahead(scores: Array, others: Array, needed: Array | float, *, at_least: bool = False) -> Array:
    """Whether scores (n_folds, T) are ahead of others in the mean, by standard errors of the difference by fold."""
    gaps = scores - others
    errors = gaps.std(axis=0, ddof=min(1, len(gaps) - 1)) / np.sqrt(len(gaps))
    bar = needed * np.where(np.isfinite(errors), errors, 0.0)
    return np.asarray(gaps.mean(axis=0) >= bar if at_least else gaps.mean(axis=0) > bar)


@dataclass(frozen=True, eq=False)
class Evidence:
    """What a finding is told by, beside its scores: the rows that folds share, and permuted targets."""

    held_out_share: float  # held-out rows over training rows
    # (T,): shares of permuted targets that are as strongly related to single kernels as each target; NaN if not known
    p_values: Array

    @classmethod
    def of(cls, splits: Sequence[tuple[Array, Array]], levels: Sequence[NoiseLevel] | None, n_scores: int) -> Evidence:
        """Return the evidence of these splits, and of noise levels: one a score, or those of all problems together."""
        together = levels is not None and len(levels) != n_scores
        parts = [levels] if together or levels is None else [[level] for level in levels]
        p_values = np.array([np.nan if part is None else p_value(part) for part in parts])
        share = float(np.mean([len(test) / len(train) for train, test in splits]))
        return cls(share, np.broadcast_to(p_values, n_scores))

    def finding(self, scores: Array, constants: Array) -> Array:
        """Whether scores (n_folds, T) are ahead of those of the best constants by evidence, (T,).

        Where the target is more strongly related to single kernels than permuted targets are, to be ahead in the mean
        will do: a test at the level of 5 % has been passed. Where it is not, the score must pass a t-test over the
        folds. Where nobody knows, since samples are not exchangeable, it must be ahead by a standard error.
        The error is corrected for the training rows that folds share: with ``K`` folds its square has
        ``1/K + n_test/n_train`` in place of ``1/K``.

        Source: C. Nadeau, Y. Bengio, "Inference for the generalization error", Machine Learning 52 (2003).
        """
        n_folds, unknown, related = len(scores), np.isnan(self.p_values), self.p_values <= SIGNIFICANT
        if n_folds == 1:  # which tells no error
            return ahead(scores, constants, 0.0) & (related | unknown)
        quantile = student_t.ppf(1.0 - LEVEL, n_folds - 1)
        needed = np.where(unknown, 1.0, np.where(related, 0.0, quantile))
        return ahead(scores, constants, needed * np.sqrt(1.0 + n_folds * self.held_out_share))


def _or_nothing(taken: Array, doubts: Array, scores: Array, means: Array, evidence: Evidence | None) -> Array:
    """Return what was taken, or the empty model where that is not ahead of it by evidence."""
    empty, columns = np.flatnonzero(doubts == EMPTY), np.arange(len(taken))
    if not len(empty) or evidence is None:
        return taken
    better = evidence.finding(scores[taken, :, columns].T, scores[empty[0]])
    return np.where(better | ~np.isfinite(means[empty[0]]), taken, empty[0])


def _with_evidence(doubts: Array, scores: Array, means: Array) -> Array:
    """Take the best of what is in least doubt, unless what is in more is ahead by as many standard errors of folds."""
    levels, columns = np.unique(doubts[doubts > EMPTY]), np.arange(means.shape[1])
    taken = _best_where(doubts == levels[0], means)
    for doubt in levels[1:]:
        first = _best_where(doubts == doubt, means)
        second = _best_where((doubts < doubt) & (doubts > EMPTY), means)
        gaps = scores[first, :, columns] - scores[second, :, columns]
        errors = gaps.std(axis=1, ddof=min(1, gaps.shape[1] - 1)) / np.sqrt(gaps.shape[1])
        needed = means[second, columns] + doubt * np.where(np.isfinite(errors), errors, 0.0)
        taken = np.where(means[first, columns] > needed, first, taken)
    return taken


def _best_where(among: Array, means: Array) -> Array:
    """Return the position of the best mean of every score among some candidates, (T,)."""
    return np.where(among[:, None], means, -np.inf).argmax(axis=0)


def _smoothed(candidates: Sequence[Candidate], means: Array) -> Array:
    """Return the means with half of their weight on the two neighbors along each walk."""
    smooth = means.copy()
    owners = np.array([id(candidate.mixture) for candidate in candidates])
    for owner in dict.fromkeys(owners.tolist()):
        at = np.flatnonzero(owners == owner)
        before, after = (
            np.where(np.isfinite(near), near, means[at])
            for near in (means[np.r_[at[0], at[:-1]]], means[np.r_[at[1:], at[-1]]])
        )
        smooth[at] = 0.25 * before + 0.5 * means[at] + 0.25 * after
    return smooth


def results_of(candidates: Sequence[Candidate], alphas: Sequence[float], ratios: Sequence[float]) -> pd.DataFrame:
    """Return a row a candidate."""
    scores = np.array([candidate.scores.mean(axis=1) for candidate in candidates])
    columns: dict[str, Any] = {
        "alpha": np.array(alphas),
        "kernels": [candidate.mixture.label for candidate in candidates],
        "mixing": [candidate.mixture.mixing for candidate in candidates],
        "l1_ratio": np.array(ratios),
        "fraction": [candidate.fraction for candidate in candidates],
        "mean_score": scores.mean(axis=1),
        "std_score": scores.std(axis=1),
        "n_active": [candidate.n_active for candidate in candidates],
    }
    return pd.DataFrame(columns | {f"score_{fold}": row for fold, row in enumerate(scores.T)})
