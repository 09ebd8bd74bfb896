"""The kernels that the dual Newton iteration follows, the functions of their norms, and why it need not follow others.

The functions belong to a point ``v_m = alpha_m + gamma rho`` with norms ``x_m = ||v_m||`` and have, in ``rho``,

    gradient  sum_m s_m K_m v_m
    Hessian   gamma sum_m [ s_m K_m + (p'_m - s_m) (K_m v_m)(K_m v_m)' / x_m^2 ],     s_m = p_m / x_m

where ``p_m`` is the block norm that the point implies: by the prox for the Moreau envelope of the augmented
Lagrangian, by the derivative of the conjugate (with ``alpha = 0``, ``gamma = 1``) for the smooth dual itself.

A kernel with ``alpha_m = 0`` contributes nothing while the dual norm ``u_m(rho)`` is below ``inactive_below``. By the
triangle inequality ``u_m`` changes by at most ``sqrt(trace K_m)/w_m`` times the path length of ``rho``, so a kernel
below the bound is skipped until the path exceeds the distance. For the rest ``K_m rho`` and ``K_m alpha_m`` are cached,
for quadratic norms along a direction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from manykernels.grams.base import mirror_upper
from manykernels.objective.problem import Problem
from manykernels.objective.regularizers import Regularizer
from manykernels.solvers.gram.newton_system import add_rank_update
from manykernels.validation.arrays import Array

NEARLY_ACTIVE = 0.98  # share of the bound above which a kernel without weight stays among those followed


class BlockFunction(Protocol):
    """The regularizer in the Newton iteration."""

    @property
    def regularizer(self) -> Regularizer:
        """The regularizer of the function."""

    def take(self, kernels: Array) -> BlockFunction:
        """Return the function of some of the kernels."""

    @property
    def gamma(self) -> float:
        """Step of the blocks."""

    def block_norms(self, x: Array) -> Array:
        """Return the ``p_m`` that match the norms ``x_m``."""

    def value(self, x: Array, p: Array) -> float:
        """Return the sum over kernels of the function, given ``p = block_norms(x)``."""

    def slope(self, x: Array, p: Array) -> Array:
        """Return ``p'_m``, the derivatives of ``p`` by ``x``."""


@dataclass(frozen=True)
class MoreauEnvelope:
    """Moreau envelope of ``Omega*`` after a step of size ``gamma``: ``(x p - p^2/2)/gamma - Omega(p)``, (47).

    For the block 1-norm this is ``(x - gamma C)_+^2 / (2 gamma)``, that of (10) and (25).
    """

    regularizer: Regularizer
    gamma: float

    def take(self, kernels: Array) -> MoreauEnvelope:
        """Return the envelope for some of the kernels."""
        return MoreauEnvelope(self.regularizer.take(kernels), self.gamma)

    def block_norms(self, x: Array) -> Array:
        """``p = prox(x | gamma Omega)``, (11)."""
        return self.regularizer.prox(x, self.gamma)

    def value(self, x: Array, p: Array) -> float:
        """``sum (x p - p^2/2)/gamma - Omega(p)``."""
        return float(p @ (x - 0.5 * p)) / self.gamma - self.regularizer.value(p)

    def slope(self, x: Array, p: Array) -> Array:
        """``1 / (1 + gamma Omega''(p))`` where ``p > 0``, from ``x = p + gamma Omega'(p)``."""
        return np.where(p > 0, 1.0 / (1.0 + self.gamma * self.regularizer.second_derivative(p)), 0.0)


@dataclass(frozen=True)
class SmoothConjugate:
    """The conjugate ``Omega*(u)``, if differentiable, (49) and (50)."""

    regularizer: Regularizer
    gamma: float = 1.0

    def take(self, kernels: Array) -> SmoothConjugate:
        """Return the conjugate for some of the kernels."""
        return SmoothConjugate(self.regularizer.take(kernels), self.gamma)

    def block_norms(self, x: Array) -> Array:
        """``p = Omega*'(x)``."""
        return self.regularizer.conjugate_derivative(x)

    def value(self, x: Array, p: Array) -> float:
        """``Omega*(x)``."""
        return self.regularizer.conjugate(x)

    def slope(self, x: Array, p: Array) -> Array:
        """``1 / Omega''(p)`` where ``p > 0``."""
        slope = np.zeros_like(p)
        np.divide(1.0, self.regularizer.second_derivative(p), out=slope, where=p > 0)
        return slope


class TrackedKernels:
    """Blocks ``v_m = alpha_m + gamma rho`` of the possibly active kernels, with norms ``p_m`` in ``block_norms``."""

    def __init__(
        self, problem: Problem, function: BlockFunction, rho: Array, norms: Array, weights: Array | None = None
    ) -> None:
        self.problem, self.function, self.rho = problem, function, rho
        self._bound = np.broadcast_to(problem.regularizer.inactive_below, problem.n_kernels)
        self._selects = bool((self._bound > 0).any())
        self._inverse_squares = problem.penalties**-2.0
        self._reach = np.sqrt(problem.stack.diag().sum(axis=1)) / problem.penalties
        self._path = 0.0
        self._expiry = np.full(problem.n_kernels, -np.inf)
        started = np.zeros(problem.n_kernels) if weights is None else weights / self._inverse_squares
        first = np.flatnonzero(started) if self._selects else np.arange(problem.n_kernels)
        self.indices = first
        self._products = self._products_of(rho, first)
        self._largest_product = float(np.abs(self._products).max(initial=0.0))
        self._anchors = started[first, None] * self._products
        self._anchor_squares = started[first] * np.maximum(self._anchors @ rho, 0.0)
        self._measure()
        if self._selects:
            self.learn(rho, norms)
            self._follow_suspects(0.0)

    # --- the point --------------------------------------------------------------------------------------------------

    @property
    def dual_norms(self) -> Array:
        """``u_m`` of the kernels followed."""
        return np.sqrt(np.maximum(self._products @ self.rho, 0.0))

    def scores(self) -> Array:
        """Return ``f = sum_m s_m K_m v_m``, the gradient in ``rho``."""
        return self._shares @ self._vectors

    def value(self) -> float:
        """Return the sum of the function over the kernels."""
        return self._followed.value(self._x, self.block_norms)

    def penalty(self) -> float:
        """Return ``Omega`` of the block norms; the kernels not followed have none."""
        return self._followed.regularizer.value(self.block_norms)

    def model_weights(self) -> Array:
        """Return the kernel weights ``d`` (M,) for the block norms of the point at ``rho``: Table 3."""
        d = np.zeros(self.problem.n_kernels)
        d[self.indices] = self._followed.regularizer.weights(self.block_norms, self.dual_norms)
        return d * self._inverse_squares

    def model_scores(self, d: Array) -> Array:
        """Return ``sum_m d_m K_m rho`` for weights of tracked kernels."""
        return (d[self.indices] / self._inverse_squares[self.indices]) @ self._products

    def distance(self) -> float:
        """Return ``sum_m ||s_m v_m - alpha_m||^2 / (2 gamma)``: how far the update moves the blocks."""
        overlap = self._anchor_squares + self.function.gamma * (self._anchors @ self.rho)
        squares = self.block_norms**2 - 2.0 * self._shares * overlap + self._anchor_squares
        return float(np.maximum(squares, 0.0).sum()) / (2.0 * self.function.gamma)

    def hessian(self) -> Array:
        """Return the Hessian in ``rho`` (N, N), from active kernels only."""
        gamma, active = self.function.gamma, np.flatnonzero(self.block_norms)
        kernels, shares = self.indices[active], self._shares[active]
        weights = np.zeros(self.problem.n_kernels)
        weights[kernels] = gamma * shares * self._inverse_squares[kernels]
        if not np.isfinite(weights).all():
            raise FloatingPointError("the weights of the kernels left the range of float64")
        matrix = self.problem.stack.combine(weights)
        x, p = self._x[active], self.block_norms[active]
        # Rounding may leave a tiny negative difference where the two terms are equal.
        bend = np.maximum(self.function.take(kernels).slope(x, p) - shares, 0.0)
        add_rank_update(matrix, self._vectors[active] / x[:, None], gamma * bend)
        mirror_upper(matrix)
        return matrix

    # --- moving -----------------------------------------------------------------------------------------------------

    def set_direction(self, drho: Array) -> None:
        """Take note of a direction: a single product of every kernel followed, none of the rest."""
        self._follow_suspects(float(np.linalg.norm(drho)))
        self._drho = drho
        self._changes = self._products_of(drho, self.indices)
        gamma = self.function.gamma
        self._linear = gamma * (self._vectors @ drho)
        self._quadratic = gamma**2 * np.maximum(self._changes @ drho, 0.0)

    def slope(self) -> float:
        """Return the derivative of `value` along the direction."""
        return float(self._shares @ self._linear) / self.function.gamma

    def value_after(self, step: float) -> float:
        """Return `value` after a step along the direction; reads no kernel."""
        x = np.sqrt(np.maximum(self._x**2 + step * (2.0 * self._linear + step * self._quadratic), 0.0))
        return self._followed.value(x, self._followed.block_norms(x))

    def move(self, step: float) -> None:
        """Take the step."""
        self.rho = self.rho + step * self._drho
        self._path += step * float(np.linalg.norm(self._drho))
        self._products = self._products + step * self._changes
        size = float(np.abs(self._products).max(initial=0.0))
        # of their largest size; products that fell below it are computed anew, free of the rounding of that size
        fallen = 0.01
        if size < fallen * self._largest_product:
            self._products, self._largest_product = self._products_of(self.rho, self.indices), size
        self._largest_product = max(self._largest_product, size)
        self._measure()

    def place(self, rho: Array) -> None:
        """Go to other coefficients, off the direction."""
        self._path += float(np.linalg.norm(rho - self.rho))
        self.rho = rho
        self._products = self._products_of(rho, self.indices)
        self._follow_suspects(0.0)
        self._measure()

    # --- the outer iteration ----------------------------------------------------------------------------------------

    def update(self, function: BlockFunction) -> None:
        """Set ``alpha_m = s_m v_m``, forget kernels far from active, and go on with another function."""
        anchors, squares = self._shares[:, None] * self._vectors, self.block_norms**2
        if self._selects:
            norms = self.dual_norms
            keep = (self.block_norms > 0) | (norms >= NEARLY_ACTIVE * self._bound[self.indices])
            self._note(self.indices[~keep], norms[~keep])
            self.indices, self._products = self.indices[keep], self._products[keep]
            anchors, squares = anchors[keep], squares[keep]
        self._anchors, self._anchor_squares, self.function = anchors, squares, function
        self._measure()

    def learn(self, rho: Array, norms: Array) -> None:
        """Use the dual norms (M,) from a certificate at nearby coefficients."""
        self._note(np.arange(norms.size), norms + self._reach * float(np.linalg.norm(rho - self.rho)))

    # --- parts ------------------------------------------------------------------------------------------------------

    def _measure(self) -> None:
        self._vectors = self._anchors + self.function.gamma * self._products
        cross = self._anchors @ self.rho
        gamma = self.function.gamma
        squares = self._anchor_squares + gamma * (2.0 * cross + gamma * (self._products @ self.rho))
        self._x = np.sqrt(np.maximum(squares, 0.0))
        self._followed = self.function.take(self.indices)
        self.block_norms = self._followed.block_norms(self._x)
        self._shares = np.zeros_like(self.block_norms)
        np.divide(self.block_norms, self._x, out=self._shares, where=self._x > 0)

    def _note(self, kernels: Array, norms: Array) -> None:
        room = np.zeros(kernels.size)
        np.divide(self._bound[kernels] - norms, self._reach[kernels], out=room, where=self._reach[kernels] > 0)
        room[self._reach[kernels] == 0] = np.inf
        self._expiry[kernels] = np.maximum(self._expiry[kernels], self._path + room)

    def _follow_suspects(self, length: float) -> None:
        """Compute norms of kernels with possible activity within ``length``, and track the remaining ones."""
        if not self._selects:
            return
        suspect = self._expiry < self._path + length
        suspect[self.indices] = False
        found = np.flatnonzero(suspect)
        if not found.size:
            return
        products = self._products_of(self.rho, found)
        self._note(found, np.sqrt(np.maximum(products @ self.rho, 0.0)))
        near = self._expiry[found] < self._path + length
        kernels, products = found[near], products[near]
        self.indices = np.concatenate([self.indices, kernels])
        self._products = np.concatenate([self._products, products])
        self._anchors = np.concatenate([self._anchors, np.zeros_like(products)])
        self._anchor_squares = np.concatenate([self._anchor_squares, np.zeros(kernels.size)])
        self._measure()

    def _products_of(self, vector: Array, kernels: Array) -> Array:
        return self.problem.stack.apply_each(vector, kernels) * self._inverse_squares[kernels, None]
