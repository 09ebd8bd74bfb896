"""Numbers of block coordinate descent that follow from no theorem: they decide the time, not what is certified.

`benchmarks/solvers.py` and `benchmarks/subsolvers.py` measure what they cost, `benchmarks/nasty.py` what they must not
break.
"""

from __future__ import annotations

# Iteration
SMALLEST_SHARE = 1e-14  # of the trace of the combined kernel: a weight that falls to zero could never return
SHARE_OF_ZEROS = 1e-6  # the same for kernels without weight in a warm start
LEARNER_SHARE = 1e-4  # of the current gap: how closely a learner is fitted
CLOSEST_LEARNER = 1e-11
RISE = 1e-3  # of the gap: what an extrapolation may add to the objective
WORTH_CERTIFYING = 0.5  # of the last certified gap
PROGRESS = 0.999  # of the smallest gap so far: an iteration that stays above it was idle
MOST_USELESS = 3  # idle iterations after which steps are stretched rather than extrapolated
LARGEST_RISE = 3.0  # factor by which an extrapolation may raise the gap
MOST_IDLE = 40  # iterations after which each is certified, so that a run without any progress counts as stalled
MOST_POLISHING_STEPS = 80  # primal-dual Newton steps that look for coefficients which certify
POLISHED_SHARE = 0.1  # of tol: the gap that they aim at
PRUNED_SHARES = (0.3, 3e-2, 3e-3, 3e-4)  # of the room below tol: what zero weights may cost to first order, in turn

# Extrapolation
MEMORY = 6
LARGEST_POWER = 1024.0
AFTER_FAILURE = 2  # points kept when an extrapolation made things worse
FARTHEST = 1e2  # factor by which a weight may differ from what the iteration itself says
NOTICED = 1e-4  # share of the importance that a weight is given which was shrunk too far
GROWING = 1e-3  # relative growth that shows it
SHARE_OF_GAP = 0.02  # of the gap: importance that such a weight is given at least
DISTRUST, RECOVERY = 0.25, 2.0  # factors of the share of an extrapolation that is taken, after failure and success

# Newton steps on weights
EARLY_POINTS = 2  # learners until then are followed by the alternation itself
RELEVANT = 1e-8  # share of the largest importance from which on a kernel takes part
MOST_COLUMNS = 64  # kernels that do
HESSIAN_ACCURACY = 1e-3  # of the right sides
MOST_HESSIAN_PRODUCTS = 200  # for one kernel
JITTER = 1e-9  # of the diagonal of the Hessian
FARTHEST_NEWTON = 10.0  # times the weight plus the largest weight
