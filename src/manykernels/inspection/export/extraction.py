r"""From a fitted model to a program of few operations.

The functions of kernels that act on the same columns are summed. Of one or two columns the sum is interpolated: along a
column of numbers by cubic polynomials on pieces of equal length, exact at the thirds of every piece, so that a function
with four derivatives is missed by :math:`O(h^4)`; along bins and categories exactly. Kernels of more columns keep their
points.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, is_classifier, is_regressor

from manykernels.exceptions import IncompatibleError
from manykernels.grams.factored.cells import grid_parts
from manykernels.grams.factored.prediction import CellFunction, FourierSeries, LandmarkFunction
from manykernels.inspection.displays.kernel_table import known_features
from manykernels.inspection.export.evaluate import SMOOTH, kernel_values, term_values
from manykernels.inspection.export.program import Axis, KernelTerm, Program, Term, nodes_of
from manykernels.inspection.functions.shape import rows_of
from manykernels.kernels import FittedBank
from manykernels.kernels.bank.columns import NUMBERS
from manykernels.validation.arrays import Array, TableLike

MOST_PIECES = {1: 2**15, 2: 2**6}  # along an axis of a term of so many axes
FEWEST_PIECES = 8
SETTLED = 2**10  # pieces from which on errors fall as they will go on to
MOST_CELLS = 2**18  # of one term
FEW_POINTS = 1000  # so many points of a pair of columns are cheaper than a grid
CHECKED = (1 / 12, 1 / 8, 1 / 6, 0.5, 5 / 6, 7 / 8, 11 / 12)  # of a piece: where it is compared with its function
SAFETY = 1.1  # by which the largest difference found is multiplied
EXACT = 1e-9  # of the values of a kernel: what its points may be wrong by
ADDITIVE = ("linear", "overlap")  # kernels of several columns that are sums over columns
AT_ONCE = 2**22  # entries of a table that is asked for values
SHAPES = {  # kernels of several columns that exported programs know: what they call them, and their parameters
    "gaussian": ("gaussian", ("width",)),
    "ard_gaussian": ("gaussian", ()),
    "matern": ("matern", ("width", "nu")),
    "linear": ("linear", ()),
    "polynomial": ("polynomial", ("scale", "offset", "degree")),
}
UNITS = {"date": "days since 1970-01-01", "instant": "days since 1970-01-01", "duration": "days"}
# Cubic polynomials from values at 0, 1/3, 2/3 and 1.
THIRDS = np.linalg.inv(np.vander(np.arange(SMOOTH) / (SMOOTH - 1), increasing=True))


class Extraction:
    """The functions of an expansion by the columns that they read, of these ``names``.

    The model was fitted on a table with names if it is ``named``; ``rows`` say which numbers occur.
    """

    def __init__(self, expansion: Any, names: list[str], *, named: bool, rows: pd.DataFrame | None) -> None:
        self.expansion, self.names, self.named, self.rows = expansion, names, named, rows
        self.bank: FittedBank = expansion.bank
        self.table = self.bank.table
        used = self.table.used.tolist()
        encodings = self.table.encodings or (NUMBERS,) * len(used)
        self.encodings = dict(zip(used, encodings, strict=True))
        self.masks = self.table.missing != "error"

    def terms(self, tol: float, *, with_points: bool) -> tuple[tuple[Term, ...], tuple[KernelTerm, ...]]:
        """Return the model as terms that are wrong by no more than ``tol`` of what scores vary by."""
        if not self.expansion.active.size:
            return (), ()
        groups: dict[Any, list[int]] = {}
        terms: list[Term] = []
        for m, (spec, positions) in enumerate(zip(self.table.specs, self.table.positions, strict=True)):
            # A gap in one column takes the parts of all columns away: then they are no sum of functions of one.
            if spec.kind in ADDITIVE and len(positions) > 1 and not self.masks:
                terms += self._by_column(m)
            else:
                groups.setdefault(self._key(m), []).append(m)
        kernels: list[KernelTerm] = []
        axes_of = {
            key: [self._axis(members, place, *each) for place, each in enumerate(zip(*key, strict=True))]
            for key, members in groups.items()
        }
        spread = sum(self._spread(members, axes_of[key]) for key, members in groups.items())
        for key, members in groups.items():
            axes = axes_of[key]
            smooth = sum(axis.kind == "pieces" for axis in axes)
            n_points = sum(len(self._points(m)[0]) for m in members) if smooth else 0
            if smooth > 2 or (smooth and len(axes) > 2) or (with_points and smooth == 2 and n_points <= FEW_POINTS):
                if not with_points:
                    raise IncompatibleError(
                        f"Kernel {self.bank.names[members[0]]!r} reads {len(axes)} columns: its function is no table "
                        "of numbers. Export to .onnx or .py, which keep its points, or fit kernels of one or two "
                        "columns, such as KernelBank.per_feature(widths=['median']) or KernelBank.interactions()."
                    )
                kernels += [self._kernel(m) for m in members]
            else:
                terms.append(self._term(axes, members, tol * spread / len(groups)))
        return tuple(terms), tuple(kernels)

    # --- what kernels read ------------------------------------------------------------------------------------------

    def _key(self, m: int) -> tuple[tuple[int, ...], tuple[Any, ...]]:
        """Return the columns of a kernel, and how it reads each: as pieces, as levels, or as steps with these edges."""
        positions, spec = self.table.positions[m], self.table.specs[m]
        parts = {place: part for part, place in grid_parts(spec) or [] if hasattr(part, "edges")}
        kinds: list[Any] = []
        for place, column in enumerate(positions):
            encoding = self.encodings[column]
            if place in parts and encoding.read_as == "number":
                kinds.append(self._raw(column, np.asarray(parts[place].edges)).tolist())
            elif encoding.read_as != "number" or spec.kind in ("overlap", "ordinal", "missing"):
                kinds.append("missing" if spec.family == "missing" else "levels")
            elif grid_parts(spec) is not None:
                kinds.append("levels")
            else:
                kinds.append("steps" if encoding.kind == "boolean" else "pieces")
        return positions, tuple(tuple(kind) if isinstance(kind, list) else kind for kind in kinds)

    def _raw(self, column: int, values: Array) -> Array:
        """Return standardized values of a column as they were given."""
        at = int(np.searchsorted(self.table.used, column))
        return values * self.table.column_scales[at] + self.table.column_means[at]

    def _axis(self, members: list[int], place: int, column: int, kind: Any) -> Axis:
        """Return how kernels read one of their columns."""
        encoding, name = self.encodings[column], self.names[column]
        unit, text = UNITS.get(encoding.kind, ""), any(isinstance(level, str) for level in encoding.levels)
        if kind == "missing":
            return Axis(name, column, "levels", text=text)
        if kind == "levels":
            if encoding.read_as != "number":
                return Axis(name, column, "levels", levels=encoding.levels, text=text)
            return Axis(name, column, "levels", levels=self._levels(members, place, column), unit=unit)
        if kind == "steps":  # false and true
            return Axis(name, column, "steps", edges=(0.5,))
        if kind != "pieces":
            return Axis(name, column, "steps", edges=kind, unit=unit)
        values = [self._known(m, place) for m in members]
        if self.rows is not None:
            values.append(self._numbers(column))
        numbers = np.concatenate(values)
        low, high = (float(numbers.min()), float(numbers.max())) if len(numbers) else (0.0, 1.0)
        reach = high - low or 1.0
        return Axis(name, column, "pieces", low=low - reach, high=high + reach, n_pieces=FEWEST_PIECES, unit=unit)

    def _levels(self, members: list[int], place: int, column: int) -> tuple[float, ...]:
        """Return the numbers that kernels on equal values know of a column, as they were given.

        Standardizing them loses the last bit; of the decimals that are standardized to the same the shortest is taken.
        """
        known = [self._points(m)[0][:, place] for m in members]
        for part in self.expansion.parts:
            if part.kernel in members and isinstance(part.function, CellFunction):
                known.append(part.function.levels[place])
        at = int(np.searchsorted(self.table.used, column))
        mean, scale = float(self.table.column_means[at]), float(self.table.column_scales[at])
        levels = []
        for value in np.unique(np.concatenate(known)).tolist():
            decimals = [float(f"{value * scale + mean:.{digits}g}") for digits in range(1, 18)]
            levels.append(next((decimal for decimal in decimals if (decimal - mean) / scale == value), decimals[-1]))
        return tuple(levels)

    def _numbers(self, column: int) -> Array:
        """Return the numbers of a column of the given rows."""
        assert self.rows is not None
        values = self.encodings[column].encode(self.rows.iloc[:, column])
        return values[np.isfinite(values)]

    def _known(self, m: int, place: int) -> Array:
        """Return values of one of its columns that a kernel's function is made of, as they were given."""
        column = self.table.positions[m][place]
        points, means, scales = self._points(m)
        return points[:, place] * scales[place] + means[place] if len(points) else self._raw(column, np.zeros(1))

    def _points(self, m: int) -> tuple[Array, Array, Array]:
        """Return the points of a kernel (r, d), and by what means and scales they were made from columns."""
        positions = self.table.positions[m]
        at = np.searchsorted(self.table.used, positions)
        means, scales = self.table.column_means[at], self.table.column_scales[at]
        if self.expansion.support is None:
            ranges = [_range_of(part.function, len(positions)) for part in self.expansion.parts if part.kernel == m]
            return np.vstack([np.zeros((0, len(positions))), *ranges]), means, scales
        (g,) = [g for g, group in enumerate(self.bank.groups) if m in group.kernels]
        group, points = self.bank.groups[g], self.expansion.support.points(g)
        if not isinstance(points, np.ndarray):
            raise IncompatibleError("Models of sparse rows cannot be exported; fit on dense columns.")
        if group.family == "squared_distance":
            if len(positions) > 1:
                means = means + self.table.shifts[at] * scales
            if group.column_widths is not None:
                scales = scales * np.array(group.column_widths)
        return points, means, scales

    # --- functions --------------------------------------------------------------------------------------------------

    def _only(self, members: list[int]) -> Any:
        """Return the expansion of some kernels."""
        bank, weights = self.bank.take(members), self.expansion.weights[:, members]
        kept = {"bank": bank, "active": np.arange(len(members)), "n_kernels": len(members), "weights": weights}
        if self.expansion.support is not None:
            return replace(self.expansion, **kept, support=bank.narrow(self.expansion.support))
        place = {m: slot for slot, m in enumerate(members)}
        parts = [replace(part, kernel=place[part.kernel]) for part in self.expansion.parts if part.kernel in place]
        return replace(self.expansion, **kept, parts=tuple(parts))

    def _function(self, members: list[int], axes: Sequence[Axis]) -> Callable[[Sequence[Any]], Array]:
        """Return the sum of some kernels as a function of the values of their columns, each (n,), to (n, K)."""
        expansion = self._only(members)
        width = self.table.n_features

        def values(columns: Sequence[Any]) -> Array:
            n = len(columns[0])
            if self.named:
                pairs = zip(axes, columns, strict=True)
                table = pd.DataFrame({axis.column: self._column(axis, entries) for axis, entries in pairs})
                return np.asarray(expansion.scores(table))
            out = np.empty((n, self.expansion.n_targets))
            step = max(1, AT_ONCE // width)
            for start in range(0, n, step):
                rows = pd.DataFrame(np.zeros((min(step, n - start), width)))
                for axis, entries in zip(axes, columns, strict=True):
                    rows[axis.position] = self._column(axis, entries[start : start + step])
                out[start : start + step] = expansion.scores(rows)
            return out

        return values

    def _column(self, axis: Axis, values: Array | Sequence[Any]) -> Any:
        """Return values of an axis as a column of a table like that of fit."""
        encoding = self.encodings[axis.position]
        return encoding.decode(values) if encoding.read_as == "number" else pd.Series(list(values), dtype=object)

    def _spread(self, members: list[int], axes: Sequence[Axis]) -> float:
        """Return by how much the sum of some kernels varies over their points."""
        nodes = [_flat(nodes_of(replace(axis, n_pieces=32), np.array([0.0, 0.5]))) for axis in axes]
        n, rng = max(map(len, nodes)), np.random.default_rng(0)
        order = [np.arange(n) % len(own_nodes) for own_nodes in nodes]
        for places in order[1:]:
            rng.shuffle(places)
        columns = [[entries[i] for i in places] for entries, places in zip(nodes, order, strict=True)]
        values = self._on_known(columns, self._function(members, axes))
        return float(np.nanmax(values, initial=0.0) - np.nanmin(values, initial=0.0))

    def _term(self, axes: list[Axis], members: list[int], tol: float) -> Term:
        """Return the sum of some kernels as polynomials on cells, on as many pieces as the tolerance takes."""
        function, smooth = self._function(members, axes), [a for a, axis in enumerate(axes) if axis.kind == "pieces"]
        n_pieces, most, before = FEWEST_PIECES, MOST_PIECES.get(max(len(smooth), 1), 0), np.inf
        while True:
            for a in smooth:
                axes[a] = replace(axes[a], n_pieces=n_pieces)
            n_cells = int(np.prod([axis.n_cells for axis in axes]))
            if n_cells > MOST_CELLS:
                raise IncompatibleError(
                    f"A table of {n_cells} cells of {' and '.join(axis.column for axis in axes)} is too large to "
                    "export; merge rare categories, or take fewer bins."
                )
            slopes = self._slopes(axes, members)
            term = self._interpolated(axes, function, slopes)
            if term.error <= tol or not smooth:
                return term
            # Four derivatives make it 16 times smaller at half the length; kinks twice, and then no length is enough.
            gain, doublings = max(before / term.error, 1.0), np.log2(most / n_pieces)
            if doublings < 1 or (n_pieces >= SETTLED and term.error > tol * gain**doublings):
                raise IncompatibleError(
                    f"The function of {' and '.join(axis.column for axis in axes)} is missed by {term.error:.2g} with "
                    f"{n_pieces} pieces along each column, more than tol allows ({tol:.2g}): its kernels have kinks or "
                    "are narrow beside the range of the column. Take a larger tol"
                    + (", or export to .onnx or .py." if len(smooth) > 1 else ".")
                )
            n_pieces, before = 2 * n_pieces, term.error

    def _by_column(self, m: int) -> list[Term]:
        """Return a kernel that is a sum over its columns as one term a column; the first has the constant."""
        axes = [self._axis([m], place, *each) for place, each in enumerate(zip(*self._key(m), strict=True))]
        function = self._function([m], axes)
        base = [axis.low if axis.kind == "pieces" else _flat(nodes_of(axis, np.zeros(1)))[-2] for axis in axes]
        constant = function([[value] for value in base])[0]
        terms = []
        for place, axis in enumerate(axes):

            def alone(columns: Sequence[Any], place: int = place) -> Array:
                entries = [columns[0] if at == place else [value] * len(columns[0]) for at, value in enumerate(base)]
                return function(entries) - constant * (place > 0)

            ends = alone([[axis.low, axis.high]]) if axis.kind == "pieces" else np.zeros((2, len(constant)))
            slopes = (ends[1] - ends[0]) / (axis.high - axis.low or 1.0)
            terms.append(self._interpolated([axis], alone, slopes))
        return terms

    def _slopes(self, axes: list[Axis], members: list[int]) -> Array:
        """Return the slope of the linear kernels of one column, (K,), by which a function goes on beyond its range."""
        linear = [m for m in members if self.table.specs[m].kind == "linear"] if len(axes) == 1 else []
        if not linear or axes[0].kind != "pieces":
            return np.zeros(self.expansion.n_targets)
        ends = self._function(linear, axes)([[axes[0].low, axes[0].high]])
        return (ends[1] - ends[0]) / (axes[0].high - axes[0].low)

    def _interpolated(self, axes: list[Axis], function: Callable[[Sequence[Any]], Array], slopes: Array) -> Term:
        """Return a function as polynomials on cells, with the largest difference at points between."""
        nodes = [nodes_of(axis, np.arange(SMOOTH) / (SMOOTH - 1)) for axis in axes]
        values = self._on(nodes, function)  # (cells_1, q_1, ..., cells_d, q_d, K)
        d = len(axes)
        values = values.transpose([*range(0, 2 * d, 2), *range(1, 2 * d, 2), 2 * d])
        for a, axis in enumerate(axes):
            if axis.kind == "pieces":
                values = np.moveaxis(np.tensordot(THIRDS, values, axes=(1, d + a)), 0, d + a)
        shape = [axis.n_cells for axis in axes]
        coefficients = values.reshape(int(np.prod(shape)), -1, self.expansion.n_targets)
        if d == 1 and axes[0].kind == "pieces":
            step = (axes[0].high - axes[0].low) / axes[0].n_pieces
            coefficients[axes[0].n_pieces : axes[0].n_pieces + 2, 1] = slopes * step
        term = Term(tuple(axes), coefficients, 0.0)
        if not any(axis.kind == "pieces" for axis in axes):
            return term
        inside = [
            nodes_of(axis, np.array(CHECKED))[: axis.n_pieces if axis.kind == "pieces" else None] for axis in axes
        ]
        wanted = self._on(inside, function).reshape(-1, self.expansion.n_targets)
        columns = _crossed([_flat(each) for each in inside])
        rows = {axis.column: computed for axis, computed in zip(axes, columns, strict=True)}
        computed = term_values(term.plain(), rows).reshape(wanted.shape)
        differences = np.abs(computed - wanted)
        return replace(term, error=SAFETY * float(differences[np.isfinite(differences)].max(initial=0.0)))

    def _on(self, nodes: list[Any], function: Callable[[Sequence[Any]], Array]) -> Array:
        """Return a function on the product of the nodes of its axes, (cells_1, q_1, ..., cells_d, q_d, K)."""
        columns = _crossed([_flat(each) for each in nodes])
        shape = [size for each in nodes for size in (len(each), len(each[0]))]
        return self._on_known(columns, function).reshape(*shape, self.expansion.n_targets)

    def _on_known(self, columns: Sequence[Sequence[Any]], function: Callable[[Sequence[Any]], Array]) -> Array:
        """Return a function at points, (n, K): NaN at those with a gap, if the model takes none."""
        out = np.full((len(columns[0]), self.expansion.n_targets), np.nan)
        points = zip(*columns, strict=True)
        gaps = np.array([any(value is None or value != value for value in point) for point in points], dtype=bool)
        known = list(range(len(gaps))) if self.masks else np.flatnonzero(~gaps).tolist()
        if known:
            out[known] = function([[entries[i] for i in known] for entries in columns])
        return out

    def _kernel(self, m: int) -> KernelTerm:
        """Return a kernel of many columns with its points, which are compared with what the model computes."""
        spec, name, positions = self.table.specs[m], self.bank.names[m], self.table.positions[m]
        if any(self.encodings[column].read_as != "number" for column in positions):
            raise IncompatibleError(f"Kernel {name!r} reads several columns with categories among them: no export.")
        if spec.kind not in SHAPES:
            raise IncompatibleError(
                f"Kernel {name!r} of several columns cannot be exported: of those, Gaussian, Matern, linear and "
                "polynomial kernels can."
            )
        shape, parameters = SHAPES[spec.kind]
        kernel = {"kernel": shape, **{parameter: getattr(spec, parameter) for parameter in parameters}}
        points, means, scales = self._points(m)
        if "width" in kernel:
            scales, points = scales * kernel["width"], points / kernel.pop("width")
        columns = tuple(self.names[column] for column in positions)
        axes = [Axis(columns[place], column, "pieces") for place, column in enumerate(positions)]
        raw = points * scales + means
        rng = np.random.default_rng(0)
        probes = raw[rng.integers(len(raw), size=64)] + 0.3 * scales * rng.normal(size=(64, raw.shape[1]))
        wanted = self._function([m], axes)(list(probes.T))
        weights = self._weights(m, len(points))
        part = KernelTerm(columns, means, scales, points, weights, np.zeros(weights.shape[1]), kernel, self.masks)
        rows = dict(zip(columns, probes.T, strict=True))
        offsets = np.mean(wanted - kernel_values(part.plain(), rows), axis=0)  # of a centered kernel
        part = replace(part, offsets=offsets)
        missed = np.abs(kernel_values(part.plain(), rows) - wanted).max()
        if missed > EXACT * max(1.0, float(np.abs(wanted).max())):
            raise IncompatibleError(
                f"Kernel {name!r} is normalized row by row, which an exported kernel is not; take "
                "normalize='mean_diagonal'."
            )
        return part

    def _weights(self, m: int, n_points: int) -> Array:
        """Return the coefficients of the points of a kernel, (r, K)."""
        expansion = self.expansion
        if expansion.support is not None:
            weights = expansion.coefficients.T * expansion.weights[:, m] * self.bank.scales[m]
            factors = expansion.support.factors
            return weights if factors is None else weights * factors[m][:, None]
        out, start = np.zeros((n_points, expansion.n_targets)), 0
        for part in expansion.parts:
            if part.kernel == m:
                if not isinstance(part.function, LandmarkFunction):
                    raise IncompatibleError(f"Kernel {self.bank.names[m]!r} has no points to export.")
                stop = start + len(part.function.landmarks)
                out[start:stop, part.target] = part.function.coefficients
                start = stop
        return out


def program_of(model: BaseEstimator, *, rows: TableLike | None = None, tol: float = 1e-6, with_points: bool) -> Program:
    """Return a fitted model, whose kernels act on columns, as a program.

    ``rows`` say which numbers occur; None takes the points that the model keeps. ``tol`` is by how much of what its
    scores vary terms may be missed together, and kernels of several columns may keep their points ``with_points``.
    """
    expansion = getattr(model, "_expansion", None)
    bank = getattr(expansion, "bank", None)
    if not isinstance(bank, FittedBank) or not bank.on_columns:
        raise IncompatibleError(
            f"{type(model).__name__} cannot be exported: models of columns can, fitted by an estimator of this library "
            "and not on precomputed kernels or pairs. Of a pipeline export the last step, and apply the steps before "
            "it to the rows."
        )
    if bank.table.sparse:
        raise IncompatibleError("Models of sparse rows cannot be exported; fit on dense columns.")
    if bank.table.object_columns:
        raise IncompatibleError("Kernels of sequences and of other objects cannot be exported; save_model keeps them.")
    names = known_features(model)
    named = hasattr(model, "feature_names_in_")
    extraction = Extraction(expansion, names, named=named, rows=None if rows is None else rows_of(model, rows))
    terms, kernels = extraction.terms(tol, with_points=with_points)
    read = {axis.column for term in terms for axis in term.axes} | {name for part in kernels for name in part.columns}
    positions = tuple(j for j, name in enumerate(names) if name in read)
    classes = tuple(np.asarray(model.classes_).tolist()) if is_classifier(model) else None
    loss, single = model._loss, np.ndim(model.intercept_) == 0
    sigmoids = "sigmoid" if single else "softmax" if getattr(model, "_shares_weights", False) else "shares"
    several = getattr(model, "_levels", None) is not None
    encodings = {names[column]: encoding for column, encoding in extraction.encodings.items()}
    return Program(
        columns=tuple(names[j] for j in positions),
        n_features=len(names),
        named=named,
        positions=positions,
        units={name: UNITS[encodings[name].kind] for name in read if encodings[name].kind in UNITS},
        terms=terms,
        kernels=kernels,
        intercept=np.atleast_1d(np.asarray(model.intercept_, dtype=np.float64)),
        labels=() if single else tuple(np.asarray(model._target_labels()).tolist()),
        classes=classes,
        probabilities=sigmoids if hasattr(model, "predict_proba") else "",
        link="sort" if several else "exp" if is_regressor(model) and loss.support != "real" else "identity",
        single=single,
    )


def _range_of(function: object, n_columns: int) -> Array:
    """Return points of a function of a factored model, (r, d): of a series, a third of its reach to each side."""
    if isinstance(function, LandmarkFunction):
        return function.landmarks
    if isinstance(function, FourierSeries):
        return function.middle + function.reach / 3 * np.array([[-1.0], [1.0]])
    return np.zeros((0, n_columns))


def _flat(nodes: list[list[Any]]) -> list[Any]:
    """Return the nodes of an axis one behind the other."""
    return [value for cell in nodes for value in cell]


def _crossed(values: list[list[Any]]) -> list[list[Any]]:
    """Return the columns of all combinations of values, the last varying fastest."""
    if len(values) == 1:
        return values
    return [list(column) for column in zip(*product(*values), strict=True)]
