"""Every registered regularizer runs the whole contract; a corrupted one does not get through it."""

from __future__ import annotations

import inspect
import pickle
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from manykernels.exceptions import InvalidInputError
from manykernels.objective.regularizers import (
    COMPOSED,
    REGULARIZERS,
    BlockL1,
    BlockLq,
    ElasticNet,
    ElasticNetBall,
    GroupElasticNet,
    LpBall,
    PenaltyByGroup,
    Regularizer,
    Ridge,
    Simplex,
    Tree,
    get_regularizer,
    groups,
    tree,
    weight_sets,
)
from manykernels.objective.regularizers import norms as regularizers
from manykernels.objective.regularizers.curve import power_prox, simplex_prox
from manykernels.objective.regularizers.groups import Unpenalized
from manykernels.testing.objective import RegularizerContract

INSTANCES = (
    BlockL1(0.7),
    ElasticNet(0.7),
    ElasticNet(0.7, l1_ratio=1.0),
    ElasticNet(0.7, l1_ratio=0.0),
    ElasticNet(2.0, l1_ratio=0.9),
    BlockLq(0.7),
    BlockLq(0.7, q=2.0),
    BlockLq(1.3, q=1.1),
    Ridge(0.7),
    Simplex(0.7),
    LpBall(0.7),
    LpBall(0.7, p=1.0),
    LpBall(2.0, p=1.1),
    LpBall(0.7, p=50.0),
    ElasticNetBall(0.7),
    ElasticNetBall(0.7, eta=0.0),
    ElasticNetBall(0.7, eta=1.0),
    ElasticNetBall(2.0, eta=0.9),
    GroupElasticNet(0.7),
    GroupElasticNet(2.0, l1_ratio=0.0, q=1.5),
    GroupElasticNet(0.7, l1_ratio=0.9, q=1.9),
    PenaltyByGroup(0.7, (0, 1), (Ridge(2.0), BlockL1(0.5)), owners=(0, 1, 1, 0, 1, 1, 0, 1)),
    PenaltyByGroup(0.7, (0, 1, 2), (Simplex(2.0), ElasticNet(0.5), BlockLq(1.0)), owners=(0, 1, 0, 2, 1, 2, 0, 1)),
    PenaltyByGroup(1.3, (0, 1), (Ridge(1.0), LpBall(0.5)), owners=(1, 0, 1, 0, 1, 1, 0, 1)),
    Tree(0.7),
    Tree(1.3, l1_ratio=0.9),
    Tree(0.7, {"a": {"b": (0, 1), "c": (2, 3)}, "d": (5, 6)}, l1_ratio=0.3).on_kernels("abcdefgh"),
    PenaltyByGroup(0.7, ((0, 3, 6), "*"), (BlockL1(2.0), Tree(1.0, {"a": (0, 1)}))).on_kernels("abcdefgh"),
)


class TestEveryRegularizer(RegularizerContract):
    @pytest.fixture(params=INSTANCES, ids=repr)
    def regularizer(self, request: pytest.FixtureRequest) -> Regularizer:
        return request.param


def test_every_concrete_regularizer_is_registered_and_tested() -> None:
    found = {
        kind
        for module in (regularizers, weight_sets, groups, tree)
        for kind in vars(module).values()
        if inspect.isclass(kind)
        and issubclass(kind, Regularizer)
        and hasattr(kind, "name")
        and not inspect.isabstract(kind)
    }
    found -= {Unpenalized}  # stands in mappings for no penalty, which has no strength
    assert found == {*REGULARIZERS.values(), *COMPOSED.values()} == {type(one) for one in INSTANCES}
    assert not set(REGULARIZERS) & set(COMPOSED)
    assert set(REGULARIZERS) == {
        "l1",
        "elasticnet",
        "lq",
        "ridge",
        "simplex",
        "lp_ball",
        "elasticnet_ball",
        "group_elasticnet",
    }


@dataclass(frozen=True)
class WrongConjugate(ElasticNet):
    def conjugate(self, u):
        return 1.001 * super().conjugate(u)


@dataclass(frozen=True)
class WrongScale(BlockL1):
    def dual_scale(self, u):
        return min(1.0, 1.01 * super().dual_scale(u))


@dataclass(frozen=True)
class WrongProx(Simplex):
    def prox(self, t, step):
        return np.maximum(np.asarray(t) - step * self.strength * np.sum(t), 0.0)


@dataclass(frozen=True)
class WrongWeights(LpBall):
    def best_theta(self, t):
        return super().best_theta(t) ** 1.01


@pytest.mark.parametrize(
    ("regularizer", "law"),
    [
        (WrongConjugate(0.7), "test_the_conjugate_is_attained"),
        (WrongScale(0.7), "test_dual_scale_is_feasible_and_largest"),
        (WrongProx(0.7), "test_prox_is_optimal"),
        (WrongProx(0.7), "test_prox_beats_a_grid"),
        (WrongWeights(0.7), "test_weights_turn_dual_norms_into_block_norms"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_the_contract_catches_a_corrupted_regularizer(regularizer: Regularizer, law: str) -> None:
    with pytest.raises(AssertionError):
        getattr(RegularizerContract(), law)(regularizer)


vectors = arrays(np.float64, st.integers(1, 8), elements=st.floats(0, 1e4))


@given(t=vectors, step=st.floats(1e-3, 1e3), regularizer=st.sampled_from(INSTANCES))
def test_prox_has_no_duality_gap(t, step, regularizer) -> None:
    """With ``v = (t - x)/step``, the prox is exact if and only if ``Omega(x) + Omega*(v) = x'v``."""
    regularizer = regularizer.take(np.arange(t.size))
    x = regularizer.prox(t, step)
    v = (t - x) / step
    v = v * regularizer.dual_scale(v)
    gap = regularizer.value(x) + regularizer.conjugate(v) - x @ v
    assert abs(gap) <= 1e-10 * (t @ t) / step + 1e-300


@given(a=vectors, step=st.floats(1e-3, 1e3), regularizer=st.sampled_from(INSTANCES), seed=st.integers(0, 99))
def test_prox_does_not_expand(a, step, regularizer, seed) -> None:
    b, regularizer = np.random.default_rng(seed).exponential(size=a.size), regularizer.take(np.arange(a.size))
    b *= 1 + a.max()
    moved = np.linalg.norm(regularizer.prox(a, step) - regularizer.prox(b, step))
    assert moved <= np.linalg.norm(a - b) * (1 + 1e-9)


@given(u=vectors, regularizer=st.sampled_from(INSTANCES))
def test_dual_scale_is_always_feasible(u, regularizer) -> None:
    regularizer = regularizer.take(np.arange(u.size))
    assert np.isfinite(regularizer.conjugate(regularizer.dual_scale(u) * u)) or not regularizer.dual_constraint


@pytest.mark.sampled(3)
@pytest.mark.parametrize("theta_set", [one for one in INSTANCES if one.weight_set], ids=repr)
def test_weight_sets_agree_with_their_definition(theta_set, rng) -> None:
    """Value and conjugate bound every feasible theta, and the weights attain the value."""
    t, u = rng.exponential(size=5), rng.exponential(size=5)
    theta = theta_set.strength * theta_set.weights(t, u)
    assert 0.5 * theta_set.strength * np.sum(t**2 / theta) == pytest.approx(theta_set.value(t), rel=1e-10)
    assert size_in_set(theta_set, theta) == pytest.approx(1.0, rel=1e-10)
    for _ in range(100):
        other = rng.exponential(size=5) ** 2
        other /= size_in_set(theta_set, other)
        assert 0.5 * theta_set.strength * np.sum(t**2 / other) >= theta_set.value(t) * (1 - 1e-12)
        assert other @ u**2 / (2 * theta_set.strength) <= theta_set.conjugate(u) * (1 + 1e-12)


def size_in_set(theta_set, theta) -> float:
    """Gauge of the set: 1 on its boundary, found by bisection from the defining inequality."""
    low, high = 0.0, 1e6
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if inside(theta_set, theta / middle) else (middle, high)
    return high


def inside(theta_set, theta) -> bool:
    if isinstance(theta_set, ElasticNetBall):
        return theta_set.eta * np.sum(theta) + (1 - theta_set.eta) * np.sum(theta**2) <= 1
    p = theta_set.p if isinstance(theta_set, LpBall) else 1.0
    return np.sum(theta**p) <= 1


def test_special_cases_agree(rng) -> None:
    t = rng.exponential(size=6)
    for one, two in [
        (ElasticNet(0.7, 1.0), BlockL1(0.7)),
        (ElasticNet(0.7, 0.0), Ridge(0.7)),
        (BlockLq(0.7, q=2.0), Ridge(0.7)),
        (LpBall(0.7, p=1.0), Simplex(0.7)),
        (ElasticNetBall(0.7, eta=1.0), Simplex(0.7)),
        (ElasticNetBall(0.7, eta=0.0), LpBall(0.7, p=2.0)),
    ]:
        assert one.value(t) == pytest.approx(two.value(t), rel=1e-12)
        assert one.conjugate(0.1 * t) == pytest.approx(two.conjugate(0.1 * t), rel=1e-12)
        np.testing.assert_allclose(one.prox(t, 0.3), two.prox(t, 0.3), rtol=1e-10, atol=1e-13)
        np.testing.assert_allclose(one.weights(t, 0.7 * t), two.weights(t, 0.7 * t), rtol=1e-10)


@pytest.mark.parametrize("regularizer", INSTANCES, ids=repr)
def test_strengths_of_several_targets_are_those_of_each(regularizer, rng) -> None:
    U = np.vstack([rng.uniform(size=(4, 8)), np.zeros(8)])
    for loss in (3.0, 0.0):
        each = [regularizer.strength_of_nothing_to_gain(u, loss) for u in U]
        np.testing.assert_allclose(regularizer.strengths_of_nothing_to_gain(U, loss), each, rtol=1e-12)
    assert regularizer.strengths_of_nothing_to_gain(U, 3.0)[:4].min() > 0


def test_simplex_prox_has_exact_zeros() -> None:
    x = simplex_prox(np.array([3.0, 2.9, 0.1, 0.0]), 1.0)
    np.testing.assert_allclose(x, [3 - 5.9 / 3, 2.9 - 5.9 / 3, 0, 0], rtol=1e-14)
    assert np.count_nonzero(x) == 2


def test_power_prox_keeps_tiny_solutions() -> None:
    """For q near 1 the solution is about (t/strength)^(1/(q-1)), far below rounding of t."""
    x = power_prox(np.array([1.0]), 2.0, 1.05)
    assert x[0] + 2.0 * x[0] ** 0.05 == pytest.approx(1.0, rel=1e-14)
    assert x[0] == pytest.approx(0.5**20, rel=1e-4)


def test_one_ulp_beyond_the_constraint_is_rounding() -> None:
    assert BlockL1(0.1).conjugate(np.array([np.nextafter(0.1, 1)])) == 0
    assert BlockL1(0.1).conjugate(np.array([0.1 * (1 + 1e-9)])) == np.inf


@pytest.mark.parametrize("regularizer", INSTANCES, ids=repr)
def test_regularizers_are_values(regularizer: Regularizer) -> None:
    assert pickle.loads(pickle.dumps(regularizer)) == regularizer
    assert get_regularizer(regularizer) is regularizer
    assert get_regularizer(regularizer, regularizer.strength) is regularizer


@pytest.mark.parametrize(
    ("arguments", "params", "message"),
    [
        (("lasso", 1.0), {}, "Unknown penalty 'lasso'. Known penalties: l1, elasticnet"),
        (("l1",), {}, "needs a strength"),
        (("l1", 0.0), {}, "strength must be a finite positive number, got 0.0"),
        (("l1", -1.0), {}, "strength must be a finite positive number"),
        (("l1", np.inf), {}, "strength must be a finite positive number"),
        (("l1", "a"), {}, "strength must be a positive number, got 'a'"),
        (("l1", 1.0), {"q": 1.5}, "does not take \\['q'\\]"),
        ((BlockL1(1.0), 2.0), {}, "already has its strength"),
        (("elasticnet", 1.0), {"l1_ratio": 1.1}, "l1_ratio must be a finite non-negative number of at most 1"),
        (("lq", 1.0), {"q": 1.0}, "q must satisfy 1 < q <= 2"),
        (("lq", 1.0), {"q": 2.5}, "q must be a finite positive number of at most 2"),
        (("lp_ball", 1.0), {"p": 0.5}, "p must be at least 1"),
        (("elasticnet_ball", 1.0), {"eta": -0.1}, "eta must be a finite non-negative number"),
    ],
)
def test_bad_regularizers_are_refused(arguments, params, message) -> None:
    with pytest.raises(InvalidInputError, match=message):
        get_regularizer(*arguments, **params)
