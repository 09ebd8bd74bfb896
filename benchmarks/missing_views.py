"""Views that some samples lack: masked kernels beside mean imputation and complete cases, accuracy over random draws.

``python benchmarks/missing_views.py [--draws 20] [--lose 0.6] [--data ../shared/data] [--smoke] [--output DIR]``
``python benchmarks/missing_views.py --curve [--draws 5] [--lose 0.6]``

``tcga_breast``: three views (mRNA, miRNA, protein) of the 150 breast tumors that have all of them, three subtypes. In
every draw 60 % of the samples lose one view, drawn at random; 105 are fitted and 45 judged, classes in equal shares.
*masked*: samples without a view are zero in its kernels. *mean imputation*: they get the training means of its columns.
*complete cases*: only samples with all views are fitted; new ones are imputed, since every sample wants an answer. *all
views*: nobody loses anything, which is what could be had. The same kernels and the same strength for all: as they are;
*centered*, since in the space of a centered kernel zero, which masking puts in, is the mean sample; and *shared*,
centered with one set of weights for all classes, which so lose the same with a view.
With ``--smoke``, or without the data, a generator takes their place.

``--curve`` asks what more patients bring, at the split that mixOmics publishes: 150 tumors for training, of whom 60 %
lose one view here, and 70 others, none of whom has proteins. A linear kernel a column, one set of weights for the three
subtypes, and the sparse group lasso over views and columns (a tree of penalties), untouched: *tree, masked*. (Of linear
kernels of standardized columns masking is what the mean is: zero.) Beside it *early fusion*: one table with the means
of training samples in its gaps, and a tuned logistic regression with the squared norm.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import _common as common
import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from manykernels import KernelBank, Linear, MKLClassifier, Views
from manykernels.datasets import make_multiview
from manykernels.kernels import PerFeature
from manykernels.objective import Tree

KINDS: dict[str, tuple[bool, str]] = {"": (False, "own"), ", centered": (True, "own"), ", shared": (True, "shared")}
BEST = "masked, shared"
CURVE = {"mean": ".3f", "std": ".3f"}


def tumors(file: Path) -> tuple[dict[str, pd.DataFrame], np.ndarray]:
    """Return the views and the subtypes of the samples that have all views."""
    with np.load(file) as held:
        X, y = held["X"], held["y"]
        names, ranges = held["view_names"], held["views"]
    whole = ~np.isnan(X).any(axis=1)
    return {str(n): pd.DataFrame(X[whole, a:b]) for n, (a, b) in zip(names, ranges, strict=True)}, y[whole]


def generated(seed: int) -> tuple[dict[str, pd.DataFrame], np.ndarray]:
    """Return three views of which two matter."""
    data = make_multiview(80, (4, 4, 4), 2, effect="linear", random_state=seed)
    return {name: data.X[columns] for name, columns in data.views.items()}, data.y


def losing(tables: dict[str, pd.DataFrame], share: float, rng: np.random.Generator) -> dict[str, pd.DataFrame]:
    """Return the views after a share of the samples has lost one of them."""
    n_samples = len(next(iter(tables.values())))
    losers = rng.permutation(n_samples)[: round(share * n_samples)]
    lost = rng.integers(0, len(tables), len(losers))
    return {name: table.drop(index=losers[lost == v]) for v, (name, table) in enumerate(tables.items())}


def classifier(center: bool, outputs: str) -> MKLClassifier:
    """Return the classifier that all methods share."""
    return MKLClassifier(KernelBank.from_views(center=center), outputs=outputs)


def accuracies(
    tables: dict[str, pd.DataFrame], y: np.ndarray, share: float, rng: np.random.Generator
) -> dict[str, float]:
    """Return the accuracy of every method on one draw."""
    everything = Views(tables)
    views = Views({name: table.reindex(everything.index) for name, table in losing(tables, share, rng).items()})
    train, test = train_test_split(np.arange(len(y)), test_size=0.3, stratify=y, random_state=int(rng.integers(2**31)))
    filled = imputed(views, train)
    complete = train[views.present.to_numpy()[train].all(axis=1)]
    plans: dict[str, tuple[Any, np.ndarray]] = {
        "all views": (everything, train),
        "masked": (views, train),
        "mean imputation": (filled, train),
        "complete cases": (filled, complete),
    }
    return {
        name + ending: classifier(*kind).fit(X[rows], y[rows]).score(X[test], y[test])
        for ending, kind in KINDS.items()
        for name, (X, rows) in plans.items()
    }


# --- learning curves -----------------------------------------------------------------------------------------------


def published(file: Path) -> tuple[Views, np.ndarray, np.ndarray]:
    """Return the views of all tumors, their subtypes, and which are for training."""
    with np.load(file) as held:
        X, y, train = held["X"], held["y"], held["train_idx"][0]
        spans = dict(zip(held["view_names"].tolist(), held["views"].tolist(), strict=True))
    labels = [f"tumor {i}" for i in range(len(y))]
    tables = {n: pd.DataFrame(X[:, a:b], labels, [f"{n} {j}" for j in range(b - a)]) for n, (a, b) in spans.items()}
    return Views(tables), y, np.isin(np.arange(len(y)), train)


def generated_views(seed: int) -> tuple[Views, np.ndarray, np.ndarray]:
    """Return three views of ten columns, classes that depend on two of them, and which samples are for training."""
    rng, labels = np.random.default_rng(seed), [f"sample {i}" for i in range(220)]
    y = rng.integers(0, 3, 220)
    tables = {
        name: pd.DataFrame(rng.normal(size=(220, 10)), labels, [f"{name} {j}" for j in range(10)])
        for name in ("first", "second", "third")
    }
    for name in ("first", "second"):
        tables[name].iloc[:, :3] += np.eye(3)[y]
    tables["third"].iloc[150:] = np.nan
    return Views(tables), y, np.arange(220) < 150


def errors(views: Views, y: np.ndarray, rows: np.ndarray, test: np.ndarray) -> list[tuple[str, float, int]]:
    """Return the balanced error of every method on the test samples, and how many columns it uses."""
    filled, groups = imputed(views, rows), {view: f"*{view} *" for view in views.names}
    bank = KernelBank([PerFeature([Linear()])], missing="mask", standardize=True)
    model = MKLClassifier(bank, penalty={"*": Tree(1.0, groups)}, outputs="shared")
    with common.quiet():
        model.fit(views[rows], y[rows])
    names = np.array(model.kernel_names_)[model.kernel_weights_ > 0]
    whole = pd.concat([filled[view] for view in views.names], axis=1).to_numpy()
    early = make_pipeline(
        StandardScaler(),
        LogisticRegressionCV(
            Cs=8, cv=3, max_iter=500, scoring="neg_log_loss", l1_ratios=(0.0,), use_legacy_attributes=False
        ),
    )
    with common.quiet():
        early.fit(whole[rows], y[rows])
    return [
        ("tree, masked", 1 - balanced_accuracy_score(y[test], model.predict(views[test])), len(names)),
        ("early fusion", 1 - balanced_accuracy_score(y[test], early.predict(whole[test])), whole.shape[1]),
    ]


def curve(views: Views, y: np.ndarray, training: np.ndarray, chosen: Any) -> pd.DataFrame:
    """Return the balanced errors of every draw and number of training samples."""
    rows, test = [], np.flatnonzero(~training)
    for draw in range(1 if chosen.smoke else chosen.draws):
        rng = np.random.default_rng([chosen.seed, draw])
        tables = {name: views[name].copy() for name in views.names}
        losers = rng.permutation(np.flatnonzero(training))[: round(chosen.lose * training.sum())]
        lost = rng.integers(0, len(tables), len(losers))
        for v, table in enumerate(tables.values()):
            table.iloc[losers[lost == v]] = np.nan
        order = rng.permutation(np.flatnonzero(training))
        order = order[np.argsort(_turns(y[order]), kind="stable")]  # any first ones hold all classes
        for n in (40, 150) if chosen.smoke else (20, 40, 75, 150):
            found = errors(Views(tables), y, np.sort(order[:n]), test)
            rows += [
                {"draw": draw, "patients": n, "method": name, "error": error, "columns": columns}
                for name, error, columns in found
            ]
    return pd.DataFrame(rows)


def _turns(y: np.ndarray) -> np.ndarray:
    """Return which part of its class a sample is the end of, so that classes take turns."""
    within = pd.Series(y).groupby(y).cumcount().to_numpy() + 0.5
    return within / np.bincount(y)[y]


def imputed(views: Views, train: np.ndarray) -> Views:
    """Return the views with the means of training samples where there is nothing."""
    return Views({name: views[name].fillna(views[train][name].mean()) for name in views.names})


def main() -> None:
    """Measure, print and save."""
    options = common.parser(__doc__.splitlines()[0])
    options.add_argument("--draws", type=int, default=20)
    options.add_argument("--lose", type=float, default=0.6, help="share of the samples that lose one view")
    options.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder with tcga_breast.npz")
    options.add_argument("--curve", action="store_true", help="errors by number of training samples")
    chosen = options.parse_args()
    record = common.environment()
    common.print_environment(record)
    file = chosen.data / "tcga_breast.npz"
    real = file.exists() and not chosen.smoke
    if chosen.curve or chosen.smoke:
        table = curve(*(published(file) if real else generated_views(chosen.seed)), chosen)
        groups = table.groupby(["patients", "method"], sort=False)
        shown = groups["error"].agg(["mean", "std"]).assign(columns=groups["columns"].median()).reset_index()
        common.print_table(shown, f"{'tcga_breast' if real else 'generator'}: balanced error of others", CURVE)
        common.save(table, record, chosen.output, "missing_views_curve")
        if chosen.curve:
            return
    tables, y = tumors(file) if real else generated(chosen.seed)
    rows = []
    for draw in range(2 if chosen.smoke else chosen.draws):
        found = accuracies(tables, y, chosen.lose, np.random.default_rng([chosen.seed, draw]))
        rows += [{"draw": draw, "method": name, "accuracy": accuracy} for name, accuracy in found.items()]
    table = pd.DataFrame(rows)
    shown = table.groupby("method", sort=False)["accuracy"].agg(["mean", "std", "min", "max"]).reset_index()
    wide = table.pivot(index="draw", columns="method", values="accuracy")
    shown[f"draws won or tied by {BEST}"] = [int((wide[BEST] >= wide[name]).sum()) for name in shown["method"]]
    title = (
        f"{'tcga_breast' if real else 'generator'}: {chosen.lose:.0%} of the samples lose one of {len(tables)} views"
    )
    common.print_table(shown, title, dict.fromkeys(["mean", "std", "min", "max"], ".4f"))
    common.save(table, record, chosen.output, "missing_views")


if __name__ == "__main__":
    main()
