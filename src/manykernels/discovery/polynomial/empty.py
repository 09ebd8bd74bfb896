"""Strengths at which no product of a polynomial family has anything to gain, of a target and of it in random order.

With ``rho`` the negative gradient of the losses at the best constant, ``L`` the loss there and ``V`` the dual norm over
the family (`family_norm.py`), to first order a model gains at most ``V(rho) / (2 lambda)``, which is ``L`` at

    lambda = V(rho) / (2 L).

Of noise, that is about the same whatever the target: the geometric mean over some permutations of ``rho``.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from manykernels.discovery.base import SearchProblem
from manykernels.discovery.polynomial.discovery import base_parts, product_base
from manykernels.discovery.polynomial.family import PolynomialFamily
from manykernels.discovery.polynomial.family_norm import BUDGET, family_norm, norm_cost
from manykernels.discovery.polynomial.product_bases import check_normalize
from manykernels.kernels import KernelSpec
from manykernels.kernels.specs.interaction import Part


def empty_strength(
    problem: SearchProblem,
    seed: int | None = None,
    *,
    degree: int = 3,
    p: float = 1.0,
    degree_penalties: ArrayLike | None = None,
    base: KernelSpec | Sequence[Part] | None = None,
    normalize: str | None = "power",
) -> float:
    """Return the strength at which no product has anything to gain to first order.

    Parameters
    ----------
    problem : SearchProblem
        The strength is not read.
    seed : int or None
        Of random orders of the target, of whose strengths the geometric mean is returned; None takes the target
        unchanged. Fewer orders are drawn of families whose norm takes long.
    degree, p, degree_penalties, base, normalize
        As in `discover_polynomial`.

    Returns
    -------
    float
        The total weight where the target or all products are constant.

    Raises
    ------
    InvalidInputError
        For an invalid parameter, or an overflow of products of the columns.
    """
    parts = base_parts(problem.points, base)
    family = PolynomialFamily.create(
        product_base(problem.points, parts, check_normalize(normalize)), degree, degree_penalties, p
    )
    shell = problem.replace_stack(family.base.stack([()]), family.regularizer(1.0), family.penalties([()]))
    rho, loss = shell.empty_coefficients, shell.empirical_loss(shell.constant_scores(shell.best_constant))
    if shell.constant_target or not loss > 0:
        return float(shell.total_weight)
    size = float(np.abs(rho).max())
    rho = rho / size  # squares of targets of 1e160 would be beyond the range of float64
    if seed is None:
        norms = [family_norm(family, rho).norm]
    else:
        rng, cost = np.random.default_rng(seed), max(norm_cost(family), 1.0)
        most_orders, fewest_orders = 19, 3  # of a target; norms over large families differ little from order to order
        n_orders = int(np.clip(BUDGET / cost, fewest_orders, most_orders))
        free = rho - rho.mean()  # a constant is as large in every order, and no noise
        norms = [family_norm(family, free[rng.permutation(len(free))]).norm for _ in range(n_orders)]
    if not min(norms) > 0:
        return float(shell.total_weight)
    return float(np.exp(np.mean(np.log(norms))) * (size / np.sqrt(2.0 * loss)) ** 2)
