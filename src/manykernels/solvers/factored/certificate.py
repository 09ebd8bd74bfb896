"""The certificate of the exact kernels for a model in coefficients of factors: two bounds, nothing estimated."""

from dataclasses import dataclass, replace

import numpy as np

from manykernels.compiled import compiled
from manykernels.grams.loops import FAST, add_columns
from manykernels.grams.rows.vectors import RowVector, sums
from manykernels.objective.certificate import Certificate, KKTResiduals, growth, inner
from manykernels.objective.dual_norms import TIGHT, dual_exponent, tighten
from manykernels.objective.problem import Problem
from manykernels.objective.regularizers import Regularizer
from manykernels.solvers.factored.group_penalty import TINIEST
from manykernels.solvers.factored.objective import FactoredObjective, Point
from manykernels.solvers.linear_systems import ConjugateGradients
from manykernels.validation.arrays import Array

NOTICED = 1e-6  # relative change of the objective by rounding of functions that is told
# Of kernels in use, the share that may enter in one round: on groups of 1 to 20 columns and 200 to 5,000 rows shares of
# 1 to 4 where nearly all of the last ones stayed take about the same time as the two of `violators`
FEW_GROWTH = 1.0 / 3.0
NEGLIGIBLE = 0.05  # of the gap: kernels that together add less to the conjugate need not enter


@dataclass(frozen=True)
class DualBound:
    """A lower bound on the optimum of the exact kernels, with the norms."""

    value: float  # D(scale rho) with norms bounded from above: no model of the exact kernels is below it
    rho: Array  # (N,) or (N, T) float64: dual coefficients, feasible but not scaled
    norms: Array  # (M,) float64: upper bounds on u_m at rho
    low: Array  # (M,) float64: lower bounds
    scale: float
    conjugate: float  # of the loss, at scale rho
    evaluated: int  # kernels whose bound did not settle, evaluated exactly
    unsettled: int  # kernels whose bound still matters although the budget for exact evaluation is spent


def feasible(problem: Problem, slopes: Array, z: Array) -> tuple[Array, Array]:
    """Return dual coefficients from slopes of the loss at scores ``z``, and scores behind them.

    They are in the domain, of zero sum if there is an intercept, and orthogonal to what kernels without a penalty span.
    """
    if problem.unpenalized.size:
        return next(iter(problem.certificate_bound.candidates(-slopes, z)))
    return balance(problem, slopes), z


def balance(problem: Problem, slopes: Array) -> Array:
    """Return dual coefficients in the domain, and of zero sum if there is an intercept, from slopes of the loss."""
    return problem.bound.inside(problem.bound.balance(-slopes))


def dual_bound(
    problem: Problem,
    rho: Array,
    z: Array,
    quads: tuple[Array, Array],
    primal: float = np.inf,
    tol: float = 0.0,
) -> DualBound:
    """Return the lower bound that feasible dual coefficients prove; exact values where bounds do not settle.

    ``z`` are the scores of the slopes, ``quads`` the bounds from below and above on ``rho' K_m rho`` of a single pass.
    If the uncertainty of the bounds is relevant to a gap above ``tol``, the decisive norms are evaluated exactly.
    """
    low, high = (problem.penalized(np.sqrt(bound) / problem.penalties) for bound in quads)
    evaluated, unsettled = tighten(problem, rho, low, high)
    value, scale, conjugate = _dual_value(problem, rho, z, high)
    size, width, more = max(abs(primal), problem.tiny), TIGHT, 1
    while more and np.isfinite(primal) and primal - value > tol * size:  # at most one evaluation a kernel
        width = min(width, 0.5 * (primal - value) / size)
        more, unsettled = tighten(problem, rho, low, high, width, evaluated)
        evaluated += more
        value, scale, conjugate = _dual_value(problem, rho, z, high) if more else (value, scale, conjugate)
    return DualBound(value, rho, high, low, scale, conjugate, evaluated, unsettled)


def _dual_value(problem: Problem, rho: Array, z: Array, norms: Array) -> tuple[float, float, float]:
    """Return the dual value at upper bounds on norms, the feasibility scale of coefficients, and the conjugate."""
    scale = problem.regularizer.dual_scale(norms)
    conjugate = problem.bound.conjugate_at(rho, scale, z)
    if problem.unpenalized.size and not problem.certificate_bound.proves(rho):
        return -np.inf, scale, conjugate
    return -conjugate - problem.regularizer.conjugate(scale * norms), scale, conjugate


def shares(regularizer: Regularizer, u: Array) -> Array:
    """Return the part of every kernel in the conjugate, for penalties with dense weights, (M,)."""
    parts = (u / max(float(u.max()), 1e-300)) ** dual_exponent(regularizer)
    if regularizer.curve is not None and regularizer.curve.elastic:
        parts = parts / regularizer.curve.ridge
    return parts / max(float(parts.sum()), 1e-300)


def correctable(objective: FactoredObjective) -> bool:
    """Return whether `correct` supports the problem: a single output, weighted norms, columns."""
    penalty = objective.penalty
    if objective.joint_columns is None or objective.n_outputs > 1 or not objective.constant or penalty.shape is None:
        return False
    return not (penalty.coned or penalty.strength or penalty.curvature.any()) and bool(penalty.linear.all())


@compiled(fastmath=FAST)
def group_images(columns: Array, places: Array, starts: Array, chosen: Array, v: Array, out: Array) -> None:
    """Add the images of coefficients of every chosen group to a row of ``out`` (g, N)."""
    for k in range(chosen.size):
        low, high = starts[chosen[k]], starts[chosen[k] + 1]
        add_columns(columns, places[low:high], v[low:high], out[k])


def correct(
    objective: FactoredObjective, point: Point, rho: Array, adjoint: Array, enough: float
) -> tuple[Array, Array, float, Point] | None:
    """Return dual coefficients of a squared loss that are more nearly feasible, their value, and the point behind them.

    Scaling by the worst group costs a gap linear in the violation, while the primal value is quadratic in the
    violation. With ``c_m = Z_m g_m / ||g_m||`` for the products ``g_m`` of the nonzero or violating groups with limits
    ``a_m``, centered for an intercept, ``rho - W C'l`` has all norms at their limits to first order, at minimal
    distance in the curvature ``W``:

        C W C'l = ||g_m|| - a_m

    by conjugate gradients. These are the slopes where the sizes of the groups have grown by ``l``: a Newton step in
    sizes, of which the penalty is linear. From there once more, until the value is ``enough``. Whatever comes out is
    feasible once scaled. Returns also the factors' products. None where penalties or factors are of another kind.
    """
    if not correctable(objective):
        return None
    penalty, columns, best = objective.penalty, objective.joint_columns, None
    assert columns is not None
    weights, alive = objective.loss.curvature(point.z).diagonal, penalty.norms(point.v) > 0
    for _ in range(3):
        norms = penalty.norms(adjoint)
        chosen = np.flatnonzero(alive | (norms > penalty.linear))
        unit = adjoint / np.repeat(np.maximum(norms, TINIEST), columns.ranks)
        C = np.zeros((len(chosen), len(rho)))
        group_images(columns.columns, columns.places, columns.starts, chosen, columns.scale * unit, C)
        means = C @ weights / weights.sum() if objective.n_free else np.zeros(len(chosen))
        C -= means[:, None]
        grown = np.zeros(len(norms))
        grown[chosen], change = first_order(C, weights, (norms - penalty.linear)[chosen])
        v = point.v + np.repeat(grown, columns.ranks) * unit
        point = Point(v, point.b - float(means @ grown[chosen]), point.z + change)
        rho = rho - weights * change
        adjoint = objective.adjoint(rho)
        value = objective.dual_value(point.z, rho, adjoint)
        if best is not None and not value > best[2]:
            break
        best = rho, adjoint, value, point
        if value >= enough:
            break
    return best


def first_order(C: Array, weights: Array, right: Array) -> tuple[Array, Array]:
    """Return ``l`` with ``C W C'l = right``, about, by conjugate gradients, and ``C'l``; C is (g, N)."""
    found = ConjugateGradients(lambda d: C @ (weights * (d @ C)), right).solve(40, 0.01)
    return found, found @ C


def primal_bound(problem: Problem, objective: FactoredObjective, point: Point) -> tuple[float, Array]:
    """Return an upper bound on ``P`` of the same function in the exact kernels, and the block norms (g,)."""
    squares = scores = np.zeros(len(objective.kernels))
    if objective.joint_columns is None:  # columns of the table are all that there is of their kernels
        parts = objective.split(point.v)
        bounds = [operator.excess(v) for operator, v in zip(objective.operators, parts, strict=True)]
        squares, scores = (np.concatenate(part) for part in zip(*bounds, strict=True))
    norms = problem.penalties[objective.kernels] * np.sqrt(objective.penalty.norms(point.v) ** 2 + squares)
    loss = problem.bound.largest(point.z, float(scores.sum()))
    free = problem.unpenalized
    seen = np.where(np.isin(objective.kernels, free), 0.0, norms) if free.size else norms
    return loss + problem.regularizer.take(objective.kernels).value(seen), norms


def shows_rounding(problem: Problem, z: Array, terms: float, primal: float) -> bool:
    """Return whether the loss of a model is sensitive to rounding of terms of a size."""
    error = float(np.sqrt(np.finfo(np.float64).eps)) * terms
    moved = problem.bound.largest(z, problem.constant_scores(0.0) + error) - problem.bound.value(z)
    return moved > NOTICED * max(abs(primal), problem.tiny)


def certificate_of(problem: Problem, primal: float, best: DualBound, z: Array) -> Certificate:
    """Return the certificate of the exact kernels for a model with the scores, and the best lower bound so far."""
    rho = best.scale * best.rho
    size = max(abs(primal), problem.tiny)
    if isinstance(rho, RowVector):  # one reading of all rows
        losses, products, signed, sizes, terms = sums(problem.bound.parts(z), rho * z, rho, abs(rho), abs(rho * z))
    else:
        losses, products = problem.empirical_loss(z), inner(rho, z)
        signed, sizes = float(np.abs(rho.sum(axis=0)).max()), float(np.abs(rho).sum())
        terms = float(np.abs(rho * z).sum())
    fitting = losses + best.conjugate + products
    kkt = KKTResiduals(
        stationarity=fitting / size,
        complementarity=(primal - best.value - fitting) / size,
        box=0.0,
        intercept=abs(signed) / sizes if problem.fit_intercept and sizes > 0 else 0.0,
        scaling=1.0 - best.scale,
    )
    rounding = growth(problem.n_targets * problem.n_samples) * (abs(primal) + abs(best.value) + terms)
    return replace(Certificate.from_values(primal, best.value, size, kkt, rounding), dual_norms=best.norms)


# Which kernels enter a working set, and whether kernels or finer factors are what the gap asks for.


def selects(regularizer: Regularizer) -> bool:
    """Return whether kernels below a threshold have zero weight, so kernels above are missing."""
    return regularizer.sparse


def violators(
    bound: DualBound,
    used: Array,
    neighbors: Array,
    limit: Array,
    margin: float,
    ahead: Array | float = 0.0,
    *,
    stayed: bool = False,
) -> Array:
    """Return kernels above the threshold that are local maxima over widths, or any if no local maximum is above.

    For dual coefficients of a larger strength, norms may grow by ``ahead`` until the optimum is reached: the strong
    rule (Tibshirani et al., "Strong rules for discarding predictors in lasso-type problems", Journal of the Royal
    Statistical Society B 74 (2012)) adds kernels that may reach the threshold; the next pass finds the rest. With known
    growth of every norm along a path, ``ahead`` is set per kernel, usually far below the rule. The number of entering
    kernels is limited by the number in use.
    """
    u = bound.norms
    candidate = (u > limit * margin - ahead) & (bound.low > limit - ahead)
    candidate[used] = False
    chosen = np.flatnonzero(candidate)
    if not len(chosen):
        return chosen
    beside = neighbors[chosen]
    peaks = chosen[(u[chosen] >= np.where(beside >= 0, u[beside], -1.0).max(axis=1))]
    chosen = peaks if len(peaks) else chosen
    share = 1.0 if np.any(ahead != 0.0) else 2.0 if stayed else FEW_GROWTH
    return largest(chosen, u, share * len(used))


def contributors(regularizer: Regularizer, bound: DualBound, used: Array, gap: float) -> Array:
    """Return unused kernels with a joint part of the conjugate relevant to the gap."""
    parts, value = shares(regularizer, bound.norms), regularizer.conjugate(bound.norms)
    parts = np.where(parts > 0, value * np.maximum(parts, 1e-300), 0.0)  # the conjugate may be infinite
    parts[used] = 0.0
    order = np.argsort(-parts, kind="stable")
    left = np.cumsum(parts[order][::-1])[::-1]
    chosen = order[(left > NEGLIGIBLE * gap) & (parts[order] > 0)]
    return largest(chosen, bound.norms, FEW_GROWTH * len(used))


def largest(chosen: Array, u: Array, most: float) -> Array:
    """Return the kernels with the largest dual norms, up to the number per round."""
    return chosen[np.argsort(-u[chosen], kind="stable")[: max(16, int(most))]]


def gap_of_factors(regularizer: Regularizer, bound: DualBound, used: Array, entering: Array, limit: Array) -> bool:
    """Return whether kernels in use violate the threshold about as much as any: their factors leave too much out."""
    if not selects(regularizer):
        parts = shares(regularizer, bound.norms)
        return bool(parts[entering].sum() < NEGLIGIBLE)
    excess = (bound.low - limit)[used].max(initial=-np.inf)
    return bool(excess > 0.5 * (bound.norms - limit).max())
