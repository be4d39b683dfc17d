"""A function that writes workbooks for tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

openpyxl = pytest.importorskip("openpyxl", reason="the extra 'excel' is not installed")


def saved(path: Path, sheets: dict[str, list[list[Any]]], change: Callable[[Any], None] = lambda book: None) -> Path:
    """Write each sheet under its name and return the path. The function `change` may merge cells, for example."""
    book = openpyxl.Workbook()
    book.remove(book.active)
    for title, rows in sheets.items():
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(row)
    change(book)
    book.save(path)
    return path
