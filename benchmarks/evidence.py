"""How much evidence a search should ask for before it leaves the plain averages of the kernels.

``python benchmarks/evidence.py [--data DIR] [--rows 100] [--first 2] [--splits 2] [--sets NAME,...] [--resume]
[--markdown FILE] [--smoke] [--output DIR]``

The untouched search of the CV estimators runs once a set and split; then every rule chooses among the same candidates,
and what it chooses is learned on all training rows and scored on held-out ones, beside the tuned uniform sum and the
tuned machine of ``accuracy.py``. A rule asks for so many standard errors of the difference over the folds of what is
special (one kind of kernels, a selection), and for one of a view alone. Which rule has the best mean difference to both
rivals is asked again with each set left out, and answered for this set by the rule that the others chose.
"""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import _common as common
import accuracy
import numpy as np
import pandas as pd
from sklearn.metrics import accuracy_score, r2_score

from manykernels import MKLClassifierCV, MKLRegressorCV
from manykernels.estimators.selection.mixtures import NARROW, SPECIAL
from manykernels.estimators.selection.strengths import chosen
from manykernels.solvers.fold import Candidate

ASKED = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, np.inf)
BEST = "the best score"
NAMES = {asked: f"{asked:g} errors" for asked in ASKED} | {np.inf: "the plain averages alone"}


class Kept:
    """The part that keeps what a search found, to choose again."""

    def _learn_choice(self: Any, found: list[Candidate], *others: Any) -> None:
        self.kept = (found, others)
        super()._learn_choice(found, *others)  # type: ignore[misc]

    def learned_at(self: Any, index: int) -> Any:
        """Return this model with another candidate learned in place of its choice."""
        self.best_index_, self.best_per_target_ = index, None
        super()._learn_choice(self.kept[0], *self.kept[1])  # type: ignore[misc]
        return self


class Classifier(Kept, MKLClassifierCV):
    """The classifier that keeps its candidates."""


class Regressor(Kept, MKLRegressorCV):
    """The regressor that keeps its candidates."""


def choices(found: list[Candidate]) -> dict[str, int]:
    """Return the position of what each rule chooses."""

    def choose(special: float, narrow: float) -> int:
        mixtures = {id(each.family): each.family for each in found}
        doubts = {NARROW: narrow, SPECIAL: special}
        posed = {key: replace(own, doubt=doubts.get(own.doubt, own.doubt)) for key, own in mixtures.items()}
        return int(chosen([replace(each, family=posed[id(each.family)]) for each in found], "best")[0])

    return {BEST: choose(0.0, 0.0)} | {NAMES[asked]: choose(asked, max(asked, NARROW)) for asked in ASKED}


def measured(data: accuracy.Data, rows: int, seed: int) -> list[dict[str, Any]]:
    """Return the held-out score of every rule and of both rivals on one split."""
    X, X_test, y, y_test = data.split(rows, seed)
    metric = accuracy_score if data.classes else r2_score
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the scores tell
        model = (Classifier if data.classes else Regressor)(data.bank).fit(X, y)
        of_rule = choices(model.kept[0])
        scores = {at: metric(y_test, model.learned_at(at).predict(X_test)) for at in set(of_rule.values())}
        makers = accuracy.rivals(data)
        rivals = {name: metric(y_test, makers[name]().fit(X, y).predict(X_test)) for name in accuracy.SINGLE}
    found = rivals | {rule: scores[at] for rule, at in of_rule.items()}
    return [{"set": data.name, "seed": seed, "method": name, "score": float(score)} for name, score in found.items()]


def compared(frame: pd.DataFrame) -> pd.DataFrame:
    """Return for each rule the means over the sets of its differences to the rivals, and how low the lowest are."""
    scores = frame.pivot_table(index=["set", "seed"], columns="method", values="score", sort=False)
    means = {name: scores.sub(scores[name], axis=0).groupby("set", sort=False).mean() for name in accuracy.SINGLE}
    rules = [BEST, *NAMES.values()]
    value = (means[accuracy.SINGLE[0]] + means[accuracy.SINGLE[1]])[rules] / 2
    won = {left: value.drop(index=left).mean().idxmax() for left in value.index} if len(value) > 1 else {}
    lines = []
    for rule in rules:
        line: dict[str, Any] = {"rule": rule}
        for name, own in means.items():
            line |= (
                {f"to {name}": own[rule].mean(), "lowest": own[rule].min()}
                if name == accuracy.SINGLE[1]
                else {f"to {name}": own[rule].mean()}
            )
        line["best without one set"] = sum(other == rule for other in won.values())
        lines.append(line)
    if won:
        judged = {
            f"to {name}": np.mean([own.loc[left, rule] for left, rule in won.items()]) for name, own in means.items()
        }
        lowest = min(means[accuracy.SINGLE[1]].loc[left, rule] for left, rule in won.items())
        lines.append({"rule": "that of the other sets", **judged, "lowest": lowest, "best without one set": len(won)})
    return pd.DataFrame(lines)


def main() -> int:
    """Measure, print, save."""
    parser = common.parser("How much evidence a search should ask for.")
    parser.add_argument("--data", type=Path, default=common.HERE.parents[1] / "shared" / "data", help="folder of sets")
    parser.add_argument("--rows", type=int, default=100, help="most training rows")
    parser.add_argument("--first", type=int, default=100, help="first split; accuracy.py begins with 0")
    parser.add_argument("--splits", type=int, default=2, help="random splits a set")
    parser.add_argument("--sets", default="", help="names of sets, separated by commas; all by default")
    parser.add_argument("--resume", action="store_true", help="keep what the folder of results has, measure the rest")
    parser.add_argument("--markdown", type=Path, help="also write the table to this file")
    options = parser.parse_args()
    record = common.environment()
    common.print_environment(record)
    named = [(name, True) for name in accuracy.CLASSES] + [(name, False) for name in accuracy.NUMBERS]
    if options.sets:
        named = [pair for pair in named if pair[0] in options.sets.split(",")]
    if options.smoke:
        named, options.rows, options.splits = [("wine", True), ("diabetes", False)], 40, 1
    path = options.output / "evidence.json"
    rows = json.loads(path.read_text())["rows"] if options.resume and path.is_file() else []
    known = {(row["set"], row["seed"]) for row in rows}
    for seed in range(options.first, options.first + options.splits):
        for name, classes in named:
            data = None if (name, seed) in known else accuracy.load(name, options.data, classes=classes)
            if data is not None:
                rows += measured(data, options.rows, seed)
                common.save(pd.DataFrame(rows), record, options.output, "evidence")
    table = compared(pd.DataFrame(rows))
    common.print_table(table, "Means over the sets of held-out differences", dict.fromkeys(table.columns[1:4], "+.4f"))
    if options.markdown is not None:
        options.markdown.write_text(accuracy.markdown(table))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
