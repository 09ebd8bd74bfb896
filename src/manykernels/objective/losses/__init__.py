"""The losses by name. A new loss inherits ``Loss``, joins ``LOSSES`` and then runs the whole shipped contract."""

from __future__ import annotations

from typing import Any

from manykernels.exceptions import InvalidInputError
from manykernels.objective.losses.base import Loss
from manykernels.objective.losses.classification import Hinge, Logistic, SquaredHinge
from manykernels.objective.losses.counts import Gamma, Poisson
from manykernels.objective.losses.coupled import CoupledLoss
from manykernels.objective.losses.cox import CoxPartial, survival_target
from manykernels.objective.losses.regression import EpsilonInsensitive, Huber, Quantile, Squared
from manykernels.validation.names import LOSS_NAMES, hint

__all__ = [
    "COUPLED_LOSSES",
    "LOSSES",
    "CoupledLoss",
    "CoxPartial",
    "EpsilonInsensitive",
    "Gamma",
    "Hinge",
    "Huber",
    "Logistic",
    "Loss",
    "Poisson",
    "Quantile",
    "Squared",
    "SquaredHinge",
    "get_loss",
    "survival_target",
]

LOSSES: dict[str, type[Loss]] = {
    loss.name: loss
    for loss in (Logistic, Hinge, SquaredHinge, Squared, EpsilonInsensitive, Huber, Quantile, Poisson, Gamma)
}

COUPLED_LOSSES: dict[str, type[CoupledLoss]] = {CoxPartial.name: CoxPartial}
"""Losses that couple samples."""


def get_loss(loss: str | Loss | CoupledLoss, **params: Any) -> Any:
    """Return a loss from its name and parameters; an object is returned as it is.

    Parameters
    ----------
    loss : str, Loss or CoupledLoss
        A name in ``LOSSES`` or ``COUPLED_LOSSES``, or a loss.
    **params
        Parameters of the named loss, such as ``epsilon``.

    Returns
    -------
    Loss or CoupledLoss
        The loss.

    Raises
    ------
    InvalidInputError
        If the name is unknown or a parameter does not belong to it.

    Examples
    --------
    >>> get_loss("huber", delta=2.0)
    Huber(delta=2.0)
    """
    if isinstance(loss, Loss | CoupledLoss):
        if params:
            raise InvalidInputError(
                f"{loss!r} already has its parameters; drop {sorted(params)} or pass the loss by name."
            )
        return loss
    kinds: dict[str, Any] = LOSSES | COUPLED_LOSSES
    if not isinstance(loss, str) or loss not in kinds:
        known = f"Known losses: {', '.join(LOSSES)}.{hint(loss, LOSSES, LOSS_NAMES)}"
        raise InvalidInputError(f"Unknown loss {loss!r}. {known}")
    try:
        return kinds[loss](**params)
    except TypeError as error:
        raise InvalidInputError(f"Loss {loss!r} does not take {sorted(params)}: {error}.") from error
