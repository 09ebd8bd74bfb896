"""The solver of the estimators for kernels held as factors: the working set on factors as a run like any other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from manykernels.exceptions import IncompatibleError
from manykernels.grams.factored import FactoredStack
from manykernels.objective.certificate import Certificate
from manykernels.objective.problem import Problem
from manykernels.objective.shared import SharedProblem
from manykernels.solvers.base import Solver
from manykernels.solvers.deadline import deadline
from manykernels.solvers.engines.factored.objective import Point, group_penalty
from manykernels.solvers.engines.factored.smoothing import SmoothedLoss
from manykernels.solvers.methods.factored.advice import obstacle
from manykernels.solvers.methods.factored.certificate import certificate_of
from manykernels.solvers.methods.factored.shared.problem import FlatProblem
from manykernels.solvers.methods.factored.shared.working_set import working_set
from manykernels.solvers.methods.factored.solve import components_of
from manykernels.solvers.methods.factored.state import Component, Start, State
from manykernels.solvers.run import ADVICE, Run
from manykernels.solvers.solution import Model, Solution, Status
from manykernels.threads import blas_threads

Array = NDArray[Any]

ROUNDS_WITHOUT_GAIN = 30  # of certificates; the working set itself knows earlier when it is stuck


@dataclass(frozen=True, eq=False)
class FactoredModelOnTheWay:
    """One certified point of a run on factors; what `Run` keeps of it.

    Attributes
    ----------
    problem : Problem
    state : State
        A copy that later rounds do not change.
    certificate : Certificate
        Of the exact kernels.
    passes : float
    """

    problem: Problem
    state: State
    certificate: Certificate
    passes: float

    @classmethod
    def of(cls, problem: Problem, state: State, passes: float) -> FactoredModelOnTheWay:
        """Copy what a round found."""
        point = Point(state.point.v.copy(), state.point.b, state.point.z.copy())
        copied = replace(state, point=point, rounds=list(state.rounds))
        assert copied.best is not None
        return cls(problem, copied, certificate_of(problem, copied.primal, copied.best, point.z), passes)

    @property
    def dual_coef(self) -> Array:
        """Feasible dual coefficients, those of the lower bound."""
        best, problem = self.state.best, self.problem
        assert best is not None
        rho = np.asarray(best.scale * best.rho)
        return problem.columns(rho) if isinstance(problem, FlatProblem) else rho

    @property
    def components(self) -> tuple[list[Component], Array]:
        """Functions of the active kernels, those of several targets in one, and their norms."""
        return components_of(self.state)

    @property
    def functions(self) -> tuple[Component, ...]:
        """Functions of the active kernels, target by target."""
        n_targets = self.problem.n_targets if isinstance(self.problem, FlatProblem) else 1
        return tuple(own for whole in self.components[0] for own in whole.each(n_targets))

    @property
    def norms(self) -> Array:
        """``||f_m||``, (M,)."""
        components, norms = self.components
        every = np.zeros(self.problem.n_kernels)
        every[[component.kernel for component in components]] = norms
        return every

    @property
    def kernel_weights(self) -> Array:
        """``d_m = ||f_m|| / u_m``."""
        best = self.state.best
        assert best is not None
        return self.norms / np.maximum(best.norms * self.problem.penalties, 1e-300)

    @property
    def intercept(self) -> Any:
        """Intercept ``b``, of several targets (T,)."""
        return self.state.point.b

    @property
    def newton_steps(self) -> int:
        """Newton steps so far."""
        return self.state.steps


@dataclass(frozen=True, eq=False)
class FactoredSolution(Solution):
    """A solution whose functions are ``f_m(x) = z_m(x)' v_m``, not expansions in all samples.

    Parameters
    ----------
    components : tuple of Component
        Functions of the active kernels, of every target.
    norms : ndarray of shape (n_kernels,)
        ``||f_m||``.
    approximate_gap : float
        Relative gap of the problem with factors in place of kernels, which proves nothing about the exact ones.
    start : Start or None
        From which a problem on the same stack can begin.
    """

    components: tuple[Component, ...] = ()
    norms: Array = field(default_factory=lambda: np.zeros(0))
    approximate_gap: float = 0.0
    start: Start | None = field(default=None, repr=False)

    @classmethod
    def of(cls, found: Solution, model: FactoredModelOnTheWay) -> FactoredSolution:
        """Return a run's solution with the functions of its best model."""
        own = {entry.name: getattr(found, entry.name) for entry in fields(Solution)}
        gap = model.state.rounds[-1].approximate_gap
        start = Start.of(model.state)
        return cls(**own, components=model.functions, norms=model.norms, approximate_gap=gap, start=start)

    def plain(self) -> Solution:
        """Return the solution without what grows with the number of samples: dual coefficients, and the way on."""
        own = {entry.name: getattr(self, entry.name) for entry in fields(Solution)}
        return Solution(**(own | {"dual_coef": np.zeros((0, *np.shape(self.intercept)))}))


@dataclass(frozen=True, kw_only=True)
class FactoredNewton(Solver):
    """Proximal Newton on a working set of kernels held as factors, linear in the number of samples.

    Passes over all kernels certify the model for the exact kernels and say which kernels enter and which factors must
    be finer; see :func:`solve_factored`, which is the same without an estimator.

    Parameters
    ----------
    tol, max_iter, time_limit, callback, verbose
        As in `Solver`; an iteration is a pass over all kernels.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import KernelBank, get_loss, get_regularizer
    >>> from manykernels.grams.factored import factored_stack
    >>> from manykernels.objective import Problem
    >>> X = np.random.default_rng(0).uniform(-2, 2, (100, 2))
    >>> stack = factored_stack(X, KernelBank.per_feature(widths=[0.5, 1.0]))
    >>> problem = Problem(stack, np.sin(X[:, 0]), get_loss("squared"), get_regularizer("l1", 5.0))
    >>> str(FactoredNewton().solve(problem).status)
    'converged'
    """

    name: ClassVar[str] = "factored"
    couples: ClassVar[bool] = True

    @classmethod
    def refusals(cls, problem: Problem) -> list[str]:
        """Return what it lacks for ``problem``, in words; empty if nothing.

        Parameters
        ----------
        problem : Problem

        Returns
        -------
        list of str
        """
        reasons = [] if problem.shared else super().refusals(problem)
        if not isinstance(problem.stack, FactoredStack):
            reasons.append("it works on kernels held as factors, and these are N x N matrices")
        loss: Any = problem.loss
        return reasons or cls.unable(loss.each if problem.shared else loss, problem.regularizer)

    @staticmethod
    def unable(loss: Any, regularizer: Any) -> list[str]:
        """Return why this loss or penalty cannot be solved on factors, in words; empty if it can.

        Parameters
        ----------
        loss : Loss
        regularizer : Regularizer

        Returns
        -------
        list of str
        """
        try:
            SmoothedLoss.of(loss, 1.0)
            group_penalty(regularizer, np.array([0, 1]), np.ones(1))
        except IncompatibleError as error:
            return [str(error).rstrip(".")]
        return []

    def initialize(self, problem: Problem, start: Model) -> Any:
        """Return the rounds of the working set; see `_models`, which reads them.

        Parameters
        ----------
        problem : Problem
        start : tuple
            Not used: models on factors begin from their own kind.
        """
        return working_set(problem, self.tol, self.max_iter, self.time_limit or np.inf).rounds()

    def step(self, problem: Problem, state: Any) -> None:
        """Go on to the next certificate.

        Parameters
        ----------
        problem : Problem
        state : object
        """
        next(state)

    def extract(self, problem: Problem, state: Any) -> Model:
        """Return the dual coefficients, weights and intercept of the state.

        Parameters
        ----------
        problem : Problem
        state : object
        """
        flat = FlatProblem.of(problem) if isinstance(problem, SharedProblem) else problem
        model = FactoredModelOnTheWay.of(flat, next(state), 0.0)
        return model.dual_coef, model.kernel_weights, model.intercept

    @property
    def patience(self) -> float:
        """Certificates in a row without a smaller gap after which a run counts as stalled."""
        return ROUNDS_WITHOUT_GAIN

    def _solve_apart(self, problem: Problem, warm_start: Solution | None) -> Solution:
        run: Run[FactoredModelOnTheWay] = Run(self._limits(), f"Solver '{self.name}'")
        with deadline(self.time_limit), blas_threads(problem.n_samples, problem.stack.n_threads):
            run.follow(self._on_factors(problem, warm_start))
        found = run.solution()
        why = "" if found.status is Status.CONVERGED else obstacle(problem, run.best.state, self.tol)
        if why:
            found = replace(found, message=found.message.removesuffix(ADVICE[found.status]) + why)
        return FactoredSolution.of(found, run.best)

    def _on_factors(self, problem: Problem, warm_start: Solution | None) -> Iterator[FactoredModelOnTheWay]:
        """Yield the certified model of every round."""
        before = problem.stack.counters.passes
        work = working_set(problem, self.tol, self.max_iter, self.time_limit or np.inf)
        start = warm_start.start if isinstance(warm_start, FactoredSolution) else None
        for state in work.rounds(start):
            yield FactoredModelOnTheWay.of(work.problem, state, problem.stack.counters.passes - before)


FACTORED_SOLVERS: dict[str, type[Solver]] = {FactoredNewton.name: FactoredNewton}
"""Solvers of kernels held as factors; the estimators take them for such kernels."""
