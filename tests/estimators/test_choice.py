"""Choices on record: a search that is built anew chooses what it chose before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from manykernels import MKLClassifierCV, MKLRegressor, MKLRegressorCV, load_model, save_model
from manykernels.estimators.parameters import with_kernels_of
from manykernels.estimators.selection import memory, search
from manykernels.exceptions import InvalidInputError, MemoryBudgetError
from manykernels.grams import plan, training
from manykernels.kernels import KernelBank

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, size=(90, 4))
Y = np.sin(2 * X[:, 1]) + 0.3 * RNG.normal(size=90)
LABELS = np.where(Y > 0, "above", "below")

# What was chosen when grids and mixtures had a flow of their own each: mixing, l1_ratio, alpha.
RECORDED: list[tuple[type[Any], dict[str, Any], float | None, float | None, float]] = [
    (MKLRegressorCV, {}, 1.0, 1.0, 0.0213767),
    # Once 0.0506922, the end of the path, before means beyond an end were taken to bend as beside it.
    (MKLRegressorCV, {"search": {"rule": "1se"}}, 1.0, 1.0, 0.0285063),
    (MKLRegressorCV, {"penalty": "ridge"}, 0.0, 0.0, 0.0142994),
    (MKLRegressorCV, {"penalty": "l1", "n_alphas": 8}, None, None, 0.0147648),
    (MKLRegressorCV, {"penalty": "elasticnet", "l1_ratios": (0.3, 0.8), "n_alphas": 5}, None, 0.8, 0.0112681),
    (MKLClassifierCV, {}, 1.0, 1.0, 0.0118385),
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("kind", "settings", "mixing", "l1_ratio", "alpha"), RECORDED)
def test_choices_are_those_on_record(
    kind: type[Any], settings: dict[str, Any], mixing: float | None, l1_ratio: float | None, alpha: float
) -> None:
    model = kind(cv=3, **settings).fit(X, LABELS if kind is MKLClassifierCV else Y)
    assert (model.mixing_, model.l1_ratio_) == (mixing, l1_ratio)
    assert model.alpha_ == pytest.approx(alpha, rel=1e-4)
    assert (model.best_index_ > 0, model.n_folds_) == (True, 3)


def test_the_models_of_the_choice_are_those_that_were_scored() -> None:
    """What a path found at its best strength is asked again for its predictions, and not solved again."""
    model = MKLRegressorCV(cv=3).fit(X, Y)
    told = model.cv_frame().iloc[model.best_index_]
    folds = np.array_split(np.arange(len(Y)), 3)
    errors = [np.mean((model.cv_predictions_[fold] - Y[fold]) ** 2) for fold in folds]
    np.testing.assert_allclose(errors, [-told[f"score_{number}"] for number in range(3)], rtol=1e-9)


def test_folds_share_no_kernels_any_more() -> None:
    with pytest.raises(InvalidInputError, match="search has no 'fold_kernels'"):
        MKLRegressorCV(cv=3, search={"fold_kernels": "shared"}).fit(X, Y)


# Of many rows averages are of exact kernels, and kernels that are selected are projected on landmarks. Here rows are
# few, and counted as many.
MANY = np.random.default_rng(1).normal(size=(240, 4))
NOISE = 0.1 * np.random.default_rng(2).normal(size=240)
TOGETHER = np.sin(MANY[:, 0] * MANY[:, 1]) + MANY[:, 2] * MANY[:, 3] + NOISE
ALONE = np.sin(3 * MANY[:, 0]) + NOISE


@pytest.fixture
def counted_as_many(monkeypatch: pytest.MonkeyPatch) -> None:
    def worth(bank: KernelBank, table: Any, patience: float | None) -> bool:
        return patience is not None and np.isfinite(patience)

    monkeypatch.setattr(training, "_worth_landmarks", worth)
    monkeypatch.setattr(training, "default_landmarks", lambda n_rows: 25)
    for name in ("gram_seconds", "gram_seconds_beyond"):
        monkeypatch.setattr(plan, name, lambda *args, **sizes: 1e3)


def on_landmarks(model: Any) -> bool:
    return any("landmarks" in name for name in model.kernel_names_)


@pytest.mark.usefixtures("counted_as_many")
def test_averages_are_of_exact_kernels_where_selected_kernels_are_on_landmarks(tmp_path: Any) -> None:
    model = MKLRegressorCV(cv=3).fit(MANY, TOGETHER)
    assert (model.mixing_, model.representation_, on_landmarks(model)) == (0.0, "gram", False)
    assert model.dual_gap_ <= model.tol
    taken = {name for name, weight in zip(model.kernel_names_, model.kernel_weights_, strict=True) if weight > 0}
    bank = with_kernels_of(MKLRegressorCV(), MANY).kernels
    bank = bank.replace(kernels=[own for own in bank.expand(MANY) if own[0] in taken])
    plain = MKLRegressor(bank, penalty="ridge", alpha=model.alpha_, tol=1e-8).fit(MANY, TOGETHER)
    np.testing.assert_allclose(model.predict(MANY), plain.predict(MANY), atol=1e-3)
    save_model(model, tmp_path / "model.npz")
    np.testing.assert_allclose(load_model(tmp_path / "model.npz").predict(MANY), model.predict(MANY), atol=1e-12)


@pytest.mark.usefixtures("counted_as_many")
def test_selected_kernels_are_on_landmarks_where_averages_are_of_exact_kernels() -> None:
    model = MKLRegressorCV(cv=3).fit(MANY, ALONE)
    assert (model.mixing_, model.representation_, on_landmarks(model)) == (1.0, "factored", True)
    assert model.dual_gap_ <= model.tol
    assert model.score(MANY, ALONE) > 0.9


@pytest.mark.usefixtures("counted_as_many")
def test_targets_of_both_kinds_have_one_list_of_kernels() -> None:
    both = np.column_stack([TOGETHER, ALONE])
    model = MKLRegressorCV(cv=3).fit(MANY, both)
    assert sorted(model.mixing_) == [0.0, 1.0]
    assert on_landmarks(model)
    assert np.max(model.dual_gap_) <= model.tol


@pytest.mark.usefixtures("counted_as_many")
@pytest.mark.parametrize("settings", [{}, {"penalty": "ridge"}, {"l1_ratios": (1.0, 0.0)}, {"representation": "gram"}])
def test_averages_are_on_landmarks_of_more_rows_or_where_kernels_are_asked_for(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    if not settings:
        monkeypatch.setattr(memory, "MOST_EXACT", 200)
    gram = {"resources": settings} if "representation" in settings else settings
    assert on_landmarks(MKLRegressorCV(cv=2, n_alphas=6, **gram).fit(MANY, TOGETHER))


@pytest.mark.usefixtures("counted_as_many")
def test_averages_are_on_landmarks_where_exact_kernels_do_not_fit_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    planned = memory.plan_search

    def too_little(own: Any, *given: Any, **settings: Any) -> Any:
        if own.kind != "factored":
            raise MemoryBudgetError("This does not fit.")
        return planned(own, *given, **settings)

    monkeypatch.setattr(memory, "plan_search", too_little)
    assert MKLRegressorCV(cv=2).plan(MANY, TOGETHER).kind == "factored"
    assert on_landmarks(MKLRegressorCV(cv=2, n_alphas=6).fit(MANY, TOGETHER))


@pytest.mark.usefixtures("counted_as_many")
@pytest.mark.parametrize("kind", [MKLRegressorCV, MKLClassifierCV])
def test_averages_of_many_rows_are_learned_in_single_precision_to_the_same_gap(
    kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    y = TOGETHER if kind is MKLRegressorCV else np.digitize(TOGETHER, [-0.5, 0.5])
    double = kind(cv=2, n_alphas=6).fit(MANY, y)
    for module in (search, memory):
        monkeypatch.setattr(module, "MOST_DOUBLE", 0)
    single = kind(cv=2, n_alphas=6).fit(MANY, y)
    assert np.max(single.mixing_) == 0.0
    assert single.dual_gap_ <= single.tol
    np.testing.assert_allclose(single.dual_coef_, double.dual_coef_, atol=0.02 * np.abs(double.dual_coef_).max())


@pytest.mark.usefixtures("counted_as_many")
def test_clones_with_the_kernels_of_all_rows_choose_the_same() -> None:
    again = with_kernels_of(MKLRegressorCV(cv=3), MANY)
    assert not any("landmarks" in name for name, _, _ in again.kernels.expand(MANY))
    model = MKLRegressorCV(cv=3).fit(MANY, ALONE)
    assert again.fit(MANY, ALONE).kernel_names_ == model.kernel_names_
    np.testing.assert_allclose(again.predict(MANY), model.predict(MANY), atol=1e-9)


@pytest.mark.usefixtures("counted_as_many")
def test_averages_with_the_logistic_loss_are_on_landmarks() -> None:
    assert on_landmarks(MKLClassifierCV(cv=2, n_alphas=6).fit(MANY, TOGETHER > 0))
