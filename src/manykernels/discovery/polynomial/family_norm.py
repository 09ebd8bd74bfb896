"""Dual norms over a whole polynomial family: by enumeration, by a matrix identity, or bounded by partial products.

The conjugate of the penalty is ``Omega*(u) = V / (2 lambda)``, ``V = (sum_i v_i^q)^{1/q}`` over the ordered products
with ``v_i = a'K_i a / rho_d^2`` and ``q = p/(p-1)``. Three ways to it, the cheapest exact one first:

- *enumeration*: all distinct products. Names the largest as well.
- *identity*, for p = 2: ``sum_{|i|=d} v_i^2 = vec(aa')' G vec(aa')``, where G is the sum over all ordered products of
  ``d`` kernels of pairs of samples, ``vec K_j vec K_j'``, by the same generating functions: ``O(r N^4)``.
- *bound*: products with a common prefix of k - 1 base kernels with levels and places, and one more, have a sum known by
  generating functions. The terms are nonnegative, so the sum of their q-th powers is at most the q-th power (q >= 1).
  The longest affordable prefix is used; ``k = 0`` gives the 1-norm of the gradient.

Where only so many seconds may be spent, the prefix is lengthened step by step, and what there is by then counts.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from math import comb, factorial, prod

import numpy as np

from manykernels.discovery.polynomial.family import Node, PolynomialFamily, combined, moments, terms_of
from manykernels.discovery.polynomial.product_bases import Index, Parts, ProductBase
from manykernels.solvers.run import OutOfTimeError, check_deadline, deadline
from manykernels.validation.arrays import Array

# The sum over a polynomial family behind its dual norm, the largest summands, and the time that it may take.


class ScoreSum:
    """The sum of q-th powers, kept relative to the largest score, and the largest scores with their kernels.

    Only scores above ``threshold`` can be among the largest.
    """

    def __init__(self, q: float, n_largest: int, n_scores: int) -> None:
        self._q, self._wanted = q, n_largest
        negligible = 1e-17  # of a sum: less than its rounding
        self._least = (negligible / max(n_scores, 1)) ** (1.0 / q)
        self._top, self._sum = 0.0, 0.0
        self._scores = np.zeros(0)
        self._indices: list[Index] = []
        self.threshold = 0.0

    @property
    def norm(self) -> float:
        """``(sum score^q)^{1/q}``."""
        if self._top == 0 or np.isinf(self._q):
            return self._top
        return self._top * float(self._sum) ** (1.0 / self._q)

    @property
    def so_far(self) -> tuple[float, float]:
        """The state before further additions, for ``restore``."""
        return self._top, self._sum

    def restore(self, total: tuple[float, float]) -> None:
        """Undo additions, but keep the largest scores."""
        self._top, self._sum = total

    def add(self, scores: Array) -> float:
        """Add scores of distinct kernels, and return the largest."""
        top = float(scores.max(initial=0.0))
        if top > self._top:
            self._sum *= 0.0 if self._top == 0 or np.isinf(self._q) else (self._top / top) ** self._q
            self._top = top
        if self._top > 0 and not np.isinf(self._q):
            self._sum += self._powers(scores.ravel())
        return top

    def _powers(self, scores: Array) -> float:
        if self._q == 2:
            shares = scores / self._top
            return float(shares @ shares)
        return float(np.sum((scores[scores > self._least * self._top] / self._top) ** self._q))

    def offer(self, scores: Array, indices: Callable[..., list[Index]]) -> None:
        """Keep the largest scores; ``indices(positions)`` has the names."""
        if not self._wanted:
            return
        flat = scores.ravel()
        better = np.flatnonzero(flat > self.threshold)
        if len(better) > self._wanted:
            better = better[np.argpartition(flat[better], -self._wanted)[-self._wanted :]]
        self._scores = np.concatenate([self._scores, flat[better]])
        self._indices.extend(indices(better))
        if len(self._scores) > 4 * self._wanted:
            self._shrink()

    def _shrink(self) -> None:
        kept = np.argsort(-self._scores, kind="stable")[: self._wanted]
        self._scores, self._indices = self._scores[kept], [self._indices[i] for i in kept]
        if 0 < self._wanted == len(kept):
            self.threshold = float(self._scores[-1])

    def largest(self) -> tuple[tuple[Index, ...], Array]:
        """Return the kernels with the largest scores in decreasing order, without rounding noise."""
        self._shrink()
        # of the largest: no kernel of a model has so small a score, and rounding alone decides its value
        least_score = 1e-12
        count = int(np.count_nonzero(self._scores > least_score * self._scores.max(initial=0.0)))
        return tuple(self._indices[:count]), self._scores[:count]


# Numbers that follow from no theorem: they decide the time, not what is certified. Costs are counted in multiplications
# of one core, about `SPEED` a second.
PANEL = 128  # rows of pairs at a time: little is computed twice, little memory is held
BATCH = 2**18  # entries of the states, of the pairs and of the scores of one matrix product: they stay in the cache
FEWEST = 8  # prefixes or pairs of a batch, however large their states
ONE_BY_ONE = 3  # largest degree whose prefixes are so few that each has a matrix product of its own

BUDGET = 4e11  # multiplications of one norm: 10 to 40 seconds of one core
SPEED = 5e9  # multiplications a second that may be counted on
CALL = 1e6  # multiplications in the time of the Python code around one matrix product
SHORT = 1  # factors of the prefix when time has run out
WORTH = 0.2  # of an enumeration: what is spent on bounds that stand if it cannot be finished in time


# The score of every distinct product of a degree: two columns at a time by one matrix product, prefixes in batches.


BELOW = np.tri(PANEL, dtype=bool)  # pairs that come again in the other order, or twice the same base kernel


def enumerate_degree(family: PolynomialFamily, state: Array, degree: int, total: ScoreSum) -> None:
    """Add the scores of all distinct products of a degree.

    They are listed by the levels of their base kernels, which are of ascending position: products of the same levels
    have the same number of permutations.
    """
    base = family.base
    if degree == 0:
        _add(total, np.array([family.scales[0] * base.mass(state, None)]), lambda at: [() for _ in at])
    for levels in compositions(degree):
        ordered = factorial(sum(levels)) // prod(factorial(level) for level in levels)  # multi-indices of these levels
        scale = family.scales[degree] * ordered ** (1.0 / family.conjugate_exponent)
        if len(levels) == 1:
            _add(total, scale * base.masses(state, None, levels), lambda at, d=degree: [(int(j),) * d for j in at])
        elif len(levels) == 2:
            _add_panels(base, (), state, levels, scale, total)
        elif len(levels) == ONE_BY_ONE:
            for j in range(base.n_base - 2):
                extended = base.extend(state, j, levels[0])
                _add_panels(base, (j,) * levels[0], extended, levels[1:], scale, total)
        else:
            for last in range(len(levels) - 3, base.n_base - 2):
                _add_batches(base, state, levels, last, scale, total)


def compositions(degree: int) -> Iterator[Parts]:
    """Yield all ways to write a degree as an ordered sum of levels."""
    for first in range(degree, 0, -1):
        for rest in compositions(degree - first) if first < degree else [()]:
            yield (first, *rest)


def _add(total: ScoreSum, scores: Array, indices: Callable[..., list[Index]]) -> None:
    if total.add(scores) > total.threshold:
        total.offer(scores, indices)


# --- one prefix -----------------------------------------------------------------------------------------------------


def _add_panels(base: ProductBase, prefix: Index, state: Array, levels: Parts, scale: float, total: ScoreSum) -> None:
    """Add all products of a prefix with two further base kernels ``j < k``, at two levels."""
    a, b = levels
    for top in range(prefix[-1] + 1 if prefix else 0, base.n_base - 1, PANEL):
        check_deadline()
        scores = base.pair_masses(state, slice(top, min(top + PANEL, base.n_base)), top, (a, b))
        if scale != 1:
            scores *= scale
        n_rows, width = scores.shape
        scores[:, :n_rows][BELOW[:n_rows, :n_rows]] = 0.0

        def indices(at: Array, top: int = top, width: int = width) -> list[Index]:
            return [prefix + (top + int(i) // width,) * a + (top + int(i) % width,) * b for i in at]

        _add(total, scores, indices)


# --- prefixes in batches --------------------------------------------------------------------------------------------


def batches(base: ProductBase, state: Array, levels: Parts, last: int) -> Iterator[tuple[Array, Array]]:
    """Yield all ascending positions up to ``last``, as many as there are levels, with their states at the levels."""
    length = len(levels)
    if length == 0 or comb(last + 1, length) <= largest_batch(base):
        yield _table(base, state, levels, last)
        return
    for j in range(length - 1, last + 1):
        for columns, states in batches(base, state, levels[:-1], j - 1):
            yield _move_last(columns, j), base.extend(states, j, levels[-1])


def largest_batch(base: ProductBase) -> int:
    """Return how many states are held at a time."""
    return max(FEWEST, BATCH // base.state_size)


def _table(base: ProductBase, state: Array, levels: Parts, last: int) -> tuple[Array, Array]:
    """Return a batch sorted by the largest position, with extensible entries first."""
    columns, states = np.zeros((1, 0), dtype=int), state[np.newaxis]
    for length, level in enumerate(levels):
        counts = [comb(j, length) for j in range(last + 1)]
        columns = np.concatenate([_move_last(columns[:count], j) for j, count in enumerate(counts)])
        states = np.concatenate([base.extend(states[:count], j, level) for j, count in enumerate(counts)])
    return columns, states


def _move_last(columns: Array, j: int) -> Array:
    return np.column_stack([columns, np.full(len(columns), j)])


def _add_batches(base: ProductBase, state: Array, levels: Parts, last: int, scale: float, total: ScoreSum) -> None:
    """Add all products with third-last base kernel ``last``, extended by two further kernels."""
    a, b = levels[-2:]
    rows, cols = (last + 1 + at for at in np.triu_indices(base.n_base - last - 1, 1))
    for shorter, states in batches(base, state, levels[:-3], last - 1):
        prefixes, extended = _move_last(shorter, last), base.extend(states, last, levels[-3])
        width = max(FEWEST, BATCH // max(len(extended), base.state_size))
        for at in range(0, len(rows), width):
            check_deadline()
            pairs = rows[at : at + width], cols[at : at + width]
            scores = scale * base.tail_masses(extended, *pairs, (a, b))
            _add(total, scores, lambda places, prefixes=prefixes, pairs=pairs: _named(places, prefixes, pairs, levels))


def _named(places: Array, prefixes: Array, pairs: tuple[Array, Array], levels: Parts) -> list[Index]:
    which, pair = np.divmod(places, len(pairs[0]))
    columns = np.column_stack([prefixes[which], pairs[0][pair], pairs[1][pair]])
    return [tuple(index) for index in np.repeat(columns, levels, axis=1).tolist()]


METHODS = ("bound", "identity", "enumeration")  # the least exact first


@dataclass(frozen=True, eq=False)
class FamilyNorm:
    """Values of a dual vector on all kernels of the family."""

    norm: float  # V, or an upper bound
    method: str  # "enumeration", "identity" or "bound": the least exact way used for any degree
    # distinct kernels of the largest u_m^2 / w_m^2, the largest first, among the degrees that were enumerated
    largest: tuple[Index, ...] = ()
    scores: Array = field(default_factory=lambda: np.zeros(0))  # (n_largest,) float64: their u_m^2 / w_m^2


def family_norm(
    family: PolynomialFamily, a: Array, n_largest: int = 0, budget: float = BUDGET, seconds: float | None = None
) -> FamilyNorm:
    """Return ``V`` of a dual vector and the most relevant kernels."""
    ends, degrees = np.inf if seconds is None else time.perf_counter() + seconds, range(family.degree + 1)
    size = float(np.abs(a).max(initial=0.0))
    if size == 0:
        # Zero by any method; this names the one that another vector would be answered by.
        return FamilyNorm(
            0.0, weakest([_method(family, d, min(budget, SPEED * _remaining_seconds(ends))) for d in degrees])
        )
    total = ScoreSum(family.conjugate_exponent, n_largest, family.n_kernels)
    state = family.base.start(a / size)
    method = weakest([_add_best_way(family, state, d, total, budget, ends) for d in degrees])
    largest, scores = total.largest()
    return FamilyNorm(size**2 * total.norm, method, largest, size**2 * scores)


def weakest(methods: Iterable[str]) -> str:
    """Return the least exact of some methods."""
    return min(methods, key=METHODS.index)


def _remaining_seconds(ends: float) -> float:
    return max(0.0, ends - time.perf_counter())


def _add_best_way(
    family: PolynomialFamily, state: Array, degree: int, total: ScoreSum, budget: float, ends: float
) -> str:
    """Add a degree in the best affordable way, and return the name."""
    before = after = total.so_far
    reached = "bound"
    for at, way in enumerate(_ways(family, degree, budget, ends)):
        total.restore(before)
        try:
            # The first way is short where time matters: there is always an answer.
            with deadline(_remaining_seconds(ends) if at else None):
                method, length = way
                if method == "enumeration":
                    enumerate_degree(family, state, degree, total)
                elif method == "identity":
                    square = family.scales[degree] ** 2 * _sum_of_squares(family.base, state, degree)  # of q = 2
                    total.add(np.sqrt([max(square, 0.0)]))
                else:
                    _bound(family, state, degree, length, total)
        except OutOfTimeError:
            if at == 0:  # the time of what this norm is a part of
                raise
            total.restore(after)
            break
        reached, after = way[0], total.so_far
    return reached


def _ways(family: PolynomialFamily, degree: int, budget: float, ends: float) -> list[tuple[str, int]]:
    """Return methods and lengths of prefixes: the best affordable method, after shorter ones under a time limit.

    How much a core multiplies in a second is known only roughly on a machine that others use as well.
    """
    allowed = min(budget, SPEED * _remaining_seconds(ends))
    method = _method(family, degree, allowed)
    exact = [] if method == "bound" else [(method, 0)]
    if degree == 0 or not np.isfinite(ends):
        return exact or [("bound", _longest(family, degree, allowed))]
    worth = min(allowed, WORTH * _enumeration_cost(family, degree)) if exact else allowed
    short = min(SHORT, degree - 1)
    longest = max(_longest(family, degree, worth), short)
    return [("bound", length) for length in range(short, longest + 1)] + exact


def _method(family: PolynomialFamily, degree: int, allowed: float) -> str:
    base = family.base
    by_enumeration = _enumeration_cost(family, degree)
    distinct_specs = base.n_samples**4 * (base.n_base + degree) / 4 + CALL if family.p == 2 else np.inf
    cheap = 1e8  # an enumeration of so many is worth its price for the kernels that it names
    if by_enumeration <= min(allowed, max(4 * distinct_specs, cheap)):
        return "enumeration"
    return "identity" if distinct_specs <= allowed else "bound"


def norm_cost(family: PolynomialFamily, budget: float = BUDGET) -> float:
    """Return about how many multiplications a norm takes."""
    return min(sum(_enumeration_cost(family, d) for d in range(family.degree + 1)), (family.degree + 1) * budget)


def _enumeration_cost(family: PolynomialFamily, degree: int) -> float:
    """Return the multiplications of an enumeration, and the budget of the remaining work."""
    base = family.base
    if degree < 2:
        return float(base.n_base * base.state_size) if degree else 0.0
    return sum(_composition_cost(base, degree, len(levels)) for levels in compositions(degree))


def _composition_cost(base: ProductBase, degree: int, length: int) -> float:
    """Return the same for products of so many different base kernels."""
    products = float(comb(base.n_base, length))
    calls: float = {1: 0, 2: degree > 2, ONE_BY_ONE: base.n_base}.get(length, base.n_base)
    if length > ONE_BY_ONE:
        extension = 0.02  # of a call: one step in the building of a batch
        calls += extension * length * base.n_base**2 + comb(base.n_base, length - 2) // largest_batch(base)
    score = 150.0  # and in the time of squaring, weighing and adding one score
    return products * (base.state_size + score) + CALL * calls


# --- the identity ---------------------------------------------------------------------------------------------------


def _sum_of_squares(base: ProductBase, state: Array, degree: int) -> float:
    """Return the sum over ordered products of ``degree`` factors of ``<M, K_i>^2``, from pairs of samples."""
    if degree == 0:
        return base.mass(state, None) ** 2
    rows, cols = np.triu_indices(base.n_samples)
    orders = [terms_of(base, order) for order in range(1, degree + 1)]
    vectors = {parts: base.pair_vectors(rows, cols, parts) for terms in orders for _, parts in terms}
    weight = base.pair_weights(state, rows, cols)
    total = 0.0
    for at in range(0, len(rows), PANEL):
        check_deadline()
        tables = {parts: part[:, at : at + PANEL].T @ part for parts, part in vectors.items()}
        cumulants = [combined((c, tables[parts]) for c, parts in terms) for terms in orders]
        table = moments(cumulants, degree)[degree]
        assert table is not None
        total += float(weight[at : at + PANEL] @ table @ weight)
    return total


# --- the bound ------------------------------------------------------------------------------------------------------


def _longest(family: PolynomialFamily, degree: int, allowed: float) -> int:
    """Return the affordable length of the prefixes."""
    base, length = family.base, 0
    state_passes = 20.0  # passes over a matrix of samples to take a base kernel out of the sums over all
    while length < degree - 1:  # at most the degree
        nodes = float(base.n_base**length)
        if nodes * ((base.n_base + state_passes) * base.n_samples**2 + CALL * (length > 0)) > allowed:
            break
        length += 1
    return length


def _bound(family: PolynomialFamily, state: Array, degree: int, length: int, total: ScoreSum) -> None:
    """Add the sums of all products with equal prefix, bounded as a single product."""
    root = Node(family.base, state, degree, family.cumulants)
    if length == 0:
        total.add(family.scales[degree] * np.array([family.base.mass(state, family.moments[degree])]))
    else:
        _add_below(family, root, family.scales[degree], 1, length, total)


def _add_below(family: PolynomialFamily, node: Node, scale: float, count: int, length: int, total: ScoreSum) -> None:
    """Add the products below a node with a multiplicity, with ``length`` more factors."""
    check_deadline()
    share = 1.0 / family.conjugate_exponent
    if length == 1:
        total.add(scale * count**share * node.first_masses)
        return
    for j in np.flatnonzero(node.first_masses):
        for level in range(1, node.left + 1):
            child, ways = node.child(int(j), level), count * comb(node.left - 1, level - 1)
            if child.left:
                _add_below(family, child, scale, ways, length - 1, total)
            else:
                total.add(scale * ways**share * np.array([family.base.mass(child.state, None)]))
