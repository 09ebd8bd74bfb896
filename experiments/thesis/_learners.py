"""The learners that 6.1.5, 6.2.2 and 6.3 of the thesis compare; a validation set chooses among the models of each."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from _settings import Settings, Watch
from _tasks import Task
from numpy.typing import NDArray
from sklearn.svm import SVC

from manykernels import solve
from manykernels.alignment import aligned_weights
from manykernels.discovery import (
    AscentSettings,
    Discovery,
    FamilySearch,
    SearchProblem,
    SearchSettings,
    TargetSpace,
    align_family,
    discover_by_sampling,
    discover_greedily,
)
from manykernels.objective.regularizers.weight_sets import LpBall, Simplex

Array = NDArray[Any]

SAMPLING_SECONDS = 60.0  # most CPU seconds of a search that draws kernels; 5 s ended most with one width a feature


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


Learner = Callable[[Task, Settings, str], list[Model]]


def misclassified(scores: Array, y: Array) -> float:
    """Return the share of wrong signs."""
    return float(np.mean(np.where(scores > 0, 1.0, -1.0) != y))


def squared_error(scores: Array, y: Array) -> float:
    """Return the mean squared error."""
    return float(np.mean((scores - y) ** 2))


def evaluate(learner: Learner, task: Task, settings: Settings, loss: str) -> dict[str, float]:
    """Return the test errors of the model that is best on the validation set, and CPU seconds of all models."""
    measure = squared_error if loss == "squared" else misclassified
    started = time.process_time()
    models = learner(task, settings, loss)
    seconds = time.process_time() - started
    best = best_of(models, task, measure)
    scores, y = best.scores(task.test[0], task.train[0]), task.test[1]
    errors_of_best = {"misclassified": misclassified(scores, y), "squared": squared_error(scores, y)}
    return {**errors_of_best, "cpu_s": seconds, "kernels": len(best.specs)}


def best_of(models: Sequence[Model], task: Task, measure: Callable[[Array, Array], float]) -> Model:
    """Return the model that is best on the validation set."""
    X, y = task.valid
    return min(models, key=lambda model: measure(model.scores(X, task.train[0]), y))


def machines(task: Task, settings: Settings, loss: str, specs: Sequence[Any], weights: Array) -> list[Model]:
    """Return a machine on a finished kernel for each cost."""
    X, y = task.train
    gram = combined(specs, weights, X)
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


def finite(method: str) -> Learner:
    """Return AMKL (``"joint"``) or UNIFORM on the listed kernels."""

    def learn(task: Task, settings: Settings, loss: str) -> list[Model]:
        X, y = task.train
        specs = settings.widths.specs()
        theta = aligned_weights(np.stack([spec(X) for spec in specs]), y, method).weights
        kept = np.flatnonzero(theta)
        return machines(task, settings, loss, [specs[m] for m in kept], theta[kept])

    return learn


def lp(weight_set: Callable[[float], Any]) -> Learner:
    """Return LPMKL on the listed kernels."""

    def learn(task: Task, settings: Settings, loss: str) -> list[Model]:
        X, y = task.train
        specs = settings.widths.specs()
        grams = np.stack([spec(X) for spec in specs])
        models = []
        for cost in settings.costs:
            strength = 1.0 / cost
            found = solve(grams, y, loss=loss, penalty=weight_set(strength), tol=1e-3, callback=Watch(settings.seconds))
            models.append(Model(specs, found.kernel_weights, found.dual_coef, found.intercept))
        return models

    return learn


def two_stages(wide: bool, *, shrunk: bool = False) -> Learner:
    """Return GCD-2s (Algorithm 8) with one width, or one a feature, shrunk to their mean by (6.2) or not."""

    def learn(task: Task, settings: Settings, loss: str) -> list[Model]:
        shrinkages = settings.shrinkages if shrunk else (0.0,)
        kernels = [aligned(task, settings, wide, shrinkage) for shrinkage in shrinkages]
        best = kernels[0]
        if shrunk:
            # As in 6.2.1 of the thesis: the largest alignment on the validation set.
            space = TargetSpace(task.valid[1], np.ones(len(task.valid[1])))
            best = max(kernels, key=lambda kernel: space.alignment(combined(*kernel, task.valid[0])))
        return machines(task, settings, loss, *best)

    return learn


def aligned(task: Task, settings: Settings, wide: bool, shrinkage: float) -> tuple[list[Any], Array]:
    """Return the kernels of the first stage and their weights."""
    X, y = task.train
    family = settings.family(wide)
    search = FamilySearch(family, X, SearchSettings(n_starts=1 if wide else 5, shrinkage=shrinkage))
    limits = settings.limits(wide)
    shared = {"criterion": "distance", "ascent": AscentSettings("published")}
    found = align_family(search, y, np.ones(len(y)), limits=limits, random_state=0, **shared)
    return [family.spec(parameter) for parameter in found.parameters], found.weights


def combined(specs: Sequence[Any], weights: Array, X: Array) -> Array:
    """Return the weighted sum of Gram matrices."""
    return sum((w * spec(X) for spec, w in zip(specs, weights, strict=True)), np.zeros((len(X), len(X))))


def greedy(wide: bool, *, change: float, update: str = "frank_wolfe") -> Learner:
    """Return CKL, which is GCD-1s (Algorithm 6), or IKL (``"corrective"``), with one width or one a feature."""

    def learn(task: Task, settings: Settings, loss: str) -> list[Model]:
        common = {"update": update, "settings": SearchSettings(n_starts=1 if wide else 5)}
        return [
            model_of(
                discover_greedily(
                    SearchProblem(*task.train, loss, strength=strength), settings.family(wide),
                    limits=settings.limits(wide, change), random_state=0, **common,
                )
            )
            for strength in settings.strengths
        ]  # fmt: skip

    return learn


def sampled(wide: bool) -> Learner:
    """Return SGD-1s, with one width or one a feature.

    The number of draws is all that ends it: between two draws the objective may stand still by chance. It draws as many
    kernels with one width a feature as with one, and has `SAMPLING_SECONDS`, since fewer kernels starve it.
    """

    def learn(task: Task, settings: Settings, loss: str) -> list[Model]:
        common = {"settings": SearchSettings(n_starts=1 if wide else 5), "corrective": False}
        own = replace(settings, wide_kernels=settings.kernels, seconds=max(settings.seconds, SAMPLING_SECONDS))
        return [
            model_of(
                discover_by_sampling(
                    SearchProblem(*task.train, loss, strength=strength), settings.family(wide),
                    n_draws=own.most(wide), limits=own.limits(wide), random_state=0, **common,
                )
            )
            for strength in settings.strengths
        ]  # fmt: skip

    return learn


def model_of(found: Discovery) -> Model:
    """Return what a search has found, as a model."""
    solution = found.solution
    specs = [kernel.spec for kernel in found.kernels]
    return Model(specs, solution.kernel_weights, solution.dual_coef, solution.intercept)


ROUGH, FINE = 1e-2, 1e-3  # changes of the objective that end a search: in 6.1.5, and in 6.2.2 and 6.3
LP2 = lp(lambda strength: LpBall(strength, 2.0))
HINGE: dict[str, Learner] = {
    "GCD-2s (1D)": two_stages(False),
    "GCD-2s (nD)": two_stages(True),
    "GCD-2s (nD, shrunk)": two_stages(True, shrunk=True),
    "CKL (1D)": greedy(False, change=FINE),
    "CKL (nD)": greedy(True, change=FINE),
    "AMKL": finite("joint"),
    "LPMKL (p=1)": lp(Simplex),
    "LPMKL (p=2)": LP2,
    "UNIFORM": finite("uniform"),
}
SQUARED: dict[str, Learner] = {
    "SGD-1s (1D)": sampled(False),
    "SGD-1s (nD)": sampled(True),
    "CKL (1D)": greedy(False, change=ROUGH),
    "CKL (nD)": greedy(True, change=ROUGH),
    "IKL (1D)": greedy(False, change=ROUGH, update="corrective"),
    "IKL (nD)": greedy(True, change=ROUGH, update="corrective"),
    "LPMKL (p=2)": LP2,
    "UNIFORM": finite("uniform"),
    "GCD-1s (1D)": greedy(False, change=FINE),
    "GCD-1s (nD)": greedy(True, change=FINE),
    "GCD-2s (1D)": two_stages(False),
    "GCD-2s (nD)": two_stages(True),
    "GCD-2s (nD, shrunk)": two_stages(True, shrunk=True),
}
