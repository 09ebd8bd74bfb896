"""Names of other libraries lead to ours."""

from __future__ import annotations

import inspect
import pickle
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from manykernels import (
    InvalidInputError,
    KernelBank,
    Linear,
    MKLClassifier,
    MKLClassifierCV,
    MKLRegressor,
    PolynomialMKL,
    predictive_importance,
    solve,
)
from manykernels.inspection import KernelWeightsDisplay, kernel_tests
from manykernels.objective import get_loss, get_regularizer
from manykernels.objective.losses import LOSSES
from manykernels.objective.regularizers import REGULARIZERS
from manykernels.validation.parameters import LOSS_NAMES, PARAMETER_NAMES, PENALTY_NAMES, hint

X, Y = np.eye(4), np.array([0.0, 1.0, 0.0, 1.0])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: MKLClassifier(penalty="l2").fit(X, Y), r"Unknown penalty 'l2'.*For 'l2' take 'ridge'\."),
        (lambda: MKLClassifier(loss="log_loss").fit(X, Y), "For 'log_loss' take 'logistic'"),
        (lambda: MKLRegressor(loss="Squared_Error").fit(X, Y), "For 'Squared_Error' take 'squared'"),
        (lambda: MKLClassifierCV(penalty="elastic-net").fit(X, Y), "take 'elasticnet'"),
        (lambda: PolynomialMKL(loss="log_loss").fit(X, Y), "PolynomialMKL has no loss 'log_loss'.*take 'logistic'"),
        (lambda: get_loss("hings"), "take 'hinge'"),
        (lambda: get_regularizer("lasso", 1.0), "take 'l1'"),
    ],
)
def test_names_of_losses_and_penalties(make: Any, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        make()


@pytest.mark.parametrize(
    ("kind", "name", "words"),
    [
        (MKLClassifier, "C", r"MKLClassifier has no parameter 'C'. Take alpha, .* alpha=1 / \(C \* n_samples\)"),
        (MKLClassifierCV, "C", r"Take alphas, .* alpha=1 / \(C \* n_samples\)"),
        (MKLRegressor, "penality", r"Take penalty\."),
        (MKLRegressor, "gamma", "width"),
        (PolynomialMKL, "kernel", "has no parameter 'kernel'. It has: degree, p"),
        (MKLRegressor, "hue", "It has: kernels, loss, loss_parameters"),
    ],
)
def test_names_of_parameters(kind: Any, name: str, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        kind(**{name: 1.0})


def test_the_constructor_is_what_it_was() -> None:
    assert list(inspect.signature(MKLRegressor).parameters)[:2] == ["kernels", "loss"]
    model = MKLRegressor(alpha=0.2)
    assert clone(model).get_params() == pickle.loads(pickle.dumps(model)).get_params() == model.get_params()
    with pytest.raises(TypeError, match="positional"):
        MKLRegressor(None, "squared", "l1", 1.0, 2.0)  # type: ignore[misc]


def test_every_hint_leads_to_something_that_there_is() -> None:
    assert set(LOSS_NAMES.values()) <= set(LOSSES)
    assert set(PENALTY_NAMES.values()) <= set(REGULARIZERS)
    assert not set(LOSS_NAMES) & set(LOSSES)
    assert not set(PENALTY_NAMES) & set(REGULARIZERS)
    own = set(MKLRegressor().get_params(deep=False))
    assert not own & set(PARAMETER_NAMES)
    assert hint(3, LOSSES, LOSS_NAMES) == hint("cubic", LOSSES, LOSS_NAMES) == ""


def test_an_alpha_relative_to_the_largest_can_be_asked_for_by_numbers() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(50, 4))
    y = np.sin(rows[:, 0]) + 0.1 * rng.normal(size=50)
    for penalty in ("elasticnet", "group_elasticnet"):
        model = MKLRegressor(penalty=penalty, alpha="0.1*max", l1_ratio=0.7, tol=1e-9).fit(rows, y)
        again = MKLRegressor(penalty=penalty, alpha=model.alpha_, l1_ratio=model.l1_ratio_, tol=1e-9).fit(rows, y)
        assert model.l1_ratio_ != 0.7
        assert again.l1_ratio_ == pytest.approx(model.l1_ratio_, rel=1e-12)
        primal = again.solution_.certificate.primal
        assert primal == pytest.approx(model.solution_.certificate.primal, rel=1e-12)
        np.testing.assert_allclose(again.predict(rows), model.predict(rows), rtol=0, atol=1e-8)
    several = MKLRegressor(penalty="elasticnet").fit(rows, np.column_stack([y, y**2]))
    assert several.l1_ratio_.shape == several.alpha_.shape == (2,)
    assert not hasattr(several.set_params(penalty="l1").fit(rows, y), "l1_ratio_")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"C": 1.0}, r"solve has no parameter 'C'\. Take alpha: C of scikit-learn is alpha=1 / \(C \* n_samples\)"),
        ({"regularizer": "l1"}, "Take penalty, such as penalty='l1'"),
        ({"penalty": "l1", "relative_strength": 0.1}, r"Take alpha, such as alpha='0\.1\*max'"),
        ({"loss_parameters": {"tau": 0.9}}, r"Take loss, which has them, such as loss=get_loss\('quantile', tau=0.9\)"),
        ({"penalty": "l1", "n_iter": 5}, "Take max_iter"),
    ],
)
def test_solve_says_which_argument_is_meant(given: dict[str, Any], words: str) -> None:
    with pytest.raises(TypeError, match=words):
        solve(np.eye(4)[None], Y, loss="squared", **given)


def test_solve_keeps_its_signature() -> None:
    assert "penalty" in inspect.signature(solve).parameters


@pytest.mark.parametrize(
    ("attempt", "words"),
    [
        (lambda: KernelBank.per_feature(width=1), "KernelBank.per_feature has no parameter 'width'. Take widths, such"),
        (lambda: KernelBank.joint(gamma=0.5), "Take widths, such as widths=[0.5]: gamma is 1 / (2 * width**2)."),
        (lambda: KernelBank.joint(degree=2), "Take specs, the first argument, such as Polynomial(2)."),
        (lambda: KernelBank.per_feature(Linear(), feature=["a"]), "no parameter 'feature'. It has: specs, columns,"),
        (lambda: KernelBank.per_feature(Linear(), column=["a"]), "no parameter 'column'. Take columns."),
        (lambda: KernelBank.auto(width=1), "KernelBank.auto has no parameter 'width'. It has: X, standardize,"),
        (lambda: KernelBank.auto(standardized=False), "no parameter 'standardized'. Take standardize."),
        (lambda: KernelBank.interactions(degree=2), "KernelBank.interactions has no parameter 'degree'. Take specs,"),
    ],
)
def test_constructors_of_banks_say_which_parameter_is_meant(attempt: Callable[[], Any], words: str) -> None:
    with pytest.raises(TypeError, match=re.escape(words)):
        attempt()


def test_kernels_are_counted_by_the_same_units_everywhere() -> None:
    X = np.random.default_rng(0).uniform(-2, 2, (60, 2))
    y = np.sin(2 * X[:, 1])
    model = MKLRegressor(KernelBank.per_feature(widths=[0.5, 1.0])).fit(X, y)
    with pytest.warns(FutureWarning, match="by='columns' is now by='view'"):
        assert model.importance_frame(by="columns").equals(model.importance_frame(by="view"))
    with pytest.warns(FutureWarning, match="by='feature' is now by='column'"):
        former = KernelWeightsDisplay.from_estimator(model, by="feature")
    assert former.by == "column"
    with pytest.warns(FutureWarning, match="by='feature' is now by='column'"):
        assert kernel_tests(model, X, y, by="feature").equals(kernel_tests(model, X, y, by="column"))
    with pytest.raises(InvalidInputError, match="by must be one of 'view', 'kernel', got 'feature'"):
        predictive_importance(model, X, y, by="feature")
