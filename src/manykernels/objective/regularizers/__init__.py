"""The regularizers by name, and mappings of kernels to regularizers. A new one runs the whole contract."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, TypeAlias

from manykernels.exceptions import InvalidInputError
from manykernels.objective.regularizers.base import Regularizer
from manykernels.objective.regularizers.curve import Curve
from manykernels.objective.regularizers.groups import PenaltyByGroup, Unpenalized, read_groups
from manykernels.objective.regularizers.norms import BlockL1, BlockLq, ElasticNet, GroupElasticNet, Ridge
from manykernels.objective.regularizers.tree import Tree
from manykernels.objective.regularizers.weight_sets import ElasticNetBall, LpBall, Simplex
from manykernels.validation.parameters import PENALTY_NAMES, hint

__all__ = [
    "COMPOSED", "REGULARIZERS", "BlockL1", "BlockLq", "Curve", "ElasticNet", "ElasticNetBall", "GroupElasticNet",
    "LpBall", "Penalty", "PenaltyByGroup", "Regularizer", "Ridge", "Simplex", "Tree", "check_penalty",
    "get_regularizer", "parameters_of", "set_l1_ratio",
]  # fmt: skip

REGULARIZERS: dict[str, type[Regularizer]] = {
    kind.name: kind for kind in (BlockL1, ElasticNet, BlockLq, Ridge, Simplex, LpBall, ElasticNetBall, GroupElasticNet)
}


COMPOSED: dict[str, type[Regularizer]] = {kind.name: kind for kind in (PenaltyByGroup, Tree)}
"""Penalties that are made of others, by mappings of kernels in place of names."""

Penalty: TypeAlias = "str | Regularizer | Mapping[Any, Any]"


def get_regularizer(regularizer: Penalty, strength: float | None = None, **params: object) -> Regularizer:
    """Return a regularizer from the name, strength and parameters; an object is returned unchanged.

    Parameters
    ----------
    regularizer : str, Regularizer or mapping
        A name in ``REGULARIZERS``, a regularizer, or a mapping of kernels to names and regularizers, see
        :class:`PenaltyByGroup`. The strengths of regularizers in a mapping are factors of ``strength``, and a name
        there has the factor 1; None leaves kernels of a few columns without a penalty.
    strength : float, optional
        The strength; needed with a name or a mapping, and only then.
    **params
        Parameters of the named regularizer, for example ``l1_ratio``; in a mapping, of all names that have them.

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
    if isinstance(regularizer, Mapping):
        return _penalty_of_groups(regularizer, strength, params)
    if not isinstance(regularizer, str) and hasattr(regularizer, "dual_scale"):
        if params or strength not in (None, regularizer.strength):
            raise InvalidInputError(f"{regularizer!r} already has its strength and parameters; pass no others.")
        return regularizer
    check_penalty(regularizer)
    assert isinstance(regularizer, str)
    if strength is None:
        raise InvalidInputError(f"Regularizer {regularizer!r} needs a strength, for instance strength=1.0.")
    try:
        return REGULARIZERS[regularizer](strength, **params)
    except TypeError as error:
        raise InvalidInputError(f"Regularizer {regularizer!r} does not take {sorted(params)}: {error}.") from error


def _penalty_of_groups(mapping: Mapping[Any, Any], strength: float | None, params: dict[str, Any]) -> PenaltyByGroup:
    """Return the penalty of a mapping; parameters go to all names that accept them."""
    if strength is None:
        raise InvalidInputError("A mapping of kernels to penalties needs a strength, for instance strength=1.0.")
    lost = sorted(set(params) - set(parameters_of(mapping)))
    if lost:
        raise InvalidInputError(f"No penalty that {dict(mapping)!r} names has the parameter(s) {', '.join(lost)}.")
    parts = (
        Unpenalized()
        if part is None
        else get_regularizer(part, 1.0, **{name: params[name] for name in parameters_of(part) if name in params})
        if isinstance(part, str)
        else get_regularizer(part)
        for part in mapping.values()
    )
    return PenaltyByGroup(strength, read_groups(mapping), tuple(parts))


def parameters_of(penalty: Penalty) -> tuple[str, ...]:
    """Return the parameters of a named penalty, or of all that a mapping names; strength left out.

    Parameters
    ----------
    penalty : str, Regularizer or mapping

    Examples
    --------
    >>> parameters_of({"subject": "ridge", "*": "elasticnet"})
    ('l1_ratio',)
    """
    if isinstance(penalty, Mapping):
        return tuple(dict.fromkeys(name for part in penalty.values() for name in parameters_of(part)))
    if not isinstance(penalty, str):
        return ()
    check_penalty(penalty)
    return tuple(field.name for field in fields(REGULARIZERS[penalty]) if field.init and field.name != "strength")


def set_l1_ratio(penalty: Penalty, ratio: float) -> Penalty:
    """Return a penalty, or a mapping to penalties, with another mixture in all objects that have one.

    Parameters
    ----------
    penalty : str, Regularizer or mapping
    ratio : float

    Returns
    -------
    str, Regularizer or dict
        Names stay what they are: their parameters are given beside them.

    Examples
    --------
    >>> set_l1_ratio({"subject": "ridge", "*": ElasticNet(1.0)}, 0.9)
    {'subject': 'ridge', '*': ElasticNet(strength=1.0, l1_ratio=0.9)}
    """
    if isinstance(penalty, Mapping):
        return {key: None if part is None else set_l1_ratio(part, ratio) for key, part in penalty.items()}
    mixed: Any = penalty
    return replace(mixed, l1_ratio=ratio) if "l1_ratio" in getattr(penalty, "__dataclass_fields__", ()) else penalty


def check_penalty(penalty: object) -> None:
    """Raise ``InvalidInputError`` unless it is a regularizer, the name of one, or a mapping of kernels to these.

    Raises
    ------
    InvalidInputError
        If it is none.

    Examples
    --------
    >>> check_penalty({"subject": "ridge", "*": "l1"})
    """
    if isinstance(penalty, Mapping):
        for part in penalty.values():
            if part is not None:
                check_penalty(part)
        _penalty_of_groups(penalty, 1.0, {})
    elif not hasattr(penalty, "dual_scale") and (not isinstance(penalty, str) or penalty not in REGULARIZERS):
        known = f"Known penalties: {', '.join(REGULARIZERS)}.{hint(penalty, REGULARIZERS, PENALTY_NAMES)}"
        raise InvalidInputError(f"Unknown penalty {penalty!r}. {known}")
