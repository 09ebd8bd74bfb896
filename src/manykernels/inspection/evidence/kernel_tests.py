r"""A p-value for every kernel, added to the kernels always in: a single fit without the rest, and a single pass.

With ``rho`` the dual coefficients of the null model, which has only the kernels always in, the score statistic of
kernel ``m`` is the squared dual norm (Wu et al. 2011),

.. math:: Q_m = \rho' K_m \rho = \sum_k \lambda_k X_k, \qquad \lambda(Z_m' P Z_m), \quad K_m = Z_m Z_m',

a sum of chi-squares ``X_k`` of a single degree of freedom under the hypothesis. ``H`` are the second derivatives of the
loss at the null model, ``C`` the columns always in (ones and the free ones, and the factors of the kernels under ridge,
with the inverse of their weights ``1 / d`` in ``S``), and

.. math:: P = H - H C (C' H C + S)^{-1} C' H .

Where the dispersion of the target is estimated, the statistic is the ratio ``Q_m / T`` with ``T = \rho' P^+ \rho``;
``P(\sum_k (\lambda_k - q) X_k - q \sum_j X_j > 0)`` is exact for normal errors (Chen et al. 2016), and serves squared,
logistic and Poisson losses. Other losses take the identity for ``H``, for residuals in random order. Outputs with
shared weights have the eigenvalues ``\lambda_k \mu_t``, ``\mu`` from the covariance of their residuals.

M. Wu et al., "Rare-variant association testing for sequencing data with the sequence kernel association test", American
Journal of Human Genetics 89 (2011); J. Chen et al., "Small sample kernel association tests", Genetic Epidemiology 40
(2016).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.linalg import eigvalsh, pinvh, qr
from sklearn.base import BaseEstimator
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from manykernels.estimators.supervised.importance import some_rows
from manykernels.estimators.supervised.problems import solve_problems
from manykernels.estimators.supervised.samples import Samples, sample_weights
from manykernels.exceptions import InvalidInputError
from manykernels.grams.factored.operators import DenseOperator, FeatureOperator
from manykernels.grams.pivoted import factorize
from manykernels.inspection.displays.kernel_table import groups_of
from manykernels.inspection.evidence.chi_squares import cauchy_combination, chi_squares_tail, false_discovery_rates
from manykernels.inspection.pipelines import unwrapped
from manykernels.objective.losses.curvature import Curvature, SampleCurvature
from manykernels.objective.problem import Problem
from manykernels.objective.regularizers import BlockL1, Regularizer, get_regularizer
from manykernels.objective.regularizers.groups import PenaltyByGroup
from manykernels.objective.regularizers.norms import Ridge
from manykernels.validation.arrays import Array, TableLike
from manykernels.validation.parameters import check_unit

LIKELIHOODS = ("squared", "logistic", "poisson", "cox")  # their second derivatives are the variance of their slopes
LEFT_OUT = 1e-8  # of a kernel's trace, by its factor
NULL_TOL = 1e-6  # relative gap of a null model with kernels under ridge
FEW_LEVELS = 500  # of a column, up to which eigenvalues are computed as of any kernel
MOST_FEATURES = 2_500  # of a kernel, whose eigenvalues take some 5 s; of levels there may be any number
ALIKE = 1e-3  # of an eigenvalue, to which those of many levels are rounded
MOST_ENTRIES = 2**26  # of factors of kernels under ridge: 512 MB
MOST_COLUMNS, WASTE, CHUNK_ROWS = 5_000, 8, 2_048  # of kernels whose columns are multiplied together
MOST_TESTED, MOST_TESTED_ROWS = 500, 1000  # kernels and rows whose p-values reports and the command compute
FLAT = 1e-12  # eigenvalue beside the largest one of the kernel itself, below which a null model explains the kernel


def kernel_tests(
    model: BaseEstimator,
    X: TableLike,
    y: ArrayLike,
    sample_weight: ArrayLike | None = None,
    *,
    by: str = "kernel",
) -> pd.DataFrame:
    """Return p-values for the effect of every kernel beside the kernels always in.

    Every kernel is tested separately: a column correlated with a relevant column has a small p-value, too. Whether
    predictions need a kernel *beside* the rest is another question, see `predictive_importance` and
    `knockoff_selection`. The selection plays no part, so the training rows are valid. P-values are computed without
    sampling, at any size.

    Parameters
    ----------
    model : MKLClassifier, MKLRegressor, MKLSurvival or a search, or a Pipeline around an estimator
        Fitted; the loss, the kernels and the kernels always in (``penalty={"batch": "ridge", "*": "l1"}``, or None) are
        taken, the latter at the strength of the fit.
    X : DataFrame, array-like of shape (n_samples, n_features), or precomputed kernels
        Rows, most often those of the fit.
    y : array-like of shape (n_samples,) or (n_samples, n_targets)
        Their targets.
    sample_weight : array-like of shape (n_samples,), float or None, default=None
        As in ``fit``.
    by : {"kernel", "view", "column", "kind"}, default="kernel"
        Unit of a row: single kernels, or all kernels of a view, a column or a kind. The p-values of several kernels are
        combined by the Cauchy combination of Liu and Xie (2020), valid under arbitrary dependence.

    Returns
    -------
    DataFrame
        A row per kernel or group, the smallest p-value first: ``name``; ``p_value``; ``q_value``, the rate of false
        discoveries (Benjamini and Hochberg) among the rows at most as large; ``statistic``, for kernels, in units of
        the mean under the hypothesis; or ``n_kernels``, for groups. Several classes or separate targets add the column
        ``class`` or ``output``. Kernels always in are not tested, and kernels without variation beside the null model
        have a p-value of 1.

    Raises
    ------
    InvalidInputError
        For another ``by``; where kernels under ridge are always in and the loss is no likelihood; if all kernels are
        always in.
    sklearn.exceptions.NotFittedError
        If the model is not fitted.

    See Also
    --------
    predictive_importance : Drop in held-out score without a view or a kernel.
    manykernels.inspection.noise_selection : How many kernels pure noise would select.

    Notes
    -----
    Take ``MKLRegressor(kernels, fit_intercept=True)`` for the usual model; without an intercept a kernel can act as the
    intercept. Kernels held as factors on landmarks are tested on the landmarks.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import KernelBank, MKLRegressor
    >>> X = np.random.default_rng(0).uniform(-2, 2, (80, 3))
    >>> y = np.sin(2 * X[:, 1]) + np.random.default_rng(1).normal(size=80)
    >>> model = MKLRegressor(KernelBank.per_feature(widths=[0.5, 1.0])).fit(X, y)
    >>> frame = kernel_tests(model, X, y, by="column")
    >>> frame["name"].iloc[0], bool(frame["q_value"].iloc[0] < 0.05)
    ('x1', True)
    """
    check_is_fitted(model)
    model, X = unwrapped(model, X)
    by = check_unit(by)
    fresh = copy.copy(model)
    loss = fresh._check_loss()
    rows, target = fresh._check_data(X, y)
    samples = fresh._encoded(Samples.create(rows, target, sample_weights(sample_weight, len(target))))
    training, problems = fresh._open(samples, loss, _penalty_of(model, samples.total_weight))
    table = training.bank.frame(scales=False)
    labels = [None] if len(problems) == 1 else list(fresh._target_labels())
    frames = []
    for number, (problem, label) in enumerate(zip(problems, labels, strict=True)):
        alpha = np.ravel(getattr(model, "alpha_", 1.0))
        found = _tests_of(problem.with_penalty(problem.regularizer.multiplied(float(alpha[number % len(alpha)]))))
        own = table.assign(**found)[found["tested"]]
        if not len(own):
            raise InvalidInputError("All kernels are always in, and none is left to be tested.")
        frame = _test_groups(own, groups_of(fresh, own, by), by)
        if label is not None:
            frame.insert(0, fresh._target_word, label)
        frames.append(frame)
    frame = pd.concat(frames, ignore_index=True)
    frame.insert(list(frame.columns).index("p_value") + 1, "q_value", false_discovery_rates(frame["p_value"]))
    return frame.sort_values("p_value", kind="stable", ignore_index=True)


def few_rows(model: Any, X: Any, y: Array, seed: int) -> tuple[Any, Array] | None:
    """Return rows whose p-values take seconds at most, or None for models with learned or many kernels."""
    if not hasattr(model, "kernels") or len(model.kernel_names_) > MOST_TESTED:
        return None
    rows = some_rows(len(y), MOST_TESTED_ROWS, seed)
    return (X, y) if len(rows) == len(y) else (_safe_indexing(X, rows), y[rows])


def _test_groups(table: pd.DataFrame, groups: list[list[str]], by: str) -> pd.DataFrame:
    """Return the p-value of every kernel, or of every group."""
    if by == "kernel":
        return table[["name", "p_value", "statistic"]].reset_index(drop=True)
    together: dict[str, list[float]] = {}
    for p, names in zip(table["p_value"], groups, strict=True):
        for name in names:
            together.setdefault(name, []).append(p)
    rows = [(name, cauchy_combination(values), len(values)) for name, values in together.items()]
    return pd.DataFrame(rows, columns=["name", "p_value", "n_kernels"])


def _penalty_of(model: Any, total_weight: float) -> Regularizer:
    """Return the penalty at ``alpha = 1``, or with a fixed strength, to find the kernels always in."""
    if isinstance(model.penalty, str):
        return BlockL1(1.0)
    return get_regularizer(model.penalty, total_weight if isinstance(model.penalty, Mapping) else None)


def _tests_of(problem: Problem) -> dict[str, Array]:
    """Return the mask of tested kernels (M,), their p-values and statistics; not numbers for the rest."""
    null = NullModel.fit(problem)
    p_values, statistics = np.full((2, problem.n_kernels), np.nan)
    tested = np.ones(problem.n_kernels, dtype=bool)
    tested[null.kernels] = False
    for batch in _batches(problem.stack, np.flatnonzero(tested).tolist(), null.curvature):
        for (m, factor), moments in zip(batch, null.moments([factor for _, factor in batch]), strict=True):
            p_values[m], statistics[m] = null.test(factor, moments)
    return {"tested": tested, "p_value": p_values, "statistic": statistics}


def _features_under_ridge(problem: Problem, m: int) -> Array:
    factor = factor_of(problem.stack, m)
    if problem.n_samples * int(factor.starts[-1]) > MOST_ENTRIES:
        raise InvalidInputError(
            f"The kernel {problem.kernel_names[m]!r}, which is always in, has {int(factor.starts[-1]):,} "
            f"features, too many for {problem.n_samples:,} rows. Test a subset of the rows."
        )
    return np.asarray(factor.rows(slice(None)))


def _batches(stack: Any, kernels: list[int], curvature: Curvature) -> Iterator[list[tuple[int, Any]]]:
    """Yield kernels with their factors; together where a single product of their columns serves all of them.

    Products of pairs of columns that are in no kernel together are wasted: at most `WASTE` times those in use.
    """

    def worth(columns: set[int], used: int) -> bool:
        return len(columns) <= MOST_COLUMNS and len(columns) ** 2 <= WASTE * used

    own = {m: _factor_of_columns(stack, m) if curvature.separable else None for m in kernels}
    sets = {m: set(factor.positions) if factor is not None else set[int]() for m, factor in own.items()}
    whole = worth(set().union(*sets.values()), sum(len(columns) ** 2 for columns in sets.values()))
    batch: list[tuple[int, Any]] = []
    union, used = set[int](), 0
    for m, columns in sets.items():
        joined, used = union | columns, used + len(columns) ** 2
        if batch and not (columns and union and (whole or worth(joined, used))):
            yield batch
            batch, joined, used = [], columns, len(columns) ** 2
        batch.append((m, own[m] or factor_of(stack, m)))
        union = joined
    if batch:
        yield batch


def _factor_of_columns(stack: Any, kernel: int) -> FeatureOperator | None:
    """Return the factor of a kernel whose features are columns of the table, None for other kernels."""
    template = stack.templates([kernel], LEFT_OUT)[0] if stack.has_factors else None
    factor = template.transfer(stack.table) if isinstance(template, FeatureOperator) else None
    return None if factor is None or factor.table_of_columns is None else factor


def factor_of(stack: Any, kernel: int) -> Any:
    """Return an operator ``Z`` with ``K = Z Z'``, but for a negligible part of the trace: by pivoted Cholesky."""
    if stack.has_factors:
        return stack.operators([kernel], LEFT_OUT)[0]
    gram = np.array(stack.matrix(kernel), dtype=np.float64, order="F")
    if not np.trace(gram) > 0:
        return DenseOperator(np.array([kernel]), [np.zeros((len(gram), 1))])
    return DenseOperator(np.array([kernel]), [factorize(gram, LEFT_OUT)[0]])


@dataclass(frozen=True, eq=False)
class NullModel:
    """The model of the kernels always in, of a single problem."""

    kernels: Array  # those that are always in
    rho: Array  # (N,) or (N, T) dual coefficients
    curvature: Curvature  # H; of several outputs that of each of them
    fixed: Array  # C (N, p): the free columns, and the factors of the kernels under ridge
    ridge: Array  # (p,): the diagonal of S, zero for the free columns
    norms: float  # sum of d_m rho' K_m rho over the kernels under ridge
    ratio: bool  # whether the dispersion is estimated
    constant: bool  # whether the target has one value only

    @classmethod
    def fit(cls, problem: Problem) -> NullModel:
        """Fit the model."""
        likelihood = not problem.shared and problem.loss.name in LIKELIHOODS
        free, ridged = problem.unpenalized, _ridge_kernels(problem.regularizer)
        always = np.union1d(free, ridged)
        bound, fixed = problem.certificate_bound, problem.certificate_bound.basis
        if fixed is None:
            fixed = np.full((problem.n_samples, int(problem.fit_intercept)), problem.n_samples**-0.5)
        ridge, norms = np.zeros(fixed.shape[1]), 0.0
        if ridged.size:
            if not likelihood:
                raise InvalidInputError(
                    f"With kernels under ridge that are always in, tests need the variance of the target, which the "
                    f"loss {problem.loss.name!r} does not define. Use one of {LIKELIHOODS}, or no penalty for these "
                    "kernels (None in place of 'ridge')."
                )
            small = problem.take(always)
            found = solve_problems([small], "auto", 1, tol=NULL_TOL).solutions[0]
            rho, d = found.dual_coef, found.kernel_weights[np.isin(always, ridged)]
            scores = small.model_parts(rho, found.kernel_weights)[0] + found.intercept
            for m, weight in zip(ridged[d > 0], d[d > 0], strict=True):
                Z = _features_under_ridge(problem, int(m))
                fixed, ridge = np.hstack([fixed, Z]), np.concatenate([ridge, np.full(Z.shape[1], 1.0 / weight)])
                norms += float(weight * np.sum((Z.T @ rho) ** 2))
        else:
            rho, scores = problem.empty_coefficients, problem.constant_scores(problem.best_constant)
            if bound.basis is not None and problem.loss.smooth:
                scores = bound.best_along(scores)
        curvature = problem.bound.curvature(scores) if likelihood else SampleCurvature(problem.weight)
        ratio = not problem.shared and not problem.loss.couples_samples
        return cls(always, rho, curvature, fixed, ridge, norms, ratio, problem.constant_target)

    @cached_property
    def _weighted(self) -> tuple[Array, Array]:
        """``H C`` and the inverse of ``C' H C + S``."""
        HC = np.array([self.curvature.product(column) for column in self.fixed.T]).reshape(self.fixed.T.shape).T
        return HC, pinvh(self.fixed.T @ HC + np.diag(self.ridge)) if HC.size else np.zeros((0, 0))

    @cached_property
    def _squares(self) -> Array:
        """Sums of squares and products of residuals (T, T), in the metric of ``P``; for separable losses only."""
        rho = self.rho.reshape(len(self.rho), -1)
        return rho.T @ (rho / self.curvature.diagonal.reshape(len(rho), -1)) + self.norms

    def moments(self, factors: Sequence[Any]) -> list[tuple[Array, Array, Array] | None]:
        """Return ``Z' H Z``, ``C' H Z`` and ``rho' Z`` of several kernels of columns, or None for a single kernel."""
        if len(factors) == 1:
            return [None]
        table, D = factors[0].table_of_columns, self.curvature.diagonal
        columns = sorted({j for factor in factors for j in factor.positions})
        rows = np.column_stack([self._weighted[0], self.rho])
        grams, products = np.zeros((len(columns),) * 2), np.zeros((len(columns), rows.shape[1]))
        for part in (slice(start, start + CHUNK_ROWS) for start in range(0, len(D), CHUNK_ROWS)):
            values = table.block(columns, part)
            products += values @ rows[part]
            values = values * np.sqrt(D[part])
            grams += values @ values.T  # a matrix times its own transpose costs half of another product
        found: list[tuple[Array, Array, Array] | None] = []
        for factor in factors:
            at, root = np.searchsorted(columns, factor.positions), factor.root
            own = root * products[at].T
            found.append((root**2 * grams[np.ix_(at, at)], own[: self.fixed.shape[1]], own[self.fixed.shape[1] :]))
        return found

    def test(self, factor: Any, moments: tuple[Array, Array, Array] | None = None) -> tuple[float, float]:
        """Return the p-value of a kernel with the factor, and the statistic in units of the mean."""
        whole, cross, pulled = moments or (
            None,
            self._pulled(factor, self._weighted[0]),
            self._pulled(factor, self.rho),
        )
        values, counts = self._spectrum(factor, whole, cross)
        if not values.size or self.constant:
            return 1.0, 0.0
        rho, mean = self.rho.reshape(len(self.rho), -1), float(counts @ values)
        statistic = float(np.sum(pulled**2))
        freedom = len(rho) - int(np.count_nonzero(self.ridge == 0))
        if self.ratio:
            share, rest = statistic / float(self._squares[0, 0]), max(freedom - counts.sum(), 0)
            p = chi_squares_tail(0.0, np.r_[values - share, -share], np.r_[counts, rest])
            return p, share * freedom / mean
        scales = eigvalsh(self._squares / freedom) if rho.shape[1] > 1 else np.ones(1)
        p = chi_squares_tail(statistic, np.outer(values, scales).ravel(), np.repeat(counts, len(scales)))
        return p, statistic / (mean * float(scales.sum()))

    @staticmethod
    def _pulled(factor: Any, vectors: Array) -> Array:
        """Return the products of vectors (N, ...) and the factor, (k, r)."""
        columns = vectors.reshape(len(vectors), -1).T
        return np.array([factor.adjoint(np.ascontiguousarray(x)) for x in columns]).reshape(-1, int(factor.starts[-1]))

    def _spectrum(self, factor: Any, whole: Array | None, cross: Array) -> tuple[Array, Array]:
        """Return the nonzero eigenvalues of ``Z' P Z`` with multiplicities."""
        inverse, rank = self._weighted[1], int(factor.starts[-1])
        levels = getattr(factor, "level_columns", 0) == 1 and self.curvature.separable
        if levels and rank > FEW_LEVELS:
            return level_spectrum(factor.diagonal(self.curvature.diagonal), cross, inverse)
        if rank > MOST_FEATURES:
            raise InvalidInputError(
                f"A kernel has {rank:,} features, and the distribution of its statistic takes the cube of their "
                f"number. Up to {MOST_FEATURES:,} are computed, and any number for the levels of one column where the "
                "loss is a sum over samples. Test some of the rows, or leave this kernel out."
            )
        if whole is None:
            whole = self.curvature.gram([factor], len(self.rho), n_constants=0)
        left = whole - cross.T @ inverse @ cross
        values = eigvalsh((left + left.T) / 2.0, check_finite=False)
        values = values[values > FLAT * float(np.trace(whole))]
        return values, np.ones(values.size)


def level_spectrum(diagonal: Array, cross: Array, inverse: Array) -> tuple[Array, Array]:
    """Return the eigenvalues of ``diag(d) - C' M C`` with multiplicities, for many levels.

    For (nearly, up to `ALIKE`) equal ``d``, all directions orthogonal to the rows of ``C`` among the levels have the
    eigenvalue ``d``; the rest, as many as ``C`` has rows, form a small matrix with the eigenvalues of other ``d``.

    Parameters
    ----------
    diagonal : ndarray of shape (r,)
    cross : ndarray of shape (p, r)
        ``C``.
    inverse : ndarray of shape (p, p)
        ``M``.

    Examples
    --------
    >>> values, counts = level_spectrum(np.ones(5), np.ones((1, 5)), np.full((1, 1), 0.1))
    >>> values.round(6).tolist(), counts.tolist()
    ([1.0, 0.5], [4.0, 1.0])
    """
    seen = diagonal > FLAT * diagonal.sum()
    diagonal, cross = diagonal[seen], cross[:, seen]
    groups = np.unique(np.round(np.log(diagonal) / ALIKE), return_inverse=True)[1]
    values, counts, sizes, parts = [], [], [], []
    for group in range(groups.max(initial=-1) + 1):
        members = groups == group
        own, triangle = float(diagonal[members].mean()), qr(cross[:, members].T, mode="r")[0]
        triangle = triangle[: min(triangle.shape)]
        values.append(own)
        counts.append(float(members.sum() - len(triangle)))
        sizes += [own] * len(triangle)
        parts.append(triangle)
    coupled = np.vstack([*parts, np.zeros((0, len(cross)))])
    few = eigvalsh(np.diag(sizes) - coupled @ inverse @ coupled.T, check_finite=False) if sizes else np.zeros(0)
    few = few[few > FLAT * diagonal.sum()]
    kept = np.array(counts) > 0
    return np.r_[np.array(values)[kept], few], np.r_[np.array(counts)[kept], np.ones(few.size)]


def _ridge_kernels(regularizer: Any) -> Array:
    """Return the kernels under ridge beside selected kernels, (m,) positions."""
    if not isinstance(regularizer, PenaltyByGroup):
        return np.zeros(0, dtype=np.intp)
    kinds = [isinstance(part, Ridge) and part.penalizes for part in regularizer.parts]
    return np.flatnonzero(np.array(kinds)[list(regularizer.owners or ())])
