"""P-values of kernels beside those that SKAT and MiRKAT, packages of R, publish for their own example data.

``python benchmarks/published_p_values.py --data DIR`` reads ``SKAT.example.rda`` of SKAT, and ``throat.otu.tab.rda``,
``throat.meta.rda`` and ``throat.tree.rda`` of MiRKAT, from the folders ``data`` of the packages' sources, by ``rdata``
(``pip install rdata``). It prints the p-values of the packages' vignettes; those of the packages' formulas in NumPy,
with the tails of `chi_squares_tail`; and those of ``kernel_tests``. The packages take a dispersion as known where
``kernel_tests`` divides by its estimate: SKAT throughout (``plug-in``), MiRKAT that of two classes, which is 1. Without
the files it prints which are absent.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.spatial.distance import pdist, squareform
from scipy.stats import beta

from manykernels import KernelBank, Linear, MKLClassifier, MKLRegressor
from manykernels.inspection import kernel_tests
from manykernels.inspection.evidence.chi_squares import cauchy_combination, chi_squares_tail

FILES = ("SKAT.example", "throat.otu.tab", "throat.meta", "throat.tree")


Rows = list[tuple[str, float, float, float]]  # example, p-value published, by the package's formula, of kernel_tests


def tested(kernels: dict[str, np.ndarray], covariates: np.ndarray, y: np.ndarray) -> list[float]:
    """Return the p-values of kernels ``Z Z'``, given the features ``Z``, beside free covariates."""
    parts = {**kernels, "covariates": covariates}
    ends = np.cumsum([Z.shape[1] for Z in parts.values()])
    columns = np.split(np.arange(ends[-1]), ends[:-1])
    views = {name: own.tolist() for name, own in zip(parts, columns, strict=True) if len(own)}
    bank = KernelBank.from_views(views, Linear(), normalize=None, standardize=False)
    penalty: Any = {"covariates*": None, "*": "l1"} if covariates.size else "l1"
    X = np.hstack(list(parts.values()))
    model = (MKLClassifier if y.dtype == bool else MKLRegressor)(bank, penalty=penalty, alpha="0.5*max").fit(X, y)
    found = kernel_tests(model, X, y).set_index("name")["p_value"]
    return [float(found[[each.startswith(name) for each in found.index]].iloc[0]) for name in kernels]


def by_formula(Z: np.ndarray, covariates: np.ndarray, y: np.ndarray, ratio: bool) -> float:
    """Return the p-value of a kernel ``Z Z'`` by the formula of SKAT, or that of MiRKAT for classes (``ratio``)."""
    n, C = len(y), np.column_stack([np.ones(len(y)), covariates])
    rho, bend = y - C @ np.linalg.lstsq(C, y, rcond=None)[0], np.ones(n)
    scale = rho @ rho / (n - C.shape[1])
    if y.dtype == bool:
        coefficients, scale = np.zeros(C.shape[1]), 1.0
        for _ in range(30):  # steps of Newton's method
            mean = 1.0 / (1.0 + np.exp(-C @ coefficients))
            rho, bend = y - mean, mean * (1.0 - mean)
            coefficients += np.linalg.solve(C.T @ (bend[:, None] * C), C.T @ rho)
    HC = bend[:, None] * C
    P = np.diag(bend) - HC @ np.linalg.solve(C.T @ HC, HC.T)
    values, statistic = np.linalg.eigvalsh(Z.T @ P @ Z), float(np.sum((Z.T @ rho) ** 2)) / scale
    if not ratio:
        return chi_squares_tail(statistic, values)
    rest = n - C.shape[1] - len(values)
    values = values[-len(values) - min(rest, 0) :]
    return chi_squares_tail(0.0, np.r_[values - statistic / n, np.full(max(rest, 0), -statistic / n)])


def weighted_variants(Z: np.ndarray, a: float, b: float) -> np.ndarray:
    """Return minor alleles times weights: the density of a beta distribution at their frequencies."""
    Z = np.where(Z.mean(axis=0) > 1.0, 2.0 - Z, Z)
    return Z * beta.pdf(Z.mean(axis=0) / 2.0, a, b)


def skat(data: dict[str, Any]) -> Rows:
    """Return the rows of SKAT."""
    Z, X = np.asarray(data["Z"], dtype=float), np.asarray(data["X"], dtype=float)
    y, classes = np.ravel(data["y.c"]), np.ravel(data["y.b"]).astype(bool)
    rare, even = weighted_variants(Z, 1.0, 25.0), weighted_variants(Z, 0.5, 0.5)
    examples = [
        ("SKAT, continuous", 0.01874576, rare, X[:, :0], y),
        ("SKAT, continuous, two covariates", 0.002877041, rare, X, y),
        ("SKAT, two classes, two covariates", 0.1401991, rare, X, classes),
        ("the same, weights of Beta(0.5, 0.5)", 0.4931639, even, X, classes),
    ]
    return [
        (name, published, by_formula(own, among, target, False), *tested({"Z": own}, among, target))
        for name, published, own, among, target in examples
    ]


def features_of(distances: np.ndarray) -> np.ndarray:
    """Return features of the nearest kernel of squared distances."""
    centered = np.eye(len(distances)) - 1.0 / len(distances)
    values, vectors = np.linalg.eigh(-0.5 * centered @ distances**2 @ centered)
    kept = values > 1e-10 * values.max()
    return vectors[:, kept] * np.sqrt(values[kept])


def unifrac(counts: np.ndarray, edges: np.ndarray, lengths: np.ndarray, weighted: bool) -> np.ndarray:
    """Return UniFrac distances of samples from the counts of the leaves of a tree."""
    below = np.zeros((len(counts), int(edges.max()) + 1))
    below[:, 1 : counts.shape[1] + 1] = counts / counts.sum(axis=1, keepdims=True)
    order, ready = [], set(range(1, counts.shape[1] + 1))
    left = {int(parent): int(count) for parent, count in zip(*np.unique(edges[:, 0], return_counts=True), strict=True)}
    waiting = dict(enumerate(edges.tolist()))
    while waiting:
        for number in [n for n, (_, child) in waiting.items() if child in ready]:
            parent, child = waiting.pop(number)
            order.append(number)
            below[:, parent] += below[:, child]
            left[parent] -= 1
            if not left[parent]:
                ready.add(parent)
    shares = below[:, edges[:, 1]]
    found = np.zeros((len(counts), len(counts)))
    for i in range(len(counts)):
        a, b = shares[i], shares[:i]
        if weighted:
            found[i, :i] = (np.abs(a - b) @ lengths) / ((a + b) @ lengths)
        else:
            found[i, :i] = (((a > 0) != (b > 0)) @ lengths) / (((a > 0) | (b > 0)) @ lengths)
    return found + found.T


def mirkat(counts: pd.DataFrame, meta: pd.DataFrame, tree: dict[str, Any]) -> Rows:
    """Return the rows of MiRKAT."""
    leaves = [str(name) for name in tree["tip.label"]]
    edges, lengths = np.asarray(tree["edge"], dtype=int), np.asarray(tree["edge.length"], dtype=float)
    ordered = counts[leaves].to_numpy(dtype=float)
    antibiotics = meta["AntibioticUsePast3Months_TimeFromAntibioticUsage"].astype(str) != "None"
    covariates = np.column_stack([meta["Sex"].astype(str) == "Male", antibiotics]).astype(float)
    kernels = {
        "weighted UniFrac": features_of(unifrac(ordered, edges, lengths, True)),
        "unweighted UniFrac": features_of(unifrac(ordered, edges, lengths, False)),
        "Bray-Curtis": features_of(squareform(pdist(ordered, "braycurtis"))),
    }
    smoker = (meta["SmokingStatus"].astype(str) == "Smoker").to_numpy()
    own = tested(kernels, covariates, smoker)
    formula = [by_formula(Z, covariates, smoker, True) for Z in kernels.values()]
    names = [f"MiRKAT, {name}" for name in (*kernels, "all three, Cauchy combination")]
    published = (0.005306786, 0.003801015, 0.002287489, 0.003375785)
    own, formula = ([*values, cauchy_combination(values)] for values in (own, formula))
    return list(zip(names, published, formula, own, strict=True))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of the packages' example data")
    parser.add_argument("--smoke", action="store_true", help="the same")
    folder = parser.parse_args().data
    if absent := [name for name in FILES if not (folder / f"{name}.rda").is_file()]:
        print(f"{folder} has no {', '.join(f'{name}.rda' for name in absent)}: nothing is compared.")
        return
    import rdata

    skat_data, counts, meta, tree = (rdata.read_rda(folder / f"{name}.rda")[name] for name in FILES)
    print("| example | published | formula of the package | `kernel_tests` |\n| --- | --- | --- | --- |")
    for name, *values in [*skat(skat_data), *mirkat(counts, meta, tree)]:
        print(f"| {name} | {' | '.join(f'{value:.4g}' for value in values)} |")


if __name__ == "__main__":
    main()
