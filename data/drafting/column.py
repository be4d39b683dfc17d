"""What a code book says of one column, whatever its format.

>>> matched(["age ", "SEX"], {"AGE": BookColumn("AGE", "Age in years", "integer", lower=0, upper=99)})["age "].label
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
Code = tuple[str, str]  # a raw cell, and its words
Said = TypeVar("Said")
MOST_LISTED = 20  # numbers that may be codes

CODES = re.compile(r"(?<![\w.,-])(-?\d+)\s*=\s*([^,;|)\]]*[^,;|)\]\s])")  # in labels and notes
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
    """A column of a code book, as far as the book says it outright.

    Attributes:
        kind: the book's type; empty where it has none. A "text" has no list, only perhaps a first and a last code.
        values, missing: codes that are listed, and cells that the format (not only a label) calls missing, with words.
        lower, upper: bounds of numbers, or of dates in ISO form.
        absent, absence: the book says that cells may be empty, and its words for these.
        layout: of dates, for `datetime.strptime`.
        from_rows: a program may have made the list of values from rows.
        remarks: what its reader could not settle; each makes a question.
        notes: what else the book says of it, which makes a question if it speaks of codes.
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
        """Where its label and notes speak of codes, or of no answer by a number, that are not listed."""
        known = {raw for raw, _ in (*self.values, *self.missing)}
        spoken = (found[0] for text in (self.label, self.notes) for found in _SPEAKS.finditer(text))
        return [text for text in spoken if not {*_NUMBER.findall(text)[:1]} & known]


@dataclass(frozen=True)
class Book:
    """A code book: its columns by name, and what it says of how a file is written, as a schema's `file`."""

    columns: Mapping[str, BookColumn] = field(default_factory=dict)
    file: Mapping[str, object] = field(default_factory=dict)


def matched(names: Iterable[str], said: Mapping[str, Said]) -> dict[str, Said]:
    """Name → what is said of it, if anything; names may differ in case, and in blanks at their ends."""
    by_name = {plain_name(key): each for key, each in said.items()}
    return {name: said.get(name, by_name[plain_name(name)]) for name in names if plain_name(name) in by_name}


def one_line(text: object) -> str:
    """A text on one line, without control characters; whole numbers without a point, and nothing for None.

    >>> one_line("a:\\n# b\\u2028\\x1bc\\x00"), one_line(3.0), one_line(None)
    ('a: # b c', '3', '')
    """
    kept = (letter if letter.isspace() or letter in "\u200c\u200d" or unicodedata.category(letter)[0] != "C" else ""
            for letter in plain_text("" if text is None else text))  # fmt: skip
    return " ".join("".join(kept).split())
