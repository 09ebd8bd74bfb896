"""Error messages for bad input. The same list becomes docs/bad_inputs.md."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.model_selection import GroupKFold, KFold, TimeSeriesSplit

from manykernels import (
    Gaussian,
    GaussianMKL,
    Interaction,
    InvalidInputError,
    KernelBank,
    KernelStack,
    Linear,
    MKLClassifier,
    MKLClassifierCV,
    MKLRegressor,
    MKLRegressorCV,
    PrecomputedBank,
    Views,
    compare,
    nested_cross_validation,
    report,
    solve,
)
from manykernels.estimators.selection.splits import splits_of
from manykernels.exceptions import IncompatibleError, MemoryBudgetError, NotPSDError

PAGE = Path(__file__).parents[2] / "docs" / "bad_inputs.md"
HEADER = """# Error messages by cause

A test gives each input on the left and compares the message on the right. Line breaks in messages are shown as spaces.
`python docs/_generate_bad_inputs.py` writes this page.

| input | error | message |
| --- | --- | --- |
"""

RNG = np.random.default_rng(3)
X = np.round(RNG.normal(size=(40, 3)), 3)
Y = np.where(X[:, 0] + X[:, 1] ** 2 > 0.5, "yes", "no")
TARGET = X[:, 0] - X[:, 2]
FRAME = pd.DataFrame(X, columns=["age", "dose", "weight"])
DATES = np.datetime64("2024-01-01") + np.arange(40)
STAMPS = pd.Series(DATES).astype(object).to_numpy()
GRAMS = np.stack([np.outer(column, column) for column in X.T])


def put(array: Any, index: Any, value: Any) -> Any:
    """Return a copy with one entry replaced."""
    changed = array.copy()
    changed[index] = value
    return changed


NOTES = [f"came in after {i} days" for i in range(40)]
MIXED = pd.DataFrame({"age": X[:, 0], "dose": X[:, 1], "weight": np.where(X[:, 2] > 0, "high", "low")})
UNUSABLE = FRAME.assign(age=put(X[:, 0], 3, np.nan), dose=put(X[:, 1], 5, np.inf), note=NOTES, parts=[[1]] * 40)
BANK = KernelBank([Linear()])
VIEWS = Views({"left": FRAME[["age", "dose"]], "right": FRAME[["weight"]]})
STRANGERS = Views({"a": FRAME, "b": FRAME.set_index(np.arange(40) + 100)})
FEWER = Views({"left": FRAME[["age"]]})
TWISTED = pd.Series(Y)[::-1]


class LazyFrame:
    """As polars has it."""

    def collect(self) -> pd.DataFrame:
        return FRAME


def classify(X: Any = X, y: Any = Y, weight: Any = None, **parameters: Any) -> MKLClassifier:
    return MKLClassifier(**parameters).fit(X, y, weight)


def regress(X: Any = X, y: Any = TARGET, weight: Any = None, **parameters: Any) -> MKLRegressor:
    return MKLRegressor(**parameters).fit(X, y, weight)


def precomputed(kernels: Any = GRAMS, y: Any = Y, **parameters: Any) -> MKLClassifier:
    return classify(kernels, y, kernels="precomputed", **parameters)


@dataclass(frozen=True)
class Case:
    """One mistake: what was tried, how, and which error must say what."""

    name: str
    attempt: Callable[[], Any]
    says: str
    error: type[Exception] = InvalidInputError
    cut: str = ""  # the page ends the message here: what follows grows with the library


CASES = [
    # data
    Case("X with a NaN", lambda: classify(put(X, (3, 1), np.nan)), "contains NaN"),
    Case(
        "a DataFrame with a NaN",
        lambda: classify(FRAME.mask(FRAME > 2.2)),
        r"'age' \(1 of 40\).*impute them",
    ),
    Case("X with an infinite value", lambda: classify(put(X, (0, 0), np.inf)), "contains infinity"),
    Case("X with one dimension", lambda: classify(X[:3, 0]), "Reshape your data"),
    Case("an integer of 400 digits in X", lambda: classify([[10**400, 1], [1, 2]], ["a", "b"]), "beyond 1.8e308"),
    Case("an integer of 400 digits in y", lambda: regress(X, [10**400, *TARGET[1:]]), "beyond 1.8e308"),
    Case("rows of different lengths", lambda: classify([[1, 2], [1]], ["a", "b"]), "row 0 has 2 .* row 1 1 value"),
    Case("y with rows of different lengths", lambda: regress(X, [[1, 2], *[[1]] * 39]), "y has rows of different"),
    Case("every row a class of its own", lambda: classify(X, np.arange(40)), "a separate class"),
    Case("a label that is missing", lambda: classify(X, [None, *Y[1:]]), "1 of 40 values are missing, .* position 0"),
    Case("labels of two types", lambda: classify(X, np.array([1, *Y[1:]], dtype=object)), "cannot be sorted"),
    Case(
        "text in an array of objects",
        lambda: classify(MIXED.to_numpy()),
        r"'(low|high)', in row 0 of column 2 of X\. .* columns of a DataFrame may also be categories",
    ),
    Case("rows that are still to be collected", lambda: classify(LazyFrame()), r"is a LazyFrame.*Pass X.collect\(\)"),
    Case("dates in an array of objects", lambda: classify(STAMPS[:, None]), "columns of a DataFrame may also be dates"),
    Case("dates as targets", lambda: regress(X, STAMPS), "such as days since a date"),
    Case("matrices of kernels without saying so", lambda: classify(GRAMS), "then pass kernels='precomputed'"),
    Case("a KernelStack without saying so", lambda: classify(KernelStack(GRAMS)), "pass kernels='precomputed'"),
    Case("two kernels that are no list", lambda: KernelBank.per_feature(Linear(), Gaussian(1.0)), "kernels as a list"),
    Case("X without rows", lambda: classify(X[:0], Y[:0]), "minimum of 1 is required"),
    Case(
        "a column of text", lambda: classify(FRAME.assign(note=NOTES)), "'note' \\(a different value .*TableVectorizer"
    ),
    Case(
        "text in a kernel of numbers",
        lambda: classify(FRAME.assign(site="left"), kernels=BANK),
        "'site'.*OneHotEncoder",
    ),
    Case(
        "all sorts of columns at once",
        lambda: classify(UNUSABLE),
        r"'parts'.*'note'.*'dose' \(1 of 40\).*'age' \(1 of 40\)",
    ),
    Case(
        "an array for a bank of categories",
        lambda: KernelBank.auto().fit(MIXED).prepare(X),
        "instead of an array",
    ),
    Case("text where a model reads numbers", lambda: classify(MIXED).predict(MIXED.assign(age="old")), "'age'.*in fit"),
    Case("views without common samples", lambda: classify(STRANGERS), "'a' has no sample in common"),
    Case(
        "views with labels of two types", lambda: Views({"a": FRAME, "b": FRAME.set_index(DATES.astype(str))}), "type"
    ),
    Case("views of different lengths", lambda: Views({"a": FRAME, "b": FRAME[:9]}), "must be equally long"),
    Case("a sample twice in a view", lambda: Views({"a": pd.concat([FRAME, FRAME])}), "more than one sample"),
    Case("targets in another order than views", lambda: classify(VIEWS, TWISTED), "views.align"),
    Case("a view with fewer columns in predict", lambda: classify(VIEWS).predict(FEWER), "lacks 1 column"),
    Case("a bank of views on one table", lambda: classify(FRAME, kernels=KernelBank.per_view(Linear())), "Pass Views"),
    Case("groups of unknown columns", lambda: KernelBank.from_groups({"g": ["x9"]}).fit(FRAME), "unknown='drop'"),
    Case("an unknown way with gaps", lambda: KernelBank.auto(missing="mean"), "'error', 'mask', 'indicator'"),
    Case(
        "a sparse matrix and standardized columns",
        lambda: classify(sparse.csr_matrix(X), kernels=KernelBank.auto()),
        "standardize='robust' subtracts means",
    ),
    Case(
        "a sparse matrix with missing entries",
        lambda: classify(sparse.csr_matrix(put(X, (0, 0), np.nan))),
        "sparse X cannot be masked",
    ),
    Case(
        "a sparse matrix for a search of kernels",
        lambda: GaussianMKL().fit(sparse.csr_matrix(X), TARGET),
        r"sparse matrix.*pass X.toarray\(\)",
    ),
    Case("one row of a table as X", lambda: classify(MIXED).predict(MIXED.iloc[0]), r"rows.iloc\[\[0\]\]"),
    Case(
        "a kernel in place of a bank", lambda: classify(kernels=Gaussian(1.0)), r"KernelBank.joint\(Gaussian\(1.0\)\)"
    ),
    Case("X as a dict of columns", lambda: classify(dict(FRAME)), r"X is a dict.*pandas.DataFrame\(X\)"),
    Case("X as a dict of tables", lambda: classify({"left": FRAME}), r"X is a dict.*as views, Views\(X\)"),
    Case("no X", lambda: classify(None), "X is None, no table of samples. Pass a DataFrame"),
    Case("a path as X", lambda: classify("data.csv"), "X is 'data.csv', no table"),
    Case("complex numbers in X", lambda: classify(X + 0j), "Complex data not supported: X holds complex128"),
    Case(
        "a list of dicts as X",
        lambda: classify(FRAME.to_dict("records")),
        r"list of dicts\. Pass pandas.Data",
    ),
    Case(
        "a structured array as X",
        lambda: classify(FRAME.to_records()),
        r"structured array\. Pass pandas",
    ),
    Case("several labels a sample", lambda: classify(X, np.column_stack([Y, Y])), "MultiOutputClassifier"),
    Case(
        "NaN among several targets",
        lambda: regress(X, put(np.column_stack([TARGET, TARGET]), (3, 1), np.nan)),
        r"missing in 1 of 2 outputs: 1 \(1 of 40\)",
    ),
    Case("X as a generator", lambda: classify(row for row in X), r"only once. Pass list\(X\)"),
    Case("X with masked entries", lambda: classify(np.ma.masked_greater(X, 2.0)), "masked array with 3 masked values"),
    Case("an array of dates as X", lambda: classify(DATES[:, None]), r"X holds dates or durations \(datetime64\[D\]\)"),
    Case(
        "column names of several types", lambda: classify(FRAME.rename(columns={"age": 1})), "names are only supported"
    ),
    Case("two columns of one name", lambda: classify(pd.DataFrame(X, columns=list("aab"))), "Column names must differ"),
    Case("one sample", lambda: classify(X[:1], Y[:1]), "n_samples=1.*at least 2"),
    Case("more rows than targets", lambda: classify(X, Y[:-1]), "X has 40 samples but y has 39"),
    Case("no y", lambda: classify(y=None), "target y is None"),
    Case(
        "values of 1e200 without standardization",
        lambda: regress(1e200 * X, kernels=KernelBank([Gaussian(1.0)])),
        "squared distances.*overflow.*standardize=True",
    ),
    Case(
        "values of 1e150 in a linear kernel",
        lambda: regress(1e150 * X, kernels=KernelBank([Linear()])),
        "end of the range of float64",
    ),
    # targets
    Case("one class", lambda: classify(y=["yes"] * 40), "only one class, 'yes'"),
    Case("a second class of weight zero only", lambda: classify(weight=(Y == "yes").astype(float)), "only one class"),
    Case("numbers given to a classifier", lambda: classify(y=TARGET), "Unknown label type: continuous"),
    Case("dates as labels", lambda: classify(X, DATES), r"make them text: y.astype\(str\)"),
    Case("complex labels", lambda: classify(X, (Y == "yes") + 0j), "complex numbers .*make them text"),
    Case(
        "True and False among objects as labels",
        lambda: classify(X, pd.Series(Y == "yes").astype(object)),
        r"boolean labels .* after missing values.* y.astype\(bool\)",
    ),
    Case("labels of bytes", lambda: classify(y=Y.astype("S")), "labels represented as bytes is not supported"),
    Case("intervals as labels", lambda: classify(y=pd.cut(TARGET, 2)), "labels of type Interval.*Make them text"),
    Case("labels as a generator", lambda: classify(y=(label for label in Y)), r"Pass list\(y\)"),
    Case("labels as a dict", lambda: classify(y=dict(enumerate(Y))), "y is a dict"),
    Case("dates as regression targets", lambda: regress(y=DATES), "y holds dates"),
    Case("masked regression targets", lambda: regress(y=np.ma.masked_less(TARGET, -1.0)), "y is a masked array"),
    Case("NaN among numeric labels", lambda: classify(y=put(np.ones(40), 0, np.nan)), "y contains NaN"),
    Case("NaN among regression targets", lambda: regress(y=put(TARGET, 0, np.nan)), "y contains NaN"),
    Case("text as regression targets", lambda: regress(y=Y), "y must hold numbers.*use MKLClassifier"),
    Case("regression targets of 1e300", lambda: regress(y=1e300 * TARGET), "squared loss overflows.*Rescale"),
    # weights
    Case(
        "a negative sample weight",
        lambda: classify(weight=put(np.ones(40), 2, -1.0)),
        "sample_weight must not be negative",
    ),
    Case(
        "masked sample weights",
        lambda: regress(weight=np.ma.masked_equal(np.arange(40.0), 3.0)),
        "sample_weight is a masked array with 1 masked",
    ),
    Case("sample weights that are all zero", lambda: regress(weight=np.zeros(40)), "zero for every sample"),
    Case("sample weights of another length", lambda: regress(weight=np.ones(39)), r"shape \(40,\), got \(39,\)"),
    Case("sample weights of 1e200", lambda: regress(weight=np.full(40, 1e200)), "Rescale it"),
    Case("a class weight for an unknown class", lambda: classify(class_weight={"maybe": 2.0}), r"names \['maybe'\]"),
    Case("an unknown class_weight", lambda: classify(class_weight="even"), "None, 'balanced' or a dict"),
    Case(
        "kernel penalties of another length", lambda: precomputed(kernel_penalties=[1.0, 2.0]), "each of the 3 kernels"
    ),
    Case("a negative kernel penalty", lambda: precomputed(kernel_penalties=[1.0, -2.0, 1.0]), "must be positive"),
    Case(
        "a penalty for a kernel that is not there",
        lambda: precomputed(kernel_penalties={"near*": 2.0}),
        r"names 'near\*'",
    ),
    # parameters
    Case("an unknown loss", lambda: classify(loss="log"), "Unknown loss 'log'. Known losses: logistic, hinge"),
    Case("a regression loss in a classifier", lambda: classify(loss="huber"), "use MKLRegressor"),
    Case("a classification loss in a regressor", lambda: regress(loss="hinge"), "use MKLClassifier"),
    Case("an unknown penalty", lambda: classify(penalty="l2"), "Unknown penalty 'l2'. Known penalties: l1, elasticnet"),
    Case(
        "an unknown solver",
        lambda: classify(solver="newton"),
        "Unknown solver 'newton'. Known: 'auto'",
        cut="Known: 'auto',",
    ),
    Case(
        "a solver that cannot solve the problem",
        lambda: regress(penalty="lq", solver="working_set"),
        "cannot solve this problem.*Able: interior_point",
        IncompatibleError,
        cut="Able: interior_point,",
    ),
    Case("alpha=0", lambda: classify(alpha=0), "alpha must be a finite positive number, got 0"),
    Case("a negative alpha", lambda: regress(alpha=-0.1), "alpha must be a finite positive number, got -0.1"),
    Case(
        "alpha as text",
        lambda: regress(alpha="0.1"),
        "alpha must be a positive number, 'auto', or a positive multiple of the strength at which .* got '0.1'",
    ),
    Case("l1_ratio above 1", lambda: classify(penalty="elasticnet", l1_ratio=1.5), "l1_ratio.*at most 1"),
    Case("q=1", lambda: classify(penalty="lq", q=1.0), "1 < q <= 2.*penalty 'l1'"),
    Case("q above 2", lambda: classify(penalty="lq", q=3.0), "q must be.*at most 2"),
    Case("p below 1", lambda: classify(penalty="lp_ball", p=0.5), "p must"),
    Case("eta above 1", lambda: classify(penalty="elasticnet_ball", eta=2.0), "eta must"),
    Case(
        "a negative epsilon",
        lambda: regress(loss="epsilon_insensitive", loss_parameters={"epsilon": -1.0}),
        "epsilon must be",
    ),
    Case("delta=0", lambda: regress(loss="huber", loss_parameters={"delta": 0.0}), "delta must be"),
    Case(
        "tau=1", lambda: regress(loss="quantile", loss_parameters={"tau": 1.0}), "tau must be strictly between 0 and 1"
    ),
    Case(
        "a parameter that the penalty does not use", lambda: regress(p=0), "p must be a finite positive number, got 0"
    ),
    Case("fit_intercept=None", lambda: regress(fit_intercept=None), "fit_intercept must be True or False"),
    Case("tol=0", lambda: regress(tol=0.0), "tol must be a finite positive number"),
    Case("max_iter=0", lambda: regress(resources={"max_iter": 0}), "max_iter must be an integer of at least 1"),
    Case(
        "an unknown parameter of a solver",
        lambda: solve(GRAMS, TARGET, loss="squared", penalty="l1", alpha=1.0, tolerance=1e-3),
        "has no parameter 'tolerance'. It has: tol",
    ),
    Case("no strength", lambda: solve(GRAMS, TARGET, loss="squared", penalty="l1"), "needs a strength"),
    # memory
    Case(
        "a fit beyond the memory budget",
        lambda: classify(resources={"memory_budget": "10 kB"}),
        "memory budget is 10.0 kB",
        MemoryBudgetError,
    ),
    Case(
        "a memory budget that is no size",
        lambda: classify(resources={"memory_budget": "plenty"}),
        "memory_budget must be",
    ),
    # kernels and banks
    Case(
        "columns where kernels are expected",
        lambda: KernelBank.per_feature(FRAME.columns, widths=[1.0]),
        "got 'age'. Columns come after kernels",
    ),
    Case(
        "a kernel in the place of a list of kernels", lambda: KernelBank(Gaussian(1.0)), r"KernelBank.joint\(Gaussian"
    ),
    Case("groups without names", lambda: KernelBank.from_groups([["age"], ["dose"]]), "a mapping of names to columns"),
    Case("a kernel without columns in a product", lambda: Interaction(Gaussian(1.0)), r"sequence of \(kernel, columns"),
    Case("an empty bank", lambda: KernelBank([]), "not empty"),
    Case(
        "two kernels of one name", lambda: KernelBank([("k", Linear(), [0]), ("k", Linear(), [1])]), "names must differ"
    ),
    Case(
        "a list instead of a bank", lambda: classify(kernels=[("k", Linear(), [0])]), "becomes a bank with KernelBank"
    ),
    Case(
        "a kernel on an unknown column",
        lambda: classify(FRAME, kernels=KernelBank([("k", Linear(), ["height"])])),
        "Unknown column 'height'.*'age', 'dose', 'weight'",
    ),
    Case("a width of zero", lambda: Gaussian(0.0), "width must be a finite positive number"),
    Case(
        "an unknown normalization", lambda: KernelBank([Linear()], normalize="norm"), "normalize must be one of 'trace'"
    ),
    # new rows
    Case("another number of columns in predict", lambda: classify().predict(X[:, :2]), "X has 2 features.*expecting 3"),
    Case(
        "a missing column in predict",
        lambda: classify(FRAME).predict(FRAME[["dose", "weight"]]),
        "seen at fit time, yet now missing.*age.*read only",
    ),
    Case(
        "columns in another order in predict",
        lambda: classify(FRAME).predict(FRAME[["dose", "age", "weight"]]),
        "must be in the same order",
    ),
    Case("NaN in predict", lambda: classify().predict(put(X, (0, 0), np.nan)), "contains NaN"),
    # precomputed kernels
    Case(
        "kernels that are not square",
        lambda: precomputed(GRAMS[:, :, :-1]),
        r"must have shape \(n_kernels, n_samples, n_s",
    ),
    Case("one (N, N) matrix", lambda: precomputed(GRAMS[0]), r"For one kernel pass kernels\[None\]"),
    Case("kernels of different shapes", lambda: precomputed([np.eye(40), np.eye(39)]), "equal shapes"),
    Case(
        "a kernel that is not symmetric",
        lambda: precomputed(put(GRAMS, (1, 0, 2), 5.0)),
        r"kernels\[1\] is not symmetric: entry \[0, 2\] is 5",
        NotPSDError,
    ),
    Case(
        "a kernel with a negative eigenvalue",
        lambda: precomputed(GRAMS - 0.5 * np.eye(40)),
        'smallest eigenvalue is -0.5.*psd="clip"',
        NotPSDError,
    ),
    Case(
        "a kernel with masked entries",
        lambda: precomputed(np.ma.masked_greater(GRAMS, 5.0)),
        "kernels is a masked array",
    ),
    Case("a kernel with a NaN", lambda: precomputed(put(GRAMS, (0, 1, 1), np.nan)), r"kernels\[0\] contains 1 NaN"),
    Case("kernels of 1e300", lambda: precomputed(1e300 * GRAMS), "end of the range of float64"),
    Case("kernels and y of different lengths", lambda: precomputed(y=Y[:-1]), "X has 40 samples but y has 39"),
    Case(
        "repeated names of kernels", lambda: KernelStack(GRAMS, names=["a", "b", "a"]), r"\['a'\] appear more than once"
    ),
    Case(
        "new kernels with too many columns",
        lambda: precomputed().predict(np.ones((3, 5, 41))),
        "41 columns.*fitted on 40",
    ),
    Case(
        "another number of kernels in predict",
        lambda: precomputed().predict(np.ones((2, 5, 40))),
        "fitted on 3 kernels",
    ),
    Case("a stack that was not fitted", lambda: precomputed().predict(KernelStack(2 * GRAMS)), "not the KernelStack"),
    Case(
        "kernels of new samples among themselves",
        lambda: precomputed(KernelStack(GRAMS)[:30], Y[:30]).predict(KernelStack(GRAMS[:, 30:, 30:])),
        "KernelStack",
    ),
]


def message_of(case: Case) -> str:
    """Run a case and return the message in one line."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            case.attempt()
        except case.error as error:
            return " ".join(str(error).split())
    raise AssertionError(f"{case.name}: nothing was refused.")


def shortened(case: Case) -> str:
    """Return the message as the page shows it."""
    message = message_of(case)
    return message.split(case.cut)[0] + case.cut + " ..." if case.cut else message


def page() -> str:
    """Return docs/bad_inputs.md as it must be."""
    rows = [(case.name, f"`{case.error.__name__}`", shortened(case).replace("|", "\\|")) for case in CASES]
    return HEADER + "".join(f"| {' | '.join(row)} |\n" for row in rows)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_message_says_what_is_wrong(case: Case) -> None:
    message = message_of(case)
    assert re.search(case.says, message), message


def test_every_error_is_an_invalid_input_error() -> None:
    assert all(issubclass(case.error, InvalidInputError) and issubclass(case.error, ValueError) for case in CASES)
    assert len({case.name for case in CASES}) == len(CASES)


def test_the_page_in_the_documentation_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python docs/_generate_bad_inputs.py"


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
@pytest.mark.parametrize(
    "hold",
    [np.asmatrix, np.ma.masked_array, np.ndarray.tolist, lambda X: X.astype(object), pd.DataFrame, np.asfortranarray],
    ids=["matrix", "nothing masked", "lists", "objects", "numbered columns", "Fortran order"],
)
def test_other_ways_to_hold_the_same_numbers_change_nothing(hold: Callable[[Any], Any]) -> None:
    given = hold(X)
    np.testing.assert_allclose(classify(given).decision_function(given), classify().decision_function(X), rtol=1e-12)


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_a_matrix_of_targets_is_two_dimensional() -> None:
    assert regress(y=np.asmatrix(TARGET).T).predict(X).shape == (40, 1)


@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1e150, 1e300])
def test_extreme_units_of_columns_change_nothing(scale: float) -> None:
    expected = classify().decision_function(X)
    np.testing.assert_allclose(classify(scale * X).decision_function(scale * X), expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_extreme_kernels_change_nothing_once_normalized(scale: float) -> None:
    model = MKLClassifier(PrecomputedBank(), alpha=0.003, tol=1e-9)
    expected = model.fit(GRAMS, Y).decision_function(GRAMS)
    np.testing.assert_allclose(model.fit(scale * GRAMS, Y).decision_function(scale * GRAMS), expected, rtol=1e-6)


def test_zero_kernels_and_zero_columns_are_harmless() -> None:
    model = precomputed(put(GRAMS, 1, 0.0), alpha=0.02)
    assert model.kernel_weights_[1] == 0
    assert classify(put(X, (slice(None), 2), 0.0)).score(put(X, (slice(None), 2), 0.0), Y) > 0.8


def test_an_indefinite_kernel_can_be_clipped() -> None:
    clipped = KernelStack(GRAMS - 0.1 * np.eye(40), psd="clip")
    assert precomputed(clipped, alpha=0.02).dual_gap_ <= 1e-4


def test_gaps_of_targets_are_named_with_the_way_out() -> None:
    y = pd.DataFrame({"kd": [1.0, np.nan, 2.0], "ic50": [1.0, 2.0, 3.0]})
    with pytest.raises(InvalidInputError, match=r"NaN: .* 1 of 2 outputs: 'kd' \(1 of 3\)\. Fit each"):
        MKLRegressor().fit(np.eye(3), y)


@pytest.mark.parametrize(
    ("estimator", "y", "words"),
    [
        (MKLClassifierCV(cv=25), Y, r"cv=25 makes no folds of these 40 samples, of which the largest class has \d+: "),
        (MKLClassifierCV(cv=50), Y, r"cv=50 makes no folds of these 40 samples.*Take fewer folds, at most \d+"),
        (MKLRegressorCV(cv=41), TARGET, "cv=41 makes no folds of these 40 samples: .*at most 40"),
        (MKLRegressorCV(cv=1), TARGET, r"cv=1 makes no folds .* n_splits=2 or more, got n_splits=1\.$"),
        (MKLRegressorCV(cv="k"), TARGET, r"cv='k' makes no folds of these 40 samples: Expected .* Got k\.$"),
    ],
)
def test_more_folds_than_samples_are_refused_in_words(estimator: Any, y: Any, words: str) -> None:
    y = np.where(np.arange(40) % 4 == 0, "yes", np.where(np.arange(40) % 4 == 1, "no", "so")) if y is Y else y
    with pytest.raises(InvalidInputError, match=words):
        estimator.fit(X, y)


@pytest.mark.filterwarnings("ignore:No kernel was selected:UserWarning")  # the labels are unrelated to X
def test_small_tables_get_as_many_folds_as_they_allow() -> None:
    y = np.array(["no", "yes"] * 4)
    assert MKLClassifierCV().fit(X[:8], y).n_folds_ == 4
    assert MKLRegressorCV().fit(X[:4], TARGET[:4]).n_folds_ == 4
    with pytest.raises(InvalidInputError, match="cv=5 makes no folds of these 8 samples"):
        MKLClassifierCV(cv=5).fit(X[:8], y)
    with pytest.raises(InvalidInputError, match=r"each class\. Take more samples"):
        MKLClassifierCV().fit(X[:2], y[:2])


@pytest.mark.filterwarnings("ignore:The least populated class:UserWarning")
def test_a_class_of_one_sample_is_told_of() -> None:
    with pytest.raises(InvalidInputError, match="from, 'no', of 2 in y: the other one has a single sample"):
        MKLClassifierCV().fit(X, np.where(np.arange(len(X)) == 3, "yes", "no"))


def test_classes_of_fewer_samples_than_folds_are_named() -> None:
    y = np.array(["a"] * 20 + ["b"] * 19 + ["c"])
    with pytest.warns(UserWarning, match=r"has 1 of 40 samples, fewer than the 3 folds: 'c'\."):
        splits_of(3, y, classifier=True)


def test_a_fold_of_one_training_sample_is_named() -> None:
    with pytest.raises(InvalidInputError, match="Fold 1 of 2 leaves 1 of 2 training samples"):
        MKLRegressorCV(cv=2).fit(X[:2], TARGET[:2])


@pytest.mark.parametrize("given", [np.array([0.0, 1.0, 1.0]), {"age*": 0.0}])
def test_a_penalty_of_zero_leads_to_kernels_without_penalty(given: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"without penalty, pass penalty=\{'age.*': None\}"):
        MKLRegressor(KernelBank.per_feature(Linear()), kernel_penalties=given).fit(FRAME, TARGET)


def test_kernels_that_are_zero_are_not_called_constant_only() -> None:
    with pytest.warns(UserWarning, match=r"or zero \(k\(x, x\) = 0\)"):
        MKLRegressor("precomputed").fit(np.zeros((1, 40, 40)), TARGET)


def test_folds_by_groups_ask_for_the_groups() -> None:
    y = np.where(np.arange(40) % 2, "yes", "no")
    with pytest.raises(InvalidInputError, match="splits by groups, and none were given: pass groups") as caught:
        MKLClassifierCV(cv=GroupKFold(2)).fit(X, y)
    assert "Take fewer folds" not in str(caught.value)


def test_a_fold_of_one_class_is_named_with_a_way_out() -> None:
    y = np.repeat(["no", "yes"], 20)  # sorted, so that half of the rows are one class
    words = r"Fold 1 of 2 leaves one class to learn from, 'yes', of 2 in y: .*StratifiedKFold"
    with pytest.raises(InvalidInputError, match=words):
        MKLClassifierCV(cv=KFold(2)).fit(X, y)
    with pytest.raises(InvalidInputError, match=words):
        nested_cross_validation(MKLClassifier(), X, y, cv=KFold(2))
    with pytest.raises(InvalidInputError, match=words):
        compare(MKLClassifier(), X, y, cv=KFold(2))


@pytest.mark.parametrize(
    "attempt",
    [
        lambda y, cv: MKLClassifierCV(cv=cv).fit(X, y),
        lambda y, cv: nested_cross_validation(MKLClassifier(), X, y, cv=cv),
        lambda y, cv: compare(MKLClassifier(), X, y, cv=cv),
        lambda y, cv: report(MKLClassifier(alpha=0.1).fit(X, y), X, y, "never.html", cv=cv),
    ],
    ids=["search", "nested", "compare", "report"],
)
def test_classes_in_the_order_of_time_are_named_with_a_way_out(attempt: Callable[[Any, Any], Any]) -> None:
    y = np.repeat(["no", "yes"], 20)
    with pytest.raises(InvalidInputError, match=r"'no', of 2 in y: it learns from the earliest rows.*test_size"):
        attempt(y, TimeSeriesSplit(3))


def test_classes_that_rows_to_learn_from_lack_are_told_of() -> None:
    y = np.repeat(list("abcd"), 10)
    with pytest.warns(UserWarning, match="2 of 2 folds hold out classes absent from their training rows: 'c', 'd'"):
        scores = nested_cross_validation(MKLClassifier(alpha=0.1), X, y, cv=TimeSeriesSplit(2, test_size=10)).scores
    assert scores.tolist() == [0.0, 0.0]


def test_a_scorer_that_a_fold_cannot_have_is_told_of() -> None:
    y = np.repeat(["no", "yes"], 20)
    with pytest.raises(InvalidInputError, match=r"scoring failed on the 10 rows.*StratifiedKFold"):
        MKLClassifierCV(cv=KFold(4), n_alphas=3, scoring="neg_log_loss").fit(X, y)
    with (
        pytest.warns(UndefinedMetricWarning),
        pytest.raises(InvalidInputError, match=r"it is not defined in 4 of 4 folds.*StratifiedKFold"),
    ):
        MKLClassifierCV(cv=KFold(4), n_alphas=3, scoring="roc_auc").fit(X, y)


def test_a_number_of_folds_keeps_groups_whole() -> None:
    y, groups = np.where(np.arange(40) % 2, "yes", "no"), np.repeat(list("abcdefgh"), 5)
    for classifier, target in [(True, y), (False, TARGET)]:
        for cv in (None, 3):
            folds = splits_of(cv, target, groups, classifier=classifier)
            assert len(folds) == (cv or 5)
            assert sorted(np.concatenate([test for _, test in folds])) == list(range(40))
            assert not any(set(groups[train]) & set(groups[test]) for train, test in folds)
    assert len(splits_of(None, TARGET, groups[:15].repeat(3)[:40] > "a", classifier=False)) == 2


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        (np.arange(40) % 4, "cv=5 makes no folds of these 40 samples, of which there are 4 groups: .*at most 4"),
        (np.arange(39), r"groups must hold one label for each of the 40 samples, got shape \(39,\)"),
        ([None, *range(39)], "groups is missing for 1 of 40 samples"),
        (np.where(Y == "yes", "a", "b"), "one class to learn from, '.*', of 2 in y: its groups have no other"),
    ],
)
def test_groups_that_make_no_folds_are_refused_in_words(groups: Any, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        MKLClassifierCV(cv=2 if "other" in words else 5).fit(X, Y, groups=groups)


def test_events_need_not_differ_in_a_fold() -> None:
    events = np.arange(40) < 20
    folds = splits_of(KFold(2), events, classifier=True, events=True)
    assert [events[train].any() for train, _ in folds] == [False, True]
