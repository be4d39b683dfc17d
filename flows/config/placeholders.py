"""Names that follow the time that a release was scheduled for, as `releases/{month}`.

Not the time of the clock: a run that starts late, is tried again, or is retried by hand weeks later makes the same
name, and so is the same release.
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
    "week": "%G-W%V",  # ISO 8601: its year may differ from the date's
    "date": "%Y-%m-%d",
    "time": "%Y%m%dT%H%M%SZ",  # in UTC: an hour comes twice when clocks are set back
}
_BRACES = re.compile(r"\{([^{}]*)\}|[{}]")


def filled(pattern: str, scheduled: datetime, time_zone: str) -> str:
    """The pattern with its PLACEHOLDERS replaced, in the calendar of an IANA time zone; `scheduled` has a zone, too.

    Raises InputError for another placeholder, a stray brace, or an unknown time zone.
    """
    local = scheduled.astimezone(zone(time_zone))

    def text(found: re.Match[str]) -> str:
        if found[1] not in PLACEHOLDERS:
            known = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
            raise InputError(f"{found[0]!r} in {pattern!r} stands for nothing; the placeholders are {known}")
        return format(scheduled.astimezone(UTC) if found[1] == "time" else local, PLACEHOLDERS[found[1]])

    return _BRACES.sub(text, pattern)


def checked(pattern: str) -> str:
    """The pattern as it is. Raises InputError if `filled` could not fill it."""
    filled(pattern, datetime(2000, 1, 1, tzinfo=UTC), "UTC")
    return pattern


def zone(name: str) -> ZoneInfo:
    """The time zone of that name. Raises InputError if there is none."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InputError(f"time zone {name!r} is not known; give an IANA name, as America/New_York or UTC") from None


Pattern = Annotated[str, AfterValidator(checked)]
Zone = Annotated[str, AfterValidator(lambda name: zone(name).key)]
