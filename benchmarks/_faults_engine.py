"""Reported faults of solvers on factors."""

from __future__ import annotations

from _faults import Case

OPENED = """
import numpy as np
from manykernels import KernelBank
from manykernels.grams.factored import factored_stack
from manykernels.objective import Problem, get_loss, get_regularizer
from manykernels.solvers.factored.solver import FactoredNewton

X = np.random.default_rng(0).normal(size=(120, 6))
y = np.sin(2 * X[:, 0]) + 0.1 * np.random.default_rng(1).normal(size=120)
stack = factored_stack(X, KernelBank.per_feature(widths=[0.5, 2.0]))

def posed(y, loss="squared", fraction=0.5):
    return Problem(stack, y, loss, get_regularizer("l1", 1.0)).at_fraction(fraction)
"""

CASES = (
    Case(
        "-",
        "a fit goes on from a model after the strength was set as a fraction of the largest",
        OPENED
        + """
first = FactoredNewton(tol=1e-6).solve(posed(-y))
best = FactoredNewton(tol=1e-8).solve(posed(y)).certificate.primal
found = FactoredNewton(tol=1e-6).solve(posed(y), warm_start=first).certificate
print(f"optimum {best:.3f}, claimed lower bound {found.dual:.3f}")
""",
        "tests/solvers/factored/test_state.py",
    ),
    Case(
        "-",
        "passes of a warm-started fit with loss='squared', and with one loss object",
        OPENED
        + """
own, counts = get_loss("squared"), []
for losses in ((own, own), ("squared", "squared")):
    problem = posed(y, losses[0])
    first = FactoredNewton(tol=1e-4).solve(problem)
    other = Problem(stack, y, losses[1], get_regularizer("l1", 0.9 * problem.regularizer.strength))
    before = stack.counters.passes
    FactoredNewton(tol=1e-4).solve(other, warm_start=first)
    counts.append(stack.counters.passes - before)
print(f"object: {counts[0]:g} passes; name: {counts[1]:g}")
""",
        "tests/solvers/factored/test_state.py",
    ),
)
