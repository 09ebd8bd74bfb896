"""Citi's algorithms as published, in a few lines around scikit-learn's support vector machine."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.svm import SVC

from manykernels.objective.regularizers.weight_sets import (
    elastic_net_reciprocals,
    elastic_net_scale,
    norm_slope,
    wsr_iterations,
)

SVM_TOL = 1e-8  # LIBSVM's violation of optimality; its default 1e-3 would limit the gap
WSR_TOL = 1e-9
ACCURACY = 1e-9  # of the reciprocals problem, relative to the optimum
MOST_UPDATES = 5000

Step = Callable[[np.ndarray, np.ndarray, float], np.ndarray]


def solve_as_published(
    kernels: np.ndarray, y: np.ndarray, constant: float, eta: float, *, tol: float, most: int, seconds: float
) -> pd.DataFrame:
    """Run Algorithm 1 and return both bounds of each iteration, with the 1/2 that Algorithm 1 drops from (8).

    ``relative_gap`` is ``upper / lower - 1``, infinite while the lower bound is not positive.
    """
    theta, rows, started = np.full(len(kernels), 1 / elastic_net_scale(np.ones(len(kernels)), eta)), [], clock()
    for iteration in range(1, most + 1):
        rho = machine(np.tensordot(theta, kernels, 1), y, constant)
        u = np.maximum((kernels @ rho) @ rho, 0.0)
        upper = float(np.abs(rho).sum() - u @ theta / 2)
        lower = float(np.abs(rho).sum() - u @ linear_iterations(u, eta) / 2)
        gap = upper / lower - 1 if lower > 0 else np.inf
        rows.append({"iteration": iteration, "upper": upper, "lower": lower, "relative_gap": gap})
        rows[-1] |= {"cpu_s": clock() - started, "negligible": int(np.sum(theta < 1e-6 * theta.max()))}
        if gap < tol or clock() - started > seconds:
            break
        found = wsr_iterations(theta**2 * u, eta, theta, tol=WSR_TOL)
        theta, rows[-1]["wsr_updates"] = found.theta, found.n_iter
    return pd.DataFrame(rows)


def machine(gram: np.ndarray, y: np.ndarray, constant: float) -> np.ndarray:
    """Return ``alpha o y`` of the support vector machine on one kernel."""
    fitted = SVC(C=constant, kernel="precomputed", tol=SVM_TOL).fit(gram, y)
    rho = np.zeros(len(y))
    rho[fitted.support_] = fitted.dual_coef_[0]
    return rho


def clock() -> float:
    """Return CPU seconds of this process."""
    return time.process_time()


def linear_iterations(u: np.ndarray, eta: float) -> np.ndarray:
    """Maximize ``theta'u`` over the elastic-net ball by Algorithm 3.

    With ``d = eta / (2 - 2 eta)`` the set is the positive part of a ball about ``-d``: the farthest point in the
    direction ``u`` is taken (29), with ``|Z|`` read as the number of entries outside ``Z``, and entries found negative
    are dropped, until none is. Near ``eta = 1`` the subtraction of ``d`` cancels, so the result is put back on the
    boundary. The library's `elastic_net_linear` does not slow down.
    """
    if not u.any():
        return np.zeros(u.size)
    if eta == 1:
        return np.asarray(np.arange(u.size) == np.argmax(u), dtype=np.float64)
    u, shift, kept = u / u.max(), eta / (2 - 2 * eta), u > 0
    while True:
        radius = np.sqrt(kept.sum() * shift**2 + 2 * shift + 1)
        theta = np.where(kept, radius * u / np.linalg.norm(u[kept]) - shift, 0.0)
        if (theta >= 0).all() or kept.sum() == 1:
            theta = np.maximum(theta, 0.0)
            return np.asarray(theta / elastic_net_scale(theta, eta))
        kept &= theta >= 0


# --- the updates of Algorithm 2 --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Descent:
    """One run on the weighted sum of reciprocals."""

    updates: int
    increases: int
    premature: bool


def update_13a(x: np.ndarray, beta: np.ndarray, eta: float) -> np.ndarray:
    """Return the next iterate of (13a)."""
    return np.sqrt(beta / norm_slope(x, eta))


def update_21(x: np.ndarray, beta: np.ndarray, eta: float) -> np.ndarray:
    """Return the next iterate of (21)."""
    return np.cbrt(x * beta / norm_slope(x, eta))


RULES: dict[str, tuple[Step, ...]] = {
    "(13a)": (update_13a,),
    "(21)": (update_21,),
    "alternating": (update_13a, update_21),
}


def descend(rule: str, beta: np.ndarray, eta: float) -> Descent:
    """Count the updates of a rule until the objective ``h = s g`` is within ``ACCURACY`` of the optimum.

    Also counted: updates that make ``h`` rise beyond rounding, and whether the stop ``s/g - 1 <= ACCURACY`` (20) fires
    after any update at a point that is not that accurate.
    """
    best = float(np.sum(beta / elastic_net_reciprocals(beta, eta)))
    steps, x, old, increases, premature = RULES[rule], np.ones(len(beta)), np.inf, 0, False
    for update in range(1, MOST_UPDATES + 1):
        x = steps[(update - 1) % len(steps)](x, beta, eta)
        scale, total = float(elastic_net_scale(x, eta)), float(np.sum(beta / x))
        increases += scale * total > old * (1 + 1e-14)
        old = scale * total
        if old <= best * (1 + ACCURACY):
            return Descent(update, increases, premature)
        premature |= scale / total - 1 <= ACCURACY
    return Descent(MOST_UPDATES, increases, premature)


def compare_updates(etas: tuple[float, ...], size: int, draws: int) -> Iterator[dict[str, Any]]:
    """Yield the mean number of updates of every rule against eta, on random ``beta``."""
    rng = np.random.default_rng(0)
    betas = [rng.exponential(size=size) ** 2 for _ in range(draws)]
    for eta, rule in itertools.product(etas, RULES):
        started = clock()
        runs = [descend(rule, beta, eta) for beta in betas]
        counts = [run.updates for run in runs]
        row = {"eta": eta, "rule": rule, "repeat": 0, "updates": float(np.mean(counts)), "most": max(counts)}
        row |= {"increases": sum(run.increases for run in runs), "premature": sum(run.premature for run in runs)}
        yield row | {"share_premature": row["premature"] / draws, "cpu_s": clock() - started}
