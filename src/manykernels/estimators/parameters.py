"""The parameters of the estimators as data: what every may be, the default and the help, for Python and command line.

Parameters of the model are separate. Limits of time and memory, storage and verbosity are in ``resources``; the course
of cross-validation is in ``search``; parameters of single losses are in ``loss_parameters``. A group is immutable,
given as an object or as a dictionary, and replaced by ``set_params(resources__n_jobs=2)``; so is a bank by
``set_params(kernels__center=True)``.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from itertools import pairwise
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator, clone

from manykernels.estimators.strength import AUTO, check_alpha, number_or_auto
from manykernels.exceptions import InvalidInputError
from manykernels.grams.plan import REPRESENTATIONS, memory_bytes
from manykernels.grams.training import as_bank
from manykernels.kernels import KernelBank, KernelStack, PairKernels, Pairs, PrecomputedBank
from manykernels.kernels.bank.columns import Table
from manykernels.objective.losses import LOSSES, Loss
from manykernels.objective.regularizers import REGULARIZERS, Regularizer, check_penalty
from manykernels.solvers import SOLVERS, Solver, get_solver
from manykernels.solvers.solution import Callback
from manykernels.validation.arrays import TableLike, check_choice, check_count, check_positive
from manykernels.validation.parameters import (
    LOSS_NAMES,
    check_flag,
    check_n_jobs,
    check_random_state,
    close_name,
    hint,
    unknown_parameter,
)

DEFAULT_LOSS = {"classification": "logistic", "regression": "squared"}
OUTPUTS = ("own", "shared")


@dataclass(frozen=True)
class Range:
    """Numbers between two ends; ``open`` names the excluded ends: "", "low", "high" or "both"."""

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
    """A parameter of the estimators."""

    name: str
    default: Any  # none too for loss, whose default is that of the task, see DEFAULT_LOSS
    help: str  # one line, as the command line shows it
    # raises InvalidInputError for a value that cannot be used, whether or not loss and penalty use it
    check: Callable[[Any], object]
    # which numbers it may be, for parameters that are numbers; "auto" will do too where that is the default
    range: Range | None = None
    choices: Collection[str] = ()  # names it may be; an object of the kind that they name will always do as well
    group: str = ""  # the parameter of the estimators that it is a part of, if it is none of them itself

    @property
    def place(self) -> str:
        """The name of the parameter for ``set_params``."""
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


def _or_none(check: Callable[[Any, str], object], name: str) -> Callable[[Any], object]:
    """Return the check of a parameter that also accepts None."""
    return lambda value: None if value is None else check(value, name)


def _check_callback(value: object) -> None:
    if value is not None and not callable(value):
        raise InvalidInputError(f"callback must be None or a function of an IterationRecord, got {value!r}.")


def _penalty_check(penalty: str, name: str) -> Callable[[Any], object]:
    """Return the check of the parameter by the penalty."""
    return lambda value: REGULARIZERS[penalty](1.0, **{name: value})


def _loss_check(loss: str, name: str) -> Callable[[Any], object]:
    """Return the check of the parameter by the loss."""
    return lambda value: LOSSES[loss](**{name: value})


def _check_tau(value: Any) -> None:
    """Check a single quantile, or several in increasing order."""
    levels = list(value) if np.ndim(value) == 1 and not isinstance(value, str) else [value]
    for level in levels:
        LOSSES["quantile"](**{"tau": level})
    if not levels or any(low >= high for low, high in pairwise(levels)):
        raise InvalidInputError(
            f"tau must be one quantile, or several that increase, such as [0.1, 0.9]; got {value!r}."
        )


# fmt: off
_ALL = (
    Parameter("loss", None, "Loss function.", _check_loss, choices=tuple(LOSSES)),
    Parameter("penalty", "l1", "Regularization of the kernel weights.", check_penalty, choices=tuple(REGULARIZERS)),
    Parameter("alpha", AUTO,
        "Strength of the penalty relative to the mean loss. '0.1*max': a tenth of the smallest strength with an empty "
        "model. '0.3*noise': the same for a shuffled target. 'auto': 0.2 to 0.5 of the latter, less if the target has "
        "little noise.", check_alpha,
        Range(open="both")),
    Parameter("l1_ratio", 0.5,
        "For 'elasticnet' and 'group_elasticnet': share of the 1-norm; 1 is 'l1', 0 is 'ridge'.",
        _penalty_check("elasticnet", "l1_ratio"), Range(high=1.0)),
    Parameter("q", 1.5, "For 'lq' and 'group_elasticnet': exponent of the norms.", _penalty_check("lq", "q"),
        Range(1.0, 2.0, open="low")),
    Parameter("p", 2.0, "For 'lp_ball': exponent of the ball of weights.", _penalty_check("lp_ball", "p"),
        Range(1.0, open="high")),
    Parameter("eta", 0.5, "For 'elasticnet_ball': share of the 1-norm.", _penalty_check("elasticnet_ball", "eta"),
        Range(high=1.0)),
    Parameter("epsilon", AUTO,
        "For 'epsilon_insensitive': width of the zone without loss; 'auto' is 0.1 standard deviations of y.",
        number_or_auto(_loss_check("epsilon_insensitive", "epsilon")), Range(open="high"), group="loss_parameters"),
    Parameter("delta", AUTO,
        "For 'huber': residual at which the loss becomes linear; 'auto' is 1.35 standard deviations of y.",
        number_or_auto(_loss_check("huber", "delta")), Range(open="both"), group="loss_parameters"),
    Parameter("tau", 0.5, "For 'quantile': the predicted quantile.", _check_tau, Range(high=1.0, open="both"),
        group="loss_parameters"),
    Parameter("outputs", "own", "Kernel weights per class or target, or one shared set.", _check_outputs,
        choices=OUTPUTS),
    Parameter("solver", "auto", "Name of a solver; 'auto' chooses.", _check_solver, choices=SOLVERS),
    Parameter("fit_intercept", True, "Learn an intercept.",
        lambda value: check_flag(value, "fit_intercept")),
    Parameter("tol", 1e-4, "Relative duality gap at which the solver stops.",
        lambda value: check_positive(value, "tol"), Range(open="both")),
    Parameter("max_iter", None, "Maximum number of outer iterations; 200 by default.",
        _or_none(check_count, "max_iter"), Range(1.0, open="high", whole=True), group="resources"),
    Parameter("time_limit", None, "Time limit of the solver in seconds, for all classes or targets together.",
        _or_none(check_positive, "time_limit"), Range(open="both"), group="resources"),
    Parameter("callback", None, "Called with each IterationRecord; a true value stops.", _check_callback,
        group="resources"),
    Parameter("representation", AUTO,
        "How kernels are stored: Gram matrices (N x N) or low-rank factors. 'auto' chooses by predicted cost.",
        lambda value: check_choice(value, REPRESENTATIONS, "representation"), choices=REPRESENTATIONS,
        group="resources"),
    Parameter("memory_budget", None, "Memory limit for kernels, such as '2 GB'.", memory_bytes, group="resources"),
    Parameter("n_jobs", None, "Number of threads; -1 uses all cores.", check_n_jobs, group="resources"),
    Parameter("random_state", None, "Seed of random numbers.", check_random_state),
    Parameter("verbose", 0, "1 shows a progress bar, 2 prints one line per iteration.", _check_verbose,
        group="resources"),
)
# fmt: on

PARAMETERS: Mapping[str, Parameter] = {parameter.name: parameter for parameter in _ALL}


def defaults(*names: str) -> dict[str, Any]:
    """Return the defaults of the parameters, of all but ``loss`` if none is named.

    Examples
    --------
    >>> defaults("alpha", "q")
    {'alpha': 'auto', 'q': 1.5}
    """
    chosen = names or tuple(name for name in PARAMETERS if name != "loss")
    return {name: PARAMETERS[name].default for name in chosen}


def place_of(name: str) -> str:
    """Return the name of a parameter for ``set_params``, through the group if any.

    Examples
    --------
    >>> place_of("tol"), place_of("n_jobs")
    ('tol', 'resources__n_jobs')
    """
    return PARAMETERS[name].place if name in PARAMETERS else name


def check_parameters(given: Mapping[str, Any]) -> None:
    """Raise ``InvalidInputError`` for the first invalid value, also of unused parameters.

    Examples
    --------
    >>> check_parameters({"loss": "squared", "penalty": "l1", "p": 0})
    Traceback (most recent call last):
        ...
    manykernels.exceptions.InvalidInputError: p must be a finite positive number, got 0.
    """
    for name, parameter in PARAMETERS.items():
        if name in given:
            # A default can be used: no loss and no penalty need be made to say so.
            value, default = given[name], parameter.default
            if default is None or type(value) is not type(default) or not bool(value == default):
                parameter.check(value)


# --- parameters inside parameters: those that come in groups, and those of the bank of kernels ---

BANK = "kernels"
Kernels: TypeAlias = KernelBank | PrecomputedBank | PairKernels | str | None  # what it may be; as text "precomputed"


@dataclass(frozen=True, repr=False)
class ParameterGroup:
    """Base of the groups of parameters."""

    @classmethod
    def parse(cls, value: object, name: str) -> Self:
        """Return the group given as the parameter ``name``: an object of the class, a dictionary, or None."""
        if value is None:
            return cls()
        if isinstance(value, cls):
            return value
        if not isinstance(value, Mapping):
            raise InvalidInputError(
                f"{name} must be a dictionary or {cls.__name__}(...) with some of {', '.join(cls.names())}, got "
                f"{value!r}."
            )
        unknown = [key for key in value if key not in cls.names()]
        if unknown:
            close = close_name(unknown[0], cls.names())
            advice = f"Take {close!r}." if close else f"It has: {', '.join(cls.names())}."
            raise InvalidInputError(f"{name} has no {unknown[0]!r}. {advice}")
        return cls(**value)

    @classmethod
    @cache
    def names(cls) -> tuple[str, ...]:
        """Return the names of the parameters in the group."""
        return tuple(field.name for field in fields(cls))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by their names, as estimators do.

        Parameters
        ----------
        deep : bool, default=True
            Ignored; for compatibility with scikit-learn.
        """
        return {name: getattr(self, name) for name in self.names()}

    def __sklearn_clone__(self) -> Self:
        return self

    def __repr__(self) -> str:
        default = type(self)()
        given = {name: value for name, value in self.get_params().items() if value is not getattr(default, name)}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in given.items())})"


@dataclass(frozen=True, repr=False)
class Resources(ParameterGroup):
    """Limits and output of a fit; they do not change the model.

    The parameter ``resources`` of every estimator, an object or a dictionary.

    Parameters
    ----------
    max_iter : int or None, default=None
        Maximum number of outer iterations of the solver, or rounds of a search. None is the default of the estimator:
        200, for :class:`GaussianMKL` 50, for :class:`NonlinearMKL` 100, for :class:`PolynomialMKL` 30.
    time_limit : float or None, default=None
        Time limit of the solver in seconds, for all classes or targets together, without the time for Gram matrices. At
        the limit, the last model is returned with its gap and a ConvergenceWarning; classes without time left are
        constant. With cross-validation the limit covers search and last fit together: at most four fifths for the
        search, without the predicted time of the last fit. The search then takes the best scored candidate, with a
        warning, or else the model of the plain estimator.
    callback : callable or None, default=None
        Called with an :class:`IterationRecord` after every certified iteration; a true value stops and keeps the model.
        With several classes every class has separate calls, in threads with ``n_jobs``, and stops separately. With
        cross-validation only the last fit has calls. A model file does not keep the callback.
    representation : {"auto", "gram", "factored"}, default="auto"
        "gram" holds N x N matrices. "factored" holds every kernel as ``Z Z'`` with few columns: time and memory grow
        with N alone, prediction and model file are independent of N, and ``dual_gap_`` is the gap of the exact kernels;
        penalties and losses of :func:`solve` there. "auto" takes factors for large samples, or where Gram matrices
        would not fit; :func:`manykernels.grams.plan.plan_kernels` has the choice and the reason. On factors a search
        tries strengths of the block 1-norm, and no averages.
    memory_budget : int, str or None, default=None
        Bytes, or text like "2 GB", that Gram matrices may take; None is half of the memory of the machine. Decides
        whether stored or computed anew when needed.
    n_jobs : int or None, default=None
        Number of threads: over kernels with two classes or one target, over classes or targets otherwise, over folds in
        a search. -1 uses all cores.
    verbose : int, default=0
        1 shows a progress bar, 2 prints one line per iteration; with cross-validation also for the models of the folds.

    Examples
    --------
    >>> from manykernels import MKLRegressor
    >>> model = MKLRegressor(resources={"n_jobs": 2, "time_limit": 60.0})
    >>> model.set_params(resources__n_jobs=None).resources
    Resources(time_limit=60.0)
    """

    max_iter: int | None = None
    time_limit: float | None = None
    callback: Callback | None = None
    representation: str = "auto"
    memory_budget: int | str | None = None
    n_jobs: int | None = None
    verbose: int = 0

    def limits(self) -> dict[str, Any]:
        """Return the limits for a solver.

        Returns
        -------
        dict
            ``max_iter``, ``time_limit``, ``callback`` and ``verbose``.
        """
        return {name: getattr(self, name) for name in ("max_iter", "time_limit", "callback", "verbose")}


@dataclass(frozen=True, repr=False)
class Search(ParameterGroup):
    """Parameters of the search by cross-validation, under ``search`` of the CV estimators.

    Parameters
    ----------
    alpha_min_ratio : float or None, default=None
        Smallest strength of the default grid over the largest; None is 0.001, for :class:`MKLSurvivalCV` 0.01.
    rule : {"best", "1se"}, default="best"
        With "1se", the candidate with the fewest kernels, then the strongest, within a standard error of the best:
        fewer kernels at an indistinguishable score. For a search over mixtures.
    fold_tol : float or None, default=None
        Relative duality gap of the models of the folds; None is 0.01 in a search over mixtures and on the default grid
        of :class:`MKLSurvivalCV`, or a larger ``tol``, and ``tol`` on other grids.
    keep_folds : bool, default=False
        Keep the models of the folds: :func:`manykernels.inspection.conformal_intervals` and ``conformal_sets`` then use
        CV+. A model per fold is kept: the training rows for matrices, a size independent of the rows for factors. A
        model file does not keep the models.

    Examples
    --------
    >>> from manykernels import MKLRegressorCV
    >>> MKLRegressorCV(search={"rule": "1se"}).get_params()["search__rule"]
    '1se'
    """

    alpha_min_ratio: float | None = None
    rule: str = "best"
    fold_tol: float | None = None
    keep_folds: bool = False


@dataclass(frozen=True, repr=False)
class LossParameters(ParameterGroup):
    """Parameters of losses given by name; :class:`MKLRegressor` has them under ``loss_parameters``.

    Parameters
    ----------
    epsilon : float or "auto", default="auto"
        For ``"epsilon_insensitive"``: errors up to the size do not count; "auto" is 0.1 standard deviations of y.
    delta : float or "auto", default="auto"
        For ``"huber"``: size of error beyond which the loss is linear; "auto" is 1.35 standard deviations of y.
    tau : float or sequence of float, default=0.5
        For ``"quantile"``: the quantile, or several in increasing order, estimated separately, with a column of
        ``predict`` per quantile.

    Examples
    --------
    >>> from manykernels import MKLRegressor
    >>> MKLRegressor(loss="quantile", loss_parameters={"tau": 0.9}).get_params()["loss_parameters__tau"]
    0.9
    """

    epsilon: float | str = "auto"
    delta: float | str = "auto"
    tau: Any = 0.5


GROUPS: Mapping[str, type[ParameterGroup]] = {
    "resources": Resources,
    "search": Search,
    "loss_parameters": LossParameters,
}


class TakesGroups(BaseEstimator):
    """An estimator with groups of parameters, with access to the nested parameters of a bank under ``kernels``."""

    # Of what a group may hold, the parameters that this kind of fit knows; of a group that is not here, all of them.
    _uses: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    _groups: ClassVar[tuple[str, ...]] = ("resources",)
    _max_iter: ClassVar[int] = 200

    def _group(self, name: str) -> Any:
        """Return a group of parameters, completed by defaults."""
        kind = GROUPS[name]
        group = kind.parse(getattr(self, name, None), name)  # estimators of users need not have all of them
        known = self._uses.get(name, kind.names())
        foreign = [own for own in kind.names() if own not in known and getattr(group, own) != getattr(kind(), own)]
        if foreign:
            raise InvalidInputError(
                f"{type(self).__name__} does not use {foreign[0]!r} in {name}, only {', '.join(known)}."
            )
        return group

    @property
    def _resources(self) -> Resources:
        """The resources of the fit, with the number of iterations set."""
        resources: Resources = self._group("resources")
        return resources if resources.max_iter is not None else replace(resources, max_iter=self._max_iter)

    def _all_parameters(self) -> dict[str, Any]:
        """Return all parameters by name, with groups flattened."""
        given = self.get_params(deep=False)
        return given | {key: part for name in self._groups for key, part in self._group(name).get_params().items()}

    @classmethod
    @cache
    def _get_param_names(cls) -> list[str]:
        """Return the parameter names from the signature, cached per class."""
        names: list[str] = super()._get_param_names()
        return names

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by their names.

        Parameters
        ----------
        deep : bool, default=True
            Also parameters in groups, as ``resources__n_jobs``, given or not, and parameters of a bank.

        Examples
        --------
        >>> from manykernels import MKLRegressor
        >>> model = MKLRegressor(resources={"n_jobs": 2})
        >>> model.get_params(deep=False)["resources"], model.get_params()["resources__n_jobs"]
        ({'n_jobs': 2}, 2)
        """
        found: dict[str, Any] = super().get_params(deep)
        for name in self._groups if deep else ():
            if name not in found:
                continue
            own = GROUPS[name]().get_params() | (dict(found[name]) if isinstance(found[name], Mapping) else {})
            found = {f"{name}__{key}": value for key, value in own.items()} | found
        return found

    def set_params(self, **params: Any) -> Self:
        """Set parameters of the estimator, by ``resources__name`` those of a group, by ``kernels__name`` of the bank.

        Parameters
        ----------
        **params
            ``resources__n_jobs`` and so on give the estimator another group, ``kernels__normalize``,
            ``kernels__center`` and so on another bank; the arguments stay unchanged, and None counts as the default
            bank.

        Returns
        -------
        estimator
            The estimator.

        Raises
        ------
        InvalidInputError
            If there is no such parameter, or the bank cannot use the value.

        Examples
        --------
        >>> from manykernels import KernelBank, MKLRegressor
        >>> model = MKLRegressor(KernelBank.auto()).set_params(kernels__normalize="trace", resources__n_jobs=2)
        >>> model.kernels.normalize, model.resources
        ('trace', Resources(n_jobs=2))
        """
        own = self._get_param_names()
        nested: dict[str, dict[str, Any]] = {}
        whole: dict[str, Any] = {}
        for name, value in params.items():
            owner, inside, inner = name.partition("__")
            if owner not in own:
                raise InvalidInputError(unknown_parameter(owner, type(self).__name__, own))
            if inside and (owner in self._groups or owner == BANK):
                nested.setdefault(owner, {})[inner] = value
            else:
                whole[name] = value
        super().set_params(**whole)
        for owner, values in nested.items():
            if owner == BANK:
                changed: Any = as_bank(getattr(self, BANK)).set_params(**values)
            else:
                known = GROUPS[owner].parse(getattr(self, owner), owner).get_params()
                changed = GROUPS[owner].parse(known | values, owner)
            setattr(self, owner, changed)
        return self


def with_kernels_of(estimator: BaseEstimator, X: TableLike | Table | KernelStack | Pairs) -> Any:
    """Return a clone with a list of kernels fixed by the rows, for fits on subsets.

    An estimator without a bank, or behind other steps of a pipeline, is cloned unchanged.
    """
    again, own = clone(estimator), getattr(estimator, BANK, None)
    if isinstance(own, (KernelBank, PairKernels)) or (own is None and BANK in again.get_params(deep=False)):
        rows = X if isinstance(X, (Pairs, Table)) else Table.wrap(X, sparse=True)
        patience = estimator._patience(rows) if hasattr(estimator, "_patience") else None  # of a search
        again.set_params(kernels=as_bank(own, rows, patience).resolve(rows))
    return again
