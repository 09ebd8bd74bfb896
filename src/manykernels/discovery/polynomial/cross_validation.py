"""Strengths chosen by cross-validation: of the lasso on the whole family, and of its adaptive second step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from manykernels.discovery.polynomial.family import PolynomialFamily
from manykernels.discovery.polynomial.family_norm import family_norm
from manykernels.discovery.polynomial.lasso_path import PathPoint, Survey, WeightedLasso, adaptive, follow
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


class Features(Protocol):
    """What makes features of products for other samples."""

    def features_of(self, values: Array, indices: Sequence[Index]) -> Array:
        """Return the products of columns in rows, (m, n)."""
        ...


@dataclass(frozen=True, eq=False)
class PathFold:
    """The lasso on some samples and its error on the others, which may be none."""

    base: Features
    problem: WeightedLasso
    survey: Survey
    others: WeightedRows

    def error(self, point: PathPoint) -> float:
        """Return the sum of squared errors on the other samples."""
        features = self.base.features_of(self.others.features, point.indices)
        scores = point.coefficients @ features + point.intercept
        return float(self.others.weight @ (self.others.y - scores) ** 2)

    def log_share(self, point: PathPoint) -> float:
        """Return the logarithm of the error's share of the spread around the mean of these samples.

        Below ``PATH_EXACT`` there is nothing left to choose.
        """
        others = self.others
        spread = float(others.weight @ (others.y - self.problem.mean(self.problem.y)) ** 2)
        return float(np.log(max(self.error(point) / max(spread, np.finfo(float).tiny), PATH_EXACT)))

    def second(self, point: PathPoint) -> PathFold:
        """Return the adaptive second step."""
        return PathFold(self.base, *adaptive(self.problem, point), self.others)

    def largest(self) -> float:
        """Return the strength above which nothing is selected."""
        scores = self.survey(self.problem.solved(np.inf, (), np.zeros(0))[2], 1)[1]
        return float(scores.max(initial=0.0))

    def follow(self, strengths: Iterable[float]) -> Iterator[PathPoint]:
        """Yield the path."""
        return follow(self.problem, self.survey, strengths)


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

    def family_of(features: Array) -> PolynomialFamily:
        return surveyed_family(family, features, normalize)

    rows, fit_intercept = WeightedRows(base.columns, problem.y, problem.weight), problem.fit_intercept
    parts = np.array_split(rng.permutation(len(rows.y)), n_folds)
    everything = np.arange(len(rows.y))
    whole = fold_of(rows, rows.take(np.zeros(0, dtype=int)), family_of, fit_intercept)
    if not whole.largest() > 0:
        return Tuned(float(rows.weight.sum()), (), None)
    folds = [fold_of(rows.take(np.setdiff1d(everything, p)), rows.take(p), family_of, fit_intercept) for p in parts]
    error, mu, points = best_strength(folds, whole.largest())
    *_, point = whole.follow(_strengths(whole.largest(), mu))
    second = None
    if with_second:
        steps = [fold.second(path) for fold, path in zip(folds, points, strict=True)]
        second_error, second_mu, _ = best_strength(steps, whole.second(point).largest(), SECOND_STEP)
        second = second_mu if second_error < error else None
    penalty = float(whole.problem.penalties(point.indices) @ np.abs(point.coefficients))
    return Tuned(mu / penalty, point.indices, second)


def _strengths(largest: float, least: float = 0.0, step: float = PATH_STEP) -> Array:
    """Return falling strengths, to the least one if it is given."""
    strengths: Array = largest * step ** np.arange(1.0, PATH_LENGTH + 1)
    return strengths[strengths >= least * (1 - 1e-9)]


def best_strength(
    folds: Sequence[PathFold], largest: float, step: float = PATH_STEP
) -> tuple[float, float, list[PathPoint]]:
    """Return the smallest mean logarithm of errors, its strength for all samples, and the models of the folds there.

    Logarithms, because a fold may lack the samples to find the products at all, whatever the strength: its error, which
    can be thousands of times that of the others, would decide alone. Where errors are about equal the choice is that by
    their sum. The paths of the folds are followed side by side, and left when the error has not fallen for a while.
    """
    strengths, best = _strengths(largest, step=step), np.inf
    found: tuple[float, float, list[PathPoint]] = (np.inf, largest, [])
    total = sum(fold.others.weight.sum() for fold in folds)
    paths = [fold.follow(strengths * (1.0 - fold.others.weight.sum() / total)) for fold in folds]
    since, enough = 0, float(np.log(PATH_EXACT))
    for mu, points in zip(strengths, zip(*paths, strict=True), strict=False):
        error = float(np.mean([fold.log_share(point) for fold, point in zip(folds, points, strict=True)]))
        since += 1
        if error < best:
            best, found, since = error, (error, float(mu), list(points)), 0
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


def fold_of(
    inside: WeightedRows, others: WeightedRows, family_of: Callable[[Array], PolynomialFamily], fit_intercept: bool
) -> PathFold:
    """Return the lasso on the family of some samples."""
    family = family_of(inside.features)
    base = family.base
    assert isinstance(base, RankOneBase)

    def survey(rho: Array, wanted: int) -> tuple[tuple[Index, ...], Array]:
        norm = family_norm(family, rho, wanted)
        return norm.largest, np.sqrt(norm.scores)

    problem = WeightedLasso(inside.y, inside.weight, fit_intercept, base.features, family.penalties)
    return PathFold(base, problem, survey, others)
