"""Parameters in no unit: what ``alpha``, ``epsilon`` and ``delta`` stand for when left to the data.

A unit-free strength is a multiple of an empty-model strength: of the target, or of the permuted target, unrelated to
any kernel. With ``R`` the negative gradient of the loss at the best constant and ``P`` a permutation::

    max   = Omega*-threshold of u_m(R),     u_m(R) = sqrt(tr R' K_m R) / w_m
    noise = geometric mean over some P of the threshold of g u_m(P R)

How large permutations are on average over all orders needs none, and is what ``g`` makes of those drawn
(`permutations.py`).

**The remaining strength** is a fifth of the noise, and more if most kernels are noise. A strength removes about the
square from the fit of every relevant kernel, and lets noise kernels add their squared excess: with ``pi`` the share of
noise kernels, and ``n`` the norms of permuted targets, the sum of both,

    (1 - pi) lambda^2 + pi mean (n - lambda)_+^2,     is least where     (1 - pi) lambda = pi mean (n - lambda)_+.

``pi`` is twice the mean p-value over the kernels, less three standard deviations under permutations: few or correlated
columns do not raise the strength. Means of p-values vary by a third of the variation of the share above a half.

D. Donoho, I. Johnstone, "Ideal spatial adaptation by wavelet shrinkage", Biometrika 81 (1994), for that sum; J. Storey,
"A direct approach to false discovery rates", JRSS B 64 (2002), and S. Pounds, C. Cheng, "Robust estimation of the false
discovery rate", Bioinformatics 22 (2006), for the share.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy.special import bdtr

from manykernels.exceptions import InvalidInputError
from manykernels.objective.losses import Loss
from manykernels.objective.problem import Problem
from manykernels.objective.regularizers import BlockL1, Regularizer
from manykernels.validation.arrays import Array, check_positive

AUTO = "auto"
NOISE_SHARE = 0.2  # of the strength at which noise leaves an empty model; chosen by benchmarks/defaults.py
MOST_NOISE_SHARE = 0.5  # where all kernels seem to be noise: what they say together may be hidden in each
N_PERMUTATIONS = 19  # of which the unit is the mean; a target that is noise is above all of them in one of 20 cases
CLEARLY = 3.0  # standard deviations of permuted targets from the closest of them, at which a target is no noise
BLOCK = 2**16  # kernels that are compared at once
SAME = 1e-12  # spread of norms below which they are equal but for rounding
SIGNIFICANT = 0.05  # p-value up to which a relation is no noise
IN_UNIT_SPREAD = {"epsilon": 0.1, "delta": 1.35}  # sizes of errors for a target of standard deviation 1
RELATIVE = re.compile(r"\s*([0-9.]+(?:[eE][-+]?[0-9]+)?)\s*\*\s*(max|noise)\s*")


@dataclass(frozen=True)
class RelativeStrength:
    """A strength as a multiple of a data-dependent strength."""

    factor: float
    unit: str  # the strength at which the model of the target is empty, or that of permuted targets
    at_least: bool = False  # and more where that lets in more noise than it spares of the truth

    def about(self, n_samples: int) -> float:
        """Return the approximate fraction of the strength of the empty model."""
        return self.factor if self.unit == "max" else default_fraction(n_samples) * self.factor / NOISE_SHARE


def check_alpha(alpha: object) -> None:
    """Raise ``InvalidInputError`` unless ``alpha`` is a positive number, "auto", or text like "0.3*noise"."""
    if isinstance(alpha, str):
        relative_strength(alpha)
    else:
        check_positive(alpha, "alpha")


def relative_strength(alpha: object) -> RelativeStrength | None:
    """Return the relative strength of text like "0.1*max", "0.3*noise" or "auto", or None for a number."""
    if not isinstance(alpha, str):
        return None
    if alpha == AUTO:
        return RelativeStrength(NOISE_SHARE, "noise", at_least=True)
    found = RELATIVE.fullmatch(alpha)
    try:
        factor = check_positive(float(found[1] if found else "none"), "alpha")
    except ValueError as error:
        raise InvalidInputError(
            f"alpha must be a positive number, 'auto', or a positive multiple of the strength at which the model is "
            f"empty, of y ('0.1*max') or of y in random order ('0.3*noise'), got {alpha!r}."
        ) from error
    return RelativeStrength(factor, found[2] if found else "max")


def default_fraction(n_samples: int) -> float:
    """Return the fraction of the strength that leaves nothing to gain to take where no noise is measured.

    What noise adds to ``sum_i rho_i f(x_i)`` grows with the root of the number of samples, and that strength with the
    number itself.
    """
    max_share = 0.5  # over sqrt(n), of the strength at which the target does, where no noise is measured
    return max_share / float(np.sqrt(n_samples))


def number_or_auto(check: Callable[[Any], object]) -> Callable[[Any], object]:
    """Return the check of a parameter that also accepts "auto"."""
    return lambda value: None if isinstance(value, str) and value == AUTO else check(value)


@dataclass(frozen=True, eq=False)
class NoiseLevel:
    """How strongly kernels are related to a target, and to the same target in random order."""

    norms: Array  # (M,) float64: dual norms u_m at the empty model
    permuted: Array  # (n_permutations, M) float64: those of permuted targets, the first 19 of which are the unit
    loss: float  # of the best constant
    constant: bool  # whether the target has one value only
    scale: float = 1.0  # from norms of the first orders to those of all orders on average
    fitted: Array | None = None  # (1 + n_permutations,): how well the sum of the kernels fits; None if not asked

    def penalty(self, regularizer: Regularizer, factor: float, total_weight: float) -> Regularizer:
        """Return the penalty at a multiple of the empty-model strength of permuted targets."""
        if self.constant:
            return replace(regularizer, strength=factor * total_weight)
        return regularizer.relative(factor, self._first, self.loss)

    @property
    def _first(self) -> Array:
        """Norms of the permuted targets of the unit, rescaled to the mean over all permutations."""
        return self.scale * self.permuted[:N_PERMUTATIONS]

    def take(self, kernels: Sequence[int]) -> Self:
        """Return the level of some kernels, which may repeat."""
        return replace(self, norms=self.norms[kernels], permuted=self.permuted[:, kernels])

    def ratio(self, regularizer: Regularizer) -> float:
        """Return the strength over the empty-model strength of permuted targets; infinite without noise."""
        if self.constant or not self.permuted.any():
            return np.inf
        unit = regularizer.average_strength(self._first, self.loss)
        return regularizer.strength / unit if unit > 0 else np.inf

    def balance(self, regularizer: Regularizer) -> float:
        """Return the multiple of the unit with the least sum of entering noise and lost signal.

        At most `MOST_NOISE_SHARE`; zero where no strength empties the model, so that noise is not left out by any.
        """
        if self.constant or not self.permuted.any() or not np.isfinite(regularizer.strength_max(self.norms)):
            return 0.0
        noise, strength = self._share_of_noise, 0.0
        first = self._first
        newton_steps, balanced = 50, 1e-3  # to the strength that balances noise and truth; relative step that ends them
        for _ in range(newton_steps):  # from below: what enters is convex in the strength, so that no step goes too far
            entering = first > strength
            count = int(np.count_nonzero(entering))
            enters = float(first.sum(where=entering)) - count * strength
            short = noise * enters / first.size - (1.0 - noise) * strength
            slope = noise * count / first.size + 1.0 - noise
            if not short > balanced * slope * strength:
                break
            strength += short / slope
        return min(strength / BlockL1(1.0).average_strength(first, self.loss), MOST_NOISE_SHARE)

    @property
    def _share_of_noise(self) -> float:
        """Return a lower bound on the share of kernels unrelated to the target: 0 to 1."""
        some = slice(None, None, 1 + len(self.norms) // BLOCK)  # of a million kernels a part tells the share
        first = self.permuted[:N_PERMUTATIONS, some]
        told = first.max(axis=0) > 0
        first = first[:, told]
        own, *others = _ahead(np.vstack([self.norms[some][told], first]), first)
        spreads = 3.0  # standard deviations by which mean p-values may be less than they seem
        return float(np.clip(2.0 * (own - spreads * np.std(others)), 0.0, 1.0))

    @property
    def above(self) -> Array:
        """Whether a kernel is more strongly related to the target than to 95 % of the permuted targets, (M,) bool."""
        return _passed(self.norms, self.permuted)

    @property
    def significant(self) -> Array:
        """Whether a kernel is more strongly related to the target than any kernel is to permuted ones, (M,) bool: 95 %.

        Squares of norms are compared in standard deviations of every kernel. Of a target that is noise some kernel is
        beyond in 5 % of the cases, however many kernels there are.
        """
        standing = self._standing
        if standing is None:
            return np.zeros(len(self.norms), dtype=bool)
        own, largest, _ = standing
        return _passed(own, np.broadcast_to(largest[1:, None], self.permuted.shape))

    @cached_property
    def _standing(self) -> tuple[Array, Array, Array] | None:
        """Squares of norms in standard deviations from the mean of every kernel, of the target and of every order.

        Those of the target (M,), minus infinity for kernels that tell targets apart by rounding only; and the largest
        one and the mean over kernels of the target and all orders, (1 + n_permutations,). None where no kernel tells.
        """
        largest = np.full(1 + len(self.permuted), -np.inf)
        total, count, own = np.zeros(len(largest)), 0, np.full(len(self.norms), -np.inf)
        least = SAME * max(float(self.norms.max()), float(self.permuted.max())) ** 2
        for start in range(0, 0 if self.constant else len(own), BLOCK):
            block = slice(start, start + BLOCK)
            squares = np.vstack([self.norms[block], self.permuted[:, block]]) ** 2
            spread = squares.std(axis=0)
            told = spread > least
            if told.any():
                away = ((squares - squares.mean(axis=0)) / np.where(told, spread, 1.0))[:, told]
                own[block][told] = away[0]
                largest, total = np.maximum(largest, away.max(axis=1)), total + away.sum(axis=1)
                count += away.shape[1]
        return (own, largest, total / count) if count else None

    @cached_property
    def relations(self) -> Array:
        """How strongly the target, and every permuted one, is related to the kernels, (3 or 4, 1 + n_permutations).

        Every measure is in units of the spread: the largest norm, typical of a wide kernel; the largest norm in
        standard deviations of the kernel, typical of a narrow kernel; the mean, sensitive to many weak effects; and on
        request the fit of the kernel sum, sensitive to rough functions.
        """
        standing, more = self._standing, [] if self.fitted is None else [self.fitted]
        if standing is None:
            return np.zeros((3 + len(more), 1 + len(self.permuted)))
        measures = np.array([np.r_[self.norms.max(), self.permuted.max(axis=1)], *standing[1:], *more])
        spread = measures.std(axis=1, keepdims=True)
        return measures / np.where(spread > 0, spread, 1.0)


def _ahead(norms: Array, noise: Array) -> Array:
    """Return the share of all noise norms (n_permutations, M) above the norms (k, M) of a target, (k,)."""
    above = np.zeros(len(norms))
    step = max(BLOCK // (len(norms) * len(noise)), 1)
    for start in range(0, norms.shape[1], step):
        own, others = norms[:, None, start : start + step], noise[None, :, start : start + step]
        for bound in (own * (1.0 + SAME), own * (1.0 - SAME)):  # equal ones count half
            above += np.count_nonzero(others > bound, axis=(1, 2))
    return above / (2.0 * max(noise.size, 1))


def _passed(values: Array, noise: Array) -> Array:
    """Return whether values (M,) exceed 95 % of the noise values (n_permutations, M), counting themselves."""
    return np.asarray(1 + (noise >= values).sum(axis=0) <= SIGNIFICANT * (1 + len(noise)) * (1 + SAME))


def p_value(levels: Sequence[NoiseLevel]) -> float:
    """Return the share of targets, permuted or not, that are as strongly related to the kernels unchanged.

    The most extreme measure of a target counts; for ties, with few permutations, the sum of both largest relations. All
    targets are treated alike, so the rank of a noise target is uniform: at most 0.05 in 5% of the cases. Several
    targets are permuted together, with summed measures.
    """
    total = np.sum([level.relations for level in levels], axis=0)
    ahead = np.max([np.searchsorted(np.sort(measure), measure) for measure in total], axis=0)  # of so many targets
    largest = total[0] + total[1]
    return float(np.mean((ahead > ahead[0]) | ((ahead == ahead[0]) & (largest >= largest[0]))))


def attributes_of_noise(n_problems: int, one: bool, levels: Sequence[NoiseLevel]) -> dict[str, Any]:
    """Return the fitted attributes of the noise levels; ``one``: of all targets together."""
    own = levels[:n_problems]
    chances, above = np.array([p_value([level]) for level in own]), np.array([level.above for level in own])
    return {
        "noise_p_value_": chances[0] if one else chances,
        "above_noise_": above[0] if one else above,
        "_beyond_noise": np.any([level.significant for level in own], axis=0),  # for some class or target
        "_noise_p_value": float(chances[0]) if len(own) == 1 else p_value(own),  # of all classes or targets together
    }


def set_strength(problem: Problem, level: NoiseLevel, asked: RelativeStrength, share: float = 1.0) -> Problem:
    """Return the problem with the penalty at a share of the data-dependent strength."""
    if asked.unit == "max":
        return problem.at_fraction(share * asked.factor)
    factor = asked.factor
    if asked.at_least:
        factor = max(factor, level.balance(problem.regularizer)) * lightness(problem)
    return problem.with_penalty(level.penalty(problem.regularizer, share * factor, problem.total_weight))


def lightness(problem: Problem) -> float:
    """Return how much larger noise would be if samples of all labels weighed the same in the mean, at least 1.

    Nearly vanishing weights of a label leave little gain for noise and signal, so a closer fit is useless. Norms of
    noise grow with the length of the dual coefficients.
    """
    loss: Any = problem.loss
    if loss.task != "classification" or not np.ptp(problem.weight) > 0:
        return 1.0
    label = np.unique(problem.y, axis=0, return_inverse=True)[1].ravel()
    means = np.bincount(label, weights=problem.weight) / np.bincount(label)
    alike = replace(problem, sample_weight=problem.weight / means[label])
    own, other = (np.linalg.norm(each.empty_coefficients) / each.total_weight for each in (problem, alike))
    return max(float(other / own), 1.0) if own > 0 else 1.0


def clear(levels: Sequence[NoiseLevel]) -> bool:
    """Whether targets stand out so far from a few orders that more of them would tell the same.

    By the largest norm, or by the mean over kernels: the distance to the closest order is several times their spread,
    which it is of a single target of noise in about a thousand.
    """
    total = np.sum([level.relations for level in levels], axis=0)[[0, 2]]
    orders = total[:, 1:]
    return bool((total[:, 0] - orders.max(axis=1) > CLEARLY * orders.std(axis=1)).any())


def is_clear(levels: Sequence[NoiseLevel]) -> bool:
    """Whether targets are told from noise: clear, or behind so few orders as noise at the limit would be rarely.

    Noise that is told so and would not be by many more orders is a single target in two thousand.
    """
    n_orders = len(levels[0].permuted)
    behind = round(p_value(levels) * (1 + n_orders)) - 1
    return clear(levels) or bool(bdtr(behind, n_orders, SIGNIFICANT) <= SIGNIFICANT)


def set_error_sizes(loss: Loss, given: Mapping[str, Any], target: Array, weight: Array) -> Loss:
    """Return the loss with the error sizes left open by ``given`` in standard deviations of the target."""
    left_open = [name for name in IN_UNIT_SPREAD if hasattr(loss, name) and given.get(name) == AUTO]
    if not left_open:
        return loss
    unit = _spread(target, weight)
    return replace(loss, **{name: IN_UNIT_SPREAD[name] * unit for name in left_open})


def _spread(target: Array, weight: Array) -> float:
    """Return the weighted standard deviation of a target, or the root mean square of several; 1 if all are constant."""
    top = float(np.abs(target).max())
    if not top > 0:
        return 1.0
    scaled = target / top  # squares of very large or small targets would leave the range of float64
    deviations = scaled - np.average(scaled, axis=0, weights=weight)
    return top * float(np.sqrt(np.mean(np.average(np.square(deviations), axis=0, weights=weight)))) or 1.0


def strength_from_alpha(alpha: float | str, total_weight: float) -> float:
    """Return the strength for an objective of ``total_weight`` times (mean loss + alpha times unit penalty)."""
    return check_positive(alpha, "alpha") * check_positive(total_weight, "total_weight")


def alpha_from_strength(strength: float, total_weight: float) -> float:
    """Return the ``alpha`` of the estimators for a strength; the inverse of `strength_from_alpha`."""
    return check_positive(strength, "strength") / check_positive(total_weight, "total_weight")
