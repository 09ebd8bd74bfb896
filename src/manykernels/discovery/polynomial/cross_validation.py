"""Strengths chosen by cross-validation: of the lasso on the whole family, and of its adaptive second step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce

import numpy as np

from manykernels.discovery.polynomial.family import PolynomialFamily
from manykernels.discovery.polynomial.family_norm import family_norm
from manykernels.discovery.polynomial.lasso_path import PATH_EXACT, PathPoint, WeightedLasso, WeightedRows, adaptive
from manykernels.discovery.polynomial.product_bases import Index, RankOneBase
from manykernels.exceptions import InvalidInputError
from manykernels.objective.problem import Problem
from manykernels.solvers.fold import Fold
from manykernels.validation.arrays import Array

# Numbers that follow from no theorem: they decide the time, not what is certified.
SINGLE_DEGREE = 4  # up to which scores of products are in the range of float32: at most the sixth power of N
PATH_STEP = 10.0 ** (-0.25)  # from one strength to the next
PATH_LENGTH = 20  # strengths at most: five powers of ten
SECOND_STEP = 10.0 ** (-0.5)  # the same of the second step, whose penalties differ by orders of magnitude
PATH_PATIENCE = 4  # strengths without a smaller error, after which the path ends


@dataclass(frozen=True, eq=False)
class Tuned:
    """What cross-validation chose."""

    strength: float  # lambda, at which the squared penalty has the optimum that was chosen
    indices: tuple[Index, ...]  # products selected there on all samples
    # strength of the adaptive second step, as that of mu sum_m w_m |c_m|; None if it does not lower the error
    second_mu: float | None


LassoFold = Fold[WeightedLasso, WeightedRows]


def tuned_strengths(
    problem: Problem,
    family: PolynomialFamily,
    normalize: str | None,
    n_folds: int,
    with_second: bool,
    rng: np.random.Generator,
) -> Tuned:
    """Return strengths of smallest squared error, in the geometric mean, on samples that were left out."""
    base = family.base
    if not isinstance(base, RankOneBase) or family.p != 1 or problem.loss.name != "squared":
        raise InvalidInputError(
            "Cross-validation chooses the strength for the squared loss, p=1 and base kernels that are linear in one "
            f"column each; got loss={problem.loss.name!r}, p={family.p:g}. Give alpha, or search it with GridSearchCV."
        )
    if not 2 <= n_folds <= problem.n_samples:
        raise InvalidInputError(
            f"folds must lie between 2 and the number of samples, {problem.n_samples}, got {n_folds}."
        )

    rows = WeightedRows(base.columns, problem.y, problem.weight)

    def lasso_on(samples: WeightedRows) -> WeightedLasso:
        return lasso_of(samples, surveyed_family(family, samples.features, normalize), problem.fit_intercept)

    parts = np.array_split(rng.permutation(len(rows.y)), n_folds)
    whole = lasso_on(rows)
    if not whole.largest() > 0:
        return Tuned(float(rows.weight.sum()), (), None)
    others = [rows.take(np.setdiff1d(np.arange(len(rows.y)), part)) for part in parts]
    folds = [Fold(partial(lasso_on, own), rows.take(part)) for own, part in zip(others, parts, strict=True)]
    error, mu, points = best_strength(folds, whole.largest())
    point = reduce(lambda last, own: whole.at(own, last), _strengths(whole.largest(), mu), whole.empty())
    second = None
    if with_second:
        pairs = zip(folds, points, strict=True)
        steps = [Fold(partial(adaptive, fold.opened, path), fold.held_out) for fold, path in pairs]
        second_error, second_mu, _ = best_strength(steps, adaptive(whole, point).largest(), SECOND_STEP)
        second = second_mu if second_error < error else None
    penalty = float(whole.penalties(point.indices) @ np.abs(point.coefficients))
    return Tuned(mu / penalty, point.indices, second)


def _strengths(largest: float, least: float = 0.0, step: float = PATH_STEP) -> Array:
    """Return falling strengths, to the least one if it is given."""
    strengths: Array = largest * step ** np.arange(1.0, PATH_LENGTH + 1)
    return strengths[strengths >= least * (1 - 1e-9)]


def best_strength(
    folds: Sequence[LassoFold], largest: float, step: float = PATH_STEP
) -> tuple[float, float, list[PathPoint]]:
    """Return the smallest mean logarithm of errors, its strength for all samples, and the models of the folds there.

    Logarithms, because a fold may lack the samples to find the products at all, whatever the strength: its error, which
    can be thousands of times that of the others, would decide alone. Where errors are about equal the choice is that by
    their sum. The paths of the folds are followed side by side, and left when the error has not fallen for a while.
    """
    strengths, best = _strengths(largest, step=step), np.inf
    found: tuple[float, float, list[PathPoint]] = (np.inf, largest, [])
    total = sum(fold.held_out.weight.sum() for fold in folds)
    shares = [1.0 - fold.held_out.weight.sum() / total for fold in folds]
    since, enough = 0, float(np.log(PATH_EXACT))
    for mu in strengths:
        error = -float(np.mean([fold.tried(None, mu * own).scores[0] for fold, own in zip(folds, shares, strict=True)]))
        since += 1
        if error < best:
            points = [fold.model(None, mu * own) for fold, own in zip(folds, shares, strict=True)]
            best, found, since = error, (error, float(mu), points), 0
        if since >= PATH_PATIENCE or error <= enough:
            break
    return found


def surveyed_family(family: PolynomialFamily, features: Array, normalize: str | None) -> PolynomialFamily:
    """Return the family over other samples, its scores in single precision where that cannot leave its range.

    Surveys say what to solve for next; what is found is certified in float64. Powers as they are may underflow.
    """
    precision = np.float32 if normalize is not None and family.degree <= SINGLE_DEGREE else np.float64
    surveyed = RankOneBase(features, normalize, precision)
    return PolynomialFamily.of(surveyed, family.degree, family.degree_penalties, 1.0)


def lasso_of(samples: WeightedRows, family: PolynomialFamily, fit_intercept: bool) -> WeightedLasso:
    """Return the lasso on the family of some samples."""
    base = family.base
    assert isinstance(base, RankOneBase)

    def survey(rho: Array, wanted: int) -> tuple[tuple[Index, ...], Array]:
        norm = family_norm(family, rho, wanted)
        return norm.largest, np.sqrt(norm.scores)

    return WeightedLasso(
        samples.y, samples.weight, fit_intercept, base.features, family.penalties, survey, base.features_of
    )
