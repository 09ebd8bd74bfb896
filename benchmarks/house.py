"""The house in figures: lines by wing, files by folder, circles of the import graph, the way of one small fit.

    python benchmarks/house.py [--smoke] [--source DIR]

``--source`` measures another checkout of the package (its ``src`` folder), for figures before and after a change; the
way of a fit is then that of the package in that folder.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
from collections import Counter
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"

WAY = """
import sys
from sklearn.datasets import load_breast_cancer
from manykernels import MKLClassifier

def files_of(call):
    files, changes, last = set(), 0, None
    def watch(frame, event, argument):
        nonlocal changes, last
        caller = frame if event == "call" else frame.f_back
        name = caller.f_code.co_filename if caller is not None and event in ("call", "return") else ""
        if "manykernels" in name and name != last:
            files.add(name)
            changes, last = changes + 1, name
    sys.setprofile(watch)
    call()
    sys.setprofile(None)
    return f"{len(files)} files, {changes} changes of file"

X, y = load_breast_cancer(return_X_y=True)
X, y = X[:120, :4], y[:120]
model = MKLClassifier().fit(X, y)
print("fit:    ", files_of(lambda: MKLClassifier().fit(X, y)))
print("predict:", files_of(lambda: model.predict(X)))
"""


def modules(source: Path) -> dict[str, Path]:
    """Return the modules below ``source`` by their dotted names."""
    found = {}
    for path in sorted((source / "manykernels").rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(path: Path, known: set[str]) -> set[str]:
    """Return which of the ``known`` modules a file imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in known else node.module for name in names}
    return found & known


def circle(files: dict[str, Path]) -> list[str]:
    """Return one circle of the import graph, or nothing."""
    try:
        TopologicalSorter({name: imports(path, set(files)) - {name} for name, path in files.items()}).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def wing(path: Path, source: Path) -> str:
    """Return the folder of the package that a file lives in, or "." for the package itself."""
    parts = path.relative_to(source / "manykernels").parts
    return parts[0] if len(parts) > 1 else "."


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="the same: it is quick")
    parser.add_argument("--source", type=Path, default=SOURCE, help="the src folder to measure")
    source = parser.parse_args().source.resolve()
    files = modules(source)
    texts = {path: path.read_text(encoding="utf-8") for path in files.values()}
    lines: Counter[str] = Counter()
    for path, text in texts.items():
        lines[wing(path, source)] += len(text.splitlines())
    print("lines by wing:", ", ".join(f"{name} {count}" for name, count in sorted(lines.items())))
    print("lines in all: ", sum(lines.values()), "in", len(files), "modules")
    print("longest file: ", max(len(text.splitlines()) for text in texts.values()))
    folders = Counter(str(path.parent.relative_to(source)) for path in files.values())
    print("files a folder:", ", ".join(f"{name} {count}" for name, count in folders.most_common(6)), "...")
    print("a circle of imports:", " -> ".join(circle(files)) or "none")
    print("the word Any: ", sum(text.count("Any") for text in texts.values()))
    run = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(source)!r})\n{WAY}"],
        capture_output=True,
        text=True,
        check=True,
    )
    print(run.stdout, end="")


if __name__ == "__main__":
    main()
