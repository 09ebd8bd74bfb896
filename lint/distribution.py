"""Look into the wheel and the source archive of a release: all that is needed, and nothing else.

    python lint/distribution.py dist

Run by ``make dist``; exits with 1 and a line for each complaint.
"""

from __future__ import annotations

import re
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

JUNK = re.compile(r"__pycache__|\.pyc$|\.nb[ic]$|(^|/)\.(venv|git|ci|\w+_cache)/|_build/|demo_output|/results/")
MOST_BYTES = 5_000_000
IN_WHEEL = ("manykernels/__init__.py", "manykernels/py.typed", "manykernels/cli/__main__.py")
IN_ARCHIVE = ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "Makefile", "src/manykernels/__init__.py")


def complaints(folder: Path) -> Iterator[str]:
    """Yield what is wrong with the files of a release."""
    wheels, archives = sorted(folder.glob("*.whl")), sorted(folder.glob("*.tar.gz"))
    if len(wheels) != 1 or len(archives) != 1:
        yield f"{folder} must hold one wheel and one source archive, not {len(wheels)} and {len(archives)}"
        return
    with zipfile.ZipFile(wheels[0]) as wheel:
        names = wheel.namelist()
    yield from _listing(wheels[0], names, IN_WHEEL)
    strangers = [name for name in names if not name.startswith("manykernels/") and ".dist-info/" not in name]
    yield from (f"{wheels[0].name}: {name} is no part of the package" for name in strangers)
    with tarfile.open(archives[0]) as archive:
        inside = [name.partition("/")[2] for name in archive.getnames()]
    yield from _listing(archives[0], inside, IN_ARCHIVE)


def _listing(path: Path, names: list[str], needed: tuple[str, ...]) -> Iterator[str]:
    yield from (f"{path.name}: {name} is missing" for name in needed if name not in names)
    yield from (f"{path.name}: {name} does not belong there" for name in names if JUNK.search(name))
    if path.stat().st_size > MOST_BYTES:
        yield f"{path.name} has {path.stat().st_size / 1e6:.1f} MB, more than {MOST_BYTES / 1e6:.0f}"


def main() -> int:
    """Print complaints, or the sizes of the files if there are none."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "dist")
    found = list(complaints(folder))
    for line in found:
        sys.stderr.write(f"{line}\n")
    if not found:
        for path in sorted(folder.iterdir()):
            sys.stdout.write(f"{path.name}: {path.stat().st_size / 1e3:.0f} kB, nothing missing, nothing else\n")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
