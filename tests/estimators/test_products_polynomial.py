"""PolynomialMKL from a table: interactions named by columns, predictions as sums of monomials, messages for people."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import replace
from functools import wraps
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from manykernels import ConvergenceWarning, Gaussian, InvalidInputError, PolynomialMKL
from manykernels.discovery import PolynomialDiscovery, discover_polynomial

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
    signal = 2 * table["age"] * table["dose"] ** 2 - table["height"]
    return np.asarray(signal + 0.1 * rng.normal(size=N))


def sparse(**more: Any) -> PolynomialMKL:
    return PolynomialMKL(**({"p": 1.0, "alpha": 1e-2, "tol": 1e-3, "random_state": 0, "n_steps": 20} | more))


def test_interactions_are_found_and_named(table: pd.DataFrame, response: np.ndarray) -> None:
    model = sparse().fit(table, response)
    frame = model.weights_frame()
    assert frame["name"].head(2).to_list() == ["age x dose x dose", "height"]
    assert frame["columns"][frame["name"] == "age x dose x dose"].item() == "age, dose"
    assert model.score(table, response) > 0.99
    assert (model.n_family_kernels_, model.certificate_method_) == (35, "enumeration")
    assert model.dual_gap_ <= 1e-3


def test_predictions_are_sums_of_monomials(table: pd.DataFrame, response: np.ndarray) -> None:
    model = sparse(p=1.5, normalize=None).fit(table, response)
    new = table.head(7) + 0.3
    Z, V = ((part - table.mean()) / table.std(ddof=0) for part in (table, new))
    rho = np.zeros(N)
    rho[model.support_] = model.dual_coef_
    parts = []
    for name, d in zip(model.kernel_names_, model.kernel_weights_, strict=True):
        factors = [] if name == "1" else name.split(" x ")
        phi, psi = (np.prod([part[c] for c in factors], axis=0) * np.ones(len(part)) for part in (Z, V))
        parts.append(d * psi * (phi @ rho))
    np.testing.assert_allclose(model.decompose(new), parts, atol=1e-9)
    np.testing.assert_allclose(model.predict(new), np.sum(parts, axis=0) + model.intercept_, rtol=1e-9)


@pytest.mark.parametrize("normalize", ["power", "centered"])
def test_normalized_monomials_predict_as_they_are_defined(table: Any, response: Any, normalize: str) -> None:
    model = sparse(normalize=normalize).fit(table, response)
    new = table.head(7) + 0.3
    Z, V = ((part - table.mean()) / table.std(ddof=0) for part in (table, new))
    rho = np.zeros(N)
    rho[model.support_] = model.dual_coef_
    parts = []
    for name, d in zip(model.kernel_names_, model.kernel_weights_, strict=True):
        phi, psi = np.ones(N), np.ones(len(new))
        factors = [] if name == "1" else name.split(" x ")
        for c in set(factors):
            power, other = Z[c] ** factors.count(c), V[c] ** factors.count(c)
            center = power.mean() if normalize == "centered" else 0.0
            scale = np.sqrt(np.mean((power - center) ** 2))
            phi, psi = phi * np.asarray(power - center) / scale, psi * np.asarray(other - center) / scale
        parts.append(d * psi * (phi @ rho))
    np.testing.assert_allclose(model.decompose(new), parts, atol=1e-9)


def test_the_unit_of_a_column_does_not_matter(table: pd.DataFrame, response: np.ndarray) -> None:
    plain = sparse(standardize=False).fit(table, response).predict(table)
    scaled = table * [1e3, 1e-2, 7.0, 1.0]
    np.testing.assert_allclose(sparse(standardize=False).fit(scaled, response).predict(scaled), plain, atol=0.02)


@pytest.mark.nightly
def test_cross_validation_and_the_second_step_find_what_made_the_target(table: Any, response: Any) -> None:
    first = sparse(cv=4).fit(table, response)
    second = sparse(cv=4, adaptive=True).fit(table, response)
    truth = 2 * table["age"] * table["dose"] ** 2 - table["height"]
    errors = [np.mean((model.predict(table) - truth) ** 2) for model in (first, second)]
    assert max(errors) < 1e-3 * truth.var()
    assert set(second.kernel_names_) >= {"age x dose x dose", "height"}
    assert len(second.kernel_names_) < len(first.kernel_names_)
    assert second.dual_gap_ <= 1e-6
    assert first.alpha_ == second.alpha_ != 1e-2
    # The strength was that of a lasso; the model that is certified at it has the same error.
    again = sparse(alpha=first.alpha_).fit(table, response)
    np.testing.assert_allclose(again.predict(table), first.predict(table), atol=0.05)


def test_a_second_step_at_a_given_strength_keeps_fewer(table: pd.DataFrame, response: np.ndarray) -> None:
    first, second = (sparse(adaptive=adaptive).fit(table, response) for adaptive in (False, True))
    assert set(second.kernel_names_) < set(first.kernel_names_)


def test_constant_targets_need_no_cross_validated_strength(table: pd.DataFrame) -> None:
    with pytest.warns(UserWarning, match="No kernel was selected"):
        model = sparse(cv=3).fit(table, np.ones(N))
    np.testing.assert_allclose(model.predict(table), 1.0)


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_classes_are_learned(table: pd.DataFrame, loss: str) -> None:
    labels = np.where(table["age"] * table["dose"] > 0, "up", "down")
    model = sparse(degree=2, loss=loss, alpha=1e-3).fit(table, labels)
    assert model.weights_frame()["name"][0] == "age x dose"
    assert model.score(table, labels) > 0.93
    assert set(model.predict(table)) == {"up", "down"}
    assert hasattr(model, "predict_proba") == (loss == "logistic")


@pytest.mark.nightly
def test_three_classes_share_a_bank(table: pd.DataFrame) -> None:
    labels = np.digitize(table["age"] * table["dose"], [-0.5, 0.5])
    model = sparse(degree=2, loss="logistic", alpha=1e-3).fit(table, labels)
    assert model.kernel_weights_.shape == (3, len(model.kernel_names_))
    np.testing.assert_allclose(model.predict_proba(table).sum(axis=1), 1.0)


@pytest.mark.parametrize("methods", [("bound", "enumeration"), ("enumeration", "bound"), ("identity", "bound")])
def test_the_method_is_the_least_exact_of_all_targets(
    table: pd.DataFrame, response: np.ndarray, methods: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = iter(methods)

    @wraps(discover_polynomial)
    def search(*args: Any, **options: Any) -> PolynomialDiscovery:
        return replace(discover_polynomial(*args, **options), method=next(names))

    monkeypatch.setattr("manykernels.estimators.searches.products.discover_polynomial", search)
    model = sparse(degree=2).fit(table, np.column_stack([response, -response]))
    assert (model.certificate_method_, model.n_family_kernels_) == ("bound", 15)


def test_penalized_degrees_are_used_less(table: pd.DataFrame, response: np.ndarray) -> None:
    plain = sparse().fit(table, response).weights_frame()
    held = sparse(degree_penalties=[1, 1, 1, 100.0]).fit(table, response).weights_frame()
    cubic = "age x dose x dose"
    assert cubic in plain["name"].to_list()
    assert cubic not in held["name"].to_list()


def test_other_base_kernels_multiply(table: pd.DataFrame, response: np.ndarray) -> None:
    model = sparse(base=Gaussian("median"), degree=2, alpha=1e-3).fit(table, response)
    assert any(name.count("gaussian") == 2 for name in model.kernel_names_)
    assert model.score(table, response) > 0.9


def test_a_pickled_model_predicts_the_same_bits(table: pd.DataFrame, response: np.ndarray) -> None:
    model = sparse(p=1.5).fit(table, response)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(table), model.predict(table))


def test_an_unfinished_search_warns_with_its_gap(table: pd.DataFrame, response: np.ndarray) -> None:
    with pytest.warns(ConvergenceWarning, match=r"over the whole family, above tol 1.00e-06. Raise max_kernels"):
        sparse(p=2.0, polish=False, n_steps=5, tol=1e-6).fit(table, response)


def test_cloning_keeps_every_parameter() -> None:
    model = PolynomialMKL(2, p=1.5, base=Gaussian(1.0), degree_penalties=[1, 1, 2])
    assert clone(model).get_params() == model.get_params()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"degree": 0}, "degree must be an integer of at least 1, got 0"),
        ({"degree": "3"}, "degree must be an integer"),
        ({"p": 3.0}, "p must lie between 1 and 2"),
        ({"base": "linear"}, "base must be a kernel such as"),
        ({"loss": "huber"}, "PolynomialMKL has no loss 'huber'. Its losses: squared, logistic, hinge"),
        ({"alpha": 0.0}, "alpha"),
        ({"cv": 1}, "cv must be an integer of at least 2, got 1"),
        ({"cv": 3, "p": 1.5}, "Cross-validation chooses the strength for the squared loss, p=1"),
        ({"normalize": "trace"}, "normalize must be 'power', 'centered' or None"),
        ({"degree_penalties": [1, 1]}, "degree_penalties"),
    ],
)
def test_bad_parameters_are_explained(table: Any, response: Any, change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        sparse(**change).fit(table, response)


def test_missing_values_are_explained(table: pd.DataFrame, response: np.ndarray) -> None:
    table.loc[3, "dose"] = np.nan
    with pytest.raises(InvalidInputError, match=r"dose.*NaN|NaN.*dose"):
        sparse().fit(table, response)


# Small data of the checks: few columns, few rows; some targets are constant within tol.
@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:No kernel was selected:UserWarning")
@pytest.mark.filterwarnings("ignore::manykernels.ConvergenceWarning")
@parametrize_with_checks(
    [PolynomialMKL(2, p=1.5, loss="logistic", n_steps=2, tol=1e-1, random_state=0)],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES,
)
def test_scikit_learn_accepts_the_classifier(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_weak_penalty_finds_the_interactions_that_make_the_target(seed: int) -> None:
    # A hundred draws out of 5456 products interpolate the target: what they leave of it must not lead the search.
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(700, 30))
    y = X[:, 0] * X[:, 1] + X[:, 2] ** 3 / 3 - X[:, 3] * X[:, 4] * X[:, 5]
    model = PolynomialMKL(p=1.1, alpha=1e-5, max_kernels=200, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X[:200], y[:200])
    error = np.mean((model.predict(X[200:]) - y[200:]) ** 2) / y[200:].var()
    assert error < 1e-4
    assert model.dual_gap_ < 0.1
    heaviest = model.weights_frame()["name"].head(3)
    assert set(heaviest) == {"x0 x x1", "x2 x x2 x x2", "x3 x x4 x x5"}
