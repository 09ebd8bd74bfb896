"""What training rows say of the kernels that a fit will hold."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from manykernels import Gaussian, KernelBank, Linear
from manykernels.grams.repeats import pays, repeats_of
from manykernels.grams.seconds import ProblemForm
from manykernels.grams.training import open_training, plan_for, size_bank, total_rank
from manykernels.kernels import Joint
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
    assert total_rank(Table.wrap(X)) == expected
    assert total_rank(Table.wrap(pd.DataFrame(X))) == expected


REPEATED = RNG.integers(0, (3, 9, 40, 150), size=(300, 4)).astype(float)
MANY_VALUES = RNG.normal(size=(300, 3))
GAPS = np.where(RNG.random((300, 4)) < 0.1, np.nan, REPEATED)
WORDS = pd.DataFrame({"word": RNG.choice(list("abcd"), 300), "count": REPEATED[:, 1], "number": MANY_VALUES[:, 0]})
WIDTHS = KernelBank.per_feature([Gaussian(width) for width in (0.5, 1.0, 2.0, 4.0, 8.0)] + [Linear()])
PLANNED = {
    "many values": (MANY_VALUES, WIDTHS, "4 GB", 1),
    "in float32": (MANY_VALUES, WIDTHS, "14 MB", 1),
    "evaluated": (MANY_VALUES, WIDTHS, "11 MB", 1),
    "read for many targets": (REPEATED, WIDTHS, "4 GB", 10),
    "repeated": (REPEATED, WIDTHS, "4 GB", 1),
    "repeated, some in float32": (np.hstack([REPEATED, MANY_VALUES]), WIDTHS, "15 MB", 1),
    "repeated, all columns together too": (REPEATED[:, :2], KernelBank.auto(), "4 GB", 1),
    "repeated, with gaps": (GAPS, WIDTHS.replace(missing="mask"), "4 GB", 1),
    "words": (WORDS, KernelBank.auto(), "4 GB", 1),
}


@pytest.mark.parametrize("name", PLANNED)
def test_the_plan_tells_the_bytes_that_matrices_then_take(name):
    X, bank, budget, n_targets = PLANNED[name]
    settings = {"memory_budget": budget, "form": ProblemForm(n_targets, shared=True), "representation": "gram"}
    plan = plan_for(bank, X, **settings)
    stack = open_training(bank, X, n_jobs=None, **settings).stack
    assert (plan.nbytes, plan.dtype) == (stack.nbytes, str(stack.dtype))
    assert (plan.kind == "lazy") == (not stack.in_memory)
    assert plan.nbytes + plan.working_nbytes <= plan.budget
    assert ("distinct points" in plan.reason) == ("repeated" in name or name == "words")


def test_points_of_columns_are_counted_as_far_as_matrices_among_them_may_pay():
    rng = np.random.default_rng(5)
    X = np.column_stack([rng.integers(0, 3, size=(900, 3)), rng.integers(0, 300, size=(900, 3))]).astype(np.float64)
    columns = [(0, 1), (0, 1, 2), (0, 3), (3, 4, 5)]
    kernels = [(f"{of}: {w}", Gaussian(w), list(of)) for of in columns for w in (0.5, 1.0, 2.0, 4.0)]
    found = repeats_of(bank := KernelBank(kernels), bank.expand(table := Table.wrap(X)), table)
    counts = [(4, len(np.unique(X[:, of], axis=0))) for of in map(list, columns)]
    assert sorted(found) == sorted((m, v) for m, v in counts if pays(m, len(X), v))
    assert 0 < len(found) < len(columns)


GAPPED = {"categories": ["word", "place"], "numbers": ["first"], "both": ["first", "word", "place"]}


def gapped_table(n: int, gaps: str) -> pd.DataFrame:
    """Return numbers and categories, with gaps in one or both of these kinds of columns."""
    rng = np.random.default_rng(n)
    table = pd.DataFrame(rng.normal(size=(n, 3)), columns=["first", "second", "third"])
    table = table.assign(word=rng.choice(list("abc"), n), place=rng.choice(list("uv"), n))
    for column in GAPPED[gaps]:
        table.loc[rng.random(n) < 0.1, column] = np.nan if column == "first" else None
    return table


@pytest.mark.parametrize("gaps", GAPPED)
@pytest.mark.parametrize("n", [60, 700, 2_500])
def test_each_gap_pattern_has_one_missingness_kernel_at_every_size(n, gaps):
    table, bank = gapped_table(n, gaps), KernelBank.auto(missing="indicator")
    expected = [f"{column}: missing" for column in GAPPED[gaps]]
    for own in (bank, bank.resolve(table), size_bank(bank, table), size_bank(bank, table).resolve(table)):
        again = own.replace(missing="indicator")  # a pattern that has a kernel gets no second one
        for one in (own, again):
            names = [name for name, _, _ in one.expand(table)]
            assert [name for name in names if name.endswith("missing")] == expected
    landmarks = sum("landmarks" in name for name, _, _ in size_bank(bank, table).expand(table))
    assert (landmarks > 0) == (n == 2_500)


def test_missingness_kernels_of_equally_named_groups_are_named_after_their_columns():
    rows = RNG.normal(size=(30, 4))
    rows[:3, 0] = rows[5:9, 2] = np.nan
    entries = [Joint((Gaussian(1.0),), [0, 1]), Joint((Linear(),), [2, 3])]
    names = [name for name, _, _ in KernelBank(entries, missing="indicator").expand(rows)]
    assert names[2:] == ["all: missing", "x2: missing"]
