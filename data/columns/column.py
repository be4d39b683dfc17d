"""A column that is declared in a schema: its codes, its bins and its labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from math import ceil, floor, inf, nextafter
from typing import Any, Literal

from equistrata.data.columns import dates
from equistrata.data.columns.grid import FINE_BINS, Scale, add_bound_bins, fine_edges, scale_of
from equistrata.data.columns.nesting import Parts, outer_codes
from equistrata.data.columns.raw import ABSENT, number_in, plain_text
from equistrata.errors import InputError

__all__ = [
    "ABSENT", "LONGEST_VALUE", "MOST_FOUND", "OTHER", "OWN_CATEGORY", "Column", "Release", "Type", "Value",
    "like_a_formula", "number_in", "plain_text", "stated_scale", "unstated_scale", "writable",
]  # fmt: skip

Value = int | float | str
Release = Literal["value", "index", "draw", "midpoint"]
Type = Literal["number", "date", "nominal", "ordinal"]

OWN_CATEGORY = "own"
OTHER = "other"
_BY_BOUNDS: Any = "by bounds"  # default: the value that a schema file would have for these bounds
LONGEST_VALUE = 100  # the maximum number of characters of a value that is found in rows
MOST_FOUND = 100  # the maximum number of values of an open column, by decreasing noisy count


@dataclass(frozen=True)
class Column:
    """A declared column.

    A column is either categorical, open or numeric. A categorical column has a list of values. An open column is a
    categorical column where the values are not listed, and a release finds them in the rows at a privacy cost (see
    `equistrata.privacy.thresholds`). Until the values are found, the column only has the values `others` and `missing`,
    and every function that needs its codes raises an InputError. A numeric column has bounds, and its codes are the
    indices of bins. A column of dates is a numeric column where the numbers are days since 1970-01-01.

    Parameters
    ----------
    name : str
        The name of the column.
    label : str
        A description of the column for reports.
    values : tuple of int, float or str
        The released values of a categorical column, in the order of their codes.
    recode : tuple of pairs
        The pairs of a raw value and the released value that replaces it.
    others : int, float or str, optional
        The released value for all raw values that are not declared. If both `recode` and `others` are given, a raw
        value keeps its meaning only if it is listed in `recode`.
    missing : int, float or str, optional
        The value of an absent cell. For a categorical column, this is one of the values. For a numeric column, this is
        a number, one of `codes`, or "own" for an additional category that is released as an empty cell.
    lower, upper : float, optional
        The bounds of the raw values of a numeric column.
    edges : tuple of float
        The b + 1 edges of b bins, in ascending order. The first bin is closed and the other bins are open on the left,
        as in `pandas.cut` with `include_lowest=True`. If no edges are given, the column has the fine bins of
        `equistrata.data.columns.grid`, which a synthesizer merges according to its measurements.
    splits : tuple of float
        Additional edges of the fine bins, which come from rules of the schema.
    integer : bool
        If True, the numbers that are drawn from the bins are whole numbers.
    release : {"value", "index", "draw", "midpoint"}
        The form in which a bin is released: the index of the bin, a uniform draw from the bin, or the midpoint of the
        bin. The values of a categorical column are always released as "value".
    sigma : float, optional
        An upper bound of the standard deviation, for private means.
    mean : tuple of two floats, optional
        An interval that contains the mean of every stratum, for private means. The default is the bounds of the column.
    labels : tuple of pairs
        The pairs of a released value and its label in reports.
    codes : tuple of pairs
        The pairs of a raw cell and its label, for cells of a numeric column that are not measurements, such as -9 for
        refused. Each code is an additional category between the bins and `missing`. It is released unchanged, and means
        do not include its rows.
    type : {"number", "date", "nominal", "ordinal"}, optional
        The declared type. For a categorical column, the type states if the order of the values has a meaning.
    layout : str
        The format of the dates, as in `datetime.strptime`. Dates are read and released as text in this format.
    also : tuple of str
        Additional formats that are accepted for raw cells.
    open : bool
        If True, a release finds the values of the column in the rows.
    scale : {"linear", "logarithmic", "rounded"}, optional
        The scale of the fine bins. The default is the scale of a schema file (see `stated_scale`). The value None is
        the scale of releases from before 2026-11-25 (see `unstated_scale`).
    bounds_apart : bool
        If True, the smallest and the largest number have separate bins. The default is True if a fine bin can contain
        several numbers. Releases from before 2026-11-28 did not have these bins.
    decimals : int, optional
        The number of decimals. No fine bin is narrower than one unit of the last decimal.
    within : tuple of str
        The outer columns of a nested column, outermost first. The codes of a nested column only have a meaning within
        the values of the outer columns (see `equistrata.data.columns.nesting`).
    parts : tuple of tuples
        The declared pairs of the outer values and the inner value of a nested column. Each of `values` is a pair that
        is joined by a slash, and this text is released.
    joined : bool
        If True, the rows hold `values`, as released rows do. If False, the rows hold separate cells of `within` and of
        the column.
    positive : int, float or str, optional
        The value that classifiers predict if the column is a target. The default is the largest value. For a numeric
        column, the positive class can be all numbers above a threshold, such as ">50000", which then is an edge of a
        bin.
    weight : bool
        If True, the column is the survey weight, and a number above `upper` counts as `upper` (see
        `equistrata.data.survey.weight`).
    """

    name: str
    label: str = ""
    values: tuple[Value, ...] = ()
    recode: tuple[tuple[Value, Value], ...] = ()
    others: Value | None = None
    missing: Value | None = None
    lower: float | None = None
    upper: float | None = None
    edges: tuple[float, ...] = ()
    splits: tuple[float, ...] = ()
    integer: bool = False
    release: Release = "value"
    sigma: float | None = None
    mean: tuple[float, float] | None = None
    labels: tuple[tuple[Value, str], ...] = ()
    codes: tuple[tuple[Value, str], ...] = ()
    type: Type | None = None
    layout: str = ""
    also: tuple[str, ...] = ()
    open: bool = False
    scale: Scale | None = _BY_BOUNDS
    bounds_apart: bool = _BY_BOUNDS
    decimals: int | None = None
    within: tuple[str, ...] = ()
    parts: Parts = ()
    joined: bool = False
    positive: Value | None = None
    weight: bool = False

    def __post_init__(self) -> None:
        bounds = None if self.edges or self.layout or self.lower is None or self.upper is None else self.bounds
        if self.scale == _BY_BOUNDS:
            object.__setattr__(self, "scale", None if bounds is None else stated_scale(*bounds, self.integer))
        if self.bounds_apart == _BY_BOUNDS:
            apart = bounds is not None and not has_bin_each(*bounds, self.integer, self.scale)
            object.__setattr__(self, "bounds_apart", apart)

    @property
    def cells(self) -> tuple[str, ...]:
        """The columns of the raw rows from which the codes are read."""
        return (self.name,) if self.joined else (*self.within, self.name)

    @property
    def levels(self) -> tuple[tuple[int, ...], ...]:
        """For each outer column, outermost first, the index of the outer value that each code belongs to."""
        return tuple(outer_codes(self.parts, depth) for depth in range(1, len(self.within) + 1))

    @property
    def numeric(self) -> bool:
        """True if the column has bounds instead of values."""
        return not self.values and not self.open

    @property
    def ordered(self) -> bool:
        """True if the order of the codes has a meaning."""
        return self.numeric or self.type == "ordinal"

    @property
    def whole(self) -> bool:
        """True if the cells must be whole numbers.

        This is the case if whole numbers are drawn from the bins. The index and the midpoint of a bin are defined for
        all numbers.
        """
        return self.integer and self.release not in ("index", "midpoint")

    @property
    def bounds(self) -> tuple[float, float]:
        """The declared bounds. Raises an InputError if the column has no bounds."""
        if self.lower is None or self.upper is None:
            raise InputError(f"column {self.name!r} has no bounds; add 'lower' and 'upper' to it in the schema")
        return self.lower, self.upper

    @property
    def mean_bounds(self) -> tuple[float, float]:
        """The interval that contains the mean of every stratum.

        This is `mean` if it is declared, and the bounds otherwise. An InputError is raised if neither of them is
        declared.
        """
        return self.mean or self.bounds

    @property
    def fine(self) -> bool:
        """True if the column is numeric and only its bounds are declared."""
        return self.numeric and not self.edges

    @cached_property
    def cuts(self) -> tuple[float, ...]:
        """The edges of the bins of a numeric column, either declared or computed from the bounds."""
        if self.edges or not self.numeric:
            return self.edges
        if self.layout:
            bins = dates.fine_edges(*self.bounds, self.layout)
        else:
            scale = self.scale or unstated_scale(*self.bounds, self.integer)
            bins = fine_edges(*self.bounds, scale, self.integer, self.decimals)
            if self.bounds_apart:
                bins = add_bound_bins(bins, *self.bounds, self.digits)
        end = None if self.positive is None else self._end_below(self.positive)
        return tuple(sorted({*bins, *self.splits, *([] if end is None else [end])}))

    def codes_of(self, positive: Value) -> tuple[int, ...]:
        """Return the codes of a value or of the numbers above a threshold.

        Parameters
        ----------
        positive : int, float or str
            One of `keys`, or a text such as ">50000".

        Returns
        -------
        tuple of int
            The codes in ascending order.

        Raises
        ------
        InputError
            If the value is not one of `keys` and is not a threshold at an edge of a bin.

        Examples
        --------
        >>> Column("X", lower=0, upper=9, integer=True).codes_of(">7"), Column("Y", values=(0, 2)).codes_of(2)
        ((8, 9), (1,))
        """
        if positive in self.keys:
            return (self.keys.index(positive),)
        end = self._end_below(positive) if self.numeric else None
        if end not in self.cuts[1:-1]:
            raise InputError(
                f"positive is {positive!r}, which is not a value of target {self.name!r}; give one of its values"
            )
        return tuple(range(self.cuts.index(end), self.bins))

    def _end_below(self, positive: Value) -> float | None:
        """Return the edge below all numbers above a threshold such as ">50000", or None for any other text."""
        number = number_in(str(positive)[1:]) if str(positive)[:1] == ">" else None
        return number if number is None or not (self.integer and self.fine) else floor(number) + 0.5

    @property
    def digits(self) -> int | None:
        """The number of decimals, which is 0 for whole numbers, or None if it is not declared."""
        return 0 if self.integer else self.decimals

    @property
    def bins(self) -> int:
        """The number of bins of a numeric column."""
        return max(len(self.cuts) - 1, 0)

    @property
    def size(self) -> int:
        """The number of codes. Raises an InputError if the column is open."""
        if self.open:
            raise InputError(
                f"column {self.name!r} is declared as 'values: open', so its values are unknown; list them in the "
                "schema"
            )
        return len(self.values) or self.bins + len(self.codes) + (self.missing == OWN_CATEGORY)

    @cached_property
    def keys(self) -> tuple[Value, ...]:
        """The name of each code in strata keys, weights files and structural zeros.

        The name is the value of a categorical column or the index of a bin.
        """
        return self.values or tuple(range(self.size))

    @property
    def coding(self) -> dict[str, Any]:
        """The settings of the column that determine the codes, as plain values for digests.

        Settings that are not declared are left out so that the digests of older schemas do not change. The labels and
        the type are also left out because they are only used in reports and can be corrected later.
        """
        said = asdict(self) | {"codes": [raw for raw, _ in self.codes]}
        absent = ["labels", "type"] + [key for key in ("codes", "splits", "layout", "open", "also") if not said[key]]
        absent += [key for key in ("scale", "decimals", "positive") if said[key] is None]
        absent += [key for key in ("bounds_apart", "weight") if not said[key]]
        absent += ["within", "parts", "joined"] if not self.within else []
        return {key: value for key, value in said.items() if key not in absent}

    def with_values(self, found: Sequence[str]) -> Column:
        """Return a copy of an open column with the values that were found.

        The new values are the given values in this order, followed by `missing` and `others`.
        """
        own = [name for name in (self.missing, self.others) if name is not None]
        return replace(self, values=tuple(dict.fromkeys([*found, *own])), open=False)

    def words(self, key: Value) -> str:
        """Return the label of a code in reports.

        The label of a bin consists of its ends. The label of a value is the declared label, or the value if no label is
        declared.

        Parameters
        ----------
        key : int, float or str
            One of `keys`.

        Returns
        -------
        str
            The label.

        Examples
        --------
        >>> column = Column("AGEP", lower=0, upper=99, edges=(0, 19, 38, 99))
        >>> column.words(0), column.words(1), Column("X", values=(1, 2), labels=((2, "yes"),)).words(1)
        ('0 to 19', 'over 19 to 38', '1')
        """
        if self.values:
            return dict(self.labels).get(key, str(key))
        place = self.keys.index(key)
        if place >= self.bins:
            return [*(words for _, words in self.codes), "missing"][place - self.bins]
        low, high = self.cuts[place : place + 2]
        if self.layout:
            return dates.period(*self.days(place))
        if self.fine and self.integer:
            first, last = ceil(max(low, self.bounds[0])), floor(high)
            return f"{first}" if first == last else f"{first} to {last}"
        between = self.scale == "rounded" or self.bounds_apart
        if self.fine and between and self.decimals is not None:  # the edges are between two numbers
            first, last = _numbers_between(low if place else max(low, self.bounds[0]), high, self.decimals, not place)
            if first <= last:
                ends = (f"{Decimal(each).scaleb(-self.decimals).normalize():f}" for each in sorted({first, last}))
                return " to ".join(ends)
        start = low if place else max(low, self.bounds[0])
        if high in (start, nextafter(low, inf)):
            return f"{high:g}"
        end = f"{high:g}"
        if high == nextafter(0.0, -inf) or (self.bounds_apart and high == nextafter(self.bounds[1], -inf)):
            end = f"under {nextafter(high, inf):g}"
        return f"{'over ' if place else ''}{start:g} to {end}"

    def days(self, place: int) -> tuple[float, float]:
        """Return the first and the last day of a bin of dates."""
        low, high = self.cuts[place : place + 2]
        return float(floor(low) + 1 if place else self.bounds[0]), float(min(floor(high), self.bounds[1]))

    def shown(self, number: float) -> str:
        """Format a number of the column for a message. Dates are formatted as ISO dates."""
        return dates.iso(number) if self.layout else f"{number:g}"


def _numbers_between(low: float, high: float, decimals: int, closed: bool) -> tuple[int, int]:
    """Return the first and the last number with a given number of decimals in an interval.

    The interval includes `high`, and it includes `low` only if `closed` is True. The numbers are in units of the last
    decimal. If there is no number in the interval, the first number is larger than the last.
    """
    below_zero = nextafter(0.0, -inf)
    ends = [-Fraction(1, 2) if end == below_zero else Fraction(repr(end)) * 10**decimals for end in (low, high)]
    return ceil(ends[0]) if closed else floor(ends[0]) + 1, floor(ends[1])


def unstated_scale(lower: float, upper: float, integer: bool) -> Scale:
    """Return the scale of a `schema.json` that does not contain a scale, which was the case before 2026-11-25."""
    return "logarithmic" if integer and upper - lower >= FINE_BINS else "linear"


def stated_scale(lower: float, upper: float, integer: bool, declared: Scale | None = None) -> Scale | None:
    """Return the scale that is written to a schema file.

    The result is None if the scale is equal to `unstated_scale`, so that the digests of older schemas do not change.
    """
    scale = "rounded" if declared == "logarithmic" else declared or scale_of(lower, upper, integer)
    return None if scale == unstated_scale(lower, upper, integer) else scale


def has_bin_each(lower: float, upper: float, integer: bool, scale: Scale | None) -> bool:
    """Return True if each number of a column without edges has a separate bin.

    This is the case for whole numbers if their range is less than FINE_BINS.
    """
    return integer and scale is None and upper - lower < FINE_BINS


def writable(text: str) -> bool:
    r"""Return True if a text can be a value in every file of a release.

    The text must be short, printable and on a single line, and it must not start or end with blanks. It must not be
    read as an absent cell, and a spreadsheet must not read it as a formula.

    >>> [writable(text) for text in ("Nurse", "01", "-9", "", "a\nb", "=1+1", "NA", "x" * 101)]
    [True, True, True, False, False, False, False, False]
    """
    if not text or len(text) > LONGEST_VALUE or text != text.strip() or text in ABSENT:
        return False
    return text.isprintable() and not like_a_formula(text)


def like_a_formula(text: str) -> bool:
    """Return True if a spreadsheet that opens a CSV file would read the text as a formula."""
    return text[:1] in ("=", "+", "-", "@", "\t", "\r") and number_in(text) is None
