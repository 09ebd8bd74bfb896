"""Every registered solver runs the whole contract."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

import numpy as np
import pytest
from tests.support.matrices import ELSEWHERE, ON_MATRICES

from manykernels.exceptions import IncompatibleError
from manykernels.grams.factored import factored_stack
from manykernels.kernels import KernelBank, Linear
from manykernels.objective.losses import get_loss
from manykernels.objective.problem import Problem
from manykernels.solvers.base import Solver
from manykernels.solvers.factored import working_set
from manykernels.solvers.registry import SOLVERS, solvers_for
from manykernels.solvers.solution import Solution, Status
from manykernels.testing.problems import SmallProblem, small_problems
from manykernels.testing.solver import NumpyModel, SolverContract, build_problem

HOMES = ("manykernels.solvers", "manykernels.papers")


class TestEverySolver(SolverContract):
    """All of them on every problem, and a third of the problems for laws that compare runs: the rest is nightly."""

    every = 3

    @pytest.fixture(params=sorted(ON_MATRICES), autouse=True)
    def _solver(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(type(self), "solver_class", SOLVERS[request.param], raising=False)


@pytest.mark.nightly
class TestEverySolverOnEveryProblem(TestEverySolver):
    every = 1


class TestSharedNewton(SolverContract):
    """Three targets, or classes, share the kernel weights."""

    solver_class = SOLVERS["shared_newton"]
    n_targets = 3


def on_factors(small: SmallProblem) -> Problem:
    """Return the problem on linear kernels of as many columns as its matrices have roots, held as factors."""
    roots = roots_of(small.kernels)
    ends = np.cumsum([root.shape[1] for root in roots])
    columns = [list(range(end - root.shape[1], end)) for root, end in zip(roots, ends.tolist(), strict=True)]
    bank = KernelBank([(f"k{m}", Linear(), own) for m, own in enumerate(columns)], normalize=None, standardize=False)
    return build_problem(small, factored_stack(np.column_stack(roots), bank))


def roots_of(kernels: np.ndarray) -> list[np.ndarray]:
    """Return matrices ``Z_m`` with ``K_m = Z_m Z_m'``, of one column at least."""
    found = []
    for gram in kernels:
        values, vectors = np.linalg.eigh(gram)
        kept = values > 1e-15 * values[-1]
        kept[-1] = True
        found.append(vectors[:, kept] * np.sqrt(np.maximum(values[kept], 0.0)))
    return found


def smooth_on_factors(small: SmallProblem) -> Problem:
    """Return the problem on factors, if they alone can bring its gap to 1e-8."""
    if not get_loss(small.loss_name, **small.loss_params).smooth:
        raise IncompatibleError("Smoothed kinks leave a gap of up to 1e-6, which N x N matrices then close.")
    return on_factors(small)


class TestFactored(SolverContract):
    """No matrices help: some runs end at a gap of 5e-8 on some processors. `TestFactoredOfFewRows` asks for 1e-8.

    A linear function of ``Z_m`` is its coefficients, which it has as values at the unit rows.
    """

    solver_class = SOLVERS["factored"]
    pose = staticmethod(smooth_on_factors)
    exact_dual = False
    tol = 1e-7

    @pytest.fixture(autouse=True)
    def _no_matrices(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(working_set.FactoredWorkingSet, "_matrices", lambda *_: None)

    def model(self, small: SmallProblem, solution: Solution) -> NumpyModel:
        roots = roots_of(small.kernels)
        n, width = len(small.y), sum(root.shape[1] for root in roots)
        parts = solution.functions.active_contributions(np.vstack([np.column_stack(roots), np.eye(width)]))
        norms = np.zeros(len(roots))
        norms[solution.functions.active] = np.sqrt((parts[:, n:] ** 2).sum(axis=(1, 2)))
        scores = parts[:, :n].sum(axis=0) + solution.intercept
        return NumpyModel(scores.reshape(small.y.shape), norms, solution.dual_coef)


class TestFactoredShared(TestFactored):
    """Three targets, or classes, share the kernel weights."""

    n_targets = 3


class TestFactoredOfFewRows(TestFactored):
    """As it runs: steps on so few rows are taken on N x N matrices, which every loss allows."""

    pose = staticmethod(on_factors)
    tol = SolverContract.tol

    @pytest.fixture(autouse=True)
    def _no_matrices(self) -> None:
        """Let it have them."""

    def test_a_warm_start_from_the_solution_saves_iterations(self) -> None:
        """Check that it costs none at least: a run on few rows keeps nothing that the next one could begin with."""
        small, cold = self.longest()
        warm = self.make_solver().solve(self.pose(small), warm_start=cold)
        assert warm.n_iter <= cold.n_iter
        assert warm.status is Status.CONVERGED
        self.check_certificate(small, warm)


def concrete(cls: type[Solver]) -> Iterator[type[Solver]]:
    """Yield the classes of the package below ``cls`` that are algorithms, not the base of several."""
    for child in cls.__subclasses__():
        named = hasattr(child, "name") and not child.__abstractmethods__
        if named and child.__module__.startswith(HOMES):
            yield child
        yield from concrete(child)


def test_no_solver_is_left_out_of_the_registry() -> None:
    for home in HOMES:
        for module in pkgutil.walk_packages(importlib.import_module(home).__path__, f"{home}."):
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
