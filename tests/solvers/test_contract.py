"""Every registered solver runs the whole contract."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

import pytest
from tests.support.matrices import ELSEWHERE, ON_MATRICES

import manykernels.solvers
from manykernels.solvers.base import Solver
from manykernels.solvers.registry import SOLVERS, solvers_for
from manykernels.testing.problems import small_problems
from manykernels.testing.solver import SolverContract, build_problem


class TestEverySolver(SolverContract):
    @pytest.fixture(params=sorted(ON_MATRICES), autouse=True)
    def _solver(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(type(self), "solver_class", SOLVERS[request.param], raising=False)


def concrete(cls: type[Solver]) -> Iterator[type[Solver]]:
    """Yield the classes of the package below ``cls`` that are algorithms, not the base of several."""
    for child in cls.__subclasses__():
        named = hasattr(child, "name") and not child.__abstractmethods__
        if named and child.__module__.startswith("manykernels.solvers"):
            yield child
        yield from concrete(child)


def test_no_solver_is_left_out_of_the_registry() -> None:
    for module in pkgutil.walk_packages(manykernels.solvers.__path__, "manykernels.solvers."):
        importlib.import_module(module.name)
    assert set(concrete(Solver)) == set(SOLVERS.values())
    assert all(name == cls.name for name, cls in SOLVERS.items())


def test_a_forgotten_solver_would_be_found() -> None:
    module = next(iter(SOLVERS.values())).__module__
    forgotten = type("Forgotten", (next(iter(SOLVERS.values())),), {"__module__": module})
    assert forgotten in set(concrete(Solver))


def test_only_solvers_of_other_problems_refuse_all_of_them() -> None:
    posed = [build_problem(small) for small in small_problems(30)]
    assert tuple(name for name, cls in SOLVERS.items() if all(map(cls.refusals, posed))) == ELSEWHERE


def test_every_small_problem_has_a_solver() -> None:
    for small in small_problems(120):
        assert solvers_for(build_problem(small)), small.description
