"""Several classes or targets with one set of kernel weights: their losses."""

from __future__ import annotations

from manykernels.objective.shared.losses import Separable, SharedLoss, get_shared_loss
from manykernels.objective.shared.multinomial import Multinomial

__all__ = ["Multinomial", "Separable", "SharedLoss", "get_shared_loss"]
