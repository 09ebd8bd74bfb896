"""One search over strength, mixing and kernels: its averages, its walks, its choice, and that nothing leaks."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer, r2_score
from sklearn.model_selection import GroupKFold, KFold, RepeatedKFold, TimeSeriesSplit

from manykernels import (
    Gaussian,
    KernelBank,
    KernelStack,
    Linear,
    MKLClassifier,
    MKLClassifierCV,
    MKLRegressor,
    MKLRegressorCV,
    PrecomputedBank,
    load_model,
    nested_cross_validation,
    save_model,
    solve,
)
from manykernels.estimators.selection import averages, choice
from manykernels.estimators.selection.averages import AverageModels, center_kernel, fit_averages, largest_strengths
from manykernels.estimators.selection.folds import OpenedKernels, empty_models, fit_starts, select_short_folds
from manykernels.estimators.selection.mixtures import (
    EMPTY,
    EVERY,
    NARROW,
    PLAIN,
    SPECIAL,
    Mixture,
    averages_of,
    selections_of,
)
from manykernels.estimators.selection.scores import _fit_logistic, calibrated_loss
from manykernels.estimators.selection.search import MixtureSearch, Rung
from manykernels.estimators.selection.strengths import (
    COARSE,
    Evidence,
    Grid,
    StrengthPath,
    choose_candidates,
    exchanges,
    rivals_of,
)
from manykernels.estimators.supervised.problems import SolverChoice, _uninterrupted, descend
from manykernels.exceptions import InvalidInputError
from manykernels.grams import DenseStack
from manykernels.grams.plan import MOST_ROOM
from manykernels.kernels import Joint, MedianWidth, PerFeature, Spare, Views
from manykernels.objective import BlockL1, Problem, Ridge, get_loss
from manykernels.solvers.fold import Candidate

RNG = np.random.default_rng(3)
X = RNG.uniform(-2, 2, size=(60, 3))
Y = np.sin(2 * X[:, 1]) + 0.3 * RNG.normal(size=60)
LABELS = np.where(Y > 0.1, "high", "low")


def bank() -> KernelBank:
    own = [(f"x{j}: gaussian({w})", Gaussian(w), [j]) for j in range(3) for w in (0.5, 2.0)]
    return KernelBank([*own, ("all: gaussian(1)", Gaussian(1.0), None), ("all: linear", Linear(), None)])


def matrices(n: int = 30, new: int = 7) -> tuple[Any, Any]:
    rows = RNG.normal(size=(n + new, 4))
    gram = np.exp(-((rows[:, None] - rows) ** 2).sum(axis=2) / 8)
    return gram[:n, :n], gram[n:, :n]


# --- averages --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [30, 400])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_averages_of_the_squared_loss_are_kernel_ridge_regression(n: int, dtype: Any) -> None:
    gram, cross = (matrix.astype(dtype).astype(np.float64) for matrix in matrices(n))
    targets, strengths = RNG.normal(size=(n, 3)), np.array([0.1, 1.0, 5.0])
    losses, weight = [get_loss("squared")] * 3, np.ones(n)
    kernel = center_kernel(gram.copy(), cross.copy(), centered=False, dtype=dtype)
    found = fit_averages(kernel, losses, targets, weight, strengths, tol=1e-15)
    expected = KernelRidge(kernel="precomputed", alpha=strengths).fit(gram, targets).predict(cross)
    rounded = 1.0 if dtype is np.float64 else 1e3
    np.testing.assert_allclose(found.new_scores, expected, rtol=1e-6 * rounded, atol=1e-7 * rounded)
    coefficients, _ = found.expansions
    np.testing.assert_allclose(cross @ coefficients, found.new_scores, rtol=1e-7 * rounded, atol=1e-9 * rounded)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_a_factor_that_is_kept_with_a_kernel_serves_the_next_strengths(
    loss: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gram, cross = matrices(400, 9)
    y = np.sin(3 * gram[:, :1]) + 0.1 * RNG.normal(size=(400, 1))
    y, losses, weight = np.sign(y - np.median(y)) if loss == "logistic" else y, [get_loss(loss)], np.ones(400)
    made: list[float] = []
    factorized = averages._factorized
    monkeypatch.setattr(averages, "_factorized", lambda *given: made.append(given[1]) or factorized(*given))
    monkeypatch.setattr(averages, "KEPT_ROWS", 100)
    kernel = center_kernel(gram.copy(), cross.copy(), centered=True, dtype=np.float32)
    known = fit_averages(kernel, losses, y, weight, np.array([1.0]), tol=1e-6)
    n_first, scale = len(made), 0.1 if loss == "logistic" else 1e-3
    for strength in (0.8, 0.5, 0.4):
        known = fit_averages(kernel, losses, y, weight, np.array([strength]), tol=1e-6, start=known)
        assert known.finished
        wanted = solve(gram[None], y[:, 0], loss=loss, penalty="ridge", strength=strength, tol=1e-10)
        scores = wanted.kernel_weights[0] * cross @ wanted.dual_coef + wanted.intercept
        np.testing.assert_allclose(known.new_scores[:, 0], scores, atol=scale)
    assert (n_first, len(made)) == (1, 1) if loss == "squared" else len(made) - n_first <= 1


@pytest.mark.parametrize("unit", [1e-45, 1e45])
def test_averages_know_no_unit_that_single_precision_could_leave(unit: float) -> None:
    gram, cross = matrices()
    losses, weight, y = [get_loss("logistic")], np.ones(30), np.sign(RNG.normal(size=(30, 1)))
    found = []
    for scale in (1.0, unit):
        kernel = center_kernel(scale * gram, scale * cross, centered=True, dtype=np.float32)
        found.append(fit_averages(kernel, losses, y, weight, np.array([0.1]) * scale, tol=1e-8).new_scores)
    np.testing.assert_allclose(found[1], found[0], atol=1e-3)


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge", "squared", "huber"])
@pytest.mark.parametrize("centered", [True, False])
def test_averages_are_those_of_the_solver(loss: str, centered: bool) -> None:
    gram, _ = matrices()
    targets = RNG.normal(size=(30, 2)) if loss in ("squared", "huber") else np.sign(RNG.normal(size=(30, 2)))
    weight, strengths = RNG.uniform(0.5, 2.0, 30), np.array([0.05, 2.0])
    kernel = center_kernel(gram.copy(), gram.copy(), centered=centered)
    found = fit_averages(kernel, [get_loss(loss)] * 2, targets, weight, strengths, tol=1e-13).new_scores
    for k in range(2):
        wanted = solve(
            gram[None], targets[:, k], loss=loss, penalty="ridge", strength=strengths[k], sample_weight=weight,
            fit_intercept=centered, tol=1e-11,
        )  # fmt: skip
        scores = wanted.kernel_weights[0] * gram @ wanted.dual_coef + wanted.intercept
        np.testing.assert_allclose(found[:, k], scores, atol=2e-4)


def test_sums_of_kernels_tell_the_strengths_at_which_next_to_nothing_is_left() -> None:
    grams, weight, loss = np.array([matrices()[0] for _ in range(2)]), RNG.uniform(0.5, 2.0, 30), get_loss("logistic")
    given: dict[str, Any] = {"sample_weight": weight, "kernel_penalties": np.array([1.0, 2.0])}
    problems = [Problem(DenseStack(grams), y, loss, Ridge(1.0), **given) for y in np.sign(RNG.normal(size=(2, 30)))]
    expected = [Mixture(EVERY, np.ones(2), 0.0).scale(*model).squared for model in empty_models(problems)]
    gram = grams[0] + grams[1] / 4.0
    np.testing.assert_allclose(largest_strengths(problems, gram), expected, rtol=1e-10)
    assert largest_strengths(problems, np.ones((30, 30))) is None  # of a constant kernel all there is is rounding


def test_averages_far_from_the_best_constants_are_within_their_gap() -> None:
    gram, cross = matrices(60)
    losses, weight, y = [get_loss("logistic")], np.ones(60), np.sign(gram[0] - np.median(gram[0]))[:, None]
    kernel = center_kernel(gram, cross, centered=True)
    weak, exact = (fit_averages(kernel, losses, y, weight, np.array([1e-4]), tol=tol) for tol in (1e-2, 1e-12))
    np.testing.assert_array_equal(np.sign(weak.fitted), y)
    assert _objective(weak, y, gram) <= 1.02 * _objective(exact, y, gram)


def _objective(model: AverageModels, y: Any, gram: Any) -> float:
    """Return the objective of a model on a kernel, logistic."""
    assert model.kernel is not None
    penalty = 0.5 * model.strengths[0] * float(model.coefficients[:, 0] @ gram @ model.coefficients[:, 0])
    return float(np.logaddexp(0.0, -y * model.fitted).sum()) + penalty


def test_averages_begin_from_those_of_another_strength() -> None:
    rng = np.random.default_rng(4)
    points = rng.normal(size=(120, 3))
    gram = np.exp(-((points[:, None] - points) ** 2).sum(axis=2) / 4.0)
    targets = np.sign(np.sin(2 * points[:, :2]) + 0.5 * rng.normal(size=(120, 2)))
    losses, weight, model = [get_loss("logistic")] * 2, np.ones(120), None
    kernel = center_kernel(gram.copy(), gram[:10].copy(), centered=True)
    for strength in 3.0 ** -np.arange(4.0):
        strengths = np.array([1.0, 2.0]) * strength
        model = fit_averages(kernel, losses, targets, weight, strengths, tol=1e-11, start=model)
        fresh = fit_averages(kernel, losses, targets, weight, strengths, tol=1e-13)
        np.testing.assert_allclose(model.new_scores, fresh.new_scores, atol=1e-4)


def test_models_of_all_rows_begin_from_the_mean_of_the_folds() -> None:
    rng = np.random.default_rng(6)
    points, y = rng.normal(size=(12, 2)), np.sign(rng.normal(size=(12, 2)))
    gram, losses = np.exp(-((points[:, None] - points) ** 2).sum(axis=2)), [get_loss("logistic")] * 2
    places, models = [np.array([0, 1, 2, 3, 4, 5, 6, 7]), np.array([4, 5, 6, 7, 8, 9, 10])], []
    for at, strength in zip(places, (0.1, 0.3), strict=True):
        kernel = center_kernel(gram[np.ix_(at, at)], gram[:, at], centered=True)
        own = fit_averages(kernel, losses, y[at], np.ones(len(at)), np.full(2, strength), tol=1e-6)
        models.append(replace(own, weights=np.ones(1)))
    found = AverageModels.mean_of(list(zip(places, models, strict=True)), 2, 12)
    assert found is not None
    first, second = (own.expansions[0] * own.strengths for own in models)
    expected = np.vstack([first[:4], (first[4:] + second[:4]) / 2, second[4:], np.zeros((1, 2))])
    np.testing.assert_allclose(np.array([own.dual_coef for own in found]).T, expected, rtol=1e-12)
    np.testing.assert_allclose(
        [own.intercept for own in found], (models[0].expansions[1] + models[1].expansions[1]) / 2, rtol=1e-12
    )
    assert all(own.certificate.relative_gap == np.inf for own in found)


def test_averages_of_a_bank_are_told_by_kind() -> None:
    found = {mixture.label: mixture.kernels.tolist() for mixture in averages_of(bank().fit(X), np.ones(8))}
    assert found == {
        EVERY: list(range(8)), "kernels on several columns": [6, 7], "gaussian(1)": [6], "linear": [7],
    }  # fmt: skip
    views = KernelBank.from_views({"a": [0], "b": [1, 2]}, specs=[Gaussian(1.0), Linear()], standardize=False)
    labels = [mixture.label for mixture in averages_of(views.fit(X), np.ones(4))]
    assert labels[0] == EVERY
    assert {"gaussian(width=1)", "linear()"} <= set(labels)


# --- walks -----------------------------------------------------------------------------------------------------------


def walked(score: Any, grid: Grid, around: Sequence[int] = (), stride: int = 0, noise: float = 0.1) -> StrengthPath:
    """Walk where the fold scores at a number are known."""

    def try_at(numbers: Sequence[int]) -> Iterator[tuple[int, list[Candidate]]]:
        for number in numbers:
            scores = [np.array([[score(number) + off]]) for off in (-noise, noise)]
            yield number, [Candidate(mixture, grid.fraction(number), own, 1.0) for own in scores]

    mixture = Mixture(EVERY, np.ones(2), 1.0)
    return StrengthPath(mixture, grid, around, stride).follow(try_at)


def test_a_walk_ends_where_nothing_is_left_to_gain() -> None:
    whole, ended = (walked(lambda n: -(0.5**n), Grid(25, 1e-3, enough)) for enough in (np.inf, -(0.5**8.5)))
    assert whole.numbers[-1] >= 24
    assert ended.numbers[-1] <= 13  # two coarse steps are tried together


def test_classes_that_kernels_separate_take_no_strength_next_to_nothing() -> None:
    # Of 200 rows none is told wrong at any small strength, and probabilities nearer to one are proved by nothing.
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200, 3))
    rows[:, 0] = np.where(np.arange(200) < 8, 1.0 + np.abs(rows[:, 0]), -1.0 - np.abs(rows[:, 0]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = MKLClassifierCV().fit(rows, np.arange(200) < 8)
    assert model.score(rows, np.arange(200) < 8) == 1.0
    assert np.min(model.alpha_) > 1e-6
    assert -1.0 / 20 < model.best_score_ < 0.0


def test_kernels_of_a_mixture_have_its_weights() -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(3, 12, 4))
    whole = Problem(features @ features.transpose(0, 2, 1), rng.normal(size=12), get_loss("squared"), BlockL1(0.3))
    found = Mixture("two", np.array([0.0, 1.0, 4.0]), 1.0).pose(whole)
    np.testing.assert_array_equal(found.penalties, [1.0, 0.5])
    rho = rng.normal(size=12)
    np.testing.assert_allclose(found.dual_norms(rho), whole.dual_norms(rho)[1:] * [1.0, 2.0], rtol=1e-12)


@pytest.mark.parametrize("best", [0, 1, 5, 11, 24, 31])
def test_a_walk_finds_the_best_strength_also_beyond_its_grid(best: int) -> None:
    walk = walked(lambda n: -abs(n - best), Grid(25, 1e-3))
    assert walk.best()[0] == best
    assert len(walk.trials) < 20


def test_a_walk_stops_on_a_plateau_and_at_its_end() -> None:
    grid = Grid(25, 1e-3)
    flat = walked(lambda n: min(n, 6) - 6.0, grid)
    assert flat.numbers[-1] < grid.last
    rising = walked(lambda n: float(n), grid)
    assert rising.numbers[-1] == grid.last
    assert not rising.flat()


@pytest.mark.parametrize("unit", [1e-18, 1e-6, 1e12])
def test_walks_do_not_depend_on_the_unit_of_scores(unit: float) -> None:
    """Mean squared errors of a target of the size of 1e-9 are of the size of 1e-18."""
    grid = Grid(25, 1e-3)
    assert walked(lambda n: unit * n, grid, noise=0.1 * unit).numbers[-1] == grid.last
    for spread in (0.1 * unit, 0.0):  # of the same score in all folds rounding alone is left
        flat = walked(lambda n: unit * (min(n, 6) - 6.7 + 1e-16 * n), grid, noise=spread)
        assert flat.flat()
        assert flat.numbers[-1] < grid.last


@pytest.mark.parametrize(
    "grid", [Grid(25, 1e-6), Grid(25, 1e-3), Grid(8, 1e-3), Grid(5, 0.1), Grid(2, 0.5), Grid(1, 1e-3)]
)
@pytest.mark.parametrize("finest", [1, COARSE])
def test_a_walk_may_begin_where_one_with_fewer_rows_was_best(grid: Grid, finest: int) -> None:
    first = walked(lambda n: float(n), grid)
    assert first.best()[0] <= grid.last
    second = walked(lambda n: float(n), grid, around=first.best().tolist(), stride=finest)
    assert second.best()[0] >= first.best()[0]


def test_scores_that_are_noise_seldom_lead_to_the_far_end() -> None:
    grid = Grid(8, 1e-3)  # on few strengths the best of noise is often the last
    mixture, ends = Mixture(EVERY, np.ones(2), 1.0), []
    for seed in range(200):
        noise = np.random.default_rng(seed).normal(size=(grid.last + COARSE + 1, 5))

        def try_at(numbers: Sequence[int], noise: np.ndarray = noise) -> Iterator[tuple[int, list[Candidate]]]:
            for number in numbers:
                yield (
                    number,
                    [Candidate(mixture, grid.fraction(number), own.reshape(1, 1), 1.0) for own in noise[number]],
                )

        ends.append(StrengthPath(mixture, grid).follow(try_at).numbers[-1])
    assert np.mean(np.array(ends) >= grid.last) < 0.15  # a quarter went there


def test_a_walk_that_cannot_come_level_is_left() -> None:
    def tried(score: Callable[[int], float], numbers: Sequence[int]) -> Iterator[tuple[int, list[Candidate]]]:
        for number in numbers:
            yield number, [Candidate(Mixture(EVERY, np.ones(2), 0.5), 1.0, np.array([[score(number)]]), 1.0)]

    def n_tried(score: Callable[[int], float], level: float, around: Sequence[int] = (6,)) -> int:
        def viable(path: StrengthPath) -> bool:
            return path.can_win(np.array([[level]]), beyond=True)

        path = StrengthPath(Mixture(EVERY, np.ones(2), 0.5), Grid(25, 1e-3), around)
        return len(path.follow(lambda numbers: tried(score, numbers), viable=viable).trials)

    def parabola(top: int) -> Callable[[int], float]:
        return lambda number: -0.01 * (number - top) ** 2

    def saturated(number: int) -> float:  # every three steps half of what is missing to zero is gained
        return -(0.5 ** (number / 3))

    def backward(number: int) -> float:
        return saturated(24 - number)

    whole = [n_tried(*of) for of in ((parabola(6), -1e9), (saturated, -1e9), (backward, -1e9, (18,)))]
    # The top is known from three strengths beside it, and what may come from three on one side of it.
    assert [n_tried(parabola(6), level) for level in (0.001, -0.001)] == [3, whole[0]]
    assert [n_tried(saturated, level) for level in (0.001, -0.001)] == [3, whole[1]]
    assert [n_tried(backward, level, (18,)) for level in (0.001, -0.001)] == [3, whole[2]]
    assert min(whole) > 3
    # What rises ever faster may come to any level.
    assert n_tried(lambda number: 0.01 * min(number, 18) ** 2, 1e9) > whole[0]


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_a_walk_ends_where_less_is_left_to_gain_than_scores_can_tell(noise: float) -> None:
    def tried(numbers: Sequence[int]) -> Iterator[tuple[int, list[Candidate]]]:
        for number in numbers:
            scores = (np.array([[side * number - 0.5**number]]) for side in (-noise, noise))
            yield number, [Candidate(Mixture(EVERY, np.ones(2), 1.0), 1.0, own, 1.0) for own in scores]

    # Half of what is left to gain is gained by every step, whose standard error is the noise.
    path = StrengthPath(Mixture(EVERY, np.ones(2), 1.0), Grid(25, 1e-3), (4,), 1).follow(tried)
    assert path.numbers[-1] == 6 if noise else path.numbers[-1] >= 24


@pytest.mark.parametrize(
    ("best", "numbers"), [(15, [12, 15, 18, 21]), (21, [18, 21, 24]), (40, [18, 21, 24]), (0, list(range(0, 22, 3)))]
)
def test_a_climb_tries_weaker_strengths_only_where_they_may_be_better(best: int, numbers: list[int]) -> None:
    mixture, grid = Mixture(EVERY, np.ones(2), 1.0), Grid(25, 1e-3)

    def try_at(numbers: Sequence[int]) -> Iterator[tuple[int, list[Candidate]]]:
        for number in numbers:
            yield number, [Candidate(mixture, grid.fraction(number), np.array([[-abs(number - best)]]), 1.0)]

    assert StrengthPath(mixture, grid, (21,)).climb(try_at).numbers == numbers


class KnownFolds(Rung):
    """Folds with scores at the best strength, number 15, that are a unit higher than beside it, and what was asked."""

    def try_strengths(self, family: Any, strengths: Sequence[float], among: slice = slice(None)) -> Any:
        """Yield candidates, with a note of every strength and number of folds."""
        for strength in strengths:
            number, levels = Grid(25, 1e-3).nearest(strength), np.array([2.0, -1.0, 1.5])[among]
            self.advance(f"{number} {len(levels)}")
            yield [Candidate(family, strength, np.array([[level - abs(number - 15) / 3]]), 1.0) for level in levels]


@pytest.mark.parametrize(
    ("others", "wins", "last"),
    [([0.0, 0.0, 0.0], True, "15 3"), ([1.0, 1.0, 1.0], False, "15 2"), ([0.0, 0.0, 5.0], False, "15 3")],
)
def test_what_is_tried_late_is_left_after_two_folds_or_three(others: list[float], wins: bool, last: str) -> None:
    asked: list[str] = []
    look = StrengthPath(Mixture(EVERY, np.ones(2), 1.0, 0.5), Grid(25, 1e-3), (18,))
    assert KnownFolds([], 1, asked.append)._wins_late(look, np.array(others)[:, None]) is wins
    assert asked[:4] == ["18 1", "15 1", "12 1", "15 2"]  # none weaker, and beyond the first fold the best alone
    assert asked[-1] == last


def test_models_of_all_classes_begin_from_one_start(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def counted(*given: Any) -> Any:
        asked.append(given[-2:])
        return fit_starts(*given)

    monkeypatch.setattr(choice, "fit_starts", counted)
    X = np.random.default_rng(0).normal(size=(90, 2))
    model = MKLClassifierCV(penalty="ridge", cv=2).fit(X, np.digitize(X[:, 0], [-0.5, 0.5]))
    assert len(model.solution_) == 3
    assert len(asked) == 1


def test_the_rule_of_one_standard_error_takes_the_simplest() -> None:
    scores = [[0.5, 0.5], [0.79, 0.87], [0.8, 0.9], [0.8, 0.89]]
    found = [
        Candidate(Mixture(EVERY, np.ones(9), 1.0), 0.1, np.array(pair)[:, None], n, 0, False)
        for pair, n in zip(scores, (1, 2, 9, 5), strict=True)
    ]
    assert choose_candidates(found, "best").tolist() == [2]
    assert choose_candidates(found, "1se").tolist() == [1]


def test_one_lucky_strength_does_not_decide() -> None:
    walks = [Mixture(EVERY, np.ones(9), mixing) for mixing in (0.0, 1.0)]
    scores = [(0, 0.7), (0, 0.85), (0, 0.7), (1, 0.8), (1, 0.82), (1, 0.8)]
    found = [Candidate(walks[k], 0.1, np.array([[score], [score]]), 1, 0, False) for k, score in scores]
    assert choose_candidates(found, "best").tolist() == [4]


def test_ends_of_a_walk_are_smoothed_as_much_as_its_middle() -> None:
    walk = Mixture(EVERY, np.ones(9), 1.0)

    def taken(*means: float) -> int:
        return int(choose_candidates([Candidate(walk, 0.1, np.full((2, 1), mean), 1) for mean in means], "best")[0])

    # The last is far below: the mean of the first with itself would be above that of the best with its neighbors.
    assert [taken(0.79, 0.8, 0.7), taken(0.7, 0.8, 0.79), taken(0.8, 0.79, 0.7)] == [1, 1, 0]
    assert [taken(0.8, 0.79), taken(0.8), taken(-np.inf, 0.8, 0.79, 0.7)] == [0, 0, 1]


def test_the_more_special_the_more_evidence_is_needed() -> None:
    average = [0.8, 0.9, 0.8, 0.9]
    selection, view = (Mixture(EVERY, np.ones(4), 1.0, SPECIAL), Mixture("left", np.array([1.0, 0, 0, 0]), 0.0, NARROW))

    def best(*others: tuple[Mixture, list[float]]) -> str:
        each = [(Mixture(EVERY, np.ones(4), 0.0), average), *others]
        found = [Candidate(m, 0.1, np.array(s)[:, None], 4, 0, False) for m, s in each]
        taken = found[choose_candidates(found, "best")[0]].family
        return "view" if taken is view else "selection" if taken is selection else "average"

    tied, little, lucky = [0.86, 0.84, 0.8, 0.91], [0.85, 0.93, 0.8, 0.86], [0.95, 0.8, 0.95, 0.8]
    sure = [0.85, 0.96, 0.86, 0.95]
    assert best() == best((selection, tied)) == "average"  # ahead by a seventh of a standard error
    assert (best((selection, little)), best((view, little))) == ("selection", "average")  # by half of one and more
    assert (best((selection, sure)), best((view, sure))) == ("selection", "view")  # in every fold
    assert (best((selection, lucky)), best((view, lucky))) == ("average", "average")
    # A view that is ahead of the average, but not of the selection; none of them decides for the other.
    assert best((selection, sure), (view, [0.86, 0.95, 0.87, 0.96])) == "selection"
    assert best((selection, tied), (view, sure)) == "view"
    assert best((selection, [0.7] * 4), (view, [0.6] * 4)) == "average"


def test_evidence_is_each_target_s_own_and_scores_that_are_not_finite_are_none() -> None:
    average, selection = Mixture(EVERY, np.ones(4), 0.0), Mixture(EVERY, np.ones(4), 1.0, SPECIAL)
    nothing = [np.nan, 0.5, 0.5, 0.5]
    scores = {
        average: [[0.5, 0.5, 0.5, 0.5], [0.5, 0.5, 0.5, 0.5], nothing],
        selection: [[0.6, 0.7, 0.6, 0.7], [0.9, 0.4, 0.6, 0.3], [0.1, 0.1, 0.1, 0.1]],
    }
    found = [Candidate(m, 0.1, np.array(each).T, 4, 0, False) for m, each in scores.items()]
    assert choose_candidates(found, "best").tolist() == [1, 0, 1]
    parts = [Mixture(name, np.ones(4), 0.0, NARROW) for name in "ab"]  # nothing in less doubt
    found = [Candidate(m, 0.1, np.array([[s], [s]]), 4, 0, False) for m, s in zip(parts, (0.1, 0.2), strict=True)]
    assert choose_candidates(found, "best").tolist() == [1]


def test_what_is_special_and_what_leaves_out_columns_is_known_as_that() -> None:
    views = KernelBank.from_views({"a": [0, 1], "b": [1, 2]}, specs=[Gaussian(1.0), Linear()], standardize=False)
    kinds = {"gaussian(width=1)", "linear()"}
    for fitted, special, narrow in (
        (views.fit(X), kinds, {"a", "b"}),
        (bank().fit(X), {"gaussian(1)", "linear"}, set()),
        (PrecomputedBank().fit(KernelStack([X @ X.T, np.eye(len(X))], ["left", "right"])), set(), {"left", "right"}),
    ):
        found = averages_of(fitted, np.ones(len(fitted)))
        assert {mixture.label for mixture in found if mixture.doubt == NARROW} == narrow
        assert {mixture.label for mixture in found if mixture.doubt == SPECIAL} == special
        assert found[0].label == EVERY
        assert found[0].doubt == PLAIN
    assert [mixture.doubt for mixture in selections_of(np.ones(3), [0.0, 0.5, 1.0])] == [SPECIAL, SPECIAL]


class KnownFold:
    """A fold whose scores are known, which counts what it is asked."""

    held_out = SimpleNamespace(scorer=None)

    def __init__(self, score: Callable[[float, float], float], matrix_bytes: int = 0) -> None:
        self.score, self.matrix_bytes = score, matrix_bytes
        self.asked: list[tuple[float, float]] = []
        self.closed = 0
        self.kernels, self.is_open = self, True

    def averages(self, mixture: Mixture) -> bool:
        return mixture.mixing == 0

    def retained_bytes(self, mixture: Mixture, held_out: Any) -> int:
        return 0 if self.averages(mixture) else self.matrix_bytes

    def lighten(self, mixture: Mixture) -> None:
        pass

    def try_strength(self, mixture: Mixture, fraction: float) -> Candidate:
        self.asked.append((mixture.mixing, fraction))
        return Candidate(mixture, fraction, np.array([[self.score(mixture.mixing, fraction)]]), 1.0)

    def constant(self, held_out: Any) -> np.ndarray:
        return np.array([0.0])

    def close(self) -> None:
        self.closed += 1

    let_go = close

    def forget(self, *best: Any) -> None:
        pass


def raced(folds: list[Any], n_alphas: int = 25, *, every: bool = False) -> set[float]:
    """Return the mixings that were walked by a search in these folds."""
    mixtures = [Mixture(EVERY, np.ones(2), mixing) for mixing in (0.0, 1.0, 0.5)]
    found = searched(Rung(folds, 1, lambda line: None), mixtures, n_alphas, every=every)
    return {candidate.family.mixing for candidate in found}


def searched(folds: Rung, mixtures: list[Mixture], n_alphas: int = 25, *, every: bool = False) -> list[Candidate]:
    """Return what a search of an average and of selections tried, but for the empty model."""
    nothing = Mixture(EVERY, np.ones(2), 1.0, EMPTY)
    return MixtureSearch(mixtures[:1], mixtures[1:], nothing, n_alphas, 1e-3, every=every).score(folds)[1:]


def test_what_cannot_win_with_fewer_rows_is_not_tried_with_all() -> None:
    levels = {0.0: 0.7, 1.0: 0.8, 0.5: 0.75}

    def parabola(mixing: float, fraction: float) -> float:
        return levels[mixing] - 0.01 * float(np.log(fraction / 0.05)) ** 2

    few, whole = ([KnownFold(parabola) for _ in range(n)] for n in (3, 5))
    mixtures = [Mixture(EVERY, np.ones(2), mixing) for mixing in (0.0, 1.0, 0.5)]
    search = Rung(whole, 1, lambda line: None)
    search.below = Rung(few, 1, lambda line: None, search.ending, finest=COARSE)
    found = searched(search, mixtures)
    assert {mixing for mixing, _ in few[0].asked} == {0.0, 1.0, 0.5}
    assert {candidate.family.mixing for candidate in found} == {0.0, 1.0} == {mixing for mixing, _ in whole[0].asked}
    best = max(found, key=lambda candidate: float(candidate.scores.mean()))
    assert abs(np.log(best.strength / 0.05)) < 0.5
    assert len(best.scores) == 5
    # Where time ends before all folds were tried, what is known of a few rows counts.
    stopped = Rung([KnownFold(parabola) for _ in range(5)], 1, lambda line: (_ for _ in ()).throw(KeyboardInterrupt))
    stopped.below = Rung(few, 1, lambda line: None, stopped.ending, finest=COARSE)
    known = searched(stopped, mixtures)
    assert stopped.ending.status is not None
    assert {candidate.family.mixing for candidate in known} == {0.0, 1.0}
    assert {len(candidate.scores) for candidate in known} == {3}


def test_an_average_is_tried_with_all_rows_whatever_fewer_rows_say() -> None:
    def parabola(mixing: float, fraction: float, levels: dict[float, float]) -> float:
        return levels[mixing] - 0.01 * float(np.log(fraction / 0.05)) ** 2

    mixtures = [Mixture(EVERY, np.ones(2), mixing) for mixing in (0.0, 1.0)]
    search = Rung([KnownFold(partial(parabola, levels={0.0: 0.8, 1.0: 0.7})) for _ in range(5)], 1, lambda line: None)
    few: list[Any] = [KnownFold(partial(parabola, levels={0.0: 0.7, 1.0: 0.8})) for _ in range(3)]
    search.below = Rung(few, 1, lambda line: None, search.ending, finest=COARSE)
    best = max(searched(search, mixtures), key=lambda candidate: float(candidate.scores.mean()))
    assert best.family.mixing == 0.0
    assert len(best.scores) == 5


@pytest.mark.parametrize("many", [True, False])
def test_of_many_rows_the_best_two_averages_are_tried_with_all_of_them(many: bool) -> None:
    def path(mixture: Mixture, level: float) -> StrengthPath:
        own = StrengthPath(mixture, Grid(25, 1e-6))
        for number in (3, 6, 9):
            scores = np.array([[level - 0.01 * (number - 6) ** 2]])
            own.trials[number] = [Candidate(mixture, own.grid.fraction(number), scores, 1.0)] * 3
        return own

    averages = [path(Mixture(EVERY, np.eye(4)[k], 0.0), level) for k, level in enumerate((0.6, 0.8, 0.7, 0.5))]
    selection = path(Mixture(EVERY, np.ones(4), 1.0), 0.4)
    rung = Rung([], 1, lambda line: None, many=many)
    kept = averages[1:3] if many else averages
    assert rung._best_averages([*averages, selection]) == [*kept, selection]
    assert rung._around(averages[0]) == ([6, 7] if many else [6])


def test_a_mixture_between_goes_on_to_all_rows_only_where_it_is_ahead_of_the_sparser_one() -> None:
    mixtures = [Mixture(EVERY, np.ones(2), mixing) for mixing in (0.0, 1.0, 0.5)]
    for more, gone_on in ((-0.01, {1.0}), (0.01, {1.0, 0.5})):
        folds: list[Any] = []
        for luck in (0.08, -0.08, 0.0):  # equal but for luck, so that no error over the folds ends the race

            def parabola(mixing: float, fraction: float, luck: float = luck, more: float = more) -> float:
                level = {0.0: 0.7, 1.0: 0.8, 0.5: 0.8 + more + luck}[mixing]
                return level - 0.01 * float(np.log(fraction / 0.05)) ** 2

            folds.append(KnownFold(parabola))
        search = Rung([KnownFold(folds[k % 3].score) for k in range(5)], 1, lambda line: None)
        search.below = Rung(folds, 1, lambda line: None, search.ending, finest=COARSE)
        assert {candidate.family.mixing for candidate in searched(search, mixtures)} >= gone_on
        assert {mixing for mixing, _ in search.folds[0].asked} - {0.0} == gone_on


@pytest.mark.parametrize("more", [-0.01, 0.01])
def test_a_selection_goes_on_to_all_rows_only_where_it_is_ahead_of_averages(more: float) -> None:
    def of_luck(luck: float) -> KnownFold:
        def parabola(mixing: float, fraction: float) -> float:
            return 0.8 + (more + luck) * (mixing == 1.0) - (mixing == 0.5) - 0.01 * float(np.log(fraction / 0.05)) ** 2

        return KnownFold(parabola)

    lucks = (0.08, -0.08, 0.0)  # equal but for luck: a fifth of a standard error
    search = Rung([of_luck(lucks[k % 3]) for k in range(5)], 1, lambda line: None)
    search.below = Rung([of_luck(luck) for luck in lucks], 1, lambda line: None, search.ending, finest=COARSE)
    searched(search, [Mixture(EVERY, np.ones(2), mixing) for mixing in (0.0, 1.0, 0.5)])
    assert any(mixing == 1.0 for mixing, _ in search.folds[0].asked) == (more > 0)


@pytest.mark.parametrize("most", [0, 3, 4, 5])
def test_a_search_that_ends_between_a_look_and_a_walk_keeps_what_was_scored(most: int) -> None:
    class Ending(KnownFold):
        def try_strength(self, mixture: Mixture, fraction: float) -> Candidate:
            if mixture.mixing and sum(mixing > 0 for mixing, _ in self.asked) == most:
                raise KeyboardInterrupt
            return super().try_strength(mixture, fraction)

    folds = Rung([Ending(lambda mixing, _: 0.7 + 0.1 * mixing) for _ in range(5)], 1, lambda line: None)
    found = searched(folds, [Mixture(EVERY, np.ones(2), mixing) for mixing in (0.0, 1.0, 0.5)])
    assert folds.ending.status is not None
    assert {candidate.family.mixing for candidate in found} == ({0.0, 1.0} if most > 3 else {0.0})


def test_folds_of_fewer_rows_keep_every_class_and_hold_out_the_same_rows() -> None:
    labels = np.repeat([0, 1, 2], [1500, 450, 50])
    splits = [(np.flatnonzero(np.arange(2000) % 5 != k), np.flatnonzero(np.arange(2000) % 5 == k)) for k in range(5)]
    weight = np.where(np.arange(2000) < 100, 0.0, 1.0)
    fewer = select_short_folds(splits, labels, weight)
    assert len(fewer) == 3
    for (train, test), (whole, held_out) in zip(fewer, splits, strict=False):
        assert set(train) <= set(whole)
        assert len(train) == len(set(train)) == (weight[whole] > 0).sum() // 2
        assert (weight[train] > 0).all()
        assert set(labels[train]) == {0, 1, 2}
        np.testing.assert_array_equal(test, held_out)
    short = [(train[:350], test) for train, test in splits]  # of which 80 have no weight
    assert select_short_folds(short, labels, weight) == []


def test_what_cannot_win_is_not_walked() -> None:
    def won(average: float, selection: float, *, every: bool = False) -> set[float]:
        levels = {0.0: average, 1.0: selection, 0.5: 0.9}
        return raced([KnownFold(lambda mixing, fraction: levels[mixing]) for _ in range(3)], every=every)

    assert won(0.8, 0.7) == {0.0}
    assert won(0.7, 0.8) == won(0.8, 0.7, every=True) == {0.0, 0.5, 1.0}


def test_scouts_try_three_folds_at_few_strengths_around_that_of_the_best_average() -> None:
    def scouted(best: float, n_folds: int) -> list[list[float]]:
        def score(mixing: float, fraction: float) -> float:
            return (0.5 if mixing else 0.8) - 0.01 * abs(np.log(fraction / best))

        folds = [KnownFold(score) for _ in range(n_folds)]
        assert raced(folds) == {0.0}
        return [[fraction for mixing, fraction in fold.asked if mixing] for fold in folds]

    sparse = scouted(1e-2, 5)
    assert [len(own) for own in sparse] == [3, 3, 3, 0, 0]
    np.testing.assert_allclose(sorted(sparse[0]), 1e-3 ** (np.array([19, 16, 13]) / 24))
    assert [len(own) for own in scouted(1e-2, 10)] == [3] * 5 + [0] * 5
    # Where the best average has the largest strength, at which a selection is empty, or one beyond its grid: inside.
    np.testing.assert_allclose(sorted(scouted(1.0, 5)[0]), 1e-3 ** (np.array([6, 3, 0]) / 24))
    np.testing.assert_allclose(sorted(scouted(1e-5, 5)[0][:3]), 1e-3 ** (np.array([24, 21, 18]) / 24))


def test_a_look_ends_as_soon_as_it_cannot_come_level() -> None:
    def n_asked(gains: Sequence[float]) -> int:
        def score(mixing: float, fraction: float) -> float:
            number = round(-np.log(fraction) / np.log(1e3) * 8)  # of three steps of the grid
            return 0.5 + sum(gains[:number]) if mixing else 1.0 - 0.01 * abs(np.log(fraction))

        folds = [KnownFold(score) for _ in range(5)]
        raced(folds)
        return sum(mixing == 1.0 for mixing, _ in folds[0].asked)

    # Every step gains half of the one before, which leaves it behind for good; or as much again.
    assert n_asked([0.1, 0.05, 0.025, 0.0125, 0.006]) == 3 < n_asked([0.08] * 5)


def test_a_narrow_top_between_the_strengths_of_scouts_is_found() -> None:
    def score(mixing: float, fraction: float) -> float:
        return 1.0 - 0.02 * (np.log(fraction / 1e-3**0.62)) ** 2 if mixing == 1.0 else 0.99 if mixing == 0.0 else 0.5

    # At the strengths of the scouts the selection is behind the average in both folds.
    assert all(score(1.0, 1e-3 ** (k / 4)) < 0.99 for k in range(1, 4))
    assert 1.0 in raced([KnownFold(score) for _ in range(3)])


def test_a_selection_goes_on_unless_it_is_behind_by_a_standard_error() -> None:
    def walked_among(*scores: float) -> set[float]:
        return raced([KnownFold(lambda mixing, _, own=own: own if mixing == 1.0 else 0.6) for own in scores])

    assert walked_among(0.9, 0.4, 0.4, 0.5) == {0.0, 1.0}  # behind by less, and the elastic net is not tried
    assert walked_among(0.9, 0.4, 0.4, 0.0, 0.0) == {0.0, 1.0}  # behind by more, but only in all folds
    assert walked_among(0.5, 0.4, 0.4) == {0.0}


def test_folds_too_large_to_be_held_together_are_opened_one_at_a_time() -> None:
    def score(mixing: float, fraction: float) -> float:
        return mixing - (np.log(fraction / 1e-2)) ** 2

    small, large = ([KnownFold(score, matrix_bytes=size) for _ in range(3)] for size in (1, 2 * MOST_ROOM // 5))
    assert raced(small) == raced(large) == {0.0, 1.0}
    assert [sorted(fold.asked) for fold in small] == [sorted(fold.asked) for fold in large]
    assert [fold.closed for fold in small] == [large[0].closed, 1, 1] == [1, 1, 1]  # when all is tried
    assert min(fold.closed for fold in large[1:]) > 4  # one of them at a time beside the first


def test_folds_whose_sums_are_formed_anew_say_the_same() -> None:
    def frame(room: int) -> pd.DataFrame:
        with (
            patch.object(OpenedKernels, "room", room),
            patch.object(OpenedKernels, "_sum_of", autospec=True) as own,
        ):
            own.side_effect = formed
            found = MKLRegressorCV(bank(), cv=3, l1_ratios=(0.0,)).fit(X, Y).cv_frame()
        counts.append(own.call_count)
        return found

    counts: list[int] = []
    formed = OpenedKernels._sum_of
    pd.testing.assert_frame_equal(frame(MOST_ROOM), frame(0), rtol=1e-4)
    assert counts[0] < counts[1]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", ["two columns", "a wave", "a sum"])
def test_the_race_chooses_what_a_search_of_everything_chooses(kind: str) -> None:
    noise = 0.1 * np.random.default_rng(1).normal(size=60)
    own = {"two columns": Y, "a wave": np.sin(2 * X[:, 1]) + noise, "a sum": X.sum(axis=1) + noise}[kind]
    race, everything = (MKLRegressorCV(bank(), cv=3, l1_ratios=ratios).fit(X, own) for ratios in (None, (1, 0.5, 0)))
    error = everything.cv_frame()["std_score"][everything.best_index_] / np.sqrt(3)
    assert race.best_score_ >= everything.best_score_ - error / 2
    assert len(race.cv_frame()) <= len(everything.cv_frame())


def test_a_view_alone_ends_no_race() -> None:
    plain, view, selects = (
        StrengthPath(Mixture(EVERY, np.ones(2), mixing, doubt), Grid(5, 1e-2))
        for mixing, doubt in ((0.0, PLAIN), (0.0, NARROW), (1.0, SPECIAL))
    )
    known = [plain, view, selects]
    assert rivals_of(selects, known) == rivals_of(plain, known) == [plain, selects]
    assert rivals_of(view, known) == known


@pytest.mark.nightly
def test_the_last_fit_begins_from_the_first_fold_wherever_its_rows_are() -> None:
    rng = np.random.default_rng(2)
    labels, weight = np.where(np.sin(2 * X[:, 1]) + 0.2 * rng.normal(size=60) > 0, "b", "a"), np.ones(60)
    weight[::10] = 0.0
    order = rng.permutation(60)
    splits = [(np.setdiff1d(order, test, assume_unique=True), test) for test in np.array_split(order, 3)]
    seen = []

    def recorded(opened: Any, rows: np.ndarray, folds: Any, *of: Any) -> Any:
        seen.append((rows, folds[0], fit_starts(opened, rows, folds, *of)))
        return seen[-1][-1]

    where = "manykernels.estimators.selection.choice.fit_starts"
    with patch(where, lambda *_: None), patch.object(OpenedKernels, "room", 0):  # kernels are evaluated
        cold = MKLClassifierCV(bank(), cv=splits).fit(X, labels, sample_weight=weight)
    with patch(where, recorded), patch.object(OpenedKernels, "room", 0):
        warm = MKLClassifierCV(bank(), cv=splits).fit(X, labels, sample_weight=weight)
    [(rows, first, (start,))] = seen
    assert set(rows) - set(first.rows) == set(splits[0][1]) & set(np.flatnonzero(weight))
    placed = start.dual_coef[np.searchsorted(rows, first.rows)]
    solved = [models for models in first._kept.values() if isinstance(models, Sequence)]  # others are averages
    assert any(np.array_equal(placed, models[0].dual_coef) for models in solved)
    assert np.count_nonzero(start.dual_coef) == np.count_nonzero(placed) > 0
    assert max(warm.dual_gap_, cold.dual_gap_) <= warm.tol
    assert (warm.alpha_, warm.best_index_) == (cold.alpha_, cold.best_index_)
    np.testing.assert_allclose(warm.decision_function(X), cold.decision_function(X), atol=0.05)


@pytest.mark.nightly
def test_held_matrices_of_folds_change_no_choice() -> None:
    shut, opened = ([], [])
    for found, room in ((shut, 0), (opened, MOST_ROOM)):
        with patch.object(OpenedKernels, "room", room):
            found.append(MKLRegressorCV(bank(), cv=3, l1_ratios=(1.0, 0.5, 0.0)).fit(X, Y).cv_frame())
    pd.testing.assert_frame_equal(shut[0], opened[0])


def judged(gains: Sequence[float], p_value: float, share: float = 0.25) -> str:
    """What gains by fold over the best constant are."""
    scores, evidence = np.array(gains)[:, None], Evidence(share, np.array([p_value]))
    if not evidence.useful(scores, np.zeros_like(scores))[0]:
        return "nothing"
    return "in doubt" if evidence.doubtful(scores, np.zeros_like(scores))[0] else "a finding"


def test_a_finding_is_told_by_permuted_targets_and_what_is_useful_by_the_folds() -> None:
    lucky = [0.3, -0.2, 0.1, -0.1, 0.0]
    assert judged(lucky, 0.05) == "a finding"
    assert judged([-gain for gain in lucky], 0.05) == "nothing"
    assert judged(lucky, 0.055) == "nothing"
    # Five folds that share rows count as 2.22.
    spread, error = np.array([-2, -1, 0, 1, 2]), 1.5 * np.sqrt(10 / 4 / 5)
    quantile = 2.1318  # of Student's distribution with four degrees of freedom, 95 %
    sizes = 1.001 * quantile, 0.999 * quantile, 9.0
    assert [judged(spread + size * error, 0.5) for size in sizes] == ["in doubt", "nothing", "in doubt"]
    assert [judged(spread + size * error, np.nan) for size in (1.01, 0.99, 0.49)] == [
        "a finding",
        "in doubt",
        "nothing",
    ]
    assert judged(spread + 2.14 * np.sqrt(10 / 4 / 5), 0.5, share=0.0) == "in doubt"
    assert [judged([0.1], p) for p in (0.05, 0.5, np.nan)] == ["a finding", "in doubt", "a finding"]


def test_hazards_are_kept_by_half_an_error_or_a_permutation_test_at_20_percent() -> None:
    constants, spread = np.zeros((5, 1)), np.array([-2, -1, 0, 1, 2])[:, None]
    error = 1.5 * np.sqrt(10 / 4 / 5)
    for size, p_value, useful in ((0.51, 0.9, True), (0.49, 0.9, False), (-9.0, 0.2, True), (-9.0, 0.21, False)):
        evidence = Evidence(0.25, np.array([p_value]), ranks=True)
        assert evidence.useful(spread + size * error, constants)[0] == useful
        assert evidence.behind(spread + size * error, constants)[0] == (size < 0 and useful)


def weak(seed: int, effect: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return forty rows with a weak effect, and new rows without noise."""
    rng = np.random.default_rng(seed)
    rows, new = rng.normal(size=(40, 3)), rng.normal(size=(400, 3))
    return rows, effect * rows.sum(axis=1) + rng.normal(size=40), new, effect * new.sum(axis=1)


def test_a_search_predicts_with_what_is_useful_and_says_where_that_may_be_luck() -> None:
    rows, target, new, truth = weak(42, 0.3)
    ridge = partial(MKLRegressorCV, bank(), penalty="ridge")
    with pytest.warns(UserWarning, match=r"not more strongly related .* no finding") as caught:
        model = ridge().fit(rows, target)
    assert len(caught) == 1
    assert model.noise_p_value_ > 0.05
    assert np.mean((model.predict(new) - truth) ** 2) < 0.8 * np.mean((target.mean() - truth) ** 2)
    with pytest.warns(UserWarning, match=r"For 1 of 2 outputs \(0\) the kernels are not"):
        ridge().fit(rows, np.column_stack([target, 5 * rows[:, 1]]))
    with pytest.warns(UserWarning, match=r"not more strongly related .* no finding"):
        MKLRegressorCV(bank(), penalty="l1", n_alphas=8).fit(rows, target)
    rows, target, *_ = weak(3, 0.3)
    with pytest.warns(UserWarning, match="The kernels are less than a standard error ahead of a constant in 3 folds"):
        ridge(cv=TimeSeriesSplit(3)).fit(rows, target)


def test_permutations_count_where_samples_are_exchangeable() -> None:
    groups = np.arange(60) // 6
    assert [exchanges(cv, None) for cv in (None, 3, KFold(3))] == [True] * 3
    assert [exchanges(cv, None) for cv in (TimeSeriesSplit(3), [([0], [1])])] == [False] * 2
    assert [exchanges(cv, groups) for cv in (None, GroupKFold(3))] == [True] * 2  # as wholes
    assert not exchanges(GroupKFold(3), None)
    assert not exchanges(TimeSeriesSplit(3), groups)


@pytest.mark.nightly
def test_noise_is_no_finding_and_a_weak_effect_is_one() -> None:
    rows = np.random.default_rng(5).normal(size=(100, 3))
    noise = np.random.default_rng(6).normal(size=100)
    with pytest.warns(UserWarning, match="no kernel predicts better than a constant"):
        assert not MKLRegressorCV(bank(), cv=3).fit(rows, noise).kernel_weights_.any()
    assert MKLRegressorCV(bank(), cv=3).fit(rows, noise + 0.7 * rows[:, 0]).kernel_weights_.any()


def test_margins_are_calibrated_before_they_are_scored() -> None:
    rng = np.random.default_rng(0)
    odds = rng.normal(0.0, 2.0, size=4000)
    signs, weights = np.where(rng.uniform(size=4000) < 1 / (1 + np.exp(-odds)), 1.0, -1.0), np.ones(4000)
    true = np.mean(np.log1p(np.exp(-signs * odds)))
    assert abs(calibrated_loss(signs, odds, weights) - true) < 0.005
    loss = calibrated_loss(signs, odds, weights)
    np.testing.assert_allclose(calibrated_loss(signs, 0.01 * odds, weights), loss, atol=1e-5)
    # The same order, and labels that are all the same: half of what is known is lost.
    np.testing.assert_allclose(calibrated_loss(signs, odds + 100, weights), (loss + np.log(2)) / 2, atol=0.005)
    # What says nothing, or the opposite, is no better than a constant, nor is what is constant.
    constant = calibrated_loss(signs, np.ones(4000), weights)
    assert abs(constant - np.log(2)) < 0.01
    assert calibrated_loss(signs, -odds, weights) == constant
    assert calibrated_loss(signs, rng.normal(size=4000), weights) > constant - 1e-3
    assert np.isfinite(calibrated_loss(np.ones(5), rng.normal(size=5), np.ones(5)))
    # The better of two orders has the better score also where both tell all rows apart but one.
    few = np.array([-1.0, -1, -1, -1, 1, 1, 1, 1])
    near, far = np.array([-4.0, -3, -2, 0.2, 0, 2, 3, 4]), np.array([-4.0, -3, -2, 3.5, 0, 2, 3, 4])
    assert calibrated_loss(few, near, np.ones(8)) < calibrated_loss(few, far, np.ones(8))


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_interior_points_with_a_box_go_on_from_coarse_models_only(loss: str) -> None:
    gram, _ = matrices()
    problem = Problem(np.stack([gram, gram**2, gram**4]), np.sign(RNG.normal(size=30)), get_loss(loss), BlockL1(1.0))
    given: list[Any] = []

    def remembered(solver: Any, problem: Any, start: Any) -> Any:
        given.append(start)
        return _uninterrupted(problem, solver, start)

    penalties = [BlockL1(0.5 * problem.strength_max()), BlockL1(0.2 * problem.strength_max())]
    for inside, warm in ((0.0, True), (np.inf, False)):
        given.clear()
        with (
            patch("manykernels.estimators.supervised.problems.INSIDE", inside),
            patch("manykernels.estimators.supervised.problems._uninterrupted", lambda p, s, m: remembered(s, p, m)),
        ):
            fits = list(descend([problem], penalties, SolverChoice("working_set", tol=1e-2)))
        assert [start is not None for start in given][:2] == [False, warm or loss == "logistic"]
        assert all(fit.solutions[0].certificate.relative_gap <= 1e-2 for fit in fits)


# --- the search ------------------------------------------------------------------------------------------------------


def test_the_choice_is_a_certified_model_of_a_plain_estimator() -> None:
    model = MKLRegressorCV(bank(), cv=3, l1_ratios=(1.0, 0.5, 0.0)).fit(X, Y)
    assert model.dual_gap_ <= model.tol
    assert model.score(X, Y) > 0.7
    frame = model.cv_frame()
    assert {0.0, 0.5, 1.0} == set(frame["mixing"])
    row = frame.iloc[model.best_index_]
    assert model.best_score_ == row["mean_score"] > frame["mean_score"].max() - frame["std_score"].min()
    np.testing.assert_allclose([model.alpha_, model.l1_ratio_], [row["alpha"], row["l1_ratio"]])
    if row["kernels"] == EVERY:
        plain = MKLRegressor(bank(), penalty="elasticnet", alpha=model.alpha_, l1_ratio=model.l1_ratio_).fit(X, Y)
        np.testing.assert_allclose(model.predict(X), plain.predict(X), atol=0.02)


def test_scores_are_those_of_models_at_the_fractions_of_their_folds() -> None:
    model = MKLRegressorCV(bank(), penalty="ridge", cv=KFold(3)).fit(X, Y)
    row = model.cv_frame().iloc[4]
    train, test = next(KFold(3).split(X))
    gram = bank().fit(X[train])
    prepared = gram.prepare(X[train])
    kernels = gram.block(prepared, prepared)
    rho = Y[train] - Y[train].mean()
    strength = row["fraction"] * float(rho @ kernels.sum(axis=0) @ rho) / float(rho @ rho)
    plain = MKLRegressor(bank(), penalty="ridge", alpha=strength / len(train), tol=1e-10).fit(X[train], Y[train])
    np.testing.assert_allclose(row["score_0"], -np.mean((plain.predict(X[test]) - Y[test]) ** 2), rtol=1e-5)


@pytest.mark.nightly
@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_the_choice_does_not_depend_on_units(unit: float) -> None:
    first, second = (MKLRegressorCV(bank(), cv=2, n_alphas=6).fit(X, y) for y in (Y, unit * Y + unit))
    assert first.cv_frame()["kernels"][first.best_index_] == second.cv_frame()["kernels"][second.best_index_]
    np.testing.assert_allclose(unit * first.predict(X) + unit, second.predict(X), atol=1e-3 * unit)


def test_held_out_rows_change_nothing_that_a_fold_learns() -> None:
    splits = [(np.arange(40), np.arange(40, 60))]
    spoiled, wrong = X.copy(), Y.copy()
    spoiled[40:], wrong[40:] = 1e3 * RNG.normal(size=(20, 3)), 1e3
    seen: list[Any] = []

    def predictions(model: Any, rows: Any, y: Any) -> float:
        seen.append(model.predict(X[:5]))
        return 0.0

    for rows, y in ((X, Y), (spoiled, wrong)):
        with pytest.warns(UserWarning, match="no kernel predicts better than a constant in 1 fold,"):
            MKLRegressorCV(bank(), cv=splits, scoring=predictions, n_alphas=3, tol=1e-3).fit(rows, y)
    half = len(seen) // 2
    assert len(seen) == 2 * half
    np.testing.assert_array_equal(seen[:half], seen[half:])


@pytest.mark.nightly
@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared_hinge"])
def test_classes_are_chosen_for(loss: str) -> None:
    small = KernelBank([(f"x{j}", Gaussian(1.0), [j]) for j in range(3)])
    three = np.digitize(Y, [-0.5, 0.5]) if loss == "logistic" else LABELS
    model = MKLClassifierCV(
        small, loss=loss, cv=2, n_alphas=4, search={"alpha_min_ratio": 0.03}, l1_ratios=(1.0, 0.0)
    ).fit(X, three)
    assert model.dual_gap_ <= model.tol
    assert model.score(X, three) > 0.7
    assert np.ndim(model.alpha_) == (1 if loss == "logistic" else 0)


@pytest.mark.nightly
def test_targets_have_strengths_of_their_own() -> None:
    both = np.column_stack([Y, 100 * np.random.default_rng(6).normal(size=60), 5 * X[:, 0] ** 2])
    with pytest.warns(UserWarning, match=r"for 1 of 3 outputs \(1\): .* better than a constant"):
        model = MKLRegressorCV(bank(), cv=2, n_alphas=6).fit(X, both)
    assert model.alpha_.shape == model.mixing_.shape == (3,)
    assert model.kernel_weights_.shape == (3, 8)
    single = MKLRegressorCV(bank(), cv=2, n_alphas=6).fit(X, both[:, 2])
    np.testing.assert_allclose(model.predict(X)[:, 2], single.predict(X), atol=0.05)
    with pytest.warns(UserWarning, match="better than a constant"):
        scored = MKLRegressorCV(bank(), cv=2, penalty="ridge", scoring="r2").fit(X, both)
    assert scored.best_per_target_.shape == (3,)


@pytest.mark.nightly
def test_many_targets_are_learned_at_drawn_weights() -> None:
    many = np.column_stack([np.sin((1 + k % 3) * X[:, k % 3]) for k in range(12)]) + 0.1 * RNG.normal(size=(60, 12))
    small = KernelBank([(f"x{j}", Gaussian(0.5), [j]) for j in range(3)])
    model = MKLRegressorCV(small, cv=3).fit(X, many)
    assert model.dual_gap_ <= model.tol
    assert np.mean((model.predict(X) - many) ** 2) < 0.1
    heaviest = model.kernel_weights_.argmax(axis=1)
    assert np.mean(heaviest == np.arange(12) % 3) > 0.9


def test_every_splitter_of_scikit_learn_will_do() -> None:
    groups = np.arange(60) // 6
    repeated = RepeatedKFold(n_splits=2, n_repeats=2)
    for splitter, given, n_folds in ((GroupKFold(4), groups, 4), (TimeSeriesSplit(3), None, 3), (repeated, None, 4)):
        model = MKLRegressorCV(bank(), penalty="ridge", cv=splitter).fit(X, Y, groups=given)
        assert model.n_folds_ == n_folds


@pytest.mark.nightly
def test_threads_find_the_same() -> None:
    one, two = (MKLClassifierCV(bank(), cv=2, n_alphas=4, resources={"n_jobs": n}).fit(X, LABELS) for n in (None, 2))
    pd.testing.assert_frame_equal(one.cv_frame(), two.cv_frame())
    np.testing.assert_array_equal(one.kernel_weights_, two.kernel_weights_)


@pytest.mark.nightly
def test_a_scorer_sees_whole_models() -> None:
    asked: list[int] = []

    def scorer(model: Any, rows: Any, y: Any) -> float:
        asked.append(len(rows))
        everywhere = model.predict(X)
        np.testing.assert_allclose(
            model.predict(rows), everywhere[[np.flatnonzero((row == X).all(1))[0] for row in rows]]
        )
        return r2_score(y, model.predict(rows))

    named = MKLRegressorCV(bank(), cv=3, n_alphas=3, scoring=make_scorer(r2_score)).fit(X, Y)
    own = MKLRegressorCV(bank(), cv=3, n_alphas=3, scoring=scorer).fit(X, Y)
    assert set(asked) == {20}
    np.testing.assert_allclose(own.cv_frame()["mean_score"], named.cv_frame()["mean_score"], rtol=1e-9)


@pytest.mark.nightly
def test_a_narrower_kernel_does_not_lower_the_score() -> None:
    new = RNG.uniform(-2, 2, size=(300, 3))
    truth = np.sin(2 * new[:, 1])
    scores = []
    for widths in ((1.0, 2.0), (0.05, 1.0, 2.0)):
        own = KernelBank([(f"all: gaussian({w})", Gaussian(w), None) for w in widths], normalize="mean_diagonal")
        scores.append(MKLRegressorCV(own, cv=3, l1_ratios=(1.0, 0.0)).fit(X, Y).score(new, truth))
    assert scores[1] > scores[0] - 0.03


def test_a_chosen_model_is_saved_and_loaded(tmp_path: Any) -> None:
    model = MKLRegressorCV(bank(), cv=3, penalty="ridge").fit(X, Y)
    save_model(model, tmp_path / "model.mkm")
    again = load_model(tmp_path / "model.mkm")
    np.testing.assert_allclose(again.predict(X), model.predict(X))
    assert again.mixing_ == 0.0


def test_what_cannot_be_searched_is_said() -> None:
    with pytest.raises(InvalidInputError, match="rule must be one of 'best', '1se', got 'median'"):
        MKLRegressorCV(search={"rule": "median"}).fit(X, Y)
    with pytest.raises(InvalidInputError, match="fold_tol must be a finite positive number"):
        MKLRegressorCV(search={"fold_tol": 0}).fit(X, Y)


@pytest.mark.parametrize("given", [{}, {"penalty": "l1"}, {"scoring": "r2"}])
def test_where_there_is_nothing_to_learn_the_constant_is_the_model(given: dict[str, Any]) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = MKLRegressorCV(bank(), **given).fit(X, np.full(60, 3.0))
        flat = MKLRegressorCV(**given).fit(np.ones((60, 3)), Y)
        MKLRegressor().fit(np.ones((60, 3)), Y)
        labels = MKLClassifierCV(penalty=given.get("penalty", "auto")).fit(np.ones((60, 3)), Y > 0)
    told = [str(each.message) for each in caught]
    assert "y has one value" in told[0]
    assert "every kernel is constant" in told[1]
    assert told[1:] == told[1:2] * 3  # the same of plain estimators, and nothing else
    np.testing.assert_allclose(model.predict(X), 3.0, rtol=1e-12)
    np.testing.assert_allclose(flat.predict(np.zeros((1, 3))), Y.mean(), rtol=1e-9)
    np.testing.assert_allclose(labels.predict_proba(np.ones((1, 3)))[0, 1], np.mean(Y > 0), rtol=1e-9)
    assert len(model.cv_frame()) == 1
    assert np.isfinite(model.best_score_)


def test_plain_labels_need_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        MKLClassifierCV(bank(), cv=3).fit(X, LABELS)
    assert MKLClassifier(bank(), alpha=0.01).fit(X, LABELS).score(X, LABELS) > 0.7


# --- nested ----------------------------------------------------------------------------------------------------------


def test_nested_scores_are_those_of_outer_folds() -> None:
    model = MKLRegressorCV(bank(), penalty="ridge", cv=3)
    nested = nested_cross_validation(model, X, Y, cv=KFold(3))
    train, test = next(KFold(3).split(X))
    first = model.fit(X[train], Y[train])
    np.testing.assert_allclose(nested.scores[0], first.score(X[test], Y[test]))
    np.testing.assert_allclose(nested.predictions[test], first.predict(X[test]))
    np.testing.assert_allclose(nested.chosen["alpha"][0], first.alpha_)
    assert nested.standard_error > 0


def test_nested_groups_reach_both_splitters_and_kernels_are_sliced() -> None:
    groups = np.arange(60) // 6
    model = MKLRegressorCV("precomputed", penalty="ridge", cv=GroupKFold(3))
    kernels = np.stack([np.exp(-((X[:, None, j] - X[:, j]) ** 2)) for j in range(3)])
    nested = nested_cross_validation(model, kernels, Y, cv=GroupKFold(4), groups=groups, scoring="r2")
    assert len(nested.scores) == 4
    assert nested.mean > 0.3
    repeated = nested_cross_validation(KernelRidge(kernel="rbf"), X, Y, cv=RepeatedKFold(n_splits=2, n_repeats=2))
    assert repeated.predictions is None
    assert list(repeated.chosen) == ["score", "n_train", "n_test"]


def test_a_target_that_no_kernel_predicts_is_named() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 2))
    Y = np.column_stack([np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=60), rng.normal(size=60)])
    bank = KernelBank.per_feature(widths=[1.0])
    model = MKLRegressorCV(
        bank, l1_ratios=1.0, cv=3, n_alphas=4, search={"alpha_min_ratio": 0.1}, resources={"representation": "factored"}
    )
    with pytest.warns(UserWarning, match=r"for 1 of 2 outputs \(1\): .* better than a constant"):
        model.fit(X, Y)
    assert not model.kernel_weights_[1].any()


@pytest.mark.parametrize("separable", [True, False])
@pytest.mark.parametrize("intercept", [True, False])
def test_logistic_curves_are_those_of_scikit_learn(separable: bool, intercept: bool) -> None:
    rng = np.random.default_rng(3)
    scores, weights = rng.normal(size=80), rng.uniform(0.1, 3.0, 80)
    positive = scores + (0.0 if separable else 1.0) * rng.normal(size=80) > 0.3
    columns = np.column_stack([scores, np.ones(80)])[:, : 1 + intercept]
    found = _fit_logistic(columns, positive, weights)
    curve = LogisticRegression(fit_intercept=intercept, tol=1e-10, max_iter=10_000).fit(
        columns[:, :1], positive, weights
    )
    expected = [curve.coef_[0, 0], *curve.intercept_][: 1 + intercept]
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_factors_of_few_coefficients_average_as_matrices_do_of_a_loss_with_a_kink() -> None:
    """Factors, on which only selections were tried, chose the block 1-norm in place of an average that was ahead."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 1))
    y = rng.uniform(size=80) < 1 / (1 + np.exp(-3 * np.sin(2 * X[:, 0])))
    found = [
        MKLClassifierCV(loss="hinge", cv=3, resources={"representation": form}).fit(X, y)
        for form in ("gram", "factored")
    ]
    assert found[1].representation_ == "factored"
    assert [model.l1_ratio_ for model in found] == [0.0, 0.0]
    assert found[1].alpha_ == pytest.approx(found[0].alpha_, rel=1e-6)
    assert found[1].best_score_ == pytest.approx(found[0].best_score_, abs=2e-3)


# --- kernels to spare -----------------------------------------------------------------------------------------------


def test_spare_kernels_are_added_to_averages_step_by_step_and_are_in_nothing_else() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    bank = KernelBank([PerFeature(Linear()), Joint((Gaussian(1.0), Linear())), Spare((Gaussian(0.5), Gaussian(0.2)))])
    steps = bank.spare_kernels(X)
    assert steps == [("all: gaussian(width=0.5)",), ("all: gaussian(width=0.2)",)]
    own = np.array([1.0, 1.0, 1.0, 1.0, 0.0, 0.0])
    found = {mixture.label: mixture.kernels.tolist() for mixture in averages_of(bank.fit(X), own, steps)}
    assert found["all kernels"] == [0, 1, 2, 3]
    assert found["kernels on several columns"] == [2, 3]
    assert found["kernels on several columns with gaussian(width=0.5)"] == [2, 3, 4]
    assert found["kernels on several columns with gaussian(width=0.2)"] == [2, 3, 4, 5]
    assert not any(kernels in ([4], [5]) for kernels in found.values())


@pytest.mark.parametrize("repeated", [True, False])
def test_narrow_kernels_are_taken_where_rows_repeat_and_nowhere_else(repeated: bool) -> None:
    """Of pairs of equal rows one tells the target of the other, which only narrow kernels of all columns can use."""
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(150, 5)), 2, axis=0)
    luck = 2.0 * np.repeat(rng.normal(size=150), 2)
    y = X[:, 0] + (luck if repeated else 2.0 * rng.normal(size=300)) + 0.2 * rng.normal(size=300)
    order = rng.permutation(300)
    model = MKLRegressorCV().fit(X[order], y[order])
    narrow = [name for name in model.kernel_names_ if "0.125*median" in name or "0.25*median" in name]
    assert narrow
    taken = set(np.array(model.kernel_names_)[model.kernel_weights_ > 0]) & set(narrow)
    assert bool(taken) == repeated


def test_selections_of_several_classes_begin_from_averages_of_the_same_kernels() -> None:
    """Of views kernels to spare made an average of all kernels, which selections have not."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, size=200)
    views = Views({f"view {v}": rng.normal(size=(200, 4)) + (0.8 * y[:, None] if v < 2 else 0.0) for v in range(3)})
    model = MKLClassifierCV().fit(views, y)
    assert len(model.kernel_names_) == 18
    assert set(model.cv_frame()["mixing"]) >= {0.0, 1.0}
    assert model.dual_gap_ <= model.tol


def test_a_bank_that_has_a_narrow_kernel_itself_is_searched() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    bank = KernelBank([*KernelBank.auto().kernels, Joint(Gaussian(MedianWidth(0.25)))], standardize=True)
    model = MKLRegressorCV(bank).fit(X, X[:, 0] + rng.normal(size=80))
    names = [name for name in model.kernel_names_ if name.startswith("all: gaussian")]
    assert sorted(names) == sorted(f"all: gaussian(width={f}median)" for f in ("0.5*", "", "2*", "0.25*", "0.125*"))
