"""Shared parts of the commands: output, exit codes, errors and warnings."""

import io
import json
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import IntEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from manykernels.exceptions import InvalidInputError
from manykernels.inspection import MKLReport
from manykernels.inspection.evidence.kernel_tests import few_rows
from manykernels.solvers import Status
from manykernels.validation.parameters import printable

# Options that several commands have.


Data = Annotated[Path, typer.Argument(help="Table: CSV (comma, semicolon, tab) with a header line, or Parquet.")]
Encoding = Annotated[
    str | None,
    typer.Option(help="Encoding of a CSV, such as cp1252; by default UTF-8, or UTF-16 if marked."),
]
Na = Annotated[
    list[str] | None,
    typer.Option("--na", help="Word of a CSV to read as a missing value; may be repeated."),
]
ModelFile = Annotated[Path, typer.Argument(help="File written by 'manykernels fit'.")]
Force = Annotated[bool, typer.Option("--force", help="Replace existing files.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the split, or of the folds.")]
Picture = Annotated[Path | None, typer.Option(help="Picture to write (.png, .svg, .pdf).")]
TableFile = Annotated[Path | None, typer.Option("--output", "-o", help="CSV or Parquet file for the whole table.")]

# Names come from tables: neither [brackets] nor :signs: in them mean anything.
AS_IT_IS: dict[str, Any] = {"markup": False, "emoji": False, "highlight": False}
TABLE: dict[str, Any] = {"box": None, "title_justify": "left", "title_style": "bold", "padding": (0, 2, 0, 0)}


class ExitCode(IntEnum):
    """How a command ended."""

    OK = 0
    USER_ERROR = 1
    USAGE = 2
    NOT_CONVERGED = 3
    INTERRUPTED = 130


@dataclass
class Outcome:
    """The result of a command, printed as tables or as a JSON object."""

    command: str
    as_json: bool
    result: dict[str, Any] = field(default_factory=dict)
    exit_code: ExitCode = ExitCode.OK
    notes: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        """Print a note for the user on stderr at once."""
        if text not in self.notes:
            self.notes.append(text)
            errors().print(Text.assemble(("Note:", "yellow"), " ", printable(text, "\n")), soft_wrap=True)

    def show(self, *things: object) -> None:
        """Print text or tables on stdout, unless stdout is reserved for JSON."""
        if not self.as_json:
            for thing in things:
                if isinstance(thing, str):
                    output().print(printable(thing), soft_wrap=True)
                else:
                    output().print(thing)

    def settle(self, status: str) -> None:
        """Choose the exit code for the status of a solution."""
        if status == Status.INTERRUPTED:
            self.exit_code = ExitCode.INTERRUPTED
        elif status != Status.CONVERGED:
            self.exit_code = ExitCode.NOT_CONVERGED


@contextmanager
def running(command: str, *, as_json: bool) -> Iterator[Outcome]:
    """Run the body of a command: warnings become notes, errors a message without traceback, the end an exit code."""
    outcome = Outcome(command, as_json)
    for stream in (sys.stdout, sys.stderr):  # what their encoding lacks is written by its escapes
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        with _warnings_as_notes(outcome):
            yield outcome
    except (InvalidInputError, ImportError, OSError, MemoryError) as error:
        if isinstance(error, BrokenPipeError):
            raise
        _fail(outcome, str(error) or type(error).__name__, ExitCode.USER_ERROR)
    except KeyboardInterrupt:
        _fail(outcome, "Interrupted.", ExitCode.INTERRUPTED)
    if as_json:
        shown = {"command": command, "exit_code": int(outcome.exit_code), **outcome.result, "notes": outcome.notes}
        typer.echo(json.dumps(shown, allow_nan=False, default=_plain))
    if outcome.exit_code != ExitCode.OK:
        raise typer.Exit(int(outcome.exit_code))


def output() -> Console:
    """Return the console of stdout, as wide as the terminal or COLUMNS say, else 80 columns."""
    return Console(**AS_IT_IS)


def errors() -> Console:
    """Return the console of stderr."""
    return Console(stderr=True, **AS_IT_IS)


def verbosity() -> int:
    """Return 1, a progress bar, if stderr is a terminal, else 0."""
    return int(sys.stderr.isatty())


@contextmanager
def stage(text: str) -> Iterator[None]:
    """Show the progress of a long operation on a terminal."""
    if sys.stderr.isatty():
        with errors().status(printable(text)):
            yield
    else:
        yield


def tell(text: str) -> None:
    """Print the beginning of an operation on a terminal; fits show progress once the kernels are computed."""
    if sys.stderr.isatty():
        errors().print(Text(printable(text), style="dim"))


def write_data(text: str) -> None:
    """Write text to stdout unchanged, or raise ``InvalidInputError`` if the encoding of stdout lacks a character."""
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError as error:
        raise InvalidInputError(
            f"stdout is encoded in {sys.stdout.encoding}, which lacks {text[error.start]!r}. Write a file with "
            "--output, or set PYTHONIOENCODING=utf-8."
        ) from error
    typer.echo(printable(text, "\n\t") if sys.stdout.isatty() else text, nl=False)


def fact_table(facts: Mapping[str, Any], title: str | None = None) -> Table:
    """Return names and values side by side."""
    table = Table(title=title, show_header=False, **TABLE)
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts.items():
        table.add_row(printable(name), printable(value))
    return table


def column_table(title: str, names: Sequence[str], texts: Sequence[str]) -> Table:
    """Return an empty table: text columns fold, numbers align right."""
    table = Table(title=title, **TABLE)
    for name in names:
        if name in texts:
            table.add_column(name, overflow="fold")
        else:
            table.add_column(name, justify="right", no_wrap=True)
    return table


@contextmanager
def _warnings_as_notes(outcome: Outcome) -> Iterator[None]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)  # ConvergenceWarning is one
        try:
            yield
        finally:
            for warning in caught:
                outcome.note(str(warning.message))


def _fail(outcome: Outcome, message: str, code: ExitCode) -> None:
    errors().print(Text.assemble(("Error:", "bold red"), " ", printable(message, "\n")), soft_wrap=True)
    outcome.result = {"error": message}
    outcome.exit_code = code


def _plain(value: object) -> Any:
    """Return NumPy scalars and arrays, and anything else JSON does not know, as plain values."""
    return value.tolist() if hasattr(value, "tolist") else str(value)


# Reports as tables for people.


MOST_ROWS = 20
FEW_ROWS = 10
BAR = 16
SCORE_NAMES = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "roc_auc": "ROC AUC",
    "log_loss": "log loss",
    "r2": "R2",
    "rmse": "root mean squared error",
    "mae": "mean absolute error",
    "concordance": "concordance index",
}


def report_tables(
    report: MKLReport,
    facts: Mapping[str, Any],
    constant: Mapping[str, float | None] | None = None,
    importance: pd.DataFrame | None = None,
) -> list[Any]:
    """Return the tables printed for a model: facts, convergence, test scores, importance, and selected kernels.

    ``constant`` has the scores of the best constant, printed beside the scores of the model. ``importance`` is the
    frame of `importances`; with ``importance``, fewer kernels are listed: weights and norms measure no importance.
    """
    strength = f", {report.strength}" if report.strength else ""
    shown = {
        **facts,
        "model": f"{report.loss} loss, {report.penalty} penalty{strength}",
        "kernels": f"{report.n_active} of {report.n_kernels} selected, {report.kept}",
        **solution_facts(report),
    }
    parts: list[Any] = [fact_table(shown)]
    if report.scores:
        parts += ["", score_table(report.scores, constant or {}, f"On the {report.n_test} rows held out")]
    if importance is None or importance.empty:
        return [*parts, "", weights_table(report.weights)]
    return [*parts, "", importance_table(importance), "", weights_table(report.weights, FEW_ROWS)]


def importances(estimator: Any) -> pd.DataFrame | None:
    """Return the importance of columns and views by name; None for models without leave-one-out predictions."""
    try:
        frame = estimator.importance_frame()
    except (AttributeError, InvalidInputError):
        return None
    return frame[["name", "importance", "low", "high", "share"]]


def add_tests(report: MKLReport, estimator: Any, X: Any, y: Any, seed: int) -> MKLReport:
    """Return the report with p-values of the selected kernels, where these take seconds at most."""
    some = few_rows(estimator, X, y, seed)
    try:
        return report if some is None else replace(report, weights=estimator.weights_frame(*some))
    except InvalidInputError:
        return report


def importance_table(importance: pd.DataFrame, most: int = FEW_ROWS) -> Table:
    """Return the most important columns and views with 95% intervals and bars of their shares."""
    rest = len(importance) - most
    title = "Importance: increase of the mean loss on rows left out, with 95% intervals"
    table = column_table(
        title + (f" (the first {most}; {rest} more)" if rest > 0 else ""),
        ("column or view", "importance", "low", "high", "share"),
        texts=("column or view",),
    )
    table.add_column("", no_wrap=True, style="blue")
    full = "#" if output().options.ascii_only else "█"
    largest = float(importance["share"].max())
    for row in importance.head(most).to_dict("records"):
        bar = full * round(BAR * row["share"] / largest) if largest > 0 else ""
        values = (f"{row[name]:.3g}" for name in ("importance", "low", "high"))
        table.add_row(printable(row["name"]), *values, f"{row['share']:.1%}", bar)
    return table


def solution_facts(report: MKLReport) -> dict[str, str]:
    """Return status, gap and cost in words."""
    return {
        "status": report.status,
        "duality gap": f"{report.relative_gap:.1e} relative ({report.asked})",
        "cost": report.cost,
    }


def score_facts(scores: Mapping[str, float | None]) -> dict[str, str]:
    """Return scores by their full names."""
    return {
        SCORE_NAMES.get(name, name): "undefined" if value is None else f"{value:.4f}" for name, value in scores.items()
    }


def score_table(scores: Mapping[str, float | None], constant: Mapping[str, float | None], title: str) -> Table:
    """Return scores by full name, beside the scores of the best constant."""
    if not constant:
        return fact_table(score_facts(scores), title)
    table = Table(title=title, **TABLE)
    table.add_column(style="cyan", no_wrap=True)
    for name in ("model", "constant"):
        table.add_column(name, justify="right", no_wrap=True)
    beside = score_facts(constant)
    for name, value in score_facts(scores).items():
        table.add_row(name, value, beside.get(name, ""))
    return table


def weights_table(weights: pd.DataFrame, most: int = MOST_ROWS) -> Table:
    """Return the heaviest kernels with their weights and shares of the norms."""
    rest = len(weights) - most
    title = "Selected kernels" + (f" (the {most} heaviest; {rest} more)" if rest > 0 else "")
    led = [name for name in ("class", "output") if name in weights]
    tests = [name for name in ("p_value", "q_value") if name in weights]
    table = column_table(title, (*led, "kernel", "weight", "norm_share", *tests), texts=(*led, "kernel"))
    for row in weights.head(most).to_dict("records"):
        chances = ("" if np.isnan(row[name]) else f"{row[name]:.1g}" for name in tests)
        names = (printable(row[name]) for name in (*led, "name"))
        table.add_row(*names, f"{row['weight']:.4g}", f"{row['norm_share']:.1%}", *chances)
    return table
