"""Rules for the pages of the documentation: no page denies what exists; the prose is plain. Run by ``make lint``."""

from __future__ import annotations

import importlib
import inspect
import re
from functools import cache
from pathlib import Path

import pytest

from manykernels.estimators.parameters import PARAMETERS
from manykernels.kernels import KERNELS
from manykernels.objective.losses import LOSSES
from manykernels.objective.regularizers import REGULARIZERS
from manykernels.solvers import SOLVERS

ROOT = Path(__file__).parents[1]
GENERATED = {"bad_inputs.md", "changelog.md"}
WRITTEN = [
    ROOT / "README.md",
    *(page for folder in (".", "guide", "coming_from") for page in (ROOT / "docs" / folder).glob("*.md")),
]
PAGES = sorted(page for page in WRITTEN if page.name not in GENERATED)
DENIAL = re.compile(r"\bnot (?:here|available|supported)\b|\bwill miss\b|^\| [^|]+ \| none\b", re.IGNORECASE)
# What pages may deny, and the names in the interface that would prove them wrong.
ABSENT = {
    "GPU": "gpu|cuda|cupy|torch",
    "ranking": "ranking",
    "multi-label": "multi_?label",
    "partial_fit": "partial_fit",
    "one-class": "^one_?class",
    "Merge models": "merge_models",
    "GRAM": "radius_margin|^memo$",
    "PWMK": "pwmk|heuristic",
    "full-UMKL": "unsupervised|umkl",
    "editing curves": "edit_|set_curve",
    "non-convex": "^mcp$|^scad$",
    "p-values of": "summary_gam|wald",
    "plotIndiv": "component",
    "design": "^design$",
    "Minlip": "minlip|forest",
    "ordinal traits": "probit|cumulative_link",
    "nIter": "burn_?in|gibbs",
    "backends": "backend$",
    "random_search": "random_search",
    "hyper_gradient": "hyper_gradient",
    "sigmoid": "^sigmoid$",
    "n_targets_batch": "targets_batch|batch_size",
    "get_primal_coef": "primal_coef",
    "correlation_score": "correlation_score|score_split",
}
# Methods that form N x N matrices whatever the kernels are, and may say so.
DENSE = {"interactions.md", "continuous.md"}
FEW_ROWS = re.compile(r"thousands? (?:of )?(?:rows|samples)(?: at most)?[.:]", re.IGNORECASE)

# Plain prose: software does not speak, and nouns of the field stand where pronouns could.
SPEECH = re.compile(r"\b(?:says?|tells?|told|knows?|is refused|are refused|in words|nobody)\b", re.IGNORECASE)
PRONOUNS = re.compile(
    r"\b(?:what|whatever|those|which|that|ones?|its?|itself|they|them|their|who|whose|each|others?)\b", re.IGNORECASE
)
MOST_SPEECH = 3  # a page: quotations, and what people say
MOST_PRONOUNS = 0.085  # of the words of a page; the documentation of skglm has 0.01 in docstrings
FEW_WORDS = 150


@cache
def names() -> frozenset[str]:
    """Return the names of the interface: objects, methods, parameters, and what registries hold."""
    packages = re.findall(r"^ +(manykernels\.\w+)$", (ROOT / "docs" / "api.md").read_text(), re.MULTILINE)
    found = {*PARAMETERS, *KERNELS, *LOSSES, *REGULARIZERS, *SOLVERS}
    for package in packages:
        module = importlib.import_module(package)
        for name in getattr(module, "__all__", ()):
            thing = getattr(module, name)
            found |= {name, *(own for own in dir(thing) if inspect.isclass(thing) and not own.startswith("_"))}
    return frozenset(name.lower() for name in found)


def prose(text: str) -> str:
    """Return the text of a page without code."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"```.*?```", "", text, flags=re.DOTALL))


def unclear(text: str) -> list[str]:
    """Return what makes the prose of a page hard to read; threads of other projects are quoted as they are."""
    said, words = SPEECH.findall(prose(text)), re.findall(r"[A-Za-z]+", prose(text))
    found = [f"software speaks: {said}"] if len(said) > MOST_SPEECH else []
    share = len(PRONOUNS.findall(prose(text))) / max(len(words), 1)
    return [*found, f"{share:.1%} pronouns"] if len(words) >= FEW_WORDS and share > MOST_PRONOUNS else found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_prose_is_plain(page: Path) -> None:
    assert unclear(page.read_text(encoding="utf-8")) == []


def test_unclear_prose_is_found() -> None:
    assert unclear("It says what it knows, and tells those who are told. ") == [
        "software speaks: ['says', 'knows', 'tells', 'told']"
    ]
    assert unclear("The fit returns a model. `says tells told knows`\n" * 40) == []
    assert unclear("What that is, its ones tell which. " * 40)[1].endswith("pronouns")


def wrong_denials(text: str, known: frozenset[str]) -> list[str]:
    """Return the lines that deny something that is not listed as absent, or that exists."""
    denied = [line for line in text.splitlines() if DENIAL.search(line)]
    unlisted = [line for line in denied if not any(key in line for key in ABSENT)]
    present = [
        line
        for line in denied
        for key, pattern in ABSENT.items()
        if key in line and any(re.search(pattern, name) for name in known)
    ]
    return unlisted + present


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_denies_what_exists(page: Path) -> None:
    assert wrong_denials(page.read_text(encoding="utf-8"), names()) == []


@pytest.mark.parametrize("page", [page for page in PAGES if page.name not in DENSE], ids=lambda page: page.name)
def test_no_page_limits_all_models_to_thousands_of_rows(page: Path) -> None:
    assert [line for line in page.read_text(encoding="utf-8").splitlines() if FEW_ROWS.search(line)] == []


def test_planted_denials_are_found() -> None:
    assert wrong_denials("String kernels are not here.", names()) == ["String kernels are not here."]
    assert wrong_denials("A GPU is **not available**.", names()) == []
    assert wrong_denials("A GPU is not available.", names() | {"gpu_solver"}) == ["A GPU is not available."]
    assert FEW_ROWS.search("Made for thousands of rows.")
