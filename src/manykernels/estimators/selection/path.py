"""Regularization path: solutions over a grid of strengths, with warm starts."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from manykernels.estimators.parameters import check_parameters, place_of
from manykernels.estimators.selection.cross_validation import MKLClassifierCV, MKLRegressorCV
from manykernels.estimators.selection.mixtures import PenaltyFamily, alpha_grid, check_alphas
from manykernels.estimators.strength import strength_from_alpha
from manykernels.estimators.supervised.problems import Fit, SolverChoice, descend, silence_solver, solve_problems
from manykernels.estimators.supervised.samples import class_labels, encode_labels, kernel_factors, numeric_targets
from manykernels.exceptions import ConvergenceWarning, InvalidInputError, memory_errors_of, warn
from manykernels.grams import GramStack
from manykernels.grams.base import is_stack
from manykernels.grams.seconds import ProblemForm
from manykernels.grams.training import is_precomputed, open_training
from manykernels.kernels import KernelBank, Pairs
from manykernels.kernels.bank.columns import Table
from manykernels.kernels.precomputed.stack import as_kernel_stack
from manykernels.kernels.tables.encoding import some
from manykernels.objective.losses import get_loss, survival_target
from manykernels.objective.losses.survival import FIELDS, check_survival
from manykernels.objective.problem import Problem
from manykernels.objective.regularizers import Regularizer, get_regularizer
from manykernels.solvers import Solution, Solver, Status, get_solver
from manykernels.solvers.registry import problem_of, refusal_of_factors
from manykernels.solvers.run import interrupted
from manykernels.solvers.solution import count_to
from manykernels.threads import blas_threads
from manykernels.validation.arrays import check_nonnegative, check_positive

if TYPE_CHECKING:
    from manykernels.estimators.selection.mixtures import PenaltyFamily
    from manykernels.objective.losses import Loss
    from manykernels.validation.arrays import Array


# How well the models of a path predict rows that they did not learn from: a score and its deviation over splits.


MEASURES = {"neg_root_mean_squared_error": ("rmse", -1.0), "accuracy": ("accuracy", 1.0)}
DEFAULTS = {"regression": "neg_root_mean_squared_error", "classification": "accuracy"}


@dataclass(frozen=True)
class Splits:
    """Splits for a path, and the measure in every split."""

    cv: Any  # none measures nothing
    scoring: Any  # none is the root mean squared error (rmse), for classes the accuracy
    solver: str | Solver
    parameters: dict[str, Any]  # of a solver given by name
    settings: dict[str, Any]  # of the estimator with built-in cross-validation, which follows the path in every split

    def measure(
        self, X: Any, y: Any, sample_weight: Any, alphas: Array, loss: Loss, family: PenaltyFamily
    ) -> pd.DataFrame | None:
        """Return ``alpha``, with mean and standard deviation of the measure over the splits, and all values."""
        if self.cv is None:
            return None
        if is_stack(X):
            raise InvalidInputError(
                "cv needs rows, or a KernelStack with kernels='precomputed': a GramStack cannot be split. Leave cv out."
            )
        if loss.task not in DEFAULTS:
            raise InvalidInputError(
                f"cv measures paths of regression and classification, and the loss '{loss.name}' is neither: "
                "MKLSurvivalCV follows such paths in folds. Leave cv out."
            )
        scoring = DEFAULTS[loss.task] if self.scoring is None else self.scoring
        model = self._estimator(alphas, loss, family, scoring)
        with warnings.catch_warnings():
            # The path has warned of what did not converge; which strength is best is not asked here.
            warnings.simplefilter("ignore", UserWarning)
            model.fit(X, y, sample_weight)
        found = model.cv_results_
        name, sign = MEASURES.get(scoring, ("score", 1.0)) if isinstance(scoring, str) else ("score", 1.0)
        columns = {"alpha": found["alpha"], name: sign * found["mean_score"], f"{name}_std": found["std_score"]}
        splits = {f"{name}_{k}": sign * found[f"score_{k}"] for k in range(model.n_folds_)}
        return pd.DataFrame(columns | splits)

    def _estimator(self, alphas: Array, loss: Loss, family: PenaltyFamily, scoring: Any) -> Any:
        solver, parameters = self.solver, self.parameters
        if isinstance(solver, str) and solver != "auto" and parameters:
            solver, parameters = get_solver(solver)(**parameters), {}
        kind = MKLClassifierCV if loss.task == "classification" else MKLRegressorCV
        given = {
            "loss": loss,
            "penalty": family.create_penalty(1, 1),
            "alphas": alphas,
            "cv": self.cv,
            "scoring": scoring,
        }
        placed = {place_of(name): value for name, value in (self.settings | parameters).items()}
        return kind(**given, solver=solver).set_params(**placed)


@dataclass(frozen=True, eq=False)
class RegularizationPath:
    """Solutions at decreasing strengths.

    Attributes
    ----------
    alphas : ndarray of shape (n_alphas,)
        Strengths relative to the mean loss, decreasing.
    solutions : tuple of Solution
        A solution per strength, with the certificate.
    norms : ndarray of shape (n_alphas, n_kernels)
        ``||f_m||``, the norm in the space of the kernel.
    kernel_names : tuple of str
    alpha_max : float or None
        Smallest strength at which no kernel is selected; None if there is none or the grid was given.
    classes : ndarray or None
        The classes of a classification loss: the scores are positive for the second of two, or a column per class.
    performance : DataFrame or None
        With ``cv``: ``alpha``, the mean of the measure over the splits (``rmse``, ``accuracy`` or ``score``), the
        standard deviation (``rmse_std``, ...), and the value on every split.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import regularization_path
    >>> X = np.random.default_rng(0).uniform(-2, 2, size=(40, 2))
    >>> path = regularization_path(X, np.sin(2 * X[:, 1]), n_alphas=4)
    >>> len(path), path.weights.shape, bool(path.alphas[0] == path.alpha_max)
    (4, (4, 12), True)
    """

    alphas: Array
    solutions: tuple[Solution, ...]
    norms: Array
    kernel_names: tuple[str, ...]
    alpha_max: float | None
    classes: Array | None = None
    performance: pd.DataFrame | None = None

    def __len__(self) -> int:
        return len(self.alphas)

    def __repr__(self) -> str:
        kernels = f"{np.count_nonzero(~np.isnan(self.entry_alphas))} of {len(self.kernel_names)} kernels"
        reach = f"alpha {self.alphas[0]:.3g} to {self.alphas[-1]:.3g}"
        return f"<RegularizationPath: {len(self)} strengths, {reach}; {kernels} enter>"

    @property
    def weights(self) -> Array:
        """Kernel weights ``d`` (n_alphas, n_kernels)."""
        return np.array([solution.kernel_weights for solution in self.solutions])

    @property
    def entry_alphas(self) -> Array:
        """Largest strength of the grid with a positive weight of every kernel (n_kernels,); NaN for never."""
        active = self.weights > 0
        return np.where(active.any(axis=0), self.alphas[active.argmax(axis=0)], np.nan)

    def frame(self, *, active_only: bool = True) -> pd.DataFrame:
        """Return a row for every strength and kernel.

        Parameters
        ----------
        active_only : bool, default=True
            Only kernels with a positive weight at that strength.

        Returns
        -------
        DataFrame
            ``alpha``, ``kernel``, ``weight``, ``norm``.

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels import regularization_path
        >>> X = np.random.default_rng(0).uniform(-2, 2, size=(40, 2))
        >>> regularization_path(X, np.sin(2 * X[:, 1]), n_alphas=4).frame().columns.tolist()
        ['alpha', 'kernel', 'weight', 'norm']
        """
        n_kernels = len(self.kernel_names)
        frame = pd.DataFrame(
            {
                "alpha": np.repeat(self.alphas, n_kernels),
                "kernel": np.tile(np.array(self.kernel_names, dtype=object), len(self)),
                "weight": self.weights.ravel(),
                "norm": self.norms.ravel(),
            }
        )
        return frame[frame["weight"] > 0].reset_index(drop=True) if active_only else frame

    def summary(self) -> pd.DataFrame:
        """Return a row for every strength: number of kernels, objective, gap and cost.

        Returns
        -------
        DataFrame
            ``alpha``, ``n_active``, ``intercept``, ``primal``, ``relative_gap``, ``status``, ``n_iter``, ``passes``,
            ``newton_steps``, ``elapsed_s``; with ``cv`` also the measure and the standard deviation over the splits.

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels import regularization_path
        >>> X = np.random.default_rng(0).uniform(-2, 2, size=(40, 2))
        >>> regularization_path(X, np.sin(2 * X[:, 1]), n_alphas=4).summary()["status"].unique().tolist()
        ['converged']
        """
        table = pd.DataFrame(
            [
                {
                    "alpha": alpha,
                    "n_active": found.active.size,
                    "intercept": found.intercept,
                    "primal": found.certificate.primal,
                    "relative_gap": found.certificate.relative_gap,
                    "status": str(found.status),
                    "n_iter": found.n_iter,
                    "passes": found.passes,
                    "newton_steps": found.newton_steps,
                    "elapsed_s": found.elapsed_s,
                }
                for alpha, found in zip(self.alphas, self.solutions, strict=True)
            ]
        )
        return table if self.performance is None else table.join(self.performance.iloc[:, 1:3])


@dataclass(frozen=True)
class FixedRidge(PenaltyFamily):
    """The block 1-norm of strength ``alpha`` beside a ridge that stays: an elastic net of another mixture at each."""

    ridge: float = 0.0

    def __post_init__(self) -> None:
        check_positive(self.ridge, "ridge")
        if self.penalty != "l1" or self.parameters:
            raise InvalidInputError(
                f"ridge is the fixed part of a path of penalty='l1', got penalty={self.penalty!r}. Leave penalty out."
            )

    def create_penalty(self, alpha: float, total_weight: float) -> Regularizer:
        """Return the elastic net with ``alpha`` on norms and the ridge on half of their squares."""
        total = alpha + self.ridge
        return get_regularizer("elasticnet", strength_from_alpha(total, total_weight), l1_ratio=alpha / total)

    def alpha_max(self, problems: list[Problem]) -> float:
        """Return that of the block 1-norm: a ridge has no slope at zero."""
        return PenaltyFamily("l1", {}).alpha_max(problems)


@memory_errors_of("The path")
def regularization_path(
    X: Any,
    y: ArrayLike,
    *,
    kernels: Any = None,
    loss: str | Loss = "squared",
    penalty: str | Regularizer = "l1",
    ridge: float = 0.0,
    alphas: ArrayLike | None = None,
    n_alphas: int = 25,
    alpha_min_ratio: float = 1e-3,
    fit_intercept: bool = True,
    sample_weight: ArrayLike | None = None,
    kernel_penalties: Any = None,
    outputs: str = "own",
    solver: str | Solver = "auto",
    representation: str = "auto",
    memory_budget: int | str | None = None,
    n_jobs: int | None = None,
    progress: Callable[[int, int], Any] | None = None,
    verbose: int = 0,
    penalty_parameters: dict[str, Any] | None = None,
    loss_parameters: dict[str, Any] | None = None,
    cv: Any = None,
    scoring: Any = None,
    **parameters: Any,
) -> RegularizationPath:
    """Solve over a grid of strengths from the empty model down.

    Every problem starts from the solution before, unless the solver is of interior-point kind, which would not gain.

    ``min_{f,b} sum_i s_i l(y_i, f_i + b) + alpha (sum_i s_i) Omega(t)`` for every ``alpha`` of the grid.

    Parameters
    ----------
    X : DataFrame, array, KernelStack or GramStack
        Rows for the kernels of a bank, or the kernels themselves: a GramStack, or with ``kernels="precomputed"`` a
        KernelStack or an (M, N, N) array.
    y : array_like of shape (n_samples,) or, with shared weights, (n_samples, n_targets)
        Two labels of any type for a classification loss, more with shared weights; numbers for a regression loss;
        events and times, as `survival_array` makes them, for ``"cox"``.
    kernels : None, KernelBank, PrecomputedBank or "precomputed"
        As in the estimators; of no account for a GramStack.
    loss : str or Loss, default="squared"
        Loss of a prediction, as in the estimators; ``"cox"`` is that of :class:`MKLSurvival`, without an intercept.
    penalty : str, dict or Regularizer, default="l1"
        Name of the penalty, or an object, with the strengths of the path.
    ridge : float, default=0.0
        Strength, relative to the mean loss, of a ridge ``ridge / 2 sum_m t_m^2`` beside the block 1-norm with fixed
        strength: ``mu`` of rls_dual_mkl, with ``alpha`` its ``tau``. Zero for none.
    alphas : array_like, optional
        Strengths relative to the mean loss. By default a geometric grid from the smallest one with a empty model.
    n_alphas : int
        Length of the default grid.
    alpha_min_ratio : float, default=0.001
        Smallest strength of the default grid over the largest.
    fit_intercept : bool, default=True
        Learn the intercept.
    sample_weight : array_like of shape (n_samples,), optional
        Positive factors on the losses.
    kernel_penalties : array_like of shape (n_kernels,) or dict, optional
        Factors on the norms inside the penalty, as in the estimators.
    outputs : {"own", "shared"}, default="own"
        With "shared", y may have several columns of targets, or hold labels of several classes, which share a single
        set of kernel weights; intercepts are then arrays.
    solver : str or Solver, default="auto"
        Solver of every problem.
    representation : {"auto", "gram", "factored"}, default="auto"
        As in the estimators; of no account for a GramStack.
    memory_budget : int, str or None
        As in the estimators.
    n_jobs : int or None
        Threads over the kernels.
    progress : callable, optional
        Called with the number of problems solved and their total.
    verbose : int, default=0
        1 shows a progress bar, 2 also prints a line per problem.
    penalty_parameters : dict, optional
        Other parameters of the penalty: ``{"l1_ratio": 0.5}``, ``{"q": 1.5}``.
    loss_parameters : dict, optional
        Parameters of a loss given by name: ``{"tau": 0.9}``, ``{"epsilon": 0.05}``, ``{"ties": "breslow"}``.
    cv : int, splitter or iterable, optional
        Splits for the same path, to score held-out rows.
    scoring : str or callable, optional
        What is measured there: by default the root mean squared error, for classes the accuracy.
    **parameters
        Parameters of a solver given by name: ``tol``, ``max_iter``, ...; ``random_state`` also of a configured one.

    Returns
    -------
    RegularizationPath
        Solutions, norms and tables.

    Raises
    ------
    InvalidInputError
        If the input is wrong, or the penalty has no strength with an empty model and no ``alphas`` are given.

    Warns
    -----
    ConvergenceWarning
        Once, if a gap stays above ``tol`` at any strength; and after Ctrl-C, with the completed strengths, or at least
        the model without kernels.

    References
    ----------
    Z. Liu, "rls_dual_mkl", section 1.3.3 ("continuation strategy"): from large ``tau`` to small, warm started; and the
    performance measure ``perf_rmsestd`` of GURLS, the error with the standard deviation over splits.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-2, 2, size=(40, 3))
    >>> path = regularization_path(X, np.sin(2 * X[:, 1]), n_alphas=5)
    >>> int(path.summary()["n_active"][0]), path.frame()["kernel"][0]
    (0, 'x1: gaussian(width=0.5*median)')
    """
    check_parameters({"outputs": outputs, "representation": representation})
    known = get_loss(loss, **(loss_parameters or {}))
    family = _family(penalty, penalty_parameters or {}, ridge, cv)
    refusal = partial(refusal_of_factors, known, family.create_penalty(1.0, 1.0), solver)
    fit_intercept &= not known.couples_samples
    stack, names = _open_stack(X, kernels, representation, refusal, fit_intercept, known, memory_budget, n_jobs)
    classes, targets = _targets(y, known, shared=outputs == "shared")
    problem = problem_of(
        stack,
        targets,
        known,
        get_regularizer("l1", 1.0),
        fit_intercept=fit_intercept,
        sample_weight=None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64),
        kernel_penalties=kernel_factors(kernel_penalties, names),
    )
    alpha_max = family.alpha_max([problem]) if alphas is None else None
    grid = alpha_grid(alpha_max, n_alphas, alpha_min_ratio) if alpha_max is not None else check_alphas(alphas)
    regularizers = [family.create_penalty(alpha, problem.total_weight) for alpha in grid]
    steps = descend([problem], regularizers, SolverChoice(silence_solver(solver, verbose), **parameters))
    with blas_threads(problem.n_samples, n_jobs):
        fits = _completed(steps, grid, progress, verbose)
        n_done = len(fits)
        fits = fits or [_empty_model(replace(problem, regularizer=regularizers[0]), solver, parameters)]
    solutions = tuple(fit.solutions[0] for fit in fits)
    _warn_interrupted(n_done, len(grid))
    warn_unfinished(solutions)
    norms = np.array([fit.norms[0] for fit in fits])
    settings = {"kernels": kernels, "fit_intercept": fit_intercept, "kernel_penalties": kernel_penalties}
    settings |= {"outputs": outputs, "representation": representation, "memory_budget": memory_budget, "n_jobs": n_jobs}
    splits = Splits(cv, scoring, solver, parameters, settings | {"verbose": verbose})
    performance = splits.measure(X, y, sample_weight, grid, known, family) if n_done == len(grid) else None
    return RegularizationPath(grid[: len(fits)], solutions, norms, names, alpha_max, classes, performance)


def _family(penalty: str | Regularizer, parameters: dict[str, Any], ridge: float, cv: Any) -> PenaltyFamily:
    """Return the penalty of which the strength is open, beside a ridge if there is one."""
    if not check_nonnegative(ridge, "ridge"):
        return PenaltyFamily(penalty, parameters)
    if cv is not None:
        raise InvalidInputError("cv follows paths of one mixture, and ridge changes it. Leave cv or ridge out.")
    return FixedRidge(penalty, parameters, ridge=ridge)


def _completed(
    steps: Iterator[Fit], grid: Array, progress: Callable[[int, int], Any] | None, verbose: int
) -> list[Fit]:
    """Return the fits along the grid; after Ctrl-C the completed fits."""
    fits: list[Fit] = []
    try:
        with count_to(len(grid), "strengths of the path", verbose) as advance:
            for fit in steps:
                fits.append(fit)
                found = fit.solutions[0]
                gap = found.certificate.relative_gap
                advance(f"alpha {grid[len(fits) - 1]:.3g}  active {found.active.size}  gap {gap:.1e}")
                if progress is not None:
                    progress(len(fits), len(grid))
    except KeyboardInterrupt:
        pass  # what is complete is returned
    return fits


def _empty_model(problem: Problem, solver: str | Solver, parameters: dict[str, Any]) -> Fit:
    """Return the model without kernels, with the gap, as the result of Ctrl-C before the first step."""
    with interrupted():
        return solve_problems([problem], solver, None, **{"tol": 1e-4} | parameters)


def _targets(y: Any, loss: Any, *, shared: bool) -> tuple[Array | None, Array]:
    """Return the classes, if any, and the targets: signs or numbers, by column if shared."""
    if loss.couples_samples:
        if shared:
            raise InvalidInputError(f"The loss {loss.name!r} has one target: leave outputs='own'.")
        target = check_survival(y)
        return None, survival_target(*(target[name] for name in FIELDS.names or ()))
    if loss.task != "classification":
        advice = "give loss='logistic', with outputs='shared' if there are more than two"
        numbers = numeric_targets(y, advice=advice)
        return None, numbers.reshape(len(numbers), -1) if shared else numbers
    classes, _, signs = encode_labels(class_labels(y))
    single = len(classes) == 2
    if single and shared:
        raise InvalidInputError(
            f"y has two classes, {classes.tolist()}, which share one score already. Leave outputs='own'."
        )
    if not single and not shared:
        raise InvalidInputError(
            f"y has {len(classes)} classes ({some(classes.tolist())}), and a path follows one problem. Give "
            "outputs='shared' for a path of all classes together, or two classes: y == one of them."
        )
    return classes, signs if shared else signs[:, 0]


def _warn_interrupted(n_done: int, n_alphas: int) -> None:
    if n_done < n_alphas:
        first = f"solutions at the first {n_done} of {n_alphas} strengths are"
        warn(
            f"The path was interrupted: the {first if n_done else 'model without kernels at the first strength is'} "
            "returned.",
            ConvergenceWarning,
        )


def warn_unfinished(solutions: tuple[Solution, ...]) -> None:
    """Warn once if any solution did not converge, with the worst gap."""
    unfinished = [found for found in solutions if found.status is not Status.CONVERGED]
    if unfinished:
        worst = max(unfinished, key=lambda found: found.certificate.relative_gap)
        more = f" ({len(unfinished)} of the {len(solutions)} problems of the path ended like this, this one worst.)"
        warn(worst.message + more, ConvergenceWarning)


def _open_stack(
    X: Any,
    kernels: Any,
    representation: str,
    refusal: Callable[[], str | None],
    fit_intercept: bool,
    loss: Loss,
    memory_budget: int | str | None,
    n_jobs: int | None,
) -> tuple[GramStack, tuple[str, ...]]:
    if is_stack(X):
        return X, tuple(X.names or (f"kernel_{m}" for m in range(X.n_kernels)))
    rows = as_kernel_stack(X, square=True) if is_precomputed(kernels) else X
    if (kernels is None and not isinstance(X, Pairs)) or isinstance(kernels, KernelBank):
        rows = Table.wrap(X, sparse=True)  # whose kernels are found once
    training = open_training(
        kernels,
        rows,
        memory_budget=memory_budget,
        n_jobs=n_jobs,
        form=ProblemForm(kinked=not loss.smooth, coupled=loss.couples_samples),
        representation=representation,
        refusal=refusal,
        fit_intercept=fit_intercept,
    )
    return training.stack, tuple(training.bank.names)
