"""The folds of a search on kernels of all rows: a strength is tried in all of them at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from manykernels.estimators.selection.mixing.opened import Trial, scales_of
from manykernels.estimators.selection.mixing.search import Folds
from manykernels.threads import blas_threads

if TYPE_CHECKING:
    from manykernels.estimators.selection.mixing.mixtures import Mixture, Scale
    from manykernels.estimators.selection.shared_folds import SharedFolds
    from manykernels.validation.arrays import Array


@dataclass(eq=False)
class FoldsTogether(Folds):
    """Folds that share sums over rows and passes over kernels.

    Attributes
    ----------
    shared : SharedFolds
    """

    shared: SharedFolds = field(kw_only=True)

    @cached_property
    def _empty(self) -> list[list[tuple[Array, float]]]:
        """Dual norms and losses of the best constants, by fold and target."""
        return self.shared.empty_models()

    def _tried(self, mixture: Mixture, fraction: float, spare: list[Scale]) -> list[Trial]:
        shared = self.shared
        with blas_threads(shared.problems[0].n_samples, self.workers):
            scales = [
                scales_of(mixture, empty, spare, samples.total_weight)
                for empty, samples in zip(self._empty, shared.samples, strict=True)
            ]
            fits = shared.fits([[scale.at(fraction) for scale in own] for own in scales])
            return [fold.trial(fit) for fold, fit in zip(self.folds, fits, strict=True)]
