"""Fixed-weight learners: one kernel matrix, any loss, any accuracy, warm starts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import LinAlgError

from manykernels.grams.dense import as_stack
from manykernels.objective.regularizers import Ridge
from manykernels.solvers._newton_system import NewtonSystem
from manykernels.solvers._sample_variables import EntropicSamples
from manykernels.solvers._start import start_iteration

if TYPE_CHECKING:
    from manykernels._validation import Array
    from manykernels.objective.problem import Problem
    from manykernels.solvers._primal_dual import PrimalDual

MOST_STEPS = 100
PATIENCE = 20  # steps without progress after which rounding is taken to have stopped the iteration


@dataclass(frozen=True, eq=False)
class MachineFit:
    """The learner on one kernel matrix: ``f = gram @ rho``, scores ``f + b``.

    Attributes
    ----------
    rho : ndarray of shape (N,)
        Dual coefficients, feasible: inside the dual box, with zero sum if there is an intercept.
    b : float
        Intercept, 0 without one.
    dual_value : float
        ``-sum_i s_i l*(y_i, -rho_i/s_i) - rho' gram rho / 2``: a lower bound on the optimum, since ``rho`` is feasible.
    gap : float
        Primal value of this very model minus ``dual_value``.
    steps : int
        Linear systems solved.
    """

    rho: Array
    b: float
    dual_value: float
    gap: float
    steps: int

    @property
    def primal_value(self) -> float:
        """``sum_i s_i l(y_i, f_i + b) + rho' gram rho / 2``."""
        return self.dual_value + self.gap


def fit_machine(problem: Problem, gram: Array, *, warm: MachineFit | None = None, tol: float = 1e-9) -> MachineFit:
    """Fit the loss of a problem on one kernel matrix.

    Solves ``min_{f,b} sum_i s_i l(y_i, f_i + b) + ||f||^2 / 2`` in the space of the kernel whose Gram matrix is
    ``gram = sum_m d_m K_m``; its dual is ``max_rho -sum_i s_i l*(y_i, -rho_i/s_i) - rho' gram rho / 2``. The model is
    ``f = gram @ rho`` with ``rho_i = -s_i l'(y_i, f_i + b)``.

    Parameters
    ----------
    problem : Problem
        Gives target, loss, sample weights and intercept; its kernels and regularizer play no part.
    gram : ndarray of shape (N, N)
        Symmetric positive semidefinite; not modified.
    warm : MachineFit, optional
        A fit on a similar matrix to start from.
    tol : float
        Largest gap, relative to the primal value.

    Returns
    -------
    MachineFit
        The best model found; if rounding stopped the iteration before ``tol``, its ``gap`` tells.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.objective.problem import Problem
    >>> from manykernels.objective.regularizers import Simplex
    >>> x = np.linspace(-1, 1, 20)
    >>> gram = np.exp(-((x[:, None] - x) ** 2))
    >>> problem = Problem(gram[None], np.sign(x), "hinge", Simplex(0.1))
    >>> fit = fit_machine(problem, gram / 0.1)
    >>> fit.gap <= 1e-9 * fit.primal_value, bool((np.sign(gram @ fit.rho / 0.1 + fit.b) == np.sign(x)).all())
    (True, True)
    """
    if not gram.any():
        return _certified(problem, gram, *problem.zero_model(), 0)
    if problem.loss.name == "squared":
        return _solve_squared(problem, gram)
    return _iterate(problem, gram, warm, tol)


def _certified(problem: Problem, gram: Array, rho: Array, b: float, steps: int) -> MachineFit:
    """Make ``rho`` feasible and compute both values of exactly this model."""
    rho = problem.feasible_dual(rho)
    f = gram @ rho
    half = 0.5 * float(rho @ f)
    dual = -problem.conjugate_loss(rho) - half
    return MachineFit(rho, b, dual, problem.empirical_loss(f + b) + half - dual, steps)


def _solve_squared(problem: Problem, gram: Array) -> MachineFit:
    """Solve ``(gram + diag(1/s)) rho + b = y``, ``sum rho = 0``: one bordered Cholesky factorization."""
    matrix = np.array(gram, dtype=np.float64)
    matrix[np.diag_indices_from(matrix)] += 1.0 / problem.weight
    rho, b = NewtonSystem(matrix, problem.fit_intercept).solve(problem.y, 0.0)
    return _certified(problem, gram, rho, b, 1)


def _iterate(problem: Problem, gram: Array, warm: MachineFit | None, tol: float) -> MachineFit:
    """Run the primal-dual Newton iteration of the library on the one kernel with weight 1."""
    single = replace(problem, stack=as_stack(gram[None]), regularizer=Ridge(1.0), kernel_penalties=None)
    rho, b = problem.zero_model() if warm is None else (warm.rho, warm.b)
    iteration = start_iteration(single, rho, b)
    if warm is not None and isinstance(iteration.samples, EntropicSamples):
        iteration.samples.z = gram @ iteration.samples.rho + b
    best = _descend(problem, gram, iteration, _certified(problem, gram, rho, b, 0), tol)
    if warm is None or _accurate(problem, best, tol):
        return best
    cold = _iterate(problem, gram, None, tol)
    return replace(min(best, cold, key=lambda fit: fit.gap), steps=best.steps + cold.steps)


def _descend(problem: Problem, gram: Array, iteration: PrimalDual, best: MachineFit, tol: float) -> MachineFit:
    useless, smallest = 0, np.inf
    for step in range(1, MOST_STEPS + 1):
        if _accurate(problem, best, tol) or useless >= PATIENCE:
            break
        try:
            iteration.newton_step()
        except LinAlgError:
            break
        found = _certified(problem, gram, iteration.samples.rho, iteration.b, step)
        useless = 0 if found.gap < 0.9 * smallest else useless + 1
        smallest = min(smallest, found.gap)
        best = replace(found if found.gap < best.gap else best, steps=step)
    return best


def _accurate(problem: Problem, fit: MachineFit, tol: float) -> bool:
    return fit.gap <= tol * max(abs(fit.primal_value), problem.tiny)
