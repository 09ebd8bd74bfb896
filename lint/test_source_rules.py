"""Rules for the text of the repository that no linter checks. Run by ``make lint``."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "manykernels"
SOURCES = sorted(PACKAGE.rglob("*.py"))
TESTS = sorted(path for folder in ("tests", "lint") for path in (ROOT / folder).rglob("*.py"))
FOLDERS = ("src", "tests", "lint", "docs", "examples", "benchmarks", "experiments", ".ci", ".github")
SUFFIXES = (".py", ".md", ".toml", ".cff", ".yml", ".yaml", ".rst", ".txt", "")
BUILT = {"_build", "generated", "results", "__pycache__", ".ruff_cache", ".git"}
GALLERY = ROOT / "docs" / "gallery"  # built from examples/gallery

MODULE_LINES = 500  # without docstrings: what a contract has to say of its methods is no reason to cut it in two
FUNCTION_LINES = 60
# Tests of no one module: what all searches or estimators refuse, scikit-learn's checks, Ctrl-C, classes of users.
OF_NO_MODULE = {
    "tests/discovery/test_bad_inputs.py",
    "tests/estimators/test_bad_inputs.py",
    "tests/estimators/test_interrupts.py",
    "tests/estimators/test_sklearn_contract.py",
    "tests/objective/test_custom.py",
}
# Folders of tests that mirror something else: the repository, independent answers, the fuzzer, the experiments.
OTHER_MIRRORS = {"meta", "oracles", "fuzz", "experiments"}
COMPARISONS = {"allclose", "array_equal", "isclose", "array_equiv"}

# Written so that no pattern matches its own line.
# Plain docstrings and names, as in packages beside this one; both limits may only fall.
PRONOUNS = re.compile(
    r"\b(?:what|whatever|those|which|that|ones?|its?|itself|they|them|their|who|whose|each|others?)\b", re.IGNORECASE
)
MOST_PRONOUNS = 30  # in 1,000 words of docstrings; adelie 36, himalaya 18, skglm 10
PREPOSITION = re.compile(r"_?(?:of|at|in|on|by|with|without|over|between|beyond|after|before|within)(?:_|$)")
MOST_PREPOSITIONS = 0.02  # of function names; linear_operator 0.03

UNFINISHED = re.compile(r"\b(TOD[O]|FIXM[E]|XX[X]|NotImplemented[E]rror)\b")
BRITISH = re.compile(
    r"\b(?:normal|optim|minim|maxim|regular|initial|standard|vector|general|summar|factor|penal|parametr)is(?:e|ed|es|er|ers|ing|ation)\b"
    r"|\b(?:col|behavi|neighb|fav)our|\bcent(?:re|red|ring)\b",
    re.IGNORECASE,
)
ABSOLUTE_PATH = re.compile(r"(?:^|[\s\"'`(=])/(?!usr/|bin/|dev/|proc/|sys/|path/)[A-Za-z_]+/[A-Za-z]")
SERIES = re.compile(r"(pd\.)?Series\[")
LISTED = re.compile(r"^__all__\b")
PACKAGE_INDEX = re.compile(r"index-ur[l]|find-link[s]|\bpypi\.", re.IGNORECASE)


def text_files() -> list[Path]:
    """Every text file a person would read, built files left out."""
    inside = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*")]
    files = [path for path in [*ROOT.glob("*"), *inside] if path.is_file() and path.suffix in SUFFIXES]
    written = [path for path in files if not path.is_relative_to(GALLERY) and path.name != "sg_execution_times.rst"]
    return sorted(path for path in written if not BUILT & set(path.relative_to(ROOT).parts))


def matches(pattern: re.Pattern[str], text: str) -> list[str]:
    """Lines of ``text`` in which ``pattern`` occurs, with their numbers."""
    return [f"{number}: {line.strip()}" for number, line in enumerate(text.splitlines(), 1) if pattern.search(line)]


def dropped_comparisons(source: str) -> list[int]:
    """Lines with a comparison such as ``np.allclose(a, b)`` whose result nobody looks at."""
    statements = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Expr)]
    calls = [node.value for node in statements if isinstance(node.value, ast.Call)]
    return [call.lineno for call in calls if ast.unparse(call.func).split(".")[-1] in COMPARISONS]


def is_loop(node: ast.AST) -> bool:
    """Whether a node defines a function that is compiled."""
    return isinstance(node, ast.FunctionDef) and any("compiled" in ast.unparse(line) for line in node.decorator_list)


def loops_of_two_sides(sources: list[str]) -> set[str]:
    """Compiled functions that return arrays and are called by compiled functions as well as by Python."""
    trees = [ast.parse(source) for source in sources]
    loops = {n.name: n for tree in trees for n in ast.walk(tree) if is_loop(n)}
    makers = {name for name, n in loops.items() if n.returns is not None and "Array" in ast.unparse(n.returns)}
    called: dict[bool, set[str]] = {True: set(), False: set()}
    for tree in trees:
        own = {n.name for n in ast.walk(tree) if is_loop(n)}
        own |= {alias.name for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) for alias in n.names}
        inside = {id(child) for n in ast.walk(tree) if is_loop(n) for child in ast.walk(n)}
        for n in ast.walk(tree):
            if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id in makers & own:
                called[id(n) in inside].add(n.func.id)
    return called[True] & called[False]


def docstring_lines(node: ast.AST) -> int:
    """Return how many lines the docstring of a module, class or function has; 0 for anything else."""
    if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        return 0
    first = node.body[0] if ast.get_docstring(node, clean=False) is not None else None
    return 0 if first is None else int(first.end_lineno or 0) - first.lineno + 1


def lines_beyond(source: str, limit: int) -> int:
    """Return by how many lines a module is too long, docstrings not counted; 0 if it is not."""
    spoken = sum(docstring_lines(node) for node in ast.walk(ast.parse(source)))
    return max(0, len(source.splitlines()) - spoken - limit)


def long_functions(source: str, limit: int) -> list[str]:
    """Functions with more than ``limit`` lines, the docstring not counted."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            lines = int(node.end_lineno or 0) - node.lineno + 1 - docstring_lines(node)
            if lines > limit:
                found.append(f"{node.name}: {lines} lines")
    return found


def prose_of_docstrings(source: str) -> str:
    """Return the docstrings of a module without examples and code."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
    texts = [ast.get_docstring(node) or "" for node in ast.walk(ast.parse(source)) if isinstance(node, kinds)]
    return re.sub(r"\n *>>>.*(?:\n.+)*|``.*?``", "", "\n\n".join(texts))


def function_names(source: str) -> list[str]:
    """Return the names of functions and methods, except special methods."""
    names = [node.name for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    return [name for name in names if not name.startswith("__")]


def named_after_nothing(tests: list[str], modules: set[str]) -> set[str]:
    """Return files of tests that are named after no module: ``test_path.py``, or ``test_path_of_counts.py`` for a part.

    Folders of the package count as modules.
    """
    named = {path for path in tests if any(_is_of(path, module) for module in modules)}
    return {path for path in tests if not OTHER_MIRRORS & set(Path(path).parts)} - named


def _is_of(path: str, module: str) -> bool:
    return f"{Path(path).stem}_".startswith(f"test_{module}_")


def endless_loops(source: str) -> list[str]:
    """Loops that do not say beside their condition how often they turn ``at most``; a reader ends those that yield."""
    lines, found = source.splitlines(), []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.While) and not any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in ast.walk(node)):
            heading = "\n".join(lines[node.lineno - 1 : node.body[0].lineno - 1])
            if "# at most " not in heading:
                found.append(f"{node.lineno}: while {ast.unparse(node.test)}")
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("itertools.count", "itertools.cycle"):
            found.append(f"{node.lineno}: {ast.unparse(node)}")
    return found


POSTPONED = "from __future__ import annotations"


def misplaced_postponing(source: str) -> str:
    """Return what is wrong with postponed annotations: a module has them where an annotation needs them, only there."""
    postponed, names = POSTPONED in source, sorted(names_to_come(ast.parse(source)))
    if postponed == bool(names):
        return ""
    return f"{names} need {POSTPONED!r}" if names else f"{POSTPONED!r} does nothing: leave it out"


def names_to_come(tree: ast.Module) -> set[str]:
    """Return names in annotations that are not there when Python meets them: defined below, or imported for types.

    So is a ``Series[float]``: pandas' classes have parameters for type checkers alone.
    """
    there: dict[str, float] = {}  # the line from which on a name of the module may be used
    for node in sorted(tree.body, key=lambda node: not isinstance(node, ast.If)):  # what is imported again is there
        for name, line in _defined(node).items():
            there[name] = line
    parts = [(line, part) for line, annotation in _annotations(tree, inside=False) for part in ast.walk(annotation)]
    series = {
        ast.unparse(part) for _, part in parts if isinstance(part, ast.Subscript) and SERIES.match(ast.unparse(part))
    }
    return series | {part.id for line, part in parts if isinstance(part, ast.Name) and there.get(part.id, 0) >= line}


def _defined(node: ast.stmt) -> dict[str, float]:
    """Return the names that a statement of a module defines, each with its last line; infinity for types alone."""
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return {name: float("inf") for part in node.body for name in _defined(part)}
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return {(alias.asname or alias.name).split(".")[0]: 0.0 for alias in node.names}
    if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
        return {node.name: float(node.end_lineno or 0)}
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return {name.id: float(node.end_lineno or 0) for name in targets if isinstance(name, ast.Name)}


def _annotations(node: ast.AST, *, inside: bool) -> Iterator[tuple[float, ast.expr]]:
    """Yield annotations with the line at which they are evaluated, once all is defined for functions in functions."""
    for child in ast.iter_child_nodes(node):
        line = 1e9 if inside else float(getattr(child, "lineno", 0))
        function = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef))
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            own = [arg.annotation for arg in ast.walk(child.args) if isinstance(arg, ast.arg)] + [child.returns]
            yield from ((line, annotation) for annotation in own if annotation is not None)
        elif isinstance(child, ast.AnnAssign) and not inside:  # those of local variables are never evaluated
            yield line, child.annotation
        yield from _annotations(child, inside=inside or function)


def relative(path: Path) -> str:
    """Return the path below the root, as the name of a test case."""
    return str(path.relative_to(ROOT))


def offenders(paths: list[Path], rule: Callable[[str], Any]) -> dict[str, Any]:
    """Files that break a rule, with what the rule says about their text."""
    found = {relative(path): rule(path.read_text(encoding="utf-8")) for path in paths}
    return {name: remarks for name, remarks in found.items() if remarks}


def test_no_comparison_is_thrown_away() -> None:
    assert offenders(SOURCES + TESTS, dropped_comparisons) == {}


def test_modules_stay_short() -> None:
    assert offenders(SOURCES, lambda text: lines_beyond(text, MODULE_LINES)) == {}
    assert lines_beyond('"""Two\nlines."""\na = 1\nb = 2\n', 1) == 1


def test_functions_stay_short() -> None:
    assert offenders(SOURCES, lambda text: long_functions(text, FUNCTION_LINES)) == {}


def test_loops_of_algorithms_say_how_often_they_turn() -> None:
    """A limit that follows from the problem or from a constant of the module: none waits for rounding to be kind."""
    algorithms = [path for path in SOURCES if {"solvers", "discovery", "objective"} & set(path.parts)]
    assert offenders(algorithms, endless_loops) == {}


def test_loops_that_return_arrays_have_callers_of_one_kind() -> None:
    """Loaded from the cache by itself and within another loop, such a loop may not find what makes arrays (numba)."""
    assert not loops_of_two_sides([path.read_text() for path in SOURCES])


def test_annotations_are_postponed_where_they_need_it() -> None:
    """Half of the modules would import for nothing what the other half needs for types of later lines."""
    assert offenders(SOURCES, misplaced_postponing) == {}
    typed = "if TYPE_CHECKING:\n    from a import A\n\ndef f():\n    def g(a: A): ...\n"
    assert misplaced_postponing(typed) == f"['A'] need {POSTPONED!r}"
    assert misplaced_postponing(typed + "from a import A\n") == ""
    assert misplaced_postponing(f"{POSTPONED}\nclass A:\n    def f(self) -> A: ...\n") == ""
    assert misplaced_postponing(f"{POSTPONED}\nclass A: ...\ndef f() -> A: ...\n") != ""
    assert misplaced_postponing("class A:\n    a: pd.Series[float]\n") == f"['pd.Series[float]'] need {POSTPONED!r}"
    assert misplaced_postponing("def f() -> None:\n    def g(a: A): ...\n    b: B = 1\nclass A: ...\n") == ""


def test_names_are_listed_where_pages_list_them() -> None:
    """Packages, and the modules that the reference names, have an ``__all__``; elsewhere nothing would read it."""
    named = re.findall(r"^ +manykernels\.(\w+)$", (ROOT / "docs" / "api.md").read_text(), re.MULTILINE)
    own = {PACKAGE / f"{name}.py" for name in named}
    inner = [path for path in SOURCES if path.name != "__init__.py" and path not in own]
    assert offenders(inner, lambda text: matches(LISTED, text)) == {}
    assert matches(LISTED, (PACKAGE / "alignment.py").read_text()) != []


def test_source_is_finished() -> None:
    assert offenders(SOURCES, lambda text: matches(UNFINISHED, text)) == {}


def test_text_is_american() -> None:
    assert offenders(text_files(), lambda text: matches(BRITISH, text)) == {}


def test_text_names_no_machine() -> None:
    assert offenders(text_files(), lambda text: matches(ABSOLUTE_PATH, text)) == {}


def test_no_package_index_is_named() -> None:
    settings = [ROOT / name for name in ("Makefile", ".ci/run", "pyproject.toml")]
    assert offenders(settings, lambda text: matches(PACKAGE_INDEX, text)) == {}


def test_docstrings_are_plain() -> None:
    text = "\n".join(prose_of_docstrings(path.read_text()) for path in SOURCES)
    assert 1000 * len(PRONOUNS.findall(text)) <= MOST_PRONOUNS * len(re.findall(r"[A-Za-z]+", text))


def test_names_of_functions_are_no_prepositions() -> None:
    names = [name for path in SOURCES for name in function_names(path.read_text())]
    assert sum(bool(PREPOSITION.match(name)) for name in names) <= MOST_PREPOSITIONS * len(names)


def test_tests_are_named_after_modules() -> None:
    modules = {path.parent.name if path.name == "__init__.py" else path.stem for path in SOURCES}
    tests = [relative(path) for path in (ROOT / "tests").rglob("test_*.py")]
    assert named_after_nothing(tests, modules) == OF_NO_MODULE
    names = ["tests/a/test_path.py", "tests/a/test_path_of_counts.py", "tests/a/test_paths.py", "tests/meta/test_b.py"]
    assert named_after_nothing(names, {"path"}) == {"tests/a/test_paths.py"}


def test_the_rules_cover_the_repository() -> None:
    names = {relative(path) for path in text_files()}
    assert {"README.md", "Makefile", ".ci/run", "docs/architecture.md", "src/manykernels/__init__.py"} <= names
    assert len(SOURCES) > 10


def test_every_rule_can_fail() -> None:
    assert dropped_comparisons("import numpy as np\nnp.allclose(1, 1)\nassert np.allclose(1, 1)") == [2]
    assert long_functions("def f():\n    '''Say.\n\n    More.'''\n    a = 1\n    return a", 2) == ["f: 3 lines"]
    assert long_functions("def f():\n    '''Say.\n\n    More.'''\n    a = 1\n    return a", 3) == []
    assert matches(UNFINISHED, "a = 1  # TO" + "DO later") != []
    assert matches(BRITISH, "we normal" + "ise the cent" + "red kernels") != []
    assert matches(ABSOLUTE_PATH, "open('/ho" + "me/me/data.csv')") != []
    assert len(PRONOUNS.findall(prose_of_docstrings("def f():\n    '''Say what it is.\n\n    >>> it\n    '''"))) == 2
    assert [bool(PREPOSITION.match(name)) for name in ("of_rows", "_at", "with_l1", "office", "sum_of")] == [
        True, True, True, False, False,
    ]  # fmt: skip
    assert matches(PACKAGE_INDEX, "pip install --index-" + "url https://example.org") != []
    assert endless_loops("while a < b:\n    a += 1\n") == ["1: while a < b"]
    assert endless_loops("while True:  # at most MOST\n    a += 1\n") == []
    assert endless_loops("def f():\n    while True:\n        yield 1\n") == []
    assert endless_loops("for k in itertools.count():\n    pass\n") == ["1: itertools.count()"]
    loop = "@compiled()\ndef f(x) -> Array:\n    return x\n@compiled()\ndef g(x) -> None:\n    f(x)\n"
    assert loops_of_two_sides([loop]) == set()
    assert loops_of_two_sides([loop + "f(1)"]) == {"f"}
