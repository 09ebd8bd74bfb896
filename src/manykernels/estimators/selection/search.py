"""The search: what is tried in the folds, along paths of strengths that are given, or that go where scores rise."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from manykernels.estimators.selection.folds import Family, Fold, FoldScore
from manykernels.estimators.selection.mixtures import Mixture
from manykernels.estimators.selection.penalties import PenaltyFamily, alpha_grid
from manykernels.estimators.selection.rules import Candidate, ahead
from manykernels.estimators.selection.shared_folds import SharedFolds
from manykernels.estimators.selection.stopping import StopReason
from manykernels.estimators.strength import default_fraction
from manykernels.solvers.run import check_deadline
from manykernels.threads import blas_threads
from manykernels.validation.arrays import Array

# Down the strengths of one mixture: coarse steps as far as they help, then finer ones around the best.


COARSE = 3  # steps of the grid that a path takes at once first
BEHIND = 2  # coarse steps that must have brought nothing better before a path ends
FARTHEST = 1e-4  # share of the smallest strength of the grid to which it may extend itself
PLATEAU = 1e-3  # standard deviations over the folds that make no difference
SCOUTS = 3  # folds in which what is in doubt is tried first
SCOUTED = 3  # strengths that it is tried at, equally spaced inside the grid
HOPELESS = 1.0  # standard errors of the difference over the folds by which what is behind is given up
BEYOND = 1.0 + 1e-6  # fraction of the strength at which a model is empty
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

    def likely(self) -> list[int]:
        """Return the numbers of the best strengths and of their neighbors, with which scores are averaged."""
        numbers = self.numbers
        places = {numbers.index(best) + side for best in self.best().tolist() for side in (-1, 0, 1)} if numbers else ()
        return [numbers[place] for place in sorted(places) if 0 <= place < len(numbers)]

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

    def scout(self, try_at: TryAt, numbers: Sequence[int], finer: int = 0) -> StrengthPath:
        """Try a few equally spaced strengths, further ones where the score rises to an end, and some between them."""
        step, wanted = max(1, numbers[-1] - numbers[-2] if len(numbers) > 1 else 1), list(numbers)
        while wanted:
            self._try(wanted, try_at)
            rising = {int(best) + side * step for best in self.best() for side in (-1, 1)}
            wanted = sorted(n for n in rising - set(self.trials) if 0 <= n <= self.grid.last)
        between = {int(best) + side for best in self.best() for side in (-finer, finer)} - set(self.trials)
        self._try(sorted(n for n in between if 0 <= n <= self.grid.last), try_at)
        return self

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

    def _refine(self, try_at: TryAt) -> None:
        around = {int(best) + side for best in self.best() for side in (-1, 1)}
        self._try(sorted(number for number in around - set(self.trials) if 0 <= number <= self.grid.last), try_at)


AVERAGING_RATIO = 1e-6  # smallest fraction of the first grid of an average
AVERAGING_STEPS = 25


@dataclass(eq=False)
class Folds:
    """The folds, and threads to try them in."""

    folds: list[Fold]
    workers: int  # folds that are tried at once
    advance: Callable[[str], None]  # told in a line about each strength
    ending: StopReason = field(default_factory=StopReason)  # told why nothing more is tried
    shared: SharedFolds | None = None  # what folds share whose kernels are those of all rows
    in_turn: bool = False  # whether folds are opened one at a time
    scouts: Folds | None = None  # folds of fewer rows, in which all is tried first
    constants: Array | None = None  # (n_folds, T): what the best constants score, once it is known

    def follow(self, mixture: Mixture, grid: Grid, around: Sequence[int] = ()) -> StrengthPath:
        """Walk down one mixture as far as there is time, then let the folds forget it."""

        def try_at(numbers: Sequence[int]) -> Iterator[tuple[int, list[FoldScore]]]:
            for number, trials in self._try_at(mixture, grid)(numbers):
                score = float(np.mean([trial.scores.mean() for trial in trials]))
                self.advance(f"{mixture.label}  {mixture.penalty}  fraction {grid.fraction(number):.2g}  {score:.4g}")
                yield number, trials

        path = StrengthPath(mixture, grid)
        with self.ending.noted():
            path.follow(try_at, around)
        likely = [grid.fraction(number) for number in path.likely()]
        for fold in self.folds:
            fold.forget(mixture, likely)  # what is chosen will be asked once more
        return path

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
        for every score, even at the top of a parabola through its strengths. What is left is followed around its best
        strength.
        """
        with self.ending.noted():
            path, best = self.scout(mixture, grid, numbers, slice(SCOUTS)), _best_scores(rivals)
            around = sorted(set(path.best().tolist()))
            if path.can_win(best[:SCOUTS]):
                found = dict(self._try_at(mixture, grid)(around))
                tops = [[trial.scores[k] for trial in found[number]] for k, number in enumerate(path.best().tolist())]
                if ahead(np.transpose(tops) + path.rise(), best, -HOPELESS, at_least=True).any():
                    return self.follow(mixture, grid, around)
        self.forget()
        return None

    def scout(
        self, mixture: Mixture, grid: Grid, numbers: Sequence[int], among: slice = slice(None), finer: int = 0
    ) -> StrengthPath:
        """Try a mixture at a few strengths, and on to where it scores best."""
        return StrengthPath(mixture, grid).scout(self._try_at(mixture, grid, among), sorted(set(numbers)), finer)

    def _try_at(self, mixture: Mixture, grid: Grid, among: slice = slice(None)) -> TryAt:
        """Return what tries strengths of a mixture by number in some folds."""

        def try_at(numbers: Sequence[int]) -> Iterator[tuple[int, list[FoldScore]]]:
            return zip(numbers, self.tried(mixture, [grid.fraction(number) for number in numbers], among), strict=False)

        return try_at

    def nothing(self, mixture: Mixture) -> Candidate:
        """Return the empty model as a candidate: the best constants of the folds."""
        self.constants = np.array([fold.constant().scores for fold in self.folds])
        return Candidate(mixture, BEYOND, self.constants, 0.0, 0)

    def tried(
        self, family: Family, strengths: Sequence[float], among: slice = slice(None)
    ) -> Iterator[list[FoldScore]]:
        """Yield what the folds say of each strength.

        Folds whose matrices can be held side by side are tried at one strength after the other, so that what ends the
        search early loses one strength at most; else each fold is opened, tried at all of these, and closed.
        """
        folds = self.folds[among]
        if self.shared is not None:
            yield from (self._together(self.shared, family, strength)[among] for strength in strengths)
        elif not self.in_turn and all(fold.averages(family) or self._stay_open(fold) for fold in folds):
            for strength in strengths:
                yield [trial for (trial,) in self._each(folds, family, [strength])]
        else:
            yield from map(list, zip(*self._each(folds, family, strengths), strict=True))

    def _together(self, shared: SharedFolds, family: Family, strength: float) -> list[FoldScore]:
        """Return what all folds say of a strength, solved at once."""
        check_deadline()
        with blas_threads(shared.problems[0].n_samples, self.workers):
            posed = family.posed(shared.problems, self.folds[0].names)
            fits = shared.fits([family.penalties(strength, fold) for fold in self.folds], posed)
            return [
                fold.score(family.embedded(fit, fold.problems), **family.settings(strength))
                for fold, fit in zip(self.folds, fits, strict=True)
            ]

    def _stay_open(self, fold: Fold) -> bool:
        """Whether the matrices of a fold may be held beside those of the folds before it."""
        return sum(each.stored_bytes for each in self.folds[: self.folds.index(fold) + 1]) <= ROOM

    def _each(self, folds: Sequence[Fold], family: Family, strengths: Sequence[float]) -> list[list[FoldScore]]:
        """Return what each fold says of these strengths, in threads if there are several."""

        def function(fold: Fold) -> list[FoldScore]:
            try:
                return [fold.tried(family, strength) for strength in strengths]
            finally:
                if self.in_turn or not self._stay_open(fold):
                    fold.close(kernels=self.in_turn)

        with blas_threads(1):
            if self.workers == 1 or self.in_turn:
                return [function(fold) for fold in folds]
            with ThreadPoolExecutor(self.workers) as pool:
                # Threads know the end of the time from the context that they are given.
                futures = [pool.submit(copy_context().run, function, fold) for fold in folds]
                try:
                    return [future.result() for future in futures]
                except BaseException:
                    self.folds[0].stop.set()  # Ctrl-C reaches this thread only; the others end at their next model
                    raise


# What is tried: strengths on grids, or mixtures as far as they can win.


@dataclass(frozen=True, eq=False)
class PenaltyGrid:
    """Families of penalties, each with its strengths in decreasing order: all are tried."""

    counts: ClassVar[str] = "models of the folds"
    families: list[PenaltyFamily]
    alphas: list[Array]

    @property
    def asked(self) -> list[tuple[PenaltyFamily, float]]:
        """Every strength of every family."""
        pairs = zip(self.families, self.alphas, strict=True)
        return [(family, float(alpha)) for family, alphas in pairs for alpha in alphas]

    @classmethod
    def laid_out(cls, families: list[PenaltyFamily], whole: Fold, n_alphas: int, alpha_min_ratio: float) -> PenaltyGrid:
        """Return grids of strengths from the largest useful one down, on these rows."""
        largest = [family.alpha_max(family.posed(whole.problems, whole.names)) for family in families]
        return cls(families, [alpha_grid(top, n_alphas, alpha_min_ratio) for top in largest])

    def n_told(self, n_folds: int) -> int:
        """Return how many lines will be told."""
        return n_folds * len(self.asked)

    def told(self, found: list[Candidate], folds: Folds) -> str:
        """Return how much was scored, in words."""
        n_scored = sum(candidate.scored for candidate in found)
        return f"{n_scored} of {len(found)} strengths in {len(folds.folds)} folds" if found else ""

    def unscored(self, n_folds: int = 1) -> list[Candidate]:
        """Return the candidates without any score."""
        return [Candidate(*at, np.full((n_folds, 1), np.nan), np.nan, 0) for at in self.asked]

    def scored(self, folds: Folds) -> list[Candidate]:
        """Return every candidate. Folds are opened one at a time.

        Of a search that ends early, the folds count in which everything was tried, or if there are none those with
        most; what was not tried has no score.
        """
        scores: list[list[FoldScore]] = [[] for _ in folds.folds]
        constants = np.full((len(scores), 1), np.nan)
        folds.in_turn = folds.shared is None
        with folds.ending.noted():
            for number, score in self._tried(folds):
                scores[number].append(score)
                alpha = self.asked[len(scores[number]) - 1][1]
                folds.advance(f"alpha {alpha:.3g}  active {score.n_active:g}  score {score.scores[0]:.4g}")
                if len(scores[number]) == len(self.asked):
                    constants[number] = folds.folds[number].constant_by_loss()
        most = max(map(len, scores))
        kept = [number for number, own in enumerate(scores) if most and len(own) == most]
        folds.folds, folds.constants = [folds.folds[number] for number in kept], constants[kept]
        tried = [_candidate(*at, [scores[number][k] for number in kept]) for k, at in enumerate(self.asked[:most])]
        return [*tried, *self.unscored(len(kept))[most:]] if tried else []

    def _tried(self, folds: Folds) -> Iterator[tuple[int, FoldScore]]:
        """Yield the number of a fold with the score of its next candidate."""
        if folds.shared is not None:
            for family, alpha in self.asked:
                yield from enumerate(next(folds.tried(family, [alpha])))
            return
        for number, fold in enumerate(folds.folds):
            with blas_threads(len(fold.samples.kept), folds.workers):
                for family, alpha in self.asked:
                    yield number, fold.tried(family, alpha)
            fold.forget()
            fold.close(kernels=True)


@dataclass(frozen=True, eq=False)
class MixtureSearch:
    """Averages, and mixtures that select, which are tried as far as they can win."""

    counts: ClassVar[str] = "strengths tried in all folds"
    averages: list[Mixture]
    selections: list[Mixture]  # the sparsest first
    nothing: Mixture  # the empty model
    n_alphas: int
    alpha_min_ratio: float
    every: bool  # whether all are followed

    @property
    def families(self) -> list[Mixture]:
        """All mixtures."""
        return [*self.averages, *self.selections, self.nothing]

    def n_told(self, n_folds: int) -> None:
        """Return that nobody knows how many lines will be told."""

    def told(self, found: list[Candidate], folds: Folds) -> str:
        """Return how much was scored, in words."""
        return f"{len(found)} candidates that were scored in all folds" if found else ""

    def unscored(self, n_samples: int, n_targets: int) -> Candidate:
        """Return what is learned where there was no time: what a plain estimator takes by default."""
        mixture = (self.selections or self.averages)[0]
        return Candidate(mixture, default_fraction(n_samples), np.full((1, n_targets), np.nan), np.nan, 0)

    def scored(self, folds: Folds) -> list[Candidate]:
        """Return what was scored in all folds, the empty model first."""
        found: list[Candidate] = []
        with folds.ending.noted():
            for fold in [*folds.folds, *(folds.scouts.folds if folds.scouts else ())]:
                fold.opened  # noqa: B018  # before threads ask for it
            found = searched(
                folds, self.averages, self.selections, self.n_alphas, self.alpha_min_ratio, every=self.every
            )
        if found and (folds.ending.status is None or folds.folds[0].rows_held_out.scorer is None):
            found = [folds.nothing(self.nothing), *found]  # a scorer takes time
        return found


def _candidate(family: Family, strength: float, trials: Sequence[FoldScore], *, edge: bool = False) -> Candidate:
    """Return what all folds say of a strength."""
    return Candidate(
        family,
        strength,
        np.array([trial.scores for trial in trials]),
        float(np.mean([trial.n_active for trial in trials])),
        sum(not trial.finished for trial in trials),
        edge,
    )


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

    Unless ``every`` is true it is a race: what cannot win in folds of fewer rows, if there are any, is left out, and
    what can is followed around the strength that is best there. A mixture that selects is followed only where a few
    strengths in some folds show that it can still win, and mixtures between the sparsest and the averages only where
    the sparsest leads. A search that ends early has what was scored in every fold.
    """
    broad, narrow = Grid(AVERAGING_STEPS, AVERAGING_RATIO), Grid(n_alphas, ratio)
    numbers = [k * (n_alphas - 1) // (SCOUTED + 1) for k in range(1, SCOUTED + 1)]
    race = bool(averages) and not every
    if folds.scouts is not None and race:
        known = _after_scouts(folds, folds.scouts, averages, selections, (broad, narrow), numbers)
        return [candidate for path in known for candidate in _candidates(path)]
    paths: list[StrengthPath] = []
    for mixture in averages:
        paths.append(folds.follow(mixture, broad))
        if folds.ending.status is not None:
            break
    first = len(paths)
    for mixture in selections if folds.ending.status is None else ():
        leads = not race or len(paths) == first or _leads(paths[first], paths[:first])
        path = None
        if leads:
            path = folds.race(mixture, narrow, numbers, paths) if race else folds.follow(mixture, narrow)
        paths.extend([] if path is None else [path])
        if path is None or folds.ending.status is not None:
            break
    return [candidate for path in paths if path.trials for candidate in _candidates(path)]


def _after_scouts(
    folds: Folds,
    scouts: Folds,
    averages: Sequence[Mixture],
    selections: Sequence[Mixture],
    grids: tuple[Grid, Grid],
    numbers: Sequence[int],
) -> list[StrengthPath]:
    """Return the paths of what can win in folds of fewer rows, or those of these folds where time ends before."""
    scouted: list[StrengthPath] = []
    with folds.ending.noted():
        for mixture in averages:
            scouted.append(scouts.follow(mixture, grids[0]))
            if folds.ending.status is not None:
                break
        first = len(scouted)
        for mixture in selections if folds.ending.status is None else ():
            if len(scouted) > first and not _leads(scouted[first], scouted[:first]):
                break
            scouted.append(scouts.scout(mixture, grids[1], numbers, finer=COARSE))
            scouts.forget()
    scouted = [path for path in scouted if path.trials]
    for fold in scouts.folds:
        fold.close(kernels=True)
    paths: list[StrengthPath] = []
    best = _best_scores(scouted) if scouted else None
    for path in scouted:
        if folds.ending.status is None and best is not None and path.can_win(best):
            paths.append(folds.follow(path.mixture, path.grid, sorted(set(path.best().tolist()))))
    paths = [path for path in paths if path.trials]
    if scouted and not paths:
        folds.folds = scouts.folds
    return paths or scouted


def _leads(path: StrengthPath, rivals: Sequence[StrengthPath]) -> bool:
    """Whether the best of a path is ahead of the best of others in the mean over the folds, for any score."""
    own, other = (_best_scores(paths).mean(axis=0) for paths in ([path], rivals))
    return bool((own >= other).any())


def _best_scores(paths: Sequence[StrengthPath]) -> Array:
    """Return the scores of the folds at the best mean, (n_folds, T)."""
    scores = np.concatenate([path.scores() for path in paths])
    best = scores.mean(axis=1).argmax(axis=0)
    return np.array(scores[best, :, np.arange(scores.shape[2])]).T


def _candidates(path: StrengthPath) -> list[Candidate]:
    end = path.numbers[-1]
    at_end = end >= path.grid.last and bool((path.best() == end).any()) and not path.flat()
    return [
        _candidate(path.mixture, path.grid.fraction(number), path.trials[number], edge=at_end and number == end)
        for number in path.numbers
    ]
