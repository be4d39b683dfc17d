"""How a CSV file writes its cells, and a workbook those that are texts: declared under `file` in a schema, or as its
header line shows.

>>> german = Dialect.read({"delimiter": ";", "decimal": ",", "thousands": "."}, "schema people")
>>> german.number("1.234,5"), german.number("N"), german.number("1.5")
('1234.5', 'N', "'1.5'")
>>> booked = Dialect.read({"thousands": ",", "signs": ["$", "%"], "negative": "parentheses"}, "schema people")
>>> booked.number("($1,234.50)"), booked.number("12 %"), booked.number("€ 5")
('-1234.50', '12', '€ 5')
"""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from io import TextIOWrapper
from itertools import chain
from pathlib import Path
from typing import Any

from equistrata.data.columns.raw import number_in
from equistrata.data.files.kinds import unpacked
from equistrata.errors import InputError

DELIMITERS = (",", ";", "\t", "|")  # the first is meant where the header line fits several
UTF8, LATIN1, WINDOWS = "utf-8", "latin-1", "cp1252"
_LISTS = ("signs", "absent")
NEGATIVE = ("", "parentheses", "trailing")
_SIGN = re.compile(r"[^\d.,+()\s-](?:[^\d+()\s-]{0,8}[^\d.,+()\s-])?")  # kr. would end in a point
_WINDOWS = re.compile(rb"[\x80-\x9f]")  # control characters in Latin-1
_UNDEFINED = {b"\x81", b"\x8d", b"\x8f", b"\x90", b"\x9d"}  # no characters of Windows' form
_UNCLOSED = "; perhaps a quote in it is not closed"
_MOST_ROWS = 1 << 20  # of a sheet
LONGEST_LINE = 1 << 24  # bytes of a line of a CSV file; a longer one is refused before it fills the memory
_END = "\x00end of file"
_BOM = "\ufeff"


@dataclass(frozen=True)
class Dialect:
    """How a CSV file writes its cells.

    Attributes:
        delimiter: between cells, one ASCII character; if empty, that one of DELIMITERS by which the header line has
            most of the columns that are looked for.
        quote: around a cell that holds a delimiter; one ASCII character.
        decimal, thousands: in numbers; one character, or no thousands separator. Numbers alone are read by them.
        encoding: a name that Python knows; if empty, UTF-8, or what `latin_of` says of a header line that is not in it.
        signs: texts before or after numbers that mean nothing: of money, percent, or a unit.
        negative: how a number below zero is written: with a minus before it (empty), in parentheses, or with the minus
            after it (trailing).
        absent: texts of cells that are absent, besides those that always are.
        sheet: of an Excel workbook; if empty, the one that names most of the columns that are looked for.
        header: the row of a sheet that has the names of its columns, from 1; 0 if it is looked for.
    """

    delimiter: str = ""
    quote: str = '"'
    decimal: str = "."
    thousands: str = ""
    encoding: str = ""
    signs: tuple[str, ...] = ()
    negative: str = ""
    absent: tuple[str, ...] = ()
    sheet: str = ""
    header: int = 0

    @classmethod
    def read(cls, spec: Any, here: str) -> Dialect:
        """The dialect that `file` of a schema declares. Raises InputError; `here` begins its sentence."""
        known = list(asdict(cls()))
        others = (*_LISTS, "header")
        texts = isinstance(spec, dict) and all(isinstance(spec[key], str) for key in spec if key not in others)
        if not texts:
            raise InputError(f"{here} needs 'file' to be a mapping from {', '.join(known)} to quoted text")
        if unknown := [key for key in spec if key not in known]:
            raise InputError(f"{here} has the unknown key {unknown[0]!r} in 'file'; known keys are {', '.join(known)}")
        signs = spec.get("signs", [])
        if not isinstance(signs, list) or not all(isinstance(each, str) and _SIGN.fullmatch(each) for each in signs):
            raise InputError(
                f"{here} needs 'signs' of 'file' to be a list of short quoted texts without digits, points or minus, "
                'as ["€", "%"]'
            )
        absent = spec.get("absent", [])
        if not isinstance(absent, list) or not all(isinstance(each, str) and each == each.strip() for each in absent):
            raise InputError(f"{here} needs 'absent' of 'file' to be a list of quoted texts, as [\".\"]")
        row = spec.get("header", 0)
        if not isinstance(row, int) or isinstance(row, bool) or not 0 <= row <= _MOST_ROWS:
            raise InputError(f"{here} needs 'header' of 'file' to be the number of a sheet's row, from 1")
        made = cls(**{**spec, "signs": tuple(signs), "absent": tuple(absent)})
        if made.negative not in NEGATIVE:
            raise InputError(f"{here} needs 'negative' of 'file' to be {' or '.join(filter(None, NEGATIVE))}")
        for key in ("delimiter", "quote"):
            value = spec.get(key, ",")
            if len(value) != 1 or not value.isascii() or value.isalnum() or value in "\r\n":
                raise InputError(f"{here} needs {key!r} of 'file' to be one ASCII character, no letter or digit")
        if made.delimiter == made.quote:
            raise InputError(f"{here} has one character for 'delimiter' and 'quote' of 'file'; declare two")
        if made.decimal not in (".", ","):
            raise InputError(f"{here} needs 'decimal' of 'file' to be a point or a comma, in quotes")
        if len(made.thousands) > 1 or made.thousands.isalnum() or made.thousands in (made.decimal, "-", "+"):
            raise InputError(f"{here} needs 'thousands' of 'file' to be one character other than 'decimal', or none")
        try:
            "".encode(made.encoding or UTF8)
        except LookupError:
            raise InputError(f"{here} needs 'encoding' of 'file' to be a known one, as utf-8 or cp1252") from None
        return made

    @property
    def local(self) -> bool:
        """Numbers are not written as Python writes them."""
        return bool((self.decimal, self.thousands) != (".", "") or self.signs or self.negative)

    @property
    def declared(self) -> dict[str, Any]:
        """What a schema's `file` would say of it."""
        own, usual = asdict(self), asdict(Dialect())
        return {key: [*own[key]] if key in _LISTS else own[key] for key in own if own[key] != usual[key]}

    def number(self, text: str) -> str:
        """A cell of a column of numbers as Python writes it; what is no number in this dialect never becomes one."""
        if found := self._number.fullmatch(text):
            plain = found["number"].replace(self.thousands, "").replace(self.decimal, ".")
            around = [*map(found.groupdict().get, ("minus", "inner", "trail", "open"))]
            below = any(each in ("-", "(") for each in around)
            if sum(map(bool, around)) < 2 and bool(around[3]) == bool(found.groupdict().get("close")):
                return "-" * below + plain
        return text if number_in(text) is None else repr(text)

    def reads(self, text: str) -> bool:
        """Whether a cell is a number in this dialect."""
        return number_in(self.number(text)) is not None and bool(self._number.fullmatch(text))

    @cached_property
    def _number(self) -> re.Pattern[str]:
        grouped = rf"[0-9]{{1,3}}(?:{re.escape(self.thousands)}[0-9]{{3}})+|" if self.thousands else ""
        number = rf"(?P<number>(?:{grouped}[0-9]+)(?:{re.escape(self.decimal)}[0-9]*)?(?:[eE][-+]?[0-9]+)?)"
        if not self.signs and not self.negative:
            return re.compile(rf"\s*(?P<minus>[-+])?{number}\s*")
        sign = "(?:" + "|".join(map(re.escape, sorted(self.signs, key=len, reverse=True))) + ")?" if self.signs else ""
        left = r"(?P<open>\()?\s*" if self.negative == "parentheses" else ""
        right = {"parentheses": r"\s*(?P<close>\))?", "trailing": r"\s*(?P<trail>-)?"}.get(self.negative, "")
        outer = rf"\s*{sign}\s*{left}(?P<minus>[-+])?\s*{sign}\s*(?P<inner>[-+])?\s*"
        return re.compile(rf"{outer}{number}\s*{sign}{right}\s*{sign}\s*")

    def detected(self, line: bytes, wanted: Collection[str]) -> Dialect:
        """With the delimiter and the encoding that are not declared as the header line shows: never as a row does.

        Args:
            line: the header, up to the first line end.
            wanted: columns that are looked for.

        Raises:
            UnicodeDecodeError: the line is not in the declared encoding; or not in UTF-8, and has not all of the wanted
                columns in Latin-1 (`latin_of`).
        """
        if self.encoding:
            return self._delimited(line.decode(self.encoding), wanted)[0]
        try:
            return replace(self._delimited(line.decode(UTF8), wanted)[0], encoding=UTF8)
        except UnicodeDecodeError:
            encoding = latin_of(line)
            made, found = self._delimited(line.decode(encoding), wanted)
            if not wanted or found < len(set(wanted)):
                raise
            return replace(made, encoding=encoding)

    def names(self, line: bytes) -> list[str]:
        """The cells of a header line in this dialect, of which the encoding is known. Raises UnicodeDecodeError."""
        return self._cells(line.decode(self.encoding or UTF8), self.delimiter or DELIMITERS[0])

    def _cells(self, line: str, delimiter: str) -> list[str]:
        return next(csv.reader([line.removeprefix(_BOM)], delimiter=delimiter, quotechar=self.quote), [])

    def _delimited(self, line: str, wanted: Collection[str]) -> tuple[Dialect, int]:
        found: Mapping[str, int] = {}
        for delimiter in [self.delimiter] if self.delimiter else DELIMITERS:
            found = {**found, delimiter: len(set(wanted) & set(self._cells(line, delimiter)))}
        best = max(found, key=lambda delimiter: found[delimiter])
        return replace(self, delimiter=best), found[best]

    def rows(self, path: Path) -> Iterator[list[str]]:
        """The rows of a file that have cells, with bytes that are not in its encoding replaced. Raises csv.Error for a
        line or a cell that is too long."""
        with TextIOWrapper(unpacked(path), self.encoding or UTF8, errors="replace", newline="") as file:
            yield from filter(None, self._reader(_lines(file)))

    def _reader(self, lines: Iterable[str]) -> Any:
        return csv.reader(lines, delimiter=self.delimiter or DELIMITERS[0], quotechar=self.quote)

    def first_ragged(self, path: Path) -> str:
        """Where the first row of a file is that has other cells than its header, or no end; empty if there is none.

        Reads the file from its start, row by row, and no cell goes into the words.
        """
        return next(self.ragged(path), "")

    def ragged(self, path: Path) -> Iterator[str]:
        """As `first_ragged`, of every such row."""
        width, start = 0, 1
        with TextIOWrapper(unpacked(path), self.encoding or UTF8, errors="replace", newline="") as file:
            rows = self._reader(chain(_lines(file), [_END]))  # a row of its own, unless a quote is not closed
            try:
                for row in rows:
                    if row == [_END]:
                        return
                    last = rows.line_num - row[-1].endswith(_END) if row else 0
                    width = width or len(row)
                    if row and (len(row) != width or row[-1].endswith(_END)):
                        where = f"the row from line {start} to {last}" if last > start else f"line {start}"
                        cells = f"{len(row)} cell{'s' * (len(row) != 1)}, and the header {width}"
                        cells = "no end" if len(row) == width else cells
                        yield f"{where} has {cells}{_UNCLOSED * (last > start or len(row) == width)}"
                    start = rows.line_num + 1
            except _LineTooLongError:
                yield f"line {rows.line_num + 1} is longer than {LONGEST_LINE >> 20} MiB"
            except csv.Error:  # a cell without an end
                yield f"a cell of the row from line {start} on is too long{_UNCLOSED}"

    def ends_in_quote(self, path: Path) -> bool:
        """Whether the last row of a file has no end, so that it may hold other rows. Arrow takes it as it is."""
        quote = self.quote.encode(self.encoding or UTF8)
        if len(quote) > 1:  # UTF-16, of which bytes do not show
            return False
        with unpacked(path) as file:
            quotes = sum(block.count(quote) for block in iter(partial(file.read, 1 << 20), b""))
        return quotes % 2 == 1 and bool(self.first_ragged(path))


class _LineTooLongError(csv.Error):
    """A line that would fill the memory."""


def _lines(file: TextIOWrapper) -> Iterator[str]:
    """The lines of a file, without the mark of its byte order."""
    first = True
    while line := file.readline(LONGEST_LINE):
        if len(line) >= LONGEST_LINE:
            raise _LineTooLongError
        yield line.removeprefix(_BOM) if first else line
        first = False


def latin_of(content: bytes) -> str:
    """Latin-1, or Windows' form of it where a text has its signs, as the euro: those are control characters else.

    >>> latin_of("Betrag €".encode("cp1252")), latin_of("Größe".encode("latin-1"))
    ('cp1252', 'latin-1')
    """
    signs = {*_WINDOWS.findall(content)}
    return WINDOWS if signs and signs.isdisjoint(_UNDEFINED) else LATIN1


def encoding_of(path: Path) -> str:
    """UTF-8, or what `latin_of` says of a text that is not in it.

    Reads the whole file: for a draft and a check, which may look at rows. Raises UNREADABLE.
    """
    with unpacked(path) as file:
        blocks, utf8 = iter(partial(file.read, 1 << 20), b""), codecs.getincrementaldecoder(UTF8)()
        known, signs = True, set[bytes]()
        for block in blocks:
            signs.update(_WINDOWS.findall(block))
            if known:
                try:
                    utf8.decode(block)
                except UnicodeDecodeError:
                    known = False
        try:
            utf8.decode(b"", final=True)
        except UnicodeDecodeError:
            known = False
    return UTF8 if known else latin_of(b"".join(signs))


PLAIN = Dialect()
