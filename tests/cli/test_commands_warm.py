"""``manykernels warm`` compiles what is not compiled yet, and says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from numba import njit

from manykernels.cli.commands import fits
from manykernels.compiled import compilations


def test_what_is_compiled_is_counted_and_what_is_there_is_not() -> None:
    loop = njit(lambda x: x + 1)
    with compilations() as compiled:
        loop(1.0)
    assert compiled
    with compilations() as compiled:
        loop(2.0)
    assert not compiled


def test_what_is_left_to_compile_is_told(run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """By one loop in place of all that there are, which take ten seconds to go through when they are compiled."""
    loop = njit(lambda x: x + 1)
    monkeypatch.setattr("manykernels.cli.commands.fits", lambda: {"sums": lambda: loop(1.0)})
    first, second = run("warm", "--json"), run("warm")
    assert first.code == second.code == 0
    assert first.json["compiled"]["sums"] > 0
    assert second.out == "All loops had been compiled before.\n"


@pytest.mark.nightly
def test_a_second_time_nothing_is_left_to_compile(run: Callable[..., Any]) -> None:
    first, second = run("warm", "--workers", 2, "--json"), run("warm")
    assert first.code == second.code == 0
    assert set(first.json["compiled"]) == set(fits())
    assert second.out == "All loops had been compiled before.\n"
