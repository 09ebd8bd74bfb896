"""What a fitted model keeps to predict: active kernels and support samples, nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from manykernels.grams import cross_apply, cross_apply_each
from manykernels.kernels import FittedBank, PreparedRows
from manykernels.validation.arrays import Array

CHUNK_ENTRIES = 8 * 2**20  # float64 values held at once while predicting


@dataclass(frozen=True, eq=False)
class KernelExpansion:
    """``f_k(x) = sum_m d_km sum_i rho_ki k_m(x, x_i)`` on active kernels and support samples."""

    bank: FittedBank  # active kernels only (the first kernel if there is none)
    support: PreparedRows[Any]  # support samples, as that bank needs them
    active: Array  # (m,) int: positions of the active kernels among all
    n_kernels: int  # number of all kernels
    weights: Array  # (K, m) float64: d of the active kernels; (1, m) if all functions share them
    coefficients: Array  # (K, n_support) float64: rho of the support samples

    @classmethod
    def of(cls, bank: FittedBank, prepared: PreparedRows[Any], weights: Array, coefficients: Array) -> KernelExpansion:
        """Keep what the model needs of a fitted bank and its training rows."""
        active, support = np.flatnonzero(weights.any(axis=0)), np.flatnonzero(coefficients.any(axis=0))
        kept = bank.take(active if active.size else [0])
        rows = kept.narrow(prepared).take(support).detach()
        return cls(kept, rows, active, len(bank), weights[:, active], coefficients[:, support])

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the active kernels."""
        return tuple(self.bank.names) if self.active.size else ()

    @property
    def n_targets(self) -> int:
        """Number of functions, K."""
        return len(self.coefficients)

    @property
    def _empty(self) -> bool:
        return not self.active.size or not self.coefficients.shape[1]

    def scores(self, X: Any) -> Array:
        """Return the functions without intercept at new rows, (n, K) float64."""
        rows = self.bank.prepare(X)
        scores = np.zeros((rows.n_samples, self.n_targets))
        if self._empty:
            return scores
        if len(self.weights) == 1:
            return cross_apply(self.bank, rows, self.support, self.weights[0], self.coefficients.T)
        for at in self._chunks(rows.n_samples):
            scores[at] = self._each(rows.take(at)).sum(axis=0)
        return scores

    def contributions(self, X: Any) -> Array:
        """Return what every kernel adds to every function, (M, n, K) float64; zero for inactive kernels."""
        active = self.active_contributions(X)
        parts = np.zeros((self.n_kernels, *active.shape[1:]))
        parts[self.active] = active
        return parts

    def active_contributions(self, X: Any) -> Array:
        """Return what every active kernel adds to every function, (m, n, K) float64."""
        rows = self.bank.prepare(X)
        parts = np.zeros((self.active.size, rows.n_samples, self.n_targets))
        if not self._empty:
            for at in self._chunks(rows.n_samples):
                parts[:, at] = self._each(rows.take(at))
        return parts

    def _each(self, rows: PreparedRows[Any]) -> Array:
        """Return ``d_km sum_i rho_ki k_m(x, x_i)`` of the active kernels, (m, n, K); each kernel is computed once."""
        each = cross_apply_each(self.bank, rows, self.support, np.ones(self.active.size), self.coefficients.T)
        return each * self.weights.T[:, None, :]

    def _chunks(self, n_rows: int) -> Iterator[slice]:
        per_row = self.active.size * self.n_targets + self.coefficients.shape[1]
        step = max(1, CHUNK_ENTRIES // per_row)
        for start in range(0, n_rows, step):
            yield slice(start, min(start + step, n_rows))


def class_probabilities(scores: Array, single: bool) -> Array:
    """Return probabilities from the scores of logistic losses, (n, n_classes); rows sum to one."""
    if single:
        return expit(np.hstack([-scores, scores]))
    # Relative to the largest score, so that no row is zero however certain the classifiers are.
    logs = -np.logaddexp(0.0, -scores)
    shares = np.exp(logs - logs.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)
