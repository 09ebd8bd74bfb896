"""Moving the kernels found: greedy steps take the top of a peak at the time, and never look back unless told to.

The idea is that of the sliding Frank-Wolfe algorithm (Denoyelle, Duval, Peyre and Soubies, 2019): between greedy steps,
all parameters climb together from where they are.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from manykernels.discovery.families.pairs import PairWeights
from manykernels.discovery.families.search import FamilySearch
from manykernels.discovery.one_stage.mixture import Learner, Mixture
from manykernels.discovery.one_stage.tuning import MOST_MOVES
from manykernels.validation.arrays import Array


def slide_parameters(learner: Learner, mixture: Mixture, tol: float) -> Mixture:
    """Move all parameters downhill on ``J``, the optimal objective for fixed kernel weights.

    ``dJ/dp_m = -theta_m / (2 lambda) d(rho'K_m rho)/dp_m``, by the envelope theorem.
    """
    search, empty = learner.search, learner.start()[0]
    share = mixture.weights / learner.strength

    def objective(flat: Array) -> tuple[float, Array]:
        parameters = search.family.parameter(flat.reshape(len(mixture), -1))
        gram = sum(d * search.gram(parameter) for d, parameter in zip(share, parameters, strict=True))
        fit = learner.fit(empty, gram, None, tol)
        pairs = PairWeights.rank_one(fit.rho)
        slopes = [_slope(search, parameter, pairs) for parameter in parameters]
        return fit.primal_value, -0.5 * np.ravel(share[:, None] * slopes)

    start = np.ravel([search.family.coordinate(parameter) for parameter in mixture.parameters])
    low, high = search.family.coordinate(np.array([search.family.low, search.family.high]))
    found = minimize(
        objective,
        start,
        jac=True,
        bounds=[(low, high)] * len(start),
        method="L-BFGS-B",
        options={"maxiter": MOST_MOVES},
    )
    rest = search.family.parameter(found.x.reshape(len(mixture), -1))
    parameters = tuple(search.rounded(parameter) for parameter in rest)
    return Mixture(parameters, mixture.grams, mixture.weights).merged(search)


def _slope(search: FamilySearch, parameter: Array, pairs: PairWeights) -> Array:
    """Return the derivative of ``<A, K_p>`` by the search coordinates."""
    return search.family.inner(search.prepared, parameter, pairs)[1] * search.family.scale(parameter)
