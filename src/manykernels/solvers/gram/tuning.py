"""Numbers of the primal-dual iteration that follow from no theorem: they decide the time, not what is certified.

`benchmarks/solvers.py` measures the steps that they cost, `benchmarks/nasty.py` the problems that they must not break;
restarts and cautious steps are there for the latter.
"""

# Iteration
LIFT = 0.1  # of the distance to the optimum, which complementarity products are raised to when kernels are added
FAR = 1.5  # excess over the bound of a norm at which the dual coefficients are scaled down
BROUGHT_BACK = 0.8  # of the bound, which they are scaled down to
TRUST = 2.0  # most that a step may leave out of its linearization, in units of what it linearizes
CAUTIOUS_TRUST = 0.1  # the same once the iteration had to start again
STEADY_SHARE = 0.3  # of the products, which a step keeps at least once the iteration had to start again twice
AGREEMENT = 1e-3  # of the scores; where both sides agree that well, unequal steps would only tear them apart again
LARGEST_RISE = 4.0  # factor by which a step may raise the primal value
MOST_HALVINGS = 12  # of a step that raises it by more
PATIENCE = 15  # steps without a smaller gap before the first restart; doubled with each
FEWEST_ALONE, MOST_ALONE = 3, 12  # steps with an entropy alone, before these are given up if far off, or at all
LONGEST_PATIENCE = 60  # after which the iteration gives up
LOWEST_TARGET = 1e-3  # of the gap per pair, far from the optimum, where residuals inflate the gap
LOWEST_TARGET_NEAR = 2e-2  # the same where the relative gap is below NEAR
NEAR = 0.1  # relative gap below which residuals no longer dominate it
WANTED_SHARE = 0.01  # of the wanted gap that all products together may keep
FALLEN = 0.01  # of their largest size; products that fell below it are computed anew, free of the rounding of that size
PRUNING_SHARE = 0.1  # of the gap that setting small weights to zero may cost
PRUNING_FACTORS = (1e4, 1e3, 1e2, 1e1, 1.0, 0.1, 0.01)  # how far in favor of zero doubtful kernels are judged, in turn
INACTIVE_FACTOR = 0.1  # the same while steps go on: if more were judged so, steps would be spent on making them so
SMALL_SHARES = (1e-2, 1e-3, 1e-4, 1e-6, 1e-8)  # of the largest block norm: what is left out where no factor helps
PRUNING_TOLERANCE = 0.9  # of tol: the gap within which a model with zeros is preferred to a better one without
MOST_INNER_STEPS = 60  # on one set of kernels
STEPS_FOR_ZEROS = 3  # spent, once a set of kernels is solved on, on making its inactive kernels negligible
CLOSER = 0.05  # factor by which each of them comes closer to the boundary
SHORTEST_FRACTION = 0.95  # of the way to the boundary; tends to one as the gap closes
# Corrections of a direction of `factored/kinks.py`
LONGER = 0.3  # by which steps are longer at whose end products are looked at
FARTHEST_PRODUCT = 10.0  # factor by which products may be off their target

# Start
START_FRACTION = 0.8  # of the scale at which a norm meets its bound: coefficients of a start
# The same of losses like the hinge. There zero is an end of the box, and from near it the first steps are short: 36
# hinge fits on matrices took 381 steps from 0.8, 346 from 2
START_FRACTION_ONE_SIDED = 2.0
NEAR_ONE = 1.15  # exponent of a block q-norm below which the block 1-norm is the better start
MOST_ROUGH_STEPS = 40  # of the block 1-norm
ROUGH_GAP = 1e-2  # relative, that they are to reach
CLOSER_THAN_ROUGH = 0.1  # what they aim at, in units of it
SMALLEST_WEIGHT = 1e-12  # of the largest, from which a block q-norm can raise a kernel again
SMALLEST_FACTOR, LARGEST_FACTOR = 1e-6, 1e6  # of the weights of kernels that enter, and of a start
CLOSE_FACTOR = 0.1  # relative: how closely that factor is looked for
MOST_PARABOLAS = 12  # on the way there
FARTHEST = 10.0  # factor by which one of them may go beyond what is known
CLOSE_SCALE = 1e-3  # of the largest scale of dual coefficients: how closely the best one is looked for
MOST_ZOOMS = 5  # of the search for a scale, each by a factor of about 200
SHARE_OF_BOUND = 0.95  # to which the norms of a model of another strength are brought down
FAR_OFF = 0.5  # relative gap of a model that is not worth to start from
FAR_APART = 0.5  # of its weight, between the coefficient of a sample and the slope of its score: no model starts there
SMALLEST_MARGIN = 1e-9  # of the box, from its ends, where an entropic loss is defined
START_BARRIER = 0.1  # of the dual value of the start, shared by all complementarity products

# Variables of the kernels
EXPONENT_OF_ROOTS = 4.0 / 3.0  # q of an lp ball (p = 2) above which weights are concave in norms, not norms in weights
SMALLEST_NORM = 1e-24  # squared, of the largest, from which the root of a norm is taken
SMALLEST_RELATIVE_SLACK = 0.1  # of the bound on a squared norm, at the start

# Kernels of bounded weight
HIGHEST_START = 0.5  # of the pole of a weight

# Samples of entropic losses
SMALLEST_CURVATURE = 1e-18  # of a sample: its inverse stays finite
LARGEST_SCORE_CHANGE = 10.0  # of an entropic loss in one step, where a score of 10 is a probability of 0.99995
LARGEST_COUPLED_CHANGE = 0.5  # of a score in one full step, where the loss is one of all samples together
CLOSEST = 0.01  # share of the distance to the end of the domain that a linear step may leave
