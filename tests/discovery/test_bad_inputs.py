"""Every search says in words what is wrong with its data and its parameters, before it has done any work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from manykernels.discovery import (
    FamilySearch,
    GaussianFamily,
    Limits,
    SearchProblem,
    SearchSettings,
    align_family,
    discover_by_sampling,
    discover_greedily,
    discover_hierarchical,
    discover_in_two_stages,
    discover_nonlinear,
    discover_polynomial,
    project_on_ball,
)
from manykernels.discovery.base import random_generator
from manykernels.exceptions import InvalidInputError

RNG = np.random.default_rng(5)
POINTS = RNG.normal(size=(20, 3))
TARGET = POINTS[:, 0] * POINTS[:, 1]
FAMILY = GaussianFamily(0.1, 10.0)
IN_FAMILY = {"family": FAMILY}
OF_PROBLEMS = ("loss", "strength", "sample_weight", "fit_intercept", "names")

Search = Callable[..., Any]


def put(array: np.ndarray, at: Any, value: float) -> np.ndarray:
    changed = array.copy()
    changed[at] = value
    return changed


SEARCHES: dict[str, tuple[Search, dict[str, Any]]] = {
    "greedy": (discover_greedily, IN_FAMILY),
    "two stages": (discover_in_two_stages, IN_FAMILY),
    "sampling": (discover_by_sampling, IN_FAMILY),
    "hierarchical": (discover_hierarchical, {}),
    "polynomial": (discover_polynomial, {}),
    "non-linear": (discover_nonlinear, {}),
}


def run(name: str, points: Any, target: Any, **changes: Any) -> None:
    search, options = SEARCHES[name]
    posed = {"strength": 1.0} | {key: changes[key] for key in OF_PROBLEMS if key in changes}
    more = {key: value for key, value in changes.items() if key not in OF_PROBLEMS}
    search(SearchProblem(points, target, **posed), **(options | more))


DATA = [
    (put(POINTS, (3, 1), np.nan), TARGET, r"points contains 1 NaN or infinite value\(s\), the first at index \(3, 1\)"),
    (POINTS[:, 0], TARGET, r"points must have shape \(n_samples, n_columns\).*got \(20,\)"),
    (POINTS[None], TARGET, r"points must have shape .*got \(1, 20, 3\)"),
    (POINTS[:0], TARGET[:0], r"with at least one of each, got \(0, 3\)"),
    (POINTS[:, :0], TARGET, r"with at least one of each, got \(20, 0\)"),
    ([["a", "b"]] * 20, TARGET, "points must hold real numbers, got dtype"),
    (POINTS + 1j, TARGET, "points must hold real numbers, got dtype complex"),
    ([[1.0, 2.0], [3.0]], TARGET[:2], "points has rows of different lengths: row 0 has 2 value"),
    (None, TARGET, "points must hold real numbers"),
    (POINTS, put(TARGET, 2, np.inf), "contains 1 NaN or infinite"),
    (POINTS, TARGET[:-1], "19|20"),
    (POINTS, ["a"] * 20, "must hold real numbers|must be numbers|numbers"),
    (POINTS, None, "target|y "),
    (POINTS, np.column_stack([TARGET, TARGET]), r"\(20, 2\)"),
]


@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.parametrize(("points", "target", "message"), DATA, ids=[message for *_, message in DATA])
def test_data(name: str, points: Any, target: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        run(name, points, target)


PARAMETERS = [
    ({"strength": 0.0}, "strength must be a finite positive number"),
    ({"strength": np.nan}, "strength must be a finite positive number"),
    ({"strength": "strong"}, "strength must be a positive number, got 'strong'"),
    ({"strength": True}, "strength must be a positive number, got True"),
    ({"loss": "cubic"}, "Unknown loss 'cubic'"),
    ({"loss": "hinge"}, "-1|label|class"),
    ({"fit_intercept": "no"}, "fit_intercept must be True or False, got 'no'"),
    ({"strength": None}, "strength"),
    ({"limits": 3}, "limits must be a Limits such as .* got 3"),
]


@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.parametrize(("change", "message"), PARAMETERS, ids=[message for _, message in PARAMETERS])
def test_parameters(name: str, change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        run(name, POINTS, TARGET, **change)


@pytest.mark.parametrize("name", SEARCHES)
def test_one_class(name: str) -> None:
    with pytest.raises(InvalidInputError, match="class"):
        run(name, POINTS, np.ones(20), loss="hinge")


@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.parametrize("weight", [np.zeros(20), -np.ones(20), np.ones(3), "heavy", np.full(20, np.nan)])
def test_sample_weights(name: str, weight: Any) -> None:
    with pytest.raises(InvalidInputError, match="sample_weight"):
        run(name, POINTS, TARGET, sample_weight=weight)


IN_CONTINUOUS_FAMILIES = [
    ({"family": "gaussian"}, "family must be a KernelFamily such as .* got 'gaussian'|Widths are drawn for"),
    ({"settings": 5}, "settings must be a SearchSettings such as .* got 5"),
]
SEEDS = [
    ({"random_state": "a"}, "random_state must be None, an integer .* got 'a'"),
    ({"random_state": -1}, "random_state must be None, an integer .* got -1"),
]


@pytest.mark.parametrize("name", ["greedy", "two stages", "sampling"])
@pytest.mark.parametrize(("change", "message"), IN_CONTINUOUS_FAMILIES, ids=[m for _, m in IN_CONTINUOUS_FAMILIES])
def test_parameters_of_searches_in_families(name: str, change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        run(name, POINTS, TARGET, **change)


@pytest.mark.parametrize("name", ["greedy", "two stages", "sampling", "polynomial"])
@pytest.mark.parametrize(("change", "message"), SEEDS, ids=[message for _, message in SEEDS])
def test_seeds(name: str, change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        run(name, POINTS, TARGET, **change)


OF_ONE_SEARCH = [
    ("hierarchical", {"names": ["age"]}, r"one name for each of the 3 columns, got \['age'\]"),
    ("hierarchical", {"names": "abc"}, "one name for each of the 3 columns, got 'abc'"),
    ("non-linear", {"names": 3}, "one name for each of the 3 columns, got 3"),
    ("non-linear", {"constant": "yes"}, "constant must be True or False"),
    ("non-linear", {"degree": 1.5}, "degree must be an integer of at least 1"),
    ("non-linear", {"radius": 0.0}, "radius must be a finite positive number"),
    ("non-linear", {"reference": [1.0, 2.0]}, r"reference must have shape \(4,\)"),
    ("polynomial", {"names": ["age"]}, r"one name for each of the 3 columns, got \['age'\]"),
    ("polynomial", {"base": 3}, r"base must be None, a kernel such as .* got 3"),
    ("polynomial", {"base": "linear"}, r"base must be None, a kernel such as .* got 'linear'"),
    ("polynomial", {"budget": "a"}, "budget must be a positive number, got 'a'"),
    ("polynomial", {"budget": -1.0}, "budget must be a finite positive number"),
    ("polynomial", {"budget": np.nan}, "budget must be a finite positive number"),
    ("polynomial", {"polish": "x"}, "polish must be True or False, got 'x'"),
    ("sampling", {"corrective": "yes"}, "corrective must be True or False"),
]


@pytest.mark.parametrize(("name", "change", "message"), OF_ONE_SEARCH, ids=[m for *_, m in OF_ONE_SEARCH])
def test_parameters_of_one_search(name: str, change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        run(name, POINTS, TARGET, **change)


PARTS: list[tuple[Callable[[], Any], str]] = [
    (lambda: Limits(tol="small"), "tol must be a positive number"),  # type: ignore[arg-type]
    (lambda: Limits(time_limit=np.nan), "time_limit must be a finite positive number"),
    (lambda: Limits(patience=0), "patience must be an integer of at least 1"),
    (lambda: Limits(callback=3), "callback must be None or take"),  # type: ignore[arg-type]
    (lambda: Limits(verbose=-1), "verbose must be an integer of at least 0"),
    (lambda: SearchSettings(n_starts=0), "n_starts must be an integer"),
    (lambda: FAMILY.listed(["wide"]), "parameters must hold real numbers"),
    (lambda: FAMILY.listed([1.0, np.nan]), "parameters contains 1 NaN"),
    (lambda: FAMILY.listed([1.0, 100.0]), "Members must be between 0.1 and 10, .* got 100"),
    (lambda: FAMILY.listed(3.0), "parameters must have shape"),
    (lambda: FamilySearch(FAMILY.listed([[1.0, 2.0]]), POINTS), r"has 1 parameter\(s\), but .* has 2"),
    (lambda: FamilySearch("gaussian", POINTS), "family must be a KernelFamily"),  # type: ignore[arg-type]
    (lambda: FamilySearch(FAMILY, put(POINTS, (0, 0), np.nan)), "points contains 1 NaN"),
    (lambda: align_family("search", TARGET, np.ones(20)), "search must be a FamilySearch"),  # type: ignore[arg-type]
    (lambda: align_family(FamilySearch(FAMILY, POINTS), TARGET[:-1], np.ones(20)), r"target must have shape \(20,\)"),
    (lambda: align_family(FamilySearch(FAMILY, POINTS), TARGET, -np.ones(20)), "weight must be positive"),
    (lambda: project_on_ball([1.0], [1.0, 2.0], 1.0), r"v must have shape \(2,\), got \(1,\)"),
    (lambda: project_on_ball([np.nan], [1.0], 1.0), "v contains 1 NaN"),
]


@pytest.mark.parametrize(("make", "message"), PARTS, ids=[message for _, message in PARTS])
def test_parts_of_searches(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        make()


def test_every_source_of_random_numbers_is_taken() -> None:
    same = [random_generator(seed).integers(10**9) for seed in (3, np.int64(3), np.random.RandomState(3))]
    assert len(set(same)) == 1
    generator = np.random.default_rng(3)
    assert random_generator(generator) is generator
    assert random_generator(None).integers(10**9) != random_generator(None).integers(10**9)
