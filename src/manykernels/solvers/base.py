"""The loop that every solver shares: clock, certificates, history, callback, interrupt, warning."""

from __future__ import annotations

import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.linalg import LinAlgError

from manykernels.exceptions import ConvergenceWarning, IncompatibleError, InvalidInputError
from manykernels.solvers.arguments import check_arguments
from manykernels.solvers.solution import IterationRecord, Solution, Status
from manykernels.threads import blas_threads

if TYPE_CHECKING:
    from manykernels.objective.problem import Certificate, Problem
    from manykernels.validation.arrays import Array

Model = tuple["Array", "Array", float]
Callback = Callable[[IterationRecord], Any]

PATIENCE = 12  # certificates without any progress before a run counts as stalled

ADVICE = {
    Status.MAX_ITER: "Raise max_iter, loosen tol, or increase alpha.",
    Status.TIME_LIMIT: "Raise time_limit or loosen tol.",
    Status.STALLED: "The precision of the kernels or of float64 may be exhausted: loosen tol, or increase alpha.",
    Status.INTERRUPTED: "The best model found so far is returned.",
    Status.NUMERICAL_ERROR: "Check the scale of the kernels, or increase alpha.",
}


@dataclass(frozen=True, kw_only=True)
class Solver(ABC):
    """Parameters of an algorithm; solving a problem does not change them.

    Parameters
    ----------
    tol : float
        Relative duality gap to reach.
    max_iter : int
        Most outer iterations.
    time_limit : float, optional
        Most wall-clock seconds; checked between iterations.
    callback : callable, optional
        Called with an `IterationRecord` after each certified iteration; a true return value stops the run.
    verbose : int
        0 is silent, 1 shows a progress bar of the gap falling toward tol, 2 prints a line an iteration.
    """

    tol: float = 1e-4
    max_iter: int = 200
    time_limit: float | None = None
    callback: Callback | None = field(default=None, compare=False)
    verbose: int = 0

    name: ClassVar[str]
    accepts_losses: ClassVar[frozenset[str]]
    accepts_regularizers: ClassVar[frozenset[str]]
    attainable_gap: ClassVar[float] = 1e-8  # relative, that the algorithm reaches on every problem it accepts
    rescuer: ClassVar[str] = ""  # name of the solver that goes on where this one breaks down or stalls

    @abstractmethod
    def initialize(self, problem: Problem, start: Model) -> Any:
        """Return the state of the algorithm at the model ``start``."""

    @abstractmethod
    def step(self, problem: Problem, state: Any) -> None:
        """Advance the state by one outer iteration."""

    @abstractmethod
    def extract(self, problem: Problem, state: Any) -> Model:
        """Return the model ``(rho, d, b)`` that the state stands for."""

    def worth_certifying(self, problem: Problem, state: Any) -> bool:
        """Return whether the state deserves a certificate, which costs a pass; always, unless overridden."""
        return True

    def observe(self, problem: Problem, state: Any, certificate: Certificate) -> None:  # noqa: B027
        """Take notice of the certificate of the current model and of the kernel norms it had to compute."""

    def newton_steps(self, state: Any) -> int:
        """Return how many linear systems were solved so far."""
        return 0

    @property
    def patience(self) -> float:
        """Certificates in a row without a smaller gap after which a run counts as stalled."""
        return PATIENCE

    @classmethod
    def configured(cls, **parameters: Any) -> Solver:
        """Return this solver with the given parameters, or say which parameters it has."""
        known = [entry.name for entry in fields(cls)]
        unknown = sorted(set(parameters) - set(known))
        if unknown:
            raise InvalidInputError(f"Solver '{cls.name}' has no parameter {unknown[0]!r}. It has: {', '.join(known)}.")
        return cls(**parameters)

    def check(self, problem: Problem) -> None:
        """Raise `IncompatibleError` unless this algorithm can solve ``problem``."""
        reasons = self.refusals(problem)
        if reasons:
            from manykernels.solvers.registry import solvers_for

            able = ", ".join(solvers_for(problem)) or "no solver of this version"
            raise IncompatibleError(f"Solver '{self.name}' cannot solve this problem: {reasons[0]}. Able: {able}.")

    @classmethod
    def refusals(cls, problem: Problem) -> list[str]:
        """Return what this algorithm lacks for ``problem``, in words; empty if nothing."""
        reasons = []
        if problem.loss.name not in cls.accepts_losses:
            reasons.append(f"it does not handle the loss '{problem.loss.name}'")
        if problem.regularizer.name not in cls.accepts_regularizers:
            reasons.append(f"it does not handle the regularizer '{problem.regularizer.name}'")
        return reasons

    def solve(self, problem: Problem, warm_start: Solution | None = None) -> Solution:
        """Minimize ``problem``.

        Parameters
        ----------
        problem : Problem
        warm_start : Solution, optional
            A model of the same kernels and samples to start from.

        Returns
        -------
        Solution
            The best model found, with the certificate of exactly that model.

        Raises
        ------
        InvalidInputError
            If a limit or a switch of this solver is unusable, or ``warm_start`` does not fit the problem.
        IncompatibleError
            If the problem is not of the kind this algorithm solves.

        Warns
        -----
        ConvergenceWarning
            If the relative duality gap is above ``tol``, whatever the reason.
        """
        check_arguments(self, problem, warm_start)
        self.check(problem)
        with blas_threads(problem.stack.n_samples, problem.stack.n_threads):
            run = _Run(self, problem)
            run.loop(_start_model(problem, warm_start))
        solution = run.solution()
        if self.rescuer and solution.status in (Status.STALLED, Status.NUMERICAL_ERROR):
            from manykernels.solvers.fallback import rescued

            solution = rescued(self, problem, solution)
        if solution.status is not Status.CONVERGED:
            warnings.warn(solution.message, ConvergenceWarning, stacklevel=2)
        return solution


def _start_model(problem: Problem, warm_start: Solution | None) -> Model:
    if warm_start is None:
        rho, b = problem.zero_model()
        return rho, np.zeros(problem.stack.n_kernels), b
    return warm_start.dual_coef, warm_start.kernel_weights, warm_start.intercept


class _Run:
    """One run of a solver: what has been seen so far."""

    def __init__(self, solver: Solver, problem: Problem) -> None:
        self._solver, self._problem = solver, problem
        self._started = time.perf_counter()
        self._passes_before = problem.stack.counters.passes
        self._history: list[IterationRecord] = []
        self._best: tuple[Model, Certificate] | None = None
        self._status = Status.MAX_ITER
        self._iteration = 0
        self._newton_steps = 0
        self._useless = 0

    def loop(self, start: Model) -> None:
        from manykernels.solvers.progress import progress_of

        with progress_of(self._solver) as show:
            try:
                self._iterate(start, show)
            except KeyboardInterrupt:
                if self._best is None:
                    raise
                self._status = Status.INTERRUPTED
            except (LinAlgError, FloatingPointError):
                if self._best is None:
                    raise
                self._status = Status.NUMERICAL_ERROR

    def _iterate(self, start: Model, show: Callback) -> None:
        solver, problem = self._solver, self._problem
        certificate = self._certify(start, show)
        if self._finished(certificate):
            return
        state = solver.initialize(problem, start)
        solver.observe(problem, state, certificate)
        while self._iteration < solver.max_iter:
            self._iteration += 1
            solver.step(problem, state)
            self._newton_steps = solver.newton_steps(state)
            last = self._iteration == solver.max_iter or self._out_of_time()
            if not (last or solver.worth_certifying(problem, state)):
                continue
            certificate = self._certify(solver.extract(problem, state), show)
            if self._finished(certificate):
                return
            solver.observe(problem, state, certificate)

    def _certify(self, model: Model, show: Callback) -> Certificate:
        certificate = self._problem.certificate(*model)
        best = self._best
        self._useless += 1
        if best is None or certificate.relative_gap < best[1].relative_gap:
            if best is None or certificate.relative_gap < 0.999 * best[1].relative_gap:
                self._useless = 0
            self._best = (model, certificate)
        record = self._record(model, certificate)
        self._history.append(record)
        show(record)
        if self._solver.callback is not None and self._solver.callback(record):
            raise KeyboardInterrupt
        return certificate

    def _record(self, model: Model, certificate: Certificate) -> IterationRecord:
        return IterationRecord(
            iteration=self._iteration,
            elapsed_s=time.perf_counter() - self._started,
            passes=self._problem.stack.counters.passes - self._passes_before,
            newton_steps=self._newton_steps,
            primal=certificate.primal,
            dual=certificate.dual,
            relative_gap=certificate.relative_gap,
            n_active=int(np.count_nonzero(model[1])),
        )

    def _finished(self, certificate: Certificate) -> bool:
        if certificate.relative_gap <= self._solver.tol:
            self._status = Status.CONVERGED
        elif self._out_of_time():
            self._status = Status.TIME_LIMIT
        elif self._useless >= self._solver.patience:
            self._status = Status.STALLED
        else:
            return False
        return True

    def _out_of_time(self) -> bool:
        limit = self._solver.time_limit
        return limit is not None and time.perf_counter() - self._started > limit

    def solution(self) -> Solution:
        if self._best is None:
            raise RuntimeError("a run always certifies its starting point")
        (rho, d, b), certificate = self._best
        return Solution(
            dual_coef=rho,
            kernel_weights=d,
            intercept=b,
            certificate=certificate,
            status=self._status,
            message=self._message(certificate),
            history=tuple(self._history),
            passes=self._problem.stack.counters.passes - self._passes_before,
            newton_steps=self._newton_steps,
            n_iter=self._iteration,
            elapsed_s=time.perf_counter() - self._started,
            solver=self._solver.name,
        )

    def _message(self, certificate: Certificate) -> str:
        gap, tol = certificate.relative_gap, self._solver.tol
        if self._status is Status.CONVERGED:
            return f"converged: relative duality gap {gap:.2e} <= tol {tol:.2e}"
        return (
            f"Solver '{self._solver.name}' stopped ({self._status}) after {self._iteration} iterations at relative "
            f"duality gap {gap:.2e}, above tol {tol:.2e}. {ADVICE[self._status]}"
        )
