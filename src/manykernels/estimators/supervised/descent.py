"""Weaker strengths for targets with little noise, judged by leave-one-out losses.

The default strength is in units of the noise that permuted targets would let in. This suits noisy targets, and is too
strong for clean ones: what permutations destroy is mostly signal there. So the fit at the default strength is followed
by fits at `SHARES` of it, every started from the one before, and a weaker strength is kept if the leave-one-out loss in
closed form (`leave_out.py`) falls by more than `CLEARLY` standard errors of the paired differences. Only targets that
stand out from their permutations get weaker strengths: closed forms hold the selected kernels fixed, and are optimistic
where these are selected from noise. Hazards keep the default strength: weaker fits of them take minutes.
"""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from manykernels.estimators.strength import NoiseLevel, is_clear
from manykernels.estimators.supervised.importance import (
    FEWER_ROWS,
    UNKNOWN,
    create_factor_rows,
    losses_of_rows,
    norm_bends,
    some_rows,
    targets_of,
)
from manykernels.estimators.supervised.leave_out import scores_by_matrix
from manykernels.estimators.supervised.problems import Fit, SolverChoice, descend
from manykernels.objective.problem import Problem
from manykernels.solvers import Solution, Status
from manykernels.validation.arrays import Array

SHARES = (0.35, 0.12)  # of the default strength: 0.07 and 0.024 of the noise; benchmarks/clean.py
SHARES_OF_CLASSES = SHARES[:1]  # the closed form is optimistic where weak strengths separate classes
MOST_ROWS = 20_000  # of fits that are repeated: beyond, fits take long, and the default strength shrinks little
CLEARLY = 2.0  # standard errors by which the loss has to fall


def weaken(
    fit: Fit, levels: Sequence[NoiseLevel], at_share: Callable[[int, float], Problem], choice: SolverChoice, seed: int
) -> Fit:
    """Return the fit, with weaker strengths for problems with a clear decrease of leave-one-out losses.

    ``at_share`` returns a problem by the number at a share of the default strength; ``seed`` draws the rows left out
    where there are many.
    """
    problems, solutions = list(fit.problems), list(fit.solutions)
    losses: dict[int, tuple[Array, Array]] = {}
    repeated = problems[0].n_samples <= MOST_ROWS and not problems[0].loss.couples_samples
    known = list(zip(problems, solutions, strict=True)) if repeated else []
    for k, (problem, found) in enumerate(known):
        if _may_weaken(found, levels[k]) and (own := leave_one_out_losses(problem, found, seed)) is not None:
            losses[k] = own
    for share in SHARES if problems[0].loss.task == "regression" else SHARES_OF_CLASSES:
        if not losses:
            break
        posed, starts = [at_share(k, share) for k in losses], [solutions[k] for k in losses]
        try:
            (tried,) = descend(posed, [[each.regularizer for each in posed]], choice, start=starts)
        except KeyboardInterrupt:
            break
        before, losses = losses, {}
        for k, problem, found in zip(before, tried.problems, tried.solutions, strict=True):
            own = leave_one_out_losses(problem, found, seed) if _converged(found) else None
            if own is not None and _fall_clearly(before[k], own):
                problems[k], solutions[k], losses[k] = problem, found, own
    return Fit(problems, solutions, np.array([found.kernel_norms for found in solutions]))


def leave_one_out_losses(problem: Problem, found: Solution, seed: int) -> tuple[Array, Array] | None:
    """Return losses of rows, each by a model that has not seen the row, and their weights.

    None where rows cannot be left out.
    """
    stack: Any = problem.stack
    n, active = problem.n_samples, np.flatnonzero(found.kernel_weights)
    y, rho = problem.y.reshape(n, -1), found.dual_coef.reshape(n, -1)
    fit = Fit([problem], [found], np.array([found.kernel_norms]))
    weights = found.kernel_weights[active]
    model: Any = SimpleNamespace(
        _expansion=SimpleNamespace(active=active, weights=weights, n_targets=y.shape[1]),
        _norm_bends=norm_bends(fit, active),
        kernel_norms_=found.kernel_norms,
        fit_intercept=problem.fit_intercept,
        random_state=seed,
    )
    try:
        if stack.has_factors:
            left = create_factor_rows(model, stack, fit, y, problem.weight, FEWER_ROWS)  # the same at every strength
            return losses_of_rows(left.losses, left.y, left.leave_out_scores(), left.weight)
        kept = some_rows(n, FEWER_ROWS, seed)
        among = stack if len(kept) == n else stack.restrict(kept)
        values = weights[:, None, None] * stack.apply_each(rho, active)[:, kept]
        unit = np.full(y.shape[1], weights @ stack.diag()[active].mean(axis=1))
        y, weight, losses = y[kept], problem.weight[kept], (problem.loss,)
        targets = targets_of(model, values, found.intercept, rho[kept], losses, y, weight, unit, n / len(kept))
        scores = [scores_by_matrix(target, among.combine(found.kernel_weights)) for target in targets]
    except UNKNOWN:
        return None
    return losses_of_rows(losses, y, np.column_stack(scores), weight)


def _may_weaken(found: Solution, level: NoiseLevel) -> bool:
    """Return True if a target stands out from noise, and the fit is finished and has kernels."""
    return _converged(found) and bool(found.kernel_weights.any()) and not level.constant and is_clear([level])


def _converged(found: Solution) -> bool:
    return found.status is Status.CONVERGED


def _fall_clearly(before: tuple[Array, Array], after: tuple[Array, Array]) -> bool:
    """Return True if the weighted mean of losses falls by more than `CLEARLY` standard errors."""
    gains, weight = before[0] - after[0], before[1]
    mean = float(np.average(gains, weights=weight))
    error = float(np.sqrt(np.sum((weight * (gains - mean)) ** 2)) / weight.sum())
    return mean > CLEARLY * error
