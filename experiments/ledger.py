"""Where a run of an experiment comes from: what every row of a run table says beside its figures."""

from __future__ import annotations

import platform
import subprocess
from functools import cache
from pathlib import Path

ORIGIN = ("revision", "machine")


@cache
def origin() -> dict[str, str]:
    """Return the revision of this library and the machine, as columns of a run table."""
    return {"revision": _revision(), "machine": _machine()}


def _revision() -> str:
    """Return the commit, with a plus where files differ from it; "unknown" outside a checkout."""
    git = ("git", "-C", str(Path(__file__).parent))
    try:
        commit = subprocess.run((*git, "rev-parse", "--short", "HEAD"), capture_output=True, text=True, check=True)
        changed = subprocess.run((*git, "status", "--porcelain", "-uno"), capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return commit.stdout.strip() + ("+" if changed.stdout.strip() else "")


def _machine() -> str:
    """Return the processor by its name where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
