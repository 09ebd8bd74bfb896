"""Without a working cache of machine code, the library is imported and fits all the same."""

from __future__ import annotations

import ctypes
import os
import runpy
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba.core import caching, config

import manykernels.compiled

# The decorator by itself: the whole library takes seconds to import.
LOOPS = f"""
import runpy
import signal
compiled = runpy.run_path({manykernels.compiled.__file__!r})["compiled"]

@compiled(error_model="numpy")
def half(x):
    return x / 2
"""
RUN = "from loops import half; print(half(28.0), sum(half.stats.cache_hits.values()))"
WHOLE = """
import numpy as np
from manykernels.grams import DenseStack

print(DenseStack(np.eye(3)[None]).quad(np.array([1.0, 2.0, 3.0]))[0], 0)
"""
NO_FOLDER = """
from numba.core import caching
(caching.CacheImpl if hasattr(caching, "CacheImpl") else caching._CacheImpl)._locator_classes = []
"""
FULL_DISK = "import numba, resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a module of one loop."""
    (tmp_path / "loops.py").write_text(LOOPS)
    return tmp_path


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return that folder, with a cache in it for loops that this process defines."""
    monkeypatch.setattr(config, "CACHE_DIR", str(folder / "cache"))
    return folder


def answer_here(folder: Path) -> tuple[float, int]:
    """Return what the loop, defined anew, computes, and how many times it was found in the cache."""
    half = runpy.run_path(str(folder / "loops.py"))["half"]
    return half(28.0), sum(half.stats.cache_hits.values())


def answer(folder: Path, script: str) -> tuple[float, int]:
    """Return the same of a new process."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache"), "NUMBA_CACHE_LOCATOR_CLASSES": ""}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    value, hits = done.stdout.split()
    return float(value), int(hits)


def test_numba_alone_fails_without_a_folder(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "loops.py").write_text("from numba import njit\n@njit(cache=True)\ndef half(x):\n    return x / 2\n")
    classes = getattr(caching, "CacheImpl", None) or caching._CacheImpl
    monkeypatch.setattr(classes, "_locator_classes", [])
    with pytest.raises(RuntimeError, match="no locator available"):
        answer_here(here)


@pytest.mark.nightly
def test_the_library_computes_without_a_folder(folder: Path) -> None:
    assert answer(folder, NO_FOLDER + WHOLE) == (14.0, 0)
    assert not (folder / "cache").exists()


def test_a_cache_folder_that_cannot_be_one_is_no_obstacle(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "CACHE_DIR", str(here / "loops.py" / "cache"))
    assert answer_here(here) == (14.0, 0)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limits on the size of files")
def test_a_full_disk_is_no_obstacle(here: Path) -> None:
    assert answer(here, FULL_DISK + RUN) == (14.0, 0)
    assert answer_here(here) == (14.0, 0)
    assert answer_here(here) == (14.0, 1)


def test_machine_code_is_read_without_what_compiling_needs(folder: Path) -> None:
    loop = """
@compiled()
def spread(x):
    made = np.full((2, 2), x) @ np.exp(np.zeros((2, 2)))
    return np.sort(made.ravel())[-1] + np.linalg.solve(made + np.eye(2), np.zeros(2))[0]
"""
    (folder / "loops.py").write_text(f"import numpy as np\n{LOOPS}{loop}")
    run = "import sys; from loops import spread; print(spread(14.0), int('numba.np.arraymath' in sys.modules))"
    assert answer(folder, run) == (28.0, 1)
    assert answer(folder, run) == (28.0, 0)


def test_loops_are_found_in_the_cache(here: Path) -> None:
    assert answer_here(here) == (14.0, 0)
    assert answer_here(here) == (14.0, 1)


@pytest.mark.parametrize("ending", [".nbi", ".nbc"])
@pytest.mark.parametrize("share", [0.0, 0.5])
def test_cut_files_are_compiled_and_written_again(ending: str, share: float, here: Path) -> None:
    assert answer_here(here) == (14.0, 0)
    files = list((here / "cache").rglob(f"*{ending}"))
    assert len(files) == 1
    data = files[0].read_bytes()
    files[0].write_bytes(data[: int(share * len(data))])
    assert answer_here(here) == (14.0, 0)
    assert answer_here(here) == (14.0, 1)


def test_processes_that_compile_at_once_are_not_given_the_code_of_each_other(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, third = (runpy.run_path(str(here / "loops.py"))["half"] for _ in range(3))
    files, late = first._cache._cache_file, []
    with monkeypatch.context() as patches:  # the first is slow to write, and the second read the index before it
        patches.setattr(files, "_save_data", lambda *args: late.append(args))
        patches.setattr(second._cache._cache_file, "_load_index", dict)
        assert (first(28.0), second(28)) == (14.0, 14.0)
    assert len(late) == 1
    files._save_data(*late[0])
    assert third(28) == 14.0
    assert third.signatures == second.signatures
    assert sum(third.stats.cache_hits.values()) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no C function that raises a signal by number")
def test_ctrl_c_in_a_loop_that_returns_several_values_is_a_keyboard_interrupt() -> None:
    send = ctypes.CDLL(None)["raise"]
    send.argtypes, send.restype = [ctypes.c_int], ctypes.c_int

    def interrupted(x: np.ndarray, number: int) -> tuple[np.ndarray, int]:
        return x, send(number)

    loop = manykernels.compiled.compiled()(interrupted)
    loop._cache = caching.NullCache()  # the address of a C function cannot be kept on disk
    x = np.zeros(2)
    assert loop(x, 0)[0] is x
    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        loop(x, int(signal.SIGINT))


def test_other_system_errors_of_a_loop_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise SystemError("broken")

    monkeypatch.setattr(manykernels.compiled, "_call", broken)
    with pytest.raises(SystemError, match="broken"):
        manykernels.compiled.compiled()(lambda x: x)(1.0)
