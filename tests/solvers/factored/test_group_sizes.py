"""A Newton step in the sizes of groups leads down, and brings them to their limits."""

from __future__ import annotations

import numpy as np
import pytest

from manykernels.solvers.factored.group_sizes import even_out

N_SAMPLES, SIZES = 80, np.array([3, 1, 4, 2, 3])


def problem(seed: int, far: float) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return a quadratic whose minimum has these directions, and coefficients whose sizes are off by a part."""
    rng = np.random.default_rng(seed)
    Z, weights = rng.normal(size=(SIZES.sum() + 2, N_SAMPLES)), rng.uniform(0.5, 2.0, size=N_SAMPLES)
    places, starts = rng.permutation(len(Z))[: SIZES.sum()], np.append(0, np.cumsum(SIZES))
    scale, v = np.repeat(rng.uniform(0.5, 2.0, size=len(SIZES)), SIZES), rng.normal(size=SIZES.sum())
    v[starts[3] : starts[4]] = 0.0
    limits = rng.uniform(0.5, 2.0, size=len(SIZES))
    rows = scale[:, None] * Z[places]
    rows -= (rows @ weights / weights.sum())[:, None]
    norms = np.sqrt(np.add.reduceat(v**2, starts[:-1]))
    pull = np.repeat(limits / np.maximum(norms, 1e-300), SIZES) * v
    ends = -np.linalg.lstsq(rows, pull, rcond=None)[0] / weights  # slopes at the minimum are weights times these
    ends *= weights
    here = v * np.repeat(1.0 + far * rng.normal(size=len(SIZES)), SIZES)
    slopes = ends + weights * ((here - v) @ rows)
    given = {"Z": Z, "places": places, "starts": starts, "scale": scale, "weights": weights}
    return given | {"slopes": slopes, "limits": limits, "rows": rows}, here


def value(given: dict[str, np.ndarray], here: np.ndarray, v: np.ndarray) -> float:
    change = (v - here) @ given["rows"]
    norms = np.sqrt(np.add.reduceat(v**2, given["starts"][:-1]))
    return float(given["slopes"] @ change + 0.5 * given["weights"] @ change**2 + given["limits"] @ norms)


def stepped(given: dict[str, np.ndarray], here: np.ndarray) -> np.ndarray:
    v, own = here.copy(), {name: part for name, part in given.items() if name != "rows"}
    even_out(*own.values(), True, v)
    return v


def excess(given: dict[str, np.ndarray], here: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return by how much slopes along groups that are not zero miss their limits."""
    starts = given["starts"]
    g = -given["rows"] @ (given["slopes"] + given["weights"] * ((v - here) @ given["rows"]))
    norms = np.sqrt(np.add.reduceat(v**2, starts[:-1]))
    along = np.add.reduceat(g * v, starts[:-1]) / np.maximum(norms, 1e-300)
    return np.where(norms > 0.0, along - given["limits"], 0.0)


@pytest.mark.parametrize("seed", range(4))
def test_sizes_come_to_their_limits_and_those_at_zero_stay(seed: int) -> None:
    given, here = problem(seed, 0.1)
    v = stepped(given, here)
    assert np.array_equal(v == 0.0, here == 0.0)
    assert np.linalg.norm(excess(given, here, v)) <= 0.03 * np.linalg.norm(excess(given, here, here))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("far", [0.3, 3.0])
def test_the_objective_never_grows_and_no_group_changes_its_direction(seed: int, far: float) -> None:
    given, here = problem(seed, far)
    v = stepped(given, here)
    assert value(given, here, v) <= value(given, here, here) + 1e-12
    dots = np.add.reduceat(v * here, given["starts"][:-1])
    lengths = [np.sqrt(np.add.reduceat(own**2, given["starts"][:-1])) for own in (v, here)]
    np.testing.assert_allclose(dots, lengths[0] * lengths[1], atol=1e-10)
