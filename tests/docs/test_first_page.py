"""The code book of the site's first page, which a stranger changes into her own."""

from pathlib import Path

import pytest
from pages import block

from equistrata.data.drafting.books import read_book
from equistrata.data.drafting.draft import draft


def book() -> str:
    """The code book, as the page has it."""
    text = block("docs/index.md", "cat > codebook.csv")
    return text.partition("<<'END'\n")[2].partition("END\n")[0]


@pytest.mark.parametrize(("written", "layout"), [("yyyy-mm-dd", "%Y-%m-%d"), ("dd.mm.yyyy", "%d.%m.%Y")])
def test_its_code_book_leaves_nothing_open(tmp_path: Path, written: str, layout: str) -> None:
    """A table with dates as 31.12.2024 did not fit the draft, and the book had no place to say it."""
    path = tmp_path / "codebook.csv"
    path.write_text(book().replace("yyyy-mm-dd", written), "utf-8")
    columns = book().split("\n")[1:-1]
    made = draft([line.partition(",")[0] for line in columns], read_book(path).columns, "people")
    assert made.asked == made.left_out == {}
    assert len(made.declared) == len(columns) == 6
    assert f'format: "{layout}"' in made.text
