"""A solver of one's own: ridge with the squared loss in one linear system.

A solver says what it needs of loss and regularizer, and supplies three methods: where it starts, what an iteration is,
and which model it stands at. The loop, the clock, the certificate, the callback and the warning are the library's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from manykernels import Gaussian, KernelBank, MKLRegressor
from manykernels.exceptions import IncompatibleError
from manykernels.objective import Capability, Problem, get_loss, get_regularizer
from manykernels.solvers import Solver


@dataclass(frozen=True, kw_only=True)
class DirectRidge(Solver):
    """Solve ``(sum_m d_m K_m + diag(curvature/s)) rho + b = y``, ``sum rho = 0``, at the only possible ``d``."""

    name: ClassVar[str] = "direct_ridge"
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.LINEAR_DUAL, Capability.FIXED_WEIGHTS})

    def initialize(self, problem, start):
        return {"model": start, "systems": 0}

    def step(self, problem, state):
        n = problem.n_samples
        d = np.broadcast_to(problem.regularizer.weight_range[1], problem.n_kernels) / problem.penalties**2
        matrix = np.zeros((n + 1, n + 1))
        matrix[:n, :n] = problem.stack.combine(d)
        matrix[np.arange(n), np.arange(n)] += problem.loss.curvature / problem.weight
        matrix[n, n] = 1.0
        if problem.fit_intercept:
            matrix[:n, n] = matrix[n, :n] = 1.0
            matrix[n, n] = 0.0
        solved = np.linalg.solve(matrix, np.append(problem.y, 0.0))
        state["model"] = solved[:n], d, float(solved[n])
        state["systems"] += 1

    def extract(self, problem, state):
        return state["model"]

    def newton_steps(self, state):
        return state["systems"]


def main() -> None:
    """Solve a problem directly, through an estimator, and see a problem refused in words."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (80, 2))
    y = np.sin(4 * X[:, 0]) + 0.1 * rng.standard_normal(80)
    bank = KernelBank([(f"x{j} w{w}", Gaussian(w), [j]) for j in (0, 1) for w in (0.1, 0.5)])
    model = MKLRegressor(bank, penalty="ridge", alpha=0.01, solver=DirectRidge(tol=1e-8)).fit(X, y)
    print(f"{model.solution_.solver}: gap {model.dual_gap_:.0e}, R2 {model.score(X, y):.3f}")
    try:
        DirectRidge().solve(Problem(np.eye(80)[None], y, get_loss("huber"), get_regularizer("l1", 0.1)))
    except IncompatibleError as error:
        print(error)


if __name__ == "__main__":
    main()
