"""The solvers that are compared, the problems they solve, and one timed run.

Import this module before NumPy: the numerical libraries read the number of threads when they are first loaded.
"""

from __future__ import annotations

import os

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"

import signal  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402
import warnings  # noqa: E402
from collections.abc import Callable, Iterator, Mapping  # noqa: E402
from contextlib import ExitStack, contextmanager  # noqa: E402
from dataclasses import dataclass, field  # noqa: E402
from functools import cache  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402
from unittest.mock import patch  # noqa: E402

import numpy as np  # noqa: E402
from _as_printed import LABEL, run_as_printed  # noqa: E402
from scipy.linalg import LinAlgWarning  # noqa: E402

sys.path.insert(0, str(Path(__file__).parents[2]))  # the problems of the papers are those of all experiments

from manykernels.exceptions import ConvergenceWarning  # noqa: E402
from manykernels.grams import PackedStack, as_stack  # noqa: E402
from manykernels.objective import Problem  # noqa: E402
from manykernels.papers.problems import PaperProblem, spicymkl, spicymkl_elastic_net, spicymkl_squared, squared_constant  # noqa: E402
from manykernels.papers.solvers import simplex_point as point  # noqa: E402
from manykernels.solvers import get_solver  # noqa: E402
from manykernels.solvers.gram import block_coordinate  # noqa: E402

GAP = 0.01  # relative duality gap at which the publication stops
MOST_ITERATIONS = 100_000
ELASTIC_LAMBDA = 0.5
REFERENCE_GAP = 1e-4  # of the solution that converts constants
SHORTEST = 1e-4  # CPU seconds; systems that count in ticks say 0 for less, which has no logarithm


@dataclass(frozen=True, eq=False)
class Entrant:
    """A solver on a problem.

    Parameters
    ----------
    problem : {"hinge", "logistic", "squared", "elastic hinge", "elastic logistic", "elastic hinge, 0.1", ...}
        Block 1-norm with either loss; hinge loss with the squared norm, the form of solvers that call a support vector
        machine; elastic net with either loss, lambda = 0.5 unless another is named.
    label : str
        Name in tables.
    solver : str
        Name in the library; "" for the printed algorithm.
    parameters : mapping
        What differs from the library's defaults.
    printed : str
        Column of the publication's Table 4; "" if it is not there.
    slow : bool
        Whether it is run on a few splits only.
    """

    problem: str
    label: str
    solver: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    printed: str = ""
    slow: bool = False

    @property
    def key(self) -> str:
        """Problem and label."""
        return f"{self.problem}: {self.label}"


DEFAULT = "working_set"
MORE_SAMPLES_THAN_KERNELS = ("liver", "pima")  # where "auto" takes the smooth dual of an elastic net (logistic loss)
PUBLISHED_GROWTH: dict[str, Any] = {"growth": 2.0}
PUBLISHED_DIRECTION: dict[str, Any] = {"conjugate": False}
PUBLISHED_CUTS: dict[str, Any] = {"alternate": False}

BLOCK_NORM = tuple(
    entrant
    for loss in ("hinge", "logistic")
    for entrant in (
        Entrant(loss, DEFAULT, "working_set"),
        Entrant(loss, "interior_point", "interior_point"),
        Entrant(loss, "spicymkl, gamma x 2", "spicymkl", PUBLISHED_GROWTH, f"spicy_{loss}"),
        Entrant(loss, "spicymkl, gamma x 10", "spicymkl"),
    )
)
AS_PRINTED = tuple(Entrant(loss, LABEL, "", printed=f"spicy_{loss}", slow=True) for loss in ("hinge", "logistic"))
SPLITTING = (Entrant("logistic", "pfbs", "pfbs", slow=True),)
SQUARED_NORM = (
    Entrant("squared", DEFAULT, "working_set"),
    Entrant("squared", "hessianmkl", "hessianmkl", {}, "hessianmkl", slow=True),
    Entrant("squared", "levelmkl", "levelmkl", PUBLISHED_CUTS, "levelmkl", slow=True),
    Entrant("squared", "simplemkl", "simplemkl", PUBLISHED_DIRECTION, "simplemkl", slow=True),
    Entrant("squared", "silp", "silp", PUBLISHED_CUTS, "silp", slow=True),
    Entrant("squared", "block_coordinate", "block_coordinate", slow=True),
    Entrant("squared", "skm", "skm", slow=True),
)
ELASTIC_NET = tuple(
    entrant
    for problem in ("elastic hinge", "elastic logistic")
    for entrant in (
        Entrant(problem, DEFAULT, "working_set"),
        Entrant(problem, "interior_point", "interior_point"),
        Entrant(problem, "smooth_dual", "smooth_dual"),
        Entrant(problem, "spicymkl, gamma x 2", "spicymkl", PUBLISHED_GROWTH),
    )
)
FIGURES_ONLY = tuple(  # in Figures 5 and 6 the publication has ElastMKL with this lambda, too
    Entrant(problem, "smooth_dual", "smooth_dual") for problem in ("elastic hinge, 0.1", "elastic logistic, 0.1")
)


def default_of(data: str, problem: str) -> str:
    """Return the solver that ``solver="auto"`` takes for a problem on a set of Table 4."""
    smooth = problem == "elastic logistic" and data in MORE_SAMPLES_THAN_KERNELS
    return "smooth_dual" if smooth else DEFAULT


def pose(problem: str, constant: float, squared: float) -> PaperProblem:
    """Return the published problem of that name.

    Parameters
    ----------
    problem : str
        As in `Entrant`.
    constant : float
        The publication's ``C``, which multiplies the sum of norms, the loss being summed over samples.
    squared : float
        The constant of the squared form that has the same solution, see `matching_constant`.
    """
    loss = "logistic" if problem.endswith("logistic") else "hinge"
    if problem == "squared":
        return spicymkl_squared(squared, loss)
    if problem.startswith("elastic"):
        lam = float(problem.split(", ")[1]) if ", " in problem else ELASTIC_LAMBDA
        return spicymkl_elastic_net(constant, lam, "logistic" if "logistic" in problem else "hinge")
    return spicymkl(constant, loss)


def matching_constant(stack: Any, y: Any, constant: float) -> float:
    """Return ``Ct = C / sum ||f_m||`` of the solution with the block 1-norm and the hinge loss; (6), corrected.

    Zero where that solution is empty: the squared penalty has no slope at zero, so that no constant of it empties one.
    """
    problem = spicymkl(constant, "hinge").problem(stack, y)
    solution = get_solver("spicymkl")(tol=REFERENCE_GAP).solve(problem)
    norms = solution.kernel_weights * problem.dual_norms(solution.dual_coef)
    return squared_constant(constant, norms) if norms.any() else 0.0


def race(entrant: Entrant, problem: Problem, limit: float) -> tuple[dict[str, Any], Any]:
    """Solve a problem once and return what it cost, and the solution.

    Parameters
    ----------
    entrant : Entrant
    problem : Problem
    limit : float
        CPU seconds after which the run is interrupted.
    """
    if entrant.label == LABEL:
        return race_as_printed(problem, limit)
    solver = get_solver(entrant.solver)(tol=GAP, max_iter=MOST_ITERATIONS, **entrant.parameters)
    with counted_machines() as machines, warnings.catch_warnings(), cpu_limit(limit) as out_of_time:
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", LinAlgWarning)
        started = time.process_time()
        solution = solver.solve(problem)
        seconds = time.process_time() - started
    if solution.status == "interrupted" and not out_of_time:
        raise KeyboardInterrupt  # by a person
    own = "handed_on" if "went on" in solution.message else str(solution.status)  # no merit of the entrant
    measured = {
        "status": "time_limit" if out_of_time else own,
        "cpu_s": round(max(seconds, SHORTEST), 4),
        "n_iter": solution.n_iter,
        "machines": machines[0],
        "newton_steps": solution.newton_steps,
        "passes": round(solution.passes, 2),
        "active": len(solution.active),
        "relative_gap": solution.certificate.relative_gap,
    }
    return measured, solution


def race_as_printed(problem: Problem, limit: float) -> tuple[dict[str, Any], Any]:
    """Return what the printed algorithm cost, and its run; None where it did not end in time."""
    started = time.process_time()
    with cpu_limit(limit) as out_of_time:
        counts, run = run_as_printed(problem, GAP)
    if counts["status"] == "interrupted" and not out_of_time:
        raise KeyboardInterrupt  # by a person
    seconds = round(max(time.process_time() - started, SHORTEST), 4)
    status = "time_limit" if out_of_time else counts["status"]
    return {"machines": 0, "passes": np.nan} | counts | {"status": status, "cpu_s": seconds}, run


@contextmanager
def cpu_limit(seconds: float) -> Iterator[list[bool]]:
    """Interrupt what runs inside once it has used so many CPU seconds; solvers then return their best model.

    By the profiling timer of POSIX systems, which a busy machine does not shorten. The list is empty until then.
    """
    fired: list[bool] = []

    def interrupt(*_: Any) -> None:
        fired.append(True)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGPROF, interrupt)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield fired
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


@contextmanager
def counted_machines() -> Iterator[list[int]]:
    """Count the machines (support vector machines, for the hinge loss) that are fitted inside."""
    count = [0]

    def counting(fit: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*positional: Any, **named: Any) -> Any:
            count[0] += 1
            return fit(*positional, **named)

        return counted

    with ExitStack() as stack:
        for module in (point, block_coordinate):
            stack.enter_context(patch.object(module, "fit_learner", counting(module.fit_learner)))
        yield count


@cache
def warm_up(entrants: tuple[Entrant, ...]) -> None:
    """Let every solver compile what it needs, on a tiny problem held as the real ones are; the first call only."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 6))
    kernels = np.stack([np.exp(-((x[:, None] - x) ** 2) / (2 * width**2)) for x in X.T for width in (0.5, 2.0)]) / 40
    stack, y = PackedStack.from_stack(as_stack(kernels)), np.where(X[:, 0] > 0, 1.0, -1.0)
    for entrant in entrants:
        race(entrant, pose(entrant.problem, 0.05, 0.001).problem(stack, y), limit=5.0)
