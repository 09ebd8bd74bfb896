"""Every example runs to its end and prints what it promises: `make examples`."""

from __future__ import annotations

import runpy
from pathlib import Path
from unittest.mock import patch

import pytest

from manykernels.kernels import KERNELS

EXAMPLES = Path(__file__).parents[2] / "examples"
PROMISES = {
    "mixed_table.py": ["missing entries: 20%", "indicator: AUC 0.", "a category nobody has seen"],
    "views_with_gaps.py": ["view0        6      199       41", "informative: view0, view2", "from one view alone"],
    "drug_target_pairs.py": ["5068 pairs of 120 first", "linear() x target sequence", "both new: R2 0.6", "does it"],
    "from_csv_to_decision.py": ["manykernels, untouched  0.48", "bmi       0.1", "written to answer.png"],
    "kernel_alignment_pipeline.py": ["uniform      then SVC", "The joint weights are optimal", "one stage"],
    "continuous_widths.py": ["one width a feature: held-out R2 0.9", "widths of the heaviest kernel"],
    "hierarchical_interactions.py": ["pulse x pulse", "age x dose", "Held-out R2: 0.9"],
    "polynomial_interactions.py": ["age x dose x dose", "weight x pulse x marker 3", "held-out R2 0.9"],
    "interactions_of_three.py": ["load x age x damp", "every subset: 283 kernels", "boosted trees explain 0."],
    "precomputed_kernels.py": ["words of 4", "cross-validated accuracy"],
    "compare.py": ["two columns matter", "EasyMKL margin", "best here: average kernel"],
    "counts.py": ["frequency: gap", "cost of a claim: gap", "pure premium of a year"],
    "shapes.py": ["told: goes the wrong way nowhere", "not told: goes the wrong way somewhere", "is worth"],
    "mixed_models.py": ["always in: subject, days, subject x days", "m0: gaussian"],
    "layers.py": ["protein       20      478", "100 patients: R2 0.4", "columns kept: clinical"],
    "omics_tree.py": ["of 60 genes at l1_ratio", "held-out concordance 0.", "rna apoptosis g"],
    "export_model.py": ["SQLite and the model differ by", "Python with NumPy alone: ill", "any other"],
    "custom_kernel.py": ["histogram_intersection(power=0.5)", "held-out accuracy 0."],
    "custom_solver.py": ["direct_ridge: gap", "it needs a quadratic conjugate without box and kink"],
    "custom_stack.py": ["1.0 MB instead of 32", "heaviest: kernel 7, kernel 42"],
    "custom_loss.py": ["log_cosh: working_set", "asymmetric_squared: working_set", "chosen by cross-validation"],
    "custom_regularizer.py": [": gap", "kernels along the path", "chosen by cross-validation"],
    "one_door.py": ["own loss, own penalty  factored         converged", "In a new process"],
    "custom_family.py": ["cauchy(width=", "gap over all widths"],
    "survival.py": ["marker: gaussian", "concordance on new patients  0.7", "Brier scores", "free of the event"],
    "report.py": ["mean score of the folds", "open it in a browser"],
    "out_of_core.py": ["ParquetRows(40000 rows", "hour: gaussian", "are off by 1.0"],
    "shared_weights.py": ["own: accuracy 0.9", "shared: accuracy 0.9", "with probability"],
    "sequence_mismatches.py": ["words of 5, 1 wrong  alone: accuracy 0.9", "all together: accuracy 0.9"],
    "graph_kernels.py": ["accuracy in folds: 0.", "shortest paths"],
    "text_columns.py": ["without help: Text that is no category: 'review'", "accuracy in folds: 0.9", "review"],
    "gurls_pipeline.py": ["RMSE over the splits", "deviation", "chosen: alpha", "accuracy of the sign 0.9"],
    "intervals.py": ["inside the 95 % bands at 9", "90 % intervals cover 9", "90 % sets hold"],
    "which_views.py": ["informative views: view0, view1", "plain sum of the kernels", "relative duality gap"],
    "multiview_regression.py": ["informative views view1, view3", "held-out R2"],
}


NEEDS = {
    "intervals.py": "mapie",
    "graph_kernels.py": "grakel",
    "text_columns.py": "skrub",
}  # extras that the tests do without


@pytest.mark.example
@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_example_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(EXAMPLES)  # one takes a loss and a penalty from its neighbors
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    with patch.dict(KERNELS):  # scripts register kernels of their own
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    printed = capsys.readouterr().out
    for promise in PROMISES[name]:
        assert promise in printed
