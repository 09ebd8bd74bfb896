"""Projections on cones: nonnegative least squares from any start, and the bounds that they prove."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.optimize import nnls

from manykernels import Gaussian, Laplacian, Linear
from manykernels.grams.factored.cones import active_inequalities, face, polar_norm, project
from manykernels.kernels import Shaped

CONES = [
    Shaped(base, shape, points=tuple(np.sort(np.random.default_rng(7).normal(size=20))))
    for base, shape in product(
        (Gaussian(0.3), Gaussian(3.0), Laplacian(1.0), Linear()), ("increasing", "convex", "decreasing and concave")
    )
]
SPREAD = tuple(np.sort(np.random.default_rng(3).standard_cauchy(30) ** 3))  # distances from 1e-6 to 1e6
CONES += [Shaped(Laplacian(1.0), shape, points=SPREAD) for shape in ("convex", "concave and increasing")]
cones = pytest.mark.parametrize("G", [cone.constraints for cone in CONES], ids=[cone.label for cone in CONES])


@cones
def test_lengths_are_residuals_of_nonnegative_least_squares(G: np.ndarray, rng: np.random.Generator) -> None:
    for _ in range(20):
        g = rng.normal(size=G.shape[1])
        # The residual that nnls returns beside its multipliers is not theirs where rows nearly depend on others.
        expected = np.linalg.norm(g + nnls(G.T, -g, maxiter=10_000)[0] @ G) if len(G) else np.linalg.norm(g)
        assert polar_norm(G, g) == pytest.approx(expected, abs=1e-10 * np.linalg.norm(g))


@cones
def test_projections_are_in_the_cone_whatever_they_begin_with(G: np.ndarray, rng: np.random.Generator) -> None:
    g = rng.normal(size=G.shape[1])
    first = np.empty_like(g)
    project(G, g, np.zeros(len(G)), first)
    assert (G @ first >= -1e-13 * np.linalg.norm(g)).all()
    assert (g - first) @ first == pytest.approx(0.0, abs=1e-9 * (g @ g))
    for start in (rng.random(len(G)), np.ones(len(G))):
        again = np.empty_like(g)
        project(G, g, start, again)
        assert (start >= 0).all()
        np.testing.assert_allclose(again, first, atol=1e-8 * np.linalg.norm(g))


def test_rows_that_repeat_do_no_harm(rng: np.random.Generator) -> None:
    G = np.repeat(rng.normal(size=(3, 5)), 4, axis=0)
    g = rng.normal(size=5)
    assert polar_norm(G, g) == pytest.approx(nnls(G.T, -g)[1], abs=1e-10)
    assert polar_norm(np.zeros((0, 5)), g) == pytest.approx(np.linalg.norm(g))
    assert polar_norm(np.eye(5), -np.abs(g)) == 0.0


def test_moves_along_a_face_keep_what_holds() -> None:
    G = np.eye(3)
    v = np.array([0.0, 2.0, 0.0])
    np.testing.assert_array_equal(active_inequalities(G, v), G[[0, 2]])
    np.testing.assert_allclose(np.abs(face(G, v)), [[0.0], [1.0], [0.0]], atol=1e-15)
    np.testing.assert_array_equal(face(G, np.ones(3)), np.eye(3))
