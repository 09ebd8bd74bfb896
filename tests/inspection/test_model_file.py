"""A model file gives back exactly the model that was saved, and refuses everything else with a reason."""

from __future__ import annotations

import io
import json
import os
import pickle
import stat
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from manykernels import (
    FromCallable,
    Gaussian,
    InvalidInputError,
    KernelBank,
    KernelStack,
    Linear,
    MKLClassifier,
    MKLRegressor,
    Polynomial,
    PrecomputedBank,
    load_model,
    save_model,
)
from manykernels.estimators.parameters import Search
from manykernels.exceptions import ModelFileError
from manykernels.inspection import read_metadata
from manykernels.inspection.model_file.values import Decoder, Encoder, allowed_classes
from manykernels.kernels import FittedBank
from manykernels.objective import get_loss, get_regularizer
from manykernels.solvers import InteriorPoint

Named = Callable[[str], tuple[Any, Any]]


def round_trip(model: Any, folder: Path) -> Any:
    """Return the model after saving and loading it."""
    save_model(model, folder / "model.mkl")
    return load_model(folder / "model.mkl")


def equal(first: Any, second: Any) -> bool:
    """Tell whether two attributes are the same to the last bit."""
    if isinstance(first, pd.DataFrame):
        return first.equals(second)
    if isinstance(first, np.ndarray):
        return first.dtype == second.dtype and np.array_equal(first, second)
    if isinstance(first, tuple):
        return all(equal(one, other) for one, other in zip(first, second, strict=True))
    if hasattr(first, "certificate"):
        return (
            np.array_equal(first.dual_coef, second.dual_coef)
            and np.array_equal(first.kernel_weights, second.kernel_weights)
            and np.array_equal(first.certificate.dual_norms, second.certificate.dual_norms)
            and (first.certificate, first.history, first.status, first.message, first.elapsed_s)
            == (second.certificate, second.history, second.status, second.message, second.elapsed_s)
        )
    return bool(first == second)


def rebuilt(path: Path, change: Callable[[dict[str, Any], dict[str, bytes]], None], **options: Any) -> Path:
    """Write the archive again after changing its document or its arrays."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    document = json.loads(members.pop("model.json"))
    change(document, members)
    target = path.with_name("changed.mkl")
    with zipfile.ZipFile(target, "w", **options) as archive:
        archive.writestr("model.json", json.dumps(document))
        for name, data in members.items():
            archive.writestr(name, data)
    return target


def npy(array: np.ndarray, **options: Any) -> bytes:
    """Return an array in NumPy's format."""
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, **options)
    return buffer.getvalue()


@pytest.fixture
def saved(named: Named, tmp_path: Path) -> Path:
    """Return the file of the model with two classes."""
    save_model(named("binary")[0], tmp_path / "model.mkl", metadata={"target": "y", "rows": 36})
    return tmp_path / "model.mkl"


def test_predictions_survive_to_the_last_bit(fitted: tuple[Any, Any], tmp_path: Path) -> None:
    model, rows = fitted
    same = round_trip(model, tmp_path)
    assert type(same) is type(model)
    assert np.array_equal(same.predict(rows), model.predict(rows))
    assert np.array_equal(same.decompose(rows), model.decompose(rows))
    if isinstance(model, MKLClassifier):
        assert np.array_equal(same.decision_function(rows), model.decision_function(rows))


def test_every_attribute_survives(fitted: tuple[Any, Any], tmp_path: Path) -> None:
    model, _ = fitted
    same = round_trip(model, tmp_path)
    assert set(vars(same)) == set(vars(model))
    names = [name for name in vars(model) if name.endswith("_")]
    assert {"kernel_weights_", "dual_coef_", "solution_"} <= set(names)
    assert [name for name in names if not equal(getattr(model, name), getattr(same, name))] == []
    assert same.weights_frame(active_only=False).equals(model.weights_frame(active_only=False))


def test_the_comparison_of_attributes_can_fail(named: Named) -> None:
    model, other = named("binary")[0], named("centered")[0]
    assert not equal(model.solution_, other.solution_)
    assert not equal(model.kernel_weights_, other.kernel_weights_)


def test_a_loaded_model_can_be_fitted_again(fitted: tuple[Any, Any], tmp_path: Path) -> None:
    model, _ = fitted
    same = round_trip(model, tmp_path)
    before, after = model.get_params(deep=False), same.get_params(deep=False)
    assert before.keys() == after.keys()
    assert all(np.array_equal(before[name], after[name]) for name in before)


def test_objects_as_parameters_survive(tmp_path: Path) -> None:
    X = np.linspace(-1, 1, 20)[:, None]
    model = MKLRegressor(
        loss=get_loss("huber", delta=0.5), penalty=get_regularizer("lq", 0.1, q=1.2), solver=InteriorPoint(tol=1e-3)
    ).fit(X, X[:, 0] ** 2)
    same = round_trip(model, tmp_path)
    assert (same.loss, same.penalty, same.solver) == (model.loss, model.penalty, model.solver)


def test_the_same_model_gives_the_same_bytes(named: Named, tmp_path: Path) -> None:
    model, _ = named("regressor")
    for name in ("one", "two"):
        save_model(model, tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_numpy_reads_the_arrays_without_this_library(saved: Path, named: Named) -> None:
    with np.load(saved, allow_pickle=False) as arrays:
        found = [arrays[name] for name in arrays.files if name.endswith("_kernel_weights_")]
    assert len(found) == 1
    assert np.array_equal(found[0], named("binary")[0].kernel_weights_)


def test_metadata_comes_back(saved: Path) -> None:
    metadata = read_metadata(saved)
    assert (metadata["target"], metadata["rows"], metadata["estimator"]) == ("y", 36, "MKLClassifier")


def test_a_file_is_replaced_only_by_a_whole_one(saved: Path) -> None:
    before = saved.read_bytes()
    broken = load_model(saved)
    broken.random_state = np.random.RandomState(0)
    with pytest.raises(ModelFileError, match="random_state is a RandomState"):
        save_model(broken, saved)
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == ["model.mkl"]


# --- what becomes of the file that is replaced ---


posix = pytest.mark.skipif(os.name == "nt", reason="Windows has no such permissions, links, names or pipes")


@posix
def test_permissions_and_owner_are_kept(saved: Path) -> None:
    model = load_model(saved)
    for mode in (0o600, 0o664):
        saved.chmod(mode)
        before = saved.stat()
        save_model(model, saved)
        after = saved.stat()
        assert stat.S_IMODE(after.st_mode) == mode
        assert (after.st_uid, after.st_gid) == (before.st_uid, before.st_gid)
        assert after.st_ino != before.st_ino


@pytest.mark.skipif(getattr(os, "geteuid", lambda: 1)() != 0, reason="only root gives files away")
def test_a_file_of_another_owner_stays_theirs(saved: Path) -> None:
    model = load_model(saved)
    os.chown(saved, 12345, 54321)
    save_model(model, saved)
    assert (saved.stat().st_uid, saved.stat().st_gid) == (12345, 54321)


@posix
def test_links_go_on_pointing_to_the_file(saved: Path) -> None:
    folder = saved.parent / "elsewhere"
    folder.mkdir()
    real, link = folder / "real.mkl", saved.parent / "link.mkl"
    real.write_bytes(b"old")
    link.symlink_to(real)
    save_model(load_model(saved), link)
    assert link.is_symlink()
    assert load_model(real).get_params().keys() == load_model(link).get_params().keys()
    dangling = saved.parent / "dangling.mkl"
    dangling.symlink_to(folder / "new.mkl")
    save_model(load_model(saved), dangling)
    assert dangling.is_symlink()
    assert (folder / "new.mkl").is_file()
    loop = saved.parent / "loop.mkl"
    loop.symlink_to(loop)
    with pytest.raises(ModelFileError, match="cannot be written"):
        save_model(load_model(saved), loop)


@pytest.mark.parametrize("failing", ["fsync", "chmod", "replace"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt(), MemoryError()])
def test_nothing_is_left_behind_by_a_failure(
    failing: str, error: BaseException, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, before = load_model(saved), saved.read_bytes()

    def fail(*arguments: Any, **options: Any) -> None:
        raise error

    monkeypatch.setattr(os, failing, fail)
    expected = ModelFileError if isinstance(error, OSError) else type(error)
    with pytest.raises(expected, match="No space left on device" if isinstance(error, OSError) else None):
        save_model(model, saved)
    monkeypatch.undo()
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == ["model.mkl"]


@posix
def test_the_bytes_are_on_the_disk_before_the_name(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)

        def note(*arguments: Any, name: str = name, real: Any = real) -> Any:
            done.append(name)
            return real(*arguments)

        monkeypatch.setattr(os, name, note)
    save_model(load_model(saved), saved)
    assert done == ["fsync", "replace", "fsync"]


@posix
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("a\0b", "cannot be written .*null"),
        ("x" * 300 + ".mkl", "longer than file systems take|too long"),
        ("missing/model.mkl", "No such file"),
        ("", "folder or a device"),
        (".", "folder or a device"),
        ("\ud800.mkl", "cannot be written|surrogate"),
    ],
)
def test_impossible_names_are_refused_in_words(
    name: str, message: str, named: Named, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelFileError, match=message):
        save_model(named("binary")[0], name)
    assert list(tmp_path.iterdir()) == []


@posix
def test_the_longest_possible_name_is_taken(named: Named, tmp_path: Path) -> None:
    path = tmp_path / ("x" * 251 + ".mkl")
    save_model(named("binary")[0], path)
    assert [found.name for found in tmp_path.iterdir()] == [path.name]


@posix
def test_devices_and_pipes_are_refused(named: Named, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(ModelFileError, match="a device, a pipe or a socket"):
            load_model(path)
        with pytest.raises(ModelFileError, match="a folder or a device"):
            save_model(named("binary")[0], path)


@pytest.mark.parametrize("path", [3, None, b"model.mkl", io.BytesIO(b"PK")])
def test_what_is_no_path_is_refused(path: Any, named: Named) -> None:
    with pytest.raises(ModelFileError, match="by its path"):
        load_model(path)
    with pytest.raises(ModelFileError, match="by its path"):
        save_model(named("binary")[0], path)


def test_names_that_no_system_takes_are_refused_when_loading() -> None:
    with pytest.raises(ModelFileError, match=r"cannot be read: .*null"):
        load_model("a\0b")


@pytest.mark.parametrize("degree", [10**12, 1001])
def test_a_degree_that_would_never_end_is_refused(degree: int, tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(20, 2))
    save_model(MKLRegressor(KernelBank([("power", Polynomial(3))])).fit(X, X[:, 0] ** 3), tmp_path / "model.mkl")

    def change(document: dict[str, Any], arrays: dict[str, bytes]) -> None:
        part(document, "_expansion", "bank", "raw")["specs"]["tuple"][0]["kernel"]["degree"] = degree

    with pytest.raises(ModelFileError, match="degree must be at most 1000"):
        load_model(rebuilt(tmp_path / "model.mkl", change))


# --- what cannot be saved ---


def _first_columns(X: Any) -> list[int]:
    return [0, 1]


@pytest.mark.parametrize(
    ("bank", "message"),
    [
        (KernelBank([("minimum", FromCallable(lambda A, B: A @ B.T, "mine"))]), "'mine' is a Python function"),
        (KernelBank([("some", Linear(), _first_columns)]), r"columns is a function \(_first_columns\)"),
    ],
)
def test_functions_are_refused_when_saving(bank: KernelBank, message: str, tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(20, 2))
    model = MKLRegressor(bank).fit(X, X[:, 0])
    with pytest.raises(ModelFileError, match=message):
        save_model(model, tmp_path / "model.mkl")
    assert list(tmp_path.iterdir()) == []


def test_other_estimators_are_refused(tmp_path: Path) -> None:
    class Mine(MKLClassifier):
        """A class that the reader of a file would not have."""

    with pytest.raises(ModelFileError, match="not a LogisticRegression"):
        save_model(LogisticRegression(), tmp_path / "model.mkl")
    with pytest.raises(ModelFileError, match="not a Mine"):
        save_model(Mine(), tmp_path / "model.mkl")
    with pytest.raises(NotFittedError, match="not fitted"):
        save_model(MKLClassifier(), tmp_path / "model.mkl")


def test_foreign_attributes_and_folders_are_refused(named: Named, tmp_path: Path) -> None:
    model = round_trip(named("binary")[0], tmp_path)
    with pytest.raises(ModelFileError, match=r"cannot be written to .*No such file"):
        save_model(model, tmp_path / "no folder" / "model.mkl")
    model.importance = 1
    with pytest.raises(ModelFileError, match="'importance'"):
        save_model(model, tmp_path / "model.mkl")


def test_object_labels_are_refused(named: Named, tmp_path: Path) -> None:
    model = round_trip(named("binary")[0], tmp_path)
    model.classes_ = np.array([(0, 1), frozenset()], dtype=object)
    with pytest.raises(ModelFileError, match="classes_ holds Python objects"):
        save_model(model, tmp_path / "model.mkl")


# --- what cannot be opened ---


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not a model file"),
        (b"a,b\n1,2\n", "is not a model file"),
        (pickle.dumps({"a": 1}), "is not a model file"),
        (b"PK\x03\x04" + bytes(100), "its end is missing"),
    ],
)
def test_other_files_are_refused(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(ModelFileError, match=message):
        load_model(tmp_path / "file")


def test_missing_files_and_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="cannot be read: No such file"):
        load_model(tmp_path / "nothing")
    with pytest.raises(ModelFileError, match="cannot be read: Is a directory"):
        load_model(tmp_path)


def test_other_archives_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "arrays.npz", a=np.ones(3))
    with pytest.raises(ModelFileError, match=r"the archive has no model\.json"):
        load_model(tmp_path / "arrays.npz")


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_truncated_files_are_refused(saved: Path, share: float) -> None:
    data = saved.read_bytes()
    saved.write_bytes(data[: int(share * len(data))])
    with pytest.raises(ModelFileError, match=r"damaged|is not a model file"):
        load_model(saved)


def test_flipped_bytes_are_refused_or_harmless(saved: Path, named: Named) -> None:
    model, rows = named("binary")
    data, expected = saved.read_bytes(), model.decision_function(rows)
    refused = 0
    for at in np.random.default_rng(0).integers(0, len(data), 150):
        saved.write_bytes(data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :])
        try:
            # Some bytes mean nothing, such as the attributes of a member.
            assert np.array_equal(load_model(saved).decision_function(rows), expected)
        except ModelFileError:
            refused += 1
    assert refused > 100


@pytest.mark.parametrize(
    ("representation", "former", "unknown"),
    [("gram", "KernelExpansion", ("parts",)), ("factored", "FactoredExpansion", ("support", "coefficients"))],
)
def test_files_of_the_classes_before_there_was_one_expansion_open(
    representation: str, former: str, unknown: tuple[str, ...], tmp_path: Path
) -> None:
    X = np.random.default_rng(0).normal(size=(60, 2))
    model = MKLRegressor(KernelBank.per_feature(widths=[1.0]), resources={"representation": representation})
    save_model(model.fit(X, X[:, 0]), tmp_path / "model.mkl")

    def older(document: dict[str, Any], arrays: dict[str, bytes]) -> None:
        (own,) = document["model"].values()
        (fields,) = own["_expansion"].values()
        for node in (fields.pop(name) for name in unknown):
            if isinstance(node, dict) and "array" in node:
                del arrays[f"{node['array']}.npy"]
        own["_expansion"] = {former: fields}

    opened = load_model(rebuilt(tmp_path / "model.mkl", older))
    np.testing.assert_array_equal(opened.decompose(X), model.decompose(X))


def test_newer_versions_are_refused_by_name(saved: Path) -> None:
    def change(document: dict[str, Any], arrays: dict[str, bytes]) -> None:
        document.update(format_version=4, library_version="9.9.9", more={})

    with pytest.raises(ModelFileError, match=r"format version 4, written by manykernels 9\.9\.9.*Update manykernels"):
        load_model(rebuilt(saved, change))


def test_older_versions_are_refused_with_the_way_out(saved: Path) -> None:
    older = rebuilt(saved, lambda document, arrays: document.update(format_version=1))
    with pytest.raises(ModelFileError, match=r"format version 1, .* Fit the model again and save it"):
        load_model(older)


def part(document: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return the state of the classifier in a document, or of an object in it, by the names of attributes."""
    (state,) = document["model"].values()
    for name in names:
        (state,) = state[name].values()
    return state


def _replace_array(document: dict[str, Any], arrays: dict[str, bytes], data: bytes) -> None:
    name = next(name for name in arrays if name.endswith("_kernel_weights_.npy"))
    arrays[name] = data


def _bomb_header(document: dict[str, Any], arrays: dict[str, bytes]) -> None:
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }"
    header += b" " * (64 - (10 + len(header) + 1) % 64) + b"\n"
    _replace_array(document, arrays, b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(80))


HOSTILE: dict[str, tuple[Callable[[dict[str, Any], dict[str, bytes]], Any], str]] = {
    "objects": (
        lambda document, arrays: _replace_array(
            document, arrays, npy(np.array([{"a": 1}], dtype=object), allow_pickle=True)
        ),
        "dtype object",
    ),
    "huge shape": (_bomb_header, "declares shape"),
    "no array": (lambda document, arrays: _replace_array(document, arrays, b"cos\nsystem\n"), "magic"),
    "nan": (lambda document, arrays: _replace_array(document, arrays, npy(np.full(16, np.nan))), "kernel_weights_"),
    "short": (lambda document, arrays: _replace_array(document, arrays, npy(np.ones(3))), "kernel_weights_"),
    "no arrays": (lambda document, arrays: arrays.clear(), "KeyError"),
    "foreign member": (lambda document, arrays: arrays.update({"../evil.py": b"1"}), "foreign members"),
    "another format": (lambda document, arrays: document.update(format="x"), "is not a model file"),
    "version zero": (lambda document, arrays: document.update(format_version=0), "format version is 0"),
    "missing part": (lambda document, arrays: document.pop("model"), r"lacks or adds \['model'\]"),
    "missing attribute": (lambda document, arrays: part(document).pop("_expansion"), "no attribute '_expansion'"),
    "estimator": (lambda document, arrays: document.update(model={"os.system": {}}), "'os.system'.* is no estimator"),
    "no estimator": (lambda document, arrays: document.update(model={"Expansion": {}}), "is no estimator"),
    "class": (lambda document, arrays: part(document).update(alpha={"subprocess.Popen": {}}), "no part of a model"),
    "two keys": (lambda document, arrays: part(document).update(alpha={"a": 1, "b": 2}), "means nothing"),
    "parameter": (lambda document, arrays: part(document).update(evil=1), "its attributes add 'evil'"),
    "argument": (
        lambda document, arrays: part(document).update(solver={"InteriorPoint": {"evil": 1}}),
        "unexpected keyword",
    ),
    "method": (lambda document, arrays: part(document).update(predict="x"), "its attributes add 'predict'"),
    "private method": (lambda document, arrays: part(document).update(_scores="x"), "its attributes add '_scores'"),
    "what is put off": (lambda document, arrays: part(document).update(_questions="x"), "its attributes add"),
    "python": (lambda document, arrays: part(document).update(__class__="x"), "its attributes add '__class__'"),
    "kernel": (
        lambda document, arrays: part(document, "_expansion", "bank", "raw")["specs"]["tuple"][0]["kernel"].update(
            kernel="callable", function="x"
        ),
        "parameter|Unknown|callable",
    ),
    "no kernel": (
        lambda document, arrays: part(document, "_expansion", "bank", "raw")["specs"]["tuple"].__setitem__(0, "x"),
        "specs|no attribute",
    ),
    "no bank": (lambda document, arrays: part(document, "_expansion").update(bank={"PenaltyFamily": {}}), "missing"),
    "number": (lambda document, arrays: part(document).update(intercept_={"float": "nan"}), "intercept_"),
    "more kernels than memory": (
        lambda document, arrays: part(document, "_expansion").update(n_kernels=10**12),
        "kernel_weights_",
    ),
    "unused member": (
        lambda document, arrays: arrays.update({"more.npy": npy(np.ones(3))}),
        "nothing refers to its member 'more.npy'",
    ),
    "position": (lambda document, arrays: part(document, "_expansion").update(n_kernels=1), "active"),
    "rows": (
        lambda document, arrays: part(document, "_expansion", "support", "data").update(n_samples=1),
        "coefficients",
    ),
    "columns": (lambda document, arrays: part(document, "_expansion", "bank", "raw").update(n_features=1), "positions"),
    "other groups": (
        lambda document, arrays: part(document, "_expansion", "support", "data")["keys"]["tuple"].reverse(),
        r"support\.keys",
    ),
    "names": (lambda document, arrays: part(document).update(kernel_names_=["a"]), "kernel_names_"),
    "classes": (lambda document, arrays: part(document).update(classes_={"labels": ["a"]}), "classes_"),
    "solution": (lambda document, arrays: part(document).update(solution_=5), "TypeError|solution_"),
    "history": (
        lambda document, arrays: part(document, "solution_").update(history=5),
        "Solution have other types.*history",
    ),
    "status": (
        lambda document, arrays: part(document, "solution_").update(status={"status": "x"}),
        "not a valid Status",
    ),
    "text for a number": (lambda document, arrays: part(document, "_expansion").update(active="x"), "damaged"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_files_are_refused(case: str, saved: Path) -> None:
    change, message = HOSTILE[case]
    with pytest.raises(ModelFileError, match=message):
        load_model(rebuilt(saved, change))


def test_rebuilding_alone_changes_nothing(saved: Path, named: Named) -> None:
    model, rows = named("binary")
    same = load_model(rebuilt(saved, lambda document, arrays: None))
    assert np.array_equal(same.predict(rows), model.predict(rows))


def test_compressed_members_are_refused_unread(saved: Path) -> None:
    def bomb(document: dict[str, Any], arrays: dict[str, bytes]) -> None:
        arrays["bomb.npy"] = bytes(10_000_000)

    path = rebuilt(saved, bomb, compression=zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 1_000_000
    with pytest.raises(ModelFileError, match="compressed"):
        load_model(path)


def test_members_that_share_their_bytes_are_refused(saved: Path) -> None:
    """Ten entries of the directory that point to one member would unfold into ten times the file."""
    target = saved.with_name("overlap.mkl")
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("model.json", "{}")
        archive.writestr("a.npy", bytes(100_000))
        member = archive.getinfo("a.npy")
        for number in range(10):
            twin = zipfile.ZipInfo(f"b{number}.npy")
            twin.file_size, twin.compress_size = member.file_size, member.compress_size
            twin.CRC, twin.header_offset = member.CRC, member.header_offset
            archive.filelist.append(twin)
            archive.NameToInfo[twin.filename] = twin
    with pytest.raises(ModelFileError, match=r"declare .* bytes, but the file has"):
        load_model(target)


def test_deep_documents_are_refused(saved: Path) -> None:
    target = saved.with_name("deep.mkl")
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("model.json", "[" * 100_000 + "]" * 100_000)
    with pytest.raises(ModelFileError, match=r"model\.json cannot be read"):
        load_model(target)


def test_deep_values_are_refused(saved: Path) -> None:
    def change(document: dict[str, Any], arrays: dict[str, bytes]) -> None:
        node: Any = 1
        for _ in range(400):
            node = {"tuple": [node]}
        part(document)["alpha"] = node

    with pytest.raises(ModelFileError, match="damaged"):
        load_model(rebuilt(saved, change))


def test_a_model_file_error_is_an_invalid_input() -> None:
    assert issubclass(ModelFileError, InvalidInputError)


def test_names_of_classes_are_unique() -> None:
    from manykernels.objective.losses import LOSSES
    from manykernels.objective.regularizers import REGULARIZERS
    from manykernels.solvers.registry import SOLVERS

    registered = {*LOSSES.values(), *REGULARIZERS.values(), *SOLVERS.values()}
    classes = allowed_classes()
    assert registered <= set(classes.values())
    assert not set(classes) & set(Decoder({})._kinds)


# --- fitted banks by themselves ---

BANK = KernelBank([("near", Gaussian("median"), [0, 1]), ("cubic", Polynomial(3), [2]), ("line", Linear())])


def table() -> pd.DataFrame:
    """Return 36 rows of three columns."""
    return pd.DataFrame(np.random.default_rng(0).normal(size=(36, 3)), columns=["first", "second", "third"])


def through_json(value: Any) -> Any:
    """Return a value after it was text and arrays."""
    encoder = Encoder()
    text = json.dumps(encoder.encode(value, "value"), allow_nan=False)
    return Decoder(encoder.arrays).decode(json.loads(text))


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("normalize", ["trace", "unit_diagonal"])
def test_banks_come_back_to_the_last_bit(center: bool, normalize: str) -> None:
    X = table()
    bank = replace(BANK, standardize=True, normalize=normalize, center=center).fit(X)
    again = through_json(bank)
    expected = bank.block(bank.prepare(X), bank.prepare(X[:5]))
    np.testing.assert_array_equal(again.block(again.prepare(X), again.prepare(X[:5])), expected)
    assert again.frame().equals(bank.frame())
    fitted, samples = PrecomputedBank(normalize, center=center).fit_prepare(expected[:, :5])
    same, new = through_json(fitted), KernelStack.rectangular(expected, diagonal=bank.diag(bank.prepare(X)))
    np.testing.assert_array_equal(same.block(same.prepare(new), samples), fitted.block(fitted.prepare(new), samples))


def changed(bank: FittedBank, change: dict[str, Any]) -> FittedBank:
    """Return a bank with other parts, its own or those of its kernels."""
    if set(change) <= set(vars(bank)):
        return replace(bank, **change)
    return replace(bank, raw=replace(bank.raw, **change))  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scales": np.ones(2)}, "fit the rest: scales$"),
        ({"shifts": np.ones(9)}, "fit the rest: shifts$"),
        ({"positions": ((99,),) * 3}, "positions"),
        ({"positions": ((0.5,),) * 3}, "positions"),
        ({"specs": ()}, "specs"),
        ({"center": True}, "grand_means, reference"),
        ({"feature_names": ("a",)}, "names"),
        ({"normalize": "x"}, "normalize"),
        ({"column_means": np.full(3, np.nan)}, "column_means"),
    ],
)
def test_banks_whose_parts_differ_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        through_json(changed(BANK.fit(table()), change))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scales": np.ones(2)}, "scales"),
        ({"grand_means": np.ones(1)}, "grand_means"),
        ({"kernel_ids": np.array([2])}, "kernel_ids"),
        ({"training_ids": np.arange(36.0)}, "training_ids"),
        ({"names": (1,)}, "names"),
    ],
)
def test_precomputed_banks_whose_parts_differ_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        through_json(changed(PrecomputedBank().fit(Linear()(table().to_numpy())[None]), change))


def test_arguments_of_older_files_that_a_class_no_longer_takes_are_left_out() -> None:
    node = Encoder().encode(Search(rule="1se"), "search")
    node["Search"]["fold_kernels"] = "own"
    assert Decoder({}).decode(node) == Search(rule="1se")
    node["Search"]["unknown"] = 1
    with pytest.raises(TypeError, match="unknown"):
        Decoder({}).decode(node)
