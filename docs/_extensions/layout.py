"""Check the layout of built pages at two widths in headless Chromium: no overlaps, nothing wider than the screen.

``python docs/_extensions/layout.py docs/_build/html`` prints faults and exits with 1; ``make docs`` runs it. Without
Chromium it prints so and exits with 0.
"""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

PAGES = (
    "index.html",
    "start.html",
    "generated/manykernels.MKLClassifier.html",
    "generated/manykernels.estimators.html",
)
WIDTHS = (1280, 500)  # headless Chromium has no narrower window
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
SECONDS = 60
# Blocks of code and output, figures and paragraphs of an article, each with its box, and the width of the whole page.
MEASURE = """
<script>
window.addEventListener("load", () => {
  const boxes = [...document.querySelectorAll(".highlight > pre, article p, article img, article table")]
    .map(one => [one.tagName + ": " + one.textContent.trim().slice(0, 40), one.getBoundingClientRect(), one])
    .filter(([, box]) => box.width > 1 && box.height > 1);
  const overlaps = [];
  boxes.forEach(([name, a, one], i) => boxes.slice(i + 1).forEach(([other, b, two]) => {
    const inside = one.contains(two) || two.contains(one);
    const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    if (!inside && across > 2 && down > 2) overlaps.push(name + " | " + other);
  }));
  const report = document.createElement("pre");
  report.id = "layout";
  report.textContent = JSON.stringify({overlaps, wide: document.documentElement.scrollWidth - window.innerWidth});
  document.body.append(report);
});
</script>
"""
REPORT = re.compile(r'<pre id="layout"[^>]*>(.*?)</pre>', re.DOTALL)  # themes add attributes


def browser() -> str | None:
    """Return the path of a Chromium, or None."""
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


def complaints(page: Path, width: int, program: str) -> Iterator[str]:
    """Yield a line for each pair of blocks that overlap, and for a page wider than the screen."""
    text = page.read_text(encoding="utf-8")
    with tempfile.NamedTemporaryFile("w", dir=page.parent, suffix=".html", encoding="utf-8") as copy:
        copy.write(text.replace("</body>", f"{MEASURE}</body>"))
        copy.flush()
        command = [program, "--headless", "--no-sandbox", "--disable-gpu", f"--window-size={width},2000"]
        command += ["--virtual-time-budget=5000", "--dump-dom", f"file://{copy.name}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    found = REPORT.search(done.stdout)
    if found is None:
        yield f"{page.name} at {width} px: the browser returned no measurements"
        return
    measured = json.loads(html.unescape(found[1]))
    yield from (f"{page.name} at {width} px: overlap: {pair}" for pair in measured["overlaps"])
    if measured["wide"] > 0:
        yield f"{page.name} at {width} px: {measured['wide']} px wider than the screen"


def main(argument: str) -> int:
    """Check the pages of a folder; return 1 if anything is wrong."""
    program, folder = browser(), Path(argument).resolve()
    if program is None:
        print("no Chromium here: the layout of pages was not checked")
        return 0
    pages = [folder / name for name in PAGES if (folder / name).is_file()]
    found = [line for page in pages for width in WIDTHS for line in complaints(page, width, program)]
    print(*found, sep="\n", end="\n" if found else "")
    print(f"{len(pages)} pages at {len(WIDTHS)} widths, {len(found)} faults of layout")
    return int(bool(found) or not pages)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
