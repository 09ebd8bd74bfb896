"""Input and output of a search for kernels, stopping, and the certificate over a family of kernels."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from sklearn.utils import check_random_state as legacy_random_state

from manykernels.exceptions import ConvergenceWarning, InvalidInputError
from manykernels.grams import DenseStack, GramStack
from manykernels.kernels import KernelSpec
from manykernels.objective.certificate import Certificate, KKTResiduals
from manykernels.objective.losses import Loss, get_loss
from manykernels.objective.problem import Problem, share_of
from manykernels.objective.regularizers import Regularizer
from manykernels.solvers import Solution, Status, configured_solver
from manykernels.solvers.learners.learners import LearnerFit
from manykernels.solvers.run import Run
from manykernels.solvers.solution import Limits, Model
from manykernels.validation.arrays import Array, check_points, check_positive_vector, check_vector, real_array
from manykernels.validation.parameters import (
    RandomSource,
    check_column_names,
    check_flag,
    check_instance,
    check_random_state,
)


@dataclass(frozen=True, eq=False)
class SearchProblem:
    r"""What every search is posed: a problem ``sum_i s_i l(y_i, f(x_i) + b)`` plus a penalty, the kernels to be found.

    Parameters
    ----------
    points : array-like of shape (n_samples, n_columns)
        On which kernels act unchanged; usually standardized.
    target : array-like of shape (n_samples,)
        Numbers, or signs for a loss of classification.
    loss : Loss or str, default="squared"
        Any loss of the library.
    strength : float
        ``lambda`` of the penalty, positive, on the sum of losses. Only a search that chooses it goes without.
    sample_weight : array-like of shape (n_samples,), optional
        Positive weights ``s``, one by default.
    fit_intercept : bool, default=True
        Whether to learn the constant ``b``, which is not penalized.
    names : sequence of str, optional
        Of the columns; ``x0``, ``x1``, ... by default.

    Raises
    ------
    InvalidInputError
        For an unusable problem, or several targets.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.discovery import GaussianFamily, SearchProblem, discover_greedily
    >>> x = np.linspace(-2.0, 2.0, 60)[:, None]
    >>> problem = SearchProblem(x, np.sin(4.0 * x[:, 0]), strength=0.1)
    >>> len(discover_greedily(problem, GaussianFamily(0.05, 50.0)).kernels) < 5
    True
    """

    points: Array
    target: Array
    loss: str | Loss = "squared"
    _: KW_ONLY
    strength: float = None  # type: ignore[assignment]  # chosen by the search; penalties refuse None in words
    sample_weight: Array | None = None
    fit_intercept: bool = True
    names: Sequence[str] = None  # type: ignore[assignment]  # x0, x1, ...

    def __post_init__(self) -> None:
        points, loss, target = check_points(self.points), get_loss(self.loss), real_array(self.target, "target")
        if target.ndim > 1:
            raise InvalidInputError(
                f"target has shape {target.shape}, but a search finds kernels for one target of shape (n_samples,). "
                "Run one search per column."
            )
        checked = {"points": points, "loss": loss}
        checked["target"] = loss.check_target(check_vector(self.target, len(points), "target"))
        if self.sample_weight is not None:
            checked["sample_weight"] = check_positive_vector(self.sample_weight, len(points), "sample_weight")
        checked["names"] = check_column_names(self.names, points.shape[1])
        check_flag(self.fit_intercept, "fit_intercept")
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def replace_stack(
        self, stack: GramStack, regularizer: Regularizer, kernel_penalties: Array | None = None
    ) -> Problem:
        """Return the problem on some kernels."""
        return Problem(
            stack,
            self.target,
            self.loss,
            regularizer,
            fit_intercept=self.fit_intercept,
            sample_weight=self.sample_weight,
            kernel_penalties=kernel_penalties,
        )

    def empty_problem(self, regularizer: Regularizer) -> Problem:
        """Return the problem on a zero kernel."""
        n_samples = len(self.points)
        return self.replace_stack(DenseStack(np.zeros((1, n_samples, n_samples))), regularizer)


# The certificate of a model over a family of kernels of which only the norm of the dual vector is known.


def family_certificate(problem: Problem, model: Model, norm: float) -> Certificate:
    """Return primal and dual value of a model, the dual over a whole family with an lp ball of weights.

    The dual vector ``r``, made feasible, may still be scaled down; the best scale solves
    ``max_{0 <= c <= 1} -sum_i s_i l*(y_i, -c r_i/s_i) - c^2 V / (2 lambda)``.
    """
    rho, d, b = model
    f, t = problem.model_parts(rho, d)
    conjugate = norm / (2.0 * problem.regularizer.strength)
    return certificate_of(problem, (rho, f, b), problem.regularizer.value(t), problem.feasible_dual(rho), conjugate)


def certificate_of(problem: Problem, model: Model, penalty: float, feasible: Array, conjugate: float) -> Certificate:
    """Return the certificate of a model whose penalty, and the conjugate at feasible dual coefficients, are known.

    The dual coefficients are scaled to the best point of their ray.
    """
    rho, f, b = model
    scale, dual = best_scaling(problem.conjugate_loss, feasible, conjugate)
    loss = problem.empirical_loss(f + b)
    denominator = max(abs(loss + penalty), problem.tiny)
    stationarity = loss + problem.conjugate_loss(scale * feasible) + scale * float((f + b) @ feasible)
    kkt = KKTResiduals(
        stationarity=stationarity / denominator,
        complementarity=(penalty + scale**2 * conjugate - scale * float(f @ feasible)) / denominator,
        box=share_of(float(np.max(np.abs(rho - np.clip(rho, *problem.dual_box)))), float(np.abs(rho).max())),
        intercept=share_of(abs(float(rho.sum())), float(np.abs(rho).sum())) if problem.fit_intercept else 0.0,
        scaling=1.0 - scale,
    )
    return Certificate.from_values(loss + penalty, dual, denominator, kkt)


def learner_certificate(fit: LearnerFit, tiny: float) -> Certificate:
    """Return the certificate of a learner: for the kernel weights, stationarity is all there is to miss."""
    scale = max(abs(fit.primal_value), tiny)
    kkt = KKTResiduals(fit.gap / scale, 0.0, 0.0, 0.0, 0.0)
    return Certificate.from_values(fit.primal_value, fit.dual_value, scale, kkt)


def best_scaling(conjugate_loss: Callable[[Array], float], rho: Array, bound: float) -> tuple[float, float]:
    """Maximize the dual value along the ray of ``rho`` inside the box."""

    def negative(scale: float) -> float:
        return conjugate_loss(scale * rho) + scale**2 * bound

    minimum = minimize_scalar(negative, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-9})
    whole = negative(1.0)
    return (1.0, -whole) if whole <= minimum.fun else (float(minimum.x), -float(minimum.fun))


def replace_dual(certificate: Certificate, dual: float, tiny: float) -> Certificate:
    """Return the certificate with another lower bound, from another dual vector."""
    denominator = max(abs(certificate.primal), tiny)
    less = (dual - certificate.dual) / denominator
    kkt = replace(certificate.kkt, complementarity=certificate.kkt.complementarity - less)
    return Certificate.from_values(certificate.primal, dual, denominator, kkt)


@dataclass(frozen=True)
class Found:
    """A kernel that a search has found.

    Parameters
    ----------
    name : str
        Unique within one search, for instance ``"age x dose"``.
    spec : KernelSpec
        The kernel itself, as it acts on standardized columns; not normalized any further.
    columns : tuple of int
        Positions of the columns in the table.

    Examples
    --------
    >>> from manykernels import Gaussian
    >>> from manykernels.discovery import Found
    >>> Found("age: gaussian(width=1)", Gaussian(1.0), (0,)).columns
    (0,)
    """

    name: str
    spec: KernelSpec
    columns: tuple[int, ...]


def resolve_limits(limits: Limits | None, default: Limits) -> Limits:
    """Return ``limits``, or ``default`` for None."""
    return check_instance(default if limits is None else limits, Limits, "limits", "Limits(tol=1e-4)")


def random_generator(random_state: RandomSource) -> np.random.Generator:
    """Return the generator of a search."""
    source = check_random_state(random_state)
    if isinstance(source, np.random.Generator):
        return source
    return np.random.default_rng(legacy_random_state(source).randint(2**31))


@dataclass(frozen=True, eq=False)
class Discovery:
    """The best model of a search: the kernels found and their solution.

    Attributes
    ----------
    kernels : tuple of Found
    solution : Solution
        On exactly the kernels, in the order; the certificate holds over the whole family.
    """

    kernels: tuple[Found, ...]
    solution: Solution


def empty_candidate(problem: Problem) -> Solution:
    """Return the model without kernels with a certificate: zero dual coefficients."""
    nothing, b = np.zeros(problem.n_samples), problem.best_constant
    certificate = certificate_of(problem, (nothing, nothing, b), 0.0, nothing, 0.0)
    return Solution(nothing, np.zeros(0), b, certificate)


def run_search(candidates: Iterator[Solution], limits: Limits, problem: Problem) -> Discovery:
    """Consume the models of a search until a limit is reached and return the best one.

    That is the one that converged, else the one of smallest primal value. Ctrl-C, the end of the time and whatever goes
    wrong on the way end the search with the best model so far; before the first model Ctrl-C and the end of the time
    leave the model without kernels, and errors are raised. Anything but convergence is told by ``solution.status`` and
    ``solution.message``; warning is left to the caller, who may run several searches.

    Parameters
    ----------
    candidates : iterator of Solution
        With the kernels found. The first is the starting point (iteration 0).
    limits : Limits
    problem : Problem
        Target, weights, loss and penalty; the kernels are of no account.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.discovery import Found, Limits, run_search
    >>> from manykernels.kernels import Linear
    >>> from manykernels.objective.problem import Problem, share_of
    >>> from manykernels.objective.regularizers import get_regularizer
    >>> from manykernels.solvers import Solution
    >>> problem = Problem(np.eye(2)[None], [1.0, -1.0], "squared", get_regularizer("simplex", 0.1))
    >>> model = np.array([0.05, -0.05]), np.ones(1), 0.0
    >>> kernels = (Found("x", Linear(), (0,)),)
    >>> start = Solution(*model, problem.certificate(*model), kernels=kernels)
    >>> str(run_search(iter([start]), Limits(max_iter=5), problem).solution.status)
    'stalled'
    """
    run: Run[Solution] = Run(limits, f"The {limits.name}")
    run.follow(candidates, lambda: empty_candidate(problem))
    return drop_empty(Discovery(run.best.kernels, run.solution()))


def drop_empty(discovery: Discovery) -> Discovery:
    """Return the discovery without kernels of weight zero."""
    weights = discovery.solution.kernel_weights
    kept = np.flatnonzero(weights)
    kernels = tuple(discovery.kernels[m] for m in kept)
    return Discovery(kernels, replace(discovery.solution, kernel_weights=weights[kept]))


def solve_quietly(problem: Problem, tol: float, warm_start: Solution | None = None, **limits: Any) -> Solution:
    """Solve a finite problem inside a search, whose certificate over the family tells whether the gap is small enough.

    A pending Ctrl-C is raised, since the signal addresses the whole search.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        solution = configured_solver("auto", problem, tol=tol, **limits).solve(problem, warm_start)
    if solution.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return solution


def check_one_column(kernel: KernelSpec, name: str) -> KernelSpec:
    """Return a kernel for a single column unchanged, else raise an error with the reason."""
    if not isinstance(kernel, KernelSpec):
        raise InvalidInputError(f"{name} must be a kernel such as Gaussian(1.0), got {kernel!r}.")
    if kernel.pending:
        raise InvalidInputError(f"The width of {kernel.label} is not a number yet: give one, such as Gaussian(1.0).")
    kernel.check_columns(1, f"{name}={kernel.label}")
    return kernel
