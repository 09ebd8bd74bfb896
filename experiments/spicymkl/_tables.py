"""From single runs to the tables and the picture of Table 4."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from _paper import printed
from _racing import AS_PRINTED, BLOCK_NORM, DEFAULT, ELASTIC_NET, SPLITTING, SQUARED_NORM, Entrant, default_of
from matplotlib import pyplot

sys.path.insert(0, str(Path(__file__).parents[2]))
from experiments.ledger import markdown

ENTRANTS = (*BLOCK_NORM, *AS_PRINTED, *SPLITTING, *SQUARED_NORM, *ELASTIC_NET)
FAMILIES = {
    "hinge": ("hinge", "squared"),
    "logistic": ("logistic",),
    "elastic hinge": ("elastic hinge",),
    "elastic logistic": ("elastic logistic",),
}
"""Problems with the same solution, which compete: the squared norm is the block 1-norm in another constant."""
NAMES = {name: name for name in FAMILIES} | {"squared": "hinge, squared norm"}
CELL = ["data", "constant"]
Row = dict[Any, Any]
Show = Callable[[Row], str]


def summarize(runs: pd.DataFrame) -> pd.DataFrame:
    """Return mean and standard deviation over splits, one row a cell and solver, with the printed iteration counts.

    Parameters
    ----------
    runs : DataFrame
        Single runs, as ``table4.py`` writes them.

    Returns
    -------
    DataFrame
        ``censored`` counts runs that hit the time limit, ``broken`` those that ended short of the gap otherwise; the
        means include them.
    """
    rows = []
    for (data, constant), cell in runs.groupby(CELL, sort=False):
        for entrant in ENTRANTS:
            own = cell[(cell["problem"] == entrant.problem) & (cell["solver"] == entrant.label)]
            if len(own):
                rows.append({"data": data, "constant": constant} | _row(own, entrant, data, constant))
    return pd.DataFrame(rows)


def _row(own: pd.DataFrame, entrant: Entrant, data: Any, constant: Any) -> Row:
    row: Row = {"problem": entrant.problem, "solver": entrant.label, "splits": len(own)}
    row["censored"] = int((own["status"] == "time_limit").sum())
    row["broken"] = int((~own["status"].isin(["converged", "time_limit"])).sum())
    for column in ("n_iter", "machines", "newton_steps", "passes", "cpu_s", "active", "accuracy"):
        row[column], row[f"{column}_sd"] = own[column].mean(), own[column].std(ddof=1)
    row["printed_iterations"] = printed(data, constant, entrant.printed)
    row["printed_machines"] = printed(data, constant, f"{entrant.printed}_machines")
    return row


def fastest(runs: pd.DataFrame) -> pd.DataFrame:
    """Return, for each cell and family of equivalent problems, the default's mean CPU time and its best rival's.

    Both means are over the splits of the rival. A rival that missed the gap on any of them is none; the default's time
    is infinite where it missed the gap itself.
    """
    rows = []
    reached = runs["status"] == "converged"
    runs = runs.assign(seconds=runs["cpu_s"].where(reached, np.inf))
    for (data, constant), cell in runs.groupby(CELL, sort=False):
        for family, problems in FAMILIES.items():
            default = default_of(data, problems[0])
            own = cell[(cell["problem"] == problems[0]) & (cell["solver"] == default)].set_index("repeat")["seconds"]
            rivals = cell[cell["problem"].isin(problems) & (cell["solver"] != default)]
            ratios = {
                key[1]: (run["seconds"].mean(), own.reindex(run["repeat"]).mean())
                for key, run in rivals.groupby(["problem", "solver"], sort=False)
                if np.isfinite(run["seconds"]).all()
            }
            if not ratios:  # runs that were cut off
                continue
            rival = min(ratios, key=lambda name: ratios[name][0] / ratios[name][1])
            theirs, ours = ratios[rival]
            rows.append(
                {
                    "data": data,
                    "constant": constant,
                    "family": family,
                    "default": default,
                    "default_cpu_s": ours,
                    "best_rival": rival,
                    "rival_cpu_s": theirs,
                    "rival_over_default": theirs / ours,
                }
            )
    return pd.DataFrame(rows)


# --- text ----------------------------------------------------------------------------------------------------------


def all_tables(summary: pd.DataFrame, verdicts: pd.DataFrame) -> dict[str, str]:
    """Return all tables for a page, by their titles.

    Parameters
    ----------
    summary, verdicts : DataFrame
        As `summarize` and `fastest` return them.
    """
    compared = [entrant for entrant in ENTRANTS if entrant.printed]
    machines = [entrant for entrant in SQUARED_NORM if entrant.slow and entrant.solver != "skm"]  # which calls none
    made = {
        "outer iterations": _pivot(summary, compared, _iterations),
        "machines": _pivot(summary, machines, _machines),
    }
    for title, column, form in (("CPU seconds", "cpu_s", ".2g"), ("active kernels", "active", ".0f")):
        for family in FAMILIES:
            shown = [entrant for entrant in ENTRANTS if entrant.problem in FAMILIES[family]]
            made[f"{title}, {family}"] = _pivot(summary, shown, _plain(column, form))
    chosen = [entrant for entrant in ENTRANTS if entrant.label == DEFAULT or entrant.printed]
    made["test accuracy"] = _pivot(summary, chosen, _accuracy)
    made["rivals"] = _verdict_table(verdicts)
    counts = "; ".join(f"{family}: {_count(verdicts, family)}" for family in FAMILIES)
    return made | {"counts": f"Cells in which the default is the fastest: {counts}."}


def _count(verdicts: pd.DataFrame, family: str) -> str:
    own = verdicts[verdicts["family"] == family]
    return f"{int((own['rival_over_default'] > 1).sum())} of {len(own)}"


def _pivot(summary: pd.DataFrame, entrants: list[Entrant], show: Show) -> str:
    """Return a table with a row a cell and a column a solver."""
    lookup = {(r["data"], r["constant"], r["problem"], r["solver"]): r for r in summary.to_dict("records")}
    names = [_name(entrant, entrants) for entrant in entrants]
    lines = [["data", "C", *names]]
    for data, constant in dict.fromkeys((row["data"], row["constant"]) for row in lookup.values()):
        found = [lookup.get((data, constant, entrant.problem, entrant.label)) for entrant in entrants]
        lines.append([data, f"{constant:g}", *("" if row is None else show(row) for row in found)])
    return markdown(lines[0], lines[1:])


def _name(entrant: Entrant, entrants: list[Entrant]) -> str:
    """Return the label, with the problem where the label alone does not tell."""
    twice = sum(other.label == entrant.label for other in entrants) > 1
    return f"{entrant.label} ({NAMES[entrant.problem]})" if twice else entrant.label


def _mark(row: Row) -> str:
    """Return what stands before a mean in which a run hit the time limit, or broke down."""
    return "! " if row["broken"] else "> " if row["censored"] else ""


def _iterations(row: Row) -> str:
    return f"{_mark(row)}{row['n_iter']:.1f} ({row['printed_iterations']:g})"


def _machines(row: Row) -> str:
    known = row["printed_machines"] if np.isfinite(row["printed_machines"]) else row["printed_iterations"]
    return f"{_mark(row)}{row['machines']:.0f}" + (f" ({known:g})" if np.isfinite(known) else "")


def _accuracy(row: Row) -> str:
    return f"{100 * row['accuracy']:.1f}{_spread(100 * row['accuracy_sd'], '.1f')}"


def _plain(column: str, form: str) -> Show:
    def show(row: Row) -> str:
        return f"{_mark(row)}{row[column]:{form}}{_spread(row[f'{column}_sd'], form)}"

    return show


def _spread(deviation: float, form: str) -> str:
    return f" ± {deviation:{form}}" if np.isfinite(deviation) else ""


def _verdict_table(verdicts: pd.DataFrame) -> str:
    lines = [["data", "C", *FAMILIES]]
    for (data, constant), cell in verdicts.groupby(CELL, sort=False):
        shown = [
            "{default} {default_cpu_s:.2g}, {best_rival} {rival_cpu_s:.2g} (x {rival_over_default:.1f})".format_map(row)
            for row in cell.to_dict("records")
        ]
        lines.append([str(data), f"{constant:g}", *shown])
    return markdown(lines[0], lines[1:])


# --- picture -------------------------------------------------------------------------------------------------------


def draw_seconds(summary: pd.DataFrame, path: Path) -> None:
    """Draw CPU seconds of every solver in every cell, hinge and logistic loss; open markers missed the gap."""
    mpl.use("agg")
    figure, axes = pyplot.subplots(1, 2, figsize=(11, 4.2), sharey=True, layout="constrained")
    cells = list(dict.fromkeys(zip(summary["data"], summary["constant"], strict=True)))
    for ax, family in zip(axes, ("hinge", "logistic"), strict=True):
        shown = [entrant for entrant in ENTRANTS if entrant.problem in FAMILIES[family]]
        for at, entrant in enumerate(shown):
            _draw_entrant(ax, summary, entrant, cells, f"C{at % 10}", "os^vD<>pPX*"[at % 11])
        ax.set_xticks(range(len(cells)), [f"{data} {constant:g}" for data, constant in cells], rotation=90, fontsize=7)
        ax.set(yscale="log", title=f"{family} loss")
        ax.legend(frameon=False, fontsize=7, ncols=2)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("CPU seconds, mean over splits")
    figure.savefig(path, dpi=90)
    pyplot.close(figure)


def _draw_entrant(ax: Any, summary: pd.DataFrame, entrant: Entrant, cells: list[Any], color: str, marker: str) -> None:
    own = summary[(summary["problem"] == entrant.problem) & (summary["solver"] == entrant.label)]
    label = (
        f"{entrant.label} (squared norm)" if (entrant.label, entrant.problem) == (DEFAULT, "squared") else entrant.label
    )
    for failed in (False, True):
        rows = own[(own["censored"] + own["broken"] > 0) == failed]
        x = [cells.index(cell) for cell in zip(rows["data"], rows["constant"], strict=True)]
        face = "none" if failed else color
        ax.plot(x, rows["cpu_s"], marker, color=color, markerfacecolor=face, markersize=4, linestyle="none")
    ax.plot([], [], marker, color=color, label=label, markersize=4, linestyle="none")
