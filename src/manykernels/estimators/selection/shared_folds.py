"""Folds whose kernels are those of all rows: they share sums over rows and passes, where loss and penalty allow it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from manykernels.estimators.selection.folds import Folds, HeldOut, OpenedKernels
from manykernels.estimators.supervised.base import BaseMKL
from manykernels.estimators.supervised.problems import Fit
from manykernels.estimators.supervised.samples import Samples
from manykernels.grams.factored import FactoredStack
from manykernels.grams.plan import FACTORED, memory_bytes
from manykernels.grams.training import Training, as_bank, keeps_shapes
from manykernels.kernels import KernelBank
from manykernels.kernels.bank.columns import Table
from manykernels.solvers import Solver, get_solver
from manykernels.solvers.factored.pooled import MOST_RANK, Moments, PooledNewton
from manykernels.solvers.fold import Fold

if TYPE_CHECKING:
    from manykernels.estimators.selection.folds import Split
    from manykernels.objective.losses import Loss
    from manykernels.objective.problem import Problem
    from manykernels.objective.regularizers import Regularizer
    from manykernels.validation.arrays import Array

AUTO, OWN, SHARED = "auto", "own", "shared"
FOLD_KERNELS = (AUTO, OWN, SHARED)


def pooled_folds(
    whole: OpenedKernels, splits: Sequence[Split], held_out: Sequence[HeldOut], tol: float, *, scaled: bool
) -> tuple[Folds, PooledNewton]:
    """Return folds on the kernels of all rows, and what solves all of them at once.

    ``scaled`` if strengths are fractions of what folds can gain.
    """
    model, samples, training, problems = whole.model, whole.samples, whole.training, whole.problems
    held = _held(splits, samples.n_given)[samples.kept]
    targets = np.column_stack([problem.y for problem in problems])
    pooled = PooledNewton(
        cast("FactoredStack", training.stack),
        Moments(targets, problems[0].weight, held, len(splits)),
        tol,
        fit_intercept=problems[0].fit_intercept,
        max_rounds=model._resources.limits()["max_iter"],
        most_rank=_most_rank(model._resources.memory_budget, len(splits)),
    )
    folds: Folds = []
    for number, ((train, _), rows, out) in enumerate(zip(splits, pooled.training, held_out, strict=True)):
        seen = replace(samples, n_given=len(train), weight=samples.weight * rows)
        opened, own = OpenedKernels(model, seen, training, problems, tol), problems[0].weight * rows
        opened.intercepts = np.array([np.average(p.y, weights=own) if p.fit_intercept else 0.0 for p in problems])
        if scaled:  # before any model
            pairs = [(problem, *pooled.slopes(number, target)) for target, problem in enumerate(problems)]
            opened.empty = [(p.dual_norms(rho), p.empirical_loss(np.where(rows, z, p.y))) for p, rho, z in pairs]
        folds.append(Fold(lambda opened=opened: opened, out))  # type: ignore[misc]  # one a fold
    return folds, pooled


def pooled_fits(
    pooled: PooledNewton, penalties: Sequence[Sequence[Regularizer]], problems: Sequence[Problem]
) -> list[Fit]:
    """Return the solutions of every fold under its penalties, one a target."""
    posed = [
        [replace(problem, regularizer=penalty) for problem, penalty in zip(problems, own, strict=True)]
        for own in penalties
    ]
    solved = zip(posed, pooled.at(posed), strict=True)
    return [Fit(own, list(found), np.array([one.kernel_norms for one in found])) for own, found in solved]


def refusal_of_sharing(
    wish: str,
    model: BaseMKL,
    samples: Samples,
    form: str,
    loss: Loss,
    penalties: Sequence[Regularizer],
    splits: Sequence[Split],
    opened: Callable[[], Training],
) -> str | None:
    """Return why folds cannot share their sums, or with "auto" should not, and what to do; None where they do.

    What takes time to know is asked last: ``opened`` returns the kernels on all rows.
    """
    if wish == OWN:
        return "fold_kernels='own' asks for kernels of each fold"
    if form != FACTORED:
        advice = "resources={'representation': 'factored'}"
        return f"kernels are held as Gram matrices, of which folds take parts; pass {advice}"
    if keeps_shapes(model.kernels):
        return "columns have shapes, whose knots are those of the rows of each fold"
    if getattr(model, "outputs", OWN) == SHARED:
        return "targets share their weights, and sums are those of one target at a time; take outputs='own'"
    if not (loss.linear_dual and loss.curvature == 1):
        return f"the sums that folds share are those of the squared loss, and the loss is {loss.name!r}"
    if not all(penalty.sparse for penalty in penalties):
        return "the penalty gives every kernel a weight, and the factors of all of them are too many; take 'l1'"
    if isinstance(model.solver, Solver) or (model.solver != AUTO and not _is_factored(model.solver)):
        return "a solver of its own was asked for; take solver='auto'"
    if not _partition(splits, samples):
        return "folds must train on all rows that they do not hold out, and no two may hold out the same; take KFold"
    if wish == SHARED:
        return None
    return _learned(as_bank(model.kernels, samples.rows), samples.rows, opened())


def _is_factored(name: Any) -> bool:
    """Whether a solver given by name is the one on factors."""
    return bool(get_solver(name).name == FACTORED)


def _learned(bank: Any, rows: Any, training: Training) -> str | None:
    """Return what kernels learn of rows, so that those of a fold would be others; None for nothing."""
    if not isinstance(bank, KernelBank) or not training.bank.on_columns or not isinstance(rows, Table):
        return "kernels are no bank of columns"
    fitted = training.bank.table
    if bank.standardize or bank.center:
        return "columns are standardized, or kernels centered, by the rows of each fold"
    if bank.missing != "error" or rows.views is not None or fitted.encodings:
        return "categories and gaps are those of the rows of each fold"
    scaled = bank.normalize not in (None, "unit_diagonal")
    if bank.normalize == "trace" or (scaled and not all(spec.unit_diagonal for spec in fitted.specs)):
        return "kernels are scaled by the rows of each fold"
    if tuple(spec for _, spec, _ in bank.expand(rows)) != fitted.specs:
        return "widths are those of the rows of each fold"
    stack = cast("FactoredStack", training.stack)
    return None if stack.few_columns else "kernels take many landmarks"


def _partition(splits: Sequence[Split], samples: Samples) -> bool:
    """Whether no row is held out twice, and each fold trains on all rows that count which it does not hold out."""
    times = np.zeros(samples.n_given, dtype=np.int64)
    for train, test in splits:
        known = np.zeros(samples.n_given, dtype=np.int64)
        np.add.at(known, train, 1)
        np.add.at(known, test, 1)
        np.add.at(times, test, 1)
        if (known > 1).any() or not known[samples.kept].all():
            return False
    return len(splits) > 1 and bool((times <= 1).all())


def _held(splits: Sequence[Split], n: int) -> Array:
    """Return which fold holds out each row, -1 for none."""
    held = np.full(n, -1)
    for fold, (_, test) in enumerate(splits):
        held[test] = fold
    return held


def _most_rank(memory_budget: int | str | None, n_folds: int) -> int:
    """Return how many columns factors may have together: sums and quadratics of every fold are held."""
    return int(min(MOST_RANK, np.sqrt(memory_bytes(memory_budget) / (8.0 * (2 * n_folds + 3)))))
