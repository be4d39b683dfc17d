"""CSV code books: dictionaries with a row for each column or value, REDCap's and the ACS's."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from equistrata.data.columns.column import ABSENT, number_in
from equistrata.data.columns.dates import ISO, ISO_TIME, TIME_OF_DAY, is_time_of_day
from equistrata.data.drafting.choices import BLANK, beside_in, cell_of, listed_in
from equistrata.data.drafting.entries import Codes, Entry
from equistrata.data.drafting.headings import CALLED, further, placed, plain
from equistrata.data.drafting.spans import between_codes, bound_in, cell_span
from equistrata.data.drafting.terms import (
    DATE,
    absent_in,
    apart,
    decimals_in,
    layout_in,
    like_dates,
    of_dates,
    of_kind,
    of_truth,
)
from equistrata.errors import InputError

Part = tuple[Sequence[Sequence[str]], Mapping[str, int]]  # rows, and where in them the columns of a dictionary are

_OF_TIME = re.compile("time(_hh_mm_ss|_mm_ss)?|timeofday|time of day")  # a type of a book, or a check of REDCap's
_REDCAP_DATE = re.compile(
    r"(date|datetime|datetime_seconds)_(?:ymd|dmy|mdy)"
)  # how it is shown, not how it is exported
_REDCAP_DECIMALS = re.compile(r"number_(\d)dp(?:_comma_decimal)?")
_REDCAP_LAYOUTS = {"date": ISO, "datetime": f"{ISO} %H:%M", "datetime_seconds": f"{ISO} %H:%M:%S"}
_SAID = ("name", "code", "words")  # cells in which a dash may be meant
_DASH = re.compile(r"[-–—]+")  # for nothing
_PATTERN = re.compile(r"n+(?:\.n+)?|x+|n{1,3}/n{1,3}|9\(\d+\)")  # how a number is written, and no value
_TIME_PATTERN = re.compile(r"hh:?mm(?::?ss)?", re.I)
# What a book has instead of values.
_HIDDEN = re.compile(
    r"(?:hidden|suppressed|data not displayed|not (?:displayed|shown|listed)|free text|open text|any text|texte libre"
    r"|freitext|klartext|texto libre|various|see (?:below|above|page|appendix|list))\b", re.I
)  # fmt: skip
_NO = ("", "n", "no", "0", "false")
# In labels of REDCap's; not "<HS | >HS", which are words.
_MARKUP = re.compile(r"</?(?:[abiup]|br|div|em|font|h[1-6]|li|ol|span|strong|su[bp]|ul)\b[^<>|;]*>", re.I)
_BLANK = re.compile("b+", re.I)  # how the ACS writes an absent cell


def from_csv(text: str, where: str, wanted: Collection[str] = ()) -> Iterator[Entry]:
    """Its entries. Raises InputError if it is not well-formed CSV.

    Args:
        wanted: columns of the table, as `plain_name` writes them, by which the column of names is known.
    """
    tables = [table for mark in ",;\t|" if (table := _cells(text, mark)) is not None]
    if not tables:
        raise InputError(f"{where} is not well-formed CSV; save it again")
    if any(rows and _is_acs(rows[0]) for rows in tables):
        return _acs(next(rows for rows in tables if rows and _is_acs(rows[0])))
    rows, (at, place) = max(((rows, placed(rows, wanted)) for rows in tables), key=lambda headed: len(headed[1][1]))
    return from_rows(rows, at, place) if place else iter(())


def from_rows(rows: Sequence[Sequence[str]], at: int, place: dict[str, int]) -> Iterator[Entry]:
    """The entries of a dictionary of which the columns are known (`headings.placed`).

    Args:
        at: its first row that is no heading.
    """
    return by_rows(parts_of(rows, at, place))


def parts_of(rows: Sequence[Sequence[str]], at: int, place: dict[str, int]) -> list[Part]:
    """The rows of a dictionary and where its columns are, as `from_rows`: of each table below another by itself."""
    starts = [(at, place), *further(rows, at)]
    ends = [*(start - 1 for start, _ in starts[1:]), len(rows)]
    parts = list[Part]()
    for (start, each), end in zip(starts, ends, strict=True):
        part = rows[start:end]
        parts.append((part, _settled(rows[start - 1] if start else [], part, each)))
    return parts


def _settled(header: Sequence[str], rows: Sequence[Sequence[str]], place: dict[str, int]) -> dict[str, int]:
    """The columns of a part of a dictionary, where a heading alone does not say what is below it."""
    place = place if "check" in place else {what: at for what, at in place.items() if what != "form"}  # REDCap's alone
    if "code" not in place and "choices" in place and _in_rows(rows, place):
        place = {"code" if what == "choices" else what: at for what, at in place.items()}
    # "value" and "label" in one row for each value, or in one row for each column
    if "code" in place and "words" not in place and "label" in place:
        names = map(plain, header)
        others = [at for at, name in enumerate(names) if name in CALLED["label"] and at != place["label"]]
        place |= {"words": others[0]} if others else {}
    return place


def _cells(text: str, delimiter: str) -> list[list[str]] | None:
    """The rows of a CSV file that are not blank; None if it has none by this delimiter."""
    try:
        rows = csv.reader(io.StringIO(text), delimiter=delimiter)
        return [row for row in rows if any(cell.strip() for cell in row)]
    except csv.Error:
        return None


def _is_acs(row: Sequence[str]) -> bool:
    return row[0] == "VAL" or (row[0] == "NAME" and row[2:3] in (["C"], ["N"]))


def _in_rows(rows: Sequence[Sequence[str]], place: Mapping[str, int]) -> bool:
    """Whether a book has one value in each cell of its values, and a row for each."""
    name, found = "", dict[str, list[str]]()
    for row in rows:
        cell, own = (row[at].strip() if at < len(row) else "" for at in (place["choices"], place["name"]))
        name = own or name
        if cell:
            found.setdefault(name, []).append(cell)
    several = [cells for cells in found.values() if len({*cells}) > 1]
    return bool(several) and not any(len(listed_in(cell)[0]) > 1 for cells in several for cell in cells)


def by_rows(parts: Sequence[Part]) -> Iterator[Entry]:
    """The entries of parts of a dictionary; rows of one name are of one column, in whichever parts they are."""
    groups: dict[str, list[dict[str, str]]] = {}
    for rows, place in parts:
        name = ""
        for row in rows:
            cells = {what: row[at].strip() if at < len(row) else "" for what, at in place.items()}
            cells |= {what: "" for what, cell in cells.items() if what not in _SAID and _DASH.fullmatch(cell)}
            name = cells["name"] or name  # the first row of a group may alone have the name
            groups.setdefault(name, []).append(cells)
    # Of one label column in a row for each value.
    worded = any("words" in place for _, place in parts)
    of_values = not worded and any(len(group) > 1 for group in groups.values())
    for name, group in groups.items():
        group = _told_apart(group) if of_values else group

        def first(what: str, group: list[dict[str, str]] = group) -> str:
            return next((cells[what] for cells in group if cells.get(what)), "")

        yield from _of_cells(name, group, first)
    for form in dict.fromkeys(cells["form"] for group in groups.values() for cells in group if cells.get("form")):
        codes = [("0", "Incomplete"), ("1", "Unverified"), ("2", "Complete")]
        entry = Entry.of(f"{form}_complete", f"Form {form}", codes, ordered=True)
        yield replace(entry, implied=True)  # in every export of REDCap's


def _told_apart(group: list[dict[str, str]]) -> list[dict[str, str]]:
    """The rows of one column, with words of values apart from the label of the column.

    A label is the column's where it stands in a row without a value, in the first row alone, or in all of them.
    """
    said = [cells.get("label", "") for cells in group if cells.get("code")]
    own = any(cells.get("label") for cells in group if not cells.get("code"))
    alike = len(said) > 1 and (len({*said}) == 1 or not any(said[1:]))
    span = len(said) == 1 and any(cell_span(cells.get("code", "")) for cells in group)
    if not own and (alike or span):
        return group
    return [cells | {"words": cells.get("label", ""), "label": ""} if cells.get("code") else cells for cells in group]


def _of_cells(name: str, group: Sequence[Mapping[str, str]], first: Callable[[str], str]) -> Iterator[Entry]:
    check, kind, label = first("check").lower(), first("type").lower(), _MARKUP.sub("", first("label"))
    asked = "required" in group[0] or "hidden" in group[0]
    absent = asked and (first("required").lower() in _NO or bool(first("hidden")))
    if kind == "descriptive":  # a text on a form of REDCap's, and no column
        return
    if first("identifier").lower() in ("y", "yes", "true", "1"):
        yield Entry(name, label, identifier=True)
        return
    if kind == "checkbox":
        for raw, words in _chosen(_MARKUP.sub("", first("choices"))):
            codes = [("0", "Unchecked"), ("1", "Checked")]
            of_choice = f"{name}___{re.sub('[^a-z0-9]', '_', raw.lower())}"
            yield Entry.of(of_choice, f"{label or name}: {words}", codes, missing=absent)
        return
    # A formula of a computed field, and the words at a slider's ends, are no codes.
    choices = "" if kind in ("calc", "slider", "sql", "file") else _MARKUP.sub("", first("choices"))
    lower = upper = None
    chosen: Codes = []
    if kind in ("radio", "dropdown"):
        chosen = _chosen(choices)
    elif choices:
        chosen, lower, upper = listed_in(choices)
    choices = choices or ("" if first("code") else first("words"))
    if choices and not chosen and lower is None:
        chosen, lower, upper = listed_in(choices)
    if not choices and not any(first(what) for what in ("code", "bounds", "lower", "upper", "check", "format")):
        label, choices = apart(label)  # where the label is all there is
        chosen, lower, upper = listed_in(choices) if choices else (chosen, lower, upper)
    elif chosen and not any(words for _, words in chosen):
        said = "" if first("code") else first("words")  # in a column of its own, or in the label
        before, said = (label, said) if listed_in(said)[0] else apart(label)
        of_label = dict(listed_in(said)[0]) if said else {}
        if {*of_label} >= {raw for raw, _ in chosen}:
            label, chosen = before, [(raw, of_label[raw]) for raw, _ in chosen]
    listed = [*chosen]
    more, *ends = listed_in(_MARKUP.sub("", first("bounds")))
    listed, lower, upper = [*listed, *more], lower or ends[0], upper or ends[1]
    plainly = [code for cells in group if (code := cells.get("code", "")) and not re.fullmatch(r"\.\w?", code)]
    pattern = len(plainly) == 1  # beside another code, n may be no
    ranges = [cell_span(cells.get("code", "")) for cells in group]
    for cells, between in zip(group, ranges, strict=True):
        if between and between_codes(between):  # of codes, which are not all here
            continue
        if between and len(list(filter(None, ranges))) == 1:
            lower, upper = between
        elif BLANK.fullmatch(cells.get("code", "")) and cells.get("count") == "0":
            continue  # no cell is absent
        elif (code := cells.get("code", "")) and not (pattern and _PATTERN.fullmatch(code)):
            listed.append((cell_of(code, cells.get("words", "")), cells.get("words", "")))
        elif not code and cells.get("words") and len(group) > 1 and any(each.get("code") for each in group):
            listed.append(("", cells["words"]))  # a value that is no cell, with words
    if len(plainly) == 1 or (plainly and _TIME_PATTERN.fullmatch(plainly[0])):
        if _TIME_PATTERN.fullmatch(plainly[0]):
            yield Entry(name, label, remark=TIME_OF_DAY, missing=absent)
            return
        if _HIDDEN.match(plainly[0]) or (number_in(plainly[0]) is None and _HIDDEN.match(first("words"))):
            listed = [pair for pair in listed if pair[0] != cell_of(plainly[0], first("words"))]
    lower, upper = bound_in(first("lower")) or lower, bound_in(first("upper")) or upper
    absent = absent or any(cells.get("beside", "") in ABSENT[1:] for cells in group)
    beside = [pair for cells in group for pair in beside_in(cells.get("beside", ""))]
    lacks, more = absent_in(first("absent"))
    absent, beside = absent or lacks, [*beside, *more]
    entry = Entry.of(name, label, listed, missing=absent, absent=beside)
    if shown := _REDCAP_DATE.fullmatch(check):
        remark = f"REDCap shows {name} as {check}; its raw export has ISO dates, as declared here"
        yield of_dates(entry, lower or None, upper or None, "", _REDCAP_LAYOUTS[shown[1]], remark)
        return
    if _OF_TIME.fullmatch(kind) or _OF_TIME.fullmatch(check) or all(map(is_time_of_day, (lower, upper))):
        yield Entry(name, label, remark=TIME_OF_DAY, missing=absent)
        return
    typed, written = DATE.fullmatch(first("type")), first("format")
    given = written or (typed[2] if typed else first("type"))
    if typed and not given:  # a label may have it: Date of birth (DD/MM/YYYY)
        given = next((each for each in re.findall(r"[(\[]([^()\[\]]+)[)\]]", label) if layout_in(each)), "")
    if typed or layout_in(given) or (not given and like_dates(lower or None, upper or None)):
        usual = ISO if typed is None or typed[1].lower() not in ("datetime", "timestamp") else ISO_TIME
        remark = "" if given else f"CHECK: the book has no format of {name}; its cells are taken to be as 2000-12-31"
        yield of_dates(entry, lower or None, upper or None, given, usual, remark)
        return
    if kind in ("boolean", "bool", "logical") and not listed:
        yield of_truth(name, label, {}, absent, beside)
        return
    if kind in ("yesno", "truefalse"):
        listed = [("1", "Yes"), ("0", "No")] if kind == "yesno" else [("1", "True"), ("0", "False")]
    if kind == "slider":
        lower, upper = lower or "0", upper or "100"
    places = number_in(first("decimals"))
    if shown := _REDCAP_DECIMALS.fullmatch(check):
        places = int(shown[1])
    of_format = next((found for what in ("format", "type") if (found := decimals_in(first(what))) is not None), None)
    whole = True if check == "integer" or kind == "slider" or places == 0 else None
    whole = False if shown else whole
    bounds, decimals = (lower or None, upper or None), of_format if places is None else places
    called = (kind, first("measure"))
    yield of_kind(name, label, listed, bounds, called, missing=absent, absent=beside, whole=whole, decimals=decimals)


def _chosen(choices: str) -> list[tuple[str, str]]:
    """The choices of a REDCap field, one or many: "1, White | 2, Black"."""
    pairs = (each.partition(",") for each in choices.split("|"))
    return [(raw.strip(), words.strip() or raw.strip()) for raw, _, words in pairs if raw.strip()]


def _acs(rows: Sequence[Sequence[str]]) -> Iterator[Entry]:
    """The Census Bureau's: NAME,AGEP,N,2,Age and VAL,AGEP,N,2,1,99,1 to 99 years."""
    labels = {row[1]: row[4] for row in rows if row[0] == "NAME" and len(row) > 4}
    values: dict[str, list[Sequence[str]]] = {name: [] for name in labels}
    for row in rows:
        if row[0] == "VAL" and len(row) > 6:
            values.setdefault(row[1], []).append(row)
    for name, found in values.items():
        absent = any(_BLANK.fullmatch(row[4]) for row in found)
        plain = [row for row in found if not _BLANK.fullmatch(row[4])]
        spans = [row for row in plain if row[4] != row[5] and None not in (number_in(row[4]), number_in(row[5]))]
        ends = [number for row in spans for number in (number_in(row[4]), number_in(row[5])) if number is not None]
        lower, upper = (min(ends), max(ends)) if ends else (None, None)
        # A range of texts, as of ids, is no value.
        codes = [(_code(row), row[6]) for row in plain if row not in spans and row[4] == row[5]]
        whole = (all(row[2] == "N" for row in spans) and all(end.is_integer() for end in ends)) or None
        yield Entry.of(name, labels.get(name, ""), codes, lower, upper, whole=whole, missing=absent)


def _code(row: Sequence[str]) -> str:
    """A code of type N is a number: the file has 1 where the book has 01."""
    number = number_in(row[4]) if row[2] == "N" else None
    return str(int(number)) if number is not None and number.is_integer() else row[4]
