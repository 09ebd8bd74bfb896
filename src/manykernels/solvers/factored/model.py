"""What a factored fit ends in: additive functions of few kernels, their certificate, and how they were found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from manykernels.exceptions import InvalidInputError
from manykernels.grams.factored import ColumnTable, FactoredStack, open_table
from manykernels.grams.rows import here
from manykernels.solvers.factored.state import Component, Curve, Round
from manykernels.solvers.factored.tuning import CHUNK

Array = NDArray[Any]


def _each(curves: Sequence[Curve], table: ColumnTable) -> Array:
    return np.array([curve(table) for curve in curves]).reshape(len(curves), table.n_rows)


def _total(start: float, curves: Sequence[Curve], table: ColumnTable) -> Array:
    return sum((curve(table) for curve in curves), start=np.full(table.n_rows, start))


def _counts(column: int, edges: Array, table: ColumnTable) -> Array:
    """Return how many rows have values between neighboring edges."""
    return np.histogram(table.column(column), bins=edges)[0]


@dataclass(frozen=True, eq=False, repr=False)
class FactoredModel:
    """A fitted model ``f(x) = sum_m f_m(x) + b`` of kernels kept as factors, with a certificate of the exact kernels.

    Parameters
    ----------
    names : tuple of str
        Names of the active kernels.
    active : ndarray of shape (n_active,)
        Their numbers in the bank.
    kernel_weights : ndarray of shape (n_kernels,)
        ``d_m = ||f_m|| / u_m``, as in `Solution`.
    block_norms : ndarray of shape (n_active,)
        ``||f_m||``.
    intercept : float
    primal, dual : float
        Upper bound on the objective of this model in the exact kernels; lower bound on that of every model.
    dual_gap : float
        Relative gap of the exact kernels.
    approximate_gap : float
        Relative gap of the same problem with factors in place of kernels; says nothing about the exact ones.
    status, message : str
        Why the loop ended: converged, max_iter, time_limit, stalled.
    history : tuple of Round
        One entry a pass.
    strength_max : float
        The smallest strength at which no kernel is active.

    See Also
    --------
    solve_factored : Fits it.
    """

    names: tuple[str, ...]
    active: Array
    kernel_weights: Array
    block_norms: Array
    intercept: float
    primal: float
    dual: float
    dual_gap: float
    approximate_gap: float
    status: str
    message: str
    history: tuple[Round, ...]
    strength_max: float
    _stack: FactoredStack = field(repr=False)
    _components: tuple[Component, ...] = field(repr=False)
    _dual: Any = field(repr=False)
    _classes: tuple[float, ...] | None = None

    def __repr__(self) -> str:
        return (
            f"FactoredModel(n_kernels={len(self.kernel_weights)}, n_active={len(self.active)}, "
            f"dual_gap={self.dual_gap:.2e}, status={self.status!r})"
        )

    @cached_property
    def dual_coef(self) -> Array:
        """The dual coefficients of the lower bound, (n_samples,); of rows on workers, fetched when asked for."""
        return np.asarray(here(self._dual))

    def decompose(self, X: Any) -> Array:
        """Return the function of every active kernel at new rows, (n_active, n).

        Parameters
        ----------
        X : DataFrame or (n, p) array, or what `open_rows` takes
            The columns of training.

        Returns
        -------
        ndarray of shape (n_active, n)

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels import KernelBank, solve_factored
        >>> X = np.random.default_rng(0).uniform(-1, 1, (200, 2))
        >>> y, bank = np.sin(3 * X[:, 0]), KernelBank.per_feature(widths=[0.5])
        >>> model = solve_factored(X, y, bank, loss="squared", relative_strength=0.1)
        >>> np.allclose(model.decompose(X[:3]).sum(axis=0) + model.intercept, model.decision_function(X[:3]))
        True
        """
        return self._evaluated(X, _each)

    def decision_function(self, X: Any) -> Array:
        """Return ``f(x) + b`` at new rows, chunk by chunk.

        Parameters
        ----------
        X : DataFrame or (n, p) array, or what `open_rows` takes
            The columns of training.

        Returns
        -------
        ndarray of shape (n,)
        """
        return self._evaluated(X, partial(_total, self.intercept))

    def _evaluated(self, X: Any, gather: Callable[..., Array]) -> Array:
        """Return what becomes of the components' functions at all rows, (..., n)."""
        rows = open_table(X, self._stack.table)
        if all(component.tol is not None for component in self._components):
            function = partial(gather, [component.curve(self._stack) for component in self._components])
            parts = rows.evaluated(CHUNK, function)
        else:  # they are sums over training samples, and stay in this process
            curves = [partial(component.values, self._stack) for component in self._components]
            parts = ((chunk, gather(curves, part)) for chunk, part in rows.chunks(CHUNK))
        return np.concatenate([values for _, values in parts], axis=-1)

    def predict(self, X: Any) -> Array:
        """Return labels -1 and +1 for a classification loss, scores for a regression loss.

        Parameters
        ----------
        X : DataFrame or (n, p) array, or what `open_rows` takes
            The columns of training.

        Returns
        -------
        ndarray of shape (n,)

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels import KernelBank, solve_factored
        >>> X = np.random.default_rng(0).uniform(-1, 1, (200, 2))
        >>> y, bank = np.sin(3 * X[:, 0]), KernelBank.per_feature(widths=[0.5])
        >>> model = solve_factored(X, y, bank, loss="squared", relative_strength=0.1)
        >>> model.predict(X[:3]).shape
        (3,)
        """
        scores = self.decision_function(X)
        return scores if self._classes is None else np.where(scores > 0, self._classes[1], self._classes[0])

    def predict_chunks(self, chunks: Iterable[Any]) -> Iterator[Array]:
        """Yield predictions of tables that come one after the other, such as batches of a stream or of a file.

        Parameters
        ----------
        chunks : iterable of DataFrame or (n, p) array
            Each with the columns of training.

        Yields
        ------
        ndarray of shape (n,)

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels import KernelBank, solve_factored
        >>> X = np.random.default_rng(0).uniform(-1, 1, (200, 2))
        >>> y, bank = np.sin(3 * X[:, 0]), KernelBank.per_feature(widths=[0.5])
        >>> model = solve_factored(X, y, bank, loss="squared", relative_strength=0.1)
        >>> [len(part) for part in model.predict_chunks([X[:3], X[3:8]])]
        [3, 5]
        """
        for chunk in chunks:
            yield self.predict(chunk)

    def weights_frame(self) -> pd.DataFrame:
        """Return one row an active kernel: name, weight, norm of its function; the largest norm first.

        Returns
        -------
        DataFrame

        Examples
        --------
        >>> import numpy as np
        >>> from manykernels import KernelBank, solve_factored
        >>> X = np.random.default_rng(0).uniform(-1, 1, (200, 2))
        >>> y, bank = np.sin(3 * X[:, 0]), KernelBank.per_feature(widths=[0.5])
        >>> model = solve_factored(X, y, bank, loss="squared", relative_strength=0.1)
        >>> model.weights_frame().columns.tolist()
        ['name', 'weight', 'norm']
        """
        frame = pd.DataFrame({"name": self.names, "weight": self.kernel_weights[self.active], "norm": self.block_norms})
        return frame.sort_values("norm", ascending=False, ignore_index=True)

    def frame(self) -> pd.DataFrame:
        """Return the history as a table, one row a pass.

        Returns
        -------
        DataFrame
        """
        return pd.DataFrame([asdict(entry) for entry in self.history])

    def shape_functions(self, column: int, grid: ArrayLike | None = None) -> pd.DataFrame:
        """Return what the model adds for values of one column, from all kernels on that column alone.

        Parameters
        ----------
        column : int
            Position of the column.
        grid : array_like, optional
            Values in the column's own unit; by default 200 between its smallest and largest training value.

        Returns
        -------
        DataFrame
            With ``x``, ``effect`` (of mean zero over the training rows) and ``density`` (share of training rows nearest
            to each value).
        """
        table = self._stack.table
        if not 0 <= column < table.n_columns:
            raise InvalidInputError(f"column must be between 0 and {table.n_columns - 1}, got {column!r}.")
        low, high = (
            float(side[column] * table.unit[column] + table.center[column]) for side in (table.low, table.high)
        )
        points = np.linspace(low, high, 200) if grid is None else np.asarray(grid, dtype=np.float64)
        own = [c for c in self._components if self._stack.columns_of(c.kernel) == (column,)]
        edges = np.concatenate([[-np.inf], 0.5 * (points[1:] + points[:-1]), [np.inf]])
        density = table.reduce([column], partial(_counts, column, edges)) / table.n_rows
        rows = table.single(column, points)
        effect = sum((c.values(self._stack, rows) for c in own), start=np.zeros(len(points)))
        return pd.DataFrame({"x": points, "effect": effect - float(density @ effect), "density": density})

    def columns_of(self, kernel: int) -> tuple[int, ...]:
        """Return the columns that a kernel acts on.

        Parameters
        ----------
        kernel : int
            Its number, as in ``active``.

        Returns
        -------
        tuple of int
        """
        return self._stack.columns_of(kernel)

    def surface(self, first: int, second: int, size: int = 40) -> pd.DataFrame:
        """Return what kernels of a pair of columns add for their values, without what each column adds by itself.

        Parameters
        ----------
        first, second : int
            Positions of the columns.
        size : int, default=40
            Values of each column, between its smallest and its largest training value.

        Returns
        -------
        DataFrame
            With ``x``, ``z`` and ``effect``, of mean zero over training rows (or a sample); one row a pair of values.

        Raises
        ------
        InvalidInputError
            If there is no such pair.
        """
        table, pair = self._stack.table, tuple(sorted((first, second)))
        if first == second or not all(0 <= column < table.n_columns for column in pair):
            raise InvalidInputError(f"A pair is two different columns from 0 to {table.n_columns - 1}, got {pair}.")
        sides = [side * table.unit + table.center for side in (table.low, table.high)]
        axes = [np.linspace(float(sides[0][j]), float(sides[1][j]), size) for j in (first, second)]
        x, z = (grid.ravel() for grid in np.meshgrid(*axes, indexing="ij"))
        own = [c for c in self._components if tuple(sorted(self._stack.columns_of(c.kernel))) == pair]
        rows, training = table.grid({first: x, second: z}), table.sample()
        effect, mean = np.zeros(len(x)), 0.0
        for component in own:
            effect += component.values(self._stack, rows)
            mean += float(component.values(self._stack, training).mean())
        return pd.DataFrame({"x": x, "z": z, "effect": effect - mean})
