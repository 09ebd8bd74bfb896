"""``manykernels inspect``: what a model file holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from manykernels.cli.console import Outcome
from manykernels.cli.showing import report_tables
from manykernels.estimators.supervised.base import BaseMKL
from manykernels.exceptions import InvalidInputError
from manykernels.inspection import ConvergenceDisplay, MKLReport, load_model, plot_overview, read_metadata

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
    if plot is not None and plot.suffix.lower() not in PICTURES:
        raise InvalidInputError(f"--plot: {str(plot)!r} must end in {', '.join(PICTURES)}.")
    estimator, metadata = load_model(model), read_metadata(model)
    if not isinstance(estimator, BaseMKL):
        kind = type(estimator).__name__
        raise InvalidInputError(f"The file holds a {kind}, which has no report; load_model and weights_frame show it.")
    report = MKLReport.from_estimator(estimator)
    if plot is not None:
        plot_overview(estimator, title=f"{model.name}: {_what(report, metadata)}").savefig(plot, dpi=100)
    history = ConvergenceDisplay.from_estimator(estimator).frame()
    outcome.result = {
        **report.to_dict(),
        "model": str(model),
        "metadata": metadata,
        "features": [str(name) for name in getattr(estimator, "feature_names_in_", ())],
        "classes": [_plain(label) for label in getattr(estimator, "classes_", ())],
        "history": history.to_dict("records"),
        "plot": None if plot is None else str(plot),
    }
    facts = {
        "file": f"{model}, written by manykernels {metadata['library_version']}",
        "task": _what(report, metadata),
        "fitted on": f"{report.n_samples} rows, {report.n_features} columns",
    }
    outcome.show(*report_tables(report, facts))
    if plot is not None:
        outcome.show("", f"Drawn to {plot}")


def _what(report: MKLReport, metadata: dict[str, Any]) -> str:
    return f"{report.task} of {metadata['target']!r}" if "target" in metadata else report.task


def _plain(label: Any) -> Any:
    return label.item() if hasattr(label, "item") else label
