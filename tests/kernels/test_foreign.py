"""Tables of other libraries are read like pandas tables, without pyarrow."""

from __future__ import annotations

import datetime
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from manykernels import KernelBank, Linear, MKLRegressor
from manykernels.exceptions import InvalidInputError
from manykernels.kernels.bank.columns import Table
from manykernels.kernels.tables.foreign import is_foreign, to_data_frame


class Column:
    """A column as polars has it."""

    __module__ = "polars.series"

    def __init__(self, name: str, dtype: Any, values: list[Any]) -> None:
        self.name, self.dtype, self.values = name, dtype, values

    def to_list(self) -> list[Any]:
        return self.values

    def to_numpy(self) -> Any:
        return np.array(self.values)

    def null_count(self) -> int:
        return sum(value is None for value in self.values)


class Frame:
    """A table as polars has it."""

    __module__ = "polars.dataframe"

    def __init__(self, columns: list[Column]) -> None:
        self.columns = columns

    def get_columns(self) -> list[Column]:
        return self.columns

    def to_pandas(self) -> pd.DataFrame:
        raise ModuleNotFoundError("pyarrow")


def test_columns_of_polars_keep_their_meaning_without_pyarrow() -> None:
    frame = to_data_frame(
        Frame(
            [
                Column("age", "Int64", [1, 2, 3]),
                Column("ill", "Boolean", [True, None, False]),
                Column("site", "Categorical", ["b", None, "a"]),
                Column("seen", SimpleNamespace(time_zone="Europe/Zurich"), ["2020-01-01T12:00"] * 3),
            ]
        )
    )
    assert frame.dtypes.astype(str).iloc[:3].tolist() == ["int64", "boolean", "category"]
    assert frame["site"].cat.categories.tolist() == ["a", "b"]
    assert frame["seen"].iloc[0] == pd.Timestamp("2020-01-01T13:00", tz="Europe/Zurich")


def test_a_table_that_cannot_be_converted_is_an_error() -> None:
    arrow = type("Arrow", (Frame,), {"__module__": "arrowlike"})([])
    assert is_foreign(arrow)
    with pytest.raises(InvalidInputError, match="The arrowlike table cannot be converted to pandas: pyarrow"):
        to_data_frame(arrow)


class Annotated:
    """A matrix with labels of rows and columns, as AnnData has it."""

    def __init__(self, X: Any) -> None:
        self.X, self.shape = X, X.shape
        self.obs_names = [f"cell{i}" for i in range(X.shape[0])]
        self.var_names = [f"gene{j}" for j in range(X.shape[1])]

    def __len__(self) -> int:
        return int(self.shape[0])


class Undensified(sparse.csr_array):
    """A sparse matrix that must stay sparse."""

    def toarray(self, *arguments: Any, **options: Any) -> Any:
        raise AssertionError("made dense")


def test_sparse_layers_of_anndata_stay_sparse() -> None:
    counts = sparse.random_array((40, 30), density=0.2, rng=0, format="csr")
    y = np.asarray(counts[:, [0]].todense()).ravel()
    table = Table.wrap(Annotated(Undensified(counts)), sparse=True)
    assert table.is_sparse
    assert table.columns is not None
    assert table.columns[:2] == ("gene0", "gene1")
    bank = KernelBank([Linear()])
    expected = MKLRegressor(bank, alpha=0.01).fit(pd.DataFrame(counts.todense()).set_axis(table.columns, axis=1), y)
    model = MKLRegressor(bank, alpha=0.01).fit(Annotated(counts), y)
    assert model.feature_names_in_.tolist() == list(table.columns)
    np.testing.assert_allclose(
        model.predict(Annotated(counts)), expected.predict(pd.DataFrame(counts.todense(), columns=table.columns)), 1e-6
    )
    dense = Table.wrap(Annotated(np.asarray(counts.todense())))
    assert dense.data.index[0] == "cell0"


@pytest.mark.nightly
def test_polars_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    polars = pytest.importorskip("polars")
    monkeypatch.delattr(polars.DataFrame, "to_pandas")  # which needs pyarrow
    day = datetime.date(2020, 1, 1)
    frame = polars.DataFrame(
        {
            "age": [1, None, 3],
            "ill": [True, None, False],
            "site": polars.Series(["b", "a", "b"], dtype=polars.Categorical),
            "stage": polars.Series(["low", "high", None], dtype=polars.Enum(["low", "high"])),
            "word": ["x", "y", "x"],
            "day": [day, day, None],
            "at": polars.Series([datetime.datetime(2020, 1, 1, 3)] * 3).dt.replace_time_zone("UTC"),
        }
    )
    table = Table.wrap(frame)
    assert [table.kind(j) for j in range(7)] == [
        "number", "boolean", "category", "ordered", "category", "date", "instant",
    ]  # fmt: skip
    assert Table.wrap(frame["age"]).n_columns == 1
    assert table.data["stage"].cat.categories.tolist() == ["low", "high"]
