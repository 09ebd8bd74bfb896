"""The commands from table to model to predictions: what they print, what they write, how they exit."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import typer
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import train_test_split
from tests.support.processes import python
from typer.testing import CliRunner

import manykernels
from manykernels import (
    HierarchicalMKL,
    KernelAligner,
    KernelBank,
    Linear,
    MKLClassifier,
    MKLRegressor,
    NonlinearMKL,
    load_model,
    save_model,
)
from manykernels.cli import app
from manykernels.cli.commands import SECTIONS
from manykernels.cli.console import importances
from manykernels.cli.fit import FitOptions, estimator_for
from manykernels.estimators import Resources
from manykernels.estimators.parameters import GROUPS, PARAMETERS, place_of
from manykernels.exceptions import InvalidInputError
from manykernels.objective.losses import LOSSES
from manykernels.objective.regularizers import REGULARIZERS

Runner = Callable[..., Any]

FIT = ("--target", "ill", "--id", "patient", "--drop", "cost")


# --- fit ---


def test_fit_does_what_the_estimator_does(run: Runner, data: Path, table: pd.DataFrame, tmp_path: Path) -> None:
    found = run("fit", data, *FIT, "--alpha", 0.02, "--seed", 3, "--output", tmp_path / "m.mkl", "--json").json
    X, y = table[["age", "bmi", "blood pressure"]], table["ill"].to_numpy(dtype=object)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, stratify=y, random_state=3)
    model = MKLClassifier(KernelBank.auto(), alpha=0.02).fit(X_train, y_train)
    assert found["scores"]["accuracy"] == accuracy_score(y_test, model.predict(X_test))
    assert [row["weight"] for row in found["weights"]] == pytest.approx(model.weights_frame()["weight"], rel=1e-10)
    saved = load_model(tmp_path / "m.mkl")
    np.testing.assert_allclose(saved.decision_function(X_test), model.decision_function(X_test), rtol=1e-10)


def test_json_of_fit(run: Runner, data: Path, tmp_path: Path) -> None:
    done = run("fit", data, *FIT, "--output", tmp_path / "m.mkl", "--json")
    found = done.json
    assert done.out.count("\n") == 1
    expected: dict[str, type | tuple[type, ...]] = {
        "command": str, "exit_code": int, "task": str, "loss": str, "penalty": str, "alpha": float, "n_samples": int,
        "n_features": int, "n_support": int, "n_kept": int, "n_kernels": int, "n_active": int, "status": str,
        "message": str, "relative_gap": float, "tol": float, "tol_measure": str, "tol_reached": float, "solver": str,
        "passes": float, "newton_steps": int, "elapsed_s": float, "n_test": int, "scores": dict, "weights": list,
        "data": str, "target": str, "task_reason": str,
        "features": list, "model": str, "constant_scores": dict, "notes": list, "estimator": str, "importance": list,
    }  # fmt: skip
    assert {name: type(value) for name, value in found.items()} == expected
    assert set(found["weights"][0]) == {
        "name", "kernel", "columns", "weight", "norm", "norm_share", "p_value", "q_value", "above_noise",
    }  # fmt: skip
    assert all(0 < row["p_value"] <= row["q_value"] <= 1 for row in found["weights"])
    assert (found["command"], found["status"], found["n_samples"], found["n_test"]) == ("fit", "converged", 48, 12)
    assert found["features"] == ["age", "bmi", "blood pressure"]


def test_tables_of_fit(run: Runner, data: Path, tmp_path: Path) -> None:
    done = run("fit", data, *FIT, "--output", tmp_path / "m.mkl")
    assert done.code == 0
    assert done.err == ""
    for text in ("60 rows, 3 columns", "'ill' is not numeric", "48 to fit, 12 held out", "duality gap", "q_value"):
        assert text in done.out
    assert load_model(tmp_path / "m.mkl").weights_frame()["name"].iloc[0] in done.out


def test_fit_prints_importances_and_no_bars_of_norms(run: Runner, data: Path, tmp_path: Path) -> None:
    file = tmp_path / "m.mkl"
    options = ("fit", data, *FIT, "--alpha", 0.02, "--output", file)
    found, printed = run(*options, "--json").json["importance"], run(*options, "--force").out
    frame = load_model(file).importance_frame()
    assert [row["importance"] for row in found] == pytest.approx(frame["importance"], rel=1e-6)
    assert [row["name"] for row in found] == frame["name"].tolist()
    importances, weights = printed.split("Selected kernels")
    assert "Importance: increase of the mean loss" in importances
    assert "█" in importances
    assert "█" not in weights
    assert "Importance" in run("inspect", file).out


def test_importances_are_named_by_views(data: Path, table: pd.DataFrame) -> None:
    bank = KernelBank.from_views({"body": ["age", "bmi"], "heart": ["blood pressure"]})
    model = MKLClassifier(bank, penalty="ridge", alpha=0.02).fit(table[["age", "bmi", "blood pressure"]], table["ill"])
    found = importances(model)
    assert found is not None
    assert set(found["name"]) == {"body", "heart"}
    assert importances(KernelAligner()) is None


def test_fit_a_quantity(run: Runner, data: Path, table: pd.DataFrame, tmp_path: Path) -> None:
    options = ("--target", "cost", "--drop", "ill", "--id", "patient", "--output", tmp_path / "m.mkl")
    found = run("fit", data, *options, "--json").json
    X, y = table[["age", "bmi", "blood pressure"]], table["cost"].to_numpy()
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, random_state=0)
    model = load_model(tmp_path / "m.mkl")
    assert isinstance(model, MKLRegressor)
    assert model.alpha == "auto"
    assert model.alpha_ == MKLRegressor(random_state=0).fit(X_train, y_train).alpha_
    assert found["scores"]["r2"] == r2_score(y_test, model.predict(X_test)) > 0.8


def test_a_unit_of_the_target_changes_nothing(run: Runner, table: pd.DataFrame, tmp_path: Path) -> None:
    scores = []
    for factor in (1.0, 1e6):
        table.assign(cost=table["cost"] * factor).to_parquet(tmp_path / "data.parquet")
        for loss in ("squared", "huber", "epsilon_insensitive"):
            scores.append(
                run(
                    "fit", tmp_path / "data.parquet", "--target", "cost", "--drop", "ill", "--drop", "patient",
                    "--loss", loss, "--tol", 1e-7, "--output", tmp_path / "m.mkl", "--force", "--json",
                ).json["scores"]["r2"]
            )  # fmt: skip
    np.testing.assert_allclose(scores[:3], scores[3:], rtol=1e-2)


def test_fit_on_all_rows(run: Runner, data: Path, tmp_path: Path) -> None:
    found = run("fit", data, *FIT, "--test-size", 0, "--output", tmp_path / "m.mkl", "--json").json
    assert (found["n_samples"], found["n_test"], found["scores"]) == (60, 0, {})


def test_kernels_by_name_and_by_file(run: Runner, data: Path, tmp_path: Path) -> None:
    (tmp_path / "kernels.toml").write_text('[[kernels]]\nkernel = "gaussian"\nwidth = [0.5, 1.0]\non = "each"\n')
    for kernels, expected in (("auto", 16), ("columns", 12), ("simplemkl", 27 * 4), (tmp_path / "kernels.toml", 6)):
        found = run("fit", data, *FIT, "--kernels", kernels, "--output", tmp_path / "m.mkl", "--force", "--json").json
        assert found["n_kernels"] == expected
        assert load_model(tmp_path / "m.mkl").kernels.normalize == "mean_diagonal"


def test_a_kernel_file_may_choose_its_normalization(run: Runner, data: Path, tmp_path: Path) -> None:
    (tmp_path / "k.toml").write_text('normalize = "trace"\n[[kernels]]\nkernel = "linear"\n')
    run("fit", data, *FIT, "--alpha", 1e-4, "--kernels", tmp_path / "k.toml", "--output", tmp_path / "m.mkl")
    assert load_model(tmp_path / "m.mkl").kernels.normalize == "trace"


def test_options_reach_the_estimator() -> None:
    options = FitOptions(
        data=Path("x"), target="y", seed=4,
        settings={"loss": "huber", "penalty": "ridge", "alpha": 0.5, "tol": 1e-3, "max_iter": 7,
                  "solver": "interior_point", "memory_budget": "1 GB", "n_jobs": None},
    )  # fmt: skip
    model = estimator_for(options, "regression", KernelBank.auto())
    found = {name: getattr(model, name) for name in ("loss", "penalty", "alpha", "tol", "solver", "random_state")}
    assert found == {
        "loss": "huber", "penalty": "ridge", "alpha": 0.5, "tol": 1e-3, "solver": "interior_point", "random_state": 4,
    }  # fmt: skip
    assert model.resources == Resources(max_iter=7, memory_budget="1 GB")


OWN = {
    "force",
    "data",
    "encoding",
    "na",
    "target",
    "time",
    "event",
    "strata",
    "task",
    "kernels",
    "test_size",
    "seed",
    "drop",
    "ids",
    "drop_missing",
    "missing",
    "cv",
    "groups",
    "views",
    "output",
    "as_json",
}


def test_every_parameter_is_an_option_with_the_default_of_python() -> None:
    command = typer.main.get_command(app).commands["fit"]  # type: ignore[attr-defined]
    options = {option.name: option.default for option in command.params}
    left_out = {"random_state", "verbose", "callback"}  # --seed, the terminal, and what only Python has
    settings = {name: PARAMETERS[name].default for name in PARAMETERS if name not in left_out}
    settings["penalty"] = None  # that of the estimator, which --cv changes
    assert set(options) == OWN | set(settings)
    assert {name: options[name] for name in settings} == settings
    for cls in (MKLClassifier, MKLRegressor):
        given = set(cls().get_params()) - {"kernels", "class_weight", "kernel_penalties", *GROUPS} - left_out
        assert {name.rpartition("__")[2] for name in given} - left_out <= set(options)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--penalty", "elasticnet", "--l1-ratio", 0.9), {"l1_ratio": 0.9}),
        (("--penalty", "lq", "--q", 1.2), {"q": 1.2}),
        (("--penalty", "lp_ball", "--p", 3), {"p": 3.0}),
        (("--penalty", "elasticnet_ball", "--eta", 0.25), {"eta": 0.25}),
        (("--penalty", "group_elasticnet", "--q", 1.2, "--l1-ratio", 0.7), {"q": 1.2, "l1_ratio": 0.7}),
        (("--loss", "quantile", "--tau", 0.9, "--no-fit-intercept"), {"tau": 0.9, "fit_intercept": False}),
        (("--loss", "huber", "--delta", 700, "--n-jobs", 2), {"delta": 700.0, "n_jobs": 2}),
        (("--loss", "epsilon_insensitive", "--epsilon", 50, "--alpha", 0.01), {"epsilon": 50.0, "alpha": 0.01}),
    ],
)
def test_parameters_reach_the_model(
    run: Runner, data: Path, tmp_path: Path, words: tuple[Any, ...], expected: dict[str, Any]
) -> None:
    own = ("--target", "cost", "--drop", "ill", "--id", "patient", "--tol", 0.05, "--output", tmp_path / "m.mkl")
    done = run("fit", data, *own, *words)
    assert done.code == 0, done.err
    model = load_model(tmp_path / "m.mkl")
    assert {name: model.get_params()[place_of(name)] for name in expected} == expected


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--p", 0), "p must be a finite positive number"),
        (("--tau", 2), "tau"),
        (("--epsilon", 1), "--epsilon is not for classification"),
    ],
)
def test_parameters_are_checked_whatever_uses_them(
    run: Runner, data: Path, tmp_path: Path, words: tuple[Any, ...], message: str
) -> None:
    done = run("fit", data, *FIT, *words, "--output", tmp_path / "m.mkl")
    assert done.code == 1
    assert message in done.err
    assert not (tmp_path / "m.mkl").exists()


def test_what_is_left_out_is_told(run: Runner, table: pd.DataFrame, tmp_path: Path) -> None:
    table.insert(0, "row", range(len(table)))
    table.loc[3, "ill"] = None
    table.to_csv(tmp_path / "data.csv", index=False)
    done = run("fit", tmp_path / "data.csv", *FIT, "--output", tmp_path / "m.mkl", "--json")
    assert done.json["notes"] == [
        "1 of 60 rows have no 'ill' and are left out.",
        "'row' looks like a row number, not a feature. To leave out: --id 'row'",
    ]
    assert "1 of 60 rows have no 'ill'" in done.err


# --- exit codes ---


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--target", "nothing"), "there is no column 'nothing'"),
        (("--target", "ill"), "no category, or cannot be read: 'patient'"),
        ((*FIT, "--kernels", "nothing.toml"), "there is no file 'nothing.toml'"),
        ((*FIT, "--loss", "squared"), "loss 'squared' is for regression"),
        ((*FIT, "--loss", "x"), "Unknown loss 'x'"),
        ((*FIT, "--penalty", "x"), "Unknown penalty 'x'"),
        ((*FIT, "--alpha", "-1"), "alpha"),
        ((*FIT, "--solver", "x"), "Unknown solver 'x'"),
        ((*FIT, "--memory-budget", "1 KB", "--kernels", "simplemkl"), "1 KB|memory|budget"),
        ((*FIT, "--test-size", "0.01"), "--test-size"),
        ((*FIT, "--output", "nowhere/model.mkl"), "no folder 'nowhere'"),
    ],
)
def test_wrong_input_exits_with_one(run: Runner, data: Path, words: tuple[str, ...], message: str) -> None:
    done = run("fit", data, *words)
    assert done.code == 1
    assert message.split("|")[0] in done.err or any(part in done.err for part in message.split("|"))
    assert done.err.startswith("Error: ")
    assert "Traceback" not in done.err
    assert done.out == ""


def test_errors_as_json(run: Runner, data: Path) -> None:
    done = run("fit", data, "--target", "nothing", "--json")
    assert (done.code, done.json["exit_code"], done.json["command"]) == (1, 1, "fit")
    assert "no column 'nothing'" in done.json["error"]


@pytest.mark.parametrize(
    "words", [("fit",), ("fit", "x.csv"), ("fit", "x.csv", "--target", "y", "--task", "z"), ("nothing",)]
)
def test_wrong_usage_exits_with_two(run: Runner, words: tuple[str, ...]) -> None:
    assert run(*words).code == 2


def test_no_convergence_exits_with_three_and_saves(run: Runner, data: Path, tmp_path: Path) -> None:
    few = ("--solver", "interior_point", "--max-iter", 1)  # single steps, of which a fit takes more
    done = run("fit", data, *FIT, *few, "--tol", 1e-9, "--output", tmp_path / "m.mkl", "--json")
    assert (done.code, done.json["exit_code"], done.json["status"]) == (3, 3, "max_iter")
    assert any("above tol" in note for note in done.json["notes"])
    assert load_model(tmp_path / "m.mkl").dual_gap_ > 1e-9


def test_an_interrupt_while_reading_exits_with_130(
    run: Runner, data: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def interrupted(*args: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("manykernels.cli.fit.read_table", interrupted)
    done = run("fit", data, *FIT, "--output", tmp_path / "m.mkl")
    assert (done.code, done.err) == (130, "Error: Interrupted.\n")


def test_an_interrupt_while_solving_saves_the_model(
    run: Runner, data: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from manykernels.solvers import InteriorPoint

    step, calls = InteriorPoint.step, []

    def interrupted(self: Any, problem: Any, state: Any) -> None:
        calls.append(1)
        if len(calls) > 1:
            raise KeyboardInterrupt
        step(self, problem, state)

    monkeypatch.setattr(InteriorPoint, "step", interrupted)
    done = run("fit", data, *FIT, "--solver", "interior_point", "--tol", 1e-9, "--output", tmp_path / "m.mkl", "--json")
    assert (done.code, done.json["status"]) == (130, "interrupted")
    assert load_model(tmp_path / "m.mkl").solution_.status == "interrupted"


def test_other_files_are_never_overwritten(run: Runner, data: Path, model: Path) -> None:
    before = data.read_bytes()
    done = run("fit", data, *FIT, "--output", data)
    assert done.code == 1
    assert "exists and is not a model file" in done.err
    assert data.read_bytes() == before
    refused = run("fit", data, *FIT, "--output", model)
    assert refused.code == 1
    assert "exists; choose another name, or replace it with --force" in refused.err
    assert run("fit", data, *FIT, "--output", model, "--force").code == 0


@pytest.mark.parametrize("link", ["none", "symbolic", "hard"])
def test_no_command_replaces_a_file_that_it_reads(
    run: Runner, data: Path, table: pd.DataFrame, model: Path, tmp_path: Path, link: str
) -> None:
    own, kept = tmp_path / "own.csv", tmp_path / "kept.mkl"
    own.write_bytes(data.read_bytes())
    kept.write_bytes(model.read_bytes())
    kernels = tmp_path / "kernels.toml"
    kernels.write_text('[[kernels]]\nkernel = "linear"\non = "each"\n')
    named = {}
    for path in (own, kept, kernels):
        named[path] = path if link == "none" else tmp_path / f"other_{path.name}"
        if link == "symbolic":
            named[path].symlink_to(path)
        elif link == "hard":
            named[path].hardlink_to(path)
    before = {path: path.read_bytes() for path in named}
    for words in [
        ("predict", kept, own, "-o", named[own]),
        ("predict", kept, own, "-o", named[kept]),
        ("predict", kept, own, "-o", named[own], "--chunk-rows", 20),
        ("export", kept, named[kept]),
        ("inspect", kept, "--plot", named[kept]),
        ("fit", own, *FIT, "--kernels", kernels, "-o", named[kernels]),
        ("path", own, *FIT, "-o", named[own]),
        ("path", own, *FIT, "--kernels", kernels, "-o", named[kernels]),
        ("compare", own, *FIT, "-o", named[own]),
    ]:
        done = run(*words, "--force")
        assert done.code == 1, words
        assert "is a file that this command reads" in done.err or "exists and is not a model file" in done.err, words
    page = tmp_path / "page.html"
    page.write_bytes(data.read_bytes())
    assert "is a file that this command reads" in run("report", kept, page, "-o", page, "--force").err
    assert {path: path.read_bytes() for path in named} == before


def test_characters_that_an_encoding_lacks_raise_nothing(table: pd.DataFrame, tmp_path: Path) -> None:
    table.rename(columns={"age": "\u00e2ge"}).to_csv(tmp_path / "data.csv", index=False)
    runner, model = CliRunner(charset="ascii"), tmp_path / "m.mkl"

    def printed(*words: object) -> tuple[int, str, str]:
        done = runner.invoke(app, [str(word) for word in words], env={"COLUMNS": "200"})
        return done.exit_code, done.stdout, done.stderr

    code, out, _ = printed("fit", tmp_path / "data.csv", *FIT, "-o", model)
    assert code == 0
    assert "\\xe2ge" in out
    assert printed("predict", model, tmp_path / "data.csv")[0] == 0
    code, _, err = printed("predict", model, tmp_path / "data.csv", "--id", "\u00e2ge")
    assert code == 1
    assert "stdout is encoded in ascii, which lacks" in err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a = " + "[" * 5000 + "]" * 5000, "nested too deep"),
        ("a = " + "{b=" * 3000 + "1" + "}" * 3000, "nested too deep"),
        (".".join("a" * 5000) + " = 1", "nested too deep"),
        ("a = " + "9" * 5000, "is not valid TOML"),
        ("a = 2024-13-45", "is not valid TOML"),
    ],
)
@pytest.mark.parametrize("option", ["--kernels", "--views"])
def test_hostile_kernel_files_are_rejected(
    run: Runner, data: Path, tmp_path: Path, content: str, message: str, option: str
) -> None:
    (tmp_path / "file.toml").write_text(content)
    done = run("fit", data, *FIT, option, tmp_path / "file.toml", "-o", tmp_path / "m.mkl")
    assert done.code == 1
    assert message in done.err
    with pytest.raises(InvalidInputError, match=message):
        KernelBank.from_toml(tmp_path / "file.toml")


def test_help_names_every_penalty_and_loss(run: Runner) -> None:
    text = run("fit", "--help").out
    missing = [name for name in (*LOSSES, *REGULARIZERS) if name not in text]
    assert not missing
    assert "..." not in run("--help").out.partition("Commands:")[2]


def test_help_lists_options_in_sections(run: Runner) -> None:
    text = run("fit", "--help").out
    heads = [line.rstrip(":") for line in text.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert heads == ["Arguments", *SECTIONS]
    assert "--kernels <auto|columns|simplemkl|FILE>" in text
    assert "--penalty" in text.partition("Model:")[2].partition("Validation:")[0]
    assert "Options:" in run("predict", "--help").out


def test_brackets_in_names_are_printed_as_they_are(run: Runner, table: pd.DataFrame, tmp_path: Path) -> None:
    renamed = table.rename(columns={"age": "age [red]", "bmi": "bmi [1]"})
    renamed.to_csv(tmp_path / "data.csv", index=False)
    done = run("fit", tmp_path / "data.csv", *FIT, "--output", tmp_path / "m.mkl")
    assert "age [red]" in done.out
    assert "bmi [1]" in done.out
    assert "no column '[red]'" in run("fit", tmp_path / "data.csv", "--target", "[red]").err


def test_names_neither_blink_nor_become_pictures(run: Runner, table: pd.DataFrame, tmp_path: Path) -> None:
    renamed = table.rename(columns={"age": "a:b:", "bmi": "\x1b[31mred\x07", "ill": "ill\x1b[2J"})
    renamed.to_csv(tmp_path / "data.csv", index=False)
    done = run("fit", tmp_path / "data.csv", "--target", "ill\x1b[2J", *FIT[2:], "--output", tmp_path / "m.mkl")
    assert done.code == 0
    assert "a:b:" in done.out
    assert "\\x1b[31mred\\x07" in done.out
    wrong = run("fit", tmp_path / "data.csv", "--target", "\x1b[5mblink")
    shown = run("inspect", tmp_path / "m.mkl")
    refused = run("predict", tmp_path / "m.mkl", tmp_path / "no\x07file.csv")
    for text in (done.out, done.err, wrong.out, wrong.err, shown.out, shown.err, refused.out, refused.err):
        assert "\x1b" not in text
        assert "\x07" not in text


# --- predict ---


def test_predictions_replace_no_file_unasked(run: Runner, data: Path, model: Path, tmp_path: Path) -> None:
    (tmp_path / "out.csv").write_text("mine")
    done = run("predict", model, data, "--output", tmp_path / "out.csv")
    assert done.code == 1
    assert "exists; choose another name, or replace it with --force" in done.err
    assert (tmp_path / "out.csv").read_text() == "mine"
    assert run("predict", model, data, "--output", tmp_path / "out.csv", "--force").code == 0
    assert (tmp_path / "out.csv").read_text().startswith("prediction")


def test_labels_reach_csv_as_text(run: Runner, table: pd.DataFrame, tmp_path: Path) -> None:
    table["ill"] = table["ill"].map({"yes": "=1+1", "no": "no"})
    table.to_csv(tmp_path / "data.csv", index=False)
    assert run("fit", tmp_path / "data.csv", *FIT, "--output", tmp_path / "m.mkl").code == 0
    done = run("predict", tmp_path / "m.mkl", tmp_path / "data.csv")
    run("predict", tmp_path / "m.mkl", tmp_path / "data.csv", "--output", tmp_path / "out.csv")
    for text in (done.out, (tmp_path / "out.csv").read_text()):
        assert set(text.split()) == {"prediction", "'=1+1", "no"}


def test_an_aligner_predicts_nothing(run: Runner, data: Path, table: pd.DataFrame, tmp_path: Path) -> None:
    save_model(KernelAligner().fit(table[["age", "bmi"]], table["ill"]), tmp_path / "m.mkl")
    for words in (("predict", tmp_path / "m.mkl", data), ("inspect", tmp_path / "m.mkl")):
        done = run(*words)
        assert done.code == 1
        assert "The file holds a KernelAligner" in done.err


def test_predictions_are_those_of_the_model(
    run: Runner, data: Path, model: Path, table: pd.DataFrame, tmp_path: Path
) -> None:
    done = run("predict", model, data, "--proba", "--id", "patient")
    rows = [line.split(",") for line in done.out.strip().splitlines()]
    estimator, X = load_model(model), table[["age", "bmi", "blood pressure"]]
    assert rows[0] == ["patient", "prediction", "probability_no", "probability_yes"]
    assert [row[1] for row in rows[1:]] == estimator.predict(X).tolist()
    found = np.array([[float(value) for value in row[2:]] for row in rows[1:]])
    np.testing.assert_allclose(found, estimator.predict_proba(X), rtol=1e-12)
    labels = table["ill"].to_numpy(dtype=object)
    train, test = train_test_split(np.arange(60), test_size=0.2, stratify=labels, random_state=0)
    told = {"the rows it was fitted on": train, "rows it was not fitted on": test}
    for name, rows in told.items():
        accuracy = estimator.score(X.iloc[rows], labels[rows])
        assert f"Against the column 'ill', on {name}: accuracy {accuracy:.4f}" in done.err
    # Of the fit are rows, not files: in another file, another order, another format, beside new rows, after changes.
    table.iloc[::-1].assign(age=table["age"] + (table.index == test[0])).to_parquet(tmp_path / "other.parquet")
    again = run("predict", model, tmp_path / "other.parquet", "--json").json
    assert again["fitted_scores"]["accuracy"] == pytest.approx(estimator.score(X.iloc[train], labels[train]))
    table.assign(age=table["age"] + 0.5).to_csv(tmp_path / "new.csv", index=False)
    new = run("predict", model, tmp_path / "new.csv")
    accuracy = estimator.score(X.assign(age=X["age"] + 0.5), labels)
    assert f"Against the column 'ill': accuracy {accuracy:.4f}" in new.err


@pytest.mark.parametrize("name", ["out.csv", "out.parquet"])
def test_predictions_into_a_file(
    run: Runner, data: Path, model: Path, table: pd.DataFrame, tmp_path: Path, name: str
) -> None:
    # Columns in another order, more of them, and no target.
    table[["cost", "blood pressure", "bmi", "age"]].to_csv(data, index=False)
    done = run("predict", model, data, "--output", tmp_path / name)
    assert done.code == 0
    assert f"60 predictions written to {tmp_path / name}" in done.out.replace("\n", "")
    found = pd.read_csv(tmp_path / name) if name.endswith("csv") else pd.read_parquet(tmp_path / name)
    assert found["prediction"].tolist() == load_model(model).predict(table[["age", "bmi", "blood pressure"]]).tolist()
    assert done.err == ""


def test_json_of_predict(run: Runner, data: Path, model: Path, table: pd.DataFrame) -> None:
    found = run("predict", model, data, "--json", "--proba").json
    assert (found["command"], found["n_rows"], found["output"]) == ("predict", 60, None)
    assert set(found["columns"]) == {"prediction", "probability_no", "probability_yes"}
    truth = np.array(found["columns"]["prediction"]) == table["ill"].to_numpy()
    train, test = train_test_split(np.arange(60), test_size=0.2, stratify=table["ill"], random_state=0)
    assert found["scores"]["accuracy"] == pytest.approx(np.mean(truth[test]), rel=1e-12)
    assert found["fitted_scores"]["accuracy"] == pytest.approx(np.mean(truth[train]), rel=1e-12)


@pytest.mark.parametrize("make", [MKLRegressor, HierarchicalMKL, NonlinearMKL])
def test_predict_with_several_targets(run: Runner, tmp_path: Path, make: type[Any]) -> None:
    X = np.random.default_rng(0).normal(size=(30, 2))
    estimator = make().fit(X, X)
    pd.DataFrame(X, columns=["a", "b"]).to_csv(tmp_path / "d.csv", index=False)
    save_model(estimator, tmp_path / "m.mkl")
    found = run("predict", tmp_path / "m.mkl", tmp_path / "d.csv", "--json").json
    assert (list(found["columns"]), found["scores"]) == (["prediction_0", "prediction_1"], None)
    np.testing.assert_allclose(np.transpose(list(found["columns"].values())), estimator.predict(X), rtol=1e-10)


@pytest.mark.parametrize("name", ["out.csv", "out.parquet"])
def test_predictions_are_named_after_the_targets_kept(run: Runner, tmp_path: Path, name: str) -> None:
    X = np.random.default_rng(0).normal(size=(30, 2))
    table = pd.DataFrame(np.c_[X, np.exp(X)], columns=["a", "b", "cost", "days"])
    table.to_csv(tmp_path / "d.csv", index=False)
    estimator = MKLRegressor().fit(table[["a", "b"]], np.exp(X))
    save_model(estimator, tmp_path / "m.mkl", metadata={"target": ["cost", "days"]})
    done = run("predict", tmp_path / "m.mkl", tmp_path / "d.csv", "--output", tmp_path / name)
    found = pd.read_csv(tmp_path / name) if name.endswith("csv") else pd.read_parquet(tmp_path / name)
    assert list(found.columns) == ["prediction_cost", "prediction_days"]
    score = r2_score(np.exp(X), estimator.predict(table[["a", "b"]]))
    assert f"Against the columns 'cost', 'days': R2 {score:.4f}" in done.err


def test_a_target_kept_for_a_model_of_two_is_not_scored(run: Runner, table: pd.DataFrame, tmp_path: Path) -> None:
    features, targets = table[["age", "bmi"]], table[["cost", "blood pressure"]]
    save_model(MKLRegressor().fit(features, targets), tmp_path / "m.mkl", metadata={"target": "cost"})
    table.to_csv(tmp_path / "d.csv", index=False)
    found = run("predict", tmp_path / "m.mkl", tmp_path / "d.csv", "--json").json
    assert (set(found["columns"]), found["scores"]) == ({"prediction_cost", "prediction_blood pressure"}, None)


def test_predict_names_what_the_table_lacks(run: Runner, data: Path, model: Path, table: pd.DataFrame) -> None:
    table.drop(columns=["bmi"]).to_csv(data, index=False)
    done = run("predict", model, data)
    assert done.code == 1
    assert "lacks 1 of the 3 columns that the model was fitted on: 'bmi'" in done.err
    table.loc[2, "bmi"] = np.nan
    table.to_csv(data, index=False)
    assert "'bmi' (1 of 60 rows). The model needs all of its columns" in run("predict", model, data).err


def test_predict_refuses_probabilities_of_the_hinge(run: Runner, data: Path, tmp_path: Path) -> None:
    run("fit", data, *FIT, "--loss", "hinge", "--output", tmp_path / "m.mkl")
    done = run("predict", tmp_path / "m.mkl", data, "--proba")
    assert (done.code, "--loss logistic" in done.err) == (1, True)


def test_predict_with_a_model_without_names(run: Runner, tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(30, 2))
    estimator = MKLRegressor().fit(X, X[:, 0])
    save_model(estimator, tmp_path / "m.mkl")
    pd.DataFrame(X, columns=["a", "b"]).to_csv(tmp_path / "d.csv", index=False)
    found = run("predict", tmp_path / "m.mkl", tmp_path / "d.csv", "--json").json
    np.testing.assert_allclose(found["columns"]["prediction"], estimator.predict(X), rtol=1e-10)
    pd.DataFrame(X[:, :1], columns=["a"]).to_csv(tmp_path / "d.csv", index=False)
    assert "2 columns without names; the table has 1" in run("predict", tmp_path / "m.mkl", tmp_path / "d.csv").err


def test_predict_refuses_precomputed_kernels(run: Runner, data: Path, tmp_path: Path) -> None:
    estimator = MKLRegressor("precomputed").fit(np.eye(10)[None], np.arange(10.0))
    save_model(estimator, tmp_path / "m.mkl")
    done = run("predict", tmp_path / "m.mkl", data)
    assert (done.code, "precomputed kernels" in done.err) == (1, True)


# --- inspect ---


def test_json_of_inspect(run: Runner, model: Path) -> None:
    found = run("inspect", model, "--json").json
    estimator = load_model(model)
    assert found["metadata"]["target"] == "ill"
    assert found["classes"] == ["no", "yes"]
    assert found["relative_gap"] == estimator.dual_gap_
    assert [row["relative_gap"] for row in found["history"]] == estimator.solution_.frame()["relative_gap"].tolist()
    assert [row["name"] for row in found["weights"]] == estimator.weights_frame()["name"].tolist()


def test_pictures_of_inspect(run: Runner, model: Path, tmp_path: Path) -> None:
    done = run("inspect", model, "--plot", tmp_path / "p.png")
    assert done.code == 0
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    assert "classification of 'ill'" in done.out
    assert run("inspect", model, "--plot", tmp_path / "p.doc").code == 1


def test_a_model_leaves_as_a_program(run: Runner, model: Path, tmp_path: Path) -> None:
    done = run("export", model, tmp_path / "model.py")
    assert (done.code, "Written to" in done.out) == (0, True)
    assert run("export", model, tmp_path / "model.py").code == 1  # it is there
    found = run("export", model, tmp_path / "model.py", "--force", "--json").json
    assert set(found["columns"]) <= set(load_model(model).feature_names_in_)
    assert run("export", model, tmp_path / "model.doc").code == 1


def test_inspect_refuses_other_files(run: Runner, data: Path) -> None:
    done = run("inspect", data, "--json")
    assert (done.code, "is not a model file" in done.json["error"]) == (1, True)


# --- the program itself ---


def test_version_and_help(run: Runner) -> None:
    assert run("--version").out == f"manykernels {manykernels.__version__}\n"
    text = run("--help").out
    assert all(command in text for command in ("fit", "predict", "inspect", "demo"))
    assert "3 the solver did not converge" in " ".join(text.split())


def test_the_version_is_told_at_once() -> None:
    code = "import sys; from manykernels.cli import main; sys.argv = ['manykernels', '--version']; main()"
    large = "; print([name for name in ('numpy', 'numba', 'pandas', 'sklearn', 'typer') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code + large], capture_output=True, text=True, check=False)
    assert done.stdout == f"manykernels {manykernels.__version__}\n[]\n"


def test_the_extra_of_the_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["manykernels", "fit", "data.csv"])
    monkeypatch.setattr("manykernels.cli.find_spec", lambda name: None)
    with pytest.raises(SystemExit, match=r"needs typer.*manykernels\[cli\]"):
        manykernels.cli.main()


def test_a_process_of_its_own(data: Path, tmp_path: Path) -> None:
    program = "import runpy; runpy.run_module('manykernels.cli', run_name='__main__', alter_sys=True)"
    found = python(program, "fit", data, *FIT, "--output", tmp_path / "m.mkl", "--json")
    assert found.returncode == 0, found.stderr
    assert found.stderr == ""
    assert found.stdout.startswith('{"command": "fit", "exit_code": 0')
    assert load_model(tmp_path / "m.mkl").n_features_in_ == 3


def test_predict_needs_no_columns_that_no_kernel_reads(run: Runner, tmp_path: Path) -> None:
    X = pd.DataFrame(np.random.default_rng(1).normal(size=(30, 2)), columns=["dose", "noise"])
    fitted = MKLRegressor(KernelBank.per_feature(Linear()), alpha=0.2).fit(X, X["dose"])
    save_model(fitted, tmp_path / "dose.mkl")
    X[["dose"]].to_csv(tmp_path / "dose.csv", index=False)
    done = run("predict", tmp_path / "dose.mkl", tmp_path / "dose.csv")
    assert done.code == 0, done.err
    values = np.array(done.out.split()[1:], dtype=float)
    np.testing.assert_allclose(values, fitted.predict(X), rtol=1e-6, atol=1e-12)
    X[["noise"]].to_csv(tmp_path / "noise.csv", index=False)
    assert "lacks 1 of the 2 columns" in run("predict", tmp_path / "dose.mkl", tmp_path / "noise.csv").err
