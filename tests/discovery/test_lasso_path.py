"""The lasso on a few features: exact where the support is regular, by sweeps alone where it is not."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Lasso

from manykernels.discovery.polynomial.lasso_path import restricted_lasso


def _problem(n: int, m: int, seed: int) -> tuple[np.ndarray, np.ndarray, float]:
    rng = np.random.default_rng(seed)
    design = rng.normal(size=(n, m)) + rng.normal(size=(n, 1))  # features that are alike
    target = design[:, :5] @ rng.normal(size=5) + 0.3 * rng.normal(size=n)
    return design, target, float(np.abs(design.T @ target).max())


def _objective(design: np.ndarray, target: np.ndarray, mu: float, c: np.ndarray) -> float:
    return float(0.5 * np.sum((target - design @ c) ** 2) + mu * np.abs(c).sum())


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("n", "m"), [(40, 12), (30, 60), (25, 25)])
def test_every_solution_of_a_path_is_the_lasso_of_scikit_learn(n: int, m: int) -> None:
    for seed in range(2):
        design, target, largest = _problem(n, m, seed)
        found, model = np.zeros(m), Lasso(fit_intercept=False, max_iter=10**6, tol=1e-10, warm_start=True)
        for mu in largest * np.geomspace(0.5, 1e-4, 12):
            found = restricted_lasso(design, target, mu, found)
            listed = model.set_params(alpha=mu / n).fit(design, target).coef_
            values = [_objective(design, target, mu, c) for c in (found, listed)]
            assert values[0] <= values[1] * (1 + 1e-4)
            assert np.abs(design.T @ (target - design @ found)).max() <= 1.011 * mu


def test_features_that_are_the_same_and_a_start_of_wrong_signs_are_no_trouble() -> None:
    design, target, largest = _problem(40, 6, 0)
    twice = np.hstack([design, design])
    single = restricted_lasso(design, target, 0.01 * largest, np.zeros(6))
    for start in (np.zeros(12), np.ones(12), -10.0 * np.ones(12)):
        double = restricted_lasso(twice, target, 0.01 * largest, start)
        merged = _objective(design, target, 0.01 * largest, double[:6] + double[6:])
        assert merged == pytest.approx(_objective(design, target, 0.01 * largest, single), rel=1e-4)


def test_nothing_is_selected_above_the_largest_strength() -> None:
    design, target, largest = _problem(40, 12, 1)
    assert not restricted_lasso(design, target, 1.01 * largest, np.zeros(12)).any()
