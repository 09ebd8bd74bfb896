"""The first of two stages: corrective weights, the bound on the alignment of a family, and how far to search."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from manykernels import GaussianMKL
from manykernels.alignment import aligned_weights
from manykernels.discovery import (
    ArdGaussianFamily,
    AscentSettings,
    DirichletFamily,
    FamilySearch,
    GaussianFamily,
    KernelFamily,
    LaplacianFamily,
    Limits,
    MaternFamily,
    PairWeights,
    SearchProblem,
    SearchSettings,
    TargetSpace,
    align_family,
    discover_in_two_stages,
    graded_settings,
)
from manykernels.discovery.families.search import Profile, bounded_ratio
from manykernels.discovery.two_stage.first_stage import alignment_step
from manykernels.exceptions import InvalidInputError

FAMILIES = [
    GaussianFamily(0.05, 50.0),
    GaussianFamily(1e-3, 1e4),
    LaplacianFamily(0.05, 50.0),
    MaternFamily(0.1, 20.0, nu=1.5),
    MaternFamily(0.1, 20.0, nu=2.5),
]


def drawn_task(seed: int, n_samples: int = 24) -> tuple[np.ndarray, np.ndarray]:
    """Return points, and targets of one of three kinds."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(n_samples, 1 + seed % 3))
    smooth = np.sin((1 + seed % 4) * points[:, 0]) + 0.3 * rng.normal(size=n_samples)
    return points, [np.sign(smooth), smooth, rng.normal(size=n_samples)][seed % 3]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("family", FAMILIES, ids=repr)
@pytest.mark.parametrize("update", ["corrective", "published"])
def test_no_list_of_members_is_aligned_better_than_the_bound(family: KernelFamily, update: str) -> None:
    for seed in range(3):
        points, y = drawn_task(seed, 16)
        search, limits = FamilySearch(family, points), Limits(max_iter=10 if update == "corrective" else 2)
        found = align_family(search, y, np.ones(len(y)), ascent=AscentSettings(update), gain=1e-6, limits=limits)
        listed = np.stack([search.gram(np.array([w])) for w in np.geomspace(family.low, family.high, 80)])
        best = aligned_weights(listed, y, target="numbers", tol=1e-6)
        assert best.alignment <= found.upper_bound * (1 + 1e-9)
        assert found.alignment <= found.upper_bound * (1 + 1e-12)
        if update == "corrective":
            assert found.alignment >= best.alignment - 2e-3
            assert found.upper_bound <= 1.03 * found.alignment


def test_corrective_weights_are_those_of_the_list() -> None:
    points, y = drawn_task(1, 40)
    base, widths = GaussianFamily(0.05, 50.0), np.geomspace(0.1, 10.0, 12)
    search = FamilySearch(base.listed(widths), points)
    best = aligned_weights(np.stack([base.value(points, width) for width in widths]), y, target="numbers")
    for criterion in ("alignment", "distance"):
        found = align_family(search, y, np.ones(40), criterion=criterion, gain=0.0)
        assert found.alignment == pytest.approx(best.alignment, rel=1e-9)
        assert found.upper_bound == pytest.approx(best.alignment, rel=1e-9)
        weights = dict(zip(np.ravel(found.parameters), found.weights, strict=True))
        expected = {width: w for width, w in zip(widths, best.weights, strict=True) if w > 1e-9}
        assert weights == pytest.approx(expected, rel=1e-6)


@pytest.mark.nightly
@pytest.mark.parametrize("criterion", ["alignment", "distance"])
def test_corrective_weights_reach_what_published_steps_do(criterion: str) -> None:
    for seed in range(3):
        points, y = drawn_task(seed, 30)
        search = FamilySearch(GaussianFamily(0.05, 50.0), points)
        published, corrective = (
            align_family(search, y, np.ones(30), criterion=criterion, ascent=AscentSettings(update))
            for update in ("published", "corrective")
        )
        assert corrective.alignment >= published.alignment - 1e-3
        assert np.all(np.diff(corrective.history) >= -1e-12)


def test_weights_of_samples_are_repetitions_in_the_bound() -> None:
    points, y = drawn_task(1, 20)
    weight = 1 + np.arange(20) % 3
    repeated = np.repeat(np.arange(20), weight)
    family = GaussianFamily(0.05, 50.0)
    one = align_family(FamilySearch(family, points), y, weight)
    two = align_family(FamilySearch(family, points[repeated]), y[repeated], np.ones(len(repeated)))
    assert one.upper_bound == pytest.approx(two.upper_bound, rel=1e-3)


def test_families_without_a_bound_say_so() -> None:
    points, y = drawn_task(2, 20)
    for family in (ArdGaussianFamily(0.1, 10.0), DirichletFamily(0.0, 5.0)):
        assert np.isnan(align_family(FamilySearch(family, points), y, np.ones(20), random_state=0).upper_bound)
    constant = align_family(FamilySearch(GaussianFamily(0.1, 10.0), points), np.ones(20), np.ones(20))
    assert np.isnan(constant.upper_bound)


def test_the_bound_on_a_ratio_holds_and_is_tight() -> None:
    def wave(factor: float, level: float) -> Any:
        def profile(u: np.ndarray) -> Profile:
            return Profile(level + np.sin(factor * u), factor * np.cos(factor * u), np.full(len(u), factor**4), 1e-12)

        return profile

    fine = np.linspace(0.0, 7.0, 200_001)
    best = np.max((2 + np.sin(3 * fine)) / (1.5 + np.sin(fine)))
    bound = bounded_ratio(wave(3.0, 2.0), wave(1.0, 1.5), np.linspace(0.0, 7.0, 8), 1e-6)
    assert best <= bound <= best * (1 + 3e-6)
    # Where the lower function vanishes and the upper one does not, no number bounds the ratio.
    assert np.isinf(bounded_ratio(wave(3.0, 2.0), wave(1.0, 1.0), np.linspace(0.0, 7.0, 8), 1e-6))


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_fourth_derivatives_are_bounded_from_every_width_on(family: KernelFamily) -> None:
    points, y = drawn_task(4, 12)
    search, pairs = FamilySearch(family, points), PairWeights(np.outer(y, y) - 0.3)
    logs = np.linspace(np.log(family.low), np.log(family.high), 30)
    bounds = family.fourth_derivatives(search.prepared, np.exp(logs)[:, None], pairs)
    assert np.all(np.diff(bounds) <= 1e-12 * bounds[0])
    assert np.all(bounds <= family.fourth_derivative(search.prepared, pairs) * (1 + 1e-12))
    h = 0.05
    for log, bound in zip(logs, bounds, strict=True):
        values = [
            pairs.triangle @ KernelValues(family, search, np.exp(log + k * h)) for k in range(5)
        ]  # after the point
        assert abs(np.dot([1, -4, 6, -4, 1], values)) / h**4 <= bound * (1 + 1e-3) + 1e-6


def KernelValues(family: KernelFamily, search: FamilySearch, width: float) -> np.ndarray:
    """Return the kernel values of every pair, also outside the interval."""
    return search.gram(np.array([width]))[np.triu_indices(len(search.points), 1)]


def test_the_largest_step_and_epsilon_are_those_of_algorithm_7() -> None:
    points, y = drawn_task(1, 30)
    search, ones = FamilySearch(GaussianFamily(0.05, 50.0), points), np.ones(30)
    space = TargetSpace(y, ones)
    small = AscentSettings("published", largest_step=1e-3)
    found = align_family(search, y, ones, ascent=small, gain=0.0, limits=Limits(max_iter=3))
    raw = found.weights / found.weights.max()  # the first kernel has weight one
    assert np.sort(raw)[:-1].max() <= 1e-3 * (1 + 1e-9)
    epsilon = 0.5
    one = align_family(search, y, ones, ascent=AscentSettings("published", epsilon=epsilon), limits=Limits(max_iter=2))
    start = epsilon * space.identity
    members = [space.centered(search.gram(parameter)) for parameter in one.parameters]
    first = alignment_step(start, members[0], space.ideal)
    second = alignment_step(start + first * members[0], members[1], space.ideal)
    np.testing.assert_allclose(one.weights, np.array([first, second]) / (first + second), rtol=1e-9)
    own = sum(w * search.gram(p) for w, p in zip(one.weights, one.parameters, strict=True))
    assert one.alignment == pytest.approx(space.alignment(own), rel=1e-9)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: AscentSettings("best"), "update must be one of 'corrective', 'published'"),
        (lambda: AscentSettings("published", largest_step=0.0), "largest_step must be a finite positive number"),
        (lambda: AscentSettings(epsilon=0.1), 'belong to the steps of Algorithm 7: set update="published"'),
        (lambda: _with_ascent(AscentSettings("published", epsilon=0.1)), 'set criterion="alignment"'),
        (lambda: _with_ascent("published"), "ascent must be an? AscentSettings"),
        (lambda: discover([]), "the sequence is empty"),
        (lambda: SearchSettings(max_steps=0), "max_steps must be an integer of at least 1"),
        (lambda: GaussianMKL(inner_steps=3).fit([[0.0], [1.0]], [0.0, 1.0]), "set stages=2 and per_feature=True"),
        (lambda: GaussianMKL(update="published").fit([[0.0], [1.0]], [0.0, 1.0]), "update must be one of"),
        (
            lambda: GaussianMKL(stages=2, per_feature=True, inner_steps="cv").fit([[0.0], [1.0]], [0.0, 1.0]),
            "inner_steps must be one of 'validated'",
        ),
    ],
)
def test_errors(make: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        make()


def _with_ascent(ascent: Any) -> None:
    points, y = drawn_task(1)
    align_family(FamilySearch(GaussianFamily(0.1, 10.0), points), y, np.ones(24), criterion="distance", ascent=ascent)


def relevant_task(relevant: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return classes that one of six features tells apart, or all of them alike."""
    rng = np.random.default_rng(5)
    points = rng.normal(size=(60, 6))
    score = np.cos(3 * points[:, 0]) if relevant else points.sum(axis=1)
    return points, np.where(score > np.median(score), 1.0, -1.0)


def discover(settings: Any, relevant: bool = True) -> Any:
    """Return the model of both stages."""
    return discover_in_two_stages(
        SearchProblem(*relevant_task(relevant), loss="hinge", strength=0.5),
        ArdGaussianFamily(0.05, 50.0),
        settings=settings,
        limits=Limits(max_iter=5),
        random_state=0,
    )


def test_few_steps_keep_widths_together() -> None:
    spreads = []
    for steps in (1, 5, None):
        found = discover(SearchSettings(n_starts=1, max_steps=steps), relevant=False)
        spreads.append(np.mean([np.std(np.log(kernel.spec.widths)) for kernel in found.kernels]))
    assert spreads[0] < spreads[1] < spreads[2]


@pytest.mark.parametrize(("relevant", "spread"), [(True, True), (False, False)])
def test_held_out_rows_choose_how_far_to_search(relevant: bool, spread: bool) -> None:
    candidates = graded_settings(SearchSettings(n_starts=1))
    found = discover((candidates[0], candidates[-1]), relevant)
    chosen = candidates[-1] if spread else candidates[0]
    assert f"of 2 settings, held-out rows chose {chosen}" in found.solution.message
    alone = discover(chosen, relevant)
    assert [kernel.name for kernel in found.kernels] == [kernel.name for kernel in alone.kernels]


def test_the_estimator_takes_them() -> None:
    points, y = relevant_task(True)
    model = GaussianMKL(
        "hinge",
        alpha=0.01,
        stages=2,
        per_feature=True,
        inner_steps="validated",
        n_starts=1,
        resources={"max_iter": 4},
        random_state=0,
    ).fit(points, y)
    assert "held-out rows chose" in model.solution_.message
    few = GaussianMKL(
        "hinge",
        alpha=0.01,
        stages=2,
        per_feature=True,
        inner_steps=2,
        resources={"max_iter": 4},
        update="published",
        n_starts=1,
        random_state=0,
    ).fit(points, y)
    assert few.score(points, y) > 0.6
