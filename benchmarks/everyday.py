"""What people run most: untouched searches beside a tuned machine, their time, memory and held-out scores.

``python benchmarks/everyday.py [--data DIR] [--repeats N] [--sets NAME ...] [--large] [--alone] [--resume] [--smoke]
[--output DIR]``

Each row is measured in processes of their own, ours and the rival's one after the other: CPU seconds (median over the
repeats), the largest memory that the fit added, accuracy or R2 on rows that were held out. The rival is what a careful
user would run: an SVC or kernel ridge regression on standardized columns, 54 settings in five folds; of precomputed
kernels, an SVC on each of them at nine constants. Digits come in three views, bands of their rows of pixels, each with
the default kernels of a view; the rival has all pixels. Sets that are not in the folder of ``--data`` are left out.
``--large`` takes tables on both sides of where searches leave matrices among samples for landmarks, and ``--alone``
leaves the rival out, which takes minutes to an hour there.
Rows are saved as they come; with ``--resume`` those that an earlier run of the same revision saved are not measured
again.
"""

from __future__ import annotations

import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import _common as common
import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from manykernels import KernelBank, MKLClassifierCV, MKLRegressorCV

CONSTANTS = np.logspace(-2, 4, 9)
WIDTHS = np.logspace(-2, 1.5, 6)  # gamma times the number of columns
SETS = {"german_ida": (667, True), "image_ida": (1300, True), "kin8nh": (2000, False), "splice_ida": (1000, True)}
LARGE = {
    "kin8nh (3100)": ("kin8nh", 3100, False),
    "kin8nh (3500)": ("kin8nh", 3500, False),
    "kin8nh (6000)": ("kin8nh", 6000, False),
    "cpu_act (6000)": ("cpu_act", 6000, False),
    "winequality_white (3900)": ("winequality_white", 3900, False),
    "spambase (4000)": ("spambase", 4000, True),
    "waveform (4000)": ("waveform", 4000, True),
    "ringnorm (6000)": ("ringnorm", 6000, True),
    "adult_a9a (10000)": ("adult_a9a", 10_000, True),
    "covtype15k (10000)": ("covtype15k", 10_000, True),
}
BUNDLED = {"breast_cancer": (load_breast_cancer, True), "diabetes": (load_diabetes, False)}
KERNELS, DIGITS = "4 kernels, 4 classes", "digits in 3 views"
BANDS = {"top": slice(0, 24), "middle": slice(24, 40), "bottom": slice(40, 64)}  # eight pixels a row
MOST_TEST_ROWS = 1000


@dataclass(frozen=True)
class Case:
    """One row of the table: training rows (or kernels), targets, and the same held out."""

    name: str
    X: Any
    y: Any
    X_test: Any
    y_test: Any
    classes: bool
    kernels: Any = None  # "precomputed", a bank, or what there is by default


def table(name: str, folder: Path, rows: int, classes: bool, seed: int) -> Case | None:
    """Return a set split into training and test rows; None where it is not in the folder."""
    if name in BUNDLED:
        X, y = BUNDLED[name][0](return_X_y=True)
    elif (folder / f"{name}.npz").is_file():
        with np.load(folder / f"{name}.npz", allow_pickle=False) as held:
            X, y = held["X"].astype(np.float64), held["y"]
    else:
        common.CONSOLE.print(f"left out: there is no {name}.npz in the folder of data sets")
        return None
    groups, n_test = y if classes else None, min(MOST_TEST_ROWS, len(y) - rows)
    X, X_test, y, y_test = train_test_split(X, y, train_size=rows, test_size=n_test, stratify=groups, random_state=seed)
    return Case(f"{name} ({rows} x {X.shape[1]})", X, y, X_test, y_test, classes)


def kernels(rows: int, seed: int) -> Case:
    """Return four matrices of which two know something of four classes."""
    rng = np.random.default_rng(seed)
    labels = np.arange(2 * rows) % 4
    grams = []
    for informative in (True, True, False, False):
        points = rng.normal(size=(2 * rows, 8))
        points[:, :2] += 1.2 * informative * np.column_stack([labels // 2, labels % 2])
        distances = ((points[:, None, :] - points) ** 2).sum(axis=2)
        grams.append(np.exp(-distances / np.median(distances)))
    stack, train, test = np.stack(grams), np.arange(rows), np.arange(rows, 2 * rows)
    parts = stack[:, :rows, :rows], stack[:, rows:, :rows]
    return Case(f"{KERNELS} ({rows})", parts[0], labels[train], parts[1], labels[test], True, "precomputed")


def digits(rows: int, seed: int) -> Case:
    """Return pictures of ten digits in three bands."""
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, train_size=rows, stratify=y, random_state=seed)
    bank = KernelBank.from_views({name: list(range(64)[band]) for name, band in BANDS.items()})
    return Case(f"{DIGITS} ({rows} x 64)", X, y, X_test, y_test, True, bank)


class EachKernel:
    """An SVC on the best of several precomputed kernels."""

    def fit(self, X: Any, y: Any) -> EachKernel:
        """Tune an SVC on each kernel, and keep the best."""
        found = [GridSearchCV(SVC(kernel="precomputed"), {"C": CONSTANTS}, cv=5).fit(gram, y) for gram in X]
        self.kernel = int(np.argmax([search.best_score_ for search in found]))
        self.machine = found[self.kernel]
        return self

    def predict(self, X: Any) -> Any:
        """Predict."""
        return self.machine.predict(X[self.kernel])


def rival(case: Case) -> Any:
    """Return the tuned machine."""
    if case.kernels == "precomputed":
        return EachKernel()
    gammas = WIDTHS / case.X.shape[1]
    if case.classes:
        return GridSearchCV(make_pipeline(StandardScaler(), SVC()), {"svc__C": CONSTANTS, "svc__gamma": gammas}, cv=5)
    machine = make_pipeline(StandardScaler(), KernelRidge(kernel="rbf"))
    return GridSearchCV(machine, {"kernelridge__alpha": 1.0 / CONSTANTS, "kernelridge__gamma": gammas}, cv=5)


def ours(case: Case) -> Any:
    """Return the untouched search."""
    kind = MKLClassifierCV if case.classes else MKLRegressorCV
    return kind(case.kernels)


def resident(name: str) -> float:
    """Return the resident memory of this process now (``VmRSS``), or its peak since (``VmHWM``), in bytes.

    The peak that ``getrusage`` tells is inherited from the process that started this one.
    """
    status = Path("/proc/self/status")
    if not status.is_file():
        return float(common.peak_memory_bytes())
    values = dict(line.split(":", 1) for line in status.read_text().splitlines())
    if name == "VmRSS":
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    return 1024.0 * float(values[name].split()[0])


def measured(case: Case, own: bool) -> tuple[float, float, float]:
    """Fit in this process; return CPU seconds, megabytes that were added, and the score of held-out rows."""
    model = ours(case) if own else rival(case)
    shift = 0.0 if own or case.classes else float(np.mean(case.y))
    before, start = resident("VmRSS"), time.process_time()
    with common.quiet():
        model.fit(case.X, case.y - shift if shift else case.y)
    seconds, added = time.process_time() - start, resident("VmHWM") - before
    score = accuracy_score if case.classes else r2_score
    return seconds, added / 2**20, float(score(case.y_test, model.predict(case.X_test) + (shift or 0)))


def in_a_process(case: Case, *, own: bool) -> tuple[float, float, float]:
    """Measure in a fresh process, whose peak of memory is that of this fit."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        pool.submit(measured, smallest(), own).result()  # compiled loops are loaded before the clock starts
        return pool.submit(measured, case, own).result()


def smallest() -> Case:
    """Return a case that takes no time."""
    case = table("breast_cancer", Path(), 40, True, 0)
    assert case is not None
    return case


def row_of(case: Case, repeats: int, *, alone: bool = False, apart: bool = True) -> dict[str, Any]:
    """Return a row of the table, without the rival if it is left out, measured in processes of its own or in this."""
    run = in_a_process if apart else measured
    own, other = (
        np.median([run(case, own=mine) for _ in range(repeats)], axis=0) if mine or not alone else [np.nan] * 3
        for mine in (True, False)
    )
    return {
        "what": case.name,
        "ours s": own[0],
        "rival s": other[0],
        "ratio": own[0] / max(other[0], common.SHORTEST),
        "ours MB": own[1],
        "rival MB": other[1],
        "ours score": own[2],
        "rival score": other[2],
    }


def main() -> None:
    """Measure all rows, print and save the table."""
    parser = common.parser(__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of data sets (.npz with X and y)")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each fit, of which the median counts")
    parser.add_argument("--sets", nargs="*", default=[*SETS, KERNELS, DIGITS], help="rows of the table")
    parser.add_argument("--large", action="store_true", help="tables of 3,100 to 10,000 rows, in place of the sets")
    parser.add_argument("--alone", action="store_true", help="leave the rival out")
    parser.add_argument("--resume", action="store_true", help="keep the rows that this revision has saved")
    options = parser.parse_args()
    if options.smoke:
        tried = [table(name, options.data, 60, classes, options.seed) for name, (_, classes) in BUNDLED.items()]
        cases, repeats = [*tried, kernels(40, options.seed), digits(60, options.seed)], 1
    else:
        wanted = [name for name in options.sets if name in SETS]
        cases = [table(name, options.data, *SETS[name], options.seed) for name in wanted]
        cases += [kernels(720, options.seed)] if KERNELS in options.sets else []
        cases += [digits(1000, options.seed)] if DIGITS in options.sets else []
        if options.large:
            cases = [table(name, options.data, *rest, options.seed) for name, *rest in LARGE.values()]
        repeats = options.repeats
    record = common.environment()
    common.print_environment(record)
    rows = common.measured_before(record, options.output, "everyday") if options.resume else []
    frame, known = pd.DataFrame(rows), {row["what"] for row in rows}
    for case in cases:
        if case is not None and case.name not in known:
            apart = not options.smoke or frame.empty  # to start Python takes longer than these
            row = row_of(case, repeats, alone=options.alone, apart=apart)
            frame = pd.concat([frame, pd.DataFrame([row])], ignore_index=True)
            common.save(frame, record, options.output, "everyday")
    formats = {name: ".3f" if "score" in name else ".2f" for name in frame.columns[1:]}
    common.print_table(frame, "Untouched searches beside tuned machines", formats)


if __name__ == "__main__":
    main()
