"""Sums over cells of bins: in blocks of columns they are those of each set of columns by itself."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from manykernels.grams.factored.cells import Axis, Groups, cell_forms
from manykernels.kernels import Binned, Gaussian


def axes_of(sizes: list[int]) -> list[Axis]:
    """Axes of so many bins each."""
    return [
        Axis(j, Binned(Gaussian(0.3), edges=tuple(range(n - 1)), shares=(1 / n,) * n), np.zeros(0))
        for j, n in enumerate(sizes)
    ]


def sums_by_hand(groups: Groups, codes: np.ndarray, rho: np.ndarray) -> np.ndarray:
    """Sums over cells, row by row."""
    out = [np.zeros(groups.shape(g)) for g in range(len(groups.members))]
    for g, members in enumerate(groups.members):
        own = codes[members[members >= 0]].T
        for row, share in zip(own.tolist(), rho, strict=True):
            if min(row) >= 0:
                out[g][tuple(row)] += share
    return np.concatenate([part.ravel() for part in out])


@pytest.mark.parametrize("columns", [3, 6, 7])
@pytest.mark.parametrize("missing", [False, True])
def test_blocks_of_columns_give_the_sums_of_every_triple(columns: int, missing: bool) -> None:
    rng = np.random.default_rng(columns)
    axes = axes_of([2 + j % 3 for j in range(columns)])
    sets = [own for order in (1, 2, 3) for own in combinations(range(columns), order)] + [(2, 0, 1)]
    groups, n = Groups.lay_out(axes, sets), 1500
    codes = np.array([rng.integers(0, len(axis.gram), n) for axis in axes], dtype=np.int16)
    if missing:
        codes[0, ::7] = -1
    rho = rng.normal(size=n)
    blocks = groups._blocks
    shared = {g for row in blocks.served.tolist() for g in row if g >= 0}
    assert all(len(sets[g]) == 3 for g in shared)
    assert bool(shared) == (columns > 5)  # three times two columns, or one of the last
    np.testing.assert_allclose(groups.add(codes, rho), sums_by_hand(groups, codes, rho), atol=1e-12)


@pytest.mark.nightly
def test_two_columns_of_many_levels_beside_constants_keep_their_cells() -> None:
    """Their 36,200 cells beside those of constants would fit a block, but their numbers do not fit its type."""
    rng, sizes = np.random.default_rng(0), [200, 181, 1, 1, 1, 1]
    groups = Groups.lay_out(axes_of(sizes), list(combinations(range(6), 3)))
    codes = np.array([rng.integers(0, size, 60_000) for size in sizes], dtype=np.int16)
    rho = rng.normal(size=60_000)
    np.testing.assert_allclose(groups.add(codes, rho), sums_by_hand(groups, codes, rho), atol=1e-9)


def test_forms_of_cells_are_those_of_the_products() -> None:
    rng = np.random.default_rng(0)
    axes = axes_of([2, 3, 4, 2])
    sets = [own for order in (1, 2, 3, 4) for own in combinations(range(4), order)]
    groups = Groups.lay_out(axes, sets)
    sums = rng.normal(size=int(groups.offsets[-1]))
    grams = [axis.gram.ravel() for axis in axes]
    starts, out = np.cumsum([0, *map(len, sets)]), np.empty(len(sets))
    begins = np.cumsum([0, *map(len, grams)])
    cell_forms(sums, groups.offsets[:-1], starts, np.concatenate(sets), np.concatenate(grams), begins, out)
    for m, own in enumerate(sets):
        whole = np.ones((1, 1))
        for j in own:
            whole = np.kron(whole, axes[j].gram)
        part = sums[groups.offsets[m] : groups.offsets[m + 1]]
        assert out[m] == pytest.approx(part @ whole @ part, rel=1e-10, abs=1e-12)
