"""Tests of the documentation: long lines, broken links, and phrases that should be replaced by a standard term."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from itertools import chain, pairwise
from pathlib import Path
from tokenize import COMMENT

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
LONGEST = 120
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)

# These phrases were once used in this project. Each has a standard term that should be used instead.
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
# The total number of matches that is allowed, because a phrase may be correct English in some places. Reduce it if
# there are fewer.
ALLOWED = {"docs": 4, "code": 44}
ROOMS = ("data", "privacy", "stats", "synth", "inference", "eval", "analysis", "flows", "paper")


def prose(page: Path) -> str:
    """Return the text of a page without code, tables and addresses."""
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    text = re.sub(r"`[^`]*`|\]\([^)]*\)", " ", text)
    return "\n".join(line for line in text.splitlines() if not line.startswith(("|", "    ")))


def banned(text: str) -> Iterator[str]:
    """Return the phrases in a text that should be replaced, each with the standard term."""
    for idiom, instead in BANNED.items():
        for found in re.finditer(idiom, text, flags=re.IGNORECASE):
            yield f"{found[0]!r}: say {instead}"


def anchors(page: Path) -> set[str]:
    """Return the names of all headings of a page that can be used in a link."""
    titles = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_line_is_longer_than_120_columns_but_for_addresses(page: Path) -> None:
    lines = enumerate(page.read_text("utf-8").splitlines(), 1)
    assert not [number for number, line in lines if len(line) > LONGEST and "http" not in line]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_has_one_title_and_no_heading_skips_a_level(page: Path) -> None:
    """Each first-level heading is an entry in the contents of the site, and users of a screen reader navigate by the
    headings.
    """
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    levels = [len(marks) for marks in re.findall(r"^(#+) ", text, flags=re.MULTILINE)]
    assert levels[:1] == [1]
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_note_below_a_table_is_a_paragraph(page: Path) -> None:
    """In Markdown, consecutive lines are joined into one paragraph. Four notes used to be joined in this way."""
    lines = ["", *page.read_text("utf-8").splitlines()]
    assert not [after for before, after in pairwise(lines) if re.match(r"\(\d\) ", after) and before.strip()]


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_the_first_pages_do_not_promise_that_all_groups_are_served_alike(page: str) -> None:
    """They used to do so, although the error of the smallest group was twenty times as large as the error of the
    largest group.
    """
    assert not re.search(r"as\s+well\s+as\s+large", (ROOT / page).read_text("utf-8"))


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


def docstrings(module: Path) -> str:
    """Return the docstrings and the comments of a module, without examples and without names of code."""
    source = module.read_text("utf-8")
    nodes = ast.walk(ast.parse(source))
    texts = [ast.get_docstring(node) or "" for node in nodes if isinstance(node, DOCUMENTED)]
    comments = [
        token.string for token in tokenize.generate_tokens(io.StringIO(source).readline) if token.type == COMMENT
    ]
    text = "\n".join([*texts, *comments])
    return "\n".join(line for line in re.sub(r"`[^`]*`", " ", text).splitlines() if not line.strip().startswith(">>>"))


def modules() -> list[Path]:
    """Return the paths of all modules in the core and in paper/."""
    folders = [(ROOT / room).rglob("*.py") for room in ROOMS]
    return sorted(chain(*folders, (ROOT / "equistrata").glob("*.py")))


def texts(where: str) -> Iterator[tuple[Path, str]]:
    """Return the path and the text of each file."""
    if where == "docs":
        yield from ((page, prose(page)) for page in PAGES if page.name != "CHANGELOG.md")
    else:
        yield from ((module, docstrings(module)) for module in modules())


@pytest.mark.parametrize("where", ALLOWED)
def test_the_fields_words_are_used(where: str) -> None:
    found = [f"{path.relative_to(ROOT)}: {hit}" for path, text in texts(where) for hit in banned(text)]
    assert len(found) <= ALLOWED[where], "\n".join(sorted(found))


def test_pages_that_the_code_names_are_there() -> None:
    named = {page for module in modules() for page in re.findall(r"docs/[\w/-]+\.md", module.read_text("utf-8"))}
    assert not {page for page in named if not (ROOT / page).exists()}
