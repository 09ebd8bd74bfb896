"""Soft-margin SVMs on kernels with few features: thousands of them, each in milliseconds.

A Dirichlet kernel of degree one on one column is the inner product of three features, so a sum of ten has rank 21. An
interior-point method for the dual then costs N d^2 a step, where a general SVM solver crawls at large C.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve

MOST_STEPS = 60


@dataclass(frozen=True)
class LinearSVM:
    """The scores ``features @ coef + intercept``."""

    coef: np.ndarray
    intercept: float

    def error(self, features: np.ndarray, y: np.ndarray) -> float:
        """Return the share of samples whose sign is missed."""
        return float(np.mean(np.where(features @ self.coef + self.intercept > 0, 1.0, -1.0) != y))


def dirichlet_features(x: np.ndarray, frequencies: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Return features whose inner products are ``sum_m theta_m (1 + 2 cos(f_m (x - z)))``, (N, 1 + 2 M)."""
    frequencies = np.atleast_1d(frequencies)
    theta = np.full(len(frequencies), 1.0 / len(frequencies)) if weights is None else np.asarray(weights)
    angles, roots = np.multiply.outer(x, frequencies), np.sqrt(2.0 * theta)
    constant = np.full((len(x), 1), np.sqrt(theta.sum()))
    return np.hstack([constant, roots * np.cos(angles), roots * np.sin(angles)])


def fit_svm(features: np.ndarray, y: np.ndarray, C: float, tol: float = 1e-5) -> LinearSVM:
    """Minimize ``|w|^2 / 2 + C sum_i max(1 - y_i (w'x_i + b), 0)`` to a relative duality gap.

    Primal-dual steps with Mehrotra's centering on ``min a'ZZ'a / 2 - sum a`` over ``0 <= a <= C, y'a = 0``, with rows
    ``z_i = y_i x_i``; each step solves ``(D + ZZ') da + y db = r`` through the small matrix ``I + Z'D^-1 Z``.
    """
    Z, n = y[:, None] * features, len(y)
    a, b = np.full(n, 0.5 * C), 0.0
    low, high = np.ones(n), np.ones(n)  # multipliers of a >= 0 and a <= C
    for _ in range(MOST_STEPS):
        w = Z.T @ a
        slack = C - a
        dual_residual = Z @ w - 1.0 + b * y - low + high
        gap = float(a @ low + slack @ high)
        primal = 0.5 * w @ w + C * np.maximum(1 - Z @ w - b * y, 0).sum()
        if gap + abs(float(dual_residual @ a)) <= tol * max(primal, 1e-12) and abs(y @ a) <= tol * C:
            break
        solve = _factorized(Z, y, low / a + high / slack)
        affine = _directions(solve, y, a, slack, low, high, dual_residual, 0.0, None)
        step = _longest(a, slack, low, high, affine)
        after = (a + step * affine[0]) @ (low + step * affine[2]) + (slack - step * affine[0]) @ (
            high + step * affine[3]
        )
        target = gap / (2 * n) * (after / gap) ** 3
        moves = _directions(solve, y, a, slack, low, high, dual_residual, target, affine)
        step = 0.99 * _longest(a, slack, low, high, moves)
        a, b = a + step * moves[0], b + step * moves[1]
        low, high = low + step * moves[2], high + step * moves[3]
    return LinearSVM(features.T @ (y * a), b)


def _factorized(Z, y, diagonal):
    """Return a solver of ``(D + ZZ') da + y db = r, y'da = s``."""
    scaled = Z / diagonal[:, None]
    factor = cho_factor(np.eye(Z.shape[1]) + Z.T @ scaled)

    def inverse(r: np.ndarray) -> np.ndarray:
        return r / diagonal - scaled @ cho_solve(factor, Z.T @ (r / diagonal))

    column = inverse(y)

    def solve(r: np.ndarray, s: float) -> tuple[np.ndarray, float]:
        first = inverse(r)
        db = float(y @ first - s) / float(y @ column)
        return first - db * column, db

    return solve


def _directions(solve, y, a, slack, low, high, dual_residual, target, affine):
    """Return the moves of ``a, b, low, high`` toward products ``target``; second-order terms from the affine ones."""
    below = target - (affine[0] * affine[2] if affine is not None else 0.0)
    above = target + (affine[0] * affine[3] if affine is not None else 0.0)
    right = -dual_residual + (below / a - low) - (above / slack - high)
    da, db = solve(right, -float(y @ a))
    return da, db, below / a - low - low / a * da, above / slack - high + high / slack * da


def _longest(a, slack, low, high, moves) -> float:
    """Return the longest step of at most one that keeps everything positive."""
    longest = 1.0
    for value, change in ((a, moves[0]), (slack, -moves[0]), (low, moves[2]), (high, moves[3])):
        falling = change < 0
        if falling.any():
            longest = min(longest, float(np.min(-value[falling] / change[falling])))
    return longest
