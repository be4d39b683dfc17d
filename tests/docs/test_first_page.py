"""Tests of the code book on the first page of the docs, which a reader can adapt."""

from pathlib import Path

import pytest
from pages import block

from equistrata.data.drafting.books import read_book
from equistrata.data.drafting.draft import draft


def book() -> str:
    """Return the code book of the page."""
    text = block("docs/index.md", "cat > codebook.csv")
    return text.partition("<<'END'\n")[2].partition("END\n")[0]


@pytest.mark.parametrize(("written", "layout"), [("yyyy-mm-dd", "%Y-%m-%d"), ("dd.mm.yyyy", "%d.%m.%Y")])
def test_its_code_book_leaves_nothing_open(tmp_path: Path, written: str, layout: str) -> None:
    """Regression test: the code book had no field for dates in the form 31.12.2024."""
    path = tmp_path / "codebook.csv"
    path.write_text(book().replace("yyyy-mm-dd", written), "utf-8")
    columns = book().split("\n")[1:-1]
    made = draft([line.partition(",")[0] for line in columns], read_book(path).columns, "people")
    assert made.asked == made.left_out == {}
    assert len(made.declared) == len(columns) == 6
    assert f'format: "{layout}"' in made.text
