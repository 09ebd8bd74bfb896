"""The solver of the estimators for kernels held as factors: the working set on factors as a run like any other.

`advice_on_factors` names the kernels that limit the gap, and a remedy.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import numpy as np

from manykernels.exceptions import IncompatibleError
from manykernels.grams.factored import FactoredStack
from manykernels.grams.factored.landmarks import rank_limit
from manykernels.grams.plan import format_bytes
from manykernels.objective.losses import AnyLoss
from manykernels.objective.losses.smoothing import check_smoothable
from manykernels.objective.problem import Problem
from manykernels.objective.regularizers import Regularizer
from manykernels.solvers.base import Solver
from manykernels.solvers.factored.certificate import NOTICED, certificate_of, shows_rounding
from manykernels.solvers.factored.group_penalty import GroupPenalty
from manykernels.solvers.factored.model import FactorFunctions
from manykernels.solvers.factored.objective import Point
from manykernels.solvers.factored.state import Component, Start, State, components_of
from manykernels.solvers.factored.working_matrices import WorkingMatrices
from manykernels.solvers.factored.working_set import FactoredWorkingSet
from manykernels.solvers.run import ROUNDING, Run, advice_of, deadline
from manykernels.solvers.solution import Model, Solution, Status
from manykernels.threads import blas_threads
from manykernels.validation.arrays import Array

MOST_NAMES = 3


def advice_on_factors(problem: Problem, state: State, tol: float) -> str:
    """Return the kernels with too coarse factors and a remedy; empty if unrelated to the gap."""
    stack = cast("FactoredStack", problem.stack)
    if state.objective is None:
        return ""
    alive = state.objective.kernels[state.objective.penalty.norms(state.point.v) > 0].tolist()
    shares = {m: stack.residual_trace(m, state.factor_tol) for m in alive}
    short = sorted((m for m in alive if shares[m] > 0), key=lambda m: -shares[m])
    if not short:
        return ""
    matrices = WorkingMatrices(problem, tol)
    if problem.bound.couples_samples:
        why = "Matrices among samples (representation='gram') would do better."
    elif problem.shared and not problem.loss.smooth:
        why = f"Matrices among samples, which would do better, need derivatives of the loss '{problem.loss.name}'."
    elif stack.table.chunked:
        why = "Matrices among samples, which would do better, need rows in memory rather than in chunks."
    elif (needed := matrices.needed(alive)) > matrices.allowed:
        allowed = format_bytes(max(matrices.allowed, 0))
        why = f"Matrices among samples, which would do better, take {format_bytes(needed)}, and {allowed} may be had."
    else:
        return ""
    named = ", ".join(f"{stack.name_of(m)!r} ({shares[m]:.1%})" for m in short[:MOST_NAMES])
    more = f" and of {len(short) - MOST_NAMES} more kernels" if len(short) > MOST_NAMES else ""
    limit = rank_limit(stack.n_samples, state.factor_tol)
    alone = all(len(stack.columns_of(m)) == 1 for m in short)
    which = "narrow kernels on single columns" if alone else "kernels on several columns"
    return (
        f"Factors of {which} have at most {limit} landmarks at {stack.n_samples} rows, which leave "
        f"a part of the trace of {named}{more}. {why} More memory, fewer rows, a bank without these kernels, a larger "
        "strength, or a tol above this gap would end it."
    )


DECIDED = (Status.CONVERGED, Status.STALLED, Status.NUMERICAL_ERROR)  # by numbers, not by limits


def certify_model(problem: Problem, state: State, passes: float) -> Solution:
    """Return the result of a round, with an independent copy of the state."""
    point = replace(state.point, v=state.point.v.copy(), z=state.point.z.copy())
    copied, best = replace(state, point=point, rounds=list(state.rounds)), state.best
    assert best is not None
    ratios = problem.penalties * norms_of(problem, copied) / np.maximum(best.norms, 1e-300)  # t_m / u_m
    weights = problem.regularizer.on_boundary(ratios) / problem.penalties**2
    free = problem.unpenalized
    if free.size:  # weights that stand for infinity, as engines on matrices have them
        given = np.broadcast_to(problem.regularizer.weight_range[1], weights.shape)
        weights[free] = given[free] / problem.penalties[free] ** 2
    certificate = certificate_of(problem, copied.primal, best, point.z)
    model = best.scale * best.rho, weights, point.b
    return Solution(*model, certificate, passes=passes, newton_steps=copied.steps, state=copied)


def functions_of(problem: Problem, state: State) -> FactorFunctions:
    """Return the functions of the active kernels, target by target."""
    stack, own, rounds = cast("FactoredStack", problem.stack), _components(problem, state), tuple(state.rounds)
    return FactorFunctions(stack, own, problem.n_targets, rounds[-1].approximate_gap, rounds, Start.create(state))


def _components(problem: Problem, state: State) -> tuple[Component, ...]:
    own = components_of(state)
    return tuple(own if problem.n_targets == 1 else (each for whole in own for each in whole.each(problem.n_targets)))


def norms_of(problem: Problem, state: State) -> Array:
    """Return ``||f_m||``, of several targets together, (M,)."""
    every = np.zeros(problem.n_kernels)
    if state.exact is not None:
        every[[component.kernel for component in state.exact.components]] = state.exact.norms
    elif state.objective is not None:
        every[state.objective.kernels] = state.objective.penalty.norms(state.point.v)
    return every


@dataclass(frozen=True, kw_only=True)
class FactoredNewton(Solver):
    """Proximal Newton on a working set of kernels held as factors, linear in the number of samples.

    Passes over all kernels certify the model for the exact kernels and determine entering kernels and insufficient
    factors; the default of :func:`solve` for kernels held as factors.

    Parameters
    ----------
    tol, max_iter, time_limit, callback, verbose
        As in `Solver`; an iteration is a pass over all kernels.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import KernelBank
    >>> from manykernels.objective import get_loss, get_regularizer
    >>> from manykernels.grams.factored import factored_stack
    >>> from manykernels.objective import Problem
    >>> X = np.random.default_rng(0).uniform(-2, 2, (100, 2))
    >>> stack = factored_stack(X, KernelBank.per_feature(widths=[0.5, 1.0]))
    >>> problem = Problem(stack, np.sin(X[:, 0]), get_loss("squared"), get_regularizer("l1", 5.0))
    >>> str(FactoredNewton().solve(problem).status)
    'converged'
    """

    name: ClassVar[str] = "factored"
    on_factors: ClassVar[bool] = True
    prefers: ClassVar[str] = "has_factors"
    supports_coupled: ClassVar[bool] = True
    unpenalized: ClassVar[bool] = True

    @classmethod
    def refusals(cls, problem: Problem) -> list[str]:
        """Return the missing capabilities for ``problem``, in words; empty if none."""
        reasons = [] if problem.shared else super().refusals(problem)
        stack: Any = problem.stack
        if not stack.has_factors:
            reasons.append("it works on kernels held as factors, and these are N x N matrices")
        elif problem.shared and stack.table.distributed:
            reasons.append(
                "targets cannot share their kernel weights where rows are on workers; take outputs='own', which "
                "gives every target weights of its own, or rows in memory"
            )
        if stack.has_factors and stack.shaped:
            reasons += cls._refusals_of_shapes(problem)
        loss: Any = problem.loss
        return reasons or cls.refusals_of(loss.each if problem.shared else loss, problem.regularizer)

    @classmethod
    def _refusals_of_shapes(cls, problem: Problem) -> list[str]:
        """Return the obstacles to shapes of columns, in words."""
        stack: Any = problem.stack
        if problem.shared:
            return [
                "columns have shapes, and several classes or targets share their kernel weights; take outputs='own', "
                "or targets one by one"
            ]
        free = [stack.name_of(int(m)) for m in problem.unpenalized if stack.constraints_of(int(m)) is not None]
        if free:
            return [
                f"the kernel {free[0]!r} has a shape and is to go without a penalty; give it one, such as Ridge(1e-4)"
            ]
        if GroupPenalty.create(problem.regularizer, np.array([0, 1]), np.ones(1)).shape is None:
            return [
                f"columns have shapes, and the penalty {problem.regularizer.name!r} is none whose terms act kernel by "
                "kernel; take 'l1', 'elasticnet', 'ridge', 'lq', 'simplex' or 'lp_ball'"
            ]
        return []

    @classmethod
    def preference(cls, problem: Problem) -> str:
        """Return the reason to prefer the solver for kernels held as factors."""
        return "the kernels are held as factors, and nothing that it does grows with the square of the rows"

    @classmethod
    def refusals_of(cls, loss: AnyLoss, regularizer: Regularizer) -> list[str]:
        """Return the reason why the loss or penalty is unsupported on factors, in words; empty if supported."""
        try:
            check_smoothable(loss)
            GroupPenalty.create(regularizer, np.array([0, 1]), np.ones(1))
        except IncompatibleError as error:
            return [str(error).rstrip(".")]
        return []

    def initialize(self, problem: Problem, start: Model) -> Any:
        """Return the rounds of the working set, consumed by `_models`."""
        return self._working_set(problem).rounds()

    def _working_set(self, problem: Problem) -> FactoredWorkingSet:
        known = problem.release_empty_quads()
        if problem.unpenalized.size:  # the first dual point of the working set is another one
            known = None
        return FactoredWorkingSet(problem, self.tol, self.max_iter, self.time_limit or np.inf, known)

    def step(self, problem: Problem, state: Any) -> None:
        """Go on to the next certificate."""
        next(state)

    def extract(self, problem: Problem, state: Any) -> Model:
        """Return the dual coefficients, weights and intercept of the state."""
        model = certify_model(problem, next(state), 0.0)
        return model.dual_coef, model.kernel_weights, model.intercept

    @property
    def patience(self) -> float:
        return 30  # certificates without gain; the working set itself knows earlier when it is stuck

    def _solve_apart(self, problem: Problem, warm_start: Solution | None) -> Solution:
        run: Run[Solution] = Run(self._limits, f"Solver '{self.name}'")
        with deadline(self.time_limit), blas_threads(problem.n_samples, problem.stack.n_threads):
            work = self._working_set(problem)
            before = problem.stack.counters.passes

            def certify(state: State) -> Solution:
                return certify_model(work.problem, state, problem.stack.counters.passes - before)

            start = getattr(warm_start.functions, "start", None) if warm_start is not None else None

            run.follow(map(certify, work.rounds(start)), lambda: certify(work.empty()))
        return self._finish(problem, run, work)

    def _finish(self, problem: Problem, run: Run[Solution], work: FactoredWorkingSet) -> Solution:
        """Return the best model of a run, with the functions, and the obstacle to a smaller gap."""
        proved, held = work.proved, run.best.state.best
        if proved is not None and held is not None and proved.value > held.value:  # by a round after that of the model
            run.prove(certify_model(work.problem, replace(run.best.state, best=proved), run.best.passes))
        found, best = run.solution(), run.best
        model = add_rounding(work.problem, best)
        if model.state.primal > work.empty_value() * (1.0 + ROUNDING):
            empty, proved = work.empty(), best.state.best
            if proved is not None and (empty.best is None or proved.value > empty.best.value):
                empty.best = proved  # a lower bound holds for every model
            model = certify_model(work.problem, empty, best.passes)
        if model is not best:
            return _report_outcome(found, work.problem, model, self.tol)
        why = "" if found.status is Status.CONVERGED else advice_on_factors(problem, best.state, self.tol)
        if why:
            advice = advice_of(found.status, found.certificate)
            found = replace(found, message=found.message.removesuffix(advice) + why)
        norms, functions = norms_of(work.problem, best.state), functions_of(work.problem, best.state)
        return replace(found, kernel_norms=norms, functions=functions)


def add_rounding(problem: Problem, model: Solution) -> Solution:
    """Return the model with the largest value that rounding may leave where the functions are evaluated again.

    A function is a sum of terms of at most ``sqrt(k(x, x)) sqrt(k(x_j, x_j)) |v_j|``, or ``sqrt(k(x, x)) ||v||`` in
    factors; far from zero, cancellation makes digits depend on the order of the terms. The model is unchanged without
    relevant cancellation, and for rows in chunks.
    """
    point, stack, norms = model.state.point, cast("FactoredStack", problem.stack), norms_of(problem, model.state)
    if stack.table.chunked or not norms.any():
        return model
    loss, size = problem.bound, max(abs(model.state.primal), problem.tiny)
    here, eps = loss.value(point.z), float(np.finfo(np.float64).eps)
    noise = problem.constant_scores(0.0)
    roots = np.sqrt(stack.largest)
    largest = norms if model.state.exact is None else _totals(problem, model.state, roots)
    if not shows_rounding(problem, point.z, float(largest @ roots), model.state.primal):
        return model  # not even if every row were the largest
    components = _components(problem, model.state)
    for target in range(problem.n_targets):
        own = [component for component in components if component.target == target]
        sizes = np.array([_terms(stack, component) for component in own])
        row = np.zeros(stack.table.n_rows)
        stack.add_largest(np.array([component.kernel for component in own], dtype=np.int64), sizes, row)
        _output(noise, target)[:] = row
    if loss.largest(point.z, np.sqrt(eps) * noise) - here <= NOTICED * size:
        return model  # as many digits as conversions of coefficients may lose
    scores = problem.constant_scores(point.b)
    for component in components:
        _output(scores, component.target)[:] += component.values(stack, stack.table)
    terms = 4.0  # roundings of a term, in units of the last place
    moved = loss.largest(scores, terms * eps * noise) - here
    if moved <= NOTICED * size:
        return model
    state = replace(model.state, primal=model.state.primal + moved, point=Point(point.v, point.b, scores))
    assert state.best is not None
    return replace(model, state=state, certificate=certificate_of(problem, state.primal, state.best, state.point.z))


def _terms(stack: FactoredStack, component: Component) -> float:
    """Return the size of the terms of a function, beside ``sqrt(k(x, x))``."""
    v = component.coefficients
    if component.tol is not None:
        return float(np.sqrt(v @ v))
    return float(np.abs(v) @ np.sqrt(stack._kernel_diag(component.kernel)[: stack.table.n_rows]))


def _output(scores: Array, output: int) -> Array:
    """Return a view of the scores of a single output."""
    return scores if scores.ndim == 1 else scores[:, output]


def _totals(problem: Problem, state: State, roots: Array) -> Array:
    """Return bounds (M,) on the terms of kernels' functions of any output, beside ``sqrt(k(x, x))``."""
    totals = np.zeros(problem.n_kernels)
    for component in components_of(state):
        v = component.coefficients
        size = np.sqrt(v @ v) if component.tol is not None else np.abs(v).sum() * roots[component.kernel]
        totals[component.kernel] += size
    return totals


def _report_outcome(found: Solution, problem: Problem, model: Solution, tol: float) -> Solution:
    """Return the solution of a run with the best model, and the outcome."""
    gap = model.certificate.relative_gap
    status = Status.INACCURATE if gap > tol and found.status in DECIDED else found.status
    if found.certificate.crossed and gap <= tol:  # the crossing was that of the scores, not of the functions
        status = Status.CONVERGED
    message = (
        f"Solver '{found.solver}' stopped ({status}) after {found.n_iter} iterations at relative duality gap "
        f"{gap:.2e}, {'above' if gap > tol else 'within'} tol {tol:.2e}: its functions are sums "
        "of large terms that cancel, and rounding changes them where they are evaluated. Columns far from zero do "
        "that: take standardize=True, or subtract their means."
    )
    return replace(
        found,
        dual_coef=model.dual_coef,
        kernel_weights=model.kernel_weights,
        kernel_norms=norms_of(problem, model.state),
        intercept=model.intercept,
        functions=functions_of(problem, model.state),
        certificate=model.certificate,
        status=status,
        message=message,
    )
