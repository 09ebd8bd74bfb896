"""Rows on Dask workers: vectors stay beside them, the answer is that of one process, and little travels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import cloudpickle
import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from tests.support.factored import on_factors

from manykernels import KernelBank
from manykernels.exceptions import IncompatibleError, InvalidInputError
from manykernels.grams.factored import factored_stack
from manykernels.grams.rows.dask import DaskRows
from manykernels.grams.rows.vectors import RowVector, compute_vector, here, map_rows, sums
from manykernels.kernels import Gaussian, Linear
from manykernels.objective.losses.curvature import sampled_rows, sampled_weights
from manykernels.objective.problem import Problem
from manykernels.objective.regularizers import BlockL1
from manykernels.solvers.factored import newton
from manykernels.solvers.factored.solver import FactoredNewton

Array = NDArray[Any]

dask = pytest.importorskip("dask")
arrays = pytest.importorskip("dask.array")
frames = pytest.importorskip("dask.dataframe")

BANK = KernelBank.per_feature([Gaussian(0.5), Gaussian(1.5), Linear()], standardize=True)
PARTS = 3


@pytest.fixture(autouse=True)
def in_this_thread() -> Iterator[None]:
    with dask.config.set(scheduler="synchronous"):
        yield


def data(loss: str, n: int = 1100, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    f = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] ** 2
    if loss == "gamma":
        return X, np.exp(f)
    noisy = f + 0.3 * rng.logistic(size=n)
    return X, np.where(noisy > 0.6, 1.0, -1.0) if loss in ("logistic", "hinge", "squared_hinge") else noisy


def on_dask(X: Array) -> Any:
    return arrays.from_array(X, chunks=(-(-len(X) // PARTS), 2))


def assert_same(first: Any, second: Any, tol: float = 1e-10) -> None:
    assert first.status == second.status == "converged"
    assert first.functions.names == second.functions.names
    for name in ("primal", "dual"):
        assert getattr(first.certificate, name) == pytest.approx(getattr(second.certificate, name), rel=tol)
    rho = here(second.dual_coef)
    np.testing.assert_allclose(here(first.dual_coef), rho, atol=1e-6 * np.abs(rho).max())


@pytest.mark.sampled(6)
@pytest.mark.parametrize("loss", ["logistic", "squared", "hinge", "quantile", "gamma"])
def test_the_answer_is_that_of_one_process(loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Vectors on workers have kinks smoothed.
    monkeypatch.setattr("manykernels.solvers.factored.kinks.takes_interior", lambda objective: False)
    X, y = data(loss)
    options: dict[str, Any] = {"loss": loss, "alpha": "0.5*max", "tol": 1e-3 if loss == "hinge" else 1e-4}
    single = on_factors(X, y, BANK, **options)
    model = on_factors(on_dask(X), arrays.from_array(y, chunks=300), BANK, **options)
    assert_same(model, single)
    assert model.history[-1].newton_steps == single.history[-1].newton_steps


def test_weights_names_of_targets_and_no_intercept() -> None:
    X, y = data("squared")
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(y))
    options: dict[str, Any] = {"loss": "squared", "alpha": "0.2*max", "fit_intercept": False}
    single = on_factors(X, y, BANK, sample_weight=weight, **options)
    table = pd.DataFrame(X, columns=["a", "b", "c"]).assign(target=y)
    rows = frames.from_pandas(table, npartitions=PARTS)
    model = on_factors(rows, "target", BANK, sample_weight=weight, **options)
    np.testing.assert_allclose(here(model.dual_coef), single.dual_coef, atol=1e-8)
    assert model.certificate.dual == pytest.approx(single.certificate.dual, rel=1e-10)
    series = frames.from_pandas(pd.Series(weight), npartitions=3)
    other = on_factors(rows.drop(columns="target"), rows["target"], BANK, sample_weight=series, **options)
    assert other.certificate.primal == model.certificate.primal


def test_predictions_and_curves_are_computed_where_rows_are(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = data("squared")
    bank = BANK + KernelBank([("pair", Gaussian(1.0), [0, 1])], standardize=True)
    single = on_factors(X, y, bank, loss="squared", alpha="0.1*max")
    model = on_factors(on_dask(X), y, bank, loss="squared", alpha="0.1*max")
    monkeypatch.setattr(DaskRows, "read", None)  # nobody brings rows here
    new = 1.2 * X[:600]
    np.testing.assert_allclose(model.decision_function(on_dask(new)), single.decision_function(new), atol=1e-8)
    np.testing.assert_allclose(model.decompose(on_dask(new)), single.decompose(new), atol=1e-8)
    curve, other = model.functions.shape_functions(0), single.functions.shape_functions(0)
    np.testing.assert_allclose(curve, other, atol=1e-8)


def test_large_ranks_take_turns_on_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newton, "RANK_LIMIT", 3)
    monkeypatch.setattr("manykernels.grams.factored.chunked.FUSED_RANK", 3)
    X, y = data("logistic")
    options: dict[str, Any] = {"alpha": "0.6*max", "tol": 1e-3}
    assert_same(on_factors(on_dask(X), y, BANK, **options), on_factors(X, y, BANK, **options), 1e-5)


def test_several_targets_on_workers() -> None:
    X, y = data("squared")
    Y = np.column_stack([y, X[:, 2] ** 2])
    options: dict[str, Any] = {"loss": "squared", "alpha": "0.3*max"}
    models = on_factors(on_dask(X), arrays.from_array(Y, chunks=(400, 1)), BANK, outputs="own", **options)
    for model, target in zip(models, Y.T, strict=True):
        assert_same(model, on_factors(X, target, BANK, **options))


def test_what_is_wrong_is_said_by_the_worker_that_sees_it() -> None:
    X, y = data("logistic")
    for wrong, message in ((y + 1, "needs labels -1 and"), (y[:-1], "of shape"), (np.ones_like(y), "nothing to learn")):
        with pytest.raises(InvalidInputError, match=message):
            on_factors(on_dask(X), wrong, BANK, alpha="0.1*max")
    with pytest.raises(InvalidInputError, match="must not be negative"):
        on_factors(on_dask(X), y, BANK, alpha="0.1*max", sample_weight=y)


def test_vectors_beside_rows_do_the_arithmetic_of_arrays() -> None:
    rng = np.random.default_rng(2)
    rows = DaskRows(arrays.from_array(np.zeros((30, 1)), chunks=((7, 0, 20, 3), 1)))
    a, b = rng.normal(size=(2, 30))
    x, y = rows.vector(a), rows.vector(b)
    assert isinstance(2.0 * x, RowVector)
    both = (np.where(p > q, 2.0 * p - q, np.clip(q, 0.0, 1.0)) for p, q in ((x, y), (a, b)))
    np.testing.assert_allclose(here(next(both)), next(both))
    np.testing.assert_allclose([x @ y, x[y > 0].sum(), x.max(), x.min()], [a @ b, a[b > 0].sum(), a.max(), a.min()])
    assert (x > -9).all()
    assert not (x > 9).any()
    np.testing.assert_allclose(sums(x, abs(y)), sums(a, abs(b)))
    before = x.copy()
    later = x + 0.0
    x += y
    np.testing.assert_allclose(here(compute_vector(x)), a + b)
    np.testing.assert_allclose([here(before), here(later)], [a, a])
    np.testing.assert_allclose(here(map_rows(np.hypot, x, 3.0)), np.hypot(a + b, 3.0))
    np.testing.assert_allclose(here(sampled_weights(y**2, 5)), sampled_weights(b**2, 5), rtol=1e-12)
    with pytest.raises(InvalidInputError, match="stays with its rows"):
        np.asarray(x)


def test_rows_are_drawn_with_weights_of_the_whole() -> None:
    bends = np.random.default_rng(3).exponential(size=4000)
    bends[:3] = 500.0
    index, weights = sampled_rows(bends, 400)
    assert set(range(3)) <= set(index.tolist())
    np.testing.assert_array_equal(weights[:3], 500.0)
    assert 300 < len(index) < 500
    assert weights.sum() == pytest.approx(bends.sum(), rel=0.05)


class Traffic:
    """A scheduler that runs graphs in this thread and counts what would travel: new tasks, and results taken."""

    def __init__(self, *collections: Any) -> None:
        self.bytes, self._there = 0, {key for own in collections for key in dict(own.__dask_graph__())}

    def __call__(self, graph: Any, keys: Any, **options: Any) -> Any:
        tasks = dict(graph.__dask_graph__() if hasattr(graph, "__dask_graph__") else graph)
        self.bytes += sum(len(cloudpickle.dumps(task)) for key, task in tasks.items() if key not in self._there)
        return dask.get(tasks, keys)

    def watch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Count from now on; partitions and what is held stay on workers."""
        persist, compute = dask.persist, dask.compute

        def keep(*tasks: Any) -> Any:
            self._there |= {task.key for task in tasks}
            return persist(*tasks)

        def take(*tasks: Any) -> Any:
            results = compute(*tasks)
            self.bytes += len(cloudpickle.dumps(results))
            return results

        monkeypatch.setattr(dask, "persist", keep)
        monkeypatch.setattr(dask, "compute", take)


@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_what_travels_does_not_grow_with_the_rows(loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bank = KernelBank([("g", Gaussian(0.5), [0]), ("h", Gaussian(0.5), [1])])
    counted = []
    for copies in (1, 4):  # of the same rows, for the same sums up to a factor, and so the same steps
        X, y = (np.repeat(part, copies, axis=0) for part in data(loss, 2000))
        half = len(X) // 2  # the first thousand rows of a table say of what kind its columns are
        rows, target = arrays.from_array(X, chunks=(half, 3)).persist(), arrays.from_array(y, chunks=half).persist()
        traffic = Traffic(rows, target)
        with monkeypatch.context() as patched, dask.config.set(scheduler=traffic):
            traffic.watch(patched)
            model = on_factors(rows, target, bank, loss=loss, alpha="0.2*max", tol=1e-4)
        assert model.status == "converged"
        counted.append((traffic.bytes, len(model.history), model.history[-1].newton_steps))
    assert counted[1][1:] == counted[0][1:]
    assert counted[1][0] - counted[0][0] < 8 * 6000 / 4  # a vector of the added rows would be four times that, once


def test_shared_weights_are_refused_beside_workers() -> None:
    X, y = data("squared", 60)
    stack = factored_stack(arrays.from_array(X, chunks=(20, -1)), BANK)
    with pytest.raises(IncompatibleError, match="cannot share their kernel weights where rows are on workers"):
        FactoredNewton().solve(Problem(stack, np.column_stack([y, -y]), "squared", BlockL1(1.0)))


def test_arrays_that_a_cluster_keeps_are_read_where_they_are() -> None:
    distributed = pytest.importorskip("distributed")
    X, y = data("squared", 60)
    options = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster):
        rows, target = arrays.from_array(X, chunks=(20, -1)).persist(), arrays.from_array(y, chunks=20).persist()
        source = DaskRows(rows)
        np.testing.assert_array_equal(source.vector(target).here(), y)
        np.testing.assert_array_equal(np.concatenate(list(source.map(lambda part: part, [0, 1]))), X[:, :2])
