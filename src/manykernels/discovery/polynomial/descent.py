"""Algorithms 1 to 3: stochastic mirror descent on kernel weights, by products drawn where the gradient is large."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from math import comb

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import brentq

from manykernels.discovery.polynomial.family import Node, PolynomialFamily, multiplicity
from manykernels.discovery.polynomial.product_bases import Index
from manykernels.grams import GramStack
from manykernels.objective.problem import Problem
from manykernels.objective.regularizers.curve import power_prox
from manykernels.solvers.learners.learners import LearnerFit, fit_learner
from manykernels.solvers.linear_systems import ConjugateGradients
from manykernels.validation.arrays import Array

Factors = tuple[tuple[int, int], ...]  # base kernels with their levels, in the order of their first places


@dataclass(frozen=True, eq=False)
class InteractionSampler:
    """Draws ordered multi-indices with probability ``a'K_i a / rho_d^2``, divided by the sum over the whole family.

    First the degree, with mass ``delta(d) = rho_d^{-2} a'G_d a``, ``G_d`` the sum over all ordered products of d
    factors; then the first factor j not chosen yet, with the mass of all products that have it there; then the level a
    in the whole product, and with equal probability the other ``a - 1`` places. ``G_d`` and the sums over what remains
    come from generating functions, so a draw costs ``O(D r N^2)`` although there are ``r^D`` products. Draws that begin
    alike share the work, and where there are fewer columns than samples, the last two factors are drawn from a table of
    all pairs.

    Notes
    -----
    Afkanpour (2013), Algorithm 3 and (4.18), whose gradient lacks a factor 1/2. There levels are powers of a single
    kernel, and factors are drawn in turn.
    """

    family: PolynomialFamily
    coefficients: Array

    @cached_property
    def _size(self) -> float:
        return float(np.abs(self.coefficients).max(initial=0.0)) or 1.0

    @cached_property
    def _state(self) -> Array:
        # Squares of very small coefficients would underflow.
        return self.family.base.start(self.coefficients / self._size)

    @cached_property
    def degree_masses(self) -> Array:
        """``delta(d)`` for d = 0..D, (D + 1,)."""
        base = self.family.base
        masses = [base.mass(self._state, moment) for moment in self.family.moments]
        return self._size**2 * self.family.scales * np.array(masses)

    @property
    def gradient_norm(self) -> float:
        """``||grad J||_1`` over the ordered family: half of the sum of ``delta``."""
        return 0.5 * float(self.degree_masses.sum())

    @cached_property
    def _roots(self) -> dict[int, Node]:
        """Starting nodes of the draws of a degree, identical for all."""
        return {}

    def _root(self, degree: int) -> Node:
        if degree not in self._roots:
            self._roots[degree] = Node(self.family.base, self._state, degree, self.family.cumulants)
        return self._roots[degree]

    def probability(self, index: Index) -> float:
        """Return the probability of drawing the ordered multi-index."""
        value, node = float(_share(self.degree_masses)[len(index)]), self._root(len(index))
        for j in dict.fromkeys(index):
            level, masses = index.count(j), node.level_masses(j)
            value *= float(_share(node.first_masses)[j] * _share(masses)[level - 1])
            value /= comb(node.left - 1, level - 1)
            node = node.child(j, level)
        return value

    def draw(self, rng: np.random.Generator) -> Index:
        """Return an ordered multi-index."""
        return self.draws(rng, 1)[0]

    def draws(self, rng: np.random.Generator, count: int) -> list[Index]:
        """Return independent ordered multi-indices, grouped by common prefix."""
        indices = []
        for degree, share in _draw_positions(self.degree_masses, count, rng):
            below = _below(self._root(degree), share, rng) if degree else iter([()] * share)
            indices += [_place_factors(factors, degree, rng) for factors in below]
        return indices


def _below(node: Node, count: int, rng: np.random.Generator) -> Iterator[Factors]:
    """Draw the descendants of a node."""
    if node.left == 0:
        yield from [()] * count
    elif node.left == 2 and node.base.pairs_are_cheap:
        for place, share in _draw_positions(node.pair_masses().ravel(), count, rng):
            j, k = divmod(place, node.base.n_base)
            yield from [((j, 2),) if j == k else ((j, 1), (k, 1))] * share
    else:
        for j, share in _draw_positions(node.first_masses, count, rng):
            for at, part in _draw_positions(node.level_masses(j), share, rng):
                for rest in _below(node.child(j, at + 1), part, rng):
                    yield ((j, at + 1), *rest)


def _place_factors(factors: Factors, degree: int, rng: np.random.Generator) -> Index:
    """Return an ordered multi-index with the factors at ordered places, the remaining places drawn."""
    index, free = [-1] * degree, list(range(degree))
    for j, level in factors:
        others = rng.choice(free[1:], level - 1, replace=False) if level > 1 else ()
        for place in (free[0], *map(int, others)):
            index[place] = j
            free.remove(place)
    return tuple(index)


def _share(masses: Array) -> Array:
    total = masses.sum()
    return masses / total if total > 0 else np.full(len(masses), 1.0 / len(masses))


def _draw_positions(masses: Array, count: int, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Draw positions by inversion, with counts; zero mass is never drawn unless all masses vanish."""
    cumulative = np.cumsum(_share(masses))
    places = np.searchsorted(cumulative, rng.random(count) * cumulative[-1], side="right")
    values, counts = np.unique(np.minimum(places, len(masses) - 1), return_counts=True)
    return list(zip(values.tolist(), counts.tolist(), strict=True))


# Numbers that follow from no theorem: they decide the time, not what is certified.
SOLVE_TOL = 1e-6  # of a step's dual coefficients: the noise of one sampled coordinate is far larger


class RidgeSolver:
    """Solves ``(K + diag(curvature/s)) rho + b = y``, ``sum rho = 0``, for K by K.

    Conjugate gradients from the last answer, preconditioned with the Cholesky factor of an earlier matrix, which is
    renewed when it has become too old.
    """

    def __init__(self, problem: Problem) -> None:
        self._ridge = problem.loss.curvature / problem.weight
        self._sides = [problem.y, np.ones(problem.n_samples)] if problem.fit_intercept else [problem.y]
        self._answers = [np.zeros(problem.n_samples) for _ in self._sides]
        self._factor: tuple[Array, bool] | None = None
        self.systems = 0

    def solve(self, gram: Array) -> Array:
        """Return ``rho`` for the matrix, (N,)."""
        if self._factor is None:
            self._renew(gram)
        used = 0
        for i, side in enumerate(self._sides):
            self._answers[i], taken = self._iterate(gram, side, self._answers[i])
            used = max(used, taken)
        stale = 12  # conjugate gradient iterations after which the preconditioner is factorized anew
        if used > stale:
            self._renew(gram)
        self.systems += 1
        if len(self._answers) == 1:
            return self._answers[0]
        first, ones = self._answers
        return first - ones * (first.sum() / ones.sum())

    def _renew(self, gram: Array) -> None:
        matrix = gram.copy()
        matrix[np.diag_indices_from(matrix)] += self._ridge
        self._factor = cho_factor(matrix, overwrite_a=True, check_finite=False)

    def _iterate(self, gram: Array, side: Array, x: Array) -> tuple[Array, int]:
        def product(direction: Array) -> Array:
            return np.asarray(gram @ direction + self._ridge * direction)

        goal = SOLVE_TOL * float(np.linalg.norm(side))
        system = ConjugateGradients(
            product, side - product(x), lambda r: cho_solve(self._factor, r, check_finite=False)
        )
        for taken in range(len(x)):
            if np.linalg.norm(system.residual) <= goal:
                return x + system.x, taken
            system.step()
        return x + system.x, len(x)


class WarmStartedSolver:
    """Fits any other loss on a sequence of kernels with warm starts."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._last: LearnerFit | None = None
        self.systems = 0

    def solve(self, gram: Array) -> Array:
        """Return ``rho`` for the matrix, (N,)."""
        self._last = fit_learner(self._problem, gram, warm=self._last, tol=SOLVE_TOL)
        self.systems += self._last.steps
        return self._last.rho


@dataclass(eq=False)
class MirrorDescent:
    """Stochastic projected gradient steps ``theta <- Pi(theta - eta g)`` from ``theta = 0``, and their average.

    ``g`` is zero except at the permutations of the products drawn with Algorithm 3, ``batch`` of them a step, where it
    is ``-||grad J||_1 / batch`` for every draw, shared equally: the estimate of (4.14) averaged over permutations and
    draws, which is still unbiased and varies less. Draws of a batch share the sums over all products, and a single
    solution for the dual coefficients. Weights are kept once a distinct product, for one ordered multi-index;
    ``counts`` says for how many they stand.

    Step k is ``eta_k = scale / (||grad J||_1 sqrt(k))`` with the gradient of that step, and iterates are averaged with
    the weights ``eta_k``: with a scale of one, ``sum_k eta_k (J(theta_k) - J*) <= (||theta*||^2 + sum_k 1/k) / 2`` in
    expectation, which needs neither the number of steps nor a bound on the gradient, does not depend on the scale of
    the problem, and goes on well when gradients become smaller by orders of magnitude, as they do for a weak penalty.

    Every ``restart_after`` steps (never for zero), the average becomes the iterate, k is reset to 1 and a new average
    begins, without the uninformed first steps.

    Notes
    -----
    Afkanpour (2013), Algorithms 1 and 2, Theorem 4.1.
    """

    family: PolynomialFamily
    problem: Problem
    strength: float
    rng: np.random.Generator
    step_size: float | None = None
    batch: int = 1
    scale: float = 1.0
    restart_after: int = 0
    indices: list[Index] = field(default_factory=list)
    steps: int = 0

    def __post_init__(self) -> None:
        n = self.problem.n_samples
        self._positions: dict[Index, int] = {}
        self._theta, self._sum = np.zeros(0), np.zeros(0)
        self.counts = np.zeros(0)
        self._gram = np.zeros((n, n))
        self._first, self._share, self._since = 0.0, 0.0, 0
        self.solver = (RidgeSolver if self.problem.loss.linear_dual else WarmStartedSolver)(self.problem)

    def step(self) -> bool:
        """Take a single step; False for a zero gradient."""
        if 0 < self.restart_after == self._since:
            self._restart()
        rho = self.solver.solve(self._gram) if self.indices else self.problem.zero_model()[0]
        drawn = self.draw(rho)
        if not drawn:
            return False
        self.steps, self._since = self.steps + 1, self._since + 1
        amounts = np.zeros(0)
        for index, amount in drawn:
            at = self._position(index)
            amounts = np.pad(amounts, (0, len(self.indices) - len(amounts)))
            amounts[at] += amount
        size = float(amounts @ self.counts)  # the 1-norm of the estimate, for Algorithm 3 that of the gradient
        self._first = self._first or size
        if not size > 0:
            return True
        adapted = self.scale / (size * np.sqrt(self._since))
        rate = adapted if self.step_size is None else self.step_size / self._first
        self._share = rate * self._first
        self._sum += self._share * self._theta
        self._move(rate * amounts)
        return True

    def draw(self, rho: Array) -> list[tuple[Index, float]]:
        """Return drawn products with negative coordinate estimates, up to ``1 / lambda``."""
        sampler = InteractionSampler(self.family, rho)
        size = sampler.gradient_norm / self.batch
        if not size > 0:
            return []
        indices = (tuple(sorted(index)) for index in sampler.draws(self.rng, self.batch))
        return [(index, size / multiplicity(index)) for index in indices]

    def average(self) -> Array:
        """Weights of the distinct kernels in the averaged iterate, on the boundary of the set, (m,)."""
        return self._weights(self._average())

    def _average(self) -> Array:
        theta = self._sum + self._share * self._theta
        size = _size(theta, self.counts, self.family.p)
        return theta / size if size > 0 else theta

    def _restart(self) -> None:
        self._theta = self._average()
        self._sum, self._share, self._since = np.zeros_like(self._theta), 0.0, 0
        self._gram = self.stack().combine(self._weights(self._theta))

    def _weights(self, theta: Array) -> Array:
        rho = np.array([self.family.degree_penalties[len(index)] for index in self.indices])
        return self.counts * theta / (self.strength * rho**2)

    def _position(self, index: Index) -> int:
        if index not in self._positions:
            self._positions[index] = len(self.indices)
            self.indices.append(index)
            self._theta, self._sum = np.append(self._theta, 0.0), np.append(self._sum, 0.0)
            self.counts = np.append(self.counts, multiplicity(index))
        return self._positions[index]

    def _move(self, amounts: Array) -> None:
        moved = self._theta + amounts
        projected = project_on_lp_ball(moved, self.counts, self.family.p)
        if self.family.p == 2:
            # The projection scales: the products drawn are added to the sum of kernels, all others keep their shares.
            drawn = np.flatnonzero(amounts)
            shrink = float(projected[drawn[0]] / moved[drawn[0]])
            weights = (self._weights(projected) - shrink * self._weights(self._theta))[drawn]
            self._gram *= shrink
            self._gram += self.family.base.stack([self.indices[at] for at in drawn]).combine(weights)
        else:
            self._gram = self.stack().combine(self._weights(projected))
        self._theta = projected

    def stack(self) -> GramStack:
        """Return the Gram matrices of the products drawn so far."""
        return self.family.base.stack(self.indices)


def _size(theta: Array, counts: Array, p: float) -> float:
    top = float(theta.max(initial=0.0))
    return top * float(np.sum(counts * (theta / top) ** p)) ** (1.0 / p) if top > 0 else 0.0


def project_on_lp_ball(theta: Array, counts: Array, p: float) -> Array:
    """Return the nearest point of ``{x >= 0, sum_m c_m x_m^p <= 1}`` in the norm ``sum_m c_m (x_m - theta_m)^2``."""
    if _size(theta, counts, p) <= 1:
        return theta
    if p == 2:
        return theta / _size(theta, counts, p)

    def shrunk(multiplier: float) -> Array:
        return np.maximum(theta - multiplier, 0.0) if p == 1 else power_prox(theta, multiplier, p)

    upper = float(theta.max())
    while _size(shrunk(upper), counts, p) > 1:  # at most the exponents of float64
        upper *= 4.0
    return shrunk(brentq(lambda c: _size(shrunk(c), counts, p) - 1.0, 0.0, upper, xtol=1e-14 * upper, rtol=1e-14))
