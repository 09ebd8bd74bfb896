"""Where a search at ``p = 1`` begins: the products of the lasso path down to its strength."""

from __future__ import annotations

import numpy as np

from manykernels.discovery.polynomial.bases.product_bases import Index
from manykernels.discovery.polynomial.bases.rank_one_base import RankOneBase
from manykernels.discovery.polynomial.family import PolynomialFamily
from manykernels.discovery.polynomial.path.cross_validation import Rows, fold_of, surveyed_family
from manykernels.discovery.polynomial.tuning import FULL_SHARE, PATH_LENGTH, SECOND_STEP
from manykernels.objective.problem import Problem


def can_follow(problem: Problem, family: PolynomialFamily) -> bool:
    """Return whether the problem is a lasso on features that can be made."""
    return isinstance(family.base, RankOneBase) and family.p == 1 and problem.loss.name == "squared"


def first_products(problem: Problem, family: PolynomialFamily, largest: float, max_kernels: int) -> tuple[Index, ...]:
    """Return the products selected at the strength of the problem, or where half of ``max_kernels`` are.

    ``largest`` is the strength of the lasso above which nothing is selected.
    """
    base = family.base
    assert isinstance(base, RankOneBase)
    rows, strength = Rows(base.columns, problem.y, problem.weight), problem.regularizer.strength
    nobody = rows.take(np.zeros(0, dtype=int))
    fold = fold_of(
        rows, nobody, lambda features: surveyed_family(family, features, base.normalize), problem.fit_intercept
    )
    strengths = largest * SECOND_STEP ** np.arange(1.0, PATH_LENGTH + 1)
    found: tuple[Index, ...] = ()
    for mu, point in zip(strengths, fold.follow(strengths), strict=True):
        found = point.indices
        size = float(fold.problem.penalties(found) @ np.abs(point.coefficients))
        if mu <= strength * size or len(found) >= FULL_SHARE * max_kernels:
            break
    return found
