"""Classification with many kernels: two classes by a single problem, more by a problem per class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, cast

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin
from sklearn.metrics import roc_auc_score
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from manykernels.estimators.parameters import Kernels, Resources
from manykernels.estimators.supervised.base import BaseMKL
from manykernels.estimators.supervised.samples import (
    Samples,
    class_factors,
    class_labels,
    encode_labels,
    label_factors,
    label_matrix,
    label_signs,
    likeliest,
    sample_weights,
)
from manykernels.exceptions import InvalidInputError
from manykernels.grams.expansion import class_probabilities
from manykernels.objective.losses import Loss
from manykernels.objective.losses.outputs import Separable, WeightedLabels
from manykernels.objective.regularizers import Regularizer
from manykernels.solvers import Solver
from manykernels.validation.arrays import Array, TableLike
from manykernels.validation.parameters import RandomSource


def _logistic(loss: str | Loss) -> bool:
    return bool(getattr(loss, "name", loss) == "logistic")


def _is_logistic(classifier: MKLClassifier) -> bool:
    if not _logistic(classifier.loss):
        raise AttributeError(f"predict_proba needs loss='logistic'; this classifier has loss={classifier.loss!r}.")
    return True


class MKLClassifier(ClassifierMixin, BaseMKL):
    r"""Classifier with kernel selection among many kernels.

    Minimizes

    .. math:: \sum_i s_i\, \ell(y_i, f(x_i) + b) + \alpha \Big(\sum_i s_i\Big)\, \Omega(\|f_1\|, \dots, \|f_M\|),
       \qquad f = \sum_m f_m,

    over one function :math:`f_m` per kernel, and returns a duality gap, which bounds the distance to the minimum. With
    more than two classes, one problem per class is solved (one-vs-rest), on the same kernels.

    Parameters
    ----------
    kernels : KernelBank, PrecomputedBank, PairKernels, "precomputed" or None, default=None
        The kernels. None: Gaussian kernels of three widths and a linear kernel, on every column and on all columns
        (:meth:`KernelBank.auto`); of a sparse X on all columns together, which are not standardized. With
        "precomputed", X is a :class:`KernelStack`, an (M, N, N) array or a list of (N, N) arrays, used unchanged,
        without normalization; a :class:`PrecomputedBank` normalizes it. With :class:`PairKernels`, and with None if X
        is :class:`Pairs`, the samples are pairs.
    loss : {"logistic", "hinge", "squared_hinge"} or Loss, default="logistic"
        Loss function.
    penalty : str, dict or Regularizer, default="l1"
        ``"l1"``, ``"elasticnet"``, ``"lq"``, ``"ridge"``, ``"group_elasticnet"``, or a set of kernel weights,
        ``"simplex"``, ``"lp_ball"``, ``"elasticnet_ball"``. A Regularizer object has its own strength, in place of
        ``alpha``. A dict sets penalties by kernel: ``{"subject": "ridge", "*": "l1"}`` maps names or patterns of
        kernels to penalties; strengths of objects are factors of ``alpha``.
    alpha : float or str, default="auto"
        Strength of the penalty relative to the mean loss, positive. A string gives the strength relative to the
        smallest one that yields an empty model. It is computed per class and does not depend on the scale of the
        kernels. ``"0.1*max"`` is a tenth of it, ``"0.3*noise"`` is 0.3 of it for shuffled labels. ``"auto"`` is
        ``"0.2*noise"``, up to ``"0.5*noise"`` if most kernels are noise, and ``"0.07*noise"`` if this clearly lowers
        the leave-one-out loss.
    l1_ratio : float, default=0.5
        For ``"elasticnet"``: 1 is ``"l1"``, 0 is ``"ridge"``; also for ``"group_elasticnet"``, below 1.
    q : float, default=1.5
        For ``"lq"`` and ``"group_elasticnet"``: exponent, above 1 and at most 2.
    p : float, default=2.0
        For ``"lp_ball"``: exponent of the ball of weights, at least 1.
    eta : float, default=0.5
        For ``"elasticnet_ball"``: share of the 1-norm, between 0 and 1.
    outputs : {"own", "shared"}, default="own"
        One set of kernel weights per class ("own"), or one set for all classes ("shared"); see Notes.
    solver : str or Solver, default="auto"
        Name of a solver, or a configured solver, whose own ``tol``, ``max_iter``, ``time_limit``, ``callback`` and
        ``verbose`` apply.
    fit_intercept : bool, default=True
        Learn the intercept ``b``.
    class_weight : dict, "balanced" or None, default=None
        Factors on the sample weights by class; "balanced" gives all classes the same total weight.
    kernel_penalties : array-like of shape (n_kernels,), dict or None, default=None
        Positive factors ``w_m`` on the norms in the penalty; a kernel with a larger factor is less likely to be
        selected. A dict maps names or shell patterns of kernels to factors; the default is 1.
    tol : float, default=1e-4
        Relative duality gap at which the solver stops.
    random_state : int, RandomState instance or None, default=None
        Seed of the solvers that draw random numbers (``"ufo_mkl"``, ``"obscure"``). None keeps the seed of the solver,
        which is 0 unless configured.
    resources : Resources, dict or None, default=None
        Time, memory, threads and progress: ``max_iter``, ``time_limit``, ``callback``, ``representation``,
        ``memory_budget``, ``n_jobs``, ``verbose``; see :class:`~manykernels.estimators.Resources`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,), or (n_labels, 2)
        The classes; with two, a positive score means the second. With several labels, 0 and 1 for each label.
    kernel_weights_ : ndarray of shape (n_kernels,) or (n_classes, n_kernels)
        Weights ``d`` of the kernels; a row per class with more than two classes that do not share them.
    alpha_ : float or ndarray of shape (n_classes,)
        Strength used, relative to the mean loss; for ``"elasticnet"`` the sum over both terms. Absent if the penalty is
        an object.
    l1_ratio_ : float or ndarray of shape (n_classes,)
        Share of the norms used, for mixed penalties. A relative ``alpha`` is a fraction of the largest strength per
        term, so the share differs from ``l1_ratio``; with ``alpha_`` the numeric parameters of the fit.
    noise_ratio_ : float or ndarray of shape (n_classes,)
        The strength divided by the smallest one that yields an empty model for shuffled y. Below 1, part of the
        selection may be noise.
    noise_p_value_ : float or ndarray of shape (n_classes,)
        P-value of a permutation test of the relation between y and the kernels (199 permutations, fewer for more than
        500 samples; from 19 on for a given ``alpha``). A fit warns if it is above 0.05 for all classes together. The
        test detects clear effects of single kernels, not a sum of very many weak effects.
    above_noise_ : ndarray of the shape of ``kernel_weights_``, bool
        Kernels whose relation to y exceeds that to 95% of the permutations of y; see :meth:`weights_frame`.
    proved_inactive_ : ndarray of the same shape, bool
        Kernels that the certificate proves to be zero in every optimal model (L1 and elastic net, losses of bounded
        curvature); a smaller ``tol`` proves more. See :func:`manykernels.objective.proved_inactive`.
    kernel_norms_ : ndarray of the same shape
        Norms ``||f_m||``.
    kernel_names_ : list of str
        Names of the kernels.
    dual_coef_ : ndarray of shape (n_support,) or (n_classes, n_support)
        Dual coefficients ``rho`` of the support samples, signs included. Like ``support_``, absent for models of
        factors, which keep no samples.
    support_ : ndarray of shape (n_support,)
        Positions of the training samples with a nonzero dual coefficient for any class.
    intercept_ : float or ndarray of shape (n_classes,)
        The constant ``b``.
    dual_gap_ : float
        Relative duality gap of the exact kernels; the largest over the classes.
    representation_ : {"gram", "factored"}
        How the kernels were stored.
    approximate_gap_ : float
        With factors: relative gap of the problem with factors in place of kernels. It does not bound the gap of the
        kernels.
    n_iter_ : int
        Number of outer iterations, at least 1; the maximum over the classes.
    solution_ : Solution or tuple of Solution
        Result of the solver, one per class with more than two classes, one with shared weights.
    n_features_in_ : int
        Number of columns of X; of training samples for precomputed kernels.
    feature_names_in_ : ndarray of shape (n_features,)
        Column names, if X was a DataFrame with string names.
    target_names_ : ndarray of shape (n_targets,)
        Names of the columns of y, if y was a DataFrame or Series with string names.
    feature_importances_ : ndarray of shape (n_features,)
        Importance of the columns: shares of the increase in held-out loss; see the property and `importance_frame`.
    importance_method_ : {"leave-out", "folds"}
        How the rows were held out for the importance.
    selected_features_ : ndarray of shape (n_features,), bool
        Columns of active kernels, which a DataFrame for prediction must have; absent for precomputed kernels.

    See Also
    --------
    MKLRegressor : Regression.
    manykernels.solve : Solve one problem without an estimator, from Gram matrices or a bank.

    Notes
    -----
    ``f(x) = sum_m d_m sum_i rho_i k_m(x, x_i) + b``: prediction evaluates active kernels on support samples only.

    With ``outputs="shared"`` and more than two classes, one problem is solved for all classes. The norm of a kernel is
    that over all classes, ``||f_m||^2 = sum_c ||f_mc||^2``, so a kernel is selected for all classes or for none. The
    logistic loss is then multinomial, ``log sum_c exp(f_c) - f_y``; the squared hinge loss, and the hinge loss on
    factors, are summed over the one-vs-rest problems. ``dual_gap_`` is the gap of the joint problem.

    With y of shape (n_samples, n_labels), 0 or 1 in every column, each label is a target: ``outputs="own"`` solves one
    problem a label, ``outputs="shared"`` minimizes the sum of the losses of all labels with one set of kernel weights.
    Attributes then have one row per label in place of classes; ``predict`` and ``predict_proba`` return one column per
    label. Missing labels (NaN) have the weight 1e-8.

    References
    ----------
    T. Suzuki, R. Tomioka, "SpicyMKL: a fast algorithm for multiple kernel learning with thousands of kernels",
    Machine Learning 85 (2011).

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import MKLClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(80, 3))
    >>> y = np.where(X[:, 0] ** 2 + X[:, 1] > 1, "yes", "no")
    >>> model = MKLClassifier(alpha=0.02).fit(X, y)
    >>> bool(model.dual_gap_ <= 1e-4), model.score(X, y) > 0.9
    (True, True)
    """

    _takes_sparse = True
    _task = "classification"
    _other = "MKLRegressor"
    _of_fold: ClassVar[bool] = False  # whether labels may have one value only
    _label_weight: Any  # largest weight of a label, None if all are one

    def __init__(
        self,
        kernels: Kernels = None,
        *,
        loss: str | Loss = "logistic",
        penalty: str | Mapping[str, str | Regularizer] | Regularizer = "l1",
        alpha: float | str = "auto",
        l1_ratio: float = 0.5,
        q: float = 1.5,
        p: float = 2.0,
        eta: float = 0.5,
        outputs: str = "own",
        solver: str | Solver = "auto",
        fit_intercept: bool = True,
        class_weight: Mapping[Any, float] | str | None = None,
        kernel_penalties: ArrayLike | Mapping[str, float] | None = None,
        tol: float = 1e-4,
        random_state: RandomSource = None,
        resources: Resources | Mapping[str, Any] | None = None,
    ) -> None:
        self.kernels = kernels
        self.loss = loss
        self.penalty = penalty
        self.alpha: Any = alpha
        self.l1_ratio, self.q, self.p, self.eta = l1_ratio, q, p, eta
        self.outputs, self.solver, self.fit_intercept = outputs, solver, fit_intercept
        self.class_weight, self.kernel_penalties, self.tol = class_weight, kernel_penalties, tol
        self.random_state, self.resources = random_state, resources

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    @property
    def _target_word(self) -> str:  # type: ignore[override]
        """What the outputs of a model are called."""
        return "label" if self._has_labels else "class"

    def _check_target(self, y: ArrayLike) -> Array:
        labels = label_matrix(y)
        return class_labels(y) if labels is None else labels

    def _encoded(self, samples: Samples) -> Samples:
        if samples.y.ndim == 2:
            return self._encoded_labels(samples)
        self._label_weight = None
        self.classes_, codes, signs = encode_labels(samples.y)
        self._single = len(self.classes_) == 2
        factors = class_factors(self.class_weight, self.classes_, codes, samples.weight)
        return samples.with_targets(signs, samples.weight * factors[codes])

    def _encoded_labels(self, samples: Samples) -> Samples:
        """Return the signs of several labels a sample, times their weights where these differ."""
        n_labels = samples.y.shape[1]
        self.classes_, self._single = np.tile([0, 1], (n_labels, 1)), False
        names = getattr(self, "target_names_", np.arange(n_labels))
        factors = label_factors(self.class_weight, samples.y, samples.weight)
        signs, self._label_weight = label_signs(samples.y, factors, names, of_fold=self._of_fold)
        return samples.with_targets(np.asfortranarray(signs))

    def _losses(self, losses: list[Loss]) -> list[Loss]:
        """Return the losses of labels, with their weights; shared ones are sums over labels."""
        if not self._has_labels:
            return losses
        largest = getattr(self, "_label_weight", None)
        if largest is not None:
            losses = [cast("Any", WeightedLabels(loss, largest)) for loss in losses]
        return [cast("Any", Separable(loss)) for loss in losses] if self._shares_weights else losses

    def decision_function(self, X: TableLike) -> Array:
        """Return the score of every sample for every class.

        Parameters
        ----------
        X : DataFrame, array-like of shape (n_samples, n_features), or precomputed kernels
            Samples. Precomputed: a view of the KernelStack that was split, or an (M, n_samples, n_train) array.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes) or (n_samples, n_labels)
            With two classes, one score, positive for the second; of several labels one each, positive for 1.

        Examples
        --------
        >>> from manykernels import MKLClassifier
        >>> model = MKLClassifier().fit([[0.0], [1.0], [2.0], [3.0]], ["no", "no", "yes", "yes"])
        >>> (model.decision_function([[0.5], [2.5]]) > 0).tolist()
        [False, True]
        """
        return self._values(X)

    def predict(self, X: TableLike) -> Array:
        """Return the most likely class of every sample.

        Parameters
        ----------
        X : DataFrame, array-like of shape (n_samples, n_features), or precomputed kernels
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_labels)
            Classes; of several labels 0 or 1 each.

        Examples
        --------
        >>> from manykernels import MKLClassifier
        >>> model = MKLClassifier().fit([[0.0], [1.0], [2.0], [3.0]], ["no", "no", "yes", "yes"])
        >>> model.predict([[0.5], [2.5]]).tolist()
        ['no', 'yes']
        """
        values = self._values(X)
        return (values > 0).astype(np.int64) if self._has_labels else likeliest(self.classes_, values)

    def score(self, X: TableLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy: the share of samples whose class is predicted, or all labels of which are.

        Parameters
        ----------
        X : DataFrame, array-like of shape (n_samples, n_features), or precomputed kernels
            Samples.
        y : array-like of shape (n_samples,) or (n_samples, n_labels)
            Their classes or labels; samples with missing labels are left out.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples.

        Returns
        -------
        float
            Between 0 and 1. See :meth:`label_frame` for the scores of each label.

        Examples
        --------
        >>> from manykernels import MKLClassifier
        >>> X, y = [[0.0], [1.0], [2.0], [3.0]], ["no", "no", "yes", "yes"]
        >>> MKLClassifier().fit(X, y).score(X, y)
        1.0
        """
        labels = label_matrix(y) if getattr(self, "classes_", np.zeros(1)).ndim == 2 else None
        if labels is None:
            return float(super().score(X, y, sample_weight))
        whole = np.isfinite(labels).all(axis=1)
        right = (self.predict(X) == labels).all(axis=1)
        return float(np.average(right[whole], weights=sample_weights(sample_weight, len(labels))[whole]))

    def label_frame(self, X: TableLike, y: ArrayLike) -> pd.DataFrame:
        """Return the scores of each label of a model of several, and their means.

        Parameters
        ----------
        X : DataFrame, array-like of shape (n_samples, n_features), or precomputed kernels
            Samples.
        y : array-like of shape (n_samples, n_labels)
            Their labels, 0 or 1; missing ones are left out.

        Returns
        -------
        DataFrame
            A row for each label and one called "mean": ``n_samples``, ``share`` of ones, ``accuracy``, ``roc_auc``
            and, of logistic losses, ``log_loss``. NaN where only one value occurs.

        Raises
        ------
        InvalidInputError
            If the model has classes, or y has other labels.

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels import MKLClassifier
        >>> X = np.random.default_rng(0).normal(size=(60, 2))
        >>> model = MKLClassifier().fit(X, X > 0)
        >>> bool(model.label_frame(X, X > 0)["accuracy"].min() > 0.9)
        True
        """
        check_is_fitted(self)
        labels = label_matrix(y)
        if labels is None or not self._has_labels or labels.shape[1] != len(self.classes_):
            raise InvalidInputError(
                f"y must have a column of 0 and 1 for each of {len(self.classes_)} labels, got shape {np.shape(y)}."
            )
        return label_scores(labels, self.decision_function(X), self._target_labels(), proper=_logistic(self.loss))

    @available_if(_is_logistic)
    def predict_proba(self, X: TableLike) -> Array:
        """Return the probability of every class; for the logistic loss only.

        With more than two classes, the probabilities of every class against the rest, divided by their sum; with shared
        weights, those of the multinomial model.

        Parameters
        ----------
        X : DataFrame, array-like of shape (n_samples, n_features), or precomputed kernels
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Rows sum to one; of several labels, (n_samples, n_labels) chances that they are 1.

        Raises
        ------
        AttributeError
            If the loss is not the logistic one.

        Notes
        -----
        With two classes, that of the second is ``1 / (1 + exp(-f))`` at the score ``f``; nothing is calibrated.

        Examples
        --------
        >>> from manykernels import MKLClassifier
        >>> model = MKLClassifier().fit([[0.0], [1.0], [2.0], [3.0]], ["no", "no", "yes", "yes"])
        >>> model.predict_proba([[0.5], [2.5]]).sum(axis=1)
        array([1., 1.])
        """
        scores = self._scores(X)
        if self._has_labels:
            return np.asarray(expit(scores))
        return softmax(scores, axis=1) if self._shares_weights else class_probabilities(scores, self._single)

    def _target_labels(self) -> Array:
        return self._output_labels() if self._has_labels else self.classes_

    @property
    def _has_labels(self) -> bool:
        """Whether each sample has several labels of 0 or 1."""
        return np.ndim(getattr(self, "classes_", 0)) == 2


def label_scores(labels: Array, scores: Array, names: Array, *, proper: bool) -> pd.DataFrame:
    """Return what scores (n, T) are worth for labels of 0, 1 and NaN, by label and on average."""
    rows: dict[Any, dict[str, float]] = {}
    for name, y, z in zip(names.tolist(), labels.T, scores.T, strict=True):
        known = np.isfinite(y)
        y, z = y[known], z[known]
        row = {"n_samples": float(len(y)), "share": float(y.mean()) if len(y) else np.nan}
        row["accuracy"] = float(np.mean((z > 0) == y)) if len(y) else np.nan
        row["roc_auc"] = float(roc_auc_score(y, z)) if len(np.unique(y)) == 2 else np.nan
        if proper:
            row["log_loss"] = float(np.mean(np.logaddexp(0.0, np.where(y == 1.0, -z, z)))) if len(y) else np.nan
        rows[name] = row
    found = pd.DataFrame(rows).T.rename_axis("label")
    return pd.concat([found, found.mean().to_frame("mean").T.rename_axis("label")])
