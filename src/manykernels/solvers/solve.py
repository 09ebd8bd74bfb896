"""The functional front door: ``solve`` a problem given as arrays."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from manykernels.exceptions import InvalidInputError
from manykernels.grams import GramStack, as_stack
from manykernels.grams.factored import FactoredStack
from manykernels.objective.joint_problem import JointProblem
from manykernels.objective.losses import JointLoss, Loss, get_loss
from manykernels.objective.problem import Problem
from manykernels.objective.regularizers import Regularizer, get_regularizer
from manykernels.objective.shared import SharedProblem
from manykernels.solvers.base import Solver, check_warm_start
from manykernels.solvers.factored.fallback import stays_on_workers
from manykernels.solvers.factored.problem import FactoredJointProblem, FactoredProblem, RowsProblem
from manykernels.solvers.factored.shared_problem import FactoredSharedProblem
from manykernels.solvers.registry import check_able, check_alias, choose_solver, get_solver
from manykernels.solvers.solution import Solution
from manykernels.validation.arrays import Array, check_nonnegative_vector


def solve(
    stack: GramStack | Array,
    y: ArrayLike,
    *,
    loss: str | Loss,
    regularizer: str | Regularizer,
    strength: float | None = None,
    fit_intercept: bool = True,
    sample_weight: ArrayLike | None = None,
    kernel_penalties: ArrayLike | None = None,
    solver: str | Solver = "auto",
    warm_start: Solution | None = None,
    **parameters: Any,
) -> Solution:
    """Solve a multiple kernel learning problem and prove how far from optimal the answer is.

    ``min_{f,b} sum_i s_i l(y_i, f_i + b) + Omega(t)`` with ``t_m = w_m ||f_m||``.

    Parameters
    ----------
    stack : GramStack or array of shape (n_kernels, n_samples, n_samples)
        Symmetric positive semidefinite Gram matrices, kernels leading.
    y : array_like of shape (n_samples,)
        Labels -1 and +1 for a classification loss, numbers for a regression loss.
    loss : str or Loss
        ``"logistic"``, ``"hinge"``, ``"squared_hinge"``, ``"squared"``, ``"epsilon_insensitive"``, ``"huber"``,
        ``"quantile"``, or an object.
    regularizer : str or Regularizer
        ``"l1"``, ``"elasticnet"``, ``"lq"``, ``"ridge"``, a set of weights (``"simplex"``, ``"lp_ball"``,
        ``"elasticnet_ball"``), or an object, which carries its own strength.
    strength : float, optional
        ``C`` (or ``lambda`` of a weight set), on the sum of losses; needed with a regularizer given by name.
    fit_intercept : bool
        Whether there is an intercept ``b``; the dual coefficients then sum to zero.
    sample_weight : array_like of shape (n_samples,), optional
        Non-negative; samples of weight zero get dual coefficient zero.
    kernel_penalties : array_like of shape (n_kernels,), optional
        Positive ``w``.
    solver : str or Solver
        A name, ``"auto"``, or a configured solver; parameters given here replace its own.
    warm_start : Solution, optional
        A solution on the same kernels and samples to start from.
    **parameters
        Parameters of the solver: ``tol``, ``max_iter``, ``time_limit``, ``callback``, ``verbose``, ...

    Returns
    -------
    Solution
        Dual coefficients, kernel weights, intercept, the certificate of exactly this model, and how it was reached.

    Raises
    ------
    InvalidInputError
        If anything about the input is wrong; the message says what and how to mend it.
    IncompatibleError
        If the solver cannot solve this problem; the message names those that can.

    Warns
    -----
    ConvergenceWarning
        If the gap is above ``tol`` at the end, whatever the reason.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(0, 1, 30)
    >>> kernels = np.stack([np.exp(-((x[:, None] - x) ** 2) / (2 * width**2)) for width in (0.01, 0.1, 1.0)])
    >>> solution = solve(kernels, np.sin(6 * x), loss="squared", regularizer="l1", strength=0.1, tol=1e-6)
    >>> solution.kernel_weights[0] == 0.0, bool(solution.certificate.relative_gap <= 1e-6)
    (np.True_, True)
    """
    stack = as_stack(stack)
    kept, weight = _positive_weights(sample_weight, stack.n_samples)
    if kept is not None:
        stack, y = stack.restrict(kept), np.asarray(y)[kept]
    problem = problem_of(
        stack,
        np.asarray(y),
        get_loss(loss),
        _regularizer(regularizer, strength),
        fit_intercept=fit_intercept,
        sample_weight=weight,
        kernel_penalties=None if kernel_penalties is None else np.asarray(kernel_penalties),
    )
    chosen = configured_solver(solver, problem, **parameters)
    if kept is None:
        return chosen.solve(problem, warm_start)
    n_samples = np.asarray(sample_weight).size
    check_warm_start(warm_start, n_samples, problem.n_kernels)
    if warm_start is not None:
        warm_start = replace(warm_start, dual_coef=warm_start.dual_coef[kept])
    return chosen.solve(problem, warm_start).scattered(kept, n_samples)


def problem_of(stack: Any, y: Any, loss: Any, regularizer: Regularizer, **given: Any) -> Problem:
    """Return the problem that kernels, a target and a loss make: the one place that decides of which kind it is.

    Parameters
    ----------
    stack : GramStack
        Of any kind; kernels held as factors get dual norms, or bounds on them, linear in the samples.
    y : array of shape (N,) or (N, T)
        Of several targets in columns, which share their kernel weights.
    loss : Loss
        Of one sample at a time, of several targets, or of all samples together.
    regularizer : Regularizer
    **given
        ``fit_intercept``, ``sample_weight``, ``kernel_penalties``.

    Returns
    -------
    Problem

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import get_loss, get_regularizer
    >>> from manykernels.grams import as_stack
    >>> y = np.array([[1.0, 2.0], [3.0, 5.0]])
    >>> problem_of(as_stack(np.eye(2)[None]), y, get_loss("squared"), get_regularizer("l1", 0.1)).shared
    True
    """
    shared, joint = np.ndim(y) == 2, isinstance(loss, JointLoss)
    kind: type[Problem]
    if not isinstance(stack, FactoredStack):
        kind = SharedProblem if shared else JointProblem if joint else Problem
    elif shared or joint:
        kind = FactoredSharedProblem if shared else FactoredJointProblem
    else:
        kind = RowsProblem if stays_on_workers(stack) else FactoredProblem
    return kind(stack, y, loss, regularizer, **given)


def configured_solver(solver: str | Solver, problem: Problem, **parameters: Any) -> Solver:
    """Return the solver named (``"auto"``: the preferred one for ``problem``) with these parameters.

    Raises
    ------
    InvalidInputError
        If there is no solver of that name, or it has no such parameter.
    IncompatibleError
        If it cannot solve this problem; the message names those that can.

    Parameters
    ----------
    solver : str or Solver
    problem : Problem
    **parameters
        Of the solver: ``tol``, ``max_iter``, ...

    Returns
    -------
    Solver
    """
    if isinstance(solver, str) and solver == "auto":
        return choose_solver(problem)[0].configured(**parameters)
    if isinstance(solver, Solver):
        own = {entry.name: getattr(solver, entry.name) for entry in fields(solver)}
        chosen = type(solver).configured(**(own | parameters))
    else:
        chosen = get_solver(solver).configured(**parameters)
        check_alias(solver, problem)
    check_able(chosen, problem)
    return chosen


def _regularizer(regularizer: str | Regularizer, strength: float | None) -> Regularizer:
    if isinstance(regularizer, Regularizer):
        if strength is not None and strength != regularizer.strength:
            raise InvalidInputError(
                f"strength={strength!r} contradicts {regularizer!r}; give the strength once, in the object or by name."
            )
        return regularizer
    if strength is None:
        raise InvalidInputError(f"regularizer {regularizer!r} needs a strength, for example strength=1.0.")
    return get_regularizer(regularizer, strength)


def _positive_weights(sample_weight: ArrayLike | None, n_samples: int) -> tuple[Array | None, Array | None]:
    """Return the samples to keep (None for all) and their weights."""
    if sample_weight is None:
        return None, None
    weight = check_nonnegative_vector(sample_weight, n_samples, "sample_weight")
    if (weight > 0).all():
        return None, weight
    kept = np.flatnonzero(weight)
    if kept.size == 0:
        raise InvalidInputError("sample_weight is zero for every sample; at least one must be positive.")
    return kept, weight[kept]
