"""Numbers of the learners at fixed weights that follow from no theorem: they decide the time, not what is certified.

`benchmarks/learners.py` and `benchmarks/smo.py` measure what they cost (docs/skm.md has the tables). Those of compiled
loops stand with the loops: what is compiled is kept on disk until its own file changes.
"""

from __future__ import annotations

# Learners
MOST_STEPS = 100
PATIENCE = 20  # steps without progress after which rounding is taken to have stopped the iteration
NEARLY_EXACT, PATIENCE_NEAR = 1e-6, 3  # the same below that gap, relative: Newton steps no longer wander there
# Violations close enough for the active set, which the exchange makes exact. With pairs 1e-3 saves no time and is a
# little less often enough; single samples need more steps for each digit.
PAIRS_TOL, SINGLES_TOL = 1e-4, 1e-3
SMO_SWEEPS = 50  # most steps, as a multiple of the number of samples
LEAST_GAP = 1e-20  # of conjugate gradients, relative to the dual value: residuals of 1e-10
MOST_PRODUCTS = 2000  # of a matrix that is not formed with vectors, for one learner
MOST_NEWTON_STEPS = 50  # of a loss that is not quadratic, on products
FORCING = 1e-6  # share of the squared residual that conjugate gradients leave of a Newton step
SUFFICIENT, MOST_HALVINGS = 1e-4, 40  # share of the slope that a step must keep, and how often it is halved for that

# Active set
MOST_ROUNDS = 20
AT_BOUND = 1e-7  # of the width of the box

# Pairs
LONGEST_PERIOD = 1000  # steps between two looks at what can be left out
STEPS_PER_SAMPLE = 10_000
