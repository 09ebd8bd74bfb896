"""scikit-learn's own checks of estimators; ``benchmarks/estimator_checks.py`` asks every estimator."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.support.estimator_checks import EVERY, QUICK, SEARCHES, expected_failures

from manykernels import estimators


# One check gives a class 1e7 times the weight of another: then the best model at this alpha is indeed a constant.
@pytest.mark.sampled(3)
@pytest.mark.filterwarnings("ignore:No kernel was selected:UserWarning")
@parametrize_with_checks(QUICK, expected_failed_checks=expected_failures)
def test_scikit_learn_accepts_the_estimator(estimator: Any, check: Any) -> None:
    check(estimator)


# Small data of the checks: few columns, few rows of each class; some targets are constant within tol.
@pytest.mark.sampled(6)
@pytest.mark.filterwarnings("ignore:No kernel was selected:UserWarning", "ignore:The best strength:UserWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore:The least populated class")
@pytest.mark.filterwarnings("ignore::manykernels.ConvergenceWarning")
@parametrize_with_checks(SEARCHES, expected_failed_checks=expected_failures)
def test_scikit_learn_accepts_the_search(estimator: Any, check: Any) -> None:
    check(estimator)


def test_no_public_estimator_is_left_out() -> None:
    named = [getattr(estimators, name) for name in estimators.__all__]
    public = {cls for cls in named if isinstance(cls, type) and hasattr(cls, "fit")}
    assert public == {cls for cls in public if any(isinstance(one, cls) for one in EVERY)}
