"""The loop of a step of averages beside the same in NumPy."""

from __future__ import annotations

import numpy as np

from manykernels.estimators.selection.averages_loops import go_along


def test_a_step_goes_to_the_minimum_along_its_direction_and_ended_targets_stay() -> None:
    rng = np.random.default_rng(0)
    curves, way, moved, x, along, u = (rng.normal(size=(3, 40)) for _ in range(6))
    curves, strengths, shift = curves**2, np.array([0.5, 1.0, 2.0]), rng.normal(size=3)
    energy, out = np.array([2.0, 0.0, 1.0]), np.empty((3, 3))
    moved[0] *= np.sign(np.sum(way[0] * moved[0]))  # a kernel takes no direction to one against it
    moved[2] *= np.sign(np.sum(way[2] * moved[2]))
    change = moved + shift[:, None]
    curvature = np.sum(curves * change**2, axis=1) + strengths * np.sum(way * moved, axis=1)
    length = energy / curvature
    expected = x + length[:, None] * way, along + length[:, None] * change
    left = u - length[:, None] * (curves * change + strengths[:, None] * way)
    go_along(curves, strengths, energy, way, moved, shift, x, along, u, out)
    for found, wanted in zip((x, along, u), (*expected, left), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)
    told = np.column_stack([length, length * np.sum(curves * change, axis=1), np.sum(left**2, axis=1)])
    np.testing.assert_allclose(out, told, rtol=1e-12, atol=1e-12)
    assert length[1] == 0.0 < length[0]
