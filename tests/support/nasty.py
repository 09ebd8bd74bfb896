"""Problems made to break solvers: degenerate kernels, separable classes, and constants over six decades."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache

import numpy as np

from manykernels.objective.problem import Problem
from manykernels.solvers.base import Solver
from manykernels.testing.formulas import loss_bounds
from manykernels.testing.problems import LOSSES, REGULARIZERS, Floats, SmallProblem, random_problem
from manykernels.testing.solver import build_problem

__all__ = ["TRAITS", "float64_resolution", "nasty_problem", "nasty_problems"]

_LOSSES = (*LOSSES, "quantile")
_REGULARIZERS = (*REGULARIZERS, "lp_ball", "elasticnet_ball")
_DOMINANT = 1e6
_ROUNDOFF = 2.0**-53
_GOLDEN = (5**0.5 - 1) / 2


def nasty_problems(n: int = 100) -> Iterator[SmallProblem]:
    """Yield ``n`` nasty problems, those of `nasty_problem` for the numbers 0 to n - 1.

    Parameters
    ----------
    n : int
        How many; from 49 on every loss meets every regularizer.

    Yields
    ------
    SmallProblem

    Examples
    --------
    >>> len({(small.loss_name, small.regularizer_name) for small in nasty_problems(49)})
    49
    """
    return map(nasty_problem, range(n))


def nasty_case(number: int) -> tuple[str, str]:
    """Return loss and regularizer of the nasty problem of that number."""
    # 29 is coprime to the number of pairs, so that neighbors differ in both loss and regularizer.
    pair = number * 29 % (len(_LOSSES) * len(_REGULARIZERS))
    return _LOSSES[pair // len(_REGULARIZERS)], _REGULARIZERS[pair % len(_REGULARIZERS)]


@cache
def nasty_problem(number: int) -> SmallProblem:
    """Return the nasty problem of that number: always the same one.

    A problem of `random_problem` with one more trait (``TRAITS`` in turn, the last one all of them at once), and with
    a strength between 1e-3 and 1e3 that owes nothing to the scale of the kernels: it may give the zero model, or hardly
    regularize at all.

    Parameters
    ----------
    number : int
        Decides on loss, regularizer, trait, intercept, weights and strength, and is the seed of the rest.

    Returns
    -------
    SmallProblem
        With at most 40 samples and 28 kernels.

    Examples
    --------
    >>> small = nasty_problem(2)
    >>> bool((small.kernels == 0).all(axis=(1, 2)).any()), 1e-3 <= small.strength <= 1e3
    (True, True)
    """
    loss, regularizer = nasty_case(number)
    drawn = random_problem(
        number,
        loss=loss,
        regularizer=regularizer,
        fit_intercept=number // len(TRAITS) % 2 == 0,
        weighted=number // (2 * len(TRAITS)) % 2 == 1,
    )
    trait = list(TRAITS)[number % len(TRAITS)]
    strength = 10 ** (6 * (number * _GOLDEN % 1) - 3)
    return _finish(replace(TRAITS[trait](drawn), strength=strength), f"nasty {number}, {trait}")


@cache
def _example(loss: str, regularizer: str) -> Problem:
    """Return one problem of this loss and this regularizer."""
    return build_problem(random_problem(0, loss=loss, regularizer=regularizer))


def refuses(solver: type[Solver], number: int) -> bool:
    """Return whether a solver refuses the problem of that number, drawn only where numbers of its penalty decide."""
    loss, regularizer = nasty_case(number)
    asked = build_problem(nasty_problem(number)) if regularizer == "lp_ball" else _example(loss, regularizer)
    return bool(solver.refusals(asked))


def float64_resolution(small: SmallProblem, rho: Floats, d: Floats, objective: float) -> float:
    r"""Return by how much rounding the dual coefficients of a model can change its objective, relative to it.

    .. math:: 2^{-53} \sum_i s_i L_i \sum_m d_m \sum_j |K_{m,ij} \rho_j| \; / \; |P|

    with :math:`L_i` the largest slope of the loss (that at the model where it is unbounded). No solver can be asked for
    a smaller gap: the true optimum is not a float64 number.

    Parameters
    ----------
    small : SmallProblem
    rho : ndarray of shape (N,)
        Dual coefficients near the optimum.
    d : ndarray of shape (M,)
        Kernel weights near the optimum.
    objective : float
        The optimal objective.

    Returns
    -------
    float

    Examples
    --------
    >>> small = nasty_problem(5)
    >>> bool(float64_resolution(small, np.ones(small.y.size), np.ones(len(small.kernels)), 1.0) < 1e-9)
    True
    """
    bounds = np.max(np.abs(loss_bounds(small.loss_name, small.loss_params, small.y)), axis=0)
    slopes = np.where(np.isfinite(bounds), bounds, np.abs(rho) / small.weights)
    terms = np.einsum("m,mij,j->i", np.abs(d), np.abs(small.kernels), np.abs(rho))
    return _ROUNDOFF * float((small.weights * slopes) @ terms) / abs(objective)


def _finish(small: SmallProblem, text: str) -> SmallProblem:
    for array in (small.kernels, small.kernel_penalties):
        if array is not None:
            array.flags.writeable = False
    head = f"{small.loss_name} + {small.regularizer_name}, N={small.y.size}, M={small.kernels.shape[0]}"
    head += f", intercept={small.fit_intercept}, weighted={small.sample_weight is not None}"
    return replace(small, description=f"{head}, {text}, strength {small.strength:.3g}")


def _with_kernels(small: SmallProblem, extra: np.ndarray) -> SmallProblem:
    """Append kernels, with the penalties of the first ones."""
    penalties = small.kernel_penalties
    return replace(
        small,
        kernels=np.concatenate([small.kernels, extra]),
        kernel_penalties=None if penalties is None else np.concatenate([penalties, penalties[: len(extra)]]),
    )


def _duplicates(small: SmallProblem) -> SmallProblem:
    """Repeat every kernel: the weights are not unique."""
    return _with_kernels(small, small.kernels)


def _dominant(small: SmallProblem) -> SmallProblem:
    """Scale the first kernel, a Gaussian, until its diagonal is 1e6."""
    kernels = small.kernels.copy()
    kernels[0] *= _DOMINANT / kernels[0].diagonal().mean()
    return replace(small, kernels=kernels)


def _zero(small: SmallProblem) -> SmallProblem:
    """Append a kernel whose functions are all zero."""
    return _with_kernels(small, np.zeros_like(small.kernels[:1]))


def _separable(small: SmallProblem) -> SmallProblem:
    """Append the kernel of the target: it separates the classes with a margin, and fits numbers without an error."""
    return _with_kernels(small, (np.outer(small.y, small.y) / np.mean(small.y**2))[None])


def _everything(small: SmallProblem) -> SmallProblem:
    return _duplicates(_zero(_separable(_dominant(small))))


TRAITS: dict[str, Callable[[SmallProblem], SmallProblem]] = {
    "duplicate kernels": _duplicates,
    "one dominant kernel": _dominant,
    "a zero kernel": _zero,
    "separable classes": _separable,
    "everything": _everything,
}
