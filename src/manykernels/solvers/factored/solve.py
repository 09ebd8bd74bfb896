"""The way in: a table, a target and a bank become a model, in time linear in the number of rows."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manykernels.exceptions import ConvergenceWarning, InvalidInputError
from manykernels.grams.factored import FactoredStack, factored_stack
from manykernels.grams.rows import here, is_chunked, with_target
from manykernels.kernels import KernelBank, Linear
from manykernels.objective.losses import Loss, get_loss
from manykernels.objective.problem import Problem
from manykernels.objective.regularizers import Regularizer, get_regularizer
from manykernels.solvers.factored.advice import obstacle
from manykernels.solvers.factored.certificate import feasible, settled_norms
from manykernels.solvers.factored.fallback import stays_on_workers
from manykernels.solvers.factored.model import FactoredModel
from manykernels.solvers.factored.problem import FactoredProblem, RowsProblem
from manykernels.solvers.factored.state import Component, State
from manykernels.solvers.factored.tuning import PLAIN_BUDGET
from manykernels.solvers.factored.working_set import FactoredWorkingSet, Quads, run_together

Array = NDArray[Any]

SHARP = 1e-7
"""Width of bounds on quadratic forms, beside the largest, that do for the strength at which a model is empty."""

MESSAGES = {
    "converged": "The gap of the exact kernels is at most tol.",
    "max_iter": "The rounds ran out; raise max_rounds.",
    "time_limit": "Time ran out; raise time_limit.",
    "stalled": "Neither more kernels nor finer factors close the gap any more: rounding, or kernels whose bounds are "
    "too loose to settle. A larger tol, a larger strength or fewer kernels on several columns would end it.",
}


def solve_factored(
    X: Any,
    y: ArrayLike | str,
    bank: KernelBank | FactoredStack | None = None,
    *,
    loss: str | Loss = "logistic",
    regularizer: str | Regularizer = "l1",
    strength: float | None = None,
    relative_strength: float | None = None,
    fit_intercept: bool = True,
    sample_weight: ArrayLike | None = None,
    kernel_penalties: ArrayLike | None = None,
    tol: float = 1e-4,
    max_rounds: int = 50,
    time_limit: float = np.inf,
) -> FactoredModel:
    """Fit many kernels on many rows, with a proof of optimality for the exact kernels.

    ``min_{f,b} sum_i s_i l(y_i, f_i + b) + Omega(t)`` with ``t_m = w_m ||f_m||``, as in `solve`; memory and time of a
    pass grow with the number of rows, not with its square.

    Parameters
    ----------
    X : DataFrame or (n_samples, n_columns) array, or what `open_rows` takes
        float32 or float64 arrays in column order are read in place; memory maps, Parquet files and Dask collections are
        read in chunks for every pass, never as a whole.
    y : array_like of shape (n_samples,), or str
        Labels -1 and +1 for a classification loss, numbers for a regression loss. The name of a column of rows in
        chunks.
    bank : KernelBank or FactoredStack, optional
        The kernels, or the stack of these kernels on ``X``; a line and three Gaussians on every column if not given.
    loss : str or Loss, default="logistic"
        As in `solve`; hinge, epsilon-insensitive and quantile losses are smoothed, the gap contains the error (up to
        1000 rows N x N matrices take over).
    regularizer : str or Regularizer, default="l1"
        ``"l1"``, ``"elasticnet"``, ``"ridge"``, ``"lq"``, ``"simplex"``, ``"lp_ball"`` or an object of these.
    strength : float, optional
        On the sum of losses.
    relative_strength : float, optional
        Strength as a part of the smallest one at which no kernel is active; give one of the two.
    fit_intercept : bool, default=True
        Whether the model has an intercept.
    sample_weight : array_like of shape (n_samples,), optional
        Positive.
    kernel_penalties : array_like of shape (n_kernels,), optional
        Positive ``w``.
    tol : float, default=1e-4
        Relative gap of the exact kernels.
    max_rounds : int, default=50
        Passes over all kernels.
    time_limit : float, optional
        Seconds, looked at after every pass.

    Returns
    -------
    FactoredModel
        Predicts, decomposes, and says how far from optimal it is.

    Raises
    ------
    InvalidInputError
        If the input is wrong.
    MemoryBudgetError
        If the factors of the kernels that enter would pass 4 GB.
    IncompatibleError
        If the bank normalizes rows or centers, or the penalty has another shape.

    Warns
    -----
    ConvergenceWarning
        If the gap is above ``tol`` at the end.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import KernelBank, Linear
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> bank = KernelBank.per_feature(widths=[0.5, 1.0, 2.0], standardize=True)
    >>> model = solve_factored(X, np.sin(2 * X[:, 0]), bank, loss="squared", relative_strength=0.1)
    >>> model.names[0][:2], model.dual_gap <= 1e-4
    ('x0', True)
    """
    if is_chunked(X):
        X, y = with_target(X, y)
    stack = bank if isinstance(bank, FactoredStack) else factored_stack(X, bank or default_bank())
    problem, largest, quads = _posed(
        stack, y, loss, regularizer, strength, relative_strength, fit_intercept, sample_weight, kernel_penalties
    )
    method = FactoredWorkingSet(problem, tol, max_rounds, time_limit, quads)
    del quads  # as long as the kernels are many
    state, status = method.run()
    return _told(_model(problem, state, status, largest, tol), tol, "solve_factored")


def solve_factored_each(
    X: Any,
    Y: ArrayLike,
    bank: KernelBank | FactoredStack | None = None,
    *,
    loss: str | Loss = "logistic",
    regularizer: str | Regularizer = "l1",
    strength: float | None = None,
    relative_strength: float | None = None,
    fit_intercept: bool = True,
    sample_weight: ArrayLike | None = None,
    kernel_penalties: ArrayLike | None = None,
    tol: float = 1e-4,
    max_rounds: int = 50,
    time_limit: float = np.inf,
) -> tuple[FactoredModel, ...]:
    """Fit several targets, or one class each against the others, every one with kernel weights of its own.

    The same models as one `solve_factored` a column of ``Y``, but a pass over all kernels serves all of them, and they
    share the spectra of kernels.

    Parameters
    ----------
    X : DataFrame or (n_samples, n_columns) array, or what `open_rows` takes
        As in `solve_factored`.
    Y : array_like of shape (n_samples, n_targets)
        Labels -1 and +1 in every column for a classification loss, numbers for a regression loss.
    bank : KernelBank or FactoredStack, optional
        As in `solve_factored`, like all that is not described here.
    loss : str or Loss, default="logistic"
        The same for every column.
    regularizer : str or Regularizer, default="l1"
        The same for every column.
    strength : float, optional
        On the sum of losses.
    relative_strength : float, optional
        Strength as a part of the smallest one at which the model of a column is empty, column by column.
    fit_intercept : bool, default=True
        Whether every model has an intercept.
    sample_weight : array_like of shape (n_samples,), optional
        Positive.
    kernel_penalties : array_like of shape (n_kernels,), optional
        Positive ``w``.
    tol : float, default=1e-4
        Relative gap of the exact kernels.
    max_rounds : int, default=50
        Passes over all kernels.
    time_limit : float, optional
        Seconds, for all of them.

    Returns
    -------
    tuple of FactoredModel
        One a column.

    Raises
    ------
    InvalidInputError
        If the input is wrong.
    MemoryBudgetError, IncompatibleError
        As in `solve_factored`.

    Warns
    -----
    ConvergenceWarning
        For every column whose gap is above ``tol`` at the end.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import KernelBank
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> Y = np.column_stack([np.sin(2 * X[:, 0]), X[:, 1] ** 2])
    >>> bank = KernelBank.per_feature(widths=[0.5, 1.0, 2.0], standardize=True)
    >>> models = solve_factored_each(X, Y, bank, loss="squared", relative_strength=0.3)
    >>> [model.names[0][:2] for model in models]
    ['x0', 'x1']
    """
    if is_chunked(X):
        X, Y = with_target(X, Y)
    targets: Any = Y.to_dask_array(lengths=True) if hasattr(Y, "to_dask_array") else Y
    targets = targets if hasattr(targets, "dask") else np.asarray(targets)
    if targets.ndim != 2 or not targets.shape[1]:
        raise InvalidInputError(
            f"Y must be of shape (n_samples, n_targets), got {targets.shape}. solve_factored fits one."
        )
    stack = bank if isinstance(bank, FactoredStack) else factored_stack(X, bank or default_bank())
    posed = [
        _posed(stack, y, loss, regularizer, strength, relative_strength, fit_intercept, sample_weight, kernel_penalties)
        for y in (targets[:, t] for t in range(targets.shape[1]))
    ]
    methods = [FactoredWorkingSet(problem, tol, max_rounds, time_limit, quads) for problem, _, quads in posed]
    ended = run_together(methods)
    models = [_model(problem, *end, largest, tol) for (problem, largest, _), end in zip(posed, ended, strict=True)]
    return tuple(_told(model, tol, f"solve_factored_each, column {t},") for t, model in enumerate(models))


def _told(model: FactoredModel, tol: float, who: str) -> FactoredModel:
    """Return the model; warn if its gap is above ``tol``."""
    if model.status != "converged":
        message = f"{who} ended with gap {model.dual_gap:.2e} > tol = {tol:g}. {model.message}"
        warnings.warn(message, ConvergenceWarning, stacklevel=3)
    return model


def default_bank() -> KernelBank:
    """Return a line and three Gaussians on every column: the default bank without kernels on all columns."""
    return KernelBank.per_feature(Linear(), widths=("0.5*median", "median", "2*median"), standardize=True)


def _posed(
    stack: FactoredStack,
    y: ArrayLike,
    loss: str | Loss,
    regularizer: str | Regularizer,
    strength: float | None,
    relative: float | None,
    fit_intercept: bool,
    sample_weight: ArrayLike | None,
    kernel_penalties: ArrayLike | None,
) -> tuple[Problem, float, Quads]:
    """Return the problem, the strength at which its model is empty, and the bounds of the pass that says so."""
    whole = isinstance(regularizer, Regularizer)
    if (strength is not None) + (relative is not None) + whole != 1:
        raise InvalidInputError(
            "Give exactly one of strength, relative_strength, and a regularizer that carries its strength; got "
            f"strength={strength!r}, relative_strength={relative!r}, regularizer={regularizer!r}."
        )
    first = regularizer if isinstance(regularizer, Regularizer) else get_regularizer(regularizer, strength or 1.0)
    kind, taken = (RowsProblem, _as_it_is) if stays_on_workers(stack) else (FactoredProblem, _in_this_process)
    problem = kind(
        stack,
        taken(y),
        get_loss(loss),
        first,
        fit_intercept=fit_intercept,
        sample_weight=None if sample_weight is None else taken(sample_weight),
        kernel_penalties=None if kernel_penalties is None else np.asarray(kernel_penalties, dtype=np.float64),
    )
    largest, quads = _strength_max(problem)
    if relative is None:
        return problem, largest, quads
    if largest == 0:
        raise InvalidInputError(
            "The model is empty at every strength, because the target is constant or the kernels are: "
            "relative_strength would be a part of nothing. Check y, or give strength."
        )
    if not np.isfinite(largest):
        raise InvalidInputError(
            f"relative_strength needs a penalty that empties the model at some strength, and {regularizer!r} never "
            "does. Give strength instead."
        )
    assert isinstance(regularizer, str)
    chosen = get_regularizer(regularizer, float(relative) * largest)
    return problem.with_penalty(chosen), largest, quads


def _as_it_is(values: Any) -> Any:
    return values


def _in_this_process(values: Any) -> Array:
    return np.asarray(here(values.compute() if hasattr(values, "dask") else values))


def _strength_max(problem: Problem) -> tuple[float, Quads]:
    """Return the strength at which the model is empty, and the bounds of the pass that says so."""
    stack = problem.stack
    assert isinstance(stack, FactoredStack)
    rho = feasible(problem, -problem.zero_model()[0])
    low, high = stack.quad_bounds(rho)
    if np.all(high - low <= SHARP * high.max(initial=0.0)):
        norms = np.sqrt(0.5 * (low + high)) / problem.penalties
    elif stack.exact_cost * problem.n_kernels <= PLAIN_BUDGET and not isinstance(problem, RowsProblem):
        return problem.strength_max(), (low, high)
    else:
        norms = settled_norms(problem, stack, rho, (low, high))
    return problem.regularizer.strength_max(norms), (low, high)


def _model(problem: Problem, state: State, status: str, largest: float, tol: float) -> FactoredModel:
    stack, best = problem.stack, state.best
    assert isinstance(stack, FactoredStack)
    assert best is not None
    components, norms = components_of(state)
    active = np.array([component.kernel for component in components], dtype=np.int64)
    weights = np.zeros(problem.n_kernels)
    # d_m = ||f_m|| / u_m with norms before penalties; u is at the bound, positive wherever a kernel is active.
    weights[active] = norms / np.maximum(best.norms[active] * problem.penalties[active], 1e-300)
    last = state.rounds[-1]
    why = "" if status == "converged" else obstacle(problem, state, tol)
    return FactoredModel(
        names=tuple(stack.name_of(int(m)) for m in active),
        active=active,
        kernel_weights=weights,
        block_norms=norms,
        intercept=state.point.b,
        _dual=best.scale * best.rho,
        primal=state.primal,
        dual=best.value,
        dual_gap=last.relative_gap,
        approximate_gap=last.approximate_gap,
        status=status,
        message=why or MESSAGES[status],
        history=tuple(state.rounds),
        strength_max=largest,
        _stack=stack,
        _components=tuple(components),
        _classes=(-1.0, 1.0) if problem.loss.task == "classification" else None,
    )


def components_of(state: State) -> tuple[list[Component], Array]:
    """Return the functions of the active kernels, and their norms without penalties."""
    if state.fallback is not None:
        return list(state.fallback.components), state.fallback.norms
    return _from_factors(state)


def _from_factors(state: State) -> tuple[list[Component], Array]:
    """Return the functions of the kernels whose coefficients are not zero, in the bank's order, and their norms."""
    if state.objective is None:
        return [], np.zeros(0)
    starts, norms = state.objective.penalty.starts, state.objective.penalty.norms(state.point.v)
    alive = np.flatnonzero(norms)
    alive = alive[np.argsort(state.objective.kernels[alive])]
    parts = [state.point.v[starts[slot] : starts[slot + 1]] for slot in alive]
    kernels = state.objective.kernels[alive].tolist()
    return [Component(m, v, state.factor_tol) for m, v in zip(kernels, parts, strict=True)], norms[alive]
