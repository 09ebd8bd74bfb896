"""The import direction of docs/architecture.md: left may never import right."""

from __future__ import annotations

import ast
import importlib
import re
import runpy
import sys
from pathlib import Path

import pytest
from tests.support.imports import imports
from tests.support.processes import python

PACKAGE = Path(__file__).parents[2] / "src" / "manykernels"
SOURCES = sorted(PACKAGE.rglob("*.py"))

FOUNDATION = ("compiled", "exceptions", "threads", "validation", "wings")
STAGES = (
    "kernels",
    "grams",
    "objective",
    "solvers",
    "alignment",
    "discovery",
    "estimators",
    "inspection",
    "papers",
    "cli",
)
LAYERS = FOUNDATION + STAGES
LIBRARY = frozenset(LAYERS)
UP_TO_SOLVERS = frozenset(LAYERS[: LAYERS.index("solvers") + 1])


def allowed_imports(layer: str) -> frozenset[str]:
    """Layers that a module of ``layer`` may import; "" is the package itself."""
    if layer == "datasets":
        return frozenset({"datasets"})
    if layer == "testing":
        return UP_TO_SOLVERS | {"testing", "datasets"}
    if layer in ("", "cli"):
        return LIBRARY | {"", "datasets"}
    if layer == "__main__":
        return frozenset({"cli"})
    if layer in FOUNDATION:
        return frozenset(FOUNDATION)
    return frozenset(LAYERS[: LAYERS.index(layer) + 1])


def layer_of(module: str) -> str:
    """Return the first name below ``manykernels`` in a dotted module name."""
    return module.split(".")[1] if "." in module else ""


def imported_layers(source: str) -> set[str]:
    """Layers named by any import, at module level, in a function or under TYPE_CHECKING."""
    found = set()
    for _, node in imports(source):
        if isinstance(node, ast.Import):
            found |= {layer_of(alias.name) for alias in node.names if alias.name.split(".")[0] == "manykernels"}
        elif node.level:
            found.add("a relative import")
        elif node.module == "manykernels":
            found |= {alias.name if alias.name in LIBRARY | {"testing", "datasets"} else "" for alias in node.names}
        elif str(node.module).startswith("manykernels."):
            found.add(layer_of(str(node.module)))
    return found


def violations(source: str, layer: str) -> set[str]:
    """Layers that ``source`` imports although it lives in ``layer``."""
    return imported_layers(source) - allowed_imports(layer)


def layer_of_path(path: Path) -> str:
    """Return the layer in which a source file lives."""
    first = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    return "" if first == "__init__" else first


def test_no_module_imports_to_its_right() -> None:
    layers = {path: layer_of_path(path) for path in SOURCES}
    homeless = set(layers.values()) - (LIBRARY | {"", "__main__", "testing", "datasets"})
    assert homeless == set(), "has no place in docs/architecture.md"
    found = {str(path.relative_to(PACKAGE)): violations(path.read_text(), layer) for path, layer in layers.items()}
    assert {name: layers for name, layers in found.items() if layers} == {}


@pytest.mark.parametrize(
    ("layer", "source", "expected"),
    [
        ("kernels", "from manykernels.solvers.solve import solve", {"solvers"}),
        ("grams", "def f():\n    import manykernels.objective.losses", {"objective"}),
        ("objective", "from manykernels import solvers", {"solvers"}),
        ("solvers", "from manykernels import KernelBank", {""}),
        ("solvers", "from manykernels.papers import SILP", {"papers"}),
        ("inspection", "def f():\n    import manykernels.papers", {"papers"}),
        ("estimators", "from manykernels.testing import oracles", {"testing"}),
        ("testing", "from manykernels.estimators import MKLClassifier", {"estimators"}),
        ("datasets", "from manykernels.exceptions import InvalidInputError", {"exceptions"}),
        ("kernels", "from .bank import KernelBank", {"a relative import"}),
        ("cli", "from manykernels.estimators import MKLClassifier\nimport numpy", set()),
    ],
)
def test_the_check_sees_what_is_planted(layer: str, source: str, expected: set[str]) -> None:
    assert violations(source, layer) == expected


def test_the_order_is_the_one_of_the_architecture_page() -> None:
    page = (PACKAGE.parents[1] / "docs" / "architecture.md").read_text()
    assert f"compiled, exceptions, threads, validation, wings -> {' -> '.join(STAGES)}\n" in page


@pytest.mark.parametrize("package", ["manykernels", "manykernels.estimators"])
def test_public_names_are_those_that_type_checkers_see(package: str) -> None:
    """A package imports its names when they are asked for; for type checkers it lists where they come from."""
    lazy = importlib.import_module(package)
    tree = ast.parse(Path(str(lazy.__file__)).read_text())
    imports = [
        (alias.name, importlib.import_module(str(node.module)))
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("manykernels.")
        for alias in node.names
    ]
    listed = [(own, home) for name, home in imports for own in (home.__all__ if name == "*" else [name])]
    public, whole = set(lazy.__all__) - {"__version__"}, any(name == "*" for name, _ in imports)
    assert public <= {name for name, _ in listed}
    assert whole or len(public) == len(listed)
    for name, home in listed:
        assert name not in public or getattr(lazy, name) is getattr(home, name)
    assert set(lazy.__all__) <= set(dir(lazy))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        lazy.nothing  # noqa: B018


def test_one_estimator_does_not_import_them_all() -> None:
    """What a first fit does not need, nobody waits for."""
    code = "import sys; from manykernels import MKLClassifier; print(*sys.modules)"
    done = python(code)
    assert done.returncode == 0, done.stderr
    found = done.stdout.split()
    assert "manykernels.estimators" in found
    ours = [
        f"manykernels.{part}"
        for part in ("alignment", "discovery", "inspection", "estimators.searches", "papers", "cli")
    ]
    assert [name for name in found if name.startswith((*ours, "matplotlib", "jinja2", "typer", "clarabel"))] == []


def test_loops_are_compiled_in_one_place() -> None:
    """Numba alone ends the import where no folder can hold machine code; ``manykernels.compiled`` does not."""
    users = [path.name for path in SOURCES if re.search(r"^\s*(from|import) numba\b", path.read_text(), re.MULTILINE)]
    assert users == ["compiled.py"]


def test_contracts_say_that_they_need_pytest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pytest", None)
    with pytest.raises(ImportError, match=r"not installed\. Install it with: python -m pip install pytest"):
        runpy.run_path(str(PACKAGE / "testing" / "__init__.py"))
