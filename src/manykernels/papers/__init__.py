"""Methods of papers: their problems with the original constants, and their solvers."""

from manykernels.papers.novelty import MKLNovelty
from manykernels.papers.printed.skm import smoothing_errors, sufficient_kappa
from manykernels.papers.printed.spicymkl import PrintedRun, solve_as_printed
from manykernels.papers.problems import (
    PaperProblem,
    alpha_from_svm_constant,
    block_constant,
    citi,
    kloft,
    normalized_weights,
    obscure,
    paper_weights,
    pfbs,
    simplemkl,
    skm,
    spicymkl,
    spicymkl_elastic_net,
    spicymkl_lq,
    spicymkl_squared,
    squared_constant,
    thesis,
    tikhonov_exponent,
    ufo_mkl,
)
from manykernels.papers.solvers.conic import Conic
from manykernels.papers.solvers.cutting_plane import SILP, LevelMKL
from manykernels.papers.solvers.hessianmkl import HessianMKL
from manykernels.papers.solvers.simplemkl import SimpleMKL
from manykernels.papers.solvers.skm import SupportKernelMachine
from manykernels.papers.solvers.ufo_mkl import UFOMKL, Obscure
from manykernels.solvers.registration import register_solver

__all__ = [
    "SILP", "UFOMKL", "Conic", "HessianMKL", "LevelMKL", "MKLNovelty", "Obscure", "PaperProblem", "PrintedRun",
    "SimpleMKL", "SupportKernelMachine", "alpha_from_svm_constant", "block_constant", "citi", "kloft",
    "normalized_weights", "obscure", "paper_weights", "pfbs", "simplemkl", "skm", "smoothing_errors",
    "solve_as_printed", "spicymkl", "spicymkl_elastic_net", "spicymkl_lq", "spicymkl_squared", "squared_constant",
    "sufficient_kappa", "thesis", "tikhonov_exponent", "ufo_mkl",
]  # fmt: skip

for solver in (SupportKernelMachine, HessianMKL, SimpleMKL, SILP, LevelMKL, Conic, UFOMKL, Obscure):
    register_solver(solver)
