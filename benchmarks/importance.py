"""Does noise pass for a finding? Ranks of one weak true column among columns of noise, by norms and by predictions.

A draw has ``--rows`` rows (half of them to fit on, half held out), one true column whose AUC alone is 0.6, and noise: a
category of each number of levels, a column with heavy tails, a normal column and a copy of it. Printed is in how many
draws a column of noise is ranked above the true one by

- the norm shares of the kernels on it (what the model is built of),
- ``predictive_importance`` on the rows that were not fitted,
- ``importance`` of ``importance_frame`` (rows that were fitted, left out in closed form),
- ``feature_importances_`` (of these, what is beyond what noise reaches, or two standard errors),
- tests of single columns on the rows that were fitted, which know that the true column is a shift and others are
  categories: p-values of Mann and Whitney, and of chi squared; where these fail, the draw is to blame,

and in how many the true column is given no importance at all.

    python benchmarks/importance.py --draws 200
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
import pandas as pd
from scipy.stats import chi2_contingency, mannwhitneyu, norm

from manykernels import KernelBank, MKLClassifier, predictive_importance

LEVELS = (5, 30, 100, 1000)
AUC = 0.6


def draw(n_rows: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Return a table and labels that depend on its first column."""
    rng = np.random.default_rng(seed)
    y = rng.random(n_rows) < 0.5
    shift = np.sqrt(2.0) * norm.ppf(AUC)
    normal = rng.normal(size=n_rows)
    columns = {"true": rng.normal(size=n_rows) + shift * y, "normal": normal, "copy": normal.copy()}
    columns["heavy tails"] = rng.standard_t(1.5, size=n_rows)
    columns |= {f"{levels} levels": pd.Categorical(rng.integers(0, levels, n_rows)) for levels in LEVELS}
    return pd.DataFrame(columns), y.astype(int)


def ranked_by(X: pd.DataFrame, y: np.ndarray, seed: int) -> dict[str, pd.Series]:
    """Return what each measure gives each column."""
    half = len(X) // 2
    model = MKLClassifier(KernelBank.auto(), resources={"time_limit": 60}).fit(X[:half], y[:half])
    names = pd.Index(X.columns)
    shares = model.weights_frame().groupby("columns")["norm_share"].sum()
    held_out = predictive_importance(
        model, X[half:], y[half:], n_repeats=30, scoring="neg_log_loss", random_state=seed
    ).set_index("name")["importance"]
    left_out = model.importance_frame().set_index("columns")["importance"]
    return {
        "norm shares": shares.reindex(names).fillna(0.0),
        "predictive_importance": held_out.reindex(names).fillna(0.0).clip(lower=0.0),
        "importance_frame": left_out.reindex(names).fillna(0.0).clip(lower=0.0),
        "feature_importances_": pd.Series(model.feature_importances_, index=names),
        "tests of columns": pd.Series([evidence(X[name][:half], y[:half]) for name in names], index=names),
    }


def evidence(column: pd.Series, y: np.ndarray) -> float:
    """Return minus the logarithm of the p-value of the test that suits a column."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return -float(np.log(chi2_contingency(pd.crosstab(column, y), correction=False).pvalue))
    return -float(np.log(mannwhitneyu(column[y == 1], column[y == 0]).pvalue))


def main() -> None:
    """Count draws in which noise is ahead, and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--smoke", action="store_true", help="one draw of few rows")
    options = parser.parse_args()
    n_draws, n_rows = (1, 200) if options.smoke else (options.draws, options.rows)
    ahead: dict[str, list[list[str]]] = {}
    lost: dict[str, int] = {}
    for seed in range(options.seed, options.seed + n_draws):
        X, y = draw(n_rows, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            measured = ranked_by(X, y, seed)
        for measure, values in measured.items():
            above = values.index[(values > values["true"]).to_numpy()].tolist()
            ahead.setdefault(measure, []).append(above)
            lost[measure] = lost.get(measure, 0) + int(values["true"] <= 0)
    print(f"{n_draws} draws of {n_rows} rows; draws in which noise is ranked above the true column of AUC {AUC}:")
    for measure, found in ahead.items():
        counts = pd.Series([name for above in found for name in above], dtype=object).value_counts()
        listed = ", ".join(f"{name} {count}" for name, count in counts.items())
        print(
            f"  {measure:22s} {sum(bool(above) for above in found):4d}   (true one: none {lost[measure]:3d})   {listed}"
        )


if __name__ == "__main__":
    main()
