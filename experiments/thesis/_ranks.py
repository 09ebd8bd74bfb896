"""Tables of errors and ranks of the experiments on real data, with what is within one standard error of the best."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
from _tasks import group_of

sys.path.insert(0, str(Path(__file__).parents[2]))
from experiments.ledger import markdown


@dataclass(frozen=True)
class Table:
    """One comparison of the thesis.

    Attributes
    ----------
    loss : str
        Rows of the results it is made of.
    error : str
        Column of the results that it shows.
    methods : tuple of str
    group : {"sets", "digits", "letters"}
        What it is about.
    printed : mapping of str to float
        Median ranks in the thesis.
    """

    loss: str
    error: str
    methods: tuple[str, ...]
    group: str = "sets"
    printed: Mapping[str, float] = field(default_factory=dict)

    def rows(self, results: pd.DataFrame) -> pd.DataFrame:
        """Return splits that every method has finished, one a row (index set, repeat), one method a column."""
        about = results["set"].map(group_of) == self.group
        kept = results[about & (results["loss"] == self.loss) & results["method"].isin(self.methods)]
        wide = kept.pivot_table(index=["set", "repeat"], columns="method", values=self.error, sort=False)
        return wide.reindex(columns=list(self.methods)).dropna()


def errors(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the mean error of each method on each set, without the last bits, in which equal ones may differ."""
    return rows.groupby("set", sort=False).mean().round(12)


def near_best(rows: pd.DataFrame) -> pd.DataFrame:
    """Return which methods are within one standard error of the best one of a set, differences taken split by split."""
    marks = {}
    for name, part in rows.groupby("set", sort=False):
        best = part.mean().idxmin()
        behind = part.sub(part[best], axis=0)
        error = behind.std(ddof=1) / np.sqrt(len(part)) if len(part) > 1 else behind.iloc[0] * 0
        marks[name] = behind.mean() <= error
    return pd.DataFrame(marks).T


def ranks(rows: pd.DataFrame) -> pd.DataFrame:
    """Return, a row a method, the median and the mean over sets of the rank of its mean error.

    The standard error of the mean rank is over sets; ``near`` tells in how many sets the method is within one standard
    error of the best.
    """
    places = errors(rows).rank(axis=1)
    table = pd.DataFrame({"median_rank": places.median(), "mean_rank": places.mean()})
    table["se"] = places.std(ddof=1) / np.sqrt(len(places)) if len(places) > 1 else np.nan
    table["near"] = near_best(rows).sum().astype(int)
    return table.rename_axis("method").reset_index()


def ranked(
    rows: pd.DataFrame,
    table: pd.DataFrame,
    seconds: pd.Series,
    percent: bool,
    printed: Mapping[str, float] | None = None,
) -> str:
    """Return errors and ranks as a table for a page; ``*`` is within one standard error of the best."""
    means, marks, sizes = errors(rows), near_best(rows), rows.groupby("set", sort=False).size()
    lines = []
    for name, row in means.iterrows():
        cells = [_cell(row[m], bool(marks.loc[name, m]), percent) for m in means.columns]
        lines.append([f"{name} ({sizes[name]})", *cells])
    told = table.set_index("method").loc[list(means.columns)]
    for label, column, form in (("**median rank**", "median_rank", "{:g}"), ("mean rank", "mean_rank", "{:.1f}")):
        lines.append([label, *(form.format(value) for value in told[column])])
    if printed:
        places = [f"{printed[m]:g}" if m in printed else "" for m in means.columns]
        lines.insert(-1, ["median rank in the thesis", *places])
    lines.append(["sets near the best", *(str(value) for value in told["near"])])
    lines.append(["CPU s, median", *(f"{seconds[m]:.2g}" for m in means.columns)])
    return markdown(["set (splits)", *means.columns], lines)


def _cell(value: float, near: bool, percent: bool) -> str:
    return (f"{100 * value:.1f}" if percent else f"{value:.3f}") + ("*" if near else "")
