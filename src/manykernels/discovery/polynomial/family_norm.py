"""Dual norms over a whole polynomial family: by enumeration, by a matrix identity, or bounded by partial products.

The conjugate of the penalty is ``Omega*(u) = V / (2 lambda)``, ``V = (sum_i v_i^q)^{1/q}`` over the ordered products
with ``v_i = a'K_i a / rho_d^2`` and ``q = p/(p-1)``. Three ways to it, the cheapest exact one first:

- *enumeration*: all distinct products. Names the largest as well.
- *identity*, for p = 2: ``sum_{|i|=d} v_i^2 = vec(aa')'[(sum_j vec K_j vec K_j')^{o d}] vec(aa')``: ``O(r N^4)``
  whatever the degree.
- *bound*: products that begin with ``i1..ik`` have the sum ``v(i1..ik) = <(aa') o K_{i1} o ... o K_{ik}, S^{o(d-k)}>``
  and are not negative, so that the sum of their q-th powers is at most its q-th power (q >= 1). The longest prefix
  that can be afforded is taken; ``k = 0`` gives the 1-norm of the gradient.

Where only so many seconds may be spent, the prefix is lengthened step by step, and what there is by then counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import comb, factorial
from typing import Any

import numpy as np

from manykernels.discovery.polynomial.enumeration import ONE_BY_ONE, batches, enumerate_degree, largest_batch, repeats
from manykernels.discovery.polynomial.family import PolynomialFamily
from manykernels.discovery.polynomial.product_bases import Index
from manykernels.discovery.polynomial.score_sum import Deadline, ScoreSum
from manykernels.discovery.polynomial.tuning import (
    BUDGET,
    CALL,
    CHEAP,
    EXTENSION,
    PANEL,
    SCORE,
    SHORT,
    SPEED,
    STATE,
    WORTH,
)
from manykernels.solvers.deadline import OutOfTimeError
from manykernels.validation.arrays import Array

METHODS = ("bound", "identity", "enumeration")  # the least exact first


@dataclass(frozen=True, eq=False)
class FamilyNorm:
    """What one dual vector says about every kernel of the family.

    Attributes
    ----------
    norm : float
        ``V``, or an upper bound.
    method : str
        "enumeration", "identity" or "bound": the least exact way used for any degree.
    largest : tuple of tuple of int
        Distinct kernels of the largest ``u_m^2 / w_m^2``, the largest first, among the degrees that were enumerated.
    scores : (n_largest,) float64
        Their ``u_m^2 / w_m^2``.
    """

    norm: float
    method: str
    largest: tuple[Index, ...] = ()
    scores: Array = field(default_factory=lambda: np.zeros(0))


def family_norm(
    family: PolynomialFamily, a: Array, n_largest: int = 0, budget: float = BUDGET, seconds: float | None = None
) -> FamilyNorm:
    """Return ``V`` of a dual vector and the kernels that matter most."""
    deadline, degrees = Deadline(seconds), range(family.degree + 1)
    size = float(np.abs(a).max(initial=0.0))
    if size == 0:
        # Zero by any method; this names the one that another vector would be answered by.
        return FamilyNorm(0.0, weakest([_method(family, d, _allowed(budget, deadline)) for d in degrees]))
    total = ScoreSum(family.conjugate_exponent, n_largest, family.n_kernels)
    state = family.base.start(a / size)
    method = weakest([_add_best_way(family, state, d, total, budget, deadline) for d in degrees])
    largest, scores = total.largest()
    return FamilyNorm(size**2 * total.norm, method, largest, size**2 * scores)


def weakest(methods: Iterable[str]) -> str:
    """Return the least exact of some methods."""
    return min(methods, key=METHODS.index)


def _allowed(budget: float, deadline: Deadline) -> float:
    return min(budget, SPEED * deadline.left)


def _add_best_way(
    family: PolynomialFamily, state: Array, degree: int, total: ScoreSum, budget: float, deadline: Deadline
) -> str:
    """Add one degree in the best way that can be afforded, and return which it was."""
    before = after = total.so_far
    reached = "bound"
    for at, (method, length) in enumerate(_ways(family, degree, budget, deadline)):
        total.restore(before)
        try:
            # The first way is short where time matters: there is always an answer.
            _add_degree(family, state, degree, (method, length), total, deadline if at else Deadline())
        except OutOfTimeError:
            total.restore(after)
            break
        reached, after = method, total.so_far
    return reached


def _ways(family: PolynomialFamily, degree: int, budget: float, deadline: Deadline) -> list[tuple[str, int]]:
    """Return methods and lengths of prefixes: the best one that can be afforded, after shorter ones if time matters.

    How much a core multiplies in a second is known only roughly on a machine that others use as well.
    """
    allowed = _allowed(budget, deadline)
    method = _method(family, degree, allowed)
    exact = [] if method == "bound" else [(method, 0)]
    if degree == 0 or not np.isfinite(deadline.left):
        return exact or [("bound", _longest(family, degree, allowed))]
    worth = min(allowed, WORTH * _enumeration_cost(family, degree)) if exact else allowed
    short = min(SHORT, degree - 1)
    longest = max(_longest(family, degree, worth), short)
    return [("bound", length) for length in range(short, longest + 1)] + exact


def _add_degree(
    family: PolynomialFamily, state: Array, degree: int, way: tuple[str, int], total: ScoreSum, deadline: Deadline
) -> None:
    method, length = way
    if method == "enumeration":
        enumerate_degree(family, state, degree, total, deadline)
    elif method == "identity":
        total.add_sum(family.scales[degree] ** 2 * _sum_of_squares(family.base, state, degree, deadline))
    else:
        _bound(family, state, degree, length, total, deadline)


def _method(family: PolynomialFamily, degree: int, allowed: float) -> str:
    base = family.base
    by_enumeration = _enumeration_cost(family, degree)
    by_identity = base.n_samples**4 * (base.n_base + degree) / 4 + CALL if family.p == 2 else np.inf
    if by_enumeration <= min(allowed, max(4 * by_identity, CHEAP)):
        return "enumeration"
    return "identity" if by_identity <= allowed else "bound"


def norm_cost(family: PolynomialFamily, budget: float = BUDGET) -> float:
    """Return about how many multiplications a norm takes."""
    return min(sum(_enumeration_cost(family, d) for d in range(family.degree + 1)), (family.degree + 1) * budget)


def _enumeration_cost(family: PolynomialFamily, degree: int) -> float:
    """Return the multiplications of an enumeration, and those that would fit into the time of everything else."""
    base = family.base
    if degree < 2:
        return float(base.n_base * base.state_size) if degree else 0.0
    products = float(comb(base.n_base + degree - 1, degree))
    calls: float = base.n_base if degree > 2 else 0
    if degree > ONE_BY_ONE:
        calls += EXTENSION * degree * base.n_base**2 + comb(base.n_base + degree - 3, degree - 2) // largest_batch(base)
    return products * (base.state_size + SCORE) + CALL * calls


# --- the identity ---------------------------------------------------------------------------------------------------


def _sum_of_squares(base: Any, state: Array, degree: int, deadline: Deadline) -> float:
    """Return the sum over ordered products of ``degree`` factors of ``<M, K_i>^2``, from pairs of samples."""
    rows, cols = np.triu_indices(base.n_samples)
    vectors = base.pair_vectors(rows, cols)
    weight = base.pair_weights(state, rows, cols)
    total = 0.0
    for at in range(0, len(rows), PANEL):
        deadline.check()
        table = (vectors[:, at : at + PANEL].T @ vectors) ** degree
        total += float(weight[at : at + PANEL] @ table @ weight)
    return total


# --- the bound ------------------------------------------------------------------------------------------------------


def _longest(family: PolynomialFamily, degree: int, allowed: float) -> int:
    """Return the length of the prefixes that can be afforded."""
    base, length = family.base, 0
    while length < degree - 1:
        prefixes = comb(base.n_base + length, length + 1)
        calls = base.n_base**length / largest_batch(base) if length else 0.0
        if prefixes * (base.n_samples**2 + STATE * (length > 0)) + CALL * calls > allowed:
            break
        length += 1
    return length


def _bound(
    family: PolynomialFamily, state: Array, degree: int, length: int, total: ScoreSum, deadline: Deadline
) -> None:
    """Add the sums of all products that begin alike as if each were one product."""
    base, power, share = family.base, family.powers[degree - length], 1.0 / family.conjugate_exponent
    if power is None:
        raise ValueError("a prefix is shorter than the product")
    for indices, states in batches(base, state, length, base.n_base - 1):
        deadline.check()
        masses = family.scales[degree] * base.state_masses(states, power)
        total.add(masses * (factorial(length) / repeats(indices)[0]) ** share)
