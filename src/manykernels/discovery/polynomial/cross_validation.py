"""Strengths chosen by cross-validation: of the lasso on the whole family, and of its adaptive second step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from manykernels.discovery.polynomial.family import PolynomialFamily
from manykernels.discovery.polynomial.family_norm import family_norm
from manykernels.discovery.polynomial.lasso_path import PathPoint, WeightedLasso, adaptive
from manykernels.discovery.polynomial.product_bases import Index, RankOneBase
from manykernels.exceptions import InvalidInputError
from manykernels.objective.problem import Problem
from manykernels.validation.arrays import Array

# Numbers that follow from no theorem: they decide the time, not what is certified.
SINGLE_DEGREE = 4  # up to which scores of products are in the range of float32: at most the sixth power of N
PATH_STEP = 10.0 ** (-0.25)  # from one strength to the next
PATH_LENGTH = 20  # strengths at most: five powers of ten
SECOND_STEP = 10.0 ** (-0.5)  # the same of the second step, whose penalties differ by orders of magnitude
PATH_PATIENCE = 4  # strengths without a smaller error, after which the path ends
PATH_EXACT = 1e-13  # of the squares of the target: an error at which there is nothing left to choose


@dataclass(frozen=True, eq=False)
class WeightedRows:
    """Some samples: features of the base kernels in rows, target and sample weights."""

    features: Array  # (r, N) float64
    y: Array  # (N,) float64
    weight: Array  # (N,) float64

    def take(self, chosen: Array) -> WeightedRows:
        """Return some of the samples."""
        return WeightedRows(np.ascontiguousarray(self.features[:, chosen]), self.y[chosen], self.weight[chosen])


@dataclass(frozen=True, eq=False)
class Tuned:
    """What cross-validation chose."""

    strength: float  # lambda, at which the squared penalty has the optimum that was chosen
    indices: tuple[Index, ...]  # products selected there on all samples
    # strength of the adaptive second step, as that of mu sum_m w_m |c_m|; None if it does not lower the error
    second_mu: float | None


Fold = tuple[WeightedLasso, WeightedRows]  # the lasso on some samples, and those that are held out


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
    folds = [(lasso_on(rows.take(np.setdiff1d(np.arange(len(rows.y)), part))), rows.take(part)) for part in parts]
    error, mu, points = best_strength(folds, whole.largest())
    *_, point = whole.follow(_strengths(whole.largest(), mu))
    second = None
    if with_second:
        steps = [(adaptive(lasso, path), others) for (lasso, others), path in zip(folds, points, strict=True)]
        second_error, second_mu, _ = best_strength(steps, adaptive(whole, point).largest(), SECOND_STEP)
        second = second_mu if second_error < error else None
    penalty = float(whole.penalties(point.indices) @ np.abs(point.coefficients))
    return Tuned(mu / penalty, point.indices, second)


def _strengths(largest: float, least: float = 0.0, step: float = PATH_STEP) -> Array:
    """Return falling strengths, to the least one if it is given."""
    strengths: Array = largest * step ** np.arange(1.0, PATH_LENGTH + 1)
    return strengths[strengths >= least * (1 - 1e-9)]


def best_strength(
    folds: Sequence[Fold], largest: float, step: float = PATH_STEP
) -> tuple[float, float, list[PathPoint]]:
    """Return the smallest mean logarithm of errors, its strength for all samples, and the models of the folds there.

    Logarithms, because a fold may lack the samples to find the products at all, whatever the strength: its error, which
    can be thousands of times that of the others, would decide alone. Where errors are about equal the choice is that by
    their sum. The paths of the folds are followed side by side, and left when the error has not fallen for a while.
    """
    strengths, best = _strengths(largest, step=step), np.inf
    found: tuple[float, float, list[PathPoint]] = (np.inf, largest, [])
    total = sum(others.weight.sum() for _, others in folds)
    paths = [lasso.follow(strengths * (1.0 - others.weight.sum() / total)) for lasso, others in folds]
    since, enough = 0, float(np.log(PATH_EXACT))
    for mu, points in zip(strengths, zip(*paths, strict=True), strict=False):
        error = float(np.mean([log_share(*fold, point) for fold, point in zip(folds, points, strict=True)]))
        since += 1
        if error < best:
            best, found, since = error, (error, float(mu), list(points)), 0
        if since >= PATH_PATIENCE or error <= enough:
            break
    return found


def log_share(lasso: WeightedLasso, others: WeightedRows, point: PathPoint) -> float:
    """Return the logarithm of the error's share of the spread of held-out samples around the mean of the others.

    Below ``PATH_EXACT`` there is nothing left to choose.
    """
    error = float(others.weight @ (others.y - lasso.scores(point, others.features)) ** 2)
    spread = float(others.weight @ (others.y - lasso.mean(lasso.y)) ** 2)
    return float(np.log(max(error / max(spread, np.finfo(float).tiny), PATH_EXACT)))


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
