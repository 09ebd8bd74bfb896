"""The lasso on a few features: coordinate descent until the support hardly changes, then the exact point of it."""

from __future__ import annotations

import warnings

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from sklearn.exceptions import ConvergenceWarning as SlowConvergence
from sklearn.linear_model import lasso_path

from manykernels.discovery.polynomial.tuning import PATH_SWEEPS, PATH_TOL, PATH_VIOLATION, SUPPORT_SWEEPS, SUPPORT_TURNS
from manykernels.validation.arrays import Array


def restricted_lasso(design: Array, target: Array, mu: float, start: Array) -> Array:
    """Return the minimizer of ``1/2 ||target - design c||^2 + mu ||c||_1``, (m,).

    Where features are as many as samples and alike, coordinate descent takes thousands of sweeps for the last digits of
    coefficients whose signs it knows after a few. At fixed signs the problem is a linear system: its solution is the
    optimum if it has these signs and no other feature violates the conditions. Else the way to it is followed until
    a coefficient vanishes, which lowers the objective as well, and sweeps go on from there.
    """
    products, sides, found = design.T @ design, design.T @ target, start
    design = np.asfortranarray(design)
    for _ in range(PATH_SWEEPS // SUPPORT_SWEEPS):
        found = _swept(design, target, mu, found, products, sides)
        found = _at_fixed_signs(products, sides, mu, found)
        slopes = sides - products @ found
        misses = np.where(found == 0, np.abs(slopes) - mu, np.abs(slopes - mu * np.sign(found)))
        if misses.max(initial=0.0) <= PATH_VIOLATION * mu:
            break
    return found


def _swept(design: Array, target: Array, mu: float, start: Array, products: Array, sides: Array) -> Array:
    """Return what sweeps of coordinate descent make of a start."""
    # So small a gap that a product beyond the strength is one, and not what an unfinished solution left over.
    tol = PATH_TOL * mu**2 / (2.0 * len(target) * max(float(target @ target), np.finfo(float).tiny))
    with warnings.catch_warnings():
        # Whatever is not at its optimum here is found by the next survey, or costs a little error of a fold.
        warnings.simplefilter("ignore", SlowConvergence)
        path = lasso_path(
            design, target, alphas=[mu / len(target)], precompute=products, Xy=sides, coef_init=start, tol=tol,
            max_iter=SUPPORT_SWEEPS,
        )[1]  # fmt: skip
    found: Array = path[:, 0]
    return found


def _at_fixed_signs(products: Array, sides: Array, mu: float, found: Array) -> Array:
    """Return the optimum of the support, made smaller until signs agree, or the way to it as far as it was followed."""
    for _ in range(SUPPORT_TURNS):
        at = np.flatnonzero(found)
        if not len(at):
            break
        signs = np.sign(found[at])
        try:
            factor = cho_factor(products[np.ix_(at, at)], check_finite=False)
        except np.linalg.LinAlgError:
            break  # features that depend on each other: sweeps choose among them
        goal = cho_solve(factor, sides[at] - mu * signs, check_finite=False)
        crossing = np.full(len(at), np.inf)  # shares of the way at which coefficients vanish
        np.divide(found[at], found[at] - goal, out=crossing, where=goal * signs <= 0)
        share = min(float(crossing.min()), 1.0)
        moved = found[at] + share * (goal - found[at])
        moved[crossing <= share] = 0.0
        found = np.zeros_like(found)
        found[at] = moved
        if share == 1.0:
            break
    return found
