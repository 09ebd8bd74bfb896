"""Numbers of Newton's method on smooth duals that follow from no theorem: they decide the time, not what is certified.

`benchmarks/solvers.py --solvers spicymkl smooth_dual` and `benchmarks/auto.py` measure what they cost; coefficients are
held at their ends because of problem 0 of `benchmarks/nasty.py`.
"""

from __future__ import annotations

# Iteration
ARMIJO = 1e-4
INSIDE = 0.98  # share of the distance to the end of the domain that a step may use up
SHORTEST = 1e-10
ROUNDING = 1e-13  # relative increase of the objective that may be rounding
MOST_HOLDS = 4  # systems solved for a direction; each holds the coefficients that the one before sent beyond their ends
FALL = 0.1  # of the barrier in a step
LARGEST_RISE = 10.0  # of the barrier, when the problem has changed under it
FINAL_BARRIER = 0.3  # of the gap that is wanted
START_BARRIER = 0.1  # of the value of the objective

# Kernels that are followed
FALLEN = 0.01  # of their largest size; products that fell below it are computed anew, free of the rounding of that size
NEARLY_ACTIVE = 0.98  # share of the bound above which a kernel without weight stays among those followed
