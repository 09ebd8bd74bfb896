"""The parameters of the estimators as data: what each may be, its default and its help, for Python and command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any

import numpy as np

from manykernels.estimators.strength import AUTO, check_alpha, number_or_auto
from manykernels.exceptions import InvalidInputError
from manykernels.grams.plan import REPRESENTATIONS, memory_bytes
from manykernels.objective.losses import LOSSES, Loss
from manykernels.objective.regularizers import REGULARIZERS, Regularizer, check_penalty
from manykernels.solvers import SOLVERS, Solver, get_solver
from manykernels.validation.arrays import check_choice, check_count, check_positive
from manykernels.validation.parameters import LOSS_NAMES, check_flag, check_n_jobs, check_random_state, hint

__all__ = ["DEFAULT_LOSS", "PARAMETERS", "Parameter", "Range", "check_parameters", "defaults", "place_of", "shape_of"]

DEFAULT_LOSS = {"classification": "logistic", "regression": "squared"}
OUTPUTS = ("own", "shared")


@dataclass(frozen=True)
class Range:
    """Numbers between two ends; ``open`` names the ends that do not belong to it: "", "low", "high" or "both"."""

    low: float = 0.0
    high: float = np.inf
    open: str = ""
    whole: bool = False

    def __contains__(self, number: float) -> bool:
        above = number > self.low if self.open in ("low", "both") else number >= self.low
        below = number < self.high if self.open in ("high", "both") else number <= self.high
        return above and below and (not self.whole or float(number).is_integer())


@dataclass(frozen=True)
class Parameter:
    """One parameter of the estimators."""

    name: str
    default: Any  # none too for loss, whose default is that of the task, see DEFAULT_LOSS
    help: str  # one line, as the command line shows it
    # raises InvalidInputError for a value that cannot be used, whether or not loss and penalty use it
    check: Callable[[Any], object]
    # which numbers it may be, for parameters that are numbers; "auto" will do too where that is the default
    range: Range | None = None
    choices: tuple[str, ...] = ()  # names it may be; an object of the kind that they name will always do as well
    group: str = ""  # the parameter of the estimators that it is a part of, if it is none of them itself

    @property
    def place(self) -> str:
        """Its name among the parameters of an estimator, as ``set_params`` takes it."""
        return f"{self.group}__{self.name}" if self.group else self.name


def shape_of(kind: type[Loss] | type[Regularizer]) -> tuple[str, ...]:
    """Return the names of the parameters of a loss or a penalty, strength left out."""
    return tuple(field.name for field in fields(kind) if field.init and field.name != "strength")


def _check_loss(value: Any) -> None:
    known_kind = hasattr(type(value), "bind")
    one_score = known_kind and not (value.couples_samples or value.of_several)
    if not one_score and (not isinstance(value, str) or value not in LOSSES):
        known = f"Known losses: {', '.join(LOSSES)}.{hint(value, LOSSES, LOSS_NAMES)}"
        raise InvalidInputError(f"Unknown loss {value!r}. {known}")


def _check_outputs(value: object) -> None:
    if not isinstance(value, str) or value not in OUTPUTS:
        raise InvalidInputError(
            f"outputs must be 'own' (kernel weights for each class or target) or 'shared' (one set), got {value!r}."
        )


def _check_solver(value: Any) -> None:
    if not isinstance(value, Solver) and value != "auto":
        get_solver(value)


def _check_verbose(value: object) -> None:
    if not isinstance(value, bool):
        check_count(value, "verbose", least=0)


def _check_max_iter(value: object) -> None:
    if value is not None:
        check_count(value, "max_iter")


def _check_time_limit(value: object) -> None:
    if value is not None:
        check_positive(value, "time_limit")


def _check_callback(value: object) -> None:
    if value is not None and not callable(value):
        raise InvalidInputError(f"callback must be None or a function of an IterationRecord, got {value!r}.")


def _of_penalty(penalty: str, name: str) -> Callable[[Any], object]:
    """Return the check that the penalty itself makes of its parameter."""
    return lambda value: REGULARIZERS[penalty](1.0, **{name: value})


def _of_loss(loss: str, name: str) -> Callable[[Any], object]:
    """Return the check that the loss itself makes of its parameter."""
    return lambda value: LOSSES[loss](**{name: value})


def _check_tau(value: Any) -> None:
    """Check one quantile, or several in increasing order."""
    levels = list(value) if np.ndim(value) == 1 and not isinstance(value, str) else [value]
    for level in levels:
        LOSSES["quantile"](**{"tau": level})
    if not levels or any(low >= high for low, high in pairwise(levels)):
        raise InvalidInputError(
            f"tau must be one quantile, or several that increase, such as [0.1, 0.9]; got {value!r}."
        )


_ALL = (
    Parameter("loss", None, "Loss of a prediction.", _check_loss, choices=tuple(LOSSES)),
    Parameter("penalty", "l1", "What keeps kernels small or out.", check_penalty, choices=tuple(REGULARIZERS)),
    Parameter(
        "alpha",
        AUTO,
        "Strength of the penalty relative to the mean loss; '0.1*max' is a tenth of the one that leaves an empty "
        "model, '0.3*noise' 0.3 of the one that does for y in random order, 'auto' 0.2 of that.",
        check_alpha,
        Range(open="both"),
    ),
    Parameter(
        "l1_ratio",
        0.5,
        "For 'elasticnet' and 'group_elasticnet': share of the norms; 1 is 'l1', 0 has squares only.",
        _of_penalty("elasticnet", "l1_ratio"),
        Range(high=1.0),
    ),
    Parameter(
        "q",
        1.5,
        "For 'lq' and 'group_elasticnet': exponent of the norms.",
        _of_penalty("lq", "q"),
        Range(1.0, 2.0, open="low"),
    ),
    Parameter(
        "p",
        2.0,
        "For 'lp_ball': exponent of the ball of weights.",
        _of_penalty("lp_ball", "p"),
        Range(1.0, open="high"),
    ),
    Parameter(
        "eta",
        0.5,
        "For 'elasticnet_ball': share of the 1-norm.",
        _of_penalty("elasticnet_ball", "eta"),
        Range(high=1.0),
    ),
    Parameter(
        "epsilon",
        AUTO,
        "For 'epsilon_insensitive': errors up to this size do not count; 'auto' is 0.1 standard deviations of y.",
        number_or_auto(_of_loss("epsilon_insensitive", "epsilon")),
        Range(open="high"),
        group="loss_parameters",
    ),
    Parameter(
        "delta",
        AUTO,
        "For 'huber': size of error beyond which the loss is linear; 'auto' is 1.35 standard deviations of y.",
        number_or_auto(_of_loss("huber", "delta")),
        Range(open="both"),
        group="loss_parameters",
    ),
    Parameter(
        "tau",
        0.5,
        "For 'quantile': which quantile.",
        _check_tau,
        Range(high=1.0, open="both"),
        group="loss_parameters",
    ),
    Parameter("outputs", "own", "Kernel weights of each class or target, or shared.", _check_outputs, choices=OUTPUTS),
    Parameter("solver", "auto", "Name of a solver; 'auto' chooses.", _check_solver, choices=("auto", *SOLVERS)),
    Parameter(
        "fit_intercept",
        True,
        "Whether to learn a constant.",
        lambda value: check_flag(value, "fit_intercept"),
    ),
    Parameter(
        "tol",
        1e-4,
        "Relative duality gap to reach.",
        lambda value: check_positive(value, "tol"),
        Range(open="both"),
    ),
    Parameter(
        "max_iter",
        None,
        "Most outer iterations; 200 if not given.",
        _check_max_iter,
        Range(1.0, open="high", whole=True),
        group="resources",
    ),
    Parameter(
        "time_limit",
        None,
        "Most seconds of solving, for all classes or targets together.",
        _check_time_limit,
        Range(open="both"),
        group="resources",
    ),
    Parameter(
        "callback",
        None,
        "Called with each IterationRecord; a true value stops.",
        _check_callback,
        group="resources",
    ),
    Parameter(
        "representation",
        AUTO,
        "Kernels as Gram matrices or as factors, which grow with N alone; 'auto' plans.",
        lambda value: check_choice(value, REPRESENTATIONS, "representation"),
        choices=REPRESENTATIONS,
        group="resources",
    ),
    Parameter("memory_budget", None, "Memory for Gram matrices, such as '2 GB'.", memory_bytes, group="resources"),
    Parameter("n_jobs", None, "Threads; -1 takes all cores.", check_n_jobs, group="resources"),
    Parameter("random_state", None, "Seed of what draws random numbers.", check_random_state),
    Parameter("verbose", 0, "1 shows a bar, 2 also a line an iteration.", _check_verbose, group="resources"),
)

PARAMETERS: Mapping[str, Parameter] = {parameter.name: parameter for parameter in _ALL}


def defaults(*names: str) -> dict[str, Any]:
    """Return the defaults of these parameters, of all but ``loss`` if none is named.

    Examples
    --------
    >>> defaults("alpha", "q")
    {'alpha': 'auto', 'q': 1.5}
    """
    chosen = names or tuple(name for name in PARAMETERS if name != "loss")
    return {name: PARAMETERS[name].default for name in chosen}


def place_of(name: str) -> str:
    """Return how ``set_params`` of an estimator is told a parameter: through its group, if it is part of one.

    Examples
    --------
    >>> place_of("tol"), place_of("n_jobs")
    ('tol', 'resources__n_jobs')
    """
    return PARAMETERS[name].place if name in PARAMETERS else name


def check_parameters(given: Mapping[str, Any]) -> None:
    """Raise ``InvalidInputError`` for the first value that cannot be used, also of parameters that nothing uses.

    Examples
    --------
    >>> check_parameters({"loss": "squared", "penalty": "l1", "p": 0})
    Traceback (most recent call last):
        ...
    manykernels.exceptions.InvalidInputError: p must be a finite positive number, got 0.
    """
    for name, parameter in PARAMETERS.items():
        if name in given and not _is_default(given[name], parameter):
            parameter.check(given[name])


def _is_default(value: object, parameter: Parameter) -> bool:
    """Whether a value is the default, which can be used: no loss and no penalty need be made to say so."""
    default = parameter.default
    return default is not None and type(value) is type(default) and bool(value == default)
