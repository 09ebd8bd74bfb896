"""
Solvers side by side
====================

The published algorithms and the default one on the same problem, under the same certificate: how
far from the optimum is each after which time?
"""

from sklearn.datasets import load_breast_cancer

from manykernels import KernelBank, solve
from manykernels.grams import build_stack
from manykernels.inspection import ConvergenceDisplay

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X, y = X[:300], y[:300]
bank = KernelBank.per_feature(
    widths=["0.5*median", "median", "2*median"], standardize=True, normalize="mean_diagonal"
)
stack = build_stack(bank.fit(X), X)
runs = {}
for name in ("working_set", "block_coordinate", "hessianmkl", "simplemkl", "levelmkl"):
    runs[name] = solve(
        stack,
        2.0 * y - 1,
        loss="hinge",
        penalty="simplex",
        alpha=0.05,
        solver=name,
        tol=1e-3,
    )
    gap, passes = runs[name].certificate.relative_gap, runs[name].passes
    print(f"{name:16} {runs[name].status}, gap {gap:.0e}, {passes:.0f} passes")
ConvergenceDisplay.from_solution(runs).plot(x="passes")

# %%
# A pass is one reading of all kernels, the unit of cost. All reach the same optimum; see
# :doc:`/solvers`.
