"""A kernel, a loss, a penalty and a solver of a user in one file, by name: fit, search, save, load, and the command."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from manykernels import register_kernel, register_loss, register_penalty, register_solver
from manykernels.exceptions import InvalidInputError
from manykernels.objective import LOSSES, Squared
from manykernels.solvers import WorkingSet
from manykernels.solvers.registration import use_module

OWN = '''
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from manykernels import register_kernel, register_loss, register_penalty, register_solver
from manykernels.kernels import KernelOfFeatures
from manykernels.objective import Capability, Curve, RegressionLoss, Regularizer
from manykernels.solvers import Solver


@register_kernel
@dataclass(frozen=True)
class Waves(KernelOfFeatures):
    """The inner product of sines and cosines: linear in the rows."""

    n: int = 2
    kind: ClassVar[str] = "waves"

    @property
    def rank(self):
        return 2 * self.n

    def features(self, A):
        angles = np.outer(np.asarray(A).sum(axis=1), np.arange(1, self.n + 1))
        return np.hstack([np.sin(angles), np.cos(angles)])


@register_loss
@dataclass(frozen=True)
class Doubled(RegressionLoss):
    """``(z - y)^2``."""

    name: ClassVar[str] = "doubled"
    smooth: ClassVar[bool] = True
    linear_dual: ClassVar[bool] = True

    @property
    def curvature(self):
        return 0.5

    @property
    def curvature_bound(self):
        return 2.0

    def value(self, y, z):
        return (z - y) ** 2

    def derivative(self, y, z):
        return 2.0 * (z - y)

    def second_derivative(self, y, z):
        return np.full(np.shape(z), 2.0)

    def _conjugate_inside(self, y, r):
        return r**2 / 4.0 - y * r

    def conjugate_derivative(self, y, r):
        return r / 2.0 - y

    def conjugate_second_derivative(self, y, r):
        return np.full(np.shape(r), 0.5)

    def dual_bounds(self, y):
        return np.full(np.shape(y), -np.inf), np.full(np.shape(y), np.inf)


@register_penalty
@dataclass(frozen=True)
class Even(Regularizer):
    """``C sum_m (t_m + t_m^2 / 2)``."""

    name: ClassVar[str] = "even"
    separable: ClassVar[bool] = True

    @cached_property
    def curve(self):
        return Curve(linear=self.strength, ridge=self.strength)


@register_solver
@dataclass(frozen=True, kw_only=True)
class OneSystem(Solver):
    """Solve for ``rho`` and ``b`` at the only possible weights."""

    name: ClassVar[str] = "one_system"
    needs: ClassVar[frozenset] = frozenset({Capability.LINEAR_DUAL, Capability.FIXED_WEIGHTS})

    def initialize(self, problem, start):
        return {"model": start}

    def step(self, problem, state):
        d = np.broadcast_to(problem.regularizer.weight_range[1], problem.n_kernels) / problem.penalties**2
        matrix = problem.stack.combine(d) + np.diag(problem.loss.curvature / problem.weight)
        of_y, of_one = np.linalg.solve(matrix, np.column_stack([problem.y, np.ones(problem.n_samples)])).T
        b = of_y.sum() / of_one.sum()
        state["model"] = of_y - b * of_one, d, float(b)

    def extract(self, problem, state):
        return state["model"]

    def newton_steps(self, state):
        return 0
'''
PROGRAM = """
import numpy as np
import own
from manykernels import KernelBank, MKLRegressor, MKLRegressorCV, load_model, save_model
from manykernels.kernels import PerFeature, spec_from_dict

X = np.random.default_rng(0).uniform(-2, 2, (120, 2))
y = np.sin(2 * X[:, 0])
bank = KernelBank([PerFeature([spec_from_dict({"kernel": "waves", "n": 3})], [0, 1])])
found = []
for given in ({"loss": "doubled"}, {"penalty": "even"}, {"penalty": "ridge", "solver": "one_system"}):
    model = MKLRegressor(bank, alpha=1e-3, tol=1e-6, **given).fit(X, y)
    save_model(model, "model.mkl")
    again = load_model("model.mkl")
    assert again.get_params()["loss"] == model.loss
    assert np.array_equal(again.predict(X), model.predict(X))
    assert model.dual_gap_ <= 1e-6
    found.append(model.score(X, y))
assert MKLRegressor(bank, resources={"representation": "factored"}).fit(X, y).representation_ == "factored"
search = MKLRegressorCV(bank, loss="doubled", penalty="even", cv=3).fit(X, y)
save_model(search, "model.mkl")
assert np.array_equal(load_model("model.mkl").predict(X), search.predict(X))
assert min([*found, search.score(X, y)]) > 0.99, found
print("all by name")
"""


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    own = os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=own, capture_output=True, text=True, check=False
    )


def test_four_classes_in_one_file_fit_search_save_and_load_by_name(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    done = run(tmp_path, "-c", PROGRAM)
    assert done.stdout.split("\n")[0] == "all by name", done.stderr


def test_the_command_takes_them_by_name(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.uniform(-2, 2, (90, 2)), columns=["a", "b"])
    table.assign(y=np.sin(2 * table["a"])).to_csv(tmp_path / "table.csv", index=False)
    (tmp_path / "bank.toml").write_text('[[kernels]]\nkernel = "waves"\ncolumns = ["a"]\nname = "a"\nn = 3\n')
    command = ["-m", "manykernels.cli", "--use", "own.py"]
    given = ["table.csv", "--target", "y", "--loss", "doubled", "--penalty", "even", "--alpha", "0.001"]
    fitted = run(tmp_path, *command, "fit", *given, "-o", "model.mkl")
    assert fitted.returncode == 0, fitted.stdout + fitted.stderr
    predicted = run(tmp_path, *command, "predict", "model.mkl", "table.csv", "-o", "out.csv")
    assert predicted.returncode == 0, predicted.stdout + predicted.stderr
    without = run(tmp_path, "-m", "manykernels.cli", "fit", *given, "-o", "other.mkl")
    assert without.returncode == 1
    assert "doubled" in without.stdout + without.stderr


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"There is no file 'nothing\.py' to use"):
        use_module("nothing.py")
    with pytest.raises(InvalidInputError, match="There is no module 'no_such_module' to use"):
        use_module("no_such_module")
    done = run(tmp_path, "-m", "manykernels.cli", "--use", "nothing.py", "fit", "table.csv")
    assert done.returncode == 2
    assert "nothing.py" in done.stderr


def test_names_that_are_taken_and_other_classes_are_refused() -> None:
    @dataclass(frozen=True)
    class Mine(Squared):
        pass

    with pytest.raises(InvalidInputError, match="The loss 'squared' is already Squared; choose another name"):
        register_loss(Mine)
    wrong: Any = int
    for register, word in ((register_loss, "loss"), (register_penalty, "penalty"), (register_solver, "solver")):
        with pytest.raises(InvalidInputError, match=f"A {word} is a frozen dataclass that inherits"):
            register(wrong)
    assert register_loss(Squared) is LOSSES["squared"]
    assert register_solver(WorkingSet) is WorkingSet
    assert callable(register_kernel)
