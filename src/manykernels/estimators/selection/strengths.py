"""Down the strengths of one mixture: coarse steps as far as they help, then finer ones around the best.

The walk may be ended before its end by a limit of time or Ctrl-C (`StopReason`).
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from manykernels.estimators.selection.rules import Candidate, ahead
from manykernels.exceptions import ConvergenceWarning
from manykernels.solvers import Status
from manykernels.solvers.run import OutOfTimeError, deadline

if TYPE_CHECKING:
    from manykernels.estimators.selection.mixtures import Mixture
    from manykernels.solvers.fold import FoldScore
    from manykernels.validation.arrays import Array


COARSE = 3  # steps of the grid that a path takes at once first
BEHIND = 2  # coarse steps that must have brought nothing better before a path ends
FARTHEST = 1e-4  # share of the smallest strength of the grid to which it may extend itself
PLATEAU = 1e-3  # standard deviations over the folds that make no difference
LOOKED_AT = 3  # strengths of a first look, equally spaced inside the grid
HOPELESS = 1.0  # standard errors of the difference over the folds by which what is behind is given up

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

    @property
    def stride(self) -> int:
        """Steps that a path takes at once first."""
        return COARSE if self.n_first > 2 * COARSE else 1

    def fraction(self, number: int) -> float:
        """Return the fraction of that number."""
        return float(self.step**-number)

    def fractions(self, numbers: Iterable[int]) -> list[float]:
        """Return the fractions of those numbers."""
        return [self.fraction(number) for number in numbers]


@dataclass(eq=False)
class StrengthPath:
    """What is known of one mixture in some folds."""

    mixture: Mixture
    grid: Grid
    around: Sequence[int] = ()  # numbers of the strengths beside which the best are expected; none if nothing is known
    # by the number of the strength; one trial a fold
    trials: dict[int, list[FoldScore]] = field(default_factory=dict)

    @property
    def n_expected(self) -> int:
        """How many strengths it is expected to try."""
        if self.around:
            return LOOKED_AT + BEHIND
        return self.grid.n_first if self.grid.stride == 1 else self.grid.n_first // COARSE + BEHIND

    @property
    def looked_at(self) -> list[int]:
        """Numbers of the strengths of a first look."""
        if self.around:
            return self._beside(self.around, self.grid.stride)
        return sorted({k * (self.grid.n_first - 1) // (LOOKED_AT + 1) for k in range(1, LOOKED_AT + 1)})

    def _beside(self, numbers: Iterable[int], step: int) -> list[int]:
        """Return numbers and their neighbors on both sides, as far as the grid may extend."""
        wanted = {number + side for number in numbers for side in (-step, 0, step)}
        return sorted(number for number in wanted if 0 <= number <= self.grid.last)

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

    def likely(self) -> list[int]:
        """Return the numbers of the best strengths and of their neighbors, with which scores are averaged."""
        numbers = self.numbers
        places = {numbers.index(best) + side for best in self.best().tolist() for side in (-1, 0, 1)} if numbers else ()
        return [numbers[place] for place in sorted(places) if 0 <= place < len(numbers)]

    def follow(self, try_at: TryAt, *, finest: int = 1) -> StrengthPath:
        """Walk down; ``try_at`` tries strengths by number in all folds. What it raises leaves what was tried before.

        Where it is known around which strengths the best will be, only what lies beside them is tried, and further to
        the side on which the score rises.
        """
        stride = self.grid.stride
        if self.around:
            self._try(self.looked_at, try_at)
            while (first := self.numbers[0]) > 0 and bool((self.best() == first).any()):
                self._try([max(first - stride, 0)], try_at)
        else:
            self._try(range(0, min(BEHIND * stride + 1, self.grid.n_first), stride), try_at)
        while (last := self.numbers[-1]) < self.grid.last and self._goes_on(1 if self.around else BEHIND, stride):
            self._try(range(last + stride, min(last + BEHIND * stride, self.grid.last + stride) + 1, stride), try_at)
        if stride > finest:
            self._try(self._untried(self.best().tolist(), 1), try_at)
        return self

    def look(self, try_at: TryAt) -> StrengthPath:
        """Try a few strengths, and further ones where the score rises to an end."""
        wanted = self.looked_at
        step = max(1, wanted[-1] - wanted[-2] if len(wanted) > 1 else 1)
        while wanted:
            self._try(wanted, try_at)
            wanted = self._untried(self.best().tolist(), step)
        return self

    def _untried(self, numbers: Iterable[int], step: int) -> list[int]:
        return [number for number in self._beside(numbers, step) if number not in self.trials]

    def tops(self) -> Array:
        """Return the places of the best strengths among those tried, (T,)."""
        return np.searchsorted(self.numbers, self.best())

    def rise(self) -> Array:
        """Return how far the top of a parabola through the best strength and its neighbors is above it, (T,).

        Zero where the best is the first or the last.
        """
        numbers, tops = np.array(self.numbers, dtype=np.float64), self.tops()
        means, columns = self.scores().mean(axis=1), np.arange(len(tops))
        inside = (tops > 0) & (tops < len(numbers) - 1)
        at = np.where(inside, tops, min(1, len(numbers) - 1))
        before, after = np.maximum(at - 1, 0), np.minimum(at + 1, len(numbers) - 1)
        left = np.where(inside, numbers[at] - numbers[before], 1.0)
        right = np.where(inside, numbers[after] - numbers[at], 1.0)
        up = (means[at, columns] - means[before, columns]) / left
        down = (means[after, columns] - means[at, columns]) / right
        bend, slope = (up - down) / (left + right), (up * right + down * left) / (left + right)
        return np.where(inside & (bend > 0), np.square(slope) / (4.0 * np.where(bend > 0, bend, 1.0)), 0.0)

    def at_tops(self) -> Array:
        """Return the scores of every fold where the mean is best, (n_folds, T)."""
        tops = self.tops()
        return self.scores()[tops, :, np.arange(len(tops))].T

    def can_win(self, best: Array) -> bool:
        """Whether any score is not behind the best of others, (n_folds, T), by more than its error over the folds."""
        return bool(ahead(self.at_tops() + self.rise(), best, -HOPELESS, at_least=True).any())

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

    def candidates(self) -> list[Candidate]:
        """Return what was tried as candidates, the strongest first."""
        end = self.numbers[-1]
        at_end = end >= self.grid.last and bool((self.best() == end).any()) and not self.flat()
        return [
            Candidate.of(self.mixture, self.grid.fraction(n), self.trials[n], edge=at_end and n == end)
            for n in self.numbers
        ]


def best_scores(paths: Sequence[StrengthPath]) -> Array:
    """Return the scores of the folds at the best mean, (n_folds, T)."""
    scores = np.concatenate([path.scores() for path in paths])
    best = scores.mean(axis=1).argmax(axis=0)
    return np.array(scores[best, :, np.arange(scores.shape[2])]).T


def leads(path: StrengthPath, rivals: Sequence[StrengthPath]) -> bool:
    """Whether the best of a path is ahead of the best of others in the mean over the folds, for any score."""
    own, other = (best_scores(paths).mean(axis=0) for paths in ([path], rivals))
    return bool((own >= other).any())


# How a walk ends before its end, with what was scored so far.

SEARCH_SHARE = 0.8  # of a time limit; the rest is for the last fit


@dataclass(eq=False)
class StopReason:
    """Why a search ended before its end, if it did."""

    status: Status | None = None  # TIME_LIMIT, INTERRUPTED, or None while everything is tried

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Keep in mind why what follows ends early, and go on behind it."""
        try:
            yield
        except OutOfTimeError:
            self.status = Status.TIME_LIMIT
        except KeyboardInterrupt:
            self.status = Status.INTERRUPTED

    def warn(self, scored: str) -> None:
        """Say what the choice rests on; ``scored`` is empty where nothing was."""
        if self.status is None:
            return
        rest = (
            f"the choice is the best of {scored}" if scored else "nothing was scored, and the strength is the default"
        )
        advice = "Raise time_limit, or try less." if self.status is Status.TIME_LIMIT else "Fit again to try all."
        told = f"The search stopped ({self.status}): {rest}. {advice}"
        warnings.warn(told, ConvergenceWarning, stacklevel=4)


@contextmanager
def limited(time_limit: float | None) -> Iterator[float]:
    """Hold a search to its share of a time limit; yields when all of it is over, by the clock of the solvers."""
    end = float("inf") if time_limit is None else time.perf_counter() + time_limit
    with deadline(None if time_limit is None else SEARCH_SHARE * time_limit):
        yield end
