"""Tables as people bring them: numbers, categories, dates and gaps, with a known score behind the classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine

from manykernels.datasets._checks import check_count, check_nonnegative

# Real data that is installed along with scikit-learn, as tables.


LOADERS: dict[str, Callable[..., Any]] = {
    "breast_cancer": load_breast_cancer,
    "diabetes": load_diabetes,
    "digits": load_digits,
    "iris": load_iris,
    "wine": load_wine,
}
REGRESSION = frozenset({"diabetes"})


def load_bundled(name: str) -> tuple[pd.DataFrame, pd.Series]:
    """Return a data set that comes with scikit-learn; nothing is downloaded.

    Parameters
    ----------
    name : {"breast_cancer", "diabetes", "digits", "iris", "wine"}
        569 x 30, 442 x 10, 1797 x 64, 150 x 4 and 178 x 13 rows and columns.

    Returns
    -------
    X : DataFrame of shape (n_samples, n_features)
        Numbers, with the names of the columns.
    y : Series of shape (n_samples,)
        Names of the classes, or numbers (``"diabetes"``).

    Raises
    ------
    ValueError
        If there is no data set of that name.

    Examples
    --------
    >>> X, y = load_bundled("breast_cancer")
    >>> X.shape, y.value_counts().to_dict()
    ((569, 30), {'benign': 357, 'malignant': 212})
    """
    if name not in LOADERS:
        raise ValueError(f"Unknown data set {name!r}. Bundled: {', '.join(map(repr, LOADERS))}.")
    bunch = LOADERS[name](as_frame=True)
    y = bunch.target if name in REGRESSION else bunch.target.map(lambda code: str(bunch.target_names[code]))
    return bunch.data, y


Array = NDArray[Any]

START = pd.Timestamp("2022-01-01")
DAYS = 1096  # three years
GRADES = ("low", "medium", "high", "severe")


@dataclass(frozen=True, eq=False)
class MixedData:
    """A mixed table and the truth behind its classes.

    Attributes
    ----------
    X : DataFrame of shape (n_samples, n_columns)
        With missing entries.
    y : ndarray of shape (n_samples,)
        0 and 1.
    score : ndarray of shape (n_samples,)
        Log odds of class 1, computed before entries went missing: no model ranks better than it.
    effects : DataFrame of shape (n_samples, n_informative)
        What every informative column adds to the score.
    """

    X: pd.DataFrame
    y: Array
    score: Array
    effects: pd.DataFrame

    @property
    def informative(self) -> tuple[str, ...]:
        """Columns that the classes depend on."""
        return tuple(self.effects.columns)


def make_mixed_table(
    n_samples: int = 1000,
    *,
    levels: Sequence[int] = (2, 8, 60, 500),
    missing: float = 0.2,
    n_noise: int = 3,
    random_state: int | np.random.Generator | None = None,
) -> MixedData:
    """Draw a table of numbers, categories, an ordered grade, a date and gaps, with known log odds of its classes.

    The score is the sum of an effect of variance about 1 for each of: ``age`` (a bump), ``dose`` (linear), ``grade``
    (rising with four ordered levels), ``visit`` (the season of a date) and one nominal column for each of ``levels``
    (a normal effect a level). Columns ``noise0``, ... and ``site`` (twelve levels) have none. Entries are missing
    completely at random, except those of ``dose``, which are missing twice as often in class 1.

    Parameters
    ----------
    n_samples : int
    levels : sequence of int
        Number of categories of the informative nominal columns ``code0``, ``code1``, ...
    missing : float
        Share of missing entries, less than 0.5; about that of every column.
    n_noise : int
        Number of numeric columns without an effect.
    random_state : int, numpy.random.Generator or None

    Returns
    -------
    MixedData

    Raises
    ------
    ValueError
        If an argument has no meaning; the message says which.

    Examples
    --------
    >>> data = make_mixed_table(100, levels=(2, 5), random_state=0)
    >>> data.X.columns.tolist()
    ['age', 'dose', 'grade', 'visit', 'code0', 'code1', 'noise0', 'noise1', 'noise2', 'site']
    >>> data.informative
    ('age', 'dose', 'grade', 'visit', 'code0', 'code1')
    """
    n, share = check_count(n_samples, "n_samples"), check_nonnegative(missing, "missing")
    sizes = [check_count(size, f"levels[{k}]", least=2) for k, size in enumerate(levels)]
    if share >= 0.5:
        raise ValueError(f"missing must be less than 0.5, got {missing!r}.")
    rng = np.random.default_rng(random_state)
    X, effects = _informative(n, sizes, rng)
    for j in range(check_count(n_noise, "n_noise", least=0)):
        X[f"noise{j}"] = rng.normal(size=n)
    X["site"] = _codes(rng.integers(0, 12, n), "s")
    score = effects.to_numpy().sum(axis=1)
    y = (rng.random(n) < 1 / (1 + np.exp(-score))).astype(np.int64)
    return MixedData(_with_gaps(X, y, share, rng), y, score, effects)


def _informative(n: int, sizes: list[int], rng: np.random.Generator) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the columns with an effect and their effects, each of mean about 0 and variance about 1."""
    age, dose = rng.normal(50.0, 12.0, n), rng.lognormal(size=n)
    grade, day = rng.integers(0, len(GRADES), n), rng.integers(0, DAYS, n)
    codes = {f"code{k}": rng.integers(0, size, n) for k, size in enumerate(sizes)}
    effects = {
        "age": 2.8 * (np.exp(-(((age - 50.0) / 12.0) ** 2)) - 1 / np.sqrt(3)),
        "dose": np.log(dose),
        "grade": (grade - 1.5) / np.sqrt(1.25),
        "visit": np.sqrt(2) * np.sin(2 * np.pi * day / 365.25),
    }
    effects |= {name: _level_effects(size, rng)[codes[name]] for name, size in zip(codes, sizes, strict=True)}
    columns: dict[str, Any] = {
        "age": age,
        "dose": np.log(dose),
        "grade": pd.Categorical(np.array(GRADES)[grade], categories=list(GRADES), ordered=True),
        "visit": START + pd.to_timedelta(day, unit="D"),
    }
    columns |= {name: _codes(values, "v") for name, values in codes.items()}
    return pd.DataFrame(columns), pd.DataFrame(effects)


def _level_effects(size: int, rng: np.random.Generator) -> Array:
    """Return one effect a category, of mean 0 and variance 1 over the categories."""
    values = rng.normal(size=size)
    return (values - values.mean()) / values.std()


def _codes(values: Array, letter: str) -> Array:
    return np.array([f"{letter}{value:03d}" for value in values], dtype=object)


def _with_gaps(X: pd.DataFrame, y: Array, share: float, rng: np.random.Generator) -> pd.DataFrame:
    """Return the table with entries missing: as many in each column, but in that of ``dose`` more in class 1."""
    chances = np.full((len(X), X.shape[1]), share)
    chances[:, X.columns.get_loc("dose")] *= np.where(y == 1, 4 / 3, 2 / 3)
    return X.mask(rng.random(chances.shape) < chances)
