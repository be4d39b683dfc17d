"""How a text file writes its cells, and a workbook those that are texts: declared under `file` in a schema.

>>> german = Dialect.read({"delimiter": ";", "decimal": ",", "thousands": "."}, "schema people")
>>> german.number("1.234,5"), german.number("N"), german.number("1.5")
('1234.5', 'N', "'1.5'")
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import pandas as pd

from equistrata.data.columns.column import Value
from equistrata.data.columns.raw import ABSENT, number_in
from equistrata.errors import InputError

DELIMITERS = (",", ";", "\t", "|")  # that a draft tries on the header line, to declare one
UTF8, WINDOWS = "utf-8", "cp1252"  # the second has the characters of Latin-1, and the euro


@dataclass(frozen=True)
class Dialect:
    """How cells are written.

    Attributes:
        delimiter: between cells, one ASCII character; a comma if empty.
        quote: around a cell that holds a delimiter; one ASCII character.
        decimal, thousands: in numbers; one character, or no thousands separator. Numbers alone are read by them.
        encoding: a name that Python knows; UTF-8 if empty.
        absent: texts of cells that are absent, besides those that always are.
        sheet: of an Excel workbook; if empty, the only one that is shown and holds anything.
        header: the row of a sheet that has the names of its columns, from 1; 0 is the first that is not empty.
    """

    delimiter: str = ""
    quote: str = '"'
    decimal: str = "."
    thousands: str = ""
    encoding: str = ""
    absent: tuple[str, ...] = ()
    sheet: str = ""
    header: int = 0

    @classmethod
    def read(cls, spec: Any, here: str) -> Dialect:
        """The dialect that `file` of a schema declares. Raises InputError; `here` begins its sentence."""
        known = ", ".join(asdict(cls()))
        others = ("absent", "header")
        if not isinstance(spec, dict) or not all(isinstance(spec[key], str) for key in spec if key not in others):
            raise InputError(f"{here} needs 'file' to be a mapping from {known} to quoted text")
        if unknown := [key for key in spec if key not in asdict(cls())]:
            raise InputError(f"{here} has the unknown key {unknown[0]!r} in 'file'; known keys are {known}")
        absent, row = spec.get("absent", []), spec.get("header", 0)
        if not isinstance(absent, list) or not all(isinstance(each, str) and each == each.strip() for each in absent):
            raise InputError(f"{here} needs 'absent' of 'file' to be a list of quoted texts, as [\".\"]")
        if not isinstance(row, int) or isinstance(row, bool) or row < 0:
            raise InputError(f"{here} needs 'header' of 'file' to be the number of a sheet's row, from 1")
        made = cls(**{**spec, "absent": tuple(absent)})
        for key in ("delimiter", "quote"):
            value = spec.get(key, ",")
            if len(value) != 1 or not value.isascii() or value.isalnum() or value in "\r\n":
                raise InputError(f"{here} needs {key!r} of 'file' to be one ASCII character, no letter or digit")
        if made.mark == made.quote:
            raise InputError(f"{here} has one character for 'delimiter' and 'quote' of 'file'; declare two")
        if made.decimal not in (".", ","):
            raise InputError(f"{here} needs 'decimal' of 'file' to be a point or a comma, in quotes")
        if len(made.thousands) > 1 or made.thousands.isalnum() or made.thousands in (made.decimal, "-", "+"):
            raise InputError(f"{here} needs 'thousands' of 'file' to be one character other than 'decimal', or none")
        try:
            "".encode(made.coding)
        except LookupError:
            raise InputError(f"{here} needs 'encoding' of 'file' to be a known one, as utf-8 or cp1252") from None
        return made

    @property
    def mark(self) -> str:
        return self.delimiter or ","

    @property
    def coding(self) -> str:
        return self.encoding or UTF8

    @property
    def local(self) -> bool:
        """Numbers are not written as Python writes them."""
        return (self.decimal, self.thousands) != (".", "")

    def number(self, text: str) -> str:
        """A cell of a column of numbers as Python writes it; what is no number in this dialect never becomes one."""
        if self._number.fullmatch(text):
            return text.replace(self.thousands, "").replace(self.decimal, ".").strip()
        return text if number_in(text) is None else repr(text)

    @cached_property
    def _number(self) -> re.Pattern[str]:
        grouped = rf"[0-9]{{1,3}}(?:{re.escape(self.thousands)}[0-9]{{3}})+|" if self.thousands else ""
        fraction = rf"(?:{re.escape(self.decimal)}[0-9]*)?"
        return re.compile(rf"\s*[-+]?(?:{grouped}[0-9]+){fraction}(?:[eE][-+]?[0-9]+)?\s*")

    def meant(
        self, frame: pd.DataFrame, numbers: Collection[str], declared: Mapping[str, Collection[Value]]
    ) -> pd.DataFrame:
        """Rows of texts without the marks of missing cells, with the numbers of these columns as Python writes them.

        Args:
            declared: column → the values and codes that a schema has for its cells; none of them is such a mark.
        """
        made = {}
        for name, cells in frame.items():
            gone = {*ABSENT, *self.absent}.difference(declared.get(str(name), ()))
            if self.local and name in numbers:
                made[name] = with_texts(cells, partial(_number, gone, self.number))
            elif isinstance(cells.dtype, pd.CategoricalDtype):
                there = cells.cat.categories.isin([*gone])
                made[name] = cells.cat.remove_categories(cells.cat.categories[there]) if there.any() else cells
            else:
                made[name] = cells.where(~cells.isin([*gone]), None).astype(object)
        return pd.DataFrame(made, index=frame.index)


def _number(gone: Collection[str], number: Callable[[str], str], text: str) -> str | None:
    return None if text in gone else number(text)


def with_texts(cells: pd.Series, change: Callable[[str], str | None]) -> pd.Series:
    """Cells with other texts, or none, instead of those that they have; each text of categories is changed once."""
    if not isinstance(cells.dtype, pd.CategoricalDtype):
        return cells.map(lambda cell: change(cell) if isinstance(cell, str) else cell).astype(object)
    before = [*cells.cat.categories]
    after = [change(text) for text in before]
    if after == before:
        return cells
    places: dict[str, int] = {}
    moved = [-1 if text is None else places.setdefault(text, len(places)) for text in after]
    codes = np.array([*moved, -1], dtype=np.int32)[cells.cat.codes.to_numpy()]
    kept = pd.Index([*places], dtype=cells.cat.categories.dtype)
    return pd.Series(pd.Categorical.from_codes(codes, kept, validate=False), index=cells.index)


PLAIN = Dialect()
