"""What a search for kernels meets and returns, and when it stops."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state as legacy_random_state

from manykernels.exceptions import ConvergenceWarning, InvalidInputError
from manykernels.kernels import KernelSpec
from manykernels.objective.certificate import Certificate
from manykernels.objective.problem import Problem
from manykernels.solvers import Solution, Status, configured_solver
from manykernels.solvers.run import Run
from manykernels.solvers.solution import Limits
from manykernels.validation.arrays import Array
from manykernels.validation.parameters import check_instance, check_random_state


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
        Positions of its columns in the table.

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


@dataclass(frozen=True, eq=False)
class Candidate:
    """One model met on the way, with the certificate that holds over the whole family of kernels.

    Parameters
    ----------
    kernels : tuple of Found
    dual_coef : ndarray of shape (n_samples,)
        ``rho``.
    kernel_weights : ndarray of shape (n_kernels,)
        ``d`` of the found kernels, non-negative.
    intercept : float
    certificate : Certificate
        Primal value of exactly this model; dual bound that holds for every kernel of the family.
    passes : float
        Gram entries read so far, in passes over all samples and the kernels found.
    newton_steps : int
        Linear systems solved so far.
    """

    kernels: tuple[Found, ...]
    dual_coef: Array
    kernel_weights: Array
    intercept: float
    certificate: Certificate
    passes: float = 0.0
    newton_steps: int = 0


def checked_limits(limits: Any, default: Limits) -> Limits:
    """Return ``limits``, or ``default`` if it is None."""
    chosen: Limits = check_instance(default if limits is None else limits, Limits, "limits", "Limits(tol=1e-4)")
    return chosen


def random_generator(random_state: Any) -> np.random.Generator:
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
        On exactly these kernels, in this order; its certificate holds over the whole family.
    """

    kernels: tuple[Found, ...]
    solution: Solution


def run_search(candidates: Iterator[Candidate], limits: Limits) -> Discovery:
    """Consume the models of a search until a limit is reached and return the best one.

    That is the one that converged, else the one of smallest primal value. Ctrl-C and whatever goes wrong on the way
    end the search with the best model so far; before the first model they are raised. Anything but convergence is told
    by ``solution.status`` and ``solution.message``; warning is left to the caller, who may run several searches.

    Parameters
    ----------
    candidates : iterator of Candidate
        The first is the starting point (iteration 0).
    limits : Limits

    Returns
    -------
    Discovery

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.discovery import Candidate, Found, Limits, run_search
    >>> from manykernels.kernels import Linear
    >>> from manykernels.objective.problem import Problem
    >>> from manykernels.objective.regularizers import get_regularizer
    >>> problem = Problem(np.eye(2)[None], [1.0, -1.0], "squared", get_regularizer("simplex", 0.1))
    >>> model = np.array([0.05, -0.05]), np.ones(1), 0.0
    >>> start = Candidate((Found("x", Linear(), (0,)),), *model, problem.certificate(*model))
    >>> str(run_search(iter([start]), Limits(max_iter=5)).solution.status)
    'stalled'
    """
    run: Run[Candidate] = Run(limits, f"The {limits.name}")
    run.follow(candidates)
    return without_empty(Discovery(run.best.kernels, run.solution()))


def without_empty(discovery: Discovery) -> Discovery:
    """Return the discovery without kernels of weight zero, which a model does not need."""
    weights = discovery.solution.kernel_weights
    kept = np.flatnonzero(weights)
    kernels = tuple(discovery.kernels[m] for m in kept)
    return Discovery(kernels, replace(discovery.solution, kernel_weights=weights[kept]))


def check_one_target(problem: Problem) -> None:
    """Refuse several targets: a search finds kernels for one."""
    if problem.y.ndim != 1:
        raise InvalidInputError(
            f"target has shape {problem.y.shape}, but a search finds kernels for one target of shape (n_samples,). "
            "Search for each column apart."
        )


def solve_quietly(problem: Problem, tol: float, warm_start: Solution | None = None, **limits: Any) -> Solution:
    """Solve a finite problem inside a search; whether its gap is small enough, the certificate over the family tells.

    Raises
    ------
    KeyboardInterrupt
        If Ctrl-C came meanwhile: it is meant for the whole search.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        solution = configured_solver("auto", problem, tol=tol, **limits).solve(problem, warm_start)
    if solution.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return solution
