"""Every public name explains itself, in a form that numpydoc can read. Run by ``make lint``."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import sys
from dataclasses import make_dataclass
from types import ModuleType
from typing import Any

import pytest
from numpydoc.validate import validate

import manykernels

# numpydoc's codes: unknown sections, no summary or one that is no sentence, parameters that
# do not exist, are out of order or lack their type.
EVERYWHERE = {"GL06", "GL10", "SS01", "SS02", "SS03", "PR02", "PR03", "PR04", "PR10"}
# What `from manykernels import ...` offers must also describe every parameter and result, and show an example.
EXPORTED = EVERYWHERE | {"PR01", "PR07", "RT03", "EX01"}


WINGS = (
    "alignment",
    "datasets",
    "discovery",
    "estimators",
    "grams",
    "inspection",
    "kernels",
    "objective",
    "papers",
    "solvers",
)


def modules() -> list[ModuleType]:
    """All modules; importing them is part of the test."""
    names = [found.name for found in pkgutil.walk_packages(manykernels.__path__, "manykernels.")]
    return [importlib.import_module(name) for name in names]


def exported() -> list[Any]:
    """Classes and functions of this library that the package or one of its wings exports."""
    packages = [manykernels, *(importlib.import_module(f"manykernels.{wing}") for wing in WINGS)]
    things = [getattr(package, name) for package in packages for name in package.__all__]
    documented = [thing for thing in things if inspect.isclass(thing) or inspect.isfunction(thing)]
    return [thing for thing in documented if thing.__module__.split(".")[0] == manykernels.__name__]


def public_objects() -> dict[str, Any]:
    """Exported classes and functions, and the public methods of the classes, by the path at which they are defined."""
    found = {}
    for thing in exported():
        path = f"{thing.__module__}.{thing.__qualname__}"
        found[path] = thing
        if inspect.isclass(thing):
            found |= {f"{path}.{key}": value for key, value in public_methods(thing).items()}
    return found


def public_methods(cls: type) -> dict[str, Any]:
    """Methods and properties that ``cls`` itself defines under a public name."""
    kinds = (classmethod, staticmethod, property)
    own = {key: value for key, value in vars(cls).items() if not key.startswith("_")}
    return {key: value for key, value in own.items() if inspect.isfunction(value) or isinstance(value, kinds)}


OBJECTS = public_objects()


def exported_paths() -> list[str]:
    """Where the names of ``manykernels.__all__`` are defined, without those that scikit-learn documents."""
    things = [getattr(manykernels, name) for name in getattr(manykernels, "__all__", [])]
    documented = [thing for thing in things if inspect.isclass(thing) or inspect.isfunction(thing)]
    own = [thing for thing in documented if thing.__module__.split(".")[0] == manykernels.__name__]
    return [f"{thing.__module__}.{thing.__qualname__}" for thing in own]


def complaints(path: str, codes: set[str]) -> list[str]:
    """Return numpydoc's remarks on the docstring at ``path``, restricted to ``codes``."""
    return [f"{code} {text}" for code, text in validate(path)["errors"] if code in codes]


def test_every_module_says_what_lives_in_it() -> None:
    assert [module.__name__ for module in modules() if not (module.__doc__ or "").strip()] == []


def test_every_public_object_has_its_own_docstring_or_that_of_what_it_overrides() -> None:
    assert [path for path, thing in OBJECTS.items() if not has_docstring(path.split(".")[-1], thing)] == []


def test_methods_of_every_class_have_a_docstring_or_override_one() -> None:
    """But for steps of algorithms, whose contracts are protocols that nothing inherits."""
    found = {thing for module in modules() for thing in vars(module).values() if inspect.isclass(thing)}
    classes = [thing for thing in found if thing.__module__.startswith("manykernels.") and not is_algorithm(thing)]
    lacking = [
        f"{cls.__module__}.{cls.__qualname__}.{key}"
        for cls in classes
        for key, value in (public_methods(cls) | {"__call__": vars(cls).get("__call__", cls)}).items()
        if not has_docstring(key, value)
    ]
    assert lacking == []


def is_algorithm(cls: type) -> bool:
    """Return whether a class is one of a folder of solvers."""
    return re.match(r"manykernels\.(papers\.solvers|solvers\.(gram|learners|factored))\.", cls.__module__) is not None


def has_docstring(name: str, thing: Any) -> bool:
    """Return whether there is one that somebody wrote: a dataclass without docstring gets its signature as one."""
    text = (thing.__doc__ if inspect.isclass(thing) else inspect.getdoc(getattr(thing, "__func__", thing))) or ""
    return bool(text.strip()) and not text.strip().startswith(f"{name}(")


def test_docstrings_are_numpydoc() -> None:
    assert all_complaints(sorted(OBJECTS), EVERYWHERE) == []


def all_complaints(paths: list[str], codes: set[str]) -> list[str]:
    """Return the remarks on all of these docstrings, each with the path of its object."""
    return [f"{path}: {remark}" for path in paths for remark in complaints(path, codes)]


def test_the_pinned_names_are_exported() -> None:
    pinned = {"MKLClassifier", "MKLRegressor", "KernelBank", "KernelStack", "Gaussian", "Polynomial", "Linear", "solve"}
    assert pinned <= set(getattr(manykernels, "__all__", []))


def test_exported_names_are_documented_in_full() -> None:
    assert all_complaints(exported_paths(), EXPORTED) == []


def methods_met() -> dict[str, str]:
    """Docstrings of the public methods of the classes in ``manykernels.__all__``, each with those that it overrides."""
    classes = [thing for name in manykernels.__all__ if inspect.isclass(thing := getattr(manykernels, name))]
    found: dict[str, str] = {}
    for thing in classes:
        for cls in reversed([base for base in thing.__mro__ if base.__module__.startswith("manykernels.")]):
            for key, value in vars(cls).items():
                method = getattr(value, "fn", getattr(value, "__func__", value))  # below available_if and classmethod
                if not key.startswith("_") and inspect.isfunction(method):
                    path = f"{thing.__module__}.{thing.__qualname__}.{key}"
                    found[path] = found.get(path, "") + (inspect.getdoc(method) or "")
    return found


def says_what_comes_back(text: str) -> bool:
    """Return whether a docstring has a section on results, on errors alone (of a check), or an example."""
    return re.search(r"^(Returns|Raises|Examples)\n-+$", text, flags=re.MULTILINE) is not None


def test_methods_that_a_user_meets_say_what_they_return_or_show_it() -> None:
    met = methods_met()
    assert "manykernels.estimators.supervised.classifier.MKLClassifier.weights_frame" in met
    assert [path for path, text in met.items() if not says_what_comes_back(text)] == []
    assert not says_what_comes_back("Return something.")


# Methods without an example of their own or of what they override. Add none; a method that gets one leaves the list.
WITHOUT_EXAMPLE = {
    *(
        f"manykernels.estimators.searches.{name}MKL.predict_proba"
        for name in ("gaussian.Gaussian", "products.Hierarchical", "products.Nonlinear", "products.Polynomial")
    ),
    *(f"manykernels.kernels.tables.views.Views.{name}" for name in ("align", "check_overlap", "completed", "patterns")),
}


def shows_an_example(text: str) -> bool:
    """Return whether a docstring, or one that it overrides, has an example."""
    return re.search(r"^Examples\n-+$", text, flags=re.MULTILINE) is not None


def test_methods_that_a_user_meets_show_an_example() -> None:
    lacking = {path for path, text in methods_met().items() if not shows_an_example(text)}
    assert lacking == WITHOUT_EXAMPLE
    assert not shows_an_example("Return something.\n\nReturns\n-------\nstr")


class Planted:
    """Say what it is.

    Parameters
    ----------
    wrong : int
        A parameter that does not exist.
    """

    def __init__(self, right: int) -> None:
        self.right = right


def test_the_check_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    planted = ModuleType("planted")
    planted.Planted = Planted
    monkeypatch.setitem(sys.modules, "planted", planted)
    found = {remark.split()[0] for remark in complaints("planted.Planted", EXPORTED)}
    assert {"PR01", "PR02", "EX01"} <= found


def test_a_dataclass_without_docstring_is_recognized() -> None:
    assert not has_docstring("Nameless", make_dataclass("Nameless", [("size", float)]))
    assert has_docstring("Planted", Planted)
    assert not has_docstring("value", lambda: None)
