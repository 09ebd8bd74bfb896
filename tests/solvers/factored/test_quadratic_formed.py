"""The quadratic with a group penalty: its minimum, and how many Newton steps nearly collinear groups take."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import eigh

from manykernels import Gaussian
from manykernels.grams.factored.operators import DenseOperator
from manykernels.objective.losses.curvature import OutputCurvature
from manykernels.objective.regularizers import BlockL1, Tree
from manykernels.solvers.factored.group_penalty import FunctionPenalty, GroupPenalty, places_of
from manykernels.solvers.factored.objective import OutputOperator
from manykernels.solvers.factored.quadratic_formed import FormedQuadratic, _eigenbases

WIDTHS = np.geomspace(0.5, 2.0, 10)


def wide_kernels(n_columns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return factors of Gaussians of many widths on each column, where each begins, and a target."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, n_columns))
    factors, starts = [], [0]
    for j in range(n_columns):
        for width in WIDTHS:
            values, vectors = eigh(Gaussian(float(width))(X[:, [j]]))
            kept = values > 1e-8 * values[-1]
            factors.append(vectors[:, kept] * np.sqrt(values[kept]))
            starts.append(starts[-1] + int(kept.sum()))
    return np.hstack(factors), np.array(starts), np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.3 * rng.normal(size=400)


@pytest.mark.parametrize("strength", [0.3, 3.0])
def test_collinear_groups_leave_one_after_the_other(strength: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels of a column that differ by a width trade: steps ended where one passes zero, 183 of them a solution."""
    Z, starts, y = wide_kernels(3)
    penalty = GroupPenalty.create(BlockL1(strength), starts, np.ones(len(starts) - 1))
    steps = []
    factorized = FormedQuadratic.factorized

    def counted(self: FormedQuadratic, v: np.ndarray) -> object:
        steps.append(len(v))
        return factorized(self, v)

    monkeypatch.setattr(FormedQuadratic, "factorized", counted)
    H, q = Z.T @ Z, -Z.T @ y
    v, r = FormedQuadratic(H.copy(), penalty).solve(np.zeros(len(q)), q, 1e-6)
    np.testing.assert_allclose(r, q + H @ v, atol=1e-6 * np.abs(q).max())
    assert penalty.violation(v, r) <= 1e-5 * penalty.violation(np.zeros(len(q)), q)
    assert len(steps) <= 60


def test_blocks_of_several_sizes_have_the_eigenbases_of_each() -> None:
    rng = np.random.default_rng(3)
    starts = [0, 2, 3, 5, 9, 10]
    root = rng.normal(size=(10, 12))
    H = np.stack([root @ root.T, np.diag(np.arange(1.0, 11.0)) + 0.01 * root @ root.T])
    eigenvalues, bases = _eigenbases(H, starts)
    for low, high, both in zip(starts[:-1], starts[1:], bases, strict=True):
        for own, values, basis in zip(H, eigenvalues, both, strict=True):
            diagonal = basis.T @ own[low:high, low:high] @ basis
            np.testing.assert_allclose(diagonal, np.diag(values[low:high]), atol=1e-12 * np.trace(own))


def test_outputs_that_have_something_in_common_end_at_the_minimum_of_the_whole() -> None:
    """Blocks and shares are ``diag(p) - p p'`` of a multinomial loss: what is left at the end is that of one matrix."""
    rng = np.random.default_rng(5)
    n, outputs, starts = 80, 3, np.array([0, 2, 3, 6])
    Z, p = rng.normal(size=(n, 6)), rng.dirichlet(np.ones(outputs), size=n)
    place = places_of(outputs * starts, outputs)
    sides, whole = np.zeros((n, place.size)), np.zeros((place.size, place.size))
    for at, own in zip(place, p.T, strict=True):
        sides[:, at] = own[:, None] * Z
        whole[np.ix_(at, at)] = (Z * own[:, None]).T @ Z
    whole -= sides.T @ sides
    penalty = GroupPenalty.create(BlockL1(2.0), outputs * starts, np.ones(3))
    operators = [OutputOperator(DenseOperator(np.arange(3), [Z], starts), outputs)]
    blocks, shares = OutputCurvature(p, np.ones(n)).hessian(operators, n, n_constants=0)
    problem = FormedQuadratic(blocks, penalty, shares)
    q = 5.0 * rng.normal(size=place.size)
    q[place] -= q[place].mean(axis=0)  # of slopes nothing is the same for all outputs
    v, r = problem.solve(np.zeros(len(q)), q, 1e-6)
    np.testing.assert_allclose(r, q + whole @ v, atol=1e-4 * np.abs(q).max())  # shares are in single precision
    assert penalty.violation(v, q + whole @ v) <= 1e-4 * penalty.violation(np.zeros(len(q)), q)
    again, _ = problem.solve(v, r, 1e-6)
    np.testing.assert_allclose(again, v, atol=1e-4 * np.abs(v).max())
    nothing, _ = problem.solve(np.zeros(len(q)), np.zeros(len(q)), 1e-6)
    assert not nothing.any()


@pytest.mark.parametrize("start", [0.0, 1.0])
def test_groups_of_a_tree_leave_zero_and_end_there_together(start: float) -> None:
    """Three kernels of one norm, held at zero by it or pulled away together, beside one with a norm of its own."""
    tree = Tree(1.0, {"a": ["0", "1", "2"]}, l1_ratio=0.1).on_kernels(["0", "1", "2", "3"])
    starts, sizes = np.arange(0, 9, 2), np.full(4, 2)
    penalty = FunctionPenalty.create(tree, starts, np.ones(4))
    hold = float(tree.norms_of(4)[1].max())  # of the norm of three
    for pull, zero in ((0.1 + 0.5 * hold, True), (0.1 + 0.7 * hold, False)):  # three of 0.58 hold together
        gradient = -np.repeat([pull, pull, pull, 3.0], sizes) * np.tile([1.0, 0.0], 4)
        v = np.full(8, start) * np.repeat([1.0, 1.0, 1.0, 0.0], sizes)
        H = np.eye(8)
        found, slopes = FormedQuadratic(H[None].copy(), penalty).solve(v, gradient + H @ v, 1e-9)
        norms = penalty.norms(found)
        assert (norms[:3] == 0.0).all() == zero
        assert norms[3] > 0
        assert penalty.violation(found, slopes) <= 1e-6
