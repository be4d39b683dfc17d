"""What is asked of releases at the command line, and how the lines of an answer are called."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from equistrata.errors import InputError
from equistrata.flows.cli.console import print_json

if TYPE_CHECKING:
    import pandas as pd

    from equistrata.analysis.release import Release

BOTH = ("former", "later")  # the two numbers of a change
PARTS = ("privacy_error", "sampling_error")  # of the standard error
MOST_LINES = 200
_HEIGHTS = "▁▂▃▄▅▆▇█"


def asked_of(release: Release, text: str | None) -> Any:
    """COLUMN, or COLUMN=VALUE as a condition."""
    whole = text is None or text in release.schema.names or "=" not in text
    return text if whole else _condition(release, str(text))


def conditions(release: Release, texts: Sequence[str]) -> dict[str, Any]:
    """Those of `--where`. Raises InputError for a column that is named twice: one of the two would be forgotten."""
    found: dict[str, Any] = {}
    for text in texts:
        if twice := found.keys() & (condition := _condition(release, text)).keys():
            raise InputError(f"--where names {twice.pop()!r} twice; give one value, and ask again for the other")
        found |= condition
    return found


def _condition(release: Release, text: str) -> dict[str, Any]:
    """COLUMN=VALUE, as texts: what a value names is read as in Python (`equistrata.analysis.axes`)."""
    name, equals, value = _parted(release, text)
    if not equals:
        raise InputError(f"{text!r} is no condition; write COLUMN=VALUE")
    return {name: value}


def _parted(release: Release, text: str) -> tuple[str, str, str]:
    """A column's name, =, and what follows; of names that hold = themselves the longest that the release has."""
    starts = [name for name in release.schema.names if "=" in name and text.startswith(f"{name}=")]
    if not starts:
        return text.partition("=")
    name = max(starts, key=len)
    return name, "=", text[len(name) + 1 :]


def labels_of(found: pd.DataFrame) -> list[str]:
    """The columns of an answer that say what a line is about."""
    numbers = {*BOTH, "estimate", "lower", "upper", "standard_error", *PARTS, "counted", "basis", "p_value"}
    return [name for name in found.columns if name not in numbers]


def words_of(release: Release, name: str, value: Any) -> str:
    """A label in words, with its value behind it where others have these words as their label or value."""
    from equistrata.analysis.headings import column_of

    name = column_of(name)
    column = release.schema[name] if name in release.schema.names else None
    if column is None or value not in column.keys:
        return str(value)
    words = column.words(value)
    others = {name for key in column.keys if key != value for name in (column.words(key), str(key))}
    return f"{words} ({value})" if words in others and column.values else words


def words_of_term(release: Release, term: str) -> str:
    """A term of a regression in words: `SEX=Female`; an intercept or a column of numbers as it is."""
    if ":" in term and (found := _interaction(release, term)):
        return found
    name, equals, value = _parted(release, term)
    keys = release.schema[name].keys if equals and name in release.schema.names else ()
    return next((f"{name}={words_of(release, name, key)}" for key in keys if str(key) == value), term)


def _interaction(release: Release, term: str) -> str:
    """An interaction in words, as `SEX=Female:DIS=With a disability`; nothing if the term is none."""
    for place in (place for place, letter in enumerate(term) if letter == ":"):
        parts = term[:place], term[place + 1 :]
        if all(part.partition("=")[0] in release.schema.names for part in parts):
            return ":".join(words_of_term(release, part) for part in parts)
    return ""


def shown_number(value: float) -> str:
    """A number of an answer for a table; nothing for one that was refused."""
    return "" if value != value else f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"


def print_answers(found: pd.DataFrame) -> None:
    """An answer as JSON; null for what was refused or has no end."""
    finite = found.astype(object).replace([math.inf, -math.inf], None)
    print_json(finite.where(found.notna(), None).to_dict("records"), allow_nan=False)


def noisy(found: pd.DataFrame) -> pd.Series[bool]:
    """Which lines of an answer are noise: their interval is as wide as the value, or wider."""
    return ~(found["upper"] - found["lower"] < found["estimate"].abs())


def sparkline(values: Sequence[float], low: float, high: float) -> str:
    """Numbers as heights of one line, between two ends; a point where there is none.

    >>> sparkline([1.0, 2.0, float("nan"), 3.0], 1.0, 3.0), sparkline([4.0, 4.0], 4.0, 4.0)
    ('▁▅·█', '▁▁')
    """
    steps, span = len(_HEIGHTS) - 1, (high - low) or 1.0
    return "".join("·" if value != value else _HEIGHTS[round((value - low) / span * steps)] for value in values)
