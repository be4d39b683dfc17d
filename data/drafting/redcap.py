"""The data dictionary of a REDCap project, as a code book.

The dictionary is the CSV file that REDCap exports. The table must be a raw export of the project, which contains codes,
and dates such as 2024-12-31.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from equistrata.data.columns.column import number_in
from equistrata.data.columns.dates import ISO
from equistrata.data.drafting.column import NO_ANSWER, BookColumn, Code, CodeBook

NAME = "Variable / Field Name"
_CHOICES, _FORM = "Choices, Calculations, OR Slider Labels", "Text Validation Type OR Show Slider Number"
_STATUS = (("0", "Incomplete"), ("1", "Unverified"), ("2", "Complete"))
_TRUTH = {"yesno": (("1", "Yes"), ("0", "No")), "truefalse": (("1", "True"), ("0", "False"))}
_TIMES = {"date": ISO, "datetime": f"{ISO} %H:%M", "datetime_seconds": f"{ISO} %H:%M:%S"}
_HTML, _CODE = re.compile(r"<[^>]*>"), re.compile(r"[\w.-]+")


def read_redcap(rows: Sequence[Sequence[str]], _: str) -> CodeBook:
    """Return the columns of a raw export of the project.

    A checkbox has one column for each of its choices, such as `race___1`.
    """
    lines = [dict(zip(map(str.strip, rows[0]), map(str.strip, row), strict=False)) for row in rows[1:]]
    found: dict[str, BookColumn] = {}
    for place, line in enumerate(lines):
        identifies = place == 0 or line.get("Identifier?", "").casefold() == "y"
        found |= {each.name: replace(each, kind="id") if identifies else each for each in _columns(line)}
    forms = dict.fromkeys(f"{line['Form Name']}_complete" for line in lines if line.get("Form Name"))
    return CodeBook(found | {form: BookColumn(form, form, "nominal", _STATUS) for form in forms})


def _columns(line: Mapping[str, str]) -> Iterator[BookColumn]:
    kind, form, note = (line.get(key, "") for key in ("Field Type", _FORM, "Field Note"))
    branching = any(value for key, value in line.items() if key.startswith("Branching Logic"))
    label, codes = _HTML.sub("", line.get("Field Label", "")), _choices(line.get(_CHOICES, ""))
    noted = (f"the book notes: {note}",) if NO_ANSWER.search(note) else ()
    absent = branching or line.get("Required Field?", "").casefold() != "y"
    plain = BookColumn(line[NAME], label, remarks=noted, absent=absent, notes=note)
    texts = [line.get("Text Validation Min", ""), line.get("Text Validation Max", "")]
    lower, upper = map(number_in, texts)
    unread = noted + tuple(f"its bound {end} is not a number" for end in texts if end and number_in(end) is None)
    if kind in _TRUTH:
        yield replace(plain, kind="nominal", values=_TRUTH[kind])
    elif kind in ("radio", "dropdown", "checkbox") and not codes:
        yield replace(plain, remarks=("its choices could not be read",))
    elif kind in ("radio", "dropdown"):
        yield replace(plain, kind="nominal", values=codes)
    elif kind == "checkbox":
        for raw, words in codes:
            name = f"{plain.name}___{raw.lower().replace('-', '_')}"
            yield BookColumn(name, f"{label}: {words}", "nominal", (("0", "Unchecked"), ("1", "Checked")))
    elif kind == "slider":
        lower, upper = lower if texts[0] else 0, upper if texts[1] else 100
        yield replace(plain, kind="integer", lower=lower, upper=upper, remarks=unread)
    elif kind == "text" and (layout := _TIMES.get(form.rpartition("_")[0])):
        first, last = (text[:10] if re.match(r"\d{4}-\d{2}-\d{2}", text) else None for text in texts)
        yield replace(plain, kind="date", layout=layout, lower=first, upper=last)
    elif kind == "calc" or (kind == "text" and re.match("integer|number", form)):
        places = re.match(r"number_(\d+)dp", form)
        remarks = unread + ("its numbers have decimal commas",) * ("comma" in form)
        number = replace(plain, kind="integer" if form == "integer" else "number", remarks=remarks)
        yield replace(number, lower=lower, upper=upper, decimals=int(places[1]) if places else None)
    elif kind != "descriptive":
        yield replace(plain, kind="text")


def _choices(text: str) -> tuple[Code, ...]:
    """Return the codes and their labels in a text such as `1, Yes | 0, No`.

    The result is empty if one of the choices is not in this format, or if a code is repeated.
    """
    parts = [part.partition(",") for part in text.split("|")]
    found = {raw.strip(): _HTML.sub("", words) for raw, comma, words in parts if comma and _CODE.fullmatch(raw.strip())}
    return tuple(found.items()) if len(found) == len(parts) else ()
