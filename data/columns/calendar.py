"""Questions about dates by month, quarter or year.

A column of dates has bins, which can be finer than the period in a question. For example, the years of a column that
has monthly bins are sums of twelve bins. A period is the set of the bins that it contains. If a bin is only partly in
the period, an error is raised because the number of its rows in the period is unknown.

>>> from equistrata.data.columns.dates import calendar_edges
>>> since = Column("SINCE", lower=0, upper=729, edges=calendar_edges(0, 729, "month"), layout="%Y-%m-%d")
>>> codes_within(since, "1971"), codes_within(since, "1970-Q1")
([12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23], [0, 1, 2])
>>> units(since, "year")
((0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1), ['1970', '1971'])
"""

from __future__ import annotations

from equistrata.data.columns.column import Column, Value
from equistrata.data.columns.dates import Every, days_of, unit_of
from equistrata.errors import InputError

UNITS: tuple[Every, ...] = ("month", "quarter", "year")


def is_period(column: Column, value: object) -> bool:
    """Return True if the column has dates and the value is the text of a calendar period."""
    return bool(column.layout) and isinstance(value, str) and days_of(value) is not None


def codes_within(column: Column, text: str) -> list[int]:
    """Return the bins of a column of dates that make up a period.

    Parameters
    ----------
    column : Column
        The column of dates.
    text : str
        The period, such as "2020", "2020-Q1", or "2020-01 to 2020-05".

    Returns
    -------
    list of int
        The codes of the bins in the period, in ascending order.

    Raises
    ------
    InputError
        If a bin is only partly in the period, or if no bin is in the period.
    """
    period = days_of(text)
    assert period is not None
    found = []
    for code in range(column.bins):
        first, last = column.days(code)
        if period[0] <= first and last <= period[1]:
            found.append(code)
        elif first <= period[1] and period[0] <= last:
            raise InputError(
                f"column {column.name!r}: the bin {column.words(code)} is only partly in {text}, so the number of its "
                "rows in that period is unknown; ask for a period that contains whole bins"
            )
    if not found:
        low, high = (column.shown(end) for end in column.bounds)
        raise InputError(
            f"column {column.name!r} has dates from {low} to {high}, so none are in {text}; ask for another period"
        )
    return found


def units(column: Column, unit: Every) -> tuple[tuple[int, ...], list[Value]]:
    """Group the codes of a column of dates by month, quarter or year.

    Parameters
    ----------
    column : Column
        The column of dates.
    unit : {"month", "quarter", "year"}
        The unit of the calendar.

    Returns
    -------
    groups : tuple of int
        For each code, the index of its period.
    periods : list of str
        The names of the periods, followed by the names of the codes that are not dates.

    Raises
    ------
    InputError
        If a bin is in two periods.
    """
    called = list[Value]()
    for code in range(column.size):
        name: Value = column.words(code)
        if code < column.bins:
            ends = {unit_of(day, unit) for day in column.days(code)}
            if len(ends) > 1:
                raise InputError(
                    f"column {column.name!r}: the bin {name} is in two {unit}s, so the number of its rows in each is "
                    "unknown; ask for the bins of the column, or for a coarser unit"
                )
            name = ends.pop()
        called.append(name)
    keys = list(dict.fromkeys(called))
    return tuple(keys.index(name) for name in called), keys
