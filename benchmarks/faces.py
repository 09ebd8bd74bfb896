"""A contract of sizes: every public face on every kind of table, from 60 to 12,000 rows.

``python benchmarks/faces.py [--rows 60,700,2500,12000] [--tables NAME;...] [--faces NAME;...] [--most 60] [--smoke]``

One cell is a face (a public call: fit, report, export, ...) on a table of so many rows. It works, or it is rejected by
an error of this library, or by an exception that is none, "raw", which is a fault. A rejection has to name what works
instead; its message is printed. Every cell has its CPU seconds and the memory that its process gained at the peak.

``forms``: the same model on matrices and on factors. The cell says by how much predictions of new rows differ at most,
as a share of what they vary by, beside both duality gaps and the difference of the default strengths.

``other types``: the new rows with text for numbers, categories for text, 0 and 1 for booleans, text for dates. The
predictions must be those of the rows as they were fitted. ``command``: the same for the files that the command writes.

A cell ends after ``--most`` CPU seconds and is then "too slow". The exit code is 1 if a cell is raw or too slow.
"""

from __future__ import annotations

import argparse
import json
import signal
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import _common as common
import numpy as np
import pandas as pd
from typer.testing import CliRunner

from manykernels import (
    InvalidInputError,
    KernelBank,
    MKLClassifier,
    MKLClassifierCV,
    MKLRegressor,
    MKLRegressorCV,
    MKLSurvival,
    MKLSurvivalCV,
    Views,
    compare,
    load_model,
    regularization_path,
    save_model,
    survival_array,
)
from manykernels.cli import app
from manykernels.inspection import (
    ContributionsDisplay,
    DecompositionDisplay,
    KernelWeightsDisplay,
    ShapeDisplay,
    WaterfallDisplay,
    export_model,
    report,
)

ROWS, SMOKE_ROWS = (60, 700, 2500, 12_000), (60,)
N_NEW = 200  # rows that no fit has seen
WORKS, REJECTED, RAW, SLOW = "works", "rejected", "RAW", "too slow"
MOST_SECONDS = 60.0  # of CPU that a cell may take
ESTIMATORS = {
    "numbers": (MKLRegressor, MKLRegressorCV),
    "classes": (MKLClassifier, MKLClassifierCV),
    "survival": (MKLSurvival, MKLSurvivalCV),
}
ALTERNATIVES = (  # words of a message that names what works instead
    "use ", "give ", "take ", "pass ", "fit ", "export to ", "set ", "leave ", "install ", "choose ", "see ", "drop ",
    "say how", "write ", "convert ",
)  # fmt: skip


# --- tables ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """Rows, their targets, and how an estimator is made for them."""

    X: Any
    y: Any
    task: str = "numbers"
    missing: str = "error"
    options: tuple[tuple[str, Any], ...] = ()
    file: pd.DataFrame | None = None  # as the command reads it, with its targets
    arguments: tuple[str, ...] = ("--target", "y")
    views: str = ""

    def estimator(self, *, search: bool = False, **more: Any) -> Any:
        """Return an untouched estimator, but for what this table requires."""
        bank = None if self.missing == "error" else KernelBank.auto(missing=self.missing)
        return ESTIMATORS[self.task][search](bank, **dict(self.options), **more)

    def take(self, rows: np.ndarray) -> tuple[Any, Any]:
        """Return some of the rows and their targets."""
        X = self.X.iloc[rows] if isinstance(self.X, pd.DataFrame) else self.X[rows]
        return X, self.y[rows]


def numbers_of(rng: np.random.Generator, n: int) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Return five numbers, a smooth function of them, and noise."""
    X = pd.DataFrame(rng.normal(size=(n, 5)), columns=list("abcde"))
    f = np.sin(2 * X["a"]) + X["b"] * X["c"] + 0.5 * X["d"]
    return X, f.to_numpy(), 0.5 * rng.normal(size=n)


def numbers(rng: np.random.Generator, n: int) -> Table:
    """Return numbers alone, as an array of floats with names."""
    X, f, noise = numbers_of(rng, n)
    return Table(X, f + noise, file=X.assign(y=f + noise))


def mixed_of(rng: np.random.Generator, n: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Return numbers, two categories and a boolean, and the target."""
    X, f, noise = numbers_of(rng, n)
    job, town = rng.integers(6, size=n), rng.integers(25, size=n)
    X["job"] = np.array([f"job {k}" for k in job], dtype=object)
    X["town"] = np.array([f"town {k}" for k in town], dtype=object)
    X["member"] = rng.random(n) < 0.4
    return X, f + np.linspace(-1, 1, 6)[job] + 0.5 * X["member"].to_numpy() + noise


def mixed(rng: np.random.Generator, n: int) -> Table:
    """Return numbers, categories and a boolean."""
    X, y = mixed_of(rng, n)
    return Table(X, y, file=X.assign(y=y))


def gaps(rng: np.random.Generator, n: int, where: str, missing: str) -> Table:
    """Return the mixed table with a tenth of the values of some columns missing; two classes."""
    X, y = mixed_of(rng, n)
    for column in {"numbers": ("a", "b"), "categories": ("job", "town"), "both": ("a", "b", "job", "town")}[where]:
        X.loc[rng.random(n) < 0.1, column] = np.nan if column in "ab" else None
    labels = np.where(y > 0, "high", "low")
    return Table(X, labels, "classes", missing, file=X.assign(y=labels))


def views(rng: np.random.Generator, n: int) -> Table:
    """Return two views, of which a fifth of the samples lack one or the other."""
    left = pd.DataFrame(rng.normal(size=(n, 4)), columns=[f"l{j}" for j in range(4)])
    right = pd.DataFrame(rng.normal(size=(n, 6)), columns=[f"r{j}" for j in range(6)])
    y = np.sin(2 * left["l0"]) + right["r0"] + 0.5 * rng.normal(size=n)
    lacking = rng.integers(10, size=n)
    both = Views({"left": left[lacking > 0], "right": right[lacking != 1]})
    y = y.loc[both.index].to_numpy()
    toml = "left = ['left/*']\nright = ['right/*']\n"
    return Table(both, y, file=both.frame.reset_index(drop=True).assign(y=y), views=toml)


def levels(rng: np.random.Generator, n: int) -> Table:
    """Return a column of 3,000 levels, or of as many as half of the rows, beside two numbers."""
    count = min(3000, n // 2)
    group, X = rng.integers(count, size=n), pd.DataFrame(rng.normal(size=(n, 2)), columns=["a", "b"])
    y = np.sin(2 * X["a"]).to_numpy() + rng.normal(size=count)[group] + 0.5 * rng.normal(size=n)
    X["group"] = pd.Categorical([f"g{k}" for k in group])
    return Table(X, y, file=X.assign(y=y))


def dates(rng: np.random.Generator, n: int) -> Table:
    """Return a date and a number; the target has a yearly wave."""
    day = rng.integers(0, 2000, size=n)
    X = pd.DataFrame({"when": pd.Timestamp("2018-01-01") + pd.to_timedelta(day, unit="D"), "a": rng.normal(size=n)})
    y = np.sin(day * 2 * np.pi / 365.25) + X["a"].to_numpy() + 0.5 * rng.normal(size=n)
    return Table(X, y, file=X.assign(y=y))


def survival(rng: np.random.Generator, n: int) -> Table:
    """Return times of events, a third of which are censored."""
    X, f, _ = numbers_of(rng, n)
    seen, leaves = rng.exponential(np.exp(-f)), rng.exponential(2.0 * np.exp(-f).mean(), n)
    months, died = np.minimum(seen, leaves), seen <= leaves
    file = X.assign(months=months, died=np.where(died, "yes", "no"))
    return Table(
        X, survival_array(died, months), "survival", file=file, arguments=("--time", "months", "--event", "died")
    )


def counts(rng: np.random.Generator, n: int) -> Table:
    """Return counts."""
    X, f, _ = numbers_of(rng, n)
    y = rng.poisson(np.exp(np.clip(0.5 * f + 0.5, -3, 3))).astype(float)
    return Table(
        X, y, options=(("loss", "poisson"),), file=X.assign(y=y), arguments=("--target", "y", "--loss", "poisson")
    )


def targets(rng: np.random.Generator, n: int) -> Table:
    """Return three targets; the command reads one target a file."""
    X, f, noise = numbers_of(rng, n)
    return Table(X, np.column_stack([f + noise, X["e"] ** 2 + rng.normal(size=n), X["a"] - f + rng.normal(size=n)]))


def labels(rng: np.random.Generator, n: int) -> Table:
    """Return three classes."""
    X, f, noise = numbers_of(rng, n)
    y = np.array(["low", "middle", "high"], dtype=object)[np.digitize(f + noise, [-0.7, 0.7])]
    return Table(X, y, "classes", file=X.assign(y=y))


TABLES: dict[str, Callable[[np.random.Generator, int], Table]] = {
    "numbers": numbers,
    "mixed": mixed,
    **{
        f"gaps in {where}, {missing}": lambda rng, n, where=where, missing=missing: gaps(rng, n, where, missing)
        for where in ("numbers", "categories", "both")
        for missing in ("mask", "indicator", "error")
    },
    "views with gaps": views,
    "3,000 levels": levels,
    "dates": dates,
    "survival": survival,
    "counts": counts,
    "three targets": targets,
    "three labels": labels,
}


# --- faces -----------------------------------------------------------------------------------------------------------


class Skipped(Exception):  # no error
    """A face that this table does not have."""


class Case:
    """A table, its model, which the first face fits, and a folder."""

    def __init__(self, make: Callable[..., Table], n: int, seed: int, folder: Path) -> None:
        whole = make(np.random.default_rng([seed, n]), n + N_NEW)
        self.table, self.folder = whole, folder
        self.X, self.y = whole.take(np.arange(n))
        self.new, self.new_y = whole.take(np.arange(n, n + N_NEW))
        self.n = n

    @cached_property
    def model(self) -> Any:
        """The untouched model."""
        return self.table.estimator().fit(self.X, self.y)

    @property
    def target(self) -> dict[str, Any]:
        """The first class or target, of those with several, as displays ask for it."""
        if self.table.task == "classes":
            return {"target": self.model.classes_[0]} if len(self.model.classes_) > 2 else {}
        return {"target": 0} if np.ndim(self.y) > 1 else {}


def fit(case: Case) -> str:
    model = case.model
    held = f"{model.representation_}, " if hasattr(model, "representation_") else ""
    return f"{held}gap {model.dual_gap_:.0e}, score {model.score(case.new, case.new_y):.3f}"


def plan(case: Case) -> str:
    found = case.table.estimator().plan(case.X, case.y)
    return "matrices" if found is None else f"{found.kind}, {found.expected_nbytes / 1e6:.0f} MB"


def cross_validation(case: Case) -> str:
    model = case.table.estimator(search=True).fit(case.X, case.y)
    return f"score {model.score(case.new, case.new_y):.3f}"


def path(case: Case) -> str:
    model = case.table.estimator()
    loss = {"survival": "cox", "classes": "logistic"}.get(
        case.table.task, dict(case.table.options).get("loss", "squared")
    )
    found = regularization_path(case.X, case.y, kernels=model.kernels, loss=loss, n_alphas=5, alpha_min_ratio=0.05)
    return f"{len(found.summary())} strengths"


def predict(case: Case) -> str:
    found = np.asarray(case.model.predict(case.new))
    one = np.asarray(case.model.predict(case.table.take(np.arange(case.n, case.n + 1))[0]))
    same = found[:1] == one if found.dtype.kind in "OU" else np.isclose(found[:1], one, rtol=1e-6, atol=1e-9)
    assert same.all(), "one row has another prediction than among many"
    return f"{len(found)} rows"


def probabilities(case: Case) -> str:
    if case.table.task == "survival":
        found = case.model.predict_survival_function(case.new, [0.5, 1.0])
        assert ((found >= 0) & (found <= 1)).all()
        return "survival curves"
    if case.table.task != "classes":
        raise Skipped
    found = case.model.predict_proba(case.new)
    assert np.allclose(found.sum(axis=1), 1.0)
    return f"{found.shape[1]} classes"


def decompose(case: Case) -> str:
    parts = case.model.decompose(case.new).sum(axis=0) + getattr(case.model, "intercept_", 0.0)
    if case.table.task == "classes" or case.table.options:
        scores = case.model.decision_function(case.new)
    else:
        scores = case.model.predict(case.new)
    error = np.abs(parts - scores).max() / max(float(np.std(scores)), 1e-12)
    assert error < 1e-6, f"the sum of the parts differs by {error:.0e}"
    return f"{len(case.model.decompose_frame(case.new).columns)} parts"


def importances(case: Case) -> str:
    frame = case.model.importance_frame()
    by = "" if frame.empty else f", {frame['n_rows'].iloc[0]} rows"
    return f"{case.model.importance_method_}{by}"


def displays(case: Case) -> str:
    import matplotlib.pyplot as plt

    made = [
        KernelWeightsDisplay.from_estimator(case.model),
        DecompositionDisplay.from_estimator(case.model, case.new, samples=[0, 1], **case.target),
        ContributionsDisplay.from_estimator(case.model, case.new, **case.target),
        WaterfallDisplay.from_estimator(case.model, case.new, sample=0, **case.target),
    ]
    for display in made:
        display.plot()
    plt.close("all")
    return f"{len(made)} displays"


def bands(case: Case) -> str:
    shapes = ShapeDisplay.from_estimator(case.model, case.X, bands=True, **case.target).frame()
    assert np.isfinite(shapes["std"]).all()
    return f"std {shapes['std'].mean():.2g}"


def return_std(case: Case) -> str:
    if case.table.task != "numbers":
        raise Skipped
    spread = case.model.predict(case.new, return_std=True)[1]
    assert np.isfinite(spread).all()
    return f"std {np.mean(spread):.2g}"


def document(case: Case) -> str:
    file = case.folder / "report.html"
    report(case.model, case.X, case.y, file, X_test=case.new, y_test=case.new_y)
    text = file.read_text(encoding="utf-8")
    return "with the plain sum" if "plain sum" in text and "too slow" not in text else "without the plain sum"


def comparison(case: Case) -> str:
    found = compare(case.table.estimator(), case.X, case.y, cv=2)
    return f"{len(found)} methods"


def saved(case: Case) -> str:
    file = case.folder / "model.mkl"
    save_model(case.model, file, overwrite=True) if file.exists() else save_model(case.model, file)
    assert (np.asarray(load_model(file).predict(case.new)) == np.asarray(case.model.predict(case.new))).all()
    return f"{file.stat().st_size / 1e3:.0f} kB"


def exported(ending: str) -> Callable[[Case], str]:
    def export(case: Case) -> str:
        found = export_model(case.model, case.folder / f"model{ending}", tol=1e-3)
        return f"error {found.max_error:.0e}, {found.path.stat().st_size / 1e3:.0f} kB"

    return export


def other_types(case: Case) -> str:
    if isinstance(case.new, Views):
        raise Skipped
    frame, tried = pd.DataFrame(case.new), []
    for name, column in frame.items():
        gaps = column.isna()
        if pd.api.types.is_bool_dtype(column):
            forms = [column.astype(float), column.astype(str)]
        elif pd.api.types.is_float_dtype(column):
            forms = [column.map(lambda value: None if pd.isna(value) else repr(float(value))).astype(object)]
            forms.append(column.astype("Float64"))
        elif pd.api.types.is_datetime64_any_dtype(column):
            forms = [column.dt.strftime("%Y-%m-%d"), column.astype("datetime64[s]")]
        else:
            forms = [column.astype("category"), column.astype("string"), column.astype(object).where(~gaps, np.nan)]
        tried += [frame.assign(**{str(name): form}) for form in forms]
    usual, rejected = np.asarray(case.model.predict(case.new)), []
    for other in tried:
        try:
            found = np.asarray(case.model.predict(other))
        except InvalidInputError as error:
            rejected.append(str(error))
            continue
        same = found == usual if usual.dtype.kind in "OU" else np.isclose(found, usual, rtol=1e-9, atol=1e-12)
        assert same.all(), f"{(~same).mean():.0%} of the predictions differ with {dict(other.dtypes)}"
    if rejected:
        raise InvalidInputError(rejected[0])
    return f"{len(tried)} forms"


def command(ending: str) -> Callable[[Case], str]:
    def run(case: Case) -> str:
        return run_command(case, ending)

    return run


def run_command(case: Case, ending: str) -> str:
    """Fit, predict and inspect by the command, and compare its predictions with those of the loaded model."""
    if case.table.file is None:
        raise Skipped
    data, model, runner = case.folder / f"table{ending}", case.folder / "command.mkl", CliRunner()
    rows, written = case.table.file.iloc[: case.n], case.folder / "predictions.csv"
    rows.to_csv(data, index=False) if ending == ".csv" else rows.to_parquet(data)
    arguments = [*case.table.arguments, "--missing", "mask" if case.table.views else case.table.missing]
    if case.table.views:
        (case.folder / "views.toml").write_text(case.table.views)
        arguments += ["--views", str(case.folder / "views.toml")]
    steps = (
        ["fit", str(data), *arguments, "--output", str(model), "--force", "--json"],
        ["predict", str(model), str(data), "--output", str(written), "--force"],
        ["inspect", str(model), "--json"],
    )
    for step in steps:
        found = runner.invoke(app, step)
        if found.exit_code:
            if found.exception is not None and not isinstance(found.exception, SystemExit):
                raise found.exception
            raise InvalidInputError(
                json.loads(found.stdout).get("error", found.stdout) if found.stdout.startswith("{") else found.output
            )
    by_file, loaded = pd.read_csv(written, keep_default_na=False), load_model(model)
    score = next((name for name in by_file.columns if name in ("prediction", "risk", "predicted")), by_file.columns[-1])
    if not case.table.views and case.table.task == "numbers":
        usual = np.asarray(loaded.predict(rows[list(loaded.feature_names_in_)]))
        assert np.allclose(by_file[score], usual, rtol=1e-5, atol=1e-6), "the file has other predictions"
    return f"fit, predict ({', '.join(by_file.columns[:3])}), inspect"


def forms(case: Case) -> str:
    if case.n > 3000:
        raise Skipped
    ask = {form: {"representation": form} for form in ("gram", "factored")}
    models = [case.table.estimator(resources=asked).fit(case.X, case.y) for asked in ask.values()]
    scores = [model.decompose(case.new).sum(axis=0) for model in models]
    apart = np.abs(scores[0] - scores[1]).max() / max(float(np.std(scores[0])), 1e-12)
    alphas, gaps = ([np.mean(getattr(model, name)) for model in models] for name in ("alpha_", "dual_gap_"))
    strengths = f"strengths {abs(alphas[1] / alphas[0] - 1):.0e} apart"
    return f"{apart:.0e} of the spread apart, gaps {gaps[0]:.0e} and {gaps[1]:.0e}, {strengths}"


FACES: dict[str, Callable[[Case], str]] = {
    "plan": plan,
    "fit": fit,
    "predict": predict,
    "other types": other_types,
    "probabilities": probabilities,
    "decompose": decompose,
    "importances": importances,
    "displays": displays,
    "bands": bands,
    "return_std": return_std,
    "save, load": saved,
    ".py": exported(".py"),
    ".onnx": exported(".onnx"),
    ".sql": exported(".sql"),
    ".csv": exported(".csv"),
    "command": command(".csv"),
    "Parquet": command(".parquet"),
    "path": path,
    "report": document,
    "forms": forms,
    "CV": cross_validation,
    "compare": comparison,
}
QUICK = tuple(name for name in FACES if name not in ("CV", "compare", "report", "forms"))


# --- cells -----------------------------------------------------------------------------------------------------------


def peak_mb(*, reset: bool = False) -> float:
    """Return the largest resident set since the last reset, MB; without resets where the system has none."""
    try:
        if reset:
            Path("/proc/self/clear_refs").write_text("5")
        (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
        return int(line.split()[1]) / 1e3
    except OSError:
        return common.peak_memory_bytes() / 1e6


class TooSlow(BaseException):  # no handler of errors in a face may catch it
    """A face took more CPU seconds than it may."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise `TooSlow` after so many CPU seconds, where the system has such timers."""

    def stop(*_: object) -> None:
        raise TooSlow

    if not hasattr(signal, "setitimer"):
        yield
        return
    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


def cell(face: Callable[[Case], str], case: Case, most: float = MOST_SECONDS) -> dict[str, Any] | None:
    """Run a face and return what came of it; None if the table does not have it."""
    before, started = peak_mb(reset=True), time.process_time()
    try:
        with limited(most):
            outcome, told = WORKS, face(case)
    except Skipped:
        return None
    except TooSlow:
        outcome, told = SLOW, f"more than {most:.0f} CPU seconds"
    except InvalidInputError as error:
        named = any(word in str(error).lower() for word in ALTERNATIVES)
        outcome, told = REJECTED if named else f"{REJECTED}, no alternative", str(error)
    except Exception as error:
        outcome, told = RAW, f"{type(error).__name__}: {error}"
    return {"outcome": outcome, "seconds": time.process_time() - started, "mb": peak_mb() - before, "told": told}


def measure(tables: list[str], faces: list[str], rows: list[int], seed: int, most: float) -> pd.DataFrame:
    """Return one row a cell; faces of a model that was not fitted are left out."""
    found: list[dict[str, Any]] = []
    for n in rows:
        for name in tables:
            with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
                warnings.simplefilter("ignore")
                case = Case(TABLES[name], n, seed, Path(folder))
                for face in faces:
                    result = cell(FACES[face], case, most)
                    if result is not None:
                        found.append({"table": name, "rows": n, "face": face} | result)
                        show(found[-1])
                    if face == "fit" and result is not None and result["outcome"] != WORKS:
                        break
    return pd.DataFrame(found)


def show(row: dict[str, Any]) -> None:
    """Print one cell on a line."""
    told = " ".join(str(row["told"]).split())
    common.CONSOLE.print(
        f"{row['table']:>26} {row['rows']:>6} {row['face']:<13} {row['outcome']:<9} {row['seconds']:7.2f} s "
        f"{row['mb']:6.0f} MB  {told[:110]}",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )


def main() -> int:
    """Measure, print, save."""
    parser = common.parser("Every public face on every kind of table and number of rows.")
    parser.add_argument("--rows", help="numbers of rows, comma-separated; all")
    parser.add_argument("--tables", help="beginnings of names of tables, separated by ';'; all")
    parser.add_argument("--faces", help="names of faces, separated by ';'; all, or 'quick' for all but the slow ones")
    parser.add_argument("--most", type=float, default=MOST_SECONDS, help="CPU seconds that a cell may take")
    options: argparse.Namespace = parser.parse_args()
    record = common.environment()
    common.print_environment(record)
    rows = [int(n) for n in options.rows.split(",")] if options.rows else list(SMOKE_ROWS if options.smoke else ROWS)
    begins = tuple(options.tables.split(";")) if options.tables else ("",)
    tables = [name for name in TABLES if name.startswith(begins)]
    faces = list(FACES) if not options.faces else options.faces.split(";")
    if options.smoke:
        tables, faces = (
            ["mixed", "gaps in both, indicator", "survival"],
            ["fit", "predict", "save, load", ".py", "path"],
        )
    faces = list(QUICK) if faces == ["quick"] else faces
    frame = measure(tables, [face for face in FACES if face in {*faces, "fit"}], rows, options.seed, options.most)
    table = frame.groupby(["rows", "outcome"]).size().unstack(fill_value=0).reset_index()
    common.print_table(table, "Cells")
    common.save(frame, record, options.output, "faces")
    return int(frame["outcome"].isin([RAW, SLOW]).any())


if __name__ == "__main__":
    raise SystemExit(main())
