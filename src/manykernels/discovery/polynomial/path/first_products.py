"""Where a search at ``p = 1`` begins: the products of the lasso path down to its strength."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from manykernels.discovery.polynomial.bases.product_bases import Index
from manykernels.discovery.polynomial.bases.rank_one_base import RankOneBase
from manykernels.discovery.polynomial.family import PolynomialFamily
from manykernels.discovery.polynomial.family_norm import FamilyNorm
from manykernels.discovery.polynomial.path.cross_validation import Rows, fold_of, surveyed_family
from manykernels.discovery.polynomial.path.lasso_path import follow
from manykernels.discovery.polynomial.tuning import FULL_SHARE, PATH_LENGTH, SECOND_STEP
from manykernels.objective.problem import Problem


def can_follow(problem: Problem, family: PolynomialFamily) -> bool:
    """Return whether the problem is a lasso on features that can be made."""
    return isinstance(family.base, RankOneBase) and family.p == 1 and problem.loss.name == "squared"


def first_products(problem: Problem, family: PolynomialFamily, norm: FamilyNorm, max_kernels: int) -> tuple[Index, ...]:
    """Return the products selected at the strength of the problem, or where half of ``max_kernels`` are.

    ``norm`` is that of the empty model: its root is the strength of the lasso above which nothing is selected.
    """
    base = family.base
    assert isinstance(base, RankOneBase)
    rows, strength = Rows(base.columns, problem.y, problem.weight), problem.regularizer.strength
    nobody = rows.take(np.zeros(0, dtype=int))
    fold = fold_of(
        rows, nobody, lambda features: surveyed_family(family, features, base.normalize), problem.fit_intercept
    )
    found: tuple[Index, ...] = ()
    mu = size = 0.0

    def falling() -> Iterator[float]:
        nonlocal mu
        mu = float(np.sqrt(norm.norm))
        for _ in range(PATH_LENGTH):
            # The strength that is looked for is that of the norm times ``strength``, and norms grow on the way.
            mu = max(SECOND_STEP * mu, strength * size)
            yield mu

    for point in follow(fold.problem, fold.survey, falling(), (norm.largest, np.sqrt(norm.scores))):
        found = point.indices
        size = float(fold.problem.penalties(found) @ np.abs(point.coefficients))
        if mu <= strength * size or len(found) >= FULL_SHARE * max_kernels:
            break
    return found
