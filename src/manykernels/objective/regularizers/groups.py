r"""Other penalties for other kernels: subjects and batches under ridge, say, and the block 1-norm for the rest.

.. math:: \Omega(t) = C \sum_g \Omega_g(t_g), \qquad \Omega^*(u) = \sum_g (C\,\Omega_g)^*(u_g)

Conjugates add, the smallest of the scales of all parts makes a dual point feasible, prox and weights act on every part
by itself. Where every part has linear and ridge terms only, so has the whole: its `curve` has a coefficient per kernel,
and every engine reads it there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from manykernels.exceptions import InvalidInputError
from manykernels.objective.capabilities import Capability
from manykernels.objective.regularizers.base import Array, Regularizer, check_regularizer
from manykernels.objective.regularizers.curve import Curve
from manykernels.objective.regularizers.norms import Ridge
from manykernels.validation.parameters import listed

REST = ("*", "default")
"""What the kernels are called that nothing else names."""

COMMON = (
    Capability.CURVATURE,
    Capability.WEIGHTS_FROM_NORMS,
    Capability.SEPARABLE,
    Capability.SMOOTH_CONJUGATE,
    Capability.FIXED_WEIGHTS,
    Capability.STRONG_CONVEXITY,
)
"""What the whole can do if all of its parts can."""


@dataclass(frozen=True)
class Unpenalized(Ridge):
    """No penalty: a problem substitutes negligible ridge terms, and certifies the original."""

    strength: float = 1.0
    resting: tuple[float, ...] | None = None  # second derivatives of these terms, one a kernel, once a problem knows

    name: ClassVar[str] = "none"
    penalizes: ClassVar[bool] = False

    @property
    def rests(self) -> bool:
        """Return whether the substitutes for unpenalized kernels are set."""
        return self.resting is not None

    def resting_on(self, ridge: Array) -> Unpenalized:
        return replace(self, resting=tuple(ridge.tolist()))

    @cached_property
    def curve(self) -> Curve:
        """``r``, an entry per kernel."""
        return Curve(ridge=1.0 if self.resting is None else np.array(self.resting))

    def take(self, kernels: slice | Array) -> Unpenalized:
        if self.resting is None:
            return self
        return replace(self, resting=tuple(np.array(self.resting)[kernels].tolist()))

    def multiplied(self, factor: float) -> Unpenalized:
        """Return the penalty unchanged."""
        return self


@dataclass(frozen=True)
class PenaltyByGroup(Regularizer):
    """``C sum_g Omega_g(t_g)``: the kernels of every group have a separate penalty.

    Made by `get_regularizer` and by the parameter ``penalty`` of estimators from a mapping like ``{"subject": "ridge",
    "*": "l1"}``. Until a problem says what the kernels are called (`on_kernels`), it is the penalty of a kernel per
    group.

    Parameters
    ----------
    strength : float
        ``C``, which multiplies the strengths of all parts.
    groups : tuple of str, int or tuple
        What the kernels of every group are called, see `kernels_called`; at most one is ``"*"``, the rest.
    parts : tuple of Regularizer
        The penalty of every group; `Unpenalized` is none, whatever the strength.
    owners : tuple of int, optional
        The group of every kernel, once kernels are known.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.objective import get_regularizer
    >>> penalty = get_regularizer({"subject": "ridge", "*": "l1"}, 2.0).on_kernels(("age", "subject", "dose"))
    >>> penalty.value(np.array([1.0, 3.0, 1.0])), penalty.curve.linear.tolist()
    (13.0, [2.0, 0.0, 2.0])
    """

    groups: tuple[Any, ...] = ()
    parts: tuple[Regularizer, ...] = ()
    owners: tuple[int, ...] | None = None

    name: ClassVar[str] = "by_group"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.parts or len(self.groups) != len(self.parts):
            raise InvalidInputError(
                "Penalties by group are a mapping of kernels to penalties, such as {'subject': 'ridge', '*': 'l1'}; "
                f"got {len(self.groups)} group(s) and {len(self.parts)} penalties."
            )
        for part in self.parts:
            check_regularizer(part)
        if sum(is_rest(group) for group in self.groups) > 1:
            raise InvalidInputError(f"'*' and 'default' both name the rest of the kernels: give one of {self.groups}.")

    # --- which kernels ----------------------------------------------------------------------------------------------

    def on_kernels(self, names: Sequence[Any]) -> PenaltyByGroup:
        """Return the penalty of kernels of the names; itself if known.

        Raises
        ------
        InvalidInputError
            If a group names no kernel, two the same, or a kernel is in none.
        """
        if self.owners is not None:
            if len(names) != len(self.owners):
                raise InvalidInputError(f"This is a penalty of {len(self.owners)} kernels, not of {len(names)}.")
            return self
        names = [str(name) for name in names]
        owners = owners_of(self.groups, names)
        parts = [
            part.on_kernels([names[m] for m in np.flatnonzero(owners == g).tolist()])
            for g, part in enumerate(self.parts)
        ]
        return replace(self, parts=tuple(parts), owners=tuple(owners.tolist()))

    def resting_on(self, ridge: Array) -> PenaltyByGroup:
        parts = (part.resting_on(ridge[self._owners == g]) for g, part in enumerate(self.parts))
        return replace(self, parts=tuple(parts))

    @property
    def rests(self) -> bool:
        return all(part.rests for part in self.parts)

    @cached_property
    def unpenalized(self) -> Array:  # computed once
        free = [g for g, part in enumerate(self.parts) if not part.penalizes]
        return np.flatnonzero(np.isin(self._owners, free))

    @cached_property
    def _owners(self) -> Array:
        """The group of every kernel, (M,)."""
        return np.arange(len(self.parts)) if self.owners is None else np.asarray(self.owners, dtype=np.intp)

    @cached_property
    def _blocks(self) -> tuple[tuple[Regularizer, Array], ...]:
        """The penalties of nonempty groups at their strength, with the positions."""
        found = ((part, np.flatnonzero(self._owners == g)) for g, part in enumerate(self.parts))
        return tuple((part.multiplied(self.strength), own) for part, own in found if own.size)

    @property
    def _penalized(self) -> list[tuple[Regularizer, Array]]:
        """The penalized entries of `_blocks`."""
        return [(part, own) for part, own in self._blocks if part.penalizes]

    def take(self, kernels: slice | Array) -> PenaltyByGroup:
        chosen, place = np.arange(self._owners.size)[kernels], np.empty(self._owners.size, dtype=np.intp)
        for g in range(len(self.parts)):
            own = np.flatnonzero(self._owners == g)
            place[own] = np.arange(own.size)
        owners = self._owners[chosen]
        parts = (part.take(place[chosen[owners == g]]) for g, part in enumerate(self.parts))
        return replace(self, parts=tuple(parts), owners=tuple(owners.tolist()))

    def _each(self, function: Callable[..., Any], *vectors: Array | float) -> Array:
        """Return a function of every part and the part of the vectors, a value per kernel."""
        whole = np.empty(self._owners.size)
        for part, own in self._blocks:
            whole[own] = function(part, *(np.asarray(vector)[own] for vector in vectors))
        return whole

    # --- data -------------------------------------------------------------------------------------------------------

    @cached_property
    def curve(self) -> Curve | None:
        """A coefficient per kernel of linear and ridge terms; None for other parts."""
        curves = [(part.curve, own) for part, own in self._blocks]
        if not all(curve is not None and curve.elastic for curve, _ in curves):
            return None
        linear, ridge = np.empty(self._owners.size), np.empty(self._owners.size)
        for curve, own in curves:
            assert curve is not None
            linear[own], ridge[own] = curve.linear, curve.ridge
        return Curve(linear=linear, ridge=ridge)

    def norms_of(self, n_kernels: int) -> tuple[Array, Array] | None:
        """Return the norms of all parts, or None unless all parts are sums of norms."""
        members, factors = [], []
        for part, own in self._blocks:
            norms = part.norms_of(own.size) if part.penalizes else None
            if norms is None:
                return None
            members.append(np.zeros((len(norms[1]), n_kernels), dtype=bool))
            members[-1][:, own] = norms[0]
            factors.append(norms[1])
        return np.concatenate(members), np.concatenate(factors)

    @property
    def separable(self) -> bool:  # type: ignore[override]  # as its parts are
        """Whether every part is a sum over kernels."""
        return all(part.separable for part, _ in self._blocks)

    @property
    def sparse(self) -> bool:
        return any(part.sparse for part, _ in self._blocks)

    @property
    def dual_constraint(self) -> bool:
        return any(part.dual_constraint for part, _ in self._blocks)

    @property
    def inactive_below(self) -> Array:
        """The thresholds of the parts, (M,)."""
        return self._each(lambda part: part.inactive_below)

    @property
    def weight_range(self) -> tuple[Array, Array]:
        return self._each(lambda part: part.weight_range[0]), self._each(lambda part: part.weight_range[1])

    @cached_property
    def capabilities(self) -> frozenset[Capability]:
        """The common capabilities of the parts; bounds on dual norms come from the curve."""
        if self.curve is not None:
            return super().capabilities
        common = frozenset.intersection(*(part.capabilities for part, _ in self._blocks)) & frozenset(COMMON)
        return common | ({Capability.SELECTION} if self.sparse else frozenset())

    @property
    def l1_ratio(self) -> float:
        """The common mixture of the parts; nan if undefined."""
        ratios = {part.l1_ratio for part in self.parts if hasattr(part, "l1_ratio")}
        return float(ratios.pop()) if len(ratios) == 1 else float("nan")

    # --- what the problem is ----------------------------------------------------------------------------------------

    def value(self, t: Array) -> float:
        """Return the sum of the parts' values."""
        return float(sum(part.value(np.asarray(t)[own]) for part, own in self._blocks))

    def conjugate(self, u: Array) -> float:
        return float(sum(part.conjugate(np.asarray(u)[own]) for part, own in self._blocks))

    def dual_scale(self, u: Array) -> float:
        """Return the smallest of the parts' scales."""
        return min(part.dual_scale(np.asarray(u)[own]) for part, own in self._blocks)

    def weights(self, t: Array, u: Array) -> Array:
        return self._each(lambda part, *vectors: part.weights(*vectors), t, u)

    def prox(self, t: Array, step: float | Array) -> Array:
        """Proximal steps, part by part."""
        if np.ndim(step) == 0:
            return self._each(lambda part, own: part.prox(own, step), t)
        return self._each(lambda part, own, steps: part.prox(own, steps), t, step)

    def strength_max(self, u: Array) -> float:
        """Return the smallest strength of the zero model: infinite with a nonselecting part."""
        return max(self._largest(u), default=0.0)

    def path_start(self, u: Array) -> float:
        """Return the strength at which all selecting parts are empty; infinite if none selects."""
        finite = [largest for largest in self._largest(u) if np.isfinite(largest)]
        selects = any(part.sparse for part, _ in self._penalized)
        return max(finite, default=0.0) if selects else self.strength_max(u)

    def _largest(self, u: Array) -> list[float]:
        """Return the strength of the whole at which all parts are empty."""
        blocks = self._penalized
        return [self.strength * part.strength_max(np.asarray(u)[own]) / part.strength for part, own in blocks]

    def relative(self, fraction: float, u: Array, loss: float) -> PenaltyByGroup:
        """Scale every part by the part's own strength of the empty model, times the factor."""
        parts = list(self.parts)
        groups = [g for g in np.unique(self._owners) if parts[g].penalizes]
        if not groups:
            return self
        for g in groups:
            own = replace(parts[g], strength=1.0).relative(fraction, np.asarray(u)[..., self._owners == g], loss)
            parts[g] = replace(own, strength=parts[g].strength * own.strength)
        common = max(parts[g].strength for g in groups)
        return replace(self, strength=common, parts=tuple(part.multiplied(1.0 / common) for part in parts))

    def strength_of_nothing_to_gain(self, u: Array, loss: float) -> float:
        """Return the largest empty-model strength of the parts, preferably of selecting parts."""
        start = self.path_start(u)
        if np.isfinite(start):
            return start
        each = (
            self.strength * part.strength_of_nothing_to_gain(np.asarray(u)[own], loss) / part.strength
            for part, own in self._penalized
        )
        return max(each, default=0.0)

    def threshold(self, t: Array) -> Array:
        """Thresholds, part by part."""
        return self._each(lambda part, own: part.threshold(own), t)

    def excess(self, t: Array, u: Array) -> Array:
        """Return the excess of every part."""
        return self._each(lambda part, *vectors: part.excess(*vectors), t, u)

    # --- derivatives ------------------------------------------------------------------------------------------------

    def derivative(self, t: Array) -> Array:
        return self._each(lambda part, own: part.derivative(own), t)

    def curvature(self, t: Array) -> tuple[Array, Array]:
        """Return ``h`` and ``g`` of the parts; of several parts with a ``g``, only the first is exact.

        Two of them would share one ``g g'``, so the rest are replaced by the diagonal matrix above them, ``g_m sum_n
        g_n``.
        """
        diagonal, coupling = np.empty(self._owners.size), np.zeros(self._owners.size)
        for part, own in self._blocks:
            diagonal[own], g = part.curvature(np.asarray(t)[own])
            if coupling.any():
                diagonal[own] += np.abs(g) * np.abs(g).sum()
            else:
                coupling[own] = g
        return diagonal, coupling

    def second_derivative(self, t: Array) -> Array:
        """Second derivatives, part by part."""
        return self._each(lambda part, own: part.second_derivative(own), t)

    def hessian(self, t: Array) -> Array:
        """Second derivatives in all block norms, a block a part."""
        whole = np.zeros((self._owners.size, self._owners.size))
        for part, own in self._blocks:
            whole[np.ix_(own, own)] = part.hessian(np.asarray(t)[own])
        return whole

    def weights_from_norms(self, t: Array) -> Array:
        """Best weights, part by part."""
        return self._each(lambda part, own: part.weights_from_norms(own), t)

    def on_boundary(self, d: Array) -> Array:
        """Scaled weights, part by part."""
        return self._each(lambda part, own: part.on_boundary(own), d)

    def conjugate_derivative(self, u: Array) -> Array:
        return self._each(lambda part, own: part.conjugate_derivative(own), u)


def is_rest(group: object) -> bool:
    """Return whether a group is the rest, all kernels without another name."""
    return isinstance(group, str) and group in REST


def kernels_called(group: object, names: Sequence[str]) -> Array:
    """Return which kernels a group names, (M,) bool, or refuse a group that names none.

    It gives the name of a kernel, a pattern like ``"batch*"``, what stands before the colon of names as those of views
    and gene sets (``"clinical"`` for ``"clinical: linear"``), the position of a kernel, or several of all these.

    Examples
    --------
    >>> kernels_called("age", ["age: linear", "age: gaussian(width=1)", "sex"]).tolist()
    [True, True, False]
    """
    found = np.zeros(len(names), dtype=bool)
    if isinstance(group, (tuple, list)):
        for one in group:
            found |= kernels_called(one, names)
    elif isinstance(group, (int, np.integer)) and not isinstance(group, bool) and 0 <= group < len(names):
        found[group] = True
    elif isinstance(group, str) and group in names:
        found[:] = [name == group for name in names]
    elif isinstance(group, str):
        found[:] = [is_rest(group) or name.startswith(f"{group}: ") or fnmatchcase(name, group) for name in names]
    if not found.any():
        raise InvalidInputError(f"No kernel is called {group!r}. {_words(names)}")
    return found


def owners_of(groups: Sequence[Any], names: Sequence[str]) -> Array:
    """Return the group of every kernel, (M,): by exact name, else by pattern, else the rest."""
    owners, exact = np.full(len(names), -1), np.zeros(len(names), dtype=bool)
    for g, group in enumerate(groups):
        if is_rest(group):
            continue
        found, named = kernels_called(group, names), isinstance(group, int) or group in names
        twice = found & (owners >= 0) & (exact == named)
        if twice.any():
            m = int(np.flatnonzero(twice)[0])
            raise InvalidInputError(
                f"The kernel {names[m]!r} has two penalties, those of {groups[int(owners[m])]!r} and {group!r}. Give "
                "every kernel one; an exact name counts before a pattern, and '*' is the rest."
            )
        found &= named | ~exact
        owners[found], exact[found] = g, named
    rest = next((g for g, group in enumerate(groups) if is_rest(group)), -1)
    if rest < 0 and (owners < 0).any():
        lost = [names[m] for m in np.flatnonzero(owners < 0).tolist()]
        raise InvalidInputError(
            f"{len(lost)} kernel(s) have no penalty, such as {lost[0]!r}. Name them, or give the rest one: '*': 'l1'."
        )
    owners[owners < 0] = rest
    return owners


def _words(names: Sequence[str]) -> str:
    """Return the available names, in words."""
    return f"There are {listed(map(repr, names[:8]), len(names))}."


def read_groups(mapping: Mapping[Any, Any]) -> tuple[Any, ...]:
    """Return the keys of a mapping of kernels, or raise an error for invalid keys."""
    for key in mapping:
        parts = key if isinstance(key, tuple) else (key,)
        if not parts or not all(isinstance(part, (str, int, np.integer)) for part in parts):
            raise InvalidInputError(f"Kernels are named by text, positions or tuples of these, not by {key!r}.")
    return tuple(mapping)
