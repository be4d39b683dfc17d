"""What the rows of a dictionary say of one column.

>>> [entry] = described("AGE", [{"label": "Age", "type": "integer", "choices": "0-99; -9=refused"}])
>>> entry.lower, entry.upper, entry.codes, entry.integer
(0.0, 99.0, (('-9', 'refused'),), True)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from equistrata.data.columns.column import ABSENT, number_in
from equistrata.data.columns.dates import ISO, ISO_TIME, TIME_OF_DAY, is_time_of_day
from equistrata.data.drafting.cells.choices import beside_in, cell_of, listed_in
from equistrata.data.drafting.cells.parts import BLANK
from equistrata.data.drafting.entries import Codes, Entry
from equistrata.data.drafting.rows.constraints import allowed_in
from equistrata.data.drafting.spans import between_codes, bound_in, cell_span, days_between
from equistrata.data.drafting.terms import (
    DATE,
    absent_in,
    apart,
    decimals_in,
    formats_in,
    layout_in,
    like_dates,
    of_dates,
    of_kind,
    of_truth,
)

_OF_TIME = re.compile("time(_hh_mm_ss|_mm_ss)?|timeofday|time of day")  # a type of a book, or a check of REDCap's
_REDCAP_DATE = re.compile(
    r"(date|datetime|datetime_seconds)_(?:ymd|dmy|mdy)"
)  # how it is shown, not how it is exported
_REDCAP_DECIMALS = re.compile(r"number_(\d)dp(?:_comma_decimal)?")
_REDCAP_LAYOUTS = {"date": ISO, "datetime": f"{ISO} %H:%M", "datetime_seconds": f"{ISO} %H:%M:%S"}
_PATTERN = re.compile(r"n+(?:\.n+)?|x+|n{1,3}/n{1,3}|9\(\d+\)")  # how a number is written, and no value
_TIME_PATTERN = re.compile(r"hh:?mm(?::?ss)?", re.I)
# What a book has instead of values.
_HIDDEN = re.compile(
    r"(?:hidden|suppressed|data not displayed|not (?:displayed|shown|listed)|free text|open text|any text|texte libre"
    r"|freitext|klartext|texto libre|various|see\s\S+)\b", re.I
)  # fmt: skip
_NO = ("", "n", "no", "0", "false")
_TIMES = f"{ISO} %H:%M:%S"  # of data bases; others of ISO are read beside it
_TIMES_TOO = (f"{ISO}T%H:%M:%S", ISO_TIME, f"{ISO} %H:%M", ISO)
_NO_FORMAT = "CHECK: the book has no format of {}; its cells are taken to be as 2000-12-31"
# In labels of REDCap's; not "<HS | >HS", which are words.
_MARKUP = re.compile(r"</?(?:[abiup]|br|div|em|font|h[1-6]|li|ol|span|strong|su[bp]|ul)\b[^<>|;]*>", re.I)
_COUNTED = "what rows hold is in the book (least, greatest, mean), and no public values or bounds"
_NO_COLUMNS = ("descriptive", "note")  # texts of a form
_STEP = re.compile(r"(?:begin|end)[ _](?:group|repeat)")  # of XLSForm


@dataclass
class _Said:
    """What is gathered of a column: its label, values or codes, bounds, and the format of its dates."""

    label: str
    codes: list[tuple[str, str]] = field(default_factory=list)
    lower: str | None = None
    upper: str | None = None
    layout: str = ""

    def take(self, codes: Codes, lower: str | None, upper: str | None) -> None:
        self.codes += codes
        self.lower, self.upper = self.lower or lower, self.upper or upper


Group = Sequence[Mapping[str, str]]


def described(name: str, group: Group) -> Iterator[Entry]:
    """The entries of a column: none for a text on a form, and several where a program exports several columns.

    Args:
        group: its rows; of each, what is said → the cell that says it (keys of `headings.CALLED`).
    """
    kind, label = _first(group, "type").lower(), _MARKUP.sub("", _first(group, "label") or _first(group, "longer"))
    asked = "required" in group[0] or "hidden" in group[0]
    absent = asked and (_first(group, "required").lower() in _NO or bool(_first(group, "hidden")))
    if kind in _NO_COLUMNS or _STEP.fullmatch(kind):
        return
    if _first(group, "identifier").lower() in ("y", "yes", "true", "1"):
        yield Entry(name, label, identifier=True)
    elif kind == "checkbox":
        for raw, words in _chosen(_MARKUP.sub("", _first(group, "choices"))):
            codes = [("0", "Unchecked"), ("1", "Checked")]
            of_choice = f"{name}___{re.sub('[^a-z0-9]', '_', raw.lower())}"
            yield Entry.of(of_choice, f"{label or name}: {words}", codes, missing=absent)
    elif kind.startswith("select_multiple "):
        several = "several answers in one cell; have the form's program export a column for each"
        yield Entry(name, label, remark=several, missing=absent)
    else:
        entry = _one(name, group, kind, label, absent)
        counted = entry.type is None and not entry.remark and bool(_first(group, "counted"))
        yield replace(entry, remark=_COUNTED) if counted else entry


def _first(group: Group, what: str) -> str:
    return next((cells[what] for cells in group if cells.get(what)), "")


def _all(group: Group, what: str) -> str:
    """What all rows say, as one list: a cell may go on in the row below."""
    said = [*dict.fromkeys(cells[what] for cells in group if cells.get(what))]
    mark = next((each for each in "|;,\n" if said and each in said[0]), "\n")
    return mark.join(each.strip(mark) for each in said) if len(said) > 1 else "".join(said)


def _one(name: str, group: Group, kind: str, label: str, absent: bool) -> Entry:
    said = _listed(group, kind, label)
    plainly = _take_rows(said, group)
    if plainly and _TIME_PATTERN.fullmatch(plainly[0].strip("()")):
        return Entry(name, said.label, remark=TIME_OF_DAY, missing=absent)
    if len(plainly) == 1:
        words = _first(group, "words")
        layout, rest = formats_in(plainly[0])
        if layout and not re.search(r"\w", rest):  # (DD/MM/YYYY)
            said.layout, said.codes = layout, []
        if _HIDDEN.match(plainly[0]) or (number_in(plainly[0]) is None and _HIDDEN.match(words)):
            said.codes = [pair for pair in said.codes if pair[0] != cell_of(plainly[0], words)]
    lower, upper = (bound_in(_first(group, end)) or own for end, own in (("lower", said.lower), ("upper", said.upper)))
    absent = absent or any(cells.get("beside", "") in ABSENT[1:] for cells in group)
    beside = [pair for cells in group for pair in beside_in(cells.get("beside", ""))]
    flagged = [cells for cells in group if cells.get("code") and absent_in(cells.get("absent", "")) == (True, [])]
    if flagged and len(group) > 1:  # of each value whether it is none
        beside += [(cell_of(cells["code"], words), words) for cells in flagged for words in [cells.get("words", "")]]
        lacks, more = absent_in("")
    else:
        lacks, more = absent_in(_first(group, "absent"))
    low, high, allowed = allowed_in(_first(group, "constraint"), whole=kind in ("integer", "int"))
    said.lower, said.upper, absent = lower or low, upper or high, absent or lacks
    return _typed(name, group, kind, said, absent, [*beside, *more, *allowed])


def _listed(group: Group, kind: str, label: str) -> _Said:
    """What is listed in a column's cells for choices and bounds, or else in its label."""
    # A formula of a computed field, and the words at a slider's ends, are no codes.
    choices = "" if kind in ("calc", "slider", "sql", "file") else _MARKUP.sub("", _all(group, "choices"))
    layout, choices = formats_in(choices)
    said = _Said(label, layout=layout)
    if kind in ("radio", "dropdown"):
        said.take(_chosen(choices), None, None)
    elif choices:
        said.take(*listed_in(choices.strip(" ,;:") if layout else choices))
    if not choices and not _first(group, "code"):
        worded = [words for cells in group if (words := cells.get("words"))]
        if len(worded) > 1:  # a row for each value, which has no other code
            said.codes = [(words, "") for words in worded]
            return said
        choices = "".join(worded)
        if choices and not _first(group, "label") and not any(words for _, words in listed_in(choices)[0]):
            said.label, choices = said.label or choices, ""  # words about the column
    if choices and not said.codes and said.lower is None:
        said.take(*listed_in(choices))
    if not choices and not any(_first(group, what) for what in _SAYING):
        longer = _first(group, "longer")
        for text, other in ((label, longer), (longer, label)):  # where these are all there is
            bare, listed = apart(text)
            if listed:
                said.label = other if text is longer else bare or other
                said.take(*listed_in(listed))
                break
    elif said.codes and not any(words for _, words in said.codes):
        _find_words(said, "" if _first(group, "code") else _first(group, "words"))
    codes, lower, upper = listed_in(_MARKUP.sub("", _first(group, "bounds")))
    said.take(codes, lower, upper)
    return said


_SAYING = ("code", "bounds", "lower", "upper", "check", "format", "constraint")  # what says more than a label


def _find_words(said: _Said, words: str) -> None:
    """The words of listed values, which are in a column of their own, or in the label."""
    before, words = (said.label, words) if listed_in(words)[0] else apart(said.label)
    found = dict(listed_in(words)[0]) if words else {}
    if {*found} >= {raw for raw, _ in said.codes}:
        said.label, said.codes = before, [(raw, found[raw]) for raw, _ in said.codes]


def _take_rows(said: _Said, group: Group) -> list[str]:
    """Add the codes, or the one range, that rows of a column have, each by itself; the codes as they are written."""
    plainly = [code for cells in group if (code := cells.get("code", "")) and not re.fullmatch(r"\.\w?", code)]
    pattern = len(plainly) == 1  # beside another code, n may be no
    ranges = [cell_span(cells.get("code", "")) for cells in group]
    for cells, between in zip(group, ranges, strict=True):
        code, words = cells.get("code", ""), cells.get("words", "")
        if between and between_codes(between):  # of codes, which are not all here
            continue
        if between and len(list(filter(None, ranges))) == 1:
            said.lower, said.upper = between
        elif BLANK.fullmatch(code) and cells.get("count") == "0":
            continue  # no cell is absent
        elif code and not (pattern and _PATTERN.fullmatch(code)):
            said.codes.append((cell_of(code, words), words))
        elif not code and words and len(group) > 1 and any(each.get("code") for each in group):
            said.codes.append(("", words))  # a value that is no cell, with words
    return plainly


def _typed(name: str, group: Group, kind: str, said: _Said, absent: bool, beside: list[tuple[str, str]]) -> Entry:
    """The entry of a column by the book's words for its type, its format and REDCap's check."""
    check = _first(group, "check").lower()
    ends = said.lower or None, said.upper or None
    entry = Entry.of(name, said.label, said.codes, missing=absent, absent=beside)
    if shown := _REDCAP_DATE.fullmatch(check):
        remark = f"REDCap shows {name} as {check}; its raw export has ISO dates, as declared here"
        return of_dates(entry, *ends, "", _REDCAP_LAYOUTS[shown[1]], remark)
    if _OF_TIME.fullmatch(kind) or _OF_TIME.fullmatch(check) or all(map(is_time_of_day, ends)):
        return Entry(name, said.label, remark=TIME_OF_DAY, missing=absent)
    typed = DATE.fullmatch(_first(group, "type"))
    written = said.layout or _first(group, "format") or (typed[2] if typed else _first(group, "type"))
    if typed and layout_in(written) is None:  # a label may have it, as Date of birth (DD/MM/YYYY), or a remark
        others = f"{_first(group, 'label')} {_first(group, 'remark')}"
        written = formats_in(written)[0] or written or formats_in(others)[0]
    if typed and ends == (None, None):
        ends = days_between(f"{said.label}, {_first(group, 'remark')}")
    if typed or layout_in(written) or (not written and like_dates(*ends)):
        timed = typed is not None and typed[1].lower() in ("datetime", "timestamp")
        dated = of_dates(entry, *ends, written, _TIMES if timed else ISO, "" if written else _NO_FORMAT.format(name))
        return replace(dated, also=_TIMES_TOO) if dated.type and dated.layout == _TIMES and not written else dated
    listed = said.codes
    if kind in ("boolean", "bool", "logical") and not listed:
        return of_truth(name, said.label, {}, absent, beside)
    if kind in ("yesno", "truefalse"):
        listed = [("1", "Yes"), ("0", "No")] if kind == "yesno" else [("1", "True"), ("0", "False")]
    if kind == "slider":
        ends = ends[0] or "0", ends[1] or "100"
    shown = _REDCAP_DECIMALS.fullmatch(check)
    places = float(shown[1]) if shown else number_in(_first(group, "decimals"))
    of_format = (decimals_in(_first(group, what)) for what in ("format", "type"))
    decimals = next((found for found in of_format if found is not None), None) if places is None else places
    whole = False if shown else True if check == "integer" or kind == "slider" or places == 0 else None
    called = (kind, _first(group, "measure"))
    return of_kind(
        name, said.label, listed, ends, called, missing=absent, absent=beside, whole=whole, decimals=decimals
    )


def _chosen(choices: str) -> list[tuple[str, str]]:
    """The choices of a REDCap field, one or many: "1, White | 2, Black"."""
    pairs = (each.partition(",") for each in choices.split("|"))
    return [(raw.strip(), words.strip() or raw.strip()) for raw, _, words in pairs if raw.strip()]
