"""Print the commands that make every run of the five papers anew, with as many repeats as the papers have.

    python experiments/reproduction.py [--data DIR] [--output DIR]

Each program writes a row a run, with revision, machine and seconds, and goes on where it stopped, so that the commands
can be given again after an interruption. Runs of the current numeric revision that are kept beside the pages, or in
``unfinished`` as long as their tables are incomplete, are taken over, so that another machine goes on where this one
stopped. All runs take about 20 CPU hours. `make reproduction` runs
the commands, two at a time. A limit of 600 CPU seconds stands where a paper has none.
"""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[1]))
from experiments.ledger import NUMERIC_REVISION, read

FOLDER = Path(__file__).parent
PAGES, UNFINISHED = FOLDER / "pages", FOLDER / "unfinished"
OPTIONS: dict[str, str] = {
    "beyond/run.py": "--repeats 10",
    "citi/run.py": "",
    "pfbs/run.py": "",
    "skm/run.py": "",
    "spicymkl/table4.py": "--splits 10 --slow-splits 10 --limit 600",
    "spicymkl/figures.py": "--repeats 10",
    "spicymkl/traces.py": "",
    "thesis/alignment.py": "--repeats 10",
    "thesis/chapter3.py": "--draws 10 --frequencies 41",
    "thesis/greedy.py": "--repeats 10",
    "thesis/inner_search.py": "--repeats 10 --large-repeats 10",
    "thesis/polynomial.py": "--repeats 10 --limit 600",
    "thesis/polynomial_real.py": "",
    "thesis/real_data.py": "--repeats 10 --minutes 100000",
    "thesis/sampled_widths.py": "--repeats 10",
    "thesis/sampling.py": "",
    "thesis/scalability.py": "--repeats 10 --minutes 100000",
    "thesis/steps.py": "--repeats 10 --everything",
}
"""Options of each program beside data and output."""


def commands(data: str, output: str) -> list[str]:
    """Return one command a program, without the interpreter.

    Parameters
    ----------
    data : str
        Folder of archives.
    output : str
        Folder in which each program gets one of its own.
    """
    made = []
    for name, options in OPTIONS.items():
        place = f"{output}/{name.removesuffix('.py')}"
        given = ["--data", data, "--output", place, *shlex.split(options)]
        made.append(" ".join([f"experiments/{name}", *map(shlex.quote, given)]))
    return made


def take_over(output: Path, folders: Sequence[Path] = (UNFINISHED, PAGES)) -> dict[str, int]:
    """Copy the kept runs of the current numeric revision to where the programs go on; return their number by table.

    Runs that ended at a time limit are left out: they are made again under the limit of the command.

    Parameters
    ----------
    output : Path
        Folder in which each program has one of its own. Run tables that are there already stay as they are.
    folders : sequence of Path
        Folders of kept run tables; the first that has runs of a table is taken.
    """
    taken = {}
    for program in OPTIONS:
        for name in sorted(set(re.findall(r"\w+_runs\.csv", (FOLDER / program).read_text()))):
            place = output / program.removesuffix(".py") / name
            found = [runs for folder in folders if len(runs := current_runs(folder / name))]
            if found and not place.exists():
                place.parent.mkdir(parents=True, exist_ok=True)
                found[0].to_csv(place, index=False)
                taken[name] = len(found[0])
    return taken


def current_runs(path: Path) -> pd.DataFrame:
    """Return the runs of the current numeric revision that ended within their time limit, none without a file."""
    if not path.exists():
        return pd.DataFrame()
    runs = read(path)
    runs = runs[runs["numeric"] == NUMERIC_REVISION]
    return runs[runs["status"] != "time_limit"] if "status" in runs else runs


def main() -> None:
    """Print the commands."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="data", help="folder of archives")
    parser.add_argument("--output", default="experiments/results/reproduction", help="folder of results")
    arguments = parser.parse_args()
    take_over(Path(arguments.output))
    sys.stdout.write("\n".join(commands(arguments.data, arguments.output)) + "\n")


if __name__ == "__main__":
    main()
