"""Groups of parameters, and those of a bank, under the names that searches use; what was passed in never changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from manykernels import (
    InvalidInputError,
    KernelAligner,
    KernelBank,
    MKLClassifier,
    MKLClassifierCV,
    MKLRegressor,
    MKLRegressorCV,
    MKLSurvivalCV,
    PolynomialMKL,
    PrecomputedBank,
)
from manykernels.estimators import Resources, Search
from manykernels.kernels import Gaussian, Linear

RNG = np.random.default_rng(0)
X = RNG.uniform(-2.0, 2.0, size=(40, 2))
Y = np.where(X[:, 0] ** 2 + X[:, 1] > 1.0, "yes", "no")
BANK = KernelBank.per_feature([Linear(), Gaussian(0.7)])


def test_a_grid_search_is_that_over_banks_given_one_by_one() -> None:
    names = ["trace", "mean_diagonal", "unit_diagonal"]
    search = GridSearchCV(MKLClassifier(BANK, alpha=0.01), {"kernels__normalize": names}, cv=2, scoring="neg_log_loss")
    banks = [BANK.replace(normalize=name) for name in names]
    given = GridSearchCV(MKLClassifier(alpha=0.01), {"kernels": banks}, cv=2, scoring="neg_log_loss")
    scores = [found.fit(X, Y).cv_results_["mean_test_score"] for found in (search, given)]
    np.testing.assert_array_equal(*scores)
    assert len(np.unique(scores[0])) == 3
    assert BANK.normalize == "mean_diagonal"
    assert search.best_estimator_.kernels.normalize == search.best_params_["kernels__normalize"]


def test_a_pipeline_reaches_its_bank_and_clones_keep_it() -> None:
    model = make_pipeline(StandardScaler(), MKLClassifier(BANK))
    model.set_params(mklclassifier__kernels__center=True, mklclassifier__tol=1e-2)
    assert model[-1].tol == 1e-2
    assert clone(model)[-1].kernels.center
    assert not BANK.center
    assert model.get_params()["mklclassifier__kernels__center"] is True


@pytest.mark.parametrize("kind", [MKLClassifier, MKLRegressor, MKLClassifierCV, KernelAligner])
def test_every_estimator_with_a_bank_takes_its_parameters(kind: Any) -> None:
    assert kind().set_params(kernels__standardize=False).kernels.normalize == "mean_diagonal"
    assert kind("precomputed").set_params(kernels__normalize="trace").kernels == PrecomputedBank("trace")
    with pytest.raises(InvalidInputError, match="has no parameter 'normalization'; it has kernels, standardize"):
        kind(BANK).set_params(kernels__normalization="trace")
    with pytest.raises(InvalidInputError, match="normalize must be one of"):
        kind(BANK).set_params(kernels__normalize="norm")
    with pytest.raises(ValueError, match="has no parameter 'kernel'"):
        kind(BANK).set_params(kernel="linear")


def test_an_aligner_before_a_machine_is_searched() -> None:
    model = make_pipeline(KernelAligner(BANK), SVC(kernel="precomputed"))
    search = GridSearchCV(model, {"kernelaligner__kernels__normalize": ["trace", None]}, cv=2).fit(X, Y)
    assert search.best_score_ > 0.6


def test_parameters_of_a_bank_make_the_same_bank() -> None:
    assert KernelBank(**BANK.get_params()) == BANK
    assert BANK.set_params(center=True) == BANK.replace(center=True)


def test_a_group_is_an_object_a_dictionary_or_nothing() -> None:
    given = {"max_iter": 7, "representation": "gram"}
    models = [MKLRegressor(BANK, alpha=0.01, resources=own) for own in (given, Resources(**given))]
    rows, numbers = X, X[:, 0]
    first, second = (model.fit(rows, numbers) for model in models)
    np.testing.assert_array_equal(first.dual_coef_, second.dual_coef_)
    assert given == {"max_iter": 7, "representation": "gram"}
    assert repr(Resources(n_jobs=2)) == "Resources(n_jobs=2)"
    assert MKLRegressor()._resources.max_iter == 200
    assert PolynomialMKL()._resources.max_iter == 30


def test_parameters_of_a_group_are_set_and_cloned_like_others() -> None:
    given = {"n_jobs": 2}
    model = MKLRegressorCV(resources=given, search=Search(rule="1se"))
    changed = clone(model).set_params(resources__time_limit=5.0, search__fold_tol=0.1, tol=1e-3)
    assert (changed.resources, changed.search) == (
        Resources(n_jobs=2, time_limit=5.0),
        Search(rule="1se", fold_tol=0.1),
    )
    assert given == {"n_jobs": 2}
    assert model.search == Search(rule="1se")
    found = changed.get_params()
    assert (found["resources__n_jobs"], found["search__rule"], found["loss_parameters__tau"]) == (2, "1se", 0.5)
    assert clone(changed).get_params() == found
    assert changed.set_params(resources=None).get_params()["resources__n_jobs"] is None


def test_a_grid_search_reaches_into_groups() -> None:
    numbers = X[:, 0] + X[:, 1]
    model = MKLRegressor(BANK, loss="quantile", alpha=0.01, loss_parameters={"tau": 0.2})
    search = GridSearchCV(model, {"loss_parameters__tau": [0.5, 0.9]}, cv=2).fit(X, numbers)
    alone = GridSearchCV(model, {"loss_parameters": [{"tau": 0.5}, {"tau": 0.9}]}, cv=2).fit(X, numbers)
    np.testing.assert_array_equal(*(found.cv_results_["mean_test_score"] for found in (search, alone)))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (MKLRegressor(resources={"jobs": 2}), "resources has no 'jobs'. Take 'n_jobs'"),
        (MKLRegressor(resources=2), "resources must be a dictionary or Resources"),
        (MKLRegressor(loss_parameters={"sigma": 1.0}), "loss_parameters has no 'sigma'. It has: epsilon, delta, tau"),
        (MKLRegressorCV(search={"ratio": 0.1}), "search has no 'ratio'. It has: alpha_min_ratio, rule"),
        (MKLSurvivalCV(search={"rule": "1se"}), "MKLSurvivalCV does not use 'rule' in search"),
        (PolynomialMKL(resources={"n_jobs": 2}), "does not use 'n_jobs' in resources, only max_iter, time_limit"),
        (KernelAligner(resources={"verbose": 1}), "does not use 'verbose' in resources, only memory_budget, n_jobs"),
    ],
)
def test_what_a_group_does_not_have_is_said(model: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        model.fit(X, X[:, 0])


@pytest.mark.parametrize("name", ["n_jobs", "verbose", "max_iter", "tau", "weights", "kernels_as"])
def test_old_names_say_where_they_went(name: str) -> None:
    with pytest.raises(TypeError, match=f"MKLRegressor has no parameter '{name}'. Take (resources|loss_par|outputs)"):
        MKLRegressor(**{name: 1})
    with pytest.raises(InvalidInputError, match=f"MKLRegressor has no parameter '{name}'. Take "):
        MKLRegressor().set_params(**{name: 1})
