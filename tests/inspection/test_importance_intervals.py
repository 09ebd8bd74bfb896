"""Intervals and sets from the folds of a search."""

from __future__ import annotations

import pickle
import warnings
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from manykernels import KernelBank, MKLClassifierCV, MKLRegressor, MKLRegressorCV, load_model, save_model
from manykernels.exceptions import InvalidInputError, ModelFileError
from manykernels.inspection import conformal_intervals, conformal_sets
from manykernels.kernels import Gaussian, Linear

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, (400, 2))
Y = np.sin(2 * X[:, 0]) + 0.4 * RNG.normal(size=400)
BANK = KernelBank.per_feature([Linear(), Gaussian(0.7)])
FIT, NEW = slice(150), slice(150, None)


@pytest.fixture(scope="module")
def model() -> MKLRegressorCV:
    return MKLRegressorCV(BANK, penalty="ridge", cv=5).fit(X[FIT], Y[FIT])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("keep", [False, True])
def test_intervals_cover_what_they_say(keep: bool) -> None:
    """In the mean over draws: the rows that calibrate are few, and differ from draw to draw."""
    inside = np.zeros((5, 2))
    for draw in range(5):
        rng = np.random.default_rng(draw)
        rows = rng.uniform(-2, 2, (400, 2))
        target = np.sin(2 * rows[:, 0]) + 0.4 * rng.normal(size=400)
        found = MKLRegressorCV(BANK, penalty="ridge", cv=5, search={"keep_folds": keep}).fit(rows[FIT], target[FIT])
        for at, confidence in enumerate((0.5, 0.9)):
            frame = conformal_intervals(found, target[FIT], rows[NEW], confidence=confidence)
            inside[draw, at] = np.mean((frame["low"] <= target[NEW]) & (target[NEW] <= frame["high"]))
            if not keep:
                assert_allclose(frame["high"] + frame["low"], 2 * found.predict(rows[NEW]))
    deviation = np.sqrt(np.array([0.25, 0.09]) * (1 / 150 + 1 / 250) / 5)
    assert (np.abs(inside.mean(axis=0) - [0.5, 0.9]) < 3 * deviation).all()


def test_the_reach_is_an_error_of_a_held_out_row(model: MKLRegressorCV) -> None:
    frame = conformal_intervals(model, Y[FIT], X[NEW][:1], confidence=0.9)
    errors = np.sort(np.abs(Y[FIT] - model.cv_predictions_))
    assert_allclose(frame["high"] - frame["predicted"], errors[int(np.ceil(0.9 * 151)) - 1])
    assert np.isinf(conformal_intervals(model, Y[FIT], X[NEW][:1], confidence=0.999)["high"]).all()


def test_sets_hold_what_they_say() -> None:
    labels = np.array(["low", "middle", "high"])[np.digitize(Y, [-0.4, 0.4])]
    found = MKLClassifierCV(BANK, penalty="ridge", cv=5).fit(X[FIT], labels[FIT])
    frame = conformal_sets(found, labels[FIT], X[NEW])
    held = frame.to_numpy()[np.arange(250), np.searchsorted(found.classes_, labels[NEW])]
    assert abs(held.mean() - 0.9) < 0.07
    assert frame.to_numpy().sum(axis=1).mean() < 2.5


def test_kept_models_of_the_folds_give_the_intervals_of_their_formula(model: MKLRegressorCV) -> None:
    found = MKLRegressorCV(BANK, penalty="ridge", cv=5, search={"keep_folds": True}).fit(X[FIT], Y[FIT])
    assert_allclose(found.cv_predictions_, model.cv_predictions_)
    frame = conformal_intervals(found, Y[FIT], X[NEW], confidence=0.9)
    low, high = [], []
    for fold in found._fold_models:
        # Spectra of folds are of single precision.
        assert_allclose(fold.says(found, X[FIT][fold.rows]), fold.shown, atol=1e-3)
        for error in np.abs(Y[FIT][fold.rows] - fold.shown):
            low.append(fold.says(found, X[NEW]) - error)
            high.append(fold.says(found, X[NEW]) + error)
    assert_allclose(frame["high"], np.sort(high, axis=0)[int(np.ceil(0.9 * 151)) - 1])
    assert_allclose(frame["low"], np.sort(low, axis=0)[int(np.floor(0.1 * 151)) - 1])
    assert len({*(frame["high"] - frame["low"]).round(6)}) > 100  # of widths of their own
    again = pickle.loads(pickle.dumps(found))
    assert_allclose(conformal_intervals(again, Y[FIT], X[NEW]), frame)
    assert "_fold_models" not in model.__dict__
    found.set_params(search__keep_folds=False).fit(X[FIT], Y[FIT])
    assert "_fold_models" not in found.__dict__


@pytest.mark.sampled(2)
@pytest.mark.parametrize("penalty", ["auto", "l1"])
def test_sets_of_kept_folds_hold_what_they_say(penalty: str) -> None:
    labels = np.array(["low", "middle", "high"])[np.digitize(Y, [-0.4, 0.4])]
    search = {"keep_folds": True}
    found = make_pipeline(
        StandardScaler(), MKLClassifierCV(BANK, penalty=penalty, n_alphas=6, cv=4, tol=1e-2, search=search)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # an end of the grid
        found.fit(X[FIT], labels[FIT])
    frame = conformal_sets(found, labels[FIT], X[NEW])
    places = np.searchsorted(found.classes_, labels)
    assert abs(frame.to_numpy()[np.arange(250), places[NEW]].mean() - 0.9) < 0.07
    rows_of_new = found[:-1].transform(X[NEW])
    for place, row in ((0, 3), (2, 17)):
        fewer = 0
        for fold in found[-1]._fold_models:
            own = 1 - fold.says(found[-1], rows_of_new[row : row + 1], "predict_proba")[0, place]
            fewer += int((1 - fold.shown[np.arange(len(fold.rows)), places[FIT][fold.rows]] < own).sum())
        assert frame.iloc[row, place] == (fewer < 0.9 * 151)


def test_what_cannot_be_done_is_said(model: MKLRegressorCV) -> None:
    plain = MKLRegressor(BANK).fit(X[FIT], Y[FIT])
    with pytest.raises(InvalidInputError, match="This MKLRegressor has no predictions of rows that were held out"):
        conformal_intervals(plain, Y[FIT], X[NEW])
    with pytest.raises(InvalidInputError, match="y has 100 targets, but the model was fitted to 150"):
        conformal_intervals(model, Y[:100], X[NEW])
    with pytest.raises(InvalidInputError, match=r"confidence must be below 1, got 1\.5"):
        conformal_intervals(model, Y[FIT], X[NEW], confidence=1.5)
    with pytest.raises(InvalidInputError, match="Prediction sets need probabilities"):
        conformal_sets(model, Y[FIT], X[NEW])


@pytest.mark.nightly
def test_targets_with_choices_of_their_own_have_intervals_each_also_from_a_file(tmp_path: Path) -> None:
    both = np.column_stack([Y, X[:, 1] + 0.2 * np.random.default_rng(1).normal(size=400)])
    found = MKLRegressorCV(BANK, cv=3, n_alphas=4, tol=1e-3, search={"keep_folds": True}).fit(X[FIT], both[FIT])
    assert len(set(found.best_per_target_)) == 2
    for fold in found._fold_models:
        assert_allclose(fold.says(found, X[FIT][fold.rows]), fold.shown, atol=1e-3)
        assert_allclose(found.cv_predictions_[fold.rows], fold.shown)
    frame = conformal_intervals(found, pd.DataFrame(both[FIT], columns=["wave", "line"]), X[NEW])
    assert frame.columns.tolist() == [(name, end) for name in ("wave", "line") for end in ("predicted", "low", "high")]
    for k, name in enumerate(("wave", "line")):
        held = np.mean((frame[name]["low"] <= both[NEW][:, k]) & (both[NEW][:, k] <= frame[name]["high"]))
        assert abs(held - 0.9) < 3 * np.sqrt(0.09 * (1 / 150 + 1 / 250))
    save_model(found, tmp_path / "model.mkl")
    assert_allclose(conformal_intervals(load_model(tmp_path / "model.mkl"), both[FIT], X[NEW]), frame)
    with pytest.raises(
        InvalidInputError, match=r"y has the shape \(150,\), but predictions of held-out rows \(150, 2\)"
    ):
        conformal_intervals(found, both[FIT][:, 0], X[NEW])


@pytest.mark.parametrize("part", ["rows", "own", "intercepts", "shown"])
def test_kept_folds_of_a_file_must_fit(part: str, tmp_path: Path) -> None:
    found = MKLRegressorCV(BANK, penalty="ridge", cv=3, search={"keep_folds": True}).fit(X[FIT], Y[FIT])
    save_model(found, tmp_path / "model.mkl")
    assert_allclose(load_model(tmp_path / "model.mkl").cv_predictions_, found.cv_predictions_)
    wrong = {"rows": -1 - found._fold_models[0].rows, "own": np.array([1]), "intercepts": (), "shown": np.zeros(3)}
    found._fold_models[0] = replace(found._fold_models[0], **{part: wrong[part]})
    save_model(found, tmp_path / "model.mkl")
    with pytest.raises(ModelFileError, match=f"these parts do not fit the rest: {part}"):
        load_model(tmp_path / "model.mkl")


def test_a_file_of_folds_under_their_former_name_opens(tmp_path: Path) -> None:
    found = MKLRegressorCV(BANK, penalty="ridge", cv=3, search={"keep_folds": True}).fit(X[FIT], Y[FIT])
    save_model(found, tmp_path / "model.mkl")
    with zipfile.ZipFile(tmp_path / "model.mkl") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    assert members["model.json"].count(b'"FoldModel"') == 3
    members["model.json"] = members["model.json"].replace(b'"FoldModel"', b'"KeptFold"')
    with zipfile.ZipFile(tmp_path / "former.mkl", "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    opened = load_model(tmp_path / "former.mkl")
    assert_allclose(opened._fold_models[1].says(opened, X[NEW]), found._fold_models[1].says(found, X[NEW]))
