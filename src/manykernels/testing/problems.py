"""Small difficult problems with every loss, regularizer, intercept and weighting, reproducible by seed."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from manykernels.testing import formulas

Floats = NDArray[np.float64]
LOSSES = ("logistic", "hinge", "squared_hinge", "squared", "epsilon_insensitive", "huber")
REGULARIZERS = ("l1", "elasticnet", "lq", "ridge", "simplex")
_CLASSIFICATION = ("logistic", "hinge", "squared_hinge")
_LOG_LINK: dict[str, Callable[[np.random.Generator, Floats], Floats]] = {
    "poisson": lambda rng, mean: rng.poisson(mean) + 1.0 * (np.arange(mean.size) == 0),
    "gamma": lambda rng, mean: mean * rng.gamma(2.0, 0.5, mean.size),
}


@dataclass(frozen=True, eq=False)
class SmallProblem:
    """A problem as plain read-only arrays, without any class of the library."""

    kernels: Floats  # Gram matrices (M, N, N), float64
    y: Floats  # (N,) or (N, T), -1 or +1 for classification losses; several share the kernel weights (`with_targets`)
    loss_name: str  # as in the public interface, as that of the regularizer
    regularizer_name: str
    strength: float  # the constant inside Omega
    fit_intercept: bool = True
    loss_params: dict[str, float] = field(default_factory=dict)
    regularizer_params: dict[str, float] = field(default_factory=dict)
    sample_weight: Floats | None = None  # s (N,); None means ones
    kernel_penalties: Floats | None = None  # w (M,); None means ones
    description: str = ""  # one line for a failing test to print

    @property
    def weights(self) -> Floats:
        """Sample weights s of shape (N,), ones where none were given."""
        return np.ones(len(self.y)) if self.sample_weight is None else self.sample_weight

    @property
    def penalties(self) -> Floats:
        """Kernel penalties w of shape (M,), ones where none were given."""
        return np.ones(self.kernels.shape[0]) if self.kernel_penalties is None else self.kernel_penalties


def random_problem(
    seed: int,
    *,
    loss: str = "logistic",
    regularizer: str = "l1",
    fit_intercept: bool = True,
    weighted: bool = False,
) -> SmallProblem:
    """Draw a problem of at most 40 samples and 12 kernels; equal seeds give equal problems.

    The kernels mix correlated Gaussians, rank-one, low-rank linear, duplicated, zero and badly scaled kernels (factors
    1e-4 to 1e4); classes may be imbalanced and labels are noisy. Strengths run from about the strength of the zero
    model down to a thousandth. Losses are in ``LOSSES``, or ``"quantile"``, ``"poisson"`` or ``"gamma"``,
    regularizers of ``REGULARIZERS``, or ``"lp_ball"``, ``"elasticnet_ball"`` or ``"group_elasticnet"``.

    Examples
    --------
    >>> small = random_problem(0, loss="hinge", regularizer="simplex")
    >>> small.kernels.shape[1:] == (small.y.size, small.y.size)
    True
    """
    rng = np.random.default_rng([seed, 20240607])
    n_samples, n_kernels = int(rng.integers(12, 41)), int(rng.integers(2, 13))
    X = rng.normal(size=(n_samples, 4))
    kernels, kinds = _draw_kernels(rng, X, n_kernels)
    y = _draw_targets(rng, X, loss)
    if loss in _LOG_LINK:
        y = _LOG_LINK[loss](rng, np.exp(np.clip(y, -1.5, 1.5)))
    sample_weight = rng.uniform(0.2, 3.0, n_samples) if weighted else None
    penalties = np.exp(rng.uniform(-1.0, 1.0, n_kernels)) if weighted else None
    drawn = SmallProblem(
        kernels=kernels,
        y=y,
        loss_name=loss,
        regularizer_name=regularizer,
        strength=1.0,
        fit_intercept=fit_intercept,
        loss_params=_draw_loss_params(rng, loss, y),
        regularizer_params=_draw_regularizer_params(rng, regularizer),
        sample_weight=sample_weight,
        kernel_penalties=penalties,
    )
    fraction = 10 ** rng.uniform(-3.0, np.log10(0.95))
    return _finish(drawn, fraction * _reference_strength(drawn), f"seed {seed}, {kinds}, strength at {fraction:.2g}")


def small_problems(n: int = 200, *, regularizers: Sequence[str] = REGULARIZERS) -> Iterator[SmallProblem]:
    """Yield ``n`` problems that cycle through every loss, regularizer, intercept and weighting.

    24 times the number of regularizers is one full cycle; ``"lp_ball"``, ``"elasticnet_ball"`` and
    ``"group_elasticnet"`` come only on request.

    Examples
    --------
    >>> sum(small.fit_intercept for small in small_problems(120))
    60
    """
    for seed, (loss, regularizer, intercept, weighted) in enumerate(small_cases(n, regularizers)):
        yield random_problem(seed, loss=loss, regularizer=regularizer, fit_intercept=intercept, weighted=weighted)


def with_targets(small: SmallProblem, n_targets: int) -> SmallProblem:
    """Return the problem with targets (N, T), or classes, with shared kernel weights.

    The first target stays, further targets are permuted. The logistic loss takes classes: +1 in the column of the class
    of a sample, -1 elsewhere.

    Examples
    --------
    >>> with_targets(random_problem(0, loss="squared"), 3).y.shape[1]
    3
    """
    rng = np.random.default_rng([n_targets, 20261123])
    others = [rng.permutation(len(small.y)) for _ in range(n_targets - 1)]
    y = np.column_stack([small.y, *(small.y[order] for order in others)])
    if small.loss_name == "logistic":
        codes = np.where(small.y > 0, 0, rng.integers(1, n_targets, len(y)))
        codes[:n_targets] = np.arange(n_targets)  # every class occurs
        y = np.where(codes[:, None] == np.arange(n_targets), 1.0, -1.0)
    y.flags.writeable = False
    return replace(small, y=y, description=f"{small.description}, {n_targets} targets")


def small_cases(n: int, regularizers: Sequence[str] = REGULARIZERS) -> list[tuple[str, str, bool, bool]]:
    """Return loss, regularizer, intercept and weighting of the first ``n`` of `small_problems`."""
    cases = list(product(LOSSES, regularizers, (True, False), (False, True)))
    # Stepping by a number coprime to the cycle spreads the combinations over any prefix of the sequence.
    return [cases[(i * 47) % len(cases)] for i in range(n)]


def _finish(drawn: SmallProblem, strength: float, text: str) -> SmallProblem:
    arrays = (drawn.kernels, drawn.y, drawn.sample_weight, drawn.kernel_penalties)
    for array in arrays:
        if array is not None:
            array.flags.writeable = False
    head = f"{drawn.loss_name} + {drawn.regularizer_name}, N={drawn.y.size}, M={drawn.kernels.shape[0]}"
    head += f", intercept={drawn.fit_intercept}, weighted={drawn.sample_weight is not None}"
    return replace(drawn, strength=float(strength), description=f"{head}, {text}")


def _gaussian(rng: np.random.Generator, X: Floats) -> Floats:
    columns = rng.choice(X.shape[1], int(rng.integers(1, X.shape[1] + 1)), replace=False)
    distances = ((X[:, None, columns] - X[None, :, columns]) ** 2).sum(-1)
    return np.asarray(np.exp(-distances / (2 * rng.uniform(0.3, 3.0) ** 2)))


def _rank_one(rng: np.random.Generator, X: Floats) -> Floats:
    column = X @ rng.normal(size=X.shape[1])
    return np.outer(column, column)


def _linear(rng: np.random.Generator, X: Floats) -> Floats:
    features = X @ rng.normal(size=(X.shape[1], 3))
    return np.asarray(features @ features.T)


def _zero(rng: np.random.Generator, X: Floats) -> Floats:
    return np.zeros((X.shape[0], X.shape[0]))


_KINDS: dict[str, Callable[[np.random.Generator, Floats], Floats]] = {
    "gaussian": _gaussian,
    "rank_one": _rank_one,
    "linear": _linear,
    "zero": _zero,
}


def _draw_kernels(rng: np.random.Generator, X: Floats, n_kernels: int) -> tuple[Floats, str]:
    """Draw kernels of mixed kinds; in half of the problems some are scaled by 1e-4 to 1e4."""
    kinds = ["gaussian", *rng.choice(list(_KINDS), n_kernels - 1, p=[0.55, 0.2, 0.2, 0.05])]
    kernels = np.stack([_KINDS[str(kind)](rng, X) for kind in kinds])
    if rng.random() < 0.3:
        kernels[-1] = kernels[0]
    badly_scaled = bool(rng.random() < 0.5)
    if badly_scaled:
        kernels *= (10 ** (rng.uniform(-4, 4, n_kernels) * (rng.random(n_kernels) < 0.5)))[:, None, None]
    return (kernels + kernels.transpose(0, 2, 1)) / 2, "badly scaled" if badly_scaled else "evenly scaled"


def _draw_targets(rng: np.random.Generator, X: Floats, loss: str) -> Floats:
    """Draw a noisy nonlinear target, or the labels: 10 % flipped, the positive class between 12 % and 88 %."""
    signal = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=X.shape[0])
    if loss not in _CLASSIFICATION:
        return np.asarray(10 ** rng.uniform(-1, 1) * (signal + rng.normal()))
    labels = np.where(signal > np.quantile(signal, rng.uniform(0.12, 0.88)), 1.0, -1.0)
    labels[rng.random(labels.size) < 0.1] *= -1
    labels[np.argmax(signal)], labels[np.argmin(signal)] = 1.0, -1.0
    return labels


def _draw_loss_params(rng: np.random.Generator, loss: str, y: Floats) -> dict[str, float]:
    spread = float(y.std())
    return {
        "epsilon_insensitive": {"epsilon": float(rng.uniform(0.05, 0.4)) * spread},
        "huber": {"delta": float(rng.uniform(0.2, 1.5)) * spread},
        "quantile": {"tau": float(rng.uniform(0.1, 0.9))},
    }.get(loss, {})


def _draw_regularizer_params(rng: np.random.Generator, regularizer: str) -> dict[str, float]:
    if regularizer == "group_elasticnet":  # by itself: a number drawn for all would change what the others draw
        return {"l1_ratio": float(rng.choice([0.0, 0.3, 0.8])), "q": float(rng.choice([1.25, 1.5, 1.75]))}
    return {
        "elasticnet": {"l1_ratio": float(rng.choice([0.05, 0.3, 0.5, 0.9, 0.99]))},
        "lq": {"q": float(rng.choice([1.25, 1.5, 1.75, 2.0]))},
        "lp_ball": {"p": float(rng.choice([1.0, 1.5, 2.0, 3.0]))},
        "elasticnet_ball": {"eta": float(rng.choice([0.1, 0.5, 0.9]))},
    }.get(regularizer, {})


def strength_of_zero_model(problem: SmallProblem) -> float | None:
    """Return the smallest strength with an optimal zero model, or None.

    For the block 1-norm and the elastic net: ``max_m u_m / l1_ratio`` at the dual point of the best constant
    model. Where the point is not unique (a bend of the loss at the constant) the value is an upper bound.

    Examples
    --------
    >>> strength_of_zero_model(random_problem(0, regularizer="ridge")) is None
    True
    """
    ratios = {"l1": 1.0, "elasticnet": problem.regularizer_params.get("l1_ratio", 1.0)}
    if problem.regularizer_name not in ratios:
        return None
    rho = _constant_model_dual(problem)
    return (
        float((formulas.block_norms(problem.kernels, rho) / problem.penalties).max()) / ratios[problem.regularizer_name]
    )


def _reference_strength(drawn: SmallProblem) -> float:
    """Return the strength at which regularization takes over, from the dual point of the constant model.

    For the block 1-norm the zero model is optimal beyond; for other penalties, Omega* at the point equals the loss at
    zero there, and the model hardly fits beyond.
    """
    rho = _constant_model_dual(drawn)
    u = formulas.block_norms(drawn.kernels, rho) / drawn.penalties
    if formulas.penalty_dual_scale(drawn.regularizer_name, drawn.regularizer_params, 1e-300, u) < 1:
        return float(u.max())
    loss = float(
        drawn.weights @ formulas.loss_value(drawn.loss_name, drawn.loss_params, drawn.y, np.zeros_like(drawn.y))
    )

    def excess(strength: float) -> float:
        return formulas.penalty_conjugate(drawn.regularizer_name, drawn.regularizer_params, strength, u) - loss

    return formulas.bisect_decreasing(excess, 1e-12 * u.max() ** 2, 1e12 * u.max() ** 2, geometric=True)


def _constant_model_dual(drawn: SmallProblem) -> Floats:
    """Return ``-s l'(y, b)`` at the best constant b (at b = 0 without an intercept), by differences and bisection."""
    if drawn.y.ndim == 2 and drawn.loss_name == "logistic":
        shares = drawn.weights @ (drawn.y > 0) / drawn.weights.sum() if drawn.fit_intercept else 1 / drawn.y.shape[1]
        return drawn.weights[:, None] * ((drawn.y > 0) - shares)
    if drawn.y.ndim == 2:
        return np.column_stack([_constant_model_dual(replace(drawn, y=column)) for column in drawn.y.T])
    lo, hi = (drawn.weights * bound for bound in formulas.loss_bounds(drawn.loss_name, drawn.loss_params, drawn.y))

    def rho(b: float) -> Floats:
        h, z = 1e-6, np.full(drawn.y.shape, b)
        ahead, behind = (formulas.loss_value(drawn.loss_name, drawn.loss_params, drawn.y, z + e) for e in (h, -h))
        return np.clip(-drawn.weights * (ahead - behind) / (2 * h), lo, hi)

    reach = 10 * float(np.abs(drawn.y).max() + 1)
    best = formulas.bisect_decreasing(lambda b: float(rho(b).sum()), -reach, reach) if drawn.fit_intercept else 0.0
    return rho(best)
