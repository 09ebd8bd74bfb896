"""Estimators that choose strength and mixing of the penalty by cross-validation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from numpy.typing import ArrayLike

from manykernels.estimators.parameters import LossParameters, Resources, Search
from manykernels.estimators.selection.choice import CrossValidated
from manykernels.estimators.supervised.classifier import MKLClassifier
from manykernels.estimators.supervised.regressor import MKLRegressor
from manykernels.estimators.supervised.samples import (
    class_factors,
    encode_labels,
    sample_weights,
)
from manykernels.exceptions import InvalidInputError
from manykernels.objective.losses import Loss
from manykernels.validation.arrays import Array
from manykernels.validation.parameters import RandomSource

__all__ = ["MKLClassifierCV", "MKLRegressorCV"]


class MKLRegressorCV(CrossValidated, MKLRegressor):  # fit also takes groups
    """Regression with many kernels, with strength and mixing chosen by cross-validation.

    One search decides how strong the penalty is and how far kernels are selected or averaged: from the block 1-norm
    over the elastic net to ridge, whose model is a kernel machine on the sum of the kernels. Averages are also tried of
    the kernels on several columns, and of each kind or view of them alone, so that one well-chosen Gaussian is among
    the candidates. Every path goes from strong to weak penalties, in coarse steps for as long as the score may rise,
    then in finer ones around the best; the choice averages each score with its neighbors, so that no lucky strength
    decides. The averages of all kernels, and of those on several columns, are to beat: one kind alone, or a selection,
    must be ahead of them by more than half a standard error of the difference over the folds, a view alone ahead of
    everything else by more than a whole one. It is a race: what takes time is tried at a few strengths in three
    folds first, where a fit is predicted to take long also with fewer rows, and given up where it is behind by more
    than a standard error of the difference. The winner is learned anew on all samples, to ``tol`` and with its
    certificate.

    The empty model is among the candidates, and what is not ahead of the best constant is no finding. Where y is more
    strongly related to the kernels than y in random order is, to be ahead in the mean will do; else it takes a
    t-test over the folds, whose error counts the training rows that folds share. Groups of equal size change places as
    wholes; where samples are not exchangeable (series, splits of your own) one such error is asked for. If there is no
    finding, the model is that constant, and a warning says so.

    Every fold learns standardization, widths and normalization of its kernels from its own training samples and builds
    them once, unless ``fold_kernels`` says otherwise. Averages take one eigendecomposition for all strengths, targets
    and classes. Strengths are fractions of those at which next to nothing is left, for each target and class, so that
    units do not matter.

    With a named ``penalty`` or with ``alphas``, the grid of strengths is as given: by default it starts at the smallest
    ``alpha`` under which no kernel is selected and falls geometrically, and every strength is solved in every fold.

    Parameters
    ----------
    kernels : KernelBank, PrecomputedBank, "precomputed" or None, default=None
        As in :class:`MKLRegressor`, and so are all parameters not described here.
    loss : str or Loss, default="squared"
        Loss of a prediction.
    loss_parameters : LossParameters, dict or None, default=None
        ``epsilon`` of ``"epsilon_insensitive"``, ``delta`` of ``"huber"``, ``tau`` of ``"quantile"``, such as
        ``{"tau": 0.9}``; see :class:`~manykernels.estimators.LossParameters`.
    penalty : "auto", str, dict or Regularizer, default="auto"
        "auto" searches strength and mixing; "ridge" without ``alphas`` searches the strength of the sum of all kernels.
        Else the name of a penalty, or an object, whose strength is replaced by those of a grid. Another penalty that
        gives every kernel a weight ("lq", weight sets) needs ``alphas``.
    alphas : array-like or None, default=None
        Strengths relative to the mean loss, instead of a search; "auto" then is "l1", or "elasticnet" with
        ``l1_ratios``. So it is with shared weights.
    n_alphas : int, default=25
        Length of the grid; a search takes every third of it first, and goes on below it if that may help.
    l1_ratios : float or sequence of float or None, default=None
        Mixtures to try, each on a path of its own: 1 selects, 0 averages. None is 0.5 for elastic nets, and
        (1, 0.5, 0) for a search, which leaves out what cannot win; those that are given are all followed.
    q, p, eta : float
        Shape of the penalties ``"lq"`` and ``"group_elasticnet"``, ``"lp_ball"``, and ``"elasticnet_ball"``.
    cv : int, splitter or iterable, default=None
        Folds of K-fold selection (5 by default), or any splitter of scikit-learn, such as ``ShuffleSplit`` for
        hold-out selection.
    scoring : str, callable or None, default=None
        None is minus the mean loss of held-out rows, the loss that is minimized: squared or pinball errors, half the
        deviance of counts but for a constant. With several targets, a search scores and chooses for each of them.
    search : Search, dict or None, default=None
        How the search goes: ``alpha_min_ratio``, ``rule``, ``fold_tol``, ``fold_kernels``, ``keep_folds``; see
        :class:`~manykernels.estimators.Search`.
    outputs : {"own", "shared"}, default="own"
        Whether all targets share one set of kernel weights.
    solver : str or Solver, default="auto"
        Solver of every problem; of averages only unless "auto".
    fit_intercept : bool, default=True
        Whether to learn the constant.
    kernel_penalties : array-like of shape (n_kernels,), dict, list of dict or None, default=None
        Factors on the norms inside the penalty. Of several dictionaries each is tried, on paths of the block 1-norm
        where the penalty is "auto": ``[{"* x *": 1}, {"* x *": 2}]`` chooses how much more pairs cost.
    tol : float, default=1e-4
        Relative duality gap to reach.
    random_state : int, RandomState instance or None, default=None
        For solvers that draw random numbers, as in :class:`MKLRegressor`.
    resources : Resources, dict or None, default=None
        Time, memory, threads and progress: ``max_iter``, ``time_limit``, ``callback``, ``representation``,
        ``memory_budget``, ``n_jobs``, ``verbose``; see :class:`~manykernels.estimators.Resources`.

    Attributes
    ----------
    alpha_ : float or ndarray of shape (n_outputs,)
        The chosen strength; of each target or class where they differ.
    l1_ratio_ : float, ndarray or None
        What the penalty ``"elasticnet"`` of a plain estimator needs for the same model of all kernels.
    kernel_penalties_ : array-like, dict or None
        The chosen factors.
    mixing_ : float, ndarray or None
        After a search: 1 for selection, 0 for averaging, as in ``l1_ratios``. Unlike ``l1_ratio_`` it means the same in
        every unit of y.
    alphas_ : ndarray of shape (n_alphas,) or (n_paths, n_alphas)
        The strengths tried, decreasing.
    best_score_ : float
        Mean score of the choice over the folds.
    best_index_ : int
        Its row in ``cv_results_``.
    best_per_target_ : ndarray of shape (n_targets,) or None
        Rows of the choices for several targets, after a search.
    cv_results_ : DataFrame
        A row a candidate, also from :meth:`cv_frame`.
    n_folds_ : int
        Number of folds.
    cv_predictions_ : ndarray of shape (n_samples,) or (n_samples, n_classes) or (n_samples, n_outputs)
        What models of the chosen strength that have not seen a row predict for it: numbers; NaN for
        rows that no fold held out, the mean of several. Not there where the search ended early.

    See Also
    --------
    MKLRegressor : The same at a given strength, and all other fitted attributes.
    manykernels.estimators.selection.path.regularization_path : Solutions at every strength.

    References
    ----------
    The pipeline of Z. Liu, "rls_dual_mkl: a PFBS-based implementation for multiple kernel learning".

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.estimators.selection.cross_validation import MKLRegressorCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, size=(60, 3))
    >>> y = np.sin(2 * X[:, 1]) + 0.3 * rng.normal(size=60)
    >>> model = MKLRegressorCV(cv=3).fit(X, y)
    >>> model.mixing_ in (0.0, 0.5, 1.0), bool(model.dual_gap_ <= model.tol), model.score(X, y) > 0.5
    (True, True, True)
    >>> path = MKLRegressorCV(penalty="l1", cv=3, n_alphas=10).fit(X, y)
    >>> len(path.cv_frame()), bool(path.alphas_[0] > path.alpha_ > path.alphas_[-1])
    (10, True)
    """

    _groups: ClassVar[tuple[str, ...]] = ("resources", "search", "loss_parameters")
    _plain = MKLRegressor

    def _checked_loss(self) -> Loss:
        if self._levels is not None:
            raise InvalidInputError(
                f"MKLRegressorCV chooses a strength for one quantile, but tau={self._levels.tolist()} has several: "
                "choose it for one of them and give alpha_ to MKLRegressor, or fit one model for each."
            )
        return super()._checked_loss()

    def __init__(
        self,
        kernels: Any = None,
        *,
        loss: Any = "squared",
        loss_parameters: LossParameters | Mapping[str, Any] | None = None,
        penalty: Any = "auto",
        alphas: ArrayLike | None = None,
        n_alphas: int = 25,
        l1_ratios: float | Sequence[float] | None = None,
        q: float = 1.5,
        p: float = 2.0,
        eta: float = 0.5,
        cv: Any = None,
        scoring: str | Callable[..., float] | None = None,
        search: Search | Mapping[str, Any] | None = None,
        outputs: str = "own",
        solver: Any = "auto",
        fit_intercept: bool = True,
        kernel_penalties: ArrayLike | Mapping[str, float] | None = None,
        tol: float = 1e-4,
        random_state: RandomSource = None,
        resources: Resources | Mapping[str, Any] | None = None,
    ) -> None:
        self.kernels = kernels
        self.loss = loss
        self.loss_parameters = loss_parameters
        self.penalty = penalty
        self.alphas = alphas
        self.n_alphas = n_alphas
        self.l1_ratios = l1_ratios
        self.q, self.p, self.eta = q, p, eta
        self.cv = cv
        self.scoring = scoring
        self.search = search
        self.outputs = outputs
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.kernel_penalties = kernel_penalties
        self.tol = tol
        self.random_state = random_state
        self.resources = resources


class MKLClassifierCV(CrossValidated, MKLClassifier):  # fit also takes groups
    """Classification with many kernels, with strength and mixing chosen by cross-validation.

    One search decides how strong the penalty is and how far kernels are selected or averaged: from the block 1-norm
    over the elastic net to ridge, whose model is a kernel machine on the sum of the kernels. Averages are also tried of
    the kernels on several columns, and of each kind or view of them alone, so that one well-chosen Gaussian is among
    the candidates. Every path goes from strong to weak penalties, in coarse steps for as long as the score may rise,
    then in finer ones around the best; the choice averages each score with its neighbors, so that no lucky strength
    decides. The averages of all kernels, and of those on several columns, are to beat: one kind alone, or a selection,
    must be ahead of them by more than half a standard error of the difference over the folds, a view alone ahead of
    everything else by more than a whole one. It is a race: what takes time is tried at a few strengths in three
    folds first, where a fit is predicted to take long also with fewer rows, and given up where it is behind by more
    than a standard error of the difference. The winner is learned anew on all samples, to ``tol`` and with its
    certificate.

    The empty model is among the candidates, and what is not ahead of the best constant is no finding. Where y is more
    strongly related to the kernels than y in random order is, to be ahead in the mean will do; else it takes a
    t-test over the folds, whose error counts the training rows that folds share. Groups of equal size change places as
    wholes; where samples are not exchangeable (series, splits of your own) one such error is asked for. If there is no
    finding, the model is that constant, and a warning says so.

    Every fold learns standardization, widths and normalization of its kernels from its own training samples and builds
    them once. Averages take one eigendecomposition for all strengths, targets and classes. Strengths are fractions of
    those at which next to nothing is left, for each target and class, so that units do not matter.

    With a named ``penalty`` or with ``alphas``, the grid of strengths is as given: by default it starts at the smallest
    ``alpha`` under which no kernel is selected and falls geometrically, and every strength is solved in every fold.

    Parameters
    ----------
    kernels : KernelBank, PrecomputedBank, "precomputed" or None, default=None
        As in :class:`MKLClassifier`, and so are all parameters not described here.
    loss : str or Loss, default="logistic"
        Loss of a score for a label.
    penalty : "auto", str, dict or Regularizer, default="auto"
        "auto" searches strength and mixing; "ridge" without ``alphas`` searches the strength of the sum of all kernels.
        Else the name of a penalty, or an object, whose strength is replaced by those of a grid. Another penalty that
        gives every kernel a weight ("lq", weight sets) needs ``alphas``.
    alphas : array-like or None, default=None
        Strengths relative to the mean loss, instead of a search; "auto" then is "l1", or "elasticnet" with
        ``l1_ratios``. So it is with shared weights.
    n_alphas : int, default=25
        Length of the grid; a search takes every third of it first, and goes on below it if that may help.
    l1_ratios : float or sequence of float or None, default=None
        Mixtures to try, each on a path of its own: 1 selects, 0 averages. None is 0.5 for elastic nets, and
        (1, 0.5, 0) for a search, which leaves out what cannot win; those that are given are all followed.
    q, p, eta : float
        Shape of the penalties ``"lq"`` and ``"group_elasticnet"``, ``"lp_ball"``, and ``"elasticnet_ball"``.
    cv : int, splitter or iterable, default=None
        Folds of stratified K-fold selection (5 by default), or any splitter of scikit-learn.
    scoring : str, callable or None, default=None
        None is minus the mean loss of held-out rows, the loss that is minimized, summed over classes that are learned
        one against the rest: a proper score, which the share of correct labels (``"accuracy"``) is not. Margins of
        hinge losses tell no probability: they are scored by the logistic loss after calibration.
    search : Search, dict or None, default=None
        How the search goes: ``alpha_min_ratio``, ``rule``, ``fold_tol``, ``fold_kernels``, ``keep_folds``; see
        :class:`~manykernels.estimators.Search`.
    outputs : {"own", "shared"}, default="own"
        Whether all classes share one set of kernel weights.
    solver : str or Solver, default="auto"
        Solver of every problem; of averages only unless "auto".
    fit_intercept : bool, default=True
        Whether to learn the constant.
    class_weight : dict, "balanced" or None, default=None
        Factors on the sample weights of each class, in the loss and in the score.
    kernel_penalties : array-like of shape (n_kernels,), dict, list of dict or None, default=None
        Factors on the norms inside the penalty. Of several dictionaries each is tried, on paths of the block 1-norm
        where the penalty is "auto": ``[{"* x *": 1}, {"* x *": 2}]`` chooses how much more pairs cost.
    tol : float, default=1e-4
        Relative duality gap to reach.
    random_state : int, RandomState instance or None, default=None
        For solvers that draw random numbers, as in :class:`MKLClassifier`.
    resources : Resources, dict or None, default=None
        Time, memory, threads and progress: ``max_iter``, ``time_limit``, ``callback``, ``representation``,
        ``memory_budget``, ``n_jobs``, ``verbose``; see :class:`~manykernels.estimators.Resources`.

    Attributes
    ----------
    alpha_ : float or ndarray of shape (n_outputs,)
        The chosen strength; of each target or class where they differ.
    l1_ratio_ : float, ndarray or None
        What the penalty ``"elasticnet"`` of a plain estimator needs for the same model of all kernels.
    kernel_penalties_ : array-like, dict or None
        The chosen factors.
    mixing_ : float, ndarray or None
        After a search: 1 for selection, 0 for averaging, as in ``l1_ratios``. Unlike ``l1_ratio_`` it means the same in
        every unit of y.
    alphas_ : ndarray of shape (n_alphas,) or (n_paths, n_alphas)
        The strengths tried, decreasing.
    best_score_ : float
        Mean score of the choice over the folds.
    best_index_ : int
        Its row in ``cv_results_``.
    best_per_target_ : ndarray of shape (n_targets,) or None
        Rows of the choices for several targets, after a search.
    cv_results_ : DataFrame
        A row a candidate, also from :meth:`cv_frame`.
    n_folds_ : int
        Number of folds.
    cv_predictions_ : ndarray of shape (n_samples,) or (n_samples, n_classes) or (n_samples, n_outputs)
        What models of the chosen strength that have not seen a row predict for it: probabilities, or decisions; NaN for
        rows that no fold held out, the mean of several. Not there where the search ended early.

    See Also
    --------
    MKLClassifier : The same at a given strength, and all other fitted attributes.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.estimators.selection.cross_validation import MKLClassifierCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(80, 3))
    >>> y = np.where(X[:, 0] ** 2 + X[:, 1] + 0.5 * rng.normal(size=80) > 1, "yes", "no")
    >>> model = MKLClassifierCV(cv=3).fit(X, y)
    >>> bool(model.dual_gap_ <= model.tol), model.score(X, y) > 0.8
    (True, True)
    """

    _groups: ClassVar[tuple[str, ...]] = ("resources", "search")
    _plain = MKLClassifier

    def __init__(
        self,
        kernels: Any = None,
        *,
        loss: Any = "logistic",
        penalty: Any = "auto",
        alphas: ArrayLike | None = None,
        n_alphas: int = 25,
        l1_ratios: float | Sequence[float] | None = None,
        q: float = 1.5,
        p: float = 2.0,
        eta: float = 0.5,
        cv: Any = None,
        scoring: str | Callable[..., float] | None = None,
        search: Search | Mapping[str, Any] | None = None,
        outputs: str = "own",
        solver: Any = "auto",
        fit_intercept: bool = True,
        class_weight: Any = None,
        kernel_penalties: ArrayLike | Mapping[str, float] | None = None,
        tol: float = 1e-4,
        random_state: RandomSource = None,
        resources: Resources | Mapping[str, Any] | None = None,
    ) -> None:
        self.kernels = kernels
        self.loss = loss
        self.penalty = penalty
        self.alphas = alphas
        self.n_alphas = n_alphas
        self.l1_ratios = l1_ratios
        self.q, self.p, self.eta = q, p, eta
        self.cv = cv
        self.scoring = scoring
        self.search = search
        self.outputs = outputs
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.kernel_penalties = kernel_penalties
        self.tol = tol
        self.random_state = random_state
        self.resources = resources

    def _scoring_weight(self, y: Array, weight: Array | None) -> Array | None:
        """Weigh held-out samples like those of the loss, or the choice would work against ``class_weight``."""
        if self.class_weight is None:
            return weight
        base = sample_weights(weight, len(y))
        classes, codes, _ = encode_labels(y)
        return base * class_factors(self.class_weight, classes, codes, base)[codes]
