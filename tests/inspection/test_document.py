"""The report is one file that needs no network, escapes every text, and states what can be recomputed."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.metrics import accuracy_score, balanced_accuracy_score, mean_absolute_error, r2_score, roc_auc_score

from manykernels import (
    Gaussian,
    GaussianMKL,
    InvalidInputError,
    KernelBank,
    Linear,
    MKLClassifier,
    MKLClassifierCV,
    MKLRegressor,
    MKLRegressorCV,
    PolynomialMKL,
    report,
)
from manykernels.inspection import kernel_tests, plot_overview, summary_html
from manykernels.inspection.evidence.chi_squares import cauchy_combination
from manykernels.inspection.reports import document, scores
from manykernels.inspection.reports.evaluation import BOOSTING, CONSTANT, ONE_KERNEL, SUM, Categories
from manykernels.inspection.reports.report import again_words, comparison_words, number, percent

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FORBIDDEN_TAGS = {"script", "iframe", "object", "embed", "link", "img", "base", "form"}
EVIL = "<script>alert(1)</script> \"'&"


class Page(HTMLParser):
    """Tags, attributes and visible text of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.words: list[str] = []
        self.feed(html)
        self.close()
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def table(n: int = 60, p: int = 4, seed: int = 0) -> pd.DataFrame:
    """Return columns of normal numbers."""
    return pd.DataFrame(np.random.default_rng(seed).normal(size=(n, p)), columns=[f"c{j}" for j in range(p)])


def labels(X: pd.DataFrame, n_classes: int = 2) -> np.ndarray:
    """Return classes that depend on the first two columns."""
    score = X.iloc[:, 0] ** 2 + X.iloc[:, 1]
    return np.array([f"class {k}" for k in pd.qcut(score, n_classes, labels=False)])


def _classes(model: Any, n_classes: int = 2) -> tuple[Any, Any, Any]:
    X = table()
    y = labels(X, n_classes)
    return model.fit(X, y), X, y


def _numbers(model: Any, n_outputs: int = 1) -> tuple[Any, Any, Any]:
    X = table()
    y = np.column_stack([np.sin(2 * X["c1"]), X["c0"] ** 2])[:, :n_outputs]
    y = y if n_outputs > 1 else y[:, 0]
    return model.fit(X, y), X, y


def _precomputed() -> tuple[Any, Any, Any]:
    X = table().to_numpy()
    kernels = np.stack([Gaussian(1.0)(X[:, [j]]) for j in range(3)])
    y = X[:, 0] > 0
    return MKLClassifier("precomputed", alpha=0.01).fit(kernels, y), kernels, y


MAKERS: dict[str, Callable[[], tuple[Any, Any, Any]]] = {
    "classes": lambda: _classes(MKLClassifier(alpha=0.01)),
    "many classes": lambda: _classes(MKLClassifier(alpha=0.005), 4),
    "numbers": lambda: _numbers(MKLRegressor()),
    "many classes, one set of weights": lambda: _classes(MKLClassifier(alpha=0.005, outputs="shared"), 4),
    "outputs": lambda: _numbers(MKLRegressor(), 2),
    "classes, chosen": lambda: _classes(MKLClassifierCV(cv=3, penalty="l1", n_alphas=4)),
    "numbers, chosen": lambda: _numbers(MKLRegressorCV(cv=3, n_alphas=4, penalty="elasticnet", l1_ratios=[0.3, 0.8])),
    "gaussian": lambda: _numbers(GaussianMKL(tol=0.05, random_state=0)),
    "gaussian classes": lambda: _classes(GaussianMKL("logistic", tol=0.05, random_state=0)),
    "polynomial": lambda: _numbers(PolynomialMKL(2, p=1.0, n_steps=20, tol=0.05, random_state=0)),
    "precomputed": _precomputed,
}


@cache
def made(name: str) -> tuple[Any, Any, Any]:
    """Return a fitted model with its rows and its target; reports change none of them."""
    return MAKERS[name]()


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """Return what makes the report of a model, once."""
    folder = tmp_path_factory.mktemp("reports")

    @cache
    def html(name: str) -> str:
        return report(*made(name), folder / "r.html", cv=2, n_draws=50).read_text(encoding="utf-8")

    return html


@pytest.mark.filterwarnings("ignore:The best strength")
@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", MAKERS)
def test_every_estimator_has_a_report(name: str, told: Callable[[str], str]) -> None:
    (model, _, y), html = made(name), told(name)
    page = Page(html)
    for heading in ("Question", "Data and views", "Accuracy", "Selection and importance", "Certificate"):
        assert heading in page.text
    assert "Warnings" in page.text
    assert type(model).__name__ in page.text
    assert f"{len(y):,}" in page.text
    assert FORBIDDEN_TAGS.isdisjoint(page.tags)
    assert not re.search(r"(https?:)?//[a-z]", html)
    assert all(not key.startswith("on") and key not in ("src", "href") for key, _ in page.attributes)
    assert ("Confusion matrix" in page.text) == hasattr(model, "classes_")
    assert len(html) < 200_000


@pytest.fixture
def hostile(tmp_path: Path) -> tuple[str, Page]:
    """Return a report in which every name is an attack."""
    X = table(40, 3)
    X.columns = [EVIL, "</title><style>*{display:none}", "{{ 7 * 191 }}{% raw %}"]
    y = pd.Series(np.where(X.iloc[:, 0] > 0, "<img src=x onerror=alert(2)>", "ok"), name=EVIL)
    bank = KernelBank([(EVIL, Linear(), [EVIL]), ("</td></table>", Gaussian(1.0), None)], standardize=True)
    model = MKLClassifier(bank, alpha=0.01, class_weight={"<img src=x onerror=alert(2)>": 2.0, "ok": 1.0}).fit(X, y)
    path = report(model, X, y, tmp_path / "r.html", cv=2, n_draws=20, title=EVIL, question=f"Is it {EVIL}?")
    html = path.read_text(encoding="utf-8")
    return html, Page(html)


def test_every_text_is_escaped(hostile: tuple[str, Page]) -> None:
    html, page = hostile
    assert FORBIDDEN_TAGS.isdisjoint(page.tags)
    assert page.tags.count("title") == page.tags.count("style") == 1
    assert page.tags.count("table") == html.count("</table>")
    assert page.text.count(EVIL) >= 3
    assert "{{ 7 * 191 }}" in page.text
    assert "1337" not in page.text


def test_the_card_of_a_notebook_escapes_too() -> None:
    X = table(40, 2)
    X.columns = [EVIL, "b"]
    model = MKLClassifier(alpha=0.01)
    assert "not fitted" in summary_html(model)
    card = summary_html(model.fit(X, X[EVIL] > 0))
    page = Page(card)
    assert FORBIDDEN_TAGS.isdisjoint(page.tags)
    assert EVIL in page.text
    assert f"{len(model.weights_frame())} of {len(model.kernel_names_)}" in page.text
    assert page.tags.count("div") == card.count("</div>")


def test_control_and_direction_characters_are_written_as_escapes(tmp_path: Path) -> None:
    """A right-to-left mark in a name would turn what follows around, an escape sequence would obey a terminal."""
    X, foreign = table(40, 2), ("\x1b[31m", "\u202e", "\u200b", "\x07", "\u2066")
    X.columns = ["do\x1b[31mse", "ag\u202ee"]
    y = pd.Series(np.where(X.iloc[:, 0] > 0, "y\u200bes", "n\x07o"), name="il\u2066l")
    model = MKLClassifier(alpha=0.01).fit(X, y)
    page = report(model, X, y, tmp_path / "r.html", cv=2, n_draws=20).read_text(encoding="utf-8")
    plot_overview(model).savefig(tmp_path / "r.svg")
    for text in (page, summary_html(model), (tmp_path / "r.svg").read_text(encoding="utf-8")):
        assert not [sign for sign in foreign if sign in text]
        assert "ag\\u202ee" in text


@pytest.mark.filterwarnings("ignore:No kernel was selected")
@pytest.mark.filterwarnings("ignore:Solver")
def test_the_card_tells_what_is_wrong() -> None:
    X = table(40, 2)
    assert "No kernel was selected" in summary_html(MKLClassifier(alpha=100.0).fit(X, X["c0"] > 0))
    assert "not finished (max_iter)" in summary_html(
        MKLClassifier(solver="interior_point", resources={"max_iter": 1}, tol=1e-9).fit(X, X["c0"] > 0)
    )


@pytest.mark.usefixtures("without_pictures")
def test_columns_are_summarized(tmp_path: Path) -> None:
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 200)), columns=[f"probe_{j:05d}" for j in range(200)])
    y = X["probe_00007"] + X["probe_00003"]
    bank = KernelBank.per_feature(Linear(), normalize="mean_diagonal")
    model = MKLRegressor(bank, alpha=0.001, penalty="elasticnet").fit(X, y)
    html = report(model, X, y, tmp_path / "r.html", cv=2, n_draws=20, baselines=False).read_text(encoding="utf-8")
    assert len(set(re.findall(r"probe_\d{5}", html))) < 50
    assert "200 (200 float64)" in html
    assert "and 192 more" in html
    assert len(html) < 100_000


# --- what is stated is true ---


def test_scores_and_intervals_are_those_of_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    truth, guess = rng.integers(0, 3, 80), rng.integers(0, 3, 80)
    y, f = rng.normal(size=(80, 2)), rng.normal(size=(80, 2))
    draws = scores.Draws(80, 60, 0)
    rows = [np.repeat(np.arange(80), counts.astype(int)) for counts in draws.counts]
    assert all(len(row) == 80 for row in rows)
    for k in (0, 5, 60):
        row = rows[k]
        assert scores.accuracies(draws.counts, truth, guess)[k] == pytest.approx(accuracy_score(truth[row], guess[row]))
        found = scores.balanced_accuracies(draws.counts, truth, guess)[k]
        assert found == pytest.approx(balanced_accuracy_score(truth[row], guess[row]))
        assert scores.r2_scores(draws.counts, y, f)[k] == pytest.approx(r2_score(y[row], f[row]))
        assert scores.mean_absolute_errors(draws.counts, y, f)[k] == pytest.approx(mean_absolute_error(y[row], f[row]))
        for ranks in (f[:, 0], f[:, 0].round()):  # of which many tie
            area = scores.areas_under_curve(draws.counts, truth == 1, ranks)[k]
            assert area == pytest.approx(roc_auc_score(truth[row] == 1, ranks[row]), rel=1e-12)
    never = scores.areas_under_curve(draws.counts, np.zeros(80, bool), f[:, 0])
    assert np.isnan(never).all()


def test_draws_of_one_value_have_no_share_of_its_spread() -> None:
    draws, y = scores.Draws(4, 200, 0), np.array([0.1, 0.7, 0.3, 0.3])
    alike = np.array([len(set(y[counts > 0])) == 1 for counts in draws.counts])
    values = scores.r2_scores(draws.counts, y, y + 0.1)
    assert 0 < alike.sum() < 100
    np.testing.assert_array_equal(np.isnan(values), alike)
    assert np.isnan(values - values)[alike].all()  # as rivals are compared, without a warning
    assert draws.score("R2", values).low > -100


def test_an_interval_covers_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    inside = 0
    for seed in range(200):
        correct = rng.random(150) < 0.8
        draws = scores.Draws(150, 200, seed)
        score = draws.score("accuracy", scores.accuracies(draws.counts, np.ones(150, bool), correct))
        inside += score.low <= 0.8 <= score.high
    # 95 of 100 are promised; 4.5 standard errors of 200 trials are 7 of 100.
    assert inside >= 0.88 * 200


@pytest.mark.usefixtures("without_pictures")
def test_held_out_scores_are_those_of_the_model(tmp_path: Path) -> None:
    X = table(90)
    y = labels(X)
    model = MKLClassifier(alpha=0.01).fit(X[:50], y[:50])
    path = report(model, X[:50], y[:50], tmp_path / "r.html", X_test=X[50:], y_test=y[50:], n_draws=50)
    page = Page(path.read_text(encoding="utf-8"))
    assert f"accuracy {model.score(X[50:], y[50:]):.3f}" in page.text
    assert "Scored on 40 rows that the model was not fitted on. Intervals" in page.text
    other = Page(report(model, X[50:], y[50:], path, cv=2, n_draws=50).read_text(encoding="utf-8"))
    assert "Simpler models learned from folds of these rows" in other.text
    assert f"accuracy {model.score(X[50:], y[50:]):.3f}" in other.text


@pytest.mark.usefixtures("without_pictures")
def test_a_score_that_is_not_defined_is_no_number(tmp_path: Path) -> None:
    """R2 of rows whose targets are all the same: neither the score, nor an interval, nor a comparison."""
    X = table()
    model = MKLRegressor(alpha=0.1).fit(X, X.iloc[:, 0])
    page = Page(report(model, X[:10], np.ones(10), path=tmp_path / "report.html").read_text(encoding="utf-8"))
    assert "R2 not defined no interval" in page.text
    assert "not compared with the best constant: R2 is not defined" in page.text
    assert not re.search(r"\bnan\b", page.text)


@pytest.mark.nightly
@pytest.mark.usefixtures("without_pictures")
def test_rows_of_the_fit_are_predicted_by_refits(tmp_path: Path) -> None:
    # Labels that are chance: a score on the training rows would be far above one half.
    X = table(80, 6)
    y = np.random.default_rng(1).permutation(np.repeat(["a", "b"], 40))
    model = MKLClassifier(alpha=1e-4).fit(X, y)
    assert model.score(X, y) > 0.9
    text = Page(report(model, X, y, tmp_path / "r.html", cv=3, n_draws=50).read_text(encoding="utf-8")).text
    found = float(re.search(r"score value interval accuracy (\d\.\d+)", text)[1])
    assert found < 0.7
    assert "Not better than a constant" in text
    seen = Page(report(model, X, y, tmp_path / "r.html", cv=None).read_text(encoding="utf-8")).text
    assert "Evaluated on the training rows" in seen
    assert f"accuracy {model.score(X, y):.3f}" in seen
    assert CONSTANT not in seen


def test_simpler_models_are_compared_or_left_out_with_a_reason(told: Callable[[str], str]) -> None:
    text = Page(told("classes")).text
    assert all(name in text for name in (CONSTANT, SUM, ONE_KERNEL["classification"]))
    assert "Left out" not in text
    text = Page(told("gaussian")).text
    assert f"Not compared: {SUM}, since the model finds its kernels while it learns" in text
    text = Page(told("precomputed")).text
    assert f"Not compared: {ONE_KERNEL['classification']}, since the data are kernels" in text
    assert f"better than the {CONSTANT}" in text


@pytest.mark.nightly
@pytest.mark.usefixtures("without_pictures")
def test_the_rival_of_a_table_with_categories_is_gradient_boosting(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = table(150, 2).assign(
        kind=rng.choice(list("abc"), 150),
        code=pd.Categorical(rng.integers(0, 400, 150).astype(str)),
        day=pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, 150), unit="D"),
    )
    X.loc[::7, "c0"] = np.nan
    y = np.where((X["kind"] == "a") ^ (X["c1"] > 0), "yes", "no")
    model = MKLClassifier(KernelBank.auto(missing="indicator"), tol=1e-3).fit(X, y)
    text = Page(report(model, X, y, tmp_path / "r.html", cv=3, n_draws=20).read_text(encoding="utf-8")).text
    found = re.search(rf"{re.escape(BOOSTING)} (\d\.\d+)", text)
    assert found is not None
    assert float(found[1]) > 0.7  # the exclusive or of a category and a number is easy for trees
    assert "Left out" not in text
    numbers = Categories().fit(X).transform(X)
    assert numbers["kind"].dtype == "category"
    other = X.assign(code=X["code"].astype(int))  # levels match by text, as in the model
    pd.testing.assert_frame_equal(Categories().fit(X).transform(other), numbers)
    assert len(numbers["code"].cat.categories) <= 254
    assert numbers["day"].diff().iloc[1] == (X["day"].diff().iloc[1]).total_seconds()


@pytest.mark.usefixtures("without_pictures")
@pytest.mark.filterwarnings("ignore:Solver")
def test_what_to_distrust_is_told(tmp_path: Path) -> None:
    X = pd.concat([table(40), table(40)[:10]], ignore_index=True)
    y = np.where(X["c0"].rank() > 45, "rare", "common")
    model = MKLClassifier(alpha=0.01, solver="interior_point", resources={"max_iter": 1}, tol=1e-10).fit(X, y)
    text = Page(report(model, X, y, tmp_path / "r.html", cv=2, n_draws=50).read_text(encoding="utf-8")).text
    for title in ("The solver did not finish", "Refits did not finish", "Few samples", "A class with few samples"):
        assert title in text
    assert "10 of 50 rows repeat another one" in text
    assert "Classes of unequal size" in text
    assert "Not finished: the solver stopped because it reached the largest number of iterations" in text


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:The best strength")
def test_a_strength_at_the_edge_is_told(tmp_path: Path) -> None:
    X = table()
    y = np.sin(2 * X["c1"])
    edge = MKLRegressorCV(cv=2, alphas=[10.0, 1.0, 0.3]).fit(X, y)
    text = Page(report(edge, X, y, tmp_path / "r.html", cv=2, n_draws=20).read_text(encoding="utf-8")).text
    assert "alpha = 0.3 is the smallest that was tried; a smaller one may be better" in text
    assert "Choice by cross-validation" in text


def test_the_gap_is_put_in_words() -> None:
    assert [number(value) for value in (-0.0001, 0.25, 12345.6)] == ["0.000", "0.250", "1.235e+04"]
    assert [percent(share) for share in (4e-5, 0.012, 0.5)] == ["0.004 %", "1.2 %", "50 %"]
    assert again_words([5, 5, 2, 0], 5).startswith(
        "2 of the 4 selected kernels were selected again in every one of 5 refits, 1 in none."
    )
    assert again_words([None], 5) == ""
    better = scores.Score("difference", 0.1, 0.05, 0.2)
    assert comparison_words("sum", better, "R2") == "better than the sum by 0.100 in R2 (+0.050 to +0.200)"
    equal = scores.Score("difference", -1e-5, -0.05, 0.04)
    assert comparison_words("sum", equal, "R2").endswith("these rows: difference +0.000 (-0.050 to +0.040)")


def test_the_confusion_matrix_counts() -> None:
    truth, guess = np.array(["a", "b", "a", "c"]), np.array(["a", "a", "a", "c"])
    found = document.confusion(truth, guess)
    assert found.labels == ["a", "b", "c"]
    assert found.counts == [[2, 0, 0], [1, 0, 0], [0, 0, 1]]
    many = document.confusion(np.arange(50), np.r_[1, 0, 2:50])
    assert len(many.labels) == 12
    assert {"0", "1"} <= set(many.labels)
    assert many.n_left_out == 38


# --- refusals ---


def test_data_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    model, X, y = made("classes")
    with pytest.raises(InvalidInputError, match="X and y differ in length: 60 rows and 59 targets"):
        report(model, X, y[:-1], tmp_path / "r.html")
    with pytest.raises(InvalidInputError, match="Give both X_test and y_test, or neither"):
        report(model, X, y, tmp_path / "r.html", X_test=X)
    assert not (tmp_path / "r.html").exists()


def test_without_jinja_one_learns_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ImportError, match=re.escape("python -m pip install 'manykernels[report]'")):
        report(None, None, None)


# --- how it is laid out, where no browser is at hand ---


def _luminance(color: str) -> float:
    """Return the relative luminance of a color, as the Web Content Accessibility Guidelines define it."""
    parts = np.array([int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def _contrast(one: str, other: str) -> float:
    low, high = sorted(map(_luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


def test_text_and_curves_stand_out_in_light_and_dark(told: Callable[[str], str]) -> None:
    """Contrasts that the guidelines ask for: 4.5 of text, 3 of lines and marks."""
    blocks = re.findall(r":root \{(.*?)\}", told("classes"), re.DOTALL)
    schemes = [dict(re.findall(r"--(\w+): (#[0-9a-fA-F]{6})", block)) for block in blocks]
    assert len(schemes) == 3  # light, dark, print
    assert {frozenset(colors) for colors in schemes} == {frozenset(schemes[0])}
    for colors in schemes:
        for ground in ("face", "card", "warn", "bad"):
            assert min(_contrast(colors[ink], colors[ground]) for ink in ("text", "muted")) > 4.5
        marks = {"blue", "orange", "badline"}
        assert min(_contrast(colors[name], colors["face"]) for name in marks) > 3
    assert _contrast("#000000", "#ffffff") == pytest.approx(21)


@pytest.mark.parametrize("name", ["classes", "many classes", "outputs"])
def test_nothing_is_wider_than_a_narrow_screen(name: str, told: Callable[[str], str]) -> None:
    """At 400 pixels: no fixed width beyond them, and tables of many columns scroll by themselves."""
    html = told(name)
    style = html.split("<style>")[1].split("</style>")[0]
    fixed = re.findall(r"(?<![-\w])(?:min-)?width: ?([\d.]+)(px|rem|em)", style)
    assert all(float(size) * (1 if unit == "px" else 16) < 200 for size, unit in fixed), fixed
    assert "overflow-wrap: anywhere" in re.search(r"th, td \{(.*?)\}", style, re.DOTALL)[1]  # type: ignore[index]
    assert re.search(r"figure svg \{ width: 100%", style)
    scrolling = re.findall(r'<div class="scroll"><table.*?</table>', html, re.DOTALL)
    rest = re.findall(
        r"<table.*?</table>", re.sub(r'<div class="scroll"><table.*?</table>', "", html, flags=re.DOTALL), re.DOTALL
    )
    rows = [row for found in rest for row in re.findall(r"<tr.*?</tr>", found, re.DOTALL)]
    assert rows
    assert max(len(re.findall(r"<t[hd]", row)) for row in rows) <= 4
    assert bool(scrolling) == ("classes" in name)


# --- a browser ---


def _browser() -> str | None:
    return next((found for found in map(shutil.which, BROWSERS) if found), None)


@pytest.mark.skipif(_browser() is None, reason="needs Chromium")
def test_a_browser_lays_it_out_without_sideways_scrolling(tmp_path: Path) -> None:
    """Two reports in frames of two widths each, since windows have a smallest width."""
    frames = ""
    for name in ("many classes", "outputs"):
        model, X, y = made(name)
        X = X.rename(columns={"c0": "a_rather_long_name_of_a_column_without_any_space_" * 3})
        page = report(clone(model).fit(X, y), X, y, tmp_path / "r.html", cv=2, n_draws=20)
        # Without the policy, which lets the page run nothing.
        source = re.sub(r"<meta http-equiv[^>]*>", "", page.read_text(encoding="utf-8"))
        measure = "<script>parent.postMessage([innerWidth, document.documentElement.scrollWidth], '*')</script></body>"
        (tmp_path / f"{name}.html").write_text(source.replace("</body>", measure), encoding="utf-8")
        for width in (1280, 400):
            frames += f"<iframe src='{name}.html' style='width:{width}px;height:900px;border:0'></iframe>"
    listen = "<script>onmessage = event => { document.title += 'W' + event.data + 'W' }</script>"
    (tmp_path / "outer.html").write_text(f"<title></title>{listen}{frames}", encoding="utf-8")
    command = [
        str(_browser()), "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}",
        "--virtual-time-budget=5000", "--dump-dom", (tmp_path / "outer.html").as_uri(),
    ]  # fmt: skip
    dom = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    found = [(int(own), int(content)) for own, content in re.findall(r"W(\d+),(\d+)W", dom)]
    assert sorted(own for own, _ in found) == [400, 400, 1280, 1280]
    assert all(content <= own for own, content in found), found


def test_p_values_of_columns_are_those_of_the_score_test() -> None:
    model, X, y = made("many classes")
    rows, n_rows = document.tests_of(model, X, y, 0) or ([], 0)
    assert n_rows == len(X)
    assert {name for name, p, _ in rows if float(p) < 1e-3} <= {"c0", "c1", "all columns"}
    frame = kernel_tests(model, X, y, by="view")
    first = frame.groupby("name")["p_value"].agg(cauchy_combination).min()
    assert float(rows[0][1]) == pytest.approx(first, rel=0.5)
    assert [float(q) for _, _, q in rows] == sorted(float(q) for _, _, q in rows)
    assert document.tests_of(made("gaussian")[0], X, y, 0) is None


def test_p_values_of_many_rows_are_from_some_of_them() -> None:
    X = table(1100, 2)
    y = X["c0"].to_numpy() + np.random.default_rng(0).normal(size=1100)
    rows, n_rows = document.tests_of(MKLRegressor().fit(X[:100], y[:100]), X, y, 0) or ([], 0)
    assert n_rows == 1000
    assert float(rows[0][1]) < 1e-10
