"""Classifiers of several labels a sample: models of each label, gaps, weights, shared kernels, scores and files."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.metrics import accuracy_score, roc_auc_score

from manykernels import Gaussian, KernelBank, MKLClassifier, MKLClassifierCV, MKLRegressor, load_model, save_model
from manykernels.exceptions import InvalidInputError

RNG = np.random.default_rng(5)
N, T = 90, 3
X = RNG.normal(size=(N, 3))
SCORES = np.column_stack([2 * X[:, 0], 2 * (X[:, 0] - X[:, 1]), -2 * X[:, 1]])
Y = (SCORES + RNG.logistic(size=SCORES.shape) > 0).astype(int)
FRAME = pd.DataFrame(Y.astype(float), columns=["ash", "birch", "cedar"])
GAPS = FRAME.copy()
GAPS.iloc[:15, 1] = np.nan
GAPS.iloc[60:, 2] = np.nan  # all rows that the last of three folds holds out
BANK = KernelBank([(f"x{j}", Gaussian(2.0), [j]) for j in range(3)], normalize=None)
ALPHA = 0.01


def _fit(y, **given):
    return MKLClassifier(BANK, **({"alpha": ALPHA, "tol": 1e-6} | given)).fit(X, y)


def test_own_models_are_those_of_each_label():
    model = _fit(Y)
    assert model.kernel_weights_.shape == (T, 3)
    for t in range(T):
        one = _fit(Y[:, t])
        np.testing.assert_allclose(model.decision_function(X)[:, t], one.decision_function(X), atol=0.02)
        np.testing.assert_allclose(model.predict_proba(X)[:, t], one.predict_proba(X)[:, 1], atol=0.01)
    np.testing.assert_array_equal(model.predict(X), model.predict_proba(X) > 0.5)


@pytest.mark.parametrize("outputs", ["own", "shared"])
def test_missing_labels_have_no_weight(outputs):
    model = _fit(GAPS, outputs=outputs)
    filled = GAPS.fillna(1.0)
    filled.iloc[3, 1] = np.nan  # whatever stands in the place of a gap
    changed = GAPS.copy()
    changed.iloc[:15, 1] = FRAME.iloc[:15, 1]
    assert model.dual_gap_ <= 1e-6
    assert not np.allclose(
        model.predict_proba(X)[:, 1], _fit(changed, outputs=outputs).predict_proba(X)[:, 1], atol=1e-3
    )
    if outputs == "own":
        rows = GAPS["birch"].notna()
        strength = ALPHA * N / rows.sum()  # strengths are relative to the sum of the weights of all rows
        one = MKLClassifier(BANK, alpha=strength, tol=1e-6).fit(X[rows], GAPS["birch"][rows])
        np.testing.assert_allclose(model.predict_proba(X)[:, 1], one.predict_proba(X)[:, 1], atol=0.01)


def test_shared_labels_have_one_set_of_weights_and_the_sum_of_losses():
    model = _fit(Y, outputs="shared")
    assert model.kernel_weights_.shape == (3,)
    assert model.dual_gap_ <= 1e-6
    signs, scores = 2 * Y - 1, model.decision_function(X)
    loss = np.logaddexp(0.0, -signs * scores).sum()
    penalty = ALPHA * N * model.kernel_norms_.sum()
    assert model.solution_.certificate.primal == pytest.approx(loss + penalty, rel=1e-6)


def test_shared_labels_on_factors_are_those_on_matrices():
    ways = [_fit(GAPS, outputs="shared", resources={"representation": how}) for how in ("gram", "factored")]
    np.testing.assert_allclose(ways[0].predict_proba(X), ways[1].predict_proba(X), atol=0.01)


@pytest.mark.parametrize("outputs", ["own", "shared"])
def test_class_weights_count_by_label(outputs):
    rare = np.c_[Y[:, :2], (SCORES[:, 2] > 2.5).astype(int)]
    plain, balanced = (_fit(rare, outputs=outputs, class_weight=weight) for weight in (None, "balanced"))
    assert balanced.predict(X)[:, 2].sum() > plain.predict(X)[:, 2].sum()
    given = _fit(rare, outputs=outputs, class_weight={0: 1.0, 1: 1.0})
    np.testing.assert_allclose(given.predict_proba(X), plain.predict_proba(X), atol=0.01)


def test_scores_follow_the_conventions_of_scikit_learn():
    model = _fit(FRAME)
    assert model.score(X, FRAME) == accuracy_score(Y, model.predict(X))
    whole = GAPS.notna().all(axis=1)
    assert model.score(X, GAPS) == accuracy_score(Y[whole], model.predict(X)[whole])
    table = model.label_frame(X, GAPS)
    assert table.index.tolist() == ["ash", "birch", "cedar", "mean"]
    assert table["n_samples"].tolist()[:3] == [90, 75, 60]
    area = roc_auc_score(Y[15:, 1], model.decision_function(X)[15:, 1])
    assert table.loc["birch", "roc_auc"] == pytest.approx(area)
    assert table.loc["mean", "log_loss"] == pytest.approx(table["log_loss"].iloc[:3].mean())


@pytest.mark.parametrize("outputs", ["own", "shared"])
def test_cross_validation_chooses_strengths_and_predicts_held_out_rows(outputs):
    model = MKLClassifierCV(BANK, outputs=outputs, cv=3, n_alphas=8).fit(X, GAPS)
    assert model.dual_gap_ <= model.tol
    assert model.cv_predictions_.shape == (N, T)
    assert np.shape(model.alpha_) == ((T,) if outputs == "own" else ())
    known = GAPS.notna().to_numpy()
    p = np.where(Y == 1, model.cv_predictions_, 1 - model.cv_predictions_)
    means = [-np.log(p[known[:, t], t]).mean() for t in range(T)]
    assert np.mean(means) < 0.65
    assert 0.5 * np.mean(means) < -model.best_score_ < 1.1 * np.mean(means)  # a mean over labels, not a sum


def test_a_scorer_of_scikit_learn_sees_all_labels():
    model = MKLClassifierCV(BANK, cv=3, n_alphas=6, scoring="roc_auc", penalty="l1").fit(X, Y)
    assert 0.5 < model.best_score_ < 1.0


@pytest.mark.filterwarnings("ignore:No kernel was selected for 1 of 3 labels")
@pytest.mark.parametrize("outputs", ["own", "shared"])
def test_a_label_that_a_fold_lacks_stops_nothing(outputs):
    rare = np.c_[Y[:, :2], np.zeros(N, dtype=int)]
    rare[[3, 5], 2] = 1
    model = MKLClassifierCV(BANK, outputs=outputs, cv=3, n_alphas=6).fit(X, rare)
    assert model.predict_proba(X)[:, 2].max() < 0.5


@pytest.mark.parametrize("outputs", ["own", "shared"])
def test_a_model_of_labels_is_read_as_it_was_written(tmp_path, outputs):
    model = _fit(GAPS, outputs=outputs)
    save_model(model, tmp_path / "labels.zip")
    read = load_model(tmp_path / "labels.zip")
    np.testing.assert_allclose(read.predict_proba(X), model.predict_proba(X))
    np.testing.assert_allclose(read.importance_frame()["importance"], model.importance_frame()["importance"])
    assert model.importance_frame()["importance"].iloc[0] > 0.0
    assert read.target_names_.tolist() == ["ash", "birch", "cedar"]
    if outputs == "own":
        assert set(read.weights_frame()["label"]) == {"ash", "birch", "cedar"}


@pytest.mark.parametrize("given", [Y.tolist(), Y.astype(bool), csr_array(Y), pd.DataFrame(Y).astype("Int8")])
def test_labels_come_in_many_forms(given):
    np.testing.assert_allclose(_fit(given).predict_proba(X), _fit(Y).predict_proba(X))


def test_other_columns_are_refused_in_words():
    with pytest.raises(InvalidInputError, match="each be 0 or 1"):
        _fit(Y + 1)
    with pytest.raises(InvalidInputError, match="one value only"):
        _fit(np.c_[Y, np.ones(N)])
    with pytest.raises(InvalidInputError, match="must have a column of 0 and 1"):
        _fit(Y).label_frame(X, Y[:, :2])


@pytest.mark.parametrize("outputs", ["own", "shared"])
def test_counts_of_several_outputs(outputs):
    counts = RNG.poisson(np.exp(0.4 * SCORES))
    model = MKLRegressor(BANK, loss="poisson", outputs=outputs, alpha=ALPHA).fit(X, counts)
    assert model.dual_gap_ <= model.tol
    assert model.score(X, counts) > 0.2
    assert (model.predict(X) > 0).all()
