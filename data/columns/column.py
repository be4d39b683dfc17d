"""A column that a schema declares: its codes, bins and words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from math import ceil, floor, inf, nextafter
from typing import Any, Literal

from equistrata.data.columns import dates
from equistrata.data.columns.grid import FINE_BINS, Scale, fine_edges, scale_of, with_bounds_apart
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
_BY_BOUNDS: Any = "by bounds"  # what is not given of bins: what a schema file would write down
LONGEST_VALUE = 100  # characters of a value that is found in rows
MOST_FOUND = 100  # values of an open column: those that the most rows hold, by noisy counts


@dataclass(frozen=True)
class Column:
    """One declared column.

    Categorical: `values` are the released codes in order; `recode` maps raw values to them, `others` is the code of
    every other raw value, `missing` that of an absent cell. With both `recode` and `others`, a raw value keeps its
    meaning only where `recode` lists it.
    Open: categorical, with values that a release finds in the rows at a price (`equistrata.privacy.thresholds`); until
    then it has none, only `others` and `missing`, and whatever needs its codes raises InputError.
    Numeric: `lower`, `upper` bound the raw values. With `edges` (b + 1 of them, ascending) the column has b bins, the
    first closed, the others open on the left, as `pandas.cut(include_lowest=True)`; without edges it has the fine bins
    of `equistrata.data.columns.grid` on its `scale`, no narrower than the last of `decimals`, and `splits` where rules
    cut these; a synthesizer merges them by what it measures. Where no `scale` is given it is that of a schema file,
    `stated_scale`; None is `unstated_scale`, as releases before 2026-11-25 had it. With `bounds_apart` the least and
    the largest number have bins of their own, as in every column whose fine bins hold several numbers; releases before
    2026-11-28 had no such bins.
    `missing` is a number that stands for an absent cell, or "own" for a category of its own (released empty), or one of
    `codes`. A bin is released as its "index", its "midpoint", or a uniform "draw" from it (whole numbers if `integer`).
    For private means, `sigma` bounds the standard deviation, and `mean` is an interval that holds the mean of every
    stratum (the column's bounds if not declared).
    Dates are such a column, of days since 1970-01-01, read and released as text by `layout` (`datetime.strptime`); raw
    cells may be written in the layouts of `also`, too.
    `type` is as declared; of values it says whether their order means something.
    `codes` (raw value, words) are raw cells of a numeric column that are no measured number, as -9 for refused: each is
    a category of its own after the bins and before `missing`, released unchanged, and means leave its rows out.
    `positive` is what classifiers predict of the column as a target, where that is not its greatest value: a value, or
    of numbers those above one, as ">50000", which then ends a bin.
    `label` and `labels` (released code, words) are for reports.
    `weight` marks the survey weight: a number above `upper` counts as `upper` (`equistrata.data.survey.weight`).
    Nested: categorical, with codes that mean something only `within` other columns, outermost first. `parts` are the
    pairs that are declared; `values` join each by a slash, and so they are released
    (`equistrata.data.columns.nesting`).
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
    joined: bool = False  # whether rows hold `values`, as released ones do, not cells of `within` and of its own
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
        """The columns of raw rows that its codes are read from."""
        return (self.name,) if self.joined else (*self.within, self.name)

    @property
    def levels(self) -> tuple[tuple[int, ...], ...]:
        """For each column that it lies within, outermost first, the number of the outer value that each code is in."""
        return tuple(outer_codes(self.parts, depth) for depth in range(1, len(self.within) + 1))

    @property
    def numeric(self) -> bool:
        """True when the column has bounds rather than values."""
        return not self.values and not self.open

    @property
    def ordered(self) -> bool:
        """True when the order of its codes means something."""
        return self.numeric or self.type == "ordinal"

    @property
    def whole(self) -> bool:
        """True when its cells must be whole numbers: draws are. A bin's index or midpoint holds for any number."""
        return self.integer and self.release not in ("index", "midpoint")

    @property
    def bounds(self) -> tuple[float, float]:
        """The declared bounds. Raises InputError without them."""
        if self.lower is None or self.upper is None:
            raise InputError(f"column {self.name!r} has no bounds; add 'lower' and 'upper' to it in the schema")
        return self.lower, self.upper

    @property
    def mean_bounds(self) -> tuple[float, float]:
        """Where the mean of every stratum surely lies: `mean`, or the bounds. Raises InputError without either."""
        return self.mean or self.bounds

    @property
    def fine(self) -> bool:
        """True when a numeric column declares bounds alone."""
        return self.numeric and not self.edges

    @cached_property
    def cuts(self) -> tuple[float, ...]:
        """The edges of a numeric column's bins, as declared or as its bounds make them."""
        if self.edges or not self.numeric:
            return self.edges
        if self.layout:
            bins = dates.fine_edges(*self.bounds, self.layout)
        else:
            scale = self.scale or unstated_scale(*self.bounds, self.integer)
            bins = fine_edges(*self.bounds, scale, self.integer, self.decimals)
            if self.bounds_apart:
                bins = with_bounds_apart(bins, *self.bounds, self.digits)
        end = None if self.positive is None else self._end_below(self.positive)
        return tuple(sorted({*bins, *self.splits, *([] if end is None else [end])}))

    def codes_of(self, positive: Value) -> tuple[int, ...]:
        """The codes of one of `keys`, or of the numbers above one, as ">50000". Raises InputError for another text.

        >>> Column("X", lower=0, upper=9, integer=True).codes_of(">7"), Column("Y", values=(0, 2)).codes_of(2)
        ((8, 9), (1,))
        """
        if positive in self.keys:
            return (self.keys.index(positive),)
        end = self._end_below(positive) if self.numeric else None
        if end not in self.cuts[1:-1]:
            raise InputError(f"positive is {positive!r}, which is not a value of target {self.name!r}; correct it")
        return tuple(range(self.cuts.index(end), self.bins))

    def _end_below(self, positive: Value) -> float | None:
        """Where the bins end that have no number above the one in a text, as ">50000"; None for another text."""
        number = number_in(str(positive)[1:]) if str(positive)[:1] == ">" else None
        return number if number is None or not (self.integer and self.fine) else floor(number) + 0.5

    @property
    def digits(self) -> int | None:
        """How many decimals its numbers have, 0 of whole ones; None if that is not declared."""
        return 0 if self.integer else self.decimals

    @property
    def bins(self) -> int:
        """How many bins a numeric column has."""
        return max(len(self.cuts) - 1, 0)

    @property
    def size(self) -> int:
        """The number of codes. Raises InputError for an open column."""
        if self.open:
            raise InputError(
                f"column {self.name!r} is declared as 'values: open', and only a release finds its values; list them"
            )
        return len(self.values) or self.bins + len(self.codes) + (self.missing == OWN_CATEGORY)

    @cached_property
    def keys(self) -> tuple[Value, ...]:
        """What names each code in strata keys, weights files and structural zeros: the value, or the bin's index."""
        return self.values or tuple(range(self.size))

    @property
    def coding(self) -> dict[str, Any]:
        """How it codes rows, as plain values, for digests. What is not declared is absent, so that older digests stay.

        Words for values are left out, since they are for reports and may be mended, and so is the type.
        """
        said = asdict(self) | {"codes": [raw for raw, _ in self.codes]}
        absent = ["labels", "type"] + [key for key in ("codes", "splits", "layout", "open", "also") if not said[key]]
        absent += [key for key in ("scale", "decimals", "positive") if said[key] is None]
        absent += [key for key in ("bounds_apart", "weight") if not said[key]]
        absent += ["within", "parts", "joined"] if not self.within else []
        return {key: value for key, value in said.items() if key not in absent}

    def with_values(self, found: Sequence[str]) -> Column:
        """An open column once its values are found: these, in this order, and then `missing` and `others`."""
        own = [name for name in (self.missing, self.others) if name is not None]
        return replace(self, values=tuple(dict.fromkeys([*found, *own])), open=False)

    def words(self, key: Value) -> str:
        """One of `keys` in a report: its declared words, the ends of its bin, or the value itself.

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
        if self.fine and between and self.decimals is not None:  # edges are between numbers
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
        """The first and the last day of a bin of dates."""
        low, high = self.cuts[place : place + 2]
        return float(floor(low) + 1 if place else self.bounds[0]), float(min(floor(high), self.bounds[1]))

    def shown(self, number: float) -> str:
        """A number of the column in a message, dates as such."""
        return dates.iso(number) if self.layout else f"{number:g}"


def _numbers_between(low: float, high: float, decimals: int, closed: bool) -> tuple[int, int]:
    """The first and the last number of so many decimals over `low`, or at it if `closed`, up to `high`, in units of
    the last decimal. The first is larger where there is none."""
    below_zero = nextafter(0.0, -inf)
    ends = [-Fraction(1, 2) if end == below_zero else Fraction(repr(end)) * 10**decimals for end in (low, high)]
    return ceil(ends[0]) if closed else floor(ends[0]) + 1, floor(ends[1])


def unstated_scale(lower: float, upper: float, integer: bool) -> Scale:
    """That of `schema.json` without a scale, as before 2026-11-25."""
    return "logarithmic" if integer and upper - lower >= FINE_BINS else "linear"


def stated_scale(lower: float, upper: float, integer: bool, declared: Scale | None = None) -> Scale | None:
    """The scale to write down: none where it goes without saying, so that digests of older schemas stay."""
    scale = "rounded" if declared == "logarithmic" else declared or scale_of(lower, upper, integer)
    return None if scale == unstated_scale(lower, upper, integer) else scale


def has_bin_each(lower: float, upper: float, integer: bool, scale: Scale | None) -> bool:
    """Whether each number of a column without edges has a bin of its own: whole numbers, if there are few."""
    return integer and scale is None and upper - lower < FINE_BINS


def writable(text: str) -> bool:
    """Whether a text can be a value of every file of a release, unchanged: short, printable, on one line, without
    blanks at its ends, and taken neither for an absent cell nor, by a spreadsheet, for a formula.

    >>> [writable(text) for text in ("Nurse", "01", "-9", "", "a\\nb", "=1+1", "NA", "x" * 101)]
    [True, True, True, False, False, False, False, False]
    """
    if not text or len(text) > LONGEST_VALUE or text != text.strip() or text in ABSENT:
        return False
    return text.isprintable() and not like_a_formula(text)


def like_a_formula(text: str) -> bool:
    """Whether a spreadsheet that opens a CSV file takes a cell for a formula."""
    return text[:1] in ("=", "+", "-", "@", "\t", "\r") and number_in(text) is None
