"""The first of two stages (GCD-2s): members of a family with a sum close to the ideal kernel."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from manykernels.alignment import SMALLEST_SHARE, centered, cosine, nonnegative_quadratic
from manykernels.discovery.base import Limits, random_generator, resolve_limits
from manykernels.discovery.families.base import PairWeights
from manykernels.discovery.families.search import BestMember, FamilySearch
from manykernels.discovery.one_stage.mixture import WeightedMembers
from manykernels.exceptions import InvalidInputError
from manykernels.objective.certificate import Certificate, KKTResiduals
from manykernels.solvers import Status
from manykernels.solvers.run import Run
from manykernels.validation.arrays import (
    Array,
    check_choice,
    check_nonnegative,
    check_positive,
    check_positive_vector,
    check_vector,
)
from manykernels.validation.parameters import RandomSource, check_instance

TINY = float(np.finfo(np.float64).tiny)
LARGEST_STEP = 1.0  # eta_max of the thesis


@dataclass(frozen=True, eq=False)
class TargetSpace:
    """Centered, weighted matrices of a training set, all of shape (n_samples, n_samples).

    ``<K, L> = sum_ij s_i s_j (CKC')_ij (CLC')_ij`` with ``C = I - 1 s'/S``.
    With sample weights of one this is the centered Frobenius product of the thesis; a weight of two counts a sample
    twice. The scale of the target does not count.

    Parameters
    ----------
    target, weight : ndarray of shape (n_samples,)

    Examples
    --------
    >>> import numpy as np
    >>> space = TargetSpace(np.array([1.0, 2.0, 3.0]), np.ones(3))
    >>> round(space.alignment(np.outer([1, 2, 3], [1, 2, 3])), 12)
    1.0
    """

    target: Array
    weight: Array

    @property
    def ideal(self) -> Array:
        """The centered ideal kernel ``y y'``, with weights, of unit norm; zero for a constant target."""
        # Squares of the target itself, and products of four of them, may overflow or vanish.
        target = self.target / max(float(np.abs(self.target).max()), TINY)
        root = np.sqrt(self.weight)
        values = root * (target - np.average(target, weights=self.weight))
        size = float(np.linalg.norm(values))
        varies = size > SMALLEST_SHARE * float(np.linalg.norm(root * target))
        direction = values / size if varies else np.zeros_like(values)
        return np.outer(direction, direction)

    @property
    def identity(self) -> Array:
        """The centered identity, with weights: equal samples count as different."""
        return self.centered(np.diag(1.0 / self.weight))

    def centered(self, gram: Array) -> Array:
        """Return ``W^(1/2) C K C' W^(1/2)``; exactly zero for a constant matrix."""
        inner = centered(gram, self.weight / self.weight.sum())
        if np.abs(inner).max() <= SMALLEST_SHARE * np.abs(gram).max():
            return np.zeros_like(inner)
        root = np.sqrt(self.weight)
        return inner * root[:, None] * root

    def adjoint(self, matrix: Array) -> Array:
        """Return ``A`` with ``<A, K> = <matrix, centered(K)>`` for every symmetric ``K``."""
        share, root = self.weight / self.weight.sum(), np.sqrt(self.weight)
        inner = matrix * root[:, None] * root
        inner = inner - np.outer(share, inner.sum(axis=0))
        inner -= np.outer(inner.sum(axis=1), share)
        return (inner + inner.T) / 2

    def alignment(self, gram: Array) -> float:
        """Return the centered alignment of a Gram matrix with the ideal kernel, between -1 and 1; 0 if undefined."""
        return cosine(self.centered(gram), self.ideal)


def alignment_step(kernel: Array, member: Array, ideal: Array, largest: float = LARGEST_STEP) -> float:
    """Return the step that maximizes the alignment of ``kernel + step * member`` with the ideal kernel.

    Proposition 5.4 of the thesis, clipped as it should read: the alignment
    ``(a + b eta) / sqrt(c + 2 d eta + e eta^2)`` has at most one stationary point, ``(ad - bc) / (bd - ae)``; the
    best of it (inside the interval), 0 and ``largest`` is taken.
    """
    a, b = float(np.vdot(kernel, ideal)), float(np.vdot(member, ideal))
    c, d, e = float(np.vdot(kernel, kernel)), float(np.vdot(kernel, member)), float(np.vdot(member, member))
    steps = [0.0, largest]
    if b * d != a * e:
        steps.append(float(np.clip((a * d - b * c) / (b * d - a * e), 0.0, largest)))

    def value(step: float) -> float:
        squared = c + 2 * d * step + e * step**2
        return (a + b * step) / np.sqrt(squared) if squared > 0 else 0.0

    return max(steps, key=value)


def distance_step(current: Array, vertex: Array, ideal: Array) -> float:
    """Return the exact Frank-Wolfe step from ``current`` to ``vertex`` for half the squared distance to ``ideal``.

    ``clip(<D, R> / <D, D>, 0, 1)`` with ``D = vertex - current`` and ``R = ideal - current``. The step printed in
    Algorithm 8 is that along the vertex itself; combined with the update it stalls.
    """
    change = vertex - current
    size = float(np.vdot(change, change))
    return float(np.clip(np.vdot(change, ideal - current) / size, 0.0, 1.0)) if size > 0 else 0.0


# The ways in which kernels are added to resemble the ideal one: as published, and with all weights found anew.


UPDATES = ("corrective", "published")


@dataclass(frozen=True)
class AscentSettings:
    """How weights change when a kernel is added in two-stage learning.

    Parameters
    ----------
    update : {"corrective", "published"}, default="corrective"
        "corrective" finds the weights of all kernels found anew, by non-negative least squares; "published" gives the
        new kernel the step of Algorithm 7 or 8 and leaves the rest unchanged, or shrinks them alike.
    largest_step : float, default=1.0
        ``eta_max`` of Algorithm 7, for the published steps.
    epsilon : float, default=0.0
        Share of the identity from which Algorithm 7 starts, and which stays in the sum whose alignment grows. With 0,
        and with corrective weights, the identity gives the first direction only.

    Raises
    ------
    InvalidInputError
        If a parameter cannot be used.

    Examples
    --------
    >>> from manykernels.discovery import AscentSettings
    >>> AscentSettings("published", largest_step=0.5)
    AscentSettings(update='published', largest_step=0.5, epsilon=0.0)
    """

    update: str = "corrective"
    largest_step: float = LARGEST_STEP
    epsilon: float = 0.0

    def __post_init__(self) -> None:
        check_choice(self.update, UPDATES, "update")
        check_positive(self.largest_step, "largest_step")
        check_nonnegative(self.epsilon, "epsilon")
        if self.update == "corrective" and (self.largest_step != LARGEST_STEP or self.epsilon > 0):
            raise InvalidInputError(
                f"largest_step={self.largest_step:g} and epsilon={self.epsilon:g} belong to the steps of Algorithm 7: "
                'set update="published", or leave them out.'
            )


@dataclass(frozen=True, eq=False)
class Step:
    """Weights on the way, their alignment, and what the search increases, equal to it at the best scale.

    To a run the objective is a distance to the ideal kernel.
    """

    mixture: WeightedMembers
    alignment: float
    merit: float
    growth: float = np.inf
    passes: float = 0.0
    newton_steps: int = 0

    @property
    def kernel_weights(self) -> Array:
        """The weights."""
        return self.mixture.weights

    @property
    def certificate(self) -> Certificate:
        """A distance to the ideal kernel, as a value to be made small."""
        return Certificate.from_values(1.0 - self.merit, 0.0, 1.0, KKTResiduals(0.0, 0.0, 0.0, 0.0, 0.0))


Ascent = Callable[[FamilySearch, TargetSpace, np.random.Generator], Iterator[Step]]


def choose_ascent(criterion: str, settings: AscentSettings) -> Ascent:
    """Return the steps of a criterion according to the settings."""
    if settings.update == "corrective":
        return lambda search, space, rng: _correct(search, space, rng, criterion)
    if criterion == "alignment":
        return lambda search, space, rng: _ascend(search, space, rng, settings)
    if settings.largest_step != LARGEST_STEP or settings.epsilon > 0:
        raise InvalidInputError(
            f"largest_step={settings.largest_step:g} and epsilon={settings.epsilon:g} belong to Algorithm 7: set "
            'criterion="alignment", or leave them out.'
        )
    return _approach


def _nearest(parts: Array, ideal: Array) -> tuple[Array, Array]:
    """Return the weights of the nearest combination of rows to a vector, and the sum as a square matrix."""
    sizes = np.linalg.norm(parts, axis=1)
    live = sizes > SMALLEST_SHARE * float(np.max(sizes, initial=0.0))
    units = np.divide(parts, sizes[:, None], out=np.zeros_like(parts), where=live[:, None])
    products = units @ units.T
    np.fill_diagonal(products, 1.0)
    theta = nonnegative_quadratic(products, units @ ideal)
    side = round(np.sqrt(len(ideal)))
    weights = np.divide(theta, sizes, out=np.zeros_like(theta), where=live)
    return weights, (theta @ units).reshape(side, side)


def _correct(search: FamilySearch, space: TargetSpace, rng: np.random.Generator, criterion: str) -> Iterator[Step]:
    """Add the member along which the distance to the ideal kernel falls fastest, and find all weights anew.

    Where weights are the best of their kernels, this is the direction of steepest ascent of the alignment as well.
    """
    ideal, mixture = space.ideal, WeightedMembers()
    parts = np.zeros((0, ideal.size))
    residual, norm = _first_ascent(space, ideal) if criterion == "alignment" else (ideal, float(np.linalg.norm(ideal)))
    while True:
        best = _best_member(search, space, residual, norm, mixture, rng)
        mixture, new = mixture.with_member(search, best.parameter)
        if new == len(parts):
            parts = np.vstack([parts, space.centered(mixture.grams[new]).ravel()])
        weights, kernel = _nearest(parts, ideal.ravel())
        mixture, value = mixture.weighted(weights), cosine(kernel, ideal)
        yield Step(mixture, value, value)
        residual = ideal - kernel
        norm = float(np.linalg.norm(residual))


def _ascend(
    search: FamilySearch, space: TargetSpace, rng: np.random.Generator, settings: AscentSettings
) -> Iterator[Step]:
    """Algorithm 7: steepest ascent on the centered alignment.

    The thesis starts from ``epsilon C`` and keeps it. Where some identity helps the alignment, all steps then are of
    the order of epsilon and the identity stays in the sum, though no kernel of the model holds it. So it only gives the
    first direction here, and the first kernel has weight one, unless epsilon is asked for.
    """
    ideal, mixture = space.ideal, WeightedMembers()
    kernel = settings.epsilon * space.identity if settings.epsilon > 0 else None
    total = np.zeros_like(ideal)  # the kernels without the identity
    while True:
        direction, norm = _first_ascent(space, ideal) if kernel is None else _ascent(kernel, ideal)
        best = _best_member(search, space, direction, norm, mixture, rng)
        mixture, new = mixture.with_member(search, best.parameter)
        member = space.centered(mixture.grams[new])
        step = LARGEST_STEP if kernel is None else alignment_step(kernel, member, ideal, settings.largest_step)
        kernel = step * member if kernel is None else kernel + step * member
        total = total + step * member
        weights = mixture.weights.copy()
        weights[new] += step
        mixture = mixture.weighted(weights)
        yield Step(mixture, cosine(total, ideal), cosine(kernel, ideal))


def _first_ascent(space: TargetSpace, ideal: Array) -> tuple[Array, float]:
    """Return the direction of ascent from the identity of all samples that the weights count, and the norm.

    Copies of a sample are different samples for the identity. The part visible to a kernel is ``space.identity``; but
    the squared norm is the number of counted samples minus 1.
    """
    n_counted = max(float(space.weight.sum()), float(len(space.weight)))
    share, square = float(np.vdot(space.identity, ideal)), n_counted - 1.0
    if square <= 0:
        return ideal, float(np.linalg.norm(ideal))
    norm = np.sqrt(max(float(np.vdot(ideal, ideal)) - share**2 / square, 0.0))
    return ideal - share / square * space.identity, float(norm)


def _ascent(kernel: Array, ideal: Array) -> tuple[Array, float]:
    """Return ``K* - <K, K*> / ||K||^2 K``, the direction of F' (5.7), and the norm."""
    square = float(np.vdot(kernel, kernel))
    direction = ideal - float(np.vdot(kernel, ideal)) / square * kernel if square > 0 else ideal
    return direction, float(np.linalg.norm(direction))


def _approach(search: FamilySearch, space: TargetSpace, rng: np.random.Generator) -> Iterator[Step]:
    """Algorithm 8: Frank-Wolfe on the distance to the ideal kernel over ``beta`` times the simplex with 0."""
    n_samples, ideal, mixture = len(space.target), space.ideal, WeightedMembers()
    current, beta, whole = np.zeros((n_samples, n_samples)), 0.0, float(np.linalg.norm(ideal))
    while True:
        residual = ideal - current
        best = _best_member(search, space, residual, float(np.linalg.norm(residual)), mixture, rng)
        mixture, new = mixture.with_member(search, best.parameter)
        member = space.centered(mixture.grams[new])
        beta = _grow_scale(beta, mixture, member, ideal)
        toward = best.value > 0
        vertex = beta * member if toward else np.zeros_like(member)
        step = distance_step(current, vertex, ideal)
        weights = (1 - step) * mixture.weights
        weights[new] += step * beta * toward
        current = (1 - step) * current + step * vertex
        mixture = mixture.weighted(weights)
        # The share of the ideal kernel that is explained; under exact steps it grows, which the alignment need not.
        missing = float(np.linalg.norm(ideal - current) / whole) ** 2 if whole > 0 else 1.0
        yield Step(mixture, cosine(current, ideal), np.sqrt(max(1.0 - missing, 0.0)))


def _grow_scale(beta: float, mixture: WeightedMembers, member: Array, ideal: Array) -> float:
    """Return the scale of the simplex: that of the best single member, doubled while the weights fill it."""
    if beta == 0:
        size = float(np.vdot(member, member))
        return 2 * max(float(np.vdot(member, ideal)) / size, np.finfo(np.float64).tiny) if size > 0 else 1.0
    crowded = 0.99  # total weight above which the scale of the simplex is taken to be in the way
    return 2 * beta if mixture.weights.sum() > crowded * beta else beta


def _best_member(
    search: FamilySearch,
    space: TargetSpace,
    matrix: Array,
    norm: float,
    mixture: WeightedMembers,
    rng: np.random.Generator,
) -> BestMember:
    """Return the member with the largest centered, normalized inner product with ``matrix``."""
    adjoint = space.adjoint(matrix)
    return search.maximize(PairWeights(adjoint / norm if norm > 0 else adjoint), near=mixture.parameters, rng=rng)


CRITERIA = ("alignment", "distance")


@dataclass(frozen=True, eq=False)
class AlignedKernel:
    """A combination of members that resembles the ideal kernel: the result of the first stage.

    Attributes
    ----------
    parameters : tuple of ndarray
        None if no member has a positive alignment, as for a constant target.
    weights : ndarray of shape (n_kernels,)
        Positive, sum 1.
    alignment : float
        Centered alignment of the combination with the ideal kernel on the training samples.
    history : tuple of float
        Alignment after every step.
    status : Status
        ``converged`` if one more kernel would have gained too little, else why the first stage stopped before.
    upper_bound : float
        No non-negative combination of members of the family has a larger alignment; nan where not known, as for
        families of several parameters.
    """

    parameters: tuple[Array, ...]
    weights: Array
    alignment: float
    history: tuple[float, ...]
    status: Status
    upper_bound: float = float("nan")


def align_family(
    search: FamilySearch,
    target: Array,
    weight: Array,
    *,
    criterion: str = "alignment",
    gain: float = 1e-3,
    ascent: AscentSettings | None = None,
    limits: Limits | None = None,
    random_state: RandomSource = 0,
) -> AlignedKernel:
    """Find members of a family and weights so their sum resembles the ideal kernel ``y y'``.

    Adds the member along which the centered alignment grows fastest, and finds the weights of all kernels anew by
    non-negative least squares. With ``AscentSettings("published")``, ``"alignment"`` is Algorithm 7 of the thesis, with
    the best step for the new kernel, and ``"distance"`` Algorithm 8: Frank-Wolfe on the distance to the ideal kernel,
    with the exact step; the scale ``beta`` starts from the best single member and doubles while the weights fill the
    simplex. With corrective weights the two criteria are the same but for the first kernel.

    How much any other kernels of the family could gain is bounded: if ``<K* - r K, K_p> <= 0`` for every member, all
    matrices centered and ``K*`` of norm 1, no combination has an alignment above ``r ||K||``.

    Parameters
    ----------
    search : FamilySearch
        With shrinkage, the objective of the search is that of (6.2), the matrix scaled to Frobenius norm 1.
    target, weight : ndarray of shape (n_samples,)
    criterion : {"alignment", "distance"}, default="alignment"
    gain : float, default=1e-3
        Least growth a step (``delta``) of the alignment, or of ``sqrt(1 - ||K - K*||^2 / ||K*||^2)``, which it equals
        at the best scale.
    ascent : AscentSettings, optional
        How weights change.
    limits : Limits, optional
        Its ``max_iter``, ``time_limit`` and ``callback`` count.
    random_state : int, RandomState, Generator or None, default=0

    Raises
    ------
    InvalidInputError
        If a parameter cannot be used.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.discovery import FamilySearch, GaussianFamily, align_family
    >>> x = np.linspace(-2.0, 2.0, 60)[:, None]
    >>> search = FamilySearch(GaussianFamily(0.05, 50.0), x)
    >>> aligned = align_family(search, np.sign(np.sin(4.0 * x[:, 0])), np.ones(60))
    >>> aligned.alignment > 0.25, round(float(aligned.weights.sum()), 12)
    (True, 1.0)
    """
    check_choice(criterion, CRITERIA, "criterion")
    check_nonnegative(gain, "gain")
    check_instance(search, FamilySearch, "search", "FamilySearch(GaussianFamily(0.1, 10.0), points)")
    limits, n_samples = resolve_limits(limits, Limits(max_iter=50)), len(search.points)
    space = TargetSpace(check_vector(target, n_samples, "target"), check_positive_vector(weight, n_samples, "weight"))
    rng = random_generator(random_state)
    chosen = AscentSettings() if ascent is None else ascent
    checked = check_instance(chosen, AscentSettings, "ascent", 'AscentSettings("published")')
    steps = choose_ascent(criterion, checked)(search, space, rng)
    kernel = _aligned(steps, gain, limits)
    try:
        return replace(kernel, upper_bound=alignment_bound(search, space, kernel.parameters, kernel.alignment))
    except KeyboardInterrupt:  # the kernels are found, only how good any others could be is not known
        return replace(kernel, status=Status.INTERRUPTED)


def alignment_bound(search: FamilySearch, space: TargetSpace, parameters: tuple[Array, ...], reached: float) -> float:
    """Return an upper bound on the alignment of any combination of members; nan if unavailable."""
    if not parameters:
        return float("nan")
    grams = tuple(search.gram(parameter) for parameter in parameters)
    # The sum nearest to the ideal kernel has the largest alignment, too: no other weights of these kernels do better.
    _, kernel = _nearest(np.array([space.centered(gram).ravel() for gram in grams]), space.ideal.ravel())
    pairs = PairWeights(space.adjoint(space.ideal)), PairWeights(space.adjoint(kernel))
    ratio = search.ratio_bound(*pairs)
    return float("nan") if ratio is None else max(ratio * float(np.linalg.norm(kernel)), reached)


def _best_so_far(steps: Iterator[Step]) -> Iterator[Step]:
    """Yield the best of all steps so far, with the growth of the last step."""
    best = Step(WeightedMembers(), 0.0, 0.0)
    for step in steps:
        growth = step.merit - best.merit
        best = step if growth > 0 or not len(best.mixture) else best
        yield replace(best, growth=growth)


def _aligned(steps: Iterator[Step], gain: float, limits: Limits) -> AlignedKernel:
    """Take steps until the alignment stops growing, or a limit or Ctrl-C ends the first stage."""
    values: list[float] = []

    def recorded() -> Iterator[Step]:
        for best in _best_so_far(steps):
            values.append(best.alignment)
            yield best

    silent = replace(limits, verbose=0)
    run: Run[Step] = Run(silent, "The first stage", converged=lambda step: step.growth <= gain, first=1)
    run.follow(recorded(), lambda: Step(WeightedMembers(), 0.0, 0.0))
    best = run.best
    mixture = best.mixture.prune() if best.alignment > SMALLEST_SHARE else WeightedMembers()
    weights = mixture.weights / mixture.weights.sum() if len(mixture) else mixture.weights
    reached = best.alignment if len(mixture) else 0.0
    return AlignedKernel(mixture.parameters, weights, reached, tuple(values), run.status or Status.STALLED)
