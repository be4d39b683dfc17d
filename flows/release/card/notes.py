"""What a card warns of: group weights that are not as measured, and a number of rows that is noise."""

from __future__ import annotations

from collections.abc import Mapping

from equistrata.eval.report.words import percent


def shares_line(shares: Mapping[str, float], most: int = 6) -> str:
    """The first strata's shares of the rows.

    >>> shares_line({"a": 0.5, "b": 0.3, "c": 0.2}, most=1).replace(chr(160), " ")
    'a: 50 %, and 2 more in card.json'
    """
    shown = [f"{name}: {percent(share)}" for name, share in list(shares.items())[:most]]
    return ", ".join([*shown, *([f"and {len(shares) - most:,} more in card.json"] if len(shares) > most else [])])
