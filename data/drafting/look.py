"""What the rows of a table hold, for a draft of its schema: exact, so as private as the rows.

>>> import pandas as pd
>>> from equistrata.data.drafting.tallies import tally
>>> rows = pd.DataFrame({"BORN": ["31.12.1999", "01.02.1950"] * 20, "PAY": ["12,5", "-9"] * 20})
>>> found, marks = look(tally([rows]), {"decimal": ","})
>>> found["BORN"].layout, found["BORN"].lower, found["BORN"].upper, marks["BORN"]
('%d.%m.%Y', '1950-01-01', '1999-12-31', ['type', 'bounds'])
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import date, datetime
from math import ceil, floor, log10
from types import MappingProxyType
from typing import Any

from equistrata.data.columns.column import plain_text
from equistrata.data.columns.dates import LAYOUTS, TIME_OF_DAY, is_time_of_day, told_apart
from equistrata.data.columns.grid import digits_of
from equistrata.data.drafting.entries import SENTINEL, Entry, matched, one_line
from equistrata.data.drafting.tallies import FEW_NUMBERS, MOST_FAILED, ZEROS, Tally
from equistrata.data.drafting.terms import decimals_of
from equistrata.data.files.dialect import Dialect

MOST_DECIMALS = 6  # that rows are taken to have: numbers that were computed have as many as fit
FEW_TEXTS = 200  # distinct ones that are values rather than free text
_OTHERS = 5  # texts that may stand among numbers
_LEAST_NUMBERED = 1000  # distinct whole numbers that may number persons or records: fewer may be amounts
_NUMBERED = (
    "whole numbers without large gaps and few rows of each, as of persons or records: an identifier. If it names those "
    "who are protected, declare unit: {column: NAME, at_most: ROWS}"
)
_LISTED = "list the layouts of all, as format: ['%d.%m.%Y', '%d. %B %Y'], and codes of those that are no date"
_EPOCH = date(1970, 1, 1).toordinal()
_SHORT_YEAR = re.compile(r"\d{1,2}([./-])\d{1,2}\1\d{2}")
_COUNTED = "whole numbers of {} from 0 on, taken for a count; if they are codes, declare them as 'values' instead"
_TICKS = ("0", "1")  # of a checkbox, which may happen to be ticked by no row, or by all


def look(
    tallies: Mapping[str, Tally],
    file: Mapping[str, Any] = MappingProxyType({}),
    known: Mapping[str, Entry] = MappingProxyType({}),
) -> tuple[dict[str, Entry], dict[str, list[str]]]:
    """Entries of columns, and what of each only the rows say; nothing of one that rows do not settle either.

    Args:
        file: how the file writes its numbers, as `tallies_of` has it.
        known: what a code book says; names may differ in case and blanks. Rows answer only what it does not.
    """
    of_book = matched(tallies, known)
    found, marks = dict(known), dict[str, list[str]]()
    dialect = Dialect.read({key: value for key, value in file.items() if key != "encoding"}, "the draft")
    for name, times in tallies.items():
        book = of_book.get(name)
        if book and book.identifier:
            continue
        cells = {text: often for text, often in times.items() if text is not None}
        entry, said = _looked(name, cells, dialect, dict(book.codes) if book and not book.type else {})
        if book and book.type:
            whole = _whole(cells, book, dialect) if (book.integer, book.fractions) == (None, None) else None
            entry, said = (book, []) if whole is None else (replace(book, integer=whole), ["integer"])
        elif book:
            entry = replace(entry, label=": ".join(filter(None, (book.label, entry.label))), decimals=book.decimals)
        if entry.decimals is None and not entry.whole and (most := _decimals(cells, entry, dialect)):
            entry, said = replace(entry, decimals=most), [*said, "decimals"]
        if times[None] and entry.type and not entry.missing:
            entry, said = replace(entry, missing=True), [*said, "missing"]
        if said or not (book and book.type):
            found[name], marks[name] = entry, said
    return found, marks


def _whole(times: Mapping[str, int], book: Entry, dialect: Dialect) -> bool | None:
    """Whether the numbers within a book's bounds are whole; None where there are none."""
    inside = _inside(times, book, dialect)
    return all(number.is_integer() for number in inside) if inside else None


def _decimals(times: Mapping[str, int], entry: Entry, dialect: Dialect) -> int | None:
    """The most decimals of any number within an entry's bounds, at most MOST_DECIMALS; None where so many are too few,
    as of numbers that are all near to zero, and where no number has any."""
    if not isinstance(entry.lower, float) or not isinstance(entry.upper, float):
        return None
    most = max(map(decimals_of, map(repr, _inside(times, entry, dialect))), default=0)
    too_few = most > MOST_DECIMALS and digits_of(entry.lower, entry.upper) > MOST_DECIMALS
    return None if most == 0 or too_few else min(most, MOST_DECIMALS)


def _inside(times: Mapping[str, int], entry: Entry, dialect: Dialect) -> list[float]:
    """The numbers within an entry's bounds; codes that are numbers are outside them."""
    low, high = entry.lower, entry.upper
    if not isinstance(low, float) or not isinstance(high, float):
        return []
    found = (_read(text.strip(), dialect) for text in times)
    return [number for number in found if number is not None and low <= number <= high]


def _looked(
    name: str, times: Mapping[str, int], dialect: Dialect, absent: Mapping[str, str]
) -> tuple[Entry, list[str]]:
    """What the rows say of a column, and which parts of it.

    Args:
        absent: codes of cells that are none, with their words, by the book: they are no numbers.
    """
    if not times:
        return Entry(name, "all its cells are empty"), []
    rows = sum(times.values())
    numbers = {text: number for text in times if (number := _read(text.strip(), dialect)) is not None}
    plainly = (dialect.number(text.strip()) if dialect.local else text.strip() for text in numbers)
    zeros = any(map(ZEROS.match, plainly))  # 01 is a code, which is not 1
    by_layout = _dates(times)
    if by_layout and (dated := _dated(name, times, by_layout)):
        return dated
    if sum(often for text, often in times.items() if is_time_of_day(text)) >= (1 - MOST_FAILED) * rows:
        return Entry(name, TIME_OF_DAY), []
    rest = [text for text in times if text not in numbers]
    coded = [text for text, number in numbers.items() if plain_text(number) in absent]
    others = {text: number for text, number in numbers.items() if text not in coded}
    beside = [*rest, *coded, *_sentinels(others)]
    inside = [number for text, number in numbers.items() if text not in beside]
    counts = {0, 1, 2, 3} <= {*inside} and len(rest) <= 1 and all(number.is_integer() for number in inside)
    if inside and not zeros and len(rest) <= _OTHERS and (len(numbers) > FEW_NUMBERS or counts):
        if not rest and _numbers_rows(inside, rows):
            return Entry(name, _NUMBERED), []
        bounds = _outwards(min(inside), up=False), _outwards(max(inside), up=True)
        whole = all(number.is_integer() for number in inside)
        plain = [
            text if text not in numbers else plain_text(numbers[text]) for text in beside
        ]  # -9 and -9.0 are one code
        codes = tuple((text, absent.get(text) or _words(text)) for text in dict.fromkeys([*plain, *absent]))
        remark = _COUNTED.format(name) if len(numbers) <= FEW_NUMBERS else ""
        entry = Entry(name, "", "number", codes, *bounds, integer=whole, remark=remark)
        return entry, ["type", "bounds", *["codes"] * bool({*plain} - {*absent})]
    if len(times) <= FEW_TEXTS and len(times) <= rows / 2:
        ordered = sorted(times, key=lambda text: (text not in numbers, numbers.get(text, 0.0), text))
        # 1 and 1.0 are one value to a schema, but not where codes are texts: 01, or 1,0 in a file of decimal commas.
        plain = [text if zeros or dialect.local or text not in numbers else plain_text(numbers[text])
                 for text in ordered]  # fmt: skip
        plain = [*_TICKS] if {*plain} <= {*_TICKS} else plain
        return Entry(name, "", "nominal", tuple((raw, absent.get(raw, "")) for raw in dict.fromkeys(plain))), ["values"]
    kind = "nearly all cells differ: an identifier, or free text" if len(times) > rows / 2 else "many texts"
    if sum(times[text] for text in times if _SHORT_YEAR.fullmatch(text)) >= (1 - MOST_FAILED) * rows:
        kind = "dates without a century: write years of four digits into the file, then declare type: date"
    if sum(often for text, often in times.items() if any(text in days for days in by_layout.values())) > rows / 2:
        kind = (
            f"dates, as {', '.join([*by_layout][:3])}, beside cells that are no date in a layout known here: {_LISTED}"
        )
    return Entry(name, kind), []


def _numbers_rows(numbers: list[float], rows: int) -> bool:
    """Whether distinct numbers seem to count persons or records: incomes have larger gaps, and ages fewer numbers."""
    many = len(numbers) >= _LEAST_NUMBERED and len(numbers) * 4 > rows
    return many and all(map(float.is_integer, numbers)) and max(numbers) - min(numbers) < 3 * len(numbers)


def _dates(times: Mapping[str, int]) -> dict[str, dict[str, datetime]]:
    """Layout → the texts that it reads, and their days; the layout of the most cells first."""
    first = [*times][: _OTHERS + 1]  # one of them is a date where all but _OTHERS are
    if not any(_day(text, layout) for text in first for layout in LAYOUTS):
        return {}
    found = {layout: {text: day for text in times if (day := _day(text, layout))} for layout in LAYOUTS}
    by_cells = sorted(LAYOUTS, key=lambda layout: -sum(map(times.__getitem__, found[layout])))
    return {layout: found[layout] for layout in by_cells if found[layout]}


def _dated(
    name: str, times: Mapping[str, int], by_layout: Mapping[str, Mapping[str, datetime]]
) -> tuple[Entry, list[str]] | None:
    """The entry of a column of dates, with no type where they are in more than one layout; None if it is none."""
    layout, read = next(iter(by_layout.items()))
    used, dates, unread = [layout], dict(read), set(times).difference(read)
    for other, days in by_layout.items():
        if new := unread.intersection(days):
            used.append(other)
            dates |= {text: days[text] for text in new}
            unread -= new
    if len(unread) > _OTHERS or sum(times[text] for text in unread) > MOST_FAILED * sum(times.values()):
        return None
    span = [float(day.toordinal() - _EPOCH) for day in (min(dates.values()), max(dates.values()))]
    if len(used) > 1 and not told_apart(used, span[0], span[1]):
        both = f"dates in the layouts {', '.join(used)}: write all in one into the file, then declare type: date"
        return Entry(name, both), []
    years = [day.year for day in dates.values()]
    lower, upper = f"{min(years):04}-01-01", f"{max(years):04}-12-31"
    codes = tuple((text, _words(text)) for text in times if text in unread)
    also = [other for other, days in by_layout.items() if other not in used and len(days) == len(dates)]
    remark = f"every date of {name} reads as {also[0]}, too; say which is meant" if also else ""
    entry = Entry(name, "", "date", codes, lower, upper, layout=layout, also=tuple(used[1:]), remark=remark)
    return entry, ["type", "bounds"]


def _words(raw: str) -> str:
    return one_line(raw) or "blank"


def _sentinels(numbers: dict[str, float]) -> list[str]:
    """Numbers such as -9 or 999 that are far from all others, and 0 below years."""
    like = {text for text, number in numbers.items() if number == 0 or SENTINEL.fullmatch(plain_text(number))}
    rest = [number for text, number in numbers.items() if text not in like]
    if not rest:
        return []
    low, high = min(rest), max(rest)
    far = (high - low) / 4
    below = {text for text in like if numbers[text] < low and (low >= 0 or numbers[text] < low - far)}
    below = {text for text in below if numbers[text] or low > high - low}
    return sorted(below | {text for text in like if numbers[text] > high + far})


def _read(text: str, dialect: Dialect) -> float | None:
    try:
        number = float(dialect.number(text) if dialect.local else text)
    except ValueError:
        return None
    return number if abs(number) < 1e300 and "_" not in text else None


def _day(text: str, layout: str) -> datetime | None:
    try:
        day = datetime.strptime(text.strip(), layout)
    except ValueError:
        return None
    return day if 1700 <= day.year <= 2200 else None


def _outwards(number: float, up: bool) -> float:
    """A number of two digits that is no nearer to zero's other side: bounds are no row's value."""
    if number == 0:
        return 0.0
    unit = 10.0 ** (floor(log10(abs(number))) - 1)
    return float(f"{(ceil if up else floor)(number / unit) * unit:.12g}")
