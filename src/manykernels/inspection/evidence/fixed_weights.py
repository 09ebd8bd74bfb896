"""The same learner with kernel weights that are not learned: what is made of the kernels of one fold."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.metrics import check_scoring
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold, check_cv

from manykernels.alignment import aligned_weights, margin_weights
from manykernels.estimators import MKLSurvival
from manykernels.estimators.selection.choice import CrossValidated
from manykernels.estimators.supervised.base import BaseMKL
from manykernels.estimators.supervised.samples import Rows
from manykernels.estimators.supervised.training import Training, open_training
from manykernels.estimators.survival.baseline import martingale_residuals
from manykernels.grams import cross_combine
from manykernels.kernels import KernelStack, PreparedRows
from manykernels.validation.arrays import Array

AVERAGE, ALIGNED, MARGIN, SINGLE = "average kernel", "centered alignment", "EasyMKL margin", "best single kernel"
INNER_FOLDS = 3
MOST_SINGLE = 10  # kernels that are tried alone, those most like the target


@dataclass(frozen=True, eq=False)
class FoldKernels:
    """The kernels of the training rows of one fold, with normalization and widths of their own, and its test rows.

    Attributes
    ----------
    training : Training
    test : PreparedRows
    estimator : BaseMKL
        Not fitted.
    y, y_test : ndarray
    groups : ndarray or None
        Of the training rows.
    scoring : str, callable or None
    opened_s : float
        CPU seconds that the kernels took.
    """

    training: Training
    test: PreparedRows
    estimator: BaseMKL
    y: Array
    y_test: Array
    groups: Array | None
    scoring: Any
    opened_s: float

    @classmethod
    def of(
        cls, estimator: BaseMKL, rows: tuple[Rows, Rows], targets: tuple[Array, Array], groups: Any, scoring: Any
    ) -> FoldKernels:
        """Fit the bank on the training rows alone and compute its kernels."""
        start = time.process_time()
        training = open_training(
            estimator.kernels, rows[0], memory_budget=estimator.memory_budget, n_jobs=estimator.n_jobs, n_targets=1
        )
        opened_s = time.process_time() - start
        return cls(training, training.bank.prepare(rows[1]), estimator, *targets, groups, scoring, opened_s)

    def score_of(self, method: str) -> tuple[float, int, float]:
        """Return score on the test rows, number of kernels, and CPU seconds of a method that fixes the weights."""
        start = time.process_time()
        with _without_remarks("No kernel was selected"):
            theta = self.weights_of(method)
            model = self._fitted(self.gram(theta), slice(None))
            seconds = time.process_time() - start + self.opened_s
            cross = cross_combine(self.training.bank, self.test, self.training.prepared, self._scaled(theta))
            score = check_scoring(model, scoring=self.scoring)(model, cross[None], self.y_test)
        return float(score), int(np.count_nonzero(theta)), seconds

    def weights_of(self, method: str) -> Array:
        """Return the kernel weights of a method, from the training rows alone."""
        stack = self.training.stack
        if method == AVERAGE:
            return np.ones(stack.n_kernels)
        if method == ALIGNED:
            return aligned_weights(stack, self._ideal, target=self._coding).weights
        if method == MARGIN:
            return margin_weights(stack, self.y).weights
        return self._best_single()

    def gram(self, theta: Array) -> KernelStack:
        """Return the one kernel of fixed weights among the training rows."""
        return KernelStack(self.training.stack.combine(self._scaled(theta))[None])

    def _scaled(self, theta: Array) -> Array:
        """Return weights of norm one in the norm in which the penalty measures kernel weights.

        With them, the estimator on the one combined kernel solves its own problem among the weights ``c theta``.
        """
        return theta / np.linalg.norm(theta, ord=_exponent(self.estimator))

    def _fitted(self, kernel: KernelStack, rows: Any) -> Any:
        """Return the estimator fitted to one kernel on some of the training rows."""
        model = clone(self.estimator).set_params(kernels="precomputed", kernel_penalties=None, verbose=0)
        own = {} if self.groups is None or not isinstance(model, CrossValidated) else {"groups": self.groups[rows]}
        return model.fit(kernel[rows], self.y[rows], **own)

    def _best_single(self) -> Array:
        """Return the weights of the kernel that does best alone in folds of the training rows."""
        stack = self.training.stack
        likeness = aligned_weights(stack, self._ideal, "independent", target=self._coding).kernel_alignments
        chosen = np.argsort(-likeness, kind="stable")[:MOST_SINGLE]
        alone = np.eye(stack.n_kernels)
        if len(chosen) == 1:
            return alone[chosen[0]]
        with _without_remarks("The (best strength|score was still rising)"):
            scores = [self._inner_score(self.gram(alone[m])) for m in chosen]
        return alone[chosen[int(np.argmax(scores))]]

    def _inner_score(self, kernel: KernelStack) -> float:
        """Return the score of one kernel in folds: those of the estimator, if it has some."""
        if isinstance(self.estimator, CrossValidated):
            return float(self._fitted(kernel, slice(None)).best_score_)
        scores = []
        for train, test in self._inner_splits():
            model = self._fitted(kernel, train)
            scores.append(check_scoring(model, scoring=self.scoring)(model, kernel[test], self.y[test]))
        return float(np.mean(scores))

    def _inner_splits(self) -> list[tuple[Array, Array]]:
        shared, classifies = in_equal_shares(self.estimator, self.y)
        cv: Any = INNER_FOLDS
        if self.groups is not None:
            cv = StratifiedGroupKFold(INNER_FOLDS) if classifies else GroupKFold(INNER_FOLDS)
        return list(check_cv(cv, shared, classifier=classifies).split(shared, shared, self.groups))

    @property
    def _ideal(self) -> Array:
        """What a kernel should be like: the target, of survival who had the event earlier than expected."""
        return martingale_residuals(self.y) if isinstance(self.estimator, MKLSurvival) else self.y

    @property
    def _coding(self) -> str:
        """How the target becomes an ideal kernel: whole numbers are no labels to a regression."""
        return "signs" if is_classifier(self.estimator) else "numbers"


def in_equal_shares(estimator: Any, target: Array) -> tuple[Array, bool]:
    """Return what a splitter looks at, and whether folds get equal shares of it: classes, and events of survival."""
    if isinstance(estimator, MKLSurvival):
        return target["event"], True
    return target, is_classifier(estimator)


def _exponent(estimator: Any) -> float:
    """Return p of the norm of kernel weights in which the penalty of an estimator measures them."""
    named = isinstance(estimator.penalty, str)
    owner = estimator if named else estimator.penalty
    name = estimator.penalty if named else owner.name
    if name == "lp_ball":
        return float(owner.p)
    if name == "lq" and owner.q < 2:
        return float(owner.q / (2.0 - owner.q))
    return np.inf if name in ("ridge", "lq") else 1.0


@contextmanager
def _without_remarks(start: str) -> Iterator[None]:
    """Keep quiet about weak kernels: that one says nothing is what its score tells."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=start)
        yield
