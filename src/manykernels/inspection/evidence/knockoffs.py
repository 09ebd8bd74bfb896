r"""Selection of columns with a bound on the share of false ones: kernels of columns against kernels of their copies.

Copies ``X~`` are drawn so that any column and its copy may be exchanged without a change of the joint distribution of
``(X, X~)``, and know nothing of y. One model is fitted to the kernels of both, and

    W_j = sum of the norms of the kernels of unit j - the same of its copy,
    T   = min {t > 0: (1 + #{W_j <= -t}) / max(1, #{W_j >= t}) <= q},

selects the units with ``W_j >= T``. Of units that y does not depend on given the others the sign of ``W_j`` is a coin,
so that the negative ones count the false among the positive ones, and the expected share of false ones is at most q.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.covariance import ledoit_wolf

from manykernels.estimators.supervised.base import BaseMKL
from manykernels.exceptions import InvalidInputError
from manykernels.grams.training import as_bank
from manykernels.kernels import KernelBank
from manykernels.kernels.bank.columns import Table
from manykernels.validation.arrays import Array, TableLike, check_choice, check_positive
from manykernels.validation.parameters import RandomSource, generator_from

__all__ = ["KnockoffSelection", "gaussian_knockoffs", "knockoff_selection"]

METHODS = ("mvr", "equicorrelated")
SWEEPS, SETTLED = 100, 1e-6  # of coordinate descent, and the change of a coordinate at which it ends
INSIDE = 0.999  # of the largest equal decorrelation that a covariance allows
COPY = "copy of "
EXPECTED = ("No kernel was selected", "The kernels are not more")  # answers like others here


@dataclass(frozen=True, eq=False)
class KnockoffSelection:
    """Columns, or groups of them, against their copies.

    Attributes
    ----------
    norms : Series of shape (n_units,)
        Sum of the norms ``||f_m||`` of the kernels of each unit.
    copy_norms : Series of shape (n_units,)
        The same of their copies.
    threshold : float
        Difference from which on a unit is selected; infinite if none is.
    q : float
        Bound on the expected share of false selections.
    left_out : tuple of str
        Kernels that act on several units, which belong to none.

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
        """Units whose difference reaches the threshold, in the order of the columns."""
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
    """Select columns so that the expected share of false ones among them is at most ``q``.

    Parameters
    ----------
    estimator : MKLClassifier, MKLRegressor, MKLSurvival or one with built-in cross-validation
        It need not be fitted and is not changed. The penalty must select: ``"l1"``, ``"elasticnet"``.
    X : DataFrame or array-like of shape (n_samples, n_features)
        Training samples: numbers without gaps, unless copies are given.
    y : array-like of shape (n_samples,) or (n_samples, n_targets)
        Targets; with several classes or targets, norms are added up.
    q : float, default=0.1
        Bound on the false discovery rate, below 1. Nothing can be selected before ``1 / q`` units are.
    copies : {"mvr", "equicorrelated"} or array-like of the shape of X, default="mvr"
        How to draw copies of a Gaussian X, see :func:`gaussian_knockoffs`, or the copies, with the columns of X.
    groups : mapping of names to columns or None, default=None
        Units of several columns, by names or positions; columns in no group are units of their own.
    sample_weight : array-like of shape (n_samples,) or None, default=None
        Factors on the losses.
    random_state : int, RandomState instance or None, default=None
        Of the copies, and of which of the two takes the place of the other.

    Returns
    -------
    KnockoffSelection
        Norms of units and copies, the threshold and what was selected.

    Raises
    ------
    InvalidInputError
        If columns cannot be copied as Gaussian, copies do not match X, columns are in two groups, or no kernel acts
        inside a unit.

    Notes
    -----
    Holds for any number of samples, and any relation of y to X, where the copies are right: X is assumed to be Gaussian
    in its first two moments, estimated with shrinkage. Categories, dates and gaps have no such copies, and are refused:
    give copies from a model of such a table. The fit treats originals and copies alike, since each pair of columns
    changes places at random before it, so that neither the order of the kernels nor the tolerance of the solver can
    tell them apart. The certified gap bounds the objective, not single norms. Kernels that act on several units, as
    those of the default bank on all columns, are left out.

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
    r"""Draw copies of columns with the first two moments that exchangeable ones would have.

    With mean ``mu`` and covariance ``Sigma`` of X, the latter shrunk as Ledoit and Wolf do,

    .. math:: \\tilde x \\mid x \\sim N\\big(x - S \\Sigma^{-1} (x - \\mu),\\; 2 S - S \\Sigma^{-1} S\\big),
       \\qquad S = \\mathrm{diag}(s)

    where ``s`` is how far a copy is decorrelated from its column.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Numbers without gaps.
    method : {"mvr", "equicorrelated"}, default="mvr"
        "equicorrelated" takes all entries of ``s`` (of columns of unit variance) equal and as large as can be; "mvr"
        minimizes ``trace((2 Sigma - S)^-1) + sum 1 / s``, by which columns are told from their copies.
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
    """Minimize ``trace((2 Sigma - S)^-1) + sum 1 / s`` by coordinates, each in closed form.

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
    """Return the copies of a table, drawn or as they are given."""
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
            f"Columns {other[:6]} hold no numbers: copies as of a Gaussian would be told from them at sight. Give "
            "copies, an array like X drawn from a model of such columns, or leave them out."
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
    """Return the kernels inside units and those of the copies of their columns, the bank, and kernels left out."""
    bank = as_bank(getattr(estimator, "kernels", None), Table.of(original))
    if not isinstance(bank, KernelBank):
        raise InvalidInputError("knockoff_selection copies columns, which precomputed kernels and pairs have none of.")
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
    """Return the smallest difference at which the estimated share of false selections is at most ``q``."""
    for t in np.unique(np.abs(statistics[statistics != 0])):
        above, below = int(np.sum(statistics >= t)), int(np.sum(statistics <= -t))
        if 1 + below <= q * max(1, above):
            return float(t)
    return np.inf
