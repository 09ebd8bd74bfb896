"""What searches say before they begin that they will hold."""

import numpy as np
import pytest
from tests.support.memory import peak_of

from manykernels import KernelBank, MKLRegressorCV
from manykernels.estimators.selection.memory import _n_triangles
from manykernels.grams import build_stack
from manykernels.kernels.bank.columns import Table


@pytest.mark.parametrize("n_repeating", [0, 9, 12])
def test_triangles_among_distinct_points_count_as_the_parts_that_they_are(n_repeating: int) -> None:
    rng = np.random.default_rng(0)
    columns = [rng.integers(0, 4, (500, n_repeating)), rng.normal(size=(500, 12 - n_repeating))]
    table = Table.of(np.hstack(columns))
    bank = KernelBank.auto().resolve(table)
    stack = build_stack(*bank.fit_prepare(table), dtype=np.float32, memory_budget=None, n_jobs=None)
    counted = 2 * 500 * 501 * _n_triangles(bank, bank.expand(table), table)
    np.testing.assert_allclose(counted, stack.nbytes, rtol=0.01)


def test_searches_on_few_values_hold_what_their_plans_say() -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (300, 8)) * 1.0
    y, model = X[:, 0] * X[:, 1] + rng.normal(size=300), MKLRegressorCV(cv=3)
    model.fit(X[:100], y[:100])  # what is compiled and imported is in no plan
    plan = model.plan(X, y)
    assert 0.7 * plan.least_nbytes < peak_of(lambda: model.fit(X, y)) < 1.3 * plan.most_nbytes
