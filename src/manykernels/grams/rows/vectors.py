"""Vectors with an entry per row and parts beside the rows: NumPy arithmetic builds terms for remote evaluation."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NoReturn

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import DTypeLike

from manykernels.exceptions import InvalidInputError
from manykernels.validation.arrays import Array

ENTRY_BY_ENTRY = {np.where, np.clip, np.zeros_like, np.ones_like, np.full_like}


class Held:
    """Parts of a vector, a part per chunk: keys of a scheduler, or small local objects."""

    def __init__(self, parts: Sequence[Any]) -> None:
        self.parts = tuple(parts)


class Term:
    """Function of other terms, of stored parts and of numbers; computed by the dependent tasks."""

    def __init__(self, function: Callable[..., Any], arguments: Sequence[Any], options: dict[str, Any]) -> None:
        self.function, self.arguments, self.options = function, tuple(map(_term, arguments)), options


class Program:
    """Terms in an order of computation from the stored parts of a chunk, without repetition."""

    def __init__(self) -> None:
        self.held: list[Held] = []
        self._steps: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []
        self._places: dict[int, int] = {}
        self._wanted: list[int] = []

    @classmethod
    def create(cls, vectors: Sequence[Any]) -> tuple[Program, list[Held]]:
        """Return the serializable program of vectors, with the required stored parts."""
        program = cls()
        program._wanted = [program._place(_term(vector)) for vector in vectors]
        held, program.held, program._places = program.held, [], {}
        return program, held

    def _place(self, term: Any) -> int:
        """Return the step number of a term."""
        if id(term) in self._places:
            return self._places[id(term)]
        if isinstance(term, Held):
            self.held.append(term)
            step: Any = (None, (len(self.held) - 1,), {})
        else:
            arguments = [_Step(self._place(a)) if isinstance(a, (Term, Held)) else a for a in term.arguments]
            step = (term.function, tuple(arguments), term.options)
        self._steps.append(step)
        self._places[id(term)] = len(self._steps) - 1
        return self._places[id(term)]

    def __call__(self, parts: Sequence[Any]) -> list[Any]:
        """Return the vectors' parts of a single chunk."""
        values: list[Any] = []
        with np.errstate(over="ignore"):
            for function, arguments, options in self._steps:
                if function is None:
                    values.append(parts[arguments[0]])
                else:
                    given = [values[a.number] if isinstance(a, _Step) else a for a in arguments]
                    values.append(function(*given, **options))
        return [values[number] for number in self._wanted]


class _Step:
    """The result of an earlier step."""

    def __init__(self, number: int) -> None:
        self.number = number


class RowVector(NDArrayOperatorsMixin):
    """A vector (N,) whose parts are with the chunks of a source.

    Arithmetic, ``np.where``, ``np.clip`` and the like make a new one without computing anything; sums, products with
    another vector and extremes are computed where the parts are, and a single number travels.

    Parameters
    ----------
    source : RowSource
        A source able to `hold` parts.
    term : Term or Held
    """

    ndim = 1
    dtype = np.dtype(np.float64)

    def __init__(self, source: Any, term: Term | Held) -> None:
        self.source, self.term = source, term

    @property
    def shape(self) -> tuple[int]:
        """An entry per row."""
        return (self.source.n_rows,)

    def __len__(self) -> int:
        return int(self.source.n_rows)

    def __repr__(self) -> str:
        return f"RowVector({len(self)} entries in {self.source.n_chunks} parts)"

    def __array__(self, dtype: DTypeLike | None = None, copy: object = None) -> NoReturn:
        """Refuse to become an array by accident; `here` does on purpose."""
        raise InvalidInputError(f"{self!r} stays with its rows; .here() brings it into this process.")

    def here(self) -> Array:
        """Return the vector as an array in the process."""
        return np.concatenate(list(self.source.map(_itself, None, [self])))

    def compute(self) -> RowVector:
        """Return the vector computed now, with parts stored in place."""
        return self.source.hold(_itself, None, [self])

    def copy(self) -> RowVector:
        """Return an independent copy."""
        return RowVector(self.source, self.term)

    def starts(self) -> RowVector:
        """Return the number of the first row of every part in place of the entries."""
        return RowVector(self.source, Held([int(start) for start in self.source.starts[:-1]]))

    # --- NumPy's protocols ------------------------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **options: object) -> Any:
        if method != "__call__":
            return NotImplemented
        if ufunc is np.matmul:
            return self._total(np.dot, inputs)
        made = self._derive(ufunc, inputs, options)
        if out is None:
            return made
        out[0].term = made.term
        return out[0]

    def __array_function__(
        self, function: Callable[..., Any], types: object, arguments: Sequence[Any], options: dict[str, Any]
    ) -> Any:
        if function in ENTRY_BY_ENTRY:
            return self._derive(function, arguments, options)
        if function in (np.sum, np.dot) and not options:
            return self._total(function, arguments)
        if function is np.ptp:
            return arguments[0].max() - arguments[0].min()
        return NotImplemented

    def __getitem__(self, mask: object) -> RowVector:
        """Return the entries where another vector is true; of use in sums only."""
        return self._derive(operator.getitem, (self, mask), {})

    def _derive(self, function: Callable[..., Any], arguments: Sequence[Any], options: dict[str, Any]) -> RowVector:
        return RowVector(self.source, Term(function, arguments, options))

    # --- what travels -----------------------------------------------------------------------------------------------

    def _total(
        self, function: Callable[..., Any], vectors: Sequence[Any], combine: Callable[..., Any] | None = None
    ) -> Any:
        return self.source.reduce(partial(_call_without_data, function), None, vectors, combine)

    def sum(self) -> Any:
        """Return the sum of all entries."""
        return self._total(np.sum, [self])

    def any(self) -> bool:
        """Return whether an entry is not zero."""
        return bool(self._total(np.any, [self], np.logical_or))

    def all(self) -> bool:
        """Return whether no entry is zero."""
        return bool(self._total(np.all, [self], np.logical_and))

    def max(self) -> Any:
        """Return the largest entry."""
        return self._total(partial(np.max, initial=-np.inf), [self], np.maximum)

    def min(self) -> Any:
        """Return the smallest entry."""
        return self._total(partial(np.min, initial=np.inf), [self], np.minimum)


def sums(*vectors: Array | RowVector) -> list[float]:
    """Return the sum of every vector; all travel together where vectors are beside rows."""
    first = vectors[0]
    return [float(v.sum()) for v in vectors] if isinstance(first, np.ndarray) else first._total(_sums, vectors)


def _sums(*parts: Array) -> list[float]:
    return [float(part.sum()) for part in parts]


def _term(value: object) -> Any:
    """Return the present term of a vector, which may change later."""
    return value.term if isinstance(value, RowVector) else value


def _itself(_: object, part: object) -> Any:
    return part


def _call_without_data(function: Callable[..., Any], _: object, *parts: object) -> Any:
    return function(*parts)


def map_rows(function: Callable[..., Any], *arguments: object) -> Any:
    """Return ``function(*arguments)``, entry by entry where the vectors are."""
    for argument in arguments:
        if isinstance(argument, RowVector):
            return argument._derive(function, arguments, {})
    return function(*arguments)


def compute_vector(vector: object) -> Any:
    """Return a vector with a computed value; an array is one already."""
    return vector.compute() if isinstance(vector, RowVector) else vector


def here(vector: object) -> Any:
    """Return a vector as an array in the process."""
    return vector.here() if isinstance(vector, RowVector) else vector
