"""Numbers and groups in words, as the report writes them everywhere.

>>> [percent(x) for x in (0, 0.000214, 0.0371, 0.234, 1.83)]
['0\u00a0%', '0.021\u00a0%', '3.7\u00a0%', '23\u00a0%', '183\u00a0%']
>>> interval(Shown(0.049, 0.021, 0.09), percent)
'4.9\u00a0% (2.1\u00a0% to 9.0\u00a0%)'
>>> several(["a", "b", "c"])
'a, b and c'
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from equistrata.eval.report.findings import Shown

__all__ = ["count", "groups", "interval", "percent", "power", "rate", "ratio", "several", "short"]


def percent(share: float) -> str:
    """A share in per cent, to two or three digits."""
    x = 100 * share
    if x == 0:
        return "0\u00a0%"
    if abs(x) >= 10:
        return f"{x:,.0f}\u00a0%"
    if abs(x) >= 1:
        return f"{x:.1f}\u00a0%"
    return f"{_significant(x)}\u00a0%"


def rate(share: float) -> str:
    """A rate in per cent, to a tenth: for shares that lie close together."""
    return f"{100 * share:.1f}\u00a0%"


def ratio(x: float) -> str:
    """A ratio or an error of order one, to a thousandth."""
    return f"{x:.3f}" if abs(x) < 100 else f"{x:,.0f}"


def short(x: float) -> str:
    """A number for a cell of a heat map: two digits, three decimals at most.

    >>> short(12.3), short(1.23), short(0.0123), short(0.00004)
    ('12', '1.2', '0.012', '0')
    """
    return f"{x:.0f}" if abs(x) >= 9.95 else f"{x:.1f}" if abs(x) >= 0.995 else f"{x:.2g}" if abs(x) >= 0.001 else "0"


def power(x: float) -> str:
    """A δ or an ε.

    >>> power(1e-09), power(0.5)
    ('1e-9', '0.5')
    """
    return f"{x:g}".replace("e-0", "e-").replace("e+0", "e")


def groups(names: Sequence[str]) -> str:
    """A list of names that have commas in them."""
    return "; ".join(names)


def count(x: float) -> str:
    """A number of rows."""
    return f"{x:,.0f}"


def interval(shown: Shown, words: Callable[[float], str]) -> str:
    """A number with its interval, if it has one; a dash if there is none."""
    value = "–" if shown.value is None else words(shown.value)
    if shown.lower is None or shown.upper is None or shown.lower == shown.upper:
        return value
    if math.isinf(shown.upper):
        return f"{value} ({words(shown.lower)} or more)"
    return f"{value} ({words(shown.lower)} to {words(shown.upper)})"


def several(names: Sequence[str]) -> str:
    """A list in words."""
    return " and ".join([*[", ".join(names[:-1])][: len(names) > 1], *names[-1:]])


def _significant(x: float) -> str:
    digits = max(1 - math.floor(math.log10(abs(x))), 0)
    return f"{x:.{min(digits, 8)}f}"
