"""Tables and figures of sections 6.1.2 and 6.1.3."""

from __future__ import annotations

import sys
from math import comb
from pathlib import Path

import matplotlib as mpl
import pandas as pd
from _polynomial_convergence import DEGREE, REACHED
from _polynomial_synthetic import geometric

mpl.use("Agg")
sys.path.insert(0, str(Path(__file__).parents[2]))
from experiments.ledger import markdown
from matplotlib import pyplot

ORDER = ("SGD-1s", "SGD-1s, single draws", "HKL", "NLMKL", "LPMKL", "UNIFORM", "SGD-1s, polished", "p = 1.1, polished")


def plot_convergence(frame: pd.DataFrame, path: Path) -> None:
    """Draw the objective against time on every data set."""
    names = list(frame["data"].unique())
    figure, axes = pyplot.subplots(1, len(names), figsize=(3.2 * len(names), 3.2), layout="constrained", squeeze=False)
    for ax, name in zip(axes[0], names, strict=True):
        own_seed = frame[(frame["data"] == name) & (frame["repeat"] == 0)]
        for method, own in own_seed.groupby("method", sort=False):
            ax.plot(own["seconds"], own["objective"], label=method)
        ax.set(title=name, xlabel="CPU seconds", xscale="log", yscale="log")
    axes[0, 0].set_ylabel("objective")
    axes[0, 0].legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=80)
    pyplot.close(figure)


def convergence_table(frame: pd.DataFrame) -> str:
    """Return the best objective of every method at a hundredth and a tenth of the time, and at the end.

    Of several seeds the geometric mean, with the smallest and the largest at the end.
    """
    rows = []
    for (data, method), own in frame.groupby(["data", "method"], sort=False):
        cells = ["none yet" if own[column].isna().any() else f"{geometric(own[column]):.1e}" for column in REACHED]
        if len(own) > 1:
            cells[-1] += f" ({own['after_all'].min():.1e} to {own['after_all'].max():.1e})"
        rows.append([str(data), str(method), f"{own['steps'].mean():.0f}", *cells])
    end = frame.loc[frame["method"] == "SGD-1s", "cpu_s"].median()  # a step of LPMKL may last longer
    return markdown(["data", "method", "steps", *(f"after {share * end:.2g} s" for share in REACHED.values())], rows)


def plot_synthetic(frame: pd.DataFrame, path: Path) -> None:
    """Draw error (geometric mean and range over the draws) and mean time of a fit against r."""
    figure, axes = pyplot.subplots(1, 2, figsize=(9.4, 3.8), layout="constrained")
    for name in sorted(set(frame["method"]), key=ORDER.index):
        by_r = frame[frame["method"] == name].groupby("r")
        errors = by_r["error"].agg([geometric, "min", "max"])
        line = axes[0].plot(errors.index, errors["geometric"], "o-", markersize=4, label=name)[0]
        axes[0].fill_between(errors.index, errors["min"], errors["max"], color=line.get_color(), alpha=0.15)
        seconds = by_r["cpu_s"].mean()
        axes[1].plot(seconds.index, seconds, "o-", markersize=4, label=name)
    matrices = frame[pd.to_numeric(frame["matrices_s"]).notna()]
    axes[1].plot(matrices["r"], matrices["matrices_s"], "s:", color="black", markersize=4, label="LPMKL, matrices")
    axes[0].set(xlabel="r", ylabel="test mean squared error", yscale="log")
    axes[1].set(xlabel="r", ylabel="CPU seconds of one fit", yscale="log")
    axes[1].legend(frameon=False, fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    figure.savefig(path, dpi=80)
    pyplot.close(figure)


def synthetic_tables(frame: pd.DataFrame) -> dict[str, str]:
    """Return errors (geometric mean, range) and mean CPU seconds of a fit, a row a method and a column an r."""
    columns = sorted(frame["r"].unique())
    head = ["", *(f"r = {r}" for r in columns)]
    names = sorted(set(frame["method"]), key=ORDER.index)
    errors = [[name, *(_error(frame, name, r) for r in columns)] for name in names]
    seconds = [[name, *(_seconds(frame, name, r, "cpu_s") for r in columns)] for name in names]
    seconds.append(["LPMKL, matrices", *(_seconds(frame, "LPMKL", r, "matrices_s") for r in columns)])
    seconds.append(["distinct products", *(f"{comb(r + DEGREE, DEGREE):,}" for r in columns)])
    shares = frame[frame["method"] == "SGD-1s"].groupby("r")["signal"].mean()
    seconds.append(["first draw among the five", *(f"{100 * shares.get(r, float('nan')):.2g} %" for r in columns)])
    counts = _draws(frame)
    errors.append(["draws of the data", *(str(counts[r]) for r in columns)])
    return {"synthetic": markdown(["error", *head[1:]], errors), "seconds": markdown(["CPU s", *head[1:]], seconds)}


def _error(frame: pd.DataFrame, name: str, r: int) -> str:
    values = frame.loc[(frame["method"] == name) & (frame["r"] == r), "error"]
    if values.empty:
        return "not run"
    told = [f"{values.min():.0e} to {values.max():.0e}"] if len(values) > 1 else []
    if len(values) < _draws(frame)[r]:
        told.append("one draw" if len(values) == 1 else f"{len(values)} draws")
    return f"{geometric(values):.1e}" + (f" ({', '.join(told)})" if told else "")


def _draws(frame: pd.DataFrame) -> pd.Series:
    return frame.groupby("r")["repeat"].nunique()


def _seconds(frame: pd.DataFrame, name: str, r: int, column: str) -> str:
    values = pd.to_numeric(frame.loc[(frame["method"] == name) & (frame["r"] == r), column]).dropna()
    return "" if values.empty else f"{values.mean():.2g}"
