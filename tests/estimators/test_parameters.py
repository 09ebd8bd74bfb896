"""The table of parameters: it says what the estimators do, and what it says is held to, used or not."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from sklearn.base import clone

from manykernels import (
    GaussianMKL,
    InvalidInputError,
    MKLClassifier,
    MKLClassifierCV,
    MKLRegressor,
    MKLRegressorCV,
    regularization_path,
)
from manykernels.estimators.parameters import DEFAULT_LOSS, GROUPS, PARAMETERS, check_parameters, defaults
from manykernels.objective.losses import LOSSES, Huber
from manykernels.objective.regularizers import REGULARIZERS

X = np.random.default_rng(0).uniform(-2.0, 2.0, size=(40, 2))
Y = np.sin(2.0 * X[:, 0])
SUPERVISED = [MKLClassifier, MKLRegressor, MKLClassifierCV, MKLRegressorCV]
NUMBERS = [parameter for parameter in PARAMETERS.values() if parameter.range is not None]


@pytest.mark.parametrize("kind", [*SUPERVISED, regularization_path])
def test_defaults_are_those_of_the_table(kind):
    given = inspect.signature(kind).parameters
    searched = {"penalty"} if hasattr(kind, "cv_frame") else set()  # cross-validation searches penalties
    shared = [name for name in PARAMETERS if name in given and name not in {"loss"} | searched]
    assert len(shared) >= 6
    assert {name: given[name].default for name in shared} == defaults(*shared)


@pytest.mark.parametrize("kind", SUPERVISED)
def test_the_default_loss_is_that_of_the_task(kind):
    assert kind().loss == DEFAULT_LOSS[kind._task]


@pytest.mark.parametrize("kind", [MKLClassifier, MKLRegressor])
def test_every_parameter_is_in_the_table_or_needs_the_data(kind):
    places = {parameter.place for parameter in PARAMETERS.values()}
    assert set(kind().get_params()) - places <= {"kernels", "class_weight", "kernel_penalties", *GROUPS}


def test_every_parameter_of_a_loss_or_penalty_is_in_the_table():
    for kind in (*LOSSES.values(), *REGULARIZERS.values()):
        assert set(inspect.signature(kind).parameters) - {"strength"} <= set(PARAMETERS)


@pytest.mark.parametrize("parameter", NUMBERS, ids=lambda parameter: parameter.name)
def test_ranges_are_what_is_checked(parameter):
    ends = [end for end in (parameter.range.low, parameter.range.high) if np.isfinite(end)]
    steps = [1.0] if parameter.range.whole else [1e-9, 0.25]
    candidates = {end + sign * step for end in ends for step in (0.0, *steps) for sign in (-1, 1)} | {np.inf}
    for value in candidates:
        value = int(value) if parameter.range.whole and np.isfinite(value) else value
        if value in parameter.range:
            parameter.check(value)
        else:
            with pytest.raises(InvalidInputError, match=parameter.name):
                parameter.check(value)


@pytest.mark.parametrize(
    "wrong",
    [
        *({"q": -5}, {"eta": 99}, {"p": 0}, {"tol": "x"}, {"fit_intercept": "yes"}, {"solver": "newton"}),
        *({"loss_parameters": own} for own in ({"epsilon": -1}, {"delta": 0}, {"tau": 1}, {"sigma": 1})),
        *({"resources": own} for own in ({"verbose": -1}, {"n_jobs": 0}, {"memory_budget": "much"}, {"jobs": 2})),
        {"resources": 3},
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", [MKLRegressor, MKLRegressorCV])
def test_parameters_that_nothing_uses_are_checked_too(kind, wrong):
    ((name, value),) = wrong.items()
    with pytest.raises(InvalidInputError, match=next(iter(value)) if isinstance(value, dict) else name):
        kind(**wrong).fit(X, Y)


def test_the_ratio_of_an_elastic_net_is_checked_without_one():
    with pytest.raises(InvalidInputError, match="l1_ratio"):
        MKLRegressor(l1_ratio=2).fit(X, Y)


def test_a_loss_and_a_penalty_as_objects_leave_the_rest_checked():
    with pytest.raises(InvalidInputError, match="delta"):
        MKLRegressor(loss=Huber(1.0), loss_parameters={"delta": -1.0}).fit(X, Y)


def test_searches_are_checked_by_the_same_table():
    with pytest.raises(InvalidInputError, match="fit_intercept must be True or False"):
        GaussianMKL(fit_intercept=None).fit(X, Y)


def test_names_that_the_table_does_not_know_are_left_alone():
    check_parameters({"cv": object(), "kernels": object()})


# --- the quantile ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tau", [0.2, 0.5, 0.9])
def test_that_share_of_targets_lies_below_the_quantile(tau):
    rng = np.random.default_rng(1)
    x = rng.uniform(-1.0, 1.0, size=(200, 1))
    y = x[:, 0] + rng.normal(size=200)
    model = MKLRegressor(loss="quantile", loss_parameters={"tau": tau}, alpha=0.05).fit(x, y)
    assert model.dual_gap_ <= 1e-4
    assert abs(float(np.mean(y <= model.predict(x))) - tau) <= 0.05


def test_tau_goes_through_cross_validation_path_and_clone():
    model = MKLRegressorCV(loss="quantile", loss_parameters={"tau": 0.9}, alphas=[0.05], cv=5).fit(X, Y)
    assert clone(model).loss_parameters == {"tau": 0.9}
    path = regularization_path(X, Y, loss="quantile", loss_parameters={"tau": 0.9}, alphas=[model.alpha_])
    plain = MKLRegressor(loss="quantile", loss_parameters={"tau": 0.9}, alpha=model.alpha_).fit(X, Y)
    np.testing.assert_allclose(path.solutions[0].certificate.primal, plain.solution_.certificate.primal, rtol=1e-3)
    np.testing.assert_allclose(model.predict(X), plain.predict(X), atol=1e-6)
