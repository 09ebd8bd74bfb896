"""How the estimators with built-in cross-validation choose the strength of the penalty."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing

from manykernels.estimators.parameters import shape_of
from manykernels.estimators.selection.folds import Candidates, FoldScores, Walk, given_alphas
from manykernels.estimators.selection.penalties import PenaltyFamily
from manykernels.estimators.supervised.targets import check_lengths, sample_weights
from manykernels.exceptions import ConvergenceWarning, InvalidInputError
from manykernels.objective.regularizers import REGULARIZERS, Regularizer
from manykernels.solvers.progress import count_to

Array = NDArray[Any]

OWN_PARAMETERS = {"alphas", "n_alphas", "ratio", "l1_ratios", "mus", "cv", "scoring"}


class CrossValidated:
    """Choice of the strength; what comes after it is the plain estimator."""

    _walking: Any
    _default_scoring: str

    @property
    def alpha(self: Any) -> float:
        """The chosen strength, under the name that the plain estimator knows."""
        return self.alpha_

    def fit(self: Any, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Any:
        """Choose the strength, then learn the model on all samples.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features), or precomputed kernels
            Training samples.
        y : array-like of shape (n_samples,)
            Labels or targets; a regressor also takes several columns of targets.
        sample_weight : array-like of shape (n_samples,), float or None, default=None
            Non-negative factors on the losses, also given to the scorer.
        groups : array-like of shape (n_samples,) or None, default=None
            Given to the splitter.

        Returns
        -------
        MKLRegressorCV or MKLClassifierCV
            This estimator, fitted.

        Raises
        ------
        InvalidInputError
            If data or parameters cannot be used; the message says which and why.

        Warns
        -----
        ConvergenceWarning
            If a duality gap stays above ``tol``.
        UserWarning
            If the best strength is the first or the last of the grid.

        Notes
        -----
        Ctrl-C among the folds raises KeyboardInterrupt, since half a choice is none; in the last fit it keeps the best
        model so far, with a warning.
        """
        self._checked_loss()
        if y is None:
            raise InvalidInputError(f"This {type(self).__name__} requires y to be passed, but the target y is None.")
        rows = self._checked_rows(X, reset=True)
        targets = self._checked_targets(y)
        check_lengths(len(rows), len(targets))
        weight = None if sample_weight is None else sample_weights(sample_weight, len(targets))
        found = self._lay_out(rows, targets, weight)
        self._choose(found, self._score_folds(rows, targets, weight, groups, found))
        super().fit(X, y, sample_weight)  # type: ignore[misc]  # of the estimator that this is mixed into
        self._warn_at_edge(found)
        return self

    def cv_frame(self: Any) -> pd.DataFrame:
        """Return a row for each candidate, in the order tried.

        Returns
        -------
        DataFrame
            ``alpha``, ``l1_ratio`` and ``mu`` where they were tried, ``mean_score``, ``std_score``, ``n_active`` (mean
            over the folds) and a column of scores a fold.
        """
        return self.cv_results_.copy()

    def _families(self: Any) -> list[PenaltyFamily]:
        if self.mus is not None:
            return [PenaltyFamily(self.penalty, {}, float(mu)) for mu in np.ravel(self.mus)]
        if self.penalty == "elasticnet":
            return [PenaltyFamily("elasticnet", {"l1_ratio": float(ratio)}) for ratio in np.ravel(self.l1_ratios)]
        if isinstance(self.penalty, Regularizer):
            return [PenaltyFamily(self.penalty, {})]
        own = {name: getattr(self, name) for name in shape_of(REGULARIZERS[self.penalty])}
        return [PenaltyFamily(self.penalty, own)]

    def _walker(self: Any, walk: Walk) -> Any:
        given = {name: value for name, value in self.get_params(deep=False).items() if name not in OWN_PARAMETERS}
        walker = self._walking(**given)
        walker._walk = walk
        return walker

    def _lay_out(self: Any, X: Any, y: Array, weight: Array | None) -> Candidates:
        families = self._families()
        if self.alphas is not None:
            return Candidates(families, given_alphas(self.alphas, len(families)))
        walk = Walk(families, (self.n_alphas, self.ratio))
        return self._walker(walk).fit(X, y, weight)._candidates

    def _score_folds(
        self: Any, X: Any, y: Array, weight: Array | None, groups: Any, found: Candidates
    ) -> list[FoldScores]:
        scoring = self._default_scoring if self.scoring is None else self.scoring
        scorer = check_scoring(self, scoring=scoring)
        scoring_weight = self._scoring_weight(y, weight)
        splits = list(self._splits(X, y, groups))
        folds = []
        with count_to(len(splits) * len(found), "models of the folds", self.verbose) as advance:
            for train, test in splits:
                fold = FoldScores(scorer, _safe_indexing(X, test), y[test], _part(scoring_weight, test), advance)
                walk = Walk(found.families, found.alphas, fold.visit)
                self._walker(walk).fit(_safe_indexing(X, train), y[train], _part(weight, train))
                folds.append(fold)
        return folds

    def _scoring_weight(self: Any, y: Array, weight: Array | None) -> Array | None:
        """Return the weights of held-out samples in the score."""
        return weight

    def _splits(self: Any, X: Any, y: Array, groups: Any) -> Iterator[tuple[Array, Array]]:
        splitter = check_cv(self.cv, y, classifier=self._task == "classification")
        return splitter.split(np.zeros(len(y)), y, groups)

    def _choose(self: Any, found: Candidates, folds: list[FoldScores]) -> None:
        scores = np.array([fold.scores for fold in folds])
        means = scores.mean(axis=0)
        if not np.isfinite(means).any():
            raise InvalidInputError("No candidate has a finite mean score over the folds; check scoring and cv.")
        # Of equal scores the first is taken: of one path, the strongest penalty.
        self.best_index_ = int(np.nanargmax(means))
        self.best_score_ = float(means[self.best_index_])
        self.alphas_ = found.alphas[0] if len(found.alphas) == 1 else np.array(found.alphas)
        self.n_folds_ = len(folds)
        ends = np.cumsum([len(grid) for grid in found.alphas])
        path = int(np.searchsorted(ends, self.best_index_, side="right"))
        family = found.families[path]
        self.alpha_ = float(np.concatenate(found.alphas)[self.best_index_])
        self.l1_ratio_, self.mu_ = family.parameters.get("l1_ratio"), family.mu
        self._family, self._position = family, (path, self.best_index_ - int(ends[path] - len(found.alphas[path])))
        self.cv_results_ = _results(found, scores, np.mean([fold.n_active for fold in folds], axis=0))
        unfinished = sum(fold.unfinished for fold in folds)
        if unfinished:
            warnings.warn(
                f"{unfinished} of {scores.size} models of the folds stopped short of tol={self.tol:g}: raise max_iter, "
                "loosen tol, or leave out the smallest strengths.",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _checked_penalty(self: Any, total_weight: float) -> Regularizer:
        return self._family.at(self.alpha_, total_weight)

    def _warn_at_edge(self: Any, found: Candidates) -> None:
        path, position = self._position
        grid = found.alphas[path]
        if len(grid) > 1 and position in (0, len(grid) - 1):
            side, advice = ("largest", "larger") if position == 0 else ("smallest", "smaller")
            empty = position == 0 and self.alphas is None
            more = (
                "At that strength no kernel is selected: the kernels do not help to predict y."
                if empty
                else f"The best one may lie beyond it: extend the grid to {advice} values."
            )
            warnings.warn(
                f"The best strength, alpha={self.alpha_:.4g}, is the {side} of the grid. {more}",
                UserWarning,
                stacklevel=3,
            )


def _part(weight: Array | None, rows: Array) -> Array | None:
    return None if weight is None else weight[rows]


def _results(found: Candidates, scores: Array, n_active: Array) -> pd.DataFrame:
    columns: dict[str, Any] = {"alpha": np.concatenate(found.alphas)}
    sizes = [len(grid) for grid in found.alphas]
    if "l1_ratio" in found.families[0].parameters:
        columns["l1_ratio"] = np.repeat([family.parameters["l1_ratio"] for family in found.families], sizes)
    if found.families[0].mu is not None:
        columns["mu"] = np.repeat([family.mu for family in found.families], sizes)
    columns |= {"mean_score": scores.mean(axis=0), "std_score": scores.std(axis=0), "n_active": n_active}
    return pd.DataFrame(columns | {f"score_{fold}": row for fold, row in enumerate(scores)})
