r"""Trees of penalties: views of gene sets of kernels, every level with norms of its own (the sparse group lasso).

.. math:: \Omega(t) = C \sum_v c_v \lVert t_v \rVert_2

over the nodes ``v`` of a tree, whose leaves are kernels, with ``t_v`` the norms of the kernels below a node. All of it
is a recursion from the leaves to the roots:

    prox          shrink the kernels, then the vector of every node, ``x_v (1 - step C c_v / ||x_v||)_+``
    conjugate     0 if ``z_v = (||z below v|| - C c_v)_+`` is zero at every root, where ``z_m = (u_m - C c_m)_+``
    weights       d_m = t_m / Omega'(t)_m,     Omega'(t)_m = C sum_{v above m} c_v t_m / ||t_v||

The dual norm, by which a point is scaled, is the root of the same recursion in the strength.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from manykernels.exceptions import InvalidInputError
from manykernels.objective.regularizers.base import Array, Regularizer
from manykernels.objective.regularizers.curve import OVERSHOOT
from manykernels.objective.regularizers.groups import kernels_called
from manykernels.validation.arrays import check_positive


@dataclass(frozen=True)
class Tree(Regularizer):
    r"""Norms of kernels, of groups of kernels, of groups of groups: what is needed neither alone nor together is zero.

    .. math:: \Omega(t) = C \Big( r \sum_m t_m + \frac{1 - r}{L} \sum_{v} \sqrt{n_v}\, \lVert t_v \rVert_2 \Big)

    with ``v`` the groups of all ``L`` levels and ``n_v`` the number of kernels in one. With a single level it is the
    sparse group lasso.

    Parameters
    ----------
    strength : float
        ``C``.
    groups : mapping or tuple, default=()
        Groups by name: ``{"rna": {"apoptosis": "rna apoptosis*", "repair": ["tp53", "atm"]}, "clinical": None}``. A
        value is again a mapping, or tells the kernels of a group as names, patterns or a list of these; None if the
        group is called as the kernels are. Kernels that no group names have none above them. Without groups there is
        one of all kernels.
    l1_ratio : float, default=0.5
        ``r``, above 0 and at most 1, which is the block 1-norm. At 0 groups would be kept or left as wholes: a group is
        a single kernel then, the sum of the kernels.
    owners : tuple of tuple of int, optional
        For every level from the roots down the group of every kernel, -1 for none; known once kernels are.
    sizes : tuple of tuple of float, optional
        For every level the factors ``sqrt(n_v) / L`` of the groups.

    References
    ----------
    N. Simon, J. Friedman, T. Hastie, R. Tibshirani, "A sparse-group lasso", JCGS 22 (2013).
    R. Jenatton, J. Mairal, G. Obozinski, F. Bach, "Proximal methods for hierarchical sparse coding", JMLR 12 (2011).

    Examples
    --------
    >>> import numpy as np
    >>> tree = Tree(1.0, {"rna": ["a", "b"], "clinical": ["c"]}, l1_ratio=0.5).on_kernels(["a", "b", "c"])
    >>> tree.prox(np.array([2.0, 0.4, 0.9]), 1.0).round(3).tolist()
    [0.793, 0.0, 0.0]
    """

    groups: Any = ()
    l1_ratio: float = 0.5
    owners: tuple[tuple[int, ...], ...] | None = None
    sizes: tuple[tuple[float, ...], ...] = ()

    name: ClassVar[str] = "tree"
    separable: ClassVar[bool] = False
    sparse: ClassVar[bool] = True
    dual_constraint: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "l1_ratio", check_positive(self.l1_ratio, "l1_ratio", upper=1.0))
        object.__setattr__(self, "groups", _frozen(self.groups))

    # --- which kernels ----------------------------------------------------------------------------------------------

    def on_kernels(self, names: Sequence[Any]) -> Tree:
        """Return the tree over kernels of the names; itself if known.

        Raises
        ------
        InvalidInputError
            If a group names no kernel, or two groups not one inside the other name the same.
        """
        if self.owners is not None:
            if len(names) != len(self.owners[0]):
                raise InvalidInputError(f"This is a tree of {len(self.owners[0])} kernels, not of {len(names)}.")
            return self
        if not self.groups:
            return replace(self, owners=((0,) * len(names),), sizes=((float(np.sqrt(len(names))),),))
        levels: list[list[Array]] = []
        _collect(self.groups, [str(name) for name in names], 0, levels)
        owners = tuple(tuple(_owner_of(groups, names).tolist()) for groups in levels)
        sizes = tuple(tuple(float(np.sqrt(group.sum()) / len(levels)) for group in groups) for groups in levels)
        return replace(self, owners=owners, sizes=sizes)

    def take(self, kernels: slice | Array) -> Tree:
        """Return the tree over some of the kernels, with unchanged group factors."""
        if self.owners is None:
            return self
        return replace(self, owners=tuple(tuple(np.asarray(level)[kernels].tolist()) for level in self.owners))

    def _levels(self, n_kernels: int) -> list[tuple[Array, Array, Array]]:
        """Return level by level, the leaves first, the members and group indices, and ``c_v / C`` of all groups."""
        if self.owners is None and self.groups:
            raise InvalidInputError("The names of the kernels of this tree are not set; see on_kernels.")
        if self.owners is None:
            return [
                (np.arange(n_kernels), np.zeros(n_kernels, dtype=np.intp), (1.0 - self.l1_ratio) * np.sqrt([n_kernels]))
            ]
        return self._penalized_levels

    @cached_property
    def _penalized_levels(self) -> list[tuple[Array, Array, Array]]:
        """`_levels` of kernels known."""
        found = []
        for level, sizes in zip(reversed(self.owners or ()), reversed(self.sizes), strict=True):
            owner = np.asarray(level, dtype=np.intp)
            inside = np.flatnonzero(owner >= 0)
            found.append((inside, owner[inside], (1.0 - self.l1_ratio) * np.asarray(sizes)))
        return found

    def norms_of(self, n_kernels: int) -> tuple[Array, Array]:
        """Return the kernels of every norm, singletons first, and ``C c_v``; empty groups have none."""
        members, factors = [np.eye(n_kernels, dtype=bool)], [np.full(n_kernels, self.l1_ratio)]
        for inside, owner, sizes in self._levels(n_kernels):
            level = np.zeros((len(sizes), n_kernels), dtype=bool)
            level[owner, inside] = True
            kept = level.any(axis=1) & (sizes > 0)
            members.append(level[kept])
            factors.append(sizes[kept])
        return np.concatenate(members), self.strength * np.concatenate(factors)

    # --- the recursion ----------------------------------------------------------------------------------------------

    def _gauge(self, u: Array) -> float:
        """Return the smallest strength for a feasible ``u``: the dual norm of the tree at strength 1."""
        u = np.asarray(u, dtype=np.float64)
        top = float(np.max(u, initial=0.0))
        if not top > 0:
            return 0.0
        u, alone = u / top, np.full(len(u), self.l1_ratio)
        for inside, owner, sizes in self._levels(len(u)):
            alone[inside] += sizes[owner]
        low, high = float(np.max(u / alone)), float(np.max(u)) / self.l1_ratio

        def excess(strength: float) -> float:
            return float(np.max(self._excess(u, strength)))

        if excess(low) <= 0:
            return top * low
        return top * float(brentq(excess, low, high, xtol=1e-300, rtol=8.9e-16)) if excess(high) < 0 else top * high

    def _excess(self, u: Array, strength: float) -> Array:
        """Return how far norms at the roots are above their limits, and kernels without groups above theirs."""
        z = np.maximum(u - strength * self.l1_ratio, 0.0)
        excess = u - strength * self.l1_ratio
        for inside, owner, sizes in self._levels(len(u)):
            norms, limits = _norms(z[inside], owner, len(sizes)), strength * sizes
            z[inside] *= _shrink(norms, limits)[owner]
            excess[inside] = (norms - limits)[owner]
        return excess

    # --- what the problem is ----------------------------------------------------------------------------------------

    @property
    def inactive_below(self) -> float:
        """``C r``: groups not zero ask no more of their kernels."""
        return self.strength * self.l1_ratio

    def value(self, t: Array) -> float:
        """Return the sum of all norms, times their factors."""
        t = np.asarray(t, dtype=np.float64)
        total = self.l1_ratio * float(np.sum(t))
        for inside, owner, sizes in self._levels(len(t)):
            total += float(sizes @ _norms(t[inside], owner, len(sizes)))
        return self.strength * total

    def conjugate(self, u: Array) -> float:
        """Return 0, or infinity where the dual norm is above the strength."""
        return 0.0 if self._gauge(u) <= self.strength * (1.0 + OVERSHOOT) else np.inf

    def dual_scale(self, u: Array) -> float:
        """Return the strength over the dual norm, at most 1."""
        gauge = self._gauge(u)
        return 1.0 if gauge <= self.strength else self.strength / gauge

    def strength_max(self, u: Array) -> float:
        """Return the dual norm at strength 1."""
        return self._gauge(u)

    def prox(self, t: Array, step: float) -> Array:
        """Shrink kernels, then groups from the leaves up."""
        x = np.maximum(np.asarray(t, dtype=np.float64) - step * self.strength * self.l1_ratio, 0.0)
        for inside, owner, sizes in self._levels(len(x)):
            norms = _norms(x[inside], owner, len(sizes))
            x[inside] *= _shrink(norms, step * self.strength * sizes)[owner]
        return x

    def threshold(self, t: Array) -> Array:
        """Return ``C (r + sum_v c_v / sqrt(n_v))`` over the groups ``v`` of a kernel that are zero.

        Below it everywhere, no group leaves zero.
        """
        t = np.asarray(t, dtype=np.float64)
        slopes = np.full(len(t), self.l1_ratio)
        for inside, owner, sizes in self._levels(len(t)):
            zero = _norms(t[inside], owner, len(sizes)) == 0
            counts = np.maximum(np.bincount(owner, minlength=len(sizes)), 1)
            slopes[inside] += (zero * sizes / np.sqrt(counts))[owner]
        return self.strength * slopes

    def excess(self, t: Array, u: Array) -> Array:
        """Return the remainder of ``(u - C r)_+`` after zero groups; other kernels resist by ``C r`` alone."""
        t = np.asarray(t, dtype=np.float64)
        z = np.where(t > 0, 0.0, np.maximum(np.asarray(u) - self.inactive_below, 0.0))
        for inside, owner, sizes in self._levels(len(t)):
            zero = _norms(t[inside], owner, len(sizes)) == 0
            norms = _norms(z[inside], owner, len(sizes))
            z[inside] *= _shrink(norms, self.strength * sizes * zero)[owner]
        return z

    # --- derivatives ------------------------------------------------------------------------------------------------

    def derivative(self, t: Array) -> Array:
        """Return ``C (r + sum_v c_v t_m / ||t_v||)``, with ``c_v`` for zero groups."""
        t = np.asarray(t, dtype=np.float64)
        slopes = np.full(len(t), self.l1_ratio)
        for inside, owner, sizes in self._levels(len(t)):
            norms = _norms(t[inside], owner, len(sizes))[owner]
            shares = np.divide(t[inside], norms, out=np.ones(len(inside)), where=norms > 0)
            slopes[inside] += sizes[owner] * shares
        return self.strength * slopes

    def curvature(self, t: Array) -> tuple[Array, Array]:
        """Return the diagonal matrix ``C sum_v c_v / ||t_v||``, an upper bound on the second derivatives."""
        return self.strength * _bends(t, self._levels(len(t)))[0], np.zeros(np.shape(t))

    def second_derivative(self, t: Array) -> Array:
        """Return ``C sum_v c_v (1 - t_m^2 / ||t_v||^2) / ||t_v||``."""
        return self.strength * _bends(t, self._levels(len(t)))[1]

    def hessian(self, t: Array) -> Array:
        """Return ``C sum_v c_v (I - t_v t_v' / ||t_v||^2) / ||t_v||`` (M, M)."""
        t = np.asarray(t, dtype=np.float64)
        whole = np.diag(self.strength * _bends(t, self._levels(len(t)))[0])
        for inside, owner, sizes in self._levels(len(t)):
            norms = _norms(t[inside], owner, len(sizes))
            for v in np.flatnonzero(norms > 0):
                own = inside[owner == v]
                unit = t[own] / norms[v]
                whole[np.ix_(own, own)] -= self.strength * sizes[v] / norms[v] * np.outer(unit, unit)
        return whole


def _bends(t: Array, levels: Sequence[tuple[Array, Array, Array]]) -> Array:
    """Return an upper bound of the second derivatives at strength 1, and their diagonal, (2, M).

    Both are infinite in groups of zero norm.
    """
    t = np.asarray(t, dtype=np.float64)
    bends = np.zeros((2, len(t)))
    for inside, owner, sizes in levels:
        norms = _norms(t[inside], owner, len(sizes))[owner]
        shares = np.divide(t[inside], norms, out=np.zeros(len(inside)), where=norms > 0)
        own = np.divide(sizes[owner], norms, out=np.full(len(inside), np.inf), where=norms > 0)
        bends[:, inside] += own, own * (1.0 - shares**2)
    return bends


def _norms(values: Array, owner: Array, n_groups: int) -> Array:
    """Return the Euclidean norm of every group, without overflow."""
    top = float(np.max(values, initial=0.0))
    if not top > 0:
        return np.zeros(n_groups)
    norms: Array = top * np.sqrt(np.bincount(owner, (values / top) ** 2, minlength=n_groups))
    return norms


def _shrink(norms: Array, limits: Array) -> Array:
    """Return the shrinkage factors of groups with norms reduced by the limits."""
    return np.maximum(1.0 - np.divide(limits, norms, out=np.ones(len(norms)), where=norms > 0), 0.0)


def _frozen(groups: ArrayLike | None) -> Any:
    """Return groups as tuples: pairs of name and content, or names of kernels."""
    if isinstance(groups, Mapping):
        return tuple((str(name), _frozen((name,) if own is None else own)) for name, own in groups.items())
    if isinstance(groups, (str, int)):
        return (groups,)
    if not isinstance(groups, (tuple, list)):
        raise InvalidInputError(
            "The groups of a tree are a mapping of names to what kernels are called or to groups, such as "
            f"{{'rna': {{'apoptosis': 'rna apoptosis*'}}, 'clinical': None}}; got {groups!r}."
        )
    return tuple((own[0], _frozen(own[1])) if isinstance(own, (tuple, list)) else own for own in groups)


def _collect(groups: Any, names: Sequence[str], depth: int, levels: list[list[Array]]) -> Array:
    """Append the kernels of every group, (M,) bool, to the level; return the kernels of all groups."""
    found = np.zeros(len(names), dtype=bool)
    if len(levels) == depth:
        levels.append([])
    for _, own in groups:
        nested = any(isinstance(one, tuple) for one in own)
        kernels = _collect(own, names, depth + 1, levels) if nested else kernels_called(own, names)
        levels[depth].append(kernels)
        found |= kernels
    return found


def _owner_of(groups: Sequence[Array], names: Sequence[Any]) -> Array:
    """Return the group of every kernel, (M,), -1 for none; reject overlaps."""
    counts = np.sum(groups, axis=0) if groups else np.zeros(len(names))
    if np.any(counts > 1):
        m = int(np.argmax(counts > 1))
        raise InvalidInputError(
            f"The kernel {names[m]!r} is in two groups of a tree, neither inside the other. Remove it from one."
        )
    owner = np.full(len(names), -1)
    for v, group in enumerate(groups):
        owner[group] = v
    return owner
