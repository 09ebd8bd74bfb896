"""Hierarchical kernel learning against brute force on graphs that can be listed, and against cone programs."""

from __future__ import annotations

import time
from itertools import product
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from tests.support.conic import proved_value

from manykernels.discovery import HierarchicalDiscovery, Limits, SearchProblem, discover_hierarchical
from manykernels.discovery.hierarchical.newton import HierarchicalNewton, HierarchicalNorm, HierarchicalWeights
from manykernels.discovery.hierarchical.product_grid import (
    ROOT,
    AnovaGrid,
    Hull,
    MonomialGrid,
    Node,
    ProductGrid,
    ancestors,
    depth,
    hull_matrix,
    parents,
)
from manykernels.exceptions import InvalidInputError
from manykernels.kernels import Gaussian, Laplacian, MedianWidth
from manykernels.solvers import Status

N, R, D = 30, 4, 2
GROWTH, STRENGTH = 1.7, 2.0
SAME, RATIOS = np.full(R, GROWTH), np.array([1.7, 1.0, 2.5, 1.2])  # growth of each column
LOSSES = ["squared", "logistic", "hinge"]


@pytest.fixture
def points(rng: np.random.Generator) -> np.ndarray:
    X = rng.normal(size=(N, R))
    X.flags.writeable = False
    return X


@pytest.fixture
def signal(points: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return 2.0 * points[:, 0] * points[:, 1] - points[:, 2] + points[:, 0] + 0.5 + 0.3 * rng.normal(size=N)


def target(loss: str, signal: np.ndarray) -> np.ndarray:
    return signal if loss == "squared" else np.where(signal > 0, 1.0, -1.0)


def listed(n_columns: int, degree: int, largest_level: int) -> list[Node]:
    """Return every node of the graph, found without the graph."""
    levels = product(range(largest_level + 1), repeat=n_columns)
    return [tuple((c, j) for c, j in enumerate(at) if j) for at in levels if sum(at) <= degree]


def below(v: Node, w: Node) -> bool:
    return all(dict(w).get(column, 0) >= level for column, level in v)


def monomial(points: np.ndarray, node: Node, normalize: str | None = None) -> np.ndarray:
    powers = [points[:, c] ** j for c, j in node]
    powers = [power - power.mean() for power in powers] if normalize == "centered" else powers
    powers = [power / np.sqrt(np.mean(power**2)) for power in powers] if normalize else powers
    return np.prod(powers, axis=0) * np.ones(len(points))


def gram(points: np.ndarray, node: Node, kernel: Any, normalize: str | None = None) -> np.ndarray:
    if kernel is None:
        return np.outer(monomial(points, node, normalize), monomial(points, node, normalize))
    return np.prod([np.ones((len(points),) * 2), *(kernel(points[:, [c]]) for c, _ in node)], axis=0)


def penalty(node: Node, ratios: np.ndarray) -> float:
    """Return ``d_v``, with a ratio a column."""
    return float(np.prod([ratios[column] ** level for column, level in node]))


def graph_norm(nodes: list[Node], t: Any, growth: float = GROWTH, norm: Any = np.linalg.norm) -> Any:
    """Return ``sum_v d_v ||t_{D(v)}||``, written as it is defined."""
    groups = [[m for m, w in enumerate(nodes) if below(v, w)] for v in nodes]
    return sum(growth ** depth(v) * norm(t[group]) for v, group in zip(nodes, groups, strict=True))


def dual_norm(nodes: list[Node], u: np.ndarray) -> float:
    """Return ``max t'u`` over the unit ball of the norm, by a cone program."""
    t = cp.Variable(len(nodes))
    problem = cp.Problem(cp.Maximize(u @ t), [graph_norm(nodes, t, norm=cp.norm) <= 1.0])
    return proved_value(problem)


def empirical(loss: str, y: np.ndarray, z: Any) -> Any:
    if loss == "squared":
        return cp.sum_squares(z - y) / 2
    margins = cp.multiply(y, z)
    return cp.sum(cp.logistic(-margins)) if loss == "logistic" else cp.sum(cp.pos(1 - margins))


def optimum(
    roots: list[np.ndarray],
    nodes: list[Node],
    y: np.ndarray,
    loss: str,
    intercept: bool = True,
    ratios: np.ndarray = SAME,
) -> float:
    """Return the optimum over all nodes; ``roots[m] @ roots[m].T`` is the Gram matrix of node m."""
    sizes = [root.shape[1] for root in roots]
    w, b = cp.Variable(sum(sizes)), cp.Variable()
    starts = np.cumsum([0, *sizes])
    own = [np.arange(starts[m], starts[m + 1]) for m in range(len(nodes))]
    z = np.hstack(roots) @ w + (b if intercept else 0.0)
    groups = [np.concatenate([own[m] for m, node in enumerate(nodes) if below(v, node)]) for v in nodes]
    norm = sum(penalty(v, ratios) * cp.norm(w[group]) for v, group in zip(nodes, groups, strict=True))
    objective = (empirical(loss, y, z) + STRENGTH / 2 * cp.square(norm)) / len(y)
    problem = cp.Problem(cp.Minimize(objective))
    return proved_value(problem) * len(y)


def search(points: np.ndarray, y: np.ndarray, **more: Any) -> HierarchicalDiscovery:
    given: dict[str, Any] = {
        "strength": STRENGTH,
        "growth": GROWTH,
        "degree": D,
        "limits": Limits(tol=1e-7),
        "normalize": None,
    }
    given: dict[str, Any] = given | more
    posed = {key: given.pop(key) for key in ("loss", "strength", "sample_weight", "fit_intercept") if key in given}
    return discover_hierarchical(SearchProblem(points, y, **posed), **given)


def primal(points: np.ndarray, y: np.ndarray, loss: str, found: HierarchicalDiscovery, nodes: list[Node]) -> float:
    """Recompute the objective of a model in plain NumPy, the kernels placed in the graph by their parts."""
    t, f = np.zeros(len(nodes)), np.full(len(y), found.solution.intercept)
    rho = found.solution.dual_coef
    for kernel, d in zip(found.kernels, found.solution.kernel_weights, strict=True):
        columns = [kernel.columns[local] for _, (local,) in kernel.spec.parts]  # type: ignore[attr-defined]
        node = tuple((c, columns.count(c)) for c in sorted(set(columns)))
        K = kernel.spec(points[:, list(kernel.columns)])
        f += d * K @ rho
        t[nodes.index(node)] = d * np.sqrt(rho @ K @ rho)
    return float(empirical(loss, y, cp.Constant(f)).value) + STRENGTH / 2 * graph_norm(nodes, t) ** 2


# --- the graph ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("largest_level", [1, 3])
def test_hulls_and_sources_are_those_of_the_definition(largest_level: int, rng: np.random.Generator) -> None:
    nodes = listed(4, 3, largest_level)
    hull = Hull(4, 3, largest_level)
    for _ in range(len(nodes)):
        inside = set(hull.nodes)
        expected = {node for node in nodes if node not in inside and inside.issuperset(parents(node))}
        assert set(hull.sources) == expected
        sources = list(hull.sources)
        hull.add(sources[rng.integers(len(sources))])
    assert sorted(hull.nodes) == sorted(nodes)
    assert not hull.sources


def test_ancestors_are_those_of_the_definition() -> None:
    nodes = listed(3, 4, 4)
    matrix = hull_matrix(nodes)
    for m, w in enumerate(nodes):
        assert sorted(ancestors(w)) == sorted(v for v in nodes if below(v, w))
        np.testing.assert_array_equal(matrix[m], [below(v, w) for v in nodes])


# --- the norm -------------------------------------------------------------------------------------------------------


@pytest.fixture
def nodes() -> list[Node]:
    return listed(R, D, D)


@pytest.fixture
def norm(nodes: list[Node]) -> HierarchicalNorm:
    return HierarchicalNorm(hull_matrix(nodes), GROWTH ** np.array([depth(v) for v in nodes]), STRENGTH)


def test_the_norm_and_its_weights(nodes: list[Node], norm: HierarchicalNorm, rng: np.random.Generator) -> None:
    t = rng.uniform(size=len(nodes))
    assert norm.norm(t) == pytest.approx(graph_norm(nodes, t), rel=1e-13)
    assert norm.value(t) == pytest.approx(STRENGTH / 2 * graph_norm(nodes, t) ** 2, rel=1e-13)
    groups = norm.penalties * norm.group_norms(t)
    best = np.sum(t**2 / norm.zeta(groups / groups.sum()))
    assert best == pytest.approx(graph_norm(nodes, t) ** 2, rel=1e-12)
    for eta in rng.dirichlet(np.ones(len(nodes)), size=20):
        assert np.sum(t**2 / norm.zeta(eta)) >= best


def test_a_split_bounds_the_dual_norm(nodes: list[Node], norm: HierarchicalNorm, rng: np.random.Generator) -> None:
    u = rng.uniform(size=len(nodes))
    true = dual_norm(nodes, u) ** 2
    for eta in rng.dirichlet(np.ones(len(nodes)), size=20):
        squares = norm.dual_squares(eta, u**2)
        assert eta @ squares <= true * (1 + 1e-7) <= squares.max() * (1 + 2e-7)
        assert eta @ squares == pytest.approx(norm.zeta(eta) @ u**2, rel=1e-12)


def test_the_newton_direction_solves_linearized_conditions(norm: HierarchicalNorm, rng: np.random.Generator) -> None:
    p = len(norm.penalties)
    eta, slack, U, x = rng.dirichlet(np.ones(p)), *rng.uniform(0.1, 1.0, size=(3, p))
    weights = HierarchicalWeights(norm, eta, slack)
    _, factor, shift, _ = weights.linearize(np.empty((p, 0)), U, 0.01)
    weights.set_direction(x)

    def gains(eta: np.ndarray, U: np.ndarray) -> np.ndarray:
        return norm.dual_squares(eta, U) / (2 * STRENGTH)

    h = 1e-6
    growth = weights._growth
    change = (gains(eta * (1 + h * growth), U + 2 * h * x) - gains(eta * (1 - h * growth), U - 2 * h * x)) / (2 * h)
    multipliers = gains(eta, U) + change + slack + weights._dslack
    np.testing.assert_allclose(multipliers, multipliers.mean(), rtol=1e-6)
    np.testing.assert_allclose(slack * eta * (1 + growth) + weights._dslack * eta, 0.01, rtol=1e-9)
    assert eta @ growth == pytest.approx(0.0, abs=1e-12)
    moved = (norm.zeta(eta * (1 + h * growth)) - norm.zeta(eta * (1 - h * growth))) / (2 * h * STRENGTH)
    np.testing.assert_allclose(weights.weight_change, moved, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(shift + factor.T @ (factor @ x), weights.weight_change, rtol=1e-8, atol=1e-12)


# --- the bound on what is left --------------------------------------------------------------------------------------


GRIDS = {
    "polynomial": lambda X: MonomialGrid(X, 4, RATIOS),
    "multilinear": lambda X: MonomialGrid(X, 4, RATIOS, squares=False),
    "powers": lambda X: MonomialGrid(X, 4, RATIOS, normalize="power"),
    "centered powers": lambda X: MonomialGrid(X, 4, RATIOS, normalize="centered"),
    "multilinear, normalized": lambda X: MonomialGrid(X, 4, RATIOS, squares=False, normalize="power"),
    "anova": lambda X: AnovaGrid(X, 3, RATIOS, Gaussian(1.3)),
}


def enumerated_bound(points: np.ndarray, grid: ProductGrid, rho: np.ndarray, source: Node) -> float:
    kernel = getattr(grid, "kernel", None)
    nodes = listed(points.shape[1], grid.degree, grid.largest_level)
    total = 0.0
    for w in nodes:
        if below(source, w):
            box = sum(penalty(v, RATIOS) for v in nodes if below(source, v) and below(v, w))
            total += rho @ gram(points, w, kernel, getattr(grid, "normalize", None)) @ rho / box**2
    return float(total)


@pytest.mark.parametrize("family", GRIDS)
def test_sums_over_descendants_are_those_of_enumeration(
    family: str, points: np.ndarray, rng: np.random.Generator
) -> None:
    grid, rho = GRIDS[family](points), rng.normal(size=N)
    sources = [node for node in listed(R, grid.degree, grid.largest_level) if node != ROOT]
    own, bounds = grid.source_bounds(rho, sources)
    expected = [enumerated_bound(points, grid, rho, node) for node in sources]
    np.testing.assert_allclose(bounds, expected, rtol=1e-9)
    np.testing.assert_allclose([grid.descendant_squares(rho, node) for node in sources], expected, rtol=1e-9)
    kernel = getattr(grid, "kernel", None)
    grams = [gram(points, node, kernel, getattr(grid, "normalize", None)) for node in sources]
    squares = [rho @ K @ rho / grid.penalty(node) ** 2 for K, node in zip(grams, sources, strict=True)]
    np.testing.assert_allclose(own, squares, rtol=1e-9)


@pytest.mark.parametrize("size", [1, 4, 9, 14])
def test_hull_and_sources_bound_the_dual_norm_of_the_graph(
    size: int, nodes: list[Node], points: np.ndarray, rng: np.random.Generator
) -> None:
    grid, rho = MonomialGrid(points, D, SAME), rng.normal(size=N)
    hull = grid.empty_hull()
    for _ in range(size):
        hull.add(list(hull.sources)[rng.integers(len(hull.sources))])
    part = HierarchicalNorm(hull_matrix(hull.nodes), np.array([grid.penalty(v) for v in hull.nodes]), STRENGTH)
    inside = part.dual_squares(rng.dirichlet(np.ones(size)), np.square([rho @ monomial(points, v) for v in hull.nodes]))
    outside = grid.source_bounds(rho, list(hull.sources))[1]
    true = dual_norm(nodes, np.abs([rho @ monomial(points, v) for v in nodes])) ** 2
    assert max(inside.max(), outside.max()) >= true * (1 - 1e-7)


# --- the search -----------------------------------------------------------------------------------------------------


@pytest.mark.sampled(2)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("intercept", [True, False])
def test_the_optimum_over_all_monomials_is_reached(
    loss: str, intercept: bool, points: np.ndarray, signal: np.ndarray, nodes: list[Node]
) -> None:
    y = target(loss, signal)
    found = search(points, y, loss=loss, fit_intercept=intercept)
    best = optimum([monomial(points, v)[:, None] for v in nodes], nodes, y, loss, intercept)
    certificate = found.solution.certificate
    assert found.solution.status is Status.CONVERGED
    assert certificate.primal == pytest.approx(best, rel=1e-6)
    assert certificate.dual <= best * (1 + 1e-8)
    assert certificate.gap >= 0
    assert primal(points, y, loss, found, nodes) == pytest.approx(certificate.primal, rel=1e-9)
    assert certificate.kkt.stationarity + certificate.kkt.complementarity == pytest.approx(
        certificate.relative_gap, abs=1e-12
    )


def test_the_optimum_with_a_growth_of_each_column_is_reached(
    points: np.ndarray, signal: np.ndarray, nodes: list[Node]
) -> None:
    roots = [monomial(points, v)[:, None] for v in nodes]
    found = search(points, signal, growth=RATIOS.tolist())
    best = optimum(roots, nodes, signal, "squared", ratios=RATIOS)
    assert found.solution.certificate.primal == pytest.approx(best, rel=1e-6)
    assert found.solution.certificate.dual <= best * (1 + 1e-8)
    assert abs(best / optimum(roots, nodes, signal, "squared") - 1) > 1e-3


@pytest.mark.parametrize("normalize", ["power", "centered"])
def test_the_optimum_over_normalized_monomials_is_reached(
    normalize: str, points: np.ndarray, signal: np.ndarray, nodes: list[Node]
) -> None:
    found = search(points, signal, normalize=normalize)
    best = optimum([monomial(points, v, normalize)[:, None] for v in nodes], nodes, signal, "squared")
    assert found.solution.certificate.primal == pytest.approx(best, rel=1e-6)
    assert found.solution.certificate.dual <= best * (1 + 1e-8)
    kernels = [kernel.spec(points[:, list(kernel.columns)]) for kernel in found.kernels]
    rho = found.solution.dual_coef
    f = np.tensordot(found.solution.kernel_weights, kernels, axes=1) @ rho
    np.testing.assert_allclose(rho, signal - f - found.solution.intercept, atol=1e-4)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_optimum_over_all_products_of_kernels_is_reached(loss: str, points: np.ndarray, signal: np.ndarray) -> None:
    points, y, kernel = points[:, :3], target(loss, signal), Laplacian(1.5)
    nodes = listed(3, 3, 1)
    roots = [np.linalg.cholesky(gram(points, v, kernel) + 1e-12 * np.eye(N)) for v in nodes]
    found = search(points, y, loss=loss, kernels=kernel, degree=3)
    assert found.solution.certificate.primal == pytest.approx(optimum(roots, nodes, y, loss), rel=1e-6)
    assert primal(points, y, loss, found, nodes) == pytest.approx(found.solution.certificate.primal, rel=1e-9)


def test_every_bound_on_the_way_holds(points: np.ndarray, signal: np.ndarray, nodes: list[Node]) -> None:
    found = search(points, signal, limits=Limits(tol=1e-9, max_iter=200))
    best = optimum([monomial(points, v)[:, None] for v in nodes], nodes, signal, "squared")
    history = found.solution.frame()
    assert (history["primal"] >= best * (1 - 1e-8)).all()
    assert (history["dual"] <= best * (1 + 1e-8)).all()
    assert history["relative_gap"].iloc[0] > 0.1


@pytest.mark.parametrize("kernels", ["polynomial", "multilinear", "anova"])
def test_what_is_found_has_all_of_its_factors(kernels: str, points: np.ndarray, signal: np.ndarray) -> None:
    found = search(points, signal, kernels=kernels, degree=3, strength=0.05, limits=Limits(tol=1e-4))
    names = {tuple(sorted(kernel.name.split(" x "))) for kernel in found.kernels}
    assert max(map(len, names)) >= 2
    for name in names:
        assert len(name) == 1 or all(name[:m] + name[m + 1 :] in names for m in range(len(name)))
        assert kernels == "polynomial" or len(set(name)) == len(name)


def test_few_of_many_kernels_are_visited(rng: np.random.Generator) -> None:
    X = rng.normal(size=(200, 40))
    y = X[:, 3] + 2.0 * X[:, 3] * X[:, 17] - X[:, 30] + 0.2 * rng.normal(size=200)
    found = discover_hierarchical(SearchProblem(X, y, strength=5.0), degree=3, growth=4.0)
    assert found.solution.status is Status.CONVERGED
    assert {kernel.name for kernel in found.kernels} >= {"x3", "x17", "x30", "x3 x x17"}
    assert found.n_visited < 150  # of 12341


def test_weights_count_samples(points: np.ndarray, signal: np.ndarray, rng: np.random.Generator) -> None:
    counts = rng.integers(1, 4, size=N)
    weighted = search(points, signal, sample_weight=counts.astype(float))
    repeated = search(np.repeat(points, counts, axis=0), np.repeat(signal, counts))
    assert weighted.solution.certificate.primal == pytest.approx(repeated.solution.certificate.primal, rel=1e-6)


def test_a_constant_target_needs_no_kernel(points: np.ndarray) -> None:
    found = search(points, np.full(N, 3.0))
    assert found.kernels == ()
    assert found.solution.intercept == pytest.approx(3.0)
    assert found.solution.status is Status.CONVERGED


@pytest.mark.parametrize("loss", LOSSES)
def test_a_hull_of_one_kernel_says_that_it_is_full(points: np.ndarray, signal: np.ndarray, loss: str) -> None:
    found = search(points, target(loss, signal), strength=1e-2, max_kernels=1, loss=loss)
    assert (found.kernels, found.solution.status) == ((), Status.STALLED)
    assert "max_kernels=1: increase it" in found.solution.message


@pytest.mark.sampled(6)
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("exponent", [-498, -56, -40, -20, 20, 40, 332])
def test_the_unit_of_the_target_is_the_unit_of_the_model(
    points: np.ndarray, signal: np.ndarray, exponent: int, fit_intercept: bool
) -> None:
    unit = 2.0**exponent  # the rounding of every product stays as it is, and with it every step
    plain, scaled = (search(points, c * signal, fit_intercept=fit_intercept) for c in (1.0, unit))
    assert scaled.kernels == plain.kernels
    assert scaled.solution.newton_steps == plain.solution.newton_steps
    np.testing.assert_allclose(scaled.solution.dual_coef / unit, plain.solution.dual_coef, rtol=1e-6, atol=1e-9)
    assert scaled.solution.intercept / unit == pytest.approx(plain.solution.intercept, rel=1e-6)
    assert scaled.solution.certificate.primal / unit / unit == pytest.approx(plain.solution.certificate.primal)


@pytest.mark.parametrize("unit", [1e-12, 1e-6, 1e6, 1e12])
def test_the_unit_of_a_quantile_is_that_of_its_strength(points: np.ndarray, signal: np.ndarray, unit: float) -> None:
    plain, scaled = (search(points, c * signal, strength=STRENGTH / c, loss="quantile") for c in (1.0, unit))
    assert scaled.solution.status is Status.CONVERGED
    assert scaled.solution.certificate.primal / unit == pytest.approx(plain.solution.certificate.primal, rel=1e-6)


def test_the_largest_hull_is_kept_to(points: np.ndarray, signal: np.ndarray) -> None:
    found = search(points, signal, strength=1e-2, max_kernels=6)
    assert found.n_visited == 6
    assert found.solution.status is Status.STALLED
    assert "max_kernels=6: increase it" in found.solution.message


def test_an_interrupt_keeps_the_best_model(points: np.ndarray, signal: np.ndarray, nodes: list[Node]) -> None:
    calls = []

    def stop(record: Any) -> None:
        calls.append(record)
        if len(calls) == 3:
            raise KeyboardInterrupt

    found = search(points, signal, limits=Limits(tol=1e-9, callback=stop))
    assert found.solution.status is Status.INTERRUPTED
    assert len(calls) == 3
    best = min(record.relative_gap for record in calls)
    assert found.solution.certificate.relative_gap == best
    assert primal(points, signal, "squared", found, nodes) == pytest.approx(found.solution.certificate.primal)


def test_an_interrupt_inside_a_round_keeps_the_best_model(
    points: np.ndarray, signal: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, steps = HierarchicalNewton.newton_step, []

    def interrupted(iteration: HierarchicalNewton, wanted: float) -> None:
        steps.append(wanted)
        if len(steps) == 8:
            raise KeyboardInterrupt
        plain(iteration, wanted)

    monkeypatch.setattr(HierarchicalNewton, "newton_step", interrupted)
    solution = search(points, signal, limits=Limits(tol=1e-9)).solution
    assert solution.status is Status.INTERRUPTED
    assert 0 < solution.newton_steps < 8
    assert solution.certificate.relative_gap == min(record.relative_gap for record in solution.history)


def test_the_time_limit_ends_a_round_between_two_steps(
    points: np.ndarray, signal: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, clock, steps = HierarchicalNewton.newton_step, time.perf_counter, []

    def counted(iteration: HierarchicalNewton, wanted: float) -> None:
        steps.append(wanted)
        plain(iteration, wanted)

    monkeypatch.setattr(HierarchicalNewton, "newton_step", counted)
    monkeypatch.setattr(time, "perf_counter", lambda: clock() + (1000.0 if len(steps) >= 3 else 0.0))
    solution = search(points, signal, limits=Limits(tol=1e-9, time_limit=900.0)).solution
    assert solution.status is Status.TIME_LIMIT
    # Two rounds: the zero model, and the point that was reached when the time was over, certified as it is.
    assert len(steps) == 3
    assert solution.newton_steps == 2  # the third one had no time for its factorization
    assert solution.history[-1].primal < solution.history[0].primal
    assert np.isfinite(solution.certificate.relative_gap)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"kernels": "cubic"}, "kernels must be a kernel or one of polynomial, multilinear, anova, got 'cubic'"),
        ({"kernels": Gaussian(MedianWidth())}, "is not a number yet: give one, such as Gaussian"),
        ({"degree": 0}, "degree must be"),
        ({"growth": 0.5}, "growth must be at least 1, got 0.5"),
        ({"growth": [2.0, 0.5, 2.0, 2.0]}, "growth must be at least 1, got 0.5"),
        ({"growth": [2.0, 2.0]}, r"growth must have shape \(4,\)"),
        ({"growth": "two"}, "growth must be a positive number, got 'two'"),
        ({"max_kernels": 1.5}, "max_kernels must be"),
        ({"strength": -1.0}, "strength must be"),
        ({"loss": "cubic"}, "Unknown loss 'cubic'"),
    ],
)
def test_wrong_parameters_are_named(
    wrong: dict[str, Any], message: str, points: np.ndarray, signal: np.ndarray
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        search(points, signal, **wrong)


def test_wrong_points_are_named(points: np.ndarray, signal: np.ndarray) -> None:
    broken = points.copy()
    broken[2, 1] = np.nan
    with pytest.raises(InvalidInputError, match="points contains 1 NaN"):
        search(broken, signal)


def test_a_target_whose_squares_underflow_is_refused(points: np.ndarray, signal: np.ndarray) -> None:
    with pytest.raises(InvalidInputError, match=r"underflows at zero scores: y reaches only \d.*e-160"):
        search(points, 1e-160 * signal)
