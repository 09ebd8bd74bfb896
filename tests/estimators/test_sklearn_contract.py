"""scikit-learn's own checks of estimators."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from manykernels import MKLClassifier, MKLRegressor

# Repeating a row changes what the bank learns from the rows (means, deviations, median distances, mean diagonals) and
# the default strength, a weight does not; and two fits within tol = 1e-4 of one optimum differ by more than the
# check's 1e-7.
# test_weights.py shows the equivalence where the kernels are fixed.
EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": "kernel normalization counts training rows, not their weights"
}


# One check gives a class 1e7 times the weight of another: then the best model at this alpha is indeed a constant.
@pytest.mark.filterwarnings("ignore:No kernel was selected:UserWarning")
@parametrize_with_checks([MKLClassifier(), MKLRegressor()], expected_failed_checks=lambda estimator: EXPECTED_FAILURES)
def test_scikit_learn_accepts_the_estimator(estimator: Any, check: Any) -> None:
    check(estimator)
