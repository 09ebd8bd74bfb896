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
) -> tuple[Array, Any, Array]:
    """Move the groups that are not zero toward the minimum of the quadratic, whose slopes at ``v`` are given.

    Solves ``(Z'DZ + Omega'') d = -gradient`` to a part of its first residual; blocks of columns precondition it. The
    intercepts are last.

    Returns
    -------
    step : (r,)
    shift : float or (T,) array
        Of the intercepts.
    image : (N,)
        ``Z step + shift``.
    """
    curve = PenaltyCurve.at(objective.penalty, v)
    inverses = [p.preconditioner(part) for p, part in zip(problems, objective.split(v), strict=True)]
    rank, none, totals = objective.rank, np.zeros(objective.n_free), objective.totals(bends.diagonal)
    totals[totals == 0] = np.inf

    def precondition(r: Array) -> Array:
        parts = [apply(part) for apply, part in zip(inverses, objective.split(r[:rank]), strict=True)]
        return np.concatenate([*parts, r[rank:] / totals])

    def spread(d: Array) -> Array:
        return objective.scores(d[:rank]) + objective.spread(d[rank:])

    def gather(rows: Array) -> Array:
        return np.append(objective.adjoint(rows) * curve.free, objective.totals(rows))

    r = -gather(slope) - np.append(curve.gradient, none)
    x, image = np.zeros_like(r), np.zeros_like(slope)
    z = precondition(r)
    d, size = z.copy(), float(r @ z)
    first = size
    for _ in range(MAX_GRADIENTS):
        if not size > RESIDUAL**2 * first:
            break
        ahead = spread(d)
        product = gather(bends.product(ahead)) + np.append(curve.product(d[:rank]), none)
        length = size / float(d @ product)
        x, image, r = x + length * d, image + length * ahead, r - length * product
        z = precondition(r)
        size, last = float(r @ z), size
        d = z + size / last * d
    along = line_minimum(objective.penalty, v, x[:rank], float(slope @ image), bends.square(image))
    return along * x[:rank], along * objective.intercepts(x[rank:]), along * image
