"""The losses and regularizers once more, in plain NumPy, for tests only.

Nothing here is shared with :mod:`manykernels.objective`: an oracle that calls the code under test proves nothing. The
formulas are transcribed from the tables of Suzuki and Tomioka (2011), Kloft et al. (2011) and Citi (2015) in the
notation of the architecture page: ``y`` targets, ``z`` scores, ``r`` dual values, ``t`` block norms, ``u`` dual norms.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, xlogy

Floats = NDArray[np.float64]
Parameters = Mapping[str, float]
_STEPS = 200  # halvings of an interval: enough for a root far smaller than the interval
_GEOMETRIC_STEPS = 64  # halvings of the logarithm of an interval reach rounding much sooner


def _entropy(p: Floats) -> Floats:
    # Clipping hides the rounding of y * r at both ends of [0, 1], where the entropy is zero anyway.
    inside = np.clip(p, 0.0, 1.0)
    return np.asarray(xlogy(inside, inside) + xlogy(1.0 - inside, 1.0 - inside))


def _huber(v: Floats, delta: float) -> Floats:
    return np.where(np.abs(v) <= delta, v**2 / 2, delta * np.abs(v) - delta**2 / 2)


_VALUES: dict[str, Callable[[Parameters, Floats, Floats], Any]] = {
    "logistic": lambda p, y, z: np.logaddexp(0.0, -y * z),
    "hinge": lambda p, y, z: np.maximum(1 - y * z, 0),
    "squared_hinge": lambda p, y, z: np.maximum(1 - y * z, 0) ** 2 / 2,
    "squared": lambda p, y, z: (z - y) ** 2 / 2,
    "epsilon_insensitive": lambda p, y, z: np.maximum(np.abs(z - y) - p["epsilon"], 0),
    "huber": lambda p, y, z: _huber(z - y, p["delta"]),
    "quantile": lambda p, y, z: np.maximum(p["tau"] * (y - z), (p["tau"] - 1) * (y - z)),
    "poisson": lambda p, y, z: np.exp(z) - y * z - y + xlogy(y, y),
    "gamma": lambda p, y, z: y * np.exp(-z) + z - 1 - np.log(y),
}
_CONJUGATES: dict[str, Callable[[Parameters, Floats, Floats], Any]] = {
    "logistic": lambda p, y, r: _entropy(y * r),
    "hinge": lambda p, y, r: -y * r,
    "squared_hinge": lambda p, y, r: r**2 / 2 - y * r,
    "squared": lambda p, y, r: r**2 / 2 - y * r,
    "epsilon_insensitive": lambda p, y, r: p["epsilon"] * np.abs(r) - y * r,
    "huber": lambda p, y, r: r**2 / 2 - y * r,
    "quantile": lambda p, y, r: -y * r,
    "poisson": lambda p, y, r: xlogy(np.maximum(y - r, 0.0), np.maximum(y - r, 0.0)) + r - xlogy(y, y),
    "gamma": lambda p, y, r: xlogy(np.maximum(1 + r, 0.0), np.maximum(1 + r, 0.0)) - r - r * np.log(y),
}
_INTERVALS: dict[str, Callable[[Parameters], tuple[float, float]]] = {
    "logistic": lambda p: (0.0, 1.0),
    "hinge": lambda p: (0.0, 1.0),
    "squared_hinge": lambda p: (0.0, np.inf),
    "squared": lambda p: (-np.inf, np.inf),
    "epsilon_insensitive": lambda p: (-1.0, 1.0),
    "huber": lambda p: (-p["delta"], p["delta"]),
    "quantile": lambda p: (p["tau"] - 1.0, p["tau"]),
    "gamma": lambda p: (-1.0, np.inf),
}
_SIGNED = ("logistic", "hinge", "squared_hinge")  # their interval is one of y * r


def block_norms(kernels: Floats, rho: Floats) -> Floats:
    """Return ``sqrt(tr(rho' K_m rho))`` (M,) of dual coefficients (N,) or (N, T).

    Examples
    --------
    >>> block_norms(np.eye(2)[None], np.array([3.0, 4.0])).tolist()
    [5.0]
    """
    columns = rho.reshape(len(rho), -1)
    return np.sqrt(np.maximum([np.vdot(columns, gram @ columns) for gram in kernels], 0.0))


def loss_value(name: str, params: Parameters, y: Floats, z: Floats) -> Floats:
    """Return ``l(y_i, z_i)`` per sample; of targets (N, T) the sum, and the multinomial loss for the logistic one.

    Examples
    --------
    >>> loss_value("hinge", {}, np.array([1.0, -1.0]), np.array([0.5, 0.5])).tolist()
    [0.5, 1.5]
    """
    if y.ndim == 2 and name == "logistic":
        return np.asarray(logsumexp(z, axis=1) - np.where(y > 0, z, 0.0).sum(axis=1), dtype=np.float64)
    if y.ndim == 2:
        return np.sum([loss_value(name, params, *column) for column in zip(y.T, z.T, strict=True)], axis=0)
    return np.asarray(_VALUES[name](params, y, z), dtype=np.float64)


def loss_conjugate(name: str, params: Parameters, y: Floats, r: Floats) -> Floats:
    """Return ``l*(y_i, -r_i)`` per sample, for ``r`` inside :func:`loss_bounds` (not checked); targets as there.

    Examples
    --------
    >>> loss_conjugate("squared", {}, np.array([1.0]), np.array([2.0])).tolist()
    [0.0]
    """
    if y.ndim == 2 and name == "logistic":
        p = np.clip((y > 0) - r, 0.0, 1.0)
        return np.asarray(xlogy(p, p).sum(axis=1))
    if y.ndim == 2:
        return np.sum([loss_conjugate(name, params, *column) for column in zip(y.T, r.T, strict=True)], axis=0)
    return np.asarray(_CONJUGATES[name](params, y, r), dtype=np.float64)


def loss_bounds(name: str, params: Parameters, y: Floats) -> tuple[Floats, Floats]:
    """Return the ends ``(lo, hi)`` of the interval of ``r_i`` on which ``l*(y_i, -r_i)`` is finite.

    Examples
    --------
    >>> lo, hi = loss_bounds("hinge", {}, np.array([1.0, -1.0]))
    >>> lo.tolist(), hi.tolist()
    ([0.0, -1.0], [1.0, 0.0])
    """
    if name == "poisson":
        return np.full(y.shape, -np.inf), y.copy()
    low, high = _INTERVALS[name](params)
    if name not in _SIGNED:
        return np.full(y.shape, low), np.full(y.shape, high)
    return np.where(y > 0, low, -high), np.where(y > 0, high, -low) + 0.0


def bisect_decreasing(function: Callable[[float], float], low: float, high: float, *, geometric: bool = False) -> float:
    """Return the zero of a decreasing function on ``[low, high]``, to the last bit that halving can give.

    Examples
    --------
    >>> round(bisect_decreasing(lambda x: 2.0 - x, 0.0, 10.0), 12)
    2.0
    """
    for _ in range(_GEOMETRIC_STEPS if geometric else _STEPS):
        middle = float(np.sqrt(low * high)) if geometric else (low + high) / 2
        before = (low, high)
        low, high = (middle, high) if function(middle) > 0 else (low, middle)
        if (low, high) == before:  # neighbors: the other halvings would change nothing
            break
    return (low + high) / 2


def _ball_support(eta: float, v: Floats) -> float:
    """Maximize ``theta' v`` over ``theta >= 0, eta sum theta + (1 - eta) sum theta^2 <= 1``."""
    if eta == 1.0 or not v.any():
        return float(v.max() / eta) if v.any() else 0.0

    def theta(multiplier: float) -> Floats:
        return np.maximum(0.0, (v / multiplier - eta) / (2 * (1 - eta)))

    def excess(multiplier: float) -> float:
        return float(eta * theta(multiplier).sum() + (1 - eta) * (theta(multiplier) ** 2).sum() - 1)

    top = float(v.sum()) * (1 + 1 / max(eta, 1 - eta))
    best = bisect_decreasing(excess, 1e-12 * top, 1e3 * top, geometric=True)
    return float(theta(best) @ v)


def _ball_reciprocal(eta: float, beta: Floats) -> float:
    """Minimize ``sum beta_m / theta_m`` over the same ball by bisection on the multiplier."""
    beta = beta[beta > 0]
    if not beta.size:
        return 0.0

    def theta(multiplier: float) -> Floats:
        low, high = np.full(beta.shape, 1e-100), np.full(beta.shape, 1e100)
        for _ in range(_GEOMETRIC_STEPS):
            middle = np.sqrt(low * high)
            above = multiplier * middle**2 * (eta + 2 * (1 - eta) * middle) > beta
            low, high = np.where(above, low, middle), np.where(above, middle, high)
        return np.sqrt(low * high)

    def excess(multiplier: float) -> float:
        weights = theta(multiplier)
        return float(eta * weights.sum() + (1 - eta) * (weights**2).sum() - 1)

    scale = float(beta.sum())
    return float((beta / theta(bisect_decreasing(excess, 1e-6 * scale, 1e6 * scale, geometric=True))).sum())


def _power_sum(x: Floats, exponent: float) -> float:
    """Return ``(sum x^exponent)^(1/exponent)`` without overflow."""
    top = float(x.max(initial=0.0))
    if top == 0.0 or np.isinf(exponent):
        return top
    return top * float(((x / top) ** exponent).sum() ** (1 / exponent))


def _elasticnet_conjugate(l1_ratio: float, c: float, u: Floats) -> float:
    excess = np.maximum(u - c * l1_ratio, 0)
    return float((excess**2).sum() / (2 * c * (1 - l1_ratio))) if l1_ratio < 1 else 0.0


def _lq_conjugate(q: float, c: float, u: Floats) -> float:
    dual = q / (q - 1)
    return float(c * ((u / c) ** dual).sum() / dual)


def _group_elasticnet(params: Parameters, c: float, t: Floats) -> float:
    ratio = params["l1_ratio"]
    return float(c * (ratio * t.sum() + (1 - ratio) / 2 * _power_sum(t, params["q"]) ** 2))


def _group_elasticnet_conjugate(params: Parameters, c: float, u: Floats) -> float:
    ratio, q = params["l1_ratio"], params["q"]
    return _power_sum(np.maximum(u - c * ratio, 0), q / (q - 1)) ** 2 / (2 * c * (1 - ratio))


_PENALTIES: dict[str, Callable[[Parameters, float, Floats], float]] = {
    "l1": lambda p, c, t: c * t.sum(),
    "elasticnet": lambda p, c, t: c * (p["l1_ratio"] * t.sum() + (1 - p["l1_ratio"]) * (t**2).sum() / 2),
    "lq": lambda p, c, t: c / p["q"] * (t ** p["q"]).sum(),
    "ridge": lambda p, c, t: c / 2 * (t**2).sum(),
    "simplex": lambda p, c, t: c / 2 * t.sum() ** 2,
    "lp_ball": lambda p, c, t: c / 2 * _power_sum(t, 2 * p["p"] / (p["p"] + 1)) ** 2,
    "elasticnet_ball": lambda p, c, t: c / 2 * _ball_reciprocal(p["eta"], t**2),
    "group_elasticnet": _group_elasticnet,
}
_PENALTY_CONJUGATES: dict[str, Callable[[Parameters, float, Floats], float]] = {
    "l1": lambda p, c, u: 0.0 if u.max(initial=0.0) <= c * (1 + 1e-12) else np.inf,
    "elasticnet": lambda p, c, u: _elasticnet_conjugate(p["l1_ratio"], c, u),
    "lq": lambda p, c, u: _lq_conjugate(p["q"], c, u),
    "ridge": lambda p, c, u: (u**2).sum() / (2 * c),
    "simplex": lambda p, c, u: u.max(initial=0.0) ** 2 / (2 * c),
    "lp_ball": lambda p, c, u: _power_sum(u**2, p["p"] / (p["p"] - 1) if p["p"] > 1 else np.inf) / (2 * c),
    "elasticnet_ball": lambda p, c, u: _ball_support(p["eta"], u**2) / (2 * c),
    "group_elasticnet": _group_elasticnet_conjugate,
}


def penalty_value(name: str, params: Parameters, strength: float, t: Floats) -> float:
    """Return ``Omega(t)``.

    Examples
    --------
    >>> penalty_value("simplex", {}, 2.0, np.array([1.0, 2.0]))
    9.0
    """
    return float(_PENALTIES[name](params, strength, t))


def penalty_conjugate(name: str, params: Parameters, strength: float, u: Floats) -> float:
    """Return ``Omega*(u)``; parameters as in :func:`penalty_value`, ``u_m = sqrt(rho' K_m rho) / w_m``.

    Examples
    --------
    >>> penalty_conjugate("ridge", {}, 2.0, np.array([2.0, 2.0]))
    2.0
    """
    return float(_PENALTY_CONJUGATES[name](params, strength, u))


def penalty_dual_scale(name: str, params: Parameters, strength: float, u: Floats) -> float:
    """Return the largest ``c`` in [0, 1] for which ``Omega*(c u)`` is finite.

    Examples
    --------
    >>> penalty_dual_scale("l1", {}, 1.0, np.array([0.5, 4.0]))
    0.25
    """
    top = float(u.max(initial=0.0))
    bounded = name == "l1" or (name == "elasticnet" and params["l1_ratio"] == 1)
    return min(1.0, strength / top) if bounded and top > 0 else 1.0


def weight_set_scale(name: str, params: Parameters, theta: Floats) -> float:
    """Return the number that puts ``theta`` over it on the boundary of a set of kernel weights.

    Examples
    --------
    >>> weight_set_scale("simplex", {}, np.array([0.5, 1.5]))
    2.0
    """
    if name == "simplex":
        return float(theta.sum())
    if name == "lp_ball":
        return _power_sum(theta, params["p"])
    half = params["eta"] * float(theta.sum()) / 2
    return half + float(np.sqrt(half**2 + (1 - params["eta"]) * float(theta @ theta)))
