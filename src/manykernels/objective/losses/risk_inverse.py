"""The inverse of the Hessian of Cox's partial likelihood, which has a closed form: sums over times, no factorization.

Sort the samples of a stratum by time and call those with the event of a single time a *node*, those censored at that
time the next. All of a node have the same factor of their hazards, ``L = h_i / w_i`` at the weights ``w_i = s_i
exp(z_i)``, so the Hessian is ``diag(h)`` less a matrix which depends on the earlier of two nodes alone. On vectors that
sum to zero it is inverted by

    ``G = B + sum_e delta_e (1_e - theta_e 1) (1_e - theta_e 1)'``,

over the steps ``e`` from a single node to the next. ``1_e`` marks the samples of all nodes up to the step, ``theta_e``
is their share of the hazards, and ``delta_e`` is the increase of ``-1 / L`` over the sum of the weights behind the
step. ``B`` is ``1 / diag(h)``, less a rank of one for every tie under Efron's correction. No term is negative, so that
nothing cancels, however far hazards are apart.
"""

import numpy as np
from numpy.typing import NDArray

from manykernels.compiled import compiled
from manykernels.validation.arrays import Array

Positions = NDArray[np.intp]


class StratumInverse:
    """The inverse for the samples of a single stratum, in the order of their times.

    Parameters
    ----------
    samples : ndarray of shape (n,)
        Places of the samples.
    nodes : ndarray of shape (n,)
        Node of every sample, not decreasing.
    hazards : ndarray of shape (n,)
        Expected events of every sample.
    steps : ndarray of shape (n_nodes - 1,)
        ``delta`` of every step from a single node to the next.
    tied : ndarray of shape (n_nodes,)
        What Efron's correction takes from the inverse of the hazards of a node, as a share of it.
    """

    def __init__(self, samples: Positions, nodes: Positions, hazards: Array, steps: Array, tied: Array) -> None:
        self.samples, self.nodes = samples, nodes
        smallest_hazard = 1e-25  # of the largest: samples in no risk set have none
        hazards = np.maximum(hazards, smallest_hazard * hazards.max())
        self.diagonal = 1.0 / hazards
        of_nodes: Array = np.bincount(nodes, hazards, len(tied))
        self.tied = np.divide(tied, of_nodes, out=np.zeros(len(tied)), where=of_nodes > 0)
        of_nodes = of_nodes / (1.0 - tied)
        total = of_nodes.sum()
        self.before, after = np.cumsum(of_nodes)[:-1] / total, np.cumsum(of_nodes[::-1])[-2::-1] / total
        both = self.before * after
        ridge = 1e-13  # curvature along the shift of some nodes against the others, beside that of samples on their own
        largest = np.divide(1.0, ridge * total * both, out=np.zeros(len(both)), where=both > 0)
        self.steps = np.minimum(steps, largest)
        # Of two nodes the entry is that of the later one in the first plus that of the earlier one in the second.
        self.later = np.r_[np.cumsum((self.steps * after**2)[::-1])[::-1], 0.0]
        self.later[1:] -= np.cumsum(self.steps * both)
        self.earlier = np.r_[0.0, np.cumsum(self.steps * self.before)]

    def product(self, x: Array) -> Array:
        """Return the inverse times values of the samples, both (n,)."""
        sums = np.bincount(self.nodes, x, len(self.tied))
        up_to = np.cumsum(sums)
        of_steps = self.steps * (up_to[:-1] - self.before * up_to[-1])
        of_nodes = np.r_[np.cumsum(of_steps[::-1])[::-1], 0.0] - self.before @ of_steps - self.tied * sums
        return np.asarray(self.diagonal * x + of_nodes[self.nodes])

    def add_to(self, matrix: Array) -> None:
        """Add the inverse to the rows and columns of the samples above the diagonal of a symmetric matrix (N, N)."""
        add_inverse(self.samples, self.nodes, self.diagonal, self.tied, self.later, self.earlier, matrix)


class RiskInverse:
    """The inverse for all strata; zero for samples without comparisons."""

    def __init__(self, strata: list[StratumInverse]) -> None:
        self.strata = strata

    def product(self, x: Array) -> Array:
        """Return the inverse times a vector (N,)."""
        found = np.zeros(len(x))
        for own in self.strata:
            found[own.samples] = own.product(x[own.samples])
        return found

    def add_to(self, matrix: Array) -> None:
        """Add the inverse to the upper triangle of a symmetric matrix (N, N)."""
        for own in self.strata:
            own.add_to(matrix)


@compiled()
def add_inverse(
    samples: Positions,
    nodes: Positions,
    diagonal: Array,
    tied: Array,
    later: Array,
    earlier: Array,
    matrix: Array,
) -> None:
    """Add the inverse for the sorted samples of a stratum to the upper triangle of a symmetric matrix."""
    for j in range(samples.size):
        b, node = samples[j], nodes[j]
        for i in range(j):
            entry = later[node] + earlier[nodes[i]]
            if nodes[i] == node:
                entry -= tied[node]
            a = samples[i]
            matrix[min(a, b), max(a, b)] += entry
        matrix[b, b] += later[node] + earlier[node] - tied[node] + diagonal[j]
