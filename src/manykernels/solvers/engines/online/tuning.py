"""Numbers of the online solvers that follow from no theorem: they decide the time, not what is certified.

`benchmarks/online.py` measures what they cost. Those of compiled loops (`steps`, `loops`) stand with the loops: what is
compiled is kept on disk until its own file changes.
"""

from __future__ import annotations

# Epochs
WORTH_CERTIFYING = 0.5  # a certificate costs a pass: only for gaps that shrank by as much
FIRST_REFINEMENT = 50  # epochs without success before it is tried
RARELY = 100  # epochs after which not every one is looked at
CLEAR_PROGRESS = 0.5  # of the smallest gap so far: an epoch that stays above it was idle
MOST_IDLE = 500  # epochs after which each gap is certified, so that a run without any progress counts as stalled
LATER = 1.5  # factor between the epochs of two trials

# Learners
FIRST_MEMORY, LAST_MEMORY = 5, 25  # epochs that are extrapolated together, one more each time
DAMPING = 1e-12  # of the extrapolation, relative
FEWEST_COLUMNS = 2  # at hand: a sample and its partner
INTERIOR = 1e-12  # distance of a starting point to the ends of an entropic box, relative to its width
