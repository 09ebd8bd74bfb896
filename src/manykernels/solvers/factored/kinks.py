"""Losses with kinks on factors: an interior point in the samples, the exact penalty in the groups.

    minimize_{v, b}  sum_i s_i l(y_i, z_i) + Omega(||v_1||, ..., ||v_g||),      z = Z v + b

Dual coefficients ``rho`` stay inside their box, with multipliers for the ends (`gram.sample_variables.BoxSamples`); the
imply scores, of which a barrier parameter makes a curve in place of a kink:

    dz = shift - diagonal * drho        at the scores z(rho) that the multipliers imply

The remainder of a Newton step is a quadratic with the penalty, that of any smooth loss, of curvature ``1 / diagonal``:

    minimize_{w, b}  sum_i (z_i - z(rho)_i - shift_i)^2 / (2 diagonal_i) - rho'z + Omega(w),      z = Z w + b
    drho = (z(rho) + shift - z) / diagonal

As in Mehrotra's method, a single Hessian serves a predictor, for the target of the complementarity products, and a
corrector with second-order terms. After short steps, further directions equalize the products
(`gram.weight_variables.nearer`). About a dozen steps suffice, against several dozen for a smoothed loss, since
curvatures jump at kinks. With several outputs every score entry is a sample with a common step length: the corrections
save a third to a half of the steps.
"""

import time
from copy import copy
from typing import Any

import numpy as np

from manykernels.objective.losses.curvature import SampleCurvature
from manykernels.objective.problem import Problem
from manykernels.solvers.factored.newton import NEWTON_STEPS, NewtonFit, avoids_hessian, first_rows
from manykernels.solvers.factored.objective import FactoredObjective, Point
from manykernels.solvers.factored.quadratic_bins import predict_sweep_cost
from manykernels.solvers.factored.quadratic_formed import FormedQuadratic
from manykernels.solvers.factored.quadratic_rows import descends
from manykernels.solvers.factored.state import FIRST_SMOOTHING, State
from manykernels.solvers.gram.sample_variables import BoxSamples, paired_samples
from manykernels.solvers.gram.start import interior_point
from manykernels.validation.arrays import Array

CORRECTIONS_OF_STEPS = 3  # of a direction, each a solution on the Hessian of its step


def takes_interior(objective: FactoredObjective) -> bool:
    """Whether the steps apply, and are predicted to take less than those of a smoothed loss.

    Requires local vectors, and Hessians summed over all rows; for many rows per coefficient, a smoothed loss with
    sweeps over rounded rows is cheaper.
    """
    problem, rows = objective.problem, first_rows(objective)
    if problem.loss.smooth or not isinstance(problem.y, np.ndarray) or rows < problem.n_samples:
        return False
    if avoids_hessian(objective) or descends(objective, SampleCurvature(problem.weight), rows):
        return False
    # On 1,000 to 20,000 rows a step took as long as this many products of a Hessian, beside its own.
    base = 6e7 + 3e7 * objective.n_outputs
    smoothed = base + min(rows * objective.products, predict_sweep_cost(objective))
    # With few rows between two kinks curvatures jump. Hinge, epsilon-insensitive and quantile losses, 40 kernels, own
    # and shared weights, took so many times the steps from an interior point, which are 18: 3.1 at 5 rows for each
    # coefficient, 2.4 at 10, 2.1 at 20, 1.2 at 45 and 0.9 at 95.
    steps = 150.0 * np.sqrt(objective.rank / (objective.n_outputs * rows))
    return bool(18.0 * (base + rows * objective.products) <= steps * smoothed)


def keeps_kinks(state: State) -> bool:
    """Return whether a loss is solved without smoothing of the kinks, as at the start."""
    assert state.objective is not None
    if state.smooths or np.min(state.mu) < FIRST_SMOOTHING:
        return False
    return state.samples is not None or takes_interior(state.objective)


def fit_kinked(state: State, gap: float, tol: float, deadline: float) -> NewtonFit:
    """Take steps on the working set of a state with a certified gap, and keep the sample variables."""
    assert state.objective is not None
    samples = samples_at(state.objective.problem, state.slopes, gap, state.samples)
    fit = minimize_kinked(state.objective, state.point, samples, tol, NEWTON_STEPS, deadline)
    state.samples = fit.samples
    return fit


def samples_at(problem: Any, slopes: Array, gap: float, before: BoxSamples | None) -> BoxSamples:
    """Return the variables of the samples at slopes of the loss, or earlier variables widened by a gap."""
    own = problem.bound.entries
    if before is None or not (np.array_equal(before.y, own.y) and np.array_equal(before.weight, own.weight)):
        pairs = (4 if own.loss.kink else 2) * own.y.size
        found: Any = paired_samples(problem, interior_point(problem, -slopes, 0.4), gap / pairs)
        return found
    samples = copy(before)  # whose arrays are replaced, never written to
    own = samples.complementarity() / samples.n_pairs
    samples.recenter(max(gap / samples.n_pairs, own))
    return samples


def minimize_kinked(
    objective: FactoredObjective,
    point: Point,
    samples: BoxSamples,
    tol: float,
    max_steps: int,
    deadline: float = np.inf,
) -> NewtonFit:
    """Take steps from a point, and samples that move along, until the gap on the factors is at most ``tol``.

    The point returned is the best that a step ended at or aimed at: only the latter has exact zeros.
    """
    problem = objective.problem
    best, value, proved, gap, useless = point, objective.value(point), -np.inf, np.inf, 0
    for step in range(max_steps + 1):
        rho = objective.problem.bound.balance(rows_of(samples.rho, problem))
        adjoint = objective.adjoint(rho)
        if (found := objective.dual_value(point.z, rho, adjoint)) > proved or step == 0:
            proved, dual = found, (rho, adjoint, point.z)
        last, gap = gap, min(gap, value - proved)
        useless = 0 if gap < last else useless + 1
        if gap <= tol or step == max_steps or useless >= 10 or time.perf_counter() > deadline:
            break
        aim, share, samples = _step(objective, point, samples, gap, tol)
        point = Point(*(old + share * (new - old) for old, new in _pairs(point, aim)))
        for reached in (aim, point):
            if (own := objective.value(reached)) < value:
                best, value = reached, own
    return NewtonFit(best, -rho, gap, step, *dual, samples)


def rows_of(entries: Array, problem: Problem) -> Array:
    """Return values of samples for every entry of scores, output by output."""
    return entries.reshape(problem.y.T.shape).T


def _pairs(point: Point, aim: Point) -> Any:
    return zip((point.v, point.b, point.z), (aim.v, aim.b, aim.z), strict=True)


def _step(
    objective: FactoredObjective, point: Point, samples: BoxSamples, gap: float, tol: float
) -> tuple[Point, float, BoxSamples]:
    """Move the samples; return the target point of the step, the step length, and the moved samples."""
    problem, barrier = objective.problem, samples.complementarity() / samples.n_pairs
    tracked, rho = rows_of(samples.scores(), problem), rows_of(samples.rho, problem)
    diagonal, shift = samples.linearize(0.0)
    weights = rows_of(1.0 / diagonal, problem)
    model = FormedQuadratic.create(objective, SampleCurvature(weights), len(weights))

    def direction(start: Point, shift: Array) -> tuple[Point, Array]:
        ahead = tracked + rows_of(shift, problem)
        slopes = weights * (start.z - ahead) - rho
        if objective.n_free:  # the model begins where intercepts are at rest
            move = objective.intercepts(-objective.totals(slopes) / objective.totals(weights))
            start, slopes = Point(start.v, start.b + move, start.z + move), slopes + weights * move
        v, move = model.target(objective, start, objective.adjoint(slopes), 1e-3)
        end = Point(v, start.b + move, start.z + objective.scores(v - start.v) + move)
        return end, (weights * (ahead - end.z)).T.ravel()

    aim, drho = direction(point, shift)
    after = samples.complementarity_after(*samples.set_direction(drho))
    share = min(max(after / (barrier * samples.n_pairs), 0.0), 1.0) ** 2
    near = gap < 0.1 * abs(objective.value(point))
    lowest = max((2e-2 if near else 1e-3) * gap, 0.01 * tol)
    target = max(share * barrier, lowest / samples.n_pairs)
    aim, drho = direction(aim, samples.linearize(target)[1])
    steps = samples.set_direction(drho)
    # For as long as the step is short, and each lengthens it in the two variables together. Hinge of five classes that
    # share weights, 40 kernels, with a target of the square of what the predictor leaves in place of the cube: 44 steps
    # became 25 on 10,000 rows, 72 became 47 on 20,000.
    for _ in range(CORRECTIONS_OF_STEPS):
        if min(steps) >= 0.9:
            break
        tried = copy(samples)
        reached, drho = direction(aim, tried.correct(*(min(1.0, step + 0.3) for step in steps))[1])
        longer = tried.set_direction(drho)
        if sum(longer) < sum(steps) + 0.1:
            break
        samples, aim, steps = tried, reached, longer
    fraction = max(0.95, 1.0 - gap / max(abs(objective.value(point)), problem.tiny))
    primal, dual = (most if most == 1.0 else fraction * most for most in steps)
    samples.move(primal, dual)
    return aim, dual, samples
