"""Strengths that noise reaches: the test against permuted targets, on all rows and on some."""

from __future__ import annotations

import copy
import warnings
from functools import partial

import numpy as np
import pytest

import manykernels.estimators.permutations as permutations
import manykernels.estimators.strength as strength
from manykernels import KernelBank, MKLClassifier, MKLRegressor
from manykernels.estimators.permutations import PermutedTargets, multiple_of, noise_levels
from manykernels.estimators.strength import p_value
from manykernels.grams.factored import FourierStack
from manykernels.objective import Problem, get_regularizer
from manykernels.objective.losses import get_loss
from manykernels.validation.arrays import Array

FACTORED = {"representation": "factored"}
WIDTHS = [0.1, 0.3, 1.0, 3.0]
N = 1000


def drawn(columns: int, effect: float, seed: int = 0) -> tuple[Array, Array]:
    """Return columns, and a target that the first of them has to do with."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, columns))
    return X, effect * np.sin(2.0 * X[:, 0]) + rng.normal(size=N)


def posed(X: Array, y: Array) -> Problem:
    """Return a problem on factors."""
    return Problem(FourierStack.grid(X, WIDTHS), y, get_loss("squared"), get_regularizer("l1", 1.0))


def test_a_target_of_noise_is_told_from_noise_in_one_of_twenty_cases() -> None:
    X, _ = drawn(2, 0.0)
    stack, rng = FourierStack.grid(X, WIDTHS), np.random.default_rng(1)
    chances = []
    for seed in range(200):
        problem = Problem(stack, rng.exponential(size=N), get_loss("squared"), get_regularizer("l1", 1.0))
        chances.append(p_value(noise_levels([problem], seed, n_permutations=19)))
    assert 2 <= np.sum(np.array(chances) <= 0.05) <= 21  # ten expected; of a fair test beyond in 1 of 1,000 cases
    assert 0.4 < np.mean(chances) < 0.65  # uniform on 0.05, 0.1, ..., 1: 0.525


def test_coefficients_that_are_multiples_of_others_are_known() -> None:
    rng = np.random.default_rng(0)
    rho = rng.normal(size=(300, 1))
    assert multiple_of(rho, -3.0 * rho) == pytest.approx(-3.0, rel=1e-15)
    assert multiple_of(rho, rho) == 1.0
    other = rho.copy()
    other[-1] *= 1.0 + 1e-9
    assert multiple_of(rho, other) is None
    assert multiple_of(rho, np.hstack([rho, rho])) is None
    assert multiple_of(np.zeros((300, 1)), rho) is None


@pytest.mark.parametrize("alpha", ["0.1*max", "0.3*noise"])
@pytest.mark.parametrize("representation", ["gram", "factored"])
def test_weights_of_two_classes_are_a_factor_and_their_plain_twin_takes_no_pass(
    alpha: str, representation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = drawn(2, 3.0)
    X, labels = X[:150], y[:150] > 1.0
    bank = KernelBank.per_feature(widths=WIDTHS)
    options = {"loss": "logistic", "alpha": alpha, "resources": {"representation": representation}}
    model = MKLClassifier(bank, class_weight="balanced", **options).fit(X, labels)
    monkeypatch.setattr("manykernels.estimators.permutations.multiple_of", lambda *_: None)
    apart = MKLClassifier(bank, class_weight="balanced", **options).fit(X, labels)
    assert model.alpha_ == pytest.approx(apart.alpha_, rel=1e-9)
    assert model.noise_ratio_ == pytest.approx(apart.noise_ratio_, rel=1e-9)
    assert model.noise_p_value_ == apart.noise_p_value_
    assert model.dual_gap_ <= model.tol


def test_kernels_that_are_compared_a_few_at_a_time_tell_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = drawn(4, 0.2)
    level = noise_levels([posed(X, y)], 0)[0]
    norms = level.norms.copy()
    norms[::3], permuted = 1.0, level.permuted.copy()
    permuted[:, ::3] = 1.0  # kernels that tell nothing apart
    whole, parts = (strength.NoiseLevel(norms, permuted, level.loss, constant=False) for _ in range(2))
    known = whole.relations, whole.significant, p_value([whole])
    monkeypatch.setattr(strength, "BLOCK", 5)
    np.testing.assert_allclose(parts.relations, known[0], rtol=1e-12)
    assert np.array_equal(parts.significant, known[1])
    assert p_value([parts]) == known[2]
    assert whole.relations[0].std() > 0


def among(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let some rows stand for all where there are as few as here."""
    monkeypatch.setattr(permutations, "ENOUGH_ROWS", N // 2)


def test_where_the_strength_is_given_some_rows_tell_what_is_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = drawn(3, 1.0)
    fit = partial(MKLRegressor(KernelBank.per_feature(widths=WIDTHS), alpha="0.1*max", resources=FACTORED).fit, X, y)
    whole = copy.copy(fit())
    among(monkeypatch)
    read, ask = [], PermutedTargets._levels_on
    monkeypatch.setattr(PermutedTargets, "_levels_on", lambda own, *on: read.append(len(own.rhos[0])) or ask(own, *on))
    some = fit()
    assert read == [N // 2]
    assert some.alpha_ == pytest.approx(whole.alpha_, rel=1e-12)
    np.testing.assert_allclose(some.kernel_weights_, whole.kernel_weights_, rtol=1e-6, atol=1e-9)
    assert some.noise_ratio_ != whole.noise_ratio_
    assert some.noise_ratio_ == pytest.approx(whole.noise_ratio_, rel=0.2)  # of 19 other orders: 0.05 is their spread
    assert some.noise_p_value_ == whole.noise_p_value_ == 0.05
    assert some.above_noise_[:4].all()


def test_orders_of_some_of_many_rows_are_the_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = drawn(3, 1.0)
    model = MKLRegressor(KernelBank.per_feature(widths=WIDTHS), resources=FACTORED)
    monkeypatch.setattr(permutations, "PERMUTED_ENTRIES", 1)  # 19 orders, as of many rows
    whole = copy.copy(model.fit(X, y))
    monkeypatch.setattr(permutations, "UNIT_ROWS", N // 2)
    read, ask = [], PermutedTargets._levels_on
    monkeypatch.setattr(PermutedTargets, "_levels_on", lambda own, *on: read.append(len(own.rhos[0])) or ask(own, *on))
    some = model.fit(X, y)
    assert read == [N // 2]
    assert some.alpha_ != whole.alpha_
    assert some.alpha_ == pytest.approx(whole.alpha_, rel=0.2)  # of 19 other orders: 0.05 is their spread
    assert some.noise_p_value_ == whole.noise_p_value_ == 0.05
    levels = []
    for n_rows in (N // 2, N):
        monkeypatch.setattr(permutations, "UNIT_ROWS", n_rows)
        levels.append(PermutedTargets.create([posed(X, y)], 0).levels([posed(X, y)])[0])
    np.testing.assert_allclose(levels[0].norms, levels[1].norms, rtol=1e-9)  # of all rows
    assert not np.allclose(levels[0].permuted, levels[1].permuted)


def test_targets_that_share_weights_take_as_many_entries_as_one_target_takes_rows(monkeypatch) -> None:
    X, y = drawn(3, 1.0)
    targets = np.column_stack([y, y[::-1], np.roll(y, 7), y + X[:, 1]])
    model = MKLRegressor(KernelBank.per_feature(widths=WIDTHS), outputs="shared", resources=FACTORED)
    monkeypatch.setattr(permutations, "PERMUTED_ENTRIES", 1)  # 19 orders, as of many rows
    whole = copy.copy(model.fit(X, targets))
    monkeypatch.setattr(permutations, "UNIT_ROWS", N)
    monkeypatch.setattr(permutations, "ENOUGH_ROWS", N // 3)
    read, ask = [], PermutedTargets._levels_on
    monkeypatch.setattr(PermutedTargets, "_levels_on", lambda own, *on: read.append(len(own.rhos[0])) or ask(own, *on))
    some = model.fit(X, targets)
    assert read == [N // 3]  # of a quarter, not less than enough
    assert some.alpha_ != whole.alpha_
    assert some.alpha_ == pytest.approx(whole.alpha_, rel=0.2)


@pytest.mark.parametrize(("effect", "alpha"), [(0.0, "0.1*max"), (1.0, "auto")])
def test_all_rows_tell_what_is_in_doubt_and_what_a_strength_is_a_multiple_of(
    effect: float, alpha: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = drawn(3, effect)
    bank = KernelBank.per_feature(widths=WIDTHS)
    models = []
    for patch in (lambda _: None, among):
        patch(monkeypatch)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that it is noise
            models.append(MKLRegressor(bank, alpha=alpha, resources=FACTORED).fit(X, y))
    assert models[0].noise_ratio_ == models[1].noise_ratio_
    assert models[0].noise_p_value_ == models[1].noise_p_value_
    assert np.array_equal(models[0].above_noise_, models[1].above_noise_)


def test_some_rows_are_told_from_noise_in_one_of_twenty_cases_too(monkeypatch: pytest.MonkeyPatch) -> None:
    among(monkeypatch)
    X, _ = drawn(2, 0.0)
    stack, rng = FourierStack.grid(X, WIDTHS), np.random.default_rng(2)
    chances = []
    for seed in range(200):
        problem = Problem(stack, rng.uniform(size=N) ** 2, get_loss("squared"), get_regularizer("l1", 1.0))
        levels = PermutedTargets.create([problem], seed).levels_among(stack, permutations.ENOUGH_ROWS)
        assert levels is not None
        chances.append(p_value(levels))
    assert 2 <= np.sum(np.array(chances) <= 0.05) <= 21  # ten expected; of a fair test beyond in 1 of 1,000 cases


def test_rows_that_do_not_stand_for_all_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    among(monkeypatch)
    X, y = drawn(2, 1.0)
    stack = FourierStack.grid(X, WIDTHS)

    def asked(target: Array, *, fit_intercept: bool = True, groups: Array | None = None) -> bool:
        problem = Problem(stack, target, get_loss("squared"), get_regularizer("l1", 1.0), fit_intercept=fit_intercept)
        return (
            PermutedTargets.create([problem], 0, groups=groups).levels_among(stack, permutations.ENOUGH_ROWS)
            is not None
        )

    assert asked(y)
    assert not asked(y, groups=np.arange(N) // 2)
    assert not asked(np.eye(N)[0])  # one row decides
    assert not asked(y + 3.0, fit_intercept=False)
