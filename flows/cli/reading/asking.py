"""Questions about releases on the command line, and the labels of the answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from equistrata.errors import InputError
from equistrata.flows.cli.console import print_json

if TYPE_CHECKING:
    import pandas as pd

    from equistrata.analysis.release import Release

BOTH = ("former", "later")  # the names of the two numbers of a change
PARTS = ("privacy_error", "sampling_error")  # the parts of the standard error
MOST_LINES = 200
_HEIGHTS = "▁▂▃▄▅▆▇█"


def parse_statistic(release: Release, text: str | None) -> Any:
    """Return COLUMN as a name, or COLUMN=VALUE as a condition."""
    whole = text is None or text in release.schema.names or "=" not in text
    return text if whole else _condition(release, str(text))


def conditions(release: Release, texts: Sequence[str]) -> dict[str, Any]:
    """Return the conditions of `--where`.

    Raises
    ------
    InputError
        If a column is named more than once, because only one of its values would be used.
    """
    found: dict[str, Any] = {}
    for text in texts:
        if twice := found.keys() & (condition := _condition(release, text)).keys():
            raise InputError(f"--where names {twice.pop()!r} twice; give one value, and ask again for the other")
        found |= condition
    return found


def _condition(release: Release, text: str) -> dict[str, Any]:
    """Return the condition COLUMN=VALUE with texts.

    The value is interpreted as in Python (see `equistrata.analysis.axes`).
    """
    name, equals, value = _parted(release, text)
    if not equals:
        raise InputError(f"{text!r} is not a condition; write COLUMN=VALUE")
    return {name: value}


def _parted(release: Release, text: str) -> tuple[str, str, str]:
    """Split a condition at the equals sign. If the names of columns contain this sign, the longest name is used."""
    starts = [name for name in release.schema.names if "=" in name and text.startswith(f"{name}=")]
    if not starts:
        return text.partition("=")
    name = max(starts, key=len)
    return name, "=", text[len(name) + 1 :]


def labels_of(found: pd.DataFrame) -> list[str]:
    """Return the columns of an answer that describe its lines."""
    numbers = {*BOTH, "estimate", "lower", "upper", "standard_error", *PARTS, "counted", "basis", "p_value"}
    return [name for name in found.columns if name not in numbers]


def words_of(release: Release, name: str, value: Any) -> str:
    """Return a label for a value. If the label is not unique in the column, the value is appended."""
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
    """Return a number for a table. If it was refused, the text is empty."""
    return "" if value != value else f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"


def print_answers(found: pd.DataFrame) -> None:
    """Print an answer as JSON. Values that were refused or are infinite become null."""
    finite = found.astype(object).replace([math.inf, -math.inf], None)
    print_json(finite.where(found.notna(), None).to_dict("records"), allow_nan=False)


def noisy(found: pd.DataFrame) -> pd.Series[bool]:
    """Return a mask of the lines that are mostly noise, because their interval is at least as wide as the value."""
    return ~(found["upper"] - found["lower"] < found["estimate"].abs())


def sparkline(values: Sequence[float], low: float, high: float) -> str:
    """Return numbers as a line of bars between two bounds. A missing number is shown as a point.

    >>> sparkline([1.0, 2.0, float("nan"), 3.0], 1.0, 3.0), sparkline([4.0, 4.0], 4.0, 4.0)
    ('▁▅·█', '▁▁')
    """
    steps, span = len(_HEIGHTS) - 1, (high - low) or 1.0
    return "".join("·" if value != value else _HEIGHTS[round((value - low) / span * steps)] for value in values)
