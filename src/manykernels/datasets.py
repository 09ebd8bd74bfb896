"""Generators with known answers, and loaders of real data that comes with scikit-learn."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import ncx2, norm
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine

__all__ = [
    "MixedData", "MultiviewData", "load_bundled", "make_mixed_table", "make_multiview", "make_ringnorm", "make_twonorm",
    "make_waveform", "ringnorm_bayes_error", "twonorm_bayes_error", "wave_shapes",
]  # fmt: skip

Array = NDArray[Any]

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


START = pd.Timestamp("2022-01-01")
GRADES = ("low", "medium", "high", "severe")


@dataclass(frozen=True, eq=False)
class MixedData:
    """A mixed table and the truth behind the classes.

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
    """Draw a table of numbers, categories, an ordered grade, a date and gaps, with known log odds of the classes.

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
    n, share = _check_count(n_samples, "n_samples"), _check_nonnegative(missing, "missing")
    sizes = [_check_count(size, f"levels[{k}]", least=2) for k, size in enumerate(levels)]
    if share >= 0.5:
        raise ValueError(f"missing must be less than 0.5, got {missing!r}.")
    rng = np.random.default_rng(random_state)
    X, effects = _informative(n, sizes, rng)
    for j in range(_check_count(n_noise, "n_noise", least=0)):
        X[f"noise{j}"] = rng.normal(size=n)
    X["site"] = _codes(rng.integers(0, 12, n), "s")
    score = effects.to_numpy().sum(axis=1)
    y = (rng.random(n) < 1 / (1 + np.exp(-score))).astype(np.int64)
    return MixedData(_add_gaps(X, y, share, rng), y, score, effects)


def _informative(n: int, sizes: list[int], rng: np.random.Generator) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the columns with an effect and their effects, each of mean about 0 and variance about 1."""
    age, dose = rng.normal(50.0, 12.0, n), rng.lognormal(size=n)
    days = 1096  # three years
    grade, day = rng.integers(0, len(GRADES), n), rng.integers(0, days, n)
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
    """Return an effect per category, of mean 0 and variance 1 over the categories."""
    values = rng.normal(size=size)
    return (values - values.mean()) / values.std()


def _codes(values: Array, letter: str) -> Array:
    return np.array([f"{letter}{value:03d}" for value in values], dtype=object)


def _add_gaps(X: pd.DataFrame, y: Array, share: float, rng: np.random.Generator) -> pd.DataFrame:
    """Return the table with entries missing: as many in every column, but in that of ``dose`` more in class 1."""
    chances = np.full((len(X), X.shape[1]), share)
    chances[:, X.columns.get_loc("dose")] *= np.where(y == 1, 4 / 3, 2 / 3)
    return X.mask(rng.random(chances.shape) < chances)


# Tables whose columns come in views, some of which are known to matter.


EFFECTS = ("radial", "linear")
TASKS = ("regression", "classification")


@dataclass(frozen=True, eq=False)
class MultiviewData:
    """A table of several views and the truth behind the target.

    Attributes
    ----------
    X : DataFrame of shape (n_samples, n_features)
        Columns named ``<view>_<number>``.
    y : ndarray of shape (n_samples,)
        Numbers, or -1.0 and +1.0.
    views : dict of str to list of str
        Columns of every view.
    informative : tuple of str
        Views that the target depends on.
    effects : DataFrame of shape (n_samples, n_informative)
        What every informative view adds to the score; columns are the informative views.
    noise : float
        Standard deviation of the noise in the score.
    """

    X: pd.DataFrame
    y: Array
    views: dict[str, list[str]]
    informative: tuple[str, ...]
    effects: pd.DataFrame
    noise: float

    @property
    def best_r2(self) -> float:
        """Expected coefficient of determination of the true score: effects are independent with variance 1."""
        n_informative = len(self.informative)
        return n_informative / (n_informative + self.noise**2)


def make_multiview(
    n_samples: int = 200,
    n_features: Sequence[int] = (5, 5, 5, 5),
    n_informative: int = 2,
    *,
    effect: str = "radial",
    task: str = "classification",
    noise: float = 0.1,
    random_state: int | np.random.Generator | None = None,
) -> MultiviewData:
    """Draw independent standard normal views, of which only some decide about the target.

    The score is ``sum_v g(x_v) + noise * e`` over the informative views ``v``, with ``e`` standard normal and ``g`` of
    mean 0 and variance 1: ``(||x_v||^2 - p_v) / sqrt(2 p_v)`` (radial: uncorrelated with every column) or ``sum_j x_vj
    / sqrt(p_v)`` (linear). The target is the score or the sign.

    Parameters
    ----------
    n_samples : int
    n_features : sequence of int
        Columns ``p_v`` of every view; the views are named ``view0``, ``view1``, ...
    n_informative : int
        How many views, drawn at random, matter.
    effect : {"radial", "linear"}
    task : {"classification", "regression"}
    noise : float
        Standard deviation of the noise, non-negative.
    random_state : int, numpy.random.Generator or None

    Raises
    ------
    ValueError
        If an argument has no meaning; the message says which.

    Examples
    --------
    >>> data = make_multiview(100, (2, 3, 4), n_informative=1, random_state=0)
    >>> data.X.shape, data.views["view0"], len(data.informative)
    ((100, 9), ['view0_0', 'view0_1'], 1)
    """
    sizes = [_check_count(size, f"n_features[{v}]") for v, size in enumerate(n_features)]
    n, scale = _check_count(n_samples, "n_samples"), _check_nonnegative(noise, "noise")
    n_views = len(sizes)
    if _check_count(n_informative, "n_informative") > n_views:
        raise ValueError(f"n_informative must be at most the number of views, {n_views}, got {n_informative}.")
    if effect not in EFFECTS:
        raise ValueError(f"effect must be one of {EFFECTS}, got {effect!r}.")
    if task not in TASKS:
        raise ValueError(f"task must be one of {TASKS}, got {task!r}.")
    rng = np.random.default_rng(random_state)
    views = {f"view{v}": [f"view{v}_{j}" for j in range(size)] for v, size in enumerate(sizes)}
    X = pd.DataFrame(rng.standard_normal((n, sum(sizes))), columns=[name for names in views.values() for name in names])
    chosen = np.sort(rng.choice(len(sizes), size=n_informative, replace=False))
    informative = tuple(f"view{v}" for v in chosen)
    effects = pd.DataFrame({view: _effect(X[views[view]].to_numpy(), effect) for view in informative})
    score = effects.to_numpy().sum(axis=1) + scale * rng.standard_normal(n)
    y = score if task == "regression" else np.where(score > 0, 1.0, -1.0)
    return MultiviewData(X, y, views, informative, effects, scale)


def _effect(x: Array, effect: str) -> Array:
    p = x.shape[1]
    return ((x**2).sum(axis=1) - p) / np.sqrt(2.0 * p) if effect == "radial" else x.sum(axis=1) / np.sqrt(p)


# Breiman's artificial classification problems, with the error rate that no classifier can beat.


RandomState = int | np.random.Generator | None

N_WAVEFORM_FEATURES = 21


def make_ringnorm(
    n_samples: int = 200, n_features: int = 20, *, random_state: RandomState = None
) -> tuple[Array, Array]:
    """Draw a narrow normal cloud inside a wide one.

    Class +1 is ``N(0, 4 I)``, class -1 is ``N((a, ..., a), I)`` with ``a = 2 / sqrt(n_features)``; both are equally
    likely.

    Parameters
    ----------
    n_samples : int
    n_features : int
        20 in the publication.
    random_state : int, numpy.random.Generator or None

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,)
        -1.0 or +1.0.

    Notes
    -----
    L. Breiman, Bias, variance, and arcing classifiers, technical report 460, University of California, Berkeley (1996).
    Some later descriptions halve ``a``; the value is the one of the DELVE data and gives Breiman's 1.3 %.

    Examples
    --------
    >>> X, y = make_ringnorm(1000, random_state=0)
    >>> bool(X[y > 0].std() > 1.9), bool(X[y < 0].std() < 1.1)
    (True, True)
    """
    n, p, rng = _sizes(n_samples, n_features, random_state)
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    wide, narrow = 2.0 * rng.standard_normal((n, p)), _shift(p) + rng.standard_normal((n, p))
    return np.where(y[:, None] > 0, wide, narrow), y


def ringnorm_bayes_error(n_features: int = 20) -> float:
    """Return the error rate of the best possible classifier of `make_ringnorm`.

    The narrow class is more likely inside the ball ``||x - 4a/3||^2 < (8/3) (||a||^2 / 6 + n_features log 2)``, so both
    error rates are probabilities of a noncentral chi-squared variable.

    Examples
    --------
    >>> round(ringnorm_bayes_error(), 4)
    0.0124
    """
    p = _check_count(n_features, "n_features")
    squared_shift = 4.0
    radius = 8.0 / 3.0 * (squared_shift / 6.0 + p * np.log(2.0))
    wide_inside = ncx2.cdf(radius / 4.0, p, 4.0 / 9.0 * squared_shift)
    narrow_outside = ncx2.sf(radius, p, squared_shift / 9.0)
    return float(wide_inside + narrow_outside) / 2.0


def make_twonorm(
    n_samples: int = 200, n_features: int = 20, *, random_state: RandomState = None
) -> tuple[Array, Array]:
    """Draw two normal clouds of the same shape.

    Class +1 is ``N((a, ..., a), I)``, class -1 is ``N((-a, ..., -a), I)`` with ``a = 2 / sqrt(n_features)``; both are
    equally likely.

    Parameters
    ----------
    n_samples : int
    n_features : int
        20 in the publication.
    random_state : int, numpy.random.Generator or None

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,)
        -1.0 or +1.0.

    Notes
    -----
    L. Breiman, Bias, variance, and arcing classifiers, technical report 460, University of California, Berkeley (1996).

    Examples
    --------
    >>> X, y = make_twonorm(1000, random_state=0)
    >>> bool(np.mean(np.sign(X.sum(axis=1)) == y) > 0.95)
    True
    """
    n, p, rng = _sizes(n_samples, n_features, random_state)
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    return y[:, None] * _shift(p) + rng.standard_normal((n, p)), y


def twonorm_bayes_error() -> float:
    """Return the error rate of ``sign(sum_j x_j)``, the best classifier of `make_twonorm`: ``Phi(-2)``.

    Examples
    --------
    >>> round(twonorm_bayes_error(), 4)
    0.0228
    """
    return float(norm.cdf(-2.0))


def make_waveform(
    n_samples: int = 300, n_noise_features: int = 0, *, random_state: RandomState = None
) -> tuple[Array, Array]:
    """Draw noisy mixtures of two out of three triangular waves.

    ``x_t = u h_a(t) + (1 - u) h_b(t) + e_t`` for ``t = 1, ..., 21``, with ``u`` uniform on [0, 1], ``e_t`` standard
    normal, and ``h_1(t) = max(6 - |t - 11|, 0)``, ``h_2(t) = h_1(t - 4)``, ``h_3(t) = h_1(t + 4)``. Classes 1, 2, 3 mix
    the waves (1, 2), (1, 3), (2, 3); they are equally likely. The error rate of the best classifier is about 14 %.

    Parameters
    ----------
    n_samples : int
    n_noise_features : int
        Standard normal columns without information, appended; 19 in the larger published version.
    random_state : int, numpy.random.Generator or None

    Returns
    -------
    X : ndarray of shape (n_samples, 21 + n_noise_features)
    y : ndarray of shape (n_samples,)
        1, 2 or 3.

    Notes
    -----
    L. Breiman, J. Friedman, R. Olshen and C. Stone, Classification and Regression Trees (1984), section 2.6.2.

    Examples
    --------
    >>> X, y = make_waveform(500, random_state=0)
    >>> X.shape, sorted(set(y.tolist()))
    ((500, 21), [1, 2, 3])
    """
    n, rng = _check_count(n_samples, "n_samples"), np.random.default_rng(random_state)
    n_noise = _check_count(n_noise_features, "n_noise_features", least=0)
    y = rng.integers(1, 4, size=n)
    wave_pairs = ((0, 1), (0, 2), (1, 2))  # the waves that classes 1, 2, 3 mix
    first, second = wave_shapes()[np.array(wave_pairs)[y - 1].T]
    share = rng.random((n, 1))
    waves = share * first + (1.0 - share) * second
    return np.hstack([waves, np.zeros((n, n_noise))]) + rng.standard_normal((n, N_WAVEFORM_FEATURES + n_noise)), y


def wave_shapes() -> Array:
    """Return the three waves of `make_waveform` at ``t = 1, ..., 21``, (3, 21).

    Examples
    --------
    >>> wave_shapes()[0].max(), int(wave_shapes()[0].argmax()) + 1
    (np.float64(6.0), 11)
    """
    t = np.arange(1, N_WAVEFORM_FEATURES + 1)
    wave_peaks = (11, 15, 7)  # of h_1, h_2, h_3, counting from 1
    return np.stack([np.maximum(6.0 - np.abs(t - peak), 0.0) for peak in wave_peaks])


def _sizes(n_samples: int, n_features: int, random_state: RandomState) -> tuple[int, int, np.random.Generator]:
    n, p = _check_count(n_samples, "n_samples"), _check_count(n_features, "n_features")
    return n, p, np.random.default_rng(random_state)


def _shift(n_features: int) -> float:
    return 2.0 / np.sqrt(n_features)


# Checks of arguments: this module imports nothing of the rest of the library.


def _check_count(value: object, name: str, least: int = 1) -> int:
    """Return ``value`` as an int of at least ``least``, else raise an error."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}.")
    return int(value)


def _check_nonnegative(value: object, name: str) -> float:
    """Return ``value`` as a finite float of at least 0, else raise an error."""
    if isinstance(value, bool) or not isinstance(value, Real) or not (0 <= float(value) < math.inf):
        raise ValueError(f"{name} must be a finite number of at least 0, got {value!r}.")
    return float(value)
