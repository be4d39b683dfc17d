"""The description of a column in a code book, which is the same for all formats.

>>> age = BookColumn("AGE", "Age in years", "integer", lower=0, upper=99)
>>> match_entries(["age ", "SEX"], {"AGE": age})["age "].label
'Age in years'
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from equistrata.data.columns.column import plain_text
from equistrata.data.files.opening import plain_name

Kind = Literal["", "number", "integer", "date", "nominal", "ordinal", "boolean", "text", "id"]
Code = tuple[str, str]  # a raw cell and its label
Said = TypeVar("Said")
MOST_LISTED = 20  # the maximum number of listed numbers that can be codes

CODES = re.compile(r"(?<![\w.,-])(-?\d+)\s*=\s*([^,;|)\]]*[^,;|)\]\s])")  # codes in labels and notes
NO_ANSWER = re.compile(
    r"refus|declined|prefer not|don.?t know|do not know|\bdk\b|skip|missing|unknown|inap\b|inapplicable|\bn/?a\b"
    r"|n\.?i\.?u\b|valid skip|no (?:answer|response|data)|blank\b|not (?:answered|applicable|asked|ascertained"
    r"|available|collected|determined|in universe|known|measured|recorded|reported|specified|stated)", re.I
)  # fmt: skip
_OFTEN_NONE = r"(?<![\w.,-])(?:-\d+|9{2,}|8{2,}|7{2,})"
_NUMBER = re.compile(r"-?\d+")
_SPEAKS = re.compile(
    rf"{CODES.pattern}|{_OFTEN_NONE}\W{{1,3}}(?:if|for|when|means?|is|are|indicates?|denotes?|stands)\b"
    rf"|(?<![\w.,-])-?\d+\W{{1,3}}(?:{NO_ANSWER.pattern})|(?:{NO_ANSWER.pattern})\w*\W{{1,3}}-?\d+\b", re.I
)  # fmt: skip


@dataclass(frozen=True)
class BookColumn:
    """A column of a code book.

    The description only contains facts that the book states explicitly.

    Parameters
    ----------
    name : str
        The name of the column.
    label : str
        The label of the column.
    kind : str
        The type of the column in the book, or an empty text if the book has no type. A column of the type "text" has a
        list of values, or a first and a last code, or neither.
    values : tuple of Code
        The codes that are listed, and their labels.
    lower, upper : float or str, optional
        The bounds of the numbers, or the bounds of the dates as ISO dates.
    missing : tuple of Code
        The cells that the format of the book declares as missing, and their labels. A label alone is not sufficient.
    remarks : tuple of str
        The ambiguities that the reader of the book found. Each of them leads to a question.
    absent : bool
        If True, the book states that cells can be empty.
    absence : str
        The label of empty cells in the book.
    decimals : int, optional
        The number of decimals.
    layout : str
        The format of the dates, as in `datetime.strptime`.
    from_rows : bool
        If True, a program can have created the list of values from the rows.
    notes : str
        Additional notes in the book. They lead to a question if they mention codes.
    """

    name: str
    label: str = ""
    kind: Kind = ""
    values: tuple[Code, ...] = ()
    lower: float | str | None = None
    upper: float | str | None = None
    missing: tuple[Code, ...] = ()
    remarks: tuple[str, ...] = ()
    absent: bool = False
    absence: str = ""
    decimals: int | None = None
    layout: str = ""
    from_rows: bool = False
    notes: str = ""

    def __post_init__(self) -> None:
        for key in ("name", "label", "absence", "notes"):
            object.__setattr__(self, key, self.name.strip() if key == "name" else one_line(getattr(self, key)))
        for key in ("values", "missing"):
            object.__setattr__(self, key, tuple((one_line(raw), one_line(words)) for raw, words in getattr(self, key)))

    def unlisted(self) -> list[str]:
        """Return the parts of the label and the notes that mention a code that is not listed."""
        known = {raw for raw, _ in (*self.values, *self.missing)}
        spoken = (found[0] for text in (self.label, self.notes) for found in _SPEAKS.finditer(text))
        return [text for text in spoken if not {*_NUMBER.findall(text)[:1]} & known]


@dataclass(frozen=True)
class CodeBook:
    """A code book.

    Parameters
    ----------
    columns : mapping of str to BookColumn
        The columns by name.
    file : mapping
        The format of the cells in the file, as declared under `file` in a schema.
    """

    columns: Mapping[str, BookColumn] = field(default_factory=dict)
    file: Mapping[str, object] = field(default_factory=dict)


def match_entries(names: Iterable[str], said: Mapping[str, Said]) -> dict[str, Said]:
    """Return the entry of each name, where names can differ in case and in blanks at both ends.

    Names without an entry are left out.
    """
    by_name = {plain_name(key): each for key, each in said.items()}
    return {name: said.get(name, by_name[plain_name(name)]) for name in names if plain_name(name) in by_name}


def one_line(text: object) -> str:
    r"""Return a text on a single line and without control characters.

    Whole numbers are written without a decimal point, and None is an empty text.

    >>> one_line("a:\n# b\u2028\x1bc\x00"), one_line(3.0), one_line(None)
    ('a: # b c', '3', '')
    """
    kept = (letter if letter.isspace() or letter in "\u200c\u200d" or unicodedata.category(letter)[0] != "C" else ""
            for letter in plain_text("" if text is None else text))  # fmt: skip
    return " ".join("".join(kept).split())
