"""Comparison of learned kernel weights with fixed weights, for the same learner."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.metrics import check_scoring
from sklearn.model_selection import BaseCrossValidator

from manykernels.alignment import aligned_weights, margin_weights
from manykernels.estimators import MKLClassifier, MKLRegressor, MKLSurvival
from manykernels.estimators.parameters import with_kernels_of
from manykernels.estimators.selection.choice import CrossValidated
from manykernels.estimators.selection.folds import HeldOut
from manykernels.estimators.selection.routing import fit_groups
from manykernels.estimators.selection.splits import splits_of
from manykernels.estimators.supervised.base import BaseMKL
from manykernels.estimators.supervised.samples import (
    Rows,
    Samples,
    check_alignment,
    check_lengths,
    check_rows,
    class_labels,
)
from manykernels.estimators.survival import martingale_residuals
from manykernels.exceptions import InvalidInputError, warn
from manykernels.grams import cross_combine
from manykernels.grams.training import Training, is_precomputed, open_training
from manykernels.inspection.evidence.importance import compute_corrected_t
from manykernels.kernels import KernelStack
from manykernels.objective.losses.survival import check_survival
from manykernels.solvers.solution import count_to
from manykernels.validation.arrays import Array, TableLike

# The same learner with kernel weights that are not learned: what is made of the kernels of one fold.


WEAK = "No kernel (was selected|predicts better than a constant)|The kernels are not more strongly related to y"
AVERAGE, ALIGNED, MARGIN, SINGLE = "average kernel", "centered alignment", "EasyMKL margin", "best single kernel"
INNER_FOLDS = 3
MOST_SINGLE = 10  # kernels that are tried alone, those most like the target


def _score_learned(
    model: BaseMKL, sides: tuple[Any, Any], targets: tuple[Array, Array], groups: Array | None, scoring: Any
) -> tuple[float, int, float]:
    """Return the score on the second side of a fit on the first, the number of kernels, and CPU seconds of the fit."""
    start = time.process_time()
    model.set_params(resources__verbose=0)
    model.fit(
        _restore_rows(sides[0]), targets[0], **(fit_groups(model, groups) if isinstance(model, CrossValidated) else {})
    )
    seconds, n_kernels = time.process_time() - start, int(np.atleast_2d(model.kernel_weights_).any(axis=0).sum())
    return check_scoring(model, scoring=scoring)(model, _restore_rows(sides[1]), targets[1]), n_kernels, seconds


@dataclass(frozen=True, eq=False)
class FixedWeights:
    """The estimator with kernel weights not learned, in a fold of the comparison."""

    estimator: BaseMKL  # not fitted
    samples: Samples
    training: Training
    held_out: HeldOut
    opened_s: float  # CPU seconds that the kernels took

    @classmethod
    def fit(cls, estimator: BaseMKL, samples: Samples, held_out: HeldOut) -> FixedWeights:
        """Fit the bank on the training rows alone and compute the kernels."""
        start = time.process_time()
        budget, n_jobs = estimator._resources.memory_budget, estimator._resources.n_jobs
        training = open_training(estimator.kernels, samples.rows, memory_budget=budget, n_jobs=n_jobs)
        return cls(estimator, samples, training, held_out, time.process_time() - start)

    @property
    def y(self) -> Array:
        """Targets of the training rows."""
        return self.samples.y

    def score_of(self, method: str) -> tuple[float, int, float]:
        """Return score on the test rows, number of kernels, and CPU seconds of a method with fixed weights."""
        start, training, held = time.process_time(), self.training, self.held_out
        with _silence_remarks(WEAK):
            theta = self.weights_of(method)
            model = self._fitted(self.gram(theta), slice(None))
            seconds = time.process_time() - start + self.opened_s
            new = training.bank.prepare(held.rows)
            cross = cross_combine(training.bank, new, training.prepared, self._scaled(theta))
            score = check_scoring(model, scoring=held.scorer)(model, cross[None], held.target)
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
        """Return the single kernel of fixed weights among the training rows.

        The kernels were checked in the precision that they came in, which the sum in float64 no longer shows.
        """
        return KernelStack(self.training.stack.combine(self._scaled(theta))[None], psd="clip")

    def _scaled(self, theta: Array) -> Array:
        """Return weights with unit norm in the norm of the penalty.

        With unit norm, the estimator on the combined kernel solves the original problem over the weights ``c theta``.
        """
        return theta / np.linalg.norm(theta, ord=_exponent(self.estimator))

    def _fitted(self, kernel: KernelStack, rows: Array | slice) -> BaseMKL:
        """Return the estimator fitted to a single kernel on some of the training rows."""
        model = clone(self.estimator).set_params(kernels="precomputed", kernel_penalties=None, resources__verbose=0)
        groups = self.samples.groups
        own = None if groups is None or not isinstance(model, CrossValidated) else groups[rows]
        return model.fit(kernel[rows], self.y[rows], **fit_groups(model, own))

    def _best_single(self) -> Array:
        """Return the weights of the best single kernel in folds of the training rows."""
        stack = self.training.stack
        likeness = aligned_weights(stack, self._ideal, "independent", target=self._coding).kernel_alignments
        chosen = np.argsort(-likeness, kind="stable")[:MOST_SINGLE]
        alone = np.eye(stack.n_kernels)
        if len(chosen) == 1:
            return alone[chosen[0]]
        with _silence_remarks("The (best strength|score was still rising)"):
            scores = [self._inner_score(self.gram(alone[m])) for m in chosen]
        return alone[chosen[int(np.argmax(scores))]]

    def _inner_score(self, kernel: KernelStack) -> float:
        """Return the score of a single kernel in folds, the folds of the estimator if available."""
        if isinstance(self.estimator, CrossValidated):
            return float(self._fitted(kernel, slice(None)).best_score_)
        scores = []
        shared, classifies = choose_strata(self.estimator, self.y)
        groups, events = self.samples.groups, not is_classifier(self.estimator)
        for train, test in splits_of(INNER_FOLDS, shared, groups, classifier=classifies, events=events):
            model = self._fitted(kernel, train)
            scores.append(check_scoring(model, scoring=self.held_out.scorer)(model, kernel[test], self.y[test]))
        return float(np.mean(scores))

    @property
    def _ideal(self) -> Array:
        """The ideal kernel: the target; for survival, early events relative to expectation."""
        return martingale_residuals(self.y) if isinstance(self.estimator, MKLSurvival) else self.y

    @property
    def _coding(self) -> str:
        """How the target becomes an ideal kernel: whole numbers are no labels to a regression."""
        return "signs" if is_classifier(self.estimator) else "numbers"


def choose_strata(estimator: BaseEstimator, target: Array) -> tuple[Array, bool]:
    """Return the stratification input of a splitter, and whether to stratify: by classes, or events of survival."""
    if isinstance(estimator, MKLSurvival):
        return target["event"], True
    return target, is_classifier(estimator)


def _exponent(estimator: BaseEstimator) -> float:
    """Return p of the norm of kernel weights in the penalty of an estimator."""
    penalty = estimator.penalty
    if isinstance(penalty, Mapping):
        return 1.0
    owner = estimator if isinstance(penalty, str) else penalty
    name = penalty if isinstance(penalty, str) else owner.name
    if name == "lp_ball":
        return float(owner.p)
    if name == "lq" and owner.q < 2:
        return float(owner.q / (2.0 - owner.q))
    return np.inf if name in ("ridge", "lq") else 1.0


@contextmanager
def _silence_remarks(start: str) -> Iterator[None]:
    """Silence warnings about weak kernels; the score shows the weakness."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=start)
        yield


LEARNED = "learned weights"


def compare(
    estimator: BaseMKL,
    X: TableLike,
    y: ArrayLike,
    *,
    cv: int | BaseCrossValidator | Iterable[tuple[Array, Array]] | None = 5,
    scoring: str | Callable[..., float] | None = None,
    groups: ArrayLike | None = None,
    verbose: int = 0,
) -> pd.DataFrame:
    r"""Compare learned kernel weights with fixed weights, over the same folds.

    In every fold, the kernels (widths, normalization) and all weights come from the training rows alone. Beside the
    estimator itself stand

    - the *average kernel*: all weights are equal;
    - *centered alignment*: the weights of the combination most aligned with the target (:func:`aligned_weights`);
    - the *EasyMKL margin*: weights by the margin between the classes (:func:`~manykernels.alignment.margin_weights`),
      for classifiers only;
    - the *best single kernel*, chosen in folds of the training rows from the ten most aligned kernels.

    For survival, the alignment target is the observed minus expected events of every sample.

    The learner is the same: the estimator on the single kernel :math:`\sum_m \theta_m K_m`, with the loss, penalty and
    strength of the estimator. A CV estimator chooses the strength per method.

    Parameters
    ----------
    estimator : MKLClassifier, MKLRegressor, MKLSurvival or their CV variants
        Not changed.
    X : DataFrame, Views, array-like of shape (n_samples, n_features), or precomputed kernels
        Samples.
    y : array-like of shape (n_samples,) or (n_samples, n_targets)
        Labels, numbers, or events and times.
    cv : int, splitter or iterable, default=5
        Folds.
    scoring : str, callable or None, default=None
        Scorer of scikit-learn; None is the score of the estimator (accuracy, R2, concordance).
    groups : array-like of shape (n_samples,) or None, default=None
        Given to the splitter, to the folds of a CV estimator, and to the folds for the choice of the single kernel; a
        number of folds keeps groups whole.
    verbose : int, default=0
        1 shows a bar.

    Returns
    -------
    DataFrame
        A row per method, the learned weights first: ``method``, ``score`` (mean over the folds), ``standard_error``,
        ``difference`` (from the score of the learned weights; positive values favor fixed weights), ``p_value``
        (two-sided, hypothesis of no difference; NaN for a single fold or if all folds agree to the last digit),
        ``cpu_seconds`` (of a fold: kernels, weights and model) and ``n_kernels`` (mean number with a weight).

    Raises
    ------
    InvalidInputError
        For estimators without a fixed list of kernels, or unusable data.

    Warns
    -----
    UserWarning
        If a method is not defined in a fold, for example alignment where no kernel has anything in common with the
        target; the score is NaN then.

    Notes
    -----
    For homogeneous penalties the learner at fixed weights is the problem of the estimator, with the kernel weights held
    on the ray :math:`c\,\theta, c \ge 0`: of the block 1-norm and the simplex if :math:`\theta` sums to 1, of the block
    q-norm if :math:`\|\theta\|_{q/(2-q)} = 1` (ridge: the largest is one), of the lp ball if :math:`\|\theta\|_p = 1`.
    The weights are scaled accordingly; for other penalties the sum is one. With a strength relative to the empty model
    (``alpha="auto"``), the scale plays no part. ``kernel_penalties`` count for the learned weights only.

    The p-value is from the t-test corrected for folds with shared training rows, :math:`t = \bar\delta / \sqrt{(1/k +
    n_\text{test} / n_\text{train})\, s^2}` with ``k - 1`` degrees of freedom.

    References
    ----------
    C. Nadeau, Y. Bengio, "Inference for the generalization error", Machine Learning 52 (2003); C. Cortes, M. Mohri,
    A. Rostamizadeh, "Algorithms for learning kernels based on centered alignment", JMLR 13 (2012); F. Aiolli,
    M. Donini, "EasyMKL: a scalable multiple kernel learning algorithm", Neurocomputing 169 (2015).

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import MKLRegressor, compare
    >>> X = np.random.default_rng(0).uniform(-2, 2, (60, 2))
    >>> table = compare(MKLRegressor(), X, np.sin(2 * X[:, 1]), cv=2)
    >>> table["method"].tolist()
    ['learned weights', 'average kernel', 'centered alignment', 'best single kernel']
    >>> bool(table["difference"][1] < 0)
    True
    """
    rows, target, given = _check_data(estimator, X, y, groups)
    estimator = with_kernels_of(estimator, rows)
    shared, equal = choose_strata(estimator, target)
    splits = splits_of(cv, shared, given, classifier=equal, events=not is_classifier(estimator))
    if not splits:
        raise InvalidInputError(f"The folds {cv!r} are none: nothing can be scored.")
    methods = [LEARNED, AVERAGE, ALIGNED, *([MARGIN] if is_classifier(estimator) else []), SINGLE]
    found = np.full((len(methods), len(splits), 3), np.nan)
    scorer = None if scoring is None else check_scoring(estimator, scoring=scoring)
    with count_to(len(methods) * len(splits), "models", verbose) as advance:
        for k, (train, test) in enumerate(splits):
            sides, targets = (rows[train], rows[test]), (target[train], target[test])
            own = None if given is None else given[train]
            found[0, k] = _score_learned(clone(estimator), sides, targets, own, scoring)
            advance("")
            samples = replace(Samples.create(sides[0], targets[0], np.ones(len(train))), groups=own)
            fixed = FixedWeights.fit(estimator, samples, HeldOut(sides[1], targets[1], None, scorer))
            for row, method in enumerate(methods[1:], 1):
                try:
                    found[row, k] = fixed.score_of(method)
                except InvalidInputError as error:  # the method is not defined here
                    warn(f"{method} failed in fold {k}: {error}")
                advance("")
    return _table(methods, found, splits)


def _check_data(
    estimator: BaseEstimator, X: TableLike, y: ArrayLike, groups: ArrayLike | None
) -> tuple[Rows, Array, Array | None]:
    """Return rows, targets and groups of equal length."""
    if not isinstance(estimator, (MKLClassifier, MKLRegressor, MKLSurvival)):
        raise InvalidInputError(
            "compare needs an MKLClassifier, an MKLRegressor, an MKLSurvival or a CV variant of them, got "
            f"{type(estimator).__name__}: only these have a list of kernels that other weights can be given to."
        )
    rows = check_rows(clone(estimator), X, precomputed=is_precomputed(estimator.kernels), reset=True)
    check_alignment(rows, y)
    target = check_survival(y) if isinstance(estimator, MKLSurvival) else np.asarray(y)
    target = class_labels(y) if is_classifier(estimator) else target
    given = None if groups is None else np.asarray(groups)
    check_lengths(len(rows), len(target))
    if given is not None and len(given) != len(rows):
        raise InvalidInputError(f"groups has {len(given)} entries for {len(rows)} samples.")
    return rows, target, given


def _restore_rows(rows: Rows) -> Any:
    """Return rows in the original form, for custom scorers."""
    return getattr(rows, "original", rows)


def _table(methods: list[str], found: Array, splits: list[tuple[Array, Array]]) -> pd.DataFrame:
    scores, k = found[:, :, 0], len(splits)
    differences = scores - scores[0]
    p_values = 2.0 * stats.t.sf(np.abs(compute_corrected_t(differences, splits)), max(k - 1, 1))
    errors = scores.std(axis=1, ddof=1) / np.sqrt(k) if k > 1 else np.full(len(methods), np.nan)
    table = pd.DataFrame({"method": methods, "score": scores.mean(axis=1), "standard_error": errors})
    table = table.assign(difference=differences.mean(axis=1), p_value=p_values)
    return table.assign(cpu_seconds=found[:, :, 2].mean(axis=1), n_kernels=found[:, :, 1].mean(axis=1))
