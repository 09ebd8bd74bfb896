"""Numbers of the solver on factors that follow from no theorem: they decide the time, not what is certified.

`benchmarks/factored.py` measures what they cost; those of the working sets were chosen with it at N = 1e5, 9,990
kernels. Those of compiled loops stand with the loops: what is compiled is kept on disk until its own file changes.
"""

# Working sets
COARSE, FINEST = 1e-3, 1e-13  # share of the trace that factors leave, first and last
REFINE = 0.01  # what finer factors leave of it
NEARLY, REFINE_LESS = 5.0, 0.1  # times the gap asked for, up to which they may leave more
COARSE_SHARE = 0.5  # of the largest violation, on kernels in use: finer factors are needed
NEW_KERNELS = 16  # that may enter in one round, or a share of those in use
# This share, and that where nearly all of the last ones stayed: on groups of 1 to 20 columns and 200 to 5,000 rows, 1
# to 4 take about the same time
FEW_GROWTH, GROWTH = 1.0 / 3.0, 2.0
FEW_ENTER = 0.05  # of those in use: what is left may as well be what their factors leave out
STAYED = 0.9  # of a working set: the last ones stayed
NEW_FOR_PRODUCTS = 3  # of those whose factors are so many that every product reads all rows
NEGLIGIBLE = 0.05  # of the gap: kernels that together add less to the conjugate need not enter
OPEN_SHARE = 0.5  # of a gap above tol that bounds on dual norms may leave open
# Than before dual norms may grow along a path, and what any may, per unit of the threshold
FASTER, LEAST_GROWTH = 2.0, 0.1
# Of the threshold's fall from one strength to the next, how far below it kernels are read again in a pass near others:
# the strong rule asks for twice the fall, most of which grow by less; one that it overlooks is found by the next pass.
# On groups of 1 to 10 columns, 1.5 reads a tenth to a fifth less than 2
READ_AHEAD = 1.5
FURTHEST = 2.0  # steps of a path that coefficients go ahead as they came
INNER = 0.1  # part of the certified gap to which a working set is solved
LAST_GAP = 0.9  # part of the gap asked for to which it is solved at a strength of a path after the first
INNER_FOR_PRODUCTS = 0.01  # of those that read all rows in each product
NEXT_GAP = 0.2  # part of the gap that the next round is meant to leave
# Of a dual point after sweeps: to which part of the gap asked for, for other kernels add to it, how often, and by how
# many conjugate gradients each, or to which part of the first residual
CORRECTED, CORRECTIONS, CORRECTION_STEPS, CORRECTION_LEFT = 0.4, 3, 40, 0.01
# Times the gap asked for, to which conjugate gradients after sweeps go where dual points are corrected, about to its
# square: 500 groups of ten columns that correlate by a half take about the same time from 10 to 1,000 on
GRADIENTS_LEFT = 30.0
SMOOTHING = 0.2  # part of that which the smoothing of a kinked loss may make up
SMOOTHED, SMOOTHINGS = 2.0, 5  # times that which it may after all, and of a round
FIRST_SMOOTHING = 0.5
# Of a smoothing, the least that follows around the dual variables that it led to: hinge of five classes that share
# weights, 40 kernels, took 26 and 33 steps with it on 30,000 and 1e5 rows, 31 and 40 with 0.67, 26 and 35 with 0.33
LESS_SMOOTHING = 0.5
NEWTON_STEPS = 60
# Steps of a loss with a kink from an interior point: hinge and epsilon-insensitive losses, 24 and 200 kernels on 200 to
# 1,000 rows
INTERIOR_STEPS = 18
# Those of a smoothed loss where an output has as many coefficients as there are rows; else times the root of their
# share: with few rows between two kinks curvatures jump. Hinge, epsilon-insensitive and quantile losses, 40 kernels,
# own and shared weights, took so many times the steps from an interior point: 3.1 at 5 rows for each coefficient, 2.4
# at 10, 2.1 at 20, 1.2 at 45 and 0.9 at 95
SMOOTHED_STEPS = 150
# Products, as those of a Hessian, that any of these steps takes, and for each output: on 1,000 to 20,000 rows seconds
# of a step were about 3e-10 times the products with these
STEP_BASE, OUTPUT_BASE = 6e7, 3e7
MATRIX_GAP = 0.03  # part of the certified gap to which they are solved, while kernels may be missing
MATRIX_NEARLY = 10.0  # times the gap asked for, up to which they are solved as if none were missing
MATRIX_FACTORS = 1e-9  # share of the trace that factors leave of kernels that N x N matrices are not formed of
SINGLE_PRECISION_TOL = 2e-5  # loosest gap that single precision of matrices could be felt in

# Model
CHUNK = 16384

# Newton steps
RANK_LIMIT = 3500  # of dense Hessians; above, columns take turns
DENSE_WORK = 6e10  # products that a dense Hessian may cost
SAMPLE_ROWS = 20_000
GROUP_TOL = 0.03  # of the violation at the start of a step
STALE = 0.2  # a gap that falls by less than this factor asks for Hessians of the present point
SLOW = 0.5  # a gap that falls by less than this factor asks for more rows in them,
MISSED = 0.1  # where along the last step they missed as much of the bend of all rows
SUFFICIENT = 1e-4
ROUNDING = 4e-15  # of the objective, which tells nothing of a step
SMALLEST_STEP = 1e-3

# Interior points in samples of losses with kinks
FIRST_MARGIN = 0.4  # of the width of the box, that first dual coefficients are off its ends
LIFT = 1.0  # of the gap, which complementarity products are raised to where kernels or factors are new
CLOSE_TOL = 1e-3  # of the violation at the start of a step, to which its model is solved: dual coefficients follow it
LOWEST_TARGET, LOWEST_TARGET_NEAR, NEAR = 1e-3, 2e-2, 0.1  # of the gap a pair; and where the relative gap is below NEAR
WANTED_SHARE = 0.01  # of the gap asked for that all products together may keep
# Corrections of a direction, each a solution on the Hessian of its step: for as long as the step is shorter than this
# share of the whole way, and each lengthens it by so much in the two variables together. Hinge of five classes that
# share weights, 40 kernels, with a target of the square of what the predictor leaves in place of the cube: 44 steps
# became 25 on 10,000 rows, 72 became 47 on 20,000
CORRECTIONS_OF_STEPS, LONG_STEP, LENGTHENED = 3, 0.9, 0.1
SHORTEST_FRACTION = 0.95  # of the way to the boundary
PATIENCE = 10  # steps without a smaller gap, after which smoothing takes over

# The quadratic by products
CYCLES = 3  # of sweeps and a step of all columns
SWEEPS_A_CYCLE = 2
SWEEP_TOL = 0.05  # a sweep whose coefficients move by this part of the first one's ends the step
OVERSHOOT = 0.7  # of a block's own step: a gain below this part of the true square shortens it
MAX_GRADIENTS = 15
STEP_SHARE = 0.5  # of the gap that is asked for: a quadratic solved to it is near enough
RESIDUAL = 0.1  # of the first one, in the norm of the preconditioner
BLOCK_ROWS = 1500
BLOCK_PER_RANK = 15
POWER_STEPS = 4  # toward the largest eigenvalue of a Hessian that is not formed
POWER_MARGIN = 1.1  # of what they find
PRECONDITIONER_SHARE = 0.01  # of it, beside the curvature of the penalty: most directions have less

# Objective
INTERCEPT_STEPS = 20
EXPANSIONS, CROSSING_STEPS = 60, 100  # in search of a sign change of the sum of slopes, where such steps do not do
BALANCED = 1e-9  # a sum of slopes below this part of their absolute sum is zero for a gradient

# Damped curvatures
FIRST_DAMPING = 0.03  # of the curvatures of chords to the kinks, added to those of the rows that have some
LESS_DAMPING = 0.25  # after a whole step; as much more after a shorter one
LEAST_DAMPING = 1e-3
SMALL_DAMPING = 0.01  # above it, damping is why a gap falls slowly, not too few rows
