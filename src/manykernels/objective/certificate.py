"""The certificate: how far a given model is from the optimum, and which condition it misses."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from manykernels.validation.arrays import Array

__all__ = ["Certificate", "KKTResiduals"]


@dataclass(frozen=True)
class KKTResiduals:
    """Optimality residuals of a model; all are free of scale and zero at the optimum.

    The first two add up to the relative gap: the gap is a sum of Fenchel-Young gaps, one a sample and one for the
    penalty. (The distance of ``rho_i`` to ``-s_i dl`` would jump by ``s_i`` on a hinge whose margin is 1 + 1e-15.)

    Attributes
    ----------
    stationarity : float
        ``sum_i s_i [l(y_i, z_i) + l*(y_i, -r_i) + r_i z_i]`` over ``max(|P|, tiny)``: how badly scores and dual
        coefficients fit each other.
    complementarity : float
        ``[Omega(t) + Omega*(u) - rho'f]`` over ``max(|P|, tiny)``: how badly kernel weights and dual norms fit.
    box : float
        Largest excess of ``rho`` over the dual box, relative to ``max |rho|``.
    intercept : float
        ``|sum rho| / sum |rho|``; 0 without an intercept.
    scaling : float
        ``1 - c`` for the scaling ``c`` that made ``rho`` dual feasible.
    """

    stationarity: float
    complementarity: float
    box: float
    intercept: float
    scaling: float

    def to_dict(self) -> dict[str, float]:
        """Return the residuals by name."""
        return asdict(self)


@dataclass(frozen=True)
class Certificate:
    """Primal value of a model, a lower bound on the optimum, and the gap between them.

    Attributes
    ----------
    primal : float
        Objective of the model as it is.
    dual : float
        Dual objective of its dual coefficients, made feasible: no model is below it.
    gap : float
        ``primal - dual``, as computed: rounding may leave it slightly negative.
    relative_gap : float
        ``gap / max(|primal|, tiny)``; 0 for a negative gap within ``rounding``, and the size of a negative gap beyond
        it, which no rounding explains. Infinite if either value is not finite.
    kkt : KKTResiduals
        Which condition is missed, and by how much.
    rounding, relative_rounding : float
        By how much rounding in float64 may have moved the gap, and that over ``max(|primal|, tiny)``: gaps below it say
        nothing more.
    dual_norms : ndarray of shape (n_kernels,)
        ``u_m`` of the projected dual coefficients before scaling: what the pass over the kernels was for, kept
        because the working set and screening need it again.
    """

    primal: float
    dual: float
    gap: float
    relative_gap: float
    kkt: KKTResiduals
    rounding: float = 0.0
    relative_rounding: float = 0.0
    dual_norms: Array = field(default_factory=lambda: np.zeros(0), repr=False, compare=False)

    @classmethod
    def from_values(
        cls, primal: float, dual: float, denominator: float, kkt: KKTResiduals, rounding: float = 0.0
    ) -> Certificate:
        """Build the certificate from both values, the denominator of the relative gap and the bound on rounding.

        Examples
        --------
        >>> Certificate.from_values(2.0, 1.0, 2.0, KKTResiduals(0.5, 0.0, 0.0, 0.0, 0.0)).relative_gap
        0.5
        """
        gap = primal - dual
        if not np.isfinite(gap):
            return cls(primal, dual, gap, np.inf, kkt, np.inf, np.inf)
        rounding = np.inf if np.isnan(rounding) else rounding
        size = max(gap, 0.0) if gap >= -rounding else -gap
        return cls(primal, dual, gap, size / denominator, kkt, rounding, rounding / denominator)
