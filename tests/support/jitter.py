"""Perturb the inputs of tests by a relative 1e-15, as much as another processor changes a sum by rounding.

``pytest --jitter=SEED`` multiplies floats that tests draw from a generator, and those of the data sets of scikit-learn,
by ``1 - 1e-15`` or ``1 + 1e-15``. The sign depends on the bits of the absolute value and on the seed: equal numbers
stay equal and opposite ones opposite, so that repeated rows, symmetric matrices and runs from one seed keep their
structure. Whole numbers are kept. Generators that the library makes for itself are not perturbed.
"""

from __future__ import annotations

import sys
from functools import wraps
from inspect import getmembers, isfunction, unwrap
from typing import Any

import numpy as np
import sklearn.datasets

SIZE = 1e-15
MIXERS = np.array([0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9], dtype=np.uint64)  # odd: of splitmix64
DRAWING = ("tests.", "manykernels.testing", "manykernels.datasets")  # modules whose generators are perturbed
DRAWS = (
    *("beta", "chisquare", "dirichlet", "exponential", "gamma", "gumbel", "laplace", "logistic", "lognormal"),
    *("multivariate_normal", "normal", "pareto", "random", "standard_cauchy", "standard_exponential", "standard_gamma"),
    *("standard_normal", "standard_t", "triangular", "uniform", "vonmises", "weibull"),
)


def perturbed(values: Any, seed: int) -> Any:
    """Return floats in double precision multiplied by ``1 - 1e-15`` or ``1 + 1e-15``; everything else as it is."""
    given = np.asarray(values)
    if given.dtype != np.float64:
        return values
    with np.errstate(over="ignore"):  # whole numbers wrap around
        bits = np.abs(given, order="C").view(np.uint64) ^ (np.uint64(seed) * MIXERS[0])
        bits = (bits ^ (bits >> np.uint64(30))) * MIXERS[1]
    signs = np.where(bits >> np.uint64(63), 1.0, -1.0)
    kept = ~np.isfinite(given) | (given == np.rint(given))
    found = np.where(kept, given, given * (1.0 + SIZE * signs))
    return found if given.ndim or isinstance(values, np.ndarray) else float(found)


class Perturbed(np.random.Generator):
    """A generator whose floats are perturbed; bounds of uniform draws hold."""

    seed = 1

    def random(self, *given: Any, **named: Any) -> Any:
        drawn = super().random(*given, **named)
        found = perturbed(drawn, self.seed)
        return np.where(found < 1.0, found, drawn) if np.ndim(drawn) else (found if found < 1.0 else drawn)

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
        drawn = super().uniform(low, high, size)
        found = perturbed(drawn, self.seed)
        inside = (found >= low) & (found < high)
        return np.where(inside, found, drawn) if np.ndim(drawn) else (found if inside else drawn)


def _drawing(name: str) -> Any:
    plain = getattr(np.random.Generator, name)

    @wraps(plain)
    def draw(self: Perturbed, *given: Any, **named: Any) -> Any:
        drawn = plain(self, *given, **named)
        return drawn if named.get("out") is not None else perturbed(drawn, self.seed)

    return draw


for _name in set(DRAWS) - {"random", "uniform"}:
    setattr(Perturbed, _name, _drawing(_name))


def install(seed: int) -> None:
    """Replace `numpy.random.default_rng` and the data sets of scikit-learn for the rest of this process."""
    Perturbed.seed = seed
    plain = unwrap(np.random.default_rng)  # this function may have been called before

    @wraps(plain)
    def default_rng(source: Any = None) -> np.random.Generator:
        generator = plain(source)
        caller = sys._getframe(1).f_globals.get("__name__", "")
        ours = caller.startswith(DRAWING) and not isinstance(generator, Perturbed)
        return Perturbed(generator.bit_generator) if ours else generator

    np.random.default_rng = default_rng
    for name, loader in getmembers(sklearn.datasets, isfunction):
        if name.startswith("load_"):
            setattr(sklearn.datasets, name, _loading(unwrap(loader), seed))


def _loading(loader: Any, seed: int) -> Any:
    @wraps(loader)
    def load(*given: Any, **named: Any) -> Any:
        found = loader(*given, **named)
        if isinstance(found, tuple):
            return tuple(perturbed(each, seed) if isinstance(each, np.ndarray) else each for each in found)
        for name in ("data", "target"):
            if isinstance(found.get(name), np.ndarray):
                found[name] = perturbed(found[name], seed)
        return found

    return load
