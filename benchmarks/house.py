"""The house in figures: the table by which the architecture is judged, of this checkout or of another.

    python benchmarks/house.py [--smoke] [--source DIR] [--names]

``--source`` measures another checkout (its ``src`` folder), for figures before and after a change; ``--names`` lists
what was counted. Everything but the last two groups is read from the source without importing it.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
PACKAGE = "manykernels"

# The axes along which code is to ask for a capability, never for a class: each root and whatever inherits from it.
AXES = {
    "loss": ("Loss", "CoupledLoss", "SharedLoss", "BoundLoss"),
    "stack": ("GramStack", "KernelStack"),
    "problem": ("Problem",),
    "regularizer": ("Regularizer", "WeightSet"),
}
# A class carries a model if it is called one, declares an intercept beside coefficients, or inherits from such a class.
CALLED_MODEL = re.compile(r"(Model|Models|Solution|Expansion|Functions|Iterate)(OnTheWay)?$")
COEFFICIENTS = {"dual_coef", "coefficients", "_components", "components", "functions", "mixture"}

ANY = re.compile(r": Any\b")  # and not the alias `AnyLoss`

WAY = """
import sys, warnings
import numpy as np
from manykernels import MKLClassifier, MKLRegressorCV
warnings.simplefilter("ignore")

def way(call):
    files, changes, last = set(), 0, None
    def watch(frame, event, argument):
        nonlocal changes, last
        caller = frame if event == "call" else frame.f_back
        name = caller.f_code.co_filename if caller is not None and event in ("call", "return") else ""
        if "manykernels" in name and name != last:
            files.add(name)
            changes, last = changes + 1, name
    call()
    sys.setprofile(watch)
    call()
    sys.setprofile(None)
    return f"{len(files)} files, {changes:,} changes of file"

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 3))
score = np.sin(2.0 * X[:, 0]) + X[:, 1]
y = score + 0.3 * rng.normal(size=60)
model = MKLClassifier().fit(X, score > 0.0)
print("warm MKLClassifier().fit, 60 x 3       ", way(lambda: MKLClassifier().fit(X, score > 0.0)))
print("its predict                            ", way(lambda: model.predict(X)))
print("warm MKLRegressorCV(cv=2).fit, 60 x 3  ", way(lambda: MKLRegressorCV(cv=2).fit(X, y)))
"""

FACE = """
import inspect
import manykernels
for name in ("MKLClassifier", "MKLRegressor", "MKLClassifierCV", "MKLRegressorCV"):
    print(f"{'parameters of ' + name:39}", len(inspect.signature(getattr(manykernels, name)).parameters))
print(f"{'names in manykernels.__all__':39}", len(manykernels.__all__))
"""


def modules(source: Path) -> dict[str, Path]:
    """Return the modules below ``source`` by their dotted names."""
    found = {}
    for path in sorted((source / PACKAGE).rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(path: Path, known: set[str]) -> set[str]:
    """Return which of the ``known`` modules a file imports, wherever in it."""
    return imported(ast.parse(path.read_text(encoding="utf-8")), known)


def imported(tree: ast.AST, known: set[str]) -> set[str]:
    """Return which of the ``known`` modules a parsed file imports, wherever in it."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in known else node.module for name in names}
    return found & known


def last_name(node: ast.expr) -> str:
    """Return the last part of a dotted name, without what stands in brackets behind it."""
    if isinstance(node, ast.Subscript):
        return last_name(node.value)
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


@dataclass(frozen=True)
class House:
    """The source below a folder, parsed once."""

    source: Path

    @cached_property
    def files(self) -> dict[str, Path]:
        """The modules by their dotted names."""
        return modules(self.source)

    @cached_property
    def texts(self) -> dict[str, str]:
        """The text of each module."""
        return {name: path.read_text(encoding="utf-8") for name, path in self.files.items()}

    @cached_property
    def trees(self) -> dict[str, ast.Module]:
        """The syntax tree of each module."""
        return {name: ast.parse(text) for name, text in self.texts.items()}

    @cached_property
    def graph(self) -> dict[str, set[str]]:
        """Who imports whom, also inside functions and for types."""
        return {name: imported(tree, set(self.files)) - {name} for name, tree in self.trees.items()}

    @cached_property
    def classes(self) -> list[tuple[str, ast.ClassDef]]:
        """Every class of the package with its module."""
        found = ((name, node) for name, tree in self.trees.items() for node in ast.walk(tree))
        return [(name, node) for name, node in found if isinstance(node, ast.ClassDef)]

    @property
    def lines(self) -> int:
        """Lines of all files."""
        return sum(len(text.splitlines()) for text in self.texts.values())

    def package_of(self, name: str) -> str:
        """Return the folder of the package that a module lives in, or "." for the package itself."""
        parts = self.files[name].relative_to(self.source / PACKAGE).parts
        return parts[0] if len(parts) > 1 else "."

    def lines_by_package(self) -> Counter[str]:
        """Return the lines of each folder of the package."""
        lines: Counter[str] = Counter()
        for name, text in self.texts.items():
            lines[self.package_of(name)] += len(text.splitlines())
        return lines

    def circle(self) -> list[str]:
        """Return one circle of the import graph, or nothing."""
        try:
            TopologicalSorter(self.graph).prepare()
        except CycleError as error:
            return list(error.args[1])
        return []

    def with_one_importer(self) -> tuple[list[str], list[str]]:
        """Return the modules, packages aside, with one importer: those that it uses, and those that it only lists.

        A module that only the ``__init__`` of a package imports has no customer among the modules: its names are
        public, on a page of the documentation, and people import them. Nothing could be merged with it for want of a
        second one.
        """
        importers: dict[str, list[str]] = {name: [] for name in self.files}
        for name, others in self.graph.items():
            for other in others:
                importers[other].append(name)
        single = [name for name in self.files if len(importers[name]) == 1 and not self.is_package(name)]
        return (
            [name for name in single if not self.is_package(importers[name][0])],
            [name for name in single if self.is_package(importers[name][0])],
        )

    def is_package(self, name: str) -> bool:
        """Whether a module is the list of names of a package."""
        return self.files[name].name == "__init__.py"

    def import_lines(self) -> int:
        """Return how many lines the import statements take."""
        statements = (node for tree in self.trees.values() for node in ast.walk(tree))
        return sum(n.end_lineno - n.lineno + 1 for n in statements if isinstance(n, ast.Import | ast.ImportFrom))

    def descendants(self, roots: set[str]) -> list[str]:
        """Return the names of the classes in ``roots`` that exist, and of all that inherit from them."""
        found = {node.name for _, node in self.classes} & roots
        while True:
            more = {node.name for _, node in self.classes if found & {last_name(base) for base in node.bases}}
            if more <= found:
                return sorted(found)
            found |= more

    def problems(self) -> list[str]:
        """Return ``Problem`` of the objective and the classes that inherit from it."""
        return self.descendants({"Problem"})

    def registries(self) -> list[str]:
        """Return the module-level tables from names to types of solvers."""
        statements = [(name, node) for name, tree in self.trees.items() for node in tree.body]
        annotated = [(name, node) for name, node in statements if isinstance(node, ast.AnnAssign)]
        return [
            f"{name}.{ast.unparse(node.target)}"
            for name, node in annotated
            if re.search(r"type\[\w*Solver\]", ast.unparse(node.annotation))
        ]

    def folds(self) -> list[str]:
        """Return the classes with a fold in their names."""
        return sorted({f"{name}.{node.name}" for name, node in self.classes if re.search("Folds?", node.name)})

    def carriers(self) -> list[str]:
        """Return the classes that carry a fitted model from one place to another."""
        found = set()
        for name, node in self.classes:
            if self.package_of(name) in ("inspection", "testing", "cli", "datasets"):
                continue
            fields = {getattr(one.target, "id", "") for one in node.body if isinstance(one, ast.AnnAssign)}
            declares = fields & {"intercept", "intercepts"} and fields & COEFFICIENTS
            if declares or (fields and CALLED_MODEL.search(node.name)):
                found.add(node.name)
        return self.descendants(found)

    def questions_of_class(self) -> list[str]:
        """Return where `isinstance` asks which loss, stack, problem or regularizer a thing is."""
        axes = set(self.descendants({root for roots in AXES.values() for root in roots}))
        calls = ((name, node) for name, tree in self.trees.items() for node in ast.walk(tree))
        return [
            f"{name}:{node.lineno} {ast.unparse(node)}"
            for name, node in calls
            if isinstance(node, ast.Call)
            and last_name(node.func) == "isinstance"
            and axes & {last_name(part) for part in ast.walk(node.args[1]) if isinstance(part, ast.expr)}
        ]

    def lines_with_any(self) -> int:
        """Return how many lines annotate something as `Any`."""
        return sum(bool(ANY.search(line)) for text in self.texts.values() for line in text.splitlines())


def printed_by(program: str, source: Path) -> str:
    """Return what a program prints with the package of ``source``."""
    environment = os.environ | {"PYTHONPATH": str(source), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "ignore", "-c", program]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def show(title: str, figure: object, names: list[str], listed: bool) -> None:
    """Print one line of the table and, if wanted, what was counted."""
    print(f"{title:39}", figure)
    if listed:
        print("".join(f"    {name}\n" for name in names), end="")


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="the same: it is quick")
    parser.add_argument("--source", type=Path, default=SOURCE, help="the checkout to measure, or its src folder")
    parser.add_argument("--names", action="store_true", help="list what was counted")
    options = parser.parse_args()
    source = options.source.resolve()
    house = House(source / "src" if (source / "src" / PACKAGE).is_dir() else source)
    for package, lines in sorted(house.lines_by_package().items()):
        print(f"{'lines in ' + package:39} {lines:,}")
    print(f"{'lines in all':39} {house.lines:,}")
    print(f"{'files':39} {len(house.files)}")
    print(f"{'lines of the longest file':39}", max(len(text.splitlines()) for text in house.texts.values()))
    print(f"{'a circle of imports':39}", " -> ".join(house.circle()) or "none")
    single, listed = house.with_one_importer()
    show("modules with a single importer", len(single) + len(listed), [*single, *listed], options.names)
    show("  used by one, not listed for people", len(single), single, options.names)
    print(f"{'import lines, % of lines':39} {100.0 * house.import_lines() / house.lines:.1f}")
    for title, names in (
        ("Problem classes", house.problems()),
        ("registries of solvers", house.registries()),
        ("classes of folds", house.folds()),
        ("carriers of a model", house.carriers()),
        ("isinstance on the four axes", house.questions_of_class()),
    ):
        show(title, len(names), names, options.names)
    print(f"{'lines with `: Any`':39}", house.lines_with_any())
    print(printed_by(WAY, house.source), end="")
    print(printed_by(FACE, house.source), end="")


if __name__ == "__main__":
    main()
