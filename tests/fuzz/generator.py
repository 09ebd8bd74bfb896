"""Hostile and ordinary problems drawn from a seed: a small JSON file holds what was drawn and rebuilds the arrays."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from manykernels.grams import DenseStack, LazyStack, PackedStack, as_stack
from manykernels.kernels import Gaussian, KernelBank

LOSSES = ("squared", "logistic", "hinge", "squared_hinge", "epsilon_insensitive", "huber", "quantile")
CLASSIFIERS = ("logistic", "hinge", "squared_hinge")
REGULARIZERS = ("l1", "elasticnet", "lq", "ridge", "simplex", "lp_ball", "elasticnet_ball", "group_elasticnet")
ORDINARY_KERNELS = ("gaussian", "linear", "polynomial")
HOSTILE_KERNELS = (
    *ORDINARY_KERNELS, "low_rank", "rank_one", "duplicate", "zero", "constant", "near_identical", "identity", "outlier",
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One fit: everything that was drawn."""

    seed: int
    n_samples: int
    kernels: list[str]
    scales: list[float]
    dtype: str
    storage: str
    loss: str
    loss_parameters: dict[str, float]
    regularizer: str
    parameters: dict[str, float]
    strength: float
    solver: str
    tol: float
    fit_intercept: bool
    target_scale: float = 1.0
    target_shift: float = 0.0
    outlier: float = 0.0
    weighting: str = "ones"
    penalizing: str = "ones"
    hostile: bool = True
    note: str = field(default="", compare=False)

    # --- arrays -----------------------------------------------------------------------------------------------------

    @cached_property
    def columns(self) -> Any:
        return np.random.default_rng(self.seed).standard_normal((self.n_samples, 4))

    @cached_property
    def grams(self) -> Any:
        """Kernels as they are stored, symmetric to the last bit."""
        if self.storage == "lazy":
            return self._lazy().block()
        found: list[Any] = []
        for position, kind in enumerate(self.kernels):
            found.append(_gram(kind, position, self.columns, found))
        stored = np.stack([gram * scale for gram, scale in zip(found, self.scales, strict=True)]).astype(self.dtype)
        lower = np.tril_indices(self.n_samples, -1)
        stored[:, lower[0], lower[1]] = stored.transpose(0, 2, 1)[:, lower[0], lower[1]]
        return stored

    def _lazy(self) -> Any:
        specs = [(f"k{m}", Gaussian(width), None) for m, width in enumerate(self.scales)]
        bank = KernelBank(specs).fit(self.columns)
        return LazyStack(bank, bank.prepare(self.columns))

    def stack(self) -> Any:
        match self.storage:
            case "lazy":
                return self._lazy()
            case "packed":
                return PackedStack.from_stack(DenseStack(self.grams))
            case "array":
                return as_stack(self.grams)
        return DenseStack(self.grams)

    @cached_property
    def y(self) -> Any:
        rng = np.random.default_rng(self.seed + 1)
        x = self.columns
        signal = np.sin(2 * x[:, 0]) + 0.5 * x[:, 1] + 0.3 * rng.standard_normal(self.n_samples)
        if self.loss in CLASSIFIERS:
            labels = np.where(signal > np.median(signal), 1.0, -1.0)
            labels[:2] = 1.0, -1.0
            return labels
        y = self.target_scale * (signal + self.target_shift)
        y[0] += self.target_scale * self.outlier
        return y

    @cached_property
    def weights(self) -> Any:
        rng = np.random.default_rng(self.seed + 2)
        match self.weighting:
            case "uniform":
                return rng.uniform(0.5, 2.0, self.n_samples)
            case "wide":
                return 10.0 ** rng.uniform(-4, 4, self.n_samples)
        return np.ones(self.n_samples)

    @cached_property
    def penalties(self) -> Any:
        rng = np.random.default_rng(self.seed + 3)
        match self.penalizing:
            case "uniform":
                return rng.uniform(0.5, 2.0, len(self.kernels))
            case "wide":
                return 10.0 ** rng.uniform(-3, 3, len(self.kernels))
        return np.ones(len(self.kernels))

    # --- files ------------------------------------------------------------------------------------------------------

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> Case:
        return cls(**json.loads(path.read_text()))


def _gram(kind: str, position: int, columns: Any, before: list[Any]) -> Any:
    rng = np.random.default_rng([position, len(columns)])
    n = len(columns)
    x = columns @ rng.standard_normal((4, 2)) if position % 2 else columns
    match kind:
        case "gaussian":
            squares = ((x[:, None] - x) ** 2).sum(axis=2)
            return np.exp(-squares / (2 * rng.uniform(0.3, 3.0) ** 2))
        case "polynomial":
            return (1 + x @ x.T) ** int(rng.integers(2, 4))
        case "low_rank":
            factor = rng.standard_normal((n, 2))
            return factor @ factor.T
        case "rank_one":
            factor = columns[:, position % 4]
            return np.outer(factor, factor)
        case "duplicate" if before:
            return before[0].copy()
        case "near_identical" if before:
            return before[0] + 1e-9 * np.trace(before[0]) / n * np.eye(n)
        case "zero":
            return np.zeros((n, n))
        case "constant":
            return np.ones((n, n))
        case "identity":
            return np.eye(n)
        case "outlier":
            far = x.copy()
            far[0] *= 1e3
            return far @ far.T
    return x @ x.T


# --- drawing ----------------------------------------------------------------------------------------------------------


def draw(seed: int, hostile: bool) -> Case:
    """Return the case of this seed; its solver is still ``auto``."""
    rng = np.random.default_rng([seed, int(hostile)])
    n_samples = int(rng.integers(4, 40) if hostile else rng.integers(20, 60))
    kinds = rng.choice(HOSTILE_KERNELS if hostile else ORDINARY_KERNELS, int(rng.integers(1, 9) if hostile else 5))
    storage = str(rng.choice(["dense", "array", "packed", "lazy"] if hostile else ["dense", "packed"]))
    loss, regularizer = str(rng.choice(LOSSES)), str(rng.choice(REGULARIZERS))
    regression = loss not in CLASSIFIERS
    case = Case(
        seed=seed,
        n_samples=n_samples,
        kernels=["gaussian"] * len(kinds) if storage == "lazy" else [str(kind) for kind in kinds],
        scales=_scales(rng, len(kinds), hostile, storage),
        dtype=str(rng.choice(["float64", "float32"])) if hostile and storage != "lazy" else "float64",
        storage=storage,
        loss=loss,
        loss_parameters=_loss_parameters(rng, loss),
        regularizer=regularizer,
        parameters=_parameters(rng, regularizer, hostile),
        strength=1.0,
        solver="auto",
        tol=float(rng.choice([1e-3, 1e-4, 1e-6, 1e-8] if hostile else [1e-4, 1e-6])),
        fit_intercept=bool(rng.random() < 0.6),
        target_scale=float(f"{10 ** rng.uniform(-8, 8):.3g}") if hostile and regression and rng.random() < 0.3 else 1.0,
        target_shift=float(rng.choice([0.0, 10.0, 1e4])) if hostile and regression and rng.random() < 0.2 else 0.0,
        outlier=float(rng.choice([30.0, 1e4])) if hostile and regression and rng.random() < 0.15 else 0.0,
        weighting=str(rng.choice(["ones", "uniform", "wide"], p=[0.7, 0.2, 0.1])) if hostile else "ones",
        penalizing=str(rng.choice(["ones", "uniform", "wide"], p=[0.8, 0.15, 0.05])) if hostile else "ones",
        hostile=hostile,
    )
    return with_(case, strength=float(f"{_strength(rng, case):.6g}"))


def with_(case: Case, **changes: Any) -> Case:
    """Return the case with other values."""
    return Case(**(asdict(case) | changes))


def _scales(rng: Any, count: int, hostile: bool, storage: str) -> list[float]:
    if storage == "lazy":
        return [float(f"{width:.3g}") for width in 10 ** rng.uniform(-1, 1, count)]
    if not hostile or rng.random() < 0.6:
        return [1.0] * count
    return [float(f"{scale:.3g}") for scale in 10 ** rng.uniform(-8, 8, count)]


def _loss_parameters(rng: Any, loss: str) -> dict[str, float]:
    match loss:
        case "epsilon_insensitive":
            return {"epsilon": float(rng.choice([0.0, 0.01, 0.1, 1.0]))}
        case "huber":
            return {"delta": float(rng.choice([0.01, 1.0, 1.35, 100.0]))}
        case "quantile":
            return {"tau": float(rng.choice([0.02, 0.5, 0.9]))}
    return {}


def _parameters(rng: Any, regularizer: str, hostile: bool) -> dict[str, float]:
    match regularizer:
        case "elasticnet":
            return {
                "l1_ratio": float(rng.choice([0.0, 1e-6, 0.1, 0.5, 0.9, 1 - 1e-6, 1.0] if hostile else [0.1, 0.5, 0.9]))
            }
        case "lq":
            return {"q": float(rng.choice([1.005, 1.01, 1.05, 1.2, 1.5, 1.9, 2.0] if hostile else [1.2, 1.5, 1.9]))}
        case "lp_ball":
            return {"p": float(rng.choice([1.0, 1.001, 1.1, 2.0, 10.0, 100.0] if hostile else [1.1, 2.0, 4.0]))}
        case "elasticnet_ball":
            return {"eta": float(rng.choice([0.0, 1e-6, 0.2, 0.5, 0.9, 1 - 1e-6, 1.0] if hostile else [0.2, 0.5, 0.8]))}
        case "group_elasticnet":
            return {
                "l1_ratio": float(rng.choice([0.0, 1e-6, 0.5, 0.99] if hostile else [0.1, 0.5, 0.9])),
                "q": float(rng.choice([1.05, 1.2, 1.5, 2.0] if hostile else [1.2, 1.5, 1.8])),
            }
    return {}


def _strength(rng: Any, case: Case) -> float:
    """Return a strength between far too small and more than needed for the zero model, in units of the problem."""
    y = case.y - (case.y.mean() if case.fit_intercept else 0.0)
    rho = np.clip(y, -case.loss_parameters.get("delta", 1.0), case.loss_parameters.get("delta", 1.0))
    rho = case.weights * (y if case.loss in ("squared", "squared_hinge") else rho)
    squares = np.einsum("i,mij,j->m", rho, case.grams.astype(float), rho)
    norm = float(np.sqrt(max(squares.max(), 0.0))) or 1.0
    kernel = float(np.trace(case.grams, axis1=1, axis2=2).max()) / case.n_samples * float(case.weights.mean()) or 1.0
    exponent = case.parameters["q"] if case.regularizer == "lq" else 2.0 - (case.regularizer in ("l1", "elasticnet"))
    unit = norm ** (2.0 - exponent) * kernel ** (exponent - 1.0)
    return unit * 10 ** rng.uniform(*((-6.0, 1.0) if case.hostile else (-2.5, 0.0)))
