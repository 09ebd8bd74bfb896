"""The front door: ``solve`` leads kernels of any kind, a target and a penalty to the problem and the solver they need.

    min_{F,b} L(F + 1 b') + Omega(t),    t_m = w_m ||f_m||

The kind of problem, the storage of kernels, and the solver are decided in the module only: estimators, cross-validation
and paths call the same functions.
"""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse

from manykernels.exceptions import (
    ConvergenceWarning,
    IncompatibleError,
    InvalidInputError,
    MemoryBudgetError,
    memory_errors_of,
    warn,
)
from manykernels.grams import GramStack, as_stack
from manykernels.grams.expansion import Expansion
from manykernels.grams.factored import factored_stack
from manykernels.grams.factored.banks import projected_bank
from manykernels.grams.rows.base import RowSource
from manykernels.grams.rows.opening import is_chunked, with_target
from manykernels.grams.rows.vectors import RowVector
from manykernels.grams.seconds import ProblemForm
from manykernels.grams.training import Training, advice_on_chunks, open_chunks, open_training
from manykernels.kernels import KernelBank, Pairs
from manykernels.kernels.bank.columns import Table
from manykernels.objective.losses import AnyLoss, get_loss, survival_target
from manykernels.objective.losses.survival import check_survival
from manykernels.objective.problem import Problem
from manykernels.objective.regularizers import Penalty, Regularizer, get_regularizer, parameters_of
from manykernels.objective.regularizers.base import check_regularizer
from manykernels.solvers.base import Solver, check_warm_start
from manykernels.solvers.factored.model import FactorFunctions
from manykernels.solvers.registry import configured_solver, here_as_array, problem_of, refusal_of_factors
from manykernels.solvers.solution import Solution, Status
from manykernels.validation.arrays import Array, check_choice, check_nonnegative_vector, check_positive
from manykernels.validation.parameters import SOLVE_NAMES, says_which

RELATIVE = re.compile(r"\s*([0-9.]+(?:[eE][-+]?[0-9]+)?)\s*\*\s*max\s*")


@says_which(SOLVE_NAMES)
@memory_errors_of("The solver")
def solve(
    kernels: object,
    y: ArrayLike | str,
    *,
    X: object = None,
    loss: str | AnyLoss,
    penalty: Penalty,
    alpha: float | str | None = None,
    fit_intercept: bool = True,
    sample_weight: ArrayLike | None = None,
    kernel_penalties: ArrayLike | None = None,
    outputs: str = "own",
    representation: str = "auto",
    memory_budget: int | str | None = None,
    n_jobs: int | None = None,
    solver: str | Solver = "auto",
    warm_start: Solution | None = None,
    **parameters: object,
) -> Any:
    """Solve a multiple kernel learning problem and prove how far from optimal the answer is.

    ``min_{F,b} L(F + 1 b') + Omega(t)`` with ``t_m = w_m ||f_m||``: a sum of losses over samples, ``sum_i s_i l(y_i,
    f_i + b)``, or a loss of all samples together. With ``outputs="shared"`` several targets have one set of kernel
    weights, ``||f_m||^2`` the sum over targets.

    Parameters
    ----------
    kernels : GramStack, array of shape (n_kernels, n_samples, n_samples), or KernelBank
        Symmetric positive semidefinite Gram matrices, kernels leading; a stack of any kind, for example that of
        :func:`~manykernels.grams.factored.factored_stack`, which is linear in the samples; or a bank, with ``X``.
    y : array_like of shape (n_samples,) or (n_samples, n_targets), structured array, or str
        Labels -1 and +1 for a classification loss, numbers for a regression loss, several in columns; events and times
        as :func:`~manykernels.survival_array` makes them for the loss ``"cox"``; the name of a column of rows in
        chunks.
    X : DataFrame or array of shape (n_samples, n_columns), or what `open_rows` takes, optional
        The table that a bank is for. Memory maps, Parquet files and Dask collections are read once into a table if the
        columns that kernels read, at 8 bytes an entry, take at most a quarter of ``memory_budget``: the solution is
        that of the same table in memory. Larger ones stay in chunks, which every sum over rows reads again.
    loss : str or Loss
        ``"logistic"``, ``"hinge"``, ``"squared_hinge"``, ``"squared"``, ``"epsilon_insensitive"``, ``"huber"``,
        ``"quantile"``, ``"poisson"``, ``"gamma"``, ``"cox"``, or an object.
    penalty : str, Regularizer or mapping
        ``"l1"``, ``"elasticnet"``, ``"lq"``, ``"ridge"``, a set of weights (``"simplex"``, ``"lp_ball"``,
        ``"elasticnet_ball"``), or an object, which carries the respective strength; a mapping gives kernels separate
        penalties, as in the estimators. What shapes a named penalty is given beside it: ``l1_ratio``, ``q``, ``p``,
        ``eta``.
    alpha : float or str, optional
        The strength relative to the mean loss, as in the estimators: ``C = alpha * sum_i s_i`` multiplies the penalty
        beside the sum of losses. ``"0.1*max"`` is a tenth of the smallest strength at which no kernel is active. A
        penalty that is given by name needs it; a penalty object has ``C`` itself.
    fit_intercept : bool
        Whether there is an intercept ``b``; the dual coefficients then sum to zero. A loss that does not see a shift of
        all scores has none.
    sample_weight : array_like of shape (n_samples,), optional
        Non-negative; samples of weight zero get dual coefficient zero.
    kernel_penalties : array_like of shape (n_kernels,), optional
        Positive ``w``.
    outputs : {"own", "shared"}, default="own"
        Whether several targets share kernel weights; separate weights return a tuple of solutions.
    representation : {"auto", "gram", "factored"}, default="auto"
        How kernels of a bank are held; see :func:`~manykernels.grams.plan.plan_kernels`.
    memory_budget : int, str or None
        Of a bank: bytes, or text like ``"2GB"``; half of the memory if None, less where not free.
    n_jobs : int or None
        Threads.
    solver : str or Solver
        A name, ``"auto"``, or a configured solver; parameters given here replace its own.
    warm_start : Solution, optional
        A solution on the same kernels and samples to start from.
    **parameters
        Parameters of the solver: ``tol``, ``max_iter``, ``time_limit``, ``callback``, ``verbose``, ...

    Returns
    -------
    Solution, or tuple of Solution
        Dual coefficients, kernel weights, intercept, the certificate of exactly this model, and how it was reached; one
        for each of several targets with weights of their own. Its
        ``decision_function`` gives the scores of new rows, or of their kernels with the training samples.

    Raises
    ------
    InvalidInputError
        If anything about the input is wrong; the message says what and how to mend it.
    IncompatibleError
        For an unsupported problem; the message lists suitable solvers.
    MemoryBudgetError
        If the kernels of a bank do not fit in any form.

    Warns
    -----
    ConvergenceWarning
        If the gap is above ``tol`` at the end, whatever the reason.
    UserWarning
        For times of the loss ``"cox"`` without events: all events count as seen.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(0, 1, 30)
    >>> kernels = np.stack([np.exp(-((x[:, None] - x) ** 2) / (2 * width**2)) for width in (0.01, 0.1, 1.0)])
    >>> solution = solve(kernels, np.sin(6 * x), loss="squared", penalty="l1", alpha=0.1 / 30, tol=1e-6)
    >>> solution.kernel_weights[0] == 0.0, bool(solution.certificate.relative_gap <= 1e-6)
    (np.True_, True)

    A bank on a table, two targets with a single set of weights:

    >>> from manykernels import KernelBank
    >>> X = np.random.default_rng(0).uniform(-2, 2, (200, 3))
    >>> Y = np.column_stack([np.sin(X[:, 0]), np.cos(X[:, 0])])
    >>> bank = KernelBank.per_feature(widths=[0.5, 1.0])
    >>> found = solve(bank, Y, X=X, loss="squared", penalty="l1", alpha="0.2*max", outputs="shared")
    >>> found.decision_function(X[:5]).shape, {name[:2] for name in found.functions.names}
    ((5, 2), {'x0'})
    """
    check_choice(outputs, ("own", "shared"), "outputs")
    known = get_loss(loss)
    shape = {name: parameters.pop(name) for name in _shapes_of(penalty) if name in parameters}
    first, relative = _regularizer(penalty, alpha, _former_strength(parameters), shape)
    chunks, budget = None, memory_budget
    if is_chunked(X):
        X, y = with_target(X, y)
        chunks, (X, budget) = X, open_chunks(kernels, X, memory_budget)
        y = y if is_chunked(X) else here_as_array(y)
    target = _target(y, known)
    fit_intercept = fit_intercept and not known.couples_samples
    given = _Given(kernels, target, X, known, first, fit_intercept, sample_weight, chunks=chunks).positive()
    opened = given.open_stack(representation, budget, n_jobs)
    options: dict[str, Any] = {
        "fit_intercept": given.fit_intercept,
        "sample_weight": given.weight,
        "kernel_penalties": None if kernel_penalties is None else np.asarray(kernel_penalties),
    }
    several = outputs == "own" and given.y.ndim == 2 and not known.of_several
    targets = [given.y[:, t] for t in range(given.y.shape[1])] if several else [given.y]
    problems = [problem_of(opened.stack, own, known, first, **options) for own in targets]
    problems = [_set_strength(problem, alpha, relative) for problem in problems]
    solutions = _solve(problems, solver, given.start(warm_start, problems[0]), parameters)
    advice = None if all(found.status is Status.CONVERGED for found in solutions) else advice_on_chunks(opened.stack)
    if advice is not None:
        warn(advice, ConvergenceWarning)
    finished = tuple(given.whole(opened.attach_functions(solution)) for solution in solutions)
    return finished if several else finished[0]


def _solve(
    problems: Sequence[Problem], solver: str | Solver, warm_start: Solution | None, parameters: dict[str, Any]
) -> list[Solution]:
    """Return a solution per problem; a time limit is for all together, and warnings name the target."""
    if len(problems) == 1:
        return [configured_solver(solver, problems[0], **parameters).solve(problems[0], warm_start)]
    limit, started = parameters.get("time_limit"), time.perf_counter()
    solutions: list[Solution] = []
    no_time = 1e-9  # seconds, of targets whose turn comes when a time limit is over
    for number, problem in enumerate(problems):
        left = {} if limit is None else {"time_limit": max(limit - (time.perf_counter() - started), no_time)}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            solutions.append(configured_solver(solver, problem, **(parameters | left)).solve(problem, warm_start))
        if solutions[-1].status is not Status.CONVERGED:
            warn(f"Target {number}: {solutions[-1].message}", ConvergenceWarning)
    return solutions


@dataclass(frozen=True, eq=False)
class _Opened:
    """Kernels as a stack, with the fitted bank."""

    stack: GramStack
    training: Training | None = None

    def attach_functions(self, solution: Solution) -> Solution:
        """Return the solution with functions of new rows, if a bank defines the kernels."""
        if self.training is None:
            return solution
        if isinstance(solution.functions, FactorFunctions):  # of columns as the bank prepares them
            return replace(solution, functions=replace(solution.functions, bank=self.training.bank))
        rho = solution.dual_coef.reshape(len(solution.dual_coef), -1).T
        own = Expansion.create(self.training.bank, self.training.prepared, solution.kernel_weights[None], rho)
        return replace(solution, functions=own)


@dataclass(frozen=True, eq=False)
class _Given:
    """The arguments of `solve`, without samples of weight zero."""

    kernels: Any
    y: Any
    X: Any
    loss: AnyLoss
    regularizer: Regularizer
    fit_intercept: bool
    weight: Any
    kept: Array | None = None
    n_samples: int = 0
    chunks: RowSource | None = None  # where X is the table that was read from these

    def positive(self) -> _Given:
        """Return the samples of positive weight."""
        if self.weight is None or not isinstance(self.y, np.ndarray):
            return self
        weight = check_nonnegative_vector(here_as_array(self.weight), len(self.y), "sample_weight")
        if (weight > 0).all():
            return replace(self, weight=weight)
        kept = np.flatnonzero(weight)
        if kept.size == 0:
            raise InvalidInputError("sample_weight is zero for every sample; at least one must be positive.")
        if is_chunked(self.X) or getattr(self.kernels, "has_factors", False):
            raise InvalidInputError(
                f"sample_weight is zero for {len(weight) - len(kept)} of {len(weight)} samples, which kernels held as "
                "factors of all rows, or rows in chunks, cannot leave out. Leave them out of the table, or pass a "
                "KernelBank with an array or DataFrame."
            )
        kernels = self.kernels if self.X is not None else as_stack(self.kernels).restrict(kept)
        rows = (
            None
            if self.X is None
            else self.X[kept]
            if isinstance(self.X, Pairs)
            else Table.wrap(self.X, sparse=True)[kept]
        )
        return replace(
            self, kernels=kernels, X=rows, y=self.y[kept], weight=weight[kept], kept=kept, n_samples=len(weight)
        )

    def open_stack(self, representation: str, memory_budget: int | str | None, n_jobs: int | None) -> _Opened:
        """Return the kernels as a stack."""
        if self.X is None:
            if isinstance(self.kernels, KernelBank):
                raise InvalidInputError("A KernelBank needs a table: solve(bank, y, X=table, ...).")
            return _Opened(as_stack(self.kernels))
        if not hasattr(self.kernels, "fit"):
            raise InvalidInputError("X is the table of a KernelBank, and these kernels are matrices: leave X out.")
        if isinstance(self.X, RowSource):
            return self._chunk_kernels(self.X, representation)
        settings: dict[str, Any] = {
            "memory_budget": memory_budget,
            "form": ProblemForm(
                n_targets=1 if self.y.ndim == 1 else self.y.shape[1],
                shared=self.y.ndim > 1,
                kinked=not self.loss.smooth,
                coupled=self.loss.couples_samples,
            ),
            "representation": representation,
            "refusal": partial(refusal_of_factors, self.loss, self.regularizer, "auto"),
            "fit_intercept": self.fit_intercept or self.loss.couples_samples,
        }
        try:
            training = open_training(self.kernels, self.X, n_jobs=n_jobs, **settings)
        except MemoryBudgetError:
            if self.chunks is None or self.kept is not None:
                raise
            return self._chunk_kernels(self.chunks, representation)
        return _Opened(training.stack, training)

    def _chunk_kernels(self, source: RowSource, representation: str) -> _Opened:
        """Return the kernels of rows in chunks, as factors."""
        if representation == "gram":
            raise IncompatibleError(
                f"representation='gram' needs a table in memory, but {source!r} exceed a quarter of the memory budget. "
                "Raise memory_budget, or leave representation at 'auto'."
            )
        if not isinstance(self.kernels, KernelBank):
            raise InvalidInputError(f"Rows that stay in chunks need a KernelBank, not a {type(self.kernels).__name__}.")
        return _Opened(factored_stack(source, projected_bank(self.kernels, source.n_rows)))

    def start(self, warm_start: Solution | None, problem: Problem) -> Solution | None:
        """Return the part of an earlier solution of the samples."""
        if self.kept is None or warm_start is None:
            return warm_start
        check_warm_start(warm_start, self.n_samples, problem.n_kernels)
        return replace(warm_start, dual_coef=warm_start.dual_coef[self.kept])

    def whole(self, solution: Solution) -> Solution:
        """Return a solution of all samples, including weight zero."""
        return solution if self.kept is None else solution.scatter(self.kept, self.n_samples)


def _target(y: Any, loss: AnyLoss) -> Any:
    """Return a target for problems; distributed targets stay with the rows."""
    if issparse(y):
        raise InvalidInputError("y is a sparse matrix, but losses need dense arrays. Pass y.toarray().")
    of_times = bool(getattr(getattr(y, "dtype", None), "names", None))
    if of_times and not loss.couples_samples:
        raise InvalidInputError(f"y holds fields, as times with events do, and the {loss.name} loss reads numbers.")
    if loss.couples_samples and (hasattr(y, "columns") or of_times):
        seen = check_survival(y)
        return survival_target(seen["event"], seen["time"], seen["stratum"])
    if loss.couples_samples and np.ndim(y) > 1:
        raise InvalidInputError(
            f"The {loss.name} loss needs one time and one event a sample, got y of shape {np.shape(y)}. Make it by "
            "survival_array(event, time)."
        )
    if hasattr(y, "to_dask_array"):
        y = y.to_dask_array(lengths=True)
    y = y if hasattr(y, "dask") or isinstance(y, RowVector) else np.asarray(y)
    if loss.couples_samples and isinstance(y, np.ndarray) and y.dtype.kind in "iuf" and (y > 0).all():
        warn(
            "y has times without events, so all events count as observed. Pass survival_array(event, time); "
            "survival_array(np.ones(len(time)), time) silences this warning."
        )
    return y


def _shapes_of(penalty: Penalty) -> tuple[str, ...]:
    """Return the names of the shape parameters of a penalty given by name."""
    return parameters_of(penalty) if isinstance(penalty, (str, Mapping)) else ()


def _regularizer(
    penalty: Penalty, alpha: float | str | None, strength: float | None, shape: dict[str, Any]
) -> tuple[Regularizer, float | None]:
    """Return the penalty, and the strength as a fraction of the empty-model strength; see `_set_strength`."""
    relative = None
    if isinstance(alpha, str):
        found = RELATIVE.fullmatch(alpha)
        if found is None:
            raise InvalidInputError(
                f"alpha must be a positive number, or a positive multiple of the strength at which the model is empty, "
                f"such as '0.1*max', got {alpha!r}."
            )
        relative = check_positive(float(found[1]), "alpha")
    elif alpha is not None:
        check_positive(alpha, "alpha")
    given = {name: value for name, value in (("alpha", alpha), ("strength", strength)) if value is not None}
    if strength is not None:
        check_positive(strength, "strength")
    if not isinstance(penalty, (str, Mapping)):
        check_regularizer(penalty)
        if given and given != {"strength": penalty.strength}:
            name, value = next(pair for pair in given.items() if pair != ("strength", penalty.strength))
            raise InvalidInputError(
                f"{name}={value!r} contradicts {penalty!r}; give the strength once, in the object or by name."
            )
        return penalty, None
    if len(given) > 1:
        raise InvalidInputError(f"Give one of {', '.join(f'{name}={value!r}' for name, value in given.items())}.")
    if not given:
        raise InvalidInputError(f"penalty {penalty!r} needs a strength, for example alpha=0.01 or alpha='0.1*max'.")
    return get_regularizer(penalty, 1.0 if strength is None else strength, **shape), relative


def _former_strength(parameters: dict[str, Any]) -> float | None:
    """Return the strength under its former name, with a warning, and take it out of the parameters."""
    strength: float | None = parameters.pop("strength", None)
    if strength is not None:
        warn(
            "strength of solve() is now alpha, relative to the mean loss: give alpha=strength / sum(sample_weight) "
            "or a penalty object such as BlockL1(strength). The former name will be rejected in version 0.3.",
            FutureWarning,
        )
    return strength


def _set_strength(problem: Problem, alpha: float | str | None, relative: float | None) -> Problem:
    """Return the problem at the strength, relative to the weights or to an empty model."""
    if relative is not None:
        return problem.at_fraction(relative)
    if alpha is None:
        return problem
    return problem.with_penalty(replace(problem.regularizer, strength=float(alpha) * problem.total_weight))
