"""Memory of the machine: the installed bytes, and those that the process can still get.

Limits come from control groups (containers, SLURM jobs, systemd scopes), of version 1 and 2, and from ``ulimit -v``.
"""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import numpy as np
import psutil

try:
    import resource
except ImportError:  # Windows has no such limits
    resource = None  # type: ignore[assignment]

UNLIMITED = 2**60  # bytes: control groups of version 1 without a limit say nearly 2**63
V1_FILES = "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
V2_FILES = "memory.max", "memory.current", "inactive_file"
V1_MOUNTS: tuple[str, ...] = ("sys/fs/cgroup/memory",)
V2_MOUNTS: tuple[str, ...] = "sys/fs/cgroup", "sys/fs/cgroup/unified"


def total_memory(root: Path = Path("/")) -> int:
    """Return the bytes of physical memory, no more than the limit of any control group of the process."""
    return min([psutil.virtual_memory().total, *(limit for limit, _ in group_limits(root))])


def available_memory(root: Path = Path("/")) -> int:
    """Return the bytes of physical memory the process can still get.

    That is the free memory of the machine, no more than any control group and the address space of the process leave.
    """
    left = [max(limit - usage, 0) for limit, usage in group_limits(root)]
    return int(min([psutil.virtual_memory().available, *left, _address_space_left()]))


def group_limits(root: Path = Path("/")) -> list[tuple[int, int]]:
    """Return the limit and the usage in bytes of every control group with a limit that the process belongs to.

    Groups are nested, so all up to the root of the hierarchy count. Inside a container the path that the process sees
    may lead nowhere, but the root is then the group of the container. File cache that the kernel can drop does not
    count as used.

    Parameters
    ----------
    root : Path
        Directory that holds ``proc`` and ``sys``.

    Returns
    -------
    list of (int, int)
    """
    limits = []
    for folder, (limit_file, usage_file, cache_key) in _group_folders(root):
        limit, usage = _read_bytes(folder / limit_file), _read_bytes(folder / usage_file)
        if limit is not None and limit < UNLIMITED:
            limits.append((limit, max((usage or 0) - _read_stat(folder / "memory.stat", cache_key), 0)))
    return limits


def _group_folders(root: Path) -> Iterator[tuple[Path, tuple[str, str, str]]]:
    """Yield the folders of the control groups of the process and their parents, with the names of their files."""
    for line in _read_text(root / "proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, name = rest.partition(":")
        if number == "0" and not controllers:
            mounts, files = V2_MOUNTS, V2_FILES
        elif "memory" in controllers.split(","):
            mounts, files = V1_MOUNTS, V1_FILES
        else:
            continue
        path = PurePosixPath("/", name)
        groups = [PurePosixPath("/")] if ".." in path.parts else [path, *path.parents]
        for mount in mounts:
            for group in groups:
                yield root / mount / group.relative_to("/"), files


def _read_text(path: Path) -> str:
    """Return the text of a file, empty where there is none to read."""
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return ""


def _read_bytes(path: Path) -> int | None:
    """Return the number in a file of a control group; None for "max" and where there is none."""
    text = _read_text(path).strip()
    return int(text) if text.isdigit() else None


def _read_stat(path: Path, key: str) -> int:
    """Return a single number of the statistics of a control group, zero where there is none."""
    pairs = (line.split() for line in _read_text(path).splitlines())
    return next((int(pair[1]) for pair in pairs if len(pair) == 2 and pair[0] == key and pair[1].isdigit()), 0)


def _address_space_left() -> float:
    """Return the bytes left in the address space of the process, infinite without a limit."""
    if resource is None:
        return np.inf
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return np.inf
    return max(limit - psutil.Process().memory_info().vms, 0)
