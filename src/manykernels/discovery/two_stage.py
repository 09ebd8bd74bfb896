"""Two-stage greedy search (GCD-2s): a kernel near the ideal one by alignment or by distance, then a learner on it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from manykernels._validation import check_choice, check_positive
from manykernels.discovery._mixture import Learner, Mixture, candidate
from manykernels.discovery.base import Candidate, Discovery, Limits, run_search
from manykernels.discovery.families import KernelFamily
from manykernels.discovery.greedy import make_learner
from manykernels.discovery.pairs import PairWeights
from manykernels.discovery.search import FamilySearch, Peak, SearchSettings
from manykernels.objective.certificate import Certificate, KKTResiduals
from manykernels.objective.losses import Loss
from manykernels.solvers import IterationRecord, Status
from manykernels.solvers.machines import MachineFit

Array = NDArray[Any]

CRITERIA = ("alignment", "distance")
EPSILON = 1e-6  # the starting kernel, relative to the mean diagonal of a member
LARGEST_STEP = 1.0  # eta_max of the thesis
MACHINE_TOL = 1e-9  # of the learner of the second stage
CROWDED = 0.99  # total weight above which the scale of the simplex is taken to be in the way


@dataclass(frozen=True, eq=False)
class TargetSpace:
    """Centered, weighted matrices of a training set.

    ``<K, L> = sum_ij s_i s_j (CKC')_ij (CLC')_ij`` with ``C = I - 1 s'/S``.
    With sample weights of one this is the centered Frobenius product of the thesis; a weight of two counts a sample
    twice.

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
        """The centered ideal kernel ``y y'``, with weights."""
        centered = np.sqrt(self.weight) * (self.target - np.average(self.target, weights=self.weight))
        return np.outer(centered, centered)

    def centered(self, gram: Array) -> Array:
        """Return ``W^(1/2) C K C' W^(1/2)``."""
        share = self.weight / self.weight.sum()
        inner = gram - (share @ gram)[None, :]
        inner -= (inner @ share)[:, None]
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


def cosine(first: Array, second: Array) -> float:
    """Return ``<A, B> / (||A|| ||B||)`` of two matrices; 0 if one of them is zero.

    Parameters
    ----------
    first, second : ndarray of equal shapes

    Returns
    -------
    float
    """
    size = float(np.linalg.norm(first)) * float(np.linalg.norm(second))
    return float(np.vdot(first, second)) / size if size > 0 else 0.0


def alignment_step(kernel: Array, member: Array, ideal: Array, largest: float = LARGEST_STEP) -> float:
    """Return the step that maximizes the alignment of ``kernel + step * member`` with the ideal kernel.

    Proposition 5.4 of the thesis, clipped as it should read: the alignment
    ``(a + b eta) / sqrt(c + 2 d eta + e eta^2)`` has at most one stationary point, ``(ad - bc) / (bd - ae)``; the
    best of it (inside the interval), 0 and ``largest`` is taken.

    Parameters
    ----------
    kernel, member, ideal : ndarray of shape (n_samples, n_samples)
        Centered.
    largest : float, default=1.0
        ``eta_max``.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> round(alignment_step(np.diag([2.0, 1.0]), np.diag([0.0, 1.0]), np.eye(2), largest=10.0), 12)
    1.0
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
    Algorithm 8 is that along the vertex itself; combined with its update it stalls.

    Parameters
    ----------
    current, vertex, ideal : ndarray of shape (n_samples, n_samples)

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> distance_step(np.zeros((2, 2)), 2 * np.eye(2), np.eye(2))
    0.5
    """
    change = vertex - current
    size = float(np.vdot(change, change))
    return float(np.clip(np.vdot(change, ideal - current) / size, 0.0, 1.0)) if size > 0 else 0.0


@dataclass(frozen=True, eq=False)
class AlignedKernel:
    """A combination of members that resembles the ideal kernel: the result of the first stage.

    Attributes
    ----------
    parameters : tuple of ndarray
    weights : ndarray of shape (n_kernels,)
        Positive, sum one.
    alignment : float
        Centered alignment of the combination with the ideal kernel on the training samples.
    history : tuple of float
        Alignment after every step.
    status : Status
        ``converged``, or why the first stage stopped.
    """

    parameters: tuple[Array, ...]
    weights: Array
    alignment: float
    history: tuple[float, ...]
    status: Status


def align_family(
    search: FamilySearch,
    target: Array,
    weight: Array,
    *,
    criterion: str = "alignment",
    gain: float = 1e-3,
    limits: Limits | None = None,
    random_state: Any = None,
) -> AlignedKernel:
    """Find members of a family and weights so that their sum resembles the ideal kernel ``y y'``.

    ``"alignment"`` is Algorithm 7 of the thesis: the member along which the centered alignment grows fastest, with the
    best step in ``[0, 1]``. ``"distance"`` is Algorithm 8: Frank-Wolfe on the distance to the ideal kernel, with the
    exact step; the scale ``beta`` starts from the best single member and doubles while the weights fill the simplex.

    Parameters
    ----------
    search : FamilySearch
        With shrinkage, the objective of the search is (6.2), scaled so that ``K*`` and the present kernel have norm 1.
    target, weight : ndarray of shape (n_samples,)
    criterion : {"alignment", "distance"}, default="alignment"
    gain : float, default=1e-3
        Least growth of the alignment a step (``delta``).
    limits : Limits, optional
        Its ``max_iter``, ``time_limit`` and ``callback`` count.
    random_state : int, RandomState instance or None, default=None

    Returns
    -------
    AlignedKernel

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.discovery import FamilySearch, GaussianFamily, align_family
    >>> x = np.linspace(-2.0, 2.0, 60)[:, None]
    >>> search = FamilySearch(GaussianFamily(0.05, 50.0), x)
    >>> aligned = align_family(search, np.sign(np.sin(4.0 * x[:, 0])), np.ones(60))
    >>> aligned.alignment > 0.3, round(float(aligned.weights.sum()), 12)
    (True, 1.0)
    """
    check_choice(criterion, CRITERIA, "criterion")
    check_positive(gain, "gain", allow_zero=True)
    rng = np.random.default_rng(check_random_state(random_state).randint(2**31))
    path = (_ascend if criterion == "alignment" else _approach)(search, TargetSpace(target, weight), rng)
    return _follow(path, gain, limits or Limits(max_iter=50))


def discover_in_two_stages(
    points: ArrayLike,
    target: ArrayLike,
    family: KernelFamily,
    *,
    loss: str | Loss,
    strength: float,
    sample_weight: ArrayLike | None = None,
    fit_intercept: bool = True,
    criterion: str = "alignment",
    gain: float = 1e-3,
    settings: SearchSettings | None = None,
    limits: Limits | None = None,
    columns: Sequence[int] | None = None,
    random_state: Any = None,
) -> Discovery:
    r"""Find a kernel that resembles the ideal one, then learn on it.

    The second stage minimizes :math:`\sum_i s_i \ell(y_i, f(x_i) + b) + \frac{\lambda}{2} \|f\|^2` in the space of
    :math:`\sum_p \theta_p k_p` with the weights of the first stage, :math:`\sum \theta = 1`; the certificate is that of
    this learner, for the kernel weights as they are: no bound over the family follows from an alignment.

    Parameters
    ----------
    points, target, family, loss, strength, sample_weight, fit_intercept, settings, columns, random_state
        As in :func:`discover_greedily`.
    criterion : {"alignment", "distance"}, default="alignment"
        As in :func:`align_family`.
    gain : float, default=1e-3
        Least growth of the alignment a step.
    limits : Limits, optional

    Returns
    -------
    Discovery
        ``solution.n_iter`` counts the steps of the first stage; ``solution.message`` tells its alignment.

    Raises
    ------
    InvalidInputError
        If a parameter cannot be used.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.discovery import GaussianFamily, discover_in_two_stages
    >>> x = np.linspace(-2.0, 2.0, 60)[:, None]
    >>> family = GaussianFamily(0.05, 50.0)
    >>> found = discover_in_two_stages(x, np.sign(np.sin(4.0 * x[:, 0])), family, loss="hinge", strength=0.1)
    >>> bool(found.solution.certificate.relative_gap < 1e-6)
    True
    """
    limits = limits or Limits(max_iter=50)
    learner = make_learner(
        points, target, family, loss=loss, strength=strength, sample_weight=sample_weight,
        fit_intercept=fit_intercept, settings=settings or SearchSettings(), columns=columns,
    )  # fmt: skip
    aligned = align_family(
        learner.search, learner.target, learner.weight,
        criterion=criterion, gain=gain, limits=limits, random_state=random_state,
    )  # fmt: skip
    found = run_search(iter([_second_stage(learner, aligned)]), replace(limits, callback=None, name="second stage"))
    solution = found.solution
    message = f"{solution.message}; the kernel has centered alignment {aligned.alignment:.4f} ({aligned.status})"
    status = aligned.status if aligned.status is Status.INTERRUPTED else solution.status
    return replace(found, solution=replace(solution, n_iter=len(aligned.history), message=message, status=status))


# --- first stage ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Point:
    """Weights on the way, and the alignment they have."""

    mixture: Mixture
    alignment: float


def _follow(path: Iterator[_Point], gain: float, limits: Limits) -> AlignedKernel:
    """Take steps until the alignment no longer grows, or a limit or Ctrl-C ends the first stage with what it has."""
    started, best, history, status = time.perf_counter(), _Point(Mixture(), 0.0), [], Status.CONVERGED
    try:
        for point in path:
            grown = point.alignment - best.alignment
            if grown > 0 or not len(best.mixture):
                best = point
            history.append(best.alignment)
            _report(limits, len(history), time.perf_counter() - started, best)
            if grown <= gain:
                break
            status = _limit_reached(limits, len(history), time.perf_counter() - started)
            if status is not Status.CONVERGED:
                break
    except KeyboardInterrupt:
        if not len(best.mixture):
            raise
        status = Status.INTERRUPTED
    mixture = best.mixture.pruned()
    weights = mixture.weights / mixture.weights.sum() if len(mixture) else mixture.weights
    return AlignedKernel(mixture.parameters, weights, best.alignment, tuple(history), status)


def _limit_reached(limits: Limits, steps: int, elapsed_s: float) -> Status:
    if steps >= limits.max_iter:
        return Status.MAX_ITER
    late = limits.time_limit is not None and elapsed_s > limits.time_limit
    return Status.TIME_LIMIT if late else Status.CONVERGED


def _report(limits: Limits, step: int, elapsed_s: float, point: _Point) -> None:
    """Call the callback; its objective is one less the alignment, a distance to the ideal kernel."""
    miss = 1.0 - point.alignment
    n_active = int(np.count_nonzero(point.mixture.weights))
    record = IterationRecord(step, elapsed_s, 0.0, 0, primal=miss, dual=0.0, relative_gap=miss, n_active=n_active)
    if limits.callback is not None and limits.callback(record):
        raise KeyboardInterrupt


def _ascend(search: FamilySearch, space: TargetSpace, rng: np.random.Generator) -> Iterator[_Point]:
    """Algorithm 7: steepest ascent on the centered alignment."""
    n_samples, ideal, mixture = len(space.target), space.ideal, Mixture()
    kernel = EPSILON * space.centered(np.eye(n_samples))
    ideal_norm = max(float(np.linalg.norm(ideal)), np.finfo(np.float64).tiny)
    while True:
        norm = float(np.linalg.norm(kernel))
        gradient = ideal / ideal_norm - np.vdot(kernel, ideal) / ideal_norm / norm**2 * kernel
        peak = _best_member(search, space, gradient, mixture, rng)
        mixture, new = mixture.with_member(search, peak.parameter)
        member = space.centered(mixture.grams[new])
        step = alignment_step(kernel, member, ideal)
        kernel = kernel + step * member
        weights = mixture.weights.copy()
        weights[new] += step
        mixture = mixture.weighted(weights)
        yield _Point(mixture, cosine(kernel, ideal) if weights.any() else 0.0)


def _approach(search: FamilySearch, space: TargetSpace, rng: np.random.Generator) -> Iterator[_Point]:
    """Algorithm 8: Frank-Wolfe on the distance to the ideal kernel over ``beta`` times the simplex with 0."""
    n_samples, ideal, mixture = len(space.target), space.ideal, Mixture()
    current, beta = np.zeros((n_samples, n_samples)), 0.0
    while True:
        residual = ideal - current
        peak = _best_member(search, space, residual, mixture, rng)
        mixture, new = mixture.with_member(search, peak.parameter)
        member = space.centered(mixture.grams[new])
        beta = _grown_scale(beta, mixture, member, ideal)
        toward = peak.value > 0
        vertex = beta * member if toward else np.zeros_like(member)
        step = distance_step(current, vertex, ideal)
        weights = (1 - step) * mixture.weights
        weights[new] += step * beta * toward
        current = (1 - step) * current + step * vertex
        mixture = mixture.weighted(weights)
        yield _Point(mixture, cosine(current, ideal))


def _grown_scale(beta: float, mixture: Mixture, member: Array, ideal: Array) -> float:
    """Return the scale of the simplex: that of the best single member, doubled while the weights fill it."""
    if beta == 0:
        size = float(np.vdot(member, member))
        return 2 * max(float(np.vdot(member, ideal)) / size, np.finfo(np.float64).tiny) if size > 0 else 1.0
    return 2 * beta if mixture.weights.sum() > CROWDED * beta else beta


def _best_member(
    search: FamilySearch, space: TargetSpace, matrix: Array, mixture: Mixture, rng: np.random.Generator
) -> Peak:
    """Return the member whose centered Gram matrix has the largest product with ``matrix``, scaled to norm one."""
    adjoint = space.adjoint(matrix)
    norm = float(np.linalg.norm(adjoint))
    scaled = adjoint / norm if norm > 0 else adjoint
    return search.maximize(PairWeights(scaled), near=mixture.parameters, rng=rng)


# --- second stage ---------------------------------------------------------------------------------------------------


def _second_stage(learner: Learner, aligned: AlignedKernel) -> Candidate:
    """Learn on the kernel of the first stage, or without kernels if it found none."""
    empty = learner.start()[0]
    parameters = aligned.parameters or (np.full(learner.search.n_parameters, learner.search.family.high),)
    weights = aligned.weights / learner.strength if aligned.parameters else np.zeros(1)
    grams = tuple(learner.search.gram(parameter) for parameter in parameters)
    gram = Mixture(parameters, grams, weights).combined()
    fit = learner.fit(empty, gram, None, MACHINE_TOL)
    return candidate(learner, parameters, (fit.rho, weights, fit.b), _machine_certificate(fit, empty.tiny), fit.steps)


def _machine_certificate(fit: MachineFit, tiny: float) -> Certificate:
    """Return the certificate of the learner: for its kernel weights, stationarity is all there is to miss."""
    scale = max(abs(fit.primal_value), tiny)
    kkt = KKTResiduals(fit.gap / scale, 0.0, 0.0, 0.0, 0.0)
    return Certificate.from_values(fit.primal_value, fit.dual_value, scale, kkt)
