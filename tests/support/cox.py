"""A hundred small problems of Cox's partial likelihood, their formulas in plain NumPy, and their optima by CVXPY.

``python -m tests.support.cox`` solves them anew with Clarabel (exponential cones), which takes a minute.
"""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manykernels.objective import CoxPartial, Problem, get_regularizer, survival_target
from manykernels.testing.formulas import penalty_conjugate, penalty_dual_scale, penalty_value
from manykernels.testing.problems import REGULARIZERS, random_problem

COUNT = 100
STORED = Path(__file__).parent / "cox_optima.npy"

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Term:
    """``size * log(at_risk @ exp(z))``, and the weights of its tie."""

    size: float
    at_risk: Floats
    tie: Floats


@dataclass(frozen=True, eq=False)
class CoxCase:
    """One problem as plain arrays."""

    kernels: Floats
    time: Floats
    event: NDArray[np.bool_]
    strata: NDArray[np.intp]
    weights: Floats
    penalties: Floats
    efron: bool
    regularizer: str
    params: dict[str, float]
    strength: float

    @property
    def hits(self) -> Floats:
        """Weights of the events."""
        return np.where(self.event, self.weights, 0.0)

    def problem(self, strength: float | None = None) -> Problem:
        """Return it as the library has it."""
        return Problem(
            self.kernels,
            survival_target(self.event, self.time, self.strata),
            CoxPartial("efron" if self.efron else "breslow"),
            get_regularizer(self.regularizer, self.strength if strength is None else strength, **self.params),
            sample_weight=self.weights,
            kernel_penalties=self.penalties,
        )

    def terms(self) -> list[Term]:
        """Return the terms of the loss, risk set by risk set."""
        found = []
        for stratum in np.unique(self.strata):
            inside = self.strata == stratum
            for t in np.unique(self.time[inside & self.event]):
                tied = inside & self.event & (self.time == t)
                total, count = self.weights[tied].sum(), int(tied.sum())
                for k in range(count if self.efron else 1):
                    left = 1.0 - k / count
                    at_risk = np.where(inside & (self.time >= t), self.weights, 0.0)
                    at_risk[tied] *= left
                    size = total / count if self.efron else total
                    found.append(Term(size, at_risk / (total * left), np.where(tied, self.weights, 0.0) / total))
        return found

    def loss(self, z: Floats) -> float:
        """Return the loss from its terms."""
        top = z.max()
        logs = [term.size * (np.log(term.at_risk @ np.exp(z - top)) + top) for term in self.terms()]
        return float(np.sum(logs) - self.hits @ z)

    def softmax(self, z: Floats) -> Floats:
        """Return the shares of the samples in each term, (n_terms, N)."""
        shares = np.array([term.at_risk * np.exp(z - z.max()) for term in self.terms()])
        return shares / shares.sum(axis=1, keepdims=True)

    def primal(self, rho: Floats, d: Floats) -> float:
        """Return the objective of a model."""
        products = self.kernels @ rho
        norms = self.penalties * d * np.sqrt(np.maximum(products @ rho, 0.0))
        return self.loss(d @ products) + penalty_value(self.regularizer, self.params, self.strength, norms)

    def dual(self, z: Floats) -> float:
        """Return the lower bound that scores give: their softmax mixed with the ties until the norms are feasible."""
        terms, shares = self.terms(), self.softmax(z)
        sizes = np.array([term.size for term in terms])
        rho = self.hits - sizes @ shares
        u = np.sqrt(np.maximum(np.einsum("i,mij,j->m", rho, self.kernels, rho), 0.0)) / self.penalties
        scale = penalty_dual_scale(self.regularizer, self.params, self.strength, u)
        fit = 0.0
        for term, share in zip(terms, shares, strict=True):
            mixed = scale * share + (1.0 - scale) * term.tie
            there = mixed > 0
            fit += term.size * float(mixed[there] @ np.log(mixed[there] / term.at_risk[there]))
        return -fit - penalty_conjugate(self.regularizer, self.params, self.strength, scale * u)

    def scores_behind(self, rho: Floats, z: Floats) -> Floats:
        """Return scores whose gradient is ``-rho``, by Newton steps from ``z`` with a pseudo-inverse."""
        sizes, best = np.array([term.size for term in self.terms()]), np.inf
        for _ in range(30):
            shares = self.softmax(z)
            missing = rho - self.hits + sizes @ shares
            if not np.abs(missing).sum() < best:
                break
            best, found = np.abs(missing).sum(), z
            hessian = np.diag(sizes @ shares) - shares.T @ (sizes[:, None] * shares)
            z = z - np.linalg.lstsq(hessian, missing, rcond=1e-14)[0]
        return found


def draw(seed: int) -> CoxCase:
    """Draw a problem: every penalty, half of them with ties, a quarter with strata, half with weights."""
    rng = np.random.default_rng([seed, 20251])
    regularizer = REGULARIZERS[seed % len(REGULARIZERS)]
    small = random_problem(seed, loss="squared", regularizer=regularizer, weighted=bool(seed // 5 % 2))
    n = len(small.y)
    hazard = np.exp(np.clip((small.y - small.y.mean()) / small.y.std(), -2, 2))
    seen, censored = rng.exponential(1 / hazard), rng.exponential(1.5, n)
    time, event = np.minimum(seen, censored), seen <= censored
    event[np.argmin(time)] = True
    if seed % 3:
        time = np.ceil(3 * time)
    strata = rng.integers(0, 3, n) if seed % 4 == 0 else np.zeros(n, dtype=np.intp)
    diagonals = np.einsum("mii->m", small.kernels) / n
    case = CoxCase(
        small.kernels / np.where(diagonals > 0, diagonals, 1.0)[:, None, None],
        time,
        event,
        strata,
        small.weights,
        small.penalties,
        bool(seed // 2 % 2),
        regularizer,
        small.regularizer_params,
        1.0,
    )
    problem = case.problem(1.0)
    u = problem.dual_norms(problem.zero_model()[0])
    squares = u.max() ** 2 if regularizer == "simplex" else (u**2).sum()
    reference = float(u.max()) if regularizer in ("l1", "elasticnet") else float(squares) / problem.loss_at_zero
    return CoxCase(**{**vars(case), "strength": 10 ** rng.uniform(-1.5, -0.2) * reference})


@cache
def cases() -> tuple[CoxCase, ...]:
    """Return the hundred problems."""
    return tuple(draw(seed) for seed in range(COUNT))


def conic_value(case: CoxCase) -> float:
    """Return the smallest objective that CVXPY and Clarabel find, evaluated in NumPy."""
    import cvxpy as cp

    factors = []
    for kernel in case.kernels:
        values, vectors = np.linalg.eigh(kernel)
        kept = values > 1e-14 * max(values[-1], np.finfo(float).tiny)
        kept[-1] = True
        factors.append(vectors[:, kept] * np.sqrt(np.maximum(values[kept], 0.0)))
    sizes = [float(np.sqrt((factor**2).sum() / len(factor))) or 1.0 for factor in factors]
    blocks = [cp.Variable(factor.shape[1]) for factor in factors]
    z = cp.Variable(len(case.time))
    scores = sum((factor / size) @ v for factor, size, v in zip(factors, sizes, blocks, strict=True))
    t = cp.hstack([w / size * cp.norm(v) for w, size, v in zip(case.penalties, sizes, blocks, strict=True)])
    logs: list[Any] = []
    for term in case.terms():
        there = np.flatnonzero(term.at_risk)
        logs.append(term.size * cp.log_sum_exp(z[there] + np.log(term.at_risk[there])))
    c, params = case.strength, case.params
    squares = cp.sum([cp.sum_squares(w / s * v) for w, s, v in zip(case.penalties, sizes, blocks, strict=True)])
    unit, best = case.loss(np.zeros(len(case.time))) / len(case.time) + 1e-3, np.inf
    # Clarabel may stall on squares of norms where quadratic forms are solved, and the other way round.
    for energy, tolerance in product((squares, cp.sum_squares(t)), (1e-10, 1e-8)):
        omega = {
            "l1": lambda: c * cp.sum(t),
            "elasticnet": lambda e=energy: c * (params["l1_ratio"] * cp.sum(t) + (1 - params["l1_ratio"]) / 2 * e),
            "lq": lambda: c * cp.sum(cp.power(t, params["q"])) / params["q"],
            "ridge": lambda e=energy: c * e / 2,
            "simplex": lambda: c * cp.square(cp.sum(t)) / 2,
        }[case.regularizer]()
        objective = (cp.sum(cp.hstack(logs)) - case.hits @ z + omega) / unit
        options = {"tol_gap_abs": tolerance, "tol_gap_rel": tolerance, "tol_feas": tolerance}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with suppress(cp.SolverError):
                cp.Problem(cp.Minimize(objective), [z == scores]).solve(
                    solver="CLARABEL", accept_unknown=True, max_iter=300, **options
                )
        if z.value is None:
            continue
        f = np.sum([f @ v.value / s for f, v, s in zip(factors, blocks, sizes, strict=True)], axis=0)
        norms = np.array(
            [w / s * np.linalg.norm(v.value) for w, s, v in zip(case.penalties, sizes, blocks, strict=True)]
        )
        best = min(best, case.loss(f) + penalty_value(case.regularizer, params, c, norms))
    return float(best)


if __name__ == "__main__":
    np.save(STORED, [conic_value(case) for case in cases()])
