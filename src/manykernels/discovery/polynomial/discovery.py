"""SGD-1s over polynomial kernels: draw interactions by gradient, then solve exactly and certify."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cache, partial
from math import ceil
from numbers import Integral
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from manykernels.discovery.base import (
    Discovery,
    Found,
    Limits,
    SearchProblem,
    drop_empty,
    random_generator,
    resolve_limits,
    run_search,
    solve_quietly,
)
from manykernels.discovery.polynomial.descent import MirrorDescent
from manykernels.discovery.polynomial.family import PolynomialFamily
from manykernels.discovery.polynomial.family_norm import BUDGET
from manykernels.discovery.polynomial.lasso_path import Tuned, WeightedLasso, adaptive_penalties, tune_strengths
from manykernels.discovery.polynomial.product_bases import GramBase, Index, ProductBase, RankOneBase, check_normalize
from manykernels.discovery.polynomial.search import PolynomialSearch
from manykernels.exceptions import InvalidInputError, MemoryBudgetError
from manykernels.grams import RankOneStack
from manykernels.grams.plan import format_bytes, memory_bytes, stack_nbytes, working_nbytes
from manykernels.kernels import Interaction, KernelSpec, Linear, Scaled
from manykernels.kernels.specs.distances import MedianDistances
from manykernels.kernels.specs.interaction import Part
from manykernels.objective.problem import Problem
from manykernels.solvers import Status
from manykernels.solvers.run import interrupted
from manykernels.validation.arrays import Array, check_count, check_positive
from manykernels.validation.parameters import RandomSource, check_flag, check_random_state

# The adaptive second step: the problem once more on what was selected, small parts penalized more than large ones.


def second_step(search: PolynomialSearch, first_step: Discovery, mu: float | None = None) -> Discovery:
    """Return the model with penalties ``w_m / ||f_m||`` on the kernels found, the rest left out.

    The certificate is for the second problem, with infinite penalties of all other kernels. ``mu`` is the strength in
    lasso form; by default the strength of the first.
    """
    first, family = first_step.solution, search.family
    if not first_step.kernels:
        return first_step
    stack = family.base.stack([search.index_of[kernel] for kernel in first_step.kernels])
    norms = first.kernel_weights * np.sqrt(stack.quad(first.dual_coef))
    least_norm = 1e-8  # of the largest: kernels of smaller norm are no part of the second step
    kept = np.flatnonzero(norms > least_norm * norms.max())
    kernels, stack = tuple(first_step.kernels[m] for m in kept), stack.take(kept)
    first_penalties = family.penalties([search.index_of[kernel] for kernel in kernels])
    penalties = adaptive_penalties(first_penalties, norms[kept])
    problem = replace(search.problem, stack=stack, kernel_penalties=penalties)
    if mu is not None:
        problem = replace(problem, regularizer=family.regularizer(_strength(problem, penalties, mu)))
    second_tol = 1e-8  # gap of the second step, on few kernels
    try:
        second = solve_quietly(problem, min(second_tol, search.tol))
    except KeyboardInterrupt:  # the model of the first step is whole
        return Discovery(first_step.kernels, replace(first, status=Status.INTERRUPTED))
    if first.status is not Status.CONVERGED:
        second = replace(second, status=first.status, message=first.message)
    return drop_empty(Discovery(kernels, second))


def _strength(problem: Problem, penalties: Array, mu: float) -> float:
    """Return the strength of the squared penalty with the optimum of a lasso on features."""
    features = cast("RankOneStack", problem.stack).features
    given: Any = lambda *_: features  # noqa: E731  # there are no other products
    data = (problem.y, problem.weight, problem.fit_intercept)
    lasso = WeightedLasso(*data, given, lambda _: penalties, lambda *_: ((), np.zeros(0)), given)
    coefficients = lasso.solve(mu, ((),) * len(features), np.zeros(len(features)))[0]
    size = float(penalties @ np.abs(coefficients))
    strength: float = problem.regularizer.strength
    return mu / size if size > 0 else strength


def check_gram_memory(n_base: int, n_samples: int) -> None:
    """Reject Gram matrices of base kernels beyond the memory, before allocation."""
    nbytes, working = stack_nbytes("dense", n_base, n_samples, "float64"), working_nbytes(n_base, n_samples)
    budget = memory_bytes(None)
    if nbytes + working > budget:
        raise MemoryBudgetError(
            f"The Gram matrices of {n_base} base kernels on {n_samples} samples take {format_bytes(nbytes)} besides "
            f"{format_bytes(working)} of working arrays, but the memory budget is "
            f"{format_bytes(budget)}. Use fewer samples or base kernels, or linear base kernels of single columns, "
            f"which need one vector each."
        )


ADVICE = "Raise max_kernels, n_steps or max_iter, take p nearer to 1 (a sparser model), or increase alpha."


@dataclass(frozen=True, eq=False)
class PolynomialDiscovery(Discovery):
    """A discovery that also says how the dual bound was found.

    Attributes
    ----------
    method : str
        How the dual bound was found: "enumeration" or "identity" (the exact norm over the family) or "bound" (an upper
        bound on it).
    n_family : int
        Number of ordered products in the family; ``n_distinct`` without permutations.
    n_distinct : int
    strength : float
        ``lambda``, as given or chosen.
    """

    method: str
    n_family: int
    n_distinct: int
    strength: float


def discover_polynomial(
    problem: SearchProblem,
    *,
    degree: int = 3,
    p: float = 1.0,
    degree_penalties: ArrayLike | None = None,
    base: KernelSpec | Sequence[Part] | None = None,
    normalize: str | None = "power",
    n_steps: int = 100,
    step_size: float | None = None,
    batch: int = 1,
    step_scale: float = 1.0,
    restarts: int = 0,
    polish: bool = True,
    folds: int | None = None,
    adaptive: bool = False,
    max_kernels: int = 500,
    budget: float = BUDGET,
    limits: Limits | None = None,
    random_state: RandomSource = 0,
) -> PolynomialDiscovery:
    """Learn a weighted sum of products of at most D base kernels, out of all.

    Solves, over all ordered products ``K_i = K_{j1} o ... o K_{jd}`` with ``0 <= d <= D``::

        min_{f,b}  sum_n s_n l(y_n, f_n + b) + (lambda/2) min_theta sum_i rho_d^2 ||f_i||^2 / theta_i

    with ``theta >= 0`` and ``||theta||_p <= 1``.

    Stochastic mirror descent (SGD-1s) takes ``n_steps`` steps, a single product each, drawn with Algorithm 3, and
    averages the iterates. With ``polish``, the problem is then solved exactly on the kernels found, those that violate
    the optimality conditions most are added, and so on; at ``p = 1`` with the squared loss and linear base kernels,
    where the problem is a lasso, the path is followed down to the strength instead of the descent. Every certified
    model is compared with the dual bound over the whole family; the search stops once the relative gap is at most
    ``limits.tol``.

    Parameters
    ----------
    problem : SearchProblem
        Without a strength if there are ``folds``.
    degree : int, default=3
        ``D``.
    p : float, default=1.0
        Between 1 (few kernels) and 2 (all kernels, the choice of the source).
    degree_penalties : (D + 1,) array or None, default=None
        ``rho_d``, all one by default; larger values for higher degrees make interactions rarer.
    base : KernelSpec, sequence of (KernelSpec, columns) or None, default=None
        Base kernels: linear in every column by default, a single kernel on every column, or any kernels on any columns.
    normalize : {"power", "centered"} or None, default="power"
        "power" divides every power of a column by the respective root mean square, so a product of powers of columns
        that are independent has mean square 1; the power of another base kernel is divided by the mean diagonal.
        "centered" takes the mean of every power off first (linear base kernels only). None leaves products unchanged,
        which makes cubes of columns cheap and products of different columns dear.
    n_steps : int, default=100
        Steps of the mirror descent.
    step_size : float, optional
        Constant step, relative to the inverse gradient norm at zero; by default steps adapt to the gradients.
    batch : int, default=1
        Products drawn a step: they share the sums over all products, and a single solution.
    step_scale : float, default=1.0
        Multiplier of adaptive steps.
    restarts : int, default=0
        How often the descent begins anew from the average so far, after equal numbers of steps.
    polish : bool, default=True
        Whether to solve exactly on the kernels found and add violators.
    folds : int, optional
        Number of parts of the samples for a cross-validation that chooses the strength, by the geometric mean of the
        parts' squared errors; for the squared loss, ``p = 1`` and linear base kernels.
    adaptive : bool, default=False
        Whether a second step solves the problem anew on the kernels selected, every penalized by ``w_m / ||f_m||``:
        what is large is shrunk hardly, what is small more likely left out. The certificate is that of the problem, in
        which all other kernels of the family have infinite penalties. With ``folds``, the strength is chosen as well.
    max_kernels : int, default=500
        Most kernels of the polished model.
    budget : float
        Most multiplications to spend on one dual bound; it decides between enumeration, identity and bound. With a
        time limit, each has a share of the time left as well.
    limits : Limits, optional
        When to stop: at a gap of 1e-2 or after 30 rounds of polishing (``max_iter``; the steps before are not counted).
    random_state : int, RandomState, Generator or None, default=0

    Raises
    ------
    InvalidInputError
        If data or a parameter are not what they should be, or products of the columns overflow.
    MemoryBudgetError
        If the Gram matrices of base kernels not linear do not fit.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels.discovery import SearchProblem, discover_polynomial
    >>> X = np.random.default_rng(0).normal(size=(80, 6))
    >>> problem = SearchProblem(X, X[:, 0] * X[:, 1] ** 2, strength=0.1, names=list("abcdef"))
    >>> found = discover_polynomial(problem, p=1.0, random_state=0)
    >>> found.kernels[found.solution.kernel_weights.argmax()].name, found.n_distinct
    ('a x b x b', 84)

    Notes
    -----
    Afkanpour (2013), sections 4.1 and 4.2, problem (2.9) with ``nu = p``.
    """
    points, strength, polish = problem.points, problem.strength, check_flag(polish, "polish")
    parts, normalize = base_parts(points, base), check_normalize(normalize)
    family = PolynomialFamily.create(product_base(points, parts, normalize), degree, degree_penalties, p)
    if family.p > 2:
        raise InvalidInputError(f"p must lie between 1 and 2, got {p!r}.")
    n_steps, max_kernels = check_count(n_steps, "n_steps"), check_count(max_kernels, "max_kernels")
    descent = _descent(n_steps, step_size, batch, step_scale, restarts)
    # An integer seeds the generator of the draws directly.
    source = check_random_state(random_state)
    rng = np.random.default_rng(int(source)) if isinstance(source, Integral) else random_generator(source)
    budget, tuned, pressed = check_positive(budget, "budget"), None, False
    if strength is None and folds is None:
        raise InvalidInputError("Pass a strength, or folds for cross-validation.")
    penalty = family.regularizer(1.0 if strength is None else strength)
    shell = problem.replace_stack(family.base.stack([()]), penalty, family.penalties([()]))
    if folds is not None:
        folds = check_count(folds, "folds")
        tuned, pressed = _cross_validate(shell, family, normalize, folds, check_flag(adaptive, "adaptive"), rng)
        shell = replace(shell, regularizer=family.regularizer(tuned.strength))
    limits = resolve_limits(limits, Limits(tol=1e-2, max_iter=30))
    rounds, tol = limits.max_iter if polish else 0, limits.tol
    found_kernel = _namer(family.base, parts, problem.names)
    search = PolynomialSearch(family, shell, found_kernel, rng, tol, max_kernels, budget, limits.time_limit)
    whole = replace(limits, max_iter=rounds + n_steps, name="polynomial search")
    with interrupted() if pressed else nullcontext():
        discovery = run_search(
            search.candidates(n_steps, descent, rounds, tuned.indices if tuned else ()), whole, shell
        )
    discovery, method = (
        _add_advice(discovery, tol, search),
        search.method(discovery.solution.certificate.dual),
    )
    if check_flag(adaptive, "adaptive") and (tuned is None or tuned.second_mu is not None):
        discovery = second_step(search, discovery, None if tuned is None else tuned.second_mu)
    chosen: float = shell.regularizer.strength
    return PolynomialDiscovery(
        discovery.kernels, discovery.solution, method, family.n_ordered, family.n_kernels, chosen
    )


def _cross_validate(shell: Problem, *given: Any) -> tuple[Tuned, bool]:
    """Return the choice of cross-validation; after Ctrl-C any strength with the empty model."""
    try:
        return tune_strengths(shell, *given), False
    except KeyboardInterrupt:
        return Tuned(shell.total_weight, (), None), True


def _descent(
    n_steps: int, step_size: float | None, batch: int, step_scale: float, restarts: int
) -> Callable[..., MirrorDescent]:
    """Return a factory for the mirror descent of a problem, with checked parameters."""
    if step_size is not None:
        step_size = check_positive(step_size, "step_size")
    batch, scale = check_count(batch, "batch"), check_positive(step_scale, "step_scale")
    after = ceil(n_steps / (restarts + 1)) if check_count(restarts, "restarts", least=0) else 0
    return partial(MirrorDescent, step_size=step_size, batch=batch, scale=scale, restart_after=after)


def base_parts(points: Array, base: KernelSpec | Sequence[Part] | None) -> list[Part]:
    """Return the base kernels with their columns, widths resolved on the points."""
    spec = Linear() if base is None else base
    if isinstance(spec, str) or not isinstance(spec, (KernelSpec, Iterable)):
        raise InvalidInputError(
            f"base must be None, a kernel such as Gaussian(1.0) or a list of pairs (kernel, columns), got {base!r}."
        )
    parts = [(spec, (j,)) for j in range(points.shape[1])] if isinstance(spec, KernelSpec) else list(spec)
    if not parts:
        raise InvalidInputError("A polynomial family needs at least one base kernel.")
    checked = Interaction(tuple(parts))
    checked.check_columns(points.shape[1], "the base kernel")
    return [(spec.resolve(MedianDistances(points[:, list(at)])), at) for spec, at in checked.parts]


def product_base(points: Array, parts: Sequence[Part], normalize: str | None = None) -> ProductBase:
    """Return the base kernels on the points; features only if all are linear in a single column."""
    if all(isinstance(spec, Linear) and len(columns) == 1 for spec, columns in parts):
        features = np.ascontiguousarray(points[:, [columns[0] for _, columns in parts]].T)
        return RankOneBase(features, normalize)
    if normalize == "centered":
        raise InvalidInputError(
            "normalize='centered' needs base kernels that are linear in one column each; other kernels have no column "
            "powers to center. Use normalize='power'."
        )
    check_gram_memory(len(parts), len(points))
    grams = np.empty((len(parts), len(points), len(points)))
    for gram, (spec, columns) in zip(grams, parts, strict=True):
        gram[:] = spec(points[:, list(columns)])
    return GramBase(grams, normalize, overwrite=True)


def _namer(base: ProductBase, parts: Sequence[Part], known: Sequence[str]) -> Callable[[Index], Found]:
    """Return a factory for kernels of multi-indices, named after the columns."""

    @cache
    def create_kernel(index: Index) -> Found:
        columns = tuple(sorted({column for j in index for column in parts[j][1]}))
        places = {column: at for at, column in enumerate(columns)}
        factors, factor = base.factors(index, parts)
        local = tuple((spec, tuple(places[column] for column in at)) for spec, at in factors)
        spec: KernelSpec = Interaction(local)
        name = Interaction(local).named([known[column] for column in columns])
        if len(local) == 1 and local[0][1] == tuple(range(len(columns))):
            spec = local[0][0]
        return Found(name, spec if factor == 1 else Scaled(spec, factor), columns or (0,))

    return create_kernel


def _add_advice(discovery: Discovery, tol: float, search: PolynomialSearch) -> Discovery:
    """Add advice for a search that ended above the tolerance."""
    solution = discovery.solution
    if solution.status not in (Status.STALLED, Status.MAX_ITER):
        return discovery
    status = Status.MAX_ITER if search.all_rounds else Status.STALLED
    message = (
        f"The polynomial search stopped ({status}) at relative duality gap {solution.certificate.relative_gap:.2e} "
        f"over the whole family, above tol {tol:.2e}. {ADVICE}"
    )
    return Discovery(discovery.kernels, replace(solution, status=status, message=message))
