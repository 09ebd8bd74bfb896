"""Tables are read in every dialect, and what cannot be used is named."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from manykernels import InvalidInputError
from manykernels.cli import tables
from manykernels.cli.tables import identifiers, read_chunks, read_table, usable_features, write_table
from manykernels.cli.targets import split_columns
from manykernels.kernels.tables.encoding import Encoding
from manykernels.kernels.tables.kinds import kind_of

FRAME = pd.DataFrame({"a": [1.5, 2.0, -3.25], "name of b": [1, 2, 3], "c": ["x", "y, z", "w"]})


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"sep": ";"},
        {"sep": "\t"},
        {"sep": "|"},
        {"sep": ";", "decimal": ","},
        {"encoding": "utf-8-sig"},
        {"encoding": "utf-16", "sep": "\t"},
        {"lineterminator": "\r\n"},
    ],
)
def test_dialects_of_csv(options: dict[str, Any], tmp_path: Path) -> None:
    FRAME.to_csv(tmp_path / "data.csv", index=False, **options)
    pd.testing.assert_frame_equal(read_table(tmp_path / "data.csv"), FRAME)


@pytest.mark.parametrize("name", ["data.csv.gz", "data.parquet", "data.tsv"])
def test_files_by_ending(name: str, tmp_path: Path) -> None:
    if name.endswith("gz"):
        FRAME.to_csv(tmp_path / name, index=False)
    else:
        write_table(FRAME, tmp_path / name)
    pd.testing.assert_frame_equal(read_table(tmp_path / name), FRAME)


@pytest.mark.parametrize("name", ["data.csv", "data.csv.gz"])
def test_encodings_are_taken_as_they_are_named(name: str, tmp_path: Path) -> None:
    frame, path = FRAME.assign(place=["Orléans", "Köln", "Łódź"]), tmp_path / name
    frame.to_csv(path, index=False, encoding="cp1250")
    pd.testing.assert_frame_equal(read_table(path, "cp1250"), frame)
    parts = pd.concat(read_chunks(path, 2, "cp1250"), ignore_index=True)
    pd.testing.assert_frame_equal(parts, frame)
    for encoding, message in (("nonsense", "--encoding: unknown encoding: nonsense"), ("ascii", "no text in ascii")):
        with pytest.raises(InvalidInputError, match=message):
            read_table(path, encoding)


def test_one_column_is_a_table(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("a\n1\n2\n")
    assert read_table(tmp_path / "data.csv")["a"].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (b"a,b\n", "has no rows"),
        (b"a,b,a\n1,2,3\n", "must differ, but 'a' appear twice"),
        (b"a,b\n1,2\n1,2,3,4\n", "cannot be read as CSV.*Expected 2 fields in line 3, saw 4|loss of data"),
        (
            b"a,b\n1,2\ncaf\xe9,2\n",
            "line 3 has the byte 0xE9, 'é' in Windows' cp1252.*--encoding cp1252",
        ),
        ("a,b\n1,2\n".encode("utf-16-le"), "holds zero bytes, as texts in UTF-16 .*--encoding utf-16-le"),
        (b"\xff\xfea", "no text in utf-16: .*truncated data.*another --encoding"),
        (b"PK\x03\x04\x14\x00\x06\x00\x08\x00\xe9\n", "is a workbook or packed.*Save its table as CSV"),
        (b'a,b\n"1,2\n', "cannot be read as CSV"),
    ],
)
def test_files_that_are_no_tables(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_bytes(content)
    with pytest.raises(InvalidInputError, match=message):
        read_table(tmp_path / "data.csv")


@pytest.mark.parametrize("sep", [",", ";", "\t"])
def test_lines_of_any_length_are_read(sep: str, tmp_path: Path) -> None:
    """The csv module alone takes no field of more than 131,072 signs."""
    values = np.random.default_rng(0).normal(size=(3, 1_000))
    frame = pd.DataFrame(values, columns=[f"gene {i} " + 130 * "x" for i in range(1_000)])
    frame.to_csv(tmp_path / "data.csv", index=False, sep=sep, float_format="%.17g")
    assert (tmp_path / "data.csv").read_text().index("\n") > 131_072
    pd.testing.assert_frame_equal(read_table(tmp_path / "data.csv"), frame)


def test_lines_longer_than_the_sample_are_read(tmp_path: Path) -> None:
    names = [f"{i:05d}" + "x" * 9_995 for i in range(450)]
    text = ";".join(names) + "\n" + ";".join(["1,5"] * 450) + "\n"
    (tmp_path / "data.csv").write_text(text)
    frame = read_table(tmp_path / "data.csv")
    assert list(frame.columns) == names
    (tmp_path / "data.csv").write_text(text.replace(names[-1], names[0]))
    with pytest.raises(InvalidInputError, match="must differ"):
        read_table(tmp_path / "data.csv")


def test_small_files_that_unfold_into_gigabytes_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "LEAST_LIMIT", 10**6)
    with gzip.open(tmp_path / "bomb.csv.gz", "wb") as file:
        file.write(b"a,b\n" + b"0,0\n" * 1_000_000)
    with pytest.raises(InvalidInputError, match="unfolds into more than 1 MB, 100 times its size"):
        read_table(tmp_path / "bomb.csv.gz")
    with gzip.open(tmp_path / "cut.csv.gz", "wb") as file:
        file.write(b"a,b\n" + b"0,0\n" * 100)
    (tmp_path / "cut.csv.gz").write_bytes((tmp_path / "cut.csv.gz").read_bytes()[:-12])
    with pytest.raises(InvalidInputError, match="cannot be read as CSV"):
        read_table(tmp_path / "cut.csv.gz")


def test_parquet_that_unfolds_into_gigabytes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pd.DataFrame({"a": np.zeros(100_000)}).to_parquet(tmp_path / "zeros.parquet")
    assert (tmp_path / "zeros.parquet").stat().st_size < 100_000
    monkeypatch.setattr(tables, "memory_bytes", lambda budget: 500_000)
    with pytest.raises(InvalidInputError, match="holds 100000 rows of 1 columns"):
        read_table(tmp_path / "zeros.parquet")


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("=1+1", "'=1+1"),
        ("@cmd", "'@cmd"),
        ("+A1", "'+A1"),
        ("-A1", "'-A1"),
        ("\tx", "'\tx"),
        ("-1.5e3", "-1.5e3"),
        ("+41", "+41"),
        ("plain = text", "plain = text"),
    ],
)
def test_no_text_of_csv_is_a_formula(text: str, safe: str, tmp_path: Path) -> None:
    frame = pd.DataFrame({text: [text, None], "number": [-1.5, 2.0]})
    write_table(frame, tmp_path / "out.csv")
    found = pd.read_csv(tmp_path / "out.csv", dtype={safe: str})
    assert list(found.columns) == [safe, "number"]
    assert found[safe][0] == safe
    assert found["number"].tolist() == [-1.5, 2.0]
    write_table(frame, tmp_path / "out.parquet")
    assert pd.read_parquet(tmp_path / "out.parquet")[text][0] == text


def test_files_of_another_kind(tmp_path: Path) -> None:
    (tmp_path / "data.parquet").write_text("a,b\n1,2\n")
    with pytest.raises(InvalidInputError, match="cannot be read as Parquet"):
        read_table(tmp_path / "data.parquet")
    with pytest.raises(InvalidInputError, match="There is no file"):
        read_table(tmp_path / "nothing.csv")


def test_parquet_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    FRAME.to_parquet(tmp_path / "data.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InvalidInputError, match=r"pip install 'manykernels\[parquet\]'"):
        read_table(tmp_path / "data.parquet")


def test_everything_that_cannot_be_used_is_said_at_once() -> None:
    frame = pd.DataFrame(
        {
            "city": ["x", "y"] * 20,
            "key": [f"k{i}" for i in range(40)],
            "size": [*map(str, range(39)), "?"],
            "gap": [np.nan, 1.0] * 20,
            "high": [np.inf, 1.0] * 20,
        }
    )
    with pytest.raises(InvalidInputError) as error:
        usable_features(frame)
    text, gaps, infinite = str(error.value).split("\n")
    assert text.startswith("2 columns are text that is no category")
    assert "'key' (a different value in each row, such as 'k0': an identifier?)" in text
    assert "'size' (numbers as text in 40 rows, of which 1 are none, such as '?'" in text
    assert text.endswith("--drop key --drop size")
    assert "'gap' (20 of 40 rows)" in gaps
    assert "'high' (20 of 40 rows)" in infinite
    assert "'city'" not in str(error.value)
    with pytest.raises(InvalidInputError, match="1 column has infinite values"):
        usable_features(frame[["gap", "high"]], missing="mask")


def test_texts_that_are_all_dates_become_dates() -> None:
    frame = pd.DataFrame(
        {"day": ["2024-01-31", None], "time": ["2024-01-31T12:30", "2024-02-01 00:00:01"], "no": "2024"}
    )
    found = usable_features(frame, missing="mask")
    assert [kind_of(found[name]) for name in found] == ["date", "date", "category"]
    assert found["time"][0] == pd.Timestamp("2024-01-31 12:30")


def test_dates_with_dots_are_dates_with_the_day_first() -> None:
    texts = pd.Series(["03.04.2024", " 31.12.2023", None, "1.2.2024"])
    found = usable_features(pd.DataFrame({"day": texts, "no": "3.13.2024"}), missing="mask")
    assert [kind_of(found[name]) for name in found] == ["date", "category"]
    assert found["day"][0] == pd.Timestamp(2024, 4, 3)
    # A model reads the text of new tables as what it was fitted on.
    assert Encoding("date").encode(texts).tolist()[:2] == Encoding("date").encode(found["day"]).tolist()[:2]


def test_dates_that_can_be_read_in_two_ways_are_refused() -> None:
    frame = pd.DataFrame({"day": ["03/04/2024", None, "12/11/2023"], "ratio": ["1/2", "3/4", "1/2"]})
    with pytest.raises(InvalidInputError, match=r"1 column holds dates .* 'day' \(such as '03/04/2024'\).*--drop day"):
        usable_features(frame, missing="mask")
    assert list(usable_features(frame[["ratio"]])) == ["ratio"]


@pytest.mark.parametrize(
    ("texts", "first"),
    [
        (["2012/01/02", "2012/12/31"], pd.Timestamp(2012, 1, 2)),
        (["17-08-1984", "03-04-1985"], pd.Timestamp(1984, 8, 17)),
        (["03/04/2024", "12/31/2023"], pd.Timestamp(2024, 3, 4)),
        (["2024-03-01 08:00:00-08:00", "2024-03-01T00:00Z"], pd.Timestamp(2024, 3, 1, 16, tz="UTC")),
    ],
)
def test_the_whole_column_settles_how_its_dates_are_written(texts: list[str], first: pd.Timestamp) -> None:
    found = usable_features(pd.DataFrame({"day": [*texts, None]}), missing="mask")
    assert found["day"][0] == first
    assert kind_of(found["day"]) == ("date" if first.tz is None else "instant")


@pytest.mark.parametrize("missing", [np.nan, None, pd.NA])
def test_missing_values_are_counted(missing: Any) -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b b": [1.0, missing, missing]})
    frame["b b"] = frame["b b"].astype("Float64")
    with pytest.raises(InvalidInputError, match=r"'b b' \(2 of 3 rows\).*--drop 'b b'.*--drop-missing"):
        usable_features(frame)


def test_infinite_values_are_named() -> None:
    with pytest.raises(InvalidInputError, match=r"1 column has infinite values: 'b'.*--drop b"):
        usable_features(pd.DataFrame({"a": [1.0, 2.0], "b": [np.inf, 1.0]}))


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("n", range(5, 25), True),
        ("customer_id", np.random.default_rng(0).permutation(1000)[:20], True),
        ("age", np.random.default_rng(0).permutation(1000)[:20], False),
        ("id", np.linspace(0, 1, 20), False),
        ("id", [1, 2] * 10, False),
        ("width", range(3), False),
    ],
)
def test_row_numbers_are_recognized(name: str, values: Any, expected: bool) -> None:
    assert identifiers(pd.DataFrame({name: list(values)})) == [name] * expected


@pytest.mark.parametrize(
    ("values", "task"),
    [
        (["a", "b"] * 10, "classification"),
        ([True, False] * 10, "classification"),
        ([1.5, 2.5] * 10, "classification"),
        ([1, 2, 3, 4] * 5, "classification"),
        ([1.0, 2.5, 3.0, 4.0] * 5, "regression"),
        (list(range(20)), "regression"),
    ],
)
def test_the_task_is_seen_from_the_target(values: list[Any], task: str) -> None:
    frame = pd.DataFrame({"x": np.arange(20) % 7, "y": values})
    assert split_columns(frame, "y").task == task


def test_labels_keep_their_kind() -> None:
    frame = pd.DataFrame({"x": [0.5, 1.5, 2.5], "y": [1.0, 2.0, np.nan]})
    found = split_columns(frame, "y")
    assert found.target.tolist() == [1, 2]
    assert found.target.dtype.kind == "i"
    assert found.notes == ("1 of 3 rows have no 'y' and are left out.",)


def test_rows_with_gaps_are_left_out_on_request() -> None:
    frame = pd.DataFrame({"x": [0.5, np.nan, 2.5, 3.0], "z": [1.0, 2.0, np.nan, 0.0], "y": ["a", "b", "c", "b"]})
    found = split_columns(frame, "y", drop_missing=True)
    assert found.features["x"].tolist() == [0.5, 3.0]
    assert found.target.tolist() == ["a", "b"]
    assert "2 of 4 rows have missing values" in found.notes[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "Y"}, "--target: there is no column 'Y'"),
        ({"target": "Y", "event": "y"}, "--time: there is no column 'Y'"),
        ({"target": "yy"}, "did you mean 'y'"),
        ({"drop": ["z"]}, "--drop: there is no column 'z'"),
        ({"ids": ["z"]}, "--id: there is no column 'z'"),
        ({"drop": ["y"]}, "target 'y' cannot be left out"),
        ({"drop": ["x"]}, "No columns are left"),
        ({"target": "x", "task": "regression", "drop": ["y"]}, "No columns are left"),
        ({"task": "regression"}, "numeric target, but 'y' holds 'a'"),
    ],
)
def test_wrong_columns_are_named(options: dict[str, Any], message: str) -> None:
    frame = pd.DataFrame({"x": [1.0, 2.0], "y": ["a", "b"]})
    with pytest.raises(InvalidInputError, match=message):
        split_columns(frame, **{"target": "y", **options})


def test_text_that_is_different_in_each_row_is_no_class() -> None:
    frame = pd.DataFrame({"x": np.arange(20.0) ** 2, "y": [f"name {i}" for i in range(20)]})
    with pytest.raises(InvalidInputError, match="a different text in each row"):
        split_columns(frame, "y")
