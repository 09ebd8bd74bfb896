"""Learning with Gaussian kernels of any width: the widths are found, not listed."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from manykernels.discovery import (
    ArdGaussianFamily,
    AscentSettings,
    Discovery,
    GaussianFamily,
    KernelFamily,
    Limits,
    SearchProblem,
    SearchSettings,
    discover_by_sampling,
    discover_greedily,
    discover_in_two_stages,
    graded_settings,
)
from manykernels.discovery.families.stationary import resolved_widths
from manykernels.discovery.one_stage.discovery import UPDATES
from manykernels.discovery.two_stage.discovery import NO_KERNEL
from manykernels.discovery.two_stage.first_stage import CRITERIA
from manykernels.estimators.parameters import Resources
from manykernels.estimators.permutations import noise_levels, noise_seed
from manykernels.estimators.searches.base import BaseKernelSearch, label_widths
from manykernels.estimators.strength import (
    AUTO,
    N_PERMUTATIONS,
    default_fraction,
    relative_strength,
    set_strength,
    strength_from_alpha,
)
from manykernels.estimators.supervised.problems import Fit
from manykernels.estimators.supervised.samples import Samples
from manykernels.exceptions import InvalidInputError
from manykernels.grams import DenseStack
from manykernels.kernels import KernelSpec
from manykernels.objective.regularizers import Simplex
from manykernels.validation.arrays import Array, check_choice, check_count, check_parameter_range
from manykernels.validation.parameters import RandomSource, check_flag

SEARCHES = ("greedy", "sampling")
PUBLISHED, VALIDATED = "published", "validated"


class GaussianMKL(BaseKernelSearch):
    r"""Regressor or classifier on Gaussian kernels whose widths are found while learning.

    In one stage, minimizes over all widths :math:`\sigma` of an interval

    .. math:: \sum_i s_i\, \ell(y_i, f(x_i) + b) + \frac{\alpha \sum_i s_i}{2}
        \min_{\theta \in \Delta_1} \sum_\sigma \frac{\|f_\sigma\|^2}{\theta_\sigma}, \qquad f = \sum_\sigma f_\sigma,

    with a duality gap over the whole interval. Two stages first find a sum of kernels aligned with the target, then
    learn on the sum. The loss decides the task.

    Parameters
    ----------
    loss : {"squared", "logistic", "hinge"}, default="squared"
        "squared" learns numbers, the rest learn classes.
    alpha : float or str, default="auto"
        Strength of the penalty relative to the mean loss, positive. Text is relative to the strength of the empty
        model, for every class or target: ``"0.1*max"`` is a tenth, ``"auto"`` the fraction ``0.5 / sqrt(n_samples)``,
        and ``"0.3*noise"`` 0.3 of the strength for y in random order; see :class:`MKLClassifier`.
    search : {"greedy", "sampling"}, default="greedy"
        "greedy" adds the kernel that helps most (GCD), "sampling" draws widths and takes stochastic gradient steps
        (SGD-1s).
    stages : {1, 2}, default=1
        1 learns kernels and model together; 2 learns first kernels, then a model on them (GCD-2s, greedy only).
    update : {"corrective", "sliding", "pairwise", "frank_wolfe", "fixed_steps", "published"}, default="corrective"
        What one stage does after every kernel: solve for all weights anew (IKL), do so and let all widths move downhill
        together, shift weight from the worst kernel to the new one, or shift it from all (CKL), by a line search or by
        "fixed_steps" of ``2 / (k + 1)``. In sampling, the first two solve for the weights of the kernels drawn, the
        rest average the weights of the steps. Two stages find the weights of all kernels anew, or with "published" take
        the steps of Algorithms 7 and 8.
    criterion : {"alignment", "distance"}, default="alignment"
        Criterion of the two stages: the centered alignment with the target, or the distance to it.
    per_feature : bool, default=False
        Whether every kernel has a width per feature instead of a single width.
    shrinkage : float, default=0.0
        For two stages with a width per feature: how strongly the widths of a kernel are drawn to their mean.
    inner_steps : int, "validated" or None, default=None
        For two stages with a width per feature: maximal steps of every search for widths, from equal widths; None is
        unlimited. "validated" chooses among several numbers, and strong shrinkage, on held-out rows.
    proof : int, default=0
        For one stage with a width per feature: maximal evaluations for a bound over all widths at the end; 10 000
        suffice for two features, and nearly for three. With 0 the gap is relative to the best kernel found.
    width_range : tuple of float or "auto", default="auto"
        Smallest and largest width, in standard deviations if ``standardize``. ``"auto"`` begins at the median distance
        of training rows times ``n_samples^(-1/n_features)``, at most a half and at least a twentieth of the median, and
        ends at 20 medians: narrower kernels fit single samples. With a width per feature the range is (0.05, 50).
    family : KernelFamily or None, default=None
        Kernels to choose from instead of Gaussian ones, for example ``LaplacianFamily(0.1, 10.0)``; it has the
        respective bounds.
    n_starts : int, default=5
        Most points from which every search for widths climbs.
    standardize : bool, default=True
        Whether columns are brought to mean 0 and standard deviation 1 first.
    fit_intercept : bool, default=True
        Learn the intercept ``b``.
    tol : float, default=1e-3
        Relative duality gap to reach in one stage; in two stages, least growth of the alignment a kernel.
    random_state : int, RandomState instance or None, default=0
        For sampling, and for random starts with a width per feature; None draws anew at every fit.
    resources : Resources, dict or None, default=None
        Time, memory, threads and progress: ``max_iter``, ``time_limit``, ``verbose``; see
        :class:`~manykernels.estimators.Resources`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels; for the losses of classification.
    found_ : tuple of KernelSpec
        The kernels found, on standardized columns if ``standardize``.
    kernel_names_ : list of str
        Their names.
    kernel_weights_ : ndarray of shape (n_kernels,) or (n_targets, n_kernels)
        Weights ``d`` of the kernels.
    kernel_norms_ : ndarray of the same shape
        Norms ``||f_m||``.
    dual_coef_ : ndarray of shape (n_support,) or (n_targets, n_support)
        Dual coefficients ``rho`` of the support samples.
    support_ : ndarray of shape (n_support,)
        Positions of the training samples with a nonzero dual coefficient.
    intercept_ : float or ndarray of shape (n_targets,)
        The constant ``b``.
    dual_gap_ : float
        Relative duality gap: in one stage over the whole family; in two stages of the second stage alone.
    n_iter_ : int
        Kernels tried; of sampling, certificates.
    solution_ : Solution or tuple of Solution
        Certificate, history and message of every target.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (n_features,)
        Column names, if X had text names.

    See Also
    --------
    MKLRegressor : Learns with kernels that are listed.
    manykernels.discovery.discover_greedily : The search without an estimator.

    Notes
    -----
    With a single width the dual bound holds for every width of the interval. With a width per feature the bound is
    relative to the best kernel found (from the best common width, from the kernels found before and from random
    points), since the inner problem is not concave; ``proof`` bounds all widths for a few features.

    References
    ----------
    Afkanpour, Multiple kernel learning with many kernels, thesis (2013), chapters 4 to 6. Argyriou, Micchelli and
    Pontil, Learning convex combinations of continuously parameterized basic kernels (2005). Gehler and Nowozin,
    Infinite kernel learning (2008).

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import GaussianMKL
    >>> X = np.linspace(-2.0, 2.0, 80)[:, None]
    >>> y = np.sin(8.0 * X[:, 0]) + X[:, 0]
    >>> model = GaussianMKL(alpha=1e-3).fit(X, y)
    >>> bool(model.dual_gap_ <= 1e-3), bool(model.score(X, y) > 0.99)
    (True, True)
    """

    fitted_extras: ClassVar[tuple[str, ...]] = ("found_",)

    _max_iter = 50

    def __init__(
        self,
        loss: str = "squared",
        *,
        alpha: float | str = "auto",
        search: str = "greedy",
        stages: int = 1,
        update: str = "corrective",
        criterion: str = "alignment",
        per_feature: bool = False,
        shrinkage: float = 0.0,
        inner_steps: int | str | None = None,
        proof: int = 0,
        width_range: tuple[float, float] | str = "auto",
        family: KernelFamily | None = None,
        n_starts: int = 5,
        standardize: bool = True,
        fit_intercept: bool = True,
        tol: float = 1e-3,
        random_state: RandomSource = 0,
        resources: Resources | Mapping[str, Any] | None = None,
    ) -> None:
        self.loss, self.alpha, self.search, self.stages = loss, alpha, search, stages
        self.update, self.criterion, self.per_feature = update, criterion, per_feature
        self.shrinkage, self.inner_steps, self.proof = shrinkage, inner_steps, proof
        self.width_range, self.family, self.n_starts = width_range, family, n_starts
        self.standardize, self.fit_intercept, self.tol = standardize, fit_intercept, tol
        self.random_state, self.resources = random_state, resources

    # Fixed for the other searches, but here one or two stages decide.
    @property
    def penalty_name(self) -> str:  # type: ignore[override]  # as said above
        """Name of the penalty of the predicting model, for reports: the second stage has a single kernel."""
        return "simplex" if self.stages == 1 else "ridge"

    @property
    def tol_measure(self) -> str:  # type: ignore[override]  # as said above
        """The quantity of ``tol``, for reports."""
        return super().tol_measure if self.stages == 1 else "growth of the alignment a kernel"

    def _search(self, problem: SearchProblem) -> Discovery:
        return label_widths(self._discover(problem), problem.names)

    def _discover(self, problem: SearchProblem) -> Discovery:
        check_choice(self.search, SEARCHES, "search")
        check_choice(self.update, UPDATES if self.stages == 1 else (*UPDATES, PUBLISHED), "update")
        check_choice(self.criterion, CRITERIA, "criterion")
        if check_count(self.stages, "stages") > 2:
            raise InvalidInputError(f"stages must be 1 or 2, got {self.stages!r}.")
        if self.stages == 2 and self.search == "sampling":
            raise InvalidInputError("Sampling learns in one stage: set stages=1, or search='greedy'.")
        limits, settings = Limits(self.tol, **self._resources.limits()), self._check_settings(problem.points)
        common: dict[str, Any] = {"settings": settings, "limits": limits, "random_state": self.random_state}
        family = self._check_family(problem.points)
        if self.stages == 2:
            ascent = AscentSettings("published" if self.update == "published" else "corrective")
            return discover_in_two_stages(
                problem, family, criterion=self.criterion, gain=self.tol, ascent=ascent, **common
            )
        if self.search == "greedy":
            return discover_greedily(problem, family, update=self.update, **common)
        common["limits"] = replace(limits, max_iter=1)
        corrective = self.update in ("corrective", "sliding")
        return discover_by_sampling(
            problem,
            family,  # type: ignore[arg-type]  # checked there, in words: not every family can draw
            n_draws=self._resources.limits()["max_iter"],
            corrective=corrective,
            **common,
        )

    def _check_settings(self, points: Array) -> SearchSettings | tuple[SearchSettings, ...]:
        """Return how members are searched for, in several ways if held-out rows are to choose."""
        if self.inner_steps is not None and (self.stages == 1 or self._check_family(points).n_parameters(2) == 1):
            raise InvalidInputError(
                f"inner_steps={self.inner_steps!r} is for two stages with one width a feature: set stages=2 and "
                "per_feature=True, or inner_steps=None."
            )
        if check_count(self.proof, "proof", least=0) and (self.stages == 2 or self.search == "sampling"):
            raise InvalidInputError(
                f"proof={self.proof} is for the greedy search in one stage: set stages=1 and search='greedy', or "
                "proof=0."
            )
        if isinstance(self.inner_steps, str):
            check_choice(self.inner_steps, (VALIDATED,), "inner_steps")
            return graded_settings(SearchSettings(self.n_starts, self.shrinkage))
        return SearchSettings(self.n_starts, self.shrinkage, self.inner_steps, self.proof)

    def _check_family(self, points: Array) -> KernelFamily:
        per_feature = check_flag(self.per_feature, "per_feature")
        if self.family is None:
            interval = self.width_range
            if isinstance(interval, str):
                check_choice(interval, (AUTO,), "width_range")
                every_width = (0.05, 50.0)
                interval = every_width if per_feature else resolved_widths(points)
            low, high = check_parameter_range(interval, "width_range")
            return ArdGaussianFamily(low, high) if per_feature else GaussianFamily(low, high)
        if not isinstance(self.family, KernelFamily):
            raise InvalidInputError(
                f"family must be None (Gaussian kernels) or a KernelFamily such as LaplacianFamily(0.1, 10.0), got "
                f"{self.family!r}."
            )
        if per_feature:
            raise InvalidInputError(
                f"per_feature=True is for Gaussian kernels, but family is {self.family!r}; give one of the two."
            )
        return self.family

    def _strength(self, problem: SearchProblem, total_weight: float) -> float:
        """Return the strength for one target; text is relative to what leaves nothing to gain by a reference kernel."""
        asked = relative_strength(self.alpha)
        if asked is None:
            return strength_from_alpha(self.alpha, total_weight)
        points = problem.points
        stacks = (DenseStack(kernel(points)[None]) for kernel in self._reference_kernels(points))
        problems = (problem.replace_stack(stack, Simplex(1.0)) for stack in stacks)
        if self.alpha != AUTO and asked.unit == "noise":
            seed = noise_seed(self.random_state)
            posed = (
                set_strength(problem, noise_levels([problem], seed, n_permutations=N_PERMUTATIONS)[0], asked)
                for problem in problems
            )
            return max(problem.regularizer.strength for problem in posed)
        fraction = default_fraction(len(points)) if self.alpha == AUTO else asked.factor
        return max(problem.at_fraction(fraction).regularizer.strength for problem in problems)

    def _reference_kernels(self, points: Array) -> list[KernelSpec]:
        """Return members of the family with equal parameters, from end to end."""
        family = self._check_family(points)
        ends = family.coordinate(np.array([family.low, family.high]))
        n_references = 9  # members of the family by which a strength given as text is measured
        sizes = family.parameter(np.linspace(ends[0], ends[1], n_references))
        return [family.spec(np.full(family.n_parameters(self.n_features_in_), size)) for size in sizes]

    def _why_none(self, fit: Fit) -> str:
        if self.stages == 1:
            return super()._why_none(fit)
        return f"{NO_KERNEL}. Is y constant, or are all columns? Else widen width_range, or give another family."

    def _keep_found(self, samples: Samples, found: list[Discovery]) -> Fit:
        """Keep the model, and the kernels as specifications."""
        self.found_ = tuple(dict.fromkeys(kernel.spec for part in found for kernel in part.kernels))
        return super()._keep_found(samples, found)
