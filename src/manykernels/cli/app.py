"""The commands and their options."""

from __future__ import annotations

from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from manykernels.cli.console import running
from manykernels.cli.demo import run_demo
from manykernels.cli.fit import FitOptions, run_fit
from manykernels.cli.inspect import run_inspect
from manykernels.cli.predict import PredictOptions, run_predict
from manykernels.objective.losses import LOSSES
from manykernels.objective.regularizers import REGULARIZERS

EPILOG = "Exit codes: 0 fine, 1 wrong input, 2 wrong usage, 3 the solver did not converge, 130 interrupted."

app = typer.Typer(
    name="manykernels",
    help="Learn from many kernels which of them matter.",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


class Task(StrEnum):
    """What is predicted."""

    AUTO = "auto"
    CLASSIFICATION = "classification"
    REGRESSION = "regression"


Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout, and nothing else there.")]
Data = Annotated[Path, typer.Argument(help="Table: CSV (comma, semicolon, tab) or Parquet, a header line first.")]
ModelFile = Annotated[Path, typer.Argument(help="File written by 'manykernels fit'.")]
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


@app.command(help="Fit a model to a table, judge it on rows held out, and save it.", epilog=EPILOG)
def fit(
    data: Data,
    target: Annotated[str, typer.Option(help="Column to predict.")],
    task: Annotated[Task, typer.Option(help="'auto' looks at the target.")] = Task.AUTO,
    kernels: Annotated[str, typer.Option(help="'default', 'simplemkl' or a TOML file.")] = "default",
    loss: Annotated[
        str | None,
        typer.Option(help=f"One of {', '.join(LOSSES)}; default logistic or squared.", show_default=False),
    ] = None,
    penalty: Annotated[str, typer.Option(help=f"One of {', '.join(REGULARIZERS)}.")] = "l1",
    alpha: Annotated[
        float | None,
        typer.Option(help="Strength relative to the mean loss; default 0.01 in the unit of the target."),
    ] = None,
    test_size: Annotated[float, typer.Option(min=0.0, max=0.99, help="Share of rows to hold out; 0 for none.")] = 0.2,
    tol: Annotated[float, typer.Option(help="Relative duality gap to reach.")] = 1e-4,
    max_iter: Annotated[int, typer.Option(help="Most outer iterations.")] = 200,
    solver: Annotated[str, typer.Option(help="Name of a solver; 'auto' chooses.")] = "auto",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the split.")] = 0,
    memory_budget: Annotated[str | None, typer.Option(help="Memory for Gram matrices, such as '2 GB'.")] = None,
    drop: Drop = None,
    ids: Annotated[list[str] | None, typer.Option("--id", help="Column that names rows; may be repeated.")] = None,
    drop_missing: Annotated[bool, typer.Option("--drop-missing", help="Leave out rows with missing values.")] = False,
    output: Annotated[Path, typer.Option("--output", "-o", help="Model file to write.")] = Path("model.mkl"),
    as_json: Json = False,
) -> None:
    """Fit a model to a table and save it."""
    options = FitOptions(
        data=data,
        target=target,
        task=task.value,
        kernels=kernels,
        loss=loss,
        penalty=penalty,
        alpha=alpha,
        test_size=test_size,
        tol=tol,
        max_iter=max_iter,
        solver=solver,
        seed=seed,
        memory_budget=memory_budget,
        output=output,
        drop=tuple(drop or ()),
        ids=tuple(ids or ()),
        drop_missing=drop_missing,
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
    as_json: Json = False,
) -> None:
    """Predict the rows of a table with a saved model."""
    options = PredictOptions(model=model, data=data, output=output, proba=proba, ids=tuple(ids or ()))
    with running("predict", as_json=as_json) as outcome:
        run_predict(options, outcome)


@app.command(help="Show what a model file holds: kernels, weights, duality gap, cost.", epilog=EPILOG)
def inspect(
    model: ModelFile,
    plot: Annotated[Path | None, typer.Option(help="Picture to write (.png, .svg, .pdf).")] = None,
    as_json: Json = False,
) -> None:
    """Show what a model file holds."""
    with running("inspect", as_json=as_json) as outcome:
        run_inspect(model, plot, outcome)


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


def main() -> None:
    """Run the command line."""
    app()
