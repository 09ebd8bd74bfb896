"""The mixed table has the columns, gaps and effects that it says it has."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from manykernels.datasets import make_mixed_table

N = 20_000


def test_columns_gaps_and_effects_are_as_said() -> None:
    data = make_mixed_table(N, levels=(2, 7, 50), missing=0.2, random_state=0)
    assert data.informative == ("age", "dose", "grade", "visit", "code0", "code1", "code2")
    assert [data.X[name].nunique() for name in ("code0", "code1", "code2", "site", "grade")] == [2, 7, 50, 12, 4]
    gaps = data.X.isna()
    np.testing.assert_allclose(gaps.drop(columns="dose").mean(), 0.2, atol=0.015)
    by_class = [gaps["dose"][data.y == label].mean() for label in (0, 1)]
    assert by_class[1] / by_class[0] == pytest.approx(2.0, abs=0.15)
    np.testing.assert_allclose(data.effects.drop(columns="code0").var(), 1.0, atol=0.15)
    np.testing.assert_allclose(data.effects.mean(), 0.0, atol=0.05)
    np.testing.assert_allclose(data.score, data.effects.sum(axis=1))


def test_the_score_is_the_log_odds() -> None:
    data = make_mixed_table(N, random_state=1)
    for low, high in ((-3, -1), (-1, 1), (1, 3)):
        inside = (data.score > low) & (data.score < high)
        assert data.y[inside].mean() == pytest.approx((1 / (1 + np.exp(-data.score[inside]))).mean(), abs=0.03)
    assert roc_auc_score(data.y, data.score) > 0.85


def test_equal_seeds_give_equal_tables_and_bad_arguments_are_named() -> None:
    first, second = (make_mixed_table(50, random_state=3) for _ in range(2))
    assert first.X.equals(second.X)
    for options, message in (
        ({"missing": 0.6}, "less than 0.5"),
        ({"levels": (1,)}, "levels.0."),
        ({"n_samples": 0}, "n_s"),
    ):
        with pytest.raises(ValueError, match=message):
            make_mixed_table(**options)
