"""Draw problems, fit them and judge the answers: ``python -m tests.fuzz --minutes 30 --seed 0``.

Problems on Gram matrices take turns with uses of what is beyond them (`uses`: factors, shared outputs, Cox's loss,
pairs, searches, cross-validation with weights), with model files that are changed at random (`files`) and with exports
of random models in every format (`exports`; ``--exports 100`` tries these alone). Prints
failures by class and the share of fits that did not converge, by solver. Failing problems are written as JSON files
into ``tests/fuzz/cases``, where `test_fuzz.py` replays them; uses and files are drawn again from their seed.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing import get_context
from pathlib import Path

from tests.fuzz.exports import FORMATS, judge_export
from tests.fuzz.files import KINDS, judge_file
from tests.fuzz.generator import Case, draw, with_
from tests.fuzz.judge import FAILURES, Verdict, judge, with_any_solver
from tests.fuzz.tables import failures_of
from tests.fuzz.uses import USES, Judgment, judge_use

CASES = Path(__file__).parent / "cases"
PROBLEMS = 16  # of a round and worker, beside one use and one file of each kind, and some exports
EXPORTS = 2  # models of a round and worker


@dataclass
class Results:
    """What has been judged so far."""

    problems: list[tuple[Case, Verdict]] = field(default_factory=list)
    uses: list[Judgment] = field(default_factory=list)
    files: list[tuple[str, bool, str]] = field(default_factory=list)  # kind, whether taken, what came out raw
    exports: list[Judgment] = field(default_factory=list)  # a format each, and predictions of other types

    @property
    def failed(self) -> bool:
        """Whether anything did."""
        judged = (*(verdict for _, verdict in self.problems), *self.uses, *self.exports)
        found = [each.failure for each in judged]
        return any(found) or any(raw for *_, raw in self.files)


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
    parser.add_argument("--exports", type=int, default=0, help="export so many models instead of solving problems")
    options = parser.parse_args()
    if options.exports:
        with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as pool:
            results = Results(exports=export_models(pool, range(options.seed, options.seed + options.exports), options))
        print(table_of_exports(results.exports))
        return int(results.failed)
    if options.tables:
        return use_tables(options)
    results = collect(options)
    print(table(results.problems))
    print(table_of_uses(results.uses))
    print(table_of_files(results.files))
    print(table_of_exports(results.exports))
    return int(results.failed)


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


def collect(options: argparse.Namespace) -> Results:
    """Judge problems, uses and files in turn until time or number is used up; tell of failures as they come."""
    stop = time.monotonic() + 60 * options.minutes
    seeds = iter(range(options.seed, options.seed + options.cases))
    results, first = Results(), options.seed
    with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as pool:
        while time.monotonic() < stop:
            batch = list(islice(seeds, PROBLEMS * options.workers))
            if not batch:
                break
            for case, verdict in pool.map(run_seed, batch):
                results.problems.append((case, verdict))
                tell(case, verdict, options)
            uses = range(first, first + len(USES) * options.workers)
            for judged in pool.map(judge_use, uses):
                results.uses.append(judged)
                tell_of_use(judged, options)
            files = range(first, first + len(KINDS) * options.workers)
            for seed, judged_file in zip(files, pool.map(judge_file, files), strict=True):
                results.files.append(judged_file)
                if judged_file[2]:
                    print(f"file {seed} {judged_file[0]}: {judged_file[2]}", flush=True)
            results.exports += export_models(pool, range(first, first + EXPORTS * options.workers), options)
            first = max(uses.stop, files.stop)
    return results


def export_models(pool: ProcessPoolExecutor, seeds: range, options: argparse.Namespace) -> list[Judgment]:
    """Export models of these seeds in every format and judge the files."""
    found = []
    for judgments in pool.map(judge_export, seeds):
        for judged in judgments:
            found.append(judged)
            tell_of_use(judged, options, "export")
    return found


def tell_of_use(judged: Judgment, options: argparse.Namespace, what: str = "use") -> None:
    """Print a failure, and an unconverged use where asked to."""
    if judged.failure or (options.unconverged and judged.status not in ("converged", "refused")):
        print(f"{what} {judged.seed} {judged.kind}: {judged.failure or judged.status}: {judged.detail}", flush=True)


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


def table_of_uses(uses: list[Judgment]) -> str:
    """Return uses, refusals, fits that did not converge and failures by class, of each kind, as text."""
    classes = ("wrong", "exception", "hang", "warning", "modified")
    lines = [
        "",
        f"{'use':<18}{'tried':>8}{'refused':>9}{'unconverged':>13}" + "".join(f"{name:>11}" for name in classes),
    ]
    for kind in USES:
        own = [judged for judged in uses if judged.kind == kind]
        failures, statuses = Counter(judged.failure for judged in own), Counter(judged.status for judged in own)
        missed = sum(judged.status not in ("converged", "refused") and not judged.failure for judged in own)
        counts = "".join(f"{failures[name]:>11}" for name in classes)
        lines.append(f"{kind:<18}{len(own):>8}{statuses['refused']:>9}{missed:>13}{counts}")
    return "\n".join(lines)


def table_of_files(files: list[tuple[str, bool, str]]) -> str:
    """Return mutated files, how many were taken, and what came out raw, of each kind of model, as text."""
    lines = ["", f"{'model file':<18}{'mutated':>8}{'taken':>9}{'raw':>13}"]
    for kind in KINDS:
        own = [file for file in files if file[0] == kind]
        lines.append(
            f"{kind:<18}{len(own):>8}{sum(taken for _, taken, _ in own):>9}{sum(bool(raw) for *_, raw in own):>13}"
        )
    return "\n".join([*lines, f"{'all':<18}{len(files):>8}"])


def table_of_exports(exports: list[Judgment]) -> str:
    """Return exports, refusals and failures by class, of each format, as text."""
    classes = ("wrong", "exception")
    lines = ["", f"{'export':<18}{'tried':>8}{'refused':>9}" + "".join(f"{name:>11}" for name in classes)]
    for kind in ("fit", *FORMATS, "types"):
        own = [judged for judged in exports if judged.kind == kind]
        failures = Counter(judged.failure for judged in own)
        refused = sum(judged.status == "refused" for judged in own)
        lines.append(f"{kind:<18}{len(own):>8}{refused:>9}" + "".join(f"{failures[name]:>11}" for name in classes))
    return "\n".join(lines)
