"""A lack of memory is the library's own error, whatever raised it first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from manykernels import (
    GaussianMKL,
    KernelAligner,
    MKLClassifierCV,
    MKLRegressor,
    MKLSurvival,
    PolynomialMKL,
    regularization_path,
    solve,
    survival_array,
)
from manykernels.exceptions import MemoryBudgetError, memory_errors_of

X = np.random.default_rng(0).normal(size=(40, 3))
CALLS: dict[str, tuple[str, Any]] = {
    "regressor": ("manykernels.estimators.supervised.base.BaseMKL._learn", lambda: MKLRegressor().fit(X, X[:, 0])),
    "gaussian": ("manykernels.discovery.families.search.FamilySearch.maximize", lambda: GaussianMKL().fit(X, X[:, 0])),
    "polynomial": (
        "manykernels.estimators.searches.base.BaseKernelSearch._learn",
        lambda: PolynomialMKL().fit(X, X[:, 0]),
    ),
    "search": (
        "manykernels.estimators.selection.choice.Rung.race",
        lambda: MKLClassifierCV(cv=2).fit(X, X[:, 0] > 0),
    ),
    "survival": (
        "manykernels.estimators.supervised.base.BaseMKL._learn",
        lambda: MKLSurvival().fit(X, survival_array(X[:, 0] > 0, 1.0 + X[:, 1] ** 2)),
    ),
    "aligner": ("manykernels.estimators.aligner.open_training", lambda: KernelAligner().fit(X, X[:, 0])),
    "path": ("manykernels.estimators.selection.path.open_training", lambda: regularization_path(X, X[:, 0])),
    "solve": (
        "manykernels.solvers.run.Run.follow",
        lambda: solve(np.eye(40)[None], X[:, 0], loss="squared", penalty="l1", strength=0.1),
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_lack_of_memory_inside_is_told_as_one_of_memory(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*args: Any, **options: Any) -> None:
        raise MemoryError("Unable to allocate 30.5 MiB")

    place, call = CALLS[name]
    monkeypatch.setattr(place, fails)
    with pytest.raises(MemoryBudgetError, match=r"more memory than this process can get \(Unable to allocate 30.5 MiB"):
        call()


def test_what_names_a_budget_stays_as_it_is() -> None:
    @memory_errors_of("The fit")
    def fails() -> None:
        raise MemoryBudgetError("200 kernels take 3 GB")

    with pytest.raises(MemoryBudgetError, match=r"200 kernels take 3 GB$"):
        fails()
