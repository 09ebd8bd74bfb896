"""Views, tuned fits, groups, paths, plans, reports and predictions in parts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import train_test_split

from manykernels import MKLClassifierCV, load_model, save_model
from manykernels.cli import app
from manykernels.cli import fit as module
from manykernels.cli.fit import read_views
from manykernels.exceptions import InvalidInputError
from manykernels.inspection import read_metadata
from manykernels.solvers import Status

Runner = Callable[..., Any]

FIT = ("--target", "ill", "--id", "patient", "--drop", "cost")


@pytest.fixture
def views(tmp_path: Path) -> Path:
    path = tmp_path / "views.toml"
    path.write_text('body = ["b*"]\nyears = "age"\n')
    return path


def test_fit_in_folds_on_views_keeps_groups_together(
    run: Runner, table: pd.DataFrame, views: Path, tmp_path: Path
) -> None:
    table.assign(clinic=np.arange(60) % 6).to_csv(tmp_path / "data.csv", index=False)
    words = ("--cv", 3, "--groups", "clinic", "--views", views, "--output", tmp_path / "m.mkl", "--json")
    found = run("fit", tmp_path / "data.csv", *FIT, *words).json
    assert found["estimator"] == "MKLClassifierCV"
    assert found["exit_code"] == 0
    assert found["n_test"] == 20, "two clinics of six, ten rows each"
    assert {row["name"].split(":")[0] for row in found["weights"]} <= {"body", "years"}
    model = load_model(tmp_path / "m.mkl")
    assert isinstance(model, MKLClassifierCV)
    assert model.n_folds_ == 3


def test_what_folds_choose_cannot_be_given_too(run: Runner, data: Path) -> None:
    done = run("fit", data, *FIT, "--cv", 3, "--alpha", 0.1)
    assert done.code == 1
    assert "--alpha is chosen by --cv" in done.err


def test_views_of_a_file(views: Path, tmp_path: Path) -> None:
    assert read_views(views, ["age", "bmi", "blood"]) == {"body": ["bmi", "blood"], "years": ["age"]}
    for text, message in (
        ("", "names no view"),
        ("a = 3", "must be a list"),
        ('a = ["x*"]', r"no column fits .* Use columns of the table: "),
        ('a = ["height"]', "does not offer"),
    ):
        (tmp_path / "wrong.toml").write_text(text)
        with pytest.raises(InvalidInputError, match=message):
            read_views(tmp_path / "wrong.toml", ["age"])


def test_columns_without_a_view_are_named(run: Runner, data: Path, tmp_path: Path) -> None:
    (tmp_path / "v.toml").write_text('years = ["age"]')
    done = run("plan", data, *FIT, "--views", tmp_path / "v.toml", "--json")
    assert done.json["n_kernels"] == 4
    assert "2 column(s) are in no view" in done.err
    whatever = pd.read_csv(data).assign(
        note=[f"came {i}" for i in range(60)], gap=np.where(np.arange(60) < 9, np.nan, 1.0)
    )
    whatever.to_csv(tmp_path / "whatever.csv", index=False)
    done = run("fit", tmp_path / "whatever.csv", *FIT, "--views", tmp_path / "v.toml", "--output", tmp_path / "m.mkl")
    assert done.code == 0, "text and gaps of columns that nobody reads are no error"
    assert "4 column(s) are in no view and are not used" in done.err
    assert "missing values" not in done.err
    assert list(load_model(tmp_path / "m.mkl").feature_names_in_) == ["age"]
    assert run("predict", tmp_path / "m.mkl", tmp_path / "whatever.csv").code == 0
    both = run("plan", data, *FIT, "--views", tmp_path / "v.toml", "--kernels", "simplemkl")
    assert both.code == 1
    assert "exclude one another" in both.err


def test_plan_says_what_a_fit_takes(run: Runner, data: Path, table: pd.DataFrame, tmp_path: Path) -> None:
    done = run("plan", data, *FIT)
    assert done.code == 0
    assert "Packed float64" in done.out
    assert "16" in done.out
    search, fit = (run("plan", data, *FIT, *more, "--json").json for more in (("--cv", 4), ()))
    assert (search["n_folds"], fit["n_folds"]) == (4, 0)
    assert fit["least_nbytes"] <= fit["expected_nbytes"] <= fit["most_nbytes"]
    assert "In 4 folds." in search["reason"]
    table.assign(clinic=np.arange(60) % 6).to_csv(tmp_path / "clinics.csv", index=False)
    grouped = run("plan", tmp_path / "clinics.csv", *FIT, "--cv", 3, "--groups", "clinic", "--json").json
    assert (grouped["n_folds"], grouped["n_columns"]) == (3, search["n_columns"]), "what names groups is no feature"
    assert grouped["n_kernels"] == search["n_kernels"]
    small = run("plan", data, *FIT, "--memory-budget", "10 kB")
    assert small.code == 1
    assert "even as factors, but the memory budget is" in small.err


def test_path_goes_down_from_the_empty_model(run: Runner, data: Path, tmp_path: Path) -> None:
    written = (tmp_path / "path.csv", tmp_path / "path.png")
    words = ("--n-alphas", 4, "--output", written[0], "--plot", written[1], "--json")
    found = run("path", data, *FIT, *words).json
    steps = found["path"]
    assert steps[0]["n_active"] == 0
    assert steps[0]["alpha"] == found["alpha_max"]
    assert steps[-1]["n_active"] > 0
    assert all(step["relative_gap"] <= 1e-4 for step in steps)
    weights = pd.read_csv(written[0])
    last = weights[np.isclose(weights["alpha"], steps[-1]["alpha"])]
    assert len(last) == steps[-1]["n_active"]
    assert written[1].stat().st_size > 1000


def test_path_of_many_classes_is_refused(run: Runner, table: pd.DataFrame, tmp_path: Path) -> None:
    table.assign(ill=np.arange(60) % 3).to_csv(tmp_path / "three.csv", index=False)
    done = run("path", tmp_path / "three.csv", *FIT)
    assert done.code == 1
    assert "3 classes" in done.err


def test_a_path_of_one_class_or_of_numbers_taken_for_classes(run: Runner, table: pd.DataFrame, tmp_path: Path) -> None:
    table.assign(ill="yes").to_csv(tmp_path / "one.csv", index=False)
    done = run("path", tmp_path / "one.csv", *FIT)
    assert (done.code, "only one class, 'yes'" in done.err, "of them" in done.err) == (1, True, False)
    table.assign(ill=np.arange(len(table)) % 3).to_csv(tmp_path / "three.csv", index=False)
    assert "--task regression takes these numbers as they are" in run("path", tmp_path / "three.csv", *FIT).err


def test_a_target_of_numbers_as_text_is_no_set_of_classes(run: Runner, table: pd.DataFrame, tmp_path: Path) -> None:
    table.assign(ill=[f"{1000 * (1 + row // 2):,}" for row in range(60)]).to_csv(tmp_path / "text.csv", index=False)
    done = run("fit", tmp_path / "text.csv", *FIT, "--test-size", "0", "-o", tmp_path / "m.mkl")
    assert done.code == 1
    assert "'ill' is numbers that are written as text (30 values, such as '1,000')" in done.err
    assert "--task classification" in done.err


@pytest.mark.usefixtures("without_pictures")
def test_report_scores_the_rows_held_out_when_the_model_was_fitted(
    run: Runner, model: Path, data: Path, table: pd.DataFrame, tmp_path: Path
) -> None:
    found = run("report", model, data, "--output", tmp_path / "r.html", "--title", "A <b>title</b>", "--json").json
    assert (found["n_rows"], found["n_held_out"]) == (60, 12)
    page = (tmp_path / "r.html").read_text()
    assert "A &lt;b&gt;title&lt;/b&gt;" in page
    table.head(30).assign(age=table["age"] + 1e-3).to_csv(tmp_path / "new.csv", index=False)  # none of them was fitted
    found = run("report", model, tmp_path / "new.csv", "--output", tmp_path / "r.html", "--force", "--json").json
    assert found["n_held_out"] == 30
    other = table.head(30).drop(columns="patient").assign(remark=[f"free text {row}" for row in range(30)])
    other.to_csv(tmp_path / "new.csv", index=False)
    assert run("report", model, tmp_path / "new.csv", "--output", tmp_path / "r.html", "--force").code == 0
    wrong = run("report", model, data, "--output", tmp_path / "r.pdf")
    assert wrong.code == 1
    assert "must end in .html" in wrong.err


def test_a_report_says_that_it_needs_the_target(run: Runner, model: Path, table: pd.DataFrame, tmp_path: Path) -> None:
    table.drop(columns="ill").to_csv(tmp_path / "new.csv", index=False)
    found = run("report", model, tmp_path / "new.csv", "--output", tmp_path / "r.html")
    assert found.code == 1
    assert "A report compares predictions with the target" in found.err
    assert "has no column 'ill'. Give a table that has it; 'manykernels predict' needs none." in found.err


@pytest.mark.usefixtures("without_pictures")
def test_every_command_on_a_table_takes_an_encoding(run: Runner, table: pd.DataFrame, tmp_path: Path) -> None:
    named, data, saved = table.rename(columns={"age": "âge"}), tmp_path / "data.csv", tmp_path / "model.mkl"
    named.to_csv(data, index=False, encoding="latin-1")
    options = ("--id", "patient", "--drop", "cost", "--encoding", "latin-1")
    assert "line 1 has the byte 0xE2, 'â'" in run("plan", data, "--target", "ill").err
    assert run("fit", data, "--target", "ill", *options, "--output", saved).code == 0
    assert run("plan", data, "--target", "ill", *options).code == 0
    assert run("predict", saved, data, "--encoding", "latin-1").code == 0
    assert run("report", saved, data, "--encoding", "latin-1", "--output", tmp_path / "r.html").code == 0


@pytest.mark.nightly
@pytest.mark.usefixtures("without_pictures")
def test_report_reads_what_the_first_version_wrote(run: Runner, model: Path, data: Path, tmp_path: Path) -> None:
    told = {name: value for name, value in read_metadata(model).items() if name in ("target", "data", "test_size")}
    save_model(load_model(model), tmp_path / "old.mkl", metadata=told)
    done = run("report", tmp_path / "old.mkl", data, "--output", tmp_path / "r.html")
    assert done.code == 0, done.err


def test_folds_search_the_mixture_unless_a_penalty_is_named(run: Runner, data: Path, tmp_path: Path) -> None:
    words = ("fit", data, *FIT, "--cv", 2, "--tol", 0.1, "--output", tmp_path / "m.mkl", "--force")
    assert run(*words).code == 0
    assert load_model(tmp_path / "m.mkl").penalty == "auto"
    assert run(*words, "--penalty", "l1").code == 0
    assert load_model(tmp_path / "m.mkl").penalty == "l1"


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_predictions_in_parts_are_those_of_the_whole(
    run: Runner, model: Path, table: pd.DataFrame, tmp_path: Path, ending: str
) -> None:
    source = tmp_path / f"new.{ending}"
    table.to_csv(source, index=False) if ending == "csv" else table.to_parquet(source)
    whole, parts = tmp_path / "whole.csv", tmp_path / "parts.csv"
    assert run("predict", model, source, "--proba", "--id", "patient", "--output", whole).code == 0
    done = run("predict", model, source, "--proba", "--id", "patient", "--output", parts, "--chunk-rows", 7)
    assert done.code == 0
    assert "60 predictions" in done.out
    left, right = pd.read_csv(whole), pd.read_csv(parts)
    pd.testing.assert_frame_equal(left, right, rtol=1e-9)
    refused = run("predict", model, source, "--chunk-rows", 7)
    assert refused.code == 1
    assert "--output" in refused.err


@pytest.mark.usefixtures("without_pictures")
def test_a_mixed_table_with_gaps_is_fitted_and_predicted(run: Runner, table: pd.DataFrame, tmp_path: Path) -> None:
    mixed = table.drop(columns=["patient", "cost"]).assign(
        site=np.where(table["age"] > 0, "north", "south"), seen=[f"2024-{i % 12 + 1:02d}-05" for i in range(60)]
    )
    mixed.loc[::5, "bmi"], mixed.loc[1::9, "site"] = np.nan, None
    source, model = tmp_path / "mixed.csv", tmp_path / "mixed.mkl"
    mixed.to_csv(source, index=False)
    words = ("fit", source, "--target", "ill", "--output", model)
    refused = run(*words)
    assert refused.code == 1
    assert "'bmi' (12 of 60 rows), 'site' (7 of 60 rows)" in refused.err.replace("\n", " ")
    assert run(*words, "--missing", "indicator", "--alpha", "0.005").code == 0
    names = load_model(model).kernel_names_
    assert {"site: overlap()", "bmi: missing", "seen: linear()"} <= set(names)
    assert run("predict", model, source, "--json").json["scores"]["accuracy"] > 0.7
    assert run("report", model, source, "--output", tmp_path / "r.html").code == 0
    assert run("plan", source, "--target", "ill", "--missing", "mask").code == 0


def test_compare_tells_whether_learning_pays(run: Runner, table: pd.DataFrame, views: Path, tmp_path: Path) -> None:
    table.assign(clinic=np.arange(60) % 6).to_csv(tmp_path / "data.csv", index=False)
    words = ("--folds", 2, "--views", views, "--groups", "clinic", "--alpha", "0.1*max")
    done = run("compare", tmp_path / "data.csv", *FIT, *words, "--output", tmp_path / "out.csv", "--json")
    assert done.code == 0
    assert [row["method"] for row in done.json["methods"]][::4] == ["learned weights", "best single kernel"]
    assert done.json["methods"][0]["p_value"] is None
    written = pd.read_csv(tmp_path / "out.csv")
    np.testing.assert_allclose(written["score"], [row["score"] for row in done.json["methods"]])
    assert "--folds 7" in run("compare", tmp_path / "data.csv", *FIT, *words, "--folds", 7).err


@pytest.mark.parametrize("words", [("path", "--n-alphas", 4), ("compare", "--folds", 2)])
def test_tables_fit_into_eighty_columns(
    data: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[Any, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as end:
        app([words[0], str(data), *map(str, (*FIT, *words[1:], "--tol", 0.1))])
    assert end.value.code == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    if words[0] == "compare":
        assert "EasyMKL margin" in out
        assert "Mean accuracy in 2 folds" in out


def test_a_fit_that_stalls_is_saved_by_force_alone(
    run: Runner, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert set(module.NO_MODEL) == {"stalled", "numerical_error"}
    monkeypatch.setattr(module, "NO_MODEL", (Status.MAX_ITER,))  # which is at hand on every machine
    few = ("--solver", "interior_point", "--max-iter", 1)  # single steps, of which a fit takes more
    words = ("fit", data, *FIT, *few, "--tol", 1e-9, "--output", tmp_path / "m.mkl")
    done = run(*words)
    assert done.code == 3
    assert "The fit ended as 'max_iter'" in done.err
    assert "Save it anyway with --force" in done.err
    assert not (tmp_path / "m.mkl").exists()
    assert run(*words, "--force").code == 3
    assert load_model(tmp_path / "m.mkl").solution_.status == "max_iter"


def test_scores_stand_beside_those_of_a_constant(run: Runner, tmp_path: Path) -> None:
    """A wide noise fit is no better than its constant on rows held out, and says so."""
    rng = np.random.default_rng(1)
    table = pd.DataFrame(rng.normal(size=(80, 3)), columns=list("abc")).assign(
        noise=rng.normal(size=80), truth=lambda frame: frame["a"]
    )
    table.to_csv(tmp_path / "data.csv", index=False)
    words = ("--alpha", "0.001*noise", "--tol", "1e-2", "--output", tmp_path / "m.mkl", "--force")
    noise = run("fit", tmp_path / "data.csv", "--target", "noise", "--drop", "truth", *words)
    truth = run("fit", tmp_path / "data.csv", "--target", "truth", "--drop", "noise", *words)
    told = "On the 16 held-out rows the model is no better than a constant: the selected kernels may be noise"
    assert told in noise.err
    assert told not in truth.err
    assert "constant" in truth.out
    scores = run("fit", tmp_path / "data.csv", "--target", "truth", "--drop", "noise", *words, "--json").json
    assert set(scores["constant_scores"]) == set(scores["scores"])
    fitted, held = train_test_split(table["truth"].to_numpy(), test_size=0.2, random_state=0)
    assert scores["constant_scores"]["rmse"] == pytest.approx(np.sqrt(np.mean((held - fitted.mean()) ** 2)))


def test_few_numbers_that_are_no_classes_are_told_of_regression(run: Runner, tmp_path: Path) -> None:
    rows = pd.DataFrame({"a": np.arange(40.0), "grade": [3, *[5] * 20, *[6] * 19]})
    rows.to_csv(tmp_path / "grades.csv", index=False)
    done = run("fit", tmp_path / "grades.csv", "--target", "grade")
    assert done.code == 1
    assert "The 3 numbers are taken for classes; --task regression" in " ".join(done.err.split())


@pytest.mark.usefixtures("without_pictures")
def test_two_numbers_that_are_not_whole_are_classes(run: Runner, table: pd.DataFrame, tmp_path: Path) -> None:
    data, model = tmp_path / "doses.csv", tmp_path / "m.mkl"
    table.assign(ill=np.where(table["ill"] == "yes", 0.5, 2.25)).to_csv(data, index=False)
    done = run("fit", data, *FIT, "--output", model)
    assert done.code == 0, done.err
    assert "0.5 (" in done.out
    found = run("predict", model, data)
    assert set(found.out.split()[1:]) <= {"0.5", "2.25"}
    assert run("compare", data, *FIT, "--folds", 2, "--alpha", "0.2*max").code == 0
    report = run("report", model, data, "-o", tmp_path / "r.html")
    assert "12 of them held out" in report.out


def test_sorted_rows_and_nearly_perfect_scores_are_noted(run: Runner, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"a": np.sort(rng.normal(size=60)), "b": rng.normal(size=60)})
    rows.assign(cost=3 * rows["a"]).to_csv(tmp_path / "sorted.csv", index=False)
    words = ("--target", "cost", "--cv", "2", "-o", tmp_path / "m.mkl")
    done = run("fit", tmp_path / "sorted.csv", *words)
    told = " ".join(done.err.split())
    assert "The rows are sorted by the target." in told
    assert "A held-out R2 of" in told
    days = rows.sample(frac=1.0, random_state=0).assign(day=pd.date_range("2024-01-01", periods=60))
    days.assign(cost=rng.normal(size=60)).to_csv(tmp_path / "days.csv", index=False)
    told = " ".join(run("fit", tmp_path / "days.csv", *words, "--force").err.split())
    assert "The rows are sorted by 'day'." in told
    assert "nearly perfect" not in told


def test_several_labels_or_numbers_are_fitted_at_once(run: Runner, table: pd.DataFrame, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = table["age"] - table["age"].mean()
    labels = {f"sign {k}": (x + x.std() * rng.normal(size=len(x)) > 0).astype(float) for k in range(2)}
    labels["sign 1"].iloc[:3] = np.nan
    numbers = {f"level {k}": x + rng.normal(size=len(x)) for k in range(2)}
    data, model = tmp_path / "several.csv", tmp_path / "several.mkl"
    table.assign(**labels, **numbers).to_csv(data, index=False)
    for kind, (first, second), other in (("classification", labels, numbers), ("regression", numbers, labels)):
        words = ("--target", first, "--target", second, "--id", "patient", "--drop", "ill", "--drop", "cost")
        left_out = [part for name in other for part in ("--drop", name)]
        found = run("fit", data, *words, *left_out, "--output", model, "--force", "--json").json
        assert found["task"] == kind
        assert found["target"] == [first, second]
        predicted = run("predict", model, data).out.splitlines()
        assert predicted[0].split(",") == [f"prediction_{first}", f"prediction_{second}"]
        assert len(predicted) == 1 + len(table)
        assert f"{kind} of 2 targets" in run("inspect", model).out
    page = run("report", model, data, "--output", tmp_path / "page.html", "--json")
    assert page.code == 0
    assert run("export", model, tmp_path / "model.py").code == 0


def test_several_targets_of_different_kinds_or_of_other_commands_are_refused(run: Runner, data: Path) -> None:
    done = run("fit", data, "--target", "ill", "--target", "age", "--id", "patient", "--task", "classification")
    assert "labels, 0 or 1 in each column, but 'ill' holds other values" in done.err
    done = run("plan", data, "--target", "ill", "--target", "age")
    assert done.code == 2
    assert "Several targets are for manykernels fit" in done.err
