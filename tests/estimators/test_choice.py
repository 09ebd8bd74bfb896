"""Choices on record: a search that is built anew chooses what it chose before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from manykernels import MKLClassifierCV, MKLRegressorCV
from manykernels.exceptions import InvalidInputError

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
