"""The functions that format the numbers of a report, such as shares, costs, counts and intervals.

>>> [percent(x) for x in (0, 0.000214, 0.0371, 0.234, 1.83)]
['0 %', '0.021 %', '3.7 %', '23 %', '183 %']
>>> interval(ReportedNumber(0.049, 0.021, 0.09), percent)
'4.9 % (2.1 % to 9.0 %)'
>>> several(["a", "b", "c"])
'a, b and c'
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from equistrata.data.strata import MIN_SHARE
from equistrata.eval.report.group_errors import ReportedNumber, judged, may_be_largest
from equistrata.eval.scores.tables import ALL_ROWS
from equistrata.privacy.conversion import round_up

GROUPS_NAMED = 3  # the largest number of groups that are named in one sentence
MOST_EXPONENT = 13.8  # the largest ε with a factor below a million; larger factors are not informative


def percent(share: float) -> str:
    """Format a share in percent with two or three digits."""
    x = 100 * share
    digits = 1 - math.floor(math.log10(abs(x))) if 0 < abs(x) < 10 else 0
    return f"{x:,.{min(digits, 8)}f}\u00a0%"


def rate(share: float) -> str:
    """Format a rate in percent with one decimal, so that rates that differ only a little can be compared."""
    return f"{100 * share:.1f}\u00a0%"


def ratio(x: float) -> str:
    """Format a ratio or an error of order one with three decimals."""
    return f"{x:.3f}" if abs(x) < 100 else f"{x:,.0f}"


def two_digits(x: float) -> str:
    """Format a sum of distances with two digits, or as a whole number if it is 100 or more.

    >>> two_digits(0.0391), two_digits(18.06), two_digits(190.005)
    ('0.039', '18', '190')
    """
    return f"{x:.2g}" if abs(x) < 99.5 else f"{x:,.0f}"


def price(x: float) -> str:
    """Format a δ or an ε.

    >>> price(1e-09), price(0.5)
    ('1e-9', '0.5')
    """
    return f"{x:g}".replace("e-0", "e-").replace("e+0", "e")


def odds_change(epsilon: float, delta: float, odds_on: str) -> str:
    """Return a sentence about the largest change of an attacker's odds about one unit.

    >>> odds_change(1.0, 1e-9, "that you are in it")
    "an attacker's odds that you are in it change by a factor of at most 2.72 (e^ε), except with probability δ = 1e-9"
    """
    factor = f"of at most {round_up(math.exp(epsilon)):,.10g}" if epsilon < MOST_EXPONENT else "of more than a million"
    change = "change" if epsilon < MOST_EXPONENT else "may change"
    odds = f"an attacker's odds {odds_on} {change} by a factor {factor} (e^ε)"
    return f"{odds}, except with probability δ = {price(delta)}"


def first_names(names: Sequence[str]) -> str:
    """Return the first names and the number of the other names.

    >>> first_names("abc"), first_names("abcde")
    ('a; b; c', 'a; b; c; and 2 more')
    """
    more = [f"and {len(names) - GROUPS_NAMED} more"] if len(names) > GROUPS_NAMED else []
    return "; ".join([*names[:GROUPS_NAMED], *more])


def count(x: float) -> str:
    """Format a count as a whole number."""
    return f"{x:,.0f}"


def rows_in_words(lower: float, upper: float) -> str:
    """Format the interval of a number of rows with whole numbers.

    >>> [rows_in_words(*ends) for ends in ((2.9, 56.03), (0.4, 35.9), (999.998, 1000.002), (0, math.inf))]
    ['3 to 56', 'fewer than 36', '1,000', 'an unknown number of']
    """
    if math.isinf(upper):
        return "an unknown number of"
    least, most = math.ceil(lower), math.floor(upper)
    if lower < 1:
        return f"fewer than {count(most + 1)}"
    return count(least) if least >= most else f"{count(least)} to {count(most)}"


def interval(shown: ReportedNumber, words: Callable[[float], str]) -> str:
    """Format a number with its interval if there is one. Return a dash if there is neither a number nor an interval."""
    value = "" if shown.value is None else words(shown.value)
    if shown.lower is None or shown.upper is None or shown.lower == shown.upper:
        return value or "–"
    ends = (
        f"{words(shown.lower)} or more" if math.isinf(shown.upper) else f"{words(shown.lower)} to {words(shown.upper)}"
    )
    return f"{value} ({ends})" if value else ends


def largest_in_words(
    numbers: Mapping[str, ReportedNumber], names: Mapping[str, str], write: Callable[[float], str]
) -> str:
    """Return the group with the largest number in words, or the reason why it is not known.

    The group is known if its interval is above all other intervals.

    Parameters
    ----------
    numbers : mapping of str to Shown
        The number of each group. A group without a number cannot be judged.
    names : mapping of str to str
        The names of all groups, in words.
    write : callable
        The function that formats a number.

    Returns
    -------
    str
        The group and its number, or a phrase that begins with "not known".

    Examples
    --------
    >>> numbers = {"a": ReportedNumber(0.3, 0.2, 0.4), "b": ReportedNumber(0.1, 0.0, 0.15),
    ...     "c": ReportedNumber(0.9, 0.0, 2.0, "noise")}
    >>> largest_in_words(numbers, {"a": "A", "b": "B", "c": "C"}, ratio)
    'A: 0.300 (0.200 to 0.400), among the 2 of 3 groups that can be judged'
    >>> largest_in_words({"a": numbers["a"]}, {"a": "A", "c": "C"}, ratio)
    'not known, because 1 of 2 groups cannot be judged'
    """
    groups, found, largest = len(names.keys() - {ALL_ROWS}), judged(numbers), may_be_largest(numbers)
    if not groups:
        return f"{names[ALL_ROWS]}: {interval(numbers[ALL_ROWS], write)}"
    if len(largest) > 1:
        return f"not known, because it may be any of {len(largest)} groups"
    if len(found) < min(groups, 2):
        return f"not known, because {groups - len(found)} of {groups} groups cannot be judged"
    among = f", among the {len(found)} of {groups} groups that can be judged" if len(found) < groups else ""
    return "".join(f"{names[label]}: {interval(found[label], write)}{among}" for label in largest)


def groups_counted(expected: float, declared: int) -> str:
    """Return a phrase about the groups that are counted in a parity distance.

    It is not known which of the small groups are counted, so their number is an expectation.

    Parameters
    ----------
    expected : float
        The expected number of groups that are counted.
    declared : int
        The number of declared groups.

    Returns
    -------
    str
        The phrase.

    Examples
    --------
    >>> groups_counted(6.0, 6), groups_counted(12.2, 18)
    ('the 6 groups with at least 0.1 % of the rows', 'the groups with at least 0.1 % of the rows (about 12 of 18)')
    """
    of, about = f"groups with at least {100 * MIN_SHARE:g}\u00a0% of the rows", f"{expected:.0f}"
    sure = abs(expected - round(expected)) < 0.01
    return f"the {about} {of}" if sure else f"the {of} (about {about} of {declared})"


def several(names: Sequence[str]) -> str:
    """Join one or more names with commas and "and"."""
    return " and ".join([*[", ".join(names[:-1])][: len(names) > 1], *names[-1:]])
