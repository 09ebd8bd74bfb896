"""Breast cancer, 837 kernels of the SimpleMKL protocol, hinge loss: this library against a ten-line loop around SVC.

``python benchmarks/breast_cancer.py [--check] [--smoke] [--output DIR]``

Three problems and programs, all on one thread, the clock running only while they solve:

- block 1-norm, ``sum hinge + C sum ||f_m||`` with C = 0.5, to gap 1e-3;
- weights on the simplex, ``C sum hinge + (1/2) (sum ||f_m||)^2`` with C = 100, to gap 1e-3;
- the same simplex problem by the loop that people write: combine the kernels, fit scikit-learn's SVC, set the weights
  from the block norms, until a duality gap of 1e-2.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict, dataclass
from functools import partial

import _common as common
import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

sys.path.insert(0, str(common.HERE.parent))  # the problems of the papers are those of the experiments

from manykernels.datasets import load_bundled
from manykernels.grams.base import GramStack
from manykernels.grams.dense import DenseStack
from manykernels.grams.packed import PackedStack
from manykernels.grams.training import build_stack
from manykernels.kernels import KernelBank
from manykernels.papers import problems as paper_problems
from manykernels.solvers import Solution, configured_solver
from manykernels.testing.problems import SmallProblem
from manykernels.testing.solver import certificate_in_numpy

BLOCK_CONSTANT, SVM_CONSTANT = 0.5, 100.0
GAP, LOOP_GAP = 1e-3, 1e-2
BLOCK_BAR_S = 1.5
SPEEDUP_BAR = 3.0
MOST_FITS = 300
LOOP = "SVC loop"
STORAGES = ("dense64", "packed64", "packed32")

FORMATS = {
    "tol": ".0e",
    "cpu_s": ".3f",
    "dense_passes": ".1f",
    "passes": ".2f",
    "objective": ".4f",
    "gap": ".1e",
    "numpy_gap": ".1e",
}


@dataclass(frozen=True)
class Row:
    """One program on one problem."""

    problem: str
    program: str
    storage: str
    tol: float
    cpu_s: float
    passes: float
    inner_solves: int
    active: int
    n_zeros: int
    objective: float
    gap: float
    numpy_gap: float
    status: str


@dataclass(frozen=True)
class LoopResult:
    """What the ten-line loop ends with."""

    rho: np.ndarray
    theta: np.ndarray
    intercept: float
    objective: float
    gap: float
    n_fits: int


def ten_line_loop(kernels: np.ndarray, y: np.ndarray, constant: float, tol: float, most_fits: int) -> LoopResult:
    """Alternate between an SVM on the combined kernel and ``theta_m = ||f_m|| / sum ||f||`` until the gap is closed.

    Every value is that of the current model: the primal with its own scores and intercept, the dual of its own dual
    coefficients, so the gap is honest.
    """
    theta, n_fits = np.full(len(kernels), 1.0 / len(kernels)), 0
    while True:
        combined = np.tensordot(theta, kernels, 1)
        svm = SVC(C=constant, kernel="precomputed").fit(combined, y)
        rho, n_fits = np.zeros(len(y)), n_fits + 1
        rho[svm.support_] = svm.dual_coef_[0]
        squares = np.maximum((kernels @ rho) @ rho, 0.0)
        norms = theta * np.sqrt(squares)
        losses = np.maximum(1.0 - y * (combined @ rho + svm.intercept_[0]), 0.0)
        primal = constant * losses.sum() + norms.sum() ** 2 / 2.0
        gap = (primal - (np.abs(rho).sum() - squares.max() / 2.0)) / primal
        if gap <= tol or n_fits == most_fits:
            return LoopResult(rho, theta, float(svm.intercept_[0]), float(primal), float(gap), n_fits)
        theta = norms / norms.sum()


def load(smoke: bool, seed: int) -> tuple[dict[str, GramStack], np.ndarray, np.ndarray]:
    """Return the stacks, the dense kernels and the labels -1 and +1 of the training rows, 80 % of the table."""
    X, labels = load_bundled("breast_cancer")
    if smoke:
        X, labels = X.iloc[:100, :3], labels.iloc[:100]
    X_train, _, y_train, _ = train_test_split(X, labels, train_size=0.8, stratify=labels, random_state=seed)
    bank, prepared = KernelBank.simplemkl(normalize="trace").fit_prepare(X_train)
    dense = build_stack(bank, prepared, kind="dense", dtype=np.float64)
    kernels = dense.block(None, None, None)
    stacks = {"dense64": DenseStack(kernels), "packed64": PackedStack.from_dense(kernels)}
    stacks["packed32"] = PackedStack.from_dense(kernels, dtype=np.float32)
    return stacks, kernels, np.where(y_train == "malignant", 1.0, -1.0)


def run_library(
    name: str, posed: paper_problems.PaperProblem, storage: str, stack: GramStack, y: np.ndarray, plain: SmallProblem
) -> Row:
    """Solve with the solver that "auto" chooses; the best of three runs after a first one."""
    problem = posed.problem(stack, y)
    solver = configured_solver("auto", problem, tol=GAP)
    with common.quiet():
        common.cpu_time(partial(solver.solve, problem), 1)
        timing = common.cpu_time(partial(solver.solve, problem), 3)
    solution: Solution = timing.result
    outside = certificate_in_numpy(plain, solution.dual_coef, solution.kernel_weights, solution.intercept)
    return Row(
        problem=name,
        program=solution.solver,
        storage=storage,
        tol=GAP,
        cpu_s=timing.best,
        passes=solution.passes,
        inner_solves=solution.newton_steps,
        active=len(solution.active),
        n_zeros=int((solution.kernel_weights == 0.0).sum()),
        objective=solution.certificate.primal * posed.factor,
        gap=solution.certificate.relative_gap,
        numpy_gap=outside.relative_gap,
        status=str(solution.status),
    )


def run_loop(kernels: np.ndarray, y: np.ndarray, plain: SmallProblem) -> Row:
    """Run the ten-line loop once: it takes long enough for a single measurement."""
    timing = common.cpu_time(lambda: ten_line_loop(kernels, y, SVM_CONSTANT, LOOP_GAP, MOST_FITS), 1)
    found: LoopResult = timing.result
    outside = certificate_in_numpy(plain, found.rho / SVM_CONSTANT, found.theta * SVM_CONSTANT, found.intercept)
    return Row(
        problem="simplex",
        program=LOOP,
        storage="dense64",
        tol=LOOP_GAP,
        cpu_s=timing.best,
        passes=2.0 * found.n_fits,
        inner_solves=found.n_fits,
        active=int((found.theta > 0).sum()),
        n_zeros=int((found.theta == 0).sum()),
        objective=found.objective,
        gap=found.gap,
        numpy_gap=outside.relative_gap,
        status="converged" if found.gap <= LOOP_GAP else "max_iter",
    )


def run_all(options: argparse.Namespace) -> pd.DataFrame:
    """Return one row a program and problem."""
    stacks, kernels, y = load(options.smoke, options.seed)
    unit = common.dense_pass_seconds(kernels, y / len(y))
    common.CONSOLE.print(f"{len(kernels)} kernels, {len(y)} samples; one dense pass {1e3 * unit:.1f} ms")
    block = SmallProblem(kernels, y, "hinge", "l1", BLOCK_CONSTANT)
    simplex = SmallProblem(kernels, y, "hinge", "simplex", 1.0 / SVM_CONSTANT)
    rows = []
    for storage in STORAGES:
        posed = paper_problems.spicymkl(BLOCK_CONSTANT, loss="hinge")
        rows.append(run_library("block 1-norm", posed, storage, stacks[storage], y, block))
    for storage in STORAGES:
        posed = paper_problems.simplemkl(SVM_CONSTANT)
        rows.append(run_library("simplex", posed, storage, stacks[storage], y, simplex))
    rows.append(run_loop(kernels, y, simplex))
    frame = pd.DataFrame([asdict(row) for row in rows])
    frame.insert(frame.columns.get_loc("passes"), "dense_passes", frame["cpu_s"] / unit)
    return frame.assign(pass_s=unit)


def check(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the bars beside the figures: the slowest storage counts."""
    own = frame["program"] != LOOP
    block = frame[own & (frame["problem"] == "block 1-norm")]
    simplex = frame[own & (frame["problem"] == "simplex")]
    loop = float(frame.loc[~own, "cpu_s"].iloc[0])
    unconverged = int((frame["status"] != "converged").sum())
    n_kernels = int((frame["active"] + frame["n_zeros"]).max())
    return common.verdicts(
        [
            (f"block 1-norm to {GAP:g}: CPU seconds, slowest storage", float(block["cpu_s"].max()), BLOCK_BAR_S),
            (f"simplex to {GAP:g}: CPU seconds, slowest storage", float(simplex["cpu_s"].max()), loop / SPEEDUP_BAR),
            (
                f"simplex: weights that are not exactly zero, of {n_kernels}",
                float(simplex["active"].max()),
                n_kernels - 1.0,
            ),
            ("programs that did not converge", float(unconverged), 0.0),
        ]
    )


def main() -> int:
    """Measure, print, save; return the exit code."""
    parser = common.parser("Breast cancer with the kernels of the SimpleMKL protocol.")
    parser.add_argument("--check", action="store_true", help="compare with the bars; exit with 1 if one is missed")
    options = parser.parse_args()
    record = common.environment()
    common.print_environment(record)
    frame = run_all(options)
    common.print_table(frame.drop(columns="pass_s"), "inner solves: Newton steps or SVM fits", FORMATS)
    loop = frame.iloc[-1]
    for row in frame[frame["problem"] == loop["problem"]].iloc[:-1].itertuples():
        common.CONSOLE.print(f"simplex, {row.storage}: {loop['cpu_s'] / row.cpu_s:.1f} times faster than the loop")
    common.save(frame, record, options.output, "breast_cancer")
    if not options.check:
        return 0
    bars = check(frame)
    common.print_table(bars, "bars", {"measured": ".3f", "at most": ".3f"})
    return int((bars["verdict"] != "pass").any())


if __name__ == "__main__":
    raise SystemExit(main())
