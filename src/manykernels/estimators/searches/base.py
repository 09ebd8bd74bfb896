"""What estimators that search for their kernels share: from a table and targets to a fitted, certified model."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import ClassifierTags, RegressorTags, _safe_indexing
from sklearn.utils.metaestimators import available_if

from manykernels.discovery import Discovery
from manykernels.estimators.parameters import check_parameters
from manykernels.estimators.searches.found import kernel_norms, on_bank, union, unique_names
from manykernels.estimators.supervised.base import BaseMKL
from manykernels.estimators.supervised.prediction import KernelExpansion, class_probabilities
from manykernels.estimators.supervised.problems import Fit
from manykernels.estimators.supervised.targets import (
    check_lengths,
    class_labels,
    encode_labels,
    numeric_targets,
    sample_weights,
)
from manykernels.exceptions import InvalidInputError
from manykernels.kernels import KernelBank, Linear
from manykernels.objective.constants import strength_from_alpha
from manykernels.objective.losses import Loss, get_loss
from manykernels.solvers import Status
from manykernels.threads import blas_threads
from manykernels.validation.parameters import check_flag

Array = NDArray[Any]

CLASSIFICATION = ("logistic", "hinge", "squared_hinge")


def _classifies(estimator: BaseKernelSearch) -> bool:
    if estimator._task != "classification":
        raise AttributeError(
            f"This {type(estimator).__name__} has loss={estimator.loss!r} and learns numbers; for classes, set loss to "
            f"one of {', '.join(name for name in estimator.losses if name in CLASSIFICATION)}."
        )
    return True


def _gives_probabilities(estimator: BaseKernelSearch) -> bool:
    if estimator.loss != "logistic":
        raise AttributeError(f"predict_proba needs loss='logistic'; this estimator has loss={estimator.loss!r}.")
    return True


class BaseKernelSearch(BaseMKL):
    """Base of the estimators that find their kernels; not meant to be used by itself.

    The loss decides the task: a regressor for "squared", a classifier for the losses of classification. A concrete
    estimator has the parameters ``loss``, ``alpha``, ``standardize`` and ``fit_intercept``, names its ``losses``, and
    implements ``_search``.
    """

    losses: ClassVar[tuple[str, ...]] = ("squared", "logistic", "hinge")
    penalty_name: ClassVar[str]  # for reports
    tol_measure: ClassVar[str] = "relative duality gap"  # what tol asks for, for reports

    @abstractmethod
    def _search(
        self, points: Array, names: Sequence[str], target: Array, weight: Array, loss: Loss, strength: float
    ) -> Discovery:
        """Find the kernels of one target."""

    # Searches learn both tasks, so that what is fixed for the other estimators follows from the loss.
    @property
    def _task(self) -> str:  # type: ignore[override]
        return "classification" if self.loss in CLASSIFICATION else "regression"

    @property
    def _target_word(self) -> str:  # type: ignore[override]
        return "class" if self._task == "classification" else "output"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        if self._task == "classification":
            tags.estimator_type, tags.classifier_tags = "classifier", ClassifierTags()
        else:
            tags.estimator_type, tags.regressor_tags = "regressor", RegressorTags()
            tags.target_tags.multi_output = True
        return tags

    def _checked_loss(self) -> Loss:
        if not isinstance(self.loss, str) or self.loss not in self.losses:
            raise InvalidInputError(
                f"{type(self).__name__} has no loss {self.loss!r}. Its losses: {', '.join(self.losses)}."
            )
        check_parameters(self.get_params(deep=False))
        check_flag(self.standardize, "standardize")
        return get_loss(self.loss)

    # --- fitting ----------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Find the kernels, and learn their weights and the model.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)
            Training samples; numeric columns.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Labels of any type for the losses of classification, numbers for the others.
        sample_weight : array-like of shape (n_samples,), float or None, default=None
            Non-negative factors on the losses; a sample of weight zero counts as absent.

        Returns
        -------
        BaseKernelSearch
            This estimator, fitted.

        Raises
        ------
        InvalidInputError
            If data or parameters cannot be used; the message says which and why.

        Warns
        -----
        ConvergenceWarning
            If the duality gap over the family stays above ``tol``.
        UserWarning
            If no kernel is selected.
        """
        loss = self._checked_loss()
        if y is None:
            raise InvalidInputError(f"This {type(self).__name__} requires y to be passed, but the target y is None.")
        X = self._checked_rows(X, reset=True)
        targets, weight = self._checked_targets(y, sample_weight, len(X))
        kept = np.flatnonzero(weight)
        rows = X if len(kept) == len(weight) else _safe_indexing(X, kept)
        found = self._search_each(rows, targets[kept], weight[kept], loss)
        return self._keep_found(rows, found, kept)

    def _checked_targets(self, y: Any, sample_weight: Any, n_rows: int) -> tuple[Array, Array]:
        """Return the targets, one a column, (N, K), and the sample weights (N,)."""
        classifies = self._task == "classification"
        values = class_labels(y) if classifies else numeric_targets(y, advice="set loss='logistic'")
        self._n_samples = len(values)
        check_lengths(n_rows, len(values))
        weight = sample_weights(sample_weight, len(values))
        if not classifies:
            self._single = values.ndim == 1
            return values.reshape(len(values), -1), weight
        self.classes_, _, signs = encode_labels(values[weight > 0])
        self._single = len(self.classes_) == 2
        targets = np.zeros((len(values), signs.shape[1]))
        targets[weight > 0] = signs
        return targets, weight

    def _search_each(self, rows: Any, targets: Array, weight: Array, loss: Loss) -> list[Discovery]:
        table = KernelBank([("all", Linear())], standardize=self.standardize, normalize=None)
        bank, prepared = table.fit_prepare(rows)
        points = prepared.points(0)
        points.flags.writeable = False
        names = [f"x{j}" for j in range(bank.n_features_in_)]
        if hasattr(self, "feature_names_in_"):
            names = [str(name) for name in self.feature_names_in_]
        strength = strength_from_alpha(self.alpha, float(weight.sum()))
        found: list[Discovery] = []
        with blas_threads(len(points), None):
            for target in targets.T:
                # Only Ctrl-C does this, and targets without a model leave no estimator to return.
                if found and found[-1].solution.status is Status.INTERRUPTED:
                    raise KeyboardInterrupt
                found.append(self._search(points, names, target, weight, loss, strength))
        return found

    def _keep_found(self, rows: Any, found: list[Discovery], kept: Array) -> Self:
        """Join the kernels of all targets in one bank and keep the model."""
        kernels = union(found)
        named = zip(unique_names(kernels), kernels, strict=True)
        entries = [(name, kernel.spec, list(kernel.columns)) for name, kernel in named]
        # A bank holds at least one kernel, even for a constant model.
        entries = entries or [("linear", Linear(), list(range(self.n_features_in_)))]
        bank, prepared = KernelBank(entries, standardize=self.standardize, normalize=None).fit_prepare(rows)
        solutions = [on_bank(part, kernels, len(entries)) for part in found]
        weights = np.array([solution.kernel_weights for solution in solutions])
        coefficients = np.array([solution.dual_coef for solution in solutions])
        self._expansion = KernelExpansion.of(bank, prepared, weights, coefficients)
        norms = np.array([kernel_norms(bank, prepared, *pair) for pair in zip(weights, coefficients, strict=True)])
        self._keep(bank, Fit([], solutions, norms), kept)
        return self

    def _why_none(self, fit: Fit) -> str:
        return f"at alpha={self.alpha:g} the best constant is optimal within tol={self.tol:g}. Decrease alpha or tol."

    # --- predicting -------------------------------------------------------------------------------------------------

    @available_if(_classifies)
    def decision_function(self, X: Any) -> Array:
        """Return the score of each sample for each class; for the losses of classification.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            With two classes, one score, positive for the second.
        """
        scores = self._scores(X)
        return scores[:, 0] if self._single else scores

    def predict(self, X: Any) -> Array:
        """Return the predicted targets or the most likely classes.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_targets)
        """
        scores = self._scores(X)
        if self._task == "classification":
            return self.classes_[(scores[:, 0] > 0).astype(int) if self._single else scores.argmax(axis=1)]
        return scores[:, 0] if self._single else scores

    @available_if(_gives_probabilities)
    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class; for the logistic loss only.

        With more than two classes, the probabilities of each class against the rest, divided by their sum.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Rows sum to one.
        """
        return class_probabilities(self._scores(X), self._single)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy of a classifier, or the coefficient of determination of a regressor.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        sample_weight : array-like of shape (n_samples,) or None, default=None

        Returns
        -------
        float
        """
        metric = accuracy_score if self._task == "classification" else r2_score
        return float(metric(y, self.predict(X), sample_weight=sample_weight))

    def decompose(self, X: Any) -> Array:
        """Return what each kernel found adds to each prediction.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_kernels, n_samples) or (n_kernels, n_samples, n_outputs)
        """
        return self._contributions(X)

    def _target_labels(self) -> Array:
        return self.classes_ if self._task == "classification" else np.arange(len(self.kernel_weights_))
