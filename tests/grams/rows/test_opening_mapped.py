"""Rows of memory maps, read from their files: the same entries, and words where a file is cut off."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.processes import python

from manykernels.grams.rows.opening import ArrayRows, MappedFile

CUT_OFF = """
import os, sys
import numpy as np
from manykernels import Gaussian, KernelBank, open_rows, solve
from manykernels.exceptions import InvalidInputError

path = sys.argv[1]
X = np.load(path, mmap_mode="r")
y = np.sin(np.asarray(X[:, 0]))
rows = open_rows(X, chunk_rows=5_000)
read, passes = type(rows).read, []


def cut(self, chunk, positions):
    passes.append(chunk)
    if len(passes) == 12:  # in the second pass
        os.truncate(path, 4_096)
    return read(self, chunk, positions)


type(rows).read = cut
bank = KernelBank.per_feature(Gaussian(1.0), standardize=True)
try:
    solve(bank, y, X=rows, loss="squared", penalty="l1", strength=1.0, memory_budget="4 MB")
except InvalidInputError as error:
    print("in words:", error)
"""


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("part", [slice(None), slice(7, 50)])
def test_rows_are_those_of_the_map(tmp_path: Path, order: Any, part: slice) -> None:
    whole = np.asarray(np.random.default_rng(0).normal(size=(60, 3)), order=order)
    np.save(tmp_path / "rows.npy", whole)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")[part]
    rows = ArrayRows(mapped, chunk_rows=16)
    contiguous = mapped.flags.c_contiguous or mapped.flags.f_contiguous
    assert (MappedFile.locate(mapped) is not None) == contiguous
    for chunk in range(rows.n_chunks):
        np.testing.assert_array_equal(rows.read(chunk, [2, 0]), whole[part][rows.slice(chunk)][:, [2, 0]])


def test_what_can_be_written_to_is_read_from_the_map(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", np.zeros((20, 2)))
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="c")
    mapped[3, 1] = 5.0  # in memory alone
    assert ArrayRows(mapped).read(0, [0, 1])[3, 1] == 5.0


def test_another_file_of_the_same_name_is_not_read(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", np.ones((20, 2)))
    rows = ArrayRows(np.load(tmp_path / "rows.npy", mmap_mode="r"))
    np.save(tmp_path / "other.npy", np.zeros((20, 2)))
    try:
        (tmp_path / "other.npy").replace(tmp_path / "rows.npy")
    except PermissionError:
        pytest.skip("this system keeps files that are mapped")
    assert rows.read(0, [0, 1]).all()
    (tmp_path / "rows.npy").unlink()
    assert rows.read(0, [0, 1]).all()


@pytest.mark.skipif(sys.platform == "win32", reason="a file that is mapped cannot be cut off there")
def test_a_file_that_is_cut_off_during_a_fit_is_an_error_in_words(tmp_path: Path) -> None:
    """In a process of its own, which a page that is gone would end."""
    np.save(tmp_path / "rows.npy", np.random.default_rng(0).normal(size=(50_000, 3)))
    done = python(CUT_OFF, tmp_path / "rows.npy")
    assert done.returncode == 0, done.stderr
    assert "rows.npy was cut off while it was read: it has 4096 bytes" in done.stdout
