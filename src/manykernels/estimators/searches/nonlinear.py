"""Learning with one polynomial kernel whose columns have learned weights: non-linear multiple kernel learning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from manykernels.discovery import Discovery, Limits, SearchProblem, discover_nonlinear
from manykernels.estimators.groups import Resources
from manykernels.estimators.searches.base import BaseKernelSearch
from manykernels.estimators.supervised.problems import Fit
from manykernels.estimators.supervised.samples import Samples
from manykernels.validation.arrays import Array


class NonlinearMKL(BaseKernelSearch):
    r"""Regressor or classifier on a non-linear combination of kernels (NLMKL).

    The kernel is :math:`k_\theta(x, z) = \big(\theta_0 + \sum_j \theta_j x_j z_j\big)^D`: all products of up to D
    columns, but with weights that are products of the p + 1 weights of the columns. Minimizes over
    :math:`\theta \ge 0,\ \|\theta - \theta_{\text{ref}}\|_2 \le \Lambda`

    .. math:: J(\theta) = \min_{f, b} \sum_i s_i\, \ell(y_i, f(x_i) + b)
        + \frac{\alpha \sum_i s_i}{2}\, \|f\|^2_{k_\theta}

    by projected gradient steps. The loss decides the task.

    Parameters
    ----------
    loss : {"squared", "logistic", "hinge"}, default="squared"
        "squared" learns numbers, the others learn classes.
    alpha : float, default=0.01
        Strength of the penalty relative to the mean loss, positive.
    degree : int, default=2
        The power D.
    radius : float, default=1.0
        How far the weights may be from their reference. The objective always falls as weights grow, so that they end at
        this distance.
    reference : float or array-like of shape (n_weights,), default=None
        Non-negative weights :math:`\theta_{\text{ref}}`; None is one over their number.
    constant : bool, default=True
        Whether the constant kernel is among the base kernels (its weight is then the last one of ``reference``).
        Without it only products of exactly D columns are in the kernel.
    standardize : bool, default=True
        Whether columns are brought to mean 0 and standard deviation 1 first.
    fit_intercept : bool, default=True
        Whether to learn the constant ``b``.
    tol : float, default=1e-4
        Stationarity to reach: how much the objective could still fall to first order, relative to its value.
    resources : Resources, dict or None, default=None
        Time, memory, threads and progress: ``max_iter``, ``time_limit``, ``verbose``; see
        :class:`~manykernels.estimators.Resources`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels; for the losses of classification.
    base_weights_ : ndarray of shape (n_features,) or (n_targets, n_features)
        Weights :math:`\theta_j` of the columns.
    constant_weight_ : float or ndarray of shape (n_targets,)
        Weight of the constant kernel.
    stationarity_ : float
        The largest over the targets; see ``tol``.
    kernel_names_ : list of str
        The kernel found for each target.
    kernel_weights_ : ndarray of shape (n_kernels,) or (n_targets, n_kernels)
        Their weights ``d``, one over the strength.
    kernel_norms_ : ndarray of the same shape
        Norms ``||f_m||``.
    dual_coef_ : ndarray of shape (n_support,) or (n_targets, n_support)
        Dual coefficients ``rho`` of the support samples.
    support_ : ndarray of shape (n_support,)
        Positions of the training samples with a nonzero dual coefficient.
    intercept_ : float or ndarray of shape (n_targets,)
        The constant ``b``.
    dual_gap_ : float
        Relative duality gap of the model with its kernel: not a bound over other kernels.
    n_iter_ : int
        Gradient steps, at least 1.
    solution_ : Solution or tuple of Solution
        Certificate, history and message of each target.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (n_features,)
        Column names, if X had text names.

    See Also
    --------
    PolynomialMKL : Weighs each product of columns by itself; a convex problem with a certificate over all of them.
    manykernels.discovery.discover_nonlinear : The search without an estimator.

    Notes
    -----
    For ``degree`` above 1 the problem is not convex: what is found is a stationary point, and no bound on its distance
    from the global minimum is known. Weights of zero do not occur unless a column is constant: the gradient is never
    positive, so that no weight ends below its reference.

    References
    ----------
    C. Cortes, M. Mohri, A. Rostamizadeh, "Learning non-linear combinations of kernels", NIPS 2009.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import NonlinearMKL
    >>> X = np.random.default_rng(0).normal(size=(100, 4))
    >>> model = NonlinearMKL(alpha=1e-3).fit(X, X[:, 0] * X[:, 1])
    >>> round(model.score(X, X[:, 0] * X[:, 1]), 2), sorted(model.base_weights_.argsort()[-2:].tolist())
    (1.0, [0, 1])
    """

    fitted_extras: ClassVar[tuple[str, ...]] = ("base_weights_", "constant_weight_", "stationarity_")
    penalty_name: ClassVar[str] = "ridge"
    tol_measure: ClassVar[str] = "stationarity"

    _max_iter = 100

    def __init__(
        self,
        loss: str = "squared",
        *,
        alpha: float = 0.01,
        degree: int = 2,
        radius: float = 1.0,
        reference: ArrayLike | None = None,
        constant: bool = True,
        standardize: bool = True,
        fit_intercept: bool = True,
        tol: float = 1e-4,
        resources: Resources | Mapping[str, Any] | None = None,
    ) -> None:
        self.loss = loss
        self.alpha = alpha
        self.degree = degree
        self.radius = radius
        self.reference = reference
        self.constant = constant
        self.standardize = standardize
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.resources = resources

    @property
    def tol_reached(self) -> float:
        """What was reached of what ``tol`` asks for: the stationarity."""
        return self.stationarity_

    def _search(self, problem: SearchProblem) -> Discovery:
        """Find the weights of one target."""
        limits = Limits(self.tol, **self._resources.limits(), name="projected gradient descent")
        return discover_nonlinear(problem, limits=limits, **self._given_to(discover_nonlinear))

    def _keep_found(self, samples: Samples, found: list[Any]) -> Fit:
        """Keep the model, and the weights of the columns."""
        fit = super()._keep_found(samples, found)
        weights = np.array([part.base_weights for part in found])
        constants = np.array([part.constant_weight for part in found])
        self.base_weights_: Array = weights[0] if self._single else weights
        self.constant_weight_: float | Array = float(constants[0]) if self._single else constants
        self.stationarity_ = max(part.stationarity for part in found)
        return fit
