"""Fits, paths and predictions of usual sizes: time, memory and certified gap, beside others where there are.

``python benchmarks/everyday_fits.py [--rows TEXT ...] [--floor] [--repeats N] [--resume] [--smoke] [--output DIR]``

Each row is measured in processes of their own, ours and the rival's one after the other: CPU seconds of one thread
(median over the repeats; a first small run compiles), and the largest memory that the call added. Rows whose rival is
not installed have none: adelie for paths, which wants an environment of its own, with numpy below 2. Searches are in
``everyday.py``. ``--floor`` says instead what of the small hinge fit is reading and factorizing matrices.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec
from typing import Any

import _common as common
import factored
import group_path
import numpy as np
import pandas as pd
from everyday import resident
from sklearn.svm import SVC

from manykernels import KernelBank, MKLClassifier, solve
from manykernels.grams import DenseStack, PackedStack
from manykernels.grams.factored import FourierStack
from manykernels.solvers.gram.newton_system import NewtonSystem, add_rank_update
from manykernels.validation.gram import check_gram_array, is_definite

Call = Callable[[], Any]  # a fit or prediction; what it returns may have a gap
WIDTHS = (0.25, 0.5, 1.0, 2.0)


def labels(n: int, columns: int, seed: int = 0) -> tuple[Any, Any]:
    """Return columns of which two say something of a label."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, columns))
    return X, np.where(np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] ** 2 - 0.5 + 0.5 * rng.logistic(size=n) > 0, 1.0, -1.0)


def path(n: int, groups: int, loss: str) -> tuple[Call, Call | None]:
    """Thirty strengths of a group lasso."""
    X, y = group_path.data(n, groups, group_path.SIZE, loss)
    alphas = group_path.ours(X, y, group_path.SIZE, loss).alphas if find_spec("adelie") is not None else None
    rival = None if alphas is None else lambda: group_path.with_adelie(X, y, group_path.SIZE, loss, alphas)
    return lambda: group_path.ours(X, y, group_path.SIZE, loss), rival


def additive(n: int, columns: int, n_widths: int, how: str = "auto") -> tuple[Call, Call | None]:
    """Gaussian kernels of single columns, as the plan holds them."""
    X, y = labels(n, columns)
    bank = KernelBank.per_feature(widths=np.geomspace(0.3, 3.0, n_widths).tolist(), standardize=True)
    return lambda: MKLClassifier(bank, loss="logistic", alpha="0.1*max", resources={"representation": how}).fit(
        X, y
    ), None


def stored_grams(n: int, n_kernels: int) -> tuple[Any, Any]:
    """Return Gaussian kernels of single columns as matrices, and labels."""
    X, y = labels(n, 10)
    bank = KernelBank.per_feature(widths=np.geomspace(0.3, 3.0, n_kernels // 10).tolist(), standardize=True)
    return np.asarray(bank.fit(X).block(*2 * (bank.fit(X).prepare(X),))), y


def hinge_fit(grams: Any, y: Any) -> Any:
    """Fit the hinge loss on stored matrices."""
    return solve(grams, y, loss="hinge", penalty="l1", alpha="0.1*max", tol=1e-3)


def stored(n: int, n_kernels: int) -> tuple[Call, Call | None]:
    """Hinge loss on stored matrices."""
    grams, y = stored_grams(n, n_kernels)
    return lambda: hinge_fit(grams, y), None


def floor(n: int, n_kernels: int) -> pd.DataFrame:
    """Return CPU milliseconds of what such a fit does with matrices, were all else free, beside the fit itself.

    Later steps read fewer kernels than these, which all do.
    """
    grams, y = stored_grams(n, n_kernels)
    found, held = hinge_fit(grams, y), DenseStack(grams)
    triangles = held.triangles(out=np.empty((n_kernels, n * (n + 1) // 2), dtype=np.float32))
    copied, kernels = PackedStack(triangles, n), np.arange(n_kernels)
    vector, ones, sums = np.cos(np.arange(n)), np.ones(n_kernels), held.combine(np.ones(n_kernels))
    rows = found.active.size, copied.apply_each(vector)[: found.active.size]

    def two_solutions() -> None:
        matrix = sums + np.eye(n)
        add_rank_update(matrix, rows[1], np.ones(rows[0]))
        system = NewtonSystem(matrix, True)
        _ = system.solve(vector, 0.0), system.solve(vector, 1.0)

    steps = found.newton_steps
    parts: list[tuple[str, int, Call]] = [
        ("entries are finite and symmetric", 1, lambda: check_gram_array(grams)),
        ("products of all kernels: strength and certificate", 2, lambda: held.apply_each(vector, kernels)),
        ("triangles in single precision", 1, lambda: held.triangles(out=triangles)),
        ("steps: weighted sum", steps, lambda: copied.combine(ones)),
        ("steps: products", steps, lambda: copied.apply_each(vector)),
        ("steps: factor, and two solutions", steps, two_solutions),
        ("a kernel of the model is definite", found.active.size, lambda: is_definite(grams[0], 1e-8)),
    ]

    def milliseconds(call: Call) -> float:
        return 1e3 * common.cpu_time(lambda: [call() for _ in range(10)], repeats=20).best / 10

    each = [(what, times, milliseconds(call)) for what, times, call in parts]
    lines = [(what, times, ms, times * ms) for what, times, ms in each]
    whole = milliseconds(lambda: hinge_fit(grams, y))
    lines += [("all of these", 1, np.nan, sum(line[-1] for line in lines)), ("the fit", 1, whole, whole)]
    return pd.DataFrame(lines, columns=["what", "times", "ms each", "ms"])


def many(n: int, n_kernels: int, loss: str) -> tuple[Call, Call | None]:
    """More widths than anybody would list."""
    X, y = labels(n, 60)
    bank = KernelBank.per_feature(widths=np.geomspace(0.05, 10.0, n_kernels // 60).tolist(), standardize=True)
    return lambda: MKLClassifier(bank, loss=loss, alpha="0.1*max", tol=1e-3).fit(X, y), None


def classes(n: int, outputs: str) -> tuple[Call, Call | None]:
    """Ten classes on 44 kernels, weights of their own or shared."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n, 11)), np.arange(n) % 10
    X[:, :3] += rng.normal(size=(10, 3))[y] * 1.5
    bank = KernelBank.per_feature(widths=list(WIDTHS), standardize=True)
    return lambda: MKLClassifier(bank, alpha="0.1*max", outputs=outputs).fit(X, y), lambda: SVC().fit(X, y)


def default(n: int, columns: int) -> tuple[Call, Call | None]:
    """The classifier as it is, with the bank that its rows get."""
    X, y = labels(n, columns)
    return lambda: MKLClassifier().fit(X, y), None


def default_classes(n: int, columns: int, n_classes: int, loss: str = "") -> tuple[Call, Call | None]:
    """The default bank on classes that share weights, beside own ones; widths on factors where a loss is given."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, columns))
    scores = np.sin(2 * X[:, :4]) @ rng.normal(size=(4, n_classes)) + 0.7 * X[:, :4] @ rng.normal(size=(4, n_classes))
    y = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    bank = KernelBank.per_feature(widths=list(WIDTHS), standardize=True)
    given = {"kernels": bank, "loss": loss, "resources": {"representation": "factored"}} if loss else {}
    shared, own = (lambda how=how: MKLClassifier(outputs=how, **given).fit(X, y) for how in ("shared", "own"))
    return shared, own


def unbalanced(n: int, columns: int) -> tuple[Call, Call | None]:
    """The default bank where one sample of a hundred is positive, beside the same columns cut in two halves."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, columns))
    score = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] ** 2 + 0.5 * rng.logistic(size=n)
    few, half = (np.where(score > np.quantile(score, share), 1.0, -1.0) for share in (0.99, 0.5))
    return lambda: MKLClassifier().fit(X, few), lambda: MKLClassifier().fit(X, half)


def large(n: int, columns: int, alpha: str) -> tuple[Call, Call | None]:
    """27 widths on every column by the estimator, beside `solve` on a stack; untouched, by the estimator alone."""
    case = factored.Case(n, columns)
    X, y = factored.draw(case, seed=0)
    bank = KernelBank.per_feature(widths=case.grid, standardize=True)

    def by_solve() -> Any:
        given = {"alpha": f"{case.relative_strength}*max", "tol": case.tol}
        return solve(FourierStack.grid(X, case.grid), y, loss="logistic", penalty="l1", **given)

    given = {"alpha": alpha} if alpha else {}
    return lambda: MKLClassifier(bank, loss="logistic", **given).fit(X, y), by_solve if alpha else None


def million(n: int, n_kernels: int) -> tuple[Call, Call | None]:
    """A million kernels by the estimator, beside `solve` on a stack of the same."""
    X, y = labels(n, 60)
    widths = np.geomspace(0.05, 10.0, -(-n_kernels // 60)).tolist()
    bank = KernelBank.per_feature(widths=widths, standardize=True)

    def by_solve() -> Any:
        given = {"alpha": "0.1*max", "tol": 1e-3}
        return solve(FourierStack.grid(X, widths), y, loss="logistic", penalty="l1", **given)

    return lambda: MKLClassifier(bank, loss="logistic", alpha="0.1*max", tol=1e-3).fit(X, y), by_solve


def prediction(n: int, rows: int) -> tuple[Call, Call | None]:
    """Predictions of twelve kernels, beside an SVC; of one row two hundred times."""
    X, y = labels(n, 4)
    bank = KernelBank.per_feature(widths=[0.3, 1.0, 3.0], standardize=True)
    model = MKLClassifier(bank, loss="hinge", penalty="ridge", alpha=1e-3, resources={"representation": "gram"}).fit(
        X, y
    )
    machine, new = SVC().fit(X, y), labels(rows, 4, seed=1)[0]
    times = range(200 if rows == 1 else 1)
    return lambda: [model.predict(new) for _ in times][:0], lambda: [machine.predict(new) for _ in times][:0]


ROWS: dict[str, tuple[Any, ...]] = {
    "hinge, 50 stored kernels, 200 rows": (stored, 200, 50),
    "path, 2,000 x 500 groups": (path, 2_000, 500, "squared"),
    "path, 20,000 x 100 groups": (path, 20_000, 100, "squared"),
    "path, 20,000 x 100 groups, logistic": (path, 20_000, 100, "logistic"),
    "200 kernels, 1,000 rows": (additive, 1_000, 20, 10),
    "200 kernels, 1,100 rows": (additive, 1_100, 20, 10),
    "24 kernels, 4,900 rows": (additive, 4_900, 8, 3),
    "24 kernels, 5,100 rows": (additive, 5_100, 8, 3),
    "1e5 kernels, 208 rows, hinge": (many, 208, 100_000, "hinge"),
    "10 classes x 44 kernels x 600 rows, own": (classes, 600, "own"),
    "10 classes x 44 kernels x 600 rows, shared": (classes, 600, "shared"),
    "default bank, 1e5 rows x 30 columns": (default, 100_000, 30),
    "default bank, 60 rows x 3 columns": (default, 60, 3),
    "default bank, 1e5 rows x 10, 5 classes, shared beside own": (default_classes, 100_000, 10, 5),
    "hinge, 40 kernels, 600 rows, 5 classes, shared beside own": (default_classes, 600, 10, 5, "hinge"),
    "hinge, 40 kernels, 2,000 rows, 5 classes, shared beside own": (default_classes, 2_000, 10, 5, "hinge"),
    "hinge, 40 kernels, 5,000 rows, 5 classes, shared beside own": (default_classes, 5_000, 10, 5, "hinge"),
    "hinge, 40 kernels, 10,000 rows, 5 classes, shared beside own": (default_classes, 10_000, 10, 5, "hinge"),
    "hinge, 40 kernels, 20,000 rows, 5 classes, shared beside own": (default_classes, 20_000, 10, 5, "hinge"),
    "hinge, 40 kernels, 1e5 rows, 5 classes, shared beside own": (default_classes, 100_000, 10, 5, "hinge"),
    "default bank, 3,000 rows, 1 : 99, beside 1 : 1": (unbalanced, 3_000, 8),
    "9,990 kernels, 1e5 rows, beside solve": (large, 100_000, 370, "0.05*max"),
    "9,990 kernels, 1e5 rows, untouched": (large, 100_000, 370, ""),
    "1e6 kernels, 208 rows, logistic, beside solve": (million, 208, 1_000_000),
    "predict 1 row, 200 times": (prediction, 1_000, 1),
    "predict 1e5 rows": (prediction, 1_000, 100_000),
}
SMALL: dict[str, tuple[Any, ...]] = {
    "hinge, 20 stored kernels, 60 rows": (stored, 60, 20),
    "path, 200 x 20 groups": (path, 200, 20, "squared"),
    "20 kernels, 150 rows": (additive, 150, 5, 4),
    "600 kernels, 60 rows, hinge": (many, 60, 600, "hinge"),
    "10 classes x 44 kernels x 100 rows, own": (classes, 100, "own"),
    "default bank, 80 rows x 2 columns": (default, 80, 2),
    "default bank, 80 rows x 4, 3 classes, shared beside own": (default_classes, 80, 4, 3),
    "hinge, 16 kernels, 80 rows, 3 classes, shared beside own": (default_classes, 80, 4, 3, "hinge"),
    "default bank, 300 rows, 1 : 99, beside 1 : 1": (unbalanced, 300, 3),
    "300 kernels, 2,000 rows, beside solve": (large, 2_000, 11, "0.05*max"),
    "600 kernels, 60 rows, logistic, beside solve": (million, 60, 600),
    "predict 10 rows": (prediction, 100, 10),
}


def gap_of(found: Any) -> float:
    """Return the largest relative gap of what a call returned; NaN if it has none."""
    if hasattr(found, "summary"):
        return float(found.summary()["relative_gap"].max())
    return float(np.max(getattr(found, "dual_gap_", getattr(found, "dual_gap", np.nan))))


def measured(row: tuple[Any, ...], own: bool) -> tuple[float, float, float] | None:
    """Run a call in this process; return CPU seconds, megabytes that were added, and the gap; None without a rival."""
    prepare, *arguments = row
    with common.quiet():
        call = prepare(*arguments)[0 if own else 1]
        if not callable(call):
            return None
        call()  # compiled loops are loaded before the clock starts
        before, start = resident("VmRSS"), time.process_time()
        found = call()
        return time.process_time() - start, (resident("VmHWM") - before) / 2**20, gap_of(found) if own else np.nan


def in_a_process(row: tuple[Any, ...], own: bool) -> tuple[float, float, float] | None:
    """Measure in a fresh process, whose peak of memory is that of this call."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(measured, row, own).result()


def row_of(name: str, row: tuple[Any, ...], repeats: int, *, apart: bool = True) -> dict[str, Any]:
    """Return a row of the table, measured in processes of its own or in this one."""
    run = in_a_process if apart else measured
    found = [[run(row, own) for _ in range(repeats)] for own in (True, False)]
    own, other = (np.median([np.full(3, np.nan) if one is None else one for one in runs], axis=0) for runs in found)
    return {
        "what": name,
        "ours s": own[0],
        "rival s": other[0],
        "ratio": own[0] / max(other[0], common.SHORTEST),
        "ours MB": own[1],
        "rival MB": other[1],
        "gap": own[2],
    }


def main() -> None:
    """Measure all rows, print and save the table."""
    parser = common.parser(__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--repeats", type=int, default=3, help="runs of each call, of which the median counts")
    parser.add_argument("--rows", nargs="*", default=[""], help="only rows that have one of these texts in their names")
    parser.add_argument("--floor", action="store_true", help="what of the small hinge fit is work on matrices")
    parser.add_argument("--resume", action="store_true", help="keep the rows that this revision has saved")
    options = parser.parse_args()
    chosen, repeats = (SMALL, 1) if options.smoke else (ROWS, options.repeats)
    record = common.environment()
    common.print_environment(record)
    if options.floor:
        frame = floor(60, 20) if options.smoke else floor(200, 50)
        common.save(frame, record, options.output, "everyday_floor")
        common.print_table(frame, "What a small hinge fit does with matrices", {"ms each": ".3f", "ms": ".2f"})
        return
    wanted = {name: row for name, row in chosen.items() if any(text in name for text in options.rows)}
    rows = common.measured_before(record, options.output, "everyday_fits") if options.resume else []
    frame, known = pd.DataFrame(rows), {row["what"] for row in rows}
    for name, row in wanted.items():  # saved as they come: the last ones take minutes
        if name in known:
            continue
        apart = not options.smoke or frame.empty  # to start Python takes longer than these
        frame = pd.concat([frame, pd.DataFrame([row_of(name, row, repeats, apart=apart)])], ignore_index=True)
        common.save(frame, record, options.output, "everyday_fits")
    formats = {name: ".1e" if name == "gap" else ".2f" for name in frame.columns[1:]}
    common.print_table(frame, "Fits, paths and predictions", formats)


if __name__ == "__main__":
    main()
