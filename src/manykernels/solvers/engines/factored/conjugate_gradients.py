"""Conjugate gradients on the groups that are not zero: columns that act on each other move together."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from manykernels.solvers.engines.factored.curvatures import Bends
from manykernels.solvers.engines.factored.group_problem import GroupProblem, line_minimum
from manykernels.solvers.engines.factored.objective import FactoredObjective
from manykernels.solvers.engines.factored.penalty_curve import PenaltyCurve
from manykernels.solvers.engines.factored.tuning import MAX_GRADIENTS, RESIDUAL

Array = NDArray[Any]


def conjugate_step(
    objective: FactoredObjective, v: Array, slope: Array, bends: Bends, problems: list[GroupProblem]
) -> tuple[Array, float, Array]:
    """Move the groups that are not zero toward the minimum of the quadratic, whose slopes at ``v`` are given.

    Solves ``(Z'DZ + Omega'') d = -gradient`` to a part of its first residual; blocks of columns precondition it. The
    intercept is one coordinate more.

    Returns
    -------
    step : (r,)
    shift : float
        Of the intercept.
    image : (N,)
        ``Z step + shift``.
    """
    curve = PenaltyCurve.at(objective.penalty, v)
    inverses = [p.preconditioner(part) for p, part in zip(problems, objective.split(v), strict=True)]
    free, total = objective.problem.fit_intercept, bends.total

    def precondition(r: Array) -> Array:
        parts = [apply(part) for apply, part in zip(inverses, objective.split(r[:-1]), strict=True)]
        return np.append(np.concatenate(parts), r[-1] / total if free else 0.0)

    def spread(d: Array) -> Array:
        return objective.scores(d[:-1]) + d[-1]

    def gather(rows: Array) -> Array:
        return np.append(objective.adjoint(rows) * curve.free, rows.sum() if free else 0.0)

    r = -gather(slope) - np.append(curve.gradient, 0.0)
    x, image = np.zeros_like(r), np.zeros_like(slope)
    z = precondition(r)
    d, size = z.copy(), float(r @ z)
    first = size
    for _ in range(MAX_GRADIENTS):
        if not size > RESIDUAL**2 * first:
            break
        ahead = spread(d)
        product = gather(bends.product(ahead)) + np.append(curve.product(d[:-1]), 0.0)
        length = size / float(d @ product)
        x, image, r = x + length * d, image + length * ahead, r - length * product
        z = precondition(r)
        size, last = float(r @ z), size
        d = z + size / last * d
    along = line_minimum(objective.penalty, v, x[:-1], float(slope @ image), bends.square(image))
    return along * x[:-1], along * float(x[-1]), along * image
