"""Several classes or targets with one set of kernel weights: their losses and their problem."""

from __future__ import annotations

from manykernels.objective.shared.losses import Separable, SharedLoss, get_shared_loss
from manykernels.objective.shared.multinomial import Multinomial
from manykernels.objective.shared.problem import SharedProblem

__all__ = ["Multinomial", "Separable", "SharedLoss", "SharedProblem", "get_shared_loss"]
