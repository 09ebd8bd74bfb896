"""Which common widths are worth a search: what samples can tell apart."""

from __future__ import annotations

import numpy as np

from manykernels.kernels.specs.widths import median_distance
from manykernels.validation.arrays import Array

NARROWEST, NARROW = 0.05, 0.5  # of the median distance: the narrowest width for many samples, and for few
WIDEST = 20.0


def resolved_widths(points: Array) -> tuple[float, float]:
    """Return the narrowest and the widest width for points, in proportion to their median distance.

    Of n points that fill d dimensions, neighbors are about ``n^(-1/d)`` of the median distance from each other. A
    narrower kernel sees every sample by itself, like the identity: the objective on the training samples likes it, and
    new samples do not. Copies of a point count once.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.discovery.families.interval import resolved_widths
    >>> points = np.random.default_rng(0).normal(size=(100, 8))
    >>> low, high = resolved_widths(points)
    >>> 1.5 < low < 2.5, high > 50
    (True, True)
    """
    distinct = np.unique(points, axis=0)
    n_varying = max(1, int(np.sum(np.ptp(distinct, axis=0) > 0)))
    share = float(np.clip(len(distinct) ** (-1.0 / n_varying), NARROWEST, NARROW))
    median = median_distance(distinct)
    return share * median, WIDEST * median
