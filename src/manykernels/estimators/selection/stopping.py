"""How a search ends before its end: when its share of the time is over, or by Ctrl-C, with what was scored so far."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from manykernels.exceptions import ConvergenceWarning
from manykernels.solvers import Status
from manykernels.solvers.run import OutOfTimeError, deadline

SEARCH_SHARE = 0.8  # of a time limit; the rest is for the last fit


@dataclass(eq=False)
class StopReason:
    """Why a search ended before its end, if it did."""

    status: Status | None = None  # TIME_LIMIT, INTERRUPTED, or None while everything is tried

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Keep in mind why what follows ends early, and go on behind it."""
        try:
            yield
        except OutOfTimeError:
            self.status = Status.TIME_LIMIT
        except KeyboardInterrupt:
            self.status = Status.INTERRUPTED

    def warn(self, scored: str) -> None:
        """Say what the choice rests on; ``scored`` is empty where nothing was."""
        if self.status is None:
            return
        rest = (
            f"the choice is the best of {scored}" if scored else "nothing was scored, and the strength is the default"
        )
        advice = "Raise time_limit, or try less." if self.status is Status.TIME_LIMIT else "Fit again to try all."
        told = f"The search stopped ({self.status}): {rest}. {advice}"
        warnings.warn(told, ConvergenceWarning, stacklevel=4)


@contextmanager
def limited(time_limit: float | None) -> Iterator[float]:
    """Hold a search to its share of a time limit; yields when all of it is over, by the clock of the solvers."""
    end = float("inf") if time_limit is None else time.perf_counter() + time_limit
    with deadline(None if time_limit is None else SEARCH_SHARE * time_limit):
        yield end
