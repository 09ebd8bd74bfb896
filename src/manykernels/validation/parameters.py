"""Checks of parameters other than data and plain numbers: switches, names, seeds, threads, objects.

Parameter names of other libraries raise an error with the name used here.
"""

import functools
import inspect
import numbers
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, TypeVar, cast

import numpy as np

from manykernels.exceptions import InvalidInputError, warn
from manykernels.validation.arrays import check_choice, check_count, check_positive

NOT_ASCII = re.compile(r"[^ -~]")  # looked at one by one
LOSS_NAMES: Mapping[str, str] = {
    "log_loss": "logistic", "log": "logistic", "logit": "logistic", "deviance": "logistic",
    "cross_entropy": "logistic", "binary_crossentropy": "logistic", "binary": "logistic",
    "squared_error": "squared", "squared_loss": "squared", "mse": "squared", "l2": "squared",
    "least_squares": "squared", "gaussian": "squared",
    "absolute_error": "quantile", "mae": "quantile", "l1": "quantile", "pinball": "quantile",
    "svm": "hinge", "svc": "hinge", "svr": "epsilon_insensitive",
}  # fmt: skip
PENALTY_NAMES: Mapping[str, str] = {
    "l2": "ridge", "tikhonov": "ridge", "lasso": "l1", "group_lasso": "l1", "elastic_net": "elasticnet",
    "elastic-net": "elasticnet", "enet": "elasticnet", "lp": "lp_ball", "simplemkl": "simplex",
}  # fmt: skip
PARAMETER_NAMES: Mapping[str, str] = {
    "C": "alpha, the strength of the penalty: C of scikit-learn is alpha=1 / (C * n_samples)",
    "lambda_": "alpha, the strength of the penalty relative to the mean loss",
    "lam": "alpha, the strength of the penalty relative to the mean loss",
    "reg_lambda": "alpha, the strength of the penalty relative to the mean loss",
    "regularization": "penalty, and alpha for its strength",
    "regularizer": "penalty, and alpha for its strength",
    "norm": "penalty",
    "kernel": "kernels, such as kernels=KernelBank.per_feature(widths=[0.5, 1.0])",
    "bank": "kernels, such as kernels=KernelBank.per_feature(widths=[0.5, 1.0])",
    "gamma": "kernels, such as KernelBank.per_feature(widths=[0.5]): gamma is 1 / (2 * width**2)",
    "degree": "kernels, such as KernelBank.joint(Polynomial(2))",
    "n_estimators": "kernels: their number is that of the bank",
    "max_time": "resources, such as resources={'time_limit': 60.0}",
    "n_iter": "resources, such as resources={'max_iter': 500}",
    "seed": "random_state",
    "weights": "outputs, such as outputs='shared'",
    "kernels_as": "resources, such as resources={'representation': 'factored'}",
    "representation": "resources, such as resources={'representation': 'factored'}",
    "memory_budget": "resources, such as resources={'memory_budget': '2 GB'}",
    "time_limit": "resources, such as resources={'time_limit': 60.0}",
    "max_iter": "resources, such as resources={'max_iter': 500}",
    "callback": "resources, such as resources={'callback': function}",
    "n_jobs": "resources, such as resources={'n_jobs': 2}",
    "verbose": "resources, such as resources={'verbose': 1}",
    "epsilon": "loss_parameters, such as loss_parameters={'epsilon': 0.1}",
    "delta": "loss_parameters, such as loss_parameters={'delta': 1.0}",
    "tau": "loss_parameters, such as loss_parameters={'tau': 0.9}",
    "ratio": "search, such as search={'alpha_min_ratio': 0.01}",
    "alpha_min_ratio": "search, such as search={'alpha_min_ratio': 0.01}",
    "eps": "search, such as search={'alpha_min_ratio': 0.01}",
    "rule": "search, such as search={'rule': '1se'}",
    "fold_tol": "search, such as search={'fold_tol': 0.001}",
    "keep_folds": "search, such as search={'keep_folds': True}",
    "mus": "l1_ratios, shares of the norms in the penalty, each on a path of its own",
    "alphas": "alpha; several are for the estimators whose names end in CV",
    "cv": "alpha; cross-validation is for the estimators whose names end in CV",
}

SOLVE_NAMES: Mapping[str, str] = {
    "C": "alpha: C of scikit-learn is alpha=1 / (C * n_samples)",
    "lambda_": "alpha", "lam": "alpha", "reg_lambda": "alpha",
    "regularizer": "penalty, such as penalty='l1'", "bank": "kernels, the first argument",
    "weights": "outputs, such as outputs='shared'",
    "kernels_as": "representation, such as representation='factored'",
    "max_time": "time_limit, in seconds", "n_iter": "max_iter",
    "relative_strength": "alpha, such as alpha='0.1*max'",
    "loss_parameters": "loss, which has them, such as loss=get_loss('quantile', tau=0.9)",
}  # fmt: skip

# Units by which kernels are counted, in every function with ``by``: single columns, the columns that a kernel reads
# together, kernels, and kinds of kernels. Former names are replaced, with a warning.
UNITS = ("column", "view", "kernel", "kind")
FORMER_UNITS = {"columns": "view", "feature": "column"}


def check_unit(by: object, units: Collection[str] = UNITS) -> str:
    """Return the unit by which kernels are counted; replace a former name with a ``FutureWarning``."""
    former = FORMER_UNITS.get(by) if isinstance(by, str) else None
    if former in units:
        warn(f"by={by!r} is now by={former!r}; the former name will be rejected in version 0.3.", FutureWarning)
        return str(former)
    return check_choice(by, units, "by")


def hint(given: object, known: Collection[str], elsewhere: Mapping[str, str]) -> str:
    """Return the suggestion of a known name, as the end of a message; or an empty text."""
    if not isinstance(given, str):
        return ""
    name = given.strip().lower()
    meant = elsewhere.get(name) or next(iter(get_close_matches(name, known, 1)), None)
    return f" For {given!r} take {meant!r}." if meant in known else ""


def listed(shown: Iterable[str], total: int) -> str:
    """Return the first texts of many in a row, and how many more there are in all."""
    texts = list(shown)
    return ", ".join(texts) + (f" and {total - len(texts):,} more" if total > len(texts) else "")


def printable(text: object, keep: str = "") -> str:
    """Return text in which control and direction characters are replaced by their escapes, except those to ``keep``."""

    def escape(found: re.Match[str]) -> str:
        sign = found[0]
        return sign if sign.isprintable() or sign in keep else sign.encode("unicode_escape").decode()

    return NOT_ASCII.sub(escape, str(text))


def close_name(given: str, known: Collection[str]) -> str | None:
    """Return the known name closest to a misspelled name; None without a close name."""
    alike = 0.75  # similarity of two names of parameters, one of which is a slip
    return next(iter(get_close_matches(given, known, 1, alike)), None)


class SaysWhichParameter:
    """Base of estimators: an unknown argument raises a TypeError with the closest known argument."""

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        if (init := vars(cls).get("__init__")) is not None:
            setattr(cls, "__init__", _explaining(init))  # noqa: B010  # mypy knows no other way


def _explaining(init: Callable[..., None]) -> Any:
    """Return a constructor with helpful errors for unknown arguments and the same signature."""
    known = [name for name in inspect.signature(init).parameters if name != "self"]

    @functools.wraps(init)
    def wrapper(self: Any, *args: Any, **given: object) -> None:
        unknown = [name for name in given if name not in known]
        if unknown:
            raise TypeError(unknown_parameter(unknown[0], type(self).__name__, known))
        init(self, *args, **given)

    return wrapper


F = TypeVar("F", bound=Callable[..., Any])


def says_which(names: Mapping[str, str]) -> Callable[[F], F]:
    """Have a function with open keywords say which argument is meant by one called otherwise elsewhere."""

    def decorated(function: F) -> F:
        @functools.wraps(function)
        def wrapper(*args: Any, **given: object) -> Any:
            for name in given.keys() & names.keys():
                raise TypeError(f"{function.__name__} has no parameter {name!r}. Take {names[name]}.")
            return function(*args, **given)

        return cast("F", wrapper)

    return decorated


WIDTH_NAMES: Mapping[str, str] = {
    "width": "widths, such as widths=[1.0] or widths=['median']",
    "sigma": "widths, such as widths=[1.0]", "length_scale": "widths, such as widths=[1.0]",
    "scale": "widths, such as widths=[1.0]",
    "gamma": "widths, such as widths=[0.5]: gamma is 1 / (2 * width**2)",
    "degree": "specs, the first argument, such as Polynomial(2)",
    "kernel": "specs, the first argument", "kernels": "specs, the first argument",
    "features": "columns", "names": "columns", "normalization": "normalize", "scaling": "standardize",
}  # fmt: skip


def knows(options: Collection[str], owner: str) -> Callable[[F], F]:
    """Extend a class method with ``options`` by errors that suggest known parameters."""

    def decorated(function: F) -> F:
        named = [name for name in inspect.signature(function).parameters if name not in ("cls", "options")]
        known = [*named, *options]

        @functools.wraps(function)
        def wrapper(*args: Any, **given: object) -> Any:
            for name in given.keys() - known:
                meant = WIDTH_NAMES.get(name, "")
                meant = meant if re.split("[,;:]", meant)[0] in known else close_name(name, known) or ""
                advice = f"Take {meant}." if meant else f"It has: {', '.join(known)}."
                raise TypeError(f"{owner}.{function.__name__} has no parameter {name!r}. {advice}")
            return function(*args, **given)

        return cast("F", wrapper)

    return decorated


def unknown_parameter(given: str, owner: str, known: Collection[str]) -> str:
    """Return the error message for an argument that an estimator does not have."""
    close = close_name(given, known)
    meant = PARAMETER_NAMES.get(given)
    if meant is not None and "alphas" in known:
        meant = meant.replace("alpha, the strength of", "alphas, the strengths of", 1)
    if meant is None or re.split("[,;:]", meant)[0] not in known:
        meant = close
    advice = f"Take {meant}." if meant else f"It has: {', '.join(known)}."
    return f"{owner} has no parameter {given!r}. {advice}"


RandomSource = int | np.random.RandomState | np.random.Generator | None
Kind = TypeVar("Kind")


def check_flag(value: object, name: str) -> bool:
    """Return a boolean ``value``, else raise ``InvalidInputError``."""
    if not isinstance(value, (bool, np.bool_)):
        raise InvalidInputError(f"{name} must be True or False, got {value!r}.")
    return bool(value)


def check_limits(limits: Any) -> None:
    """Raise ``InvalidInputError`` unless ``tol, max_iter, time_limit, callback, verbose`` of a run are usable."""
    check_positive(limits.tol, "tol")
    check_count(limits.max_iter, "max_iter")
    if limits.time_limit is not None:
        check_positive(limits.time_limit, "time_limit")
    if limits.callback is not None and not callable(limits.callback):
        raise InvalidInputError(f"callback must be None or take an IterationRecord, got {limits.callback!r}.")
    if not isinstance(limits.verbose, bool):
        check_count(limits.verbose, "verbose", least=0)


def check_instance(value: object, kind: type[Kind], name: str, example: str) -> Kind:
    """Return ``value`` if of the class, else raise an error with an example."""
    if not isinstance(value, kind):
        raise InvalidInputError(f"{name} must be a {kind.__name__} such as {example}, got {value!r}.")
    return value


def check_column_names(names: Sequence[object], n_columns: int) -> list[str]:
    """Return a name per column; ``x0``, ``x1``, ... for None."""
    if names is None:
        return [f"x{j}" for j in range(n_columns)]
    if isinstance(names, str) or not hasattr(names, "__len__") or len(names) != n_columns:
        raise InvalidInputError(f"names must hold one name for each of the {n_columns} columns, got {names!r}.")
    return [str(name) for name in names]


def check_random_state(value: Any) -> Any:
    """Return what random numbers are drawn with: None, a non-negative integer, a RandomState or a Generator."""
    sources = (np.random.RandomState, np.random.Generator)
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool) and 0 <= int(value) < 2**32
    if value is not None and not whole and not isinstance(value, sources):
        raise InvalidInputError(
            f"random_state must be None, an integer from 0 to 2**32 - 1, a RandomState or a Generator, got {value!r}."
        )
    return value


def generator_from(random_state: RandomSource) -> np.random.Generator:
    """Return a generator seeded as ``random_state`` says; None draws a seed from the system."""
    checked = check_random_state(random_state)
    return np.random.default_rng(None if checked is None else seed_from(checked))


def seed_from(random_state: int | np.random.RandomState | np.random.Generator) -> int:
    """Return a seed: the integer given, or one drawn from the generator."""
    source = check_random_state(random_state)
    if isinstance(source, numbers.Integral):
        return int(source)
    draw = source.integers if isinstance(source, np.random.Generator) else source.randint
    return int(draw(2**31 - 1))


def check_n_jobs(value: object) -> int | None:
    """Return the number of threads: None, or an integer other than 0 (negative ones count from all, -1 is all)."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or int(value) == 0:
        raise InvalidInputError(f"n_jobs must be None or an integer other than 0 (-1 takes all cores), got {value!r}.")
    return int(value)


def drop_attributes(owner: object, names: Iterable[str]) -> None:
    """Delete stored attributes, such as results of an earlier fit and cached properties, as far as present."""
    for name in names:
        vars(owner).pop(name, None)


class WithoutCaches:
    """Pickle objects without cached properties."""

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes other than cached properties."""
        return {name: value for name, value in vars(self).items() if not self._caches(name)}

    def _drop_caches(self) -> None:
        """Release the values of cached properties."""
        drop_attributes(self, [name for name in vars(self) if self._caches(name)])

    @classmethod
    def _caches(cls, name: str) -> bool:
        return isinstance(getattr(cls, name, None), functools.cached_property)
