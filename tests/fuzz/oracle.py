"""The certificate once more, in extended precision and from the formulas alone: it shares no code with the library.

Losses, conjugates and regularizers stand here as they stand in the literature (sections 3 and 4 of the mathematics that
the library follows), evaluated in `numpy.longdouble`. What is returned are the true primal value of a model and a true
lower bound on the optimum; the bound uses the model's own dual coefficients, made feasible.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Long = np.longdouble
EPS = float(np.finfo(Long).eps)
BISECTIONS = 200


def _long(values: Any) -> Any:
    return np.asarray(values, dtype=Long)


# --- losses: value l(y, z), conjugate l*(y, -r) and the ends of the box of r ------------------------------------------


def loss_value(name: str, y: Any, z: Any, p: dict[str, float]) -> Any:
    residual, margin = y - z, y * z
    match name:
        case "logistic":
            return np.maximum(-margin, 0) + np.log1p(np.exp(-np.abs(margin)))
        case "hinge":
            return np.maximum(1 - margin, 0)
        case "squared_hinge":
            return np.maximum(1 - margin, 0) ** 2 / 2
        case "squared":
            return residual**2 / 2
        case "epsilon_insensitive":
            return np.maximum(np.abs(residual) - Long(p["epsilon"]), 0)
        case "huber":
            size, delta = np.abs(residual), Long(p["delta"])
            return np.where(size <= delta, size**2 / 2, delta * (size - delta / 2))
        case "quantile":
            tau = Long(p["tau"])
            return np.maximum(tau * residual, (tau - 1) * residual)
    raise ValueError(name)


def _entropy(p: Any) -> Any:
    return np.where(p > 0, p * np.log(np.where(p > 0, p, 1)), 0)


def loss_conjugate(name: str, y: Any, r: Any, p: dict[str, float]) -> Any:
    match name:
        case "logistic":
            probability = np.clip(y * r, 0, 1)
            rest = 1 - probability  # its logarithm is taken of the probability: near 1 the difference has lost digits
            logarithm = np.where(rest > 0, np.log1p(-np.where(rest > 0, probability, 0)), 0)
            return _entropy(probability) + rest * logarithm
        case "squared" | "squared_hinge" | "huber":
            return r**2 / 2 - y * r
        case "hinge" | "quantile":
            return -y * r
        case "epsilon_insensitive":
            return -y * r + Long(p["epsilon"]) * np.abs(r)
    raise ValueError(name)


def box(name: str, y: Any, p: dict[str, float]) -> tuple[Any, Any]:
    zero, infinite = np.zeros_like(y), np.full_like(y, np.inf)
    match name:
        case "logistic" | "hinge":
            return np.minimum(y, zero), np.maximum(y, zero)
        case "squared_hinge":
            return np.where(y > 0, zero, -infinite), np.where(y > 0, infinite, zero)
        case "squared":
            return -infinite, infinite
        case "epsilon_insensitive":
            return zero - 1, zero + 1
        case "huber":
            return zero - Long(p["delta"]), zero + Long(p["delta"])
        case "quantile":
            return zero + Long(p["tau"]) - 1, zero + Long(p["tau"])
    raise ValueError(name)


def feasible(r: Any, low: Any, high: Any, zero_sum: bool) -> Any:
    """Nearest point of the box, and of the plane of zero sum, up to extended precision."""
    if not zero_sum:
        return np.clip(r, low, high)
    finite = np.concatenate([r, (r - low)[np.isfinite(low)], (r - high)[np.isfinite(high)]])
    left, right = finite.min() - 1, finite.max() + 1
    for _ in range(BISECTIONS):
        middle = (left + right) / 2
        if np.clip(r - middle, low, high).sum() > 0:
            left = middle
        else:
            right = middle
    x = np.clip(r - left, low, high)
    for _ in range(3):  # what the bisection leaves is spread over coefficients that have room
        missing = x.sum()
        free = (x > low) & (x < high)
        if missing == 0 or not free.any():
            break
        x = np.where(free, np.clip(x - missing / free.sum(), low, high), x)
    return x


# --- regularizers: value Omega(t), conjugate Omega*(u), and the scale that makes the conjugate finite -----------------


def _ball_bound(v: Any, eta: Any) -> Any:
    """``max theta'v`` over ``eta |theta|_1 + (1 - eta) |theta|_2^2 <= 1``, as the smallest value of its dual."""
    top = v.max()
    if top == 0:
        return top
    if eta == 1:
        return top
    v = v / top

    def bound(mu: Any) -> Any:
        return mu + (np.maximum(v - mu * eta, 0) ** 2).sum() / (4 * mu * (1 - eta))

    def slope(mu: Any) -> Any:
        excess = np.maximum(v - mu * eta, 0)
        return 1 - (2 * eta * excess * mu + excess**2).sum() / (4 * mu**2 * (1 - eta))

    left, right = Long(1e-30), Long(v.size + 1) * 2 / max(eta, 1 - eta)
    for _ in range(BISECTIONS):
        middle = np.sqrt(left * right) if right > 4 * left else (left + right) / 2
        if slope(middle) < 0:
            left = middle
        else:
            right = middle
    return top * min(bound(left), bound(right))


def _ball_value(t: Any, eta: Any) -> Any:
    """``min sum t^2 / theta`` over the same set, at feasible weights: from above."""
    top = t.max()
    if top == 0:
        return top
    if eta == 1:
        return t.sum() ** 2
    t = t[t > 0] / top

    def theta_of(mu: Any) -> Any:
        """Roots of ``t^2 = mu theta^2 (eta + 2 (1 - eta) theta)``."""
        low, high = np.zeros_like(t), np.cbrt(t**2 / (2 * mu * (1 - eta)))
        if eta > 0:
            high = np.minimum(high, t / np.sqrt(mu * eta))
        for _ in range(80):
            middle = (low + high) / 2
            above = mu * middle**2 * (eta + 2 * (1 - eta) * middle) > t**2
            low, high = np.where(above, low, middle), np.where(above, middle, high)
        return high

    def size(theta: Any) -> Any:
        return eta * theta.sum() + (1 - eta) * (theta**2).sum()

    left, right = Long(1e-12), Long(1e4) * t.size**3
    for _ in range(100):
        middle = np.sqrt(left * right)
        if size(theta_of(middle)) > 1:
            left = middle
        else:
            right = middle
    theta = theta_of(right)
    half = eta * theta.sum() / 2
    scale = half + np.sqrt(half**2 + (1 - eta) * (theta**2).sum())  # eta |theta|/s + (1 - eta) |theta|^2/s^2 = 1
    return top**2 * (t**2 / theta).sum() * scale


def _norm(values: Any, exponent: Any) -> Any:
    top = values.max()
    return top if top == 0 or np.isinf(exponent) else top * ((values / top) ** exponent).sum() ** (1 / exponent)


def penalty(name: str, c: Any, t: Any, p: dict[str, float]) -> Any:
    match name:
        case "l1":
            return c * t.sum()
        case "elasticnet":
            ratio = Long(p["l1_ratio"])
            return c * (ratio * t + (1 - ratio) * t**2 / 2).sum()
        case "lq":
            return c / Long(p["q"]) * (t ** Long(p["q"])).sum()
        case "ridge":
            return c * (t**2).sum() / 2
        case "simplex":
            return c * t.sum() ** 2 / 2
        case "lp_ball":
            return c * _norm(t, 2 * Long(p["p"]) / (Long(p["p"]) + 1)) ** 2 / 2
        case "elasticnet_ball":
            return c * _ball_value(t, Long(p["eta"])) / 2
        case "group_elasticnet":
            ratio = Long(p["l1_ratio"])
            return c * (ratio * t.sum() + (1 - ratio) * _norm(t, Long(p["q"])) ** 2 / 2)
    raise ValueError(name)


def dual_scale(name: str, c: Any, u: Any, p: dict[str, float]) -> Any:
    if name == "l1" or (name == "elasticnet" and p["l1_ratio"] == 1):
        return min(Long(1), c / u.max()) if u.max() > 0 else Long(1)
    return Long(1)


def conjugate(name: str, c: Any, u: Any, p: dict[str, float]) -> Any:
    """``Omega*(u)``, for ``u`` that was scaled."""
    match name:
        case "l1":
            return Long(0)
        case "elasticnet":
            ratio = Long(p["l1_ratio"])
            return Long(0) if ratio == 1 else (np.maximum(u - c * ratio, 0) ** 2).sum() / (2 * c * (1 - ratio))
        case "lq":
            r = Long(p["q"]) / (Long(p["q"]) - 1)
            return c * ((u / c) ** r).sum() / r
        case "ridge":
            return (u**2).sum() / (2 * c)
        case "simplex":
            return u.max() ** 2 / (2 * c)
        case "lp_ball":
            exponent = Long(np.inf) if p["p"] == 1 else 2 * Long(p["p"]) / (Long(p["p"]) - 1)
            return _norm(u, exponent) ** 2 / (2 * c)
        case "elasticnet_ball":
            return _ball_bound(u**2, Long(p["eta"])) / (2 * c)
        case "group_elasticnet":
            ratio, q = Long(p["l1_ratio"]), Long(p["q"])
            return _norm(np.maximum(u - c * ratio, 0), q / (q - 1)) ** 2 / (2 * c * (1 - ratio))
    raise ValueError(name)


# --- the certificate --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TrueBounds:
    """Primal value of a model, the dual bound of its own coefficients, and the value of the model without kernels."""

    primal: float
    dual: float
    at_zero: float

    @property
    def relative_gap(self) -> float:
        """Gap over the primal value, or over 1e-10 times the loss of the best constant where that is larger."""
        return float(
            (self.primal - self.dual) / max(abs(self.primal), 1e-10 * self.at_zero, float(np.finfo(float).tiny))
        )


def true_bounds(case: Any, rho: Any, d: Any, b: float, grams: Any = None) -> TrueBounds:
    """Evaluate a model on the data of ``case``, with other kernels if they are given."""
    grams, y, s, w = (
        _long(part) for part in (case.grams if grams is None else grams, case.y, case.weights, case.penalties)
    )
    rho, d, c = _long(rho), _long(d), Long(case.strength)
    name, p = case.loss, case.loss_parameters
    products = np.stack([gram @ rho for gram in grams])
    z = d @ products + Long(b)
    norms = np.sqrt(np.maximum(products @ rho, 0))
    value = (s * loss_value(name, y, z, p)).sum() + penalty(case.regularizer, c, w * d * norms, case.parameters)
    low, high = box(name, y, p)
    r = feasible(rho, s * low, s * high, case.fit_intercept)
    u = np.sqrt(np.maximum(np.stack([gram @ r for gram in grams]) @ r, 0)) / w
    scale = dual_scale(case.regularizer, c, u, case.parameters)
    bound = -(s * loss_conjugate(name, y, scale * r / s, p)).sum() - conjugate(
        case.regularizer, c, scale * u, case.parameters
    )
    loss_at_zero = (s * loss_value(name, y, np.zeros_like(y), p)).sum()
    return TrueBounds(value, bound, max(zero_value(case), 1e-19 * loss_at_zero))


def zero_value(case: Any) -> Any:
    """Value of the best model without kernels, by a golden-section search for its intercept."""
    y, s, name, p = _long(case.y), _long(case.weights), case.loss, case.loss_parameters

    def value(b: Any) -> Any:
        return (s * loss_value(name, y, np.full_like(y, b), p)).sum()

    if not case.fit_intercept:
        return value(Long(0))
    margin = 40 if name == "logistic" else 1
    left, right = y.min() - margin, y.max() + margin
    ratio = (np.sqrt(Long(5)) - 1) / 2
    for _ in range(120):
        inner = right - ratio * (right - left), left + ratio * (right - left)
        if value(inner[0]) < value(inner[1]):
            right = inner[1]
        else:
            left = inner[0]
    return value((left + right) / 2)
