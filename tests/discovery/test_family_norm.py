"""Algorithm 3 and the dual norms of a whole polynomial family, against enumeration of every ordered product."""

from __future__ import annotations

import tracemalloc
from itertools import combinations, combinations_with_replacement, pairwise, product
from math import comb

import numpy as np
import pytest
from scipy.stats import chisquare

from manykernels.discovery.polynomial import family_norm as enumeration
from manykernels.discovery.polynomial import family_norm as norms
from manykernels.discovery.polynomial.descent import InteractionSampler
from manykernels.discovery.polynomial.discovery import product_base
from manykernels.discovery.polynomial.family import PolynomialFamily, multiplicity
from manykernels.discovery.polynomial.product_bases import GramBase, RankOneBase
from manykernels.exceptions import InvalidInputError, MemoryBudgetError
from manykernels.kernels import Gaussian, Linear
from manykernels.solvers.run import OutOfTimeError, seconds_left

N = 9
RHO = np.array([1.0, 0.7, 1.5, 2.0, 3.0, 1.2])


def random_grams(rng: np.random.Generator, r: int) -> np.ndarray:
    factors = rng.normal(size=(r, N, 3))
    return factors @ factors.transpose(0, 2, 1)


def levels_of(kind: str, values: np.ndarray, degree: int) -> list[np.ndarray]:
    """Return the Gram matrices of every level, each (r, N, N), straight from the definition."""
    levels = []
    for a in range(1, degree + 1):
        powers = values**a
        if kind.endswith("centered"):
            powers = powers - powers.mean(axis=1, keepdims=True)
        grams = powers[:, :, None] * powers[:, None, :] if kind.startswith("columns") else powers
        sizes = np.einsum("jnn->jn", grams).mean(axis=1)[:, None, None] if "/" in kind else 1.0
        levels.append(grams / sizes)
    return levels


def make(kind: str, r: int, degree: int, p: float = 2.0, seed: int = 0) -> tuple[PolynomialFamily, list[np.ndarray]]:
    rng = np.random.default_rng(seed)
    name, _, normalize = kind.partition("/")
    values = rng.normal(size=(r, N)) if name == "columns" else random_grams(rng, r)
    base = (RankOneBase if name == "columns" else GramBase)(values, normalize or None)
    return PolynomialFamily.create(base, degree, RHO[: degree + 1], p), levels_of(kind, values, degree)


def brute_masses(levels: list[np.ndarray], degree: int, a: np.ndarray) -> dict[tuple[int, ...], float]:
    """``a'K_i a / rho_d^2`` of every ordered multi-index."""
    masses = {}
    for d in range(degree + 1):
        for index in product(range(len(levels[0])), repeat=d):
            gram = np.ones((N, N))
            for j in set(index):
                gram = gram * levels[index.count(j) - 1][j]
            masses[index] = float(a @ gram @ a) / RHO[d] ** 2
    return masses


KINDS = ["columns", "columns/power", "columns/centered", "grams", "grams/power"]
CASES = [(kind, r, degree) for kind in KINDS for r, degree in [(1, 4), (3, 3), (5, 4), (4, 1)]]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("kind", "r", "degree"), CASES)
def test_probabilities_are_those_of_enumeration(kind: str, r: int, degree: int) -> None:
    for seed in range(3 if r * degree < 15 else 1):
        family, grams = make(kind, r, degree, seed=seed)
        a = np.random.default_rng(seed + 100).normal(size=N)
        masses = brute_masses(grams, degree, a)
        total = sum(masses.values())
        sampler = InteractionSampler(family, a)
        distance = 0.5 * sum(abs(sampler.probability(index) - mass / total) for index, mass in masses.items())
        assert distance < 1e-12
        np.testing.assert_allclose(2 * sampler.gradient_norm, total, rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_draws_follow_the_probabilities(kind: str) -> None:
    family, grams = make(kind, 3, 3)
    a = np.random.default_rng(5).normal(size=N)
    masses = brute_masses(grams, 3, a)
    sampler, rng = InteractionSampler(family, a), np.random.default_rng(7)
    n_draws = 5_000
    counts = dict.fromkeys(masses, 0)
    for index in [sampler.draw(rng), *sampler.draws(rng, n_draws - 1)]:
        counts[index] += 1
    total = sum(masses.values())
    expected = {index: n_draws * mass / total for index, mass in masses.items()}
    rare = [index for index in masses if expected[index] < 5]
    groups = [[index] for index in masses if index not in rare] + ([rare] if rare else [])
    observed = [sum(counts[i] for i in group) for group in groups]
    wanted = [sum(expected[i] for i in group) for group in groups]
    assert len(wanted) > 10
    assert chisquare(observed, wanted).pvalue > 1e-3


def test_the_chi_square_test_notices_wrong_draws() -> None:
    family, _ = make("columns", 3, 2)
    sampler, rng = InteractionSampler(family, np.random.default_rng(5).normal(size=N)), np.random.default_rng(7)
    indices = [index for d in range(3) for index in product(range(3), repeat=d)]
    observed = np.bincount([indices.index(drawn) for drawn in sampler.draws(rng, 10_000)], minlength=len(indices))
    wrong = np.array([sampler.probability(index) for index in indices]) ** 0.8
    assert chisquare(observed, wrong / wrong.sum() * 10_000).pvalue < 1e-6


@pytest.mark.parametrize("p", [1.0, 1.2, 1.5, 2.0])
@pytest.mark.parametrize(("kind", "r", "degree"), CASES)
def test_the_norm_over_the_family_is_that_of_enumeration(kind: str, r: int, degree: int, p: float) -> None:
    family, grams = make(kind, r, degree, p)
    a = 3.0 * np.random.default_rng(3).normal(size=N)
    masses = brute_masses(grams, degree, a)
    values = np.array(list(masses.values()))
    expected = values.max() if p == 1 else np.sum(values ** (p / (p - 1))) ** ((p - 1) / p)
    found = norms.family_norm(family, a, n_largest=5)
    assert found.method == "enumeration"
    np.testing.assert_allclose(found.norm, expected, rtol=1e-11)
    scores = {i: m * multiplicity(i) ** ((p - 1) / p) for i, m in masses.items() if i == tuple(sorted(i))}
    best = sorted(scores, key=lambda i: -scores[i])[:5]
    np.testing.assert_allclose(found.scores, [scores[i] for i in best], rtol=1e-10)
    np.testing.assert_allclose([scores[i] for i in found.largest], found.scores, rtol=1e-10)


@pytest.mark.parametrize("kind", ["columns", "columns/power", "grams", "grams/power"])
def test_products_whose_score_is_zero_up_to_rounding_are_not_named(kind: str) -> None:
    """The constant product has no score on a centered vector: rounding alone would decide whether it is there."""
    family, _ = make(kind, 3, 2, p=1.0)
    for seed in range(20):
        a = np.random.default_rng(seed).normal(size=N)
        found = norms.family_norm(family, a - a.mean(), n_largest=100)
        assert () not in found.largest
        assert len(found.largest) == len(found.scores) == family.n_kernels - 1
        assert () in norms.family_norm(family, a, n_largest=100).largest


def test_many_panels_find_what_one_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    family, _ = make("columns", 7, 4, 1.5)
    a = np.random.default_rng(3).normal(size=N)
    whole = norms.family_norm(family, a, n_largest=50)
    monkeypatch.setattr(enumeration, "PANEL", 2)
    parts = norms.family_norm(family, a, n_largest=50)
    np.testing.assert_allclose(parts.norm, whole.norm, rtol=1e-13)
    np.testing.assert_allclose(parts.scores, whole.scores, rtol=1e-13)
    assert len(set(parts.largest)) == 50


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0])
@pytest.mark.parametrize("kind", KINDS)
def test_small_batches_find_what_large_ones_find(kind: str, p: float, monkeypatch: pytest.MonkeyPatch) -> None:
    family, _ = make(kind, 6, 4, p)
    a = np.random.default_rng(3).normal(size=N)
    whole = norms.family_norm(family, a, n_largest=30)
    monkeypatch.setattr(enumeration, "BATCH", 1)
    monkeypatch.setattr(enumeration, "FEWEST", 2)
    parts = norms.family_norm(family, a, n_largest=30)
    assert (whole.method, parts.method) == ("enumeration", "enumeration")
    np.testing.assert_allclose(parts.norm, whole.norm, rtol=1e-12)
    np.testing.assert_allclose(parts.scores, whole.scores, rtol=1e-12)


def test_batches_hold_every_product_once(monkeypatch: pytest.MonkeyPatch) -> None:
    family, _ = make("columns/power", 7, 5)
    base, a, levels = family.base, np.random.default_rng(3).normal(size=N), (1, 2, 1)
    monkeypatch.setattr(enumeration, "BATCH", 9 * N)
    parts = list(enumeration.batches(base, base.start(a), levels, 5))
    columns = [tuple(index) for part, _ in parts for index in part.tolist()]
    assert len(parts) > 3
    assert sorted(columns) == list(combinations(range(6), 3))
    expected = [
        a * np.prod([base.level(level)[j] for j, level in zip(index, levels, strict=True)], axis=0)  # type: ignore[attr-defined]
        for index in columns
    ]
    np.testing.assert_allclose(np.concatenate([states for _, states in parts]), expected, rtol=1e-13)


def test_the_cost_of_an_enumeration_counts_its_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    # Each matrix product takes the time of a million multiplications in Python, however small it is.
    features = np.random.default_rng(0).normal(size=(30, N))
    calls = []
    monkeypatch.setattr(norms, "check_deadline", lambda: calls.append(1))
    for degree in (3, 4, 5):
        family = PolynomialFamily.create(RankOneBase(features), degree, None, 1.5)
        calls.clear()
        norms.family_norm(family, features[0])
        # Degree 2 is one product, and free.
        assert (len(calls) - 1) * norms.CALL <= norms.norm_cost(family) <= 10 * len(calls) * norms.CALL


def out_of_time_after(calls: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every deadline that has a deadline run out after some checks."""
    left = [calls]

    def check() -> None:
        left[0] -= 1
        if left[0] < 0 and np.isfinite(seconds_left()):
            raise OutOfTimeError

    monkeypatch.setattr(norms, "check_deadline", check)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("p", [1.0, 1.5, 2.0])
@pytest.mark.parametrize("kind", KINDS)
def test_a_survey_out_of_time_is_a_bound(kind: str, p: float, monkeypatch: pytest.MonkeyPatch) -> None:
    family, grams = make(kind, 5, 4, p)
    a = np.random.default_rng(3).normal(size=N)
    exact, masses = norms.family_norm(family, a).norm, brute_masses(grams, 4, a)
    found = []
    for calls in range(40):
        out_of_time_after(calls, monkeypatch)
        found.append(norms.family_norm(family, a, n_largest=3, seconds=1e6))
        for index, score in zip(found[-1].largest, found[-1].scores, strict=True):
            np.testing.assert_allclose(score, masses[index] * multiplicity(index) ** ((p - 1) / p), rtol=1e-10)
    assert {one.method for one in found} == {"bound", "enumeration"}
    assert all(one.norm >= exact * (1 - 1e-12) for one in found)
    assert all(one.norm <= exact * (1 + 1e-12) for one in found if one.method == "enumeration")
    assert all(later.norm <= earlier.norm * (1 + 1e-12) for earlier, later in pairwise(found))


@pytest.mark.parametrize("seconds", [0.0, 1e-9, 1e-3, 1e6])
@pytest.mark.parametrize("kind", KINDS)
def test_any_deadline_gives_a_bound(kind: str, seconds: float) -> None:
    for p, degree in product([1.0, 1.2, 2.0], [1, 2, 3, 4]):
        family, grams = make(kind, 4, degree, p)
        a = np.random.default_rng(degree).normal(size=N)
        values = np.array(list(brute_masses(grams, degree, a).values()))
        exact = values.max() if p == 1 else np.sum(values ** (p / (p - 1))) ** ((p - 1) / p)
        assert norms.family_norm(family, a, seconds=seconds).norm >= exact * (1 - 1e-12)


def test_no_dual_vector_is_answered_by_the_method_of_any_other() -> None:
    family, _ = make("columns", 5, 4, 1.5)
    for budget, method in [(1e12, "enumeration"), (1.0, "bound")]:
        found = norms.family_norm(family, np.zeros(N), budget=budget)
        assert (found.norm, found.method) == (0.0, method)


@pytest.mark.parametrize("kind", KINDS)
def test_the_identity_is_exact(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    family, _ = make(kind, 5, 4)
    a = np.random.default_rng(3).normal(size=N)
    exact = norms.family_norm(family, a).norm
    monkeypatch.setattr(norms, "_enumeration_cost", lambda family, degree: 1e30)
    found = norms.family_norm(family, a)
    assert (found.method, found.largest) == ("identity", ())
    np.testing.assert_allclose(found.norm, exact, rtol=1e-11)


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0])
@pytest.mark.parametrize("kind", KINDS)
def test_bounds_lie_above_and_tighten_with_the_budget(kind: str, p: float, monkeypatch: pytest.MonkeyPatch) -> None:
    family, grams = make(kind, 5, 4, p)
    a = np.random.default_rng(3).normal(size=N)
    exact, one_norm = norms.family_norm(family, a).norm, sum(brute_masses(grams, 4, a).values())
    monkeypatch.setattr(norms, "_method", lambda family, degree, allowed: "bound")
    bounds = [norms.family_norm(family, a, budget=budget) for budget in (1.0, 3e3, 6e6, 3e7)]
    assert all(bound.method == "bound" for bound in bounds)
    assert all(bound.norm >= exact * (1 - 1e-12) for bound in bounds)
    assert all(later.norm <= earlier.norm * (1 + 1e-12) for earlier, later in pairwise(bounds))
    assert bounds[2].norm < bounds[1].norm < bounds[0].norm <= one_norm * (1 + 1e-12)


def test_multiplicities_count_permutations() -> None:
    for index in combinations_with_replacement(range(4), 4):
        assert multiplicity(index) == len({p for p in product(range(4), repeat=4) if tuple(sorted(p)) == index})


def test_merged_penalties_give_the_optimum_over_ordered_products() -> None:
    family, _ = make("columns", 3, 2, 1.5)
    ordered = [i for d in range(3) for i in product(range(3), repeat=d)]
    merged = sorted({tuple(sorted(i)) for i in ordered})
    assert (len(ordered), len(merged)) == (family.n_ordered, family.n_kernels)
    assert family.n_kernels == comb(5, 2)
    norms = np.random.default_rng(0).random(len(merged))  # ||f_m||
    q = 2 * 1.5 / 2.5
    # Each of c copies carries f / c, the least costly way to share: c (||f|| / c)^q.
    shared = sum(multiplicity(i) * (RHO[len(i)] * t / multiplicity(i)) ** q for i, t in zip(merged, norms, strict=True))
    value = family.regularizer(0.3).value(family.penalties(merged) * norms)
    np.testing.assert_allclose(value, 0.15 * shared ** (2 / q), rtol=1e-12)


@pytest.mark.parametrize("scale", [1e-40, 1e40])
def test_extreme_scales_do_not_spoil_probabilities(scale: float) -> None:
    features = np.random.default_rng(0).normal(size=(20, N))
    a = np.random.default_rng(1).normal(size=N)
    plain = InteractionSampler(PolynomialFamily.create(RankOneBase(features), 3), a)
    rho = scale ** np.arange(4.0)
    scaled = InteractionSampler(PolynomialFamily.create(RankOneBase(scale * features), 3, rho), scale * a)
    for index in [(), (3,), (4, 4), (0, 5, 19)]:
        np.testing.assert_allclose(scaled.probability(index), plain.probability(index), rtol=1e-10)


def test_degree_six_of_many_columns_is_stable() -> None:
    rng = np.random.default_rng(0)
    X, a = rng.normal(size=(40, 500)), rng.normal(size=40)
    sampler = InteractionSampler(PolynomialFamily.create(RankOneBase(np.ascontiguousarray(X.T)), 6), a)
    total = 0.0
    for d in range(7):
        total += float(a @ (X @ X.T) ** d @ a)
    index = sampler.draw(np.random.default_rng(1))
    expected = float(a @ np.prod(X[:, list(index)], axis=1)) ** 2 / total
    np.testing.assert_allclose(sampler.probability(index), expected, rtol=1e-8)
    assert len(index) == 6


def test_bad_parameters_are_explained() -> None:
    base = RankOneBase(np.ones((2, 4)))
    with pytest.raises(InvalidInputError, match="degree must be an integer of at least 1, got 0"):
        PolynomialFamily.create(base, 0)
    with pytest.raises(InvalidInputError, match="degree must be at most 8, got 9"):
        PolynomialFamily.create(base, 9)
    with pytest.raises(InvalidInputError, match=r"p must be at least 1, got 0.5"):
        PolynomialFamily.create(base, 2, p=0.5)
    with pytest.raises(InvalidInputError, match="degree_penalties"):
        PolynomialFamily.create(base, 2, [1.0, 1.0])
    with pytest.raises(InvalidInputError, match=r"leave the range of float64.*Standardize"):
        PolynomialFamily.create(RankOneBase(np.full((2, 4), 1e200)), 2)
    with pytest.raises(InvalidInputError, match="product of base kernels overflows"):
        RankOneBase(np.full((2, 4), 1e200)).stack([(0, 1)])


def test_too_many_products_of_dense_grams_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("manykernels.discovery.polynomial.product_bases.LARGEST_STACK", 1000)
    with pytest.raises(MemoryBudgetError, match="2 products of Gram matrices of 9 samples"):
        GramBase(np.ones((2, N, N))).stack([(0, 1), (1, 1)])


def test_base_kernels_that_do_not_fit_are_refused_before_they_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("manykernels.grams.plan.total_memory", lambda: 200_000_000)
    points = np.zeros((1000, 20))
    with pytest.raises(MemoryBudgetError, match=r"20 base kernels on 1000 samples take 160 MB .* budget is 100 MB"):
        product_base(points, [(Gaussian(1.0), (j,)) for j in range(20)])
    assert isinstance(product_base(points, [(Linear(), (j,)) for j in range(20)]), RankOneBase)


def test_base_kernels_are_held_once() -> None:
    points, parts = np.random.default_rng(0).normal(size=(250, 20)), [(Gaussian(1.0), (j,)) for j in range(20)]
    tracemalloc.start()
    base = product_base(points, parts)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.4 * 8 * 20 * 250**2
    np.testing.assert_array_equal(base.unit * base._grams[3], Gaussian(1.0)(points[:, [3]]))  # type: ignore[attr-defined]


def test_given_grams_are_not_scaled_in_place() -> None:
    grams = 3.0 * np.ones((2, N, N))
    assert GramBase(grams).unit == 4.0
    assert np.all(grams == 3.0)
