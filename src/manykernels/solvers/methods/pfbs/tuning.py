"""Numbers of forward-backward splitting that follow from no theorem: they decide the time, not what is certified.

`benchmarks/solvers.py --solvers pfbs` measures what they cost.
"""

from __future__ import annotations

# Iteration
NEARLY_ACTIVE = 0.9  # of the bound above which a zero block becomes nonzero: such kernels are iterated on
FIRST_DAMPING, LOWEST_DAMPING, HIGHEST_DAMPING = 1e-2, 1e-12, 1.0
NEWTON_STEPS = 12  # most in an outer iteration
SHORT_STEP = 0.01  # below which a Newton step is tried again
MOST_RETRIES = 10

# Splitting
DIRECT_ORDER = 100  # up to which all eigenvalues are cheaper than Lanczos iterations
LANCZOS_TOLERANCE = 1e-3
LANCZOS_MARGIN = 1.01  # Lanczos comes from below, a bound must be above
INTERCEPT_STEPS = 8
ROUNDING = 1e-14  # relative; increases of the objective below it say nothing

# Newton steps on the support
SMALLEST_CURVATURE = 1e-14  # of a sample, relative to its weight
EARLY = 1e-4  # step at which the slope along a direction is measured
SUFFICIENT = 0.1  # share of the slope that a whole step must realize
AHEAD = 4.0  # steps that one looks ahead for bends of the loss
