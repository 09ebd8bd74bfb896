"""Rows left out of a fitted model in closed form: the mathematics of ``importance``, a single target at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import block_diag, cho_factor, cho_solve, cholesky, solve_triangular
from scipy.linalg.lapack import dpotri, dtrtri

from manykernels.exceptions import IncompatibleError
from manykernels.objective.losses import Loss
from manykernels.objective.problem import Problem
from manykernels.validation.arrays import Array

EDGE = 1e-3  # of the dual box: what is nearer to an end than that is at the end
LOOSE = 1e-4  # smallest curvature of the penalty along functions, in units of that across them
LEVERAGE = 0.5  # W C of a row above which it decides more of its own score than all others: its weights stay
FULL = 1e-6  # 1 - W C is no smaller: a row that alone decides its score says nothing without itself
CHUNK = 512  # rows left out at a time: beside all features, two matrices of as many rows
ALIKE = 1e-3  # smallest over largest root of the curvatures, down to which differences from 1 are accurate


@dataclass(frozen=True, eq=False)
class Target:
    """A target of a fitted model, at the rows left out in turn."""

    values: Array  # (m, n): what each active kernel adds
    scores: Array  # (n,): their sum, and the constant
    rho: Array  # (n,): dual coefficients
    curvature: Array  # (n,): W
    constants: Array  # (n, g): what may be added to the scores at no cost
    weights: Array  # (m,): d
    norms: Array  # (m,): ||f_m||
    bends: Array  # (2, m): S = diag(bends[0]) + bends[1] bends[1]'
    share: float = 1.0  # rows of the fit for each of these

    def leave_out(self, covariances: Callable[[Target], tuple[Array, Array]]) -> tuple[Array, Array]:
        """Return scores (n,) and parts (m, n) without the row, from the covariances of the parts (m, n) and (n,).

        Rows that nearly determine a direction in which nothing else bends are left out at the weights of the fit.
        """
        each, constant = covariances(self)
        high = self.curvature * (each.sum(axis=0) + constant) > LEVERAGE
        fixed = replace(self, bends=np.array([np.ones(len(self.norms)), np.zeros(len(self.norms))]))
        if high.any() and not np.array_equal(fixed.bends, self.bends):
            own = covariances(fixed)
            each[:, high], constant[high] = own[0][:, high], own[1][high]
        whole = each.sum(axis=0) + constant
        steps = self.rho / np.maximum(1.0 - self.curvature * whole, FULL)
        return self.scores - steps * whole, self.values - steps * each

    def stiffness(self) -> tuple[Array, Array]:
        """Return eigenvalues (m,) of ``S``, none below `LOOSE`, and eigenvectors (m, m).

        Norms end at zero, at the kink of the penalty: a function that would pass zero without a row, by the curvature
        along the function, keeps the weight. Likewise the function of a single row.
        """
        units = self.values / np.where(self.norms > 0, self.norms, 1.0)[:, None]
        bent = self.curvature * units**2
        others = self.share * bent.sum(axis=1) + self.bends[0] / np.where(self.weights > 0, self.weights, 1.0)
        beyond = (np.abs(self.rho * units) > self.norms[:, None] * (others[:, None] - bent)).any(axis=1)
        diagonal, coupling = np.where(beyond, [[1.0], [0.0]], self.bends)
        values, vectors = diagonal, np.eye(len(diagonal))
        if coupling.any():
            values, vectors = np.linalg.eigh(np.diag(diagonal) + np.outer(coupling, coupling))
        return np.clip(values, LOOSE, 1.0), vectors


def bends_of(problem: Problem, weights: Array, norms: Array, active: Array) -> Array:
    """Return how the penalty bends along active functions, in units of how it does across them, (2, m).

    Ones and zeros, as if weights were given, where a penalty does not tell, where functions of several targets share
    it, and for losses with kinks, whose few rows at a kink do not determine directions in which nothing else bends.
    """
    fixed = np.array([np.ones(active.size), np.zeros(active.size)])
    if problem.shared or not (problem.loss.couples_samples or problem.loss.smooth):
        return fixed
    try:
        diagonal, coupling = problem.regularizer.curvature(problem.penalties * norms)
    except IncompatibleError:
        return fixed
    root = np.sqrt(weights[active]) * problem.penalties[active]
    with np.errstate(invalid="ignore"):  # of kernels without a norm, whose second derivatives may be infinite
        found = np.array([root**2 * np.broadcast_to(diagonal, norms.shape)[active], root * coupling[active]])
    return np.where(np.isfinite(found), found, fixed)


def curvatures(losses: Sequence[Any], y: Array, scores: Array, rho: Array, weight: Array, unit: Array) -> Array:
    """Return ``W`` (n, K); ``unit`` (K,) is the prior variance of the scores, the stiffness at kinks."""
    first = losses[0]
    if first.of_several and first.coupled:  # without what ties the scores of a row
        shares = first.curvature(y, scores)
        return weight[:, None] * shares * (1.0 - shares)
    if first.couples_samples:
        return np.asarray(first.bind(y[:, 0], weight).curvature(scores[:, 0]).diagonal)[:, None]
    each = [first.each] * y.shape[1] if first.of_several else losses
    columns = zip(each, y.T, scores.T, rho.T, unit, strict=True)
    return np.column_stack([_curvature(*one, weight) for one in columns])


def _curvature(loss: Loss, y: Array, z: Array, rho: Array, unit: float, weight: Array) -> Array:
    if loss.smooth:
        return np.asarray(weight * loss.second_derivative(y, z))
    low, high = loss.dual_bounds(y)
    r, edge = rho / weight, EDGE * (high - low)
    inside = (r > low + edge) & (r < high - edge)
    if loss.kink:
        inside &= np.abs(r) > edge
    stiff = 1e4  # curvature at a kink, in units of the inverse of the prior variance
    unit = unit if unit > np.finfo(np.float64).tiny * stiff else 1.0  # of a class without kernels, which nothing moves
    return np.where(inside, stiff / unit, 0.0)


def scores_by_matrix(target: Target, whole: Array) -> Array:
    """Return scores (n,) of rows left out in turn, from the weighted sum of the Gram matrices among them.

    It is changed in place. The same scores as those of `leave_out_by_matrices`, without the parts.
    """
    lengths, longer = _longer(target)
    fixed = whole.copy() if lengths.any() and longer.any() else whole
    whole += lengths.T @ longer
    found = _covariance_of_scores(target, whole)
    high = target.curvature * found > LEVERAGE
    if fixed is not whole and high.any():
        found[high] = _covariance_of_scores(target, fixed, high)
    return target.scores - target.rho * found / np.maximum(1.0 - target.curvature * found, FULL)


def _covariance_of_scores(target: Target, whole: Array, rows: Array | slice = slice(None)) -> Array:
    """Return the posterior variances of the scores of some rows, from the covariance ``Q`` of all before the fit."""
    bent = np.flatnonzero(target.curvature > 0)
    bend = np.sqrt(target.share * target.curvature[bent])
    lower = cholesky(np.eye(len(bent)) + bend[:, None] * whole[np.ix_(bent, bent)] * bend, lower=True)
    if len(bent) == len(whole) and bend.min() > ALIKE * bend.max():  # B C B = I - A^-1, without products with Q
        solved = cho_solve((lower, True), bend[:, None] * target.constants)
        free, spread = (
            solved / bend[:, None],
            np.linalg.pinv(target.constants.T @ (bend[:, None] * solved), hermitian=True),
        )
        inverse = dtrtri(lower, lower=1)[0]
        left = (1.0 - np.einsum("ij,ij->j", inverse, inverse)) / bend**2
        return np.asarray(left + np.einsum("ig,gh,ih->i", free, spread, free))[rows]
    cross = whole[bent][:, rows]
    sides = np.column_stack([bend[:, None] * cross, bend[:, None] * target.constants[bent]])
    solved = solve_triangular(lower, sides, lower=True, overwrite_b=True, check_finite=False)
    across, through = solved[:, : cross.shape[1]], solved[:, cross.shape[1] :]
    free = target.constants[rows] - across.T @ through
    spread = np.linalg.pinv(through.T @ through, hermitian=True)
    left = np.diagonal(whole)[rows] - np.einsum("ij,ij->j", across, across)
    return left + np.einsum("ig,gh,ih->i", free, spread, free)


def leave_out_by_matrices(target: Target, gram: Callable[[int], Array]) -> tuple[Array, Array]:
    """Return leave-one-out scores (n,) and parts (m, n), from Gram matrices."""
    return target.leave_out(partial(_covariances_of_matrices, gram=gram))


def _covariances_of_matrices(target: Target, gram: Callable[[int], Array]) -> tuple[Array, Array]:
    alive = np.flatnonzero((target.weights > 0) & (target.norms > 0)).tolist()
    lengths, longer = _longer(target)

    def prior(m: int) -> Array:
        return target.weights[m] * gram(m) + np.outer(lengths[m], longer[m])

    whole = sum((prior(m) for m in alive), start=np.zeros((len(target.rho), len(target.rho))))
    bent, solved, away = _explained(target, whole)
    each = np.zeros(target.values.shape)
    for m in alive:
        own = prior(m)
        each[m] = np.diagonal(own) - np.einsum("ib,bi->i", own[:, bent], solved)
    return each, np.einsum("ig,gi->i", target.constants, away)


def leave_out_by_rows(target: Target, factors: Sequence[Array]) -> tuple[Array, Array]:
    """Return the result of `leave_out_by_matrices` for ``Z_m Z_m'``, forming only their sum."""
    return target.leave_out(partial(_covariances_of_rows, factors=factors))


def _covariances_of_rows(target: Target, factors: Sequence[Array]) -> tuple[Array, Array]:
    alive = np.flatnonzero((target.weights > 0) & (target.norms > 0)).tolist()
    lengths, longer = _longer(target)
    whole = lengths[alive].T @ longer[alive]
    for _, features, _ in _side_by_side(target, factors, alive):
        whole += features @ features.T  # a matrix times its own transpose costs half of another product
    bent, solved, away = _explained(target, whole)
    each = np.zeros(target.values.shape)
    each[alive] = lengths[alive] * (longer[alive] - longer[alive][:, bent] @ solved)
    for members, features, starts in _side_by_side(target, factors, alive):
        left = features * (features - solved.T @ features[bent])
        each[members] += np.add.reduceat(left, starts, axis=1).T
    return each, np.einsum("ig,gi->i", target.constants, away)


def _side_by_side(
    target: Target, factors: Sequence[Array], alive: Sequence[int]
) -> Iterator[tuple[list[int], Array, list[int]]]:
    """Yield kernels as rows of neighboring factors, times the roots of weights, with the offsets."""
    members: list[int] = []
    starts, known = [0], [m for m in alive if factors[m].shape[1]]
    together = 500  # columns of factors at least that one product takes
    for m in known:
        members.append(m)
        starts.append(starts[-1] + factors[m].shape[1])
        if starts[-1] >= together or m == known[-1]:
            yield members, np.hstack([np.sqrt(target.weights[k]) * factors[k] for k in members]), starts[:-1]
            members, starts = [], [0]


def _longer(target: Target) -> tuple[Array, Array]:
    """Return functions of unit norm, and the excess of every prior along the function, (m, n) twice."""
    values, vectors = target.stiffness()
    root = np.sqrt(target.weights)
    lengths = target.values / np.where(target.norms > 0, target.norms, 1.0)[:, None]
    return lengths, root[:, None] * ((vectors * (1.0 / values - 1.0)) @ (vectors.T @ (root[:, None] * lengths)))


def _explained(target: Target, whole: Array) -> tuple[Array, Array, Array]:
    """Return the rows with curvature, and ``R (Q + B G U')`` and ``G U'`` from the covariance ``Q``."""
    bent = np.flatnonzero(target.curvature > 0)
    bend = np.sqrt(target.share * target.curvature[bent])
    factor = cho_factor(np.eye(len(bent)) + bend[:, None] * whole[np.ix_(bent, bent)] * bend, lower=True)
    solved = bend[:, None] * cho_solve(factor, bend[:, None] * whole[bent])  # R Q
    free = target.constants[bent]
    through = bend[:, None] * cho_solve(factor, bend[:, None] * free)  # R B
    away = np.linalg.pinv(free.T @ through, hermitian=True) @ (target.constants.T - free.T @ solved)  # G U'
    solved += through @ away
    return bent, solved, away


def stack_features(target: Target, factors: Sequence[Array]) -> Array:
    """Return the rows of the factors times the roots of the weights, beside the constants, (n, R + g)."""
    roots = np.repeat(np.sqrt(target.weights), [block.shape[1] for block in factors])
    features = np.hstack([*factors, target.constants])
    features[:, : len(roots)] *= roots
    return features


def leave_out_by_factors(target: Target, features: Array, coefficients: Sequence[Array]) -> tuple[Array, Array]:
    """Return leave-one-out scores (n,) and parts (m, n), from the features of `stack_features`."""
    return target.leave_out(partial(_covariances_of_factors, features=features, coefficients=coefficients))


def _covariances_of_factors(target: Target, features: Array, coefficients: Sequence[Array]) -> tuple[Array, Array]:
    ends = np.cumsum([0] + [len(v) for v in coefficients])
    values, vectors = target.stiffness()
    precision = np.diag(np.repeat([1.0, 0.0], [ends[-1], features.shape[1] - ends[-1]]))
    if (values < 1.0).any():
        directions = block_diag(*[(v / (np.linalg.norm(v) or 1.0))[:, None] for v in coefficients])
        directions = directions @ (vectors * np.sqrt(1.0 - values))
        precision[: ends[-1], : ends[-1]] -= directions @ directions.T
    chunks = [slice(at, at + CHUNK) for at in range(0, len(features), CHUNK)]
    for rows in chunks:
        bent = np.sqrt(target.share * target.curvature[rows])[:, None] * features[rows]
        precision += bent.T @ bent  # a transposed matrix times itself costs half of another product
    if not target.curvature.any():  # nothing tells the constants: they stay where they are
        precision[ends[-1] :, ends[-1] :] = np.eye(len(precision) - ends[-1]) / FULL
    root = cholesky(precision.T, lower=True, overwrite_a=True)  # symmetric: its transpose lies as LAPACK needs it
    covariance = dpotri(root, lower=1, overwrite_c=1)[0]  # of the coefficients of all features, the lower half
    for k in range(len(covariance)):  # in place: this is the largest matrix here
        covariance[k, k + 1 :] = covariance[k + 1 :, k]
    blocks = np.zeros((len(ends), len(features)))
    for rows in chunks:
        solved = features[rows] @ covariance
        for block, low, high in zip(blocks, ends, [*ends[1:], None], strict=True):
            block[rows] = np.einsum("ij,ij->i", features[rows, low:high], solved[:, low:high])
    return blocks[:-1], blocks[-1]
