"""A column is read by one function: the type that a new table gives it changes no prediction, or is rejected."""

from __future__ import annotations

import datetime
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

from manykernels import KernelBank, Laplacian, MKLRegressor, load_model, save_model
from manykernels.exceptions import InvalidInputError
from manykernels.kernels.bank.columns import Table
from manykernels.kernels.specs.categorical import UNSEEN
from manykernels.kernels.tables.dates import AMBIGUOUS, DAY_FIRST, MONTH_FIRST, YEAR_FIRST, date_order
from manykernels.kernels.tables.encoding import Encoding, level_text

SIZES = (60, 700, 2500)  # of the training table; the last one is held as factors

Column = Callable[[np.random.Generator, int], pd.Series]


def drawn(values: list[Any], dtype: Any = None) -> Column:
    def column(rng: np.random.Generator, n: int) -> pd.Series:
        return pd.Series([values[k] for k in rng.integers(len(values), size=n)], dtype=dtype)

    return column


def dates(zone: str | None) -> Column:
    def column(rng: np.random.Generator, n: int) -> pd.Series:
        days = pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 700, size=n), unit="D")
        return pd.Series(days).dt.tz_localize(zone)

    return column


COLUMNS: dict[str, Column] = {
    "text": drawn(["a", "b", "c"], object),
    "codes": drawn(["1", "2", "3", "A"], object),
    "nullable text": drawn(["a", "b", None], "string"),
    "arrow text": drawn(["a", "b", "c"], "string[pyarrow]"),
    "integer levels": drawn([1, 2, 3], pd.CategoricalDtype([1, 2, 3])),
    "decimal levels": drawn([0.5, 1.0, 3.0], pd.CategoricalDtype([0.5, 1.0, 3.0])),
    "ordered": drawn(["lo", "mid", "hi"], pd.CategoricalDtype(["lo", "mid", "hi"], ordered=True)),
    "ordered integers": drawn([0, 5, 9], pd.CategoricalDtype([0, 5, 9], ordered=True)),
    "booleans": drawn([True, False], bool),
    "boolean levels": drawn([True, False], pd.CategoricalDtype([False, True])),
    "numbers": drawn([1.0, 2.0, 5.0], float),
    "integers": drawn([1, 2, None], "Int64"),
    "dates": dates(None),
    "dates in UTC": dates("UTC"),
    "durations": drawn([pd.Timedelta(hours=h) for h in (1, 5, 30)]),
}


def by_value(function: Callable[[Any], Any], dtype: Any = object) -> Callable[[pd.Series], pd.Series]:
    return lambda column: pd.Series([None if pd.isna(v) else function(v) for v in column], dtype=dtype)


def as_integer(value: Any) -> int:
    if int(value) != float(value):
        raise ValueError
    return int(value)


TYPES: dict[str, Callable[[pd.Series], pd.Series]] = {
    "objects": lambda column: column.astype(object),
    "text": by_value(str),
    "string": by_value(str, "string"),
    "arrow string": by_value(str, "string[pyarrow]"),
    "categories of text": lambda column: by_value(str)(column).astype("category"),
    "categories": lambda column: column.astype("category"),
    "reversed categories": lambda column: column.astype(
        pd.CategoricalDtype(list(reversed(column.dropna().unique())), ordered=True)
    ),
    "int": by_value(as_integer, int),
    "float": by_value(float, float),
    "Int64": by_value(as_integer, "Int64"),
    "text of floats": by_value(lambda value: str(float(value))),
    "bool": by_value(lambda value: {"True": True, "False": False}[str(value)], bool),
    "boolean": by_value(lambda value: {"True": True, "False": False}[str(value)], "boolean"),
    "small": by_value(float, np.float32),
    "iso text": by_value(lambda value: value.isoformat()),
    "slashes": by_value(lambda value: value.strftime("%Y/%m/%d")),
    "dots": by_value(lambda value: value.strftime("%d.%m.%Y")),
    "days first": by_value(lambda value: value.strftime("%d-%m-%Y")),
    "python dates": by_value(lambda value: datetime.date(value.year, value.month, value.day)),
    "in Tokyo": lambda column: column.dt.tz_convert("Asia/Tokyo"),
    "without a zone": lambda column: column.dt.tz_localize(None),
    "nanoseconds": by_value(lambda value: value.as_unit("ns").value, "int64"),
    "compact": by_value(lambda value: int(value.strftime("%Y%m%d")), int),
    "hours": by_value(lambda value: value / pd.Timedelta(hours=1), float),
    "a gap in each row": lambda column: pd.Series([None] * len(column), dtype=object),
}
# What no reading can make of a column: it has to be rejected.
REJECTED = {
    ("dates", "nanoseconds"), ("dates", "compact"), ("dates in UTC", "nanoseconds"), ("dates in UTC", "slashes"),
    ("dates in UTC", "without a zone"), ("durations", "hours"), ("numbers", "text"), ("dates in UTC", "python dates"),
}  # fmt: skip
MUST_EQUAL = {
    ("codes", "categories"), ("integer levels", "int"), ("integer levels", "Int64"), ("integer levels", "float"),
    ("integer levels", "text"), ("integer levels", "text of floats"), ("ordered", "text"), ("booleans", "float"),
    ("booleans", "int"), ("booleans", "text"), ("boolean levels", "text"), ("boolean levels", "int"), ("dates", "dots"),
    ("dates", "iso text"), ("dates", "slashes"), ("dates", "days first"), ("dates in UTC", "in Tokyo"),
    ("dates in UTC", "iso text"), ("ordered integers", "int"), ("decimal levels", "text"), ("decimal levels", "small"),
    ("integers", "objects"), ("text", "reversed categories"), ("ordered", "reversed categories"),
}  # fmt: skip


@cache
def fitted(name: str, n: int) -> tuple[MKLRegressor, pd.DataFrame]:
    rng = np.random.default_rng(0)
    column = COLUMNS[name](rng, n)
    X = pd.DataFrame({"c": column, "x": rng.normal(size=n)})
    effect = pd.factorize(column)[0] % 7
    y = effect + 0.3 * X["x"] + 0.1 * rng.normal(size=n)
    return MKLRegressor(KernelBank.auto(missing="mask"), alpha=0.01).fit(X, y), X


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", COLUMNS)
def test_the_type_of_a_column_changes_no_prediction_or_is_rejected(name: str, n: int) -> None:
    model, X = fitted(name, n)
    rows = X.head(50).reset_index(drop=True)
    expected = model.predict(rows)
    for given, convert in TYPES.items():
        try:
            column = convert(rows["c"])
        except (TypeError, ValueError, AttributeError, KeyError):  # values of this column have no such type
            assert (name, given) not in REJECTED | MUST_EQUAL
            continue
        table = rows.assign(c=column)
        if given == "a gap in each row":
            assert np.isfinite(model.predict(table)).all()
            continue
        try:
            found = model.predict(table)
        except InvalidInputError as error:
            refused = str(error)
        else:
            refused = ""
        assert ("'c'" in refused and (name, given) not in MUST_EQUAL) if refused else (name, given) not in REJECTED
        if refused:
            continue
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9, err_msg=f"{name} as {given}")


def test_levels_are_those_of_the_whole_training_table() -> None:
    """A new table without a level, or with one that sorts between them, shifts no code."""
    model, X = fitted("codes", 700)
    rows = X[X["c"] != "A"].head(60)
    expected = model.predict(rows)
    for dtype in (int, float, "Int64", "category"):
        column = rows["c"].astype(int).astype(dtype)
        np.testing.assert_allclose(model.predict(rows.assign(c=column)), expected, rtol=1e-12)
    parts = [model.predict(rows.assign(c=rows["c"].astype(int)).iloc[at : at + 7]) for at in range(0, 60, 7)]
    np.testing.assert_allclose(np.concatenate(parts), expected, rtol=1e-9)


def test_equal_texts_are_one_level_in_fit() -> None:
    column = pd.Series([1, "1", 1.0, "2", 2, "x"], dtype=object)
    encoding = Encoding.fit(column, "category")
    assert encoding.levels == (1, "2", "x")
    assert encoding.encode(column).tolist() == [0, 0, 0, 1, 1, 2]
    # Text is matched as it is, before what it spells.
    codes = Encoding("category", ("1", "1.0", "01"))
    assert codes.encode(pd.Series(["1.0", "1", "01", "1.00", "001"])).tolist() == [1, 0, 2, 0, UNSEEN]
    assert codes.encode(pd.Series([1.0, 2.0])).tolist() == [0, UNSEEN]
    ids = Encoding("category", ("12345678901234567891", "12345678901234567892"))
    assert ids.encode(pd.Series(["12345678901234567892", "12345678901234567893"])).tolist() == [1, UNSEEN]


def test_texts_of_levels() -> None:
    assert [level_text(level) for level in (np.int8(3), np.float32(0.1), -0.0, np.True_, 1e300)][:4] == [
        "3", "0.1", "0", "True",
    ]  # fmt: skip


def test_columns_of_mostly_unseen_levels_are_named() -> None:
    model, X = fitted("text", 60)
    rows = X.head(20).assign(c=["a"] * 8 + ["A", "B"] * 6)
    with pytest.warns(UserWarning, match=r"'c' \(12 of 20, such as 'A', 'B'; known are 'a', 'c', 'b'|'c' \(12 of 20"):
        model.predict(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(X.head(20).assign(c=["a"] * 12 + ["A", "B"] * 4))


def test_an_array_stands_for_booleans_and_for_nothing_else() -> None:
    """Explainers turn the table of fit into an array of floats."""
    model, X = fitted("booleans", 60)
    expected = model.predict(X)
    others, rows = fitted("integer levels", 60)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        np.testing.assert_allclose(model.predict(X.to_numpy(dtype=float)), expected, rtol=1e-12)
        with pytest.raises(InvalidInputError, match=r"cannot be read as true and false.*it holds [23]"):
            model.predict(X.to_numpy(dtype=float) + 2.0)
        with pytest.raises(InvalidInputError, match="a DataFrame instead of an array"):
            others.predict(rows.to_numpy(dtype=float))


@pytest.mark.parametrize(
    ("texts", "order"),
    [
        (["2012/01/01", "2024/12/31"], YEAR_FIRST),
        (["2012-1-1", None], YEAR_FIRST),
        (["17-08-1984", "03-04-1985"], DAY_FIRST),
        (["03/04/2024", "12/31/2023"], MONTH_FIRST),
        (["3.4.2024"], DAY_FIRST),
        (["03/04/2024", "01/02/2024"], AMBIGUOUS),
        (["17-08-84", "01-02-85"], AMBIGUOUS),
        (["13/13/2024"], None),
        (["12/31/2023", "31/12/2023"], None),
        (["2024-01-01", "x"], None),
        (["20240131"], None),
        ([None], None),
    ],
)
def test_the_whole_column_decides_how_dates_are_written(texts: list[str | None], order: str | None) -> None:
    assert date_order(pd.Series(texts, dtype=object)) == order


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["03/04/2024", "05/06/2024"], "either way round, as in '03/04/2024'"),
        (["2024-01-01", "17-08-1984"], "in several forms"),
        (["2024-02-30", "2024-01-01"], "no date"),
        (["20240131"], "no date"),
        ([20240131], "it holds 20240131, which is no date"),
        ([20240131.0, None], "which is no date"),
        (["2024-01-01T00:00Z"], "a time zone or UTC offsets, and those of fit had none"),
        (["2024-01-01T00:00Z", "2024-01-02T00:00"], "in several forms"),
    ],
)
def test_dates_are_checked_as_in_fit(texts: list[Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=f"Column 'day' cannot be read as dates, as in fit: .*{message}"):
        Encoding("date").encode(pd.Series(texts, name="day"))


def test_instants_are_read_in_utc_whatever_their_offsets() -> None:
    texts = pd.Series(["2024-03-01 08:00:00-08:00", "2024-03-01T17:30:00+0100", "2024-03-01T16:00Z"])
    found = Encoding("instant").encode(texts)
    np.testing.assert_allclose(found, [19783 + 16 / 24, 19783 + 16.5 / 24, 19783 + 16 / 24])
    stamps = pd.Series(pd.to_datetime(texts, utc=True, format="ISO8601")).dt.tz_convert("America/New_York")
    assert Table.wrap(stamps.to_frame("t")).kind(0) == "instant"
    np.testing.assert_allclose(Encoding("instant").encode(stamps), found)
    np.testing.assert_allclose(Encoding("instant").encode(Encoding("instant").decode(found)), found)


def test_dates_in_text_have_one_form_in_all_rows_of_a_table() -> None:
    """Rows that are read in parts were each read by what this part showed."""
    rng = np.random.default_rng(1)
    days = pd.Series(pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, size=6000), unit="D"))
    X = pd.DataFrame({"d": days})
    model = MKLRegressor(KernelBank.per_feature(Laplacian(100.0)), alpha=0.01).fit(X, days.dt.month)
    order = np.argsort(days.dt.day, kind="stable")  # days above 12 come last
    texts = pd.DataFrame({"d": days.dt.strftime("%m/%d/%Y")}).iloc[order]
    np.testing.assert_allclose(model.predict(texts), model.predict(X.iloc[order]), rtol=1e-9)


def test_a_saved_model_reads_columns_as_before(tmp_path: Any) -> None:
    for name in ("dates in UTC", "codes", "booleans"):
        model, X = fitted(name, 60)
        save_model(model, tmp_path / f"{name}.mkl")
        np.testing.assert_allclose(load_model(tmp_path / f"{name}.mkl").predict(X), model.predict(X), rtol=1e-12)
