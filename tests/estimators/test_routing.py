"""Metadata of searches reach the splitter and the scorer as in the searches of scikit-learn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import sklearn
from sklearn.linear_model import LassoCV
from sklearn.metrics import make_scorer, mean_absolute_error, mean_squared_error
from sklearn.model_selection import BaseCrossValidator, GroupKFold, KFold, LeaveOneGroupOut, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from manykernels import (
    KernelBank,
    MKLClassifierCV,
    MKLRegressor,
    MKLRegressorCV,
    MKLSurvivalCV,
    compare,
    nested_cross_validation,
)
from manykernels.estimators import ColdStartKFold
from manykernels.estimators.selection.routing import fit_groups, weighs_scores
from manykernels.objective.losses.survival import survival_array

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, size=(48, 2))
Y = np.sin(2 * X[:, 1]) + 0.3 * RNG.normal(size=48)
GROUPS = np.arange(48) % 4
WEIGHT = 1.0 + np.arange(48) % 3
pytestmark = pytest.mark.filterwarnings(
    "ignore:The best strength", "ignore:No kernel was selected", "ignore:The kernels are"
)
SETTINGS: dict[str, Any] = {"kernels": KernelBank.per_feature(widths=[1.0]), "penalty": "l1", "n_alphas": 4}


@pytest.fixture
def _routing() -> Iterator[None]:
    with sklearn.config_context(enable_metadata_routing=True):
        yield


class Folds(BaseCrossValidator):
    """Leaves out one value of ``site``, metadata of a user's own."""

    def get_n_splits(self, X: object = None, y: object = None, groups: object = None) -> int:
        return 4

    def split(self, X: Any, y: Any = None, groups: object = None, site: Any = None) -> Iterator[Any]:
        for own in np.unique(site):
            yield np.flatnonzero(site != own), np.flatnonzero(site == own)


def weighted_cost(y: Any, predicted: Any, *, cost: Any, sample_weight: Any = None) -> float:
    assert len(cost) == len(y)
    return float(np.average(np.abs(y - predicted), weights=cost))


@pytest.mark.usefixtures("_routing")
@pytest.mark.parametrize("cv", [GroupKFold(4), LeaveOneGroupOut(), 4])
def test_groups_reach_the_splitter_through_a_pipeline(cv: Any) -> None:
    pipeline = make_pipeline(StandardScaler(), MKLRegressorCV(cv=cv, **SETTINGS)).fit(X, Y, groups=GROUPS)
    splits = [(np.flatnonzero(g != GROUPS), np.flatnonzero(g == GROUPS)) for g in range(4)]
    plain = make_pipeline(StandardScaler(), MKLRegressorCV(cv=splits, **SETTINGS)).fit(X, Y)
    assert pipeline[-1].best_score_ == pytest.approx(plain[-1].best_score_, rel=1e-10)


@pytest.mark.usefixtures("_routing")
@pytest.mark.parametrize("kind", [MKLRegressorCV, MKLClassifierCV, MKLSurvivalCV])
def test_cross_validate_routes_groups_to_searches(kind: Any) -> None:
    targets = {MKLClassifierCV: Y > 0, MKLSurvivalCV: survival_array(Y > -0.5, np.exp(Y))}
    model = kind(cv=GroupKFold(3), **SETTINGS)
    found = cross_validate(
        model, X, targets.get(kind, Y), cv=GroupKFold(4), params={"groups": GROUPS}, error_score="raise"
    )
    assert np.isfinite(found["test_score"]).all()


@pytest.mark.usefixtures("_routing")
def test_scorer_receives_the_weights_that_it_requests() -> None:
    def score(*, request: bool | None, weight: Any) -> float:
        scorer = make_scorer(mean_squared_error, greater_is_better=False).set_score_request(sample_weight=request)
        model = MKLRegressorCV(cv=KFold(4), scoring=scorer, **SETTINGS, tol=1e-8)
        return float(model.fit(X, Y, sample_weight=weight).best_score_)

    assert score(request=False, weight=np.full(48, 2.0)) == pytest.approx(score(request=True, weight=None), rel=1e-6)
    assert score(request=True, weight=WEIGHT) != pytest.approx(score(request=False, weight=WEIGHT), rel=1e-6)


@pytest.mark.usefixtures("_routing")
def test_scorer_receives_other_metadata_row_by_row() -> None:
    cost = np.where(np.arange(48) % 2, 1.0, 3.0)
    scorer = make_scorer(weighted_cost, greater_is_better=False).set_score_request(cost=True)
    model = MKLRegressorCV(cv=KFold(4), scoring=scorer, **SETTINGS).fit(X, Y, cost=cost)
    weighed = make_scorer(mean_absolute_error, greater_is_better=False).set_score_request(sample_weight="cost")
    alias = MKLRegressorCV(cv=KFold(4), scoring=weighed, **SETTINGS).fit(X, Y, cost=cost)
    assert model.best_score_ == pytest.approx(alias.best_score_, rel=1e-12)


@pytest.mark.usefixtures("_routing")
def test_splitter_receives_metadata_of_its_own() -> None:
    model = MKLRegressorCV(cv=Folds().set_split_request(site=True), **SETTINGS).fit(X, Y, site=GROUPS)
    assert model.best_score_ == pytest.approx(
        MKLRegressorCV(cv=LeaveOneGroupOut(), **SETTINGS).fit(X, Y, groups=GROUPS).best_score_, rel=1e-12
    )


@pytest.mark.usefixtures("_routing")
@pytest.mark.parametrize(
    ("settings", "metadata", "message"),
    [
        ({"cv": KFold(3)}, {"groups": GROUPS}, r"unexpected argument\(s\) \{'groups'\}"),
        ({"cv": 3, "scoring": "r2"}, {"sample_weight": WEIGHT}, "not explicitly set as requested or not requested"),
        ({"cv": 3}, {"cost": WEIGHT}, r"unexpected argument\(s\) \{'cost'\}"),
    ],
)
def test_metadata_that_nobody_requests_are_rejected_as_in_scikit_learn(
    settings: dict[str, Any], metadata: dict[str, Any], message: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        MKLRegressorCV(**settings, **SETTINGS).fit(X, Y, **metadata)
    if "scoring" not in settings:
        with pytest.raises((TypeError, ValueError), match=message):
            LassoCV(cv=settings["cv"]).fit(X, Y, **metadata)


@pytest.mark.usefixtures("_routing")
def test_class_weights_reach_scorers_that_request_weights() -> None:
    scorer = make_scorer(mean_squared_error, greater_is_better=False).set_score_request(sample_weight=True)
    settings: dict[str, Any] = {"cv": KFold(4), "class_weight": {False: 1.0, True: 3.0}, **SETTINGS}
    classes = Y > 0
    weighed = MKLClassifierCV(scoring=scorer, **settings).fit(X, classes, sample_weight=np.ones(48))
    alone = MKLClassifierCV(scoring=scorer, **settings).fit(X, classes)
    assert weighed.best_score_ == alone.best_score_
    assert weighs_scores(alone)
    assert not weighs_scores(MKLClassifierCV(scoring="accuracy", **settings))


@pytest.mark.usefixtures("_routing")
def test_evaluations_pass_groups_to_searches_that_request_them() -> None:
    groups = np.arange(48) % 6
    for cv, wanted in ((GroupKFold(2), {"groups"}), (KFold(2), set())):
        model = MKLRegressorCV(cv=cv, **SETTINGS)
        assert set(fit_groups(model, groups)) == wanted
        nested = nested_cross_validation(model, X, Y, cv=GroupKFold(2), groups=groups)
        assert np.isfinite(nested.mean)
        if wanted:
            compared = compare(model, X, Y, cv=GroupKFold(2), groups=groups)
            assert np.isfinite(compared["score"]).all()


@pytest.mark.usefixtures("_routing")
def test_splitter_of_pairs_may_request_pairs() -> None:
    assert ColdStartKFold().set_split_request(groups=True).get_metadata_routing().consumes("split", ["groups"])


def test_without_routing_other_metadata_are_rejected() -> None:
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'cost'.*enable_metadata_routing=True"):
        MKLRegressorCV(cv=3, **SETTINGS).fit(X, Y, cost=WEIGHT)


def test_without_routing_weights_reach_every_scorer() -> None:
    def score(scoring: Any, weight: Any) -> float:
        return float(MKLRegressorCV(cv=KFold(4), scoring=scoring, **SETTINGS).fit(X, Y, weight).best_score_)

    error = make_scorer(mean_squared_error, greater_is_better=False)
    assert score(error, WEIGHT) == pytest.approx(score(None, WEIGHT), rel=1e-6)
    assert fit_groups(MKLRegressor(), None) == {}
