"""Section 6.1.3: sums of monomials of five columns out of r, and the methods that are to find them."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from _polynomial_runs import Maker, squared_error, tuned
from _sampled_products import SampledProducts
from _tasks import Task
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[2]))
from experiments.ledger import Ledger

from manykernels import HierarchicalMKL, MKLRegressor, NonlinearMKL, PolynomialMKL, solve
from manykernels.discovery.polynomial.descent import InteractionSampler
from manykernels.discovery.polynomial.family import PolynomialFamily
from manykernels.discovery.polynomial.product_bases import RankOneBase
from manykernels.grams import DenseStack, GramStack, RankOneStack
from manykernels.kernels import KernelBank, Polynomial
from manykernels.objective.regularizers.weight_sets import LpBall

Array = NDArray[Any]

DEGREE = 3
TRUE_COLUMNS = 5
LARGEST_MATRICES = 25  # columns up to which the thesis keeps all matrices
LARGEST_FEATURES = 40  # columns up to which LPMKL is run on one vector a product
SINGLE_STEPS = 3000  # of SGD-1s with one draw a solution; the thesis prints no number, and 300 starve at 40 columns


@dataclass(frozen=True)
class Sizes:
    """How much is computed; ``hkl`` are the strengths of HKL, ``wide`` of cheap methods; ``single`` steps of a draw."""

    columns: tuple[int, ...]
    repeats: int
    n_train: int
    n_other: int
    n_steps: int
    batch: int
    single: int
    alphas: tuple[float, ...]
    weak: tuple[float, ...]
    hkl: tuple[float, ...]
    wide: tuple[float, ...]


FULL = Sizes(
    columns=(5, 10, 20, 40, 100, 70), repeats=5, n_train=500, n_other=1000, n_steps=20, batch=500, single=SINGLE_STEPS,
    alphas=(1e-8, 1e-6, 1e-4, 1e-2), weak=(1e-8, 1e-6, 1e-4), hkl=(1e-10, 1e-8, 1e-6, 1e-4),
    wide=tuple(10.0**k for k in range(-8, 3)),
)  # fmt: skip
QUICK = Sizes((5, 8), 1, 60, 100, 20, 5, 20, (1e-4, 1e-2), (1e-4,), (1e-4,), (1e-4, 1e-2))


def monomial_task(n_columns: int, n_train: int, n_other: int, seed: int) -> Task:
    """Return columns uniform on [-1, 1] and the mean of ten monomials of degree <= 3 in the first five, no noise."""
    rng = np.random.default_rng(seed)
    terms = [term for d in range(DEGREE + 1) for term in itertools.combinations_with_replacement(range(5), d)]
    X = rng.uniform(-1.0, 1.0, (n_train + 2 * n_other, n_columns))
    chosen = rng.choice(len(terms), 10, replace=False)
    y = np.mean([np.prod(X[:, list(terms[i])], axis=1) for i in chosen], axis=0)
    edges = [n_train, n_train + n_other]
    train, valid, test = zip(np.split(X, edges), np.split(y, edges), strict=True)
    return Task(train, valid, test)


@dataclass(eq=False)
class ListedProducts:
    """LPMKL with p = 2 on every distinct product, each kept as one vector or as a matrix: the same optimum."""

    alpha: float
    matrices: bool = False

    def fit(self, X: Array, y: Array) -> Self:
        """Solve, and keep one coefficient a monomial."""
        features = self._features(X)
        stack: GramStack = RankOneStack(features)
        if self.matrices:
            single = features.astype(np.float32)
            stack = DenseStack(single[:, :, None] * single[:, None, :])
        found = solve(stack, y, loss="squared", penalty=LpBall(self.alpha * len(y), 2.0), tol=1e-2, max_iter=100)
        self.coefficients_ = found.kernel_weights * (features @ found.dual_coef)
        self.intercept_, self.dual_gap_ = found.intercept, found.certificate.relative_gap
        self.kernel_names_ = range(len(features))
        return self

    def predict(self, X: Array) -> Array:
        """Return the values at new rows."""
        parts = [self.coefficients_ @ self._features(rows) for rows in np.array_split(X, max(1, len(X) // 250))]
        return np.concatenate(parts) + self.intercept_

    @staticmethod
    def _features(X: Array) -> Array:
        # Sorted triples of columns, position 0 a column of ones.
        whole = np.vstack([np.ones(len(X)), X.T])
        triples = np.array(list(itertools.combinations_with_replacement(range(len(whole)), DEGREE)))
        features: Array = np.take(whole, triples[:, 0], axis=0)
        for places in triples.T[1:]:
            features *= whole[places]
        return features


def methods(n_columns: int, sizes: Sizes, seed: int) -> dict[str, tuple[Maker, tuple[float, ...]]]:
    """Return what makes the model of a strength and the strengths to choose from, by the name of the method."""
    common: dict[str, Any] = {"standardize": False, "normalize": None, "random_state": seed}
    uniform = KernelBank([(f"degree {d}", Polynomial(d, offset=0.0), None) for d in (1, 2, 3)], normalize=None)
    bounded: dict[str, Any] = {"growth": 2.0, "max_kernels": 1000, "tol": 1e-2, "resources": {"max_iter": 50}}
    made: dict[str, tuple[Maker, tuple[float, ...]]] = {
        "SGD-1s": (lambda alpha: SampledProducts(DEGREE, alpha, sizes.n_steps, sizes.batch, seed), sizes.alphas),
        "SGD-1s, single draws": (lambda alpha: SampledProducts(DEGREE, alpha, sizes.single, 1, seed), sizes.alphas),
        "HKL": (lambda alpha: HierarchicalMKL(degree=DEGREE, alpha=alpha, standardize=False, **bounded), sizes.hkl),
        "NLMKL": (lambda alpha: NonlinearMKL(degree=DEGREE, alpha=alpha, standardize=False), sizes.wide),
        "UNIFORM": (lambda alpha: MKLRegressor(uniform, penalty="ridge", alpha=alpha), sizes.wide),
        "SGD-1s, polished": (lambda alpha: PolynomialMKL(DEGREE, alpha=alpha, **common), sizes.weak),
        "p = 1.1, polished": (lambda alpha: PolynomialMKL(DEGREE, p=1.1, alpha=alpha, **common), sizes.weak),
    }
    if n_columns <= LARGEST_FEATURES:
        made["LPMKL"] = (ListedProducts, sizes.alphas)
    return made


def compare(
    ledger: Ledger, n_columns: int, seed: int, sizes: Sizes, limit: float, only: Sequence[str] | None = None
) -> None:
    """Run every method that the table lacks, unless it took longer than the limit at fewer columns."""
    task = monomial_task(n_columns, sizes.n_train, sizes.n_other, seed)
    made = methods(n_columns, sizes, seed)
    for name, (make, alphas) in ((name, made[name]) for name in only or made if name in made):
        known = ledger.frame()
        own = known[(known["method"] == name) & (known["r"] < n_columns)]
        if (n_columns, name, seed) in ledger or (own["slowest_s"] > limit).any():
            continue
        measured = tuned(make, alphas, task, squared_error) | {"signal": "", "matrices_s": ""}
        if name == "SGD-1s":
            measured["signal"] = signal_share(task)
        if name == "LPMKL" and n_columns <= LARGEST_MATRICES and seed == 0:
            started = time.process_time()
            ListedProducts(measured["alpha"], matrices=True).fit(*task.train)
            measured["matrices_s"] = time.process_time() - started
        ledger.add({"r": n_columns, "method": name, "repeat": seed} | measured)


def signal_share(task: Task) -> float:
    """Return the probability that Algorithm 3, at the zero model, draws a product of the first five columns only."""
    X, y = task.train
    norms = [
        InteractionSampler(
            PolynomialFamily.create(RankOneBase(np.ascontiguousarray(part.T)), DEGREE), y - y.mean()
        ).gradient_norm
        for part in (X[:, :TRUE_COLUMNS], X)
    ]
    return norms[0] / norms[1]


def geometric(values: pd.Series) -> float:
    """Return the geometric mean: errors differ by orders of magnitude between draws."""
    return float(np.exp(np.log(values.clip(lower=1e-300)).mean()))
