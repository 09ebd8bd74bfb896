r"""Functions of one or two columns as polynomials on cells.

Along a column of numbers functions are interpolated by cubic polynomials on pieces of equal length, exact at the thirds
of every piece, with an error for four derivatives of :math:`O(h^4)`; along bins and categories exactly. For kinks and
narrow kernels, pieces with large errors are divided, at points of kernels first. Beyond the pieces a function is a
polynomial of the degree of the tails of the kernels, zero for vanishing or constant kernels: coefficients of higher
order are exactly zero, so sentinel values like 1e12 multiply no rounding errors.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from manykernels.exceptions import IncompatibleError
from manykernels.inspection.export.columns import FEWEST_PIECES, MOST_DAYS, Columns, widened
from manykernels.inspection.export.evaluate import SMOOTH, term_values
from manykernels.inspection.export.program import Axis, Term, nodes_of
from manykernels.kernels.specs.base import KernelSpec
from manykernels.kernels.tables.tails import END_OF_TAILS
from manykernels.validation.arrays import Array

MOST_PIECES = {1: 2**15, 2: 2**6}  # along an axis of a term of so many axes
SETTLED = 2**10  # pieces from which on errors fall as they will go on to, and from which on others may be fewer
FIRST_EDGES = 33  # quantiles of the points of kernels with which unequal pieces begin
NARROWEST = 1e-14  # length of a piece relative to its place
MOST_CELLS = 2**18  # of one term
CHECKED = (1 / 12, 1 / 8, 1 / 6, 0.5, 5 / 6, 7 / 8, 11 / 12)  # of a piece: where it is compared with its function
MOST_KINKS = 500  # points of kernels where a curve is compared too
SAFETY = 1.1  # by which the largest difference found is multiplied
FAR = (1e-3, 0.03, 0.3, 1.0, 10.0, 1e3, 1e6, 1e9, 1e12)  # times the range beyond its ends
SENTINELS = (-999.0, 999.0, 9999.0, *(side * 10.0**power for side in (-1, 1) for power in (4, 5, 6, 8, 10, 12)))
ROUNDING = 1e-9  # of a large score
# Cubic polynomials from values at 0, 1/3, 2/3 and 1.
THIRDS = np.linalg.inv(np.vander(np.arange(SMOOTH) / (SMOOTH - 1), increasing=True))

Function = Callable[[Sequence[Any]], Array]


@dataclass(frozen=True)
class Tail:
    """A part of a function that is polynomial beyond the pieces."""

    degree: int
    function: Function
    everywhere: bool  # whether it is that polynomial on the pieces too


def spread(columns: Columns, members: list[int], axes: Sequence[Axis]) -> float:
    """Return by how much the sum of some kernels varies over their points."""
    nodes = [flat(nodes_of(replace(axis, n_pieces=32), np.array([0.0, 0.5]))) for axis in axes]
    n, rng = max(map(len, nodes)), np.random.default_rng(0)
    order = [np.arange(n) % len(own_nodes) for own_nodes in nodes]
    for places in order[1:]:
        rng.shuffle(places)
    function = columns.function(members, [axis.position for axis in axes])
    values = function([[entries[i] for i in places] for entries, places in zip(nodes, order, strict=True)])
    return float(np.nanmax(values, initial=0.0) - np.nanmin(values, initial=0.0))


def as_term(columns: Columns, axes: list[Axis], members: list[int], tol: float) -> Term:
    """Return the sum of some kernels as polynomials on cells, on as many pieces as the tolerance takes."""
    function = columns.function(members, [axis.position for axis in axes])
    smooth = [a for a, axis in enumerate(axes) if axis.kind == "pieces"]
    tails = _tails(columns, axes, members, smooth)
    axes, before = _fit_tails(axes, function, tails, tol), np.inf
    kinks = _kinks(columns, axes, members) if len(smooth) == 1 else None
    n_pieces, most = FEWEST_PIECES, MOST_PIECES.get(max(len(smooth), 1), 0)
    while True:
        for a in smooth:
            axes[a] = replace(axes[a], n_pieces=n_pieces)
        _check_cells(axes)
        term = interpolated(axes, function, tails, kinks)
        if term.error <= tol or not smooth:
            return term
        # Four derivatives make it 16 times smaller at half the length; kinks twice, and then no length is enough.
        gain, doublings = max(before / term.error, 1.0), np.log2(most / n_pieces)
        if n_pieces == SETTLED and len(smooth) == 1 and not axes[smooth[0]].period:
            points = flat(_kinks(columns, axes, members, most=None)[smooth[0]] if kinks else [])
            unequal = _refine_pieces(axes, smooth[0], function, tails, kinks, points, tol)
            if unequal is not None:
                return unequal
        if doublings < 1 or (n_pieces >= SETTLED and term.error > tol * gain**doublings):
            raise IncompatibleError(
                f"The function of {_named(axes)} is missed by {term.error:.2g} with {n_pieces} pieces along each "
                f"column, more than tol allows ({tol:.2g}): its kernels have kinks or are narrow beside the range of "
                "the column. Take a larger tol" + (", or export to .onnx or .py." if len(smooth) > 1 else ".")
            )
        n_pieces, before = 2 * n_pieces, term.error


def _check_cells(axes: Sequence[Axis]) -> None:
    """Raise ``IncompatibleError`` for axes with too many cells."""
    n_cells = int(np.prod([axis.n_cells for axis in axes]))
    if n_cells > MOST_CELLS:
        raise IncompatibleError(
            f"A table of {n_cells} cells of {_named(axes)} is too large to export; merge rare categories, or take "
            "fewer bins."
        )


def _refine_pieces(
    axes: list[Axis],
    a: int,
    function: Function,
    tails: Sequence[Tail],
    kinks: list[Any] | None,
    known: list[float],
    tol: float,
) -> Term | None:
    """Return a term with short pieces at bends of the function, or None beyond the limit."""
    axis, others = axes[a], int(np.prod([axis.n_cells for place, axis in enumerate(axes) if place != a]))
    points = np.unique(np.array(known, dtype=np.float64))
    points = points[(points > axis.low) & (points < axis.high)]
    most = min(MOST_PIECES[1], MOST_CELLS // others)
    stricter = (0.5, 0.1, 0.02)  # shares of the tolerance to which unequal pieces are divided, one after the other
    for share in stricter:
        edges = _divided(axes, a, function, points, share * tol, most)
        if edges is None:
            return None
        own = replace(axis, edges=tuple(edges.tolist()), n_pieces=len(edges) - 1)
        term = interpolated([*axes[:a], own, *axes[a + 1 :]], function, tails, kinks)
        if term.error <= tol:
            return term
    return None


def _divide_pieces(starts: Array, ends: Array, points: Array) -> Array:
    """Return the middle point inside every piece, the center without points."""
    low, high = np.searchsorted(points, starts, side="right"), np.searchsorted(points, ends, side="left")
    middle = 0.5 * (starts + ends)
    middle[high > low] = points[((low + high) // 2)[high > low]]
    return np.asarray(middle)


def _divided(axes: list[Axis], a: int, function: Function, points: Array, tol: float, most: int) -> Array | None:
    """Return edges of pieces for cubic polynomials with an error of at most ``tol``, None beyond ``most`` pieces.

    A piece is divided at the middle point inside, or at the center.
    """

    def values_at(nodes: Array) -> Array:
        """Return the function at nodes (m, q) of the axis and in all cells of the rest, (m, q, values)."""
        inside = [nodes.tolist() if at == a else nodes_of(axis, np.zeros(1)) for at, axis in enumerate(axes)]
        return np.moveaxis(_tabulate(inside, function), (2 * a, 2 * a + 1), (0, 1)).reshape(*nodes.shape, -1)

    places, known = np.concatenate([np.arange(SMOOTH) / (SMOOTH - 1), CHECKED]), values_at(points[:, None])[:, 0]
    fit = np.vander(np.array(CHECKED), SMOOTH, increasing=True)
    shares = np.linspace(0, 1, FIRST_EDGES)
    first = np.quantile(points, shares, method="closest_observation") if len(points) else points
    edges = np.unique([axes[a].low, *first, axes[a].high])
    starts, ends = edges[:-1], edges[1:]
    while len(starts):
        if len(edges) > most or (ends - starts <= NARROWEST * np.maximum(np.abs(starts), np.abs(ends))).any():
            return None
        values = values_at(starts[:, None] + (ends - starts)[:, None] * places)
        coefficients = THIRDS @ values[:, :SMOOTH]
        missed = _largest(fit @ coefficients - values[:, SMOOTH:], (1, 2))
        piece = np.searchsorted(starts, points, side="right") - 1
        inside = np.flatnonzero((piece >= 0) & (points < ends[piece]))
        piece = piece[inside]
        powers = np.vander((points[inside] - starts[piece]) / (ends - starts)[piece], SMOOTH, increasing=True)
        at_points = (powers[:, None] @ coefficients[piece])[:, 0]
        np.maximum.at(missed, piece, _largest(at_points - known[inside], 1))
        starts, ends = (each[missed > tol / SAFETY] for each in (starts, ends))
        middle = _divide_pieces(starts, ends, points)
        edges = np.union1d(edges, middle)
        starts, ends = np.concatenate([starts, middle]), np.concatenate([middle, ends])
        starts, ends = np.sort(starts), np.sort(ends)  # of pieces that do not overlap
    return edges


def _largest(differences: Array, axis: int | tuple[int, ...]) -> Array:
    """Return the largest differences along axes, ignoring NaN."""
    return np.asarray(np.abs(np.nan_to_num(differences)).max(axis=axis, initial=0.0))


def split_by_column(columns: Columns, m: int) -> list[Term]:
    """Return a sum over the columns as a term per column; the first term has the constant."""
    key = columns.key(m)
    axes = [columns.axis([m], place, *each) for place, each in enumerate(zip(*key, strict=True))]
    function = columns.function([m], key[0])
    base = [axis.low if axis.kind == "pieces" else flat(nodes_of(axis, np.zeros(1)))[-2] for axis in axes]
    constant = function([[value] for value in base])[0]
    terms = []
    for place, axis in enumerate(axes):

        def alone(values: Sequence[Any], place: int = place) -> Array:
            entries = [values[0] if at == place else [value] * len(values[0]) for at, value in enumerate(base)]
            return np.asarray(function(entries) - constant * (place > 0))

        tails = [Tail(1, alone, everywhere=True)] if axis.kind == "pieces" else []
        terms.append(interpolated([axis], alone, tails))
    return terms


def interpolated(
    axes: Sequence[Axis], function: Function, tails: Sequence[Tail], kinks: list[Any] | None = None
) -> Term:
    """Return a function as polynomials on cells, with the largest differences between nodes and far from them.

    ``kinks`` are further nodes of the axes, at possible kinks.
    """
    nodes = [nodes_of(axis, np.arange(SMOOTH) / (SMOOTH - 1)) for axis in axes]
    values = _tabulate(nodes, function)  # (cells_1, q_1, ..., cells_d, q_d, K)
    d, n_targets = len(axes), values.shape[-1]
    values = values.transpose([*range(0, 2 * d, 2), *range(1, 2 * d, 2), 2 * d])
    smooth = [a for a, axis in enumerate(axes) if axis.kind == "pieces"]
    for a in smooth:
        values = np.moveaxis(np.tensordot(THIRDS, values, axes=(1, d + a)), 0, d + a)
        outer = np.moveaxis(values, (a, d + a), (0, 1))
        outer[axes[a].n_pieces :, 1:] = 0.0
        for tail in tails:
            for side in (0, 1):
                outer[axes[a].n_pieces + side, 1 : tail.degree + 1] += _polynomial(axes, a, tail, side)
    shape = [axis.n_cells for axis in axes]
    coefficients = np.ascontiguousarray(values).reshape(int(np.prod(shape)), -1, n_targets)
    term = Term(tuple(axes), coefficients)
    if not smooth:
        return term
    inside = [nodes_of(axis, np.array(CHECKED))[: axis.n_pieces if axis.kind == "pieces" else None] for axis in axes]
    largest = [_compared(term, nodes, function)[0].max(initial=0.0) for nodes in (inside, kinks) if nodes]
    term = replace(term, error=SAFETY * float(max(largest)))
    outside = [[far_from(axis)] if axis.kind == "pieces" else nodes_of(axis, np.zeros(1)) for axis in axes]
    if not all(map(flat, outside)):
        return term
    differences, wanted = _compared(term, outside, function)
    return replace(term, beyond=float((differences - ROUNDING * np.abs(wanted)).max(initial=0.0)))


def _kinks(columns: Columns, axes: Sequence[Axis], members: list[int], most: int | None = MOST_KINKS) -> list[Any]:
    """Return nodes of axes at the points of kernels, some of many."""
    found: list[Any] = []
    for place, axis in enumerate(axes):
        if axis.kind != "pieces":
            found.append(nodes_of(axis, np.zeros(1)))
            continue
        known = np.unique(np.concatenate([columns.original_values(m, place) for m in members]))
        known = known[(known >= axis.low) & (known <= axis.high)] if not axis.period else known
        found.append([np.random.default_rng(0).permutation(known)[:most].tolist()])
    return found if all(map(flat, found)) else []


def far_from(axis: Axis) -> list[float]:
    """Return values beyond the pieces of an axis, for example missing-value codes, or none for a periodic axis."""
    if axis.period:
        return []
    reach = axis.high - axis.low
    values = [*(axis.low - share * reach for share in FAR), *(axis.high + share * reach for share in FAR), *SENTINELS]
    most = MOST_DAYS if axis.unit else END_OF_TAILS if axis.tails else np.inf
    return [value for value in values if not axis.low <= value <= axis.high and abs(value) <= most]


def _named(axes: Sequence[Axis]) -> str:
    return " and ".join(repr(axis.column) for axis in axes)


# --- beyond the pieces ------------------------------------------------------------------------------------------------


def _fit_tails(axes: list[Axis], function: Function, tails: Sequence[Tail], tol: float) -> list[Axis]:
    """Return the axes with pieces to where a function of one column of numbers is known to go on as its tails do."""
    smooth = [a for a, axis in enumerate(axes) if axis.kind == "pieces" and not axis.period]
    if len(smooth) != 1:
        return list(axes)
    (a,), wider = smooth, list(axes)
    most_wider = 4  # times that the range of a curve is doubled until the curve has settled
    for turn in range(most_wider + 1):
        if interpolated(wider, function, tails).beyond <= tol:
            return wider
        if turn < most_wider:
            wider[a] = widened(wider[a], wider[a].high - wider[a].low)
    return list(axes)


def _tails(columns: Columns, axes: Sequence[Axis], members: list[int], smooth: list[int]) -> list[Tail]:
    """Return the polynomial tails of a function of a single numeric column, by degree."""
    if len(smooth) != 1 or axes[smooth[0]].period:
        return []
    groups: dict[tuple[int, bool], list[int]] = {}
    for m in members:
        spec = columns.table.specs[m]
        degree = degree_beyond(spec, smooth[0])
        if 0 < degree < SMOOTH:
            groups.setdefault((degree, spec.kind != "shaped"), []).append(m)
    positions = [axis.position for axis in axes]
    return [Tail(degree, columns.function(own, positions), whole) for (degree, whole), own in groups.items()]


def degree_beyond(spec: Any, place: int) -> int:
    """Return the degree of the polynomial tails of a kernel along a column; 0 for other kernels."""
    degree = _degree(spec, place)
    return 0 if degree is None else degree


def _degree(spec: Any, place: int) -> int | None:
    """Return the degree, None for a non-polynomial kernel."""
    match spec.kind:
        case "linear":
            return 1
        case "polynomial" | "weighted_polynomial" | "column_power":
            return int(spec.degree)
        case "scaled" | "landmarks":
            return _degree(spec.base, place)
        case "shaped":
            return int("conv" in spec.shape or "conc" in spec.shape)
        case "sum" | "product":
            degrees = [_degree(part, place) for part in spec.parts]
            known = [degree for degree in degrees if degree is not None]
            return None if len(known) < len(degrees) else max(known) if spec.kind == "sum" else sum(known)
        case "interaction":
            return _degree_of_parts(spec.parts, place)
    return None


def _degree_of_parts(parts: Sequence[tuple[KernelSpec, tuple[int, ...]]], place: int) -> int | None:
    degrees = [_degree(part, at.index(place)) for part, at in parts if place in at]
    known = [degree for degree in degrees if degree is not None]
    return None if len(known) < len(degrees) else sum(known)


def _polynomial(axes: Sequence[Axis], a: int, tail: Tail, side: int) -> Array:
    """Return the coefficients of a tail but the constant, in pieces from an end: (degree, other cells, 1, ..., K)."""
    axis, steps = axes[a], np.arange(tail.degree + 1) / tail.degree
    reach, end = axis.high - axis.low, axis.high if side else axis.low
    inward = (-1.0 if side else 1.0) * (1.0 if tail.everywhere else -1.0)
    if axis.unit and not tail.everywhere:
        reach = min(reach, max(MOST_DAYS - abs(end), 1.0))
    points = (end + inward * reach * steps).tolist()
    nodes = [[points] if at == a else nodes_of(other, np.zeros(1)) for at, other in enumerate(axes)]
    values = _tabulate(nodes, tail.function)  # (cells_1, 1, ..., 1, degree + 1, ..., K)
    others = [len(each) for at, each in enumerate(nodes) if at != a]
    values = np.moveaxis(values, 2 * a + 1, 0).reshape(len(points), *others, *[1] * len(others), values.shape[-1])
    inverse = np.linalg.inv(np.vander(inward * steps, increasing=True))
    coefficients = np.tensordot(inverse, np.where(np.isfinite(values), values, 0.0), axes=(1, 0))[1:]
    share = (axis.high - axis.low) / reach / axis.n_pieces
    powers = share ** np.arange(1, tail.degree + 1)
    return np.asarray(coefficients * powers.reshape(-1, *[1] * (2 * len(others) + 1)))


# --- values -----------------------------------------------------------------------------------------------------------


def _compared(term: Term, nodes: list[Any], function: Function) -> tuple[Array, Array]:
    """Return the error of a term on the product of nodes, and the function; NaN becomes 0."""
    wanted = _tabulate(nodes, function).reshape(-1, term.coefficients.shape[2])
    columns = crossed([flat(each) for each in nodes])
    rows = {axis.column: values for axis, values in zip(term.axes, columns, strict=True)}
    computed = term_values(term.plain(), rows)
    known = np.isfinite(wanted)
    return np.abs(np.where(known, computed - wanted, 0.0)), np.where(known, wanted, 0.0)


def _tabulate(nodes: list[Any], function: Function) -> Array:
    """Return a function on the product of the nodes of the axes, (cells_1, q_1, ..., cells_d, q_d, K)."""
    values = function(crossed([flat(each) for each in nodes]))
    shape = [size for each in nodes for size in (len(each), len(each[0]))]
    return values.reshape(*shape, values.shape[1])


def flat(nodes: list[list[Any]]) -> list[Any]:
    """Return the nodes of an axis as a flat list."""
    return [value for cell in nodes for value in cell]


def crossed(values: list[list[Any]]) -> list[list[Any]]:
    """Return the columns of all combinations of values, the last varying fastest."""
    if len(values) == 1:
        return values
    return [list(column) for column in zip(*product(*values), strict=True)]
