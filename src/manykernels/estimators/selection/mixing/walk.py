"""Down the strengths of one mixture: coarse steps as far as they help, then finer ones around the best."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

from manykernels.estimators.selection.mixing.mixtures import Mixture
from manykernels.estimators.selection.mixing.opened import Trial
from manykernels.validation.arrays import Array

COARSE = 3  # steps of the grid that the first walk takes at once
BEHIND = 2  # coarse steps that must have brought nothing better before a walk ends
FARTHEST = 1e-4  # share of the smallest strength of the grid to which it may extend itself
PLATEAU = 1e-3  # standard deviations over the folds that make no difference


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
class Walk:
    """What is known of one mixture.

    Attributes
    ----------
    mixture : Mixture
    grid : Grid
    trials : dict of int to list of Trial
        By the number of the strength; one trial a fold.
    """

    mixture: Mixture
    grid: Grid
    trials: dict[int, list[Trial]] = field(default_factory=dict)

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

    def follow(self, try_at: Callable[[int], list[Trial]]) -> Walk:
        """Walk; ``try_at`` tries the strength of a number in all folds. What it raises leaves what was tried before."""
        stride = COARSE if self.grid.n_first > 2 * COARSE else 1
        self._try(range(0, min(BEHIND * stride + 1, self.grid.n_first), stride), try_at)
        while (last := self.numbers[-1]) < self.grid.last and self._goes_on(stride):
            self._try(range(last + stride, min(last + BEHIND * stride, self.grid.last + stride) + 1, stride), try_at)
        if stride > 1:
            self._refine(try_at)
        return self

    def _try(self, numbers: Iterable[int], try_at: Callable[[int], list[Trial]]) -> None:
        for number in numbers:
            self.trials[number] = try_at(number)

    def _goes_on(self, stride: int) -> bool:
        """Whether the best of any score is near the end and no plateau."""
        last = self.numbers[-1]
        if bool((self.best() > last - BEHIND * stride).any()):
            return last < self.grid.n_first - 1 or not self.flat()
        return False

    def flat(self) -> bool:
        """Whether the last strengths score alike: to go on would change nothing."""
        ends = self.scores()[-BEHIND - 1 :]
        return bool((np.ptp(ends.mean(axis=1), axis=0) <= PLATEAU * (ends.std(axis=1).max(axis=0) + 1e-12)).all())

    def _refine(self, try_at: Callable[[int], list[Trial]]) -> None:
        around = {int(best) + side for best in self.best() for side in (-1, 1)}
        self._try(sorted(number for number in around - set(self.trials) if 0 <= number <= self.grid.last), try_at)
