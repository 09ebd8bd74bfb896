"""Every script of the gallery runs to its end and prints what it promises; those of the first hour are short."""

from __future__ import annotations

import ast
import re
import runpy
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

ROOT = Path(__file__).parents[2]
GALLERY = ROOT / "examples" / "gallery"
SCRIPTS = sorted(GALLERY.glob("*/*.py"))
PROMISES = {
    "a_mixed_table": ["held-out R2 0.", "relative duality gap"],
    "b_three_views": ["('view1', 'view2'); held-out accuracy 0.", "protein", "mirna"],
    "c_precomputed_groups": ["random folds", "grouped folds", "spread"],
    "d_many_targets": ["targets, explained variance 0."],
    "e_save_and_report": ["predicts the same: True", "wine.html"],
    "columns_and_scales": ["of 837 kernels"],
    "curves_of_columns": ["bmi: gaussian", "relative duality gap of the exact kernels"],
    "how_sure": ["bmi", "p_value"],
    "what_kernels_see": ["flavanoids: gaussian(width=median)"],
    "why_this_prediction": ["held-out accuracy 0.9", "of 30 columns"],
    "dense_or_sparse": ["l1 ", "ridge (plain sum)", "124 kernels"],
    "fair_comparison": ["manykernels, tuned          0.9", "SVC, tuned", "logistic regression, tuned"],
    "path": ["bmi: gaussian"],
    "strength_by_folds": ["mean score of its folds 0.9", "untouched"],
    "kernels_of_images": ["held-out accuracy 0.9", "chi-squared"],
    "products_found": ["PolynomialMKL: held-out R2 0.3", "HierarchicalMKL: held-out R2 0.3"],
    "views_of_digits": ["held-out accuracy 0.9"],
    "widths_found": ["gaussian(width=", "gap"],
    "many_rows": ["87,449 rows, kernels held factored", "held-out accuracy 0.93"],
    "one_set_of_weights": ["own     explained 0.", "shared  explained 0."],
    "outliers": ["huber    on spoiled"],
    "probabilities": ["plain       Brier score 0.1", "calibrated"],
    "quantiles": ["inside the band", "(80% promised)"],
    "solvers_side_by_side": ["working_set      converged", "levelmkl         converged"],
    "unequal_classes": ["class_weight=balanced"],
}


def code_lines(source: str) -> int:
    """Return how many lines have code: comments, blank lines and the docstring are not counted."""
    tree = ast.parse(source)
    statements = tree.body[1:] if ast.get_docstring(tree) is not None else tree.body
    return sum(len({n for node in [one] for n in range(node.lineno, node.end_lineno + 1)}) for one in statements)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script_runs(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(path), run_name="__main__")
    plt.close("all")
    printed = capsys.readouterr().out
    for promise in PROMISES[path.stem]:
        assert promise in printed


def test_there_are_enough_scripts_and_each_promises_something() -> None:
    assert len(SCRIPTS) >= 15
    assert {path.stem for path in SCRIPTS} == set(PROMISES)


@pytest.mark.parametrize("path", sorted(GALLERY.glob("1_first_hour/*.py")), ids=lambda path: path.stem)
def test_first_hour_takes_fifteen_lines(path: Path) -> None:
    assert code_lines(path.read_text()) <= 15  # imports and prints included


def test_lines_are_counted() -> None:
    assert code_lines('"""Title."""\n\nimport a\n\n# a comment\nb = [\n    1,\n]\n') == 4


def test_asks_name_sixty_threads() -> None:
    rows = [line for line in (ROOT / "docs" / "guide" / "asks.md").read_text().splitlines() if line.startswith("| [")]
    threads = {re.match(r"\| \[[^]]+\]\((https://[^)]+)\)", row).group(1) for row in rows}
    assert len(threads) == len(rows) >= 60
    answers = [row.split(" | ")[-1] for row in rows]
    assert all("](" in answer or "not here" in answer or "`" in answer for answer in answers)


def test_asks_are_called_what_they_link_to() -> None:
    text = (ROOT / "docs" / "guide" / "asks.md").read_text()
    links = re.findall(r"\[([^]]+?) #(\d+)\]\((https?://[^)]+)\)", text)
    assert len(links) >= 60
    for repository, number, address in links:
        found = re.fullmatch(r"https://github\.com/[\w.-]+/([\w.-]+)/(issues|pull|discussions)/(\d+)", address)
        assert found is not None, address
        assert (found[1].lower(), found[3]) == (repository.lower(), number), address
