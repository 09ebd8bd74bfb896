"""Intervals and sets from the folds of a search."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from manykernels import KernelBank, MKLClassifierCV, MKLRegressor, MKLRegressorCV
from manykernels.exceptions import InvalidInputError
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
    for rows, shown, fold in found._fold_models:
        assert_allclose(fold.predict(X[FIT][rows]), shown, atol=1e-3)  # spectra of folds are of single precision
        for error in np.abs(Y[FIT][rows] - shown):
            low.append(fold.predict(X[NEW]) - error)
            high.append(fold.predict(X[NEW]) + error)
    assert_allclose(frame["high"], np.sort(high, axis=0)[int(np.ceil(0.9 * 151)) - 1])
    assert_allclose(frame["low"], np.sort(low, axis=0)[int(np.floor(0.1 * 151)) - 1])
    assert len({*(frame["high"] - frame["low"]).round(6)}) > 100  # of widths of their own
    again = pickle.loads(pickle.dumps(found))
    assert_allclose(conformal_intervals(again, Y[FIT], X[NEW]), frame)
    assert "_fold_models" not in model.__dict__
    found.set_params(search__keep_folds=False).fit(X[FIT], Y[FIT])
    assert "_fold_models" not in found.__dict__


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
        for rows, shown, fold in found[-1]._fold_models:
            own = 1 - fold.predict_proba(rows_of_new[row : row + 1])[0, place]
            fewer += int((1 - shown[np.arange(len(rows)), places[FIT][rows]] < own).sum())
        assert frame.iloc[row, place] == (fewer < 0.9 * 151)


def test_what_cannot_be_done_is_said(model: MKLRegressorCV) -> None:
    plain = MKLRegressor(BANK).fit(X[FIT], Y[FIT])
    with pytest.raises(InvalidInputError, match="This MKLRegressor has no predictions of rows that were held out"):
        conformal_intervals(plain, Y[FIT], X[NEW])
    with pytest.raises(InvalidInputError, match="y has 100 targets, but the model was fitted to 150"):
        conformal_intervals(model, Y[:100], X[NEW])
    with pytest.raises(InvalidInputError, match=r"confidence must be below 1, got 1\.5"):
        conformal_intervals(model, Y[FIT], X[NEW], confidence=1.5)
    with pytest.raises(InvalidInputError, match="Sets are made of probabilities"):
        conformal_sets(model, Y[FIT], X[NEW])
