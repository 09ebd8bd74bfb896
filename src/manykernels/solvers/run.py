"""The common loop of solvers and searches: clock, history, callback, interrupts, the best model and the message."""

from __future__ import annotations

import time
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np

from manykernels.exceptions import NotPSDError
from manykernels.solvers.solution import IterationRecord, Limits, Solution, Status, progress_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from manykernels.objective.certificate import Certificate
    from manykernels.objective.problem import Problem
    from manykernels.validation.arrays import Array


# The end of a solver's time, told to the loops inside it: a limit holds within one factorization.


_DEADLINE: ContextVar[float] = ContextVar("deadline", default=float("inf"))


class OutOfTimeError(Exception):
    """The time limit is over: the run ends with the last available model."""


class OutOfSystemsError(Exception):
    """More linear systems were solved than any iteration needs: the run ends like one out of iterations."""


@contextmanager
def deadline(time_limit: float | None) -> Iterator[None]:
    """Let `check_deadline` raise after a number of seconds, in the thread, or at an earlier active deadline."""
    end = float("inf") if time_limit is None else time.perf_counter() + time_limit
    token = _DEADLINE.set(min(end, _DEADLINE.get()))
    try:
        yield
    finally:
        _DEADLINE.reset(token)


_INTERRUPTED: ContextVar[bool] = ContextVar("interrupted", default=False)


@contextmanager
def interrupted() -> Iterator[None]:
    """Let every run of the thread end before the first model, as Ctrl-C there does: with the model without kernels."""
    token = _INTERRUPTED.set(True)
    try:
        yield
    finally:
        _INTERRUPTED.reset(token)


def check_deadline() -> None:
    """Raise `OutOfTimeError` after the deadline; called in every loop around expensive work."""
    if time.perf_counter() > _DEADLINE.get():
        raise OutOfTimeError


def seconds_left() -> float:
    """Return how long the time is not yet over; infinite without a limit."""
    return max(_DEADLINE.get() - time.perf_counter(), 0.0)


CAUTION = 100.0  # least ratio of the rounding bound to the true error in 13 cases seen in long double
ROUNDING = 1e-12  # relative difference of primal values that decides nothing

ADVICE = {
    Status.INACCURATE: "Rounding alone could be above tol: loosen tol, rescale y and the kernels, or increase alpha.",
    Status.MAX_ITER: "Increase max_iter, loosen tol, or increase alpha.",
    Status.TIME_LIMIT: "Increase time_limit, or loosen tol.",
    Status.STALLED: "The iteration made no more progress: loosen tol, increase alpha, or take another solver.",
    Status.INTERRUPTED: "This is the best model so far.",
    Status.STOPPED_BY_CALLBACK: "This is the best model so far.",
    Status.NUMERICAL_ERROR: "Check the scale of the kernels, or increase alpha.",
}


ADVICE_ON_ROUNDING = "Rounding may be as large as this gap: loosen tol, rescale y and the kernels, or increase alpha."


def advice_of(status: Status, certificate: Certificate) -> str:
    """Return advice for a status; rounding is named only if the bound reaches the gap."""
    rounded = status is Status.STALLED and certificate.relative_rounding >= certificate.relative_gap
    return ADVICE_ON_ROUNDING if rounded else ADVICE[status]


class Certified(Protocol):
    """Interface of models in a run: certificate and cost."""

    @property
    def kernel_weights(self) -> Array:
        """Kernel weights ``d``."""

    @property
    def certificate(self) -> Certificate:
        """Certificate of exactly the model."""

    @property
    def passes(self) -> float:
        """Gram entries read so far, in passes over the whole stack."""

    @property
    def newton_steps(self) -> int:
        """Linear systems solved so far."""


C = TypeVar("C", bound=Certified)


class Run(Generic[C]):
    """A run: the records so far, and the reason for the end.

    Messages begin with ``title``. By default a model is good enough, ``converged``, if the relative gap is at most
    ``tol``; ``first`` is the number of the first iteration, 0 if a run begins with a starting point.
    """

    def __init__(
        self, limits: Limits, title: str, *, converged: Callable[[C], bool] | None = None, first: int = 0
    ) -> None:
        self._limits, self._title = limits, title
        self._converged = converged or (lambda model: model.certificate.relative_gap <= limits.tol)
        self._started = time.perf_counter()
        self.history: list[IterationRecord] = []
        self._best: C | None = None
        self._iteration = first - 1
        self._useless = 0
        self._smallest_gap = np.inf
        self.status: Status | None = None  # why the run ended; None before
        self.reason = ""  # what went wrong, in parentheses

    def follow(self, models: Iterator[C | None], empty: Callable[[], C] | None = None) -> Run[C]:
        """Take models until a limit is reached or there are no more.

        A run interrupted or out of time before the first model ends with the certified empty model if possible; a
        second Ctrl-C aborts.

        Exceptions of the iterator after the first model end the run as a numerical error, with the best model so far.
        Earlier exceptions propagate, like a lack of memory or of an optional package, an indefinite kernel, and
        exceptions of the callback.
        """
        try:
            with progress_of(self._limits) as show:
                if _INTERRUPTED.get() and empty is not None:
                    raise KeyboardInterrupt
                while self.status is None:  # at most max_iter models that are worth a certificate
                    model = self._next(models)
                    if model is not None:
                        self._keep(model)
                        self._tell(model, show)
        except KeyboardInterrupt:
            if self._best is None and empty is None:
                raise
            self.interrupt(empty)
        if self._best is None and empty is not None and self.status is Status.TIME_LIMIT:
            self._keep_empty(empty)
        return self

    def interrupt(self, empty: Callable[[], C] | None) -> None:
        """End a running iteration with the best model so far, or the empty model."""
        self.status = self.status or Status.INTERRUPTED
        if self._best is None and empty is not None:
            self._keep_empty(empty)

    def _keep_empty(self, empty: Callable[[], C]) -> None:
        self._iteration = max(self._iteration, 0)
        self._keep(empty())

    def _next(self, models: Iterator[C | None]) -> C | None:
        """Return the next model; at the end of all, or after an error, there is none, and the run is over."""
        try:
            # What algorithms compute beyond the range of float64 shows in their certificates, not in warnings.
            with np.errstate(all="ignore"):
                model = next(models)
            if model is not None and not np.isfinite(model.certificate.primal):
                raise FloatingPointError(f"the objective of the model is {model.certificate.primal}")
        except StopIteration:
            self.status = Status.STALLED
        except OutOfTimeError:
            self.status = Status.TIME_LIMIT
        except OutOfSystemsError as error:
            self.status, self.reason = Status.MAX_ITER, f" ({error})"
        except (MemoryError, ImportError, NotPSDError, AttributeError, NameError):  # of the program, not of the numbers
            raise
        except Exception as error:
            if self._best is None:
                raise
            self.status, self.reason = Status.NUMERICAL_ERROR, f" ({type(error).__name__}: {error})"
        else:
            self._iteration += 1
            return model
        return None

    def _keep(self, model: C) -> None:
        certificate = model.certificate
        if self._best is None or self._converged(model) or _better(model, self._best):
            self._best = model
        self._useless += 1
        progress = 0.999  # share of the smallest gap so far that counts as a smaller one
        if certificate.relative_gap < progress * self._smallest_gap:
            self._useless = 0
        self._smallest_gap = min(self._smallest_gap, certificate.relative_gap)
        self.history.append(
            IterationRecord(
                iteration=self._iteration,
                elapsed_s=self._elapsed(),
                passes=model.passes,
                newton_steps=model.newton_steps,
                primal=certificate.primal,
                dual=certificate.dual,
                relative_gap=certificate.relative_gap,
                n_active=int(np.count_nonzero(model.kernel_weights)),
            )
        )

    def _tell(self, model: C, show: Callable[[IterationRecord], Any] | None) -> None:
        """Show the last record, and decide whether the run is over."""
        record, limits = self.history[-1], self._limits
        if show is not None:
            show(record)
        stopped = limits.callback is not None and limits.callback(record)
        if self._converged(model):
            accurate = _whole(model).relative_rounding <= CAUTION * limits.tol
            self.status = Status.CONVERGED if accurate else Status.INACCURATE
        elif stopped:
            self.status = Status.STOPPED_BY_CALLBACK
        elif self.out_of_time:
            self.status = Status.TIME_LIMIT
        elif limits.patience is not None and self._useless >= limits.patience:
            self.status = Status.STALLED
        elif self._iteration >= limits.max_iter:
            self.status = Status.MAX_ITER

    def _elapsed(self) -> float:
        return time.perf_counter() - self._started

    @property
    def out_of_time(self) -> bool:
        """Return whether the time limit of the run, or of an enclosing search, is over."""
        own = self._limits.time_limit
        return (own is not None and self._elapsed() > own) or seconds_left() == 0

    @property
    def ending(self) -> bool:
        """Return whether the current iteration is the last, with a mandatory certificate."""
        return self.out_of_time or self._iteration + 1 >= self._limits.max_iter

    @property
    def best(self) -> C:
        """Return the converged model, else the model of smallest primal value."""
        if self._best is None:
            raise RuntimeError("a run always begins with a certified model")
        return self._best

    def prove(self, best: C) -> None:
        """Let the best model be the same one with a better certificate, by which the run may have converged."""
        self._best = best
        if self._converged(best) and self.status in (Status.STALLED, Status.MAX_ITER, Status.TIME_LIMIT):
            self.status = Status.CONVERGED

    def solution(self: Run[Solution]) -> Solution:
        """Return the best model as a solution."""
        best, last = self.best, self.history[-1]
        status, certificate = self.status or Status.STALLED, _whole(best)
        return replace(
            best,
            certificate=certificate,
            status=status,
            message=self._message(status, certificate),
            history=tuple(self.history),
            passes=last.passes,
            newton_steps=last.newton_steps,
            n_iter=self._iteration,
            elapsed_s=self._elapsed(),
            solver=self._limits.name,
            kernels=(),
            state=None,
            whole=None,
        )

    def _message(self, status: Status, certificate: Certificate) -> str:
        tol, gap = self._limits.tol, certificate.relative_gap
        if status is Status.CONVERGED and gap > tol:
            return f"converged by its own rule, at relative duality gap {gap:.2e}"
        if status is Status.CONVERGED:
            return f"converged: relative duality gap {gap:.2e} <= tol {tol:.2e}"
        side = "above" if gap > tol else "within"
        return (
            f"{self._title} stopped ({status}) after {self._iteration} iterations at relative duality gap {gap:.2e}, "
            f"{side} tol {tol:.2e}{self.reason}. {advice_of(status, certificate)}"
        )


def _whole(model: Certified) -> Certificate:
    """Return the certificate with the bound on rounding."""
    whole = getattr(model, "whole", None)
    return model.certificate if whole is None else whole()


def _better(model: Certified | Solution, other: Certified | Solution) -> bool:
    """Whether the primal value is smaller, or equal up to rounding and better certified."""
    mine, yours = model.certificate, other.certificate
    if abs(mine.primal - yours.primal) <= ROUNDING * abs(yours.primal):
        return mine.relative_gap < yours.relative_gap
    return mine.primal < yours.primal


def better_solution(first: Solution, second: Solution) -> Solution:
    """Return the converged solution, else the solution of smaller primal value."""
    if second.status is Status.CONVERGED or first.status is Status.CONVERGED:
        return second if second.status is Status.CONVERGED else first
    return second if _better(second, first) else first


def refine_rounded(problem: Problem, first: Solution, second: Solution, tol: float) -> Solution:
    """Return the better of a run and of one on kernels without the rounding of float32.

    The second is certified on the kernels of ``problem`` if within ``tol``, otherwise on the substituted kernels.
    """
    certificate = problem.certificate(second.dual_coef, second.kernel_weights, second.intercept)
    if certificate.relative_gap <= tol and certificate.relative_rounding <= CAUTION * tol:
        given = f"relative duality gap {certificate.relative_gap:.2e} on the given ones <= tol {tol:.2e}"
        found = continued(first, replace(second, certificate=certificate, status=Status.CONVERGED))
        return replace(found, replaced_kernels={}, message=f"converged on the nearest definite kernels: {given}")
    found, gap = continued(first, second), second.certificate.relative_gap
    if second.status is Status.CONVERGED:
        told = f"converged: relative duality gap {gap:.2e} <= tol {tol:.2e}"
        return replace(found, replaced_kernels={}, message=told).record_replaced(second.replaced_kernels)
    return replace(
        found,
        message=f"Solver '{first.solver}' stopped ({found.status}) after {found.n_iter} iterations at relative duality "
        f"gap {found.certificate.relative_gap:.2e}, above tol {tol:.2e}. The kernels are held in float32, and rounding "
        f"left them indefinite; without it, the gap is {gap:.2e}. Hold the kernels in float64, or increase alpha.",
    )


def continued(first: Solution, second: Solution) -> Solution:
    """Return the better of a run and of the continuation by another solver, with the costs of both."""
    better = better_solution(first, second)
    ended = second.status in (Status.INTERRUPTED, Status.STOPPED_BY_CALLBACK, Status.TIME_LIMIT)
    went_on = f"Solver '{first.solver}' stopped ({first.status}); '{second.solver}' went on from its best model. "
    return replace(
        better,
        status=second.status if better is second or ended else first.status,
        message=went_on + better.message,
        history=first.history + tuple(_after(record, first) for record in second.history),
        passes=first.passes + second.passes,
        newton_steps=first.newton_steps + second.newton_steps,
        n_iter=first.n_iter + second.n_iter,
        elapsed_s=first.elapsed_s + second.elapsed_s,
        solver=first.solver,
    )


def _after(record: IterationRecord, first: Solution) -> IterationRecord:
    return replace(
        record,
        iteration=record.iteration + first.n_iter,
        elapsed_s=record.elapsed_s + first.elapsed_s,
        passes=record.passes + first.passes,
        newton_steps=record.newton_steps + first.newton_steps,
    )
