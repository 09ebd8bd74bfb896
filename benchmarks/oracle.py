"""What people bring, against a conic solver: a hundred random problems of each kind, and certificates in plain NumPy.

``python benchmarks/oracle.py [--smoke]``

Masked views, shared multinomial, several targets that share their weights (squared, Huber), Cox (ties, strata,
weights), Poisson, gamma and quantile, each solved by the default solver to a gap of 1e-8. Optima are those of CVXPY and
Clarabel: of masked views computed here, of the others from the files of the tests, which ``make optima`` computes anew.
Printed are the largest relative difference of objectives, the largest certified gap, and the largest difference of
primal and dual value to the same recomputed from the formulas in plain NumPy, relative to the objective. Exits with
1 if an objective differs by more than 1e-6, or a certificate by more than 1e-6.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator

import _common as common
import numpy as np

sys.path.insert(0, str(common.HERE.parent))

from tests.oracles.test_shared_weights import solved
from tests.oracles.test_solvers_against_cvxpy import solve_small
from tests.support.conic import cvxpy_optimum
from tests.support.cox import STORED as COX_OPTIMA
from tests.support.cox import cases
from tests.support.masked import draw
from tests.support.optima import COUNT, MORE, MORE_LOSSES, all_problems, stored_optima
from tests.support.shared import shared_case, shared_values
from tests.support.shared import stored_optima as shared_optima

from manykernels.solvers import Solution, choose_solver
from manykernels.testing.solver import certificate_in_numpy

Found = tuple[float, Solution, float, float]  # optimum, solution, primal and dual value in plain NumPy
BAR = 1e-6


def masked(count: int) -> Iterator[Found]:
    """Solve views that samples lack; the library has the tables, the oracle the masked matrices."""
    for seed in range(count):
        case = draw(seed)
        np.testing.assert_allclose(case.stack(), case.small.kernels, atol=1e-10 * np.abs(case.small.kernels).max())
        found = case.solution()
        told = certificate_in_numpy(case.small, found.dual_coef, found.kernel_weights, found.intercept)
        yield cvxpy_optimum(case.small), found, told.primal, told.dual


def shared(losses: tuple[str, ...], count: int) -> Iterator[Found]:
    """Solve classes or targets with one set of kernel weights."""
    for index in range(count):
        loss = losses[index % len(losses)]
        case, (_, found) = shared_case(index, loss), solved(shared_case(index, loss))
        primal, dual = shared_values(case, found.dual_coef, found.kernel_weights, found.intercept)
        yield shared_optima()[loss, index], found, primal, dual


def cox(count: int) -> Iterator[Found]:
    """Solve partial likelihoods."""
    for case, best in zip(cases()[:count], np.load(COX_OPTIMA), strict=False):
        problem = case.problem()
        found = choose_solver(problem)[0](tol=1e-8).solve(problem)
        f = found.kernel_weights @ (case.kernels @ found.dual_coef)
        dual = max(case.dual(f), case.dual(case.scores_behind(found.dual_coef, f)))
        yield float(best), found, case.primal(found.dual_coef, found.kernel_weights), dual


def single(loss: str, count: int) -> Iterator[Found]:
    """Solve one of the losses of counts and quantiles."""
    first = COUNT + MORE * MORE_LOSSES.index(loss)
    for small, best in zip(all_problems()[first : first + count], stored_optima()[first:], strict=False):
        found = solve_small(small, "auto")
        told = certificate_in_numpy(small, found.dual_coef, found.kernel_weights, found.intercept)
        yield best.primal, found, told.primal, told.dual


KINDS: dict[str, Callable[[int], Iterator[Found]]] = {
    "masked views": masked,
    "shared multinomial": lambda count: shared(("logistic",), count),
    "shared multi-output": lambda count: shared(("squared", "huber"), count),
    "Cox": cox,
    "Poisson": lambda count: single("poisson", count),
    "gamma": lambda count: single("gamma", count),
    "quantile": lambda count: single("quantile", count),
}


def main() -> None:
    """Print a line a kind."""
    options = common.parser(__doc__ or "").parse_args()
    count, missed = 3 if options.smoke else 100, False
    print("kind                 problems  objective      gap  certificate  seconds")
    for name, solve_all in KINDS.items():
        started, rows = time.process_time(), []
        for best, found, primal, dual in solve_all(count):
            told, size = found.certificate, max(abs(best), abs(primal))
            apart = max(abs(told.primal - primal), abs(told.dual - dual)) / size
            rows.append((abs(told.primal - best) / size, told.relative_gap, apart))
        worst = np.max(rows, axis=0)
        missed = missed or bool(worst[0] > BAR or worst[2] > BAR)
        seconds = time.process_time() - started
        print(f"{name:20} {len(rows):8d} {worst[0]:10.1e} {worst[1]:8.1e} {worst[2]:12.1e} {seconds:8.1f}", flush=True)
    if missed:
        sys.exit(1)


if __name__ == "__main__":
    main()
