"""A few exports of the many that ``make fuzz`` writes, always the same ones."""

from __future__ import annotations

import pytest
from tests.fuzz.exports import judge_export

ROUNDS = 12


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_a_few_exports(seed: int) -> None:
    pytest.importorskip("onnxruntime")
    check(seed)


@pytest.mark.parametrize("seed", [9000374], ids=["a number that is too large to tell where it is in a period"])
def test_exports_that_were_wrong(seed: int) -> None:
    pytest.importorskip("onnxruntime")
    check(seed)


def check(seed: int) -> None:
    """Fail where a file differs from its model by more than it says."""
    for judged in judge_export(seed):
        if judged.kind != "types":
            assert judged.failure == "", f"seed {seed}, {judged.kind}: {judged.detail}"
