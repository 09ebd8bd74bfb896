"""The laws of a solver, as a test class to inherit."""

import dataclasses
import pickle
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from manykernels.exceptions import ConvergenceWarning, IncompatibleError
from manykernels.grams import GramStack, as_stack
from manykernels.objective.losses import get_loss
from manykernels.objective.problem import Problem
from manykernels.objective.regularizers import get_regularizer
from manykernels.solvers.base import Solver
from manykernels.solvers.solution import Solution, Status
from manykernels.testing import formulas
from manykernels.testing.problems import (
    REGULARIZERS,
    SmallProblem,
    small_problems,
    strength_of_zero_model,
    with_targets,
)
from manykernels.validation.arrays import Array

# An independent judge of an answer: the certificate recomputed in plain NumPy.


Floats = NDArray[np.float64]


@dataclass(frozen=True)
class NumpyCertificate:
    """Primal, dual, gap and relative gap of a single model, recomputed outside the library."""

    primal: float
    dual: float
    gap: float
    relative_gap: float


def certificate_in_numpy(problem: SmallProblem, rho: Floats, d: Floats, b: float) -> NumpyCertificate:
    r"""Recompute the certificate of the model ``f(x) = sum_m d_m sum_i rho_i k_m(x, x_i) + b``.

    .. math:: P = \sum_i s_i \ell(y_i, f_i + b) + \Omega(t), \qquad
              D = -\sum_i s_i \ell^*(y_i, -\rho'_i / s_i) - \Omega^*(u)

    with :math:`t_m = w_m d_m \sqrt{\rho' K_m \rho}`, and the dual taken at rho projected on the box (and on
    ``sum rho = 0`` with an intercept), then scaled until the conjugate of the regularizer is finite.


    Examples
    --------
    >>> from manykernels.testing.problems import random_problem
    >>> small = random_problem(0, loss="squared", fit_intercept=False)
    >>> zero = certificate_in_numpy(small, 0 * small.y, np.zeros(len(small.kernels)), 0.0)
    >>> bool(np.isclose(zero.primal, (small.y**2).sum() / 2)), zero.dual
    (True, 0.0)
    """
    return _certificate_of(problem, model_of(problem, rho, d, b))


@dataclass(frozen=True)
class NumpyModel:
    """Scores (N,) or (N, T) with the intercept, norms ``||f_m||`` (M,), and dual coefficients as a proof."""

    scores: Floats
    norms: Floats
    rho: Floats


def model_of(problem: SmallProblem, rho: Floats, d: Floats, b: float | Floats) -> NumpyModel:
    """Return the model of weighted kernels, ``f_m = d_m K_m rho``.

    Examples
    --------
    >>> from manykernels.testing.problems import random_problem
    >>> small = random_problem(0)
    >>> model_of(small, 0 * small.y, np.ones(len(small.kernels)), 2.0).scores.tolist() == [2.0] * len(small.y)
    True
    """
    scores = sum((d_m * (K @ rho) for d_m, K in zip(d, problem.kernels, strict=True)), start=np.zeros_like(problem.y))
    return NumpyModel(scores + b, d * formulas.block_norms(problem.kernels, rho), rho)


def _certificate_of(problem: SmallProblem, model: NumpyModel, told_dual: float | None = None) -> NumpyCertificate:
    """Return the certificate of a model, with the dual value of the solver, if any, as upper limit."""
    penalty = (problem.regularizer_name, problem.regularizer_params, problem.strength)
    primal = float(problem.weights @ losses_at(problem, model.scores))
    primal += formulas.penalty_value(*penalty, problem.penalties * model.norms)
    dual = dual_value(problem, projected(problem, model.rho))
    if told_dual is not None:
        assert told_dual <= dual + 1e-9 * abs(primal), (
            f"dual value {told_dual!r} above that of its coefficients, {dual!r}"
        )
        dual = told_dual
    at_zero = float(problem.weights @ losses_at(problem, np.zeros_like(problem.y)))
    denominator = max(abs(primal), 1e-10 * at_zero, np.finfo(float).tiny)
    return NumpyCertificate(primal, dual, primal - dual, (primal - dual) / denominator)


def losses_at(problem: SmallProblem, z: Floats) -> Floats:
    """Return the loss (N,) of every sample at scores ``z``."""
    return formulas.loss_value(problem.loss_name, problem.loss_params, problem.y, z)


def projected(problem: SmallProblem, rho: Floats) -> Floats:
    """Project on ``{lo <= rho <= hi}``, and on ``sum rho = 0`` too with an intercept, by bisection on the shift."""
    if rho.ndim == 2 and problem.loss_name == "logistic":
        # ``s (e_c - p)`` with rows of p that sum to one, and column sums of zero with an intercept: scaling rows and
        # columns in turn finds the nearest such matrix in relative entropy.
        positive, s = problem.y > 0, problem.weights[:, None]
        p = np.maximum(positive - rho / s, 1e-300)
        totals = (s * positive).sum(axis=0)
        for _ in range(_SCALINGS if problem.fit_intercept else 0):
            p = p / p.sum(axis=1, keepdims=True)
            p = p * (totals / (s * p).sum(axis=0))
        return np.asarray(s * (positive - p / p.sum(axis=1, keepdims=True)))
    if rho.ndim == 2:
        columns = zip(problem.y.T, rho.T, strict=True)
        return np.column_stack([projected(replace(problem, y=y), column) for y, column in columns])
    lo, hi = (
        problem.weights * bound for bound in formulas.loss_bounds(problem.loss_name, problem.loss_params, problem.y)
    )
    if not problem.fit_intercept:
        return np.clip(rho, lo, hi)
    reach = float(np.abs(rho).max()) + float(np.abs(np.r_[lo[np.isfinite(lo)], hi[np.isfinite(hi)], 0.0]).max())
    shift = formulas.bisect_decreasing(lambda nu: float(np.clip(rho - nu, lo, hi).sum()), -reach, reach)
    return np.clip(rho - shift, lo, hi)


def dual_value(problem: SmallProblem, rho: Floats) -> float:
    """Return the dual objective at ``rho``, scaled until the conjugate of the regularizer is finite."""
    name, params, strength = problem.regularizer_name, problem.regularizer_params, problem.strength
    u = formulas.block_norms(problem.kernels, rho) / problem.penalties
    scale = formulas.penalty_dual_scale(name, params, strength, u)
    s = problem.weights
    r = (scale * rho.T / s).T
    fit = s @ formulas.loss_conjugate(problem.loss_name, problem.loss_params, problem.y, r)
    return 0.0 - float(fit) - formulas.penalty_conjugate(name, params, strength, scale * u)


# From plain arrays to the library and back: pose a small problem, and judge the certificate of its solution.


def build_problem(small: SmallProblem, stack: GramStack | None = None) -> Problem:
    """Return a small problem in the form of the library, on the matrices or on another stack of the kernels.

    Examples
    --------
    >>> from manykernels.testing.problems import random_problem
    >>> build_problem(random_problem(0)).loss.name
    'logistic'
    """
    return Problem(
        as_stack(small.kernels) if stack is None else stack,
        small.y,
        get_loss(small.loss_name, **small.loss_params),
        get_regularizer(small.regularizer_name, small.strength, **small.regularizer_params),
        fit_intercept=small.fit_intercept,
        sample_weight=small.sample_weight,
        kernel_penalties=small.kernel_penalties,
    )


def check_certificate(small: SmallProblem, solution: Solution, tolerance: float = 1e-9) -> None:
    """Assert that the reported certificate equals the certificate of the returned model in plain NumPy.

    Examples
    --------
    >>> from manykernels.solvers import solve
    >>> from manykernels.testing.problems import random_problem
    >>> small = random_problem(0)
    >>> check_certificate(small, solve(small.kernels, small.y, loss="logistic", penalty="l1",
    ...                                strength=small.strength))
    """
    model = model_of(small, solution.dual_coef, solution.kernel_weights, solution.intercept)
    _check_told(solution, _certificate_of(small, model), tolerance)


def _check_told(solution: Solution, found: NumpyCertificate, tolerance: float) -> None:
    told = solution.certificate
    room = tolerance * max(abs(found.primal), 1e-10 * abs(found.dual))
    for name in ("primal", "dual", "gap"):
        np.testing.assert_allclose(getattr(told, name), getattr(found, name), rtol=0, atol=room, err_msg=name)
    scale = abs(found.gap / found.relative_gap) if found.relative_gap else 1.0
    np.testing.assert_allclose(told.relative_gap, found.relative_gap, rtol=0, atol=room / scale)


def check_weight_set(small: SmallProblem, model: NumpyModel, weights: Floats, dual: float) -> None:
    """Assert that the kernel weights of a model are on the boundary of the set, and the objective above a bound.

    The objective is that of papers, with ``(lam / 2) sum_m t_m^2 / theta_m`` at exactly the weights.

    Examples
    --------
    >>> from manykernels.testing.problems import random_problem
    >>> small = random_problem(0, regularizer="simplex")
    >>> weights = np.full(len(small.kernels), 1 / (small.strength * len(small.kernels)))
    >>> check_weight_set(small, model_of(small, 0.1 * small.y, weights, 0.0), weights, 0.0)
    """
    theta = small.strength * small.penalties**2 * weights
    if not theta.any():
        return
    scale = formulas.weight_set_scale(small.regularizer_name, small.regularizer_params, theta)
    assert abs(scale - 1) <= 1e-12, f"{small.description}: kernel weights are {scale - 1:+.1e} off their boundary"
    norms = small.penalties * model.norms
    used = norms > 0
    primal = float(small.weights @ losses_at(small, model.scores))
    primal += small.strength / 2 * float((norms[used] * (norms[used] / theta[used])).sum())
    assert primal >= dual - 1e-12 * abs(primal), f"{small.description}: {primal!r} is below the lower bound {dual!r}"


# Thirty problems in this order hold every loss with every regularizer, both intercepts and both weightings.
_CASES = 30
_SETS = ("simplex", "lp_ball", "elasticnet_ball")
_SET_CASES = 24  # problems with these penalties, each loss with each of them at least once
_SCALINGS = 2000  # of rows and columns in turn: enough for rounding where no class is rarer than one sample
Pose = Callable[[SmallProblem], Problem]


@contextmanager
def _gathered() -> Iterator[list[warnings.WarningMessage]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught


def _equal(actual: object, expected: object, what: str) -> None:
    # A shipped module is not rewritten by pytest: a bare assert would not show its values.
    assert actual == expected, f"{what}: {actual!r} instead of {expected!r}"


@cache
def _cases(pose: Pose, n_targets: int | None, penalties: Sequence[str] = REGULARIZERS) -> tuple[SmallProblem, ...]:
    """Return the possible problems: no solver of several targets takes every loss."""
    cases = []
    for small in small_problems(_SET_CASES if penalties == _SETS else _CASES, regularizers=penalties):
        small = small if n_targets is None else with_targets(small, n_targets)
        with suppress(IncompatibleError):
            pose(small)
            cases.append(small)
    return tuple(cases)


@cache
def _accepted(solver_class: type[Solver], pose: Pose, n_targets: int | None) -> tuple[SmallProblem, ...]:
    return tuple(small for small in _cases(pose, n_targets) if not solver_class.refusals(pose(small)))


def _strictly(solver: Solver, pose: Pose, small: SmallProblem) -> Solution:
    """Solve; anything short of the tolerance is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return solver.solve(pose(small))


_strictly_once = cache(_strictly)


@cache
def _longest(solver: Solver, pose: Pose, n_targets: int | None) -> tuple[SmallProblem, Solution]:
    """Return the longest of ten runs; five laws need the run, and equal runs give equal bits."""
    accepted = _accepted(type(solver), pose, n_targets)[:10]
    return max(((small, _strictly_once(solver, pose, small)) for small in accepted), key=lambda run: run[1].n_iter)


class SolverContract:
    """Laws that every solver obeys on accepted problems; inherit the class and set ``solver_class``.

    Attributes
    ----------
    solver_class : type
        The solver under test.
    tol : float
        Relative duality gap asked for, unless the solver declares a larger attainable gap.
    n_targets : int or None
        Number of targets with shared kernel weights; None for a single target, y of shape (N,).
    every : int
        Laws comparing runs solve every ``every``-th problem; all problems must converge.
    exact_dual : bool
        Whether the dual value is exact at the dual coefficients; False where norms are bounds, so the value may be
        lower.

    Examples
    --------
    A test module for a new solver::

        class TestMySolver(SolverContract):
            solver_class = MySolver
    """

    solver_class: ClassVar[type[Solver]]
    tol: ClassVar[float] = 1e-8
    n_targets: ClassVar[int | None] = None
    every: ClassVar[int] = 1
    exact_dual: ClassVar[bool] = True

    @staticmethod
    def pose(small: SmallProblem) -> Problem:
        """Return a small problem in the form of the library, on the matrices; override for other stacks of kernels."""
        return build_problem(small)

    @property
    def goal(self) -> float:
        """Required relative duality gap: ``tol``, or the attainable gap of the solver if larger."""
        return max(self.tol, self.solver_class.attainable_gap)

    def make_solver(self, **parameters: Any) -> Solver:
        """Return the solver with the tolerance of the contract, unless ``parameters`` says otherwise."""
        return self.solver_class(**{"tol": self.goal, **parameters})

    def accepted(self) -> tuple[SmallProblem, ...]:
        """Return the accepted problems of the contract, at least 1."""
        found = _accepted(self.solver_class, type(self).pose, self.n_targets)
        assert found, f"{self.solver_class.__name__} accepts none of the {_CASES} problems"
        return found

    def solve(self, small: SmallProblem) -> Solution:
        """Return the solution of ``small`` at the tolerance of the contract; other statuses are errors.

        Problems of the contract itself are solved once, for several laws.
        """
        solve = _strictly_once if small in _cases(type(self).pose, self.n_targets) else _strictly
        return solve(self.make_solver(), type(self).pose, small)

    def quietly(self, solver: Solver, small: SmallProblem, warm_start: Solution | None = None) -> Solution:
        """Solve where the status, not the warning, is the matter."""
        with _gathered():
            return solver.solve(self.pose(small), warm_start)

    def longest(self) -> tuple[SmallProblem, Solution]:
        """Return the accepted problem with the most iterations, and the solution."""
        return _longest(self.make_solver(), type(self).pose, self.n_targets)

    def model(self, small: SmallProblem, solution: Solution) -> NumpyModel:
        """Return the model of ``small``: scores, norms of the functions, dual coefficients.

        Override where functions are no weighted sums of kernel columns; the weights then give sizes only.
        """
        return model_of(small, solution.dual_coef, solution.kernel_weights, solution.intercept)

    def check_certificate(self, small: SmallProblem, solution: Solution) -> None:
        """Assert that the reported certificate equals the certificate of the returned model in plain NumPy."""
        dual = None if self.exact_dual else solution.certificate.dual
        _check_told(solution, _certificate_of(small, self.model(small, solution), dual), 1e-9)

    def check_optimal(self, small: SmallProblem, model: NumpyModel, norms: Array) -> None:
        """Assert that the model with functions of the given norms is optimal for ``small``, computed by NumPy."""
        found = _certificate_of(small, replace(model, norms=norms))
        assert found.relative_gap <= 2 * self.goal, f"{small.description}: gap {found.relative_gap:.2e}"

    def test_converges_with_the_certificate_of_the_returned_model(self) -> None:
        """Check status, shapes, signs and the recomputed certificate on every accepted problem."""
        for small in self.accepted():
            solution = self.solve(small)
            assert solution.status == Status.CONVERGED, small.description
            assert solution.certificate.relative_gap <= self.goal, small.description
            _equal(solution.dual_coef.shape, small.y.shape, "shape of dual_coef")
            _equal(solution.kernel_weights.shape, small.kernels.shape[:1], "shape of kernel_weights")
            assert (solution.kernel_weights >= 0).all(), small.description
            if not small.fit_intercept:
                assert not np.any(solution.intercept), f"an intercept of {solution.intercept} without fit_intercept"
            self.check_certificate(small, solution)

    def test_history_and_costs_tell_the_run(self) -> None:
        """Check that the history ends at the reported certificate and costs increase."""
        small, solution = self.longest()
        table = solution.frame()
        _equal(len(table), len(solution.history), "rows of the history")
        _equal(table["relative_gap"].min(), solution.certificate.relative_gap, "best gap of the history")
        for column in ("iteration", "elapsed_s", "passes", "newton_steps"):
            assert (table[column].diff().dropna() >= 0).all(), column
        assert solution.passes >= table["passes"].iloc[-1] > 0, f"{solution.passes} passes"
        assert solution.n_iter >= 1, small.description
        _equal(solution.solver, self.solver_class.name, "solver named by the solution")

    def test_permuted_kernels_give_permuted_weights(self) -> None:
        """Check that weights follow kernels: back in order, weights are optimal for the original problem."""
        for small in self.accepted()[:: 3 * self.every]:
            order = np.random.default_rng(0).permutation(len(small.kernels))
            permuted = replace(small, kernels=small.kernels[order], kernel_penalties=small.penalties[order])
            model = self.model(permuted, self.solve(permuted))
            self.check_optimal(small, model, model.norms[np.argsort(order)])

    def test_kernels_in_other_units_give_the_same_model(self) -> None:
        """Check ``c_m K_m`` with penalties ``sqrt(c_m) w_m``: the model stays, the norms divided by sqrt(c)."""
        for small in self.accepted()[1 :: 3 * self.every] or self.accepted():
            units = 10 ** np.random.default_rng(1).uniform(-2, 2, len(small.kernels))
            scaled = replace(
                small,
                kernels=small.kernels * units[:, None, None],
                kernel_penalties=small.penalties * np.sqrt(units),
            )
            model = self.model(scaled, self.solve(scaled))
            self.check_optimal(small, model, model.norms * np.sqrt(units))

    def test_block_one_norm_strength_scales_with_the_root_of_the_unit(self) -> None:
        """Check that ``c K`` with strength ``sqrt(c) C`` has the objective of ``K`` with ``C``."""
        for small in (case for case in self.accepted() if case.regularizer_name == "l1"):
            scaled = replace(small, kernels=9.0 * small.kernels, strength=3.0 * small.strength)
            expected = self.solve(small).certificate.primal
            np.testing.assert_allclose(self.solve(scaled).certificate.primal, expected, rtol=2 * self.goal)

    def test_a_repeated_sample_counts_like_a_doubled_weight(self) -> None:
        """Check that two copies of samples have the objective of one copy with twice the weight."""
        for small in self.accepted()[2 :: 4 * self.every] or self.accepted():
            copies = np.where(np.arange(len(small.y)) % 3 == 0, 2, 1)
            rows = np.repeat(np.arange(len(small.y)), copies)
            repeated = replace(
                small,
                kernels=np.ascontiguousarray(small.kernels[:, rows[:, None], rows]),
                y=small.y[rows],
                sample_weight=small.weights[rows],
            )
            weighted = replace(small, sample_weight=small.weights * copies)
            primals = [self.solve(each).certificate.primal for each in (repeated, weighted)]
            np.testing.assert_allclose(primals[0], primals[1], rtol=2 * self.goal, err_msg=small.description)

    def test_arguments_are_not_modified(self) -> None:
        """Check writable arrays bit by bit after solving; all further laws pass read-only arrays."""
        for small in self.accepted()[:6]:
            names = ("kernels", "y", "sample_weight", "kernel_penalties")
            given = {name: getattr(small, name) for name in names}
            arrays: dict[str, Any] = {name: np.array(value) for name, value in given.items() if value is not None}
            start = self.solve(small)
            before = start.dual_coef.copy(), start.kernel_weights.copy()
            self.quietly(self.make_solver(), replace(small, **arrays), start)
            for name, array in arrays.items():
                np.testing.assert_array_equal(array, getattr(small, name), err_msg=name)
            np.testing.assert_array_equal(start.dual_coef, before[0])
            np.testing.assert_array_equal(start.kernel_weights, before[1])

    def test_solving_twice_gives_the_same_bits(self) -> None:
        """Check that a solver keeps nothing from a single run to the next."""
        small, other = self.accepted()[0], self.accepted()[-1]
        solver = self.make_solver()
        first = solver.solve(self.pose(small))
        solver.solve(self.pose(other))
        again = solver.solve(self.pose(small))
        np.testing.assert_array_equal(first.dual_coef, again.dual_coef)
        np.testing.assert_array_equal(first.kernel_weights, again.kernel_weights)

    def test_parameters_are_frozen(self) -> None:
        """Check that a solver is a dataclass whose fields cannot be set."""
        solver = self.make_solver()
        assert dataclasses.is_dataclass(solver), f"{type(solver).__name__} is no dataclass"
        try:
            solver.tol = 1.0  # type: ignore[misc]  # what is tested
        except dataclasses.FrozenInstanceError:
            return
        raise AssertionError(f"{type(solver).__name__} let its tol be changed")

    def test_solver_and_solution_survive_pickling(self) -> None:
        """Check a round trip of both."""
        solver, solution = self.make_solver(max_iter=77), self.solve(self.accepted()[0])
        _equal(pickle.loads(pickle.dumps(solver)), solver, "solver after pickling")
        back = pickle.loads(pickle.dumps(solution))
        np.testing.assert_array_equal(back.dual_coef, solution.dual_coef)
        np.testing.assert_array_equal(back.kernel_weights, solution.kernel_weights)
        np.testing.assert_array_equal(back.intercept, solution.intercept)
        for name in ("status", "n_iter", "history", "message"):
            _equal(getattr(back, name), getattr(solution, name), f"{name} after pickling")
        _equal(back.certificate.primal, solution.certificate.primal, "primal after pickling")

    def test_kernel_weights_are_on_the_boundary_of_their_set(self) -> None:
        """Check that weights are on the boundary, also far from the optimum, and objectives above a bound."""
        for small in _cases(type(self).pose, self.n_targets, _SETS)[:: self.every]:
            if self.solver_class.refusals(self.pose(small)):
                continue
            for loose in ({"tol": max(1e-2, self.goal)}, {"max_iter": 2}):
                solution = self.quietly(self.make_solver(**loose), small)
                model = self.model(small, solution)
                check_weight_set(small, model, solution.kernel_weights, solution.certificate.dual)

    def test_an_iteration_limit_is_reported_with_the_gap(self) -> None:
        """Check that 1 iteration ends as max_iter with 1 warning, or converged without a warning."""
        for small in self.accepted()[:: 2 * self.every]:
            with _gathered() as caught:
                solution = self.make_solver(max_iter=1).solve(self.pose(small))
            self.check_certificate(small, solution)
            if solution.status == Status.CONVERGED:
                assert solution.certificate.relative_gap <= self.goal, f"{small.description}: not converged"
                _equal(len(caught), 0, "warnings of a converged run")
            else:
                self._check_warning(solution, caught, Status.MAX_ITER)

    def test_a_time_limit_is_kept(self) -> None:
        """Check for a certified model after a time limit of zero."""
        small, _ = self.longest()
        with _gathered() as caught:
            solution = self.make_solver(time_limit=1e-9).solve(self.pose(small))
        self.check_certificate(small, solution)
        self._check_warning(solution, caught, Status.TIME_LIMIT)

    def test_a_callback_stops_the_run(self) -> None:
        """Check that a true return value ends the run at once, and a false value changes nothing."""
        small, plain = self.longest()
        calls: list[Any] = []
        with _gathered() as caught:
            solution = self.make_solver(callback=_stop_at(1, calls)).solve(self.pose(small))
        _equal(len(calls), 1, "calls of a callback that stops at the first")
        self._check_warning(solution, caught, Status.STOPPED_BY_CALLBACK)
        watched = self.make_solver(callback=_stop_at(10**9, calls)).solve(self.pose(small))
        np.testing.assert_array_equal(watched.dual_coef, plain.dual_coef)

    def test_an_interrupt_returns_the_best_model_so_far(self) -> None:
        """Check Ctrl-C inside a run: status, warning, and a certified model no worse than any seen."""
        small, _ = self.longest()
        calls: list[Any] = []
        with _gathered() as caught:
            solution = self.make_solver(callback=_stop_at(2, calls, KeyboardInterrupt)).solve(self.pose(small))
        self._check_warning(solution, caught, Status.INTERRUPTED)
        self.check_certificate(small, solution)
        _equal(solution.certificate.primal, min(record.primal for record in calls), "primal value")

    def test_a_warm_start_from_the_solution_saves_iterations(self) -> None:
        """Check that a warm start from the solution takes fewer iterations and converges."""
        small, cold = self.longest()
        warm = self.make_solver().solve(self.pose(small), warm_start=cold)
        assert warm.n_iter < cold.n_iter, f"{warm.n_iter} iterations warm, {cold.n_iter} cold"
        _equal(warm.status, Status.CONVERGED, "status of the warm start")
        self.check_certificate(small, warm)

    def test_the_model_is_zero_at_the_strength_of_the_zero_model(self) -> None:
        """Check exact zeros just above the strength of the empty model, and a selection just below.

        Below, every solver runs at the tolerance of the contract: for a larger gap the zero model would suffice.
        """
        for small in self.accepted()[1 :: 2 * self.every] or self.accepted():
            top = strength_of_zero_model(small)
            if top is None:
                continue
            above, below = (replace(small, strength=factor * top) for factor in (1.01, 0.9))
            assert not self.solve(above).kernel_weights.any(), small.description
            assert self.quietly(self.make_solver(tol=self.tol), below).kernel_weights.any(), small.description

    def test_refused_problems_are_refused_before_any_work(self) -> None:
        """Check that every problem not accepted raises an error with the solver and the reason."""
        refused = [small for small in _cases(type(self).pose, self.n_targets) if small not in self.accepted()]
        for small in refused:
            calls: list[Any] = []
            try:
                self.quietly(self.make_solver(callback=_stop_at(1, calls)), small)
            except IncompatibleError as error:
                message = str(error)
            else:
                raise AssertionError(f"{self.solver_class.__name__} solved what it refuses: {small.description}")
            assert self.solver_class.name in message, f"refusal without the name of the solver: {message}"
            assert small.loss_name in message or small.regularizer_name in message, message
            _equal(len(calls), 0, "iterations before the refusal")

    def _check_warning(self, solution: Solution, caught: list[warnings.WarningMessage], status: Status) -> None:
        _equal(solution.status, status, "status")
        _equal([warning.category for warning in caught], [ConvergenceWarning], "warnings")
        message = str(caught[0].message)
        assert f"{solution.certificate.relative_gap:.2e}" in message, message
        assert str(status) in message, message


def _stop_at(count: int, calls: list[Any], error: type[BaseException] | None = None) -> Callable[[Any], bool]:
    """Return a callback that records the calls and ends the run at call ``count``."""

    def callback(record: object) -> bool:
        calls.append(record)
        if len(calls) == count and error is not None:
            raise error
        return len(calls) == count

    return callback
