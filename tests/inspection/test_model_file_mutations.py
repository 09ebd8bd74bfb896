"""Model files that were changed at random are refused in words, or give a model that works; nothing raw comes out."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.mutations import mutated, works

from manykernels import load_model, save_model
from manykernels.exceptions import ModelFileError

N_FILES = int(os.environ.get("MANYKERNELS_MUTATED_FILES", "40"))  # of each of seven models
SEED = int(os.environ.get("MANYKERNELS_MUTATION_SEED", "0"))


@pytest.mark.sampled(8)
def test_mutated_files_are_refused_or_work(fitted: tuple[Any, Any], tmp_path: Path) -> None:
    model, rows = fitted
    save_model(model, tmp_path / "model.mkl")
    with zipfile.ZipFile(tmp_path / "model.mkl") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    rng, refused = np.random.default_rng(SEED), 0
    for _ in range(N_FILES):
        what = mutated(members, rng, tmp_path / "mutated.mkl")
        try:
            refused += not works(tmp_path / "mutated.mkl", rows)
        except Exception as error:
            raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error
    assert N_FILES / 3 < refused < N_FILES


@pytest.mark.sampled(4)
@pytest.mark.parametrize("sign", [b"(", b"[", b"{", b"'", b"\\", b"\n", b"\x00", b"9"])
def test_a_foreign_sign_in_a_header_is_refused(sign: bytes, named: Any, tmp_path: Path) -> None:
    save_model(named("binary")[0], tmp_path / "model.mkl")
    with zipfile.ZipFile(tmp_path / "model.mkl") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = sorted(set(members) - {"model.json"})[0]
    refused = 0
    for place in range(10, 70):
        data = bytearray(members[name])
        if data[place : place + 1] == sign:
            continue
        data[place] = sign[0]
        with zipfile.ZipFile(tmp_path / "mutated.mkl", "w") as archive:
            for other, content in members.items():
                archive.writestr(other, bytes(data) if other == name else content)
        try:
            load_model(tmp_path / "mutated.mkl")
        except ModelFileError:
            refused += 1
    assert refused == sum(members[name][place : place + 1] != sign for place in range(10, 70))
