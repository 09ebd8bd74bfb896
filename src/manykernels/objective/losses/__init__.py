"""The losses by name. A new loss inherits ``Loss``, joins ``LOSSES`` and then runs the whole shipped contract."""

from typing import Any, TypeAlias

from manykernels.exceptions import IncompatibleError, InvalidInputError
from manykernels.objective.losses.base import Loss
from manykernels.objective.losses.coupled import CoupledLoss, CoxPartial, survival_target
from manykernels.objective.losses.outputs import Multinomial, Separable, SharedLoss
from manykernels.objective.losses.pointwise import (
    EpsilonInsensitive,
    Gamma,
    Hinge,
    Huber,
    Logistic,
    Poisson,
    Quantile,
    Squared,
    SquaredHinge,
)
from manykernels.validation.parameters import LOSS_NAMES, hint

__all__ = [
    "COUPLED_LOSSES", "LOSSES", "AnyLoss", "CoupledLoss", "CoxPartial", "EpsilonInsensitive", "Gamma", "Hinge", "Huber",
    "Logistic", "Loss", "Multinomial", "Poisson", "Quantile", "SharedLoss", "Squared", "SquaredHinge", "get_loss",
    "get_shared_loss", "survival_target",
]  # fmt: skip

AnyLoss: TypeAlias = Loss | CoupledLoss | SharedLoss
"""A loss of one score, of the scores of all samples together, or of several scores a sample."""

LOSSES: dict[str, type[Loss]] = {
    loss.name: loss
    for loss in (Logistic, Hinge, SquaredHinge, Squared, EpsilonInsensitive, Huber, Quantile, Poisson, Gamma)
}

COUPLED_LOSSES: dict[str, type[CoupledLoss]] = {CoxPartial.name: CoxPartial}
"""Losses that couple samples."""

OUTPUT_LOSSES: dict[str, type[SharedLoss]] = {Logistic.name: Multinomial}
"""Losses of several scores by the name of their loss of one score; of all others they are sums over outputs."""


def get_loss(loss: str | AnyLoss, **params: object) -> Any:
    """Return a loss from the name and parameters; an object is returned unchanged.

    Parameters
    ----------
    loss : str, Loss, CoupledLoss or SharedLoss
        A name in ``LOSSES`` or ``COUPLED_LOSSES``, or a loss.
    **params
        Parameters of the named loss, for example ``epsilon``.

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
    if hasattr(loss, "bind"):
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


def get_shared_loss(loss: str | Loss | SharedLoss, *, kinks: bool = False) -> SharedLoss:
    """Return the multi-score version of a single-score loss: the multinomial loss for ``"logistic"``.

    Parameters
    ----------
    loss : str, Loss or SharedLoss
    kinks : bool, default=False
        Whether kinks are acceptable, by smoothing.

    Raises
    ------
    IncompatibleError
        If it has kinks.

    Examples
    --------
    >>> get_shared_loss("logistic").name, get_shared_loss("huber").name
    ('multinomial', 'huber')
    """
    known = get_loss(loss)
    if known.each is not known:
        return known
    if known.name in OUTPUT_LOSSES:
        return OUTPUT_LOSSES[known.name]()
    if not known.smooth and not kinks:
        instead = "'squared_hinge' or 'logistic'" if known.task == "classification" else "'squared' or 'huber'"
        raise IncompatibleError(
            f"outputs='shared' needs a loss with derivatives on N x N matrices, and {known.name!r} has kinks. Use "
            f"{instead}, outputs='own', or representation='factored', which smooths it inside the certificate."
        )
    return Separable(known)
