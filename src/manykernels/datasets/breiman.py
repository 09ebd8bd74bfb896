"""Breiman's artificial classification problems, with the error rate that no classifier can beat."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import ncx2, norm

from manykernels.datasets._checks import check_count

Array = NDArray[Any]
RandomState = int | np.random.Generator | None

N_WAVEFORM_FEATURES = 21
WAVE_PEAKS = (11, 15, 7)  # of h_1, h_2, h_3, counting from 1
WAVE_PAIRS = ((0, 1), (0, 2), (1, 2))  # the waves that classes 1, 2, 3 mix


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
    L. Breiman, Bias, variance, and arcing classifiers, technical report 460, University of California, Berkeley
    (1996). Some later descriptions halve ``a``; this value is the one of the DELVE data and gives Breiman's 1.3 %.

    Examples
    --------
    >>> X, y = make_ringnorm(1000, random_state=0)
    >>> bool(X[y > 0].std() > 1.9), bool(X[y < 0].std() < 1.1)
    (True, True)
    """
    n, p, rng = _sizes(n_samples, n_features, random_state)
    y = _fair_labels(n, rng)
    wide, narrow = 2.0 * rng.standard_normal((n, p)), _shift(p) + rng.standard_normal((n, p))
    return np.where(y[:, None] > 0, wide, narrow), y


def ringnorm_bayes_error(n_features: int = 20) -> float:
    """Return the error rate of the best possible classifier of `make_ringnorm`.

    The narrow class is more likely inside the ball ``||x - 4a/3||^2 < (8/3) (||a||^2 / 6 + n_features log 2)``, so both
    error rates are probabilities of a noncentral chi-squared variable.

    Parameters
    ----------
    n_features : int

    Returns
    -------
    float

    Examples
    --------
    >>> round(ringnorm_bayes_error(), 4)
    0.0124
    """
    p = check_count(n_features, "n_features")
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
    y = _fair_labels(n, rng)
    return y[:, None] * _shift(p) + rng.standard_normal((n, p)), y


def twonorm_bayes_error() -> float:
    """Return the error rate of ``sign(sum_j x_j)``, the best classifier of `make_twonorm`: ``Phi(-2)``.

    Returns
    -------
    float

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
    n, rng = check_count(n_samples, "n_samples"), np.random.default_rng(random_state)
    n_noise = check_count(n_noise_features, "n_noise_features", least=0)
    y = rng.integers(1, 4, size=n)
    first, second = wave_shapes()[np.array(WAVE_PAIRS)[y - 1].T]
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
    return np.stack([np.maximum(6.0 - np.abs(t - peak), 0.0) for peak in WAVE_PEAKS])


def _sizes(n_samples: int, n_features: int, random_state: RandomState) -> tuple[int, int, np.random.Generator]:
    n, p = check_count(n_samples, "n_samples"), check_count(n_features, "n_features")
    return n, p, np.random.default_rng(random_state)


def _fair_labels(n: int, rng: np.random.Generator) -> Array:
    return np.where(rng.random(n) < 0.5, 1.0, -1.0)


def _shift(n_features: int) -> float:
    return 2.0 / np.sqrt(n_features)
