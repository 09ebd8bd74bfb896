"""Support kernel machine by SMO: scaling in kernels and samples, the continuation along kappa, support kernels.

    python experiments/skm/run.py --data DIR [--quick] [--only SET] [--output DIR] [--page PAGE]

The experiment of Bach, Lanckriet and Jordan (2004), section 6. ``DIR`` holds ``ionosphere.npz`` and
``breast_cancer_wisconsin.npz`` with arrays ``X`` and ``y``, and ``adult_a9a.npz`` for a third set in the sweep over
samples; without it they are fetched from OpenML. ``--only`` runs the sweeps of one set. Writes three run tables, what
is in which is not run again, and two figures.
"""

from __future__ import annotations

import os
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
from rich.console import Console

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

mpl.use("Agg")

import _continuation  # noqa: E402
import _kernels  # noqa: E402
import _scaling  # noqa: E402

sys.path.insert(0, str(Path(__file__).parents[2]))
from experiments.ledger import Ledger, markdown, report  # noqa: E402
from experiments.program import command_line  # noqa: E402

CONSOLE = Console(width=150)
CONSTANT = 1.0
SEED = 0
STAGES, SUPPORT, SCALING = (f"skm_{name}_runs.csv" for name in ("stages", "support", "scaling"))
KEYS = {
    STAGES: ("data", "variant", "stage", "repeat"),
    SUPPORT: ("data", "program", "repeat"),
    SCALING: ("data", "sweep", "n_kernels", "n_samples", "program", "repeat"),
}
MEASURED = {
    STAGES: ("kappa", "eps1_over_n", "eps2", "optimal", "gap", "bound", "active", "cpu_s"),
    SUPPORT: ("kernels", "active", "support_vectors", "gap", "objective", "cpu_s"),
    SCALING: ("size", "cpu_s", "iterations", "active", "support", "gap", "status"),
}


@dataclass(frozen=True)
class Sizes:
    """How much is computed."""

    sweeps: dict[str, _scaling.Sweep]
    continued: tuple[str, ...]
    n_kernels: int
    n_samples: int
    stage_tol: float
    seconds: float
    support_tol: float


SWEEP = _scaling.Sweep(
    kernels=(6, 12, 24, 48, 96, 192),
    samples=(50, 71, 100, 141, 200, 400, 700),
    few=100,
    gap=1e-2,
    time_limit=8.0,
    repeats=3,
)
ADULT = replace(SWEEP, kernels=(), samples=(100, 200, 400, 800, 1600))
FULL = Sizes(
    sweeps={"ionosphere": SWEEP, "breast cancer": SWEEP, "adult": ADULT} | dict.fromkeys(_kernels.VARIANTS, ADULT),
    continued=("ionosphere", "breast cancer"),
    n_kernels=96,
    n_samples=351,
    stage_tol=1e-4,
    seconds=20.0,
    support_tol=1e-6,
)
QUICK_SWEEP = _scaling.Sweep(kernels=(4, 8), samples=(30, 60), few=30, gap=1e-2, time_limit=2.0, repeats=1)
QUICK = Sizes(
    sweeps={"ionosphere": QUICK_SWEEP, "breast cancer": QUICK_SWEEP}
    | dict.fromkeys(("adult", *_kernels.VARIANTS), replace(QUICK_SWEEP, kernels=())),
    continued=("ionosphere",),
    n_kernels=8,
    n_samples=50,
    stage_tol=1e-4,
    seconds=1.0,
    support_tol=1e-4,
)


def main() -> None:
    """Run everything and write it down."""
    parser = command_line(__doc__, "skm")
    parser.add_argument("--only", choices=list(FULL.sweeps), help="the sweeps of this set, and nothing else")
    arguments = parser.parse_args()
    sizes, output = QUICK if arguments.quick else FULL, arguments.output
    if arguments.only:
        sizes = replace(sizes, sweeps={arguments.only: sizes.sweeps[arguments.only]})
    else:
        continuation(sizes, arguments.data, output)
    scaling(sizes, arguments.data, output)
    CONSOLE.print(report(LEDGERS, output, arguments.page), markup=False, highlight=False, soft_wrap=True)


def continuation(sizes: Sizes, folder: str | None, output: Path) -> None:
    """Follow kappa on every set in both ways, and count support kernels."""
    stages, counts = (Ledger(output / name, KEYS[name], MEASURED[name]) for name in (STAGES, SUPPORT))
    for name in sizes.continued:
        if counts.find(data=name):
            continue
        kernels, y = _kernels.draw(*_kernels.load(name, folder), sizes.n_kernels, sizes.n_samples, SEED)
        tiny = kernels[:3, :30, :30], y[:30]  # compiles, which takes seconds of its own
        _continuation.follow(*tiny, CONSTANT, rescale=True, tol=1e-2, seconds=sizes.seconds)
        for variant in (_continuation.AS_PUBLISHED, _continuation.RESCALED):
            rescale = variant == _continuation.RESCALED
            given = {"rescale": rescale, "tol": sizes.stage_tol, "seconds": sizes.seconds}
            table = _continuation.follow(kernels, y, CONSTANT, **given)
            add(stages, table.assign(data=name, variant=variant, stage=range(len(table)), repeat=SEED))
        found = _continuation.support(kernels, y, CONSTANT, sizes.support_tol, 6 * sizes.seconds)
        add(counts, found.assign(data=name, repeat=SEED))
    _continuation.plot(stages.frame(), str(output / "stages.png"))


def add(ledger: Ledger, table: pd.DataFrame) -> None:
    """Write the rows of a table that are not there."""
    for row in table.to_dict("records"):
        if tuple(row[key] for key in ledger.keys) not in ledger:
            ledger.add({str(column): value for column, value in row.items()})


def scaling(sizes: Sizes, folder: str | None, output: Path) -> None:
    """Run the sweeps on every set."""
    ledger = Ledger(output / SCALING, KEYS[SCALING], MEASURED[SCALING])
    for name, sweep in sizes.sweeps.items():
        archive = _kernels.FILES[_kernels.VARIANTS.get(name, name)]
        if folder is not None and not (Path(folder) / f"{archive}.npz").exists():
            CONSOLE.print(f"{name}: no archive, left out")
            continue
        if ledger.find(data=name):
            continue
        X, y = _kernels.load(name, folder)
        kernels, y = _kernels.draw(X, y, max((*sweep.kernels, _scaling.FIXED_KERNELS)), max(sweep.samples), SEED)
        programs = list(_scaling.PROGRAMS) if name not in _kernels.VARIANTS else ["skm", "interior point"]
        add(ledger, pd.DataFrame([asdict(row) for row in _scaling.run(name, kernels, y, CONSTANT, sweep, programs)]))
    frame = ledger.frame()
    frame = frame[~frame["data"].isin(list(_kernels.VARIANTS))]
    if len(frame):
        _scaling.plot(frame, _scaling.exponents(frame), str(output / "scaling.png"))


# --- tables of the page ---------------------------------------------------------------------------------------------


def stages_table(runs: pd.DataFrame) -> dict[str, str]:
    """Return the continuation on each set, both ways beside each other."""
    made = {}
    for name, own in runs.groupby("data", sort=False):
        # The last stage of a kappa: one that is not close enough is gone on with.
        ways = {variant: part.groupby("kappa").last() for variant, part in own.groupby("variant", sort=False)}
        rows = []
        for kappa in sorted(set(own["kappa"]), reverse=True):
            cells = []
            for way in ways.values():
                known = kappa in way.index
                row = way.loc[kappa] if known else None
                told = [f"{row[column]:{form}}" for column, form in SHOWN.items()] if row is not None else [""] * 4
                cells += told
            rows.append([f"1/{1 / kappa:.0f}" if kappa < 1 else "1", *cells])
        head = [column for way in ways for column in (f"{way}: eps2", "gap", "kernels", "CPU s in all")]
        made[f"stages, {name}"] = markdown(["kappa", *head], rows)
    return made


SHOWN = {"eps2": ".2g", "gap": ".2g", "active": ".0f", "cpu_s": ".2g"}


def support_table(runs: pd.DataFrame) -> dict[str, str]:
    """Return the kernels and support vectors that each program ends with."""
    programs = list(dict.fromkeys(runs["program"]))
    rows = []
    for name, own in runs.groupby("data", sort=False):
        found = own.set_index("program")
        for label, column in (
            (f"kernels of {own['kernels'].iloc[0]}", "active"),
            ("support vectors", "support_vectors"),
        ):
            rows.append([f"{name}: {label}", *(f"{found.loc[program, column]}" for program in programs)])
        rows.append([f"{name}: CPU s", *(f"{found.loc[program, 'cpu_s']:.2g}" for program in programs)])
    return {"support": markdown([f"gap {runs['gap'].max():.0e} at most", *(f"`{p}`" for p in programs)], rows)}


def scaling_tables(runs: pd.DataFrame) -> dict[str, str]:
    """Return the exponents of all sweeps, seconds on Adult, and what changes them there."""
    adult = runs["data"] == "adult"
    own = runs[~adult & ~runs["data"].isin(list(_kernels.VARIANTS))]
    sweeps = {"scaling": exponents_table(own)} if len(own) else {}
    sweeps |= {"adult": adult_table(runs[adult])} if adult.any() else {}
    return sweeps | {
        "why adult": variants_table(
            runs[runs["program"].isin(["skm", "interior point"]) & (runs["sweep"] == "samples")]
        ),
    }


def exponents_table(runs: pd.DataFrame) -> str:
    """Return the exponents, in parentheses between the two largest sizes, and the seconds at the largest."""
    fits, rows = _scaling.exponents(runs), []
    for (name, sweep), part in fits.groupby(["data", "sweep"], sort=False):
        problems = runs[(runs["data"] == name) & (runs["sweep"] == sweep)]
        varied, fixed = ("N", "n_kernels") if sweep == _scaling.SWEEPS[-1] else ("M", "n_samples")
        label = f"{varied} to {problems['size'].max()}, {'M' if varied == 'N' else 'N'} = {problems[fixed].iloc[0]}"
        found = part.set_index("program")
        rows.append([str(name), label, *(cell(found.loc[p], problems["size"].max()) for p in _scaling.PROGRAMS)])
    return markdown(["data", "varied", *_scaling.PROGRAMS], rows)


def cell(fit: pd.Series, largest: int) -> str:
    """Return one exponent in words."""
    if fit["points"] == 0:
        return "none solved"
    seconds = f"{fit['seconds_there']:.2g} s"
    if fit["points"] == 1:
        return f"{fit['largest']:.0f}: {seconds} only"
    told = f", to {fit['largest']:.0f}" if fit["largest"] < largest else ""
    return f"{fit['exponent']:.2f} ({fit['last_exponent']:.2f}){told}; {seconds}"


def adult_table(runs: pd.DataFrame) -> str:
    """Return seconds on Adult, a row a size, and exponents."""
    wide = runs.assign(text=[f"{r.cpu_s:.2g}" if r.status == "converged" else "-" for r in runs.itertuples()])
    wide = wide.pivot_table(index="size", columns="program", values="text", aggfunc="first")
    rows = [[f"{size}", *(wide[p].get(size) or "" for p in _scaling.PROGRAMS)] for size in wide.index]
    rows = [[value if isinstance(value, str) else "" for value in row] for row in rows]
    fits = _scaling.exponents(runs).set_index("program")["exponent"]
    rows.append(
        ["exponent", *(f"{fits[p]:.1f}" if np.isfinite(fits.get(p, np.nan)) else "" for p in _scaling.PROGRAMS)]
    )
    return markdown(["N", *_scaling.PROGRAMS], rows)


def variants_table(runs: pd.DataFrame) -> str:
    """Return exponents in the samples, with the share of support vectors at the largest size."""
    fits, rows = _scaling.exponents(runs).set_index(["data", "program"]), []
    for name, own in runs.groupby("data", sort=False):
        exponents = [fits["exponent"].get((name, p), np.nan) for p in ("skm", "interior point")]
        told = [f"{value:.2f}" if np.isfinite(value) else "none" for value in exponents]
        solved = own[(own["program"] == "skm") & (own["status"] == "converged")]
        last = ["none", ""]
        if len(solved):
            row = solved.iloc[-1]
            last = [f"{row['n_samples']}, {row['cpu_s']:.2g} s", f"{100 * row['support'] / row['n_samples']:.0f} %"]
        rows.append([str(name), *told, *last])
    head = ["samples vary, 24 kernels", "exponent of skm", "of interior point"]
    head += ["largest N that skm solves", "support vectors there"]
    return markdown(head, rows)


LEDGERS = {STAGES: stages_table, SUPPORT: support_table, SCALING: scaling_tables}


if __name__ == "__main__":
    main()
