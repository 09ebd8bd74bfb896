"""Views that samples lack: the library's problem is that of masked matrices, and its answer that of a conic solver."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.conic import cvxpy_optimum
from tests.support.masked import LOSSES, masked_cases

from manykernels.testing.problems import REGULARIZERS
from manykernels.testing.solver import check_certificate

QUICK = len(LOSSES) * len(REGULARIZERS)  # every loss with every penalty; `benchmarks/oracle.py` solves all hundred


@pytest.mark.sampled(3)
@pytest.mark.parametrize("index", range(QUICK))
def test_objective_and_certificate(index: int) -> None:
    case = masked_cases()[index]
    np.testing.assert_allclose(case.stack(), case.small.kernels, atol=1e-10 * np.abs(case.small.kernels).max())
    solution = case.solution()
    assert solution.certificate.relative_gap <= 1e-8
    assert solution.certificate.primal == pytest.approx(cvxpy_optimum(case.small), rel=1e-6)
    check_certificate(case.small, solution)


def test_the_problems_are_masked() -> None:
    lacking = [case.small.kernels.diagonal(axis1=1, axis2=2)[1::2] == 0 for case in masked_cases()]
    assert all(mask.any() and not mask.all(axis=0).any() for mask in lacking)
    assert 0.15 < np.mean([mask.mean() for mask in lacking]) < 0.3
    assert {(case.small.loss_name, case.small.regularizer_name) for case in masked_cases()[:QUICK]} == {
        (loss, penalty) for loss in LOSSES for penalty in REGULARIZERS
    }
