"""What a search may try, down to a strength: penalties, or mixtures of kernels.

A mixture has the participating kernels, their weights, and the degree of selection.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike

from manykernels.estimators.strength import strength_from_alpha
from manykernels.estimators.supervised.problems import Fit
from manykernels.estimators.supervised.samples import kernel_factors
from manykernels.exceptions import InvalidInputError
from manykernels.grams.plan import FEW_COEFFICIENTS
from manykernels.grams.training import total_rank
from manykernels.kernels.bank.columns import Table
from manykernels.kernels.bank.grids import BY_RELEVANCE, OF_CODES
from manykernels.objective.regularizers import (
    BlockL1,
    ElasticNet,
    Penalty,
    Regularizer,
    Ridge,
    check_penalty,
    get_regularizer,
    parameters_of,
    set_l1_ratio,
)
from manykernels.validation.arrays import check_count, check_positive

if TYPE_CHECKING:
    from manykernels.estimators.selection.folds import OpenedKernels
    from manykernels.grams.factored import FactoredStack
    from manykernels.kernels import FittedBank
    from manykernels.objective.problem import Problem
    from manykernels.validation.arrays import Array


@dataclass(frozen=True)
class PenaltyFamily:
    """A penalty of which only the strength is open: a name or mapping with parameters, or an object.

    ``factors`` are kernel penalties ; None uses the penalties of the problems.
    """

    penalty: Penalty
    parameters: dict[str, Any]
    factors: Any = None

    def __post_init__(self) -> None:
        check_penalty(self.penalty)
        if not isinstance(self.penalty, (str, Mapping)) and self.parameters:
            raise InvalidInputError(f"{self.penalty!r} already has its parameters; drop {sorted(self.parameters)}.")

    def create_penalty(self, alpha: float, total_weight: float) -> Regularizer:
        """Return the penalty of strength ``alpha`` relative to the mean loss, for samples of the total weight."""
        if not isinstance(self.penalty, (str, Mapping)):
            return replace(self.penalty, strength=strength_from_alpha(alpha, total_weight))
        return get_regularizer(self.penalty, strength_from_alpha(alpha, total_weight), **self.parameters)

    @property
    def l1_ratio(self) -> float | None:
        """The mixture of linear and other terms, None if undefined."""
        ratio = getattr(self.create_penalty(1.0, 1.0), "l1_ratio", np.nan)
        return None if np.isnan(ratio) else float(ratio)

    @property
    def averages(self) -> bool:
        """Whether the weights of kernels are given: solvers know of penalties with a name."""
        return False

    def pose_problems(self, problems: list[Problem], names: tuple[str, ...]) -> list[Problem]:
        """Return the problems under the kernel penalties of the family."""
        if self.factors is None:
            return problems
        return [replace(problem, kernel_penalties=kernel_factors(self.factors, names)) for problem in problems]

    def embed(self, fit: Fit, problems: Sequence[Problem]) -> Fit:
        """Return the solutions unchanged, since they are on all kernels."""
        return fit

    def penalties(self, strength: float, opened: OpenedKernels) -> list[Regularizer]:
        """Return the penalty of every problem at a strength relative to the mean loss of some rows."""
        return [self.create_penalty(strength, opened.samples.total_weight)] * len(opened.problems)

    @property
    def unit(self) -> Regularizer:
        """A penalty of the mixture."""
        return self.create_penalty(1.0, 1.0)

    def describe_strength(self, strength: float) -> dict[str, Any]:
        """Return the table columns of a strength."""
        ratio = {} if self.l1_ratio is None else {"l1_ratio": self.l1_ratio}
        factors = {} if self.factors is None else {"kernel_penalties": str(dict(self.factors))}
        return {"alpha": strength} | ratio | factors

    def settings(self, strength: float) -> dict[str, Any]:
        """Return the estimator parameters of the model at a given strength."""
        return {"alpha": strength} | ({} if self.factors is None else {"kernel_penalties": self.factors})

    def alpha_max(self, problems: list[Problem]) -> float:
        """Smallest ``alpha`` of empty models in all problems, regardless of their penalties.

        Zero where the best constants leave nothing to gain.
        """
        unit = self.create_penalty(1.0, 1.0)
        posed = [problem.with_penalty(unit) for problem in problems]
        # What a pass over the model without kernels finds stays with the problem, which every penalty begins with.
        asked = [
            problem if np.array_equal(problem.unpenalized, one.unpenalized) else one
            for problem, one in zip(problems, posed, strict=True)
        ]
        norms = (problem.zero_rounding(problem.empty_norms()) for problem in asked)
        starts = (p.regularizer.path_start(own) / p.total_weight for p, own in zip(posed, norms, strict=True))
        largest = max(starts)
        if not np.isfinite(largest):
            raise InvalidInputError(
                f"Under penalty {self.penalty!r} with {self.parameters} every kernel has a weight at any strength, so "
                "no alpha is the largest to start from: give alphas, for example numpy.geomspace(10, 1e-3, 25)."
            )
        return float(largest)


def penalty_families(penalty: Penalty, parameters: dict[str, Any], l1_ratios: ArrayLike | None) -> list[PenaltyFamily]:
    """Return a penalty with the parameters, for every candidate ratio."""
    named = "l1_ratio" in parameters_of(penalty)
    if l1_ratios is None or not (named or set_l1_ratio(penalty, 0.5) != set_l1_ratio(penalty, 1.0)):
        return [PenaltyFamily(penalty, parameters | ({"l1_ratio": 0.5} if named else {}))]
    return [
        PenaltyFamily(set_l1_ratio(penalty, ratio), parameters | ({"l1_ratio": ratio} if named else {}))
        for ratio in np.ravel(l1_ratios).astype(float).tolist()
    ]


def candidate_penalties(kernel_penalties: Any) -> list[Any] | None:
    """Return the kernel penalties to be tried in turn, None if any answer.

    Factors of kernels are a vector or a dictionary; to be tried is a list of dictionaries.
    """
    if not isinstance(kernel_penalties, (list, tuple)) or not any(isinstance(own, Mapping) for own in kernel_penalties):
        return None
    if not all(isinstance(own, Mapping) for own in kernel_penalties):
        raise InvalidInputError(
            "kernel_penalties to be tried are a list of dictionaries, such as [{'* x *': 1}, {'* x *': 2}]; got "
            f"{list(kernel_penalties)!r}."
        )
    return list(kernel_penalties)


def alpha_grid(alpha_max: float, n_alphas: int, alpha_min_ratio: float) -> Array:
    """Return a geometric grid from ``alpha_max`` down to ``alpha_min_ratio * alpha_max``."""
    check_count(n_alphas, "n_alphas")
    if not 0 < check_positive(alpha_min_ratio, "alpha_min_ratio") < 1:
        raise InvalidInputError(
            f"alpha_min_ratio, the smallest alpha over the largest, must be between 0 and 1, got {alpha_min_ratio!r}."
        )
    if not alpha_max > 0:
        raise InvalidInputError(
            "y or every kernel is constant, and the best model is a constant at any strength. Check y and the "
            "kernels, or give alphas."
        )
    grid = np.geomspace(alpha_max, alpha_min_ratio * alpha_max, n_alphas)
    grid[0] = alpha_max
    return grid


def check_alphas(alphas: Any) -> Array:
    """Return given strengths in decreasing order, or raise an error for invalid ones."""
    values = np.array(alphas, dtype=np.float64, ndmin=1)
    if values.ndim != 1 or values.size == 0:
        raise InvalidInputError(f"alphas must be a non-empty vector of strengths, got shape {values.shape}.")
    for value in values:
        check_positive(value, "every alpha")
    return -np.sort(-values)


EVERY = "all kernels"
NO_KERNELS = "no kernels"
MOST_KINDS = 6  # kinds of kernels, or views, that are each tried by themselves
MIXINGS = (1.0, 0.5, 0.0)  # from selection to averaging
MOST_SELECTED = 10  # targets or classes up to which kernels are selected for each; beyond, weights are drawn
MOST_AVERAGED = 4_000  # rows up to which averages are fitted on few factors; beyond, one average more says little
MOST_SUMMED = 1e9  # entries of all kernels among all rows up to which their average is tried where some are projected
MOST_DRAWS = 16  # random weights that are tried where there are many targets
CONCENTRATIONS = (0.1, 1.0)  # of the Dirichlet distributions that they come from, in turn

# Standard errors of the difference of two candidates over the folds: a candidate is ahead by half of one, and is given
# up where it is behind by a whole one (the rule of one standard error of L. Breiman and others, "Classification and
# regression trees", 1984; races of O. Maron, A. Moore, "Hoeffding races", NIPS 1993).
HALF_ERROR, ONE_ERROR = 0.5, 1.0
# Of many candidates one is ahead by luck, so what is special must show more evidence. How much of it changes little
# (benchmarks/evidence.py, benchmarks/records/accuracy.md).
EMPTY = -1.0  # the best constant, which everything must be ahead of, see `search.Evidence`
PLAIN = 0.0  # averages of all kernels, of those on several columns, and with weights that are drawn
SPECIAL = HALF_ERROR  # one kind of kernels alone, and what selects
NARROW = ONE_ERROR  # what leaves out columns (of precomputed kernels, kernels) that others read, as a view alone


@dataclass(frozen=True, eq=False)
class Mixture:
    """Kernels with relative weights, under a penalty between selection and averaging."""

    label: str
    weights: Array  # (M,) float64: relative weights; kernels of weight zero take no part
    # 1 selects kernels by the block 1-norm, 0 averages them by the squared norms, between them is an elastic net
    mixing: float
    # standard errors by which it must be ahead of all that is in less doubt; see PLAIN, SPECIAL and NARROW
    doubt: float = 0.0
    scales: tuple[Scale, ...] = ()  # of each target on all rows, a unit of weight: of folds in which nothing is gained

    def select_target(self, target: int) -> Mixture:
        """Return the mixture of a single target."""
        return self

    @cached_property
    def kernels(self) -> Array:
        """Positions of the participating kernels."""
        return np.flatnonzero(self.weights)

    @cached_property
    def penalty(self) -> str:
        """Name of the penalty."""
        return {0.0: "ridge", 1.0: "l1"}.get(self.mixing, "elasticnet")

    @cached_property
    def averages(self) -> bool:
        """Whether the weights of kernels are given."""
        return self.mixing == 0.0

    def pose(self, problem: Problem) -> Problem:
        """Return the problem on the kernels, read in place, with penalties in place of weights."""
        if (self.weights == 1.0).all():
            return problem
        kept = self.kernels
        penalties = problem.penalties[kept] / np.sqrt(self.weights[kept])
        stack: Any = problem.stack
        own = stack.take(kept) if stack.has_factors else stack.view(kept)
        return problem.replace_stack(own, kept, penalties)

    def pose_problems(self, problems: list[Problem], names: tuple[str, ...]) -> list[Problem]:
        """Return the problems on the kernels."""
        return [self.pose(problem) for problem in problems]

    def embed(self, fit: Fit, problems: Sequence[Problem]) -> Fit:
        """Return solutions on the kernels as models on all kernels: the rest have weight zero."""
        if len(self.kernels) == len(self.weights):
            return fit
        pairs = zip(problems, fit.problems, strict=True)
        whole = [problem.with_penalty(posed.regularizer) for problem, posed in pairs]
        solutions = [
            replace(
                found,
                kernel_weights=self._place(found.kernel_weights),
                kernel_norms=None if found.kernel_norms is None else self._place(found.kernel_norms),
                functions=self._renumber(found.functions, whole[0].stack),
            )
            for found in fit.solutions
        ]
        return Fit(whole, solutions, self._place(fit.norms))

    def _renumber(self, functions: Any, stack: Any) -> Any:
        """Return functions of factors with the numbers of the kernels among all; others unchanged."""
        if not stack.has_factors:
            return functions
        own = tuple(replace(part, kernel=int(self.kernels[part.kernel])) for part in functions.components)
        return replace(functions, stack=stack, components=own, start=None)

    def _place(self, values: Array) -> Array:
        placed = np.zeros((*values.shape[:-1], len(self.weights)))
        placed[..., self.kernels] = values
        return placed

    @property
    def unit(self) -> Regularizer:
        """A penalty of the mixture."""
        return Scale(self.mixing, 1.0, 1.0).create_penalty(1.0)

    def l1_ratios(self, opened: OpenedKernels) -> list[float]:
        """Return the share of the norms in the penalty of every target."""
        return [scale.l1_ratio for scale in self._scales_in(opened)]

    def scale_of(self, target: int, opened: OpenedKernels) -> Scale:
        """Return the scale of a single target on the opened rows."""
        return self._scales_in(opened)[target]

    def describe_strength(self, strength: float, opened: OpenedKernels) -> dict[str, Any]:
        """Return the columns of a table for a strength; over targets, alpha is a geometric mean."""
        alphas = self.strengths(strength, opened)
        return {
            "alpha": float(np.exp(np.mean(np.log(alphas)))) / opened.samples.total_weight,
            "kernels": self.label,
            "mixing": self.mixing,
            "l1_ratio": float(np.mean(self.l1_ratios(opened))),
            "fraction": strength,
        }

    def settings(self, strength: float) -> dict[str, Any]:
        """Return no parameters: a plain estimator has no mixture parameters."""
        return {}

    def penalties(self, strength: float, opened: OpenedKernels) -> list[Regularizer]:
        """Return the penalty of every target at a fraction of the strengths on the rows of a fold."""
        return [scale.create_penalty(strength) for scale in self._scales_in(opened)]

    def strengths(self, fraction: float, opened: OpenedKernels) -> Array:
        """Return the strengths of the penalties, rejected for targets without signal."""
        scales = self._scales_in(opened)
        if any(scale.empty for scale in scales):
            return np.array([penalty.strength for penalty in self.penalties(fraction, opened)])
        return np.array([sum(scale.parts(fraction)) for scale in scales])

    def _scales_in(self, opened: OpenedKernels) -> list[Scale]:
        """Return the scales of a fold; for targets without signal, the scales of all rows."""
        own = [self.scale(*each) for each in opened.empty]
        if len(self.scales) != len(own):  # a fold may lack a class
            return own
        share = opened.samples.total_weight
        return [other.times(share) if scale.empty else scale for scale, other in zip(own, self.scales, strict=True)]

    def scaled(self, whole: OpenedKernels) -> Mixture:
        """Return the mixture with the scales of all rows, irrelevant for targets without signal."""
        found = [self.scale(*model) for model in whole.empty]
        own = [Scale(self.mixing, 1.0, 1.0) if scale.empty else scale for scale in found]
        return replace(self, scales=tuple(scale.times(1.0 / whole.samples.total_weight) for scale in own))

    def scale(self, dual_norms: Array, loss: float) -> Scale:
        """Return the strength unit from the dual norms ``u`` and the loss of the best constant."""
        u = dual_norms[self.kernels] * np.sqrt(self.weights[self.kernels])
        return Scale(self.mixing, float(u.max(initial=0.0)), float(u @ u) / (2.0 * loss) if loss > 0 else 0.0)


@dataclass(frozen=True)
class Scale:
    """Strengths that leave next to nothing: of the norms, and of the squared norms.

    The first is the largest dual norm, the strength of the empty model; the second the strength with a maximal
    first-order gain, ``sum u^2 / (2 C)``, equal to the loss of the constant. Fractions of both are independent of the
    unit of the target.
    """

    mixing: float
    linear: float
    squared: float

    @property
    def empty(self) -> bool:
        """Whether nothing can be gained at any strength."""
        return not (self.linear > 0 and self.squared > 0)

    @property
    def l1_ratio(self) -> float:
        """The share of the norms in the penalty, at any fraction."""
        linear, squared = self.mixing * self.linear, (1.0 - self.mixing) * self.squared
        return linear / (linear + squared)

    def times(self, share: float) -> Scale:
        """Return the strengths for a share of the samples."""
        return Scale(self.mixing, share * self.linear, share * self.squared)

    def parts(self, fraction: float) -> tuple[float, float]:
        """Return the strengths of the norms and of the squared norms at a fraction: their sum is the penalty's."""
        return fraction * self.mixing * self.linear, fraction * (1.0 - self.mixing) * self.squared

    def create_penalty(self, fraction: float) -> Regularizer:
        """Return the penalty at a fraction of the strengths."""
        linear, squared = self.parts(fraction)
        if self.mixing == 1.0:
            return BlockL1(linear)
        if self.mixing == 0.0:
            return Ridge(squared)
        return ElasticNet(linear + squared, l1_ratio=linear / (linear + squared))


def mixtures_of(
    whole: OpenedKernels, l1_ratios: ArrayLike | None, spare: Sequence[Sequence[str]] = (), *, ridge: bool, seed: int
) -> tuple[list[Mixture], list[Mixture]]:
    """Return averages and selections to try on all rows; averages need a matrix among samples, or features.

    Mixtures without gain for any target are left out: kernels or y may be constant. ``spare`` are names of kernels
    added to the average of those on several columns, step by step.
    """
    training = whole.training
    apart = np.isin(whole.names, [name for names in spare for name in names])
    own = np.where(apart | [BY_RELEVANCE in name for name in whole.names], 0.0, 1.0)
    ratios = [
        ElasticNet(1.0, l1_ratio=float(ratio)).l1_ratio
        for ratio in np.ravel(MIXINGS if l1_ratios is None else l1_ratios)
    ]
    averages, selections = averages_of(training.bank, own, spare), selections_of(own, ratios)
    if whole.projects and len(own) * float(training.stack.n_samples) ** 2 > MOST_SUMMED and len(averages) > 1:
        averages = [mixture for mixture in averages if mixture.label != EVERY]
    if training.avoids_matrices and not _averages_on_factors(whole):
        averages = [mixture for mixture in averages if whole.averages(mixture) and 0.0 in ratios]
        if ridge:
            averages, selections = [Mixture(EVERY, own, 0.0)], []
        elif l1_ratios is None:
            selections = selections_of(own, [1.0])
    elif ridge or len(own) == 1:
        averages, selections = averages[:1], []
    else:
        if len(whole.problems) > MOST_SELECTED:
            averages, selections = averages + draw_averages(own, seed), []
        averages = averages if 0.0 in ratios else averages[:1]
    useful = [
        [own.scaled(whole) for own in kind if not all(own.scale(*model).empty for model in whole.empty)]
        for kind in (averages, selections)
    ]
    return useful[0], useful[1]


def _averages_on_factors(whole: OpenedKernels) -> bool:
    """Return whether averages are fitted like selections: for losses with kinks on few factors."""
    training, problem = whole.training, whole.problems[0]
    several = len(whole.problems) > 1 or problem.shared
    if problem.loss.smooth or several or not training.factored or problem.n_samples > MOST_AVERAGED:
        return False
    stack, table = cast("FactoredStack", training.stack), Table.wrap(whole.samples.rows, sparse=True)
    alone = all(len(stack.columns_of(m)) == 1 for m in range(stack.n_kernels)) and not stack.shaped
    return alone and not table.is_sparse and total_rank(table) <= FEW_COEFFICIENTS


def averages_of(bank: FittedBank, own: Array, spare: Sequence[Sequence[str]] = ()) -> list[Mixture]:
    """Return the averages worth a look: of all kernels, of the kernels on several columns, and of every kind or view.

    Parameters
    ----------
    bank : FittedBank
    own : ndarray of shape (M,)
        1 for every kernel, so each average is uniform under the user's own penalties; 0 for spare kernels.
    spare : sequence of sequences of str
        Names of kernels added to the average of those on several columns, sequence by sequence.
    """
    found: dict[bytes, Mixture] = {}
    positions = bank.table.positions if bank.on_columns else tuple((m,) for m in range(len(own)))

    def read(kernels: Array) -> set[int]:
        return {j for m in np.flatnonzero(kernels) for j in positions[m]}

    def add(label: str, kernels: Array, doubt: float) -> None:
        if kernels.any():
            doubt = NARROW if read(kernels) < read(everything) else doubt
            found.setdefault(kernels.tobytes(), Mixture(label, kernels.astype(np.float64), 0.0, doubt))

    everything = own > 0
    add(EVERY, everything, PLAIN)
    sizes = np.array([len(columns) for columns in positions])
    broad = everything & (sizes > 1) if (sizes > 1).any() else everything
    add("kernels on several columns", broad, PLAIN)
    added = np.zeros(len(own), dtype=bool)
    for names in spare:
        added |= np.isin(bank.names, names)
        label = f"kernels on several columns with {names[0].rpartition(': ')[2]}"
        add(label, broad | added, PLAIN)
    for parts in _named_parts(bank.names, views=bool(broad.all())):
        kinds = [np.array([part == kind for part in parts]) & broad for kind in dict.fromkeys(parts)]
        kinds = [kernels for kernels in kinds if kernels.any()]
        if 1 < len(kinds) <= MOST_KINDS:
            for kernels in kinds:
                add(parts[int(np.argmax(kernels))], kernels, SPECIAL)
    codes = np.array([BY_RELEVANCE + OF_CODES in name for name in bank.names])
    relevant = np.array([BY_RELEVANCE in name for name in bank.names]) & ~codes
    add("kernels by relevance", relevant, SPECIAL)
    add("kernels by relevance of codes", codes, SPECIAL)
    for m in np.flatnonzero(relevant | codes):
        add(bank.names[m], np.arange(len(own)) == m, SPECIAL)
    return list(found.values())


def plain_kernels(names: Sequence[str]) -> tuple[list[int], Array]:
    """Return the number of the plain counterpart of every kernel among the plain kernels, and 1 for plain kernels."""
    plain = [name for name in names if BY_RELEVANCE not in name]
    number = {name: k for k, name in enumerate(plain)}
    as_plain = [name.replace(BY_RELEVANCE + OF_CODES, "").replace(BY_RELEVANCE, "") for name in names]
    return [number[name] for name in as_plain], np.array([float(n in number) for n in names])


def _named_parts(names: Sequence[str], *, views: bool) -> list[list[str]]:
    """Return the common name pattern of views and kernels, ``view: kernel``; else the whole names."""
    if not all(": " in name for name in names):
        return [list(names)]
    after = [name.rpartition(": ")[2] for name in names]
    return [after, [name.rpartition(": ")[0] for name in names]] if views else [after]


def draw_averages(own: Array, seed: int) -> list[Mixture]:
    """Return averages with random weights on the simplex, sparse and dense in turn, for many targets at once."""
    rng = np.random.default_rng(seed)
    draws = [rng.dirichlet(np.full(len(own), CONCENTRATIONS[k % 2])) for k in range(MOST_DRAWS if len(own) > 1 else 0)]
    kept = [np.where(draw > 1e-3 * draw.max(), draw, 0.0) for draw in draws]
    return [Mixture(f"draw {k}", own * draw * len(own), 0.0) for k, draw in enumerate(kept)]


def nothing_of(own: Array) -> Mixture:
    """Return the empty model: all kernels, at the smallest strength without selection."""
    return Mixture(NO_KERNELS, own, 1.0, EMPTY)


def selections_of(own: Array, mixings: Sequence[float]) -> list[Mixture]:
    """Return the selecting mixtures of all kernels, the sparsest first."""
    return [Mixture(EVERY, own, mixing, SPECIAL) for mixing in sorted(mixings, reverse=True) if mixing > 0]
