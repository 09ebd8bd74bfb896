"""The regularizers by name. A new one inherits ``Regularizer`` and runs the whole shipped contract."""

from __future__ import annotations

from typing import Any

from manykernels.exceptions import InvalidInputError
from manykernels.objective.regularizers.base import Regularizer
from manykernels.objective.regularizers.curve import Curve
from manykernels.objective.regularizers.norms import BlockL1, BlockLq, ElasticNet, GroupElasticNet, Ridge
from manykernels.objective.regularizers.weight_sets import ElasticNetBall, LpBall, Simplex
from manykernels.validation.names import PENALTY_NAMES, hint

__all__ = [
    "REGULARIZERS",
    "BlockL1",
    "BlockLq",
    "Curve",
    "ElasticNet",
    "ElasticNetBall",
    "GroupElasticNet",
    "LpBall",
    "Regularizer",
    "Ridge",
    "Simplex",
    "get_regularizer",
]

REGULARIZERS: dict[str, type[Regularizer]] = {
    kind.name: kind for kind in (BlockL1, ElasticNet, BlockLq, Ridge, Simplex, LpBall, ElasticNetBall, GroupElasticNet)
}


def get_regularizer(regularizer: str | Regularizer, strength: float | None = None, **params: Any) -> Regularizer:
    """Return a regularizer from its name, strength and parameters; an object is returned as it is.

    Parameters
    ----------
    regularizer : str or Regularizer
        A name in ``REGULARIZERS`` or a regularizer.
    strength : float, optional
        Its strength; needed with a name, and only then.
    **params
        Parameters of the named regularizer, such as ``l1_ratio``.

    Returns
    -------
    Regularizer
        The regularizer.

    Raises
    ------
    InvalidInputError
        If the name is unknown, the strength is missing or given twice, or a parameter does not belong to it.

    Examples
    --------
    >>> get_regularizer("elasticnet", 0.1, l1_ratio=0.9)
    ElasticNet(strength=0.1, l1_ratio=0.9)
    """
    if not isinstance(regularizer, str) and hasattr(regularizer, "dual_scale"):
        if params or strength not in (None, regularizer.strength):
            raise InvalidInputError(f"{regularizer!r} already has its strength and parameters; pass no others.")
        return regularizer
    if not isinstance(regularizer, str) or regularizer not in REGULARIZERS:
        known = f"Known regularizers: {', '.join(REGULARIZERS)}.{hint(regularizer, REGULARIZERS, PENALTY_NAMES)}"
        raise InvalidInputError(f"Unknown regularizer {regularizer!r}. {known}")
    if strength is None:
        raise InvalidInputError(f"Regularizer {regularizer!r} needs a strength, for instance strength=1.0.")
    try:
        return REGULARIZERS[regularizer](strength, **params)
    except TypeError as error:
        raise InvalidInputError(f"Regularizer {regularizer!r} does not take {sorted(params)}: {error}.") from error
