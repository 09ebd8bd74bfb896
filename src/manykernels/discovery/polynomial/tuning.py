"""Numbers of the polynomial search that follow from no theorem: they decide the time, not what is certified.

Costs are counted in multiplications of one core, about `SPEED` a second.
"""

from __future__ import annotations

# Mirror descent
SOLVE_TOL = 1e-6  # of a step's dual coefficients: the noise of one sampled coordinate is far larger
STALE = 12  # conjugate gradient iterations after which the preconditioner is factorized anew

# Course of the search
LEAST_GROWTH = 50  # kernels added a round
GROWTH = 0.5  # or this share of those there are
DRAWS = 50  # where products cannot be enumerated
STRONGEST = 0.1  # share of the strength at which the dual penalty of the zero model equals its loss
STAGE = 10.0  # factor between strengths
FULL_SHARE, KEPT_SHARE = 0.5, 0.2  # of max_kernels: when a stronger penalty stops, and what it hands on
STAGE_GAP = 0.1  # relative, over the family, at which a stronger penalty has done its work
RESTRICTED_SHARE = 0.1  # of tol: how closely the model on the kernels found is solved
CERTIFIED_STEPS = 1.5  # factor from one certified step to the next
FIRST_NORM, LATER_NORM = 0.05, 0.2  # of the time left: the constant model is where a search begins, not ends
DESCENT = 0.5  # of the time limit: a search that is to polish must come to it
LEAST_SECONDS = 0.1  # of a restricted solve when time is over: its answer is the last one to be certified

# Enumeration
PANEL = 128  # rows of pairs at a time: little is computed twice, little memory is held
BATCH = 2**18  # entries of the states, of the pairs and of the scores of one matrix product: they stay in the cache
FEWEST = 8  # prefixes or pairs of a batch, however large their states
ONE_BY_ONE = 3  # largest degree whose prefixes are so few that each has a matrix product of its own

# Norm over the family
BUDGET = 4e11  # multiplications of one norm: 10 to 40 seconds of one core
SPEED = 5e9  # multiplications a second that may be counted on
CALL = 1e6  # multiplications in the time of the Python code around one matrix product
EXTENSION = 0.02  # of a call: one step in the building of a batch
SCORE = 150.0  # and in the time of squaring, weighing and adding one score
STATE_PASSES = 20.0  # passes over a matrix of samples to take a base kernel out of the sums over all
CHEAP = 1e8  # an enumeration of so many is worth its price for the kernels that it names
SHORT = 1  # factors of the prefix when time has run out
WORTH = 0.2  # of an enumeration: what is spent on bounds that stand if it cannot be finished in time

# Sum of powers
NEGLIGIBLE = 1e-17  # of a sum: less than its rounding

# Path of the squared loss at p = 1, and its cross-validation
SINGLE_DEGREE = 4  # up to which scores of products are in the range of float32: at most the sixth power of N
NEWCOMERS = 50  # products that enter after a survey
PATH_ROUNDS = 5  # surveys at one strength
PATH_SWEEPS, PATH_TOL = 2000, 1e-4  # of coordinate descent; the square of a share of the strength
SUPPORT_SWEEPS, SUPPORT_TURNS = 30, 4  # after which signs are taken as known; coefficients that vanish on the way
PATH_VIOLATION = 1e-2  # of the strength, by which the largest score may exceed it
PATH_STEP = 10.0 ** (-0.25)  # from one strength to the next
PATH_LENGTH = 20  # strengths at most: five powers of ten
SECOND_STEP = 10.0 ** (-0.5)  # the same of the second step, whose penalties differ by orders of magnitude
PATH_PATIENCE = 4  # strengths without a smaller error, after which the path ends
PATH_EXACT = 1e-13  # of the squares of the target: an error at which there is nothing left to choose
LEAST_NORM = 1e-8  # of the largest: kernels of smaller norm are no part of the second step
SECOND_TOL = 1e-8  # gap of the second step, on few kernels
