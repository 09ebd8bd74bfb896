"""Coordinate descent on a separable quadratic, by how a coordinate is drawn and how far it moves.

``f(x) = 1/2 sum_i L_i (x_i - c_i)^2`` from zero; ``L_i`` is the Lipschitz constant of the gradient along coordinate i.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[Any]

FIRST_GUESS = 0.1  # of a Lipschitz constant, as a share of it, where a method has to find it


@dataclass(frozen=True)
class Quadratic:
    """One problem.

    Attributes
    ----------
    c : (n,) float64
        The minimum.
    lipschitz : (n,) float64
        Curvature along each coordinate.
    """

    c: Array
    lipschitz: Array


@dataclass(frozen=True)
class Run:
    """What one run of a method was like.

    Attributes
    ----------
    values : (n_records,) float64
        Objective over its initial value.
    distinct : int
        Coordinates touched.
    derivatives : int
        Partial derivatives computed. Drawing by their size needs all of them; on a separable function only that of the
        coordinate moved changes, so that they are kept up to date for one a step. Greedy choice knows them in advance.
    """

    values: Array
    distinct: int
    derivatives: int


Method = Callable[[Quadratic, int, int, np.random.Generator], Run]


def uniform(problem: Quadratic, iterations: int, every: int, rng: np.random.Generator) -> Run:
    """UCD: draw uniformly, move by ``1/L_i`` of the derivative, which is to the minimum along this coordinate."""
    return _full_steps(problem, rng.integers(len(problem.c), size=iterations), every)


def rcdm(problem: Quadratic, iterations: int, every: int, rng: np.random.Generator) -> Run:
    """Nesterov's (2.6) with ``alpha = 1``: draw with probabilities proportional to ``L_i``, move by ``1/L_i``."""
    shares = problem.lipschitz / problem.lipschitz.sum()
    return _full_steps(problem, rng.choice(len(shares), size=iterations, p=shares), every)


def racdm(problem: Quadratic, iterations: int, every: int, rng: np.random.Generator) -> Run:
    """Nesterov's (6.1): draw uniformly; constants are guessed, doubled until the derivative keeps its sign, halved."""
    drawn = rng.integers(len(problem.c), size=iterations)
    state, guesses, derivatives = _State(problem, every), FIRST_GUESS * problem.lipschitz, 0
    for i in drawn:
        derivative = state.derivative(i)
        derivatives += 2
        while 1.0 - problem.lipschitz[i] / guesses[i] < 0:  # the new derivative over the old one
            guesses[i] *= 2
            derivatives += 1
        state.move(i, -derivative / guesses[i])
        guesses[i] /= 2
    return state.run(len(np.unique(drawn)), derivatives)


def gradient_sampling(problem: Quadratic, iterations: int, every: int, rng: np.random.Generator) -> Run:
    """GRAD.SAMP.: draw by the size of the gradient, move by ``1/sqrt(T)`` of the importance-weighted derivative.

    The thesis's Algorithm 1: the estimate of the gradient is ``g_i / p_i = ||g||_1 sign(g_i)`` at the coordinate drawn.
    """
    return _by_gradient(problem, rng.random(iterations), every, 1.0 / np.sqrt(iterations))


def gradient_sampling_full_step(problem: Quadratic, iterations: int, every: int, rng: np.random.Generator) -> Run:
    """Draw by the size of the gradient, move by ``1/L_i`` of the derivative: the effect of the distribution alone."""
    return _by_gradient(problem, rng.random(iterations), every, 0.0)


def greedy(problem: Quadratic, iterations: int, every: int, rng: np.random.Generator) -> Run:
    """Take the coordinate of the largest decrease, to its minimum: no method of one coordinate a step does better."""
    order = np.argsort(-problem.lipschitz * problem.c**2, kind="stable")
    return _full_steps(problem, order[np.arange(iterations) % len(order)], every)


METHODS: dict[str, Method] = {
    "UCD": uniform,
    "RCDM": rcdm,
    "RACDM": racdm,
    "GRAD.SAMP.": gradient_sampling,
    "gradient sampling, full step": gradient_sampling_full_step,
    "greedy, full step": greedy,
}


def _full_steps(problem: Quadratic, drawn: Array, every: int) -> Run:
    state = _State(problem, every)
    for i in drawn:
        state.move(i, -state.error[i])
    return state.run(len(np.unique(drawn)), len(drawn))


def _by_gradient(problem: Quadratic, uniforms: Array, every: int, rate: float) -> Run:
    leaves = 1 << (len(problem.c) - 1).bit_length()
    tree = np.zeros(2 * leaves)
    error, touched = -problem.c, np.zeros(len(problem.c), dtype=np.bool_)
    values = np.empty(len(uniforms) // every + 1)
    _sampled_steps(problem.lipschitz, error, tree, uniforms, every, rate, touched, values)
    return Run(values / values[0], int(touched.sum()), len(uniforms))


@njit
def _sampled_steps(
    lipschitz: Array, error: Array, tree: Array, uniforms: Array, every: int, rate: float, touched: Array, values: Array
) -> None:
    """Move coordinates drawn by the size of their derivative, kept as leaves of a tree of sums: O(log n) a step.

    ``rate`` is that of the importance-weighted derivative; 0 stands for full steps.
    """
    leaves = tree.size // 2
    for i in range(error.size):
        tree[leaves + i] = lipschitz[i] * abs(error[i])
    for node in range(leaves - 1, 0, -1):
        tree[node] = tree[2 * node] + tree[2 * node + 1]
    values[0] = 0.5 * np.sum(lipschitz * error**2)
    for k in range(uniforms.size):
        total = tree[1]
        if 0 < total < 1e150:  # neither at the minimum nor diverged
            node, left = 1, uniforms[k] * total
            while node < leaves:
                node *= 2
                if left >= tree[node] and tree[node + 1] > 0:
                    left -= tree[node]
                    node += 1
            i = node - leaves
            touched[i] = True
            error[i] -= rate * total * np.sign(error[i]) if rate > 0 else error[i]
            tree[node] = lipschitz[i] * abs(error[i])
            while node > 1:
                node //= 2
                tree[node] = tree[2 * node] + tree[2 * node + 1]
        if (k + 1) % every == 0:
            values[(k + 1) // every] = 0.5 * np.sum(lipschitz * error**2)


class _State:
    """The error ``x - c``, moved one coordinate at a time, and the objective at every so many moves."""

    def __init__(self, problem: Quadratic, every: int) -> None:
        self.problem, self.every, self.moves = problem, every, 0
        self.error: Array = -problem.c
        self.initial = self._value()
        self.values = [1.0]

    def _value(self) -> float:
        return 0.5 * float(self.problem.lipschitz @ self.error**2)

    def derivative(self, i: int) -> float:
        """Return the partial derivative along coordinate i."""
        return float(self.problem.lipschitz[i] * self.error[i])

    def move(self, i: int, by: float) -> None:
        """Move along coordinate i."""
        self.error[i] += by
        self.moves += 1
        if self.moves % self.every == 0:
            self.values.append(self._value() / self.initial)

    def run(self, distinct: int, derivatives: int) -> Run:
        """Return what was recorded."""
        return Run(np.array(self.values), distinct, derivatives)
