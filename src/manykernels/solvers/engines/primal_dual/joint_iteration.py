"""The primal-dual Newton iteration where the loss is one of all samples together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from manykernels.solvers.engines.primal_dual.iteration import PrimalDual
from manykernels.solvers.engines.primal_dual.joint_samples import JointSamples

if TYPE_CHECKING:
    from manykernels.solvers.engines.newton_system import NewtonSystem
    from manykernels.validation.arrays import Array


class JointPrimalDual(PrimalDual):
    """The same point and the same steps, with a matrix in the place of the diagonal of the samples."""

    @property
    def _joint(self) -> JointSamples:
        assert isinstance(self.samples, JointSamples)
        return self.samples

    def scores(self) -> Array:
        """Scores of the model, shifted group by group to those that are tracked."""
        return self._joint.aligned(super().scores())

    def _dual(self) -> float:
        norms = np.sqrt(self._squared_norms)
        scale = self.problem.regularizer.dual_scale(norms)
        return self._joint.dual_value(scale) - self.problem.regularizer.conjugate(scale * norms)

    def _factorize(self) -> tuple[Array, NewtonSystem]:
        couplings, _ = self.kernels.linearize(self._squared_norms, 0.0)
        matrix = self.problem.stack.combine(self.kernels.weights * self._inverse_penalties)
        return couplings, self._joint.newton_system(matrix, (self.kernels.centered(self._products), couplings))

    def _products_of(self, vector: Array) -> Array:
        return self._joint.joint.centered(super()._products_of(vector))
