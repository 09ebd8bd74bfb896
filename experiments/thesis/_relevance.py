"""Gaussian classes of which fewer and fewer columns matter (6.2.1 of the thesis), and the methods compared on them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from _settings import Watch
from numpy.typing import NDArray
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.svm import SVC

from manykernels import Gaussian, solve
from manykernels.alignment import aligned_weights
from manykernels.discovery import (
    ArdGaussianFamily,
    AscentSettings,
    FamilySearch,
    GaussianFamily,
    Limits,
    SearchProblem,
    SearchSettings,
    TargetSpace,
    align_family,
    discover_greedily,
)
from manykernels.objective.regularizers.weight_sets import LpBall, Simplex

Array = NDArray[Any]

N_FEATURES, DISTANCE = 50, 1.75
ENDS = np.array([1e-3, 1e3]) / np.sqrt(2)  # the thesis writes exp(-d^2 / sigma^2)
SVM_CONSTANTS = 10.0 ** np.arange(-5.0, 5.5, 0.5)
CHANGE = 1e-3  # of the objective, relative, that ends a search, as does the number of kernels
N_ALIGNED = 500  # samples on which alignment is measured


@dataclass(frozen=True)
class Sizes:
    """How much is computed.

    Attributes
    ----------
    n_validation, n_test, n_train : int
    n_listed : int
        Widths on the list.
    most_kernels : int
        Of a search.
    seconds : float
        Most CPU seconds of one search.
    constants : tuple of float
        ``C`` of methods in one stage, each a search of its own.
    shrinkages : tuple of float
        ``lambda`` of (6.2), likewise.
    standardize : bool
        Whether columns are scaled to unit variance on the training part.
    """

    n_validation: int = 1000
    n_test: int = 2000
    n_train: int = 50
    n_listed: int = 50
    most_kernels: int = 50
    seconds: float = 10.0
    constants: tuple[float, ...] = (0.1, 1.0, 10.0, 100.0)
    shrinkages: tuple[float, ...] = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0)
    standardize: bool = False

    def widths(self) -> Array:
        """Return the widths on the list."""
        return np.geomspace(*ENDS, self.n_listed)


class Data(NamedTuple):
    """Points and labels of one draw."""

    train: tuple[Array, Array]
    validation: tuple[Array, Array]
    test: tuple[Array, Array]


@dataclass(frozen=True, eq=False)
class Kernel:
    """A weighted sum of kernels."""

    specs: Sequence[Any]
    weights: Array

    def __call__(self, A: Array, B: Array | None = None) -> Array:
        """Return the matrix of kernel values; kernels with one width share the distances."""
        other = A if B is None else B
        squares = euclidean_distances(A, other, squared=True)
        total = np.zeros((len(A), len(other)))
        for weight, spec in zip(self.weights, self.specs, strict=True):
            shared = isinstance(spec, Gaussian)
            total += weight * (np.exp(squares / (-2 * spec.width**2)) if shared else spec(A, B))
        return total


class Model(NamedTuple):
    """Scores ``k(x, X) rho + b``."""

    kernel: Kernel
    rho: Array
    b: float


class Learned(NamedTuple):
    """The models of a method, one for each constant; CPU seconds of one of them; whether a search was cut short.

    What is needed before a constant is known counts whole.
    """

    models: list[Model]
    seconds: float
    cut: bool


Method = Callable[[Data, Sizes], Learned]


def draw(gamma: float, seed: int, sizes: Sizes) -> Data:
    """Return samples of two Gaussian classes whose means differ in feature i by ``(i/50)^gamma``, scaled."""
    rng = np.random.default_rng(seed)
    relevance = (np.arange(1, N_FEATURES + 1) / N_FEATURES) ** gamma
    mean = DISTANCE * relevance / np.linalg.norm(relevance)
    parts = []
    for size in (sizes.n_train, sizes.n_validation, sizes.n_test):
        y = rng.permutation(np.where(np.arange(size) < size // 2, 1.0, -1.0))
        parts.append((rng.normal(size=(size, N_FEATURES)) + y[:, None] * mean, y))
    scale = parts[0][0].std(axis=0) if sizes.standardize else np.ones(N_FEATURES)
    return Data(*((X / scale, y) for X, y in parts))


def alignment(kernel: Kernel, X: Array, y: Array) -> float:
    """Return the centered alignment of a kernel with the labels of some samples."""
    X, y = X[:N_ALIGNED], y[:N_ALIGNED]
    return TargetSpace(y, np.ones(len(y))).alignment(kernel(X)) if len(kernel.specs) else 0.0


# --- methods that first find a kernel -------------------------------------------------------------------------------


def first(find: Callable[[Data, Sizes], tuple[Kernel, bool]]) -> Method:
    """Return the method that trains machines on a kernel found before."""

    def learn(data: Data, sizes: Sizes) -> Learned:
        started = time.process_time()
        kernel, cut = find(data, sizes)
        found = time.process_time()
        models = machines(kernel, *data.train)
        return Learned(models, found - started + (time.process_time() - found) / len(models), cut)

    return learn


def machines(kernel: Kernel, X: Array, y: Array) -> list[Model]:
    """Return SVMs on one kernel."""
    gram, models = kernel(X), []
    scale = max(float(np.mean(np.diag(gram))), 1e-300)
    for C in SVM_CONSTANTS:
        machine = SVC(C=C / scale, kernel="precomputed", max_iter=100_000).fit(gram, y)
        rho = np.zeros(len(y))
        rho[machine.support_] = machine.dual_coef_[0]
        models.append(Model(kernel, rho, float(machine.intercept_[0])))
    return models


def listed(weights: Array, sizes: Sizes) -> Kernel:
    """Return a weighted sum of the listed kernels."""
    kept = np.flatnonzero(weights > 1e-8 * weights.max()) if weights.any() else np.array([0])
    return Kernel([Gaussian(float(width)) for width in sizes.widths()[kept]], weights[kept])


def grams(data: Data, sizes: Sizes) -> Array:
    """Return the Gram matrices of the listed kernels."""
    squares = euclidean_distances(data.train[0], squared=True)
    return np.exp(squares / (-2 * sizes.widths()[:, None, None] ** 2))


def uniform(data: Data, sizes: Sizes) -> tuple[Kernel, bool]:
    """Return the mean of the listed kernels."""
    return listed(np.full(sizes.n_listed, 1 / sizes.n_listed), sizes), False


def aligned_list(data: Data, sizes: Sizes) -> tuple[Kernel, bool]:
    """Return the best aligned sum of the listed kernels (AMKL)."""
    return listed(aligned_weights(grams(data, sizes), data.train[1], "joint").weights, sizes), False


def two_stages(family: Any, n_starts: int, *, shrunk: bool = False) -> Method:
    """Return GCD-2s by distance; of several strengths of shrinkage, the one aligned best on validation samples."""

    def find(data: Data, sizes: Sizes) -> tuple[Kernel, bool]:
        shrinkages = sizes.shrinkages if shrunk else (0.0,)
        found = [aligned(family, data, sizes, SearchSettings(n_starts, shrinkage)) for shrinkage in shrinkages]
        best = found[0][0]
        if len(found) > 1:
            best = max((kernel for kernel, _ in found), key=lambda kernel: alignment(kernel, *data.validation))
        return best, any(cut for _, cut in found)

    return first(find)


def aligned(family: Any, data: Data, sizes: Sizes, settings: SearchSettings) -> tuple[Kernel, bool]:
    """Return the kernel of the first stage."""
    X, y = data.train
    search, watch = FamilySearch(family, X, settings), Watch(sizes.seconds)
    limits = Limits(max_iter=sizes.most_kernels, callback=watch)
    shared = {"criterion": "distance", "ascent": AscentSettings("published")}
    found = align_family(search, y, np.ones(len(y)), limits=limits, random_state=0, **shared)
    specs = [family.spec(parameter) for parameter in found.parameters]
    return Kernel(specs, found.weights), watch.late


# --- methods that learn kernel and machine together -------------------------------------------------------------------


def together(learn_one: Callable[[Data, Sizes, float], tuple[Model, bool]]) -> Method:
    """Return the method that learns anew for every constant."""

    def learn(data: Data, sizes: Sizes) -> Learned:
        started = time.process_time()
        found = [learn_one(data, sizes, 1 / C) for C in sizes.constants]
        seconds = (time.process_time() - started) / len(found)
        return Learned([model for model, _ in found], seconds, any(cut for _, cut in found))

    return learn


def lp(regularizer: Any) -> Method:
    """Return the method that learns weights on the simplex or in a ball."""

    def learn_one(data: Data, sizes: Sizes, strength: float) -> tuple[Model, bool]:
        watch, y = Watch(sizes.seconds), data.train[1]
        common = {"loss": "hinge", "tol": CHANGE, "callback": watch}
        found = solve(grams(data, sizes), y, penalty=regularizer(strength), **common)
        return Model(listed(found.kernel_weights, sizes), found.dual_coef, found.intercept), watch.late

    return together(learn_one)


def one_stage(family: Any, n_starts: int) -> Method:
    """Return GCD-1s, which is CKL."""

    def learn_one(data: Data, sizes: Sizes, strength: float) -> tuple[Model, bool]:
        watch = Watch(sizes.seconds, CHANGE)
        common = {"limits": Limits(CHANGE, sizes.most_kernels, callback=watch), "settings": SearchSettings(n_starts)}
        found = discover_greedily(
            SearchProblem(*data.train, loss="hinge", strength=strength),
            family,
            update="frank_wolfe",
            random_state=0,
            **common,
        )
        solution = found.solution
        kernel = Kernel([part.spec for part in found.kernels], solution.kernel_weights)
        return Model(kernel, solution.dual_coef, solution.intercept), watch.late

    return together(learn_one)


ONE, MANY = GaussianFamily(*ENDS), ArdGaussianFamily(*ENDS)
LISTED: dict[str, Method] = {
    "UNIFORM": first(uniform),
    "AMKL": first(aligned_list),
    "LPMKL (p=1)": lp(Simplex),
    "LPMKL (p=2)": lp(LpBall),
}
SEARCHES: dict[str, Method] = {
    "CKL (1D)": one_stage(ONE, 5),
    "CKL (nD)": one_stage(MANY, 1),
    "GCD-2s (1D)": two_stages(ONE, 5),
    "GCD-2s (nD, NoReg)": two_stages(MANY, 1),
    "GCD-2s (nD)": two_stages(MANY, 1, shrunk=True),
}
METHODS = {**LISTED, **SEARCHES}


# --- what is measured -----------------------------------------------------------------------------------------------


def share_missed(models: list[Model], X: Array, y: Array, train: Array) -> list[float]:
    """Return the share of samples whose sign each model misses; kernels that models share are computed once."""
    cross: dict[int, Array] = {}
    errors = []
    for model in models:
        if id(model.kernel) not in cross:
            cross[id(model.kernel)] = model.kernel(X, train)
        scores = cross[id(model.kernel)] @ model.rho + model.b
        errors.append(float(np.mean(np.where(scores > 0, 1.0, -1.0) != y)))
    return errors


def measure(method: Method, data: Data, sizes: Sizes) -> dict[str, Any]:
    """Return error (percent) and alignment on the test part of the model best on the validation part, and the time."""
    learned, train = method(data, sizes), data.train[0]
    best = learned.models[int(np.argmin(share_missed(learned.models, *data.validation, train)))]
    return {
        "error": 100 * share_missed([best], *data.test, train)[0],
        "alignment": alignment(best.kernel, *data.test),
        "cpu_s": learned.seconds,
        "cut": learned.cut,
    }
