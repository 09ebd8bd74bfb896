r"""Uncertainty of fitted functions: a Gaussian process at the learned kernel weights, with an estimated bias.

At fixed weights ``d`` the penalty is ``sum_m ||f_m||^2 / (2 d_m)``, the negative logarithm of the prior
``f_m ~ GP(0, s2 d_m k_m)``; the intercept has a flat prior. Each unit of kernels, those on the same columns, has
landmarks ``S`` among the training rows: pivots of the Cholesky factorization of ``K_u = sum_m d_m K_m``, which leave
`LEFT_OUT` of its trace. The coefficients ``v`` of the features ``c_u(x) = k_u(x, S) L'^-1``, ``k_u(S, S) = L L'``,
have independent priors of variance ``s2``. With ``C`` the features of all units and rows, and ``W`` the second
derivatives of the loss (the sample weights, for the squared loss),

    H = C' W C - C' W 1 1' W C / (1' W 1) = U diag(h) U',        V = U diag(1 / (1 + h)) U',

where ``s2 V`` is the posterior covariance of ``v``: the inverse Hessian of a Newton step, of the size of all ranks at
any number of rows. It is the variance of the estimate, ``h / (1 + h)^2``, and the square of its bias that the prior
expects, ``1 / (1 + h)^2``. Learned weights make a poor prior: it is too wide for kernels that are rougher than the
function, and too narrow for functions that are large beside ``s2 d_m``. The data determine a share ``k = h / (1 + h)``
of a direction. For this share the bias of the estimate ``v`` itself takes the place of that of the prior; for the rest
the prior of unit ``u`` has the variance ``s2 t_u``, ``T = diag(t)``, of the moments of the rest of the estimate,
``w = R v``:

    Cov v = s2 U diag((h - e) / (1 + h)^2) U' + s2 A T A + b b',
    A = U diag((1 - k)^3/2) U',        b = U diag(k^1/2 (1 - k)) U' v,        R = U diag((1 - k)^1/2) U',
    t_u = max(1, (1 + |w_u|^2 / s2 - tr (R (K - K^2) R)_uu) / (1 + |(R K)_uu|^2)),      K = U diag(k) U',

with the learned prior as one observation more, and with the variance ``e = k^2 (1 - k)`` of the estimated bias, so
that the sum is unbiased where ``v`` is zero.

Kernels that are all under ridge keep their prior, ``s2 V``, and bands are those of a Gaussian process. What
landmarks leave of a kernel keeps the variance of the prior, so that bands widen away from the data.

**Groupings.** The levels of the grouping with the most levels have no landmarks. Rows of level ``g`` have a feature
``z`` (1 or the slope's number, times the root of ``d``), and the Hessian of the levels is diagonal. With the features
``C`` of all other units and the constant, the levels are eliminated by a Schur complement, in time linear in ``N``:

    H - sum_g m_g m_g' / (1 + D_g),      D_g = sum_(i in g) W_i z_i^2,      m_g = sum_(i in g) W_i z_i C_i .

Given the others, ``v_g`` has the mean ``-m_g' v / (1 + D_g)`` and the variance ``s2 / (1 + D_g)``. Of many rows, the
complement is summed over a sample of levels with all their rows. Where the ``m_g`` are too many to be stored, all
levels share the mean of ``C``. Levels of further large groupings have this variance, and the mean zero.

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
MOST_LEVELS = 200  # of a further grouping, up to which levels have landmarks
FEW_LEVELS = 50  # of the largest grouping, up to which all levels have a landmark
MOST_CENTERS = 2**21  # numbers of all ``m_g``: 16 MB a target
MOST_LANDMARKS = 1500  # of all units: 18 MB a target
HESSIAN_COST = 5e9  # products of a Hessian: with features 1 s; of more rows a weighted sample is taken
ROWS_PER_RANK = 40  # in such a sample, at least: errors of deviations are some 10 %
LIKELIHOODS = ("logistic", "poisson", "cox")  # negative logarithms of likelihoods without a free dispersion
JITTER = 1e-13  # of the largest diagonal entry
TO_REFIT = "give a display bands=bootstrap_refits(model, X, y), of manykernels.inspection"


@dataclass(frozen=True, eq=False)
class Levels:
    """The levels of a grouping, whose coefficients are independent of each other, given all others."""

    kernel: int  # the position among the active ones
    values: Array  # (L,): sorted codes
    information: Array  # (L,): D
    factors: Array  # (L,): of the centers, in minus the means of the coefficients
    centers: Array  # (L, r + 1), or (1, r + 1) for all levels

    def features(self, bank: FittedBank, weights: Array, rows: PreparedRows[Any]) -> tuple[Array, Array, Array]:
        """Return ``z`` of rows (n,), minus what the coefficients add by the others (n, r + 1), and ``D / (1 + D)``."""
        z, codes = _level_features(bank.take([self.kernel]), float(weights[self.kernel]), rows)
        at = np.minimum(np.searchsorted(self.values, codes), len(self.values) - 1)
        z = np.where(self.values[at] == codes, z, 0.0)
        centers = self.centers[at if len(self.centers) > 1 else np.zeros_like(at)]
        share = self.information[at] / (1.0 + self.information[at])
        return z, (z * self.factors[at])[:, None] * centers, share


@dataclass(frozen=True, eq=False)
class Bands:
    """What a model keeps for the uncertainty of one target."""

    rows: PreparedRows[Any]  # the landmarks of all units
    units: tuple[Array, ...]  # kernels of each unit, positions among the active ones
    landmarks: tuple[Array, ...]  # rows of each unit, positions among `rows`
    covariance: Array  # (r + 1, r + 1) float64: of the coefficients and the intercept
    dispersion: float  # s2
    levels: tuple[Levels, ...] = ()  # of large groupings, which have no landmarks


@dataclass(frozen=True, eq=False)
class Posterior:
    """The uncertainty of one target's function."""

    bank: FittedBank  # the active kernels
    active: Array  # (m,) int: their positions among all
    weights: Array  # (m,) float64: d of the active kernels
    kept: Bands

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
            left = self.weights @ self.bank.diag(at) - np.einsum("ij,ij->i", c, c)
            c = np.hstack([c, np.ones((len(c), 1))])
            for own in self.kept.levels:
                z, by_others, share = own.features(self.bank, self.weights, at)
                c -= by_others
                left -= share * z**2
            known = np.einsum("ij,ij->i", c @ self.kept.covariance, c)
            found[start : start + step] = known + self.kept.dispersion * np.maximum(left, 0.0)
        return np.maximum(found, 0.0)

    def part_covariance(self, X: object, kernels: Array, mean: Array) -> Array:
        """Return the covariance of the sum of some functions less its mean, at a few rows, (n, n)."""
        rows, chosen = self.bank.prepare(X), np.isin(self.active, kernels).astype(np.float64)
        c = self.features(rows, chosen)
        left = cross_combine(self.bank, rows, rows, self.weights * chosen) - c @ c.T
        c = np.hstack([c, np.zeros((len(c), 1))])
        for own in (own for own in self.kept.levels if chosen[own.kernel]):
            z, by_others, share = own.features(self.bank, self.weights, rows)
            c -= by_others
            alike = cross_combine(self.bank, rows, rows, _only(self.weights, np.array([own.kernel])))
            left -= alike * np.sqrt(np.outer(share, share) * np.outer(z != 0, z != 0))
        covariance = c @ self.kept.covariance @ c.T + self.kept.dispersion * left
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
    asked = expansion.stores_samples or model._resources.representation == FACTORED
    if asked or _refusal(model) or not isinstance(rows, Table) or not fit.problems:
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

    model._bands = _bands(
        model, rows_at, lambda bank: bank.prepare(rows), values_at, losses, y, scores.T, rho.T, samples.weight
    )


def _bands(
    model: BaseEstimator,
    rows_at: Callable[[Any], PreparedRows[Any]],
    rows_of: Callable[[FittedBank], PreparedRows[Any]],
    values_at: Callable[[Array], Array],
    losses: Sequence[Any],
    y: Array,
    scores: Array,
    rho: Array,
    weight: Array,
) -> tuple[Bands, ...]:
    """Return what the uncertainty of targets (K, n) takes, from their scores and dual coefficients.

    ``rows_of`` returns all rows for some of the kernels, and ``values_at`` the parts (m, n, K) of all kernels at some.
    """
    expansion, weights = model._expansion, _weights_of(model._expansion)
    bank, found = expansion.bank, []
    for k, own in enumerate(np.broadcast_to(weights, (len(rho), weights.shape[1]))):
        loss = losses[min(k, len(losses) - 1)]
        curvature = loss.bind(y[k], weight).curvature(scores[k])
        groupings = _large_groupings(bank, own, rows_of, curvature)
        units, landmarks, chosen = _landmarks(
            bank, own, rows_at, len(weight), [each.kernel for each, _, _ in groupings]
        )
        rank = sum(map(len, landmarks))
        bare = Bands(rows_at(chosen).detach(), units, landmarks, np.zeros((rank + 1, rank + 1)), 1.0)
        prior = Posterior(bank, expansion.active, own, bare)
        most = max(ROWS_PER_RANK * rank, int(HESSIAN_COST / max(rank, 1) ** 2))
        free = bool(model._free_constant) and not loss.couples_samples
        features = _Features(prior, rows_at)
        levels: tuple[Levels, ...] = ()
        spent, square = 0.0, np.zeros((rank + 1, rank + 1))
        if groupings:
            hessian, levels, spent, square = _eliminate_levels(groupings, features, curvature.diagonal, most)
            hessian = hessian[: rank + free, : rank + free]
        else:
            hessian = curvature.gram([features], most, n_constants=int(free))
        ones, total = hessian[rank:, :rank].sum(axis=0), float(hessian[rank:, rank:].sum())
        shares = ones / total if free else ones  # how the intercept follows the coefficients: it is profiled out
        h, U = eigh(hessian[:rank, :rank] - shares[:, None] * ones, check_finite=False)
        h = np.maximum(h, 0.0)
        both = np.vstack([np.eye(rank), -shares])
        given = (U / (1.0 + h)) @ U.T
        s2, of_constant = 1.0, 1.0 / total if free else 0.0
        if loss.name not in LIKELIHOODS:
            squares, bend = float(np.sum(rho[k] ** 2 / weight)), float(np.sum(curvature.diagonal / weight))
            spent -= float(np.sum(square * (both @ given @ both.T))) + of_constant * square[-1, -1]
            left = len(weight) - float(np.sum(h / (1.0 + h))) - free - spent
            s2 = squares / bend * len(weight) / max(left, 1.0) if bend > 0 else 0.0
        v = _coefficients(prior, values_at(chosen)[:, :, k])
        inner = s2 * given if _is_ridge(model) else _covariance(v, h, U, landmarks, s2)
        covariance = both @ inner @ both.T
        covariance[-1, -1] += s2 * of_constant
        found.append(replace(bare, covariance=covariance, dispersion=s2, levels=levels))
    return tuple(found)


def _covariance(v: Array, h: Array, U: Array, landmarks: Sequence[Array], s2: float) -> Array:
    """Return the covariance (r, r) of coefficients ``v`` (r,) at learned weights, for a Hessian ``U diag(h) U'``."""
    rest, z = 1.0 / (1.0 + h), U.T @ v
    share = h * rest  # of every direction, which the data determine
    t = _prior_variances(U @ (np.sqrt(rest) * z), share, U, landmarks, s2)
    bias, expected = U @ (np.sqrt(share) * rest * z), (U * rest**1.5) @ U.T * np.sqrt(t)
    noise = (h - share**2 * rest) * rest**2  # less what the square of the bias has of it, which is estimated, too
    return (U * (s2 * noise)) @ U.T + s2 * expected @ expected.T + np.outer(bias, bias)


def _prior_variances(w: Array, share: Array, U: Array, landmarks: Sequence[Array], s2: float) -> Array:
    """Return the variance of the prior of every coefficient over ``s2``: by unit, from moments, at least 1; (r,)."""
    known, noise = (U * (share * np.sqrt(1.0 - share))) @ U.T, (U**2) @ (share * (1.0 - share) ** 2)
    out, start = np.ones(len(w)), 0
    for own in landmarks if s2 > 0 else ():
        unit = slice(start, start + len(own))
        seen, start = np.sum(known[unit, unit] ** 2), unit.stop
        out[unit] = max((1.0 + w[unit] @ w[unit] / s2 - noise[unit].sum()) / (1.0 + seen), 1.0)
    return out


def _coefficients(prior: Posterior, values: Array) -> Array:
    """Return the coefficients ``v`` (r,) of functions with these values (m, n) at all landmarks."""
    found = [np.zeros(0)]
    for places, (_, kernels, _, inverse) in zip(prior.kept.landmarks, prior.parts, strict=True):
        found.append(inverse @ values[kernels].sum(axis=0)[places])
    return np.concatenate(found)


def _large_groupings(
    bank: FittedBank, weights: Array, rows_of: Callable[[FittedBank], PreparedRows[Any]], curvature: Any
) -> list[tuple[Levels, Array, Array]]:
    """Return groupings without landmarks, the one with the most levels first, with levels and features of rows."""
    found = []
    for own in units_of(bank, int(weights.any())) if curvature.separable else []:
        kernel = int(own[0])
        if weights[kernel] and _columns_of_levels(bank, own) is not None:
            part = bank.take([kernel])
            z, codes = _level_features(part, float(weights[kernel]), rows_of(part))
            values, places = np.unique(codes, return_inverse=True)
            information = np.bincount(places, curvature.diagonal * z**2)
            found.append((Levels(kernel, values, information, np.zeros(len(values)), np.zeros((1, 1))), places, z))
    found.sort(key=lambda each: -len(each[0].values))
    return [each for n, each in enumerate(found) if len(each[0].values) > (MOST_LEVELS if n else FEW_LEVELS)]


def _level_features(bank: FittedBank, weight: float, rows: PreparedRows[Any]) -> tuple[Array, Array]:
    """Return the features of rows for the grouping of a single kernel, and the codes of levels, (n,) each."""
    rows = bank.narrow(rows)
    column, number = _columns_of_levels(bank, [0]) or (0, None)
    points, z = rows.points(0), np.sqrt(weight * bank.diag(rows)[0])
    return z if number is None else z * np.sign(points[:, number]), points[:, column]


def _eliminate_levels(
    groupings: Sequence[tuple[Levels, Array, Array]], features: _Features, curvature: Array, most: int
) -> tuple[Array, tuple[Levels, ...], float, Array]:
    """Return the Hessian (r + 1, r + 1) of features and constant after the elimination of levels, and the levels.

    Then the degrees of freedom of the levels, and the matrix whose product with the inverse Hessian is not among them.
    """
    (first, places, z), rank = groupings[0], int(features.starts[-1])
    n_levels, D = len(first.values), first.information
    order = np.random.default_rng(0).permutation(n_levels)
    counts = np.cumsum(np.bincount(places)[order])
    taken = np.sort(order[: min(1 + int(np.searchsorted(counts, most)), max(8 * MOST_CENTERS // (rank + 1), 1))])
    local = np.full(n_levels, -1)
    local[taken] = np.arange(len(taken))
    index = np.argsort(places, kind="stable")
    index = index[local[places[index]] >= 0]
    own, W, pull = local[places[index]], curvature[index], (curvature * z)[index]
    H, M = np.zeros((rank + 1, rank + 1)), np.zeros((len(taken), rank + 1))
    step = max(1, CHUNK_ENTRIES // (rank + 1))
    for part in (slice(start, start + step) for start in range(0, len(index), step)):
        C = np.hstack([features.rows(index[part]), np.ones((len(own[part]), 1))])
        H += C.T @ (W[part, None] * C)
        heads = np.flatnonzero(np.diff(own[part], prepend=-1))
        M[own[part][heads]] += np.add.reduceat(pull[part, None] * C, heads)
    tiny = np.finfo(np.float64).tiny
    mean, follows = H[-1:] / max(H[-1, -1], tiny), M / (1.0 + D[taken, None])
    scale = curvature.sum() / max(W.sum(), tiny)
    H = scale * (H - M.T @ follows)
    if len(taken) == n_levels and M.size <= MOST_CENTERS:
        exact = replace(first, factors=1.0 / (1.0 + D), centers=M)
    else:
        exact = replace(first, factors=np.bincount(places, curvature * z) / (1.0 + D), centers=mean)
    others = [replace(each, centers=0.0 * mean) for each, _, _ in groupings[1:]]
    spent = sum(float(np.sum(each.information / (1.0 + each.information))) for each in (exact, *others))
    return H, (exact, *others), spent, scale * (follows.T @ follows)


def _landmarks(
    bank: FittedBank,
    weights: Array,
    rows_at: Callable[[Any], PreparedRows[Any]],
    n: int,
    eliminated: Sequence[int] = (),
) -> tuple[tuple[Array, ...], tuple[Array, ...], Array]:
    """Return the kernels and landmarks of every unit, and the rows of all landmarks."""
    every = [own for own in units_of(bank, int(weights.any())) if weights[own].any()]
    units = tuple(np.array(own) for own in every if own[0] not in eliminated)
    pools: dict[int, tuple[Array, PreparedRows[Any]]] = {}
    found: list[Array] = []
    for own in units:
        index, pivots = np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.intp)
        for size in POOLS:
            if 2 * len(pivots) < len(index) or len(index) == n:
                break
            if size not in pools:
                chosen = some_rows(n, size, 0)
                pools[size] = chosen, rows_at(chosen)
            index, pool = pools[size]
            pivots = factorize(cross_combine(bank, pool, pool, _only(weights, own)), LEFT_OUT)[1]
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


def _columns_of_levels(bank: FittedBank, kernels: Sequence[int] | Array) -> tuple[int, int | None] | None:
    """Return the column of levels of a random intercept or slope, and that of the slope; None for other units."""
    if len(kernels) > 1:
        return None
    spec = bank.table.specs[kernels[0]]
    if isinstance(spec, Overlap):
        return (0, None) if len(bank.table.positions[kernels[0]]) == 1 else None
    return slope_columns(spec)


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

    def rows_of(bank: FittedBank) -> PreparedRows[Any]:
        return bank.narrow(support)

    return _bands(model, support.take, rows_of, values_at, [model._loss], y, scores.T, rho, weight)
