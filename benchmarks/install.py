"""What an installation costs: megabytes of every package that manykernels needs, and seconds to the first results.

    python benchmarks/install.py [--smoke]

Sizes are those of the files of each distribution as installed here, with all that it needs itself. Seconds are
wall-clock times of new processes: the command's version, the import of an estimator, and a first fit with an empty
cache of compiled loops and with a filled one.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from importlib.metadata import PackageNotFoundError, distribution

import pandas as pd
from _common import environment, parser, print_environment, print_table

FIT = "import sklearn.datasets as d; from manykernels import MKLClassifier as M; M().fit(*d.load_iris(return_X_y=True))"


def needed(name: str, seen: dict[str, float]) -> None:
    """Add the size of a distribution, and of those that it needs whatever its extras, in megabytes."""
    try:
        found = distribution(name)
    except PackageNotFoundError:
        return
    if found.metadata["Name"] in seen:
        return
    files = [found.locate_file(file) for file in found.files or ()]
    seen[found.metadata["Name"]] = sum(os.path.getsize(file) for file in files if os.path.exists(file)) / 1e6
    for requirement in found.requires or ():
        if "extra ==" not in requirement:
            needed(re.split(r"[\s<>=!~;\[(]", requirement, maxsplit=1)[0], seen)


def seconds(words: list[str], cache: str) -> float:
    """Return the wall-clock time of a new process."""
    start = time.perf_counter()
    settings = {**os.environ, "NUMBA_CACHE_DIR": cache}
    subprocess.run([sys.executable, *words], check=True, capture_output=True, env=settings)
    return time.perf_counter() - start


def main() -> None:
    """Print both tables."""
    given = parser(__doc__ or "").parse_args()
    print_environment(environment())
    sizes: dict[str, float] = {}
    needed("manykernels", sizes)
    table = pd.Series(sizes, name="MB").sort_values(ascending=False).rename_axis("package").reset_index()
    print_table(table.head(12), f"{len(table)} packages, {table['MB'].sum():.0f} MB in all; the largest", {"MB": ".1f"})
    rows = []
    with tempfile.TemporaryDirectory() as cache:
        rows.append(("manykernels --version", seconds(["-m", "manykernels.cli", "--version"], cache)))
        if not given.smoke:
            rows.append(("import MKLClassifier", seconds(["-c", "from manykernels import MKLClassifier"], cache)))
            rows.append(("first fit ever (iris)", seconds(["-c", FIT], cache)))
            rows.append(("first fit in a later process", seconds(["-c", FIT], cache)))
    print_table(pd.DataFrame(rows, columns=["what", "seconds"]), "Wall-clock seconds", {"seconds": ".2f"})


if __name__ == "__main__":
    main()
