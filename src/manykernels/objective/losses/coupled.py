"""Losses of all samples together, which are no sum over samples: what solvers and certificates need of them.

Cox's partial likelihood, for times until an event of which some are censored.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from manykernels.exceptions import InvalidInputError
from manykernels.objective.capabilities import Capability
from manykernels.objective.losses.base import Array, float_vector
from manykernels.objective.losses.bound import CoupledLossBound
from manykernels.objective.losses.risk_sets import RiskSets

__all__ = ["CoupledLoss", "CoxPartial", "survival_target"]


class CoupledLoss(abc.ABC):
    """A convex loss that couples samples, as a partial likelihood does.

    Attributes
    ----------
    name : str
    task : str
        What the target is.
    """

    name: ClassVar[str]
    task: ClassVar[str]
    smooth: ClassVar[bool] = True
    entropic: ClassVar[bool] = True
    piecewise_linear: ClassVar[bool] = False
    kink: ClassVar[float] = 0.0
    linear_dual: ClassVar[bool] = False
    support: ClassVar[str] = "survival"
    couples_samples: ClassVar[bool] = True
    of_several: ClassVar[bool] = False  # whether it is a loss of several scores a sample
    capabilities: ClassVar[frozenset[Capability]] = frozenset({Capability.CURVED_CONJUGATE})

    @property
    def each(self) -> CoupledLoss:
        """The loss itself, as `Loss` and `SharedLoss` have one of a single score."""
        return self

    @abc.abstractmethod
    def check_target(self, y: ArrayLike) -> Array:
        """Return the target as float64 (N,), or raise ``InvalidInputError`` saying what cannot be used."""

    def refusal_of_constant(self, y: Array) -> str:
        """Return nothing: there is no constant.

        Parameters
        ----------
        y : ndarray of shape (N,)
        """
        return ""

    @abc.abstractmethod
    def bind(self, y: Array, weight: Array) -> CoupledLossBound:
        """Return the loss as a function of the scores.

        Parameters
        ----------
        y : ndarray of shape (N,)
            As ``check_target`` returns it.
        weight : ndarray of shape (N,)
            Positive sample weights.
        """


STRATUM = 2.0**32
"""What the number of a stratum is multiplied by in a signed target; times are below it."""

TIES = ("breslow", "efron")


@dataclass(frozen=True)
class CoxPartial(CoupledLoss):
    r"""Negative logarithm of Cox's partial likelihood, for scores that are logarithms of relative hazards.

    .. math:: L(z) = \sum_e s_e \Big[\log \sum_{j \in R_e} s_j e^{z_j} - z_e\Big] + \text{constant}

    over events :math:`e` and the samples :math:`R_e` of the same stratum that are at risk at their time. The constant
    makes it zero where nobody but those with the event is at risk, so that it is never negative. There is no
    intercept: a shift of all scores of a stratum changes nothing.

    The target is a signed time: ``+t`` for an event, ``-t`` for a sample censored at ``t``; `survival_target` makes it.

    Parameters
    ----------
    ties : {"breslow", "efron"}
        How events of one time share a risk set.

    References
    ----------
    D. R. Cox, "Regression models and life-tables", JRSS B 34 (1972). B. Efron, "The efficiency of Cox's likelihood
    function for censored data", JASA 72 (1977).

    Examples
    --------
    >>> import numpy as np
    >>> loss = CoxPartial()
    >>> bound = loss.bind(loss.check_target([1.0, -2.0, 3.0]), np.ones(3))
    >>> round(bound.value(np.zeros(3)), 6) == round(float(np.log(3)), 6)
    True
    """

    ties: str = "efron"

    name: ClassVar[str] = "cox"
    task: ClassVar[str] = "survival"

    def __post_init__(self) -> None:
        if self.ties not in TIES:
            raise InvalidInputError(f"ties must be one of {', '.join(map(repr, TIES))}, got {self.ties!r}.")

    def check_target(self, y: ArrayLike) -> Array:
        """Return signed times as float64 (N,); zeros, infinite values and a target without events are refused."""
        target = float_vector(y)
        bad = ~np.isfinite(target) | (target == 0)
        if bad.any():
            raise InvalidInputError(
                f"Signed times must be finite and not zero, but {int(bad.sum())} of {len(target)} are not, the first "
                f"at index {int(np.argmax(bad))}. An event at time t is +t, a sample censored at t is -t."
            )
        if not (target > 0).any():
            raise InvalidInputError("There is no event: every sample is censored, and nothing tells hazards apart.")
        return target

    def bind(self, y: Array, weight: Array) -> RiskSets:
        """Return the loss on these signed times as a function of the scores."""
        stratum, time = np.divmod(np.abs(y), STRATUM)
        return RiskSets(time, y > 0, stratum, weight, efron=self.ties == "efron")


def survival_target(event: ArrayLike, time: ArrayLike, strata: ArrayLike | None = None) -> Array:
    """Return signed times of events and censored samples, with strata of which each has risk sets of its own.

    Only the order of the times matters, so that their ranks stand for them.

    Parameters
    ----------
    event : array-like of bool of shape (N,)
        Whether the event was seen.
    time : array-like of shape (N,)
        When it was seen, or until when it was not; not negative.
    strata : array-like of shape (N,), default=None
        Labels of strata.

    Returns
    -------
    ndarray of shape (N,)
        For the loss ``CoxPartial``.

    Raises
    ------
    InvalidInputError
        If times are negative or not finite, or lengths differ.

    Examples
    --------
    >>> survival_target([True, False, True], [2.5, 7.0, 1.0]).tolist()
    [2.0, -3.0, 1.0]
    """
    times = float_vector(time)
    bad = ~np.isfinite(times) | (times < 0)
    if bad.any():
        raise InvalidInputError(
            f"Times must be finite and not negative, but {int(bad.sum())} of {len(times)} are not, such as "
            f"{times[bad][:5].tolist()} (the first at index {int(np.argmax(bad))})."
        )
    seen = np.asarray(event)
    if seen.shape != times.shape or not np.isin(seen, (0, 1)).all():
        raise InvalidInputError(
            f"event must hold True or False for each of the {len(times)} times, got shape {seen.shape}."
        )
    ranks = np.unique(times, return_inverse=True)[1] + 1.0
    numbers = np.zeros(len(times)) if strata is None else np.unique(np.asarray(strata), return_inverse=True)[1]
    if numbers.shape != times.shape:
        raise InvalidInputError(f"strata has {len(numbers)} labels for {len(times)} times.")
    return np.where(seen.astype(bool), 1.0, -1.0) * (ranks + STRATUM * numbers)
