"""The minimized objective: losses, regularizers, weight sets, the problem and the certificate."""

from manykernels.objective.capabilities import Capability
from manykernels.objective.certificate import Certificate, KKTResiduals, proved_inactive
from manykernels.objective.losses import (
    LOSSES,
    CoupledLoss,
    CoxPartial,
    EpsilonInsensitive,
    Gamma,
    Hinge,
    Huber,
    Logistic,
    Loss,
    Poisson,
    Quantile,
    Squared,
    SquaredHinge,
    get_loss,
    survival_target,
)
from manykernels.objective.losses.base import ClassificationLoss, RegressionLoss
from manykernels.objective.losses.outputs import Multinomial, SharedLoss
from manykernels.objective.losses.survival import survival_array
from manykernels.objective.problem import Problem
from manykernels.objective.regularizers import (
    REGULARIZERS,
    BlockL1,
    BlockLq,
    Curve,
    ElasticNet,
    ElasticNetBall,
    GroupElasticNet,
    LpBall,
    PenaltyByGroup,
    Regularizer,
    Ridge,
    Simplex,
    Tree,
    get_regularizer,
)
from manykernels.objective.regularizers.weight_sets import elastic_net_linear, elastic_net_reciprocals

__all__ = [
    "LOSSES", "REGULARIZERS", "BlockL1", "BlockLq", "Capability", "Certificate", "ClassificationLoss", "CoupledLoss",
    "CoxPartial", "Curve", "ElasticNet", "ElasticNetBall", "EpsilonInsensitive", "Gamma", "GroupElasticNet", "Hinge",
    "Huber", "KKTResiduals", "Logistic", "Loss", "LpBall", "Multinomial", "PenaltyByGroup", "Poisson", "Problem",
    "Quantile", "RegressionLoss", "Regularizer", "Ridge", "SharedLoss", "Simplex", "Squared", "SquaredHinge", "Tree",
    "elastic_net_linear", "elastic_net_reciprocals", "get_loss", "get_regularizer", "proved_inactive", "survival_array",
    "survival_target",
]  # fmt: skip
