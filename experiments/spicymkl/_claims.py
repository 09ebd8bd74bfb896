"""Claims of section 6 of the publication as yes or no, each with the numbers of the run tables that decide."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[2]))
from experiments.ledger import markdown

SPICY = "spicymkl, gamma x 2"
ELAST = "smooth_dual"
LOSSES = ("hinge", "logistic")
WRAPPERS = ("hessianmkl", "levelmkl", "simplemkl", "silp")
MANY = 1000  # kernels beyond which SpicyMKL is said to be clearly the fastest
Cells = dict[tuple[str, str], pd.Series]


def table_claims(runs: pd.DataFrame) -> dict[str, str]:
    """Return the claims of 6.1, on Figure 3 and Table 4.

    Parameters
    ----------
    runs : DataFrame
        Runs of ``table4.py``.
    """
    seconds, active = by_solver(runs, "cpu_s"), by_solver(runs, "active")
    needed = {
        (f"{net}{loss}", name)
        for loss in LOSSES
        for net, name in (("", SPICY), ("elastic ", SPICY), ("elastic ", ELAST))
    }
    if not needed | {("squared", name) for name in WRAPPERS} <= set(seconds):
        return {}  # runs of named solvers only, or cut off
    over_block = ratios([(seconds[loss, SPICY], seconds[f"elastic {loss}", ELAST]) for loss in LOSSES])
    over_net = ratios([(seconds[f"elastic {loss}", SPICY], seconds[f"elastic {loss}", ELAST]) for loss in LOSSES])
    others = pd.concat(
        [seconds[key] for key in [*((loss, SPICY) for loss in LOSSES), ("elastic hinge", ELAST)]]
        + [seconds["squared", name] for name in WRAPPERS],
        axis=1,
    ).min(axis=1)
    rows = [
        verdict("ElastMKL is faster than SpicyMKL (Figure 3: SpicyMKL with the block 1-norm)", over_block > 1),
        verdict("the same, SpicyMKL with the same elastic net (ours)", over_net > 1),
        verdict(
            "ElastMKL, logistic loss, is the fastest of all published methods",
            seconds["elastic logistic", ELAST] < others,
        ),
        verdict(
            "SpicyMKL is faster with the logistic loss than with the hinge",
            seconds["logistic", SPICY] < seconds["hinge", SPICY],
        ),
        verdict("SpicyMKL is faster the larger C is, hinge and logistic", falls(seconds)),
        verdict("the hinge loss selects fewer kernels, SpicyMKL", active["hinge", SPICY] < active["logistic", SPICY]),
        verdict("the same, ElastMKL", active["elastic hinge", ELAST] < active["elastic logistic", ELAST]),
    ]
    rows[0][2] += f"; {over_block.min():.1f} to {over_block.max():.1f} times"
    rows[1][2] += f"; {over_net.min():.1f} to {over_net.max():.1f} times"
    return {"claims": markdown(["claim", "verdict", "cells in which it holds"], rows)}


def figure_claims(runs: pd.DataFrame) -> dict[str, str]:
    """Return the claim on Figure 5 beyond 1000 kernels, with SpicyMKL's better loss.

    Parameters
    ----------
    runs : DataFrame
        Runs of ``figures.py``.
    """
    many = runs[(runs["figure"] == "kernels") & (runs["n_kernels"] > MANY)]
    if many.empty:
        return {}
    finished = many.assign(cpu_s=many["cpu_s"].where(many["status"] == "converged", np.inf))
    table = finished.pivot_table(
        index=["data", "n_kernels"], columns=["problem", "solver"], values="cpu_s", aggfunc="median"
    )
    rows = []
    for place, row in table.iterrows():
        rivals = {name: row.get(("squared", name), np.nan) for name in WRAPPERS}
        best = min(rivals, key=lambda name: (np.isnan(rivals[name]), rivals[name]))
        ratios_of = [rivals[best] / row[loss, SPICY] for loss in LOSSES]
        rows.append([*map(str, place), best, *(f"{ratio:.2f}" for ratio in ratios_of), word(np.array(ratios_of) > 1)])
    head = [
        "data",
        "kernels",
        "fastest of the others",
        "its time over SpicyMKL's, hinge",
        "logistic",
        "SpicyMKL is the fastest",
    ]
    return {"claims, kernels": markdown(head, rows)}


def by_solver(runs: pd.DataFrame, column: str) -> Cells:
    """Return a column by problem and solver, indexed by cell and split; runs short of the gap take forever."""
    values = runs[column].where(runs["status"] == "converged", np.inf) if column == "cpu_s" else runs[column]
    keyed = runs.assign(value=values).set_index(["data", "constant", "repeat"])
    return {key: own["value"] for key, own in keyed.groupby(["problem", "solver"])}


def ratios(pairs: list[tuple[pd.Series, pd.Series]]) -> pd.Series:
    """Return the ratios of all pairs in one series."""
    return pd.concat([(one / other).dropna() for one, other in pairs])


def falls(seconds: Cells) -> np.ndarray:
    """Return for each loss, set and split whether SpicyMKL takes less time the larger C is."""
    found = []
    for loss in LOSSES:
        for _, own in seconds[loss, SPICY].groupby(level=["data", "repeat"]):
            found.append(bool((own.sort_index(level="constant").diff().dropna() < 0).all()))
    return np.array(found)


def word(holds: np.ndarray) -> str:
    """Return yes, no, or neither where it holds in some cells only."""
    return "yes" if holds.all() else "no" if not holds.any() else "in part"


def verdict(claim: str, holds: pd.Series | np.ndarray) -> list[str]:
    """Return a row of the table: claim, verdict, counts."""
    values = np.asarray(holds, dtype=bool)
    return [claim, word(values), f"{values.sum()} of {len(values)}"]
