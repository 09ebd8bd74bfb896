"""The learners that 6.2.2 and 6.3 of the thesis compare; each gives several models, chosen from by a validation set."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from _tasks import Task
from numpy.typing import NDArray
from sklearn.svm import SVC

from manykernels import Gaussian, aligned_weights, solve
from manykernels.discovery import (
    ArdGaussianFamily,
    FamilySearch,
    GaussianFamily,
    Limits,
    SearchSettings,
    align_family,
    discover_by_sampling,
    discover_greedily,
)
from manykernels.objective.weight_sets import LpBall, Simplex

Array = NDArray[Any]

LOW, HIGH, N_LISTED = 0.05, 50.0, 20  # widths, in standard deviations
MOST_KERNELS = 50  # as in the thesis


@dataclass(frozen=True)
class Settings:
    """How much is tried.

    Attributes
    ----------
    costs : tuple of float
        ``C`` of a machine on a finished kernel.
    strengths : tuple of float
        ``lambda`` over the number of samples, of a one-stage method, each a search of its own.
    kernels, wide_kernels : int
        Most kernels a search adds, with one width and with one width a feature.
    seconds : float
        Most wall-clock seconds of a search; its best model so far counts.
    """

    costs: tuple[float, ...]
    strengths: tuple[float, ...]
    kernels: int = MOST_KERNELS
    wide_kernels: int = 15
    seconds: float = 30.0

    def limits(self, wide: bool, tol: float = 1e-3) -> Limits:
        """Return when a search stops."""
        return Limits(tol, self.wide_kernels if wide else self.kernels, self.seconds, patience=10)


@dataclass(frozen=True, eq=False)
class Model:
    """Scores ``sum_m d_m k_m(x, x_i) rho_i + b``.

    Attributes
    ----------
    specs : sequence of KernelSpec
    weights, rho : ndarray
    b : float
    """

    specs: Sequence[Any]
    weights: Array
    rho: Array
    b: float

    def scores(self, X: Array, train: Array) -> Array:
        """Return the scores of new rows."""
        total = np.full(len(X), self.b)
        for spec, weight in zip(self.specs, self.weights, strict=True):
            total += weight * (spec(X, train) @ self.rho)
        return total


Measure = Callable[[Array, Array], float]
Learner = Callable[[Task, Settings, str], list[Model]]


def misclassified(scores: Array, y: Array) -> float:
    """Return the share of wrong signs."""
    return float(np.mean(np.where(scores > 0, 1.0, -1.0) != y))


def squared_error(scores: Array, y: Array) -> float:
    """Return the mean squared error."""
    return float(np.mean((scores - y) ** 2))


def evaluate(learner: Learner, task: Task, settings: Settings, loss: str) -> dict[str, float]:
    """Return the test error of the model that is best on the validation set, and CPU seconds a model."""
    measure: Measure = squared_error if loss == "squared" else misclassified
    started = time.process_time()
    models = learner(task, settings, loss)
    seconds = time.process_time() - started
    train = task.train[0]
    errors = [measure(model.scores(task.valid[0], train), task.valid[1]) for model in models]
    best = models[int(np.argmin(errors))]
    scores = best.scores(task.test[0], train)
    return {"error": measure(scores, task.test[1]), "cpu_s": seconds, "kernels": len(best.specs)}


def machines(task: Task, settings: Settings, loss: str, specs: Sequence[Any], weights: Array) -> list[Model]:
    """Return a machine on a finished kernel for each cost."""
    X, y = task.train
    gram = sum((w * spec(X) for spec, w in zip(specs, weights, strict=True)), np.zeros((len(y), len(y))))
    models = []
    for cost in settings.costs:
        if loss == "hinge":
            machine = SVC(kernel="precomputed", C=cost).fit(gram, y)
            rho = np.zeros(len(y))
            rho[machine.support_] = machine.dual_coef_[0]
            models.append(Model(specs, weights, rho, float(machine.intercept_[0])))
        else:
            rho, b = _ridge(gram, y, 1.0 / cost)
            models.append(Model(specs, weights, rho, b))
    return models


def _ridge(gram: Array, y: Array, strength: float) -> tuple[Array, float]:
    """Solve ``(K + strength I) rho + b = y``, ``sum rho = 0``."""
    columns = np.linalg.solve(gram + strength * np.eye(len(y)), np.column_stack([y, np.ones(len(y))]))
    b = columns[:, 0].sum() / columns[:, 1].sum()
    return columns[:, 0] - b * columns[:, 1], float(b)


def listed() -> list[Gaussian]:
    """Return the kernels that the methods on a finite set choose from."""
    return [Gaussian(float(width)) for width in np.geomspace(LOW, HIGH, N_LISTED)]


def finite(method: str) -> Learner:
    """Return AMKL (``"joint"``) or UNIFORM on the listed kernels."""

    def learn(task: Task, settings: Settings, loss: str) -> list[Model]:
        X, y = task.train
        specs = listed()
        theta = aligned_weights(np.stack([spec(X) for spec in specs]), y, method).weights
        kept = np.flatnonzero(theta)
        return machines(task, settings, loss, [specs[m] for m in kept], theta[kept])

    return learn


def lp(weight_set: Callable[[float], Any]) -> Learner:
    """Return LPMKL on the listed kernels."""

    def learn(task: Task, settings: Settings, loss: str) -> list[Model]:
        X, y = task.train
        specs = listed()
        grams = np.stack([spec(X) for spec in specs])
        models = []
        for share in settings.strengths:
            found = solve(grams, y, loss=loss, regularizer=weight_set(share * len(y)), tol=1e-3, max_iter=1000)
            models.append(Model(specs, found.kernel_weights, found.dual_coef, found.intercept))
        return models

    return learn


def two_stages(wide: bool) -> Learner:
    """Return GCD-2s (Algorithm 8) with one width, or one a feature."""

    def learn(task: Task, settings: Settings, loss: str) -> list[Model]:
        X, y = task.train
        family = _family(wide)
        search = FamilySearch(family, X, SearchSettings(n_starts=1 if wide else 5))
        found = align_family(
            search, y, np.ones(len(y)), criterion="distance", limits=settings.limits(wide), random_state=0
        )
        return machines(task, settings, loss, [family.spec(p) for p in found.parameters], found.weights)

    return learn


def one_stage(wide: bool, *, sampled: bool = False) -> Learner:
    """Return CKL, which is GCD-1s, or SGD-1s, with one width or one a feature.

    Algorithm 6 with steps from the worst kernel to the new one: the same problem, a small gap after fewer kernels.
    """

    def learn(task: Task, settings: Settings, loss: str) -> list[Model]:
        X, y = task.train
        models = []
        for share in settings.strengths:
            common: dict[str, Any] = {
                "loss": loss,
                "strength": share * len(y),
                "settings": SearchSettings(n_starts=1 if wide else 5),
                "random_state": 0,
            }
            if sampled:
                common |= {
                    "n_draws": settings.kernels,
                    "corrective": False,
                    "limits": replace(settings.limits(wide), max_iter=1),
                }
                found = discover_by_sampling(X, y, _family(wide), **common)
            else:
                common |= {"update": "pairwise", "limits": settings.limits(wide)}
                found = discover_greedily(X, y, _family(wide), **common)
            solution = found.solution
            specs = [kernel.spec for kernel in found.kernels]
            models.append(Model(specs, solution.kernel_weights, solution.dual_coef, solution.intercept))
        return models

    return learn


def _family(wide: bool) -> Any:
    return ArdGaussianFamily(LOW, HIGH) if wide else GaussianFamily(LOW, HIGH)


CLASSIFIERS: dict[str, Learner] = {
    "GCD-2s (1D)": two_stages(False),
    "GCD-2s (nD)": two_stages(True),
    "CKL (1D)": one_stage(False),
    "CKL (nD)": one_stage(True),
    "AMKL": finite("joint"),
    "LPMKL (p=1)": lp(Simplex),
    "LPMKL (p=2)": lp(lambda strength: LpBall(strength, 2.0)),
    "UNIFORM": finite("uniform"),
}
REGRESSORS: dict[str, Learner] = {
    "GCD-2s (1D)": two_stages(False),
    "GCD-2s (nD)": two_stages(True),
    "GCD-1s (1D)": one_stage(False),
    "GCD-1s (nD)": one_stage(True),
    "SGD-1s (1D)": one_stage(False, sampled=True),
    "SGD-1s (nD)": one_stage(True, sampled=True),
}
