"""CSV code books: dictionaries with a row for each column or value, REDCap's and the ACS's."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from equistrata.data.columns.column import number_in
from equistrata.data.drafting.cells.choices import listed_in
from equistrata.data.drafting.entries import Entry
from equistrata.data.drafting.headings import CALLED, further, of_lists, placed, plain
from equistrata.data.drafting.rows.described import described
from equistrata.data.drafting.rows.lists import Part, cells_of, lists_of, with_lists
from equistrata.data.drafting.spans import cell_span
from equistrata.errors import InputError

_SAID = ("name", "code", "words")  # cells in which a dash may be meant
_DASH = re.compile(r"[-–—]+")  # for nothing
# Beside a least and a greatest value: so these are what rows hold.
_STATISTICS = ("mean", "average", "avg", "median", "sd", "std", "stddev", "stdev", "standarddeviation", "mittelwert",
               "media", "mediana", "moyenne", "mediane")  # fmt: skip
_ABSENT_WORDS = ("label", "longer", "remark", "type", "format")  # in which NA, as R writes it, is nothing
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
    if of_lists(place):
        return place
    place = place if "check" in place else {what: at for what, at in place.items() if what != "form"}  # REDCap's alone
    if "code" not in place and "choices" in place and _in_rows(rows, place):
        place = {"code" if what == "choices" else what: at for what, at in place.items()}
    if {"code", "name"} <= {*place} and _no_codes(rows, place):
        place = {what: at for what, at in place.items() if what != "code"}
    if counted := [at for at, name in enumerate(map(plain, header)) if name in _STATISTICS]:
        counted += [at for what, at in place.items() if what in ("lower", "upper")]
        place = {what: at for what, at in place.items() if what not in ("lower", "upper")} | {"counted": counted[-1]}
    if "label" in place:
        names = map(plain, header)
        others = [at for at, name in enumerate(names) if name in CALLED["label"] and at not in place.values()]
        # "value" and "label" in one row for each value, or in one row for each column
        further = "words" if "code" in place and "words" not in place else "longer"
        place |= {further: others[0]} if others else {}
    return place


def _no_codes(rows: Sequence[Sequence[str]], place: Mapping[str, int]) -> bool:
    """Whether what is called a code (as "level") is a kind of columns: one for each, alone or beside their values."""
    said = [cells_of(row, {what: place[what] for what in ("name", "code")}) for row in rows]
    names = [cells["name"] for cells in said if cells["name"]]
    codes = [cells["code"] for cells in said if cells["code"]]
    once = len({*names}) == len(names) == len(said) and len({*codes}) < len(codes)
    beside = bool({"choices", "bounds"} & {*place})
    return (
        once and (beside or "words" not in place) and not any(cell_span(code) or listed_in(code)[0] for code in codes)
    )


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
    lists = lists_of([part for part in parts if of_lists(part[1])])
    parts = [part for part in parts if not of_lists(part[1])]
    groups: dict[str, list[dict[str, str]]] = {}
    for rows, place in parts:
        name = ""
        for row in rows:
            cells = cells_of(row, place)
            cells |= {what: "" for what, cell in cells.items() if what not in _SAID and _DASH.fullmatch(cell)}
            cells |= {what: "" for what in _ABSENT_WORDS if cells.get(what) == "NA"}
            name = cells["name"] or name  # the first row of a group may alone have the name
            groups.setdefault(name, []).append(cells)
    # Of one label column in a row for each value.
    worded = any("words" in place for _, place in parts)
    of_values = not worded and any(len(group) > 1 for group in groups.values())
    for name, group in groups.items():
        yield from described(name, with_lists(_told_apart(group) if of_values else group, lists))
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
