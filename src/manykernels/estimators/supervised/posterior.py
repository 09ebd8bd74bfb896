r"""Uncertainty of fitted functions: a Gaussian process at the learned kernel weights, with an estimated bias.

At fixed weights ``d`` the penalty is ``sum_m ||f_m||^2 / (2 d_m)``, the negative logarithm of the prior
``f_m ~ GP(0, s2 d_m k_m)``; the intercept has a flat prior. Each unit of kernels, those on the same columns, has
landmarks ``S`` among the training rows: a row of each group for random intercepts and slopes, else pivots of the
Cholesky factorization of ``K_u = sum_m d_m K_m``, which leave `LEFT_OUT` of its trace. The coefficients ``v`` of the
features ``c_u(x) = k_u(x, S) L'^-1``, ``k_u(S, S) = L L'``, have independent priors of variance ``s2``. With ``C`` the
features of all units and rows, and ``W`` the second derivatives of the loss (the sample weights, for the squared loss),

    H = C' W C - C' W 1 1' W C / (1' W 1) = U diag(h) U',        V = U diag(1 / (1 + h)) U',

where ``s2 V`` is the posterior covariance of ``v``: the inverse Hessian of a Newton step, of the size of all ranks at
any number of rows. It is the variance of the estimate, ``h / (1 + h)^2``, and the square of its bias that the prior
expects, ``1 / (1 + h)^2``. Learned weights make a poor prior: kernels that are rougher than the function are given
much of it. Where data determine a direction, the bias of the estimate ``v`` itself takes the place of that of the
prior, with ``a_j = h_j^2 / (h_j^2 + KNOWN^2)``:

    Cov v = s2 U diag((h + 1 - a - e) / (1 + h)^2) U' + b b',        b = U diag(a^1/2 / (1 + h)) U' v,

with the variance ``e = a h / (1 + h)^2`` of the estimated bias, so that the sum is unbiased where ``v`` is zero.

Kernels that are all under ridge keep their prior: ``a = 0``, and bands are those of a Gaussian process. What landmarks
leave of a kernel keeps the variance of the prior, so that bands widen away from the data.

**Dispersion.** ``s2 = 1`` for negative logarithms of likelihoods (Laplace's approximation). For the other losses it is
``(sum_i rho_i^2 / s_i) / (sum_i W_i / s_i) * N / (N - e)``, with dual coefficients ``rho``, sample weights ``s`` and
``e`` effective degrees of freedom: for the squared loss the sum of squared residuals over ``N - e``, for others the
squared slopes beside the curvature, as in the variance of M-estimators.

The weights count as known, so that bands are too narrow where kernels were selected by chance.

D. Nychka, "Bayesian confidence intervals for smoothing splines", Journal of the American Statistical Association 83
(1988), for the two parts of the covariance; D. Ruppert, M. Wand, R. Carroll, *Semiparametric Regression*, 2003.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import cholesky, eigh, solve_triangular
from sklearn.base import BaseEstimator

from manykernels.estimators.supervised.importance import some_rows, units_of
from manykernels.exceptions import InvalidInputError
from manykernels.grams import cross_combine
from manykernels.grams.expansion import CHUNK_ENTRIES, Expansion, cross_apply_each, cross_scores
from manykernels.grams.pivoted import factorize
from manykernels.grams.plan import FACTORED
from manykernels.kernels import FittedBank, Overlap, PreparedRows, Shaped
from manykernels.kernels.bank.columns import Table
from manykernels.kernels.specs.interaction import slope_columns
from manykernels.objective.regularizers.norms import Ridge
from manykernels.validation.arrays import Array
from manykernels.validation.parameters import drop_attributes

if TYPE_CHECKING:
    from manykernels.estimators.supervised.problems import Fit
    from manykernels.estimators.supervised.samples import Samples

LEFT_OUT = 1e-8  # of the trace of a unit, by its landmarks; more is seen in bands from 1e6 rows on
POOLS = (400, 2000)  # rows that landmarks are chosen from; the larger pool if half of the smaller one become landmarks
POOL_OF_LEVELS, MOST_LEVELS = 20_000, 500  # rows that levels of a grouping are looked for in; levels with a landmark
MOST_LANDMARKS = 1500  # of all units: 18 MB a target
HESSIAN_COST = 5e9  # products of a Hessian: with features 1 s; of more rows a weighted sample is taken
ROWS_PER_RANK = 40  # in such a sample, at least: errors of deviations are some 10 %
KNOWN = 0.1  # eigenvalue of the Hessian beside the prior's, from which on the data determine a direction
LIKELIHOODS = ("logistic", "poisson", "cox")  # negative logarithms of likelihoods without a free dispersion
JITTER = 1e-13  # of the largest diagonal entry
TO_REFIT = "give a display bands=bootstrap_refits(model, X, y), of manykernels.inspection"


@dataclass(frozen=True, eq=False)
class Bands:
    """What a model keeps for the uncertainty of one target."""

    rows: PreparedRows[Any]  # the landmarks of all units
    units: tuple[Array, ...]  # kernels of each unit, positions among the active ones
    landmarks: tuple[Array, ...]  # rows of each unit, positions among `rows`
    covariance: Array  # (r + 1, r + 1) float64: of the coefficients and the intercept
    dispersion: float  # s2
    # Of units with more levels than landmarks: the share of the prior variance that the rows of a level leave,
    # (n_levels,); (0,) for other units. Levels with a landmark have no use for it.
    shares: tuple[Array, ...] = ()


@dataclass(frozen=True, eq=False)
class Posterior:
    """The uncertainty of one target's function."""

    bank: FittedBank  # the active kernels
    active: Array  # (m,) int: their positions among all
    weights: Array  # (m,) float64: d of the active kernels
    kept: Bands

    @property
    def dispersion(self) -> float:
        """The estimate of ``s2``."""
        return self.kept.dispersion

    @cached_property
    def parts(self) -> list[tuple[FittedBank, Array, PreparedRows[Any], Array]]:
        """The kernels of every unit, their positions, the landmarks and the inverse Cholesky factor ``L^-1``."""
        found = []
        for kernels, places in zip(self.kept.units, self.kept.landmarks, strict=True):
            bank, rows = self.bank.take(kernels), self.kept.rows.take(places)
            rows = bank.narrow(rows)
            gram = cross_combine(bank, rows, rows, self.weights[kernels])
            noise = JITTER * float(np.diag(gram).max(initial=0.0)) * np.eye(len(gram))
            lower = cholesky(gram + noise, lower=True, check_finite=False)
            found.append((bank, kernels, rows, solve_triangular(lower, np.eye(len(gram)), lower=True)))
        return found

    def features(self, rows: PreparedRows[Any], chosen: Array | None = None) -> Array:
        """Return ``c(x)`` of the chosen kernels, (n, r)."""
        weights, out = self.weights if chosen is None else self.weights * chosen, [np.zeros((rows.n_samples, 0))]
        for bank, kernels, landmarks, inverse in self.parts:
            out.append(cross_combine(bank, bank.narrow(rows), landmarks, weights[kernels]) @ inverse.T)
        return np.hstack(out)

    def variance(self, X: object) -> Array:
        """Return the variance of ``f(x) + b`` at new rows, (n,)."""
        rows = self.bank.prepare(X)
        found = np.zeros(rows.n_samples)
        step = max(1, CHUNK_ENTRIES // max(len(self.kept.covariance), len(self.weights)))
        for start in range(0, len(found), step):
            at = rows.take(slice(start, min(start + step, len(found))))
            c = self.features(at)
            left = self.weights @ self.bank.diag(at) - np.einsum("ij,ij->i", c, c) - self._known_of_levels(at, c)
            c = np.hstack([c, np.ones((len(c), 1))])
            known = np.einsum("ij,ij->i", c @ self.kept.covariance, c)
            found[start : start + step] = known + self.dispersion * np.maximum(left, 0.0)
        return np.maximum(found, 0.0)

    def _known_of_levels(self, rows: PreparedRows[Any], features: Array) -> Array:
        """Return the prior variance that the rows of levels without a landmark take away, over the dispersion, (n,)."""
        known, start = np.zeros(rows.n_samples), 0
        for number, (bank, kernels, landmarks, _) in enumerate(self.parts):
            own = features[:, start : start + landmarks.n_samples]
            start += landmarks.n_samples
            if self.kept.shares and len(shares := self.kept.shares[number]):
                at, column = bank.narrow(rows), _column_of_levels(self.bank, kernels)
                prior, levels = self.weights[kernels] @ bank.diag(at), at.points(0)[:, column]
                seen = (levels >= 0) & (levels < len(shares))
                left = np.ones(len(levels))
                left[seen] = shares[levels[seen].astype(np.intp)]
                known += (1.0 - left) * np.maximum(prior - np.einsum("ij,ij->i", own, own), 0.0)
        return known

    def part_covariance(self, X: object, kernels: Array, mean: Array) -> Array:
        """Return the covariance of the sum of some functions less its mean, at a few rows, (n, n)."""
        rows, chosen = self.bank.prepare(X), np.isin(self.active, kernels).astype(np.float64)
        c = self.features(rows, chosen)
        left = cross_combine(self.bank, rows, rows, self.weights * chosen) - c @ c.T
        covariance = c @ self.kept.covariance[:-1, :-1] @ c.T + self.dispersion * left
        along = covariance @ mean
        return np.asarray(covariance - along[:, None] - along + float(mean @ along))


class _Features:
    """The features of all training rows, as an operator that curvatures sum over."""

    def __init__(self, posterior: Posterior, rows_at: Callable[[Any], PreparedRows[Any]]) -> None:
        self._posterior, self._rows_at = posterior, rows_at
        self.kernels, self.starts = np.zeros(1, dtype=np.intp), np.array([0, len(posterior.kept.covariance) - 1])

    def rows(self, index: Any) -> Array:
        """Return the features of some rows."""
        return self._posterior.features(self._rows_at(index))


def keep_bands(model: BaseEstimator, fit: Fit, samples: Samples) -> None:
    """Keep what bands of a model of factors are computed from.

    Nothing is kept for losses without a posterior, rows in chunks, functions with a shape, and factors that were asked
    for: their models hold no training rows.
    """
    drop_attributes(model, ["_bands"])
    expansion, rows = model._expansion, samples.rows
    if expansion.of_samples or model._resources.representation == FACTORED:
        return
    if _refusal(model) or not isinstance(rows, Table) or not fit.problems:
        return
    if rows.is_sparse or any(isinstance(spec, Shaped) for spec in expansion.bank.table.specs):
        return
    n = len(samples.weight)
    losses = [problem.loss.each for problem in fit.problems]
    targets = [problem.y if problem.y.ndim == 1 else problem.y.T for problem in fit.problems]
    y = np.vstack([np.zeros((0, n)), *targets])
    scores = expansion.scores(rows) + np.atleast_1d(model.intercept_)
    rho = np.hstack([found.dual_coef.reshape(n, -1) for found in fit.solutions])

    def rows_at(index: Any) -> PreparedRows[Any]:
        return expansion.bank.prepare(rows[np.arange(n)[index]])

    def values_at(index: Array) -> Array:
        return expansion.active_contributions(rows[index])

    model._bands = _bands(model, rows_at, values_at, losses, y, scores.T, rho.T, samples.weight)


def _bands(
    model: BaseEstimator,
    rows_at: Callable[[Any], PreparedRows[Any]],
    values_at: Callable[[Array], Array],
    losses: Sequence[Any],
    y: Array,
    scores: Array,
    rho: Array,
    weight: Array,
) -> tuple[Bands, ...]:
    """Return what the uncertainty of targets (K, n) takes, from their scores and dual coefficients.

    ``values_at`` returns the parts (m, n, K) of all kernels at some rows.
    """
    expansion, weights = model._expansion, _weights_of(model._expansion)
    bank, found = expansion.bank, []
    for k, own in enumerate(np.broadcast_to(weights, (len(rho), weights.shape[1]))):
        loss = losses[min(k, len(losses) - 1)]
        curvature = loss.bind(y[k], weight).curvature(scores[k])
        units, landmarks, chosen = _landmarks(bank, own, rows_at, len(weight))
        rank = sum(map(len, landmarks))
        shares = tuple(
            _shares_of_levels(bank, own, each, len(at), rows_at, curvature)
            for each, at in zip(units, landmarks, strict=True)
        )
        bare = Bands(rows_at(chosen).detach(), units, landmarks, np.zeros((rank + 1, rank + 1)), 1.0, shares)
        prior = Posterior(bank, expansion.active, own, bare)
        most = max(ROWS_PER_RANK * rank, int(HESSIAN_COST / max(rank, 1) ** 2))
        free = bool(model._free_constant) and not loss.couples_samples
        hessian = curvature.gram([_Features(prior, rows_at)], most, intercept=free)
        ones, total = hessian[rank:, :rank].sum(axis=0), float(hessian[rank:, rank:].sum())
        shares = ones / total if free else ones  # how the intercept follows the coefficients: it is profiled out
        h, U = eigh(hessian[:rank, :rank] - shares[:, None] * ones, check_finite=False)
        h = np.maximum(h, 0.0)
        s2 = 1.0
        if loss.name not in LIKELIHOODS:
            squares, bend = float(np.sum(rho[k] ** 2 / weight)), float(np.sum(curvature.diagonal / weight))
            left = len(weight) - float(np.sum(h / (1.0 + h))) - free
            s2 = squares / bend * len(weight) / max(left, 1.0) if bend > 0 else 0.0
        a = np.zeros(rank) if _is_ridge(model) else h**2 / (h**2 + KNOWN**2)
        bias = U @ (np.sqrt(a) / (1.0 + h) * (U.T @ _coefficients(prior, values_at(chosen)[:, :, k])))
        noise = a * h / (1.0 + h) ** 2  # of the square of the bias, which is estimated, too
        inner = (U * (s2 * (h + 1.0 - a - noise) / (1.0 + h) ** 2)) @ U.T + np.outer(bias, bias)
        both = np.vstack([np.eye(rank), -shares])
        covariance = both @ inner @ both.T
        covariance[-1, -1] += s2 / total if free else 0.0
        found.append(replace(bare, covariance=covariance, dispersion=s2))
    return tuple(found)


def _coefficients(prior: Posterior, values: Array) -> Array:
    """Return the coefficients ``v`` (r,) of functions with these values (m, n) at all landmarks."""
    found = [np.zeros(0)]
    for places, (_, kernels, _, inverse) in zip(prior.kept.landmarks, prior.parts, strict=True):
        found.append(inverse @ values[kernels].sum(axis=0)[places])
    return np.concatenate(found)


def _landmarks(
    bank: FittedBank, weights: Array, rows_at: Callable[[Any], PreparedRows[Any]], n: int
) -> tuple[tuple[Array, ...], tuple[Array, ...], Array]:
    """Return the kernels and landmarks of every unit, and the rows of all landmarks."""
    units = tuple(np.array(own) for own in units_of(bank, int(weights.any())) if weights[own].any())
    pools: dict[int, tuple[Array, PreparedRows[Any]]] = {}
    found: list[Array] = []
    for own in units:
        index, pivots = np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.intp)
        grouping = _column_of_levels(bank, own)
        for size in POOLS if grouping is None else (POOL_OF_LEVELS,):
            if 2 * len(pivots) < len(index) or len(index) == n:
                break
            if size not in pools:
                chosen = some_rows(n, size, 0)
                pools[size] = chosen, rows_at(chosen)
            index, pool = pools[size]
            if grouping is None:
                pivots = factorize(cross_combine(bank, pool, pool, _only(weights, own)), LEFT_OUT)[1]
            else:
                pivots = _row_of_each_level(bank.take(own), pool, grouping)
        found.append(index[pivots])
    counts = _shared_out(np.array([len(own) for own in found], dtype=np.intp), MOST_LANDMARKS)
    places = {m: np.sort(found[m][:count]) for m, count in enumerate(counts) if count}
    kept = np.unique(np.concatenate([np.zeros(0, dtype=np.intp), *places.values()]))
    return tuple(units[m] for m in places), tuple(np.searchsorted(kept, own) for own in places.values()), kept


def _shared_out(wanted: Array, most: int) -> Array:
    """Return counts of at most ``wanted``, in all at most ``most``, with the largest ones made equal."""
    limits = np.arange(1, most + 1)
    fit = [limit for limit in limits if np.minimum(wanted, limit).sum() <= most]
    counts = np.minimum(wanted, max(fit, default=1))
    return np.where(np.cumsum(counts) <= most, counts, 0)


def _column_of_levels(bank: FittedBank, kernels: Array) -> int | None:
    """Return the column of levels of a unit that is a random intercept or slope, None for other units."""
    if len(kernels) > 1:
        return None
    spec = bank.table.specs[kernels[0]]
    if isinstance(spec, Overlap):
        return 0 if len(bank.table.positions[kernels[0]]) == 1 else None
    slope = slope_columns(spec)
    return None if slope is None else slope[0]


def _row_of_each_level(bank: FittedBank, pool: PreparedRows[Any], column: int) -> Array:
    """Return the row with the largest ``k(x, x)`` of each level, of the `MOST_LEVELS` levels with the most rows."""
    rows = bank.narrow(pool)
    sizes, levels = bank.diag(rows)[0], rows.points(0)[:, column]
    order = np.lexsort((-sizes, levels))
    order = order[sizes[order] > 0.0]
    _, first, counts = np.unique(levels[order], return_index=True, return_counts=True)
    return order[first[np.argsort(-counts, kind="stable")[:MOST_LEVELS]]]


def _shares_of_levels(
    bank: FittedBank,
    weights: Array,
    kernels: Array,
    n_landmarks: int,
    rows_at: Callable[[Any], PreparedRows[Any]],
    curvature: Any,
) -> Array:
    """Return the shares of a unit for `Bands`: every level has a prior and a normal likelihood of its own."""
    if (column := _column_of_levels(bank, kernels)) is None:
        return np.zeros(0)
    own = bank.take(kernels)
    rows = own.narrow(rows_at(slice(None)))
    levels = rows.points(0)[:, column]
    known = levels >= 0
    places = levels[known].astype(np.intp)
    if len(np.unique(places)) <= n_landmarks:
        return np.zeros(0)
    return np.asarray(
        1.0 / (1.0 + np.bincount(places, (curvature.diagonal * (weights[kernels] @ own.diag(rows)))[known]))
    )


def _only(weights: Array, kernels: Array) -> Array:
    """Return weights that are zero but for some kernels."""
    return weights * np.isin(np.arange(len(weights)), kernels)


def _weights_of(expansion: Expansion) -> Array:
    """Return ``d`` (K, m) of the kernels of the bank, zero where the model is a constant."""
    weights = expansion.weights
    return weights if expansion.active.size else np.zeros((len(weights), expansion.bank.n_kernels))


def _is_ridge(model: BaseEstimator) -> bool:
    """Return whether all kernels have weights that are given, not learned."""
    penalty = getattr(model, "penalty", None)
    return isinstance(penalty, Ridge) or (isinstance(penalty, str) and penalty == "ridge")


def _refusal(model: BaseEstimator) -> str | None:
    """Return why a model has no bands, whatever it keeps; None if it may have some."""
    loss = model._loss
    if not (loss.couples_samples or loss.smooth):
        return (
            "Bands are those of a Gaussian process at the learned weights, which needs second derivatives; the loss "
            f"{loss.name!r} is piecewise linear: {TO_REFIT}, or take conformal intervals."
        )
    if model._shares_weights and loss.name == "logistic":
        return f"Classes that share their weights have a coupled loss, of which there is no such posterior: {TO_REFIT}."
    if model._leaves_kernels_free:
        return (
            "Kernels without a penalty have no prior, and so no variance of a Gaussian process: "
            f"{TO_REFIT}, or such kernels a small penalty, as {{'age': Ridge(1e-4)}}."
        )
    return None


def posterior_of(model: BaseEstimator, target: int = 0) -> Posterior:
    """Return the posterior of a fitted estimator's function of a single target."""
    if (refusal := _refusal(model)) is not None:
        raise InvalidInputError(refusal)
    expansion: Expansion = model._expansion
    bank, weights = expansion.bank, _weights_of(expansion)
    every = getattr(model, "_bands", ()) or _bands_of_samples(model)
    return Posterior(bank, expansion.active, weights[min(target, len(weights) - 1)], every[target])


def _bands_of_samples(model: BaseEstimator) -> tuple[Bands, ...]:
    """Return bands of a model of matrices from the support rows; all other rows have zero slope.

    Under a smooth loss they have zero curvature as well; in a partial likelihood they are in no risk set.
    """
    expansion: Expansion = model._expansion
    support: Any = expansion.support
    known = support is not None and hasattr(model, "_support_weights") and expansion.bank.on_columns
    if not known:
        raise InvalidInputError(
            "This model keeps no training rows to measure uncertainty by: representation='factored', rows in chunks, "
            "sparse rows, shapes and older versions keep none. Fit it with resources={'representation': 'auto'}, or "
            f"{TO_REFIT}."
        )
    rho, weight = expansion.coefficients, model._support_weights
    y = np.reshape(model._support_targets, (len(weight), -1)).T
    weights = np.broadcast_to(_weights_of(expansion), (len(rho), expansion.bank.n_kernels))
    scores = cross_scores(expansion.bank, support, support, weights, rho) + np.atleast_1d(model.intercept_)

    def values_at(index: Array) -> Array:
        each = cross_apply_each(expansion.bank, support.take(index), support, np.ones(weights.shape[1]), rho.T)
        return each * weights.T[:, None]

    return _bands(model, support.take, values_at, [model._loss], y, scores.T, rho, weight)
