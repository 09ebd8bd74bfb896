"""Numbers of the methods over weights on the simplex that follow from no theorem; they decide no certificate.

`benchmarks/solvers.py` and `benchmarks/learners.py` measure what they cost.
"""

from __future__ import annotations

# Learners
LEARNER_SHARE = 1e-6
FINEST_LEARNER = 1e-12

# Line search
VALUE_ROUNDING = 1e-11
SLOPE_LEFT = 0.1  # share of the slope at the start of a line search that may be left at its end
MOST_TRIALS = 40
SHORTEST_CUT = 0.01  # share of the bracket that a trial cuts off at least

# Cutting planes
WORTH_CERTIFYING = 0.5  # a certificate costs passes: only for gaps that shrank by as much
CUT_ROUNDING = 1e-14
WORTH_A_CUT = 0.1  # of the gap, by which a learner must lower the value to count as one
NARROWER = 0.9  # of the smallest gap of the cuts so far: an iteration that stays above it was idle
MOST_IDLE = 60  # iterations after which each is certified, so that a run without any progress counts as stalled
USELESS_CUTS = 2  # after which the next learner is fitted at weights in closed form

# Linear program of the cuts
ACCURACY = 1e-10  # of the linear program, the tightest that HiGHS accepts
NEGLIGIBLE = 1e-8  # an interior-point solver leaves no exact zeros
SMALLEST_GAP = 1e-15  # relative to the slopes, that the linear program resolves

# Quadratic program
RIDGE = 1e-13  # relative to the largest entry: makes linear programs and ones with repeated rows strictly convex
PROGRAM_ROUNDING = 1e-12
MOST_EXCHANGES = 20  # per variable
MANY = 50  # variables above zero, from which to leave one by one would cost a large system each
