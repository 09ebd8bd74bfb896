"""From single runs to Figures 5 and 6: medians, percentiles, exponents, pictures."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib import pyplot

sys.path.insert(0, str(Path(__file__).parents[2]))
from experiments.ledger import markdown

SERIES = ["figure", "data", "problem", "solver"]
SIZE = {"kernels": "n_kernels", "samples": "n_samples"}
AXES = {"kernels": "number of kernels", "samples": "number of samples"}
COLORS = {
    "working_set": "#d62728",
    "spicymkl, gamma x 2": "#1f77b4",
    "spicymkl, as printed": "#17becf",
    "smooth_dual": "#2ca02c",
    "simplemkl": "#9467bd",
    "hessianmkl": "#8c564b",
    "levelmkl": "#e377c2",
    "silp": "#7f7f7f",
}
LOSSES = {"squared": "hinge"}
FAINT = 0.45  # of curves of another lambda than the tables'


def medians(runs: pd.DataFrame) -> pd.DataFrame:
    """Return median and quartiles of CPU seconds over repeats, one row a figure, set, size and solver.

    Parameters
    ----------
    runs : DataFrame
        Single runs, as ``figures.py`` writes them.

    Returns
    -------
    DataFrame
        ``failed`` counts runs that missed the gap.
    """
    groups = runs.groupby(["figure", "data", "n_kernels", "n_samples", "problem", "solver"], sort=False)
    rows = []
    for key, group in groups:
        quartiles = group["cpu_s"].quantile([0.25, 0.5, 0.75]).tolist()
        rows.append(
            dict(zip(["figure", "data", "n_kernels", "n_samples", "problem", "solver"], key, strict=True))
            | dict(zip(["cpu_s_25", "cpu_s", "cpu_s_75"], quartiles, strict=True))
            | {"repeats": len(group), "failed": int((group["status"] != "converged").sum())}
            | {"n_iter": group["n_iter"].median(), "active": group["active"].median()}
        )
    return pd.DataFrame(rows)


def exponents(table: pd.DataFrame) -> pd.DataFrame:
    """Return the slope of log CPU seconds against log size, all solved sizes and the last two.

    Parameters
    ----------
    table : DataFrame
        As `medians` returns it.
    """
    rows = []
    for key, curve in table[table["failed"] == 0].groupby(SERIES, sort=False):
        x = np.log(curve[SIZE[str(key[0])]].to_numpy(dtype=float))
        order, seconds = np.argsort(x), np.log(curve["cpu_s"].to_numpy(dtype=float))
        x, seconds = x[order], seconds[order]
        if len(x) > 1:
            last = float((seconds[-1] - seconds[-2]) / (x[-1] - x[-2]))
            slopes = {"exponent": float(np.polyfit(x, seconds, 1)[0]), "last_two": last}
            rows.append(dict(zip(SERIES, key, strict=True)) | {"largest": round(float(np.exp(x[-1])))} | slopes)
    return pd.DataFrame(rows, columns=[*SERIES, "largest", "exponent", "last_two"])


def exponent_table(slopes: pd.DataFrame) -> str:
    """Return the exponents of one figure as Markdown, a row a curve and a column a data set.

    Parameters
    ----------
    slopes : DataFrame
        As `exponents` returns it.
    """
    sets = list(dict.fromkeys(slopes["data"]))
    lines = []
    for (solver, problem), curve in slopes.groupby(["solver", "problem"], sort=False):
        found = curve.set_index("data")["exponent"]
        cells = [f"{found[data]:.2f}" if data in found.index else "" for data in sets]
        lines.append([f"{solver}, {problem}", *cells])
    return markdown(["solver, problem", *sets], lines)


def draw_figure(table: pd.DataFrame, figure: str, limit: float, path: Path) -> None:
    """Draw one panel a data set; solid lines hinge loss, dashed logistic, open markers at the limit where it was hit.

    Parameters
    ----------
    table : DataFrame
        As `medians` returns it.
    figure : {"kernels", "samples"}
    limit : float
        CPU seconds.
    path : Path
        Where the picture goes.
    """
    mpl.use("agg")
    own = table[table["figure"] == figure]
    sets = list(dict.fromkeys(own["data"]))
    drawn, axes = pyplot.subplots(
        1, len(sets), figsize=(4 * len(sets) + 2, 5.5), sharey=True, layout="constrained", squeeze=False
    )
    for ax, data in zip(axes[0], sets, strict=True):
        for (problem, solver), curve in own[own["data"] == data].groupby(["problem", "solver"], sort=False):
            _draw_curve(ax, curve.sort_values(SIZE[figure]), SIZE[figure], str(problem), str(solver), limit)
        ax.axhline(limit, color="#b0b0b0", linewidth=0.8, linestyle=":")
        ax.set(xscale="log", yscale="log", title=data, xlabel=AXES[figure])
        sizes = sorted(set(own[SIZE[figure]]))
        ax.set_xticks(sizes, [str(size) for size in sizes], fontsize=8, rotation=45)
        ax.minorticks_off()
        ax.spines[["top", "right"]].set_visible(False)
    axes[0][0].set_ylabel("CPU seconds to a relative gap of 0.01")
    handles, labels = axes[0][0].get_legend_handles_labels()
    drawn.legend(handles, labels, frameon=False, fontsize=8, ncols=len(sets) + 1, loc="outside lower center")
    drawn.savefig(path, dpi=80)
    pyplot.close(drawn)


def _draw_curve(ax: Any, curve: pd.DataFrame, size: str, problem: str, solver: str, limit: float) -> None:
    color, loss = COLORS[solver], LOSSES.get(problem, problem)
    style, alpha = "--" if "logistic" in problem else "-", FAINT if ", " in problem else 1.0
    solved = curve[curve["failed"] == 0]
    ax.plot(solved[size], solved["cpu_s"], style, color=color, alpha=alpha, marker=".", label=f"{solver}, {loss}")
    ax.fill_between(solved[size], solved["cpu_s_25"], solved["cpu_s_75"], color=color, alpha=0.15, linewidth=0)
    missed = curve.loc[curve["failed"] > 0, size]
    if len(missed):
        limits = np.full(len(missed), limit)
        apart = missed * 1.06 ** (list(COLORS).index(solver) - 3)  # several solvers may hit the limit at one size
        ax.plot(apart, limits, "o", color=color, markerfacecolor="none", markersize=6, clip_on=False)
