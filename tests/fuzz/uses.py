"""Uses of solvers and estimators beyond plain Gram matrices, drawn from a seed and judged.

Fits on factors, with shared outputs, of Cox's loss and on pairs are solved twice, as Gram matrices and as asked: of two
true certificates neither lower bound is above the other's value. Searches and cross-validations are fitted, saved,
loaded and asked for predictions. Nothing may raise but in words, be slower than its limit by more than a factorization,
or write to its arguments.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from manykernels import (
    Gaussian,
    GaussianMKL,
    KernelBank,
    KernelStack,
    Laplacian,
    Linear,
    MKLClassifierCV,
    MKLRegressorCV,
    MKLSurvivalCV,
    PairKernels,
    Pairs,
    Periodic,
    Polynomial,
    PolynomialMKL,
    load_model,
    save_model,
    solve,
    survival_array,
)
from manykernels.exceptions import ConvergenceWarning, IncompatibleError, InvalidInputError, MemoryBudgetError
from manykernels.objective import get_regularizer

TIME_LIMIT = 10.0
GRACE = 5.0  # seconds beyond the limit: searches and folds end what they are at
REFUSALS = (InvalidInputError, IncompatibleError, MemoryBudgetError)
REGULARIZERS = ("l1", "elasticnet", "ridge", "lq", "simplex")
CLASSIFIERS = ("logistic", "hinge", "squared_hinge")
LOSSES = (*CLASSIFIERS, "squared", "epsilon_insensitive", "huber", "quantile", "poisson")


@dataclass(frozen=True)
class Judgment:
    """What became of a use: refused, converged or not, and what was wrong with it, if anything."""

    kind: str
    seed: int
    status: str
    failure: str = ""
    detail: str = ""


class WrongError(Exception):
    """Something that was told is not so."""


# --- drawing --------------------------------------------------------------------------------------------------------


def table_of(rng: np.random.Generator, n: int) -> Any:
    """Return two to five columns: ordinary, far from zero, tiny, rounded, constant or with a value far out."""
    X = rng.standard_normal((n, int(rng.integers(2, 6))))
    for j in range(X.shape[1]):
        match int(rng.integers(9)):
            case 0:
                X[:, j] += 10.0 ** rng.uniform(1, 9)
            case 1:
                X[:, j] *= 10.0 ** rng.uniform(-9, 6)
            case 2:
                X[:, j] = np.round(X[:, j])
            case 3:
                X[:, j] = 1.0
            case 4:
                X[int(rng.integers(n)), j] = 1e4
    return X


def spec_of(rng: np.random.Generator) -> Any:
    """Return a kernel, one in three a product."""
    width = float(f"{10 ** rng.uniform(-1.3, 0.8):.3g}")
    kinds: list[Callable[[], Any]] = [
        lambda: Gaussian(width), lambda: Laplacian(width), lambda: Linear(),
        lambda: Polynomial(int(rng.integers(2, 4))), lambda: Periodic(2.0 * width, 0.5),
    ]  # fmt: skip
    spec = kinds[int(rng.integers(len(kinds)))]()
    return spec * spec_of(rng) if rng.random() < 1 / 3 else spec


def bank_of(rng: np.random.Generator, n_columns: int, most_columns: int = 3) -> KernelBank:
    """Return one to ten kernels on some columns each."""
    kernels = []
    for m in range(int(rng.integers(1, 11))):
        columns = rng.choice(n_columns, int(rng.integers(1, min(n_columns, most_columns) + 1)), replace=False)
        kernels.append((f"k{m}", spec_of(rng), sorted(columns.tolist())))
    return KernelBank(kernels, standardize=bool(rng.random() < 0.7))


def target_of(rng: np.random.Generator, X: Any, loss: str) -> Any:
    """Return a target of a loss, by the first two columns."""
    first, second = np.tanh(X[:, 0] - np.median(X[:, 0])), np.tanh(X[:, 1] - np.median(X[:, 1]))
    score = first + 0.5 * second**2 + 0.3 * rng.standard_normal(len(X))
    if loss in CLASSIFIERS:
        labels = np.where(score > np.median(score), 1.0, -1.0)
        labels[:2] = 1.0, -1.0
        return labels
    if loss == "poisson":
        return rng.poisson(np.exp(np.clip(score, -3, 3))).astype(float) + (np.arange(len(X)) == 0)
    if loss == "cox":
        event = rng.random(len(X)) < 0.7
        event[0] = True
        return survival_array(event, np.ceil(rng.exponential(size=len(X)) * np.exp(-score) * 10))
    return score * 10.0 ** rng.choice([0.0, 0.0, 0.0, -6.0, 6.0])


def regularizer_of(rng: np.random.Generator, n: int) -> dict[str, Any]:
    """Return a penalty and its strength as `solve` takes them."""
    name, part = str(rng.choice(REGULARIZERS)), float(f"{10 ** rng.uniform(-4, 0.3):.3g}")
    if name in ("elasticnet", "lq"):
        own = {"l1_ratio": float(rng.choice([0.1, 0.5, 0.9]))} if name == "elasticnet" else {"q": 1.5}
        return {"penalty": get_regularizer(name, 0.1 * n * part, **own)}
    return {"penalty": name, "alpha": f"{part}*max"}


def weights_of(rng: np.random.Generator, n: int) -> Any:
    """Return sample weights, of which some may be zero, or none."""
    match int(rng.integers(4)):
        case 0:
            return rng.uniform(0.5, 2.0, n)
        case 1:
            return rng.integers(0, 3, n).astype(float)
        case 2:
            return np.where(np.arange(n) < n // 3, 0.0, 1.0)
    return None


# --- solved twice ---------------------------------------------------------------------------------------------------


def cross_checked(fits: list[Any], losses: list[float], *tables: Any) -> str:
    """Return the worst status of fits of one problem; certificates and the cost of own predictions must agree.

    ``losses`` are those of the models' predictions on the training rows, which no primal value is below.
    """
    told = [found.certificate for found in fits]
    # Standardized columns far from zero differ by what their values cannot hold, in the two ways of computing them.
    columns = [column for table in tables for column in np.asarray(table).T if np.ptp(column) > 0]
    lost = max((float(np.abs(column).max() / np.ptp(column)) for column in columns), default=1.0)
    input_share = 1e-9 + 1e3 * np.finfo(float).eps * lost
    for one in told:
        slack = one.rounding + input_share * max(abs(one.primal), 1e-300)
        for other in told:
            if one.dual > other.primal + slack + other.rounding + input_share * abs(other.primal):
                raise WrongError(f"a lower bound of {one.dual:.9g}, and a model of {other.primal:.9g}")
    for one, loss in zip(told, losses, strict=True):
        if not np.isfinite(loss) or loss > one.primal + one.rounding + 1e-6 * abs(one.primal):
            raise WrongError(f"told P {one.primal:.9g}, but predictions cost {loss:.9g}")
    statuses = [str(found.status) for found in fits]
    return next((status for status in statuses if status != "converged"), "converged")


def solved_twice(kernels: Any, y: Any, X: Any, ways: list[dict[str, Any]], options: dict[str, Any]) -> str:
    """Solve as each of the ways says; a way that is refused is left out."""
    fits, losses, refusal = [], [], None
    for way in ways:
        try:
            found = solve(kernels, y, X=X, **way, **options, time_limit=TIME_LIMIT)
        except REFUSALS as error:
            refusal = error
            continue
        fits.append(found)
        scores = found.decision_function(X)
        losses.append(loss_of(options, y, scores))
    if not fits:
        assert refusal is not None
        raise refusal
    return cross_checked(fits, losses, X)


def loss_of(options: dict[str, Any], y: Any, z: Any) -> float:
    """Return the weighted loss of scores by the plain formulas; 0, a bound that says less, where there is none."""
    weight = options.get("sample_weight")
    weight = np.ones(len(z)) if weight is None else weight
    if options["loss"] == "cox":
        return 0.0 if np.isfinite(z).all() else np.inf
    y = np.asarray(y)
    per: dict[str, Callable[[], Any]] = {
        "logistic": lambda: np.logaddexp(0.0, -y * z),
        "hinge": lambda: np.maximum(1.0 - y * z, 0.0),
        "squared_hinge": lambda: 0.5 * np.maximum(1.0 - y * z, 0.0) ** 2,
        "squared": lambda: 0.5 * (y - z) ** 2,
        "epsilon_insensitive": lambda: np.maximum(np.abs(y - z) - 0.1, 0.0),
        "quantile": lambda: np.maximum(0.5 * (y - z), -0.5 * (y - z)),
    }
    if options["loss"] not in per:
        return 0.0 if np.isfinite(z).all() else np.inf
    each = per[options["loss"]]()
    if each.ndim == 2 and options["loss"] == "logistic":
        return 0.0 if np.isfinite(z).all() else np.inf  # the multinomial loss is none of single columns
    return float(np.sum(weight * (each if each.ndim == 1 else each.sum(axis=1))))


def factored(rng: np.random.Generator, checked: Callable[..., None]) -> str:
    """Fit on factors and on matrices."""
    X, loss = table_of(rng, int(rng.integers(20, 120))), str(rng.choice(LOSSES))
    y, bank, weight = target_of(rng, X, loss), bank_of(rng, X.shape[1]), None
    if rng.random() < 0.3:
        weight = rng.uniform(0.5, 2.0, len(X))
    checked(X, y, weight)
    options = {"loss": loss, "tol": float(rng.choice([1e-3, 1e-4, 1e-6])), "sample_weight": weight}
    options |= regularizer_of(rng, len(X)) | {"fit_intercept": bool(rng.random() < 0.7)}
    return solved_twice(bank, y, X, [{"representation": "factored"}, {"representation": "gram"}], options)


def shared(rng: np.random.Generator, checked: Callable[..., None]) -> str:
    """Fit several outputs with one set of kernel weights, on factors and on matrices."""
    X, loss = (
        table_of(rng, int(rng.integers(20, 90))),
        str(rng.choice(["squared", "logistic", "squared_hinge", "huber"])),
    )
    Y = np.column_stack([target_of(rng, X, loss) for _ in range(int(rng.integers(2, 5)))])
    if loss == "logistic":  # of several classes: one a row
        Y = np.where(np.eye(3)[np.arange(len(X)) % 3] > 0, 1.0, -1.0)
    checked(X, Y)
    options: dict[str, Any] = {"loss": loss, "tol": float(rng.choice([1e-3, 1e-4, 1e-5])), "outputs": "shared"}
    options |= regularizer_of(rng, len(X))
    return solved_twice(
        bank_of(rng, X.shape[1]), Y, X, [{"representation": "factored"}, {"representation": "gram"}], options
    )


def cox(rng: np.random.Generator, checked: Callable[..., None]) -> str:
    """Fit the partial likelihood, on factors and on matrices."""
    X = table_of(rng, int(rng.integers(20, 90)))
    y = target_of(rng, X, "cox")
    checked(X, y)
    options = {"loss": "cox", "tol": float(rng.choice([1e-3, 1e-4, 1e-5])), "fit_intercept": False}
    ways = [{"representation": "factored"}, {"representation": "gram"}]
    return solved_twice(bank_of(rng, X.shape[1]), y, X, ways, options | regularizer_of(rng, len(X)))


def pairs(rng: np.random.Generator, checked: Callable[..., None]) -> str:
    """Fit pairs by products of kernels of their members, and by the matrices of all pairs."""
    left, right = table_of(rng, int(rng.integers(5, 14))), table_of(rng, int(rng.integers(4, 12)))
    places = np.argwhere(rng.random((len(left), len(right))) < 0.7)
    data, loss = Pairs(left, right, places), str(rng.choice(["squared", "logistic", "hinge", "squared_hinge"]))
    y = target_of(rng, np.column_stack([left[places[:, 0], 0], right[places[:, 1], 0]]), loss)
    checked(left, right, y)
    kernels = PairKernels(bank_of(rng, left.shape[1], 2), bank_of(rng, right.shape[1], 2))
    options = (
        {"loss": loss, "tol": float(rng.choice([1e-3, 1e-4]))}
        | regularizer_of(rng, len(y))
        | {"time_limit": TIME_LIMIT}
    )
    bank = kernels.fit(data)
    rows = bank.prepare(data)
    formed = solve(KernelStack(bank.block(rows, rows)).square(), y, **options)
    found = solve(kernels, y, X=data, **options)
    cost = loss_of(options, y, found.decision_function(data))
    return cross_checked([found, formed], [cost, 0.0], left, right)


# --- estimators -----------------------------------------------------------------------------------------------------


def kept(model: Any, X: Any, gap: float | None) -> str:
    """Return whether a fitted model reached its gap; its predictions are finite, and those of its file."""
    told = model.predict(X)
    numbers = model.decision_function(X) if hasattr(model, "decision_function") else told
    if not np.isfinite(np.asarray(numbers, dtype=float)).all():
        raise WrongError("predictions are not finite")
    with tempfile.TemporaryDirectory() as folder:
        save_model(model, Path(folder) / "model.mkl")
        again = load_model(Path(folder) / "model.mkl").predict(X)
    if not np.array_equal(again, told):
        raise WrongError("the model of the file predicts something else")
    return "converged" if gap is None or gap <= model.tol else "unconverged"


def polynomial(rng: np.random.Generator, checked: Callable[..., None]) -> str:
    """Search products of columns."""
    X, loss = table_of(rng, int(rng.integers(15, 60))), str(rng.choice(["squared", "squared", "logistic", "hinge"]))
    y = target_of(rng, X, loss)
    checked(X, y)
    model = PolynomialMKL(
        degree=int(rng.integers(1, 4)), p=float(rng.choice([1.0, 1.5, 2.0])), loss=loss, n_steps=20,
        resources={"max_iter": 10, "time_limit": TIME_LIMIT},
        alpha=float(10 ** rng.uniform(-4, 0)), standardize=bool(rng.random() < 0.8),
        random_state=int(rng.integers(100)),
    )  # fmt: skip
    return kept(model.fit(X, y), X, getattr(model, "dual_gap_", None))


def gaussian(rng: np.random.Generator, checked: Callable[..., None]) -> str:
    """Search widths."""
    X, loss = table_of(rng, int(rng.integers(15, 60))), str(rng.choice(["squared", "logistic", "hinge"]))
    y = target_of(rng, X, loss)
    checked(X, y)
    model = GaussianMKL(
        loss=loss, n_starts=2, resources={"max_iter": 6, "time_limit": TIME_LIMIT},
        per_feature=bool(rng.random() < 0.4),
        alpha="auto" if rng.random() < 0.5 else float(10 ** rng.uniform(-4, 0)),
        standardize=bool(rng.random() < 0.8), random_state=int(rng.integers(100)),
    )  # fmt: skip
    return kept(model.fit(X, y), X, getattr(model, "dual_gap_", None))


def weighted_cv(rng: np.random.Generator, checked: Callable[..., None]) -> str:
    """Cross-validate with sample weights, of which some or all of a fold are zero."""
    X, kind = table_of(rng, int(rng.integers(18, 70))), int(rng.integers(3))
    y = target_of(rng, X, ("logistic", "squared", "cox")[kind])
    weight = weights_of(rng, len(X)) if kind < 2 else None
    checked(X, y, weight)
    estimator = (MKLClassifierCV, MKLRegressorCV, MKLSurvivalCV)[kind]
    options: dict[str, Any] = {"cv": int(rng.integers(2, 5)), "n_alphas": 3, "resources": {"time_limit": TIME_LIMIT}}
    if rng.random() < 0.5:
        options["penalty"] = str(rng.choice(["l1", "elasticnet", "ridge"]))
    if kind < 2:
        options["resources"]["representation"] = str(rng.choice(["auto", "gram", "factored"]))
    model = estimator(bank_of(rng, X.shape[1]), **options)
    model = model.fit(X, y) if kind == 2 else model.fit(X, y, sample_weight=weight)
    return kept(model, X, model.dual_gap_)


USES: dict[str, Callable[[np.random.Generator, Callable[..., None]], str]] = {
    "factored": factored, "shared outputs": shared, "cox": cox, "pairs": pairs, "polynomial": polynomial,
    "gaussian": gaussian, "weighted cv": weighted_cv,
}  # fmt: skip


# --- judging --------------------------------------------------------------------------------------------------------


def judge_use(seed: int) -> Judgment:
    """Draw, fit and judge the use of a seed; kinds take turns. Who hangs does it twice: the first fit compiles."""
    found = _judge(seed)
    return _judge(seed) if found.failure == "hang" else found


def _judge(seed: int) -> Judgment:
    kind = list(USES)[seed % len(USES)]
    given: list[tuple[Any, Any]] = []
    started = time.process_time()

    def checked(*arguments: Any) -> None:
        given.extend((argument, argument.copy()) for argument in arguments if argument is not None)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            status = USES[kind](np.random.default_rng([seed, 31]), checked)
        except REFUSALS as error:
            return Judgment(kind, seed, "refused", detail=str(error)[:200])
        except WrongError as error:
            return Judgment(kind, seed, "wrong", "wrong", str(error))
        except Exception as error:
            return Judgment(kind, seed, "exception", "exception", f"{type(error).__name__}: {error}"[:300])
    elapsed = time.process_time() - started
    if any(not np.array_equal(argument, before) for argument, before in given):
        return Judgment(kind, seed, status, "modified", "an argument was written to")
    leaked = [str(one.message) for one in caught if not issubclass(one.category, (ConvergenceWarning, UserWarning))]
    if leaked:
        return Judgment(kind, seed, status, "warning", leaked[0][:300])
    if elapsed > 2 * TIME_LIMIT + GRACE:  # two fits of those that are solved twice
        return Judgment(kind, seed, status, "hang", f"{elapsed:.1f} CPU seconds with time_limit={TIME_LIMIT}")
    return Judgment(kind, seed, status)
