"""Solutions for falling strengths on a whole family with the squared loss and ``p = 1``, where they are a lasso.

For features ``phi_m`` with penalties ``w_m``, the optima of the squared penalty ``(lambda/2) (sum_m w_m |c_m|)^2`` are
those of ``mu sum_m w_m |c_m|`` with ``mu = lambda sum_m w_m |c_m|``: kernels of rank one have a single coefficient
each. The second form has a largest strength at which something is selected, and coordinate descent on the few products
that matter takes milliseconds; the survey of the family tells which ones do.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from sklearn.exceptions import ConvergenceWarning as SlowConvergence
from sklearn.linear_model import lasso_path

from manykernels.discovery.polynomial.family import PolynomialFamily
from manykernels.discovery.polynomial.family_norm import family_norm
from manykernels.discovery.polynomial.product_bases import Index, RankOneBase
from manykernels.exceptions import InvalidInputError
from manykernels.objective.problem import Problem
from manykernels.solvers.fold import Candidate, Fold
from manykernels.validation.arrays import Array

# Numbers that follow from no theorem: they decide the time, not what is certified.
NEWCOMERS = 50  # products that enter after a survey
PATH_SWEEPS, PATH_TOL = 2000, 1e-4  # of coordinate descent; the square of a share of the strength
SUPPORT_SWEEPS, SUPPORT_TURNS = 30, 4  # after which signs are taken as known; coefficients that vanish on the way
PATH_VIOLATION = 1e-2  # of the strength, by which the largest score may exceed it
PATH_STEP = 10.0 ** (-0.25)  # from one strength to the next
PATH_LENGTH = 20  # strengths at most: five powers of ten
SECOND_STEP = 10.0 ** (-0.5)  # the same of the second step, whose penalties differ by orders of magnitude
PATH_EXACT = 1e-13  # of the squares of the target: an error at which there is nothing left to choose


# The lasso on a few features: coordinate descent until the support hardly changes, then the exact point of it.


def restricted_lasso(design: Array, target: Array, mu: float, start: Array) -> Array:
    """Return the minimizer of ``1/2 ||target - design c||^2 + mu ||c||_1``, (m,).

    Where features are as many as samples and alike, coordinate descent takes thousands of sweeps for the last digits of
    coefficients whose signs it knows after a few. At fixed signs the problem is a linear system: the solution is the
    optimum if it has the signs and no other feature violates the conditions. Else the way to it is followed until a
    coefficient vanishes, which lowers the objective as well, and sweeps go on from there.
    """
    products, sides, coefficients = design.T @ design, design.T @ target, start
    design = np.asfortranarray(design)
    for _ in range(PATH_SWEEPS // SUPPORT_SWEEPS):
        coefficients = _sweep(design, target, mu, coefficients, products, sides)
        coefficients = _solve_fixed_signs(products, sides, mu, coefficients)
        slopes = sides - products @ coefficients
        misses = np.where(coefficients == 0, np.abs(slopes) - mu, np.abs(slopes - mu * np.sign(coefficients)))
        if misses.max(initial=0.0) <= PATH_VIOLATION * mu:
            break
    return coefficients


def _sweep(design: Array, target: Array, mu: float, start: Array, products: Array, sides: Array) -> Array:
    """Return the result of sweeps of coordinate descent from a start."""
    # So small a gap that a product beyond the strength is one, and not what an unfinished solution left over.
    tol = PATH_TOL * mu**2 / (2.0 * len(target) * max(float(target @ target), np.finfo(float).tiny))
    with warnings.catch_warnings():
        # Whatever is not at its optimum here is found by the next survey, or costs a little error of a fold.
        warnings.simplefilter("ignore", SlowConvergence)
        path = lasso_path(
            design, target, alphas=[mu / len(target)], precompute=products, Xy=sides, coef_init=start, tol=tol,
            max_iter=SUPPORT_SWEEPS,
        )[1]  # fmt: skip
    coefficients: Array = path[:, 0]
    return coefficients


def _solve_fixed_signs(products: Array, sides: Array, mu: float, coefficients: Array) -> Array:
    """Return the optimum of the support, reduced until signs agree, or the last point on the way."""
    for _ in range(SUPPORT_TURNS):
        at = np.flatnonzero(coefficients)
        if not len(at):
            break
        signs = np.sign(coefficients[at])
        try:
            factor = cho_factor(products[np.ix_(at, at)], check_finite=False)
        except np.linalg.LinAlgError:
            break  # features that depend on each other: sweeps choose among them
        goal = cho_solve(factor, sides[at] - mu * signs, check_finite=False)
        crossing = np.full(len(at), np.inf)  # shares of the way at which coefficients vanish
        np.divide(coefficients[at], coefficients[at] - goal, out=crossing, where=goal * signs <= 0)
        share = min(float(crossing.min()), 1.0)
        moved = coefficients[at] + share * (goal - coefficients[at])
        moved[crossing <= share] = 0.0
        coefficients = np.zeros_like(coefficients)
        coefficients[at] = moved
        if share == 1.0:
            break
    return coefficients


Survey = Callable[[Array, int], tuple[tuple[Index, ...], Array]]
"""Names the products of the largest ``|phi'rho| / w`` for dual coefficients, with these values."""


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
class PathPoint:
    """A model of the path with the survey of the family."""

    indices: tuple[Index, ...]  # the products selected
    coefficients: Array  # (m,) float64: of their features
    intercept: float
    named: tuple[Index, ...]  # the products of the largest |phi'rho| / w, at the optimum mu if anything is selected
    values: Array  # these values


@dataclass(frozen=True, eq=False)
class WeightedLasso:
    """``min_{c, b} 1/2 sum_n s_n (y_n - sum_m c_m phi_mn - b)^2 + mu sum_m w_m |c_m|``."""

    y: Array  # (N,) float64: target and sample weights s
    weight: Array  # (N,) float64: target and sample weights s
    fit_intercept: bool
    features: Callable[[tuple[Index, ...]], Array]  # makes the features (m, N) of products
    penalties: Callable[[tuple[Index, ...]], Array]  # makes their w
    survey: Survey
    features_of: Callable[[Array, tuple[Index, ...]], Array]  # makes the features of products for other samples

    def mean(self, values: Array) -> Array:
        """Return weighted means over the last axis, zeros without an intercept."""
        if not self.fit_intercept:
            return np.zeros(values.shape[:-1])
        means: Array = values @ self.weight / self.weight.sum()
        return means

    def solve(self, mu: float, indices: tuple[Index, ...], start: Array) -> tuple[Array, float, Array]:
        """Return coefficients, intercept and dual coefficients ``s (y - f - b)``."""
        if not indices:
            return start, float(self.mean(self.y)), self.weight * (self.y - self.mean(self.y))
        features, w = self.features(indices), self.penalties(indices)
        centers, root = self.mean(features), np.sqrt(self.weight)
        design = ((features - centers[:, None]) * root / w[:, None]).T
        target = (self.y - self.mean(self.y)) * root
        found = restricted_lasso(design, target, mu, start * w)
        coefficients = found / w
        intercept = float(self.mean(self.y) - coefficients @ centers)
        return coefficients, intercept, self.weight * (self.y - coefficients @ features - intercept)

    def empty(self, wanted: int = NEWCOMERS) -> PathPoint:
        """Return the model without products, and the survey of so many."""
        none = np.zeros(0)
        _, intercept, rho = self.solve(np.inf, (), none)
        return PathPoint((), none, intercept, *self.survey(rho, wanted))

    def largest(self) -> float:
        """Return the strength of the empty model."""
        return float(self.empty(1).values.max(initial=0.0))

    def solve_along(self, mu: float, start: PathPoint) -> PathPoint:
        """Return the solution from the solution at a larger strength, with violating products added."""
        indices, coefficients, names, values = start.indices, start.coefficients, start.named, start.values
        path_rounds = 5  # surveys at one strength
        for _ in range(path_rounds):
            known, pairs = set(indices), zip(names, values, strict=True)
            new = tuple(i for i, value in pairs if value > mu and i not in known)[:NEWCOMERS]
            indices, coefficients = indices + new, np.append(coefficients, np.zeros(len(new)))
            coefficients, intercept, rho = self.solve(mu, indices, coefficients)
            names, values = self.survey(rho, NEWCOMERS + len(indices))
            if not len(values) or values[0] <= mu * (1 + PATH_VIOLATION):
                break
        kept = np.flatnonzero(coefficients)
        return PathPoint(tuple(indices[m] for m in kept), coefficients[kept], intercept, names, values)

    def try_strength(
        self, family: object, mu: float, held_out: WeightedRows, start: PathPoint | None, solved: PathPoint | None
    ) -> tuple[PathPoint, Candidate]:
        """Return the solution, and minus the logarithm of the error's share of the spread of held-out samples.

        The spread is that around the mean of the samples of the lasso. Below ``PATH_EXACT`` there is nothing left to
        choose. There is a single family: that of the lasso.
        """
        point = solved or self.solve_along(mu, start or self.empty())
        error = float(held_out.weight @ (held_out.y - self.scores(point, held_out.features)) ** 2)
        spread = float(held_out.weight @ (held_out.y - self.mean(self.y)) ** 2)
        share = float(np.log(max(error / max(spread, np.finfo(float).tiny), PATH_EXACT)))
        return point, Candidate(family, mu, np.array([[-share]]), float(len(point.indices)))

    def outlasting(self, model: PathPoint) -> PathPoint:
        """Return the whole path."""
        return model

    def scores(self, point: PathPoint, values: Array) -> Array:
        """Return the values of a model at other samples, with base features in rows."""
        return np.asarray(point.coefficients @ self.features_of(values, point.indices) + point.intercept)


def adaptive(problem: WeightedLasso, point: PathPoint) -> WeightedLasso:
    """Return the second step: the selected products, penalized by ``w / |c|``, scaled to the same total."""
    place = {index: m for m, index in enumerate(point.indices)}
    weights = adaptive_penalties(problem.penalties(point.indices), np.abs(point.coefficients))
    features = problem.features(point.indices)

    def places(indices: tuple[Index, ...]) -> list[int]:
        return [place[index] for index in indices]

    def survey(rho: Array, _: int) -> tuple[tuple[Index, ...], Array]:
        scores = np.abs(features @ rho) / weights
        order = np.argsort(-scores, kind="stable")
        return tuple(point.indices[m] for m in order), scores[order]

    return replace(
        problem, features=lambda i: features[places(i)], penalties=lambda i: weights[places(i)], survey=survey
    )


def adaptive_penalties(penalties: Array, norms: Array) -> Array:
    """Return ``w_m / ||f_m||``, scaled for an unchanged penalty of the model."""
    return penalties / norms * float(penalties @ norms) / float(penalties.sum())


# Strengths chosen by cross-validation: of the lasso on the whole family, and of its adaptive second step.


@dataclass(frozen=True, eq=False)
class Tuned:
    """The choice of cross-validation."""

    strength: float  # lambda, at which the squared penalty has the optimum that was chosen
    indices: tuple[Index, ...]  # products selected there on all samples
    # strength of the adaptive second step, as that of mu sum_m w_m |c_m|; None if it does not lower the error
    second_mu: float | None


LassoFold = Fold[WeightedLasso, WeightedRows]


def _linear_base(problem: Problem, family: PolynomialFamily, n_folds: int) -> RankOneBase:
    """Return the base kernels if strengths can be chosen by cross-validation, or raise an error."""
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
    return base


def tune_strengths(
    problem: Problem,
    family: PolynomialFamily,
    normalize: str | None,
    n_folds: int,
    with_second: bool,
    rng: np.random.Generator,
) -> Tuned:
    """Return strengths of smallest squared error, in the geometric mean, on samples left out."""
    base = _linear_base(problem, family, n_folds)
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
    point = reduce(lambda last, own: whole.solve_along(own, last), _strengths(whole.largest(), mu), whole.empty())
    second = None
    if with_second:
        pairs = zip(folds, points, strict=True)
        steps = [Fold(partial(adaptive, fold.kernels, path), fold.held_out) for fold, path in pairs]
        second_error, second_mu, _ = best_strength(steps, adaptive(whole, point).largest(), SECOND_STEP)
        second = second_mu if second_error < error else None
    penalty = float(whole.penalties(point.indices) @ np.abs(point.coefficients))
    return Tuned(mu / penalty, point.indices, second)


def _strengths(largest: float, least: float = 0.0, step: float = PATH_STEP) -> Array:
    """Return decreasing strengths, down to the least if given."""
    strengths: Array = largest * step ** np.arange(1.0, PATH_LENGTH + 1)
    return strengths[strengths >= least * (1 - 1e-9)]


def best_strength(
    folds: Sequence[LassoFold], largest: float, step: float = PATH_STEP
) -> tuple[float, float, list[PathPoint]]:
    """Return the smallest mean logarithm of errors, the strength for all samples, and the models of the folds there.

    Logarithms, because a fold may lack the samples to find the products at all, whatever the strength: the error, which
    can be thousands of times that of the rest, would decide alone. Where errors are about equal the choice is that by
    their sum. The paths of the folds are followed side by side, and left when the error has not fallen for a while.
    """
    strengths, best = _strengths(largest, step=step), np.inf
    found: tuple[float, float, list[PathPoint]] = (np.inf, largest, [])
    total = sum(fold.held_out.weight.sum() for fold in folds)
    shares = [1.0 - fold.held_out.weight.sum() / total for fold in folds]
    since, enough = 0, float(np.log(PATH_EXACT))
    path_patience = 4  # strengths without a smaller error, after which the path ends
    for mu in strengths:
        error = -float(
            np.mean([fold.try_strength(None, mu * own).scores for fold, own in zip(folds, shares, strict=True)])
        )
        since += 1
        if error < best:
            points = [fold.model(None, mu * own) for fold, own in zip(folds, shares, strict=True)]
            best, found, since = error, (error, float(mu), points), 0
        if since >= path_patience or error <= enough:
            break
    return found


def surveyed_family(family: PolynomialFamily, features: Array, normalize: str | None) -> PolynomialFamily:
    """Return the family over other samples, the scores in single precision where that cannot leave the range.

    Surveys determine the next products; the result is certified in float64. Unscaled powers may underflow.
    """
    single_degree = 4  # up to which scores of products are in the range of float32: at most the sixth power of N
    precision = np.float32 if normalize is not None and family.degree <= single_degree else np.float64
    surveyed = RankOneBase(features, normalize, precision)
    return PolynomialFamily.create(surveyed, family.degree, family.degree_penalties, 1.0)


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
