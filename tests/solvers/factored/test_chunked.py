"""Rows in chunks: the fit of rows in memory, from memory maps, Parquet files and Dask collections."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from tests.support.factored import on_factors

from manykernels import KernelBank, MKLClassifier
from manykernels.exceptions import IncompatibleError, InvalidInputError
from manykernels.grams.factored import FourierStack, factored_stack
from manykernels.grams.factored.operators import ChunkedOperator
from manykernels.grams.rows.base import RowSource
from manykernels.grams.rows.opening import ParquetRows, open_rows
from manykernels.kernels import Gaussian, Laplacian, Linear, Periodic, Polynomial
from manykernels.solvers.factored.working_set import FactoredWorkingSet

Array = NDArray[Any]

N = 1200


def data(rng: np.random.Generator, dtype: Any = np.float64) -> tuple[Array, Array]:
    X = rng.normal(size=(N, 4)).astype(dtype)
    f = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] ** 2
    return X, np.where(f + 0.3 * rng.logistic(size=N) > 0.4, 1.0, -1.0)


def bank_of(*extra: Any) -> KernelBank:
    specs = [Gaussian(0.5), Gaussian(1.5), Linear(), Polynomial(2), Periodic(3.0), *extra]
    bank = KernelBank.per_feature(specs, standardize=True)
    return bank + KernelBank([("pair", Gaussian(1.0), [0, 1])], standardize=True)


def mixed(rng: np.random.Generator) -> pd.DataFrame:
    frame = pd.DataFrame(
        {
            "age": rng.normal(40, 10, N),
            "dose": np.exp(rng.normal(size=N)),
            "city": pd.Categorical(rng.choice(["Rome", "Oslo", "Lima"], N)),
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.uniform(0, 900, N), unit="D"),
            "kind": rng.choice(["x", "y", "z"], N),
        }
    )
    frame.loc[frame.index[rng.uniform(size=N) < 0.2], ["dose", "kind"]] = np.nan
    frame["target"] = np.sin(frame["age"] / 5) + (frame["city"] == "Oslo") + 0.3 * frame["dose"].fillna(2.0)
    return frame


def assert_same(first: Any, second: Any, tol: float = 1e-10) -> None:
    assert first.status == second.status == "converged"
    assert first.functions.names == second.functions.names
    assert first.certificate.primal == pytest.approx(second.certificate.primal, rel=tol)
    assert first.certificate.dual == pytest.approx(second.certificate.dual, rel=tol)
    np.testing.assert_allclose(first.kernel_weights, second.kernel_weights, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_every_stack_has_the_same_sums_over_chunks_as_over_all_rows(n_threads: int) -> None:
    rng = np.random.default_rng(0)
    X, _ = data(rng)
    bank = bank_of(Laplacian(1.0))
    whole, parts = factored_stack(X, bank), factored_stack(open_rows(X, chunk_rows=400, n_threads=n_threads), bank)
    rho = rng.normal(size=N)
    for first, second in zip(whole.quad_bounds(rho), parts.quad_bounds(rho), strict=True):
        np.testing.assert_allclose(first, second, rtol=1e-8)  # roots of what landmarks leave are rounding
    np.testing.assert_allclose(parts.quad(rho), whole.quad(rho), rtol=1e-10)
    rows = np.array([1100, 3, 700, 3])
    np.testing.assert_allclose(parts.block(rows, rows), whole.block(rows, rows), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(parts.diag(), whole.diag(), rtol=1e-12, atol=1e-12)
    kernels = [0, 2, 3, 7, parts.n_kernels - 1]
    (fused,) = parts.operators(kernels, 1e-4)
    assert isinstance(fused, ChunkedOperator)
    Z = fused.rows(np.arange(N))
    factors = {
        m: operator.rows(slice(None))[:, low:high]
        for operator in whole.operators(kernels, 1e-4)
        for m, (low, high) in zip(operator.kernels.tolist(), pairwise(operator.starts), strict=True)
    }
    for slot, m in enumerate(fused.kernels.tolist()):
        factor, own = factors[m], Z[:, fused.starts[slot] : fused.starts[slot + 1]]
        np.testing.assert_allclose(own @ own[:5].T, factor @ factor[:5].T, atol=1e-10)  # up to signs of directions
    v, scores, weights = rng.normal(size=Z.shape[1]), np.ones(N), rng.uniform(size=N)
    fused.add_scores(v, scores)
    np.testing.assert_allclose(scores, 1 + Z @ v, atol=1e-9)
    np.testing.assert_allclose(fused.adjoint(rho), Z.T @ rho, atol=1e-9)
    np.testing.assert_allclose(fused.rows(rows), Z[rows], atol=1e-10)
    Z = np.hstack([Z, np.ones((N, 1))])
    np.testing.assert_allclose(fused.weighted_gram(weights, n_constants=1), Z.T @ (weights[:, None] * Z), atol=1e-8)


@pytest.mark.nightly
@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_a_memory_map_is_fitted_as_an_array(loss: str, tmp_path: Path) -> None:
    X, y = data(np.random.default_rng(1), np.float32)
    np.save(tmp_path / "rows.npy", X)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    options: dict[str, Any] = {"loss": loss, "alpha": "0.05*max", "tol": 1e-6}
    model = on_factors(X, y, bank_of(), **options)
    assert_same(on_factors(mapped, y, bank_of(), **options), model)
    chunked = on_factors(open_rows(mapped, chunk_rows=333), y, bank_of(), **options)
    assert_same(chunked, model)
    np.testing.assert_array_equal(chunked.decision_function(mapped), chunked.decision_function(X))
    np.testing.assert_allclose(chunked.decompose(X[:9]), model.decompose(X[:9]), atol=1e-8)
    curve, other = chunked.functions.shape_functions(0), model.functions.shape_functions(0)
    np.testing.assert_allclose(curve["effect"], other["effect"], atol=1e-8)


def test_several_targets_are_fitted_in_chunks() -> None:
    X, y = data(np.random.default_rng(1), np.float32)
    Y = np.column_stack([y, -y])
    chunked = on_factors(open_rows(X, chunk_rows=333), Y, bank_of(), alpha="0.1*max", outputs="own")
    for model, target in zip(chunked, Y.T, strict=True):
        assert_same(model, on_factors(X, target, bank_of(), alpha="0.1*max"))


def test_estimators_say_who_takes_rows_in_chunks() -> None:
    X, y = data(np.random.default_rng(1), np.float32)
    with pytest.raises(InvalidInputError, match="rows in chunks, which only solve reads"):
        MKLClassifier(bank_of()).fit(open_rows(X), y)


def write(frame: pd.DataFrame, folder: Path) -> Path:
    """Two files with row groups of different sizes."""
    folder.mkdir()
    frame[:900].to_parquet(folder / "part0.parquet", row_group_size=250)
    frame[900:].to_parquet(folder / "part1.parquet", row_group_size=400)
    return folder


def test_parquet_files_of_every_kind_of_column_are_fitted_by_the_name_of_the_target(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    frame = mixed(np.random.default_rng(2))
    folder, inputs = write(frame, tmp_path / "table"), frame.drop(columns="target")
    bank = KernelBank.auto(inputs, missing="mask")
    options: dict[str, Any] = {"loss": "squared", "alpha": "0.2*max", "tol": 1e-5}
    whole = on_factors(inputs, frame["target"].to_numpy(), bank, **options)
    source = ParquetRows(folder, chunk_rows=300)
    assert (source.n_rows, source.n_chunks) == (N, 5)
    parts = on_factors(source, "target", bank, **options)
    assert_same(parts, whole, 1e-8)
    np.testing.assert_allclose(parts.decision_function(folder), whole.decision_function(inputs), atol=1e-6)
    np.testing.assert_allclose(parts.decision_function(inputs), parts.decision_function(str(folder)), rtol=1e-12)
    streamed = [parts.decision_function(inputs[start : start + 500]) for start in range(0, N, 500)]
    np.testing.assert_allclose(np.concatenate(streamed), parts.decision_function(folder), rtol=1e-12)
    indicated = factored_stack(source.drop_column("target"), bank.replace(missing="indicator"))
    assert sum("missing" in name for name in indicated.names or ()) == 2


def test_heavy_tails_are_compressed_as_in_memory() -> None:
    X, y = data(np.random.default_rng(6))
    X = X.copy()
    X[:, 0] = np.exp(3 * X[:, 0])
    X[::9, 0] = np.nan
    bank = KernelBank.per_feature([Gaussian(0.5), Linear()], standardize="robust", missing="mask")
    options: dict[str, Any] = {"alpha": "0.1*max", "tol": 1e-6}
    whole, plain = on_factors(X, y, bank, **options), on_factors(X, y, bank.replace(standardize=True), **options)
    parts = on_factors(open_rows(X, chunk_rows=400), y, bank, **options)
    assert_same(parts, whole, 1e-8)
    np.testing.assert_allclose(parts.decision_function(X), whole.decision_function(X), atol=1e-6)
    assert np.abs(plain.decision_function(X) - whole.decision_function(X)).max() > 1e-2


def test_large_ranks_have_an_operator_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = data(np.random.default_rng(3))
    monkeypatch.setattr("manykernels.grams.factored.chunked.FUSED_RANK", 3)
    monkeypatch.setattr(FactoredWorkingSet, "_smaller_as_matrices", lambda *_: False)
    options: dict[str, Any] = {"alpha": "0.1*max", "tol": 1e-5}
    first = on_factors(open_rows(X, chunk_rows=400), y, bank_of(), **options)
    assert_same(first, on_factors(X, y, bank_of(), **options), 1e-5)


class Counted(RowSource):
    """Rows that count how often each chunk of each column is read."""

    def __init__(self, X: Array) -> None:
        super().__init__([500, 0, 400, 300], None, X.shape[1])
        self._X, self.entries = X, 0

    def read(self, chunk: int, positions: Any) -> Any:
        part = self._X[self.slice(chunk)][:, list(positions)]
        self.entries += part.size
        return part

    def drop_column(self, name: Any) -> RowSource:
        raise AssertionError(name)


def test_a_pass_reads_every_column_once_and_empty_chunks_are_nothing() -> None:
    X, y = data(np.random.default_rng(4))
    source = Counted(X)
    stack = FourierStack.grid(source, [0.3, 1.0, 3.0])
    before = source.entries
    stack.quad(np.ones(N))
    assert source.entries - before == X.size
    assert_same(
        on_factors(X, y, stack, alpha="0.1*max"),
        on_factors(X, y, FourierStack.grid(X, [0.3, 1.0, 3.0]), alpha="0.1*max"),
    )


def test_what_chunks_cannot_give_is_said(tmp_path: Path) -> None:
    X, y = data(np.random.default_rng(5))
    with pytest.raises(InvalidInputError, match="no column 'target'"):
        on_factors(open_rows(X), "target", alpha="0.1*max")
    with pytest.raises(InvalidInputError, match="There is no Parquet file"):
        on_factors(tmp_path / "nothing.parquet", y, alpha="0.1*max")
    bad = np.resize(X, (3 * N, 4))
    bad[1100, 2] = np.nan  # in none of the rows that are sampled
    with pytest.raises(InvalidInputError, match=r"NaN or infinite values.*first in column 2"):
        on_factors(open_rows(bad, chunk_rows=400), y, alpha="0.1*max")
    model = on_factors(open_rows(X), y, bank_of(), alpha="0.3*max")
    with pytest.raises(InvalidInputError, match="3 columns, but the model was fitted on 4"):
        model.decision_function(open_rows(X[:, :3]))
    with pytest.raises(InvalidInputError, match="Column 2 contains NaN"):
        model.decision_function(open_rows(bad))


def dask_collections(X: Array) -> dict[str, Any]:
    dask = pytest.importorskip("dask")
    array = pytest.importorskip("dask.array")
    frames = pytest.importorskip("dask.dataframe")
    dask.config.set(scheduler="synchronous")
    names = [f"c{j}" for j in range(X.shape[1])]
    return {
        "array": array.from_array(X, chunks=(400, 2)),
        "frame": frames.from_pandas(pd.DataFrame(X, columns=names), npartitions=4),
    }


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["array", "frame"])
def test_dask_collections_are_fitted_where_they_are(kind: str) -> None:
    X, y = data(np.random.default_rng(6))
    rows = dask_collections(X)[kind]
    options: dict[str, Any] = {"alpha": "0.1*max", "tol": 1e-6}
    target = pytest.importorskip("dask.array").from_array(y, chunks=500)
    model = on_factors(rows, target, bank_of(), **options)
    single = on_factors(X if kind == "array" else rows.compute(), y, bank_of(), **options)
    assert_same(model, single)
    np.testing.assert_allclose(model.decision_function(rows), single.decision_function(X), atol=1e-7)
    with pytest.raises(IncompatibleError, match="need sorted rows"):
        factored_stack(rows, KernelBank.per_feature(Laplacian(1.0)))


def test_kernels_of_a_sorted_file_are_those_of_the_table(tmp_path: Path) -> None:
    """Medians and landmarks come from rows of the whole file, in which the first ones are unlike the others."""
    X, _ = data(np.random.default_rng(6))
    X = X[np.argsort(X[:, 0])]
    path = tmp_path / "sorted.parquet"
    pd.DataFrame(X).rename(columns=str).to_parquet(path, row_group_size=200)
    rho = np.random.default_rng(0).normal(size=N)
    whole, chunked = (factored_stack(rows, KernelBank.auto()) for rows in (X, open_rows(path, chunk_rows=200)))
    np.testing.assert_allclose(chunked.quad(rho), whole.quad(rho), rtol=1e-6)
