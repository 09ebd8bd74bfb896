"""A second stage for additive models: pairs of the columns that they selected, under one certificate."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from manykernels.exceptions import InvalidInputError
from manykernels.grams.factored import CompositeStack, FactoredStack, factored_stack, pair_stack
from manykernels.grams.rows import is_chunked, with_target
from manykernels.kernels import KernelBank
from manykernels.solvers.factored.model import FactoredModel
from manykernels.solvers.factored.solve import default_bank, solve_factored

MOST_COLUMNS = 10
WIDTHS = (0.3, 0.6, 1.2)


def solve_factored_pairs(
    X: Any,
    y: ArrayLike | str,
    bank: KernelBank | FactoredStack | None = None,
    *,
    columns: Sequence[int] | None = None,
    most_columns: int = MOST_COLUMNS,
    widths: Sequence[float] = WIDTHS,
    **options: Any,
) -> FactoredModel:
    """Fit an additive model, then one with pairs of the columns that it selected as well.

    The second problem has all kernels of the first and Gaussian kernels of every pair considered; the gap is that of
    this whole problem, so that no other choice among these pairs is better by more than it says.

    Parameters
    ----------
    X : DataFrame or (n_samples, n_columns) array, or what `open_rows` takes
        As in `solve_factored`.
    y : array_like of shape (n_samples,), or str
        As in `solve_factored`.
    bank : KernelBank or FactoredStack, optional
        The kernels of the first stage.
    columns : sequence of int, optional
        The columns that are paired; if not given, those with the largest norms in the first model (strong heredity).
    most_columns : int, default=10
        How many columns the first stage may name; the pairs are then ``most_columns (most_columns - 1) / 2``.
    widths : sequence of float, default=(0.3, 0.6, 1.2)
        Of the Gaussian kernels of pairs, as multiples of the median distance between rows in these two columns.
    **options
        Of `solve_factored`; with ``relative_strength``, each stage has a strength relative to its own largest one.

    Returns
    -------
    FactoredModel
        `surface` shows what a pair adds.

    Raises
    ------
    InvalidInputError
        If there are fewer than two columns to pair.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.solvers import solve_factored_pairs
    >>> X = np.random.default_rng(0).normal(size=(400, 3))
    >>> y = X[:, 0] * X[:, 1] + X[:, 0] + X[:, 1]
    >>> model = solve_factored_pairs(X, y, loss="squared", relative_strength=0.1)
    >>> model.weights_frame()["name"][0]
    'x0 and x1: gaussian(width=0.989884)'
    """
    if is_chunked(X):
        X, y = with_target(X, y)
    first = bank if isinstance(bank, FactoredStack) else factored_stack(X, bank or default_bank())
    chosen = _ranked(solve_factored(X, y, first, **options))[:most_columns] if columns is None else list(columns)
    if len(chosen) < 2:
        raise InvalidInputError(
            f"Pairs need two columns, but the additive model selected {len(chosen)}. Lower the strength, or name some."
        )
    pairs = list(combinations(sorted(chosen), 2))
    second = pair_stack(first.table, pairs, widths)
    n = first.n_kernels
    names = [*(first.name_of(m) for m in range(n)), *(second.name_of(m) for m in range(second.n_kernels))]
    both = CompositeStack([first, second], [np.arange(n), n + np.arange(second.n_kernels)], names=names)
    return solve_factored(X, y, both, **options)


def _ranked(model: FactoredModel) -> list[int]:
    """Return the columns of an additive model, those with the largest functions first."""
    norms: dict[int, float] = {}
    for kernel, norm in zip(model.active, model.block_norms, strict=True):
        for column in model.columns_of(int(kernel)):
            norms[column] = norms.get(column, 0.0) + float(norm)
    return sorted(norms, key=lambda column: -norms[column])
