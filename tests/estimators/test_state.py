"""A fitted estimator survives as JSON-able values and arrays."""

from __future__ import annotations

import copy
import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris, make_regression
from sklearn.exceptions import NotFittedError

from manykernels import InvalidInputError, KernelBank, MKLClassifier, MKLRegressor, PrecomputedBank
from manykernels.estimators import model_from_state, model_state

IRIS, SPECIES = load_iris(return_X_y=True, as_frame=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])[SPECIES]
GRAMS = np.stack([IRIS.iloc[:, [j]].to_numpy() @ IRIS.iloc[:, [j]].to_numpy().T for j in range(4)])


def through_json(value: Any) -> Any:
    """Return the state as it would come back from a file: JSON, with arrays beside it."""
    if isinstance(value, dict):
        return {json.loads(json.dumps(key)): through_json(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [through_json(part) for part in value]
    return value.copy() if isinstance(value, np.ndarray) else json.loads(json.dumps(value))


def fitted_models() -> list[tuple[str, Any, Any]]:
    X, y = make_regression(30, 4, n_targets=2, noise=1.0, random_state=0)
    two = NAMES[:100]
    centered = KernelBank.per_feature(widths=[1.0], normalize="unit_diagonal", center=True)
    return [
        ("binary", MKLClassifier().fit(IRIS[:100], two), IRIS[:100]),
        ("multiclass", MKLClassifier(centered, loss="hinge").fit(IRIS, NAMES), IRIS),
        ("integers", MKLClassifier().fit(IRIS.to_numpy(), SPECIES.to_numpy()), IRIS.to_numpy()),
        ("outputs", MKLRegressor(alpha=1.0).fit(X, y), X),
        ("precomputed", MKLClassifier(PrecomputedBank(), alpha=0.003).fit(GRAMS, NAMES), GRAMS[:, ::7]),
    ]


@pytest.mark.parametrize(
    ("name", "model", "X"), fitted_models(), ids=lambda part: part if isinstance(part, str) else ""
)
def test_a_model_rebuilt_from_its_state_is_the_same(name: str, model: Any, X: Any) -> None:
    state = through_json(model_state(model))
    rebuilt = model_from_state(state)
    np.testing.assert_array_equal(rebuilt.predict(X), model.predict(X))
    np.testing.assert_array_equal(rebuilt.decompose(X), model.decompose(X))
    pd.testing.assert_frame_equal(rebuilt.weights_frame(active_only=False), model.weights_frame(active_only=False))
    assert rebuilt.loss == model.loss
    pairs = (rebuilt.solution_, model.solution_)
    for mine, original in [pairs] if model._single else zip(*pairs, strict=True):
        assert (mine.status, mine.certificate) == (original.status, original.certificate)
        pd.testing.assert_frame_equal(mine.frame(), original.frame())


def test_an_unfitted_estimator_has_no_state() -> None:
    with pytest.raises(NotFittedError, match="not fitted"):
        model_state(MKLClassifier())


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda s: s.update(estimator="os.system"), "Unknown estimator"),
        (lambda s: s.pop("bank"), "damaged: KeyError"),
        (lambda s: s["expansion"].update(weights=s["expansion"]["weights"][:, :-1]), "inconsistent"),
        (lambda s: s["expansion"].update(coefficients=s["expansion"]["coefficients"] * np.nan), "NaN"),
        (lambda s: s["support"].update(data=s["support"]["data"][:-1]), "support samples do not fit"),
        (lambda s: s["support"].update(row_means=np.ones((1, 1))), "row_means of the support"),
        (lambda s: s["parameters"].update(surprise=1), "damaged: TypeError"),
    ],
)
def test_damage_is_noticed(damage: Any, message: str) -> None:
    state = copy.deepcopy(model_state(MKLClassifier().fit(IRIS[:100], NAMES[:100])))
    damage(state)
    with pytest.raises(InvalidInputError, match=message):
        model_from_state(state)
