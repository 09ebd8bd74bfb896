"""Exported files of tables with hostile names: nothing is executed, nothing is mistaken for something else."""

import csv
import sqlite3
from itertools import product

import numpy as np
import pandas as pd
import pytest

from manykernels import KernelBank, MKLClassifier, MKLRegressor
from manykernels.exceptions import IncompatibleError
from manykernels.inspection import export_model
from manykernels.kernels import Gaussian, Linear, Overlap

NAMES = [
    "dose\n; DROP TABLE data; --", "weight\n(kg)", "a; DELETE FROM data; --", "-- x", "*/ x /*", 'say "no"', "it's",
    "nul\0x", "next\u2028line\u2029", "\x85next", "\u202egnp.exe", "carriage\rreturn", "", "prediction", "scores",
    "probabilities", "X", "value_0", "constant_1", "score", "Score", "=1+1", "tab\tx", '"""', "'''", "\\", "\\u0000",
    "列", "%s", "{x}", "?", ":x", "cell", "s0", "rows_given", "term_1",
]  # fmt: skip


def fitted(name, other="other"):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({name: rng.normal(size=60), other: rng.normal(size=60)})
    model = MKLRegressor(KernelBank.per_feature(widths=[1.0]), alpha=1e-3).fit(X, np.sin(X[name]) + X[other])
    return model, X


def in_sqlite(told, X, extra=()):
    """Run a statement on a table in a database with a second one, and return its rows as lists, with the names."""
    fields = ["nr", *X, *extra]
    quoted = ['"' + name.replace('"', '""') + '"' for name in fields]
    with sqlite3.connect(":memory:") as base:
        base.execute("CREATE TABLE victim (x)")
        base.execute(f"CREATE TABLE data ({', '.join(quoted)})")
        rows = [[at, *row, *[1e6] * len(extra)] for at, row in enumerate(X.to_numpy(dtype=object).tolist())]
        base.executemany(f"INSERT INTO data VALUES ({', '.join('?' * len(fields))})", rows)
        cursor = base.execute(told.path.read_text(encoding="utf-8"))
        found, names = sorted(cursor.fetchall()), [part[0] for part in cursor.description]
        tables = {row[0] for row in base.execute("SELECT name FROM sqlite_master")}
        assert tables == {"victim", "data"}
        assert base.execute("SELECT count(*) FROM data").fetchone()[0] == len(X)
    return [row[len(fields) :] for row in found], names[len(fields) :]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_a_name_is_only_a_name(name, tmp_path):
    """A name with a line break ended its comment, and the rest of it was executed."""
    model, X = fitted(name)
    expected = model.predict(X)
    told, module = export_model(model, tmp_path / "model.py"), {}
    exec(told.path.read_text(encoding="utf-8"), module)
    np.testing.assert_allclose(module["predict"](X), expected, atol=told.max_error)
    if name in ("", "nul\0x", "carriage\rreturn"):
        with pytest.raises(IncompatibleError, match=r"NUL character|empty name"):
            export_model(model, tmp_path / "model.sql")
    else:
        told = export_model(model, tmp_path / "model.sql")
        found, _ = in_sqlite(told, X)
        np.testing.assert_allclose([row[0] for row in found], expected, atol=told.max_error)
    told = export_model(model, tmp_path / "card.csv")
    with open(told.path, encoding="utf-8", newline="") as file:
        cells = [cell for line in csv.reader(file) for cell in line]
    assert not [cell for cell in cells if cell[:1] in tuple("=@\t\r\n") and cell]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_a_graph_of_any_names_loads(name, tmp_path):
    """Columns called as an output, or with an empty name, made files that no runtime loads."""
    runtime = pytest.importorskip("onnxruntime")
    model, X = fitted(name)
    told = export_model(model, tmp_path / "model.onnx")
    session = runtime.InferenceSession(str(told.path), providers=["CPUExecutionProvider"])
    assert set(told.names) == set(X)
    feed = {told.names[column]: X[[column]].to_numpy() for column in X}
    np.testing.assert_allclose(session.run(["prediction"], feed)[0], model.predict(X), atol=told.max_error)


def test_a_name_takes_no_input_of_another(tmp_path):
    model, _ = fitted("prediction", "x0")
    assert export_model(model, tmp_path / "model.onnx").names == {"prediction": "x0_", "x0": "x0"}


TABLES = ["data; DROP TABLE data; --", 'say "no"', "term_1", "days_1", "rows_given", "scored", "model_term_1", "select"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("table", TABLES)
def test_the_table_may_have_any_name(table, tmp_path):
    model, X = fitted("x")
    X = X.assign(nr=np.arange(60))
    statement = export_model(model, tmp_path / "model.sql", table=table).path.read_text()
    with sqlite3.connect(":memory:") as base:
        X.to_sql(table, base, index=False)
        found = pd.read_sql_query(statement, base).sort_values("nr")
    np.testing.assert_allclose(found["score"], model.predict(X[["x", "other"]]), atol=1e-5)


@pytest.mark.parametrize("table", ["", "a\0b"])
def test_a_table_without_a_name_is_refused(table, tmp_path):
    with pytest.raises(IncompatibleError, match="choose another name"):
        export_model(fitted("x")[0], tmp_path / "model.sql", table=table)


EXTRA = ["score", "Score", "SCORE", "prediction", "s0", "top", "score_a", "probability_a"]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("n_classes", "extra"), list(product([0, 2, 3], EXTRA)))
def test_no_column_of_the_table_is_taken_for_a_score(n_classes, extra, tmp_path):
    """A column ``score`` replaced the model's: 51 to 68 % of classes were wrong."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(90, 2)), columns=["x", "z"])
    score = np.sin(2 * X["x"]) + X["z"]
    names = np.array(["a", "A", "b"], dtype=object)
    bank = KernelBank.per_feature(widths=[1.0])
    if n_classes:
        y = names[np.digitize(score, np.quantile(score, [0.5] if n_classes == 2 else [0.3, 0.6]))]
        model = MKLClassifier(bank, alpha=1e-3).fit(X, y)
    else:
        model = MKLRegressor(bank, alpha=1e-3).fit(X, score)
    told = export_model(model, tmp_path / "model.sql")
    found, added = in_sqlite(told, X, [extra])
    expected = model._scores(X)
    k = expected.shape[1]
    np.testing.assert_allclose([row[:k] for row in found], expected, atol=told.max_error)
    assert added == list(told.names.values())
    assert len({name.casefold() for name in added}) == len(added)
    if n_classes:
        assert [row[k] for row in found] == model.predict(X).tolist()
        probabilities = np.array([row[k + 1 :] for row in found], dtype=float)
        np.testing.assert_allclose(probabilities, model.predict_proba(X)[:, -probabilities.shape[1] :], atol=1e-5)


@pytest.mark.parametrize("name", ["score", "Score", "prediction"])
def test_a_column_that_the_model_knows_keeps_its_name(name, tmp_path):
    model, X = fitted(name)
    told = export_model(model, tmp_path / "model.sql")
    found, added = in_sqlite(told, X)
    assert name.lower() not in [each.lower() for each in added]
    assert told.names[name.lower()] == f"model_{name.lower()}"
    np.testing.assert_allclose([row[0] for row in found], model.predict(X), atol=told.max_error)


def test_columns_that_sql_takes_for_one_are_refused(tmp_path):
    model, _ = fitted("Dose", "dose")
    with pytest.raises(IncompatibleError, match=r"SQL does not distinguish the columns 'Dose' and 'dose'\."):
        export_model(model, tmp_path / "model.sql")
    export_model(model, tmp_path / "model.py")


def test_a_card_has_no_formulas(tmp_path):
    X = pd.DataFrame({"=cmd|' /C calc'!A0": np.tile(["=1+1", "@SUM(A1)", "-2+3", "plain"], 20)})
    model = MKLRegressor(KernelBank.per_feature(Overlap()), alpha=1e-3).fit(X, np.tile([1.0, 2, 3, 4], 20))
    card = pd.read_csv(export_model(model, tmp_path / "card.csv").path)
    assert card["column"].dropna().unique().tolist() == ["'=cmd|' /C calc'!A0"]
    assert {"'=1+1", "'@SUM(A1)", "'-2+3", "plain"} <= set(card["level"].dropna())


@pytest.mark.parametrize("ending", [".py", ".onnx", ".sql"])
def test_levels_are_only_texts(ending, tmp_path):
    levels = ["it's", 'a"b', "x'); DROP TABLE data; --", "line\nbreak", "", "NULL", "None"]
    X = pd.DataFrame({"level": np.tile(np.array(levels, dtype=object), 12), "x": np.arange(84.0)})
    bank = KernelBank([("level", Overlap(), ["level"]), ("x", Linear(), ["x"]), ("g", Gaussian(30.0), ["x"])])
    model = MKLRegressor(bank, alpha=1e-4).fit(X, np.tile(np.arange(7.0), 12))
    told = export_model(model, tmp_path / f"model{ending}")
    assert told.max_error < 1e-4
    if ending == ".sql":
        found, _ = in_sqlite(told, X)
        np.testing.assert_allclose([row[0] for row in found], model.predict(X), atol=told.max_error)


def test_a_level_that_a_statement_cannot_hold_is_refused(tmp_path):
    X = pd.DataFrame({"level": np.tile(["a\0b", "c"], 30)})
    model = MKLRegressor(KernelBank.per_feature(Overlap()), alpha=1e-4).fit(X, np.tile([0.0, 1.0], 30))
    with pytest.raises(IncompatibleError, match="holds a NUL character"):
        export_model(model, tmp_path / "model.sql")
