"""A problem per target on a shared Gram stack: solved in turn or in threads, and stopped together by Ctrl-C.

Under several penalties every problem is started from the solution before where that helps (`descend`).
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from threading import Event
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from manykernels.estimators.strength import AUTO
from manykernels.exceptions import ConvergenceWarning
from manykernels.grams import GramStack
from manykernels.grams.expansion import Expansion
from manykernels.grams.factored import FactoredStack
from manykernels.grams.factored.prediction import CHUNK_ROWS, KernelPart
from manykernels.objective.problem import Problem
from manykernels.objective.regularizers import Regularizer
from manykernels.solvers import IterationRecord, Solution, Solver, Status, configured_solver
from manykernels.solvers.factored.state import Component
from manykernels.solvers.gram.many_targets import solve_targets, takes_batch
from manykernels.solvers.gram.start import starts_warm
from manykernels.solvers.registry import problem_of
from manykernels.solvers.run import better_solution, interrupted
from manykernels.threads import blas_threads, n_threads
from manykernels.validation.arrays import Array
from manykernels.validation.parameters import RandomSource, listed, seed_from

if TYPE_CHECKING:
    from manykernels.grams.training import Training

ENDED = (Status.TIME_LIMIT, Status.STOPPED_BY_CALLBACK, Status.INTERRUPTED)  # nothing is to follow


@dataclass(frozen=True, eq=False)
class Fit:
    """Solutions of all targets."""

    problems: list[Problem]
    # one a target, or one for all with shared weights, with dual coefficients of the samples that took part
    solutions: list[Solution]
    # (K, M) float64: ||f_m|| of every target and kernel; of all targets together, (1, M), with shared weights
    norms: Array


def build_problems(
    stack: GramStack,
    targets: Array,
    losses: Sequence[Any],
    regularizer: Regularizer,
    *,
    fit_intercept: bool,
    sample_weight: Array,
    kernel_penalties: Array | None,
    share_weights: bool = False,
) -> list[Problem]:
    """Return a problem for every column of ``targets`` with the loss, or a joint problem for shared weights."""
    given: dict[str, Any] = {"fit_intercept": fit_intercept, "sample_weight": sample_weight}
    given["kernel_penalties"] = kernel_penalties
    if share_weights:
        return [problem_of(stack, targets, losses[0], regularizer, **given)]
    if len(losses) > 1 and not stack.has_factors and losses[0].linear_dual and all(own == losses[0] for own in losses):
        largest = max(float(targets.max()), -float(targets.min()))
        if np.isfinite(largest**2 * float(np.sum(sample_weight))):  # checked once for all targets, which are not copied
            first = problem_of(stack, targets[:, 0], losses[0], regularizer, **given)
            first.entry_roots  # noqa: B018  # computed once
            return [first.with_target(target) for target in targets.T]
    pairs = zip(targets.T, losses, strict=True)
    return [problem_of(stack, target, loss, regularizer, **given) for target, loss in pairs]


def solve_problems(
    problems: list[Problem],
    solver: str | Solver,
    n_jobs: int | None,
    starts: Sequence[Solution | None] = (),
    *,
    random_state: RandomSource = None,
    **parameters: Any,
) -> Fit:
    """Solve every problem, in threads if there are several of both; convergence warnings are left to the caller.

    ``starts`` are models to begin from, one a problem if there are any. A ``time_limit`` among the parameters is for
    all problems together; one of a configured solver is for each.
    """
    until = end_of(None if isinstance(solver, Solver) else parameters.get("time_limit"))
    workers = min(n_threads(n_jobs), len(problems))
    if workers > 1:
        parameters["verbose"] = 0  # progress bars of several threads cannot share a terminal
    # The outer limit is what the threads return to: each of them sets and restores one that all of them share.
    with warnings.catch_warnings(), blas_threads(problems[0].n_samples, n_jobs):
        warnings.simplefilter("ignore", ConvergenceWarning)
        found: list[Solution | None] = [None] * len(problems)
        ended = False
        if solver == AUTO and parameters.get("callback") is None and takes_batch(problems):
            found, ended = solve_targets(problems, **parameters)
        rest = [k for k, solution in enumerate(found) if solution is None]
        posed = [convert_to_double(problems[k]) for k in rest]
        chosen = [resolve_solver(solver, problem, random_state, **parameters) for problem in posed]
        left = posed, chosen, [starts[k] for k in rest] if starts else ()
        with interrupted() if ended else nullcontext():
            each = _run(*left, 1 if ended else workers, until)
        for k, solution in zip(rest, each, strict=True):
            found[k] = solution
    solutions = cast("list[Solution]", found)
    return Fit(problems, solutions, np.array([found.kernel_norms for found in solutions]))


def convert_to_double(problem: Problem) -> Problem:
    """Return a problem whose target is in double precision."""
    return (
        problem.with_target(problem.y.astype(np.float64))
        if getattr(problem.y, "dtype", None) == np.float32
        else problem
    )


def resolve_solver(solver: str | Solver, problem: Problem, random_state: RandomSource, **parameters: object) -> Solver:
    """Return the solver of a problem."""
    own = {} if isinstance(solver, Solver) else parameters
    chosen: Any = configured_solver(solver, problem, **own)
    draws = any(entry.name == "random_state" for entry in fields(chosen))
    # Only a solver that needs a seed may draw one: a RandomState is the user's, and goes on from where it is left.
    return replace(chosen, random_state=seed_from(random_state)) if draws and random_state is not None else chosen


def end_of(time_limit: float | None) -> float:
    """Return when the time is over, by the clock of the solvers; never, without a limit."""
    return float("inf") if time_limit is None else time.perf_counter() + time_limit


def time_left(until: float) -> float | None:
    """Return the remaining time limit; without time left, solvers return at once."""
    least_seconds = 1e-9  # limits are positive
    return None if until == float("inf") else max(until - time.perf_counter(), least_seconds)


def _run(
    problems: Sequence[Problem],
    solvers: Sequence[Solver],
    starts: Sequence[Solution | None],
    workers: int,
    until: float,
) -> list[Solution]:
    stop = Event()
    tasks = list(zip(problems, solvers, starts or [None] * len(problems), strict=True))
    if workers == 1:
        return [_solve(*task, stop, until) for task in tasks]
    futures: list[Future[Solution]] = []
    with ThreadPoolExecutor(workers) as pool:
        try:
            for task in tasks:
                futures.append(pool.submit(_solve, *task, stop, until))
            return [future.result() for future in futures]
        except KeyboardInterrupt:
            stop.set()  # Ctrl-C reaches this thread only; the others stop at their next certificate
            futures += [pool.submit(_solve, *task, stop, until) for task in tasks[len(futures) :]]
            return [future.result() for future in futures]


def _solve(problem: Problem, solver: Solver, start: Solution | None, stop: Event, until: float) -> Solution:
    """Solve a single problem; an interrupt here, unlike a stop asked for by the callback, stops the rest as well."""

    def callback(record: IterationRecord) -> bool:
        if stop.is_set():
            raise KeyboardInterrupt
        return solver.callback is not None and bool(solver.callback(record))

    left = time_left(until)
    limit = solver.time_limit if left is None else left
    solution = replace(solver, callback=callback, time_limit=limit).solve(problem, start)
    if solution.status is Status.INTERRUPTED:
        stop.set()
    try:
        return prune_dual_coefficients(problem, solution, solver.tol)
    except KeyboardInterrupt:  # the model is whole as it is
        stop.set()
        return solution


def prune_dual_coefficients(problem: Problem, solution: Solution, tol: float) -> Solution:
    """Set dual coefficients that an interior method left just beside zero to zero, if the model stays within ``tol``.

    Only for losses with samples that do not matter at the optimum (hinge, epsilon-insensitive). Each attempt costs a
    pass, since what is returned is certified unchanged.
    """
    loss, sizes = problem.loss, np.abs(solution.dual_coef)
    if problem.stack.has_factors:
        return solution  # its functions are no expansions in samples, so that none of these is worth leaving out
    prunable = loss.kink > 0 or (loss.task == "classification" and not loss.entropic)
    if not prunable or solution.status is not Status.CONVERGED:
        return solution
    negligible = (1.0, 0.1, 0.01)  # times tol, relative to the largest dual coefficient: what may count as zero
    for share in negligible:
        small = (sizes > 0) & (sizes <= share * tol * sizes.max())
        if not small.any():
            break
        rho = np.where(small, 0.0, solution.dual_coef)
        certificate = problem.certificate(rho, solution.kernel_weights, solution.intercept)
        if certificate.relative_gap <= tol:
            message = f"converged: relative duality gap {certificate.relative_gap:.2e} <= tol {tol:.2e}"
            norms = certificate.block_norms / problem.penalties
            return replace(solution, dual_coef=rho, kernel_norms=norms, certificate=certificate, message=message)
    return solution


# --- what a model of kernels held as factors keeps to predict: a function a kernel, and no training sample ----------


def coefficients_of(solutions: Sequence[Solution]) -> Array:
    """Return the dual coefficients of all outputs, (K, N), without a copy where they are the rows of one array."""
    first = solutions[0].dual_coef
    whole = first.base
    if isinstance(whole, np.ndarray) and first.ndim == 1 and whole.shape == (len(solutions), len(first)):
        rows = [found.dual_coef for found in solutions]
        if all(own.base is whole and own.ctypes.data == row.ctypes.data for own, row in zip(rows, whole, strict=True)):
            return whole
    return np.vstack([found.dual_coef.T for found in solutions])


def expand_solutions(training: Training, fit: Fit) -> tuple[Expansion, Fit]:
    """Return the stored part of solutions, and the solutions with intercepts for uncentered kernels."""
    weights = np.array([found.kernel_weights for found in fit.solutions])
    if not training.stack.has_factors:
        rho = coefficients_of(fit.solutions)
        return Expansion.create(training.bank, training.prepared, weights, rho), fit
    stack, active = cast("FactoredStack", training.stack), np.flatnonzero(weights.any(axis=0))
    place = {int(m): slot for slot, m in enumerate(active)}
    parts: list[KernelPart] = []
    solutions: list[Solution] = []
    for target, found in enumerate(fit.solutions):
        functions: Any = found.functions
        alive = [component for component in functions.components if component.kernel in place]
        own = [_kernel_part(stack, component, target, place, training.centered) for component in alive]
        parts += own
        # Without an intercept a shift of all scores says nothing: it is left out.
        free, shape = fit.problems[target].fit_intercept, np.shape(found.intercept)
        solutions.append(replace(found, intercept=found.intercept + _offsets(own, target, shape) * free))
    bank = training.bank.take(active if active.size else [0])
    n_targets = sum(np.size(found.intercept) for found in solutions)  # with shared weights all have the same
    every = np.repeat(weights[:, active], n_targets // len(weights), axis=0)
    kept = Expansion(bank, active, len(training.bank), every, parts=tuple(parts))
    return kept, Fit(fit.problems, solutions, fit.norms)


def _offsets(parts: Sequence[KernelPart], first: int, shape: tuple[int, ...]) -> Any:
    """Return the sums of the offsets of parts by target, or a number; ``first`` is the first target."""
    sums = np.zeros(shape or 1)
    for part in parts:
        sums[part.target - first] += part.offset
    return sums if shape else float(sums[0])


def _kernel_part(
    stack: FactoredStack, component: Component, target: int, place: dict[int, int], centered: bool
) -> KernelPart:
    """Return a component as a function without a stack."""
    function, offset = component.function(stack), 0.0
    if centered:  # the mean of the function over the training rows
        columns, starts = stack.columns_of(component.kernel), range(0, stack.n_samples, CHUNK_ROWS)
        sums = [function(stack.table.points(columns, slice(start, start + CHUNK_ROWS))).sum() for start in starts]
        offset = float(sum(sums)) / stack.n_samples
    return KernelPart(target + component.target, place[component.kernel], function, offset)


# What a user is told of models without kernels: which classes or targets, why, and what to do.


MOST_NAMED = 10
PLURALS = {"class": "classes", "label": "labels", "output": "outputs"}


def constant_targets(fit: Fit) -> set[int]:
    """Return the numbers of the targets with a single value."""
    return {number for number, problem in enumerate(fit.problems) if problem.constant_target}


def why_constant(fit: Fit) -> str | None:
    """Return the reason for a constant optimum at any strength, or None."""
    if not fit.problems:  # kernels that were found: nobody knows of those that were not
        return None
    if len(constant_targets(fit)) == len(fit.problems):
        return "y has one value for all samples, and that constant is the model. Check the column that was given as y."
    # Of constant columns norms are sums of what cancels, and no strength is to be judged by their rounding.
    if any(problem.zero_rounding(problem.empty_norms()).any() for problem in fit.problems):
        return None
    return (
        "every kernel is constant over the samples, or zero (k(x, x) = 0), up to rounding, so that the best constant "
        "is the model. Check that the columns of X vary, and that kernels of your own are positive on them."
    )


def why_none(fit: Fit, tol: float) -> str:
    """Return why no target has a kernel."""
    total = fit.problems[0].total_weight
    alpha = max(problem.regularizer.strength for problem in fit.problems) / total
    norms = [problem.empty_norms() for problem in fit.problems]
    largest = max(problem.regularizer.strength_max(u) for problem, u in zip(fit.problems, norms, strict=True)) / total
    if alpha < largest:
        return f"at alpha={alpha:g} the best constant is optimal within tol={tol:g}. Decrease alpha or tol."
    return f"alpha={alpha:g} is not below alpha_max={largest:.6g}, where the model becomes constant. Decrease alpha."


def why_some(empty: list[int], labels: Array, word: str, alpha: float | str | Array, *, searched: bool) -> str:
    """Return which of several targets have no kernel; ``searched`` says that cross-validation chose ``alpha``.

    An array is a strength of every target.
    """
    named = listed(map(repr, labels[empty[:MOST_NAMED]].tolist()), len(empty))
    noun, scores = PLURALS[word], "predictions" if word == "output" else "scores"
    start = f"No kernel was selected for {len(empty)} of {len(labels)} {noun} ({named}): their {scores} are constant."
    if isinstance(alpha, str):
        return f"{start} At alpha={alpha!r} no kernel gains more than tol there. Check those {noun}, or decrease tol."
    if np.ndim(alpha):
        return f"{start} No kernel predicts them better than a constant on rows that were held out."
    own = "MKLRegressor" if word == "output" else "MKLClassifier"
    remedy = f"An {own} with alpha={AUTO!r}" if searched else f"alpha={AUTO!r}"
    return f"{start} alpha={alpha:.4g} is too strong for them: {remedy} gives each of the {noun} a strength of its own."


# Models down a grid of strengths, each from the one before.

FINAL = (Status.CONVERGED, Status.INACCURATE, Status.STOPPED_BY_CALLBACK)  # a cold start would end no better
INTERIOR = frozenset({"working_set", "interior_point"})  # solvers whose iterates stay off the boundary
INSIDE = 1e-3  # relative gap from which on a model of theirs is far enough from it to start from


class SolverChoice:
    """Solvers of problems, chosen anew where their penalties differ in more than strengths, or where each draws a seed.

    Parameters
    ----------
    solver : str or Solver
    random_state : int, RandomState, Generator or None
    **parameters
        Of the solvers: ``tol``, ``max_iter``, ...
    """

    def __init__(self, solver: str | Solver, random_state: RandomSource = None, **parameters: object) -> None:
        self._solver, self._random_state, self._parameters = solver, random_state, parameters
        self._known: list[Regularizer] = []
        self._solvers: list[Solver] = []

    def choose(self, problems: Sequence[Problem]) -> list[Solver]:
        """Return the solver of every of the problems, on the kernels asked about before."""
        penalties = [problem.regularizer for problem in problems]
        draws = any(hasattr(chosen, "random_state") for chosen in self._solvers)  # a seed for every problem
        if draws or not _same_but_for_strength(self._known, penalties):
            self._solvers = [
                resolve_solver(self._solver, problem, self._random_state, **self._parameters) for problem in problems
            ]
        self._known = penalties
        return self._solvers


def descend(
    problems: list[Problem],
    regularizers: Iterable[Regularizer | Sequence[Regularizer]],
    choice: SolverChoice,
    *,
    start: list[Solution] | None = None,
) -> Iterator[Fit]:
    """Solve the problems under every penalty in turn, every started from the solution before; warnings are left out.

    An element of ``regularizers`` is the penalty of all problems or one for each; ``start`` has solutions to begin
    from.

    Interior-point iterations start from models of another strength where only the norms bound the coefficients: they
    take a third to a half of the Newton steps. With other bounds they are started afresh where the solution before is
    close: they gain nothing from a start at the boundary, where solutions lie, and can stall there.
    What does not converge from the solution before is started afresh too.
    """
    previous: list[Solution | None] = [None] * len(problems) if start is None else list(start)
    for given in regularizers:
        penalties = given if isinstance(given, Sequence) else [given] * len(problems)
        posed = [problem.with_penalty(own) for problem, own in zip(problems, penalties, strict=True)]
        each = zip(posed, choice.choose(posed), previous, strict=True)
        solutions = [_solve_from(problem, solver, begin) for problem, solver, begin in each]
        previous = list(solutions)
        yield Fit(posed, solutions, np.array([found.kernel_norms for found in solutions]))


def _same_but_for_strength(penalties: Sequence[Regularizer], others: Sequence[Regularizer]) -> bool:
    """Return whether penalties differ in their strengths alone, irrelevant for the choice of a solver."""
    if len(penalties) != len(others) or any(
        type(one) is not type(two) for one, two in zip(penalties, others, strict=True)
    ):
        return False
    for one, two in zip(penalties, others, strict=True):
        told = [(getattr(one, each.name), getattr(two, each.name)) for each in fields(one) if each.name != "strength"]
        if not all(here is there or (isinstance(here, float) and here == there) for here, there in told):
            return False
    return True


def silence_solver(solver: str | Solver, verbose: int) -> str | Solver:
    """Return the solver, silenced if a bar over several models is shown: two bars cannot share a terminal."""
    return replace(solver, verbose=0) if isinstance(solver, Solver) and verbose > 0 else solver


def _solve_from(problem: Problem, solver: Solver, start: Solution | None) -> Solution:
    if start is not None and not np.isfinite(start.certificate.gap):
        start = None  # nobody knows how far off it is
    near = start is not None and start.certificate.relative_gap < INSIDE
    if near and solver.name in INTERIOR and not starts_warm(problem):
        start = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = _uninterrupted(problem, solver, start)
        if start is None or found.status in FINAL:
            return found
        return better_solution(found, _uninterrupted(problem, solver, None))


def _uninterrupted(problem: Problem, solver: Solver, start: Solution | None) -> Solution:
    """Solve; Ctrl-C also ends all following problems."""
    solution = solver.solve(problem, start)
    if solution.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return solution
