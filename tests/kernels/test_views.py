"""Views: aligned by index, with samples that lack some; they behave in scikit-learn's tools as tables do."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split

from manykernels import (
    Gaussian,
    InvalidInputError,
    KernelBank,
    Linear,
    MKLClassifier,
    MKLClassifierCV,
    MKLRegressor,
    Views,
    load_model,
    report,
    save_model,
)
from manykernels.inspection import KernelWeightsDisplay

NAMES = [f"p{i}" for i in range(80)]


@pytest.fixture
def tables(rng):
    """Two tables of 80 patients: the first 70 have been sequenced, the last 60 examined."""
    rna = pd.DataFrame(rng.normal(size=(70, 4)), index=NAMES[:70], columns=[f"g{j}" for j in range(4)])
    clinic = pd.DataFrame({"age": rng.normal(50, 9, 60), "site": rng.choice(["x", "y"], 60)}, index=NAMES[20:])
    return {"rna": rna, "clinic": clinic.iloc[::-1]}


@pytest.fixture
def views(tables):
    return Views(tables)


@pytest.fixture
def y(views, rng):
    score = views["rna"]["g0"].fillna(0) + (views["clinic"]["site"] == "x") - 0.3
    return pd.Series(score + 0.2 * rng.normal(size=len(views)) > 0, index=views.index)


def test_samples_are_aligned_by_label(tables, views):
    assert sorted(views.index) == sorted(NAMES)
    assert list(views.index[:70]) == NAMES[:70]
    assert views.shape == (80, 6)
    assert views.frame.columns[0] == "rna/g0"
    pd.testing.assert_frame_equal(views["clinic"].loc[tables["clinic"].index], tables["clinic"], check_dtype=False)
    assert views.present.sum().tolist() == [70, 60]
    summary = views.summary().set_index("view")
    assert summary.loc["rna"].tolist() == [4, 70, 10, 70 / 80, 20]
    assert views.patterns()["samples"].tolist() == [50, 20, 10]
    assert repr(views) == "Views(80 samples: rna (4 columns), clinic (2 columns))"


def test_rows_are_chosen_as_scikit_learn_chooses_them(views, y):
    some = views[np.array([75, 2])]
    assert list(some.index) == [views.index[75], "p2"]
    assert some.present.to_numpy().tolist() == [[False, True], [True, False]]
    mask = np.arange(80) < 5
    for chosen in (slice(0, 5), mask, list(range(5)), (np.arange(5), ...)):
        pd.testing.assert_frame_equal(views[chosen].frame, views.frame.iloc[:5])
    train, test, y_train, _ = train_test_split(views, y, random_state=0)
    assert (len(train), len(test)) == (60, 20)
    assert train.index.equals(y_train.index)
    with pytest.raises(InvalidInputError, match="There is no view 'dna'; there are 'rna', 'clinic'"):
        views["dna"]


def test_samples_without_a_view_are_masked_without_being_asked(views, y):
    model = MKLClassifier(alpha=0.01).fit(views, y)
    assert {name.split(":")[0] for name in model.kernel_names_} == {"rna", "clinic", "clinic/age", "clinic/site"} - {
        "clinic/age"
    }
    parts = model.decompose(views)
    for view in ("rna", "clinic"):
        own = [name.startswith(view) for name in model.kernel_names_]
        lacking = ~views.present[view].to_numpy()
        assert parts[own][:, ~lacking].any()
        assert not parts[own][:, lacking].any()
    assert model.score(views, y) > 0.8


def test_new_samples_may_lack_whole_views_and_files_keep_the_model(views, y, tables, tmp_path):
    model = MKLClassifier(alpha=0.01).fit(views, y)
    only = Views({"rna": tables["rna"].iloc[:5]})
    both = Views(
        {"rna": tables["rna"].iloc[:5], "clinic": tables["clinic"].loc[["p60"]], "lungs": tables["rna"].iloc[:6]}
    )
    scores = model.decision_function(only)
    np.testing.assert_allclose(model.decision_function(both)[:5], scores)
    np.testing.assert_allclose(scores, model.decision_function(views)[:5])
    save_model(model, tmp_path / "model.mkl")
    np.testing.assert_array_equal(load_model(tmp_path / "model.mkl").decision_function(only), scores)
    with pytest.raises(InvalidInputError, match="The model was fitted on the views"):
        model.predict(Views({"lungs": tables["rna"]}))


def test_gaps_in_a_view_that_a_sample_has_are_still_asked_about(views, y, tables):
    tables["rna"].iloc[3, 1] = np.nan
    with pytest.raises(InvalidInputError, match=r"'rna/g1' \(1 of 80\)"):
        MKLClassifier().fit(Views(tables), y)
    assert KernelBank.from_views(missing="mask").fit(Views(tables)).n_kernels == 9


def test_cross_validation_and_grids_take_views(views, y):
    bank = KernelBank.from_views(
        specs=[Linear()], views={"rna": slice(0, 4)}, missing="mask", normalize="mean_diagonal"
    )
    assert cross_val_score(MKLClassifier(bank), views, y, cv=3).shape == (3,)
    search = GridSearchCV(MKLClassifier(), {"alpha": [0.1, 0.01]}, cv=2).fit(views, y)
    assert search.best_estimator_.score(views, y) > 0.7
    seen = set()

    def scorer(model, rows, target):
        seen.add(type(rows))
        return model.score(rows, target)

    MKLClassifierCV(cv=2, alphas=[0.5, 0.02, 1e-4], scoring=scorer).fit(views, y)
    assert seen == {Views}


def test_other_holders_of_views_become_the_same(tables, views):
    rna = tables["rna"]
    for X in (rna.to_numpy(), sparse.csr_matrix(rna.to_numpy())):
        block = SimpleNamespace(X=X, obs_names=rna.index, var_names=rna.columns)
        held = Views(SimpleNamespace(mod={"rna": block, "clinic": tables["clinic"]}))
        pd.testing.assert_frame_equal(held.frame, views.frame)
    wide = views.frame.set_axis(pd.MultiIndex.from_tuples([c.split("/") for c in views.frame]), axis=1)
    pd.testing.assert_frame_equal(Views(wide).frame, views.frame)
    plain = views.frame.rename(columns=lambda column: column.split("/")[1])
    chosen = Views.from_columns(plain, {"rna": slice("g0", "g3"), "clinic": ["age", "site"]})
    pd.testing.assert_frame_equal(chosen.frame, views.frame)
    pd.testing.assert_frame_equal(Views(views).frame, views.frame)
    assert len(Views({"a": np.ones((3, 2)), "b": np.ones((3, 1))})) == 3


def test_a_frame_with_two_levels_of_columns_is_views(views, y):
    wide = views.frame.set_axis(pd.MultiIndex.from_tuples([c.split("/") for c in views.frame]), axis=1)
    expected = MKLClassifier(alpha=0.01).fit(views, y).decision_function(views)
    model = clone(MKLClassifier(alpha=0.01)).fit(wide, y)
    np.testing.assert_allclose(model.decision_function(wide), expected)


@pytest.mark.usefixtures("without_pictures")
def test_reports_and_displays_name_the_views(views, y, tmp_path):
    model = MKLClassifier(alpha=0.05).fit(views, y)
    page = tmp_path / "report.html"
    report(model, views, y, page, cv=None)
    assert "rna: " in page.read_text(encoding="utf-8")
    shown = KernelWeightsDisplay.from_estimator(model, by="view", value="norm_share").frame()
    assert set(shown["name"]) <= {"rna", "clinic", "clinic/site"}


def test_targets_are_aligned_by_label(views, y, rng):
    shuffled = y.sample(frac=1, random_state=0)
    pd.testing.assert_series_equal(views.align(shuffled), y)
    with pytest.raises(InvalidInputError, match=r"views.align\(y\)"):
        MKLClassifier().fit(views, shuffled)
    with pytest.raises(InvalidInputError, match="3 of 80 samples have no target"):
        views.align(y.iloc[3:])


def test_thousands_of_groups(rng):
    X = pd.DataFrame(rng.normal(size=(40, 500)), columns=[f"g{j}" for j in range(500)])
    groups = {f"set {k}": [f"g{j}" for j in rng.choice(520, 12, replace=False)] for k in range(1500)}
    y = X[[c for c in groups["set 7"] if c in X]].sum(axis=1)
    with pytest.raises(InvalidInputError, match="column\\(s\\) of the groups, such as 'g5"):
        KernelBank.from_groups(groups).fit(X)
    bank = KernelBank.from_groups(groups, unknown="drop", least=8, normalize="mean_diagonal")
    model = MKLRegressor(bank, alpha=0.02).fit(X, y)
    assert len(model.kernel_names_) > 1400
    assert model.weights_frame()["name"][0] == "set 7: linear()"
    with pytest.raises(InvalidInputError, match="No group has 13 or more"):
        KernelBank.from_groups(groups, Gaussian("median"), unknown="drop", least=13).fit(X)
