"""Loss and penalty of several targets on factors: as for one, with an intercept for each."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from manykernels.solvers.engines.factored.objective import FactoredObjective, Point
from manykernels.solvers.engines.factored.targets.problem import ProblemOfTargets
from manykernels.solvers.engines.factored.tuning import BALANCED, CROSSING_STEPS, EXPANSIONS, INTERCEPT_STEPS

Array = NDArray[Any]

BISECTED = 1e-15  # relative width of an interval that is a point


class ObjectiveOfTargets(FactoredObjective):
    """Loss and penalty of a `ProblemOfTargets`; see `FactoredObjective`."""

    problem: ProblemOfTargets

    @property
    def n_free(self) -> int:
        """Number of intercepts."""
        return self.problem.n_targets if self.problem.fit_intercept else 0

    @property
    def products(self) -> float:
        """Products that a row costs in a dense Hessian, which has nothing between targets unless these are coupled."""
        return float(self.rank) ** 2 / (1 if self.problem.whole.loss.coupled else self.problem.n_targets)

    def totals(self, rho: Array) -> Array:
        """Return the sums over the samples of each target, (n_free,)."""
        return rho.reshape(self.problem.n_targets, -1).sum(axis=1) if self.n_free else np.zeros(0)

    def spread(self, b: Any) -> Any:
        """Return what intercepts add to scores."""
        return self.problem.constant_scores(b)

    def intercepts(self, b: Array) -> Any:
        """Return intercepts (n_free,) as points have them."""
        return b if self.n_free else np.zeros(self.problem.n_targets)

    def balanced(self, rho: Array) -> Array:
        """Return dual coefficients near ``rho`` that intercepts allow."""
        return self.problem.balanced(rho)

    def settle_intercept(self, point: Point) -> Array:
        """Move the intercepts to their minimum; return the slopes there."""
        if not self.n_free:
            return self.slopes(point.z)
        if self.problem.whole.loss.coupled:
            whole = self.problem.whole
            self._shift(point, whole.loss.best_intercepts(whole.y, self.problem.columns(point.z), whole.weight))
            return self.slopes(point.z)
        slopes = self.slopes(point.z)
        for _ in range(INTERCEPT_STEPS):
            totals = self.totals(slopes)
            away = np.abs(totals) > BALANCED * self.totals(np.abs(slopes))
            moved, slopes = self._settled(point, slopes, totals, away)
            if not moved:
                return self._all_crossed(point, totals, away) if away.any() else slopes
        return slopes

    def _all_crossed(self, point: Point, totals: Array, away: Array) -> Array:
        """Move these targets' intercepts to where their sums of slopes change sign, by bisection of all at once."""
        bends = self.totals(self.majorizers(point.z).diagonal)
        near, far = np.zeros(len(totals)), np.where(away, -totals / np.maximum(bends, 1e-300), 0.0)
        crossed = ~away
        for _ in range(EXPANSIONS):
            crossed |= self.totals(self.slopes(point.z + self.spread(far))) * totals <= 0
            if crossed.all():
                break
            far = np.where(crossed, far, 2.0 * far)
        far = np.where(crossed, far, 0.0)
        for _ in range(CROSSING_STEPS):
            middle = 0.5 * (near + far)
            rest = self.totals(self.slopes(point.z + self.spread(middle)))
            same = rest * totals > 0
            near, far = np.where(same, middle, near), np.where(same, far, middle)
            if np.all(np.abs(far - near) <= BISECTED * np.abs(far)):
                break
        self._shift(point, far)
        return self.slopes(point.z)

    def _shift(self, point: Point, step: Array) -> None:
        point.z, point.b = point.z + self.spread(step), point.b + step

    def _settled(self, point: Point, slopes: Array, totals: Array, away: Array) -> tuple[bool, Array]:
        """Move the intercepts of targets whose slopes do not sum to zero, as far as their sums fall."""
        waiting = away.copy()
        for steps in self._steps(point.z, totals) if away.any() else ():
            step = np.where(waiting, steps, 0.0)
            trial = self.slopes(point.z + self.spread(step))
            better = waiting & (np.abs(self.totals(trial)) < np.abs(totals))
            self._shift(point, np.where(better, step, 0.0))
            slopes = np.where(self.spread(better) > 0, trial, slopes)
            waiting &= ~better
            if not waiting.any():
                break
        return bool((away & ~waiting).any()), slopes

    def _steps(self, z: Array, totals: Array) -> Any:
        """Yield steps (T,) to try: Newton's, then those of the majorizer, shorter and shorter."""
        bends = self.totals(self.bends(z).diagonal)
        yield -totals / np.where(bends > 0, bends, np.inf)
        safe = -totals / np.maximum(self.totals(self.majorizers(z).diagonal), 1e-300)
        yield from (safe, 0.25 * safe, 0.05 * safe)
