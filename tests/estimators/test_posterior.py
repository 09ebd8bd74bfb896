"""Standard deviations of fitted functions: those of a Gaussian process, by another way of computing them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.linalg import sqrtm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from manykernels import (
    InvalidInputError,
    KernelBank,
    MKLClassifier,
    MKLRegressor,
    MKLSurvival,
    Overlap,
    load_model,
    save_model,
    survival_array,
)
from manykernels.estimators.supervised import posterior
from manykernels.estimators.supervised.posterior import posterior_of
from manykernels.inspection import ShapeDisplay, SurfaceDisplay
from manykernels.kernels import Gaussian, Interactions, Linear
from manykernels.objective import Ridge

RNG = np.random.default_rng(0)
X = RNG.uniform(-2.0, 2.0, size=(40, 2))
Y = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] + 0.3 * RNG.normal(size=40)
NEW = RNG.uniform(-2.5, 2.5, size=(7, 2))
BANK = KernelBank.per_feature([Linear(), Gaussian(0.7)], normalize=None)
GIVEN: dict[str, Any] = {"resources": {"representation": "gram", "max_iter": 500}, "tol": 1e-9}


def joint(model: MKLRegressor, rows: Any, weight: Any, level: float) -> tuple[Any, Any, float]:
    """Return covariances of functions at rows, by one large Gaussian with a prior of large variance on the constant."""
    bank = BANK.fit(X)
    everything = np.vstack([X, rows])
    grams = bank.block(bank.prepare(everything), bank.prepare(everything))
    parts = model.kernel_weights_[:, None, None] * grams
    total = parts.sum(axis=0) + level
    noisy = total[:40, :40] + np.diag(1.0 / weight)
    residual = Y - (total[:40, :40] @ np.linalg.solve(noisy, Y))
    trace = np.trace(np.linalg.solve(noisy, total[:40, :40]))
    variance = float(weight @ residual**2) / (40 - trace)
    return parts, noisy, variance


@pytest.mark.parametrize("weighted", [False, True])
def test_deviations_are_those_of_a_gaussian_process_with_a_free_constant(weighted: bool) -> None:
    weight = RNG.uniform(0.5, 2.0, size=40) if weighted else np.ones(40)
    model = MKLRegressor(BANK, penalty="ridge", alpha=0.05, **GIVEN).fit(X, Y, sample_weight=weight)
    parts, noisy, variance = joint(model, NEW, weight, 1e5)
    total = parts.sum(axis=0) + 1e5
    cross = total[40:, :40]
    covariance = total[40:, 40:] - cross @ np.linalg.solve(noisy, cross.T)
    predicted, deviation = model.predict(NEW, return_std=True)
    np.testing.assert_array_equal(predicted, model.predict(NEW))
    np.testing.assert_allclose(deviation, np.sqrt(variance * np.diag(covariance)), rtol=1e-3)


def dense(model: Any, points: Any, curvature: Any, s2: float, members: Any) -> Any:
    """Return the covariance of a sum of functions at learned weights, from matrices of rows by rows."""
    bank = BANK.fit(X)
    everything = np.vstack([X, points])
    weights = np.asarray(model.kernel_weights_)
    parts = weights[:, None, None] * bank.block(bank.prepare(everything), bank.prepare(everything))
    own = parts[members].sum(axis=0)
    rho, centers = np.ravel(model.dual_coef_), curvature / curvature.sum()
    units, features, sizes = [(0, 1), (2, 3)], [], []
    for unit in units:
        K = parts[list(unit)].sum(axis=0)
        values, vectors = np.linalg.eigh(K[:40, :40])
        kept = values > 1e-9 * values[-1]
        features.append(K[:, :40] @ (vectors[:, kept] / np.sqrt(values[kept])))
        sizes.append(int(kept.sum()))
    every = np.hstack(features)
    C = every[:40] - centers @ every[:40]
    H, v = C.T @ (curvature[:, None] * C), every[:40].T @ rho
    V = np.linalg.inv(H + np.eye(len(H)))
    share, rest = np.eye(len(H)) - V, sqrtm(V).real
    first, t, w = 0, [], rest @ v
    for size in sizes:
        b = slice(first, first + size)
        noise, seen = rest @ (share - share @ share) @ rest, np.sum((rest @ share)[b, b] ** 2)
        t += [max((1 + w[b] @ w[b] / s2 - np.trace(noise[b, b])) / (1 + seen), 1.0)] * size
        first += size
    bias = sqrtm(share).real @ V @ v
    covariance = s2 * (V @ (H - share @ share @ V) @ V + V @ rest @ np.diag(t) @ rest @ V) + np.outer(bias, bias)
    chosen = np.repeat([list(unit) == members for unit in units], sizes)
    c = every[40:] * chosen
    return c @ covariance @ c.T + s2 * (own[40:, 40:] - c @ c.T)


@pytest.mark.parametrize("task", ["numbers", "weighted", "classes"])
def test_learned_weights_have_an_estimated_bias(task: str) -> None:
    weight = np.random.default_rng(1).uniform(0.5, 2.0, size=40) if task == "weighted" else np.ones(40)
    if task == "classes":
        model: Any = MKLClassifier(BANK, alpha=0.02, **GIVEN).fit(X, Y > 0)
        chance = model.predict_proba(X)[:, 1]
        curvature, s2 = chance * (1 - chance), 1.0
    else:
        model = MKLRegressor(BANK, alpha=0.05, **GIVEN).fit(X, Y, sample_weight=weight)
        curvature, s2 = weight, joint(model, NEW, weight, 1e5)[2]
    frame = ShapeDisplay.from_estimator(model, X, columns=["x0"], n_points=15, bands=True).frame()
    points = np.column_stack([frame["x"], np.zeros(15)])
    members = [k for k, name in enumerate(model.kernel_names_) if name.startswith("x0")]
    centering = np.eye(15) - frame["density"].to_numpy()
    expected = centering @ dense(model, points, curvature, s2, members) @ centering.T
    np.testing.assert_allclose(frame["std"], np.sqrt(np.diag(expected)), rtol=2e-3, atol=1e-5)


def test_simultaneous_bands_hold_all_of_a_curve() -> None:
    model = MKLRegressor(BANK, alpha=0.05, **GIVEN).fit(X, Y)
    frame = ShapeDisplay.from_estimator(model, X, columns=["x0"], n_points=15, bands=True).frame()
    points = np.column_stack([frame["x"], np.zeros(15)])
    found = posterior_of(model)
    own = np.array([k for k, name in enumerate(model.kernel_names_) if name.startswith("x0")])
    covariance = found.part_covariance(model._check_rows(points), own, frame["density"].to_numpy())
    draws = np.random.default_rng(5).multivariate_normal(np.zeros(15), covariance, size=4000, method="eigh")
    inside = np.all(np.abs(draws) <= frame["simultaneous"].to_numpy(), axis=1)
    assert 0.93 <= inside.mean() <= 0.97
    assert np.all(np.abs(draws) <= 1.96 * frame["std"].to_numpy(), axis=1).mean() < 0.85


def test_without_a_constant_they_are_those_of_scikit_learn() -> None:
    bank = KernelBank([("one", Gaussian(0.7))], normalize=None)
    model = MKLRegressor(bank, penalty="ridge", alpha=0.05, fit_intercept=False, **GIVEN).fit(X, Y)
    d = float(model.kernel_weights_[0])
    reference = GaussianProcessRegressor(ConstantKernel(d) * RBF(0.7), alpha=1.0, optimizer=None).fit(X, Y)
    mean, deviation = reference.predict(NEW, return_std=True)
    found = model.predict(NEW, return_std=True)
    np.testing.assert_allclose(found[0], mean, atol=1e-4)
    np.testing.assert_allclose(found[1] / np.sqrt(posterior_of(model).kept.dispersion), deviation, rtol=1e-5)


def test_bands_of_a_column_are_those_of_its_part_less_its_mean() -> None:
    model = MKLRegressor(BANK, penalty="ridge", alpha=0.05, **GIVEN).fit(X, Y)
    frame = ShapeDisplay.from_estimator(model, X, columns=["x0"], n_points=15, bands=True).frame()
    points = np.column_stack([frame["x"], np.zeros(15)])
    parts, noisy, variance = joint(model, points, np.ones(40), 1e5)
    own = parts[[k for k, name in enumerate(model.kernel_names_) if name.startswith("x0")]].sum(axis=0)
    covariance = own[40:, 40:] - own[40:, :40] @ np.linalg.solve(noisy, own[:40, 40:])
    centering = np.eye(15) - frame["density"].to_numpy()
    expected = np.sqrt(variance * np.diag(centering @ covariance @ centering.T))
    np.testing.assert_allclose(frame["std"], expected, rtol=1e-3, atol=1e-5)


def test_bands_hold_the_true_curve_about_as_often_as_they_say() -> None:
    inside = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        rows = rng.uniform(-2.0, 2.0, size=(120, 2))
        y = np.sin(2.0 * rows[:, 0]) + 0.5 * rng.normal(size=120)
        model = MKLRegressor(KernelBank.per_feature(Gaussian(0.7)), tol=1e-4, resources={"representation": "gram"}).fit(
            rows, y
        )
        mean, deviation = model.predict(rows, return_std=True)
        inside.append(np.mean(np.abs(mean - np.sin(2.0 * rows[:, 0])) <= 1.96 * deviation))
    assert 0.8 <= np.mean(inside) <= 1.0


def test_logistic_bands_are_laplace_approximations() -> None:
    labels = Y > 0
    bank = KernelBank.per_feature(Gaussian(0.7), normalize=None)
    model = MKLClassifier(bank, loss="logistic", penalty="ridge", alpha=0.05, **GIVEN).fit(X, labels)
    found = posterior_of(model)
    assert found.kept.dispersion == 1.0
    chance = model.predict_proba(X)[:, 1]
    fitted = bank.fit(X)
    gram = np.tensordot(model.kernel_weights_, fitted.block(fitted.prepare(X), fitted.prepare(X)), axes=1) + 1e5
    covariance = gram - gram @ np.linalg.solve(gram + np.diag(1 / (chance * (1 - chance))), gram)
    np.testing.assert_allclose(found.variance(model._check_rows(X)), np.diag(covariance), rtol=1e-3)
    assert "std" in ShapeDisplay.from_estimator(model, X, bands=True).frame()


def test_several_outputs_and_empty_models_have_deviations() -> None:
    both = MKLRegressor(BANK, alpha="0.2*max", **GIVEN).fit(X, np.column_stack([Y, X[:, 1]]))
    alone = MKLRegressor(BANK, alpha="0.2*max", **GIVEN).fit(X, Y)
    mean, deviation = both.predict(NEW, return_std=True)
    assert mean.shape == deviation.shape == (7, 2)
    np.testing.assert_allclose(deviation[:, 0], alone.predict(NEW, return_std=True)[1], rtol=1e-6)
    shared = MKLRegressor(BANK, outputs="shared", resources={"representation": "gram"}).fit(
        X, np.column_stack([Y, X[:, 1]])
    )
    assert shared.predict(NEW, return_std=True)[1].shape == (7, 2)
    with pytest.warns(UserWarning, match="No kernel was selected"):
        constant = MKLRegressor(BANK, alpha="2*max", resources={"representation": "gram"}).fit(X, Y)
    np.testing.assert_allclose(constant.predict(NEW, return_std=True)[1], Y.std(ddof=1) / np.sqrt(40), rtol=1e-9)
    with pytest.warns(UserWarning, match="y has one value"):
        same = MKLRegressor(BANK, resources={"representation": "gram"}).fit(X, np.full(40, 3.0))
    np.testing.assert_allclose(same.predict(NEW, return_std=True), np.repeat([[3.0], [0.0]], 7, axis=1), atol=1e-9)


def test_a_file_keeps_deviations(tmp_path: Any) -> None:
    model = MKLRegressor(BANK, resources={"representation": "gram"}).fit(
        X, Y, sample_weight=RNG.uniform(0.5, 2.0, size=40)
    )
    save_model(model, tmp_path / "model.mkl")
    again = load_model(tmp_path / "model.mkl")
    np.testing.assert_array_equal(again.predict(NEW, return_std=True)[1], model.predict(NEW, return_std=True)[1])


def test_surfaces_have_bands_and_are_drawn_with_them() -> None:
    bank = KernelBank([("pair", Gaussian(1.0), [0, 1])])
    model = MKLRegressor(bank, resources={"representation": "gram"}).fit(X, X[:, 0] * X[:, 1])
    surface = SurfaceDisplay.from_estimator(model, X, n_points=6, bands=True)
    assert (surface.frame()["std"] > 0).all()
    surface.plot()
    ShapeDisplay.from_estimator(
        MKLRegressor(BANK, resources={"representation": "gram"}).fit(X, Y), X, bands=True
    ).plot()


CURVES = KernelBank.per_feature([Linear(), Gaussian(0.7)])


def many(n: int, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    rows = rng.uniform(-2.0, 2.0, size=(n, 2))
    return rows, np.sin(2.0 * rows[:, 0]) + 0.5 * rows[:, 1] + 0.3 * rng.normal(size=n)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("task", ["numbers", "weighted", "two targets", "classes", "counts", "huber", "hazards"])
def test_kernels_held_as_factors_have_the_same_bands(task: str) -> None:
    rows, y = many(900)
    given: dict[str, Any] = {"alpha": "0.2*noise", "tol": 1e-8}
    weight: Any = None
    kind: Any = MKLClassifier if task == "classes" else MKLRegressor
    if task == "weighted":
        weight = np.random.default_rng(1).uniform(0.5, 2.0, size=900)
    elif task == "two targets":
        y = np.column_stack([y, 2.0 * rows[:, 1] + np.random.default_rng(1).normal(size=900)])
    elif task == "classes":
        y = y > 0
    elif task == "counts":
        y, given = np.random.default_rng(1).poisson(np.exp(y)).astype(float), given | {"loss": "poisson"}
    elif task == "huber":
        given["loss"] = "huber"
    elif task == "hazards":
        kind, y = MKLSurvival, survival_array(np.random.default_rng(1).random(900) < 0.8, np.exp(-y))
    factored = kind(CURVES, **given).fit(rows, y, sample_weight=weight)
    matrices = kind(CURVES, resources={"representation": "gram"}, **given).fit(rows, y, sample_weight=weight)
    assert (factored.representation_, matrices.representation_) == ("factored", "gram")
    target = 1 if task == "two targets" else 0
    checked = [model._check_rows(NEW) for model in (factored, matrices)]
    deviations = [
        np.sqrt(posterior_of(model, target).variance(new))
        for model, new in zip((factored, matrices), checked, strict=True)
    ]
    np.testing.assert_allclose(deviations[0], deviations[1], rtol=1e-3)
    asked = {"target": 1} if task == "two targets" else {}
    shapes = ShapeDisplay.from_estimator(factored, rows, bands=True, **asked).frame()
    exact = ShapeDisplay.from_estimator(matrices, rows, bands=True, **asked).frame()
    np.testing.assert_allclose(shapes["std"], exact["std"], rtol=1e-2, atol=1e-6)


def test_bands_of_factors_hold_the_truth_about_as_often_as_they_say() -> None:
    inside = []
    for seed in range(8):
        rows, y = many(800, seed)
        model = MKLRegressor(CURVES).fit(rows, y)
        mean, deviation = model.predict(rows, return_std=True)
        inside.append(np.abs(mean - np.sin(2.0 * rows[:, 0]) - 0.5 * rows[:, 1]) <= 1.96 * deviation)
    assert 0.88 <= np.mean(inside) <= 0.99


def test_many_rows_are_sampled_for_the_hessian(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, y = many(6000)
    exact = MKLRegressor(CURVES).fit(rows, y).predict(NEW, return_std=True)[1]
    monkeypatch.setattr(posterior, "HESSIAN_COST", 1.0)
    np.testing.assert_allclose(MKLRegressor(CURVES).fit(rows, y).predict(NEW, return_std=True)[1], exact, rtol=0.25)


def test_a_file_keeps_the_rows_of_bands(tmp_path: Any) -> None:
    rows, y = many(900)
    model = MKLRegressor(CURVES).fit(rows, y)
    save_model(model, tmp_path / "model.mkl")
    again = load_model(tmp_path / "model.mkl")
    np.testing.assert_array_equal(again.predict(NEW, return_std=True)[1], model.predict(NEW, return_std=True)[1])
    model._bands = (replace(model._bands[0], covariance=model._bands[0].covariance[1:]),)
    save_model(model, tmp_path / "wrong.mkl")
    with pytest.raises(InvalidInputError, match="covariance"):
        load_model(tmp_path / "wrong.mkl")


@pytest.mark.parametrize("most", [0, 2, 21])
def test_units_share_few_landmarks(most: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    rows, y = many(900)
    monkeypatch.setattr(posterior, "MOST_LANDMARKS", most)
    model = MKLRegressor(CURVES).fit(rows, y)
    counts = [len(own) for own in model._bands[0].landmarks]
    assert sum(counts) <= most
    assert max(counts, default=0) <= min(counts, default=0) + 1
    deviations = model.predict(NEW, return_std=True)[1]
    assert (deviations > 0).all()
    save_model(model, tmp_path / "model.mkl")
    np.testing.assert_array_equal(load_model(tmp_path / "model.mkl").predict(NEW, return_std=True)[1], deviations)


def test_what_was_asked_for_as_factors_keeps_no_rows() -> None:
    rows, y = many(900)
    model = MKLRegressor(CURVES).fit(rows, y)
    assert "_bands" in vars(model)
    model.set_params(resources={"representation": "factored"}).fit(rows, y)
    assert "_bands" not in vars(model)


def test_what_has_no_bands_is_refused_in_words() -> None:
    with pytest.raises(InvalidInputError, match="return_std is for loss='squared'"):
        MKLRegressor(BANK, loss="huber").fit(X, Y).predict(NEW, return_std=True)
    with pytest.raises(InvalidInputError, match="'hinge' is piecewise linear"):
        posterior_of(MKLClassifier(BANK, loss="hinge").fit(X, Y > 0))
    with pytest.raises(InvalidInputError, match="'representation': 'auto'"):
        MKLRegressor(BANK, resources={"representation": "factored"}).fit(X, Y).predict(NEW, return_std=True)
    grams = BANK.fit(X).block(BANK.fit(X).prepare(X), BANK.fit(X).prepare(X))
    with pytest.raises(InvalidInputError, match="precomputed kernels"):
        MKLRegressor("precomputed").fit(grams, Y).predict(grams, return_std=True)


def test_kernels_without_a_penalty_have_no_prior() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60, 2))
    bank = KernelBank([("line", Linear(), [0]), ("curve", Gaussian(1.0), [1])])
    y = rows[:, 0] + np.sin(2 * rows[:, 1]) + 0.1 * rng.normal(size=60)
    model = MKLRegressor(bank, penalty={"line": None, "*": "l1"}, alpha=0.01).fit(rows, y)
    with pytest.raises(InvalidInputError, match="have no prior"):
        model.predict(rows[:3], return_std=True)
    small = MKLRegressor(bank, penalty={"line": Ridge(1e-4), "*": "l1"}, alpha=0.01).fit(rows, y)
    assert (small.predict(rows[:3], return_std=True)[1] > 0).all()


@pytest.mark.parametrize("kernel", ["intercepts", "slopes"])
@pytest.mark.parametrize("n_levels", [40, 150, 600])
def test_every_level_of_a_grouping_is_known(kernel: str, n_levels: int) -> None:
    """All but the 500 most frequent levels had the deviation of the prior."""
    rng, n = np.random.default_rng(4), 1200
    codes, dose = rng.integers(0, n_levels, n), rng.normal(size=n)
    frame = pd.DataFrame({"group": pd.Categorical([f"g{code:03d}" for code in codes]), "dose": dose})
    factor = dose if kernel == "slopes" else np.ones(n)
    y = rng.normal(size=n_levels)[codes] * factor + 0.3 * rng.normal(size=n)
    parts = Interactions([Linear()], ["group", "dose"]) if kernel == "slopes" else ("group", Overlap(), ["group"])
    bank = KernelBank([parts], normalize=None)
    model = MKLRegressor(bank, penalty="ridge", alpha=0.1 / n, resources={"representation": "auto"}).fit(frame, y)
    assert model.representation_ == "factored"
    variance = posterior_of(model).variance(frame)
    # One group by another way: a prior of its own, and a normal likelihood
    sums = np.bincount(codes, factor**2, n_levels)[codes]
    expected = posterior_of(model).kept.dispersion * factor**2 / (0.1 + sums)
    np.testing.assert_allclose(variance, expected, rtol=0.1, atol=1e-3)


@pytest.mark.parametrize("task", ["numbers", "classes"])
def test_levels_without_landmarks_have_the_bands_of_levels_with_landmarks(
    task: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """By elimination of the largest grouping, or with all levels in the Hessian; curves and a second grouping."""
    rng, n = np.random.default_rng(2), 700
    frame = pd.DataFrame({"a": rng.uniform(-2, 2, n), "dose": 1 + rng.normal(size=n)})
    frame["group"] = pd.Categorical([f"g{code:02d}" for code in rng.integers(0, 80, n)])
    frame["site"] = pd.Categorical([f"s{code}" for code in rng.integers(0, 5, n)])
    y = np.sin(2 * frame["a"].to_numpy()) + rng.normal(size=80)[frame["group"].cat.codes] + 0.3 * rng.normal(size=n)
    kernels = [("group", Overlap(), ["group"]), ("site", Overlap(), ["site"]), ("a", Gaussian(0.7), ["a"])]
    bank = KernelBank([*kernels, Interactions([Linear()], ["group", "dose"])])
    kind: Any = MKLClassifier if task == "classes" else MKLRegressor
    target = y > 0 if task == "classes" else y
    model = kind(bank, penalty="ridge", alpha=1e-3).fit(frame, target)
    assert [len(own.levels) for own in model._bands] == [1]
    found, own = posterior_of(model), np.array([0])
    save_model(model, tmp_path / "model.mkl")
    again = posterior_of(load_model(tmp_path / "model.mkl"))
    np.testing.assert_array_equal(again.variance(frame), found.variance(frame))
    monkeypatch.setattr(posterior, "FEW_LEVELS", 1000)
    whole = posterior_of(kind(bank, penalty="ridge", alpha=1e-3).fit(frame, target))
    assert whole.kept.levels == ()
    assert found.kept.dispersion == pytest.approx(whole.kept.dispersion, rel=1e-6)
    np.testing.assert_allclose(found.variance(frame), whole.variance(frame), rtol=1e-4)
    mean = np.full(50, 1 / 50)
    parts = [each.part_covariance(frame[:50], own, mean) for each in (found, whole)]
    np.testing.assert_allclose(parts[0], parts[1], atol=1e-4 * parts[1].max())


def test_levels_of_many_rows_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    rng, n = np.random.default_rng(2), 2000
    frame = pd.DataFrame({"a": rng.uniform(-2, 2, n)})
    frame["group"] = pd.Categorical([f"g{code:03d}" for code in rng.integers(0, 300, n)])
    y = np.sin(2 * frame["a"].to_numpy()) + rng.normal(size=300)[frame["group"].cat.codes] + 0.3 * rng.normal(size=n)
    bank = KernelBank([("group", Overlap(), ["group"]), ("a", Gaussian(0.7), ["a"])])
    model = MKLRegressor(bank, penalty="ridge", alpha=1e-3)
    exact = posterior_of(model.fit(frame, y)).variance(frame)
    monkeypatch.setattr(posterior, "HESSIAN_COST", 1.0)
    monkeypatch.setattr(posterior, "ROWS_PER_RANK", 20)
    assert np.median(np.abs(posterior_of(model.fit(frame, y)).variance(frame) / exact - 1)) < 0.15
