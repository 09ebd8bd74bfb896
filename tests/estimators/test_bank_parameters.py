"""Parameters of a bank under the names that searches use; the bank that was passed in never changes."""

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
    PrecomputedBank,
)
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
    with pytest.raises(ValueError, match="Invalid parameter"):
        kind(BANK).set_params(kernel="linear")


def test_an_aligner_before_a_machine_is_searched() -> None:
    model = make_pipeline(KernelAligner(BANK), SVC(kernel="precomputed"))
    search = GridSearchCV(model, {"kernelaligner__kernels__normalize": ["trace", None]}, cv=2).fit(X, Y)
    assert search.best_score_ > 0.6


def test_parameters_of_a_bank_make_the_same_bank() -> None:
    assert KernelBank(**BANK.get_params()) == BANK
    assert BANK.set_params(center=True) == BANK.replace(center=True)
