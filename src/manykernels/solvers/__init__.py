"""Solvers: an algorithm per module, with a common form of solution."""

from typing import Any

from manykernels.grams.rows.opening import open_rows
from manykernels.solvers.base import Solver
from manykernels.solvers.gram.block_coordinate import BlockCoordinate
from manykernels.solvers.gram.interior_point import InteriorPoint
from manykernels.solvers.gram.pfbs import ForwardBackward
from manykernels.solvers.gram.shared_newton import SharedNewton
from manykernels.solvers.gram.smooth_dual import SmoothDual
from manykernels.solvers.gram.spicymkl import SpicyMKL
from manykernels.solvers.gram.working_set import WorkingSet
from manykernels.solvers.registration import register_loss, register_penalty, register_solver
from manykernels.solvers.registry import (
    ALIASES,
    SOLVERS,
    SolverComparison,
    choose_solver,
    compare_solvers,
    configured_solver,
    explain_solver_choice,
    get_solver,
    solvers_for,
)
from manykernels.solvers.solution import IterationRecord, Solution, Status
from manykernels.solvers.solve import solve

__all__ = [
    "ALIASES", "SOLVERS", "BlockCoordinate", "ForwardBackward", "InteriorPoint", "IterationRecord", "SharedNewton",
    "SmoothDual", "Solution", "Solver", "SolverComparison", "SpicyMKL", "Status", "WorkingSet", "choose_solver",
    "compare_solvers", "configured_solver", "explain_solver_choice", "get_solver", "open_rows", "register_loss",
    "register_penalty", "register_solver", "solve", "solvers_for",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Return a registered solver by class name, including published solvers."""
    found = None if name.startswith("_") else next((cls for cls in SOLVERS.values() if cls.__name__ == name), None)
    if found is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return found
