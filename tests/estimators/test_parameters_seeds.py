"""The seed of an estimator reaches the solvers that draw random numbers, and no other."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from manykernels import InvalidInputError, MKLClassifier, MKLRegressor, PolynomialMKL
from manykernels.estimators import MKLClassifierCV, MKLRegressorCV
from manykernels.estimators.selection.path import regularization_path
from manykernels.exceptions import ConvergenceWarning
from manykernels.grams import as_stack
from manykernels.solvers import UFOMKL, WorkingSet
from manykernels.validation.parameters import seed_from

DRAWING = [("ufo_mkl", "elasticnet"), ("obscure", "lq")]


def coefficients(data: Any, **parameters: Any) -> Any:
    given = {
        "loss": "hinge",
        "penalty": "elasticnet",
        "solver": "ufo_mkl",
        "tol": 1e-2,
        "alpha": "0.05*max",
    } | parameters
    model = MKLClassifier("precomputed", **given).fit(data.grams, data.labels)
    return model.solution_.dual_coef


@pytest.mark.parametrize(("solver", "penalty"), DRAWING)
def test_the_same_seed_gives_the_same_model_and_another_seed_another(data: Any, solver: str, penalty: str) -> None:
    first, again, other = (coefficients(data, solver=solver, penalty=penalty, random_state=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 1e-6


def test_without_a_seed_the_one_of_the_solver_counts(data: Any) -> None:
    np.testing.assert_array_equal(coefficients(data), coefficients(data, random_state=0))
    configured = UFOMKL(random_state=5, tol=1e-2, max_iter=200)
    np.testing.assert_array_equal(coefficients(data, solver=configured), coefficients(data, random_state=5))


def test_the_seed_of_the_estimator_replaces_that_of_a_configured_solver(data: Any) -> None:
    configured = UFOMKL(random_state=5, tol=1e-2, max_iter=200)
    found = coefficients(data, solver=configured, random_state=1)
    np.testing.assert_array_equal(found, coefficients(data, random_state=1))
    assert configured.random_state == 5


@pytest.mark.parametrize("source", [np.random.RandomState, np.random.default_rng])
def test_a_generator_gives_a_seed_and_goes_on(data: Any, source: Any) -> None:
    generator, twin = source(0), source(0)
    first, second = (coefficients(data, random_state=generator) for _ in range(2))
    np.testing.assert_array_equal(first, coefficients(data, random_state=twin))
    assert np.abs(first - second).max() > 1e-6


def test_a_solver_that_draws_nothing_leaves_a_generator_as_it_is(data: Any) -> None:
    generator = np.random.default_rng(0)
    MKLRegressor("precomputed", solver=WorkingSet(), random_state=generator).fit(data.grams, data.y)
    assert generator.integers(2**31) == np.random.default_rng(0).integers(2**31)


@pytest.mark.filterwarnings("ignore:The best strength:UserWarning")
def test_the_folds_get_the_seed_too(data: Any) -> None:
    given = {"penalty": "elasticnet", "solver": "ufo_mkl", "alphas": [0.03, 0.01], "cv": 3, "tol": 1e-2}
    first, again, other = (
        MKLRegressorCV("precomputed", **given, random_state=seed).fit(data.grams, data.y).cv_frame()["mean_score"]
        for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_a_path_gets_the_seed_too(data: Any) -> None:
    given = {"penalty": "elasticnet", "alphas": [0.03, 0.01], "solver": UFOMKL(tol=1e-2)}
    first, again, other = (
        regularization_path(as_stack(data.grams), data.y, **given, random_state=seed).norms for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


@pytest.mark.parametrize("kind", [MKLClassifier, MKLRegressor, MKLClassifierCV, MKLRegressorCV])
@pytest.mark.parametrize("seed", [-1, "seed", 0.5])
def test_other_seeds_are_refused(data: Any, kind: Any, seed: Any) -> None:
    with pytest.raises(InvalidInputError, match="random_state must be None, an integer"):
        kind("precomputed", random_state=seed).fit(data.grams, data.labels if "Classifier" in kind.__name__ else data.y)


def test_a_seed_is_an_integer_in_range() -> None:
    assert seed_from(np.int64(7)) == 7
    assert 0 <= seed_from(np.random.default_rng(1)) < 2**31


@pytest.mark.sampled(3)
@pytest.mark.parametrize("parameters", [{}, {"loss": "logistic"}, {"polish": False, "n_steps": 20}])
def test_searches_draw_the_same_unless_asked_for_other_draws(parameters: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 5))
    y = X[:, 0] * X[:, 1] + 0.1 * rng.normal(size=40)
    target = y > 0 if "loss" in parameters else y

    def predicted(**seeds: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return PolynomialMKL(2, **parameters, **seeds).fit(X, target).decompose(X)

    np.testing.assert_array_equal(predicted(), predicted())
    np.testing.assert_array_equal(predicted(), predicted(random_state=0))
