"""Columns of dates.

A date is stored as the number of days since 1970-01-01. The bins of a column of dates are periods of the calendar, and
the dates are read and written in a declared format.

>>> days = calendar_edges(day_in("2023-12-15"), day_in("2024-02-10"), "month")
>>> [iso(day) for day in days]
['2023-12-14', '2023-12-31', '2024-01-31', '2024-02-10']
>>> written(np.array([0, 31]), "%d.%m.%Y").tolist(), day_in("01.02.1970", "%d.%m.%Y")
(['01.01.1970', '01.02.1970'], 31.0)
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import pandas as pd

from equistrata.arrays import Floats
from equistrata.data.columns.grid import FINE_BINS
from equistrata.data.columns.raw import plain_text, read_cell

Every = Literal["day", "week", "month", "quarter", "year"]

EVERY: tuple[Every, ...] = get_args(Every)
ISO = "%Y-%m-%d"
ISO_TIME = "%Y-%m-%dT%H:%M:%SZ"
# The formats of dates that are common in tables, in decreasing order of likelihood.
LAYOUTS = (
    ISO, "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y%m%d", f"{ISO} %H:%M:%S",
    f"{ISO}T%H:%M:%S", ISO_TIME, f"{ISO} %H:%M", "%d.%m.%Y %H:%M", "%d%b%Y", "%d-%b-%Y",
    "%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%d/%m/%Y %H:%M", "%m/%d/%Y %H:%M",
)  # fmt: skip
_TOLD_APART = 800  # the maximum number of days that are used to compare the layouts of a column
_EPOCH = date(1970, 1, 1).toordinal()
LAST = float(date(9998, 12, 31).toordinal() - _EPOCH)
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_ISO_DATE = re.compile(r"\b\d{4}-\d{2}-\d{2}\b")
TIME_OF_DAY = (
    "a time of day, which is not supported; write it into the file as minutes since midnight, and declare these "
    "numbers with lower: 0, upper: 1440"
)
_TIME = re.compile(r"\s*\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?\s*([ap]\.?m\.?)?\s*(z|[+-]\d{2}:?\d{2})?\s*", re.IGNORECASE)
_PERIOD = re.compile(r"(\d{4})(?:-?Q([1-4])|-(\d{2})(?:-(\d{2}))?)?", re.IGNORECASE)
_OF_DAYS, _OF_TIMES = re.compile("%[djxDF]"), re.compile("%[HIMSpfzZXcTRs]")


def day_in(cell: object, layout: str = ISO) -> float | None:
    """Return the day of a date or of a text.

    The time of day is ignored, and the day is the day in the time zone of the cell. If the layout has no days, the
    result is the first day of the month. Only ASCII digits are accepted.

    Parameters
    ----------
    cell : object
        A date or a text.
    layout : str
        The format of the text, as in `datetime.strptime`.

    Returns
    -------
    float or None
        The number of days since 1970-01-01, or None if the cell is not a date in this format.
    """
    if isinstance(cell, date):
        return None if pd.isna(cell) else float(cell.toordinal() - _EPOCH)
    text = str(cell).strip()
    if not text.isascii() and any(character.isdecimal() and not character.isascii() for character in text):
        return None
    try:
        return float(datetime.strptime(text, layout).toordinal() - _EPOCH)
    except (ValueError, re.error):  # `strptime` raises re.error if a directive is repeated in the layout
        return None


def is_time_of_day(text: object) -> bool:
    """Return True if a text is a time without a date.

    >>> [is_time_of_day(each) for each in ("08:30", "8:30:15.25", "08:30 pm", "2024-03-01 08:30", "8.30", "1:2")]
    [True, True, True, False, False, False]
    """
    return _TIME.fullmatch(str(text)) is not None


def days_of_cells(cells: Sequence[Any], *layouts: str) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Return the day of each cell, in the first layout that can read it.

    A whole number is read as a text of digits, which is padded with zeros on the left.

    Parameters
    ----------
    cells : sequence
        The raw cells, shape (n,).
    *layouts : str
        The formats of the dates.

    Returns
    -------
    days : ndarray of float
        The number of days since 1970-01-01, shape (n,), or NaN if the cell is not a date.
    missing : ndarray of bool
        True for each missing cell, shape (n,).
    """
    widths = [len(date(2000, 12, 31).strftime(layout)) for layout in layouts]
    found, missing = np.full(len(cells), np.nan), np.zeros(len(cells), dtype=np.bool_)
    for place, raw in enumerate(cells):
        cell = read_cell(raw)
        missing[place] = cell is None
        if isinstance(cell, bool):
            continue
        for layout, width in zip(layouts, widths, strict=True):
            text = plain_text(cell).zfill(width) if isinstance(cell, int | float | Decimal) else cell
            if (day := day_in(text, layout)) is not None:
                found[place] = day
                break
    return found, missing


def days_of_times(series: pd.Series) -> Floats:
    """Return the day of each cell of a column of timestamps, or NaN if the cell is missing, shape (n,)."""
    plain = series.dt.tz_localize(None).to_numpy().astype("datetime64[D]")
    return np.where(np.isnat(plain), np.nan, plain.astype(np.int64).astype(np.float64))


def told_apart(layouts: Sequence[str], lower: float, upper: float) -> bool:
    """Return True if no date that is written in one of the layouts can be read in another layout.

    If there are more than 800 days between the bounds, the check uses 800 of them.

    >>> [told_apart([ISO, other], 0, 9000) for other in ("%d.%m.%Y", "%Y-%d-%m")]
    [True, False]
    """
    days = np.linspace(lower, upper, min(int(upper - lower) + 1, _TOLD_APART)).astype(int).tolist()
    texts = {layout: [_date(day).strftime(layout) for day in days] for layout in layouts}
    pairs = ((one, other) for one in layouts for other in layouts if one != other)
    return all(day_in(text, other) is None for one, other in pairs for text in texts[one])


def iso(day: float) -> str:
    """Return a day as an ISO date."""
    return _date(day).isoformat()


def written(days: npt.NDArray[np.int64], layout: str) -> npt.NDArray[np.object_]:
    """Return days as texts in the given layout."""
    distinct, places = np.unique(days, return_inverse=True)
    texts = np.array([_date(day).strftime(layout) for day in distinct.tolist()], dtype=object)
    return texts[places]


def released_layout(layout: str) -> str:
    """Return the layout of released dates, which is the layout of the raw cells, or ISO if this layout has a time of
    day.
    """
    return ISO if _OF_TIMES.search(layout) else layout


def finest(layout: str) -> Every:
    """Return the shortest period that a layout can distinguish, either "day" or "month"."""
    return "day" if _OF_DAYS.search(layout) else "month"


def round_trips(day: float, layout: str) -> bool:
    """Return True if a date that is written in a layout is read as the same date.

    If the layout has no days, the date must be read as the first day of its month.
    """
    try:
        found = day_in(_date(day).strftime(layout), layout)
    except ValueError:
        return False
    return found == (day if finest(layout) == "day" else float(_date(day).replace(day=1).toordinal() - _EPOCH))


def calendar_edges(lower: float, upper: float, every: Every) -> tuple[float, ...]:
    """Return the edges of the calendar periods between two days.

    Parameters
    ----------
    lower, upper : float
        The first and the last day, in days since 1970-01-01.
    every : {"day", "week", "month", "quarter", "year"}
        The length of the periods. Weeks end on Sundays.

    Returns
    -------
    tuple of float
        The edges in ascending order. The bins are closed on the right.
    """
    inside = (last for last in _last_days(lower, upper, every) if lower <= last < upper)
    return (lower - 1.0, *inside, float(upper))


def fine_edges(lower: float, upper: float, layout: str) -> tuple[float, ...]:
    """Return the edges of the shortest calendar periods for which there are at most FINE_BINS bins."""
    edges: tuple[float, ...] = ()
    for every in EVERY[EVERY.index(finest(layout)) :]:
        edges = calendar_edges(lower, upper, every)
        if len(edges) <= FINE_BINS + 1:
            break
    return edges


def _last_days(lower: float, upper: float, every: Every) -> list[float]:
    if every in ("day", "week"):
        step = 1 if every == "day" else 7
        first = lower if every == "day" else lower + 6 - _date(lower).weekday()
        return [float(day) for day in np.arange(first, upper + 1, step)]
    months, first_day, last_day = _MONTHS[every], _date(lower), _date(upper)
    ends = range(first_day.year * 12 // months * months, (last_day.year + 1) * 12 + months, months)
    starts = [date(month // 12, month % 12 + 1, 1) for month in ends if month // 12 <= date.max.year]
    return [float(start.toordinal() - 1 - _EPOCH) for start in starts]


def period(first: float, last: float) -> str:
    """Return the days of a bin as a text for reports, shortened to months or years if the bin consists of whole ones.

    >>> period(0, 364), period(0, 58), period(0, 0), period(0, 2)
    ('1970', '1970-01 to 1970-02', '1970-01-01', '1970-01-01 to 1970-01-03')
    """
    begin, end, after = _date(first), _date(last), _date(last + 1)
    ends = [begin.isoformat(), end.isoformat()]
    if begin.day == after.day == 1:
        whole_years = begin.month == after.month == 1
        ends = [text[: 4 if whole_years else 7] for text in ends]
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)


def days_of(text: str) -> tuple[float, float] | None:
    """Return the first and the last day of a period of the calendar.

    The period is a year, a quarter, a month, a day, or a range from one of these to another. The result is None for any
    other text.

    >>> days_of("1970"), days_of("1970-Q1"), days_of("1970-02"), days_of("1970-01-02 to 1970-02")
    ((0.0, 364.0), (0.0, 89.0), (31.0, 58.0), (1.0, 58.0))
    >>> days_of("1970-13"), days_of("spring")
    (None, None)
    """
    ends = [_period(part) for part in text.split(" to ")]
    if len(ends) > 2 or None in ends:
        return None
    return min(each[0] for each in ends if each), max(each[1] for each in ends if each)


def _period(text: str) -> tuple[float, float] | None:
    found = _PERIOD.fullmatch(text.strip())
    if found is None:
        return None
    year, quarter, month, day = (None if part is None else int(part) for part in found.groups())
    first = 3 * quarter - 2 if quarter else month or 1
    months = 3 if quarter else 1 if month else 12
    try:
        begin = date(year or 0, first, day or 1).toordinal() - _EPOCH
        if day:
            return float(begin), float(begin)
        after = date((year or 0) + (first + months > 12), (first + months - 1) % 12 + 1, 1)
    except ValueError:
        return None
    return float(begin), float(after.toordinal() - _EPOCH - 1)


def unit_of(day: float, unit: Every) -> str:
    """Return the year, quarter or month of a day, in the format that `days_of` reads.

    >>> unit_of(31, "year"), unit_of(31, "quarter"), unit_of(31, "month")
    ('1970', '1970-Q1', '1970-02')
    """
    found = _date(day)
    return {"year": f"{found.year:04d}", "quarter": f"{found.year:04d}-Q{(found.month + 2) // 3}"}.get(
        unit, f"{found.year:04d}-{found.month:02d}"
    )


def in_days(text: str) -> str:
    """Replace each ISO date in the text of a rule by its number of days since 1970-01-01.

    A ValueError is raised if a date does not exist.

    >>> in_days("<1970-01-31"), in_days("1970-01-02 to 1970-01-04")
    ('<30', '1 - 3')
    """
    found = _ISO_DATE.sub(lambda each: str(date.fromisoformat(each[0]).toordinal() - _EPOCH), text)
    return found.replace(" to ", " - ")


def _date(day: float) -> date:
    return date(1970, 1, 1) + timedelta(days=int(day))
