"""Names that follow the time a release was scheduled for, so that one configuration makes a release each month.

The time is the one on the schedule, not that of the clock: a run that starts late, is tried again, or is retried by
hand weeks later makes the same name, and so is the same release. The next month's is another.

>>> scheduled = datetime(2026, 12, 1, 3, 30, tzinfo=UTC)
>>> filled("releases/{month}", scheduled, "UTC")
'releases/2026-12'
>>> filled("releases/{month}", scheduled, "America/New_York")
'releases/2026-11'
>>> filled("people-{time}", scheduled, "America/New_York")
'people-20261201T033000Z'
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

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
    """The pattern with its placeholders replaced.

    Args:
        pattern: text with any of {year}, {month} (2026-11), {week} (2026-W45), {date} (2026-11-01) and {time}
            (20261101T103000Z, to the second, always UTC).
        scheduled: when; with a time zone.
        time_zone: the IANA name of the calendar's zone, as America/New_York.

    Raises:
        InputError: another placeholder, a stray brace, or an unknown time zone.
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
