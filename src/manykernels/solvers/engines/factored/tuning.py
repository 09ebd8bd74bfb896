"""Numbers of the engine on factors that follow from no theorem: they decide the time, not what is certified.

`benchmarks/factored.py` measures what they cost. Those of compiled loops (`group_problem`) stand with the loops: what
is compiled is kept on disk until its own file changes.
"""

from __future__ import annotations

# Newton steps
RANK_LIMIT = 3500  # of dense Hessians; above, columns take turns
DENSE_WORK = 6e10  # products that a dense Hessian may cost
SAMPLE_ROWS = 20_000
SAMPLE_PER_RANK = 15
MOST_ENTRIES = 2**25  # of factors that a Hessian of all samples together holds at once: 256 MB
CHUNK_ENTRIES, MIN_ROWS = 2**19, 1024  # of rows of factors held at once for a Hessian: 4 MB
GROUP_TOL = 0.03  # of the violation at the start of a step
STALE = 0.2  # a gap that falls by less than this factor asks for Hessians of the present point
SLOW = 0.5  # a gap that falls by less than this factor asks for more rows in them
SUFFICIENT = 1e-4
SMALLEST_STEP = 1e-3
JOINT_REACH = 10.0  # change of a logarithm of hazards in one step: beyond, the shares in risk sets are others

# Backfitting
CYCLES = 3  # of sweeps and a step of all columns
SWEEPS_A_CYCLE = 2
SWEEP_TOL = 0.05  # a sweep whose coefficients move by this part of the first one's ends the step
OVERSHOOT = 0.7  # of a block's own step: a gain below this part of the true square shortens it
MAX_GRADIENTS = 15
RESIDUAL = 0.1  # of the first one, in the norm of the preconditioner
BLOCK_ROWS = 1500
BLOCK_PER_RANK = 15

# Objective
INTERCEPT_STEPS = 20
EXPANSIONS, CROSSING_STEPS = 60, 100  # in search of a sign change of the sum of slopes, where such steps do not do
BALANCED = 1e-9  # a sum of slopes below this part of their absolute sum is zero for a gradient

# Smoothed losses
SMOOTHING_STEPS = 20  # in search of a smoothing of a given error
FLOOR = 0.1  # of the largest curvature, given to samples without any
FIRST_DAMPING = 0.03  # of the curvatures of chords to the kinks, added to those of the rows that bend
LESS_DAMPING = 0.25  # after a whole step; as much more after a shorter one
LEAST_DAMPING = 1e-3
SMALL_DAMPING = 0.01  # above it, damping is why a gap falls slowly, not too few rows
