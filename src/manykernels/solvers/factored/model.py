"""Functions of kernels as factors, ``f_m(x) = z_m(x)' v_m``, for predictions on new rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from manykernels.exceptions import InvalidInputError
from manykernels.grams.expansion import Expansion
from manykernels.grams.factored import ColumnTable, FactoredStack, open_table
from manykernels.grams.factored.prediction import KernelPart, Kernels, read_once, total
from manykernels.grams.rows.columns import Reading
from manykernels.grams.rows.opening import is_chunked
from manykernels.kernels import FittedBank
from manykernels.kernels.bank.columns import NUMBERS, Table
from manykernels.kernels.bank.table_kernels import TableKernels
from manykernels.kernels.tables.encoding import Encoding
from manykernels.kernels.tables.tails import compress_tails, expand_tails
from manykernels.solvers.factored.state import Component, Round, Start
from manykernels.validation.arrays import Array, TableLike


def _readings(kernels: Kernels, table: ColumnTable) -> Callable[[int], Reading]:
    return read_once(kernels, lambda kernel: table.reading(*kernels[kernel]))


def _each(parts: Sequence[KernelPart], kernels: Kernels, table: ColumnTable) -> Array:
    reading = _readings(kernels, table)
    values = [part(reading(part.kernel)) for part in parts]
    return np.array(values).reshape(len(parts), table.n_rows)


def _totals(n_targets: int, parts: Sequence[KernelPart], kernels: Kernels, table: ColumnTable) -> Array:
    return total(parts, n_targets, _readings(kernels, table), table.n_rows)


def _counts(column: int, edges: Array, table: ColumnTable) -> Array:
    """Return how many rows have values between neighboring edges."""
    return np.histogram(table.column(column), bins=edges)[0]


@dataclass(frozen=True, eq=False, repr=False)
class FactorFunctions:
    """The functions of a solution on kernels held as factors: as many numbers as factors have columns, a kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import KernelBank, solve
    >>> from manykernels.grams.factored import factored_stack
    >>> X = np.random.default_rng(0).uniform(-1, 1, (200, 2))
    >>> stack = factored_stack(X, KernelBank.per_feature(widths=[0.5]))
    >>> found = solve(stack, np.sin(3 * X[:, 0]), loss="squared", penalty="l1", alpha="0.1*max")
    >>> found.functions.names, found.functions.shape_functions(0).columns.tolist()
    (('x0: gaussian(width=0.5)',), ['x', 'effect', 'density'])
    """

    stack: FactoredStack  # the kernels, and the table that they are on
    components: tuple[Component, ...]  # one an active kernel and target
    n_targets: int = 1  # number of functions, 1 unless several targets share their kernel weights
    # relative gap of the problem with factors in place of kernels, which proves nothing about the exact ones
    approximate_gap: float = 0.0
    rounds: tuple[Round, ...] = ()  # one entry a pass: what the working set was, its rank, how fine factors were
    start: Start | None = None  # from which a problem on the same stack can begin
    # where a bank prepared the columns of the stack, or told their units, that bank, which reads new rows
    bank: FittedBank | None = None

    def __repr__(self) -> str:
        return f"FactorFunctions({len(self.active)} active kernels, {self.stack!r})"

    @property
    def active(self) -> Array:
        """Positions of the active kernels."""
        return np.unique(np.array([component.kernel for component in self.components], dtype=np.int64))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the active kernels."""
        return tuple(self.stack.name_of(int(m)) for m in self.active)

    def scores(self, X: Any) -> Array:
        """Return the functions without intercept at new rows, chunk by chunk, (n, T)."""
        if self.bank is not None and is_chunked(X):
            return self.expansion.scores(X)
        return self._evaluate(X, partial(_totals, self.n_targets)).T

    def active_contributions(self, X: TableLike) -> Array:
        """Return the contribution of every active kernel to every function at new rows, (m, n, T)."""
        if self.bank is not None and is_chunked(X):
            return self.expansion.active_contributions(X)
        values = self._evaluate(X, _each)
        parts = np.zeros((len(self.active), values.shape[1], self.n_targets))
        for part, own in zip(self.parts, values, strict=True):
            parts[part.kernel, :, part.target] = own
        return parts

    @cached_property
    def parts(self) -> tuple[KernelPart, ...]:
        """The functions in the stored form of models, without stack or rows."""
        place = {int(m): slot for slot, m in enumerate(self.active)}
        return tuple(KernelPart(own.target, place[own.kernel], own.function(self.stack)) for own in self.components)

    @property
    def expansion(self) -> Expansion:
        """The functions with a bank for new rows, without the training rows."""
        active = self.active
        kept = active.tolist() or [0]
        bank = self._bank_of_table(kept) if self.bank is None else self.bank.take(kept)
        weights = np.ones((self.n_targets, active.size))
        return Expansion(bank, active, self.stack.n_kernels, weights, parts=self.parts)

    def _bank_of_table(self, kernels: list[int]) -> FittedBank:
        """Return some kernels with the units of the columns of the stack, which no bank prepared."""
        stack, table = self.stack, self.stack.table
        positions = tuple(stack.columns_of(m) for m in kernels)
        used = sorted({j for columns in positions for j in columns})
        names, encodings = table.names, tuple(table.encodings[j] for j in used if table.encodings)
        raw = TableKernels(
            names=tuple(map(stack.name_of, kernels)),
            specs=tuple(map(stack.spec_of, kernels)),
            positions=positions,
            n_features=table.n_columns,
            feature_names=names if names is not None and all(isinstance(name, str) for name in names) else None,
            column_means=table.center[used],
            column_scales=table.unit[used],
            shifts=np.zeros(len(used)),
            encodings=() if all(own == NUMBERS for own in encodings) else encodings,
            missing=table.missing,
        )
        return FittedBank(raw, np.ones(len(kernels)))

    def _evaluate(self, X: TableLike, gather: Callable[..., Array]) -> Array:
        """Return the functions at all rows, (..., n), computed at the place of the rows."""
        if self.bank is not None:
            X = self.bank.table.values(Table.wrap(X), in_their_units=not self._prepared)
        rows = open_table(X, self.stack.table)
        kernels = [(self.stack.spec_of(int(m)), self.stack.columns_of(int(m))) for m in self.active]
        return np.concatenate(
            [own for _, own in rows.evaluate_slices(16_384, partial(gather, self.parts, kernels))], axis=-1
        )

    @property
    def _prepared(self) -> bool:
        """Return whether the columns of the stack are standardized columns of a bank, with the units of the bank."""
        if self.bank is None:
            return False
        own, table = self.bank.table, self.stack.table
        return not (np.array_equal(own.column_means, table.center) and np.array_equal(own.column_scales, table.unit))

    def _units(self, column: int) -> tuple[float, float]:
        """Return the zero of a column of the stack in the original unit, and the unit."""
        if self.bank is None or not self._prepared:
            return 0.0, 1.0
        return float(self.bank.table.column_means[column]), float(self.bank.table.column_scales[column])

    def _ends(self, column: int) -> tuple[float, float]:
        """Return the least and the largest value of a column as given."""
        table, (zero, unit) = self.stack.table, self._units(column)
        low, high = ((side * table.unit + table.center)[column] for side in (table.low, table.high))
        low, high = self._expand(column, np.array([zero + unit * low, zero + unit * high])).tolist()
        return low, high

    def _encoding(self, column: int) -> Encoding:
        """Return how a column of the stack became numbers."""
        known = self.stack.table.encodings if self.bank is None else self.bank.table.encodings
        return known[column] if known else NUMBERS

    def _expand(self, column: int, values: Array) -> Array:
        """Return values of a column as they were given, those of heavy tails expanded."""
        tails = self._encoding(column).tails
        return values if tails is None else expand_tails(values, *tails)

    def _places(self, column: int, values: Array) -> Array:
        """Return values as they were given in the unit of a column of the stack."""
        tails, (zero, unit) = self._encoding(column).tails, self._units(column)
        return ((values if tails is None else compress_tails(values, *tails)) - zero) / unit

    def shape_functions(self, column: int, grid: ArrayLike | None = None, *, target: int = 0) -> pd.DataFrame:
        """Return the contribution of single-column kernels for values in the original unit."""
        table = self.stack.table
        if not 0 <= column < table.n_columns:
            raise InvalidInputError(f"column must be between 0 and {table.n_columns - 1}, got {column!r}.")
        points = np.linspace(*self._ends(column), 200) if grid is None else np.asarray(grid, dtype=np.float64)
        places = self._places(column, points)
        own = [c for c in self.components if self.stack.columns_of(c.kernel) == (column,) and c.target == target]
        edges = np.concatenate([[-np.inf], 0.5 * (places[1:] + places[:-1]), [np.inf]])
        density = table.reduce([column], partial(_counts, column, edges)) / table.n_rows
        rows = table.single(column, places)
        effect = sum((c.values(self.stack, rows) for c in own), start=np.zeros(len(points)))
        return pd.DataFrame({"x": points, "effect": effect - float(density @ effect), "density": density})

    def surface(self, first: int, second: int, size: int = 40, *, target: int = 0) -> pd.DataFrame:
        """Return the contribution of two-column kernels for values, without the single-column effects."""
        table, pair = self.stack.table, tuple(sorted((first, second)))
        if first == second or not all(0 <= column < table.n_columns for column in pair):
            raise InvalidInputError(f"A pair is two different columns from 0 to {table.n_columns - 1}, got {pair}.")
        axes = [np.linspace(*self._ends(column), size) for column in (first, second)]
        x, z = (grid.ravel() for grid in np.meshgrid(*axes, indexing="ij"))
        own = [
            c for c in self.components if tuple(sorted(self.stack.columns_of(c.kernel))) == pair and c.target == target
        ]
        places = {j: self._places(j, own) for j, own in {first: x, second: z}.items()}
        rows, training = table.grid(places), table.sample()
        effect, mean = np.zeros(len(x)), 0.0
        for component in own:
            effect += component.values(self.stack, rows)
            mean += float(component.values(self.stack, training).mean())
        return pd.DataFrame({"x": x, "z": z, "effect": effect - mean})
