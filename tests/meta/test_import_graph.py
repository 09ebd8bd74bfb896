"""The import graph of the package: no circle, imports inside functions only for extras."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest
from tests.support.imports import Import, imports

SOURCE = Path(__file__).parents[2] / "src"
PACKAGE = SOURCE / "manykernels"

OPTIONAL = {"matplotlib", "skops", "clarabel", "cvxpy", "dask", "finufft", "onnx", "pyarrow", "openpyxl", "jinja2"}
DEEPEST = 2  # folders below the package

Graph = Mapping[str, set[str]]


@cache
def sources() -> dict[str, str]:
    """Return the text of every module by its dotted name; a package's is that of its ``__init__``."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path.read_text(encoding="utf-8")
    return found


def imported(node: Import, modules: set[str]) -> set[str]:
    """Return the modules that one statement names: a submodule where there is one, else the module or package."""
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names}
    names = {f"{node.module}.{alias.name}" for alias in node.names}
    return {name if name in modules else str(node.module) for name in names} if node.module else set()


@cache
def package_graph() -> Graph:
    """Return the import graph of the package."""
    return graph_of(sources())


def graph_of(texts: Mapping[str, str]) -> Graph:
    """Return who imports whom: at module level, inside functions and under TYPE_CHECKING alike."""
    modules = set(texts)
    return {
        name: {other for _, node in imports(text) for other in imported(node, modules)} & modules - {name}
        for name, text in texts.items()
    }


def circle(graph: Graph) -> list[str]:
    """Return the modules of some circle in their order, or nothing."""
    done: set[str] = set()

    def search(name: str, path: list[str]) -> list[str]:
        if name in path:
            return path[path.index(name) :]
        if name in done:
            return []
        for other in sorted(graph[name]):
            if found := search(other, [*path, name]):
                return found
        done.add(name)
        return []

    return next((found for name in sorted(graph) if (found := search(name, []))), [])


def local_imports(text: str) -> Iterator[str]:
    """Yield what is imported inside functions, by the first part of its name."""
    for inside, node in imports(text):
        if inside:
            yield from (name.split(".")[0] for name in imported(node, set()))


def buried(names: Iterable[Path], deepest: int) -> set[str]:
    """Return the folders that lie deeper than that below the package."""
    return {str(path.parent) for path in names if len(path.parent.parts) > deepest}


def test_no_module_imports_itself_through_others() -> None:
    assert circle(package_graph()) == []


def test_imports_inside_functions_are_for_optional_packages() -> None:
    found = {name: set(local_imports(text)) - OPTIONAL for name, text in sources().items()}
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


def test_no_folder_is_deeper_than_two_levels() -> None:
    assert buried([path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py")], DEEPEST) == set()


def test_the_graph_is_that_of_the_package() -> None:
    graph = package_graph()
    assert "manykernels.solvers.run" in graph["manykernels.solvers.base"]
    assert "manykernels.grams" in graph["manykernels.objective.problem"]
    assert sum(map(len, graph.values())) > 500


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("import p.b", "import p.a"),
        ("from p.b import x", "from p import a"),
        ("def f():\n    from p.b import x", "from p.a import y"),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p.b import X", "from p.a import y"),
    ],
    ids=["modules", "names", "inside a function", "for types only"],
)
def test_a_planted_circle_is_seen(a: str, b: str) -> None:
    assert circle(graph_of({"p": "", "p.a": a, "p.b": b, "p.c": "import p.a"})) == ["p.a", "p.b"]


def test_a_package_is_its_init_and_parents_do_not_count() -> None:
    through_package = {"p": "from p.a import x", "p.a": "from p import x", "p.b": ""}
    assert circle(graph_of(through_package)) == ["p", "p.a"]
    assert circle(graph_of({"p": "from p.a import x", "p.a": "from p import b", "p.b": ""})) == []
    assert circle(graph_of({"p": "from p.a import x", "p.a": "from p.b import x", "p.b": ""})) == []


def test_other_planted_violations_are_seen() -> None:
    assert set(local_imports("def f():\n    import numpy.linalg\n    from matplotlib import pyplot")) == {
        "numpy",
        "matplotlib",
    }
    assert list(local_imports("import numpy")) == []
    assert buried([Path("a/b/c/d.py"), Path("a/b/c.py")], 2) == {"a/b/c"}
