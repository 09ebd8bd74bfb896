"""scikit-learn's checks of estimators: which estimators they are asked of, and which failures are expected and why."""

from __future__ import annotations

from typing import Any

import numpy as np

from manykernels import (
    Gaussian,
    GaussianMKL,
    HierarchicalMKL,
    KernelAligner,
    KernelBank,
    MKLClassifier,
    MKLClassifierCV,
    MKLRegressor,
    MKLRegressorCV,
    MKLSurvival,
    MKLSurvivalCV,
    NonlinearMKL,
    PolynomialMKL,
    survival_array,
)

ONE = KernelBank([("near", Gaussian("median"), None)], standardize=True, normalize="mean_diagonal")
FEW: dict[str, Any] = {"penalty": "l1", "alphas": [0.1, 0.01], "cv": 2}


def times(y: Any) -> Any:
    """Return numbers as times of events, all of them seen; anything else as it is."""
    values = np.asarray(y)
    if values.dtype.kind not in "fiu" or values.ndim != 1:
        return y
    return survival_array(np.ones(len(values), dtype=bool), values - values.min())


class OfNumbers:
    """Gives a survival model the numbers that the checks know as times: they have no events."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        return super().fit(X, None if y is None else times(y), sample_weight)  # type: ignore[misc]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        return super().score(X, times(y), sample_weight)  # type: ignore[misc]


class Survival(OfNumbers, MKLSurvival):
    """A survival model of numbers."""


class SurvivalCV(OfNumbers, MKLSurvivalCV):
    """A survival model of numbers, its strength chosen in folds."""


# Repeating a row changes what the bank learns from the rows (means, deviations, median distances, mean diagonals) and
# the default strength, a weight does not; and two fits within tol = 1e-4 of one optimum differ by more than the
# check's 1e-7.
# test_weights.py shows the equivalence where the kernels are fixed.
WEIGHTS = {
    f"check_sample_weight_equivalence_on_{kind}_data": "kernel normalization counts training rows, not their weights"
    for kind in ("dense", "sparse")
}
OBJECTS = {"check_dtype_object": "a survival target of dicts is refused in words about events and times, not labels"}
FOLDS = {"check_estimators_nan_inf": "a fold of its data has one time only, so that no two samples can be compared"}


def expected_failures(estimator: Any) -> dict[str, str]:
    """Return the checks that an estimator does not pass, with the reason."""
    found = dict(WEIGHTS)
    if isinstance(estimator, MKLSurvival):
        found |= OBJECTS
    if isinstance(estimator, MKLSurvivalCV):
        found |= FOLDS
    return found


EVERY: list[Any] = [
    MKLClassifier(),
    MKLRegressor(),
    MKLClassifier(ONE, outputs="shared"),
    MKLRegressor(ONE, outputs="shared"),
    MKLClassifierCV(ONE, **FEW),
    MKLRegressorCV(ONE, **FEW),
    MKLRegressorCV(ONE, cv=2),
    Survival(ONE),
    SurvivalCV(ONE, **FEW),
    KernelAligner(ONE),
    GaussianMKL(),
    HierarchicalMKL(degree=1),
    PolynomialMKL(1),
    NonlinearMKL(),
]
QUICK = [EVERY[0], EVERY[1], EVERY[7]]
# Each check is asked of some of them: what they do with data is the same code, and small searches are enough.
SEARCHES: list[Any] = [
    MKLRegressorCV(ONE, penalty="l1", n_alphas=2, search={"alpha_min_ratio": 0.1}, cv=2, tol=1e-2),
    MKLClassifierCV(ONE, penalty="ridge", cv=2, tol=1e-2),
    GaussianMKL(resources={"max_iter": 2}),
    PolynomialMKL(2, p=1.0, n_steps=3, tol=1e-2, random_state=0),
    HierarchicalMKL(degree=2, tol=1e-2),
    NonlinearMKL(),
]
