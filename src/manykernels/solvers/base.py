"""Base of all solvers: parameters, accepted problems, start, step and model."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from scipy.linalg import LinAlgError

from manykernels.exceptions import ConvergenceWarning, IncompatibleError, InvalidInputError, warn
from manykernels.grams.dense import definite_copy
from manykernels.objective.capabilities import Capability
from manykernels.objective.certificate import Certificate
from manykernels.objective.losses import AnyLoss
from manykernels.objective.problem import Problem
from manykernels.objective.regularizers import Regularizer
from manykernels.solvers.run import (
    ROUNDING,
    OutOfSystemsError,
    OutOfTimeError,
    Run,
    advice_of,
    continued,
    deadline,
    refine_rounded,
)
from manykernels.solvers.solution import Callback, Limits, Model, Solution, Status
from manykernels.threads import blas_threads
from manykernels.validation.parameters import check_flag

# What is checked before a solver starts, so that a wrong argument is named at once.


def check_problem(problem: object) -> None:
    """Raise ``InvalidInputError`` for anything but a `Problem`, with a hint for bare kernels."""
    if not hasattr(problem, "certificate"):
        raise InvalidInputError(
            f"problem must be a Problem, got {type(problem).__name__}. Make one: "
            'Problem(kernels, y, get_loss("hinge"), get_regularizer("simplex", 0.1)).'
        )


def check_warm_start(warm_start: object, n_samples: int, n_kernels: int) -> None:
    """Raise ``InvalidInputError`` for anything but None or a `Solution` with matching samples and kernels."""
    if warm_start is None:
        return
    if not isinstance(warm_start, Solution):
        raise InvalidInputError(f"warm_start must be None or a Solution, as solve returns it, got {warm_start!r}.")
    found = len(warm_start.dual_coef), warm_start.kernel_weights.size
    if found != (n_samples, n_kernels):
        raise InvalidInputError(
            f"warm_start has {found[0]} samples and {found[1]} kernels, but the problem has {n_samples} and "
            f"{n_kernels}. Give a solution on the same kernels and samples."
        )


def accepting_solvers(problem: Problem, solvers: Iterable[type[Solver]]) -> Iterator[type[Solver]]:
    """Yield the accepting solvers, by preference, evaluated lazily."""
    asked = [cls for cls in solvers if problem.stack.has_factors or not cls.on_factors]
    first = [cls for cls in asked if cls.may_prefer(problem) and cls.preference(problem)]
    for cls in [*first, *(cls for cls in asked if cls not in first)]:
        if not cls.refusals(problem):
            yield cls


def _explained(problem: Problem, solution: Solution) -> Solution:
    """Return the solution with the reason where the weights of samples or an optimum of zero keep the gap large."""
    weight = problem.weight[problem.weight > 0]
    spread = float(weight.max() / weight.min())
    if spread > RESOLVED_WEIGHTS and solution.status in (*BY_NUMBERS, Status.TIME_LIMIT):
        why = (
            f"sample weights differ by a factor of {spread:.0e}, more than float64 resolves. Lower the largest: "
            "a row of 1e6 times the weight of others is fitted almost exactly."
        )
        gap = solution.certificate.relative_gap
        title = f"Solver '{solution.solver}' stopped ({solution.status}) at relative duality gap {gap:.2e}"
        return replace(solution, message=f"{title}: {why}")
    fitted = solution.certificate.primal <= FITTED * problem.loss_at_zero
    if not (fitted and problem.unpenalized.size and solution.status in BY_NUMBERS):
        return solution
    why = (
        "The kernels without a penalty fit every training row, so the objective is zero up to rounding and no relative "
        "gap is small: give these kernels a penalty."
    )
    return replace(
        solution, message=solution.message.removesuffix(advice_of(solution.status, solution.certificate)) + why
    )


def _empty(problem: Problem) -> Model:
    """Return the best model without kernels."""
    rho, b = problem.zero_model()
    return rho, np.zeros(problem.n_kernels), b


def _fit_weight_set(problem: Problem, model: Model) -> Model:
    """Return the model with the kernel weights on the boundary of the weight set of the penalty, if any."""
    rho, d, b = model
    squares = problem.penalties**2.0
    weights = d * squares
    inside = problem.regularizer.on_boundary(weights)
    return model if np.array_equal(inside, weights) else (rho, inside / squares, b)


def _passes_since(problem: Problem, entries: int) -> float:
    """Return the read entries since a count, in passes over the whole stack."""
    counters = problem.stack.counters
    return (counters.entries - entries) / counters.entries_per_pass


def certify_model(problem: Problem, model: Model, before: int, newton_steps: int = 0) -> Solution:
    """Return a model with the certificate and the costs since so many entries were read."""
    certificate, whole = problem.certificate_apart(*model)
    passes = _passes_since(problem, before)
    return Solution(*model, certificate, passes=passes, newton_steps=newton_steps, whole=whole)


RESOLVED_WEIGHTS = 1e8  # largest sample weight over the smallest; gaps of 1e-4 were reached up to 1e9 in all losses
FITTED = 1e-6  # of the loss without kernels: an objective that is zero up to what solvers reach
BY_NUMBERS = (Status.STALLED, Status.INACCURATE, Status.NUMERICAL_ERROR, Status.MAX_ITER)
SYSTEMS = 100  # for each iteration that is allowed: what one learner at fixed weights may take where it breaks down
PATIENCE = 12  # certificates without any progress before a run counts as stalled
UNFINISHED = (Status.MAX_ITER, Status.STALLED, Status.NUMERICAL_ERROR)  # what a fallback is for
BROKEN = (Status.STALLED, Status.NUMERICAL_ERROR)  # the same for a published method: so many iterations mean so many


def _unfinished(solution: Solution) -> bool:
    """Whether a fallback may do better: the run ended early, or the bounds cross."""
    return solution.status in UNFINISHED or solution.certificate.crossed


State = TypeVar("State")  # of an algorithm: what it steps on from


@dataclass(frozen=True, kw_only=True)
class Solver(ABC, Generic[State]):
    """Parameters of an algorithm; solving a problem does not change them.

    Parameters
    ----------
    tol : float
        Relative duality gap at which the solver stops.
    max_iter : int
        Most outer iterations; a `fallback` that goes on after as many may take as many again.
    time_limit : float, optional
        Most wall-clock seconds; the factorization or pass under way is finished.
    callback : callable, optional
        Called with an `IterationRecord` after every certified iteration; a true return value stops the run.
    verbose : int
        0 is silent, 1 shows a progress bar of the gap falling toward tol, 2 prints a line an iteration.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.objective import get_loss, get_regularizer
    >>> from manykernels.objective import Problem
    >>> from manykernels.solvers import get_solver
    >>> problem = Problem(np.eye(3)[None], np.arange(3.0), get_loss("squared"), get_regularizer("l1", 0.1))
    >>> str(get_solver("spicymkl")(tol=1e-6).solve(problem).status)
    'converged'
    """

    tol: float = 1e-4
    max_iter: int = 200
    time_limit: float | None = None
    callback: Callback | None = field(default=None, compare=False)
    verbose: int = 0

    name: ClassVar[str]
    on_factors: ClassVar[bool] = False  # whether it solves for kernels held as factors, and for no others
    shared: ClassVar[bool] = False  # whether it solves for several targets with one set of kernel weights
    needs: ClassVar[frozenset[Capability]] = frozenset()  # what it asks of loss and regularizer
    supports_coupled: ClassVar[bool] = False  # whether it solves losses that couple samples, as a partial likelihood
    unpenalized: ClassVar[bool] = False  # whether it solves for kernels without a penalty, whose weights are huge
    attainable_gap: ClassVar[float] = 1e-8  # relative, that the algorithm reaches on every problem it accepts
    prefers: ClassVar[str] = (
        ""  # what of a stack, by the name of its attribute, it may be preferred for; "" for nothing
    )
    fallback: ClassVar[type[Solver] | None] = None  # goes on where this one breaks down, stalls or is too slow

    @abstractmethod
    def initialize(self, problem: Problem, start: Model) -> State:
        """Return the state of the algorithm at the model ``start``.

        Parameters
        ----------
        problem : Problem
        start : tuple of (ndarray of shape (n_samples,), ndarray of shape (n_kernels,), float)
            Dual coefficients, kernel weights and intercept.

        Returns
        -------
        object
            Whatever `step` changes and `extract` reads.
        """

    @abstractmethod
    def step(self, problem: Problem, state: State) -> None:
        """Advance the state by one outer iteration.

        Parameters
        ----------
        problem : Problem
        state : object
            From `initialize`; changed in place.
        """

    @abstractmethod
    def extract(self, problem: Problem, state: State) -> Model:
        """Return the model ``(rho, d, b)`` that the state stands for.

        Returns
        -------
        tuple of (ndarray of shape (n_samples,), ndarray of shape (n_kernels,), float)
        """

    def worth_certifying(self, problem: Problem, state: State) -> bool:
        """Return whether the state deserves a certificate, at the cost of a pass; by default always."""
        return True

    def observe(self, problem: Problem, state: State, certificate: Certificate) -> None:
        """Receive the certificate of the current model and the computed kernel norms."""

    def newton_steps(self, state: State) -> int:
        """Return how many linear systems were solved so far."""
        return 0

    @property
    def patience(self) -> float:
        """Number of certificates without progress that counts as stalled."""
        return PATIENCE

    @property
    def fallback_statuses(self) -> tuple[Status, ...]:
        """Final statuses that lead to the `fallback`."""
        return UNFINISHED

    @classmethod
    def configured(cls, **parameters: Any) -> Solver:
        """Return the solver with the given parameters, or raise an error with the known parameters.

        Parameters
        ----------
        **parameters
            Fields of the solver.

        Raises
        ------
        InvalidInputError
            If there is no such parameter.
        """
        known = [entry.name for entry in fields(cls)]
        unknown = sorted(set(parameters) - set(known))
        if unknown:
            raise InvalidInputError(f"Solver '{cls.name}' has no parameter {unknown[0]!r}. It has: {', '.join(known)}.")
        return cls(**parameters)

    def check(self, problem: Problem) -> None:
        """Raise `IncompatibleError` unless the algorithm can solve ``problem``.

        Raises
        ------
        IncompatibleError
            For an unsupported problem; the message has the reason.
        """
        reasons = self.refusals(problem)
        if reasons:
            raise IncompatibleError(f"Solver '{self.name}' cannot solve this problem: {reasons[0]}.")

    @classmethod
    def refusals(cls, problem: Problem) -> list[str]:
        """Return the missing capabilities for ``problem``, in words; empty if none."""
        if problem.stack.shaped and not cls.on_factors:
            return ["it works on N x N matrices, which cannot keep the shapes of columns"]
        if cls.shared and not problem.shared:
            return ["it is for several classes or targets that share their kernel weights, and here is one target"]
        if problem.shared and not cls.shared:
            return ["it learns one function, and here several classes or targets share their kernel weights"]
        if problem.loss.couples_samples and not cls.supports_coupled:
            return [f"it needs a sum over samples, and the loss '{problem.loss.name}' is one of all samples together"]
        if problem.unpenalized.size and not cls.unpenalized:
            return ["it does not converge beside kernels without a penalty, and here are some"]
        return cls.refusals_of(problem.loss, problem.regularizer)

    @classmethod
    def refusals_of(cls, loss: AnyLoss, regularizer: Regularizer) -> list[str]:
        """Return the missing capabilities for a loss and a penalty, in words; empty if none."""
        owners: dict[str, AnyLoss | Regularizer] = {"loss": loss, "regularizer": regularizer}
        found = {name: owner.capabilities for name, owner in owners.items()}
        return [
            f"it needs {need.words}, which the {need.owner} '{owners[need.owner].name}' does not have"
            for need in Capability
            if need in cls.needs and need not in found[need.owner]
        ]

    @classmethod
    def may_prefer(cls, problem: Problem) -> bool:
        """Return whether the declared capabilities permit a `preference`."""
        if not cls.prefers or not getattr(problem.stack, cls.prefers):
            return False
        held = problem.loss.capabilities | problem.regularizer.capabilities
        return cls.on_factors or cls.needs <= held

    @classmethod
    def preference(cls, problem: Problem) -> str:
        """Return the reason to prefer the algorithm for ``problem``; empty if none.

        Returns
        -------
        str
            What follows "because", in words.
        """
        return ""

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
            If a limit or a switch of the solver is unusable, or ``warm_start`` does not fit the problem.
        IncompatibleError
            If the problem is not of the kind the algorithm solves.

        Warns
        -----
        ConvergenceWarning
            If the relative duality gap is above ``tol``, whatever the reason.
        """
        self._check_arguments(problem, warm_start)
        self.check(problem)
        with problem.stack.count_apart() as stack:
            own = problem.replace_twin(stack)
            solution = self._solve_apart(own, warm_start).record_replaced(stack.replaced_kernels)
        if solution.kernel_norms is None:
            solution = replace(solution, kernel_norms=solution.certificate.block_norms / problem.penalties)
        if solution.status is not Status.CONVERGED:
            solution = _explained(problem, solution)
            warn(solution.message, ConvergenceWarning)
        return solution

    def _solve_apart(self, problem: Problem, warm_start: Solution | None) -> Solution:
        """Run the algorithm, then the fallback if need be, and look at the kernels of the model."""
        solution = self._solve(problem, warm_start)
        if _unfinished(solution):
            problem.stack.prove_definite()  # no algorithm converges on an indefinite kernel, and few of them say so
        fallback = self.fallback if self._hands_over(solution) else None
        while fallback is not None and _unfinished(solution):  # at most one turn a class
            if not fallback.refusals(problem):
                solution = self._fall_back(fallback, problem, solution)
            fallback = fallback.fallback
        if _unfinished(solution) and (stack := definite_copy(problem.stack)) is not None:
            again = replace(self, time_limit=self._time_left(solution))
            found = again._solve_apart(problem.replace_twin(stack), None).record_replaced(stack.replaced_kernels)
            solution = refine_rounded(problem, solution, found, self.tol)
            if solution.replaced_kernels:  # certified on the exact kernels
                return solution
        if problem.stack.prove_definite(np.flatnonzero(solution.kernel_weights)):
            model = solution.dual_coef, solution.kernel_weights, solution.intercept
            solution = replace(solution, certificate=problem.certificate(*model))
        return solution

    def _hands_over(self, solution: Solution) -> bool:
        """Whether the fallback goes on from a solution."""
        return solution.status in self.fallback_statuses or solution.certificate.crossed

    def _check_arguments(self, problem: Problem, warm_start: object) -> None:
        """Name a wrong argument before any work."""
        _ = self._limits
        for entry in fields(self):
            if entry.type in ("bool", bool):
                check_flag(getattr(self, entry.name), entry.name)
        check_problem(problem)
        check_warm_start(warm_start, problem.n_samples, problem.n_kernels)

    @cached_property
    def _limits(self) -> Limits:
        """Return the limits of a run, checked."""
        patience = None if math.isinf(self.patience) else int(self.patience)
        return Limits(self.tol, self.max_iter, self.time_limit, patience, self.callback, self.verbose, name=self.name)

    def solve_directly(self, problem: Problem) -> Model | None:
        """Return a model that a library computes faster than the iteration; None for most problems."""
        return None

    def good_enough(self, problem: Problem) -> Callable[[Solution], bool] | None:
        """Return the stopping test of a certified model; None is a relative gap of at most ``tol``."""
        return None

    def _solve(self, problem: Problem, warm_start: Solution | None) -> Solution:
        """Run the algorithm alone."""
        before = problem.stack.counters.entries
        enough = self.good_enough(problem)
        run: Run[Solution] = Run(self._limits, f"Solver '{self.name}'", converged=enough)
        with deadline(self.time_limit), blas_threads(problem.stack.n_samples, problem.stack.n_threads):
            models = self._models(problem, warm_start, run)
            run.follow(models, lambda: certify_model(problem, _empty(problem), before))
        return replace(run.solution(), passes=_passes_since(problem, before))

    def _models(self, problem: Problem, warm_start: Solution | None, run: Run[Solution]) -> Iterator[Solution | None]:
        """Yield the starting point, then the certified model of every iteration, or None if uncertified."""
        before = problem.stack.counters.entries

        def certify(model: Model, newton_steps: int) -> Solution:
            return certify_model(problem, _fit_weight_set(problem, model), before, newton_steps)

        start, found = _choose_start(problem, warm_start, certify)
        yield found
        if warm_start is None and (near := self.solve_directly(problem)) is not None:
            yield certify(near, 0)  # which ends the run if it is within the tolerance
        state = self.initialize(problem, start)
        self.observe(problem, state, found.certificate)
        while True:
            try:
                self.step(problem, state)
            except (ArithmeticError, ValueError, LinAlgError, OutOfTimeError):
                # What was reached before may be far better than what was last worth a certificate.
                with suppress(ArithmeticError, ValueError, LinAlgError, AssertionError):
                    yield certify(self.extract(problem, state), self.newton_steps(state))
                raise
            if (systems := self.newton_steps(state)) > SYSTEMS * self.max_iter:
                yield certify(self.extract(problem, state), systems)
                raise OutOfSystemsError(
                    f"{systems} linear systems were solved, more than {SYSTEMS} for each of max_iter={self.max_iter}"
                )
            if not (run.ending or self.worth_certifying(problem, state)):
                yield None
                continue
            found = certify(self.extract(problem, state), systems)
            yield found
            self.observe(problem, state, found.certificate)

    def _fall_back(self, fallback: type[Solver], problem: Problem, first: Solution) -> Solution:
        """Continue with another solver from the best model of an unconverged run; return the better result."""
        left = self._time_left(first)
        second = fallback(tol=self.tol, time_limit=left, callback=self.callback, verbose=self.verbose)
        if first.status is Status.MAX_ITER:
            second = replace(second, max_iter=self.max_iter)
        worth_keeping = 0.5  # relative gap of a model above which a fallback starts afresh: a cold start is no worse
        warm = first if first.certificate.relative_gap < worth_keeping else None
        try:
            return continued(first, second._solve(problem, warm))
        except KeyboardInterrupt:  # before the first certificate of the second
            return replace(first, status=Status.INTERRUPTED)

    def _time_left(self, first: Solution) -> float | None:
        """Return the remaining time."""
        return None if self.time_limit is None else max(self.time_limit - first.elapsed_s, 1e-9)


def _choose_start(
    problem: Problem, warm_start: Solution | None, certify: Callable[[Model, int], Solution]
) -> tuple[Model, Solution]:
    """Return the warm start with the certificate, or the empty model if that has a smaller objective."""
    start = zero = _empty(problem)
    if warm_start is not None:
        start = warm_start.dual_coef, warm_start.kernel_weights, warm_start.intercept
    found = certify(start, 0)
    nothing = problem.empirical_loss(problem.constant_scores(zero[2])) * (1.0 + ROUNDING)
    if not found.certificate.primal <= nothing:  # also if the objective is no number
        start, found = zero, certify(zero, 0)
    return start, found
