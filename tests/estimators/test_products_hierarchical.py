"""HierarchicalMKL from a table: interactions with all of their factors, named by columns; messages for people."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.utils.estimator_checks import parametrize_with_checks

from manykernels import ConvergenceWarning, Gaussian, HierarchicalMKL, InvalidInputError, Laplacian
from manykernels.estimators.searches import products as module
from manykernels.solvers import Status

N = 120
COLUMNS = ["age", "dose", "height", "weight"]

EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": "standardization counts training rows, not their weights"
}


@pytest.fixture
def table(rng: np.random.Generator) -> pd.DataFrame:
    return pd.DataFrame(rng.normal(size=(N, 4)), columns=COLUMNS)


@pytest.fixture
def response(table: pd.DataFrame, rng: np.random.Generator) -> np.ndarray:
    signal = 2 * table["age"] * table["dose"] + table["age"] - table["height"]
    return np.asarray(signal + 0.1 * rng.normal(size=N))


def test_interactions_are_found_with_their_factors(table: pd.DataFrame, response: np.ndarray) -> None:
    model = HierarchicalMKL(alpha=0.02, growth=2.0).fit(table, response)
    frame = model.weights_frame()
    assert sorted(frame["name"]) == ["age", "age x dose", "dose", "height"]
    assert frame["columns"][frame["name"] == "age x dose"].item() == "age, dose"
    assert model.dual_gap_ <= 1e-3
    assert model.score(table, response) > 0.6
    assert 5 <= model.n_visited_ <= 35
    assert HierarchicalMKL(alpha=1e-4).fit(table, response).score(table, response) > 0.98


def test_predictions_are_sums_of_monomials(table: pd.DataFrame, response: np.ndarray) -> None:
    model = HierarchicalMKL(alpha=1e-3).fit(table, response)
    new = table.head(7) + 0.3
    Z, V = ((part - table.mean()) / table.std(ddof=0) for part in (table, new))
    rho = np.zeros(N)
    rho[model.support_] = model.dual_coef_
    parts = []
    for name, d in zip(model.kernel_names_, model.kernel_weights_, strict=True):
        phi, psi = (np.prod([part[c] for c in name.split(" x ")], axis=0) for part in (Z, V))
        parts.append(d * psi * (phi @ rho))
    np.testing.assert_allclose(model.decompose(new), parts, atol=1e-9)
    np.testing.assert_allclose(model.predict(new), np.sum(parts, axis=0) + model.intercept_, rtol=1e-9)


@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared_hinge"])
def test_classes_are_learned(table: pd.DataFrame, loss: str) -> None:
    labels = np.where(table["age"] * table["dose"] > 0, "up", "down")
    model = HierarchicalMKL(degree=2, loss=loss, alpha=1e-5).fit(table, labels)
    assert is_classifier(model)
    assert "age x dose" in set(model.weights_frame()["name"])
    assert model.score(table, labels) > 0.93
    assert set(model.predict(table)) == {"up", "down"}
    assert hasattr(model, "predict_proba") == (loss == "logistic")


def test_each_class_has_its_own_search(table: pd.DataFrame) -> None:
    labels = np.digitize(table["age"] * table["dose"], [-0.5, 0.5])
    model = HierarchicalMKL(degree=2, loss="logistic").fit(table, labels)
    assert model.kernel_weights_.shape == (3, len(model.kernel_names_))
    assert len(model.n_visited_) == 3
    np.testing.assert_allclose(model.predict_proba(table).sum(axis=1), 1.0)


@pytest.mark.parametrize(
    ("kernels", "prefix"), [("anova", "gaussian(width=1)"), (Laplacian(2.0), "laplacian"), ("multilinear", "")]
)
def test_other_kernels_multiply(table: pd.DataFrame, response: np.ndarray, kernels: Any, prefix: str) -> None:
    model = HierarchicalMKL(kernels, degree=2, alpha=1e-5).fit(table, response)
    assert is_regressor(model)
    assert all(name.startswith(prefix) for name in model.kernel_names_)
    factors = [name.split(" x ") for name in model.kernel_names_]
    assert max(map(len, factors)) == 2
    assert all(len(set(parts)) == len(parts) for parts in factors)
    assert model.score(table, response) > 0.9


def test_growth_holds_large_products_back(table: pd.DataFrame, response: np.ndarray) -> None:
    free = HierarchicalMKL(growth=1.5, alpha=0.01).fit(table, response)
    held = HierarchicalMKL(growth=50.0, alpha=0.01).fit(table, response)
    assert "age x dose" in free.kernel_names_
    assert all(" x " not in name for name in held.kernel_names_)
    assert held.n_visited_ <= free.n_visited_


def test_without_an_intercept_the_constant_kernel_takes_its_place(table: pd.DataFrame, response: np.ndarray) -> None:
    model = HierarchicalMKL(fit_intercept=False).fit(table, response + 5.0)
    assert "1" in model.kernel_names_
    assert model.intercept_ == 0.0
    constant = model.decompose(table)[list(model.kernel_names_).index("1")]
    assert np.ptp(constant) < 1e-12
    assert constant[0] > 1.0


def test_rows_of_weight_zero_are_absent(table: pd.DataFrame, response: np.ndarray) -> None:
    weight = np.where(np.arange(N) < 80, 1.0, 0.0)
    model = HierarchicalMKL().fit(table, response, sample_weight=weight)
    absent = HierarchicalMKL().fit(table.head(80), response[:80])
    np.testing.assert_allclose(model.predict(table), absent.predict(table))


def test_pickles_and_clones(table: pd.DataFrame, response: np.ndarray) -> None:
    model = HierarchicalMKL(Gaussian(2.0), degree=2, growth=3.0).fit(table, response)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(table), model.predict(table))
    assert clone(model).get_params() == model.get_params()


def test_an_unfinished_search_warns_with_what_to_do(table: pd.DataFrame, response: np.ndarray) -> None:
    with pytest.warns(ConvergenceWarning, match=r"stalled.*reached max_kernels=4: increase it"):
        model = HierarchicalMKL(max_kernels=4, alpha=1e-3).fit(table, response)
    assert model.n_visited_ == 4
    with pytest.warns(ConvergenceWarning, match=r"max_iter.*above tol 1.00e-03"):
        HierarchicalMKL(resources={"max_iter": 1}, alpha=1e-3).fit(table, response)


def test_an_interrupt_keeps_the_best_model(
    table: pd.DataFrame, response: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = []

    class Interrupting(module.Limits):  # type: ignore[name-defined, misc]
        def __init__(self, *args: Any, **more: Any) -> None:
            super().__init__(*args, **(more | {"callback": self._count}))

        def _count(self, record: Any) -> None:
            rounds.append(record)
            if len(rounds) == 3:
                raise KeyboardInterrupt

    monkeypatch.setattr(module, "Limits", Interrupting)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model = HierarchicalMKL(tol=1e-9, alpha=1e-3).fit(table, response)
    assert model.solution_.status is Status.INTERRUPTED
    assert model.dual_gap_ == min(record.relative_gap for record in rounds)
    assert model.score(table, response) > 0.3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kernels": "cubic"}, "kernels must be a kernel or one of polynomial, multilinear, anova, got 'cubic'"),
        ({"kernels": "precomputed"}, "kernels must be a kernel or one of"),
        ({"degree": 0}, "degree must be an integer of at least 1, got 0"),
        ({"degree": "3"}, "degree must be an integer"),
        ({"growth": 0.5}, "growth must be at least 1, got 0.5"),
        ({"max_kernels": 0}, "max_kernels must be an integer of at least 1, got 0"),
        ({"loss": "huber"}, "HierarchicalMKL has no loss 'huber'. Its losses: squared, logistic, hinge, squared_hinge"),
        ({"alpha": 0.0}, "alpha"),
        ({"tol": -1.0}, "tol must be"),
        ({"resources": {"max_iter": 0}}, "max_iter must be an integer of at least 1, got 0"),
    ],
)
def test_bad_parameters_are_explained(table: Any, response: Any, change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        HierarchicalMKL(**change).fit(table, response)


def test_missing_values_are_explained(table: pd.DataFrame, response: np.ndarray) -> None:
    table.loc[3, "dose"] = np.nan
    with pytest.raises(InvalidInputError, match=r"dose.*NaN|NaN.*dose"):
        HierarchicalMKL().fit(table, response)


# Small data of the checks: few columns, few rows; some targets are constant within tol.
@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:No kernel was selected:UserWarning")
@pytest.mark.filterwarnings("ignore::manykernels.ConvergenceWarning")
@parametrize_with_checks(
    [HierarchicalMKL("anova", degree=2, loss="logistic", tol=1e-2)],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES,
)
def test_scikit_learn_accepts_the_classifier(estimator: Any, check: Any) -> None:
    check(estimator)
