"""Print the commands that make every run of the five papers anew, with as many repeats as the papers have.

    python experiments/reproduction.py [--data DIR] [--output DIR]

Each program writes a row a run, with revision, machine and seconds, and goes on where it stopped, so that the commands
can be given again after an interruption. Runs of the current numeric revision that are kept beside the pages are taken
over, so that another machine goes on where this one stopped. All runs take about 20 CPU hours. `make reproduction` runs
the commands, two at a time. A limit of 600 CPU seconds stands where a paper has none.
"""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from experiments.ledger import NUMERIC_REVISION, read

FOLDER = Path(__file__).parent
PAGES = FOLDER / "pages"
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


def take_over(output: Path, pages: Path = PAGES) -> dict[str, int]:
    """Copy the kept runs of the current numeric revision to where the programs go on; return their number by table.

    Parameters
    ----------
    output : Path
        Folder in which each program has one of its own. Run tables that are there already stay as they are.
    pages : Path
        Folder of the kept run tables.
    """
    taken = {}
    for program in OPTIONS:
        for name in sorted(set(re.findall(r"\w+_runs\.csv", (FOLDER / program).read_text()))):
            kept, place = pages / name, output / program.removesuffix(".py") / name
            if place.exists() or not kept.exists():
                continue
            runs = read(kept)
            current = runs[runs["numeric"] == NUMERIC_REVISION]
            if len(current):
                place.parent.mkdir(parents=True, exist_ok=True)
                current.to_csv(place, index=False)
                taken[name] = len(current)
    return taken


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
