"""The dual as a second-order cone program, solved by Clarabel: the exact reference.

    minimize_{rho, e}  sum_i s_i l*(y_i, -rho_i/s_i) + psi(e)    s.t.  ||L_m'rho|| <= w_m B_m(e),   sum rho = 0

with factors ``K_m = L_m L_m'``.

The sparse cone program is assembled block by block (`ConeProgram`).

`refinements` are models from dual coefficients that are nearly optimal, but whose scores are not yet accurate.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import LinAlgError, eigh, lstsq
from scipy.sparse import csc_array, vstack

from manykernels.exceptions import optional_module
from manykernels.objective.capabilities import Capability
from manykernels.objective.problem import Problem
from manykernels.solvers.base import BROKEN, Solver
from manykernels.solvers.gram.interior_point import InteriorPoint
from manykernels.solvers.learners.learners import fit_learner
from manykernels.solvers.run import check_deadline, seconds_left
from manykernels.solvers.solution import Model, Status
from manykernels.validation.arrays import Array


def add_best_intercept(problem: Problem, rho: Array, d: Array) -> Model:
    """Return the model of the coefficients and weights with the optimal intercept."""
    if not problem.fit_intercept:
        return rho, d, 0.0
    scores = problem.stack.apply(d, rho)
    return rho, d, problem.loss.best_intercept(problem.y, scores, problem.weight)


def refinements(problem: Problem, rho: Array, d: Array) -> Iterator[Array]:
    """Yield feasible coefficients near ``rho``: the nearest ones, and ones whose scores fit a piecewise linear loss.

    Where a conjugate is linear between the ends of the box, a coefficient inside tells the score exactly. Scores are
    ``sum_m d_m K_m rho``, which may be 1e6 times more sensitive than the dual value that the program maximizes; so
    coefficients close to an end are put there, and the rest solve the linear system for their scores.
    """
    feasible = problem.feasible_dual(rho)
    yield feasible
    loss = problem.loss
    if not loss.piecewise_linear or not d.any():
        return
    gram = problem.stack.combine(d)
    near_an_end = (1e-4, 1e-6, 1e-8)  # distances, relative to the largest coefficient, that may count as none
    for distance in near_an_end:
        yield _refined(problem, gram, feasible, distance * float(np.abs(feasible).max()))


def _refined(problem: Problem, gram: Array, rho: Array, distance: float) -> Array:
    ends = [*problem.dual_box, np.zeros_like(rho)] if problem.loss.kink > 0 else problem.dual_box
    snapped, free = rho.copy(), np.ones(rho.size, dtype=bool)
    for end in ends:
        near = np.abs(rho - end) <= distance
        snapped[near], free[near] = end[near], False
    scores = -problem.loss.conjugate_derivative(problem.y, rho / problem.weight)
    change = _solve_bordered(
        gram[np.ix_(free, free)], (scores - gram @ snapped)[free], -snapped.sum() if problem.fit_intercept else None
    )
    snapped[free] += change
    return problem.feasible_dual(snapped)


def _solve_bordered(matrix: Array, right: Array, total: float | None) -> Array:
    """Return the smallest ``x`` with ``matrix x + b = right`` for some b and ``sum x = total``; None: no b."""
    size = right.size
    smallest_singular = 1e-15  # relative to the largest one
    if total is None:
        return lstsq(matrix, right, cond=smallest_singular)[0] if size else right
    scale = float(matrix.diagonal().max(initial=0.0)) or 1.0
    bordered = np.full((size + 1, size + 1), scale)
    bordered[:size, :size], bordered[size, size] = matrix, 0.0
    return lstsq(bordered, np.append(right, scale * total), cond=smallest_singular)[0][:size]


def import_clarabel() -> Any:
    """Return the module, or raise an error with the installation command."""
    return optional_module("clarabel", "This solver calls Clarabel; solver='auto' needs nothing more.", "conic")


@dataclass(frozen=True)
class ConePoint:
    """Point, multipliers of every block in order, and interior-point steps."""

    x: Array
    multipliers: tuple[Array, ...]
    steps: int


@dataclass
class ConeProgram:
    """``minimize x'Px/2 + q'x`` subject to ``offset_k + rows_k x`` in ``cone_k`` for every block k."""

    n_variables: int
    linear: Array = field(init=False)  # ndarray of shape (n_variables,): q
    quadratic: Array = field(init=False)  # ndarray of shape (n_variables,): the diagonal of P
    # ndarray of shape (k, k), optional: added to the part of P that belongs to the leading variables
    dense: Array | None = field(default=None, init=False)
    _rows: list[csc_array] = field(default_factory=list, init=False)
    _offsets: list[Array] = field(default_factory=list, init=False)
    _cones: list[tuple[str, int]] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.linear = np.zeros(self.n_variables)
        self.quadratic = np.zeros(self.n_variables)

    def add(self, cone: str, offset: Array, values: Array, columns: Array) -> None:
        """Demand ``offset_i + sum_j values_ij x[columns_ij]`` in the cone."""
        values, columns = np.broadcast_arrays(values, columns)
        index = np.repeat(np.arange(offset.size), values.shape[1])
        entries = (-values.ravel(), (index, columns.ravel()))  # Clarabel writes Ax + s = b with s in the cone
        self._rows.append(csc_array(entries, shape=(offset.size, self.n_variables)))
        self._offsets.append(np.asarray(offset, dtype=np.float64))
        self._cones.append((cone, offset.size))

    def solve(self, **options: object) -> ConePoint:
        """Return the last point of Clarabel, whatever the status."""
        clarabel = import_clarabel()
        settings = clarabel.DefaultSettings()
        for name, value in {"verbose": False, **options}.items():
            setattr(settings, name, value)
        nothing = csc_array((0, self.n_variables))
        rows = csc_array(vstack([nothing, *self._rows], format="csc"))
        offset = np.concatenate([np.zeros(0), *self._offsets])
        solver = clarabel.DefaultSolver(self._hessian(), self.linear, rows, offset, self._clarabel_cones(), settings)
        found = solver.solve()
        ends = np.cumsum([part.size for part in self._offsets])[:-1]
        return ConePoint(np.array(found.x), tuple(np.split(np.array(found.z), ends)), int(found.iterations))

    def _clarabel_cones(self) -> list[Any]:
        clarabel = import_clarabel()
        cones: list[Any] = []
        for kind, size in self._cones:
            if kind == "Exponential":
                cones += [clarabel.ExponentialConeT()] * (size // 3)
            else:
                cones.append(getattr(clarabel, f"{kind}ConeT")(size))
        return cones

    def _hessian(self) -> csc_array:
        """Return the upper triangle of ``P``, without the zeros."""
        indices = np.flatnonzero(self.quadratic)
        rows, columns, values = indices, indices, self.quadratic[indices]
        if self.dense is not None:
            upper, right = np.triu_indices(self.dense.shape[0])
            rows, columns = np.concatenate([rows, upper]), np.concatenate([columns, right])
            values = np.concatenate([values, self.dense[upper, right]])
        return csc_array((values, (rows, columns)), shape=(self.n_variables, self.n_variables))


# The dual problem written as a cone program in the dual coefficients.


@dataclass
class DualProgram:
    """Cone program in ``x``, whose leading entries are ``rho / unit``; `Conic` has the formulas.

    Kernels and targets may differ by many orders of magnitude, so everything is written in natural units: dual
    coefficients in ``unit``, the objective in ``worth``, every cone in units of its own ``size``, the largest ``||L_m'
    rho||`` for ``||rho|| = unit``.
    """

    problem: Problem
    unit: float

    def __post_init__(self) -> None:
        problem = self.problem
        self._worth = problem.loss_at_zero / problem.n_samples or 1.0
        self._linear, self._ridge = _coefficients(problem)
        self._factors = [_factor(kernel) for kernel in problem.stack.block()]
        squares = [np.einsum("ij,ij->j", factor, factor).max(initial=0.0) for factor in self._factors]
        sizes = self.unit * np.sqrt(np.array(squares))  # columns are orthogonal: the longest is the norm
        self._coned = np.flatnonzero((sizes > 0) & ~self._plain)
        self._sizes = sizes[self._coned]
        self._lay_out_bounds()
        self._program = ConeProgram(self._excess.max(initial=self._n_loss_variables() - 1) + 1)
        program, soft = self._program, self._soft
        for k, m in enumerate(self._coned):
            rows = self._factors[m].T * (self.unit / self._sizes[k])
            self._add_cone(k, rows)
        if self._plain.any():
            total = self.problem.stack.combine(self._plain_weights())
            program.dense = total * (self.unit**2 / self._worth)
        curvature = self._ridge[self._coned][soft]
        program.quadratic[self._excess[soft]] = self._excess_unit[soft] ** 2 / (curvature * self._worth)
        self._add_loss()

    def solve(self, **options: object) -> tuple[Array, Array, float, int]:
        """Run Clarabel."""
        found = self._program.solve(**options)
        b = -self._worth / self.unit * float(found.multipliers[-1][0]) if self.problem.fit_intercept else 0.0
        return self.unit * found.x[: self.problem.n_samples], self._weights(found), b, found.steps

    def _weights(self, found: ConePoint) -> Array:
        """Return ``multiplier / (w_m B_m)`` in natural units."""
        multipliers = np.array([found.multipliers[k][0] for k in range(self._coned.size)])
        room = np.maximum(self._offsets + self._slopes * found.x[self._excess], np.finfo(np.float64).tiny)
        d = self._plain_weights()
        d[self._coned] = self._worth * np.maximum(multipliers, 0.0) / room / self._sizes**2
        return d

    @property
    def _plain(self) -> Array:
        """Mask of kernels without a linear term: no cone, and a single possible weight."""
        return (self._linear == 0) & (Capability.SIMPLEX not in self.problem.regularizer.capabilities)

    def _plain_weights(self) -> Array:
        """Return ``1 / (r_m w_m^2)`` for kernels without linear term, zero for the rest."""
        weights = np.zeros(self.problem.n_kernels)
        np.divide(self.problem.penalties**-2.0, self._ridge, out=weights, where=self._plain)
        return weights

    # --- kernels ----------------------------------------------------------------------------------------------------

    def _lay_out_bounds(self) -> None:
        """Write the bounds ``w_m B_m`` as ``offsets + slopes x[excess]``."""
        penalties, ridge = self.problem.penalties[self._coned], self._ridge[self._coned]
        first, count = self._n_loss_variables(), self._coned.size
        relative = penalties / self._sizes
        self._offsets = relative * self._linear[self._coned]
        if Capability.SIMPLEX in self.problem.regularizer.capabilities:
            self._excess_unit = np.full(count, (1.0 / relative).max(initial=0.0))
            self._excess, self._soft = np.full(count, first), np.ones(count, dtype=bool)
        else:
            self._excess_unit, self._soft = 1.0 / relative, ridge > 0
            self._excess = np.where(self._soft, first + np.cumsum(self._soft) - 1, 0)
        self._slopes = np.where(self._soft, relative * self._excess_unit, 0.0)

    def _add_cone(self, k: int, rows: Array) -> None:
        """Demand ``||rows x|| <= offsets_k + slopes_k x[excess_k]``."""
        rank, n = rows.shape
        values, columns = np.zeros((1 + rank, n)), np.tile(np.arange(n), (1 + rank, 1))
        values[1:] = rows
        values[0, 0], columns[0] = self._slopes[k], self._excess[k]
        offset = np.zeros(1 + rank)
        offset[0] = self._offsets[k]
        self._program.add("SecondOrder", offset, values, columns)

    # --- samples ----------------------------------------------------------------------------------------------------

    def _n_loss_variables(self) -> int:
        loss, n = self.problem.loss, self.problem.n_samples
        return 3 * n if loss.conjugate_form == "binary_entropy" else 2 * n if loss.kink > 0 else n

    def _add_loss(self) -> None:
        problem, program, n = self.problem, self._program, self.problem.n_samples
        indices = np.arange(n)[:, None]
        if problem.loss.conjugate_form == "binary_entropy":
            self._add_entropies(indices)
        else:
            program.linear[:n] = -problem.y * (self.unit / self._worth)
            program.quadratic[:n] = problem.loss.curvature / problem.weight * (self.unit**2 / self._worth)
            self._add_box(indices)
        if problem.loss.kink > 0:
            program.linear[n : 2 * n] = problem.loss.kink * (self.unit / self._worth)
            for sign in (1.0, -1.0):
                program.add("Nonnegative", np.zeros(n), np.array([[1.0, sign]]), np.hstack([n + indices, indices]))
        if problem.fit_intercept:
            program.add("Zero", np.zeros(1), np.ones((1, n)), indices.T)

    def _add_box(self, indices: Array) -> None:
        low, high = self.problem.dual_box
        for bound, sign in ((high, -1.0), (low, 1.0)):
            kept = np.isfinite(bound)
            if kept.any():
                offset = -sign * bound[kept] / self.unit
                self._program.add("Nonnegative", offset, np.array([[sign]]), indices[kept])

    def _add_entropies(self, indices: Array) -> None:
        """Bound ``p log p`` and ``(1 - p) log(1 - p)`` for ``p = y rho / s`` by a variable each."""
        n, weight = self.problem.n_samples, self.problem.weight
        slope = self.problem.y / weight * self.unit
        self._program.linear[n : 3 * n] = np.tile(weight, 2) / self._worth
        for part, start in ((1.0, 0.0), (-1.0, 1.0)):
            offset, values, columns = np.zeros(3 * n), np.zeros((3 * n, 1)), np.zeros((3 * n, 1), dtype=np.intp)
            offset[1::3], offset[2::3] = start, 1.0
            values[0::3], values[1::3, 0] = -1.0, part * slope
            columns[0::3] = indices + (n if part > 0 else 2 * n)
            columns[1::3] = indices
            self._program.add("Exponential", offset, values, columns)


def _coefficients(problem: Problem) -> tuple[Array, Array]:
    """Return the linear and the quadratic coefficient of every kernel; on a simplex 0 and ``lambda``, shared by all."""
    curve = problem.regularizer.curve
    assert curve is not None, "the solver refuses what has none"
    linear, quadratic = np.broadcast_arrays(curve.linear, curve.ridge if curve.elastic else curve.power)
    return np.broadcast_to(linear, problem.n_kernels), np.broadcast_to(quadratic, problem.n_kernels)


def _factor(kernel: Array) -> Array:
    """Return ``L`` of shape (N, rank) with ``K = L L'`` and orthogonal columns; none for a zero kernel."""
    check_deadline()
    values, vectors = eigh(kernel)
    smallest_eigenvalue = 1e-15  # relative to the largest one of the kernel: anything below is rounding
    kept = values > smallest_eigenvalue * max(float(values[-1]), np.finfo(np.float64).tiny)
    return vectors[:, kept] * np.sqrt(values[kept])


# Rounding stops an interior-point method at a different place on every rung; each answer is certified on its own.
LADDER: tuple[dict[str, Any], ...] = (
    {"tolerance": 1e-10},
    {"tolerance": 1e-11, "equilibrate_enable": False},
    {"tolerance": 1e-12, "static_regularization_constant": 1e-10, "iterative_refinement_max_iter": 50},
    {"tolerance": 1e-12, "static_regularization_constant": 1e-13, "iterative_refinement_max_iter": 50},
    {"tolerance": 1e-10, "max_step_fraction": 0.9},
    {"tolerance": 1e-8},
)
MOST_STEPS = 300


@dataclass
class _State:
    program: DualProgram
    model: Model
    attempts: int = 0
    steps: int = 0


@dataclass(frozen=True, kw_only=True)
class Conic(Solver):
    """Second-order cone program in the dual coefficients, by the interior-point solver Clarabel.

    With factors ``K_m = L_m L_m'`` the dual problem is::

        minimize_{rho, e}  sum_i s_i l*(y_i, -rho_i/s_i) + psi(e)
        subject to         ||L_m' rho|| <= w_m B_m,   sum rho = 0 with an intercept,   lo <= rho <= hi

    where ``B_m = C`` for the block 1-norm; ``B_m = C l1_ratio + e_m`` and ``psi = sum e_m^2 / (2 C (1 - l1_ratio))``
    for the elastic net; ``B_m = e`` for all kernels and ``psi = e^2 / (2 lambda)`` for weights on a simplex. Ridge is a
    quadratic program; the logistic loss brings two exponential cones a sample. The multiplier of a cone, divided by
    ``w_m B_m``, is the weight of the kernel, and the multiplier of ``sum rho = 0`` is the intercept.

    A reference for small problems: it factorizes all kernels and holds M N^2 numbers.

    Notes
    -----
    An iteration is a single run of Clarabel. If the answer is not certified to ``tol``, the learner at the weights may
    be; else further runs use other settings. Needs the extra ``conic``: ``pip install 'manykernels[conic]'``.

    References
    ----------
    F. Bach, G. Lanckriet, M. Jordan, "Multiple kernel learning, conic duality, and the SMO algorithm", ICML 2004.
    P. Goulart, Y. Chen, "Clarabel: an interior-point solver for conic programs with quadratic objectives", 2024.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.objective.problem import Problem
    >>> from manykernels.objective.regularizers import BlockL1
    >>> kernels = np.stack([np.eye(4), np.ones((4, 4))])
    >>> problem = Problem(kernels, [1.0, -1.0, 1.0, -1.0], "hinge", BlockL1(0.1))
    >>> str(Conic(tol=1e-8).solve(problem).status)
    'converged'
    """

    name: ClassVar[str] = "conic"
    unpenalized: ClassVar[bool] = True
    fallback: ClassVar[type[Solver] | None] = InteriorPoint
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.CLOSED_CONJUGATE, Capability.CONES})
    attainable_gap: ClassVar[float] = 1e-6
    fallback_statuses: ClassVar[tuple[Status, ...]] = BROKEN  # what is not certified with any settings

    def check(self, problem: Problem) -> None:
        """Raise `IncompatibleError` for unsupported problems, and ``ImportError`` without Clarabel."""
        super().check(problem)
        import_clarabel()

    def initialize(self, problem: Problem, start: Model) -> _State:
        """Factorize the kernels and write the program down."""
        unit = float(np.abs(start[0]).max()) or float(problem.weight.max())
        return _State(DualProgram(problem, unit), start)

    def step(self, problem: Problem, state: _State) -> None:
        """Run Clarabel with the next settings."""
        if state.attempts == len(LADDER):
            raise LinAlgError("Clarabel reached the limits of float64 with all settings")
        options = dict(LADDER[state.attempts])
        options |= dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), options.pop("tolerance"))
        check_deadline()
        rho, d, b, steps = state.program.solve(max_iter=MOST_STEPS, time_limit=seconds_left(), **options)
        state.attempts += 1
        state.steps += steps
        if np.isfinite(rho).all() and np.isfinite(d).all() and np.isfinite(b):
            state.model = rho, d, b

    def extract(self, problem: Problem, state: _State) -> Model:
        """Return the model with feasible coefficients, the best intercept for the scores and few kernels."""
        rho, d, _ = state.model
        if state.attempts == 0:  # out of time
            return state.model
        pruning_tolerance = 0.9  # of tol: the gap within which a model with zeros is preferred to a better one without
        tol = pruning_tolerance * self.tol
        models = [sparsest(problem, candidate, d, tol) for candidate in refinements(problem, rho, d)]
        gaps = [problem.certificate(*model).relative_gap for model in models]
        best = models[int(np.argmin(gaps))]
        return best if min(gaps) <= self.tol else _refitted(problem, best, min(gaps))

    def newton_steps(self, state: _State) -> int:
        """Return the interior-point steps of all runs."""
        return state.steps


def _refitted(problem: Problem, model: Model, gap: float) -> Model:
    """Return the model or, if it has the smaller gap, the learner at the weights.

    Scores may be 1e6 times more sensitive than the dual value, which is all that the program minimizes.
    """
    d = model[1]
    closest_learner = 1e-12  # relative gap of a learner at the weights found, where the answer itself is not certified
    fit = fit_learner(problem, problem.stack.combine(d), tol=closest_learner)
    return (fit.rho, d, fit.b) if problem.certificate(fit.rho, d, fit.b).relative_gap < gap else model


def sparsest(problem: Problem, rho: Array, d: Array, tol: float) -> Model:
    """Return the model with fewest kernels among three, if it is certified to ``tol`` or hardly worse than the rest.

    The three: no kernel at all, the kernels not inactive, every kernel.
    """
    full = add_best_intercept(problem, rho, d)
    if not problem.regularizer.sparse:
        return full
    primal, dual = problem.primal(*full), problem.dual(rho)
    pruning_cost = 1.1  # factor on the gap that zeros may bring where it is above tol
    allowed = dual + max(tol * max(abs(primal), problem.tiny), pruning_cost * (primal - dual))
    for weights in (np.zeros_like(d), np.where(_inactive(problem, rho, d), 0.0, d)):
        model = add_best_intercept(problem, rho, weights)
        if problem.primal(*model) <= allowed:
            return model
    return full


def _inactive(problem: Problem, rho: Array, d: Array) -> Array:
    """Return which kernels have zero weight at the optimum, as far as can be told.

    There ``d_m > 0`` only where ``u_m`` is as large as it may be: of weight and slack, every relative to the largest
    value, the smaller one is zero.
    """
    squares = problem.dual_norms(rho) ** 2
    threshold = np.asarray(problem.regularizer.inactive_below, dtype=np.float64) ** 2
    bound = np.where(threshold > 0, threshold, float(squares.max()))
    shares = d * squares
    return shares * bound < (bound - squares) * float(shares.max())
