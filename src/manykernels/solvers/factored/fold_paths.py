"""Cross-validation of the squared loss on factors: folds share their sums over rows, and passes serve all of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from manykernels.exceptions import IncompatibleError, InvalidInputError
from manykernels.grams.factored import FactoredStack, factored_stack
from manykernels.kernels import KernelBank
from manykernels.objective.losses import get_loss
from manykernels.objective.problem import Problem
from manykernels.objective.regularizers import get_regularizer
from manykernels.solvers.factored.fold_models import FoldModels
from manykernels.solvers.factored.moments import FoldMoments
from manykernels.validation.arrays import TableLike, check_count, check_positive, check_positive_vector, check_vector

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class FoldPaths:
    """Models of every training fold at decreasing strengths, judged on the rows that the fold holds out.

    Attributes
    ----------
    strengths : (S,) float64
        Relative to the number of rows: ``strength / N`` of the mean loss, the ``alpha`` of the estimators.
    errors : (S, K) float64
        Mean squared errors on held-out rows.
    gaps : (S, K) float64
        Relative duality gaps, of the exact kernels on the training rows.
    n_active : (S, K) int
    passes : int
        Over all kernels, for all folds together.
    """

    strengths: Array
    errors: Array
    gaps: Array
    n_active: Array
    passes: int

    @property
    def best(self) -> float:
        """The strength with the smallest mean error."""
        return float(self.strengths[int(np.argmin(self.errors.mean(axis=1)))])

    def frame(self) -> pd.DataFrame:
        """Return a row a strength: error, its deviation over the folds, active kernels, the worst gap."""
        return pd.DataFrame(
            {
                "alpha": self.strengths,
                "mean_error": self.errors.mean(axis=1),
                "std_error": self.errors.std(axis=1),
                "n_active": self.n_active.mean(axis=1),
                "gap": self.gaps.max(axis=1),
            }
        )


def factored_folds(
    X: TableLike,
    y: ArrayLike,
    bank: KernelBank | FactoredStack,
    *,
    folds: int | Iterable[tuple[Array, Array]] = 5,
    alphas: Sequence[float] | None = None,
    n_alphas: int = 10,
    ratio: float = 0.01,
    kernel_penalties: ArrayLike | None = None,
    tol: float = 1e-4,
    shared: bool = True,
) -> FoldPaths:
    r"""Follow the block 1-norm path of the squared loss in all training folds at once.

    :math:`\min_{f,b} \frac12 \sum_{i \in T} (y_i - f_i - b)^2 + \alpha |T| \sum_m w_m \|f_m\|` needs of rows only
    :math:`[Z, 1]'[Z, 1]` and :math:`[Z, 1]'y`. These are sums, so that those of a training fold are the sums over all
    rows less those of the rows held out: one reading of the rows serves every fold and every strength. A pass over all
    kernels certifies all folds, for the exact kernels, and names the kernels that enter.

    Standardization, widths and bins are those of all rows: as with
    ``MKLRegressorCV(search={"fold_kernels": "shared"})``, folds see the columns, though not the targets, of the rows
    they hold out.

    Parameters
    ----------
    X : DataFrame or (n_samples, n_columns) array
        In memory.
    y : array_like of shape (n_samples,)
    bank : KernelBank or FactoredStack
        The kernels, or the stack of these kernels on ``X``.
    folds : int or iterable of (train, test), default=5
        A number of folds, drawn with a fixed seed, or held-out rows, which must not overlap; a fold trains on all
        others.
    alphas : sequence of float, optional
        Strengths relative to the mean loss.
    n_alphas, ratio : int, float
        Otherwise: how many, and the smallest over the largest, at which no fold selects a kernel.
    kernel_penalties : array_like of shape (n_kernels,), optional
    tol : float, default=1e-4
        Relative gap; factors get finer until it is met or they are exact to rounding.
    shared : bool, default=True
        False computes the sums of every fold from its own rows, which takes as many readings as there are folds.

    Returns
    -------
    FoldPaths

    Raises
    ------
    InvalidInputError
        If folds overlap, or y, penalties or strengths are not what they should be.
    IncompatibleError
        If rows come in chunks, or the factors that enter have too many columns.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import KernelBank
    >>> from manykernels.solvers import factored_folds
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> bank = KernelBank.per_feature(widths=[0.5, 1.0], standardize=True)
    >>> path = factored_folds(X, np.sin(2 * X[:, 0]), bank, folds=3, n_alphas=4)
    >>> path.frame().columns.tolist(), bool(path.best == path.strengths[-1])
    (['alpha', 'mean_error', 'std_error', 'n_active', 'gap'], True)
    """
    stack = cast("FactoredStack", bank) if hasattr(bank, "has_factors") else factored_stack(X, bank)
    if stack.table.chunked:
        raise IncompatibleError("factored_folds reads rows in memory; for rows in chunks, call solve on parts.")
    target = check_vector(y, stack.n_samples, "y")
    held, n_folds = _held(folds, stack.n_samples)
    given = np.ones(stack.n_kernels) if kernel_penalties is None else kernel_penalties
    weights = check_positive_vector(given, stack.n_kernels, "kernel_penalties")
    problem = Problem(stack, target, get_loss("squared"), get_regularizer("l1", 1.0), kernel_penalties=weights)
    moments = FoldMoments(target[:, None], problem.weight, held, n_folds, shared=shared)
    models = FoldModels(stack, moments, check_positive(tol, "tol"))
    grid = _grid(models, weights, n_alphas, ratio) if alphas is None else _decreasing(alphas)
    found = [_at(models, problem, float(alpha)) for alpha in grid]
    errors, gaps, active = (np.array(part) for part in zip(*found, strict=True))
    return FoldPaths(grid, errors, gaps, active, models.passes)


def _grid(models: FoldModels, weights: Array, n_alphas: int, ratio: float) -> Array:
    """Return strengths from the largest one at which some fold selects a kernel down."""
    count = check_count(n_alphas, "n_alphas")
    smallest = check_positive(ratio, "ratio", upper=1.0)
    quads = models.bounds([models.slopes(fold, 0)[0] for fold in range(len(models.training))])
    largest = [
        float((np.sqrt(high) / weights).max()) / rows.sum()
        for (_, high), rows in zip(quads, models.training, strict=True)
    ]
    return np.geomspace(max(largest), smallest * max(largest), count)


def _decreasing(alphas: ArrayLike | None) -> Array:
    """Return given strengths from the largest down."""
    values = check_vector(alphas, None, "alphas")
    return -np.sort(-check_positive_vector(values, check_count(len(values), "the number of alphas"), "alphas"))


def _at(models: FoldModels, problem: Problem, alpha: float) -> tuple[list[float], list[float], list[int]]:
    """Return errors on held-out rows, gaps and numbers of active kernels of the folds at one strength."""
    strengths = [alpha * float(rows.sum()) for rows in models.training]
    posed = [[replace(problem, regularizer=get_regularizer("l1", strength))] for strength in strengths]
    found = [solution for (solution,) in models.at(posed)]
    scores = [models.slopes(fold, 0)[1] for fold in range(len(found))]
    errors = [float(np.mean((problem.y - z)[~rows] ** 2)) for z, rows in zip(scores, models.training, strict=True)]
    return errors, [one.certificate.relative_gap for one in found], [len(one.active) for one in found]


def _held(folds: Any, n: int) -> tuple[Array, int]:
    """Return which fold holds out each row, -1 for none, and the number of folds."""
    if isinstance(folds, (int, np.integer)):
        count = check_count(folds, "folds", least=2, most=n)
        return np.random.default_rng(0).permutation(np.arange(n) % count), count
    held, number = np.full(n, -1), 0
    for number, (_, test) in enumerate(folds, 1):
        rows = np.asarray(test)
        if (held[rows] >= 0).any():
            raise InvalidInputError(
                f"Fold {number - 1} holds out rows that another one holds out: sums of folds are differences only "
                "where these are apart. Take KFold or GroupKFold."
            )
        held[rows] = number - 1
    if number < 2:
        raise InvalidInputError(f"Give at least two folds, got {number}.")
    return held, number
