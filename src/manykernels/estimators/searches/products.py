"""Learning with products of columns: interactions are found among all products, under heredity, or in a power."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from manykernels.discovery import (
    Discovery,
    HierarchicalDiscovery,
    Limits,
    PolynomialDiscovery,
    SearchProblem,
    discover_hierarchical,
    discover_nonlinear,
    discover_polynomial,
)
from manykernels.discovery.polynomial.empty import empty_strength
from manykernels.discovery.polynomial.family_norm import weakest
from manykernels.estimators.parameters import Resources
from manykernels.estimators.permutations import noise_seed
from manykernels.estimators.searches.base import BaseKernelSearch
from manykernels.estimators.strength import AUTO, alpha_from_strength, relative_strength, strength_from_alpha
from manykernels.estimators.supervised.problems import Fit
from manykernels.estimators.supervised.samples import Rows, Samples
from manykernels.exceptions import InvalidInputError
from manykernels.kernels import KernelSpec
from manykernels.objective.losses import Loss
from manykernels.validation.arrays import Array, check_count
from manykernels.validation.parameters import RandomSource

# Of the strength at which noise leaves no product; chosen by `python benchmarks/search_defaults.py --products`
NOISE_SHARE = 0.1


class PolynomialMKL(BaseKernelSearch):
    r"""Regressor or classifier on interactions of columns, found among all products of at most ``degree`` columns.

    Minimizes over all ordered products :math:`i = (j_1, \dots, j_d)`, :math:`0 \le d \le D`, of base kernels

    .. math:: \sum_n s_n\, \ell(y_n, f(x_n) + b) + \frac{\alpha \sum_n s_n}{2}
        \min_{\theta \ge 0,\, \|\theta\|_p \le 1} \sum_i \frac{\rho_d^2 \|f_i\|^2}{\theta_i}, \qquad f = \sum_i f_i,

    with a duality gap over the whole family, however large. The base kernels are linear in single columns by default;
    the kernels found are named like "age x dose x dose". The loss decides the task.

    Parameters
    ----------
    degree : int, default=3
        Most factors of a product, ``D``, from 1 to 8.
    p : float, default=1.0
        From 1 (few interactions, the rest exactly zero) to 2 (all interactions have some weight, the choice of the
        thesis). With thousands of products or more, a p near 1 is what can be learned to a small gap.
    degree_penalties : sequence of float or None, default=None
        The ``degree + 1`` penalties ``rho_d`` of the degrees from 0 on, one by default. Larger values for higher
        degrees make interactions rarer.
    base : KernelSpec or None, default=None
        Kernel of every column that products are made of; None is linear, the fast case.
    normalize : {"power", "centered"} or None, default="power"
        "power" divides every power of a column by the respective root mean square, and the power of another kernel by
        the mean diagonal, so products of all kinds are penalized alike; "centered" takes the means of powers off first
        (linear base only). None leaves products unchanged.
    loss : {"squared", "logistic", "hinge"}, default="squared"
        "squared" learns numbers, the rest learn classes.
    alpha : float or str, default="auto"
        Strength of the penalty relative to the mean loss, positive. Text is relative to the strength of the empty
        model, for every class or target: ``"0.1*max"`` is a tenth, ``"0.3*noise"`` 0.3 of the strength for y in random
        order (a geometric mean over a few orders), and ``"auto"`` is ``"0.1*noise"``.
    cv : int or None, default=None
        Number of parts of a cross-validation that chooses the strength in place of ``alpha``; for the squared loss,
        ``p=1`` and linear base kernels. Products are then found best with ``normalize="centered"``.
    adaptive : bool, default=False
        Whether a second step learns anew with the products selected, every penalized by one over the norm: large parts
        are shrunk less, and fewer products remain. With ``cv``, the strength is chosen as well.
    standardize : bool, default=True
        Whether columns are brought to mean 0 and standard deviation 1 first.
    fit_intercept : bool, default=True
        Learn the intercept ``b``.
    n_steps : int, default=100
        Steps of the stochastic mirror descent, each with ``batch`` products drawn by the size of their gradients. With
        the squared loss, ``p=1``, linear base kernels and ``polish`` a lasso path takes their place.
    step_size : float or None, default=None
        Constant step of the mirror descent; by default steps adapt to the gradients.
    batch : int, default=1
        Products drawn a step; they share most of the work of a step.
    step_scale : float, default=1.0
        Multiplier of adaptive steps.
    restarts : int, default=0
        How often the descent begins anew from the average so far, after equal numbers of steps.
    polish : bool, default=True
        Whether to alternate exact solutions on the found kernels with additions of the worst violators. False is the
        plain method of the thesis.
    max_kernels : int, default=500
        Most kernels of a polished model.
    tol : float, default=0.01
        Relative duality gap, over the whole family, to reach.
    random_state : int, RandomState instance or None, default=0
        Of the draws; None draws anew at every fit.
    resources : Resources, dict or None, default=None
        Time, memory, threads and progress: ``max_iter``, ``time_limit``, ``verbose``; see
        :class:`~manykernels.estimators.Resources`.

    Attributes
    ----------
    alpha_ : float or ndarray of shape (n_targets,)
        The strength, as given or chosen.
    classes_ : ndarray of shape (n_classes,)
        The labels; for the losses of classification.
    n_family_kernels_ : int
        Number of distinct products that were searched.
    certificate_method_ : {"enumeration", "identity", "bound"}
        How the dual bound over all products was found: the first two are exact, the last is an upper bound on the norm.
        Of several targets, the least exact.
    kernel_names_ : list of str
        Names of the products found, for example "age x dose x dose"; the constant product is "1".
    kernel_weights_ : ndarray of shape (n_kernels,) or (n_targets, n_kernels)
        Weights ``d`` of the products.
    kernel_norms_ : ndarray of the same shape
        Norms ``||f_m||``; for linear base kernels the absolute coefficients of the monomials, normalized.
    dual_coef_ : ndarray of shape (n_support,) or (n_targets, n_support)
        Dual coefficients ``rho`` of the support samples.
    support_ : ndarray of shape (n_support,)
        Positions of the training samples with a nonzero dual coefficient.
    intercept_ : float or ndarray of shape (n_targets,)
        The constant ``b``.
    dual_gap_ : float
        Relative duality gap over the whole family.
    n_iter_ : int
        Certified models on the way.
    solution_ : Solution or tuple of Solution
        Certificate, history and message of every target.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (n_features,)
        Column names, if X had text names.

    See Also
    --------
    MKLRegressor : Learns with kernels that are listed.
    manykernels.discovery.discover_polynomial : The search without an estimator.

    Notes
    -----
    Permutations of a product are a single kernel, with a penalty equivalent to the problem over ordered products.

    References
    ----------
    Afkanpour, Multiple kernel learning with many kernels, thesis (2013), sections 4.1 and 4.2: Algorithms 1 to 3.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from manykernels import PolynomialMKL
    >>> X = pd.DataFrame(np.random.default_rng(0).normal(size=(100, 4)), columns=["age", "dose", "height", "weight"])
    >>> y = X["age"] * X["dose"] ** 2 + 0.5 * X["height"]
    >>> model = PolynomialMKL(degree=3, p=1.0, alpha=1e-3, random_state=0).fit(X, y)
    >>> model.weights_frame()["name"].head(2).tolist(), model.n_family_kernels_
    (['age x dose x dose', 'height'], 35)
    """

    fitted_extras: ClassVar[tuple[str, ...]] = ("certificate_method_", "n_family_kernels_")
    penalty_name: ClassVar[str] = "lp_ball"

    _max_iter = 30

    def __init__(
        self,
        degree: int = 3,
        *,
        p: float = 1.0,
        degree_penalties: Sequence[float] | None = None,
        base: KernelSpec | None = None,
        normalize: str | None = "power",
        loss: str = "squared",
        alpha: float | str = AUTO,
        cv: int | None = None,
        adaptive: bool = False,
        standardize: bool = True,
        fit_intercept: bool = True,
        n_steps: int = 100,
        step_size: float | None = None,
        batch: int = 1,
        step_scale: float = 1.0,
        restarts: int = 0,
        polish: bool = True,
        max_kernels: int = 500,
        tol: float = 1e-2,
        random_state: RandomSource = 0,
        resources: Resources | Mapping[str, Any] | None = None,
    ) -> None:
        self.degree, self.p, self.degree_penalties, self.base = degree, p, degree_penalties, base
        self.normalize, self.loss, self.alpha, self.cv = normalize, loss, alpha, cv
        self.adaptive, self.standardize, self.fit_intercept = adaptive, standardize, fit_intercept
        self.n_steps, self.step_size, self.batch = n_steps, step_size, batch
        self.step_scale, self.restarts, self.polish = step_scale, restarts, polish
        self.max_kernels, self.tol, self.random_state = max_kernels, tol, random_state
        self.resources = resources

    def _search(self, problem: SearchProblem) -> PolynomialDiscovery:
        if self.base is not None and not isinstance(self.base, KernelSpec):
            raise InvalidInputError(f"base must be a kernel such as Gaussian('median'), or None, got {self.base!r}.")
        folds = None if self.cv is None else check_count(self.cv, "cv", least=2)
        return discover_polynomial(
            problem, folds=folds, limits=Limits(self.tol, **self._resources.limits()),
            **self._shared_parameters(discover_polynomial),
        )  # fmt: skip

    def _strength(self, problem: SearchProblem, total_weight: float) -> float:
        """Return the strength for a single target; text is relative to the strength of the empty model."""
        asked = relative_strength(self.alpha)
        if asked is None:
            return strength_from_alpha(self.alpha, total_weight)
        if self.cv is not None:
            return total_weight  # which folds replace
        seed = noise_seed(self.random_state) if asked.unit == "noise" else None
        factor = NOISE_SHARE if self.alpha == AUTO else asked.factor
        return factor * empty_strength(problem, seed, **self._shared_parameters(empty_strength))

    def _search_each(self, rows: Rows, targets: Array, weight: Array, loss: Loss) -> list[Discovery]:
        found = super()._search_each(rows, targets, weight, loss)
        parts = [part for part in found if isinstance(part, PolynomialDiscovery)]
        alphas = np.array([alpha_from_strength(part.strength, float(weight.sum())) for part in parts])
        self.alpha_ = float(alphas[0]) if self._single else alphas
        self.n_family_kernels_ = parts[0].n_distinct
        self.certificate_method_ = weakest([part.method for part in parts])
        return found


class HierarchicalMKL(BaseKernelSearch):
    r"""Regressor or classifier on all products of one-dimensional kernels, under strong heredity.

    Hierarchical kernel learning (HKL) minimizes over the directed acyclic graph V of products

    .. math:: \sum_i s_i\, \ell(y_i, f(x_i) + b) + \frac{\alpha \sum_i s_i}{2}
        \Big( \sum_{v \in V} d_v \|f_{D(v)}\| \Big)^2, \qquad f = \sum_{v \in V} f_v, \quad
        \|f_{D(v)}\|^2 = \sum_{w \in D(v)} \|f_w\|^2,

    where D(v) are the products that v divides, v among them. The norm makes all of :math:`f_{D(v)}` vanish together, so
    an interaction like "age x dose" is selected only if "age" and "dose" are. Because of this the graph is searched
    from the root, at a cost that is polynomial in the number of kernels selected, and the duality gap still holds for
    every kernel of the graph. The loss decides the task.

    Parameters
    ----------
    kernels : {"polynomial", "multilinear", "anova"} or KernelSpec, default="polynomial"
        Factors: "polynomial" columns with powers up to ``degree`` (monomials); "multilinear" columns at most once;
        "anova" Gaussian kernels of width 1 on different columns; a kernel of a single column, for example
        ``Laplacian(2.0)``, takes the place of the Gaussian.
    degree : int, default=3
        Largest number of factors of a product.
    loss : {"squared", "logistic", "hinge", "squared_hinge"}, default="squared"
        "squared" learns numbers, the rest learn classes.
    alpha : float, default=1e-3
        Strength of the penalty relative to the mean loss, positive.
    growth : float or array-like of shape (n_features,), default=3.0
        Ratio of the penalty of a product to that of a product with a single factor less, at least 1. Large values
        prefer small products and shorten the search. One number per column gives columns that are expected in
        interactions a smaller penalty: :math:`d_v = \prod_k \text{growth}_k^{v_k}`.
    normalize : {"power", "centered"} or None, default=None
        Of monomials: "power" divides every power of a column by the respective root mean square, "centered" takes the
        mean off first, None leaves it unchanged.
    max_kernels : int, default=1000
        Most kernels the search may visit.
    standardize : bool, default=True
        Whether columns are brought to mean 0 and standard deviation 1 first.
    fit_intercept : bool, default=True
        Whether to learn the constant ``b``, which is not penalized.
    tol : float, default=1e-3
        Relative duality gap, over the whole graph, to reach.
    resources : Resources, dict or None, default=None
        Time, memory, threads and progress: ``max_iter``, ``time_limit``, ``verbose``; see
        :class:`~manykernels.estimators.Resources`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels; for the losses of classification.
    kernel_names_ : list of str
        The products selected, for example ``"age x dose"``; ``"1"`` is the constant kernel.
    kernel_weights_ : ndarray of shape (n_kernels,) or (n_targets, n_kernels)
        Weights ``d`` of the kernels.
    kernel_norms_ : ndarray of the same shape
        Norms ``||f_m||``.
    n_visited_ : int or list of int
        Kernels that the search visited, for every target.
    dual_coef_ : ndarray of shape (n_support,) or (n_targets, n_support)
        Dual coefficients ``rho`` of the support samples.
    support_ : ndarray of shape (n_support,)
        Positions of the training samples with a nonzero dual coefficient.
    intercept_ : float or ndarray of shape (n_targets,)
        The constant ``b``.
    dual_gap_ : float
        Relative duality gap over the whole graph.
    n_iter_ : int
        Rounds of the search.
    solution_ : Solution or tuple of Solution
        Certificate, history and message of every target.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (n_features,)
        Column names, if X had text names.

    See Also
    --------
    MKLRegressor : Learns with kernels that are listed.
    manykernels.discovery.discover_hierarchical : The search without an estimator.

    References
    ----------
    Bach, Exploring large feature spaces with hierarchical multiple kernel learning, NIPS 21 (2008). Afkanpour,
    Multiple kernel learning with many kernels, thesis (2013), (2.13) to (2.15).

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from manykernels import HierarchicalMKL
    >>> data = pd.DataFrame(np.random.default_rng(0).standard_normal((200, 4)), columns=["age", "dose", "sex", "bmi"])
    >>> model = HierarchicalMKL(alpha=0.01).fit(data, data["age"] + 2 * data["age"] * data["dose"])
    >>> sorted(model.weights_frame()["name"])
    ['age', 'age x dose', 'dose']
    """

    losses = ("squared", "logistic", "hinge", "squared_hinge")

    fitted_extras: ClassVar[tuple[str, ...]] = ("n_visited_",)
    penalty_name: ClassVar[str] = "hierarchical"
    _takes_kernels: ClassVar[bool] = False  # ``kernels`` says what is multiplied, X always holds columns

    def __init__(
        self,
        kernels: str | KernelSpec = "polynomial",
        *,
        degree: int = 3,
        loss: str = "squared",
        alpha: float = 1e-3,
        growth: ArrayLike = 3.0,
        normalize: str | None = None,
        max_kernels: int = 1000,
        standardize: bool = True,
        fit_intercept: bool = True,
        tol: float = 1e-3,
        resources: Resources | Mapping[str, Any] | None = None,
    ) -> None:
        self.kernels, self.degree, self.loss, self.alpha = kernels, degree, loss, alpha
        self.growth, self.normalize, self.max_kernels = growth, normalize, max_kernels
        self.standardize, self.fit_intercept, self.tol = standardize, fit_intercept, tol
        self.resources = resources

    def _search(self, problem: SearchProblem) -> Discovery:
        limits = Limits(self.tol, **self._resources.limits(), name="HKL search")
        return discover_hierarchical(problem, limits=limits, **self._shared_parameters(discover_hierarchical))

    def _keep_found(self, samples: Samples, found: list[Discovery]) -> Fit:
        """Keep the model and how much of the graph every target visited."""
        visited = [part.n_visited for part in found if isinstance(part, HierarchicalDiscovery)]
        self.n_visited_ = visited[0] if self._single else visited
        return super()._keep_found(samples, found)


class NonlinearMKL(BaseKernelSearch):
    r"""Regressor or classifier on a non-linear combination of kernels (NLMKL).

    The kernel is :math:`k_\theta(x, z) = \big(\theta_0 + \sum_j \theta_j x_j z_j\big)^D`: all products of up to D
    columns, but with weights that are products of the p + 1 weights of the columns. With ``base`` the kernel
    :math:`k(x_j, z_j)` takes the place of :math:`x_j z_j`. Minimizes over
    :math:`\theta \ge 0,\ \|\theta - \theta_{\text{ref}}\|_2 \le \Lambda`

    .. math:: J(\theta) = \min_{f, b} \sum_i s_i\, \ell(y_i, f(x_i) + b)
        + \frac{\alpha \sum_i s_i}{2}\, \|f\|^2_{k_\theta}

    by projected gradient steps. The loss decides the task.

    Parameters
    ----------
    loss : {"squared", "logistic", "hinge"}, default="squared"
        "squared" learns numbers, the rest learn classes.
    alpha : float, default=0.1
        Strength of the penalty relative to the mean loss, positive.
    degree : int, default=2
        The power D.
    radius : float, default=1.0
        How far the weights may be from their reference. The objective always falls as weights grow, so they end at the
        distance.
    reference : float or array-like of shape (n_weights,), default=None
        Non-negative weights :math:`\theta_{\text{ref}}`; None is one over their number.
    constant : bool, default=True
        Whether the constant kernel is among the base kernels (with the last weight of ``reference``). If False, only
        products of exactly D columns are in the kernel.
    base : KernelSpec, default=None
        Kernel of each column, of a single column and without an open width, such as ``Gaussian(1.0)``; None is the
        product :math:`x_j z_j`.
    standardize : bool, default=True
        Whether columns are brought to mean 0 and standard deviation 1 first.
    fit_intercept : bool, default=True
        Learn the intercept ``b``.
    tol : float, default=1e-4
        Stationarity to reach: how much the objective could still fall to first order, relative to the value.
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
        The kernel found for every target.
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
        Relative duality gap of the model with the kernel: not a bound over other kernels.
    n_iter_ : int
        Gradient steps, at least 1.
    solution_ : Solution or tuple of Solution
        Certificate, history and message of every target.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (n_features,)
        Column names, if X had text names.

    See Also
    --------
    PolynomialMKL : Weighs every product of columns by itself; a convex problem with a certificate over all.
    manykernels.discovery.discover_nonlinear : The search without an estimator.

    Notes
    -----
    For ``degree`` above 1 the problem is not convex: what is found is a stationary point, and no bound on the distance
    from the global minimum is known. Weights of zero do not occur unless a column is constant: the gradient is never
    positive, so no weight ends below the reference.

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
        alpha: float = 0.1,
        degree: int = 2,
        radius: float = 1.0,
        reference: ArrayLike | None = None,
        constant: bool = True,
        base: KernelSpec | None = None,
        standardize: bool = True,
        fit_intercept: bool = True,
        tol: float = 1e-4,
        resources: Resources | Mapping[str, Any] | None = None,
    ) -> None:
        self.loss, self.alpha, self.degree, self.radius = loss, alpha, degree, radius
        self.reference, self.constant, self.base, self.standardize = reference, constant, base, standardize
        self.fit_intercept, self.tol, self.resources = fit_intercept, tol, resources

    @property
    def tol_reached(self) -> float:
        """The stationarity reached, in the unit of ``tol``."""
        return self.stationarity_

    def _search(self, problem: SearchProblem) -> Discovery:
        limits = Limits(self.tol, **self._resources.limits(), name="projected gradient descent")
        return discover_nonlinear(problem, limits=limits, **self._shared_parameters(discover_nonlinear))

    def _keep_found(self, samples: Samples, found: list[Any]) -> Fit:
        """Keep the model, and the weights of the columns."""
        fit = super()._keep_found(samples, found)
        weights = np.array([part.base_weights for part in found])
        constants = np.array([part.constant_weight for part in found])
        self.base_weights_: Array = weights[0] if self._single else weights
        self.constant_weight_: float | Array = float(constants[0]) if self._single else constants
        self.stationarity_ = max(part.stationarity for part in found)
        return fit
