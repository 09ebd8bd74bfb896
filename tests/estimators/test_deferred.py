"""What a fit puts off is what it would have found, whenever it is asked for, and is asked for when a model is saved."""

from __future__ import annotations

import copy
import pickle
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import manykernels.estimators.supervised.base as base
import manykernels.estimators.supervised.importance as importance
from manykernels import KernelBank, MKLClassifier, MKLRegressor, MKLRegressorCV, MKLSurvival, survival_array
from manykernels.estimators.permutations import PermutedTargets
from manykernels.estimators.supervised.deferred import QUESTIONS, Answer, put_off, settle

if TYPE_CHECKING:
    from collections.abc import Callable

rng = np.random.default_rng(0)
X = rng.uniform(-2, 2, (60, 3))
Y = np.sin(2 * X[:, 1])
TARGETS: dict[str, Any] = {
    "numbers": Y,
    "labels": X[:, 1] > 0,
    "times": survival_array(np.ones(60, dtype=bool), np.exp(Y)),
}
GAUSSIANS = KernelBank.per_feature(widths=[0.5, 2.0])
MODELS: dict[str, tuple[Callable[[], Any], str, set[str]]] = {
    "noise of matrices": (MKLRegressor, "numbers", {"noise"}),
    "noise of a search": (partial(MKLRegressorCV, GAUSSIANS, penalty="l1", cv=2), "numbers", {"noise"}),
    "kinks": (partial(MKLClassifier, loss="hinge"), "labels", {"noise", "importance"}),
    "times on factors": (
        partial(MKLSurvival, GAUSSIANS, alpha=0.05, resources={"representation": "factored"}),
        "times",
        {"importance"},
    ),
    "numbers on factors": (
        partial(MKLRegressor, GAUSSIANS, alpha=0.05, resources={"representation": "factored"}),
        "numbers",
        {"importance"},
    ),
    "more factors than rows": (
        partial(
            MKLRegressor,
            KernelBank.per_feature(widths=[0.02, 0.05, 0.1]),
            alpha=1e-4,
            resources={"representation": "factored"},
        ),
        "numbers",
        {"importance"},
    ),
}


def told(model: Any) -> list[Any]:
    """Return all that is put off."""
    return [model.noise_p_value_, model.above_noise_, model.importance_frame(), model.importance_frame("kernel")]


def assert_same(one: list[Any], other: list[Any]) -> None:
    """Compare to the last bit."""
    assert one[0] == other[0]
    assert np.array_equal(one[1], other[1])
    for frame, same in zip(one[2:], other[2:], strict=True):
        assert frame.equals(same)


@pytest.mark.sampled(3)
@pytest.mark.filterwarnings("ignore:The best strength")
@pytest.mark.parametrize("name", MODELS)
def test_what_is_put_off_is_what_the_fit_would_have_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, kind, put = MODELS[name]
    rows, target = X.copy(), TARGETS[kind].copy()
    model = make().fit(rows, target)
    assert set(vars(model).get(QUESTIONS, {})) == put
    prediction = model.predict(X)
    double, loaded = copy.copy(model), pickle.loads(pickle.dumps(copy.copy(model)))
    assert QUESTIONS not in vars(loaded)
    rows[:], target[:] = 0, target[0]  # the rows are the user's
    for module in (base, importance):
        monkeypatch.setattr(module, "MOST_BYTES", 0)
    at_once = make().fit(X, TARGETS[kind])
    assert QUESTIONS not in vars(at_once)
    for other in (model, double, loaded):
        assert_same(told(other), told(at_once))
        assert QUESTIONS not in vars(other)
    assert np.array_equal(model.predict(X), prediction)


def test_a_fit_and_predictions_ask_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []
    monkeypatch.setattr(PermutedTargets, "more", lambda *_: calls.append(_))
    model = MKLClassifier(loss="hinge").fit(X, TARGETS["labels"])
    model.predict(X)
    copy.copy(model)
    assert not calls
    assert "_lost_by" not in vars(model)


def test_more_orders_of_noise_wait_also_where_matrices_are_larger_than_what_may_be_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[object] = []
    monkeypatch.setattr(PermutedTargets, "more", lambda self, levels, stack: calls.append(stack) or levels)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(430, 6))
    bank = KernelBank.per_feature(widths=np.geomspace(0.5, 2.0, 4).tolist(), standardize=True)
    model = MKLRegressor(bank, resources={"representation": "gram"}).fit(X, np.sin(2 * X[:, 0]))
    assert base.MOST_BYTES < 4 * 24 * 430 * 431
    assert not calls
    assert not np.isnan(model.noise_p_value_)
    assert [stack.n_samples for stack in calls] == [430]  # built anew, for those who ask


def test_another_fit_lets_go_of_what_was_put_off() -> None:
    model = MKLRegressor().fit(X, Y)
    first = model.above_noise_
    again = model.fit(X[:, [1, 0, 2]], Y).above_noise_
    assert np.array_equal(again, MKLRegressor().fit(X[:, [1, 0, 2]], Y).above_noise_)
    assert not np.array_equal(first, again)
    assert QUESTIONS not in vars(model.fit(X[:, :1], Y[::-1]))  # in doubt, all orders are drawn


def test_a_question_is_answered_once_and_what_is_missing_is_an_attribute_error() -> None:
    class Model:
        known, unknown = Answer("it"), Answer("it")

    calls: list[int] = []
    model = Model()
    put_off(model, "it", ["known"], lambda: calls.append(1) or {"known": len(calls)})  # type: ignore[func-returns-value]
    double = copy.copy(model)
    assert (model.known, model.known, double.known, calls) == (1, 1, 1, [1])
    with pytest.raises(AttributeError, match="'Model' object has no attribute 'unknown'"):
        _ = model.unknown
    settle(model)
    assert vars(model) == {"known": 1}
