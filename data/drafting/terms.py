"""What code books of several forms have alike: what they call types, and how they give dates.

>>> layout_in("dd.mm.yyyy"), layout_in("%d/%m/%Y"), layout_in("YYYY-MM-DD hh:mm"), layout_in("F8.0")
('%d.%m.%Y', '%d/%m/%Y', '%Y-%m-%d %H:%M', None)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from equistrata.data.columns.column import number_in
from equistrata.data.columns.dates import ISO, LAYOUTS, day_in, iso
from equistrata.data.drafting.cells.choices import beside_in, listed_in
from equistrata.data.drafting.cells.levels import levels_in, with_levels
from equistrata.data.drafting.cells.parts import BLANK
from equistrata.data.drafting.entries import Entry, one_line

ORDERED = ("ordinal", "ordered")
_WHOLE = ("int", "integer", "bigint", "smallint", "tinyint", "long", "count", "ganzzahl", "entero", "inteiro", "entier")
_DECIMAL = ("float", "real", "double", "decimal", "dezimalzahl", "kommazahl", "d")  # décimal, without its accent
_EITHER = ("number", "numeric", "num", "continuous", "contin", "interval", "ratio", "scale")
DATE = re.compile(r"(date|datum|fecha|data|datetime|timestamp)\b[\s():,-]*(.*?)[\s)]*", re.I)  # as date (dd.mm.yyyy)
_FIXED = re.compile(
    r"(?:%?-?0?|f|n|comma|dot|dollar|pct)\d+\.(\d{1,2})(?:fc?)?|(?:dec|decimal|numeric|number)\(\d+[,.]\s*(\d+)\)", re.I
)
_SHOWN = re.compile(r"[#,]*0\.(0+)%?")  # #,##0.00, as spreadsheets show numbers
_COUNTED = re.compile(
    r"\b(\d|one|two|three|four)\s*(?:decimals?|decimal\s+(?:places?|digits?)|dp|d\.p\.|nachkommastellen?|dezimalstellen?"
    r"|d[ée]cimales?|casas decimais)\b", re.I
)  # fmt: skip
_NUMBERS = {"one": 1, "two": 2, "three": 3, "four": 4}
# Bounds of such a column are no numbers' ends.
_KINDS = ("factor", "categorical", "category", "nominal", "string", "str", "char", "character", "varchar", *ORDERED)
_STORED = ("string", "str", "char", "character", "varchar")  # how cells are kept, of which a wide range says more
_WIDE = 10  # from one bound to the other: less may be codes
_ENDS = re.compile(r"(.*?)\s*[(\[]([^()\[\]]*(?:\([^()]*\)[^()\[\]]*)*)[)\]]\s*\.?")  # label (values)
_YES, _NO = (
    ("yes", "y", "true", "1", "si", "sí", "sim", "ja", "oui"),
    ("no", "n", "false", "0", "none", "nein", "não", "non"),
)
_BLANK_IF = re.compile(
    rf"(?:{BLANK.pattern})\s+(?:if|when|where|for|unless|bei|wenn|falls|si|se|quando|cuando)\b", re.I
)
_SHARE = re.compile(r"(\d+(?:[.,]\d+)?)\s*%?")
# How the Frictionless Table Schema has truth values written where a field does not say.
_TRUTH = {"true": ("true", "True", "TRUE", "1"), "false": ("false", "False", "FALSE", "0")}
_DECLARE = 'declare {type: date, format: "%d.%m.%Y", lower: ..., upper: ...}'
_USUAL = ("", "default", "any", "iso", "iso8601", "iso 8601")
_PARTS = {
    "yyyy": "%Y",
    "jjjj": "%Y",
    "aaaa": "%Y",
    "mm": "%m",
    "m": "%m",
    "dd": "%d",
    "d": "%d",
    "tt": "%d",
    "jj": "%d",
}
_PART = f"({'|'.join(_PARTS)})"
_SPELLED = re.compile(rf"{_PART}([-./ ]?){_PART}(?:\2{_PART})?(?:([t ])(?:hh(?:24)?:m[mi](:ss)?))?")
# A format of dates within a text, also one of years of two digits, which says no layout.
_ANY_PART = f"(?:{'|'.join([*_PARTS, 'yy'])})"
_WRITTEN = re.compile(
    rf"(?<![\w%])(?:{_ANY_PART}([-./ ]?){_ANY_PART}\1{_ANY_PART}|{_ANY_PART}[-./]{_ANY_PART})"
    r"(?:[t ]hh(?:24)?:m[mi](?::ss)?)?(?!\w|[t ]?hh|\s*[ap]\.?m\b)|(?:%[A-Za-z](?:[-./:, T]{1,2}(?=%))?)+Z?", re.I
)  # fmt: skip
_BY_CODES = re.compile(r"(?=.*%Y)(?=.*%[mbB])(?:%[A-Za-z]|[^%\w]|T)+Z?")


def apart(said: str) -> tuple[str, str]:
    """A label apart from the values in parentheses at its end, or after a colon.

    >>> apart("Sex (1 = male, 2 = female)"), apart("Age: 0-99"), apart("Weight (kg)")
    (('Sex', '1 = male, 2 = female'), ('Age', '0-99'), ('Weight (kg)', ''))
    """
    if (found := _ENDS.fullmatch(said)) and _lists(found[2]):
        return found[1], found[2]
    if found and (levels := levels_in(found[2])):
        return found[1], levels
    before, mark, after = said.partition(": ")
    if mark and before.count("(") == before.count(")") and _lists(after):
        return before, after
    if levels := with_levels(said):
        return said, levels
    return ("", said) if _lists(said) and not re.match(r"[^\W\d]", said) else (said, "")


def _lists(text: str) -> bool:
    """Whether a text is a list of codes that all have words, or bounds with such codes or none."""
    codes, lower, _ = listed_in(text)
    return (lower is not None or len(codes) > 1) and all(words or not raw for raw, words in codes)


def absent_in(text: str) -> tuple[bool, list[tuple[str, str]]]:
    """Whether cells may be absent, and codes that say so: of yes or no, a share of absent cells, or a list of codes.

    >>> absent_in("Yes"), absent_in("0 %"), absent_in("2.5%"), absent_in("-9, -8"), absent_in("blank if none")
    ((True, []), (False, []), (True, []), (False, [('-9', 'missing'), ('-8', 'missing')]), (True, []))
    """
    text = text.strip()
    if text.lower() in (*_YES, *_NO, ""):
        return text.lower() in _YES, []
    if _BLANK_IF.match(text):
        return True, []
    share = _SHARE.fullmatch(text)
    if share and (text.endswith("%") or 0 < float(share[1].replace(",", ".")) < 1):
        return float(share[1].replace(",", ".")) > 0, []
    codes = beside_in(text)
    return any(not raw for raw, _ in codes), codes


def layout_in(text: str) -> str | None:
    """The layout (as `datetime.strptime`) that a book's words for one mean; None if they mean none.

    Of years of two digits it is None: they have no century.
    """
    text = text.strip().removeprefix("fmt:")
    if _BY_CODES.fullmatch(text):
        return text
    spelled = _SPELLED.fullmatch(text.lower())
    if not spelled:
        return None
    parts = [_PARTS[part] for part in (spelled[1], spelled[3], spelled[4]) if part]
    if len({*parts}) < len(parts) or not {"%Y", "%m"} <= {*parts}:
        return None
    time = "" if spelled[5] is None else f"{spelled[5].upper()}%H:%M" + ":%S" * bool(spelled[6])
    return spelled[2].join(parts) + time


def formats_in(text: str) -> tuple[str, str]:
    """The formats of dates that a text names, with "or" between several, and the text without them.

    >>> formats_in("format DD.MM.YYYY HH:MM, local time"), formats_in("MM/DD/YYYY, from 01/01/2025 to 12/31/2025")
    (('DD.MM.YYYY HH:MM', 'format , local time'), ('MM/DD/YYYY', ', from 01/01/2025 to 12/31/2025'))
    >>> formats_in("%Y-%m-%d, shown as dd/mm/yy")[0], formats_in("50 % a year")[0], formats_in("and/or m-d")[0]
    ('%Y-%m-%d or dd/mm/yy', '', '')
    """
    found = (each[0].strip() for each in _WRITTEN.finditer(text))
    said = [each for each in found if layout_in(each) or re.search("yy|jjjj|aaaa", each, re.I)]
    for each in said:
        text = text.replace(each, "")
    return " or ".join(dict.fromkeys(said)), text


def decimals_in(text: str) -> int | None:
    """How many decimals a display format (F8.2, %9.2f) or a type of a data base gives; None where it gives no number.

    General and scientific formats (%9.2g, E10.3) count digits that are no decimals, and those of times are seconds.
    Of DECIMAL(4) nothing is said: to a data base it has no decimals, to who wrote a book by hand it may have four.

    >>> forms = ("F8.2", "%-9.3fc", "DECIMAL(10, 2)", "#,##0.00", "F8.0", "%9.0g", "DATETIME23.2", "decimal(4)")
    >>> [decimals_in(form) for form in forms]
    [2, 3, 2, 2, 0, None, None, None]
    >>> decimals_in("number, 2 decimals"), decimals_in("one decimal place")
    (2, 1)
    """
    if shown := _SHOWN.fullmatch(text.strip()):
        return len(shown[1])
    if counted := _COUNTED.search(text):
        return _NUMBERS.get(counted[1].lower()) or int(counted[1])
    found = _FIXED.fullmatch(text.strip())
    return int(found[1] or found[2]) if found else None


def decimals_of(text: str) -> int:
    """How many decimals a number has, written as Python writes one; zeros at its end are none.

    >>> [decimals_of(text) for text in ("12.50", "3", "1e-05", "4e3")]
    [1, 0, 5, 0]
    """
    exponent = Decimal(text).normalize().as_tuple().exponent
    return max(-exponent, 0) if isinstance(exponent, int) else 0


def of_kind(
    name: str,
    label: str,
    codes: Iterable[tuple[object, object]],
    bounds: tuple[object, object],
    words: Sequence[str],
    *,
    missing: bool,
    absent: Iterable[tuple[object, object]] = (),
    whole: bool | None = None,
    ordered: bool = False,
    decimals: float | None = None,
) -> Entry:
    """As `Entry.of`, with the book's words for the column's type and level of measurement.

    A column of a categorical type is none of numbers, whatever bounds it is given.
    """
    plain = [re.split(r"[^a-z]", word.strip().lower())[0] for word in words]
    ordered = ordered or any(word in ORDERED for word in plain)
    ends = [None if end in (None, "") else number_in(one_line(end)) for end in bounds]
    ranged = None not in ends
    kind = next((word for word in plain if word in _KINDS), "")
    wide = (ends[1] or 0) - (ends[0] or 0) >= _WIDE if ranged else False
    if kind and not (wide and kind in _STORED):
        codes = [*codes]
        entry = Entry.of(name, label, codes, ordered=ordered, missing=missing, absent=absent)
        outside = ranged and not any(
            number is not None and (ends[0] or 0) <= number <= (ends[1] or 0)
            for number in (number_in(one_line(raw)) for raw, _ in codes)
        )
        entry = replace(entry, type=None) if outside else entry  # only codes beside the range
        bounded = entry.type is None and any(end not in (None, "") for end in bounds)
        only = f"the book calls it {kind} and gives bounds, but no values; list them"
        return replace(entry, remark=only) if bounded else entry
    if whole is None and any(word in _WHOLE for word in plain):
        whole = True
    if whole is None and decimals == 0:
        whole = True
    either = any(word in _DECIMAL + _EITHER for word in plain) or bool(decimals)
    return Entry.of(
        name,
        label,
        codes,
        *bounds,
        whole=whole,
        ordered=ordered,
        missing=missing,
        absent=absent,
        decimals=decimals,
        allows_decimals=either,
    )


def of_truth(
    name: str,
    label: str,
    spellings: Mapping[str, Sequence[object]],
    missing: bool,
    absent: Iterable[tuple[object, object]] = (),
) -> Entry:
    """The entry of truth values: the first spelling of each is the value, and the others are recoded to it.

    Args:
        spellings: of "true" and "false"; those of the Frictionless Table Schema for one that is not there.
    """
    declared = {word: [*map(one_line, spellings.get(word, ()))] for word in _TRUTH}
    claimed = {raw for given in declared.values() for raw in given}
    written = {word: declared[word] or [raw for raw in usual if raw not in claimed] for word, usual in _TRUTH.items()}
    codes = [(raws[0], word if word != raws[0] else "") for word, raws in written.items() if raws]
    entry = Entry.of(name, label, codes, missing=missing, absent=absent)
    listed = {raw for raw, _ in entry.codes}
    recode = tuple((raw, raws[0]) for raws in written.values() for raw in raws[1:] if raw not in listed)
    return replace(entry, recode=recode)


def like_dates(lower: Any, upper: Any) -> bool:
    """Whether bounds are two days in a layout that tables have, and no numbers: their column is one of dates.

    >>> like_dates("2020-01-01", "2020-12-31"), like_dates("20200101", "20201231"), like_dates("2020-01-01", None)
    (True, False, False)
    """
    ends = (lower, upper)
    if None in ends or any(number_in(end) is not None for end in ends):
        return False
    return any(None not in (day_in(lower, layout), day_in(upper, layout)) for layout in LAYOUTS)


def of_dates(entry: Entry, lower: Any, upper: Any, given: str, usual: str, remark: str = "") -> Entry:
    """An entry as one of dates, if both bounds are some: as ISO dates, or as its cells are written.

    Args:
        given: the layout in the book's words; empty where it has none.
        usual: the layout of cells for which the book has none, unless its bounds are written in another one.
    """
    layout = usual if given.strip().lower() in _USUAL else layout_in(given)
    if layout is None:
        unknown = f"dates in the format {given!r}, which is not known here; {_DECLARE}"
        return replace(entry, type=None, remark=unknown)
    if lower is None or upper is None:
        return replace(entry, type=None, layout=layout, remark=f"dates without a first and a last day; {_DECLARE}")
    if not given and None in (_day(lower, layout), _day(upper, layout)):
        fitting = [each for each in LAYOUTS if None not in (day_in(lower, each), day_in(upper, each))]
        if len(fitting) > 1:
            both = f"dates whose bounds may mean {' or '.join(fitting)}; write them as 2000-12-31"
            return replace(entry, type=None, remark=both)
        if fitting:
            layout = fitting[0]
            remark = (
                f"the book has no format of {entry.name}; its bounds are written as {layout}, as its cells are here"
            )
    first, last = (_day(each, layout) for each in (lower, upper))
    if first is None or last is None:
        odd = f"dates whose bounds are none in the format {layout}; write them as 2000-12-31"
        return replace(entry, type=None, layout=layout, remark=odd)
    return replace(entry, type="date", lower=first, upper=last, layout=layout, remark=remark)


def _day(bound: Any, layout: str) -> str | None:
    alone = re.split(r"[ T]%H", layout)[0]  # days are bounds of times, too
    days = (day_in(bound, each) for each in (layout, alone, ISO, f"{ISO} %H:%M:%S", f"{ISO} %H:%M"))
    return next((iso(day) for day in days if day is not None), None)
