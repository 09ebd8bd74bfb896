"""X is looked at once on its way in: counted where arrays, columns of tables and Gram matrices are checked."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import KFold

from manykernels import (
    GaussianMKL,
    KernelAligner,
    KernelStack,
    MKLClassifier,
    MKLClassifierCV,
    MKLRegressor,
    MKLRegressorCV,
)
from manykernels.kernels import KernelBank
from manykernels.kernels.bank import columns
from manykernels.kernels.precomputed import stack

RNG = np.random.default_rng(0)
X = RNG.uniform(-2.0, 2.0, size=(40, 3))
FRAME = pd.DataFrame(X, columns=["a", "b", "c"])
Y = np.sin(2.0 * X[:, 1]) + 0.3 * RNG.normal(size=40)
GRAMS = np.array([np.outer(column, column) for column in X.T])
KERNELS = KernelBank.auto()


@pytest.fixture
def seen(monkeypatch):
    """Return how often each check has been run."""
    counts = Counter()

    def counted(owner, name, size=lambda *args: 1):
        check = getattr(owner, name)

        def run(*args, **kwargs):
            counts[name] += size(*args)
            return check(*args, **kwargs)

        monkeypatch.setattr(owner, name, run)

    counted(columns, "_check_array")
    counted(columns.Table, "_read_new", lambda table, keys: len(set(keys) - set(table._read)))  # once a column
    counted(stack, "check_gram_array")
    counted(stack, "check_rectangular_grams")
    return counts


@pytest.mark.parametrize(("given", "check"), [(X, "_check_array"), (FRAME, "_read_new")], ids=["array", "frame"])
@pytest.mark.parametrize(
    "model",
    [MKLRegressor(), MKLRegressor(alpha=1e3), KernelAligner(), GaussianMKL(resources={"max_iter": 2}, tol=0.5)],
    ids=["fit", "empty model", "aligner", "search"],
)
@pytest.mark.filterwarnings("ignore:No kernel was selected")
def test_once_in_fit_and_once_in_predict(given, check, model, seen):
    fitted = model.fit(given, Y)
    # A search fits two banks, one to search on and one of what it found, on one checked table.
    once = 1 if given is X else X.shape[1]
    assert seen == {check: once}
    (fitted.transform if hasattr(fitted, "transform") else fitted.predict)(given)
    read = len(getattr(fitted, "weights_frame", lambda: "some")()) > 0  # of a table, else one column tells the rows
    assert seen == {check: once + (once if read else 1)}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("given", "check"), [(X, "_check_array"), (FRAME, "_read_new")], ids=["array", "frame"])
@pytest.mark.parametrize("alphas", [None, [0.1, 0.03, 0.01]], ids=["laid out", "given"])
@pytest.mark.filterwarnings("ignore:The best strength")
def test_once_in_a_whole_cross_validation(given, check, alphas, seen):
    model = MKLRegressorCV(KERNELS, cv=3, n_alphas=4, search={"alpha_min_ratio": 0.1}, alphas=alphas).fit(given, Y)
    once = 1 if given is X else X.shape[1]
    assert seen == {check: once}
    model.predict(given)
    assert seen == {check: 2 * once}


@pytest.mark.filterwarnings("ignore:The best strength")
@pytest.mark.filterwarnings("ignore:No kernel predicts better")
def test_kernels_once_and_a_stack_never_again(seen):
    MKLClassifierCV("precomputed", cv=2, alphas=[0.1, 0.05]).fit(GRAMS, Y > 0)
    assert seen == {"check_gram_array": 1}
    kernels = KernelStack(GRAMS)
    seen.clear()
    model = MKLRegressor("precomputed").fit(kernels[:30], Y[:30])
    model.predict(kernels[30:])
    assert not seen
    model.predict(GRAMS[:, 30:, :30])
    assert seen == {"check_rectangular_grams": 1}


def test_zero_weights_are_left_out_without_another_look(seen):
    weight = np.where(np.arange(40) < 30, 1.0, 0.0)
    model = MKLRegressor().fit(X, Y, weight)
    assert seen == {"_check_array": 1}
    assert model.solution_.dual_coef.shape == (40,)
    assert not model.solution_.dual_coef[30:].any()
    np.testing.assert_allclose(model.predict(X), MKLRegressor().fit(X[:30], Y[:30]).predict(X), atol=1e-12)


@pytest.mark.parametrize("given", [X, FRAME], ids=["array", "frame"])
@pytest.mark.filterwarnings("ignore:The best strength")
def test_scorers_and_splitters_get_what_was_given(given):
    kinds = set()

    def scorer(model, rows, target):
        kinds.add(type(rows))
        return -float(np.mean((model.predict(rows) - target) ** 2))

    MKLRegressorCV(KERNELS, cv=KFold(2), alphas=[0.03, 0.02], scoring=scorer).fit(given, Y)
    assert kinds == {type(given)}


def test_folds_are_fitted_by_the_plain_estimator():
    kinds = set()

    def scorer(model, rows, target):
        kinds.add(type(model))
        return model.alpha

    MKLRegressorCV(KERNELS, cv=2, alphas=[0.03], scoring=scorer).fit(X, Y)
    assert kinds == {MKLRegressor}


def test_warnings_point_at_the_line_of_the_user():
    for model in (MKLRegressor(alpha=1e3), MKLRegressorCV(KERNELS, alphas=[1e3], cv=2), GaussianMKL(alpha=1e3)):
        with pytest.warns(UserWarning, match="No kernel was selected") as caught:
            model.fit(X, Y)
        assert {warning.filename for warning in caught} == {__file__}


TRUE = Y > 0
CODES = TRUE.astype(int) + 1


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        (pd.Series(TRUE, dtype="boolean"), TRUE),
        (pd.Series(CODES, dtype="Int8"), CODES.astype("int8")),
        (pd.Series(TRUE).astype("category"), TRUE),
        (pd.Series(CODES, dtype="Int64").astype("category"), CODES),
        (pd.DataFrame({"ill": pd.Series(TRUE, dtype="boolean")}), TRUE),
        (pd.array(TRUE, dtype="boolean"), TRUE),
        (pd.Series(TRUE, dtype="Float64"), TRUE.astype(float)),
        (pd.Series(np.where(TRUE, "ill", "well"), dtype="string"), np.where(TRUE, "ill", "well").astype(object)),
    ],
    ids=["boolean", "Int8", "categories of bool", "categories of Int64", "frame", "array", "Float64", "string"],
)
@pytest.mark.filterwarnings("ignore:A column-vector y was passed")
def test_labels_of_pandas_keep_the_type_of_their_values(given, plain):
    model = MKLClassifier(alpha=0.1).fit(FRAME, given)
    assert model.classes_.dtype == model.predict(FRAME).dtype == plain.dtype
    assert model.classes_.tolist() == np.unique(plain).tolist()
    np.testing.assert_array_equal(model.predict(FRAME), MKLClassifier(alpha=0.1).fit(FRAME, plain).predict(FRAME))
    assert 0.5 < model.score(FRAME, given) <= 1.0


def test_labels_of_arrow_keep_the_type_of_their_values():
    pa = pytest.importorskip("pyarrow")
    for kind, plain in [(pa.bool_(), TRUE), (pa.int16(), CODES.astype("int16"))]:
        model = MKLClassifier(alpha=0.1).fit(FRAME, pd.Series(plain, dtype=pd.ArrowDtype(kind)))
        assert model.classes_.dtype == model.predict(FRAME).dtype == plain.dtype
