"""How a problem is minimized: one algorithm a module, all ending in one shape of solution."""

from manykernels.grams.rows.opening import open_rows
from manykernels.solvers.base import Solver
from manykernels.solvers.gram.block_coordinate import BlockCoordinate
from manykernels.solvers.gram.interior_point import InteriorPoint
from manykernels.solvers.gram.shared_newton import SharedNewton
from manykernels.solvers.gram.smooth_dual import SmoothDual
from manykernels.solvers.gram.working_set import WorkingSet
from manykernels.solvers.published.conic import Conic
from manykernels.solvers.published.cutting_plane import SILP, LevelMKL
from manykernels.solvers.published.hessianmkl import HessianMKL
from manykernels.solvers.published.pfbs import ForwardBackward
from manykernels.solvers.published.simplemkl import SimpleMKL
from manykernels.solvers.published.skm import SupportKernelMachine
from manykernels.solvers.published.spicymkl import SpicyMKL
from manykernels.solvers.published.ufo_mkl import UFOMKL, Obscure
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
    "ALIASES", "SILP", "SOLVERS", "UFOMKL", "BlockCoordinate", "Conic", "ForwardBackward", "HessianMKL",
    "InteriorPoint", "IterationRecord", "LevelMKL", "Obscure", "SharedNewton", "SimpleMKL", "SmoothDual", "Solution",
    "Solver", "SolverComparison", "SpicyMKL", "Status", "SupportKernelMachine", "WorkingSet", "choose_solver",
    "compare_solvers", "configured_solver", "explain_solver_choice", "get_solver", "open_rows", "register_loss",
    "register_penalty", "register_solver", "solve", "solvers_for",
]  # fmt: skip
