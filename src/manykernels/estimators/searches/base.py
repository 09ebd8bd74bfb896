"""Shared parts of estimators with learned kernels: from a table and targets to a fitted, certified model."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from inspect import signature
from itertools import chain, count
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import ClassifierTags, RegressorTags
from sklearn.utils.metaestimators import available_if

from manykernels.discovery import Discovery, Found, SearchProblem
from manykernels.estimators.parameters import check_parameters
from manykernels.estimators.strength import alpha_from_strength, strength_from_alpha
from manykernels.estimators.supervised.base import BaseMKL
from manykernels.estimators.supervised.problems import Fit
from manykernels.estimators.supervised.samples import (
    Rows,
    Samples,
    class_labels,
    encode_labels,
    likeliest,
    numeric_targets,
)
from manykernels.exceptions import InvalidInputError
from manykernels.grams.expansion import Expansion, class_probabilities
from manykernels.kernels import ArdGaussian, FittedBank, KernelBank, Linear, PreparedRows
from manykernels.kernels.bank.table_kernels import TablePoints
from manykernels.objective.losses import Loss, get_loss
from manykernels.solvers import Solution, Status
from manykernels.solvers.run import interrupted
from manykernels.threads import blas_threads
from manykernels.validation.arrays import Array, TableLike
from manykernels.validation.parameters import LOSS_NAMES, check_flag, hint

# From the kernels found for each target to one bank and its weights.


def union(found: Sequence[Discovery]) -> list[Found]:
    """Return the kernels of all targets without repetition."""
    return list(dict.fromkeys(kernel for part in found for kernel in part.kernels))


def unique_names(kernels: Sequence[Found]) -> list[str]:
    """Return unique names, with a number after names taken by kernels of other targets."""
    names: dict[str, None] = {}
    for kernel in kernels:
        # A column may be called as a numbered name is.
        numbered = (f"{kernel.name} ({number})" for number in count(2))
        names[next(name for name in chain([kernel.name], numbered) if name not in names)] = None
    return list(names)


def label_widths(part: Discovery, names: Sequence[str]) -> Discovery:
    """Return the kernels of many widths named by the smallest widths, of the most relevant columns."""
    kernels = tuple(
        replace(kernel, name=_widths_text(kernel.spec, names)) if isinstance(kernel.spec, ArdGaussian) else kernel
        for kernel in part.kernels
    )
    return replace(part, kernels=kernels)


def _widths_text(spec: ArdGaussian, names: Sequence[str]) -> str:
    most_widths = 3  # in the name of a kernel
    if len(spec.widths) <= most_widths:
        return spec.label
    shown = np.argsort(spec.widths, kind="stable")[:most_widths]
    widths = ", ".join(f"{names[j]}={spec.widths[j]:.3g}" for j in shown)
    return f"{spec.kind}({widths}, {len(spec.widths) - most_widths} more)"


def map_to_bank(part: Discovery, kernels: Sequence[Found], n_kernels: int) -> Solution:
    """Return the solution of a single target on the kernels of all; weights of a kernel found twice add up."""
    place = {kernel: m for m, kernel in enumerate(kernels)}
    weights = np.zeros(n_kernels)
    np.add.at(weights, [place[kernel] for kernel in part.kernels], part.solution.kernel_weights)
    return replace(part.solution, kernel_weights=weights)


def kernel_norms(bank: FittedBank, prepared: PreparedRows[TablePoints], weights: Array, rho: Array) -> Array:
    """Return ``||f_m|| = d_m sqrt(rho'K_m rho)``, (M,)."""
    norms = np.zeros(len(weights))
    for m in np.flatnonzero(weights):
        gram = bank.block(prepared, prepared, kernels=[m])[0]
        norms[m] = weights[m] * np.sqrt(max(float(rho @ gram @ rho), 0.0))
    return norms


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
    _uses: ClassVar[Mapping[str, tuple[str, ...]]] = {"resources": ("max_iter", "time_limit", "verbose")}
    penalty_name: ClassVar[str]  # for reports
    _finds_kernels: ClassVar[bool] = True
    _leaves_kernels_free: ClassVar[bool] = False  # they have p and l1_ratio in place of a penalty
    tol_measure: ClassVar[str] = "relative duality gap"  # what tol asks for, for reports

    @abstractmethod
    def _search(self, problem: SearchProblem) -> Discovery:
        """Find the kernels of a single target."""

    def _shared_parameters(self, search: Callable[..., Any]) -> dict[str, Any]:
        """Return the parameters shared by the estimator and a function of the search."""
        names = signature(search).parameters.keys()
        return {name: value for name, value in self.get_params(deep=False).items() if name in names}

    # Searches learn both tasks, so that what is fixed for the other estimators follows from the loss.
    @property
    def _task(self) -> str:  # type: ignore[override]  # a constant of the other estimators
        return "classification" if self.loss in CLASSIFICATION else "regression"

    @property
    def _target_word(self) -> str:  # type: ignore[override]  # likewise
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

    def _check_loss(self) -> Loss:
        if not isinstance(self.loss, str) or self.loss not in self.losses:
            known = f"Its losses: {', '.join(self.losses)}.{hint(self.loss, self.losses, LOSS_NAMES)}"
            raise InvalidInputError(f"{type(self).__name__} has no loss {self.loss!r}. {known}")
        check_parameters(self._all_parameters())
        check_flag(self.standardize, "standardize")
        return get_loss(self.loss)

    # --- fitting ----------------------------------------------------------------------------------------------------

    def _check_target(self, y: ArrayLike) -> Array:
        classifies = self._task == "classification"
        return class_labels(y) if classifies else numeric_targets(y, advice="set loss='logistic'")

    def _encoded(self, samples: Samples) -> Samples:
        if self._task != "classification":
            self._single = samples.y.ndim == 1
            return samples.with_targets(samples.y.reshape(len(samples.y), -1))
        self.classes_, _, signs = encode_labels(samples.y)
        self._single = len(self.classes_) == 2
        return samples.with_targets(signs)

    def _learn(self, samples: Samples, loss: Loss) -> Fit:
        self._loss = loss
        return self._keep_found(samples, self._search_each(samples.rows, samples.y, samples.weight, loss))

    def _search_each(self, rows: Rows, targets: Array, weight: Array, loss: Loss) -> list[Discovery]:
        table = KernelBank([("all", Linear())], standardize=self.standardize, normalize=None)
        points = table.fit_prepare(rows)[1].points(0)
        points.flags.writeable = False
        given = {"fit_intercept": self.fit_intercept, "names": getattr(self, "feature_names_in_", None)}
        posed = [SearchProblem(points, target, loss, sample_weight=weight, **given) for target in targets.T]
        total = float(weight.sum())
        problems = [replace(problem, strength=self._strength(problem, total)) for problem in posed]
        alphas = np.array([alpha_from_strength(problem.strength, total) for problem in problems])
        self.alpha_ = float(alphas[0]) if self._single else alphas
        found: list[Discovery] = []
        with blas_threads(len(points), None):
            for problem in problems:
                # Ctrl-C is meant for all that would follow: models without kernels, each with its gap.
                pressed = bool(found) and found[-1].solution.status is Status.INTERRUPTED
                with interrupted() if pressed else nullcontext():
                    found.append(self._search(problem))
        return found

    def _strength(self, problem: SearchProblem, total_weight: float) -> float:
        """Return the strength for a single target; searches with text strengths override the method."""
        return strength_from_alpha(self.alpha, total_weight)

    def _keep_found(self, samples: Samples, found: list[Discovery]) -> Fit:
        """Join the kernels of all targets in a single bank and keep the model."""
        kernels = union(found)
        named = zip(unique_names(kernels), kernels, strict=True)
        entries = [(name, kernel.spec, list(kernel.columns)) for name, kernel in named]
        # A bank holds at least one kernel, even for a constant model.
        entries = entries or [("linear", Linear(), list(range(self.n_features_in_)))]
        bank, prepared = KernelBank(entries, standardize=self.standardize, normalize=None).fit_prepare(samples.rows)
        solutions = [map_to_bank(part, kernels, len(entries)) for part in found]
        weights = np.array([solution.kernel_weights for solution in solutions])
        coefficients = np.array([solution.dual_coef for solution in solutions])
        self._expansion = Expansion.create(bank, prepared, weights, coefficients)
        norms = np.array([kernel_norms(bank, prepared, *pair) for pair in zip(weights, coefficients, strict=True)])
        fit = Fit([], solutions, norms)
        self._keep(bank, fit, samples)
        self._keep_importance(fit, samples, [self._loss] * len(solutions), prepared)
        return fit

    def _why_none(self, fit: Fit) -> str:
        alpha = float(np.max(self.alpha_))
        told = f"at alpha={alpha:g} the best constant is optimal within tol={self.tol:g}"
        return f"{told}. Decrease alpha or tol, unless y or all columns are constant."

    # --- predicting -------------------------------------------------------------------------------------------------

    @available_if(_classifies)
    def decision_function(self, X: TableLike) -> Array:
        """Return the score of every sample for every class; for the losses of classification.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            With two classes, a single score, positive for the second.

        Raises
        ------
        AttributeError
            If the loss is one of regression.

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels import PolynomialMKL
        >>> X = np.random.default_rng(0).normal(size=(30, 2))
        >>> PolynomialMKL(loss="logistic", degree=2).fit(X, X[:, 0] * X[:, 1] > 0).decision_function(X[:4]).shape
        (4,)
        """
        return self._values(X)

    def predict(self, X: TableLike) -> Array:
        """Return the predicted targets or the most likely classes.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_targets)

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels import PolynomialMKL
        >>> X = np.random.default_rng(0).normal(size=(30, 2))
        >>> PolynomialMKL(degree=2, alpha=1e-3).fit(X, X[:, 0] * X[:, 1]).predict(X[:4]).shape
        (4,)
        """
        values = self._values(X)
        return likeliest(self.classes_, values) if self._task == "classification" else values

    @available_if(_gives_probabilities)
    def predict_proba(self, X: TableLike) -> Array:
        """Return the probability of every class; for the logistic loss only.

        With more than two classes, the probabilities of every class against the rest, divided by their sum.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Rows sum to 1.
        """
        return class_probabilities(self._scores(X), self._single)

    def score(self, X: TableLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy of a classifier, or the coefficient of determination of a regressor.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        sample_weight : array-like of shape (n_samples,) or None, default=None

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels import PolynomialMKL
        >>> X = np.random.default_rng(0).normal(size=(30, 2))
        >>> y = X[:, 0] * X[:, 1]
        >>> PolynomialMKL(degree=2, alpha=1e-3).fit(X, y).score(X, y) > 0.9
        True
        """
        metric = accuracy_score if self._task == "classification" else r2_score
        return float(metric(y, self.predict(X), sample_weight=sample_weight))

    def _target_labels(self) -> Array:
        return self.classes_ if self._task == "classification" else self._output_labels()
