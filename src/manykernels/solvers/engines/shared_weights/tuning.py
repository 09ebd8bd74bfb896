"""Numbers of the method for shared weights that follow from no theorem: they decide the time, not what is certified.

`benchmarks/shared_weights.py` measures what they cost.
"""

from __future__ import annotations

# Linear systems
MOST_FACTOR_BYTES = 2**30  # of the factors of all targets; beyond, they are made anew at each use
RANK_TOLERANCE = 1e-13  # of the largest eigenvalue, below which intercepts are not determined

# Machines at fixed weights
MOST_STEPS = 50  # of Newton's method for one set of weights
MOST_HALVINGS = 40  # of a step that does not decrease the objective enough
ENOUGH_DECREASE = 1e-4  # of what the slope promises

# Steps over the weights
INNER_SHARE = 0.02  # of the gap: how closely a machine is solved before the weights move on
CLOSEST = 1e-15  # relative decrease below which nothing can be asked of float64
FIRST_SET = 20  # kernels of the first working set; later ones may grow by as many
NEARLY_VIOLATED = 0.99  # kernels this close to the bound are taken in
MOST_SHORTENINGS = 4  # of a step over the weights, each to a fourth, before the weights follow from the norms
SHORTENING = 0.25
CENTERING = 0.1  # factor by which complementarity products fall in a step of the program over the weights
BOUNDARY = 0.995  # of the way to the boundary
MOST_PROGRAM_STEPS = 100
PROGRAM_GAP = 1e-15  # relative, of the program over the weights
