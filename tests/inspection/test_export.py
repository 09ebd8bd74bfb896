"""Exported models: what other programs compute from the files, beside what the models predict."""

import csv
import sqlite3
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest

from manykernels import KernelBank, MKLClassifier, MKLRegressor, MKLSurvival, survival_array
from manykernels.exceptions import IncompatibleError, InvalidInputError
from manykernels.inspection import export_model
from manykernels.inspection.export import evaluate
from manykernels.inspection.export.extraction import program_of
from manykernels.kernels import (
    ArdGaussian,
    Binned,
    ChiSquared,
    ColumnPower,
    Cosine,
    Gaussian,
    Interaction,
    Landmarks,
    Laplacian,
    Linear,
    Matern,
    Overlap,
    Periodic,
    Polynomial,
)

EPOCH, DAY = pd.Timestamp("1970-01-01"), pd.Timedelta(days=1)
N = 150


def numbers(seed=0):
    return np.random.default_rng(seed).normal(size=(N, 3))


def wave(X):
    return np.sin(2 * X[:, 0]) + X[:, 1]


def mixed(seed=0, *, gaps=False):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "age": 50 + 10 * rng.normal(size=N),
            "it's": rng.choice(["a", "b'c", 'd"e'], N),
            "ok": rng.random(N) > 0.5,
            "when": EPOCH + pd.to_timedelta(18000 + rng.integers(0, 60, N), unit="D"),
            "grade": pd.Categorical(rng.choice(["lo", "mid", "hi"], N), categories=["lo", "mid", "hi"], ordered=True),
        }
    )
    if gaps:
        table.loc[rng.random(N) < 0.1, "age"] = np.nan
        table.loc[rng.random(N) < 0.1, "it's"] = None
    return table


def mixed_target(table):
    return np.sin(table["age"].fillna(50) / 8) + (table["it's"] == "a") + (table["grade"] == "hi")


def as_read(X):
    """Return rows as exported files read them: dates as days, by the names of the columns."""
    if not isinstance(X, pd.DataFrame):
        return pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    out = X.set_axis([name if isinstance(name, str) else f"x{name}" for name in X], axis=1)
    for name in out:
        if pd.api.types.is_datetime64_any_dtype(out[name].dtype):
            out[name] = (out[name] - EPOCH) / DAY
        elif out[name].dtype == bool:
            out[name] = out[name].astype(float)
        elif not pd.api.types.is_numeric_dtype(out[name].dtype):
            out[name] = out[name].astype(object).where(out[name].notna(), None)
    return out


def by_sqlite(path, rows):
    with sqlite3.connect(":memory:") as base:
        try:
            base.execute("SELECT exp(0.0)")
        except sqlite3.OperationalError:
            base.create_function("exp", 1, np.exp)
        rows.to_sql("data", base, index_label="number")
        found = pd.read_sql_query(path.read_text(), base)
    return found.sort_values("number", ignore_index=True)


def by_duckdb(path, rows):
    duckdb = pytest.importorskip("duckdb")
    base = duckdb.connect()
    numbered = rows.assign(number=np.arange(len(rows)))
    for name in rows:
        if rows[name].dtype == float:  # what pandas holds as NaN is missing
            numbered[name] = rows[name].astype(object).where(rows[name].notna(), None)
    types = ", ".join(f'"{name}" {"DOUBLE" if rows[name].dtype == float else "VARCHAR"}' for name in rows)
    base.execute(f"CREATE TABLE data ({types}, number INTEGER)")
    base.executemany(f"INSERT INTO data VALUES ({', '.join('?' * (rows.shape[1] + 1))})", numbered.values.tolist())
    return base.execute(path.read_text()).df().sort_values("number", ignore_index=True)


def by_onnx(path, X, rows):
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    feed = {}
    for given in session.get_inputs():
        if given.name == "X":
            feed["X"] = np.asarray(X, dtype=np.float64)
        elif given.type == "tensor(string)":
            feed[given.name] = np.array([["" if v is None else v] for v in rows[given.name]], dtype=object)
        else:
            feed[given.name] = rows[[given.name]].to_numpy(dtype=np.float64)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, feed), strict=True))


def models():
    X, table = numbers(), mixed()
    y, z, gapped = wave(X), mixed_target(table), mixed(gaps=True)
    curves, single = KernelBank.per_feature(widths=[0.5, 1.0]), {"alpha": 1e-3}
    tails = KernelBank.per_feature(Linear(), widths=[1.0], standardize="robust")
    classes = np.digitize(y, [-0.7, 0.7])
    factored = {"representation": "factored"}
    return {
        "curves": (MKLRegressor(curves, **single), X, y),
        "curves by factors": (MKLRegressor(curves, resources=factored, **single), X, y),
        "centered": (MKLRegressor(KernelBank.per_feature(widths=[1.0], center=True), **single), X, y),
        "linear": (MKLRegressor(KernelBank.joint(Linear()), **single), X, y),
        "several outputs": (MKLRegressor(curves, **single), X, np.column_stack([y, X[:, 2] ** 2])),
        "poisson": (MKLRegressor(curves, loss="poisson", **single), X, np.round(np.abs(y))),
        "two classes": (MKLClassifier(curves, **single), X, np.where(y > 0, "yes", "no")),
        "three classes": (MKLClassifier(curves, **single), X, classes),
        "labels": (MKLClassifier(curves, **single), X, np.column_stack([y > 0, X[:, 2] ** 2 > 1])),
        "shared": (MKLClassifier(curves, outputs="shared", **single), X, classes),
        "hinge": (MKLClassifier(curves, loss="hinge", **single), X, y > 0),
        "bins": (MKLRegressor(KernelBank.interactions(), **single), X, y),
        "table": (MKLRegressor(KernelBank.auto(), **single), table, z),
        "table without names": (MKLRegressor(KernelBank.auto(), **single), table.set_axis(range(5), axis=1), z),
        "bins of a table": (MKLRegressor(KernelBank.interactions(), **single), table.drop(columns="when"), z),
        "gaps": (MKLRegressor(KernelBank.auto(missing="indicator"), **single), gapped.drop(columns="when"), z),
        "masked": (MKLRegressor(KernelBank.per_feature(widths=[1.0], missing="mask"), **single), gapped[["age"]], z),
        "hazards": (MKLSurvival(curves, alpha=1e-2), X, survival_array(np.arange(N) % 3 > 0, np.abs(y) + 0.1)),
        "constant": (MKLRegressor(curves, alpha=1e6), X, y),
        "heavy tails": (MKLRegressor(tails, **single), np.column_stack([np.exp(2 * X[:, 0]), X[:, 1:]]), z),
    }


MODELS = models()


@pytest.fixture(params=MODELS)
def case(request):
    model, X, y = MODELS[request.param]
    if not hasattr(model, "intercept_"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the empty one
            model.fit(X, y)
    return model, X


def with_unseen(X):
    """Return rows beyond those of training: numbers further out, a category that is new."""
    if not isinstance(X, pd.DataFrame):
        return np.vstack([X, X[:5] * 1.2])
    more = X.iloc[:5].copy()
    if "it's" in X:
        more["it's"] = "new"
    return pd.concat([X, more], ignore_index=True)


def reference(model, X):
    return model._scores(X)


def within(told, expected):
    """What files may differ by: what the export says, and rounding."""
    return told.max_error + 1e-9 * max(1.0, float(np.abs(expected).max()))


def score_columns(found):
    return found[[name for name in found.columns if name == "score" or name.startswith("score_")]].to_numpy(dtype=float)


@pytest.mark.sampled(2)
def test_sql_gives_the_scores_and_predictions_of_the_model(case, tmp_path):
    check_sql(case, by_sqlite, tmp_path)


@pytest.mark.nightly
def test_sql_in_a_second_engine_gives_them_too(case, tmp_path):
    check_sql(case, by_duckdb, tmp_path)


def check_sql(case, run, tmp_path):
    model, X = case
    told = export_model(model, tmp_path / "model.sql")
    rows = with_unseen(X)
    found, expected = run(told.path, as_read(rows)), reference(model, rows)
    np.testing.assert_allclose(score_columns(found), expected, atol=within(told, expected), rtol=0)
    assert told.max_error <= 1e-5 * max(1.0, float(np.ptp(expected)))
    if isinstance(model, MKLClassifier):
        clear = np.abs(expected).min(axis=1) > 1e-4
        several = [name for name in found if name.startswith("prediction_")]  # of labels
        predicted = found[several or "prediction"].to_numpy()[clear]
        if model.classes_.dtype == bool:  # which SQLite has as 0 and 1
            predicted = predicted.astype(bool)
        assert [str(label) for label in predicted] == [str(label) for label in model.predict(rows)[clear]]
        if hasattr(model, "predict_proba"):
            last = found[[name for name in found if name.startswith("probability_")]].to_numpy(dtype=float)
            np.testing.assert_allclose(last[:, -1], model.predict_proba(rows)[:, -1], atol=1e-5)


@pytest.mark.sampled(4)
def test_onnx_gives_the_scores_and_predictions_of_the_model(case, tmp_path):
    model, X = case
    told = export_model(model, tmp_path / "model.onnx")
    rows = with_unseen(X)
    found, expected = by_onnx(told.path, rows, as_read(rows)), reference(model, rows)
    np.testing.assert_allclose(found["scores"], expected, atol=within(told, expected), rtol=0)
    predicted = model.predict(rows)
    if isinstance(model, MKLClassifier):
        clear = np.abs(expected).min(axis=1) > 1e-4
        assert found["prediction"][clear].tolist() == predicted[clear].tolist()
        if hasattr(model, "predict_proba"):
            np.testing.assert_allclose(found["probabilities"], model.predict_proba(rows), atol=1e-5)
    else:
        np.testing.assert_allclose(found["prediction"], predicted, rtol=1e-4, atol=1e-4)


@pytest.mark.sampled(4)
def test_python_gives_the_predictions_of_the_model(case, tmp_path):
    model, X = case
    told = export_model(model, tmp_path / "model.py")
    module = {}
    exec(told.path.read_text(), module)
    rows = with_unseen(X)
    expected = reference(model, rows)
    np.testing.assert_allclose(module["scores"](as_read(rows)), expected, atol=within(told, expected), rtol=0)
    if not isinstance(model, MKLClassifier):
        np.testing.assert_allclose(module["predict"](as_read(rows)), model.predict(rows), rtol=1e-4, atol=1e-4)
    assert ("probabilities" in module) == hasattr(model, "predict_proba")


def test_a_python_file_reads_columns_as_pandas_has_them(tmp_path):
    """Dates were read as microseconds, and the NA of nullable columns ended it."""
    X = mixed(gaps=True).assign(ok=lambda table: table["ok"].astype("boolean"))
    X.loc[X.index[::9], "ok"] = pd.NA
    X.loc[X.index[::7], "when"] = pd.NaT
    since = ((X["when"] - EPOCH) / DAY).fillna(18000) - 18000
    y = mixed_target(X) + X["ok"].fillna(False).astype(float) + since / 20
    model = MKLRegressor(KernelBank.auto(missing="mask"), alpha=1e-3).fit(X, y)
    told, module = export_model(model, tmp_path / "model.py"), {}
    exec(told.path.read_text(), module)
    assert {"when", "ok"} <= set(told.columns)
    for rows in (X, {name: X[name].to_numpy() for name in X}, X.convert_dtypes(), X.to_dict("records")):
        np.testing.assert_allclose(module["predict"](rows), model.predict(X), atol=within(told, model.predict(X)))


def test_a_python_file_needs_no_more_than_numpy(tmp_path):
    X = numbers()
    model = MKLClassifier(KernelBank.per_feature(widths=[1.0]), alpha=1e-3).fit(X, wave(X) > 0)
    export_model(model, tmp_path / "model.py")
    code = (
        "import sys; sys.modules.update(dict.fromkeys(['manykernels', 'sklearn', 'scipy', 'pandas'])); import model; "
        f"print(model.probabilities({{'x0': [{X[0, 0]!r}], 'x1': [{X[0, 1]!r}], 'x2': [{X[0, 2]!r}]}})[0, 1])"
    ).replace("np.float64(", "(")
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert float(done.stdout) == pytest.approx(model.predict_proba(X[:1])[0, 1], abs=1e-5)


def test_a_card_adds_up_to_the_scores_within_what_its_lines_say(tmp_path):
    X = numbers()
    model = MKLRegressor(KernelBank.per_feature(widths=[1.0]), alpha=1e-3).fit(X, wave(X))
    told = export_model(model, tmp_path / "card.csv")
    with open(told.path, encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    scores, errors = np.zeros(N), np.zeros(N)
    for line in lines:
        if not line["column"]:
            scores += float(line["points"])
        elif line["level"] != "missing":
            values = X[:, int(line["column"][1:])]
            inside = (values >= float(line["from"])) & (values < float(line["to"]))
            scores[inside] += float(line["points"])
            errors[inside] += float(line["max_error"])
    differences = np.abs(scores - model.predict(X))
    assert (differences <= 1.1 * errors + 1e-9).all()
    assert differences.max() < 0.3 * np.ptp(model.predict(X))


MANY_COLUMNS = [
    Matern(1.5, nu=2.5),
    Matern(1.0, nu=1.5),
    Matern(1.0, nu=0.5),
    Polynomial(3),
    Laplacian(1.0),
    Periodic(3.0),
    ArdGaussian((0.5, 1.0, 2.0)),
    Gaussian(1.0) * Linear() + 0.5 * Laplacian(2.0),
    Interaction(((Gaussian(1.0), (0, 2)), (Linear(), (1,)))),
    Interaction(((ColumnPower(2, unit=2.0, center=1.0), (0,)), (Linear(), (1,)), (Linear(), (2,)))),
    Landmarks(Gaussian(1.0), count=40),
    Landmarks(Matern("median", 0.5), count=40, stretched=1),
    Cosine(),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("representation", ["gram", "factored"])
@pytest.mark.parametrize("kernel", MANY_COLUMNS, ids=lambda kernel: kernel.kind)
def test_kernels_of_many_columns_keep_their_points_or_are_refused(kernel, representation, tmp_path):
    X = numbers() + np.array([0.0, 0.0, 50.0])  # far from zero, squares lose digits
    resources = {"representation": representation}
    model = MKLRegressor(KernelBank.joint(kernel), alpha=1e-2, resources=resources).fit(X, wave(X))
    if isinstance(kernel, Cosine):
        with pytest.raises(IncompatibleError, match="cannot be exported"):
            export_model(model, tmp_path / "model.onnx")
        return
    rows = np.vstack([X, 1.5 * X, -999 + 0 * X[:1]])
    expected = model.predict(rows)
    told, module = export_model(model, tmp_path / "model.py"), {}
    exec(told.path.read_text(), module)
    within = told.max_error + 1e-9 * np.abs(expected)
    assert told.max_error < 1e-6 * np.abs(expected).max()
    assert (np.abs(module["predict"](as_read(rows)) - expected) <= within).all()
    told = export_model(model, tmp_path / "model.onnx")
    found = by_onnx(told.path, rows, None)
    assert (np.abs(found["prediction"] - expected) <= within).all()
    assert told.measured_by == "onnxruntime"
    with pytest.raises(IncompatibleError, match=r"Export to \.onnx or \.py"):
        export_model(model, tmp_path / "model.sql")
    assert not (tmp_path / "model.sql").exists()


def test_kernels_that_are_divided_row_by_row_are_no_sum_of_columns(tmp_path):
    """Linear kernels of several columns were exported as such: off by as much as scores vary."""
    X = numbers()
    model = MKLRegressor(KernelBank.joint(Linear(), normalize="unit_diagonal"), alpha=1e-3).fit(X, wave(X))
    with pytest.raises(IncompatibleError, match="Fit with normalize='mean_diagonal'"):
        export_model(model, tmp_path / "model.py")
    with pytest.raises(IncompatibleError, match="Export to"):
        export_model(model, tmp_path / "model.sql")


def test_kernels_of_counts_take_no_numbers_below_zero(tmp_path):
    X = np.random.default_rng(0).poisson(3, size=(N, 2)).astype(float)
    model = MKLRegressor(KernelBank.per_feature(ChiSquared(0.5)), alpha=1e-3).fit(X, np.sin(X[:, 0]) + X[:, 1])
    told = export_model(model, tmp_path / "model.sql", tol=1e-3)
    assert min(low for low, _ in told.ranges.values()) == 0
    rows = np.vstack([X, [[1e4, 0.0], [0.25, 1e8]]])
    allowed = told.max_error + told.max_error_beyond + 1e-9
    np.testing.assert_allclose(by_sqlite(told.path, as_read(rows))["score"], model.predict(rows), atol=allowed)


def test_functions_of_two_columns_become_grids_in_sql(tmp_path):
    X = numbers()
    bank = KernelBank.from_groups({"a": [0, 1]}, Gaussian(1.5))
    model = MKLRegressor(bank, alpha=1e-2).fit(X, wave(X))
    told = export_model(model, tmp_path / "model.sql", tol=1e-3)
    found = by_sqlite(told.path, as_read(X))
    assert 0 < told.max_error < 1e-2
    np.testing.assert_allclose(found["score"], model.predict(X), atol=told.max_error)


def test_kinks_of_one_column_are_edges(tmp_path):
    X = numbers()
    model = MKLRegressor(KernelBank.per_feature(Laplacian(1.0)), alpha=1e-2).fit(X, wave(X))
    told = export_model(model, tmp_path / "model.sql")
    assert told.max_error < 1e-5
    np.testing.assert_allclose(by_sqlite(told.path, as_read(X))["score"], model.predict(X), atol=told.max_error)


def test_kinks_of_two_columns_ask_for_a_larger_tolerance(tmp_path):
    X = numbers()
    model = MKLRegressor(KernelBank.from_groups({"a": [0, 1]}, Laplacian(1.0)), alpha=1e-2).fit(X, wave(X))
    with pytest.raises(IncompatibleError, match=r"Take a larger tol, or export to \.onnx or \.py"):
        export_model(model, tmp_path / "model.sql")


@pytest.mark.parametrize("way", ["stamps", "text", "iso", "days"])
def test_dates_in_sql_are_read_as_databases_hold_them(way, tmp_path):
    dates = pd.Series(pd.date_range("1967-12-31 23:59:59.5", periods=60, freq="500h30min")).mask(np.arange(60) == 7)
    X = pd.DataFrame({"when": dates, "dose": np.arange(60.0) % 7})
    bank = KernelBank.per_feature(widths=["median"], standardize=True, missing="mask")
    model = MKLRegressor(bank, alpha=1e-3).fit(X, np.sin(np.arange(60) / 9) + X["dose"] / 7)
    told = export_model(model, tmp_path / "model.sql")
    rows = {
        "stamps": X,
        "text": X.assign(when=dates.dt.strftime("%Y-%m-%d %H:%M:%S.%f")),
        "iso": X.assign(when=dates.map(lambda date: None if pd.isna(date) else date.isoformat())),
        "days": as_read(X),
    }[way]
    np.testing.assert_allclose(by_sqlite(told.path, rows)["score"], model.predict(X), atol=told.max_error + 1e-9)
    duckdb = pytest.importorskip("duckdb")
    base = duckdb.connect()
    base.register("data", rows.assign(number=np.arange(60)))
    found = base.execute(told.path.read_text()).df().sort_values("number")
    np.testing.assert_allclose(found["score"], model.predict(X), atol=told.max_error + 1e-9)


def test_days_of_dates_are_those_of_the_calendar(tmp_path):
    X = pd.DataFrame({"when": pd.date_range("2000-01-01", periods=40)})
    program = export_model(MKLRegressor(alpha=1e-3).fit(X, np.arange(40.0)), tmp_path / "model.sql").path.read_text()
    tables = program[program.index("WITH") : program.index("term_1")].rstrip().rstrip(",")
    dates = pd.Series(pd.date_range("1899-02-27", "2101-03-02", freq="D"))
    with sqlite3.connect(":memory:") as base:
        dates.dt.strftime("%Y-%m-%d").to_frame("when").to_sql("data", base)
        found = pd.read_sql_query(f"{tables} SELECT * FROM days_1 ORDER BY given", base)
    np.testing.assert_array_equal(found["days"], (dates - EPOCH) / DAY)


def test_rows_widen_the_ranges(tmp_path):
    X = numbers()
    model = MKLRegressor(KernelBank.per_feature(widths=[1.0]), alpha=1e-3).fit(X, wave(X))
    near = export_model(model, tmp_path / "a.py").ranges["x0"]
    far = export_model(model, tmp_path / "b.py", X=20 * X).ranges["x0"]
    assert far[0] < near[0]
    assert far[1] > near[1]
    assert far[1] >= 20 * X[:, 0].max()


def test_a_row_with_a_gap_has_no_score_where_the_model_takes_none(tmp_path):
    X = numbers()
    model = MKLRegressor(KernelBank.per_feature(widths=[1.0]), alpha=1e-3).fit(X, wave(X))
    rows = as_read(X[:3].copy())
    rows.loc[1, "x0"] = np.nan
    found = by_sqlite(export_model(model, tmp_path / "model.sql").path, rows)
    assert found["score"].isna().tolist() == [False, True, False]
    assert np.isnan(evaluate.scores(program_of(model, with_points=False)[0].plain(), rows)[:, 0]).tolist() == [
        False,
        True,
        False,
    ]


def test_what_cannot_be_exported_is_said(tmp_path):
    X = numbers()
    with pytest.raises(InvalidInputError, match=r"one of \.onnx, \.py, \.sql, \.csv"):
        export_model(MKLRegressor(alpha=0.1).fit(X, wave(X)), tmp_path / "model.json")
    kernels = (X @ X.T)[None]
    with pytest.raises(IncompatibleError, match="not on precomputed kernels"):
        export_model(MKLRegressor("precomputed", alpha=0.1).fit(kernels, wave(X)), tmp_path / "model.sql")


@pytest.mark.parametrize("representation", ["gram", "factored"])
@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("kernel", ["one", "pair", "with bins"])
def test_numbers_that_are_equal_or_not_are_levels(kernel, standardize, representation, tmp_path):
    rng = np.random.default_rng(0)
    X = np.column_stack([0.1 * rng.integers(0, 4, 200), rng.integers(5, 9, 200) / 3, rng.normal(size=200)])
    y = (X[:, 0] > 0.15) + 2 * (X[:, 1] > 2) * (X[:, 0] < 0.05) + np.sin(X[:, 2])
    entry = {
        "one": (Overlap(), [0]),
        "pair": (Interaction(((Overlap(), (0,)), (Overlap(), (1,)))), [0, 1]),
        "with bins": (Interaction(((Overlap(), (0,)), (Binned(Gaussian(0.3), 8), (1,)))), [0, 2]),
    }[kernel]
    model = MKLRegressor(
        KernelBank([("k", *entry)], standardize=standardize),
        alpha=1e-3,
        resources={"representation": representation},
    ).fit(X, y)
    found = by_sqlite(export_model(model, tmp_path / "model.sql").path, as_read(X))
    np.testing.assert_allclose(found["score"], model.predict(X), atol=1e-9)
