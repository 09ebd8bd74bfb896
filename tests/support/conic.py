"""The conic oracle: the optimum of a small problem by CVXPY and Clarabel, certified in plain NumPy."""

from __future__ import annotations

import importlib
import warnings
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from manykernels.testing.formulas import block_norms, penalty_value
from manykernels.testing.problems import SmallProblem
from manykernels.testing.solver import NumpyCertificate, certificate_in_numpy, dual_value, losses_at, projected

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ConicOptimum:
    """What the conic solver found: the objective at its primal point, its model, and the certificate of that model."""

    primal: float
    dual_coef: Floats
    kernel_weights: Floats
    intercept: float
    certificate: NumpyCertificate

    @property
    def excess(self) -> float:
        """How far ``primal`` can lie above the true optimum, relative to it: the bound that weak duality proves."""
        return (self.primal - self.certificate.dual) / max(abs(self.primal), np.finfo(float).tiny)


def cvxpy_optimum(problem: SmallProblem) -> float:
    """Return the optimal primal objective by CVXPY and Clarabel.

    Parameters
    ----------
    problem : SmallProblem
        At most some 50 samples and 20 kernels: the conic form has a variable per eigenvalue of every kernel.

    Returns
    -------
    float
        The objective at the solver's primal point, evaluated in NumPy: never below the true optimum.

    Raises
    ------
    ImportError
        If CVXPY or Clarabel is not installed.

    Examples
    --------
    >>> from manykernels.testing.problems import random_problem
    >>> small = random_problem(1, loss="hinge", regularizer="ridge")
    >>> cvxpy_optimum(small) > 0
    True
    """
    return conic_optimum(problem).primal


def conic_optimum(
    problem: SmallProblem, *, solver: str = "CLARABEL", target: float = 1e-9, accept: float = 1e-7, **options: Any
) -> ConicOptimum:
    """Solve the primal over factors ``K_m = L_m L_m'``, ``f_m = L_m v_m``, ``||f_m|| = ||v_m||``.

    Parameters
    ----------
    problem : SmallProblem
        The data.
    solver : str
        CVXPY's name of the solver.
    target : float
        Without options Clarabel is asked for 1e-11, then in other ways, until its answer is certified this far.
    accept : float
        An answer certified less far than this is refused.
    **options
        Options of the solver, for a single attempt.

    Returns
    -------
    ConicOptimum
        The best of the attempts, with the model ``(rho, d, b)`` rebuilt from the multiplier of
        ``z = sum_m L_m v_m + b`` and the block norms: the answer of the solver is itself certified.

    Raises
    ------
    ArithmeticError
        If no attempt is certified to ``accept``: the oracle does not guess.
    ImportError
        If CVXPY or Clarabel is not installed.

    Examples
    --------
    >>> from manykernels.testing.problems import random_problem
    >>> conic_optimum(random_problem(1, loss="squared", regularizer="ridge")).excess < 1e-7
    True
    """
    cp = _import_cvxpy()
    best: ConicOptimum | None = None
    rungs = [options] if options or solver != "CLARABEL" else _LADDER
    for attempt, cones in product(rungs, (False, True)):
        found = _attempt(cp, problem, solver, attempt, cones=cones)
        if found is not None and (best is None or abs(found.excess) < abs(best.excess)):
            best = found
        if best is not None and abs(best.excess) < target:
            break
    if best is None or best.excess > accept:
        reached = "no answer" if best is None else f"only {best.excess:.1e}"
        raise ArithmeticError(f"{solver} gave {reached} instead of {accept:.0e} on {problem.description!r}.")
    return best


def _clarabel(tolerance: float, **options: Any) -> dict[str, Any]:
    names = ("tol_gap_abs", "tol_gap_rel", "tol_feas")
    return {**dict.fromkeys(names, tolerance), "max_iter": 300, "accept_unknown": True, **options}


# Rounding stops Clarabel at a different place on every rung, and an unfinished answer may still be certified.
_LADDER = (
    _clarabel(1e-11),
    _clarabel(1e-9),
    _clarabel(1e-11, equilibrate_enable=False),
    _clarabel(1e-12, static_regularization_constant=1e-10, iterative_refinement_max_iter=50),
    _clarabel(1e-8),
)


def _attempt(
    cp: Any, problem: SmallProblem, solver: str, options: dict[str, Any], *, cones: bool
) -> ConicOptimum | None:
    factors, sizes = _factors(problem)
    blocks = [cp.Variable(factor.shape[1]) for factor in factors]
    z, b = cp.Variable(problem.y.size), cp.Variable()
    scores = sum((factor @ v for factor, v in zip(factors, blocks, strict=True)), start=np.zeros(problem.y.size))
    link = z == (scores + b if problem.fit_intercept else scores)
    norms = cp.hstack([size * cp.norm(v) for size, v in zip(sizes, blocks, strict=True)])
    unit = float(problem.weights @ losses_at(problem, np.zeros_like(problem.y))) / problem.y.size
    # Clarabel may stall at 1e-5 on squares of norms that are cones of their own where quadratic forms are solved to
    # 1e-13, and the other way round where kernels differ in scale by millions.
    squares = [size**2 * cp.sum_squares(v) for size, v in zip(sizes, blocks, strict=True)]
    penalty, constraints = _conic_penalty(cp, problem, norms, cp.sum_squares(norms) if cones else sum(squares))
    program = cp.Problem(cp.Minimize((_conic_loss(cp, problem, z) + penalty) / unit), [link, *constraints])
    if not _solved(cp, program, solver, options):
        return None
    f = np.sum([factor @ v.value for factor, v in zip(factors, blocks, strict=True)], axis=0)
    t = np.array([size * np.linalg.norm(v.value) for size, v in zip(sizes, blocks, strict=True)])
    return _certified(problem, f, t, float(b.value) if problem.fit_intercept else 0.0, unit * link.dual_value)


def _solved(cp: Any, program: Any, solver: str, options: dict[str, Any]) -> bool:
    """Run the solver; what it says of its own accuracy is ignored, since the answer is certified afterwards."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            program.solve(solver=solver, **options)
        except cp.SolverError:
            return False
    return all(variable.value is not None for variable in program.variables())


def proved_value(program: Any) -> float:
    """Solve a program of CVXPY and return its value, once Clarabel says that it is the optimum.

    Parameters
    ----------
    program : cvxpy.Problem
        A small convex program. Its variables hold the solution afterwards.

    Returns
    -------
    float
        The optimal value.

    Raises
    ------
    ArithmeticError
        If no attempt ends as optimal.

    Notes
    -----
    Clarabel may stop a little short of its tolerances, and a relative change of 1e-15 decides whether it does, but
    hardly ever does so in two ways of calculating.
    """
    cp = _import_cvxpy()
    for options in ({}, *_LADDER[2:], _clarabel(1e-7)):
        if _solved(cp, program, "CLARABEL", options) and program.status == "optimal":
            return float(program.value)
    raise ArithmeticError(f"Clarabel stopped short of the optimum in every way: {program.status}.")


def _import_cvxpy() -> Any:
    try:
        importlib.import_module("clarabel")
        return importlib.import_module("cvxpy")
    except ImportError as error:
        raise ImportError(
            "The conic oracle needs CVXPY and Clarabel: install them with `pip install cvxpy clarabel`."
        ) from error


def _factors(problem: SmallProblem) -> tuple[list[Floats], list[float]]:
    """Return ``L_m`` of unit mean squared row norm, and the factor from ``||v_m||`` to ``w_m ||f_m||``.

    Unit rows keep the equality constraints of the conic form well scaled whatever the scale of the kernel; zero
    kernels get one zero column.
    """
    factors, sizes = [], []
    for K, w in zip(problem.kernels, problem.penalties, strict=True):
        values, vectors = np.linalg.eigh(K)
        kept = values > 1e-15 * max(values[-1], np.finfo(float).tiny)
        kept[-1] = True
        scale = np.sqrt(np.maximum(values[kept], 0).mean() * kept.sum() / problem.y.size) or 1.0
        factors.append(vectors[:, kept] * np.sqrt(np.maximum(values[kept], 0)) / scale)
        sizes.append(float(w / scale))
    return factors, sizes


def _conic_loss(cp: Any, problem: SmallProblem, z: Any) -> Any:
    s, y, params = problem.weights, problem.y, problem.loss_params
    forms = {
        "logistic": lambda: cp.logistic(-cp.multiply(y, z)),
        "hinge": lambda: cp.pos(1 - cp.multiply(y, z)),
        "squared_hinge": lambda: cp.square(cp.pos(1 - cp.multiply(y, z))) / 2,
        "squared": lambda: cp.square(z - y) / 2,
        "epsilon_insensitive": lambda: cp.pos(cp.abs(z - y) - params["epsilon"]),
        "huber": lambda: cp.huber(z - y, params["delta"]) / 2,
        "quantile": lambda: cp.maximum(params["tau"] * (y - z), (params["tau"] - 1) * (y - z)),
        "poisson": lambda: cp.exp(z) - cp.multiply(y, z) - y + xlogy(y, y),
        "gamma": lambda: cp.multiply(y, cp.exp(-z)) + z - 1 - np.log(y),
    }
    return s @ forms[problem.loss_name]()


def _conic_penalty(cp: Any, problem: SmallProblem, t: Any, energy: Any) -> tuple[Any, list[Any]]:
    """Return Omega(t) and the constraints it brings along; ``energy`` is the sum of the squares of t."""
    c, params = problem.strength, problem.regularizer_params
    if problem.regularizer_name == "elasticnet_ball":
        theta, eta = cp.Variable(problem.kernels.shape[0]), params["eta"]
        reciprocal = sum(cp.quad_over_lin(t[m], theta[m]) for m in range(problem.kernels.shape[0]))
        return c / 2 * reciprocal, [eta * cp.sum(theta) + (1 - eta) * cp.sum_squares(theta) <= 1]
    forms = {
        "l1": lambda: cp.sum(t),
        "elasticnet": lambda: params["l1_ratio"] * cp.sum(t) + (1 - params["l1_ratio"]) / 2 * energy,
        "lq": lambda: cp.sum(cp.power(t, params["q"])) / params["q"],
        "ridge": lambda: energy / 2,
        "simplex": lambda: cp.square(cp.sum(t)) / 2,
        "lp_ball": lambda: cp.square(cp.pnorm(t, 2 * params["p"] / (params["p"] + 1))) / 2,
        "group_elasticnet": lambda: (
            params["l1_ratio"] * cp.sum(t) + (1 - params["l1_ratio"]) / 2 * cp.square(cp.pnorm(t, params["q"]))
        ),
    }
    return c * forms[problem.regularizer_name](), []


def _certified(problem: SmallProblem, f: Floats, t: Floats, b: float, multiplier: Floats) -> ConicOptimum:
    """Evaluate the primal at the solver's point and certify the model rebuilt from its multiplier."""
    penalty = penalty_value(problem.regularizer_name, problem.regularizer_params, problem.strength, t)
    primal = float(problem.weights @ losses_at(problem, f + b)) + penalty
    rho = _aligned(problem, multiplier, f)
    u = block_norms(problem.kernels, rho)
    d = np.divide(t / problem.penalties, u, out=np.zeros_like(u), where=u > 0)
    return ConicOptimum(primal, rho, d, b, certificate_in_numpy(problem, rho, d, b))


def _aligned(problem: SmallProblem, multiplier: Floats, f: Floats) -> Floats:
    """Give the multiplier the sign of ``f' rho >= 0``: conventions differ between versions of CVXPY."""
    best = [dual_value(problem, projected(problem, sign * multiplier)) for sign in (1.0, -1.0)]
    return multiplier if best[0] >= best[1] else -multiplier
