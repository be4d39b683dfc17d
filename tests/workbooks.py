"""Workbooks of sheets that tests make."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

openpyxl = pytest.importorskip("openpyxl", reason="the extra 'excel' is not installed")


def saved(path: Path, sheets: dict[str, list[list[Any]]], change: Callable[[Any], None] = lambda book: None) -> Path:
    """Write sheets by their names; `change` may merge cells and the like."""
    book = openpyxl.Workbook()
    book.remove(book.active)
    for title, rows in sheets.items():
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(row)
    change(book)
    book.save(path)
    return path
