"""How much the experiments on real data try: widths, strengths, and when a search stops."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manykernels import Gaussian
from manykernels.discovery import ArdGaussianFamily, GaussianFamily, Limits
from manykernels.solvers import IterationRecord

Array = NDArray[Any]

MOST_KERNELS = 50  # as in the thesis


@dataclass(frozen=True)
class Widths:
    """Where widths of ``exp(-d^2 / (2 width^2))`` come from; the thesis writes ``exp(-d^2 / sigma^2)``.

    Attributes
    ----------
    low, high : float
        Of a search.
    listed : tuple of float
        For methods on a finite set.
    """

    low: float
    high: float
    listed: tuple[float, ...]

    @classmethod
    def of_sigma(cls, low: float, high: float, listed: Array) -> Widths:
        """Return the widths for the ``sigma`` of the thesis."""
        root = float(np.sqrt(2))
        return cls(low / root, high / root, tuple(float(sigma) / root for sigma in listed))

    def specs(self) -> list[Gaussian]:
        """Return the listed kernels."""
        return [Gaussian(width) for width in self.listed]


def until_changes_are_below(share: float) -> Callable[[IterationRecord], bool]:
    """Return the stopping rule of the thesis: the objective changes by less than a share of its value.

    The change from the model without kernels does not count.
    """
    seen: list[float] = []

    def rule(record: IterationRecord) -> bool:
        seen.append(record.primal)
        return len(seen) > 2 and abs(seen[-2] - seen[-1]) < share * abs(seen[-1])

    return rule


class Watch:
    """Ends a search when the objective hardly changes or the CPU time is over, and remembers the latter."""

    def __init__(self, seconds: float, change: float = 0.0) -> None:
        self.deadline, self.late = time.process_time() + seconds, False
        self.settled = until_changes_are_below(change)

    def __call__(self, record: IterationRecord) -> bool:
        """Return whether the search is to end."""
        settled = self.settled(record)
        self.late = not settled and time.process_time() > self.deadline
        return settled or self.late


@dataclass(frozen=True)
class Settings:
    """How much is tried.

    Attributes
    ----------
    widths : Widths
    costs : tuple of float
        ``C`` of a machine on a finished kernel.
    strengths : tuple of float
        ``lambda`` of a one-stage method on the sum of losses, each a search of its own.
    shrinkages : tuple of float
        ``lambda`` of (6.2), for the search in two stages with shrinkage.
    kernels, wide_kernels : int
        Most kernels a search adds or draws, with one width and with one width a feature.
    seconds : float
        Most CPU seconds of a search; its best model so far counts.
    """

    widths: Widths
    costs: tuple[float, ...]
    strengths: tuple[float, ...]
    shrinkages: tuple[float, ...] = (1e-6, 1e-4, 1e-2, 1.0)
    kernels: int = MOST_KERNELS
    wide_kernels: int = 20
    seconds: float = 5.0

    def most(self, wide: bool) -> int:
        """Return the most kernels of a search."""
        return self.wide_kernels if wide else self.kernels

    def limits(self, wide: bool, change: float = 0.0) -> Limits:
        """Return when a search stops."""
        return Limits(1e-4, self.most(wide), callback=Watch(self.seconds, change))

    def family(self, wide: bool) -> Any:
        """Return the Gaussian kernels with one width, or one a feature."""
        return (ArdGaussianFamily if wide else GaussianFamily)(self.widths.low, self.widths.high)


SIGMAS = 1e-4 * 1.6 ** np.arange(50)  # the last ten exceed the interval of the searches: the thesis has it so
STANDARDIZED = Widths(0.05, 50.0, tuple(np.geomspace(0.05, 50.0, 20)))  # the thesis does not say
WHOLE = Widths.of_sigma(1e-4, 1e4, SIGMAS)
PIXELS = Widths.of_sigma(500.0, 50_000.0, np.linspace(500.0, 50_000.0, 20))
LETTER_WIDTHS = Widths.of_sigma(1.0, 200.0, np.linspace(1.0, 200.0, 20))  # on raw attributes, 0 to 15
STRENGTHS = (0.01, 0.1, 1.0, 10.0)
HINGE_COSTS = tuple(10.0 ** np.arange(-2, 4.5, 0.5))
RIDGE_COSTS = tuple(10.0 ** np.arange(-3.0, 5.0))  # one over the strengths of the thesis, 1e-4 to 1e3
