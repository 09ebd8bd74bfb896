"""Along the strengths of a mixture: coarse steps while useful, then finer steps around the best.

The walk may be ended before the end by a limit of time or Ctrl-C (`StopReason`). What was tried are candidates; a rule
chooses among them, and evidence tells whether the choice is a finding.
"""

from __future__ import annotations

import numbers
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.special import stdtrit
from sklearn.model_selection import (
    GroupKFold,
    GroupShuffleSplit,
    KFold,
    LeaveOneGroupOut,
    LeavePGroupsOut,
    RepeatedKFold,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedGroupKFold,
    StratifiedKFold,
    StratifiedShuffleSplit,
)

from manykernels.estimators.selection.mixtures import EMPTY, HALF_ERROR, ONE_ERROR, PLAIN, SPECIAL
from manykernels.estimators.strength import SIGNIFICANT, NoiseLevel, p_value
from manykernels.estimators.supervised.problems import MOST_NAMED
from manykernels.exceptions import ConvergenceWarning, warn
from manykernels.solvers import Status
from manykernels.solvers.fold import Candidate
from manykernels.solvers.run import OutOfTimeError, deadline
from manykernels.validation.arrays import Array
from manykernels.validation.parameters import listed

if TYPE_CHECKING:
    from manykernels.estimators.selection.mixtures import Mixture


# Splitters that hold any samples out.
EXCHANGING = (KFold, StratifiedKFold, RepeatedKFold, RepeatedStratifiedKFold, ShuffleSplit, StratifiedShuffleSplit)
EXCHANGING_GROUPS = (GroupKFold, GroupShuffleSplit, LeaveOneGroupOut, LeavePGroupsOut, StratifiedGroupKFold)
RELATED = 0.2  # p-value up to which hazards keep kernels: as many tables with a weak signal have it as without one
USEFUL = HALF_ERROR  # by which a model is kept where targets cannot be permuted; benchmarks/evidence.py --constant


def first_best(candidates: Sequence[Candidate]) -> int:
    """Return the position of the best mean score; of equals the first, which on one path is the strongest penalty."""
    return int(np.nanargmax([candidate.scores.mean() for candidate in candidates]))


def choose_candidates(candidates: Sequence[Candidate], rule: str, evidence: Evidence | None = None) -> Array:
    """Return the position of the best candidate of every score, (T,).

    What is of no use by the `Evidence`, if given, is the empty model.

    Scores of few folds jump from strength to strength: every mean is averaged with those of the neighbors. The plain
    averages are to beat: one kind of kernels, or a selection, must be ahead of them by more than half a standard error
    of the difference, fold by fold, and a view alone ahead of everything else by more than a whole one. With
    ``rule="1se"``, of the candidates whose mean is within a standard error of the best, the one with the fewest
    kernels, and of these the strongest.
    """
    scores = np.array([candidate.scores for candidate in candidates])
    means = _smoothed(candidates, np.where(np.isfinite(scores).all(axis=1), scores.mean(axis=1), -np.inf))
    doubts = np.array([candidate.family.doubt for candidate in candidates])
    if rule == "best":
        return _or_nothing(_choose_by_evidence(doubts, scores, means), doubts, scores, means, evidence)
    best = means.argmax(axis=0)
    errors = scores.std(axis=1, ddof=min(1, scores.shape[1] - 1)) / np.sqrt(scores.shape[1])
    simplicity = [(candidate.n_active, -candidate.strength) for candidate in candidates]
    order = np.array(sorted(range(len(candidates)), key=simplicity.__getitem__))
    columns = np.arange(means.shape[1])
    good = means[order] >= means[best, columns] - errors[best, columns]
    return order[good.argmax(axis=0)]


def ahead(scores: Array, others: Array, needed: Array | float, *, at_least: bool = False) -> Array:
    """Return whether mean scores (n_folds, T) are ahead of others, by standard errors over folds."""
    gaps = scores - others
    bar = needed * standard_errors(gaps)
    return np.asarray(gaps.mean(axis=0) >= bar if at_least else gaps.mean(axis=0) > bar)


def standard_errors(gaps: Array) -> Array:
    """Return the standard errors of the means of differences over the folds, (n_folds, T); zero where none is known."""
    errors = gaps.std(axis=0, ddof=min(1, len(gaps) - 1)) / np.sqrt(len(gaps))
    return np.where(np.isfinite(errors), errors, 0.0)


def exchanges(cv: Any, groups: Any) -> bool:
    """Whether folds take samples, or groups of equal size, for exchangeable: then noise is known."""
    splitters = (numbers.Integral, *EXCHANGING, *(() if groups is None else EXCHANGING_GROUPS))
    return np.ndim(groups) < 2 and (cv is None or isinstance(cv, splitters))


@dataclass(frozen=True, eq=False)
class Evidence:
    """Evidence for a choice, beside the scores: the shared rows of folds, and permuted targets."""

    held_out_share: float  # held-out rows over training rows
    # (T,): shares of permuted targets that are as strongly related to the kernels as each target; NaN if not known
    p_values: Array
    ranks: bool = False  # whether models rank samples, which a constant does not: half a standard error is enough
    shrinks: bool = False  # whether weak effects are shrunk as far as folds say: half a standard error is enough

    @classmethod
    def create(
        cls,
        splits: Sequence[tuple[Array, Array]],
        levels: Sequence[NoiseLevel] | None,
        n_scores: int,
        *,
        ranks: bool = False,
        shrinks: bool = False,
    ) -> Evidence:
        """Return the evidence of the splits, with noise levels per score or for all problems together."""
        together = levels is not None and len(levels) != n_scores
        parts = [levels] if together or levels is None else [[level] for level in levels]
        p_values = np.array([np.nan if part is None else p_value(part) for part in parts])
        share = float(np.mean([len(test) / len(train) for train, test in splits]))
        return cls(share, np.broadcast_to(p_values, n_scores), ranks, shrinks)

    def useful(self, scores: Array, constants: Array) -> Array:
        """Whether to predict with a model of the scores (n_folds, T) rather than with the best constants, (T,).

        The model must be ahead in the mean and pass one of two tests at 5 %: a permutation test, by which the target is
        more strongly related to the kernels than 95 % of permuted ones, or a paired t-test of the scores over the
        folds. Where targets cannot be permuted, half a standard error will do, as what wins by luck is not ahead by as
        much on average; and for hazards, of which few events pass no test, and for many targets. Hazards are kept as
        well where the permutation test passes at 20 %. One fold tells no error.
        """
        quantile = stdtrit(len(scores) - 1, 1.0 - SIGNIFICANT) if len(scores) > 1 else 0.0
        quantile = min(quantile, USEFUL) if self.ranks or self.shrinks else quantile
        needed = np.where(self.p_values <= SIGNIFICANT, 0.0, quantile)
        return self.related | self._ahead(scores, constants, np.where(np.isnan(self.p_values), USEFUL, needed))

    @property
    def related(self) -> Array:
        """Whether models that rank samples are to be kept by the permutation test alone, (T,)."""
        return self.ranks & (self.p_values <= RELATED)

    def behind(self, scores: Array, constants: Array) -> Array:
        """Whether a model is kept by the permutation test alone, no better than the best constants, (T,)."""
        return self.related & (scores.mean(axis=0) <= constants.mean(axis=0))

    def doubtful(self, scores: Array, constants: Array) -> Array:
        """Whether what is useful may all the same be luck, and no finding, (T,).

        That is, whether the target passes no test; where nobody knows, since samples are not exchangeable, whether it
        is ahead by less than a whole standard error of the folds, if these are several.
        """
        unknown = ~self._ahead(scores, constants, np.ones(len(self.p_values)))
        return np.where(np.isnan(self.p_values), unknown, self.p_values > SIGNIFICANT)

    def _ahead(self, scores: Array, constants: Array, needed: Array) -> Array:
        """Whether scores are ahead by standard errors that count the training rows that folds share.

        With ``K`` folds the square of one has ``1/K + n_test/n_train`` in place of ``1/K``. One fold tells none.

        Source: C. Nadeau, Y. Bengio, "Inference for the generalization error", Machine Learning 52 (2003).
        """
        return ahead(scores, constants, needed * np.sqrt(1.0 + len(scores) * self.held_out_share))


def find_doubtful(candidates: Sequence[Candidate], taken: Array, evidence: Evidence) -> Array:
    """Return whether the choice for every score may be luck, (T,); false without a score of the empty model."""
    empty = [candidate.scores for candidate in candidates if candidate.family.doubt == EMPTY]
    scores = np.array([candidates[index].scores[:, column] for column, index in enumerate(taken)]).T
    known = [evidence.doubtful(scores, own) & np.isfinite(own.mean(axis=0)) for own in empty]
    return known[0] if known else np.zeros(len(taken), dtype=bool)


def format_count(number: int, noun: str) -> str:
    """Return a number with the noun."""
    return f"{number} {noun}{'s' * (number != 1)}"


def explain_doubt(doubts: Array, evidence: Evidence, labels: Array, n_folds: int) -> str:
    """Return the targets with uncertain kernels, and the reason."""
    named, chance = labels[doubts].tolist() if len(doubts) > 1 else [], evidence.p_values[doubts].min()
    of = f"For {len(named)} of {len(doubts)} outputs ({listed(map(repr, named[:MOST_NAMED]), len(named))}) the"
    told = (
        f"less than a standard error ahead of a constant in {format_count(n_folds, 'fold')}"
        if np.isnan(chance)
        else f"not more strongly related to y than to y in random order (p = {chance:.2g})"
    )
    return (
        f"{of if named else 'The'} kernels are {told}. Held-out rows are predicted better with them than without, "
        "so that they are kept; but that may be luck, and which kernels these are is no finding."
    )


def _or_nothing(taken: Array, doubts: Array, scores: Array, means: Array, evidence: Evidence | None) -> Array:
    """Return the choice, or the empty model if equally useful."""
    empty, columns = np.flatnonzero(doubts == EMPTY), np.arange(len(taken))
    if not len(empty) or evidence is None:
        return taken
    better = evidence.useful(scores[taken, :, columns].T, scores[empty[0]])
    return np.where(better | ~np.isfinite(means[empty[0]]), taken, empty[0])


def _choose_by_evidence(doubts: Array, scores: Array, means: Array) -> Array:
    """Choose the best of the least doubtful candidates, unless a more doubtful one leads by enough standard errors."""
    levels, columns = np.unique(doubts[doubts > EMPTY]), np.arange(means.shape[1])
    if not len(levels):  # there is nothing but the empty model
        return np.zeros(len(columns), dtype=np.intp)
    taken = _best_where(doubts == levels[0], means)
    for doubt in levels[1:]:
        first = _best_where(doubts == doubt, means)
        second = _best_where((doubts < doubt) & (doubts > EMPTY), means)
        gaps = scores[first, :, columns] - scores[second, :, columns]
        needed = means[second, columns] + doubt * standard_errors(gaps.T)
        taken = np.where(means[first, columns] > needed, first, taken)
    return taken


def _best_where(among: Array, means: Array) -> Array:
    """Return the position of the best mean of every score among some candidates, (T,)."""
    return np.where(among[:, None], means, -np.inf).argmax(axis=0)


def _smoothed(candidates: Sequence[Candidate], means: Array) -> Array:
    """Return the means with half of their weight on the two neighbors along every path.

    Beyond the ends a path is taken to bend as beside them: smoothed less than the rest, ends would be chosen too often.
    """
    smooth = means.copy()
    owners = np.array([id(candidate.family) for candidate in candidates])
    for owner in dict.fromkeys(owners.tolist()):
        own = means[owners == owner]
        with np.errstate(invalid="ignore"):  # what has no score is at minus infinity
            sides = np.vstack([_exceeds_noise(own), own[:-1]]), np.vstack([own[1:], _exceeds_noise(own[::-1])])
        before, after = (np.where(np.isfinite(near), near, own) for near in sides)
        smooth[owners == owner] = 0.25 * before + 0.5 * own + 0.25 * after
    return smooth


def _exceeds_noise(means: Array) -> Array:
    """Return the extrapolation of means (n, T) by a parabola through three; of fewer means, the first value."""
    return 3.0 * (means[:1] - means[1:2]) + means[2:3] if len(means) > 2 else means[:1]


def results_of(candidates: Sequence[Candidate], told: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Return a row per candidate: the settings, the scores, and the mean number of kernels."""
    scores = np.array([candidate.scores.mean(axis=1) for candidate in candidates])
    frame = pd.DataFrame(list(told))
    frame["mean_score"], frame["std_score"] = scores.mean(axis=1), scores.std(axis=1)
    frame["n_active"] = [candidate.n_active for candidate in candidates]
    return frame.assign(**{f"score_{fold}": row for fold, row in enumerate(scores.T)})


def select_family(candidates: Sequence[Candidate], family: object) -> list[int]:
    """Return the positions of the candidates of a family."""
    return [index for index, candidate in enumerate(candidates) if candidate.family is family]


COARSE = 3  # steps of the grid that a path takes at once first
BEHIND = 2  # coarse steps that must have brought nothing better before a path ends
FARTHEST = 1e-4  # share of the smallest strength of the grid to which it may extend itself
PLATEAU = 1e-3  # standard deviations over the folds that make no difference
ROUNDED = 1e-14  # of the largest score: a difference of means that is rounding

Viability = Callable[["StrengthPath"], bool]
TryAt = Callable[[Sequence[int]], Iterator[tuple[int, list[Candidate]]]]


def always(path: StrengthPath) -> bool:
    """Viability for every path."""
    return True


@dataclass(frozen=True)
class Grid:
    """Strengths as fractions, ``step ** -i``: ``n_first`` at first, more if the best is at the end."""

    n_first: int
    ratio: float
    enough: float = np.inf  # mean score from which on nothing is left to gain
    extends: bool = True  # whether there are more strengths than those at first

    @property
    def step(self) -> float:
        """Factor between neighbors."""
        return self.ratio ** (-1.0 / max(self.n_first - 1, 1))

    @property
    def last(self) -> int:
        """Largest reachable number."""
        beyond = int(np.ceil(-np.log(FARTHEST) / np.log(self.step))) if self.extends else 0
        return self.n_first - 1 + beyond

    @property
    def stride(self) -> int:
        """Number of simultaneous first steps of a path."""
        return COARSE if self.n_first > 2 * COARSE else 1

    def fraction(self, number: int) -> float:
        """Return the fraction of a number."""
        return float(self.step**-number)

    def nearest(self, fraction: float) -> int:
        """Return the number of the nearest fraction."""
        return min(max(round(-np.log(fraction) / np.log(self.step)), 0), self.last)

    def fractions(self, numbers: Iterable[int]) -> list[float]:
        """Return the fractions of numbers."""
        return [self.fraction(number) for number in numbers]


@dataclass(eq=False)
class StrengthPath:
    """The state of a mixture in some folds."""

    mixture: Mixture
    grid: Grid
    around: Sequence[int] = ()  # numbers of the strengths beside which the best are expected; none if nothing is known
    stride: int = 0  # steps of the grid that it takes at once first; those of the grid where none are given
    # by the number of the strength; one trial a fold
    trials: dict[int, list[Candidate]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.stride = self.stride or self.grid.stride

    def _neighbors(self, numbers: Iterable[int], step: int) -> list[int]:
        """Return numbers and their neighbors on both sides, as far as the grid may extend."""
        wanted = {number + side for number in numbers for side in (-step, 0, step)}
        return sorted(number for number in wanted if 0 <= number <= self.grid.last)

    @property
    def numbers(self) -> list[int]:
        """Numbers of the strengths tried, the strongest first."""
        return sorted(self.trials)

    def scores(self) -> Array:
        """Return the scores, (n_tried, n_folds, T), the strongest first."""
        return np.array([np.concatenate([own.scores for own in self.trials[number]]) for number in self.numbers])

    def best(self) -> Array:
        """Return the number of the best strength of every score, (T,); the strongest of equals."""
        means = self.scores().mean(axis=1)
        return np.array(self.numbers)[np.argmax(np.where(np.isfinite(means), means, -np.inf), axis=0)]

    def likely(self) -> list[int]:
        """Return the numbers of the best strengths with neighbors, for averaged scores."""
        numbers = self.numbers
        places = {numbers.index(best) + side for best in self.best().tolist() for side in (-1, 0, 1)} if numbers else ()
        return [numbers[place] for place in sorted(places) if 0 <= place < len(numbers)]

    def follow(self, try_at: TryAt, *, finest: int = 1, viable: Viability = always) -> StrengthPath:
        """Walk down; ``try_at`` tries strengths by number in all folds. Exceptions keep the earlier results.

        If the best strengths are roughly known, only neighbors are tried, and further strengths on the rising side. The
        walk ends as soon as the path is not ``viable``.
        """
        stride, behind = self.stride, 1 if self.around else BEHIND
        if self.around:
            self.try_all(self._neighbors(self.around, stride), try_at)
            while (first := self.numbers[0]) > 0 and (self.promising() & (self.best() == first)).any() and viable(self):
                self.try_all([max(first - stride, 0)], try_at)
        else:
            self.try_all(range(0, min(BEHIND * stride + 1, self.grid.n_first), stride), try_at)
        while (last := self.numbers[-1]) < self.grid.last and self._goes_on(behind, stride) and viable(self):
            # A walk with all rows begins beside the best strength, which must have a neighbor inside the grid.
            n_steps = behind if self.grid.extends else 1
            steps = {min(last + stride * (number + 1), self.grid.last) for number in range(n_steps)}
            self.try_all(sorted(steps), try_at)
        if stride > finest and viable(self):
            self.try_all(self._untried(self.best().tolist(), 1), try_at)
        return self

    def climb(self, try_at: TryAt) -> StrengthPath:
        """Try strengths one at a time from the expected one, stronger ones first, as long as a score still rises."""
        self.try_all([self.around[len(self.around) // 2]], try_at)
        for step, end in ((-self.stride, 0), (self.stride, -1)):
            while (last := self.numbers[end]) in self.best() and 0 <= last + step < self.grid.n_first:
                self.try_all([last + step], try_at)
        return self

    def _untried(self, numbers: Iterable[int], step: int) -> list[int]:
        return [number for number in self._neighbors(numbers, step) if number not in self.trials]

    def tops(self) -> Array:
        """Return the places of the best strengths so far, (T,)."""
        return np.searchsorted(self.numbers, self.best())

    def rise(self, *, beyond: bool = False) -> Array:
        """Return how far the top of a parabola through the best strength and the neighbors is above it, (T,).

        Zero for a best value at either end, or with the extrapolated gain ``beyond``, assuming a geometric decrease of
        gains: infinite without a decrease.
        """
        numbers, tops = np.array(self.numbers, dtype=np.float64), self.tops()
        means, columns = self.scores().mean(axis=1), np.arange(len(tops))
        if len(numbers) < 3:
            return np.full(len(tops), np.inf if beyond else 0.0)
        at = np.clip(tops, 1, len(numbers) - 2)
        left, right = numbers[at] - numbers[at - 1], numbers[at + 1] - numbers[at]
        up = (means[at, columns] - means[at - 1, columns]) / left
        down = (means[at + 1, columns] - means[at, columns]) / right
        bend, slope = (up - down) / (left + right), (up * right + down * left) / (left + right)
        height = np.where(bend > 0, np.square(slope) / (4.0 * np.where(bend > 0, bend, 1.0)), 0.0)
        if not beyond:
            return np.where(at == tops, height, 0.0)
        before, last, step = np.where(tops > at, (up, down, right), (-down, -up, left))  # toward the end that is best
        smaller = last < before
        more = np.where(smaller, step * last * last / np.where(smaller, before - last, 1.0), np.inf)
        return np.where(at == tops, height, more)

    def top_scores(self) -> Array:
        """Return the scores of every fold where the mean is best, (n_folds, T)."""
        tops = self.tops()
        return self.scores()[tops, :, np.arange(len(tops))].T

    def can_win(self, best: Array, lenience: float = ONE_ERROR, *, beyond: bool = False) -> bool:
        """Whether any score is not behind the best of others, (n_folds, T), by more than the errors over the folds.

        ``beyond`` is that of `rise`: where the walk has not come to the end.
        """
        rise = self.rise(beyond=beyond)
        return bool(np.isinf(rise).any() or ahead(self.top_scores() + rise, best, -lenience, at_least=True).any())

    def try_all(self, numbers: Iterable[int], try_at: TryAt) -> None:
        """Try strengths by number."""
        for number, trials in try_at(list(numbers)):
            self.trials[number] = trials

    def promising(self) -> Array:
        """Whether more may be gained beyond the best strength than scores can tell, (T,).

        At least half a standard error of the difference to the neighbor: smaller differences are luck. Without
        ``around`` a local top may be far from the best.
        """
        tops, scores = self.tops(), self.scores()
        if not self.around or len(scores) < 3:
            return np.ones(len(tops), dtype=bool)
        beside = scores[np.where(tops > 0, tops - 1, 1), :, np.arange(len(tops))].T
        return self.rise(beyond=True) > HALF_ERROR * standard_errors(self.top_scores() - beside)

    def _goes_on(self, behind: int, stride: int) -> bool:
        """Whether the best of any score is near the end; beyond that of the grid, if it is better by more than luck.

        A grid that ends where scores have fallen ends where they have fallen by more than a standard error.
        """
        since = self.numbers[-1] - behind * stride
        if not self.grid.extends and not ahead(self.scores()[-1], self.top_scores(), -ONE_ERROR, at_least=True).any():
            return False
        near = (self.best() > since) & self.promising() & (self.top_scores().mean(axis=0) < self.grid.enough)
        if self.numbers[-1] < self.grid.n_first - 1:
            return bool(near.any())
        return not self.flat() and bool((near & self._risen(since)).any())

    def _risen(self, since: int) -> Array:
        """Whether the best of every score is ahead of the best until some strength by evidence over the folds, (T,)."""
        scores = self.scores()[: np.searchsorted(self.numbers, since, side="right")]
        if not len(scores):
            return np.ones(scores.shape[2], dtype=bool)
        until = scores.mean(axis=1).argmax(axis=0)
        return ahead(self.top_scores(), scores[until, :, np.arange(scores.shape[2])].T, HALF_ERROR)

    def flat(self) -> bool:
        """Whether the last strengths score alike: to go on would change nothing."""
        ends = self.scores()[-BEHIND - 1 :]
        alike = PLATEAU * ends.std(axis=1).max(axis=0) + ROUNDED * np.abs(ends).max(axis=(0, 1))
        return bool((np.ptp(ends.mean(axis=1), axis=0) <= alike).all())

    def candidates(self) -> list[Candidate]:
        """Return all tried candidates, the strongest first."""
        end = self.numbers[-1]
        at_end = end >= self.grid.last and bool((self.best() == end).any()) and not self.flat()
        return [Candidate.create(self.trials[n], edge=at_end and n == end) for n in self.numbers]


def best_scores(paths: Sequence[StrengthPath]) -> Array:
    """Return the scores of the folds at the best mean, (n_folds, T), at the tops of parabolas through strengths."""
    tops = np.array([path.top_scores() + path.rise() for path in paths])
    best = tops.mean(axis=1).argmax(axis=0)
    return np.array(tops[best, :, np.arange(tops.shape[2])]).T


def leads(path: StrengthPath, rivals: Sequence[StrengthPath]) -> bool:
    """Return whether the best of a path is ahead of the best of others in the mean over the folds, for any score."""
    own, other = (best_scores(paths).mean(axis=0) for paths in ([path], rivals))
    return bool((own >= other).any())


# How a walk ends before its end, with what was scored so far.

SEARCH_SHARE = 0.8  # of a time limit, at most: the rest is for the last fit, and what that is predicted to take


@dataclass(eq=False)
class StopReason:
    """Reason for an early end of a search, if any."""

    status: Status | None = None  # TIME_LIMIT, INTERRUPTED, or None while everything is tried

    @contextmanager
    def record(self) -> Iterator[None]:
        """Record the reason for an early end of the body, and continue after the body."""
        try:
            yield
        except OutOfTimeError:
            self.status = Status.TIME_LIMIT
        except KeyboardInterrupt:
            self.status = Status.INTERRUPTED

    def warn(self, scored: str) -> None:
        """Warn of the basis of the choice; ``scored`` is empty without scores."""
        if self.status is None:
            return
        rest = (
            f"the choice is the best of {scored}" if scored else "nothing was scored, and the strength is the default"
        )
        advice = "Raise time_limit, or try less." if self.status is Status.TIME_LIMIT else "Fit again to try all."
        told = f"The search stopped ({self.status}): {rest}. {advice}"
        warn(told, ConvergenceWarning)


@contextmanager
def limit_search(time_limit: float | None, last: float) -> Iterator[float]:
    """Hold a search to the share of a time limit, without the seconds that the last fit is predicted to take.

    Yields when all of it is over, by the clock of the solvers.
    """
    end = float("inf") if time_limit is None else time.perf_counter() + time_limit
    with deadline(None if time_limit is None else min(SEARCH_SHARE * time_limit, time_limit - last)):
        yield end


def is_futile_mixture(path: StrengthPath, known: Sequence[StrengthPath]) -> bool:
    """Whether a mixture lies between averages and a more selective mixture, without a lead for any score.

    Such a mixture is like the sparser one: where the two are equal but for luck, all rows would tell no more.
    """
    sparser = [own for own in known if own.mixture.mixing > path.mixture.mixing]
    return not path.mixture.averages and bool(sparser) and not leads(path, sparser)


def rivals_of(path: StrengthPath, known: Sequence[StrengthPath]) -> list[StrengthPath]:
    """Return the candidates that may end the race of a path: no single views, by lack of evidence."""
    return [own for own in known if own.mixture.doubt <= max(path.mixture.doubt, SPECIAL)]


def worth_all_rows(known: Sequence[StrengthPath]) -> list[StrengthPath]:
    """Return the candidates for all rows after a trial on fewer rows: viable ones, and the best average of all kernels.

    A cheap baseline that selections must beat on all rows.
    """
    able = [path for path in known if path.can_win(best_scores(rivals_of(path, known)))]
    able = [path for path in able if not is_futile_mixture(path, able)]
    plain = [path for path in known if path.mixture.averages and path.mixture.doubt <= PLAIN]
    if plain and not any(path in able for path in plain):
        able.insert(0, max(plain, key=lambda own: best_scores([own]).mean()))
    return able
