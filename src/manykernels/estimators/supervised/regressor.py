"""Regression with many kernels, for a single target or several."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, cast

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from manykernels.estimators.parameters import Kernels, LossParameters, Resources
from manykernels.estimators.supervised.base import BaseMKL
from manykernels.estimators.supervised.posterior import posterior_of
from manykernels.estimators.supervised.samples import Samples, check_lengths, numeric_targets, sample_weights
from manykernels.exceptions import InvalidInputError
from manykernels.kernels.bank.columns import Table
from manykernels.objective.losses import LOSSES, Loss
from manykernels.objective.regularizers import Regularizer
from manykernels.solvers import Solver
from manykernels.threads import blas_limit
from manykernels.validation.arrays import Array, TableLike
from manykernels.validation.parameters import RandomSource

PARTS_BYTES = 2**27  # of parts of predictions that are held together


def _has_link(regressor: MKLRegressor) -> bool:
    if regressor._levels is not None:
        return True  # the scores may cross, the predictions do not
    loss = LOSSES.get(regressor.loss) if isinstance(regressor.loss, str) else type(regressor.loss)
    if loss is None or loss.mean is Loss.mean:
        raise AttributeError(f"With loss={regressor.loss!r} scores are predictions: use predict.")
    return True


class MKLRegressor(RegressorMixin, BaseMKL):
    r"""Regressor with kernel selection among many kernels.

    Minimizes

    .. math:: \sum_i s_i\, \ell(y_i, f(x_i) + b) + \alpha \Big(\sum_i s_i\Big)\, \Omega(\|f_1\|, \dots, \|f_M\|),
       \qquad f = \sum_m f_m,

    over one function :math:`f_m` per kernel, and returns a duality gap, which bounds the distance to the minimum. With
    several targets, one problem per target is solved on the same kernels, with its own kernel weights unless they are
    shared.

    Parameters
    ----------
    kernels : KernelBank, PrecomputedBank, PairKernels, "precomputed" or None, default=None
        The kernels. None: Gaussian kernels of three widths and a linear kernel, on every column and on all columns
        (:meth:`KernelBank.auto`); of a sparse X on all columns together, which are not standardized. With
        "precomputed", X is a :class:`KernelStack`, an (M, N, N) array or a list of (N, N) arrays, used unchanged,
        without normalization; a :class:`PrecomputedBank` normalizes it. With :class:`PairKernels`, and with None if X
        is :class:`Pairs`, the samples are pairs.
    loss : {"squared", "epsilon_insensitive", "huber", "quantile", "poisson", "gamma"} or Loss, default="squared"
        Loss function; the squared loss is ``(y - z)^2 / 2``. With "poisson" (counts) and "gamma" (positive amounts),
        which are half the deviance, ``f(x) + b`` is the logarithm of the mean, and :meth:`predict` returns the mean.
        Counts with an exposure are fitted as ``fit(X, counts / exposure, sample_weight=exposure)``, amounts with an
        exposure as ``fit(X, amounts / exposure)``.
    loss_parameters : LossParameters, dict or None, default=None
        ``epsilon`` of ``"epsilon_insensitive"``, ``delta`` of ``"huber"``, ``tau`` of ``"quantile"``, for example
        ``{"tau": 0.9}``; see :class:`~manykernels.estimators.LossParameters`.
    penalty : str, dict or Regularizer, default="l1"
        ``"l1"``, ``"elasticnet"``, ``"lq"``, ``"ridge"``, ``"group_elasticnet"``, or a set of kernel weights,
        ``"simplex"``, ``"lp_ball"``, ``"elasticnet_ball"``. A Regularizer object has its own strength, in place of
        ``alpha``. A dict sets penalties by kernel: ``{"subject": "ridge", "*": "l1"}`` maps names or patterns of
        kernels to penalties; strengths of objects are factors of ``alpha``.
    alpha : float or str, default="auto"
        Strength of the penalty relative to the mean loss, positive. Targets are not standardized: with the squared loss
        and ``"l1"``, a target multiplied by c needs c times the number. A string gives the strength relative to the
        smallest one that yields an empty model. It is computed per target and does not depend on the unit of y or the
        scale of the kernels. ``"0.1*max"`` is a tenth of it, ``"0.3*noise"`` is 0.3 of it for a shuffled target.
        ``"auto"`` is ``"0.2*noise"``, up to ``"0.5*noise"`` if most kernels are noise, and ``"0.07*noise"`` or
        ``"0.024*noise"`` if this clearly lowers the leave-one-out loss.
    l1_ratio : float, default=0.5
        For ``"elasticnet"``: 1 is ``"l1"``, 0 is ``"ridge"``; also for ``"group_elasticnet"``, below 1.
    q : float, default=1.5
        For ``"lq"`` and ``"group_elasticnet"``: exponent, above 1 and at most 2.
    p : float, default=2.0
        For ``"lp_ball"``: exponent of the ball of weights, at least 1.
    eta : float, default=0.5
        For ``"elasticnet_ball"``: share of the 1-norm, between 0 and 1.
    outputs : {"own", "shared"}, default="own"
        One set of kernel weights per target ("own"), or one set for all targets ("shared"); see Notes.
    solver : str or Solver, default="auto"
        Name of a solver, or a configured solver, whose own ``tol``, ``max_iter``, ``time_limit``, ``callback`` and
        ``verbose`` apply.
    fit_intercept : bool, default=True
        Learn the intercept ``b``.
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
    kernel_weights_ : ndarray of shape (n_kernels,) or (n_targets, n_kernels)
        Weights ``d`` of the kernels; a row per target if y has two dimensions and targets do not share them.
    alpha_ : float or ndarray of shape (n_targets,)
        Strength used, relative to the mean loss; for ``"elasticnet"`` the sum over both terms. Absent if the penalty is
        an object.
    l1_ratio_ : float or ndarray of shape (n_targets,)
        Share of the norms used, for mixed penalties. A relative ``alpha`` is a fraction of the largest strength per
        term, so the share differs from ``l1_ratio``; with ``alpha_`` the numeric parameters of the fit.
    noise_ratio_ : float or ndarray of shape (n_targets,)
        The strength divided by the smallest one that yields an empty model for shuffled y. Below 1, part of the
        selection may be noise.
    noise_p_value_ : float or ndarray of shape (n_targets,)
        P-value of a permutation test of the relation between y and the kernels (199 permutations, fewer for more than
        500 samples; from 19 on for a given ``alpha``). A fit warns if it is above 0.05 for all outputs together. The
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
    dual_coef_ : ndarray of shape (n_support,) or (n_targets, n_support)
        Dual coefficients ``rho`` of the support samples. Like ``support_``, absent for models of factors, which keep no
        samples.
    support_ : ndarray of shape (n_support,)
        Positions of the training samples with a nonzero dual coefficient for any target.
    intercept_ : float or ndarray of shape (n_targets,)
        The constant ``b``.
    dual_gap_ : float
        Relative duality gap of the exact kernels; the largest over the targets.
    representation_ : {"gram", "factored"}
        How the kernels were stored.
    approximate_gap_ : float
        With factors: relative gap of the problem with factors in place of kernels. It does not bound the gap of the
        kernels.
    n_iter_ : int
        Number of outer iterations, at least 1; the maximum over the targets.
    solution_ : Solution or tuple of Solution
        Result of the solver, one per target if y has two dimensions, one with shared weights.
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
    MKLClassifier : Classification.
    manykernels.solve : Solve one problem without an estimator, from Gram matrices or a bank.

    Notes
    -----
    ``f(x) = sum_m d_m sum_i rho_i k_m(x, x_i) + b``: prediction evaluates active kernels on support samples only.

    With ``outputs="shared"`` and y of two dimensions, one problem is solved for all targets. The norm of a kernel is
    that over all targets, ``||f_m||^2 = sum_t ||f_mt||^2``, so a kernel is selected for all targets or for none. The
    loss is summed over the targets and must be differentiable, like ``"squared"`` or ``"huber"``, unless kernels are
    stored as factors. Targets of larger scale have more influence; standardize them to avoid this. ``dual_gap_`` is the
    gap of the joint problem.

    References
    ----------
    T. Suzuki, R. Tomioka, "SpicyMKL: a fast algorithm for multiple kernel learning with thousands of kernels",
    Machine Learning 85 (2011).

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import MKLRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, size=(60, 3))
    >>> model = MKLRegressor(alpha=0.01).fit(X, np.sin(2 * X[:, 1]))
    >>> model.weights_frame()["columns"].iloc[0], model.score(X, np.sin(2 * X[:, 1])) > 0.9
    ('x1', True)
    """

    _groups: ClassVar[tuple[str, ...]] = ("resources", "loss_parameters")
    _takes_sparse = True
    _task = "regression"
    _other = "MKLClassifier"
    _target_word = "output"

    def __init__(
        self,
        kernels: Kernels = None,
        *,
        loss: str | Loss = "squared",
        loss_parameters: LossParameters | Mapping[str, Any] | None = None,
        penalty: str | Mapping[str, str | Regularizer] | Regularizer = "l1",
        alpha: float | str = "auto",
        l1_ratio: float = 0.5,
        q: float = 1.5,
        p: float = 2.0,
        eta: float = 0.5,
        outputs: str = "own",
        solver: str | Solver = "auto",
        fit_intercept: bool = True,
        kernel_penalties: ArrayLike | Mapping[str, float] | None = None,
        tol: float = 1e-4,
        random_state: RandomSource = None,
        resources: Resources | Mapping[str, Any] | None = None,
    ) -> None:
        self.kernels, self.loss, self.loss_parameters = kernels, loss, loss_parameters
        self.penalty = penalty
        self.alpha: Any = alpha
        self.l1_ratio, self.q, self.p, self.eta = l1_ratio, q, p, eta
        self.outputs, self.solver, self.fit_intercept = outputs, solver, fit_intercept
        self.kernel_penalties, self.tol, self.random_state = kernel_penalties, tol, random_state
        self.resources = resources

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    @property
    def _levels(self) -> Array | None:
        """The simultaneous quantiles; None for other losses and a single quantile."""
        tau = self._group("loss_parameters").tau
        several = isinstance(self.loss, str) and self.loss == "quantile" and np.ndim(tau) == 1
        return np.asarray(tau, dtype=np.float64) if several else None

    def _losses(self, losses: list[Loss]) -> list[Loss]:
        levels: Any = self._levels
        if levels is None:
            return losses
        return [replace(cast("Any", loss), tau=float(tau)) for loss, tau in zip(losses, levels, strict=True)]

    def _check_target(self, y: ArrayLike) -> Array:
        name = getattr(self.loss, "name", self.loss)
        return numeric_targets(y, loss=name)

    def _encoded(self, samples: Samples) -> Samples:
        levels = self._levels
        if levels is not None and samples.y.ndim > 1:
            raise InvalidInputError(
                f"Several quantiles are estimated of one target, but y has shape {samples.y.shape}; give one tau, or "
                "fit one model for each column of y."
            )
        self._single = samples.y.ndim == 1 and levels is None
        if levels is not None:
            return samples.with_targets(np.repeat(samples.y[:, None], len(levels), axis=1))
        return samples.with_targets(samples.y.reshape(len(samples.y), -1))

    def predict(self, X: TableLike, return_std: bool = False) -> Any:
        """Return the predicted targets.

        Parameters
        ----------
        X : DataFrame, array-like of shape (n_samples, n_features), or precomputed kernels
            Samples. Precomputed: a view of the KernelStack that was split, or an (M, n_samples, n_train) array.
        return_std : bool, default=False
            Whether to return standard deviations too, for the squared loss: of the function, not of new targets, by the
            Gaussian process with the penalty at the learned weights as prior. The deviations are plug-in, ignoring the
            uncertainty of the weights. Unavailable for precomputed kernels.

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_targets)
            In the unit of y; the mean for losses with a logarithmic link. Of several quantiles, a column for each:
            the scores of every sample in increasing order, which never is a worse estimate than the scores as they are
            (the rearrangement of Chernozhukov, Fernandez-Val and Galichon, Econometrica 78, 2010).
        std : ndarray of the same shape
            Only with ``return_std``.

        Raises
        ------
        InvalidInputError
            If the model has no standard deviations; the message says why.

        Examples
        --------
        >>> from manykernels import MKLRegressor
        >>> MKLRegressor(alpha=0.1).fit([[0.0], [1.0], [2.0], [3.0]], [0.0, 1.0, 2.0, 3.0]).predict([[1.5]]).round(3)
        array([1.5])
        """
        scores = self._values(X)
        predicted = self._loss.mean(scores) if self._levels is None else np.sort(scores, axis=1)
        return (predicted, self._deviations(X)) if return_std else predicted

    def _deviations(self, X: TableLike) -> Array:
        """Return the standard deviations of the functions at new rows."""
        if self._loss.name != "squared":
            raise InvalidInputError(
                f"return_std is for loss='squared', whose predictions are Gaussian, not for {self._loss.name!r}: take "
                "bands of the score (ShapeDisplay), quantiles (loss='quantile') or conformal intervals."
            )
        if self._takes_kernels:
            raise InvalidInputError("return_std needs k(x, x) of new rows, which precomputed kernels do not have.")
        rows = self._check_rows(X)
        targets = range(self._expansion.n_targets)
        found = np.sqrt(np.column_stack([posterior_of(self, target).variance(rows) for target in targets]))
        return found[:, 0] if self._single else found

    @available_if(_has_link)
    def decision_function(self, X: TableLike) -> Array:
        """Return the scores ``f(x) + b``, the logarithms of the predictions; for the losses "poisson" and "gamma" only.

        With several quantiles the values before sorting.

        Parameters
        ----------
        X : DataFrame, array-like of shape (n_samples, n_features), or precomputed kernels
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_targets)

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels import MKLRegressor
        >>> X = [[0.0], [1.0], [2.0], [3.0]]
        >>> model = MKLRegressor(loss="poisson").fit(X, [1, 2, 4, 9])
        >>> np.allclose(np.exp(model.decision_function(X)), model.predict(X))
        True
        """
        return self._values(X)

    def score(self, X: TableLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the share of the variance that is explained; of the deviance for "poisson" and "gamma".

        Of several quantiles, the share of the quantile losses saved, averaged over the quantiles.

        Parameters
        ----------
        X : DataFrame, array-like of shape (n_samples, n_features), or precomputed kernels
            Samples.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Their targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples.

        Returns
        -------
        float
            ``1 - sum s l(y, z) / sum s l(y, b)`` with half the squared error or half the deviance ``l``, and the best
            constant ``b``; averaged over targets.

        Examples
        --------
        >>> from manykernels import MKLRegressor
        >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [1, 2, 4, 9]
        >>> MKLRegressor(loss="poisson", alpha=0.001).fit(X, y).score(X, y) > 0.95
        True
        """
        check_is_fitted(self)
        levels = self._levels
        if levels is not None:
            target = numeric_targets(y)
            weight = sample_weights(sample_weight, len(target))
            losses, columns = self._losses([self._loss] * len(levels)), self.predict(X).T
            saved = [_explained(loss, target, z, weight) for loss, z in zip(losses, columns, strict=True)]
            return float(np.mean(saved))
        if self._loss.support == "real":
            return float(super().score(X, y, sample_weight))
        scores = self._scores(X)
        targets = numeric_targets(y).reshape(len(scores), -1)
        weight = sample_weights(sample_weight, len(scores))
        shares = [_explained(self._loss, target, z, weight) for target, z in zip(targets.T, scores.T, strict=True)]
        return float(np.mean(shares))

    def target_frame(self, X: TableLike, y: ArrayLike) -> pd.DataFrame:
        """Return the R2 of each target, split by kernel.

        With centered targets ``y``, centered parts ``f_m`` of the predictions and their sum ``f``, the share of a
        kernel is ``f_m' (2 y - f) / y'y``. Shares add up to the R2, together with ``bias``, the loss of R2 due to the
        difference between the means of predictions and targets.

        Parameters
        ----------
        X : DataFrame, array-like of shape (n_samples, n_features), or precomputed kernels
            Samples, usually others than those of the fit.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Their targets.

        Returns
        -------
        DataFrame
            A row for each target: ``r2``, ``bias`` (zero or negative), and a column for each active kernel. NaN for
            targets of a single value.

        Raises
        ------
        InvalidInputError
            If predictions are not sums of parts (the losses "poisson" and "gamma", several quantiles), or y has
            another number of targets.

        See Also
        --------
        decompose : The parts.
        variance_frame : The variance of the predictions split by kernel.

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels import KernelBank, Linear, MKLRegressor
        >>> X = np.random.default_rng(0).normal(size=(80, 2))
        >>> y = np.column_stack([X[:, 0], X[:, 0] + X[:, 1]])
        >>> model = MKLRegressor(KernelBank.per_feature(Linear()), alpha=0.01).fit(X[:60], y[:60])
        >>> table = model.target_frame(X[60:], y[60:])
        >>> table.shape, bool(np.allclose(table.drop(columns="r2").sum(axis=1), table["r2"]))
        ((2, 4), True)
        """
        check_is_fitted(self)
        if self._levels is not None or self._loss.mean(np.ones(1))[0] != 1.0:
            what = "several quantiles" if self._levels is not None else f"loss={self._loss.name!r}"
            raise InvalidInputError(
                f"R2 is split by kernel where predictions are sums over kernels, not for {what}. Use score(X, y)."
            )
        rows = self._check_rows(X)
        targets = numeric_targets(y)
        targets = targets.reshape(len(targets), -1)
        if targets.shape[1] != self._expansion.n_targets:
            raise InvalidInputError(f"y has {targets.shape[1]} targets, but the model has {self._expansion.n_targets}.")
        check_lengths(len(rows), len(targets))
        with blas_limit(self._n_threads):
            found = self._split_r2(rows, targets)
        names = ["r2", "bias", *self._expansion.bank.names]
        return pd.DataFrame(found.T, columns=names, index=pd.Index(self._output_labels(), name=self._target_word))

    def _split_r2(self, rows: Any, targets: Array) -> Array:
        """Return R2, the part due to the means, and the part of each active kernel, (2 + m, T), some rows at a time."""
        expansion, n = self._expansion, len(targets)
        step = max(PARTS_BYTES // (8 * max(expansion.active.size, 1) * expansion.n_targets), 2)
        step = step if isinstance(rows, Table) else n
        centered = targets - targets.mean(axis=0)
        products, sums, shift = cast("Any", (0.0, 0.0, None))
        for first in range(0, n, step):
            at = slice(first, first + step)
            parts = expansion.active_contributions(rows if step >= n else rows[np.arange(n)[at]])
            shift = parts.mean(axis=1) if shift is None else shift
            parts -= shift[:, None, :]
            products = products + np.einsum("mnt,nt->mt", parts, 2.0 * centered[at] - parts.sum(axis=0))
            sums = sums + parts.sum(axis=1)
        means = sums / n
        total = np.square(centered).sum(axis=0)
        apart = np.asarray(self.intercept_) + (shift + means).sum(axis=0) - targets.mean(axis=0)
        shares = np.vstack([-n * apart**2, products + n * means * means.sum(axis=0)])
        shares /= np.where(np.ptp(targets, axis=0) > 0, total, np.nan)
        return np.vstack([shares.sum(axis=0), shares])

    def _target_labels(self) -> Array:
        return self._output_labels() if self._levels is None else self._levels


def _explained(loss: Loss, target: Array, scores: Array, weight: Array) -> float:
    """Return the share of the constant loss explained by scores."""
    target = loss.check_target(target)
    constant = loss.best_intercept(target, np.zeros(len(target)), weight)
    left, whole = (float(weight @ loss.value(target, z)) for z in (scores, np.full(len(target), constant)))
    return 1.0 - left / whole if whole > 0 else float(left == 0)
