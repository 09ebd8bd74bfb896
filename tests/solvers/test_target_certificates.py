"""Certificates of many targets at once are those of each problem."""

import numpy as np
import pytest
from tests.support.targets import GAUSSIAN, N, T, posed

from manykernels.objective import proved_inactive
from manykernels.solvers.gram.many_targets import strengths_of
from manykernels.solvers.gram.target_certificates import certify


@pytest.mark.parametrize(("penalty", "parameters"), [("l1", {}), ("elasticnet", {"l1_ratio": 0.6}), ("ridge", {})])
@pytest.mark.parametrize("intercept", [True, False])
def test_values_bounds_and_residuals_are_those_of_single_problems(penalty, parameters, intercept):
    problems = posed(GAUSSIAN, penalty, intercept=intercept, **parameters)
    rng = np.random.default_rng(0)
    rho = 0.1 * rng.normal(size=(T, N))
    rho -= rho.mean(axis=1, keepdims=True) * intercept
    weights = rng.uniform(0.0, 0.02, size=(T, 3)) * (rng.random((T, 3)) < 0.7)
    intercepts, certificates = certify(problems, rho, weights, *strengths_of(problems))
    for problem, own, d, b, found in zip(problems, rho, weights, intercepts, certificates, strict=True):
        exact = problem.certificate(own, d, b)
        assert (found.primal, found.dual) == pytest.approx((exact.primal, exact.dual), rel=1e-10)
        assert (found.gap, found.relative_gap) == pytest.approx((exact.gap, exact.relative_gap), rel=1e-8)
        assert found.rounding == pytest.approx(exact.rounding, rel=0.05)
        np.testing.assert_allclose(found.dual_norms, exact.dual_norms, rtol=1e-9)
        np.testing.assert_allclose(found.block_norms, exact.block_norms, rtol=1e-9)
        assert found.kkt.to_dict() == pytest.approx(exact.kkt.to_dict(), abs=1e-10)
        np.testing.assert_array_equal(proved_inactive(problem, found), proved_inactive(problem, exact))
