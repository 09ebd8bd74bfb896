"""Small random problems of several targets with shared kernel weights, their conic optimum and certificate in NumPy.

``python -m tests.support.shared`` (part of ``make optima``) solves them by CVXPY and Clarabel and stores the objectives
at the solver's points, with numbers by which the problems are known again. That nothing lies below them is not taken on
trust: the tests compute dual values in NumPy.
"""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

STORED = Path(__file__).parent / "shared_optima.npz"
# 100 of the multinomial loss, 100 of several targets; the squared hinge loss takes the same way as the Huber loss.
CASES = (
    *(("logistic", index) for index in range(100)),
    *((("squared", "huber")[index % 2], index) for index in range(100)),
    *(("squared_hinge", index) for index in range(30)),
)

PENALTIES: tuple[tuple[str, dict[str, float]], ...] = (
    ("l1", {}),
    ("elasticnet", {"l1_ratio": 0.6}),
    ("lq", {"q": 1.5}),
    ("ridge", {}),
    ("simplex", {}),
)


@dataclass(frozen=True, eq=False)
class SharedCase:
    """Data of one problem; ``strength`` is relative to the norms at the zero model."""

    kernels: Floats
    y: Floats
    loss: str
    penalty: str
    parameters: dict[str, float]
    strength: float
    fit_intercept: bool
    sample_weight: Floats | None
    kernel_penalties: Floats | None

    @property
    def s(self) -> Floats:
        """Sample weights."""
        return np.ones(len(self.y)) if self.sample_weight is None else self.sample_weight

    @property
    def w(self) -> Floats:
        """Kernel penalties."""
        return np.ones(len(self.kernels)) if self.kernel_penalties is None else self.kernel_penalties


def shared_case(index: int, loss: str) -> SharedCase:
    """Return the random problem of this number: every penalty, with and without intercepts and weights."""
    rng = np.random.default_rng(1000 + index)
    n, m, t = int(rng.integers(10, 17)), int(rng.integers(2, 6)), int(rng.integers(2, 5))
    points = rng.normal(size=(m, n, 3))
    kernels = points @ points.transpose(0, 2, 1)
    if index % 3 == 0:
        kernels[0] = np.exp(-((points[0][:, None] - points[0]) ** 2).sum(axis=2) / 4)
    kernels /= np.trace(kernels, axis1=1, axis2=2)[:, None, None] / n
    penalty, parameters = PENALTIES[index % len(PENALTIES)]
    signal = points[0] @ rng.normal(size=(3, t)) + 0.5 * rng.normal(size=(n, t))
    return SharedCase(
        kernels=kernels,
        y=_targets(signal, loss, t),
        loss=loss,
        penalty=penalty,
        parameters=parameters,
        strength=float(np.exp(rng.uniform(np.log(0.1), np.log(3.0)))) * (0.3 if loss != "squared" else 1.0),
        fit_intercept=index % 2 == 0,
        sample_weight=rng.uniform(0.5, 2.0, n) if index % 4 == 1 else None,
        kernel_penalties=rng.uniform(0.5, 2.0, m) if index % 7 < 3 else None,
    )


def _targets(signal: Floats, loss: str, t: int) -> Floats:
    """Return numbers, or +1 in the column of the largest value: every class occurs."""
    if loss in ("squared", "huber"):
        return signal + 3.0 * (np.abs(signal) > 2)
    codes = signal.argmax(axis=1)
    codes[:t] = np.arange(t)
    return np.where(codes[:, None] == np.arange(t), 1.0, -1.0)


def shared_optimum(case: SharedCase) -> float:
    """Return the optimal primal objective by CVXPY and Clarabel, evaluated in NumPy at the solver's point."""
    import cvxpy as cp

    n, t = case.y.shape
    roots = [_root(gram) for gram in case.kernels]
    parts = [cp.Variable((root.shape[1], t)) for root in roots]
    b = cp.Variable((1, t))
    z = sum(root @ part for root, part in zip(roots, parts, strict=True))
    if case.fit_intercept:
        z = z + np.ones((n, 1)) @ b
    norms = cp.hstack([w * cp.norm(part, "fro") for w, part in zip(case.w, parts, strict=True)])
    loss, constraints = _conic_loss(cp, case, z)
    objective = cp.Minimize(loss + _conic_penalty(cp, case, norms))
    program = cp.Problem(objective, constraints)
    best = np.inf
    for tolerance, quadratic in ((1e-10, False), (1e-9, False), (1e-9, True), (1e-8, False)):
        options = {name: tolerance for name in ("tol_gap_abs", "tol_gap_rel", "tol_feas")}
        with suppress(cp.error.SolverError), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of an inaccurate answer, whose objective is an upper bound all the same
            program.solve(solver="CLARABEL", use_quad_obj=quadratic, **options)
            best = min(best, float(case.s @ _losses(case, z.value)) + _penalty(case, norms.value))
            if program.status == "optimal":
                break
    return best


def _root(gram: Floats) -> Floats:
    values, vectors = np.linalg.eigh(gram)
    kept = values > 1e-13 * values.max()
    return vectors[:, kept] * np.sqrt(values[kept])


def _conic_loss(cp: Any, case: SharedCase, z: Any) -> tuple[Any, list[Any]]:
    y, s = case.y, case.s
    if case.loss == "logistic":
        return s @ (cp.log_sum_exp(z, axis=1) - cp.sum(cp.multiply(y > 0, z), axis=1)), []
    if case.loss == "huber":
        return s @ cp.sum(cp.huber(z - y, 1.35) / 2, axis=1), []
    roots = np.sqrt(s)[:, None] * np.ones(y.shape)
    if case.loss == "squared":
        return cp.sum_squares(cp.multiply(roots, z - y)) / 2, []
    slack = cp.Variable(y.shape, nonneg=True)
    return cp.sum_squares(cp.multiply(roots, slack)) / 2, [slack >= 1 - cp.multiply(y, z)]


def _conic_penalty(cp: Any, case: SharedCase, t: Any) -> Any:
    c, own = case.strength, case.parameters
    if case.penalty == "l1":
        return c * cp.sum(t)
    if case.penalty == "elasticnet":
        return c * (own["l1_ratio"] * cp.sum(t) + (1 - own["l1_ratio"]) / 2 * cp.sum_squares(t))
    if case.penalty == "lq":
        return c / own["q"] * cp.sum(cp.power(t, own["q"]))
    return c / 2 * (cp.sum_squares(t) if case.penalty == "ridge" else cp.square(cp.sum(t)))


def shared_values(case: SharedCase, rho: Floats, d: Floats, b: Floats) -> tuple[float, float]:
    """Return the primal value of a model and the dual value of its coefficients, from the formulas alone.

    The coefficients must be feasible up to rounding; with the block 1-norm they are scaled to be.
    """
    norms_of = np.sqrt(np.maximum(np.einsum("mij,it,jt->m", case.kernels, rho, rho), 0.0))
    z = np.einsum("m,mij,jt->it", d, case.kernels, rho) + b
    primal = float(case.s @ _losses(case, z)) + _penalty(case, case.w * d * norms_of)
    u, scale = norms_of / case.w, 1.0
    if case.penalty == "l1":
        scale = min(1.0, case.strength / u.max())
    return primal, -float(case.s @ _conjugates(case, scale * rho / case.s[:, None])) - _conjugate(case, scale * u)


def _losses(case: SharedCase, z: Floats) -> Floats:
    y = case.y
    if case.loss == "logistic":
        return np.log(np.exp(z).sum(axis=1)) - (z * (y > 0)).sum(axis=1)
    if case.loss == "squared":
        each = (z - y) ** 2 / 2
    elif case.loss == "huber":
        size = np.abs(z - y)
        each = np.where(size <= 1.35, size**2 / 2, 1.35 * size - 1.35**2 / 2)
    else:
        each = np.maximum(1 - y * z, 0) ** 2 / 2
    return each.sum(axis=1)


def _conjugates(case: SharedCase, r: Floats) -> Floats:
    y = case.y
    if case.loss == "logistic":
        p = (y > 0) - r
        assert p.min() > -1e-9
        assert np.abs(p.sum(axis=1) - 1).max() < 1e-9
        p = np.clip(p, 1e-300, 1)
        return (p * np.log(p)).sum(axis=1)
    if case.loss == "huber":
        assert np.abs(r).max() < 1.35 + 1e-7
    if case.loss == "squared_hinge":
        assert (y * r).min() > -1e-7
    return (r**2 / 2 - y * r).sum(axis=1)


def _penalty(case: SharedCase, t: Floats) -> float:
    c, own = case.strength, case.parameters
    if case.penalty == "l1":
        return float(c * t.sum())
    if case.penalty == "elasticnet":
        return float(c * (own["l1_ratio"] * t.sum() + (1 - own["l1_ratio"]) / 2 * (t**2).sum()))
    if case.penalty == "lq":
        return float(c / own["q"] * (t ** own["q"]).sum())
    return float(c / 2 * ((t**2).sum() if case.penalty == "ridge" else t.sum() ** 2))


def _conjugate(case: SharedCase, u: Floats) -> float:
    c, own = case.strength, case.parameters
    if case.penalty == "l1":
        return 0.0
    if case.penalty == "elasticnet":
        excess = np.maximum(u - c * own["l1_ratio"], 0)
        return float((excess**2).sum() / (2 * c * (1 - own["l1_ratio"])))
    if case.penalty == "lq":
        r = own["q"] / (own["q"] - 1)
        return float(c / r * ((u / c) ** r).sum())
    return float(((u**2).sum() if case.penalty == "ridge" else u.max() ** 2) / (2 * c))


# --- stored optima ---------------------------------------------------------------------------------------------------


def fingerprint(case: SharedCase) -> Floats:
    """Return numbers that no other problem shares, and that last bits do not change."""
    waves = np.cos(1.0 + np.arange(case.kernels.size))
    parts = (case.kernels.ravel(), case.y.ravel(), case.s, case.w)
    return np.array([*(part @ waves[: part.size] for part in parts), case.strength, float(case.fit_intercept)])


@cache
def stored_optima() -> dict[tuple[str, int], float]:
    """Return the stored optimum of every problem, having seen that they are the problems of the file."""
    with np.load(STORED) as archive:
        optima, fingerprints = archive["optima"], archive["fingerprints"]
    now = np.array([fingerprint(shared_case(index, loss)) for loss, index in CASES])
    np.testing.assert_allclose(now, fingerprints, rtol=1e-9, atol=1e-9)
    return dict(zip(CASES, optima.tolist(), strict=True))


def store() -> None:
    """Solve all problems by the conic solver and write the file."""
    cases = [shared_case(index, loss) for loss, index in CASES]
    np.savez_compressed(
        STORED,
        optima=np.array([shared_optimum(case) for case in cases]),
        fingerprints=np.array([fingerprint(case) for case in cases]),
    )


if __name__ == "__main__":
    store()
