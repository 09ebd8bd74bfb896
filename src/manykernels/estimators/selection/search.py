"""The search: a race of candidates, from what is cheap to try (few rows, few folds, few strengths) to all folds.

The choice is refitted on all rows at the end (`solve_mixtures`), to the tolerance, with the certificate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from manykernels.estimators.selection.averages import (
    MOST_DOUBLE,
    AverageKernel,
    AverageModels,
    can_average,
    center_kernel,
    fit_averages,
)
from manykernels.estimators.selection.folds import n_first_folds
from manykernels.estimators.selection.mixtures import HALF_ERROR, ONE_ERROR, Mixture
from manykernels.estimators.selection.strengths import (
    Grid,
    StopReason,
    StrengthPath,
    TryAt,
    Viability,
    always,
    best_scores,
    leads,
    rivals_of,
    worth_all_rows,
)
from manykernels.estimators.strength import AUTO, default_fraction
from manykernels.estimators.supervised.problems import Fit, convert_to_double, end_of, solve_problems, time_left
from manykernels.grams.plan import MOST_ROOM
from manykernels.objective.problem import Problem
from manykernels.objective.regularizers import Regularizer
from manykernels.solvers import Solution, Solver, Status
from manykernels.solvers.fold import Candidate
from manykernels.solvers.gram.many_targets import dual_norms_of, many_targets
from manykernels.solvers.run import Run
from manykernels.solvers.solution import Limits
from manykernels.threads import blas_threads
from manykernels.validation.arrays import Array

if TYPE_CHECKING:
    from manykernels.estimators.selection.folds import Folds, HeldOut, OpenedKernels
    from manykernels.solvers.fold import Family, Fold


MOST_AVERAGES = 2  # of many rows that are tried with all of them
TOGETHER = 2_048  # targets of a batch that are fitted on all rows together
BEYOND = 1.0 + 1e-6  # fraction of the strength at which a model is empty
AVERAGING_RATIO, AVERAGING_STEPS = 1e-6, 25  # smallest fraction of the first grid of an average, and its length


@dataclass(eq=False)
class Rung:
    """Folds in which candidates are tried, in threads; ``below`` are folds of fewer rows for the first trial.

    A race goes up from rung to rung; hopeless candidates are dropped.
    """

    folds: Folds
    workers: int  # folds that are tried at once
    advance: Callable[[str], None]  # told in a line about each strength
    ending: StopReason = field(default_factory=StopReason)  # told why nothing more is tried
    in_turn: bool = False  # whether folds are opened one at a time
    below: Rung | None = None
    finest: int = 1  # steps of the grid to which the best strength is found
    constants: Array | None = None  # (n_folds, T): what the best constants score, once it is known
    room: int = MOST_ROOM  # bytes that matrices of folds may take together; those beyond are opened one at a time
    late: bool = False  # whether what selects is tried with all rows alone
    many: bool = False  # whether averages are of exact kernels of many rows

    # --- the race ----------------------------------------------------------------------------------------------------

    def race(self, paths: Sequence[StrengthPath]) -> list[StrengthPath]:
        """Return the paths of viable mixtures, the averages first, or the known paths at the time limit.

        On every rung a mixture that selects is followed only where a few strengths in some folds show that it can still
        win, and mixtures between the sparsest and the averages only where the sparsest leads.
        """
        known: list[StrengthPath] = []
        if self.below is not None:
            known = self.below.race([path for path in paths if self._tells_with_fewer(path)])
            for fold in self.below.folds:
                fold.close()
            able = self._best_averages(worth_all_rows(known))
            # More rows move the best strengths by a step or two of the grid.
            told = [StrengthPath(own.mixture, own.grid, self._around(own), self.finest) for own in able]
            paths = told + [path for path in paths if not self._tells_with_fewer(path)]
        found: list[StrengthPath] = []
        for path in paths:
            if self.ending.status is not None:  # and what was begun last may have no score
                break
            first = next((k for k, own in enumerate(found) if not own.mixture.averages), 0)
            if first and not path.mixture.averages and not leads(found[first], found[:first]):
                break
            sparsest, rivals = found[first : first + 1] if first else [], rivals_of(path, found)
            if not path.around and not self.folds[0].kernels.averages(path.mixture):
                path.around = expected_around(path.grid, sparsest or rivals)
            if self._can_win(path, rivals):
                found.append(self.follow(path, _viable_beside(sparsest or rivals, 0.0 if sparsest else ONE_ERROR)))
            elif not path.mixture.averages:
                break
        found = [path for path in found if path.trials]
        if known and not found and self.below is not None:
            self.folds = self.below.folds
        return found or known

    def _tells_with_fewer(self, path: StrengthPath) -> bool:
        """Whether results on fewer rows suffice to rank a mixture, except for ``late``.

        Averages on features use kernels of several columns; selections may include single columns, with other gains
        from more rows. On 4,000 rows of spambase a fourth of the rows preferred averages, with 33 of 601 held-out
        errors against 27 for selection.
        """
        return path.mixture.averages or not self.late

    def _best_averages(self, able: list[StrengthPath]) -> list[StrengthPath]:
        """Return all selecting mixtures, and for many rows only the best averages, to save memory."""
        averages = sorted((own for own in able if own.mixture.averages), key=lambda own: -best_scores([own]).mean())
        kept = averages[:MOST_AVERAGES] if self.many else averages
        return [own for own in able if not own.mixture.averages or own in kept]

    def _around(self, known: StrengthPath) -> list[int]:
        """Return the expected best strengths of all rows from fewer rows: weaker for more rows."""
        best = set(known.best().tolist())
        return sorted(best | {number + 1 for number in best} if self.many else best)

    def _can_win(self, path: StrengthPath, rivals: Sequence[StrengthPath]) -> bool:
        """Return True if a mixture may be ahead of others, after a look at it in the first folds.

        A mixture that selects is out if it is behind the best of the others for every score, both at the tops of
        parabolas through their strengths, by more than half a standard error of the difference over the first folds.
        Where there are fewer rows first, it is out if it is behind at all: all rows would tell no more of two that are
        equal but for luck, and to be chosen it would have to be ahead: by as much, where it is `late`.
        Averages take one fit for all strengths.
        """
        if not rivals or self.folds[0].kernels.averages(path.mixture):
            return True
        best, n_first = best_scores(rivals), n_first_folds(len(self.folds))
        errors = HALF_ERROR if self.finest == 1 else 0.0
        look = StrengthPath(path.mixture, path.grid, path.around, path.stride)
        with self.ending.record():
            if self.late:
                wins = self._wins_late(look, best[:n_first])
            else:
                viable = _viable_beside(rivals, errors, slice(n_first))
                look.follow(self._try_at(path.mixture, path.grid, slice(n_first)), finest=path.stride, viable=viable)
                wins = look.can_win(best[:n_first], errors)
            if self.ending.status is None and wins:
                path.around = sorted(set(look.best().tolist()))
                return True
        self.forget()
        return False

    def _wins_late(self, look: StrengthPath, best: Array) -> bool:
        """Return True if a mixture tried with all rows alone is ahead of the best scores of others, (n_folds, T).

        Its best strength is that of the first fold: the rest are tried there alone, and one after the other, as long as
        the mean is not behind. Fits that select take longest of all, the more so the weaker they are.
        """
        look.climb(self._try_at(look.mixture, look.grid, slice(1)))
        others = best - look.rise()
        for n in range(min(2, len(best)), len(best) + 1):
            at_best = StrengthPath(look.mixture, look.grid)
            at_best.try_all(sorted(set(look.best().tolist())), self._try_at(look.mixture, look.grid, slice(n)))
            if not at_best.can_win(others[:n], 0.0 if n < len(best) else -look.mixture.doubt):
                return False
        return True

    def follow(self, path: StrengthPath, viable: Viability = always) -> StrengthPath:
        """Walk down a mixture within the time limit while viable, then release the folds."""
        mixture, grid = path.mixture, path.grid

        def try_at(numbers: Sequence[int]) -> Iterator[tuple[int, list[Candidate]]]:
            found = self._try_at(mixture, grid)(numbers)
            for (number, trials), fraction in zip(found, grid.fractions(numbers), strict=False):
                score = float(np.mean([trial.scores.mean() for trial in trials]))
                self.advance(f"{mixture.label}  {mixture.penalty}  fraction {fraction:.2g}  {score:.4g}")
                yield number, trials

        with self.ending.record():
            path.follow(try_at, finest=self.finest, viable=viable)
        likely = grid.fractions(path.likely())
        for fold in self.folds:  # what is chosen will be asked once more
            fold.forget(mixture, likely)
        return path

    def forget(self) -> None:
        """Release the memory of a mixture in the folds."""
        for fold in self.folds:
            fold.forget()

    def _try_at(self, mixture: Mixture, grid: Grid, among: slice = slice(None)) -> TryAt:
        """Return a function that tries strengths of a mixture by number in some folds."""

        def try_at(numbers: Sequence[int]) -> Iterator[tuple[int, list[Candidate]]]:
            return zip(numbers, self.try_strengths(mixture, grid.fractions(numbers), among), strict=False)

        return try_at

    def nothing(self, mixture: Mixture) -> Candidate:
        """Return the empty model as a candidate: the best constants of the folds."""
        self.constants = np.array([fold.kernels.constant(fold.held_out) for fold in self.folds])
        return Candidate(mixture, BEYOND, self.constants, 0.0, 0)

    # --- what the folds say ------------------------------------------------------------------------------------------

    def try_strengths(
        self, family: Family, strengths: Sequence[float], among: slice = slice(None)
    ) -> Iterator[list[Candidate]]:
        """Yield what the folds say of every strength.

        Folds with matrices in memory side by side are tried strength by strength, so an early end of the search loses a
        single strength at most; else every fold is opened, tried at all strengths, and closed.
        """
        folds = self.folds[among]
        if not self.in_turn and all(self._stay_open(fold, family) for fold in folds):
            for strength in strengths:
                yield [trial for (trial,) in self._each(folds, family, [strength])]
        else:
            yield from map(list, zip(*self._each(folds, family, strengths), strict=True))

    def _stay_open(self, fold: Fold[OpenedKernels, HeldOut], family: Family) -> bool:
        """Return whether the matrices of a fold fit beside the matrices of earlier folds."""
        sizes, room = [each.kernels.retained_bytes(family, each.held_out) for each in self.folds], self.room
        return sum(sizes) <= room or sum(sizes[: self.folds.index(fold) + 1]) + max(sizes) <= room

    def _each(self, folds: Folds, family: Family, strengths: Sequence[float]) -> list[list[Candidate]]:
        """Return the results of every fold for the strengths, in threads if several."""

        def function(fold: Fold[OpenedKernels, HeldOut]) -> list[Candidate]:
            try:
                return [fold.try_strength(family, strength) for strength in strengths]
            finally:
                if self.in_turn:
                    fold.forget()  # models know the factors that they are of
                    fold.close()
                elif not self._stay_open(fold, family):
                    fold.lighten(family)
                    fold.kernels.let_go()

        if self.workers == 1 or self.in_turn:
            return [function(fold) for fold in folds]
        with ThreadPoolExecutor(self.workers) as pool:
            # Threads know the end of the time from the context that they are given.
            futures = [pool.submit(copy_context().run, function, fold) for fold in folds]
            try:
                return [future.result() for future in futures]
            except BaseException:
                self.folds[0].stop.set()  # Ctrl-C reaches this thread only; the others end at their next model
                raise


def expected_around(grid: Grid, known: Sequence[StrengthPath]) -> list[int]:
    """Return the numbers of strengths near the expected best strength of a mixture, from the results of others.

    Fractions are comparable across mixtures. The best averages may lie far beyond the grid of selections: then a single
    number is returned, with the neighbors on the grid.
    """
    if not known:
        return []
    best = max(known, key=lambda own: float(own.top_scores().mean()))
    numbers = sorted({grid.nearest(best.grid.fraction(number)) for number in best.best().tolist()})
    inside = np.clip(numbers[len(numbers) // 2], grid.stride, max(grid.n_first - 1 - grid.stride, grid.stride))
    return numbers if best.grid == grid else [int(inside)]


def _viable_beside(rivals: Sequence[StrengthPath], lenience: float, folds: slice = slice(None)) -> Viability:
    """Return whether a path can still win: the parabola approaches the best rival within the tolerance."""
    if not rivals:
        return always
    best = best_scores(rivals)[folds]
    return lambda path: path.can_win(best, lenience, beyond=True)


# What is tried: mixtures as far as they can win.


@dataclass(frozen=True, eq=False)
class MixtureSearch:
    """Averages and selecting mixtures, tried as far as they can win."""

    counts: ClassVar[str] = "strengths tried in all folds"
    averages: list[Mixture]
    selections: list[Mixture]  # the sparsest first
    nothing: Mixture  # the empty model
    n_alphas: int
    alpha_min_ratio: float
    every: bool  # whether all are followed
    room: int = MOST_ROOM  # bytes that matrices of folds may take together
    enough: float = np.inf  # mean score from which on nothing is left to gain
    late: bool = False  # whether averages have not all kernels, so that what selects is tried with all rows alone
    many: bool = False  # whether averages are of exact kernels of many rows, which take a large matrix in each fold

    @property
    def families(self) -> list[Mixture]:
        """All mixtures."""
        return [*self.averages, *self.selections, self.nothing]

    @property
    def races(self) -> bool:
        """Return whether hopeless candidates are dropped: with an average as the baseline, unless all are followed."""
        return bool(self.averages) and not self.every

    def n_told(self, n_folds: int) -> None:
        """Return None for the unknown number of progress lines."""

    def describe_count(self, found: list[Candidate], folds: Rung) -> str:
        """Return how much was scored, in words."""
        return f"{len(found)} candidates that were scored in all folds" if found else ""

    def unscored(self, n_samples: int, n_targets: int) -> Candidate:
        """Return the candidate of a search without time: the default of a plain estimator."""
        mixture = [*self.selections, *self.averages, self.nothing][0]
        return Candidate(mixture, default_fraction(n_samples), np.full((1, n_targets), np.nan), np.nan, 0)

    def score(self, folds: Rung) -> list[Candidate]:
        """Return all scored candidates, the empty model first."""
        found: list[Candidate] = []
        with folds.ending.record():
            for rung in (folds, folds.below) if folds.below else (folds,):
                rung.room, rung.late, rung.many = self.room, self.late, self.many
                for fold in rung.folds:
                    fold.kernels  # noqa: B018  # before threads ask for it
            broad = Grid(AVERAGING_STEPS, AVERAGING_RATIO, self.enough)
            narrow = Grid(self.n_alphas, self.alpha_min_ratio, self.enough)
            paths = [StrengthPath(mixture, broad) for mixture in self.averages]
            paths += [StrengthPath(mixture, narrow) for mixture in self.selections]
            with blas_threads(1):  # folds are tried side by side, one thread each
                if self.races:
                    paths = folds.race(paths)
                else:
                    for path in paths:
                        if folds.ending.status is None:
                            folds.follow(path)
            for fold in folds.folds:
                if fold.is_open:
                    fold.kernels.let_go()  # what comes next asks for models that are known
            found = [candidate for path in paths if path.trials for candidate in path.candidates()]
        if folds.ending.status is not None and not any(candidate.n_active for candidate in found):
            return []  # down from the empty model, that is all that a walk came to
        if folds.ending.status is None or (found and folds.folds[0].held_out.scorer is None):
            found = [folds.nothing(self.nothing), *found]  # a scorer takes time
        return found


# The refit: what was chosen, learned on all rows.

SHARES = 1e-2, 1e-4  # of the tolerance, for the Newton steps of averages: the second where the gap asks for it


def solve_mixtures(
    problems: list[Problem],
    mixtures: Sequence[Mixture],
    regularizers: Sequence[Regularizer],
    starts: Sequence[Solution | None],
    solver: str | Solver,
    n_jobs: int | None,
    **settings: Any,
) -> Fit:
    """Solve every problem on the kernels of the mixture under the penalty, from a start if any.

    A time limit holds for all together.
    """
    until = end_of(settings.get("time_limit"))
    solutions: list[Solution | None] = [None] * len(problems)
    whole: list[Problem] = list(problems)
    norms = np.zeros((len(problems), problems[0].n_kernels))
    together = many_targets(problems)
    keys: list[Any] = [own.weights.tobytes() if together else own for own in mixtures]
    groups = [[k for k, own in enumerate(keys) if own == key] for key in dict.fromkeys(keys)]
    rows: Any = np.zeros((len(keys), problems[0].n_samples), problems[0].y.dtype) if together and groups[1:] else None
    for at in [some[n : n + TOGETHER] for some in groups for n in range(0, len(some), TOGETHER)]:
        mixture = min((mixtures[k] for k in at), key=lambda own: own.averages)
        mine = [mixture.pose(problems[k]).with_penalty(regularizers[k]) for k in at]
        if together:  # views of the same kernels: a batch is on a single one
            mine = [own.replace_twin(mine[0].stack) for own in mine]
        mine = mine if many_targets(mine) else list(map(convert_to_double, mine))
        left = settings | {"time_limit": time_left(until)}
        fit = _solve(mine, mixture, [starts[k] for k in at], solver, n_jobs, left)
        fit = fit if rows is None else _fit_rounded(fit, rows.dtype, settings["tol"])
        fit = mixture.embed(fit, [problems[k] for k in at])
        found = fit.solutions if len(mixture.kernels) == norms.shape[1] else _certify_all_kernels(fit)
        for k, problem, solution, norm in zip(at, fit.problems, found, fit.norms, strict=True):
            whole[k] = problems[k].with_penalty(problem.regularizer) if together else problem  # without cached arrays
            norms[k], solutions[k] = norm, solution
            if rows is not None and solution.dual_coef.dtype == rows.dtype:  # held in a single array
                rows[k] = solution.dual_coef
                solutions[k] = replace(solution, dual_coef=rows[k])
    return Fit(whole, [found for found in solutions if found is not None], norms)


def _fit_rounded(fit: Fit, dtype: Any, tol: float) -> Fit:
    """Return coefficients in a precision, where the certificates of the rounded ones allow it."""
    solutions = list(fit.solutions)
    for k, (problem, own) in enumerate(zip(fit.problems, fit.solutions, strict=True)):
        if own.dual_coef.dtype != dtype:
            rho = own.dual_coef.astype(dtype)
            certificate = problem.certificate(rho.astype(np.float64), own.kernel_weights, own.intercept)
            if certificate.relative_gap <= tol:
                solutions[k] = replace(own, dual_coef=rho, certificate=certificate)
    return replace(fit, solutions=solutions)


def _certify_all_kernels(fit: Fit) -> list[Solution]:
    """Return the solutions with certificates of the dual norms of all kernels."""
    apart = [problem.with_target(problem.y) for problem in fit.problems]  # what these keep of targets goes with them
    rhos = [problem.feasible_dual(own.dual_coef) for problem, own in zip(apart, fit.solutions, strict=True)]
    return [
        replace(own, certificate=replace(own.certificate, dual_norms=norms))
        for own, norms in zip(fit.solutions, dual_norms_of(fit.problems, rhos), strict=True)
    ]


def _solve(
    problems: list[Problem],
    mixture: Mixture,
    starts: Sequence[Solution | None],
    solver: str | Solver,
    n_jobs: int | None,
    settings: dict[str, Any],
) -> Fit:
    """Return averages from the sum of the kernels if accurate enough, else by the solver.

    A time limit holds for all of it together.
    """
    until = end_of(settings.get("time_limit"))
    if has_closed_form(problems, mixture, solver):
        for dtype in (np.float32, np.float64)[problems[0].n_samples <= MOST_DOUBLE :]:
            fit = _fit_averages(problems, starts, settings | {"time_limit": time_left(until)}, dtype)
            if all(found.status is Status.CONVERGED for found in fit.solutions):
                return fit
    return solve_problems(problems, solver, n_jobs, starts, **settings | {"time_limit": time_left(until)})


def has_closed_form(problems: list[Problem], mixture: Mixture, solver: str | Solver) -> bool:
    """Return whether models of a mixture come from a single sum of kernels."""
    matrices, plain = not problems[0].stack.has_factors, solver == AUTO and not many_targets(problems)
    return matrices and plain and mixture.averages and can_average([problem.loss for problem in problems])


def _fit_averages(
    problems: list[Problem], starts: Sequence[Solution | None], settings: dict[str, Any], dtype: Any
) -> Fit:
    """Return averages of a sum of kernels held in a precision, and their certificates for exact kernels."""
    first = problems[0]
    gram = first.stack.combine(1.0 / first.penalties**2)
    targets = np.column_stack([problem.y for problem in problems])
    strengths = np.array([problem.regularizer.strength for problem in problems])
    losses, none = [problem.loss for problem in problems], np.empty((0, first.n_samples))
    kernel = center_kernel(gram, none, centered=first.fit_intercept, dtype=dtype)
    del gram
    known = [own for own in starts if own is not None]
    models = _create_starts(kernel, strengths, known) if len(known) == len(problems) else None
    for share in SHARES:
        models = fit_averages(
            kernel, losses, targets, first.weight, strengths, tol=share * settings["tol"], start=models
        )
        each = zip(problems, models.fitted.T, strict=True)
        rhos = [p.feasible_dual(p.weight * p.loss.dual_from_scores(p.y, scores)) for p, scores in each]
        certified = [_certify(*model) for model in zip(problems, rhos, strict=True)]
        if max(model.certificate.relative_gap for model in certified) <= settings["tol"]:
            break
    solutions = [_report(model, settings) for model in certified]
    norms = [
        problem.model_parts(found.dual_coef, found.kernel_weights)[1] / problem.penalties
        for problem, found in zip(problems, solutions, strict=True)
    ]
    return Fit(problems, solutions, np.array(norms))


def _create_starts(kernel: AverageKernel, strengths: Array, starts: Sequence[Solution]) -> AverageModels:
    """Return starting models, on a centered kernel."""
    coefficients = np.array([own.dual_coef for own in starts]).T / strengths
    intercepts = np.array([float(own.intercept) for own in starts]) + kernel.means @ coefficients
    return AverageModels(kernel, coefficients, intercepts, strengths)


def _certify(problem: Problem, rho: Array) -> Solution:
    """Return the model of dual coefficients at the weights ``d_m = 1 / (C w_m^2)``, with the certificate."""
    weights = 1.0 / (problem.regularizer.strength * problem.penalties**2)
    f = problem.stack.apply(weights, rho)
    b = problem.loss.best_intercept(problem.y, f, problem.weight) if problem.fit_intercept else 0.0
    certificate = problem.certificate(rho, weights, b)
    return Solution(rho, weights, b, certificate, passes=problem.stack.counters.passes, newton_steps=1)


def _report(model: Solution, settings: dict[str, Any]) -> Solution:
    """Return a model with the status and the history, after the callback."""
    own: dict[str, Any] = {name: settings.get(name) for name in ("time_limit", "callback")}
    limits = Limits(tol=settings["tol"], verbose=settings.get("verbose", 0), name="averages", **own)
    run: Run[Solution] = Run(limits, "The average of the kernels")
    return run.follow(iter([model])).solution()
