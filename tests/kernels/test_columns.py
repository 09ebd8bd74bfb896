"""Column selections mean what they mean in scikit-learn's ColumnTransformer; wrong ones are explained."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.compose import ColumnTransformer, make_column_selector

from manykernels import GaussianMKL, MKLRegressor
from manykernels.exceptions import InvalidInputError
from manykernels.kernels import Gaussian, KernelBank, KernelStack, Linear, PrecomputedBank
from manykernels.kernels.bank import columns
from manykernels.kernels.bank.columns import Table


@pytest.fixture
def frame() -> pd.DataFrame:
    return pd.DataFrame(
        {"age": [30, 40, 50], "bmi": [20.5, 30.0, 25.0], "smoker": [True, False, True], "city": ["A", "B", "A"]}
    )


NUMBERS = ["age", "bmi", "smoker"]
SELECTIONS = [
    ["bmi"],
    ["smoker", "age"],
    [0, 2],
    [-2],
    slice(0, 2),
    slice("age", "bmi"),
    slice("bmi", "smoker"),
    [True, False, True],
    np.array([False, True, False]),
    make_column_selector(pattern="^[ab]"),
    make_column_selector(dtype_include="number"),
    pd.Index(["age", "smoker"]),
    np.array([1, 0]),
    ("age", "bmi"),
]


@pytest.mark.parametrize("selection", SELECTIONS)
def test_selections_are_those_of_a_column_transformer(selection: Any, frame: pd.DataFrame) -> None:
    numbers = frame[NUMBERS]
    listed = list(selection) if isinstance(selection, tuple) else selection
    expected = ColumnTransformer([("chosen", "passthrough", listed)]).fit_transform(numbers)
    table = Table.wrap(numbers)
    np.testing.assert_array_equal(table.numeric(table.positions(selection)), expected.astype(float))


def test_single_names_positions_and_everything(frame: pd.DataFrame) -> None:
    table = Table.wrap(frame)
    assert table.positions("bmi") == (1,)
    assert table.positions(-1) == (3,)
    assert table.positions(np.int64(2)) == (2,)
    assert table.positions(None) == (0, 1, 2, 3)
    assert Table.wrap(np.ones((2, 3))).positions(slice(None)) == (0, 1, 2)


BAD = [
    (["hight"], "Unknown column 'hight'; X has 'age', 'bmi', 'smoker', 'city'"),
    ([4], "Column position 4 is out of range: X has 4 column"),
    (-5, "Column position -5 is out of range"),
    ([True, False], "The column mask has 2 entries, but X has 4 columns"),
    ([], "selects no column"),
    (slice(2, 2), "selects no column"),
    (["age", "age"], "names a column more than once"),
    ([0, -4], "names a column more than once"),
    (slice("age", "height"), "Unknown column 'height'"),
]


@pytest.mark.parametrize(("selection", "message"), BAD, ids=[message for _, message in BAD])
def test_wrong_selections_are_explained(selection: Any, message: str, frame: pd.DataFrame) -> None:
    with pytest.raises(InvalidInputError, match=message):
        Table.wrap(frame).positions(selection)


def test_names_need_a_data_frame() -> None:
    with pytest.raises(InvalidInputError, match="'age' is selected by name, but X is not a DataFrame"):
        KernelBank([("k", Linear(), "age")]).fit(np.ones((3, 2)))


def test_columns_that_are_not_numbers_are_named_only_if_used(frame: pd.DataFrame) -> None:
    with pytest.raises(InvalidInputError, match=r"(?s)Not numeric.*'city' \(2 values.*linear\(\).*OneHotEncoder"):
        KernelBank([("k", Linear())]).fit(frame)
    fitted = KernelBank([("k", Linear(), NUMBERS)], normalize=None).fit(frame)
    rows = fitted.prepare(frame)
    expected = frame[NUMBERS].to_numpy(float)
    np.testing.assert_allclose(fitted.block(rows, rows)[0], expected @ expected.T, rtol=1e-14)


@pytest.mark.parametrize(
    ("values", "accepted"),
    [
        (pd.array([1, 2, 3], dtype="Int64"), True),
        (np.array([1, 2.5, 3], dtype=object), True),
        (pd.Categorical([1, 2, 3]), False),
        (np.array(["1", "2", "3"], dtype=object), False),
        (np.array([1 + 2j, 1, 1]), False),
        (pd.date_range("2020", periods=3), True),
    ],
    ids=["nullable", "object numbers", "categorical", "digits as text", "complex", "dates"],
)
def test_what_counts_as_numeric(values: Any, accepted: bool) -> None:
    table = Table.wrap(pd.DataFrame({"a": values}))
    if accepted:
        assert table.numeric([0]).dtype == np.float64
    else:
        with pytest.raises(InvalidInputError, match="'a' \\("):
            table.numeric([0])


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([[1.0, np.nan]], "contains NaN"),
        ([[1.0, np.inf]], "contains infinity"),
        ([1.0, 2.0], "Expected 2D array"),
        (np.empty((0, 2)), "0 sample"),
        (np.empty((2, 0)), "0 feature"),
        ([["a", "b"]], "could not convert"),
        (
            pd.DataFrame({"a": [1.0, np.nan], "b": [1.0, 2.0]}),
            "NaN: missing values in 1 column: 'a' \\(1 of 2\\)",
        ),
        (pd.DataFrame({"a": pd.array([1, None], dtype="Int64")}), "'a' \\(1 of 2\\)"),
        (pd.DataFrame([[1.0, 2.0]], columns=["a", "a"]), "\\['a'\\] appear more than once"),
        (pd.DataFrame({"a": []}), "at least one row"),
    ],
)
def test_bad_tables_are_explained(X: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        KernelBank([("k", Gaussian(1.0))]).fit(X)


def test_new_columns_are_matched_by_name(rng: np.random.Generator) -> None:
    X = pd.DataFrame(rng.normal(size=(8, 3)), columns=["a", "b", "c"])
    fitted = KernelBank([("k", Gaussian(1.0), ["c", "a"])], standardize=True).fit(X)
    rows, again = fitted.prepare(X), fitted.prepare(X[["c", "b", "a"]].assign(new="text"))
    np.testing.assert_array_equal(again.points(0), rows.points(0))
    np.testing.assert_array_equal(fitted.prepare(X[["c", "a"]]).points(0), rows.points(0))
    np.testing.assert_array_equal(fitted.prepare(X.to_numpy()).points(0), rows.points(0))
    assert list(fitted.feature_names_in_) == ["a", "b", "c"]
    with pytest.raises(InvalidInputError, match="X lacks 1 column\\(s\\) that the kernels use: 'c'"):
        fitted.prepare(X[["a", "b"]])
    with pytest.raises(InvalidInputError, match="X has 2 features, but the bank was fitted with 3"):
        fitted.prepare(X.to_numpy()[:, :2])


def test_an_array_has_no_feature_names() -> None:
    fitted = KernelBank([("k", Linear())]).fit(np.eye(3))
    assert fitted.n_features_in_ == 3
    assert not hasattr(fitted, "feature_names_in_")


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.coo_array])
def test_sparse_matrices_are_refused_where_columns_must_be_dense(kind) -> None:
    X = kind(np.eye(6))
    with pytest.raises(InvalidInputError, match=r"sparse matrix of shape \(6, 6\).*MKLRegressor.*TruncatedSVD"):
        GaussianMKL().fit(X, np.arange(6.0))


def test_a_linear_kernel_of_a_sparse_matrix_is_that_of_the_dense_one() -> None:
    X = sparse.random_array((40, 300), density=0.05, rng=np.random.default_rng(0), format="csr")
    y = X.toarray() @ np.linspace(-1, 1, 300)
    linear = KernelBank([("linear", Linear(), list(range(300)))], normalize="mean_diagonal")
    dense = MKLRegressor(linear, alpha=0.01, tol=1e-8).fit(X.toarray()[:30], y[:30])
    kernels = KernelStack([(X[:30] @ X[:30].T).toarray()])
    given = MKLRegressor(PrecomputedBank(normalize="mean_diagonal"), alpha=0.01, tol=1e-8).fit(kernels, y[:30])
    new = KernelStack.rectangular([(X[30:] @ X[:30].T).toarray()])
    np.testing.assert_allclose(given.predict(new), dense.predict(X.toarray()[30:]), atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32])
def test_rows_that_are_turned_in_parts_are_the_same_numbers(dtype: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "BY_COLUMNS", 1)
    monkeypatch.setattr(columns, "ROWS_AT_ONCE", 7)
    X = (10 * np.random.default_rng(0).normal(size=(30, 3))).astype(dtype)
    read = columns.Table.wrap(X).codes(range(3))
    assert read.flags.f_contiguous
    assert read.dtype == np.float64
    assert np.array_equal(read, X)
