"""Every solver on every nasty problem it accepts: does it reach its gap, and the optimum of CVXPY + Clarabel?

``python benchmarks/nasty.py [--check] [--smoke] [--solvers NAME ...] [--first N] [--problems N] [--output DIR]``
``python benchmarks/nasty.py --merge DIR ... [--page benchmarks/records/solvers.md]`` prints the table of several runs,
each of some problems or solvers (of two runs of one solver on one problem the later folder counts), and puts it into
the page.

A hundred problems of `tests/support/nasty.py`, then two hundred of `tests/support/low_rank.py`.

The gap asked for is 1e-6, or what a solver declares as attainable if that is larger; where rounding the dual
coefficients of the optimum to float64 already costs more than that (`float64_resolution`), it is that cost. A problem
counts as

- reached, if the relative gap recomputed in plain NumPy is within it (and within twice of it for runs that converged);
- same optimum, if the objective differs from that of CVXPY + Clarabel by no more, relatively;
- rescued, if another solver had to go on from its best model (`Solver.fallback`);
- refused by name, if the error of a solver that does not accept it names one that does.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import _common as common
import pandas as pd

from manykernels.exceptions import IncompatibleError
from manykernels.objective.problem import Problem
from manykernels.solvers.base import Solver
from manykernels.solvers.registry import SOLVERS, check_able, solvers_for
from manykernels.testing.problems import SmallProblem
from manykernels.testing.solver import build_problem, certificate_in_numpy

sys.path.insert(0, str(Path(__file__).parents[1]))  # the problems and the conic oracle are those of the tests
from tests.support.conic import conic_optimum
from tests.support.low_rank import low_rank_problem
from tests.support.nasty import float64_resolution, nasty_problem

NASTY = 100
GAP = 1e-6
ORACLE_ACCEPTED = 5e-7  # relative: how much the answer of Clarabel may be above its own lower bound, and
ORACLE_REFUSED = 1e-5  # how much at most: where it is more than the first, objectives are compared to that accuracy
SMOKE_PROBLEMS, SMOKE_SECONDS = 12, 5.0
FORMATS = {"asked": ".0e", "worst gap": ".1e", "seconds": ".1f", "slowest": ".2f"}
COLUMNS = ("number", "solver", "problem", "status", "seconds", "goal", "gap", "difference", "reached", "same")
COLUMNS += ("rescued", "named")


@dataclass(frozen=True)
class Case:
    """A problem with its optimum by CVXPY + Clarabel and its accuracy, and the smallest gap that float64 allows."""

    number: int
    small: SmallProblem
    problem: Problem
    optimum: float
    accuracy: float
    resolution: float


def small_problem(number: int) -> SmallProblem:
    """Return the nasty problem of that number; from a hundred on, those on kernels of low rank."""
    return nasty_problem(number) if number < NASTY else low_rank_problem(number - NASTY)


def case(number: int) -> Case:
    """Pose a problem and solve it by the oracle."""
    small = small_problem(number)
    best = conic_optimum(small, accept=ORACLE_REFUSED)
    resolution = float64_resolution(small, best.dual_coef, best.kernel_weights, best.primal)
    return Case(number, small, build_problem(small), best.primal, max(best.excess, ORACLE_ACCEPTED), resolution)


def outcome(one: Case, solver: str, time_limit: float) -> dict[str, Any]:
    """Solve one problem with one solver; return the row that describes what happened."""
    cls = SOLVERS[solver]
    row: dict[str, Any] = {"number": one.number, "solver": solver, "problem": one.small.description}
    if cls.refusals(one.problem):
        return row | {"status": "refused", "named": refused_by_name(cls, one.problem)}
    asked, started = max(GAP, cls.attainable_gap), time.perf_counter()
    try:
        with common.quiet():
            found = cls(tol=asked, time_limit=time_limit).solve(one.problem)
    except Exception as error:  # a benchmark lists what went wrong and goes on
        return row | {"status": type(error).__name__, "seconds": time.perf_counter() - started}
    judged = certificate_in_numpy(one.small, found.dual_coef, found.kernel_weights, found.intercept)
    goal = max(asked, one.resolution)
    gap, difference = judged.relative_gap, abs(judged.primal / one.optimum - 1.0)
    converged = str(found.status) == "converged"
    return row | {
        "status": str(found.status),
        "seconds": found.elapsed_s,
        "goal": goal,
        "gap": gap,
        "difference": difference,
        "reached": gap <= goal or (converged and gap <= 2 * goal),
        "rescued": "went on" in found.message,
        "same": difference <= goal + one.accuracy,
    }


def refused_by_name(cls: type[Solver], problem: Problem) -> bool:
    """Return whether the error names every solver that accepts the problem."""
    try:
        check_able(cls(), problem)
    except IncompatibleError as error:
        return bool(solvers_for(problem)) and f"Able: {', '.join(solvers_for(problem))}." in str(error)
    return False


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """Return one row a solver: how many problems it accepted, reached, agreed on, refused, and what it took."""
    rows = []
    for solver, part in frame.groupby("solver", sort=False):
        tried, refused = part[part["status"] != "refused"], part[part["status"] == "refused"]
        rows.append(
            {
                "solver": solver,
                "asked": max(GAP, SOLVERS[str(solver)].attainable_gap),
                "accepted": len(tried),
                "reached": _count(tried["reached"]),
                "same optimum": _count(tried["same"]),
                "rescued": _count(tried["rescued"]),
                "refused": len(refused),
                "by name": _count(refused["named"]),
                "worst gap": float(tried["gap"].max()) if len(tried) else float("nan"),
                "seconds": float(tried["seconds"].sum()),
                "slowest": float(tried["seconds"].max()) if len(tried) else float("nan"),
            }
        )
    return pd.DataFrame(rows)


def on_page(found: pd.DataFrame, page: Path) -> None:
    """Put the table between the comments ``nasty`` of a page."""
    rows = [
        f"| `{row['solver']}` | {row['asked']:.0e} | {row['accepted']} | {row['reached']} | {row['same optimum']} | "
        f"{row['rescued']} | {row['by name']} | {row['worst gap']:.1e} | {row['seconds']:.1f} |"
        for row in found.to_dict("records")
    ]
    names = "solver | asked | accepted | reached | same optimum | rescued | refused by name | worst gap | seconds"
    text = "\n".join([f"| {names} |", "|" + " --- |" * 9, *rows])
    before, rest = page.read_text(encoding="utf-8").split("<!-- nasty -->")
    page.write_text(
        f"{before}<!-- nasty -->\n\n{text}\n\n<!-- end of nasty -->{rest.split('<!-- end of nasty -->')[1]}"
    )


def _count(column: pd.Series) -> int:
    return int((column == True).sum())  # noqa: E712 - a missing value does not count


def missed(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the runs that did not reach their gap or the optimum, and refusals without a name."""
    good = (frame["reached"] == True) & (frame["same"] == True)  # noqa: E712 - as above
    return frame[~(good | (frame["named"] == True))]  # noqa: E712 - as above


def numbers(count: int, first: int) -> list[int]:
    """Return so many numbers from the first one on; a few from zero on are some of both kinds."""
    if first or count >= NASTY:
        return list(range(first, first + count))
    return [i // 2 + NASTY * (i % 2) for i in range(count)]


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = common.parser("Nasty problems: who reaches the gap.")
    parser.add_argument("--check", action="store_true", help="exit with 1 if anything was missed")
    parser.add_argument("--problems", type=int, default=300, help="number of problems")
    parser.add_argument("--first", type=int, default=0, help="number of the first of them")
    parser.add_argument("--merge", nargs="+", type=Path, default=[], help="print the table of these runs instead")
    parser.add_argument("--page", type=Path, help="page whose table, between two comments, is replaced")
    parser.add_argument("--solvers", nargs="+", default=list(SOLVERS), choices=list(SOLVERS), help="solvers to run")
    parser.add_argument("--time-limit", type=float, default=60.0, help="wall-clock seconds a run may take")
    options = parser.parse_args()
    if options.smoke:
        options.problems, options.time_limit = min(options.problems, SMOKE_PROBLEMS), SMOKE_SECONDS
    return options


def main() -> int:
    """Solve, print, save; return the exit code: 1 with ``--check`` if a solver missed anything it accepted."""
    options = parse()
    if options.merge:
        frame = pd.concat([pd.read_csv(folder / "nasty.csv") for folder in options.merge], ignore_index=True)
        frame = frame.drop_duplicates(["number", "solver"], keep="last")
        common.print_table(table(frame), f"{frame['number'].nunique()} nasty problems", FORMATS)
        if options.page:
            on_page(table(frame), options.page)
        return int(options.check and len(missed(frame)) > 0)
    record = common.environment()
    common.print_environment(record)
    cases = [case(number) for number in numbers(options.problems, options.first)]
    rows = [outcome(one, name, options.time_limit) for name in options.solvers for one in cases]
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    common.print_table(table(frame), f"{len(cases)} nasty problems", FORMATS)
    for one in cases:
        if one.resolution > GAP:
            common.CONSOLE.print(f"float64 resolves only {one.resolution:.1e}: {one.small.description}", soft_wrap=True)
    rough = [one for one in cases if one.accuracy > ORACLE_ACCEPTED]
    for one in rough:
        text = f"Clarabel is only certified to {one.accuracy:.1e}: {one.small.description}"
        common.CONSOLE.print(text, soft_wrap=True)
    for row in missed(frame).itertuples():
        text = f"missed: {row.solver}, {row.status}, gap {row.gap:.1e}, objective off by {row.difference:.1e}"
        common.CONSOLE.print(f"{text}: {row.problem}", soft_wrap=True)
    common.save(frame, record, options.output, "nasty")
    return int(options.check and len(missed(frame)) > 0)


if __name__ == "__main__":
    raise SystemExit(main())
