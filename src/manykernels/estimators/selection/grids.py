"""Grids: the strengths of given penalties, all or as far down as the score of held-out rows does not fall."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from manykernels.estimators.selection.mixtures import PenaltyFamily, alpha_grid
from manykernels.estimators.selection.strengths import Grid, StrengthPath, TryAt
from manykernels.solvers.fold import Candidate
from manykernels.threads import blas_threads
from manykernels.validation.arrays import Array

if TYPE_CHECKING:
    from manykernels.estimators.selection.folds import HeldOut, OpenedKernels
    from manykernels.estimators.selection.search import Rung
    from manykernels.solvers.fold import Fold


@dataclass(frozen=True, eq=False)
class PenaltyGrid:
    """Families of penalties, with strengths in decreasing order, tried in full or along a walk."""

    counts: ClassVar[str] = "models of the folds"
    races: ClassVar[bool] = False  # families are not compared before their end
    families: list[PenaltyFamily]
    alphas: list[Array]
    walks: bool = False  # whether a family ends where the score has fallen; what was not tried then has no score

    @property
    def pairs(self) -> list[tuple[PenaltyFamily, float]]:
        """Every strength of every family."""
        pairs = zip(self.families, self.alphas, strict=True)
        return [(family, float(alpha)) for family, alphas in pairs for alpha in alphas]

    @classmethod
    def create(
        cls, families: list[PenaltyFamily], whole: OpenedKernels, n_alphas: int, alpha_min_ratio: float
    ) -> PenaltyGrid:
        """Return grids of strengths from the largest useful strength down, on the rows."""
        largest = [family.alpha_max(family.pose_problems(whole.problems, whole.names)) for family in families]
        if not all(largest):  # where there is nothing to gain, one strength is as good as any
            return cls(families, [np.ones(1)] * len(families))
        return cls(families, [alpha_grid(top, n_alphas, alpha_min_ratio) for top in largest])

    def n_told(self, n_folds: int) -> int | None:
        """Return how many lines will be told; of a walk nobody knows."""
        return None if self.walks else n_folds * len(self.pairs)

    def describe_count(self, found: list[Candidate], folds: Rung) -> str:
        """Return how much was scored, in words."""
        n_scored = sum(candidate.complete for candidate in found)
        return f"{n_scored} of {len(found)} strengths in {len(folds.folds)} folds" if found else ""

    def unscored(self, n_folds: int = 1) -> list[Candidate]:
        """Return the candidates without any score."""
        return [Candidate(*at, np.full((n_folds, 1), np.nan), np.nan, 0) for at in self.pairs]

    def score(self, folds: Rung) -> list[Candidate]:
        """Return every candidate. Folds are opened one at a time.

        After an early end, the complete folds count, or else the most complete ones; untried candidates have no score.
        """
        if self.walks:
            return self._walked(folds)
        scores: list[list[Candidate]] = [[] for _ in folds.folds]
        constants = np.full((len(scores), 1), np.nan)
        folds.in_turn = True
        with folds.ending.record():
            for number, score in self._try_candidates(folds):
                scores[number].append(score)
                alpha = self.pairs[len(scores[number]) - 1][1]
                folds.advance(f"alpha {alpha:.3g}  active {score.n_active:g}  score {score.scores[0, 0]:.4g}")
                if len(scores[number]) == len(self.pairs):
                    constants[number] = _constant_by_loss(folds.folds[number])
        most = max(map(len, scores))
        kept = [number for number, own in enumerate(scores) if most and len(own) == most]
        folds.folds, folds.constants = [folds.folds[number] for number in kept], constants[kept]
        tried = [Candidate.create([scores[number][k] for number in kept]) for k in range(most)]
        return [*tried, *self.unscored(len(kept))[most:]] if tried else []

    def _walked(self, folds: Rung) -> list[Candidate]:
        """Return every candidate after a walk down every family, with the scores of all folds.

        Folds are opened one at a time, at every call of the walk anew. After an early end without a strength tried in
        all folds, the first fold counts.
        """
        found, first, start = self.unscored(len(folds.folds)), self.unscored(), 0
        constants = np.full((len(folds.folds), 1), np.nan)
        folds.in_turn = True
        for family, alphas in zip(self.families, self.alphas, strict=True):
            path = StrengthPath(cast("Any", family), Grid(len(alphas), float(alphas[-1] / alphas[0]), extends=False))
            known: list[dict[int, Candidate]] = [{} for _ in folds.folds]
            with folds.ending.record():
                if folds.ending.status is None:
                    path.follow(self._try_at(folds, family, alphas, known, constants))
            for number, trials in path.trials.items():
                found[start + number] = Candidate.create(trials)
            for number, trial in known[0].items():
                first[start + number] = trial
            start += len(alphas)
        if not any(candidate.complete for candidate in found):
            found, folds.folds, constants = first, folds.folds[:1], constants[:1]
        folds.constants = constants
        return found if any(candidate.complete for candidate in found) else []

    def _try_at(
        self, folds: Rung, family: PenaltyFamily, alphas: Array, known: list[dict[int, Candidate]], constants: Array
    ) -> TryAt:
        """Return a function that tries strengths of a family by number in all folds, and records the results."""

        def try_at(numbers: Sequence[int]) -> Iterator[tuple[int, list[Candidate]]]:
            for k, (fold, own) in enumerate(zip(folds.folds, known, strict=True)):
                with blas_threads(len(fold.kernels.samples.kept), folds.workers):
                    for number in numbers:
                        own[number] = score = fold.try_strength(family, float(alphas[number]))
                        told = f"active {score.n_active:g}  score {score.scores[0, 0]:.4g}"
                        folds.advance(f"alpha {alphas[number]:.3g}  {told}")
                constants[k] = _constant_by_loss(fold)
                # Models on matrices are small; those of the choice predict the held-out rows in the end.
                kept = [] if fold.kernels.training.factored else [float(alphas[number]) for number in numbers]
                fold.forget(family, kept)
                fold.close()
            for number in numbers:
                yield number, [own[number] for own in known]

        return try_at

    def _try_candidates(self, folds: Rung) -> Iterator[tuple[int, Candidate]]:
        """Yield the number of a fold with the score of the next candidate."""
        for number, fold in enumerate(folds.folds):
            with blas_threads(len(fold.kernels.samples.kept), folds.workers):
                for family, alpha in self.pairs:
                    yield number, fold.try_strength(family, alpha)
            fold.forget()
            fold.close()


def _constant_by_loss(fold: Fold[OpenedKernels, HeldOut]) -> float:
    """Return the loss of the best constants; NaN with a custom scorer."""
    held = fold.held_out
    return float(fold.kernels.constant(held)[0]) if held.scorer is None else np.nan
