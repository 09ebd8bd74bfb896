"""Memory by control groups of both versions on trees of files, as jobs, scopes and containers have them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from manykernels.grams import machine
from manykernels.grams.machine import available_memory, group_limits, total_memory

NO_LIMIT = 9223372036854771712  # of version 1
JOB = "slurm/uid_1000/job_7/step_0"
SCOPE = "user.slice/user-1000.slice/app.slice/run-r1.scope"


def write(root: Path, files: dict[str, str]) -> Path:
    """Write files below a folder."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def v1(group: str, limit: int, usage: int, cache: int = 0) -> dict[str, str]:
    """Return the files of a control group of version 1."""
    folder = f"sys/fs/cgroup/memory/{group}".rstrip("/")
    return {
        f"{folder}/memory.limit_in_bytes": f"{limit}\n",
        f"{folder}/memory.usage_in_bytes": f"{usage}\n",
        f"{folder}/memory.stat": f"cache 5\ninactive_file 1\ntotal_inactive_file {cache}\n",
    }


def v2(group: str, limit: int | str, usage: int, cache: int = 0, mount: str = "sys/fs/cgroup") -> dict[str, str]:
    """Return the files of a control group of version 2."""
    folder = f"{mount}/{group}".rstrip("/")
    return {
        f"{folder}/memory.max": f"{limit}\n",
        f"{folder}/memory.current": f"{usage}\n",
        f"{folder}/memory.stat": f"anon 5\nfile 9\ninactive_file {cache}\n",
    }


TREES: dict[str, tuple[str, dict[str, str], list[tuple[int, int]]]] = {
    "a SLURM job, version 1, the limit two levels up": (
        f"5:cpuset:/x\n4:memory:/{JOB}\n1:name=systemd:/x\n",
        v1(JOB, NO_LIMIT, 40) | v1("slurm/uid_1000/job_7", 1000, 400, 100) | v1("", NO_LIMIT, 9),
        [(1000, 300)],
    ),
    "memory beside other controllers": (
        "4:cpu,memory:/a\n", v1("a", 70, 20), [(70, 20)],
    ),
    "a systemd scope, version 2, limits on two levels": (
        f"0::/{SCOPE}\n",
        v2(SCOPE, 500, 120, 20) | v2("user.slice", 800, 600) | v2("user.slice/user-1000.slice", "max", 300),
        [(500, 100), (800, 600)],
    ),
    "a container of version 2, which sees its group as the root": ("0::/\n", v2("", 900, 50), [(900, 50)]),
    "a container of version 1 whose path is that of the host": (
        "4:memory:/docker/abc\n", v1("", 300, 10), [(300, 10)],
    ),
    "a path out of the name space": ("0::/../other\n", v2("", 900, 50), [(900, 50)]),
    "both versions, memory in the first": (
        f"4:memory:/{JOB}\n0::/{SCOPE}\n", v1(JOB, 100, 1), [(100, 1)],
    ),
    "both versions, memory in the second": (
        f"4:cpu:/{JOB}\n0::/{SCOPE}\n", v2(SCOPE, 100, 1, mount="sys/fs/cgroup/unified"), [(100, 1)],
    ),
    "no limit": ("0::/a\n", v2("a", "max", 50), []),
    "no control groups": ("", {}, []),
    "no usage": ("0::/a\n", {"sys/fs/cgroup/a/memory.max": "600\n"}, [(600, 0)]),
    "lines that mean nothing": ("what\n0\n::\n", v2("", "soon", 5), []),
}  # fmt: skip


@pytest.mark.parametrize("name", TREES)
def test_limits_of_control_groups_are_found(name: str, tmp_path: Path) -> None:
    own, files, expected = TREES[name]
    root = write(tmp_path, files | {"proc/self/cgroup": own})
    assert group_limits(root) == expected


def test_a_machine_without_proc_has_no_control_groups(tmp_path: Path) -> None:
    assert group_limits(tmp_path) == []


@pytest.mark.parametrize(("limit", "usage", "total", "available"), [
    (600, 100, 600, 500), (600, 700, 600, 0), (5000, 100, 2000, 1500), (2100, 1000, 2000, 1100),
])  # fmt: skip
def test_memory_is_the_least_of_machine_and_groups(
    limit: int, usage: int, total: int, available: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine.psutil, "virtual_memory", lambda: SimpleNamespace(total=2000, available=1500))
    monkeypatch.setattr(machine, "resource", None)  # as on Windows
    root = write(tmp_path, v2("a", limit, usage) | {"proc/self/cgroup": "0::/a\n"})
    assert (total_memory(root), available_memory(root)) == (total, available)


def test_this_machine_has_memory() -> None:
    assert 2**26 < available_memory() <= total_memory()
