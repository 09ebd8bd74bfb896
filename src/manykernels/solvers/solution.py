"""The result of every solver: the model, the certificate, and the history.

And the progress on the terminal: the relative gap of a run falling toward tol, or the number of runs done.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pandas as pd
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from manykernels.exceptions import InvalidInputError
from manykernels.objective.certificate import Certificate
from manykernels.validation.arrays import Array, TableLike, check_count, real_array
from manykernels.validation.gram import check_rectangular_grams
from manykernels.validation.parameters import check_limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


Model = tuple[Array, Array, float]
"""Dual coefficients ``rho``, kernel weights ``d`` and intercept ``b``."""


class Status(StrEnum):
    """Why a solver stopped; each is also the respective text.

    ``RUNNING``: unfinished. ``CONVERGED``: the relative gap is within ``tol``. ``INACCURATE``: the gap is within
    ``tol`` but below rounding errors, or limited by indefinite float32 kernels; or the lower bound exceeds the
    objective beyond rounding. ``MAX_ITER``, ``TIME_LIMIT``: a limit came first. ``STALLED``: repeated certificates
    without progress. ``INTERRUPTED``: Ctrl-C. ``STOPPED_BY_CALLBACK``: the callback returned a true value.
    ``NUMERICAL_ERROR``: numbers became useless. Whatever the status, the solution is the best model found.

    Examples
    --------
    >>> from manykernels.solvers import Status
    >>> Status.CONVERGED == "converged"
    True
    """

    RUNNING = "running"
    CONVERGED = "converged"
    INACCURATE = "inaccurate"  # the gap is within tol, but its rounding bound is above 100 tol, or bounds cross
    MAX_ITER = "max_iter"
    TIME_LIMIT = "time_limit"
    STALLED = "stalled"
    INTERRUPTED = "interrupted"
    STOPPED_BY_CALLBACK = "stopped_by_callback"
    NUMERICAL_ERROR = "numerical_error"


@dataclass(frozen=True)
class IterationRecord:
    """One certified point of a run.

    Attributes
    ----------
    iteration : int
        Outer iterations done; 0 is the starting point.
    elapsed_s : float
        Wall-clock seconds since the start.
    passes : float
        Gram entries read so far, in passes over the whole stack.
    newton_steps : int
        Linear systems solved so far.
    primal, dual, relative_gap : float
        Certificate of the model at the point.
    n_active : int
        Kernels with nonzero weight.
    """

    iteration: int
    elapsed_s: float
    passes: float
    newton_steps: int
    primal: float
    dual: float
    relative_gap: float
    n_active: int


Callback = Callable[[IterationRecord], Any]
"""Called with each record; a true return value ends the run."""


@dataclass(frozen=True)
class Limits:
    """When a run stops.

    Parameters
    ----------
    tol : float, default=1e-3
        Relative duality gap at which the solver stops.
    max_iter : int, default=100
        Most iterations after the starting point.
    time_limit : float or None, default=None
        Seconds of wall-clock time.
    patience : int or None, default=None
        Most certificates in a row without a smaller gap.
    callback : callable or None, default=None
        Called with every IterationRecord; True stops.
    verbose : int, default=0
        1 shows a bar, 2 prints a line a certificate.
    name : str, default="search"
        What runs, in messages.

    Raises
    ------
    InvalidInputError
        For an unusable problem.

    Examples
    --------
    >>> from manykernels.discovery import Limits
    >>> Limits(tol=1e-4, max_iter=20).time_limit is None
    True
    """

    tol: float = 1e-3
    max_iter: int = 100
    time_limit: float | None = None
    patience: int | None = None
    callback: Callback | None = None
    verbose: int = 0
    name: str = field(default="search", kw_only=True)

    def __post_init__(self) -> None:
        check_limits(self)
        if self.patience is not None:
            check_count(self.patience, "patience")


class Functions(Protocol):
    """Functions of a solution on a table: kernel expansions, or functions of factors."""

    @property
    def names(self) -> Sequence[str]:
        """Names of the active kernels."""

    @property
    def expansion(self) -> Any:
        """The functions as an `Expansion`, for model files and exports."""

    def scores(self, X: object) -> Array:
        """Return the functions without intercept at new rows, (n, T)."""

    def active_contributions(self, X: TableLike) -> Array:
        """Return the contribution of every active kernel to every function, (m, n, T)."""


@dataclass(frozen=True)
class Solution:
    """A fitted model ``f(x) = sum_m d_m sum_i rho_i k_m(x, x_i) + b`` with the certificate.

    Solvers and searches meet such models on their way, and return the best.

    Parameters
    ----------
    dual_coef : ndarray of shape (n_samples,), or (n_samples, n_targets) with shared weights
        ``rho``.
    kernel_weights : ndarray of shape (n_kernels,)
        ``d``, non-negative.
    intercept : float, or ndarray of shape (n_targets,) with shared weights
        ``b``, 0 without an intercept.
    certificate : Certificate
        Primal and dual value, absolute and relative gap of exactly the model.
    status : Status
        Why the solver stopped; ``Status.CONVERGED`` if the relative gap is at most ``tol``.
    message : str
        The status in words.
    history : tuple of IterationRecord
        An entry per certified model on the way, the starting point first.
    passes : float
        Gram entries read, in passes over the whole stack.
    newton_steps, n_iter : int
        Linear systems solved; outer iterations.
    elapsed_s : float
        Wall-clock seconds.
    solver : str
        Name of the solver.
    kernel_norms : ndarray of shape (n_kernels,)
        ``||f_m||``, of all targets together.
    functions : Functions, optional
        The functions of the active kernels, for new rows: an expansion in training rows, or functions of factors.
    replaced_kernels : dict of int to float
        Kernels given as matrices that were indefinite by rounding, by position, with the most negative relative
        eigenvalue. The nearest positive semidefinite matrices replace the kernels, also in the certificate, so values
        from the original matrices differ.
    kernels : tuple of Found
        On the way of a search only: the kernels found, in the order of ``kernel_weights``.
    state : object, optional
        On the way of a run only: where the algorithm stood, of which the functions of the model can be made.
    whole : callable, optional
        On the way of a run only: returns the certificate with the bound on rounding.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import solve
    >>> kernels = np.stack([np.eye(4), np.ones((4, 4))])
    >>> solution = solve(kernels, [1.0, 2.0, 3.0, 4.0], loss="squared", penalty="ridge", alpha=0.25)
    >>> str(solution.status), bool(solution.certificate.relative_gap < 1e-4)
    ('converged', True)
    """

    dual_coef: Array
    kernel_weights: Array
    intercept: Any  # a float, or (T,) with shared weights
    certificate: Certificate
    status: Status = Status.RUNNING
    message: str = ""
    history: tuple[IterationRecord, ...] = ()
    passes: float = 0.0
    newton_steps: int = 0
    n_iter: int = 0
    elapsed_s: float = 0.0
    solver: str = ""
    kernel_norms: Array | None = None
    functions: Functions | None = field(default=None, repr=False)
    replaced_kernels: dict[int, float] = field(default_factory=dict)
    kernels: tuple[Any, ...] = field(default=(), repr=False)
    state: Any = field(default=None, repr=False)
    whole: Callable[[], Certificate] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.certificate.crossed and self.status in (Status.CONVERGED, Status.STALLED):
            excess = -self.certificate.gap / max(abs(self.certificate.primal), 1e-300)
            message = f"the lower bound is above the objective by {excess:.1e} of it, more than rounding: rescale "
            message += "columns that spread over many powers of ten, for instance by their ranks or logarithms."
            object.__setattr__(self, "message", f"Solver '{self.solver}' stopped ({Status.INACCURATE}): {message}")
            object.__setattr__(self, "status", Status.INACCURATE)

    def record_replaced(self, kernels: dict[int, float]) -> Solution:
        """Return the solution with a record of kernels replaced by the nearest definite ones.

        Parameters
        ----------
        kernels : dict of int to float
            As in ``replaced_kernels``.

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels import solve
        >>> found = solve(np.eye(2)[None], np.array([1.0, 3.0]), loss="squared", penalty="l1", alpha=0.25)
        >>> found.record_replaced({0: 2e-9}).message.split(". ", 1)[1]
        'The nearest definite matrix stands for 1 of 1 kernels, negative by up to 2.0e-09 of the largest eigenvalue.'
        """
        if not kernels or kernels == self.replaced_kernels:
            return self
        told = (
            f"The nearest definite matri{'x stands' if len(kernels) == 1 else 'ces stand'} for {len(kernels)} of "
            f"{len(self.kernel_weights)} kernels, negative by up to {max(kernels.values()):.1e} of the largest "
            "eigenvalue."
        )
        return replace(self, replaced_kernels=kernels, message=f"{self.message.rstrip('.')}. {told}")

    def __repr__(self) -> str:
        kernels = f"{np.count_nonzero(self.kernel_weights)} of {len(self.kernel_weights)} kernels"
        gap = f"relative gap {self.dual_gap:.1e}"
        return f"<Solution: {kernels} on {len(self.dual_coef)} samples, {self.status}, {gap}>"

    @property
    def dual_gap(self) -> float:
        """Relative duality gap of the model, for the exact kernels."""
        return float(self.certificate.relative_gap)

    def _contributions(self, X: TableLike) -> Array:
        """Return what every active kernel adds to every function, (m, n, T); new rows of matrices are (M, n, N)."""
        if self.functions is not None:
            return self.functions.active_contributions(X)
        values = real_array(X, "X")
        n_kernels, n_samples = len(self.kernel_weights), len(self.dual_coef)
        if values.ndim != 3 or (len(values), values.shape[2]) != (n_kernels, n_samples):
            raise InvalidInputError(
                f"The {n_kernels} kernels of this solution came as matrices, so new rows are their kernels with the "
                f"training samples, an array of shape ({n_kernels}, n, {n_samples}), got shape {values.shape}. A "
                "KernelBank with its table, solve(bank, y, X=X, ...), and estimators read rows themselves."
            )
        kernels = check_rectangular_grams(values)[self.active]
        return self.kernel_weights[self.active, None, None] * (kernels @ self.dual_coef.reshape(n_samples, -1))

    def decision_function(self, X: TableLike) -> Array:
        """Return ``f(x) + b`` at new rows: predictions of numbers, and of labels where it is above zero.

        Parameters
        ----------
        X : DataFrame or (n, p) array, or what `open_rows` takes where kernels are held as factors
            The columns of training. Where kernels came as matrices: those between new and training samples, (M, n, N).

        Returns
        -------
        ndarray of shape (n,), or (n, n_targets)

        Raises
        ------
        InvalidInputError
            If these are not the columns, or the kernels, of training.

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels import KernelBank, solve
        >>> X = np.random.default_rng(0).uniform(-1, 1, (50, 2))
        >>> kernels = np.stack([X[:, [0]] @ X[:, [0]].T, X @ X.T])
        >>> found = solve(kernels[:, :40, :40], 3 * X[:40, 0], loss="squared", penalty="l1", alpha="0.01*max")
        >>> bool(np.allclose(found.decision_function(kernels[:, 40:, :40]), 3 * X[40:, 0], atol=0.1))
        True
        >>> bank = KernelBank.per_feature(widths=[0.5])
        >>> found = solve(bank, np.sin(3 * X[:, 0]), X=X, loss="squared", penalty="l1", alpha="0.1*max")
        >>> found.decision_function(X[:3]).shape, found.decompose(X[:3]).shape[1:]
        ((3,), (3,))
        """
        scores = self._contributions(X).sum(axis=0) if self.functions is None else self.functions.scores(X)
        scores = scores + self.intercept
        return scores if np.ndim(self.intercept) else scores[:, 0]

    def decompose(self, X: TableLike) -> Array:
        """Return the function of every active kernel at new rows, in the order of `active`.

        Parameters
        ----------
        X : DataFrame or (n, p) array, or what `open_rows` takes where kernels are held as factors
            As for `decision_function`.

        Returns
        -------
        ndarray of shape (n_active, n), or (n_active, n, n_targets)

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels import KernelBank, solve
        >>> X = np.random.default_rng(0).uniform(-1, 1, (50, 2))
        >>> bank = KernelBank.per_feature(widths=[0.5])
        >>> found = solve(bank, np.sin(3 * X[:, 0]), X=X, loss="squared", penalty="l1", alpha="0.5*max")
        >>> found.decompose(X[:3]).shape
        (1, 3)
        """
        parts = self._contributions(X)
        return parts if np.ndim(self.intercept) else parts[:, :, 0]

    def weights_frame(self) -> pd.DataFrame:
        """Return a row per active kernel: name, weight, norm of the function; the largest norm first.

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels import KernelBank, solve
        >>> X = np.random.default_rng(0).uniform(-1, 1, (50, 2))
        >>> bank = KernelBank.per_feature(widths=[0.5])
        >>> found = solve(bank, np.sin(3 * X[:, 0]), X=X, loss="squared", penalty="l1", alpha="0.5*max")
        >>> found.weights_frame()["name"].tolist()
        ['x0: gaussian(width=0.5)']
        """
        active = self.active
        names = [f"kernel {m}" for m in active] if self.functions is None else list(self.functions.names)
        norms = np.full(len(active), np.nan) if self.kernel_norms is None else self.kernel_norms[active]
        frame = pd.DataFrame({"name": names, "weight": self.kernel_weights[active], "norm": norms})
        return frame.sort_values("norm", ascending=False, ignore_index=True)

    def scatter(self, kept: Array, n_samples: int) -> Solution:
        """Return the solution for more samples, of which it knows some: the rest took no part.

        Parameters
        ----------
        kept : ndarray of shape (N,), int
            Positions of the samples of the solution.
        n_samples : int
            How many there are in all.

        Returns
        -------
        Solution
            With dual coefficients of shape ``(n_samples,)``, zero off ``kept``.

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels import solve
        >>> found = solve(np.eye(2)[None], np.array([1.0, 3.0]), loss="squared", penalty="l1", alpha=0.25)
        >>> np.flatnonzero(found.scatter(np.array([0, 3]), 5).dual_coef)
        array([0, 3])
        """
        if len(kept) == n_samples:
            return self
        dual_coef = np.zeros((n_samples, *self.dual_coef.shape[1:]))
        dual_coef[kept] = self.dual_coef
        return replace(self, dual_coef=dual_coef)

    @property
    def active(self) -> Array:
        """Positions of the kernels with nonzero weight."""
        return np.flatnonzero(self.kernel_weights)

    @property
    def support(self) -> Array:
        """Positions of the samples with nonzero dual coefficient."""
        return np.flatnonzero(self.dual_coef.reshape(len(self.dual_coef), -1).any(axis=1))

    def frame(self) -> pd.DataFrame:
        """Return the history as a table, a row per iteration.

        Returns
        -------
        DataFrame
            A column for every field of `IterationRecord`.

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels import solve
        >>> solution = solve(np.eye(4)[None], [1.0, 2.0, 3.0, 4.0], loss="squared", penalty="ridge", alpha=0.25)
        >>> solution.frame().columns[:4].tolist()
        ['iteration', 'elapsed_s', 'passes', 'newton_steps']
        """
        return pd.DataFrame([asdict(record) for record in self.history])


@contextmanager
def progress_of(limits: Limits) -> Iterator[Callable[[IterationRecord], None] | None]:
    """Yield a function that shows a record according to ``verbose``, None for nothing."""
    if limits.verbose <= 0:
        yield None
    elif limits.verbose == 1:
        with _bar(limits) as show:
            yield show
    else:
        console = Console(stderr=True)
        yield lambda record: console.print(_line(record), highlight=False)


@contextmanager
def count_to(total: int | None, name: str, verbose: int) -> Iterator[Callable[[str], None]]:
    """Yield a function to call with a line of text after each of ``total`` runs; None for an unknown total."""
    if verbose <= 0:
        yield lambda line: None
        return
    texts = TextColumn("{task.description}"), TextColumn("{task.fields[text]}")
    columns = (texts[0], BarColumn(), MofNCompleteColumn(), texts[1], *_times())
    with _terminal_progress(*columns) as progress:
        task = progress.add_task(name, total=total, text="")

        def advance(line: str) -> None:
            if verbose > 1:
                progress.console.print(line, highlight=False)
            progress.update(task, advance=1, text=line)

        yield advance


@contextmanager
def _bar(limits: Limits) -> Iterator[Callable[[IterationRecord], None]]:
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[text]}"), *_times())
    with _terminal_progress(*columns) as progress:
        task = progress.add_task(limits.name, total=1.0, text="")

        def show(record: IterationRecord) -> None:
            progress.update(task, completed=_fraction(record.relative_gap, limits.tol), text=_line(record))

        yield show


def _times() -> tuple[ProgressColumn, ...]:
    """Return the time since the beginning and, by the speed so far, until the end."""
    return TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn()


def _terminal_progress(*columns: ProgressColumn) -> Progress:
    """Return a transient progress bar; nothing in a file or a pipe."""
    console = Console(stderr=True)
    return Progress(*columns, console=console, transient=True, disable=not (console.is_terminal or console.is_jupyter))


def _fraction(gap: float, tol: float) -> float:
    """Progress of the gap on a logarithmic scale from 1 to tol."""
    if gap <= tol:
        return 1.0
    return max(0.0, min(1.0, math.log(max(gap, 1e-300)) / math.log(tol))) if tol < 1 else 0.0


def _line(record: IterationRecord) -> str:
    return (
        f"iteration {record.iteration}  gap {record.relative_gap:.1e}  active {record.n_active}  "
        f"passes {record.passes:.1f}"
    )
