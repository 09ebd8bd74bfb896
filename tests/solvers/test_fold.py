"""A fold opens its rows once, remembers what was tried, and begins each strength from the nearest one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from manykernels.solvers.fold import Candidate, Fold
from manykernels.solvers.run import OutOfTimeError, deadline


@dataclass
class Opened:
    """What notes how it is asked; its models are the strengths."""

    asked: list[tuple[Any, ...]] = field(default_factory=list)

    def try_strength(
        self, family: str, strength: float, held_out: str, start: float | None, solved: float | None
    ) -> tuple[float, Candidate]:
        self.asked.append((family, strength, held_out, start, solved))
        return strength, Candidate(family, strength, np.array([[strength]]), 1.0)

    def outlasting(self, model: float) -> float:
        return -model


def fold_of(opened: Opened) -> tuple[Fold[Opened, str], list[int]]:
    """Return a fold, and how often it was opened."""
    times = [0]

    def open_rows() -> Opened:
        times[0] += 1
        return opened

    return Fold(open_rows, "held out"), times


def test_rows_are_opened_once_until_the_fold_is_closed() -> None:
    opened = Opened()
    fold, times = fold_of(opened)
    assert times == [0]
    for strength in (4.0, 2.0, 1.0):
        assert fold.try_strength("one", strength).scores == [strength]
    assert times == [1]
    fold.close()
    assert fold.try_strength("one", 1.0).scores == [1.0]  # which is remembered
    assert times == [1]
    fold.try_strength("one", 0.5)
    assert times == [2]


def test_a_strength_begins_at_the_nearest_of_its_own_family_and_is_tried_once() -> None:
    opened = Opened()
    fold, _ = fold_of(opened)
    for family, strength in (("one", 8.0), ("one", 1.0), ("one", 2.0), ("two", 2.0), ("one", 2.0), ("one", 5.0)):
        fold.try_strength(family, strength)
    held = "held out"
    assert opened.asked == [
        ("one", 8.0, held, None, None),
        ("one", 1.0, held, 8.0, None),
        ("one", 2.0, held, 1.0, None),
        ("two", 2.0, held, None, None),
        ("one", 5.0, held, 8.0, None),  # by their ratio: 8 / 5 is less than 5 / 2
    ]
    assert fold.model("one", 5.0) == 5.0


def test_what_is_forgotten_is_tried_again_from_models_that_were_kept() -> None:
    opened = Opened()
    fold, _ = fold_of(opened)
    for strength in (4.0, 2.0):
        fold.try_strength("one", strength)
    fold.forget("one", [2.0, 3.0])
    opened.asked.clear()
    fold.held_out = "others"
    for strength in (2.0, 4.0):
        fold.try_strength("one", strength)
    assert opened.asked == [("one", 2.0, "others", None, -2.0), ("one", 4.0, "others", None, None)]


def test_nothing_is_tried_once_a_search_was_stopped_or_its_time_is_over() -> None:
    opened = Opened()
    fold, _ = fold_of(opened)
    with deadline(0.0), pytest.raises(OutOfTimeError):
        fold.try_strength("one", 2.0)
    assert not opened.asked
    fold.stop.set()
    with pytest.raises(KeyboardInterrupt):
        fold.try_strength("one", 2.0)
    fold.stop.clear()
    fold.try_strength("one", 2.0)  # what was cut off counts for nothing
    assert [asked[:2] for asked in opened.asked] == [("one", 2.0)] * 2
