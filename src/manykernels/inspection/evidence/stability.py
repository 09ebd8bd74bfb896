"""Stability selection: which kernels or views enter first in most halves of the data, with an error bound; its bars."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from numpy.typing import ArrayLike
from sklearn.base import clone

from manykernels.estimators.selection.mixtures import PenaltyFamily, alpha_grid
from manykernels.estimators.selection.strengths import descend, without_bar
from manykernels.estimators.supervised.base import BaseMKL
from manykernels.estimators.supervised.samples import Samples, sample_weights
from manykernels.exceptions import ConvergenceWarning, InvalidInputError
from manykernels.inspection.displays.kernel_table import groups_of
from manykernels.inspection.displays.plotting import (
    Display,
    clean,
    color_of,
    ink_of,
    name_rows,
    rows_that_fit,
    write,
)
from manykernels.objective.problem import Problem
from manykernels.objective.regularizers import parameters_of
from manykernels.solvers import Solver
from manykernels.solvers.solution import count_to
from manykernels.threads import blas_threads
from manykernels.validation.arrays import Array, TableLike, check_count, check_positive
from manykernels.validation.parameters import RandomSource, check_n_jobs, generator_from

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["StabilityDisplay", "StabilitySelection", "stability_selection"]

UNITS = ("kernel", "view")
STRENGTHS, LOWEST = 30, 1e-3  # of the path in each half; it ends where enough has entered
LOOSE_TOL = 1e-3  # which kernels enter first is not a matter of the fourth digit of the gap


@dataclass(frozen=True, eq=False)
class StabilitySelection:
    """How often each kernel or view is among the first to enter in random halves of the samples.

    Attributes
    ----------
    frequencies : Series of shape (n_units,)
        Share of the halves in which the unit was selected; the most frequent first.
    threshold : float
        Frequency from which on a unit counts as selected.
    n_first : int
        Most units selected in a half.
    error_bound : float
        Bound on the expected number of units selected falsely, see :func:`stability_selection`.
    n_halves : int
    by : str

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import MKLRegressor
    >>> from manykernels.inspection import stability_selection
    >>> X = np.random.default_rng(0).uniform(-2, 2, (80, 4))
    >>> stability_selection(MKLRegressor(), X, np.sin(2 * X[:, 1]), by="view", n_pairs=5, random_state=0).selected
    ['x1']
    """

    frequencies: pd.Series[float]
    threshold: float
    n_first: int
    error_bound: float
    n_halves: int
    by: str

    @property
    def selected(self) -> list[str]:
        """Units at or above the threshold, the most frequent first."""
        return [str(name) for name in self.frequencies.index[self.frequencies >= self.threshold]]

    def frame(self) -> pd.DataFrame:
        """Return a row a unit.

        Returns
        -------
        DataFrame
            ``name``, ``frequency`` and ``selected``.
        """
        table = self.frequencies.rename("frequency").rename_axis("name").reset_index()
        return table.assign(selected=table["frequency"] >= self.threshold)


def stability_selection(
    estimator: BaseMKL,
    X: TableLike,
    y: ArrayLike,
    *,
    by: str = "view",
    n_pairs: int = 50,
    expected_false: float = 1.0,
    threshold: float = 0.75,
    sample_weight: ArrayLike | None = None,
    random_state: RandomSource = None,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> StabilitySelection:
    r"""Select the kernels or views that enter first in most random halves of the samples.

    The samples are split at random into two halves ``n_pairs`` times. In each half the penalty is weakened until ``q``
    units have entered the model. Units with a selection frequency of at least ``threshold`` are selected, and

    .. math:: q = \lfloor \sqrt{(2\tau - 1)\, p\, v} \rfloor, \qquad
       E\,|\hat S \cap L| \le \frac{q^2}{(2\tau - 1)\, p} \le v

    for ``p`` units, ``tau`` the threshold, ``v`` = ``expected_false``, and ``L`` the units that a half selects no more
    often than a draw of ``q`` units at random would, with a probability of at most ``q / p``.

    Parameters
    ----------
    estimator : MKLClassifier or MKLRegressor
        Its kernels, loss, penalty and options are taken; it need not be fitted, is not changed, and its ``alpha`` is
        of no account. The penalty must select: ``"l1"`` or ``"elasticnet"``.
    X : DataFrame, array-like of shape (n_samples, n_features), or precomputed kernels
        Training samples.
    y : array-like of shape (n_samples,) or (n_samples, n_targets)
        Labels or numbers. With several classes or targets, a unit enters when it does for any of them.
    by : {"view", "kernel"}, default="view"
        What is counted: what kernels act on (a view, a column, all columns), or single kernels. Kernels of several
        widths on one column take turns from half to half, so that single kernels look less stable than they are.
    n_pairs : int, default=50
        Random splits in two halves.
    expected_false : float, default=1.0
        Bound on the expected number of false selections.
    threshold : float, default=0.75
        Frequency to be selected, above 0.5 and up to 1.
    sample_weight : array-like of shape (n_samples,) or None, default=None
        Factors on the losses; samples of weight zero are absent.
    random_state : int, RandomState instance or None, default=None
        Of the halves.
    n_jobs : int or None, default=None
        Halves solved at the same time, in threads.
    verbose : int, default=0
        1 shows a bar.

    Returns
    -------
    StabilitySelection
        Frequencies, what was selected, and the bound.

    Raises
    ------
    InvalidInputError
        If the penalty selects nothing, an argument is out of range, or the bound leaves room for no unit at all.

    Warns
    -----
    ConvergenceWarning
        If Ctrl-C ended it early: frequencies are then over the pairs of halves that are complete.

    Notes
    -----
    Kernels are standardized and normalized on all samples, once. Classes are in equal shares in both halves.

    References
    ----------
    N. Meinshausen, P. Buehlmann, "Stability selection", JRSS B 72 (2010), Theorem 1; R. Shah, R. Samworth, "Variable
    selection with error control: another look at stability selection", JRSS B 75 (2013), Theorem 1, which needs no
    exchangeability and is about complementary pairs of halves.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import MKLRegressor
    >>> X = np.random.default_rng(0).uniform(-2, 2, (80, 4))
    >>> found = stability_selection(MKLRegressor(), X, np.sin(2 * X[:, 1]), n_pairs=5, random_state=0)
    >>> found.selected, found.error_bound <= 1.0
    (['x1'], True)
    """
    _check(by, n_pairs, expected_false, threshold, n_jobs)
    model = clone(estimator)
    problems, units, names = _posed(model, X, y, sample_weight, by)
    family = _family(model)
    n_first = _room(len(names), expected_false, threshold)
    strata = np.stack([problem.y for problem in problems], axis=1) if model._task == "classification" else None
    halves = list(_halves(problems[0].n_samples, strata, n_pairs, generator_from(random_state)))
    solver = without_bar(model.solver, 1)

    def entered(half: Array) -> Array:
        return _first_units([_restricted(problem, half) for problem in problems], family, units, n_first, solver)

    found: list[Array] = []
    jobs = Parallel(n_jobs=n_jobs or 1, prefer="threads", return_as="generator")
    with blas_threads(problems[0].n_samples, None), count_to(len(halves), "halves of the samples", verbose) as advance:
        try:
            for chosen in jobs(delayed(entered)(half) for half in halves):
                found.append(chosen)
                advance("")
        except KeyboardInterrupt:
            if len(found) < 2:
                raise
    complete = _complete_pairs(found, len(halves))
    counts = np.bincount(np.concatenate(complete), minlength=len(names))
    order = np.argsort(-counts, kind="stable")
    frequencies = pd.Series(counts[order] / len(complete), index=[names[k] for k in order])
    bound = n_first**2 / ((2 * threshold - 1) * len(names))
    return StabilitySelection(frequencies, threshold, n_first, bound, len(complete), by)


def _complete_pairs(found: list[Array], n_halves: int) -> list[Array]:
    """Return what was found in pairs of halves that are both through: the bound is about them, however many."""
    complete = found[: len(found) - len(found) % 2]
    if len(complete) < n_halves:
        warnings.warn(
            f"The selection was interrupted: frequencies are over {len(complete)} of {n_halves} halves. The bound "
            "holds for them too, with less precision; run it again for all.",
            ConvergenceWarning,
            stacklevel=3,
        )
    return complete


def _check(by: str, n_pairs: int, expected_false: float, threshold: float, n_jobs: int | None) -> None:
    if by not in UNITS:
        raise InvalidInputError(f"by must be one of {', '.join(UNITS)}, got {by!r}.")
    check_count(n_pairs, "n_pairs")
    check_positive(expected_false, "expected_false")
    check_n_jobs(n_jobs)
    if not 0.5 < check_positive(threshold, "threshold") <= 1.0:
        raise InvalidInputError(f"threshold must be above 0.5 and at most 1, got {threshold!r}.")


def _family(model: BaseMKL) -> PenaltyFamily:
    """Return the penalty of the estimator with its strength open."""
    penalty = model.penalty
    family = PenaltyFamily(penalty, {name: getattr(model, name) for name in parameters_of(penalty)})
    if not family.at(1.0, 1.0).sparse:
        raise InvalidInputError(f"The penalty {penalty!r} gives every kernel a weight; take 'l1' or 'elasticnet'.")
    return family


def _posed(
    model: BaseMKL, X: TableLike, y: ArrayLike, sample_weight: ArrayLike | None, by: str
) -> tuple[list[Problem], Array, list[str]]:
    """Return one problem a class or target on all samples, the unit of each kernel, and the names of the units."""
    loss = model._checked_loss()
    rows, target = model._checked_data(X, y)
    samples = model._encoded(Samples.of(rows, target, sample_weights(sample_weight, len(target))))
    training, problems = model._open(samples, loss, model._checked_penalty(samples.total_weight))
    table = training.bank.frame()[["name", "kernel", "columns"]]
    labels = [group[0] for group in groups_of(model, table, by)]
    names = list(dict.fromkeys(labels))
    place = {name: k for k, name in enumerate(names)}
    return problems, np.array([place[label] for label in labels]), names


def _room(n_units: int, expected_false: float, threshold: float) -> int:
    """Return how many units a half may select."""
    most = int(np.sqrt((2 * threshold - 1) * n_units * expected_false))
    if most < 1:
        raise InvalidInputError(
            f"With {n_units} units, expected_false={expected_false:g} and threshold={threshold:g} no half may select "
            f"anything; expected_false must be at least {1 / ((2 * threshold - 1) * n_units):.3g}."
        )
    return min(most, n_units)


def _halves(n_samples: int, strata: Array | None, n_pairs: int, random: np.random.Generator) -> Iterator[Array]:
    """Yield both halves of each random split; samples of a stratum go to them in turn."""
    kinds = np.zeros(n_samples, int) if strata is None else np.unique(strata, axis=0, return_inverse=True)[1].ravel()
    for _ in range(n_pairs):
        shuffled = random.permutation(n_samples)
        shuffled = shuffled[np.argsort(kinds[shuffled], kind="stable")]
        yield np.sort(shuffled[::2])
        yield np.sort(shuffled[1::2])


def _restricted(problem: Problem, half: Array) -> Problem:
    """Return the problem on some of its samples."""
    weight = problem.weight[half]
    return replace(problem, stack=problem.stack.restrict(half), y=problem.y[half], sample_weight=weight)


def _first_units(
    problems: list[Problem], family: PenaltyFamily, units: Array, n_first: int, solver: str | Solver
) -> Array:
    """Return the units that enter first, at most so many; of those that enter together, the largest."""
    grid = alpha_grid(family.alpha_max(problems), STRENGTHS, LOWEST)
    regularizers = [family.at(alpha, problems[0].total_weight) for alpha in grid]
    entered: list[int] = []
    for fit in descend(problems, regularizers, solver, tol=LOOSE_TOL):
        sizes = np.zeros(units.max() + 1)
        np.add.at(sizes, units, fit.norms.max(axis=0))
        new = [int(k) for k in np.argsort(-sizes, kind="stable") if sizes[k] > 0 and k not in entered]
        entered += new
        if len(entered) >= n_first:
            break
    return np.array(entered[:n_first], dtype=int)


BLUE, GREEN = 0, 2
COUNTED = {"kernel": "kernels", "view": "views"}


@dataclass(kw_only=True, eq=False, repr=False)
class StabilityDisplay(Display):
    """Selection frequencies as horizontal bars; those that reach the threshold stand out.

    Make it with :meth:`from_selection`.

    As many bars are drawn as there is room for; options of ``plot`` go to ``Axes.barh``.

    Parameters
    ----------
    frequencies : DataFrame
        ``name``, ``frequency`` and ``selected`` of the units to show.
    selection : StabilitySelection
        All of them, with threshold and bound.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import MKLRegressor, stability_selection
    >>> X = np.random.default_rng(0).uniform(-2, 2, (80, 4))
    >>> found = stability_selection(MKLRegressor(), X, np.sin(2 * X[:, 1]), n_pairs=3, random_state=0)
    >>> StabilityDisplay.from_selection(found, top=2).frame()["name"].iloc[0]
    'x1'
    """

    frequencies: pd.DataFrame
    selection: StabilitySelection

    @classmethod
    def from_selection(cls, selection: StabilitySelection, *, top: int = 20) -> Self:
        """Take the frequencies of a stability selection.

        Parameters
        ----------
        selection : StabilitySelection
        top : int, default=20
            Most units to show, the most frequent first.

        Raises
        ------
        InvalidInputError
            If ``top`` is no positive whole number.
        """
        table = selection.frame()
        return cls(frequencies=table[table["frequency"] > 0].head(check_count(top, "top")), selection=selection)

    def _size(self, **options: object) -> tuple[float, float]:
        return 7.0, 1.0 + 0.27 * max(len(self.frequencies) + 1, 4)

    def _draw(self, ax: Any, **bar_style: object) -> None:
        """Draw the bars, as many as there is room for, and the threshold as a line."""
        room, ever = rows_that_fit(ax), int((self.selection.frequencies > 0).sum())
        shown = self.frequencies.head(room if ever <= min(room, len(self.frequencies)) else room - 1)
        colors = [color_of(ax, GREEN if chosen else BLUE) for chosen in shown["selected"]]
        ax.barh(range(len(shown)), shown["frequency"], **{"color": colors, **bar_style})
        ax.axvline(self.selection.threshold, color=ink_of(ax).muted, linestyle="--", linewidth=1.0)
        self._finish(ax, shown, ever - len(shown))

    def _finish(self, ax: Axes, shown: pd.DataFrame, rest: int) -> None:
        """Write names, title and axis."""
        found = self.selection
        name_rows(ax, shown["name"], rest)
        ax.set_xlim(0, 1)
        counted = COUNTED[found.by] if len(found.selected) != 1 else COUNTED[found.by][:-1]
        write(ax, title=f"{len(found.selected)} stable {counted}; at most {found.error_bound:.2g} expected to be false")
        write(ax, xlabel=f"share of {found.n_halves} halves among the first {found.n_first} to enter")
        clean(ax, grid="x")
