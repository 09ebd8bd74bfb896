"""One call for every problem, and every model read again by a program that has not seen it learn.

``solve`` takes matrices, factors, pairs, several outputs and survival times, with losses and penalties of one's own.
Estimators pose the same problems, and their files are opened in a new process, which predicts the same numbers.

Run with ``python examples/one_door.py``.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from custom_loss import LogCosh
from custom_regularizer import GroupMixture

from manykernels import (
    Gaussian,
    KernelBank,
    Linear,
    MKLRegressor,
    MKLSurvival,
    PairKernels,
    Pairs,
    load_model,
    save_model,
    solve,
    survival_array,
)
from manykernels.inspection import register_class

OWN_LOSS, OWN_PENALTY = register_class(LogCosh), register_class(GroupMixture)

rng = np.random.default_rng(0)
X, new = rng.uniform(-2, 2, size=(90, 3)), rng.uniform(-2, 2, size=(10, 3))
y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.2 * rng.normal(size=90)
Y = np.column_stack([y, X[:, 2] - y, np.cos(X[:, 0])])
times = survival_array(rng.uniform(size=90) < 0.7, rng.exponential(np.exp(-y)))
bank = KernelBank([(f"{kind} x{j}", kind, [j]) for j in range(3) for kind in (Linear(), Gaussian(1.0))])
fitted = bank.fit(X)
matrices = fitted.block(fitted.prepare(X), fitted.prepare(X))
members = [(i, j) for i in range(9) for j in range(10)]
pairs = Pairs(X[:9], X[:10], members)
of_pairs = PairKernels(bank, bank)
bonds = np.array([X[i, 0] + np.sin(2 * X[j, 1]) for i, j in members]) + 0.2 * rng.normal(size=90)
mixture = GroupMixture(2.0, groups=(0, 1) * 3, ratios=(0.5, 0.9), group_weights=(1.0, 1.0))

FACTORED = {"representation": "factored"}
SOLVED = {
    "dense": ((matrices, y), {"loss": "squared"}),
    "factored": ((bank, y), {"X": X, "loss": "squared", **FACTORED}),
    "pairs": ((of_pairs, bonds), {"X": pairs, "loss": "squared"}),
    "three outputs": ((bank, Y), {"X": X, "loss": "squared", "outputs": "shared"}),
    "Cox": ((bank, times), {"X": X, "loss": "cox"}),
    "own loss, own penalty": ((bank, y), {"X": X, "loss": OWN_LOSS(), "penalty": mixture, **FACTORED}),
}
ESTIMATORS = {
    "dense": (MKLRegressor(bank, resources={"representation": "gram"}), X, y, new),
    "factored": (MKLRegressor(bank, resources=FACTORED), X, y, new),
    "pairs": (MKLRegressor(of_pairs), pairs, bonds, pairs),
    "three outputs": (MKLRegressor(bank, outputs="shared"), X, Y, new),
    "Cox": (MKLSurvival(bank), X, times, new),
    "own loss, own penalty": (MKLRegressor(bank, loss=OWN_LOSS(), penalty=mixture, resources=FACTORED), X, y, new),
}


def read(folder: Path) -> None:
    """Open every file and compare its predictions with those that were made where it was learned."""
    for name, (_, _, _, rows) in ESTIMATORS.items():
        expected = np.load(folder / f"{name}.npy")
        off = np.abs(load_model(folder / f"{name}.mkl").predict(rows) - expected).max()
        if off > 1e-12 * np.abs(expected).max():
            raise SystemExit(f"{name}: predictions are off by {off}")
        print(f"  {name:22} predicts the same")


def main() -> None:
    """Solve, fit, save, and let a new process read."""
    for name, (arguments, options) in SOLVED.items():
        given = {"penalty": "l1", "alpha": "0.1*max", **options}
        if not isinstance(given["penalty"], str):
            given.pop("alpha")
        found = solve(*arguments, **given)
        print(f"{name:22} {found.solver:16} {found.status}, relative gap {found.dual_gap:.0e}")
    with tempfile.TemporaryDirectory() as folder:
        for name, (model, rows, target, fresh) in ESTIMATORS.items():
            model.fit(rows, target)
            save_model(model, Path(folder) / f"{name}.mkl")
            np.save(Path(folder) / f"{name}.npy", model.predict(fresh))
        print("In a new process:", flush=True)
        subprocess.run([sys.executable, __file__, "--read", folder], check=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--read"]:
        read(Path(sys.argv[2]))
    else:
        main()
