"""Which solver a problem gets and why, and how several solvers get to its solution."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from manykernels.exceptions import ConvergenceWarning, InvalidInputError
from manykernels.objective.problem import Certificate, Problem
from manykernels.solvers.base import Solver, check_problem
from manykernels.solvers.solution import Solution, Status
from manykernels.solvers.solve import SOLVERS, choose_solver, configured_solver, solvers_for
from manykernels.validation.arrays import check_positive

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = ["solver", "elapsed_s", "passes", "relative_gap", "primal", "dual"]


@dataclass(frozen=True)
class SolverComparison:
    """Runs of several solvers on one problem.

    `compare_solvers` makes it.

    Parameters
    ----------
    solutions : dict
        What each solver returned, by its label.
    certificates : dict
        Certificate of each returned model, computed again by the problem after the run.
    tol : float
        Relative duality gap that was asked for.
    """

    solutions: Mapping[str, Solution]
    certificates: Mapping[str, Certificate]
    tol: float

    def frame(self) -> pd.DataFrame:
        """Return the gap against time, one row a certified point of a run.

        Returns
        -------
        DataFrame
            ``solver``, ``elapsed_s`` (wall-clock seconds), ``passes`` (readings of all Gram entries),
            ``relative_gap``, ``primal``, ``dual``. The last row of each solver is the model that it returned, the best
            one of its run, with the certificate computed again and the costs of the whole run.

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
        """Return the end of each run, one row a solver, in the order in which they ran.

        Returns
        -------
        DataFrame
            The columns of `frame`, then ``n_iter``, ``newton_steps``, ``active`` (kernels with nonzero weight) and
            ``status``.

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
            }
            for label, solution in self.solutions.items()
        ]
        return pd.DataFrame(rows)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the relative gap on a logarithmic axis against seconds, one line a solver.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure if None.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        ax = _axes(ax)
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
    """Solve a problem with several solvers, one after the other, and certify their models outside of them.

    Each curve is the certificate of the models on the way, ``(P - D) / max(|P|, tiny)``, which the common loop computes
    and no algorithm can change. Missing ``tol`` is a result here, not a warning. The first use of a solver in a Python
    process includes compilation: compare twice where fractions of a second matter.

    Parameters
    ----------
    problem : Problem
    solvers : sequence or mapping of str or Solver
        Names, ``"auto"``, or configured solvers; a mapping gives them labels, for two configurations of one solver.
    tol : float
        Relative duality gap to reach.
    time_limit : float
        Most wall-clock seconds of each, checked between iterations.

    Raises
    ------
    InvalidInputError
        If ``problem`` is no Problem, a name is unknown, or two solvers have the same label.
    IncompatibleError
        If one of them cannot solve the problem; none is run then.

    Warns
    -----
    ConvergenceWarning
        If Ctrl-C ended the comparison early. It then has the runs so far, the one that was stopped with the status
        "interrupted".

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
    solutions = _run_all(runs, problem)
    certificates = {
        label: problem.certificate(found.dual_coef, found.kernel_weights, found.intercept)
        for label, found in solutions.items()
    }
    return SolverComparison(solutions, certificates, tol)


def explain_solver_choice(problem: Problem) -> str:
    """Say which solver ``solver="auto"`` takes for a problem and why, which others would do, and which would not.

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
) -> dict[str, Solver]:
    """Return configured solvers by label, which is the name of the solver unless a mapping gives another."""
    if isinstance(solvers, str):
        solvers = [solvers]
    if not isinstance(solvers, Iterable):
        raise InvalidInputError(
            f"solvers must be a list of names or configured solvers such as ['auto', 'simplemkl'], got {solvers!r}."
        )
    if isinstance(solvers, Mapping):
        pairs = [(label, configured_solver(solver, problem, **parameters)) for label, solver in solvers.items()]
    else:
        made = [configured_solver(solver, problem, **parameters) for solver in solvers]
        pairs = [(solver.name, solver) for solver in made]
    labels = [label for label, _ in pairs]
    twice = sorted({label for label in labels if labels.count(label) > 1})
    if twice:
        raise InvalidInputError(
            f"Solver {twice[0]!r} is compared with itself. Give a mapping from labels to solvers to tell them apart."
        )
    if not pairs:
        raise InvalidInputError(f"No solvers to compare. Able to solve the problem: {', '.join(solvers_for(problem))}.")
    return dict(pairs)


def _run_all(runs: dict[str, Solver], problem: Problem) -> dict[str, Solution]:
    """Return what each solver found; after Ctrl-C what there is, which includes the run that it stopped."""
    solutions: dict[str, Solution] = {}
    interrupted = False
    try:
        for label, solver in runs.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                solutions[label] = solver.solve(problem)
            interrupted = solutions[label].status is Status.INTERRUPTED
            if interrupted:
                break
    except KeyboardInterrupt:
        if not solutions:
            raise
        interrupted = True
    if interrupted:
        _warn_interrupted(solutions, [label for label in runs if label not in solutions])
    return solutions


def _warn_interrupted(solutions: Mapping[str, Solution], missing: list[str]) -> None:
    there, absent = ", ".join(solutions), ", ".join(missing) or "none"
    warnings.warn(
        f"The comparison was interrupted. Runs returned: {there}; missing: {absent}.", ConvergenceWarning, stacklevel=4
    )


def _axes(ax: object) -> Any:
    """Return ``ax``, or the axes of a new figure."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError(
            "SolverComparison.plot needs matplotlib. Install it with: python -m pip install 'manykernels[plot]'."
        ) from error
    return ax if ax is not None else pyplot.subplots(figsize=(6.0, 4.0), layout="constrained")[1]
