"""Numbers of the one-stage searches that follow from no theorem: they decide the time, not what is certified.

Accuracies are relative to the gap that a search has, or is after.
"""

from __future__ import annotations

# Greedy search
INNER_SHARE = 0.02  # of the gap that the search has, or is after, for the problems solved inside it
STEP_TOL = 1e-3  # of the step length in a line search

# Kernels found, and their certificate
BOUND_SHARE = 0.1  # of the gap, that the bound over a family may add to it
SAME = 1e-8  # parameters closer than this on the scale of the search are one kernel

# Sampling
DRAW_TOL = 1e-4  # of the learner at each draw: noise of the draw is far above it
CHECKPOINTS = 10  # certificates a run
CORRECTIVE_TOL = 1e-6  # of the best weights on all kernels drawn

# Sliding
MOST_MOVES = 12  # L-BFGS-B iterations of one slide of a learner, each a fit
