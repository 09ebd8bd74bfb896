"""Problems on kernels of low rank, most of them with piecewise linear losses and weight sets, at weak penalties too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache

import numpy as np

from manykernels.testing.problems import Floats, SmallProblem, random_problem

__all__ = ["low_rank_problem", "low_rank_problems"]

LOSSES = ("epsilon_insensitive", "quantile", "hinge", "squared", "epsilon_insensitive", "quantile", "logistic")
REGULARIZERS: tuple[tuple[str, dict[str, float]], ...] = (
    ("simplex", {}),
    *(("lp_ball", {"p": p}) for p in (1.0, 1.5, 2.0, 4.0)),
    ("simplex", {}),
    *(("elasticnet_ball", {"eta": eta}) for eta in (0.0, 0.5, 1.0)),
    ("simplex", {}),
    ("l1", {}),
    ("elasticnet", {"l1_ratio": 0.5}),
    ("lq", {"q": 1.5}),
    ("ridge", {}),
)
WEAKEST = 1e-4  # strength, where the kernels have unit mean diagonals


def low_rank_problems(n: int = 200) -> Iterator[SmallProblem]:
    """Yield those of `low_rank_problem` for the numbers 0 to n - 1.

    Parameters
    ----------
    n : int

    Yields
    ------
    SmallProblem

    Examples
    --------
    >>> len({(small.loss_name, small.regularizer_name) for small in low_rank_problems(70)})
    25
    """
    return map(low_rank_problem, range(n))


@cache
def low_rank_problem(number: int) -> SmallProblem:
    """Return the problem of that number: always the same one.

    Parameters
    ----------
    number : int
        Decides on loss, regularizer, kernels and intercept, and is the seed of the rest.

    Returns
    -------
    SmallProblem
        With 24 samples and up to 13 kernels.

    Examples
    --------
    >>> small = low_rank_problem(0)
    >>> int(max(np.linalg.matrix_rank(gram) for gram in small.kernels)) <= 3
    True
    """
    # 3 is coprime to the number of pairs of loss and regularizer's place, so that neighbors differ in both.
    loss = LOSSES[number % len(LOSSES)]
    name, params = REGULARIZERS[(number // len(LOSSES) + 3 * number) % len(REGULARIZERS)]
    rng = np.random.default_rng([number, 20250101])
    drawn = random_problem(number, loss=loss, regularizer=name, fit_intercept=number // 2 % 2 == 0)
    kind = list(KINDS)[number // 3 % len(KINDS)]
    kernels, X = KINDS[kind](rng)
    signal = X[:, 0] + 0.5 * X[:, 1] + 0.3 * rng.normal(size=len(X))
    y = np.where(signal > 0, 1.0, -1.0) if set(np.unique(drawn.y)) == {-1.0, 1.0} else signal
    strength = WEAKEST ** rng.random()
    text = f"{loss} + {name} {params}, intercept={drawn.fit_intercept}, low rank {number}, {kind}, {strength:.3g}"
    loss_params = {key: min(value, 0.3) if key == "epsilon" else value for key, value in drawn.loss_params.items()}
    kernels.flags.writeable = y.flags.writeable = False
    changes = {"kernels": kernels, "y": y, "strength": strength, "regularizer_params": params}
    return replace(drawn, **changes, loss_params=loss_params, description=text)


def _of_factors(factors: list[Floats]) -> tuple[Floats, Floats]:
    grams = np.stack([factor @ factor.T / np.mean(np.sum(factor**2, axis=1)) for factor in factors])
    return grams, np.column_stack([factor[:, 0] for factor in factors])


def _low_rank(rng: np.random.Generator) -> tuple[Floats, Floats]:
    return _of_factors([rng.normal(size=(24, int(rng.integers(1, 4)))) for _ in range(6)])


def _rank_one(rng: np.random.Generator) -> tuple[Floats, Floats]:
    return _of_factors([rng.normal(size=(24, 1)) for _ in range(12)])


def _degenerate(rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Duplicates of rank-one kernels and a zero kernel."""
    grams, X = _of_factors([rng.normal(size=(24, 1)) for _ in range(6)])
    return np.concatenate([grams, grams, 0.0 * grams[:1]]), X


def _scaled(rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Kernels of rank one to three, of scale 1e-3 to 1e3."""
    grams, X = _low_rank(rng)
    return grams * (10.0 ** rng.permutation(np.linspace(-3, 3, len(grams))))[:, None, None], X


KINDS: dict[str, Callable[[np.random.Generator], tuple[Floats, Floats]]] = {
    "linear kernels": _low_rank,
    "rank one": _rank_one,
    "duplicates and zero": _degenerate,
    "badly scaled": _scaled,
}
