"""How a problem is minimized: one algorithm a module, all ending in one shape of solution."""

from manykernels.grams.rows import open_rows
from manykernels.solvers.base import Solver
from manykernels.solvers.comparison import SolverComparison, compare_solvers, explain_solver_choice
from manykernels.solvers.methods.block_coordinate.method import BlockCoordinate
from manykernels.solvers.methods.conic.method import Conic
from manykernels.solvers.methods.factored.fold_paths import FoldPaths, factored_folds
from manykernels.solvers.methods.factored.model import FactoredModel
from manykernels.solvers.methods.factored.pairs import solve_factored_pairs
from manykernels.solvers.methods.factored.solve import solve_factored, solve_factored_each
from manykernels.solvers.methods.hessianmkl import HessianMKL
from manykernels.solvers.methods.interior_point import InteriorPoint
from manykernels.solvers.methods.pfbs.method import ForwardBackward
from manykernels.solvers.methods.shared_newton import SharedNewton
from manykernels.solvers.methods.silp import SILP, LevelMKL
from manykernels.solvers.methods.simplemkl import SimpleMKL
from manykernels.solvers.methods.skm.method import SupportKernelMachine
from manykernels.solvers.methods.smooth_dual import SmoothDual
from manykernels.solvers.methods.spicymkl import SpicyMKL
from manykernels.solvers.methods.ufo_mkl import UFOMKL, Obscure
from manykernels.solvers.methods.working_set.method import WorkingSet
from manykernels.solvers.registry import ALIASES, SHARED_SOLVERS, SOLVERS, choose_solver, get_solver, solvers_for
from manykernels.solvers.solution import IterationRecord, Solution, Status
from manykernels.solvers.solve import configured_solver, solve

__all__ = [
    "ALIASES",
    "SHARED_SOLVERS",
    "SILP",
    "SOLVERS",
    "UFOMKL",
    "BlockCoordinate",
    "Conic",
    "FactoredModel",
    "FoldPaths",
    "ForwardBackward",
    "HessianMKL",
    "InteriorPoint",
    "IterationRecord",
    "LevelMKL",
    "Obscure",
    "SharedNewton",
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
    "factored_folds",
    "get_solver",
    "open_rows",
    "solve",
    "solve_factored",
    "solve_factored_each",
    "solve_factored_pairs",
    "solvers_for",
]
