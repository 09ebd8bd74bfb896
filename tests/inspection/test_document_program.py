"""How to do it again is Python: run, it makes the estimator of the report and the report itself."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, KFold, TimeSeriesSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from manykernels import (
    Gaussian,
    GaussianMKL,
    InvalidInputError,
    KernelBank,
    Linear,
    MKLClassifier,
    MKLRegressor,
    MKLRegressorCV,
    PrecomputedBank,
    report,
    save_model,
)
from manykernels.inspection.reports import evaluation
from manykernels.inspection.reports.document import NotAProgramError, program_of
from manykernels.inspection.reports.evaluation import SplitRows

pytestmark = pytest.mark.usefixtures("without_pictures")

BANK = KernelBank([("near a", Gaussian(0.5) * Linear(), ["a"]), ('the "line"\n', Linear(), None)], standardize=True)
GRID = KernelBank.per_feature(Linear(), widths=["median", 2.0], columns=slice("a", "b"), center=True)


def table() -> pd.DataFrame:
    """Return two columns of normal numbers."""
    return pd.DataFrame(np.random.default_rng(0).normal(size=(40, 2)), columns=["a", "b"])


def program_in(path: Path) -> str:
    """Return the program that a report ends with."""
    found = re.search(r"<pre[^>]*>(?:<code>)?(.*?)(?:</code>)?</pre>", path.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return unescape(found[1])


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    "model",
    [
        MKLRegressor(tol=1e-3),
        MKLRegressor(BANK, alpha=0.05, penalty="elasticnet", kernel_penalties=np.array([1.0, 0.1 + 0.2])),
        MKLRegressorCV(GRID, penalty="l1", cv=KFold(3, shuffle=True, random_state=1), n_alphas=3),
        MKLClassifier(GRID, loss="hinge", class_weight={"high": 2.0, "low": 1.0}),
        make_pipeline(StandardScaler(), MKLRegressor(KernelBank.per_feature(widths=[1.0]), tol=1e-3)),
    ],
    ids=["untouched", "named kernels", "chosen", "classes", "pipeline"],
)
@pytest.mark.filterwarnings("ignore:The best strength")
def test_the_program_of_a_report_does_it_again(model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    X = table()
    y = X["a"] + 0.1 * X["b"]
    y = pd.Series(np.where(y > 0, "high", "low"), name="of two\nlines") if hasattr(model, "class_weight") else y
    fitted = clone(model).fit(X, y)
    program = program_in(report(fitted, X, y, tmp_path / "first.html", cv=2, n_draws=20, baselines=False))
    space = {"X": X, "y": y}
    exec(program, space)
    again: Any = space["model"]
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))
    assert program_in(tmp_path / "report.html") == program
    assert program.endswith("report(model, X, y, cv=2, baselines=False, n_draws=20)")


@pytest.mark.filterwarnings("ignore:The best strength")
def test_the_program_of_a_search_in_folds_by_groups_asks_for_them(tmp_path: Path) -> None:
    X, groups = table(), np.arange(40) // 4
    fitted = MKLRegressorCV(GRID, penalty="l1", cv=GroupKFold(3), n_alphas=3).fit(X, X["a"], groups=groups)
    unseen = {"X_test": X, "y_test": X["a"], "n_draws": 20, "baselines": False}
    program = program_in(report(fitted, X, X["a"], tmp_path / "report.html", **unseen))
    assert "model.fit(X, y, groups=groups)" in program
    space: dict[str, Any] = {"X": X, "y": X["a"], "groups": groups}
    exec(program.rpartition("report(")[0], space)
    np.testing.assert_array_equal(space["model"].predict(X), fitted.predict(X))


def test_a_report_by_groups_keeps_them_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X, groups = table(), np.repeat(list("abcdefgh"), 5)
    seen = []
    monkeypatch.setattr(evaluation, "SplitRows", lambda *given: seen.append(given[2]) or SplitRows(*given))
    for kind, y in [(MKLRegressor, X["a"]), (MKLClassifier, X["a"] > 0)]:
        model = kind(GRID, alpha=0.1).fit(X, y)
        report(model, X, y, tmp_path / "report.html", cv=3, groups=groups, n_draws=20, baselines=False)
    assert len(seen) == 2
    for splits in seen:
        assert len(splits) == 3
        assert not any(set(groups[train]) & set(groups[test]) for train, test in splits)
    with pytest.raises(InvalidInputError, match=r"hold out every row exactly once.*X_test=X\[n:\]"):
        report(MKLRegressor(GRID).fit(X, X["a"]), X, X["a"], tmp_path / "report.html", cv=TimeSeriesSplit(3))


def test_a_model_that_no_program_tells_is_read_from_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    X = table()
    fitted = MKLRegressor(tol=1e-3, kernel_penalties=np.ones(201)).set_params(
        kernels=KernelBank.joint([Gaussian(width) for width in np.geomspace(0.5, 5.0, 201)])
    )
    fitted.fit(X, X["a"])
    program = program_in(report(fitted, X, X["a"], tmp_path / "first.html", cv=2, n_draws=20, baselines=False))
    assert "# The model has an array of 201 numbers, which is not written here" in program
    save_model(fitted, tmp_path / "model.mkl")
    space = {"X": X, "y": X["a"]}
    exec(program, space)
    np.testing.assert_array_equal(space["model"].predict(X), fitted.predict(X))


@pytest.mark.parametrize(
    "value",
    [
        GaussianMKL("logistic"),
        KernelBank.simplemkl(normalize="trace"),
        PrecomputedBank("unit_diagonal", center=True),
        [np.float64(0.1), float("inf"), (1,), (), {"a": slice(0, None, 2)}, np.mean, MKLRegressor],
        np.array(["x", None], dtype=object),
    ],
)
def test_programs_make_what_they_are_of(value: Any) -> None:
    imports, expression = program_of(value)
    space: dict[str, Any] = {}
    exec("\n".join([*imports, f"made = {expression}"]), space)
    assert type(space["made"]) is type(value)
    assert program_of(space["made"]) == (imports, expression)


def test_what_has_no_name_has_no_program() -> None:
    for value in (lambda X: X, object(), [np.zeros(201)], {"rng": np.random.default_rng(0)}):
        with pytest.raises(NotAProgramError):
            program_of(value)
