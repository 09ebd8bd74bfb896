"""What predictions lose without a column on rows that are left out: against refits, for every loss."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.feature_selection import SelectFromModel
from tests.support.memory import peak_of

from manykernels import (
    GaussianMKL,
    KernelBank,
    MKLClassifier,
    MKLRegressor,
    MKLSurvival,
    PrecomputedBank,
    load_model,
    save_model,
    survival_array,
)
from manykernels.estimators.supervised import explanation, importance
from manykernels.estimators.supervised.importance import LeftOut, leave_out_support, losses_of_rows
from manykernels.estimators.supervised.leave_out import Target, curvatures, leave_out_by_matrices, leave_out_by_rows
from manykernels.exceptions import InvalidInputError
from manykernels.grams.factored import nystroem
from manykernels.grams.factored.landmarks import draw_features
from manykernels.kernels import Gaussian, Linear, Overlap
from manykernels.objective.losses import CoxPartial, get_loss, survival_target

RNG = np.random.default_rng(0)
N = 60
X = RNG.normal(size=(N, 4))
Y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.3 * RNG.normal(size=N)
CLASSES = Y + 0.3 * RNG.normal(size=N) > 0
TIMES = RNG.exponential(np.exp(-2.0 * Y))
SURVIVAL = survival_array(np.quantile(TIMES, 0.8) > TIMES, np.minimum(TIMES, np.quantile(TIMES, 0.8)))
BANK = KernelBank.per_feature([Linear(), Gaussian(0.7)])
NUMBERS = ("squared", "huber", "epsilon_insensitive", "quantile")
LABELS = ("logistic", "hinge", "squared_hinge")
HELD = ("gram", "factored")


def made(loss: str, held: str, **parameters: Any) -> tuple[Any, Any]:
    """Return an estimator of a loss, and its target."""
    given = {"alpha": 0.02, "tol": 1e-5, "resources": {"representation": held}} | parameters
    if loss == "cox":
        return MKLSurvival(BANK, **given), SURVIVAL
    if loss in NUMBERS:
        return MKLRegressor(BANK, loss=loss, **given), Y
    return MKLClassifier(BANK, loss=loss, **given), CLASSES


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[LeftOut]:
    """Return a list of what is left out from now on."""
    found: list[LeftOut] = []
    drops = importance.drops

    def kept(bank: Any, left: LeftOut) -> dict[str, Any]:
        found.append(left)
        return drops(bank, left)

    for module in (explanation, importance):  # asked of a model, and put off by a fit
        monkeypatch.setattr(module, "drops", kept)
    return found


def refitted(model: Any, y: Any, rows: range) -> np.ndarray:
    """Return the scores of some rows by models of all others."""
    others = [np.delete(np.arange(N), row) for row in rows]
    return np.array([model.fit(X[kept], y[kept])._scores(X[[row]])[0] for row, kept in zip(rows, others, strict=True)])


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_leaving_a_row_out_in_closed_form_is_a_fit_without_it(fit_intercept: bool) -> None:
    """With ridge and squared loss there is nothing approximate about it."""
    bank = KernelBank.per_feature([Gaussian(0.7), Gaussian(2.0)])  # of which nothing is learned from the rows
    model = MKLRegressor(bank, penalty="ridge", alpha=0.05, tol=1e-10, fit_intercept=fit_intercept).fit(X, Y)
    left = leave_out_support(model)
    model.set_params(alpha=0.05 * N / (N - 1))
    for row in (0, 7):
        kept = np.delete(np.arange(N), row)
        again = model.fit(X[kept], Y[kept])
        assert_allclose(left.scores[row, 0], again.predict(X[[row]])[0], rtol=1e-6)
        assert_allclose(left.parts[:, row, 0], again.decompose(X[[row]])[:, 0], rtol=1e-5, atol=1e-8)


@pytest.mark.sampled(16)
@pytest.mark.parametrize("held", HELD)
@pytest.mark.parametrize("loss", [*NUMBERS, "logistic", "squared_hinge", "cox"])
def test_rows_left_out_are_nearer_to_refits_than_to_the_fit(loss: str, held: str, seen: list[LeftOut]) -> None:
    """Kernels are selected anew in refits, so that it is no identity; at kinks a step tells less."""
    share = 0.7 if loss in ("epsilon_insensitive", "quantile") else 0.3
    model, y = made(loss, held)
    importances = model.fit(X, y).feature_importances_
    fitted, rows = model._scores(X), range(0, N, 6)
    refits = refitted(model, y, rows)
    error, before = (np.sqrt(np.mean((z[list(rows)] - refits) ** 2)) for z in (seen[0].scores, fitted))
    assert error < share * before
    assert importances[0] == importances.max() > 0


def test_functions_of_nearly_no_norm_are_not_free_along_themselves() -> None:
    """A smaller gap may leave one more kernel in, at 1e-6 of the norms: rows left out say the same without it."""
    rng = np.random.default_rng(0)
    roots, rho = rng.normal(size=(2, 30, 4)), rng.normal(size=30)
    weights = np.array([1.0, 1e-6])
    values = np.array([d * Z @ (Z.T @ rho) for d, Z in zip(weights, roots, strict=True)])
    norms = np.array([d * np.linalg.norm(Z.T @ rho) for d, Z in zip(weights, roots, strict=True)])
    of_rows = {"scores": values[0], "rho": rho, "curvature": np.ones(30), "constants": np.ones((30, 1))}
    both = Target(values=values, weights=weights, norms=norms, bends=np.zeros((2, 2)), **of_rows)
    one = Target(values=values[:1], weights=weights[:1], norms=norms[:1], bends=np.zeros((2, 1)), **of_rows)
    grams = roots @ roots.transpose(0, 2, 1)
    assert_allclose(
        leave_out_by_matrices(both, grams.__getitem__)[0], leave_out_by_matrices(one, grams.__getitem__)[0], atol=1e-4
    )
    assert_allclose(leave_out_by_rows(both, roots)[0], leave_out_by_rows(one, roots[:1])[0], atol=1e-4)


@pytest.mark.parametrize("held", HELD)
@pytest.mark.parametrize("missing", [1, 3])
@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_a_kernel_of_few_rows_hides_no_importance(loss: str, missing: int, held: str, seen: list[LeftOut]) -> None:
    """A missingness kernel of one row says nothing without it, so that its weight cannot be free along the row."""
    rows = pd.DataFrame(X[:, :3], columns=["a", "b", "c"])
    z = 3.0 * X[:, 0] + X[:, 1] + 0.5 * np.random.default_rng(1).normal(size=N)
    rows.loc[: missing - 1, "a"], z[:missing] = np.nan, 6.0
    y = z if loss == "squared" else z > 0
    given = {"tol": 1e-5, "resources": {"representation": held}}
    kind = MKLRegressor if loss == "squared" else MKLClassifier
    model = kind(KernelBank.auto(missing="indicator"), alpha=0.01, **given).fit(rows, y)
    frame, fitted = model.importance_frame(), np.ravel(model._scores(rows))[0]
    assert frame["columns"].iloc[0] == "a"
    assert frame["low"].iloc[0] > 0
    kept = np.arange(1, N)
    refit = np.ravel(model.set_params(alpha=0.01 * N / (N - 1)).fit(rows.loc[kept], y[kept])._scores(rows.loc[[0]]))[0]
    assert abs(seen[0].scores[0, 0] - refit) < max(0.5, 0.7 * abs(fitted - refit))


@pytest.mark.nightly
def test_learned_weights_are_left_out_with_the_row(seen: list[LeftOut]) -> None:
    """The curvature of the penalty along functions halves the error of fixed weights."""
    model, y = made("squared", "gram")
    _ = model.fit(X, y).feature_importances_
    del model._norm_bends
    fixed = leave_out_support(model)
    rows = range(0, N, 3)
    refits = refitted(model, y, rows)
    learned, given = (np.linalg.norm(left.scores[list(rows)] - refits) for left in (seen[0], fixed))
    assert learned < 0.6 * given


MIXED = KernelBank([("a", Gaussian(0.7), ["a"]), ("level", Overlap(), ["level"])], standardize=True)


def large() -> tuple[pd.DataFrame, np.ndarray]:
    """Return 12,000 rows in which a rare level decides much."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"a": rng.normal(size=12_000), "level": rng.choice(list("pqr"), 12_000, p=[0.6, 0.398, 0.002])})
    return rows, np.sin(rows["a"]) + 6.0 * (rows["level"] == "r") + rng.normal(size=12_000)


def test_importances_of_many_rows_do_not_depend_on_their_order() -> None:
    rows, y = large()
    frames = []
    for order in (np.arange(len(y)), np.random.default_rng(1).permutation(len(y))):
        model = MKLRegressor(MIXED, alpha=1e-3, tol=1e-6)
        frames.append(model.fit(rows.iloc[order], y.iloc[order]).importance_frame().set_index("columns"))
        assert (frames[-1]["n_rows"] == len(y)).all()
        assert frames[-1]["low"]["level"] > 0
    assert_allclose(frames[0]["importance"]["level"], frames[1]["importance"]["level"], rtol=0.05)


def test_rows_that_are_left_out_are_drawn_with_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, y = large()
    monkeypatch.setattr(importance, "FIT_RANKS", 1)
    model, found = MKLRegressor(MIXED, alpha=1e-3), []
    for seed in (0, 0, 1):
        frame = model.set_params(random_state=seed).fit(rows, y).importance_frame()
        assert (frame["n_rows"] == importance.FEWER_ROWS).all()
        found.append(frame["importance"].iloc[0])
    assert found[0] == found[1] != found[2]
    assert MKLRegressor(BANK, alpha=0.02).fit(X, Y).importance_frame()["n_rows"].tolist() == [N] * 4


@pytest.mark.sampled(2)
@pytest.mark.parametrize("loss", [*NUMBERS, *LABELS, "cox"])
def test_factors_and_matrices_tell_the_same(loss: str) -> None:
    frames = []
    for held in HELD:
        model, y = made(loss, held, tol=1e-6)
        frames.append(model.fit(X, y).importance_frame().set_index("columns").sort_index())
        assert model.importance_method_ == "leave-out"
    for column in ("importance", "low", "high"):
        largest = frames[0]["importance"].abs().max()
        assert_allclose(frames[0].loc[["x0", "x1"], column], frames[1].loc[["x0", "x1"], column], atol=0.1 * largest)


def test_factors_of_more_ranks_than_rows_tell_the_same_by_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 8))
    y = np.where(np.sin(2 * X[:, 0]) + rng.logistic(size=300) > 0, 1, 0)
    asked: list[str] = []
    drops = []
    for rank_per_row in (np.inf, 0.0):
        monkeypatch.setattr(importance, "RANK_PER_ROW", rank_per_row)
        model = MKLClassifier(
            KernelBank.per_feature(widths=[0.3, 1.0]), alpha="0.2*noise", resources={"representation": "factored"}
        ).fit(X, y)
        with monkeypatch.context() as patched:
            for name in ("leave_out_by_rows", "leave_out_by_factors"):
                whole = getattr(importance, name)
                patched.setattr(importance, name, lambda *given, way=whole: asked.append(way.__name__) or way(*given))
            drops.append(model.feature_importances_)
    assert asked == ["leave_out_by_factors", "leave_out_by_rows"]
    assert drops[0].max() > 0
    assert_allclose(drops[1], drops[0], rtol=1e-6, atol=1e-9)


def test_kernels_that_became_matrices_tell_the_same_and_cost_a_fit_no_landmarks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = np.sin(2 * X[:, 0]) * np.sign(X[:, 1]) + X[:, 2] + 0.1 * rng.normal(size=300)
    bank = KernelBank.per_feature(Linear(), widths=[1.0]) + KernelBank.joint(Gaussian(0.5))
    shares: set[float] = set()

    def noted(*given: Any) -> Any:
        shares.add(given[3])
        return draw_features(*given)

    drops = []
    for held in HELD:
        monkeypatch.setattr(nystroem, "draw_features", noted)
        model = MKLRegressor(bank, alpha=1e-2, tol=1e-6, resources={"representation": held}).fit(X, y)
        monkeypatch.undo()
        drops.append(model.importance_frame("kernel").set_index("kernel")["importance"])
    assert shares == {nystroem.PASS_TOL}
    assert drops[0].iloc[0] > 0.1
    assert_allclose(drops[1][drops[0].index], drops[0], rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("outputs", ["own", "shared"])
@pytest.mark.parametrize("held", HELD)
def test_several_classes_have_one_importance(outputs: str, held: str) -> None:
    three = np.digitize(Y, [-0.5, 0.5])
    model = MKLClassifier(BANK, alpha=0.02, outputs=outputs, resources={"representation": held}).fit(X, three)
    assert model.feature_importances_.shape == (4,)
    assert model.feature_importances_[:2].sum() > 0.95


def test_columns_are_selected_for_every_loss() -> None:
    for loss in ("hinge", "quantile"):
        model, y = made(loss, "auto")
        chosen = SelectFromModel(model, threshold=0.05).fit(X, y).get_support()
        assert chosen[0]
        assert not chosen[2:].any()


def test_kernels_lie_under_their_columns() -> None:
    model, y = made("squared", "gram")
    frame = model.fit(X, y).importance_frame("kernel")
    active = np.count_nonzero(model.kernel_weights_)
    assert len(frame) == active
    assert frame["columns"].iloc[0] == "x0"
    changes = (frame["columns"] != frame["columns"].shift()).sum()
    assert changes == frame["columns"].nunique()
    assert (frame["low"] <= frame["importance"]).all()
    assert (frame["importance"] <= frame["high"]).all()
    with pytest.raises(InvalidInputError, match="by must be one of 'view', 'kernel', got 'column'"):
        model.importance_frame("column")


def test_precomputed_kernels_have_importances_without_columns() -> None:
    grams = np.array([np.outer(column, column) for column in X.T])
    for loss in ("squared", "epsilon_insensitive"):
        model = MKLRegressor(PrecomputedBank(), loss=loss, alpha=0.02).fit(grams, Y)
        frame = model.importance_frame("kernel")
        assert_allclose(frame["share"].sum(), 1.0)
        with pytest.raises(AttributeError, match="which have no columns"):
            model.importance_frame()


@pytest.mark.parametrize("held", HELD)
def test_a_model_file_keeps_importances(held: str, tmp_path: Path) -> None:
    model, y = made("quantile", held)
    save_model(model.fit(X, y), tmp_path / "model.mkl")
    again = load_model(tmp_path / "model.mkl")
    assert_allclose(again.feature_importances_, model.feature_importances_)
    pd.testing.assert_frame_equal(again.importance_frame("kernel"), model.importance_frame("kernel"))


def test_searches_with_kinks_have_importances() -> None:
    model = GaussianMKL(loss="hinge", resources={"max_iter": 3}, tol=0.5).fit(X, CLASSES)
    assert model.importance_frame()["importance"].iloc[0] > 0


def test_kinks_of_a_class_without_kernels_are_no_infinity() -> None:
    """Its scores have no variance that could say how stiff they are: a hinge fit of several classes ended here."""
    y, none = np.array([[1.0], [-1.0], [-1.0]]), np.zeros((3, 1))
    found = curvatures([get_loss("hinge")], y, none, 0.5 * y, np.ones(3), np.zeros(1))
    assert np.isfinite(found).all()
    assert (found > 0).all()


def test_noise_that_is_fitted_is_worth_nothing() -> None:
    rng = np.random.default_rng(1)
    rows = pd.DataFrame({"normal": rng.normal(size=120), "many": pd.Categorical(rng.integers(0, 40, 120))})
    labels = rng.uniform(size=120) > 0.5
    with pytest.warns(UserWarning, match="more strongly related to y than to y in random order"):
        model = MKLClassifier(alpha=0.002).fit(rows, labels)
    assert model.kernel_weights_.any()
    assert model.score(rows, labels) > 0.7
    assert not model.feature_importances_.any()


def test_losses_of_events_are_those_of_the_partial_likelihood() -> None:
    strata = RNG.integers(0, 2, N)
    target = survival_target(SURVIVAL["event"], SURVIVAL["time"], strata)
    weight = RNG.uniform(0.5, 2.0, N)
    loss, z = CoxPartial(ties="breslow"), RNG.normal(size=N)
    bound = loss.bind(target, weight)
    each, of_events = losses_of_rows([loss], target[:, None], z[:, None], weight)
    flat, _ = losses_of_rows([loss], target[:, None], np.zeros((N, 1)), weight)
    assert len(each) == np.count_nonzero(target > 0)
    assert_allclose(of_events @ (each - flat), bound.value(z) - bound.value(np.zeros(N)))


def test_targets_that_share_kernels_share_their_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[importance.FactorRows] = []
    of_factors = importance.create_factor_rows

    def noted(*arguments: Any) -> importance.FactorRows:
        held.append(of_factors(*arguments))
        return held[-1]

    monkeypatch.setattr(importance, "create_factor_rows", noted)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    Y = np.column_stack([np.sin(2.0 * X[:, 0]), X[:, 1] ** 2, X[:, 0] + X[:, 1]])
    bank = KernelBank.per_feature(Linear(), widths=[0.5, 1.0])
    MKLRegressor(bank, alpha=1e-3, outputs="shared", resources={"representation": "factored"}).fit(X, Y)
    (rows,) = held
    for own in zip(*rows.factors, strict=True):
        assert len({id(Z) for Z, _ in own}) == 1
    assert rows.nbytes < sum(Z.nbytes for own in rows.factors for Z, _ in own)  # which are three times what is held


@pytest.mark.nightly
def test_importances_of_many_rows_stay_within_the_plan_of_the_fit() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(24_000, 12))
    y = X[:, 0] + np.sin(2 * X[:, 1]) + rng.normal(size=len(X)) > 0
    MKLClassifier().fit(X[:300], y[:300])  # what is compiled and imported is in no plan
    plan = MKLClassifier().plan(X, y)
    assert plan is not None
    assert peak_of(lambda: MKLClassifier().fit(X, y)) <= 1.1 * plan.most_nbytes


def test_views_and_groups_are_named_in_the_frame_of_importances() -> None:
    genes = pd.DataFrame(RNG.normal(size=(N, 50)), columns=[f"gene {j}" for j in range(50)])
    genes["age"] = RNG.normal(size=N)
    views = KernelBank.from_views({"rna": list(genes.columns[:50])}, Linear())
    bank = views + KernelBank([("years", Linear(), "age")], standardize=True)
    frame = MKLRegressor(bank, penalty="ridge", alpha=0.1).fit(genes, Y).importance_frame()
    assert set(frame["name"]) == {"rna", "age"}
    assert frame["columns"].str.len().max() > 200


def test_labels_share_the_features_of_their_factors(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    factors, weights = [rng.normal(size=(40, r)) for r in (3, 5)], np.array([0.5, 2.0])
    coefficients = rng.normal(size=(3, 8))
    labels = np.where(rng.random((40, 3)) < 0.5, -1.0, 1.0)
    targets = []
    for v in coefficients:
        values = np.array([Z @ own for Z, own in zip(factors, np.split(v, [3]), strict=True)])
        norms = np.array([np.linalg.norm(own) for own in np.split(v, [3])])
        bends = np.array([[1.0, 0.7], [0.1, 0.2]])
        curvature, rho = rng.random(40), rng.normal(size=40)
        targets.append(
            Target(values, values.sum(axis=0), rho, curvature, np.ones((40, 1)), weights, norms, bends, share=2.0)
        )
    stacked: list[int] = []
    whole = importance.stack_features
    monkeypatch.setattr(importance, "stack_features", lambda *given: stacked.append(1) or whole(*given))
    pairs = [list(zip(factors, np.split(v, [3]), strict=True)) for v in coefficients]
    left = importance.FactorRows(targets, pairs, None, (get_loss("squared"),), labels, np.ones(40)).leave_out()
    assert len(stacked) == 1
    for k, target in enumerate(targets):
        scores, parts = leave_out_by_matrices(target, [Z @ Z.T for Z in factors].__getitem__)
        assert_allclose(left.scores[:, k], scores, rtol=1e-10, atol=1e-10)
        assert_allclose(left.parts[:, :, k], parts, rtol=1e-10, atol=1e-10)
