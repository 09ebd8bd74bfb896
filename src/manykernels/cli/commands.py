"""The commands and their options."""

from __future__ import annotations

import inspect
from contextlib import suppress
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from manykernels.cli.console import running
from manykernels.cli.demo import run_demo
from manykernels.cli.explore import run_compare, run_path, run_plan
from manykernels.cli.fit import FitOptions, run_fit
from manykernels.cli.inspect import run_inspect, run_report
from manykernels.cli.predict import PredictOptions, run_predict
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
Views = Annotated[Path | None, typer.Option(help="TOML file that names views: rna = ['gene1', 'rna_*'].")]
Target = Annotated[str, typer.Option(help="Column to predict.")]
Kernels = Annotated[str, typer.Option(help="'default', 'simplemkl' or a TOML file.")]
Ids = Annotated[list[str] | None, typer.Option("--id", help="Column that names rows; may be repeated.")]
DropMissing = Annotated[bool, typer.Option("--drop-missing", help="Leave out rows with missing values.")]
Missing = Annotated[
    Gaps,
    typer.Option(help="Missing values: refuse them, leave rows out of the kernels they lack, or tell that they lack."),
]
Drop = Annotated[list[str] | None, typer.Option(help="Column that is no feature; may be repeated.")]


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
    if parameter.name == "loss":
        text += f" Default {' or '.join(DEFAULT_LOSS.values())}."
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


def with_settings(command: Any) -> Any:
    """Give a command an option for every parameter of the estimators, in place of its ``**settings``."""
    hints = get_type_hints(command, include_extras=True)
    own = [part for part in inspect.signature(command).parameters.values() if part.kind is not part.VAR_KEYWORD]
    parts = [part.replace(annotation=hints[part.name], kind=part.KEYWORD_ONLY) for part in own]
    parts += [_option(parameter) for name, parameter in PARAMETERS.items() if name not in NO_OPTIONS]
    command.__signature__ = inspect.Signature(parts)
    command.__annotations__ = {part.name: part.annotation for part in parts}
    return command


@app.command(help="Fit a model to a table, judge it on rows held out, and save it.", epilog=EPILOG)
@with_settings
def fit(
    data: Data,
    target: Target,
    task: Annotated[Task, typer.Option(help="'auto' looks at the target.")] = Task.AUTO,
    kernels: Kernels = "default",
    test_size: Annotated[float, typer.Option(min=0.0, max=0.99, help="Share of rows to hold out; 0 for none.")] = 0.2,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the split.")] = 0,
    drop: Drop = None,
    ids: Ids = None,
    drop_missing: DropMissing = False,
    missing: Missing = Gaps.ERROR,
    cv: Annotated[int | None, typer.Option(min=2, help="Choose the strength in this many folds.")] = None,
    groups: Annotated[str | None, typer.Option(help="Column whose equal rows are never split; no feature.")] = None,
    views: Views = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Model file to write.")] = Path("model.mkl"),
    as_json: Json = False,
    **settings: Any,
) -> None:
    """Fit a model to a table and save it."""
    options = FitOptions(
        cv=cv,
        groups=groups,
        views=views,
        data=data,
        target=target,
        task=task.value,
        kernels=kernels,
        test_size=test_size,
        seed=seed,
        output=output,
        drop=tuple(drop or ()),
        ids=tuple(ids or ()),
        drop_missing=drop_missing,
        missing=missing.value,
        settings=_numbers_or_text(settings),
    )
    with running("fit", as_json=as_json) as outcome:
        run_fit(options, outcome)


@app.command(help="Predict the rows of a table with a saved model; CSV on stdout, or --output.", epilog=EPILOG)
def predict(
    model: ModelFile,
    data: Data,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="CSV or Parquet file to write.")] = None,
    proba: Annotated[bool, typer.Option("--proba", help="Add the probability of each class.")] = False,
    ids: Annotated[list[str] | None, typer.Option("--id", help="Column to copy; may be repeated.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file of --output.")] = False,
    chunk_rows: Annotated[
        int | None, typer.Option(min=1, help="Read, predict and write so many rows at a time.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Predict the rows of a table with a saved model."""
    options = PredictOptions(
        model=model,
        data=data,
        output=output,
        proba=proba,
        ids=tuple(ids or ()),
        force=force,
        chunk_rows=chunk_rows,
    )
    with running("predict", as_json=as_json) as outcome:
        run_predict(options, outcome)


@app.command("inspect", help="Show what a model file holds: kernels, weights, duality gap, cost.", epilog=EPILOG)
def inspect_model(
    model: ModelFile,
    plot: Annotated[Path | None, typer.Option(help="Picture to write (.png, .svg, .pdf).")] = None,
    as_json: Json = False,
) -> None:
    """Show what a model file holds."""
    with running("inspect", as_json=as_json) as outcome:
        run_inspect(model, plot, outcome)


@app.command(help="Write a report on a saved model into one HTML file.", epilog=EPILOG)
def report(
    model: ModelFile,
    data: Annotated[Path, typer.Argument(help="The table it was fitted to, or one of new rows with the target.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML file to write.")] = Path("report.html"),
    title: Annotated[str | None, typer.Option(help="Head of the report.")] = None,
    as_json: Json = False,
) -> None:
    """Write a report on a saved model."""
    with running("report", as_json=as_json) as outcome:
        run_report(model, data, output, title, outcome)


@app.command(help="Show which kernels enter as the penalty weakens, one model a strength, on all rows.", epilog=EPILOG)
@with_settings
def path(
    data: Data,
    target: Target,
    task: Annotated[Task, typer.Option(help="'auto' looks at the target.")] = Task.AUTO,
    kernels: Kernels = "default",
    views: Views = None,
    n_alphas: Annotated[int, typer.Option(min=1, help="Number of strengths.")] = 25,
    drop: Drop = None,
    ids: Ids = None,
    drop_missing: DropMissing = False,
    missing: Missing = Gaps.ERROR,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="CSV or Parquet file for all weights.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Picture to write (.png, .svg, .pdf).")] = None,
    as_json: Json = False,
    **settings: Any,
) -> None:
    """Show which kernels enter as the penalty weakens."""
    options = FitOptions(
        data=data,
        target=target,
        task=task.value,
        kernels=kernels,
        views=views,
        drop=tuple(drop or ()),
        ids=tuple(ids or ()),
        drop_missing=drop_missing,
        missing=missing.value,
        settings=_numbers_or_text(settings),
    )
    with running("path", as_json=as_json) as outcome:
        run_path(options, n_alphas, output, plot, outcome)


@app.command(help="Tell in folds whether learning the weights is worth it: beside simpler weights.", epilog=EPILOG)
@with_settings
def compare(
    data: Data,
    target: Target,
    task: Annotated[Task, typer.Option(help="'auto' looks at the target.")] = Task.AUTO,
    kernels: Kernels = "default",
    views: Views = None,
    folds: Annotated[int, typer.Option(min=2, help="Number of folds that are compared.")] = 5,
    cv: Annotated[int | None, typer.Option(min=2, help="Choose the strength in this many folds of each.")] = None,
    groups: Annotated[str | None, typer.Option(help="Column whose equal rows are never split; no feature.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the folds.")] = 0,
    drop: Drop = None,
    ids: Ids = None,
    drop_missing: DropMissing = False,
    missing: Missing = Gaps.ERROR,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="CSV or Parquet file for the table.")] = None,
    as_json: Json = False,
    **settings: Any,
) -> None:
    """Tell whether learning the weights is worth it."""
    options = FitOptions(
        cv=cv,
        groups=groups,
        data=data,
        target=target,
        task=task.value,
        kernels=kernels,
        views=views,
        seed=seed,
        drop=tuple(drop or ()),
        ids=tuple(ids or ()),
        drop_missing=drop_missing,
        missing=missing.value,
        settings=_numbers_or_text(settings),
    )
    with running("compare", as_json=as_json) as outcome:
        run_compare(options, folds, output, outcome)


@app.command(help="Tell how many kernels a fit would have and what memory it would take.", epilog=EPILOG)
def plan(
    data: Data,
    target: Target,
    task: Annotated[Task, typer.Option(help="'auto' looks at the target.")] = Task.AUTO,
    kernels: Kernels = "default",
    views: Views = None,
    drop: Drop = None,
    ids: Ids = None,
    drop_missing: DropMissing = False,
    missing: Missing = Gaps.ERROR,
    memory_budget: Annotated[str | None, typer.Option(help=PARAMETERS["memory_budget"].help)] = None,
    as_json: Json = False,
) -> None:
    """Tell what a fit would take."""
    options = FitOptions(
        data=data,
        target=target,
        task=task.value,
        kernels=kernels,
        views=views,
        drop=tuple(drop or ()),
        ids=tuple(ids or ()),
        drop_missing=drop_missing,
        missing=missing.value,
        settings={"memory_budget": memory_budget},
    )
    with running("plan", as_json=as_json) as outcome:
        run_plan(options, outcome)


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
