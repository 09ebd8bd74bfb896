"""Every registered loss runs the whole contract; a corrupted loss does not get through it."""

from __future__ import annotations

import inspect
import pickle
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manykernels.exceptions import InvalidInputError
from manykernels.objective.losses import (
    LOSSES,
    EpsilonInsensitive,
    Gamma,
    Hinge,
    Huber,
    Logistic,
    Poisson,
    Quantile,
    Squared,
    SquaredHinge,
    get_loss,
    pointwise,
)
from manykernels.objective.losses.base import Loss, piecewise_linear_minimizer
from manykernels.testing.objective import LossContract, valid_targets

INSTANCES = (
    Logistic(),
    Hinge(),
    SquaredHinge(),
    Squared(),
    EpsilonInsensitive(),
    EpsilonInsensitive(0.0),
    EpsilonInsensitive(0.7),
    Huber(),
    Huber(0.3),
    Quantile(),
    Quantile(0.9),
    Poisson(),
    Gamma(),
)
finite = st.floats(-1e6, 1e6)


class TestEveryLoss(LossContract):
    @pytest.fixture(params=INSTANCES, ids=repr)
    def loss(self, request: pytest.FixtureRequest) -> Loss:
        return request.param


def test_every_concrete_loss_is_registered_and_tested() -> None:
    found = {
        kind
        for kind in vars(pointwise).values()
        if inspect.isclass(kind) and issubclass(kind, Loss) and not inspect.isabstract(kind)
    }
    assert found == set(LOSSES.values()) == {type(loss) for loss in INSTANCES}
    assert all(name == kind.name for name, kind in LOSSES.items())


@dataclass(frozen=True)
class WrongConjugate(Logistic):
    def _conjugate_inside(self, y, r):
        return super()._conjugate_inside(y, r) + 1e-4


@dataclass(frozen=True)
class WrongSign(Hinge):
    def conjugate_derivative(self, y, r):
        return -super().conjugate_derivative(y, r)


@dataclass(frozen=True)
class WrongBox(Huber):
    def dual_bounds(self, y):
        lo, hi = super().dual_bounds(y)
        return lo, 1.1 * hi


@dataclass(frozen=True)
class WrongIntercept(Squared):
    def best_intercept(self, y, f, sample_weight):
        return float(np.mean(y - f))


@pytest.mark.parametrize(
    ("loss", "law"),
    [
        (WrongConjugate(), "test_fenchel_young_equality"),
        (WrongConjugate(), "test_conjugate_is_the_supremum"),
        (WrongSign(), "test_conjugate_derivatives_match_differences"),
        (WrongBox(), "test_conjugate_is_the_supremum"),
        (WrongIntercept(), "test_best_intercept_minimizes"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_the_contract_catches_a_corrupted_loss(loss: Loss, law: str) -> None:
    with pytest.raises(AssertionError):
        getattr(LossContract(), law)(loss)


@given(y=finite, z=finite, share=st.floats(0, 1), loss=st.sampled_from(INSTANCES))
def test_fenchel_young_for_any_numbers(y: float, z: float, share: float, loss: Loss) -> None:
    number = {"real": y, "non-negative": abs(y), "positive": abs(y) + 1e-6}[loss.support]
    target = np.array([np.sign(y) or 1.0 if loss.task == "classification" else number])
    lo, hi = (np.clip(end, -1e3, 1e3) for end in loss.dual_bounds(target))
    r, score = lo + share * (hi - lo), np.array([z])
    gap = loss.value(target, score) + loss.conjugate(target, r) + r * score
    rounding = 1e-13 * (1 + abs(y) + abs(z)) * (1 + np.abs(r) + abs(y) + abs(z))
    assert gap[0] >= -rounding[0]


@given(
    f=st.lists(st.floats(-1e3, 1e3), min_size=4, max_size=12),
    loss=st.sampled_from(INSTANCES),
    seed=st.integers(0, 1000),
)
def test_best_intercept_satisfies_stationarity(f: list[float], loss: Loss, seed: int) -> None:
    """Zero lies between the weighted slopes just left and just right of the minimizer."""
    rng = np.random.default_rng(seed)
    y = valid_targets(loss, rng, len(f))
    scores, weight = np.array(f), rng.uniform(0.1, 2.0, len(f))
    b = loss.best_intercept(y, scores, weight)
    step = 1e-9 * (1 + np.abs(scores).max())
    left = weight @ loss.derivative(y, scores + b - step)
    right = weight @ loss.derivative(y, scores + b + step)
    tolerance = 1e-9 * weight.sum() * (1 + np.abs(scores).max())
    assert left <= tolerance
    assert right >= -tolerance


def test_best_intercept_closed_forms() -> None:
    y, f, ones = np.array([1.0, 2.0, 9.0, 11.0]), np.zeros(4), np.ones(4)
    assert Squared().best_intercept(y, f, ones) == pytest.approx(np.mean(y), rel=1e-14)
    assert Quantile(0.5).best_intercept(y, f, ones) == pytest.approx(5.5)
    assert EpsilonInsensitive(0.0).best_intercept(y, f, ones) == pytest.approx(5.5)
    labels = np.array([1.0, 1.0, 1.0, -1.0])
    assert Logistic().best_intercept(labels, f, ones) == pytest.approx(np.log(3.0), rel=1e-14)
    assert Hinge().best_intercept(labels, f, ones) == pytest.approx(1.0)
    assert Hinge().best_intercept(np.ones(4), f, ones) == pytest.approx(1.0)
    assert Hinge().best_intercept(-np.ones(4), f, ones) == pytest.approx(-1.0)


def test_piecewise_linear_minimizer_takes_the_middle_of_a_flat_bottom() -> None:
    points, jumps = np.array([4.0, 0.0, 6.0, 2.0]), np.ones(4)
    assert piecewise_linear_minimizer(points, jumps, -2.0) == pytest.approx(3.0)
    assert piecewise_linear_minimizer(points, jumps, -1.5) == pytest.approx(2.0)
    assert piecewise_linear_minimizer(points, jumps, 0.0) == pytest.approx(0.0)
    assert piecewise_linear_minimizer(points, jumps, -4.0) == pytest.approx(6.0)


def test_kinks_are_met_up_to_rounding() -> None:
    """A score that was computed as target plus epsilon may miss the edge of the tube by an ulp."""
    y = np.array([0.3, 1e6, -7.7])
    loss = EpsilonInsensitive(0.1)
    np.testing.assert_array_equal(loss.dual_distance(y, y - 0.1, np.full(3, 0.5)), 0.0)
    np.testing.assert_array_equal(loss.dual_distance(y, y + 0.1, np.full(3, 0.5)), 0.5)
    np.testing.assert_array_equal(loss.dual_distance(y, y, np.full(3, 0.5)), 0.5)
    one = np.array([1.0])
    assert Hinge().dual_distance(one, np.array([1 + 1e-15]), np.array([0.4]))[0] == 0
    assert Hinge().dual_distance(one, np.array([1.1]), np.array([0.4]))[0] == pytest.approx(0.4)
    assert Hinge().dual_distance(one, np.array([0.9]), np.array([0.4]))[0] == pytest.approx(0.6)


def test_logistic_conjugate_keeps_its_digits_near_the_ends() -> None:
    r = np.array([1e-200, 1e-17, 1e-9])
    expected = r * np.log(r) - r + r**2 / 2
    np.testing.assert_allclose(Logistic().conjugate(np.ones(3), r), expected, rtol=1e-14)


@dataclass(frozen=True)
class OwnConjugate(Squared):
    def conjugate(self, y, r):
        return super().conjugate(y, r) + 1.0


def test_conjugates_of_known_targets_are_those_of_the_loss() -> None:
    y, r = np.array([-1.0, 1.0, 1.0]), np.array([-0.3, 0.4, 1.5])
    for loss in (Logistic(), Squared(), Hinge(), OwnConjugate()):
        np.testing.assert_array_equal(loss.conjugate_of(y)(r), loss.conjugate(y, r))
        bound = loss.bind(y, np.array([1.0, 2.0, 4.0]))
        assert bound.conjugate(np.array([1.0, 2.0, 4.0]) * r) == pytest.approx(loss.conjugate(y, r) @ [1.0, 2.0, 4.0])


@pytest.mark.parametrize("loss", INSTANCES, ids=repr)
def test_losses_are_values(loss: Loss) -> None:
    assert pickle.loads(pickle.dumps(loss)) == loss
    assert hash(loss) == hash(replace(loss))
    assert get_loss(loss) is loss


def test_get_loss_by_name() -> None:
    assert get_loss("quantile", tau=0.2) == Quantile(0.2)
    assert {name: get_loss(name).name for name in LOSSES} == {name: name for name in LOSSES}


@pytest.mark.parametrize(
    ("arguments", "params", "message"),
    [
        (("logit",), {}, "Unknown loss 'logit'. Known losses: logistic, hinge"),
        ((None,), {}, "Unknown loss None"),
        (("hinge",), {"epsilon": 1.0}, "does not take \\['epsilon'\\]"),
        ((Huber(),), {"delta": 2.0}, "already has its parameters"),
        (("huber",), {"delta": 0.0}, "delta must be a finite positive number, got 0.0"),
        (("epsilon_insensitive",), {"epsilon": -1.0}, "epsilon must be a finite non-negative number"),
        (("quantile",), {"tau": 1.0}, "strictly between 0 and 1, got 1.0"),
    ],
)
def test_bad_losses_are_refused(arguments, params, message) -> None:
    with pytest.raises(InvalidInputError, match=message):
        get_loss(*arguments, **params)


@pytest.mark.parametrize(
    ("loss", "y", "message"),
    [
        (Hinge(), [0, 1], "needs labels -1 and \\+1, but y contains \\[0.0\\]"),
        (Hinge(), [np.nan, 1], "needs labels -1 and \\+1, but y contains \\[nan\\]"),
        (Poisson(), [0.0, -1.0, 2.0, -3.0], "zero or more, but 2 of 4 targets are not, such as \\[-3.0, -1.0\\]"),
        (Gamma(), [1.0, 0.0], "amounts above zero, but 1 of 2 targets are not, such as \\[0.0\\]"),
        (Squared(), [0.0, np.inf], "1 NaN or infinite value\\(s\\), the first at index \\(1,\\)"),
        (Squared(), ["a", "b"], "y must contain numbers"),
        (Squared(), [[1.0], [2.0]], "shape \\(2, 1\\)"),
        (Squared(), [], "non-empty vector"),
    ],
)
def test_bad_targets_are_refused(loss: Loss, y: object, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        loss.check_target(y)
