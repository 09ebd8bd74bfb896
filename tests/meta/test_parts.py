"""Parts of the tests: each case is in one of them, whatever the others are."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from tests.support.parts import Part

NAMES = [f"tests/solvers/test_{file}.py::test_it[{case}]" for file in "abcdefgh" for case in range(50)]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_each_case_is_in_one_part_and_parts_are_of_equal_size(count: int) -> None:
    parts = [Part(f"{number + 1}/{count}") for number in range(count)]
    owners = [[part.number for part in parts if part.has(name)] for name in NAMES]
    assert all(len(own) == 1 for own in owners)
    for part in parts:
        assert abs(owners.count([part.number]) - len(NAMES) / count) < 40  # three standard deviations at most


def test_cases_of_an_experiment_stay_together() -> None:
    for file in ("skm", "citi", "pfbs"):
        names = [f"tests/experiments/test_{file}.py::test_{number}" for number in range(20)]
        assert len({Part("1/2").has(name) for name in names}) == 1


def test_the_cases_of_other_parts_are_deselected() -> None:
    seen: list[object] = []
    config = SimpleNamespace(hook=SimpleNamespace(pytest_deselected=lambda items: seen.extend(items)))
    items = [SimpleNamespace(nodeid=name) for name in NAMES]
    kept = items.copy()
    Part("2/2").pytest_collection_modifyitems(config, kept)  # type: ignore[arg-type]
    assert kept
    assert seen
    assert sorted(item.nodeid for item in [*kept, *seen]) == sorted(NAMES)  # type: ignore[attr-defined]


@pytest.mark.parametrize("text", ["0/2", "3/2", "2", "a/b", "1/2/3", ""])
def test_other_texts_are_rejected(text: str) -> None:
    with pytest.raises(pytest.UsageError, match="such as 1/2"):
        Part(text)
