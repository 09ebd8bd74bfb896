"""Whether links of built pages lead somewhere: to files inside the folder, and to anchors that are there once.

``python docs/_extensions/links.py docs/_build/html`` prints what is broken and exits with 1; ``make docs`` runs it.
Links to other sites are counted, not opened.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

POINTERS = {"href", "src", "data", "poster"}


@dataclass
class Page(HTMLParser):
    """Anchors of a page, and where its links lead."""

    anchors: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.anchors.append(value)
            if name in POINTERS and value:
                self.links.append(value)
            if name == "srcset" and value:
                self.links += [part.split()[0] for part in value.split(",") if part.strip()]


def read(path: Path) -> Page:
    """Return the anchors and links of a file."""
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def broken(folder: Path, pages: dict[Path, Page]) -> Iterator[str]:
    """Yield a line for each link that leads nowhere."""
    for path, page in pages.items():
        for link in dict.fromkeys(page.links):
            if not outside(link) and (problem := leads_nowhere(path, link, pages)):
                yield f"{path.relative_to(folder)}: {link}: {problem}"


def outside(link: str) -> bool:
    """Whether a link leaves the folder: another site, an address, or data in the link itself."""
    return bool(urlsplit(link).scheme or urlsplit(link).netloc)


def leads_nowhere(path: Path, link: str, pages: dict[Path, Page]) -> str:
    """Return what is wrong with a link inside the folder, or nothing."""
    parts = urlsplit(link)
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if target.is_dir():
        target = target / "index.html"
    if not target.is_file():
        return "there is no such file"
    anchor = unquote(parts.fragment)
    if anchor and target in pages and (found := pages[target].anchors.count(anchor)) != 1:
        return f"that page has {found} elements with the id {anchor!r}"
    return ""


def main(argument: str) -> int:
    """Check a folder of pages; return how many links are broken, at most 1."""
    folder = Path(argument).resolve()
    paths = [path for path in sorted(folder.rglob("*.html")) if "_static" not in path.parts]  # templates and parts
    pages = {path: read(path) for path in paths}
    found = list(broken(folder, pages))
    links = [link for page in pages.values() for link in page.links]
    elsewhere = {link for link in links if outside(link)}
    print(*found, sep="\n", end="\n" if found else "")
    print(
        f"{len(pages)} pages, {len(links) - sum(map(outside, links))} links inside them, {len(found)} broken; "
        f"{len(elsewhere)} addresses elsewhere, not opened"
    )
    return int(bool(found) or not pages)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
