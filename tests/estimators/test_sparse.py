"""Sparse tables: the answer of dense ones, without filling them."""

from __future__ import annotations

import tracemalloc
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from manykernels import (
    Gaussian,
    InvalidInputError,
    KernelBank,
    Laplacian,
    Linear,
    MKLClassifier,
    MKLRegressor,
    MKLRegressorCV,
    Overlap,
    Pairs,
    Polynomial,
    load_model,
    regularization_path,
    report,
    save_model,
)
from manykernels.exceptions import IncompatibleError
from manykernels.grams import LazyStack
from manykernels.grams.plan import FACTORED

RNG = np.random.default_rng(0)
X = sparse.random_array((80, 300), density=0.05, rng=RNG, format="csr")
FULL = X.toarray()
Y = FULL @ np.linspace(-1, 1, 300) + 0.1 * RNG.normal(size=80)
WORDS = [f"w{j}" for j in range(300)]

BANKS = {
    "joint": KernelBank.joint([Linear(), Polynomial(2)], widths=["median", 1.0]),
    "unit": KernelBank.joint([Polynomial(2)], normalize="unit_diagonal"),
    "groups": KernelBank(
        [
            ("many", Linear(), list(range(100))),
            ("others", Gaussian("2*median"), list(range(50, 250))),
            ("few", Gaussian(1.0), [3, 4]),
            ("dense", Laplacian("median"), [1, 2, 3]),
        ]
    ),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("bank", BANKS)
@pytest.mark.parametrize("form", [sparse.csr_matrix, sparse.coo_array, sparse.csc_array])
def test_same_model_as_of_the_dense_table(bank: str, form: Any, tmp_path: Path) -> None:
    model = MKLRegressor(BANKS[bank], alpha=0.01, tol=1e-8).fit(form(X[:60]), Y[:60])
    dense = MKLRegressor(BANKS[bank], alpha=0.01, tol=1e-8).fit(FULL[:60], Y[:60])
    expected = dense.predict(FULL[60:])
    np.testing.assert_allclose(model.predict(form(X[60:])), expected, atol=1e-9)
    # Dense rows after a sparse fit, and the other way round.
    np.testing.assert_allclose(model.predict(FULL[60:]), expected, atol=1e-9)
    np.testing.assert_allclose(dense.predict(form(X[60:])), expected, atol=1e-9)
    np.testing.assert_allclose(model.decompose(X[60:]), dense.decompose(FULL[60:]), atol=1e-9)
    save_model(model, tmp_path / "sparse.mkl")
    np.testing.assert_array_equal(load_model(tmp_path / "sparse.mkl").predict(X[60:]), model.predict(X[60:]))


def test_gram_matrices_are_exactly_symmetric_and_distances_exact() -> None:
    twice = sparse.vstack([X[:30], X[:3] * (1 + 1e-9)]).tocsr()
    bank = KernelBank.joint([Linear()], widths=[1e-8], normalize=None)
    fitted, rows = bank.fit_prepare(twice)
    full, dense = bank.fit_prepare(twice.toarray())
    block = fitted.block(rows, rows)
    np.testing.assert_array_equal(block, block.transpose(0, 2, 1))
    np.testing.assert_allclose(block, full.block(dense, dense), rtol=1e-6, atol=1e-14)
    assert 0.1 < block[1, 0, 30] < 1  # near pairs are taken by subtraction
    lazy = LazyStack(fitted, rows)
    rho = RNG.normal(size=33)
    np.testing.assert_allclose(lazy.quad(rho), np.einsum("i,mij,j->m", rho, block, rho), rtol=1e-10)


def test_frames_of_sparse_columns_keep_their_names(tmp_path: Path) -> None:
    frame = pd.DataFrame({word: pd.arrays.SparseArray(FULL[:, j], fill_value=0.0) for j, word in enumerate(WORDS)})
    model = MKLRegressor(BANKS["groups"], alpha=0.01).fit(frame, Y)
    assert model.feature_names_in_.tolist() == WORDS
    expected = (
        MKLRegressor(BANKS["groups"], alpha=0.01)
        .fit(pd.DataFrame(FULL, columns=WORDS), Y)
        .predict(pd.DataFrame(FULL, columns=WORDS))
    )
    np.testing.assert_allclose(model.predict(frame), expected, atol=1e-6)
    shuffled = frame[WORDS[::-1]]
    bank = model._expansion.bank.table
    np.testing.assert_array_equal(bank.values(shuffled).toarray(), bank.values(frame).toarray())
    seen: list[pd.DataFrame] = []

    def scorer(model: Any, rows: pd.DataFrame, y: np.ndarray) -> float:
        seen.append(rows)
        return float(model.score(rows, y))

    MKLRegressorCV(BANKS["unit"], penalty="l1", alphas=[0.01], cv=2, scoring=scorer).fit(frame, Y)
    pd.testing.assert_frame_equal(seen[0], frame.iloc[:40].reset_index(drop=True))
    # A table of which some columns are dense is a dense table.
    mixed = frame.iloc[:, :40].assign(more=Y)
    assert MKLRegressor().fit(mixed, Y).score(mixed, Y) > 0.99


def test_columns_that_nobody_standardized_are_told_where_they_differ() -> None:
    large = X @ sparse.diags_array(np.where(np.arange(X.shape[1]) == 3, 1e3, 1.0))
    with pytest.warns(UserWarning, match="not standardized"):
        MKLRegressor(alpha=0.1).fit(sparse.csr_array(large), Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="The kernels are not more strongly related")
        MKLRegressor(alpha=0.01).fit(X, Y)
        MKLRegressor(BANKS["groups"], alpha=0.01).fit(sparse.csr_array(large), Y)  # kernels that somebody chose


def test_text_in_a_pipeline_and_searches() -> None:
    texts = [" ".join(RNG.choice(WORDS[:60] if label else WORDS[30:90], size=30)) for label in np.arange(60) % 2]
    labels = np.where(np.arange(60) % 2, "left", "right")
    pipeline = make_pipeline(TfidfVectorizer(), MKLClassifier())
    assert cross_val_score(pipeline, texts, labels, cv=3).min() > 0.8
    with pytest.warns(UserWarning, match="smallest of the grid"):
        model = MKLRegressorCV(cv=2, penalty="l1", n_alphas=3).fit(X, Y)
    assert model.kernel_names_[-1] == "all: linear()"


def test_a_hundred_thousand_columns_stay_sparse() -> None:
    wide = sparse.random_array((60, 100_000), density=1e-4, rng=np.random.default_rng(1), format="csr")
    y = wide @ np.linspace(-1, 1, 100_000)
    tracemalloc.start()
    model = MKLRegressor(alpha="0.1*max").fit(wide, y)
    model.predict(wide)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert model.n_features_in_ == 100_000
    assert peak < 48e6  # of 48 MB that the dense table has; names and positions of columns are the most of it


def test_members_of_pairs() -> None:
    index = RNG.integers(0, 80, (150, 2))
    data, dense = (Pairs(part, None, index) for part in (X, FULL))
    target = Y[index].sum(axis=1)
    models = [MKLRegressor(tol=1e-8, alpha=0.01).fit(data, target), None]
    bank = models[0]._expansion.bank.raw.left
    assert bank.table.sparse
    assert models[0].score(data, target) > 0.9
    with pytest.raises(InvalidInputError, match=r"expecting|fitted"):
        models[0].predict(Pairs(X[:, :10], None, [[0, 1]]))
    np.testing.assert_allclose(models[0].predict(dense), models[0].predict(data), atol=1e-9)


@pytest.mark.nightly
def test_a_path_on_sparse_rows_has_the_kernels_of_the_estimator() -> None:
    model = MKLRegressor(alpha=1e-3, tol=1e-6).fit(X, Y)
    for rows in (X, pd.DataFrame.sparse.from_spmatrix(sparse.csr_matrix(X))):
        path = regularization_path(rows, Y, alphas=[1e-2, 1e-3], tol=1e-6)
        assert list(path.kernel_names) == list(model.kernel_names_)
        np.testing.assert_allclose(path.solutions[-1].kernel_weights, model.kernel_weights_, rtol=1e-2, atol=1e-3)


def test_a_report_of_rows_that_have_no_columns_to_look_at(tmp_path: Path) -> None:
    index = RNG.integers(0, 80, (150, 2))
    pairs = Pairs(X, None, index)
    for data, target, told in (
        (X, Y, "sparse: 5 % are stored"),
        (pairs, Y[index].sum(axis=1), "150 pairs of 80 members"),
    ):
        page = report(MKLRegressor().fit(data, target), data, target, tmp_path / "page.html").read_text()
        assert told in page


def stored(value: float) -> sparse.csr_array:
    wrong = X.copy()
    wrong.data[7] = value
    return wrong


WRONG = [
    (lambda: MKLRegressor(KernelBank.auto()).fit(X, Y), "standardize='robust' subtracts means"),
    (lambda: MKLRegressor(KernelBank.joint(Linear(), center=True)).fit(X, Y), "center=True subtracts means"),
    (lambda: MKLRegressor().fit(stored(np.nan), Y), "NaN: stored entries that are missing in 1 column"),
    (lambda: MKLRegressor(KernelBank.joint(Linear(), missing="mask")).fit(stored(np.inf), Y), "infinite values in 1"),
    (lambda: MKLRegressor().fit(X, Y).predict(stored(np.nan)), "contains NaN"),
    (lambda: MKLRegressor().fit(X, Y).predict(X[:, :10]), r"10 features.*expecting 300"),
    (lambda: MKLRegressor().fit(X.astype(complex), Y), "dtype complex"),
    (lambda: MKLRegressor().fit(X[:0], Y[:0]), "at least one row"),
]


@pytest.mark.parametrize(("call", "match"), WRONG)
def test_what_cannot_be_done_is_told(call: Any, match: str) -> None:
    with pytest.raises(InvalidInputError, match=match):
        call()


def test_what_needs_dense_columns_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("manykernels.kernels.bank.table_kernels.MOST_DENSE", 5000)
    with pytest.raises(InvalidInputError, match=r"'all: overlap\(\)' needs 300 dense columns.*TruncatedSVD"):
        MKLRegressor(KernelBank.joint(Overlap())).fit(X, Y)
    with pytest.raises(InvalidInputError, match=r"300 sets of few columns would be made dense.*KernelBank.joint"):
        MKLRegressor(KernelBank.per_feature(Linear())).fit(X, Y)
    with pytest.raises(IncompatibleError, match="X is sparse, which only Gram matrices allow"):
        MKLRegressor(resources={"representation": FACTORED}).fit(X, Y)
