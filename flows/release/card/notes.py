"""What a card warns of: group weights that are not as measured, and a number of rows that is noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from equistrata.eval.report.words import percent


def shares_line(shares: Mapping[str, float], most: int = 6) -> str:
    """The first strata's shares of the rows.

    >>> shares_line({"a": 0.5, "b": 0.3, "c": 0.2}, most=1).replace(chr(160), " ")
    'a: 50 %, and 2 more in card.json'
    """
    shown = [f"{name}: {percent(share)}" for name, share in list(shares.items())[:most]]
    return ", ".join([*shown, *([f"and {len(shares) - most:,} more in card.json"] if len(shares) > most else [])])


def weights_apart_notes(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """A sentence about the farthest of `equistrata.analysis.uncertainty.weights_apart`; none if there is none.

    >>> (note,) = weights_apart_notes([{"stratum": "SEX=1", "words": "Male", "weight": 0.8, "measured": 0.5}])
    >>> note[:58].replace(chr(160), " ")
    'group weights: Male has 80 % of the weight, and about 50 %'
    """
    if not found:
        return []
    first, more = found[0], len(found) - 1
    others = f" ({more} other group{'s differ' if more > 1 else ' differs'} as clearly)" if more else ""
    return [
        f"group weights: {first['words']} has {percent(first['weight'])} of the weight, and about "
        f"{percent(first['measured'])} of the rows as measured{others}; the released rows follow the weights, and "
        "estimates what was measured. If the file is of other people by mistake, correct it, or use --combine-weights"
    ]


def noisy_rows_notes(found: Mapping[str, Any] | None, rows: int) -> list[str]:
    """A sentence on a number of rows that is noise (`equistrata.analysis.uncertainty.noisy_rows`); none if it is not.

    >>> noisy_rows_notes({"estimate": 5100000, "lower": 0, "upper": 12600000, "level": 0.95}, 5131945)[0][:79]
    'the number of rows is noise: 5,131,945 were drawn, and by what was measured the'
    """
    if not found:
        return []
    return [
        f"the number of rows is noise: {rows:,} were drawn, and by what was measured the table has between "
        f"{found['lower']:,} and {found['upper']:,} ({percent(found['level'])}). Little else than noise is in "
        "them at this ε; raise epsilon, and where the number of rows is public, give it (--rows)"
    ]
