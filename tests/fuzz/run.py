"""Draw problems, fit them and judge the answers: ``python -m tests.fuzz --minutes 30 --seed 0``.

Prints failures by class and the share of fits that did not converge, by solver. Failing cases are written as JSON files
into ``tests/fuzz/cases``, where `test_fuzz.py` replays them.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from multiprocessing import get_context
from pathlib import Path

from tests.fuzz.generator import Case, draw, with_
from tests.fuzz.judge import FAILURES, Verdict, judge, with_any_solver
from tests.fuzz.tables import failures_of

CASES = Path(__file__).parent / "cases"


def case_of(seed: int) -> Case:
    """Every fourth case is an ordinary one; every third goes to another solver than ``auto``."""
    case = draw(seed, hostile=seed % 4 != 0)
    if seed % 3 == 2:
        try:
            return with_any_solver(case, seed // 3)
        except ValueError:  # refused: the judge counts it
            return case
    return case


def run_seed(seed: int) -> tuple[Case, Verdict]:
    case = case_of(seed)
    return case, judge(case)


def main() -> int:
    """Run from the command line; the exit status says whether anything failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0, help="first seed")
    parser.add_argument("--cases", type=int, default=10**9, help="most cases")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="write failing cases into tests/fuzz/cases")
    parser.add_argument("--unconverged", action="store_true", help="print unconverged cases too")
    parser.add_argument("--tables", type=int, default=0, help="use so many tables with gaps instead of problems")
    options = parser.parse_args()
    if options.tables:
        return use_tables(options)
    results = collect(options)
    print(table(results))
    return int(any(verdict.failure for _, verdict in results))


def use_tables(options: argparse.Namespace) -> int:
    """Use tables with gaps in turn, tell what raised, and how often each use was tried."""
    tried, raised = Counter[str](), Counter[str]()
    seeds = range(options.seed, options.seed + options.tables)
    with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as pool:
        for seed, (uses, found) in zip(seeds, pool.map(failures_of, seeds), strict=True):
            tried.update(uses)
            raised.update(found)
            for name, words in found.items():
                print(f"table {seed}, {name}: {words}", flush=True)
    print("".join(f"{name:20}{raised[name]:6} of {count:5} raised\n" for name, count in tried.items()), end="")
    print(f"{options.tables} tables, {sum(tried.values())} uses, {sum(raised.values())} exceptions")
    return int(bool(raised))


def collect(options: argparse.Namespace) -> list[tuple[Case, Verdict]]:
    """Judge cases until time or number is used up; tell of failures as they come."""
    stop = time.monotonic() + 60 * options.minutes
    seeds = iter(range(options.seed, options.seed + options.cases))
    results: list[tuple[Case, Verdict]] = []
    with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as pool:
        while time.monotonic() < stop:
            batch = list(islice(seeds, 16 * options.workers))
            if not batch:
                break
            for case, verdict in pool.map(run_seed, batch):
                results.append((case, verdict))
                tell(case, verdict, options)
    return results


def tell(case: Case, verdict: Verdict, options: argparse.Namespace) -> None:
    """Print a failure, and an unconverged fit where asked to."""
    if verdict.failure:
        print(f"seed {case.seed} {verdict.solver}: {verdict.failure}: {verdict.detail}", flush=True)
        if options.keep:
            name = f"{verdict.failure.replace(' ', '_')}_{case.seed}.json"
            with_(case, note=f"{verdict.solver}: {verdict.detail}").save(CASES / name)
    elif options.unconverged and not verdict.converged and verdict.status != "refused":
        kind = "hostile" if case.hostile else "ordinary"
        what = f"{case.loss} {case.regularizer} {case.parameters} tol {case.tol:g}"
        gaps = f"gap {verdict.true_gap:.2g} noise {verdict.noise:.2g}{' indefinite' if verdict.indefinite else ''}"
        print(f"seed {case.seed} {verdict.solver}: {verdict.status} {kind} {what} {gaps}", flush=True)


def table(results: list[tuple[Case, Verdict]]) -> str:
    """Return cases, failures by class and unconverged fits by solver, as text.

    ``inaccurate`` counts those that said so by their status, ``by rounding`` also those whose certificate is no better
    than a tenth of ``tol`` and kernels that float32 left indefinite; the share is that of the others.
    """
    fits = [(case, verdict) for case, verdict in results if verdict.status != "refused"]
    failures = Counter(verdict.failure for _, verdict in fits)
    lines = [f"{len(results)} cases, {len(results) - len(fits)} refused, {len(fits)} fits judged", ""]
    lines += [f"{name:<18}{failures[name]:>8}" for name in FAILURES]
    lines += [
        "",
        f"{'solver':<32}{'kind':<10}{'fits':>8}{'unconverged':>13}{'inaccurate':>12}{'by rounding':>13}{'others':>9}",
    ]
    groups = sorted({(verdict.solver, case.hostile) for case, verdict in fits})
    for solver, hostile in groups:
        own = [(c, v) for c, v in fits if v.solver == solver and c.hostile == hostile]
        lines.append(_row(solver, hostile, own))
    for hostile in (False, True):
        own = [(c, v) for c, v in fits if v.solver.startswith("auto") and c.hostile == hostile]
        lines.append(_row("auto, all", hostile, own))
    return "\n".join(lines)


def _row(solver: str, hostile: bool, own: list[tuple[Case, Verdict]]) -> str:
    missed = [(case, verdict) for case, verdict in own if not verdict.converged]
    inaccurate = sum(verdict.status == "inaccurate" for _, verdict in missed)
    rounding = sum(
        verdict.noise > 0.1 * case.tol or verdict.indefinite or verdict.status == "inaccurate"
        for case, verdict in missed
    )
    share = (len(missed) - rounding) / max(len(own), 1)
    kind = "hostile" if hostile else "ordinary"
    return f"{solver:<32}{kind:<10}{len(own):>8}{len(missed):>13}{inaccurate:>12}{rounding:>13}{share:>9.2%}"
