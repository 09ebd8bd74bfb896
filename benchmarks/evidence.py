"""How much evidence a search should ask for before it leaves the plain averages of the kernels, or the constant.

``python benchmarks/evidence.py [--data DIR] [--rows 100] [--first 2] [--splits 2] [--sets NAME,...] [--resume]
[--constant] [--markdown FILE] [--smoke] [--output DIR]``

The untouched search of the CV estimators runs once a set and split; then every rule chooses among the same candidates,
and what it chooses is learned on all training rows and scored on held-out ones, beside the tuned uniform sum and the
tuned machine of ``accuracy.py``. A rule asks for so many standard errors of the difference over the folds of what is
special (one kind of kernels, a selection), and for one of a view alone. Which rule has the best mean difference to both
rivals is asked again with each set left out, and answered for this set by the rule that the others chose.

``--constant`` prints what a search may keep although its target may be noise. First table: among the splits of the
sets, and among draws of noise, how many targets are told from their random orders, with the sum of the kernels fitted
at several strengths. Second: of those that are not, how many are kept by rules that ask for so many errors of the folds
ahead of the constant, and what held-out rows gain by it: in parts of the constant's mean loss, and of accuracy or R2.
"""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import _common as common
import accuracy
import noise
import numpy as np
import pandas as pd
from sklearn.metrics import accuracy_score, log_loss, r2_score

from manykernels import MKLClassifierCV, MKLRegressorCV
from manykernels.estimators import permutations, strength
from manykernels.estimators.selection.mixtures import NARROW, SPECIAL
from manykernels.estimators.selection.strengths import Evidence, choose_candidates
from manykernels.solvers.fold import Candidate

ASKED = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, np.inf)
BEST = "the best score"
NAMES = {asked: f"{asked:g} errors" for asked in ASKED} | {np.inf: "the plain averages alone"}
SMOOTHED = (np.inf, 0.1, 0.03, 0.01, 0.003, 0.001)  # strengths over the trace; infinite: the sum is not fitted
KEPT = (0.0, 0.25, 0.5, 1.0, 2.0)  # errors of the folds, counting the rows that they share
NOISE, ENTRIES = "noise", 8000
CONSTANT = (
    "Share of targets told from their random orders, by strength",
    "Of those that are not: what is kept, and what new rows gain",
)


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
        return int(choose_candidates([replace(each, family=posed[id(each.family)]) for each in found], "best")[0])

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


def kept_at(scores: np.ndarray, constants: np.ndarray, share: float, errors: float) -> bool:
    """Whether scores of folds are ahead of the constant by so many errors."""
    with patch("manykernels.estimators.selection.strengths.USEFUL", errors):
        return bool(Evidence(share, np.full(1, np.nan)).useful(scores, constants)[0])


def beside_constant(name: str, bank: Any, X: Any, y: np.ndarray, X_new: Any, y_new: np.ndarray) -> dict[str, Any]:
    """Return what is known of the best model that a search found, and what it gains of new rows."""
    classes = y.dtype.kind in "iu"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there may be nothing
        model = (Classifier if classes else Regressor)(bank).fit(X, y)
        found, (whole, _, samples, *_) = model.kept
        told = {}
        for smoothed in SMOOTHED:
            with patch.object(permutations, "SMOOTHED", smoothed):
                told[f"p {smoothed:g}"] = strength.p_value(model._levels_of_noise(whole.problems, samples))
        shared = [replace(each, scores=each.scores.mean(axis=1, keepdims=True)) for each in found]
        best, share = int(choose_candidates(shared, "best")[0]), 1.0 / (model.n_folds_ - 1)
        kept = {f"kept {asked:g}": kept_at(shared[best].scores, shared[0].scores, share, asked) for asked in KEPT}
        scores = []
        for at in (best, 0):  # the first is the empty model
            model.learned_at(at)
            guess = model.predict(X_new)
            if classes:
                loss = log_loss(y_new, model.predict_proba(X_new), labels=model.classes_)
                scores.append((loss, accuracy_score(y_new, guess)))
            else:
                scores.append((np.mean((guess - y_new) ** 2), r2_score(y_new, guess)))
    (loss, score), (constant, least) = scores
    return {"set": name, **told, **kept, "loss": 1.0 - loss / constant, "score": score - least}


def of_constants(named: list[tuple[str, bool]], options: Any) -> tuple[list[dict[str, Any]], list[pd.DataFrame]]:
    """Return what is known of every split and of as many draws of noise, and both tables."""
    rows, seeds = [], range(options.first, options.first + options.splits)
    for name, classes in named:
        data = accuracy.load(name, options.data, classes=classes)
        for X, X_new, y, y_new in [] if data is None else [data.split(options.rows, seed) for seed in seeds]:
            rows.append(beside_constant(name, data.bank, X, y, X_new, y_new))
    for number in range(len(rows)):
        rng = np.random.default_rng([options.seed, options.first, number])
        X, y = noise.noise(rng, number, ENTRIES)
        rows.append(beside_constant(NOISE, None, X, y, X, rng.permutation(y)))  # new targets of what tells nothing
    frame = pd.DataFrame(rows)
    frame["of"] = np.where(frame["set"] == NOISE, NOISE, "sets")
    told = frame.groupby("of", sort=False)[[f"p {one:g}" for one in SMOOTHED]].agg(lambda p: np.mean(p <= 0.05))
    weak = frame[frame[f"p {permutations.SMOOTHED:g}"] > strength.SIGNIFICANT]
    lines = []
    for asked in KEPT:
        line: dict[str, Any] = {"errors": asked}
        for of, part in weak.groupby("of", sort=False):
            own = part[part[f"kept {asked:g}"]]
            line |= {f"kept of {of}": f"{len(own)} of {len(part)}"}
            line |= {f"{of}: {what}": own[what].mean() for what in ("loss", "score")}
            line[f"{of}: lowest"] = own["loss"].min()
        lines.append(line)
    return rows, [told.reset_index(), pd.DataFrame(lines)]


def main() -> int:
    """Measure, print, save."""
    parser = common.parser("How much evidence a search should ask for.")
    parser.add_argument("--constant", action="store_true", help="before it leaves the constant, in place of averages")
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
    if options.constant:
        rows, tables = of_constants(named, options)
        for title, table in zip(CONSTANT, tables, strict=True):
            common.print_table(table, title, dict.fromkeys(table.select_dtypes(float), ".3f"))
        common.save(pd.DataFrame(rows), record, options.output, "evidence_constant")
        return 0
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
