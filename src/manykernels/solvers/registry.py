"""Which solvers there are, which can solve a problem, and which is chosen."""

from __future__ import annotations

from collections.abc import Mapping

from manykernels.exceptions import IncompatibleError, InvalidInputError
from manykernels.objective.losses import LOSSES, Loss
from manykernels.objective.problem import Problem
from manykernels.objective.regularizers import REGULARIZERS, Regularizer
from manykernels.solvers.base import Solver, in_order
from manykernels.solvers.factored.solver import FactoredNewton
from manykernels.solvers.gram.block_coordinate import BlockCoordinate
from manykernels.solvers.gram.interior_point import InteriorPoint
from manykernels.solvers.gram.shared_newton import SharedNewton
from manykernels.solvers.gram.smooth_dual import SmoothDual
from manykernels.solvers.gram.working_set import WorkingSet
from manykernels.solvers.published.conic import Conic
from manykernels.solvers.published.cutting_plane import SILP, LevelMKL
from manykernels.solvers.published.hessianmkl import HessianMKL
from manykernels.solvers.published.pfbs import ForwardBackward
from manykernels.solvers.published.simplemkl import SimpleMKL
from manykernels.solvers.published.skm import SupportKernelMachine
from manykernels.solvers.published.spicymkl import SpicyMKL
from manykernels.solvers.published.ufo_mkl import UFOMKL, Obscure

SOLVERS: dict[str, type[Solver]] = {
    cls.name: cls
    for cls in (
        WorkingSet,
        InteriorPoint,
        ForwardBackward,
        SpicyMKL,
        SmoothDual,
        SupportKernelMachine,
        BlockCoordinate,
        HessianMKL,
        SimpleMKL,
        SILP,
        LevelMKL,
        Conic,
        UFOMKL,
        Obscure,
        SharedNewton,
        FactoredNewton,
    )
}
"""Every solver by its name; those of kernels in any form first, in the order of preference."""

ALIASES = {"citi": "block_coordinate", "lpmkl": "block_coordinate", "group_lasso_mkl": "block_coordinate"}
"""Names from the literature: one alternation, told apart by the regularizer (elastic-net ball, lp ball, simplex)."""

ALIAS_REGULARIZERS = {
    "citi": ("elasticnet_ball",),
    "lpmkl": ("lp_ball", "lq"),
    "group_lasso_mkl": ("simplex", "l1"),
}
"""What the methods of those names solve: a set of weights, or a penalty with the same solutions at some strength."""

REASONS = {
    WorkingSet.name: "the regularizer selects kernels, so most passes can skip most of them",
    InteriorPoint.name: "every kernel keeps a weight, so all of them enter each step",
    BlockCoordinate.name: "the best weights for given norms are known, but no bounds on the dual norms that a Newton "
    "method could use, so the weights take turns with a learner on the weighted sum",
    SharedNewton.name: "several classes or targets share their kernel weights, and it is the solver for that",
}
"""Why a solver comes first among those that have no preference for a problem."""


def solvers_for(problem: Problem) -> list[str]:
    """Return the names of the solvers that accept ``problem``, the preferred one first.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.objective import get_loss, get_regularizer
    >>> from manykernels.objective import Problem
    >>> from manykernels.solvers import solvers_for
    >>> problem = Problem(np.eye(3)[None], np.ones(3), get_loss("squared"), get_regularizer("l1", 0.1))
    >>> "pfbs" in solvers_for(problem), "skm" in solvers_for(problem)
    (True, False)
    """
    return [cls.name for cls in in_order(problem, SOLVERS.values())]


def accepted(solver: type[Solver], registry: Mapping[str, type[Loss] | type[Regularizer]]) -> list[str]:
    """Return the names of the registered losses or regularizers, with default parameters, that a solver accepts."""
    return [name for name, kind in registry.items() if _accepts(solver, kind)]


def _accepts(solver: type[Solver], kind: type[Loss] | type[Regularizer]) -> bool:
    """Whether a solver takes an instance with default parameters, beside some instance of the other kind."""
    losses = [cls() for cls in ([kind] if issubclass(kind, Loss) else LOSSES.values())]
    penalties = [cls(1.0) for cls in ([kind] if issubclass(kind, Regularizer) else REGULARIZERS.values())]
    return any(not solver.refusals_of(loss, penalty) for loss in losses for penalty in penalties)


def check_able(solver: Solver, problem: Problem) -> None:
    """Raise `IncompatibleError` unless the solver accepts the problem; the message names those that do."""
    try:
        solver.check(problem)
    except IncompatibleError as error:
        able = ", ".join(solvers_for(problem)) or "no solver of this version"
        raise IncompatibleError(f"{error} Able: {able}.") from None


def get_solver(name: str) -> type[Solver]:
    """Return the solver class of that name or alias, or say which names there are.

    Parameters
    ----------
    name : str
        Any of `SOLVERS`, or what the literature calls one, such as ``"citi"``.

    Returns
    -------
    type
        Subclass of `Solver`.

    Raises
    ------
    InvalidInputError
        If there is none of that name.

    Examples
    --------
    >>> from manykernels.solvers import get_solver
    >>> get_solver("silp").__name__
    'SILP'
    """
    if not isinstance(name, str):
        raise InvalidInputError(f"solver must be a name or a configured solver such as SILP(tol=1e-6), got {name!r}.")
    if ALIASES.get(name, name) not in SOLVERS:
        known = ", ".join(map(repr, SOLVERS))
        aliases = ", ".join(map(repr, ALIASES))
        raise InvalidInputError(f"Unknown solver {name!r}. Known: 'auto', {known}, and the aliases {aliases}.")
    return SOLVERS[ALIASES.get(name, name)]


def check_alias(name: str, problem: Problem) -> None:
    """Raise `IncompatibleError` if the method of that name in the literature has another regularizer."""
    meant, given = ALIAS_REGULARIZERS.get(name), problem.regularizer.name
    if meant is not None and given not in meant:
        raise IncompatibleError(
            f"Solver '{name}' is '{ALIASES[name]}' for the regularizer {' or '.join(map(repr, meant))}, not '{given}'. "
            f"Change the regularizer, or pass solver='{ALIASES[name]}', which handles '{given}' too."
        )


def choose_solver(problem: Problem) -> tuple[type[Solver], str]:
    """Return the solver that ``solver="auto"`` takes for ``problem``, and the reason in a sentence.

    Returns
    -------
    type
        Subclass of `Solver`.
    str
        The reason.

    Raises
    ------
    IncompatibleError
        If no solver can solve the problem; the message says for each what it lacks.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.objective import get_loss, get_regularizer
    >>> from manykernels.objective import Problem
    >>> from manykernels.solvers import choose_solver
    >>> problem = Problem(np.eye(3)[None], np.ones(3), get_loss("squared"), get_regularizer("l1", 0.1))
    >>> choose_solver(problem)[0].name
    'working_set'
    """
    able = next(in_order(problem, SOLVERS.values()), None)
    if able is None:
        asked = {name: cls for name, cls in SOLVERS.items() if cls.on_factors or not problem.stack.shaped}
        lacking = "; ".join(f"'{name}': {cls.refusals(problem)[0]}" for name, cls in asked.items())
        raise IncompatibleError(f"No solver can solve this problem. {lacking}.")
    reason = able.preference(problem) or REASONS.get(able.name)
    return able, reason or "it is the first that has all it needs from loss and regularizer"
