"""Kernels of objects: splice sites beside tuned machines, planted motifs among many kernels of k-mers, molecules.

``python benchmarks/sequences.py [--problem splice] [--data DIR] [--draws 20] [--smoke] [--output DIR]``
``python benchmarks/sequences.py --problem motifs [--rows 10000] [--kernels 10] [--alone] [--chunks]``
``python benchmarks/sequences.py --problem molecules [--rows 50000]``

*splice* takes ``splice_ida.npz`` (60 letters round a site; 1,000 rows for training, 2,175 for the test, both drawn
anew). Three banks: one kernel a position and one a window of three letters, which tells where the site is; weighted
degree and spectrum kernels; and both. Beside them one Gaussian machine on the letters as four columns each, and boosted
trees on the letters as categories. Without the folder, sequences of the same shape are drawn. A picture shows what each
position contributes. *motifs* plants seven letters in nine of ten sequences of one class, and parts of them in all
others (none with ``--alone``), and learns which kernels see it; with ``--chunks`` by `solve` from a Parquet file,
10,000 rows at a time. *molecules* draws sparse counts of substructures of three sizes and learns which of 30 kernels,
five numbers of places for counts and for bits of each size, see what matters.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import _common as common
import numpy as np
import pandas as pd
import pyarrow
from matplotlib import pyplot
from pyarrow import parquet
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder
from sklearn.svm import SVC

from manykernels import KernelBank, MKLClassifier, MKLRegressor, solve
from manykernels.kernels import Fingerprint, Kmers, Overlap

CODES = np.array(list("?AGCT"))  # of the archive: A 1, G 2, C 3, T 4
PLACES = [*range(-30, 0), *range(1, 31)]  # before and behind the site
TRAINING = 1000
FORMATS = {"mean %": ".2f", "sem %": ".2f", "CPU s": ".2f", "GB": ".2f", "largest gap": ".0e", "gap": ".0e"}
LENGTH, MOTIF, SHARE = 200, "GATTACA", 0.9
CHUNK, SUBSTRUCTURES = 10_000, 20_000


# --- splice sites --------------------------------------------------------------------------------------------------


def splice_letters(folder: Path | None, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return one letter a place and the labels; without the archive, sites between AG and GT are drawn."""
    if folder is not None and (folder / "splice_ida.npz").exists():
        with np.load(folder / "splice_ida.npz", allow_pickle=False) as archive:
            return CODES[archive["X"].astype(int)], archive["y"].astype(int)
    rng = np.random.default_rng(seed)
    letters, y = rng.choice(CODES[1:], (1500, 60)), rng.choice([-1, 1], 1500)
    for place, letter in ((28, "A"), (29, "G"), (30, "G"), (31, "T"), (34, "G")):
        letters[(y == 1) & (rng.random(1500) < SHARE), place] = letter
    return letters, y


def table_of(letters: np.ndarray) -> pd.DataFrame:
    """Return the whole sequence, its letters, and its windows of three letters, named by their middle."""
    columns = {"dna": ["".join(row) for row in letters]}
    columns |= {f"letter {place:+d}": letters[:, j] for j, place in enumerate(PLACES)}
    windows = {
        f"three {PLACES[j + 1]:+d}": ["".join(row) for row in letters[:, j : j + 3]] for j in range(len(PLACES) - 2)
    }
    return pd.DataFrame(columns | windows)


def banks(table: pd.DataFrame) -> dict[str, KernelBank]:
    """Return kernels of positions, kernels of k-mers, and both."""
    positions = [(name, Overlap(), name) for name in table if name != "dna"]
    words = [(f"weighted degree {k}", Kmers(k, positional=True, shortest=1), "dna") for k in range(1, 7)]
    words += [(f"spectrum {k}", Kmers(k), "dna") for k in range(1, 7)]
    return {
        "MKL, positions and windows": KernelBank(positions),
        "MKL, weighted degree and spectra": KernelBank(words),
        "MKL, both": KernelBank([*positions, *words]),
    }


def peers(places: list[str]) -> dict[str, Any]:
    """Return a tuned Gaussian machine on letters as columns of 0 and 1, and boosted trees on letters as categories."""
    grid = {"svc__C": [1.0, 10.0, 100.0], "svc__gamma": [0.003, 0.01, 0.03]}
    machine = GridSearchCV(make_pipeline(OneHotEncoder(handle_unknown="ignore"), SVC()), grid, cv=3)
    trees = HistGradientBoostingClassifier(categorical_features=list(range(len(places))), random_state=0)
    return {
        "Gaussian SVC on one-hot letters, tuned": machine,
        "boosted trees on letters": make_pipeline(OrdinalEncoder(), trees),
    }


def splice(arguments: Any, record: dict[str, Any]) -> None:
    """Compare on random draws, print and draw."""
    letters, y = splice_letters(arguments.data, arguments.seed)
    table, n_draws = table_of(letters), 1 if arguments.smoke else arguments.draws
    n_train = 150 if arguments.smoke else TRAINING
    places = [name for name in table if name.startswith("letter")]
    rows, norms = [], []
    for draw in range(n_draws):
        order = np.random.default_rng(arguments.seed + draw).permutation(len(y))
        train, test = order[:n_train], order[n_train:]
        models: dict[str, Any] = {name: MKLClassifier(bank, alpha="auto") for name, bank in banks(table).items()}
        for name, model in (models | peers(places)).items():
            X = table if name in models else table[places]
            started = time.process_time()
            with common.quiet():
                model.fit(X.iloc[train], y[train])
            seconds = time.process_time() - started
            row = {"draw": draw, "method": name, "error": 1 - model.score(X.iloc[test], y[test]), "cpu_s": seconds}
            if name in models:
                row |= {"gap": model.dual_gap_, "kernels": int(np.count_nonzero(model.kernel_weights_))}
            rows.append(row)
        norms.append(share_of_places(models["MKL, positions and windows"]))
    runs = pd.DataFrame(rows)
    groups = runs.groupby("method", sort=False)
    summary = groups["error"].agg(["mean", "sem"]).mul(100).round(2).add_suffix(" %")
    summary[["CPU s", "largest gap", "kernels"]] = groups.agg({"cpu_s": "median", "gap": "max", "kernels": "median"})
    common.print_table(summary.reset_index(), f"Splice sites, {n_draws} draws of {n_train} rows", FORMATS)
    common.save(runs, record, arguments.output, "sequences_splice")
    draw_places(np.mean(norms, axis=0), arguments.output / "sequences_splice.png")


def share_of_places(model: MKLClassifier) -> np.ndarray:
    """Return what each place has of the norms: its letter, and a third of each window that it is in."""
    norms = model.weights_frame().set_index("name")["norm"]
    shares = np.zeros(len(PLACES))
    for name, norm in norms.items():
        kind, place = str(name).split()
        j = PLACES.index(int(place))
        if kind == "letter":
            shares[j] += norm
        else:
            shares[j - 1 : j + 2] += norm / 3
    return shares / shares.sum() if shares.any() else shares


def draw_places(shares: np.ndarray, path: Path) -> None:
    """Draw the share of each place."""
    figure, ax = pyplot.subplots(figsize=(8, 3), layout="constrained")
    ax.bar(np.arange(len(PLACES)) - 29.5, 100 * shares, width=0.9)
    ax.axvline(0, color="0.3", linewidth=1, linestyle=":")
    ax.set(xlabel="letters from the site", ylabel="share of norms, %")
    ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=80)
    pyplot.close(figure)


# --- planted motifs ------------------------------------------------------------------------------------------------


def planted(n_rows: int, seed: int, *, decoys: bool = True) -> tuple[pd.DataFrame, np.ndarray]:
    """Return sequences of 200 letters, most of one class with the motif; with decoys nothing shorter tells the classes.

    A motif alone is known by its parts: ``L - k + 1`` words of k letters in place of the one of all L give the same
    score for ``1 / sqrt(L - k + 1)`` of the norm, so that a penalty on norms prefers shorter words. Decoys take that
    away: a sequence with GATTACA holds a separate ATTAC too, each of the others GATTAC and ATTACA. Then words of up to
    six letters are as frequent in either class, with the letters beside them.
    """
    rng = np.random.default_rng(seed)
    letters = np.frombuffer(b"ACGT", dtype=np.uint8)[rng.integers(0, 4, (n_rows, LENGTH))]
    y = rng.integers(0, 2, n_rows)
    has, turned = (y == 1) & (rng.random(n_rows) < SHARE), rng.random(n_rows) < 0.5
    half, room = LENGTH // 2, LENGTH // 2 - len(MOTIF) - 1
    places = rng.integers(1, room, (n_rows, 2)) + np.array([0, half])
    for row, own in enumerate(letters):
        words = [MOTIF, MOTIF[1:-1]] if has[row] else [MOTIF[:-1], MOTIF[1:]]
        if not decoys:
            words = [MOTIF, ""] if has[row] else []
        for word, at in zip(words[:: -1 if turned[row] else 1], places[row].tolist(), strict=False):
            plant(own, word, at, rng)
    return pd.DataFrame({"dna": [row.tobytes().decode() for row in letters]}), y


def plant(letters: np.ndarray, word: str, at: int, rng: np.random.Generator) -> None:
    """Write a word, and beside a part of the motif no letter that would make more of it."""
    end = at + len(word)
    letters[at:end] = np.frombuffer(word.encode(), dtype=np.uint8)
    start = MOTIF.find(word)
    for beside, missing in ((at - 1, MOTIF[start - 1 : start]), (end, MOTIF[start + len(word) :][:1])):
        while word and missing and letters[beside] == ord(missing):
            letters[beside] = ord("ACGT"[rng.integers(4)])


def bank_of_words(n_kernels: int) -> KernelBank:
    """Return k-mers of one strand and of both, and longer ones hashed to fewer and fewer places: all different."""
    plain = [Kmers(k) for k in range(1, 11)] + [Kmers(k, reverse_complement=True) for k in range(1, 11)]
    hashed = [Kmers(k, n_features=2**size, seed=size) for size in (18, 16, 14, 12) for k in range(size // 2 + 1, 15)]
    both = [Kmers(k, reverse_complement=True, n_features=2**12, seed=1) for k in range(7, 11)]
    specs = (plain + hashed + both)[:n_kernels]
    return KernelBank([(f"{number}: {spec.label}", spec, "dna") for number, spec in enumerate(specs)])


def motifs(arguments: Any, record: dict[str, Any]) -> None:
    """Fit, and print what it took and which kernels have weight."""
    n_rows, n_kernels = (400, 4) if arguments.smoke else (arguments.rows, arguments.kernels)
    if arguments.chunks:
        table = pd.DataFrame([motifs_in_chunks(n_rows, n_kernels, arguments)])
        common.print_table(table, "Planted motifs, from a file", FORMATS)
        common.save(table, record, arguments.output, "sequences_chunks")
        return
    X, y = planted(n_rows, arguments.seed, decoys=not arguments.alone)
    model = MKLClassifier(
        bank_of_words(n_kernels), alpha=arguments.alpha, tol=1e-4, resources={"representation": "factored"}
    )
    started = time.process_time()
    with common.quiet():
        model.fit(X, y)
    seconds = time.process_time() - started
    found = [name for name, weight in zip(model.kernel_names_, model.kernel_weights_, strict=True) if weight > 0]
    row = {
        "rows": n_rows, "kernels": n_kernels, "CPU s": seconds, "GB": common.peak_memory_bytes() / 1e9,
        "gap": model.dual_gap_, "with weight": "; ".join(found),
    }  # fmt: skip
    table = pd.DataFrame([row])
    common.print_table(table, "Planted motifs", FORMATS)
    common.save(table, record, arguments.output, "sequences_motifs")


def motifs_in_chunks(n_rows: int, n_kernels: int, arguments: Any) -> dict[str, Any]:
    """Fit from a file that is read 10,000 rows at a time, and return what it took."""
    with tempfile.TemporaryDirectory() as folder:
        file, labels = Path(folder) / "rows.parquet", []
        with ExitStack() as files:
            writer: Any = None
            for first in range(0, n_rows, CHUNK):
                X, y = planted(min(CHUNK, n_rows - first), arguments.seed + first, decoys=not arguments.alone)
                rows = pyarrow.Table.from_pandas(X)
                writer = writer or files.enter_context(parquet.ParquetWriter(file, rows.schema))
                writer.write_table(rows)
                labels.append(y)
        started = time.process_time()
        found = solve(
            bank_of_words(n_kernels), 2.0 * np.concatenate(labels) - 1.0, X=str(file), loss="logistic",
            penalty="l1", alpha=arguments.alpha, tol=1e-4,
        )  # fmt: skip
        seconds = time.process_time() - started
    names = bank_of_words(n_kernels).fit(X).names
    words = [name for name, weight in zip(names, found.kernel_weights, strict=True) if weight > 0]
    return {
        "rows": n_rows, "kernels": n_kernels, "CPU s": seconds, "GB": common.peak_memory_bytes() / 1e9,
        "gap": found.certificate.relative_gap, "passes": found.passes, "with weight": "; ".join(words),
    }  # fmt: skip


# --- molecules -----------------------------------------------------------------------------------------------------


def molecules(arguments: Any, record: dict[str, Any]) -> None:
    """Fit on sparse counts of substructures, and print what it took and which kernels have weight.

    Of each of three sizes a molecule has 30 substructures, drawn from 20,000 of which few are frequent. What matters is
    how often each of the 500 most frequent of the middle size is there.
    """
    n_rows, rng = 300 if arguments.smoke else arguments.rows, np.random.default_rng(arguments.seed)
    sizes = ("small", "middle", "large")
    drawn = {size: (SUBSTRUCTURES * rng.random((n_rows, 30)) ** 3).astype(int) for size in sizes}
    effects = np.zeros(SUBSTRUCTURES)
    effects[:500] = rng.normal(size=500)
    y = effects[drawn["middle"]].sum(axis=1) + 2.0 * rng.normal(size=n_rows)
    X = pd.DataFrame({size: [Counter(row) for row in own.tolist()] for size, own in drawn.items()})
    bank = KernelBank([
        (f"{size} {places}{' bits' * binary}", Fingerprint("linear", n_features=places, binary=binary), size)
        for size in sizes for places in (256, 1024, 4096, 16384, 65536) for binary in (False, True)
    ])  # fmt: skip
    model = MKLRegressor(bank, alpha="1*noise", tol=1e-4, resources={"representation": "factored"})
    train, test = np.arange(n_rows) >= n_rows // 5, np.arange(n_rows) < n_rows // 5
    started = time.process_time()
    with common.quiet():
        model.fit(X[train], y[train])
    seconds = time.process_time() - started
    found = [name for name, weight in zip(model.kernel_names_, model.kernel_weights_, strict=True) if weight > 0]
    row = {
        "rows": int(train.sum()), "kernels": len(model.kernel_names_), "CPU s": seconds,
        "GB": common.peak_memory_bytes() / 1e9, "gap": model.dual_gap_, "R2 of others": model.score(X[test], y[test]),
        "with weight, of 10": ", ".join(f"{size} {sum(size in name for name in found)}" for size in sizes),
    }  # fmt: skip
    table = pd.DataFrame([row])
    common.print_table(table, "Molecules", FORMATS | {"R2 of others": ".3f"})
    common.save(table, record, arguments.output, "sequences_molecules")


def main() -> None:
    """Run one problem; with --smoke, all."""
    parser = common.parser(__doc__.splitlines()[0])
    parser.add_argument("--problem", choices=("splice", "motifs", "molecules"), default="splice", help="what to run")
    parser.add_argument("--data", type=Path, help="folder with splice_ida.npz")
    parser.add_argument("--draws", type=int, default=20, help="random draws of training rows")
    parser.add_argument("--rows", type=int, default=10_000, help="sequences with planted motifs, or molecules")
    parser.add_argument("--kernels", type=int, default=10, help="kernels of k-mers, at most 50")
    parser.add_argument("--chunks", action="store_true", help="read sequences from a file, 10,000 at a time")
    parser.add_argument("--alone", action="store_true", help="plant the motif without decoys, so that parts tell it")
    parser.add_argument("--alpha", type=float, default=0.01, help="strength for motifs")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    record = common.environment()
    common.print_environment(record)
    problems = {"splice": splice, "motifs": motifs, "molecules": molecules}
    for name in problems if arguments.smoke else (arguments.problem,):
        problems[name](arguments, record)


if __name__ == "__main__":
    main()
