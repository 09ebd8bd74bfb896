"""What each script of the gallery promises to print, looked for on its page: the scripts run when the pages are built.

python docs/_extensions/promises.py docs/gallery
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

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
    "strength_by_folds": ["mean score of its folds -0.1", "untouched, for comparison: -0."],
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
PRINTED = re.compile(r"sphx-glr-script-out\n\n \.\. code-block:: none\n\n((?:    .*\n|\n)+)")


def broken(folder: Path) -> list[str]:
    """Return a line for each script without a page, and for each promise that its page does not keep."""
    pages = {path.stem: path.read_text(encoding="utf-8") for path in folder.glob("*/*.rst")}
    found = [f"{name}: has no page" for name in PROMISES if name not in pages]
    for name in set(PROMISES) & set(pages):
        printed = "\n".join(PRINTED.findall(pages[name]))
        found += [f"{name}: does not print {promise!r}" for promise in PROMISES[name] if promise not in printed]
    return sorted(found)


if __name__ == "__main__":
    told = broken(Path(sys.argv[1]))
    print("\n".join(told) or f"{len(PROMISES)} scripts of the gallery print what they promise")
    sys.exit(bool(told))
