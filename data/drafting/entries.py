"""What a code book says of one column, whatever form it comes in.

>>> Entry.of("AGE", "Age", codes=[("0", "Under 1 year"), ("N", "not known")], lower="1", upper="99")
Entry(name='AGE', label='Age', type='number', codes=(('N', 'not known'),), lower=0.0, upper=99.0, integer=True, \
layout='', missing=False)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from equistrata.data.schema import Type, Value, number_in

Codes = Sequence[tuple[str, str]]  # raw value, words

_ORDERED = re.compile(r"\b(deciles?|quintiles?|quartiles?|percentiles?|severity|likert|ordinal)\b", re.I)
_AGREE = ({"agree", "disagree"}, {"never", "always"}, {"poor", "excellent"}, {"low", "high"}, {"mild", "severe"})
_WHOLE = re.compile(r"-?(0|[1-9]\d*)")


@dataclass(frozen=True)
class Entry:
    """A column of a code book.

    Attributes:
        type: None where the book gives neither values nor bounds.
        codes: of values, all of them in order; of numbers and dates, raw cells that are none. Raw value, words.
        lower, upper: numbers; of dates, ISO texts.
        integer: numbers are whole.
        layout: of dates.
        missing: the book says that cells may be absent.
    """

    name: str
    label: str = ""
    type: Type | None = None
    codes: tuple[tuple[str, str], ...] = ()
    lower: float | str | None = None
    upper: float | str | None = None
    integer: bool = False
    layout: str = ""
    missing: bool = False

    @classmethod
    def of(
        cls,
        name: str,
        label: str = "",
        codes: Iterable[tuple[object, object]] = (),
        lower: object = None,
        upper: object = None,
        whole: bool | None = None,
        ordered: bool = False,
        missing: bool = False,
    ) -> Entry:
        """The entry of what a book lists: numbers where both bounds are given, else values, if there are any.

        Args:
            whole: whether numbers are whole; None for: if their bounds are.
        """
        pairs = tuple((_clean(raw), _clean(words)) for raw, words in codes)
        pairs = tuple(dict(pairs).items())
        low, high = (None if each is None else number_in(_clean(each)) for each in (lower, upper))
        name, label = name.strip(), _clean(label)
        if low is not None and high is not None and low < high:
            numbers = {raw: number for raw, _ in pairs if (number := number_in(raw)) is not None}
            for number in sorted(numbers.values(), reverse=True):  # 0 for under 1, 501 for over 500
                low = number if number == low - 1 else low
            for number in sorted(numbers.values()):
                high = number if number == high + 1 else high
            beside = tuple((raw, words or raw) for raw, words in pairs if not low <= numbers.get(raw, low - 1) <= high)
            integer = low.is_integer() and high.is_integer() if whole is None else whole
            return cls(name, label, "number", beside, low, high, integer, missing=missing)
        if not pairs:
            return cls(name, label, missing=missing)
        text = " ".join(words for _, words in pairs).lower()
        sure = ordered or _ORDERED.search(label) or any(all(word in text for word in pair) for pair in _AGREE)
        return cls(name, label, "ordinal" if sure and len(pairs) > 2 else "nominal", pairs, missing=missing)

    @property
    def values(self) -> list[Value]:
        """The raw values as a schema declares them: numbers if all are whole, else texts."""
        raw = [raw for raw, _ in self.codes]
        return [int(each) for each in raw] if all(map(_WHOLE.fullmatch, raw)) else [*raw]


def _clean(text: object) -> str:
    """One line; whole numbers without a point."""
    if isinstance(text, float) and text.is_integer():
        text = int(text)
    return " ".join(str("" if text is None else text).split())
