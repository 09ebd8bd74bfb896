"""Ten thousand targets on three feature spaces: own kernel weights, strength and mixing of each, by five folds.

``python benchmarks/many_targets.py [--targets T] [--rows N] [--kernels M] [--designs ...] [--mapped] [--himalaya]
[--picture FILE] [--costs] [--smoke] [--output DIR]``

Draws 1,000 training rows and 500 others of three (``--kernels``) feature spaces of 30 correlated columns. In ``sparse``
each target sees one space, in ``dense`` all of them, in ``unequal`` any subset, at noise levels that differ by a factor
of ten. Prints CPU seconds, peak memory of the fit, the largest relative gap of 200 sampled targets, recomputed by the
matrices, the R2 on the other rows and the share of weights that are exactly zero. ``--mapped`` reads targets in single
precision from a memory map; 100,000 targets: ``--targets 100000 --kernels 5 --rows 2000 --designs sparse --mapped``.
``--himalaya`` adds the random search of himalaya (100 draws) and its gradient on the same folds, if that is installed;
``--picture`` draws the R2 of each target beside it. ``--costs`` fits squares, counts and labels once without a search.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import _common as common
import numpy as np
import pandas as pd
from sklearn.model_selection import KFold

from manykernels import KernelBank, Linear, MKLClassifier, MKLRegressor, MKLRegressorCV
from manykernels.objective import Problem, get_loss, get_regularizer

DESIGNS = ("sparse", "dense", "unequal")
FORMATS = {"cpu_s": ".1f", "peak_mb": ".0f", "gap": ".1e", "r2": ".4f", "zeros": ".2f"}
SAMPLED = 200  # targets whose certificates are recomputed
COLUMNS, NEW_ROWS, CORRELATION = 30, 500, 0.3
TOGETHER = 10_000  # targets that are drawn at a time


def draw(design: str, n: int, n_targets: int, kernels: int = 3, path: Path | None = None) -> tuple[Any, Any]:
    """Return the rows of feature spaces, and targets, which are written to a file if there is a path."""
    rng = np.random.default_rng(0)
    shared = rng.normal(size=(n, COLUMNS))
    spaces = [
        np.sqrt(1 - CORRELATION) * rng.normal(size=(n, COLUMNS)) + np.sqrt(CORRELATION) * shared for _ in range(kernels)
    ]
    if path is None:
        return np.hstack(spaces), _targets(design, spaces, n_targets, rng)
    whole = np.lib.format.open_memmap(path, "w+", np.float32, (n, n_targets))
    for first in range(0, n_targets, TOGETHER):
        whole[:, first : first + TOGETHER] = _targets(design, spaces, min(TOGETHER, n_targets - first), rng)
    whole.flush()
    return np.hstack(spaces), np.load(path, mmap_mode="r")


def _targets(design: str, spaces: list[np.ndarray], n_targets: int, rng: np.random.Generator) -> np.ndarray:
    """Return targets of feature spaces."""
    n, kernels = len(spaces[0]), len(spaces)
    taken = np.ones((kernels, n_targets), dtype=bool)
    if design == "sparse":
        taken = np.arange(kernels)[:, None] == rng.integers(kernels, size=n_targets)
    elif design == "unequal":
        taken = rng.random((kernels, n_targets)) < 0.5
    noise = rng.uniform(0.5, 5.0, n_targets) if design == "unequal" else np.full(n_targets, 2.0)
    Y = noise * rng.normal(size=(n, n_targets))
    for space, own in zip(spaces, taken, strict=True):
        Y += space @ (rng.normal(size=(COLUMNS, n_targets)) * own / np.sqrt(COLUMNS))
    return Y


def r2(Y: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Return the R2 of each target."""
    return 1.0 - np.square(Y - predicted).sum(axis=0) / np.square(Y - Y.mean(axis=0)).sum(axis=0)


def bank_of(kernels: int = 3) -> KernelBank:
    """Return a linear kernel for each feature space."""
    views = {f"space {m}": list(range(m * COLUMNS, (m + 1) * COLUMNS)) for m in range(kernels)}
    return KernelBank.from_views(views, Linear(), normalize="mean_diagonal")


def matrices(X: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Return the kernels between rows and training rows, (M, n, N)."""
    bank, rows = bank_of(X.shape[1] // COLUMNS).fit_prepare(X)
    return np.asarray(bank.block(bank.prepare(new), rows))


def recomputed_gap(model: MKLRegressorCV, X: np.ndarray, Y: np.ndarray) -> float:
    """Return the largest relative gap of some targets, from the matrices of the kernels."""
    kernels = matrices(X, X)
    gaps = []
    for t in np.random.default_rng(0).choice(Y.shape[1], min(SAMPLED, Y.shape[1]), replace=False):
        found = model.solution_[t]
        total, ratio = model.alpha_[t] * len(X), model.l1_ratio_[t]
        penalty = get_regularizer("elasticnet", total, l1_ratio=ratio)
        used = slice(None) if ratio > 0 or not found.active.size else found.active  # averages of a target's kernels
        problem = Problem(kernels[used], np.asarray(Y[:, t], dtype=float), get_loss("squared"), penalty)
        gaps.append(problem.certificate(found.dual_coef, found.kernel_weights[used], found.intercept).relative_gap)
    return max(gaps)


def ours(X: np.ndarray, Y: np.ndarray, new: np.ndarray) -> tuple[Callable[[], np.ndarray], dict[str, Any]]:
    """Return predictions of new rows, and what the search says of itself."""
    model = MKLRegressorCV(bank_of(X.shape[1] // COLUMNS), cv=KFold(5)).fit(X, Y)
    return lambda: model.predict(new), {"model": model}


def himalaya(solver: str) -> Callable[..., tuple[Callable[[], np.ndarray], dict[str, Any]]]:
    """Return a fit of himalaya's multiple kernel ridge regression on the same folds."""

    def fit(X: np.ndarray, Y: np.ndarray, new: np.ndarray) -> tuple[Callable[[], np.ndarray], dict[str, Any]]:
        from himalaya.kernel_ridge import MultipleKernelRidgeCV

        kernels, crossed = matrices(X, X), matrices(X, new)
        given: dict[str, Any] = {"alphas": np.logspace(-3, 4, 15), "progress_bar": False}
        given |= {"n_iter": 100, "n_targets_batch": 1000} if solver == "random_search" else {"n_targets_batch": 1000}
        if solver == "hyper_gradient":
            given.pop("alphas")
        means = Y.mean(axis=0)
        model = MultipleKernelRidgeCV("precomputed", solver=solver, solver_params=given, cv=KFold(5), random_state=0)
        model.fit(kernels, Y - means)
        return lambda: model.predict(crossed) + means, {}

    return fit


def run(
    design: str, n: int, n_targets: int, kernels: int, path: Path | None, name: str, fit: Callable[..., Any]
) -> tuple[dict[str, Any], np.ndarray]:
    """Return the row of one method on one design, and the R2 of each target."""
    X, Y = draw(design, n + NEW_ROWS, n_targets, kernels, path)
    common.reset_peak_memory()
    before = common.peak_memory_bytes()
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        predict, told = fit(X[:n], Y[:n], X[n:])
    seconds, peak = time.process_time() - began, common.peak_memory_bytes()
    row = {"design": design, "method": name, "targets": n_targets, "cpu_s": seconds, "peak_mb": peak / 2**20}
    each = r2(Y[n:], predict())
    row |= {"data_mb": before / 2**20, "r2": each.mean(), "gap": np.nan, "zeros": np.nan}
    if "model" in told:
        row["gap"] = recomputed_gap(told["model"], X[:n], Y[:n])
        row["zeros"] = float(np.mean(told["model"].kernel_weights_ == 0))
    return row, each


def costs(design: str, n: int, n_targets: int) -> pd.DataFrame:
    """Return CPU milliseconds a target of fits: squares in a batch, counts and labels one target after the other."""
    X, Y = draw(design, n, n_targets)
    Z = Y / Y.std(axis=0)
    counts = np.random.default_rng(1).poisson(np.exp(0.5 * Z)).astype(float)
    models = {"squared": (MKLRegressor, Z), "poisson": (MKLRegressor, counts), "logistic": (MKLClassifier, Z > 0)}
    rows = []
    for loss, (kind, own) in models.items():
        kind(bank_of(), loss=loss).fit(X, own[:, :9])  # loads what is compiled
        began = time.process_time()
        model = kind(bank_of(), loss=loss).fit(X, own)
        spent = 1e3 * (time.process_time() - began) / n_targets
        rows.append({"loss": loss, "targets": n_targets, "cpu_ms a target": round(spent, 1), "gap": model.dual_gap_})
    return pd.DataFrame(rows)


def draw_picture(scores: dict[tuple[str, str], np.ndarray], path: Path) -> None:
    """Plot the R2 of each target of the first method against those of the others."""
    from matplotlib.figure import Figure

    designs, (first, *others) = ({key[k]: None for key in scores} for k in (0, 1))
    figure = Figure(figsize=(4 * len(designs), 4), layout="constrained")
    for design, ax in zip(designs, np.atleast_1d(figure.subplots(1, len(designs))), strict=True):
        for other in others:
            ax.plot(scores[design, other].clip(-0.1), scores[design, first], ".", markersize=3, label=other)
        ax.axline((0, 0), slope=1, color="0.5", linewidth=1)
        ax.set(title=design, xlabel="R2 of others", ylabel=f"R2 of {first}")
        ax.legend(frameon=False)
    figure.savefig(path)


def main() -> None:
    """Run the designs and print a table."""
    parser = common.parser(__doc__ or "")
    parser.add_argument("--targets", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=1_000, help="training rows")
    parser.add_argument("--kernels", type=int, default=3, help="feature spaces")
    parser.add_argument("--mapped", action="store_true", help="read targets in single precision from a memory map")
    parser.add_argument("--picture", type=Path, help="draw the R2 of each target to this file; needs --himalaya")
    parser.add_argument("--designs", nargs="+", choices=DESIGNS, default=list(DESIGNS))
    parser.add_argument("--himalaya", action="store_true", help="add himalaya, if it is installed")
    parser.add_argument("--costs", action="store_true", help="only what a target costs, by loss, in a plain fit")
    given = parser.parse_args()
    if given.costs:
        print(
            costs(given.designs[0], *((100, 9) if given.smoke else (given.rows, given.targets))).to_string(index=False)
        )
        return
    n, n_targets = (200, 40) if given.smoke else (given.rows, given.targets)
    methods: dict[str, Any] = {"manykernels": ours}
    if given.himalaya:
        methods |= {f"himalaya {solver}": himalaya(solver) for solver in ("random_search", "hyper_gradient")}
    designs = given.designs[:1] if given.smoke else given.designs
    rows, scores = [], {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "targets.npy" if given.mapped else None
        for design in designs:
            for name, fit in methods.items():
                row, scores[design, name] = run(design, n, n_targets, given.kernels, path, name, fit)
                rows.append(row)
    if given.picture is not None and given.himalaya:
        draw_picture(scores, given.picture)
    table = pd.DataFrame(rows)
    shown = table.assign(**{name: table[name].map(f"{{:{form}}}".format) for name, form in FORMATS.items()})
    print(shown.to_string(index=False))
    common.save(table, {"targets": n_targets, "rows": n}, given.output, "many_targets")


if __name__ == "__main__":
    main()
