"""Views that some samples lack: masked kernels beside mean imputation and complete cases, accuracy over random draws.

``python benchmarks/missing_views.py [--draws 20] [--lose 0.6] [--data ../shared/data] [--smoke] [--output DIR]``

``tcga_breast``: three views (mRNA, miRNA, protein) of the 150 breast tumors that have all of them, three subtypes. In
every draw 60 % of the samples lose one view, drawn at random; 105 are fitted and 45 judged, classes in equal shares.
*masked*: samples without a view are zero in its kernels. *mean imputation*: they get the training means of its columns.
*complete cases*: only samples with all views are fitted; new ones are imputed, since every sample wants an answer. *all
views*: nobody loses anything, which is what could be had. The same kernels and the same strength for all: as they are;
*centered*, since in the space of a centered kernel zero, which masking puts in, is the mean sample; and *shared*,
centered with one set of weights for all classes, which so lose the same with a view.
With ``--smoke``, or without the data, a generator takes their place.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import _common as common
import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

from manykernels import KernelBank, MKLClassifier, Views
from manykernels.datasets import make_multiview

KINDS: dict[str, tuple[bool, str]] = {"": (False, "own"), ", centered": (True, "own"), ", shared": (True, "shared")}
BEST = "masked, shared"


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


def imputed(views: Views, train: np.ndarray) -> Views:
    """Return the views with the means of training samples where there is nothing."""
    return Views({name: views[name].fillna(views[train][name].mean()) for name in views.names})


def main() -> None:
    """Measure, print and save."""
    options = common.parser(__doc__.splitlines()[0])
    options.add_argument("--draws", type=int, default=20)
    options.add_argument("--lose", type=float, default=0.6, help="share of the samples that lose one view")
    options.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder with tcga_breast.npz")
    chosen = options.parse_args()
    record = common.environment()
    common.print_environment(record)
    file = chosen.data / "tcga_breast.npz"
    real = file.exists() and not chosen.smoke
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
