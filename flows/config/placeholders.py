"""Placeholders for the scheduled time of a release, such as `releases/{month}`.

The scheduled time is used instead of the current time. A run that starts late or is repeated weeks later therefore has
the same name and is the same release.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator

from equistrata.errors import InputError

PLACEHOLDERS = {
    "year": "%Y",
    "month": "%Y-%m",
    "week": "%G-W%V",  # the year of an ISO 8601 week can differ from the year of the date
    "date": "%Y-%m-%d",
    "time": "%Y%m%dT%H%M%SZ",  # in UTC, because an hour occurs twice when clocks are set back
}
_BRACES = re.compile(r"\{([^{}]*)\}|[{}]")


def filled(pattern: str, scheduled: datetime, time_zone: str) -> str:
    """Replace the PLACEHOLDERS in a pattern.

    Parameters
    ----------
    pattern : str
        The pattern.
    scheduled : datetime
        The scheduled time, with a time zone.
    time_zone : str
        The IANA time zone of the calendar.

    Returns
    -------
    str
        The text.

    Raises
    ------
    InputError
        If the pattern has an unknown placeholder or a single brace, or if the time zone is unknown.
    """
    local = scheduled.astimezone(zone(time_zone))

    def text(found: re.Match[str]) -> str:
        if found[1] not in PLACEHOLDERS:
            known = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
            raise InputError(f"{found[0]!r} in {pattern!r} is not a placeholder; the placeholders are {known}")
        return format(scheduled.astimezone(UTC) if found[1] == "time" else local, PLACEHOLDERS[found[1]])

    return _BRACES.sub(text, pattern)


def checked(pattern: str) -> str:
    """Return the pattern unchanged. If it is not valid for `filled`, raise an InputError."""
    filled(pattern, datetime(2000, 1, 1, tzinfo=UTC), "UTC")
    return pattern


def zone(name: str) -> ZoneInfo:
    """Return the time zone with this name. If it is unknown, raise an InputError."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InputError(f"time zone {name!r} is not known; give an IANA name, as America/New_York or UTC") from None


Pattern = Annotated[str, AfterValidator(checked)]
Zone = Annotated[str, AfterValidator(lambda name: zone(name).key)]
