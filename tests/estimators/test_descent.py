"""Weaker strengths for clean targets: when they are taken, what judges them, and where the default stays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from manykernels import KernelBank, MKLClassifier, MKLRegressor, MKLSurvival, survival_array
from manykernels.estimators.permutations import noise_levels
from manykernels.estimators.strength import relative_strength, set_strength
from manykernels.estimators.supervised import descent
from manykernels.estimators.supervised.descent import SHARES, leave_one_out_losses
from manykernels.estimators.supervised.leave_out import Target, leave_out_by_matrices, scores_by_matrix
from manykernels.grams import DenseStack
from manykernels.kernels import Gaussian
from manykernels.objective import Problem, get_loss, get_regularizer
from manykernels.solvers import solve

WIDE: dict[str, Any] = {"kernels": KernelBank.per_feature(Gaussian(0.5))}


def table(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (n, 3))
    return X, np.sin(3.0 * X[:, 0]) + np.cos(2.0 * X[:, 1])


def noise(n: int, size: float = 1.0) -> np.ndarray:
    return size * np.random.default_rng(7).normal(size=n)


@pytest.mark.parametrize("form", ["gram", "factored"])
def test_clean_targets_get_a_weaker_strength(form: str) -> None:
    X, f = table(220)
    y, new = f[:120] + noise(120, 0.05), slice(120, None)
    asked: dict[str, Any] = WIDE | {"resources": {"representation": form}}
    default = MKLRegressor(alpha="0.2*noise", **asked).fit(X[:120], y)
    model = MKLRegressor(**asked).fit(X[:120], y)
    assert model.alpha_ == pytest.approx(SHARES[-1] * default.alpha_, rel=1e-6)
    assert model.noise_ratio_ == pytest.approx(SHARES[-1] * default.noise_ratio_, rel=1e-6)
    assert model.dual_gap_ <= 1e-4
    assert 1.0 - model.score(X[new], f[new]) < 0.5 * (1.0 - default.score(X[new], f[new]))


def test_noisy_targets_keep_the_default_strength() -> None:
    X, f = table(120)
    y = f + noise(120, 1.5)
    assert MKLRegressor(**WIDE).fit(X, y).noise_ratio_ >= 0.2


def test_tables_of_many_rows_are_solved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descent, "MOST_ROWS", 119)
    monkeypatch.setattr(descent, "leave_one_out_losses", None)
    X, f = table(120)
    assert MKLRegressor(**WIDE).fit(X, f).noise_ratio_ >= 0.2


@pytest.mark.filterwarnings("ignore:The kernels are not more strongly related")
def test_targets_of_noise_are_solved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descent, "leave_one_out_losses", None)  # which nothing may ask for
    X, _ = table(80)
    assert MKLRegressor(**WIDE).fit(X, noise(80)).noise_ratio_ >= 0.2


def test_every_target_has_a_strength_of_its_own() -> None:
    X, f = table(120)
    Y = np.column_stack([f + noise(120, 0.05), f + noise(120, 1.5)])
    model = MKLRegressor(**WIDE).fit(X, Y)
    assert model.noise_ratio_[0] == pytest.approx(0.2 * SHARES[-1], rel=1e-6)
    assert model.noise_ratio_[1] >= 0.2
    alone = MKLRegressor(**WIDE).fit(X, Y[:, 1])
    np.testing.assert_allclose(model.predict(X)[:, 1], alone.predict(X), rtol=0.05, atol=0.05)


def test_classes_get_one_weaker_strength_at_most_and_hazards_none() -> None:
    X, f = table(300)
    classifier = MKLClassifier(**WIDE).fit(X, f > 0)
    assert classifier.noise_ratio_ == pytest.approx(0.2 * SHARES[0], rel=1e-6)
    times = np.exp(-3.0 * f) * np.random.default_rng(1).exponential(size=300)
    model = MKLSurvival(**WIDE).fit(X, survival_array(np.ones(300, bool), times))
    assert model.noise_ratio_ == pytest.approx(0.2, rel=1e-6)


@pytest.mark.parametrize("alpha", ["0.2*noise", 0.01])
def test_a_strength_that_is_given_is_taken_as_it_is(alpha: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descent, "leave_one_out_losses", None)
    X, f = table(120)
    MKLRegressor(alpha=alpha, **WIDE).fit(X, f)


@pytest.mark.filterwarnings("ignore:Solver .*time_limit:sklearn.exceptions.ConvergenceWarning")
def test_limits_hold_for_all_strengths_together() -> None:
    X, f = table(120)
    limited = MKLRegressor(resources={"time_limit": 1e-9}, **WIDE).fit(X, f)
    assert limited.noise_ratio_ >= 0.2  # whose first fit was not finished


@pytest.mark.parametrize("loss", ["squared", "huber", "logistic"])
def test_leave_one_out_losses_are_those_of_refits(loss: str) -> None:
    """With ridge, whose weights are fixed, exactly so for the squared loss, and nearly for others."""
    X, f = table(40)
    y = np.where(f > 0, 1.0, -1.0) if loss == "logistic" else f + noise(40, 0.3)
    bank = KernelBank.per_feature(Gaussian(0.7), normalize=None).fit(X)
    grams = bank.block(bank.prepare(X), bank.prepare(X))
    given: dict[str, Any] = {"loss": loss, "penalty": "ridge", "strength": 0.3, "tol": 1e-9}
    found = solve(grams, y, **given)
    problem = Problem(DenseStack(grams), y, get_loss(loss), get_regularizer("ridge", 0.3))
    own = leave_one_out_losses(problem, found, 0)
    assert own is not None
    refits = []
    for i in range(40):
        keep = np.delete(np.arange(40), i)
        part = solve(grams[:, keep][:, :, keep], y[keep], **given)
        weights = part.kernel_weights
        score = np.einsum("m,mj,j->", weights, grams[:, i, keep], part.dual_coef) + part.intercept
        refits.append(get_loss(loss).value(y[i : i + 1], np.array([score]))[0])
    exact = loss == "squared"
    np.testing.assert_allclose(own[0], refits, rtol=1e-5 if exact else 0.15, atol=1e-6 if exact else 0.02)


@pytest.mark.parametrize("constants", [0, 1, 2])
@pytest.mark.parametrize("coupled", [False, True])
def test_scores_without_parts_are_those_with_parts(constants: int, coupled: bool) -> None:
    rng = np.random.default_rng(constants)
    roots = rng.normal(size=(3, 25, 6))
    grams, rho = roots @ roots.transpose(0, 2, 1), rng.normal(size=25)
    weights = np.array([0.5, 0.0, 1.5])
    values = weights[:, None] * (grams @ rho)
    norms = weights * np.sqrt(np.einsum("i,mij,j->m", rho, grams, rho))
    bends = np.array([[0.3, 1.0, 0.2], [0.2, 0.0, 0.1]]) if coupled else np.array([np.zeros(3), np.zeros(3)])
    curvature = np.where(rng.random(25) < 0.8, rng.uniform(0.1, 1.0, 25), 0.0)
    given = (values, values.sum(axis=0), rho, curvature, rng.normal(size=(25, constants)), weights, norms, bends)
    target = Target(*given)
    whole = np.einsum("m,mij->ij", weights, grams)
    expected, _ = leave_out_by_matrices(target, lambda m: grams[m])
    np.testing.assert_allclose(scores_by_matrix(target, whole), expected, rtol=1e-8, atol=1e-8)


def test_shares_are_those_of_the_default_strength() -> None:
    X, f = table(60)
    bank = WIDE["kernels"].fit(X)
    stack = DenseStack(bank.block(bank.prepare(X), bank.prepare(X)))
    problem = Problem(stack, f, get_loss("squared"), get_regularizer("l1", 1.0))
    level = noise_levels([problem], 0)[0]
    asked = relative_strength("auto")
    assert asked is not None
    whole, part = (set_strength(problem, level, asked, share).regularizer.strength for share in (1.0, 0.35))
    assert part == pytest.approx(0.35 * whole)


def test_the_same_rows_are_left_out_at_every_strength(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descent, "FEWER_ROWS", 150)
    lengths: list[int] = []
    true = descent.leave_one_out_losses

    def watched(*given: Any) -> Any:
        found = true(*given)
        assert found is not None
        lengths.append(len(found[0]))
        return found

    monkeypatch.setattr(descent, "leave_one_out_losses", watched)
    X, f = table(400)
    model = MKLRegressor(resources={"representation": "factored"}, **WIDE).fit(X, f + noise(400, 0.05))
    assert model.noise_ratio_ < 0.2
    assert lengths == [150] * len(lengths)
    assert len(lengths) > 1
