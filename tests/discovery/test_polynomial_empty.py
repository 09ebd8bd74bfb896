"""Strengths at which no product has anything to gain: those of the listed family, of any unit, and of noise."""

from itertools import combinations_with_replacement
from math import factorial, prod

import numpy as np
import pytest

from manykernels import Gaussian, InvalidInputError, PolynomialMKL
from manykernels.discovery import SearchProblem
from manykernels.discovery.polynomial.empty import empty_strength
from manykernels.grams import DenseStack
from manykernels.objective.regularizers import LpBall, Simplex

N, R, D = 40, 3, 3
rng = np.random.default_rng(0)
X = rng.normal(size=(N, R))
Y = X[:, 0] * X[:, 1] - X[:, 2] + 0.3 * rng.normal(size=N)
LABELS = np.where(Y > 0, 1.0, -1.0)
WEIGHT = rng.uniform(0.5, 2.0, size=N)


def listed(problem: SearchProblem, p: float, rho: np.ndarray) -> float:
    """Return the strength by all distinct products, each a matrix."""
    grams, penalties = [], []
    for degree in range(D + 1):
        for index in combinations_with_replacement(range(R), degree):
            values = np.ones(N)
            for j in set(index):
                power = problem.points[:, j] ** index.count(j)
                values = values * power / np.sqrt(np.mean(power**2))
            grams.append(np.outer(values, values))
            count = factorial(degree) / prod(factorial(index.count(j)) for j in set(index))
            penalties.append(rho[degree] * count ** ((1.0 - p) / (2.0 * p)))
    penalty = Simplex(1.0) if p == 1 else LpBall(1.0, p=p)
    whole = problem.replace_stack(DenseStack(np.array(grams)), penalty, np.array(penalties))
    return float(whole.at_fraction(1.0).regularizer.strength)


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0])
@pytest.mark.parametrize("loss", ["squared", "logistic", "hinge"])
def test_strengths_are_those_of_the_listed_family(p: float, loss: str) -> None:
    rho = np.array([1.0, 1.0, 1.5, 2.0])
    problem = SearchProblem(X, Y if loss == "squared" else LABELS, loss, sample_weight=WEIGHT)
    found = empty_strength(problem, degree=D, p=p, degree_penalties=rho)
    assert found == pytest.approx(listed(problem, p, rho), rel=1e-9)


def test_noise_is_the_mean_over_orders_of_the_target() -> None:
    problem = SearchProblem(X, Y)
    noise, own = empty_strength(problem, 0), empty_strength(problem)
    assert 0.02 * own < noise < 0.5 * own
    mixed = SearchProblem(X, rng.permutation(Y))
    assert empty_strength(mixed, 0) == pytest.approx(noise, rel=0.5)
    assert empty_strength(SearchProblem(X, Y + 100.0, fit_intercept=False), 0) < 0.1 * noise  # a constant is no noise


@pytest.mark.parametrize("unit", [2.0**-30, 2.0**20])
def test_a_unit_that_is_a_power_of_two_changes_no_step(unit: float) -> None:
    one, other = (PolynomialMKL(2, n_steps=5).fit(X, y) for y in (Y, unit * Y))
    assert one.alpha_ == pytest.approx(other.alpha_, rel=1e-12)
    assert one.kernel_names_ == other.kernel_names_
    np.testing.assert_allclose(unit * one.predict(X), other.predict(X), rtol=1e-12, atol=1e-12 * unit)


@pytest.mark.parametrize("unit", [1 + 1e-15, 1e-9, 1e6])
def test_estimators_solve_the_same_problem_in_every_unit(unit: float) -> None:
    """Both models are bounded by both duals; the loss is strongly convex, so that gaps bound their difference."""
    tables = [np.random.default_rng(seed).normal(size=(N, R + 1)) for seed in range(4)]
    for points, noise in ((table[:, :R], table[:, R]) for table in tables):
        y = points[:, 0] * points[:, 1] - points[:, 2] + 0.3 * noise
        one, other = (PolynomialMKL(2, n_steps=5).fit(points, target) for target in (y, unit * y))
        assert one.alpha_ == pytest.approx(other.alpha_, rel=1e-9)
        first, second = one.solution_.certificate, other.solution_.certificate
        assert max(first.relative_gap, second.relative_gap) <= 1e-2
        duals, primals = (first.dual, second.dual / unit**2), (first.primal, second.primal / unit**2)
        assert max(duals) <= min(primals) * (1 + 1e-9)
        reach = sum(np.sqrt(2 * (primal - max(duals))) for primal in primals)
        assert np.linalg.norm(one.predict(points) - other.predict(points) / unit) <= reach + 1e-9


def test_text_stands_for_multiples_of_what_leaves_nothing_to_gain() -> None:
    problem = SearchProblem(X, Y)
    standard = SearchProblem((X - X.mean(axis=0)) / X.std(axis=0), Y)
    for text, seed, factor in (("auto", 0, 0.1), ("0.3*noise", 0, 0.3), ("0.1*max", None, 0.1)):
        model = PolynomialMKL(2, alpha=text, n_steps=5).fit(X, Y)
        known = factor * empty_strength(standard, seed, degree=2)
        assert model.alpha_ * N == pytest.approx(known, rel=1e-9)
    assert len(PolynomialMKL(2, alpha="1.01*max", p=1.0).fit(X, Y).kernel_names_) < R
    assert empty_strength(problem, base=Gaussian(1.0), degree=2) > 0


def test_each_class_has_a_strength_of_its_own() -> None:
    labels = np.digitize(X[:, 0] * X[:, 1], [-0.3, 0.3])
    model = PolynomialMKL(2, loss="logistic").fit(X, labels)
    assert model.alpha_.shape == (3,)
    assert model.score(X, labels) > 0.8


def test_untouched_searches_do_not_learn_noise() -> None:
    draws = np.random.default_rng(1)
    points, noise = draws.normal(size=(300, 8)), draws.normal(size=300)
    assert PolynomialMKL().fit(points[:60], noise[:60]).score(points[60:], noise[60:]) > -1.5
    with_truth = noise + 3.0 * points[:, 0] * points[:, 1]
    assert PolynomialMKL().fit(points[:60], with_truth[:60]).score(points[60:], with_truth[60:]) > 0.5


def test_nothing_to_gain_and_numbers_out_of_range_are_told() -> None:
    with pytest.warns(UserWarning, match="constant"):
        assert PolynomialMKL(2).fit(X, np.full(N, 2.0)).predict(X) == pytest.approx(2.0)
    with pytest.raises(InvalidInputError, match="alpha"):
        PolynomialMKL(2, alpha="much").fit(X, Y)
    with pytest.raises(InvalidInputError, match="leave the range of float64"):
        empty_strength(SearchProblem(1e80 * X, Y), normalize=None, degree=2)
