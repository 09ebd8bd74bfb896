"""``manykernels inspect`` and ``manykernels report``: what a model file holds, for the terminal and to send."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from manykernels.cli.console import Force, ModelFile, Outcome, Picture, report_tables, stage
from manykernels.cli.predict import features_of, rows_of_fit
from manykernels.cli.tables import check_new, read_table
from manykernels.estimators.supervised.base import BaseMKL
from manykernels.exceptions import InvalidInputError
from manykernels.inspection import (
    ConvergenceDisplay,
    MKLReport,
    export_model,
    load_model,
    plot_overview,
    read_metadata,
    report,
)
from manykernels.inspection.files import save_figure

REPORT = Path("report.html")
PICTURES = (".png", ".svg", ".pdf")


def run_inspect(model: ModelFile, plot: Picture = None, force: Force = False, *, outcome: Outcome) -> None:
    """Show what a model file holds: kernels, weights, duality gap, cost."""
    check_picture(plot, force)
    estimator, metadata = load_model(model), read_metadata(model)
    if not isinstance(estimator, BaseMKL):
        kind = type(estimator).__name__
        raise InvalidInputError(f"The file holds a {kind}, which has no report; load_model and weights_frame show it.")
    summary = MKLReport.from_estimator(estimator)
    if plot is not None:
        save_figure(plot_overview(estimator, title=f"{model.name}: {_what(summary, metadata)}"), plot, dpi=100)
    history = ConvergenceDisplay.from_estimator(estimator).frame()
    outcome.result = {
        **summary.to_dict(),
        "model": model,
        "metadata": metadata,
        "features": [str(name) for name in getattr(estimator, "feature_names_in_", ())],
        "classes": [_plain(label) for label in getattr(estimator, "classes_", ())],
        "history": history.to_dict("records"),
        "plot": plot,
    }
    facts = {
        "file": f"{model}, written by manykernels {metadata['library_version']}",
        "task": _what(summary, metadata),
        "fitted on": f"{summary.n_samples} rows, {summary.n_features} columns",
    }
    outcome.show(*report_tables(summary, facts))
    if plot is not None:
        outcome.show("", f"Drawn to {plot}")


def run_export(
    model: ModelFile,
    output: Annotated[Path, typer.Argument(help="File to write; its ending says what: .onnx, .sql, .py, .csv.")],
    tol: Annotated[float, typer.Option(min=0.0, help="By how much curves may be missed, as a share of scores.")] = 1e-6,
    table: Annotated[str, typer.Option(help="Of SQL: the table of the rows.")] = "data",
    force: Force = False,
    *,
    outcome: Outcome,
) -> None:
    """Write a model as a program: .onnx, .sql, .py (NumPy alone) or .csv (a card)."""
    check_new(output, "OUTPUT", force)
    export = export_model(load_model(model), output, tol=tol, table=table)
    outcome.result = {
        "path": export.path,
        "max_error": export.max_error,
        "ranges": export.ranges,
        "columns": list(export.columns),
    }
    differ = f"; scores differ by at most {export.max_error:.2g} in its ranges" if export.max_error else ""
    outcome.show(f"Written to {export.path}: it reads {len(export.columns)} columns{differ}.")


def check_picture(plot: Path | None, force: bool) -> None:
    """Raise ``InvalidInputError`` if a picture cannot be written under that name."""
    check_new(plot, "--plot", force)
    if plot is not None and plot.suffix.lower() not in PICTURES:
        raise InvalidInputError(f"--plot: {str(plot)!r} must end in {', '.join(PICTURES)}.")


def run_report(
    model: ModelFile,
    data: Annotated[Path, typer.Argument(help="The table it was fitted to, or one of new rows with the target.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML file to write.")] = REPORT,
    title: Annotated[str | None, typer.Option(help="Head of the report.")] = None,
    force: Force = False,
    *,
    outcome: Outcome,
) -> None:
    """Write a report on a saved model into one HTML file.

    Rows that the model was fitted on are known by what is in them, so that only others are scored.
    """
    if output.suffix.lower() not in (".html", ".htm"):
        raise InvalidInputError(f"--output: {str(output)!r} must end in .html.")
    check_new(output, "--output", force)
    estimator, metadata = load_model(model), read_metadata(model)
    if "target" not in metadata or "test_size" not in metadata:
        raise InvalidInputError(
            f"{str(model)!r} was not written by 'manykernels fit'; use manykernels.report(model, X, y) in Python."
        )
    with stage(f"reading {data}"):
        frame = read_table(data)
    samples, train, test = rows_of_fit(estimator, metadata, frame)
    for note in samples.notes:
        outcome.note(note)
    rows, y = features_of(estimator, samples.features), samples.target
    if train is None:
        report(estimator, rows, y, output, title=title)
    elif test is None and len(train) != MKLReport.from_estimator(estimator).n_samples:
        raise InvalidInputError(
            f"All {len(train)} rows of {str(data)!r} are among those that the model was fitted on, which were more: "
            "there is nothing to judge it by. Give the whole table of the fit, or other rows."
        )
    elif test is None:
        report(estimator, rows.iloc[train], y[train], output, title=title)
    else:
        report(estimator, rows.iloc[train], y[train], output, X_test=rows.iloc[test], y_test=y[test], title=title)
    n_scored = 0 if test is None else len(test)
    outcome.result = {"model": model, "data": data, "n_rows": len(rows), "n_held_out": n_scored, "report": output}
    outcome.show(f"Report on {len(rows)} rows, {n_scored} of them held out, written to {output}")


def _what(report: MKLReport, metadata: dict[str, Any]) -> str:
    return f"{report.task} of {metadata['target']!r}" if "target" in metadata else report.task


def _plain(label: object) -> Any:
    return label.item() if hasattr(label, "item") else label
