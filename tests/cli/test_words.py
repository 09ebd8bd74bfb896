"""Words of a CSV that are missing values or levels; and a file that is read in one way by every command."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from manykernels import load_model
from manykernels.cli.tables import read_chunks, read_table, usable_features
from manykernels.cli.words import MissingWords

Runner = Callable[..., Any]
ALPHA = ("--alpha", 0.01, "--test-size", 0)


def table_of(n: int) -> pd.DataFrame:
    """Return a table with each kind of column, as text that a spreadsheet writes."""
    rng = np.random.default_rng(0)
    days = pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 700, size=n), unit="D")
    hours = pd.Timestamp("2024-03-01 00:00", tz="UTC") + pd.to_timedelta(rng.integers(0, 900, size=n), unit="h")
    zoned = [t.tz_convert("America/Los_Angeles" if k % 2 else "Asia/Tokyo") for k, t in enumerate(hours)]
    frame = pd.DataFrame({
        "code": rng.choice(["1", "2", "3", "A"], size=n),
        "lead": rng.choice(["01", "02", "1", "x"], size=n),
        "severity": rng.choice(["None", "mild", "NA"], size=n),
        "flag": rng.choice([True, False], size=n),
        "day": days.strftime("%d/%m/%Y"),
        "iso": days.strftime("%Y/%m/%d"),
        "instant": [t.isoformat(sep=" ") for t in zoned],
        "age": rng.integers(20, 60, size=n).astype(str),
    })  # fmt: skip
    frame.loc[::9, "age"] = "NA"
    office = pd.Series(hours.hour).between(9, 17).to_numpy()
    signal = frame["code"].isin(["1", "A"]).to_numpy() + 2.0 * office + (frame["severity"] == "None") + frame["flag"]
    return frame.assign(y=signal + days.month / 6 + 0.1 * rng.normal(size=n))


@pytest.mark.parametrize("n", [60, 700, 2500])
def test_a_file_is_read_alike_whole_in_parts_and_with_other_types(run: Runner, tmp_path: Path, n: int) -> None:
    frame, data, model = table_of(n), tmp_path / "data.csv", tmp_path / "m.mkl"
    frame.to_csv(data, index=False)
    assert run("fit", data, "--target", "y", "--missing", "mask", *ALPHA, "-o", model).code == 0

    def predicted(rows: pd.DataFrame, *words: object, ending: str = "csv") -> Any:
        path, out = tmp_path / f"rows.{ending}", tmp_path / "out.csv"
        rows.to_parquet(path) if ending == "parquet" else rows.to_csv(path, index=False)
        done = run("predict", model, path, "-o", out, "--force", *words)
        assert done.code == 0, done.err
        return pd.read_csv(out)["prediction"].to_numpy()

    rows = frame.head(120).drop(columns="y")
    expected = predicted(rows)
    read = usable_features(read_table(data), missing="mask").drop(columns="y").head(120)
    np.testing.assert_allclose(load_model(model).predict(read), expected, rtol=1e-9)
    for size in (7, 50):
        np.testing.assert_allclose(predicted(rows, "--chunk-rows", size), expected, rtol=1e-9)
    some = (rows["code"] != "A") & ~rows["lead"].isin(["x", "01", "02"]) & (rows["severity"] != "mild")
    few = some & (rows["day"].str[:2].astype(int) <= 12)  # in which no day settles the order
    for part in (some, few):
        np.testing.assert_allclose(predicted(rows[part]), expected[part], rtol=1e-9)
        np.testing.assert_allclose(predicted(rows[part], "--chunk-rows", 3), expected[part], rtol=1e-9)
    whole = rows[some].assign(code=rows["code"][some].astype(float), lead=1, flag=rows["flag"][some].astype(int))
    typed = whole.assign(
        day=pd.to_datetime(whole["day"], format="%d/%m/%Y"),
        instant=pd.to_datetime(whole["instant"], format="ISO8601", utc=True),
        age=pd.to_numeric(whole["age"], errors="coerce"),
    )
    np.testing.assert_allclose(predicted(typed, ending="parquet"), expected[some], rtol=1e-9)
    np.testing.assert_allclose(predicted(typed), expected[some], rtol=1e-9)


def test_scores_of_a_fit_on_utc_offsets_are_those_of_its_predictions(run: Runner, tmp_path: Path) -> None:
    frame = table_of(700)[["instant"]]
    hours = pd.to_datetime(frame["instant"], format="ISO8601", utc=True).dt.hour
    frame["office"] = hours.between(9, 17).map({True: "yes", False: "no"})
    frame.to_csv(tmp_path / "data.csv", index=False)
    assert run("fit", tmp_path / "data.csv", "--target", "office", "-o", tmp_path / "m.mkl").code == 0
    done = run("predict", tmp_path / "m.mkl", tmp_path / "data.csv", "-o", tmp_path / "out.csv")
    assert done.code == 0
    assert np.mean(pd.read_csv(tmp_path / "out.csv")["prediction"] == frame["office"]) > 0.9


def test_words_are_levels_among_text_and_gaps_among_numbers(tmp_path: Path) -> None:
    path, notes = tmp_path / "data.csv", list[str]()
    path.write_text(
        "severity,age,day,seen,note\nNone,3,2024-01-31,True,NULL\nmild,NA,None,NA,b\nsevere,n/a,2024-02-01,False,\n"
        "NA,,,,NaN\n"
    )
    found = read_table(path, note=notes.append)
    assert found["severity"].tolist() == ["None", "mild", "severe", "NA"]
    assert found["age"].isna().tolist() == [False, True, True, True]
    assert found["age"].dtype.kind == "f"
    assert found["day"].isna().tolist() == [False, True, False, True]
    assert found["seen"].tolist()[::2] == [True, False]
    assert found["note"].isna().tolist() == [True, False, True, True]
    assert len(notes) == 2
    for words in ("'NA' in 'age' (1 rows)", "'n/a' in 'age'", "'None' in 'day'", "'NA' in 'seen'", "'NULL' in 'note'"):
        assert words in notes[0]
    assert notes[1] == (
        "Words kept as levels: 'None' in 'severity' (1 rows); 'NA' in 'severity' (1 rows). To read them as missing "
        "values: --na None --na NA"
    )
    asked = read_table(path, words=MissingWords(("NA", "mild")))
    assert asked["severity"].isna().tolist() == [False, True, False, True]


def test_a_model_names_the_levels_that_are_not_missing(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("code,age\n1,NA\nNone,2\nNA,3\n")
    words = MissingWords(levels={"code": ("1", "None", "A")})
    for frame in (read_table(path, words=words), pd.concat(read_chunks(path, 1, words=words))):
        assert frame["code"].tolist()[:2] == ["1", "None"]
        assert frame["code"].isna().tolist() == [False, False, True]
        assert pd.to_numeric(frame["age"]).isna().tolist() == [True, False, False]


def test_classes_called_none_are_learned_and_predicted(run: Runner, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    severity = rng.choice(["None", "mild", "severe"], size=150)
    x = np.array([{"None": 0.0, "mild": 3.0, "severe": 6.0}[own] for own in severity]) + rng.normal(size=150)
    pd.DataFrame({"x": x, "severity": severity}).to_csv(tmp_path / "data.csv", index=False)
    done = run("fit", tmp_path / "data.csv", "--target", "severity", *ALPHA, "-o", tmp_path / "m.mkl")
    assert done.code == 0
    assert "'None' in 'severity' (" in done.err
    assert load_model(tmp_path / "m.mkl").classes_.tolist() == ["None", "mild", "severe"]
    done = run("predict", tmp_path / "m.mkl", tmp_path / "data.csv", "-o", tmp_path / "out.csv")
    assert "Against the column 'severity'" in done.err
    found = pd.read_csv(tmp_path / "out.csv", keep_default_na=False)["prediction"]
    assert np.mean(found == severity) > 0.8
    asked = run("fit", tmp_path / "data.csv", "--target", "severity", "--na", "None", *ALPHA, "-o", tmp_path / "n.mkl")
    assert "rows have no 'severity'" in asked.err
    assert load_model(tmp_path / "n.mkl").classes_.tolist() == ["mild", "severe"]


def test_unnamed_row_numbers_are_left_out_and_names_are_reported(run: Runner, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=60), "who": [f"person {k % 40}" for k in range(60)]})
    frame["class"] = np.repeat(["a", "b"], 30)
    frame.to_csv(tmp_path / "data.csv")
    found = run("fit", tmp_path / "data.csv", "--target", "class", *ALPHA, "-o", tmp_path / "m.mkl", "--json").json
    assert found["features"] == ["x", "who"]
    assert any("The first column has no name and numbers the rows" in note for note in found["notes"])
    assert any("'who' names rows: most of its texts occur once. To leave out: --id 'who'" in n for n in found["notes"])
    done = run("predict", tmp_path / "m.mkl", tmp_path / "data.csv", "-o", tmp_path / "out.csv")
    assert done.code == 0
    named = frame.assign(number=range(60))
    named.to_csv(tmp_path / "named.csv", index=False)
    assert "number" in run("fit", tmp_path / "named.csv", "--target", "class", *ALPHA, "-o", tmp_path / "k.mkl").err


def test_unseen_levels_are_reported_once_for_a_file_in_parts(run: Runner, tmp_path: Path) -> None:
    frame = table_of(60)[["code", "y"]]
    frame.to_csv(tmp_path / "data.csv", index=False)
    assert run("fit", tmp_path / "data.csv", "--target", "y", *ALPHA, "-o", tmp_path / "m.mkl").code == 0
    frame.assign(code="level " + frame["code"]).to_csv(tmp_path / "new.csv", index=False)
    words = ("predict", tmp_path / "m.mkl", tmp_path / "new.csv", "-o", tmp_path / "out.csv", "--force")
    for options in ((), ("--chunk-rows", 7)):
        done = run(*words, *options)
        assert done.code == 0
        assert done.err.count("are levels that the model was not fitted on: 'code' (") == 1


def test_strata_and_classes_of_text_are_read_as_text_in_parts(run: Runner, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=90), "site": rng.choice(["01", "1", "x"], size=90)})
    frame = frame.assign(time=rng.exponential(size=90) + 0.01, seen=rng.choice([0, 1], size=90))
    data, model, out = tmp_path / "data.csv", tmp_path / "m.mkl", tmp_path / "out.csv"
    frame.to_csv(data, index=False)
    assert run("fit", data, "--time", "time", "--event", "seen", "--strata", "site", *ALPHA, "-o", model).code == 0
    found = []
    for rows in (frame, frame[frame["site"] != "x"]):
        rows.drop(columns=["time", "seen"]).to_csv(tmp_path / "rows.csv", index=False)
        for words in ((), ("--chunk-rows", 4)):
            done = run("predict", model, tmp_path / "rows.csv", "-o", out, "--force", "--at", 0.5, *words)
            assert done.code == 0, done.err
            found.append(pd.read_csv(out))
    known = (frame["site"] != "x").to_numpy()
    pd.testing.assert_frame_equal(found[0], found[1])
    pd.testing.assert_frame_equal(found[0][known].reset_index(drop=True), found[2])
    pd.testing.assert_frame_equal(found[2], found[3])
    renamed = frame.rename(columns={"seen": "censored"})
    renamed.to_csv(data, index=False)
    done = run("fit", data, "--time", "time", "--event", "censored", *ALPHA, "-o", tmp_path / "n.mkl")
    assert done.code == 1
    assert "--event: the column 'censored' is named after censored samples" in done.err
