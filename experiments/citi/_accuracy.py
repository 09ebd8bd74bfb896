"""Accuracy and sparsity against eta, with the constant chosen by hold-out inside the training set."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from _data import bank_of
from matplotlib import pyplot
from sklearn.model_selection import ShuffleSplit

from manykernels import MKLClassifierCV

CONSTANTS = (0.1, 1.0, 10.0, 100.0)  # C of the support vector machine
TOL = 1e-3
UNIFORM = "uniform"


@dataclass(frozen=True)
class Protocol:
    """How much is computed."""

    etas: tuple[float, ...]
    splits: int
    holdouts: int
    most_train: int


def measure(name: str, X: np.ndarray, y: np.ndarray, protocol: Protocol) -> Iterator[dict[str, Any]]:
    """Yield test accuracy and active kernels of every eta, and of equal weights, on random splits."""
    n_train = min(int(0.8 * len(y)), protocol.most_train)
    for split in range(protocol.splits):
        order = np.random.default_rng(split).permutation(len(y))
        train, test = order[:n_train], order[n_train:]
        for eta in (*protocol.etas, UNIFORM):
            model, started = machine(eta, X.shape[1], n_train, protocol.holdouts), time.process_time()
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="The best strength")
                model.fit(X[train], y[train])
            row = {"data": name, "repeat": split, "eta": eta, "n_train": n_train, "C": constant_of(model, eta, n_train)}
            row |= {"accuracy": 100 * model.score(X[test], y[test]), "gap": model.dual_gap_}
            row |= {"n_kernels": len(model.kernel_weights_), "active": int(np.count_nonzero(model.kernel_weights_))}
            yield row | {"cpu_s": time.process_time() - started}


def machine(eta: float | str, n_columns: int, n_train: int, holdouts: int) -> MKLClassifierCV:
    """Return the classifier of one eta, or the support vector machine on the mean of the kernels."""
    bank = bank_of(n_columns)
    common = {"loss": "hinge", "cv": ShuffleSplit(holdouts, test_size=0.25, random_state=0), "tol": TOL}
    if eta == UNIFORM:
        n_kernels = len(bank.expand(np.zeros((2, n_columns))))
        alphas = [n_kernels / (constant * n_train) for constant in CONSTANTS]
        return MKLClassifierCV(bank, penalty="ridge", alphas=alphas, **common)
    alphas = [1 / (constant * n_train) for constant in CONSTANTS]
    solver = {"solver": "citi", "resources": {"max_iter": 1000}}
    return MKLClassifierCV(bank, penalty="elasticnet_ball", eta=eta, alphas=alphas, **solver, **common)


def constant_of(model: MKLClassifierCV, eta: float | str, n_train: int) -> float:
    """Return the constant that was chosen."""
    share = len(model.kernel_weights_) if eta == UNIFORM else 1
    return float(round(share / (model.alpha_ * n_train), 9))


def summarize(table: pd.DataFrame) -> pd.DataFrame:
    """Return mean and standard deviation over splits."""
    groups = table.groupby(["data", "eta"], sort=False)
    spread = groups["accuracy"].agg(["mean", "std"]).add_prefix("accuracy_")
    rest = groups[["active", "n_kernels", "C", "n_train"]].median()
    return pd.concat([spread, rest, groups["cpu_s"].mean()], axis=1).reset_index()


def plot(summary: pd.DataFrame, path: str) -> None:
    """Draw accuracy and the share of kernels in use against eta; dotted lines are equal weights."""
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9.5, 4), layout="constrained")
    for number, (name, rows) in enumerate(summary.groupby("data", sort=False)):
        learned, uniform = rows[rows["eta"] != UNIFORM], rows[rows["eta"] == UNIFORM]
        eta = learned["eta"].astype(float)
        left.plot(eta, learned["accuracy_mean"], marker="o", color=f"C{number}", label=str(name))
        left.axhline(uniform["accuracy_mean"].iloc[0], color=f"C{number}", linestyle=":", linewidth=1)
        right.plot(eta, 100 * learned["active"] / learned["n_kernels"], marker="o", color=f"C{number}")
    left.set(xlabel="eta", ylabel="test accuracy, %")
    right.set(xlabel="eta", ylabel="kernels with a weight, %", ylim=(0, 105))
    left.legend(frameon=False, fontsize="small")
    for ax in (left, right):
        ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=80)
    pyplot.close(figure)
