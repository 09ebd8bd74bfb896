"""How a problem is minimized: one algorithm a module, all ending in one shape of solution."""

from manykernels.solvers.api import configured_solver, solve
from manykernels.solvers.augmented_lagrangian import SpicyMKL
from manykernels.solvers.base import Solver
from manykernels.solvers.block_coordinate import BlockCoordinate
from manykernels.solvers.comparison import SolverComparison, compare_solvers, explain_solver_choice
from manykernels.solvers.conic import Conic
from manykernels.solvers.cutting_plane import SILP, LevelMKL
from manykernels.solvers.forward_backward import ForwardBackward
from manykernels.solvers.interior_point import InteriorPoint
from manykernels.solvers.reduced_gradient import SimpleMKL
from manykernels.solvers.registry import ALIASES, SOLVERS, choose_solver, get_solver, solvers_for
from manykernels.solvers.smo import SupportKernelMachine
from manykernels.solvers.smooth_dual import SmoothDual
from manykernels.solvers.solution import IterationRecord, Solution, Status
from manykernels.solvers.stochastic import UFOMKL, Obscure
from manykernels.solvers.weight_newton import HessianMKL
from manykernels.solvers.working_set import WorkingSet

__all__ = [
    "ALIASES",
    "SILP",
    "SOLVERS",
    "UFOMKL",
    "BlockCoordinate",
    "Conic",
    "ForwardBackward",
    "HessianMKL",
    "InteriorPoint",
    "IterationRecord",
    "LevelMKL",
    "Obscure",
    "SimpleMKL",
    "SmoothDual",
    "Solution",
    "Solver",
    "SolverComparison",
    "SpicyMKL",
    "Status",
    "SupportKernelMachine",
    "WorkingSet",
    "choose_solver",
    "compare_solvers",
    "configured_solver",
    "explain_solver_choice",
    "get_solver",
    "solve",
    "solvers_for",
]
