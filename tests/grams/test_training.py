"""What training rows say of the kernels that a fit will hold."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from manykernels.grams.training import total_rank
from manykernels.kernels.bank.columns import Table

RNG = np.random.default_rng(0)
COLUMNS = {
    "many values": (RNG.normal(size=(60, 3)), 90),
    "few values": (RNG.integers(0, 3, size=(300, 4)).astype(float), 12),
    "gaps": (np.array([[np.nan, 1.0], [2.0, np.nan], [np.nan, np.nan], [2.0, 3.0]]), 5),
    "nothing but gaps": (np.full((5, 1), np.nan), 1),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_the_rank_of_columns_is_that_of_their_values(name):
    X, expected = COLUMNS[name]
    assert total_rank(Table.of(X)) == expected
    assert total_rank(Table.of(pd.DataFrame(X))) == expected
