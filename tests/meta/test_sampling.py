"""Of a test that is marked ``sampled(k)`` one case in k runs always, and every value of its parameters is met."""

from __future__ import annotations

import runpy
from itertools import combinations, product
from math import ceil
from pathlib import Path
from types import SimpleNamespace

import pytest

HOOK = runpy.run_path(str(Path(__file__).parents[1] / "conftest.py"))["pytest_collection_modifyitems"]


class Case:
    """What the hook asks of a collected test."""

    def __init__(self, name: str, mark: pytest.Mark | None, value: tuple[int, ...] = ()) -> None:
        self.nodeid, self.mark, self.added = name, mark, list[str]()
        self.callspec = SimpleNamespace(params={f"x{place}": index for place, index in enumerate(value)})

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return self.mark if name == "sampled" else None

    def add_marker(self, name: str) -> None:
        self.added.append(name)


@pytest.mark.parametrize(("sizes", "k"), [((20,), 4), ((5, 4), 5), ((2, 2, 4, 5), 5), ((14,), 2), ((3,), 3)])
def test_one_case_in_k_is_left_and_every_value_is_met(sizes: tuple[int, ...], k: int) -> None:
    values = list(product(*map(range, sizes)))
    cases = [Case(f"test_it[{value}]", pytest.mark.sampled(k).mark, value) for value in values]
    HOOK([*cases, Case("test_other", None)])
    left = [value for value, case in zip(values, cases, strict=True) if not case.added]
    assert len(left) == ceil(len(values) / k)
    for place, size in enumerate(sizes):
        assert len({value[place] for value in left}) == min(size, len(left))


def test_pairs_of_values_are_met_too() -> None:
    values = list(product(range(2), range(2), range(5), range(4)))
    cases = [Case(f"test_it[{value}]", pytest.mark.sampled(5).mark, value) for value in values]
    HOOK(cases)
    left = [value for value, case in zip(values, cases, strict=True) if not case.added]
    for first, second in combinations(range(3), 2):
        sizes = len({value[first] for value in values}) * len({value[second] for value in values})
        assert len({(value[first], value[second]) for value in left}) == sizes


def test_others_are_left_alone() -> None:
    other = Case("test_other", None)
    HOOK([other])
    assert not other.added
