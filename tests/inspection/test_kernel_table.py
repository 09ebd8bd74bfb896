"""Names of columns are found in the labels of kernels."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from manykernels import KernelBank, MKLClassifier
from manykernels.inspection.displays.kernel_table import columns_of, groups_of, kernel_table


@pytest.mark.parametrize(
    ("label", "known", "expected"),
    [
        ("a, b", {"a", "b"}, ("a", "b")),
        ("a, b", {"a, b"}, ("a, b",)),
        ("a, b, c", {"a, b", "c"}, ("a, b", "c")),
        ("a, b, c", {"a", "a, b", "b, c"}, ("a", "b, c")),
        ("a, d", {"a", "b"}, ()),
        ("", {"a"}, ()),
    ],
)
def test_columns_of_a_label(label: str, known: set[str], expected: tuple[str, ...]) -> None:
    assert columns_of(label, known) == expected


def test_a_kernel_of_thousands_of_columns() -> None:
    names = [f"gene{j}" for j in range(5000)]
    assert columns_of(", ".join(names), set(names)) == tuple(names)
    assert columns_of(", ".join([*names, "other"]), set(names)) == ()


def test_groups_of_a_wide_view() -> None:
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(24, 990))).add_prefix("g")
    model = MKLClassifier(KernelBank.from_views({"rna": [f"g{j}" for j in range(990)]})).fit(X, X["g0"] > 0)
    assert [len(group) for group in groups_of(model, kernel_table(model), "column")] == [990] * 4
