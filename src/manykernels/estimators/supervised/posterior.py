r"""How sure a fitted function is: the posterior of a Gaussian process at the learned kernel weights.

At fixed weights d the penalty is sum_m ||f_m||^2 / (2 d_m), which is the logarithm of the prior f_m ~ GP(0, s2 d_m k_m)
with noise of variance s2 / s_i at a sample of weight s_i, and of a flat prior on the intercept. With ``K`` the weighted
sum of the Gram matrices, ``W`` the second derivatives of the losses (the sample weights, for the squared loss),

    A = K + W^-1,    Q = A^-1 - A^-1 1 1' A^-1 / (1' A^-1 1)    (A^-1 without an intercept),

the covariance of a sum g of some of the functions, between rows P, and the variance of the whole score are

    Cov g(P)      = s2 [k_g(P, P) - k_g(P, X) Q k_g(X, P)],
    Var f(x) + b  = s2 [k(x, x) - k(x, X) A^-1 k(X, x) + (1 - 1' A^-1 k(X, x))^2 / (1' A^-1 1)].

For the squared loss ``s2 = sum_i rho_i^2 / s_i / sum_i Q_ii / s_i``, the weighted sum of squared residuals over N minus
the trace of the smoother. For the logarithms of likelihoods ``s2 = 1``, and the posterior is Laplace's approximation.
It is plug-in: the weights are taken as if they had been known, so bands are too narrow where they are uncertain.

**Kernels held as factors.** The model keeps at most `MOST_ROWS` training rows, drawn at random, each with the weight of
N / n rows: the same formulas on n rows, with W times N / n, have the information of all N rows up to sampling. Between
the rows kept, functions with more degrees of freedom than n have the variance of the prior: bands are too wide there,
never too narrow. The squared residuals are those of all rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from sklearn.base import BaseEstimator

from manykernels.estimators.supervised.importance import some_rows
from manykernels.exceptions import InvalidInputError
from manykernels.grams import cross_combine
from manykernels.grams.expansion import CHUNK_ENTRIES, Expansion
from manykernels.kernels import FittedBank, PreparedRows, Shaped
from manykernels.kernels.bank.columns import Table
from manykernels.validation.arrays import Array

if TYPE_CHECKING:
    from manykernels.estimators.supervised.samples import Samples
    from manykernels.solvers import Solution

MOST_ROWS = 1000  # that a model of factors keeps: their matrix takes 0.2 s, and functions have fewer degrees of freedom
KEPT = ("_band_rows", "_band_weights", "_band_scores", "_band_squares", "_band_missing")
LIKELIHOODS = ("logistic", "poisson")  # losses that are minus the logarithm of one, second derivatives free of y
BANDS_OF = "the losses 'squared', 'logistic' and 'poisson'"


@dataclass(frozen=True, eq=False)
class Posterior:
    """The posterior of a single target's function at the learned weights."""

    bank: FittedBank  # the active kernels
    active: Array  # (m,) int: their positions among all
    support: PreparedRows[Any]
    weights: Array  # (m,) float64: d of the active kernels
    inverse: Array  # (n, n) float64: A^-1
    sums: Array  # (n,) float64: A^-1 1, zero without an intercept
    noise_variance: float  # s2

    def variance(self, X: object) -> Array:
        """Return the variance of ``f(x) + b`` at new rows, (n,)."""
        bank, rows = self.bank, self.bank.prepare(X)
        found = np.zeros(rows.n_samples)
        if not self.inverse.size:
            return found
        step = max(1, CHUNK_ENTRIES // max(len(self.inverse), len(self.weights)))
        for start in range(0, len(found), step):
            at = slice(start, min(start + step, len(found)))
            cross = cross_combine(bank, rows.take(at), self.support, self.weights)
            prior = self.weights @ bank.diag(rows.take(at))
            found[at] = prior - np.einsum("ij,ij->i", cross @ self.inverse, cross)
            if self.sums.any():
                found[at] += (1.0 - cross @ self.sums) ** 2 / self.sums.sum()
        return self.noise_variance * np.maximum(found, 0.0)

    def part_variance(self, X: object, kernels: Array, mean: Array) -> Array:
        """Return the variance of the sum of some functions less the mean, at a few rows, (n,)."""
        bank, rows = self.bank, self.bank.prepare(X)
        own = self.weights * np.isin(self.active, kernels)
        cross = cross_combine(bank, rows, self.support, own)
        reduced = cross @ self.inverse @ cross.T
        if self.sums.any():
            through = cross @ self.sums
            reduced -= np.outer(through, through) / self.sums.sum()
        covariance = cross_combine(bank, rows, rows, own) - reduced
        along = covariance @ mean
        found = np.diag(covariance) - 2.0 * along + mean @ along
        return self.noise_variance * np.maximum(found, 0.0)


def keep_band_rows(model: BaseEstimator, solutions: Sequence[Solution], samples: Samples) -> None:
    """Keep what bands of a model of factors are computed from: some training rows, their weights and scores.

    Nothing is kept for losses without a posterior, rows in chunks, and functions with a shape.
    """
    bank, loss, rows = model._expansion.bank, model._loss, samples.rows
    likelihood = loss.name in LIKELIHOODS and not model._shares_weights
    if not (likelihood or loss.name == "squared") or not isinstance(rows, Table):
        return
    if rows.is_sparse or any(isinstance(spec, Shaped) for spec in bank.table.specs):
        return
    n = len(samples.weight)
    kept = some_rows(n, MOST_ROWS, 0)
    some = rows[kept]
    intercepts = np.concatenate([np.atleast_1d(found.intercept) for found in solutions])
    model._band_rows = bank.prepare(some).detach()
    model._band_weights = samples.weight[kept] * (n / len(kept))
    model._band_scores = model._expansion.scores(some) + intercepts
    rho = np.hstack([found.dual_coef.reshape(n, -1) for found in solutions])
    model._band_squares = np.sum(rho**2 / samples.weight[:, None], axis=0)
    model._band_missing = n - len(kept)


def posterior_of(model: BaseEstimator, target: int = 0) -> Posterior:
    """Return the posterior of a fitted estimator's function of a single target."""
    expansion: Expansion = model._expansion
    bank, loss = expansion.bank, model._loss
    if loss.name != "squared" and loss.name not in LIKELIHOODS:
        raise InvalidInputError(
            f"Bands are those of a Gaussian process at the learned weights, for {BANDS_OF}; the loss {loss.name!r} "
            "is no likelihood with a curvature. Give a display bands=bootstrap_refits(model, X, y), of "
            "manykernels.inspection, or take conformal intervals."
        )
    if model._shares_weights and loss.name == "logistic":
        raise InvalidInputError(
            "Classes that share their weights have a coupled loss, of which there is no such posterior: give a display "
            "bands=bootstrap_refits(model, X, y), of manykernels.inspection."
        )
    if model._leaves_kernels_free:
        raise InvalidInputError(
            "Kernels without a penalty have no prior, and so no variance of a Gaussian process: give a display "
            "bands=bootstrap_refits(model, X, y), of manykernels.inspection, or such kernels a small penalty, as "
            "{'age': Ridge(1e-4)}."
        )
    factored = expansion.support is None
    if factored and "_band_rows" not in model.__dict__:
        raise InvalidInputError(
            "This model keeps no training rows to measure uncertainty by: representation='factored', rows in chunks "
            "and shapes keep none. Fit it with resources={'representation': 'auto'}, or give a display "
            "bands=bootstrap_refits(model, X, y), of manykernels.inspection."
        )
    if not factored and "_support_weights" not in model.__dict__:
        raise InvalidInputError("This model was made without what bands need; fit it again.")
    support: Any = model._band_rows if factored else expansion.support
    weights = expansion.weights[min(target, len(expansion.weights) - 1)]
    weights = weights if weights.size else np.zeros(bank.n_kernels)  # the model is a constant
    gram = cross_combine(bank, support, support, weights)
    if factored:
        sample_weight, scores = model._band_weights, model._band_scores[:, target]
        squares, missing = model._band_squares[target], model._band_missing
    else:
        sample_weight, rho = model._support_weights, expansion.coefficients[target]
        scores, missing = gram @ rho + np.atleast_1d(model.intercept_)[target], 0
        squares = (rho**2 / sample_weight).sum() if rho.size else 0.0
    if not len(scores) or (loss.name == "squared" and not squares):  # nothing is left to explain
        return Posterior(bank, expansion.active, support, weights, np.zeros((0, 0)), np.zeros(0), 0.0)
    curvature = sample_weight * loss.second_derivative(np.ones(len(scores)), scores)
    factor = cho_factor(gram + np.diag(1.0 / np.maximum(curvature, np.finfo(np.float64).tiny)), lower=True)
    inverse = cho_solve(factor, np.eye(len(scores)))
    sums = inverse.sum(axis=0) if model.fit_intercept else np.zeros(len(scores))
    variance = 1.0
    if loss.name == "squared":
        left = np.diag(inverse) - (sums**2 / sums.sum() if model.fit_intercept else 0.0)
        variance = float(squares / (missing + (left / sample_weight).sum()))
    return Posterior(bank, expansion.active, support, weights, inverse, sums, variance)
