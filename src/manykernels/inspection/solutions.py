"""Solutions of `solve` with the attributes that model files and exports read from estimators."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from manykernels.exceptions import IncompatibleError
from manykernels.grams.expansion import Expansion
from manykernels.solvers import Solution
from manykernels.validation.arrays import Array, TableLike


def detach_solution(solution: Solution) -> Solution:
    """Return a solution with functions that read new rows themselves, without the kernels and states of its run.

    Raises
    ------
    IncompatibleError
        If the kernels came as matrices, of which nothing is known at new rows.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import KernelBank, solve
    >>> X = np.linspace(0, 3, 30)[:, None]
    >>> bank = KernelBank.per_feature(widths=[0.5])
    >>> found = solve(bank, np.sin(X[:, 0]), X=X, loss="squared", penalty="l1", alpha=1e-3)
    >>> type(detach_solution(found).functions).__name__
    'Expansion'
    """
    if solution.functions is None:
        raise IncompatibleError(
            "This Solution has kernels given as matrices, which no file can evaluate at new rows. Solve with a "
            "KernelBank and its table, solve(bank, y, X=X, ...), or save an estimator with kernels='precomputed'."
        )
    return replace(solution, functions=solution.functions.expansion, state=None, whole=None, kernels=())


@dataclass(frozen=True, eq=False)
class SolutionModel:
    """A solution with the attributes of a fitted estimator that exports read."""

    solution: Solution

    @cached_property
    def _expansion(self) -> Expansion:
        expansion: Expansion = detach_solution(self.solution).functions.expansion  # type: ignore[union-attr]
        return expansion

    @property
    def intercept_(self) -> Any:
        """Intercept, or (T,) intercepts of several targets."""
        return self.solution.intercept

    @property
    def n_features_in_(self) -> int:
        """Number of columns of the training table."""
        return self._expansion.bank.n_features_in_

    @property
    def feature_names_in_(self) -> Array:
        """Column names of the training table; not defined for an array."""
        return self._expansion.bank.feature_names_in_

    def _target_labels(self) -> Array:
        """Return the numbers of the targets, (T,)."""
        return np.arange(self._expansion.n_targets)

    def _scores(self, X: TableLike) -> Array:
        """Return the scores of rows, (n, T)."""
        return np.asarray(self._expansion.scores(X) + self.intercept_)
