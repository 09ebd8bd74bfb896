"""Hierarchical kernel learning: interactions are found among all products of one-dimensional kernels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from manykernels.discovery import Discovery, HierarchicalDiscovery, Limits, SearchProblem, discover_hierarchical
from manykernels.estimators.groups import Resources
from manykernels.estimators.searches.base import BaseKernelSearch
from manykernels.estimators.supervised.problems import Fit
from manykernels.estimators.supervised.samples import Samples
from manykernels.kernels import KernelSpec


class HierarchicalMKL(BaseKernelSearch):
    r"""Regressor or classifier on all products of one-dimensional kernels, under strong heredity.

    Hierarchical kernel learning (HKL) minimizes over the directed acyclic graph V of products

    .. math:: \sum_i s_i\, \ell(y_i, f(x_i) + b) + \frac{\alpha \sum_i s_i}{2}
        \Big( \sum_{v \in V} d_v \|f_{D(v)}\| \Big)^2, \qquad f = \sum_{v \in V} f_v, \quad
        \|f_{D(v)}\|^2 = \sum_{w \in D(v)} \|f_w\|^2,

    where D(v) are the products that v divides, v among them. The norm makes all of :math:`f_{D(v)}` vanish together,
    so that an interaction such as "age x dose" is selected only if "age" and "dose" are. Because of this the graph is
    searched from its root, at a cost that is polynomial in the number of kernels selected, and the duality gap still
    holds for every kernel of the graph. The loss decides the task.

    Parameters
    ----------
    kernels : {"polynomial", "multilinear", "anova"} or KernelSpec, default="polynomial"
        What is multiplied: "polynomial" columns, each as often as ``degree`` allows (monomials); "multilinear" columns,
        each at most once; "anova" Gaussian kernels of width 1 on different columns; a kernel of one column, such as
        ``Laplacian(2.0)``, takes the place of the Gaussian.
    degree : int, default=3
        Largest number of factors of a product.
    loss : {"squared", "logistic", "hinge", "squared_hinge"}, default="squared"
        "squared" learns numbers, the others learn classes.
    alpha : float, default=1e-3
        Strength of the penalty relative to the mean loss, positive.
    growth : float, default=3.0
        Ratio of the penalty of a product to that of a product with one factor less, at least 1. Large values prefer
        small products and shorten the search.
    normalize : {"power", "centered"} or None, default=None
        Of monomials: "power" divides each power of a column by its own root mean square, "centered" takes its mean off
        first, None leaves it as it is.
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
        The products selected, such as ``"age x dose"``; ``"1"`` is the constant kernel.
    kernel_weights_ : ndarray of shape (n_kernels,) or (n_targets, n_kernels)
        Weights ``d`` of the kernels.
    kernel_norms_ : ndarray of the same shape
        Norms ``||f_m||``.
    n_visited_ : int or list of int
        Kernels that the search visited, for each target.
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
        Certificate, history and message of each target.
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

    def __init__(
        self,
        kernels: str | KernelSpec = "polynomial",
        *,
        degree: int = 3,
        loss: str = "squared",
        alpha: float = 1e-3,
        growth: float = 3.0,
        normalize: str | None = None,
        max_kernels: int = 1000,
        standardize: bool = True,
        fit_intercept: bool = True,
        tol: float = 1e-3,
        resources: Resources | Mapping[str, Any] | None = None,
    ) -> None:
        self.kernels = kernels
        self.degree = degree
        self.loss = loss
        self.alpha = alpha
        self.growth = growth
        self.normalize = normalize
        self.max_kernels = max_kernels
        self.standardize = standardize
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.resources = resources

    @property
    def _takes_kernels(self) -> bool:
        """False: ``kernels`` says what is multiplied, X always holds columns."""
        return False

    def _search(self, problem: SearchProblem) -> Discovery:
        """Search the graph for one target."""
        limits = Limits(self.tol, **self._resources.limits(), name="HKL search")
        return discover_hierarchical(problem, limits=limits, **self._given_to(discover_hierarchical))

    def _keep_found(self, samples: Samples, found: list[Discovery]) -> Fit:
        """Keep the model and how much of the graph each target visited."""
        visited = [part.n_visited for part in found if isinstance(part, HierarchicalDiscovery)]
        self.n_visited_ = visited[0] if self._single else visited
        return super()._keep_found(samples, found)
