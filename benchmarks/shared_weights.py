"""One set of kernel weights for all classes or targets: thousands of targets, and own against shared weights.

``python benchmarks/shared_weights.py [--problem targets|views|factored] [--data DIR] [--smoke] [--output DIR]``

``targets`` fits 2,000 targets on ten kernels of 1,000 samples: ridge beside scikit-learn's `KernelRidge` on the summed
kernel, and beside himalaya's if that is installed, then the block 1-norm. ``views`` fits multi-view data with own and
with shared weights: scikit-learn's digits, and the archives ``NAME.npz`` of ``--data`` with arrays ``X``, ``y``,
``views`` and ``view_names``. ``factored`` fits five targets or classes on 1e5 rows, 30 columns and nine Gaussian widths
on each, with kernels held as factors: shared weights beside own ones.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import _common as common
import numpy as np
import pandas as pd
from sklearn.datasets import load_digits
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import StratifiedShuffleSplit

from manykernels import KernelBank, Linear, MKLClassifier, MKLRegressor
from manykernels.objective import Problem, get_regularizer
from manykernels.solvers import SharedNewton

SETS = ("msrcv1", "three_sources", "nutrimouse", "leaves100")
ALPHAS = (0.03, 0.01, 0.003, 0.001)
MANY_CLASSES = 20  # beyond, one split, one strength and the squared hinge alone
FORMATS = {
    "gap": ".1e", "difference": ".1e", "cpu_s": ".2f", "peak_gb": ".2f", "accuracy": ".3f", "per_class": ".1f",
    "selected": ".1f", "score": ".3f",
}  # fmt: skip


# --- many targets ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Targets:
    """Kernels on training rows and between other rows and these, and targets of which two views matter."""

    kernels: np.ndarray
    crossed: np.ndarray
    y: np.ndarray


def draw_targets(n_samples: int, n_targets: int, seed: int) -> Targets:
    """Return two Gaussian kernels on each of five views of five columns."""
    rng = np.random.default_rng(seed)
    views = [rng.normal(size=(n_samples + n_samples // 2, 5)) for _ in range(5)]
    signal = np.sin(views[0] @ rng.normal(size=(5, n_targets))) + views[1] @ rng.normal(size=(5, n_targets))
    y = (signal + rng.normal(size=signal.shape))[:n_samples]
    whole = np.stack([_gaussian(view, width, n_samples) for view in views for width in (1.0, 3.0)])
    return Targets(whole[:, :n_samples], whole[:, n_samples:], y)


def _gaussian(view: np.ndarray, width: float, n_samples: int) -> np.ndarray:
    squares = (view * view).sum(axis=1)
    distances = squares[:, None] + squares[:n_samples] - 2.0 * view @ view[:n_samples].T
    return np.exp(-np.maximum(distances, 0.0) / (2.0 * view.shape[1] * width**2))


def targets_frame(n_samples: int, n_targets: int, seed: int) -> pd.DataFrame:
    """Return a row for each way to fit all targets."""
    data = draw_targets(n_samples, n_targets, seed)
    rows, predicted = [], []
    for penalty, share in (("ridge", 0.02), ("l1", 0.1)):
        row, scores = _shared(data, penalty, share)
        rows.append(row)
        predicted.append(scores)
    strength = rows[0]["strength"]
    for name, kind in _ridges().items():
        row, scores = _other_ridge(data, strength, kind)
        difference = float(np.abs(scores - predicted[0]).max() / np.abs(predicted[0]).max())
        rows.append({"method": name, "penalty": "ridge", "strength": strength, "difference": difference, **row})
    return pd.DataFrame(rows)


def _shared(data: Targets, penalty: str, share: float) -> tuple[dict[str, Any], np.ndarray]:
    """Fit with shared weights at a share of the strength that empties the model of the block 1-norm."""
    base = Problem(data.kernels, data.y, "squared", get_regularizer("l1", 1.0), fit_intercept=False)
    problem = Problem(
        data.kernels,
        data.y,
        "squared",
        get_regularizer(penalty, share * base.strength_max()),
        fit_intercept=False,
    )
    started = time.process_time()
    solution = SharedNewton(tol=1e-6).solve(problem)
    cpu = time.process_time() - started
    crossed = np.einsum("m,mij->ij", solution.kernel_weights, data.crossed)
    row = {
        "method": "manykernels",
        "penalty": penalty,
        "strength": problem.regularizer.strength,
        "gap": solution.certificate.relative_gap,
        "selected": float(solution.active.size),
        "cpu_s": cpu,
        "peak_gb": common.peak_memory_bytes() / 1e9,
    }
    return row, crossed @ solution.dual_coef


def _ridges() -> dict[str, Any]:
    """Return the estimators of other libraries for ridge on one precomputed kernel."""
    found: dict[str, Any] = {"scikit-learn": KernelRidge}
    if find_spec("himalaya") is None:
        common.CONSOLE.print("himalaya is not installed: its row is left out")
    else:
        found["himalaya"] = importlib.import_module("himalaya.kernel_ridge").KernelRidge
    return found


def _other_ridge(data: Targets, strength: float, kind: Any) -> tuple[dict[str, float], np.ndarray]:
    started = time.process_time()
    model = kind(alpha=1.0, kernel="precomputed").fit(data.kernels.sum(axis=0) / strength, data.y)
    cpu = time.process_time() - started
    return {"cpu_s": cpu}, np.asarray(model.predict(data.crossed.sum(axis=0) / strength))


# --- kernels held as factors -----------------------------------------------------------------------------------------

WIDTHS = np.geomspace(0.1, 10.0, 9).tolist()
N_COLUMNS, N_TRUE = 30, 10
SECONDS = 130.0  # of wall time, after which a fit says how far it came


def draw_columns(n_samples: int, n_targets: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return standard normal columns, and targets that are sums of functions of the first ten, each of four of them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, N_COLUMNS)).astype(np.float32)
    shapes = np.column_stack(
        [np.sin((1 + j % 3) * X[:, j]) if j % 2 else np.abs(X[:, j]) - 0.8 for j in range(N_TRUE)]
    ).astype(np.float64)
    loads = np.zeros((N_TRUE, n_targets))
    for target in range(n_targets):
        loads[rng.choice(N_TRUE, 4, replace=False), target] = rng.uniform(0.5, 1.5, 4)
    loads[loads.sum(axis=1) == 0, 0] = 1.0  # every one of them matters
    signal = shapes @ loads
    return X, signal / signal.std(axis=0) + rng.normal(size=signal.shape)


def factored_frame(n_samples: int, n_targets: int, share: float, seed: int, *, hinge: bool) -> pd.DataFrame:
    """Return a row for each loss, own and shared weights, at a share of the strength that empties the models."""
    X, Y = draw_columns(n_samples, n_targets, seed)
    bank = KernelBank.per_feature(widths=WIDTHS, standardize=True)
    options: dict[str, Any] = {
        "alpha": f"{share}*max",
        "resources": {"representation": "factored", "time_limit": SECONDS},
    }
    classes = Y.argmax(axis=1)
    cases: list[tuple[Any, ...]] = [(MKLRegressor, "squared", Y, 1e-4)]
    cases += [(MKLClassifier, "logistic", classes, 1e-4)]
    cases += [(MKLClassifier, "hinge", classes, 1e-3)] if hinge else []
    rows = []
    for kind, loss, y, tol in cases:
        for weights in ("shared", "own"):
            started = time.process_time()
            with common.quiet():
                model = kind(bank, loss=loss, outputs=weights, tol=tol, **options).fit(X, y)
            cpu = time.process_time() - started
            columns = np.arange(len(model.kernel_names_)) // len(WIDTHS)
            chosen = np.unique(columns[np.atleast_2d(model.kernel_weights_).any(axis=0)])
            solutions = np.atleast_1d(np.array(model.solution_, dtype=object))
            facts = {"loss": loss, "weights": weights, "gap": model.dual_gap_, "cpu_s": cpu}
            facts |= {"score": float(model.score(X, y)), "passes": sum(found.n_iter + 1 for found in solutions)}
            facts |= {"columns": len(chosen), "of noise": int((chosen >= N_TRUE).sum())}
            rows.append(facts | {"peak_gb": common.peak_memory_bytes() / 1e9})
            common.CONSOLE.print(rows[-1])
    return pd.DataFrame(rows)


# --- several views ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Views:
    """Rows with the columns of every view."""

    name: str
    X: np.ndarray
    y: np.ndarray
    columns: dict[str, list[int]]


def digit_views(n_samples: int) -> Views:
    """Return scikit-learn's digits as pixels, quarters of the picture, profiles and Fourier magnitudes."""
    X, y = (part[:n_samples] for part in load_digits(return_X_y=True))
    pictures = X.reshape(-1, 8, 8)
    quarters = pictures.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(len(X), -1)
    profiles = np.hstack([pictures.sum(axis=1), pictures.sum(axis=2)])
    fourier = np.abs(np.fft.rfft2(pictures)).reshape(len(X), -1)
    return _joined("digits", y, {"pixels": X, "quarters": quarters, "profiles": profiles, "fourier": fourier})


def _joined(name: str, y: np.ndarray, parts: dict[str, np.ndarray]) -> Views:
    ends = np.cumsum([0, *(part.shape[1] for part in parts.values())])
    columns = {view: list(range(*ends[i : i + 2])) for i, view in enumerate(parts)}
    return Views(name, np.hstack(list(parts.values())), y, columns)


def read_views(folder: Path, name: str) -> Views:
    """Return a multi-view data set from its archive."""
    with np.load(folder / f"{name}.npz", allow_pickle=False) as archive:
        X, ranges, names = archive["X"].astype(float), archive["views"], archive["view_names"]
        parts = {str(view): X[:, start:stop] for view, (start, stop) in zip(names, ranges, strict=True)}
        return _joined(name, archive["y"], parts)


def views_frame(sets: list[Views], n_splits: int, seed: int) -> pd.DataFrame:
    """Return a row for each data set, loss, strength and kind of weights, means over splits in halves."""
    rows = [row for data in sets for row in _rows_of(data, n_splits, seed)]
    keys = ["data", "classes", "loss", "alpha", "weights"]
    return pd.DataFrame(rows).groupby(keys, sort=False, as_index=False).mean()


def _rows_of(data: Views, n_splits: int, seed: int) -> Iterator[dict[str, Any]]:
    classes = len(np.unique(data.y))
    many = classes > MANY_CLASSES
    splits = StratifiedShuffleSplit(1 if many else n_splits, test_size=0.5, random_state=seed).split(data.X, data.y)
    for train, test in splits:
        for loss in ("squared_hinge",) if many else ("logistic", "squared_hinge"):
            for alpha in ALPHAS[-1:] if many else ALPHAS:
                for weights in ("own", "shared"):
                    facts = {"data": data.name, "classes": classes, "loss": loss, "alpha": alpha, "weights": weights}
                    yield facts | _fitted(data, train, test, loss, alpha, weights)


def _fitted(
    data: Views, train: np.ndarray, test: np.ndarray, loss: str, alpha: float, weights: str
) -> dict[str, float]:
    bank = KernelBank.per_view(
        Linear(),
        data.columns,
        widths=("0.5*median", "median", "2*median"),
        standardize=True,
        normalize="mean_diagonal",
    )
    started = time.process_time()
    with common.quiet():
        model = MKLClassifier(bank, loss=loss, alpha=alpha, outputs=weights).fit(data.X[train], data.y[train])
    cpu = time.process_time() - started
    active = np.atleast_2d(model.kernel_weights_) > 0
    return {
        "accuracy": float(model.score(data.X[test], data.y[test])),
        "selected": float(active.any(axis=0).sum()),
        "per_class": float(active.sum(axis=1).mean()),
        "gap": model.dual_gap_,
        "cpu_s": cpu,
    }


def main() -> int:
    """Measure, print, save; return the exit code."""
    parser = common.parser("One set of kernel weights for all classes or targets.")
    parser.add_argument("--problem", choices=("targets", "views", "factored"), default="targets", help="what to fit")
    parser.add_argument("--data", type=Path, default=None, help="folder of multi-view archives")
    parser.add_argument("--splits", type=int, default=3, help="random splits in halves")
    options = parser.parse_args()
    record = common.environment()
    common.print_environment(record)
    if options.smoke or options.problem == "targets":
        sizes = (60, 90) if options.smoke else (1000, 2000)
        frame = targets_frame(*sizes, options.seed)
        common.print_table(frame, f"{sizes[1]} targets, {sizes[0]} samples, 10 kernels", FORMATS)
        common.save(frame, record, options.output, "shared_weights_targets")
        worst = frame["difference"].max()
        if not worst <= 1e-4:
            return 1
    if options.smoke or options.problem == "views":
        sets = [digit_views(60 if options.smoke else 600)]
        sets += [read_views(options.data, name) for name in SETS] if options.data and not options.smoke else []
        frame = views_frame(sets, 1 if options.smoke else options.splits, options.seed)
        common.print_table(frame, "own and shared weights", FORMATS)
        common.save(frame, record, options.output, "shared_weights_views")
    if options.smoke or options.problem == "factored":
        n_samples, share = (150, 0.7) if options.smoke else (100_000, 0.05)
        frame = factored_frame(n_samples, 5, share, options.seed, hinge=not options.smoke)
        common.print_table(frame, f"5 targets, {n_samples} samples, {N_COLUMNS * len(WIDTHS)} kernels", FORMATS)
        common.save(frame, record, options.output, "shared_weights_factored")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
