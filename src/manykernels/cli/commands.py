"""The commands and their options."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from manykernels.cli.console import running
from manykernels.cli.demo import run_demo
from manykernels.cli.explore import run_compare, run_path, run_plan
from manykernels.cli.fit import FitOptions, run_fit
from manykernels.cli.inspect import run_export, run_inspect, run_report
from manykernels.cli.predict import PredictOptions, run_predict
from manykernels.cli.warm import run_warm
from manykernels.estimators.parameters import DEFAULT_LOSS, PARAMETERS, Parameter

EPILOG = "Exit codes: 0 fine, 1 wrong input, 2 wrong usage, 3 the solver did not converge, 130 interrupted."

app = typer.Typer(
    name="manykernels",
    help="Learn from many kernels which of them matter.",
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


class Task(StrEnum):
    """What is predicted."""

    AUTO = "auto"
    CLASSIFICATION = "classification"
    REGRESSION = "regression"


class Gaps(StrEnum):
    """What a missing value means."""

    ERROR = "error"
    MASK = "mask"
    INDICATOR = "indicator"


Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout, and nothing else there.")]
Data = Annotated[Path, typer.Argument(help="Table: CSV (comma, semicolon, tab) or Parquet, a header line first.")]
ModelFile = Annotated[Path, typer.Argument(help="File written by 'manykernels fit'.")]
Folds = Annotated[int | None, typer.Option(min=2, help="Choose strength and mixture in this many folds.")]
Groups = Annotated[str | None, typer.Option(help="Column whose equal rows are never split; no feature.")]
Force = Annotated[bool, typer.Option("--force", help="Replace files that are there.")]
Picture = Annotated[Path | None, typer.Option(help="Picture to write (.png, .svg, .pdf).")]
TableFile = Annotated[Path | None, typer.Option("--output", "-o", help="CSV or Parquet file for the whole table.")]


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"manykernels {version('manykernels')}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Show the help or the version."""


def _option(parameter: Parameter) -> inspect.Parameter:
    """Return the option of one parameter of the estimators, with its default and its help."""
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
    """Return settings with the numbers that texts are, for parameters that may also be "auto"."""
    found = dict(settings)
    for name, value in settings.items():
        if isinstance(value, str) and PARAMETERS[name].range is not None:
            with suppress(ValueError):
                found[name] = float(value)
    return found


NO_OPTIONS = ("random_state", "verbose", "callback")  # --seed, a flag of the terminal, and code
DEFAULT_OF_TASK = {
    "loss": f"Default {' or '.join(DEFAULT_LOSS.values())}.",
    "penalty": "Default l1; with --cv, a search over mixtures.",
}


def table_options(
    data: Data,
    target: Annotated[str | None, typer.Option(help="Column to predict.")] = None,
    time: Annotated[str | None, typer.Option(help="Survival: column of times, in place of --target.")] = None,
    event: Annotated[str | None, typer.Option(help="Survival: column that says if the event was seen.")] = None,
    strata: Annotated[str | None, typer.Option(help="Survival: column of groups with baselines of their own.")] = None,
    task: Annotated[Task, typer.Option(help="'auto' looks at the target.")] = Task.AUTO,
    kernels: Annotated[str, typer.Option(help="'default', 'simplemkl' or a TOML file.")] = "default",
    views: Annotated[Path | None, typer.Option(help="TOML file that names views: rna = ['gene1', 'rna_*'].")] = None,
    drop: Annotated[list[str] | None, typer.Option(help="Column that is no feature; may be repeated.")] = None,
    ids: Annotated[list[str] | None, typer.Option("--id", help="Column that names rows; may be repeated.")] = None,
    drop_missing: Annotated[bool, typer.Option("--drop-missing", help="Leave out rows with missing values.")] = False,
    missing: Annotated[
        Gaps,
        typer.Option(
            help="Missing values: refuse them, leave rows out of the kernels they lack, or tell that they lack."
        ),
    ] = Gaps.ERROR,
) -> FitOptions:
    """Return what the options say that every command on a table has."""
    if (time is None) != (event is None) or (target is None) == (time is None):
        raise typer.BadParameter("Name what to predict: --target COLUMN, or --time COLUMN and --event COLUMN.")
    if strata is not None and event is None:
        raise typer.BadParameter("--strata is for survival, with --time and --event.")
    if time is not None and task is not Task.AUTO:
        raise typer.BadParameter("--time and --event are those of survival; leave out --task.")
    return FitOptions(
        data=data,
        target=target or time or "",
        event=event,
        strata=strata,
        task=task.value,
        kernels=kernels,
        views=views,
        drop=tuple(drop or ()),
        ids=tuple(ids or ()),
        drop_missing=drop_missing,
        missing=missing.value,
    )


def on_a_table(settings: tuple[str, ...]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command, in place of its first argument, the options of a table and those of parameters of estimators."""

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        table, own = _parts_of(table_options), _parts_of(command)[1:]

        def run(**given: Any) -> None:
            options = table_options(**{part.name: given.pop(part.name) for part in table})
            chosen = {name: given.pop(name) for name in settings}
            command(replace(options, settings=_numbers_or_text(chosen)), **given)

        parts = [*table, *own, *(_option(PARAMETERS[name]) for name in settings)]
        run.__name__, run.__doc__ = command.__name__, command.__doc__
        run.__signature__ = inspect.Signature(parts)  # type: ignore[attr-defined]  # what typer reads
        run.__annotations__ = {part.name: part.annotation for part in parts}
        return run

    return decorated


def _parts_of(command: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters of a function by keyword, with the annotations that typer reads."""
    hints = get_type_hints(command, include_extras=True)
    parts = inspect.signature(command).parameters.values()
    return [part.replace(annotation=hints[part.name], kind=part.KEYWORD_ONLY) for part in parts]


SETTINGS = tuple(name for name in PARAMETERS if name not in NO_OPTIONS)


@app.command(help="Fit a model to a table, judge it on rows held out, and save it.", epilog=EPILOG)
@on_a_table(SETTINGS)
def fit(
    options: FitOptions,
    test_size: Annotated[float, typer.Option(min=0.0, max=0.99, help="Share of rows to hold out; 0 for none.")] = 0.2,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the split.")] = 0,
    cv: Folds = None,
    groups: Groups = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Model file to write.")] = Path("model.mkl"),
    force: Annotated[
        bool, typer.Option("--force", help="Replace the file of --output; save a model also if its fit stalled.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Fit a model to a table and save it."""
    with running("fit", as_json=as_json) as outcome:
        asked = replace(options, test_size=test_size, seed=seed, cv=cv, groups=groups, output=output, force=force)
        run_fit(asked, outcome)


@app.command(help="Predict the rows of a table with a saved model; CSV on stdout, or --output.", epilog=EPILOG)
def predict(
    model: ModelFile,
    data: Data,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="CSV or Parquet file to write.")] = None,
    proba: Annotated[bool, typer.Option("--proba", help="Add the probability of each class.")] = False,
    at: Annotated[
        list[float] | None,
        typer.Option(help="Survival: add the chance of no event up to this time; may be repeated.", min=0.0),
    ] = None,
    ids: Annotated[list[str] | None, typer.Option("--id", help="Column to copy; may be repeated.")] = None,
    force: Force = False,
    chunk_rows: Annotated[
        int | None, typer.Option(min=1, help="Read, predict and write so many rows at a time.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Predict the rows of a table with a saved model."""
    options = PredictOptions(model, data, output, proba, tuple(at or ()), tuple(ids or ()), force, chunk_rows)
    with running("predict", as_json=as_json) as outcome:
        run_predict(options, outcome)


@app.command("inspect", help="Show what a model file holds: kernels, weights, duality gap, cost.", epilog=EPILOG)
def inspect_model(
    model: ModelFile,
    plot: Picture = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Show what a model file holds."""
    with running("inspect", as_json=as_json) as outcome:
        run_inspect(model, plot, force, outcome)


@app.command(help="Write a model as a program: .onnx, .sql, .py (NumPy alone) or .csv (a card).", epilog=EPILOG)
def export(
    model: ModelFile,
    output: Annotated[Path, typer.Argument(help="File to write; its ending says what: .onnx, .sql, .py, .csv.")],
    tol: Annotated[float, typer.Option(min=0.0, help="By how much curves may be missed, as a share of scores.")] = 1e-6,
    table: Annotated[str, typer.Option(help="Of SQL: the table of the rows.")] = "data",
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write a model as a program that runs without this library."""
    with running("export", as_json=as_json) as outcome:
        run_export(model, output, tol, table, force, outcome)


@app.command(help="Write a report on a saved model into one HTML file.", epilog=EPILOG)
def report(
    model: ModelFile,
    data: Annotated[Path, typer.Argument(help="The table it was fitted to, or one of new rows with the target.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML file to write.")] = Path("report.html"),
    title: Annotated[str | None, typer.Option(help="Head of the report.")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write a report on a saved model."""
    with running("report", as_json=as_json) as outcome:
        run_report(model, data, output, title, force, outcome)


@app.command(help="Show which kernels enter as the penalty weakens, one model a strength, on all rows.", epilog=EPILOG)
@on_a_table(SETTINGS)
def path(
    options: FitOptions,
    n_alphas: Annotated[int, typer.Option(min=1, help="Number of strengths.")] = 25,
    output: TableFile = None,
    plot: Picture = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Show which kernels enter as the penalty weakens."""
    with running("path", as_json=as_json) as outcome:
        run_path(replace(options, force=force), n_alphas, output, plot, outcome)


@app.command(help="Tell in folds whether learning the weights is worth it: beside simpler weights.", epilog=EPILOG)
@on_a_table(SETTINGS)
def compare(
    options: FitOptions,
    folds: Annotated[int, typer.Option(min=2, help="Number of folds that are compared.")] = 5,
    cv: Folds = None,
    groups: Groups = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the folds.")] = 0,
    output: TableFile = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Tell whether learning the weights is worth it."""
    with running("compare", as_json=as_json) as outcome:
        run_compare(replace(options, cv=cv, groups=groups, seed=seed, force=force), folds, output, outcome)


@app.command(help="Tell how many kernels a fit would have and what memory it would take.", epilog=EPILOG)
@on_a_table(("representation", "memory_budget"))
def plan(options: FitOptions, as_json: Json = False) -> None:
    """Tell what a fit would take."""
    with running("plan", as_json=as_json) as outcome:
        run_plan(options, outcome)


@app.command(
    help="Compile all loops ahead, once an installation: in an image, or before many processes start.", epilog=EPILOG
)
def warm(as_json: Json = False) -> None:
    """Compile all loops ahead."""
    with running("warm", as_json=as_json) as outcome:
        run_warm(outcome)


@app.command(help="Fit 837 kernels to a bundled data set and compare with a tuned single-kernel SVC.", epilog=EPILOG)
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for tables, model and picture.")] = Path(
        "demo_output"
    ),
    as_json: Json = False,
) -> None:
    """Run the demonstration."""
    with running("demo", as_json=as_json) as outcome:
        run_demo(output, outcome)
