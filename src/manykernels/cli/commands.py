"""The commands; names and options come from the arguments of functions and from the table of parameters.

Two are complete in the module: ``demo``, the SimpleMKL protocol on a real data set beside tuned one-kernel rivals, and
``warm``, for compiling the loops ahead, in an image or before several processes start.
"""

import inspect
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Annotated, Any, get_origin, get_type_hints

import numpy as np
import pandas as pd
import typer
from joblib import Parallel, delayed
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, roc_auc_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from typer.core import TyperCommand

from manykernels.cli import console
from manykernels.cli.explore import run_compare, run_path, run_plan
from manykernels.cli.fit import run_fit
from manykernels.cli.models import run_export, run_inspect, run_predict, run_report
from manykernels.compiled import compilations
from manykernels.datasets import load_bundled
from manykernels.estimators import (
    HierarchicalMKL,
    KernelAligner,
    MKLClassifier,
    MKLClassifierCV,
    MKLRegressor,
    MKLRegressorCV,
    MKLSurvival,
    PolynomialMKL,
)
from manykernels.estimators.parameters import DEFAULT_LOSS, PARAMETERS, Parameter
from manykernels.exceptions import IncompatibleError, InvalidInputError
from manykernels.grams import LazyStack, PackedStack
from manykernels.grams.training import build_stack
from manykernels.inspection import ConvergenceDisplay, MKLReport, plot_overview, predictive_importance, save_model
from manykernels.inspection.files import save_figure, write_file
from manykernels.kernels import Binned, Gaussian, KernelBank, Kmers, Laplacian, Linear
from manykernels.objective import survival_array
from manykernels.solvers import SOLVERS, solve
from manykernels.solvers.registration import use_module
from manykernels.validation.parameters import printable

N_ROWS, N_COLUMNS = 60, 3
ONLINE = ("obscure", "ufo_mkl")  # most of whose loops nobody else has
PENALTIES = ("l1", "elasticnet", "lq", "simplex")


def run_warm(
    outcome: console.Outcome,
    workers: Annotated[int, typer.Option(min=1, help="Processes that compile side by side.")] = 1,
) -> None:
    """Compile all loops ahead, once an installation: in an image, or before many processes start."""
    started, counts = time.perf_counter(), {}
    with console.errors().status("compiling loops"):
        for name, count, seconds in Parallel(workers, return_as="generator")(map(delayed(_warmed), fits())):
            counts[name] = count
            if count:
                outcome.show(f"{name}: {count} loops compiled in {seconds:.1f} s")
    total, passed = sum(counts.values()), time.perf_counter() - started
    outcome.result = {"compiled": counts, "seconds": passed}
    outcome.show(f"{total} loops compiled in {passed:.1f} s." if total else "All loops had been compiled before.")


def _warmed(name: str) -> tuple[str, int, float]:
    """Fit the named loops; return the name, the number of compiled loops, and seconds."""
    before = time.perf_counter()
    with warnings.catch_warnings(), compilations() as compiled:
        warnings.simplefilter("ignore")  # these models are nobody's
        fits()[name]()
    return name, len(compiled), time.perf_counter() - before


def _fit_to_noise(rng: np.random.Generator) -> None:
    """Fit many columns of noise, enough to enter the working set in turns."""
    bank, X = KernelBank.per_feature(widths=[0.5, 2.0], standardize=True), rng.normal(size=(200, 40))
    y = np.sin(2.0 * X[:, 0]) + rng.normal(size=200)
    MKLRegressor(bank, alpha="0.1*noise", resources={"representation": "factored"}, tol=1e-2).fit(X, y)


def _search(X: Any, y: Any, columns: KernelBank, grams: Any) -> None:
    """Choose by cross-validation, and read copies in single precision as searches do."""
    kinds = np.digitize(y, [-0.5, 0.5])
    for target in (y > 0.0, kinds):
        MKLClassifierCV().fit(X, target).predict(X)
    MKLRegressorCV().fit(X, y)
    MKLRegressorCV(columns, n_alphas=3, resources={"representation": "factored"}).fit(X, y)
    MKLClassifierCV("precomputed").fit(grams, kinds).predict(grams)
    for dtype in (np.float32, np.float64):
        held = KernelBank.auto().fit_prepare(np.round(np.resize(X, (N_ROWS, N_COLUMNS)), 1))
        copy = PackedStack.from_stack(LazyStack(*held, dtype=dtype), dtype=np.float32)
        copy._quad(np.resize(y, N_ROWS))  # the loop, which products that are known spare
        copy.apply_each(np.resize(y, (N_ROWS, 2)))
        copy.combine(np.ones(copy.n_kernels))


def _fit_sequences(y: Any, rng: np.random.Generator, ways: Sequence[dict[str, Any]]) -> None:
    """Fit parts of sequences in every representation."""
    words = pd.DataFrame({"bases": ["".join(row) for row in rng.choice(list("ACGT"), size=(N_ROWS, 9))]})
    for spec, held in product((Kmers(2), Kmers(2, positional=True, shift=1)), ways):
        bank = KernelBank([("words", spec, "bases")])
        MKLRegressor(bank, **held).fit(words, y).predict(words)


def fits() -> dict[str, Callable[[], Any]]:
    """Return small fits, by purpose, that together call the loops of the estimators."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, N_COLUMNS))
    y = np.sin(2.0 * X[:, 0]) + 0.1 * rng.normal(size=N_ROWS)
    labels, times = y > 0.0, survival_array(y > 0.0, np.exp(y))
    several = np.column_stack([y, X[:, 1]])
    by_column = np.stack([np.exp(-((X[:, [j]] - X[:, j]) ** 2)) for j in range(N_COLUMNS)])
    columns = KernelBank.per_feature([Gaussian(1.0), Gaussian(3.0), Laplacian(1.0), Linear()])
    pairs = KernelBank.per_feature(widths=["median"]) + KernelBank.interactions(bins=8)
    wide, rising = KernelBank.simplemkl(), KernelBank.per_feature(widths=[1.0], shape={0: "increasing"})
    gram: dict[str, Any] = {"resources": {"representation": "gram"}, "tol": 1e-2}
    factored: dict[str, Any] = {"resources": {"representation": "factored"}, "tol": 1e-2}

    def fit_matrices() -> None:
        for loss in ("logistic", "hinge"):
            MKLClassifier(wide, loss=loss, **gram).fit(X, labels).predict(X)
        for loss in ("squared", "quantile"):
            MKLRegressor(wide, loss=loss, **gram).fit(X, y).predict(X)
        MKLRegressor(wide, outputs="shared", **gram).fit(X, several).predict(X)
        for dtype in (np.float32, np.float64):
            build_stack(wide.fit(X), X, kind="lazy", dtype=dtype).quad(y)

    def fit_factors() -> None:
        for penalty in ("l1", "elasticnet", "group_elasticnet"):
            MKLRegressor(columns, penalty=penalty, **factored).fit(X, y).predict(X)
        MKLClassifier(columns, **factored).fit(X, labels).predict(X)
        MKLRegressor(columns, outputs="shared", **factored).fit(X, several)
        MKLRegressor(pairs, **factored).fit(X, y).predict(X)
        _fit_to_noise(rng)
        triples = KernelBank.interactions(Binned(Gaussian(0.3), 2), order=3)
        MKLRegressor(triples, **factored).fit(np.hstack([X, X[::-1]]), y)

    def fit_survival() -> None:
        for held in (gram, factored):
            MKLSurvival(columns, **held).fit(X, times).score(X, times)

    def solvers(names: list[str]) -> None:
        for solver, loss, penalty in product(names, ("hinge", "logistic", "squared"), PENALTIES):
            with suppress(IncompatibleError):
                target = y if loss == "squared" else np.sign(y)
                limits: dict[str, Any] = {"alpha": 1.0 / len(y), "tol": 0.1, "max_iter": 3}
                solve(by_column, target, loss=loss, penalty=penalty, solver=solver, **limits)

    return {  # what shares loops is far apart: processes side by side would compile them twice
        "kernels as factors": fit_factors,
        "methods of papers that learn online": lambda: solvers(list(ONLINE)),
        "searches": lambda: _search(X, y, columns, by_column),
        "other methods of papers": lambda: solvers([name for name in SOLVERS if name not in ONLINE]),
        "kernels as matrices": fit_matrices,
        "survival": fit_survival,
        "products of columns": lambda: (PolynomialMKL(2).fit(X, y), HierarchicalMKL(degree=2).fit(X, y)),
        "alignment": lambda: KernelAligner(wide).fit(X, labels),
        "sequences": lambda: _fit_sequences(y, rng, (gram, factored)),
        "columns with shapes": lambda: MKLRegressor(rising).fit(X, y),
    }


OUTPUT = Path("demo_output")
STRENGTH = 0.5  # C on the sum of losses, as in the experiments of the SpicyMKL paper
SEED = 0
SVC_GRID = {"svc__C": np.logspace(-1, 4, 6), "svc__gamma": np.logspace(-4, 0, 9)}
LOGISTIC_GRID = {"logisticregression__C": np.logspace(-3, 3, 13)}


@dataclass(frozen=True)
class Judged:
    """A fitted model with scores on held-out rows."""

    name: str
    accuracy: float
    roc_auc: float
    seconds: float
    detail: str


def run_demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for tables, model and picture.")] = OUTPUT,
    *,
    outcome: console.Outcome,
    data: tuple[pd.DataFrame, pd.Series] | None = None,
) -> None:
    """Fit 837 kernels to a bundled data set and compare with a tuned single-kernel SVC."""
    output.mkdir(parents=True, exist_ok=True)
    X, y = load_bundled("breast_cancer") if data is None else data
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, stratify=y, random_state=SEED)
    model, seconds = fit_many_kernels(X_train, y_train)
    report = MKLReport.from_estimator(model, X_test, y_test)
    detail = f"{report.n_active} of {report.n_kernels} kernels, C = {STRENGTH:g} fixed"
    rows = [Judged("manykernels", *_scores(model, X_test, y_test), seconds, detail)]
    rows += rivals(X_train, y_train, X_test, y_test)
    importance = predictive_importance(model, X_test, y_test, scoring="roc_auc", random_state=SEED)
    files = write_files(output, model, report, importance)
    outcome.settle(report.status)
    outcome.result = {
        **report.to_dict(),
        "n_train": len(X_train),
        "comparison": [asdict(row) for row in rows],
        "importance": importance.to_dict("records"),
        "files": {name: str(path) for name, path in files.items()},
    }
    outcome.show(*describe(report, rows, importance, files, X.shape))


def fit_many_kernels(X: pd.DataFrame, y: ArrayLike) -> tuple[MKLClassifier, float]:
    """Return the fitted classifier of the SimpleMKL protocol and the seconds of the fit.

    A first fit on a few rows compiles the loops, once per installation, so the time excludes compilation.
    """
    tol = 1e-6
    settings: dict[str, Any] = {"loss": "hinge", "penalty": "l1", "tol": tol}
    bank = KernelBank.simplemkl(normalize="trace")  # as in the paper, whose C it is
    with console.errors().status("compiling loops (first run only)"):
        few, _, labels, _ = train_test_split(X, y, train_size=40, stratify=y, random_state=SEED)
        MKLClassifier(bank, alpha=STRENGTH / len(few), **{**settings, "tol": 0.5}).fit(few, labels)
    started = time.perf_counter()
    model = MKLClassifier(bank, alpha=STRENGTH / len(X), resources={"verbose": console.verbosity()}, **settings)
    model.fit(X, y)
    return model, time.perf_counter() - started


def rivals(X: pd.DataFrame, y: ArrayLike, X_test: pd.DataFrame, y_test: ArrayLike) -> list[Judged]:
    """Return one-kernel machines on standardized columns: untouched, tuned, and tuned linear."""
    svc = make_pipeline(StandardScaler(), SVC())
    logistic = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    rows = [_judged("SVC, untouched", svc, (X, y, X_test, y_test), lambda _: "one Gaussian kernel")]
    for name, model, grid in (("SVC", svc, SVC_GRID), ("logistic regression", logistic, LOGISTIC_GRID)):
        search = GridSearchCV(model, grid, cv=StratifiedKFold(5, shuffle=True, random_state=SEED))
        rows.append(_judged(f"{name}, tuned", search, (X, y, X_test, y_test), _choice))
    return rows


def _judged(name: str, model: BaseEstimator, data: tuple[Any, ...], described: Callable[[Any], str]) -> Judged:
    """Fit and score a rival."""
    X, y, X_test, y_test = data
    with console.errors().status(f"fitting: {name}"):
        started = time.perf_counter()
        model.fit(X, y)
        seconds = time.perf_counter() - started
    return Judged(name, *_scores(model, X_test, y_test), seconds, described(model))


def _choice(search: BaseEstimator) -> str:
    """Return the choice of a grid search as text."""
    best = [f"{name.split('__')[1]} = {value:.3g}" for name, value in search.best_params_.items()]
    return f"{' and '.join(best)} of {len(search.cv_results_['params'])} tried"


def write_files(output: Path, model: MKLClassifier, report: MKLReport, importance: pd.DataFrame) -> dict[str, Path]:
    """Write model, report, tables and picture; return their paths by name."""
    names = {
        "picture": "demo.png",
        "narrow picture": "demo_narrow.png",
        "model": "model.mkl",
        "importance": "importance.csv",
        "weights": "weights.csv",
        "history": "history.csv",
    }
    files = {name: output / file for name, file in {**names, "report": "report.json"}.items()}
    save_model(model, files["model"])
    write_file(files["importance"], importance.to_csv(index=False), "table of importance")
    write_file(files["weights"], report.weights.to_csv(index=False), "table of weights")
    write_file(files["history"], ConvergenceDisplay.from_estimator(model).frame().to_csv(index=False), "history")
    write_file(files["report"], report.to_json(indent=2) + "\n", "report")
    accuracy = report.scores["accuracy"]
    title = (
        f"{report.n_kernels} kernels on {report.n_features} columns, {report.n_samples} rows: {report.n_active} "
        f"selected, held-out accuracy {accuracy:.3f}"
    )
    for name, narrow in (("picture", False), ("narrow picture", True)):
        drawn = plot_overview(model, title=None if narrow else title, top=12 if narrow else 20, narrow=narrow)
        save_figure(drawn, files[name], dpi=100, pil_kwargs={"optimize": True})
    return files


def describe(
    report: MKLReport, rows: list[Judged], importance: pd.DataFrame, files: dict[str, Path], shape: tuple[int, ...]
) -> list[Any]:
    """Return facts, comparison, columns, kernels and files in the printed form."""
    facts = {
        "data": f"{shape[0]} rows, {shape[1]} columns; {report.n_samples} rows to fit, {report.n_test} held out",
        "kernels": f"{report.n_kernels}: 24 Gaussian and 3 polynomial, on each column and on all columns",
        "problem": f"hinge loss, block 1-norm, C = {STRENGTH:g} on the sum (alpha {report.alpha:.3g})",
        **console.solution_facts(report),
    }
    n_test = report.n_test
    title = f"On the {n_test} rows held out (one row more or less: {1 / n_test:.3f} of accuracy)"
    compared = console.column_table(title, ("model", "accuracy", "ROC AUC", "seconds", ""), texts=("model", ""))
    for row in rows:
        compared.add_row(row.name, f"{row.accuracy:.4f}", f"{row.roc_auc:.4f}", f"{row.seconds:.2f}", row.detail)
    title = f"Importance: drop in ROC AUC on the {n_test} held-out rows when a column is permuted"
    lost = console.column_table(title, ("column", "importance", "p-value"), texts=["column"])
    for column in importance.to_dict("records"):
        name = "all columns" if column["name"] == "all" else column["name"]
        lost.add_row(printable(name), f"{column['importance']:.4f}", f"{column['p_value']:.3f}")
    told = [
        console.fact_table(facts, "Multiple kernel learning"),
        compared,
        lost,
        console.weights_table(report.weights),
    ]
    return [part for table in told for part in (table, "")] + [console.fact_table(files, "Written")]


def _scores(model: BaseEstimator, X: pd.DataFrame, y: ArrayLike) -> tuple[float, float]:
    positive = np.asarray(y) == model.classes_[1]
    return float(accuracy_score(y, model.predict(X))), float(roc_auc_score(positive, model.decision_function(X)))


EPILOG = "Exit codes: 0 success, 1 wrong input, 2 wrong usage, 3 the solver did not converge, 130 interrupted."

app = typer.Typer(
    name="manykernels",
    help="Multiple kernel learning: fit, explain and export models.",
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # whose tables cut the names of penalties and losses
)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"manykernels {version('manykernels')}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True)
    ] = False,
    use: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="A Python file or module that registers kernels, losses, penalties or solvers. It is run.",
        ),
    ] = None,
) -> None:
    """Show the help or the version; run the files that register names."""
    for place in use or ():
        try:
            use_module(place)
        except InvalidInputError as error:
            raise typer.BadParameter(str(error), param_hint="--use") from error


LOSS_SHAPES = ("tau", "epsilon", "delta")
PENALTY_SHAPES = ("l1_ratio", "q", "p", "eta")
NO_OPTIONS = ("random_state", "verbose", "callback")  # --seed, a flag of the terminal, and code
SETTINGS = tuple(name for name in PARAMETERS if name not in NO_OPTIONS)
DEFAULT_OF_TASK = {
    "loss": f"Default {' or '.join(DEFAULT_LOSS.values())}.",
    "penalty": "Default l1; with --cv, a search over mixtures.",
}
# Sections of the help of commands with many options; the last one takes all others.
SECTIONS: dict[str, tuple[str, ...]] = {
    "Data": ("target", "time", "event", "strata", "task", "drop", "ids", "missing", "drop_missing", "na", "encoding"),
    "Kernels": ("kernels", "views", "representation", "memory_budget"),
    "Model": ("loss", *LOSS_SHAPES, "penalty", "alpha", *PENALTY_SHAPES, "outputs", "fit_intercept"),
    "Validation": ("test_size", "cv", "folds", "groups", "seed", "n_alphas"),
    "Solver": ("solver", "tol", "max_iter", "time_limit", "n_jobs"),
    "Output": (),
}
FEW_OPTIONS = 15


class SectionedCommand(TyperCommand):
    """A command whose help lists many options in sections."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options by section."""
        parts = {part.name: (part, part.get_help_record(ctx)) for part in self.get_params(ctx)}
        if len(parts) < FEW_OPTIONS:
            super().format_options(ctx, formatter)
            return
        placed = {name: section for section, names in SECTIONS.items() for name in names}
        order = [name for names in SECTIONS.values() for name in names if name in parts]
        rows: dict[str, list[tuple[str, str]]] = {}
        for name in sorted(parts, key=lambda name: order.index(name) if name in order else len(order)):
            part, record = parts[name]
            section = "Arguments" if part.param_type_name == "argument" else placed.get(str(name), "Output")
            if record is not None:
                rows.setdefault(section, []).append(record)
        for section in ("Arguments", *SECTIONS):
            if section in rows:
                with formatter.section(section):
                    formatter.write_dl(rows[section])


JSON = inspect.Parameter(
    "as_json",
    inspect.Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout, and nothing else there.")],
)


def _option(parameter: Parameter) -> inspect.Parameter:
    """Return the command-line option of a parameter of the estimators, with default and help."""
    default, text = parameter.default, parameter.help
    kind: Any = str if parameter.range is None else int if parameter.range.whole else float
    kind = {"fit_intercept": bool, "n_jobs": int}.get(parameter.name, kind)
    kind = str if isinstance(default, str) else kind  # a number will do as well, see ``_numbers_or_text``
    if parameter.choices:
        text += f" One of {', '.join(parameter.choices)}."
    if parameter.name in DEFAULT_OF_TASK:
        default, text = None, f"{text} {DEFAULT_OF_TASK[parameter.name]}"
    return inspect.Parameter(
        parameter.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[kind | None if default is None else kind, typer.Option(help=text)],
    )


def _numbers_or_text(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings with texts converted to numbers, for parameters that also accept "auto"."""
    values = dict(settings)
    for name, value in settings.items():
        if isinstance(value, str) and PARAMETERS[name].range is not None:
            with suppress(ValueError):
                values[name] = float(value)
    return values


def command(name: str, run: Callable[..., None], settings: tuple[str, ...] = ()) -> None:
    """Register a command with the options of the function, or of the class of the argument ``options``.

    Parameters of the estimators named in ``settings`` become options too; the first lines of ``run`` are the help.
    """
    options = get_type_hints(run).get("options")

    def start(as_json: bool, **given: object) -> None:
        chosen = {setting: given.pop(setting) for setting in settings}
        if options is not None:
            given = {"options": options(**given, **({"settings": _numbers_or_text(chosen)} if settings else {}))}
        with console.running(name, as_json=as_json) as outcome:
            run(**given, outcome=outcome)

    hints = get_type_hints(options or run, include_extras=True)
    own = [
        part.replace(annotation=hints[part.name], kind=part.KEYWORD_ONLY)
        for part in inspect.signature(options or run).parameters.values()
        if get_origin(hints.get(part.name)) is Annotated
    ]
    parts = [*own, *(_option(PARAMETERS[setting]) for setting in settings), JSON]
    start.__signature__ = inspect.Signature(parts)  # type: ignore[attr-defined]  # what typer reads
    start.__annotations__ = {part.name: part.annotation for part in parts}
    text = inspect.getdoc(run) or ""
    app.command(name, help=text, short_help=text.splitlines()[0], epilog=EPILOG, cls=SectionedCommand)(start)


command("fit", run_fit, SETTINGS)
command("predict", run_predict)
command("inspect", run_inspect)
command("export", run_export)
command("report", run_report)
command("path", run_path, SETTINGS)
command("compare", run_compare, SETTINGS)
command("plan", run_plan, ("representation", "memory_budget"))
command("warm", run_warm)
command("demo", run_demo)
