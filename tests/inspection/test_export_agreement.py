"""Exported files beside their models: booleans, far values, integers that floats skip, landmarks, and what is told."""

import sqlite3
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest

from manykernels import KernelBank, MKLClassifier, MKLRegressor
from manykernels.exceptions import IncompatibleError
from manykernels.inspection import export_model
from manykernels.inspection.export import agreement, points
from manykernels.kernels import Gaussian, Laplacian, Linear, Matern, Overlap, Periodic, Polynomial, Shaped

FORMATS = (".py", ".onnx", ".sql")
SENTINELS = [-999.0, 9999.0, 1e4, 1e5, 1e6, 1e8, 1e10, 1e12, -1e4, -1e6, -1e12]


def run(told, rows):
    """Return the scores of a file at rows, a dictionary of columns."""
    if told.path.suffix == ".py":
        module = {}
        exec(told.path.read_text(encoding="utf-8"), module)
        return module["scores"](rows)[:, 0]
    if told.path.suffix == ".onnx":
        runtime = pytest.importorskip("onnxruntime")
        session = runtime.InferenceSession(str(told.path), providers=["CPUExecutionProvider"])
        names = {given: column for column, given in told.names.items()}
        feed = {}
        for given in session.get_inputs():
            values = rows[names[given.name]]
            texts = given.type == "tensor(string)"
            feed[given.name] = np.array([[value] for value in values], dtype=object if texts else np.float64)
        return session.run(["scores"], feed)[0][:, 0]
    with sqlite3.connect(":memory:") as base:
        base.create_function("exp", 1, np.exp)
        pd.DataFrame({name: pd.Series(values) for name, values in rows.items()}).to_sql("data", base, index_label="nr")
        found = pd.read_sql_query(told.path.read_text(encoding="utf-8"), base)
    return found.sort_values("nr")["score"].to_numpy(dtype=np.float64)


def plain(X):
    """Return the columns of a table as lists of Python values."""
    return {name: X[name].tolist() for name in X}


# --- booleans ---------------------------------------------------------------------------------------------------------


BOOLEAN_KERNELS = [Linear(), Polynomial(2), Gaussian(1.0), Overlap(), Laplacian(0.5)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("kernel", BOOLEAN_KERNELS, ids=lambda kernel: kernel.kind)
def test_booleans_are_zero_and_one(kernel, standardize, ending, tmp_path):
    """Kernels were evaluated at -0.5 and 1.5: linear ones were off by .39, polynomial ones by .58."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"ok": rng.random(80) < 0.3, "x": rng.normal(size=80)})
    bank = KernelBank([("ok", kernel, ["ok"]), ("x", Gaussian(1.0), ["x"])], standardize=standardize)
    model = MKLRegressor(bank, alpha=1e-3).fit(X, 2.0 * X["ok"] + np.sin(X["x"]))
    told = export_model(model, tmp_path / f"model{ending}")
    assert told.max_error < 1e-4
    np.testing.assert_allclose(run(told, plain(X.astype(float))), model.predict(X), rtol=0, atol=told.max_error + 1e-12)


def test_databases_write_booleans_as_text_too(tmp_path):
    X = pd.DataFrame({"ok": np.arange(60) % 3 == 0})
    model = MKLRegressor(KernelBank.per_feature(Linear()), alpha=1e-3).fit(X, X["ok"] * 2.0)
    told = export_model(model, tmp_path / "model.sql")
    for written in (X["ok"].map({True: "true", False: "false"}), X["ok"].astype(int), X["ok"].astype(float)):
        np.testing.assert_allclose(run(told, {"ok": written.tolist()}), model.predict(X), atol=told.max_error + 1e-12)


# --- far beyond -------------------------------------------------------------------------------------------------------


FAR_KERNELS = {
    "gaussian": [Gaussian(1.0)],
    "wide": [Gaussian(10.0)],
    "matern": [Matern(1.0, nu=1.5)],
    "kinks": [Laplacian(2.0)],
    "line": [Gaussian(0.5), Linear()],
    "square": [Gaussian(0.5), Polynomial(2)],
    "cube": [Polynomial(3), Linear(), Gaussian(1.0)],
    "periodic": [Periodic(2.0), Gaussian(1.0)],
    "rising": [Shaped(Gaussian(1.0), "increasing")],
    "convex": [Shaped(Gaussian(1.0), "convex")],
    "convex kinks": [Shaped(Laplacian(1.0), "convex")],
    "concave kinks": [Shaped(Laplacian(1.0), "concave")],
    "convex and rising kinks": [Shaped(Laplacian(1.0), "increasing and convex")],
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize("kernels", FAR_KERNELS.values(), ids=FAR_KERNELS)
def test_curves_do_not_explode_far_beyond(kernels, ending, tmp_path):
    """Cubic coefficients of 1e-17 made 25,330 of .230 at 1e6."""
    x = np.random.default_rng(0).uniform(size=150)
    X = pd.DataFrame({"x": x})
    bank = KernelBank([(f"k{m}", kernel, ["x"]) for m, kernel in enumerate(kernels)], standardize=True)
    bent = -1.0 if "convex" in getattr(kernels[0], "shape", "") else 1.0
    model = MKLRegressor(bank, alpha=1e-3).fit(X, bent * (np.sin(4 * x) + x))
    told = export_model(model, tmp_path / f"model{ending}", tol=1e-4)
    far = pd.DataFrame({"x": SENTINELS})
    expected = model.predict(far)
    # At 1e12 a period is a few digits of the number.
    allowed = told.max_error + told.max_error_beyond + 1e-9 * np.abs(expected)
    assert (np.abs(run(told, plain(far)) - expected) <= allowed).all()
    if "periodic" not in [kernel.kind for kernel in kernels]:
        assert told.max_error_beyond < 1e-2 * np.ptp(model.predict(X))
    near = pd.DataFrame({"x": np.linspace(-5, 6, 300)})
    assert np.abs(run(told, plain(near)) - model.predict(near)).max() <= told.max_error + told.max_error_beyond


@pytest.mark.sampled(2)
@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize("decades", [2.0, 5.0])
def test_heavy_tailed_columns_have_short_pieces_where_points_are(ending, decades, tmp_path):
    """Body weights from grams to tons were "missed by 0.11 with 1024 pieces": equal ones are longer than the kernel."""
    rng = np.random.default_rng(0)
    x = 10.0 ** (decades / 2 * rng.normal(size=200))
    X = pd.DataFrame({"x": x, "kind": rng.choice(["a", "b"], 200)})
    bank = KernelBank([("x", Gaussian("0.5*median"), ["x"]), ("kind", Overlap(), ["kind"])])
    model = MKLRegressor(bank, alpha=1e-3).fit(X, np.sin(2 * np.log(x)) + (X["kind"] == "a"))
    told = export_model(model, tmp_path / f"model{ending}")
    assert told.max_error < 1e-5
    around = np.concatenate([x, np.geomspace(x.min() / 10, x.max() * 10, 500), x * (1 + 1e-3 * rng.normal(size=200))])
    rows = pd.DataFrame({"x": np.concatenate([around, -around]), "kind": "b"})
    assert np.abs(run(told, plain(rows)) - model.predict(rows)).max() <= told.max_error


@pytest.mark.parametrize("ending", FORMATS)
def test_pieces_of_heavy_tailed_columns_keep_gaps_and_lines(ending, tmp_path):
    rng = np.random.default_rng(0)
    x = np.exp(3 * rng.normal(size=150))
    X = pd.DataFrame({"x": np.where(np.arange(150) % 9 == 4, np.nan, x)})
    bank = KernelBank([("curve", Gaussian("0.5*median"), ["x"]), ("line", Linear(), ["x"])], missing="mask")
    model = MKLRegressor(bank, alpha=1e-3).fit(X, np.sin(2 * np.log(x)) + x / 100)
    assert (model.kernel_weights_ > 0).all()
    told = export_model(model, tmp_path / f"model{ending}")
    rows = pd.DataFrame({"x": [np.nan, x.min(), x.max(), *x[:20]]})
    assert np.abs(run(told, plain(rows)) - model.predict(rows)).max() <= told.max_error + 1e-12


def test_a_period_goes_on(tmp_path):
    """Files stayed at one value after the dates of fit, and as long as these go again."""
    days = pd.Series(pd.date_range("2020-01-01", periods=400))
    y = np.sin(2 * np.pi * np.arange(400) / 7)
    model = MKLRegressor(KernelBank([("week", Periodic(7.0), ["day"])]), alpha=1e-3).fit(pd.DataFrame({"day": days}), y)
    later = pd.DataFrame({"day": pd.date_range("2031-05-01", periods=30, freq="9h")})
    since = ((later["day"] - pd.Timestamp("1970-01-01")) / pd.Timedelta(days=1)).tolist()
    for ending in FORMATS:
        told = export_model(model, tmp_path / f"model{ending}")
        assert "day" not in told.ranges
        np.testing.assert_allclose(run(told, {"day": since}), model.predict(later), atol=told.max_error + 1e-9)


# --- numbers that floats skip -----------------------------------------------------------------------------------------


@pytest.mark.sampled(2)
@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize("kernel", ["bins", "equal", "curve"])
def test_integers_that_floats_skip(kernel, ending, tmp_path):
    """Steps of nanoseconds were rounded to other rows: 64 of 1,384 were off by up to 3, and "exact" was told."""
    rng = np.random.default_rng(0)
    start = 1_700_000_000_000_000_000
    values = start + (rng.integers(0, 40, 400) if kernel == "equal" else rng.integers(0, 5000, 400)) * 129 + 7
    X = pd.DataFrame({"time": values, "x": rng.normal(size=400)})
    bank = {
        "bins": KernelBank.interactions(),
        "equal": KernelBank([("k", Overlap(), ["time"])], standardize=True),
        "curve": KernelBank.per_feature(widths=[1.0], standardize=True),
    }[kernel]
    y = np.sin((values - start) / values.std()) + 0.1 * X["x"]
    model = MKLRegressor(bank, alpha=1e-4).fit(X, y)
    more = pd.DataFrame({"time": np.repeat(values, 3) + np.tile([-1, 0, 1], 400), "x": np.repeat(X["x"], 3)})
    told = export_model(model, tmp_path / f"model{ending}", tol=1e-2)  # a curve has steps of 256 nanoseconds
    found = run(told, {name: column for name, column in plain(more).items() if name in told.columns})
    np.testing.assert_allclose(found, model.predict(more), rtol=0, atol=told.max_error + 1e-9)


@pytest.mark.parametrize("ending", FORMATS)
def test_numbers_that_standardizing_makes_equal_stay_equal(ending, tmp_path):
    X = pd.DataFrame({"x": np.tile([0.0, 1e-12, 0.1, 1e9], 30)})  # the first two are one beside 1e9
    bank = KernelBank([("k", Overlap(), ["x"])], standardize=True)
    model = MKLRegressor(bank, alpha=1e-4).fit(X, np.tile([1.0, 1.2, 3.0, 5.0], 30))
    rows = pd.DataFrame({"x": [0.0, 1e-12, 5e-13, 0.1, 0.1 + 1e-9, 0.2, 1e9, 3.0]})
    told = export_model(model, tmp_path / f"model{ending}")
    np.testing.assert_allclose(run(told, plain(rows)), model.predict(rows), rtol=0, atol=told.max_error + 1e-12)


# --- landmarks --------------------------------------------------------------------------------------------------------


def mixed(n):
    """Return numbers, a boolean, categories and dates, and a target of all of them."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(n, 4)), columns=[f"x{j}" for j in range(4)])
    X["city"] = rng.choice([f"city {j}" for j in range(8)], n)
    X["ok"] = rng.random(n) < 0.5
    X["when"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 400, n), unit="D")
    y = np.sin(2 * X["x0"]) + X["x1"] * X["x2"] + (X["city"] == "city 1") + X["ok"] * X["x3"]
    return X, y + 0.3 * rng.normal(size=n)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("n", [700, 2500])
@pytest.mark.parametrize("estimator", [MKLRegressor, MKLClassifier])
def test_untouched_models_are_exported_at_every_size(estimator, n, tmp_path):
    """Above about 2,070 rows SQL recommended .onnx, and .onnx rejected "several columns"."""
    X, y = mixed(n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = estimator().fit(X, y if estimator is MKLRegressor else np.where(y > 0, "yes", "no"))
    rows = X.iloc[:300].assign(city=["new", *X["city"].iloc[1:300]])
    scores = model._scores(rows)[:, 0]
    since = (rows["when"] - pd.Timestamp("1970-01-01")) / pd.Timedelta(days=1)
    read = plain(rows.assign(when=since, ok=rows["ok"].astype(float)))
    for ending in (".py", ".onnx"):
        told = export_model(model, tmp_path / f"model{ending}", X=X)
        assert told.max_error < 1e-5 * np.ptp(scores)
        np.testing.assert_allclose(run(told, read), scores, rtol=0, atol=told.max_error)
    for ending in (".sql", ".csv"):
        with pytest.raises(IncompatibleError, match=r"Export to \.onnx or \.py"):
            export_model(model, tmp_path / f"model{ending}")


def test_too_many_points_are_said(tmp_path, monkeypatch):
    X = np.random.default_rng(0).normal(size=(90, 3))
    model = MKLRegressor(KernelBank.joint(Gaussian(1.0)), alpha=1e-3).fit(X, X[:, 0])
    monkeypatch.setattr(points, "MOST_NUMBERS", 200)
    with pytest.raises(IncompatibleError, match=r"holds at most 200\. Fit with fewer points: .*Landmarks"):
        export_model(model, tmp_path / "model.py")


# --- what is told -----------------------------------------------------------------------------------------------------


def test_the_written_file_is_measured(tmp_path, monkeypatch):
    """A file that differs from the model is not written, and the error that is told is that of the file."""
    X = pd.DataFrame({"x": np.linspace(0, 1, 80)})
    model = MKLRegressor(KernelBank.per_feature(widths=[1.0]), alpha=1e-3).fit(X, np.sin(6 * X["x"]))
    told = export_model(model, tmp_path / "model.py")
    assert told.measured_by == "Python"
    assert "measured on" in told.path.read_text(encoding="utf-8")
    assert export_model(model, tmp_path / "model.sql").measured_by.startswith("SQLite")
    real = agreement._run_python

    def wrong(*given):
        scores, by = real(*given)
        return scores + 0.5, by

    monkeypatch.setattr(agreement, "_run_python", wrong)
    with pytest.raises(IncompatibleError, match=r"differs from the model by 0\.55"):
        export_model(model, tmp_path / "wrong.py")
    assert not (tmp_path / "wrong.py").exists()


def test_without_onnxruntime_the_same_program_is_run(tmp_path, monkeypatch):
    X = np.random.default_rng(0).normal(size=(60, 2))
    model = MKLRegressor(KernelBank.per_feature(widths=[1.0]), alpha=1e-3).fit(X, X[:, 0])
    monkeypatch.setattr(agreement.importlib.util, "find_spec", lambda name: None)
    told = export_model(model, tmp_path / "model.onnx")
    assert told.measured_by == "NumPy, since onnxruntime is not installed"


def test_kinks_are_measured_where_they_are(tmp_path):
    X = np.random.default_rng(0).normal(size=(150, 3))
    model = MKLRegressor(KernelBank.per_feature(Laplacian(1.0)), alpha=1e-2).fit(X, np.sin(2 * X[:, 0]) + X[:, 1])
    told = export_model(model, tmp_path / "model.py", tol=1e-3)
    rows = {f"x{j}": X[:, j].tolist() for j in range(3)}
    assert np.abs(run(told, rows) - model.predict(X)).max() <= told.max_error


def test_the_command_tells_the_errors(tmp_path):
    X = pd.DataFrame({"x": np.linspace(0, 1, 80), "y": np.sin(np.linspace(0, 6, 80))})
    X.to_csv(tmp_path / "table.csv", index=False)
    command = [sys.executable, "-m", "manykernels.cli"]
    fit = [*command, "fit", "table.csv", "--target", "y", "--output", "model.mkl"]
    subprocess.run(fit, cwd=tmp_path, check=True, capture_output=True)
    done = subprocess.run(
        [*command, "export", "model.mkl", "model.py"], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert "run by Python" in " ".join(done.stdout.split())


def test_steps_of_durations_are_tried_where_a_duration_can_be(tmp_path):
    """A file of bins of durations was not written: neighbors of an edge are no durations of whole nanoseconds."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"wait": pd.to_timedelta(rng.integers(0, 10_000, 150), unit="min"), "x": rng.normal(size=150)})
    days = X["wait"] / pd.Timedelta(days=1)
    model = MKLRegressor(KernelBank.interactions(), alpha=1e-4).fit(X, np.sin(days) * X["x"])
    told = export_model(model, tmp_path / "model.py")
    assert told.max_error < 1e-9
    np.testing.assert_allclose(run(told, plain(X.assign(wait=days))), model.predict(X), atol=1e-9)


def test_the_empty_text_is_a_category_or_a_missing_value_in_onnx(tmp_path):
    X = pd.DataFrame({"level": np.tile(np.array(["", "b", "c", None], dtype=object), 20)})
    model = MKLRegressor(KernelBank.per_feature(Overlap(), missing="indicator"), alpha=1e-4).fit(
        X, np.tile([0.0, 1.0, 2.0, 5.0], 20)
    )
    with pytest.raises(IncompatibleError, match=r"'level' has the empty text as a category beside missing values"):
        export_model(model, tmp_path / "model.onnx")
    told = export_model(model, tmp_path / "model.sql")
    np.testing.assert_allclose(run(told, plain(X)), model.predict(X), atol=told.max_error + 1e-12)


def test_steps_of_dates_are_written_to_sql(tmp_path):
    """Days with more digits than SQLite writes were tried, and files of bins of dates were not written."""
    rng = np.random.default_rng(0)
    when = pd.Timestamp("2021-03-01") + pd.to_timedelta(0.25 * rng.integers(0, 2800, 150), unit="D")
    X = pd.DataFrame({"when": when, "x": rng.normal(size=150)})
    days = (X["when"] - pd.Timestamp("1970-01-01")) / pd.Timedelta(days=1)
    model = MKLRegressor(KernelBank.interactions(), alpha=1e-4).fit(X, np.sin(days / 90) * X["x"])
    told = export_model(model, tmp_path / "model.sql")
    np.testing.assert_allclose(run(told, plain(X.assign(when=days))), model.predict(X), atol=told.max_error + 1e-9)
