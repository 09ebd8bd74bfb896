"""Gaps inside views: filled view by view, from training rows only; and a warning where masks cost most samples."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from manykernels import (
    KernelBank,
    Linear,
    MKLRegressor,
    ViewImputer,
    Views,
    leave_one_out_importance,
    predictive_importance,
)
from manykernels.exceptions import InvalidInputError

RNG = np.random.default_rng(0)
LABELS = [f"p{i}" for i in range(60)]
WHOLE = pd.DataFrame(RNG.normal(size=(60, 30)), LABELS, [f"g{j}" for j in range(30)])
GAPS = WHOLE.mask(RNG.random(WHOLE.shape) < 0.05)
SIDE = pd.DataFrame({"dose": RNG.normal(size=40), "site": RNG.choice(["x", "y"], 40)}, LABELS[20:])
VIEWS = Views({"genes": GAPS, "side": SIDE})
Y = WHOLE.iloc[:, :3].sum(axis=1)


def test_only_gaps_of_numbers_change_and_means_are_those_of_training() -> None:
    train, test = VIEWS[np.arange(40)], VIEWS[np.arange(40, 60)]
    filled = ViewImputer().fit(train).transform(test)
    expected = GAPS.iloc[40:].fillna(GAPS.iloc[:40].mean())
    pd.testing.assert_frame_equal(filled["genes"], expected)
    pd.testing.assert_frame_equal(filled["side"], test["side"])
    everything = ViewImputer().fit_transform(VIEWS)
    assert everything.present.equals(VIEWS.present)
    assert everything.frame.loc["p0", ["side/dose", "side/site"]].isna().all()
    assert VIEWS["genes"].equals(GAPS)  # the views that were given stay as they are


def test_any_imputer_that_keeps_the_columns_serves() -> None:
    filled = ViewImputer(KNNImputer(n_neighbors=2)).fit_transform(VIEWS)["genes"]
    np.testing.assert_allclose(filled, KNNImputer(n_neighbors=2).fit_transform(GAPS))
    with pytest.raises(InvalidInputError, match="must keep the columns"):
        ViewImputer(SimpleImputer(add_indicator=True)).fit(VIEWS)
    with pytest.raises(InvalidInputError, match="for one table"):
        ViewImputer().fit(GAPS)
    with pytest.raises(InvalidInputError, match="'genes' lacks 1"):
        ViewImputer().fit(VIEWS).transform(Views({"genes": GAPS.drop(columns="g3")}))


@pytest.mark.nightly
def test_masks_that_cost_most_samples_are_said_and_filling_pays() -> None:
    specs = [Linear()]
    numbers = Views({"genes": GAPS, "side": SIDE[["dose"]]})
    masked = MKLRegressor(KernelBank.from_views(numbers, specs, missing="mask"))
    with pytest.warns(UserWarning, match="'genes: linear\\(\\)', leave out more than half"):
        bad = cross_val_score(masked, numbers, Y, cv=3).mean()
    model = make_pipeline(ViewImputer(), MKLRegressor(KernelBank.from_views(numbers, specs)))
    assert cross_val_score(model, numbers, Y, cv=3).mean() > bad + 0.2
    assert leave_one_out_importance(model, numbers, Y, cv=3)["name"].iloc[0] == "genes"
    assert predictive_importance(clone(model).fit(numbers, Y), numbers, Y, n_repeats=20)["name"].iloc[0] == "genes"


@pytest.mark.parametrize("gaps", [{"g1": [3]}, {f"g{j}": list(range(45)) for j in range(30)}])
def test_few_masked_samples_or_many_gaps_are_no_surprise(gaps: dict[str, list[int]]) -> None:
    table = WHOLE.copy()
    for column, rows in gaps.items():
        table.loc[[LABELS[i] for i in rows], column] = np.nan
    KernelBank([("all", Linear())], missing="mask").fit(table)  # warnings are errors here


def test_names_of_columns_are_those_of_the_views() -> None:
    imputer = ViewImputer().fit(VIEWS)
    assert imputer.get_feature_names_out().tolist() == list(imputer.transform(VIEWS).frame.columns)
    with config_context(transform_output="pandas"):
        assert isinstance(imputer.transform(VIEWS), Views)
