"""Estimators on pairs: the answer of the explicit Kronecker product, members that are new, searches and files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GridSearchCV, cross_val_score

from manykernels import (
    ColdStartKFold,
    InvalidInputError,
    KernelBank,
    KernelStack,
    MKLClassifier,
    MKLRegressor,
    MKLRegressorCV,
    PairKernels,
    Pairs,
    load_model,
    save_model,
)
from manykernels.grams import pair_stack as module

RNG = np.random.default_rng(0)
DRUGS = pd.DataFrame(RNG.normal(size=(24, 3)), columns=list("abc"), index=[f"d{i}" for i in range(24)])
TARGETS = pd.DataFrame(RNG.normal(size=(18, 2)), columns=list("xy"), index=[f"t{i}" for i in range(18)])
PLACES = np.argwhere(RNG.random((24, 18)) < 0.6)
DATA = Pairs(DRUGS, TARGETS, np.column_stack([DRUGS.index[PLACES[:, 0]], TARGETS.index[PLACES[:, 1]]]))
SIGNAL = np.sin(DRUGS["a"].to_numpy()[PLACES[:, 0]]) * TARGETS["x"].to_numpy()[PLACES[:, 1]]
Y = SIGNAL + 0.1 * RNG.normal(size=len(PLACES))
LABELS = np.where(Y > 0, "yes", "no")
SIDES = {"sides": ("drug", "target")}


@pytest.fixture
def _large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let few pairs be fitted as many are."""
    monkeypatch.setattr(module, "MOST_FORMED", 10)


def explicit(data: Pairs, bank: Any) -> KernelStack:
    """Return the kernels of a fitted bank among pairs, formed."""
    prepared = bank.prepare(data)
    return KernelStack(bank.block(prepared, prepared), names=bank.names)


@pytest.mark.sampled(3)
@pytest.mark.usefixtures("_large")
@pytest.mark.parametrize(
    ("estimator", "y"),
    [(MKLRegressor(penalty="elasticnet"), Y), (MKLClassifier(), LABELS), (MKLClassifier(loss="squared_hinge"), LABELS)],
)
def test_same_answer_as_the_explicit_kernels(estimator: Any, y: Any) -> None:
    model = estimator.set_params(tol=1e-9, alpha="0.05*max").fit(DATA, y)
    stack = explicit(DATA, PairKernels().fit(DATA))
    whole = type(estimator)("precomputed", **{k: v for k, v in model.get_params(deep=False).items() if k != "kernels"})
    whole.fit(stack, y)
    assert len(model.kernel_names_) == 24
    assert model.dual_gap_ <= 1e-9
    assert model.solution_.solver == "block_coordinate" != whole.solution_.solver
    assert model.solution_.certificate.primal == pytest.approx(whole.solution_.certificate.primal, rel=1e-8)
    score = "predict" if isinstance(model, MKLRegressor) else "decision_function"
    np.testing.assert_allclose(getattr(model, score)(DATA), getattr(whole, score)(stack), atol=1e-3)
    np.testing.assert_allclose(model.decompose(DATA).sum(axis=0) + model.intercept_, getattr(model, score)(DATA))


def test_new_members_are_scored_by_their_columns() -> None:
    """A model of all members at once, and one that meets some of them only when it predicts."""
    known = (PLACES[:, 0] < 18) & (PLACES[:, 1] < 13)
    first, second = DRUGS[:18], TARGETS[:13]
    kernels = PairKernels(KernelBank.joint(widths=[2.0]), KernelBank.joint(widths=[1.0]), products="products", **SIDES)
    model = MKLRegressor(kernels).fit(Pairs(first, second, DATA.pairs[known]), Y[known])
    assert model.kernel_names_ == ["drug all: gaussian(width=2) x target all: gaussian(width=1)"]
    within = (PLACES[:, 0] >= 18) & (PLACES[:, 1] >= 13)
    new = Pairs(DRUGS[18:], TARGETS[13:], DATA.pairs[within])
    np.testing.assert_allclose(model.predict(new), model.predict(DATA[within]))
    assert np.corrcoef(model.predict(new), SIGNAL[within])[0, 1] > 0.8


def test_kernels_of_members_as_matrices_and_files(tmp_path: Path) -> None:
    left, right = (KernelStack([part @ part.T, np.eye(len(part))]) for part in (DRUGS.to_numpy(), TARGETS.to_numpy()))
    data, train = Pairs(left, right, PLACES), np.flatnonzero(PLACES[:, 0] < 20)
    model = MKLRegressor(PairKernels(products=[("kernel_0", "kernel_0"), ("kernel_1", None)], **SIDES))
    model.fit(data[train], Y[train])
    assert model.kernel_names_ == ["drug kernel_0 x target kernel_0", "drug kernel_1"]
    save_model(model, tmp_path / "pairs.mkl")
    again = load_model(tmp_path / "pairs.mkl")
    np.testing.assert_array_equal(again.predict(data), model.predict(data))
    # What is unknown of new drugs, rows against the known ones, is enough.
    seen = np.unique(PLACES[train, 0])
    rows = KernelStack.rectangular([left.square()[0][20:, seen], np.zeros((4, len(seen)))])
    last = PLACES[PLACES[:, 0] >= 20]
    np.testing.assert_allclose(
        model.predict(Pairs(rows, right, last - [20, 0])), model.predict(data[PLACES[:, 0] >= 20])
    )


@pytest.mark.parametrize("symmetry", ["symmetric", "antisymmetric"])
def test_members_of_one_kind(symmetry: str, tmp_path: Path) -> None:
    pairs = RNG.integers(0, 24, (100, 2))
    sign = 1.0 if symmetry == "symmetric" else -1.0
    a = DRUGS.to_numpy()[:, 0]
    y = a[pairs[:, 0]] + sign * a[pairs[:, 1]]
    there, back = (Pairs(DRUGS.to_numpy(), None, order) for order in (pairs, pairs[:, ::-1]))
    model = MKLRegressor(PairKernels(symmetry=symmetry), fit_intercept=False).fit(there, y)
    np.testing.assert_allclose(model.predict(back), sign * model.predict(there), atol=1e-9)
    assert np.corrcoef(model.predict(there), y)[0, 1] > 0.99
    save_model(model, tmp_path / "one.mkl")
    np.testing.assert_array_equal(load_model(tmp_path / "one.mkl").predict(back), model.predict(back))


def test_searches_take_pairs_as_samples() -> None:
    folds = ColdStartKFold(3, new="left", random_state=0)
    scores = cross_val_score(MKLRegressor(), DATA, Y, cv=folds)
    assert scores.min() > 0.7
    path = MKLRegressorCV(penalty="l1", n_alphas=3, cv=folds).fit(DATA, Y)
    assert path.n_folds_ == 3
    # Its folds are those of the members, not of the rows, without being told.
    same = MKLRegressorCV(penalty="l1", n_alphas=3, cv=folds).fit(DATA, Y, groups=DATA.pairs)
    np.testing.assert_array_equal(path.cv_frame(), same.cv_frame())
    grid = {"kernels__products": ["all", "products"]}
    search = GridSearchCV(MKLRegressor(PairKernels()), grid, cv=2).fit(DATA, Y)
    assert search.best_score_ > 0.8


@pytest.mark.nightly
@pytest.mark.usefixtures("_large")
def test_the_search_for_mixtures_forms_no_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.PairStack, "_combine", None)
    monkeypatch.setattr(module.PairStack, "_triangles", None)
    noisy = Y[:120] + 0.7 * RNG.normal(size=120)
    model = MKLRegressorCV(cv=2, n_alphas=4).fit(DATA[:120], noisy)
    assert model.score(DATA[120:], Y[120:]) > 0.3


def test_test_pairs_and_their_members_teach_nothing() -> None:
    train = np.flatnonzero(PLACES[:, 0] < 18)
    spoiled = DRUGS.copy()
    spoiled.iloc[18:] = 1e6
    models = [MKLRegressor().fit(Pairs(drugs, TARGETS, DATA.pairs)[train], Y[train]) for drugs in (DRUGS, spoiled)]
    np.testing.assert_array_equal(*(model.predict(DATA[train]) for model in models))


LINE = KernelBank.joint(widths=[1.0])
WRONG = [
    (lambda: MKLRegressor(KernelBank.auto()).fit(DATA, Y), "X are Pairs, but kernels is a KernelBank"),
    (lambda: MKLRegressor(PairKernels()).fit(DRUGS, Y[:24]), r"Pairs\(left, right, pairs\) as X.*DataFrame"),
    (lambda: MKLRegressor().fit(DATA, Y).predict(PLACES), "Kernels of pairs need Pairs"),
    (lambda: MKLRegressor().fit(DATA, Y).predict(Pairs(DRUGS, None, DATA.pairs[:2, [0, 0]])), "one kind of members"),
    (lambda: Pairs(DRUGS, TARGETS, [["d0", "t99"]]), r"1 labels.*second members.*'t99'"),
    (lambda: Pairs(DRUGS.to_numpy(), TARGETS, [["d0", "t0"]]), "must hold positions of first members, got 'd0'"),
    (lambda: Pairs(DRUGS.to_numpy(), TARGETS.to_numpy(), [[0, 18]]), "is 18, but there are 18 second members"),
    (lambda: Pairs(DRUGS, TARGETS, ["d0", "t0"]), "two columns"),
    (lambda: Pairs(pd.concat([DRUGS, DRUGS]), TARGETS, [["d0", "t0"]]), "Labels of members must differ"),
    (lambda: Pairs(np.empty((0, 2)), TARGETS, [[0, "t0"]]), "members in left cannot be used"),
    (lambda: MKLRegressor(PairKernels(symmetry="symmetric")).fit(DATA, Y), "members of one kind"),
    (lambda: PairKernels(symmetry="odd"), "symmetry must be"),
    (lambda: PairKernels(left="gaussian"), "left must be a KernelBank"),
    (lambda: PairKernels(products=[(None, None)]), "the intercept of the model is one"),
    (lambda: PairKernels(products=[("a",)]), "products must be"),
    (lambda: PairKernels(products=[("a", None)]).fit(DATA), "names 'a', but the left members have the kernels"),
    (lambda: PairKernels(sides=("drug",)), "sides must be two words"),
    (lambda: PairKernels(LINE).fit(Pairs(KernelStack(np.eye(3)[None]), np.eye(2), [[0, 0]])), "KernelStack, which a"),
    (lambda: DATA[np.ix_([0], [1])], "indexed by pairs"),
]


@pytest.mark.parametrize(("call", "match"), WRONG)
def test_what_cannot_be_used_is_told(call: Any, match: str) -> None:
    with pytest.raises(InvalidInputError, match=match):
        call()
