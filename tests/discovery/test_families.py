"""Families and the inner search: derivatives by finite differences, Gram matrices by the library's kernels, bounds."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

from custom_family import CauchyFamily  # examples are scripts, found by their folder

from manykernels.discovery import (
    ArdGaussianFamily,
    DirichletFamily,
    FamilySearch,
    GaussianFamily,
    KernelFamily,
    LaplacianFamily,
    MaternFamily,
    PairWeights,
    SearchSettings,
)
from manykernels.discovery.families.search import Profile, bounded_maximum
from manykernels.exceptions import InvalidInputError

FAMILIES = {
    "gaussian": (GaussianFamily(0.1, 10.0), 3),
    "laplacian": (LaplacianFamily(0.1, 10.0), 3),
    "matern 1/2": (MaternFamily(0.1, 10.0, nu=0.5), 3),
    "matern 3/2": (MaternFamily(0.1, 10.0), 3),
    "matern 5/2": (MaternFamily(0.1, 10.0, nu=2.5), 3),
    "a width a feature": (ArdGaussianFamily(0.1, 10.0), 3),
    "dirichlet": (DirichletFamily(0.0, 20.0), 1),
    "dirichlet of degree 2": (DirichletFamily(0.0, 20.0, degree=2), 1),
    "dirichlet on two columns": (DirichletFamily(0.0, 20.0, degree=2), 2),
    "that of the example": (CauchyFamily(0.1, 10.0), 3),
}
CERTIFIED = [name for name in FAMILIES if name not in ("a width a feature", "dirichlet on two columns")]


def drawn_pairs(rng: np.random.Generator, n_samples: int, kind: str) -> PairWeights:
    """Return random pair weights of rank one or of full rank."""
    if kind == "rank one":
        return PairWeights.rank_one(rng.normal(size=n_samples))
    matrix = rng.normal(size=(n_samples, n_samples))
    return PairWeights(matrix + matrix.T)


@pytest.mark.parametrize("kind", ["rank one", "full rank"])
@pytest.mark.parametrize("name", FAMILIES)
def test_value_and_derivative(name: str, kind: str, rng: np.random.Generator) -> None:
    family, n_columns = FAMILIES[name]
    points = rng.normal(size=(25, n_columns))
    search, pairs = FamilySearch(family, points, SearchSettings(shrinkage=0.3)), drawn_pairs(rng, 25, kind)
    coordinate = rng.uniform(0.2, 1.2, search.n_parameters)
    value, gradient = search.objective(coordinate, pairs)
    parameter = family.parameter(coordinate)
    spread = parameter - parameter.mean()
    expected = np.sum(pairs.matrix * family.spec(parameter)(points)) - 0.3 * spread @ spread
    assert value == pytest.approx(expected, rel=1e-12)
    numeric = [
        (search.objective(coordinate + 1e-5 * unit, pairs)[0] - search.objective(coordinate - 1e-5 * unit, pairs)[0])
        / 2e-5
        for unit in np.eye(search.n_parameters)
    ]
    np.testing.assert_allclose(gradient, numeric, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", FAMILIES)
def test_gram_is_that_of_the_kernel_of_the_library(name: str, rng: np.random.Generator) -> None:
    family, n_columns = FAMILIES[name]
    points = rng.normal(size=(12, n_columns))
    parameter = rng.uniform(0.5, 2.0, family.n_parameters(n_columns))
    gram = family.value(points, parameter)
    np.testing.assert_allclose(gram, family.spec(parameter)(points), atol=1e-12)
    np.testing.assert_array_equal(gram, gram.T)


@pytest.mark.parametrize("name", FAMILIES)
def test_many_parameters_at_once(name: str, rng: np.random.Generator) -> None:
    family, n_columns = FAMILIES[name]
    prepared, pairs = family.prepare(rng.normal(size=(15, n_columns))), drawn_pairs(rng, 15, "full rank")
    parameters = rng.uniform(0.5, 2.0, (7, family.n_parameters(n_columns)))
    values, gradients = family.inner_many(prepared, parameters, pairs)
    for at, parameter in enumerate(parameters):
        value, gradient = family.inner(prepared, parameter, pairs)
        assert values[at] == pytest.approx(value, rel=1e-12)
        np.testing.assert_allclose(gradients[at], gradient, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", CERTIFIED)
def test_the_bound_is_above_a_dense_grid_and_as_close_as_asked(name: str, rng: np.random.Generator) -> None:
    family, n_columns = FAMILIES[name]
    search, pairs = FamilySearch(family, rng.normal(size=(30, n_columns))), drawn_pairs(rng, 30, "full rank")
    peak = search.maximize(pairs)
    low, high = family.coordinate(np.array([family.low, family.high]))
    grid = family.parameter(np.linspace(low, high, 801)[:, None])
    dense = family.inner_many(search.prepared, grid, pairs)[0]
    assert peak.value >= dense.max() - 1e-6 * abs(dense.max())
    bound = search.bound(pairs, peak, 1e-4 * abs(peak.value))
    assert bound is not None
    assert peak.value <= bound <= peak.value + 1.01e-4 * abs(peak.value)


@pytest.mark.parametrize("name", CERTIFIED)
def test_the_fourth_derivative_stays_below_its_bound(name: str, rng: np.random.Generator) -> None:
    family, n_columns = FAMILIES[name]
    points = rng.normal(size=(10, n_columns))
    prepared, pairs = family.prepare(points), drawn_pairs(rng, 10, "rank one")
    bound = family.fourth_derivative(prepared, pairs)
    at, h = np.linspace(-1.0, 1.5, 50) if family.logarithmic else np.linspace(1.0, 19.0, 50), 1e-2
    stencil = np.array([family.parameter(at + step * h)[:, None] for step in (-2, -1, 0, 1, 2)])
    values = [family.inner_many(prepared, column, pairs)[0] for column in stencil]
    fourth = np.abs(values[0] - 4 * values[1] + 6 * values[2] - 4 * values[3] + values[4]) / h**4
    assert bound is not None
    assert 0 < fourth.max() <= 1.01 * bound


def test_the_bound_on_the_fourth_derivative_is_attained_by_one_pair() -> None:
    family, pairs = GaussianFamily(0.01, 100.0), PairWeights(np.array([[0.0, 0.5], [0.5, 0.0]]))
    prepared, h = family.prepare(np.array([[0.0], [1.0]])), 2e-2
    at = np.linspace(-3, 3, 401)
    values = [
        family.inner_many(prepared, family.parameter(at + step * h)[:, None], pairs)[0] for step in (-2, -1, 0, 1, 2)
    ]
    fourth = np.abs(values[0] - 4 * values[1] + 6 * values[2] - 4 * values[3] + values[4]) / h**4
    assert fourth.max() == pytest.approx(family.fourth_derivative(prepared, pairs), rel=0.01)


def test_a_bound_that_runs_out_of_evaluations_is_still_a_bound() -> None:
    sine = lambda u: Profile(np.sin(u), np.cos(u), np.ones(len(u)), 0.0)  # noqa: E731 - a formula
    bound = bounded_maximum(sine, np.linspace(0, 100, 11), -1.0, 1e-300)
    assert 1.0 <= bound < 1.0001


def test_no_bound_where_there_is_none(rng: np.random.Generator) -> None:
    for name in ("a width a feature", "dirichlet on two columns"):
        family, n_columns = FAMILIES[name]
        search, pairs = FamilySearch(family, rng.normal(size=(8, n_columns))), drawn_pairs(rng, 8, "rank one")
        assert search.bound(pairs, search.maximize(pairs), 1.0) is None


def test_several_widths_find_the_feature_that_matters(rng: np.random.Generator) -> None:
    points = rng.normal(size=(80, 3))
    pairs = PairWeights.rank_one(np.sign(np.sin(2 * points[:, 1])))
    joint = FamilySearch(GaussianFamily(0.1, 50.0), points).maximize(pairs)
    each = FamilySearch(ArdGaussianFamily(0.1, 50.0), points).maximize(pairs, rng=rng)
    assert each.value > 1.2 * joint.value
    assert np.argmin(each.parameter) == 1


def test_shrinkage_pulls_widths_together(rng: np.random.Generator) -> None:
    points = rng.normal(size=(40, 3))
    pairs = PairWeights.rank_one(np.sin(2 * points[:, 1]))
    free, shrunk = (
        FamilySearch(ArdGaussianFamily(0.1, 50.0), points, SearchSettings(shrinkage=size)).maximize(pairs)
        for size in (0.0, 1e4)
    )
    assert np.ptp(shrunk.parameter) < 1e-2 < np.ptp(free.parameter)
    assert shrunk.value < free.value


def test_a_finite_family_is_searched_exactly(rng: np.random.Generator) -> None:
    base, widths = MaternFamily(0.1, 10.0), np.geomspace(0.1, 10.0, 9)
    points, vector = rng.normal(size=(20, 2)), rng.normal(size=20)
    family, pairs = base.listed(widths), PairWeights.rank_one(vector)
    peak = FamilySearch(family, points).maximize(pairs)
    values = [vector @ base.spec([width])(points) @ vector for width in widths]
    assert peak.value == pytest.approx(max(values), rel=1e-12)
    assert peak.parameter[0] == widths[int(np.argmax(values))]
    assert FamilySearch(family, points).bound(pairs, peak, 0.0) == peak.value


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GaussianFamily(1.0, 0.5), "low < high"),
        (lambda: GaussianFamily(0.0, 0.5), "low of GaussianFamily must be a finite positive number"),
        (lambda: DirichletFamily(-1.0, 0.5), "low of DirichletFamily must be a finite non-negative number"),
        (lambda: DirichletFamily(0.0, 5.0, degree=0), "degree must be an integer"),
        (lambda: MaternFamily(0.1, 1.0, nu=2.0), "nu must be 0.5, 1.5 or 2.5"),
        (lambda: GaussianFamily(0.1, 1.0).listed([]), "at least one member"),
        (lambda: GaussianFamily(0.1, 1.0, members=()), "at least one member"),
        (lambda: PairWeights(np.ones((2, 3))), "square matrix"),
        (lambda: PairWeights(np.array([[1.0, 2.0], [0.0, 1.0]])), "must be symmetric"),
        (lambda: SearchSettings(n_starts=0), "n_starts must be an integer"),
        (lambda: SearchSettings(shrinkage=-1.0), "shrinkage must be a finite non-negative number"),
    ],
)
def test_errors(make: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        make()


def test_a_family_of_the_user(rng: np.random.Generator) -> None:
    class Halves(KernelFamily):
        """The Gaussian family again, from value and derivative only."""

        def prepare(self, points: Any) -> Any:
            return points

        def gram(self, prepared: Any, parameter: Any) -> Any:
            return self.spec(parameter)(prepared)

        def inner(self, prepared: Any, parameter: Any, pairs: PairWeights) -> tuple[float, Any]:
            gram = self.gram(prepared, parameter)
            squares = np.sum((prepared[:, None] - prepared) ** 2, axis=2)
            return pairs.with_kernel(gram), np.array([pairs.with_kernel(gram * squares)]) / parameter**3

        def spec(self, parameter: Any) -> Any:
            return GaussianFamily(self.low, self.high).spec(parameter)

    points, pairs = rng.normal(size=(30, 2)), drawn_pairs(rng, 30, "rank one")
    own, ours = (FamilySearch(family(0.1, 10.0), points).maximize(pairs) for family in (Halves, GaussianFamily))
    assert own.value == pytest.approx(ours.value, rel=1e-9)
    assert FamilySearch(Halves(0.1, 10.0), points).bound(pairs, own, 1.0) is None
