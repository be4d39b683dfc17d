"""The prose: no long lines, no broken links, no idiom of our own where the field has a word."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
LONGEST = 120

# Idioms that this project used once, and the field's word for each (docs/glossary.md lists both, so it is left out).
BANNED = {
    r"\blean(s|ed|ing)? on\b": "shrinkage, borrows from",
    r"\bdrown": "below the noise floor",
    r"\btold\b|\btells? of\b": "estimated, known, stated",
    r"\bis taken for\b|\btaken for\b": "mistaken for, treated as",
    r"\bbeforehand\b|\bthought of\b": "prior",
    r"\bstands? beside\b": "next to",
    r"\blies in\b": "is in",
    r"\bbut for\b": "except for",
    r"\bwhose\b|\bwhoever\b|\bnobody\b": "who, anyone who, no one",
    r"\bas (they|it) stands?\b": "unchanged",
    r"\bthe books\b|\boff the books\b": "accountant, uncharged",
}
ALLOWED = 10  # hits in all pages together: a glossary of words is no ban on English


def prose(page: Path) -> str:
    """A page without code, tables and addresses."""
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    text = re.sub(r"`[^`]*`|\]\([^)]*\)", " ", text)
    return "\n".join(line for line in text.splitlines() if not line.startswith(("|", "    ")))


def banned(text: str) -> Iterator[str]:
    """The idioms in a text, each with the field's word."""
    for idiom, instead in BANNED.items():
        for found in re.finditer(idiom, text, flags=re.IGNORECASE):
            yield f"{found[0]!r}: say {instead}"


def anchors(page: Path) -> set[str]:
    """The names that a page's headings can be linked by."""
    titles = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_line_is_longer_than_120_columns_but_for_addresses(page: Path) -> None:
    lines = enumerate(page.read_text("utf-8").splitlines(), 1)
    assert not [number for number, line in lines if len(line) > LONGEST and "http" not in line]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for target in re.findall(r"(?:\]\(|^\[[\w-]+\]: )([^)\s]+)", page.read_text("utf-8"), flags=re.MULTILINE):
        path, _, anchor = target.partition("#")
        if re.match(r"\w+:", target):
            continue
        other = page.parent / path if path else page
        if not other.exists() or (anchor and anchor not in anchors(other)):
            broken.append(target)
    assert not broken


def test_docs_use_the_fields_words() -> None:
    found = {
        f"{page.relative_to(ROOT)}: {hit}"
        for page in PAGES
        if page.name not in ("glossary.md", "CHANGELOG.md")
        for hit in banned(prose(page))
    }
    assert len(found) <= ALLOWED, "\n".join(sorted(found))
