"""The format of the cells in a text file or a workbook, which a schema declares under `file`.

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

DELIMITERS = (",", ";", "\t", "|")  # the delimiters that a draft tries on the header line
UTF8, WINDOWS = "utf-8", "cp1252"  # cp1252 has the characters of Latin-1 and the euro sign


@dataclass(frozen=True)
class Dialect:
    """The format of the cells in a file.

    Parameters
    ----------
    delimiter : str
        The ASCII character between two cells. The default is a comma.
    quote : str
        The ASCII character around a cell that contains a delimiter.
    decimal : str
        The decimal separator. It is only used in columns of numbers.
    thousands : str
        The thousands separator, or an empty text if there is none. It is only used in columns of numbers.
    encoding : str
        The name of the encoding in Python. The default is UTF-8.
    absent : tuple of str
        Additional texts of absent cells.
    sheet : str
        The name of the sheet of an Excel workbook. The default is the only visible sheet that is not empty.
    header : int
        The row of the sheet that contains the names of the columns, starting from 1. If 0, this is the first row that
        is not empty.
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
        """Return the dialect that a schema declares under `file`.

        Parameters
        ----------
        spec : object
            The value of the key `file` in the schema.
        here : str
            The start of the error message.

        Raises
        ------
        InputError
            If the declaration is not valid.
        """
        known = ", ".join(asdict(cls()))
        others = ("absent", "header")
        if not isinstance(spec, dict) or not all(isinstance(spec[key], str) for key in spec if key not in others):
            raise InputError(f"{here} needs 'file' to be a mapping from {known} to quoted text")
        if unknown := [key for key in spec if key not in asdict(cls())]:
            raise InputError(f"{here} has the unknown key {unknown[0]!r} in 'file'; known keys are {known}")
        absent, row = spec.get("absent", []), spec.get("header", 0)
        if not isinstance(absent, list) or not all(isinstance(each, str) and each == each.strip() for each in absent):
            raise InputError(f"{here} needs 'absent' of 'file' to be a list of quoted texts, such as [\".\"]")
        if not isinstance(row, int) or isinstance(row, bool) or row < 0:
            raise InputError(f"{here} needs 'header' of 'file' to be the number of a row of the sheet, starting at 1")
        made = cls(**{**spec, "absent": tuple(absent)})
        for key in ("delimiter", "quote"):
            value = spec.get(key, ",")
            if len(value) != 1 or not value.isascii() or value.isalnum() or value in "\r\n":
                raise InputError(
                    f"{here} needs {key!r} of 'file' to be one ASCII character that is not a letter or a digit"
                )
        if made.mark == made.quote:
            raise InputError(
                f"{here} has the same character for 'delimiter' and 'quote' of 'file'; declare different ones"
            )
        if made.decimal not in (".", ","):
            raise InputError(f"{here} needs 'decimal' of 'file' to be a point or a comma, in quotes")
        if len(made.thousands) > 1 or made.thousands.isalnum() or made.thousands in (made.decimal, "-", "+"):
            raise InputError(f"{here} needs 'thousands' of 'file' to be one character other than 'decimal', or empty")
        try:
            "".encode(made.coding)
        except LookupError:
            raise InputError(
                f"{here} needs 'encoding' of 'file' to be a known encoding, such as utf-8 or cp1252"
            ) from None
        return made

    @property
    def mark(self) -> str:
        return self.delimiter or ","

    @property
    def coding(self) -> str:
        return self.encoding or UTF8

    @property
    def local(self) -> bool:
        """True if the numbers are not written in the format of Python."""
        return (self.decimal, self.thousands) != (".", "")

    def number(self, text: str) -> str:
        """Return a cell of a column of numbers in the format of Python.

        A text that is not a number in this dialect is changed so that it is not a number in Python either.
        """
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
        """Return rows of texts in which absent cells are None and numbers have the format of Python.

        Parameters
        ----------
        frame : DataFrame
            The rows as texts.
        numbers : collection of str
            The names of the columns of numbers.
        declared : mapping of str to collection
            The values and codes that the schema declares for each column. A declared text never means an absent cell.

        Returns
        -------
        DataFrame
            The rows.
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
    """Apply a function to each text of a column, where the function returns the new text or None for an absent cell.

    The function is called only once for each category if the column is categorical.
    """
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
