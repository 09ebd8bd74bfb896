"""Registry of solvers; the problem of kernels and a target, and the choice of a solver.

And how several solvers get to the solution.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from manykernels.exceptions import ConvergenceWarning, IncompatibleError, InvalidInputError, optional_module, warn
from manykernels.grams.rows.vectors import here
from manykernels.objective.losses import LOSSES, AnyLoss, Loss
from manykernels.objective.problem import Certificate, Problem
from manykernels.objective.regularizers import REGULARIZERS, Regularizer
from manykernels.solvers.base import Solver, accepting_solvers, check_problem
from manykernels.solvers.factored.solver import FactoredNewton
from manykernels.solvers.gram.block_coordinate import BlockCoordinate
from manykernels.solvers.gram.interior_point import InteriorPoint
from manykernels.solvers.gram.pfbs import ForwardBackward
from manykernels.solvers.gram.shared_newton import SharedNewton
from manykernels.solvers.gram.smooth_dual import SmoothDual
from manykernels.solvers.gram.spicymkl import SpicyMKL
from manykernels.solvers.gram.working_set import WorkingSet
from manykernels.solvers.solution import Solution, Status
from manykernels.validation.arrays import Array, check_positive
from manykernels.wings import Registry

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SOLVERS: Registry[type[Solver]] = Registry(
    {
        cls.name: cls
        for cls in (
            WorkingSet,
            InteriorPoint,
            ForwardBackward,
            SpicyMKL,
            SmoothDual,
            BlockCoordinate,
            SharedNewton,
            FactoredNewton,
        )
    }
)
"""Every solver by its name: those of the core in the order of preference, then those of papers."""

ALIASES = {"citi": "block_coordinate", "lpmkl": "block_coordinate", "group_lasso_mkl": "block_coordinate"}
"""Names from the literature: one alternation, told apart by the regularizer (elastic-net ball, lp ball, simplex)."""

ALIAS_REGULARIZERS = {
    "citi": ("elasticnet_ball",),
    "lpmkl": ("lp_ball", "lq"),
    "group_lasso_mkl": ("simplex", "l1"),
}
"""What the methods of those names solve: a set of weights, or a penalty with the same solutions at some strength."""

REASONS = {
    WorkingSet.name: "the regularizer selects kernels, so most passes can skip most of them",
    InteriorPoint.name: "every kernel keeps a weight, so all of them enter each step",
    BlockCoordinate.name: "the best weights for given norms are known, but no bounds on the dual norms that a Newton "
    "method could use, so the weights take turns with a learner on the weighted sum",
    SharedNewton.name: "several classes or targets share their kernel weights, and it is the solver for that",
}
"""Why a solver comes first among those that have no preference for a problem."""

COLUMNS = ["solver", "elapsed_s", "passes", "relative_gap", "primal", "dual"]


@dataclass(frozen=True)
class SolverComparison:
    """Runs of several solvers on a single problem.

    `compare_solvers` makes it.

    Parameters
    ----------
    solutions : dict
        What every solver returned, by the label.
    certificates : dict
        Certificate of every returned model, computed again by the problem after the run.
    tol : float
        Relative duality gap asked for.
    failures : dict
        Error messages of solvers without a result, by label, for example for a missing optional package.
    """

    solutions: Mapping[str, Solution]
    certificates: Mapping[str, Certificate]
    tol: float
    failures: Mapping[str, str] = field(default_factory=dict)

    def frame(self) -> pd.DataFrame:
        """Return the gap against time, a row per certified point of a run.

        Returns
        -------
        DataFrame
            ``solver``, ``elapsed_s`` (wall-clock seconds), ``passes`` (readings of all Gram entries), ``relative_gap``,
            ``primal``, ``dual``. The last row of every solver is the returned best model, with a recomputed certificate
            and the total cost.

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels.objective import get_loss, get_regularizer
        >>> from manykernels.objective import Problem
        >>> from manykernels.solvers import compare_solvers
        >>> problem = Problem(np.eye(3)[None], np.arange(3.0), get_loss("squared"), get_regularizer("l1", 0.1))
        >>> found = compare_solvers(problem, ["working_set", "spicymkl"])
        >>> found.frame()["solver"].unique().tolist()
        ['working_set', 'spicymkl']
        """
        return pd.concat([self._curve(label) for label in self.solutions], ignore_index=True)

    def summary(self) -> pd.DataFrame:
        """Return the end of every run, a row per solver, in the order in which they ran.

        Returns
        -------
        DataFrame
            The columns of `frame`, then ``n_iter``, ``newton_steps``, ``active`` (kernels with nonzero weight),
            ``status`` and ``message``. Solvers that returned nothing come last, with the status "failed" and the error
            as message.

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels.objective import get_loss, get_regularizer
        >>> from manykernels.objective import Problem
        >>> from manykernels.solvers import compare_solvers
        >>> problem = Problem(np.eye(3)[None], np.arange(3.0), get_loss("squared"), get_regularizer("l1", 0.1))
        >>> found = compare_solvers(problem, ["working_set", "spicymkl"])
        >>> found.summary()["status"].tolist()
        ['converged', 'converged']
        """
        rows = [
            {
                **self._end(label),
                "n_iter": solution.n_iter,
                "newton_steps": solution.newton_steps,
                "active": len(solution.active),
                "status": str(solution.status),
                "message": solution.message,
            }
            for label, solution in self.solutions.items()
        ]
        failed = [{"solver": label, "status": "failed", "message": why} for label, why in self.failures.items()]
        return pd.DataFrame([*rows, *failed])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the relative gap on a logarithmic axis against seconds, a line per solver.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure if None.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        pyplot = optional_module("matplotlib.pyplot", "SolverComparison.plot needs matplotlib.", "plot")
        ax = ax if ax is not None else pyplot.subplots(figsize=(6.0, 4.0), layout="constrained")[1]
        for label, curve in self.frame().groupby("solver", sort=False):
            drawn = curve[curve["relative_gap"] > 0]
            ax.plot(drawn["elapsed_s"], drawn["relative_gap"], marker=".", label=label)
        ax.axhline(self.tol, color="#8a8f98", linewidth=0.8, linestyle="--")
        ax.set(yscale="log", xlabel="seconds", ylabel="relative duality gap")
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(frameon=False)
        return ax

    def _curve(self, label: str) -> pd.DataFrame:
        history = self.solutions[label].frame().assign(solver=label)
        return pd.concat([history[COLUMNS], pd.DataFrame([self._end(label)])], ignore_index=True)

    def _end(self, label: str) -> dict[str, Any]:
        solution, certificate = self.solutions[label], self.certificates[label]
        return {
            "solver": label,
            "elapsed_s": solution.elapsed_s,
            "passes": solution.passes,
            "relative_gap": certificate.relative_gap,
            "primal": certificate.primal,
            "dual": certificate.dual,
        }


def compare_solvers(
    problem: Problem,
    solvers: Sequence[str | Solver] | Mapping[str, str | Solver],
    *,
    tol: float = 1e-6,
    time_limit: float = 10.0,
) -> SolverComparison:
    """Solve a problem with several solvers, in turn, and certify their models outside of them.

    Every curve is the certificate of the models on the way, ``(P - D) / max(|P|, tiny)``, which the common loop
    computes and no algorithm can change. Missing ``tol`` is a result here, not a warning. The first use of a solver in
    a Python process includes compilation: compare twice where fractions of a second matter.

    Parameters
    ----------
    problem : Problem
    solvers : sequence or mapping of str or Solver
        Names, ``"auto"``, or configured solvers; a mapping gives them labels, for two configurations of one solver.
    tol : float
        Relative duality gap at which the solver stops.
    time_limit : float
        Most wall-clock seconds of every, checked between iterations.

    Raises
    ------
    InvalidInputError
        If ``problem`` is no Problem, a name is unknown, or two solvers have the same label.
    IncompatibleError
        For an unsuitable solver; none is run then.
    ImportError
        Without any model, if the first solver needs a missing package. Failures beside successful solvers are rows of
        the summary.

    Warns
    -----
    ConvergenceWarning
        If Ctrl-C ended the comparison early. The result has the runs so far, the last with the status "interrupted".

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.objective import Problem, get_loss, get_regularizer
    >>> x = np.linspace(0, 1, 30)
    >>> kernels = np.stack([np.exp(-((x[:, None] - x) ** 2) / (2 * width**2)) for width in (0.01, 0.1, 1.0)])
    >>> problem = Problem(kernels, np.sin(6 * x), get_loss("squared"), get_regularizer("l1", 0.1))
    >>> comparison = compare_solvers(problem, ["working_set", "spicymkl"])
    >>> comparison.summary()["status"].tolist()
    ['converged', 'converged']
    >>> bool((comparison.frame().groupby("solver")["relative_gap"].last() <= 1e-6).all())
    True
    """
    check_problem(problem)
    check_positive(tol, "tol")
    check_positive(time_limit, "time_limit")
    runs = _labeled(problem, solvers, {"tol": tol, "time_limit": time_limit})
    solutions, failures = _run_all(runs, problem)
    certificates = {
        label: problem.certificate(found.dual_coef, found.kernel_weights, found.intercept)
        for label, found in solutions.items()
    }
    return SolverComparison(solutions, certificates, tol, failures)


def explain_solver_choice(problem: Problem) -> str:
    """Explain the choice of ``solver="auto"`` for a problem, with alternatives and unsuitable solvers.

    Returns
    -------
    str
        A few lines of text.

    Raises
    ------
    InvalidInputError
        If ``problem`` is no Problem, or no solver handles the loss with the regularizer.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.objective import Problem, get_loss, get_regularizer
    >>> y = np.array([1.0, -1.0, 1.0, -1.0])
    >>> problem = Problem(np.stack([np.eye(4), np.outer(y, y)]), y, get_loss("hinge"), get_regularizer("lq", 0.1))
    >>> print(explain_solver_choice(problem).splitlines()[0])
    solver='auto' takes 'interior_point': every kernel keeps a weight, so all of them enter each step.
    """
    check_problem(problem)
    cls, reason = choose_solver(problem)
    others = [name for name in solvers_for(problem) if name != cls.name]
    lines = [
        f"solver='auto' takes '{cls.name}': {reason}.",
        f"The problem has {problem.n_kernels} kernels, {problem.n_samples} samples, the loss '{problem.loss.name}' and "
        f"the regularizer '{problem.regularizer.name}'.",
        f"Others that solve it, the preferred one first: {', '.join(others) or 'none'}.",
    ]
    if cls.fallback is not None:
        lines.append(f"Should '{cls.name}' not converge, '{cls.fallback.name}' goes on from its best model.")
    refused = {name: other.refusals(problem) for name, other in SOLVERS.items()}
    return "\n".join([*lines, *(f"Not {name}: {'; '.join(why)}." for name, why in refused.items() if why)])


def _labeled(
    problem: Problem, solvers: Sequence[str | Solver] | Mapping[str, str | Solver], parameters: dict[str, float]
) -> dict[str, Solver | ImportError]:
    """Return configured solvers, or their missing packages, by label: the solver name or the key of a mapping."""
    if isinstance(solvers, str):
        solvers = [solvers]
    if not isinstance(solvers, Iterable):
        raise InvalidInputError(
            f"solvers must be a list of names or configured solvers such as ['auto', 'simplemkl'], got {solvers!r}."
        )
    named = solvers.items() if isinstance(solvers, Mapping) else [(None, solver) for solver in solvers]
    pairs = [_configured(label, solver, problem, parameters) for label, solver in named]
    labels = [label for label, _ in pairs]
    twice = sorted({label for label in labels if labels.count(label) > 1})
    if twice:
        raise InvalidInputError(f"Solver {twice[0]!r} occurs twice. Pass a mapping from labels to solvers.")
    if not pairs:
        raise InvalidInputError(f"No solvers to compare. Able to solve the problem: {', '.join(solvers_for(problem))}.")
    return dict(pairs)


def _configured(
    label: str | None, solver: str | Solver, problem: Problem, parameters: dict[str, float]
) -> tuple[str, Solver | ImportError]:
    """Return the label of a solver, by default the name, and the solver, or the missing package."""
    try:
        made = configured_solver(solver, problem, **parameters)
    except ImportError as error:
        return label or (solver if isinstance(solver, Solver) else get_solver(solver)).name, error
    return label or made.name, made


def _run_all(runs: dict[str, Solver | ImportError], problem: Problem) -> tuple[dict[str, Solution], dict[str, str]]:
    """Return the solution or the error message of every solver; after Ctrl-C those so far, with the run it stopped.

    The first error is raised if no solver returned a solution.
    """
    solutions: dict[str, Solution] = {}
    errors: dict[str, Exception] = {}
    interrupted = False
    try:
        for label, solver in runs.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                try:
                    if isinstance(solver, ImportError):
                        raise solver
                    solutions[label] = solver.solve(problem)
                except (ImportError, MemoryError, InvalidInputError) as error:
                    errors[label] = error
                    continue
            interrupted = solutions[label].status is Status.INTERRUPTED
            if interrupted:
                break
    except KeyboardInterrupt:
        if not solutions:
            raise
        interrupted = True
    if interrupted:
        _warn_interrupted(solutions, [label for label in runs if label not in solutions and label not in errors])
    if errors and not solutions:
        raise next(iter(errors.values()))
    return solutions, {label: str(error) or type(error).__name__ for label, error in errors.items()}


def _warn_interrupted(solutions: Mapping[str, Solution], missing: list[str]) -> None:
    there, absent = ", ".join(solutions), ", ".join(missing) or "none"
    warn(f"The comparison was interrupted. Runs returned: {there}; missing: {absent}.", ConvergenceWarning)


def here_as_array(values: Any) -> Array:
    """Return a possibly distributed or lazy vector as a local array."""
    if isinstance(values, np.ndarray):
        return values
    return np.asarray(here(values.compute() if hasattr(values, "dask") else values))


def refusal_of_factors(loss: AnyLoss, regularizer: Regularizer, solver: object) -> str | None:
    """Return the obstacle to kernels held as factors, with a remedy; None if none."""
    name = getattr(solver, "name", solver)
    if name not in ("auto", FactoredNewton.name):
        return f"solver={name!r} works on N x N matrices; take solver='auto'"
    return next(iter(FactoredNewton.refusals_of(loss.each, regularizer)), None)


def problem_of(stack: Any, y: Any, loss: AnyLoss, regularizer: Regularizer, **given: Any) -> Problem:
    """Return the problem that kernels, a target and a loss make: the single place that decides where the vectors are.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.objective import get_loss, get_regularizer
    >>> from manykernels.grams import as_stack
    >>> y = np.array([[1.0, 2.0], [3.0, 5.0]])
    >>> problem_of(as_stack(np.eye(2)[None]), y, get_loss("squared"), get_regularizer("l1", 0.1)).shared
    True
    """
    single = getattr(y, "ndim", 1) == 1 and not loss.couples_samples
    if single and stack.has_factors and stack.table.distributed:
        return Problem(stack, stack.table.source.vector(y), loss, regularizer, **given)
    weight = given.get("sample_weight")
    given["sample_weight"] = None if weight is None else here_as_array(weight)
    return Problem(stack, here_as_array(y), loss, regularizer, **given)


def configured_solver(solver: str | Solver, problem: Problem, **parameters: object) -> Solver:
    """Return the solver named (``"auto"``: the preferred one for ``problem``) with the parameters.

    Raises
    ------
    InvalidInputError
        For an unknown solver or parameter.
    IncompatibleError
        For an unsupported problem; the message lists suitable solvers.

    Parameters
    ----------
    solver : str or Solver
    problem : Problem
    **parameters
        Of the solver: ``tol``, ``max_iter``, ...
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


def solvers_for(problem: Problem) -> list[str]:
    """Return the names of the solvers that accept ``problem``, the preferred one first.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.objective import get_loss, get_regularizer
    >>> from manykernels.objective import Problem
    >>> from manykernels.solvers import solvers_for
    >>> problem = Problem(np.eye(3)[None], np.ones(3), get_loss("squared"), get_regularizer("l1", 0.1))
    >>> "pfbs" in solvers_for(problem), "skm" in solvers_for(problem)
    (True, False)
    """
    return [cls.name for cls in accepting_solvers(problem, SOLVERS.values())]


def accepted(solver: type[Solver], registry: Mapping[str, type[Loss] | type[Regularizer]]) -> list[str]:
    """Return the names of the registered losses or regularizers accepted by a solver with default parameters."""
    return [name for name, kind in registry.items() if _accepts(solver, kind)]


def _accepts(solver: type[Solver], kind: type[Loss] | type[Regularizer]) -> bool:
    """Return whether a solver accepts an instance with defaults, with some instance of the other kind."""
    losses = [cls() for cls in ([kind] if issubclass(kind, Loss) else LOSSES.values())]
    penalties = [cls(1.0) for cls in ([kind] if issubclass(kind, Regularizer) else REGULARIZERS.values())]
    return any(not solver.refusals_of(loss, penalty) for loss in losses for penalty in penalties)


def check_able(solver: Solver, problem: Problem) -> None:
    """Raise `IncompatibleError` unless the solver accepts the problem; the message lists suitable solvers."""
    try:
        solver.check(problem)
    except IncompatibleError as error:
        able = ", ".join(solvers_for(problem)) or "no solver of this version"
        raise IncompatibleError(f"{error} Able: {able}.") from None


def get_solver(name: str) -> type[Solver]:
    """Return the solver class of a name or alias, or raise an error with the known names.

    Parameters
    ----------
    name : str
        Any of `SOLVERS`, or an alias from the literature, for example ``"citi"``.

    Returns
    -------
    type
        Subclass of `Solver`.

    Raises
    ------
    InvalidInputError
        If there is none of that name.

    Examples
    --------
    >>> from manykernels.solvers import get_solver
    >>> get_solver("silp").__name__
    'SILP'
    """
    if not isinstance(name, str):
        raise InvalidInputError(f"solver must be a name or a configured solver such as SILP(tol=1e-6), got {name!r}.")
    if ALIASES.get(name, name) not in SOLVERS:
        known = ", ".join(map(repr, SOLVERS))
        aliases = ", ".join(map(repr, ALIASES))
        raise InvalidInputError(f"Unknown solver {name!r}. Known: 'auto', {known}, and the aliases {aliases}.")
    return SOLVERS[ALIASES.get(name, name)]


def check_alias(name: str, problem: Problem) -> None:
    """Raise `IncompatibleError` if the published method of the name has another regularizer."""
    meant, given = ALIAS_REGULARIZERS.get(name), problem.regularizer.name
    if meant is not None and given not in meant:
        raise IncompatibleError(
            f"Solver '{name}' is '{ALIASES[name]}' for the regularizer {' or '.join(map(repr, meant))}, not '{given}'. "
            f"Change the regularizer, or pass solver='{ALIASES[name]}', which handles '{given}' too."
        )


def choose_solver(problem: Problem) -> tuple[type[Solver], str]:
    """Return the solver that ``solver="auto"`` takes for ``problem``, and the reason in a sentence.

    Returns
    -------
    type
        Subclass of `Solver`.
    str
        The reason.

    Raises
    ------
    IncompatibleError
        If no solver can solve the problem; the message has the reason for every solver.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.objective import get_loss, get_regularizer
    >>> from manykernels.objective import Problem
    >>> from manykernels.solvers import choose_solver
    >>> problem = Problem(np.eye(3)[None], np.ones(3), get_loss("squared"), get_regularizer("l1", 0.1))
    >>> choose_solver(problem)[0].name
    'working_set'
    """
    able = next(accepting_solvers(problem, SOLVERS.core.values()), None) or next(
        accepting_solvers(problem, SOLVERS.values()), None
    )
    if able is None:
        asked = {name: cls for name, cls in SOLVERS.items() if cls.on_factors or not problem.stack.shaped}
        lacking = "; ".join(f"'{name}': {cls.refusals(problem)[0]}" for name, cls in asked.items())
        raise IncompatibleError(f"No solver can solve this problem. {lacking}.")
    reason = able.preference(problem) or REASONS.get(able.name)
    return able, reason or "it is the first that has all it needs from loss and regularizer"
