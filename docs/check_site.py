"""Check a site as files, as someone opens it from disk: every link leads somewhere, and nothing is of another host.

python docs/check_site.py build/site
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADS = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
    "object": "data",
}
CSS_LOADS = re.compile(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)")


@dataclass
class Page(HTMLParser):
    """A page's anchors, its links, and what it loads."""

    names: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep what a tag names, links to or loads."""
        of = {name: value or "" for name, value in attrs}
        self.names |= {of[name] for name in ("id", "name") if of.get(name)}
        if tag == "a" and of.get("href"):
            self.links.append(of["href"])
        elif tag == "link" and of.get("rel") in ("stylesheet", "icon", "preload", "shortcut icon"):
            self.loads.append(of["href"])
        elif of.get(LOADS.get(tag, "")):
            self.loads.append(of[LOADS[tag]])
        if of.get("srcset"):
            self.loads += [each.split()[0] for each in of["srcset"].split(",")]


def read(path: Path) -> Page:
    """A page, parsed."""
    page = Page()
    page.feed(path.read_text("utf-8"))
    return page


def faults(site: Path) -> tuple[list[str], int]:
    """What is wrong with a site, a sentence each, and how many links and files were looked at."""
    pages = {path.resolve(): read(path) for path in sorted(site.rglob("*.html"))}
    wrong, count = [], 0
    for path, page in pages.items():
        where = path.relative_to(site.resolve())
        for target, loaded in [*((each, False) for each in page.links), *((each, True) for each in page.loads)]:
            count += 1
            parts = urlsplit(target)
            if parts.scheme == "data":
                continue
            if parts.scheme or parts.netloc:
                wrong += [f"{where} loads {target}, which is not in the site"] if loaded else []
                continue
            other = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not other.is_file():
                wrong.append(f"{where}: {target} is not there")
            elif parts.fragment and other in pages and unquote(parts.fragment) not in pages[other].names:
                wrong.append(f"{where}: {target} has no such place on its page")
    for path in sorted(site.rglob("*.css")):
        for found in CSS_LOADS.finditer(path.read_text("utf-8")):
            target = found[1] or found[2]
            if re.match(r"(https?:)?//", target):
                wrong.append(f"{path.relative_to(site)} loads {target}, which is not in the site")
    return wrong, count


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    if not (folder / "index.html").is_file():
        sys.exit(f"{folder} has no index.html; make the site first: make docs")
    found, looked_at = faults(folder)
    if found:
        sys.exit("\n".join(found))
    print(f"{folder / 'index.html'}: {looked_at:,} links, none dead, nothing from another host")
