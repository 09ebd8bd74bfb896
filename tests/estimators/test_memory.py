"""What searches say before they begin that they will hold."""

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from tests.support.memory import peak_of

from manykernels import KernelBank, MKLClassifierCV, MKLRegressorCV
from manykernels.estimators.selection.memory import SearchSizes, _n_triangles, plan_given, plan_search
from manykernels.exceptions import MemoryBudgetError
from manykernels.grams import build_stack
from manykernels.grams.plan import plan_stack
from manykernels.kernels.bank.columns import Table


@pytest.mark.parametrize("n_repeating", [0, 9, 12])
def test_triangles_among_distinct_points_count_as_the_parts_that_they_are(n_repeating: int) -> None:
    rng = np.random.default_rng(0)
    columns = [rng.integers(0, 4, (500, n_repeating)), rng.normal(size=(500, 12 - n_repeating))]
    table = Table.wrap(np.hstack(columns))
    bank = KernelBank.auto().resolve(table)
    stack = build_stack(*bank.fit_prepare(table), dtype=np.float32, memory_budget=None, n_jobs=None)
    counted = 2 * 500 * 501 * _n_triangles(bank, bank.expand(table), table, 500)
    np.testing.assert_allclose(counted, stack.nbytes, rtol=0.01)


def test_searches_on_few_values_hold_what_their_plans_say() -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (300, 8)) * 1.0
    y, model = X[:, 0] * X[:, 1] + rng.normal(size=300), MKLRegressorCV(cv=3)
    model.fit(X[:100], y[:100])  # what is compiled and imported is in no plan
    plan = model.plan(X, y)
    assert 0.7 * plan.least_nbytes < peak_of(lambda: model.fit(X, y)) < 1.3 * plan.most_nbytes


@pytest.mark.parametrize("outputs", [1, pytest.param(3, marks=pytest.mark.nightly)])
def test_searches_on_matrices_of_a_bank_hold_what_their_plans_say(outputs: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    y = np.column_stack([np.sin(2 * X[:, k]) + rng.normal(size=200) for k in range(outputs)])
    target, model = y[:, 0] if outputs == 1 else y, MKLRegressorCV(resources={"representation": "gram"})
    clone(model).set_params(cv=2).fit(X[:60], target[:60])  # what is compiled and imported is in no plan
    plan = model.plan(X, target)
    assert 0.7 * plan.least_nbytes < peak_of(lambda: model.fit(X, target)) < 1.3 * plan.most_nbytes


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("kind", "outputs", "settings"),
    [
        (MKLRegressorCV, 1, {}),
        (MKLRegressorCV, 1, {"l1_ratios": (1.0,)}),
        (MKLRegressorCV, 1, {"penalty": "l1", "n_alphas": 5}),
        (MKLRegressorCV, 3, {}),
        (MKLClassifierCV, 4, {}),
    ],
)
@pytest.mark.filterwarnings("ignore:The best strength", "ignore:The score was still rising")
def test_searches_on_matrices_as_given_hold_what_their_plans_say(kind: Any, outputs: int, settings: Any) -> None:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(10, 240, 2))
    grams = np.exp(-((points[:, :, None] - points[:, None]) ** 2).sum(axis=3))
    y = np.column_stack([points[k, :, 0] ** 2 + points[k, :, 1] for k in range(outputs)]) + rng.normal(size=(240, 1))
    y = y.argmax(axis=1) if kind is MKLClassifierCV else y[:, 0] if outputs == 1 else y
    model = kind("precomputed", **settings)
    clone(model).set_params(cv=2).fit(grams[:, :60, :60], y[:60])  # what is compiled and imported is in no plan
    plan = model.plan(grams, y)
    assert (plan.n_kernels, plan.n_samples, plan.n_targets, plan.n_folds) == (10, 240, outputs, 5)
    assert 0.7 * plan.least_nbytes < peak_of(lambda: model.fit(grams, y)) < 1.3 * plan.most_nbytes


def test_a_fold_of_most_rows_reads_matrices_as_they_are() -> None:
    plans = [plan_given(20, 500, SearchSizes(n_folds), "1 GB") for n_folds in (5, 500)]
    assert 2 * 2 * 20 * 400**2 > plans[0].least_nbytes > 2 * 20 * 400**2, "folds beside one another are copied in turn"
    assert "copies 0 B" in plans[1].reason
    few = plan_given(20, 500, SearchSizes(5, rounded=False), "1 GB")
    assert few.least_nbytes > 8 * 20 * 400**2, "a scorer is given double precision"
    with pytest.raises(MemoryBudgetError, match=r"A search over 5 folds of 20 kernels .* Use fewer folds or samples"):
        plan_given(20, 500, SearchSizes(5), "5 MB")


def test_folds_of_single_rows_are_counted_by_what_each_knows_of_its_kernels() -> None:
    """The default bank, 27 kernels on six columns, held 19.0 MB in 80 folds of 80 rows, of which 3.6 were planned."""
    fit = plan_stack(27, 80, memory_budget="1 GB")
    few, many = (plan_search(fit, fit, SearchSizes(n_folds)) for n_folds in (5, 80))
    assert few.most_nbytes < 5e6
    assert 0.7 < 19.0e6 / many.expected_nbytes < 1.3
