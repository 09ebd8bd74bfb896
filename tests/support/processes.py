"""Python anew: copies of a process that has loaded what others wrote, and nothing of ours.

To load NumPy, pandas, scikit-learn and Numba takes longer than most of what a test asks of a new process.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import IO, Any

LOADED = """
import numba, numpy, pandas
import scipy.fft, scipy.linalg, scipy.optimize, scipy.sparse.linalg, scipy.special
import sklearn.base, sklearn.metrics, sklearn.model_selection, sklearn.pipeline, sklearn.preprocessing
"""
# Each line is a request: what to run with which arguments where, and where what it prints goes.
COPIES = (
    LOADED
    + """
import json, os, sys, traceback
assert not any(name.partition(".")[0] == "manykernels" for name in sys.modules)
for line in sys.stdin:
    told = json.loads(line)
    copy = os.fork()
    if copy:
        print(os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1]), flush=True)
        continue
    code = 1
    try:
        for number, name in ((0, os.devnull), (1, told["out"]), (2, told["err"])):
            os.dup2(os.open(name, os.O_RDWR | os.O_CREAT), number)
        os.chdir(told["folder"])
        sys.argv = ["-c", *told["arguments"]]
        exec(compile(told["code"], "<string>", "exec"), {"__name__": "__main__", "__builtins__": __builtins__})
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
"""
)


def python(code: str, *arguments: str | Path, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run code in a process of its own, in this folder."""
    words, place = [str(word) for word in arguments], str(folder or Path.cwd())
    if not hasattr(os, "fork"):
        command = [sys.executable, "-c", code, *words]
        return subprocess.run(command, capture_output=True, text=True, cwd=place, check=False)
    server = _server()
    with tempfile.TemporaryDirectory() as parent:
        out, err = Path(parent) / "out", Path(parent) / "err"
        told: dict[str, Any] = {"code": code, "arguments": words, "folder": place, "out": str(out), "err": str(err)}
        _of(server.stdin).write(json.dumps(told) + "\n")
        _of(server.stdin).flush()
        ended = int(_of(server.stdout).readline())
        return subprocess.CompletedProcess(words, ended, out.read_text("utf-8"), err.read_text("utf-8"))


@cache
def _server() -> subprocess.Popen[str]:
    server = subprocess.Popen([sys.executable, "-c", COPIES], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(_end, server)
    return server


def _end(server: subprocess.Popen[str]) -> None:
    server.communicate()


def _of(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream
