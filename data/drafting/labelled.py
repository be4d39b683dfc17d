"""The descriptions of columns in files with labels, as a code book. No rows are read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

from equistrata.data.columns.column import number_in, plain_text
from equistrata.data.columns.dates import ISO
from equistrata.data.drafting.column import NO_ANSWER, BookColumn, CodeBook, Kind
from equistrata.data.files.formats import TableFormat
from equistrata.data.files.labelled import ColumnDescription
from equistrata.data.files.opening import readable

# Common pairs of words in alphabetical order. They do not reveal anything about the rows, but other words can.
_ANYBODYS = ("no/yes", "n/y", "female/male", "f/m", "men/women", "false/true", "rural/urban", "absent/present",
             "off/on", "negative/positive")  # fmt: skip
# The display formats of months, quarters, weeks and times, which are not numbers of days.
_PERIODS = re.compile(r"%-?t.*|MOYR|QYR|WKYR|D?TIME|MONYY|YYMM[CDNPS]?|YYQ[CDNPRS]*|HHMM|TOD|TIMEAMPM|(?:B|E|IS)8601TM")


def read_labelled(path: Path, form: TableFormat) -> CodeBook:
    """Return the columns of a file with labels. Raises an InputError if the file cannot be read."""
    with readable(path, form):
        return CodeBook({name: _column(name, told) for name, told in form.described(path).items()})


def _column(name: str, told: ColumnDescription) -> BookColumn:
    labels = {plain_text(raw): words for raw, words in told.labels.items() if told.text or not isinstance(raw, str)}
    missing = {raw: words or "missing" for raw, words in told.missing.items()}
    values = tuple((raw, words) for raw, words in labels.items() if raw not in missing)
    answers = any(not NO_ANSWER.match(words) for _, words in values)
    plain: Kind = "ordinal" if told.ordered and answers else "text" if told.text else "" if answers else "number"
    period = not told.unit and _PERIODS.fullmatch(told.form.rstrip("0123456789."))
    kind: Kind = "date" if told.unit or period else plain
    numbers = sorted(number for raw, _ in values if (number := number_in(raw)) is not None)
    gaps = told.scale and any(high - low != 1 for low, high in pairwise(numbers))
    remarks = ("its measure is scale, but only some of its values have labels",) * gaps
    remarks += (f"its format {told.form} is for periods or times, not for days",) * bool(period)
    return BookColumn(
        name, told.label, kind, values, missing=(*missing.items(),), remarks=remarks, layout=ISO if told.unit else "",
        absent=told.tagged, from_rows=are_alphabetical_codes(labels),
    )  # fmt: skip


def are_alphabetical_codes(codes: Mapping[str, str]) -> bool:
    """Return True if the codes 0, 1, 2, … or 1, 2, 3, … are in the alphabetical order of their labels.

    A program can create such codes from the values in the rows, for example `encode` in Stata, AUTORECODE in SPSS,
    factors in R or categories in pandas. Additional codes for missing cells are ignored. The result is False if the
    labels begin with their codes. It is also False if the only two labels are common words, such as no and yes.

    >>> jobs, levels = {"1": "farmer", "2": "Nurse", "3": "writer"}, {"1": "low", "2": "middle", "3": "high"}
    >>> are_alphabetical_codes(jobs), are_alphabetical_codes(jobs | {"98": "refused"}), are_alphabetical_codes(levels)
    (True, True, False)
    >>> pairs = ("nurse", "pilot"), ("No", "Yes"), ("pilot", "nurse")
    >>> [are_alphabetical_codes({"1": one, "2": two}) for one, two in pairs]
    [True, False, False]
    """
    plain = {raw: words for raw, words in codes.items() if not re.fullmatch(r"-\d+|[789]{2,}", raw)}
    return any(
        map(_in_order, (codes, plain, {raw: words for raw, words in plain.items() if not NO_ANSWER.match(words)}))
    )


def _in_order(codes: Mapping[str, str]) -> bool:
    words = [codes[raw] for raw in sorted(codes, key=lambda raw: (len(raw), raw))]
    plain = [text.strip().casefold() for text in words]
    numbered = any({*codes} == {str(first + place) for place in range(len(codes))} for first in (0, 1))
    own = all(text.startswith(raw) for raw, text in codes.items())
    return (
        numbered
        and len(codes) > 1
        and not own
        and "/".join(plain) not in _ANYBODYS
        and (plain == sorted(plain) or words == sorted(words))
    )
