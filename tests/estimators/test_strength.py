"""Untouched estimators mean the same in every unit, normalization and number of classes; a number means what it did."""

from __future__ import annotations

import itertools
import warnings
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.model_selection import GroupKFold, train_test_split

from manykernels import (
    GaussianMKL,
    InvalidInputError,
    KernelBank,
    MKLClassifier,
    MKLRegressor,
    MKLRegressorCV,
    MKLSurvival,
    PrecomputedBank,
    load_model,
    regularization_path,
    save_model,
    solve,
    survival_array,
)
from manykernels.estimators.permutations import noise_levels, permutations_for, random_orders
from manykernels.estimators.strength import NoiseLevel, clear, is_clear, p_value
from manykernels.kernels import Gaussian, KernelSpec, Linear
from manykernels.objective import Problem, get_regularizer
from manykernels.objective.losses import CoxPartial, get_loss, survival_target
from manykernels.objective.regularizers import REGULARIZERS, BlockL1

RNG = np.random.default_rng(0)
X = RNG.uniform(-2.0, 2.0, size=(30, 2))
NEW = RNG.uniform(-2.0, 2.0, size=(9, 2))
Y = np.sin(2.0 * X[:, 0]) + 0.2 * RNG.normal(size=30)
LABELS = np.where(X[:, 0] ** 2 + X[:, 1] + 0.5 * RNG.normal(size=30) > 1.0, "yes", "no")
BANK = KernelBank.per_feature([Linear(), Gaussian(0.7)])
GRAMS = np.array([BANK.fit(X).block(BANK.fit(X).prepare(X), BANK.fit(X).prepare(X))])[0]
TIGHT: dict[str, Any] = {"tol": 1e-9, "resources": {"max_iter": 500}}
LOSSES = ["squared", "epsilon_insensitive", "huber", "quantile"]


# --- units ----------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(4)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("penalty", list(REGULARIZERS))
def test_a_unit_of_y_changes_the_unit_of_predictions(loss: str, penalty: str) -> None:
    first, second = (
        MKLRegressor(BANK, loss=loss, penalty=penalty, **TIGHT).fit(X, 1000.0 * Y * unit + 7.0 * unit).predict(NEW)
        / unit
        for unit in (1.0, 1e-5)
    )
    np.testing.assert_allclose(second, first, atol=2e-3 * np.ptp(first))


@pytest.mark.parametrize("model", [MKLRegressor(**TIGHT), MKLClassifier(**TIGHT)], ids=["regressor", "classifier"])
def test_units_of_standardized_columns_change_nothing(model: Any) -> None:
    y = Y if isinstance(model, MKLRegressor) else LABELS
    score = model.predict if isinstance(model, MKLRegressor) else lambda rows: model.decision_function(rows)
    first = (model.fit(X, y), score(NEW))[1]
    unit, origin = np.array([1e3, 1e-4]), np.array([50.0, -2.0])
    second = (model.fit(X * unit + origin, y), score(NEW * unit + origin))[1]
    np.testing.assert_allclose(second, first, atol=1e-4 * np.ptp(first))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("penalty", list(REGULARIZERS))
def test_a_common_factor_of_the_kernels_changes_nothing(penalty: str) -> None:
    model = MKLClassifier("precomputed", penalty=penalty, **TIGHT)
    first, second = (model.fit(factor * GRAMS, LABELS).decision_function(factor * GRAMS) for factor in (1.0, 1e-3))
    np.testing.assert_allclose(second, first, atol=1e-3 * np.ptp(first))


def test_traces_and_mean_diagonals_give_one_model() -> None:
    first, second = (
        MKLClassifier(PrecomputedBank(normalize), **TIGHT).fit(GRAMS, LABELS).decision_function(GRAMS)
        for normalize in ("trace", "mean_diagonal")
    )
    np.testing.assert_allclose(second, first, atol=1e-4 * np.ptp(first))


def test_weights_times_a_constant_change_nothing() -> None:
    first, second = (
        MKLRegressor(BANK, **TIGHT).fit(X, Y, sample_weight=np.full(30, factor)).predict(NEW) for factor in (1.0, 40.0)
    )
    np.testing.assert_allclose(second, first, atol=1e-4 * np.ptp(first))


# --- classes and targets --------------------------------------------------------------------------------------------


def test_a_class_does_not_depend_on_how_many_others_there_are() -> None:
    inside = X[:, 0] > 0.8
    rest = RNG.integers(0, 5, size=30)
    few, many = (np.where(inside, "in", np.char.add("out ", (rest % n).astype(str))) for n in (2, 5))
    found = [MKLClassifier(BANK, **TIGHT).fit(X, labels) for labels in (few, many)]
    assert [len(model.classes_) for model in found] == [3, 6]
    np.testing.assert_allclose(found[0].alpha_[0], found[1].alpha_[0], rtol=1e-12)
    np.testing.assert_allclose(found[0].decision_function(NEW)[:, 0], found[1].decision_function(NEW)[:, 0], atol=1e-6)


@pytest.mark.nightly
def test_every_class_of_many_has_kernels_and_the_rows_are_told_apart() -> None:
    centers = np.array([(3.0 * i, 3.0 * j) for i in range(6) for j in range(5)])
    y = np.repeat(np.arange(30), 6)
    rows = centers[y] + 0.4 * np.random.default_rng(1).normal(size=(180, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = MKLClassifier(tol=1e-2).fit(rows, y)
    assert (model.kernel_weights_.max(axis=1) > 0).all()
    assert model.score(rows, y) > 0.95


def test_every_target_has_a_strength_of_its_own() -> None:
    both = MKLRegressor(BANK, **TIGHT).fit(X, np.column_stack([Y, 1e4 * X[:, 1]]))
    alone = MKLRegressor(BANK, **TIGHT).fit(X, 1e4 * X[:, 1])
    assert both.alpha_.shape == (2,)
    assert both.alpha_[1] == pytest.approx(alone.alpha_, rel=1e-12)
    np.testing.assert_allclose(both.predict(NEW)[:, 1], alone.predict(NEW), rtol=1e-9)


@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_targets_with_shared_weights_have_one_strength_in_their_unit(loss: str) -> None:
    both = np.column_stack([Y, X[:, 1]])
    found = [MKLRegressor(BANK, loss=loss, outputs="shared", **TIGHT).fit(X, unit * both) for unit in (1.0, 1e4)]
    assert isinstance(found[0].alpha_, float)
    np.testing.assert_allclose(1e-4 * found[1].predict(NEW), found[0].predict(NEW), atol=1e-3)


# --- what a number, and what text, means ----------------------------------------------------------------------------


def test_a_number_is_the_strength_relative_to_the_mean_loss_in_the_unit_of_y() -> None:
    weight = RNG.uniform(0.5, 2.0, size=30)
    model = MKLRegressor("precomputed", alpha=0.03, **TIGHT).fit(GRAMS, 100.0 * Y, sample_weight=weight)
    penalty = get_regularizer("l1", 0.03 * weight.sum())
    found = solve(GRAMS, 100.0 * Y, loss="squared", penalty=penalty, sample_weight=weight, tol=1e-9)
    assert model.alpha_ == pytest.approx(0.03, rel=1e-12)
    assert model.solution_.certificate.primal == pytest.approx(found.certificate.primal, rel=1e-8)


def test_text_is_a_multiple_of_the_largest_useful_strength() -> None:
    alpha_max = regularization_path(X, Y, kernels=BANK, n_alphas=2).alpha_max
    assert MKLRegressor(BANK, alpha="0.1*max").fit(X, Y).alpha_ == pytest.approx(0.1 * alpha_max, rel=1e-9)
    assert MKLRegressor(BANK, alpha=" 9.99e-1 * max", **TIGHT).fit(X, Y).kernel_weights_.any()
    with pytest.warns(UserWarning, match="No kernel was selected"):
        assert not MKLRegressor(BANK, alpha="1.001*max").fit(X, Y).kernel_weights_.any()


def test_half_a_ridge_is_between_both_ends() -> None:
    ends = [MKLRegressor(BANK, penalty=penalty).fit(X, Y).alpha_ for penalty in ("l1", "ridge")]
    mixed = [MKLRegressor(BANK, penalty="elasticnet", l1_ratio=share).fit(X, Y).alpha_ for share in (1.0, 0.5, 0.0)]
    np.testing.assert_allclose(mixed, [ends[0], np.mean(ends), ends[1]], rtol=1e-9)


def test_strength_of_ridge_is_a_share_of_the_rayleigh_quotient() -> None:
    centered = Y - Y.mean()
    quotient = centered @ GRAMS.sum(axis=0) @ centered / (centered @ centered)
    found = MKLRegressor("precomputed", penalty="ridge", alpha="0.2*max").fit(GRAMS, Y)
    assert found.alpha_ == pytest.approx(0.2 * quotient / 30, rel=1e-9)


@pytest.mark.parametrize(
    "wrong",
    ["much", "0*max", "noise", "0*noise", "1*silence", "-1*max", "1.2.3*max", "nan*max", "max", "0.1", 0, None, True],
)
def test_what_alpha_may_be_is_said(wrong: Any) -> None:
    with pytest.raises(InvalidInputError, match="alpha must be a"):
        MKLRegressor(alpha=wrong).fit(X, Y)


@pytest.mark.parametrize("name", ["epsilon", "delta"])
def test_sizes_of_errors_are_in_the_unit_of_y_unless_left_open(name: str) -> None:
    loss = {"epsilon": "epsilon_insensitive", "delta": "huber"}[name]
    given = {"epsilon": 0.1, "delta": 1.35}[name] * Y.std()
    open_, number = (
        MKLRegressor(BANK, loss=loss, alpha=0.01, loss_parameters={name: value}, **TIGHT).fit(X, Y).predict(NEW)
        for value in ("auto", given)
    )
    np.testing.assert_allclose(open_, number, rtol=1e-9)


def test_the_strength_is_kept_in_the_file(tmp_path: Any) -> None:
    for y in (Y, np.column_stack([Y, X[:, 0]])):
        model = MKLRegressor(BANK).fit(X, y)
        save_model(model, tmp_path / "model.mkl")
        again = load_model(tmp_path / "model.mkl")
        assert again.alpha == "auto"
        np.testing.assert_array_equal(again.alpha_, model.alpha_)


# --- kernels that are found -----------------------------------------------------------------------------------------


@pytest.mark.nightly
def test_a_search_for_widths_has_the_strength_of_its_best_kernel() -> None:
    widths = np.geomspace(0.05, 50.0, 9)
    centered, rows = Y - Y.mean(), (X - X.mean(axis=0)) / X.std(axis=0)
    quotients = [centered @ Gaussian(width)(rows) @ centered / (centered @ centered) for width in widths]
    model = GaussianMKL(alpha="0.3*max", width_range=(0.05, 50.0)).fit(X, Y)
    assert model.alpha_ == pytest.approx(0.3 * max(quotients) / 30, rel=1e-9)
    np.testing.assert_allclose(GaussianMKL().fit(X, 1e3 * Y).predict(X), 1e3 * GaussianMKL().fit(X, Y).predict(X))


def test_an_untouched_search_for_widths_learns_a_wave() -> None:
    rng = np.random.default_rng(0)
    rows = rng.uniform(-2.0, 2.0, size=(150, 2))
    y = np.sin(3.0 * rows[:, 0]) * rows[:, 1] + 0.1 * rng.normal(size=150)
    assert GaussianMKL().fit(rows[:100], y[:100]).score(rows[100:], y[100:]) > 0.8
    assert GaussianMKL("logistic").fit(rows[:100], y[:100] > 0).score(rows[100:], y[100:] > 0) > 0.75


# --- strength in units of noise -------------------------------------------------------------------------------------


def average_square(gram: Any, R: Any) -> float:
    """Return ``tr R' P' K P R`` on average over all orders, entry by entry: two places of an order are two places."""
    n, products = len(R), R @ R.T
    return gram.trace() * products.trace() / n + (gram.sum() - gram.trace()) * (products.sum() - products.trace()) / (
        n * (n - 1)
    )


def unit_of_noise(grams: Any, R: Any, orders: Any) -> float:
    """Return the geometric mean of the largest norms in these orders, as large as those of all orders on average."""
    squares = np.array([np.einsum("nt,mnk,kt->m", R[order], grams, R[order]) for order in orders])
    average = np.sum([average_square(gram, R) for gram in grams])
    scale = np.sqrt(average / squares.sum(axis=1).mean())
    return float(scale * np.exp(np.log(squares.max(axis=1)).mean() / 2.0))


@pytest.mark.parametrize("centered", [True, False])
def test_squares_of_all_orders_are_known_on_average(centered: bool) -> None:
    grams, y = GRAMS[:, :5, :5], Y[:5, None] - (Y[:5].mean() if centered else 0.0)
    orders = [list(order) for order in itertools.permutations(range(5))]
    every = [np.mean([(y[order].T @ gram @ y[order]).item() for order in orders]) for gram in grams]
    np.testing.assert_allclose(every, [average_square(gram, y) for gram in grams], rtol=1e-12)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_the_unit_of_noise_is_corrected_by_what_all_orders_are_on_average(fit_intercept: bool) -> None:
    model = MKLRegressor("precomputed", alpha="1*noise", fit_intercept=fit_intercept, tol=1e-3).fit(GRAMS, Y)
    residual = Y[:, None] - (Y.mean() if fit_intercept else 0.0)
    unit = unit_of_noise(GRAMS, residual, random_orders(30, np.random.default_rng(0), 19))  # the seed of permutations
    assert 30 * model.alpha_ == pytest.approx(unit, rel=1e-9)


def test_every_order_is_as_likely_as_any_other() -> None:
    found, counts = np.unique(random_orders(4, np.random.default_rng(0), 4800), axis=0, return_counts=True)
    assert len(found) == 24
    assert np.sum((counts - 200) ** 2 / 200) < 49.7  # of 23 degrees of freedom, in 999 of 1,000 cases


@pytest.mark.parametrize("grouped", [False, True])
def test_orders_of_more_samples_go_on_from_those_of_fewer(grouped: bool) -> None:
    pairs = np.random.default_rng(1).permutation(100)[np.arange(200) // 2]
    many, few, again = (
        random_orders(n, np.random.default_rng(3), count, groups=pairs[:n] if grouped else None)
        for n, count in ((200, 39), (190, 19), (190, 59))
    )
    moved = np.count_nonzero(many[:19, :190] != few, axis=1)
    assert 0 < moved.max() <= 10  # one for each of the others
    np.testing.assert_array_equal(few, again[:19])
    assert len(np.unique(again, axis=0)) == 59


def test_the_unit_of_noise_moves_little_with_some_more_samples() -> None:
    rng = np.random.default_rng(0)
    columns, noise = rng.normal(size=(105, 12)), rng.normal(size=105)
    stack = np.einsum("im,jm->mij", columns, columns)

    def logarithm(n: int, seed: int) -> float:
        problem = Problem(stack[:, :n, :n], noise[:n], get_loss("squared"), BlockL1(1.0))
        level = noise_levels([problem], seed, n_permutations=19)[0]
        return float(np.log(level.penalty(BlockL1(1.0), 1.0, 1.0).strength))

    first, second = (np.array([logarithm(n, seed) for seed in range(40)]) for n in (100, 105))
    assert np.std(second - first) < 0.75 * np.std(second[1:] - first[:-1])  # of other orders


def test_the_unit_of_noise_hardly_depends_on_which_orders_are_drawn() -> None:
    problem = Problem(GRAMS, Y, get_loss("squared"), BlockL1(1.0))
    levels = [noise_levels([problem], seed, n_permutations=19)[0] for seed in range(40)]
    units = np.array([level.penalty(BlockL1(1.0), 1.0, 30.0).strength for level in levels])
    medians = np.array([np.median(level.permuted.max(axis=1)) for level in levels])
    assert units.std() / units.mean() < 0.6 * medians.std() / medians.mean()
    assert units.mean() == pytest.approx(medians.mean(), rel=0.05)


@pytest.mark.nightly
def test_the_unit_of_noise_empties_the_models_of_half_of_the_random_orders() -> None:
    model = MKLRegressor("precomputed", alpha="1*noise", **TIGHT).fit(GRAMS, Y)
    assert model.noise_ratio_ == pytest.approx(1.0, rel=1e-12)
    (level,) = noise_levels([Problem(GRAMS, Y, get_loss("squared"), get_regularizer("l1", 1.0))], 0)
    np.testing.assert_array_equal(level.penalty(get_regularizer("l1", 1.0), 1.0, 30.0).strength, 30 * model.alpha_)
    assert 7 <= (level.permuted[:19].max(axis=1) <= 30 * model.alpha_).sum() <= 12
    rng = np.random.default_rng(5)
    orders = [rng.permutation(Y) for _ in range(40)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        models = [MKLRegressor("precomputed", alpha=model.alpha_).fit(GRAMS, order) for order in orders]
    assert 8 <= sum(not found.kernel_weights_.any() for found in models) <= 32


def test_a_multiple_of_noise_is_that_of_its_unit_and_the_default_is_a_fifth() -> None:
    one, third, default = (MKLRegressor(BANK, alpha=alpha).fit(X, Y) for alpha in ("1*noise", "0.3*noise", "auto"))
    assert third.alpha_ == pytest.approx(0.3 * one.alpha_, rel=1e-12)
    assert default.alpha_ == pytest.approx(0.2 * one.alpha_, rel=1e-12)
    assert [model.noise_ratio_ for model in (third, default)] == pytest.approx([0.3, 0.2], rel=1e-12)
    number = MKLRegressor(BANK, alpha=default.alpha_).fit(X, Y)
    assert number.noise_ratio_ == pytest.approx(0.2, rel=1e-12)


def leveled(columns: Any, target: Any) -> NoiseLevel:
    """Return the noise of linear kernels of single columns, of unit mean diagonal."""
    stack = np.array([np.outer(column, column) for column in columns.T])
    return noise_levels([Problem(stack, target, get_loss("squared"), BlockL1(1.0))], 0)[0]


def test_the_default_balances_what_enters_of_noise_with_what_the_truth_loses() -> None:
    rng = np.random.default_rng(0)
    columns = rng.normal(size=(400, 80))
    level = leveled(columns, columns[:, :8].sum(axis=1) + rng.normal(size=400))
    permuted, penalty = level.permuted[:19], BlockL1(1.0)
    assert level.scale == pytest.approx(1.0, abs=0.05)
    above = [np.mean(permuted > norms) for norms in (level.norms, *permuted)]
    noise = 2.0 * (above[0] - 3.0 * np.std(above[1:]))
    assert 0.5 < noise < 0.9  # 72 of 80 columns are noise
    strengths = np.linspace(0.0, permuted.max(), 20_001)
    beyond = np.array([np.mean(np.maximum(permuted - strength, 0.0) ** 2) for strength in strengths])
    best = strengths[np.argmin((1.0 - noise) * strengths**2 + noise * beyond)]
    unit = np.exp(np.mean(np.log(permuted.max(axis=1))))
    assert 0.05 < best / unit < 0.5
    assert level.balance(penalty) == pytest.approx(best / unit, rel=2e-3)
    assert level.balance(get_regularizer("ridge", 1.0)) == 0.0  # noise is left out by no strength


def test_the_default_is_a_fifth_of_the_noise_where_columns_are_related_and_half_where_all_are_noise() -> None:
    rng = np.random.default_rng(1)
    columns, noise = rng.normal(size=(150, 60)), rng.normal(size=150)
    related = leveled(columns, columns.sum(axis=1) + noise)
    assert related.balance(BlockL1(1.0)) < 0.2
    hidden = leveled(rng.normal(size=(150, 400)), noise)
    assert 0.4 < hidden.balance(BlockL1(1.0)) <= 0.5
    least = replace(hidden, norms=hidden.permuted.min(axis=0))  # less related than in every other order
    assert least.balance(BlockL1(1.0)) == 0.5
    constant = leveled(columns, np.ones(150))
    assert constant.balance(BlockL1(1.0)) == 0.0
    few = leveled(columns[:, :3], noise)  # which may as well be luck
    assert few.balance(BlockL1(1.0)) < 0.2


def test_the_default_of_few_columns_depends_little_on_the_orders_drawn() -> None:
    rng = np.random.default_rng(5)
    columns = rng.normal(size=(200, 8))
    stack = np.array([np.outer(column, column) for column in columns.T])
    problem = Problem(stack, columns[:, 0] + 2.0 * rng.normal(size=200), get_loss("squared"), BlockL1(1.0))
    shares = [max(noise_levels([problem], seed)[0].balance(BlockL1(1.0)), 0.2) for seed in range(20)]
    assert np.std(np.log(shares)) < 0.2  # by the share of kernels below the middle of all orders: 0.28


@pytest.mark.parametrize("representation", ["gram", "factored"])
def test_an_untouched_fit_leaves_out_most_columns_of_noise(representation: str) -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(900, 60))
    target = np.sin(2.0 * rows[:, 0]) + 0.5 * rows[:, 1] + rng.normal(size=900)
    bank = KernelBank.per_feature(widths=[0.5, 2.0], standardize=True)
    options = {"resources": {"representation": representation}, "tol": 1e-3}
    models = [
        MKLRegressor(bank, alpha=alpha, **options).fit(rows[:400], target[:400]) for alpha in ("auto", "0.2*noise")
    ]
    assert 0.3 < models[0].noise_ratio_ <= 0.5
    entered, before = (np.count_nonzero(model.kernel_weights_[4:]) for model in models)
    assert entered < 0.75 * before
    assert models[0].score(rows[400:], target[400:]) > models[1].score(rows[400:], target[400:]) + 0.02


@pytest.mark.parametrize("penalty", list(REGULARIZERS))
def test_every_penalty_has_a_unit_of_noise(penalty: str) -> None:
    alphas = [MKLRegressor(BANK, penalty=penalty, alpha=f"{c}*noise").fit(X, Y).alpha_ for c in (0.2, 0.4)]
    assert alphas[1] == pytest.approx(2 * alphas[0], rel=1e-9)


def test_factors_and_matrices_measure_the_same_noise() -> None:
    models = [
        MKLRegressor(BANK, resources={"representation": form}, tol=1e-3).fit(X, Y) for form in ("gram", "factored")
    ]
    assert models[1].alpha_ == pytest.approx(models[0].alpha_, rel=1e-6)
    assert models[1].noise_p_value_ == models[0].noise_p_value_
    np.testing.assert_array_equal(models[1].above_noise_, models[0].above_noise_)


def test_rows_of_several_targets_with_shared_weights_are_permuted_as_wholes() -> None:
    both = np.column_stack([Y, X[:, 1]])
    model = MKLRegressor("precomputed", outputs="shared", alpha="1*noise", tol=1e-3).fit(GRAMS, both)
    centered = both - both.mean(axis=0)
    unit = unit_of_noise(GRAMS, centered, random_orders(30, np.random.default_rng(0), 19))  # the seed of permutations
    assert 30 * model.alpha_ == pytest.approx(unit, rel=1e-9)


def test_strata_of_survival_times_are_permuted_apart() -> None:
    time, stratum = np.exp(-Y), np.repeat([0, 1], 15)
    y = survival_array(np.ones(30, dtype=bool), time + 100.0 * stratum, stratum)
    whole = survival_array(np.ones(30, dtype=bool), time + 100.0 * stratum)
    strengths = [MKLSurvival(BANK, alpha="1*noise").fit(X, target).alpha_ for target in (y, whole)]
    assert all(np.isfinite(strengths))
    level = noise_levels(
        [problem := Problem(GRAMS, survival_target(y["event"], y["time"], stratum), CoxPartial(), BlockL1(1.0))],
        0,
        stratum,
    )[0]
    rho = problem.zero_model()[0]
    (order,) = random_orders(30, np.random.default_rng(0), 1, stratum)
    np.testing.assert_array_equal(stratum[order], stratum)
    assert all(np.any(order[stratum == label] != np.flatnonzero(stratum == label)) for label in (0, 1))
    expected = np.sqrt(np.einsum("n,mnk,k->m", rho[order], GRAMS, rho[order]))
    np.testing.assert_allclose(level.permuted[0], expected, rtol=1e-9)


def test_targets_of_groups_of_equal_size_change_places_as_wholes() -> None:
    groups = np.repeat(np.arange(8), [4, 4, 4, 4, 3, 3, 5, 3])
    rows = np.random.default_rng(2).permutation(30)
    groups = groups[rows]
    (level,) = noise_levels(
        [problem := Problem(GRAMS, Y, get_loss("squared"), BlockL1(1.0))], 0, groups=groups, n_permutations=19
    )
    rho, members = problem.zero_model()[0], [np.flatnonzero(groups == label) for label in range(8)]
    orders = random_orders(30, np.random.default_rng(0), 19, groups=groups)
    order = orders[0]
    for alike in ([0, 1, 2, 3], [4, 5, 7]):
        known = {tuple(members[label]) for label in alike}
        assert {tuple(order[members[label]]) for label in alike} == known
        assert len({tuple(own[members[alike[0]]]) for own in orders}) == len(alike)
    assert len({tuple(own[members[6]]) for own in orders}) > 3  # alone of its size
    assert set(order[members[6]]) == set(members[6])
    expected = np.sqrt(np.einsum("n,mnk,k->m", rho[order], GRAMS, rho[order]))
    np.testing.assert_allclose(level.permuted[0], expected, rtol=1e-9)


@pytest.mark.nightly
def test_noise_of_groups_is_no_finding_of_a_search_that_knows_them() -> None:
    """Columns and labels that are constant within groups: ten draws of noise, and one effect."""
    groups = np.repeat(np.arange(20), 4)
    chances: dict[bool, list[float]] = {True: [], False: []}
    for seed in range(10):
        rng = np.random.default_rng(seed)
        rows, target = rng.normal(size=(20, 3))[groups], rng.normal(size=20)[groups]
        rows += 0.1 * rng.normal(size=rows.shape)
        problem = Problem(
            np.array([np.outer(column, column) for column in rows.T]), target, get_loss("squared"), BlockL1(1.0)
        )
        for known in chances:
            chances[known].append(p_value(noise_levels([problem], 0, groups=groups if known else None)))
    assert sum(chance <= 0.05 for chance in chances[True]) <= 2
    assert sum(chance <= 0.05 for chance in chances[False]) >= 3
    model = MKLRegressorCV(BANK, cv=GroupKFold(4), penalty="l1", n_alphas=8)
    model.fit(rows, 2.0 * rows[:, 1] + target, groups=groups)
    assert model.noise_p_value_ <= 0.05


def test_what_is_far_from_smooth_is_told_by_how_well_the_sum_of_the_kernels_fits() -> None:
    rows = np.random.default_rng(0).uniform(size=(60, 2))
    signs = np.where(np.floor(3 * rows).sum(axis=1) % 2 == 0, 1.0, -1.0)  # a checkerboard
    squares = ((rows[:, None] - rows) ** 2).sum(axis=2)
    grams = np.exp(-squares / (2 * np.array([0.5, 1.0, 2.0])[:, None, None] ** 2))
    penalties = np.array([1.0, 2.0, 1.0])
    level, clear = (
        noise_levels([Problem(grams, target, get_loss("squared"), BlockL1(1.0), kernel_penalties=penalties)], 0)[0]
        for target in (signs, rows[:, 0] + 0.01 * signs)
    )
    r, centered = signs - signs.mean(), np.eye(60) - 1 / 60
    K = centered @ np.tensordot(penalties**-2, grams, 1) @ centered
    assert level.fitted is not None
    assert level.fitted[0] == pytest.approx(-r @ np.linalg.solve(K + 0.01 * np.trace(K) * np.eye(60), r), rel=1e-9)
    assert len(level.fitted) == 1 + len(level.permuted) == 200
    assert p_value([level]) < 0.05 < p_value([replace(level, fitted=None)])
    assert clear.fitted is None


@pytest.mark.nightly
def test_one_weak_narrow_effect_is_told_from_noise() -> None:
    warned = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        rows = rng.normal(size=(150, 10))
        model = MKLRegressor(tol=1e-2).fit(rows, 0.7 * np.sin(2 * rows[:, 0]) + rng.normal(size=150))
        warned += model.noise_p_value_ > 0.05
    assert warned <= 3  # six with 19 orders


def test_fewer_orders_are_drawn_of_more_samples_and_where_they_cost_more() -> None:
    assert [permutations_for(n, 1.0) for n in (10, 500, 1000, 2000, 5000, 10**6)] == [199, 199, 99, 39, 19, 19]
    assert [permutations_for(10, cost) for cost in (1e7, 1e8, 1e9, 1e12)] == [199, 19, 19, 19]
    assert permutations_for(10, 2.5e7) == 99


def test_noise_is_told_from_truth() -> None:
    rng = np.random.default_rng(0)
    rows, noise = rng.normal(size=(120, 6)), rng.normal(size=120)
    with pytest.warns(UserWarning, match="pure noise would select about as many kernels as this fit"):
        doubtful = MKLRegressor(tol=1e-3).fit(rows, noise)
    assert doubtful.noise_p_value_ > 0.05
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clear = MKLRegressor(tol=1e-2).fit(rows, noise + 2.0 * rows[:, 2])
    assert clear.noise_p_value_ == 1 / 200
    marked = clear.weights_frame(active_only=False)
    assert marked.loc[marked["columns"] == "x2", "above_noise"].all()
    assert clear.weights_frame()["above_noise"].iloc[0]


def test_more_orders_than_those_of_the_unit_are_drawn_only_in_doubt_where_the_strength_is_given() -> None:
    rng = np.random.default_rng(1)
    strong, weak = X[:, 1] + 0.1 * rng.normal(size=30), 0.2 * Y + rng.normal(size=30)
    problems = [Problem(GRAMS, target, get_loss("squared"), BlockL1(1.0)) for target in (strong, weak)]
    clear, doubtful = (noise_levels([problem], 0, until_told=True)[0] for problem in problems)
    first, whole = (noise_levels([problem], 0)[0] for problem in problems)
    assert (len(clear.permuted), len(doubtful.permuted)) == (19, 199)
    np.testing.assert_allclose(clear.permuted, first.permuted[:19], rtol=1e-10)
    np.testing.assert_allclose(doubtful.permuted, whole.permuted, rtol=1e-10)
    given, default = MKLRegressor(BANK, alpha=0.05).fit(X, strong), MKLRegressor(BANK).fit(X, strong)
    assert (given.noise_p_value_, default.noise_p_value_) == (1 / 20, 1 / 200)
    assert given.noise_ratio_ == pytest.approx(default.noise_ratio_ * 0.05 / default.alpha_, rel=1e-9)
    search = MKLRegressorCV(BANK, penalty="l1", alphas=[0.1, 0.01, 1e-3], cv=2).fit(X, strong)
    assert search.noise_p_value_ == 1 / 200  # by which it judges its choice


def test_orders_are_drawn_until_they_tell_a_target_from_noise() -> None:
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(60, 4))
    grams = np.exp(-0.5 * (rows.T[:, :, None] - rows.T[:, None]) ** 2)
    drawn: dict[float, list[int]] = {}
    for share in (0.0, 0.45):
        for _ in range(20):
            target = share * rows[:, 1] + rng.normal(size=60)
            problem = Problem(grams, target, get_loss("squared"), BlockL1(1.0))
            (some,), (every,) = noise_levels([problem], 0, until_told=True), noise_levels([problem], 0)
            n = len(some.permuted)
            assert is_clear([some]) or n == len(every.permuted) == 199
            assert clear([some]) or n in (59, 99, 139, 179, 199)
            np.testing.assert_allclose(some.permuted, every.permuted[:n], rtol=1e-10)
            assert is_clear([some]) <= (p_value([every]) <= 0.1)
            drawn.setdefault(share, []).append(n)
    assert np.median(drawn[0.0]) == 199  # noise is never told from itself
    assert np.median(drawn[0.45]) <= 59


def test_targets_are_told_by_how_few_orders_they_are_behind() -> None:
    def level(n_orders: int, n_ahead: int) -> NoiseLevel:
        """Return a target that so many orders are ahead of, none of which stands out."""
        norms = 1.0 + 1e-3 * np.arange(n_orders + 1)[::-1, None]
        return NoiseLevel(norms[n_ahead], np.delete(norms, n_ahead, axis=0), 1.0, False)

    few = {n: [is_clear([level(n, k)]) for k in range(3)] for n in (19, 59, 99, 139)}
    assert few == {19: [False] * 3, 59: [True, False, False], 99: [True, True, False], 139: [True] * 3}


@pytest.mark.nightly
def test_a_target_of_noise_is_hardly_ever_clear_after_few_orders() -> None:
    clear = 0
    for seed in range(400):
        rng = np.random.default_rng(seed)
        rows = rng.normal(size=(20, 3))
        grams = np.exp(-0.5 * (rows.T[:, :, None] - rows.T[:, None]) ** 2)
        problem = Problem(grams, rng.normal(size=20), get_loss("squared"), BlockL1(1.0))
        (level,) = noise_levels([problem], seed, until_told=True)
        clear += len(level.permuted) == 19
    assert clear <= 4  # 0.2 % of 1,500 such draws


def test_classes_are_judged_together() -> None:
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(90, 4))
    labels = np.argmax(rows[:, :3] + 0.3 * rng.normal(size=(90, 3)), axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = MKLClassifier(tol=1e-2).fit(rows, labels)
    assert model.noise_p_value_.shape == model.noise_ratio_.shape == (3,)
    assert model.above_noise_.shape == model.kernel_weights_.shape
    with pytest.warns(UserWarning, match="not more strongly related"):
        MKLClassifier(tol=1e-2).fit(rows, rng.permutation(labels))


def test_the_seed_decides_the_orders_and_a_generator_is_left_as_it_was() -> None:
    alphas = [MKLRegressor(BANK, random_state=seed).fit(X, Y).alpha_ for seed in (None, 0, 1)]
    assert alphas[0] == alphas[1] != alphas[2]
    given = np.random.RandomState(3)
    MKLRegressor(BANK, random_state=given).fit(X, Y)
    assert given.randint(2**31 - 1) == np.random.RandomState(3).randint(2**31 - 1)


def test_weights_of_classes_do_not_push_the_strength_below_that_of_plain_ones() -> None:
    plain = MKLClassifier(BANK).fit(X, LABELS)
    with pytest.warns(UserWarning, match="No kernel was selected"):
        tiny = MKLClassifier(BANK, class_weight={"yes": 1e-6, "no": 1.0}).fit(X, LABELS)
    assert tiny.alpha_ >= plain.alpha_ * (1.0 - 1e-12)


# --- what is told ---------------------------------------------------------------------------------------------------


def test_classes_without_kernels_are_named_with_the_remedy() -> None:
    y = np.array(["large"] * 24 + ["rare", "odd"] * 3)
    noise = np.random.default_rng(3).normal(size=(30, 2))
    rows = np.column_stack([np.repeat([0.0, 1.0], [24, 6]) + 0.1 * noise[:, 0], noise[:, 1]])
    with pytest.warns(UserWarning, match=r"2 of 3 classes \('odd', 'rare'\).*alpha='auto' gives each"):
        MKLClassifier(alpha=0.2).fit(rows, y)


def test_targets_without_kernels_are_named_unless_they_are_constant() -> None:
    y = np.column_stack([100.0 * X[:, 0], 0.01 * X[:, 1], np.full(30, 0.3)])
    with pytest.warns(UserWarning, match=r"1 of 3 outputs \(1\).*alpha='auto' gives each of the outputs"):
        MKLRegressor(BANK, alpha=0.05).fit(X, y)
    assert (MKLRegressor(BANK).fit(X, y).kernel_weights_.max(axis=1) > 0).tolist() == [True, True, False]
    with pytest.warns(UserWarning, match="y has one value"):
        MKLRegressor(BANK).fit(X, y[:, 2])


# --- the defaults that failed ---------------------------------------------------------------------------------------


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("bank", "least"),
    [
        (None, 0.94),
        (KernelBank.auto(), 0.94),
        (KernelBank.per_feature(Gaussian(1.0), standardize=True), 0.94),
        (KernelBank.per_feature(Gaussian(1.0)), 0.9),
    ],
    ids=["none", "default", "per_feature standardized", "per_feature"],
)
def test_any_bank_is_good_enough_untouched(bank: Any, least: float) -> None:
    data, labels = load_breast_cancer(return_X_y=True)
    train, test, y_train, y_test = train_test_split(data, labels, train_size=200, stratify=labels, random_state=0)
    assert MKLClassifier(bank, tol=1e-2).fit(train, y_train).score(test, y_test) >= least


def test_an_untouched_regressor_beats_the_mean() -> None:
    data, y = load_diabetes(return_X_y=True)
    train, test, y_train, y_test = train_test_split(data, y, train_size=200, random_state=0)
    scores = [MKLRegressor().fit(train, unit * y_train).score(test, unit * y_test) for unit in (1.0, 0.01)]
    assert scores[0] > 0.3
    assert scores[1] == pytest.approx(scores[0], abs=1e-6)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("representation", ["gram", "factored"])
@pytest.mark.parametrize("alpha", ["auto", "0.1*max"])
@pytest.mark.parametrize("penalty", ["l1", "ridge"])
def test_columns_that_say_nothing_leave_the_constant(representation: str, alpha: str, penalty: str) -> None:
    """Dual norms at the level of rounding are none: a fraction of them would be a strength of 1e-18."""
    rng = np.random.default_rng(1)
    tiny = 1.0 + 1e-16 * rng.normal(size=(40, 2))
    for rows in (np.zeros((40, 2)), np.full((40, 2), 7.0), tiny):
        bank = KernelBank.per_feature([Linear(), Gaussian(1.0)], standardize=False, normalize=None)
        model = MKLRegressor(bank, alpha=alpha, penalty=penalty, resources={"representation": representation})
        with pytest.warns(UserWarning, match="No kernel was selected"):
            model.fit(rows, rng.normal(size=40))
        assert str(model.solution_.status) == "converged"
        assert not model.kernel_weights_.any()
        assert model.alpha_ > 1e-4


@pytest.mark.parametrize("n_samples", [77, 149, 150])
def test_constant_columns_are_told_as_such_and_not_by_a_strength_of_rounding(n_samples: int) -> None:
    with pytest.warns(UserWarning, match="every kernel is constant") as caught:
        MKLRegressor().fit(np.ones((n_samples, 6)), np.linspace(0.0, 5.0, n_samples))
    assert not any("Decrease alpha" in str(warning.message) for warning in caught)


class Crossed(KernelSpec):
    """A kernel of a user's own that is indefinite: 1 on the diagonal, negative elsewhere."""

    kind = "crossed"

    def __call__(self, A: Any, B: Any = None) -> np.ndarray:
        distances = np.abs(A[:, None] - (A if B is None else B)).sum(axis=2)
        return np.where(distances == 0.0, 1.0, -np.exp(-(distances**2) / 2.0))

    def diag(self, A: Any) -> np.ndarray:
        return np.ones(len(A))


class Zero(KernelSpec):
    """A kernel of a user's own that is zero everywhere."""

    kind = "zero"

    def __call__(self, A: Any, B: Any = None) -> np.ndarray:
        return np.zeros((len(A), len(A if B is None else B)))

    def diag(self, A: Any) -> np.ndarray:
        return np.zeros(len(A))


def test_a_kernel_of_zeros_is_not_blamed_as_constant() -> None:
    with pytest.warns(UserWarning, match=r"constant over the samples, or zero \(k\(x, x\) = 0\)"):
        MKLRegressor(KernelBank([("a", Zero(), [0])])).fit(np.eye(9), np.arange(9.0))


def test_an_indefinite_kernel_is_no_error_of_a_factorization() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 2))
    bank = KernelBank([("a", Crossed(), [0]), ("b", Crossed(), [0, 1]), ("c", Gaussian(1.0), [1])], normalize=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with suppress(InvalidInputError):
            assert MKLClassifier(bank, alpha=0.001).fit(X, np.digitize(X[:, 0], [-0.5, 0.5])).dual_gap_ >= 0
