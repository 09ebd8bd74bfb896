"""What an installation costs: megabytes of every package that manykernels needs, CPU seconds to the first results.

    python benchmarks/install.py [--smoke]

Sizes are those of the files of each distribution as installed here, with all that it needs itself. Seconds are
CPU seconds of new processes: the command's version, the import of an estimator (and whose modules it spends them in),
and a first fit with an empty cache of compiled loops and with a filled one.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, distribution

import pandas as pd
from _common import environment, parser, print_environment, print_table

FIT = "import sklearn.datasets as d; from manykernels import MKLClassifier as M; M().fit(*d.load_iris(return_X_y=True))"

# Runs in a process of its own: every loader tells how long its module took, without those that it imports in turn.
TIMED = """
import collections, importlib._bootstrap_external as loaders, time
own, count, inner = collections.Counter(), collections.Counter(), [0.0]

def timed(kind, name):
    original = getattr(kind, name)
    def run(self, argument):
        inner.append(0.0)
        start = time.process_time()
        try:
            return original(self, argument)
        finally:
            spent = time.process_time() - start
            package = self.name.partition(".")[0]
            own[package] += spent - inner.pop()
            count[package] += name == "exec_module"
            inner[-1] += spent
    setattr(kind, name, run)

timed(loaders._LoaderBasics, "exec_module")
timed(loaders.ExtensionFileLoader, "create_module")
timed(loaders.ExtensionFileLoader, "exec_module")
from manykernels import MKLClassifier
for package, seconds in own.most_common(9):
    print(package, seconds, count[package])
"""


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
    """Return the CPU time of a new process, which is the same on a busy machine."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    settings = {**os.environ, "NUMBA_CACHE_DIR": cache}
    subprocess.run([sys.executable, *words], check=True, capture_output=True, env=settings)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def imports() -> pd.DataFrame:
    """Return the CPU time of importing an estimator by the package whose modules it is spent in."""
    printed = subprocess.run([sys.executable, "-c", TIMED], check=True, capture_output=True, text=True).stdout
    rows = [line.split() for line in printed.splitlines()]
    table = pd.DataFrame([(name, float(own), int(count)) for name, own, count in rows])
    return table.set_axis(["package", "seconds", "modules"], axis=1).sort_values("seconds", ascending=False)


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
            rows.append(("import scikit-learn's base class", seconds(["-c", "import sklearn.base"], cache)))
            rows.append(("import MKLClassifier", seconds(["-c", "from manykernels import MKLClassifier"], cache)))
            rows.append(("import all estimators", seconds(["-c", "from manykernels.estimators import *"], cache)))
            rows.append(("first fit ever (iris)", seconds(["-c", FIT], cache)))
            rows.append(("first fit in a later process", seconds(["-c", FIT], cache)))
    print_table(pd.DataFrame(rows, columns=["what", "seconds"]), "CPU seconds", {"seconds": ".2f"})
    if not given.smoke:
        print_table(imports(), "CPU seconds of that import, by package", {"seconds": ".2f"})


if __name__ == "__main__":
    main()
