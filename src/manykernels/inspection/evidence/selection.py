r"""Selection with error control: stability selection of kernels, knockoffs for columns.

Stability: kernels or views that enter first in most halves of the data, with a bound on the number of false ones.

Knockoffs: copies ``X~`` are drawn such that exchanging a column and the copy keeps the joint distribution of ``(X,
X~)``, independently of y. A single model is fitted to the kernels of both, and

    W_j = sum of the norms of the kernels of unit j - the same of the copy, T   = min {t > 0: (1 + #{W_j <= -t}) /
    max(1, #{W_j >= t}) <= q},

selects the units with ``W_j >= T``. For a null unit the sign of ``W_j`` is a coin flip, so negative differences
estimate the number of false positives, and the expected share is at most q.

Noise: comparison of a selection with noise, by a fitted model and by refits to noise.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone
from sklearn.covariance import ledoit_wolf
from sklearn.utils.validation import check_is_fitted

from manykernels.estimators.permutations import random_orders
from manykernels.estimators.selection.mixtures import PenaltyFamily, alpha_grid
from manykernels.estimators.strength import SIGNIFICANT
from manykernels.estimators.supervised.base import BaseMKL
from manykernels.estimators.supervised.problems import SolverChoice, descend, silence_solver
from manykernels.estimators.supervised.samples import Samples, sample_weights
from manykernels.exceptions import ConvergenceWarning, InvalidInputError, warn
from manykernels.grams.training import as_bank
from manykernels.inspection.displays.kernel_table import groups_of
from manykernels.inspection.displays.plotting import Display, clean, color_of, ink_of, name_rows, rows_that_fit, write
from manykernels.inspection.pipelines import unwrapped
from manykernels.kernels import KernelBank
from manykernels.kernels.bank.columns import Table
from manykernels.objective.problem import Problem
from manykernels.objective.regularizers import parameters_of
from manykernels.solvers import Solver
from manykernels.solvers.solution import count_to
from manykernels.threads import blas_threads
from manykernels.validation.arrays import Array, TableLike, check_choice, check_count, check_positive
from manykernels.validation.parameters import RandomSource, check_n_jobs, check_unit, generator_from

STRENGTHS, LOWEST = 30, 1e-3  # of the path in each half; it ends where enough has entered
LOOSE_TOL = 1e-3  # which kernels enter first is not a matter of the fourth digit of the gap


@dataclass(frozen=True, eq=False)
class StabilitySelection:
    """How often every kernel or view is among the first to enter in random halves of the samples.

    Attributes
    ----------
    frequencies : Series of shape (n_units,)
        Share of the halves with the unit selected; the most frequent first.
    threshold : float
        Frequency threshold of a selected unit.
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
    r"""Select the kernels or views with early entry in most random halves of the samples.

    The samples are split at random into two halves ``n_pairs`` times. In every half the penalty is weakened until ``q``
    units have entered the model. Units with a selection frequency of at least ``threshold`` are selected, and

    .. math:: q = \lfloor \sqrt{(2\tau - 1)\, p\, v} \rfloor, \qquad
       E\,|\hat S \cap L| \le \frac{q^2}{(2\tau - 1)\, p} \le v

    for ``p`` units, ``tau`` the threshold, ``v`` = ``expected_false``, and ``L`` the units with a selection probability
    per half of at most ``q / p``, the level of a random draw of ``q`` units.

    Parameters
    ----------
    estimator : MKLClassifier or MKLRegressor
        The kernels, loss, penalty and options are used; an unfitted estimator suffices, stays unchanged, and ``alpha``
        is ignored. The penalty must select: ``"l1"`` or ``"elasticnet"``.
    X : DataFrame, array-like of shape (n_samples, n_features), or precomputed kernels
        Training samples.
    y : array-like of shape (n_samples,) or (n_samples, n_targets)
        Labels or numbers. With several classes or targets, a unit enters at the first entry for any.
    by : {"view", "kernel"}, default="view"
        Unit of counting: the input of kernels (a view, a column, all columns), or single kernels. Kernels of several
        widths on a single column alternate from half to half, which understates the stability of single kernels.
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
        Frequencies, selected units, and the bound.

    Raises
    ------
    InvalidInputError
        If the penalty selects nothing, an argument is out of range, or the bound leaves room for no unit at all.

    Warns
    -----
    ConvergenceWarning
        If Ctrl-C ended the run early: frequencies are then over the complete pairs of halves.

    Notes
    -----
    Kernels are standardized and normalized on all samples, once. Classes are in equal shares in both halves.

    References
    ----------
    N. Meinshausen, P. Buehlmann, "Stability selection", JRSS B 72 (2010), Theorem 1; R. Shah, R. Samworth, "Variable
    selection with error control: another look at stability selection", JRSS B 75 (2013), Theorem 1, for complementary
    pairs of halves, without exchangeability.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import MKLRegressor
    >>> X = np.random.default_rng(0).uniform(-2, 2, (80, 4))
    >>> found = stability_selection(MKLRegressor(), X, np.sin(2 * X[:, 1]), n_pairs=5, random_state=0)
    >>> found.selected, found.error_bound <= 1.0
    (['x1'], True)
    """
    by = check_unit(by, ("kernel", "view"))
    _check(n_pairs, expected_false, threshold, n_jobs)
    model = clone(estimator)
    problems, units, names = _open_problems(model, X, y, sample_weight, by)
    family = _family(model)
    n_first = _room(len(names), expected_false, threshold)
    strata = np.stack([problem.y for problem in problems], axis=1) if model._task == "classification" else None
    halves = list(_halves(problems[0].n_samples, strata, n_pairs, generator_from(random_state)))
    solver = silence_solver(model.solver, 1)

    def entered(half: Array) -> Array:
        parts = [
            replace(each, stack=each.stack.restrict(half), y=each.y[half], sample_weight=each.weight[half])
            for each in problems
        ]
        return _first_units(parts, family, units, n_first, solver)

    with blas_threads(problems[0].n_samples, None):
        complete = _select_on_halves(entered, halves, n_jobs, verbose)
    counts = np.bincount(np.concatenate(complete), minlength=len(names))
    order = np.argsort(-counts, kind="stable")
    frequencies = pd.Series(counts[order] / len(complete), index=[names[k] for k in order])
    bound = n_first**2 / ((2 * threshold - 1) * len(names))
    return StabilitySelection(frequencies, threshold, n_first, bound, len(complete), by)


def _select_on_halves(
    select: Callable[[Array], Array], halves: Sequence[Array], n_jobs: int | None, verbose: int
) -> list[Array]:
    """Return the selected units of every half, after Ctrl-C of the complete pairs of halves, with a warning."""
    found: list[Array] = []
    jobs = Parallel(n_jobs=n_jobs or 1, prefer="threads", return_as="generator")
    with count_to(len(halves), "halves of the samples", verbose) as advance:
        try:
            for chosen in jobs(delayed(select)(half) for half in halves):
                found.append(chosen)
                advance("")
        except KeyboardInterrupt:
            if len(found) < 2:
                raise
    complete = found[: len(found) - len(found) % 2]
    if len(complete) < len(halves):
        warn(
            f"The selection was interrupted: frequencies are over {len(complete)} of {len(halves)} halves. The bound "
            "holds for them too, with less precision; run it again for all.",
            ConvergenceWarning,
        )
    return complete


def _check(n_pairs: int, expected_false: float, threshold: float, n_jobs: int | None) -> None:
    check_count(n_pairs, "n_pairs")
    check_positive(expected_false, "expected_false")
    check_n_jobs(n_jobs)
    if not 0.5 < check_positive(threshold, "threshold") <= 1.0:
        raise InvalidInputError(f"threshold must be above 0.5 and at most 1, got {threshold!r}.")


def _family(model: BaseMKL) -> PenaltyFamily:
    """Return the penalty of the estimator with the strength open."""
    penalty = model.penalty
    family = PenaltyFamily(penalty, {name: getattr(model, name) for name in parameters_of(penalty)})
    if not family.create_penalty(1.0, 1.0).sparse:
        raise InvalidInputError(f"The penalty {penalty!r} gives every kernel a weight; take 'l1' or 'elasticnet'.")
    return family


def _open_problems(
    model: BaseMKL, X: TableLike, y: ArrayLike, sample_weight: ArrayLike | None, by: str
) -> tuple[list[Problem], Array, list[str]]:
    """Return a problem per class or target on all samples, the unit of every kernel, and the names of the units."""
    loss = model._check_loss()
    rows, target = model._check_data(X, y)
    samples = model._encoded(Samples.create(rows, target, sample_weights(sample_weight, len(target))))
    training, problems = model._open(samples, loss, model._check_penalty(samples.total_weight))
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
    """Yield both halves of every random split; samples of a stratum alternate."""
    kinds = np.zeros(n_samples, int) if strata is None else np.unique(strata, axis=0, return_inverse=True)[1].ravel()
    for _ in range(n_pairs):
        shuffled = random.permutation(n_samples)
        shuffled = shuffled[np.argsort(kinds[shuffled], kind="stable")]
        yield np.sort(shuffled[::2])
        yield np.sort(shuffled[1::2])


def _first_units(
    problems: list[Problem], family: PenaltyFamily, units: Array, n_first: int, solver: str | Solver
) -> Array:
    """Return the first units to enter, up to a maximum; among simultaneous entries, the largest."""
    grid = alpha_grid(family.alpha_max(problems), STRENGTHS, LOWEST)
    regularizers = [family.create_penalty(alpha, problems[0].total_weight) for alpha in grid]
    entered: list[int] = []
    for fit in descend(problems, regularizers, SolverChoice(solver, tol=LOOSE_TOL)):
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
    """Selection frequencies as horizontal bars; units at or above the threshold stand out.

    Create with :meth:`from_selection`.

    As many bars are drawn as there is room for; options of ``plot`` go to ``Axes.barh``.

    Parameters
    ----------
    frequencies : DataFrame
        ``name``, ``frequency`` and ``selected`` of the units to show.
    selection : StabilitySelection
        All units, with threshold and bound.

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
        found = self.selection
        name_rows(ax, shown["name"], ever - len(shown))
        ax.set_xlim(0, 1)
        counted = COUNTED[found.by] if len(found.selected) != 1 else COUNTED[found.by][:-1]
        write(ax, title=f"{len(found.selected)} stable {counted}; at most {found.error_bound:.2g} expected to be false")
        write(ax, xlabel=f"share of {found.n_halves} halves among the first {found.n_first} to enter")
        clean(ax, grid="x")


METHODS = ("mvr", "equicorrelated")
SWEEPS, SETTLED = 100, 1e-6  # of coordinate descent, and the change of a coordinate at which it ends
INSIDE = 0.999  # of the largest equal decorrelation that a covariance allows
COPY = "copy of "
EXPECTED = ("No kernel was selected", "The kernels are not more")  # answers like others here


@dataclass(frozen=True, eq=False)
class KnockoffSelection:
    """Columns, or groups of columns, against their copies.

    Attributes
    ----------
    norms : Series of shape (n_units,)
        Sum of the norms ``||f_m||`` of the kernels of every unit.
    copy_norms : Series of shape (n_units,)
        The same of their copies.
    threshold : float
        Threshold on the difference; infinite without selection.
    q : float
        Bound on the expected share of false selections.
    left_out : tuple of str
        Kernels of several units, outside all groups.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import MKLRegressor
    >>> from manykernels.inspection import knockoff_selection
    >>> X = np.random.default_rng(0).normal(size=(150, 12))
    >>> y = X[:, :6].sum(axis=1)
    >>> knockoff_selection(MKLRegressor(), X, y, q=0.2, random_state=0).selected_
    ['x0', 'x1', 'x2', 'x3', 'x4', 'x5']
    """

    norms: pd.Series[float]
    copy_norms: pd.Series[float]
    threshold: float
    q: float
    left_out: tuple[str, ...] = ()

    @property
    def statistics(self) -> pd.Series[float]:
        """Differences of both, ``W_j``."""
        return self.norms - self.copy_norms

    @property
    def selected_(self) -> list[str]:
        """Units with a difference at or above the threshold, in the order of the columns."""
        return [str(name) for name in self.norms.index[self.statistics >= self.threshold]]

    def frame(self) -> pd.DataFrame:
        """Return a row a unit, the largest difference first.

        Returns
        -------
        DataFrame
            ``name``, ``norm``, ``copy_norm``, ``statistic`` and ``selected``.
        """
        table = pd.DataFrame({"norm": self.norms, "copy_norm": self.copy_norms, "statistic": self.statistics})
        table["selected"] = table["statistic"] >= self.threshold
        ordered = table.sort_values("statistic", ascending=False, kind="stable")
        return ordered.rename_axis("name").reset_index()


def knockoff_selection(
    estimator: BaseMKL,
    X: TableLike,
    y: ArrayLike,
    *,
    q: float = 0.1,
    copies: str | TableLike = "mvr",
    groups: Mapping[str, Sequence[Any]] | None = None,
    sample_weight: ArrayLike | None = None,
    random_state: RandomSource = None,
) -> KnockoffSelection:
    """Select columns with an expected share of false selections of at most ``q``.

    Parameters
    ----------
    estimator : MKLClassifier, MKLRegressor, MKLSurvival or a CV variant
        An unfitted estimator suffices and stays unchanged. The penalty must select: ``"l1"``, ``"elasticnet"``.
    X : DataFrame or array-like of shape (n_samples, n_features)
        Training samples: numbers without gaps, unless copies are given.
    y : array-like of shape (n_samples,) or (n_samples, n_targets)
        Targets; with several classes or targets, norms are added up.
    q : float, default=0.1
        Bound on the false discovery rate, below 1. Nothing can be selected before ``1 / q`` units are.
    copies : {"mvr", "equicorrelated"} or array-like of the shape of X, default="mvr"
        How to draw copies of a Gaussian X, see :func:`gaussian_knockoffs`, or the copies, with the columns of X.
    groups : mapping of names to columns or None, default=None
        Units of several columns, by names or positions; columns in no group are separate units.
    sample_weight : array-like of shape (n_samples,) or None, default=None
        Factors on the losses.
    random_state : int, RandomState instance or None, default=None
        Seed of the copies, and of the order of originals and copies.

    Returns
    -------
    KnockoffSelection
        Norms of units and copies, the threshold and selected units.

    Raises
    ------
    InvalidInputError
        If columns cannot be copied as Gaussian, copies do not match X, columns are in two groups, or no kernel acts
        inside a unit.

    Notes
    -----
    Holds for any number of samples, and any relation of y to X, given valid copies: the first two moments of X,
    estimated with shrinkage, stand for a Gaussian. Categories, dates and gaps require copies from a separate model. The
    fit treats originals and copies alike, since every pair of columns changes places at random before it, so the order
    of the kernels and the tolerance of the solver cause no bias. The certified gap bounds the objective, not single
    norms. Kernels that act on several units, as those of the default bank on all columns, are left out.

    References
    ----------
    E. Candes, Y. Fan, L. Janson, J. Lv, "Panning for gold: model-X knockoffs for high dimensional controlled variable
    selection", JRSS B 80 (2018); R. Barber, E. Candes, "Controlling the false discovery rate via knockoffs", Annals of
    Statistics 43 (2015), Theorem 2; A. Spector, L. Janson, "Powerful knockoffs via minimizing reconstructability",
    Annals of Statistics 50 (2022), for "mvr".

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import MKLRegressor
    >>> from manykernels.inspection import knockoff_selection
    >>> X = np.random.default_rng(0).normal(size=(150, 12))
    >>> found = knockoff_selection(MKLRegressor(), X, X[:, :6].sum(axis=1), q=0.2, random_state=0)
    >>> found.frame().columns.tolist(), found.frame()["selected"].sum()
    (['name', 'norm', 'copy_norm', 'statistic', 'selected'], np.int64(6))
    """
    if not 0 < check_positive(q, "q") < 1:
        raise InvalidInputError(f"q must be below 1, got {q!r}.")
    rng = generator_from(random_state)
    original = X if isinstance(X, pd.DataFrame) else pd.DataFrame(np.asarray(X))
    if not isinstance(X, pd.DataFrame):
        original.columns = [f"x{j}" for j in range(original.shape[1])]
    twin = _copies(original, copies, rng)
    units = _units(original, groups)
    swapped = rng.uniform(size=len(set(units.values()))) < 0.5
    labels = list(dict.fromkeys(units.values()))
    exchanged = np.array([swapped[labels.index(units[name])] for name in original.columns])
    entries, bank, left_out = _doubled(estimator, original, units)
    first, second = original.copy(), twin.copy()
    for name in original.columns[exchanged]:
        first[name], second[name] = twin[name], original[name]
    table = pd.concat([first.add_prefix(""), second.add_prefix(COPY)], axis=1)
    model = clone(estimator).set_params(kernels=replace(bank, kernels=tuple(entries)))
    with warnings.catch_warnings():
        for start in EXPECTED:
            warnings.filterwarnings("ignore", message=start, category=UserWarning)
        model.fit(table, y, **({} if sample_weight is None else {"sample_weight": sample_weight}))
    known = list(original.columns)
    per_kernel = np.atleast_2d(model.kernel_norms_).sum(axis=0)
    norms = {label: np.zeros(2) for label in labels}
    for (_, _, columns), norm in zip(entries, per_kernel, strict=True):
        is_copy, name = columns[0] >= len(known), known[columns[0] % len(known)]
        label = units[name]
        norms[label][int(is_copy != swapped[labels.index(label)])] += norm
    own, other = (pd.Series({label: norms[label][k] for label in labels}, dtype=float) for k in (0, 1))
    return KnockoffSelection(own, other, _threshold((own - other).to_numpy(), q), float(q), tuple(left_out))


def gaussian_knockoffs(X: TableLike, *, method: str = "mvr", random_state: RandomSource = None) -> Array:
    r"""Draw copies of columns with the first two moments of exchangeable copies.

    With mean ``mu`` and covariance ``Sigma`` of X, the latter shrunk as Ledoit and Wolf do,

    .. math:: \\tilde x \\mid x \\sim N\\big(x - S \\Sigma^{-1} (x - \\mu),\\; 2 S - S \\Sigma^{-1} S\\big),
       \\qquad S = \\mathrm{diag}(s)

    where ``s`` is how far a copy is decorrelated from the column.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Numbers without gaps.
    method : {"mvr", "equicorrelated"}, default="mvr"
        "equicorrelated" takes all entries of ``s`` (of columns of unit variance) equal and as large as can be; "mvr"
        minimizes ``trace((2 Sigma - S)^-1) + sum 1 / s``, the distinguishability of columns and copies.
    random_state : int, RandomState instance or None, default=None
        Of the draw.

    Returns
    -------
    ndarray of shape (n_samples, n_features)

    Raises
    ------
    InvalidInputError
        If a value is missing or a column is constant.

    References
    ----------
    As for :func:`knockoff_selection`.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.inspection import gaussian_knockoffs
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> copies = gaussian_knockoffs(X, random_state=0)
    >>> copies.shape, bool(np.abs(np.cov(copies.T) - np.cov(X.T)).max() < 0.2)
    ((500, 3), True)
    """
    check_choice(method, METHODS, "method")
    values = np.asarray(X, dtype=np.float64)
    spread = values.std(axis=0)
    if not np.isfinite(values).all() or not (spread > 0).all():
        bad = np.flatnonzero(~np.isfinite(values).all(axis=0) | ~(spread > 0))
        raise InvalidInputError(
            f"Columns {bad[:6].tolist()} are constant or lack values, and cannot be copied: leave them out, or impute."
        )
    mean = values.mean(axis=0)
    standard = (values - mean) / spread
    covariance = ledoit_wolf(standard)[0]
    s = _equicorrelated(covariance) if method == "equicorrelated" else _mvr(covariance)
    shift = np.linalg.solve(covariance, np.diag(s))
    conditional = 2.0 * np.diag(s) - s[:, None] * shift
    eigenvalues, vectors = np.linalg.eigh((conditional + conditional.T) / 2.0)
    root = vectors * np.sqrt(np.maximum(eigenvalues, 0.0))
    drawn = generator_from(random_state).normal(size=standard.shape) @ root.T
    return mean + spread * (standard - standard @ shift + drawn)


def _equicorrelated(covariance: Array) -> Array:
    smallest = float(np.linalg.eigvalsh(covariance)[0])
    return np.full(len(covariance), INSIDE * min(2.0 * smallest, float(np.diag(covariance).min())))


def _mvr(covariance: Array) -> Array:
    """Minimize ``trace((2 Sigma - S)^-1) + sum 1 / s`` by coordinate descent in closed form.

    With ``D = (2 Sigma - S)^-1``, a change ``t`` of ``s_j`` adds ``t ||D e_j||^2 / (1 - t D_jj)`` to the trace, and the
    best new value is ``(1 + s_j D_jj) / (||D e_j|| + D_jj)``.
    """
    s = _equicorrelated(covariance) / 2.0
    inverse = np.linalg.inv(2.0 * covariance - np.diag(s))
    for _ in range(SWEEPS):
        before = s.copy()
        for j in range(len(s)):
            column, corner = inverse[:, j].copy(), inverse[j, j]
            new = (1.0 + s[j] * corner) / (float(np.linalg.norm(column)) + corner)
            step = new - s[j]
            inverse += (step / (1.0 - step * corner)) * np.outer(column, column)
            s[j] = new
        if np.abs(s - before).max() <= SETTLED:
            break
        inverse = np.linalg.inv(2.0 * covariance - np.diag(s))  # updates add up their rounding
    return s


def _copies(original: pd.DataFrame, copies: str | TableLike, rng: np.random.Generator) -> pd.DataFrame:
    """Return the copies of a table, drawn or given."""
    if not isinstance(copies, str):
        given = copies if isinstance(copies, pd.DataFrame) else pd.DataFrame(np.asarray(copies))
        if given.shape != original.shape:
            raise InvalidInputError(f"copies must have the shape {original.shape} of X, got {given.shape}.")
        given = given.set_axis(original.columns, axis=1)
        return given.set_axis(original.index, axis=0).astype(original.dtypes.to_dict())
    numeric = [pd.api.types.is_numeric_dtype(kind) and not pd.api.types.is_bool_dtype(kind) for kind in original.dtypes]
    other = original.columns[~np.array(numeric)].tolist()
    if other:
        raise InvalidInputError(
            f"Columns {other[:6]} are not numeric, so Gaussian copies are not valid. Pass copies drawn from a model "
            f"of such columns, or leave them out."
        )
    method = check_choice(copies, METHODS, "copies") or copies
    drawn = gaussian_knockoffs(original.to_numpy(dtype=np.float64), method=str(method), random_state=rng)
    return pd.DataFrame(drawn, columns=original.columns, index=original.index)


def _units(original: pd.DataFrame, groups: Mapping[str, Sequence[Any]] | None) -> dict[Any, str]:
    """Return the unit of every column."""
    units = {name: str(name) for name in original.columns}
    taken: set[Any] = set()
    for label, columns in (groups or {}).items():
        known = list(original.columns)
        names = [known[c] if isinstance(c, int) and c not in units and c < len(known) else c for c in columns]
        unknown = [name for name in names if name not in units]
        if unknown or taken.intersection(names):
            fault = f"columns {unknown} that X lacks" if unknown else f"columns {sorted(taken & set(names))} of another"
            raise InvalidInputError(f"The group {label!r} has {fault}; every column belongs to one group at most.")
        taken.update(names)
        units |= dict.fromkeys(names, str(label))
    return units


def _doubled(
    estimator: BaseMKL, original: pd.DataFrame, units: dict[Any, str]
) -> tuple[list[tuple[str, Any, list[int]]], KernelBank, list[str]]:
    """Return the kernels inside units with the kernels of the copies, the bank, and kernels left out."""
    bank = as_bank(getattr(estimator, "kernels", None), Table.wrap(original))
    if not isinstance(bank, KernelBank):
        raise InvalidInputError("knockoff_selection needs columns, which precomputed kernels and pairs do not have.")
    entries, left_out = [], []
    for name, spec, columns in bank.expand(original):
        if len({units[original.columns[j]] for j in columns}) > 1:
            left_out.append(name)
        else:
            entries.append((name, spec, list(columns)))
    if not entries:
        raise InvalidInputError(
            f"None of the {len(left_out)} kernels acts inside a unit, such as {left_out[:3]}: take a bank with kernels "
            "of single columns (KernelBank.per_feature), or groups of the columns that kernels share."
        )
    width = original.shape[1]
    twins = [(COPY + name, spec, [j + width for j in columns]) for name, spec, columns in entries]
    return entries + twins, bank, left_out


def _threshold(statistics: Array, q: float) -> float:
    """Return the smallest difference with an estimated share of false selections of at most ``q``."""
    for t in np.unique(np.abs(statistics[statistics != 0])):
        above, below = int(np.sum(statistics >= t)), int(np.sum(statistics <= -t))
        if 1 + below <= q * max(1, above):
            return float(t)
    return np.inf


def noise_doubt(model: BaseEstimator) -> str | None:
    """Return the reason to doubt the selection of a fitted model beside noise, or None.

    Parameters
    ----------
    model : fitted estimator, or a Pipeline around an estimator

    Returns
    -------
    str or None
        None as well for a model without kernels, or without a comparison with noise.

    See Also
    --------
    noise_selection : How many kernels noise selects, by refits.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import MKLRegressor
    >>> from manykernels.inspection import noise_doubt
    >>> X = np.random.default_rng(0).normal(size=(80, 4))
    >>> noise_doubt(MKLRegressor().fit(X, np.sin(2 * X[:, 1]))) is None
    True
    """
    model, _ = unwrapped(model)
    check_is_fitted(model)
    chance = getattr(model, "_noise_p_value", 0.0)
    selected = np.atleast_1d((np.atleast_2d(model.kernel_weights_) > 0).any(axis=0))
    if chance <= SIGNIFICANT or not selected.any():
        return None
    return (
        "The kernels are not more strongly related to y than to y in random order (p = "
        f"{chance:.2g}): pure noise would select about as many kernels as this fit, {int(selected.sum())} of "
        f"{len(selected)}."
    )


def noise_selection(
    estimator: BaseEstimator,
    X: TableLike,
    y: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    n_permutations: int = 10,
    random_state: RandomSource = None,
) -> pd.Series:
    """Return how many kernels an estimator selects for y in random order, at the same multiple of noise.

    If a model keeps n kernels and noise keeps k, about k of the n are expected from noise.

    Parameters
    ----------
    estimator : MKLClassifier, MKLRegressor or MKLSurvival, fitted on X and y
        Unchanged by the call.
    X : DataFrame, array-like of shape (n_samples, n_features), or precomputed kernels
        The training samples.
    y : array-like of shape (n_samples,) or (n_samples, n_targets)
        Their targets; rows are exchanged as wholes.
    groups : array-like of shape (n_samples,) or None, default=None
        Labels of dependent samples, for example patients. Targets of a group stay together and are exchanged between
        groups of equal size; a group of unique size is permuted internally.
    n_permutations : int, default=10
        Refits.
    random_state : int, RandomState instance or None, default=None
        Of the orders.

    Returns
    -------
    Series of shape (n_permutations,), int
        Named ``n_selected``; for several classes or targets, kernels of any class or target.

    Raises
    ------
    InvalidInputError
        For an estimator without a strength, like the CV variants.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import MKLRegressor
    >>> from manykernels.inspection import noise_selection
    >>> X = np.random.default_rng(0).normal(size=(80, 4))
    >>> y = X[:, 1]
    >>> counts = noise_selection(MKLRegressor(tol=1e-2).fit(X, y), X, y, n_permutations=3, random_state=0)
    >>> len(counts), bool(counts.min() >= 0)
    (3, True)
    """
    check_is_fitted(estimator)
    check_count(n_permutations, "n_permutations")
    if "alpha" not in estimator.get_params(deep=False) or not hasattr(estimator, "noise_ratio_"):
        raise InvalidInputError(
            f"noise_selection refits at the strength of the model, which an {type(estimator).__name__} does not have. "
            f"Pass MKLClassifier, MKLRegressor or MKLSurvival with the chosen alpha_."
        )
    ratio = float(np.median(estimator.noise_ratio_))
    model, rng = clone(estimator).set_params(alpha=f"{ratio:.6g}*noise"), generator_from(random_state)
    counts = []
    n_targets = np.shape(y)[0]
    labels = None if groups is None else np.asarray(groups)
    if labels is not None and labels.shape != (n_targets,):
        raise InvalidInputError(
            f"groups has the shape {labels.shape}, but there are {n_targets} targets: a label for each."
        )
    for order in random_orders(n_targets, rng, n_permutations, groups=labels):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that this is noise, and that it may select nothing
            model.fit(X, y.iloc[order] if hasattr(y, "iloc") else np.asarray(y)[order])
        counts.append(int((np.atleast_2d(model.kernel_weights_) > 0).any(axis=0).sum()))
    return pd.Series(counts, name="n_selected")
