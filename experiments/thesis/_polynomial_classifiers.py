"""The methods of section 6.1.4: ridge regression on signs, with kernels of degree one to three."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from _polynomial_runs import Maker
from _sampled_products import SampledProducts

from manykernels import HierarchicalMKL, MKLRegressor, NonlinearMKL
from manykernels.kernels import KernelBank, Linear, Polynomial

PRIOR = (1.0, 1.0, 1.0, 2.0)  # rho: its square is 4 for products of three columns


@dataclass(frozen=True)
class Effort:
    """How much is tried.

    Attributes
    ----------
    ridges : tuple of float
        Strengths (lambda, for the sum of the losses) of methods that are cheap.
    sampled : tuple of float
        Strengths of SGD-1s.
    hierarchical : tuple of float
        ``alpha`` of HKL, whose penalty is on another scale.
    n_steps, batch : int
        Steps of SGD-1s, and draws a step.
    """

    ridges: tuple[float, ...]
    sampled: tuple[float, ...]
    hierarchical: tuple[float, ...]
    n_steps: int
    batch: int


FULL = Effort(tuple(10.0**k for k in range(-4, 4)), (1e-2, 1.0, 10.0, 100.0, 1000.0), (1e-3, 1e-2, 1e-1), 15, 200)
QUICK = Effort((1.0, 100.0), (100.0,), (1e-1,), 10, 2)


def methods(n_columns: int, n_train: int, effort: Effort, seed: int) -> dict[str, tuple[Maker, tuple[float, ...]]]:
    """Return what makes the model of an ``alpha`` and the alphas to choose from, by the name of the method."""
    columns = KernelBank([(f"x{j}", Linear(), [j]) for j in range(n_columns)], normalize=None)
    ridges = tuple(value / n_train for value in effort.ridges)
    sampled = tuple(value / n_train for value in effort.sampled)
    made: dict[str, tuple[Maker, tuple[float, ...]]] = {}
    for degree in (2, 3):
        made[f"SGD-1s (D={degree})"] = (_sampled(degree, effort, seed), sampled)
    made["SGD-1s (D=3, prior)"] = (_sampled(3, effort, seed, PRIOR), sampled)
    for degree in (2, 3):
        made[f"HKL (D={degree})"] = (_hierarchical(degree), effort.hierarchical)
        made[f"NLMKL (D={degree})"] = (_nonlinear(degree), ridges)
    for p in (1.0, 2.0):
        made[f"LPMKL (p={p:g})"] = (_listed(columns, p), ridges)
    for degree in (1, 2, 3):
        made[f"UNIFORM (D={degree})"] = (_uniform(degree), ridges)
    return made


def _sampled(degree: int, effort: Effort, seed: int, penalties: tuple[float, ...] | None = None) -> Maker:
    return lambda alpha: SampledProducts(degree, alpha, effort.n_steps, effort.batch, seed, penalties)


def _hierarchical(degree: int) -> Maker:
    # With weak penalties most of the graph would be visited. No limit in seconds: it would depend on the load.
    bounded: dict[str, Any] = {"max_kernels": 500, "resources": {"max_iter": 30}, "tol": 1e-2}
    return lambda alpha: HierarchicalMKL(degree=degree, alpha=alpha, growth=2.0, standardize=False, **bounded)


def _nonlinear(degree: int) -> Maker:
    return lambda alpha: NonlinearMKL(degree=degree, alpha=alpha, standardize=False)


def _listed(columns: KernelBank, p: float) -> Maker:
    return lambda alpha: MKLRegressor(columns, penalty="lp_ball", p=p, alpha=alpha, tol=1e-3)


def _uniform(degree: int) -> Maker:
    bank = KernelBank([("uniform", Polynomial(degree, offset=1.0), None)], normalize=None)
    return lambda alpha: MKLRegressor(bank, penalty="ridge", alpha=alpha)
