"""Whether the gaps that everyday fits certify are those of their models, recomputed from formulas in NumPy.

``python benchmarks/everyday_gaps.py [--rows TEXT ...] [--full] [--smoke] [--output DIR]``

Every row of ``everyday.py`` and ``everyday_fits.py`` at a small size; with ``--full``, those of ``everyday_fits.py``
at their own sizes. Losses, penalties and conjugates are those of ``manykernels.testing``, which share no code with the
library. Dual norms, of every kernel of the problem, come from whole matrices, block by block; of linear kernels from
products with their columns; of Gaussians of single columns on many rows from weights spread over a fine grid.

Dual coefficients are the model's, or, where it keeps none, minus the gradient of the loss at its scores; norms of
functions of factors are told by the model, and ``least norm`` is the smallest that a function with these values can
have, in units of what is told: above 1 the model would tell too little. Fits on many rows of kernels of other kinds are
named and left out. Exits with 1 where a recomputed gap is above the ``tol`` that was asked for, or a primal value above
the one that is told.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import _common as common
import everyday
import everyday_fits
import group_path
import numpy as np
import pandas as pd
from scipy.signal import fftconvolve
from scipy.special import expit, softmax

from manykernels import MKLClassifier
from manykernels.grams import as_stack
from manykernels.grams.training import as_bank
from manykernels.objective.losses import get_loss
from manykernels.objective.regularizers import get_regularizer
from manykernels.solvers.registry import problem_of
from manykernels.testing.formulas import (
    loss_conjugate,
    loss_value,
    penalty_conjugate,
    penalty_dual_scale,
    penalty_value,
)
from manykernels.testing.problems import SmallProblem
from manykernels.testing.solver import projected

Floats = np.ndarray
DualNorms = Callable[[Floats], Floats]
BLOCK_ENTRIES = 2e7
MOST_ROWS = 6000  # of whole matrices
MOST_PARTS = 10**7  # of the values of all functions
CELLS = 100  # of the grid in the smallest width
REACH = 9  # widths beyond which a Gaussian is nothing
JITTER = 1e-10  # of the diagonal, where the least norm of values is looked for
ROUNDING = 1e-8  # of the objective


@dataclass(frozen=True)
class Fitted:
    """A model as formulas read it: of one target, or of classes that share weights."""

    y: Floats
    loss: str
    penalty: str
    strength: float
    scores: Floats
    norms: Floats
    rho: Floats | None  # None: minus the gradient of the loss
    dual_norms: DualNorms
    told: tuple[float, float]  # primal value and relative gap
    tol: float
    least_norm: float = np.nan


# --- dual norms ------------------------------------------------------------------------------------------------------


def blocks(model: Any, X: Any, kernels: Floats) -> Iterator[Floats]:
    """Return the matrices of some kernels of a model on these rows, so many at once as can be held.

    Kernels by relevance are not in the bank that was given: those of the model are in its own.
    """
    fitted, rows = as_bank(model.kernels, X).fit_prepare(X)
    names = np.array(model.kernel_names_)[kernels]
    if not set(names) <= set(fitted.names):
        fitted = model._expansion.bank
        rows = fitted.prepare(X)
    kernels = np.array([fitted.names.index(name) for name in names], dtype=np.intp)
    step = max(1, int(BLOCK_ENTRIES / rows.n_samples**2))
    for first in range(0, len(kernels), step):
        yield fitted.block(rows, rows, kernels=kernels[first : first + step])


def of_matrices(matrices: Callable[[], Iterator[Floats]], rho: Floats) -> Floats:
    """Return dual norms, of several targets together."""
    rho = rho.reshape(len(rho), -1)
    squares = [np.einsum("mit,it->m", block @ rho, rho) for block in matrices()]
    return np.sqrt(np.maximum(np.concatenate(squares), 0.0))


def of_columns(X: Floats, size: int, rho: Floats) -> Floats:
    """Return dual norms of linear kernels of so many columns each."""
    return np.linalg.norm((X.T @ rho).reshape(-1, size), axis=1)


def of_waves(X: Floats, widths: Sequence[float], rho: Floats) -> Floats:
    """Return dual norms of Gaussians of single columns: cubic interpolation to a grid, and sums over its points."""
    step, found = min(widths) / CELLS, []
    for x in np.asarray(X, dtype=np.float64).T:
        position = (x - x.min()) / step + 1
        cell = position.astype(np.int64)
        t = position - cell
        cubic = -t * (t - 1) * (t - 2) / 6, (t + 1) * (t - 1) * (t - 2) / 2
        cubic += -(t + 1) * t * (t - 2) / 2, (t + 1) * t * (t - 1) / 6
        size = int(cell.max()) + 3
        held = sum(np.bincount(cell + k - 1, weight * rho, minlength=size) for k, weight in enumerate(cubic))
        for width in widths:
            half = min(size, int(REACH * width / step))
            wave = np.exp(-((np.arange(-half, half + 1) * step) ** 2) / (2 * width**2))
            found.append(held @ fftconvolve(held, wave)[half : half + size])
    return np.sqrt(np.maximum(found, 0.0))


# --- the gap of a model ----------------------------------------------------------------------------------------------


def gradient(case: Fitted) -> Floats:
    """Return minus the derivative of the loss at the scores."""
    if case.loss == "squared":
        return case.y - case.scores
    if case.loss != "logistic":
        raise NotImplementedError(f"the {case.loss} loss has no gradient, and the model keeps no dual coefficients")
    if case.y.ndim == 1:
        return case.y * expit(-case.y * case.scores)
    return (case.y > 0) - softmax(case.scores, axis=1)


def recomputed(case: Fitted) -> tuple[float, float]:
    """Return the primal value and the relative gap of a model."""
    penalty = case.penalty, {}, case.strength
    primal = float(loss_value(case.loss, {}, case.y, case.scores).sum()) + penalty_value(*penalty, case.norms)
    small = SmallProblem(np.zeros((0, 0, 0)), case.y, case.loss, case.penalty, case.strength)
    rho = projected(small, gradient(case) if case.rho is None else case.rho)
    u = case.dual_norms(rho)
    scale = penalty_dual_scale(*penalty, u)
    dual = -float(loss_conjugate(case.loss, {}, case.y, scale * rho).sum()) - penalty_conjugate(*penalty, scale * u)
    return primal, (primal - dual) / max(abs(primal), np.finfo(float).tiny)


def least_norm(matrix: Floats, values: Floats) -> float:
    """Return the least norm that a function with these values at the rows can have."""
    jitter = JITTER * np.trace(matrix) / len(matrix)
    return float(np.sqrt(np.sum(values * np.linalg.solve(matrix + jitter * np.eye(len(matrix)), values))))


# --- what was fitted, as it is seen where benchmarks call the library -----------------------------------------------


def of_estimator(model: Any, X: Any, y: Floats) -> Iterator[Fitted]:
    """Return the problems of an estimator: one for each class that has weights of its own."""
    solutions = model.solution_ if isinstance(model.solution_, tuple) else (model.solution_,)
    targets = targets_of(model, y, len(solutions))
    bank, mixing = as_bank(model.kernels, X), np.ravel(getattr(model, "mixing_", [1.0]))
    factored = model.representation_ == "factored"
    parts = model.decompose(X) if factored and len(model.kernel_names_) * len(y) <= MOST_PARTS else None
    for k, (found, target) in enumerate(zip(solutions, targets, strict=True)):
        ratio = mixing[min(k, len(mixing) - 1)]
        penalty = model.penalty if not hasattr(model, "mixing_") else {1.0: "l1", 0.0: "ridge"}[ratio]
        used = np.flatnonzero(found.kernel_weights) if penalty == "ridge" else searched(model)
        matrices = partial(blocks, model, X, used)
        dual_norms: DualNorms = partial(of_matrices, matrices)
        if len(target) > MOST_ROWS:
            if not all(hasattr(spec, "width") for entry in bank.kernels for spec in entry.specs):
                raise NotImplementedError(f"kernels on {len(target)} rows that are no Gaussians of single columns")
            columns = (X - X.mean(axis=0)) / X.std(axis=0) if bank.standardize else X
            dual_norms = partial(of_waves, columns, [spec.width for spec in bank.kernels[0].specs])
        strength = float(np.ravel(model.alpha_)[min(k, np.size(model.alpha_) - 1)]) * len(target)
        told = found.certificate.primal, found.certificate.relative_gap
        rest = dual_norms, told, model.tol
        if not factored:
            rho, d = found.dual_coef, found.kernel_weights[used]
            images = np.concatenate([block @ rho for block in matrices()])
            scores = np.tensordot(d, images, 1) + found.intercept
            norms = d * of_matrices(matrices, rho)
            yield Fitted(target, model._loss.name, penalty, strength, scores, norms, rho, *rest)
            continue
        norms, least, rho = found.kernel_norms, np.nan, kept_dual(model, target, k)
        if parts is None:
            scores = model.decision_function(X)
        else:
            own = parts[:, :, k] if parts.ndim > 2 and target.ndim == 1 else parts
            scores = own.sum(axis=0) + (np.ravel(model.intercept_)[k] if target.ndim == 1 else model.intercept_)
        if parts is not None and len(target) <= MOST_ROWS and target.ndim == 1:
            active = np.flatnonzero(norms)
            grams = (matrix for block in blocks(model, X, active) for matrix in block)
            least = max((least_norm(K, own[m]) / norms[m] for m, K in zip(active, grams, strict=True)), default=np.nan)
        yield Fitted(target, model._loss.name, penalty, strength, scores, norms[used], rho, *rest, least)


def kept_dual(model: Any, target: Floats, number: int) -> Floats | None:
    """Return the dual coefficients that a model of factors keeps beside its solutions, of one class or all together."""
    if not hasattr(model, "dual_coef_"):
        return None
    rho, kept = np.zeros(target.shape), np.atleast_2d(model.dual_coef_)
    rho[model.support_] = kept.T if target.ndim > 1 else kept[number]
    return rho


def targets_of(model: Any, y: Floats, n_solutions: int) -> list[Floats]:
    """Return the targets of each problem: numbers, or labels of 1 and -1."""
    if not hasattr(model, "classes_"):
        return [np.asarray(y, dtype=np.float64)]
    classes = model.classes_[1:] if len(model.classes_) == 2 else model.classes_
    labels = [np.where(np.asarray(y) == label, 1.0, -1.0) for label in classes]
    return [np.column_stack(labels)] if n_solutions < len(labels) else labels


def searched(model: Any) -> Floats:
    """Return the kernels among which a selection was made: all, or those that a search tried by themselves."""
    names = np.array(model.kernel_names_)
    if not hasattr(model, "cv_frame"):
        return np.arange(len(names))
    tried = model.cv_frame().loc[model.best_index_]["kernels"]
    if tried == "all kernels":
        return np.arange(len(names))
    text = "all: " if "several columns" in tried else tried
    return np.flatnonzero([text in name for name in names])


def of_solve(found: Any, kernels: Any, y: Floats, options: dict[str, Any], grid: dict[str, Any]) -> Fitted:
    """Return the problem of a call of `solve` on matrices, or on the stack of a grid of widths."""
    loss, tol = options["loss"], options["tol"]
    unit = problem_of(as_stack(kernels), y, get_loss(loss), get_regularizer("l1", 1.0))
    strength = float(options["alpha"].removesuffix("*max")) * unit.strength_max()
    told = found.certificate.primal, found.certificate.relative_gap
    if isinstance(kernels, np.ndarray):
        rho, d = found.dual_coef, found.kernel_weights
        dual_norms: DualNorms = partial(of_matrices, lambda: iter([kernels]))
        scores = np.tensordot(d, kernels @ rho, 1) + found.intercept
        return Fitted(y, loss, "l1", strength, scores, d * dual_norms(rho), rho, dual_norms, told, tol)
    X, columns = grid["X"], np.asarray(grid["X"], dtype=np.float64)
    columns = (columns - columns.mean(axis=0)) / columns.std(axis=0)
    dual_norms = partial(of_waves, columns, grid["widths"])
    rho = found.dual_coef if found.dual_coef.size else None
    return Fitted(y, loss, "l1", strength, found.decision_function(X), found.kernel_norms, rho, dual_norms, told, tol)


def of_path(path: Any, X: Floats, y: Floats, loss: str) -> Iterator[Fitted]:
    """Return the problems of a path over groups of columns."""
    dual_norms = partial(of_columns, X, group_path.SIZE)
    for alpha, found in zip(path.alphas, path.solutions, strict=True):
        told = found.certificate.primal, found.certificate.relative_gap
        scores = found.functions.scores(X)[:, 0] + found.intercept
        norms = found.kernel_norms
        yield Fitted(y, loss, "l1", alpha * len(y), scores, norms, None, dual_norms, told, group_path.TOL)


def watched(call: Callable[[], Any]) -> list[Fitted]:
    """Run a call of a benchmark, and return the problems of the fits that it makes."""
    seen: list[Fitted] = []
    grid: dict[str, Any] = {}
    fit, solve, path = MKLClassifier.fit, everyday_fits.solve, group_path.regularization_path
    stack = everyday_fits.FourierStack.grid

    def fitted(model: Any, X: Any, y: Any, *rest: Any) -> Any:
        found = fit(model, X, y, *rest)
        seen.extend(of_estimator(model, X, y))
        return found

    def solved(kernels: Any, y: Any, **options: Any) -> Any:
        found = solve(kernels, y, **options)
        seen.append(of_solve(found, kernels, y, options, grid))
        return found

    def walked(X: Any, y: Any, **options: Any) -> Any:
        found = path(X, y, **options)
        seen.extend(of_path(found, X, y, options["loss"]))
        return found

    def drawn(X: Any, widths: Any, **options: Any) -> Any:
        grid.update(X=X, widths=widths)
        return stack(X, widths, **options)

    with (
        mock.patch.object(MKLClassifier, "fit", fitted),
        mock.patch.object(everyday_fits, "solve", solved),
        mock.patch.object(group_path, "regularization_path", walked),
        mock.patch.object(everyday_fits.FourierStack, "grid", drawn),
    ):
        call()
    return seen


def rows_of(name: str, cases: list[Fitted]) -> dict[str, Any]:
    """Return a row of the table: the worst of all problems of a call."""
    found = [recomputed(case) for case in cases]
    return {
        "what": name,
        "problems": len(cases),
        "told gap": max(case.told[1] for case in cases),
        "gap": max(gap for _, gap in found),
        "tol": max(case.tol for case in cases),
        "primal above told": max(
            (primal - case.told[0]) / abs(primal) for case, (primal, _) in zip(cases, found, strict=True)
        ),
        "least norm": max(case.least_norm for case in cases),
    }


def searches(options: Any) -> Iterator[tuple[str, list[Fitted]]]:
    """Return the rows of `everyday.py` at small sizes."""
    tried = [everyday.table(name, options.data, 60, kind, options.seed) for name, (_, kind) in everyday.BUNDLED.items()]
    for case in [*tried, everyday.kernels(40, options.seed)]:
        with common.quiet():
            model = everyday.ours(case).fit(case.X, case.y)
        yield case.name, list(of_estimator(model, case.X, case.y))


def main() -> int:
    """Fit, recompute, print and save; return 1 if a gap is not what was asked for."""
    parser = common.parser(__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=common.Path("data"), help="folder of data sets")
    parser.add_argument("--rows", nargs="*", default=[""], help="only rows that have one of these texts in their names")
    parser.add_argument("--full", action="store_true", help="fits at their own sizes, not at small ones")
    options = parser.parse_args()
    record = common.environment()
    common.print_environment(record)
    warnings.simplefilter("ignore")
    table: list[dict[str, Any]] = []
    chosen = everyday_fits.ROWS if options.full else everyday_fits.SMALL
    for name, (prepare, *arguments) in chosen.items():
        if any(text in name for text in options.rows):
            for slot in (0, 1) if "beside solve" in name else (0,):
                try:
                    cases = watched(lambda prepare=prepare, given=arguments, slot=slot: prepare(*given)[slot]())
                    table.append(rows_of(name + ": solve" * slot, cases))
                except NotImplementedError as why:
                    print(f"left out: {name} ({why})")
            common.save(pd.DataFrame(table), record, options.output, "everyday_gaps")
    if not options.full and options.rows == [""]:
        table += [rows_of(name, cases) for name, cases in searches(options)]
    frame = pd.DataFrame(table)
    common.save(frame, record, options.output, "everyday_gaps")
    formats = dict.fromkeys(["told gap", "gap", "tol", "primal above told"], ".1e") | {"least norm": ".4f"}
    common.print_table(frame, "Gaps as told, and recomputed", formats)
    return int(((frame["gap"] > frame["tol"]) | (frame["primal above told"] > ROUNDING)).any())


if __name__ == "__main__":
    raise SystemExit(main())
