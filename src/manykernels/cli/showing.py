"""Reports as tables for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
from rich.table import Table

from manykernels.cli.console import fact_table, printable
from manykernels.inspection import MKLReport

MOST_ROWS = 20
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


def report_tables(report: MKLReport, facts: Mapping[str, Any]) -> list[Any]:
    """Return what is printed about a model: facts, how it was solved, test scores and the heaviest kernels."""
    strength = f", {report.strength}" if report.strength else ""
    shown = {
        **facts,
        "model": f"{report.loss} loss, {report.penalty} penalty{strength}",
        "kernels": f"{report.n_active} of {report.n_kernels} selected, {report.kept}",
        **solution_facts(report),
    }
    parts: list[Any] = [fact_table(shown)]
    if report.scores:
        parts += ["", fact_table(score_facts(report.scores), f"On the {report.n_test} rows held out")]
    return [*parts, "", weights_table(report.weights)]


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


def weights_table(weights: pd.DataFrame, most: int = MOST_ROWS) -> Table:
    """Return the heaviest kernels with their weights, shares and bars."""
    rest = len(weights) - most
    title = "Selected kernels" + (f" (the {most} heaviest; {rest} more)" if rest > 0 else "")
    table = Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, 2, 0, 0))
    led = [name for name in ("class", "output") if name in weights]
    for name in (*led, "kernel"):
        table.add_column(name, overflow="fold")
    for name in ("weight", "norm_share"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True, style="blue")
    largest = float(weights["norm_share"].max()) if len(weights) else 1.0
    for row in weights.head(most).to_dict("records"):
        bar = "█" * max(1, round(BAR * row["norm_share"] / largest)) if largest > 0 else ""
        table.add_row(
            *(printable(row[name]) for name in (*led, "name")), f"{row['weight']:.4g}", f"{row['norm_share']:.1%}", bar
        )
    return table
