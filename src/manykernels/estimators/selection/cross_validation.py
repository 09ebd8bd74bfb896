"""Estimators that choose the strength of the penalty by cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from manykernels.estimators.selection.choice import CrossValidated
from manykernels.estimators.supervised.classifier import MKLClassifier
from manykernels.estimators.supervised.regressor import MKLRegressor
from manykernels.estimators.supervised.targets import (
    class_factors,
    encode_labels,
    sample_weights,
)
from manykernels.validation.arrays import Array

__all__ = ["MKLClassifierCV", "MKLRegressorCV"]


class MKLRegressorCV(CrossValidated, MKLRegressor):  # fit also takes groups
    """Regression with many kernels, with the strength of the penalty chosen by cross-validation.

    The grid of strengths starts at the smallest ``alpha`` under which no kernel is selected and falls geometrically.
    Every fold learns the normalization of its kernels from its own training samples, builds them once, and walks each
    path from the strongest penalty down, with warm starts where the solver gains from them. The best candidate is then
    learned anew on all samples.

    Parameters
    ----------
    kernels : KernelBank, PrecomputedBank, "precomputed" or None, default=None
        As in :class:`MKLRegressor`, and so are all parameters not described here.
    loss : str or Loss, default="squared"
        Loss of a prediction.
    penalty : str or Regularizer, default="l1"
        Name of the penalty, or an object, whose strength is replaced by those that are tried. One that gives every
        kernel a weight ("lq", "ridge", weight sets) needs ``alphas``.
    alphas : array-like or None, default=None
        Strengths relative to the mean loss, instead of the default grid.
    n_alphas : int, default=25
        Length of the default grid.
    ratio : float, default=0.001
        Smallest strength of the default grid over the largest.
    l1_ratios : float or sequence of float, default=0.5
        For ``"elasticnet"``: mixtures to try, each with a path of its own.
    mus : float, sequence of float or None, default=None
        For ``"elasticnet"``, instead of ``l1_ratios``: weights of the squared norms to try, each fixed along a path in
        which ``alpha`` is the weight of the norms. These are ``mu`` and ``tau`` of the PFBS paper.
    q, p, eta : float
        Shape of the penalties ``"lq"``, ``"lp_ball"`` and ``"elasticnet_ball"``.
    epsilon, delta, tau : float
        Shape of the losses ``"epsilon_insensitive"``, ``"huber"`` and ``"quantile"``.
    cv : int, splitter or iterable, default=None
        Folds of K-fold selection (5 by default), or any splitter of scikit-learn, such as ``ShuffleSplit`` for
        hold-out selection.
    scoring : str, callable or None, default=None
        The mean squared error by default; for "poisson" and "gamma" the share of the deviance that is explained.
    weights : {"own", "shared"}, default="own"
        Whether all targets share one set of kernel weights.
    solver : str or Solver, default="auto"
        Solver of every problem.
    fit_intercept : bool, default=True
        Whether to learn the constant.
    kernel_penalties : array-like of shape (n_kernels,), dict or None, default=None
        Factors on the norms inside the penalty.
    tol : float, default=1e-4
        Relative duality gap to reach.
    max_iter : int, default=200
        Most outer iterations of the solver.
    memory_budget : int, str or None, default=None
        What Gram matrices may take.
    n_jobs : int or None, default=None
        Threads of the loops over kernels.
    random_state : int, RandomState instance or None, default=None
        For solvers that draw random numbers, as in :class:`MKLRegressor`.
    verbose : int, default=0
        1 shows a bar that counts the models of the folds, 2 also a line for each; then the last fit is shown as in
        :class:`MKLRegressor`. The models of the folds are fitted one after the other, whatever ``n_jobs``.

    Attributes
    ----------
    alpha_ : float
        The chosen strength.
    l1_ratio_, mu_ : float or None
        The chosen mixture, where there was one to choose.
    alphas_ : ndarray of shape (n_alphas,) or (n_paths, n_alphas)
        The grid, decreasing.
    best_score_ : float
        Mean score of the choice over the folds.
    best_index_ : int
        Its row in ``cv_results_``.
    cv_results_ : DataFrame
        A row a candidate, also from :meth:`cv_frame`.
    n_folds_ : int
        Number of folds.

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
    >>> model = MKLRegressorCV(cv=3, n_alphas=10).fit(X, y)
    >>> len(model.cv_frame()), bool(model.alphas_[0] > model.alpha_ > model.alphas_[-1])
    (10, True)
    """

    _plain = MKLRegressor
    _default_scoring = "neg_mean_squared_error"

    def __init__(
        self,
        kernels: Any = None,
        *,
        loss: Any = "squared",
        penalty: Any = "l1",
        alphas: Any = None,
        n_alphas: int = 25,
        ratio: float = 1e-3,
        l1_ratios: float | Sequence[float] = 0.5,
        mus: float | Sequence[float] | None = None,
        q: float = 1.5,
        p: float = 2.0,
        eta: float = 0.5,
        epsilon: float | str = "auto",
        delta: float | str = "auto",
        tau: float = 0.5,
        cv: Any = None,
        scoring: Any = None,
        weights: str = "own",
        solver: Any = "auto",
        fit_intercept: bool = True,
        kernel_penalties: Any = None,
        tol: float = 1e-4,
        max_iter: int = 200,
        memory_budget: int | str | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.kernels = kernels
        self.loss = loss
        self.penalty = penalty
        self.alphas = alphas
        self.n_alphas = n_alphas
        self.ratio = ratio
        self.l1_ratios = l1_ratios
        self.mus = mus
        self.q = q
        self.p = p
        self.eta = eta
        self.epsilon = epsilon
        self.delta = delta
        self.tau = tau
        self.cv = cv
        self.scoring = scoring
        self.weights = weights
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.kernel_penalties = kernel_penalties
        self.tol = tol
        self.max_iter = max_iter
        self.memory_budget = memory_budget
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose


class MKLClassifierCV(CrossValidated, MKLClassifier):  # fit also takes groups
    """Classification with many kernels, with the strength of the penalty chosen by cross-validation.

    The grid of strengths starts at the smallest ``alpha`` under which no kernel is selected and falls geometrically.
    Every fold learns the normalization of its kernels from its own training samples, builds them once, and walks each
    path from the strongest penalty down, with warm starts where the solver gains from them. The best candidate is then
    learned anew on all samples.

    Parameters
    ----------
    kernels : KernelBank, PrecomputedBank, "precomputed" or None, default=None
        As in :class:`MKLClassifier`, and so are all parameters not described here.
    loss : str or Loss, default="logistic"
        Loss of a score for a label.
    penalty : str or Regularizer, default="l1"
        Name of the penalty, or an object, whose strength is replaced by those that are tried. One that gives every
        kernel a weight ("lq", "ridge", weight sets) needs ``alphas``.
    alphas : array-like or None, default=None
        Strengths relative to the mean loss, instead of the default grid.
    n_alphas : int, default=25
        Length of the default grid.
    ratio : float, default=0.001
        Smallest strength of the default grid over the largest.
    l1_ratios : float or sequence of float, default=0.5
        For ``"elasticnet"``: mixtures to try, each with a path of its own.
    mus : float, sequence of float or None, default=None
        For ``"elasticnet"``, instead of ``l1_ratios``: weights of the squared norms to try, each fixed along a path in
        which ``alpha`` is the weight of the norms.
    q, p, eta : float
        Shape of the penalties ``"lq"``, ``"lp_ball"`` and ``"elasticnet_ball"``.
    cv : int, splitter or iterable, default=None
        Folds of stratified K-fold selection (5 by default), or any splitter of scikit-learn.
    scoring : str, callable or None, default=None
        The share of correct labels by default.
    weights : {"own", "shared"}, default="own"
        Whether all classes share one set of kernel weights.
    solver : str or Solver, default="auto"
        Solver of every problem.
    fit_intercept : bool, default=True
        Whether to learn the constant.
    class_weight : dict, "balanced" or None, default=None
        Factors on the sample weights of each class, in the loss and in the score.
    kernel_penalties : array-like of shape (n_kernels,), dict or None, default=None
        Factors on the norms inside the penalty.
    tol : float, default=1e-4
        Relative duality gap to reach.
    max_iter : int, default=200
        Most outer iterations of the solver.
    memory_budget : int, str or None, default=None
        What Gram matrices may take.
    n_jobs : int or None, default=None
        Threads of the loops over kernels.
    random_state : int, RandomState instance or None, default=None
        For solvers that draw random numbers, as in :class:`MKLClassifier`.
    verbose : int, default=0
        1 shows a bar that counts the models of the folds, 2 also a line for each; then the last fit is shown as in
        :class:`MKLClassifier`. The models of the folds are fitted one after the other, whatever ``n_jobs``.

    Attributes
    ----------
    alpha_ : float
        The chosen strength.
    l1_ratio_, mu_ : float or None
        The chosen mixture, where there was one to choose.
    alphas_ : ndarray of shape (n_alphas,) or (n_paths, n_alphas)
        The grid, decreasing.
    best_score_ : float
        Mean score of the choice over the folds.
    best_index_ : int
        Its row in ``cv_results_``.
    cv_results_ : DataFrame
        A row a candidate, also from :meth:`cv_frame`.
    n_folds_ : int
        Number of folds.

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
    >>> model = MKLClassifierCV(cv=3, n_alphas=10).fit(X, y)
    >>> bool(model.alphas_[0] > model.alpha_), model.score(X, y) > 0.8
    (True, True)
    """

    _plain = MKLClassifier
    _default_scoring = "accuracy"

    def __init__(
        self,
        kernels: Any = None,
        *,
        loss: Any = "logistic",
        penalty: Any = "l1",
        alphas: Any = None,
        n_alphas: int = 25,
        ratio: float = 1e-3,
        l1_ratios: float | Sequence[float] = 0.5,
        mus: float | Sequence[float] | None = None,
        q: float = 1.5,
        p: float = 2.0,
        eta: float = 0.5,
        cv: Any = None,
        scoring: Any = None,
        weights: str = "own",
        solver: Any = "auto",
        fit_intercept: bool = True,
        class_weight: Any = None,
        kernel_penalties: Any = None,
        tol: float = 1e-4,
        max_iter: int = 200,
        memory_budget: int | str | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.kernels = kernels
        self.loss = loss
        self.penalty = penalty
        self.alphas = alphas
        self.n_alphas = n_alphas
        self.ratio = ratio
        self.l1_ratios = l1_ratios
        self.mus = mus
        self.q = q
        self.p = p
        self.eta = eta
        self.cv = cv
        self.scoring = scoring
        self.weights = weights
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.kernel_penalties = kernel_penalties
        self.tol = tol
        self.max_iter = max_iter
        self.memory_budget = memory_budget
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _scoring_weight(self, y: Array, weight: Array | None) -> Array | None:
        """Weigh held-out samples like those of the loss, or the choice would work against ``class_weight``."""
        if self.class_weight is None:
            return weight
        base = sample_weights(weight, len(y))
        classes, codes, _ = encode_labels(y)
        return base * class_factors(self.class_weight, classes, codes, base)[codes]
