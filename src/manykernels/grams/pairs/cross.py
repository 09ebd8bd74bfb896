"""Scores of new pairs by the generalized vec trick: kernels between members only, never between pairs."""

from __future__ import annotations

from typing import Any

import numpy as np

from manykernels.grams.pairs.stack import PairStack
from manykernels.kernels.pairs.fitted import FittedPairBank, PreparedPairs
from manykernels.validation.arrays import Array


def stack_of(bank: FittedPairBank, prepared: Any) -> PairStack:
    """Return the stack of a bank of pairs on its training pairs."""
    pairs = bank.narrow(prepared)
    left = bank.left.block(pairs.left, pairs.left)
    right = None if bank.right is None or pairs.right is None else bank.right.block(pairs.right, pairs.right)
    return PairStack(left, right, pairs.pairs, products=bank.products, symmetry=bank.symmetry, names=list(bank.names))


def pair_scores(
    bank: FittedPairBank, new: PreparedPairs, support: PreparedPairs, weights: Array, columns: Array
) -> Array:
    """Return ``sum_m d_m sum_l rho_l k_m(pair, pair_l)`` of new pairs, (n, k), for coefficients (N, k)."""
    new, support = bank.narrow(new), bank.narrow(support)
    rows, known = new.indexed(bank.sign), support.indexed(bank.sign)
    total = np.zeros((len(rows), columns.shape[1]))
    by_left: dict[int | None, list[int]] = {}
    for m in np.flatnonzero(weights):
        by_left.setdefault(bank.products[m][0], []).append(int(m))
    tables = [known.scatter(column) for column in columns.T]
    for a, kernels in by_left.items():
        left = bank.factor(new, support, a, 0)
        right = sum(weights[m] * bank.factor(new, support, bank.products[m][1], 1) for m in kernels)
        for k, table in enumerate(tables):
            total[:, k] += rows.gather(left, table @ np.asarray(right).T)
    return total
