"""A path of 30 strengths over linear kernels of column groups (the group lasso), certified, beside group solvers.

    python benchmarks/group_path.py [--smoke] [--problem NAME ...] [--repeats N] [--output FILE]

Prints CPU seconds of one thread (medians) and the largest certified gap on the path. Where adelie is installed (which
wants an environment of its own, with numpy below 2) it solves the same strengths in the same run: once to the tolerance
that it has by default, with the largest duality gap that its models turn out to have, computed here since it certifies
none; and once to the loosest of `TOLERANCES` at which every one of its gaps is at most the one asked for of ours. Of
several targets, of classes and of times until events its gaps are not computed: it runs by default alone. Runs take
turns; ``--output`` adds each as a row to a table.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import _common as common
import numpy as np
import pandas as pd

from manykernels import KernelBank, Linear, regularization_path, survival_array
from manykernels.threads import blas_threads

SIZE = 10  # of most groups
PROBLEMS = {
    "2,000 x 500 groups": (2_000, 500, SIZE, "squared"),
    "2,000 x 500 groups, correlated": (2_000, 500, SIZE, "correlated"),
    "20,000 x 100 groups": (20_000, 100, SIZE, "squared"),
    "20,000 x 100 groups, logistic": (20_000, 100, SIZE, "logistic"),
    "2,000 x 100 groups, three targets": (2_000, 100, SIZE, "targets"),
    "2,000 x 100 groups, three classes": (2_000, 100, SIZE, "classes"),
    "2,000 x 100 groups, times until events": (2_000, 100, SIZE, "times"),
    "20,000 x 100 groups, times until events": (20_000, 100, SIZE, "times"),
    "200 x 2,000 groups of five": (200, 2_000, 5, "squared"),
    "200 x 20,000 columns": (200, 20_000, 1, "squared"),
}
SMOKE = {
    f"200 x 20 groups, {task}": (200, 20, SIZE, task) for task in ("squared", "logistic", "targets", "classes", "times")
}
LOSSES = {
    "targets": {"loss": "squared", "outputs": "shared"},
    "classes": {"loss": "logistic", "outputs": "shared"},
    "times": {"loss": "cox"},
}
OUTPUTS = {"targets": 3, "classes": 3}
TRUE, N_ALPHAS, RATIO, TOL = 6, 30, 0.05, 1e-4
DEFAULT = 1e-7  # of adelie's tolerance
TOLERANCES = (DEFAULT, 1e-9, 1e-11, 3e-12, 1e-12, 1e-13)


def data(n: int, groups: int, size: int, loss: str) -> tuple[np.ndarray, Any]:
    """Return columns in column order and a target that six groups make, with noise."""
    rng = np.random.default_rng(0)
    X = np.asfortranarray(rng.normal(size=(n, groups * size)))
    if loss == "correlated":  # any two columns by a half
        X += rng.normal(size=(n, 1))
    shape = (OUTPUTS[loss],) if loss in OUTPUTS else ()
    weights = rng.normal(size=(TRUE * size, *shape))
    if loss == "correlated":  # what columns have in common says nothing
        weights -= weights.mean()
    scores = X[:, : TRUE * size] @ weights
    scores += rng.normal(size=(n, *shape)) * scores.std()
    if loss == "times":
        times = rng.exponential(np.exp(-scores / scores.std()))
        ends = rng.exponential(2.0 * np.median(times), size=n)
        return X, survival_array(times <= ends, np.minimum(times, ends))
    return X, {"logistic": np.sign(scores), "classes": scores.argmax(axis=-1)}.get(loss, scores)


def ours(X: np.ndarray, y: np.ndarray, size: int, loss: str) -> Any:
    """Return the path of this library."""
    groups = {f"group {start // size}": range(start, start + size) for start in range(0, X.shape[1], size)}
    bank = KernelBank.from_groups(groups, Linear(), standardize=False, normalize=None)
    return regularization_path(
        X,
        y,
        kernels=bank,
        penalty="l1",
        n_alphas=N_ALPHAS,
        alpha_min_ratio=RATIO,
        tol=TOL,
        representation="factored",
        **LOSSES.get(loss, {"loss": loss}),
    )


def with_adelie(X: np.ndarray, y: np.ndarray, size: int, loss: str, alphas: np.ndarray, tol: float = DEFAULT) -> Any:
    """Solve the same strengths by adelie, whose penalty of a group is unscaled here as well; return its state."""
    import adelie

    if loss == "times":
        glm = adelie.glm.cox(np.zeros(len(y)), y["time"], y["event"].astype(float))
    elif loss in OUTPUTS:  # whose loss is a mean over outputs, too
        glm = adelie.glm.multigaussian(y) if loss == "targets" else adelie.glm.multinomial(np.eye(OUTPUTS[loss])[y])
        alphas = alphas / OUTPUTS[loss]
    else:
        glm = adelie.glm.gaussian(y) if loss == "squared" else adelie.glm.binomial((y + 1) / 2)
    groups = np.arange(0, X.shape[1], size)
    return adelie.grpnet(
        X=X,
        glm=glm,
        groups=groups,
        penalty=np.ones(len(groups)),
        lmda_path=alphas,
        early_exit=False,
        progress_bar=False,
        n_threads=1,
        tol=tol,
        irls_tol=tol,
    )


def relative_gap(X: np.ndarray, y: np.ndarray, size: int, loss: str, alpha: float, v: np.ndarray, b: float) -> float:
    """Return the relative duality gap of a model, with the slopes of its loss, scaled, as the dual point."""
    n, z = len(y), X @ v + b
    if loss == "squared":
        value, rho = 0.5 * np.mean((y - z) ** 2), (y - z) / n
    else:
        value, rho = np.mean(np.logaddexp(0.0, -y * z)), y / (1.0 + np.exp(y * z)) / n
    rho = rho - rho.mean()
    norms = np.sqrt(((X.T @ rho).reshape(-1, size) ** 2).sum(axis=1))
    rho *= min(1.0, alpha / norms.max())
    if loss == "squared":
        dual = float(rho @ y - 0.5 * n * rho @ rho)
    else:
        q = np.clip(n * rho * y, 1e-300, 1.0 - 1e-16)
        dual = -float(np.mean(q * np.log(q) + (1.0 - q) * np.log1p(-q)))
    primal = value + alpha * float(np.sqrt((v.reshape(-1, size) ** 2).sum(axis=1)).sum())
    return (primal - dual) / primal


def largest_gap(X: np.ndarray, y: np.ndarray, size: int, loss: str, alphas: np.ndarray, state: Any) -> float:
    """Return the largest gap of the models of adelie on a path; NaN where it is not computed."""
    if loss in LOSSES:
        return np.nan
    models = zip(alphas, state.betas.toarray(), state.intercepts, strict=True)
    return max(relative_gap(X, y, size, loss, alpha, v, b) for alpha, v, b in models)


def seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    """Return the CPU seconds of a call, and what it returned."""
    start = time.process_time()
    out = call()
    return time.process_time() - start, out


def tolerances(X: np.ndarray, y: np.ndarray, size: int, loss: str, alphas: np.ndarray) -> list[float]:
    """Return adelie's own tolerance, and the loosest at which its gaps are at most ours, if that is another."""
    if loss in LOSSES:
        return [DEFAULT]
    for tol in TOLERANCES:
        if largest_gap(X, y, size, loss, alphas, with_adelie(X, y, size, loss, alphas, tol)) <= TOL:
            return list(dict.fromkeys((DEFAULT, tol)))
    return [DEFAULT]


def runs(name: str, problem: tuple[int, int, int, str], repeats: int) -> list[dict[str, Any]]:
    """Return a row for each run on one problem: ours, then adelie to each of its tolerances, and so on."""
    n, groups, size, loss = problem
    X, y = data(n, groups, size, loss)
    closely = loss != "correlated"  # which adelie takes minutes for
    loss = loss if closely else "squared"
    rows: list[dict[str, Any]] = []
    with blas_threads(n, 1):
        ours(*data(200, 20, size, loss), size, loss)  # compiles
        alphas = ours(X, y, size, loss).alphas
        peers = [DEFAULT] if find_spec("adelie") is not None else []
        if peers and closely:
            peers = tolerances(X, y, size, loss, alphas)
        for repeat in range(repeats):
            spent, path = seconds(lambda: ours(X, y, size, loss))
            table, own = path.summary(), {"problem": name, "repeat": repeat}
            found = {"largest_gap": table["relative_gap"].max(), "active": int(table["n_active"].iloc[-1])}
            rows.append({**own, "solver": "manykernels", "tol": TOL, "cpu_s": spent, **found})
            for tol in peers:
                spent, state = seconds(lambda tol=tol: with_adelie(X, y, size, loss, alphas, tol))
                last = np.abs(state.betas[-1].toarray().reshape(groups, -1)).sum(axis=1)
                found = {"largest_gap": largest_gap(X, y, size, loss, alphas, state), "active": int(np.sum(last > 0))}
                rows.append({**own, "solver": "adelie", "tol": tol, "cpu_s": spent, **found})
    return rows


def told(rows: pd.DataFrame) -> str:
    """Return the runs on one problem in a line: medians, gaps and ratios."""
    parts = []
    for (solver, tol), own in rows.groupby(["solver", "tol"], sort=False):
        spent = own["cpu_s"].median()
        part = f"{solver}, tol {tol:g}: {spent:.2f} CPU s, largest gap {own['largest_gap'].max():.1e}, "
        part += f"{own['active'].iloc[-1]} groups at the end"
        if solver != "manykernels":
            part += f", ratio {rows.loc[rows['solver'] == 'manykernels', 'cpu_s'].median() / spent:.1f}"
        parts.append(part)
    return "; ".join(parts)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="two small problems, once")
    parser.add_argument("--problem", nargs="*", help="only these")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", type=Path, help="a table (CSV) that every run is added to")
    arguments = parser.parse_args()
    problems = SMOKE if arguments.smoke else PROBLEMS
    warnings.simplefilter("ignore")
    record = common.environment()
    of_run = {"revision": record["revision"], "machine": record["cpu"], "numpy": np.__version__}
    for name in arguments.problem or problems:
        rows = pd.DataFrame(runs(name, problems[name], 1 if arguments.smoke else arguments.repeats)).assign(**of_run)
        print(f"{name}: {told(rows)}", flush=True)
        if arguments.output is not None:
            first = not arguments.output.exists()
            rows.to_csv(arguments.output, mode="a", header=first, index=False, float_format="%.4g")


if __name__ == "__main__":
    main()
