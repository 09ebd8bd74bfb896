"""``manykernels inspect`` and ``manykernels report``: what a model file holds, for the terminal and to send."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from manykernels.cli.console import Outcome
from manykernels.cli.fit import FitOptions, hold_out, read_samples
from manykernels.cli.predict import features_of
from manykernels.cli.showing import report_tables
from manykernels.cli.tables import read_table
from manykernels.cli.targets import Samples
from manykernels.estimators.supervised.base import BaseMKL
from manykernels.exceptions import InvalidInputError
from manykernels.inspection import ConvergenceDisplay, MKLReport, load_model, plot_overview, read_metadata, report
from manykernels.inspection.files import save_figure
from manykernels.validation.arrays import Array

PICTURES = (".png", ".svg", ".pdf")


def run_inspect(model: Path, plot: Path | None, outcome: Outcome) -> None:
    """Load a model, show its report, and draw it if asked to.

    Parameters
    ----------
    model : Path
    plot : Path or None
        Picture to write.
    outcome : Outcome
        Gets the result.
    """
    check_picture(plot)
    estimator, metadata = load_model(model), read_metadata(model)
    if not isinstance(estimator, BaseMKL):
        kind = type(estimator).__name__
        raise InvalidInputError(f"The file holds a {kind}, which has no report; load_model and weights_frame show it.")
    told = MKLReport.from_estimator(estimator)
    if plot is not None:
        save_figure(plot_overview(estimator, title=f"{model.name}: {_what(told, metadata)}"), plot, dpi=100)
    history = ConvergenceDisplay.from_estimator(estimator).frame()
    outcome.result = {
        **told.to_dict(),
        "model": str(model),
        "metadata": metadata,
        "features": [str(name) for name in getattr(estimator, "feature_names_in_", ())],
        "classes": [_plain(label) for label in getattr(estimator, "classes_", ())],
        "history": history.to_dict("records"),
        "plot": None if plot is None else str(plot),
    }
    facts = {
        "file": f"{model}, written by manykernels {metadata['library_version']}",
        "task": _what(told, metadata),
        "fitted on": f"{told.n_samples} rows, {told.n_features} columns",
    }
    outcome.show(*report_tables(told, facts))
    if plot is not None:
        outcome.show("", f"Drawn to {plot}")


def check_picture(plot: Path | None) -> None:
    """Raise ``InvalidInputError`` if a picture cannot be written under that name."""
    if plot is not None and plot.suffix.lower() not in PICTURES:
        raise InvalidInputError(f"--plot: {str(plot)!r} must end in {', '.join(PICTURES)}.")


def run_report(model: Path, data: Path, output: Path, title: str | None, outcome: Outcome) -> None:
    """Write a report on a saved model.

    A table of the name and size that the model was fitted to is split as it was then, so that only rows held out are
    scored; the rows of any other table are all taken as held out.

    Parameters
    ----------
    model, data, output : Path
    title : str or None
    outcome : Outcome
        Gets the result.
    """
    if output.suffix.lower() not in (".html", ".htm"):
        raise InvalidInputError(f"--output: {str(output)!r} must end in .html.")
    estimator, metadata = load_model(model), read_metadata(model)
    if "target" not in metadata or "test_size" not in metadata:
        raise InvalidInputError(
            f"{str(model)!r} was not written by 'manykernels fit'; use manykernels.report(model, X, y) in Python."
        )
    samples, train, test = _parts(estimator, metadata, data, outcome)
    rows, y = features_of(estimator, samples.features), samples.target
    if train is None:
        report(estimator, rows, y, output, title=title)
    elif test is None:
        report(estimator, rows.iloc[train], y[train], output, title=title)
    else:
        report(estimator, rows.iloc[train], y[train], output, X_test=rows.iloc[test], y_test=y[test], title=title)
    n_scored = 0 if test is None else len(test)
    outcome.result = {"model": str(model), "data": str(data), "n_rows": len(rows), "n_held_out": n_scored}
    outcome.result["report"] = str(output)
    outcome.show(f"Report on {len(rows)} rows, {n_scored} of them held out, written to {output}")


def _parts(
    estimator: Any, metadata: dict[str, Any], data: Path, outcome: Outcome
) -> tuple[Samples, Array | None, Array | None]:
    """Return the rows of a table, and which of them the model was fitted on and which not; None for no such rows."""
    frame = read_table(data)
    present = set(frame.columns)
    # Files of version 0.1 tell less.
    left_out, groups = metadata.get("left_out", ()), metadata.get("groups")
    event, strata = metadata.get("event"), metadata.get("strata")
    known = {*getattr(estimator, "feature_names_in_", present), metadata["target"], event, strata, *left_out, groups}
    options = FitOptions(
        data=data,
        target=metadata["target"],
        task=metadata.get("task", MKLReport.from_estimator(estimator).task),
        test_size=metadata["test_size"],
        seed=metadata.get("seed", 0),
        ids=tuple(name for name in left_out if name in present),
        drop_missing=metadata.get("drop_missing", False),
        missing=metadata.get("missing", "error"),
        groups=groups if groups in present else None,
        event=event,
        strata=strata,
    )
    samples = read_samples(options, outcome, frame.loc[:, [name in known for name in frame]])
    train, test = hold_out(samples, options.test_size, options.seed)
    if data.name == metadata["data"] and len(train) == MKLReport.from_estimator(estimator).n_samples:
        return samples, train, test
    return samples, None, np.arange(len(samples.target))


def _what(report: MKLReport, metadata: dict[str, Any]) -> str:
    return f"{report.task} of {metadata['target']!r}" if "target" in metadata else report.task


def _plain(label: Any) -> Any:
    return label.item() if hasattr(label, "item") else label
