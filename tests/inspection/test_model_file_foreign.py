"""Classes of users and pipelines in model files: saved, loaded in a new process, refused where nobody knows them."""

from __future__ import annotations

import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.svm import SVC
from tests.inspection.conftest import labels, table
from tests.support.processes import python

from manykernels import (
    InvalidInputError,
    KernelAligner,
    KernelBank,
    Linear,
    MKLClassifier,
    MKLRegressor,
    load_model,
    save_model,
)
from manykernels.exceptions import ModelFileError
from manykernels.inspection import register_class
from manykernels.inspection.model_file import values as foreign
from manykernels.objective import Squared

OWN = """
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from manykernels import KernelSpec, MKLRegressor
from manykernels.inspection import register_class
from manykernels.kernels import register_kernel
from manykernels.objective import BlockL1, Squared


@register_kernel
@dataclass(frozen=True)
class CommonPart(KernelSpec):
    kind: ClassVar[str] = "common_part_of_a_test"
    power: float = 1.0

    def __call__(self, A, B=None):
        B = A if B is None else B
        return np.minimum(A[:, None], B).sum(axis=2)

    def diag(self, A):
        return A.sum(axis=1)


@register_class
@dataclass(frozen=True)
class OwnLoss(Squared):
    name: ClassVar[str] = "own loss"
    label: str = "mine"


@register_class
@dataclass(frozen=True)
class OwnPenalty(BlockL1):
    name: ClassVar[str] = "own penalty"


@register_class
class OwnRegressor(MKLRegressor):
    pass
"""


def run(folder: Path, code: str) -> str:
    """Return what a new process prints."""
    found = python(textwrap.dedent(code), folder=folder)
    assert found.returncode == 0, found.stderr
    return found.stdout.strip()


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a module of a user, and a file with a model of the classes in it."""
    tmp_path = tmp_path_factory.mktemp("own")
    (tmp_path / "own_classes.py").write_text(OWN, encoding="utf-8")
    run(
        tmp_path,
        """
        import numpy as np
        from own_classes import CommonPart, OwnLoss, OwnPenalty, OwnRegressor
        from manykernels import KernelBank, save_model
        X = np.random.default_rng(0).uniform(0, 1, (40, 2))
        y = np.sin(3 * X[:, 0])
        bank = KernelBank.per_feature(CommonPart(2.0))
        model = OwnRegressor(bank, loss=OwnLoss("yours"), penalty=OwnPenalty(0.1)).fit(X, y)
        np.save("predicted.npy", model.predict(X))
        save_model(model, "own.mkl")
        """,
    )
    return tmp_path


def test_classes_of_users_come_back_in_a_new_process(own: Path) -> None:
    said = run(
        own,
        """
        import numpy as np
        import own_classes
        from manykernels import load_model
        model = load_model("own.mkl")
        X = np.random.default_rng(0).uniform(0, 1, (40, 2))
        print(type(model).__name__, model.loss, model.penalty, model.weights_frame()["kernel"][0])
        print(np.array_equal(model.predict(X), np.load("predicted.npy")))
        """,
    )
    assert said.startswith("OwnRegressor OwnLoss(label='yours') OwnPenalty(strength=0.1)")
    assert "common_part_of_a_test(power=2)" in said
    assert said.endswith("True")


def test_classes_that_were_not_imported_are_named(own: Path) -> None:
    with pytest.raises(ModelFileError, match=r"OwnRegressor.*if it is of your own, import it first"):
        load_model(own / "own.mkl")


@dataclass(frozen=True)
class Unregistered(Squared):
    """A loss that nobody registered."""


def test_an_unregistered_class_is_refused_with_the_remedy(tmp_path: Path) -> None:
    X = np.linspace(0, 1, 20)[:, None]
    model = MKLRegressor(loss=Unregistered()).fit(X, X[:, 0])
    with pytest.raises(ModelFileError, match=r"loss is a Unregistered.*register_class"):
        save_model(model, tmp_path / "model.mkl")


def test_what_cannot_be_registered_is_refused() -> None:
    class Plain:
        """Neither a dataclass nor an estimator."""

    with pytest.raises(InvalidInputError, match="neither a dataclass nor an estimator"):
        register_class(Plain)
    with pytest.raises(InvalidInputError, match="'Squared' is the name of manykernels"):
        register_class(dataclass(frozen=True)(type("Squared", (Squared,), {})))


# --- pipelines ---


def pipelines() -> dict[str, tuple[Any, Any, Any]]:
    """Return pipelines that are not fitted, with rows and targets."""
    X = table()
    mixed = X.assign(place=np.where(X["first"] > 0, "north", "south"))
    columns = ColumnTransformer(
        [("numbers", StandardScaler(), ["first", "second"]), ("text", OneHotEncoder(), ["place"])]
    )
    return {
        "scaled": (make_pipeline(StandardScaler(), MKLClassifier()), X, labels(X)),
        "columns": (make_pipeline(columns, MKLRegressor()), mixed, np.sin(X["second"])),
        "nested": (make_pipeline(make_pipeline(StandardScaler(), "passthrough"), MKLClassifier()), X, labels(X)),
        "aligner first": (make_pipeline(KernelAligner(), SVC(kernel="precomputed")), X, labels(X)),
        "alone": (make_pipeline(MKLClassifier()), X, labels(X)),
        "imputed": (make_pipeline(SimpleImputer(), MKLClassifier()), X.where(X > -1.5), labels(X)),
    }


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", list(pipelines()))
def test_pipelines_come_back(name: str, tmp_path: Path) -> None:
    pytest.importorskip("skops.io")
    pipeline, X, y = pipelines()[name]
    pipeline.fit(X, y)
    save_model(pipeline, tmp_path / "model.mkl")
    same = load_model(tmp_path / "model.mkl")
    assert [step for step, _ in same.steps] == [step for step, _ in pipeline.steps]
    assert np.array_equal(same.predict(X), pipeline.predict(X))


def test_a_pipeline_comes_back_in_a_new_process(tmp_path: Path) -> None:
    pytest.importorskip("skops.io")
    X = table()
    pipeline = make_pipeline(StandardScaler(), MKLClassifier()).fit(X.to_numpy(), labels(X))
    save_model(pipeline, tmp_path / "model.mkl")
    np.save(tmp_path / "rows.npy", X.to_numpy())
    np.save(tmp_path / "scores.npy", pipeline.decision_function(X.to_numpy()))
    code = """
    import sys
    import numpy as np
    from manykernels import load_model
    model = load_model("model.mkl")
    print(np.array_equal(model.decision_function(np.load("rows.npy")), np.load("scores.npy")), "pickle" in model.steps)
    """
    assert run(tmp_path, code) == "True False"


class Doubled(TransformerMixin, BaseEstimator):
    """A step of a user, which skops does not know."""

    def fit(self, X: Any, y: Any = None) -> Doubled:
        """Learn nothing."""
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X: Any) -> Any:
        """Return twice the numbers."""
        return 2 * np.asarray(X)


def test_types_that_nobody_trusts_are_refused_by_name(tmp_path: Path) -> None:
    pytest.importorskip("skops.io")
    X = table()
    pipeline = make_pipeline(Doubled(), MKLClassifier()).fit(X, labels(X))
    save_model(pipeline, tmp_path / "model.mkl")
    with pytest.raises(ModelFileError, match="Doubled, which skops does not know to be safe") as refused:
        load_model(tmp_path / "model.mkl")
    name = f"{Doubled.__module__}.Doubled"
    assert f"trusted=[{name!r}]" in str(refused.value)
    same = load_model(tmp_path / "model.mkl", trusted=[name])
    assert np.array_equal(same.predict(X), pipeline.predict(X))


def test_steps_that_cannot_be_written_are_named(tmp_path: Path) -> None:
    pytest.importorskip("skops.io")
    X = table()
    step = FunctionTransformer(lambda rows: rows)
    pipeline = Pipeline([("odd", step), ("model", MKLClassifier())]).fit(X, labels(X))
    with pytest.raises(ModelFileError, match=r"step 'odd' \(FunctionTransformer\) cannot be saved by skops"):
        save_model(pipeline, tmp_path / "model.mkl")
    assert list(tmp_path.iterdir()) == []


def test_pipelines_without_an_estimator_of_ours_are_refused(tmp_path: Path) -> None:
    X = table()
    pipeline = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, labels(X))
    with pytest.raises(ModelFileError, match="No step of the pipeline is an estimator of manykernels"):
        save_model(pipeline, tmp_path / "model.mkl")


def test_without_skops_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X = table()
    pipeline = make_pipeline(StandardScaler(), MKLClassifier(KernelBank.per_feature(Linear()))).fit(X, labels(X))
    monkeypatch.setitem(sys.modules, "skops.io", None)
    with pytest.raises(ImportError, match=r"pip install 'manykernels\[skops\]'"):
        save_model(pipeline, tmp_path / "model.mkl")
    with pytest.raises(ImportError, match=r"manykernels\[skops\]"):
        foreign.foreign_step(b"", [])


@pytest.mark.parametrize("seed", range(20))
def test_damaged_bytes_of_a_step_are_refused(seed: int, tmp_path: Path) -> None:
    pytest.importorskip("skops.io")
    data = bytearray(foreign.foreign_bytes(StandardScaler().fit(table()), "step"))
    rng = np.random.default_rng(seed)
    for place in rng.integers(len(data), size=20):
        data[place] = int(rng.integers(256))
    with pytest.raises((ValueError, ModelFileError), match=r"cannot be read|does not know"):
        foreign.foreign_step(bytes(data), [])
