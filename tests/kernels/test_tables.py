"""Tables as they are: what each type of column becomes, which kernels it gets, and that they say what they should."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from manykernels import (
    Gaussian,
    Interaction,
    InvalidInputError,
    KernelBank,
    Linear,
    MKLClassifier,
    MKLRegressor,
    Ordinal,
    Overlap,
)
from manykernels.kernels import Missing
from manykernels.kernels.bank.columns import Table
from manykernels.kernels.specs.categorical import UNSEEN
from manykernels.kernels.tables.kinds import kind_of

DATES = pd.date_range("2024-01-01", periods=4, freq="36h")
NAN = np.nan
COLUMNS = {
    "float": (pd.Series([1.0, None, 2.5, 0.0]), "number", [1.0, NAN, 2.5, 0.0]),
    "nullable": (pd.Series([1, None, 2, 0], dtype="Int64"), "number", [1, NAN, 2, 0]),
    "arrow": (pd.Series([1, None, 2, 0], dtype="int64[pyarrow]"), "number", [1, NAN, 2, 0]),
    "objects": (pd.Series([1, None, 2.5, 0], dtype=object), "number", [1, NAN, 2.5, 0]),
    "empty": (pd.Series([None] * 4, dtype=object), "number", [NAN] * 4),
    "bool": (pd.Series([True, False, True, False]), "boolean", [1, 0, 1, 0]),
    "nullable bool": (pd.Series([True, None, True, False], dtype="boolean"), "boolean", [1, NAN, 1, 0]),
    "object bool": (pd.Series([True, None, True, False], dtype=object), "boolean", [1, NAN, 1, 0]),
    "text": (pd.Series(["b", None, "a", "b"]), "category", [0, NAN, 1, 0]),
    "arrow text": (pd.Series(["b", None, "a", "b"], dtype="string[pyarrow]"), "category", [0, NAN, 1, 0]),
    "mixed": (pd.Series(["b", None, 2, "b"], dtype=object), "category", [0, NAN, 1, 0]),
    "categorical": (pd.Series(["b", None, "a", "b"], dtype="category"), "category", [1, NAN, 0, 1]),
    "intervals": (pd.Series(pd.cut([1, 9, 5, 1], [0, 3, 6, 9])), "ordered", [0, 1, 0.5, 0]),
    "ordered": (
        pd.Series(pd.Categorical(["lo", None, "hi", "mid"], ["lo", "mid", "hi"], ordered=True)),
        "ordered",
        [0, NAN, 1, 0.5],
    ),
    "dates": (pd.Series(DATES), "date", [19723, 19724.5, 19726, 19727.5]),
    "zoned dates": (
        pd.Series(DATES.tz_localize("Asia/Tokyo")),
        "instant",
        [19722.625, 19724.125, 19725.625, 19727.125],
    ),
    "days": (pd.Series([datetime.date(2024, 1, 1), None] * 2), "date", [19723, NAN] * 2),
    "arrow days": (pd.Series([datetime.date(2024, 1, 1), None] * 2, dtype=pd.ArrowDtype(pa.date32())), "date", None),
    "months": (pd.Series(pd.period_range("2024-01", periods=4, freq="M")), "date", [19723, 19754, 19783, 19814]),
    "durations": (pd.Series(pd.to_timedelta([12, 24, None, 0], unit="h")), "duration", [0.5, 1, NAN, 0]),
    "complex": (pd.Series([1j, 1, 1, 1]), "unusable", None),
    "lists": (pd.Series([[1], [2], [3], [4]]), "unusable", None),
}


@pytest.mark.parametrize(("column", "kind", "codes"), COLUMNS.values(), ids=COLUMNS)
def test_every_type_of_column_is_known_and_becomes_numbers(column, kind, codes):
    table = Table.wrap(pd.DataFrame({"a": column}))
    assert table.kind(0) == kind
    if codes is not None:
        np.testing.assert_array_equal(table.codes([0])[:, 0], np.array(codes, dtype=float))


def test_a_data_frame_of_dask_keeps_names_and_types():
    """It became an array, whose columns have no names by which new rows are read."""
    dask = pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame({"site": ["left", "right"] * 20, "dose": np.arange(40.0)})
    y = frame["dose"] + 20 * (frame["site"] == "left")
    model = MKLRegressor().fit(dask.from_pandas(frame, npartitions=3), y)
    np.testing.assert_array_equal(model.feature_names_in_, ["site", "dose"])
    np.testing.assert_allclose(model.predict(frame), MKLRegressor().fit(frame, y).predict(frame))


def test_text_is_told_from_categories(rng):
    notes = pd.Series([f"seen on day {i} by the doctor on duty {i % 7}" for i in range(40)])
    assert Table.wrap(notes.to_frame()).kind(0) == "text"
    many = pd.Series(rng.integers(0, 500, 1000)).map("site {}".format)
    assert Table.wrap(many.to_frame()).kind(0) == "category"
    assert Table.wrap(notes.astype("category").to_frame()).kind(0) == "category"  # the user knows better
    with pytest.raises(InvalidInputError, match="numbers as text in 40 rows, of which 1 are none, such as 'n/a'"):
        MKLClassifier().fit(pd.DataFrame({"a": [*map(str, range(39)), "n/a"]}), np.arange(40) % 2)


@pytest.fixture
def mixed(rng):
    n = 150
    stages = ["I", "II", "III", "IV"]
    return pd.DataFrame(
        {
            "age": rng.normal(50, 10, n),
            "smoker": rng.random(n) < 0.3,
            "city": rng.choice(["A", "B", "C"], n),
            "stage": pd.Categorical(rng.choice(stages, n), stages, ordered=True),
            "seen": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D"),
            "dose": pd.array(rng.integers(0, 9, n), dtype="Int64"),
        }
    )


def test_the_default_bank_chooses_by_type(mixed):
    bank = KernelBank.auto(mixed)
    names = bank.fit(mixed).names
    assert names == KernelBank.auto().fit(mixed).names
    kinds = {column: [name for name in names if name.startswith(f"{column}: ")] for column in [*mixed, "numbers"]}
    assert len(kinds["age"]) == len(kinds["dose"]) == len(kinds["numbers"]) == 4
    assert kinds["smoker"] == ["smoker: overlap()"]
    assert kinds["city"] == ["city: overlap()"]
    assert kinds["stage"] == ["stage: ordinal()"]
    assert [name.split("period=")[1].split(",")[0] for name in kinds["seen"][4:]] == ["365.243", "7"]
    assert "categories: overlap()" in names


def test_overlap_and_ordinal_are_their_definitions_and_new_categories_say_nothing(mixed):
    entries = [("city", Overlap(), "city"), ("stage", Ordinal(), "stage"), ("two", Overlap(), ["city", "smoker"])]
    bank = KernelBank(entries, normalize=None)
    fitted, rows = bank.fit_prepare(mixed)
    city, stage, smoker = mixed["city"].to_numpy(), mixed["stage"].cat.codes.to_numpy() / 3, mixed["smoker"].to_numpy()
    same = city[:, None] == city
    expected = [same, 1 - np.abs(stage[:, None] - stage), (same + (smoker[:, None] == smoker).astype(float)) / 2]
    np.testing.assert_allclose(fitted.block(rows, rows), np.array(expected, dtype=float), atol=1e-12)
    new = mixed.head(3).assign(city=["Z", "A", "Z"], smoker=True)
    cross = fitted.block(fitted.prepare(new), rows)
    assert not cross[0, [0, 2]].any()
    np.testing.assert_array_equal(cross[2, 0], smoker / 2)
    assert fitted.diag(fitted.prepare(new))[0].tolist() == [0.0, 1.0, 0.0]
    assert Overlap()([[UNSEEN]]).item() == 0.0


def test_a_mixed_table_is_learned_from_as_it_is(mixed, rng):
    score = (mixed["age"] - 50) / 10 + 2 * (mixed["city"] == "A") - mixed["stage"].cat.codes + 1
    y = np.where(score + 0.3 * rng.normal(size=len(mixed)) > 0, "ill", "well")
    model = MKLClassifier(alpha=0.005).fit(mixed[:100], y[:100])
    assert model.score(mixed[100:], y[100:]) > 0.8
    assert {"city: overlap()", "stage: ordinal()"} < set(model.weights_frame()["name"])
    as_text = mixed.assign(seen=mixed["seen"].astype(str), city=mixed["city"].astype("category"))
    np.testing.assert_allclose(model.decision_function(as_text), model.decision_function(mixed))
    other = MKLClassifier(alpha=0.005).fit(pa.Table.from_pandas(mixed[:100]), y[:100])
    np.testing.assert_allclose(other.decision_function(mixed), model.decision_function(mixed), atol=1e-8)


def test_dates_are_days_whatever_their_origin(mixed):
    later = mixed.assign(seen=mixed["seen"] + pd.Timedelta(days=7 * 300))
    bank = KernelBank.auto().replace(normalize="trace")
    first, second = (bank.fit_prepare(frame) for frame in (mixed, later))
    keep = [m for m, name in enumerate(first[0].names) if name.startswith("seen") and "365" not in name]
    blocks = [fitted.block(rows, rows, kernels=keep) for fitted, rows in (first, second)]
    np.testing.assert_allclose(*blocks, atol=1e-9)


def test_kernels_that_need_numbers_refuse_categories_in_every_composition():
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0], "city": ["A", "B", "A"]})
    assert KernelBank([Interaction(((Gaussian(1.0), (0,)), (Overlap(), (1,))))]).fit(frame).n_kernels == 1
    assert KernelBank([("k", 2 * Overlap() + Overlap() * Overlap(), ["city"])]).fit(frame).n_kernels == 1
    for spec in (
        Gaussian(1.0) * Overlap(),
        2 * Linear(),
        Interaction(((Overlap(), (0,)), (Linear(), (1,)))),
        Ordinal(),
    ):
        with pytest.raises(InvalidInputError, match="'city'"):
            KernelBank([("k", spec, ["a", "city"])]).fit(frame)
    with pytest.raises(InvalidInputError, match="missingness see gaps"):
        Missing() + Linear()
    with pytest.raises(InvalidInputError, match="missingness sees gaps"):
        Interaction(((Missing(), (0,)),))


def test_rows_of_a_table_remember_what_their_columns_are(mixed):
    table = Table.wrap(mixed)
    codes = table.codes(range(table.n_columns))
    few = np.array([3, 1])
    np.testing.assert_array_equal(table[few].codes(range(table.n_columns)), codes[few])
    assert table[few].encoding(2) == table.encoding(2)


NUMBERS = [f"{x:.1f}" for x in np.linspace(1, 99, 60)]


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ([*NUMBERS[:-1], "?"], r"'dose' \(60 values, such as '1\.0', beside '\?'\)"),
        ([f"{1000 * float(number):,.0f}" for number in NUMBERS], "such as '1,000'"),
        ([number.replace(".", ",") for number in NUMBERS], "such as '1,0'"),
        ([f"{number} %" for number in NUMBERS], "such as '1.0 %'"),
    ],
)
def test_numbers_that_are_written_as_text_are_pointed_out(texts: list[str], said: str) -> None:
    table = pd.DataFrame({"dose": texts * 2, "age": np.arange(120.0)})
    with pytest.warns(UserWarning, match=f"Numbers written as text.*{said}.*to_numeric") as caught:
        fitted = KernelBank.auto().fit(table)
    assert [warning.filename for warning in caught] == [__file__]
    assert fitted.names[-1] == "dose: overlap()"


@pytest.mark.parametrize(
    "texts",
    [
        NUMBERS[:20],  # a few levels may be numbers of groups
        [f"{k:05d}" for k in range(60)],  # zip codes
        [f"192.168.0.{k}" for k in range(60)],
        [f"{1 + k % 28}.12.2024" for k in range(60)],
        [*NUMBERS[:20], *(f"code {k}" for k in range(40))],
    ],
)
def test_codes_and_few_levels_are_categories(texts: list[str]) -> None:
    table = pd.DataFrame({"group": texts * 2, "age": np.arange(2.0 * len(texts))})
    KernelBank.auto().fit(table)  # warnings are errors here
    KernelBank.auto().fit(pd.DataFrame({"dose": pd.Categorical(NUMBERS * 2), "age": np.arange(120.0)}))


def test_dictionaries_of_arrow_are_categories() -> None:
    column = pd.Series(["a", "b", None, "a"], dtype=pd.ArrowDtype(pa.dictionary(pa.int32(), pa.string())))
    assert kind_of(column) == "category"
    table = pd.DataFrame({"site": pd.concat([column.dropna()] * 10, ignore_index=True)})
    plain = pd.DataFrame({"site": pd.Categorical(table["site"].to_list())})
    y = np.tile([1.0, 0.0, 1.0], 10)
    np.testing.assert_allclose(
        MKLRegressor(alpha=0.01).fit(table, y).predict(table), MKLRegressor(alpha=0.01).fit(plain, y).predict(plain)
    )
