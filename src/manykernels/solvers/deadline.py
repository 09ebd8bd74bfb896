"""The end of a solver's time, told to the loops inside it: a limit holds within one factorization."""

from __future__ import annotations

import time
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_DEADLINE: ContextVar[float] = ContextVar("deadline", default=float("inf"))


class OutOfTimeError(Exception):
    """The time limit is over: the run ends with the last model that its algorithm can name."""


@contextmanager
def deadline(time_limit: float | None) -> Iterator[None]:
    """Let `check_deadline` raise after so many seconds, in this thread, or at an earlier end that holds already."""
    end = float("inf") if time_limit is None else time.perf_counter() + time_limit
    token = _DEADLINE.set(min(end, _DEADLINE.get()))
    try:
        yield
    finally:
        _DEADLINE.reset(token)


def check_deadline() -> None:
    """Raise `OutOfTimeError` if the time is over; every loop around something costly calls this."""
    if time.perf_counter() > _DEADLINE.get():
        raise OutOfTimeError


def seconds_left() -> float:
    """Return how long the time is not yet over; infinite without a limit."""
    return max(_DEADLINE.get() - time.perf_counter(), 0.0)
