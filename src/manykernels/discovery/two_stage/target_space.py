"""Centered matrices, their alignment with the ideal kernel, and the steps of both searches in two stages."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manykernels.alignment.metrics import SMALLEST_SHARE, centered, cosine
from manykernels.validation.arrays import Array

TINY = float(np.finfo(np.float64).tiny)
LARGEST_STEP = 1.0  # eta_max of the thesis


@dataclass(frozen=True, eq=False)
class TargetSpace:
    """Centered, weighted matrices of a training set.

    ``<K, L> = sum_ij s_i s_j (CKC')_ij (CLC')_ij`` with ``C = I - 1 s'/S``.
    With sample weights of one this is the centered Frobenius product of the thesis; a weight of two counts a sample
    twice. The scale of the target does not count.

    Parameters
    ----------
    target, weight : ndarray of shape (n_samples,)

    Examples
    --------
    >>> import numpy as np
    >>> space = TargetSpace(np.array([1.0, 2.0, 3.0]), np.ones(3))
    >>> round(space.alignment(np.outer([1, 2, 3], [1, 2, 3])), 12)
    1.0
    """

    target: Array
    weight: Array

    @property
    def ideal(self) -> Array:
        """The centered ideal kernel ``y y'``, with weights, scaled to norm one; zero for a constant target."""
        # Squares of the target itself, and products of four of them, may overflow or vanish.
        target = self.target / max(float(np.abs(self.target).max()), TINY)
        root = np.sqrt(self.weight)
        values = root * (target - np.average(target, weights=self.weight))
        size = float(np.linalg.norm(values))
        varies = size > SMALLEST_SHARE * float(np.linalg.norm(root * target))
        direction = values / size if varies else np.zeros_like(values)
        return np.outer(direction, direction)

    @property
    def identity(self) -> Array:
        """The centered identity, with weights: samples that are one count as that many different ones."""
        return self.centered(np.diag(1.0 / self.weight))

    @property
    def n_counted(self) -> float:
        """Number of samples, each as often as its weight says; weights that add up to less are taken as a scale."""
        return max(float(self.weight.sum()), float(len(self.weight)))

    def centered(self, gram: Array) -> Array:
        """Return ``W^(1/2) C K C' W^(1/2)``; zero for a constant matrix, of which centering leaves but rounding.

        Parameters
        ----------
        gram : ndarray of shape (n_samples, n_samples)

        Returns
        -------
        ndarray of shape (n_samples, n_samples)
        """
        inner = centered(gram, self.weight / self.weight.sum())
        if np.abs(inner).max() <= SMALLEST_SHARE * np.abs(gram).max():
            return np.zeros_like(inner)
        root = np.sqrt(self.weight)
        return inner * root[:, None] * root

    def adjoint(self, matrix: Array) -> Array:
        """Return ``A`` with ``<A, K> = <matrix, centered(K)>`` for every symmetric ``K``.

        Parameters
        ----------
        matrix : ndarray of shape (n_samples, n_samples)

        Returns
        -------
        ndarray of shape (n_samples, n_samples)
        """
        share, root = self.weight / self.weight.sum(), np.sqrt(self.weight)
        inner = matrix * root[:, None] * root
        inner = inner - np.outer(share, inner.sum(axis=0))
        inner -= np.outer(inner.sum(axis=1), share)
        return (inner + inner.T) / 2

    def alignment(self, gram: Array) -> float:
        """Return the centered alignment of a Gram matrix with the ideal kernel, between -1 and 1; 0 if undefined.

        Parameters
        ----------
        gram : ndarray of shape (n_samples, n_samples)

        Returns
        -------
        float
        """
        return cosine(self.centered(gram), self.ideal)


def alignment_step(kernel: Array, member: Array, ideal: Array, largest: float = LARGEST_STEP) -> float:
    """Return the step that maximizes the alignment of ``kernel + step * member`` with the ideal kernel.

    Proposition 5.4 of the thesis, clipped as it should read: the alignment
    ``(a + b eta) / sqrt(c + 2 d eta + e eta^2)`` has at most one stationary point, ``(ad - bc) / (bd - ae)``; the
    best of it (inside the interval), 0 and ``largest`` is taken.
    """
    a, b = float(np.vdot(kernel, ideal)), float(np.vdot(member, ideal))
    c, d, e = float(np.vdot(kernel, kernel)), float(np.vdot(kernel, member)), float(np.vdot(member, member))
    steps = [0.0, largest]
    if b * d != a * e:
        steps.append(float(np.clip((a * d - b * c) / (b * d - a * e), 0.0, largest)))

    def value(step: float) -> float:
        squared = c + 2 * d * step + e * step**2
        return (a + b * step) / np.sqrt(squared) if squared > 0 else 0.0

    return max(steps, key=value)


def distance_step(current: Array, vertex: Array, ideal: Array) -> float:
    """Return the exact Frank-Wolfe step from ``current`` to ``vertex`` for half the squared distance to ``ideal``.

    ``clip(<D, R> / <D, D>, 0, 1)`` with ``D = vertex - current`` and ``R = ideal - current``. The step printed in
    Algorithm 8 is that along the vertex itself; combined with its update it stalls.
    """
    change = vertex - current
    size = float(np.vdot(change, change))
    return float(np.clip(np.vdot(change, ideal - current) / size, 0.0, 1.0)) if size > 0 else 0.0
