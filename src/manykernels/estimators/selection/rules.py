"""Which candidate is chosen from the scores of the folds, and whether it is a finding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.stats import t as student_t

from manykernels.estimators.selection.mixtures import EMPTY
from manykernels.estimators.strength import SIGNIFICANT, NoiseLevel, p_value
from manykernels.validation.arrays import Array

if TYPE_CHECKING:
    from manykernels.solvers.fold import FoldScore

# There are two ways to be a finding, each at half of the level: whatever they have to do with each other, noise takes
# one of them in 5 % of the searches at most. `benchmarks/noise.py --searches` counts.
EACH = 0.5 * SIGNIFICANT


@dataclass(frozen=True, eq=False)
class Candidate:
    """One candidate with what the folds say of it."""

    family: Any  # the mixture, or the family of penalties
    strength: float  # of a mixture the fraction of the strengths at which next to nothing is left; of a family alpha
    scores: Array  # (n_folds, T) float64
    n_active: float
    unfinished: int  # folds whose model was not solved to its tolerance
    edge: bool = False  # whether its path had to end there although the score was still rising

    @classmethod
    def of(cls, family: Any, strength: float, trials: Sequence[FoldScore], *, edge: bool = False) -> Candidate:
        """Return what all folds say of a strength."""
        scores, kernels = np.array([trial.scores for trial in trials]), np.mean([trial.n_active for trial in trials])
        return cls(family, strength, scores, float(kernels), sum(not trial.finished for trial in trials), edge)

    @property
    def scored(self) -> bool:
        """Whether it was tried in every fold."""
        return bool(np.isfinite(self.n_active))


def first_best(candidates: Sequence[Candidate]) -> int:
    """Return the position of the best mean score; of equals the first, which on one path is the strongest penalty."""
    return int(np.nanargmax([candidate.scores.mean() for candidate in candidates]))


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
    doubts = np.array([candidate.family.doubt for candidate in candidates])
    if rule == "best":
        return _or_nothing(_with_evidence(doubts, scores, means), doubts, scores, means, evidence)
    best = means.argmax(axis=0)
    errors = scores.std(axis=1, ddof=min(1, scores.shape[1] - 1)) / np.sqrt(scores.shape[1])
    simplicity = [(candidate.n_active, -candidate.strength) for candidate in candidates]
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

        Where the target is more strongly related to single kernels than 97.5 % of permuted targets are, to be ahead in
        the mean will do: a test has been passed, which is exact. Where it is not, the score must pass a t-test over the
        folds at 2.5 %, by which effects are found that no kernel has by itself. Either of two tests at half of a level
        is passed by noise no more often than that level says, as the chances of both add up at most (Bonferroni).
        Where nobody knows, since samples are not exchangeable, it must be ahead by a standard error.
        The error is corrected for the training rows that folds share: with ``K`` folds its square has
        ``1/K + n_test/n_train`` in place of ``1/K``.

        Source: C. Nadeau, Y. Bengio, "Inference for the generalization error", Machine Learning 52 (2003).
        """
        n_folds, unknown, related = len(scores), np.isnan(self.p_values), self.p_values <= EACH
        if n_folds == 1:  # which tells no error
            return ahead(scores, constants, 0.0) & (related | unknown)
        quantile = student_t.ppf(1.0 - EACH, n_folds - 1)
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
    """Return the means with half of their weight on the two neighbors along each path."""
    smooth = means.copy()
    owners = np.array([id(candidate.family) for candidate in candidates])
    for owner in dict.fromkeys(owners.tolist()):
        at = np.flatnonzero(owners == owner)
        before, after = (
            np.where(np.isfinite(near), near, means[at])
            for near in (means[np.r_[at[0], at[:-1]]], means[np.r_[at[1:], at[-1]]])
        )
        smooth[at] = 0.25 * before + 0.5 * means[at] + 0.25 * after
    return smooth


def results_of(candidates: Sequence[Candidate], told: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Return a row a candidate: what it is told by, its scores, and its mean number of kernels."""
    scores = np.array([candidate.scores.mean(axis=1) for candidate in candidates])
    frame = pd.DataFrame(list(told))
    frame["mean_score"], frame["std_score"] = scores.mean(axis=1), scores.std(axis=1)
    frame["n_active"] = [candidate.n_active for candidate in candidates]
    return frame.assign(**{f"score_{fold}": row for fold, row in enumerate(scores.T)})


def of_family(candidates: Sequence[Candidate], family: object) -> list[int]:
    """Return the positions of the candidates of a family."""
    return [index for index, candidate in enumerate(candidates) if candidate.family is family]
